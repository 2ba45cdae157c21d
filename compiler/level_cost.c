/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the phases of a hierarchical schedule cost. Each phase is a stage, or one for each depth of
 * a tree: its start-ups, what it loads, and what its lane reads and writes.
 *
 * Where pieces are handed on one by one (candidate->cells of them in a tile), a stage is that of
 * one piece, and the start-ups of a ring's steps are spread over the pieces that take them.
 */
#include "level.h"

#include <string.h>

struct costing {
    struct planner *planner;
    const struct level_layout *layout;
    struct candidate *candidate;
    const struct level_phase *phase;
    int first; /* the phase that reads the input */
    int dealt; /* 1: what the root spreads of its own shard has been counted where it deals */
    int lone;  /* 1: a unit has one holder, the only root of its peers' tree or chain */
    int fine;
    int alike; /* one host's load between hosts is that of all */
    struct level_peers peers;
    struct stage stage;
    uint64_t away;   /* stages of the present phase, bit 1 << stage: another engine carries a hop */
    int direct;      /* all hops of the stage are loads and stores */
    double reach_us; /* the longest start-up, and the largest gap, of those that are */
    double reach_gap_us;
    double share;  /* of the message: one root's piece, in a trip */
    double way_us; /* the longest way to or from any of many roots of a host, start-ups alone */
    double hop_us; /* the longest start-up of the phase's hops, and the largest gap */
    double hop_gap_us;
    double link_us;   /* a byte over the narrowest of them, alone */
    uint64_t pushed;  /* bit i: other engines move what stage i does */
    uint32_t queued;  /* of them, that a rank has for another engine, in a direct exchange */
    double loaded_us; /* owners of inputs that are loaded, beside others that are sent, enter, or
                         are told that they may leave */
    double told_us;   /* of a single root's phase: the gaps in which children are told */
    double *at;       /* for each rank: start-ups on the way to it, along a tree with one root */
    uint32_t placed;  /* a peer, which has this place in the present tree; NO_RANK */
    struct level_place place;
};

/* Hosts that look like the first carry the same load, as long as no uplink counts them. */
static int like_first(const struct costing *c, uint32_t rank)
{
    const struct group *group = &c->planner->group;
    uint32_t host = peal_group_host(group, rank);
    return host > 0 && peal_group_hosts_alike(group, 0, host);
}

/* All hosts are like the first, and nothing counts them together: what one sends between hosts, and
 * takes in as much, is what all do. */
static int all_alike(const struct group *group)
{
    for (uint32_t h = 1; h < group->nhosts; h++)
        if (!peal_group_hosts_alike(group, 0, h))
            return 0;
    return peal_topo_rank_unit(group->fabric, peal_group_rank(group, group->n - 1),
                               TOPO_UNIT_POD) ==
           peal_topo_rank_unit(group->fabric, peal_group_rank(group, 0), TOPO_UNIT_POD);
}

/* A rank's own number among its peers, of which it is one, and the rank of another one. */
static uint32_t own_number(const struct costing *c, uint32_t rank, uint32_t level)
{
    return level == 0 ? c->layout->index_of[rank]
                      : peal_level_coordinate(c->layout, c->layout->unit_of[rank], level);
}

static uint32_t peer_rank(const struct costing *c, uint32_t rank, uint32_t level, uint32_t peer)
{
    const struct level_layout *layout = c->layout;
    uint32_t stride = layout->stride[level];
    if (level == 0)
        return layout->member[layout->first[layout->unit_of[rank]] + peer];
    uint32_t zero = layout->unit_of[rank] - own_number(c, rank, level) * stride;
    return layout->holder[(zero + peer * stride) * layout->shards + layout->shard_of[rank]];
}

static void add_hop(struct costing *c, uint32_t self, uint32_t peer, double share)
{
    struct hop hop;
    if (share <= 0)
        return;
    peal_planner_hop(c->planner, self, peer, &hop);
    peal_stage_hop(&c->stage, &hop);
    c->hop_us = hop.alpha_us > c->hop_us ? hop.alpha_us : c->hop_us;
    c->hop_gap_us = hop.gap_us > c->hop_gap_us ? hop.gap_us : c->hop_gap_us;
    double link_us = peal_load_alone(&hop.path, hop.scale);
    c->link_us = link_us > c->link_us ? link_us : c->link_us;
    c->direct = c->direct && hop.path.direct;
    if (!peal_plan_engine_async(hop.engine)) {
        c->reach_us = hop.alpha_us > c->reach_us ? hop.alpha_us : c->reach_us;
        c->reach_gap_us = hop.gap_us > c->reach_gap_us ? hop.gap_us : c->reach_gap_us;
    }
    peal_planner_load(c->planner, &hop, share, hop.scale);
}

/* ---- what one peer sends ---------------------------------------------------------------- */

static uint32_t roots(const struct costing *c)
{
    return peal_level_roots(c->layout, c->phase->level, &c->phase->way);
}

static int is_root(const struct costing *c, uint32_t peer)
{
    return c->phase->way.single ? peer == c->phase->root : c->peers.shard[peer] != NO_RANK;
}

/* In the unit of a root that has deputies: each does its part of what the root's shard takes. */
static void add_deputed(struct costing *c, double share)
{
    const struct level_layout *layout = c->layout;
    uint32_t root = c->planner->request.root, self = c->peers.rank[c->peers.self];
    int folds = c->phase->kind == LEVEL_FOLD;
    double part = share / (layout->shards - 1);
    for (uint32_t i = 0; i < c->peers.n; i++) {
        uint32_t peer = c->peers.rank[i];
        if (peer == self)
            continue;
        if (folds && is_root(c, i))
            add_hop(c, self, peer,
                    peer == root ? is_root(c, c->peers.self) ? part : 0 : share + part);
        if (!folds && is_root(c, c->peers.self) && self != root)
            add_hop(c, self, peer, peer == root ? share : share + part);
    }
}

static void add_direct(struct costing *c, double share)
{
    uint32_t self = c->peers.self, queued = 0;
    if (c->dealt && c->peers.rank[self] == c->planner->request.root)
        return;
    for (uint32_t i = 0; i < c->peers.n; i++) {
        int sends = c->phase->kind == LEVEL_FOLD ? is_root(c, i) : is_root(c, self);
        struct hop hop;
        if (i == self || !sends)
            continue;
        add_hop(c, c->peers.rank[self], c->peers.rank[i], share);
        peal_planner_hop(c->planner, c->peers.rank[self], c->peers.rank[i], &hop);
        queued += peal_plan_engine_async(hop.engine) != 0;
    }
    c->queued = queued > c->queued ? queued : c->queued;
}

