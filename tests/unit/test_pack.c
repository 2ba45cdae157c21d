/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spanning trees of switched networks: every row of oracles/throughput-optimum.tsv, random networks
 * against all their cuts, forests that are spoilt, networks that cannot be, lack of memory.
 */
#include "networks.h"
#include "pack.h"
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>
#include <time.h>

#define EDGES_MAX 8192
#define RANDOM_GRAPHS 600

static peal_ctx *ctx;
static struct test_heap heap;

/* ---- networks ------------------------------------------------------------------ */

static struct pack_edge edges[EDGES_MAX];
static struct pack_graph graph;

static void begin(uint32_t compute, uint32_t switches)
{
    graph = (struct pack_graph){compute, switches, 0, edges};
}

static void one_way(uint32_t from, uint32_t to, uint64_t capacity)
{
    ck_assert_uint_lt(graph.nedges, EDGES_MAX);
    edges[graph.nedges++] = (struct pack_edge){from, to, capacity};
}

static void both_ways(uint32_t a, uint32_t b, uint64_t capacity)
{
    one_way(a, b, capacity);
    one_way(b, a, capacity);
}

static void ring(uint32_t n, uint32_t both)
{
    begin(n, 0);
    for (uint32_t i = 0; i < n; i++) {
        one_way(i, (i + 1) % n, 1);
        if (both)
            one_way((i + 1) % n, i, 1);
    }
}

static void link_both_ways(unsigned a, unsigned b, unsigned count)
{
    both_ways(a, b, count);
}

static void hypercube(uint32_t dimensions, uint32_t unused)
{
    (void)unused;
    begin(1u << dimensions, 0);
    test_hypercube(dimensions, link_both_ways);
}

static void grid(uint32_t side, uint32_t wrap)
{
    begin(side * side, 0);
    test_grid(side, wrap, link_both_ways);
}

static void star(uint32_t n, uint32_t unused)
{
    (void)unused;
    begin(n, 1);
    for (uint32_t i = 0; i < n; i++)
        both_ways(i, n, 1);
}

static void nvlinks(unsigned a, unsigned b, unsigned count)
{
    both_ways(a, b, 25 * (uint64_t)count);
}

static void dgx1(uint32_t unused, uint32_t unused_too)
{
    (void)unused;
    (void)unused_too;
    begin(8, 0);
    test_dgx1(nvlinks);
}

/* Boxes of eight with a switch each, and a network switch between them. */
static void boxes_of(uint32_t boxes, uint64_t inside, uint64_t between)
{
    uint32_t n = 8 * boxes;
    begin(n, boxes + (boxes > 1));
    for (uint32_t i = 0; i < n; i++) {
        both_ways(i, n + i / 8, inside);
        if (boxes > 1)
            both_ways(i, n + boxes, between);
    }
}

static void a100(uint32_t boxes, uint32_t unused)
{
    (void)unused;
    boxes_of(boxes, 300, 25);
}

/* Leaves of `width` nodes, every leaf on every spine. */
static void fat_tree(uint32_t leaves, uint32_t width, uint32_t spines, uint64_t down, uint64_t up)
{
    uint32_t n = leaves * width;
    begin(n, leaves + spines);
    for (uint32_t i = 0; i < n; i++)
        both_ways(i, n + i / width, down);
    for (uint32_t l = 0; l < leaves; l++)
        for (uint32_t s = 0; s < spines; s++)
            both_ways(n + l, n + leaves + s, up);
}

/* Boxes of eight: six switches in each, a leaf for each rail, spines between leaves. */
static void rails(uint32_t boxes, uint32_t spines, uint64_t up)
{
    uint32_t n = 8 * boxes;
    uint32_t leaf = n + 6 * boxes;
    begin(n, 6 * boxes + 8 + spines);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t s = 0; s < 6; s++)
            both_ways(i, n + i / 8 * 6 + s, 75);
        both_ways(i, leaf + i % 8, 50);
    }
    for (uint32_t l = 0; l < 8; l++)
        for (uint32_t s = 0; s < spines; s++)
            both_ways(leaf + l, leaf + 8 + s, up);
}

/* ---- asking ----------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct pack_optimum best(void)
{
    struct pack_optimum optimum;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_pack_optimum(ctx, &graph, &diag, &optimum) == PEAL_OK, "%s", diag.text);
    return optimum;
}

static struct pack_rate fixed(const struct pack_rate *ideal, uint64_t trees)
{
    struct pack_rate rate;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_pack_fixed(ctx, &graph, ideal, trees, &diag, &rate) == PEAL_OK, "%s",
                  diag.text);
    return rate;
}

/* A forest that has been proven. */
static struct pack_forest packed(const struct pack_rate *rate)
{
    struct pack_forest forest;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_pack_trees(ctx, &graph, rate, &diag, &forest) == PEAL_OK, "%s", diag.text);
    ck_assert_msg(peal_pack_check(ctx, &graph, &forest, &diag) == PEAL_OK, "%s", diag.text);
    ck_assert_uint_eq(forest.rate.trees, rate->trees);
    return forest;
}

