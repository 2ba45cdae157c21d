/* SPDX-License-Identifier: Apache-2.0 */
/* Fits find planted start-ups, bandwidths and bends, with noise and wild times too; readers take
 * what programs print and refuse the rest with its line. */
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

static struct test_heap heap;
static peal_ctx *ctx;
static peal_measured *set;
static peal_diag diag;
static peal_point point[64];
static peal_fit fit;

static void setup(void)
{
    ctx = test_ctx(&heap);
    diag = (peal_diag)PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_measured_create(ctx, &set), PEAL_OK);
    fit = (peal_fit){.size = sizeof fit};
}

static void teardown(void)
{
    peal_measured_destroy(set);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

/* ---- planted lines: 8 B to 1 GiB, alpha 5 us, 10 GB/s up to 64 KiB, then 40 GB/s more slowly */

static double planted(double bytes, int lines)
{
    double time = 5 + bytes / 10e3;
    if (lines > 1 && bytes > 65536)
        time = 5 + 65536 / 10e3 + (bytes - 65536) / 40e3;
    if (lines > 2 && bytes > 16777216)
        time = planted(16777216, 2) + (bytes - 16777216) / 100e3;
    return time;
}

static uint32_t plant(int lines, double noise)
{
    uint64_t state = 88172645463325252ull;
    uint32_t count = 0;
    for (uint64_t bytes = 8; bytes <= 1u << 30; bytes *= 2) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        double off = noise * ((double)(state % 2001) / 1000 - 1);
        point[count++] = (peal_point){bytes, planted((double)bytes, lines) * (1 + off)};
    }
    return count;
}

static void fitted(uint32_t count)
{
    ck_assert_int_eq(peal_fit_points(ctx, point, count, 0, &diag, &fit), PEAL_OK);
}

static void near(double is, double want, double part)
{
    ck_assert_msg(fabs(is / want - 1) <= part, "%g, not %g within %g", is, want, part);
}

START_TEST(exact_lines)
{
    for (int lines = 1; lines <= 3; lines++) {
        fitted(plant(lines, 0));
        ck_assert_uint_eq(fit.segments, (uint32_t)lines);
        ck_assert_uint_eq(fit.parameters, 2 * (uint32_t)lines);
        near(fit.alpha_us, 5, 1e-6);
        near(fit.segment[0].beta_gbs, 10, 1e-6);
        near(fit.beta_gbs, lines == 1 ? 10 : lines == 2 ? 40 : 100, 1e-6);
        near(fit.crossover_bytes, fit.alpha_us * fit.beta_gbs * 1e3, 1e-12);
        ck_assert(fit.error < 1e-6);
        for (uint64_t bytes = 12; bytes < 1u << 29; bytes *= 3)
            near(peal_fit_time(&fit, bytes), planted((double)bytes, lines), 1e-6);
    }
    ck_assert_uint_eq(fit.segment[1].min_bytes, 65536);
    ck_assert_uint_eq(fit.segment[2].min_bytes, 16777216);
}
END_TEST

START_TEST(noise_and_wild_times)
{
    uint32_t count = plant(2, 0.03);
    fitted(count);
    near(fit.alpha_us, 5, 0.03);
    near(fit.beta_gbs, 40, 0.03);
    ck_assert(fit.segment[0].alpha_low_us < 5 && fit.segment[0].alpha_high_us > 5);
    double between = sqrt((double)fit.segment[1].min_bytes / 65536);
    ck_assert(between > 0.5 && between < 2);
    point[4].time_us *= 30;
    point[12].time_us *= 8;
    point[22].time_us *= 5;
    fitted(count);
    near(fit.alpha_us, 5, 0.05);
    near(fit.beta_gbs, 40, 0.05);
    ck_assert_uint_ge(fit.outliers, 3);
    ck_assert(fit.worst_error < -0.9 && fit.worst_bytes == point[4].bytes);
}
END_TEST

START_TEST(one_line_where_one_does)
{
    fitted(plant(1, 0.02));
    ck_assert_uint_eq(fit.segments, 1);
    plant(3, 0);
    ck_assert_int_eq(peal_fit_points(ctx, point, 28, 1, &diag, &fit), PEAL_OK);
    ck_assert_uint_eq(fit.segments, 1);
}
END_TEST

