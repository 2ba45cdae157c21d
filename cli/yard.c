/* SPDX-License-Identifier: Apache-2.0 */
#include "yard.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

uint64_t yard_slot(uint64_t bytes)
{
    return (bytes + YARD_SLOT_EXTRA - 1) / YARD_SLOT_EXTRA * YARD_SLOT_EXTRA + YARD_SLOT_EXTRA;
}

/* ---- memory */

static uint64_t expected_bytes(const struct crew *crew)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < crew->njobs; i++) {
        const struct job *job = &crew->jobs[i];
        uint64_t need = yard_slot(job_bytes(job, crew->ranks)) * job->calls;
        if (job->check && action_reduces(&job->action) && need > most)
            most = need;
    }
    return most;
}

static uint64_t times_bytes(const struct crew *crew)
{
    uint64_t rounds = 1;
    for (uint32_t i = 0; i < crew->njobs; i++)
        if (crew->jobs[i].rounds > rounds)
            rounds = crew->jobs[i].rounds;
    return rounds * crew->ranks * sizeof(double);
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + 4095) & ~(uint64_t)4095;
}

/* Where ranks leave what they have recorded. */
static uint64_t place_records(const struct crew *crew, struct yard *yard, char *memory)
{
    uint64_t traced = crew->trace ? whole_pages(crew->ranks * sizeof *yard->traced) : 0;
    uint64_t trace =
        crew->trace ? whole_pages((uint64_t)crew->ranks * TRACE_EVENTS * sizeof *yard->trace) : 0;
    uint64_t counters =
        crew->counters ? whole_pages((uint64_t)crew_rows(crew) * sizeof *yard->counters) : 0;
    if (yard && traced) {
        yard->traced = (uint32_t *)(void *)memory;
        yard->trace = (peal_trace_event *)(void *)(memory + traced);
    }
    if (yard && counters)
        yard->counters = (peal_counter *)(void *)(memory + traced + trace);
    return traced + trace + counters;
}

struct yard *yard_make(const struct crew *crew)
{
    uint64_t head = whole_pages(sizeof(struct yard));
    uint64_t results = whole_pages(crew->njobs * sizeof(struct result));
    uint64_t times = whole_pages(times_bytes(crew));
    uint64_t entered = whole_pages(crew->ranks * sizeof(atomic_uint));
    uint64_t digests = whole_pages(crew->ranks * sizeof(uint64_t));
    uint64_t records = place_records(crew, NULL, NULL);
    uint64_t before = head + results + times + entered + digests;
    uint64_t total = before + records + whole_pages(expected_bytes(crew));
    char *memory = mmap(NULL, (size_t)total, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        say(SAY_ERROR, "no %llu bytes of shared memory to be had", (unsigned long long)total);
        return NULL;
    }
    struct yard *yard = (struct yard *)(void *)memory;
    yard->ranks = crew->ranks;
    yard->info.size = sizeof yard->info;
    yard->crowded = (long)crew->ranks > sysconf(_SC_NPROCESSORS_ONLN);
    yard->results = (struct result *)(void *)(memory + head);
    yard->times = (double *)(void *)(memory + head + results);
    yard->entered = (atomic_uint *)(void *)(memory + head + results + times);
    yard->digest = (uint64_t *)(void *)(memory + head + results + times + entered);
    (void)place_records(crew, yard, memory + before);
    yard->expected = memory + before + records;
    yard->bytes = (size_t)total;
    (void)sem_init(&yard->ended, 1, 0);
    return yard;
}

void yard_unmake(struct yard *yard)
{
    if (!yard)
        return;
    (void)sem_destroy(&yard->ended);
    (void)munmap(yard, yard->bytes);
}

/* ---- meeting */

#define LEAVE_NAPS 2000 /* of a millisecond */

static void pause_thread(const struct yard *yard, int soon, uint32_t polls)
{
    static const struct timespec nap = {0, 50000};
    if (polls < (yard->crowded ? 1u : 2000u))
        return;
    if (soon || polls < 2200)
        (void)sched_yield();
    else
        (void)nanosleep(&nap, NULL);
}

int yard_meet(struct yard *yard, int soon)
{
    if (yard->far)
        return yard_meet_far(yard);
    unsigned generation = atomic_load_explicit(&yard->generation, memory_order_acquire);
    if (atomic_fetch_add_explicit(&yard->arrived, 1, memory_order_acq_rel) + 1 == yard->ranks) {
        atomic_store_explicit(&yard->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&yard->generation, generation + 1, memory_order_release);
        return !atomic_load_explicit(&yard->stop, memory_order_acquire);
    }
    for (uint32_t polls = 0;; polls++) {
        if (atomic_load_explicit(&yard->stop, memory_order_acquire))
            return 0;
        if (atomic_load_explicit(&yard->generation, memory_order_acquire) != generation)
            return 1;
        pause_thread(yard, soon, polls);
    }
}

void yard_leave(struct yard *yard)
{
    static const struct timespec nap = {0, 1000000};
    atomic_fetch_add_explicit(&yard->left, 1, memory_order_acq_rel);
    for (uint32_t naps = 0; naps < LEAVE_NAPS && !yard->far && atomic_load(&yard->stop) &&
                            atomic_load(&yard->left) < yard->ranks;
         naps++)
        (void)nanosleep(&nap, NULL);
}

void yard_fail(struct yard *yard, uint32_t rank, peal_status status, const peal_diag *diag)
{
    if (atomic_exchange_explicit(&yard->failed, 1, memory_order_acq_rel) == 0) {
        yard->status = status;
        yard->failed_rank = rank;
        yard->diag = *diag;
    }
    atomic_store_explicit(&yard->stop, 1, memory_order_release);
}
