/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch of hierarchical schedules, the same on all ranks: an inbox for what peers send, cells
 * for what one level has finished and the next has not taken, and memory to send sums from. */
#include "level.h"

static uint32_t min_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t peal_level_roots(const struct level_layout *layout, uint32_t level,
                          const struct level_way *way)
{
    if (way->single)
        return 1;
    return level ? way->n : layout->shards;
}

uint32_t peal_level_cells(const struct level_layout *layout, uint32_t level,
                          const struct level_way *way)
{
    return way->single ? layout->runs : peal_level_rounds(layout, level);
}

uint32_t peal_level_window(const struct level_layout *layout, uint32_t level,
                           const struct level_way *way)
{
    uint32_t most = peal_level_rounds(layout, level) * peal_level_roots(layout, level, way);
    if (way->single)
        return layout->runs;
    return way->part != PART_RING ? 1 : min_of(most, LEVEL_WINDOW);
}

uint32_t peal_level_events(const struct level_layout *layout)
{
    return layout->runs > 1 ? BURST_EVENTS : BUILD_EVENTS;
}

static uint32_t inbox_width(const struct level_layout *layout, uint32_t level,
                            const struct level_way *way)
{
    return peal_level_slots(way) * peal_level_window(layout, level, way);
}

static uint32_t add_region(struct level_layout *layout, uint32_t width)
{
    return width ? layout->regions++ : 0;
}

/* Whether anything is left to do with what a level has finished. */
static int handed_on(const struct level_layout *layout, uint32_t level, peal_collective collective)
{
    for (uint32_t k = level + 1; k < layout->levels; k++)
        if (layout->size[k] > 1)
            return 1;
    return collective == PEAL_REDUCE && layout->size[0] > 1;
}

static void fold_level(struct level_layout *layout, const struct planner *planner, uint32_t level,
                       int first)
{
    int single = level && !layout->split[level];
    int reached = layout->inside[level] && planner->group.direct_hosts;
    enum level_part part = layout->part[level];
    struct level_way way = {.part = part, .single = single, .n = layout->size[level]};
    layout->inbox_depth[level] = single && part != PART_DOUBLING ? LEVEL_TREE_DEPTH : SLOT_DEPTH;
    if (part == PART_DOUBLING)
        layout->inbox_width[level] = peal_doubling_slots(way.n);
    else if (!(first && reached && part == PART_DIRECT))
        layout->inbox_width[level] = inbox_width(layout, level, &way);
    if (layout->whole)
        return;
    if (handed_on(layout, level, planner->request.collective))
        layout->cell_width[level] = min_of(peal_level_cells(layout, level, &way), LEVEL_WINDOW);
    if (!reached && part != PART_DIRECT)
        layout->stage_width[level] = peal_level_events(layout);
}

void peal_level_scratch(struct level_layout *layout, const struct planner *planner)
{
    peal_collective collective = planner->request.collective;
    if (layout->rails) {
        layout->inbox_width[1] = min_of(layout->units - 1, LEVEL_WINDOW);
        layout->inbox_depth[1] = SLOT_DEPTH;
        layout->inbox[1] = add_region(layout, layout->inbox_width[1]);
    }
    int folds = peal_plan_collective(collective)->reduces, first = 1;
    for (uint32_t k = 0; folds && k < layout->levels; k++) {
        if (layout->size[k] < 2)
            continue;
        fold_level(layout, planner, k, first);
        first = 0;
        layout->inbox[k] = add_region(layout, layout->inbox_width[k]);
        layout->cell[k] = add_region(layout, layout->cell_width[k]);
        layout->stage[k] = add_region(layout, layout->stage_width[k]);
    }
}
