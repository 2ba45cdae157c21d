/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel, by its name: the interpreter of runtime/device, compiled for the host. A block is one
 * thread. Bulk copies are done at once; what they may do later is what tests of the interpreter
 * itself are about.
 */
#include "fake.h"

#include "device/dev_run.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define TURNS 256u

static const size_t argument_bytes = sizeof(struct dev_call);

cu_result cuModuleLoadData(cu_handle *module, const void *image)
{
    static int loaded;
    (void)fake_current("cuModuleLoadData");
    fake_not_captured("cuModuleLoadData");
    if (!image)
        return CU_INVALID_VALUE;
    *module = &loaded;
    return CU_SUCCESS;
}

cu_result cuModuleUnload(cu_handle module)
{
    (void)fake_current("cuModuleUnload");
    return module ? CU_SUCCESS : CU_INVALID_VALUE;
}

cu_result cuModuleGetFunction(cu_handle *function, cu_handle module, const char *name)
{
    if (!module || strcmp(name, "peal_dev_kernel") != 0)
        return CU_NOT_FOUND;
    *function = (void *)(uintptr_t)&argument_bytes;
    return CU_SUCCESS;
}

cu_result cuFuncSetAttribute(cu_handle function, int attribute, int value)
{
    return function && attribute == CU_FUNC_DYNAMIC_SHARED && value <= 227 * 1024
               ? CU_SUCCESS
               : CU_INVALID_VALUE;
}

cu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, cu_handle function, int threads,
                                                      size_t shared)
{
    (void)shared;
    *blocks = 2048 / threads;
    return function ? CU_SUCCESS : CU_INVALID_VALUE;
}

/* ---- what the interpreter asks of its host */

void dev_host_turn(struct dev_thread *t)
{
    static const struct timespec nap = {0, 20000};
    unsigned *turns = t->host;
    if (++*turns % TURNS == 0)
        (void)nanosleep(&nap, NULL);
    else
        (void)sched_yield();
}

void dev_host_sync(struct dev_thread *t)
{
    (void)t;
}

int dev_host_sync_or(struct dev_thread *t, uint32_t value)
{
    (void)t;
    return value != 0;
}

void dev_barrier_init(struct dev_thread *t, uint32_t stage)
{
    (void)t;
    (void)stage;
}

static char *stage_of(const struct dev_thread *t, uint32_t stage)
{
    return t->block->stages + (size_t)stage * t->block->rank.stage_bytes;
}

void dev_bulk_load(struct dev_thread *t, uint32_t stage, uint64_t src, uint32_t bytes)
{
    if (src % 16 || bytes % 16 || bytes > t->block->rank.stage_bytes)
        fake_misuse("a bulk copy of %u bytes at %#llx", bytes, (unsigned long long)src);
    memcpy(stage_of(t, stage), DEV_AT(const char, src), bytes);
}

int dev_bulk_loaded(struct dev_thread *t, uint32_t stage, uint32_t parity)
{
    (void)t;
    (void)stage;
    (void)parity;
    return 1;
}

#define FOLD(type, expression)                                                                     \
    for (uint32_t i = 0; i < bytes / sizeof(type); i++) {                                          \
        type a, b;                                                                                 \
        memcpy(&a, to + i * sizeof a, sizeof a);                                                   \
        memcpy(&b, from + i * sizeof b, sizeof b);                                                 \
        a = (type)(expression);                                                                    \
        memcpy(to + i * sizeof a, &a, sizeof a);                                                   \
    }                                                                                              \
    break

static void fold(char *to, const char *from, uint32_t bytes, uint32_t op)
{
    switch (op) {
    case DEV_BULK_ADD_U32:
        FOLD(uint32_t, a + b);
    case DEV_BULK_ADD_U64:
        FOLD(uint64_t, a + b);
    case DEV_BULK_ADD_F32:
        FOLD(float, a + b);
    case DEV_BULK_ADD_F64:
        FOLD(double, a + b);
    case DEV_BULK_MIN_U32:
        FOLD(uint32_t, a < b ? a : b);
    case DEV_BULK_MAX_U32:
        FOLD(uint32_t, a > b ? a : b);
    case DEV_BULK_MIN_S32:
        FOLD(int32_t, a < b ? a : b);
    case DEV_BULK_MAX_S32:
        FOLD(int32_t, a > b ? a : b);
    case DEV_BULK_MIN_U64:
        FOLD(uint64_t, a < b ? a : b);
    case DEV_BULK_MAX_U64:
        FOLD(uint64_t, a > b ? a : b);
    case DEV_BULK_MIN_S64:
        FOLD(int64_t, a < b ? a : b);
    default:
        FOLD(int64_t, a > b ? a : b);
    }
}

void dev_bulk_store(struct dev_thread *t, uint32_t stage, uint64_t dst, uint32_t bytes, uint32_t op)
{
    if (dst % 16 || bytes % 16)
        fake_misuse("a bulk store of %u bytes at %#llx", bytes, (unsigned long long)dst);
    if (op == DEV_BULK_COPY)
        memcpy(DEV_AT(char, dst), stage_of(t, stage), bytes);
    else
        fold(DEV_AT(char, dst), stage_of(t, stage), bytes, op);
}

void dev_bulk_wait_read(struct dev_thread *t)
{
    (void)t;
}

void dev_bulk_wait_all(struct dev_thread *t)
{
    (void)t;
}

/* ---- blocks */

struct block {
    pthread_t thread;
    const struct dev_call *call;
    uint32_t lane;
    char *stages;
};

static void *run_block(void *argument)
{
    const struct block *block = argument;
    unsigned turns = 0;
    struct dev_block *shared = calloc(1, sizeof *shared);
    struct dev_thread thread = {.block = shared, .threads = 1, .lane = block->lane, .host = &turns};
    if (!shared)
        fake_misuse("out of memory");
    shared->stages = block->stages;
    dev_run_lane(&thread, block->call);
    free(shared);
    return NULL;
}

static void start_block(struct block *block, const struct dev_call *call, uint32_t lane,
                        unsigned shared)
{
    block->call = call;
    block->lane = lane;
    block->stages = aligned_alloc(128, (shared + 128) / 128 * 128 + 128);
    if (!block->stages || pthread_create(&block->thread, NULL, run_block, block) != 0)
        fake_misuse("no thread for a block");
}

void fake_launch_kernel(const struct fake_op *op)
{
    struct block *blocks = calloc(op->blocks, sizeof *blocks);
    struct dev_call call;
    if (!blocks)
        fake_misuse("out of memory");
    memcpy(&call, op->argument, sizeof call);
    for (unsigned i = 0; i < op->blocks; i++)
        start_block(&blocks[i], &call, i, op->shared);
    for (unsigned i = 0; i < op->blocks; i++) {
        (void)pthread_join(blocks[i].thread, NULL);
        free(blocks[i].stages);
    }
    free(blocks);
}
