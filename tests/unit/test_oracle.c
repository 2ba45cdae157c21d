/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every row of oracles/alpha-beta.tsv, reproduced by the planner: fabrics with the row's alpha
 * and beta are described in XML, schedules are planned on them, and what the cost model computes
 * from the schedule must equal the closed form that the row states.
 */
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

struct row {
    char id[64], quantity[128], inputs[256], unit[32];
    double expected, tolerance;
};

static peal_ctx *ctx;

static double input(const struct row *row, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "%s=", name);
    for (const char *p = row->inputs; (p = strstr(p, key)); p++)
        if (p == row->inputs || p[-1] == ' ')
            return strtod(p + strlen(key), NULL);
    ck_abort_msg("%s has no input %s", row->id, name);
    return 0;
}

/* ---- fabrics ------------------------------------------------------------------ */

static size_t add_gpu(char *xml, size_t at, size_t room, int i, int with_nic)
{
    at += (size_t)snprintf(xml + at, room - at,
                           "<pci busid=\"0000:%02x:00.0\" class=\"0x060400\" "
                           "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">"
                           "<pci busid=\"0000:%02x:00.0\" class=\"0x030200\" "
                           "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">"
                           "<gpu dev=\"%d\" sm=\"90\" rank=\"%d\" gdr=\"1\">"
                           "<nvlink target=\"0000:f0:00.0\" count=\"18\" tclass=\"0x068000\"/>"
                           "</gpu></pci>",
                           0x10 + i, 0x40 + i, i, i);
    if (with_nic)
        at += (size_t)snprintf(xml + at, room - at,
                               "<pci busid=\"0000:%02x:00.0\" class=\"0x020700\" "
                               "link_speed=\"64.0 GT/s PCIe\" link_width=\"16\"><nic>"
                               "<net name=\"mlx5_%d\" dev=\"%d\" speed=\"400000\" port=\"1\" "
                               "guid=\"0x%x\" gdr=\"1\"/></nic></pci>",
                               0x80 + i, i, i, 0x100 + i);
    return at + (size_t)snprintf(xml + at, room - at, "</pci>");
}

/* hosts x gpus, `nics` NICs a host; alpha and beta of the network and of NVLink. */
static peal_fabric *make_fabric(int hosts, int gpus, int nics, double net_alpha, double net_beta,
                                double nv_alpha, double nv_beta)
{
    static char xml[1 << 16];
    size_t room = sizeof xml;
    size_t at = (size_t)snprintf(
        xml, room,
        "<peal version=\"1\" name=\"oracle\"><host name=\"h\" count=\"%d\"><system version=\"1\">"
        "<cpu numaid=\"0\" affinity=\"ffff\" arch=\"x86_64\" vendor=\"AuthenticAMD\" "
        "familyid=\"25\" modelid=\"1\">",
        hosts);
    for (int i = 0; i < gpus; i++)
        at = add_gpu(xml, at, room, i, i < nics);
    snprintf(xml + at, room - at,
             "</cpu></system></host>%s"
             "<cost link=\"pcie\" beta-gbs=\"10000\"/>"
             "<cost link=\"net\" alpha-us=\"%.17g\" beta-gbs=\"%.17g\"/>"
             "<cost link=\"nvlink\" alpha-us=\"%.17g\" beta-gbs=\"%.17g\"/></peal>",
             hosts > 1 ? "<network kind=\"rails\"/>" : "", net_alpha, net_beta, nv_alpha, nv_beta);
    peal_fabric *fabric;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_fabric_parse(ctx, xml, strlen(xml), "oracle", NULL, &diag, &fabric) ==
                      PEAL_OK,
                  "%u:%u: %s", diag.line, diag.column, diag.text);
    return fabric;
}

static peal_fabric *net_of(int hosts, double alpha, double beta)
{
    return make_fabric(hosts, 1, 1, alpha, beta, 0.8, 450);
}

/* ---- what peal computes ----------------------------------------------------------- */

