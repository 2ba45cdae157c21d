/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hierarchical allreduce: reduce-scatter inside each host onto its gateway ranks, allreduce of
 * each shard between the gateways of all hosts (ring or double binary tree), allgather inside.
 * The number of gateways runs from one a host to one for every rank, chosen by cost from the NICs.
 *
 * A channel is a replica of the whole on its share of the message. In each, a gateway has a lane
 * that folds its shard out of its neighbours' inputs, the lanes of the outer algorithm, and a
 * lane that delivers; every rank has a lane that collects. They hand tiles to each other through
 * semaphores of the rank with itself, so that the levels overlap once there are several tiles.
 */
#include "compiler.h"

#include <stdio.h>

#define LOCAL_MAX 64u
#define LANES_RING 5u /* of the busiest rank, per channel */
#define LANES_TREE 9u

/* Semaphores of one channel. */
enum {
    SEM_ENTRY,       /* neighbour to gateway: my input may be read */
    SEM_FEED,        /* neighbour to gateway: a tile lies in your slot */
    SEM_FEED_CREDIT, /* gateway to neighbour: the slots of a trip are free */
    SEM_DELIVER,     /* gateway to neighbour, two of them: one for each delivering lane */
    SEM_FOLDED = SEM_DELIVER + 2, /* to itself, two */
    SEM_DONE = SEM_FOLDED + 2,    /* to itself, two */
    SEM_OUTER = SEM_DONE + 2,     /* between gateways, up to six */
    SEM_COUNT = SEM_OUTER + 6
};

/* ---- who is a gateway -------------------------------------------------------- */

static uint32_t host_ranks(const struct group *group, uint32_t host)
{
    return group->host_first[host + 1] - group->host_first[host];
}

static uint32_t distinct_nics(const struct group *group, uint32_t host, uint32_t *first_of)
{
    uint32_t count = 0;
    int32_t seen[LOCAL_MAX];
    for (uint32_t i = 0; i < host_ranks(group, host) && i < LOCAL_MAX; i++) {
        int32_t nic =
            peal_topo_rank_nic(group->fabric, peal_group_rank(group, group->host_first[host] + i));
        uint32_t k = 0;
        while (k < count && seen[k] != nic)
            k++;
        if (k < count)
            continue;
        seen[count] = nic;
        first_of[count++] = i;
    }
    return count;
}

static uint32_t gateway(const struct group *group, uint32_t host, uint32_t gateways, uint32_t shard)
{
    uint32_t first_of[LOCAL_MAX];
    uint32_t ranks = host_ranks(group, host);
    uint32_t local = shard;
    if (gateways < ranks) {
        uint32_t nics = distinct_nics(group, host, first_of);
        local = nics == gateways ? first_of[shard] : shard * ranks / gateways;
    }
    return group->host_first[host] + local;
}

/* ---- cost ------------------------------------------------------------------------- */

/* Hosts that look like an earlier one carry the same load. */
static int like_earlier(const struct group *group, uint32_t host)
{
    for (uint32_t h = 0; h < host && h < 64; h++)
        if (peal_group_hosts_alike(group, h, host))
            return 1;
    return 0;
}

/* Between every gateway and its neighbours, towards the gateway or away from it. */
static void cost_inner(struct planner *planner, struct candidate *candidate, int towards,
                       uint32_t lane)
{
    const struct group *group = &planner->group;
    struct stage stage = {.levels = 1, .chain = 1, .lane = lane};
    uint32_t most = group->local_max;
    for (uint32_t h = 0; h < group->nhosts; h++) {
        if (like_earlier(group, h))
            continue;
        for (uint32_t g = 0; g < candidate->gateways; g++)
            for (uint32_t r = group->host_first[h]; r < group->host_first[h + 1]; r++) {
                uint32_t gate = gateway(group, h, candidate->gateways, g);
                struct hop hop;
                if (r == gate)
                    continue;
                peal_planner_hop(planner, towards ? r : gate, towards ? gate : r, &hop);
                peal_stage_hop(&stage, &hop);
                peal_planner_load(planner, &hop, 1.0 / candidate->gateways, hop.scale);
            }
    }
    if (most < 2)
        return;
    stage.gap_us *= most - 2;
    /* A fold waits for the neighbours to enter, then for its loads to return. */
    if (towards)
        stage.alpha_us *= 2;
    peal_candidate_stage(planner, candidate, &stage, 0);
}

