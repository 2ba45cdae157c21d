/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: plain */
/*
 * What choosing costs: at every size the plan of a table is at most 2 % slower than the best
 * candidate that fits, by the model, and never slower than the best plain ring or tree; nor is it
 * faster than the bound. On all machines of the corpus and of the examples, for all collectives.
 */
#include "compiler.h"
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define ROUNDING_US 1e-9 /* costs are compared as whole picoseconds */

static struct test_heap heap;
static peal_ctx *ctx;
static struct {
    uint32_t tables;
    uint32_t choices;
    double worst;
    char where[160];
} sum;

static double time_of(const struct planner *planner, uint32_t index, uint64_t bytes)
{
    struct cost cost;
    peal_candidate_cost(&planner->candidates[index], bytes, &cost);
    return cost.time_us;
}

static int fits(const struct planner *planner, uint32_t index, uint64_t bytes)
{
    const struct candidate *candidate = &planner->candidates[index];
    return bytes <= candidate->max_bytes &&
           peal_candidate_scratch(candidate, bytes) <= planner->request.scratch_limit;
}

static int is_plain(const struct planner *planner, uint32_t index)
{
    return planner->candidates[index].algo == ALGO_RING ||
           planner->candidates[index].algo == ALGO_TREE;
}

static void at_size(const char *name, const peal_table *table, uint32_t row, uint64_t bytes)
{
    const struct planner *planner = table->planner;
    double own = time_of(planner, planner->chosen[row], bytes), best = 0, plain = 0;
    if (!fits(planner, planner->chosen[row], bytes))
        return; /* nothing does: the smallest is taken */
    for (uint32_t i = 0; i < planner->count; i++) {
        double time = time_of(planner, i, bytes);
        if (!fits(planner, i, bytes))
            continue;
        best = best == 0 || time < best ? time : best;
        plain = is_plain(planner, i) && (plain == 0 || time < plain) ? time : plain;
    }
    double bound = peal_planner_bound(planner, bytes);
    const char *algorithm = table->rows[row].info.algorithm;
    const char *collective = peal_collective_name(planner->request.collective);
    ck_assert_msg(own <= best * 1.02 + ROUNDING_US, "%s, %s of %llu bytes: %s takes %g us, best %g",
                  name, collective, (unsigned long long)bytes, algorithm, own, best);
    ck_assert_msg(plain == 0 || own <= plain + ROUNDING_US,
                  "%s, %s of %llu bytes: %s takes %g us, plain %g", name, collective,
                  (unsigned long long)bytes, algorithm, own, plain);
    ck_assert_msg(own >= bound * (1 - 1e-9), "%s, %s of %llu bytes: %s takes %g us, bound %g", name,
                  collective, (unsigned long long)bytes, algorithm, own, bound);
    sum.choices++;
    if (own / best > sum.worst) {
        sum.worst = own / best;
        (void)snprintf(sum.where, sizeof sum.where, "%.60s, %s, %llu bytes, %s", name, collective,
                       (unsigned long long)bytes, algorithm);
    }
}

static void all_sizes(const char *name, const peal_fabric *fabric, peal_collective collective)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table;
    request.collective = collective;
    request.peer = collective == PEAL_SENDRECV;
    if (peal_table_plan(ctx, fabric, &request, NULL, &table) != PEAL_OK)
        return; /* sendrecv of more than two */
    sum.tables++;
    uint32_t row = 0;
    for (uint64_t base = 1 << 10; base <= 1ull << 30; base *= 2)
        for (uint64_t bytes = base; bytes < 2 * base; bytes += base / 4) {
            while (table->rows[row].info.max_bytes < bytes)
                row++;
            at_size(name, table, row, bytes);
        }
    peal_table_destroy(table);
}

static void all_collectives(const char *folder, const char *file)
{
    char path[4096];
    peal_fabric *fabric;
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    if (!strstr(file, ".xml") || peal_fabric_load(ctx, path, NULL, &fabric) != PEAL_OK)
        return; /* no accelerators */
    for (int c = 0; c < PEAL_CUSTOM; c++)
        all_sizes(file, fabric, (peal_collective)c);
    peal_fabric_destroy(fabric);
}

static void all_files(const char *folder)
{
    char copy[2048];
    if (!folder)
        return;
    (void)snprintf(copy, sizeof copy, "%s", folder);
    DIR *files = opendir(copy);
    ck_assert_ptr_nonnull(files);
    for (struct dirent *file = readdir(files); file; file = readdir(files))
        all_collectives(copy, file->d_name);
    closedir(files);
}

START_TEST(no_choice_loses_more_than_two_percent)
{
    ctx = test_ctx(&heap);
    all_files(test_corpus_path("nccl-topo"));
    all_files(test_source_path("examples/topologies"));
    printf("%u tables, %u choices; the worst is %.4f of the best: %s\n", sum.tables, sum.choices,
           sum.worst, sum.where);
    ck_assert_uint_ge(sum.tables, 9 * 9);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("regret");
    TCase *tests = tcase_create("regret");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, no_choice_loses_more_than_two_percent);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
