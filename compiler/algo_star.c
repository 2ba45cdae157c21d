/* SPDX-License-Identifier: Apache-2.0 */
/* Star allreduce, as a parameter server: all ranks send to rank 0, which adds up and sends back.
 * Two start-ups, but the links of rank 0 carry (N - 1) S in and again out: the yardstick that the
 * other algorithms are there to beat. */
#include "compiler.h"

#include <stdio.h>

#define TILE_MAX (1ull << 20)
#define FOLD_MAX 128u /* sources of one step */

/* in: the inputs to rank 0, at once; else the results from it, one after the other. */
static void cost_way(struct planner *planner, int in, struct candidate *candidate)
{
    struct stage stage = {.levels = 1, .chain = 1, .lane = (uint32_t)in};
    double n = planner->group.n, channels = candidate->channels, lanes = 0;
    double messages = (n - 1) * channels - 1, queued = in ? 0 : n - 2, in_turn = 0;
    double lane_us = 1 / (peal_planner_lane_gbs(planner) * 1e3) / channels;
    for (uint32_t r = 1; r < planner->group.n; r++) {
        struct hop hop;
        peal_planner_hop(planner, in ? r : 0, in ? 0 : r, &hop);
        peal_stage_hop(&stage, &hop);
        peal_planner_load(planner, &hop, 1, hop.scale);
        double link_us = peal_load_alone(&hop.path, hop.scale);
        in_turn += link_us > lane_us ? link_us : lane_us;
        if (hop.engine == PEAL_ENGINE_SM)
            lanes = in ? 1 : n - 1;
        else if (!in || hop.path.link_class == PEAL_LINK_NET)
            queued = messages; /* of one engine, or one NIC */
    }
    stage.gap_us *= queued;
    peal_candidate_stage(planner, candidate, &stage, lanes / channels);
    struct stage *to = &candidate->stage[candidate->nstages - 1];
    if (!in && lanes > 0 && in_turn > to->us_per_byte) /* one link at a time */
        to->us_per_byte = to->alone_us_per_byte = in_turn;
}

/* All inputs in and one result out. */
static void cost_fold(struct planner *planner, struct candidate *candidate)
{
    struct stage stage = {.levels = 1, .chain = 1};
    double n = planner->group.n;
    peal_candidate_stage(planner, candidate, &stage, 0);
    peal_stage_fold(planner, &candidate->stage[candidate->nstages - 1],
                    (n + 1) / 2 / candidate->channels, n);
}

/* A rank sends its next tile when it has the result of the last. Where rank 0 stores the results
 * one after the other, the one that gets it last has the links to itself. */
static void cost_turn(const struct planner *planner, struct candidate *candidate)
{
    struct stage *turn = &candidate->stage[candidate->nstages];
    *turn = candidate->stage[0];
    turn->levels = turn->lane = 0;
    turn->chain = 0;
    turn->depth = 1;
    turn->alpha_us /= 2; /* there only: its result is counted below */
    turn->gap_us = 0;
    turn->us_per_byte /= planner->group.n - 1;
    turn->alone_us_per_byte /= planner->group.n - 1;
    double lane_us = 1 / (peal_planner_lane_gbs(planner) * 1e3) / candidate->channels;
    if (turn->us_per_byte < lane_us)
        turn->us_per_byte = turn->alone_us_per_byte = lane_us;
    candidate->nstages++;
}

static int stores_all(const struct planner *planner)
{
    int all = 1;
    for (uint32_t r = 1; r < planner->group.n; r++) {
        struct hop hop;
        peal_planner_hop(planner, 0, r, &hop);
        all = all && hop.engine == PEAL_ENGINE_SM;
    }
    return all;
}

static peal_status cost_channels(struct planner *planner, uint32_t channels)
{
    uint32_t n = planner->group.n;
    uint64_t asked = planner->request.tile_bytes;
    struct candidate candidate = {.algo = ALGO_STAR,
                                  .channels = channels,
                                  .max_bytes = UINT64_MAX,
                                  .chunks = channels,
                                  .lanes = channels,
                                  .slots = 2ull * (n - 1) * channels,
                                  .hop_share = 1.0 / channels};
    cost_way(planner, 1, &candidate);
    cost_fold(planner, &candidate);
    cost_way(planner, 0, &candidate);
    if (stores_all(planner))
        cost_turn(planner, &candidate);
    else
        candidate.stage[0].lane = 0;
    peal_candidate_total(planner, &candidate);
    if (!asked)
        PEAL_TRY(peal_planner_add(planner, &candidate));
    candidate.tile_bytes = asked ? asked : TILE_MAX;
    return peal_planner_add(planner, &candidate);
}

static peal_status enumerate(struct planner *planner)
{
    uint32_t asked = planner->request.channels;
    uint32_t most = planner->group.accelerators ? CHANNELS_MAX : 1;
    if (planner->group.n < 2)
        return PEAL_OK;
    for (uint32_t channels = asked ? asked : 1; channels <= (asked ? asked : most); channels *= 2)
        PEAL_TRY(cost_channels(planner, channels));
    return PEAL_OK;
}

/* A rank's slot is free again once it has got the result of the tile. */
static void prepare(struct build *b, const struct candidate *candidate)
{
    b->plan->nchunks = candidate->chunks;
    b->plan->nsems = (uint16_t)candidate->channels;
    for (uint32_t c = 0; c < candidate->channels; c++)
        peal_build_region(b, PLAN_BUF_SCRATCH, b->plan->nranks - 1, 1, peal_build_slot_bytes(b));
}

static void emit_leaf(struct build *b, uint32_t c)
{
    peal_build_push(b, c, peal_op_user(b->self, PLAN_BUF_IN, c),
                    peal_op_slot(0, PLAN_BUF_SCRATCH, c, b->self - 1), c);
    peal_build_wait(b, 0, c, 0);
}

static void add_up(struct build *b, uint32_t c)
{
    uint32_t n = b->plan->nranks;
    struct plan_operand src[FOLD_MAX + 1];
    struct plan_operand out = peal_op_user(0, PLAN_BUF_OUT, c);
    for (uint32_t r = 1; r < n; r += FOLD_MAX) {
        uint32_t more = n - r < FOLD_MAX ? n - r : FOLD_MAX;
        src[0] = r == 1 ? peal_op_user(0, PLAN_BUF_IN, c) : out;
        for (uint32_t i = 0; i < more; i++) {
            peal_build_wait(b, r + i, c, 0);
            src[1 + i] = peal_op_slot(0, PLAN_BUF_SCRATCH, c, r + i - 1);
        }
        peal_build_move(b, c, 1 + more, src, 1, &out, PEAL_ENGINE_SM, r + more == n);
    }
}

static void emit_root(struct build *b, uint32_t c)
{
    struct plan_operand out = peal_op_user(0, PLAN_BUF_OUT, c);
    add_up(b, c);
    for (uint32_t r = 1; r < b->plan->nranks; r++)
        peal_build_push(b, c, out, peal_op_user(r, PLAN_BUF_OUT, c), c);
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    for (uint32_t c = 0; c < candidate->channels; c++) {
        peal_build_lane(b);
        peal_build_section(b, 1);
        if (rank == 0)
            emit_root(b, c);
        else
            emit_leaf(b, c);
        peal_build_drain(b);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "rank 0 adds up all inputs, %u channel%s", candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_star = {"star", 1u << PEAL_ALLREDUCE, enumerate, prepare, emit, detail};
