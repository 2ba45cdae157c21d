/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are started: several at once, in order, by the caller and by a thread, without memory;
 * tables that are replaced between calls; what a comm tells of itself. */
#include "support.h"
#include "test_fixture.h"
#include "test_run.h"
#include "test_suite.h"

#include <check.h>
#include <sched.h>
#include <time.h>

#define RANKS 3u
#define CALLS 6u
#define COUNT 3000u

static peal_table *plan(peal_collective collective, const char *algorithm)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric;
    peal_table *table;
    peal_request request = PEAL_REQUEST_INIT;
    request.collective = collective;
    request.max_bytes = 1u << 16;
    request.algorithm = algorithm;
    ck_assert_int_eq(peal_fabric_host(ctx, RANKS, &diag, &fabric), PEAL_OK);
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    peal_fabric_destroy(fabric);
    return table;
}

/* allreduce, broadcast, alltoallv and barrier. */
static peal_table *plan_all(void)
{
    static const peal_collective more[] = {PEAL_BROADCAST, PEAL_ALLTOALLV, PEAL_BARRIER};
    peal_table *table = plan(PEAL_ALLREDUCE, NULL);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        peal_table *next = plan(more[i], NULL);
        ck_assert_int_eq(peal_table_join(table, next, NULL), PEAL_OK);
        peal_table_destroy(next);
    }
    return table;
}

static int failed(struct rank_thread *self, const char *what, peal_status status,
                  const peal_diag *diag)
{
    (void)snprintf(self->problem, sizeof self->problem, "rank %u: %s: %s: %s", self->rank, what,
                   peal_status_name(status), diag ? diag->text : "");
    return 1;
}
#define MUST(call)                                                                                 \
    do {                                                                                           \
        peal_status must = (call);                                                                 \
        if (must != PEAL_OK)                                                                       \
            return failed(self, #call, must, &diag);                                               \
    } while (0)
#define HOLDS(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            return failed(self, #what, PEAL_OK, NULL);                                             \
    } while (0)

/* ---- several at once */

struct outstanding {
    int32_t in[CALLS][COUNT];
    int32_t out[CALLS][COUNT];
    peal_pending *pending[CALLS];
};

static int make_pending(struct rank_thread *self, struct outstanding *o)
{
    peal_diag diag = PEAL_DIAG_INIT;
    for (unsigned c = 0; c < CALLS; c++) {
        peal_call call = PEAL_CALL_INIT;
        call.collective = c % 2 ? PEAL_BROADCAST : PEAL_ALLREDUCE;
        call.in = o->in[c];
        call.out = o->out[c];
        call.count = c % 3 ? COUNT : 5;
        call.dtype = PEAL_INT32;
        MUST(peal_pending_create(self->comm, &call, &diag, &o->pending[c]));
    }
    return 0;
}

static void fill_all(struct rank_thread *self, struct outstanding *o, unsigned salt)
{
    for (unsigned c = 0; c < CALLS; c++)
        for (unsigned i = 0; i < COUNT; i++) {
            o->in[c][i] = (int32_t)(i * 3 + self->rank * 1000 + c + salt);
            o->out[c][i] = -1;
        }
}

static int check_one(struct rank_thread *self, const struct outstanding *o, unsigned c,
                     unsigned salt)
{
    for (unsigned i = 0; i < (c % 3 ? COUNT : 5); i++) {
        int32_t each = (int32_t)(i * 3 + c + salt);
        HOLDS(o->out[c][i] == (c % 2 ? each : (int32_t)RANKS * each + 3000));
    }
    return 0;
}

/* What a caller looks at while a thread of the comm's is at its calls. */
static int look(struct rank_thread *self)
{
    peal_counter counter = {.size = sizeof counter};
    peal_comm_info info = {.size = sizeof info};
    uint64_t calls = 0;
    for (uint32_t i = 0; peal_comm_counter(self->comm, i, &counter) == PEAL_OK; i++)
        calls += counter.calls;
    HOLDS(peal_comm_get(self->comm, &info) == PEAL_OK && info.calls >= calls);
    HOLDS(peal_comm_measure(self->comm, (int)(calls & 1)) == PEAL_OK);
    (void)peal_mem_alloc(self->comm, 1); /* until there is none */
    return 0;
}