static double algbw(const struct pack_rate *rate)
{
    double roots = rate->root == PACK_EVERY_ROOT ? graph.compute : 1;
    return roots * (double)rate->trees * (double)rate->den / (double)rate->num;
}

static void setup(void)
{
    ctx = test_ctx(&heap);
}

static void teardown(void)
{
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

/* ---- the oracle ---------------------------------------------------------------------- */

static const struct topology {
    const char *name; /* as the row begins */
    void (*make)(uint32_t, uint32_t);
    uint32_t first;
    uint32_t second;
    uint32_t depth; /* that the trees are known to need at most */
} topologies[] = {
    {"ring-8 bidirectional", ring, 8, 1, 4},
    {"ring-8 unidirectional", ring, 8, 0, 7},
    {"hypercube-3", hypercube, 3, 0, 4},
    {"hypercube-4", hypercube, 4, 0, 4},
    {"torus 4x4", grid, 4, 1, 4},
    {"mesh 3x3", grid, 3, 0, 4},
    {"mesh 4x4", grid, 4, 0, 6},
    {"star-4", star, 4, 0, 1},
    {"star-8", star, 8, 0, 1},
    {"DGX-1 V100", dgx1, 0, 0, 3},
    {"DGX A100, 1 box", a100, 1, 0, 1},
    {"DGX A100, 2 boxes", a100, 2, 0, 2},
    {"DGX A100, 4 boxes", a100, 4, 0, 2},
    {"DGX A100, 8 boxes", a100, 8, 0, 2},
};

static const struct topology *topology_of(const char *name)
{
    for (size_t i = 0; i < sizeof topologies / sizeof *topologies; i++)
        if (!strncmp(name, topologies[i].name, strlen(topologies[i].name)))
            return &topologies[i];
    ck_abort_msg("no such network is known here: %s", name);
    return NULL;
}

/* "64/15" exactly, "171.43 GB/s" to its digits. */
static void check_algbw(const struct pack_optimum *optimum, const char *text)
{
    char *end;
    uint64_t num = strtoull(text, &end, 10);
    uint64_t den = *end == '/' ? strtoull(end + 1, NULL, 10) : 1;
    if (*end == '.')
        ck_assert_double_eq_tol(algbw(&optimum->rate), strtod(text, NULL), 0.005001);
    else
        ck_assert_uint_eq(graph.compute * optimum->den * den, num * optimum->num);
}

/* r is what its cut says, counted here anew. */
static void check_cut(const struct pack_optimum *optimum)
{
    uint32_t inside = 0;
    uint64_t leaving = 0;
    for (uint32_t v = 0; v < graph.compute; v++)
        inside += (uint32_t)peal_pack_cut_has(&optimum->cut, v);
    for (uint32_t i = 0; i < graph.nedges; i++)
        if (peal_pack_cut_has(&optimum->cut, edges[i].from) &&
            !peal_pack_cut_has(&optimum->cut, edges[i].to))
            leaving += edges[i].capacity;
    ck_assert_uint_lt(inside, graph.compute);
    ck_assert_uint_eq(inside, optimum->cut.compute);
    ck_assert_uint_eq(leaving, optimum->cut.capacity);
    ck_assert_uint_eq(inside * optimum->den, leaving * optimum->num);
}

static void check_row(char **field)
{
    const struct topology *topology = topology_of(field[0]);
    topology->make(topology->first, topology->second);
    ck_assert_uint_eq(graph.compute, strtoul(field[1], NULL, 10));
    double begun = seconds();
    struct pack_optimum optimum = best();
    double found = seconds();
    struct pack_forest forest = packed(&optimum.rate);
    double done = seconds();
    printf("%-24.24s %8.2f k %-3llu trees %-3u depth %u  optimum %.2f ms, trees %.2f ms\n",
           field[0], algbw(&optimum.rate), (unsigned long long)optimum.rate.trees, forest.ntrees,
           peal_pack_depth(&forest), 1e3 * (found - begun), 1e3 * (done - found));
    check_algbw(&optimum, field[3]);
    check_cut(&optimum);
    if (field[4][0] != '-')
        ck_assert_uint_eq(optimum.rate.trees, strtoul(field[4], NULL, 10));
    ck_assert_uint_le(peal_pack_depth(&forest), topology->depth);
    peal_pack_forest_free(&forest);
    peal_pack_cut_free(&optimum.cut);
}

START_TEST(every_row)
{
    unsigned rows = test_optimum_rows(check_row);
    ck_assert(rows == sizeof topologies / sizeof *topologies || !test_corpus_path(""));
}
END_TEST

/* ---- other networks by name ------------------------------------------------------------- */

static struct pack_forest forest_of(uint64_t trees, double expected)
{
    struct pack_optimum optimum = best();
    struct pack_rate rate = trees ? fixed(&optimum.rate, trees) : optimum.rate;
    ck_assert_double_eq_tol(algbw(&rate), expected, 0.005001);
    struct pack_forest forest = packed(&rate);
    peal_pack_cut_free(&optimum.cut);
    return forest;
}

static void check_forest(uint64_t trees, double expected, uint32_t depth)
{
    struct pack_forest forest = forest_of(trees, expected);
    ck_assert_uint_le(peal_pack_depth(&forest), depth);
    peal_pack_forest_free(&forest);
}

START_TEST(fixed_numbers_of_trees)
{
    a100(2, 0);
    check_forest(1, 342.86, 2);
    check_forest(2, 342.86, 2);
    check_forest(4, 342.86, 2);
    check_forest(13, 346.67, 2);
    check_forest(26, 346.67, 2);
    boxes_of(2, 450, 50);
    check_forest(0, 533.33, 2);
    check_forest(1, 514.29, 2);
}
END_TEST

static struct pack_rate broadcast(uint32_t root, double expected)
{
    struct pack_rate rate;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_pack_broadcast_bound(ctx, &graph, root, &diag, &rate) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_uint_eq(rate.root, root);
    ck_assert_double_eq_tol(algbw(&rate), expected, 1e-9);
    return rate;
}

START_TEST(broadcasts)
{
    a100(2, 0); /* the root's box has 200 to the other one, the root itself 325 */
    struct pack_rate rate = broadcast(3, 200.0);
    struct pack_forest forest = packed(&rate);
    ck_assert_uint_eq(rate.trees, 8);
    ck_assert_uint_le(peal_pack_depth(&forest), 4);
    peal_pack_forest_free(&forest);
    star(8, 0); /* one tree is a chain, seven go to everyone in two hops */
    rate = broadcast(0, 1.0);
    ck_assert_uint_eq(rate.trees, 1);
    forest = packed(&rate);
    ck_assert_uint_eq(peal_pack_depth(&forest), 7);
    peal_pack_forest_free(&forest);
    rate = fixed(&rate, 7);
    forest = packed(&rate);
    ck_assert_double_eq_tol(algbw(&rate), 1.0, 1e-9);
    ck_assert_uint_eq(peal_pack_depth(&forest), 2);
    peal_pack_forest_free(&forest);
}
END_TEST

/* Two leaves and a trunk: the nodes' own links bind, however thin the trunk. */
START_TEST(dumbbells)
{
    for (uint64_t trunk = 1; trunk <= 4; trunk *= 2) {
        begin(8, 2);
        for (uint32_t i = 0; i < 8; i++)
            both_ways(i, 8 + i / 4, 1);
        both_ways(8, 9, trunk);
        check_forest(0, 8.0 / 7.0, trunk == 4 ? 1 : 7);
    }
    begin(8, 3); /* boxes of four, a NIC each */
    for (uint32_t i = 0; i < 8; i++) {
        both_ways(i, 8 + i / 4, 10);
        both_ways(i, 10, 1);
    }
    check_forest(0, 8.0, 2);
}
END_TEST

START_TEST(fat_trees)
{
    fat_tree(4, 4, 4, 1, 1);
    check_forest(0, 16.0 / 15.0, 1);
    fat_tree(4, 4, 2, 2, 2);
    check_forest(0, 32.0 / 15.0, 3);
    fat_tree(4, 4, 2, 8, 1);
    check_forest(0, 16.0 / 6.0, 4);
    rails(4, 4, 50);
    check_forest(0, 516.13, 3);
    check_forest(1, 480.0, 2); /* six thin links round down more than a thick one: 514.29 */
}
END_TEST

/* Rings of nodes that pass on, one behind a switch with two ports on it. */
START_TEST(parallel_links_add_up)
{
    begin(3, 1);
    both_ways(0, 1, 1);
    both_ways(1, 2, 1);
    both_ways(0, 3, 1);
    both_ways(3, 2, 1);
    both_ways(0, 1, 1);
    one_way(2, 2, 7);
    one_way(2, 0, 0);
    struct pack_forest forest = forest_of(0, 3.0);
    peal_pack_forest_free(&forest);
    ck_assert_ptr_null(forest.trees);
}
END_TEST

/* Paths of one hop lead through their switches in order. */
START_TEST(hops_name_their_switches)
{
    begin(2, 3);
    one_way(0, 2, 4);
    one_way(2, 4, 4);
    one_way(4, 3, 4);
    one_way(3, 1, 4);
    one_way(1, 0, 4);
    struct pack_forest forest = forest_of(0, 8.0);
    ck_assert_uint_eq(forest.ntrees, 2);
    const struct pack_hop *hop = peal_pack_hops(&forest, 0);
    ck_assert_uint_eq(forest.trees[0].root, 0);
    ck_assert_uint_eq(hop->from, 0);
    ck_assert_uint_eq(hop->to, 1);
    ck_assert_uint_eq(hop->vias, 3);
    ck_assert_uint_eq(forest.via[hop->via], 2);
    ck_assert_uint_eq(forest.via[hop->via + 1], 4);
    ck_assert_uint_eq(forest.via[hop->via + 2], 3);
    ck_assert_uint_eq(peal_pack_hops(&forest, 1)->vias, 0);
    peal_pack_forest_free(&forest);
}
END_TEST

START_TEST(same_input_same_trees)
{
    boxes_of(3, 450, 50);
    struct pack_optimum optimum = best();
    struct pack_forest a = packed(&optimum.rate);
    struct pack_forest b = packed(&optimum.rate);
    ck_assert_uint_eq(a.ntrees, b.ntrees);
    ck_assert_uint_eq(a.nvia, b.nvia);
    for (uint32_t i = 0; i < a.ntrees; i++)
        ck_assert(a.trees[i].root == b.trees[i].root && a.trees[i].depth == b.trees[i].depth &&
                  a.trees[i].multiplicity == b.trees[i].multiplicity);
    size_t hops = (size_t)a.ntrees * (a.compute - 1);
    ck_assert_mem_eq(a.hops, b.hops, hops * sizeof *a.hops);
    ck_assert_mem_eq(a.via, b.via, a.nvia * sizeof *a.via);
    peal_pack_forest_free(&a);
    peal_pack_forest_free(&b);
    peal_pack_cut_free(&optimum.cut);
}
END_TEST

/* ---- random networks, against all cuts ---------------------------------------------------- */

static uint64_t seed;

/* splitmix64 */
static uint32_t dice(uint32_t sides)
{
    seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = seed;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ z >> 31) % sides);
}

