/* SPDX-License-Identifier: Apache-2.0 */
/* Ring allreduce over several channels: 2 (N - 1) start-ups, 2 (N - 1) / N S over each link. The
 * channels run as peal finds them, or as a graph file of NCCL's has them. */
#include "compiler.h"

#include <float.h>
#include <stdio.h>

#define STEP_STEPS 4u /* instructions of one step: told, waited for, moved */
#define RING_TILE_MAX (4ull << 20)
#define RING_TILE_MIN (64ull << 10)

/* The largest tile whose slots fit the bound. */
static uint64_t ring_tile(const struct planner *planner, uint64_t slots)
{
    if (planner->request.tile_bytes)
        return planner->request.tile_bytes;
    uint64_t tile = RING_TILE_MAX;
    while (tile > RING_TILE_MIN && tile * slots * SLOT_DEPTH > planner->request.scratch_limit)
        tile /= 2;
    return tile;
}

/* ---- what its steps take ----------------------------------------------------------- */

/* The hops of one channel's ring. */
struct round {
    double alpha_us;    /* sum of the start-ups */
    double least_us;    /* of two hops next to each other */
    double flight_us;   /* the longest start-up of an asynchronous engine */
    double us_per_byte; /* sum of what a chunk takes on each */
};

/* One half of the steps, or all. send, fold: what a lane moves that sends, or that only folds for
 * another engine, in chunks (a read and a write each count half). */
struct half {
    uint32_t steps;
    double send;
    double fold;
};

static void add_hop(struct round *round, const struct planner *planner, const struct hop *hop,
                    const struct half *half, double chunk_us, double channels)
{
    double load = peal_load_of(&planner->load, &hop->path, 0);
    round->alpha_us += hop->alpha_us;
    if (!peal_plan_engine_async(hop->engine)) {
        double lane = half->send * chunk_us;
        round->us_per_byte += load > lane ? load : lane;
        return;
    }
    /* Channels fold beside each other's transfers. */
    double fold_us = half->fold * chunk_us;
    round->us_per_byte +=
        fold_us + peal_beside_us(load / channels, load - load / channels, fold_us);
    round->flight_us = hop->alpha_us > round->flight_us ? hop->alpha_us : round->flight_us;
}

static void walk_round(const struct planner *planner, const uint32_t *order,
                       const struct half *half, double chunk_us, double channels,
                       struct round *round)
{
    uint32_t n = planner->group.n;
    double before = 0, first = 0;
    *round = (struct round){.least_us = DBL_MAX};
    for (uint32_t p = 0; p < n; p++) {
        struct hop hop;
        peal_planner_hop(planner, order[p], order[(p + 1) % n], &hop);
        add_hop(round, planner, &hop, half, chunk_us, channels);
        if (p == 0)
            first = hop.alpha_us;
        else if (before + hop.alpha_us < round->least_us)
            round->least_us = before + hop.alpha_us;
        before = hop.alpha_us;
    }
    if (before + first < round->least_us)
        round->least_us = before + first;
}

/*
 * The mean start-up of a step, of `steps` that follow each other. A chunk crosses each hop once a
 * round: in 2 (N - 1) steps each twice but for two next to each other, in N - 1 all but one. A
 * rank whose engine has BUILD_EVENTS transfers under way waits for the one so many steps before,
 * and may do so all the time.
 */
static double mean_alpha(const struct round *round, uint32_t n, uint32_t steps)
{
    double mean = round->alpha_us / n;
    double way =
        steps < n ? round->alpha_us - round->least_us / 2 : 2 * round->alpha_us - round->least_us;
    uint32_t waits = (steps - 1) / BUILD_EVENTS;
    double held = round->flight_us * (waits + 1) + mean * (steps - 1 - waits * BUILD_EVENTS);
    return (round->flight_us > 0 && held > way ? held : way) / steps;
}

