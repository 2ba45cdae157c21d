/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a plan into parts that share nothing: no semaphore, no chunk, no region. Channels are
 * such parts. Each is proven by itself, with clocks as small as the part.
 */
#include "verify.h"

#define NONE UINT32_MAX

struct sets {
    uint32_t *parent;
};

static uint32_t root(const struct sets *sets, uint32_t x)
{
    while (sets->parent[x] != x) {
        sets->parent[x] = sets->parent[sets->parent[x]];
        x = sets->parent[x];
    }
    return x;
}

static void join(const struct sets *sets, uint32_t a, uint32_t b)
{
    a = root(sets, a);
    b = root(sets, b);
    if (a < b)
        sets->parent[b] = a;
    else
        sets->parent[a] = b;
}

/* Items: lanes, then chunks, then regions, then semaphores. */
struct items {
    uint32_t lanes, chunks, regions, sems, total;
};

static void join_lane(const struct sets *sets, const struct items *items,
                      const struct verify_sems *sems, uint32_t rank, uint32_t lane, uint32_t item)
{
    const struct plan_rank *program = &sems->plan->ranks[rank];
    const struct plan_lane *code = &program->lanes[lane];
    for (uint32_t i = 0; i < code->pre + code->body + code->post; i++) {
        const struct plan_step *step = &program->steps[code->first + i];
        if (peal_plan_op_signals(step->op) || peal_plan_op_waits(step->op))
            join(sets, item,
                 items->lanes + items->chunks + items->regions +
                     sems->of_step[rank][code->first + i]);
        if (!peal_plan_op_moves(step->op))
            continue;
        for (uint32_t k = 0; k <= step->more; k++)
            join(sets, item, items->lanes + step->chunk + k * step->stride);
        for (uint32_t k = 0; k < (uint32_t)step->nsrc + step->ndst; k++) {
            const struct plan_operand *operand = &program->operands[step->operands + k];
            if (operand->buffer == PLAN_BUF_SCRATCH || operand->buffer == PLAN_BUF_PACKET)
                join(sets, item, items->lanes + items->chunks + operand->index);
        }
    }
}

/* Numbers the roots among [first, first + count) and what belongs to them. */
static void number(const struct sets *sets, uint32_t first, uint32_t count, uint32_t *name,
                   uint32_t *parts, uint32_t *to)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t r = root(sets, first + i);
        if (name[r] == NONE)
            name[r] = (*parts)++;
        to[i] = name[r];
    }
}

peal_status peal_verify_parts_make(struct verify_parts *parts, const struct peal_plan *plan,
                                   const struct verify_sems *sems)
{
    struct items items = {0, plan->nchunks, plan->nregions, sems->count, 0};
    *parts =
        (struct verify_parts){.ctx = plan->ctx, .chunks = plan->nchunks, .regions = plan->nregions};
    for (uint32_t r = 0; r < plan->nranks; r++)
        items.lanes += plan->ranks[r].nlanes;
    items.total = items.lanes + items.chunks + items.regions + items.sems;
    parts->lanes = items.lanes;
    struct sets sets = {peal_calloc(plan->ctx, (size_t)items.total + 1, sizeof(uint32_t))};
    uint32_t *name = peal_calloc(plan->ctx, (size_t)items.total + 1, sizeof(uint32_t));
    parts->of_lane = peal_calloc(plan->ctx, (size_t)items.lanes + 1, sizeof(uint32_t));
    parts->of_chunk = peal_calloc(plan->ctx, (size_t)items.chunks + 1, sizeof(uint32_t));
    parts->of_region = peal_calloc(plan->ctx, (size_t)items.regions + 1, sizeof(uint32_t));
    peal_status status =
        sets.parent && name && parts->of_lane && parts->of_chunk && parts->of_region
            ? PEAL_OK
            : PEAL_ERR_MEMORY;
    for (uint32_t i = 0; status == PEAL_OK && i < items.total; i++) {
        sets.parent[i] = i;
        name[i] = NONE;
    }
    uint32_t item = 0;
    for (uint32_t r = 0; status == PEAL_OK && r < plan->nranks; r++)
        for (uint32_t l = 0; l < plan->ranks[r].nlanes; l++)
            join_lane(&sets, &items, sems, r, l, item++);
    if (status == PEAL_OK) {
        number(&sets, 0, items.lanes, name, &parts->count, parts->of_lane);
        number(&sets, items.lanes, items.chunks, name, &parts->count, parts->of_chunk);
        number(&sets, items.lanes + items.chunks, items.regions, name, &parts->count,
               parts->of_region);
    }
    peal_free(plan->ctx, sets.parent, ((size_t)items.total + 1) * sizeof(uint32_t));
    peal_free(plan->ctx, name, ((size_t)items.total + 1) * sizeof(uint32_t));
    return status;
}

void peal_verify_parts_free(struct verify_parts *parts)
{
    if (!parts->ctx)
        return;
    uint32_t *const by_part[] = {parts->like, parts->lanes_in, parts->chunks_in};
    uint32_t *const by_lane[] = {parts->lane, parts->rank_of, parts->within};
    for (int i = 0; i < 3; i++) {
        peal_free(parts->ctx, by_part[i], parts->count * sizeof(uint32_t));
        peal_free(parts->ctx, by_lane[i], ((size_t)parts->lanes + 1) * sizeof(uint32_t));
    }
    peal_free(parts->ctx, parts->first, ((size_t)parts->count + 1) * sizeof(uint32_t));
    peal_free(parts->ctx, parts->nth_chunk, ((size_t)parts->chunks + 1) * sizeof(uint32_t));
    peal_free(parts->ctx, parts->nth_region, ((size_t)parts->regions + 1) * sizeof(uint32_t));
    peal_free(parts->ctx, parts->of_lane, ((size_t)parts->lanes + 1) * sizeof(uint32_t));
    peal_free(parts->ctx, parts->of_chunk, ((size_t)parts->chunks + 1) * sizeof(uint32_t));
    peal_free(parts->ctx, parts->of_region, ((size_t)parts->regions + 1) * sizeof(uint32_t));
}