static uint32_t some_capacity(void)
{
    static const uint32_t capacities[] = {1, 1, 2, 3, 4, 6, 10, 25, 300};
    return capacities[dice(sizeof capacities / sizeof *capacities)];
}

enum kind { DIRECT, MIRRORED, LOPSIDED, KINDS };

/* DIRECT: no switches. MIRRORED: every link both ways. LOPSIDED: neither. */
static void random_graph(enum kind kind)
{
    uint32_t nodes = 3 + dice(6);
    uint32_t switches = kind == DIRECT ? 0 : dice(nodes - 1);
    uint32_t chance = 2 + dice(4);
    begin(nodes - switches, switches);
    for (uint32_t a = 0; a < nodes; a++)
        for (uint32_t b = 0; b < nodes; b++) {
            if (a == b || dice(6) > chance || (kind == MIRRORED && a > b))
                continue;
            if (kind == MIRRORED)
                both_ways(a, b, some_capacity());
            else
                one_way(a, b, some_capacity());
        }
}

/* Capacity that leaves a set of nodes, at floor(c x num / den). */
static uint64_t leaving(uint32_t set, uint64_t num, uint64_t den)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < graph.nedges; i++)
        if (set >> edges[i].from & 1 && !(set >> edges[i].to & 1))
            sum += edges[i].capacity * num / den;
    return sum;
}

