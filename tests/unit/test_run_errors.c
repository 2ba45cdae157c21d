/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that fail: each rank hears of it, with the rank and the step, and the process lives. */
#include "support.h"
#include "test_fixture.h"
#include "test_run.h"
#include "test_suite.h"

#include <check.h>
#include <stdatomic.h>
#include <time.h>

static peal_table *small_table(unsigned ranks)
{
    struct plan_text p = {
        .ranks = ranks, .link = "shm direct", .engine = "sm", .depth = 2, .slot = 65536};
    struct plan_part parts[] = {{write_oneshot, 1024}, {write_twoshot, 65536}};
    return table_of(ctx, p, parts, 2);
}

static void doze(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&pause, NULL);
}

/* A call of which a certain error is expected, whose text holds `part`. 0: so it was. */
static int expect(struct rank_thread *self, size_t count, peal_dtype dtype, peal_op op,
                  peal_status wanted, const char *part)
{
    static const char in[65536 + 8] = {0};
    char *out = malloc(65536 + 8);
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_allreduce(self->comm, in, out, count, dtype, op, &diag);
    free(out);
    if (status == wanted && strstr(diag.text, part))
        return 0;
    (void)snprintf(self->problem, sizeof self->problem, "rank %u: %s, \"%s\"; not %s, \"%s\"",
                   self->rank, peal_status_name(status), diag.text, peal_status_name(wanted), part);
    return 1;
}

static int succeed(struct rank_thread *self, size_t count)
{
    return expect(self, count, PEAL_FLOAT32, PEAL_SUM, PEAL_OK, "");
}

static void run(unsigned ranks, uint32_t timeout_ms, rank_fn body, void *user)
{
    peal_table *table = small_table(ranks);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.timeout_ms = timeout_ms;
    const char *problem = run_ranks(ctx, table, ranks, &params, body, user);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}

/* ---- ranks that call something else */

struct odd_call {
    size_t count; /* of float32 */
    size_t odd_count;
    peal_dtype odd_dtype;
    peal_op odd_op;
};

static const struct odd_call odd_calls[] = {
    {4, 5, PEAL_FLOAT32, PEAL_SUM}, /* packets of both */
    {4, 4, PEAL_INT32, PEAL_SUM},
    {4, 4, PEAL_FLOAT32, PEAL_MAX},
    {4096, 4095, PEAL_FLOAT32, PEAL_SUM}, /* semaphores of both */
    {4096, 4096, PEAL_UINT32, PEAL_SUM},
    {4096, 4, PEAL_FLOAT32, PEAL_SUM}, /* one waits for packets, one for semaphores */
    {0, 4096, PEAL_FLOAT32, PEAL_SUM},
};

static int odd_body(struct rank_thread *self)
{
    const struct odd_call *odd = self->user;
    for (int i = 0; i < 3; i++)
        if (succeed(self, 8) || succeed(self, 2000))
            return 1;
    int failed;
    if (self->rank == self->ranks - 1)
        failed = expect(self, odd->odd_count, odd->odd_dtype, odd->odd_op, PEAL_ERR_MISMATCH,
                        "not allreduce of ");
    else
        failed = expect(self, odd->count, PEAL_FLOAT32, PEAL_SUM, PEAL_ERR_MISMATCH,
                        "not allreduce of ");
    return failed || expect(self, 1, PEAL_FLOAT32, PEAL_SUM, PEAL_ERR_ABORTED, "earlier error");
}

START_TEST(a_different_call_is_a_mismatch)
{
    struct odd_call odd = odd_calls[_i / 2];
    run(2 + (unsigned)_i % 2, 20000, odd_body, &odd);
}
END_TEST

static int in_place_body(struct rank_thread *self)
{
    char data[64] = {0};
    char other[64];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_allreduce(self->comm, data, self->rank ? data : other, 16,
                                        PEAL_FLOAT32, PEAL_SUM, &diag);
    return status != PEAL_ERR_MISMATCH;
}

START_TEST(in_place_on_one_rank_only_is_a_mismatch)
{
    run(2, 20000, in_place_body, NULL);
}
END_TEST

/* ---- ranks that do not call */

static int late_body(struct rank_thread *self)
{
    unsigned absent = 1;
    if (succeed(self, 8))
        return 1;
    if (self->rank == absent)
        doze(900);
    if (self->rank == 0)
        return expect(self, 8, PEAL_FLOAT32, PEAL_SUM, PEAL_ERR_TIMEOUT,
                      "rank 0, lane 0, step 1, call 2: waited 200 ms for rank 1");
    if (self->rank == 2)
        doze(150); /* rank 0 is the first whose patience ends */
    return expect(self, 8, PEAL_FLOAT32, PEAL_SUM, PEAL_ERR_PEER, "for rank 1") ||
           expect(self, 8, PEAL_FLOAT32, PEAL_SUM, PEAL_ERR_ABORTED, "earlier error of rank 0");
}

