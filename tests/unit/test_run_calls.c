/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that succeed: every type, operation and engine against the reference, in place and not,
 * back to back and skewed, with chaotic engines. */
#include "support.h"
#include "test_fixture.h"
#include "test_run.h"
#include "test_suite.h"

#include "comm.h"

#include <check.h>
#include <sched.h>
#include <time.h>

#ifdef PEAL_SANITIZED
#define LARGE 200003u /* tiles enough for slots to be used again */
#else
#define LARGE 1000003u
#endif
#define LARGEST_BYTES ((size_t)LARGE * 8)

/* ---- tables */

enum kind {
    TWOSHOT,
    TWOSHOT_TILES,
    RING,
    STAR,
    SPANS,
    CE,
    TMA,
    STAGED,
    RDMA,
    TCP,
    SPANS_TMA,
    SPANS_RDMA,
    KINDS
};
#define ASYNC_KINDS (KINDS - CE)

static const struct {
    write_plan_fn write;
    const char *link;
    const char *engine;
    unsigned tile;
} kinds[KINDS] = {
    [TWOSHOT] = {write_twoshot, "shm direct", "sm", 0},
    [TWOSHOT_TILES] = {write_twoshot, "shm direct", "sm", 16384},
    [RING] = {write_ring, "shm direct", "sm", 65536},
    [STAR] = {write_star, "shm direct", "sm", 0},
    [SPANS] = {write_spans, "shm direct", "sm", 0},
    [CE] = {write_async, "shm direct", "ce", 65536},
    [TMA] = {write_async, "shm direct", "tma", 65536},
    [STAGED] = {write_async, "smp", "staged", 65536},
    [RDMA] = {write_async, "net", "rdma", 65536},
    [TCP] = {write_async, "net", "tcp", 65536},
    [SPANS_TMA] = {write_spans, "shm direct", "tma", 0},
    [SPANS_RDMA] = {write_spans, "net", "rdma", 65536},
};

/* Packets up to `small` bytes where ranks reach each other directly, then the kind. */
static peal_table *table_for(enum kind kind, unsigned ranks, unsigned small, unsigned depth)
{
    struct plan_text p = {.ranks = ranks,
                          .link = kinds[kind].link,
                          .engine = kinds[kind].engine,
                          .tile = kinds[kind].tile,
                          .depth = depth,
                          .slot = 65536};
    if (!p.tile) /* a chunk of the largest message */
        p.slot = (unsigned)(LARGEST_BYTES / (3 * ranks) / 128 + 64) * 128;
    struct plan_part parts[] = {{write_oneshot, small}, {kinds[kind].write, LARGEST_BYTES}};
    int packets = small && p.link[0] == 's' && p.link[1] == 'h';
    return packets ? table_of(ctx, p, parts, 2) : table_of(ctx, p, parts + 1, 1);
}

/* ---- the grid */

struct grid {
    size_t large;
    int all; /* every type and operation at the large count, too */
};

static int grid_body(struct rank_thread *self)
{
    const struct grid *grid = self->user;
    const size_t counts[] = {0, 1, 7, 8, 1031, grid->large};
    char *in = malloc(LARGEST_BYTES);
    char *out = malloc(LARGEST_BYTES);
    int failed = !in || !out;
    unsigned salt = 0;
    for (int d = 0; d < PEAL_DTYPE_COUNT && !failed; d++) {
        for (int o = 0; o < PEAL_OP_COUNT && !failed; o++) {
            unsigned sizes = grid->all || o == d % PEAL_OP_COUNT ? 6 : 5;
            for (unsigned c = 0; c < sizes && !failed; c++)
                for (int in_place = 0; in_place < 2 && !failed; in_place++)
                    failed =
                        checked_call(self->comm, self->ranks, self->rank, in, in_place ? in : out,
                                     counts[c], (peal_dtype)d, (peal_op)o, salt++, self->problem);
        }
    }
    free(in);
    free(out);
    return failed;
}

static void run_grid(enum kind kind, unsigned ranks, uint64_t chaos)
{
    struct grid grid = {kind == TWOSHOT || chaos == 0 ? LARGE : 100003, 0};
    peal_table *table = table_for(kind, ranks, 256, 2);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.chaos_seed = chaos;
    const char *problem = run_ranks(ctx, table, ranks, &params, grid_body, &grid);
    ck_assert_msg(!problem, "kind %d, %u ranks, chaos %llu: %s", (int)kind, ranks,
                  (unsigned long long)chaos, problem);
    peal_table_destroy(table);
}

START_TEST(two_ranks_agree_with_the_reference)
{
    run_grid((enum kind)_i, 2, 0);
}
END_TEST

