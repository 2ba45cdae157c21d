/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that fail when a test says so, and how much a program has not given back. */
#include "fake.h"

#define UNKNOWN 999 /* CUDA_ERROR_UNKNOWN */

static uint32_t countdown;   /* 0: none */
static void (*action)(void); /* in the place of a failure */
static const char *failed;
static uint32_t held[FAKE_HELD];

void peal_stand_in_at(uint32_t nth, void (*what)(void))
{
    __atomic_store_n(&failed, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&action, what, __ATOMIC_RELAXED);
    __atomic_store_n(&countdown, nth, __ATOMIC_RELEASE);
}

void peal_stand_in_fail(uint32_t nth)
{
    peal_stand_in_at(nth, NULL);
}

const char *peal_stand_in_failed(void)
{
    return __atomic_load_n(&failed, __ATOMIC_ACQUIRE);
}

cu_result fake_fails(const char *function)
{
    uint32_t left = __atomic_load_n(&countdown, __ATOMIC_ACQUIRE);
    while (left && !__atomic_compare_exchange_n(&countdown, &left, left - 1, 1, __ATOMIC_ACQ_REL,
                                                __ATOMIC_ACQUIRE))
        continue;
    if (left != 1)
        return CU_SUCCESS;
    __atomic_store_n(&failed, function, __ATOMIC_RELEASE);
    void (*what)(void) = __atomic_load_n(&action, __ATOMIC_RELAXED);
    if (!what)
        return UNKNOWN;
    what();
    return CU_SUCCESS;
}

void fake_hold(enum fake_held what, int more)
{
    (void)__atomic_add_fetch(&held[what], (uint32_t)more, __ATOMIC_RELAXED);
}

void peal_stand_in_held(uint32_t *counts)
{
    for (unsigned i = 0; i < FAKE_HELD; i++)
        counts[i] = __atomic_load_n(&held[i], __ATOMIC_RELAXED);
}
