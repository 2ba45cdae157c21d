/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: slow */
/*
 * What is planned for large messages against the throughput optimum of networks: every row of
 * oracles/throughput-optimum.tsv, as a fabric that has exactly the row's links (and PCIe so slow
 * that nothing goes over it).
 */
#include "machines.h"
#include "networks.h"
#include "support.h"
#include "test_fixture.h"
#include "test_suite.h"

#include <check.h>
#include <string.h>

#define RANKS_MAX 64u
#define BYTES (8ull << 30)
#define CLOSE 0.99 /* of the optimum */

/* ---- networks ------------------------------------------------------------------------ */

/* A link is there both ways, so one that is to have no use backwards is a thousandth as fast. */
#define ONE_WAY 1000
static unsigned short links[RANKS_MAX][RANKS_MAX];

static void both_ways(unsigned a, unsigned b, unsigned count)
{
    links[a][b] = links[b][a] = (unsigned short)count;
}

static void ring(unsigned n, unsigned both)
{
    for (unsigned i = 0; i < n; i++) {
        links[i][(i + 1) % n] = both ? 1 : ONE_WAY;
        links[(i + 1) % n][i] = 1;
    }
}

static void hypercube(unsigned dimensions, unsigned unused)
{
    (void)unused;
    test_hypercube(dimensions, both_ways);
}

static void grid(unsigned side, unsigned wrap)
{
    test_grid(side, wrap, both_ways);
}

static void dgx1(unsigned unused, unsigned unused_too)
{
    (void)unused;
    (void)unused_too;
    test_dgx1(both_ways);
}

/* `gbs`: of all links of the first rank together. 0 links: all ranks on one switch. */
static peal_fabric *mesh(unsigned n, double gbs)
{
    char *text = NULL;
    size_t bytes = 0;
    peal_fabric *fabric;
    peal_diag diag = PEAL_DIAG_INIT;
    FILE *to = open_memstream(&text, &bytes);
    fprintf(to, "<peal version=\"1\" name=\"mesh\"><host name=\"h\"><system version=\"1\">"
                "<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
                "modelid=\"79\">");
    for (unsigned i = 0; i < n; i++) {
        unsigned any = 0;
        fprintf(to,
                "<pci busid=\"0000:%02x:00.0\" class=\"0x030200\" link_speed=\"8.0 GT/s PCIe\" "
                "link_width=\"16\"><gpu dev=\"%u\" sm=\"70\" rank=\"%u\" gdr=\"0\">",
                16 + i, i, i);
        for (unsigned k = 0; k < n; k++) {
            if (links[i][k])
                fprintf(to, "<nvlink target=\"0000:%02x:00.0\" count=\"%u\" tclass=\"0x030200\"/>",
                        16 + k, links[i][k]);
            any += links[i][k];
        }
        if (!any)
            fprintf(to, "<nvlink target=\"0000:f0:00.0\" count=\"1\" tclass=\"0x068000\"/>");
        fprintf(to, "</gpu></pci>");
    }
    fprintf(to,
            "</cpu></system></host><cost link=\"nvlink\" beta-gbs=\"%g\"/>"
            "<cost link=\"pcie\" beta-gbs=\"0.001\"/></peal>",
            gbs);
    (void)fclose(to);
    ck_assert_msg(peal_fabric_parse(ctx, text, bytes, "mesh", NULL, &diag, &fabric) == PEAL_OK,
                  "%s", diag.text);
    free(text);
    return fabric;
}