static uint32_t inside(uint32_t set)
{
    uint32_t count = 0;
    for (uint32_t v = 0; v < graph.compute; v++)
        count += set >> v & 1;
    return count;
}

/* Is it a set that has to send something? `root`: PACK_EVERY_ROOT, or the one that does. */
static int sends(uint32_t set, uint32_t root)
{
    uint32_t count = inside(set);
    return count && count < graph.compute && (root == PACK_EVERY_ROOT || set >> root & 1);
}

/* Largest ratio over all sets; 0 when some set has no way out. */
static void worst_cut(uint64_t *num, uint64_t *den)
{
    *num = 0;
    *den = 1;
    for (uint32_t set = 1; set < 1u << (graph.compute + graph.switches); set++) {
        uint64_t out = sends(set, PACK_EVERY_ROOT) ? leaving(set, 1, 1) : 1;
        uint64_t in = sends(set, PACK_EVERY_ROOT) ? inside(set) : 0;
        if (!out) {
            *num = 0;
            return;
        }
        if (in * *den > out * *num) {
            *num = in;
            *den = out;
        }
    }
}

/* Whether floor(c x num / den) suffices for `trees` trees of every root, or of one. */
static int suffices(uint32_t root, uint64_t trees, uint64_t num, uint64_t den)
{
    for (uint32_t set = 1; set < 1u << (graph.compute + graph.switches); set++) {
        uint64_t roots = root == PACK_EVERY_ROOT ? inside(set) : 1;
        if (sends(set, root) && leaving(set, num, den) < roots * trees)
            return 0;
    }
    return 1;
}

static int sends_too_much(void)
{
    for (uint32_t v = graph.compute; v < graph.compute + graph.switches; v++) {
        uint64_t in = 0;
        uint64_t out = 0;
        for (uint32_t i = 0; i < graph.nedges; i++) {
            in += edges[i].to == v ? edges[i].capacity : 0;
            out += edges[i].from == v ? edges[i].capacity : 0;
        }
        if (out > in)
            return 1;
    }
    return 0;
}