/* The candidate of an algorithm that is neither tiled nor pipelined. */
static peal_row_info planned(peal_fabric *fabric, const char *algorithm, double bytes,
                             uint32_t channels)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_row_info info = {.size = sizeof info};
    request.algorithm = algorithm;
    request.channels = channels;
    request.min_bytes = request.max_bytes = (uint64_t)bytes;
    request.scratch_limit = 1ull << 50;
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    peal_row_info found = {0};
    for (uint32_t i = 0; peal_table_candidate(table, 0, i, &info) == PEAL_OK; i++)
        if (!info.tile_bytes && !found.size &&
            (strcmp(algorithm, "hierarchical") ||
             strstr(info.detail, "8 gateways a host, inner direct, outer ring")))
            found = info;
    ck_assert_uint_ne(found.size, 0);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    return found;
}

static double hop_us(double alpha, double beta, double bytes, double *alpha_out)
{
    peal_fabric *fabric = net_of(2, alpha, beta);
    peal_path_info path = {.size = sizeof path};
    ck_assert_int_eq(peal_fabric_path(fabric, 0, 1, &path), PEAL_OK);
    peal_fabric_destroy(fabric);
    if (alpha_out)
        *alpha_out = path.alpha_us;
    return path.alpha_us + bytes / (path.beta_gbs * 1e3);
}

static double ring_net_us(double n, double bytes, double alpha, double beta)
{
    return planned(net_of((int)n, alpha, beta), "ring", bytes, 1).time_us;
}

static double ring_nv_us(double n, double bytes, double alpha, double beta)
{
    return planned(make_fabric(1, (int)n, 0, 10, 45, alpha, beta), "ring", bytes, 16).time_us;
}

/* ---- rows, by what they ask ------------------------------------------------------- */

static int is(const struct row *row, const char *prefix)
{
    return !strncmp(row->id, prefix, strlen(prefix));
}

static double hop_row(const struct row *row)
{
    double alpha, t = hop_us(input(row, "alpha"), input(row, "beta"), input(row, "S"), &alpha);
    if (!strcmp(row->unit, "ratio"))
        return alpha / t;
    return is(row, "moe-serial") ? 15 * t : t;
}

static double sstar_row(const struct row *row)
{
    peal_fabric *fabric = net_of(2, input(row, "alpha"), input(row, "beta"));
    peal_path_info path = {.size = sizeof path};
    ck_assert_int_eq(peal_fabric_path(fabric, 0, 1, &path), PEAL_OK);
    peal_fabric_destroy(fabric);
    return path.alpha_us * path.beta_gbs * 1e3;
}

static double latency_row(const struct row *row, const char *algorithm)
{
    double alpha = strstr(row->inputs, "alpha=") ? input(row, "alpha") : 1;
    peal_row_info info = planned(net_of((int)input(row, "N"), alpha, 45), algorithm, 8, 1);
    return !strcmp(row->unit, "steps") ? info.alpha_us / alpha : info.alpha_us;
}

static double ring_row(const struct row *row)
{
    double n = input(row, "N"), alpha, beta;
    if (is(row, "ring-balance")) {
        alpha = input(row, "alpha");
        beta = input(row, "beta");
        peal_row_info info = planned(net_of((int)n, alpha, beta), "ring", 1e9, 1);
        return 1e9 * info.alpha_us / (info.time_us - info.alpha_us);
    }
    if (is(row, "ring-tp8-volume") || is(row, "ring-dp512")) {
        beta = is(row, "ring-dp512-bandwidth") ? input(row, "beta") : 45;
        peal_row_info info = planned(net_of((int)n, 10, beta), "ring", input(row, "S"), 1);
        double us = info.time_us - info.alpha_us;
        return !strcmp(row->unit, "bytes") ? us * beta * 1e3 : us * 1e-6;
    }
    if (is(row, "tp16"))
        return ring_net_us(n, input(row, "S"), input(row, "alpha"), input(row, "beta"));
    return ring_nv_us(n, input(row, "S"), input(row, "alpha"), input(row, "beta"));
}

static double cluster_row(const struct row *row)
{
    double s = input(row, "S");
    if (is(row, "ring-8nics")) {
        peal_row_info info =
            /* Two lanes for a NIC: one that folds as it sends moves 30 GB/s. */
            planned(make_fabric(64, 8, 8, 12, input(row, "beta"), 0.8, 450), "ring", s, 16);
        return (info.time_us - info.alpha_us) * 1e-6;
    }
    return planned(make_fabric(64, 8, 8, input(row, "nic_alpha"), input(row, "nic_beta"),
                               input(row, "nvlink_alpha"), input(row, "nvlink_beta")),
                   "hierarchical", s, 12)
               .time_us *
           1e-6;
}