static void cost_outer_ring(struct planner *planner, struct candidate *candidate)
{
    const struct group *group = &planner->group;
    uint32_t m = group->nhosts;
    struct stage stage = {.levels = 2 * (m - 1), .chain = 1, .lane = 1};
    if (m < 2)
        return;
    for (uint32_t h = 0; h < m; h++)
        for (uint32_t g = 0; g < candidate->gateways; g++) {
            struct hop hop;
            peal_planner_hop(planner, gateway(group, h, candidate->gateways, g),
                             gateway(group, (h + 1) % m, candidate->gateways, g), &hop);
            peal_stage_hop(&stage, &hop);
            peal_planner_load(planner, &hop, 1.0 / candidate->gateways / m, hop.scale);
        }
    peal_candidate_stage(planner, candidate, &stage, 0);
}

static void cost_outer_level(struct planner *planner, struct candidate *candidate,
                             const struct tree_levels *levels, uint32_t depth, int up,
                             uint32_t lane)
{
    const struct group *group = &planner->group;
    struct stage stage = {.levels = 1, .lane = lane};
    for (uint32_t tree = 0; tree < 2; tree++)
        for (uint32_t i = levels->first[tree][depth]; i < levels->first[tree][depth + 1]; i++) {
            uint32_t h = levels->rank[tree][i], above = peal_tree_parent(levels->n, tree, h);
            for (uint32_t g = 0; g < candidate->gateways; g++) {
                uint32_t low = gateway(group, h, candidate->gateways, g);
                uint32_t high = gateway(group, above, candidate->gateways, g);
                struct hop hop;
                peal_planner_hop(planner, up ? low : high, up ? high : low, &hop);
                peal_stage_hop(&stage, &hop);
                peal_planner_load(planner, &hop, 0.5 / candidate->gateways, hop.scale);
            }
        }
    peal_candidate_stage(planner, candidate, &stage, 0);
}

static peal_status cost_outer_tree(struct planner *planner, struct candidate *candidate)
{
    struct tree_levels levels;
    PEAL_TRY(peal_tree_levels_make(&levels, planner->ctx, planner->group.nhosts));
    uint32_t height = levels.height;
    for (uint32_t level = 0; level < height; level++)
        cost_outer_level(planner, candidate, &levels, height - level, 1, 1 + level);
    for (uint32_t level = 0; level < height; level++)
        cost_outer_level(planner, candidate, &levels, level + 1, 0, 1 + height + level);
    peal_tree_levels_free(&levels);
    return PEAL_OK;
}

static void cost_outer_doubling(struct planner *planner, struct candidate *candidate)
{
    const struct group *group = &planner->group;
    uint32_t m = group->nhosts, steps = peal_doubling_steps(m), core = 1u << steps;
    for (uint32_t k = 0; k < steps + (m > core ? 2 : 0); k++) {
        struct stage stage = {.levels = 1, .chain = 1, .lane = 1};
        for (uint32_t h = 0; h < m; h++) {
            uint32_t to = h < core ? h ^ 1u << k : h - core;
            if (k < steps ? h >= core : h < core)
                continue;
            for (uint32_t g = 0; g < candidate->gateways; g++) {
                struct hop hop;
                uint32_t low = gateway(group, h, candidate->gateways, g);
                uint32_t high = gateway(group, to, candidate->gateways, g);
                peal_planner_hop(planner, k > steps ? high : low, k > steps ? low : high, &hop);
                peal_stage_hop(&stage, &hop);
                peal_planner_load(planner, &hop, 1.0 / candidate->gateways, hop.scale);
            }
        }
        peal_candidate_stage(planner, candidate, &stage, 0);
    }
}

static uint32_t chunks_per_shard(const struct group *group, enum outer outer)
{
    if (outer == OUTER_DOUBLING)
        return 1;
    return outer == OUTER_RING ? group->nhosts : 2; /* on one host a shard is one chunk */
}

static uint64_t slot_count(const struct group *group, const struct candidate *candidate)
{
    uint64_t outer = candidate->outer == OUTER_RING   ? peal_ring_width(group->nhosts)
                     : candidate->outer == OUTER_TREE ? 2 * 2
                                                      : peal_doubling_steps(group->nhosts) + 1;
    uint64_t feed = group->direct_hosts ? 0
                                        : (uint64_t)(group->local_max - 1) *
                                              chunks_per_shard(group, candidate->outer);
    return 2ull * candidate->channels * (outer + feed);
}

