/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What trees cost: a stage for each level of hops. Lanes of a level do nothing else, so levels
 * overlap between tiles, and what all levels together load the busiest link with is the pace.
 */
#include "packed.h"

#define EVEN_CHUNKS_MAX 512u
#define ENTER_LANE (STAGES_MAX - 1) /* of a stage that runs once, not for each tile */

struct costing {
    struct planner *planner;
    struct packed *packed;
    struct candidate base;
    uint32_t lane[STAGES_MAX]; /* kind of lane that works on a stage */
    uint64_t sent[STAGES_MAX]; /* trees that the busiest rank sends a stage's hops for */
    double gap_us[STAGES_MAX];
};

/* ---- links ---------------------------------------------------------------------------------- */

static void count_sent(const struct costing *c, int way, uint32_t depth, uint64_t *sent,
                       uint64_t *most)
{
    const struct packed *packed = c->packed;
    uint32_t trees = packed->blocks * packed->trees;
    for (uint32_t r = 0; r < packed->n; r++)
        sent[r] = 0;
    for (uint32_t i = 0; i < trees * packed->n; i++) {
        const struct seat *seat = &packed->way[way].seat[i];
        uint32_t from = way == PACKED_UP ? i % packed->n : seat->parent;
        if (seat->depth == depth && ++sent[from] > *most)
            *most = sent[from];
    }
}

/* What a lane's store to all children of a seat is told by, one after the other, besides one. */
static double told_us(const struct packed *packed, int way, uint32_t depth, double gap_us)
{
    uint32_t most = 1;
    if (way == PACKED_UP)
        return 0;
    for (uint32_t i = 0; i < packed->blocks * packed->trees * packed->n; i++) {
        const struct seat *seat = &packed->way[way].seat[i];
        if (seat->depth == depth - 1 && seat->children > most)
            most = seat->children;
    }
    return (most - 1) * gap_us;
}

/* Hops between one depth and the next, each with its tree's share of the message. */
static void cost_level(struct costing *c, int way, uint32_t depth, uint64_t *sent)
{
    const struct packed *packed = c->packed;
    struct stage stage = {.levels = 1, .lane = c->base.nstages};
    double share = 1.0 / ((double)packed->weights * packed->blocks);
    uint32_t at = c->base.nstages;
    int stores = 1;
    for (uint32_t i = 0; i < packed->blocks * packed->trees * packed->n; i++) {
        const struct seat *seat = &packed->way[way].seat[i];
        uint32_t rank = i % packed->n;
        struct hop hop;
        if (seat->depth != depth)
            continue;
        peal_planner_hop(c->planner, way == PACKED_UP ? rank : seat->parent,
                         way == PACKED_UP ? seat->parent : rank, &hop);
        peal_stage_hop(&stage, &hop);
        stores = stores && !peal_plan_engine_async(hop.engine);
        peal_planner_load(c->planner, &hop, share * packed->weight[i / packed->n % packed->trees],
                          hop.scale);
    }
    count_sent(c, way, depth, sent, &c->sent[at]);
    c->gap_us[at] = stage.gap_us;
    if (stores)
        stage.alpha_us += told_us(packed, way, depth, stage.gap_us);
    c->lane[at] = way == PACKED_UP
                      ? depth
                      : peal_packed_leaf_lane(packed) + depth - 1 - packed->way[PACKED_DOWN].levels;
    if (way == PACKED_DOWN && depth == 1 && packed->way[PACKED_UP].levels)
        c->lane[at] = 0;
    peal_candidate_stage(c->planner, &c->base, &stage, 0);
}

/* The root's fold of what has come up, where it passes nothing on. */
static void cost_fold(struct costing *c)
{
    struct stage stage = {.levels = 1, .lane = c->base.nstages};
    c->lane[c->base.nstages] = 0;
    peal_candidate_stage(c->planner, &c->base, &stage, 0);
}

