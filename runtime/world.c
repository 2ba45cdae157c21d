/* SPDX-License-Identifier: Apache-2.0 */
/* A world: the segment in which ranks meet. Lives as long as its handle or any comm in it. */
#include "comm.h"
#include "job.h"

#include <string.h>

#define DEFAULT_HEAP (256ull << 20)
#define DEFAULT_TIMEOUT_MS 30000u
/* Up to where messages are staged, if that takes no more than half of the heap: the kernel copies
 * once, but not faster than two processors do by way of memory, and it does not fold. An allgather
 * of 8 MiB from each of two ranks took 1.9 to 2.7 ms attached, 1.1 to 2.0 staged; an allreduce 3.3
 * and 1.9 (AMD EPYC). */
#define DEFAULT_ATTACH (1ull << 20)
#define DEFAULT_ATTACH_MOVES (32ull << 20)
#define DEFAULT_ATTACH_FOLDS ((64ull << 20) + 1)

static peal_status check_params(const peal_world_params *params, const peal_table *table,
                                peal_diag *diag)
{
    if (params->ranks == 0 || params->ranks != table->nranks)
        return peal_fail(diag, PEAL_ERR_ARG, "a world of %u ranks for a table of %u", params->ranks,
                         table->nranks);
    if (params->ranks > RT_RANKS_MAX)
        return peal_fail(diag, PEAL_ERR_ARG, "%u ranks; one host runs at most %u", params->ranks,
                         RT_RANKS_MAX);
    if (params->attach && !params->shm_name)
        return peal_fail(diag, PEAL_ERR_ARG, "attach needs shm_name");
    if (params->shm_name) {
        size_t length = strlen(params->shm_name);
        if (length < 2 || length > 250 || params->shm_name[0] != '/' ||
            strchr(params->shm_name + 1, '/'))
            return peal_fail(diag, PEAL_ERR_ARG,
                             "shm_name is a slash and 1 to 249 characters without one");
    }
    if (table->nrows == 0)
        return peal_fail(diag, PEAL_ERR_ARG, "the table has no rows");
    for (uint32_t i = 0; i < table->nrows; i++)
        if (!table->rows[i].plan)
            return peal_fail(diag, PEAL_ERR_ARG, "row %u is not compiled", i);
    return PEAL_OK;
}

static peal_status map_segment(const peal_world_params *params, const peal_table *table,
                               struct peal_world *world, peal_diag *diag)
{
    struct rt_layout layout;
    uint64_t heap = params->heap_bytes ? params->heap_bytes : DEFAULT_HEAP;
    PEAL_TRY(rt_layout_make(table, params->ranks, heap, &layout, diag));
    if (!params->shm_name)
        return rt_segment_private(&layout, &world->segment, diag);
    if (!params->attach)
        return rt_segment_create(&layout, params->shm_name, 1, &world->segment, diag);
    return rt_segment_attach(&layout, params->shm_name, world->timeout_ms, &world->segment, diag);
}

peal_status rt_world_make(peal_ctx *ctx, struct peal_world **world_out, peal_diag *diag)
{
    struct peal_world *world = peal_calloc(ctx, 1, sizeof *world);
    if (!world)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    world->ctx = ctx;
    world->users = 1;
    world->attach_bytes = DEFAULT_ATTACH;
    world->attach_moves = DEFAULT_ATTACH_MOVES;
    world->attach_folds = DEFAULT_ATTACH_FOLDS;
    if (pthread_mutex_init(&world->lock, NULL) != 0) {
        peal_free(ctx, world, sizeof *world);
        return peal_fail(diag, PEAL_ERR_MEMORY, "no mutex to be had");
    }
    *world_out = world;
    return PEAL_OK;
}

peal_status peal_world_create(peal_ctx *ctx, const peal_world_params *given,
                              const peal_table *table, peal_diag *diag, peal_world **world_out)
{
    peal_world_params params;
    if (!ctx || !given || !table || !world_out)
        return peal_fail(diag, PEAL_ERR_ARG, "a world needs a context, parameters and a table");
    peal_status status = peal_import(&params, sizeof params, given);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "world parameters of an unknown size");
    PEAL_TRY(check_params(&params, table, diag));
    struct peal_world *world = NULL;
    PEAL_TRY(rt_world_make(ctx, &world, diag));
    world->timeout_ms = params.timeout_ms ? params.timeout_ms : DEFAULT_TIMEOUT_MS;
    world->private_buffers = params.private_buffers;
    if (params.attach_bytes)
        world->attach_bytes = world->attach_moves = world->attach_folds = params.attach_bytes;
    world->chaos = params.chaos_seed;
    status = map_segment(&params, table, world, diag);
    if (status != PEAL_OK) {
        rt_world_release(world);
        return status;
    }
    *world_out = world;
    return PEAL_OK;
}

void rt_world_retain(struct peal_world *world)
{
    (void)pthread_mutex_lock(&world->lock);
    world->users++;
    (void)pthread_mutex_unlock(&world->lock);
}

void rt_world_release(struct peal_world *world)
{
    (void)pthread_mutex_lock(&world->lock);
    uint32_t users = --world->users;
    (void)pthread_mutex_unlock(&world->lock);
    if (users > 0)
        return;
    rt_job_free(world->job);
    rt_segment_unlink(&world->segment);
    rt_segment_unmap(&world->segment);
    (void)pthread_mutex_destroy(&world->lock);
    peal_free(world->ctx, world, sizeof *world);
}

void peal_world_destroy(peal_world *world)
{
    if (world)
        rt_world_release(world);
}
