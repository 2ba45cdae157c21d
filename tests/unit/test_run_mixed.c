/* SPDX-License-Identifier: Apache-2.0 */
/* One table of several collectives: calls of all kinds back to back, ranks that call different
 * ones, wrong arguments, and what joining tables keeps and refuses. */
#include "plan.h"
#include "support.h"
#include "test_fixture.h"
#include "test_run_moves.h"
#include "test_suite.h"

#include <check.h>
#include <time.h>

#define LARGEST 20000u /* bytes of a block */
#define HALF ((size_t)RANKS_MAX * LARGEST + 4 * GUARD)
#ifdef PEAL_SANITIZED
#define CALLS 600u
#else
#define CALLS 2000u
#endif

static peal_request small_request(unsigned ranks)
{
    peal_request request = PEAL_REQUEST_INIT;
    request.ranks = ranks;
    request.max_bytes = (uint64_t)ranks * LARGEST;
    return request;
}

static peal_table *host_table(peal_ctx *own, unsigned ranks, unsigned roots)
{
    peal_fabric *fabric = NULL;
    peal_table *table = NULL;
    if (peal_fabric_host(own, ranks, NULL, &fabric) == PEAL_OK)
        table = coll_all(own, fabric, small_request(ranks), roots);
    peal_fabric_destroy(fabric);
    return table;
}

static void doze_us(uint64_t us)
{
    struct timespec pause = {0, (long)us * 1000};
    (void)nanosleep(&pause, NULL);
}

static uint64_t step_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1du >> 20;
}

/* ---- calls of all kinds */

/* What all ranks draw alike. */
static struct coll_call draw_call(uint64_t *common, unsigned ranks, unsigned number)
{
    struct coll_call c = {.ranks = ranks, .salt = number};
    do
        c.collective = (peal_collective)(step_random(common) % PEAL_CUSTOM);
    while (c.collective == PEAL_SENDRECV && ranks != 2);
    if (coll_rooted(c.collective) || c.collective == PEAL_SENDRECV)
        c.root = (unsigned)(step_random(common) % ranks);
    c.peer = c.collective == PEAL_SENDRECV ? 1 - c.root : 0;
    c.dtype = (peal_dtype)(step_random(common) % PEAL_DTYPE_COUNT);
    c.op = (peal_op)(step_random(common) % PEAL_OP_COUNT);
    size_t limit = step_random(common) % 3 ? 200 : LARGEST;
    c.count = (size_t)(step_random(common) % limit) / peal_dtype_size(c.dtype);
    c.in_place = coll_in_place(c.collective) && step_random(common) % 2;
    return c;
}

/* The callers write their buffers between calls, and call when they like. */
static int mixed_body(struct rank_thread *self)
{
    uint64_t common = 0x1234567;
    uint64_t own = 0x9876543 + self->rank;
    char *memory = malloc(2 * HALF);
    int failed = !memory;
    for (unsigned call = 0; call < CALLS && !failed; call++) {
        struct coll_call c = draw_call(&common, self->ranks, call);
        if (step_random(&own) % 50 == 0)
            doze_us(step_random(&own) % 200);
        if (step_random(&own) % 4 == 0)
            memset(memory, (int)(call & 0xff), 2 * HALF);
        failed = coll_checked(self->comm, &c, self->rank, memory, HALF, self->problem);
    }
    free(memory);
    return failed;
}

struct mix {
    unsigned ranks;
    unsigned hosts; /* 0: shared memory */
    uint64_t chaos;
    int private_buffers;
};

static const struct mix mixes[] = {
    {2, 0, 0, 0}, {3, 0, 0, 1}, {5, 0, 0, 0},  {4, 1, 11, 0},
    {2, 2, 0, 0}, {4, 2, 5, 0}, {5, 3, 77, 1}, {3, 3, 1234567, 0},
};

