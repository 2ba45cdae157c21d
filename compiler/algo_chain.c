/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcast and reduce along a pipelined chain: N - 1 start-ups, each link carries the message
 * once. And the same programs along the binomial tree: log2 N start-ups (algo_tree.c). */
#include "compiler.h"

#include <stdio.h>

static void load_hop(struct planner *planner, uint32_t channels, uint32_t parent, uint32_t child,
                     struct stage *stage)
{
    int away = planner->request.collective == PEAL_BROADCAST;
    struct hop hop;
    peal_planner_hop(planner, away ? parent : child, away ? child : parent, &hop);
    peal_stage_hop(stage, &hop);
    peal_planner_load(planner, &hop, 1.0 / channels, hop.scale);
}

/* One level's hops, of all channels. chains: of every channel, turned so that the root is first;
 * NULL: the binomial tree. Returns how many hops there are. */
static uint32_t load_level(struct planner *planner, uint32_t channels, const uint32_t *chains,
                           uint32_t depth, struct stage *stage)
{
    uint32_t n = planner->group.n, hops = 0;
    for (uint32_t c = 0; chains && depth < n && c < channels; c++, hops++) {
        const uint32_t *chain = chains + (size_t)c * n;
        load_hop(planner, channels, chain[depth - 1], chain[depth], stage);
    }
    for (uint32_t r = 0; !chains && r < n; r++) {
        struct rooted_place place = peal_rooted_place(n, planner->request.root, r);
        if (place.depth != depth)
            continue;
        load_hop(planner, 1, place.parent, r, stage); /* the channels share each link of the tree */
        hops++;
    }
    return hops;
}

/* The ring order from the root on. */
static void chain_from_root(const struct ring_orders *orders, uint32_t root, uint32_t channel,
                            uint32_t *order, uint32_t *chain)
{
    uint32_t n = orders->group->n, start = peal_ring_position(orders, channel, root);
    peal_ring_order(orders, channel, order);
    for (uint32_t i = 0; i < n; i++)
        chain[i] = order[(start + i) % n];
}

/* The chains of all channels, one after the other. */
static peal_status make_chains(const struct planner *planner, uint32_t channels, uint32_t *chains)
{
    uint32_t n = planner->group.n;
    struct ring_orders orders;
    PEAL_TRY(peal_ring_orders_make(planner, ALGO_CHAIN, channels, &orders));
    for (uint32_t c = 0; c < channels; c++)
        chain_from_root(&orders, planner->request.root, c, chains + (size_t)channels * n,
                        chains + (size_t)c * n);
    peal_ring_orders_free(&orders);
    return PEAL_OK;
}

/* The chain's levels are alike but for their links; more than the stages hold share the last. */
static void cost_levels(struct planner *planner, struct candidate *candidate,
                        const uint32_t *chains, uint32_t fan)
{
    struct stage enter = {.levels = 0, .chain = 1, .lane = STAGES_MAX - 1};
    for (uint32_t depth = 1;; depth++) {
        struct stage stage = {.levels = 1, .lane = depth < STAGES_MAX - 4 ? depth : STAGES_MAX - 4};
        if (!load_level(planner, candidate->channels, chains, depth, &stage))
            break;
        enter.alpha_us = stage.alpha_us > enter.alpha_us ? stage.alpha_us : enter.alpha_us;
        enter.levels++;
        stage.gap_us = 0;
        if (candidate->nstages > STAGES_MAX - 4) {
            struct stage *last = &candidate->stage[candidate->nstages - 1];
            last->levels++;
            peal_load_clear(&planner->load);
            continue;
        }
        peal_candidate_stage(planner, candidate, &stage, (double)fan / candidate->channels);
    }
    peal_candidate_stage(planner, candidate, &enter, 0);
    peal_candidate_total(planner, candidate);
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

peal_status peal_rooted_enumerate(struct planner *planner, enum algorithm algo, uint32_t channels)
{
    uint32_t n = planner->group.n;
    uint32_t fan = algo == ALGO_CHAIN ? 1 : ROOTED_CHILDREN;
    struct candidate candidate = {.algo = algo,
                                  .channels = channels,
                                  .max_bytes = UINT64_MAX,
                                  .chunks = channels,
                                  .lanes = channels,
                                  .hop_share = 1.0 / channels};
    peal_status status = PEAL_OK;
    uint32_t *chains = NULL;
    size_t bytes = (size_t)n * (channels + 1) * sizeof *chains;
    if (algo == ALGO_CHAIN) {
        chains = peal_alloc(planner->ctx, bytes); /* the last one is room for an order */
        if (!chains)
            return PEAL_ERR_MEMORY;
        status = make_chains(planner, channels, chains);
    } else {
        for (fan = 0; 1u << fan < n; fan++)
            ;
    }
    if (planner->request.collective == PEAL_REDUCE)
        candidate.slots = 2ull * channels * (fan + BUILD_EVENTS);
    if (status == PEAL_OK)
        cost_levels(planner, &candidate, chains, fan);
    peal_free(planner->ctx, chains, bytes);
    return status == PEAL_OK ? add_tiles(planner, &candidate) : status;
}

static peal_status enumerate(struct planner *planner)
{
    uint32_t asked = planner->request.channels;
    if (planner->group.n < 2)
        return PEAL_OK;
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 && !planner->group.accelerators)
            break;
        PEAL_TRY(peal_rooted_enumerate(planner, ALGO_CHAIN, channels));
    }
    return PEAL_OK;
}

void peal_rooted_prepare(struct build *b, const struct candidate *candidate)
{
    uint32_t depth = b->plan->tile_bytes ? SLOT_DEPTH : 1;
    uint64_t bytes = peal_build_slot_bytes(b);
    b->plan->nsems = (uint16_t)(4 * candidate->channels);
    for (uint32_t c = 0; b->plan->collective == PEAL_REDUCE && c < candidate->channels; c++) {
        peal_build_region(b, PLAN_BUF_SCRATCH, ROOTED_CHILDREN, depth, bytes);
        peal_build_region(b, PLAN_BUF_SCRATCH, BUILD_EVENTS, 1, bytes);
    }
}

void peal_rooted_emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    for (uint32_t c = 0; c < candidate->channels; c++) {
        struct rooted_part part = {.chunk = c,
                                   .region = 2 * c,
                                   .stage_region = 2 * c + 1,
                                   .depth = SLOT_DEPTH,
                                   .sem0 = 4 * c,
                                   .credits = b->plan->tile_bytes != 0};
        part.place = candidate->algo == ALGO_CHAIN
                         ? peal_chain_place(b->rings, c, b->plan->root, rank)
                         : peal_rooted_place(b->plan->nranks, b->plan->root, rank);
        if (b->plan->collective == PEAL_BROADCAST)
            peal_rooted_broadcast(b, &part);
        else
            peal_rooted_reduce(b, &part);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "pipelined chain, %u channel%s", candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_chain = {"chain",          1u << PEAL_BROADCAST | 1u << PEAL_REDUCE,
                                     enumerate,        peal_rooted_prepare,
                                     peal_rooted_emit, detail};