static peal_status add_tiles(struct planner *planner, struct candidate *candidate)
{
    static const uint64_t tiles[] = {0, 32u << 10, 128u << 10, 512u << 10, 2u << 20};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        candidate->tile_bytes = tiles[i];
        if (planner->request.tile_bytes)
            candidate->tile_bytes = planner->request.tile_bytes;
        if (!candidate->tile_bytes ||
            candidate->tile_bytes * candidate->slots * SLOT_DEPTH <= planner->request.scratch_limit)
            PEAL_TRY(peal_planner_add(planner, candidate));
        if (planner->request.tile_bytes)
            break;
    }
    return PEAL_OK;
}

/* What the links carry, which the number of channels does not change. */
static peal_status cost_links(struct planner *planner, struct candidate *candidate)
{
    peal_status status = PEAL_OK;
    cost_inner(planner, candidate, 1, 0);
    if (candidate->outer == OUTER_RING)
        cost_outer_ring(planner, candidate);
    else if (candidate->outer == OUTER_TREE)
        status = cost_outer_tree(planner, candidate);
    else
        cost_outer_doubling(planner, candidate);
    cost_inner(planner, candidate, 0, STAGES_MAX - 1);
    peal_candidate_total(planner, candidate);
    return status;
}

/* What it does change: the share of a lane inside a host, and the messages that leave a gateway
 * one after the other. */
static peal_status add_channels(struct planner *planner, const struct candidate *links,
                                uint32_t channels)
{
    const struct group *group = &planner->group;
    struct candidate candidate = *links;
    candidate.channels = channels;
    candidate.chunks = candidate.gateways * channels * chunks_per_shard(group, candidate.outer);
    candidate.lanes = channels * (candidate.outer == OUTER_TREE ? 8 : 4);
    candidate.hop_share = 1.0 / candidate.chunks;
    candidate.slots = slot_count(group, &candidate);
    for (uint32_t i = 0; i < candidate.nstages; i++) {
        struct stage *stage = &candidate.stage[i];
        if (stage->lane != 0 && stage->lane != STAGES_MAX - 1)
            stage->gap_us *= channels - 1.0;
        else
            peal_stage_lane(planner, stage,
                            (group->local_max - 1.0) / candidate.gateways / channels);
    }
    return add_tiles(planner, &candidate);
}

static peal_status cost_channels(struct planner *planner, enum outer outer, uint32_t gateways)
{
    static const uint32_t options[] = {1, 2, 4, 8, 12};
    uint32_t most = PLAN_LANES_MAX / (outer == OUTER_TREE ? LANES_TREE : LANES_RING);
    uint32_t asked = planner->request.channels;
    struct candidate links = {
        .algo = ALGO_HIERARCHICAL, .gateways = gateways, .outer = outer, .max_bytes = UINT64_MAX};
    PEAL_TRY(cost_links(planner, &links));
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        uint32_t channels = asked ? asked : options[i];
        if (channels > most || (channels > 1 && !planner->group.accelerators))
            break;
        PEAL_TRY(add_channels(planner, &links, channels));
        if (asked)
            break;
    }
    return PEAL_OK;
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    uint32_t first_of[LOCAL_MAX];
    /* On one host it is a two-shot in two steps: made only when it is asked for. */
    if (group->n < 2 || group->local_max > LOCAL_MAX ||
        (group->nhosts < 2 && planner->algorithm != ALGO_HIERARCHICAL))
        return PEAL_OK;
    uint32_t options[3] = {1, distinct_nics(group, 0, first_of), group->local_min};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t gateways = planner->request.gateways ? planner->request.gateways : options[i];
        int repeated = (i > 0 && gateways == options[0]) || (i > 1 && gateways == options[1]);
        if (gateways > group->local_min || repeated)
            continue;
        PEAL_TRY(cost_channels(planner, OUTER_RING, gateways));
        if (group->nhosts > 1) {
            PEAL_TRY(cost_channels(planner, OUTER_TREE, gateways));
            PEAL_TRY(cost_channels(planner, OUTER_DOUBLING, gateways));
        }
        if (planner->request.gateways)
            break;
    }
    return PEAL_OK;
}

/* ---- programs --------------------------------------------------------------------- */

