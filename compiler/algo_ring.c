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

static void order_of(const struct planner *planner, enum algorithm algo, uint32_t channel,
                     uint32_t *order)
{
    const struct topo_orders *rings = peal_topo_rings(planner->fabric);
    if (algo != ALGO_NCCL_RING) {
        peal_ring_order(planner, channel, order);
        return;
    }
    for (uint32_t r = 0; r < planner->group.n; r++) /* host by host */
        order[r] = r - r % rings->ranks + rings->order[channel * rings->ranks + r % rings->ranks];
}

static peal_status cost_channels(struct planner *planner, enum algorithm algo, uint32_t channels,
                                 uint32_t *order)
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
        order_of(planner, algo, c, order);
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

/* As many channels as a graph file has, each as it says. */
static peal_status enumerate_given(struct planner *planner)
{
    const struct topo_orders *rings = peal_group_orders(planner, peal_topo_rings);
    if (!rings || rings->channels > CHANNELS_MAX)
        return PEAL_OK;
    uint32_t n = planner->group.n;
    uint32_t *order = peal_alloc(planner->ctx, n * sizeof *order);
    if (!order)
        return PEAL_ERR_MEMORY;
    peal_status status = cost_channels(planner, ALGO_NCCL_RING, rings->channels, order);
    peal_free(planner->ctx, order, n * sizeof *order);
    return status;
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    peal_status status = PEAL_OK;
    if (group->n < 2)
        return PEAL_OK;
    uint32_t *order = peal_alloc(planner->ctx, group->n * sizeof *order);
    if (!order)
        return PEAL_ERR_MEMORY;
    uint32_t asked = planner->request.channels;
    for (uint32_t channels = asked ? asked : 1; status == PEAL_OK && channels <= CHANNELS_MAX;
         channels = asked ? UINT32_MAX : channels * 2) {
        /* Lanes of a host process share its core; across many hosts more channels than ranks
         * of a host find no further NIC. */
        if (channels > 1 && (!group->accelerators || (group->nhosts > 8 && channels > 16)))
            break;
        status = cost_channels(planner, ALGO_RING, channels, order);
    }
    /* What fills a mesh evenly, where that is no power of two. */
    uint32_t rings = peal_ring_count(planner);
    for (uint32_t channels = rings; status == PEAL_OK && !asked && group->accelerators &&
                                    (rings & (rings - 1)) && channels <= CHANNELS_MAX;
         channels *= 2)
        status = cost_channels(planner, ALGO_RING, channels, order);
    peal_free(planner->ctx, order, group->n * sizeof *order);
    return status;
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
    peal_ctx *ctx = b->plan->ctx;
    uint32_t *order = peal_alloc(ctx, n * sizeof *order);
    if (!order) {
        b->status = PEAL_ERR_MEMORY;
        return;
    }
    for (uint32_t c = 0; c < candidate->channels; c++) {
        struct ring_part part = {.n = n,
                                 .members = order,
                                 .chunk0 = c * n,
                                 .in_buffer = PLAN_BUF_IN,
                                 .region = c,
                                 .width = peal_ring_width(n),
                                 .sem0 = 3 * c,
                                 .channels = candidate->channels};
        part.credits = b->plan->tile_bytes != 0 || part.width < n - 1;
        order_of(b->planner, candidate->algo, c, order);
        while (order[part.self] != rank)
            part.self++;
        peal_build_lane(b);
        emit_body(b, &part, c);
        peal_build_drain(b);
    }
    peal_free(ctx, order, n * sizeof *order);
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
