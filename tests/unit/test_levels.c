/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: plain */
/*
 * Hierarchical schedules: every pair of inner and outer algorithm, forced levels, what a lane may
 * reach, and how near the bound the best candidates come. Compiling a table proves its plans.
 */
#include "machines.h"
#include "plan.h"
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <string.h>

static const char *const inners[] = {"direct", "ring", "tree"};
static const char *const outers[] = {"direct", "ring", "tree", "doubling"};
static const peal_collective served[] = {PEAL_ALLREDUCE, PEAL_REDUCE_SCATTER, PEAL_ALLGATHER,
                                         PEAL_BROADCAST, PEAL_REDUCE,         PEAL_SCATTER,
                                         PEAL_GATHER,    PEAL_BARRIER};

static const char three_hosts[] = "<peal version=\"1\" name=\"three\">"
                                  "<host name=\"a\" count=\"3\" topology=\"slingshot-4gpu.xml\"/>"
                                  "<network kind=\"leaf-spine\"/></peal>";
static const char unequal[] = "<peal version=\"1\" name=\"unequal\">"
                              "<host name=\"a\" topology=\"slingshot-4gpu.xml\"/>"
                              "<host name=\"b\" topology=\"dgx-h100.xml\"/>"
                              "<network kind=\"leaf-spine\"/></peal>";
static const char pods[] =
    "<peal version=\"1\" name=\"pods\"><host name=\"a\" count=\"4\" topology=\"dgx-h100.xml\"/>"
    "<network kind=\"leaf-spine\" hosts-per-leaf=\"2\" oversubscription=\"8\"/></peal>";
static const char boxes[] =
    "<peal version=\"1\" name=\"boxes\"><host name=\"a\" count=\"2\" topology=\"pcie-8gpu.xml\"/>"
    "<network kind=\"leaf-spine\"/></peal>";

static peal_request request_for(peal_collective collective, uint64_t bytes)
{
    peal_request request = PEAL_REQUEST_INIT;
    request.collective = collective;
    request.algorithm = "hierarchical";
    request.min_bytes = request.max_bytes = bytes;
    return request;
}

/* Plans and compiles; NULL where nothing serves the request. */
static peal_table *compiled(peal_ctx *ctx, const peal_fabric *fabric, const peal_request *request)
{
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_table_plan(ctx, fabric, request, &diag, &table);
    if (status == PEAL_ERR_UNSUPPORTED)
        return NULL;
    ck_assert_msg(status == PEAL_OK, "%s", diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    return table;
}

/* ---- what a lane reaches ---------------------------------------------------------------- */

static void note_peer(const struct peal_plan *plan, uint32_t self, uint32_t peer, int *sides)
{
    if (peer != self)
        *sides |= plan->ranks[peer].host == plan->ranks[self].host ? 1 : 2;
}

static int sides_of(const struct peal_plan *plan, uint32_t rank, const struct plan_lane *lane)
{
    const struct plan_rank *program = &plan->ranks[rank];
    int sides = 0;
    for (uint32_t i = 0; i < lane->pre + lane->body + lane->post; i++) {
        const struct plan_step *step = &program->steps[lane->first + i];
        if (step->op == PLAN_SIGNAL || step->op == PLAN_WAIT)
            note_peer(plan, rank, step->peer, &sides);
        for (uint32_t k = 0; peal_plan_op_moves(step->op) && k < (uint32_t)step->nsrc + step->ndst;
             k++)
            note_peer(plan, rank, program->operands[step->operands + k].rank, &sides);
    }
    return sides;
}

/* Lanes go inside the host or outside, never both; some do each. */
static void check_sides(const struct peal_plan *plan, const char *what)
{
    int seen = 0;
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t l = 0; l < plan->ranks[r].nlanes; l++) {
            int sides = sides_of(plan, r, &plan->ranks[r].lanes[l]);
            ck_assert_msg(sides != 3, "%s: rank %u lane %u goes both ways", what, r, l);
            seen |= sides;
        }
    ck_assert_msg(seen == 3, "%s: only %d", what, seen);
}

/* Every pair that is defined, with whole chunks and tiles: proven, and lanes keep to their side. */
static uint32_t every_pair_on(peal_ctx *ctx, const char *xml, const char *levels)
{
    peal_fabric *fabric = test_machine(ctx, xml);
    uint32_t plans = 0;
    for (size_t c = 0; c < sizeof served / sizeof served[0]; c++)
        for (size_t i = 0; i < 3 * 4 * 2; i++) {
            peal_request request = request_for(served[c], 20000);
            request.inner = inners[i % 3];
            request.outer = outers[i / 3 % 4];
            request.levels = levels;
            request.tile_bytes = i / 12 ? 256 : 0;
            request.root = peal_plan_collective(served[c])->rooted ? 2 : 0;
            peal_table *table = compiled(ctx, fabric, &request);
            int defined = strcmp(request.outer, "doubling") || served[c] == PEAL_ALLREDUCE;
            ck_assert_msg(!table || defined, "%s", request.outer);
            if (!table)
                continue;
            check_sides(table->rows[0].plan, table->rows[0].plan->detail);
            ck_assert_ptr_nonnull(strstr(table->rows[0].plan->detail, request.inner));
            peal_table_destroy(table);
            plans++;
        }
    peal_fabric_destroy(fabric);
    return plans;
}