static void add_ring(struct costing *c, double share)
{
    uint32_t n = c->peers.n, self = c->peers.self;
    int folds = c->phase->kind == LEVEL_FOLD;
    uint32_t to = (self + (folds ? n - 1 : 1)) % n;
    double pieces = roots(c) - (is_root(c, folds ? self : to) ? 1.0 : 0.0);
    if (n > 1)
        add_hop(c, c->peers.rank[self], c->peers.rank[to], pieces * share);
}

/* From a peer up to a root, or down: inside a host, whose trees are small. */
static void pass_way(struct costing *c, uint32_t root)
{
    int folds = c->phase->kind == LEVEL_FOLD;
    uint32_t at = c->peers.self;
    double sum = 0;
    for (;;) {
        struct level_place place = peal_level_place(&c->phase->way, root, at);
        struct hop hop;
        if (place.parent == NO_RANK)
            break;
        uint32_t low = c->peers.rank[at], high = c->peers.rank[place.parent];
        peal_planner_hop(c->planner, folds ? low : high, folds ? high : low, &hop);
        sum += hop.alpha_us;
        at = place.parent;
    }
    c->way_us = sum > c->way_us ? sum : c->way_us;
}

static void add_trees(struct costing *c, double share)
{
    const struct level_way *way = &c->phase->way;
    for (uint32_t root = 0; root < c->peers.n; root++) {
        if (!is_root(c, root))
            continue;
        struct level_place place = peal_level_place(way, root, c->peers.self);
        if (c->phase->level == 0)
            pass_way(c, root);
        if (c->phase->kind == LEVEL_FOLD && place.parent != NO_RANK)
            c->peers.sent[place.parent]++;
        for (uint32_t i = 0; c->phase->kind != LEVEL_FOLD && i < place.kids; i++)
            c->peers.sent[place.kid[i]]++;
    }
    for (uint32_t i = 0; i < c->peers.n; i++)
        add_hop(c, c->peers.rank[c->peers.self], c->peers.rank[i], c->peers.sent[i] * share);
}

/* The root of the tree that has the rank. */
static uint32_t root_of(const struct costing *c, uint32_t rank)
{
    const struct level_layout *layout = c->layout;
    return c->lone ? layout->index_of[layout->holder[layout->unit_of[rank] * layout->shards]]
                   : c->phase->root;
}

/* Of a tree with one holder: gaps of what a rank sends to other kids of its, by the same engine,
 * before it turns to this one. */
static double earlier_us(struct costing *c, uint32_t from, uint32_t to, const struct hop *to_hop)
{
    struct level_place place =
        peal_level_place(&c->phase->way, root_of(c, from), own_number(c, from, 0));
    double us = 0;
    for (uint32_t i = 0; c->phase->kind != LEVEL_FOLD && i < place.kids; i++) {
        struct hop hop;
        uint32_t kid = peer_rank(c, from, 0, place.kid[i]);
        if (kid == to)
            break;
        peal_planner_hop(c->planner, from, kid, &hop);
        us += hop.engine == to_hop->engine ? hop.gap_us : 0;
    }
    return us;
}

/* Depths are taken in the order in which tiles pass them. */
static void pass_edge(struct costing *c, uint32_t from, uint32_t to)
{
    struct hop hop;
    peal_planner_hop(c->planner, from, to, &hop);
    double us = hop.alpha_us + (c->lone ? earlier_us(c, from, to, &hop) : 0);
    if (c->at[from] + us > c->at[to])
        c->at[to] = c->at[from] + us;
}

/* Of a peer in a tree of the typical unit, whose root is `root`. */
static uint32_t depth_of(const struct costing *c, uint32_t root, uint32_t peer)
{
    uint32_t depth = 0;
    if (!c->lone)
        return peal_level_place(&c->phase->way, root, peer).depth;
    for (uint32_t at = peer; at != root; depth++)
        at = peal_level_place(&c->phase->way, root, at).parent;
    return depth;
}

/* Along one edge of a tree with a single root, at the given depth. */
static void add_edge(struct costing *c, uint32_t rank, double share, uint32_t depth)
{
    uint32_t level = c->phase->level, number = own_number(c, rank, level);
    if (number != c->placed || c->lone) {
        c->place = peal_level_place(&c->phase->way, root_of(c, rank), number);
        c->placed = number;
    }
    if (c->place.parent == NO_RANK ||
        (c->lone ? depth_of(c, root_of(c, rank), number) : c->place.depth) != depth)
        return;
    uint32_t parent = peer_rank(c, rank, level, c->place.parent);
    int folds = c->phase->kind == LEVEL_FOLD;
    pass_edge(c, folds ? rank : parent, folds ? parent : rank);
    add_hop(c, folds ? rank : parent, folds ? parent : rank, share);
}

/* ---- everyone who takes part --------------------------------------------------------------- */

/* A rooted phase below the top begins in one unit of the level above. */
static int takes_part(const struct costing *c, uint32_t unit)
{
    const struct level_layout *layout = c->layout;
    uint32_t home = layout->unit_of[c->planner->request.root];
    if (!c->phase->way.fed)
        return 1;
    for (uint32_t k = 1; k < c->phase->level; k++)
        if (peal_level_coordinate(layout, unit, k) != peal_level_coordinate(layout, home, k))
            return 0;
    return 1;
}

/* share: of one root's piece. depth: of a single root's edges. */
static void load_phase(struct costing *c, double share, uint32_t depth)
{
    const struct level_layout *layout = c->layout;
    uint32_t level = c->phase->level;
    int single = c->phase->way.single || c->lone;
    int sample = layout->inside[level] || (c->alike && !single);
    c->placed = NO_RANK;
    for (uint32_t i = 0; i < (level ? layout->units * layout->shards : layout->ranks); i++) {
        uint32_t rank = level ? layout->holder[i] : layout->member[i];
        int home = layout->unit_of[rank] == layout->unit_of[c->planner->request.root];
        if (!takes_part(c, layout->unit_of[rank]) || (sample && !home && like_first(c, rank)))
            continue;
        if (single) {
            add_edge(c, rank, share, depth);
            continue;
        }
        peal_level_peers(&c->peers, layout, level, rank);
        if (level == 0 && home && peal_level_deputed(layout, c->planner))
            add_deputed(c, share);
        else if (c->phase->way.part == PART_DIRECT)
            add_direct(c, share);
        else if (c->phase->way.part == PART_RING)
            add_ring(c, share);
        else
            add_trees(c, share);
    }
}

