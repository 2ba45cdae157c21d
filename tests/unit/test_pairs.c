/* SPDX-License-Identifier: Apache-2.0 */
/* sendrecv among more ranks than two, and by lists of pairs. */
#include "plan.h"
#include "support.h"
#include "test_fixture.h"
#include "test_run.h"
#include "test_suite.h"

#include <check.h>

static peal_fabric *host(uint32_t ranks)
{
    peal_fabric *fabric;
    ck_assert_int_eq(peal_fabric_host(ctx, ranks, NULL, &fabric), PEAL_OK);
    return fabric;
}

static peal_request sends(uint32_t root, uint32_t peer, const uint32_t *pairs, uint32_t npairs)
{
    peal_request request = PEAL_REQUEST_INIT;
    request.collective = PEAL_SENDRECV;
    request.max_bytes = 1 << 16;
    request.root = root;
    request.peer = peer;
    request.pairs = pairs;
    request.npairs = npairs;
    return request;
}

static void add(const peal_fabric *fabric, const peal_request *request, peal_table **to)
{
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_table_plan(ctx, fabric, request, &diag, &table) == PEAL_OK, "%s", diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    if (!*to) {
        *to = table;
        return;
    }
    ck_assert_msg(peal_table_join(*to, table, &diag) == PEAL_OK, "%s", diag.text);
    peal_table_destroy(table);
}

/* ---- two lists, single pairs and an allreduce in one table, called in turns */

static const uint32_t forward[] = {0, 1, 1, 2, 2, 3};
static const uint32_t around[] = {3, 0, 0, 3, 1, 1, 0, 3};

static int sent(struct rank_thread *self, const char *what, uint32_t got, uint32_t wanted)
{
    if (got == wanted)
        return 0;
    (void)snprintf(self->problem, sizeof self->problem, "rank %u: %s: %u, not %u", self->rank, what,
                   got, wanted);
    return 1;
}

/* Element i of block b that rank r sends in a call. */
static uint32_t value(uint32_t r, uint32_t b, uint32_t i, uint32_t call)
{
    return 1000000 * call + 10000 * r + 1000 * b + i;
}

static int list_call(struct rank_thread *self, uint32_t list, uint32_t count, uint32_t call)
{
    const uint32_t *pairs = list ? around : forward;
    uint32_t npairs = list ? 4 : 3, outgoing[4] = {0}, incoming = 0;
    uint32_t in[4 * 600], out[4 * 600];
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t b = 0; b < 4; b++)
        for (uint32_t i = 0; i < count; i++)
            in[b * count + i] = value(self->rank, b, i, call);
    memset(out, 0xee, sizeof out);
    peal_status status = peal_sendrecv(self->comm, in, out, count, PEAL_UINT32, list, list, &diag);
    if (sent(self, diag.text, (uint32_t)status, PEAL_OK))
        return 1;
    for (uint32_t p = 0; p < npairs; p++) {
        uint32_t from = pairs[2 * p], block = outgoing[from]++;
        if (pairs[2 * p + 1] != self->rank)
            continue;
        for (uint32_t i = 0; i < count; i++)
            if (sent(self, "by list", out[incoming * count + i], value(from, block, i, call)))
                return 1;
        incoming++;
    }
    return sent(self, "behind", out[incoming * count], 0xeeeeeeee);
}

static int single_call(struct rank_thread *self, uint32_t from, uint32_t to, uint32_t call)
{
    uint32_t in = value(from, 0, 0, call), out = 0;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status =
        peal_sendrecv(self->comm, self->rank == from ? &in : NULL, self->rank == to ? &out : NULL,
                      1, PEAL_UINT32, from, to, &diag);
    return sent(self, diag.text, (uint32_t)status, PEAL_OK) ||
           (self->rank == to && sent(self, "of one pair", out, in));
}

static int turns(struct rank_thread *self)
{
    uint32_t in[64], out[64];
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t call = 0; call < 300; call++) {
        if (list_call(self, call % 2, call % 7 ? call % 600 : 0, call) ||
            single_call(self, 2, 0, call))
            return 1;
        for (uint32_t i = 0; i < 64; i++)
            in[i] = self->rank + call;
        if (peal_allreduce(self->comm, in, out, 64, PEAL_UINT32, PEAL_SUM, &diag) != PEAL_OK)
            return sent(self, diag.text, 1, 0);
        if (sent(self, "allreduce", out[63], 6 + 4 * call))
            return 1;
    }
    return sent(self, "a list that is not there",
                (uint32_t)peal_sendrecv(self->comm, in, out, 1, PEAL_UINT32, 2, 2, NULL),
                (uint32_t)PEAL_ERR_RANGE);
}

START_TEST(lists_compose)
{
    peal_fabric *fabric = host(4);
    peal_table *table = NULL;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_request list0 = sends(0, 0, forward, 3), list1 = sends(1, 1, around, 4);
    peal_request single = sends(2, 0, NULL, 0);
    peal_request all = PEAL_REQUEST_INIT;
    all.max_bytes = 1 << 10;
    all.algorithm = _i & 1 ? "ring" : "oneshot";
    params.private_buffers = _i & 2;
    params.chaos_seed = _i & 4 ? 77 : 0;
    list1.move_engine[PEAL_LINK_SHM] = _i & 4 ? PEAL_ENGINE_CE + 1 : 0;
    add(fabric, &list0, &table);
    add(fabric, &list1, &table);
    add(fabric, &single, &table);
    add(fabric, &all, &table);
    uint32_t count = 0, row;
    ck_assert_int_eq(peal_table_lookup(table, PEAL_SENDRECV, 1, 1, 100, &row), PEAL_OK);
    const uint32_t *pairs = peal_table_pairs(table, row, &count);
    ck_assert_uint_eq(count, 4);
    ck_assert_mem_eq(pairs, around, sizeof around);
    ck_assert_int_eq(peal_table_lookup(table, PEAL_SENDRECV, 2, 0, 100, &row), PEAL_OK);
    ck_assert_ptr_null(peal_table_pairs(table, row, &count));
    ck_assert_uint_eq(count, 0);
    const char *problem = run_ranks(ctx, table, 4, &params, turns, NULL);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}
