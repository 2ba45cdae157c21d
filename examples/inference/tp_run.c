/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, the two phases of a generation, and what is noted of them. */
#include "tp_run.h"

#include <stdlib.h>
#include <string.h>

/* ---- peal's memory, counted */

static void *counted(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)old_bytes;
    if (!new_bytes) {
        free(ptr);
        return NULL;
    }
    atomic_fetch_add_explicit((atomic_ullong *)user, 1, memory_order_relaxed);
    return realloc(ptr, new_bytes);
}

/* ---- the loop of a rank */

/* FNV-1a over the logits of a pass. */
static uint64_t digest(uint64_t hash, const float *logits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    return hash;
}

/* Every rank picks the tokens by itself: all have the same bits, so all pick the same. */
static void pick(struct rank *self, uint32_t step)
{
    struct run *run = self->run;
    size_t n = (size_t)run->shape.batch * run->shape.vocab;
    self->digest = digest(self->digest, self->model.logits, n);
    if (self->rank == 0)
        memcpy(run->logits + step * n, self->model.logits, n * sizeof(float));
    for (uint32_t s = 0; s < run->shape.batch; s++) {
        float lead;
        self->token[s] = model_greedy(&self->model, s, &lead);
        if (self->rank == 0) {
            run->token[step * run->shape.batch + s] = self->token[s];
            run->lead = lead < run->lead ? lead : run->lead;
        }
    }
}

static int generate(struct rank *self, double *seconds_out)
{
    const struct shape *shape = &self->run->shape;
    struct reducer *reducer = &self->reducer[PREFILL];
    for (uint32_t s = 0; s < shape->batch; s++)
        for (uint32_t i = 0; i < shape->prompt; i++)
            self->token[s * shape->prompt + i] = model_prompt(shape, s, i);
    double start = seconds();
    if (!model_pass(&self->model, self->token, shape->prompt, 0, reducer->buffer, reducer_sum,
                    reducer))
        return 0;
    pick(self, 0);
    double middle = seconds();
    reducer = &self->reducer[DECODE];
    for (uint32_t t = 1; t < shape->tokens; t++) {
        if (!model_pass(&self->model, self->token, 1, shape->prompt + t - 1, reducer->buffer,
                        reducer_sum, reducer))
            return 0;
        pick(self, t);
    }
    seconds_out[PREFILL] = middle - start;
    seconds_out[DECODE] = seconds() - middle;
    return 1;
}

/* ---- a rank's life */

static int rank_open(struct rank *self)
{
    struct run *run = self->run;
    self->token = calloc(shape_rows(&run->shape), sizeof *self->token);
    int made = model_make(&self->model, &run->shape, self->rank, run->ranks) && self->token;
    for (int p = 0; p < PHASES; p++) /* all of them, or the others would wait */
        made &= reducer_open(&self->reducer[p], &run->phase[p], self->rank) == PEAL_OK;
    return made;
}

static void rank_note(struct rank *self, const double *times)
{
    struct run *run = self->run;
    for (int p = 0; p < PHASES && self->rank == 0; p++) {
        const struct reducer *reducer = &self->reducer[p];
        run->seconds[p] = times[p];
        run->reduce_us[p] = reducer->calls ? reducer->us / (double)reducer->calls : 0;
    }
}

static void *rank_main(void *argument)
{
    struct rank *self = argument;
    struct run *run = self->run;
    double times[PHASES] = {0, 0};
    if (!rank_open(self))
        atomic_store(&run->failed, 1);
    (void)pthread_barrier_wait(&run->barrier); /* everything is allocated: the count begins */
    (void)pthread_barrier_wait(&run->barrier);
    if (!atomic_load(&run->failed) && !generate(self, times))
        atomic_store(&run->failed, 1);
    rank_note(self, times);
    (void)pthread_barrier_wait(&run->barrier); /* and ends */
    (void)pthread_barrier_wait(&run->barrier);
    for (int p = 0; p < PHASES; p++)
        reducer_close(&self->reducer[p]);
    model_free(&self->model);
    free(self->token);
    return NULL;
}

/* ---- all of them */

static void count_loop(struct run *run, const atomic_ullong *allocations)
{
    (void)pthread_barrier_wait(&run->barrier);
    uint64_t before = atomic_load(allocations);
    (void)pthread_barrier_wait(&run->barrier);
    (void)pthread_barrier_wait(&run->barrier);
    run->allocations = atomic_load(allocations) - before;
    (void)pthread_barrier_wait(&run->barrier);
}

