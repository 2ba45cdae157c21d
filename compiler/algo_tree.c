/* SPDX-License-Identifier: Apache-2.0 */
/* Double binary tree allreduce, pipelined by tile: about 2 log2 N start-ups. */
#include "compiler.h"

#include <stdio.h>
#include <string.h>

/* What does not depend on the number of channels. */
struct tree_loads {
    struct candidate candidate;
    struct tree_levels levels;
    struct stage turn;   /* between two tiles: a start-up and a move at each end, for two slots */
    struct stage flight; /* the same where another engine carries a tile, one for each piece */
    double gap_us;
    uint64_t async;    /* bit 1 << stage: another engine carries some of its hops */
    double down_us[2]; /* a byte to each of two children in turn, on links that are alone; of the
                          rank whose links carry most */
    double busy_us[2]; /* what else they carry: all that is on them */
    int one_port;      /* 1: both are reached through the same one */
    double *at;        /* for each rank: start-ups before it has heard */
};

#define TREE_WIDTH 2u /* slots of a piece: one for each child */

/* So many pieces of a lane's share follow each other in a trip, each with slots of its own; those
 * that engines carry have an event for each of two children. */
static const uint32_t piece_counts[] = {1, 2, 4, 8};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Hops of one level of both trees, in one direction, with `share` of the message each. */
static void load_level(struct planner *planner, struct tree_loads *loads, uint32_t depth, int up,
                       double share)
{
    const struct tree_levels *levels = &loads->levels;
    for (uint32_t tree = 0; tree < 2; tree++)
        for (uint32_t i = levels->first[tree][depth]; i < levels->first[tree][depth + 1]; i++) {
            uint32_t r = levels->rank[tree][i];
            uint32_t parent = peal_tree_parent(levels->n, tree, r);
            struct hop hop;
            peal_planner_hop(planner, up ? r : parent, up ? parent : r, &hop);
            peal_planner_load(planner, &hop, share, hop.scale);
            if (peal_plan_engine_async(hop.engine)) {
                loads->async |= 1ull << loads->candidate.nstages;
                loads->flight.alpha_us = larger(loads->flight.alpha_us, hop.alpha_us / 2);
                loads->gap_us = larger(loads->gap_us, hop.gap_us);
            } else if (up) { /* results wait for nothing */
                loads->turn.alpha_us = larger(loads->turn.alpha_us, hop.alpha_us / 2);
            }
        }
}

/* 1: the ways to both share a resource, so that it is busy whichever of them is stored to. */
static int same_port(const struct planner *planner, uint32_t from, const uint32_t *to)
{
    struct topo_path a, b;
    peal_group_path(&planner->group, from, to[0], &a);
    peal_group_path(&planner->group, from, to[1], &b);
    for (uint32_t i = 0; i < a.uses; i++)
        for (uint32_t k = 0; k < b.uses; k++)
            if (a.use[i].resource == b.use[k].resource)
                return 1;
    return 0;
}

/* A lane stores to one child after the other: of whom that takes longest. */
static void find_busiest(struct planner *planner, struct tree_loads *loads)
{
    uint32_t n = loads->levels.n;
    for (uint32_t r = 0; r < 2 * n; r++) {
        struct tree_place place = peal_tree_place(n, r / n, r % n);
        double down[2], busy[2];
        if (place.child[0] == NO_RANK || place.child[1] == NO_RANK)
            continue;
        for (int k = 0; k < 2; k++) {
            struct hop hop;
            peal_planner_hop(planner, r % n, place.child[k], &hop);
            int async = peal_plan_engine_async(hop.engine);
            down[k] = async ? 0 : peal_load_alone(&hop.path, hop.scale);
            busy[k] = async ? 0 : peal_load_of(&planner->total, &hop.path, 0);
        }
        if (busy[0] + busy[1] <= loads->busy_us[0] + loads->busy_us[1])
            continue;
        loads->one_port = same_port(planner, r % n, place.child);
        memcpy(loads->down_us, down, sizeof down);
        memcpy(loads->busy_us, busy, sizeof busy);
    }
}

static void cost_levels(struct planner *planner, struct tree_loads *loads)
{
    uint32_t height = loads->levels.height;
    for (uint32_t level = 0; level < 2 * height; level++) {
        struct stage stage = {.levels = 1, .lane = level};
        int up = level < height;
        uint32_t depth = up ? height - level : level - height + 1;
        load_level(planner, loads, depth, up, 0.5);
        peal_candidate_stage(planner, &loads->candidate, &stage, 0);
    }
    find_busiest(planner, loads);
    peal_candidate_total(planner, &loads->candidate);
}

/* What lanes take to store half of the message to both children in turn. Those of all channels are
 * soon on the same link together, and meet there what else it carries. */
static double both_us(const struct tree_loads *loads, uint32_t channels)
{
    double own[2], us[2] = {0, 0};
    for (int k = 0; k < 2; k++)
        us[k] = own[k] = loads->down_us[k] / 2 / (loads->one_port ? channels : 1);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++)
            us[k] = peal_beside_us(own[k], loads->busy_us[k] - own[k], us[1 - k]);
    return us[0] + us[1];
}

