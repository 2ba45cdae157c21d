/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two targets of the device code. For nvcc a thread of it is a thread of the GPU; for a C
 * compiler it is a thread of the host, and asynchronous copies are an emulator's, which says what
 * the functions named dev_host_* do.
 *
 * Order between ranks comes from acquire and release operations at system scope alone; order
 * between the threads of a block from its barrier. A fence stands only where the GPU's proxies
 * (asynchronous copies, multicast addresses) need one, and means nothing to the host.
 *
 * DEV_BUG(n) is 0. The tests define it to plant error n.
 */
#ifndef PEAL_RUNTIME_DEVICE_TARGET_H
#define PEAL_RUNTIME_DEVICE_TARGET_H

#include "dev_ring.h"
#include "image.h"

#if defined(__CUDACC__)
#define DEV_FN static __device__ __forceinline__
#define DEV_UNROLL _Pragma("unroll")
/* What follows from a thread's number is worked out in each step anew: kept from step to step, for
 * every type, it would take all registers. */
#define DEV_FRESH(t) asm volatile("" : "+r"((t)->tid), "+r"((t)->threads))
#define DEV_ROLLED _Pragma("unroll 1") /* unrolled, they would take all registers */
#else
#include <string.h>
#define DEV_FN static inline
#define DEV_UNROLL
#define DEV_ROLLED
#define DEV_FRESH(t) ((void)0)
#endif

#ifndef DEV_BUG
#define DEV_BUG(n) 0
#endif

#define DEV_STAGES 8u /* most of a pipeline */

/* What the threads of a block share: the call, and the step under way. Written by the first thread,
 * or by all with a barrier on either side. */
struct dev_block {
    struct dev_call call;
    struct dev_rank rank;
    const struct dev_layout *layout;
    const struct dev_row *row;
    const struct dev_operand *operands;
    const uint32_t *prefix;
    const struct dev_peer *peers;
    struct dev_state *state;
    struct dev_port *port;
    char *stages;   /* shared memory of the pipeline */
    uint64_t tile;  /* elements; 0: a chunk is one tile */
    uint32_t stamp; /* of the call */
    uint32_t parity;
    uint32_t digest;
    uint32_t elem_bytes;
    uint32_t bad_counts;        /* alltoallv: the caller's are beyond the blocks */
    uint64_t src[DEV_OPERANDS]; /* addresses of the step's operands */
    uint64_t dst[DEV_OPERANDS];
    uint64_t barrier[DEV_STAGES]; /* mbarriers of the pipeline */
};

/* One thread of a lane's block. */
struct dev_thread {
    struct dev_block *block;
    uint32_t tid;
    uint32_t threads;
    uint32_t lane;
    uint32_t trip;
    uint32_t step; /* from the lane's first */
    uint32_t failed;
    uint32_t phases; /* of the mbarriers, a bit each: the first thread's */
    uint32_t stored; /* the first thread has bulk stores that may be under way */
#if !defined(__CUDACC__)
    void *host; /* the emulator's */
#endif
};

/* 16 bytes as the elements of any type. */
union dev_vec {
    uint8_t u8[16];
    int8_t i8[16];
    uint16_t u16[8];
    int32_t i32[4];
    uint32_t u32[4];
    int64_t i64[2];
    uint64_t u64[2];
    float f32[4];
    double f64[2];
};

#if defined(__CUDACC__)

/* ---- words that others read and write, system scope */

DEV_FN uint64_t dev_acquire64(const uint64_t *at)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

DEV_FN uint32_t dev_acquire32(const uint32_t *at)
{
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

DEV_FN void dev_release64(uint64_t *at, uint64_t value)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

DEV_FN void dev_release32(uint32_t *at, uint32_t value)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

DEV_FN uint64_t dev_relaxed64(const uint64_t *at)
{
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

DEV_FN uint32_t dev_relaxed32(const uint32_t *at)
{
    uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

DEV_FN void dev_set64(uint64_t *at, uint64_t value)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

DEV_FN void dev_set32(uint32_t *at, uint32_t value)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

/* A packet's words. Data and stamp are one word; that a step's sources have been read before its
 * packets are stored follows from the data's way through registers, which C cannot say: for the
 * host these are acquire and release. */
DEV_FN uint64_t dev_packet_load(const uint64_t *at)
{
    return dev_relaxed64(at);
}

DEV_FN void dev_packet_store(uint64_t *at, uint64_t word)
{
    dev_set64(at, word);
}

/* Between lanes of a rank. */
DEV_FN uint32_t dev_arrive32(uint32_t *at)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(at)
                 : "memory");
    return before;
}

DEV_FN void dev_min32(uint32_t *at, uint32_t value)
{
    asm volatile("red.relaxed.gpu.global.min.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

/* 0: it was 0, and is 1. Among lanes of a rank, also where it lies in memory of the host, of which
 * a bus need have no atomics. */
DEV_FN uint32_t dev_claim32(uint32_t *at)
{
    return atomicCAS(at, 0u, 1u);
}

/* ---- the block */

/* 1: some thread says so. What all did before is done for all. */
DEV_FN int dev_sync_or(struct dev_thread *t, uint32_t value)
{
    (void)t;
    return __syncthreads_or((int)value);
}

DEV_FN void dev_sync(struct dev_thread *t)
{
    (void)t;
    __syncthreads();
}

DEV_FN void dev_pause(struct dev_thread *t, uint32_t polls)
{
    (void)t;
    if (polls > 64)
        __nanosleep(polls > 4096 ? 500 : 20);
}

/* ---- plain memory */

DEV_FN union dev_vec dev_load_vec(uint64_t at)
{
    union dev_vec vec;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(vec.u32[0]), "=r"(vec.u32[1]), "=r"(vec.u32[2]), "=r"(vec.u32[3])
                 : "l"(at)
                 : "memory");
    return vec;
}

DEV_FN void dev_store_vec(uint64_t at, union dev_vec vec)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(vec.u32[0]),
                 "r"(vec.u32[1]), "r"(vec.u32[2]), "r"(vec.u32[3])
                 : "memory");
}

