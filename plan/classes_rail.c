/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system of a rail: an allreduce among its members, one of each block, of what the blocks hand
 * over. A lane for each member stores it, and another takes the result back. Members of other
 * rails are compared as the programs go by; those that do the same need no proof of their own.
 */
#include "verify_classes.h"

#include <stdio.h>
#include <string.h>

struct outer {
    struct classes *c;
    uint32_t rail;            /* that is being proven */
    uint32_t at;              /* the block */
    struct peal_plan *plan;   /* its system */
    struct peal_plan *member; /* of the present block, the program of each rail's member */
};

/* ---- a member's lanes, in the names of its rail ---------------------------------- */

/* The block in which `rank` is the rail's member. */
static peal_status name_rank(const struct outer *o, uint32_t rail, uint32_t self, uint32_t rank,
                             uint32_t *name)
{
    struct classes *c = o->c;
    *name = c->block_of[rank];
    if (c->member[(size_t)*name * c->nrails + rail] == rank)
        return PEAL_OK;
    return peal_classes_refuse(c, "rank %u reaches rank %u, which carries other chunks", self,
                               rank);
}

static uint32_t name_sem(const struct outer *o, const struct split_group *group, uint32_t self,
                         const struct plan_step *step)
{
    if (step->peer == self && step->sem == group->over)
        return 0;
    if (step->peer == self && step->sem == group->back)
        return 1;
    return o->c->rails[group->rail].sem_name[step->sem];
}

static peal_status name_operand(const struct outer *o, const struct split_group *group,
                                uint32_t self, struct plan_operand *operand)
{
    const struct rail *rail = &o->c->rails[group->rail];
    PEAL_TRY(name_rank(o, group->rail, self, operand->rank, &operand->rank));
    operand->link = PLAN_NO_LINK;
    operand->index = operand->buffer >= PLAN_BUF_SCRATCH ? rail->region_name[operand->index]
                                                         : o->c->chunk_name[operand->index];
    return PEAL_OK;
}

static peal_status copy_step(const struct outer *o, const struct split_group *group, uint32_t self,
                             const struct plan_rank *program, const struct plan_step *step)
{
    struct plan_operand operands[2 * PLAN_OPERANDS_MAX];
    struct plan_step copy = *step;
    if (step->op == PLAN_SIGNAL || step->op == PLAN_WAIT) {
        PEAL_TRY(name_rank(o, group->rail, self, step->peer, &copy.peer));
        copy.sem = (uint16_t)name_sem(o, group, self, step);
    }
    for (uint32_t k = 0; k < (uint32_t)step->nsrc + step->ndst; k++) {
        operands[k] = program->operands[step->operands + k];
        PEAL_TRY(name_operand(o, group, self, &operands[k]));
    }
    if (peal_plan_op_moves(step->op))
        copy.chunk = o->c->chunk_name[step->chunk];
    return peal_reduced_step(o->member, group->rail, &copy, operands);
}

static peal_status copy_lane(const struct outer *o, uint32_t i, uint32_t l)
{
    const struct plan_rank *program = &o->c->block.program[i];
    const struct plan_lane *lane = &program->lanes[l];
    const struct split *split = &o->c->block.split[i];
    const struct split_group *group = &split->of[split->group[l]];
    PEAL_TRY(peal_reduced_lane(o->member, group->rail));
    struct plan_rank *to = &o->member->ranks[group->rail];
    struct plan_lane *copy = &to->lanes[to->nlanes - 1];
    *copy = (struct plan_lane){copy->first, lane->pre, lane->body, lane->post};
    for (uint32_t s = 0; s < lane->pre + lane->body + lane->post; s++)
        PEAL_TRY(
            copy_step(o, group, o->c->block.first + i, program, &program->steps[lane->first + s]));
    return PEAL_OK;
}

/* The host's values come from the input, which the rail itself never names. What it gives back is
 * read, and may still be read by the rail. */
static peal_status copy_host(const struct outer *o, const struct split *split,
                             const struct split_group *group)
{
    const struct split_turn *over = split->over + group->first, *end = over + group->chunks;
    const struct split_turn *back = split->back + group->first, *last = back + group->chunks;
    uint32_t p = group->rail, name = o->at, sink = o->plan->nregions - 1;
    PEAL_TRY(peal_reduced_lane(o->member, p));
    for (uint32_t t = 0; t < group->overs; t++) {
        for (; over < end && over->turn == t; over++)
            PEAL_TRY(peal_reduced_store(o->member, p, name, o->c->chunk_name[over->chunk]));
        PEAL_TRY(peal_reduced_signal(o->member, p, name, 0));
    }
    PEAL_TRY(peal_reduced_lane(o->member, p));
    for (uint32_t t = 0; t < group->backs; t++) {
        PEAL_TRY(peal_reduced_wait(o->member, p, name, 1));
        for (; back < last && back->turn == t; back++)
            PEAL_TRY(peal_reduced_look(o->member, p, name, o->c->chunk_name[back->chunk], sink));
    }
    return PEAL_OK;
}

static int wanted(const struct outer *o, uint32_t rail)
{
    return !o->c->rails[rail].proven && !o->c->rails[rail].differs;
}

