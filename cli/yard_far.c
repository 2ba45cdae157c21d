/* SPDX-License-Identifier: Apache-2.0 */
/* The yard of ranks that share no memory: what they put there for each other goes through the
 * world, and all of them end up with the same. */
#include "yard.h"

#include <stdlib.h>
#include <string.h>

#define TIMES_AT_ONCE 4096u

/* 0: the others are lost, which ends this rank's run too. */
static int exchange(struct yard *yard, const void *mine, size_t bytes, void *all)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_world_exchange(yard->world, mine, bytes, all, &diag);
    if (status != PEAL_OK)
        yard_fail(yard, yard->rank, status, &diag);
    return status == PEAL_OK;
}

int yard_meet_far(struct yard *yard)
{
    unsigned char stop = atomic_load(&yard->stop) != 0, any = 0;
    unsigned char *all = need(calloc(yard->ranks, 1));
    int met = exchange(yard, &stop, 1, all);
    for (uint32_t r = 0; r < yard->ranks; r++)
        any |= all[r];
    free(all);
    if (any)
        atomic_store(&yard->stop, 1);
    return met && !any;
}

static int share_times(struct yard *yard, uint32_t first, uint32_t count)
{
    double *mine = need(calloc(count, sizeof *mine));
    double *all = need(calloc((size_t)count * yard->ranks, sizeof *all));
    for (uint32_t i = 0; i < count; i++)
        mine[i] = yard->times[(first + i) * yard->ranks + yard->rank];
    int shared = exchange(yard, mine, count * sizeof *mine, all);
    for (uint32_t r = 0; r < yard->ranks && shared; r++)
        for (uint32_t i = 0; i < count; i++)
            yard->times[(first + i) * yard->ranks + r] = all[(size_t)r * count + i];
    free(mine);
    free(all);
    return shared;
}

struct findings {
    unsigned long long wrong;
    struct wrong first;
};

/* The wrong elements of all, and the first one of the lowest rank that has any. */
static int share_findings(struct yard *yard, struct result *result)
{
    struct findings mine = {atomic_load(&yard->wrong), result->first};
    struct findings *all = need(calloc(yard->ranks, sizeof *all));
    unsigned long long wrong = 0;
    int shared = exchange(yard, &mine, sizeof mine, all);
    for (uint32_t r = yard->ranks; r-- > 0 && shared;) {
        wrong += all[r].wrong;
        if (all[r].wrong)
            result->first = all[r].first;
    }
    free(all);
    atomic_store(&yard->wrong, wrong);
    return shared;
}

int yard_share(struct yard *yard, uint32_t job, uint32_t rounds)
{
    if (!yard->far)
        return 1;
    for (uint32_t r = 0; r < rounds; r += TIMES_AT_ONCE) {
        uint32_t left = rounds - r;
        if (!share_times(yard, r, left < TIMES_AT_ONCE ? left : TIMES_AT_ONCE))
            return 0;
    }
    return share_findings(yard, &yard->results[job]);
}

int yard_share_iterations(struct yard *yard)
{
    unsigned mine = atomic_load(&yard->iterations);
    if (!yard->far)
        return 1;
    unsigned *all = need(calloc(yard->ranks, sizeof *all));
    int shared = exchange(yard, &mine, sizeof mine, all);
    atomic_store(&yard->iterations, all[0]);
    free(all);
    return shared;
}

int yard_share_digests(struct yard *yard)
{
    uint64_t mine = yard->digest[yard->rank];
    return !yard->far || exchange(yard, &mine, sizeof mine, yard->digest);
}