static const struct network {
    const char *name; /* as the row begins */
    void (*make)(unsigned, unsigned);
    unsigned first;
    unsigned second;
    double unit; /* GB/s that the row counts as 1 */
    double gbs;  /* of the first rank's links, in that unit */
} networks[] = {
    {"ring-8 bidirectional", ring, 8, 1, 10, 2},
    {"ring-8 unidirectional", ring, 8, 0, 10, 1 + 1.0 / ONE_WAY},
    {"hypercube-3", hypercube, 3, 0, 10, 3},
    {"hypercube-4", hypercube, 4, 0, 10, 4},
    {"torus 4x4", grid, 4, 1, 10, 4},
    {"mesh 3x3", grid, 3, 0, 10, 2},
    {"mesh 4x4", grid, 4, 0, 10, 2},
    {"star-4", NULL, 4, 0, 10, 1},
    {"star-8", NULL, 8, 0, 10, 1},
    {"DGX-1 V100", dgx1, 0, 0, 1, 150},
    {"DGX A100, 1 box", NULL, 1, 0, 1, 0},
    {"DGX A100, 2 boxes", NULL, 2, 0, 1, 0},
    {"DGX A100, 4 boxes", NULL, 4, 0, 1, 0},
    {"DGX A100, 8 boxes", NULL, 8, 0, 1, 0},
};
#define NETWORKS (sizeof networks / sizeof networks[0])

static const struct network *network_of(const char *row)
{
    for (size_t i = 0; i < NETWORKS; i++)
        if (!strncmp(row, networks[i].name, strlen(networks[i].name)))
            return &networks[i];
    ck_abort_msg("no such network is known here: %s", row);
    return NULL;
}

static peal_fabric *fabric_of(const struct network *network, unsigned ranks)
{
    memset(links, 0, sizeof links);
    if (network->gbs == 0)
        return test_boxes_of_a100(ctx, network->first);
    if (network->make)
        network->make(network->first, network->second);
    return mesh(ranks, network->gbs * network->unit);
}

/* ---- plans ------------------------------------------------------------------------------ */

static peal_row_info planned(const peal_fabric *fabric, peal_collective collective,
                             const char *algorithm)
{
    peal_request request = PEAL_REQUEST_INIT;
    request.collective = collective;
    request.algorithm = algorithm;
    request.min_bytes = request.max_bytes = BYTES;
    return test_planned_row(ctx, fabric, &request);
}

/* Trees from a root, as the detail says. */
static unsigned long trees_of(const peal_row_info *row)
{
    return strcmp(row->algorithm, "packed") == 0 ? strtoul(row->detail, NULL, 10) : 0;
}

static void check_collective(const char *name, const peal_fabric *fabric,
                             peal_collective collective, double optimum, unsigned long trees)
{
    peal_row_info row = planned(fabric, collective, NULL);
    printf("%-24.24s %-14s %8.3f of %8.3f GB/s  %s, %s\n", name, peal_collective_name(collective),
           row.algbw_gbs, optimum, row.algorithm, row.detail);
    ck_assert_msg(row.algbw_gbs >= CLOSE * optimum, "%s, %s: %g GB/s, not %g", name,
                  peal_collective_name(collective), row.algbw_gbs, optimum);
    ck_assert_double_le(row.bound_us, row.time_us * (1 + 1e-9));
    ck_assert_uint_eq(row.move_engines[PEAL_LINK_PCIE], 0);
    if (trees)
        ck_assert_uint_le(trees_of(&row), trees);
}

static double ratio(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    return *end == '/' ? value / strtod(end + 1, NULL) : value;
}

static void check_row(char **field)
{
    const struct network *network = network_of(field[0]);
    double optimum = ratio(field[3]) * network->unit;
    unsigned long trees = strtoul(field[4], NULL, 10);
    peal_fabric *fabric = fabric_of(network, (unsigned)strtoul(field[1], NULL, 10));
    check_collective(field[0], fabric, PEAL_ALLGATHER, optimum, trees);
    check_collective(field[0], fabric, PEAL_REDUCE_SCATTER, optimum, trees);
    check_collective(field[0], fabric, PEAL_ALLREDUCE, optimum / 2, trees);
    peal_fabric_destroy(fabric);
}

START_TEST(every_row)
{
    unsigned rows = test_optimum_rows(check_row);
    ck_assert(rows == NETWORKS || !test_corpus_path(""));
}
END_TEST

