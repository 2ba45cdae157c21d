/* SPDX-License-Identifier: Apache-2.0 */
/* Double binary tree allreduce, pipelined by tile: about 2 log2 N start-ups. With a graph file of
 * NCCL's, double binary trees of hosts, each host a chain in the order of the file. */
#include "compiler.h"

#include <stdio.h>

/* The shapes that the channels of a candidate have: one for all, or each as a graph file says. */
struct shapes {
    const struct topo_orders *orders; /* NULL: ranks in their order */
    uint32_t chain;
    uint32_t count;
};

static struct shapes shapes_of(const struct planner *planner, enum algorithm algo)
{
    struct shapes shapes = {NULL, 1, 1};
    if (algo != ALGO_NCCL_TREE)
        return shapes;
    shapes.orders = peal_topo_trees(planner->fabric);
    shapes.chain = shapes.orders->ranks;
    shapes.count = shapes.orders->channels;
    return shapes;
}

/* The rank at a position of a shape. */
static uint32_t rank_at(const struct shapes *shapes, uint32_t shape, uint32_t position)
{
    uint32_t link = position % shapes->chain;
    return shapes->orders ? position - link + shapes->orders->order[shape * shapes->chain + link]
                          : position;
}

/* Hops of one level of all trees, in one direction, with `share` of the message each. */
static void load_level(struct planner *planner, const struct shapes *shapes, uint32_t depth, int up,
                       double share, struct stage *stage)
{
    uint32_t n = planner->group.n;
    for (uint32_t i = 0; i < 2 * shapes->count; i++)
        for (uint32_t at = 0; at < n; at++) {
            struct tree_place place = peal_chained_place(n, shapes->chain, i % 2, at);
            struct hop hop;
            if (place.depth != depth)
                continue;
            uint32_t self = rank_at(shapes, i / 2, at);
            uint32_t parent = rank_at(shapes, i / 2, place.parent);
            peal_planner_hop(planner, up ? self : parent, up ? parent : self, &hop);
            peal_planner_load(planner, &hop, share / shapes->count, hop.scale);
            peal_stage_hop(stage, &hop);
        }
}

static uint32_t tree_height(uint32_t n, uint32_t chain)
{
    uint32_t height = 0;
    for (uint32_t tree = 0; tree < 2; tree++)
        for (uint32_t at = 0; at < n; at++) {
            uint32_t depth = peal_chained_place(n, chain, tree, at).depth;
            height = depth > height ? depth : height;
        }
    return height;
}

static uint32_t slot_width(enum algorithm algo)
{
    return algo == ALGO_NCCL_TREE ? TREE_CHILDREN : 2;
}

static peal_status cost_tree(struct planner *planner, enum algorithm algo, uint32_t channels)
{
    struct shapes shapes = shapes_of(planner, algo);
    uint32_t height = tree_height(planner->group.n, shapes.chain);
    struct candidate candidate = {.algo = algo,
                                  .channels = channels,
                                  .max_bytes = UINT64_MAX,
                                  .chunks = 2 * channels,
                                  .lanes = 4 * channels,
                                  .slots = 2ull * 2 * slot_width(algo) * channels,
                                  .hop_share = 0.5 / channels};
    for (uint32_t level = 0; level < 2 * height; level++) {
        struct stage stage = {.levels = 1, .lane = level};
        int up = level < height;
        uint32_t depth = up ? height - level : level - height + 1;
        load_level(planner, &shapes, depth, up, 0.5, &stage);
        stage.gap_us = 0;
        /* Up: three sources and a destination; down: a source and two destinations. */
        peal_candidate_stage(planner, &candidate, &stage, (up ? 2 : 1.5) * candidate.hop_share);
    }
    peal_candidate_total(planner, &candidate);
    static const uint64_t tiles[] = {0, 16u << 10, 64u << 10, 256u << 10, 1u << 20};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        candidate.tile_bytes = planner->request.tile_bytes ? planner->request.tile_bytes : tiles[i];
        PEAL_TRY(peal_planner_add(planner, &candidate));
        if (planner->request.tile_bytes)
            break;
    }
    return PEAL_OK;
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    if (group->n < 2)
        return PEAL_OK;
    int rooted = planner->request.collective != PEAL_ALLREDUCE;
    uint32_t asked = planner->request.channels;
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX / 2;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 && !group->accelerators)
            break;
        PEAL_TRY(rooted ? peal_rooted_enumerate(planner, ALGO_TREE, channels)
                        : cost_tree(planner, ALGO_TREE, channels));
    }
    return PEAL_OK;
}

/* Each channel of the file with both trees, as NCCL doubles them. */
static peal_status enumerate_given(struct planner *planner)
{
    const struct topo_orders *trees = peal_group_orders(planner, peal_topo_trees);
    uint32_t height = trees ? tree_height(planner->group.n, trees->ranks) : 0;
    if (!trees || trees->channels > CHANNELS_MAX / 2 || 2 * height > STAGES_MAX)
        return PEAL_OK;
    return cost_tree(planner, ALGO_NCCL_TREE, trees->channels);
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    uint32_t depth = b->plan->tile_bytes ? SLOT_DEPTH : 1;
    if (b->plan->collective != PEAL_ALLREDUCE) {
        peal_rooted_prepare(b, candidate);
        return;
    }
    b->plan->nchunks = candidate->chunks;
    b->plan->nsems = (uint16_t)(6 * candidate->channels);
    for (uint32_t i = 0; i < 2 * candidate->channels; i++)
        peal_build_region(b, PLAN_BUF_SCRATCH, slot_width(candidate->algo), depth,
                          peal_build_slot_bytes(b));
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    uint32_t n = b->plan->nranks;
    peal_ctx *ctx = b->plan->ctx;
    if (b->plan->collective != PEAL_ALLREDUCE) {
        peal_rooted_emit(b, candidate, rank);
        return;
    }
    uint32_t *members = peal_alloc(ctx, n * sizeof *members);
    if (!members) {
        b->status = PEAL_ERR_MEMORY;
        return;
    }
    struct shapes shapes = shapes_of(b->planner, candidate->algo);
    for (uint32_t i = 0; i < 2 * candidate->channels; i++) {
        struct tree_part part = {.n = n,
                                 .members = members,
                                 .tree = i % 2,
                                 .chain = shapes.chain,
                                 .chunk = i,
                                 .in_buffer = PLAN_BUF_IN,
                                 .region = i,
                                 .depth = SLOT_DEPTH,
                                 .sem0 = 3 * i,
                                 .credits = b->plan->tile_bytes != 0,
                                 .before = NO_RANK,
                                 .after = NO_RANK};
        for (uint32_t at = 0; at < n; at++) {
            members[at] = rank_at(&shapes, shapes.orders ? i / 2 : 0, at);
            if (members[at] == rank)
                part.self = at;
        }
        peal_tree_lanes(b, &part);
    }
    peal_free(ctx, members, n * sizeof *members);
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "%s, %u channel%s",
             candidate->algo == ALGO_NCCL_TREE
                 ? "chains of the graph file under double binary trees"
             : candidate->chunks == candidate->channels ? "binomial tree"
                                                        : "double binary tree",
             candidate->channels, candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_tree = {
    "tree",    1u << PEAL_ALLREDUCE | 1u << PEAL_BROADCAST | 1u << PEAL_REDUCE,
    enumerate, prepare,
    emit,      detail};
const struct algo peal_algo_nccl_tree = {
    "nccl-tree", 1u << PEAL_ALLREDUCE, enumerate_given, prepare, emit, detail};