/* A model's step, from the collectives that peal plans for its axes. */
static double estimate_row(const struct row *row)
{
    double tp = 320 * ring_nv_us(8, 134217728, 0.8, 450) * 1e-6;
    int sharded = strstr(row->id, "sharded") != NULL;
    double dp = ring_net_us(64, sharded ? 17.5e9 : 140e9, 10, 45) * 1e-6;
    double compute = 1.2, serial = compute + tp + dp, hidden = compute + tp + 0.1 * dp;
    if (is(row, "est-tp-message"))
        return input(row, "B") * input(row, "S") * input(row, "D") *
               (double)peal_dtype_size(PEAL_FLOAT16);
    if (is(row, "est-tp-total"))
        return tp;
    if (is(row, "est-dp"))
        return dp;
    if (is(row, "est-share"))
        return (tp + dp) / serial;
    if (is(row, "est-speedup"))
        return serial / hidden;
    return strstr(row->id, "overlap90") ? hidden : serial;
}

/* Ring allreduce of 8 elements on 4 ranks, rank r holding r + 1, run for real. */
struct simulated {
    peal_world *world;
    peal_table *table;
    uint32_t rank;
    float value;
};

static void *simulate_rank(void *opaque)
{
    struct simulated *s = opaque;
    peal_comm *comm;
    peal_diag diag = PEAL_DIAG_INIT;
    float in[8], out[8] = {0};
    for (int i = 0; i < 8; i++)
        in[i] = (float)(s->rank + 1);
    if (peal_comm_create(s->world, s->table, s->rank, &diag, &comm) != PEAL_OK)
        return NULL;
    if (peal_allreduce(comm, in, out, 8, PEAL_FLOAT32, PEAL_SUM, &diag) == PEAL_OK)
        s->value = out[0];
    for (int i = 1; i < 8; i++)
        if (out[i] != out[0])
            s->value = NAN;
    peal_comm_destroy(comm);
    return NULL;
}

