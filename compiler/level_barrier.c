/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barrier by levels: dissemination (Hensgen, Finkel, Manber 1988) among the ranks of each unit,
 * then among the peers of each level, after which whoever holds a shard has heard of all. Ranks
 * that hold none are let go by one that does.
 */
#include "level.h"

static void rounds(const struct level_run *run, uint32_t level)
{
    const struct level_peers *peers = &run->peers;
    uint32_t sem = peal_level_sem(run, level, LEVEL_SEM_ENTER);
    for (uint32_t far = 1; far < peers->n; far *= 2) {
        peal_build_signal(run->b, peers->rank[(peers->self + far) % peers->n], sem);
        peal_build_wait(run->b, peers->rank[(peers->self + peers->n - far) % peers->n], sem, 0);
    }
}

static uint32_t keeper(const struct level_run *run, uint32_t peer)
{
    return run->layout->holder[run->unit * run->layout->shards + peer % run->layout->shards];
}

/* Ranks without a shard wait for the one that looks after them. */
static void release(const struct level_run *run, int wait_self, uint32_t sem_self)
{
    const struct level_peers *peers = &run->peers;
    uint32_t sem = peal_level_sem(run, 0, LEVEL_SEM_LEAVE);
    peal_build_lane(run->b);
    if (run->shard == NO_RANK) {
        peal_build_wait(run->b, keeper(run, peers->self), sem, 0);
        return;
    }
    if (wait_self)
        peal_build_wait(run->b, run->b->self, sem_self, 0);
    for (uint32_t i = 0; i < peers->n; i++)
        if (peers->shard[i] == NO_RANK && keeper(run, i) == run->b->self)
            peal_build_signal(run->b, peers->rank[i], sem);
}

static int more_levels(const struct level_layout *layout, uint32_t level)
{
    for (uint32_t k = level + 1; k < layout->levels; k++)
        if (layout->size[k] > 1)
            return 1;
    return 0;
}

void peal_level_barrier(struct level_run *run, uint32_t rank)
{
    const struct level_layout *layout = run->layout;
    uint32_t ready = NO_RANK, unit = run->unit;
    int all_hold = layout->first[unit + 1] - layout->first[unit] == layout->shards;
    for (uint32_t k = 0; k < layout->levels; k++) {
        if (layout->size[k] < 2 || (k && run->shard == NO_RANK))
            continue;
        peal_level_peers(&run->peers, layout, k, rank);
        peal_build_lane(run->b);
        if (ready != NO_RANK)
            peal_build_wait(run->b, rank, ready, 0);
        rounds(run, k);
        ready = peal_level_sem(run, k, LEVEL_SELF_ENTER);
        if (run->shard != NO_RANK && (!all_hold || more_levels(layout, k)))
            peal_build_signal(run->b, rank, ready);
    }
    if (all_hold)
        return;
    peal_level_peers(&run->peers, layout, 0, rank);
    release(run, ready != NO_RANK, ready);
}
