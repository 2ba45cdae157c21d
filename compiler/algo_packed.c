/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allgather along packed spanning trees: each rank's block is cut into as many chunks as trees
 * leave the rank, and each chunk flows down its own tree. All trees together load every link no
 * more than the exact optimum needs (pack.h), whatever the network looks like.
 *
 * A rank works off its chunks by its own depth in their trees: what a parent sends first its
 * child expects first, and nobody waits for what comes later.
 */
#include "compiler.h"
#include "pack.h"

#include <stdio.h>

#define SEM_ENTER 0u /* child to parent */
#define SEM_DATA 1u
#define SEMS 2u
#define PACKED_RANKS_MAX 64u /* of a graph that is searched */

/* One chunk's tree as a rank sees it. */
struct seat {
    uint32_t chunk;
    uint32_t parent; /* NO_RANK: the root */
    uint32_t depth;
    uint32_t first_child; /* into children */
    uint32_t children;
};

struct seats {
    peal_ctx *ctx;
    uint32_t count; /* chunks */
    struct seat *seat;
    uint32_t *child;
};

/* ---- which tree a chunk takes ------------------------------------------------------------ */

/* The tree of the j-th chunk of a root's block: trees count as often as their multiplicity. */
static uint32_t tree_of(const struct pack_forest *forest, uint32_t root, uint64_t j)
{
    for (uint32_t t = 0; t < forest->ntrees; t++) {
        const struct pack_tree *tree = &forest->trees[t];
        if (tree->root != root)
            continue;
        if (j < tree->multiplicity)
            return t;
        j -= tree->multiplicity;
    }
    return 0;
}

static uint32_t depth_in(const struct pack_hop *hops, uint32_t count, uint32_t rank)
{
    uint32_t depth = 0;
    for (uint32_t i = count; i-- > 0;)
        if (hops[i].to == rank) {
            rank = hops[i].from;
            depth++;
        }
    return depth;
}

static int seats_make(struct seats *seats, const struct pack_forest *forest, uint32_t rank)
{
    uint32_t n = forest->compute, trees = (uint32_t)forest->rate.trees;
    uint32_t used = 0;
    seats->count = n * trees;
    seats->seat = peal_calloc(seats->ctx, seats->count, sizeof *seats->seat);
    seats->child = peal_calloc(seats->ctx, (size_t)seats->count * n, sizeof *seats->child);
    if (!seats->seat || !seats->child)
        return 0;
    for (uint32_t c = 0; c < seats->count; c++) {
        const struct pack_hop *hops = peal_pack_hops(forest, tree_of(forest, c / trees, c % trees));
        struct seat *seat = &seats->seat[c];
        *seat = (struct seat){c, NO_RANK, depth_in(hops, n - 1, rank), used, 0};
        for (uint32_t i = 0; i < n - 1; i++) {
            if (hops[i].to == rank)
                seat->parent = hops[i].from;
            if (hops[i].from == rank)
                seats->child[used++] = hops[i].to;
        }
        seat->children = used - seat->first_child;
    }
    return 1;
}

static void seats_free(struct seats *seats, uint32_t n)
{
    peal_free(seats->ctx, seats->seat, seats->count * sizeof *seats->seat);
    peal_free(seats->ctx, seats->child, (size_t)seats->count * n * sizeof *seats->child);
}

/* ---- programs ----------------------------------------------------------------------------- */

struct lane {
    struct build *b;
    const struct seats *seats;
    uint32_t number;
    uint32_t lanes;
    uint32_t sem0;
};

static int mine(const struct lane *lane, uint32_t chunk)
{
    return chunk % lane->lanes == lane->number;
}

