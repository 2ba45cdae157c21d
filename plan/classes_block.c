/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of a source: its programs are read in order, each is checked by itself, and those of
 * one host are held together until the next host's are wanted.
 */
#include "verify_classes.h"

#include <string.h>

static uint64_t program_digest(const struct plan_rank *program)
{
    uint64_t parts[5] = {
        peal_hash64(program->lanes, program->nlanes * sizeof *program->lanes),
        peal_hash64(program->steps, program->nsteps * sizeof *program->steps),
        peal_hash64(program->operands, program->noperands * sizeof *program->operands),
        program->host, 0};
    uint64_t digest = peal_hash64(parts, sizeof parts);
    return digest ? digest : 1;
}

/* Checks a program when it is first seen; later it must be the same again. */
static peal_status check_program(struct classes *c, uint32_t rank, const struct plan_slice *slice)
{
    if (!c->digest[rank]) {
        PEAL_TRY(peal_plan_check_slice(c->head, rank, slice, c->diag));
        peal_verify_check_slice(c->head, c->tile_bytes, rank, slice, c->signals_to, c->out);
        c->digest[rank] = program_digest(&slice->program);
        return PEAL_OK;
    }
    if (c->digest[rank] != program_digest(&slice->program))
        return peal_fail(c->diag, PEAL_ERR_PLAN, "rank %u's program changes as it is read", rank);
    return PEAL_OK;
}

static peal_status grow_block(struct block *block, peal_ctx *ctx, uint32_t need)
{
    uint32_t before = block->capacity, splits = block->splits_capacity;
    PEAL_TRY(peal_grow(ctx, (void **)&block->program, &block->capacity, need,
                       sizeof *block->program, PLAN_RANKS_MAX + 1));
    memset(block->program + before, 0, (block->capacity - before) * sizeof *block->program);
    PEAL_TRY(peal_grow(ctx, (void **)&block->split, &block->splits_capacity, need,
                       sizeof *block->split, PLAN_RANKS_MAX + 1));
    memset(block->split + splits, 0, (block->splits_capacity - splits) * sizeof *block->split);
    return PEAL_OK;
}

static peal_status read_program(struct classes *c, uint32_t rank, uint32_t at)
{
    const struct plan_slice *slice;
    PEAL_TRY(grow_block(&c->block, c->ctx, at + 1));
    PEAL_TRY(c->source->read(c->source->user, rank, &slice));
    PEAL_TRY(check_program(c, rank, slice));
    return peal_plan_copy_program(c->ctx, &c->block.program[at], &slice->program);
}

/* The program that was read ahead becomes the first of the block. */
static void take_ahead(struct block *block)
{
    struct plan_rank program = block->program[block->count];
    block->program[block->count] = block->program[0];
    block->program[0] = program;
    block->ahead = 0;
}

peal_status peal_classes_read_block(struct classes *c, uint32_t first)
{
    struct block *block = &c->block;
    if (block->ahead && first == block->first + block->count)
        take_ahead(block);
    else
        PEAL_TRY(read_program(c, first, 0));
    block->first = first;
    block->count = 1;
    block->ahead = 0;
    while (first + block->count < c->head->nranks && !block->ahead) {
        PEAL_TRY(read_program(c, first + block->count, block->count));
        if (block->program[block->count].host == block->program[0].host)
            block->count++;
        else
            block->ahead = 1;
    }
    for (uint32_t i = 0; i < block->count && !c->out->findings; i++)
        PEAL_TRY(peal_classes_split(c, first + i, first, block->count, &block->program[i],
                                    &block->split[i]));
    return PEAL_OK;
}

static void free_program(peal_ctx *ctx, struct plan_rank *rank)
{
    peal_free(ctx, rank->lanes, rank->lanes_capacity * sizeof *rank->lanes);
    peal_free(ctx, rank->steps, rank->steps_capacity * sizeof *rank->steps);
    peal_free(ctx, rank->operands, rank->operands_capacity * sizeof *rank->operands);
}

void peal_classes_free_block(struct classes *c)
{
    for (uint32_t i = 0; i < c->block.capacity; i++)
        free_program(c->ctx, &c->block.program[i]);
    for (uint32_t i = 0; i < c->block.splits_capacity; i++) {
        struct split *split = &c->block.split[i];
        peal_free(c->ctx, split->over, split->over_capacity * sizeof *split->over);
        peal_free(c->ctx, split->back, split->back_capacity * sizeof *split->back);
    }
    peal_free(c->ctx, c->block.program, c->block.capacity * sizeof *c->block.program);
    peal_free(c->ctx, c->block.split, c->block.splits_capacity * sizeof *c->block.split);
}

/* ---- rails ------------------------------------------------------------------ */

static peal_status new_rail(struct classes *c, struct split_group *group)
{
    PEAL_TRY(peal_grow(c->ctx, (void **)&c->rails, &c->rails_capacity, (size_t)c->nrails + 1,
                       sizeof *c->rails, 1u << 16));
    struct rail *rail = &c->rails[c->nrails];
    *rail = (struct rail){.chunks = group->chunks};
    group->rail = c->nrails++;
    rail->region_used = peal_calloc(c->ctx, (size_t)c->head->nregions + 1, 1);
    rail->region_name = peal_calloc(c->ctx, (size_t)c->head->nregions + 1, sizeof(uint32_t));
    rail->sem_used = peal_calloc(c->ctx, PLAN_SEMS_MAX, 1);
    rail->sem_name = peal_calloc(c->ctx, PLAN_SEMS_MAX, sizeof(uint32_t));
    return rail->region_used && rail->region_name && rail->sem_used && rail->sem_name
               ? PEAL_OK
               : PEAL_ERR_MEMORY;
}