START_TEST(collectives_compose_in_any_order)
{
    const struct mix *mix = &mixes[_i];
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_table *table;
    params.chaos_seed = mix->chaos;
    params.private_buffers = mix->private_buffers;
    if (mix->hosts == 0) {
        table = host_table(ctx, mix->ranks, UINT32_MAX);
    } else {
        peal_fabric *fabric = coll_cluster(ctx, mix->hosts, mix->hosts == 1 ? 4 : 2);
        peal_request request = small_request(mix->ranks);
        request.move_engine[PEAL_LINK_NVLINK] = PEAL_ENGINE_CE + 1;
        request.tile_bytes = 2048;
        table = coll_all(ctx, fabric, request, UINT32_MAX);
        peal_fabric_destroy(fabric);
    }
    const char *problem = run_ranks(ctx, table, mix->ranks, &params, mixed_body, NULL);
    ck_assert_msg(!problem, "mix %d: %s", _i, problem);
    peal_table_destroy(table);
}
END_TEST

/* ---- ranks that call something else */

struct odd {
    struct coll_call one;
    struct coll_call other; /* of the last rank */
};

#define CALL(what, at, n)                                                                          \
    {                                                                                              \
        .collective = (what), .root = (at), .count = (n)                                           \
    }

static const struct odd odds[] = {
    {CALL(PEAL_BROADCAST, 0, 100), CALL(PEAL_BROADCAST, 1, 100)},
    {CALL(PEAL_REDUCE, 0, 100), CALL(PEAL_BROADCAST, 0, 100)},
    {CALL(PEAL_GATHER, 1, 40), CALL(PEAL_GATHER, 0, 40)},
    {CALL(PEAL_ALLGATHER, 0, 40), CALL(PEAL_ALLTOALL, 0, 40)},
    {CALL(PEAL_REDUCE_SCATTER, 0, 40), CALL(PEAL_ALLREDUCE, 0, 80)},
    {CALL(PEAL_BARRIER, 0, 0), CALL(PEAL_ALLREDUCE, 0, 4)},
    {CALL(PEAL_SCATTER, 0, 40), CALL(PEAL_SCATTER, 0, 41)},
};

static int odd_body(struct rank_thread *self)
{
    const struct odd *odd = self->user;
    struct coll_call c = self->rank == self->ranks - 1 ? odd->other : odd->one;
    static const char in[2048];
    char out[2048];
    peal_diag diag = PEAL_DIAG_INIT;
    c.ranks = self->ranks;
    peal_status status = peal_barrier(self->comm, &diag);
    if (status == PEAL_OK)
        status = coll_make(self->comm, &c, in, out, &diag);
    (void)snprintf(self->problem, sizeof self->problem, "rank %u: %s: %s", self->rank,
                   peal_status_name(status), diag.text);
    if (status == PEAL_ERR_MISMATCH)
        return peal_barrier(self->comm, &diag) != PEAL_ERR_ABORTED;
    /* A rank whose part came to its end before the other called has nothing to complain of; its
     * next call has. */
    return status != PEAL_OK || peal_barrier(self->comm, &diag) != PEAL_ERR_MISMATCH;
}

START_TEST(another_collective_or_root_is_a_mismatch)
{
    struct odd odd = odds[_i / 2];
    unsigned ranks = 2 + (unsigned)_i % 2;
    peal_table *table = host_table(ctx, ranks, UINT32_MAX);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.timeout_ms = 20000;
    const char *problem = run_ranks(ctx, table, ranks, &params, odd_body, &odd);
    ck_assert_msg(!problem, "odd call %d: %s", _i / 2, problem);
    peal_table_destroy(table);
}
END_TEST

/* ---- arguments */

