/* SPDX-License-Identifier: Apache-2.0 */
/* Time and patience. */
#ifndef PEAL_RUNTIME_CLOCK_H
#define PEAL_RUNTIME_CLOCK_H

#include <stdint.h>
#include <time.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

static inline uint64_t rt_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void rt_sleep_us(uint32_t us)
{
    struct timespec pause = {(time_t)(us / 1000000u), (long)(us % 1000000u) * 1000};
    (void)nanosleep(&pause, NULL);
}

/* Leaves the memory system to others for some tens of cycles. */
static inline void rt_relax(void)
{
#if defined(__SSE2__)
    _mm_pause();
#endif
}

#endif
