/* SPDX-License-Identifier: Apache-2.0 */
/* Bruck's allgather and all-to-all, for any number of ranks: few start-ups. */
#include "arrivals.h"

#include <stdio.h>

/* Larger radices, between which and `direct` little lies, are left out where it takes so many hops
 * to cost them. */
#define WORK_MAX (1u << 17)

static uint32_t rounds_of(uint32_t n, uint32_t radix)
{
    uint32_t rounds = 0;
    for (uint64_t far = 1; far < n; far *= radix)
        rounds++;
    return rounds;
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    struct bruck_part part = {.n = b->plan->nranks,
                              .self = rank,
                              .radix = candidate->radix,
                              .channels = candidate->channels};
    uint32_t regions = rounds_of(part.n, part.radix) - 1;
    b->in_flight = BURST_EVENTS;
    for (; part.channel < part.channels; part.channel++) {
        part.sem0 = 2 * part.channel;
        part.region = regions * part.channel;
        peal_build_lane(b);
        if (b->plan->collective == PEAL_ALLGATHER)
            peal_bruck_allgather(b, &part);
        else
            peal_bruck_alltoall(b, &part);
        peal_build_drain(b);
    }
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    uint32_t n = b->plan->nranks, regions = rounds_of(n, candidate->radix) - 1;
    b->plan->nsems = (uint16_t)(2 * candidate->channels);
    if (b->plan->collective == PEAL_ALLGATHER)
        return;
    for (uint32_t c = 0; c < candidate->channels; c++)
        for (uint32_t i = 0, whole = candidate->radix; i < regions; i++, whole *= candidate->radix)
            peal_build_region(b, PLAN_BUF_SCRATCH, (n + whole - 1) / whole * whole, 1,
                              peal_build_slot_bytes(b));
}

/* ---- cost -------------------------------------------------------------------------- */

/* Messages of one digit's blocks. They are the more where a run goes over the last rank; counted
 * at the middle one, half of whose runs do. */
static uint32_t messages_of(const struct planner *planner, uint32_t radix, uint32_t far,
                            uint32_t digit)
{
    struct bruck_part part = {
        .n = planner->group.n, .self = planner->group.n / 2, .radix = radix, .channels = 1};
    if (planner->request.collective == PEAL_ALLGATHER)
        return far > 1 ? 2 : 1;
    return peal_bruck_messages(&part, far, digit);
}

/* What a lane stores, it stores to one rank after the other, and the lanes of all channels to the
 * same one at a time: over its link, or at their own rate, if that is less. */
static double stored_us(const struct planner *planner, uint32_t channels, const struct hop *hop)
{
    double lane_us = 1 / (peal_planner_lane_gbs(planner) * 1e3) / channels;
    double link_us = peal_load_alone(&hop->path, hop->scale);
    if (peal_plan_engine_async(hop->engine))
        return 0;
    return link_us > lane_us ? link_us : lane_us;
}

struct bruck_costs {
    struct traffic all; /* of all rounds */
    struct arrivals arrivals;
};

/* What the round adds to the longest chain of start-ups, besides the gaps of one channel. */
static double start_up(struct bruck_costs *costs, const struct traffic *round)
{
    double us = peal_arrivals_round(&costs->arrivals) - peal_traffic_gap(round, 1);
    return us > 0 ? us : 0;
}

/* in_turn: of each rank, us per byte of the message that its lanes store. */
static void load_digit(struct planner *planner, struct traffic *round, struct bruck_costs *costs,
                       const struct candidate *candidate, struct stage *stage, double *in_turn,
                       uint32_t far, uint32_t digit)
{
    uint32_t n = planner->group.n, radix = candidate->radix;
    uint32_t messages = messages_of(planner, radix, far, digit);
    uint32_t blocks = planner->request.collective == PEAL_ALLGATHER
                          ? peal_bruck_range(n, far, digit)
                          : peal_bruck_blocks(n, radix, far, digit);
    double share = (double)blocks / n;
    for (uint32_t r = 0; r < n; r++) {
        struct hop hop;
        uint32_t to = (r + n - digit * far) % n;
        peal_planner_hop(planner, r, to, &hop);
        peal_stage_hop(stage, &hop);
        peal_planner_load(planner, &hop, share, hop.scale);
        peal_traffic_add(round, r, &hop, messages, share / messages);
        peal_traffic_add(&costs->all, r, &hop, messages, share / messages);
        peal_arrivals_send(&costs->arrivals, r, to, &hop, messages);
        in_turn[r] += share * stored_us(planner, candidate->channels, &hop);
    }
}

static void hold_to(struct stage *stage, const double *in_turn, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++) {
        stage->us_per_byte = in_turn[r] > stage->us_per_byte ? in_turn[r] : stage->us_per_byte;
        if (in_turn[r] > stage->alone_us_per_byte)
            stage->alone_us_per_byte = in_turn[r];
    }
}

static int stores_any(const double *in_turn, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        if (in_turn[r] > 0)
            return 1;
    return 0;
}

