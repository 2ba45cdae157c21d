/* SPDX-License-Identifier: Apache-2.0 */
/* What a comm has done, step by step and call by call, and where the ranks of a world stand. */
#include "clock.h"
#include "far.h"

/* ---- counters */

peal_status peal_comm_measure(peal_comm *comm, int on)
{
    if (!comm)
        return PEAL_ERR_ARG;
    rt_queue_hold(comm);
    comm->measures = on != 0;
    rt_queue_leave(comm);
    return PEAL_OK;
}

_Static_assert(PEAL_TRANSPORT_COUNT == sizeof((peal_counter *)0)->carried / sizeof(peal_carried),
               "a counter has all transports");

peal_status peal_comm_counter(const peal_comm *comm, uint32_t index, peal_counter *counter)
{
    if (!comm || !counter || index >= comm->nrows)
        return PEAL_ERR_ARG;
    const struct rt_row *row = &comm->rows[index];
    rt_queue_hold(comm);
    peal_counter full = {.size = sizeof full,
                         .collective = row->collective,
                         .root = row->root,
                         .peer = row->peer,
                         .max_bytes = row->max_bytes,
                         .engines = row->engines,
                         .calls = row->calls,
                         .bytes = row->moved_bytes,
                         .staged = row->staged,
                         .attached = row->attached,
                         .time_us = (double)row->time_ns / 1e3};
    peal_copy_text(full.algorithm, sizeof full.algorithm, row->algorithm);
    for (uint32_t t = 0; t < PEAL_TRANSPORT_COUNT; t++)
        full.carried[t] = (peal_carried){.calls = row->carried[t].calls,
                                         .bytes = row->carried[t].bytes,
                                         .time_us = (double)row->carried[t].time_ns / 1e3};
    rt_queue_leave(comm);
    return peal_export(counter, &full, sizeof full);
}

/* ---- the timeline */

void rt_trace_free(struct peal_comm *comm)
{
    peal_free(comm->ctx, comm->trace, comm->trace_room * sizeof *comm->trace);
    comm->trace = NULL;
    comm->trace_room = comm->trace_used = 0;
}

peal_status peal_comm_trace(peal_comm *comm, uint32_t events, peal_diag *diag)
{
    if (!comm)
        return peal_fail(diag, PEAL_ERR_ARG, "no comm");
    if (comm->lined)
        return peal_fail(diag, PEAL_ERR_ARG, "calls are outstanding, or a thread sees to them");
    rt_trace_free(comm);
    if (!events)
        return PEAL_OK;
    comm->trace = peal_calloc(comm->ctx, events, sizeof *comm->trace);
    if (!comm->trace)
        return peal_fail(diag, PEAL_ERR_MEMORY, "no memory for %u events", events);
    comm->trace_room = events;
    return PEAL_OK;
}

/* Bytes that a step moved of each source, or 0. */
static uint64_t bytes_of(const struct rt_row *row, const struct rt_lane *lane,
                         const struct rt_step *step)
{
    uint64_t bytes = 0;
    if (step->kind >= RT_SIGNAL)
        return 0;
    for (uint32_t nth = 0; nth <= step->more; nth++) {
        uint32_t chunk = step->chunk + nth * step->stride;
        uint64_t count = row->ends[chunk] - row->bounds[chunk];
        if (row->tile) {
            uint64_t skip = lane->trip * row->tile;
            count = count > skip ? count - skip : 0;
            count = count < row->tile ? count : row->tile;
        }
        bytes += count * row->elem_bytes;
    }
    return bytes;
}

void rt_trace_step(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                   uint64_t start)
{
    if (comm->trace_used == comm->trace_room)
        return;
    const struct rt_step *step = &row->steps[lane->pc];
    int waits = step->kind == RT_WAIT || step->kind == RT_LEARN || step->kind == RT_AWAIT;
    comm->trace[comm->trace_used++] = (struct rt_mark){.start = start,
                                                       .end = rt_now_ns(),
                                                       .bytes = bytes_of(row, lane, step),
                                                       .call = comm->call,
                                                       .row = (uint32_t)(row - comm->rows),
                                                       .lane = lane->number,
                                                       .step = step->number,
                                                       .trip = lane->trip,
                                                       .waits = (uint8_t)waits};
}

peal_status peal_comm_traced(const peal_comm *comm, uint32_t index, peal_trace_event *event)
{
    if (!comm || !event)
        return PEAL_ERR_ARG;
    rt_queue_hold(comm);
    uint32_t used = comm->trace_used;
    rt_queue_leave(comm);
    if (index >= used)
        return PEAL_ERR_ARG;
    const struct rt_mark *mark = &comm->trace[index];
    peal_trace_event full = {.size = sizeof full,
                             .call = mark->call,
                             .row = mark->row,
                             .rank = comm->rank,
                             .lane = mark->lane,
                             .step = mark->step,
                             .trip = mark->trip,
                             .waits = mark->waits,
                             .bytes = mark->bytes,
                             .start_ns = mark->start,
                             .end_ns = mark->end};
    return peal_export(event, &full, sizeof full);
}

/* ---- where ranks stand */

peal_status peal_world_rank(const peal_world *world, uint32_t rank, peal_rank_state *state)
{
    if (!world || !state || rank >= world->segment.layout.nranks)
        return PEAL_ERR_ARG;
    const struct rt_far *far = world->job ? world->job->far : NULL;
    struct rt_board *board = rt_board(world->segment.base, &world->segment.layout, rank);
    if (far && far->is_far[rank])
        rt_far_wonder(world->job->far);
    peal_rank_state full = {.size = sizeof full, .awaited = UINT32_MAX};
    full.joined = atomic_load_explicit(&board->joined, memory_order_acquire) == 2;
    full.pid = atomic_load_explicit(&board->pid, memory_order_relaxed);
    full.entered = (uint32_t)atomic_load_explicit(&board->call, memory_order_acquire);
    full.returned = atomic_load_explicit(&board->done, memory_order_acquire);
    if (full.entered != full.returned &&
        atomic_load_explicit(&board->waiting, memory_order_acquire) == full.entered) {
        full.waits = 1;
        full.lane = atomic_load_explicit(&board->lane, memory_order_relaxed);
        full.step = atomic_load_explicit(&board->step, memory_order_relaxed);
        full.awaited = atomic_load_explicit(&board->awaited, memory_order_relaxed);
    }
    return peal_export(state, &full, sizeof full);
}
