/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolic execution of all ranks. Lanes run until they block; semaphores have one producer and
 * one consumer, so the order in which lanes are picked decides nothing. Order is kept in vector
 * clocks: one component for each lane, two for each event of an asynchronous engine (its source
 * is free; it is delivered).
 */
#include "execute.h"

/* Moves the lane to its next step; 1 when it has ended the call. */
static int advance(const struct machine *m, struct lane_state *lane, const struct plan_lane *code)
{
    lane->pc++;
    if (lane->pc == code->pre + code->body && code->body && lane->trip + 1 < m->trips) {
        lane->trip++;
        lane->pc = code->pre;
    }
    return lane->pc == code->pre + code->body + code->post;
}

static peal_status run_lane(struct machine *m, uint32_t self)
{
    struct lane_state *lane = &m->lanes[self];
    const struct plan_rank *program = &m->plan->ranks[lane->rank];
    const struct plan_lane *code = lane->code;
    uint32_t length = code->pre + code->body + code->post;
    int ended = lane->pc == length;
    while (!ended && m->out->findings < VERIFY_FINDINGS_MAX) {
        const struct plan_step *step = &program->steps[code->first + lane->pc];
        uint32_t sem = m->sems->of_step[lane->rank][code->first + lane->pc];
        int passed = 1;
        if (peal_plan_op_signals(step->op))
            PEAL_TRY(peal_execute_signal(m, lane, lane->pc, step, sem));
        else if (peal_plan_op_waits(step->op))
            PEAL_TRY(peal_execute_wait(m, self, step, sem, &passed));
        else if (step->op == PLAN_AWAIT)
            PEAL_TRY(peal_execute_await(m, lane, step));
        else
            PEAL_TRY(peal_execute_data(m, self, lane->pc, step, &passed));
        if (!passed)
            return PEAL_OK;
        m->steps++;
        ended = advance(m, lane, code);
    }
    if (ended && --m->ranks[lane->rank].running == 0)
        return peal_execute_leave(m, lane->rank);
    return PEAL_OK;
}

static void report_stuck(struct machine *m)
{
    for (uint32_t i = 0; i < m->nlanes; i++) {
        const struct lane_state *lane = &m->lanes[i];
        const struct plan_rank *program = &m->plan->ranks[lane->rank];
        const struct plan_lane *code = lane->code;
        if (!code || lane->pc == code->pre + code->body + code->post)
            continue;
        const struct plan_step *step = &program->steps[code->first + lane->pc];
        if (peal_plan_op_waits(step->op))
            peal_verify_find(m->out, "deadlock", lane->rank, lane->lane, lane->pc,
                             "call %u trip %u: waits for ever for rank %u, semaphore %u",
                             m->ranks[lane->rank].call, lane->trip, step->peer, step->sem);
        else
            peal_verify_find(m->out, "deadlock", lane->rank, lane->lane, lane->pc,
                             "call %u trip %u: waits for ever for a packet",
                             m->ranks[lane->rank].call, lane->trip);
    }
}

/* Mostly it is the rank that has issued the transfer who waits for it. */
static int somebody_knows(const struct machine *m, uint32_t issuer, const struct event_state *event)
{
    for (uint32_t i = 0; i <= m->plan->nranks; i++) {
        uint32_t rank = i ? i - 1 : issuer;
        if (peal_verify_clock_time(m->lanes[m->ranks[rank].caller].clock, event->component + 1) >=
            event->time)
            return 1;
    }
    return 0;
}

/* Every transfer of the last call is over when all ranks have returned: somebody waited for it.
 * Otherwise it could still be under way in the call after next, in memory of that call. */
static void check_transfers(struct machine *m)
{
    for (uint32_t i = 0; i < m->nlanes && m->order; i++)
        for (uint32_t e = 0; m->lanes[i].code && e < PLAN_EVENTS_MAX; e++) {
            const struct event_state *event = &m->lanes[i].event[e];
            if (event->component == NOBODY || event->time == TIME_NEVER)
                continue;
            if (!somebody_knows(m, m->lanes[i].rank, event))
                peal_verify_find(m->out, "composition", m->lanes[i].rank, m->lanes[i].lane,
                                 event->step,
                                 "nobody waits until the transfer of e%u is delivered; it may "
                                 "still be under way in later calls",
                                 e);
        }
}

static peal_status run(struct machine *m)
{
    for (uint32_t r = 0; r < m->plan->nranks; r++)
        PEAL_TRY(peal_execute_enter(m, r));
    while (m->queued && m->out->findings < VERIFY_FINDINGS_MAX) {
        uint32_t self = m->queue[--m->queued];
        m->lanes[self].queued = 0;
        PEAL_TRY(run_lane(m, self));
    }
    if (m->out->findings < VERIFY_FINDINGS_MAX)
        report_stuck(m);
    if (!m->out->findings)
        check_transfers(m);
    return PEAL_OK;
}

peal_status peal_verify_execute(struct verify_run *what, struct verify_out *out)
{
    struct machine m = {0};
    what->unentered = what->unentered_by = UINT32_MAX;
    m.plan = what->plan;
    m.sems = what->sems;
    m.run = what;
    m.out = out;
    m.ctx = what->plan->ctx;
    m.alias = what->alias;
    m.order = what->order;
    m.trips = what->trips;
    m.calls = what->calls;
    /* A plan that runs ahead names no scratch, and has more copies of packets than are executed. */
    m.copies = what->plan->ahead ? VERIFY_CALLS_MAX : 2;
    m.clocks.ctx = m.ctx;
    peal_status status = peal_execute_make_lanes(&m);
    if (status == PEAL_OK)
        status = peal_execute_make_cells(&m);
    if (status == PEAL_OK)
        status = peal_execute_make_sems(&m);
    if (status == PEAL_OK)
        status = run(&m);
    what->steps = m.steps;
    peal_execute_free_sems(&m);
    peal_execute_free_cells(&m);
    peal_execute_free_lanes(&m);
    peal_verify_clock_drop(&m.clocks, m.entries);
    peal_verify_clocks_free(&m.clocks);
    peal_free(m.ctx, m.pool, m.pool_capacity * sizeof *m.pool);
    return status;
}