START_TEST(flat_and_repeated)
{
    for (uint32_t i = 0; i < 9; i++)
        point[i] = (peal_point){8ull << (i / 3 * 4), 20 + (double)(i % 3) - 0.1 * (i / 3.0)};
    fitted(9);
    ck_assert_uint_eq(fit.sizes, 3); /* medians of three */
    near(fit.alpha_us, 20.9, 0.02);
    ck_assert(fit.beta_gbs == 0 && fit.crossover_bytes == 0);
}
END_TEST

START_TEST(what_cannot_be_fitted)
{
    point[0] = (peal_point){8, 1};
    point[1] = (peal_point){8, 2};
    ck_assert_int_eq(peal_fit_points(ctx, point, 2, 0, &diag, &fit), PEAL_ERR_ARG);
    ck_assert_ptr_nonnull(strstr(diag.text, "2 sizes"));
    point[1] = (peal_point){16, NAN};
    ck_assert_int_eq(peal_fit_points(ctx, point, 2, 0, &diag, &fit), PEAL_ERR_ARG);
    point[1] = (peal_point){0, 1};
    ck_assert_int_eq(peal_fit_points(ctx, point, 2, 0, &diag, &fit), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_fit_points(ctx, point, 2, 5, &diag, &fit), PEAL_ERR_ARG);
    ck_assert_uint_eq(fit.segments, 0);
}
END_TEST

/* ---- other collectives and nodes */

START_TEST(other_shapes)
{
    peal_fit_shape from = {sizeof from, PEAL_ALLREDUCE, 8, 1}, to = from;
    fitted(plant(1, 0));
    near(peal_fit_time_as(&fit, &from, &to, 1 << 20), planted(1 << 20, 1), 1e-6);
    to.collective = PEAL_ALLGATHER; /* half the bytes move */
    near(peal_fit_time_as(&fit, &from, &to, 1 << 21), planted(1 << 20, 1), 1e-6);
    to.collective = PEAL_ALLTOALL; /* 14 messages of 3.4 us, beneath which nothing is done */
    near(peal_fit_time_as(&fit, &from, &to, 8), 5 + 14 * 3.4, 1e-6);
    near(peal_fit_time_as(&fit, &from, &to, 1 << 24), planted(1 << 23, 1), 1e-6);
    to = (peal_fit_shape){sizeof to, PEAL_ALLREDUCE, 16, 2};
    ck_assert(peal_fit_time_as(&fit, &from, &to, 8) == 0); /* the network was not measured */
    from = to;
    to = (peal_fit_shape){sizeof to, PEAL_ALLREDUCE, 32, 4}; /* 3 stages for 2, 1.5 bytes for 1 */
    near(peal_fit_time_as(&fit, &from, &to, 1 << 20), 5 * 1.5 + 1.5 * (1 << 20) / 10e3, 1e-6);
}
END_TEST

START_TEST(costs_of_links)
{
    peal_series_info info = {.size = sizeof info, .has_collective = 1, .ranks = 8, .nodes = 1};
    peal_profile_cost cost = {.size = sizeof cost};
    fitted(plant(1, 0));
    ck_assert_int_eq(peal_fit_cost(&fit, &info, 0, &diag, &cost), PEAL_ERR_ARG);
    info.has_link = 1;
    info.link = PEAL_LINK_NVLINK;
    info.collective = PEAL_ALLREDUCE;
    ck_assert_int_eq(peal_fit_cost(&fit, &info, 0, &diag, &cost), PEAL_OK);
    near(cost.alpha_us, 5.0 / 6, 1e-6);
    near(cost.beta_gbs, 10 * 14.0 / 8, 1e-6);
    info = (peal_series_info){.size = sizeof info, .has_collective = 1, .ranks = 16, .nodes = 2};
    info.collective = PEAL_ALLREDUCE;
    ck_assert_int_eq(peal_fit_cost(&fit, &info, 4, &diag, &cost), PEAL_OK);
    ck_assert_int_eq(cost.link, PEAL_LINK_NET);
    near(cost.beta_gbs, 2.5, 1e-6); /* all that a node sends, over its 4 NICs */
}
END_TEST

