/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's part in a run: fill, call, compare, and time. */
#include "self.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

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

/* Of a checked barrier one rank is late, in rounds whose time is not told. */
static void be_late(const struct self *self, uint32_t call, uint32_t round)
{
    static const struct timespec nap = {0, 300000};
    const struct job *job = self->job;
    uint64_t hash = elem_mix(self->crew->seed + self->number, round * job->calls + call);
    if ((round < job->warmup || job->shake) && hash % self->crew->ranks == self->rank)
        (void)nanosleep(&nap, NULL);
}

static int call_checked(struct self *self, uint32_t call, uint32_t round)
{
    if (self->job->action.collective != PEAL_BARRIER || !self->job->check)
        return self_call(self, call);
    be_late(self, call, round);
    self_enter(self);
    int done = self_call(self, call);
    if (done)
        self_leave(self);
    return done;
}

/* What is not checked takes the numbers that an earlier job left; of other blocks than equal ones
 * preparing sets the lengths too. */
static void prepare(struct self *self, uint32_t round)
{
    const struct job *job = self->job;
    uint64_t bytes = 2 * yard_slot(self->bytes) * job->calls;
    int whole = job->action.collective != PEAL_ALLTOALLV && job->action.collective != PEAL_CUSTOM;
    if (!job->check && (round > 0 || (whole && bytes <= self->filled)))
        return;
    for (uint32_t c = 0; c < job->calls; c++)
        self_prepare(self, c, round);
    if (!job->check && bytes > self->filled)
        self->filled = bytes;
}

