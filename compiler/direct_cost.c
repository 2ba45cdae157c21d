/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What direct schedules cost. All pairs are at work at once: the load is that of all their
 * transfers together, so that ports into which many send count them all, and the gap is that of
 * all messages of the rank or NIC that has most.
 */
#include "compiler.h"

/* Blocks between all pairs of more ranks than this are more than 2^22 chunks. */
#define PAIRS_RANKS_MAX 2048u
/* Where other algorithms serve too, plans of so many steps that proving them takes minutes are
 * made only when they are asked for. */
#define PAIRS_RANKS_EASY 256u

/* A port's share of a shallow switch buffer: 32 MiB, where the topology does not say, for 64
 * ports. What queues at a receiver's port beyond it stops ports that did nothing. */
#define SWITCH_BUFFER_MIB 32
#define SWITCH_PORTS 64u

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* ---- sendrecv -------------------------------------------------------------------- */

/* When the last rank has heard of all others: whoever has heard of a round tells the next. sent
 * (NULL: of a barrier): when the last block of a list is there, or the last rank leaves, start-ups
 * alone. */
static peal_status barrier_us(const struct planner *planner, double *us, double *sent)
{
    const struct group *group = &planner->group;
    double *heard = peal_calloc(planner->ctx, 2 * (size_t)group->n, sizeof *heard);
    if (!heard)
        return PEAL_ERR_MEMORY;
    for (uint32_t k = 0; k < peal_pace_barrier(group); k++) {
        uint32_t round = peal_pace_barrier_round(group, k);
        double *before = heard + (k % 2 ? group->n : 0), *now = heard + (k % 2 ? 0 : group->n);
        for (uint32_t r = 0; r < group->n; r++) {
            uint32_t to = peal_pace_to(group, r, round);
            struct hop hop;
            peal_planner_hop(planner, r, to, &hop);
            now[to] = before[r] + hop.alpha_us > before[to] ? before[r] + hop.alpha_us : before[to];
        }
    }
    *us = 0;
    for (uint32_t r = 0; r < 2 * group->n; r++)
        *us = heard[r] > *us ? heard[r] : *us;
    const double *last = heard + (peal_pace_barrier(group) % 2 ? group->n : 0);
    uint32_t from, to;
    for (uint32_t i = 0; sent && peal_planner_pair(planner, i, &from, &to); i++) {
        struct hop hop = {.alpha_us = 0};
        if (from != to)
            peal_planner_hop(planner, from, to, &hop);
        *sent = larger(*sent, larger(*us, last[from] + hop.alpha_us));
    }
    peal_free(planner->ctx, heard, 2 * (size_t)group->n * sizeof *heard);
    return PEAL_OK;
}

/* What a rank has to send. */
struct sends {
    uint32_t all;
    uint32_t stored; /* by lanes */
    double in_turn_us;
};

static void count_sends(struct planner *planner, struct sends *sends)
{
    uint32_t from, to;
    for (uint32_t i = 0; peal_planner_pair(planner, i, &from, &to); i++) {
        struct hop hop = {.engine = PEAL_ENGINE_SM};
        if (from != to)
            peal_planner_hop(planner, from, to, &hop);
        sends[from].all++;
        sends[from].stored += hop.engine == PEAL_ENGINE_SM;
    }
}

/* Each pair's block, all at once. The lanes of a rank store to one after the other, each of them to
 * another first: as many as begin with one of them stay together. */
static void load_sends(struct planner *planner, struct sends *sends, uint32_t channels,
                       struct stage *data)
{
    uint32_t from, to;
    double lane_us = 1 / (peal_planner_lane_gbs(planner) * 1e3) / channels;
    for (uint32_t i = 0; peal_planner_pair(planner, i, &from, &to); i++) {
        struct hop hop = {.engine = PEAL_ENGINE_SM};
        double link_us = 0;
        if (from != to) {
            peal_planner_hop(planner, from, to, &hop);
            peal_stage_hop(data, &hop);
            peal_planner_load(planner, &hop, 1, hop.scale);
            link_us = peal_load_alone(&hop.path, hop.scale);
        }
        if (hop.engine != PEAL_ENGINE_SM)
            continue;
        link_us *= (double)((channels + sends[from].stored - 1) / sends[from].stored) / channels;
        sends[from].in_turn_us += link_us > lane_us ? link_us : lane_us;
    }
}

