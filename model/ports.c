/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues at switch ports (incast). Senders do not know what others send: each transfer is offered
 * to the port at the rate of what it leaves its host through, shared with what its host sends at
 * that time. What is offered above the port's rate queues there, first come, first served. Where
 * that overruns the buffer, PFC stops the hosts' ports that feed it, and with them whatever else
 * they were sending: those are the innocent.
 */
#include "model.h"

struct sim_offer {
    uint64_t start;
    uint64_t end;
    double rate;     /* bytes per ps */
    uint32_t leaves; /* the port of its host */
    uint32_t record;
};

struct sim_edge {
    uint64_t time;
    double change;
};

struct ports {
    struct peal_sim *sim;
    struct sim_offer *offer;
    uint32_t offers;
    struct sim_edge *edge; /* two of each offer to a port */
    uint32_t edges;
};

/* ---- what is offered */

static const struct sim_need *need_of(const struct peal_sim *sim, const struct sim_record *record)
{
    uint32_t step = sim->step_first[sim->lane[record->lane].rank] + record->step;
    return &sim->need[sim->step[step].need];
}

static int moves(const struct sim_record *record)
{
    return (record->kind == SIM_MOVE || record->kind == SIM_TRANSFER) && record->bytes;
}

static double weight_on(const struct peal_sim *sim, const struct sim_record *record,
                        uint32_t resource)
{
    const struct sim_need *need = need_of(sim, record);
    for (uint32_t u = 0; u < need->uses; u++)
        if (sim->use[need->first_use + u].resource == resource)
            return sim->use[need->first_use + u].weight;
    return 0;
}

/* The port that it leaves its host through; SIM_NONE: it stays on it. */
static uint32_t leaves_by(const struct peal_sim *sim, const struct sim_record *record)
{
    const struct sim_need *need = need_of(sim, record);
    for (uint32_t u = 0; u < need->uses; u++) {
        uint32_t resource = sim->use[need->first_use + u].resource;
        if (resource < sim->fabric_resources && sim->resource[resource].port == TOPO_PORT_LEAVES)
            return resource;
    }
    return SIM_NONE;
}

static void add_offer(struct ports *p, uint32_t record)
{
    const struct peal_sim *sim = p->sim;
    const struct sim_record *r = &sim->record[record];
    uint32_t port = moves(r) ? leaves_by(sim, r) : SIM_NONE;
    uint32_t sharing = 1;
    if (port == SIM_NONE)
        return;
    for (uint32_t i = p->offers; i-- > 0 && p->offers - i < 256;)
        sharing += p->offer[i].leaves == port && p->offer[i].end > r->begin;
    double rate = sim->resource[port].capacity / sharing / weight_on(sim, r, port);
    p->offer[p->offers++] = (struct sim_offer){
        r->begin, r->begin + (uint64_t)((double)r->bytes / rate) + 1, rate, port, record};
}

/* ---- one port */

static int edge_before(const struct sim_edge *a, const struct sim_edge *b)
{
    return a->time < b->time || (a->time == b->time && a->change < b->change);
}

static void sift(struct sim_edge *at, uint32_t root, uint32_t count)
{
    struct sim_edge value = at[root];
    for (;;) {
        uint32_t child = 2 * root + 1;
        if (child >= count)
            break;
        if (child + 1 < count && edge_before(&at[child], &at[child + 1]))
            child++;
        if (!edge_before(&value, &at[child]))
            break;
        at[root] = at[child];
        root = child;
    }
    at[root] = value;
}

static void sort_edges(struct sim_edge *at, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sift(at, i, count);
    for (uint32_t last = count; last-- > 1;) {
        struct sim_edge top = at[0];
        at[0] = at[last];
        at[last] = top;
        sift(at, 0, last);
    }
}

static void gather(struct ports *p, uint32_t port)
{
    p->edges = 0;
    for (uint32_t i = 0; i < p->offers; i++) {
        const struct sim_offer *offer = &p->offer[i];
        double weight = weight_on(p->sim, &p->sim->record[offer->record], port);
        if (weight <= 0)
            continue;
        p->edge[p->edges++] = (struct sim_edge){offer->start, weight * offer->rate};
        p->edge[p->edges++] = (struct sim_edge){offer->end, -weight * offer->rate};
    }
    sort_edges(p->edge, p->edges);
}