/* Packs and proves; a network whose switches would have to copy may be refused. */
static int try_trees(const struct pack_rate *rate)
{
    struct pack_forest forest;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_pack_trees(ctx, &graph, rate, &diag, &forest);
    if (status == PEAL_ERR_UNSUPPORTED && graph.switches)
        return 0;
    ck_assert_msg(status == PEAL_OK, "%s", diag.text);
    ck_assert_msg(peal_pack_check(ctx, &graph, &forest, &diag) == PEAL_OK, "%s", diag.text);
    peal_pack_forest_free(&forest);
    return 1;
}

/* No j / c below the rate is enough, for any link's c; merged links make a c of their own. */
static void check_least(const struct pack_rate *rate)
{
    ck_assert(suffices(rate->root, rate->trees, rate->num, rate->den));
    for (uint32_t i = 0; i < graph.nedges; i++) {
        uint64_t c = edges[i].capacity;
        uint64_t j = (rate->num * c - 1) / rate->den; /* largest with j / c < num / den */
        ck_assert(!suffices(rate->root, rate->trees, j, c));
    }
}

static void check_fixed(const struct pack_rate *ideal, uint64_t trees, int exact)
{
    struct pack_rate rate;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_pack_fixed(ctx, &graph, ideal, trees, &diag, &rate);
    if (status == PEAL_ERR_UNSUPPORTED && !exact)
        return;
    ck_assert_msg(status == PEAL_OK, "%s", diag.text);
    ck_assert_uint_eq(rate.trees, trees);
    ck_assert_double_le(algbw(&rate), algbw(ideal) * (1 + 1e-12));
    if (exact)
        check_least(&rate);
    ck_assert_int_eq(try_trees(&rate), 1);
}

static void check_broadcast(int exact)
{
    struct pack_rate rate;
    uint32_t root = dice(graph.compute);
    uint64_t least = UINT64_MAX;
    for (uint32_t set = 1; set < 1u << (graph.compute + graph.switches); set++)
        if (sends(set, root) && leaving(set, 1, 1) < least)
            least = leaving(set, 1, 1);
    peal_status status = peal_pack_broadcast_bound(ctx, &graph, root, NULL, &rate);
    ck_assert_int_eq(status, least ? PEAL_OK : PEAL_ERR_INPUT);
    if (!least)
        return;
    ck_assert_uint_eq(rate.trees * rate.den, least * rate.num);
    ck_assert(try_trees(&rate) || !exact);
    check_fixed(&rate, 1 + dice(3), exact);
}

static int check_random(enum kind kind)
{
    uint64_t num;
    uint64_t den;
    struct pack_optimum optimum;
    random_graph(kind);
    int exact = !sends_too_much();
    check_broadcast(kind != LOPSIDED);
    worst_cut(&num, &den);
    peal_status status = peal_pack_optimum(ctx, &graph, NULL, &optimum);
    ck_assert_int_eq(status, num ? PEAL_OK : PEAL_ERR_INPUT);
    if (!num)
        return 0;
    ck_assert_uint_eq(optimum.num * den, optimum.den * num);
    check_cut(&optimum);
    ck_assert_double_eq_tol(algbw(&optimum.rate) * (double)num / (double)den, graph.compute, 1e-9);
    int done = try_trees(&optimum.rate);
    ck_assert(done || !exact);
    for (uint64_t trees = 1; trees < 4; trees++)
        check_fixed(&optimum.rate, trees, kind != LOPSIDED);
    peal_pack_cut_free(&optimum.cut);
    return done;
}

START_TEST(random_networks)
{
    int done[KINDS] = {0};
    seed = 1;
    for (int i = 0; i < RANDOM_GRAPHS; i++)
        for (int kind = 0; kind < KINDS; kind++)
            done[kind] += check_random((enum kind)kind);
    printf("random networks packed: %d direct, %d mirrored, %d lopsided, of %d each\n",
           done[DIRECT], done[MIRRORED], done[LOPSIDED], RANDOM_GRAPHS);
    ck_assert_int_gt(done[DIRECT], RANDOM_GRAPHS / 4);
    ck_assert_int_gt(done[MIRRORED], RANDOM_GRAPHS / 4);
    ck_assert_int_gt(done[LOPSIDED], 10);
}
END_TEST

/* Larger ones, where only the proof of the forest is asked for. */
START_TEST(random_fabrics)
{
    seed = 2;
    for (int i = 0; i < 40; i++) {
        uint32_t compute = 8 + dice(9);
        uint32_t switches = 1 + dice(8);
        begin(compute, switches);
        for (uint32_t v = 0; v < compute; v++)
            both_ways(v, compute + dice(switches), 1 + dice(40));
        for (uint32_t s = 1; s < switches; s++)
            both_ways(compute + s, compute + dice(s), 1 + dice(40));
        for (uint32_t e = 0; e < 2 * (compute + switches); e++)
            both_ways(dice(compute + switches), dice(compute + switches), 1 + dice(40));
        struct pack_optimum optimum = best();
        check_cut(&optimum);
        ck_assert_int_eq(try_trees(&optimum.rate), 1);
        check_fixed(&optimum.rate, 1 + dice(5), 0);
        peal_pack_cut_free(&optimum.cut);
    }
}
END_TEST

