/* SPDX-License-Identifier: Apache-2.0 */
/* peal bench: time by size, laid out as nccl-tests lay it out. */
#include "cli_json.h"
#include "run_options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POINTS_MAX 512u
#define BUDGET_US 80000u /* of measuring, for each line and placement */

struct bench {
    struct cli *cli;
    struct crew crew;
    peal_table *table;
    peal_dtype dtype;
    peal_op op;
    uint64_t low, high;
    double factor;
    uint32_t points;
    uint64_t count[POINTS_MAX]; /* elements of each line */
    struct output output;
};

/* ---- options */

static int read_one(const struct cli *cli, enum option_id option, name_fn name, uint32_t known,
                    uint32_t *out)
{
    uint32_t list[LIST_MAX], count = 0;
    CLI_TRY(cli_names(cli, option, name, known, list, &count));
    if (count > 1)
        return say_usage("'peal bench' takes one --%s", cli_options[option].name);
    if (count)
        *out = list[0];
    return EXIT_YES;
}

static int read_points(struct bench *bench)
{
    size_t size = peal_dtype_size(bench->dtype);
    double bytes = (double)bench->low;
    while (bytes <= (double)bench->high && bench->points < POINTS_MAX) {
        uint64_t count = ((uint64_t)bytes + size - 1) / size;
        if (!bench->points || bench->count[bench->points - 1] != count)
            bench->count[bench->points++] = count;
        bytes = bytes < 1 ? 1 : bytes * bench->factor;
    }
    if (bytes <= (double)bench->high)
        return say_usage("these are more than %u sizes; a larger --factor has fewer", POINTS_MAX);
    return EXIT_YES;
}

static int read_bench(struct bench *bench)
{
    struct cli *cli = bench->cli;
    uint32_t dtype = PEAL_FLOAT32, op = PEAL_SUM;
    bench->low = 8;
    bench->high = 64u << 20;
    bench->factor = 2;
    CLI_TRY(read_one(cli, OPT_DTYPE, dtype_word, PEAL_DTYPE_COUNT, &dtype));
    CLI_TRY(read_one(cli, OPT_OP, op_word, PEAL_OP_COUNT, &op));
    CLI_TRY(cli_range(cli, OPT_SIZES, &bench->low, &bench->high));
    CLI_TRY(cli_real(cli, OPT_FACTOR, &bench->factor));
    if (bench->factor <= 1)
        return say_usage("--factor has to be larger than 1");
    if (bench->high > 1ull << 40)
        return say_usage("sizes go up to 1T");
    bench->dtype = (peal_dtype)dtype;
    bench->op = (peal_op)op;
    return read_points(bench);
}

static int make_jobs(const struct bench *bench, struct job *jobs)
{
    uint32_t iters = 0, warmup = 5;
    CLI_TRY(cli_u32(bench->cli, OPT_ITERS, &iters));
    CLI_TRY(cli_u32(bench->cli, OPT_WARMUP, &warmup));
    if (iters > 1000000 || warmup > 1000000)
        return say_usage("--iters and --warmup are at most 1000000");
    for (uint32_t i = 0; i < 2 * bench->points; i++)
        jobs[i] = (struct job){.count = bench->count[i / 2],
                               .dtype = bench->dtype,
                               .op = bench->op,
                               .in_place = i % 2 == 1,
                               .check = !cli_given(bench->cli, OPT_NO_CHECK),
                               .warmup = warmup,
                               .rounds = iters ? 1 : 5,
                               .calls = 1,
                               .burst = iters,
                               .budget_us = BUDGET_US};
    return EXIT_YES;
}

/* ---- lines */

static double algbw(const struct job *job, double us)
{
    double bytes = (double)(job->count * peal_dtype_size(job->dtype));
    return us > 0 ? bytes / (us * 1e3) : 0;
}