START_TEST(three_ranks_agree_with_the_reference)
{
    run_grid((enum kind)_i, 3, 0);
}
END_TEST

START_TEST(chaotic_engines_change_nothing)
{
    run_grid((enum kind)(CE + _i % ASYNC_KINDS), 2 + (unsigned)(_i / ASYNC_KINDS),
             1 + (uint64_t)_i * 77);
}
END_TEST

START_TEST(eight_ranks_agree_with_the_reference)
{
    struct grid grid = {20011, 1};
    peal_table *table = table_for((enum kind)_i, 8, 256, 2);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = run_ranks(ctx, table, 8, &params, grid_body, &grid);
    ck_assert_msg(!problem, "kind %d: %s", _i, problem);
    peal_table_destroy(table);
}
END_TEST

START_TEST(one_rank_copies)
{
    struct grid grid = {LARGE, 1};
    struct plan_text p = {.ranks = 1, .link = "shm direct", .engine = "sm", .depth = 1};
    struct plan_part part = {write_oneshot, LARGEST_BYTES};
    peal_table *table = table_of(ctx, p, &part, 1);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = run_ranks(ctx, table, 1, &params, grid_body, &grid);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* ---- many calls, skewed */

#define SOAK_BYTES 40000u
#ifdef PEAL_SANITIZED
#define SOAK_CALLS 120u
#else
#define SOAK_CALLS 10000u
#endif

static uint64_t step_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1du >> 20;
}

/* All ranks draw sizes from one sequence and delays from one of their own. Buffers lie where
 * they lay in the call before, or elsewhere, and are rewritten between calls. */
static int soak_body(struct rank_thread *self)
{
    static const peal_dtype dtypes[] = {PEAL_FLOAT32, PEAL_INT8, PEAL_FLOAT64, PEAL_BFLOAT16};
    uint64_t common = 0x1234567;
    uint64_t own = 0x9876543 + self->rank;
    char *memory = malloc(4 * SOAK_BYTES);
    int failed = !memory;
    for (unsigned call = 0; call < SOAK_CALLS && !failed; call++) {
        peal_dtype dtype = dtypes[step_random(&common) % 4];
        size_t limit = step_random(&common) % 3 ? 300 : SOAK_BYTES;
        size_t count = (size_t)(step_random(&common) % limit) / peal_dtype_size(dtype);
        int in_place = step_random(&common) % 2 == 0;
        char *in = memory + SOAK_BYTES * (step_random(&own) % 2);
        char *out = in_place ? in : memory + SOAK_BYTES * (2 + step_random(&own) % 2);
        if (step_random(&own) % 50 == 0) {
            struct timespec pause = {0, (long)(step_random(&own) % 200000)};
            (void)nanosleep(&pause, NULL);
        }
        failed = checked_call(self->comm, self->ranks, self->rank, in, out, count, dtype,
                              (peal_op)(call % PEAL_OP_COUNT), call, self->problem);
    }
    free(memory);
    return failed;
}

static void run_soak(unsigned ranks, uint64_t chaos)
{
    struct plan_text p = {
        .ranks = ranks, .link = "shm direct", .engine = "ce", .tile = 0, .depth = 2, .slot = 65536};
    struct plan_part parts[] = {
        {write_oneshot, 512}, {write_ring, 2000}, {write_twoshot, 8000}, {write_async, 90000}};
    peal_table *table = table_of(ctx, p, parts, 4);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.chaos_seed = chaos;
    const char *problem = run_ranks(ctx, table, ranks, &params, soak_body, NULL);
    ck_assert_msg(!problem, "%u ranks, chaos %llu: %s", ranks, (unsigned long long)chaos, problem);
    peal_table_destroy(table);
}

START_TEST(calls_back_to_back_compose)
{
    run_soak(2 + (unsigned)_i, 0);
}
END_TEST

START_TEST(calls_back_to_back_compose_under_chaos)
{
    run_soak(2 + (unsigned)_i % 2, 11 + (uint64_t)_i * 1000003);
}
END_TEST

/* ---- counters that come round */

static void doze_us(long us)
{
    struct timespec pause = {0, us * 1000};
    (void)nanosleep(&pause, NULL);
}

/* Every count and call number as if the comm had served for ever; ranks meet at a barrier, for a
 * peer must not look meanwhile. */
