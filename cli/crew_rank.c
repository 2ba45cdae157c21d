/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's part in a run: fill, call, compare, and time. */
#include "yard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define BLOCK 4096u           /* elements compared at once */
#define INPUT_EACH (1u << 20) /* larger inputs are compared in the last round only */

struct self {
    const struct crew *crew;
    struct yard *yard;
    peal_comm *comm;
    uint32_t rank;
    uint32_t number; /* of the job under way */
    const struct job *job;
    uint64_t bytes;  /* of its message */
    char *memory;    /* two slots for each call: in and out */
    uint64_t mapped; /* bytes of memory to be unmapped, 0 when it is the world's */
    uint64_t random;
};

/* ---- buffers */

static struct elem_job elements(const struct self *self, uint32_t call)
{
    uint64_t seed = elem_mix(self->crew->seed + self->number, call);
    return (struct elem_job){self->job->dtype, self->job->op, self->crew->ranks, seed};
}

static uint64_t shift(const struct self *self, uint32_t call, int out)
{
    if (!self->job->shake)
        return 0;
    size_t size = peal_dtype_size(self->job->dtype);
    uint64_t hash = elem_mix(self->rank * 1000u + self->number, 2 * call + (unsigned)out);
    return hash % (128 / size) * size;
}

static char *buffer(const struct self *self, uint32_t call, int out)
{
    uint64_t slot = yard_slot(self->bytes);
    int second = out && !self->job->in_place;
    char *at = self->memory + slot * (2ull * call + (unsigned)second);
    return at + 2 * YARD_GUARD + shift(self, call, second);
}

/* Guards and poison change from round to round: what is left of the last one is no result. */
static int guard_byte(uint32_t round)
{
    return 0xa5 ^ (int)(round & 0x5f);
}

static void prepare_call(const struct self *self, uint32_t call, uint32_t round)
{
    struct elem_job job = elements(self, call);
    for (int out = 0; out < 2 - self->job->in_place; out++) {
        char *at = buffer(self, call, out);
        memset(at - YARD_GUARD, guard_byte(round), YARD_GUARD);
        memset(at + self->bytes, guard_byte(round), YARD_GUARD);
    }
    if (!self->job->in_place)
        memset(buffer(self, call, 1), 0x5a ^ (int)(round & 0xff), (size_t)self->bytes);
    if (self->job->in_place || round == 0) /* else it is still there, as the last round checks */
        elem_input(&job, self->rank, 0, self->job->count, buffer(self, call, 0));
}

/* Of all results of a round, this rank makes its part of the elements. */
static void make_expected(const struct self *self)
{
    size_t size = peal_dtype_size(self->job->dtype);
    uint64_t first = self->job->count * self->rank / self->crew->ranks;
    uint64_t last = self->job->count * (self->rank + 1ull) / self->crew->ranks;
    for (uint32_t c = 0; c < self->job->calls && self->job->check; c++) {
        struct elem_job job = elements(self, c);
        char *to = self->yard->expected + yard_slot(self->bytes) * c;
        elem_result(&job, first, last - first, to + first * size);
    }
}

/* ---- comparing */

static void note_wrong(const struct self *self, const char *what, uint64_t index, const char *got,
                       const char *wanted)
{
    struct yard *yard = self->yard;
    (void)atomic_fetch_add_explicit(&yard->wrong, 1, memory_order_relaxed);
    if (atomic_exchange_explicit(&yard->first_wrong, 1, memory_order_acq_rel))
        return;
    struct wrong *first = &yard->results[self->number].first;
    first->rank = self->rank;
    first->index = index;
    (void)snprintf(first->what, sizeof first->what, "%s", what);
    (void)elem_text(self->job->dtype, got, first->got);
    (void)elem_text(self->job->dtype, wanted, first->wanted);
}

static void compare(const struct self *self, const char *what, uint64_t first, uint64_t count,
                    const char *got, const char *wanted)
{
    size_t size = peal_dtype_size(self->job->dtype);
    if (memcmp(got, wanted, (size_t)count * size) == 0)
        return;
    for (uint64_t i = 0; i < count; i++)
        if (memcmp(got + i * size, wanted + i * size, size) != 0)
            note_wrong(self, what, first + i, got + i * size, wanted + i * size);
}

