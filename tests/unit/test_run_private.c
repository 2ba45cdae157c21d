/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/* Private buffers: where they are staged, call by call, and what becomes of the bytes; the gauge
 * that tells whether ranks share a cache; and, of what a rank owns, the node it lies on. */
#define _GNU_SOURCE
#include "comm.h"
#include "support.h"
#include "test_fixture.h"
#include "test_run.h"
#include "test_suite.h"

#include <check.h>
#include <string.h>
#if defined(__linux__)
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define LARGEST 400000u
#define TURN 8192u /* from this size on messages take turns */

static int say(struct rank_thread *self, const char *what)
{
    (void)snprintf(self->problem, sizeof self->problem, "rank %u: %s", self->rank, what);
    return 1;
}

/* Reduces chunk by chunk out of the inputs of others, into their outputs. */
static const char *run_twoshot(unsigned ranks, const peal_world_params *params, rank_fn body)
{
    struct plan_text p = {.ranks = ranks, .link = "shm direct", .engine = "sm", .depth = 1};
    struct plan_part part = {write_twoshot, LARGEST};
    peal_table *table = table_of(ctx, p, &part, 1);
    const char *problem = run_ranks(ctx, table, ranks, params, body, NULL);
    peal_table_destroy(table);
    return problem;
}

/* ---- staging */

static int call(struct rank_thread *self, void *in, void *out, size_t bytes, unsigned salt)
{
    return checked_call(self->comm, self->ranks, self->rank, in, out, bytes / 4, PEAL_INT32,
                        PEAL_SUM, salt, self->problem);
}

static int in_segment(const peal_comm *comm, const char *at)
{
    return (uintptr_t)at - (uintptr_t)comm->base < comm->layout.total;
}

static char *last_in(const peal_comm *comm)
{
    return comm->shared_in;
}

/* Small messages stay in one place, larger ones go through the area, which has an end. */
static int turns(struct rank_thread *self, char *in, char *out)
{
    peal_comm *comm = self->comm;
    char *first = NULL;
    unsigned same = 0, moved = 0, back = 0;
    for (unsigned i = 0; i < 4; i++) {
        if (call(self, in, out, 4096, i))
            return 1;
        same += i && last_in(comm) == first;
        first = last_in(comm);
    }
    for (unsigned i = 0; i < 40; i++) {
        if (call(self, in, out, 200000, i))
            return 1;
        moved += last_in(comm) > first;
        back += last_in(comm) < first;
        first = last_in(comm);
        if (first < comm->base + comm->layout.heap + comm->layout.heap_bytes * self->rank ||
            first + 200000 >
                comm->base + comm->layout.heap + comm->layout.heap_bytes * (self->rank + 1))
            return say(self, "staged outside of its own heap");
    }
    if (same != 3 || !in_segment(comm, first) || in_segment(comm, in))
        return say(self, "small messages are not staged in one place");
    if (comm->staged_bytes < 2 * 200000)
        return moved || back > 1 ? say(self, "no room, but turns") : 0;
    return moved >= back && back ? 0 : say(self, "no turns"); /* of two places equally many */
}

/* Outputs that others write are staged as inputs are; registered ones are not. */
static int places(struct rank_thread *self, char *in, char *out)
{
    peal_comm *comm = self->comm;
    char *registered = peal_mem_alloc(comm, LARGEST);
    uint64_t staged = comm->rows[0].staged;
    if (!registered)
        return say(self, "no heap left");
    if (call(self, registered, registered, TURN, 1) || comm->shared_in != registered ||
        comm->shared_out != registered || comm->rows[0].staged != staged)
        return say(self, "registered buffers were staged");
    if (call(self, in, registered, TURN, 2) || comm->shared_in == in ||
        comm->shared_out != registered)
        return say(self, "a private input beside a registered output");
    if (call(self, registered, out, TURN, 3) || comm->shared_in != registered ||
        comm->shared_out == out)
        return say(self, "a private output beside a registered input");
    if (call(self, in, in, TURN, 4) || comm->shared_in == in || comm->shared_out == in ||
        comm->shared_in == comm->shared_out)
        return say(self, "in place: staged in place, too");
    return comm->rows[0].staged == staged + 3 ? 0 : say(self, "calls are not counted");
}