/* The start-up of one edge; an engine has the messages of all channels to send. */
static double edge_us(struct planner *planner, const struct tree_levels *levels, uint32_t tree,
                      uint32_t rank, int up, uint32_t channels)
{
    uint32_t parent = peal_tree_parent(levels->n, tree, rank);
    struct hop hop;
    peal_planner_hop(planner, up ? rank : parent, up ? parent : rank, &hop);
    double before = peal_plan_engine_async(hop.engine) ? channels - 1.0 : 0;
    return hop.alpha_us + before * hop.gap_us;
}

/* On the longest way up and down again. */
static double longest_us(struct planner *planner, const struct tree_loads *loads, uint32_t channels)
{
    const struct tree_levels *levels = &loads->levels;
    double most = 0, *at = loads->at;
    for (uint32_t tree = 0; tree < 2; tree++) {
        memset(at, 0, levels->n * sizeof *at);
        for (uint32_t depth = levels->height; depth > 0; depth--)
            for (uint32_t i = levels->first[tree][depth]; i < levels->first[tree][depth + 1]; i++) {
                uint32_t r = levels->rank[tree][i], to = peal_tree_parent(levels->n, tree, r);
                at[to] = larger(at[to], at[r] + edge_us(planner, levels, tree, r, 1, channels));
            }
        for (uint32_t depth = 1; depth <= levels->height; depth++)
            for (uint32_t i = levels->first[tree][depth]; i < levels->first[tree][depth + 1]; i++) {
                uint32_t r = levels->rank[tree][i], from = peal_tree_parent(levels->n, tree, r);
                at[r] = at[from] + edge_us(planner, levels, tree, r, 0, channels);
                most = larger(most, at[r]);
            }
    }
    return most;
}

/* In chunks, what a lane moves at a stage: what a leaf has, what a node folds, what the root folds
 * and sends on, what goes down to each child. */
static double stage_chunks(uint32_t stage, uint32_t height)
{
    if (stage == 0)
        return 1;
    return stage == height ? 3 : 2;
}

static void set_lanes(const struct planner *planner, const struct tree_loads *loads,
                      struct candidate *candidate)
{
    uint32_t height = loads->levels.height;
    for (uint32_t i = 0; i < candidate->nstages; i++) {
        struct stage *stage = &candidate->stage[i];
        int async = loads->async >> i & 1;
        double chunks = stage_chunks(i, height);
        peal_stage_lane(planner, stage, (async ? 0 : chunks) * candidate->hop_share);
        if (async && i > 0 && i <= height) /* folded before it leaves */
            peal_stage_then(planner, stage, chunks * candidate->hop_share);
    }
}

/* Between two pieces: as many as there are share a round trip of a credit, or of a transfer. What
 * a rank sends one after the other is a piece up both trees and, in one of them, down twice. */
static void add_turns(const struct tree_loads *loads, struct candidate *candidate)
{
    struct stage turn = loads->turn, flight = loads->flight;
    for (uint32_t i = 0; i < candidate->nstages; i++) {
        struct stage *stage = &candidate->stage[i];
        stage->depth = SLOT_DEPTH * candidate->pieces;
        turn.us_per_byte = larger(turn.us_per_byte, stage->us_per_byte);
        turn.alone_us_per_byte = larger(turn.alone_us_per_byte, stage->alone_us_per_byte);
    }
    turn.depth = flight.depth = candidate->pieces;
    turn.lane = candidate->nstages;
    candidate->stage[candidate->nstages++] = turn;
    if (candidate->channels > 1) {
        struct stage down = {
            .lane = candidate->nstages, .depth = UINT32_MAX, .steady = loads->one_port};
        down.us_per_byte = down.alone_us_per_byte = both_us(loads, candidate->channels);
        candidate->stage[candidate->nstages++] = down;
    }
    if (!loads->async)
        return;
    /* Transfers of all levels share what is busiest. */
    flight.us_per_byte = larger(turn.us_per_byte, candidate->total_us_per_byte);
    flight.alone_us_per_byte = larger(turn.alone_us_per_byte, candidate->alone_total_us_per_byte);
    flight.gap_us = candidate->pieces > 1 ? 4 * loads->gap_us * candidate->channels : 0;
    flight.lane = candidate->nstages;
    candidate->stage[candidate->nstages++] = flight;
}

static peal_status add_tiles(struct planner *planner, struct candidate *candidate)
{
    static const uint64_t tiles[] = {0, 16u << 10, 64u << 10, 256u << 10, 1u << 20};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        candidate->tile_bytes =
            planner->request.tile_bytes ? planner->request.tile_bytes : tiles[i];
        PEAL_TRY(peal_planner_add(planner, candidate));
        if (planner->request.tile_bytes)
            break;
    }
    return PEAL_OK;
}