/* A flow moved from node to node is the flow that each would have drawn by itself. */
static int check_moves(struct pack_net *net)
{
    uint64_t drawn[8];
    int moves = 0;
    for (uint32_t v = 0; v < net->compute; v++)
        drawn[v] = peal_pack_net_draw(net, v);
    for (uint32_t a = 0; a < net->compute; a++)
        for (uint32_t b = 0; drawn[a] == net->need && b < net->compute; b++) {
            uint32_t c = (b + 1 + dice(net->compute - 1)) % net->compute;
            if (a == b || peal_pack_net_draw(net, a) != net->need)
                continue;
            moves++;
            ck_assert_uint_eq(peal_pack_flow_move(&net->flow, a, b, net->need), drawn[b]);
            if (drawn[b] == net->need)
                ck_assert_uint_eq(peal_pack_flow_move(&net->flow, b, c, net->need), drawn[c]);
        }
    return moves;
}

START_TEST(flows_that_move)
{
    int moves = 0;
    seed = 3;
    for (int i = 0; i < 3 * RANDOM_GRAPHS; i++) {
        struct pack_net net;
        random_graph((enum kind)(i % KINDS));
        struct pack_rate rate = {PACK_EVERY_ROOT, 1 + dice(3), 1 + dice(8), 1 + dice(3)};
        if (graph.compute < 2 ||
            peal_pack_net_init(&net, ctx, &graph, PACK_BOUND_NODES_MAX, NULL) != PEAL_OK)
            continue;
        ck_assert_int_eq(peal_pack_net_rate(&net, &rate), PEAL_OK);
        moves += check_moves(&net);
        peal_pack_net_free(&net);
    }
    printf("%d flows moved\n", moves);
    ck_assert_int_gt(moves, 1000);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------ */

static void refuses_optimum(peal_status expected)
{
    struct pack_optimum optimum;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_pack_optimum(ctx, &graph, &diag, &optimum), expected);
    ck_assert_int_eq(diag.status, expected);
    ck_assert_int_ne(diag.text[0], 0);
}

START_TEST(wrong_graphs)
{
    begin(1, 0);
    refuses_optimum(PEAL_ERR_ARG);
    begin(2, 0);
    refuses_optimum(PEAL_ERR_INPUT); /* no links */
    one_way(0, 1, 1);
    refuses_optimum(PEAL_ERR_INPUT); /* no way back */
    one_way(1, 2, 1);
    refuses_optimum(PEAL_ERR_INPUT); /* no such node */
    begin(2, 0);
    graph.edges = NULL;
    graph.nedges = 1;
    refuses_optimum(PEAL_ERR_ARG);
    begin(PACK_BOUND_NODES_MAX, 1);
    refuses_optimum(PEAL_ERR_LIMIT);
    begin(2, 0);
    one_way(0, 1, UINT64_MAX);
    one_way(1, 0, UINT64_MAX - 1);
    refuses_optimum(PEAL_ERR_LIMIT);
    one_way(0, 1, 1); /* together with the other one */
    refuses_optimum(PEAL_ERR_LIMIT);
    begin(2, 0);
    both_ways(0, 1, UINT64_C(1) << 61); /* as good as 1 */
    struct pack_optimum optimum = best();
    ck_assert_uint_eq(optimum.den, UINT64_C(1) << 61);
    ck_assert_uint_eq(optimum.rate.trees, 1);
    peal_pack_cut_free(&optimum.cut);
    begin(3, 0);
    both_ways(0, 1, UINT64_C(1) << 63);
    both_ways(1, 2, UINT64_C(1) << 63);
    both_ways(2, 0, UINT64_C(1) << 63); /* two of them are beyond 64 bits */
    refuses_optimum(PEAL_ERR_LIMIT);
}
END_TEST

