/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a rank may be ahead (docs/plan-format.md, "Calls ahead"). A call that every rank enters
 * before anybody returns tells that all have returned from the call before it. Behind calls of
 * plans that run ahead this is not known, and is looked up on the boards.
 *
 * Who has to wait waits until half of the ring is free: else ranks would go on by turns, one call
 * at a time, each time a line of the board from one processor to the other.
 */
#include "comm.h"

void rt_ahead_learn(const struct peal_comm *comm, struct rt_row *row)
{
    uint64_t bytes = row->blocks * row->block_bytes;
    uint32_t size = 0;
    while (size < RT_CELLS && bytes > rt_cell_bytes(size))
        size++;
    row->copies = size < RT_CELLS ? RT_AHEAD_MOST : PLAN_AHEAD;
    row->window = row->fills ? row->copies : RT_NO_WINDOW;
    for (uint32_t i = 0; i < row->noperands; i++) {
        struct rt_operand *operand = &row->operands[i];
        const struct rt_ring *ring = operand->ring;
        if (!ring)
            continue;
        operand->at = ring->at;
        operand->copy_bytes = comm->layout.ring_bytes;
        operand->trip_bytes = ring->trip_bytes;
        if (size == RT_CELLS)
            continue;
        operand->at = rt_cells(comm->base, &comm->layout, size, operand->rank, ring->slot);
        operand->copy_bytes = rt_cell_bytes(size);
        operand->trip_bytes = (uint64_t)ring->width * RT_AHEAD_MOST * operand->copy_bytes;
    }
}

/* The call `calls` before the present one. When stamps come round, RT_AHEAD_MOST numbers are left
 * out (call.c). */
static int64_t call_before(const struct peal_comm *comm, uint32_t calls)
{
    int64_t call = (int64_t)comm->call - calls;
    int64_t round = (int64_t)(comm->call >> 32) << 32;
    return round && call >= round && call < round + RT_AHEAD_MOST ? call - RT_AHEAD_MOST : call;
}

/* Looks from the first that was found to be behind on, and takes note of the last call that is over
 * everywhere. */
static int all_have(struct peal_comm *comm, uint32_t first, int64_t call)
{
    int32_t least = -1;
    for (uint32_t i = 0; i < comm->nranks; i++) {
        uint32_t r = first + i < comm->nranks ? first + i : first + i - comm->nranks;
        const struct rt_board *board = rt_board(comm->base, &comm->layout, r);
        uint32_t done = atomic_load_explicit(&board->done, memory_order_acquire);
        int32_t from_here = (int32_t)(done - comm->stamp);
        if (r == comm->rank)
            continue;
        if ((int64_t)comm->call + from_here < call) {
            comm->behind = r;
            return 0;
        }
        least = from_here < least ? from_here : least;
    }
    comm->behind = RT_NOBODY;
    comm->over = comm->call - (uint32_t)-least;
    return 1;
}

void rt_ahead_begin(struct peal_comm *comm, const struct rt_row *row)
{
    comm->behind = RT_NOBODY;
    if (row->window == RT_NO_WINDOW || (int64_t)comm->over >= call_before(comm, row->window))
        return;
    (void)all_have(comm, 0, call_before(comm, row->window));
}

int rt_ahead_passed(struct peal_comm *comm, const struct rt_row *row)
{
    return all_have(comm, comm->behind,
                    call_before(comm, row->ahead ? row->window / 2 : row->window));
}

static peal_status differ(struct peal_comm *comm, uint32_t culprit, uint32_t call, peal_diag *diag)
{
    struct rt_error error = {
        .status = PEAL_ERR_MISMATCH, .rank = comm->rank, .culprit = culprit, .call = call};
    rt_fail(comm->base, &error);
    return rt_failure(comm, diag);
}

peal_status rt_ahead_compare(struct peal_comm *comm, peal_diag *diag)
{
    uint64_t span = comm->call - comm->compared;
    span = span < 2 * RT_AHEAD_MOST ? span : 2 * RT_AHEAD_MOST;
    comm->compared = comm->call;
    comm->unheard = 0;
    for (uint32_t r = 0; r < comm->nranks; r++) {
        const struct rt_board *board = rt_board(comm->base, &comm->layout, r);
        for (uint32_t back = 1; back < span; back++) {
            uint32_t at = (comm->stamp - back) % (2 * RT_AHEAD_MOST);
            uint64_t mine = atomic_load_explicit(&comm->board->ahead[at], memory_order_relaxed);
            uint64_t theirs = atomic_load_explicit(&board->ahead[at], memory_order_relaxed);
            if ((uint32_t)theirs == (uint32_t)mine && theirs != mine)
                return differ(comm, r, (uint32_t)mine, diag);
        }
    }
    return PEAL_OK;
}
