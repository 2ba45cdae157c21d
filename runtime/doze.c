/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleep of ranks that wait long. Who is about to sleep says so on his board and, once more for
 * all, in the head; looks again for what he waits for; and then sleeps in the kernel until he is
 * roused or some time is over. Who has moved anything, or returned from a call, looks at the head,
 * a word that is written by sleepers alone and is therefore in everybody's cache: no call of the
 * kernel, and no fence, is made where nobody sleeps.
 *
 * Without that fence a rank may look before the other sees what it stored, and the other sleep
 * although all is there. This happens within some tens of nanoseconds of a wait that has lasted
 * for milliseconds, and then costs it the time that a sleep lasts at most.
 */
#define _GNU_SOURCE
#include "clock.h"
#include "comm.h"

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#define HAVE_FUTEX 1
#endif

#define SLEEP_US 1000u
/* Threads that move data, and other hosts, rouse nobody. */
#define SLEEP_ALONE_US 100u

static void sleep_on(rt_half *word, uint32_t us)
{
#if defined(HAVE_FUTEX)
    struct timespec most = {0, (long)us * 1000};
    (void)syscall(SYS_futex, word, FUTEX_WAIT, 1, &most, NULL, 0);
#else
    (void)word;
    rt_sleep_us(us);
#endif
}

void rt_doze(struct peal_comm *comm)
{
    rt_half *asleep = &comm->board->asleep;
    if (!comm->drowsy)
        atomic_fetch_add_explicit(&rt_head(comm->base)->sleepers, 1, memory_order_seq_cst);
    if (!comm->drowsy || !atomic_load_explicit(asleep, memory_order_relaxed)) {
        comm->drowsy = 1;
        atomic_store_explicit(asleep, 1, memory_order_seq_cst);
        return;
    }
    sleep_on(asleep, comm->far || comm->worker ? SLEEP_ALONE_US : SLEEP_US);
}

void rt_awake(struct peal_comm *comm)
{
    comm->drowsy = 0;
    atomic_store_explicit(&comm->board->asleep, 0, memory_order_relaxed);
    atomic_fetch_sub_explicit(&rt_head(comm->base)->sleepers, 1, memory_order_relaxed);
}

void rt_rouse(const struct peal_comm *comm)
{
    for (uint32_t r = 0; r < comm->nranks; r++) {
        rt_half *asleep = &rt_board(comm->base, &comm->layout, r)->asleep;
        if (r == comm->rank || !atomic_load_explicit(asleep, memory_order_relaxed) ||
            !atomic_exchange_explicit(asleep, 0, memory_order_relaxed))
            continue;
#if defined(HAVE_FUTEX)
        (void)syscall(SYS_futex, asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
#endif
    }
}