static int staging_body(struct rank_thread *self)
{
    static const size_t sizes[] = {0, 4, 127, 2048, 8188, 8192, 8196, 65536, LARGEST, 12};
    char *memory = malloc(2 * LARGEST);
    int failed = !memory;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes && !failed; i++)
        failed = call(self, memory, memory + LARGEST, sizes[i], i) ||
                 call(self, memory, memory, sizes[i], 50 + i);
    failed =
        failed || places(self, memory, memory + LARGEST) || turns(self, memory, memory + LARGEST);
    free(memory);
    return failed;
}

START_TEST(private_buffers_are_staged)
{
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.private_buffers = 1;
    params.heap_bytes = 8u << 20;
    params.attach_bytes = UINT64_MAX;
    const char *problem = run_twoshot(2 + (unsigned)_i, &params, staging_body);
    ck_assert_msg(!problem, "%s", problem);
}
END_TEST

/* A message for which the heap has no room is refused, before anything moves, and smaller ones
 * are made behind it. */
static int short_body(struct rank_thread *self)
{
    char *memory = calloc(2, LARGEST);
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = memory ? peal_allreduce(self->comm, memory, memory + LARGEST, LARGEST / 4,
                                                 PEAL_INT32, PEAL_SUM, &diag)
                                : PEAL_OK;
    int failed = status != PEAL_ERR_RANGE || !strstr(diag.text, "heap") ||
                 call(self, memory, memory + LARGEST, 60000, 1);
    free(memory);
    return failed ? say(self, diag.text) : 0;
}

START_TEST(too_little_heap_is_an_error)
{
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.private_buffers = 1;
    params.heap_bytes = LARGEST;
    params.attach_bytes = UINT64_MAX;
    const char *problem = run_twoshot(2, &params, short_body);
    ck_assert_msg(!problem, "%s", problem);
}
END_TEST

/* ---- parts */

#define PART 1024u

static unsigned parts_of(size_t bytes)
{
    return bytes < 2 * 4 * PART ? 1 : (unsigned)((bytes + 4 * PART - 1) / (4 * PART));
}

/* Reductions, too. */
static void cut(peal_comm *comm)
{
    comm->part_bytes = 4 * PART;
    comm->part_folds = UINT64_MAX;
}

/* Each part is a call of its own among the ranks, and all of them one for the caller. */
static int parts_body(struct rank_thread *self)
{
    static const size_t sizes[] = {4, 8188, 8192, 12292, 65536, 65540, 0, 399996};
    peal_comm *comm = self->comm;
    char *memory = malloc(2 * LARGEST);
    int failed = !memory;
    uint64_t wanted = comm->call, made = 0;
    cut(comm);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes && !failed; i++) {
        failed = call(self, memory, memory + LARGEST, sizes[i], i) ||
                 call(self, memory, memory, sizes[i], 50 + i);
        wanted += 2 * parts_of(sizes[i]);
        made += 2;
    }
    if (!failed && (comm->call != wanted || comm->calls != made || comm->rows[0].calls != made ||
                    comm->rows[0].staged != made))
        failed = say(self, "other parts or calls");
    free(memory);
    return failed;
}

START_TEST(large_calls_are_made_in_parts)
{
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.private_buffers = 1;
    params.heap_bytes = 8u << 20;
    params.attach_bytes = UINT64_MAX;
    const char *problem = run_twoshot(2 + 2 * (unsigned)_i, &params, parts_body);
    ck_assert_msg(!problem, "%s", problem);
}
END_TEST

/* One rank has twice as many parts to make as the others. */
static int other_parts_body(struct rank_thread *self)
{
    char *memory = calloc(2, LARGEST);
    peal_diag diag = PEAL_DIAG_INIT;
    cut(self->comm);
    peal_status status = peal_allreduce(self->comm, memory, memory + LARGEST,
                                        self->rank ? 10000 : 20000, PEAL_INT32, PEAL_SUM, &diag);
    free(memory);
    return status == PEAL_ERR_MISMATCH ? 0 : say(self, peal_status_name(status));
}