/* 1: some chunk of the lane comes from (goes to) the rank. */
static int meets(const struct lane *lane, uint32_t rank, int as_parent)
{
    for (uint32_t c = 0; c < lane->seats->count; c++) {
        const struct seat *seat = &lane->seats->seat[c];
        if (!mine(lane, c))
            continue;
        if (as_parent && seat->parent == rank)
            return 1;
        for (uint32_t i = 0; !as_parent && i < seat->children; i++)
            if (lane->seats->child[seat->first_child + i] == rank)
                return 1;
    }
    return 0;
}

static void enter(const struct lane *lane)
{
    uint32_t n = lane->b->plan->nranks;
    for (uint32_t r = 0; r < n; r++)
        if (meets(lane, r, 1))
            peal_build_signal(lane->b, r, lane->sem0 + SEM_ENTER);
    for (uint32_t r = 0; r < n; r++)
        if (meets(lane, r, 0))
            peal_build_wait(lane->b, r, lane->sem0 + SEM_ENTER, 0);
}

/* Passes a chunk on. The root's comes out of its input; stores first, as one of them may write
 * the chunk onto itself. */
static void pass_on(const struct lane *lane, const struct seat *seat)
{
    struct build *b = lane->b;
    int root = seat->parent == NO_RANK;
    struct plan_operand own = peal_op_user(b->self, PLAN_BUF_OUT, seat->chunk);
    struct plan_operand in = peal_op_user(b->self, PLAN_BUF_IN, seat->chunk);
    struct plan_operand dst[PACKED_RANKS_MAX];
    uint32_t stores = 0;
    const uint32_t *child = lane->seats->child + seat->first_child;
    if (root)
        dst[stores++] = own;
    for (uint32_t i = 0; i < seat->children; i++) {
        struct hop hop;
        peal_planner_hop(b->planner, b->self, child[i], &hop);
        if (hop.engine == PEAL_ENGINE_SM)
            dst[stores++] = peal_op_user(child[i], PLAN_BUF_OUT, seat->chunk);
    }
    if (stores)
        peal_build_move(b, seat->chunk, 1, root ? &in : &own, stores, dst, PEAL_ENGINE_SM, 0);
    for (uint32_t i = 0; i < stores; i++)
        if (dst[i].rank != b->self)
            peal_build_signal(b, dst[i].rank, lane->sem0 + SEM_DATA);
    for (uint32_t i = 0; i < seat->children; i++) {
        struct hop hop;
        peal_planner_hop(b->planner, b->self, child[i], &hop);
        if (hop.engine != PEAL_ENGINE_SM)
            peal_build_push(b, seat->chunk, own, peal_op_user(child[i], PLAN_BUF_OUT, seat->chunk),
                            lane->sem0 + SEM_DATA);
    }
}

static void emit_lane(const struct lane *lane, uint32_t deepest)
{
    peal_build_lane(lane->b);
    enter(lane);
    peal_build_section(lane->b, 1);
    for (uint32_t depth = 0; depth <= deepest; depth++)
        for (uint32_t c = 0; c < lane->seats->count; c++) {
            const struct seat *seat = &lane->seats->seat[c];
            if (!mine(lane, c) || seat->depth != depth)
                continue;
            if (seat->parent != NO_RANK)
                peal_build_wait(lane->b, seat->parent, lane->sem0 + SEM_DATA, 0);
            pass_on(lane, seat);
        }
    peal_build_drain(lane->b);
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    struct seats seats = {.ctx = b->plan->ctx};
    if (!seats_make(&seats, b->forest, rank))
        b->status = PEAL_ERR_MEMORY;
    for (uint32_t l = 0; b->status == PEAL_OK && l < candidate->channels; l++) {
        struct lane lane = {b, &seats, l, candidate->channels, SEMS * l};
        emit_lane(&lane, peal_pack_depth(b->forest));
    }
    seats_free(&seats, b->plan->nranks);
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    b->plan->nsems = (uint16_t)(SEMS * candidate->channels);
}

/* ---- cost ------------------------------------------------------------------------------------ */

