/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-to-all and its kin: every candidate proven, on equal and unequal hosts; the order in which
 * ranks turn to each other; windows against incast; what aggregation saves on eight nodes.
 */
#include "compiler.h"
#include "machines.h"
#include "support.h"
#include "test_fixture.h"
#include "test_suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static peal_fabric *cluster(const char *host, unsigned count)
{
    return test_cluster(ctx, host, count, strstr(host, "h100") ? "rails" : "leaf-spine");
}

/* ---- every candidate is proven -------------------------------------------------------- */

static const struct {
    const char *host;
    unsigned hosts, ranks;
} machines[] = {
    {"dgx-h100.xml", 1, 7},  {"dgx-h100.xml", 2, 16},       {"dgx-h100.xml", 2, 13},
    {"dgx-h100.xml", 4, 25}, {"slingshot-4gpu.xml", 4, 16}, {"slingshot-4gpu.xml", 3, 10},
    {"pcie-8gpu.xml", 2, 9}, {"dgx1-v100.xml", 2, 16},      {"dgx-h100.xml", 5, 33},
    {"dgx1-v100.xml", 1, 8},
};
#define MACHINES ((int)(sizeof machines / sizeof *machines))

/* Compiles candidate `index` of the request, as if it had been chosen. */
static void prove_candidate(const peal_fabric *fabric, const peal_request *request, uint32_t index)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = test_planned(ctx, fabric, request);
    struct planner *planner = table->planner;
    planner->chosen[0] = index;
    const struct candidate *candidate = &planner->candidates[index];
    char detail[128];
    peal_algo_get(candidate->algo)->detail(candidate, detail, sizeof detail);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s by %u: %s, %s: %s",
                  peal_collective_name(request->collective), request->ranks,
                  peal_algorithm_name((uint32_t)candidate->algo), detail, diag.text);
    /* What was counted before is what the programs send. Bruck's runs over the last rank are
     * counted at one rank. */
    if (request->min_bytes == request->max_bytes && candidate->algo != ALGO_BRUCK &&
        !(candidate->algo == ALGO_TREE && !candidate->net_messages))
        ck_assert_uint_eq(test_row(table, 0).net_messages, candidate->net_messages);
    peal_table_destroy(table);
}

START_TEST(candidates_are_proven)
{
    static const peal_collective collectives[] = {
        PEAL_ALLTOALL, PEAL_ALLGATHER, PEAL_SCATTER, PEAL_GATHER, PEAL_REDUCE, PEAL_REDUCE_SCATTER};
    static const char *const algorithms[] = {"direct", "tree", "bruck", "twohop"};
    peal_fabric *fabric = cluster(machines[_i].host, machines[_i].hosts);
    uint32_t proven = 0;
    for (size_t c = 0; c < sizeof collectives / sizeof *collectives; c++)
        for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++) {
            peal_request request = PEAL_REQUEST_INIT;
            peal_table *table;
            int rooted = peal_plan_collective(collectives[c])->rooted;
            request.collective = collectives[c];
            request.algorithm = algorithms[a];
            request.ranks = machines[_i].ranks;
            request.root = rooted ? machines[_i].ranks - 2 : 0;
            request.min_bytes = request.max_bytes = 100000;
            if (collectives[c] == PEAL_REDUCE && a == 1)
                continue; /* not a tree of blocks */
            if (peal_table_plan(ctx, fabric, &request, NULL, &table) != PEAL_OK)
                continue;
            const struct planner *planner = table->planner;
            for (uint32_t i = 0; i < planner->count; i++)
                if (planner->candidates[i].channels <= 2) {
                    prove_candidate(fabric, &request, i);
                    proven++;
                }
            peal_table_destroy(table);
        }
    printf("%u ranks on %u x %s: %u candidates proven\n", machines[_i].ranks, machines[_i].hosts,
           machines[_i].host, proven);
    ck_assert_uint_gt(proven, 12);
    peal_fabric_destroy(fabric);
}
END_TEST