static void begin(struct costing *c, uint32_t lane)
{
    c->stage = (struct stage){.levels = 1, .lane = lane};
    c->direct = 1;
    c->reach_us = c->reach_gap_us = 0;
}

static void end(struct costing *c, double lane_share)
{
    peal_candidate_stage(c->planner, c->candidate, &c->stage, lane_share / c->candidate->channels);
}

static void apart(struct costing *c, uint32_t levels, double alpha_us)
{
    struct stage stage = {.levels = levels, .chain = 1, .lane = LANE_APART, .alpha_us = alpha_us};
    if (levels && c->candidate->nstages < STAGES_MAX)
        peal_candidate_stage(c->planner, c->candidate, &stage, 0);
}

/* ---- phases ------------------------------------------------------------------------------------
 */

/* Gaps that follow each other on one NIC or issuer: of all channels, or, in a piece, of its one
 * message. */
static double gaps(const struct costing *c, double messages)
{
    double channels = c->candidate->channels;
    if (c->fine)
        return channels;
    if (c->phase->level == 0 && c->queued)
        messages = c->queued;
    return c->phase->level || c->queued ? messages * channels - 1 : messages - 1;
}

/*
 * Where pieces are handed on one by one, a lane waits once a round for what its peers send,
 * whatever it has under way itself, or, loading inputs, in each piece: between two pieces counts
 * that share of a start-up, and what the lane sends and folds.
 */
static void add_turn(struct costing *c, uint32_t lane, double alpha_us, double fold_us, int loads)
{
    struct candidate *candidate = c->candidate;
    struct stage turn = {.lane = lane, .depth = 1};
    const struct stage *stage = &candidate->stage[candidate->nstages - 1];
    double rounds = peal_level_rounds(c->layout, c->phase->level);
    if (!c->fine || candidate->nstages >= STAGES_MAX - 6)
        return;
    turn.waits = loads ? candidate->cells : rounds;
    turn.alpha_us = alpha_us / 2 * turn.waits / candidate->cells;
    turn.us_per_byte = stage->us_per_byte + fold_us;
    turn.alone_us_per_byte = stage->alone_us_per_byte + fold_us;
    turn.load_us = stage->load_us;
    turn.resource = stage->resource;
    candidate->stage[candidate->nstages++] = turn;
}

/* With more peers to send to than transfers may be under way, the next ones wait for the first to
 * be there: start-ups besides one. */
static double again_us(const struct costing *c, uint32_t peers, uint32_t events)
{
    return peers ? (peers - 1) / events * c->stage.alpha_us : 0;
}

static void cost_direct(struct costing *c, uint32_t *lane_at)
{
    uint32_t lane = *lane_at;
    uint32_t n = c->phase->way.n;
    int folds = c->phase->kind == LEVEL_FOLD;
    begin(c, lane);
    c->stage.chain = !c->fine;
    load_phase(c, c->share, 0);
    int loads = folds && c->first && c->direct && !c->phase->level;
    /* One store to all, or the entry that all wait for, is told of one by one. */
    uint32_t tells = !folds || roots(c) == n ? n - 1 : roots(c);
    double told_us = c->direct && (!folds || loads) ? (tells - 1) * c->stage.gap_us : 0;
    c->stage.gap_us *= told_us > 0 || loads ? 0 : gaps(c, n - 1.0);
    c->stage.depth = c->direct ? LEVEL_WINDOW : BURST_EVENTS;
    if (!c->direct &&
        c->phase->level) /* what has come from the phase before leaves by few events */
        told_us = again_us(c, n - 1,
                           folds && !c->layout->whole && !c->first ? BUILD_EVENTS : BURST_EVENTS);
    /* A fold of inputs waits for their owners to enter, once, then for its loads to return. */
    double enter_us = loads ? c->stage.alpha_us + told_us : 0;
    c->stage.alpha_us += loads ? 0 : told_us;
    if (c->fine)
        c->stage.alpha_us += enter_us;
    double moved = c->direct || !c->phase->level ? (n - 1) * c->share : 0;
    double alpha_us = c->hop_us;
    /* One pass over all inputs; one over the result, which is stored to all, and from the input to
     * the own output too. */
    if (loads)
        moved = (n + 1) / 2.0 * c->share;
    else if (c->direct && !folds)
        moved = (n + (c->first ? 1 : 0)) / 2.0 * c->share;
    if (loads && c->layout->runs > 1 && peal_level_deputed(c->layout, c->planner)) {
        moved *= 2; /* a deputy folds the root's pieces, too */
        alpha_us *= 2;
    }
    end(c, moved);
    /* Slots of all others, and the own part, into one, when the last has come. */
    if (loads && !c->fine)
        apart(c, 1, enter_us);
    if (folds && c->first && !c->phase->level && !c->direct && c->reach_us > 0 && !c->fine) {
        /* Some inputs are loaded: their owners enter before anything is sent, and what has been
         * sent is folded with loads, there and back. */
        uint32_t loaded = n - 1 > c->queued ? n - 1 - c->queued : 1;
        c->loaded_us = c->reach_us + (loaded - 1) * c->reach_gap_us;
        apart(c, 1, c->loaded_us + c->reach_us);
    }
    double lane_us = (n + 1) / 2.0 * c->share / c->candidate->channels /
                     (peal_planner_lane_gbs(c->planner) * 1e3);
    add_turn(c, ++*lane_at, alpha_us, folds && !loads ? lane_us : 0, loads);
    if (!folds || (c->first && c->direct))
        return;
    struct stage fold = {.levels = 1, .chain = 1, .lane = c->fine ? LANE_APART : lane};
    if (c->candidate->nstages == STAGES_MAX)
        return;
    peal_candidate_stage(c->planner, c->candidate, &fold, 0);
    struct stage *added = &c->candidate->stage[c->candidate->nstages - 1];
    added->us_per_byte = lane_us * (c->fine ? c->candidate->cells : 1);
    added->lane_bound = 1;
}

/* However few roots there are, a piece takes each step by itself. */
static void one_piece(struct costing *c)
{
    struct stage *stage = &c->candidate->stage[c->candidate->nstages - 1];
    double us = c->fine ? 0 : c->share * c->link_us;
    stage->us_per_byte = us > stage->us_per_byte ? us : stage->us_per_byte;
    stage->alone_us_per_byte = us > stage->alone_us_per_byte ? us : stage->alone_us_per_byte;
}

