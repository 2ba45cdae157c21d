/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What trees cost: a stage for each level of hops. Lanes of a level do nothing else, so levels
 * overlap between tiles, and what all levels together load the busiest link with is the pace.
 */
#include "packed.h"

#include <string.h>

#define PROOF_MAX 3.7e6
#define EVEN_TILE (64u << 10)
#define MEETING_LANES 4             /* of a link, of which some move at any time */
#define ENTER_LANE (STAGES_MAX - 1) /* of a stage that runs once, not for each tile */

struct costing {
    struct planner *planner;
    struct packed *packed;
    struct candidate base;
    uint32_t lane[STAGES_MAX];   /* kind of lane that works on a stage */
    uint32_t fold;               /* the roots' stage, where anything climbs */
    double hop_us[STAGES_MAX];   /* the longest start-up of a level's hops */
    int stores[STAGES_MAX];      /* 1: lanes do all of the stage's hops */
    int from_root[STAGES_MAX];   /* 1: of what roots pass on */
    int up[STAGES_MAX];          /* 1: into slots */
    double meets_us[STAGES_MAX]; /* a byte over the narrowest link on which lanes may meet; 0 */
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* ---- links ---------------------------------------------------------------------------------- */

/* Hops between one depth and the next, each with its tree's share of the message. */
static void cost_level(struct costing *c, int way, uint32_t depth)
{
    const struct packed *packed = c->packed;
    struct stage stage = {.levels = 1, .lane = c->base.nstages, .depth = UINT32_MAX};
    double share = 1.0 / ((double)packed->weights * packed->blocks);
    uint32_t at = c->base.nstages;
    int stores = 1;
    double link_us = 0;
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
        double us = peal_load_alone(&hop.path, hop.scale);
        link_us = larger(link_us, us);
        peal_planner_load(c->planner, &hop, share * packed->weight[i / packed->n % packed->trees],
                          hop.scale);
    }
    c->stores[at] = stores;
    c->meets_us[at] = stores ? link_us : 0;
    c->up[at] = way == PACKED_UP;
    c->lane[at] = way == PACKED_UP
                      ? depth
                      : peal_packed_leaf_kind(packed) + depth - 1 - packed->way[PACKED_DOWN].levels;
    c->from_root[at] = way == PACKED_DOWN && depth == 1;
    peal_candidate_stage(c->planner, &c->base, &stage, 0);
}

/* The root's fold of what has come up, where no step both folds and passes on. */
static void cost_fold(struct costing *c)
{
    struct stage stage = {.levels = 1, .lane = c->base.nstages, .depth = UINT32_MAX};
    c->fold = c->base.nstages;
    c->lane[c->base.nstages] = 0;
    c->stores[c->base.nstages] = 1;
    peal_candidate_stage(c->planner, &c->base, &stage, 0);
}

/* Start-ups from the rank `index` stands for to its root, or back, along one tree. In an allgather
 * nobody stores into a rank before it has said that it has entered. */
static double way_us(const struct costing *c, int way, uint32_t index)
{
    const struct packed *packed = c->packed;
    const struct seat *seats = packed->way[way].seat;
    uint32_t tree = index / packed->n * packed->n;
    int enters = c->planner->request.collective == PEAL_ALLGATHER;
    double sum = 0, latest = 0;
    for (uint32_t at = index; seats[at].parent != NO_RANK; at = tree + seats[at].parent) {
        const struct packed_link *link =
            peal_packed_link(packed, way, at % packed->n, seats[at].parent);
        sum += link->alpha_us;
        latest = larger(latest, enters ? sum + link->back_us : sum);
    }
    return latest;
}

/* The start-ups of all levels together are those of the longest way along a tree. */
static void set_way(struct costing *c, int way, uint32_t first)
{
    const struct packed *packed = c->packed;
    uint32_t levels = packed->way[way].levels;
    double longest = 0;
    for (uint32_t i = 0; i < packed->blocks * packed->trees * packed->n; i++) {
        const struct seat *seat = &packed->way[way].seat[i];
        if (!seat->children && seat->parent != NO_RANK)
            longest = larger(longest, way_us(c, way, i));
    }
    for (uint32_t i = first; i < first + levels; i++) {
        c->hop_us[i] = c->base.stage[i].alpha_us;
        c->base.stage[i].alpha_us = longest / levels;
    }
}

