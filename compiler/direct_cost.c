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

/* ---- sendrecv -------------------------------------------------------------------- */

/* A barrier's rounds, of which the farthest hop counts. */
static void note_rounds(const struct planner *planner, struct stage *stage)
{
    for (uint32_t far = 1; far < planner->group.n; far *= 2)
        for (uint32_t r = 0; r < planner->group.n; r++) {
            struct hop hop;
            peal_planner_hop(planner, r, (r + far) % planner->group.n, &hop);
            peal_stage_hop(stage, &hop);
        }
}

static uint32_t barrier_rounds(uint32_t ranks)
{
    uint32_t rounds = 0;
    while (1u << rounds < ranks)
        rounds++;
    return rounds;
}

/* Each pair's block, all at once. Gives the most blocks that one rank sends. */
static uint32_t load_sends(struct planner *planner, uint32_t *sent, struct stage *data)
{
    uint32_t most = 0, from, to;
    for (uint32_t i = 0; peal_planner_pair(planner, i, &from, &to); i++) {
        struct hop hop;
        sent[from]++;
        most = sent[from] > most ? sent[from] : most;
        if (from == to)
            continue;
        peal_planner_hop(planner, from, to, &hop);
        peal_stage_hop(data, &hop);
        peal_planner_load(planner, &hop, 1, hop.scale);
    }
    return most;
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
    struct stage shake = {.levels = barrier_rounds(n), .chain = 1};
    uint32_t *sent = peal_calloc(planner->ctx, n, sizeof *sent);
    if (!sent)
        return PEAL_ERR_MEMORY;
    uint32_t most = load_sends(planner, sent, &data);
    peal_free(planner->ctx, sent, n * sizeof *sent);
    note_rounds(planner, &shake);
    shake.gap_us = 0;
    data.gap_us *= most * channels - 1.0;
    if (planner->npairs)
        candidate.chunks *= planner->npairs;
    peal_candidate_stage(planner, &candidate, &data, (double)most / channels);
    peal_candidate_stage(planner, &candidate, &shake, 0);
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

/* ---- all others ------------------------------------------------------------------- */

/* What is common to the candidates of a request. */
struct cost_base {
    struct candidate candidate; /* one lane, no window */
    double lane_share;          /* of the message, that the busiest rank moves */
    uint32_t shakes;            /* start-ups besides the one of the data */
    uint32_t senders;           /* ranks of other hosts that send to a root */
    struct traffic traffic;
};

static int to_root(peal_collective collective)
{
    return collective == PEAL_REDUCE || collective == PEAL_GATHER;
}

static int from_root(peal_collective collective)
{
    return collective == PEAL_BROADCAST || collective == PEAL_SCATTER;
}

/* The share of the message that goes from one rank to another. */
static double share_between(const struct planner *planner)
{
    switch (planner->request.collective) {
    case PEAL_BROADCAST:
    case PEAL_REDUCE:
        return 1;
    case PEAL_BARRIER:
        return 0;
    default: /* the message of an alltoall is one rank's N blocks */
        return 1.0 / planner->group.n;
    }
}

static void load_pair(struct planner *planner, struct cost_base *base, struct stage *data,
                      uint32_t from, uint32_t to)
{
    struct hop hop;
    peal_planner_hop(planner, from, to, &hop);
    peal_stage_hop(data, &hop);
    peal_planner_load(planner, &hop, share_between(planner), hop.scale);
    peal_traffic_add(&base->traffic, from, to, &hop, 1, share_between(planner));
    base->senders += peal_group_host(&planner->group, from) != peal_group_host(&planner->group, to);
}

static void load_pairs(struct planner *planner, struct cost_base *base, struct stage *data)
{
    peal_collective collective = planner->request.collective;
    uint32_t n = planner->group.n, root = planner->request.root;
    int in = to_root(collective), out = from_root(collective);
    for (uint32_t r = out ? root : 0; r < (out ? root + 1 : n); r++)
        for (uint32_t to = in ? root : 0; to < (in ? root + 1 : n); to++)
            if (to != r)
                load_pair(planner, base, data, r, to);
    base->lane_share = share_between(planner) * (in ? 1 : n - 1.0);
    if (collective == PEAL_REDUCE) /* the root reads n contributions and writes one */
        base->lane_share = (n + 1) / 2.0;
}

static uint32_t handshakes(const struct planner *planner)
{
    switch (planner->request.collective) {
    case PEAL_REDUCE_SCATTER:
    case PEAL_REDUCE:
    case PEAL_GATHER:
        return 2;
    case PEAL_BARRIER:
        return barrier_rounds(planner->group.n) - 1;
    default:
        return 1;
    }
}

static void cost_base(struct planner *planner, struct cost_base *base)
{
    struct candidate *candidate = &base->candidate;
    struct stage data = {.levels = 1, .chain = 1}, shake = {.chain = 1};
    if (planner->request.collective == PEAL_BARRIER)
        note_rounds(planner, &data);
    else
        load_pairs(planner, base, &data);
    shake.levels = handshakes(planner);
    shake.alpha_us = data.alpha_us;
    data.gap_us = 0;
    /* Messages to all follow each other; a round of a barrier has one. */
    shake.gap_us = peal_traffic_gap(&base->traffic, 1);
    peal_candidate_stage(planner, candidate, &data, 0);
    peal_candidate_stage(planner, candidate, &shake, 0);
    peal_candidate_total(planner, candidate);
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
    return (uint64_t)(room / ((window - 1.0) * share_between(planner)));
}

static peal_status add_windows(struct planner *planner, const struct candidate *all,
                               uint32_t senders)
{
    uint32_t asked = planner->request.incast;
    if (!to_root(planner->request.collective) || senders < 2 || asked >= senders)
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
    candidate.hop_share = share_between(planner) / channels;
    if (collective->reduces && (!group->direct_hosts || group->nhosts > 1))
        candidate.slots = 2ull * (group->n - 1) * channels;
    peal_traffic_stage(&base->traffic, channels, data);
    peal_traffic_net(&base->traffic, &candidate);
    peal_stage_lane(planner, data, base->lane_share / channels);
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
    if (to_root(collective) || from_root(collective) || collective == PEAL_BARRIER ||
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
    cost_base(planner, &base);
    peal_status status = add_all(planner, &base);
    peal_traffic_free(&base.traffic);
    return status;
}
