/* SPDX-License-Identifier: Apache-2.0 */
/* Joining without blocking: a thread of its own blocks instead. */
#include "clock.h"
#include "comm.h"
#include "job.h"

#include <pthread.h>
#include <stdio.h>

struct peal_join {
    peal_ctx *ctx;
    peal_join_params params;
    const peal_table *table;
    _Atomic uint32_t cancel;
    _Atomic uint32_t done;
    int joined; /* the thread has been */
    uint32_t ranks;
    _Atomic uint8_t *came; /* of each */
    pthread_t thread;
    peal_status status;
    peal_diag diag;
    peal_world *world;
};

static void *join_main(void *argument)
{
    peal_join *self = argument;
    const struct rt_watch watch = {&self->cancel, self->came};
    self->status =
        rt_join(self->ctx, &self->params, self->table, &watch, &self->diag, &self->world);
    atomic_store_explicit(&self->done, 1, memory_order_release);
    return NULL;
}

static void free_join(peal_join *self)
{
    if (!self)
        return;
    peal_free(self->ctx, self->came, self->ranks);
    peal_free(self->ctx, self, sizeof *self);
}

static peal_join *make_join(peal_ctx *ctx, const peal_join_params *params, const peal_table *table)
{
    peal_join *made = peal_calloc(ctx, 1, sizeof *made);
    if (!made)
        return NULL;
    made->ctx = ctx;
    made->params = *params;
    made->params.size = sizeof made->params;
    made->table = table;
    made->diag = (peal_diag)PEAL_DIAG_INIT;
    made->ranks = table->nranks;
    made->came = peal_calloc(ctx, made->ranks, 1);
    if (made->came)
        return made;
    free_join(made);
    return NULL;
}

peal_status peal_join_start(peal_ctx *ctx, const peal_join_params *params, const peal_table *table,
                            peal_diag *diag, peal_join **join_out)
{
    peal_join_params own;
    if (!ctx || !params || !table || !join_out) {
        rt_join_drop(params);
        return peal_fail(diag, PEAL_ERR_ARG, "joining takes a context, parameters and a table");
    }
    peal_status status = peal_import(&own, sizeof own, params);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "join parameters of an unknown size");
    peal_join *made = make_join(ctx, &own, table);
    if (!made || pthread_create(&made->thread, NULL, join_main, made) != 0) {
        peal_meeting_close(own.meeting);
        free_join(made);
        return peal_fail(diag, PEAL_ERR_MEMORY, "no memory or no thread to join with");
    }
    *join_out = made;
    return PEAL_OK;
}

static int has_come(const struct peal_join *self, uint32_t rank)
{
    return atomic_load_explicit(&self->came[rank], memory_order_relaxed) != 0;
}

/* Who is still missing, as far as this rank knows. */
static peal_status tell_missing(const struct peal_join *self, peal_diag *diag)
{
    char list[128] = "";
    size_t used = 0;
    if (self->params.rank != 0)
        return peal_fail(diag, PEAL_AGAIN, "%s",
                         has_come(self, 0) ? "rank 0 is found, and not all are there"
                                           : "rank 0 has not been found yet");
    for (uint32_t r = 1; r < self->ranks && used + 16 < sizeof list; r++)
        if (!has_come(self, r))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%u", used ? ", " : "", r);
    return peal_fail(diag, PEAL_AGAIN, used ? "not here yet: rank %s%s" : "all are here%s%s", list,
                     used + 16 < sizeof list ? "" : ", ...");
}

peal_status peal_join_test(peal_join *self, uint32_t wait_ms, peal_diag *diag,
                           peal_world **world_out)
{
    if (!self || !world_out || self->joined)
        return peal_fail(diag, PEAL_ERR_ARG, "nothing is being joined");
    uint64_t until = rt_now_ns() + (uint64_t)wait_ms * 1000000u;
    while (!atomic_load_explicit(&self->done, memory_order_acquire)) {
        if (rt_now_ns() >= until)
            return tell_missing(self, diag);
        rt_sleep_us(500);
    }
    (void)pthread_join(self->thread, NULL);
    self->joined = 1;
    if (self->status != PEAL_OK)
        return peal_fail(diag, self->status, "%s", self->diag.text);
    *world_out = self->world;
    self->world = NULL;
    return PEAL_OK;
}

void peal_join_end(peal_join *self)
{
    if (!self)
        return;
    atomic_store_explicit(&self->cancel, 1, memory_order_release);
    if (!self->joined)
        (void)pthread_join(self->thread, NULL);
    peal_world_destroy(self->world);
    free_join(self);
}