/* From all ranks to the root, or back, along the first tree. */
static double first_way_us(const struct costing *c, int way)
{
    double longest = 0;
    for (uint32_t i = 0; i < c->packed->n; i++)
        if (c->packed->way[way].seat[i].parent != NO_RANK)
            longest = larger(longest, way_us(c, way, i));
    return longest;
}

/* What a rank's signals to its parents, that it has entered, cost the lane or engine that has most
 * of them to send, besides the first. */
static double greeting_us(const struct packed *packed, uint32_t rank)
{
    const struct packed_way *down = &packed->way[PACKED_DOWN];
    double pushed = 0, most = 0;
    for (uint32_t depth = 1; depth <= down->levels; depth++) {
        uint8_t told[PACKED_RANKS_MAX] = {0};
        double stored = 0;
        for (uint32_t t = 0; t < packed->blocks * packed->trees; t++) {
            const struct seat *seat = &down->seat[(size_t)t * packed->n + rank];
            if (seat->depth != depth || told[seat->parent])
                continue;
            const struct packed_link *link =
                peal_packed_link(packed, PACKED_DOWN, rank, seat->parent);
            told[seat->parent] = 1;
            *(link->stores ? &stored : &pushed) += link->gap_us;
            most = larger(most, link->gap_us);
        }
        most = larger(most, stored);
    }
    return larger(most, pushed);
}

/* What a rank's signals to its children of the first tree, that they may leave, cost besides one.
 */
static double leaving_us(const struct packed *packed, uint32_t rank)
{
    const struct seat *seat = &packed->way[PACKED_UP].seat[rank];
    const uint32_t *child = packed->way[PACKED_UP].child + seat->first_child;
    double us = 0;
    for (uint32_t i = 1; i < seat->children; i++)
        us += peal_packed_link(packed, PACKED_UP, child[i], rank)->gap_us;
    return us;
}

/* Ranks tell their parents that they have entered, or their children that they may leave. */
static void cost_handshake(struct costing *c)
{
    peal_collective collective = c->planner->request.collective;
    const struct packed *packed = c->packed;
    struct stage stage = {.levels = 1, .chain = 1, .lane = ENTER_LANE};
    if (collective == PEAL_ALLREDUCE || collective == PEAL_REDUCE_SCATTER)
        return;
    if (collective != PEAL_ALLGATHER) /* all of them, one after the other */
        stage.alpha_us = first_way_us(c, collective == PEAL_REDUCE ? PACKED_UP : PACKED_DOWN);
    for (uint32_t r = 0; collective == PEAL_ALLGATHER && r < packed->n; r++)
        stage.alpha_us = larger(stage.alpha_us, greeting_us(packed, r));
    double leave_us = 0;
    for (uint32_t r = 0; collective == PEAL_REDUCE && r < packed->n; r++)
        leave_us = larger(leave_us, leaving_us(packed, r));
    stage.alpha_us += leave_us;
    peal_candidate_stage(c->planner, &c->base, &stage, 0);
}

static void cost_links(struct costing *c)
{
    const struct packed_way *up = &c->packed->way[PACKED_UP], *down = &c->packed->way[PACKED_DOWN];
    for (uint32_t depth = up->levels; depth > 0; depth--)
        cost_level(c, PACKED_UP, depth);
    if (up->levels)
        cost_fold(c);
    uint32_t first = c->base.nstages;
    for (uint32_t depth = 1; depth <= down->levels; depth++)
        cost_level(c, PACKED_DOWN, depth);
    if (up->levels)
        set_way(c, PACKED_UP, 0);
    if (down->levels)
        set_way(c, PACKED_DOWN, first);
    cost_handshake(c);
    peal_candidate_total(c->planner, &c->base);
}

/* ---- lanes ---------------------------------------------------------------------------------- */

static const struct packed_work *work_of(const struct costing *c, const struct packed_work *work,
                                         uint32_t stage)
{
    return &work[c->from_root[stage] && peal_packed_fused(c->packed) ? 0 : c->lane[stage]];
}

