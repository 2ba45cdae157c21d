/* SPDX-License-Identifier: Apache-2.0 */
/* What private buffers cost: what peers reach of them is copied once more, into memory that they
 * reach before they read it, or out of it when they have written it. And what those cost that are
 * read where they lie. */
#include "compiler.h"

static int folds_in_slots(enum algorithm algo)
{
    return algo == ALGO_HALVING || algo == ALGO_RING || algo == ALGO_DOUBLING;
}

/* Copied by the busiest rank, as a share of the message: what others read of its input, and write
 * of its output. */
static double staged_share(const struct planner *planner, enum algorithm algo)
{
    double n = planner->group.n, others = (n - 1) / n;
    peal_collective collective = planner->request.collective;
    int pulls = algo == ALGO_PULL;
    if (algo == ALGO_ONESHOT || algo == ALGO_SHELF || algo == ALGO_DOUBLING)
        return 0;
    switch (collective) {
    case PEAL_BARRIER:
        return 0;
    case PEAL_ALLREDUCE:
        return algo == ALGO_TWOSHOT ? 2 * others : pulls ? 1 : others;
    case PEAL_REDUCE_SCATTER:
        return folds_in_slots(algo) ? 0 : others;
    case PEAL_ALLGATHER:
        return pulls ? 1 / n : others;
    case PEAL_BROADCAST:
    case PEAL_REDUCE:
    case PEAL_SENDRECV:
        return 1;
    default:
        return others;
    }
}

/* Slots of scratch stay the same ones from call to call, and their lines go back and forth between
 * the caches of two processors, while staged messages take turns with places that the cache they
 * share holds: 512 KiB by tiles of 32 KiB took 90 us, staged 26 (AMD EPYC, two cores). */
#define SLOT_FACTOR 3.0

static void cost_slots(struct candidate *candidate)
{
    if (!candidate->slots || candidate->algo == ALGO_ONESHOT || candidate->algo == ALGO_SHELF)
        return;
    for (uint32_t i = 0; i < candidate->nstages; i++) {
        candidate->stage[i].us_per_byte *= SLOT_FACTOR;
        candidate->stage[i].alone_us_per_byte *= SLOT_FACTOR;
    }
    candidate->total_us_per_byte *= SLOT_FACTOR;
    candidate->alone_total_us_per_byte *= SLOT_FACTOR;
}

/* The first two neighbours of one host; 0: there are none. */
static int find_neighbours(const struct group *group, uint32_t *first)
{
    for (uint32_t h = 0; h < group->nhosts; h++) {
        *first = group->host_first[h];
        if (group->host_first[h + 1] - *first > 1)
            return 1;
    }
    return 0;
}

/* At the rate at which two neighbours copy; not by tiles: the message is staged whole. */
static void cost_staging(const struct planner *planner, struct candidate *candidate)
{
    struct hop hop;
    uint32_t first;
    if (!find_neighbours(&planner->group, &first))
        return;
    peal_planner_hop(planner, first, first + 1, &hop);
    double us = staged_share(planner, candidate->algo) / (hop.path.beta_gbs * 1e3);
    if (us <= 0 || candidate->nstages == STAGES_MAX)
        return;
    candidate->stage[candidate->nstages++] = (struct stage){
        .levels = 1, .chain = 1, .us_per_byte = us, .alone_us_per_byte = us, .lane_bound = 1};
}

/* On a host tiles are for pipelines of scratch and outputs, of which staging leaves nothing;
 * shelves stage by tiles. */
static void drop_tiled(struct planner *planner, uint32_t first)
{
    uint32_t kept = first;
    for (uint32_t i = first; i < planner->count; i++)
        if (!planner->candidates[i].tile_bytes || planner->candidates[i].algo == ALGO_SHELF)
            planner->candidates[kept++] = planner->candidates[i];
    planner->count = kept > first ? kept : planner->count;
}

/* Two ranks that fold what they load of each other need not wait for lines that have just been
 * stored, as such do that fold out of slots: for 2 KiB it took 0.34 us and 0.53 (Intel Emerald
 * Rapids, two cores). */
static void cost_in_place(struct candidate *candidate)
{
    if (candidate->algo == ALGO_DIRECT)
        candidate->stage[0].alpha_us = 0;
    for (uint32_t i = 0; folds_in_slots(candidate->algo) && i < candidate->nstages; i++)
        candidate->stage[i].alpha_us *= 2;
}

static void cost_registered(struct planner *planner, uint32_t first)
{
    if (planner->request.collective != PEAL_REDUCE_SCATTER || planner->group.n != 2 ||
        planner->group.accelerators || planner->group.nhosts > 1 ||
        planner->memory.count[TOPO_USE_LOAD])
        return;
    for (uint32_t i = first; i < planner->count; i++)
        cost_in_place(&planner->candidates[i]);
}

void peal_planner_private(struct planner *planner, uint32_t first)
{
    if (!planner->request.private_buffers)
        cost_registered(planner, first);
    if (!planner->request.private_buffers || planner->group.n < 2)
        return;
    if (!planner->group.accelerators && planner->algorithm == ALGO_ANY)
        drop_tiled(planner, first);
    if (planner->memory.count[TOPO_USE_LOAD]) /* measured with such buffers as its ranks have */
        return;
    for (uint32_t i = first; i < planner->count; i++) {
        if (!planner->group.accelerators && planner->group.nhosts == 1) /* else networks bind */
            cost_slots(&planner->candidates[i]);
        cost_staging(planner, &planner->candidates[i]);
    }
}
