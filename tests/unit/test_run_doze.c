/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/* Ranks that wait long sleep, and are roused by whoever they wait for; those that come soon are
 * waited for awake. */
#include "comm.h"
#include "support.h"
#include "test_fixture.h"
#include "test_run.h"
#include "test_suite.h"

#include <check.h>
#include <stdatomic.h>
#include <time.h>

static int say(struct rank_thread *self, const char *what)
{
    (void)snprintf(self->problem, sizeof self->problem, "rank %u: %s", self->rank, what);
    return 1;
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void pause_ms(long ms)
{
    struct timespec pause = {0, ms * 1000000};
    (void)nanosleep(&pause, NULL);
}

/* Whether all but the last rank come to say that they sleep. */
static int all_sleep(const struct rank_thread *self)
{
    const peal_comm *comm = self->comm;
    for (unsigned looks = 0; looks < 20000; looks++) {
        unsigned asleep = 0;
        for (unsigned r = 0; r < self->ranks; r++)
            asleep += atomic_load(&rt_board(comm->base, &comm->layout, r)->asleep);
        if (asleep == self->ranks - 1 &&
            atomic_load(&rt_head(comm->base)->sleepers) == self->ranks - 1)
            return 1;
        pause_ms(1);
    }
    return 0;
}

static int call(struct rank_thread *self, unsigned salt)
{
    char in[3000], out[3000];
    return checked_call(self->comm, self->ranks, self->rank, in, out, salt % 2 ? 50 : 700,
                        PEAL_INT32, PEAL_SUM, salt, self->problem);
}

/* The last rank lets the others wait until they sleep, and half a second more. */
static int sleep_body(struct rank_thread *self)
{
    int late = self->rank == self->ranks - 1, failed = call(self, 0);
    self->comm->crowded = *(const int *)self->user;
    for (unsigned round = 1; round < 4 && !failed; round++) {
        if (late && !all_sleep(self))
            return say(self, "not all sleep that wait");
        if (late)
            pause_ms(500);
        double wall = seconds(CLOCK_MONOTONIC), busy = seconds(CLOCK_THREAD_CPUTIME_ID);
        failed = call(self, round);
        wall = seconds(CLOCK_MONOTONIC) - wall;
        busy = seconds(CLOCK_THREAD_CPUTIME_ID) - busy;
        if (!failed && !late && busy > wall / 2)
            failed = say(self, "is busy waiting");
        if (!failed && self->comm->drowsy)
            failed = say(self, "has told nobody that it woke");
    }
    return failed;
}

START_TEST(who_waits_long_sleeps)
{
    struct plan_text p = {.ranks = 3, .link = "shm direct", .engine = "sm", .depth = 1};
    struct plan_part parts[] = {{write_oneshot, 512}, {write_twoshot, 8000}};
    peal_table *table = table_of(ctx, p, parts, 2);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = run_ranks(ctx, table, 3, &params, sleep_body, &_i);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* Calls with a pause now and then, about as long as it takes to fall asleep: whoever is roused,
 * is just falling asleep, or awake, gets what he waits for. */
static int pauses_body(struct rank_thread *self)
{
    int failed = 0;
    self->comm->crowded = 1;
    for (unsigned round = 0; round < 60 && !failed; round++) {
        if (round % self->ranks == self->rank)
            pause_ms(1 + round % 4);
        failed = call(self, round);
    }
    return failed || (self->comm->drowsy && say(self, "fell asleep over its own last call"));
}

START_TEST(falling_asleep_loses_nothing)
{
    struct plan_text p = {.ranks = 3, .link = "shm direct", .engine = "sm", .depth = 1};
    struct plan_part parts[] = {{write_oneshot, 512}, {write_twoshot, 8000}};
    peal_table *table = table_of(ctx, p, parts, 2);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = run_ranks(ctx, table, 3, &params, pauses_body, NULL);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* A sleeper keeps its deadline, and hears of an error. */
static int deadline_body(struct rank_thread *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    float data[4] = {0};
    if (self->rank == 2 && !all_sleep(self))
        return say(self, "not all sleep that wait");
    if (self->rank == 2 && *(const int *)self->user)
        peal_comm_abort(self->comm);
    if (self->rank == 2)
        return 0;
    peal_status status = peal_allreduce(self->comm, data, data, 4, PEAL_FLOAT32, PEAL_SUM, &diag);
    peal_status wanted = *(const int *)self->user ? PEAL_ERR_ABORTED : PEAL_ERR_TIMEOUT;
    return status == wanted || (wanted == PEAL_ERR_TIMEOUT && status == PEAL_ERR_PEER)
               ? 0
               : say(self, diag.text);
}

START_TEST(a_sleeper_keeps_its_deadline)
{
    struct plan_text p = {.ranks = 3, .link = "shm direct", .engine = "sm", .depth = 1};
    struct plan_part part = {write_oneshot, 512};
    peal_table *table = table_of(ctx, p, &part, 1);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.timeout_ms = _i ? 100000 : 1500;
    const char *problem = run_ranks(ctx, table, 3, &params, deadline_body, &_i);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_doze");
    TCase *tests = tcase_create("doze");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, who_waits_long_sleeps, 0, 2);
    tcase_add_test(tests, falling_asleep_loses_nothing);
    tcase_add_loop_test(tests, a_sleeper_keeps_its_deadline, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