static int argument_body(struct rank_thread *self)
{
    float d[64] = {0};
    peal_comm *comm = self->comm;
    const peal_dtype f = PEAL_FLOAT32;
    float *own = d + 4 * self->rank;
    int root = self->rank == 0;
    int failed = peal_allgather(comm, d + 1, d, 4, f, NULL) != PEAL_ERR_ARG ||
                 peal_allgather(comm, d + 9, d + 10, 4, f, NULL) != PEAL_ERR_ARG ||
                 peal_reduce_scatter(comm, d, d + 7, 4, f, PEAL_SUM, NULL) != PEAL_ERR_ARG ||
                 peal_alltoall(comm, d, d, 4, f, NULL) != PEAL_ERR_ARG ||
                 peal_broadcast(comm, d, d, 4, f, 2, NULL) != PEAL_ERR_ARG ||
                 peal_broadcast(comm, d, NULL, 4, f, 0, NULL) != PEAL_ERR_ARG ||
                 peal_broadcast(comm, d, d, 4, f, 1, NULL) != PEAL_ERR_RANGE ||
                 peal_gather(comm, NULL, d, 4, f, 0, NULL) != PEAL_ERR_ARG ||
                 peal_sendrecv(comm, d, d, 4, f, 1, 1, NULL) != PEAL_ERR_RANGE ||
                 peal_sendrecv(comm, d, d, 4, f, 1, 0, NULL) != PEAL_ERR_RANGE ||
                 peal_allgather(comm, d, d + 32, SIZE_MAX / 6, f, NULL) != PEAL_ERR_RANGE ||
                 peal_allgather(comm, d, d + 32, 1 << 20, f, NULL) != PEAL_ERR_RANGE ||
                 peal_barrier(NULL, NULL) != PEAL_ERR_ARG;
    /* None of that was a call. What a rank's part has no use for is not looked at. */
    char *odd = (char *)d + 1;
    return failed || peal_allgather(comm, own, d, 4, f, NULL) != PEAL_OK ||
           peal_reduce_scatter(comm, d, own, 4, f, PEAL_SUM, NULL) != PEAL_OK ||
           peal_broadcast(comm, root ? (void *)d : odd, d, 4, f, 0, NULL) != PEAL_OK ||
           peal_reduce(comm, d, root ? (void *)d : odd, 4, f, PEAL_SUM, 0, NULL) != PEAL_OK ||
           peal_scatter(comm, root ? d : NULL, root ? own : d, 4, f, 0, NULL) != PEAL_OK ||
           peal_gather(comm, own, root ? d : own, 4, f, 0, NULL) != PEAL_OK ||
           peal_sendrecv(comm, root ? d : NULL, root ? NULL : d, 4, f, 0, 1, NULL) != PEAL_OK ||
           peal_alltoall(comm, NULL, NULL, 0, f, NULL) != PEAL_OK ||
           peal_barrier(comm, NULL) != PEAL_OK;
}

