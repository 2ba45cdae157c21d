/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Max-min fair shares by progressive filling. A resource whose flows could all run at their caps
 * holds nobody back and joins nothing: only what hangs together over resources that are short is
 * worked out again when a flow begins or ends, once for all that happens at one time.
 */
#include "model.h"

#define SLACK 1.000000001 /* rounding of sums of demands */
#define EQUAL 1.000000000001

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
        sim->flow[flow].mark = 0;
    } else {
        sim->flow_free = sim->flow[flow].next;
    }
    struct sim_flow *f = &sim->flow[flow];
    uint32_t mark = f->mark;
    *f = (struct sim_flow){.heap_at = SIM_NONE,
                           .node = SIM_NONE,
                           .signals = SIM_NONE,
                           .next = SIM_NONE,
                           .event = PLAN_NO_EVENT,
                           .mark = mark};
    return flow;
}

void peal_sim_flow_free(struct peal_sim *sim, uint32_t flow)
{
    sim->flow[flow].next = sim->flow_free;
    sim->flow_free = flow;
}

static uint32_t new_node(struct peal_sim *sim)
{
    uint32_t node = sim->node_free;
    if (node != SIM_NONE) {
        sim->node_free = sim->node[node].next;
        return node;
    }
    peal_status status = peal_grow(sim->ctx, (void **)&sim->node, &sim->node_capacity,
                                   (size_t)sim->nodes + 1, sizeof *sim->node, UINT32_MAX / 2);
    if (status != PEAL_OK) {
        sim->status = status;
        return SIM_NONE;
    }
    return sim->nodes++;
}

/* ---- begin and end */

static int is_short(const struct sim_resource *resource)
{
    return resource->demand > resource->capacity * SLACK;
}

static void load(struct peal_sim *sim, uint32_t flow, const struct sim_use *use)
{
    uint32_t node = new_node(sim);
    if (node == SIM_NONE)
        return;
    struct sim_flow *f = &sim->flow[flow];
    struct sim_resource *r = &sim->resource[use->resource];
    sim->node[node] =
        (struct sim_node){flow, use->resource, SIM_NONE, r->first, f->node, use->weight};
    if (r->first != SIM_NONE)
        sim->node[r->first].before = node;
    r->first = node;
    f->node = node;
    r->demand += use->weight * f->cap;
    if (r->flows++ == 0)
        r->busy_since = sim->now;
}

void peal_sim_flow_begin(struct peal_sim *sim, uint32_t flow)
{
    struct sim_flow *f = &sim->flow[flow];
    const struct sim_need *need = &sim->need[f->need];
    f->cap = need->cap;
    f->rate = 0;
    f->since = sim->now;
    for (uint32_t u = 0; u < need->uses && sim->status == PEAL_OK; u++)
        load(sim, flow, &sim->use[need->first_use + u]);
    peal_sim_append(sim, &sim->fresh, flow);
}

static void unload(struct peal_sim *sim, uint32_t node, double cap, double bytes)
{
    struct sim_node *n = &sim->node[node];
    struct sim_resource *r = &sim->resource[n->resource];
    if (is_short(r))
        peal_sim_append(sim, &sim->dirty, n->resource);
    if (n->before == SIM_NONE)
        r->first = n->after;
    else
        sim->node[n->before].after = n->after;
    if (n->after != SIM_NONE)
        sim->node[n->after].before = n->before;
    r->bytes += n->weight * bytes;
    r->demand -= n->weight * cap;
    if (--r->flows == 0) {
        r->demand = 0;
        r->busy += sim->now - r->busy_since;
    }
    n->next = sim->node_free;
    sim->node_free = node;
}

/* Takes a flow off its resources; the caller frees it. */
void peal_sim_flow_end(struct peal_sim *sim, uint32_t flow)
{
    struct sim_flow *f = &sim->flow[flow];
    double bytes = (double)sim->record[f->record].bytes;
    peal_sim_heap_remove(sim, flow);
    while (f->node != SIM_NONE) {
        uint32_t next = sim->node[f->node].next;
        unload(sim, f->node, f->cap, bytes);
        f->node = next;
    }
}

/* ---- shares */

static void add_flow(struct peal_sim *sim, uint32_t flow)
{
    if (sim->flow[flow].mark == sim->mark)
        return;
    sim->flow[flow].mark = sim->mark;
    peal_sim_append(sim, &sim->part, flow);
}

static void add_resource(struct peal_sim *sim, uint32_t resource)
{
    if (sim->resource[resource].mark == sim->mark)
        return;
    sim->resource[resource].mark = sim->mark;
    peal_sim_append(sim, &sim->part_resource, resource);
}

