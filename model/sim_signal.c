/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Semaphores: signals arrive in the order they were issued, a start-up after they were raised;
 * one behind a transfer is raised when that is delivered. When a signal arrives is known once it
 * is raised, so it is no event unless a lane stands for it.
 */
#include "model.h"

#include <string.h>

static struct sim_arrival *arrival_at(struct sim_sem *sem, uint32_t number)
{
    struct sim_arrival *ring = sem->ring ? sem->ring : sem->own;
    return &ring[number & (sem->room - 1)];
}

static int make_room(struct peal_sim *sim, struct sim_sem *sem)
{
    if (sem->issued - sem->first < sem->room)
        return 1;
    if (sem->issued == UINT32_MAX) {
        sim->status = PEAL_ERR_LIMIT;
        return 0;
    }
    uint32_t room = 2 * sem->room;
    struct sim_arrival *ring = peal_calloc(sim->ctx, room, sizeof *ring);
    if (!ring) {
        sim->status = PEAL_ERR_MEMORY;
        return 0;
    }
    for (uint32_t n = sem->first; n < sem->issued; n++)
        ring[n & (room - 1)] = *arrival_at(sem, n);
    peal_free(sim->ctx, sem->ring, sem->room * sizeof *ring);
    sem->ring = ring;
    sem->room = room;
    return 1;
}

/* The waiter is woken when what it stands for is there. */
static void call(struct peal_sim *sim, uint32_t index)
{
    struct sim_sem *sem = &sim->sem[index];
    const struct sim_arrival *last = arrival_at(sem, sem->needed - 1);
    peal_sim_push_at(sim, &(struct sim_due){last->arrival, last->order, EV_SIGNAL, sem->waiter});
}

void peal_sim_raise(struct peal_sim *sim, uint32_t index, uint32_t number, uint64_t time)
{
    struct sim_sem *sem = &sim->sem[index];
    arrival_at(sem, number)->arrival = time;
    while (sem->raised < sem->issued && arrival_at(sem, sem->raised)->arrival != SIM_NEVER) {
        struct sim_arrival *arrival = arrival_at(sem, sem->raised++);
        if (arrival->arrival < sem->last)
            arrival->arrival = sem->last;
        sem->last = arrival->arrival;
        arrival->order = ++sim->order;
        if (sem->waiter != SIM_NONE && sem->raised == sem->needed)
            call(sim, index);
    }
}

void peal_sim_arrived(struct peal_sim *sim, uint32_t waiter)
{
    sim->sem[sim->step[sim->lane[waiter].at].sem].waiter = SIM_NONE;
    peal_sim_lane_run(sim, waiter); /* it asks again */
}

/* 1: that many have arrived. */
static int arrived(const struct peal_sim *sim, struct sim_sem *sem, uint32_t needed)
{
    if (needed <= sem->first)
        return 1;
    if (sem->raised < needed)
        return 0;
    const struct sim_arrival *last = arrival_at(sem, needed - 1);
    return last->arrival < sim->now || (last->arrival == sim->now && last->order <= sim->present);
}

/* ---- signal */

/* 1: the lane's last step moved data to the rank that is told: the flag comes with it. */
static int rides(const struct peal_sim *sim, uint32_t index, const struct plan_step *step,
                 uint32_t *record)
{
    const struct sim_lane *lane = &sim->lane[index];
    const struct plan_rank *program = &sim->plan->ranks[lane->rank];
    *record = step->after != PLAN_NO_EVENT ? peal_sim_event_of(sim, index, step->after)->record
                                           : lane->record;
    if (step->after != PLAN_NO_EVENT)
        return *record != SIM_NONE;
    if (*record == SIM_NONE || lane->cause != *record)
        return 0;
    const struct plan_step *move = &program->steps[sim->record[*record].step];
    for (uint32_t i = move->nsrc; i < (uint32_t)move->nsrc + move->ndst; i++)
        if (program->operands[move->operands + i].rank == step->peer)
            return 1;
    return 0;
}

/* What a signal leaves behind when all is kept, and what it lets its waiter know. */
static void keep(struct peal_sim *sim, uint32_t index, uint32_t cause, struct sim_arrival *arrival)
{
    struct sim_lane *lane = &sim->lane[index];
    const struct plan_step *step = peal_sim_step(sim, lane);
    struct sim_record record = {.start = sim->now,
                                .pred = cause,
                                .lane = index,
                                .step = peal_sim_lane_step(sim, lane),
                                .trip = lane->trip,
                                .peer = SIM_NONE,
                                .kind = SIM_SIGNAL,
                                .event = PLAN_NO_EVENT};
    uint32_t behind;
    int riding = rides(sim, index, step, &behind);
    record.rides = (uint8_t)(riding || step->peer == lane->rank);
    arrival->record = peal_sim_record(sim, &record, lane->deps);
    arrival->deps = step->after != PLAN_NO_EVENT && riding ? peal_sim_deps_one(sim, behind)
                    : record.rides                         ? lane->deps
                                   : peal_sim_deps_one(sim, arrival->record);
}

