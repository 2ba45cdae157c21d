/* SPDX-License-Identifier: Apache-2.0 */
/* What it takes a root to deal its message to the holders of its unit, or to gather it. */
#include "level_cost.h"

/* The last stage takes a lane at least `us` for each byte of the message. */
static void lane_holds(struct level_costing *c, double us)
{
    struct stage *stage = &c->candidate->stage[c->candidate->nstages - 1];
    stage->lane_bound |= us > stage->us_per_byte;
    stage->us_per_byte = us > stage->us_per_byte ? us : stage->us_per_byte;
    stage->alone_us_per_byte = us > stage->alone_us_per_byte ? us : stage->alone_us_per_byte;
}

/* While the root deals, it spreads its own shard, over the same links. */
static void add_own(struct level_costing *c)
{
    const struct level_layout *layout = c->layout;
    uint32_t root = c->planner->request.root, unit = layout->unit_of[root];
    if (c->phase->kind != LEVEL_SCATTER || layout->part[0] != PART_DIRECT || layout->units > 1 ||
        layout->shards < 2 || layout->shard_of[root] == NO_RANK || c->fine)
        return;
    c->dealt = 1;
    for (uint32_t i = layout->first[unit]; i < layout->first[unit + 1]; i++) {
        struct hop hop;
        if (layout->member[i] == root)
            continue;
        peal_planner_hop(c->planner, root, layout->member[i], &hop);
        peal_planner_load(c->planner, &hop, c->share, hop.scale);
    }
}

/* Between the root and the holders of its unit. */
void peal_level_cost_root(struct level_costing *c, uint32_t lane)
{
    const struct level_layout *layout = c->layout;
    uint32_t root = c->planner->request.root, unit = layout->unit_of[root];
    double lane_us = 1 / (peal_planner_lane_gbs(c->planner) * 1e3), share = 0;
    struct turns turns = {.us = 0};
    peal_level_stage_begin(c, lane);
    for (uint32_t s = 0; s < layout->shards; s++) {
        uint32_t holder = layout->holder[unit * layout->shards + s];
        if (holder == root)
            continue;
        int deals = c->phase->kind == LEVEL_SCATTER;
        int both = deals && peal_level_deputed(layout, c->planner);
        share = c->share + (both ? c->share / (layout->shards - 1) : 0);
        peal_level_load_hop(c, deals ? root : holder, deals ? holder : root, share);
        struct hop hop;
        peal_planner_hop(c->planner, deals ? root : holder, deals ? holder : root, &hop);
        peal_turns_add(&turns, &hop);
    }
    add_own(c);
    c->stage.gap_us *= layout->shards - 1.0;
    c->stage.depth = LEVEL_WINDOW;
    peal_level_stage_end(c, c->phase->kind == LEVEL_SCATTER ? 1 + c->share : c->share);
    /* Its own, then one link after the other, with lanes that began there; over each goes besides
     * what the root spreads meanwhile. */
    if (c->phase->kind == LEVEL_SCATTER && c->direct)
        lane_holds(c, share * peal_turns_us(c->planner, &turns, c->candidate->channels) +
                          (c->dealt ? c->share * c->link_us : 0) +
                          c->share * lane_us / c->candidate->channels);
}
