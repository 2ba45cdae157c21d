/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CUDA C++ has and peal_device.cuh uses, for a C++ compiler and a host: a thread of a block is
 * a thread of the process; flags are the acquire and release operations of the interpreter's host
 * target, and numbers of 16 bits are rounded as there (runtime/device).
 */
#ifndef PEAL_TESTS_ON_HOST_H
#define PEAL_TESTS_ON_HOST_H

#include "device/dev_num.h"

#include <pthread.h>
#include <sched.h>

#define __device__
#define __global__
#define __forceinline__ inline

struct on_host_index {
    unsigned x;
};
static thread_local on_host_index threadIdx, blockDim;
static thread_local pthread_barrier_t *on_host_block;

static inline void __syncthreads()
{
    (void)pthread_barrier_wait(on_host_block);
}

struct int4 {
    int x, y, z, w;
};

struct __half {
    uint16_t bits;
    __half() = default;
    explicit __half(float value) : bits(dev_to_f16(value))
    {
    }
    explicit operator float() const
    {
        return dev_from_f16(bits);
    }
};

struct __nv_bfloat16 {
    uint16_t bits;
    __nv_bfloat16() = default;
    explicit __nv_bfloat16(float value) : bits(dev_to_bf16(value))
    {
    }
    explicit operator float() const
    {
        return dev_from_bf16(bits);
    }
};

static inline float __half2float(__half value)
{
    return static_cast<float>(value);
}

static inline __half __float2half_rn(float value)
{
    return __half(value);
}

static inline float __bfloat162float(__nv_bfloat16 value)
{
    return static_cast<float>(value);
}

static inline __nv_bfloat16 __float2bfloat16_rn(float value)
{
    return __nv_bfloat16(value);
}

static inline void peal_raise(uint64_t *at)
{
    (void)__atomic_fetch_add(at, 1, __ATOMIC_RELEASE);
}

/* A turn is given away each time: there are fewer processors than threads that wait. */
static inline uint64_t peal_seen(const uint64_t *at)
{
    (void)sched_yield();
    return dev_acquire64(at);
}

#endif
