/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: plain */
/* Latency, bandwidth, SMs: plans without an SM, within a budget of them, and at a price. */
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <string.h>

static struct test_heap heap;
static peal_ctx *ctx;
static peal_diag diag;
static peal_fabric *fabric;

static void set_up(void)
{
    ctx = test_ctx(&heap);
    diag = (peal_diag)PEAL_DIAG_INIT;
    fabric = NULL;
}

static void tear_down(void)
{
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

static void load(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, "examples/topologies/%s.xml", name);
    ck_assert_msg(peal_fabric_load(ctx, test_source_path(path), &diag, &fabric) == PEAL_OK, "%s",
                  diag.text);
}

static int holds(const peal_table *table, uint32_t row, uint32_t rank, const char *word)
{
    uint32_t lanes;
    ck_assert_int_eq(peal_table_lanes(table, row, rank, &lanes), PEAL_OK);
    for (uint32_t l = 0; l < lanes; l++)
        for (uint32_t s = 0;; s++) {
            peal_step_info step = {.size = sizeof step};
            if (peal_table_step(table, row, rank, l, s, &step) != PEAL_OK)
                break;
            if (strstr(step.text, word))
                return 1;
        }
    return 0;
}

/* Compiled and so proven; the most SMs of any row. */
static uint32_t most_sms(const peal_request *request)
{
    peal_table *table;
    peal_table_info info = {.size = sizeof info};
    uint32_t most = 0;
    ck_assert_msg(peal_table_plan(ctx, fabric, request, &diag, &table) == PEAL_OK, "%s", diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    ck_assert_int_eq(peal_table_get(table, &info), PEAL_OK);
    for (uint32_t i = 0; i < info.rows; i++) {
        peal_row_info row = {.size = sizeof row};
        ck_assert_int_eq(peal_table_row(table, i, &row), PEAL_OK);
        most = row.sms > most ? row.sms : most;
        for (uint32_t r = 0; request->zero_sm && r < info.ranks; r++)
            ck_assert_msg(!holds(table, i, r, " sm") && !holds(table, i, r, " tma"),
                          "%s, row %u, rank %u uses an SM", peal_collective_name(row.collective), i,
                          r);
    }
    peal_table_destroy(table);
    return most;
}

static const peal_collective moved[] = {PEAL_ALLGATHER, PEAL_BROADCAST, PEAL_SCATTER,
                                        PEAL_GATHER,    PEAL_ALLTOALL,  PEAL_BARRIER};
#define MOVED (sizeof moved / sizeof *moved)

START_TEST(no_sm_at_all)
{
    static const char *const machines[] = {"dgx-h100", "dgx1-v100", "pcie-8gpu", "cluster-h100-2"};
    load(machines[_i]);
    for (size_t c = 0; c < MOVED; c++)
        for (const char **name = (const char *[]){NULL, "ring", "direct", "tree", NULL};; name++) {
            peal_request request = PEAL_REQUEST_INIT;
            peal_table *table;
            request.collective = moved[c];
            request.zero_sm = 1;
            request.algorithm = *name;
            if (peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK) {
                peal_table_destroy(table);
                ck_assert_uint_eq(most_sms(&request), 0);
            } else {
                ck_assert_int_eq(diag.status, PEAL_ERR_UNSUPPORTED);
                ck_assert_ptr_nonnull(*name);
            }
            if (*name && strcmp(*name, "tree") == 0)
                break;
        }
}
END_TEST

START_TEST(reductions_need_an_sm)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table = NULL;
    load("dgx-h100");
    request.zero_sm = 1;
    ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, &diag, &table), PEAL_ERR_UNSUPPORTED);
    request.collective = PEAL_ALLGATHER;
    request.move_engine[PEAL_LINK_NVLINK] = PEAL_ENGINE_TMA + 1;
    ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, &diag, &table), PEAL_ERR_ARG);
    ck_assert_ptr_null(table);
}
END_TEST

START_TEST(within_a_budget)
{
    load("dgx-h100");
    for (uint32_t sms = 1; sms <= 16; sms++)
        for (int c = 0; c < PEAL_CUSTOM; c++) {
            peal_request request = PEAL_REQUEST_INIT;
            request.collective = (peal_collective)c;
            request.max_sms = sms;
            if (c != PEAL_SENDRECV)
                ck_assert_uint_le(most_sms(&request), sms);
        }
}
END_TEST

/* An SM that costs something makes copy engines carry what is large. */
START_TEST(at_a_price)
{
    peal_request request = PEAL_REQUEST_INIT;
    load("dgx-h100");
    request.collective = PEAL_ALLGATHER;
    request.min_bytes = request.max_bytes = 1ull << 30;
    ck_assert_uint_gt(most_sms(&request), 0);
    request.sm_price = 0.02;
    ck_assert_uint_eq(most_sms(&request), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("corners");
    TCase *tests = tcase_create("corners");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, no_sm_at_all, 0, 4);
    tcase_add_test(tests, reductions_need_an_sm);
    tcase_add_test(tests, within_a_budget);
    tcase_add_test(tests, at_a_price);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