struct shape {
    const struct candidate *candidate;
    const struct group *group;
    uint32_t rank;
    uint32_t host;
    uint32_t first; /* ranks of the host */
    uint32_t last;
    uint32_t per_shard;
    uint32_t shard; /* the one this rank is gateway of, NO_RANK */
    uint32_t channel;
    uint32_t sem0;
    uint32_t feed_region;
    uint32_t outer_region;
};

static uint32_t chunk_of(const struct shape *s, uint32_t shard, uint32_t i)
{
    return (shard * s->candidate->channels + s->channel) * s->per_shard + i;
}

/* Semaphore of the i-th chunk: the tree has a lane for each of its two. */
static uint32_t half(const struct shape *s, uint32_t i)
{
    return s->candidate->outer == OUTER_TREE ? i : 0;
}

static uint32_t feed_slot(const struct shape *s, uint32_t feeder, uint32_t gate, uint32_t i)
{
    uint32_t place = feeder - s->first - (feeder > gate ? 1 : 0);
    return place * s->per_shard + i;
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    uint32_t depth = b->plan->tile_bytes ? SLOT_DEPTH : 1;
    const struct group *group = &b->planner->group;
    uint32_t per_shard = chunks_per_shard(group, candidate->outer);
    b->plan->nchunks = candidate->chunks;
    b->plan->nsems = (uint16_t)(SEM_COUNT * candidate->channels);
    uint64_t bytes = peal_build_slot_bytes(b);
    for (uint32_t c = 0; c < candidate->channels; c++) {
        if (candidate->outer == OUTER_RING) {
            uint32_t width = group->nhosts > 1 ? peal_ring_width(group->nhosts) : 1;
            peal_build_region(b, PLAN_BUF_SCRATCH, width, depth, bytes);
        } else if (candidate->outer == OUTER_TREE) {
            peal_build_region(b, PLAN_BUF_SCRATCH, 2, depth, bytes);
            peal_build_region(b, PLAN_BUF_SCRATCH, 2, depth, bytes);
        } else {
            peal_build_region(b, PLAN_BUF_SCRATCH, peal_doubling_steps(group->nhosts) + 1, depth,
                              bytes);
        }
        if (!group->direct_hosts)
            peal_build_region(b, PLAN_BUF_SCRATCH, (group->local_max - 1) * per_shard, depth,
                              bytes);
    }
}

static void fold_chunk(struct build *b, const struct shape *s, uint32_t i)
{
    struct plan_operand src[LOCAL_MAX];
    uint32_t chunk = chunk_of(s, s->shard, i);
    struct plan_operand out = peal_op_user(s->rank, PLAN_BUF_OUT, chunk);
    for (uint32_t r = s->first; r < s->last; r++) {
        int direct = peal_build_direct(b, r);
        if (!direct)
            peal_build_wait(b, r, s->sem0 + SEM_FEED, 0);
        src[r - s->first] = direct ? peal_op_user(r, PLAN_BUF_IN, chunk)
                                   : peal_op_slot(s->rank, PLAN_BUF_SCRATCH, s->feed_region,
                                                  feed_slot(s, r, s->rank, i));
    }
    int final = s->group->nhosts == 1;
    peal_build_move(b, chunk, s->last - s->first, src, 1, &out, PEAL_ENGINE_SM, final);
    if (s->candidate->outer == OUTER_TREE)
        peal_build_signal(b, s->rank, s->sem0 + SEM_FOLDED + i);
}

static void fold_lane(struct build *b, const struct shape *s)
{
    peal_build_lane(b);
    for (uint32_t r = s->first; r < s->last; r++)
        if (r != s->rank && peal_build_direct(b, r))
            peal_build_wait(b, r, s->sem0 + SEM_ENTRY, 0);
    peal_build_section(b, 1);
    for (uint32_t i = 0; i < s->per_shard; i++)
        fold_chunk(b, s, i);
    if (s->candidate->outer != OUTER_TREE)
        peal_build_signal(b, s->rank, s->sem0 + (s->group->nhosts == 1 ? SEM_DONE : SEM_FOLDED));
    for (uint32_t r = s->first; b->plan->tile_bytes && r < s->last; r++)
        if (!peal_build_direct(b, r))
            peal_build_signal(b, r, s->sem0 + SEM_FEED_CREDIT);
}