/* ---- order ------------------------------------------------------------------------------ */

START_TEST(rounds_are_one_to_one)
{
    peal_fabric *fabric = cluster(machines[_i].host, machines[_i].hosts);
    struct group group;
    uint32_t n = machines[_i].ranks;
    peal_request request = PEAL_REQUEST_INIT;
    request.ranks = n;
    ck_assert_int_eq(peal_group_init(&group, ctx, fabric, &request, NULL), PEAL_OK);
    int equal = group.local_min == group.local_max;
    for (uint32_t self = 0; self < n; self++) {
        uint32_t met[64] = {0};
        for (uint32_t i = 0; i < n; i++) {
            uint32_t to = peal_pace_to(&group, self, i), first = group.host_first[0];
            ck_assert_uint_eq(peal_pace_from(&group, to, i), self);
            ck_assert_uint_eq(i == 0, to == self);
            met[to]++;
            /* Hosts pair up: all ranks of a host turn to the same one, each to another rank. */
            first = group.host_first[peal_group_host(&group, self)];
            if (equal)
                ck_assert_uint_eq(peal_group_host(&group, to),
                                  peal_group_host(&group, peal_pace_to(&group, first, i)));
        }
        for (uint32_t r = 0; r < n; r++)
            ck_assert_uint_eq(met[r], 1);
    }
    peal_group_free(&group);
    peal_fabric_destroy(fabric);
}
END_TEST

/* ---- windows ------------------------------------------------------------------------------ */

/* The most ranks of other hosts that the root has told to send and not heard of. */
static uint32_t most_granted(const struct peal_plan *plan, uint32_t grant)
{
    const struct plan_rank *root = &plan->ranks[plan->root];
    uint32_t out = 0, most = 0;
    for (uint32_t i = 0; i < root->lanes[0].pre + root->lanes[0].body; i++) {
        const struct plan_step *step = &root->steps[root->lanes[0].first + i];
        if (i < root->lanes[0].pre || plan->ranks[step->peer].host == root->host)
            continue;
        if (step->op == PLAN_SIGNAL && step->sem == grant)
            out++;
        if (step->op == PLAN_WAIT && step->sem == 1)
            out--;
        most = out > most ? out : most;
    }
    return most;
}

START_TEST(no_more_than_a_window_sends)
{
    static const uint32_t windows[] = {1, 2, 3, 8, 15};
    peal_fabric *fabric = cluster("dgx-h100.xml", 3);
    for (size_t w = 0; w < 5; w++)
        for (int reduces = 0; reduces < 2; reduces++) {
            peal_request request = PEAL_REQUEST_INIT;
            request.collective = reduces ? PEAL_REDUCE : PEAL_GATHER;
            request.algorithm = "direct";
            request.root = 9;
            request.channels = 1;
            request.incast = windows[w];
            request.min_bytes = request.max_bytes = 1 << 20;
            peal_table *table = test_planned(ctx, fabric, &request);
            ck_assert_int_eq(peal_table_compile(table, fabric, NULL), PEAL_OK);
            ck_assert_uint_eq(most_granted(table->rows[0].plan, reduces ? 3 : 2), windows[w]);
            peal_table_destroy(table);
        }
    peal_fabric_destroy(fabric);
}
END_TEST

/* By default no more queues at the root's port than its share of a switch's buffer holds: 32 MiB
 * for 64 ports. A window is never thought to be faster than none. */
