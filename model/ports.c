/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues at switch ports (incast). Senders do not know what others send: each transfer is offered
 * to the port at the rate of what it leaves its host through, of which all that leave there at a
 * time have equal shares. What is offered above the port's rate queues there, first come, first
 * served. Where that overruns the buffer, PFC stops the hosts' ports that feed it, and with them
 * whatever else they were sending: those are the innocent.
 */
#include "model.h"

#include "sort.h"

#include <math.h>

struct sim_offer {
    uint64_t start;
    uint64_t end;
    double left;     /* to send, in bytes of its port */
    double weight;   /* on that port, of each of its bytes */
    uint32_t leaves; /* the port of its host */
    uint32_t record;
};

/* An offer that begins or ends, in the order of time for each host's port. */
struct sim_turn {
    uint64_t time;
    uint32_t offer;
    int begins;
};

struct sim_edge {
    uint64_t time;
    double change;
};

struct ports {
    struct peal_sim *sim;
    struct sim_offer *offer; /* by port of a host, then by start */
    uint32_t offers;
    uint32_t *active; /* of one port at a time */
    struct sim_turn *turn;
    uint32_t turns;
    struct sim_edge *edge;
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
    if (port == SIM_NONE)
        return;
    double weight = weight_on(sim, r, port);
    p->offer[p->offers++] = (struct sim_offer){.start = r->begin,
                                               .left = (double)r->bytes * weight,
                                               .weight = weight,
                                               .leaves = port,
                                               .record = record};
}

static int offer_before(const void *left, const void *right, const void *with)
{
    const struct sim_offer *a = left, *b = right;
    (void)with;
    if (a->leaves != b->leaves)
        return a->leaves < b->leaves;
    return a->start < b->start || (a->start == b->start && a->record < b->record);
}

static void add_turn(struct ports *p, double time, uint32_t offer, int begins)
{
    p->turn[p->turns++] = (struct sim_turn){(uint64_t)(time + 0.5), offer, begins};
}

/* What is active goes on until then, each with the same share; those that are through end. */
static double send_until(struct ports *p, double capacity, uint32_t *count, double now,
                         double until)
{
    while (*count) {
        uint32_t least = 0;
        for (uint32_t i = 1; i < *count; i++)
            if (p->offer[p->active[i]].left < p->offer[p->active[least]].left)
                least = i;
        double sent = p->offer[p->active[least]].left, end = now + sent * *count / capacity;
        if (end > until)
            sent = (until - now) * capacity / *count;
        for (uint32_t i = 0; i < *count; i++)
            p->offer[p->active[i]].left -= sent;
        if (end > until)
            return until;
        now = end;
        p->offer[p->active[least]].end = (uint64_t)(now + 0.5);
        add_turn(p, now, p->active[least], 0);
        p->active[least] = p->active[--*count];
    }
    return until;
}

/* When the offers of one host's port end, and all turns there. */
static void play_out(struct ports *p, uint32_t first, uint32_t last)
{
    double capacity = p->sim->resource[p->offer[first].leaves].capacity, now = 0;
    uint32_t count = 0;
    for (uint32_t i = first; i < last; i++) {
        now = send_until(p, capacity, &count, now, (double)p->offer[i].start);
        add_turn(p, now, i, 1);
        p->active[count++] = i;
    }
    (void)send_until(p, capacity, &count, now, INFINITY);
}

static void play_all(struct ports *p)
{
    peal_sort(p->offer, p->offers, sizeof *p->offer, offer_before, NULL);
    for (uint32_t first = 0, last; first < p->offers; first = last) {
        for (last = first; last < p->offers && p->offer[last].leaves == p->offer[first].leaves;)
            last++;
        play_out(p, first, last);
    }
}

/* ---- one port */

static int edge_before(const void *left, const void *right, const void *with)
{
    const struct sim_edge *a = left, *b = right;
    (void)with;
    return a->time < b->time || (a->time == b->time && a->change < b->change);
}