/* One round; *us is what a call took this rank. */
static int run_round(struct self *self, uint32_t round, double *us)
{
    const struct job *job = self->job;
    prepare(self, round);
    if (!gpu_upload(self) || !yard_meet(self->yard, 0) || !yard_meet(self->yard, 1))
        return 0;
    uint64_t start = now_ns();
    for (uint32_t c = 0; c < job->calls; c++) {
        delay(self);
        if (!call_checked(self, c, round))
            return 0;
    }
    if (!gpu_finish(self))
        return 0;
    *us = (double)(now_ns() - start) / 1e3 / job->calls;
    if (job->check && !gpu_download(self))
        return 0;
    for (uint32_t c = 0; c < job->calls && job->check; c++)
        self_check(self, c, round); /* a call that is over is over: no meeting before this */
    for (uint32_t c = 0; c < job->calls && job->check; c++)
        if (!self_compare(self, c))
            return 0;
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

#define BURST_LEAST 3u     /* calls */
#define BURST_MOST 100000u /* the same */
#define ROUNDS_LEAST 2u    /* the first of which may be a bad one */

static int burst(struct self *self, uint32_t calls, double *us)
{
    if (!yard_meet(self->yard, 0) || !yard_meet(self->yard, 1))
        return 0;
    uint64_t start = now_ns();
    for (uint32_t i = 0; i < calls; i++)
        if (!self_call(self, 0))
            return 0;
    if (!gpu_finish(self))
        return 0;
    *us = (double)(now_ns() - start) / 1e3 / calls;
    return 1;
}

/* Calls that come next: *calls each time, *bursts times. Rank 0 decides. 0: somebody has failed. */
static int agree(struct self *self, unsigned *calls, unsigned *bursts)
{
    struct yard *yard = self->yard;
    if (self->rank == 0) {
        atomic_store_explicit(&yard->iterations, *calls, memory_order_relaxed);
        atomic_store_explicit(&yard->bursts, *bursts, memory_order_relaxed);
    }
    if (!yard_meet(yard, 0) || !yard_share_iterations(yard))
        return 0;
    *calls = atomic_load_explicit(&yard->iterations, memory_order_relaxed);
    *bursts = atomic_load_explicit(&yard->bursts, memory_order_relaxed);
    return 1;
}

/* Calls of a burst, and bursts, that the budget has room for when one takes so long; without a
 * bound three calls of each round all the same. */
static void fit_budget(const struct job *job, double us, unsigned *calls, unsigned *bursts)
{
    double room = (double)job->budget_us / (us > 0.01 ? us : 0.01), each = room / job->rounds;
    *bursts = job->rounds;
    *calls = each < BURST_LEAST ? BURST_LEAST : each > BURST_MOST ? BURST_MOST : (unsigned)each;
    if (job->burst)
        *calls = job->burst;
    if (!job->bounded || job->burst || each >= BURST_LEAST)
        return;
    *calls = room < BURST_LEAST * ROUNDS_LEAST ? 1 : BURST_LEAST;
    double fit = room / *calls;
    unsigned most = job->rounds < ROUNDS_LEAST ? job->rounds : ROUNDS_LEAST;
    *bursts = fit < most ? most : fit < job->rounds ? (unsigned)fit : job->rounds;
}

/* Of a call that has just taken so long, and may have had to wait for pages. */
static unsigned fit_warmup(const struct job *job, double us)
{
    double room = (double)job->budget_us / (us > 0.01 ? us : 0.01);
    if (!job->bounded || room >= job->warmup)
        return job->warmup ? job->warmup : 1;
    return room < 1 ? 1 : (unsigned)room;
}

/* A checked call, warm-up, then bursts of as many calls as the budget holds, the last of which is
 * checked too. */
static int run_budget(struct self *self)
{
    const struct job *job = self->job;
    unsigned calls = 1, bursts = 1;
    double us;
    if (!run_round(self, 0, &us))
        return 0;
    if (self->rank == 0)
        calls = fit_warmup(job, us);
    if (!agree(self, &calls, &bursts) || !burst(self, calls, &us))
        return 0;
    if (self->rank == 0)
        fit_budget(job, us, &calls, &bursts);
    if (!agree(self, &calls, &bursts))
        return 0;
    for (uint32_t r = 0; r < bursts; r++) {
        if (!burst(self, calls, &us))
            return 0;
        self->yard->times[r * self->crew->ranks + self->rank] = us;
    }
    if (!job->check || job->in_place) /* in place, the inputs are gone */
        return 1;
    if (!gpu_download(self))
        return 0;
    self_check(self, 0, 0);
    return 1;
}

/* ---- jobs */

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* That have been timed. */
static uint32_t rounds_of(const struct self *self)
{
    const struct job *job = self->job;
    return job->budget_us && !job->beside ? atomic_load(&self->yard->bursts) : job->rounds;
}

/* Rank 0, while the others wait for it at the next meeting; each one where nothing is shared. */
static void sum_up(const struct self *self)
{
    const struct job *job = self->job;
    struct yard *yard = self->yard;
    struct result *result = &yard->results[self->number];
    uint32_t rounds = rounds_of(self);
    double sum = 0;
    for (uint32_t r = 0; r < rounds; r++) {
        double slowest = 0;
        for (uint32_t k = 0; k < yard->ranks; k++)
            if (yard->times[r * yard->ranks + k] > slowest)
                slowest = yard->times[r * yard->ranks + k];
        yard->times[r] = slowest; /* never ahead of what is read */
        sum += slowest;
    }
    if (job->beside)
        self_overlap_sum(self, result);
    qsort(yard->times, rounds, sizeof *yard->times, by_value);
    result->best_us = yard->times[0];
    result->median_us = yard->times[rounds / 2];
    result->mean_us = sum / rounds;
    unsigned calls = job->budget_us ? atomic_load(&yard->iterations) : job->calls;
    result->calls = (uint64_t)calls * rounds;
    result->wrong = atomic_load_explicit(&yard->wrong, memory_order_relaxed);
    result->done = 1;
    atomic_store_explicit(&yard->finished, self->number + 1, memory_order_relaxed);
}

static int run_job(struct self *self, uint32_t number)
{
    const struct job *job = &self->crew->jobs[number];
    self->number = number;
    self->job = job;
    self->bytes = job_room(job, self->crew->ranks);
    self_expect(self);
    if (!(job->beside ? self_overlap(self) : job->budget_us ? run_budget(self) : run_rounds(self)))
        return 0;
    if (!yard_meet(self->yard, 0) || !yard_share(self->yard, number, rounds_of(self)))
        return 0;
    uint64_t wrong = atomic_load_explicit(&self->yard->wrong, memory_order_relaxed);
    if (self->rank == 0 || self->yard->far)
        sum_up(self);
    return yard_meet(self->yard, 0) && wrong == 0;
}

/* ---- memory of a rank */

static uint64_t memory_bytes(const struct crew *crew)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < crew->njobs; i++) {
        const struct job *job = &crew->jobs[i];
        uint64_t bytes = yard_slot(job_room(job, crew->ranks)) * 2 * job->calls;
        if (bytes > most)
            most = bytes;
    }
    return most;
}