static char written[4096];
static peal_status keep(void *user, const char *data, size_t bytes)
{
    (void)user;
    if (strlen(written) + bytes >= sizeof written)
        return PEAL_ERR_LIMIT;
    strncat(written, data, bytes);
    return PEAL_OK;
}

START_TEST(profiles_load)
{
    peal_profile_cost cost = {sizeof cost, PEAL_LINK_SHM, 2.5, 12};
    peal_fabric *fabric;
    peal_fabric_info about = {.size = sizeof about};
    written[0] = '\0';
    ck_assert_int_eq(peal_profile_write(ctx, NULL, 1, 4, &cost, 1, keep, NULL, &diag), PEAL_OK);
    ck_assert_ptr_nonnull(strstr(written, "alpha-us=\"2.5\" beta-gbs=\"12\""));
    ck_assert_int_eq(peal_fabric_parse(ctx, written, strlen(written), "p", NULL, &diag, &fabric),
                     PEAL_OK);
    ck_assert_int_eq(peal_fabric_get(fabric, &about), PEAL_OK);
    ck_assert_uint_eq(about.ranks, 4);
    peal_fabric_destroy(fabric);
    cost.beta_gbs = NAN;
    ck_assert_int_eq(peal_profile_write(ctx, NULL, 1, 4, &cost, 1, keep, NULL, &diag),
                     PEAL_ERR_ARG);
}
END_TEST

/* ---- texts */

static peal_status read_text(const char *text)
{
    return peal_measured_read(set, text, strlen(text), "t", &diag);
}

static const peal_point *series(uint32_t index, peal_series_info *info)
{
    const peal_point *points;
    info->size = sizeof *info;
    ck_assert_int_eq(peal_measured_get(set, index, info, &points), PEAL_OK);
    return points;
}

static peal_status read_seed(const char *name)
{
    size_t bytes;
    char path[256];
    (void)snprintf(path, sizeof path, "tests/fuzz/corpus/measured/%s", name);
    char *text = test_read_file(test_source_path(path), &bytes);
    peal_status status = peal_measured_read(set, text, bytes, name, &diag);
    free(text);
    return status;
}

START_TEST(tables_of_programs)
{
    peal_series_info info;
    ck_assert_int_eq(read_seed("nccl.txt"), PEAL_OK);
    ck_assert_int_eq(read_seed("osu.txt"), PEAL_OK);
    ck_assert_int_eq(read_seed("columns.tsv"), PEAL_OK);
    ck_assert_uint_eq(peal_measured_count(set), 5);
    const peal_point *points = series(0, &info);
    ck_assert(info.points == 4 && info.ranks == 2 && info.nodes == 2 && info.line == 12);
    ck_assert(info.has_collective && info.collective == PEAL_ALLREDUCE);
    ck_assert(points[3].bytes == 1048576 && points[3].time_us == 117.10);
    points = series(1, &info);
    ck_assert(info.points == 4 && info.collective == PEAL_ALLREDUCE && points[0].time_us == 1.23);
    points = series(2, &info);
    ck_assert(info.points == 2 && !info.has_collective);
    near(points[1].time_us, 1048576 / 12000.0, 1e-12);
    points = series(3, &info);
    ck_assert_str_eq(info.name, "a");
    ck_assert(info.has_link && info.link == PEAL_LINK_NVLINK && info.ranks == 8);
    (void)series(4, &info);
    ck_assert(info.nodes == 2 && info.collective == PEAL_ALLTOALL && !info.has_link);
}
END_TEST

static void reads(const char *text, uint32_t at, uint32_t ranks, uint32_t nodes, double first_us,
                  double last_us)
{
    peal_series_info info;
    ck_assert_msg(read_text(text) == PEAL_OK, "%s:%u: %s", text, diag.line, diag.text);
    ck_assert_uint_eq(peal_measured_count(set), at + 1);
    const peal_point *points = series(at, &info);
    ck_assert_msg(info.ranks == ranks && info.nodes == nodes && info.points >= 2 &&
                      fabs(points[0].time_us / first_us - 1) < 1e-9 &&
                      fabs(points[info.points - 1].time_us / last_us - 1) < 1e-9,
                  "%u ranks, %u nodes, %u points, %g, %g of %s", info.ranks, info.nodes,
                  info.points, points[0].time_us, points[info.points - 1].time_us, text);
}

