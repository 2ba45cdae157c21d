/* SPDX-License-Identifier: Apache-2.0 */
/* A process that dies while others wait for it outside of calls: while comms are made, when tables
 * are replaced, when comms are left; and one that can open no more files. Nobody waits for the
 * deadline. */
#define _GNU_SOURCE
#include "clock.h"
#include "comm.h"
#include "support.h"
#include "test_two_hosts.h"

#include "test_fixture.h"
#include "test_run.h"
#include "test_suite.h"

#include <check.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 4u
#define PATIENCE_MS 20000u
#define SOON_NS 4000000000u

/* ---- ranks as processes, of which one dies */

typedef int (*process_fn)(uint32_t rank);

static int complain(uint32_t rank, peal_status status, const peal_diag *diag, uint64_t since)
{
    (void)fprintf(stderr, "rank %u: %d: %s, after %llu ms\n", rank, status, diag->text,
                  (unsigned long long)((rt_now_ns() - since) / 1000000));
    return 1;
}

static void run(uint32_t ranks, uint32_t dies, process_fn body)
{
    pid_t pids[RANKS];
    uint32_t bad = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        pids[r] = fork();
        if (pids[r] == 0)
            _exit(body(r));
    }
    for (uint32_t r = 0; r < ranks; r++) {
        int status = 0;
        ck_assert_int_eq(waitpid(pids[r], &status, 0), pids[r]);
        bad += r == dies ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL : status != 0;
    }
    ck_assert_uint_eq(bad, 0);
}

/* ---- of one host */

static peal_world *world;
static peal_table *table;
static peal_table *other;

/* In the process that dies: with the first allocation after its board says this. */
static uint32_t dies_at;

static void *deadly_realloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    if (dies_at && new_bytes &&
        atomic_load(&rt_board(world->segment.base, &world->segment.layout, 1)->joined) == dies_at)
        (void)kill(getpid(), SIGKILL);
    return test_heap_realloc(user, ptr, old_bytes, new_bytes);
}

static peal_table *small_table(peal_ctx *owner)
{
    struct plan_text p = {.ranks = 3, .link = "shm direct", .engine = "ce", .slot = 16384};
    struct plan_part part = {write_twoshot, 65536};
    return table_of(owner, p, &part, 1);
}

/* "rank 1 died", said by all, soon. */
static int expect_end(uint32_t rank, peal_status status, const peal_diag *diag, const char *text,
                      uint64_t since)
{
    int right = status == PEAL_ERR_PEER && strstr(diag->text, "rank 1 died") &&
                strstr(diag->text, text) && rt_now_ns() - since < SOON_NS;
    return right ? 0 : complain(rank, status, diag, since);
}

static uint32_t when; /* rank 1 dies */

static int make(uint32_t rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_comm *comm;
    uint64_t since = rt_now_ns();
    dies_at = rank == 1 ? when : 0;
    peal_status status = peal_comm_create(world, table, rank, &diag, &comm);
    return expect_end(rank, status, &diag, ", joining needs it", since);
}

static int replace(uint32_t rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_comm *comm;
    float data[64] = {0};
    if (peal_comm_create(world, table, rank, &diag, &comm) != PEAL_OK ||
        peal_allreduce(comm, data, data, 64, PEAL_FLOAT32, PEAL_SUM, &diag) != PEAL_OK)
        return complain(rank, PEAL_OK, &diag, 0);
    if (rank == 1)
        (void)kill(getpid(), SIGKILL);
    uint64_t since = rt_now_ns();
    peal_status status = peal_comm_replace(comm, other, &diag);
    int wrong = expect_end(rank, status, &diag, ", changing tables before call 2 needs it", since);
    wrong += peal_comm_replace(comm, other, &diag) != PEAL_ERR_ABORTED;
    peal_comm_destroy(comm);
    return wrong || rt_now_ns() - since > SOON_NS;
}