START_TEST(what_queues_fits_the_buffer)
{
    peal_fabric *fabric = cluster("dgx-h100.xml", 3);
    for (uint64_t bytes = 1 << 10; bytes <= 1 << 30; bytes *= 4) {
        peal_request request = PEAL_REQUEST_INIT;
        request.collective = PEAL_GATHER;
        request.algorithm = "direct";
        request.min_bytes = request.max_bytes = bytes;
        peal_table *table = test_planned(ctx, fabric, &request);
        const struct planner *planner = table->planner;
        const struct candidate *chosen = &planner->candidates[planner->chosen[0]];
        uint32_t at_once = chosen->window ? chosen->window : 16;
        ck_assert_uint_le((at_once - 1) * (bytes / 24), 512 << 10);
        double time = test_row(table, 0).time_us;
        peal_table_destroy(table);
        request.incast = 16;
        table = test_planned(ctx, fabric, &request);
        ck_assert_double_ge(time, test_row(table, 0).time_us * (1 - 1e-9));
        peal_table_destroy(table);
    }
    peal_fabric_destroy(fabric);
}
END_TEST

/* ---- aggregation ---------------------------------------------------------------------------- */

static peal_row_info best_of(const peal_fabric *fabric, const char *algorithm, uint64_t bytes)
{
    peal_request request = PEAL_REQUEST_INIT;
    request.collective = PEAL_ALLTOALL;
    request.algorithm = algorithm;
    request.min_bytes = request.max_bytes = bytes;
    peal_table *table = test_planned(ctx, fabric, &request);
    peal_row_info row = test_row(table, 0);
    peal_table_destroy(table);
    return row;
}

/* Experts on 8 nodes of 8 GPUs, 2 KiB for each pair of ranks. */
START_TEST(two_hops_on_eight_nodes)
{
    peal_fabric *fabric = cluster("dgx-h100.xml", 8);
    peal_row_info flat = best_of(fabric, "direct", 64 * 2048);
    peal_row_info two = best_of(fabric, "twohop", 64 * 2048);
    printf("2 KiB a pair: direct %.1f us, %u messages of %u; twohop %.1f us, %u of %u\n",
           flat.time_us, (unsigned)flat.net_messages, (unsigned)flat.net_message_bytes, two.time_us,
           (unsigned)two.net_messages, (unsigned)two.net_message_bytes);
    ck_assert_uint_eq(flat.net_messages, 56);
    ck_assert_uint_eq(flat.net_message_bytes, 2048);
    ck_assert_uint_ge(flat.net_messages, 8 * two.net_messages);
    ck_assert_uint_ge(two.net_message_bytes, 8 * flat.net_message_bytes);
    ck_assert_double_ge(flat.time_us, 2 * two.time_us);
    ck_assert_str_eq(best_of(fabric, NULL, 64 * 2048).algorithm, "twohop");
    /* A large message crosses the inside of a node for nothing. */
    ck_assert_str_eq(best_of(fabric, NULL, 1 << 30).algorithm, "direct");
    uint64_t low = 64 * 2048, high = 1 << 30;
    while (high - low > 64) {
        uint64_t middle = low + (high - low) / 2;
        int flat_wins =
            best_of(fabric, "direct", middle).time_us < best_of(fabric, "twohop", middle).time_us;
        *(flat_wins ? &high : &low) = middle;
    }
    printf("direct is faster from %llu bytes a pair on\n", (unsigned long long)high / 64);
    ck_assert_uint_gt(high, 64 * 65536);
    peal_fabric_destroy(fabric);
}
END_TEST

/* On a DGX-1 three of seven others are reached over PCIe and between sockets alone. By quads no
 * block leaves the NVLinks: inside a quad a link carries two blocks, a link between the quads four.
 */
START_TEST(quads_keep_to_their_links)
{
    peal_fabric *fabric = cluster("dgx1-v100.xml", 1);
    peal_row_info flat = best_of(fabric, "direct", 1 << 28), best = best_of(fabric, NULL, 1 << 28);
    printf("DGX-1, 256 MiB: direct %.0f us, %s, %s, %.0f us\n", flat.time_us, best.algorithm,
           best.detail, best.time_us);
    ck_assert_str_eq(best.algorithm, "twohop");
    ck_assert_ptr_nonnull(strstr(best.detail, "units of 4"));
    ck_assert_uint_eq(best.move_engines[PEAL_LINK_PCIE] | best.move_engines[PEAL_LINK_SMP], 0);
    ck_assert_double_ge(flat.time_us, 10 * best.time_us);
    /* Four blocks over single links of what a link is said to carry. */
    double link_gbs = 150.0 / 6;
    ck_assert_double_ge(best.time_us, 4 * (1 << 25) / (link_gbs * 1e3));
    peal_fabric_destroy(fabric);
}
END_TEST