/* The text of a log, with what stands before each line of it. */
static const char *log_of(const char *before, const char *end)
{
    static char text[4096];
    static const char *const lines[] = {
        "#  Rank  0 Group  0 Pid  1 on node-a device  0 [0000:04:00] NVIDIA H100",
        "#  Rank 15 Group  0 Pid  2 on node-b device  7 [0000:8c:00] NVIDIA H100",
        "#                                         out-of-place            in-place",
        "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw  #wrong",
        "#   (B)  (elements)                (us)  (GB/s)  (GB/s)       (us)  (GB/s)  (GB/s)",
        "      8       2    float  sum  -1  12.90  0.00  0.00  0    12.87   0.00    0.00      0",
        "node-a:123:456 [0] NCCL WARN a warning of 2 lines",
        "31 more processes have sent help message help-mpi-btl-openib.txt",
        "     16       4    float  sum  -1  22.25  0.00  0.00  N/A  13.34   0.00    0.00    N/A",
        "# Out of bounds values : 0 OK",
        "# Avg bus bandwidth    : 92.3405"};
    text[0] = '\0';
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%s%s%s", before, lines[i], end);
    }
    return text;
}

START_TEST(logs)
{
    static const char *const before[] = {"",
                                         "[1,0]<stdout>:",
                                         " 0: ",
                                         "node-a: ",
                                         "[0] ",
                                         "> ",
                                         "worker-0  | ",
                                         "    ",
                                         "[job-7@1,0]<stdout>: ",
                                         "Mon Nov  2 10:11:12 2026<stdout>:",
                                         "2026-11-02T10:11:12.123456789Z ",
                                         "10:11:12 "};
    uint32_t count = sizeof before / sizeof *before;
    for (uint32_t i = 0; i < count; i++)
        reads(log_of(before[i], "\n"), i, 16, 2, 12.9, 22.25);
    reads(log_of("", "\r\n"), count, 16, 2, 12.9, 22.25);
    char text[4096];
    (void)snprintf(text, sizeof text, "\xef\xbb\xbf%s", log_of("", "\n"));
    reads(text, count + 1, 16, 2, 12.9, 22.25);
}
END_TEST

/* Those of a log are of the tables behind them, and each run of a program has its own. */
START_TEST(several_runs)
{
    peal_series_info info;
    ck_assert_int_eq(read_text("# Rank 0 on a\n# Rank 1 on b\n# size time\n8 1\n"
                               "+ mpirun -np 3 ./build/all_gather_perf -b 8\n"
                               "# Rank 0 on a\n# Rank 1 on a\n# Rank 2 on a\n# size time\n8 1\n"),
                     PEAL_OK);
    (void)series(0, &info);
    ck_assert(info.ranks == 2 && info.nodes == 2 && !info.has_collective);
    (void)series(1, &info);
    ck_assert(info.ranks == 3 && info.nodes == 1 && info.collective == PEAL_ALLGATHER);
}
END_TEST

/* Where only one of both placements was measured, and where the first has none. */
START_TEST(placements)
{
    static const char head[] = "# size count type redop root time algbw busbw #wrong time algbw "
                               "busbw #wrong timestamp\n";
    char text[512];
    (void)snprintf(text, sizeof text,
                   "%s8 2 float sum -1 45.12 1 1 0 2026-11-02 10:11:12\n"
                   "16 4 float sum -1 50 1 1 0 2026-11-02 10:11:13\n",
                   head);
    reads(text, 0, 0, 0, 45.12, 50);
    (void)snprintf(text, sizeof text,
                   "%s8 2 float sum -1 N/A N/A N/A N/A 7 1 1 0 2026-11-02 10:11:12\n"
                   "16 4 float sum -1 9 1 1 0 8 1 1 0 2026-11-02 10:11:13\n",
                   head);
    reads(text, 1, 0, 0, 7, 9);
}
END_TEST

