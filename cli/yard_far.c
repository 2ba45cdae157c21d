/* SPDX-License-Identifier: Apache-2.0 */
/* The yard of ranks that share no memory: what they put there for each other goes through the
 * world, and all of them end up with the same. */
#include "yard.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMES_AT_ONCE 4096u
#define EVENTS_AT_ONCE 256u

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
    unsigned mine[2] = {atomic_load(&yard->iterations), atomic_load(&yard->bursts)};
    if (!yard->far)
        return 1;
    unsigned *all = need(calloc(yard->ranks, sizeof mine));
    int shared = exchange(yard, mine, sizeof mine, all);
    atomic_store(&yard->iterations, all[0]);
    atomic_store(&yard->bursts, all[1]);
    free(all);
    return shared;
}

int yard_share_digests(struct yard *yard)
{
    uint64_t mine = yard->digest[yard->rank];
    return !yard->far || exchange(yard, &mine, sizeof mine, yard->digest);
}

/* ---- timelines */

static uint64_t clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What each rank's clock is ahead of rank 0's, modulo 2^64: on hosts of their own read when all had
 * just met, so right but for the time that a message takes. */
static int compare_clocks(struct yard *yard, uint64_t *ahead)
{
    unsigned char met = 1, *all = need(calloc(yard->ranks, 1));
    int shared = exchange(yard, &met, 1, all);
    uint64_t mine = clock_ns();
    free(all);
    if (!shared || !exchange(yard, &mine, sizeof mine, ahead))
        return 0;
    const char *home = peal_world_host(yard->world, 0);
    for (uint32_t r = yard->ranks; r-- > 0;) {
        const char *host = peal_world_host(yard->world, r);
        int same = !home || !host || strcmp(home, host) == 0;
        ahead[r] = same ? 0 : ahead[r] - ahead[0];
    }
    return 1;
}

/* The `count` events from `first` on of each rank, as far as it has them. */
static int share_events(struct yard *yard, uint32_t first, uint32_t count, peal_trace_event *all)
{
    peal_trace_event *mine = &yard->trace[(size_t)yard->rank * TRACE_EVENTS + first];
    if (!exchange(yard, mine, count * sizeof *mine, all))
        return 0;
    for (uint32_t r = 0; r < yard->ranks; r++)
        if (r != yard->rank)
            memcpy(&yard->trace[(size_t)r * TRACE_EVENTS + first], &all[(size_t)r * count],
                   count * sizeof *all);
    return 1;
}

static void set_clocks(struct yard *yard, const uint64_t *ahead)
{
    for (uint32_t r = 0; r < yard->ranks; r++)
        for (uint32_t i = 0; i < yard->traced[r]; i++) {
            peal_trace_event *event = &yard->trace[(size_t)r * TRACE_EVENTS + i];
            event->start_ns -= ahead[r];
            event->end_ns -= ahead[r];
        }
}

int yard_share_traces(struct yard *yard)
{
    uint32_t mine = yard->traced[yard->rank], most = 0;
    uint64_t *ahead = need(calloc(yard->ranks, sizeof *ahead));
    size_t room = (size_t)yard->ranks * EVENTS_AT_ONCE;
    peal_trace_event *all = need(calloc(room, sizeof *all));
    int shared = compare_clocks(yard, ahead) && exchange(yard, &mine, sizeof mine, yard->traced);
    for (uint32_t r = 0; r < yard->ranks; r++)
        most = yard->traced[r] > most ? yard->traced[r] : most;
    for (uint32_t i = 0; i < most && shared; i += EVENTS_AT_ONCE)
        shared = share_events(yard, i, most - i < EVENTS_AT_ONCE ? most - i : EVENTS_AT_ONCE, all);
    if (shared)
        set_clocks(yard, ahead);
    free(all);
    free(ahead);
    return shared;
}