static void age(struct rank_thread *self, uint64_t call, uint32_t count, pthread_barrier_t *barrier)
{
    struct peal_comm *comm = self->comm;
    (void)pthread_barrier_wait(barrier);
    for (size_t i = 0; i < (size_t)comm->nranks * comm->layout.nsems; i++) {
        comm->sem_in[i].count += count;
        comm->sem_out[i].sent += count;
        uint64_t cell = atomic_load(comm->sem_out[i].cell);
        atomic_store(comm->sem_out[i].cell,
                     (cell & ~(uint64_t)UINT32_MAX) | (uint32_t)(cell + count));
    }
    comm->call = call;
    (void)pthread_barrier_wait(barrier);
}

/* calls of which those that the mask names send packets, the others none. */
static int some_calls(struct rank_thread *self, unsigned salt, unsigned calls, unsigned mask)
{
    char in[12000];
    char out[12000];
    int failed = 0;
    for (unsigned i = 0; i < calls && !failed; i++) {
        if ((i + self->rank) % 3 == 0)
            doze_us(200);
        failed =
            checked_call(self->comm, self->ranks, self->rank, in, out, mask >> i & 1 ? 60 : 3000,
                         PEAL_INT32, PEAL_SUM, salt + i, self->problem);
    }
    return failed;
}

/* The last packets before the jump carry the stamps 45 and 46; the next ones after it, too. */
static int age_body(struct rank_thread *self)
{
    int failed = some_calls(self, 0, 30, UINT32_MAX) || some_calls(self, 30, 16, 0xffff);
    age(self, UINT32_MAX, UINT32_MAX - 9, self->user);
    failed = failed || some_calls(self, 100, 14, 0) || some_calls(self, 200, 16, 0xffff);
    age(self, (2ull << 32) - 7, 0, self->user);
    return failed || some_calls(self, 300, 30, 0x33333333);
}

START_TEST(counts_and_stamps_come_round)
{
    pthread_barrier_t barrier;
    struct plan_text p = {
        .ranks = 3, .link = "shm direct", .engine = "sm", .depth = 2, .slot = 16384};
    struct plan_part parts[] = {{write_oneshot, 512}, {write_ring, 16000}};
    peal_table *table = table_of(ctx, p, parts, 2);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, 3), 0);
    const char *problem = run_ranks(ctx, table, 3, &params, age_body, &barrier);
    ck_assert_msg(!problem, "%s", problem);
    (void)pthread_barrier_destroy(&barrier);
    peal_table_destroy(table);
}
END_TEST

/* ---- what a comm says of itself */

static int info_body(struct rank_thread *self)
{
    peal_comm_info info = {.size = sizeof info};
    char data[64] = {0};
    for (int i = 0; i < 3; i++)
        if (peal_allreduce(self->comm, data, data, 8, PEAL_INT8, PEAL_SUM, NULL) != PEAL_OK)
            return 1;
    uint32_t bits = 1u << PEAL_ENGINE_SM | 1u << PEAL_ENGINE_CE;
    if (peal_comm_get(self->comm, &info) != PEAL_OK || info.rank != self->rank ||
        info.ranks != self->ranks || info.calls != 3 || info.engines != bits ||
        info.stand_ins != 1u << PEAL_ENGINE_CE)
        return 1;
    /* Registered memory is aligned, apart, and bounded. */
    char *a = peal_mem_alloc(self->comm, 1);
    char *b = peal_mem_alloc(self->comm, 5000);
    return !a || !b || (uintptr_t)a % 4096 || (uintptr_t)b % 4096 || a == b ||
           peal_mem_alloc(self->comm, 1u << 20) != NULL || peal_mem_alloc(self->comm, 0) != NULL ||
           peal_mem_alloc(self->comm, SIZE_MAX) != NULL;
}

START_TEST(a_comm_describes_itself)
{
    peal_table *table = table_for(CE, 2, 0, 1);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.heap_bytes = 1u << 20;
    const char *problem = run_ranks(ctx, table, 2, &params, info_body, NULL);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_calls");
    TCase *tests = tcase_create("calls");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, two_ranks_agree_with_the_reference, 0, KINDS);
    tcase_add_loop_test(tests, three_ranks_agree_with_the_reference, 0, KINDS);
    tcase_add_loop_test(tests, chaotic_engines_change_nothing, 0, 2 * ASYNC_KINDS);
    tcase_add_loop_test(tests, eight_ranks_agree_with_the_reference, 0, CE);
    tcase_add_test(tests, one_rank_copies);
    tcase_add_loop_test(tests, calls_back_to_back_compose, 0, 2);
    tcase_add_loop_test(tests, calls_back_to_back_compose_under_chaos, 0, 4);
    tcase_add_test(tests, counts_and_stamps_come_round);
    tcase_add_test(tests, a_comm_describes_itself);
    tcase_set_timeout(tests, 280);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