static void print_head(const struct bench *bench)
{
    FILE *file = bench->output.file;
    const struct crew *crew = &bench->crew;
    char low[NUMBER_TEXT], high[NUMBER_TEXT];
    fprintf(file, "# peal %s, allreduce by %lu %s%s, sizes %s to %s, factor %.3g\n", peal_version(),
            (unsigned long)crew->ranks, crew->procs ? "processes" : "threads",
            crew->pin ? " (pinned)" : "", size_text(bench->low, low), size_text(bench->high, high),
            bench->factor);
    fputs("# engines: ", file);
    print_engines(&crew->info, file);
    fputs("#\n"
          "#                                                        out-of-place              "
          "         in-place\n"
          "#       size         count      type   redop    root     time   algbw   busbw #wrong "
          "    time   algbw   busbw #wrong  algorithm\n"
          "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)        "
          "    (us)  (GB/s)  (GB/s)\n",
          file);
}

static const char *nccl_name(peal_dtype dtype)
{
    static const char *const names[] = {"float", "double", "half",   "bfloat16", "int8",
                                        "uint8", "int32",  "uint32", "int64",    "uint64"};
    return names[dtype];
}

static void print_half(const struct bench *bench, const struct job *job,
                       const struct result *result)
{
    FILE *file = bench->output.file;
    char text[NUMBER_TEXT];
    double gbs = algbw(job, result->median_us);
    fprintf(file, "  %7s %7.2f %7.2f", real_text(result->median_us, text), gbs,
            gbs * bus_factor(bench->crew.ranks));
    if (job->check)
        fprintf(file, " %6llu", (unsigned long long)result->wrong);
    else
        fprintf(file, " %6s", "N/A");
}

static const char *algorithm_of(const struct bench *bench, const struct job *job,
                                peal_row_info *row)
{
    uint32_t index;
    uint64_t bytes = job->count * peal_dtype_size(job->dtype);
    row->size = sizeof *row;
    if (peal_table_lookup(bench->table, bytes, &index) != PEAL_OK ||
        peal_table_row(bench->table, index, row) != PEAL_OK)
        return "";
    return row->algorithm;
}

static void print_lines(const struct bench *bench)
{
    const struct crew *crew = &bench->crew;
    for (uint32_t i = 0; i + 1 < crew->njobs && crew->results[i + 1].done; i += 2) {
        const struct job *job = &crew->jobs[i];
        peal_row_info row;
        fprintf(bench->output.file, "%12llu  %12llu  %8s  %6s      -1",
                (unsigned long long)(job->count * peal_dtype_size(job->dtype)),
                (unsigned long long)job->count, nccl_name(job->dtype), peal_op_name(job->op));
        print_half(bench, job, &crew->results[i]);
        print_half(bench, &crew->jobs[i + 1], &crew->results[i + 1]);
        fprintf(bench->output.file, "  %s\n", algorithm_of(bench, job, &row));
    }
}

static double average(const struct bench *bench, uint64_t *wrong)
{
    const struct crew *crew = &bench->crew;
    double sum = 0;
    uint32_t n = 0;
    *wrong = 0;
    for (uint32_t i = 0; i < crew->njobs && crew->results[i].done; i++, n++) {
        sum += algbw(&crew->jobs[i], crew->results[i].median_us) * bus_factor(crew->ranks);
        *wrong += crew->results[i].wrong;
    }
    return n ? sum / n : 0;
}

static void print_all(const struct bench *bench)
{
    uint64_t wrong;
    double mean = average(bench, &wrong);
    print_head(bench);
    print_lines(bench);
    fprintf(bench->output.file, "# Out of bounds values : %llu %s\n", (unsigned long long)wrong,
            wrong ? "FAILED" : "OK");
    fprintf(bench->output.file, "# Avg bus bandwidth    : %.4f\n", mean);
}

