/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/*
 * Ranks that hold their own slices run as ranks do that hold the whole plan: every collective, by
 * each algorithm there is, with buffers that others see and with private ones. Slices of another
 * plan, of another rank, and whole plans do not meet them.
 */
#include "test_run_moves.h"
#include "test_suite.h"

#include "plan.h"
#include "support.h"

#include <check.h>

#define RANKS 4u
#define ROOM 65536u

static struct test_heap heap;
static peal_ctx *ctx;
static peal_fabric *fabric;

static void set_up(void)
{
    ctx = test_ctx(&heap);
    fabric = coll_cluster(ctx, 2, RANKS / 2);
}

static void tear_down(void)
{
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

/* NULL: not served. */
static peal_table *planned(peal_collective collective, const char *algorithm, uint64_t tile)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table = NULL;
    request.collective = collective;
    request.algorithm = algorithm;
    request.max_bytes = 16384;
    request.tile_bytes = tile;
    request.root = coll_rooted(collective) ? 1 : 0;
    request.peer = collective == PEAL_SENDRECV ? 2 : 0;
    if (strcmp(algorithm, "compressed") == 0)
        request.wire = PEAL_WIRE_BF16;
    return peal_table_plan(ctx, fabric, &request, NULL, &table) == PEAL_OK ? table : NULL;
}

static void slice(const peal_table *table, peal_table *slices[RANKS])
{
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_msg(peal_table_slice(table, fabric, r, PEAL_EVERY_ROW, &diag, &slices[r]) ==
                          PEAL_OK,
                      "%s", diag.text);
}

static void forget(peal_table *slices[RANKS])
{
    for (uint32_t r = 0; r < RANKS; r++)
        peal_table_destroy(slices[r]);
}

/* ---- running */

static int body(struct rank_thread *self)
{
    static const size_t counts[] = {1, 5, 63, 257, 0, 900};
    struct coll_call call = *(const struct coll_call *)self->user;
    char *memory = calloc(2, ROOM);
    int failed = !memory;
    for (unsigned i = 0; i < 12 && !failed; i++) {
        call.count = counts[i % 6];
        call.salt = i;
        call.in_place = i > 5 && coll_in_place(call.collective);
        failed = coll_checked(self->comm, &call, self->rank, memory, ROOM, self->problem);
    }
    free(memory);
    return failed;
}

/* Ranks as threads, each with a table of its own; NULL, or what one of them said. */
static const char *run_slices(peal_table *tables[RANKS], int private_buffers, rank_fn what,
                              void *user)
{
    static struct rank_thread threads[RANKS];
    pthread_t handles[RANKS];
    peal_world *world;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = NULL;
    params.ranks = RANKS;
    params.private_buffers = private_buffers;
    params.timeout_ms = 5000;
    ck_assert_msg(peal_world_create(ctx, &params, tables[0], &diag, &world) == PEAL_OK, "%s",
                  diag.text);
    for (unsigned r = 0; r < RANKS; r++) {
        threads[r] = (struct rank_thread){.world = world,
                                          .table = tables[r],
                                          .rank = r,
                                          .ranks = RANKS,
                                          .user = user,
                                          .body = what};
        ck_assert_int_eq(pthread_create(&handles[r], NULL, rank_main, &threads[r]), 0);
    }
    for (unsigned r = 0; r < RANKS; r++)
        (void)pthread_join(handles[r], NULL);
    for (unsigned r = 0; r < RANKS && !problem; r++)
        problem = threads[r].failed ? threads[r].problem : NULL;
    peal_world_destroy(world);
    return problem;
}