START_TEST(wrong_rates)
{
    struct pack_forest forest;
    struct pack_rate rate = {PACK_EVERY_ROOT, 1, 1, 1};
    struct pack_rate fixed_rate;
    star(4, 0);
    ck_assert_int_eq(peal_pack_trees(ctx, &graph, &rate, NULL, &forest), PEAL_ERR_ARG);
    rate.root = 4;
    ck_assert_int_eq(peal_pack_trees(ctx, &graph, &rate, NULL, &forest), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_pack_fixed(ctx, &graph, &rate, 1, NULL, &fixed_rate), PEAL_ERR_ARG);
    rate.root = 0;
    ck_assert_int_eq(peal_pack_fixed(ctx, &graph, &rate, 0, NULL, &fixed_rate), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_pack_broadcast_bound(ctx, &graph, 4, NULL, &rate), PEAL_ERR_ARG);
    rate = (struct pack_rate){PACK_EVERY_ROOT, 1, 3, 1};
    ck_assert_int_eq(peal_pack_fixed(ctx, &graph, &rate, UINT64_MAX / 2, NULL, &fixed_rate),
                     PEAL_ERR_LIMIT);
    ck_assert_int_eq(peal_pack_fixed(ctx, &graph, &rate, UINT64_MAX / 4, NULL, &fixed_rate),
                     PEAL_ERR_LIMIT);
    rate = (struct pack_rate){PACK_EVERY_ROOT, UINT64_MAX, 1, UINT64_MAX - 1};
    ck_assert_int_eq(peal_pack_fixed(ctx, &graph, &rate, 1, NULL, &fixed_rate), PEAL_ERR_LIMIT);
    rate = (struct pack_rate){PACK_EVERY_ROOT, UINT64_MAX, 1, 1};
    ck_assert_int_eq(peal_pack_trees(ctx, &graph, &rate, NULL, &forest), PEAL_ERR_LIMIT);
    rate = (struct pack_rate){PACK_EVERY_ROOT, 1, UINT64_MAX, 1};
    ck_assert_int_eq(peal_pack_trees(ctx, &graph, &rate, NULL, &forest), PEAL_ERR_LIMIT);
    begin(PACK_TREE_NODES_MAX, 1);
    ck_assert_int_eq(peal_pack_trees(ctx, &graph, &rate, NULL, &forest), PEAL_ERR_LIMIT);
}
END_TEST

/* The cut bound would need the switch to send twice what it receives once. */
START_TEST(switches_do_not_copy)
{
    struct pack_forest forest;
    peal_diag diag = PEAL_DIAG_INIT;
    begin(3, 1);
    one_way(0, 3, 1);
    one_way(3, 1, 1);
    one_way(3, 2, 1);
    one_way(1, 0, 2);
    one_way(2, 0, 2);
    struct pack_optimum optimum = best();
    ck_assert_int_eq(peal_pack_trees(ctx, &graph, &optimum.rate, &diag, &forest),
                     PEAL_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(diag.text, "switch 3"));
    struct pack_rate slower = fixed(&optimum.rate, 1); /* which it can do without copying */
    ck_assert_double_lt(algbw(&slower), algbw(&optimum.rate) - 0.1);
    struct pack_forest trees = packed(&slower);
    peal_pack_forest_free(&trees);
    peal_pack_cut_free(&optimum.cut);
    one_way(1, 2, 2); /* now 2 has another way, and the switch can do without its second link */
    optimum = best();
    trees = packed(&optimum.rate);
    peal_pack_forest_free(&trees);
    peal_pack_cut_free(&optimum.cut);
}
END_TEST

/* ---- forests that are spoilt -------------------------------------------------------------------
 */

static void unproven(const struct pack_forest *forest, const char *text)
{
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_pack_check(ctx, &graph, forest, &diag), PEAL_ERR_UNPROVEN);
    ck_assert_msg(strstr(diag.text, text) != NULL, "%s", diag.text);
}

static void spoil_trees(struct pack_forest *forest)
{
    struct pack_tree *tree = &forest->trees[0];
    struct pack_tree kept = *tree;
    tree->multiplicity++;
    unproven(forest, "too many trees");
    tree->multiplicity = kept.multiplicity - 1;
    unproven(forest, kept.multiplicity == 1 ? "no number" : "its number of trees");
    *tree = kept;
    tree->multiplicity += forest->rate.trees;
    forest->rate.num *= 4; /* links have room for them, but the root has not so many */
    unproven(forest, "root 0 has too many trees");
    forest->rate.num /= 4;
    *tree = kept;
    tree->root = 1;
    unproven(forest, "not a tree");
    tree->root = forest->compute;
    unproven(forest, "no root");
    *tree = kept;
    tree->depth++;
    unproven(forest, "deep");
    *tree = kept;
    forest->ntrees--;
    unproven(forest, "its number of trees");
    forest->ntrees++;
}

static void spoil_hops(struct pack_forest *forest)
{
    struct pack_hop *hop = &forest->hops[forest->compute - 2];
    struct pack_hop kept = *hop;
    hop->to = hop->from;
    unproven(forest, "not a tree");
    *hop = kept;
    hop->vias = 0;
    unproven(forest, "there is none");
    *hop = kept;
    hop->via = forest->nvia;
    unproven(forest, "outside the forest");
    *hop = kept;
    uint32_t via = forest->via[hop->via];
    forest->via[hop->via] = 5;
    unproven(forest, "passes compute node");
    forest->via[hop->via] = forest->compute + graph.switches;
    unproven(forest, "there is none");
    forest->via[hop->via] = via;
}

START_TEST(spoilt_forests)
{
    a100(2, 0);
    struct pack_forest forest = forest_of(0, 346.67);
    spoil_trees(&forest);
    spoil_hops(&forest);
    forest.rate.num--; /* thinner links than the trees need */
    unproven(&forest, "too many trees");
    forest.rate.num++;
    forest.compute--;
    unproven(&forest, "another graph");
    forest.compute++;
    ck_assert_int_eq(peal_pack_check(ctx, &graph, &forest, NULL), PEAL_OK);
    peal_pack_forest_free(&forest);
}
END_TEST

