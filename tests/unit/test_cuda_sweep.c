/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: plain */
/* Each call of the driver fails, one after the other, from the making of a comm to its end: every
 * rank hears of it or does not need to, nobody is left waiting, and all is given back. */
#define RANKS 2u
#include "test_stand_in.h"
#include "test_suite.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#define HELD 6u   /* kinds of things that the stand-in counts */
#define STRIDE 5u /* of one run of the sweep; another one begins elsewhere */

static struct test_heap heap;
static peal_ctx *ctx;

static struct stand_in stand_in;

static void set_up(void)
{
    ctx = test_ctx(&heap);
    stand_in_open(&stand_in);
}

static void tear_down(void)
{
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

/* ---- ranks */

struct sweep {
    peal_world *world;
    peal_table *table;
    peal_cuda_params params;
    peal_collective collective;
    pthread_barrier_t meet;
};

struct sweeper {
    struct sweep *sweep;
    struct rank rank;
    peal_status status; /* the first that was not OK */
};

static void note(struct sweeper *s, peal_status status)
{
    if (s->status == PEAL_OK)
        s->status = status;
}

/* A rank that cannot go on says so to the others. */
static void call_all(struct sweeper *s)
{
    struct rank *rank = &s->rank;
    peal_diag diag = PEAL_DIAG_INIT;
    note(s, peal_cuda_stream_create(rank->comm, &diag, &rank->stream));
    take_buffers(rank);
    for (uint32_t i = 0; i < 2 && s->status == PEAL_OK; i++) {
        for (uint32_t k = 0; k < COUNT; k++)
            rank->host[k] = value_of(rank->number, k, i);
        note(s, peal_cuda_copy(rank->comm, rank->in, rank->host, 4 * COUNT, rank->stream, &diag));
        peal_cuda_call call = PEAL_CUDA_CALL_INIT;
        call.collective = s->sweep->collective;
        call.dtype = PEAL_UINT32;
        call.count = COUNT;
        call.in = rank->in;
        call.out = rank->out;
        call.zero_sm = i == 1 && call.collective == PEAL_ALLGATHER;
        note(s, peal_cuda_enqueue(rank->comm, &call, rank->stream, &diag));
    }
    if (s->status != PEAL_OK)
        peal_cuda_comm_abort(rank->comm);
    note(s, peal_cuda_stream_wait(rank->comm, rank->stream, &diag));
    note(s, peal_cuda_comm_error(rank->comm, &diag));
}

static void *sweep_main(void *user)
{
    struct sweeper *s = user;
    struct rank *rank = &s->rank;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_params params = s->sweep->params;
    params.device = rank->number;
    note(s, peal_cuda_comm_create(rank->cuda, s->sweep->world, s->sweep->table, rank->number,
                                  &params, &diag, &rank->comm));
    if (s->status != PEAL_OK)
        SAY(rank, diag.text[0], "no reason is given");
    (void)pthread_barrier_wait(&s->sweep->meet);
    if (rank->comm)
        call_all(s);
    (void)pthread_barrier_wait(&s->sweep->meet);
    if (rank->comm && rank->stream)
        peal_cuda_stream_destroy(rank->comm, rank->stream);
    peal_cuda_comm_destroy(rank->comm);
    return NULL;
}

/* ---- one failure */

static unsigned descriptors(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(directory);
    while (readdir(directory))
        count++;
    (void)closedir(directory);
    return count;
}

static void run_ranks(struct sweep *sweep, peal_cuda *cuda, struct sweeper *sweepers)
{
    pthread_t threads[RANKS];
    (void)pthread_barrier_init(&sweep->meet, NULL, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        memset(&sweepers[r], 0, sizeof sweepers[r]);
        sweepers[r].sweep = sweep;
        sweepers[r].rank.number = r;
        sweepers[r].rank.cuda = cuda;
        ck_assert_int_eq(pthread_create(&threads[r], NULL, sweep_main, &sweepers[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        (void)pthread_join(threads[r], NULL);
    (void)pthread_barrier_destroy(&sweep->meet);
}

/* 0: there are no more calls. */
static int sweep_one(struct sweep *sweep, uint32_t nth)
{
    static struct sweeper sweepers[RANKS];
    uint32_t had[HELD], counts[HELD];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_cuda *cuda = NULL;
    params.ranks = RANKS;
    params.heap_bytes = 1u << 16;
    params.timeout_ms = 1500;
    ck_assert_int_eq(peal_cuda_open(ctx, fake_path(), &diag, &cuda), PEAL_OK);
    ck_assert_int_eq(peal_world_create(ctx, &params, sweep->table, &diag, &sweep->world), PEAL_OK);
    unsigned before = descriptors();
    stand_in.held(had);
    stand_in.fail_at(nth);
    run_ranks(sweep, cuda, sweepers);
    const char *failed = stand_in.failed();
    stand_in.fail_at(0);
    for (uint32_t r = 0; r < RANKS; r++) {
        ck_assert_msg(!sweepers[r].rank.problem[0], "call %u (%s), rank %u: %s", nth, failed, r,
                      sweepers[r].rank.problem);
        ck_assert_msg(failed || sweepers[r].status == PEAL_OK, "nothing failed, rank %u: %s", r,
                      peal_status_name(sweepers[r].status));
    }
    stand_in.held(counts);
    for (uint32_t i = 0; i < HELD; i++)
        ck_assert_msg(counts[i] == had[i], "call %u (%s): %u of kind %u are left", nth, failed,
                      counts[i], i);
    ck_assert_msg(descriptors() == before, "call %u (%s): descriptors are left", nth, failed);
    peal_world_destroy(sweep->world);
    peal_cuda_close(cuda);
    return failed != NULL;
}

static void sweep_all(struct sweep *sweep, uint32_t first)
{
    int more = 1;
    uint32_t nth = first;
    for (; more && nth < 2000; nth += STRIDE)
        more = sweep_one(sweep, nth);
    ck_assert_uint_gt(nth, 60);
    peal_table_destroy(sweep->table);
}

static void begin(struct sweep *sweep, peal_cuda_share share)
{
    memset(sweep, 0, sizeof *sweep);
    peal_cuda_params params = PEAL_CUDA_PARAMS_INIT;
    sweep->params = params;
    sweep->params.heap_bytes = 1u << 20;
    sweep->params.share = share;
    sweep->collective = PEAL_ALLGATHER;
}

START_TEST(test_sweep)
{
    struct sweep sweep;
    begin(&sweep, _i == 3 ? PEAL_CUDA_SHARE_IPC : PEAL_CUDA_SHARE_FD);
    sweep.table = plan_for(ctx, PEAL_ALLGATHER, "direct", 1);
    sweep_all(&sweep, 1 + (uint32_t)_i);
}
END_TEST

/* With memory under the name of a switch, shown by fabric handles; and copies by the host. */
START_TEST(test_sweep_switch)
{
    struct sweep sweep;
    (void)setenv("FAKECUDA_MULTICAST", "1", 1);
    (void)setenv("FAKECUDA_FABRIC", "1", 1);
    begin(&sweep, _i ? PEAL_CUDA_SHARE_FABRIC : PEAL_CUDA_SHARE_FD);
    sweep.collective = PEAL_ALLREDUCE;
    sweep.table = plan_switch(ctx, PEAL_ALLREDUCE);
    sweep_all(&sweep, 5 - 3 * (uint32_t)_i);
}
END_TEST

/* Devices that do not reach each other's memory: streams of the others. */
START_TEST(test_sweep_apart)
{
    struct sweep sweep;
    (void)setenv("FAKECUDA_PEER", "0", 1);
    begin(&sweep, PEAL_CUDA_SHARE_FD);
    sweep.table = plan_for(ctx, PEAL_ALLGATHER, "direct", 1);
    sweep_all(&sweep, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda sweep");
    TCase *tests = tcase_create("cuda sweep");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, test_sweep, 0, 4);
    tcase_add_loop_test(tests, test_sweep_switch, 0, 2);
    tcase_add_test(tests, test_sweep_apart);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
