/* SPDX-License-Identifier: Apache-2.0 */
/* A plan's memory. */
#include "plan.h"

#include <string.h>

peal_status peal_plan_create_head(peal_ctx *ctx, uint32_t nranks, struct peal_plan **plan_out)
{
    if (nranks == 0 || nranks > PLAN_RANKS_MAX)
        return PEAL_ERR_ARG;
    struct peal_plan *plan = peal_calloc(ctx, 1, sizeof *plan);
    if (!plan)
        return PEAL_ERR_MEMORY;
    plan->ctx = ctx;
    plan->collective = PEAL_ALLREDUCE;
    plan->nranks = nranks;
    plan->nchunks = 1;
    *plan_out = plan;
    return PEAL_OK;
}

/* Adds `count` empty programs, or destroys the plan. */
static peal_status add_programs(struct peal_plan *plan, uint32_t count, struct peal_plan **plan_out)
{
    plan->ranks = peal_calloc(plan->ctx, count, sizeof *plan->ranks);
    if (!plan->ranks) {
        peal_plan_destroy(plan);
        return PEAL_ERR_MEMORY;
    }
    *plan_out = plan;
    return PEAL_OK;
}

peal_status peal_plan_create(peal_ctx *ctx, uint32_t nranks, struct peal_plan **plan_out)
{
    struct peal_plan *plan;
    PEAL_TRY(peal_plan_create_head(ctx, nranks, &plan));
    return add_programs(plan, nranks, plan_out);
}

peal_status peal_plan_create_slice(peal_ctx *ctx, uint32_t nranks, uint32_t rank,
                                   struct peal_plan **plan_out)
{
    struct peal_plan *plan;
    if (rank >= nranks)
        return PEAL_ERR_ARG;
    PEAL_TRY(peal_plan_create_head(ctx, nranks, &plan));
    plan->sliced = 1;
    plan->slice_rank = rank;
    return add_programs(plan, 1, plan_out);
}

uint32_t peal_plan_first(const struct peal_plan *plan)
{
    return plan->sliced ? plan->slice_rank : 0;
}

uint32_t peal_plan_end(const struct peal_plan *plan)
{
    return !plan->ranks ? 0 : plan->sliced ? plan->slice_rank + 1 : plan->nranks;
}

struct plan_rank *peal_plan_program(const struct peal_plan *plan, uint32_t rank)
{
    if (rank < peal_plan_first(plan) || rank >= peal_plan_end(plan))
        return NULL;
    return &plan->ranks[rank - peal_plan_first(plan)];
}

peal_status peal_plan_add_pair(struct peal_plan *plan, uint32_t from, uint32_t to)
{
    PEAL_TRY(peal_grow(plan->ctx, (void **)(void *)&plan->pairs, &plan->pairs_capacity,
                       (size_t)plan->npairs + 1, 2 * sizeof *plan->pairs, PLAN_PAIRS_MAX));
    plan->pairs[2 * (size_t)plan->npairs] = from;
    plan->pairs[2 * (size_t)plan->npairs + 1] = to;
    plan->npairs++;
    return PEAL_OK;
}

peal_status peal_plan_add_block(struct peal_plan *plan, const struct peal_block *block)
{
    size_t lists = 2 * (size_t)plan->nblocks + 3, names = (size_t)block->nfrom + block->nto;
    PEAL_TRY(peal_grow(plan->ctx, (void **)(void *)&plan->lists, &plan->lists_capacity, lists,
                       sizeof *plan->lists, 2 * (size_t)PLAN_PAIRS_MAX + 1));
    PEAL_TRY(peal_grow(plan->ctx, (void **)(void *)&plan->names, &plan->names_capacity,
                       plan->nnames + names, sizeof *plan->names, PLAN_NAMES_MAX));
    uint32_t *list = plan->lists + 2 * (size_t)plan->nblocks++;
    list[0] = plan->nnames;
    list[1] = list[0] + block->nfrom;
    list[2] = list[1] + block->nto;
    if (block->nfrom)
        memcpy(plan->names + list[0], block->from, block->nfrom * sizeof *block->from);
    if (block->nto)
        memcpy(plan->names + list[1], block->to, block->nto * sizeof *block->to);
    plan->nnames = list[2];
    return PEAL_OK;
}