/* Whoever is done, all before it are. */
static int test_all(struct rank_thread *self, struct outstanding *o)
{
    peal_diag diag = PEAL_DIAG_INIT;
    for (unsigned left = CALLS; left;) {
        int before = 1;
        if (look(self))
            return 1;
        left = 0;
        for (unsigned c = 0; c < CALLS; c++) {
            int done;
            MUST(peal_test(o->pending[c], &done, &diag));
            HOLDS(before || !done || c == 0 || self->user == NULL);
            before = done;
            left += !done;
        }
        (void)sched_yield();
    }
    return 0;
}

/* One round: started together, tested or waited for from the last on, beside a blocking call. */
static int start_round(struct rank_thread *self, struct outstanding *o, unsigned round)
{
    peal_diag diag = PEAL_DIAG_INIT;
    fill_all(self, o, round);
    for (unsigned c = 0; c < CALLS; c++)
        MUST(peal_start(o->pending[c], &diag));
    HOLDS(peal_start(o->pending[CALLS - 1], &diag) == PEAL_ERR_ARG || round % 3);
    if (round % 3 == 1)
        MUST(peal_barrier(self->comm, &diag));
    if (round % 3 == 2)
        for (unsigned c = CALLS; c-- > 0;)
            MUST(peal_wait(o->pending[c], &diag));
    if (test_all(self, o))
        return 1;
    for (unsigned c = 0; c < CALLS; c++)
        if (check_one(self, o, c, round))
            return 1;
    return 0;
}

static int outstanding_body(struct rank_thread *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct outstanding *o = calloc(1, sizeof *o);
    int done = 0, bad = !o || make_pending(self, o);
    if (!bad && peal_test(o->pending[0], &done, &diag) != PEAL_ERR_ARG)
        bad = failed(self, "a test of nothing", PEAL_OK, NULL);
    if (!bad && self->user)
        bad = peal_comm_thread(self->comm, 1, &diag) != PEAL_OK;
    for (unsigned round = 0; round < 9 && !bad; round++)
        bad = start_round(self, o, round);
    if (!bad && self->user)
        bad = peal_comm_thread(self->comm, 0, &diag) != PEAL_OK;
    if (!bad)
        bad = start_round(self, o, 1);
    for (unsigned c = 0; o && c < CALLS; c++)
        peal_pending_destroy(o->pending[c]);
    free(o);
    return bad;
}

START_TEST(test_outstanding)
{
    peal_table *table = plan_all();
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.heap_bytes = 1u << 16;
    static int threaded;
    const char *problem =
        run_ranks(ctx, table, RANKS, &params, outstanding_body, _i ? &threaded : NULL);
    peal_table_destroy(table);
    ck_assert_msg(!problem, "%s", problem);
}
END_TEST

/* ---- no memory after creation */

static int memory_body(struct rank_thread *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    float in[64] = {1}, out[64];
    size_t lengths[RANKS] = {1, 2, 3}, got[RANKS];
    peal_pending *pending[2];
    peal_call call = PEAL_CALL_INIT;
    call.in = in;
    call.out = out;
    call.count = 16;
    MUST(peal_pending_create(self->comm, &call, &diag, &pending[0]));
    call.collective = PEAL_ALLTOALLV;
    call.send_counts = lengths;
    call.recv_counts = got;
    MUST(peal_pending_create(self->comm, &call, &diag, &pending[1]));
    MUST(peal_barrier(self->comm, &diag));
    uint64_t before = __atomic_load_n(&heap.calls, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < 20; i++) {
        MUST(peal_start(pending[0], &diag));
        MUST(peal_start(pending[1], &diag));
        MUST(peal_wait(pending[1], &diag));
        HOLDS(got[0] == self->rank + 1 && got[RANKS - 1] == self->rank + 1);
    }
    HOLDS(__atomic_load_n(&heap.calls, __ATOMIC_SEQ_CST) == before);
    MUST(peal_barrier(self->comm, &diag));
    peal_pending_destroy(pending[0]);
    peal_pending_destroy(pending[1]);
    return 0;
}

START_TEST(test_memory)
{
    peal_table *table = plan_all();
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.heap_bytes = 1u << 16;
    const char *problem = run_ranks(ctx, table, RANKS, &params, memory_body, NULL);
    peal_table_destroy(table);
    ck_assert_msg(!problem, "%s", problem);
}
END_TEST

/* ---- a rank that does not start */