static peal_status cost_sends(struct planner *planner, uint32_t channels)
{
    uint32_t n = planner->group.n;
    struct candidate candidate = {.algo = ALGO_DIRECT,
                                  .channels = channels,
                                  .max_bytes = UINT64_MAX,
                                  .chunks = channels,
                                  .lanes = channels,
                                  .hop_share = 1.0 / channels};
    struct stage data = {.levels = 1, .chain = 1};
    struct stage shake = {.levels = 1, .chain = 1};
    double entered_us, sent_us = 0;
    PEAL_TRY(barrier_us(planner, &entered_us, &sent_us));
    struct sends *sends = peal_calloc(planner->ctx, n, sizeof *sends);
    if (!sends)
        return PEAL_ERR_MEMORY;
    count_sends(planner, sends);
    load_sends(planner, sends, channels, &data);
    uint32_t most = 0;
    double in_turn_us = 0;
    for (uint32_t r = 0; r < n; r++) {
        most = sends[r].all > most ? sends[r].all : most;
        in_turn_us = larger(in_turn_us, sends[r].in_turn_us);
    }
    peal_free(planner->ctx, sends, n * sizeof *sends);
    data.gap_us *= most * channels - 1.0;
    /* Who has the longest start-up is seldom the last to hear of all others. */
    shake.alpha_us = sent_us > data.alpha_us ? sent_us - data.alpha_us : 0;
    if (planner->npairs)
        candidate.chunks *= planner->npairs;
    peal_candidate_stage(planner, &candidate, &data,
                         in_turn_us * peal_planner_lane_gbs(planner) * 1e3);
    peal_candidate_stage(planner, &candidate, &shake, 0);
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

/* ---- all others ------------------------------------------------------------------- */

/* What is common to the candidates of a request. */
struct cost_base {
    struct candidate candidate; /* one lane, no window */
    double lane_share;          /* of the message, that the busiest rank's lanes store */
    double then_share;          /* the same, before or after what other engines carry */
    double direct_us, other_us; /* the longest start-up of loads and stores, and of others */
    double one_us;              /* the longest gap */
    double pair_us;             /* per byte of the message, of the slowest pair alone */
    double lane_us, engine_us;  /* the gaps of one message from or to each other rank */
    uint32_t stores;            /* of the busiest rank, to others */
    struct turns turns;         /* of the rank whose stores take longest, one after the other */
    int mesh;                   /* 1: no two pairs share what is busiest */
    uint32_t others;            /* 1: another engine carries something */
    uint32_t senders;           /* ranks of other hosts that send to a root */
    struct traffic traffic;     /* of messages, not of loads or of stores to many at once */
};

/* 1: one step stores to all, or loads from all. */
static int fused(peal_collective collective)
{
    return collective == PEAL_ALLGATHER || collective == PEAL_BROADCAST ||
           collective == PEAL_REDUCE_SCATTER || collective == PEAL_REDUCE;
}

/* The gaps of a rank's messages to all others, or of a root's. */
struct gaps {
    double lane_us, engine_us;
    uint32_t stores;
    struct turns turns;
};

static void add_gap(struct gaps *gaps, const struct hop *hop)
{
    int async = peal_plan_engine_async(hop->engine);
    *(async ? &gaps->engine_us : &gaps->lane_us) += hop->gap_us;
    gaps->stores += !async;
    peal_turns_add(&gaps->turns, hop);
}

static void note_gaps(struct cost_base *base, const struct gaps *gaps)
{
    base->lane_us = larger(base->lane_us, gaps->lane_us);
    base->engine_us = larger(base->engine_us, gaps->engine_us);
    base->stores = gaps->stores > base->stores ? gaps->stores : base->stores;
    peal_turns_keep(&base->turns, &gaps->turns);
}

static void load_pair(struct planner *planner, struct cost_base *base, uint32_t from, uint32_t to,
                      struct gaps *gaps)
{
    struct hop hop;
    peal_planner_hop(planner, from, to, &hop);
    add_gap(gaps, &hop);
    peal_planner_load(planner, &hop, peal_peers_share(planner), hop.scale);
    int async = peal_plan_engine_async(hop.engine);
    double pair_us = peal_peers_share(planner) / (hop.path.beta_gbs * hop.scale * 1e3);
    double *alpha = async ? &base->other_us : &base->direct_us;
    base->pair_us = larger(base->pair_us, pair_us);
    *alpha = larger(*alpha, hop.alpha_us);
    base->one_us = larger(base->one_us, hop.gap_us);
    base->others |= async ? 1 : 0;
    if (async || !fused(planner->request.collective))
        peal_traffic_add(&base->traffic, from, &hop, 1, peal_peers_share(planner));
    base->senders += peal_group_host(&planner->group, from) != peal_group_host(&planner->group, to);
}

/* Of a root to which the others send: it tells them. */
static void count_root_gaps(struct planner *planner, struct cost_base *base)
{
    uint32_t root = planner->request.root;
    struct gaps gaps = {.stores = 0};
    for (uint32_t to = 0; to < planner->group.n; to++) {
        struct hop hop;
        if (to == root)
            continue;
        peal_planner_hop(planner, root, to, &hop);
        add_gap(&gaps, &hop);
    }
    note_gaps(base, &gaps);
}

/* What lanes read and write counts half. A block that a rank keeps is copied by a lane, which has
 * nothing else to do where other engines move. */
static void set_shares(const struct planner *planner, struct cost_base *base)
{
    peal_collective collective = planner->request.collective;
    double share = peal_peers_share(planner), folded = (planner->group.n + 1) / 2.0 * share;
    if (collective == PEAL_ALLGATHER || collective == PEAL_BROADCAST)
        base->lane_share = (2 + base->stores) / 2.0 * share;
    else if (collective == PEAL_REDUCE_SCATTER || collective == PEAL_REDUCE)
        base->lane_share = folded;
    else if (collective == PEAL_GATHER)
        base->lane_share = base->direct_us > 0 ? share : 0;
    else
        base->lane_share = base->stores * share;
    if (!fused(collective) && collective != PEAL_GATHER && !base->others)
        base->then_share = share; /* the own block, when the others are stored */
    if (base->others && fused(collective)) {
        base->then_share = base->lane_share;
        base->lane_share = 0;
    }
}

static void load_pairs(struct planner *planner, struct cost_base *base)
{
    peal_collective collective = planner->request.collective;
    uint32_t n = planner->group.n, root = planner->request.root;
    int in = peal_to_root(collective), out = peal_from_root(collective);
    for (uint32_t r = out ? root : 0; r < (out ? root + 1 : n); r++) {
        struct gaps gaps = {.stores = 0};
        for (uint32_t to = in ? root : 0; to < (in ? root + 1 : n); to++)
            if (to != r)
                load_pair(planner, base, r, to, &gaps);
        if (!in)
            note_gaps(base, &gaps);
    }
    if (in)
        count_root_gaps(planner, base);
    set_shares(planner, base);
}

/* ---- start-ups */

/* One rank tells all others on every channel, whose messages the same engine sends. */
static double tell_all_us(const struct cost_base *base, uint32_t channels)
{
    double gaps = larger(base->lane_us, base->engine_us * channels) - base->one_us;
    return larger(base->direct_us, base->other_us) + (gaps > 0 ? gaps : 0);
}

/* Every rank tells one. */
static double tell_one_us(const struct cost_base *base, uint32_t channels)
{
    double others = base->others ? base->other_us + (channels - 1.0) * base->one_us : 0;
    return larger(base->direct_us, others);
}

/* Besides the data. Of a reduction loads wait until their owners have entered, slots for nothing.
 */
static double shakes_us(const struct planner *planner, const struct cost_base *base,
                        uint32_t channels)
{
    switch (planner->request.collective) {
    case PEAL_REDUCE_SCATTER:
        return 2 * tell_all_us(base, channels);
    case PEAL_BROADCAST:
    case PEAL_SCATTER:
        return tell_one_us(base, 1);
    case PEAL_REDUCE:
        return tell_all_us(base, channels);
    case PEAL_GATHER:
        return tell_one_us(base, 1) + tell_all_us(base, 1);
    default:
        return tell_all_us(base, channels);
    }
}

/* Where each channel moves as soon as its own ranks have told each other, one root and the others,
 * the last channel is told so much later, while the first ones move. */
static double late_us(const struct planner *planner, const struct cost_base *base,
                      uint32_t channels)
{
    double us = base->others ? base->one_us : 0;
    switch (planner->request.collective) {
    case PEAL_GATHER:
        us = larger(us, base->engine_us);
        break;
    case PEAL_BROADCAST:
    case PEAL_SCATTER:
        break;
    default:
        return 0;
    }
    return us * (channels - 1.0);
}

/* A fold begins when all slots are filled, and its loads come back; stores to many at once are told
 * one by one. */
static double data_us(const struct planner *planner, const struct cost_base *base)
{
    switch (planner->request.collective) {
    case PEAL_REDUCE_SCATTER:
        return base->direct_us + base->other_us;
    case PEAL_REDUCE:
        return base->direct_us + larger(base->direct_us, base->other_us);
    case PEAL_ALLGATHER:
    case PEAL_BROADCAST:
        return larger(base->other_us,
                      base->stores ? base->direct_us + base->lane_us - base->lane_us / base->stores
                                   : 0);
    default:
        return larger(base->direct_us, base->other_us);
    }
}

static peal_status cost_base(struct planner *planner, struct cost_base *base)
{
    struct candidate *candidate = &base->candidate;
    struct stage data = {.levels = 1, .chain = 1}, shake = {.levels = 1, .chain = 1};
    if (planner->request.collective == PEAL_BARRIER) {
        PEAL_TRY(barrier_us(planner, &data.alpha_us, NULL));
    } else {
        load_pairs(planner, base);
        data.alpha_us = data_us(planner, base);
        base->mesh = !fused(planner->request.collective) && planner->group.nhosts == 1 &&
                     base->pair_us > 0.999 * planner->load.worst;
    }
    peal_candidate_stage(planner, candidate, &data, 0);
    peal_candidate_stage(planner, candidate, &shake, 0);
    peal_candidate_total(planner, candidate);
    return PEAL_OK;
}

/* Of W senders at once, W - 1 transfers pass while the next grant is on its way: two start-ups.
 * What they do not cover is waited for in each of senders / W rounds; the rest of the bytes is
 * what one of each round moves. No slower than a window that slides, and no faster than all at
 * once, whose queues are not costed. */
static void cost_window(struct candidate *candidate, uint32_t senders, uint32_t window)
{
    struct stage *data = &candidate->stage[0];
    struct stage *rest = &candidate->stage[candidate->nstages++];
    uint32_t rounds = (senders + window - 1) / window;
    candidate->window = window;
    *rest = *data;
    rest->alpha_us = 0;
    rest->gap_us = 2 * data->alpha_us * (rounds - 1.0);
    rest->us_per_byte = data->us_per_byte * (window - 1) / window;
    rest->alone_us_per_byte = data->alone_us_per_byte * (window - 1) / window;
    data->us_per_byte /= window;
    data->alone_us_per_byte /= window;
}

/* At most window - 1 messages queue at the port. */
static uint64_t window_bytes(const struct planner *planner, uint32_t window)
{
    int mib = peal_topo_switch_buffer(planner->fabric);
    double room = (mib > 0 ? mib : SWITCH_BUFFER_MIB) * 1048576.0 / SWITCH_PORTS;
    if (window < 2)
        return UINT64_MAX;
    return (uint64_t)(room / ((window - 1.0) * peal_peers_share(planner)));
}

static peal_status add_windows(struct planner *planner, const struct candidate *all,
                               uint32_t senders)
{
    uint32_t asked = planner->request.incast;
    if (!peal_to_root(planner->request.collective) || senders < 2 || asked >= senders)
        return peal_planner_add(planner, all);
    struct candidate candidate = *all;
    candidate.max_bytes = window_bytes(planner, senders);
    if (!asked)
        PEAL_TRY(peal_planner_add(planner, &candidate));
    for (uint32_t window = asked ? asked : 1; window < senders;
         window = asked ? senders : window * 2) {
        candidate = *all;
        candidate.max_bytes = asked ? UINT64_MAX : window_bytes(planner, window);
        cost_window(&candidate, senders, window);
        PEAL_TRY(peal_planner_add(planner, &candidate));
    }
    return PEAL_OK;
}

/* To whole channels a link, over the mean. */
static double rounded_up(uint32_t channels, uint32_t links)
{
    return (double)((channels + links - 1) / links) * links / channels;
}

static peal_status add_channels(struct planner *planner, const struct cost_base *base,
                                uint32_t channels)
{
    const struct group *group = &planner->group;
    const struct plan_collective *collective = peal_plan_collective(planner->request.collective);
    struct candidate candidate = base->candidate;
    struct stage *data = &candidate.stage[0];
    uint64_t chunks = channels;
    for (uint32_t i = 0; i < collective->block_power; i++)
        chunks *= group->n;
    if (chunks > PLAN_CHUNKS_MAX)
        return PEAL_OK;
    candidate.channels = candidate.lanes = channels;
    candidate.chunks = (uint32_t)chunks;
    candidate.hop_share = peal_peers_share(planner) / channels;
    if (collective->reduces && (!group->direct_hosts || group->nhosts > 1))
        candidate.slots = 2ull * (group->n - 1) * channels;
    peal_traffic_stage(&base->traffic, channels, data);
    peal_traffic_net(&base->traffic, &candidate);
    if (base->mesh) /* in each round some links have one channel more than others */
        data->load_us *= rounded_up(channels, group->n - 1);
    /* On one switch some lanes copy the own block while others store. */
    double beside =
        channels > 1 && group->nhosts == 1 && !base->mesh && !base->others ? base->then_share : 0;
    peal_stage_lane(planner, data, (base->lane_share + beside) / channels);
    if (!fused(planner->request.collective) && planner->request.collective != PEAL_GATHER)
        peal_stage_turns(data, peal_peers_share(planner) *
                                   peal_turns_us(planner, &base->turns, channels));
    peal_stage_then(planner, data, (base->then_share - beside) / channels);
    if (planner->request.collective != PEAL_BARRIER)
        candidate.stage[1].alpha_us = shakes_us(planner, base, channels);
    data->gap_us = larger(data->gap_us, late_us(planner, base, channels));
    return add_windows(planner, &candidate, base->senders);
}

/* base NULL: of sendrecv. */
static peal_status add_all(struct planner *planner, struct cost_base *base)
{
    uint32_t asked = planner->request.channels;
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 &&
            (!planner->group.accelerators || planner->request.collective == PEAL_BARRIER))
            break;
        PEAL_TRY(base ? add_channels(planner, base, channels) : cost_sends(planner, channels));
    }
    return PEAL_OK;
}

static int too_many(const struct planner *planner)
{
    peal_collective collective = planner->request.collective;
    int asked = planner->algorithm == ALGO_DIRECT || collective == PEAL_ALLTOALL ||
                collective == PEAL_ALLTOALLV;
    if (peal_to_root(collective) || peal_from_root(collective) || collective == PEAL_BARRIER ||
        collective == PEAL_SENDRECV)
        return 0;
    return planner->group.n > (asked ? PAIRS_RANKS_MAX : PAIRS_RANKS_EASY);
}

peal_status peal_direct_enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    peal_collective collective = planner->request.collective;
    struct cost_base base = {.candidate = {.algo = ALGO_DIRECT, .max_bytes = UINT64_MAX}};
    if (group->n < 2 || too_many(planner))
        return PEAL_OK;
    if (collective == PEAL_SENDRECV)
        return add_all(planner, NULL);
    if (group->n <= PLAN_OPERANDS_MAX)
        base.candidate.order = ORDER_FOLD;
    PEAL_TRY(peal_traffic_init(&base.traffic, planner));
    peal_status status = cost_base(planner, &base);
    if (status == PEAL_OK)
        status = add_all(planner, &base);
    peal_traffic_free(&base.traffic);
    return status;
}