static double step_us(const struct packed_work *work)
{
    return work->hops ? work->us / work->hops : 0;
}

static void add_stage(struct candidate *candidate, struct stage stage)
{
    stage.lane = candidate->nstages;
    stage.alone_us_per_byte = stage.us_per_byte;
    if (candidate->nstages < ENTER_LANE)
        candidate->stage[candidate->nstages++] = stage;
}

/* Between two tiles of a lane that partial sums wait for: both ends move a chunk, or fold it, in
 * the round trip of a credit, with so many tiles under way. */
static void add_credit(const struct costing *c, struct candidate *candidate,
                       const struct packed_work *work)
{
    struct stage credit = {.depth = 1};
    double tiles = c->packed->depth; /* in the start-ups there and back, and a step at either end */
    for (uint32_t i = 0; candidate->tile_bytes && i < c->base.nstages; i++) {
        const struct stage *stage = &candidate->stage[i];
        const struct packed_work *own = work_of(c, work, i);
        if (stage->lane == ENTER_LANE || !own->hops || !c->up[i])
            continue;
        /* What comes up is folded by the next kind of lanes. */
        int alone = c->stores[i] && c->packed->by_link; /* channels meet on links */
        double moves_us = alone ? 0 : stage->us_per_byte / own->hops;
        double us = larger(moves_us, step_us(own)) + step_us(own - 1);
        credit.alpha_us = larger(credit.alpha_us, c->hop_us[i] / tiles);
        credit.us_per_byte = larger(credit.us_per_byte, us / tiles);
    }
    if (credit.us_per_byte > 0)
        add_stage(candidate, credit);
}

/*
 * Between two tiles of a lane whose hops another engine carries, so many at a time. What is there
 * to be handed on leaves at one time, so that the link rests for a start-up until all has arrived,
 * but for what other lanes send; folds leave one after the other. (Of copy engines, and of a
 * channel's lanes, all hops of a level are taken to be on one link.)
 */
static void add_flight(const struct costing *c, struct candidate *candidate,
                       const struct packed_work *work)
{
    for (uint32_t i = 0; i < c->base.nstages; i++) {
        const struct packed_work *own = work_of(c, work, i);
        uint32_t nets = own->sent_hops, hops = nets ? nets : own->hops;
        uint32_t events =
            peal_packed_events(c->packed, c->up[i] ? PACKED_UP : PACKED_DOWN, nets > 0);
        uint32_t ahead = hops < events ? hops : events;
        struct stage flight = {.depth = 1, .in_step = 1};
        if (candidate->stage[i].lane == ENTER_LANE || c->stores[i] || !hops)
            continue;
        flight.alpha_us = c->hop_us[i] / 2 * hops / ahead;
        flight.us_per_byte = nets ? own->sent_us : candidate->stage[i].us_per_byte;
        flight.beside_us_per_byte = own->beside_us;
        if (nets && own->folded) {
            flight.depth = ahead;
            flight.alpha_us *= ahead;
        }
        add_stage(candidate, flight);
    }
}

static void add_pace(struct candidate *candidate, double us_per_byte, double waits_us)
{
    /* Of depth 1: twice the start-up. */
    add_stage(candidate,
              (struct stage){.depth = 1, .us_per_byte = us_per_byte, .alpha_us = waits_us / 2});
}

/* A lane stands still between the signals of each step, which its links do not notice unless it has
 * hardly less to do than they have. */
static void add_waits(const struct costing *c, struct candidate *candidate,
                      const struct packed_work *work)
{
    add_pace(candidate, work->links_us, c->packed->blocks > 1 ? work->links_waits_us : 0);
    if (work->held_waits_us > 0)
        add_pace(candidate, work->held_us, work->held_waits_us);
    for (uint32_t k = 0; k < peal_packed_lane_kinds(c->packed); k++)
        if (work[k].waits_us > 0)
            add_pace(candidate, work[k].us, work[k].waits_us);
}

