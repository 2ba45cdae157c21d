/* SPDX-License-Identifier: Apache-2.0 */
/* What a phase of a hierarchical schedule loads: each hop of it, with its share of the message. */
#include "level_cost.h"

int peal_level_like_first(const struct level_costing *c, uint32_t rank)
{
    const struct group *group = &c->planner->group;
    uint32_t host = peal_group_host(group, rank);
    return host > 0 && peal_group_hosts_alike(group, 0, host);
}

int peal_level_all_alike(const struct group *group)
{
    for (uint32_t h = 1; h < group->nhosts; h++)
        if (!peal_group_hosts_alike(group, 0, h))
            return 0;
    return peal_topo_rank_unit(group->fabric, peal_group_rank(group, group->n - 1),
                               TOPO_UNIT_POD) ==
           peal_topo_rank_unit(group->fabric, peal_group_rank(group, 0), TOPO_UNIT_POD);
}

/* A rank's own number among its peers, of which it is one, and the rank of another one. */
static uint32_t own_number(const struct level_costing *c, uint32_t rank, uint32_t level)
{
    return level == 0 ? c->layout->index_of[rank]
                      : peal_level_coordinate(c->layout, c->layout->unit_of[rank], level);
}

static uint32_t peer_rank(const struct level_costing *c, uint32_t rank, uint32_t level,
                          uint32_t peer)
{
    const struct level_layout *layout = c->layout;
    uint32_t stride = layout->stride[level];
    if (level == 0)
        return layout->member[layout->first[layout->unit_of[rank]] + peer];
    uint32_t zero = layout->unit_of[rank] - own_number(c, rank, level) * stride;
    return layout->holder[(zero + peer * stride) * layout->shards + layout->shard_of[rank]];
}

void peal_level_load_hop(struct level_costing *c, uint32_t self, uint32_t peer, double share)
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

int peal_level_is_root(const struct level_costing *c, uint32_t peer)
{
    return c->phase->way.single ? peer == c->phase->root : c->peers.shard[peer] != NO_RANK;
}

/* In the unit of a root that has deputies: each does its part of what the root's shard takes. */
static void add_deputed(struct level_costing *c, double share)
{
    const struct level_layout *layout = c->layout;
    uint32_t root = c->planner->request.root, self = c->peers.rank[c->peers.self];
    int folds = c->phase->kind == LEVEL_FOLD;
    double part = share / (layout->shards - 1);
    for (uint32_t i = 0; i < c->peers.n; i++) {
        uint32_t peer = c->peers.rank[i];
        if (peer == self)
            continue;
        if (folds && peal_level_is_root(c, i))
            peal_level_load_hop(c, self, peer,
                                peer == root ? peal_level_is_root(c, c->peers.self) ? part : 0
                                             : share + part);
        if (!folds && peal_level_is_root(c, c->peers.self) && self != root)
            peal_level_load_hop(c, self, peer, peer == root ? share : share + part);
    }
}

static void add_direct(struct level_costing *c, double share)
{
    uint32_t self = c->peers.self, queued = 0;
    if (c->dealt && c->peers.rank[self] == c->planner->request.root)
        return;
    for (uint32_t i = 0; i < c->peers.n; i++) {
        int sends =
            c->phase->kind == LEVEL_FOLD ? peal_level_is_root(c, i) : peal_level_is_root(c, self);
        struct hop hop;
        if (i == self || !sends)
            continue;
        peal_level_load_hop(c, c->peers.rank[self], c->peers.rank[i], share);
        peal_planner_hop(c->planner, c->peers.rank[self], c->peers.rank[i], &hop);
        queued += peal_plan_engine_async(hop.engine) != 0;
    }
    c->queued = queued > c->queued ? queued : c->queued;
}

static void add_ring(struct level_costing *c, double share)
{
    uint32_t n = c->peers.n, self = c->peers.self;
    int folds = c->phase->kind == LEVEL_FOLD;
    uint32_t to = (self + (folds ? n - 1 : 1)) % n;
    double pieces = peal_level_roots(c->layout, c->phase->level, &c->phase->way) -
                    (peal_level_is_root(c, folds ? self : to) ? 1.0 : 0.0);
    if (n > 1)
        peal_level_load_hop(c, c->peers.rank[self], c->peers.rank[to], pieces * share);
}

