/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows on their resources, group by group: those that take the same get the same, so a group has
 * one rate, one number of bytes served to each, looked at when the rate changes only, and a list
 * of flows by what that is when they end.
 */
#include "model.h"

#include <string.h>

/* ---- pools */

uint32_t peal_sim_flow_new(struct peal_sim *sim)
{
    uint32_t flow = sim->flow_free;
    if (flow == SIM_NONE) {
        peal_status status = peal_grow(sim->ctx, (void **)&sim->flow, &sim->flow_capacity,
                                       (size_t)sim->flows + 1, sizeof *sim->flow, UINT32_MAX / 2);
        if (status != PEAL_OK) {
            sim->status = status;
            return SIM_NONE;
        }
        flow = sim->flows++;
    } else {
        sim->flow_free = sim->flow[flow].next;
    }
    sim->flow[flow] = (struct sim_flow){.signals = SIM_NONE, .next = SIM_NONE};
    return flow;
}

void peal_sim_flow_free(struct peal_sim *sim, uint32_t flow)
{
    sim->flow[flow].next = sim->flow_free;
    sim->flow_free = flow;
}

/* ---- groups on resources */

static void settle(const struct peal_sim *sim, struct sim_group *g)
{
    g->served += g->rate * (double)(sim->now - g->since);
    g->since = sim->now;
}

static void load(struct peal_sim *sim, uint32_t group, const struct sim_use *use)
{
    struct sim_resource *r = &sim->resource[use->resource];
    if (r->groups == r->room) {
        sim->status = peal_grow(sim->ctx, (void **)&r->on, &r->room, (size_t)r->groups + 1,
                                sizeof *r->on, UINT32_MAX / 2);
        if (sim->status != PEAL_OK)
            return;
    }
    r->on[r->groups] = (struct sim_load){group, use->weight};
    if (r->groups++ == 0)
        r->busy_since = sim->now;
}

/* Keeps the others' order. */
static void unload(const struct peal_sim *sim, uint32_t group, const struct sim_use *use)
{
    struct sim_resource *r = &sim->resource[use->resource];
    uint32_t at = 0;
    while (at + 1 < r->groups && r->on[at].group != group)
        at++;
    memmove(&r->on[at], &r->on[at + 1], (r->groups - at - 1) * sizeof *r->on);
    if (--r->groups == 0) {
        r->load = 0;
        r->busy += sim->now - r->busy_since;
    }
}

/* When the first of its flows ends, if nothing changes. */
static void schedule(struct peal_sim *sim, uint32_t group)
{
    struct sim_group *g = &sim->group[group];
    double left = sim->flow[g->head].target - g->served;
    left = left > 0 ? left : 0;
    g->finish = SIM_NEVER;
    if (left < g->rate * 1e18) {
        double ps = left / g->rate;
        uint64_t whole = (uint64_t)ps;
        g->finish = sim->now + whole + ((double)whole < ps ? 1 : 0);
    }
    peal_sim_heap_put(sim, group);
}

/* ---- begin and end */

static int ends_before(const struct peal_sim *sim, uint32_t a, uint32_t b)
{
    double x = sim->flow[a].target, y = sim->flow[b].target;
    return x < y || (x <= y && a < b);
}

static void insert(const struct peal_sim *sim, struct sim_group *g, uint32_t flow)
{
    uint32_t *at = &g->head;
    while (*at != SIM_NONE && ends_before(sim, *at, flow))
        at = &sim->flow[*at].next;
    sim->flow[flow].next = *at;
    *at = flow;
}

/* The first one of a group has no rate yet, unless another has ended since shares were worked out:
 * it goes on with that. Others begin with what the group's have. */
void peal_sim_flow_begin(struct peal_sim *sim, uint32_t flow)
{
    struct sim_flow *f = &sim->flow[flow];
    uint32_t group = f->need;
    struct sim_group *g = &sim->group[group];
    const struct sim_use *use = &sim->use[g->first_use];
    if (g->flows) {
        settle(sim, g);
    } else {
        g->served = 0;
        g->since = sim->now;
        g->rate = g->idle == sim->round ? g->rate : 0;
    }
    f->target = g->served + (double)sim->record[f->record].bytes;
    insert(sim, g, flow);
    for (uint32_t u = 0; u < g->uses && sim->status == PEAL_OK; u++) {
        if (!g->flows)
            load(sim, group, &use[u]);
        sim->resource[use[u].resource].load += use[u].weight * g->rate;
    }
    g->flows++;
    if (!g->fresh)
        peal_sim_append(sim, &sim->fresh, group);
    g->fresh = 1;
}

uint32_t peal_sim_flow_end(struct peal_sim *sim, uint32_t group)
{
    struct sim_group *g = &sim->group[group];
    const struct sim_use *use = &sim->use[g->first_use];
    uint32_t flow = g->head;
    settle(sim, g);
    if (g->served < sim->flow[flow].target) /* but for rounding */
        g->served = sim->flow[flow].target;
    g->bytes += (double)sim->record[sim->flow[flow].record].bytes;
    g->head = sim->flow[flow].next;
    g->flows--;
    for (uint32_t u = g->uses; u-- > 0;) {
        struct sim_resource *r = &sim->resource[use[u].resource];
        if (r->load >= r->capacity * SIM_FULL)
            peal_sim_append(sim, &sim->dirty, use[u].resource);
        r->load -= use[u].weight * g->rate;
        if (!g->flows)
            unload(sim, group, &use[u]);
    }
    if (g->flows)
        schedule(sim, group);
    else
        peal_sim_heap_remove(sim, group);
    g->idle = sim->round;
    return flow;
}

void peal_sim_group_rate(struct peal_sim *sim, uint32_t group, double rate)
{
    struct sim_group *g = &sim->group[group];
    const struct sim_use *use = &sim->use[g->first_use];
    if (g->heap_at != SIM_NONE && !g->fresh && g->rate == rate)
        return;
    for (uint32_t u = 0; u < g->uses && (rate < g->rate || rate > g->rate); u++) {
        struct sim_resource *r = &sim->resource[use[u].resource];
        r->load += use[u].weight * g->flows * (rate - g->rate);
        r->rerated = sim->round;
    }
    settle(sim, g);
    g->rate = rate;
    schedule(sim, group);
}

void peal_sim_flow_totals(struct peal_sim *sim)
{
    for (uint32_t n = 0; n < sim->needs; n++) {
        const struct sim_group *g = &sim->group[n];
        for (uint32_t u = 0; u < g->uses; u++) {
            const struct sim_use *use = &sim->use[g->first_use + u];
            sim->resource[use->resource].bytes += use->weight * g->bytes;
        }
    }
}
