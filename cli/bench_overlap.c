/* SPDX-License-Identifier: Apache-2.0 */
/* peal bench --beside: how much of a call hides behind a matrix product, engine by engine. */
#include "bench_overlap.h"
#include "cli_json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINES_MAX 512u

/* One line: a size, by an engine, made to go on in one way. */
struct line {
    struct job job;
    struct result result;
    peal_row_info row;
    uint32_t engines; /* of the row's moves */
};

struct bench {
    const struct overlap_asked *asked;
    struct line *line;
    uint32_t lines;
    uint32_t engines, stand_ins; /* of all tables */
    long cores;
};

/* ---- measuring */

static uint32_t row_engines(const peal_row_info *row)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < PEAL_LINK_CLASS_COUNT; i++)
        all |= row->move_engines[i];
    return all;
}

/* A size, made to go on in both ways; on a GPU there is one. Gives how many. */
static uint32_t make_jobs(const struct overlap_asked *asked, uint32_t point, uint32_t repeats,
                          uint32_t warmup, struct job jobs[2])
{
    uint64_t bytes = asked->count[point] * peal_dtype_size(asked->dtype);
    for (uint32_t i = 0; i < 2; i++)
        jobs[i] = (struct job){
            .action = asked->action,
            .count = action_count(&asked->action, bytes, asked->dtype, asked->crew->ranks),
            .dtype = asked->dtype,
            .op = asked->op,
            .check = !cli_given(asked->cli, OPT_NO_CHECK),
            .warmup = warmup,
            .rounds = OVERLAP_TIMES * (repeats ? repeats : job_bursts(bytes)),
            .calls = 1,
            .beside = asked->crew->gpu ? PROGRESS_STREAM
                      : i              ? PROGRESS_TEST
                                       : PROGRESS_THREAD};
    return asked->crew->gpu ? 1 : 2;
}

static void keep_lines(struct bench *bench, const struct crew *crew)
{
    for (uint32_t i = 0; i < crew->njobs; i++) {
        struct line *line = &bench->line[bench->lines++];
        line->job = crew->jobs[i];
        line->result = crew->results[i];
        (void)find_row(crew->table, &crew->jobs[i], crew->ranks, &line->row);
        line->engines = row_engines(&line->row);
    }
    bench->engines |= crew->info.engines;
    bench->stand_ins |= crew->info.stand_ins;
}

static int measure(struct bench *bench, peal_table *table, uint32_t point)
{
    const struct overlap_asked *asked = bench->asked;
    struct crew crew = *asked->crew;
    struct job jobs[2];
    struct result results[2] = {{0}, {0}};
    uint32_t repeats = 0, warmup = 2;
    CLI_TRY(cli_u32(asked->cli, OPT_ITERS, &repeats));
    CLI_TRY(cli_u32(asked->cli, OPT_WARMUP, &warmup));
    if (repeats > 10000 || warmup > 10000)
        return say_usage("with --beside --iters and --warmup are at most 10000");
    crew.njobs = make_jobs(asked, point, repeats, warmup, jobs);
    crew.results = results;
    crew.jobs = jobs;
    crew.table = table;
    CLI_TRY(check_sizes(table, jobs, crew.njobs, crew.ranks));
    CLI_TRY(note_wire(table, jobs, crew.njobs, crew.ranks));
    CLI_TRY(crew_run(&crew));
    keep_lines(bench, &crew);
    for (uint32_t i = 0; i < crew.njobs; i++)
        if (results[i].wrong) {
            say_wrong(&jobs[i], crew.ranks, &results[i]);
            return EXIT_NO;
        }
    return EXIT_YES;
}

/* ---- a schedule that an engine carries */

#define ANY_ENGINE PEAL_ENGINE_COUNT

static int read_size(const struct overlap_asked *asked, uint32_t engine, uint32_t point,
                     peal_request *request)
{
    uint64_t bytes = asked->count[point] * peal_dtype_size(asked->dtype);
    uint32_t ranks = asked->crew->ranks;
    CLI_TRY(read_request(asked->cli, request));
    request->ranks = ranks;
    request->private_buffers |= crew_private(asked->crew);
    request->min_bytes = request->max_bytes =
        action_bytes(&asked->action, action_count(&asked->action, bytes, asked->dtype, ranks),
                     asked->dtype, ranks);
    for (int c = PEAL_LINK_LOOPBACK; c < PEAL_LINK_NET && engine != ANY_ENGINE; c++)
        request->move_engine[c] = (uint8_t)(engine + 1);
    return EXIT_YES;
}

/* Whether the compiled schedule moves by the engine: others may still load and store by lanes what
 * they could have moved. */
static int is_carried(const peal_table *table, uint32_t engine)
{
    peal_row_info row = {.size = sizeof row};
    if (peal_table_row(table, 0, &row) != PEAL_OK)
        return 0;
    uint32_t bit = 1u << engine, all = row_engines(&row);
    return engine == PEAL_ENGINE_SM ? all == bit : (all & bit) != 0;
}

/* The algorithm of the planner's next best candidate that is another than those before; 0: there
 * is none. */