/* Everything that hangs together with what has changed. */
static void collect(struct peal_sim *sim)
{
    sim->mark++;
    sim->part.count = sim->part_resource.count = 0;
    for (uint32_t i = 0; i < sim->fresh.count; i++)
        add_flow(sim, sim->fresh.at[i]);
    for (uint32_t i = 0; i < sim->dirty.count; i++)
        add_resource(sim, sim->dirty.at[i]);
    sim->fresh.count = sim->dirty.count = 0;
    uint32_t f = 0, r = 0;
    while (sim->status == PEAL_OK && (f < sim->part.count || r < sim->part_resource.count)) {
        if (f < sim->part.count) {
            uint32_t node = sim->flow[sim->part.at[f++]].node;
            for (; node != SIM_NONE; node = sim->node[node].next)
                if (is_short(&sim->resource[sim->node[node].resource]))
                    add_resource(sim, sim->node[node].resource);
        } else {
            uint32_t node = sim->resource[sim->part_resource.at[r++]].first;
            for (; node != SIM_NONE; node = sim->node[node].after)
                add_flow(sim, sim->node[node].flow);
        }
    }
}

static void set_rate(struct peal_sim *sim, uint32_t flow, double rate)
{
    struct sim_flow *f = &sim->flow[flow];
    if (f->heap_at != SIM_NONE && f->rate == rate)
        return;
    f->remaining -= f->rate * (double)(sim->now - f->since);
    if (f->remaining < 0)
        f->remaining = 0;
    f->rate = rate;
    f->since = sim->now;
    f->finish = SIM_NEVER;
    if (f->remaining < rate * 1e18) {
        double ps = f->remaining / rate;
        uint64_t whole = (uint64_t)ps;
        f->finish = sim->now + whole + ((double)whole < ps ? 1 : 0);
    }
    peal_sim_heap_put(sim, flow);
}

static double least_level(const struct peal_sim *sim)
{
    double level = -1;
    for (uint32_t i = 0; i < sim->part_resource.count; i++) {
        const struct sim_resource *r = &sim->resource[sim->part_resource.at[i]];
        if (r->weights <= 0)
            continue;
        double own = r->left > 0 ? r->left / r->weights : 0;
        level = level < 0 || own < level ? own : level;
    }
    return level;
}

static int is_full(const struct peal_sim *sim, uint32_t flow, double level)
{
    for (uint32_t node = sim->flow[flow].node; node != SIM_NONE; node = sim->node[node].next) {
        const struct sim_resource *r = &sim->resource[sim->node[node].resource];
        if (r->mark == sim->mark && r->left <= level * EQUAL * r->weights)
            return 1;
    }
    return 0;
}

/* The flow has its share. */
static void freeze(struct peal_sim *sim, uint32_t flow, double rate)
{
    for (uint32_t node = sim->flow[flow].node; node != SIM_NONE; node = sim->node[node].next) {
        struct sim_resource *r = &sim->resource[sim->node[node].resource];
        if (r->mark != sim->mark)
            continue;
        r->left -= sim->node[node].weight * rate;
        r->weights -= sim->node[node].weight;
        if (r->weights < 1e-9)
            r->weights = 0;
    }
    set_rate(sim, flow, rate);
}

static void fill_level(struct peal_sim *sim)
{
    double level = least_level(sim), cap = -1;
    for (uint32_t i = 0; i < sim->part.count; i++) {
        double own = sim->flow[sim->part.at[i]].cap;
        cap = cap < 0 || own < cap ? own : cap;
    }
    int capped = level < 0 || cap <= level * EQUAL;
    uint32_t kept = 0, count = sim->part.count;
    /* Who is held back is decided before anybody's share is taken off. */
    for (uint32_t i = 0; i < count; i++) {
        uint32_t flow = sim->part.at[i];
        int now = capped ? sim->flow[flow].cap <= cap * EQUAL : is_full(sim, flow, level);
        sim->flow[flow].next = (uint32_t)now;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t flow = sim->part.at[i];
        if (sim->flow[flow].next)
            freeze(sim, flow, capped ? sim->flow[flow].cap : level);
        else
            sim->part.at[kept++] = flow;
    }
    /* Rounding may leave a level that no resource has: then all that is left gets it. */
    if (kept == count)
        for (kept = 0; kept < count; count--)
            freeze(sim, sim->part.at[count - 1], level);
    sim->part.count = kept;
}

void peal_sim_share(struct peal_sim *sim)
{
    if (!sim->fresh.count && !sim->dirty.count)
        return;
    collect(sim);
    for (uint32_t i = 0; i < sim->part_resource.count; i++) {
        struct sim_resource *r = &sim->resource[sim->part_resource.at[i]];
        r->left = r->capacity;
        r->weights = 0;
        for (uint32_t node = r->first; node != SIM_NONE; node = sim->node[node].after)
            r->weights += sim->node[node].weight;
    }
    while (sim->status == PEAL_OK && sim->part.count)
        fill_level(sim);
}
