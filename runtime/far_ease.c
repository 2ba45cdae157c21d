/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What need not be awaited over TCP. Plans end with an await of each transfer's delivery, which
 * costs a network's way back. Where a signal to the same rank follows the transfer, that rank has
 * to wait for the signal before it returns, and it is raised behind all that was sent to it before:
 * then the transfer is over when all ranks have returned, which is all that is asked for, and the
 * sender has only to wait until its source is free. Nobody is in a hurry for the acknowledgement
 * then, either, which goes along with what is sent next.
 *
 * An await counts as the last thing that a lane does: behind others the plan may rely on it.
 */
#include "far.h"

/* Whether the last of what is raised is waited for, too: there are as many waits as signals, and
 * the last wait without a lag needs the last signal. */
static int waits_for_all(const struct peal_plan *plan, uint32_t rank, uint32_t producer,
                         uint32_t sem)
{
    const struct plan_rank *program = peal_plan_program(plan, rank);
    int waits = 0;
    for (uint32_t i = 0; i < program->nsteps; i++) {
        const struct plan_step *step = &program->steps[i];
        if ((step->op != PLAN_WAIT && step->op != PLAN_LEARN) || step->peer != producer ||
            step->sem != sem)
            continue;
        if (step->op == PLAN_WAIT && step->lag)
            return 0;
        waits = 1;
    }
    return waits;
}

static int is_signalled(const struct peal_comm *comm, const struct peal_plan *plan,
                        const struct rt_row *row, const struct rt_lane *lane, uint32_t from,
                        uint32_t rank)
{
    for (uint32_t i = from + 1; i < lane->last; i++) {
        const struct rt_step *step = &row->steps[i];
        if ((step->kind == RT_SIGNAL || step->kind == RT_TELL) && step->peer == rank) {
            uint32_t sem = (uint32_t)(step->out - comm->sem_out) % comm->layout.nsems;
            if (waits_for_all(plan, rank, comm->rank, sem))
                return 1;
        }
    }
    return 0;
}

/* Behind a step nothing but awaits, nor another trip. */
static int is_last(const struct rt_row *row, const struct rt_lane *lane, uint32_t from)
{
    if (row->tile_bytes && from >= lane->body && from < lane->post)
        return 0;
    for (uint32_t i = from + 1; i < lane->last; i++)
        if (row->steps[i].kind != RT_AWAIT)
            return 0;
    return 1;
}

/* The lane's only transfer of that event; what it reaches on other hosts is signalled to. */
static int is_alone(const struct peal_comm *comm, const struct peal_plan *plan,
                    const struct rt_row *row, const struct rt_lane *lane, uint32_t event)
{
    uint32_t found = 0;
    for (uint32_t i = lane->first; i < lane->last; i++) {
        const struct rt_step *step = &row->steps[i];
        if (step->kind == RT_AWAIT && step->event == event && step->what && !is_last(row, lane, i))
            return 0;
        if ((step->kind != RT_FAR && step->kind != RT_ASYNC) || step->event != event)
            continue;
        if (step->kind == RT_ASYNC || found++)
            return 0;
        const struct rt_operand *to = row->operands + step->operands + step->nsrc;
        for (uint32_t k = 0; k < step->ndst; k++)
            if (rt_is_far(comm, to[k].rank) && !is_signalled(comm, plan, row, lane, i, to[k].rank))
                return 0;
    }
    return found == 1;
}

void rt_far_ease(const struct peal_comm *comm, const struct peal_plan *plan, struct rt_row *row,
                 const struct rt_lane *lane)
{
    if (!comm->far || plan->sliced || !lane->events || !comm->far->transport->issue)
        return;
    for (uint32_t e = 0; e < PLAN_EVENTS_MAX; e++) {
        lane->events[e].eased = (uint8_t)is_alone(comm, plan, row, lane, e);
        for (uint32_t i = lane->first; lane->events[e].eased && i < lane->last; i++)
            if (row->steps[i].kind == RT_AWAIT && row->steps[i].event == e)
                row->steps[i].what = 0;
    }
}