/* As on a ring of all ranks: steps over hops that differ even out, as long as the narrowest is idle
 * at times. A step takes the mean start-up and transfer, or what the narrowest needs. Results,
 * which are handed on without a fold, follow each other into the narrowest, and it sets their pace.
 */
static void even_out(struct costing *c, uint32_t rank)
{
    double alpha_us = 0, load_us = 0;
    peal_level_peers(&c->peers, c->layout, 0, rank);
    uint32_t n = c->peers.n;
    int folds = c->phase->kind == LEVEL_FOLD;
    for (uint32_t i = 0; i < n; i++) {
        struct hop hop;
        peal_planner_hop(c->planner, c->peers.rank[i], c->peers.rank[(i + (folds ? n - 1 : 1)) % n],
                         &hop);
        alpha_us += hop.alpha_us / n;
        load_us += peal_load_of(&c->planner->load, &hop.path, 0) / n;
    }
    c->stage.alpha_us = alpha_us < c->stage.alpha_us ? alpha_us : c->stage.alpha_us;
    if (load_us < c->planner->load.worst)
        c->stage.slack_us_per_byte = c->planner->load.worst - load_us;
}

static void cost_ring(struct costing *c, uint32_t lane)
{
    uint32_t steps = c->phase->way.n - 1;
    int folds = c->phase->kind == LEVEL_FOLD;
    begin(c, lane);
    c->stage.chain = 1;
    c->stage.levels = c->fine ? 1 : steps;
    double share = c->share / (c->fine ? 1 : steps);
    load_phase(c, share, 0);
    c->stage.gap_us *= c->candidate->channels - 1.0;
    if (folds && !c->fine && !c->phase->level)
        even_out(c, c->layout->holder[0]);
    if (c->fine) /* the steps of all rounds, spread over the pieces that take them */
        c->stage.alpha_us *=
            (double)steps * peal_level_rounds(c->layout, c->phase->level) / c->candidate->cells;
    /* Two sources and a destination in a fold, of which loads and stores also send; else one. */
    int behind = folds && !c->direct && c->phase->level == 0; /* as in rings: gamma */
    double lanes = folds ? (c->direct ? 1.5 : behind ? 0 : 0.75) : (c->direct ? 1 : 0);
    double pieces = c->fine ? steps : 1;
    end(c, lanes * c->share * pieces);
    one_piece(c);
    if (behind)
        peal_stage_fold_beside(c->planner, &c->candidate->stage[c->candidate->nstages - 1],
                               c->candidate->channels,
                               1.5 * c->share * pieces / c->candidate->channels, 2 * c->share);
}

/* In a trip a lane sends a piece for each root, by BUILD_EVENTS transfers at a time, and has no
 * more than `bits` start-ups to wait for; the first tile has had those. */
static void turn_trees(struct costing *c, uint32_t lane, uint32_t bits, double alpha_us)
{
    struct candidate *candidate = c->candidate;
    struct stage turn = candidate->stage[candidate->nstages - 1];
    double rounds = peal_level_rounds(c->layout, c->phase->level);
    double starts = rounds * ((c->phase->way.n - 1 + BUILD_EVENTS - 1) / BUILD_EVENTS);
    if (candidate->nstages >= STAGES_MAX - 6)
        return;
    turn.levels = 0;
    turn.lane = lane;
    turn.depth = 1;
    turn.gap_us = 0;
    starts = starts > bits ? starts : bits;
    turn.waits = starts / bits;
    turn.alpha_us = alpha_us / 2 * starts / candidate->cells;
    candidate->stage[candidate->nstages++] = turn;
}

static void cost_trees(struct costing *c, uint32_t *lane_at)
{
    uint32_t lane = *lane_at;
    uint32_t bits = 0, n = c->phase->way.n;
    int folds = c->phase->kind == LEVEL_FOLD;
    while (1u << bits < n)
        bits++;
    begin(c, lane);
    c->stage.chain = !c->fine;
    c->stage.levels = c->fine ? 1 : bits;
    double share = c->share / (c->fine ? 1 : bits);
    c->way_us = 0;
    load_phase(c, share, 0);
    if (c->way_us > 0)
        c->stage.alpha_us = c->way_us / bits;
    c->stage.gap_us *= c->candidate->channels - 1.0;
    if (c->fine)
        c->stage.alpha_us *= bits;
    c->stage.depth = (c->direct ? LEVEL_WINDOW : 2 * BUILD_EVENTS) * (c->fine ? bits : 1);
    double lanes = folds ? (c->direct ? 1.5 : 1) : (c->direct ? 1 : 0), hop_us = c->hop_us;
    int direct = c->direct;
    if (c->fine && !direct)
        c->stage.depth = UINT32_MAX; /* transfers: below */
    end(c, lanes * share * (n - 1));
    one_piece(c);
    if (c->fine && !direct)
        turn_trees(c, ++*lane_at, bits, hop_us);
}

static uint32_t height(const struct costing *c)
{
    uint32_t most = 0, root = c->lone ? root_of(c, c->layout->holder[0]) : c->phase->root;
    for (uint32_t i = 0; i < c->phase->way.n; i++) {
        uint32_t depth = depth_of(c, root, i);
        most = depth > most ? depth : most;
    }
    return most;
}

/* Most kids of a peer at the depth. */
static uint32_t fan_at(const struct costing *c, uint32_t depth)
{
    uint32_t most = 0, root = root_of(c, c->layout->holder[0]);
    for (uint32_t i = 0; i < c->phase->way.n; i++) {
        uint32_t kids = peal_level_place(&c->phase->way, root, i).kids;
        if (depth_of(c, root, i) == depth && kids > most)
            most = kids;
    }
    return most;
}

