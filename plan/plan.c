/* SPDX-License-Identifier: Apache-2.0 */
/* A plan's memory. */
#include "plan.h"

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

peal_status peal_plan_create(peal_ctx *ctx, uint32_t nranks, struct peal_plan **plan_out)
{
    struct peal_plan *plan;
    PEAL_TRY(peal_plan_create_head(ctx, nranks, &plan));
    plan->ranks = peal_calloc(ctx, nranks, sizeof *plan->ranks);
    if (!plan->ranks) {
        peal_plan_destroy(plan);
        return PEAL_ERR_MEMORY;
    }
    *plan_out = plan;
    return PEAL_OK;
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
    for (uint32_t r = 0; plan->ranks && r < plan->nranks; r++)
        rank_free(ctx, &plan->ranks[r]);
    peal_free(ctx, plan->ranks, plan->nranks * sizeof *plan->ranks);
    peal_free(ctx, plan->regions, plan->regions_capacity * sizeof *plan->regions);
    peal_free(ctx, plan->links, plan->links_capacity * sizeof *plan->links);
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

const char *peal_plan_op_name(uint8_t op)
{
    static const char *const names[PLAN_OPCODE_COUNT] = {
#define X(id, name, moves, text) name,
#include "opcodes.def"
#undef X
    };
    return op < PLAN_OPCODE_COUNT ? names[op] : NULL;
}