static peal_status cost_round(struct planner *planner, struct candidate *candidate,
                              struct bruck_costs *costs, uint32_t far)
{
    uint32_t n = planner->group.n, radix = candidate->radix, blocks = 0;
    struct stage stage = {.levels = 1, .chain = 1};
    struct traffic traffic;
    double *in_turn = peal_calloc(planner->ctx, n, sizeof *in_turn);
    if (!in_turn)
        return PEAL_ERR_MEMORY;
    peal_status status = peal_traffic_init(&traffic, planner);
    for (uint32_t d = 1; status == PEAL_OK && d < radix && d * far < n; d++) {
        load_digit(planner, &traffic, costs, candidate, &stage, in_turn, far, d);
        blocks += planner->request.collective == PEAL_ALLGATHER
                      ? peal_bruck_range(n, far, d)
                      : peal_bruck_blocks(n, radix, far, d);
    }
    if (status == PEAL_OK) {
        peal_traffic_stage(&traffic, candidate->channels, &stage);
        stage.alpha_us = start_up(costs, &traffic);
        peal_candidate_stage(planner, candidate, &stage, (double)blocks / n / candidate->channels);
        hold_to(&candidate->stage[candidate->nstages - 1], in_turn, n);
        /* The own block: before all others go, or behind those that the lane has to store. */
        if (far == 1 && (planner->request.collective == PEAL_ALLGATHER || stores_any(in_turn, n)))
            peal_stage_then(planner, &candidate->stage[candidate->nstages - 1],
                            1.0 / n / candidate->channels);
        peal_traffic_free(&traffic);
    }
    peal_free(planner->ctx, in_turn, n * sizeof *in_turn);
    return status;
}

/* Before anything is moved, each rank tells all that will send to it. */
static peal_status cost_entry(struct planner *planner, struct candidate *candidate,
                              struct bruck_costs *costs)
{
    uint32_t n = planner->group.n, radix = candidate->radix;
    struct stage enter = {.levels = 1, .chain = 1};
    struct traffic told;
    PEAL_TRY(peal_traffic_init(&told, planner));
    for (uint64_t far = 1; far < n; far *= radix)
        for (uint64_t d = 1; d < radix && d * far < n; d++)
            for (uint32_t r = 0; r < n; r++) {
                struct hop hop;
                peal_planner_hop(planner, r, (uint32_t)((r + d * far) % n), &hop);
                peal_traffic_add(&told, r, &hop, 1, 0);
                peal_arrivals_send(&costs->arrivals, r, hop.to, &hop, 1);
            }
    enter.gap_us = peal_traffic_gap(&told, candidate->channels);
    enter.alpha_us = start_up(costs, &told);
    peal_candidate_stage(planner, candidate, &enter, 0);
    peal_traffic_free(&told);
    return PEAL_OK;
}

static peal_status cost_rounds(struct planner *planner, struct candidate *candidate)
{
    struct bruck_costs costs = {.all = {0}};
    PEAL_TRY(peal_traffic_init(&costs.all, planner));
    peal_status status = peal_arrivals_init(&costs.arrivals, planner->ctx, planner->group.n);
    if (status == PEAL_OK)
        status = cost_entry(planner, candidate, &costs);
    for (uint64_t far = 1; status == PEAL_OK && far < planner->group.n; far *= candidate->radix)
        status = cost_round(planner, candidate, &costs, (uint32_t)far);
    peal_traffic_net(&costs.all, candidate);
    peal_arrivals_free(&costs.arrivals);
    peal_traffic_free(&costs.all);
    return status;
}

/* Of the regions of all rounds but the last. */
static uint64_t slots_of(uint32_t n, uint32_t radix)
{
    uint64_t slots = 0;
    for (uint64_t whole = radix; whole < n; whole *= radix)
        slots += (n + whole - 1) / whole * whole;
    return slots;
}

static peal_status cost_radix(struct planner *planner, uint32_t radix, uint32_t channels)
{
    uint32_t n = planner->group.n;
    int gathers = planner->request.collective == PEAL_ALLGATHER;
    uint64_t chunks = (uint64_t)n * (gathers ? 1 : n) * channels;
    struct candidate candidate = {.algo = ALGO_BRUCK,
                                  .channels = channels,
                                  .lanes = channels,
                                  .radix = radix,
                                  .max_bytes = UINT64_MAX};
    if (chunks > PLAN_CHUNKS_MAX)
        return PEAL_OK;
    candidate.chunks = (uint32_t)chunks;
    if (!gathers)
        candidate.slots = 2 * slots_of(n, radix) * channels;
    PEAL_TRY(cost_rounds(planner, &candidate));
    double most = 0;
    for (uint64_t far = 1; far < n; far *= radix) {
        double blocks = gathers ? peal_bruck_range(n, (uint32_t)far, 1)
                                : peal_bruck_blocks(n, radix, (uint32_t)far, 1);
        most = blocks > most ? blocks : most;
    }
    candidate.hop_share = most / n / channels;
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

/* Hops to be costed. */
static uint64_t work(uint32_t n, uint32_t radix)
{
    return (uint64_t)n * rounds_of(n, radix) * (radix - 1);
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    uint32_t asked = planner->request.channels;
    if (group->n < 2)
        return PEAL_OK;
    for (uint32_t radix = 2; radix == 2 || (radix < group->n && work(group->n, radix) <= WORK_MAX);
         radix *= 2)
        for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX;
             channels = asked ? UINT32_MAX : channels * 4) {
            if (channels > 1 && !group->accelerators)
                break;
            PEAL_TRY(cost_radix(planner, radix, channels));
        }
    return PEAL_OK;
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "radix %u, %u lane%s", candidate->radix, candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_bruck = {
    "bruck", 1u << PEAL_ALLGATHER | 1u << PEAL_ALLTOALL, enumerate, prepare, emit, detail};
