/* SPDX-License-Identifier: Apache-2.0 */
/* A started call, and a matrix product of its rank beside it. */
#include "self.h"

#include <stdlib.h>

#define TILE 32u            /* as on GPUs. Three tiles of floats are 12 KiB: in the first cache */
#define TRIES 7u            /* calls, and pieces of work, by which the work is sized */
#define PIECES 64u          /* of work, to begin with; */
#define PIECES_MAX 1000000u /* and beside a call */
#define GPU_PIECES 16384u   /* the same of a GPU */
#define GPU_PIECES_MAX (1u << 24)

/* One piece of work, as a GEMM's inner kernel is: c += a * b. */
struct work {
    float a[TILE][TILE];
    float b[TILE][TILE];
    float c[TILE][TILE];
};

struct beside {
    struct self *self;
    peal_pending *pending;
    struct work *work;
    uint32_t pieces; /* as long as a call, about */
};

/* ---- work */

static void multiply(struct work *work)
{
    for (uint32_t i = 0; i < TILE; i++)
        for (uint32_t k = 0; k < TILE; k++) {
            float factor = work->a[i][k];
            for (uint32_t j = 0; j < TILE; j++)
                work->c[i][j] += factor * work->b[k][j];
        }
}

static struct work *make_work(uint32_t rank)
{
    struct work *work = need(calloc(1, sizeof *work));
    for (uint32_t i = 0; i < TILE; i++)
        for (uint32_t j = 0; j < TILE; j++) {
            work->a[i][j] = 1e-3f * (float)(i + rank + 1);
            work->b[i][j] = 1e-3f * (float)(j + 1);
        }
    return work;
}

static int on_gpu(const struct beside *beside)
{
    return beside->self->gpu != NULL;
}

static int compute(const struct beside *beside)
{
    if (on_gpu(beside))
        return gpu_work(beside->self, beside->pieces) && gpu_worked(beside->self);
    for (uint32_t i = 0; i < beside->pieces; i++)
        multiply(beside->work);
    return 1;
}

/* ---- calls */

static int passed(const struct beside *beside, peal_status status, const peal_diag *diag)
{
    if (status != PEAL_OK)
        yard_fail(beside->self->yard, beside->self->rank, status, diag);
    return status == PEAL_OK;
}

static int start(const struct beside *beside)
{
    peal_diag diag = PEAL_DIAG_INIT;
    if (on_gpu(beside))
        return self_call(beside->self, 0);
    return passed(beside, peal_start(beside->pending, &diag), &diag);
}

static int finish(const struct beside *beside)
{
    peal_diag diag = PEAL_DIAG_INIT;
    if (on_gpu(beside))
        return gpu_finish(beside->self);
    return passed(beside, peal_wait(beside->pending, &diag), &diag);
}

/* The work while the call is under way. */
static int compute_beside(const struct beside *beside)
{
    peal_diag diag = PEAL_DIAG_INIT;
    int done = 0;
    if (beside->self->job->beside != PROGRESS_TEST)
        return compute(beside);
    for (uint32_t i = 0; i < beside->pieces; i++) {
        multiply(beside->work);
        if (!done && !passed(beside, peal_test(beside->pending, &done, &diag), &diag))
            return 0;
    }
    return 1;
}

/* ---- times */

static int meet(const struct beside *beside)
{
    return yard_meet(beside->self->yard, 0) && yard_meet(beside->self->yard, 1);
}

/* *us: of what `what` is made of. */
static int take_time(const struct beside *beside, enum overlap_time what, double *us)
{
    uint64_t began = now_ns();
    if ((what == TIME_WORK || what == TIME_SERIAL) && !compute(beside))
        return 0;
    if (what != TIME_WORK && (!start(beside) || !finish(beside)))
        return 0;
    *us = (double)(now_ns() - began) / 1e3;
    return 1;
}

static int take_both(const struct beside *beside, double *both_us, double *work_us)
{
    uint64_t began = now_ns();
    if (!start(beside))
        return 0;
    uint64_t before = now_ns();
    if (!compute_beside(beside))
        return 0;
    uint64_t after = now_ns();
    if (!finish(beside))
        return 0;
    *both_us = (double)(now_ns() - began) / 1e3;
    *work_us = (double)(after - before) / 1e3;
    return 1;
}

/* One of each, so that what else the machine does falls on all alike. */
static int take_round(const struct beside *beside, double *us)
{
    for (int what = TIME_WORK; what <= TIME_SERIAL; what++)
        if (!meet(beside) || !take_time(beside, (enum overlap_time)what, &us[what]))
            return 0;
    return meet(beside) && take_both(beside, &us[TIME_BOTH], &us[TIME_BESIDE]);
}