/* The edges at one depth: of both trees, between which the channels are dealt out. */
static void cost_depth(struct costing *c, uint32_t depth, uint32_t lane)
{
    struct level_phase own = *c->phase, *use = &own;
    const struct level_phase *given = c->phase;
    uint32_t channels = c->candidate->channels;
    int folds = given->kind == LEVEL_FOLD;
    int trees = given->way.part == PART_TREE && !c->lone ? 2 : 1;
    begin(c, lane);
    for (int tree = 0; tree < trees && tree < (int)channels; tree++) {
        double dealt = trees == 1 ? channels : tree ? channels / 2 : channels - channels / 2;
        use->way.tree = (uint32_t)tree;
        if (!use->way.fed && !c->lone)
            use->root = peal_level_tree_root(use->way.n, use->way.tree);
        c->phase = use;
        load_phase(c, c->share * dealt / channels, depth);
    }
    c->phase = given;
    uint32_t fan = trees == 2 ? 2 : given->way.part == PART_DIRECT ? given->way.n - 1 : 1;
    if (c->lone)
        fan = fan_at(c, folds ? depth : depth - 1);
    if (c->direct) { /* stored to all children at once, or told by one */
        c->told_us += folds || c->lone ? 0 : (fan - 1) * c->stage.gap_us;
        c->stage.gap_us = 0;
    } else {
        double one = folds && trees == 2 ? 1 : fan; /* messages of a channel */
        c->stage.gap_us *= c->lone ? (folds ? 1 : one) * (channels - 1.0) : one * channels - 1;
        if (!folds && given->way.part == PART_DIRECT)
            c->told_us += again_us(c, fan, peal_level_events(c->layout));
    }
    double lanes = folds ? 1 + fan / 2.0 : c->direct ? (1 + fan) / 2.0 : 0;
    /* Results go to outputs, which take any number of tiles; partial sums to finite slots. Each
     * piece has an event for each peer it goes to; its transfer waits for no credit, but has ended
     * before that of the same piece of the next tile begins. */
    uint32_t runs = c->layout->runs, events = runs > 1 ? BURST_EVENTS : BUILD_EVENTS;
    uint32_t away = folds || events >= runs * fan ? runs : events / fan;
    uint32_t slots = c->lone ? SLOT_DEPTH : LEVEL_TREE_DEPTH * runs;
    c->stage.depth = !c->direct ? away : folds ? slots : LEVEL_WINDOW;
    if (trees == 2 && folds && c->direct)
        c->stage.depth = LEVEL_TREE_DEPTH * runs; /* slots; a transfer has its event until it has
                                                     been delivered, and is the only one */
    c->stage.depth = c->stage.depth ? c->stage.depth : 1;
    c->away |= (uint64_t)!c->direct << c->candidate->nstages;
    end(c, lanes * c->share);
}

/* The start-ups of all depths together are those of the longest way; between two tiles that of the
 * longest hop counts. */
static void set_way(struct costing *c, uint32_t first, uint32_t levels, uint32_t *lane)
{
    struct candidate *candidate = c->candidate;
    double way_us = 0;
    for (uint32_t r = 0; r < c->planner->group.n; r++)
        way_us = c->at[r] > way_us ? c->at[r] : way_us;
    c->way_us = way_us; /* of the entries before, or the leave after */
    if (c->phase->kind == LEVEL_FOLD && c->phase->way.part == PART_DIRECT && c->first && c->direct)
        way_us += c->hop_us; /* loads there and back */
    way_us += c->told_us;
    uint32_t last = candidate->nstages;
    for (uint32_t i = first; i < last; i++) {
        struct stage turn = candidate->stage[i];
        candidate->stage[i].alpha_us = way_us / levels;
        turn.levels = 0;
        int away = c->away >> i & 1;
        if (away) { /* of another engine, there and no way back */
            turn.alpha_us /= 2;
            turn.gap_us = 0; /* those of other channels pass meanwhile */
            candidate->stage[i].depth = LEVEL_WINDOW;
        }
        turn.lane = ++*lane;
        if ((away || turn.alpha_us > way_us / levels) && candidate->nstages < STAGES_MAX - 6)
            candidate->stage[candidate->nstages++] = turn;
    }
}

static void cost_rooted(struct costing *c, uint32_t *lane)
{
    uint32_t most = height(c), first = c->candidate->nstages;
    int folds = c->phase->kind == LEVEL_FOLD;
    memset(c->at, 0, c->planner->group.n * sizeof *c->at);
    c->told_us = 0;
    c->away = 0;
    for (uint32_t i = 0; i < most; i++) {
        uint32_t depth = folds ? most - i : i + 1;
        if (c->candidate->nstages < STAGES_MAX - 6) {
            cost_depth(c, depth, ++*lane);
            continue;
        }
        /* Depths of a long chain are alike; those that find no room share the last stage. */
        c->candidate->stage[c->candidate->nstages - 1].levels++;
    }
    if (most && c->candidate->nstages == first + most)
        set_way(c, first, most, lane);
}

/* The sums of the root's kids and its own input, into its output. */
static void fold_at_root(struct costing *c, uint32_t lane)
{
    struct stage fold = {.levels = 1, .lane = lane, .depth = LEVEL_WINDOW};
    double kids = fan_at(c, 0);
    if (c->candidate->nstages >= STAGES_MAX - 6)
        return;
    peal_candidate_stage(c->planner, c->candidate, &fold, 0);
    peal_stage_fold(c->planner, &c->candidate->stage[c->candidate->nstages - 1],
                    (kids + 2) / 2 * c->share / c->candidate->channels, (kids + 1) * c->share);
}

/* A slot is free again when its sum has gone on to the next: of SLOT_DEPTH tiles one takes both
 * hops, and a start-up there and back. */
static void turn_lone(struct costing *c, uint32_t first, uint32_t levels, uint32_t lane)
{
    struct candidate *candidate = c->candidate;
    struct stage turn = {.lane = lane, .depth = 1, .alpha_us = c->hop_us / SLOT_DEPTH};
    for (uint32_t i = first; i + 1 < first + levels; i++) {
        const struct stage *low = &candidate->stage[i], *high = low + 1;
        double us = (low->us_per_byte + high->us_per_byte) / SLOT_DEPTH;
        if (us < turn.us_per_byte)
            continue;
        turn.us_per_byte = us;
        turn.alone_us_per_byte = (low->alone_us_per_byte + high->alone_us_per_byte) / SLOT_DEPTH;
        turn.load_us = (low->load_us + high->load_us) / SLOT_DEPTH;
        turn.resource = low->resource;
    }
    if (turn.us_per_byte > 0 && candidate->nstages < STAGES_MAX - 6)
        candidate->stage[candidate->nstages++] = turn;
}

/* Of all peers one has a shard: tiles follow each other along its tree or chain, each rank's lane
 * one step behind that of its parent. */
static void cost_lone(struct costing *c, uint32_t *lane)
{
    uint32_t first = c->candidate->nstages;
    c->lone = 1;
    cost_rooted(c, lane);
    if (c->phase->kind == LEVEL_FOLD) {
        turn_lone(c, first, height(c), ++*lane);
        fold_at_root(c, ++*lane);
    }
    c->lone = 0;
}

