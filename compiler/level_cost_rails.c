/* SPDX-License-Identifier: Apache-2.0 */
/* What gather and scatter by rail take: blocks between ranks, the heads of their rails, the root.
 */
#include "level_cost.h"

/* A block of each rank between ranks of other units and the heads of their rails, or of all units
 * between those and the root: the hop there, and what the root's lanes take for storing one block
 * after the other, a byte of the message. */
static peal_status load_rails(struct level_costing *c, int inner, struct traffic *traffic,
                              double *in_turn)
{
    const struct level_layout *layout = c->layout;
    uint32_t root = c->planner->request.root, home = layout->unit_of[root];
    int gathers = c->planner->request.collective == PEAL_GATHER;
    double share = 1.0 / layout->ranks, blocks = inner ? layout->units : 1;
    double lane_us = 1 / (peal_planner_lane_gbs(c->planner) * 1e3) / c->candidate->channels;
    *in_turn = share * lane_us * blocks;
    PEAL_TRY(peal_traffic_init(traffic, c->planner));
    for (uint32_t i = 0; i < layout->units * layout->shards; i++) {
        uint32_t rank = layout->holder[i];
        uint32_t head = layout->holder[home * layout->shards + i % layout->shards];
        uint32_t to = inner ? root : head;
        struct hop hop;
        if (rank == to || (i / layout->shards == home) != inner)
            continue;
        peal_level_load_hop(c, gathers ? rank : to, gathers ? to : rank, share * blocks);
        peal_planner_hop(c->planner, gathers ? rank : to, gathers ? to : rank, &hop);
        peal_traffic_add(traffic, gathers ? rank : to, &hop, (uint32_t)blocks, share);
        double link_us = peal_load_alone(&hop.path, hop.scale);
        if (!peal_plan_engine_async(hop.engine))
            *in_turn += share * blocks * (link_us > lane_us ? link_us : lane_us);
    }
    return PEAL_OK;
}

/*
 * What a tile waits for. Gathered, a rank's slot at its head is free when the tile has gone on to
 * the root, and its word of that comes back between the hosts. Scattered, the root's slot at a head
 * is free when the tile has left for its rank, and a head's transfers use their events again when
 * what they moved is there.
 */
static void turn_rails(struct level_costing *c, const struct stage *outer,
                       const struct stage *inner)
{
    struct candidate *candidate = c->candidate;
    int gathers = c->planner->request.collective == PEAL_GATHER;
    uint32_t others = c->layout->units - 1;
    double channels = candidate->channels;
    double own_us = inner->us_per_byte / (gathers ? 1 : c->layout->units);
    double outer_us = outer->us_per_byte / (gathers ? 1 : others);
    double both_us = outer_us + own_us * (inner->lane_bound ? channels : 1);
    struct stage turn = {.depth = 1, .lane = 2, .resource = outer->resource};
    turn.alpha_us = (gathers ? outer->alpha_us : inner->alpha_us) / SLOT_DEPTH;
    turn.us_per_byte = both_us / SLOT_DEPTH;
    turn.beside_us_per_byte = outer_us * (1 - 1 / channels) / SLOT_DEPTH;
    turn.load_us = outer->load_us / SLOT_DEPTH;
    turn.alone_us_per_byte = turn.us_per_byte;
    candidate->stage[candidate->nstages++] = turn;
    if (gathers)
        return;
    turn.lane = 3;
    turn.beside_us_per_byte = 0;
    double at_once = others < BUILD_EVENTS ? others : BUILD_EVENTS;
    turn.alpha_us = outer->alpha_us / 2 * others / at_once;
    turn.us_per_byte = turn.alone_us_per_byte = outer->us_per_byte / at_once;
    candidate->stage[candidate->nstages++] = turn;
}

/* More blocks than a head has slots for: the rank of each is told when one is free again, in turns
 * of half of them. More than it has transfers for: the next ones follow the first, while the root
 * deals out others. */
static double queue_us(const struct level_costing *c, const struct stage *outer,
                       const struct stage *inner)
{
    double others = c->layout->units - 1.0, slots = c->layout->inbox_width[1];
    if (c->planner->request.collective == PEAL_GATHER)
        return others > slots ? 2 * (others - slots) / ((slots + 1) / 2) * outer->alpha_us : 0;
    double sent_us = (double)((c->layout->units - 2) / BUILD_EVENTS) * outer->alpha_us;
    double gap_us = inner->gap_us > outer->gap_us ? inner->gap_us : outer->gap_us;
    return sent_us > gap_us ? sent_us - gap_us : 0;
}

peal_status peal_level_cost_rails(struct level_costing *c)
{
    int gathers = c->planner->request.collective == PEAL_GATHER;
    struct stage way[2] = {{0}};
    double told_us = 0;
    for (int i = 0; i < 2; i++) {
        int inner = gathers ? i : !i;
        struct traffic traffic;
        double in_turn;
        peal_level_stage_begin(c, (uint32_t)inner);
        c->hop_gap_us = 0;
        PEAL_TRY(load_rails(c, inner, &traffic, &in_turn));
        c->stage.gap_us = peal_traffic_gap(&traffic, c->candidate->channels);
        peal_traffic_free(&traffic);
        c->stage.depth = LEVEL_WINDOW;
        peal_level_stage_end(c, inner && gathers ? (double)c->layout->units / c->layout->ranks
                                : inner          ? 1
                                                 : 0);
        struct stage *to = &c->candidate->stage[c->candidate->nstages - 1];
        if (inner && !gathers && in_turn > to->us_per_byte)
            to->us_per_byte = to->alone_us_per_byte = in_turn;
        told_us += to->alpha_us;
        if (!inner) /* a head tells all, or each rank tells its head */
            told_us += c->hop_gap_us *
                       ((gathers ? c->layout->units - 1.0 : 1) * c->candidate->channels - 1);
        told_us += inner ? 0 : queue_us(c, to, &way[1]);
        way[inner] = *to;
    }
    /* A head sends blocks on while the root deals out others: of what takes less time, only the
     * first or the last block is not covered by the other. */
    if (!gathers) {
        int less = way[1].us_per_byte < way[0].us_per_byte;
        struct stage *to = &c->candidate->stage[c->candidate->nstages - 2 + (less ? 0 : 1)];
        double blocks = less ? c->layout->units : c->layout->units - 1.0;
        to->us_per_byte /= blocks;
        to->alone_us_per_byte /= blocks;
    }
    /* Those who send are told that they may leave, those who receive tell that they are there. */
    peal_level_stage_apart(c, 1, told_us);
    turn_rails(c, &way[0], &way[1]);
    return PEAL_OK;
}
