/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A data step of the lane itself: it waits until its packets begin to arrive, for loads to go
 * there and back, moves the tile, and ends no earlier than the last of its packets. What it
 * stores is there a start-up later, which the signal behind it pays.
 */
#include "model.h"

/* ---- packets */

static uint32_t slot_of(const struct peal_sim *sim, const struct plan_operand *operand,
                        uint32_t trip)
{
    const struct plan_region *region = &sim->plan->regions[operand->index];
    uint64_t own = sim->region_first[operand->index] +
                   (uint64_t)(trip % region->depth) * region->width + operand->slot;
    return (uint32_t)(operand->rank * sim->slots + own);
}

void peal_sim_packet(struct peal_sim *sim, uint32_t index, int ended)
{
    struct sim_slot *slot = &sim->slot[index];
    uint32_t waiter = slot->waiter;
    slot->begun = 1;
    slot->ended = slot->ended || ended;
    slot->waiter = SIM_NONE;
    if (waiter != SIM_NONE)
        peal_sim_lane_run(sim, waiter);
}

/* Of two records the one that began or ended later. */
static uint32_t later_of(const struct peal_sim *sim, uint32_t a, uint32_t b, int ended)
{
    if (a == SIM_NONE || b == SIM_NONE)
        return a == SIM_NONE ? b : a;
    const struct sim_record *x = &sim->record[a], *y = &sim->record[b];
    return (ended ? y->end > x->end : y->begin > x->begin) ? b : a;
}

static const struct plan_operand *
operands_of(const struct peal_sim *sim, const struct sim_lane *lane, const struct plan_step *step)
{
    return &sim->plan->ranks[lane->rank].operands[step->operands];
}

/* 1: all packets that the step reads have begun to arrive, or have arrived. */
static int packets_there(struct peal_sim *sim, uint32_t index, int ended)
{
    struct sim_lane *lane = &sim->lane[index];
    if (!sim->step[lane->at].packets)
        return 1;
    const struct plan_step *step = peal_sim_step(sim, lane);
    const struct plan_operand *operands = operands_of(sim, lane, step);
    for (uint32_t i = 0; i < step->nsrc; i++) {
        if (operands[i].buffer != PLAN_BUF_PACKET)
            continue;
        struct sim_slot *slot = &sim->slot[slot_of(sim, &operands[i], lane->trip)];
        if (ended ? slot->ended : slot->begun) {
            if (lane->blocked_at != SIM_NEVER)
                lane->blocker = later_of(sim, lane->blocker, slot->writer, ended);
            continue;
        }
        slot->waiter = index;
        peal_sim_block(sim, lane);
        return 0;
    }
    return 1;
}

/* Forgets them; their slots may be written again. */
static void take_packets(struct peal_sim *sim, const struct sim_lane *lane)
{
    if (!sim->step[lane->at].packets)
        return;
    const struct plan_step *step = peal_sim_step(sim, lane);
    const struct plan_operand *operands = operands_of(sim, lane, step);
    for (uint32_t i = 0; i < step->nsrc; i++)
        if (operands[i].buffer == PLAN_BUF_PACKET) {
            struct sim_slot *slot = &sim->slot[slot_of(sim, &operands[i], lane->trip)];
            slot->begun = slot->ended = 0;
        }
}

static void send_packets(struct peal_sim *sim, const struct sim_lane *lane, enum sim_what what)
{
    if (!sim->step[lane->at].packets)
        return;
    uint64_t alpha = sim->need[sim->step[lane->at].need].alpha;
    const struct plan_step *step = peal_sim_step(sim, lane);
    const struct plan_operand *operands = operands_of(sim, lane, step);
    for (uint32_t i = step->nsrc; i < (uint32_t)step->nsrc + step->ndst; i++)
        if (operands[i].buffer == PLAN_BUF_PACKET) {
            uint32_t slot = slot_of(sim, &operands[i], lane->trip);
            sim->slot[slot].writer = lane->record;
            peal_sim_push(sim, sim->now + alpha, what, slot);
        }
}

