/* SPDX-License-Identifier: Apache-2.0 */
/* The run: all that happens at one time, then the shares that follow from it. */
#include "model.h"

static void happen(struct peal_sim *sim, const struct sim_due *due)
{
    switch ((enum sim_what)due->what) {
    case EV_LANE:
        peal_sim_lane_run(sim, due->a);
        break;
    case EV_SIGNAL:
        peal_sim_arrived(sim, due->a);
        break;
    case EV_START:
        peal_sim_start(sim, due->a);
        break;
    case EV_DELIVERED:
        peal_sim_delivered(sim, due->a);
        break;
    case EV_PACKET_BEGUN:
        peal_sim_packet(sim, due->a, 0);
        break;
    case EV_PACKET_ENDED:
        peal_sim_packet(sim, due->a, 1);
        break;
    }
}

static void flow_over(struct peal_sim *sim, uint32_t group)
{
    uint32_t flow = peal_sim_flow_end(sim, group);
    const struct sim_record *record = &sim->record[sim->flow[flow].record];
    if (record->event != PLAN_NO_EVENT) {
        peal_sim_transfer_ended(sim, flow);
        return;
    }
    peal_sim_flow_free(sim, flow);
    peal_sim_lane_run(sim, record->lane);
}

static uint64_t next_time(const struct peal_sim *sim)
{
    uint64_t time = sim->next[peal_sim_first(sim)].time;
    if (sim->heap.count && sim->group[sim->heap.at[0]].finish < time)
        time = sim->group[sim->heap.at[0]].finish;
    return time;
}

static void run(struct peal_sim *sim)
{
    for (uint32_t l = 0; l < sim->lanes; l++)
        peal_sim_lane_run(sim, l);
    while (sim->status == PEAL_OK) {
        peal_sim_share(sim);
        uint64_t time = next_time(sim);
        if (time == SIM_NEVER)
            return;
        sim->now = time;
        sim->present = 0;
        while (sim->status == PEAL_OK) {
            if (sim->heap.count && sim->group[sim->heap.at[0]].finish == time) {
                flow_over(sim, sim->heap.at[0]);
                continue;
            }
            uint32_t first = peal_sim_first(sim);
            if (sim->next[first].time != time)
                break;
            struct sim_due due = peal_sim_pop(sim, first);
            sim->present = due.order;
            happen(sim, &due);
        }
    }
}

/* ---- errors */

static peal_status tell_stuck(const struct peal_sim *sim, peal_diag *diag)
{
    uint32_t l = 0;
    while (l + 1 < sim->lanes && sim->lane[l].phase == SIM_OVER)
        l++;
    const struct sim_lane *lane = &sim->lane[l];
    uint32_t at = peal_sim_lane_step(sim, lane);
    struct peal_buf text;
    peal_buf_init(&text, sim->ctx, 256);
    peal_plan_print_step(sim->plan, lane->rank, &sim->plan->ranks[lane->rank].steps[at], &text);
    peal_status status = peal_fail(
        diag, PEAL_ERR_PLAN, "the plan does not end%s: rank %u, lane %u stands at step %u: %.*s",
        sim->heap.count ? ", what moves would take more than eleven days" : "", lane->rank,
        lane->index, at - sim->plan->ranks[lane->rank].lanes[lane->index].first, (int)text.used,
        text.data ? text.data : "");
    peal_buf_free(&text);
    return status;
}

