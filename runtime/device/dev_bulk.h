/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine tma: bulk asynchronous copies through shared memory. One thread keeps a pipeline of
 * stages: a load into a stage is done when its mbarrier has counted the bytes; a stage is loaded
 * again when the store out of it has read it. All loads of a transfer are done when it has been
 * issued, so its source is free then; it is delivered when the stores are done, for which somebody
 * waits: dev_bulk_finish.
 *
 * What is not aligned to 16 bytes the block moves as sm would, before: see plan-format.md, "Engines
 * and events".
 */
#ifndef PEAL_RUNTIME_DEVICE_BULK_H
#define PEAL_RUNTIME_DEVICE_BULK_H

#include "dev_target.h"

/* What becomes of the destination. */
enum dev_bulk_op {
    DEV_BULK_COPY,
    DEV_BULK_ADD_U32,
    DEV_BULK_ADD_U64,
    DEV_BULK_ADD_F32, /* the switch's: of bulk copies it would be another sum */
    DEV_BULK_ADD_F64,
    DEV_BULK_MIN_U32,
    DEV_BULK_MAX_U32,
    DEV_BULK_MIN_S32,
    DEV_BULK_MAX_S32,
    DEV_BULK_MIN_U64,
    DEV_BULK_MAX_U64,
    DEV_BULK_MIN_S64,
    DEV_BULK_MAX_S64
};

#if defined(__CUDACC__)
#if __CUDA_ARCH__ >= 900

DEV_FN uint32_t dev_shared_at(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

DEV_FN void dev_barrier_init(struct dev_thread *t, uint32_t stage)
{
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(dev_shared_at(&t->block->barrier[stage]))
        : "memory");
}