/* One rank gives up when some parts are over. */
static int abort_body(struct rank_thread *self)
{
    char *memory = calloc(2, LARGEST);
    peal_diag diag = PEAL_DIAG_INIT;
    peal_pending *pending = NULL;
    peal_call asked = PEAL_CALL_INIT;
    asked.collective = PEAL_ALLREDUCE;
    asked.in = memory;
    asked.out = memory + LARGEST;
    asked.count = 100000;
    asked.dtype = PEAL_INT32;
    cut(self->comm);
    peal_status status = peal_pending_create(self->comm, &asked, &diag, &pending);
    if (status == PEAL_OK)
        status = peal_start(pending, &diag);
    for (int done = 0; status == PEAL_OK && !done && self->comm->part < 5;)
        status = peal_test(pending, &done, &diag);
    if (self->rank == 1)
        peal_comm_abort(self->comm);
    if (status == PEAL_OK)
        status = peal_wait(pending, &diag);
    peal_pending_destroy(pending);
    free(memory);
    return status == PEAL_ERR_ABORTED ? 0 : say(self, peal_status_name(status));
}

START_TEST(failure_between_parts_ends_all)
{
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.private_buffers = 1;
    params.heap_bytes = 8u << 20;
    params.attach_bytes = UINT64_MAX;
    const char *problem = run_twoshot(3, &params, _i ? abort_body : other_parts_body);
    ck_assert_msg(!problem, "%s", problem);
}
END_TEST

/* ---- the gauge */

struct gauged {
    struct peal_comm comm;
    struct rt_board boards[2];
};

static struct gauged *gauged_new(void)
{
    struct gauged *made = NULL;
    ck_assert_int_eq(posix_memalign((void **)&made, RT_LINE, sizeof *made), 0);
    memset(made, 0, sizeof *made);
    made->comm.base = (char *)made->boards;
    made->comm.nranks = 2;
    made->comm.board = &made->boards[0];
    return made;
}

static int is_slow(struct gauged *g, unsigned rank)
{
    return (int)atomic_load(&g->boards[rank].slow);
}

/* One timed call: what is staged takes so many ns a KiB, what is loaded so many. */
static void time_call(struct gauged *g, uint64_t store, uint64_t load)
{
    g->comm.call = 128;
    rt_gauge_begin(&g->comm);
    ck_assert_int_eq(g->comm.gauges, 1);
    if (store)
        rt_gauge_note(&g->comm, RT_GAUGE_STORE, 4096, 4 * store);
    if (load) {
        rt_gauge_note(&g->comm, RT_GAUGE_LOAD, 8192, 8 * load + 100000);
        rt_gauge_note(&g->comm, RT_GAUGE_LOAD, 8192, 8 * load);
        rt_gauge_note(&g->comm, RT_GAUGE_LOAD, 8192, 8 * load + 3000);
    }
    rt_gauge_end(&g->comm);
    ck_assert_int_eq(g->comm.gauges, 0);
}

START_TEST(the_fastest_load_says_whether_a_cache_is_shared)
{
    struct gauged *g = gauged_new();
    time_call(g, 300, 400);
    ck_assert_int_eq(is_slow(g, 0), 1);
    time_call(g, 20, 60);
    ck_assert_int_eq(is_slow(g, 0), 0);
    time_call(g, 20, 200);
    ck_assert_int_eq(is_slow(g, 0), 1);
    /* What was not timed says nothing, nor what is too short to be. */
    time_call(g, 0, 0);
    ck_assert_int_eq(is_slow(g, 0), 1);
    g->comm.call = 256;
    rt_gauge_begin(&g->comm);
    rt_gauge_note(&g->comm, RT_GAUGE_LOAD, RT_GAUGE_BYTES - 1, 1);
    rt_gauge_note(&g->comm, RT_GAUGE_LOAD, RT_GAUGE_BYTES, 0);
    rt_gauge_end(&g->comm);
    ck_assert_int_eq(is_slow(g, 0), 1);
    free(g);
}
END_TEST

