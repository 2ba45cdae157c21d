/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Max-min fair shares by progressive filling, once for all that happens at one time, and only
 * among flows that are held back by the same full resources as one that began, or by one that lost
 * a flow. Others keep their rates, and take that much of the resources that are looked at. That is
 * exact: one that keeps its rate is held back by a full resource that none of those crosses; where
 * it would have more than its share of another that is full now, it is taken in, and so is a
 * resource that was not full and would be overrun.
 *
 * Flows of one group (model.h) count as one with so many times its weight. Where one ended and
 * another began with its rate at the same time, full resources are as full as they were, everybody
 * is held back by the one that held him back, and there is nothing to work out.
 */
#include "model.h"

#include "sort.h"

#define OVER 1.000000001 /* rounding of sums */
#define EQUAL 1.000000000001

/* ---- what hangs together */

static void add_group(struct peal_sim *sim, uint32_t group)
{
    if (sim->group[group].mark == sim->mark)
        return;
    sim->group[group].mark = sim->mark;
    peal_sim_soon(&sim->use[sim->group[group].first_use]);
    peal_sim_append(sim, &sim->part, group);
}

static void add_resource(struct peal_sim *sim, uint32_t resource)
{
    if (sim->resource[resource].mark == sim->mark)
        return;
    sim->resource[resource].mark = sim->mark;
    peal_sim_soon(sim->resource[resource].on);
    peal_sim_append(sim, &sim->part_resource, resource);
}

static const struct sim_use *uses_of(const struct peal_sim *sim, const struct sim_group *group)
{
    return &sim->use[group->first_use];
}

/* Flows that have no rate yet may fill a resource by themselves. */
static int joins(const struct peal_sim *sim, const struct sim_group *group,
                 const struct sim_use *use)
{
    const struct sim_resource *r = &sim->resource[use->resource];
    return r->load >= r->capacity * SIM_FULL ||
           (group->rate == 0 &&
            r->load + use->weight * group->flows * group->cap > r->capacity * OVER);
}

static void ask_for_resources(const struct peal_sim *sim, uint32_t group)
{
    const struct sim_group *g = &sim->group[group];
    const struct sim_use *use = uses_of(sim, g);
    for (uint32_t u = 0; u < g->uses; u++)
        peal_sim_soon(&sim->resource[use[u].resource]);
}

/* From the g-th group and the r-th resource on. */
static void collect(struct peal_sim *sim, uint32_t g, uint32_t r)
{
    while (sim->status == PEAL_OK && (g < sim->part.count || r < sim->part_resource.count)) {
        if (g < sim->part.count) {
            const struct sim_group *group = &sim->group[sim->part.at[g++]];
            const struct sim_use *use = uses_of(sim, group);
            if (g < sim->part.count)
                ask_for_resources(sim, sim->part.at[g]);
            for (uint32_t u = 0; u < group->uses; u++)
                if (joins(sim, group, &use[u]))
                    add_resource(sim, use[u].resource);
        } else {
            uint32_t at = sim->part_resource.at[r++];
            const struct sim_resource *resource = &sim->resource[at];
            for (uint32_t i = resource->groups; i-- > 0;)
                if (sim->group[resource->on[i].group].bound == at)
                    add_group(sim, resource->on[i].group);
        }
    }
}

/* ---- a heap of resources by the level at which they are full */

static void sink_level(struct peal_sim *sim, uint32_t at)
{
    uint32_t *heap = sim->levels.at, value = heap[at];
    double level = sim->resource[value].level;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= sim->levels.count)
            break;
        if (child + 1 < sim->levels.count &&
            sim->resource[heap[child + 1]].level < sim->resource[heap[child]].level)
            child++;
        if (sim->resource[heap[child]].level >= level)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = value;
}

static double level_of(const struct sim_resource *r)
{
    if (r->weights <= 0)
        return SIM_NO_LEVEL;
    return r->left > 0 ? r->left / r->weights : 0;
}

