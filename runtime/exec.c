/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one call: the lanes of a rank as coroutines of the calling thread. A lane that has to
 * wait gives way to the next; when none can go on, wait.c is asked for patience. */
#include "clock.h"
#include "far.h"

#include <sched.h>

#define POLLS_PER_GLANCE 64u /* of a caller who has other things to do */

enum outcome { WENT, BLOCKED, STRANGE, LOST };

/* ---- semaphores */

/* Where in the producer's count the present call lies, found out at its first wait. */
static inline void enter_sem(const struct peal_comm *comm, const struct rt_row *row,
                             const struct rt_step *step)
{
    struct rt_sem_in *sem = step->in;
    if (sem->call == comm->stamp)
        return;
    sem->call = comm->stamp;
    sem->base = sem->count;
    sem->end = sem->count + step->fixed + step->per_trip * row->trips;
}

static inline enum outcome do_wait(struct peal_comm *comm, const struct rt_row *row,
                                   const struct rt_step *step)
{
    struct rt_sem_in *sem = step->in;
    enter_sem(comm, row, step);
    uint64_t cell = atomic_load_explicit(sem->cell, memory_order_acquire);
    uint32_t count = (uint32_t)cell;
    if ((int32_t)(count - (sem->count + 1 - step->lag)) < 0)
        return BLOCKED;
    /* A count of this call carries this call's digest. */
    uint32_t into = count - sem->base;
    if ((uint32_t)(cell >> 32) != comm->digest && into - 1 < sem->end - sem->base)
        return STRANGE;
    sem->count++;
    return WENT;
}

static inline enum outcome do_learn(struct peal_comm *comm, const struct rt_row *row,
                                    const struct rt_step *step)
{
    enum outcome outcome = do_wait(comm, row, step);
    if (outcome == WENT)
        rt_count_learn(comm, row, step);
    return outcome;
}

static inline enum outcome do_signal(struct peal_comm *comm, struct rt_lane *lane,
                                     const struct rt_step *step)
{
    struct rt_sem_out *sem = step->out;
    if (sem->far)
        return rt_far_signal(comm, lane, step) ? WENT : BLOCKED;
    if (comm->worker)
        return rt_async_signal(comm, lane, step) ? WENT : BLOCKED;
    rt_raise(sem->cell, ++sem->sent, comm->digest);
    return WENT;
}

static inline enum outcome do_await(const struct rt_lane *lane, const struct rt_step *step)
{
    struct rt_event *event = &lane->events[step->event];
    rt_half *reached = step->what ? &event->delivered : &event->freed;
    return atomic_load_explicit(reached, memory_order_acquire) == event->issued ? WENT : BLOCKED;
}

/* ---- lanes */

static inline enum outcome do_step(struct peal_comm *comm, const struct rt_row *row,
                                   struct rt_lane *lane, const struct rt_step *step)
{
    switch ((enum rt_kind)step->kind) {
    case RT_MOVE:
    case RT_FOLD:
        if (comm->attached)
            return rt_attach_move(comm, row, lane, step) ? WENT : LOST;
        if (comm->gauges)
            rt_gauge_move(comm, row, lane, step);
        else
            rt_sm_move(comm, row, lane, step);
        return WENT;
    case RT_PACKET: {
        int there = rt_sm_packet(comm, row, lane, step);
        return there == 1 ? WENT : there == 0 ? BLOCKED : STRANGE;
    }
    case RT_AHEAD: {
        int there = rt_sm_ahead(comm, row, lane, step);
        return there == 1 ? WENT : there == 0 ? BLOCKED : STRANGE;
    }
    case RT_WIRE:
        rt_sm_wire(comm, row, lane, step);
        return WENT;
    case RT_ASYNC:
        return rt_async_move(comm, row, lane, step) ? WENT : BLOCKED;
    case RT_FAR:
        return rt_far_move(comm, row, lane, step) ? WENT : BLOCKED;
    case RT_SIGNAL:
        return do_signal(comm, lane, step);
    case RT_TELL:
        if (!step->out->far)
            rt_count_tell(comm, step);
        return do_signal(comm, lane, step);
    case RT_LEARN:
        return do_learn(comm, row, step);
    case RT_WAIT:
        return do_wait(comm, row, step);
    default:
        return do_await(lane, step);
    }
}