/* Two calls behind a timed one, so that all have told; then until the next. */
START_TEST(one_slow_rank_sends_all_around_their_caches)
{
    struct gauged *g = gauged_new();
    atomic_store(&g->boards[1].slow, 1);
    for (uint64_t call = 1; call < 400; call++) {
        g->comm.call = call;
        rt_gauge_begin(&g->comm);
        ck_assert_int_eq(g->comm.gauges, call % 128 == 0);
        ck_assert_int_eq(g->comm.away, call >= 2 && call < 258);
        rt_gauge_end(&g->comm);
        if (call == 140)
            atomic_store(&g->boards[1].slow, 0);
    }
    free(g);
}
END_TEST

/* Only larger messages tell what staging takes. */
START_TEST(dear_staging_is_told_of_large_messages)
{
    struct gauged *g = gauged_new();
    for (unsigned i = 0; i < 3; i++) {
        uint64_t bytes = i < 1 ? 16383 : 16384, each = i == 1 ? 60 : 20;
        g->comm.call = 128;
        rt_gauge_begin(&g->comm);
        rt_gauge_note(&g->comm, RT_GAUGE_STORE, bytes, bytes / 1024 * each);
        rt_gauge_note(&g->comm, RT_GAUGE_LOAD, bytes, bytes / 1024 * each);
        rt_gauge_end(&g->comm);
        for (int what = 0; what < 2; what++) {
            uint32_t told = atomic_load(&g->boards[0].dear[what]);
            ck_assert(i ? told >= each && told < each + 3 : told == 0);
        }
    }
    /* One rank stages, another loads. */
    atomic_store(&g->boards[1].dear[RT_GAUGE_STORE], 7);
    atomic_store(&g->boards[1].dear[RT_GAUGE_LOAD], 100);
    g->comm.call = 130;
    rt_gauge_begin(&g->comm);
    ck_assert_uint_ge(g->comm.dear, 120);
    ck_assert_uint_lt(g->comm.dear, 123);
    free(g);
}
END_TEST

/* Ranks that wait for a processor time that. */
START_TEST(ranks_that_share_processors_are_not_timed)
{
    struct gauged *g = gauged_new();
    g->comm.crowded = 1;
    g->comm.call = 128;
    rt_gauge_begin(&g->comm);
    ck_assert_int_eq(g->comm.gauges, 0);
    free(g);
}
END_TEST

/* Around their caches the bytes are the same. */
static int away_body(struct rank_thread *self)
{
    char *memory = malloc(2 * LARGEST);
    int failed = !memory;
    self->comm->crowded = 0;
    atomic_store(&self->comm->board->slow, 1);
    for (unsigned i = 0; i < 300 && !failed; i++) {
        failed = call(self, memory, memory + LARGEST, 1000 + 97u * i, i);
        if (self->comm->call % 128 == 1)
            atomic_store(&self->comm->board->slow, 1);
    }
    if (!failed && !self->comm->away)
        failed = say(self, "does not write around its cache");
    free(memory);
    return failed;
}

START_TEST(calls_around_caches_are_right)
{
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.private_buffers = 1;
    params.heap_bytes = 8u << 20;
    const char *problem = run_twoshot(2, &params, away_body);
    ck_assert_msg(!problem, "%s", problem);
}
END_TEST

#define GATHERED 32768u /* of a rank */

/* Ranks that store into each other's outputs time that, and what they copy out of theirs. */
static int gather_body(struct rank_thread *self)
{
    peal_comm *comm = self->comm;
    char *memory = calloc(3, GATHERED);
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = memory ? PEAL_OK : PEAL_ERR_MEMORY;
    comm->crowded = 0;
    for (unsigned i = 0; i < 130 && status == PEAL_OK; i++)
        status = peal_allgather(comm, memory, memory + GATHERED, GATHERED, PEAL_INT8, &diag);
    free(memory);
    if (status != PEAL_OK)
        return say(self, diag.text);
    for (int what = 0; what < 2; what++)
        if (!atomic_load(&comm->board->dear[what]))
            return say(self, "does not know what staging takes");
    return 0;
}

