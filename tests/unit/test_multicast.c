/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a switch does for a group: the form of multicast and load_reduce, what is proven of them,
 * which machines have them as candidates, and what they cost. test_faults plants faults in them,
 * test_matrix proves them at all sizes.
 */
#include "test_fault_plans.h"
#include "test_fixture.h"
#include "test_suite.h"

#include <math.h>

#define SAID 640

/* ---- written by hand ------------------------------------------------------------------------- */

static const char *const links[] = {
    "  link r0 -> r1 nvlink direct multicast\n  link r1 -> r0 nvlink direct multicast\n",
    "  link r0 -> r1 nvlink direct multicast\n  link r1 -> r0 nvlink direct\n"};

/* An allreduce by two ranks, each of which makes the sum of one chunk. */
static void write_plan(char *text, size_t size, const char *links_text, const char *steps,
                       const char *steps_1)
{
    (void)snprintf(text, size,
                   "peal-table 1\nplan allreduce ranks 2 bytes 8..1024\n  algorithm hand\n"
                   "  chunks 2\n  semaphores 2\n  region packet width 2 depth 1 slot 1024\n%s"
                   "  rank 0 host 0 arch 90\n    lane\n      pre\n        signal r1.0 sm\n"
                   "        wait r1.0\n      body\n        %s\n      post\n        signal r1.1 sm\n"
                   "        wait r1.1\n  rank 1 host 0 arch 90\n    lane\n      pre\n"
                   "        signal r0.0 sm\n        wait r0.0\n      body\n        %s\n"
                   "      post\n        signal r0.1 sm\n        wait r0.1\n",
                   links_text, steps, steps_1);
}

static void note_first(void *user, const peal_finding *finding)
{
    char *text = user;
    if (!text[0])
        (void)snprintf(text, SAID, "%s: %s", finding->kind, finding->text);
}

static peal_status judge(const char *text, char *said)
{
    peal_table *table = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    said[0] = '\0';
    peal_status status = peal_table_assemble(ctx, text, strlen(text), "hand", &diag, &table);
    if (status == PEAL_OK)
        status = peal_table_verify(table, note_first, said, NULL, &diag);
    else
        (void)snprintf(said, SAID, "%s", diag.text);
    peal_table_destroy(table);
    return status;
}

#define RIGHT "load_reduce c0: in[0] r1.in[0]@2 -> out[0] r1.out[0]@1 sm final"
#define RIGHT_1 "load_reduce c1: r0.in[1]@1 in[1] -> r0.out[1]@2 out[1] sm final"

