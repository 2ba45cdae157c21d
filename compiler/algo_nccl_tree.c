/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trees of a graph file of NCCL's: double binary trees of hosts, below each host's first rank
 * a chain of its others in the order of the file. Pipelined by tile.
 */
#include "compiler.h"

#include <stdio.h>

/* The rank at a position of a channel's trees. */
static uint32_t rank_at(const struct topo_orders *orders, uint32_t channel, uint32_t position)
{
    uint32_t link = position % orders->ranks;
    return position - link + orders->order[channel * orders->ranks + link];
}

/* Hops of one level of all trees, in one direction. */
static void load_level(struct planner *planner, const struct topo_orders *orders, uint32_t depth,
                       int up, struct stage *stage)
{
    uint32_t n = planner->group.n;
    for (uint32_t i = 0; i < 2 * orders->channels; i++)
        for (uint32_t at = 0; at < n; at++) {
            struct tree_place place = peal_chained_place(n, orders->ranks, i % 2, at);
            struct hop hop;
            if (place.depth != depth)
                continue;
            uint32_t self = rank_at(orders, i / 2, at);
            uint32_t parent = rank_at(orders, i / 2, place.parent);
            peal_planner_hop(planner, up ? self : parent, up ? parent : self, &hop);
            peal_planner_load(planner, &hop, 0.5 / orders->channels, hop.scale);
            peal_stage_hop(stage, &hop);
        }
}

static uint32_t height_of(uint32_t n, uint32_t chain)
{
    uint32_t height = 0;
    for (uint32_t tree = 0; tree < 2; tree++)
        for (uint32_t at = 0; at < n; at++) {
            uint32_t depth = peal_chained_place(n, chain, tree, at).depth;
            height = depth > height ? depth : height;
        }
    return height;
}

/* Each channel of the file with both trees, as NCCL doubles them. */
static peal_status enumerate(struct planner *planner)
{
    static const uint64_t tiles[] = {0, 16u << 10, 64u << 10, 256u << 10, 1u << 20};
    const struct topo_orders *orders = peal_group_orders(planner, peal_topo_trees);
    uint32_t height = orders ? height_of(planner->group.n, orders->ranks) : 0;
    if (!orders || orders->channels > CHANNELS_MAX / 2 || 2 * height > STAGES_MAX)
        return PEAL_OK;
    uint32_t channels = orders->channels;
    struct candidate candidate = {.algo = ALGO_NCCL_TREE,
                                  .channels = channels,
                                  .max_bytes = UINT64_MAX,
                                  .chunks = 2 * channels,
                                  .lanes = 4 * channels,
                                  .slots = 2ull * 2 * TREE_CHILDREN * channels,
                                  .hop_share = 0.5 / channels};
    for (uint32_t level = 0; level < 2 * height; level++) {
        struct stage stage = {.levels = 1, .lane = level};
        int up = level < height;
        load_level(planner, orders, up ? height - level : level - height + 1, up, &stage);
        stage.gap_us = 0;
        /* Up: three sources and a destination; down: a source and two destinations. */
        peal_candidate_stage(planner, &candidate, &stage, (up ? 2 : 1.5) * candidate.hop_share);
    }
    peal_candidate_total(planner, &candidate);
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        candidate.tile_bytes = planner->request.tile_bytes ? planner->request.tile_bytes : tiles[i];
        PEAL_TRY(peal_planner_add(planner, &candidate));
        if (planner->request.tile_bytes)
            break;
    }
    return PEAL_OK;
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    uint32_t depth = b->plan->tile_bytes ? SLOT_DEPTH : 1;
    b->plan->nsems = (uint16_t)(6 * candidate->channels);
    for (uint32_t i = 0; i < 2 * candidate->channels; i++)
        peal_build_region(b, PLAN_BUF_SCRATCH, TREE_CHILDREN, depth, peal_build_slot_bytes(b));
}

static uint32_t member_at(const struct members *members, uint32_t position)
{
    return rank_at(peal_topo_trees(members->b->planner->fabric), members->channel, position);
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    const struct topo_orders *orders = peal_topo_trees(b->planner->fabric);
    for (uint32_t i = 0; i < 2 * candidate->channels; i++) {
        struct members members = {member_at, b, i / 2, 0};
        struct tree_part part = {.n = b->plan->nranks,
                                 .self = rank - rank % orders->ranks,
                                 .of = &members,
                                 .tree = i % 2,
                                 .chain = orders->ranks,
                                 .chunk = i,
                                 .in_buffer = PLAN_BUF_IN,
                                 .region = i,
                                 .width = TREE_CHILDREN,
                                 .depth = SLOT_DEPTH,
                                 .sem0 = 3 * i,
                                 .credits = b->plan->tile_bytes != 0,
                                 .before = NO_RANK,
                                 .after = NO_RANK};
        while (member_at(&members, part.self) != rank)
            part.self++;
        peal_tree_lanes(b, &part);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "chains of the graph file under double binary trees, %u channel%s",
             candidate->channels, candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_nccl_tree = {
    "nccl-tree", 1u << PEAL_ALLREDUCE, enumerate, prepare, emit, detail};