static int late_body(struct rank_thread *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    float in[4] = {1}, out[4];
    peal_pending *pending;
    peal_call call = PEAL_CALL_INIT;
    call.in = in;
    call.out = out;
    call.count = 4;
    MUST(peal_pending_create(self->comm, &call, &diag, &pending));
    if (self->rank == 0) { /* waits for the others' failure, which is its own */
        struct timespec nap = {0, 1000000};
        while (peal_barrier(self->comm, &diag) == PEAL_OK)
            (void)nanosleep(&nap, NULL);
        peal_pending_destroy(pending);
        return 0;
    }
    MUST(peal_start(pending, &diag));
    int done = 0;
    peal_status status = PEAL_OK;
    while (!done)
        status = peal_test(pending, &done, &diag);
    HOLDS(status == PEAL_ERR_TIMEOUT || status == PEAL_ERR_PEER || status == PEAL_ERR_MISMATCH);
    HOLDS(diag.text[0] != '\0');
    HOLDS(peal_wait(pending, &diag) == status);
    peal_pending_destroy(pending);
    return 0;
}

START_TEST(test_late)
{
    peal_table *table = plan_all();
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.heap_bytes = 1u << 16;
    params.timeout_ms = 300;
    const char *problem = run_ranks(ctx, table, RANKS, &params, late_body, NULL);
    peal_table_destroy(table);
    ck_assert_msg(!problem, "%s", problem);
}
END_TEST

/* ---- a caller who is away for longer than it is patient: it has not waited meanwhile */

#define PATIENCE_MS 2000u

static void nap_ms(unsigned ms)
{
    struct timespec nap = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)nanosleep(&nap, NULL);
}

static int away_body(struct rank_thread *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    float in[4] = {1}, out[4];
    peal_pending *pending;
    peal_call call = PEAL_CALL_INIT;
    int done = 0;
    call.in = in;
    call.out = out;
    call.count = 4;
    MUST(peal_pending_create(self->comm, &call, &diag, &pending));
    MUST(peal_barrier(self->comm, &diag));
    if (self->rank != 0)
        nap_ms(PATIENCE_MS + 300);
    MUST(peal_start(pending, &diag));
    for (unsigned i = 0; i < 1000 && self->rank == 0; i++)
        MUST(peal_test(pending, &done, &diag));
    if (self->rank == 0)
        nap_ms(PATIENCE_MS + 100);
    while (!done)
        MUST(peal_test(pending, &done, &diag));
    peal_pending_destroy(pending);
    return 0;
}

/* Each of two calls has its own deadline, also if who has waited for the first asks now and then
 * for the second, which began meanwhile and waits from its first step on. */
static int anew_body(struct rank_thread *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    float in[4] = {1}, out[2][4];
    peal_pending *pending[2];
    int done = 0;
    for (unsigned i = 0; i < 2; i++) {
        peal_call call = PEAL_CALL_INIT;
        call.collective = PEAL_BROADCAST;
        call.in = in;
        call.out = out[i];
        call.count = 4;
        MUST(peal_pending_create(self->comm, &call, &diag, &pending[i]));
    }
    MUST(peal_barrier(self->comm, &diag));
    for (unsigned i = 0; i < 2; i++) {
        if (self->rank == 0)
            nap_ms(PATIENCE_MS / 2 + 100);
        MUST(peal_start(pending[i], &diag));
    }
    MUST(peal_wait(pending[0], &diag));
    while (!done)
        MUST(peal_test(pending[1], &done, &diag));
    peal_pending_destroy(pending[0]);
    peal_pending_destroy(pending[1]);
    return 0;
}

static const rank_fn patient[] = {away_body, anew_body};

START_TEST(test_away)
{
    peal_table *table = plan_all();
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.heap_bytes = 1u << 16;
    params.timeout_ms = PATIENCE_MS;
    const char *problem = run_ranks(ctx, table, RANKS, &params, patient[_i], NULL);
    peal_table_destroy(table);
    ck_assert_msg(!problem, "%s", problem);
}
END_TEST

/* ---- another table */

static int call_checked(struct rank_thread *self)
{
    static const size_t counts[] = {3, 2000};
    float in[2000], out[2000];
    for (unsigned i = 0; i < 2; i++)
        if (checked_call(self->comm, RANKS, self->rank, in, out, counts[i], PEAL_FLOAT32, PEAL_SUM,
                         i, self->problem))
            return 1;
    return 0;
}