/* The links carry the same whatever the number of channels; what a lane carries differs. */
static peal_status add_channels(struct planner *planner, const struct tree_loads *loads,
                                uint32_t channels)
{
    struct candidate common = loads->candidate;
    common.channels = channels;
    common.lanes = 4 * channels;
    common.hop_share = 0.5 / channels;
    set_lanes(planner, loads, &common);
    double way_us = longest_us(planner, loads, channels);
    for (uint32_t i = 0; i < common.nstages; i++)
        common.stage[i].alpha_us = way_us / common.nstages;
    for (size_t i = 0; i < sizeof piece_counts / sizeof piece_counts[0]; i++) {
        struct candidate candidate = common;
        uint32_t asked = planner->request.depth;
        candidate.pieces = candidate.cells = asked ? asked : piece_counts[i];
        candidate.chunks = 2 * channels * candidate.pieces;
        candidate.slots = 2ull * TREE_WIDTH * candidate.chunks;
        candidate.hop_share /= candidate.pieces;
        add_turns(loads, &candidate);
        PEAL_TRY(add_tiles(planner, &candidate));
        if (asked)
            break;
    }
    return PEAL_OK;
}

static peal_status cost_tree(struct planner *planner, uint32_t asked)
{
    struct tree_loads loads = {.candidate = {.algo = ALGO_TREE, .max_bytes = UINT64_MAX}};
    uint32_t n = planner->group.n;
    peal_status status = PEAL_OK;
    PEAL_TRY(peal_tree_levels_make(&loads.levels, planner->ctx, n));
    loads.at = peal_alloc(planner->ctx, n * sizeof *loads.at);
    if (!loads.at)
        status = PEAL_ERR_MEMORY;
    else
        cost_levels(planner, &loads);
    for (uint32_t channels = asked ? asked : 1; status == PEAL_OK && channels <= CHANNELS_MAX / 2;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 && !planner->group.accelerators)
            break;
        status = add_channels(planner, &loads, channels);
    }
    peal_free(planner->ctx, loads.at, n * sizeof *loads.at);
    peal_tree_levels_free(&loads.levels);
    return status;
}

/* Each rank's own block goes down or up the tree, not one message for all. */
static int moves_blocks(peal_collective collective)
{
    return collective == PEAL_SCATTER || collective == PEAL_GATHER;
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    if (group->n < 2)
        return PEAL_OK;
    peal_collective collective = planner->request.collective;
    uint32_t asked = planner->request.channels;
    if (collective == PEAL_ALLREDUCE)
        return cost_tree(planner, asked);
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX / 2;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 && !group->accelerators)
            break;
        if (moves_blocks(collective))
            PEAL_TRY(peal_block_tree_enumerate(planner, channels));
        else
            PEAL_TRY(peal_rooted_enumerate(planner, ALGO_TREE, channels));
    }
    return PEAL_OK;
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    uint32_t depth = b->plan->tile_bytes ? SLOT_DEPTH : 1;
    if (moves_blocks(b->plan->collective)) {
        peal_block_tree_prepare(b, candidate);
        return;
    }
    if (b->plan->collective != PEAL_ALLREDUCE) {
        peal_rooted_prepare(b, candidate);
        return;
    }
    b->plan->nchunks = candidate->chunks;
    b->plan->nsems = (uint16_t)(6 * candidate->channels);
    for (uint32_t i = 0; i < 2 * candidate->channels; i++)
        peal_build_region(b, PLAN_BUF_SCRATCH, TREE_WIDTH * candidate->pieces, depth,
                          peal_build_slot_bytes(b));
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    if (moves_blocks(b->plan->collective)) {
        peal_block_tree_emit(b, candidate, rank);
        return;
    }
    if (b->plan->collective != PEAL_ALLREDUCE) {
        peal_rooted_emit(b, candidate, rank);
        return;
    }
    for (uint32_t i = 0; i < 2 * candidate->channels; i++) {
        struct tree_part part = {.n = b->plan->nranks,
                                 .self = rank,
                                 .tree = i % 2,
                                 .chunk = i * candidate->pieces,
                                 .pieces = candidate->pieces,
                                 .in_buffer = PLAN_BUF_IN,
                                 .region = i,
                                 .width = TREE_WIDTH,
                                 .depth = SLOT_DEPTH,
                                 .sem0 = 3 * i,
                                 .credits = b->plan->tile_bytes != 0,
                                 .before = NO_RANK,
                                 .after = NO_RANK};
        peal_tree_lanes(b, &part);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s tree, %u channel%s",
                                   candidate->pieces ? "double binary" : "binomial",
                                   candidate->channels, candidate->channels == 1 ? "" : "s");
    if (candidate->pieces > 1 && used < size)
        (void)snprintf(text + used, size - used, ", %u pieces under way", candidate->pieces);
}

const struct algo peal_algo_tree = {"tree",
                                    1u << PEAL_ALLREDUCE | 1u << PEAL_BROADCAST |
                                        1u << PEAL_REDUCE | 1u << PEAL_SCATTER | 1u << PEAL_GATHER,
                                    enumerate,
                                    prepare,
                                    emit,
                                    detail};
