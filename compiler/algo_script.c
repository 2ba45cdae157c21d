/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of a script as an algorithm: channels and tiles are candidates as they are of any
 * other. */
#include "script.h"

#include <stdio.h>

static peal_status add_tiles(struct planner *planner, struct candidate *candidate)
{
    static const uint64_t tiles[] = {0,          16u << 10,  32u << 10, 64u << 10, 128u << 10,
                                     256u << 10, 512u << 10, 1u << 20,  2u << 20,  4u << 20};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        candidate->tile_bytes = tiles[i];
        if (planner->request.tile_bytes)
            candidate->tile_bytes = planner->request.tile_bytes;
        if (!candidate->tile_bytes ||
            candidate->tile_bytes * candidate->slots * SLOT_DEPTH <= planner->request.scratch_limit)
            PEAL_TRY(peal_planner_add(planner, candidate));
        if (planner->request.tile_bytes)
            break;
    }
    return PEAL_OK;
}

/* Resident lanes of the busiest rank, in a channel. */
static uint32_t busiest(const struct script_program *p)
{
    uint32_t most = 1;
    for (uint32_t r = 0; r < p->n; r++) {
        uint32_t lanes = 0;
        for (uint32_t s = 0; s < p->stages; s++)
            lanes += p->lanes[r * p->stages + s].nitems > 0;
        most = lanes > most ? lanes : most;
    }
    return most;
}

static uint64_t steps_of(const struct script_program *p)
{
    return ((uint64_t)p->nitems + p->nsignals) / p->n + 1;
}

static peal_status keep_times(struct planner *planner, struct script_times **times)
{
    PEAL_TRY(peal_grow(planner->ctx, (void **)(void *)&planner->script_times,
                       &planner->script_times_capacity, (size_t)planner->nscript_times + 1,
                       sizeof *planner->script_times, 1024));
    *times = peal_calloc(planner->ctx, 1, sizeof **times);
    if (!*times)
        return PEAL_ERR_MEMORY;
    planner->script_times[planner->nscript_times++] = *times;
    return PEAL_OK;
}

static peal_status add_channels(struct planner *planner, const struct script_program *p,
                                const struct script_clockwork *w, struct candidate *candidate)
{
    static const uint32_t options[] = {1, 2, 4, 8, 12, 16, 32};
    uint32_t lanes = busiest(p), asked = planner->request.channels;
    struct script_sems sems;
    peal_script_sems(p, &sems);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        uint32_t channels = asked ? asked : options[i];
        if (channels * lanes > PLAN_LANES_MAX || channels * sems.count > PLAN_SEMS_MAX ||
            peal_planner_too_long(planner, channels, steps_of(p)) ||
            (channels > 1 && !planner->group.accelerators))
            break;
        struct script_times *times;
        PEAL_TRY(keep_times(planner, &times));
        PEAL_TRY(peal_script_time(w, channels, times));
        candidate->times = times;
        candidate->channels = channels;
        candidate->chunks = p->script->head->nchunks * channels;
        candidate->lanes = channels * lanes;
        candidate->hop_share = 1.0 / candidate->chunks;
        candidate->slots =
            2ull * channels * (p->width + (p->staging ? p->in_flight * p->stages : 0u));
        PEAL_TRY(add_tiles(planner, candidate));
        if (asked)
            break;
    }
    return PEAL_OK;
}

static peal_status enumerate(struct planner *planner)
{
    struct script_program *p;
    struct script_clockwork *w = NULL;
    if (!planner->script)
        return PEAL_OK;
    struct candidate candidate = {.algo = ALGO_SCRIPT, .max_bytes = UINT64_MAX};
    PEAL_TRY(peal_script_lower(planner, &p));
    peal_status status = peal_script_clockwork(planner, p, &w);
    peal_candidate_total(planner, &candidate);
    if (status == PEAL_OK)
        status = add_channels(planner, p, w, &candidate);
    peal_script_clockwork_free(w);
    peal_script_program_free(p);
    return status;
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "a script, %u channel%s", candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_script = {"script",         UINT32_MAX, enumerate, peal_script_prepare,
                                      peal_script_emit, detail};