/* Ranks tell their parents that they have entered, or their children that they may leave. */
static void cost_handshake(struct costing *c)
{
    peal_collective collective = c->planner->request.collective;
    struct stage stage = {.levels = 1, .chain = 1, .lane = ENTER_LANE};
    if (collective == PEAL_ALLREDUCE || collective == PEAL_REDUCE_SCATTER)
        return;
    for (uint32_t i = 0; i < c->base.nstages; i++)
        if (c->base.stage[i].alpha_us > stage.alpha_us)
            stage.alpha_us = c->base.stage[i].alpha_us;
    if (c->packed->blocks == 1) /* all of them, one after the other */
        stage.levels = c->packed->way[PACKED_DOWN].levels + c->packed->way[PACKED_UP].levels;
    peal_candidate_stage(c->planner, &c->base, &stage, 0);
}

static void cost_links(struct costing *c, uint64_t *sent)
{
    const struct packed_way *up = &c->packed->way[PACKED_UP], *down = &c->packed->way[PACKED_DOWN];
    for (uint32_t depth = up->levels; depth > 0; depth--)
        cost_level(c, PACKED_UP, depth, sent);
    if (up->levels && !down->levels)
        cost_fold(c);
    for (uint32_t depth = 1; depth <= down->levels; depth++)
        cost_level(c, PACKED_DOWN, depth, sent);
    cost_handshake(c);
    peal_candidate_total(c->planner, &c->base);
}

/* ---- lanes ---------------------------------------------------------------------------------- */

/* What a chunk's step reads and writes, in chunks. */
static double touches(const struct packed *packed, int way, uint32_t chunk, const struct seat *seat)
{
    uint32_t rank = (uint32_t)(seat - peal_packed_seat(packed, way, chunk, 0));
    double sum = 2 + seat->children; /* itself, and one end */
    if (way == PACKED_DOWN)
        return seat->depth == 0 ? sum : seat->children ? sum - 1 : 0;
    if (seat->depth == 0 && packed->way[PACKED_DOWN].levels)
        sum += peal_packed_seat(packed, PACKED_DOWN, chunk, rank)->children;
    return sum;
}

/* work[kind of lane]: of the busiest such lane, as a share of the message; lanes: of a rank.
 * room: for each rank's lanes. */
static uint32_t measure(const struct packed *packed, double *work, double *room)
{
    uint32_t kinds = peal_packed_lane_kinds(packed), most = 0;
    uint32_t per_rank = kinds * packed->channels;
    for (uint32_t k = 0; k < kinds; k++)
        work[k] = 0;
    for (uint32_t r = 0; r < packed->n; r++) {
        uint32_t lanes = 0;
        for (uint32_t i = 0; i < per_rank; i++)
            room[i] = -1;
        for (uint32_t c = 0; c < peal_packed_chunks(packed); c++)
            for (int w = 0; w < PACKED_WAYS; w++) {
                if (!packed->way[w].levels)
                    continue;
                const struct seat *seat = peal_packed_seat(packed, w, c, r);
                double *at = &room[peal_packed_lane(packed, w, seat) * packed->channels +
                                   peal_packed_channel(packed, c)];
                if (w == PACKED_DOWN && seat->depth == 0 && packed->way[PACKED_UP].levels)
                    continue; /* done with the fold */
                lanes += *at < 0;
                *at = (*at < 0 ? 0 : *at) +
                      touches(packed, w, c, seat) / 2 * peal_packed_share(packed, c);
            }
        most = most > lanes ? most : lanes;
        for (uint32_t i = 0; i < per_rank; i++)
            if (room[i] > work[i / packed->channels])
                work[i / packed->channels] = room[i];
    }
    return most;
}

static void set_lanes(const struct costing *c, struct candidate *candidate, const double *work)
{
    for (uint32_t i = 0; i < candidate->nstages; i++) {
        struct stage *stage = &candidate->stage[i];
        if (stage->lane == ENTER_LANE)
            continue;
        uint64_t messages = c->sent[i] * c->packed->pieces;
        stage->gap_us = messages > 1 ? c->gap_us[i] * (double)(messages - 1) : 0;
        peal_stage_lane(c->planner, stage, work[c->lane[i]]);
    }
}