START_TEST(wrong_arguments_are_refused_and_do_no_harm)
{
    peal_table *table = host_table(ctx, 2, 1);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = run_ranks(ctx, table, 2, &params, argument_body, NULL);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* ---- joining */

static peal_table *one_table(peal_ctx *own, unsigned ranks, peal_collective collective,
                             unsigned root)
{
    peal_fabric *fabric = NULL;
    peal_request request = small_request(ranks);
    request.collective = collective;
    request.root = root;
    peal_table *table = NULL;
    if (peal_fabric_host(own, ranks, NULL, &fabric) != PEAL_OK)
        return NULL;
    if (peal_table_plan(own, fabric, &request, NULL, &table) == PEAL_OK &&
        peal_table_compile(table, fabric, NULL) != PEAL_OK) {
        peal_table_destroy(table);
        table = NULL;
    }
    peal_fabric_destroy(fabric);
    return table;
}

static void check_order(const peal_table *table)
{
    peal_table_info info = {.size = sizeof info};
    ck_assert_int_eq(peal_table_get(table, &info), PEAL_OK);
    peal_row_info before = {.size = sizeof before};
    for (uint32_t i = 0; i < info.rows; i++) {
        peal_row_info row = {.size = sizeof row};
        uint32_t found = UINT32_MAX;
        ck_assert_int_eq(peal_table_row(table, i, &row), PEAL_OK);
        for (int end = 0; end < 2; end++) {
            ck_assert_int_eq(peal_table_lookup(table, row.collective, row.root, row.peer,
                                               end ? row.max_bytes : row.min_bytes, &found),
                             PEAL_OK);
            ck_assert_uint_eq(found, i);
        }
        int same = i && before.collective == row.collective && before.root == row.root;
        if (same)
            ck_assert_uint_eq(row.min_bytes, before.max_bytes + 1);
        else if (i)
            ck_assert(before.collective < row.collective ||
                      (before.collective == row.collective && before.root < row.root));
        before = row;
    }
}

static peal_status into_buf(void *user, const char *data, size_t bytes)
{
    struct peal_buf *buf = user;
    peal_buf_put(buf, data, bytes);
    return buf->status;
}

START_TEST(a_joined_table_is_one_table)
{
    peal_table *table = host_table(ctx, 3, UINT32_MAX);
    peal_table_info info = {.size = sizeof info};
    ck_assert_int_eq(peal_table_get(table, &info), PEAL_OK);
    ck_assert_int_eq(info.collective, PEAL_ALLREDUCE);
    ck_assert_int_eq(info.verified, 1);
    ck_assert_int_eq(info.compiled, 1);
    check_order(table);
    struct peal_buf file, again, text;
    peal_buf_init(&file, ctx, SIZE_MAX);
    peal_buf_init(&again, ctx, SIZE_MAX);
    peal_buf_init(&text, ctx, SIZE_MAX);
    ck_assert_int_eq(peal_table_save(table, into_buf, &file, NULL), PEAL_OK);
    ck_assert_int_eq(peal_table_print(table, into_buf, &text, NULL), PEAL_OK);
    peal_table *loaded = NULL;
    peal_table *read = NULL;
    ck_assert_int_eq(peal_table_load(ctx, file.data, file.used, "f", NULL, &loaded), PEAL_OK);
    ck_assert_int_eq(peal_table_assemble(ctx, text.data, text.used, "t", NULL, &read), PEAL_OK);
    check_order(loaded);
    ck_assert_int_eq(peal_table_verify(loaded, NULL, NULL, NULL, NULL), PEAL_OK);
    ck_assert_int_eq(peal_table_save(read, into_buf, &again, NULL), PEAL_OK);
    ck_assert_uint_eq(file.used, again.used);
    ck_assert_mem_eq(file.data, again.data, file.used);
    peal_buf_free(&file);
    peal_buf_free(&again);
    peal_buf_free(&text);
    peal_table_destroy(loaded);
    peal_table_destroy(read);
    peal_table_destroy(table);
}
END_TEST

START_TEST(the_emptied_table_is_of_no_use)
{
    peal_table *table = one_table(ctx, 2, PEAL_ALLGATHER, 0);
    peal_table *from = one_table(ctx, 2, PEAL_ALLREDUCE, 0);
    peal_table_info info = {.size = sizeof info};
    struct peal_buf buf;
    uint32_t row;
    peal_buf_init(&buf, ctx, SIZE_MAX);
    ck_assert_int_eq(peal_table_join(table, from, NULL), PEAL_OK);
    ck_assert_int_eq(peal_table_get(from, &info), PEAL_OK);
    ck_assert_uint_eq(info.rows, 0);
    ck_assert_int_eq(info.compiled, 0);
    ck_assert_int_eq(peal_table_lookup(from, PEAL_ALLREDUCE, 0, 0, 8, &row), PEAL_ERR_RANGE);
    ck_assert_int_eq(peal_table_save(from, into_buf, &buf, NULL), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_table_join(table, from, NULL), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_table_get(table, &info), PEAL_OK);
    ck_assert_int_eq(info.collective, PEAL_ALLREDUCE);
    peal_table_destroy(from);
    peal_table_destroy(table);
}
END_TEST

START_TEST(what_does_not_fit_is_not_joined)
{
    peal_table *table = one_table(ctx, 2, PEAL_BROADCAST, 0);
    peal_table *same = one_table(ctx, 2, PEAL_BROADCAST, 0);
    peal_table *three = one_table(ctx, 3, PEAL_REDUCE, 0);
    peal_table *planned = NULL;
    peal_fabric *fabric;
    peal_request request = small_request(2);
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_fabric_host(ctx, 2, NULL, &fabric), PEAL_OK);
    ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, NULL, &planned), PEAL_OK);
    ck_assert_int_eq(peal_table_join(NULL, table, &diag), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_table_join(table, NULL, &diag), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_table_join(table, table, &diag), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_table_join(table, planned, &diag), PEAL_ERR_ARG);
    ck_assert_str_eq(diag.text, "both tables have to be compiled and hold rows");
    ck_assert_int_eq(peal_table_join(table, three, &diag), PEAL_ERR_ARG);
    ck_assert_str_eq(diag.text, "a table of 2 ranks and one of 3");
    ck_assert_int_eq(peal_table_join(table, same, &diag), PEAL_ERR_ARG);
    ck_assert_str_eq(diag.text, "both tables have rows of one collective, root and peer");
    check_order(table);
    check_order(same);
    peal_table_destroy(table);
    peal_table_destroy(same);
    peal_table_destroy(three);
    peal_table_destroy(planned);
    peal_fabric_destroy(fabric);
}
END_TEST