/* A root's other lanes begin when its first one has written the output: once, in a pipeline. */
static void add_root(const struct costing *c, struct candidate *candidate,
                     const struct packed_work *work)
{
    const struct packed *packed = c->packed;
    if (!packed->by_link || !packed->nsems[PACKED_WAYS] || candidate->nstages >= ENTER_LANE)
        return;
    struct stage begin = {.levels = 1, .chain = 1, .lane = ENTER_LANE};
    begin.us_per_byte = begin.alone_us_per_byte =
        step_us(&work[peal_packed_leaf_kind(packed) - packed->way[PACKED_DOWN].levels]) *
        candidate->cells;
    candidate->stage[candidate->nstages++] = begin;
}

/* Lanes hand on chunk by chunk: the first one is through when each level has moved the part of a
 * tile that a lane's step is. What is taken once in a trip, or overlaps in it, counts for a part of
 * it. */
static void cut_cells(const struct costing *c, struct candidate *candidate,
                      const struct packed_work *work)
{
    struct stage fill = {.levels = 1, .chain = 1, .lane = ENTER_LANE};
    uint32_t cells = 1;
    if (!c->packed->by_link || candidate->nstages >= ENTER_LANE)
        return;
    fill.resource = candidate->total_resource;
    for (uint32_t i = 0; i < c->base.nstages; i++) {
        struct stage *stage = &candidate->stage[i];
        uint32_t hops = work_of(c, work, i)->hops;
        if (stage->lane == ENTER_LANE)
            continue;
        cells = hops > cells ? hops : cells;
        fill.alpha_us += stage->alpha_us;
        fill.us_per_byte += stage->us_per_byte / (hops ? hops : 1);
        fill.lane_bound |= stage->lane_bound && stage->us_per_byte > candidate->total_us_per_byte;
        stage->levels = 0;
    }
    for (uint32_t i = 0; i < candidate->nstages; i++) {
        candidate->stage[i].gap_us /= cells;
        if (!candidate->stage[i].levels)
            candidate->stage[i].alpha_us /= cells;
    }
    candidate->cells = cells;
    fill.us_per_byte *= cells; /* of what is one cell of a tile */
    fill.alone_us_per_byte = fill.us_per_byte;
    candidate->stage[candidate->nstages++] = fill;
    add_root(c, candidate, work);
}

/* Channels go round the other ranks; as many as there are others, or twice as many, or as few as
 * begin evenly spread, keep to different ones. */
static int keep_apart(const struct packed *packed)
{
    uint32_t others = packed->n - 1;
    return packed->channels % others == 0 || others % packed->channels == 0;
}

/*
 * How much longer a lane takes over its links than alone, where each rank is a root and trees are
 * of one level. Lanes of a rank that begin with different links and take equally long over each
 * never meet; others do, and then stay together, until there are many for each link: the shares of
 * the links that lanes keep busy were read off simulations of meshes (7 links, and 7, 8 or 12
 * lanes: 62, 44 and 54 %; 3 links and 24 lanes: 98 %).
 */
static double meeting(const struct costing *c, uint32_t stage)
{
    const struct packed *packed = c->packed;
    double others = packed->n - 1, lanes = packed->channels / others; /* of each link */
    if (packed->by_link || packed->channels == 1 || packed->blocks == 1 ||
        c->meets_us[stage] <= 0 || keep_apart(packed))
        return 1;
    double few = 1 + 1.3 * (packed->channels - 1) / others;
    double many = lanes < MEETING_LANES ? lanes + 1.65 / lanes : lanes;
    return few < many ? few : many;
}

static void set_lanes(const struct costing *c, struct candidate *candidate,
                      const struct packed_work *work)
{
    for (uint32_t i = 0; i < candidate->nstages; i++) {
        struct stage *stage = &candidate->stage[i];
        if (stage->lane == ENTER_LANE)
            continue;
        if (i == c->fold && c->packed->way[PACKED_UP].levels && peal_packed_fused(c->packed)) {
            stage->levels = 0;
            continue;
        }
        const struct packed_work *own = work_of(c, work, i);
        double us = larger(own->fold_us, own->us * meeting(c, i));
        stage->gap_us = own->gap_us;
        if (c->up[i] && c->packed->by_link) /* leaves so near the root are not the last ones */
            stage->gap_us = larger(0, stage->gap_us - i * stage->alpha_us);
        stage->alpha_us += own->told_us;
        stage->lane_bound = us > stage->load_us;
        stage->us_per_byte = us > stage->load_us ? us : stage->load_us;
        stage->alone_us_per_byte = us > stage->alone_load_us ? us : stage->alone_load_us;
    }
    if (c->packed->by_link && c->planner->request.collective == PEAL_ALLGATHER)
        candidate->stage[c->base.nstages - 1].alpha_us = c->packed->greeting_us;
    add_credit(c, candidate, work);
    add_flight(c, candidate, work);
    add_waits(c, candidate, work);
    cut_cells(c, candidate, work);
}