/* Broadcast and reduce reach the least cut around their root. */
START_TEST(rooted)
{
    static const struct {
        const char *name;
        unsigned ranks;
        double algbw;
    } rows[] = {{"hypercube-3", 8, 30}, {"mesh 3x3", 9, 20}, {"DGX-1 V100", 8, 150}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        peal_fabric *fabric = fabric_of(network_of(rows[i].name), rows[i].ranks);
        check_collective(rows[i].name, fabric, PEAL_BROADCAST, rows[i].algbw, 0);
        check_collective(rows[i].name, fabric, PEAL_REDUCE, rows[i].algbw, 0);
        peal_fabric_destroy(fabric);
    }
}
END_TEST

/* All ranks can send to each other, but rank 0 receives from rank 1 alone: the bounds differ, and
 * so do the trees. */
START_TEST(one_way_streets)
{
    memset(links, 0, sizeof links);
    for (unsigned i = 0; i < 5; i++)
        for (unsigned k = 1; k < 5; k++)
            links[i][k] = i != k ? ONE_WAY : 0;
    links[1][0] = ONE_WAY;
    for (unsigned i = 2; i < 5; i++)
        links[i][0] = 1;
    peal_fabric *fabric = mesh(5, 40);
    for (unsigned c = 0; c < PEAL_CUSTOM; c++) {
        static const unsigned served = 1u << PEAL_ALLGATHER | 1u << PEAL_REDUCE_SCATTER |
                                       1u << PEAL_ALLREDUCE | 1u << PEAL_BROADCAST |
                                       1u << PEAL_REDUCE;
        if (!(served >> c & 1))
            continue;
        peal_row_info row = planned(fabric, (peal_collective)c, "packed");
        printf("one-way streets: %s %.2f GB/s, %.3f of the bound, %s\n",
               peal_collective_name((peal_collective)c), row.algbw_gbs, row.bound_us / row.time_us,
               row.bound_cut);
        ck_assert_double_le(row.bound_us, row.time_us * (1 + 1e-9));
        if (c != PEAL_ALLREDUCE)
            ck_assert_double_ge(row.bound_us, CLOSE * row.time_us);
    }
    peal_row_info gather = planned(fabric, PEAL_ALLGATHER, NULL);
    peal_row_info scatter = planned(fabric, PEAL_REDUCE_SCATTER, NULL);
    ck_assert_double_ge(gather.bound_us, 2.9 * scatter.bound_us);
    ck_assert_ptr_nonnull(strstr(gather.bound_cut, "send"));
    ck_assert_ptr_nonnull(strstr(scatter.bound_cut, "get from"));
    peal_fabric_destroy(fabric);
}
END_TEST

/* ---- proofs and lack of memory ------------------------------------------------------------ */

static peal_status compiled(peal_ctx *with, void *user)
{
    peal_request request = *(const peal_request *)user;
    peal_fabric *fabric = NULL;
    peal_table *table = NULL;
    peal_status status = peal_fabric_load(
        with, test_source_path("examples/topologies/dgx1-v100.xml"), NULL, &fabric);
    if (status == PEAL_OK)
        status = peal_table_plan(with, fabric, &request, NULL, &table);
    if (status == PEAL_OK)
        status = peal_table_compile(table, fabric, NULL);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    return status;
}

START_TEST(out_of_memory)
{
    peal_request request = PEAL_REQUEST_INIT;
    uint64_t runs;
    request.collective = PEAL_ALLREDUCE;
    request.algorithm = "packed";
    request.ranks = 3;
    request.channels = 1;
    request.tile_bytes = 4096;
    request.min_bytes = request.max_bytes = 1 << 20;
    ck_assert_int_eq(test_oom_sweep(compiled, &request, 0, &runs), 0);
    printf("%llu allocations failed in turn\n", (unsigned long long)runs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("optimum");
    TCase *tests = tcase_create("optimum");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, every_row);
    tcase_add_test(tests, rooted);
    tcase_add_test(tests, one_way_streets);
    tcase_add_test(tests, out_of_memory);
    tcase_set_timeout(tests, 280);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_NOFORK);
}