/* Blocks, both directions, times that overlap with computing, and what is no time of a call. */
START_TEST(osu_tables)
{
    peal_series_info info;
    reads("# OSU MPI-CUDA Allgather Latency Test v7.3\n# Datatype: MPI_CHAR.\n"
          "# Size  Avg Latency(us)  Min Latency(us)  Max Latency(us)  Iterations\n"
          "1  53.34  24.80  158.96  1000\n1048576  1052.7  923.6  1127.5  100\n",
          0, 0, 0, 53.34, 1052.7);
    const peal_point *points = series(0, &info);
    ck_assert(info.of_blocks && points[1].bytes == 1048576);
    ck_assert_int_eq(peal_measured_whole(set, 0, 8, &diag), PEAL_OK);
    points = series(0, &info);
    ck_assert(!info.of_blocks && info.ranks == 8 && points[1].bytes == 8388608);
    ck_assert_int_eq(peal_measured_whole(set, 0, 8, &diag), PEAL_OK);
    ck_assert_uint_eq(series(0, &info)[1].bytes, 8388608);
    ck_assert_int_eq(peal_measured_whole(set, 0, 0, &diag), PEAL_ERR_ARG);
    reads("# OSU MPI Bi-Directional Bandwidth Test v5.8\n# Size  Bandwidth (MB/s)\n"
          "1000 2000\n2000 2000\n",
          1, 0, 0, 1, 2);
    reads("# OSU MPI Non-blocking Allreduce Latency Test v7.2\n"
          "# Size  Overall(us)  Compute(us)  Pure Comm.(us)  Overlap(%)\n"
          "4  9.23  4.00  5.23  24.08\n8  9.50  4.00  5.50  24.08\n",
          2, 0, 0, 5.23, 5.5);
    ck_assert_int_eq(read_text("# Size  MB/s  Messages/s\n1 12 1000\n"), PEAL_ERR_INPUT);
    ck_assert_int_eq(read_text("# size count cputime algbw\n8 2 1 1\n"), PEAL_ERR_INPUT);
    ck_assert_uint_eq(peal_measured_count(set), 3);
}
END_TEST

/* The operation of an allgather is an empty cell. */
START_TEST(empty_cells)
{
    peal_series_info info;
    ck_assert_int_eq(read_text("# size count type redop root time algbw busbw #wrong time algbw "
                               "busbw #wrong\n"
                               "1024 32 float -1 7.5 0.1 0.1 0 8.5 0.1 0.1 0\r\n"
                               "2048 64 float 9.5 0.1 0.1 0 8.5 0.1 0.1 0"),
                     PEAL_OK);
    const peal_point *points = series(0, &info);
    ck_assert(info.points == 2 && points[0].time_us == 7.5 && points[1].time_us == 9.5);
}
END_TEST

static void refused(const char *text, uint32_t line, const char *word)
{
    ck_assert_int_eq(read_text(text), PEAL_ERR_INPUT);
    ck_assert_msg(diag.line == line && strstr(diag.text, word), "%u: %s; expected %u: ...%s...",
                  diag.line, diag.text, line, word);
    ck_assert_uint_eq(peal_measured_count(set), 0);
}

START_TEST(bad_texts)
{
    refused("", 0, "no table");
    refused("# size time\n", 0, "no table");
    refused("12 30\n", 1, "before any heading");
    refused("# size count time algbw\n\n8 2 x 3\n", 3, "no time");
    refused("# size count time algbw\n8 2 -3 3\n", 2, "no time");
    refused("# size count time algbw\n8 2 inf 3\n", 2, "no time");
    refused("# size count time algbw\n8 2 0 3\n", 2, "a time of nothing");
    refused("# size count time algbw\n8 2 1 3\n8\n", 3, "too short");
    refused("# size count time algbw\n99999999999999999999 2 1 3\n", 2, "no size");
    refused("# Size Latency (us)\n8 nan\n", 2, "no time");
    refused("bytes\ttime\n8\t1\n8\n", 3, "1 columns, where the first line names 2");
    refused("bytes\ttime\n8\t1\n-8\t2\n", 3, "no size");
    refused("bytes\ttime\tbytes\n", 1, "two columns");
    refused("bytes\tus\n", 1, "columns without");
    refused("bytes\ttime\tcollective\n8\t1\tallredukt\n", 2, "unknown collective");
    refused("bytes\ttime\tlink\n8\t1\tnvlonk\n", 2, "unknown class");
    refused("bytes\ttime\tranks\n8\t1\t1e3\n", 2, "ranks or nodes");
    ck_assert_int_eq(peal_measured_read(set, "a\0b", 3, "t", &diag), PEAL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(diag.text, "zero byte"));
}
END_TEST