START_TEST(by_hand)
{
    static const struct {
        const char *steps, *steps_1;
        unsigned links;
        const char *says; /* NULL: it is right */
    } cases[] = {
        {RIGHT, RIGHT_1, 0, NULL},
        /* In two steps; with its own sum, by itself, for a result that others do not get. */
        {RIGHT,
         "load_reduce c1: r0.in[1]@1 in[1] -> out[1] sm final\n"
         "        multicast c1: out[1] -> r0.out[1]@2 out[1] sm",
         0, NULL},
        {"multicast c0: in[0] -> in[0] r1.in[0]@1 sm", RIGHT_1, 0, "caller's input"},
        {"multicast c0: in[0] -> out[0] sm", RIGHT_1, 0, "at least two ranks"},
        {"multicast c0: in[0] -> r1.out[0]@1 out[0] sm", RIGHT_1, 0, "the ranks of a group rise"},
        {"multicast c0: in[0] -> out[0] r1.p0[0]@1 sm", RIGHT_1, 0, "packets are not moved"},
        {"multicast c0: in[0] -> out[0] r1.out[1]@1 sm", RIGHT_1, 0, "one place on all its ranks"},
        {"multicast c0: r1.in[0]@2 -> out[0] r1.out[0]@1 sm", RIGHT_1, 0, "one source, of its own"},
        {"multicast c0: in[0] -> out[0] r1.out[0]@1 sm final", RIGHT_1, 0, "only a reduction"},
        {"load_reduce c0: in[0] -> out[0] sm final", RIGHT_1, 0, "at least two ranks"},
        {"load_reduce c0: in[0] r1.in[0]@2 -> r1.out[0]@1 sm final", RIGHT_1, 0,
         "at least two ranks"},
        {"load_reduce c0: in[0] r1.in[0]@2 -> out[0] r1.out[0]@1 ce e0 final", RIGHT_1, 0,
         "capability: engine ce cannot reduce"},
        {RIGHT, RIGHT_1, 1, "capability: link 2 is not over a switch that multicasts"},
        /* Each rank makes the sum for itself: nobody says that they are equal. */
        {"load_reduce c0: in[0] r1.in[0]@2 -> out[0] sm final\n        " RIGHT,
         "load_reduce c0: r0.in[0]@1 in[0] -> out[0] sm final\n        " RIGHT_1, 0, "race"},
        {"load_reduce c0: in[0] r1.in[0]@2 -> out[0] sm final",
         "load_reduce c0: r0.in[0]@1 in[0] -> out[0] sm final\n        " RIGHT_1, 0,
         "numbers: out[0] tile 0 is added up in another order"},
        {"load_reduce c0: in[0] r1.in[0]@2 -> out[0] r1.out[0]@1 sm", RIGHT_1, 0,
         "result: out[0] tile 0 holds a value that was never made final"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[4096], said[SAID];
        write_plan(text, sizeof text, links[cases[i].links], cases[i].steps, cases[i].steps_1);
        peal_status status = judge(text, said);
        if (!cases[i].says)
            ck_assert_msg(status == PEAL_OK, "case %zu: %s", i, said);
        else
            ck_assert_msg(status != PEAL_OK && strstr(said, cases[i].says), "case %zu says: %s", i,
                          said);
    }
}
END_TEST

/* ---- planned --------------------------------------------------------------------------------- */

static const peal_collective served[] = {PEAL_ALLREDUCE, PEAL_REDUCE_SCATTER, PEAL_ALLGATHER,
                                         PEAL_BROADCAST, PEAL_REDUCE};
#define SERVED (sizeof served / sizeof served[0])

static peal_request request_of(peal_collective collective, uint32_t ranks)
{
    peal_request request = PEAL_REQUEST_INIT;
    request.collective = collective;
    request.ranks = ranks;
    request.algorithm = "nvls";
    request.min_bytes = 8;
    request.max_bytes = 1 << 28;
    if (collective == PEAL_BROADCAST || collective == PEAL_REDUCE)
        request.root = ranks - 1;
    return request;
}

/* Every plan is proven, has no order where it reduces, and is the same when written and read. */
START_TEST(all_are_proven)
{
    peal_fabric *fabric = machine_of(ctx, SWITCHED, 8);
    for (size_t c = 0; c < SERVED; c++)
        for (uint32_t n = 2; n <= 8; n++) {
            peal_request request = request_of(served[c], n);
            peal_diag diag = PEAL_DIAG_INIT;
            peal_table *table, *again;
            struct text text = {0};
            char id[33], id_again[33];
            peal_row_info row = {.size = sizeof row};
            ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, &diag, &table), PEAL_OK);
            ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
            ck_assert_int_eq(peal_table_print(table, append, &text, &diag), PEAL_OK);
            ck_assert_ptr_nonnull(strstr(text.data, "direct multicast"));
            ck_assert_int_eq(
                peal_table_assemble(ctx, text.data, strlen(text.data), "again", &diag, &again),
                PEAL_OK);
            ck_assert_int_eq(peal_table_id(table, 0, id), PEAL_OK);
            ck_assert_int_eq(peal_table_id(again, 0, id_again), PEAL_OK);
            ck_assert_str_eq(id, id_again);
            ck_assert_int_eq(peal_table_row(table, 0, &row), PEAL_OK);
            ck_assert_uint_eq(row.order, 0);
            free(text.data);
            peal_table_destroy(again);
            peal_table_destroy(table);
        }
    peal_fabric_destroy(fabric);
}
END_TEST