/* The programs of the block's members of all rails that are yet to be proven. */
static peal_status copy_members(const struct outer *o)
{
    struct classes *c = o->c;
    for (uint32_t p = 0; p < c->nrails; p++) {
        struct plan_rank *member = &o->member->ranks[p];
        member->nlanes = member->nsteps = member->noperands = 0;
    }
    for (uint32_t i = 0; i < c->block.count; i++) {
        struct split *split = &c->block.split[i];
        for (uint32_t g = 0; g < split->groups; g++)
            split->of[g].rail = c->rail_of[split->over[split->of[g].first].chunk];
        for (uint32_t l = 0; l < split->lanes; l++)
            if (split->group[l] != CLASSES_INNER && wanted(o, split->of[split->group[l]].rail))
                PEAL_TRY(copy_lane(o, i, l));
        for (uint32_t g = 0; g < split->groups; g++)
            if (wanted(o, split->of[g].rail))
                PEAL_TRY(copy_host(o, split, &split->of[g]));
    }
    return PEAL_OK;
}

/* ---- the system ------------------------------------------------------------------ */

static void compare_members(const struct outer *o)
{
    const struct plan_rank *model = &o->member->ranks[o->rail];
    for (uint32_t p = 0; p < o->c->nrails; p++) {
        struct rail *rail = &o->c->rails[p];
        if (!rail->proven && !rail->differs && !peal_reduced_equal(&o->member->ranks[p], model))
            rail->differs = 1;
    }
}

static peal_status add_block(const struct outer *o)
{
    PEAL_TRY(copy_members(o));
    compare_members(o);
    PEAL_TRY(peal_plan_copy_program(o->c->ctx, &o->plan->ranks[o->at], &o->member->ranks[o->rail]));
    o->plan->ranks[o->at].host = o->at;
    return PEAL_OK;
}

static int same_shape(const struct classes *c, const struct rail *a, const struct rail *b)
{
    if (a->chunks != b->chunks || a->regions != b->regions)
        return 0;
    for (uint32_t i = 0, k = 0; i < c->head->nregions; i++) {
        if (a->region_name[i] == CLASSES_NONE)
            continue;
        while (b->region_name[k] != a->region_name[i])
            k++;
        const struct plan_region *x = &c->head->regions[i], *y = &c->head->regions[k];
        if (x->buffer != y->buffer || x->width != y->width || x->depth != y->depth)
            return 0;
    }
    return 1;
}

static peal_status make_plans(struct outer *o)
{
    struct classes *c = o->c;
    const struct rail *rail = &c->rails[o->rail];
    PEAL_TRY(peal_plan_create(c->ctx, c->nblocks, &o->plan));
    PEAL_TRY(peal_plan_create(c->ctx, c->nrails, &o->member));
    o->plan->nchunks = rail->chunks;
    PEAL_TRY(peal_grow(c->ctx, (void **)&o->plan->regions, &o->plan->regions_capacity,
                       c->head->nregions, sizeof *o->plan->regions, PLAN_REGIONS_MAX));
    for (uint32_t i = 0; i < c->head->nregions; i++)
        if (rail->region_name[i] != CLASSES_NONE)
            o->plan->regions[o->plan->nregions++] = c->head->regions[i];
    PEAL_TRY(peal_reduced_add_sinks(o->plan, 1));
    for (uint32_t p = 0; p < c->nrails; p++)
        c->rails[p].differs = !same_shape(c, rail, &c->rails[p]);
    return PEAL_OK;
}

static peal_status read_all(struct outer *o)
{
    struct classes *c = o->c;
    uint32_t first = 0;
    for (o->at = 0; o->at < c->nblocks; o->at++) {
        PEAL_TRY(peal_classes_read_block(c, first));
        PEAL_TRY(add_block(o));
        first += c->block.count;
    }
    return PEAL_OK;
}

static peal_status prove(struct outer *o)
{
    struct classes *c = o->c;
    char prefix[96];
    uint32_t name, chunk = 0;
    while (c->rail_of[chunk] != o->rail)
        chunk++;
    if (!peal_reduced_owned(o->plan, &name))
        return peal_classes_refuse(c, "rank %u does not name a region that others write",
                                   c->member[(size_t)name * c->nrails + o->rail]);
    snprintf(prefix, sizeof prefix, "on the rail of chunk %u, ranks named by their host", chunk);
    struct verify_orders orders = {.leaf = c->block_order};
    PEAL_TRY(peal_reduced_prove(c, o->plan, prefix, c->member + o->rail, c->nrails, &orders));
    if (c->order == CLASSES_ORDER_OPEN)
        c->order = c->proof.order;
    else if (c->order != c->proof.order)
        c->order = 0;
    return PEAL_OK;
}

peal_status peal_classes_prove_rail(struct classes *c, uint32_t rail)
{
    struct outer o = {.c = c, .rail = rail};
    peal_status status = make_plans(&o);
    if (status == PEAL_OK)
        status = read_all(&o);
    peal_plan_destroy(o.member);
    if (status == PEAL_OK)
        status = prove(&o);
    c->proof.executed += c->nblocks;
    c->proof.classes++;
    for (uint32_t p = 0; p < c->nrails; p++)
        c->rails[p].proven |= !c->rails[p].differs;
    peal_plan_destroy(o.plan);
    return status;
}