START_TEST(stores_into_outputs_are_timed)
{
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric;
    peal_table *table;
    request.collective = PEAL_ALLGATHER;
    request.algorithm = "direct";
    request.max_bytes = LARGEST;
    ck_assert_int_eq(peal_fabric_host(ctx, 2, &diag, &fabric), PEAL_OK);
    ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, &diag, &table), PEAL_OK);
    ck_assert_int_eq(peal_table_compile(table, fabric, &diag), PEAL_OK);
    peal_fabric_destroy(fabric);
    params.private_buffers = 1;
    params.heap_bytes = 8u << 20;
    params.attach_bytes = UINT64_MAX;
    const char *problem = run_ranks(ctx, table, 2, &params, gather_body, NULL);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* ---- agreeing */

/* A rank that does not look whether others are attached to would take their addresses for its own:
 * where one has more threads than there are processors, and another has not, nobody is. */
START_TEST(all_attach_early_or_none)
{
    struct gauged *g = gauged_new();
    peal_comm *comms[2] = {&g->comm, malloc(sizeof(peal_comm))};
    ck_assert_ptr_nonnull(comms[1]);
    g->comm.private_buffers = g->comm.attach_chooses = g->comm.attaches = 1;
    memcpy(comms[1], &g->comm, sizeof g->comm);
    comms[1]->board = &g->boards[1];
    for (int r = 0; r < 2; r++) {
        comms[r]->crowded = _i >> r & 1;
        rt_parts_offer(comms[r]);
    }
    for (int r = 0; r < 2; r++) {
        rt_parts_agree(comms[r]);
        ck_assert_int_eq(comms[r]->attach_early, _i == 0);
        ck_assert_int_eq(comms[r]->attach_crowded, _i == 3);
        ck_assert_int_eq(comms[r]->part_bytes != 0, _i == 0 || _i == 3);
    }
    free(comms[1]);
    free(g);
}
END_TEST

/* ---- memory nodes */

#if defined(SYS_get_mempolicy) && defined(SYS_mbind)
/* The kernel's wish for the page at `at`; -1: it does not say. */
static int policy_at(void *at)
{
    int mode = -1;
    unsigned long mask[16];
    return syscall(SYS_get_mempolicy, &mode, mask, 1024ul, at, (unsigned long)MPOL_F_ADDR) == 0
               ? mode
               : -1;
}

static int settled_body(struct rank_thread *self)
{
    const peal_comm *comm = self->comm;
    char *heap_start = comm->base + comm->layout.heap + comm->layout.heap_bytes * self->rank;
    int mode = policy_at(heap_start);
    if (mode < 0 || syscall(SYS_mbind, heap_start, 4096ul, MPOL_DEFAULT, NULL, 0ul, 0u) != 0)
        return 0; /* the kernel takes no wishes */
    return mode == MPOL_PREFERRED ? 0 : say(self, "its heap lies where it comes to lie");
}

START_TEST(a_ranks_memory_lies_on_its_node)
{
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.heap_bytes = 1u << 20;
    const char *problem = run_twoshot(2, &params, settled_body);
    ck_assert_msg(!problem, "%s", problem);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("run_private");
    TCase *tests = tcase_create("private");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, private_buffers_are_staged, 0, 2);
    tcase_add_test(tests, too_little_heap_is_an_error);
    tcase_add_loop_test(tests, large_calls_are_made_in_parts, 0, 2);
    tcase_add_loop_test(tests, failure_between_parts_ends_all, 0, 2);
    tcase_add_loop_test(tests, all_attach_early_or_none, 0, 4);
    tcase_add_test(tests, the_fastest_load_says_whether_a_cache_is_shared);
    tcase_add_test(tests, one_slow_rank_sends_all_around_their_caches);
    tcase_add_test(tests, dear_staging_is_told_of_large_messages);
    tcase_add_test(tests, ranks_that_share_processors_are_not_timed);
    tcase_add_test(tests, calls_around_caches_are_right);
    tcase_add_test(tests, stores_into_outputs_are_timed);
#if defined(SYS_get_mempolicy) && defined(SYS_mbind)
    tcase_add_test(tests, a_ranks_memory_lies_on_its_node);
#endif
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