/* What comes in from one host's port: its rate, times the part of what is sent there now that goes
 * to this port. */
static void gather_from(struct ports *p, uint32_t port, uint32_t first, uint32_t last)
{
    double capacity = p->sim->resource[p->offer[p->turn[first].offer].leaves].capacity;
    double rate = 0, share = 0;
    uint32_t all = 0, here = 0;
    for (uint32_t i = first; i < last; i++) {
        const struct sim_turn *turn = &p->turn[i];
        const struct sim_offer *offer = &p->offer[turn->offer];
        double weight = weight_on(p->sim, &p->sim->record[offer->record], port);
        int step = turn->begins ? 1 : -1;
        all += (uint32_t)step;
        if (weight > 0)
            here += (uint32_t)step;
        share = here ? share + step * weight / offer->weight : 0;
        double now = here ? capacity * share / all : 0;
        if (now != rate)
            p->edge[p->edges++] = (struct sim_edge){turn->time, now - rate};
        rate = now;
    }
}

static void gather(struct ports *p, uint32_t port)
{
    p->edges = 0;
    for (uint32_t first = 0, last; first < p->turns; first = last) {
        uint32_t leaves = p->offer[p->turn[first].offer].leaves;
        for (last = first; last < p->turns && p->offer[p->turn[last].offer].leaves == leaves;)
            last++;
        gather_from(p, port, first, last);
    }
    peal_sort(p->edge, p->edges, sizeof *p->edge, edge_before, NULL);
}

/* The queue over time: how deep it was, when, and from when on it filled up to that. */
static void deepest(const struct ports *p, double rate, struct sim_port *out)
{
    double queue = 0, offered = 0;
    uint64_t before = 0, since = 0;
    for (uint32_t i = 0; i < p->edges; i++) {
        queue += (offered - rate) * (double)(p->edge[i].time - before);
        before = p->edge[i].time;
        if (queue <= 0) {
            queue = 0;
            since = before;
        }
        if (queue > out->depth) {
            out->depth = queue;
            out->when = before;
            out->since = since;
        }
        offered += p->edge[i].change;
    }
}

/* While the queue filled. */
static int under_way(const struct sim_offer *offer, const struct sim_port *port)
{
    return offer->start < port->when && port->since < offer->end;
}

/* The hosts' ports that filled its queue; they have the mark of this round. */
static void find_senders(const struct ports *p, uint32_t port, struct sim_port *out)
{
    struct peal_sim *sim = p->sim;
    out->first_sender = sim->port_names.count;
    sim->change_mark++;
    for (uint32_t i = 0; i < p->offers; i++) {
        const struct sim_offer *offer = &p->offer[i];
        struct sim_resource *leaves = &sim->resource[offer->leaves];
        if (!under_way(offer, out) || leaves->change_mark == sim->change_mark ||
            weight_on(sim, &sim->record[offer->record], port) <= 0)
            continue;
        leaves->change_mark = sim->change_mark;
        peal_sim_append(sim, &sim->port_names, offer->leaves);
    }
    out->senders = sim->port_names.count - out->first_sender;
}

/* The switch's ports that a transfer goes to: each once. */
static void add_innocents(const struct ports *p, const struct sim_need *need,
                          const struct sim_port *out)
{
    struct peal_sim *sim = p->sim;
    for (uint32_t u = 0; u < need->uses; u++) {
        uint32_t other = sim->use[need->first_use + u].resource, i = out->first_innocent;
        if (other >= sim->fabric_resources || sim->resource[other].port != TOPO_PORT_SWITCH)
            continue;
        while (i < sim->port_names.count && sim->port_names.at[i] != other)
            i++;
        if (i == sim->port_names.count)
            peal_sim_append(sim, &sim->port_names, other);
    }
}