/* As do_step, and notes when the step was first tried and when it was over. */
static enum outcome traced_step(struct peal_comm *comm, const struct rt_row *row,
                                struct rt_lane *lane, const struct rt_step *step)
{
    if (!lane->since)
        lane->since = rt_now_ns();
    enum outcome outcome = do_step(comm, row, lane, step);
    if (outcome != WENT)
        return outcome;
    rt_trace_step(comm, row, lane, lane->since);
    lane->since = 0;
    return WENT;
}

/* Runs until the lane blocks or ends. *moved: whether any step was made. */
static inline enum outcome run_lane(struct peal_comm *comm, const struct rt_row *row,
                                    struct rt_lane *lane, int traces, int *moved)
{
    while (lane->pc != lane->last) {
        const struct rt_step *step = &row->steps[lane->pc];
        enum outcome outcome =
            traces ? traced_step(comm, row, lane, step) : do_step(comm, row, lane, step);
        if (outcome != WENT)
            return outcome;
        *moved = 1;
        if (++lane->pc == lane->post && lane->body != lane->post && lane->trip + 1 < row->trips) {
            lane->trip++;
            lane->pc = lane->body;
        }
    }
    return WENT;
}

/* ---- errors */

/* How many of a step's sources may be packets. */
static unsigned packets_of(const struct rt_step *step)
{
    return step->kind == RT_PACKET || step->kind == RT_AHEAD ? step->nsrc : 0;
}

static uint32_t awaited_rank(const struct rt_row *row, const struct rt_step *step)
{
    if (step->kind == RT_WAIT || step->kind == RT_LEARN)
        return step->peer;
    for (unsigned i = 0; i < packets_of(step); i++)
        if (row->operands[step->operands + i].packet)
            return row->operands[step->operands + i].writer;
    return RT_NOBODY;
}

/* The first lane that waits for another rank; else any that waits. */
static struct rt_blocked find_blocked(const struct peal_comm *comm, const struct rt_row *row)
{
    struct rt_blocked blocked = {.culprit = comm->behind, .ahead = comm->behind != RT_NOBODY};
    for (uint32_t i = 0; i < row->nlanes && blocked.culprit == RT_NOBODY; i++) {
        const struct rt_lane *lane = &row->lanes[i];
        if (lane->pc == lane->last)
            continue;
        blocked.lane = lane->number;
        blocked.step = row->steps[lane->pc].number;
        blocked.culprit = awaited_rank(row, &row->steps[lane->pc]);
    }
    return blocked;
}

/* Whose packet carries another call's digest: of several, one that says the same of itself. */
static uint32_t strange_rank(const struct peal_comm *comm, const struct rt_row *row,
                             const struct rt_step *step)
{
    for (unsigned i = 0; i < packets_of(step); i++) {
        const struct rt_operand *operand = &row->operands[step->operands + i];
        if (operand->packet && rt_calls_other(comm, operand->writer))
            return operand->writer;
    }
    return awaited_rank(row, step);
}

/* STRANGE: what a peer sent is of another call. LOST: a peer's memory is gone. */
static peal_status broken(struct peal_comm *comm, const struct rt_row *row,
                          const struct rt_lane *lane, enum outcome outcome, peal_diag *diag)
{
    int lost = outcome == LOST;
    const struct rt_step *step = &row->steps[lane->pc];
    struct rt_error error = {.status = lost ? PEAL_ERR_PEER : PEAL_ERR_MISMATCH,
                             .rank = comm->rank,
                             .culprit = lost ? comm->lost : strange_rank(comm, row, step),
                             .lane = lane->number,
                             .step = row->steps[lane->pc].number,
                             .call = comm->stamp};
    rt_fail(comm->base, &error);
    rt_far_fail(comm, &error);
    return rt_failure(comm, diag);
}