/* In each step every peer that takes part sends once, or is sent to once: of hosts that are all
 * alike one stands for all. */
static void load_step(struct costing *c, uint32_t k, uint32_t steps)
{
    const struct level_layout *layout = c->layout;
    uint32_t core = 1u << steps, host = NO_RANK;
    for (uint32_t i = 0; i < layout->units * layout->shards; i++) {
        uint32_t rank = layout->holder[i], self = own_number(c, rank, c->phase->level);
        if (k < steps ? self >= core : self < core)
            continue;
        if (c->alike && host != NO_RANK && peal_group_host(&c->planner->group, rank) != host)
            break;
        host = peal_group_host(&c->planner->group, rank);
        uint32_t to = k < steps ? self ^ 1u << k : self - core;
        uint32_t other = peer_rank(c, rank, c->phase->level, to);
        add_hop(c, k > steps ? other : rank, k > steps ? rank : other, c->share);
    }
}

static void cost_double(struct costing *c, uint32_t lane)
{
    uint32_t n = c->phase->way.n, steps = peal_doubling_steps(n), core = 1u << steps;
    for (uint32_t k = 0; k < steps + (n > core ? 2 : 0); k++) {
        begin(c, lane);
        c->stage.chain = 1;
        load_step(c, k, steps);
        c->stage.gap_us *= c->candidate->channels - 1.0;
        end(c, 0);
    }
}

/* The last stage takes a lane at least `us` for each byte of the message, shared by the channels.
 */
static void lane_holds(struct costing *c, double us)
{
    struct stage *stage = &c->candidate->stage[c->candidate->nstages - 1];
    us /= c->candidate->channels;
    stage->lane_bound |= us > stage->us_per_byte;
    stage->us_per_byte = us > stage->us_per_byte ? us : stage->us_per_byte;
    stage->alone_us_per_byte = us > stage->alone_us_per_byte ? us : stage->alone_us_per_byte;
}

/* While the root deals, it spreads its own shard, over the same links. */
static void add_own(struct costing *c)
{
    const struct level_layout *layout = c->layout;
    uint32_t root = c->planner->request.root, unit = layout->unit_of[root];
    if (c->phase->kind != LEVEL_SCATTER || layout->part[0] != PART_DIRECT || layout->units > 1 ||
        layout->shards < 2 || layout->shard_of[root] == NO_RANK || c->fine)
        return;
    c->dealt = 1;
    for (uint32_t i = layout->first[unit]; i < layout->first[unit + 1]; i++) {
        struct hop hop;
        if (layout->member[i] == root)
            continue;
        peal_planner_hop(c->planner, root, layout->member[i], &hop);
        peal_planner_load(c->planner, &hop, c->share, hop.scale);
    }
}

/* Between the root and the holders of its unit. */
static void cost_root(struct costing *c, uint32_t lane)
{
    const struct level_layout *layout = c->layout;
    uint32_t root = c->planner->request.root, unit = layout->unit_of[root];
    double lane_us = 1 / (peal_planner_lane_gbs(c->planner) * 1e3), in_turn = 0;
    begin(c, lane);
    for (uint32_t s = 0; s < layout->shards; s++) {
        uint32_t holder = layout->holder[unit * layout->shards + s];
        if (holder == root)
            continue;
        int deals = c->phase->kind == LEVEL_SCATTER;
        int both = deals && peal_level_deputed(layout, c->planner);
        double share = c->share + (both ? c->share / (layout->shards - 1) : 0);
        add_hop(c, deals ? root : holder, deals ? holder : root, share);
        struct hop hop;
        peal_planner_hop(c->planner, deals ? root : holder, deals ? holder : root, &hop);
        double link_us = peal_load_alone(&hop.path, hop.scale);
        in_turn += share * (link_us > lane_us ? link_us : lane_us);
    }
    add_own(c);
    c->stage.gap_us *= layout->shards - 1.0;
    c->stage.depth = LEVEL_WINDOW;
    end(c, c->phase->kind == LEVEL_SCATTER ? 1 + c->share : c->share);
    if (c->phase->kind == LEVEL_SCATTER && c->direct) /* its own, then one link after the other */
        lane_holds(c, in_turn + c->share * lane_us);
}

/*
 * Before anything is moved, or after: entries that are told up, or leave that comes back. With one
 * root they go through all phases, one after the other (way_us); in an allgather each phase has its
 * own, at once (most_us). Partial sums wait for nobody, and inputs' owners are counted where these
 * are loaded; where nothing comes behind that, they are told that they may leave.
 */
static void cost_handshake(struct costing *c, uint32_t phases, double way_us, double most_us)
{
    switch (c->planner->request.collective) {
    case PEAL_ALLREDUCE:
        return;
    case PEAL_REDUCE_SCATTER:
        apart(c, phases == 1 && (c->direct || c->loaded_us > 0),
              c->direct ? most_us : c->loaded_us);
        return;
    case PEAL_ALLGATHER:
        apart(c, 1, most_us);
        return;
    default:
        apart(c, 1, way_us);
    }
}

/* Where there are many roots, each hears of all its peers, or tells them one after the other, by
 * itself, whatever way their pieces take. Lanes and other engines each have gaps of their own. */
static double flat_us(struct costing *c)
{
    const struct level_layout *layout = c->layout;
    uint32_t unit = layout->unit_of[c->planner->request.root];
    int folds = c->phase->kind == LEVEL_FOLD;
    double most = 0;
    peal_level_peers(&c->peers, layout, c->phase->level, layout->holder[unit * layout->shards]);
    for (uint32_t root = 0; root < c->peers.n; root++) {
        double told_us[2] = {0, 0}; /* by its lane, by another engine */
        for (uint32_t i = 0; is_root(c, root) && i < c->peers.n; i++) {
            struct hop hop;
            if (i == root)
                continue;
            peal_planner_hop(c->planner, c->peers.rank[folds ? root : i],
                             c->peers.rank[folds ? i : root], &hop);
            int async = peal_plan_engine_async(hop.engine) != 0;
            double us = hop.alpha_us + (folds ? told_us[async] : 0);
            us += async ? (c->candidate->channels - 1) * hop.gap_us : 0;
            most = us > most ? us : most;
            told_us[async] += hop.gap_us * (async ? c->candidate->channels : 1);
        }
    }
    return most;
}