/* Out of place, the input is as it was. */
static void compare_input(const struct self *self, uint32_t call)
{
    uint64_t block[BLOCK];
    struct elem_job job = elements(self, call);
    size_t size = peal_dtype_size(job.dtype);
    const char *in = buffer(self, call, 0);
    for (uint64_t at = 0; at < self->job->count; at += BLOCK) {
        uint64_t count = self->job->count - at < BLOCK ? self->job->count - at : BLOCK;
        elem_input(&job, self->rank, at, count, block);
        compare(self, "input", at, count, in + at * size, (const char *)block);
    }
}

static void compare_guards(const struct self *self, uint32_t call, int out, uint32_t round)
{
    const unsigned char *at = (const unsigned char *)buffer(self, call, out);
    for (uint64_t i = 0; i < 2 * YARD_GUARD; i++) {
        const unsigned char *byte =
            i < YARD_GUARD ? at + i - YARD_GUARD : at + self->bytes + i - YARD_GUARD;
        char got[8], wanted[8];
        if (*byte == (unsigned char)guard_byte(round))
            continue;
        memset(got, *byte, sizeof got);
        memset(wanted, guard_byte(round), sizeof wanted);
        note_wrong(self, out ? "guard of out" : "guard of in", i, got, wanted);
    }
}

static void check_call(const struct self *self, uint32_t call, uint32_t round)
{
    compare(self, "element", 0, self->job->count, buffer(self, call, 1),
            self->yard->expected + yard_slot(self->bytes) * call);
    compare_guards(self, call, 1, round);
    if (self->job->in_place)
        return;
    compare_guards(self, call, 0, round);
    if (self->bytes <= INPUT_EACH || self->job->budget_us ||
        round + 1 == self->job->warmup + self->job->rounds)
        compare_input(self, call);
}

/* ---- calling */

static void delay(struct self *self)
{
    if (!self->crew->random_delay)
        return;
    self->random = elem_mix(self->random, self->rank + 1);
    struct timespec nap = {0, (long)(self->random % 300000)};
    if (self->random >> 62 != 0) /* a quarter goes ahead */
        (void)nanosleep(&nap, NULL);
}

static int call_once(struct self *self, uint32_t call)
{
    peal_diag diag = PEAL_DIAG_INIT;
    const struct job *job = self->job;
    peal_status status = peal_allreduce(self->comm, buffer(self, call, 0), buffer(self, call, 1),
                                        (size_t)job->count, job->dtype, job->op, &diag);
    if (status != PEAL_OK)
        yard_fail(self->yard, self->rank, status, &diag);
    return status == PEAL_OK;
}

/* One round; *us is what a call took this rank. */
static int run_round(struct self *self, uint32_t round, double *us)
{
    const struct job *job = self->job;
    for (uint32_t c = 0; c < job->calls && (job->check || round == 0); c++)
        prepare_call(self, c, round);
    if (!yard_meet(self->yard, 0) || !yard_meet(self->yard, 1))
        return 0;
    uint64_t start = now_ns();
    for (uint32_t c = 0; c < job->calls; c++) {
        delay(self);
        if (!call_once(self, c))
            return 0;
    }
    *us = (double)(now_ns() - start) / 1e3 / job->calls;
    for (uint32_t c = 0; c < job->calls && job->check; c++)
        check_call(self, c, round); /* a call that is over is over: no meeting before this */
    return 1;
}

static int run_rounds(struct self *self)
{
    const struct job *job = self->job;
    for (uint32_t r = 0; r < job->warmup + job->rounds; r++) {
        double us;
        if (!run_round(self, r, &us))
            return 0;
        if (r >= job->warmup)
            self->yard->times[(r - job->warmup) * self->crew->ranks + self->rank] = us;
    }
    return 1;
}

/* ---- calling by time */

static int burst(struct self *self, uint32_t calls, double *us)
{
    if (!yard_meet(self->yard, 0) || !yard_meet(self->yard, 1))
        return 0;
    uint64_t start = now_ns();
    for (uint32_t i = 0; i < calls; i++)
        if (!call_once(self, 0))
            return 0;
    *us = (double)(now_ns() - start) / 1e3 / calls;
    return 1;
}

/* A checked call, warm-up, then bursts of as many calls as the budget holds, the last of which is
 * checked too. */