/* The queue over time; *when its greatest depth was. */
static double deepest(const struct ports *p, double rate, uint64_t *when)
{
    double queue = 0, most = 0, offered = 0;
    uint64_t before = 0;
    for (uint32_t i = 0; i < p->edges; i++) {
        queue += (offered - rate) * (double)(p->edge[i].time - before);
        queue = queue > 0 ? queue : 0;
        if (queue > most) {
            most = queue;
            *when = p->edge[i].time;
        }
        offered += p->edge[i].change;
        before = p->edge[i].time;
    }
    return most;
}

/* Who was sending to it when it was deepest, and whom stopping them would have stopped. */
static void blame(const struct ports *p, uint32_t port, struct sim_port *out)
{
    struct peal_sim *sim = p->sim;
    uint64_t when = out->when ? out->when - 1 : 0;
    sim->change_mark++;
    for (uint32_t i = 0; i < p->offers; i++) {
        const struct sim_offer *offer = &p->offer[i];
        if (offer->start > when || offer->end <= when ||
            weight_on(sim, &sim->record[offer->record], port) <= 0)
            continue;
        out->senders += sim->resource[offer->leaves].change_mark != sim->change_mark;
        sim->resource[offer->leaves].change_mark = sim->change_mark;
    }
    for (uint32_t i = 0; out->depth > (double)sim->buffer && i < p->offers; i++) {
        const struct sim_offer *offer = &p->offer[i];
        const struct sim_record *record = &sim->record[offer->record];
        if (offer->start > when || offer->end <= when || weight_on(sim, record, port) > 0 ||
            sim->resource[offer->leaves].change_mark != sim->change_mark)
            continue;
        const struct sim_need *need = need_of(sim, record);
        for (uint32_t u = 0; u < need->uses; u++) {
            uint32_t other = sim->use[need->first_use + u].resource;
            if (other >= sim->fabric_resources || sim->resource[other].port != TOPO_PORT_SWITCH)
                continue;
            if (out->victims == 0)
                out->victim = other;
            out->victims++;
        }
    }
}

static peal_status look(struct ports *p)
{
    struct peal_sim *sim = p->sim;
    for (uint32_t i = 0; i < sim->nused; i++) {
        uint32_t r = sim->used[i];
        if (sim->resource[r].port != TOPO_PORT_SWITCH)
            continue;
        struct sim_port port = {.name = i, .victim = SIM_NONE};
        gather(p, r);
        port.depth = deepest(p, sim->resource[r].capacity, &port.when);
        blame(p, r, &port);
        PEAL_TRY(peal_grow(sim->ctx, (void **)&sim->port, &sim->port_capacity,
                           (size_t)sim->ports + 1, sizeof *sim->port, UINT32_MAX / 2));
        sim->port[sim->ports++] = port;
    }
    return PEAL_OK;
}

peal_status peal_sim_ports(struct peal_sim *sim)
{
    struct ports p = {.sim = sim};
    if (!sim->buffer)
        return PEAL_OK;
    for (uint32_t r = 0; r < sim->fabric_resources; r++)
        sim->resource[r].port = (uint8_t)peal_topo_resource_port(sim->fabric, r);
    p.offer = peal_calloc(sim->ctx, sim->records, sizeof *p.offer);
    p.edge = peal_calloc(sim->ctx, 2 * (size_t)sim->records, sizeof *p.edge);
    peal_status status = p.offer && p.edge ? PEAL_OK : PEAL_ERR_MEMORY;
    for (uint32_t i = 0; status == PEAL_OK && i < sim->records; i++)
        add_offer(&p, sim->by_start[i]);
    if (status == PEAL_OK)
        status = look(&p);
    peal_free(sim->ctx, p.offer, sim->records * sizeof *p.offer);
    peal_free(sim->ctx, p.edge, 2 * (size_t)sim->records * sizeof *p.edge);
    return status;
}

peal_status peal_sim_port_get(const peal_sim *sim, uint32_t index, peal_sim_port *info)
{
    if (!sim || !info || index >= sim->ports)
        return PEAL_ERR_ARG;
    const struct sim_port *port = &sim->port[index];
    peal_sim_port found = {.size = sizeof found,
                           .resource = sim->name[port->name].resource,
                           .depth_bytes = port->depth,
                           .at_us = (double)port->when * 1e-6,
                           .senders = port->senders,
                           .overrun = port->depth > (double)sim->buffer,
                           .innocent = port->victims,
                           .innocent_first =
                               port->victim == SIM_NONE ? "" : peal_sim_name_of(sim, port->victim)};
    return peal_export(info, &found, sizeof found);
}