/* The start-ups and the slack of a half of `steps` steps, of the channel that takes longest. */
static void time_half(const struct planner *planner, const struct ring_orders *orders,
                      uint32_t *order, const struct candidate *candidate, const struct half *half,
                      uint32_t steps, struct stage *stage)
{
    uint32_t n = planner->group.n;
    double chunk_us = candidate->hop_share / (peal_planner_lane_gbs(planner) * 1e3), most = 0;
    for (uint32_t c = 0; c < candidate->channels; c++) {
        struct round round;
        peal_ring_order(orders, c, order);
        walk_round(planner, order, half, chunk_us, candidate->channels, &round);
        double alpha = mean_alpha(&round, n, steps);
        stage->alpha_us = alpha > stage->alpha_us ? alpha : stage->alpha_us;
        most = round.us_per_byte > most ? round.us_per_byte : most;
    }
    stage->slack_us_per_byte = most / n; /* to be taken from the pace */
}

/* queue_us: the gaps of a step's messages of all channels, which one engine or NIC sends. */
static void add_halves(struct planner *planner, struct candidate *candidate,
                       const struct ring_orders *orders, uint32_t *order, int sends,
                       double queue_us)
{
    double n = planner->group.n;
    /* The first chunk leaves as it is, the others with what came; the last fold writes its result
     * here and to the next rank, which has it from there on as it is. */
    const struct half reduce = {planner->group.n - 1, (1.5 * n - 2) / (n - 1), 0.75};
    const struct half gather = {planner->group.n - 1, n / (n - 1), 0.75}; /* folds, over all */
    const struct half scatter = {planner->group.n - 1, 1.5, 1.5};
    const struct half spread = {planner->group.n - 1, 1, 0};
    peal_collective collective = planner->request.collective;
    const struct half *half[2] = {&reduce, &gather};
    uint32_t halves = collective == PEAL_ALLREDUCE ? 2 : 1;
    if (halves == 1)
        half[0] = collective == PEAL_ALLGATHER ? &spread : &scatter;
    struct stage stage[2] = {{.chain = 1}, {.chain = 1}};
    for (uint32_t i = 0; i < halves; i++) {
        time_half(planner, orders, order, candidate, half[i], halves * half[i]->steps, &stage[i]);
        if (queue_us > stage[i].alpha_us)
            stage[i].alpha_us = queue_us;
    }
    stage[0].levels = halves * half[0]->steps; /* the load is that of all steps */
    peal_candidate_stage(planner, candidate, &stage[0], 0);
    candidate->nstages = halves;
    for (uint32_t i = 0; i < halves; i++) {
        struct stage *to = &candidate->stage[i];
        if (i)
            *to = candidate->stage[0];
        to->levels = half[i]->steps;
        to->alpha_us = stage[i].alpha_us;
        peal_stage_lane(planner, to,
                        (sends ? half[i]->send : half[i]->fold) * candidate->hop_share);
        to->slack_us_per_byte = to->us_per_byte - stage[i].slack_us_per_byte;
        if (to->slack_us_per_byte < 0) {
            /* What comes is folded behind its transfer; between hosts that is left to gamma, which
             * the textbook forms do not count, and to many channels that hide it. */
            double behind = planner->group.nhosts == 1 ? -to->slack_us_per_byte : 0;
            to->us_per_byte += behind;
            to->alone_us_per_byte += behind;
            to->slack_us_per_byte = 0;
        }
    }
}

/* Before the steps of an allgather a rank hears that the next one has entered, and copies its own
 * block; after those of a reduce-scatter it folds its own. */
static void add_ends(struct planner *planner, struct candidate *candidate,
                     const struct ring_orders *orders, uint32_t *order)
{
    peal_collective collective = planner->request.collective;
    struct stage end = {.levels = 1, .chain = 1};
    if (collective == PEAL_ALLREDUCE)
        return;
    for (uint32_t c = 0; collective == PEAL_ALLGATHER && c < candidate->channels; c++) {
        peal_ring_order(orders, c, order);
        for (uint32_t p = 0, n = planner->group.n; p < n; p++) {
            struct hop hop;
            peal_planner_hop(planner, order[(p + 1) % n], order[p], &hop);
            end.alpha_us = hop.alpha_us > end.alpha_us ? hop.alpha_us : end.alpha_us;
        }
    }
    peal_candidate_stage(planner, candidate, &end,
                         (collective == PEAL_ALLGATHER ? 1 : 1.5) * candidate->hop_share);
}

