/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive doubling allreduce among all ranks: log2 N start-ups, S over a link in each. */
#include "compiler.h"

#include <stdio.h>

#define TILE_BYTES (1u << 20)

/* The exchanges of step k, both ways. */
static void load_step(struct planner *planner, uint32_t core, uint32_t k, struct stage *stage)
{
    for (uint32_t r = 0; r < core; r++) {
        struct hop hop;
        peal_planner_hop(planner, r, r ^ 1u << k, &hop);
        peal_planner_load(planner, &hop, 1, hop.scale);
        stage->alpha_us = hop.alpha_us > stage->alpha_us ? hop.alpha_us : stage->alpha_us;
        if (peal_plan_engine_async(hop.engine) && hop.gap_us > stage->gap_us)
            stage->gap_us = hop.gap_us; /* of one channel's message */
    }
}

/* Ranks beyond the power of two, on the way in or out. */
static void load_extras(struct planner *planner, uint32_t core, int in, struct stage *stage)
{
    for (uint32_t r = core; r < planner->group.n; r++) {
        struct hop hop;
        peal_planner_hop(planner, in ? r : r - core, in ? r - core : r, &hop);
        peal_planner_load(planner, &hop, 1, hop.scale);
        stage->alpha_us = hop.alpha_us > stage->alpha_us ? hop.alpha_us : stage->alpha_us;
        if (peal_plan_engine_async(hop.engine) && hop.gap_us > stage->gap_us)
            stage->gap_us = hop.gap_us; /* of one channel's message */
    }
}

static void cost_steps(struct planner *planner, struct candidate *candidate)
{
    uint32_t n = planner->group.n, steps = peal_doubling_steps(n), core = 1u << steps;
    for (uint32_t k = 0; k < steps + (n > core ? 2 : 0); k++) {
        struct stage stage = {.levels = 1, .chain = 1};
        if (k < steps)
            load_step(planner, core, k, &stage);
        else
            load_extras(planner, core, k == steps, &stage);
        peal_candidate_stage(planner, candidate, &stage, 0);
    }
    peal_candidate_total(planner, candidate);
}

/* The links carry the same whatever the number of channels. */
static peal_status add_channels(struct planner *planner, const struct candidate *loads,
                                uint32_t channels)
{
    struct candidate candidate = *loads;
    candidate.channels = candidate.chunks = candidate.lanes = channels;
    candidate.slots = 2ull * peal_doubling_slots(planner->group.n) * channels;
    candidate.hop_share = 1.0 / channels;
    /* Out to the slot; then two in and one out to add up. */
    for (uint32_t i = 0; i < candidate.nstages; i++) {
        candidate.stage[i].gap_us *= channels - 1.0; /* one engine sends those of all */
        peal_stage_lane(planner, &candidate.stage[i], 1.0 / channels);
        if (i <=
            peal_doubling_steps(planner->group.n)) /* the result needs no fold on its way out */
            peal_stage_fold(planner, &candidate.stage[i], 1.5 / channels, 2);
    }
    PEAL_TRY(peal_planner_add(planner, &candidate));
    candidate.tile_bytes = planner->request.tile_bytes ? planner->request.tile_bytes : TILE_BYTES;
    candidate.drifts = channels > 1 && !peal_candidate_stores(&candidate);
    return peal_planner_add(planner, &candidate); /* for what does not fit the scratch bound */
}

static peal_status enumerate(struct planner *planner)
{
    uint32_t asked = planner->request.channels;
    struct candidate loads = {.algo = ALGO_DOUBLING, .order = ORDER_PAIRS, .max_bytes = UINT64_MAX};
    if (planner->group.n < 2)
        return PEAL_OK;
    cost_steps(planner, &loads);
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 && !planner->group.accelerators)
            break;
        PEAL_TRY(add_channels(planner, &loads, channels));
    }
    return PEAL_OK;
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    uint32_t depth = b->plan->tile_bytes ? SLOT_DEPTH : 1;
    b->plan->nsems = (uint16_t)(2 * candidate->channels);
    for (uint32_t c = 0; c < candidate->channels; c++)
        peal_build_region(b, PLAN_BUF_SCRATCH, peal_doubling_slots(b->plan->nranks), depth,
                          peal_build_slot_bytes(b));
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    for (uint32_t c = 0; c < candidate->channels; c++) {
        struct doubling_part part = {.n = b->plan->nranks,
                                     .self = rank,
                                     .chunk = c,
                                     .in_buffer = PLAN_BUF_IN,
                                     .region = c,
                                     .depth = SLOT_DEPTH,
                                     .sem0 = 2 * c,
                                     .credits = b->plan->tile_bytes != 0};
        peal_build_lane(b);
        peal_build_section(b, 1);
        peal_doubling_body(b, &part);
        peal_build_drain(b);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "recursive doubling, %u channel%s", candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_doubling = {"doubling", 1u << PEAL_ALLREDUCE, enumerate, prepare, emit,
                                        detail};
