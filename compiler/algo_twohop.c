/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-to-all in two hops: between two hosts goes one message for each pair of ranks of one rail,
 * with the blocks of all ranks of a host in it. On one host whose accelerators have links to some
 * others only, units of ranks take the place of hosts, so that no block leaves the links. Rank
 * (h, l), local rank l of host h:
 *
 *  - rail first: sends (h', l) its blocks for all ranks of h', which land in slots; and that rank
 *    hands each of its host the blocks that came for it, from all hosts, as one more message.
 *  - inside first: hands (h, l') its blocks for the ranks (h', l') of all hosts h', and that rank,
 *    when it has those of all its host, sends them to (h', l'), into its output or into slots.
 *
 * N - 1 small messages become H - 1 of L blocks and L - 1 of H blocks, for H hosts of L ranks. What
 * lands in slots needs no word that the receiver has entered: the slots of this call are free.
 */
#include "compiler.h"

#include <stdio.h>

enum { SEM_ENTER, SEM_INSIDE, SEM_RAIL, SEM_COUNT };

struct twohop {
    struct build *b;
    uint32_t n, hosts, locals;
    uint32_t host, local; /* of this rank */
    uint32_t channels, channel;
    uint32_t turn; /* by how many this channel is ahead in its rounds */
    enum twohop_order order;
};

/* ---- steps -------------------------------------------------------------------- */

static uint32_t rank_at(const struct twohop *t, uint32_t host, uint32_t local)
{
    return host * t->locals + local;
}

static uint32_t chunk_of(const struct twohop *t, uint32_t from, uint32_t to)
{
    return (from * t->n + to) * t->channels + t->channel;
}

static uint32_t sem(const struct twohop *t, uint32_t which)
{
    return SEM_COUNT * t->channel + which;
}

static uint32_t region(const struct twohop *t, uint32_t which)
{
    return which * t->channels + t->channel;
}

/* The host and the local rank to turn to in round i, and those that then turn to this one. */
static uint32_t peer_of(uint32_t self, uint32_t round, uint32_t count)
{
    return (self + round) % count;
}

/* The round that is the i-th, the own one, `count`, last. */
static uint32_t round_at(const struct twohop *t, uint32_t i, uint32_t count)
{
    return i == count ? count : 1 + (i - 1 + t->turn) % (count - 1);
}

/* One message of `span` blocks, `stride` blocks apart in the message and `jump` in slots; the own
 * rank gets it by a copy and no signal. */
static void send(const struct twohop *t, uint32_t chunk, uint32_t span, uint32_t stride,
                 uint32_t jump, struct plan_operand src, struct plan_operand dst, uint32_t which)
{
    peal_build_span(t->b, span, stride * t->channels);
    peal_build_jump(t->b, jump);
    if (dst.rank == t->b->self)
        peal_build_move(t->b, chunk, 1, &src, 1, &dst, PEAL_ENGINE_SM, 0);
    else
        peal_build_push(t->b, chunk, src, dst, sem(t, which));
}

static void hear(const struct twohop *t, uint32_t rank, uint32_t which)
{
    if (rank != t->b->self)
        peal_build_wait(t->b, rank, sem(t, which), 0);
}

static void tell_inside(const struct twohop *t)
{
    for (uint32_t i = 1; i < t->locals; i++)
        peal_build_signal(t->b, rank_at(t, t->host, peer_of(t->local, i, t->locals)),
                          sem(t, SEM_ENTER));
}

static void hear_inside(const struct twohop *t)
{
    for (uint32_t i = 1; i < t->locals; i++)
        hear(t, rank_at(t, t->host, peer_of(t->local, i, t->locals)), SEM_ENTER);
}

static void enter_rail(const struct twohop *t)
{
    for (uint32_t i = 1; i < t->hosts; i++)
        peal_build_signal(t->b, rank_at(t, peer_of(t->host, i, t->hosts), t->local),
                          sem(t, SEM_ENTER));
    for (uint32_t i = 1; i < t->hosts; i++)
        hear(t, rank_at(t, peer_of(t->host, i, t->hosts), t->local), SEM_ENTER);
}

/* ---- rail first: slot h * L + l holds what (h, this local rank) has for (this host, l) --------
 */

static void rail_first(const struct twohop *t)
{
    uint32_t self = t->b->self;
    peal_build_section(t->b, 1);
    tell_inside(t); /* heard of before anything is sent there: meanwhile blocks go along the rail */
    for (uint32_t i = 1; i <= t->hosts; i++) { /* itself last: the others are under way */
        uint32_t round = round_at(t, i, t->hosts);
        uint32_t to = rank_at(t, peer_of(t->host, round, t->hosts), t->local);
        uint32_t chunk = chunk_of(t, self, rank_at(t, to / t->locals, 0));
        send(t, chunk, t->locals, 1, 1, peal_op_user(self, PLAN_BUF_IN, chunk),
             peal_op_slot(to, PLAN_BUF_SCRATCH, region(t, 0), t->host * t->locals), SEM_RAIL);
    }
    for (uint32_t i = 1; i < t->hosts; i++)
        hear(t, rank_at(t, peer_of(t->host, t->hosts - i, t->hosts), t->local), SEM_RAIL);
    hear_inside(t);
    for (uint32_t i = 1; i <= t->locals; i++) {
        uint32_t to = peer_of(t->local, round_at(t, i, t->locals), t->locals);
        uint32_t chunk = chunk_of(t, rank_at(t, 0, t->local), rank_at(t, t->host, to));
        send(t, chunk, t->hosts, t->locals * t->n, t->locals,
             peal_op_slot(self, PLAN_BUF_SCRATCH, region(t, 0), to),
             peal_op_user(rank_at(t, t->host, to), PLAN_BUF_OUT, chunk), SEM_INSIDE);
    }
    for (uint32_t i = 1; i < t->locals; i++)
        hear(t, rank_at(t, t->host, peer_of(t->local, t->locals - i, t->locals)), SEM_INSIDE);
}

/* ---- inside first: slot h * L + l holds what (this host, l) has for (h, this local rank) ------
 */

static void hand_inside(const struct twohop *t)
{
    uint32_t self = t->b->self;
    for (uint32_t i = 1; i <= t->locals; i++) {
        uint32_t to = peer_of(t->local, round_at(t, i, t->locals), t->locals);
        uint32_t chunk = chunk_of(t, self, rank_at(t, 0, to));
        send(t, chunk, t->hosts, t->locals, t->locals, peal_op_user(self, PLAN_BUF_IN, chunk),
             peal_op_slot(rank_at(t, t->host, to), PLAN_BUF_SCRATCH, region(t, 0), t->local),
             SEM_INSIDE);
    }
    for (uint32_t i = 1; i < t->locals; i++)
        hear(t, rank_at(t, t->host, peer_of(t->local, t->locals - i, t->locals)), SEM_INSIDE);
}

/* The blocks of one host's ranks for this one, from its slots into the output. */
static void take(const struct twohop *t, uint32_t from, uint32_t which)
{
    uint32_t self = t->b->self, chunk = chunk_of(t, rank_at(t, from, 0), self);
    send(t, chunk, t->locals, t->n, 1,
         peal_op_slot(self, PLAN_BUF_SCRATCH, region(t, which), from * t->locals),
         peal_op_user(self, PLAN_BUF_OUT, chunk), SEM_RAIL);
}

static void inside_first(const struct twohop *t)
{
    uint32_t self = t->b->self;
    int slots = t->order == TWOHOP_INSIDE_SLOTS;
    if (!slots)
        enter_rail(t);
    peal_build_section(t->b, 1);
    hand_inside(t);
    for (uint32_t i = 1; i < t->hosts; i++) {
        uint32_t host = peer_of(t->host, round_at(t, i, t->hosts), t->hosts);
        uint32_t to = rank_at(t, host, t->local);
        uint32_t chunk = chunk_of(t, rank_at(t, t->host, 0), to);
        send(t, chunk, t->locals, t->n, 1,
             peal_op_slot(self, PLAN_BUF_SCRATCH, region(t, 0), host * t->locals),
             slots ? peal_op_slot(to, PLAN_BUF_SCRATCH, region(t, 1), t->host * t->locals)
                   : peal_op_user(to, PLAN_BUF_OUT, chunk),
             SEM_RAIL);
    }
    take(t, t->host, 0);
    for (uint32_t i = 1; i < t->hosts; i++) {
        uint32_t host = peer_of(t->host, t->hosts - i, t->hosts);
        hear(t, rank_at(t, host, t->local), SEM_RAIL);
        if (slots)
            take(t, host, 1);
    }
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    const struct group *group = &b->planner->group;
    uint32_t n = group->n;
    struct twohop t = {.b = b,
                       .n = n,
                       .hosts = n / candidate->unit,
                       .locals = candidate->unit,
                       .host = rank / candidate->unit,
                       .local = rank % candidate->unit,
                       .channels = candidate->channels,
                       .order = candidate->twohop};
    b->in_flight = BURST_EVENTS;
    for (; t.channel < t.channels; t.channel++) {
        /* Links of their own to each rank: channels begin with different ones. */
        t.turn = group->nhosts == 1 ? t.channel : 0;
        peal_build_lane(b);
        if (t.order == TWOHOP_RAIL)
            rail_first(&t);
        else
            inside_first(&t);
        peal_build_drain(b);
    }
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    uint32_t regions = candidate->twohop == TWOHOP_INSIDE_SLOTS ? 2 : 1;
    b->plan->nsems = (uint16_t)(SEM_COUNT * candidate->channels);
    for (uint32_t i = 0; i < regions * candidate->channels; i++)
        peal_build_region(b, PLAN_BUF_SCRATCH, b->plan->nranks, 1, peal_build_slot_bytes(b));
}

/* ---- cost ------------------------------------------------------------------------ */

/* A round of messages of every rank to its peers of the rail, or of its host: loads them all, which
 * is the same for any number of lanes. */
static void load_round(struct planner *planner, uint32_t locals, int rail, struct traffic *traffic,
                       struct stage *stage, struct turns *most, int *apart)
{
    const struct group *group = &planner->group;
    uint32_t hosts = group->n / locals;
    double share = (double)(rail ? locals : hosts) / group->n;
    for (uint32_t r = 0; r < group->n; r++) {
        struct turns turns = {.us = 0};
        for (uint32_t i = 1; i < (rail ? hosts : locals); i++) {
            struct hop hop;
            uint32_t to = rail ? (r + i * locals) % group->n
                               : r / locals * locals + peer_of(r % locals, i, locals);
            peal_planner_hop(planner, r, to, &hop);
            peal_stage_hop(stage, &hop);
            peal_planner_load(planner, &hop, share, hop.scale);
            peal_traffic_add(traffic, r, &hop, 1, share);
            peal_turns_add(&turns, &hop);
            *apart &= hop.path.link_class <= PEAL_LINK_XGMI;
        }
        peal_turns_keep(most, &turns);
    }
}

/* An order's candidates have much in common: the rounds, in their order. */
struct rounds {
    struct candidate candidate;
    struct traffic traffic[2];
    struct turns turns[2]; /* of the rank whose stores take longest */
    uint32_t ranks;
    int apart; /* 1: the second round has links of its own, between accelerators */
    int rail[2];
    double lane_share[2]; /* a lane writes what it hands on, and copies what stays */
};

static peal_status load_rounds(struct planner *planner, uint32_t unit, enum twohop_order order,
                               struct rounds *all)
{
    struct stage last = {.levels = 1, .chain = 1};
    *all = (struct rounds){
        .ranks = planner->group.n,
        .candidate = {.algo = ALGO_TWOHOP, .max_bytes = UINT64_MAX, .unit = unit, .twohop = order}};
    for (int i = 0; i < 2; i++) {
        struct stage stage = {.levels = 1, .chain = 1};
        all->rail[i] = (order == TWOHOP_RAIL) == (i == 0);
        all->lane_share[i] = all->rail[i] ? (double)unit / planner->group.n : 1;
        PEAL_TRY(peal_traffic_init(&all->traffic[i], planner));
        all->apart = 1;
        load_round(planner, unit, all->rail[i], &all->traffic[i], &stage, &all->turns[i],
                   &all->apart);
        peal_candidate_stage(planner, &all->candidate, &stage, 0);
    }
    if (order != TWOHOP_RAIL)
        peal_candidate_stage(planner, &all->candidate, &last, 0);
    peal_candidate_total(planner, &all->candidate);
    return PEAL_OK;
}

/* A lane that stores to one rank after the other copies what stays besides. */
static void set_turns(const struct planner *planner, const struct rounds *all, int i,
                      struct candidate *candidate)
{
    double n = planner->group.n, share = (all->rail[i] ? candidate->unit : n / candidate->unit) / n;
    double copy_us = share / candidate->channels / (peal_planner_lane_gbs(planner) * 1e3);
    if (all->turns[i].stores)
        peal_stage_turns(&candidate->stage[i],
                         share * peal_turns_us(planner, &all->turns[i], candidate->channels) +
                             copy_us);
}

/* Lanes take turns with who they begin with. Where some peers of the first round are reached by
 * another engine, which takes longest, only lanes that turn to these last come to the second round
 * together; the others have been there meanwhile, over links that this engine does not take. */
static void set_groups(const struct rounds *all, struct candidate *candidate)
{
    uint32_t peers = (all->rail[0] ? all->ranks / candidate->unit : candidate->unit) - 1;
    const struct turns *turns = &all->turns[0];
    struct stage *first = &candidate->stage[0], *second = &candidate->stage[1];
    if (candidate->twohop != TWOHOP_RAIL || !all->apart || !turns->stores ||
        turns->stores >= peers || first->us_per_byte > first->load_us)
        return;
    uint32_t last = (candidate->channels * (peers - turns->stores) + peers - 1) / peers;
    double together = (double)last / candidate->channels;
    second->us_per_byte *= together;
    second->alone_us_per_byte *= together;
}

static peal_status cost_channels(struct planner *planner, const struct rounds *all,
                                 uint32_t channels)
{
    const struct group *group = &planner->group;
    struct candidate candidate = all->candidate;
    enum twohop_order order = candidate.twohop;
    uint64_t chunks = (uint64_t)group->n * group->n * channels;
    uint32_t regions = order == TWOHOP_INSIDE_SLOTS ? 2 : 1;
    if (chunks > PLAN_CHUNKS_MAX)
        return PEAL_OK;
    candidate.channels = candidate.lanes = channels;
    candidate.hop_share = (double)candidate.unit / group->n / channels;
    candidate.chunks = (uint32_t)chunks;
    candidate.slots = 2ull * regions * group->n * channels;
    for (int i = 0; i < 2; i++) {
        peal_traffic_stage(&all->traffic[i], channels, &candidate.stage[i]);
        if (all->rail[i])
            peal_traffic_net(&all->traffic[i], &candidate);
        peal_stage_lane(planner, &candidate.stage[i], all->lane_share[i] / channels);
        if (group->nhosts == 1)
            set_turns(planner, all, i, &candidate);
    }
    if (group->nhosts == 1)
        set_groups(all, &candidate);
    struct stage *last = &candidate.stage[2];
    if (order == TWOHOP_INSIDE_OUT) { /* receivers say that they have entered */
        last->alpha_us = candidate.stage[1].alpha_us;
        last->gap_us = candidate.stage[1].gap_us;
    }
    if (order == TWOHOP_INSIDE_SLOTS)
        peal_stage_lane(planner, last, 1.0 / channels);
    return peal_planner_add(planner, &candidate);
}

static peal_status cost_orders(struct planner *planner, uint32_t unit,
                               struct rounds all[TWOHOP_ORDERS])
{
    uint32_t asked = planner->request.channels;
    for (uint32_t order = 0; order < TWOHOP_ORDERS; order++)
        PEAL_TRY(load_rounds(planner, unit, (enum twohop_order)order, &all[order]));
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 && !planner->group.accelerators)
            break;
        for (uint32_t order = 0; order < TWOHOP_ORDERS; order++)
            PEAL_TRY(cost_channels(planner, &all[order], channels));
    }
    return PEAL_OK;
}