/* 1: some engine sends what a lane has folded, which has no output to lie in. */
static int staged(const struct candidate *candidate, peal_collective collective)
{
    return collective == PEAL_REDUCE_SCATTER && !peal_candidate_stores(candidate);
}

static peal_status cost_channels(struct planner *planner, enum algorithm algo, uint32_t channels,
                                 const struct ring_orders *orders, uint32_t *order)
{
    uint32_t n = planner->group.n;
    uint64_t slots = 2ull * peal_ring_width(n) * channels;
    if (algo == ALGO_RING && peal_planner_too_long(planner, channels, 2ull * STEP_STEPS * n))
        return PEAL_OK;
    struct candidate candidate = {.algo = algo,
                                  .channels = channels,
                                  .tile_bytes = ring_tile(planner, slots),
                                  .max_bytes = UINT64_MAX,
                                  .chunks = n * channels,
                                  .lanes = channels,
                                  .slots = slots,
                                  .hop_share = 1.0 / n / channels};
    int sends = 0;
    struct traffic traffic;
    PEAL_TRY(peal_traffic_init(&traffic, planner));
    for (uint32_t c = 0; c < channels; c++) {
        peal_ring_order(orders, c, order);
        for (uint32_t p = 0; p < n; p++) {
            struct hop hop;
            peal_planner_hop(planner, order[p], order[(p + 1) % n], &hop);
            if (peal_plan_engine_async(hop.engine))
                peal_traffic_add(&traffic, order[p], &hop, 1, 0);
            else
                sends = 1;
            peal_planner_load(planner, &hop, candidate.hop_share, hop.scale);
        }
    }
    add_halves(planner, &candidate, orders, order, sends,
               peal_traffic_gap(&traffic, 1) + traffic.one_us);
    peal_traffic_free(&traffic);
    add_ends(planner, &candidate, orders, order);
    peal_candidate_total(planner, &candidate);
    if (planner->request.collective == PEAL_ALLGATHER) { /* no slots, nothing to tile for */
        candidate.slots = candidate.tile_bytes = 0;
        return peal_planner_add(planner, &candidate);
    }
    if (staged(&candidate, planner->request.collective))
        candidate.slots += 2ull * BUILD_EVENTS * channels;
    PEAL_TRY(peal_planner_add(planner, &candidate));
    candidate.tile_bytes = 0; /* half the slots, as long as whole chunks fit the bound */
    return planner->request.tile_bytes ? PEAL_OK : peal_planner_add(planner, &candidate);
}

/* ---- candidates --------------------------------------------------------------------- */

/* All numbers of channels, or the one asked for; what fills a mesh evenly besides. */
static peal_status cost_all(struct planner *planner, uint32_t asked, uint32_t most,
                            const struct ring_orders *orders, uint32_t *order)
{
    for (uint32_t channels = asked ? asked : 1; channels <= most;
         channels = asked ? UINT32_MAX : channels * 2)
        PEAL_TRY(cost_channels(planner, ALGO_RING, channels, orders, order));
    uint32_t rings = peal_ring_count(orders);
    if (asked || !(rings & (rings - 1)))
        return PEAL_OK;
    for (uint32_t channels = rings; channels <= most; channels *= 2)
        PEAL_TRY(cost_channels(planner, ALGO_RING, channels, orders, order));
    return PEAL_OK;
}

static peal_status enumerate_orders(struct planner *planner, enum algorithm algo, uint32_t asked,
                                    uint32_t most)
{
    struct ring_orders orders;
    uint32_t n = planner->group.n;
    PEAL_TRY(peal_ring_orders_make(planner, algo, asked ? asked : most, &orders));
    uint32_t *order = peal_alloc(planner->ctx, n * sizeof *order);
    peal_status status = PEAL_ERR_MEMORY;
    if (order && algo == ALGO_RING)
        status = cost_all(planner, asked, most, &orders, order);
    else if (order)
        status = cost_channels(planner, algo, asked, &orders, order);
    peal_ring_orders_free(&orders);
    peal_free(planner->ctx, order, n * sizeof *order);
    return status;
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    /* Lanes of a host process share its core; across many hosts more channels than ranks of a
     * host find no further NIC. */
    uint32_t most = !group->accelerators ? 1 : group->nhosts > 8 ? 16 : CHANNELS_MAX;
    if (group->n < 2 || planner->request.channels > most)
        return PEAL_OK;
    return enumerate_orders(planner, ALGO_RING, planner->request.channels, most);
}