/* ---- memory, arithmetic -------------------------------------------------------------------------
 */

static peal_status all_of_it(peal_ctx *with, void *user)
{
    struct pack_optimum optimum;
    struct pack_rate rate;
    struct pack_forest forest = {0};
    (void)user;
    peal_status status = peal_pack_optimum(with, &graph, NULL, &optimum);
    if (status != PEAL_OK)
        return status;
    status = peal_pack_fixed(with, &graph, &optimum.rate, 2, NULL, &rate);
    if (status == PEAL_OK)
        status = peal_pack_trees(with, &graph, &optimum.rate, NULL, &forest);
    if (status == PEAL_OK)
        status = peal_pack_check(with, &graph, &forest, NULL);
    if (status == PEAL_OK)
        status = peal_pack_broadcast_bound(with, &graph, 0, NULL, &rate);
    peal_pack_forest_free(&forest);
    peal_pack_cut_free(&optimum.cut);
    return status;
}

START_TEST(out_of_memory)
{
    uint64_t runs;
    begin(6, 3); /* two boxes of three */
    for (uint32_t i = 0; i < 6; i++) {
        both_ways(i, 6 + i / 3, 30);
        both_ways(i, 8, 4);
    }
    both_ways(0, 3, 1); /* lopsided enough for the second order of growth */
    ck_assert_int_eq(test_oom_sweep(all_of_it, NULL, 0, &runs), 0);
    printf("out of memory at each of %llu allocations\n", (unsigned long long)runs);
    ck_assert_uint_gt(runs, 50);
}
END_TEST

START_TEST(wide_arithmetic)
{
    uint64_t q;
    ck_assert_int_eq(peal_pack_muldiv_overflows(UINT64_MAX, UINT64_MAX, UINT64_MAX, &q), 0);
    ck_assert_uint_eq(q, UINT64_MAX);
    ck_assert_int_ne(peal_pack_muldiv_overflows(UINT64_MAX, 2, 1, &q), 0);
    ck_assert_int_eq(peal_pack_muldiv_overflows(UINT64_C(10) << 58, 6, 15, &q), 0);
    ck_assert_uint_eq(q, UINT64_C(4) << 58);
    seed = 3;
    for (int i = 0; i < 1000; i++) {
        uint64_t b = (uint64_t)dice(UINT32_MAX) << 31 | dice(UINT32_MAX) | 1;
        uint64_t d = b + dice(1000);
        ck_assert_int_eq(peal_pack_muldiv_overflows(d, b, d, &q), 0);
        ck_assert_uint_eq(q, b);
        ck_assert_int_eq(peal_pack_muldiv_overflows(d - 1, b, d, &q), 0);
        ck_assert_uint_eq(q, b - 1);
        ck_assert_int_eq(peal_pack_less(d - 1, d, d, d + 1), 1);
        ck_assert_int_eq(peal_pack_less(d, d + 1, d - 1, d), 0);
        ck_assert_int_eq(peal_pack_less(b, d, b, d), 0);
    }
    ck_assert_uint_eq(peal_pack_gcd(0, 12), 12);
    ck_assert_uint_eq(peal_pack_gcd(18, 12), 6);
}
END_TEST

START_TEST(large_networks)
{
    a100(16, 0);
    double begun = seconds();
    struct pack_optimum optimum = best();
    double found = seconds();
    struct pack_forest forest = packed(&optimum.rate);
    printf("128 nodes: optimum %.2f ms, trees %.1f ms, depth %u\n", 1e3 * (found - begun),
           1e3 * (seconds() - found), peal_pack_depth(&forest));
    peal_pack_forest_free(&forest);
    peal_pack_cut_free(&optimum.cut);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pack");
    TCase *tcase = tcase_create("pack");
    tcase_set_timeout(tcase, 240);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, every_row);
    tcase_add_test(tcase, fixed_numbers_of_trees);
    tcase_add_test(tcase, broadcasts);
    tcase_add_test(tcase, dumbbells);
    tcase_add_test(tcase, fat_trees);
    tcase_add_test(tcase, parallel_links_add_up);
    tcase_add_test(tcase, hops_name_their_switches);
    tcase_add_test(tcase, same_input_same_trees);
    tcase_add_test(tcase, random_networks);
    tcase_add_test(tcase, random_fabrics);
    tcase_add_test(tcase, flows_that_move);
    tcase_add_test(tcase, wrong_graphs);
    tcase_add_test(tcase, wrong_rates);
    tcase_add_test(tcase, switches_do_not_copy);
    tcase_add_test(tcase, spoilt_forests);
    tcase_add_test(tcase, out_of_memory);
    tcase_add_test(tcase, wide_arithmetic);
    tcase_add_test(tcase, large_networks);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