static peal_status planned(const peal_fabric *fabric, const peal_request *request)
{
    peal_table *table = NULL;
    peal_status status = peal_table_plan(ctx, fabric, request, NULL, &table);
    peal_table_destroy(table);
    return status;
}

/* A candidate only where a switch does it, and where what it does to numbers is allowed. */
START_TEST(where_it_is_a_candidate)
{
    peal_fabric *fabric = machine_of(ctx, SWITCHED, 8), *mesh = machine_of(ctx, MESH, 8), *plain;
    ck_assert_int_eq(
        peal_fabric_load(ctx, test_source_path("examples/topologies/dgx-h100.xml"), NULL, &plain),
        PEAL_OK);
    for (size_t c = 0; c < SERVED; c++) {
        peal_request request = request_of(served[c], 8);
        int folds = served[c] != PEAL_ALLGATHER && served[c] != PEAL_BROADCAST;
        ck_assert_int_eq(planned(fabric, &request), PEAL_OK);
        ck_assert_int_eq(planned(plain, &request), PEAL_ERR_UNSUPPORTED);
        ck_assert_int_eq(planned(mesh, &request), PEAL_ERR_UNSUPPORTED);
        request.repeatable = 1;
        ck_assert_int_eq(planned(fabric, &request), folds ? PEAL_ERR_UNSUPPORTED : PEAL_OK);
        request.repeatable = 0;
        request.deterministic = 1;
        ck_assert_int_eq(planned(fabric, &request), folds ? PEAL_ERR_UNSUPPORTED : PEAL_OK);
    }
    peal_fabric_destroy(plain);
    peal_fabric_destroy(mesh);
    peal_fabric_destroy(fabric);
}
END_TEST

/* ---- costs ----------------------------------------------------------------------------------- */

/* As the simulator has it, and never below the bound. */
START_TEST(costs_are_simulated)
{
    peal_fabric *fabric = machine_of(ctx, SWITCHED, 8);
    for (size_t c = 0; c < SERVED; c++)
        for (uint64_t bytes = 8192; bytes <= 1 << 28; bytes *= 32) {
            peal_request request = request_of(served[c], 8);
            peal_sim_params params = {.size = sizeof params, .bytes = bytes};
            peal_sim_info info = {.size = sizeof info};
            peal_row_info row = {.size = sizeof row};
            peal_diag diag = PEAL_DIAG_INIT;
            peal_table *table;
            peal_sim *sim;
            request.min_bytes = request.max_bytes = bytes;
            ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, &diag, &table), PEAL_OK);
            ck_assert_int_eq(peal_table_compile(table, fabric, &diag), PEAL_OK);
            ck_assert_int_eq(peal_table_row(table, 0, &row), PEAL_OK);
            ck_assert_msg(peal_simulate(ctx, fabric, table, 0, &params, &diag, &sim) == PEAL_OK,
                          "%s", diag.text);
            ck_assert_int_eq(peal_sim_get(sim, &info), PEAL_OK);
            ck_assert_msg(fabs(info.time_us / row.time_us - 1) < 0.03, "%s of %llu: %g, not %g us",
                          peal_collective_name(served[c]), (unsigned long long)bytes, row.time_us,
                          info.time_us);
            ck_assert_double_le(row.bound_us, row.time_us * (1 + 1e-9));
            peal_sim_destroy(sim);
            peal_table_destroy(table);
        }
    peal_fabric_destroy(fabric);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("multicast");
    TCase *tests = tcase_create("multicast");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, by_hand);
    tcase_add_test(tests, all_are_proven);
    tcase_add_test(tests, where_it_is_a_candidate);
    tcase_add_test(tests, costs_are_simulated);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_NOFORK);
}