/* ---- the call */

/* What is waited for next has the whole deadline. */
static inline void stop_waiting(struct peal_comm *comm)
{
    comm->polls = 0;
    comm->timed = 0;
}

void rt_begin(struct peal_comm *comm, struct rt_row *row)
{
    stop_waiting(comm);
    comm->lingered = 0;
    rt_ahead_begin(comm, row);
    for (uint32_t i = 0; i < row->nlanes; i++) {
        struct rt_lane *lane = &row->lanes[i];
        lane->pc = lane->first;
        lane->trip = 0;
        lane->moved = 0;
        lane->since = 0;
    }
}

/* Each lane as far as it goes. */
peal_status rt_pass(struct peal_comm *comm, struct rt_row *row, struct rt_progress *progress,
                    peal_diag *diag)
{
    progress->moved = 0;
    progress->running = 0;
    if (comm->behind != RT_NOBODY && !rt_ahead_passed(comm, row)) {
        progress->running = 1;
        return PEAL_OK;
    }
    rt_far_hold(comm, row);
    for (uint32_t i = 0; i < row->nlanes; i++) {
        struct rt_lane *lane = &row->lanes[i];
        enum outcome outcome = comm->trace ? run_lane(comm, row, lane, 1, &progress->moved)
                                           : run_lane(comm, row, lane, 0, &progress->moved);
        if (outcome == STRANGE || outcome == LOST) {
            rt_far_flush(comm);
            return broken(comm, row, &row->lanes[i], outcome, diag);
        }
        progress->running += outcome == BLOCKED;
    }
    rt_far_flush(comm);
    if (progress->moved) {
        stop_waiting(comm);
        if (comm->lingered)
            rt_crowd_moved(comm, row);
        if (comm->drowsy)
            rt_awake(comm);
        rt_rouse_any(comm);
    }
    return PEAL_OK;
}

peal_status rt_idle(struct peal_comm *comm, const struct rt_row *row, int sleeps, peal_diag *diag)
{
    ++comm->polls;
    /* To those whom it waits for. How full a host is that others call theirs, too, is not known. */
    if (!sleeps && (comm->crowded || (comm->far && comm->polls >= comm->spin)))
        (void)sched_yield();
    if (sleeps ? comm->polls < comm->spin : comm->polls % POLLS_PER_GLANCE != 1) {
        rt_relax();
        return PEAL_OK;
    }
    struct rt_blocked blocked = find_blocked(comm, row);
    return sleeps ? rt_wait_more(comm, &blocked, diag) : rt_glance(comm, &blocked, diag);
}

/* A rank's only lane, as far as it goes at once: most calls of few bytes end here. AGAIN: it waits.
 */
static peal_status run_alone(struct peal_comm *comm, struct rt_row *row, peal_diag *diag)
{
    int moved = 0;
    enum outcome outcome = run_lane(comm, row, row->lanes, 0, &moved);
    if (outcome == STRANGE || outcome == LOST)
        return broken(comm, row, row->lanes, outcome, diag);
    if (moved)
        rt_rouse_any(comm);
    return outcome == WENT ? PEAL_OK : PEAL_AGAIN;
}

peal_status rt_run(struct peal_comm *comm, struct rt_row *row, peal_diag *diag)
{
    struct rt_progress progress;
    rt_begin(comm, row);
    if (row->nlanes == 1 && comm->behind == RT_NOBODY && !comm->trace && !comm->far) {
        peal_status status = run_alone(comm, row, diag);
        if (status != PEAL_AGAIN)
            return status;
    }
    do {
        PEAL_TRY(rt_pass(comm, row, &progress, diag));
        if (progress.moved || !progress.running)
            continue;
        if (comm->crowded && rt_crowd_lingers(comm, row))
            rt_relax();
        else
            PEAL_TRY(rt_idle(comm, row, 1, diag));
    } while (progress.running);
    return PEAL_OK;
}
