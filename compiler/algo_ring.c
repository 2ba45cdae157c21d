/* SPDX-License-Identifier: Apache-2.0 */
/* Ring allreduce over several channels: 2 (N - 1) start-ups, 2 (N - 1) / N S over each link. The
 * channels run as peal finds them, or as a graph file of NCCL's has them. */
#include "compiler.h"

#include <stdio.h>

#define RING_TILE_MAX (4ull << 20)
#define RING_TILE_MIN (64ull << 10)

/* The largest tile whose slots fit the bound. */
static uint64_t ring_tile(const struct planner *planner, uint64_t slots)
{
    if (planner->request.tile_bytes)
        return planner->request.tile_bytes;
    uint64_t tile = RING_TILE_MAX;
    while (tile > RING_TILE_MIN && tile * slots * SLOT_DEPTH > planner->request.scratch_limit)
        tile /= 2;
    return tile;
}

static peal_status cost_channels(struct planner *planner, enum algorithm algo, uint32_t channels,
                                 const struct ring_orders *orders, uint32_t *order)
{
    uint32_t n = planner->group.n;
    uint64_t slots = 2ull * peal_ring_width(n) * channels;
    int once = planner->request.collective != PEAL_ALLREDUCE; /* round the ring */
    struct candidate candidate = {.algo = algo,
                                  .channels = channels,
                                  .tile_bytes = ring_tile(planner, slots),
                                  .max_bytes = UINT64_MAX,
                                  .chunks = n * channels,
                                  .lanes = channels,
                                  .slots = slots,
                                  .hop_share = 1.0 / n / channels};
    struct stage stage = {.levels = (once ? 1 : 2) * (n - 1), .chain = 1};
    int direct = 1;
    for (uint32_t c = 0; c < channels; c++) {
        peal_ring_order(orders, c, order);
        for (uint32_t p = 0; p < n; p++) {
            struct hop hop;
            peal_planner_hop(planner, order[p], order[(p + 1) % n], &hop);
            peal_stage_hop(&stage, &hop);
            direct = direct && hop.path.direct;
            peal_planner_load(planner, &hop, candidate.hop_share, hop.scale);
        }
    }
    stage.gap_us = 0; /* one message at a time in each direction: nothing queues behind it */
    /* Two sources and a destination in one half of the steps, one and one in the other, and two
     * destinations between: one and a half on the whole. Where another engine moves, the lane
     * only folds. */
    peal_candidate_stage(planner, &candidate, &stage, (direct ? 1.5 : 0.75) * candidate.hop_share);
    peal_candidate_total(planner, &candidate);
    if (planner->request.collective == PEAL_ALLGATHER) { /* no slots, nothing to tile for */
        candidate.slots = candidate.tile_bytes = 0;
        return peal_planner_add(planner, &candidate);
    }
    PEAL_TRY(peal_planner_add(planner, &candidate));
    candidate.tile_bytes = 0; /* half the slots, as long as whole chunks fit the bound */
    return planner->request.tile_bytes ? PEAL_OK : peal_planner_add(planner, &candidate);
}

/* All numbers of channels, or the one asked for; what fills a mesh evenly besides. */
static peal_status cost_all(struct planner *planner, uint32_t asked, uint32_t most,
                            const struct ring_orders *orders, uint32_t *order)
{
    for (uint32_t channels = asked ? asked : 1; channels <= most;
         channels = asked ? UINT32_MAX : channels * 2)
        PEAL_TRY(cost_channels(planner, ALGO_RING, channels, orders, order));
    uint32_t rings = peal_ring_count(orders);
    if (asked || !(rings & (rings - 1)))
        return PEAL_OK;
    for (uint32_t channels = rings; channels <= most; channels *= 2)
        PEAL_TRY(cost_channels(planner, ALGO_RING, channels, orders, order));
    return PEAL_OK;
}