static peal_status read_and_fit(peal_ctx *of, void *user)
{
    peal_measured *own = NULL;
    peal_fit out = {.size = sizeof out};
    const char *text = user;
    peal_status status = peal_measured_create(of, &own);
    if (status == PEAL_OK)
        status = peal_measured_read(own, text, strlen(text), "t", NULL);
    if (status == PEAL_OK)
        status = peal_fit_points(of, point, 8, 2, NULL, &out);
    peal_measured_destroy(own);
    return status;
}

START_TEST(without_memory)
{
    char text[] = "series\tbytes\ttime\na\t8\t1\nb\t8\t1\nb\t16\t1\n";
    plant(1, 0);
    ck_assert_int_eq(test_oom_sweep(read_and_fit, text, 0, NULL), 0);
}
END_TEST

/* A machine that has been measured; what one part says of the other (tests/bench/predict.py has
 * the whole). */
START_TEST(measured_machine)
{
    static const double time_us[] = {427.1,  607.9,  824.7,   1381.0, 2542.0,
                                     4626.6, 9047.4, 17288.4, 33715.1};
    static const double four[] = {681.6,  853.2,   1133.2,  1902.7, 3736.1,
                                  7422.0, 11971.0, 23477.5, 46621.1};
    peal_fit_shape from = {sizeof from, PEAL_ALLREDUCE, 16, 2};
    peal_fit_shape to = {sizeof to, PEAL_ALLREDUCE, 32, 4};
    double off = 0;
    for (uint32_t i = 0; i < 9; i++)
        point[i] = (peal_point){33554432ull << i, time_us[i]};
    fitted(9);
    for (uint32_t i = 0; i < 9; i++)
        off += fabs(log(peal_fit_time_as(&fit, &from, &to, point[i].bytes) / four[i]));
    ck_assert(exp(off / 9) - 1 < 0.2);
}
END_TEST

/* ---- ranks of one memory */

static peal_status append(void *user, const char *data, size_t bytes)
{
    char *text = user;
    ck_assert_uint_lt(strlen(text) + bytes, 4096);
    (void)strncat(text, data, bytes);
    return PEAL_OK;
}

static peal_status write_rates(uint32_t ranks, double alpha_us, const peal_memory_rate *rates,
                               uint32_t count, char *text)
{
    peal_memory_costs costs = {.size = sizeof costs,
                               .ranks = ranks,
                               .alpha_us = alpha_us,
                               .entry_us = 3,
                               .rates = rates,
                               .nrates = count};
    return peal_memory_write(ctx, &costs, append, text, NULL);
}

static double planned(peal_fabric *fabric, const char *algorithm, uint64_t bytes)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table = NULL;
    peal_row_info row = {.size = sizeof row};
    request.algorithm = algorithm;
    request.min_bytes = request.max_bytes = bytes;
    ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, NULL, &table), PEAL_OK);
    ck_assert_int_eq(peal_table_row(table, 0, &row), PEAL_OK);
    peal_table_destroy(table);
    return row.time_us;
}

