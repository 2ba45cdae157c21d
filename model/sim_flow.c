/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows on their resources. How many bytes they still have to move is looked at when their rates
 * change only.
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
        sim->flow[flow].mark = 0;
    } else {
        sim->flow_free = sim->flow[flow].next;
    }
    struct sim_flow *f = &sim->flow[flow];
    uint32_t mark = f->mark;
    *f = (struct sim_flow){.heap_at = SIM_NONE,
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

/* ---- begin and end */

static void load(struct peal_sim *sim, uint32_t flow, const struct sim_use *use)
{
    struct sim_resource *r = &sim->resource[use->resource];
    if (r->flows == r->room) {
        sim->status = peal_grow(sim->ctx, (void **)&r->on, &r->room, (size_t)r->flows + 1,
                                sizeof *r->on, UINT32_MAX / 2);
        if (sim->status != PEAL_OK)
            return;
    }
    r->on[r->flows] = (struct sim_load){flow, use->weight};
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

/* Keeps the others' order. */
static void unload(struct peal_sim *sim, uint32_t flow, const struct sim_use *use, double bytes)
{
    struct sim_resource *r = &sim->resource[use->resource];
    if (r->load >= r->capacity * SIM_FULL)
        peal_sim_append(sim, &sim->dirty, use->resource);
    uint32_t at = 0;
    while (at + 1 < r->flows && r->on[at].flow != flow)
        at++;
    memmove(&r->on[at], &r->on[at + 1], (r->flows - at - 1) * sizeof *r->on);
    r->bytes += use->weight * bytes;
    r->load -= use->weight * sim->flow[flow].rate;
    if (--r->flows == 0) {
        r->load = 0;
        r->busy += sim->now - r->busy_since;
    }
}

/* Takes a flow off its resources; the caller frees it. */
void peal_sim_flow_end(struct peal_sim *sim, uint32_t flow)
{
    const struct sim_flow *f = &sim->flow[flow];
    const struct sim_need *need = &sim->need[f->need];
    double bytes = (double)sim->record[f->record].bytes;
    peal_sim_heap_remove(sim, flow);
    for (uint32_t u = need->uses; u-- > 0;)
        unload(sim, flow, &sim->use[need->first_use + u], bytes);
}

void peal_sim_flow_rate(struct peal_sim *sim, uint32_t flow, double rate)
{
    struct sim_flow *f = &sim->flow[flow];
    if (f->heap_at != SIM_NONE && f->rate == rate)
        return;
    const struct sim_need *need = &sim->need[f->need];
    for (uint32_t u = 0; u < need->uses; u++) {
        const struct sim_use *use = &sim->use[need->first_use + u];
        sim->resource[use->resource].load += use->weight * (rate - f->rate);
    }
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