/* ---- how much work */

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static int typical(const struct beside *beside, enum overlap_time what, double *us)
{
    double tries[TRIES];
    for (uint32_t i = 0; i < TRIES; i++)
        if (!meet(beside) || !take_time(beside, what, &tries[i]))
            return 0;
    qsort(tries, TRIES, sizeof *tries, by_value);
    *us = tries[TRIES / 2];
    return 1;
}

/* Rank 0's measure is everybody's: pieces that take about as long as a call. */
static int size_work(struct beside *beside)
{
    struct yard *yard = beside->self->yard;
    double call_us, work_us;
    uint32_t most = on_gpu(beside) ? GPU_PIECES_MAX : PIECES_MAX;
    beside->pieces = on_gpu(beside) ? GPU_PIECES : PIECES;
    if (!typical(beside, TIME_CALL, &call_us) || !typical(beside, TIME_WORK, &work_us))
        return 0;
    double pieces = call_us / (work_us > 0.01 ? work_us : 0.01) * beside->pieces + 0.5;
    unsigned mine = pieces < 1 ? 1 : pieces > most ? most : (unsigned)pieces;
    if (beside->self->rank == 0)
        atomic_store_explicit(&yard->iterations, mine, memory_order_relaxed);
    if (!yard_meet(yard, 0))
        return 0;
    beside->pieces = atomic_load_explicit(&yard->iterations, memory_order_relaxed);
    return 1;
}

/* ---- a job */

/* The result of a call with work beside it is looked at as any other's. */
static int check_one(const struct beside *beside)
{
    double both, work;
    self_prepare(beside->self, 0, 0);
    if (!gpu_upload(beside->self) || !meet(beside) || !take_both(beside, &both, &work) ||
        !gpu_download(beside->self))
        return 0;
    self_check(beside->self, 0, 0);
    return meet(beside);
}

/* The first calls of a comm take longer, until threads and caches have found their places. */
static int warm_up(struct beside *beside, uint32_t rounds)
{
    double us;
    for (uint32_t r = 0; r < rounds; r++)
        if (!typical(beside, TIME_CALL, &us))
            return 0;
    return 1;
}

static int take_all(struct beside *beside)
{
    const struct self *self = beside->self;
    uint32_t rounds = self->job->rounds / OVERLAP_TIMES;
    double us[OVERLAP_TIMES];
    if (!check_one(beside) || !warm_up(beside, rounds) || !size_work(beside))
        return 0;
    for (uint32_t r = 0; r < self->job->warmup + rounds; r++) {
        if (!take_round(beside, us))
            return 0;
        for (uint32_t t = 0; t < OVERLAP_TIMES && r >= self->job->warmup; t++) {
            uint32_t row = t * rounds + r - self->job->warmup;
            self->yard->times[(size_t)row * self->crew->ranks + self->rank] = us[t];
        }
    }
    return check_one(beside);
}

static int overlap_here(struct beside *beside)
{
    struct self *self = beside->self;
    peal_diag diag = PEAL_DIAG_INIT;
    int thread = self->job->beside == PROGRESS_THREAD;
    if (!self_pending(self, 0, &beside->pending))
        return 0;
    beside->work = make_work(self->rank);
    int good =
        passed(beside, peal_comm_thread(self->comm, thread, &diag), &diag) && take_all(beside);
    peal_pending_destroy(beside->pending);
    (void)!peal_comm_thread(self->comm, 0, &diag);
    self->random ^= (uint64_t)beside->work->c[0][0]; /* or it need not have been computed */
    free(beside->work);
    return good;
}

int self_overlap(struct self *self)
{
    struct beside beside = {.self = self};
    self_prepare(self, 0, 0); /* where its buffers are */
    return self->gpu ? take_all(&beside) : overlap_here(&beside);
}

void self_overlap_sum(const struct self *self, struct result *result)
{
    uint32_t rounds = self->job->rounds / OVERLAP_TIMES;
    for (uint32_t t = 0; t < OVERLAP_TIMES; t++) {
        double *times = self->yard->times + (size_t)t * rounds;
        qsort(times, rounds, sizeof *times, by_value);
        result->overlap_us[t] = times[rounds / 2];
    }
    result->work = 2ull * TILE * TILE * TILE *
                   atomic_load_explicit(&self->yard->iterations, memory_order_relaxed);
}