/* What packets it reads are behind, too. */
static uint32_t deps_of(struct peal_sim *sim, const struct sim_lane *lane)
{
    uint32_t deps = lane->deps;
    if (!sim->keep || !sim->step[lane->at].packets)
        return deps;
    const struct plan_step *step = peal_sim_step(sim, lane);
    const struct plan_operand *operands = operands_of(sim, lane, step);
    for (uint32_t i = 0; i < step->nsrc; i++)
        if (operands[i].buffer == PLAN_BUF_PACKET)
            deps = peal_sim_deps_join(
                sim, deps,
                peal_sim_deps_one(sim, sim->slot[slot_of(sim, &operands[i], lane->trip)].writer));
    return deps;
}

/* ---- its phases */

static int later(struct peal_sim *sim, uint32_t index, uint64_t time, enum sim_phase phase)
{
    sim->lane[index].phase = (uint8_t)phase;
    peal_sim_push(sim, time, EV_LANE, index);
    return 0;
}

static void begin(struct peal_sim *sim, uint32_t index)
{
    struct sim_lane *lane = &sim->lane[index];
    uint32_t deps = deps_of(sim, lane);
    if (lane->blocked_at != SIM_NEVER && lane->blocker != SIM_NONE)
        lane->cause = lane->blocker;
    lane->blocked_at = SIM_NEVER;
    lane->blocker = SIM_NONE;
    struct sim_record record = {.start = sim->now,
                                .begin = sim->now,
                                .bytes = peal_sim_step_bytes(sim, lane),
                                .pred = lane->cause,
                                .lane = index,
                                .step = peal_sim_lane_step(sim, lane),
                                .trip = lane->trip,
                                .kind = SIM_MOVE,
                                .event = PLAN_NO_EVENT};
    lane->record = peal_sim_record(sim, &record, deps);
}

/* Puts the tile under way; 1: there is nothing to move. */
static int flow(struct peal_sim *sim, uint32_t index)
{
    struct sim_lane *lane = &sim->lane[index];
    if (sim->record[lane->record].bytes == 0)
        return 1;
    uint32_t flow = peal_sim_flow_new(sim);
    if (flow == SIM_NONE)
        return 0;
    sim->flow[flow].need = sim->step[lane->at].need;
    sim->flow[flow].record = lane->record;
    lane->phase = SIM_FLOWS;
    peal_sim_flow_begin(sim, flow);
    return 0;
}

static int finish(struct peal_sim *sim, uint32_t index)
{
    struct sim_lane *lane = &sim->lane[index];
    if (!packets_there(sim, index, 1))
        return 0;
    struct sim_record *record = &sim->record[lane->record];
    if (lane->blocked_at != SIM_NEVER) /* its end is due to the last packet */
        record->pred = lane->blocker;
    lane->blocked_at = SIM_NEVER;
    lane->blocker = SIM_NONE;
    take_packets(sim, lane);
    record->end = sim->now;
    lane->cause = lane->record;
    lane->deps = peal_sim_deps_one(sim, lane->record);
    peal_sim_ended(sim, lane->record);
    return 1;
}

/* Goes on where the step stands; lanes are woken when a phase is over. */
int peal_sim_move(struct peal_sim *sim, uint32_t index)
{
    struct sim_lane *lane = &sim->lane[index];
    const struct sim_need *need = &sim->need[sim->step[lane->at].need];
    switch (lane->phase) {
    case SIM_READY:
        if (!packets_there(sim, index, 0))
            return 0;
        if (need->message && sim->now < lane->next_issue)
            return later(sim, index, lane->next_issue, SIM_READY);
        begin(sim, index);
        if (sim->status != PEAL_OK)
            return 0;
        if (need->latency && sim->record[lane->record].bytes)
            return later(sim, index, sim->now + need->latency, SIM_LATENCY);
        /* fall through */
    case SIM_LATENCY:
        sim->record[lane->record].begin = sim->now;
        lane->not_before = sim->now + need->gap;
        if (need->message)
            lane->next_issue = lane->not_before + need->message;
        send_packets(sim, lane, EV_PACKET_BEGUN);
        if (!flow(sim, index))
            return 0;
        /* fall through */
    case SIM_FLOWS:
        if (sim->now < lane->not_before)
            return later(sim, index, lane->not_before, SIM_GAPS);
        /* fall through */
    case SIM_GAPS:
        send_packets(sim, lane, EV_PACKET_ENDED);
        lane->phase = SIM_TAIL;
        /* fall through */
    default:
        return finish(sim, index);
    }
}