/* Who filled it, and whom stopping them would have stopped meanwhile. */
static void blame(const struct ports *p, uint32_t port, struct sim_port *out)
{
    struct peal_sim *sim = p->sim;
    find_senders(p, port, out);
    out->first_innocent = sim->port_names.count;
    for (uint32_t i = 0; out->depth > (double)sim->buffer && i < p->offers; i++) {
        const struct sim_offer *offer = &p->offer[i];
        const struct sim_record *record = &sim->record[offer->record];
        if (!under_way(offer, out) || weight_on(sim, record, port) > 0 ||
            sim->resource[offer->leaves].change_mark != sim->change_mark)
            continue;
        add_innocents(p, need_of(sim, record), out);
        out->victims++;
    }
    out->innocents = sim->port_names.count - out->first_innocent;
}

static peal_status look(struct ports *p)
{
    struct peal_sim *sim = p->sim;
    for (uint32_t i = 0; i < sim->nused; i++) {
        uint32_t r = sim->used[i];
        if (sim->resource[r].port != TOPO_PORT_SWITCH)
            continue;
        struct sim_port port = {.name = i};
        gather(p, r);
        deepest(p, sim->resource[r].capacity, &port);
        blame(p, r, &port);
        PEAL_TRY(peal_grow(sim->ctx, (void **)&sim->port, &sim->port_capacity,
                           (size_t)sim->ports + 1, sizeof *sim->port, UINT32_MAX / 2));
        sim->port[sim->ports++] = port;
    }
    return sim->status;
}

peal_status peal_sim_ports(struct peal_sim *sim)
{
    struct ports p = {.sim = sim};
    if (!sim->buffer)
        return PEAL_OK;
    for (uint32_t r = 0; r < sim->fabric_resources; r++)
        sim->resource[r].port = (uint8_t)peal_topo_resource_port(sim->fabric, r);
    size_t room = sim->records;
    p.offer = peal_calloc(sim->ctx, room, sizeof *p.offer);
    p.active = peal_calloc(sim->ctx, room, sizeof *p.active);
    p.turn = peal_calloc(sim->ctx, 2 * room, sizeof *p.turn);
    p.edge = peal_calloc(sim->ctx, 2 * room, sizeof *p.edge);
    peal_status status = p.offer && p.active && p.turn && p.edge ? PEAL_OK : PEAL_ERR_MEMORY;
    for (uint32_t i = 0; status == PEAL_OK && i < sim->records; i++)
        add_offer(&p, i);
    if (status == PEAL_OK) {
        play_all(&p);
        status = look(&p);
    }
    peal_free(sim->ctx, p.offer, room * sizeof *p.offer);
    peal_free(sim->ctx, p.active, room * sizeof *p.active);
    peal_free(sim->ctx, p.turn, 2 * room * sizeof *p.turn);
    peal_free(sim->ctx, p.edge, 2 * room * sizeof *p.edge);
    return status;
}

static const char *name_at(const peal_sim *sim, uint32_t at)
{
    const char *name = peal_sim_name_of(sim, sim->port_names.at[at]);
    return name ? name : "";
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
                           .innocent_ports = port->innocents};
    if (port->innocents)
        found.innocent_first = name_at(sim, port->first_innocent);
    else
        found.innocent_first = "";
    return peal_export(info, &found, sizeof found);
}

peal_status peal_sim_port_sender(const peal_sim *sim, uint32_t port, uint32_t index,
                                 const char **name_out)
{
    if (!sim || !name_out || port >= sim->ports || index >= sim->port[port].senders)
        return PEAL_ERR_ARG;
    *name_out = name_at(sim, sim->port[port].first_sender + index);
    return PEAL_OK;
}

peal_status peal_sim_port_innocent(const peal_sim *sim, uint32_t port, uint32_t index,
                                   const char **name_out)
{
    if (!sim || !name_out || port >= sim->ports || index >= sim->port[port].innocents)
        return PEAL_ERR_ARG;
    *name_out = name_at(sim, sim->port[port].first_innocent + index);
    return PEAL_OK;
}