struct peal_block peal_plan_block(const struct peal_plan *plan, uint32_t block)
{
    const uint32_t *list = plan->lists + 2 * (size_t)block;
    return (struct peal_block){list[1] - list[0], list[2] - list[1], plan->names + list[0],
                               plan->names + list[1]};
}

static void rank_free(peal_ctx *ctx, struct plan_rank *rank)
{
    peal_free(ctx, rank->lanes, rank->lanes_capacity * sizeof *rank->lanes);
    peal_free(ctx, rank->steps, rank->steps_capacity * sizeof *rank->steps);
    peal_free(ctx, rank->operands, rank->operands_capacity * sizeof *rank->operands);
}

void peal_plan_destroy(struct peal_plan *plan)
{
    if (!plan)
        return;
    peal_ctx *ctx = plan->ctx;
    uint32_t programs = plan->sliced ? 1 : plan->nranks;
    for (uint32_t r = 0; plan->ranks && r < programs; r++)
        rank_free(ctx, &plan->ranks[r]);
    peal_free(ctx, plan->ranks, programs * sizeof *plan->ranks);
    peal_free(ctx, plan->regions, plan->regions_capacity * sizeof *plan->regions);
    peal_free(ctx, plan->links, plan->links_capacity * sizeof *plan->links);
    peal_free(ctx, plan->pairs, plan->pairs_capacity * 2 * sizeof *plan->pairs);
    peal_free(ctx, plan->lists, plan->lists_capacity * sizeof *plan->lists);
    peal_free(ctx, plan->names, plan->names_capacity * sizeof *plan->names);
    peal_free(ctx, plan->weights, (size_t)plan->nchunks * sizeof *plan->weights);
    peal_free(ctx, plan->prefix, ((size_t)plan->nchunks + 1) * sizeof *plan->prefix);
    peal_free(ctx, plan, sizeof *plan);
}

int peal_plan_op_moves(uint8_t op)
{
    static const uint8_t moves[PLAN_OPCODE_COUNT] = {
#define X(id, name, moves, text) moves,
#include "opcodes.def"
#undef X
    };
    return op < PLAN_OPCODE_COUNT && moves[op];
}

int peal_plan_op_signals(uint8_t op)
{
    return op == PLAN_SIGNAL || op == PLAN_TELL;
}

int peal_plan_op_waits(uint8_t op)
{
    return op == PLAN_WAIT || op == PLAN_LEARN;
}

int peal_plan_op_converts(uint8_t op)
{
    return op == PLAN_PACK || op == PLAN_UNPACK;
}

int peal_plan_op_folds(uint8_t op)
{
    return op == PLAN_REDUCE || op == PLAN_PUT_REDUCE || op == PLAN_GET_REDUCE ||
           op == PLAN_LOAD_REDUCE;
}

int peal_plan_op_groups(uint8_t op)
{
    return op == PLAN_MULTICAST || op == PLAN_LOAD_REDUCE;
}

int peal_plan_multicasts(const struct plan_rank *rank, const struct plan_step *step)
{
    if (step->op == PLAN_MULTICAST)
        return 1;
    for (uint32_t i = 0; step->op == PLAN_LOAD_REDUCE && i < step->ndst; i++)
        if (rank->operands[step->operands + step->nsrc + i].link != PLAN_NO_LINK)
            return 1;
    return 0;
}

uint8_t peal_plan_wire(const struct peal_plan *plan)
{
    uint8_t wire = PLAN_WIRE_NONE;
    for (uint32_t i = 0; i < plan->nregions; i++)
        wire = plan->regions[i].wire > wire ? plan->regions[i].wire : wire;
    return wire;
}

const char *peal_wire_name(peal_wire wire)
{
    static const char *const names[PEAL_WIRE_COUNT] = {"none", "bf16", "fp8"};
    return (unsigned)wire < PEAL_WIRE_COUNT ? names[wire] : NULL;
}

const char *peal_plan_op_name(uint8_t op)
{
    static const char *const names[PLAN_OPCODE_COUNT] = {
#define X(id, name, moves, text) name,
#include "opcodes.def"
#undef X
    };
    return op < PLAN_OPCODE_COUNT ? names[op] : NULL;
}