/* 1: a rank's lanes meet on its one port in any case, whatever they do there. */
static int one_port(const struct packed *packed)
{
    int flat = packed->way[PACKED_UP].levels <= 1 && packed->way[PACKED_DOWN].levels <= 1;
    return packed->ported && (flat || (packed->blocks == 1 && packed->trees == 1));
}

/* 1: a pipeline of so many hops by so many lanes takes seconds to prove, with a clock that has a
 * component for each lane. */
static int long_proof(const struct packed *packed, uint32_t lanes)
{
    int ways = (packed->way[PACKED_UP].levels > 0) + (packed->way[PACKED_DOWN].levels > 0);
    return (double)peal_packed_chunks(packed) * ways * packed->n * packed->n * lanes > PROOF_MAX;
}

/* Tiles make a pipeline, in which no lane may wait for others on a link while another link is idle:
 * links have lanes of their own, or there is one for all, or channels go round one way, evenly
 * spread. What waits for slots does not stay so in short tiles. */
static int may_tile(const struct packed *packed, uint64_t tile_bytes)
{
    uint32_t up = packed->way[PACKED_UP].levels, down = packed->way[PACKED_DOWN].levels;
    if (!tile_bytes || (packed->by_link && !one_port(packed)) ||
        (one_port(packed) && packed->blocks == 1))
        return 1;
    return !packed->by_link && (one_port(packed) || up + down == 1) && packed->blocks > 1 &&
           keep_apart(packed) && (!up || tile_bytes >= EVEN_TILE);
}