static peal_status finish(struct peal_sim *sim, peal_diag *diag)
{
    if (sim->status == PEAL_ERR_MEMORY)
        return peal_fail(diag, sim->status, "out of memory");
    if (sim->status == PEAL_ERR_LIMIT)
        return peal_fail(diag, sim->status,
                         "more than %u transfers: a smaller message, or larger tiles",
                         SIM_RECORDS_MAX);
    if (sim->status != PEAL_OK)
        return peal_fail(diag, sim->status, "%s", peal_status_text(sim->status));
    if (sim->done < sim->lanes)
        return tell_stuck(sim, diag);
    peal_sim_flow_totals(sim);
    if (peal_sim_results(sim) != PEAL_OK || peal_sim_ports(sim) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    return PEAL_OK;
}

/* ---- made and destroyed */

static void free_vector(const struct peal_sim *sim, struct sim_vector32 *vector)
{
    peal_free(sim->ctx, vector->at, vector->capacity * sizeof *vector->at);
    *vector = (struct sim_vector32){0};
}

#define FREE(array, count) /* and forgets it */                                                    \
    do {                                                                                           \
        peal_free(sim->ctx, sim->array, (size_t)(count) * sizeof *sim->array);                     \
        sim->array = NULL;                                                                         \
    } while (0)

static void free_lines(const struct peal_sim *sim, struct sim_lines *lines)
{
    peal_free(sim->ctx, lines->raw, lines->bytes);
    *lines = (struct sim_lines){NULL, 0};
}

/* What only the run needed. */
static void forget(struct peal_sim *sim)
{
    for (uint32_t i = 0; sim->sem && i < sim->sems; i++)
        peal_free(sim->ctx, sim->sem[i].ring, sim->sem[i].room * sizeof *sim->sem[i].ring);
    free_lines(sim, &sim->sem_lines);
    sim->sem = NULL;
    FREE(sem_map, sim->sem_buckets);
    FREE(need_map, sim->need_buckets);
    for (uint32_t i = 0; sim->resource && i < sim->resources; i++) {
        struct sim_resource *r = &sim->resource[i];
        peal_free(sim->ctx, r->on, r->room * sizeof *r->on);
        r->on = NULL;
    }
    FREE(slot, sim->slots * sim->plan->nranks);
    FREE(nic_rank, sim->plan->nranks);
    FREE(queue, sim->queues);
    FREE(event, (size_t)sim->lanes * PLAN_EVENTS_MAX);
    free_lines(sim, &sim->group_lines);
    sim->group = NULL;
    FREE(flow, sim->flow_capacity);
    FREE(attached, sim->attached_capacity);
    peal_sim_dues_free(sim);
    free_vector(sim, &sim->heap);
    free_vector(sim, &sim->fresh);
    free_vector(sim, &sim->dirty);
    free_vector(sim, &sim->part);
    free_vector(sim, &sim->part_resource);
    free_vector(sim, &sim->levels);
    sim->fabric = NULL;
}

void peal_sim_destroy(peal_sim *sim)
{
    if (!sim)
        return;
    forget(sim);
    peal_free(sim->plan->ctx, sim->chunk, ((size_t)sim->plan->nchunks + 1) * sizeof *sim->chunk);
    FREE(step_first, sim->plan->nranks + 1);
    FREE(lane_first, sim->plan->nranks + 1);
    FREE(step, sim->steps);
    FREE(need, sim->need_capacity);
    FREE(sem_key, sim->sem_key_capacity);
    FREE(use, sim->use_capacity);
    FREE(path, sim->plan->nlinks);
    FREE(pair, sim->pairs);
    FREE(region_first, sim->plan->nregions + 1);
    free_lines(sim, &sim->lane_lines);
    free_lines(sim, &sim->resource_lines);
    FREE(record, sim->record_capacity);
    FREE(record_deps, sim->record_deps_capacity);
    FREE(port, sim->port_capacity);
    FREE(used, sim->nused);
    FREE(name, sim->nused);
    FREE(by_start, sim->records_sorted);
    free_vector(sim, &sim->done_order);
    free_vector(sim, &sim->pool);
    free_vector(sim, &sim->path_back);
    free_vector(sim, &sim->port_names);
    peal_ctx *ctx = sim->ctx;
    peal_free(ctx, sim, sizeof *sim);
}

static peal_status check(const peal_fabric *fabric, const peal_table *table, uint32_t row,
                         const peal_sim_params *params, peal_diag *diag)
{
    if (row >= table->nrows || !table->rows[row].plan)
        return peal_fail(diag, PEAL_ERR_ARG, "row %u holds no program", row);
    const struct peal_plan *plan = table->rows[row].plan;
    if (plan->nranks > peal_topo_ranks(fabric))
        return peal_fail(diag, PEAL_ERR_ARG, "a plan of %u ranks, and a machine of %u",
                         plan->nranks, peal_topo_ranks(fabric));
    if (params->bytes > plan->max_bytes)
        return peal_fail(diag, PEAL_ERR_RANGE, "%llu bytes are more than the plan's %llu",
                         (unsigned long long)params->bytes, (unsigned long long)plan->max_bytes);
    return PEAL_OK;
}

peal_status peal_simulate(peal_ctx *ctx, const peal_fabric *fabric, const peal_table *table,
                          uint32_t row, const peal_sim_params *params, peal_diag *diag,
                          peal_sim **sim_out)
{
    peal_sim_params own = PEAL_SIM_PARAMS_INIT;
    if (!ctx || !fabric || !table || !sim_out)
        return peal_fail(diag, PEAL_ERR_ARG, "an argument is missing");
    if (params && peal_import(&own, sizeof own, params) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "the parameters are of a later version");
    PEAL_TRY(check(fabric, table, row, &own, diag));
    struct peal_sim *sim = peal_calloc(ctx, 1, sizeof *sim);
    if (!sim)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    sim->ctx = ctx;
    sim->fabric = fabric;
    sim->plan = table->rows[row].plan;
    sim->bytes = own.bytes ? own.bytes : sim->plan->max_bytes;
    sim->buffer = own.buffer_bytes;
    sim->keep = own.keep;
    sim->round = 1;
    peal_sim_dues_open(sim);
    sim->last = sim->flow_free = sim->attached_free = SIM_NONE;
    peal_status status = peal_sim_prepare(sim, diag);
    if (status == PEAL_OK) {
        run(sim);
        status = finish(sim, diag);
    }
    if (status != PEAL_OK) {
        peal_sim_destroy(sim);
        return status;
    }
    forget(sim);
    *sim_out = sim;
    return PEAL_OK;
}