static void run_near(process_fn body)
{
    struct test_heap deadly = {0};
    peal_host host = {sizeof host, &deadly, deadly_realloc};
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_ctx *own;
    ck_assert_int_eq(peal_ctx_create(&host, &own), PEAL_OK);
    table = small_table(own);
    other = small_table(own);
    params.ranks = 3;
    params.timeout_ms = PATIENCE_MS;
    params.private_buffers = 1;
    ck_assert_int_eq(peal_table_verify(table, NULL, NULL, NULL, &diag), PEAL_OK);
    ck_assert_int_eq(peal_world_create(own, &params, table, &diag, &world), PEAL_OK);
    run(3, 1, body);
    peal_world_destroy(world);
    peal_table_destroy(other);
    peal_table_destroy(table);
    peal_ctx_destroy(own);
}

/* Before it is there, and behind that, before it has said whether it is reached. */
START_TEST(test_making)
{
    when = 1 + (uint32_t)_i;
    run_near(make);
}
END_TEST

START_TEST(test_replacing)
{
    run_near(replace);
}
END_TEST

/* ---- of two hosts */

static peal_id id;
static peal_meeting *meeting;
static peal_table *four;

static int join(uint32_t rank, peal_comm **comm)
{
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    params.rank = rank;
    params.ranks = RANKS;
    params.id = &id;
    params.meeting = rank ? NULL : meeting;
    params.host = rank < 2 ? "left" : "right";
    params.heap_bytes = 1 << 20;
    params.timeout_ms = PATIENCE_MS;
    if (peal_world_join(ctx, &params, four, &diag, &world) == PEAL_OK &&
        peal_comm_create(world, four, rank, &diag, comm) == PEAL_OK &&
        peal_barrier(*comm, &diag) == PEAL_OK)
        return 1;
    (void)complain(rank, PEAL_OK, &diag, 0);
    return 0;
}

static int leave(uint32_t rank)
{
    const peal_diag diag = PEAL_DIAG_INIT;
    peal_comm *comm = NULL;
    if (!join(rank, &comm))
        return 1;
    if (rank == when)
        (void)kill(getpid(), SIGKILL);
    uint64_t since = rt_now_ns();
    peal_comm_destroy(comm);
    peal_world_destroy(world);
    return rt_now_ns() - since < SOON_NS ? 0 : complain(rank, PEAL_OK, &diag, since);
}

/* From here on this process can open nothing. */
static void take_files(void)
{
    struct rlimit few;
    (void)getrlimit(RLIMIT_NOFILE, &few);
    few.rlim_cur = 100;
    (void)setrlimit(RLIMIT_NOFILE, &few);
    while (dup(STDERR_FILENO) >= 0)
        continue;
}

static int split(uint32_t rank)
{
    static const uint32_t all[RANKS] = {2, 0, 1, 3};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_comm *comm = NULL;
    peal_world *next = NULL;
    int wrong = 0;
    if (!join(rank, &comm))
        return 1;
    if (rank == 2)
        take_files();
    for (int i = 0; i < 2; i++) {
        uint64_t since = rt_now_ns();
        peal_status status = peal_world_split(world, all, RANKS, four, &diag, &next);
        if (status != PEAL_ERR_IO ||
            !strstr(diag.text, "rank 0 of the split, rank 2 on right, cannot listen") ||
            rt_now_ns() - since > SOON_NS)
            wrong += complain(rank, status, &diag, since);
    }
    peal_comm_destroy(comm);
    peal_world_destroy(world);
    return wrong;
}

static void run_far(uint32_t dies, process_fn body)
{
    static const uint32_t group[RANKS] = {0, 1, 8, 9};
    when = dies;
    four = plan_two_hosts(ctx, PEAL_BARRIER, NULL, group, RANKS, 16);
    ck_assert_int_eq(peal_meeting_open(ctx, NULL, 0, NULL, &meeting, &id), PEAL_OK);
    run(RANKS, dies, body);
    peal_meeting_close(meeting);
    peal_table_destroy(four);
}

START_TEST(test_leaving)
{
    run_far(1 + (uint32_t)_i, leave);
}
END_TEST

/* The first rank of a split cannot listen: all are told which one, and why. */
START_TEST(test_splitting)
{
    run_far(RANKS, split);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lost");
    TCase *tests = tcase_create("lost");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, test_making, 0, 2);
    tcase_add_test(tests, test_replacing);
    tcase_add_loop_test(tests, test_leaving, 0, 2);
    tcase_add_test(tests, test_splitting);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK);
}