static void take_counts(struct self *self)
{
    uint32_t calls = 1;
    for (uint32_t i = 0; i < self->crew->njobs; i++)
        if (self->crew->jobs[i].calls > calls)
            calls = self->crew->jobs[i].calls;
    self->counts = need(calloc(2 * (size_t)calls * self->crew->ranks, sizeof *self->counts));
}

static int take_memory(struct self *self)
{
    take_counts(self);
    peal_diag diag = PEAL_DIAG_INIT;
    uint64_t bytes = memory_bytes(self->crew);
    if (self->crew->registered && !self->gpu) {
        self->memory = peal_mem_alloc(self->comm, (size_t)bytes);
    } else {
        void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        self->memory = memory == MAP_FAILED ? NULL : memory;
        self->mapped = self->memory ? bytes : 0;
    }
    if (self->memory)
        return gpu_memory(self, bytes);
    (void)snprintf(diag.text, sizeof diag.text, "no %llu bytes of memory to be had",
                   (unsigned long long)bytes);
    yard_fail(self->yard, self->rank, PEAL_ERR_MEMORY, &diag);
    return 0;
}

/* ---- what it has recorded */

static int begin_records(struct self *self, peal_diag *diag)
{
    peal_status status = PEAL_OK;
    if (self->gpu)
        return 1; /* none there */
    if (self->crew->counters)
        status = peal_comm_measure(self->comm, 1);
    if (status == PEAL_OK && self->crew->trace)
        status = peal_comm_trace(self->comm, TRACE_EVENTS, diag);
    if (status != PEAL_OK)
        yard_fail(self->yard, self->rank, status, diag);
    return status == PEAL_OK;
}

static void leave_records(const struct self *self)
{
    struct yard *yard = self->yard;
    if (self->gpu)
        return;
    for (uint32_t i = 0; yard->trace && i < TRACE_EVENTS; i++) {
        peal_trace_event *event = &yard->trace[(size_t)self->rank * TRACE_EVENTS + i];
        event->size = sizeof *event;
        if (peal_comm_traced(self->comm, i, event) != PEAL_OK)
            break;
        yard->traced[self->rank] = i + 1;
    }
    for (uint32_t i = 0; yard->counters && self->rank == 0; i++) {
        peal_counter counter = {.size = sizeof counter};
        if (peal_comm_counter(self->comm, i, &counter) != PEAL_OK)
            break;
        yard->counters[i] = counter;
    }
}

void crew_rank(const struct crew *crew, struct yard *yard, uint32_t rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct self self = {.crew = crew, .yard = yard, .rank = rank, .random = crew->seed};
    if (crew->pin)
        yard_pin(crew->places ? crew->places[rank] : rank);
    peal_status status = crew->gpu
                             ? gpu_open(&self, &diag)
                             : peal_comm_create(yard->world, crew->table, rank, &diag, &self.comm);
    if (status != PEAL_OK) {
        yard_fail(yard, rank, status, &diag);
        yard_leave(yard);
        return;
    }
    if (take_memory(&self) && begin_records(&self, &diag)) {
        for (uint32_t j = 0; j < crew->njobs && run_job(&self, j); j++)
            continue;
        if (self.gpu && rank == 0)
            gpu_info(&self, &yard->info);
        else if (rank == 0 || yard->far)
            (void)!peal_comm_get(self.comm, &yard->info);
        leave_records(&self);
        (void)yard_meet(yard, 0); /* buffers that peers may still read */
    }
    if (self.gpu) {
        gpu_end(&self);
        yard_leave(yard);
    }
    gpu_close(&self);
    if (yard->far && atomic_load(&yard->stop)) /* no leave is taken of ranks that are lost */
        peal_comm_abort(self.comm);
    peal_comm_destroy(self.comm);
    free(self.counts);
    /* After a failure a peer may still be at it; the program is about to end anyway. */
    if (self.mapped && !atomic_load(&yard->stop))
        (void)munmap(self.memory, (size_t)self.mapped);
}