/* Hops that end at one depth, each with a tree's share of the message. */
static void cost_level(struct planner *planner, struct candidate *candidate,
                       const struct pack_forest *forest, uint32_t depth)
{
    uint32_t n = forest->compute;
    struct stage stage = {.levels = 1, .lane = depth};
    double share = 1.0 / n / (double)forest->rate.trees;
    uint64_t sent[PACKED_RANKS_MAX] = {0}, most = 1; /* messages of a rank, one after the other */
    for (uint32_t t = 0; t < forest->ntrees; t++) {
        const struct pack_hop *hops = peal_pack_hops(forest, t);
        for (uint32_t i = 0; i < n - 1; i++) {
            struct hop hop;
            if (depth_in(hops, n - 1, hops[i].to) != depth)
                continue;
            peal_planner_hop(planner, hops[i].from, hops[i].to, &hop);
            peal_stage_hop(&stage, &hop);
            sent[hops[i].from] += forest->trees[t].multiplicity;
            most = sent[hops[i].from] > most ? sent[hops[i].from] : most;
            peal_planner_load(planner, &hop, share * (double)forest->trees[t].multiplicity,
                              hop.scale);
        }
    }
    stage.gap_us *= (double)(most - 1);
    peal_candidate_stage(planner, candidate, &stage, 1.0 / candidate->channels);
}

static peal_status cost_forest(struct planner *planner, const struct pack_forest *forest,
                               uint32_t trees, uint32_t channels)
{
    static const uint64_t tiles[] = {0, 32u << 10, 128u << 10, 512u << 10, 2u << 20};
    uint32_t chunks = (uint32_t)forest->rate.trees * forest->compute;
    struct candidate candidate = {.algo = ALGO_PACKED,
                                  .channels = channels,
                                  .trees = trees,
                                  .max_bytes = UINT64_MAX,
                                  .chunks = chunks,
                                  .lanes = channels,
                                  .hop_share = 1.0 / chunks};
    struct stage enter = {.levels = 1, .chain = 1, .lane = STAGES_MAX - 1};
    for (uint32_t depth = 1; depth <= peal_pack_depth(forest) && depth < STAGES_MAX - 1; depth++) {
        cost_level(planner, &candidate, forest, depth);
        const struct stage *last = &candidate.stage[candidate.nstages - 1];
        enter.alpha_us = last->alpha_us > enter.alpha_us ? last->alpha_us : enter.alpha_us;
    }
    peal_candidate_stage(planner, &candidate, &enter, 0);
    peal_candidate_total(planner, &candidate);
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        candidate.tile_bytes = planner->request.tile_bytes ? planner->request.tile_bytes : tiles[i];
        PEAL_TRY(peal_planner_add(planner, &candidate));
        if (planner->request.tile_bytes)
            break;
    }
    return PEAL_OK;
}

static peal_status cost_trees(struct planner *planner, uint32_t trees)
{
    struct pack_forest forest;
    int found;
    uint32_t asked = planner->request.channels;
    PEAL_TRY(peal_group_forest(&planner->group, trees, &forest, &found));
    if (!found)
        return PEAL_OK;
    peal_status status = PEAL_OK;
    for (uint32_t channels = asked ? asked : 4; status == PEAL_OK && channels <= 16;
         channels = asked ? UINT32_MAX : channels * 2)
        status = cost_forest(planner, &forest, trees, channels);
    peal_pack_forest_free(&forest);
    return status;
}

static peal_status enumerate(struct planner *planner)
{
    /* Where one rank reaches all others of a single host by stores, direct does as well. */
    if (planner->group.n < 3 || !planner->group.accelerators)
        return PEAL_OK;
    PEAL_TRY(cost_trees(planner, 0));
    PEAL_TRY(cost_trees(planner, 1));
    return cost_trees(planner, 2);
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "%u spanning trees, %u lane%s", candidate->chunks, candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_packed = {"packed", 1u << PEAL_ALLGATHER, enumerate, prepare, emit,
                                      detail};
