/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/* What ends a comm on devices: nothing is left waiting in a stream, every rank hears of it, and the
 * process lives. */
#include "test_cuda.h"
#include "test_fixture.h"
#include "test_suite.h"

#include <stdlib.h>
#include <time.h>

/* Of the test under way, for all ranks. */
static int zero_sm;
static int only_zero_sm; /* the comm makes no other calls */

/* The stream comes to its end, and says so. */
static void expect_end(struct rank *rank, peal_status one, peal_status other, const char *text)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_cuda_stream_wait(rank->comm, rank->stream, &diag);
    SAY(rank, status == one || status == other, "%s: %s", peal_status_name(status), diag.text);
    SAY(rank, strstr(diag.text, text), "no \"%s\" in: %s", text, diag.text);
    status = gather(rank, zero_sm, 1, &diag);
    SAY(rank, status == one || status == other, "later: %s", peal_status_name(status));
}

/* Rank 2 does not come. */
static void late_body(struct rank *rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct timespec nap = {0, 1000000};
    if (rank->number != 2)
        SAY_OK(rank, gather(rank, zero_sm, 1, &diag), diag);
    for (unsigned i = 0; i < 20000 && peal_cuda_comm_error(rank->comm, &diag) == PEAL_OK; i++)
        (void)nanosleep(&nap, NULL);
    expect_end(rank, PEAL_ERR_TIMEOUT, PEAL_ERR_PEER, "waited 300 ms for rank 2");
}

/* The others may hear of it before they call. */
static void abort_body(struct rank *rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    if (rank->number == 2)
        peal_cuda_comm_abort(rank->comm);
    else
        (void)!gather(rank, zero_sm, 1, &diag);
    expect_end(rank, PEAL_ERR_ABORTED, PEAL_ERR_ABORTED, "rank 2 aborted");
    SAY(rank, peal_cuda_comm_error(rank->comm, &diag) == PEAL_ERR_ABORTED, "no error: %s",
        diag.text);
}

/* Rank 2 calls with another count: flags carry what was called. */
static void mismatch_body(struct rank *rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_call call = PEAL_CUDA_CALL_INIT;
    call.collective = PEAL_ALLGATHER;
    call.dtype = PEAL_UINT32;
    call.count = rank->number == 2 ? 64 : 68;
    call.in = rank->in;
    call.out = rank->out;
    call.zero_sm = call.symmetric = zero_sm;
    SAY_OK(rank, peal_cuda_enqueue(rank->comm, &call, rank->stream, &diag), diag);
    expect_end(rank, PEAL_ERR_MISMATCH, PEAL_ERR_MISMATCH, "makes another call");
}

/* Rank 2 lets the others wait in each call, for less than they would, and in all for longer. They
 * are in the next one before anybody looks, at the very step. */
static void slow_body(struct rank *rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct timespec nap = {0, 160000000};
    for (unsigned i = 0; i < 8; i++) {
        if (rank->number == 2)
            (void)nanosleep(&nap, NULL);
        SAY_OK(rank, gather(rank, zero_sm, 1, &diag), diag);
    }
    SAY_OK(rank, peal_cuda_stream_wait(rank->comm, rank->stream, &diag), diag);
}

static void run(void (*body)(struct rank *), uint32_t timeout_ms)
{
    static struct team team;
    memset(&team, 0, sizeof team);
    peal_cuda_params params = PEAL_CUDA_PARAMS_INIT;
    team.params = params;
    team.params.heap_bytes = 4u << 20;
    team.params.zero_sm = only_zero_sm;
    team.body = body;
    team.table = plan_for(ctx, PEAL_ALLGATHER, "direct", 1);
    const char *problem = run_team(ctx, &team, timeout_ms);
    peal_table_destroy(team.table);
    ck_assert_msg(!problem[0], "%s", problem);
}

START_TEST(test_late)
{
    zero_sm = _i;
    run(late_body, 300);
}
END_TEST

START_TEST(test_slow)
{
    zero_sm = only_zero_sm = 1;
    run(slow_body, 500);
}
END_TEST

START_TEST(test_abort)
{
    zero_sm = _i;
    run(abort_body, 20000);
}
END_TEST

/* By the kernel, and by zero-SM calls: their streams, let end when they disagree, write one place,
 * whose contents are nobody's result any more. */
#if defined(__SANITIZE_THREAD__)
#define MISMATCHES 1
#else
#define MISMATCHES 2
#endif

START_TEST(test_mismatch)
{
    zero_sm = _i;
    run(mismatch_body, 20000);
}
END_TEST

/* Parameters that differ are told to all. */
static struct team odd;