/* What a phase adds to it: its longest way, and, where one peer tells all others, their gaps. */
static double entered_us(struct costing *c)
{
    peal_collective collective = c->planner->request.collective;
    int flat = !c->phase->way.single &&
               ((collective == PEAL_BROADCAST && c->phase->kind == LEVEL_SPREAD) ||
                (collective == PEAL_REDUCE && c->phase->kind == LEVEL_FOLD));
    int tells =
        c->phase->way.part == PART_DIRECT && c->phase->way.n > 2 && collective != PEAL_BROADCAST;
    double gap_us = tells && c->direct ? (c->phase->way.n - 2) * c->hop_gap_us : 0;
    if (tells && !c->direct && c->queued) /* by one engine, for all channels */
        gap_us = (c->queued * (double)c->candidate->channels - 1) * c->hop_gap_us;
    if (flat)
        return flat_us(c);
    return (c->phase->way.single ? c->way_us : c->hop_us) + gap_us;
}

static void cost_phase(struct costing *c, const struct level_phase *phase, uint32_t *lane)
{
    const struct level_layout *layout = c->layout;
    uint32_t first = c->candidate->nstages;
    c->phase = phase;
    c->hop_us = c->hop_gap_us = c->link_us = 0;
    c->queued = 0;
    c->share =
        (double)peal_level_rounds(layout, phase->level) / ((double)layout->shards * layout->pieces);
    ++*lane;
    if (phase->kind == LEVEL_DOUBLE)
        cost_double(c, *lane);
    else if (phase->kind == LEVEL_SCATTER || phase->kind == LEVEL_GATHER)
        cost_root(c, *lane);
    else if (phase->way.single)
        cost_rooted(c, lane);
    else if (phase->way.part == PART_DIRECT)
        cost_direct(c, lane);
    else if (!c->fine && !phase->level && roots(c) == 1)
        cost_lone(c, lane);
    else if (phase->way.part == PART_RING)
        cost_ring(c, *lane);
    else
        cost_trees(c, lane);
    for (uint32_t i = first; i < c->candidate->nstages; i++) {
        /* Pieces that each go all the way by themselves come back while others are on their way. */
        c->candidate->stage[i].back = phase->kind == LEVEL_SPREAD && layout->runs == 1;
        if (!c->direct)
            c->pushed |= 1ull << i;
    }
}

/* Transfers of a phase meet those of other channels and phases on what they all use. */
static void set_beside(const struct costing *c)
{
    struct candidate *candidate = c->candidate;
    int all = c->planner->request.collective == PEAL_ALLREDUCE && candidate->channels > 1;
    for (uint32_t i = 0; i < candidate->nstages; i++) {
        struct stage *stage = &candidate->stage[i];
        double own = stage->load_us / candidate->channels;
        double beside = candidate->total_us_per_byte - own;
        int same = stage->resource == candidate->total_resource;
        if (c->pushed >> i & 1 && stage->load_us > 0 && beside > 0 && same)
            stage->beside_us_per_byte = beside;
        /* Stores to all, which wait for those of all others between two tiles: channels do so at
         * one time, and meet what is loaded meanwhile. */
        if (all && !(c->pushed >> i & 1) && stage->back && stage->chain && stage->load_us > 0 &&
            same) {
            stage->beside_us_per_byte = candidate->total_us_per_byte - stage->load_us;
            stage->in_step = 1;
        }
    }
}

/* ---- barrier
 * --------------------------------------------------------------------------------------- */

static void note_round(struct costing *c, uint32_t level, uint32_t far)
{
    const struct level_layout *layout = c->layout;
    for (uint32_t i = 0; i < (level ? layout->units * layout->shards : layout->ranks); i++) {
        uint32_t rank = level ? layout->holder[i] : layout->member[i];
        struct hop hop;
        if ((layout->inside[level] || c->alike) && like_first(c, rank))
            continue;
        peal_level_peers(&c->peers, layout, level, rank);
        uint32_t to = (c->peers.self + far) % c->peers.n;
        if (to == c->peers.self)
            continue;
        peal_planner_hop(c->planner, rank, c->peers.rank[to], &hop);
        peal_stage_hop(&c->stage, &hop);
    }
}

static void cost_barrier(struct costing *c)
{
    for (uint32_t k = 0; k < c->layout->levels; k++) {
        uint32_t steps = 0;
        begin(c, 0);
        for (uint32_t far = 1; far < c->layout->size[k]; far *= 2, steps++)
            note_round(c, k, far);
        apart(c, steps, c->stage.alpha_us);
    }
}

/* ---- gather and scatter ---------------------------------------------------------------------- */

/* A block of each rank between ranks of other units and the heads of their rails, or of all units
 * between those and the root: the hop there, and what the root's lanes take for storing one block
 * after the other, a byte of the message. */
static peal_status load_rails(struct costing *c, int inner, struct traffic *traffic,
                              double *in_turn)
{
    const struct level_layout *layout = c->layout;
    uint32_t root = c->planner->request.root, home = layout->unit_of[root];
    int gathers = c->planner->request.collective == PEAL_GATHER;
    double share = 1.0 / layout->ranks, blocks = inner ? layout->units : 1;
    double lane_us = 1 / (peal_planner_lane_gbs(c->planner) * 1e3) / c->candidate->channels;
    *in_turn = share * lane_us * blocks;
    PEAL_TRY(peal_traffic_init(traffic, c->planner));
    for (uint32_t i = 0; i < layout->units * layout->shards; i++) {
        uint32_t rank = layout->holder[i];
        uint32_t head = layout->holder[home * layout->shards + i % layout->shards];
        uint32_t to = inner ? root : head;
        struct hop hop;
        if (rank == to || (i / layout->shards == home) != inner)
            continue;
        add_hop(c, gathers ? rank : to, gathers ? to : rank, share * blocks);
        peal_planner_hop(c->planner, gathers ? rank : to, gathers ? to : rank, &hop);
        peal_traffic_add(traffic, gathers ? rank : to, &hop, (uint32_t)blocks, share);
        double link_us = peal_load_alone(&hop.path, hop.scale);
        if (!peal_plan_engine_async(hop.engine))
            *in_turn += share * blocks * (link_us > lane_us ? link_us : lane_us);
    }
    return PEAL_OK;
}

/*
 * What a tile waits for. Gathered, a rank's slot at its head is free when the tile has gone on to
 * the root, and its word of that comes back between the hosts. Scattered, the root's slot at a head
 * is free when the tile has left for its rank, and a head's transfers use their events again when
 * what they moved is there.
 */