/* More sources than a step has operands: several steps, of which the last one is final. */
START_TEST(folds_of_many)
{
    peal_fabric *fabric = cluster("dgx-h100.xml", 33);
    peal_request request = PEAL_REQUEST_INIT;
    request.collective = PEAL_REDUCE;
    request.algorithm = "direct";
    request.channels = 1;
    request.root = 257;
    request.min_bytes = request.max_bytes = 1024;
    peal_table *table = test_planned(ctx, fabric, &request);
    ck_assert_int_eq(peal_table_compile(table, fabric, NULL), PEAL_OK);
    const struct plan_rank *root = &table->rows[0].plan->ranks[257];
    uint32_t folds = 0, sources = 0, finals = 0;
    for (uint32_t i = 0; i < root->nsteps; i++) {
        folds += root->steps[i].op == PLAN_REDUCE;
        sources += root->steps[i].op == PLAN_REDUCE ? root->steps[i].nsrc : 0;
        finals += root->steps[i].flags == PLAN_FLAG_FINAL;
    }
    ck_assert_uint_eq(folds, 2);
    ck_assert_uint_eq(sources, 264 + 1);
    ck_assert_uint_eq(finals, 1);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}
END_TEST

/* ---- memory ------------------------------------------------------------------------------- */

struct wanted {
    peal_collective collective;
    const char *algorithm;
    const peal_fabric *fabric;
};

static peal_status plan_and_prove(peal_ctx *with, void *user)
{
    const struct wanted *wanted = user;
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table;
    request.collective = wanted->collective;
    request.algorithm = wanted->algorithm;
    request.channels = 1;
    request.min_bytes = request.max_bytes = 4096;
    PEAL_TRY(peal_table_plan(with, wanted->fabric, &request, NULL, &table));
    peal_status status = peal_table_compile(table, wanted->fabric, NULL);
    peal_table_destroy(table);
    return status;
}

START_TEST(memory_may_run_out)
{
    static const struct wanted wanted[] = {
        {PEAL_ALLTOALL, "direct", NULL}, {PEAL_ALLTOALL, "bruck", NULL},
        {PEAL_ALLTOALL, "twohop", NULL}, {PEAL_ALLGATHER, "bruck", NULL},
        {PEAL_GATHER, "direct", NULL},   {PEAL_GATHER, "tree", NULL},
        {PEAL_SCATTER, "tree", NULL},
    };
    peal_fabric *fabric = cluster("slingshot-4gpu.xml", 2);
    struct wanted one = wanted[_i];
    uint64_t runs = 0;
    one.fabric = fabric;
    ck_assert_int_eq(test_oom_sweep(plan_and_prove, &one, 0, &runs), 0);
    ck_assert_uint_gt(runs, 50);
    peal_fabric_destroy(fabric);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("alltoall");
    TCase *tcase = tcase_create("alltoall");
    tcase_set_timeout(tcase, 240);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, candidates_are_proven, 0, MACHINES);
    tcase_add_loop_test(tcase, rounds_are_one_to_one, 0, MACHINES);
    tcase_add_test(tcase, no_more_than_a_window_sends);
    tcase_add_test(tcase, what_queues_fits_the_buffer);
    tcase_add_test(tcase, two_hops_on_eight_nodes);
    tcase_add_test(tcase, quads_keep_to_their_links);
    tcase_add_test(tcase, folds_of_many);
    tcase_add_loop_test(tcase, memory_may_run_out, 0, 7);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
