/* SPDX-License-Identifier: Apache-2.0 */
/* Double binary tree allreduce, pipelined by tile: about 2 log2 N start-ups. */
#include "compiler.h"

#include <stdio.h>

/* Hops of one level of both trees, in one direction, with `share` of the message each. */
static void load_level(struct planner *planner, const struct tree_levels *levels, uint32_t depth,
                       int up, double share, struct stage *stage)
{
    for (uint32_t tree = 0; tree < 2; tree++)
        for (uint32_t i = levels->first[tree][depth]; i < levels->first[tree][depth + 1]; i++) {
            uint32_t r = levels->rank[tree][i];
            uint32_t parent = peal_tree_parent(levels->n, tree, r);
            struct hop hop;
            peal_planner_hop(planner, up ? r : parent, up ? parent : r, &hop);
            peal_planner_load(planner, &hop, share, hop.scale);
            peal_stage_hop(stage, &hop);
        }
}

static void cost_levels(struct planner *planner, const struct tree_levels *levels,
                        struct candidate *candidate)
{
    uint32_t height = levels->height;
    for (uint32_t level = 0; level < 2 * height; level++) {
        struct stage stage = {.levels = 1, .lane = level};
        int up = level < height;
        uint32_t depth = up ? height - level : level - height + 1;
        load_level(planner, levels, depth, up, 0.5, &stage);
        stage.gap_us = 0;
        peal_candidate_stage(planner, candidate, &stage, 0);
    }
    peal_candidate_total(planner, candidate);
}

/* The links carry the same whatever the number of channels; what a lane carries differs. */
static peal_status add_channels(struct planner *planner, const struct candidate *loads,
                                uint32_t channels)
{
    struct candidate candidate = *loads;
    candidate.channels = channels;
    candidate.chunks = 2 * channels;
    candidate.lanes = 4 * channels;
    candidate.slots = 2ull * 2 * 2 * channels;
    candidate.hop_share = 0.5 / channels;
    /* Up: three sources and a destination; down: a source and two destinations. */
    for (uint32_t i = 0; i < candidate.nstages; i++)
        peal_stage_lane(planner, &candidate.stage[i],
                        (i < candidate.nstages / 2 ? 2 : 1.5) * candidate.hop_share);
    static const uint64_t tiles[] = {0, 16u << 10, 64u << 10, 256u << 10, 1u << 20};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        candidate.tile_bytes = planner->request.tile_bytes ? planner->request.tile_bytes : tiles[i];
        PEAL_TRY(peal_planner_add(planner, &candidate));
        if (planner->request.tile_bytes)
            break;
    }
    return PEAL_OK;
}

static peal_status cost_tree(struct planner *planner, struct candidate *loads)
{
    struct tree_levels levels;
    *loads = (struct candidate){.algo = ALGO_TREE, .max_bytes = UINT64_MAX};
    PEAL_TRY(peal_tree_levels_make(&levels, planner->ctx, planner->group.n));
    cost_levels(planner, &levels, loads);
    peal_tree_levels_free(&levels);
    return PEAL_OK;
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
    int rooted = collective != PEAL_ALLREDUCE;
    uint32_t asked = planner->request.channels;
    struct candidate loads;
    if (!rooted)
        PEAL_TRY(cost_tree(planner, &loads));
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX / 2;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 && !group->accelerators)
            break;
        if (moves_blocks(collective))
            PEAL_TRY(peal_block_tree_enumerate(planner, channels));
        else
            PEAL_TRY(rooted ? peal_rooted_enumerate(planner, ALGO_TREE, channels)
                            : add_channels(planner, &loads, channels));
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
        peal_build_region(b, PLAN_BUF_SCRATCH, 2, depth, peal_build_slot_bytes(b));
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
                                 .chunk = i,
                                 .in_buffer = PLAN_BUF_IN,
                                 .region = i,
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
    snprintf(text, size, "%s tree, %u channel%s",
             candidate->chunks == 2 * candidate->channels && candidate->lanes > candidate->channels
                 ? "double binary"
                 : "binomial",
             candidate->channels, candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_tree = {"tree",
                                    1u << PEAL_ALLREDUCE | 1u << PEAL_BROADCAST |
                                        1u << PEAL_REDUCE | 1u << PEAL_SCATTER | 1u << PEAL_GATHER,
                                    enumerate,
                                    prepare,
                                    emit,
                                    detail};