static void turn_rails(struct costing *c, const struct stage *outer, const struct stage *inner)
{
    struct candidate *candidate = c->candidate;
    int gathers = c->planner->request.collective == PEAL_GATHER;
    uint32_t others = c->layout->units - 1;
    double channels = candidate->channels;
    double own_us = inner->us_per_byte / (gathers ? 1 : c->layout->units);
    double outer_us = outer->us_per_byte / (gathers ? 1 : others);
    double both_us = outer_us + own_us * (inner->lane_bound ? channels : 1);
    struct stage turn = {.depth = 1, .lane = 2, .resource = outer->resource};
    turn.alpha_us = (gathers ? outer->alpha_us : inner->alpha_us) / SLOT_DEPTH;
    turn.us_per_byte = both_us / SLOT_DEPTH;
    turn.beside_us_per_byte = outer_us * (1 - 1 / channels) / SLOT_DEPTH;
    turn.load_us = outer->load_us / SLOT_DEPTH;
    turn.alone_us_per_byte = turn.us_per_byte;
    candidate->stage[candidate->nstages++] = turn;
    if (gathers)
        return;
    turn.lane = 3;
    turn.beside_us_per_byte = 0;
    double at_once = others < BUILD_EVENTS ? others : BUILD_EVENTS;
    turn.alpha_us = outer->alpha_us / 2 * others / at_once;
    turn.us_per_byte = turn.alone_us_per_byte = outer->us_per_byte / at_once;
    candidate->stage[candidate->nstages++] = turn;
}

/* More blocks than a head has slots for: the rank of each is told when one is free again, in turns
 * of half of them. More than it has transfers for: the next ones follow the first, while the root
 * deals out others. */
static double queue_us(const struct costing *c, const struct stage *outer,
                       const struct stage *inner)
{
    double others = c->layout->units - 1.0, slots = c->layout->inbox_width[1];
    if (c->planner->request.collective == PEAL_GATHER)
        return others > slots ? 2 * (others - slots) / ((slots + 1) / 2) * outer->alpha_us : 0;
    double sent_us = (double)((c->layout->units - 2) / BUILD_EVENTS) * outer->alpha_us;
    double gap_us = inner->gap_us > outer->gap_us ? inner->gap_us : outer->gap_us;
    return sent_us > gap_us ? sent_us - gap_us : 0;
}

static peal_status cost_rails(struct costing *c)
{
    int gathers = c->planner->request.collective == PEAL_GATHER;
    struct stage way[2] = {{0}};
    double told_us = 0;
    for (int i = 0; i < 2; i++) {
        int inner = gathers ? i : !i;
        struct traffic traffic;
        double in_turn;
        begin(c, (uint32_t)inner);
        c->hop_gap_us = 0;
        PEAL_TRY(load_rails(c, inner, &traffic, &in_turn));
        c->stage.gap_us = peal_traffic_gap(&traffic, c->candidate->channels);
        peal_traffic_free(&traffic);
        c->stage.depth = LEVEL_WINDOW;
        end(c, inner && gathers ? (double)c->layout->units / c->layout->ranks : inner ? 1 : 0);
        struct stage *to = &c->candidate->stage[c->candidate->nstages - 1];
        if (inner && !gathers && in_turn > to->us_per_byte)
            to->us_per_byte = to->alone_us_per_byte = in_turn;
        told_us += to->alpha_us;
        if (!inner) /* a head tells all, or each rank tells its head */
            told_us += c->hop_gap_us *
                       ((gathers ? c->layout->units - 1.0 : 1) * c->candidate->channels - 1);
        told_us += inner ? 0 : queue_us(c, to, &way[1]);
        way[inner] = *to;
    }
    /* A head sends blocks on while the root deals out others: of what takes less time, only the
     * first or the last block is not covered by the other. */
    if (!gathers) {
        int less = way[1].us_per_byte < way[0].us_per_byte;
        struct stage *to = &c->candidate->stage[c->candidate->nstages - 2 + (less ? 0 : 1)];
        double blocks = less ? c->layout->units : c->layout->units - 1.0;
        to->us_per_byte /= blocks;
        to->alone_us_per_byte /= blocks;
    }
    /* Those who send are told that they may leave, those who receive tell that they are there. */
    apart(c, 1, told_us);
    turn_rails(c, &way[0], &way[1]);
    return PEAL_OK;
}

/* Whose phases stand for all: a holder in the root's unit, or in one with more ranks, whose part
 * takes longer. */
static uint32_t typical_rank(const struct level_layout *layout, uint32_t root)
{
    uint32_t unit = layout->unit_of[root];
    for (uint32_t u = 0; u < layout->units; u++)
        if (layout->first[u + 1] - layout->first[u] > layout->first[unit + 1] - layout->first[unit])
            unit = u;
    return layout->holder[unit * layout->shards];
}

peal_status peal_level_cost(struct planner *planner, const struct level_layout *layout,
                            struct candidate *candidate)
{
    struct costing c = {.planner = planner,
                        .layout = layout,
                        .candidate = candidate,
                        .fine = candidate->cells > 1,
                        .alike = all_alike(&planner->group)};
    struct level_phase phase[LEVEL_PHASES];
    peal_status status = PEAL_OK;
    uint32_t root = planner->request.root, lane = 0;
    uint32_t rank = typical_rank(layout, root);
    PEAL_TRY(peal_level_peers_init(&c.peers, layout, peal_level_most_peers(layout)));
    c.at = peal_alloc(planner->ctx, planner->group.n * sizeof *c.at);
    if (!c.at) {
        peal_level_peers_free(&c.peers, layout);
        return PEAL_ERR_MEMORY;
    }
    if (planner->request.collective == PEAL_BARRIER) {
        cost_barrier(&c);
    } else if (layout->rails) {
        status = cost_rails(&c);
    } else {
        uint32_t count =
            peal_level_phases(layout, planner->request.collective, root, 0, rank, phase);
        double way_us = 0, most_us = 0;
        for (uint32_t i = 0; i < count; i++) {
            c.first = i == 0;
            cost_phase(&c, &phase[i], &lane);
            double own_us = entered_us(&c);
            way_us += own_us;
            most_us = own_us > most_us ? own_us : most_us;
        }
        cost_handshake(&c, count, way_us, most_us);
    }
    peal_candidate_total(planner, candidate);
    set_beside(&c);
    peal_free(planner->ctx, c.at, planner->group.n * sizeof *c.at);
    peal_level_peers_free(&c.peers, layout);
    return status;
}
