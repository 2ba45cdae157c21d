/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that share processors. Who waits gives way, and is back when all others of its processor
 * have had their turn: a microsecond for each, for nothing where they wait for the same. So who
 * waits looks first whether any of them has yet to enter the call. If none has, what is awaited is
 * up to the other processors, and comes sooner than a turn takes: it lingers.
 *
 * So it is where packets are awaited. Who copies large messages has more to do when it has entered,
 * and is given way to at once: of 32 KiB, four ranks gathered in 21 us, and in 33 when they
 * lingered. Each row keeps a score of whether it helped.
 */
#define _GNU_SOURCE
#include "comm.h"

#include <sched.h>

/* Some turns: 8 ranks on two processors exchanged 8 bytes each in 10 us without, and in 7.3 so (a
 * virtual machine, its processors far apart). */
#define LINGER_POLLS 300u
#define SCORE_MOST 8u
#define TRY_EVERY 32u /* calls of a row that has none */
#define CROWD_MOST 64u

void rt_crowd_note(struct peal_comm *comm)
{
#if defined(__linux__)
    uint32_t here = (uint32_t)sched_getcpu() + 1;
    if (here == comm->processor)
        return;
    comm->processor = here;
    atomic_store_explicit(&comm->board->processor, here, memory_order_relaxed);
#else
    (void)comm;
#endif
}

/* Whether all of this processor have entered the call. */
static int all_entered(const struct peal_comm *comm)
{
    for (uint32_t r = 0; r < comm->nranks; r++) {
        const struct rt_board *board = rt_board(comm->base, &comm->layout, r);
        if (atomic_load_explicit(&board->processor, memory_order_relaxed) != comm->processor)
            continue;
        uint64_t call = atomic_load_explicit(&board->call, memory_order_relaxed);
        if ((int32_t)((uint32_t)call - comm->stamp) < 0)
            return 0;
    }
    return 1;
}

/* Behind packets nothing is left to do in a call. */
static int awaits_packet(const struct rt_row *row)
{
    const struct rt_lane *lane = row->lanes;
    uint8_t kind = lane->pc == lane->last ? RT_WAIT : row->steps[lane->pc].kind;
    return row->nlanes == 1 && (kind == RT_PACKET || kind == RT_AHEAD);
}

int rt_crowd_lingers(struct peal_comm *comm, struct rt_row *row)
{
    if (comm->far || comm->lingered >= LINGER_POLLS || comm->nranks > CROWD_MOST ||
        !comm->processor || !awaits_packet(row) ||
        (row->lingers == 0 && row->calls % TRY_EVERY != 0) || !all_entered(comm))
        return 0;
    comm->lingered++;
    if (comm->lingered == LINGER_POLLS)
        row->lingers -= row->lingers > 0;
    return 1;
}

void rt_crowd_moved(struct peal_comm *comm, struct rt_row *row)
{
    if (comm->lingered < LINGER_POLLS && row->lingers < SCORE_MOST)
        row->lingers++;
    comm->lingered = 0;
}
