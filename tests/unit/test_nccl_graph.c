/* SPDX-License-Identifier: Apache-2.0 */
/* Graph files: what NCCL chose becomes candidates, in its order and no other; bad ones are refused
 * with a place, and leave what was there. Rings over a mesh share out its links. */
#include "test_topo_help.h"

static peal_status graph(const char *text)
{
    return peal_fabric_graph_parse(fabric, text, strlen(text), "g.xml", &diag);
}

static void refused_graph(const char *text, uint32_t line, const char *word)
{
    ck_assert_int_eq(graph(text), PEAL_ERR_INPUT);
    ck_assert_msg(diag.line == line && strstr(diag.text, word), "%u: %s; expected %u: ...%s...",
                  diag.line, diag.text, line, word);
}

#define GRAPH(channels)                                                                            \
    "<graphs version=\"1\">\n<graph id=\"0\" pattern=\"4\">\n" channels "</graph></graphs>"
#define FOUR(a, b, c, d)                                                                           \
    "<channel><gpu dev=\"" a "\"/><gpu dev=\"" b "\"/><gpu dev=\"" c "\"/><gpu dev=\"" d           \
    "\"/></channel>\n"

static void four_ranks(void)
{
    ck_assert_int_eq(peal_fabric_host(ctx, 4, &diag, &fabric), PEAL_OK);
}

START_TEST(orders_are_read)
{
    four_ranks();
    uint64_t digest = about().digest;
    ck_assert_ptr_null(peal_topo_rings(fabric));
    ck_assert_int_eq(graph(GRAPH(FOUR("0", "0x3", "2", "1") FOUR("1", "2", "3", "0"))), PEAL_OK);
    const struct topo_orders *rings = peal_topo_rings(fabric);
    static const uint32_t want[8] = {0, 3, 2, 1, 1, 2, 3, 0};
    ck_assert_uint_eq(rings->channels, 2);
    ck_assert_uint_eq(rings->ranks, 4);
    ck_assert_int_eq(memcmp(rings->order, want, sizeof want), 0);
    ck_assert_ptr_null(peal_topo_trees(fabric));
    ck_assert_uint_ne(about().digest, digest); /* plans depend on it */
}
END_TEST

START_TEST(bad_graphs)
{
    four_ranks();
    ck_assert_int_eq(graph(GRAPH(FOUR("0", "1", "2", "3"))), PEAL_OK);
    refused_graph("<system/>", 1, "expected <graphs>");
    refused_graph("<graphs version=\"1\"/>", 1, "neither a ring nor a tree");
    refused_graph(GRAPH(FOUR("0", "1", "2", "2")), 3, "twice");
    refused_graph(GRAPH(FOUR("0", "1", "2", "4")), 3, "device 4");
    refused_graph(GRAPH(FOUR("0", "1", "2", "x")), 3, "hexadecimal");
    refused_graph(GRAPH("<channel><gpu dev=\"0\"/></channel>"), 3, "without all 4 ranks");
    refused_graph(GRAPH("<channel><gpu dev=\"0\"/><cpu/></channel>"), 3, "expected <gpu>");
    refused_graph(GRAPH("<channel><gpu rank=\"7\"/></channel>"), 3, "rank");
    refused_graph(GRAPH("<ring/>"), 3, "expected <channel>");
    ck_assert_int_eq(graph("<graphs"), PEAL_ERR_INPUT);
    ck_assert_int_eq(graph(""), PEAL_ERR_INPUT);
    ck_assert_ptr_nonnull(peal_topo_rings(fabric)); /* of the good file before them */
    ck_assert_int_eq(peal_fabric_graph_load(fabric, "/no/such/file", &diag), PEAL_ERR_IO);
    ck_assert_int_eq(peal_fabric_graph_parse(NULL, "", 0, NULL, NULL), PEAL_ERR_ARG);
}
END_TEST

static peal_status read_one(peal_ctx *oom_ctx, void *text)
{
    peal_fabric *made = NULL;
    peal_status status = peal_fabric_host(oom_ctx, 4, NULL, &made);
    if (status == PEAL_OK)
        status = peal_fabric_graph_parse(made, text, strlen(text), "g", NULL);
    peal_fabric_destroy(made);
    return status;
}

START_TEST(memory_runs_out)
{
    static char text[] = GRAPH(FOUR("0", "1", "2", "3") FOUR("3", "2", "1", "0"));
    ck_assert_int_eq(test_oom_sweep(read_one, text, 0, NULL), 0);
}
END_TEST

static peal_row_info planned(const char *algorithm)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_row_info row = {.size = sizeof row};
    peal_table *table;
    request.algorithm = algorithm;
    request.min_bytes = request.max_bytes = 1ull << 30;
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_int_eq(peal_table_row(table, 0, &row), PEAL_OK);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    peal_table_destroy(table);
    return row;
}

/* What NCCL chose for these machines is proven, and no better than what peal finds. */
START_TEST(files_of_real_machines)
{
    static const struct {
        const char *topology, *graph;
        uint32_t channels;
    } machines[] = {
        {"nccl-topo/dgx1_v100_8gpu_berkeley.xml", "nccl-graph/dgx1_v100_graph.xml", 6},
        {"nccl-topo/perlmutter_a100_4gpu_4cxi.xml", "nccl-graph/perlmutter_a100_graph.xml", 12},
        {"nccl-topo/modal_b200_gvisor_a.xml", "nccl-graph/modal_b200_graph_a.xml", 8}};
    const char *path = test_corpus_path(machines[_i].topology);
    if (!path)
        return;
    loaded(path);
    path = test_corpus_path(machines[_i].graph);
    ck_assert_msg(peal_fabric_graph_load(fabric, path, &diag) == PEAL_OK, "%s:%u: %s", path,
                  diag.line, diag.text);
    peal_row_info ring = planned("nccl-ring"), own = planned(NULL);
    ck_assert_uint_eq(ring.channels, machines[_i].channels);
    ck_assert_double_le(own.time_us, ring.time_us * 1.021);
    ck_assert_double_le(own.time_us, planned("nccl-tree").time_us * 1.021);
    ck_assert_double_le(planned("ring").time_us, ring.time_us * 1.02);
}
END_TEST

/* Four ranks, each linked to each: three cycles, both ways, fill all links. */
START_TEST(rings_fill_a_mesh)
{
    const char *path = test_corpus_path("nccl-topo/topo_4p_940.xml");
    if (!path)
        return;
    loaded(path);
    peal_row_info row = planned("ring");
    ck_assert_uint_eq(row.channels % 6, 0);
    ck_assert_double_le(row.time_us, row.bound_us * 1.02);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graph files");
    TCase *tests = tcase_create("graph files");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, orders_are_read);
    tcase_add_test(tests, bad_graphs);
    tcase_add_test(tests, memory_runs_out);
    tcase_add_loop_test(tests, files_of_real_machines, 0, 3);
    tcase_add_test(tests, rings_fill_a_mesh);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