START_TEST(a_rank_that_stays_away_is_named)
{
    run(3, 200, late_body, NULL);
}
END_TEST

/* It will not come: nobody has to be patient. */
static int leaving_body(struct rank_thread *self)
{
    if (succeed(self, 8))
        return 1;
    if (self->rank == 1)
        return 0;
    return expect(self, 8, PEAL_FLOAT32, PEAL_SUM, PEAL_ERR_PEER, "rank 1 has left; rank ");
}

START_TEST(a_rank_that_has_left_is_not_waited_for)
{
    run(3, 100000, leaving_body, NULL);
}
END_TEST

/* The one waited for waits itself: it is not to blame. Whose patience ends first is open. */
static int chain_body(struct rank_thread *self)
{
    static const char in[16384] = {0};
    char *out = malloc(sizeof in);
    peal_diag diag = PEAL_DIAG_INIT;
    doze(self->rank == 2 ? 900 : 100 * (long)self->rank);
    peal_status status =
        peal_allreduce(self->comm, in, out, sizeof in / 4, PEAL_FLOAT32, PEAL_SUM, &diag);
    free(out);
    (void)snprintf(self->problem, sizeof self->problem, "rank %u: %s: %s", self->rank,
                   peal_status_name(status), diag.text);
    return !strstr(diag.text, "for rank 2") ||
           (status != PEAL_ERR_PEER && (status != PEAL_ERR_TIMEOUT || self->rank == 2));
}

START_TEST(the_rank_at_the_root_of_a_wait_is_named)
{
    run(3, 300, chain_body, NULL);
}
END_TEST

START_TEST(a_rank_that_does_not_join_is_named)
{
    peal_table *table = small_table(2);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world *world;
    peal_comm *comm = NULL;
    params.ranks = 2;
    params.timeout_ms = 50;
    ck_assert_int_eq(peal_world_create(ctx, &params, table, &diag, &world), PEAL_OK);
    ck_assert_int_eq(peal_comm_create(world, table, 0, &diag, &comm), PEAL_ERR_TIMEOUT);
    ck_assert_ptr_null(comm);
    ck_assert_str_eq(diag.text, "rank 1 did not join within 50 ms");
    ck_assert_int_eq(peal_comm_create(world, table, 0, &diag, &comm), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_comm_create(world, table, 2, &diag, &comm), PEAL_ERR_ARG);
    peal_world_destroy(world);
    peal_table_destroy(table);
}
END_TEST

/* ---- abort */

static int abort_body(struct rank_thread *self)
{
    if (succeed(self, 8))
        return 1;
    if (self->rank == 1) {
        doze(50);
        peal_comm_abort(self->comm);
        peal_comm_abort(self->comm);
    }
    return expect(self, 8, PEAL_FLOAT32, PEAL_SUM, PEAL_ERR_ABORTED, "rank 1 aborted") ||
           expect(self, 8, PEAL_FLOAT32, PEAL_SUM, PEAL_ERR_ABORTED, "earlier");
}

START_TEST(abort_ends_every_call)
{
    run(3, 20000, abort_body, NULL);
}
END_TEST

static void *abort_soon(void *comm)
{
    doze(50);
    peal_comm_abort(comm);
    return NULL;
}

static int own_abort_body(struct rank_thread *self)
{
    pthread_t thread;
    if (self->rank == 1)
        return expect(self, 4096, PEAL_FLOAT32, PEAL_SUM, PEAL_ERR_ABORTED, "rank 0 aborted");
    /* Before rank 1 can end, for it waits. */
    if (pthread_create(&thread, NULL, abort_soon, self->comm) != 0)
        return 1;
    doze(200);
    int failed = expect(self, 8, PEAL_FLOAT32, PEAL_SUM, PEAL_ERR_ABORTED, "rank 0 aborted");
    return pthread_join(thread, NULL) != 0 || failed;
}

START_TEST(abort_from_another_thread)
{
    run(2, 20000, own_abort_body, NULL);
}
END_TEST

/* ---- tables that differ */

static void *join_other(void *argument)
{
    struct rank_thread *self = argument;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_comm_create(self->world, self->table, self->rank, &diag, &self->comm);
    self->failed = status != PEAL_ERR_MISMATCH || !strstr(diag.text, "has another table");
    return NULL;
}