/* Pushes this rank's input to the gateways that cannot load it. */
static void feed_lane(struct build *b, const struct shape *s)
{
    int opened = 0;
    for (uint32_t g = 0; g < s->candidate->gateways; g++) {
        uint32_t gate = gateway(s->group, s->host, s->candidate->gateways, g);
        if (gate == s->rank || peal_build_direct(b, gate))
            continue;
        if (!opened) {
            peal_build_lane(b);
            peal_build_section(b, 1);
            opened = 1;
        }
        if (b->plan->tile_bytes)
            peal_build_wait(b, gate, s->sem0 + SEM_FEED_CREDIT, SLOT_DEPTH);
        for (uint32_t i = 0; i < s->per_shard; i++) {
            uint32_t chunk = chunk_of(s, g, i);
            peal_build_push(b, chunk, peal_op_user(s->rank, PLAN_BUF_IN, chunk),
                            peal_op_slot(gate, PLAN_BUF_SCRATCH, s->feed_region,
                                         feed_slot(s, s->rank, gate, i)),
                            s->sem0 + SEM_FEED);
        }
    }
    if (opened)
        peal_build_drain(b);
}

static void doubling_lane(struct build *b, const struct shape *s, const struct members *members,
                          uint8_t from, int alone)
{
    struct doubling_part part = {.n = s->group->nhosts,
                                 .self = s->host,
                                 .of = members,
                                 .chunk = chunk_of(s, s->shard, 0),
                                 .in_buffer = from,
                                 .region = s->outer_region,
                                 .depth = SLOT_DEPTH,
                                 .sem0 = s->sem0 + SEM_OUTER,
                                 .credits = b->plan->tile_bytes != 0};
    peal_build_lane(b);
    peal_build_section(b, 1);
    if (!alone)
        peal_build_wait(b, s->rank, s->sem0 + SEM_FOLDED, 0);
    peal_doubling_body(b, &part);
    if (!alone)
        peal_build_signal(b, s->rank, s->sem0 + SEM_DONE);
    peal_build_drain(b);
}

static void outer_lanes(struct build *b, const struct shape *s, const struct members *members)
{
    uint32_t m = s->group->nhosts;
    int alone = s->last - s->first == 1;
    uint8_t from = alone ? PLAN_BUF_IN : PLAN_BUF_OUT;
    if (s->candidate->outer == OUTER_RING) {
        struct ring_part part = {.n = m,
                                 .self = s->host,
                                 .of = members,
                                 .chunk0 = chunk_of(s, s->shard, 0),
                                 .in_buffer = from,
                                 .region = s->outer_region,
                                 .width = peal_ring_width(m),
                                 .sem0 = s->sem0 + SEM_OUTER};
        part.credits = b->plan->tile_bytes != 0 || part.width < m - 1;
        peal_build_lane(b);
        peal_build_section(b, 1);
        if (!alone)
            peal_build_wait(b, s->rank, s->sem0 + SEM_FOLDED, 0);
        peal_ring_body(b, &part);
        if (!alone)
            peal_build_signal(b, s->rank, s->sem0 + SEM_DONE);
        peal_build_drain(b);
        return;
    }
    if (s->candidate->outer == OUTER_DOUBLING) {
        doubling_lane(b, s, members, from, alone);
        return;
    }
    for (uint32_t tree = 0; tree < 2; tree++) {
        struct tree_part part = {.n = m,
                                 .self = s->host,
                                 .of = members,
                                 .tree = tree,
                                 .chunk = chunk_of(s, s->shard, tree),
                                 .in_buffer = from,
                                 .region = s->outer_region + tree,
                                 .depth = SLOT_DEPTH,
                                 .sem0 = s->sem0 + SEM_OUTER + 3 * tree,
                                 .credits = b->plan->tile_bytes != 0,
                                 .before = alone ? NO_RANK : s->sem0 + SEM_FOLDED + tree,
                                 .after = alone ? NO_RANK : s->sem0 + SEM_DONE + tree};
        peal_tree_lanes(b, &part);
    }
}