static void json_all(const struct bench *bench)
{
    const struct crew *crew = &bench->crew;
    uint64_t wrong;
    json_t *root = json_begin("peal.bench/1");
    json_number(root, "busbw_gbs", average(bench, &wrong));
    json_count(root, "wrong", wrong);
    json_text(root, "ranks_as", crew->procs ? "processes" : "threads");
    json_engines(root, "engines", crew->info.engines);
    json_engines(root, "stand_ins", crew->info.stand_ins);
    json_t *rows = json_list(root, "rows");
    for (uint32_t i = 0; i < crew->njobs && crew->results[i].done; i++) {
        const struct job *job = &crew->jobs[i];
        peal_row_info row;
        double gbs = algbw(job, crew->results[i].median_us);
        json_t *item = json_item(rows);
        json_text(item, "collective", "allreduce");
        json_count(item, "ranks", crew->ranks);
        json_count(item, "bytes", job->count * peal_dtype_size(job->dtype));
        json_count(item, "count", job->count);
        json_text(item, "dtype", peal_dtype_name(job->dtype));
        json_text(item, "op", peal_op_name(job->op));
        json_flag(item, "inplace", job->in_place);
        json_text(item, "algorithm", algorithm_of(bench, job, &row));
        json_number(item, "time_us", crew->results[i].median_us);
        json_number(item, "time_best_us", crew->results[i].best_us);
        json_number(item, "algbw_gbs", gbs);
        json_number(item, "busbw_gbs", gbs * bus_factor(crew->ranks));
        json_count(item, "calls", crew->results[i].calls);
        json_flag(item, "checked", job->check);
        json_count(item, "wrong", crew->results[i].wrong);
    }
    json_end(root, &bench->output);
}

/* ---- */

static int measure(struct bench *bench)
{
    struct crew *crew = &bench->crew;
    int code = crew_run(crew);
    for (uint32_t i = 0; i < crew->njobs && code == EXIT_YES; i++)
        if (crew->results[i].wrong) {
            say_wrong(&crew->jobs[i], &crew->results[i]);
            code = EXIT_NO;
        }
    if (code != EXIT_YES && code != EXIT_NO)
        return code;
    CLI_TRY(output_open(bench->cli, &bench->output));
    if (cli_given(bench->cli, OPT_JSON))
        json_all(bench);
    else
        print_all(bench);
    return output_close(&bench->output, code);
}

static int bench_table(struct bench *bench)
{
    peal_table_info info = {.size = sizeof info};
    CLI_TRY(say_diag(peal_table_get(bench->table, &info), NULL));
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    struct crew *crew = &bench->crew;
    CLI_TRY(read_crew(bench->cli, info.ranks <= (uint32_t)(cores > 0 ? cores : 1), crew));
    crew->table = bench->table;
    crew->ranks = info.ranks;
    crew->njobs = 2 * bench->points;
    crew->what = "peal bench: lines";
    struct job *jobs = need(calloc(crew->njobs, sizeof *jobs));
    crew->results = need(calloc(crew->njobs, sizeof *crew->results));
    crew->jobs = jobs;
    int code = make_jobs(bench, jobs);
    if (code == EXIT_YES)
        code = check_sizes(bench->table, jobs, crew->njobs);
    if (code == EXIT_YES)
        code = measure(bench);
    free(crew->results);
    free(jobs);
    return code;
}

static int plan_for(struct bench *bench, const peal_fabric *fabric)
{
    peal_request request = PEAL_REQUEST_INIT;
    CLI_TRY(read_request(bench->cli, &request));
    uint64_t size = peal_dtype_size(bench->dtype);
    request.min_bytes = bench->low ? bench->low : 1;
    request.max_bytes = bench->count[bench->points - 1] * size;
    if (request.max_bytes < request.min_bytes)
        request.max_bytes = request.min_bytes;
    return make_table(bench->cli, fabric, &request, NULL, &bench->table);
}

int verb_bench(struct cli *cli)
{
    struct bench *bench = need(calloc(1, sizeof *bench));
    peal_fabric *fabric = NULL;
    bench->cli = cli;
    int code = cli_operands(cli, 1);
    if (code == EXIT_YES)
        code = read_bench(bench);
    if (code == EXIT_YES)
        code = load_any(cli, cli->operand[0], &fabric, &bench->table);
    if (code == EXIT_YES)
        code = fabric ? plan_for(bench, fabric) : check_decided(cli, bench->table);
    if (code == EXIT_YES)
        code = bench_table(bench);
    peal_table_destroy(bench->table);
    peal_fabric_destroy(fabric);
    free(bench);
    return code;
}