static void open_levels(struct peal_sim *sim)
{
    sim->levels.count = 0;
    for (uint32_t i = 0; i < sim->part_resource.count; i++) {
        struct sim_resource *r = &sim->resource[sim->part_resource.at[i]];
        r->left = r->capacity;
        r->weights = 0;
        for (uint32_t k = r->groups; k-- > 0;) {
            const struct sim_group *g = &sim->group[r->on[k].group];
            double weight = r->on[k].weight * g->flows;
            if (g->mark == sim->mark)
                r->weights += weight;
            else
                r->left -= weight * g->rate;
        }
        r->level = level_of(r);
        r->change = SIM_NO_LEVEL;
        peal_sim_append(sim, &sim->levels, sim->part_resource.at[i]);
    }
    for (uint32_t i = sim->levels.count / 2; i-- > 0;)
        sink_level(sim, i);
}

/* The least level there is; levels only rise as groups get their shares. */
static double least_level(struct peal_sim *sim)
{
    while (sim->levels.count) {
        struct sim_resource *r = &sim->resource[sim->levels.at[0]];
        double level = level_of(r);
        if (level <= r->level * EQUAL)
            return level;
        r->level = level;
        sink_level(sim, 0);
    }
    return SIM_NO_LEVEL;
}

/* ---- groups by their caps, the least last */

static int cap_before(const void *left, const void *right, const void *with)
{
    const struct peal_sim *sim = with;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return sim->group[a].cap > sim->group[b].cap;
}

static void sort_caps(struct peal_sim *sim)
{
    uint32_t count = sim->part.count, *at = sim->part.at;
    uint32_t i = 1;
    while (i < count && sim->group[at[i]].cap <= sim->group[at[i - 1]].cap)
        i++;
    if (i < count)
        peal_sort(at, count, sizeof *at, cap_before, sim);
}

/* ---- filling */

static void give(struct peal_sim *sim, uint32_t group, double share, uint32_t bound)
{
    struct sim_group *g = &sim->group[group];
    const struct sim_use *use = uses_of(sim, g);
    g->share = share;
    g->bound = bound;
    for (uint32_t u = 0; u < g->uses; u++) {
        struct sim_resource *r = &sim->resource[use[u].resource];
        if (r->mark != sim->mark)
            continue;
        double weight = use[u].weight * g->flows;
        r->left -= weight * share;
        r->weights -= weight;
        if (r->weights < 1e-9)
            r->weights = 0;
    }
}

static void fill(struct peal_sim *sim)
{
    uint32_t capped = sim->part.count; /* those behind have their shares, or are not at a cap */
    double level = 0;
    open_levels(sim);
    sort_caps(sim);
    for (uint32_t i = 0; i < sim->part.count; i++)
        sim->group[sim->part.at[i]].share = -1;
    while (sim->status == PEAL_OK) {
        double next = least_level(sim);
        while (capped && sim->group[sim->part.at[capped - 1]].share >= 0)
            capped--;
        if (!capped)
            return;
        uint32_t least = sim->part.at[capped - 1];
        if (sim->group[least].cap <= next * EQUAL) {
            give(sim, least, sim->group[least].cap, SIM_NONE);
            continue;
        }
        /* Equal but for rounding is equal: what is alike ends at the same time. */
        level = next > level * EQUAL || next < level / EQUAL ? next : level;
        uint32_t at = sim->levels.at[0];
        struct sim_resource *full = &sim->resource[at];
        full->change = level;
        for (uint32_t i = full->groups; i-- > 0;) {
            const struct sim_group *g = &sim->group[full->on[i].group];
            if (g->mark == sim->mark && g->share < 0)
                give(sim, full->on[i].group, level, at);
        }
    }
}

/* Takes in those that keep their rate and have more of a full resource than what others get of it;
 * 1: there are some. */
static int displaced(struct peal_sim *sim)
{
    uint32_t before = sim->part.count;
    for (uint32_t i = 0; i < sim->part_resource.count; i++) {
        const struct sim_resource *r = &sim->resource[sim->part_resource.at[i]];
        if (r->change >= SIM_NO_LEVEL)
            continue;
        for (uint32_t k = r->groups; k-- > 0;)
            if (sim->group[r->on[k].group].rate > r->change * OVER)
                add_group(sim, r->on[k].group);
    }
    return sim->part.count > before;
}