static peal_status enumerate_orders(struct planner *planner, enum algorithm algo, uint32_t asked,
                                    uint32_t most)
{
    struct ring_orders orders;
    uint32_t n = planner->group.n;
    PEAL_TRY(peal_ring_orders_make(planner, algo, asked ? asked : most, &orders));
    uint32_t *order = peal_alloc(planner->ctx, n * sizeof *order);
    peal_status status = PEAL_ERR_MEMORY;
    if (order && algo == ALGO_RING)
        status = cost_all(planner, asked, most, &orders, order);
    else if (order)
        status = cost_channels(planner, algo, asked, &orders, order);
    peal_ring_orders_free(&orders);
    peal_free(planner->ctx, order, n * sizeof *order);
    return status;
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    /* Lanes of a host process share its core; across many hosts more channels than ranks of a
     * host find no further NIC. */
    uint32_t most = !group->accelerators ? 1 : group->nhosts > 8 ? 16 : CHANNELS_MAX;
    if (group->n < 2 || planner->request.channels > most)
        return PEAL_OK;
    return enumerate_orders(planner, ALGO_RING, planner->request.channels, most);
}

/* As many channels as a graph file has, each as it says. */
static peal_status enumerate_given(struct planner *planner)
{
    const struct topo_orders *rings = peal_group_orders(planner, peal_topo_rings);
    if (!rings || rings->channels > CHANNELS_MAX)
        return PEAL_OK;
    return enumerate_orders(planner, ALGO_NCCL_RING, rings->channels, rings->channels);
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    uint32_t depth = b->plan->tile_bytes ? SLOT_DEPTH : 1;
    b->plan->nchunks = candidate->chunks;
    b->plan->nsems = (uint16_t)(3 * candidate->channels);
    uint32_t width = peal_ring_width(b->plan->nranks);
    for (uint32_t c = 0; c < candidate->channels; c++) {
        if (b->plan->collective != PEAL_ALLGATHER)
            peal_build_region(b, PLAN_BUF_SCRATCH, width, depth, peal_build_slot_bytes(b));
        if (b->plan->collective == PEAL_REDUCE_SCATTER)
            peal_build_region(b, PLAN_BUF_SCRATCH, BUILD_EVENTS, 1, peal_build_slot_bytes(b));
    }
}

static void emit_body(struct build *b, struct ring_part *part, uint32_t channel)
{
    switch (b->plan->collective) {
    case PEAL_REDUCE_SCATTER:
        part->chunk0 = channel;
        part->region = 2 * channel;
        part->stage_region = 2 * channel + 1;
        peal_build_section(b, 1);
        peal_ring_reduce_scatter(b, part);
        break;
    case PEAL_ALLGATHER:
        part->chunk0 = channel;
        peal_ring_enter(b, part);
        peal_build_section(b, 1);
        peal_ring_allgather(b, part);
        break;
    default:
        peal_build_section(b, 1);
        peal_ring_body(b, part);
    }
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    uint32_t n = b->plan->nranks;
    for (uint32_t c = 0; c < candidate->channels; c++) {
        struct members members = peal_ring_members(b, c);
        struct ring_part part = {.n = n,
                                 .self = peal_ring_position(b->rings, c, rank),
                                 .of = &members,
                                 .chunk0 = c * n,
                                 .in_buffer = PLAN_BUF_IN,
                                 .region = c,
                                 .width = peal_ring_width(n),
                                 .sem0 = 3 * c,
                                 .channels = candidate->channels};
        part.credits = b->plan->tile_bytes != 0 || part.width < n - 1;
        peal_build_lane(b);
        emit_body(b, &part, c);
        peal_build_drain(b);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "reduce-scatter and allgather, %u channel%s%s", candidate->channels,
             candidate->channels == 1 ? "" : "s",
             candidate->algo == ALGO_NCCL_RING ? " as in the graph file" : "");
}

#define SERVES (1u << PEAL_ALLREDUCE | 1u << PEAL_REDUCE_SCATTER | 1u << PEAL_ALLGATHER)
const struct algo peal_algo_ring = {"ring", SERVES, enumerate, prepare, emit, detail};
const struct algo peal_algo_nccl_ring = {"nccl-ring", SERVES, enumerate_given,
                                         prepare,     emit,   detail};