static uint32_t run_all(peal_collective collective, const char *algorithm, uint64_t tile)
{
    peal_table *slices[RANKS], *table = planned(collective, algorithm, tile);
    struct coll_call call = {.collective = collective,
                             .ranks = RANKS,
                             .root = coll_rooted(collective) ? 1 : 0,
                             .peer = collective == PEAL_SENDRECV ? 2 : 0,
                             .dtype = PEAL_INT32,
                             .op = PEAL_SUM};
    if (!table)
        return 0;
    slice(table, slices);
    for (int private_buffers = 0; private_buffers < 2; private_buffers++) {
        const char *problem = run_slices(slices, private_buffers, body, &call);
        ck_assert_msg(!problem, "%s, tile %u, private %d: %s", algorithm, (unsigned)tile,
                      private_buffers, problem);
    }
    forget(slices);
    peal_table_destroy(table);
    return 1;
}

START_TEST(slices_run)
{
    uint32_t runs = 0;
    for (uint32_t a = 0; peal_algorithm_name(a); a++)
        for (int c = 0; c < PEAL_CUSTOM; c++) {
            if (strcmp(peal_algorithm_name(a), "compressed") == 0)
                continue; /* rounds */
            runs += run_all((peal_collective)c, peal_algorithm_name(a), 0);
            runs += run_all((peal_collective)c, peal_algorithm_name(a), 512);
        }
    printf("%u tables of slices\n", runs);
    ck_assert_uint_ge(runs, 40);
}
END_TEST

/* ---- what does not meet */

static int nothing(struct rank_thread *self)
{
    (void)self;
    return 0;
}

START_TEST(other_plans_do_not_meet)
{
    peal_table *slices[RANKS], *others[RANKS];
    peal_table *table = planned(PEAL_ALLREDUCE, "ring", 0),
               *other = planned(PEAL_ALLREDUCE, "ring", 512);
    slice(table, slices);
    slice(other, others);
    const char *problem = run_slices(slices, 0, nothing, NULL);
    ck_assert_msg(!problem, "%s", problem);
    peal_table *mixed[RANKS] = {others[0], slices[1], others[2], others[3]};
    problem = run_slices(mixed, 0, nothing, NULL);
    ck_assert_ptr_nonnull(problem);
    ck_assert_ptr_nonnull(strstr(problem, "another table"));
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_table_compile(table, fabric, &diag), PEAL_OK);
    peal_table *whole[RANKS] = {table, slices[1], slices[2], slices[3]};
    problem = run_slices(whole, 0, nothing, NULL);
    ck_assert_ptr_nonnull(problem);
    ck_assert_ptr_nonnull(strstr(problem, "another table"));
    forget(slices);
    forget(others);
    peal_table_destroy(table);
    peal_table_destroy(other);
}
END_TEST

START_TEST(a_slice_is_of_its_rank)
{
    peal_table *slices[RANKS], *table = planned(PEAL_ALLREDUCE, "ring", 0);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_world *world;
    peal_comm *comm;
    peal_diag diag = PEAL_DIAG_INIT;
    slice(table, slices);
    params.ranks = RANKS;
    ck_assert_int_eq(peal_world_create(ctx, &params, slices[3], &diag, &world), PEAL_OK);
    ck_assert_int_eq(peal_comm_create(world, slices[2], 1, &diag, &comm), PEAL_ERR_ARG);
    ck_assert_str_eq(diag.text, "rank 1 with the slices of rank 2");
    /* A step beyond what its engine can do. */
    struct plan_rank *program = peal_plan_program(slices[1]->rows[0].plan, 1);
    for (uint32_t i = 0; i < program->nsteps; i++)
        if (program->steps[i].op == PLAN_REDUCE)
            program->steps[i].engine = PEAL_ENGINE_RDMA;
    ck_assert_int_eq(peal_comm_create(world, slices[1], 1, &diag, &comm), PEAL_ERR_UNPROVEN);
    ck_assert_ptr_nonnull(strstr(diag.text, "capability: engine rdma cannot reduce"));
    peal_world_destroy(world);
    forget(slices);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_slices");
    TCase *tests = tcase_create("slices");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 280);
    tcase_add_test(tests, slices_run);
    tcase_add_test(tests, other_plans_do_not_meet);
    tcase_add_test(tests, a_slice_is_of_its_rank);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