static int run_budget(struct self *self)
{
    const struct job *job = self->job;
    double us;
    if (!run_round(self, 0, &us) || !burst(self, job->warmup ? job->warmup : 1, &us))
        return 0;
    if (self->rank == 0) {
        double fit = (double)job->budget_us / job->rounds / (us > 0.01 ? us : 0.01);
        unsigned calls = fit < 3 ? 3 : fit > 100000 ? 100000 : (unsigned)fit;
        calls = job->burst ? job->burst : calls;
        atomic_store_explicit(&self->yard->iterations, calls, memory_order_relaxed);
    }
    if (!yard_meet(self->yard, 0))
        return 0;
    unsigned calls = atomic_load_explicit(&self->yard->iterations, memory_order_relaxed);
    for (uint32_t r = 0; r < job->rounds; r++) {
        if (!burst(self, calls, &us))
            return 0;
        self->yard->times[r * self->crew->ranks + self->rank] = us;
    }
    if (job->check && !job->in_place) /* in place, the inputs are gone */
        check_call(self, 0, 0);
    return 1;
}

/* ---- jobs */

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* Rank 0, while the others wait for it at the next meeting. */
static void sum_up(const struct self *self)
{
    const struct job *job = self->job;
    struct yard *yard = self->yard;
    struct result *result = &yard->results[self->number];
    for (uint32_t r = 0; r < job->rounds; r++) {
        double slowest = 0;
        for (uint32_t k = 0; k < yard->ranks; k++)
            if (yard->times[r * yard->ranks + k] > slowest)
                slowest = yard->times[r * yard->ranks + k];
        yard->times[r] = slowest; /* never ahead of what is read */
    }
    qsort(yard->times, job->rounds, sizeof *yard->times, by_value);
    result->best_us = yard->times[0];
    result->median_us = yard->times[job->rounds / 2];
    unsigned calls = job->budget_us ? atomic_load(&yard->iterations) : job->calls;
    result->calls = (uint64_t)calls * job->rounds;
    result->wrong = atomic_load_explicit(&yard->wrong, memory_order_relaxed);
    result->done = 1;
    atomic_store_explicit(&yard->finished, self->number + 1, memory_order_relaxed);
}

static int run_job(struct self *self, uint32_t number)
{
    const struct job *job = &self->crew->jobs[number];
    self->number = number;
    self->job = job;
    self->bytes = job->count * peal_dtype_size(job->dtype);
    make_expected(self);
    if (!(job->budget_us ? run_budget(self) : run_rounds(self)))
        return 0;
    if (!yard_meet(self->yard, 0))
        return 0;
    uint64_t wrong = atomic_load_explicit(&self->yard->wrong, memory_order_relaxed);
    if (self->rank == 0)
        sum_up(self);
    return yard_meet(self->yard, 0) && wrong == 0;
}

/* ---- memory of a rank */

static uint64_t memory_bytes(const struct crew *crew)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < crew->njobs; i++) {
        const struct job *job = &crew->jobs[i];
        uint64_t bytes = yard_slot(job->count * peal_dtype_size(job->dtype)) * 2 * job->calls;
        if (bytes > most)
            most = bytes;
    }
    return most;
}

static int take_memory(struct self *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    uint64_t bytes = memory_bytes(self->crew);
    if (self->crew->registered) {
        self->memory = peal_mem_alloc(self->comm, (size_t)bytes);
    } else {
        void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        self->memory = memory == MAP_FAILED ? NULL : memory;
        self->mapped = self->memory ? bytes : 0;
    }
    if (self->memory)
        return 1;
    (void)snprintf(diag.text, sizeof diag.text, "no %llu bytes of memory to be had",
                   (unsigned long long)bytes);
    yard_fail(self->yard, self->rank, PEAL_ERR_MEMORY, &diag);
    return 0;
}

void crew_rank(const struct crew *crew, struct yard *yard, uint32_t rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct self self = {.crew = crew, .yard = yard, .rank = rank, .random = crew->seed};
    if (crew->pin)
        yard_pin(rank);
    peal_status status = peal_comm_create(yard->world, crew->table, rank, &diag, &self.comm);
    if (status != PEAL_OK) {
        yard_fail(yard, rank, status, &diag);
        return;
    }
    if (take_memory(&self)) {
        for (uint32_t j = 0; j < crew->njobs && run_job(&self, j); j++)
            continue;
        if (rank == 0)
            (void)!peal_comm_get(self.comm, &yard->info);
        (void)yard_meet(yard, 0); /* buffers that peers may still read */
    }
    peal_comm_destroy(self.comm);
    /* After a failure a peer may still be at it; the program is about to end anyway. */
    if (self.mapped && !atomic_load(&yard->stop))
        (void)munmap(self.memory, (size_t)self.mapped);
}
