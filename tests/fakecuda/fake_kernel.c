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

/* Functions: what their argument takes. */
static const size_t interpreter = sizeof(struct dev_call);
static const size_t work = sizeof(struct dev_work);
static int loaded_kernel, loaded_work;

cu_result cuModuleLoadData(cu_handle *module, const void *image)
{
    FAKE_CALL();
    static int loaded;
    (void)fake_current("cuModuleLoadData");
    fake_not_captured("cuModuleLoadData");
    if (!image)
        return CU_INVALID_VALUE;
    *module = &loaded;
    fake_hold(FAKE_MODULES, 1);
    return CU_SUCCESS;
}

cu_result cuModuleUnload(cu_handle module)
{
    (void)fake_current("cuModuleUnload");
    fake_hold(FAKE_MODULES, -1);
    return module ? CU_SUCCESS : CU_INVALID_VALUE;
}

cu_result cuModuleGetFunction(cu_handle *function, cu_handle module, const char *name)
{
    FAKE_CALL();
    const size_t *known = strcmp(name, "peal_dev_kernel") == 0 ? &interpreter
                          : strcmp(name, "peal_dev_work") == 0 ? &work
                                                               : NULL;
    if (!module || !known)
        return CU_NOT_FOUND;
    *function = (void *)(uintptr_t)known;
    return CU_SUCCESS;
}

cu_result cuFuncLoad(cu_handle function)
{
    FAKE_CALL();
    (void)fake_current("cuFuncLoad");
    __atomic_store_n(function == &work ? &loaded_work : &loaded_kernel, 1, __ATOMIC_RELAXED);
    return function ? CU_SUCCESS : CU_INVALID_VALUE;
}

/* A driver would load it now, and wait for what runs on the device. */
void fake_check_loaded(cu_handle function)
{
    if (!__atomic_load_n(function == &work ? &loaded_work : &loaded_kernel, __ATOMIC_RELAXED))
        fake_misuse("a launch of a function that was not loaded");
}

cu_result cuFuncSetAttribute(cu_handle function, int attribute, int value)
{
    FAKE_CALL();
    return function && attribute == CU_FUNC_DYNAMIC_SHARED && value <= 227 * 1024
               ? CU_SUCCESS
               : CU_INVALID_VALUE;
}

cu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, cu_handle function, int threads,
                                                      size_t shared)
{
    FAKE_CALL();
    (void)shared;
    if (threads > (int)DEV_THREADS) /* the kernel is compiled for no more */
        *blocks = 0;
    else
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

uint64_t dev_host_member(struct dev_thread *t, uint64_t at, uint32_t nth)
{
    (void)t;
    return fake_member(at, nth);
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
    if (op == DEV_BULK_ADD_F32)
        fake_misuse("a bulk sum of float32, of which memory makes subnormals zero");
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

/* Some of it: there is one thread. */
static void run_work(const struct fake_op *op)
{
    struct dev_work what;
    volatile float c = 0;
    memcpy(&what, op->argument, sizeof what);
    for (uint64_t i = 0; i < what.tiles; i++)
        c = c + 1e-3f * (float)i;
}

/* What the kernel is given has to be in reach of its device. */
static void check_places(const struct fake_op *op, const struct dev_call *call)
{
    const struct dev_rank *rank = DEV_AT(const struct dev_rank, call->rank);
    const struct dev_peer *peers = DEV_AT(const struct dev_peer, rank->peers);
    if (op->threads > DEV_THREADS || op->shared < dev_shared_bytes(rank->stages, rank->stage_bytes))
        fake_misuse("a launch of %u threads with %u bytes of shared memory", op->threads,
                    op->shared);
    fake_check_reach("the input", call->in, op->context);
    fake_check_reach("the output", call->out, op->context);
    fake_check_reach("its rank", call->rank, op->context);
    for (uint32_t r = 0; r < rank->nranks; r++)
        if (peers[r].arena)
            fake_check_reach("a peer's memory", peers[r].arena, op->context);
}

static void stall(void)
{
    static uint64_t launches;
    static const struct timespec nap = {0, 500000000};
    if (__atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED) == fake_setting("FAKECUDA_STALL", 0))
        (void)nanosleep(&nap, NULL);
}

void fake_launch_kernel(const struct fake_op *op)
{
    if (op->function == &work) {
        run_work(op);
        return;
    }
    stall();
    struct block *blocks = calloc(op->blocks, sizeof *blocks);
    struct dev_call call;
    if (!blocks)
        fake_misuse("out of memory");
    memcpy(&call, op->argument, sizeof call);
    check_places(op, &call);
    for (unsigned i = 0; i < op->blocks; i++)
        start_block(&blocks[i], &call, i, op->shared);
    for (unsigned i = 0; i < op->blocks; i++) {
        (void)pthread_join(blocks[i].thread, NULL);
        free(blocks[i].stages);
    }
    free(blocks);
}