static int next_algorithm(const peal_table *planned, uint32_t *index, const char *before,
                          peal_row_info *next)
{
    next->size = sizeof *next;
    while (peal_table_candidate(planned, 0, (*index)++, next) == PEAL_OK) {
        char word[72];
        (void)snprintf(word, sizeof word, " %s ", next->algorithm);
        if (!strstr(before, word))
            return 1;
    }
    return 0;
}

/* The fastest algorithm that is carried, by the planner's order. */
static int try_algorithms(const struct overlap_asked *asked, uint32_t engine, peal_request *request,
                          const peal_table *planned, peal_table **table)
{
    char tried[2048] = " ";
    peal_row_info next;
    uint32_t index = 0;
    while (next_algorithm(planned, &index, tried, &next)) {
        int skip = 0;
        size_t used = strlen(tried);
        (void)snprintf(tried + used, sizeof tried - used, "%s ", next.algorithm);
        request->algorithm = next.algorithm;
        CLI_TRY(make_table(asked->cli, asked->fabric, request, &asked->action, &skip, 0, table));
        if (*table && is_carried(*table, engine))
            return EXIT_YES;
        peal_table_destroy(*table);
        *table = NULL;
    }
    return EXIT_YES;
}

/* *table NULL: the engine carries no schedule of this. */
static int plan(const struct overlap_asked *asked, uint32_t engine, uint32_t point,
                peal_table **table)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *planned = NULL;
    int skip = 0;
    *table = NULL;
    CLI_TRY(read_size(asked, engine, point, &request));
    if (engine == ANY_ENGINE || script_given(asked->cli))
        return make_table(asked->cli, asked->fabric, &request, &asked->action, NULL, 0, table);
    CLI_TRY(plan_table(asked->cli, asked->fabric, &request, &asked->action, &skip, 0, &planned));
    int code = planned ? try_algorithms(asked, engine, &request, planned, table) : EXIT_YES;
    peal_table_destroy(planned);
    return code;
}

/* ---- all */

static int measure_engine(struct bench *bench, uint32_t engine)
{
    uint32_t before = bench->lines;
    for (uint32_t i = 0; i < bench->asked->points; i++) {
        peal_table *table;
        CLI_TRY(plan(bench->asked, engine, i, &table));
        int code = table ? measure(bench, table, i) : EXIT_YES;
        peal_table_destroy(table);
        CLI_TRY(code);
    }
    if (bench->lines == before)
        say(SAY_NOTE, "%s is left out: no schedule of this is carried by it",
            peal_engine_name((peal_engine)engine));
    return EXIT_YES;
}

static int measure_all(struct bench *bench)
{
    static const uint32_t engines[] = {PEAL_ENGINE_SM, PEAL_ENGINE_TMA, PEAL_ENGINE_CE};
    const struct overlap_asked *asked = bench->asked;
    if (asked->fabric && cli_given(asked->cli, OPT_ENGINE))
        return measure_engine(bench, ANY_ENGINE);
    for (uint32_t i = 0; i < asked->points && !asked->fabric; i++)
        CLI_TRY(measure(bench, asked->table, i));
    for (size_t i = 0; i < COUNT_OF(engines) && asked->fabric; i++)
        CLI_TRY(measure_engine(bench, engines[i]));
    return bench->lines ? EXIT_YES : say_diag(PEAL_ERR_UNSUPPORTED, NULL);
}

/* ---- telling */

static const char *progress_text(const struct line *line)
{
    static const char *const texts[] = {
        [PROGRESS_THREAD] = "thread", [PROGRESS_TEST] = "tests", [PROGRESS_STREAM] = "stream"};
    return texts[line->job.beside];
}

/* The part of the call that does not show. */
static double hidden(const struct line *line)
{
    const double *us = line->result.overlap_us;
    return us[TIME_CALL] > 0 ? (us[TIME_SERIAL] - us[TIME_BOTH]) / us[TIME_CALL] : 0;
}

/* By how much the work takes longer beside the call. */
static double lost(const struct line *line)
{
    const double *us = line->result.overlap_us;
    return us[TIME_WORK] > 0 ? us[TIME_BESIDE] / us[TIME_WORK] - 1 : 0;
}

/* Threads that want a processor at once: ranks, and a comm's own or an engine's for each. */
static void print_cores(const struct bench *bench, FILE *file)
{
    uint32_t ranks = bench->asked->crew->ranks;
    if (bench->asked->crew->gpu)
        return;
    fprintf(file, "# %lu ranks on %ld processor%s: ", (unsigned long)ranks, bench->cores,
            bench->cores == 1 ? "" : "s");
    if (bench->cores < 2 * (long)ranks)
        fputs("whoever makes a call go on takes the time from the work; nothing can be hidden but "
              "waiting\n",
              file);
    else
        fputs("each has one, and another one for whoever makes its calls go on\n", file);
}