static peal_status add_tiles(const struct costing *c, struct candidate *candidate,
                             const struct packed_work *work)
{
    struct planner *planner = c->planner;
    const struct packed *packed = c->packed;
    static const uint64_t tiles[] = {0,          32u << 10,  64u << 10, 128u << 10,
                                     256u << 10, 512u << 10, 2u << 20};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        if (!planner->request.tile_bytes && !may_tile(packed, tiles[i]))
            continue;
        if (tiles[i] && packed->by_link && !planner->request.channels &&
            long_proof(packed, candidate->lanes))
            continue;
        candidate->tile_bytes =
            planner->request.tile_bytes ? planner->request.tile_bytes : tiles[i];
        uint32_t slots = packed->width * (candidate->tile_bytes ? packed->depth / SLOT_DEPTH : 1);
        if (packed->way[PACKED_UP].levels)
            candidate->slots = 2ull * packed->regions * (slots + packed->stages);
        candidate->nstages = c->base.nstages;
        memcpy(candidate->stage, c->base.stage, c->base.nstages * sizeof c->base.stage[0]);
        set_lanes(c, candidate, work);
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

/* 1: two ranks have too many lanes to do with each other. Of channels, each depth has a semaphore
 * for those that pass on, and one for those that hear. */
static int too_many_sems(const struct packed *packed, peal_collective collective)
{
    const struct packed_way *way = packed->way;
    uint32_t down = collective == PEAL_ALLGATHER ? 4 : 2;
    if (packed->by_link)
        return peal_packed_semaphores(packed, collective) > PLAN_SEMS_MAX;
    return (2 * way[PACKED_UP].levels + down * way[PACKED_DOWN].levels) * packed->channels >=
           PLAN_SEMS_MAX;
}

static peal_status cost_dealt(const struct costing *c)
{
    const struct packed *packed = c->packed;
    struct candidate candidate = c->base;
    struct packed_work work[PACKED_KINDS_MAX];
    double fold_us;
    if (packed->by_link && c->planner->request.collective == PEAL_ALLGATHER)
        PEAL_TRY(peal_packed_greeting(packed, &c->packed->greeting_us));
    PEAL_TRY(peal_packed_measure(c->planner, packed, work, &candidate.lanes, &fold_us));
    if (candidate.lanes > PLAN_LANES_MAX)
        return PEAL_OK;
    candidate.total_us_per_byte = larger(fold_us, candidate.total_us_per_byte);
    candidate.alone_total_us_per_byte = larger(fold_us, candidate.alone_total_us_per_byte);
    candidate.channels = packed->channels;
    candidate.variant = packed->by_link;
    candidate.pieces = packed->pieces;
    candidate.trees = packed->trees;
    candidate.chunks = peal_packed_chunks(packed);
    for (uint32_t i = 0; i < packed->trees; i++)
        candidate.hop_share =
            larger(candidate.hop_share, peal_packed_share(packed, i * packed->pieces));
    candidate.chunk_share = packed->weighted ? candidate.hop_share : 0;
    return add_tiles(c, &candidate, work);
}

/* 1: channels that begin with different trees would meet on links, and wait for each other's. */
static int would_meet(const struct packed *packed, uint32_t channels)
{
    return channels > 1 && !one_port(packed) &&
           (packed->way[PACKED_UP].levels > 1 || packed->way[PACKED_DOWN].levels > 1);
}

static peal_status cost_channels(const struct costing *c, uint32_t channels, uint32_t pieces,
                                 int by_link)
{
    struct packed *packed = c->packed;
    if ((!by_link && !c->planner->request.channels && would_meet(packed, channels)) ||
        (uint64_t)packed->blocks * packed->trees * pieces > PACKED_CHUNKS_MAX)
        return PEAL_OK;
    peal_status status = peal_packed_deal(packed, pieces, channels, by_link);
    if (status == PEAL_OK && by_link)
        status = peal_packed_number_sems(packed);
    if (status != PEAL_OK)
        return status == PEAL_ERR_LIMIT ? PEAL_OK : status;
    return too_many_sems(packed, c->planner->request.collective) ? PEAL_OK : cost_dealt(c);
}

/* So many lanes for each link of a rank, and as many hops as lanes. */
static peal_status cost_links_dealt(const struct costing *c)
{
    static const uint32_t some[] = {1, 2, 3, 4, 6, 8, 12};
    const struct packed *packed = c->packed;
    uint32_t asked = c->planner->request.channels;
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        uint32_t each = asked ? asked : some[i], lanes = each * (packed->neighbours + 1);
        uint32_t hops = packed->blocks * packed->trees * (packed->n - 1) / packed->n;
        if (lanes <= PLAN_LANES_MAX)
            PEAL_TRY(cost_channels(c, each, (lanes + hops) / (hops + 1), 1));
        if (asked || one_port(packed)) /* for short messages, which then need not take turns */
            break;
    }
    return PEAL_OK;
}

static peal_status cost_all_channels(const struct costing *c)
{
    static const uint32_t some[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
    uint32_t asked = c->planner->request.channels,
             turns = c->packed->blocks > 1 ? c->packed->n - 1 : c->packed->trees;
    if (!one_port(c->packed) || c->packed->blocks > 1)
        PEAL_TRY(cost_links_dealt(c));
    if (asked)
        return cost_channels(c, asked, pieces_for(c->packed, asked), 0);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
        PEAL_TRY(cost_channels(c, some[i], pieces_for(c->packed, some[i]), 0));
    for (uint32_t channels = turns; channels > 4 && channels <= CHANNELS_MAX; channels *= 2) {
        int costed = 0;
        for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
            costed |= channels == some[i];
        if (!costed)
            PEAL_TRY(cost_channels(c, channels, pieces_for(c->packed, channels), 0));
    }
    return PEAL_OK;
}

peal_status peal_packed_cost(struct planner *planner, const struct candidate *with,
                             struct packed *packed)
{
    struct costing c = {.planner = planner, .packed = packed, .base = *with};
    cost_links(&c);
    peal_status status = peal_packed_measure_seats(planner, packed);
    if (status == PEAL_OK)
        status = cost_all_channels(&c);
    peal_packed_forget_seats(packed);
    return status;
}
