/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that waits for another host sleeps soon, and is woken by what comes from there. Networks
 * take their time, and where ranks outnumber processors a thread that only yields takes its full
 * share of them from the threads that receive: kernels since 6.6 hand out processors by what each
 * has had. What ranks of this host raise wakes nobody, so no nap lasts long beside the wait that is
 * behind it. Over TCP the rank listens to its sockets itself.
 */
#include "far.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define AWAKE_NS 100000u /* of a wait */
#define PART 8u          /* a nap is at most this part of the wait so far, */
#define NAP_NS 1000000u  /* and no longer than this */

static long futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *limit)
{
    return syscall(SYS_futex, word, what, value, limit, NULL, 0);
}

void rt_far_news(struct rt_far *far)
{
    (void)atomic_fetch_add_explicit(&far->news, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&far->sleeps, memory_order_seq_cst) &&
        atomic_exchange_explicit(&far->sleeps, 0, memory_order_seq_cst))
        (void)futex(&far->news, FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* What came behind the last look at `news` was seen by no poll for certain: then it does not
 * sleep. */
void rt_far_nap(struct rt_far *far, uint64_t waited_ns)
{
    uint64_t ns = waited_ns / PART < NAP_NS ? waited_ns / PART : NAP_NS;
    if (far->transport->nap) {
        uint32_t news = atomic_load_explicit(&far->news, memory_order_seq_cst);
        if (waited_ns > AWAKE_NS && news == far->news_seen)
            far->transport->nap(far->transport, ns);
        far->news_seen = news;
        return;
    }
    if (waited_ns > AWAKE_NS) {
        struct timespec limit = {0, (long)ns};
        atomic_store_explicit(&far->sleeps, 1, memory_order_seq_cst);
        (void)futex(&far->news, FUTEX_WAIT_PRIVATE, far->news_seen, &limit);
        atomic_store_explicit(&far->sleeps, 0, memory_order_seq_cst);
    }
    far->news_seen = atomic_load_explicit(&far->news, memory_order_seq_cst);
}
