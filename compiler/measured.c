/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules of a host whose calls were measured: they take what they took then. Their other tiles
 * and depths are taken for as fast and a little slower, so that none is preferred that nobody has
 * seen run; and what was not measured at all is costed as everywhere.
 */
#include "compiler.h"

#include <string.h>

#define UNLIKE_FACTOR 1.1

struct measured {
    enum algorithm algo;
    char detail[128]; /* "": any */
    uint64_t tile_bytes;
    uint32_t times;
    struct topo_time time[TOPO_TIMES_MAX];
};

static enum algorithm algorithm_of(const char *name)
{
    uint32_t i = 0;
    while (i < ALGO_COUNT && !peal_streq(peal_algo_get((enum algorithm)i)->name, name))
        i++;
    return (enum algorithm)i;
}

/* Blocks of all lengths are measured by equal ones. */
static int is_wanted(const struct planner *planner, const struct topo_call *call)
{
    peal_collective collective = planner->request.collective;
    if (collective == PEAL_ALLTOALLV)
        collective = PEAL_ALLTOALL;
    return peal_streq(call->collective, peal_collective_name(collective)) &&
           call->private_buffers == (planner->request.private_buffers != 0) &&
           algorithm_of(call->algorithm) != ALGO_COUNT;
}

static void take(struct measured *to, const struct topo_call *call)
{
    to->algo = algorithm_of(call->algorithm);
    peal_copy_text(to->detail, sizeof to->detail, call->detail ? call->detail : "");
    to->tile_bytes = (uint64_t)call->tile_bytes;
    to->times = call->times;
    memcpy(to->time, call->time, call->times * sizeof *to->time);
}

peal_status peal_planner_measured(struct planner *planner, uint32_t ranks)
{
    const struct topo_memory *memory = &planner->memory;
    uint32_t count = 0;
    if (!memory->count[TOPO_USE_LOAD] || planner->group.n != ranks ||
        (memory->ranks && memory->ranks != ranks))
        return PEAL_OK;
    for (uint32_t i = 0; i < memory->calls; i++)
        count += is_wanted(planner, &memory->call[i]) ? 1 : 0;
    if (!count)
        return PEAL_OK;
    planner->measured = peal_calloc(planner->ctx, count, sizeof *planner->measured);
    if (!planner->measured)
        return PEAL_ERR_MEMORY;
    planner->nmeasured = count;
    count = 0;
    for (uint32_t i = 0; i < memory->calls; i++)
        if (is_wanted(planner, &memory->call[i]))
            take(&planner->measured[count++], &memory->call[i]);
    return PEAL_OK;
}

void peal_planner_forget_measured(struct planner *planner)
{
    peal_free(planner->ctx, planner->measured, planner->nmeasured * sizeof *planner->measured);
}

static int is_like(const struct measured *measured, const struct candidate *candidate)
{
    char detail[sizeof measured->detail];
    peal_algo_get(candidate->algo)->detail(candidate, detail, sizeof detail);
    return measured->tile_bytes == candidate->tile_bytes &&
           (!measured->detail[0] || strcmp(measured->detail, detail) == 0);
}

/* What is asked for beyond an algorithm is like what was measured, or goes by its own cost. */
static int asks_more(const peal_request *request)
{
    return request->tile_bytes || request->depth || request->wire != PEAL_WIRE_NONE;
}

void peal_planner_go_by_measured(struct planner *planner, uint32_t first)
{
    for (uint32_t i = first; i < planner->count; i++) {
        struct candidate *candidate = &planner->candidates[i];
        for (uint32_t k = 0; k < planner->nmeasured && !candidate->like; k++) {
            const struct measured *measured = &planner->measured[k];
            if (candidate->times || measured->algo != candidate->algo)
                continue;
            candidate->like = is_like(measured, candidate);
            if (candidate->like || (!candidate->measured && !asks_more(&planner->request)))
                candidate->measured = measured;
        }
    }
}

double peal_measured_us(const struct candidate *candidate, double bytes)
{
    const struct measured *measured = candidate->measured;
    return peal_topo_times_us(measured->time, measured->times, bytes) *
           (candidate->like ? 1 : UNLIKE_FACTOR);
}