/* What the group's share changes where no level was looked for; notes each such resource once. */
static void note_change(struct peal_sim *sim, const struct sim_group *group)
{
    const struct sim_use *use = uses_of(sim, group);
    for (uint32_t u = 0; u < group->uses; u++) {
        struct sim_resource *r = &sim->resource[use[u].resource];
        if (r->mark == sim->mark)
            continue;
        if (r->change_mark != sim->change_mark) {
            r->change_mark = sim->change_mark;
            r->change = 0;
            peal_sim_append(sim, &sim->levels, use[u].resource);
        }
        r->change += use[u].weight * group->flows * (group->share - group->rate);
    }
}

/* Takes in the resources that the shares would overrun; 1: there are some. */
static int overrun(struct peal_sim *sim)
{
    uint32_t before = sim->part_resource.count;
    sim->change_mark++;
    sim->levels.count = 0; /* of no more use as a heap */
    for (uint32_t i = 0; i < sim->part.count; i++) {
        const struct sim_group *group = &sim->group[sim->part.at[i]];
        if (group->share > group->rate || group->share < group->rate)
            note_change(sim, group);
    }
    for (uint32_t i = 0; i < sim->levels.count; i++) {
        const struct sim_resource *r = &sim->resource[sim->levels.at[i]];
        if (r->load + r->change > r->capacity * OVER)
            add_resource(sim, sim->levels.at[i]);
    }
    return sim->part_resource.count > before;
}

static void share_part(struct peal_sim *sim)
{
    uint32_t groups = 0, resources = 0;
    int more = 1;
    while (more && sim->status == PEAL_OK) {
        collect(sim, groups, resources);
        groups = sim->part.count;
        resources = sim->part_resource.count;
        if (!groups) /* who was held back there is through */
            break;
        if (groups == 1 && resources == 0) { /* nothing is short */
            struct sim_group *only = &sim->group[sim->part.at[0]];
            only->share = only->cap;
            only->bound = SIM_NONE;
            more = overrun(sim);
            continue;
        }
        fill(sim);
        more = displaced(sim);
        more |= overrun(sim);
    }
    for (uint32_t i = 0; i < sim->part.count && sim->status == PEAL_OK; i++)
        peal_sim_group_rate(sim, sim->part.at[i], sim->group[sim->part.at[i]].share);
    sim->part.count = sim->part_resource.count = 0;
}

/* ---- what has to be worked out */

/* 1: what began in it has a rate, and overruns nothing with that. */
static int fits(const struct peal_sim *sim, const struct sim_group *group)
{
    const struct sim_use *use = uses_of(sim, group);
    if (group->rate == 0)
        return 0;
    for (uint32_t u = 0; u < group->uses; u++) {
        const struct sim_resource *r = &sim->resource[use[u].resource];
        if (r->load > r->capacity * OVER)
            return 0;
    }
    return 1;
}

/* 1: it is as full as it was, and by flows of the same rates. */
static int refilled(const struct peal_sim *sim, const struct sim_resource *r)
{
    return r->load >= r->capacity * SIM_FULL && r->load <= r->capacity * OVER &&
           r->rerated != sim->round;
}

static void share_fresh(struct peal_sim *sim, uint32_t group, uint32_t solved)
{
    const struct sim_group *g = &sim->group[group];
    if (g->mark > solved || !g->flows)
        return;
    if (fits(sim, g)) {
        peal_sim_group_rate(sim, group, g->rate);
        return;
    }
    sim->mark++;
    add_group(sim, group);
    share_part(sim);
}

/* Part by part: what does not hang together has levels of its own. */
void peal_sim_share(struct peal_sim *sim)
{
    uint32_t solved = sim->mark; /* what is marked later has been worked out */
    for (uint32_t i = 0; i < sim->fresh.count && sim->status == PEAL_OK; i++)
        share_fresh(sim, sim->fresh.at[i], solved);
    for (uint32_t i = 0; i < sim->dirty.count && sim->status == PEAL_OK; i++) {
        const struct sim_resource *r = &sim->resource[sim->dirty.at[i]];
        if (r->mark > solved || !r->groups || refilled(sim, r))
            continue;
        sim->mark++;
        add_resource(sim, sim->dirty.at[i]);
        share_part(sim);
    }
    for (uint32_t i = 0; i < sim->fresh.count; i++)
        sim->group[sim->fresh.at[i]].fresh = 0;
    sim->fresh.count = sim->dirty.count = 0;
    sim->round++;
}