/* From a peer up to a root, or down: inside a host, whose trees are small. */
static void pass_way(struct level_costing *c, uint32_t root)
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

static void add_trees(struct level_costing *c, double share)
{
    const struct level_way *way = &c->phase->way;
    for (uint32_t root = 0; root < c->peers.n; root++) {
        if (!peal_level_is_root(c, root))
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
        peal_level_load_hop(c, c->peers.rank[c->peers.self], c->peers.rank[i],
                            c->peers.sent[i] * share);
}

uint32_t peal_level_root_of(const struct level_costing *c, uint32_t rank)
{
    const struct level_layout *layout = c->layout;
    return c->lone ? layout->index_of[layout->holder[layout->unit_of[rank] * layout->shards]]
                   : c->phase->root;
}

/* Of a tree with one holder: gaps of what a rank sends to other kids of its, by the same engine,
 * before it turns to this one. */
static double earlier_us(struct level_costing *c, uint32_t from, uint32_t to,
                         const struct hop *to_hop)
{
    struct level_place place =
        peal_level_place(&c->phase->way, peal_level_root_of(c, from), own_number(c, from, 0));
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
static void pass_edge(struct level_costing *c, uint32_t from, uint32_t to)
{
    struct hop hop;
    peal_planner_hop(c->planner, from, to, &hop);
    double us = hop.alpha_us + (c->lone ? earlier_us(c, from, to, &hop) : 0);
    if (c->at[from] + us > c->at[to])
        c->at[to] = c->at[from] + us;
}

/* Of a peer in a tree of the typical unit, whose root is `root`. */
uint32_t peal_level_depth_of(const struct level_costing *c, uint32_t root, uint32_t peer)
{
    uint32_t depth = 0;
    if (!c->lone)
        return peal_level_place(&c->phase->way, root, peer).depth;
    for (uint32_t at = peer; at != root; depth++)
        at = peal_level_place(&c->phase->way, root, at).parent;
    return depth;
}

/* Along one edge of a tree with a single root, at the given depth. */
static void add_edge(struct level_costing *c, uint32_t rank, double share, uint32_t depth)
{
    uint32_t level = c->phase->level, number = own_number(c, rank, level);
    if (number != c->placed || c->lone) {
        c->place = peal_level_place(&c->phase->way, peal_level_root_of(c, rank), number);
        c->placed = number;
    }
    if (c->place.parent == NO_RANK ||
        (c->lone ? peal_level_depth_of(c, peal_level_root_of(c, rank), number) : c->place.depth) !=
            depth)
        return;
    uint32_t parent = peer_rank(c, rank, level, c->place.parent);
    int folds = c->phase->kind == LEVEL_FOLD;
    pass_edge(c, folds ? rank : parent, folds ? parent : rank);
    peal_level_load_hop(c, folds ? rank : parent, folds ? parent : rank, share);
}

/* ---- everyone who takes part --------------------------------------------------------------- */

/* A rooted phase below the top begins in one unit of the level above. */
static int takes_part(const struct level_costing *c, uint32_t unit)
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

void peal_level_load_phase(struct level_costing *c, double share, uint32_t depth)
{
    const struct level_layout *layout = c->layout;
    uint32_t level = c->phase->level;
    int single = c->phase->way.single || c->lone;
    int sample = layout->inside[level] || (c->alike && !single);
    c->placed = NO_RANK;
    for (uint32_t i = 0; i < (level ? layout->units * layout->shards : layout->ranks); i++) {
        uint32_t rank = level ? layout->holder[i] : layout->member[i];
        int home = layout->unit_of[rank] == layout->unit_of[c->planner->request.root];
        if (!takes_part(c, layout->unit_of[rank]) ||
            (sample && !home && peal_level_like_first(c, rank)))
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

/* In each step every peer that takes part sends once, or is sent to once: of hosts that are all
 * alike one stands for all. */
void peal_level_load_step(struct level_costing *c, uint32_t k, uint32_t steps)
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
        peal_level_load_hop(c, k > steps ? other : rank, k > steps ? rank : other, c->share);
    }
}