/* Twice the start-up, and half the rate: what a call takes is its entry, and twice the rest. */
START_TEST(memory_machine)
{
    static const peal_memory_rate fast[] = {{sizeof *fast, PEAL_MEMORY_LOAD, 1024, 6},
                                            {sizeof *fast, PEAL_MEMORY_STORE, 1024, 8},
                                            {sizeof *fast, PEAL_MEMORY_EXCHANGE, 1024, 4}};
    static const peal_memory_rate slow[] = {{sizeof *slow, PEAL_MEMORY_LOAD, 1024, 3},
                                            {sizeof *slow, PEAL_MEMORY_STORE, 1024, 4},
                                            {sizeof *slow, PEAL_MEMORY_EXCHANGE, 1024, 2}};
    char one[4096] = "", two[4096] = "";
    peal_fabric *a, *b;
    ck_assert_int_eq(write_rates(4, 1, fast, 3, one), PEAL_OK);
    ck_assert_int_eq(write_rates(4, 2, slow, 3, two), PEAL_OK);
    ck_assert_int_eq(peal_fabric_parse(ctx, one, strlen(one), "one", NULL, NULL, &a), PEAL_OK);
    ck_assert_int_eq(peal_fabric_parse(ctx, two, strlen(two), "two", NULL, NULL, &b), PEAL_OK);
    const char *name;
    for (uint32_t i = 0; (name = peal_algorithm_name(i)) != NULL; i++)
        for (uint64_t bytes = 64;
             bytes <= 1 << 20 && strstr("ring pull twoshot doubling halving", name); bytes *= 16) {
            double first = planned(a, name, bytes), second = planned(b, name, bytes);
            ck_assert_msg(fabs(3 + 2 * (first - 3) - second) < 1e-3 * second, "%s %llu: %f %f",
                          name, (unsigned long long)bytes, first, second);
        }
    /* Copying alone tells stores from exchanges. */
    double load = planned(a, "twoshot", 1 << 20) - planned(a, "twoshot", 64);
    ck_assert(fabs(load - ((1 << 20) - 64) / 8e3) < 1e-3 * load);
    peal_fabric_destroy(a);
    peal_fabric_destroy(b);
}
END_TEST

static const peal_memory_rate plain[] = {{sizeof *plain, PEAL_MEMORY_LOAD, 1024, 6},
                                         {sizeof *plain, PEAL_MEMORY_STORE, 1024, 8},
                                         {sizeof *plain, PEAL_MEMORY_EXCHANGE, 1024, 4}};

static peal_status write_call(const peal_memory_call *call, char *text)
{
    peal_memory_costs costs = {.size = sizeof costs,
                               .ranks = 4,
                               .alpha_us = 1,
                               .entry_us = 3,
                               .rates = plain,
                               .nrates = 3,
                               .calls = call,
                               .ncalls = 1};
    return peal_memory_write(ctx, &costs, append, text, NULL);
}

/* What was measured is predicted, and chosen where it is best; of the same buffers, tile and
 * ranks. */
START_TEST(memory_calls)
{
    static const peal_point points[] = {{64, 0.01}, {1024, 20}};
    peal_memory_call call = {.size = sizeof call,
                             .collective = PEAL_ALLREDUCE,
                             .algorithm = "ring",
                             .points = points,
                             .count = 2};
    char text[4096] = "", other[4096] = "";
    peal_fabric *fabric, *bare;
    ck_assert_int_eq(write_call(&call, text), PEAL_OK);
    ck_assert_int_eq(write_rates(4, 1, plain, 3, other), PEAL_OK);
    ck_assert_int_eq(peal_fabric_parse(ctx, text, strlen(text), "x", NULL, NULL, &fabric), PEAL_OK);
    ck_assert_int_eq(peal_fabric_parse(ctx, other, strlen(other), "x", NULL, NULL, &bare), PEAL_OK);
    ck_assert(fabs(planned(fabric, "ring", 8) - 0.01) < 1e-9);
    ck_assert(fabs(planned(fabric, "ring", 544) - 10.005) < 1e-9);
    ck_assert(fabs(planned(fabric, "ring", 4096) - 80) < 1e-9);
    ck_assert(fabs(planned(fabric, NULL, 64) - 0.01) < 1e-9);
    ck_assert(fabs(planned(fabric, "tree", 64) - planned(bare, "tree", 64)) < 1e-9);
    ck_assert(planned(fabric, NULL, 4096) < 79);
    ck_assert_ptr_nonnull(strstr(text, "beta-gbs=\"9.6\"")); /* 3/2 of 64 bytes in 10 ns */
    peal_fabric_destroy(fabric);
    call.private_buffers = 1;
    *text = '\0';
    ck_assert_int_eq(write_call(&call, text), PEAL_OK);
    ck_assert_int_eq(peal_fabric_parse(ctx, text, strlen(text), "x", NULL, NULL, &fabric), PEAL_OK);
    ck_assert(fabs(planned(fabric, "ring", 64) - planned(bare, "ring", 64)) < 1e-9);
    peal_fabric_destroy(fabric);
    peal_fabric_destroy(bare);
}
END_TEST