/* Either all of it, or nothing: then both tables are as they were. */
static peal_status join_body(peal_ctx *own, void *user)
{
    (void)user;
    peal_table *table = one_table(own, 2, PEAL_BROADCAST, 1);
    peal_table *from = one_table(own, 2, PEAL_BARRIER, 0);
    peal_status status = PEAL_ERR_MEMORY;
    if (table && from) {
        peal_table_info a = {.size = sizeof a};
        peal_table_info b = {.size = sizeof b};
        status = peal_table_join(table, from, NULL);
        if (peal_table_get(table, &a) != PEAL_OK || peal_table_get(from, &b) != PEAL_OK ||
            (status == PEAL_OK) != (b.rows == 0) || a.collective != PEAL_BROADCAST)
            status = PEAL_ERR_INTERNAL;
    }
    peal_table_destroy(table);
    peal_table_destroy(from);
    return status;
}

START_TEST(joining_survives_every_failed_allocation)
{
    ck_assert_int_eq(test_oom_sweep(join_body, NULL, 0, NULL), 0);
}
END_TEST

/* ---- one rank */

static int alone_body(struct rank_thread *self)
{
    char memory[2 * 4096];
    int failed = 0;
    for (int c = 0; c < PEAL_CUSTOM && !failed; c++) {
        struct coll_call call = {.collective = (peal_collective)c,
                                 .ranks = 1,
                                 .dtype = PEAL_INT32,
                                 .op = PEAL_AVG,
                                 .count = 333,
                                 .salt = (unsigned)c};
        for (; c != PEAL_SENDRECV && call.in_place <= coll_in_place(call.collective) && !failed;
             call.in_place++)
            failed = coll_checked(self->comm, &call, 0, memory, 4096, self->problem);
    }
    return failed;
}

START_TEST(one_rank_copies_whatever_it_calls)
{
    peal_table *table = host_table(ctx, 1, 1);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = run_ranks(ctx, table, 1, &params, alone_body, NULL);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_mixed");
    TCase *tests = tcase_create("mixed");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, collectives_compose_in_any_order, 0,
                        (int)(sizeof mixes / sizeof *mixes));
    tcase_add_loop_test(tests, another_collective_or_root_is_a_mismatch, 0,
                        2 * (int)(sizeof odds / sizeof *odds));
    tcase_add_test(tests, wrong_arguments_are_refused_and_do_no_harm);
    tcase_add_test(tests, a_joined_table_is_one_table);
    tcase_add_test(tests, the_emptied_table_is_of_no_use);
    tcase_add_test(tests, what_does_not_fit_is_not_joined);
    tcase_add_test(tests, joining_survives_every_failed_allocation);
    tcase_add_test(tests, one_rank_copies_whatever_it_calls);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