static void *odd_main(void *user)
{
    struct rank *rank = user;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_params params = PEAL_CUDA_PARAMS_INIT;
    params.heap_bytes = rank->number == 1 ? 2u << 20 : 1u << 20;
    params.share = PEAL_CUDA_SHARE_IPC;
    peal_status status = peal_cuda_comm_create(rank->cuda, odd.world, odd.table, rank->number,
                                               &params, &diag, &rank->comm);
    SAY(rank, status == PEAL_ERR_MISMATCH, "%s", peal_status_name(status));
    SAY(rank, strstr(diag.text, "other parameters"), "%s", diag.text);
    return NULL;
}

START_TEST(test_odd)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    pthread_t threads[RANKS];
    peal_cuda *cuda = NULL;
    params.ranks = RANKS;
    params.heap_bytes = 1u << 16;
    memset(&odd, 0, sizeof odd);
    odd.table = plan_for(ctx, PEAL_ALLGATHER, "direct", 1);
    ck_assert_int_eq(peal_cuda_open(ctx, fake_path(), &diag, &cuda), PEAL_OK);
    ck_assert_int_eq(peal_world_create(ctx, &params, odd.table, &diag, &odd.world), PEAL_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        odd.ranks[r].number = r;
        odd.ranks[r].cuda = cuda;
        ck_assert_int_eq(pthread_create(&threads[r], NULL, odd_main, &odd.ranks[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        (void)pthread_join(threads[r], NULL);
        ck_assert_msg(!odd.ranks[r].problem[0], "rank %u: %s", r, odd.ranks[r].problem);
    }
    peal_world_destroy(odd.world);
    peal_table_destroy(odd.table);
    peal_cuda_close(cuda);
}
END_TEST

/* ---- two comms on one device */

#define BESIDE 9u

static struct {
    peal_world *worlds[BESIDE];
    peal_table *table;
    pthread_barrier_t meet;
    atomic_uint failed[2]; /* ranks on which the comm has, and says why */
} beside;

static peal_status make_beside(struct rank *rank, uint32_t which, peal_diag *diag,
                               peal_cuda_comm **comm)
{
    peal_cuda_params params = PEAL_CUDA_PARAMS_INIT;
    params.device = rank->number;
    params.heap_bytes = 1u << 20;
    return peal_cuda_comm_create(rank->cuda, beside.worlds[which], beside.table, rank->number,
                                 &params, diag, comm);
}

/* In one stream, rank 0 the other way round than the others. The comm that fails first fails on all
 * ranks, and says why: no stream comes past its calls before. Of the other one nothing is certain:
 * its calls are no longer held up, and what was put for them may be all they wait for; or its
 * deadline, which began with the first one's, ends it in their midst, on some ranks after others
 * have looked. Which one is first is up to the clock. */
static void *crossed_main(void *user)
{
    struct rank *rank = user;
    peal_cuda_comm *comms[2] = {NULL, NULL};
    void *in[2], *out[2];
    peal_status status[2] = {PEAL_OK, PEAL_OK};
    peal_diag diag[2] = {PEAL_DIAG_INIT, PEAL_DIAG_INIT};
    for (uint32_t i = 0; i < 2; i++) {
        SAY_OK(rank, make_beside(rank, i, &diag[i], &comms[i]), diag[i]);
        in[i] = comms[i] ? peal_cuda_mem_alloc(comms[i], 4096) : NULL;
        out[i] = comms[i] ? peal_cuda_mem_alloc(comms[i], 4 * 4096) : NULL;
    }
    if (!rank->problem[0])
        SAY_OK(rank, peal_cuda_stream_create(comms[0], &diag[0], &rank->stream), diag[0]);
    (void)pthread_barrier_wait(&beside.meet);
    for (uint32_t k = 0; k < 2 && !rank->problem[0]; k++) {
        uint32_t i = rank->number == 0 ? 1 - k : k;
        (void)!peal_cuda_allgather(comms[i], in[i], out[i], 64, PEAL_UINT32, rank->stream,
                                   &diag[i]);
    }
    for (uint32_t i = 0; i < 2 && rank->stream; i++)
        status[i] = peal_cuda_stream_wait(comms[i], rank->stream, &diag[i]);
    for (uint32_t i = 0; i < 2; i++) {
        SAY(rank,
            status[i] == PEAL_OK || status[i] == PEAL_ERR_TIMEOUT || status[i] == PEAL_ERR_PEER,
            "%s: %s", peal_status_name(status[i]), diag[i].text);
        atomic_fetch_add(&beside.failed[i],
                         status[i] != PEAL_OK &&
                             strstr(diag[i].text, "in a call of another comm") != NULL);
    }
    (void)pthread_barrier_wait(&beside.meet);
    if (rank->stream)
        peal_cuda_stream_destroy(comms[0], rank->stream);
    for (uint32_t i = 0; i < 2; i++)
        peal_cuda_comm_destroy(comms[i]);
    return NULL;
}

/* Leaves the devices no more multiprocessors than the comm's blocks take, of eight on each. */
static void shrink(struct rank *rank, const peal_cuda_comm *comm)
{
    peal_cuda_comm_info info = {.size = sizeof info};
    char sms[16];
    (void)pthread_barrier_wait(&beside.meet);
    SAY(rank, peal_cuda_comm_get(comm, &info) == PEAL_OK && info.blocks > 0, "no blocks");
    (void)snprintf(sms, sizeof sms, "%u", (info.blocks + 7) / 8);
    if (rank->number == 0)
        (void)setenv("FAKECUDA_SMS", sms, 1);
    (void)pthread_barrier_wait(&beside.meet);
}

/* Comms until there is no room for one more. */
static void *crowded_main(void *user)
{
    struct rank *rank = user;
    peal_cuda_comm *comms[BESIDE] = {NULL};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = PEAL_OK;
    uint32_t count = 1;
    SAY_OK(rank, make_beside(rank, 0, &diag, &comms[0]), diag);
    if (comms[0])
        shrink(rank, comms[0]);
    while (comms[0] && count < BESIDE && status == PEAL_OK) {
        status = make_beside(rank, count, &diag, &comms[count]);
        count++;
    }
    SAY(rank, count > 1 && status == PEAL_ERR_UNSUPPORTED, "%u comms: %s", count,
        peal_status_name(status));
    SAY(rank, strstr(diag.text, "can be resident") != NULL, "it says: %s", diag.text);
    /* When one has gone there is room again. */
    peal_cuda_comm_destroy(comms[0]);
    comms[0] = NULL;
    (void)pthread_barrier_wait(&beside.meet);
    if (count < BESIDE)
        SAY_OK(rank, make_beside(rank, count, &diag, &comms[count]), diag);
    (void)pthread_barrier_wait(&beside.meet);
    for (uint32_t i = 0; i < BESIDE; i++)
        peal_cuda_comm_destroy(comms[i]);
    return NULL;
}

static void run_beside(void *(*body)(void *), uint32_t worlds, uint32_t timeout_ms)
{
    static struct rank ranks[RANKS];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    pthread_t threads[RANKS];
    peal_cuda *cuda = NULL;
    params.ranks = RANKS;
    params.heap_bytes = 1u << 16;
    params.timeout_ms = timeout_ms;
    memset(&beside, 0, sizeof beside);
    memset(ranks, 0, sizeof ranks);
    beside.table = plan_for(ctx, PEAL_ALLGATHER, "direct", 0);
    ck_assert_int_eq(peal_cuda_open(ctx, fake_path(), &diag, &cuda), PEAL_OK);
    (void)pthread_barrier_init(&beside.meet, NULL, RANKS);
    for (uint32_t i = 0; i < worlds; i++)
        ck_assert_int_eq(peal_world_create(ctx, &params, beside.table, &diag, &beside.worlds[i]),
                         PEAL_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        ranks[r].number = r;
        ranks[r].cuda = cuda;
        ck_assert_int_eq(pthread_create(&threads[r], NULL, body, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        (void)pthread_join(threads[r], NULL);
        ck_assert_msg(!ranks[r].problem[0], "rank %u: %s", r, ranks[r].problem);
    }
    for (uint32_t i = 0; i < worlds; i++)
        peal_world_destroy(beside.worlds[i]);
    (void)pthread_barrier_destroy(&beside.meet);
    peal_table_destroy(beside.table);
    peal_cuda_close(cuda);
}

START_TEST(test_crossed)
{
    run_beside(crossed_main, 2, 300);
    ck_assert_msg(beside.failed[0] == RANKS || beside.failed[1] == RANKS,
                  "the comms have failed on %u and %u ranks", beside.failed[0], beside.failed[1]);
}
END_TEST

START_TEST(test_crowded)
{
    run_beside(crowded_main, BESIDE, 20000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda failure");
    TCase *tests = tcase_create("cuda failure");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, test_late, 0, 2);
    tcase_add_test(tests, test_slow);
    tcase_add_loop_test(tests, test_abort, 0, 2);
    tcase_add_loop_test(tests, test_mismatch, 0, MISMATCHES);
    tcase_add_test(tests, test_odd);
    tcase_add_test(tests, test_crossed);
    tcase_add_test(tests, test_crowded);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