static int replace_body(struct rank_thread *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table **tables = self->user;
    peal_counter counter = {.size = sizeof counter};
    for (unsigned round = 0; round < 6; round++) {
        if (call_checked(self))
            return 1;
        MUST(peal_comm_replace(self->comm, tables[round % 2], &diag));
        MUST(peal_comm_counter(self->comm, 0, &counter));
        HOLDS(strcmp(counter.algorithm, round % 2 ? "twoshot" : "ring") == 0);
        HOLDS(counter.calls == 0);
    }
    /* One rank asks for another table than the others: all keep the old one. */
    HOLDS(peal_comm_replace(self->comm, tables[self->rank == 1], &diag) == PEAL_ERR_MISMATCH);
    if (call_checked(self))
        return 1;
    MUST(peal_comm_counter(self->comm, 0, &counter));
    HOLDS(strcmp(counter.algorithm, "twoshot") == 0 && counter.calls == 2);
    HOLDS(peal_comm_counter(self->comm, 99, &counter) == PEAL_ERR_ARG);
    return 0;
}

START_TEST(test_replace)
{
    peal_table *tables[2] = {plan(PEAL_ALLREDUCE, "ring"), plan(PEAL_ALLREDUCE, "twoshot")};
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.heap_bytes = 1u << 16;
    const char *problem = run_ranks(ctx, tables[0], RANKS, &params, replace_body, tables);
    peal_table_destroy(tables[0]);
    peal_table_destroy(tables[1]);
    ck_assert_msg(!problem, "%s", problem);
}
END_TEST

/* One that needs more memory than the world has: it is said what there is too little of. */
static int larger_body(struct rank_thread *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    HOLDS(peal_comm_replace(self->comm, self->user, &diag) == PEAL_ERR_RANGE);
    HOLDS(strstr(diag.text, "bytes of scratch memory") && strstr(diag.text, "another world"));
    return call_checked(self);
}

START_TEST(test_replace_larger)
{
    peal_table *small = plan(PEAL_ALLREDUCE, "twoshot"), *large = plan(PEAL_ALLREDUCE, "ring");
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.heap_bytes = 1u << 16;
    const char *problem = run_ranks(ctx, small, RANKS, &params, larger_body, large);
    peal_table_destroy(small);
    peal_table_destroy(large);
    ck_assert_msg(!problem, "%s", problem);
}
END_TEST

/* ---- what it tells of itself */

static int tell_body(struct rank_thread *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    float in[8] = {1}, out[8];
    peal_trace_event event = {.size = sizeof event};
    peal_counter counter = {.size = sizeof counter};
    peal_rank_state state = {.size = sizeof state};
    uint32_t events = 0;
    MUST(peal_comm_measure(self->comm, 1));
    MUST(peal_comm_trace(self->comm, 4, &diag));
    for (unsigned i = 0; i < 3; i++)
        MUST(peal_allreduce(self->comm, in, out, 8, PEAL_FLOAT32, PEAL_SUM, &diag));
    uint64_t before = 0;
    while (peal_comm_traced(self->comm, events, &event) == PEAL_OK) {
        HOLDS(event.rank == self->rank && event.call >= 1 && event.call <= 3);
        HOLDS(event.start_ns <= event.end_ns && event.end_ns >= before);
        before = event.end_ns;
        events++;
    }
    HOLDS(events == 4);
    MUST(peal_comm_trace(self->comm, 0, &diag));
    HOLDS(peal_comm_traced(self->comm, 0, &event) == PEAL_ERR_ARG);
    MUST(peal_comm_counter(self->comm, 0, &counter));
    HOLDS(counter.calls == 3 && counter.bytes == 3 * 8 * 4 && counter.time_us > 0);
    MUST(peal_world_rank(self->world, self->rank, &state));
    HOLDS(state.joined && state.entered == 3 && state.returned == 3 && !state.waits);
    HOLDS(peal_world_rank(self->world, RANKS, &state) == PEAL_ERR_ARG);
    return 0;
}

START_TEST(test_tell)
{
    peal_table *table = plan(PEAL_ALLREDUCE, "twoshot");
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.heap_bytes = 1u << 16;
    const char *problem = run_ranks(ctx, table, RANKS, &params, tell_body, NULL);
    peal_table_destroy(table);
    ck_assert_msg(!problem, "%s", problem);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pending");
    TCase *tests = tcase_create("pending");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, test_outstanding, 0, 2);
    tcase_add_test(tests, test_memory);
    tcase_add_test(tests, test_late);
    tcase_add_loop_test(tests, test_away, 0, sizeof patient / sizeof *patient);
    tcase_add_test(tests, test_replace);
    tcase_add_test(tests, test_replace_larger);
    tcase_add_test(tests, test_tell);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