/* The pointer at an address of a type. */
#define DEV_AT(type, at) ((type *)(at))

/* ---- bits */

DEV_FN float dev_float_of(uint32_t bits)
{
    return __uint_as_float(bits);
}

DEV_FN uint32_t dev_bits_of(float value)
{
    return __float_as_uint(value);
}

DEV_FN uint64_t dev_bits_of64(double value)
{
    return (uint64_t)__double_as_longlong(value);
}

DEV_FN double dev_double_of(uint64_t bits)
{
    return __longlong_as_double((long long)bits);
}

/* Rounded once each: the compiler fuses none of them. */
DEV_FN float dev_add_f32(float a, float b)
{
    return __fadd_rn(a, b);
}

DEV_FN float dev_mul_f32(float a, float b)
{
    return __fmul_rn(a, b);
}

DEV_FN float dev_div_f32(float a, float b)
{
    return __fdiv_rn(a, b);
}

DEV_FN double dev_add_f64(double a, double b)
{
    return __dadd_rn(a, b);
}

DEV_FN double dev_mul_f64(double a, double b)
{
    return __dmul_rn(a, b);
}

DEV_FN double dev_div_f64(double a, double b)
{
    return __ddiv_rn(a, b);
}

#else /* the host */

/* Tells the emulator that the thread is at a place where others may come between. */
void dev_host_turn(struct dev_thread *t);
void dev_host_sync(struct dev_thread *t);
int dev_host_sync_or(struct dev_thread *t, uint32_t value);

DEV_FN uint64_t dev_acquire64(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

DEV_FN uint32_t dev_acquire32(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

DEV_FN void dev_release64(uint64_t *at, uint64_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

DEV_FN void dev_release32(uint32_t *at, uint32_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

DEV_FN uint64_t dev_relaxed64(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

DEV_FN uint32_t dev_relaxed32(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

DEV_FN void dev_set64(uint64_t *at, uint64_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
}

DEV_FN void dev_set32(uint32_t *at, uint32_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
}

DEV_FN uint64_t dev_packet_load(const uint64_t *at)
{
    return DEV_BUG(6) ? dev_relaxed64(at) : dev_acquire64(at);
}

DEV_FN void dev_packet_store(uint64_t *at, uint64_t word)
{
    if (DEV_BUG(7))
        dev_set64(at, word);
    else
        dev_release64(at, word);
}

DEV_FN uint32_t dev_arrive32(uint32_t *at)
{
    return __atomic_fetch_add(at, 1, __ATOMIC_ACQ_REL);
}

DEV_FN void dev_min32(uint32_t *at, uint32_t value)
{
    uint32_t seen = dev_relaxed32(at);
    while (value < seen &&
           !__atomic_compare_exchange_n(at, &seen, value, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

DEV_FN uint32_t dev_claim32(uint32_t *at)
{
    return __atomic_exchange_n(at, 1, __ATOMIC_ACQ_REL);
}

DEV_FN int dev_sync_or(struct dev_thread *t, uint32_t value)
{
    return dev_host_sync_or(t, value);
}

DEV_FN void dev_sync(struct dev_thread *t)
{
    dev_host_sync(t);
}

DEV_FN void dev_pause(struct dev_thread *t, uint32_t polls)
{
    (void)polls;
    dev_host_turn(t);
}

#define DEV_AT(type, at) ((type *)(uintptr_t)(at))

DEV_FN union dev_vec dev_load_vec(uint64_t at)
{
    union dev_vec vec;
    memcpy(&vec, DEV_AT(const char, at), sizeof vec);
    return vec;
}

DEV_FN void dev_store_vec(uint64_t at, union dev_vec vec)
{
    memcpy(DEV_AT(char, at), &vec, sizeof vec);
}

DEV_FN float dev_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

DEV_FN uint32_t dev_bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

DEV_FN uint64_t dev_bits_of64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

DEV_FN double dev_double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

DEV_FN float dev_add_f32(float a, float b)
{
    return a + b;
}

DEV_FN float dev_mul_f32(float a, float b)
{
    return a * b;
}

DEV_FN float dev_div_f32(float a, float b)
{
    return a / b;
}

DEV_FN double dev_add_f64(double a, double b)
{
    return a + b;
}

DEV_FN double dev_mul_f64(double a, double b)
{
    return a * b;
}

DEV_FN double dev_div_f64(double a, double b)
{
    return a / b;
}

#endif

/* ---- waiting */

#define DEV_LONG 4096u /* polls in vain, behind which the host is told where */

/* After a poll in vain. 1: the host has given up. */
DEV_FN int dev_given_up(struct dev_thread *t, uint32_t *polls)
{
    dev_pause(t, ++*polls);
    if (*polls == DEV_LONG && t->tid == 0) {
        struct dev_stuck *stuck = &t->block->port->stuck[t->lane];
        dev_set32(&stuck->step, t->step);
        dev_set32(&stuck->call, t->block->stamp);
    }
    return *polls % 64 == 0 && dev_acquire32(&t->block->port->abort) != 0;
}

#endif
