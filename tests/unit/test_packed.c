/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed trees in the simulator: large messages come near the exact optimum of the network, and
 * what the planner predicts is what the plan then takes.
 */
#include "support.h"
#include "test_fixture.h"
#include "test_suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>

#define TOLD 0.15 /* predictions differ by no more */

/* What a plan of packed trees takes when it is simulated; *row: what was predicted. */
static double simulated_us(const char *topology, peal_collective collective, uint64_t bytes,
                           peal_row_info *row)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_sim_info info = {.size = sizeof info};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric;
    peal_table *table;
    peal_sim *sim;
    char path[256];
    (void)snprintf(path, sizeof path, "examples/topologies/%s.xml", topology);
    ck_assert_int_eq(peal_fabric_load(ctx, test_source_path(path), &diag, &fabric), PEAL_OK);
    request.collective = collective;
    request.algorithm = "packed";
    request.min_bytes = request.max_bytes = bytes;
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    ck_assert_int_eq(peal_table_row(table, 0, row), PEAL_OK);
    ck_assert_msg(peal_simulate(ctx, fabric, table, 0, NULL, &diag, &sim) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_int_eq(peal_sim_get(sim, &info), PEAL_OK);
    printf("%-15s %-14s %9llu bytes: predicted %8.2f us, simulated %8.2f, bound %8.2f  %s\n",
           topology, peal_collective_name(collective), (unsigned long long)bytes, row->time_us,
           info.time_us, row->bound_us, row->detail);
    peal_sim_destroy(sim);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    return info.time_us;
}

/* On a machine whose ranks have links of their own, 64 MiB leave few of them idle. */
START_TEST(near_the_optimum)
{
    static const struct {
        const char *topology;
        peal_collective collective;
        double within; /* of the bound */
    } rows[] = {{"dgx1-v100", PEAL_ALLGATHER, 1.06}, {"dgx1-v100", PEAL_REDUCE_SCATTER, 1.08},
                {"dgx1-v100", PEAL_ALLREDUCE, 1.12}, {"dgx1-v100", PEAL_BROADCAST, 1.12},
                {"dgx1-v100", PEAL_REDUCE, 1.14},    {"slingshot-4gpu", PEAL_ALLREDUCE, 1.05}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        peal_row_info row = {.size = sizeof row};
        double us = simulated_us(rows[i].topology, rows[i].collective, 64u << 20, &row);
        ck_assert_double_ge(us, row.bound_us);
        ck_assert_double_le(us, rows[i].within * row.bound_us);
    }
}
END_TEST

static const char *const topologies[] = {"dgx1-v100", "slingshot-4gpu", "dgx-h100", "pcie-8gpu"};

START_TEST(as_predicted)
{
    static const peal_collective collectives[] = {PEAL_ALLGATHER, PEAL_REDUCE_SCATTER,
                                                  PEAL_ALLREDUCE, PEAL_BROADCAST, PEAL_REDUCE};
    static const uint64_t sizes[] = {1u << 10, 4u << 20};
    for (size_t i = 0; i < sizeof collectives / sizeof collectives[0]; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            peal_row_info row = {.size = sizeof row};
            double us = simulated_us(topologies[_i], collectives[i], sizes[k], &row);
            ck_assert_double_le(fabs(row.time_us / us - 1), TOLD);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("packed");
    TCase *tests = tcase_create("packed");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, near_the_optimum);
    tcase_add_loop_test(tests, as_predicted, 0, sizeof topologies / sizeof topologies[0]);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_NOFORK);
}