/* The first rank's own reason comes first: others may only say that a peer has failed. */
static void gather(struct run *run)
{
    run->same_bits = 1;
    for (uint32_t r = 0; r < run->ranks; r++) {
        const struct rank *rank = &run->rank[r];
        run->same_bits &= rank->digest == run->rank[0].digest;
        for (int p = 0; p < PHASES && run->status == PEAL_OK; p++) {
            run->status = rank->reducer[p].status;
            run->diag = rank->reducer[p].diag;
        }
    }
    if (run->status == PEAL_OK && atomic_load(&run->failed))
        run->status = PEAL_ERR_MEMORY;
}

static int start_ranks(struct run *run, pthread_t *thread, const atomic_ullong *allocations)
{
    if (pthread_barrier_init(&run->barrier, NULL, run->ranks + 1) != 0)
        return 0;
    for (uint32_t r = 0; r < run->ranks; r++) {
        run->rank[r].run = run;
        run->rank[r].rank = r;
        run->rank[r].digest = 0xcbf29ce484222325u;
        if (pthread_create(&thread[r], NULL, rank_main, &run->rank[r]) != 0)
            exit(1); /* the others wait for it */
    }
    count_loop(run, allocations);
    for (uint32_t r = 0; r < run->ranks; r++)
        (void)pthread_join(thread[r], NULL);
    (void)pthread_barrier_destroy(&run->barrier);
    gather(run);
    return run->status == PEAL_OK;
}

static int open_driver(struct run *run, peal_ctx *ctx)
{
    peal_cuda_device_info info = {.size = sizeof info};
    if (!run->driver)
        return 1;
    run->status = peal_cuda_open(ctx, run->driver[0] ? run->driver : NULL, &run->diag, &run->cuda);
    if (run->status == PEAL_OK)
        run->status = peal_cuda_device(run->cuda, 0, &run->diag, &info);
    memcpy(run->device, info.name, sizeof run->device);
    return run->status == PEAL_OK;
}

static int open_phases(struct run *run, peal_ctx *ctx, const char *topology)
{
    const struct phase_params params = {run->policies, run->ranks, run->deterministic, run->cuda};
    uint64_t row = run->shape.hidden * sizeof(float);
    peal_fabric *fabric = NULL;
    run->phase[PREFILL] = (struct phase){.name = "prefill", .bytes = row * shape_rows(&run->shape)};
    run->phase[DECODE] = (struct phase){.name = "decode", .bytes = row * run->shape.batch};
    run->status = topology ? peal_fabric_load(ctx, topology, &run->diag, &fabric)
                           : peal_fabric_host(ctx, run->ranks, &run->diag, &fabric);
    for (int p = 0; p < PHASES && run->status == PEAL_OK; p++)
        run->status = phase_open(&run->phase[p], ctx, fabric, &params, &run->diag);
    peal_fabric_destroy(fabric);
    return run->status == PEAL_OK;
}

int run_all(struct run *run, const char *topology)
{
    atomic_ullong allocations = 0;
    peal_host host = {.size = sizeof host, .user = &allocations, .realloc_fn = counted};
    peal_ctx *ctx = NULL;
    size_t n = (size_t)run->shape.tokens * run->shape.batch;
    run->diag = (peal_diag)PEAL_DIAG_INIT;
    run->lead = 1e30f;
    run->token = calloc(n, sizeof *run->token);
    run->logits = calloc(n * run->shape.vocab, sizeof *run->logits);
    run->rank = calloc(run->ranks, sizeof *run->rank);
    pthread_t *thread = calloc(run->ranks, sizeof *thread);
    run->status = PEAL_ERR_MEMORY;
    if (run->token && run->logits && run->rank && thread)
        run->status = peal_ctx_create(&host, &ctx);
    int done = run->status == PEAL_OK && open_driver(run, ctx) && open_phases(run, ctx, topology) &&
               start_ranks(run, thread, &allocations);
    for (int p = 0; p < PHASES; p++)
        phase_close(&run->phase[p]);
    peal_cuda_close(run->cuda);
    peal_ctx_destroy(ctx);
    free(thread);
    return done;
}

void run_free(struct run *run)
{
    free(run->rank);
    free(run->token);
    free(run->logits);
}