static peal_status note_chunk(struct classes *c, uint32_t rank, const struct split_group *group,
                              uint32_t chunk)
{
    if (!c->nblocks && c->rail_of[chunk] == CLASSES_NONE)
        c->rail_of[chunk] = group->rail;
    if (c->rail_of[chunk] == group->rail)
        return PEAL_OK;
    return peal_classes_refuse(c, "rank %u carries chunk %u on another rail than the first host",
                               rank, chunk);
}

static peal_status note_step(struct classes *c, uint32_t rank, const struct plan_rank *program,
                             const struct plan_step *step, const struct split_group *group)
{
    struct rail *rail = &c->rails[group->rail];
    if (step->op == PLAN_SIGNAL || step->op == PLAN_WAIT)
        rail->sem_used[step->sem] = 1;
    if (!peal_plan_op_moves(step->op))
        return PEAL_OK;
    for (uint32_t k = 0; k < (uint32_t)step->nsrc + step->ndst; k++) {
        const struct plan_operand *operand = &program->operands[step->operands + k];
        if (operand->buffer == PLAN_BUF_SCRATCH)
            rail->region_used[operand->index] = 1;
    }
    return note_chunk(c, rank, group, step->chunk);
}

static peal_status note_lanes(struct classes *c, uint32_t i)
{
    const struct plan_rank *program = &c->block.program[i];
    const struct split *split = &c->block.split[i];
    for (uint32_t l = 0; l < split->lanes; l++) {
        const struct plan_lane *lane = &program->lanes[l];
        if (split->group[l] == CLASSES_INNER)
            continue;
        for (uint32_t s = 0; s < lane->pre + lane->body + lane->post; s++)
            PEAL_TRY(note_step(c, c->block.first + i, program, &program->steps[lane->first + s],
                               &split->of[split->group[l]]));
    }
    return PEAL_OK;
}

/* The rail of each group of a rank, and its chunks. */
static peal_status name_groups(struct classes *c, uint32_t i)
{
    struct split *split = &c->block.split[i];
    uint32_t rank = c->block.first + i;
    for (uint32_t g = 0; g < split->groups; g++) {
        struct split_group *group = &split->of[g];
        uint32_t chunk = split->over[group->first].chunk;
        group->rail = c->rail_of[chunk];
        if (!c->nblocks && group->rail == CLASSES_NONE)
            PEAL_TRY(new_rail(c, group));
        if (group->rail == CLASSES_NONE || c->rails[group->rail].chunks != group->chunks)
            return peal_classes_refuse(
                c, "rank %u does not carry the chunks of the rail of chunk %u", rank, chunk);
    }
    return note_lanes(c, i);
}

static peal_status set_members(struct classes *c)
{
    size_t row = (size_t)c->nblocks * c->nrails;
    PEAL_TRY(peal_grow(c->ctx, (void **)&c->member, &c->member_capacity, row + c->nrails,
                       sizeof *c->member, 1u << 30));
    uint32_t *member = c->member + row;
    for (uint32_t p = 0; p < c->nrails; p++)
        member[p] = CLASSES_NONE;
    for (uint32_t i = 0; i < c->block.count; i++)
        for (uint32_t g = 0; g < c->block.split[i].groups; g++) {
            uint32_t rail = c->block.split[i].of[g].rail;
            if (member[rail] != CLASSES_NONE)
                return peal_classes_refuse(c, "ranks %u and %u of one host carry the same chunks",
                                           member[rail], c->block.first + i);
            member[rail] = c->block.first + i;
        }
    for (uint32_t p = 0; p < c->nrails; p++)
        if (member[p] == CLASSES_NONE)
            return peal_classes_refuse(c, "the host of rank %u has no part in a rail",
                                       c->block.first);
    return PEAL_OK;
}

/* ranks of later reads know their rails by then. */
peal_status peal_classes_find_rails(struct classes *c)
{
    for (uint32_t i = 0; i < c->block.count; i++)
        PEAL_TRY(name_groups(c, i));
    if (!c->nrails)
        return peal_classes_refuse(c, "no lane runs between hosts");
    return set_members(c);
}

peal_status peal_classes_name_rails(struct classes *c)
{
    for (uint32_t chunk = 0; chunk < c->head->nchunks; chunk++)
        if (c->rail_of[chunk] == CLASSES_NONE)
            return peal_classes_refuse(c, "chunk %u does not pass between hosts", chunk);
    for (uint32_t p = 0; p < c->nrails; p++) {
        struct rail *rail = &c->rails[p];
        uint32_t sems = 2; /* behind those that hand over and back */
        rail->chunks = 0;
        for (uint32_t i = 0; i < c->head->nregions; i++)
            rail->region_name[i] = rail->region_used[i] ? rail->regions++ : CLASSES_NONE;
        for (uint32_t i = 0; i < PLAN_SEMS_MAX; i++)
            rail->sem_name[i] = rail->sem_used[i] ? sems++ : CLASSES_NONE;
    }
    for (uint32_t chunk = 0; chunk < c->head->nchunks; chunk++)
        c->chunk_name[chunk] = c->rails[c->rail_of[chunk]].chunks++;
    return PEAL_OK;
}
