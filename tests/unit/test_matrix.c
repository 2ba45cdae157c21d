/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: slow */
/*
 * A sample of tests/bench/matrix.sh: every algorithm with every collective, on a host of loads and
 * stores, a mesh and clusters, of seeded numbers of ranks from 2 to 64, at all sizes. Whatever is
 * planned can be made and is proven.
 */
#include "plan.h"
#include "test_fault_plans.h"
#include "test_suite.h"

static struct test_heap heap;
static peal_ctx *ctx;

static peal_fabric *fabric_of(uint32_t kind, uint32_t ranks)
{
    static const char *const files[] = {"dgx1-v100", "cluster-h100-16"};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric = NULL;
    char path[128];
    if (kind == 0) {
        fabric = machine_of(ctx, LOADS, ranks);
        add_graph(fabric, ranks);
        return fabric;
    }
    if (kind == 3)
        return machine_of(ctx, SWITCHED, ranks);
    (void)snprintf(path, sizeof path, "examples/topologies/%s.xml", files[kind - 1]);
    ck_assert_msg(peal_fabric_load(ctx, test_source_path(path), &diag, &fabric) == PEAL_OK, "%s",
                  diag.text);
    return fabric;
}

/* No scratch is asked for that no step names, but by algorithms whose stages and inboxes depend on
 * each rank's place. */
static void regions_are_used(const struct peal_plan *plan)
{
    static const char *const others[] = {"bruck", "halving", "swing", "hierarchical", "tree"};
    uint8_t used[PLAN_REGIONS_MAX] = {0};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(plan->algorithm, others[i]) == 0)
            return;
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t i = 0; i < plan->ranks[r].noperands; i++)
            if (plan->ranks[r].operands[i].buffer >= PLAN_BUF_SCRATCH)
                used[plan->ranks[r].operands[i].index] = 1;
    for (uint32_t i = 0; i < plan->nregions; i++)
        if (!used[i])
            ck_abort_msg("%s %s, %u ranks, %s: region %u of %u is not used", plan->algorithm,
                         peal_collective_name(plan->collective), plan->nranks, plan->detail, i,
                         plan->nregions);
}

/* Plans proven: the rows of the table of all sizes; 0: not served. */
static uint32_t proven(const peal_fabric *fabric, const peal_request *request)
{
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table_info info = {.size = sizeof info};
    peal_status status = peal_table_plan(ctx, fabric, request, &diag, &table);
    if (status != PEAL_OK) {
        ck_assert_msg(status == PEAL_ERR_UNSUPPORTED, "%s %s, %u ranks: %s", request->algorithm,
                      peal_collective_name(request->collective), request->ranks, diag.text);
        return 0;
    }
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s %s, %u ranks: %s",
                  request->algorithm, peal_collective_name(request->collective), request->ranks,
                  diag.text);
    ck_assert_int_eq(peal_table_get(table, &info), PEAL_OK);
    ck_assert_int_eq(info.verified, 1);
    for (uint32_t i = 0; i < table->nrows; i++)
        regions_are_used(table->rows[i].plan);
    peal_table_destroy(table);
    return info.rows;
}

static uint32_t sampled(const char *algorithm, peal_collective collective)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < 12; i++) {
        static const uint32_t most[] = {32, 8, 64, 8};
        uint32_t kind = strcmp(algorithm, "nvls") == 0 ? 3 : i % 3, top = i < 9 ? 17 : most[kind];
        peal_request request = PEAL_REQUEST_INIT;
        request.ranks = 2 + random_below((top < most[kind] ? top : most[kind]) - 1);
        if (i == 11 && kind == 2) /* whole hosts */
            request.ranks = 8 * (2 + random_below(7));
        request.algorithm = algorithm;
        if (strcmp(algorithm, "compressed") == 0)
            request.wire = i % 2 ? PEAL_WIRE_BF16 : PEAL_WIRE_FP8;
        request.collective = collective;
        if (collective == PEAL_BROADCAST || collective == PEAL_REDUCE ||
            collective == PEAL_SCATTER || collective == PEAL_GATHER)
            request.root = random_below(request.ranks);
        request.peer = collective == PEAL_SENDRECV;
        peal_fabric *fabric = fabric_of(kind, request.ranks);
        rows += proven(fabric, &request);
        peal_fabric_destroy(fabric);
    }
    return rows;
}

START_TEST(what_is_planned_is_proven)
{
    uint32_t all = 0;
    ctx = test_ctx(&heap);
    rng = 0x9E3779B97F4A7C15ull;
    for (uint32_t a = 0; peal_algorithm_name(a); a++) {
        uint32_t rows = 0;
        for (int c = 0; c < PEAL_CUSTOM; c++)
            rows += sampled(peal_algorithm_name(a), (peal_collective)c);
        printf("%-13s %4u plans proven\n", peal_algorithm_name(a), rows);
        ck_assert_msg(rows > 0, "no plan of %s", peal_algorithm_name(a));
        all += rows;
    }
    printf("in all: %u plans proven\n", all);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("matrix");
    TCase *tcase = tcase_create("matrix");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, what_is_planned_is_proven);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