START_TEST(every_pair)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    /* 24 settings; recursive doubling, a quarter of them, is for allreduce alone. */
    ck_assert_uint_eq(every_pair_on(ctx, three_hosts, NULL), 24 + 7 * 18);
    ck_assert_uint_eq(every_pair_on(ctx, pods, "host,pod"), 24 + 7 * 18);
    /* A gather's rails begin at a host, not at one of its sockets. */
    ck_assert_uint_eq(every_pair_on(ctx, boxes, "numa,host"), 24 + 5 * 18);
    /* Blocks need equal hosts. */
    ck_assert_uint_eq(every_pair_on(ctx, unequal, NULL), 24 + 3 * 18);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

/* ---- costs ---------------------------------------------------------------------------------- */

/* The best candidate of all algorithms at 1 GiB against the bound, in per cent. */
START_TEST(near_the_bound)
{
    static const struct {
        const char *file;
        unsigned percent[PEAL_COLLECTIVE_COUNT];
    } rows[] = {
        {"cluster-h100-2.xml",
         {[PEAL_ALLREDUCE] = 105,
          [PEAL_REDUCE_SCATTER] = 107,
          [PEAL_ALLGATHER] = 104,
          [PEAL_BROADCAST] = 102,
          [PEAL_REDUCE] = 103}},
        {"cluster-h100-16.xml",
         {[PEAL_ALLREDUCE] = 103,
          [PEAL_REDUCE_SCATTER] = 104,
          [PEAL_ALLGATHER] = 103,
          [PEAL_BROADCAST] = 106,
          [PEAL_REDUCE] = 106,
          [PEAL_SCATTER] = 102,
          [PEAL_GATHER] = 102}},
        {"cluster-h100-128.xml",
         {[PEAL_ALLREDUCE] = 104,
          [PEAL_REDUCE_SCATTER] = 106,
          [PEAL_ALLGATHER] = 104,
          [PEAL_BROADCAST] = 109,
          [PEAL_REDUCE] = 109,
          [PEAL_SCATTER] = 104,
          [PEAL_GATHER] = 114}},
    };
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        peal_fabric *fabric = test_example(ctx, rows[i].file);
        for (unsigned c = 0; c < PEAL_CUSTOM; c++) {
            peal_request request = request_for((peal_collective)c, 1ull << 30);
            peal_row_info row = {.size = sizeof row};
            peal_table *table;
            if (!rows[i].percent[c])
                continue;
            request.algorithm = NULL;
            ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, NULL, &table), PEAL_OK);
            ck_assert_int_eq(peal_table_row(table, 0, &row), PEAL_OK);
            printf("%s %s: %.1f us, %.3f of the bound, %s: %s\n", rows[i].file,
                   peal_collective_name((peal_collective)c), row.time_us,
                   row.time_us / row.bound_us, row.algorithm, row.detail);
            ck_assert_double_ge(row.time_us, row.bound_us);
            ck_assert_double_le(100 * row.time_us, (rows[i].percent[c] + 0.5) * row.bound_us);
            peal_table_destroy(table);
        }
        peal_fabric_destroy(fabric);
    }
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

static void best(peal_ctx *ctx, const peal_fabric *fabric, const char *levels, uint64_t bytes,
                 peal_row_info *row)
{
    peal_request request = request_for(PEAL_ALLREDUCE, bytes);
    peal_table *table;
    request.levels = levels;
    request.inner = "direct";
    *row = (peal_row_info){.size = sizeof *row};
    ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, NULL, &table), PEAL_OK);
    ck_assert_int_eq(peal_table_row(table, 0, row), PEAL_OK);
    peal_table_destroy(table);
}

/* A level is worth what the links that it spares are narrower: the spine of an oversubscribed
 * network, the link between sockets. */