/* What was initialised is so for the asynchronous proxy. */
DEV_FN void dev_barriers_ready(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* What this thread knows of global memory is known to the copies that it issues. */
DEV_FN void dev_bulk_behind(struct dev_thread *t)
{
    (void)t;
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

DEV_FN void dev_bulk_load(struct dev_thread *t, uint32_t stage, uint64_t src, uint32_t bytes)
{
    uint32_t barrier = dev_shared_at(&t->block->barrier[stage]);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(dev_shared_at(t->block->stages +
                                                 (uint64_t)stage * t->block->rank.stage_bytes)),
                 "l"(src), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* 1: the load into the stage is done. */
DEV_FN int dev_bulk_loaded(struct dev_thread *t, uint32_t stage, uint32_t parity)
{
    uint32_t done;
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(dev_shared_at(&t->block->barrier[stage])), "r"(parity)
                 : "memory");
    return (int)done;
}

#define DEV_BULK_STORE(instruction)                                                                \
    asm volatile(instruction " [%0], [%1], %2;" ::"l"(dst), "r"(src), "r"(bytes) : "memory");      \
    break
#define DEV_BULK_REDUCE(what)                                                                      \
    DEV_BULK_STORE("cp.reduce.async.bulk.global.shared::cta.bulk_group." what)

DEV_FN void dev_bulk_store(struct dev_thread *t, uint32_t stage, uint64_t dst, uint32_t bytes,
                           uint32_t op)
{
    uint32_t src = dev_shared_at(t->block->stages + (uint64_t)stage * t->block->rank.stage_bytes);
    switch (op) {
    case DEV_BULK_COPY:
        DEV_BULK_STORE("cp.async.bulk.global.shared::cta.bulk_group");
    case DEV_BULK_ADD_U32:
        DEV_BULK_REDUCE("add.u32");
    case DEV_BULK_ADD_U64:
        DEV_BULK_REDUCE("add.u64");
    case DEV_BULK_ADD_F64:
        DEV_BULK_REDUCE("add.f64");
    case DEV_BULK_MIN_U32:
        DEV_BULK_REDUCE("min.u32");
    case DEV_BULK_MAX_U32:
        DEV_BULK_REDUCE("max.u32");
    case DEV_BULK_MIN_S32:
        DEV_BULK_REDUCE("min.s32");
    case DEV_BULK_MAX_S32:
        DEV_BULK_REDUCE("max.s32");
    case DEV_BULK_MIN_U64:
        DEV_BULK_REDUCE("min.u64");
    case DEV_BULK_MAX_U64:
        DEV_BULK_REDUCE("max.u64");
    case DEV_BULK_MIN_S64:
        DEV_BULK_REDUCE("min.s64");
    default:
        DEV_BULK_REDUCE("max.s64");
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until all but the last store have read their stages. */
DEV_FN void dev_bulk_wait_read(struct dev_thread *t)
{
    (void)t;
    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
}

/* Until all stores are done. */
DEV_FN void dev_bulk_wait_all(struct dev_thread *t)
{
    (void)t;
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

#define DEV_HAS_BULK 1
#else
#define DEV_HAS_BULK 0
#endif
#else /* the host: an emulator */

void dev_barrier_init(struct dev_thread *t, uint32_t stage);
void dev_bulk_load(struct dev_thread *t, uint32_t stage, uint64_t src, uint32_t bytes);
int dev_bulk_loaded(struct dev_thread *t, uint32_t stage, uint32_t parity);
void dev_bulk_store(struct dev_thread *t, uint32_t stage, uint64_t dst, uint32_t bytes,
                    uint32_t op);
void dev_bulk_wait_read(struct dev_thread *t);
void dev_bulk_wait_all(struct dev_thread *t);

DEV_FN void dev_barriers_ready(void)
{
}

DEV_FN void dev_bulk_behind(struct dev_thread *t)
{
    (void)t;
}

#define DEV_HAS_BULK 1
#endif

#if DEV_HAS_BULK

DEV_FN int dev_can_bulk(const struct dev_thread *t)
{
    return (t->block->rank.flags & DEV_RANK_BULK) != 0 && t->block->rank.stages > 1;
}

/* Before the call's first step, with a barrier of the block behind it. */
DEV_FN void dev_bulk_begin(struct dev_thread *t)
{
    t->phases = 0;
    t->stored = 0;
    if (t->tid != 0 || !dev_can_bulk(t))
        return;
    DEV_ROLLED
    for (uint32_t i = 0; i < t->block->rank.stages; i++)
        dev_barrier_init(t, i);
    dev_barriers_ready();
}

/* First thread: stores that were issued are done. */
DEV_FN void dev_bulk_finish(struct dev_thread *t)
{
    if (t->stored)
        dev_bulk_wait_all(t);
    t->stored = 0;
}

DEV_FN void dev_bulk_await_stage(struct dev_thread *t, uint32_t stage)
{
    uint32_t parity = t->phases >> stage & 1u;
    DEV_ROLLED
    while (!dev_bulk_loaded(t, stage, parity) && !DEV_BUG(19))
        continue;
    if (!DEV_BUG(18))
        t->phases ^= 1u << stage;
}

/* First thread: `bytes` from src to dst, all multiples of 16. */
DEV_FN void dev_bulk_run(struct dev_thread *t, uint64_t src, uint64_t dst, uint64_t bytes,
                         uint32_t op)
{
    uint64_t piece = t->block->rank.stage_bytes, pieces = (bytes + piece - 1) / piece;
    uint32_t stages = t->block->rank.stages;
    uint64_t loaded = 0;
    dev_bulk_behind(t);
    /* A stage that an earlier transfer stored from may still be read. */
    dev_bulk_finish(t);
    DEV_ROLLED
    for (uint64_t k = 0; k < pieces; k++) {
        DEV_ROLLED
        for (; loaded < pieces && loaded < k + stages - (k ? 1 : 0); loaded++) {
            uint64_t left = bytes - loaded * piece;
            /* Its stage was stored from by piece `loaded - stages`, which is k - 1 at the latest.
             */
            if (loaded >= stages && !DEV_BUG(17))
                dev_bulk_wait_read(t);
            dev_bulk_load(t, (uint32_t)(loaded % stages), src + loaded * piece,
                          (uint32_t)(left < piece ? left : piece));
        }
        uint64_t left = bytes - k * piece;
        dev_bulk_await_stage(t, (uint32_t)(k % stages));
        dev_bulk_store(t, (uint32_t)(k % stages), dst + k * piece,
                       (uint32_t)(left < piece ? left : piece), op);
    }
    t->stored = 1;
}

#else

DEV_FN int dev_can_bulk(const struct dev_thread *t)
{
    (void)t;
    return 0;
}

DEV_FN void dev_bulk_begin(struct dev_thread *t)
{
    t->phases = 0;
    t->stored = 0;
}

DEV_FN void dev_bulk_finish(struct dev_thread *t)
{
    (void)t;
}

DEV_FN void dev_bulk_run(struct dev_thread *t, uint64_t src, uint64_t dst, uint64_t bytes,
                         uint32_t op)
{
    (void)t;
    (void)src;
    (void)dst;
    (void)bytes;
    (void)op;
}

#endif
#endif
