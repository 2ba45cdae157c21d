/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks have asked for. That their calls differ is known by a digest; in what, by this, which
 * a rank tells when it asks for something else than before, and others read when it is too late. */
#include "clock.h"
#include "far.h"

#include <stdio.h>
#include <string.h>

#define ASKED (1ull << 63)
#define LEARN_NS 100000000u /* for ranks of other hosts to say what they have asked for */

void rt_tell_call(const struct peal_comm *comm, const struct rt_args *args)
{
    rt_word *asked = comm->board->asked;
    uint64_t what =
        ASKED | (uint64_t)args->collective | (uint64_t)args->dtype << 8 | (uint64_t)args->op << 16;
    atomic_store_explicit(&asked[0], what, memory_order_relaxed);
    atomic_store_explicit(&asked[1], args->count, memory_order_relaxed);
    atomic_store_explicit(&asked[2], (uint64_t)args->root << 32 | args->peer, memory_order_relaxed);
}

/* "broadcast of 5 float32 from root 1"; 0: it is not known, or the rank has gone on since. */
static int call_text(const struct peal_comm *comm, uint32_t rank, uint32_t call, char *text,
                     size_t size)
{
    const struct rt_board *board = rt_board(comm->base, &comm->layout, rank);
    uint64_t what = atomic_load_explicit(&board->asked[0], memory_order_relaxed);
    uint64_t count = atomic_load_explicit(&board->asked[1], memory_order_relaxed);
    uint64_t ends = atomic_load_explicit(&board->asked[2], memory_order_relaxed);
    const char *collective = peal_collective_name((peal_collective)(what & 255));
    const char *dtype = peal_dtype_name((peal_dtype)(what >> 8 & 255));
    const char *op = peal_op_name((peal_op)(what >> 16 & 255));
    if (!(what & ASKED) || !collective || !dtype || !op ||
        (uint32_t)atomic_load_explicit(&board->call, memory_order_acquire) != call)
        return 0;
    const struct plan_collective *traits = peal_plan_collective((peal_collective)(what & 255));
    int used = snprintf(text, size, "%s of %llu %s%s%s", collective, (unsigned long long)count,
                        dtype, traits->reduces ? ", " : "", traits->reduces ? op : "");
    if (traits->rooted && used > 0 && (size_t)used < size)
        (void)snprintf(text + used, size - (size_t)used, ", root %u", (unsigned)(ends >> 32));
    return 1;
}

/* 1: a rank's board has this call, or its rank will not tell any more. */
static int is_told(const struct peal_comm *comm, uint32_t rank, uint32_t call)
{
    const struct rt_board *board = rt_board(comm->base, &comm->layout, rank);
    uint64_t heard;
    return !rt_is_far(comm, rank) ||
           (uint32_t)atomic_load_explicit(&board->call, memory_order_acquire) == call ||
           rt_far_state(comm, rank, &heard) != FAR_HERE;
}

void rt_calls_learn(struct peal_comm *comm, const struct rt_error *error)
{
    uint64_t until = rt_now_ns() + LEARN_NS;
    if (!comm->far || error->rank >= comm->nranks || error->culprit >= comm->nranks)
        return;
    rt_far_ask(comm);
    while (
        (!is_told(comm, error->rank, error->call) || !is_told(comm, error->culprit, error->call)) &&
        rt_now_ns() < until)
        rt_sleep_us(200);
}

int rt_calls_differ(const struct peal_comm *comm, const struct rt_error *error, char *text,
                    size_t size)
{
    char here[RT_CALL_TEXT], there[RT_CALL_TEXT];
    if (error->rank >= comm->nranks || error->culprit >= comm->nranks ||
        !call_text(comm, error->rank, error->call, here, sizeof here) ||
        !call_text(comm, error->culprit, error->call, there, sizeof there) ||
        strcmp(here, there) == 0)
        return 0;
    (void)snprintf(text, size, "%s, not %s", there, here);
    return 1;
}
