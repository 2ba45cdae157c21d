/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run as a graph of flows for other simulators (peal.flows/1): each flow may begin when all it
 * depends on are delivered. A step with several remote operands is several flows; what a lane
 * does in its own memory is one from its rank to itself; a signal that does not come right behind
 * data for the same rank is one of no bytes.
 */
#include "emit.h"

#include <string.h>

struct listing {
    const struct peal_sim *sim;
    struct emit *emit;
    uint32_t *first; /* flow of each record, and the end */
};

static uint32_t flows_of(const struct peal_sim *sim, const struct sim_record *record)
{
    const struct plan_rank *program = &sim->plan->ranks[sim->lane[record->lane].rank];
    const struct plan_step *step = &program->steps[record->step];
    uint32_t remote = 0;
    if (record->kind == SIM_WAIT || record->kind == SIM_SIGNAL)
        return record->kind == SIM_SIGNAL && !record->rides;
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++)
        remote += program->operands[step->operands + i].link != PLAN_NO_LINK;
    return remote ? remote : 1;
}

static void put_links(const struct listing *l, uint32_t from, uint32_t to)
{
    struct topo_path path;
    int more = 0;
    if (from != to)
        peal_sim_path(l->sim, from, to, &path);
    for (uint32_t u = 0; from != to && u < path.uses; u++) {
        const char *name = peal_sim_name_of(l->sim, (uint32_t)path.use[u].resource);
        if (name)
            peal_buf_fmt(&l->emit->buf, "%s\"%s\"", more++ ? "," : "", name);
    }
}

static void put_deps(const struct listing *l, uint32_t record)
{
    uint32_t set = l->sim->record_deps[record];
    int more = 0;
    for (uint32_t i = 0; set != SIM_NONE && i < l->sim->pool.at[set]; i++) {
        uint32_t before = l->sim->pool.at[set + 1 + i];
        for (uint32_t f = l->first[before]; f < l->first[before + 1]; f++)
            peal_buf_fmt(&l->emit->buf, "%s%u", more++ ? "," : "", f);
    }
}

static void put_flow(const struct listing *l, uint32_t record, uint32_t id, uint32_t from,
                     uint32_t to, uint64_t bytes)
{
    const struct sim_record *r = &l->sim->record[record];
    const struct plan_step *step = &l->sim->plan->ranks[l->sim->lane[r->lane].rank].steps[r->step];
    peal_buf_fmt(&l->emit->buf,
                 "%s{\"id\":%u,\"rank_from\":%u,\"rank_to\":%u,\"bytes\":%llu,\"engine\":\"%s\","
                 "\"links\":[",
                 id ? ",\n" : "", id, from, to, (unsigned long long)bytes,
                 peal_engine_name((peal_engine)step->engine));
    put_links(l, from, to);
    peal_buf_str(&l->emit->buf, "],\"deps\":[");
    put_deps(l, record);
    peal_buf_str(&l->emit->buf, "]}");
    peal_emit_pass(l->emit);
}

static void put_record(const struct listing *l, uint32_t record)
{
    const struct sim_record *r = &l->sim->record[record];
    uint32_t rank = l->sim->lane[r->lane].rank, id = l->first[record];
    const struct plan_rank *program = &l->sim->plan->ranks[rank];
    const struct plan_step *step = &program->steps[r->step];
    if (l->first[record + 1] == id)
        return;
    if (r->kind == SIM_SIGNAL) {
        put_flow(l, record, id, rank, step->peer, 0);
        return;
    }
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++) {
        const struct plan_operand *operand = &program->operands[step->operands + i];
        uint64_t bytes = operand->buffer == PLAN_BUF_PACKET ? 2 * r->bytes : r->bytes;
        if (operand->link != PLAN_NO_LINK)
            put_flow(l, record, id++, i < step->nsrc ? operand->rank : rank,
                     i < step->nsrc ? rank : operand->rank, bytes);
    }
    if (id == l->first[record])
        put_flow(l, record, id, rank, rank, r->bytes);
}

void peal_flows_emit(const struct peal_sim *sim, struct emit *emit)
{
    struct listing l = {sim, emit, NULL};
    l.first = peal_calloc(sim->ctx, (size_t)sim->records + 1, sizeof *l.first);
    if (!l.first) {
        emit->status = PEAL_ERR_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < sim->records; i++)
        l.first[i + 1] = l.first[i] + flows_of(sim, &sim->record[i]);
    peal_buf_fmt(&emit->buf,
                 "{\"schema\":\"peal.flows/1\",\"collective\":\"%s\",\"algorithm\":\"%s\","
                 "\"ranks\":%u,\"bytes\":%llu,\"flows\":[\n",
                 peal_collective_name(sim->plan->collective), sim->plan->algorithm,
                 sim->plan->nranks, (unsigned long long)sim->bytes);
    for (uint32_t i = 0; i < sim->records && emit->status == PEAL_OK; i++)
        put_record(&l, i);
    peal_buf_str(&emit->buf, "\n]}\n");
    peal_free(sim->ctx, l.first, ((size_t)sim->records + 1) * sizeof *l.first);
}