static void print_head(const struct bench *bench, FILE *file)
{
    const struct overlap_asked *asked = bench->asked;
    struct crew crew = *asked->crew;
    char text[ACTION_TEXT];
    crew.info.engines = bench->engines;
    crew.info.stand_ins = bench->stand_ins;
    fprintf(file, "# peal %s, %s by %lu %s%s, %s, beside a matrix product of about its length\n",
            peal_version(), action_text(&asked->action, text), (unsigned long)crew.ranks,
            crew.procs ? "processes" : "threads", crew.pin ? " (pinned)" : "",
            action_dtype_name(&asked->action, asked->dtype));
    fputs("# engines: ", file);
    print_engines(&crew.info, file);
    print_cores(bench, file);
    fputs("# us: medians, of the slowest rank. hidden: (serial - overlapped) / call; lost: the "
          "product beside the call over alone\n#\n",
          file);
}

static void print_all(const struct bench *bench, const struct output *output)
{
    struct grid grid;
    char text[64], size[NUMBER_TEXT];
    print_head(bench, output->file);
    grid_begin(&grid,
               ">bytes|engines|algorithm|progress|>product us|>call us|>serial us|>overlapped "
               "us|>hidden|>product beside us|>lost");
    for (uint32_t i = 0; i < bench->lines; i++) {
        const struct line *line = &bench->line[i];
        const double *us = line->result.overlap_us;
        grid_add(&grid, "%s", size_text(job_bytes(&line->job, bench->asked->crew->ranks), size));
        grid_add(&grid, "%s", engines_text(line->engines, text, sizeof text));
        grid_add(&grid, "%s", line->row.algorithm);
        grid_add(&grid, "%s", progress_text(line));
        grid_add(&grid, "%s", real_text(us[TIME_WORK], text));
        grid_add(&grid, "%s", real_text(us[TIME_CALL], text));
        grid_add(&grid, "%s", real_text(us[TIME_SERIAL], text));
        grid_add(&grid, "%s", real_text(us[TIME_BOTH], text));
        grid_add(&grid, "%.0f %%", 100 * hidden(line));
        grid_add(&grid, "%s", real_text(us[TIME_BESIDE], text));
        grid_add(&grid, "%.0f %%", 100 * lost(line));
    }
    grid_print(&grid, output);
}

static void json_line(json_t *item, const struct bench *bench, const struct line *line)
{
    const double *us = line->result.overlap_us;
    json_action(item, &line->job.action);
    json_count(item, "bytes", job_bytes(&line->job, bench->asked->crew->ranks));
    json_count(item, "count", line->job.count);
    json_text(item, "dtype", action_dtype_name(&line->job.action, line->job.dtype));
    json_text(item, "op", action_op_name(&line->job.action, line->job.op));
    json_text(item, "algorithm", line->row.algorithm);
    json_engines(item, "engines", line->engines);
    json_text(item, "progress", progress_text(line));
    json_number(item, "product_us", us[TIME_WORK]);
    json_number(item, "call_us", us[TIME_CALL]);
    json_number(item, "serial_us", us[TIME_SERIAL]);
    json_number(item, "overlapped_us", us[TIME_BOTH]);
    json_number(item, "hidden", hidden(line));
    json_number(item, "product_beside_us", us[TIME_BESIDE]);
    json_number(item, "lost", lost(line));
    json_count(item, "product_flops", line->result.work);
    json_count(item, "rounds", line->job.rounds / OVERLAP_TIMES);
    json_flag(item, "checked", line->job.check);
    json_count(item, "wrong", line->result.wrong);
}

static void json_all(const struct bench *bench, const struct output *output)
{
    const struct crew *crew = bench->asked->crew;
    json_t *root = json_begin("peal.overlap/1");
    json_count(root, "ranks", crew->ranks);
    json_team(root, bench->asked->cli);
    json_text(root, "ranks_as", crew->procs ? "processes" : "threads");
    json_count(root, "processors", (uint64_t)bench->cores);
    json_engines(root, "engines", bench->engines);
    json_engines(root, "stand_ins", bench->stand_ins);
    json_t *rows = json_list(root, "rows");
    for (uint32_t i = 0; i < bench->lines; i++)
        json_line(json_item(rows), bench, &bench->line[i]);
    json_end(root, output);
}

/* ---- */

static int tell(const struct bench *bench, int code)
{
    struct output output = {0};
    if (code != EXIT_YES && code != EXIT_NO)
        return code;
    CLI_TRY(output_open(bench->asked->cli, &output));
    if (cli_given(bench->asked->cli, OPT_JSON))
        json_all(bench, &output);
    else
        print_all(bench, &output);
    return output_close(&output, code);
}

int bench_overlap(const struct overlap_asked *asked)
{
    struct bench bench = {.asked = asked, .cores = sysconf(_SC_NPROCESSORS_ONLN)};
    if (asked->crew->launch->by != LAUNCH_NONE)
        return say_usage("--beside is for ranks that peal starts itself");
    if (asked->crew->ranks < 2)
        return say_usage("--beside takes 2 ranks or more");
    if (6 * asked->points > LINES_MAX)
        return say_usage("--beside takes at most %u sizes", LINES_MAX / 6);
    bench.line = need(calloc(LINES_MAX, sizeof *bench.line));
    int code = tell(&bench, measure_all(&bench));
    free(bench.line);
    return code;
}
