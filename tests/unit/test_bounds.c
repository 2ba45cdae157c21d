/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: plain */
/* Bounds. The exact one of allgather, searched on the graph that the routes of a fabric make,
 * against the optimal throughputs of DGX A100 boxes (300 GB/s to the switch, 25 GB/s of network a
 * GPU). What no plan may be faster than on any machine: test_regret. */
#include "machines.h"
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

static double bound_algbw(peal_ctx *ctx, unsigned boxes, peal_collective collective, char cut[160])
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_fabric *fabric = test_boxes_of_a100(ctx, boxes);
    request.collective = collective;
    request.min_bytes = request.max_bytes = 1ull << 40; /* far from any start-up */
    peal_row_info row = test_planned_row(ctx, fabric, &request);
    ck_assert(row.time_us >= row.bound_us * (1 - 1e-9));
    memcpy(cut, row.bound_cut, sizeof row.bound_cut);
    peal_fabric_destroy(fabric);
    return (double)request.max_bytes / (row.bound_us * 1e3);
}

START_TEST(boxes_of_a100)
{
    static const struct {
        unsigned boxes;
        double algbw;
    } rows[] = {{1, 342.857}, {2, 346.667}, {4, 266.667}, {8, 228.571}};
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char cut[160];
        double gather = bound_algbw(ctx, rows[i].boxes, PEAL_ALLGATHER, cut);
        printf("%d x DGX A100: allgather at most %.2f GB/s (%s)\n", rows[i].boxes, gather, cut);
        ck_assert_double_le(fabs(gather / rows[i].algbw - 1), 1e-4);
        ck_assert_int_ne(cut[0], 0);
        double scatter = bound_algbw(ctx, rows[i].boxes, PEAL_REDUCE_SCATTER, cut);
        ck_assert_double_le(fabs(scatter / gather - 1), 1e-9);
    }
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

/* A chain passes a large message on at the rate of its links, either way. */
START_TEST(chains_reach_the_bound)
{
    static const char *const hosts[] = {"dgx-a100.xml", "dgx-h100.xml", "hgx-b200.xml"};
    static const peal_collective collectives[] = {PEAL_BROADCAST, PEAL_REDUCE};
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    for (size_t i = 0; i < 6; i++) {
        peal_request request = PEAL_REQUEST_INIT;
        peal_fabric *fabric = test_example(ctx, hosts[i / 2]);
        request.collective = collectives[i % 2];
        request.algorithm = "chain";
        request.min_bytes = request.max_bytes = 1 << 30;
        peal_row_info row = test_planned_row(ctx, fabric, &request);
        printf("%s, %s: %.3f of the bound\n", hosts[i / 2],
               peal_collective_name(request.collective), row.bound_us / row.time_us);
        ck_assert_double_ge(row.bound_us, 0.97 * row.time_us);
        peal_fabric_destroy(fabric);
    }
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bounds");
    TCase *tcase = tcase_create("bounds");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, boxes_of_a100);
    tcase_add_test(tcase, chains_reach_the_bound);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
