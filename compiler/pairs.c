/* SPDX-License-Identifier: Apache-2.0 */
/* Who sends to whom in a sendrecv, and what no schedule of it can beat. */
#include "compiler.h"

#include <string.h>

#define LOOKS_MAX (1ull << 22) /* paths examined for a bound */
#define SEEN_MAX 64u

peal_status peal_planner_pairs(struct planner *planner, peal_diag *diag)
{
    const peal_request *request = &planner->request;
    size_t ends = 2 * (size_t)request->npairs;
    if (!request->pairs != !request->npairs)
        return peal_fail(diag, PEAL_ERR_ARG, "a list of pairs without its length, or the reverse");
    if (request->npairs > PLAN_PAIRS_MAX)
        return peal_fail(diag, PEAL_ERR_ARG, "%u pairs; at most %u", request->npairs,
                         PLAN_PAIRS_MAX);
    for (size_t i = 0; i < ends; i++)
        if (request->pairs[i] >= planner->group.n)
            return peal_fail(diag, PEAL_ERR_ARG, "rank %u of a pair is not one of %u ranks",
                             request->pairs[i], planner->group.n);
    if (!ends)
        return PEAL_OK;
    planner->pairs = peal_alloc(planner->ctx, ends * sizeof *planner->pairs);
    if (!planner->pairs)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    memcpy(planner->pairs, request->pairs, ends * sizeof *planner->pairs);
    planner->npairs = request->npairs;
    return PEAL_OK;
}

/* The i-th pair; 0 behind the last. A request without a list has one pair. */
int peal_planner_pair(const struct planner *planner, uint32_t i, uint32_t *from, uint32_t *to)
{
    if (i >= (planner->npairs ? planner->npairs : 1))
        return 0;
    *from = planner->npairs ? planner->pairs[2 * (size_t)i] : planner->request.root;
    *to = planner->npairs ? planner->pairs[2 * (size_t)i + 1] : planner->request.peer;
    return 1;
}

/* Bandwidth between a rank and all others: the distinct first (last) resources of its paths. 0:
 * unknown. */
static double port_gbs(const struct group *group, uint32_t rank, int into)
{
    uint64_t seen[SEEN_MAX];
    uint32_t count = 0;
    double sum = 0;
    for (uint32_t other = 0; other < group->n; other++) {
        struct topo_path path;
        if (other == rank)
            continue;
        peal_group_path(group, into ? other : rank, into ? rank : other, &path);
        if (!path.uses)
            return 0;
        const struct topo_use *use = &path.use[into ? path.uses - 1 : 0];
        uint32_t i = 0;
        while (i < count && seen[i] != use->resource)
            i++;
        if (i < count)
            continue;
        if (count == SEEN_MAX)
            return 0;
        seen[count++] = use->resource;
        sum += use->gbs;
    }
    return sum;
}

/* Blocks that each rank sends to others (receives from them). */
static void count_blocks(const struct planner *planner, int into, uint32_t *blocks)
{
    uint32_t from, to;
    memset(blocks, 0, planner->group.n * sizeof *blocks);
    for (uint32_t i = 0; peal_planner_pair(planner, i, &from, &to); i++)
        blocks[into ? to : from] += from != to;
}

/* What a rank sends leaves it, and what it receives enters it. */
peal_status peal_planner_pairs_bound(struct planner *planner)
{
    struct group *group = &planner->group;
    double *beta = &group->bound_beta[PEAL_SENDRECV];
    uint32_t *blocks = peal_calloc(planner->ctx, group->n, sizeof *blocks);
    uint64_t looks = 0;
    if (!blocks)
        return PEAL_ERR_MEMORY;
    for (int into = 0; into < 2; into++) {
        count_blocks(planner, into, blocks);
        for (uint32_t r = 0; r < group->n && looks < LOOKS_MAX; r++) {
            if (!blocks[r])
                continue;
            double gbs = port_gbs(group, r, into);
            double least = gbs > 0 ? blocks[r] * 1e-3 / gbs : 0;
            *beta = least > *beta ? least : *beta;
            looks += group->n;
        }
    }
    peal_free(planner->ctx, blocks, group->n * sizeof *blocks);
    return PEAL_OK;
}