START_TEST(levels_pay_where_links_narrow)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    peal_row_info flat, nested, chosen;
    peal_fabric *fabric = test_machine(ctx, pods);
    best(ctx, fabric, "host", 1 << 30, &flat);
    best(ctx, fabric, "host,pod", 1 << 30, &nested);
    best(ctx, fabric, NULL, 1 << 30, &chosen);
    printf("pods: %.0f us, with levels %.0f\n", flat.time_us, nested.time_us);
    ck_assert_double_lt(nested.time_us, 0.8 * flat.time_us);
    ck_assert_str_eq(chosen.detail, nested.detail);
    peal_fabric_destroy(fabric);
    fabric = test_example(ctx, "pcie-8gpu.xml");
    best(ctx, fabric, "host", 1 << 28, &flat);
    best(ctx, fabric, "numa", 1 << 28, &nested);
    best(ctx, fabric, NULL, 1 << 28, &chosen);
    printf("sockets: %.0f us, with levels %.0f\n", flat.time_us, nested.time_us);
    ck_assert_double_lt(nested.time_us, 0.8 * flat.time_us);
    ck_assert_str_eq(chosen.detail, nested.detail);
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

/* ---- requests ----------------------------------------------------------------------------------
 */

static peal_status ask(peal_ctx *ctx, const peal_fabric *fabric, const char *levels,
                       const char *inner, const char *outer, char text[512])
{
    peal_request request = request_for(PEAL_ALLREDUCE, 1 << 20);
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    request.levels = levels;
    request.inner = inner;
    request.outer = outer;
    peal_status status = peal_table_plan(ctx, fabric, &request, &diag, &table);
    (void)snprintf(text, 512, "%s", diag.text);
    if (status == PEAL_OK)
        peal_table_destroy(table);
    return status;
}

START_TEST(wrong_words)
{
    struct test_heap heap;
    char text[512];
    peal_ctx *ctx = test_ctx(&heap);
    peal_fabric *fabric = test_machine(ctx, boxes);
    ck_assert_int_eq(ask(ctx, fabric, "host", "ring", "doubling", text), PEAL_OK);
    ck_assert_int_eq(ask(ctx, fabric, "numa,host", NULL, NULL, text), PEAL_OK);
    ck_assert_int_eq(ask(ctx, fabric, "rack", NULL, NULL, text), PEAL_ERR_ARG);
    ck_assert_str_eq(text, "unknown level 'rack'; known are pair, numa, host, pod");
    ck_assert_int_eq(ask(ctx, fabric, "host,numa", NULL, NULL, text), PEAL_ERR_ARG);
    ck_assert_int_eq(ask(ctx, fabric, "host,host", NULL, NULL, text), PEAL_ERR_ARG);
    ck_assert_int_eq(ask(ctx, fabric, "", NULL, NULL, text), PEAL_ERR_ARG);
    ck_assert_int_eq(ask(ctx, fabric, NULL, "doubling", NULL, text), PEAL_ERR_ARG);
    ck_assert_str_eq(text, "unknown inner algorithm 'doubling'; known are direct, ring, tree");
    ck_assert_int_eq(ask(ctx, fabric, NULL, NULL, "star", text), PEAL_ERR_ARG);
    /* Several hosts, and no level that joins them. */
    ck_assert_int_eq(ask(ctx, fabric, "numa", NULL, NULL, text), PEAL_ERR_UNSUPPORTED);
    ck_assert_int_eq(ask(ctx, fabric, "pod", NULL, NULL, text), PEAL_ERR_UNSUPPORTED);
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

/* Levels of unequal units are not offered: 12 of 16 ranks leave one socket of a box without. */
START_TEST(unequal_levels)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    peal_fabric *fabric = test_machine(ctx, boxes);
    peal_request request = request_for(PEAL_ALLREDUCE, 1 << 20);
    peal_table *table;
    request.levels = "numa,host";
    request.ranks = 12;
    ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, NULL, &table), PEAL_ERR_UNSUPPORTED);
    request.levels = NULL;
    ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, NULL, &table), PEAL_OK);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

/* ---- lack of memory
 * ------------------------------------------------------------------------------ */

static peal_status plan_and_compile(peal_ctx *ctx, void *user)
{
    const char *outer = user;
    peal_fabric *fabric;
    peal_table *table;
    peal_request request = request_for(PEAL_ALLREDUCE, 4096);
    request.outer = outer;
    PEAL_TRY(peal_fabric_host(ctx, 3, NULL, &fabric));
    peal_status status = peal_table_plan(ctx, fabric, &request, NULL, &table);
    if (status == PEAL_OK) {
        status = peal_table_compile(table, fabric, NULL);
        peal_table_destroy(table);
    }
    peal_fabric_destroy(fabric);
    return status;
}

START_TEST(without_memory)
{
    static char ring[] = "ring";
    uint64_t runs;
    ck_assert_int_eq(test_oom_sweep(plan_and_compile, ring, 0, &runs), 0);
    ck_assert_uint_gt(runs, 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("levels");
    TCase *tcase = tcase_create("levels");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, every_pair);
    tcase_add_test(tcase, near_the_bound);
    tcase_add_test(tcase, levels_pay_where_links_narrow);
    tcase_add_test(tcase, wrong_words);
    tcase_add_test(tcase, unequal_levels);
    tcase_add_test(tcase, without_memory);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