static double simulated_row(const struct row *row)
{
    uint32_t n = (uint32_t)input(row, "N");
    peal_fabric *fabric;
    peal_table *table;
    peal_world *world;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    struct simulated ranks[8];
    pthread_t thread[8];
    request.algorithm = "ring";
    params.ranks = n;
    ck_assert_uint_le(n, 8);
    ck_assert_int_eq(peal_fabric_host(ctx, n, &diag, &fabric), PEAL_OK);
    ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, &diag, &table), PEAL_OK);
    ck_assert_int_eq(peal_table_compile(table, fabric, &diag), PEAL_OK);
    ck_assert_int_eq(peal_world_create(ctx, &params, table, &diag, &world), PEAL_OK);
    for (uint32_t r = 0; r < n; r++) {
        ranks[r] = (struct simulated){world, table, r, 0};
        ck_assert_int_eq(pthread_create(&thread[r], NULL, simulate_rank, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < n; r++)
        pthread_join(thread[r], NULL);
    for (uint32_t r = 1; r < n; r++)
        ck_assert(ranks[r].value == ranks[0].value);
    peal_world_destroy(world);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    return ranks[0].value;
}

static double computed(const struct row *row)
{
    if (is(row, "ring-sim"))
        return simulated_row(row);
    if (is(row, "est-"))
        return estimate_row(row);
    if (is(row, "hierarchical") || is(row, "ring-8nics"))
        return cluster_row(row);
    if (is(row, "ring-steps") || is(row, "ring-latency"))
        return latency_row(row, "ring");
    if (is(row, "tree-steps") || is(row, "tree-latency"))
        return latency_row(row, "tree");
    if (is(row, "ring-") || is(row, "tp16"))
        return ring_row(row);
    if (is(row, "sstar"))
        return sstar_row(row);
    if (is(row, "p2p") || is(row, "alpha-share") || is(row, "moe"))
        return hop_row(row);
    if (is(row, "decode-message"))
        return input(row, "B") * input(row, "D") * (double)peal_dtype_size(PEAL_FLOAT16);
    if (is(row, "tp-calls"))
        return input(row, "layers") * 4; /* after attention and MLP, forward and backward */
    if (is(row, "scaling-efficiency"))
        return input(row, "t1") / input(row, "t2");
    ck_abort_msg("no computation for row %s", row->id);
    return 0;
}

static int read_row(char *line, struct row *row)
{
    char *field[6];
    int n = 0;
    for (char *p = line; n < 6; n++) {
        field[n] = p;
        p = strchr(p, '\t');
        if (!p) {
            n++;
            break;
        }
        *p++ = 0;
    }
    if (n != 6 || !strcmp(field[0], "id"))
        return 0;
    snprintf(row->id, sizeof row->id, "%s", field[0]);
    snprintf(row->quantity, sizeof row->quantity, "%s", field[1]);
    snprintf(row->inputs, sizeof row->inputs, "%s", field[2]);
    row->expected = strtod(field[3], NULL);
    snprintf(row->unit, sizeof row->unit, "%s", field[4]);
    row->tolerance = strtod(field[5], NULL);
    return 1;
}

START_TEST(every_row)
{
    const char *path = test_corpus_path("../oracles/alpha-beta.tsv");
    struct test_heap heap;
    if (!path)
        return;
    size_t bytes;
    char *text = test_read_file(path, &bytes);
    ctx = test_ctx(&heap);
    int rows = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        struct row row;
        if (*line == '#' || !read_row(line, &row))
            continue;
        double got = computed(&row);
        double error = fabs(got - row.expected) / fabs(row.expected);
        printf("%-26s %16.9g %-6s expected %16.9g  error %.2g\n", row.id, got, row.unit,
               row.expected, error);
        /* The rows state their figures to six digits or so. */
        ck_assert_msg(error <= row.tolerance + 1e-12, "%s: %.9g, not %.9g", row.id, got,
                      row.expected);
        rows++;
    }
    ck_assert_int_ge(rows, 30);
    free(text);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

/* What facts/algorithms.md states of halves and stars, among hosts with a NIC each: 2 log2 N
 * start-ups (rounded up) and 2 (N - 1) / N S, and no more than the reduction behind what comes,
 * gamma: 8 lanes of 45 GB/s that read two and write one; of Swing by whole messages log2 N (alpha +
 * S / beta); of a star (N - 1) S in and out of one rank. */
START_TEST(halves_and_stars)
{
    static const int sizes[] = {2, 3, 6, 8, 12, 16, 64, 100};
    struct test_heap heap;
    ctx = test_ctx(&heap);
    const double s = 1e9, alpha = 10, beta = 45, move = s / (beta * 1e3);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double n = sizes[i], rounds = ceil(log2(n));
        double halves = 2 * rounds * alpha + 2 * (n - 1) / n * move;
        double gamma = (n - 1) / n * 1.5 * s / (8 * 45e3);
        double got = planned(net_of(sizes[i], alpha, beta), "halving", s, 8).time_us;
        ck_assert_msg(got >= halves * (1 - 1e-6) && got <= halves + gamma,
                      "halving of %d: %.9g, not %.9g", sizes[i], got, halves);
        got = planned(net_of(sizes[i], alpha, beta), "star", s, 32).time_us;
        if (n > 2)
            ck_assert_double_gt(got, 2 * alpha + 2 * (n - 1) * move - 1);
        if (n == 2 || sizes[i] & (sizes[i] - 1)) /* of two, whole messages are less */
            continue;
        got = planned(net_of(sizes[i], alpha, beta), "swing", s, 8).time_us;
        ck_assert_msg(got >= halves * (1 - 1e-6) && got <= halves + gamma,
                      "swing of %d: %.9g, not %.9g", sizes[i], got, halves);
        got = planned(net_of(sizes[i], alpha, beta), "swing", 8, 1).time_us;
        ck_assert_double_lt(got, rounds * alpha + 0.1);
    }
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("oracle");
    TCase *tcase = tcase_create("oracle");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, every_row);
    tcase_add_test(tcase, halves_and_stars);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
