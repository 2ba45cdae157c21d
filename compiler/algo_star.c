/* SPDX-License-Identifier: Apache-2.0 */
/* Star allreduce, as a parameter server: all ranks send to rank 0, which adds up and sends back.
 * Two start-ups, but the links of rank 0 carry (N - 1) S in and again out: the yardstick that the
 * other algorithms are there to beat. */
#include "compiler.h"

#include <stdio.h>

#define TILE_MAX (1ull << 20)
#define FOLD_MAX 128u /* sources of one step */

/* Messages of a way, by who moves them. */
struct way {
    double lanes;  /* stored by lanes */
    double queued; /* by another engine */
    double lane_gap_us;
    double queue_gap_us;
    double queue_us; /* start-up */
};

static void count_hop(struct way *way, const struct hop *hop)
{
    int async = peal_plan_engine_async(hop->engine);
    double *gap_us = async ? &way->queue_gap_us : &way->lane_gap_us;
    *(async ? &way->queued : &way->lanes) += 1;
    *gap_us = hop->gap_us > *gap_us ? hop->gap_us : *gap_us;
    if (async && hop->alpha_us > way->queue_us)
        way->queue_us = hop->alpha_us;
}

/* What the last result of rank 0 comes later than one start-up after the first: its lane stores to
 * one rank after the other, while transfers of all channels follow each other in its engine. */
static double results_us(const struct way *way, double channels, double alpha_us)
{
    double stored = way->lanes > 0 ? alpha_us + (way->lanes - 1) * way->lane_gap_us : 0;
    double batches = way->queued > 0 ? (double)(uint64_t)((way->queued - 1) / BUILD_EVENTS) : 0;
    double gaps_us = BUILD_EVENTS * channels * way->queue_gap_us;
    double waits_us = way->queue_us > gaps_us ? batches * (way->queue_us - gaps_us) : 0;
    double queued = way->queued > 0 ? way->lanes * way->lane_gap_us + way->queue_us + waits_us +
                                          (way->queued * channels - 1) * way->queue_gap_us
                                    : 0;
    return (stored > queued ? stored : queued) - alpha_us;
}

/* in: the inputs to rank 0, at once; else the results from it, one after the other. */
static peal_status cost_way(struct planner *planner, int in, struct candidate *candidate,
                            struct way *way_out)
{
    struct traffic traffic;
    struct stage stage = {.levels = 1, .chain = 1, .lane = (uint32_t)in};
    struct way way = {0};
    double channels = candidate->channels, in_turn = 0;
    double lane_us = 1 / (peal_planner_lane_gbs(planner) * 1e3) / channels;
    PEAL_TRY(peal_traffic_init(&traffic, planner));
    for (uint32_t r = 1; r < planner->group.n; r++) {
        struct hop hop;
        peal_planner_hop(planner, in ? r : 0, in ? 0 : r, &hop);
        peal_stage_hop(&stage, &hop);
        peal_planner_load(planner, &hop, 1, hop.scale);
        count_hop(&way, &hop);
        double link_us = peal_load_alone(&hop.path, hop.scale);
        if (!peal_plan_engine_async(hop.engine))
            in_turn += link_us > lane_us ? link_us : lane_us;
        peal_traffic_add(&traffic, in ? r : 0, &hop, 1, 0);
    }
    stage.gap_us = in ? peal_traffic_gap(&traffic, candidate->channels)
                      : results_us(&way, channels, stage.alpha_us);
    peal_traffic_free(&traffic);
    peal_candidate_stage(planner, candidate, &stage, (in ? way.lanes > 0 : way.lanes) / channels);
    struct stage *to = &candidate->stage[candidate->nstages - 1];
    if (!in && way.lanes > 0 && in_turn > to->us_per_byte) /* one link at a time */
        to->us_per_byte = to->alone_us_per_byte = in_turn;
    *way_out = way;
    return PEAL_OK;
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

/* Of C channels that go round two links at random, a link serves one besides half of the others. In
 * step it would serve all. Where one engine moves everything, how far apart they get is no form's
 * to say, and the mean of both counts; what lanes store besides parts them, but for an eighth
 * (which fits simulations). */
static double out_of_step(double channels, int mixed)
{
    double chance = (channels + 1) / (2 * channels);
    return mixed ? (7 * chance + 1) / 8 : (chance + 1) / 2;
}

/*
 * A rank sends its next tile when it has the result of the last. Rank 0 hands out results in
 * batches: its lane stores them one by one, another engine has BUILD_EVENTS of a channel under way.
 * So the inputs of a batch come in while later results go out, and the next tile is there when all
 * inputs are, which follow the first batch, or when those of the last batch are, which follow all
 * results. Where both move results, one way comes behind the other.
 *
 * Transfers of all channels follow each other in an engine, so channels are not in step: who is
 * ahead has a link to itself for longer. After some tiles one channel's inputs may come in while
 * another's results go out, or they meet again; a turn counts as if they met by chance (mean-value
 * analysis of a closed network; Reiser and Lavenberg 1980).
 */
static void cost_turn(struct candidate *candidate, const struct way *results, double lane_us)
{
    const struct stage *in = &candidate->stage[0], *out = &candidate->stage[candidate->nstages - 1];
    double n = results->lanes + results->queued, batch = results->queued > 0 ? BUILD_EVENTS : 1;
    struct stage turn = {.depth = 1, .resource = out->resource};
    double all = n, last = all - batch * (double)(uint64_t)((all - 1) / batch);
    double whole_us = in->us_per_byte + out->us_per_byte * (batch < n ? batch : n) / n;
    double part_us = in->us_per_byte * last / n;
    part_us = out->us_per_byte + (part_us > lane_us ? part_us : lane_us);
    turn.us_per_byte = whole_us > part_us ? whole_us : part_us;
    int mixed = results->lanes > 0 && results->queued > 0;
    if (mixed)
        turn.us_per_byte = in->us_per_byte + out->us_per_byte;
    turn.us_per_byte *= results->queued > 0 ? out_of_step(candidate->channels, mixed) : 1;
    turn.alone_us_per_byte = turn.us_per_byte;
    turn.load_us = out->load_us;
    turn.alpha_us = (in->alpha_us + out->alpha_us) / 2; /* there and back */
    candidate->stage[0].lane = candidate->stage[candidate->nstages - 1].lane = LANE_APART;
    candidate->stage[candidate->nstages++] = turn;
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
    struct way inputs, results;
    PEAL_TRY(cost_way(planner, 1, &candidate, &inputs));
    cost_fold(planner, &candidate);
    PEAL_TRY(cost_way(planner, 0, &candidate, &results));
    cost_turn(&candidate, &results, 1 / (peal_planner_lane_gbs(planner) * 1e3) / channels);
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