static peal_status cost_unit(struct planner *planner, uint32_t unit)
{
    struct rounds all[TWOHOP_ORDERS] = {0};
    peal_status status = cost_orders(planner, unit, all);
    for (uint32_t order = 0; order < TWOHOP_ORDERS; order++)
        for (int i = 0; i < 2; i++)
            if (all[order].traffic[i].ctx)
                peal_traffic_free(&all[order].traffic[i]);
    return status;
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    if ((uint64_t)group->n * group->n > PLAN_CHUNKS_MAX || group->local_min != group->local_max)
        return PEAL_OK;
    if (group->nhosts > 1)
        return group->local_min > 1 ? cost_unit(planner, group->local_min) : PEAL_OK;
    for (uint32_t unit = 2; unit <= group->n / 2 && peal_group_mixed(group); unit++)
        if (group->n % unit == 0)
            PEAL_TRY(cost_unit(planner, unit));
    return PEAL_OK;
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    static const char *const orders[TWOHOP_ORDERS] = {
        [TWOHOP_RAIL] = "along the rail, then inside",
        [TWOHOP_INSIDE_OUT] = "inside, then along the rail",
        [TWOHOP_INSIDE_SLOTS] = "inside, then along the rail into slots",
    };
    snprintf(text, size, "units of %u, %s, %u lane%s", candidate->unit, orders[candidate->twohop],
             candidate->channels, candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_twohop = {"twohop", 1u << PEAL_ALLTOALL, enumerate, prepare, emit,
                                      detail};