END_TEST

/* ---- costs */

static peal_row_info row_of(const peal_fabric *fabric, const peal_request *request)
{
    peal_row_info row = {.size = sizeof row};
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_table_plan(ctx, fabric, request, &diag, &table) == PEAL_OK, "%s", diag.text);
    ck_assert_int_eq(peal_table_row(table, 0, &row), PEAL_OK);
    peal_table_destroy(table);
    return row;
}

/* Pairs that share nothing take no longer than one; two out of one rank take twice as long. */
START_TEST(pairs_share_what_they_share)
{
    static const uint32_t apart[] = {0, 1, 2, 3, 4, 5, 6, 7}, fan[] = {0, 1, 0, 2};
    peal_fabric *fabric;
    peal_diag diag = PEAL_DIAG_INIT;
    const char *path = test_source_path("examples/topologies/dgx-h100.xml");
    ck_assert_msg(peal_fabric_load(ctx, path, &diag, &fabric) == PEAL_OK, "%s", diag.text);
    peal_request one = sends(0, 1, NULL, 0), four = sends(0, 0, apart, 4),
                 two = sends(0, 0, fan, 2);
    one.channels = four.channels = two.channels = 32;
    one.min_bytes = four.min_bytes = two.min_bytes = 1ull << 32;
    one.max_bytes = four.max_bytes = two.max_bytes = 1ull << 32;
    double single = row_of(fabric, &one).time_us;
    ck_assert_double_eq(row_of(fabric, &four).time_us, single);
    ck_assert_double_le(fabs(row_of(fabric, &two).time_us / single - 2), 1e-3);
    peal_fabric_destroy(fabric);
}
END_TEST

START_TEST(none_beats_its_bound)
{
    static const char *const files[] = {"dgx1-v100.xml", "cluster-h100-2.xml", "pcie-8gpu.xml"};
    static const uint32_t lists[][8] = {{0, 1, 1, 0, 2, 3, 3, 2},
                                        {0, 1, 0, 2, 0, 3, 0, 4},
                                        {1, 0, 2, 0, 3, 0, 7, 0},
                                        {0, 7, 1, 6, 2, 5, 3, 4},
                                        {5, 5, 5, 5, 5, 5, 5, 5}};
    for (size_t f = 0; f < 3; f++) {
        char name[256];
        peal_fabric *fabric;
        (void)snprintf(name, sizeof name, "examples/topologies/%s", files[f]);
        ck_assert_int_eq(peal_fabric_load(ctx, test_source_path(name), NULL, &fabric), PEAL_OK);
        for (uint64_t bytes = 1; bytes < 1ull << 40; bytes <<= 13)
            for (uint32_t l = 0; l < 25; l++) {
                peal_request request =
                    l < 5 ? sends(0, 0, lists[l], 4) : sends((l - 5) % 4, 4 + (l - 5) / 5, NULL, 0);
                request.min_bytes = request.max_bytes = bytes;
                peal_row_info row = row_of(fabric, &request);
                ck_assert_msg(row.time_us >= row.bound_us * (1 - 1e-9), "%s list %u %llu: %g < %g",
                              files[f], l, (unsigned long long)bytes, row.time_us, row.bound_us);
            }
        peal_fabric_destroy(fabric);
    }
}
END_TEST

static void refused(const peal_fabric *fabric, const peal_request *request, const char *why)
{
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_table_plan(ctx, fabric, request, &diag, &table), PEAL_ERR_ARG);
    ck_assert_msg(strstr(diag.text, why) != NULL, "'%s' does not say '%s'", diag.text, why);
}

START_TEST(bad_lists)
{
    static const uint32_t far[] = {0, 4};
    peal_fabric *fabric = host(4);
    peal_request request = sends(0, 1, forward, 3);
    refused(fabric, &request, "equal");
    request = sends(0, 0, NULL, 0);
    refused(fabric, &request, "to itself");
    request = sends(0, 0, far, 1);
    refused(fabric, &request, "rank 4 of a pair");
    request = sends(0, 0, NULL, 1);
    refused(fabric, &request, "length");
    request = sends(4, 4, forward, 3);
    refused(fabric, &request, "not one of 4 ranks");
    request = sends(0, 0, forward, PLAN_PAIRS_MAX + 1);
    refused(fabric, &request, "at most");
    request = sends(0, 0, forward, 3);
    request.collective = PEAL_ALLTOALL;
    refused(fabric, &request, "no pairs");
    peal_fabric_destroy(fabric);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pairs");
    TCase *tcase = tcase_create("pairs");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, lists_compose, 0, 8);
    tcase_add_test(tcase, pairs_share_what_they_share);
    tcase_add_test(tcase, none_beats_its_bound);
    tcase_add_test(tcase, bad_lists);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
