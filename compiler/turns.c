/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes of a rank that store to one rank after the other, each of them to another first: a lane has
 * one link at a time, and as many lanes as begin with one rank stay together on its link. Where
 * links go to separate ranks, what one of them carries is no bound for all: the others are idle.
 */
#include "compiler.h"

/* More widths than there is room for count as the last one. */
void peal_turns_add(struct turns *turns, const struct hop *hop)
{
    double link_us = peal_load_alone(&hop->path, hop->scale);
    uint32_t i = 0;
    if (peal_plan_engine_async(hop->engine))
        return;
    while (i + 1 < TURN_WIDTHS && turns->width[i].stores &&
           (turns->width[i].link_us < link_us || turns->width[i].link_us > link_us))
        i++;
    turns->width[i].link_us = link_us;
    turns->width[i].stores++;
    turns->stores++;
    turns->us += link_us;
}

void peal_turns_keep(struct turns *most, const struct turns *turns)
{
    if (turns->us > most->us)
        *most = *turns;
}

double peal_turns_us(const struct planner *planner, const struct turns *turns, uint32_t channels)
{
    double lane_us = 1 / (peal_planner_lane_gbs(planner) * 1e3) / channels, us = 0;
    uint32_t stores = turns->stores ? turns->stores : 1;
    double together = (double)((channels + stores - 1) / stores) / channels;
    for (uint32_t i = 0; i < TURN_WIDTHS; i++) {
        double link_us = turns->width[i].link_us * together;
        us += turns->width[i].stores * (link_us > lane_us ? link_us : lane_us);
    }
    return us;
}

void peal_stage_turns(struct stage *stage, double us)
{
    stage->us_per_byte = us > stage->us_per_byte ? us : stage->us_per_byte;
    stage->alone_us_per_byte = us > stage->alone_us_per_byte ? us : stage->alone_us_per_byte;
}