/* What XML would read as its own comes back as it was. */
START_TEST(calls_of_any_name)
{
    static const peal_point one = {64, 1};
    peal_memory_call call = {.size = sizeof call,
                             .collective = PEAL_ALLREDUCE,
                             .algorithm = "ring",
                             .detail = "<a \"b\" & c>",
                             .points = &one,
                             .count = 1};
    char text[4096] = "";
    peal_fabric *fabric;
    peal_fabric_call_info info = {.size = sizeof info};
    ck_assert_int_eq(write_call(&call, text), PEAL_OK);
    ck_assert_int_eq(peal_fabric_parse(ctx, text, strlen(text), "x", NULL, NULL, &fabric), PEAL_OK);
    ck_assert_int_eq(peal_fabric_call(fabric, 0, &info), PEAL_OK);
    ck_assert_str_eq(info.detail, call.detail);
    ck_assert_int_eq(peal_fabric_call(fabric, 1, &info), PEAL_ERR_ARG);
    peal_fabric_destroy(fabric);
}
END_TEST

START_TEST(calls_refused)
{
    static const peal_point points[] = {{64, 1}, {64, 2}};
    const peal_memory_call good = {.size = sizeof good,
                                   .collective = PEAL_ALLREDUCE,
                                   .algorithm = "ring",
                                   .points = points,
                                   .count = 1};
    peal_memory_call bad[5] = {good, good, good, good, good};
    char text[4096] = "";
    bad[0].count = 2;
    bad[1].count = 33;
    bad[2].algorithm = "a\nb";
    bad[3].detail = "";
    bad[4].points = NULL;
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(write_call(&bad[i], text), PEAL_ERR_ARG);
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(memory_refused)
{
    peal_memory_rate rate[4] = {{sizeof *rate, PEAL_MEMORY_LOAD, 1024, 8},
                                {sizeof *rate, PEAL_MEMORY_STORE, 1024, 8},
                                {sizeof *rate, PEAL_MEMORY_EXCHANGE, 1024, 4},
                                {sizeof *rate, PEAL_MEMORY_EXCHANGE, 4096, 4}};
    char text[4096] = "";
    ck_assert_int_eq(write_rates(4, 1, rate, 2, text), PEAL_ERR_ARG);
    ck_assert_int_eq(write_rates(0, 1, rate, 4, text), PEAL_ERR_ARG);
    ck_assert_int_eq(write_rates(4, -1, rate, 4, text), PEAL_ERR_ARG);
    rate[3].bytes = 1024;
    ck_assert_int_eq(write_rates(4, 1, rate, 4, text), PEAL_ERR_ARG);
    rate[3] = (peal_memory_rate){sizeof *rate, PEAL_MEMORY_EXCHANGE, 4096, 0};
    ck_assert_int_eq(write_rates(4, 1, rate, 4, text), PEAL_ERR_ARG);
    ck_assert_str_eq(text, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fit");
    TCase *tcase = tcase_create("fit");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, exact_lines);
    tcase_add_test(tcase, noise_and_wild_times);
    tcase_add_test(tcase, one_line_where_one_does);
    tcase_add_test(tcase, flat_and_repeated);
    tcase_add_test(tcase, what_cannot_be_fitted);
    tcase_add_test(tcase, other_shapes);
    tcase_add_test(tcase, costs_of_links);
    tcase_add_test(tcase, profiles_load);
    tcase_add_test(tcase, tables_of_programs);
    tcase_add_test(tcase, logs);
    tcase_add_test(tcase, several_runs);
    tcase_add_test(tcase, placements);
    tcase_add_test(tcase, osu_tables);
    tcase_add_test(tcase, empty_cells);
    tcase_add_test(tcase, bad_texts);
    tcase_add_test(tcase, without_memory);
    tcase_add_test(tcase, measured_machine);
    tcase_add_test(tcase, memory_machine);
    tcase_add_test(tcase, memory_calls);
    tcase_add_test(tcase, calls_of_any_name);
    tcase_add_test(tcase, calls_refused);
    tcase_add_test(tcase, memory_refused);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK_GETENV);
}
