/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of reduction: what the proof tells, and tables of one order at every size. */
#include "support.h"
#include "test_suite.h"

#include <check.h>

static struct test_heap heap;
static peal_ctx *ctx;
static peal_diag diag;

static void set_up(void)
{
    ctx = test_ctx(&heap);
    diag = (peal_diag)PEAL_DIAG_INIT;
}

static void tear_down(void)
{
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

static peal_fabric *fabric_of(const char *name)
{
    char path[512];
    peal_fabric *fabric;
    (void)snprintf(path, sizeof path, "examples/topologies/%s.xml", name);
    ck_assert_msg(peal_fabric_load(ctx, test_source_path(path), &diag, &fabric) == PEAL_OK, "%s",
                  diag.text);
    return fabric;
}

static peal_status plan(peal_fabric *fabric, uint32_t ranks, peal_collective collective,
                        const char *algorithm, int deterministic, peal_table **table_out)
{
    peal_request request = PEAL_REQUEST_INIT;
    request.ranks = ranks;
    request.collective = collective;
    request.algorithm = algorithm;
    request.deterministic = deterministic;
    return peal_table_plan(ctx, fabric, &request, &diag, table_out);
}

static peal_row_info row_of(const peal_table *table, uint32_t index)
{
    peal_row_info row = {.size = sizeof row};
    ck_assert_int_eq(peal_table_row(table, index, &row), PEAL_OK);
    return row;
}

static uint64_t order_of(peal_fabric *fabric, uint32_t ranks, const char *algorithm)
{
    peal_table *table;
    ck_assert_msg(plan(fabric, ranks, PEAL_ALLREDUCE, algorithm, 0, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_uint_eq(row_of(table, 0).order, 0); /* not before it is proven */
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    uint64_t order = row_of(table, 0).order;
    peal_table_destroy(table);
    return order;
}

START_TEST(the_proof_tells_orders_apart)
{
    peal_fabric *fabric = fabric_of("dgx-h100");
    for (uint32_t n = 3; n <= 8; n++) {
        uint64_t fold = order_of(fabric, n, "oneshot");
        ck_assert_uint_ne(fold, 0);
        ck_assert_uint_eq(fold, order_of(fabric, n, "twoshot"));
        ck_assert_uint_ne(order_of(fabric, n, "doubling"), 0);
        ck_assert_uint_ne(fold, order_of(fabric, n, "doubling"));
        ck_assert_uint_eq(order_of(fabric, n, "ring"), 0); /* each chunk from another rank on */
        ck_assert_uint_ne(fold, order_of(fabric, n - 1, "oneshot"));
    }
    ck_assert_uint_eq(order_of(fabric, 2, "oneshot"), order_of(fabric, 2, "ring"));
    peal_fabric_destroy(fabric);
}
END_TEST

/* Every row of a deterministic table has the order of the first, on one host and on several. */
static void one_order(const char *name, uint32_t ranks, peal_collective collective)
{
    peal_fabric *fabric = fabric_of(name);
    peal_table *table;
    peal_table_info info = {.size = sizeof info};
    ck_assert_msg(plan(fabric, ranks, collective, NULL, 1, &table) == PEAL_OK, "%s", diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    ck_assert_int_eq(peal_table_get(table, &info), PEAL_OK);
    ck_assert_uint_eq(row_of(table, info.rows - 1).max_bytes, 8ull << 30);
    uint64_t first = row_of(table, 0).order;
    ck_assert_uint_ne(first, 0);
    for (uint32_t i = 1; i < info.rows; i++)
        ck_assert_uint_eq(row_of(table, i).order, first);
    printf("%s, %u ranks, %s: one order in %u rows\n", name, ranks,
           peal_collective_name(collective), info.rows);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}

START_TEST(tables_of_one_order)
{
    for (uint32_t n = 2; n <= 8; n++) {
        one_order("dgx-h100", n, PEAL_ALLREDUCE);
        one_order("dgx-h100", n, PEAL_REDUCE_SCATTER);
        one_order("dgx-h100", n, PEAL_REDUCE);
    }
    one_order("cluster-h100-2", 16, PEAL_ALLREDUCE);
    one_order("cluster-h100-2", 11, PEAL_ALLREDUCE);
    one_order("cluster-h100-16", 32, PEAL_ALLREDUCE);
    one_order("cluster-h100-16", 32, PEAL_REDUCE_SCATTER);
}
END_TEST

START_TEST(what_has_no_one_order_is_refused)
{
    peal_fabric *fabric = fabric_of("dgx-h100");
    peal_table *table = NULL;
    ck_assert_int_eq(plan(fabric, 8, PEAL_ALLREDUCE, "ring", 1, &table), PEAL_ERR_UNSUPPORTED);
    ck_assert_ptr_null(table);
    /* What reduces nothing has nothing to order. */
    ck_assert_int_eq(plan(fabric, 8, PEAL_ALLGATHER, "ring", 1, &table), PEAL_OK);
    ck_assert_int_eq(peal_table_compile(table, fabric, &diag), PEAL_OK);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("order");
    TCase *tests = tcase_create("order");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, the_proof_tells_orders_apart);
    tcase_add_test(tests, tables_of_one_order);
    tcase_add_test(tests, what_has_no_one_order_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
