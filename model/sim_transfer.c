/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers of asynchronous engines: issued without holding the lane, taken up one gap after the
 * other (a NIC by all ranks that share it), moved, and delivered a start-up later, with the
 * signals behind them.
 */
#include "model.h"

static uint32_t engine_of(const struct sim_queue *queue, const struct peal_sim *sim)
{
    size_t index = (size_t)(queue - sim->queue);
    return index < (size_t)sim->plan->nranks * PEAL_ENGINE_COUNT
               ? (uint32_t)(index % PEAL_ENGINE_COUNT)
               : PEAL_ENGINE_TMA;
}

int peal_sim_await(struct peal_sim *sim, uint32_t index, uint8_t event, uint8_t what)
{
    struct sim_lane *lane = &sim->lane[index];
    const struct sim_event *e = peal_sim_event_of(sim, index, event);
    if (!(what ? e->delivered : e->free)) {
        lane->on_event = event;
        lane->on_what = what;
        peal_sim_block(sim, lane);
        return 0;
    }
    if (lane->blocked_at != SIM_NEVER)
        lane->blocker = e->record;
    lane->on_event = PLAN_NO_EVENT;
    if (e->record != SIM_NONE && sim->keep)
        lane->deps = peal_sim_deps_join(sim, lane->deps, peal_sim_deps_one(sim, e->record));
    return 1;
}

static void wake(struct peal_sim *sim, uint32_t index, uint8_t event)
{
    const struct sim_lane *lane = &sim->lane[index];
    if (lane->on_event == event &&
        (lane->on_what ? peal_sim_event_of(sim, index, event)->delivered : 1))
        peal_sim_lane_run(sim, index);
}

int peal_sim_issue(struct peal_sim *sim, uint32_t index)
{
    struct sim_lane *lane = &sim->lane[index];
    const struct sim_step *step = &sim->step[lane->at];
    const struct sim_need *need = &sim->need[step->need];
    if (!peal_sim_await(sim, index, step->event, 1))
        return 0;
    struct sim_record record = {.start = sim->now,
                                .bytes = peal_sim_step_bytes(sim, lane),
                                .pred = lane->blocker != SIM_NONE ? lane->blocker : lane->cause,
                                .lane = index,
                                .step = peal_sim_lane_step(sim, lane),
                                .trip = lane->trip,
                                .kind = SIM_TRANSFER,
                                .event = step->event};
    uint32_t kept = peal_sim_record(sim, &record, lane->deps);
    uint32_t flow = kept == SIM_NONE ? SIM_NONE : peal_sim_flow_new(sim);
    if (flow == SIM_NONE)
        return 0;
    struct sim_flow *f = &sim->flow[flow];
    f->need = step->need;
    f->record = kept;
    *peal_sim_event_of(sim, index, step->event) = (struct sim_event){flow, kept, 0, 0};
    struct sim_queue *queue = &sim->queue[need->queue];
    uint64_t start = queue->next > sim->now ? queue->next : sim->now;
    queue->next = start + need->gap;
    peal_sim_push(sim, start + need->latency, EV_START, flow);
    return 1;
}

static void begin(struct peal_sim *sim, uint32_t flow)
{
    struct sim_record *record = &sim->record[sim->flow[flow].record];
    record->begin = sim->now;
    if (record->bytes)
        peal_sim_flow_begin(sim, flow);
    else
        peal_sim_transfer_ended(sim, flow);
}

/* An engine takes it up, when one is left. */
void peal_sim_start(struct peal_sim *sim, uint32_t flow)
{
    struct sim_queue *queue = &sim->queue[sim->need[sim->flow[flow].need].queue];
    if (engine_of(queue, sim) == PEAL_ENGINE_CE && queue->active >= peal_topo_copy_engines()) {
        sim->flow[flow].next = SIM_NONE;
        if (queue->head == SIM_NONE)
            queue->head = flow;
        else
            sim->flow[queue->tail].next = flow;
        queue->tail = flow;
        return;
    }
    queue->active++;
    begin(sim, flow);
}

void peal_sim_transfer_ended(struct peal_sim *sim, uint32_t flow)
{
    struct sim_flow *f = &sim->flow[flow];
    const struct sim_need *need = &sim->need[f->need];
    struct sim_queue *queue = &sim->queue[need->queue];
    uint32_t lane = sim->record[f->record].lane, next = queue->head;
    uint8_t event = sim->record[f->record].event;
    peal_sim_push(sim, sim->now + need->alpha, EV_DELIVERED, flow);
    queue->active--;
    if (next != SIM_NONE) {
        queue->head = sim->flow[next].next;
        queue->active++;
        begin(sim, next);
    }
    peal_sim_event_of(sim, lane, event)->free = 1;
    wake(sim, lane, event);
}

void peal_sim_delivered(struct peal_sim *sim, uint32_t flow)
{
    struct sim_flow *f = &sim->flow[flow];
    struct sim_record *record = &sim->record[f->record];
    uint32_t lane = record->lane, at = f->signals;
    uint8_t event = record->event;
    record->end = sim->now;
    peal_sim_event_of(sim, lane, event)->delivered = 1;
    peal_sim_ended(sim, f->record);
    while (at != SIM_NONE) {
        struct sim_attached attached = sim->attached[at];
        sim->attached[at].next = sim->attached_free;
        sim->attached_free = at;
        peal_sim_raise(sim, attached.sem, attached.number, sim->now);
        at = attached.next;
    }
    peal_sim_flow_free(sim, flow);
    wake(sim, lane, event);
}