/* Behind a transfer that is not delivered yet. */
static int attach(struct peal_sim *sim, uint32_t flow, uint32_t sem, uint32_t number)
{
    uint32_t at = sim->attached_free;
    if (at == SIM_NONE) {
        peal_status status =
            peal_grow(sim->ctx, (void **)&sim->attached, &sim->attached_capacity,
                      (size_t)sim->attacheds + 1, sizeof *sim->attached, UINT32_MAX / 2);
        if (status != PEAL_OK) {
            sim->status = status;
            return 0;
        }
        at = sim->attacheds++;
    } else {
        sim->attached_free = sim->attached[at].next;
    }
    sim->attached[at] = (struct sim_attached){sem, number, sim->flow[flow].signals};
    sim->flow[flow].signals = at;
    return 1;
}

/* When the lane's engine sends it. */
static uint64_t leaves(struct peal_sim *sim, struct sim_lane *lane, const struct sim_need *need)
{
    if (need->queue == SIM_NONE) {
        lane->next_issue = sim->now + need->gap;
        return sim->now;
    }
    struct sim_queue *queue = &sim->queue[need->queue];
    uint64_t start = queue->next > sim->now ? queue->next : sim->now;
    queue->next = start + need->gap;
    return start;
}

int peal_sim_signal(struct peal_sim *sim, uint32_t index)
{
    struct sim_lane *lane = &sim->lane[index];
    const struct sim_step *step = &sim->step[lane->at];
    struct sim_sem *sem = &sim->sem[step->sem];
    const struct sim_need *need = &sim->need[sem->need];
    if (need->queue == SIM_NONE && need->gap && sim->now < lane->next_issue) {
        peal_sim_push(sim, lane->next_issue, EV_LANE, index);
        return 0;
    }
    if (!make_room(sim, sem))
        return 0;
    const struct sim_event *event =
        step->after != PLAN_NO_EVENT ? peal_sim_event_of(sim, index, step->after) : NULL;
    uint32_t cause = event && event->record != SIM_NONE ? event->record : lane->cause;
    uint32_t number = sem->issued++;
    struct sim_arrival *arrival = arrival_at(sem, number);
    *arrival = (struct sim_arrival){.arrival = SIM_NEVER,
                                    .issued = sim->now,
                                    .cause = cause,
                                    .lane = index,
                                    .step = peal_sim_lane_step(sim, lane),
                                    .trip = lane->trip};
    if (sim->keep)
        keep(sim, index, cause, arrival);
    if (event && !event->delivered)
        return attach(sim, event->flow, step->sem, number);
    peal_sim_raise(sim, step->sem, number, leaves(sim, lane, need) + need->alpha);
    return 1;
}

/* ---- wait */

/* The signal that let the wait pass. */
static void passed(struct peal_sim *sim, uint32_t index, const struct sim_arrival *arrival)
{
    struct sim_lane *lane = &sim->lane[index];
    uint32_t kept = sim->keep ? arrival->record : SIM_NONE;
    if (lane->blocked_at != SIM_NEVER && kept == SIM_NONE) {
        struct sim_record record = {.start = arrival->issued,
                                    .pred = arrival->cause,
                                    .lane = arrival->lane,
                                    .step = arrival->step,
                                    .trip = arrival->trip,
                                    .kind = SIM_SIGNAL,
                                    .event = PLAN_NO_EVENT};
        kept = peal_sim_record(sim, &record, SIM_NONE);
    }
    if (kept != SIM_NONE) {
        sim->record[kept].end = arrival->arrival;
        sim->record[kept].begin = sim->now;
        sim->record[kept].peer = index;
    }
    if (lane->blocked_at != SIM_NEVER)
        lane->blocker = kept;
    if (sim->keep)
        lane->deps = peal_sim_deps_join(sim, lane->deps, arrival->deps);
}

int peal_sim_wait(struct peal_sim *sim, uint32_t index)
{
    struct sim_lane *lane = &sim->lane[index];
    const struct sim_step *step = &sim->step[lane->at];
    struct sim_sem *sem = &sim->sem[step->sem];
    uint32_t waits = sem->waits + 1;
    uint32_t needed = waits > step->lag ? waits - step->lag : 0;
    if (!arrived(sim, sem, needed)) {
        sem->waiter = index;
        sem->needed = needed;
        peal_sim_block(sim, lane);
        if (sem->raised >= needed)
            call(sim, step->sem);
        return 0;
    }
    sem->waits = waits;
    if (needed > sem->first) {
        passed(sim, index, arrival_at(sem, needed - 1));
        sem->first = needed;
    }
    return 1;
}