START_TEST(another_table_is_a_mismatch)
{
    struct plan_text p = {.ranks = 2, .link = "shm direct", .engine = "sm"};
    struct plan_part one = {write_twoshot, 65536};
    struct plan_part two = {write_twoshot, 65537};
    peal_table *tables[] = {table_of(ctx, p, &one, 1), table_of(ctx, p, &two, 1)};
    struct rank_thread ranks[2];
    pthread_t threads[2];
    peal_world *world;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.ranks = 2;
    ck_assert_int_eq(peal_world_create(ctx, &params, tables[0], NULL, &world), PEAL_OK);
    for (unsigned r = 0; r < 2; r++) {
        ranks[r] = (struct rank_thread){.world = world, .table = tables[r], .rank = r};
        ck_assert_int_eq(pthread_create(&threads[r], NULL, join_other, &ranks[r]), 0);
    }
    for (unsigned r = 0; r < 2; r++) {
        ck_assert_int_eq(pthread_join(threads[r], NULL), 0);
        ck_assert(!ranks[r].failed);
        peal_table_destroy(tables[r]);
    }
    peal_world_destroy(world);
}
END_TEST

static void found(void *user, const peal_finding *finding)
{
    (void)user;
    (void)finding;
}

START_TEST(an_unproven_table_is_refused)
{
    static const char text[] = "peal-table 1 plan allreduce ranks 1 bytes 0..8 algorithm a "
                               "channels 1 chunks 1 rank 0 host 0";
    peal_table *table;
    peal_world *world;
    peal_comm *comm;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.ranks = 1;
    ck_assert_int_eq(peal_table_assemble(ctx, text, sizeof text - 1, "t", &diag, &table), PEAL_OK);
    ck_assert_int_eq(peal_table_verify(table, found, NULL, NULL, NULL), PEAL_ERR_UNPROVEN);
    ck_assert_int_eq(peal_world_create(ctx, &params, table, &diag, &world), PEAL_OK);
    ck_assert_int_eq(peal_comm_create(world, table, 0, &diag, &comm), PEAL_ERR_UNPROVEN);
    peal_world_destroy(world);
    peal_table_destroy(table);
}
END_TEST

/* ---- arguments */

static int argument_body(struct rank_thread *self)
{
    float data[64] = {0};
    peal_comm *comm = self->comm;
    char *bytes = (char *)data;
    int failed =
        peal_allreduce(NULL, data, data, 1, PEAL_FLOAT32, PEAL_SUM, NULL) != PEAL_ERR_ARG ||
        peal_allreduce(comm, NULL, data, 1, PEAL_FLOAT32, PEAL_SUM, NULL) != PEAL_ERR_ARG ||
        peal_allreduce(comm, data, NULL, 1, PEAL_FLOAT32, PEAL_SUM, NULL) != PEAL_ERR_ARG ||
        peal_allreduce(comm, data, data + 1, 2, PEAL_FLOAT32, PEAL_SUM, NULL) != PEAL_ERR_ARG ||
        peal_allreduce(comm, data + 1, data, 2, PEAL_FLOAT32, PEAL_SUM, NULL) != PEAL_ERR_ARG ||
        peal_allreduce(comm, bytes + 1, bytes + 1, 2, PEAL_FLOAT32, PEAL_SUM, NULL) !=
            PEAL_ERR_ARG ||
        peal_allreduce(comm, data, data, 1, (peal_dtype)10, PEAL_SUM, NULL) != PEAL_ERR_ARG ||
        peal_allreduce(comm, data, data, 1, PEAL_FLOAT32, (peal_op)5, NULL) != PEAL_ERR_ARG ||
        peal_allreduce(comm, data, data, 1 << 20, PEAL_FLOAT32, PEAL_SUM, NULL) != PEAL_ERR_RANGE ||
        peal_allreduce(comm, data, data, SIZE_MAX, PEAL_FLOAT32, PEAL_SUM, NULL) != PEAL_ERR_RANGE;
    /* None of that was a call; side by side, buffers do not overlap; NULL will do for nothing. */
    return failed ||
           peal_allreduce(comm, data, data + 2, 2, PEAL_FLOAT32, PEAL_SUM, NULL) != PEAL_OK ||
           peal_allreduce(comm, self->rank ? NULL : data, NULL, 0, PEAL_FLOAT32, PEAL_SUM, NULL) !=
               PEAL_OK ||
           peal_comm_get(comm, NULL) != PEAL_ERR_ARG;
}

START_TEST(wrong_arguments_are_refused_and_do_no_harm)
{
    run(2, 20000, argument_body, NULL);
}
END_TEST

