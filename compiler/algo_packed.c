/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives along packed spanning trees: all trees together load every link no more than the
 * exact optimum needs (pack.h), whatever the network looks like. Allgather and broadcast go down
 * the trees of the roots; reduce-scatter and reduce go up those of the reversed network; allreduce
 * goes up, and down again.
 */
#include "packed.h"

#include <stdio.h>

/* Of large groups, whose trees take long to find, some only. */
static const uint32_t tree_counts[] = {1, 2, 3, 4, 6, 8, 12, 16, 0};
#define ASKS (sizeof tree_counts / sizeof tree_counts[0])
#define MANY_RANKS 32u

/* ---- the planner's forests ----------------------------------------------------------------- */

void peal_packed_forget(struct planner *planner)
{
    for (uint32_t i = 0; i < planner->nforests; i++)
        peal_pack_forest_free(&planner->forests[i]);
    peal_free(planner->ctx, planner->forests, planner->forests_capacity * sizeof *planner->forests);
    planner->forests = NULL;
    planner->nforests = 0;
}

static peal_status keep_forest(struct planner *planner, struct pack_forest *forest, uint32_t *index)
{
    peal_status status =
        peal_grow(planner->ctx, (void **)&planner->forests, &planner->forests_capacity,
                  (size_t)planner->nforests + 1, sizeof *planner->forests, 1u << 16);
    if (status != PEAL_OK) {
        peal_pack_forest_free(forest);
        return status;
    }
    *index = planner->nforests;
    planner->forests[planner->nforests++] = *forest;
    return PEAL_OK;
}

/* Forests with each number of trees that there are; index[i] NO_RANK: none. */
static peal_status find_forests(struct planner *planner, uint32_t root, int up, int links,
                                uint32_t index[ASKS])
{
    struct pack_forest forests[ASKS];
    struct forest_ask asks[ASKS];
    int found[ASKS];
    uint32_t count = 0;
    for (size_t i = 0; i < ASKS; i++) {
        index[i] = NO_RANK;
        if (planner->group.n <= MANY_RANKS || (tree_counts[i] & (tree_counts[i] - 1)) == 0)
            asks[count++] = (struct forest_ask){root, up, links, tree_counts[i]};
    }
    peal_status status = peal_group_forests(&planner->group, asks, count, forests, found);
    for (uint32_t i = 0; i < count; i++)
        if (found[i] && status == PEAL_OK)
            status = keep_forest(planner, &forests[i], &index[i]);
        else if (found[i])
            peal_pack_forest_free(&forests[i]);
    return status;
}

/* ---- candidates -------------------------------------------------------------------------------
 */

static int goes(peal_collective collective, int way)
{
    if (way == PACKED_UP)
        return peal_plan_collective(collective)->reduces;
    return collective != PEAL_REDUCE_SCATTER && collective != PEAL_REDUCE;
}

static peal_status open_forests(const struct planner *planner, const struct candidate *candidate,
                                struct packed *packed)
{
    const struct pack_forest *forest[PACKED_WAYS];
    for (int w = 0; w < PACKED_WAYS; w++)
        forest[w] =
            candidate->forest[w] == NO_RANK ? NULL : &planner->forests[candidate->forest[w]];
    return peal_packed_seats(packed, planner, forest);
}

static peal_status cost_forests(struct planner *planner, uint32_t down, uint32_t up)
{
    struct candidate candidate = {
        .algo = ALGO_PACKED, .forest = {down, up}, .max_bytes = UINT64_MAX};
    struct packed packed;
    peal_status status = open_forests(planner, &candidate, &packed);
    if (status == PEAL_OK)
        status = peal_packed_cost(planner, &candidate, &packed);
    peal_packed_free(&packed);
    return status == PEAL_ERR_LIMIT ? PEAL_OK : status;
}

/* Each number of trees, and the next best one of a direction that has none of that number. */
static peal_status cost_ways(struct planner *planner, const uint32_t *down, const uint32_t *up)
{
    uint32_t last[PACKED_WAYS] = {NO_RANK, NO_RANK};
    for (size_t i = 0; i < ASKS; i++) {
        int news = (down && down[i] != NO_RANK) || (up && up[i] != NO_RANK);
        if (down && down[i] != NO_RANK)
            last[PACKED_DOWN] = down[i];
        if (up && up[i] != NO_RANK)
            last[PACKED_UP] = up[i];
        if (news && (!down || last[PACKED_DOWN] != NO_RANK) && (!up || last[PACKED_UP] != NO_RANK))
            PEAL_TRY(cost_forests(planner, last[PACKED_DOWN], last[PACKED_UP]));
    }
    return PEAL_OK;
}

static peal_status enumerate_graph(struct planner *planner, int links)
{
    peal_collective collective = planner->request.collective;
    uint32_t root = peal_plan_collective(collective)->rooted ? planner->request.root : NO_RANK;
    uint32_t down[ASKS], up[ASKS];
    /* Of a symmetric network the trees up are the trees down, walked backwards. */
    int same = planner->group.symmetric;
    if (same || goes(collective, PACKED_DOWN))
        PEAL_TRY(find_forests(planner, root, 0, links, down));
    if (!same && goes(collective, PACKED_UP))
        PEAL_TRY(find_forests(planner, root, 1, links, up));
    return cost_ways(planner, goes(collective, PACKED_DOWN) ? down : NULL,
                     !goes(collective, PACKED_UP) ? NULL
                     : same                       ? down
                                                  : up);
}

static peal_status enumerate(struct planner *planner)
{
    /* Two ranks have one tree each; ranks of one memory have no network. */
    if (planner->group.n < 3 || !planner->group.accelerators)
        return PEAL_OK;
    PEAL_TRY(enumerate_graph(planner, 0));
    return peal_group_mixed(&planner->group) ? enumerate_graph(planner, 1) : PEAL_OK;
}

/* ---- plans --------------------------------------------------------------------------------------
 */

peal_status peal_packed_begin(struct build *b, const struct candidate *candidate,
                              struct packed *packed)
{
    struct peal_plan *plan = b->plan;
    PEAL_TRY(open_forests(b->planner, candidate, packed));
    PEAL_TRY(peal_packed_deal(packed, candidate->pieces, candidate->channels, candidate->variant));
    PEAL_TRY(peal_packed_number_sems(packed));
    PEAL_TRY(peal_packed_turns(packed));
    b->packed = packed;
    if (!packed->weighted)
        return PEAL_OK;
    plan->weights = peal_calloc(plan->ctx, plan->nchunks, sizeof *plan->weights);
    if (!plan->weights)
        return PEAL_ERR_MEMORY;
    for (uint32_t c = 0; c < plan->nchunks; c++)
        plan->weights[c] = packed->weight[c / packed->pieces % packed->trees];
    return PEAL_OK;
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "%u spanning tree%s from a root, %u %s%s%s", candidate->trees,
             candidate->trees == 1 ? "" : "s", candidate->channels,
             candidate->variant ? "lane" : "channel", candidate->channels == 1 ? "" : "s",
             candidate->variant ? " a link" : "");
}

const struct algo peal_algo_packed = {"packed",
                                      1u << PEAL_ALLGATHER | 1u << PEAL_REDUCE_SCATTER |
                                          1u << PEAL_ALLREDUCE | 1u << PEAL_BROADCAST |
                                          1u << PEAL_REDUCE,
                                      enumerate,
                                      peal_packed_prepare,
                                      peal_packed_emit,
                                      detail};