static peal_status add_tiles(struct planner *planner, struct candidate *candidate)
{
    static const uint64_t tiles[] = {0,          32u << 10,  64u << 10, 128u << 10,
                                     256u << 10, 512u << 10, 2u << 20};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        candidate->tile_bytes =
            planner->request.tile_bytes ? planner->request.tile_bytes : tiles[i];
        PEAL_TRY(peal_planner_add(planner, candidate));
        if (planner->request.tile_bytes)
            break;
    }
    return PEAL_OK;
}

/* As few as deal a block evenly, or, where these are many, as give each channel one. */
static uint32_t pieces_for(const struct packed *packed, uint32_t channels)
{
    uint32_t even = channels / (uint32_t)peal_pack_gcd(channels, packed->trees);
    return (uint64_t)packed->blocks * packed->trees * even <= EVEN_CHUNKS_MAX
               ? even
               : (channels + packed->trees - 1) / packed->trees;
}

static peal_status cost_channels(const struct costing *c, uint32_t channels)
{
    struct packed *packed = c->packed;
    uint32_t pieces = pieces_for(packed, channels);
    uint32_t sems = peal_packed_semaphores(packed, c->planner->request.collective);
    double work[2 * PACKED_LEVELS_MAX + 2];
    if ((uint64_t)packed->blocks * packed->trees * pieces > PACKED_CHUNKS_MAX ||
        sems * channels > PLAN_SEMS_MAX)
        return PEAL_OK;
    PEAL_TRY(peal_packed_deal(packed, pieces, channels));
    size_t bytes = peal_packed_lane_kinds(packed) * channels * sizeof(double);
    double *room = peal_alloc(packed->ctx, bytes);
    if (!room)
        return PEAL_ERR_MEMORY;
    struct candidate candidate = c->base;
    candidate.lanes = measure(packed, work, room);
    peal_free(packed->ctx, room, bytes);
    if (candidate.lanes > PLAN_LANES_MAX)
        return PEAL_OK;
    candidate.channels = channels;
    candidate.pieces = pieces;
    candidate.trees = packed->trees;
    candidate.chunks = peal_packed_chunks(packed);
    for (uint32_t i = 0; i < packed->trees; i++) {
        double share = peal_packed_share(packed, i * pieces);
        candidate.hop_share = share > candidate.hop_share ? share : candidate.hop_share;
    }
    candidate.chunk_share = packed->weighted ? candidate.hop_share : 0;
    if (packed->way[PACKED_UP].levels)
        candidate.slots = 2ull * channels * (packed->width + packed->stages);
    set_lanes(c, &candidate, work);
    return add_tiles(c->planner, &candidate);
}

static peal_status cost_all_channels(const struct costing *c)
{
    static const uint32_t some[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
    uint32_t asked = c->planner->request.channels, trees = c->packed->trees;
    if (asked)
        return cost_channels(c, asked);
    if (trees > 4 && trees <= CHANNELS_MAX && trees != 6 && trees != 8 && trees != 12 &&
        trees != 16 && trees != 24)
        PEAL_TRY(cost_channels(c, trees)); /* one for each */
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
        PEAL_TRY(cost_channels(c, some[i]));
    return PEAL_OK;
}

peal_status peal_packed_cost(struct planner *planner, const struct candidate *with,
                             struct packed *packed)
{
    struct costing c = {.planner = planner, .packed = packed, .base = *with};
    uint64_t *sent = peal_calloc(packed->ctx, packed->n, sizeof *sent);
    if (!sent)
        return PEAL_ERR_MEMORY;
    cost_links(&c, sent);
    peal_free(packed->ctx, sent, packed->n * sizeof *sent);
    return cost_all_channels(&c);
}