START_TEST(wrong_worlds_are_refused)
{
    peal_table *table = small_table(2);
    peal_world *world = NULL;
    peal_comm *comm = NULL;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    ck_assert_int_eq(peal_world_create(NULL, &params, table, NULL, &world), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_world_create(ctx, NULL, table, NULL, &world), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_world_create(ctx, &params, NULL, NULL, &world), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_world_create(ctx, &params, table, NULL, NULL), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_world_create(ctx, &params, table, NULL, &world), PEAL_ERR_ARG);
    params.ranks = 3;
    ck_assert_int_eq(peal_world_create(ctx, &params, table, NULL, &world), PEAL_ERR_ARG);
    params.ranks = 2;
    params.attach = 1;
    ck_assert_int_eq(peal_world_create(ctx, &params, table, NULL, &world), PEAL_ERR_ARG);
    params.shm_name = "no slash";
    ck_assert_int_eq(peal_world_create(ctx, &params, table, NULL, &world), PEAL_ERR_ARG);
    params.shm_name = "/a/b";
    ck_assert_int_eq(peal_world_create(ctx, &params, table, NULL, &world), PEAL_ERR_ARG);
    params.shm_name = NULL;
    params.attach = 0;
    params.heap_bytes = UINT64_MAX;
    ck_assert_int_eq(peal_world_create(ctx, &params, table, NULL, &world), PEAL_ERR_RANGE);
    params.heap_bytes = UINT64_MAX / 2;
    ck_assert_int_eq(peal_world_create(ctx, &params, table, NULL, &world), PEAL_ERR_RANGE);
    ck_assert_ptr_null(world);
    ck_assert_int_eq(peal_comm_create(NULL, table, 0, NULL, &comm), PEAL_ERR_ARG);
    peal_world_destroy(NULL);
    peal_comm_destroy(NULL);
    peal_comm_abort(NULL);
    ck_assert_ptr_null(peal_mem_alloc(NULL, 1));
    peal_table_destroy(table);
}
END_TEST

/* ---- memory */

static const char async_text[] =
    "peal-table 1 plan allreduce ranks 1 bytes 0..65536 algorithm a channels 1 chunks 1 "
    "semaphores 1 region scratch width 1 depth 1 slot 70000 rank 0 host 0 lane body "
    "copy c0: in[0] -> s0[0] ce e0 signal r0.0 ce after e0 lane body wait r0.0 "
    "reduce c0: s0[0] -> out[0] sm final";

static peal_status make_all(peal_ctx *own, void *user)
{
    peal_table *table = NULL;
    peal_world *world = NULL;
    peal_comm *comm = NULL;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    float data[20] = {1, 2, 3};
    (void)user;
    params.ranks = 1;
    params.chaos_seed = 7;
    peal_status status =
        peal_table_assemble(own, async_text, sizeof async_text - 1, "t", NULL, &table);
    if (status == PEAL_OK)
        status = peal_world_create(own, &params, table, NULL, &world);
    if (status == PEAL_OK)
        status = peal_comm_create(world, table, 0, NULL, &comm);
    if (status == PEAL_OK)
        status = peal_allreduce(comm, data, data, 20, PEAL_FLOAT32, PEAL_SUM, NULL);
    /* In the order that is least natural. */
    peal_table_destroy(table);
    peal_world_destroy(world);
    peal_comm_destroy(comm);
    return status;
}

START_TEST(every_failed_allocation_is_survived)
{
    ck_assert_int_eq(test_oom_sweep(make_all, NULL, 0, NULL), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_errors");
    TCase *tests = tcase_create("errors");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, a_different_call_is_a_mismatch, 0,
                        2 * (int)(sizeof odd_calls / sizeof *odd_calls));
    tcase_add_test(tests, in_place_on_one_rank_only_is_a_mismatch);
    tcase_add_test(tests, a_rank_that_stays_away_is_named);
    tcase_add_test(tests, a_rank_that_has_left_is_not_waited_for);
    tcase_add_test(tests, the_rank_at_the_root_of_a_wait_is_named);
    tcase_add_test(tests, a_rank_that_does_not_join_is_named);
    tcase_add_test(tests, abort_ends_every_call);
    tcase_add_test(tests, abort_from_another_thread);
    tcase_add_test(tests, another_table_is_a_mismatch);
    tcase_add_test(tests, an_unproven_table_is_refused);
    tcase_add_test(tests, wrong_arguments_are_refused_and_do_no_harm);
    tcase_add_test(tests, wrong_worlds_are_refused);
    tcase_add_test(tests, every_failed_allocation_is_survived);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