/* As many channels as a graph file has, each as it says. */
static peal_status enumerate_given(struct planner *planner)
{
    const struct topo_orders *rings = peal_group_orders(planner, peal_topo_rings);
    if (!rings || rings->channels > CHANNELS_MAX)
        return PEAL_OK;
    return enumerate_orders(planner, ALGO_NCCL_RING, rings->channels, rings->channels);
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    uint32_t depth = b->plan->tile_bytes ? SLOT_DEPTH : 1;
    b->plan->nchunks = candidate->chunks;
    b->plan->nsems = (uint16_t)(3 * candidate->channels);
    uint32_t width = peal_ring_width(b->plan->nranks);
    for (uint32_t c = 0; c < candidate->channels; c++) {
        if (b->plan->collective != PEAL_ALLGATHER)
            peal_build_region(b, PLAN_BUF_SCRATCH, width, depth, peal_build_slot_bytes(b));
        if (staged(candidate, b->plan->collective))
            peal_build_region(b, PLAN_BUF_SCRATCH, BUILD_EVENTS, 1, peal_build_slot_bytes(b));
    }
}

static void emit_body(struct build *b, struct ring_part *part, uint32_t channel)
{
    switch (b->plan->collective) {
    case PEAL_REDUCE_SCATTER:
        part->chunk0 = channel;
        part->stage_region = part->region + 1;
        peal_build_section(b, 1);
        peal_ring_reduce_scatter(b, part);
        break;
    case PEAL_ALLGATHER:
        part->chunk0 = channel;
        peal_ring_enter(b, part);
        peal_build_section(b, 1);
        peal_ring_allgather(b, part);
        break;
    default:
        peal_build_section(b, 1);
        peal_ring_body(b, part);
    }
}

/* A step waits twice, folds two into one, and tells twice; or waits, passes on, and tells. */
static void reserve(struct build *b, const struct candidate *candidate)
{
    uint64_t n = (uint64_t)candidate->channels * b->plan->nranks;
    uint64_t folds = b->plan->collective == PEAL_ALLGATHER ? 0 : n;
    uint64_t passes = b->plan->collective == PEAL_REDUCE_SCATTER ? 0 : n;
    peal_build_reserve(b, 5 * folds + 3 * passes, 3 * folds + 2 * passes);
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    uint32_t n = b->plan->nranks;
    reserve(b, candidate);
    uint32_t regions = staged(candidate, b->plan->collective) ? 2 : 1; /* of a channel */
    for (uint32_t c = 0; c < candidate->channels; c++) {
        struct members members = peal_ring_members(b, c);
        struct ring_part part = {.n = n,
                                 .self = peal_ring_position(b->rings, c, rank),
                                 .of = &members,
                                 .chunk0 = c * n,
                                 .in_buffer = PLAN_BUF_IN,
                                 .region = c * regions,
                                 .width = peal_ring_width(n),
                                 .sem0 = 3 * c,
                                 .channels = candidate->channels};
        part.credits = b->plan->tile_bytes != 0 || part.width < n - 1;
        peal_build_lane(b);
        emit_body(b, &part, c);
        peal_build_drain(b);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "reduce-scatter and allgather, %u channel%s%s", candidate->channels,
             candidate->channels == 1 ? "" : "s",
             candidate->algo == ALGO_NCCL_RING ? " as in the graph file" : "");
}

#define SERVES (1u << PEAL_ALLREDUCE | 1u << PEAL_REDUCE_SCATTER | 1u << PEAL_ALLGATHER)
const struct algo peal_algo_ring = {"ring", SERVES, enumerate, prepare, emit, detail};
const struct algo peal_algo_nccl_ring = {"nccl-ring", SERVES, enumerate_given,
                                         prepare,     emit,   detail};