static void deliver_chunk(struct build *b, const struct shape *s, uint32_t i)
{
    struct plan_operand dst[LOCAL_MAX];
    uint32_t chunk = chunk_of(s, s->shard, i), sem = s->sem0 + SEM_DELIVER + half(s, i);
    struct plan_operand out = peal_op_user(s->rank, PLAN_BUF_OUT, chunk);
    uint32_t stored = 0, ranks = s->last - s->first;
    for (uint32_t k = 1; k < ranks; k++) {
        uint32_t r = s->first + (s->rank - s->first + k) % ranks;
        struct hop hop;
        peal_planner_hop(b->planner, s->rank, r, &hop);
        struct plan_operand to = peal_op_user(r, PLAN_BUF_OUT, chunk);
        if (hop.engine == PEAL_ENGINE_SM)
            dst[stored++] = to;
        else
            peal_build_push(b, chunk, out, to, sem);
    }
    if (stored)
        peal_build_move(b, chunk, 1, &out, stored, dst, PEAL_ENGINE_SM, 0);
    for (uint32_t k = 0; k < stored; k++)
        peal_build_signal(b, dst[k].rank, sem);
}

static void deliver_lanes(struct build *b, const struct shape *s)
{
    uint32_t lanes = s->candidate->outer == OUTER_TREE ? 2 : 1;
    for (uint32_t l = 0; l < lanes; l++) {
        peal_build_lane(b);
        peal_build_section(b, 1);
        peal_build_wait(b, s->rank, s->sem0 + SEM_DONE + l, 0);
        for (uint32_t i = lanes == 2 ? l : 0; i < (lanes == 2 ? l + 1 : s->per_shard); i++)
            deliver_chunk(b, s, i);
        peal_build_drain(b);
    }
}

/* Tells the gateways that this rank has entered, and waits for what they deliver. */
static void collect_lane(struct build *b, const struct shape *s)
{
    uint32_t gateways = s->candidate->gateways;
    peal_build_lane(b);
    for (uint32_t g = 0; g < gateways; g++) {
        uint32_t gate = gateway(s->group, s->host, gateways, g);
        if (gate != s->rank && peal_build_direct(b, gate))
            peal_build_signal(b, gate, s->sem0 + SEM_ENTRY);
    }
    peal_build_section(b, 1);
    for (uint32_t g = 0; g < gateways; g++) {
        uint32_t gate = gateway(s->group, s->host, gateways, g);
        for (uint32_t i = 0; gate != s->rank && i < s->per_shard; i++)
            peal_build_wait(b, gate, s->sem0 + SEM_DELIVER + half(s, i), 0);
    }
}

static void emit_channel(struct build *b, const struct shape *s, const struct members *members)
{
    int alone = s->last - s->first == 1;
    if (!alone)
        collect_lane(b, s);
    feed_lane(b, s);
    if (s->shard == NO_RANK)
        return;
    if (!alone)
        fold_lane(b, s);
    if (s->group->nhosts > 1)
        outer_lanes(b, s, members);
    if (!alone)
        deliver_lanes(b, s);
}

static uint32_t gateway_at(const struct members *members, uint32_t host)
{
    return gateway(&members->b->planner->group, host, members->gateways, members->channel);
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    const struct group *group = &b->planner->group;
    struct shape s = {.candidate = candidate, .group = group, .rank = rank, .shard = NO_RANK};
    s.host = peal_group_host(group, rank);
    s.first = group->host_first[s.host];
    s.last = group->host_first[s.host + 1];
    s.per_shard = chunks_per_shard(group, candidate->outer);
    for (uint32_t g = 0; g < candidate->gateways; g++)
        if (gateway(group, s.host, candidate->gateways, g) == rank)
            s.shard = g;
    struct members members = {gateway_at, b, s.shard, candidate->gateways};
    uint32_t outer_regions = candidate->outer == OUTER_TREE ? 2 : 1;
    uint32_t per_channel = outer_regions + (group->direct_hosts ? 0 : 1);
    for (s.channel = 0; s.channel < candidate->channels; s.channel++) {
        s.sem0 = SEM_COUNT * s.channel;
        s.outer_region = s.channel * per_channel;
        s.feed_region = s.outer_region + outer_regions;
        emit_channel(b, &s, &members);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "%u gateway%s a host, outer %s, %u channel%s", candidate->gateways,
             candidate->gateways == 1 ? "" : "s",
             candidate->outer == OUTER_RING   ? "ring"
             : candidate->outer == OUTER_TREE ? "double binary tree"
                                              : "recursive doubling",
             candidate->channels, candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_hierarchical = {
    "hierarchical", 1u << PEAL_ALLREDUCE, enumerate, prepare, emit, detail};
