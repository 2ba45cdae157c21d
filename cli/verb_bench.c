/* SPDX-License-Identifier: Apache-2.0 */
/* peal bench: time by size, laid out as nccl-tests lay it out. */
#include "bench_overlap.h"
#include "bench_pairs.h"
#include "cli_json.h"
#include "run_options.h"
#include "team.h"

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
    double budget_ms; /* 0: none given */
    int placed[2];    /* out of place, in place: is measured */
    uint32_t points;
    uint64_t count[POINTS_MAX]; /* elements of the message of each line */
    struct choice choice;
    struct actions actions;
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

static int read_budget(struct bench *bench)
{
    CLI_TRY(cli_real(bench->cli, OPT_BUDGET, &bench->budget_ms));
    if (!cli_given(bench->cli, OPT_BUDGET))
        return EXIT_YES;
    if (cli_given(bench->cli, OPT_ITERS))
        return say_usage("--iters says how many calls; --budget has no say");
    if (!(bench->budget_ms >= 0.001 && bench->budget_ms <= 1e6))
        return say_usage("--budget is 0.001 to 1000000 ms");
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
    int beside = cli_given(cli, OPT_BESIDE); /* has few sizes, and no small ones to hide */
    bench->low = beside ? 512u << 10 : 8;
    bench->high = beside ? 8u << 20 : 64u << 20;
    bench->factor = beside ? 4 : 2;
    CLI_TRY(read_choice(cli, 0, &bench->choice));
    CLI_TRY(read_one(cli, OPT_DTYPE, dtype_word, PEAL_DTYPE_COUNT, &dtype));
    CLI_TRY(read_one(cli, OPT_OP, op_word, PEAL_OP_COUNT, &op));
    CLI_TRY(cli_range(cli, OPT_SIZES, &bench->low, &bench->high));
    CLI_TRY(cli_real(cli, OPT_FACTOR, &bench->factor));
    if (bench->factor <= 1)
        return say_usage("--factor has to be larger than 1");
    if (bench->high > 1ull << 40)
        return say_usage("sizes go up to 1T");
    CLI_TRY(read_budget(bench));
    bench->placed[0] = bench->placed[1] = 1;
    CLI_TRY(read_placement(cli, &bench->placed[0], &bench->placed[1]));
    bench->dtype = (peal_dtype)dtype;
    bench->op = (peal_op)op;
    return read_points(bench);
}

/* ---- jobs: all lines of an action, then those of the next */

static int read_job(const struct bench *bench, struct job *job)
{
    uint32_t iters = 0, warmup = 5;
    CLI_TRY(cli_u32(bench->cli, OPT_ITERS, &iters));
    CLI_TRY(cli_u32(bench->cli, OPT_WARMUP, &warmup));
    if (iters > 1000000 || warmup > 1000000)
        return say_usage("--iters and --warmup are at most 1000000");
    *job = (struct job){.dtype = bench->dtype,
                        .op = bench->op,
                        .check = !cli_given(bench->cli, OPT_NO_CHECK),
                        .warmup = warmup,
                        .calls = 1,
                        .burst = iters,
                        .bounded = bench->budget_ms > 0,
                        .budget_us =
                            bench->budget_ms > 0 ? (uint64_t)(bench->budget_ms * 1e3) : BUDGET_US};
    return EXIT_YES;
}

/* Where there is no in place, out of place it is. */
static int is_placed(const struct bench *bench, const struct action *action, int in_place)
{
    int knows = action_in_place(action);
    return in_place ? knows && bench->placed[1] : !knows || bench->placed[0];
}

/* The jobs of an action: out of place and, where there is that, in place. Gives their number. */
static uint32_t add_jobs(const struct bench *bench, const struct job *model,
                         const struct action *action, struct job *jobs)
{
    uint64_t size = peal_dtype_size(bench->dtype);
    uint32_t n = 0;
    for (uint32_t i = 0; i < bench->points; i++) {
        uint64_t bytes = bench->count[i] * size;
        uint64_t count = action_count(action, bytes, bench->dtype, bench->crew.ranks);
        if (n && jobs[n - 1].count == count)
            continue;
        for (int in_place = 0; in_place < 2; in_place++) {
            if (!is_placed(bench, action, in_place))
                continue;
            jobs[n] = *model;
            jobs[n].action = *action;
            jobs[n].count = count;
            jobs[n].rounds = model->burst ? 1 : job_bursts(bytes);
            jobs[n++].in_place = in_place;
        }
    }
    return n;
}

static int make_jobs(struct bench *bench, struct job *jobs)
{
    struct job model;
    CLI_TRY(read_job(bench, &model));
    bench->crew.njobs = 0;
    for (uint32_t i = 0; i < bench->actions.count; i++)
        bench->crew.njobs +=
            add_jobs(bench, &model, &bench->actions.list[i], jobs + bench->crew.njobs);
    return EXIT_YES;
}

/* ---- lines */

static double algbw(const struct bench *bench, uint32_t number)
{
    const struct crew *crew = &bench->crew;
    double us = crew->results[number].median_us;
    return us > 0 ? (double)job_bytes(&crew->jobs[number], crew->ranks) / (us * 1e3) : 0;
}

static double busbw(const struct bench *bench, uint32_t number)
{
    const struct crew *crew = &bench->crew;
    return algbw(bench, number) * action_bus_factor(&crew->jobs[number].action, crew->ranks);
}

static void print_head(const struct bench *bench, const struct action *action)
{
    FILE *file = bench->output.file;
    const struct crew *crew = &bench->crew;
    char low[NUMBER_TEXT], high[NUMBER_TEXT], text[ACTION_TEXT];
    fprintf(file, "# peal %s, %s by %lu %s%s, %s buffers, sizes %s to %s, factor %.3g\n",
            peal_version(), action_text(action, text), (unsigned long)crew->ranks,
            crew->procs ? "processes" : "threads", crew->pin ? " (pinned)" : "",
            crew_private(crew) ? "private" : "shared", size_text(bench->low, low),
            size_text(bench->high, high), bench->factor);
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

static void print_half(const struct bench *bench, uint32_t number)
{
    FILE *file = bench->output.file;
    const struct job *job = &bench->crew.jobs[number];
    const struct result *result = &bench->crew.results[number];
    char text[NUMBER_TEXT];
    fprintf(file, "  %7s %7.2f %7.2f", real_text(result->median_us, text), algbw(bench, number),
            busbw(bench, number));
    if (job->check)
        fprintf(file, " %6llu", (unsigned long long)result->wrong);
    else
        fprintf(file, " %6s", "N/A");
}

static void print_no_half(const struct bench *bench)
{
    fprintf(bench->output.file, "  %7s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A");
}

/* One line; gives the number of the next job. */
static uint32_t print_line(const struct bench *bench, uint32_t number)
{
    FILE *file = bench->output.file;
    const struct crew *crew = &bench->crew;
    const struct job *job = &crew->jobs[number];
    int barrier = job->action.collective == PEAL_BARRIER;
    peal_row_info row = {.size = sizeof row};
    char root[ACTION_TEXT] = "-1";
    if (action_rooted(&job->action))
        (void)action_root_text(&job->action, root);
    fprintf(file, "%12llu  %12llu  %8s  %6s  %6s", (unsigned long long)job_bytes(job, crew->ranks),
            (unsigned long long)job->count, barrier ? "none" : nccl_name(job->dtype),
            action_op_name(&job->action, job->op), root);
    for (int in_place = 0; in_place < 2; in_place++)
        if (is_placed(bench, &job->action, in_place))
            print_half(bench, number++);
        else
            print_no_half(bench);
    fprintf(file, "  %s\n", find_row(crew->table, job, crew->ranks, &row) ? row.algorithm : "");
    return number;
}

/* Of the jobs [from, to). */
static double average(const struct bench *bench, uint32_t from, uint32_t to, uint64_t *wrong)
{
    double sum = 0;
    *wrong = 0;
    for (uint32_t i = from; i < to; i++) {
        sum += busbw(bench, i);
        *wrong += bench->crew.results[i].wrong;
    }
    return to > from ? sum / (to - from) : 0;
}

static uint32_t done_jobs(const struct crew *crew)
{
    uint32_t done = 0;
    while (done < crew->njobs && crew->results[done].done)
        done++;
    return done;
}

/* The lines of the action that job `from` is of; gives the number of the next job. */
static uint32_t print_block(const struct bench *bench, uint32_t from, uint32_t done)
{
    FILE *file = bench->output.file;
    const struct job *jobs = bench->crew.jobs;
    const struct action *action = &jobs[from].action;
    uint64_t wrong;
    uint32_t last = from, step = 0;
    for (int in_place = 0; in_place < 2; in_place++)
        step += is_placed(bench, action, in_place) ? 1 : 0;
    if (from)
        fputs("\n", file);
    print_head(bench, action);
    while (last < done && action_same(&jobs[last].action, action))
        last++;
    for (uint32_t i = from; i + step <= last;)
        i = print_line(bench, i);
    double mean = average(bench, from, last, &wrong);
    fprintf(file, "# Out of bounds values : %llu %s\n", (unsigned long long)wrong,
            wrong ? "FAILED" : "OK");
    if (action->collective != PEAL_BARRIER)
        fprintf(file, "# Avg bus bandwidth    : %.4f\n", mean);
    return last;
}

static void print_all(const struct bench *bench)
{
    uint32_t done = done_jobs(&bench->crew);
    for (uint32_t i = 0; i < done;)
        i = print_block(bench, i, done);
}

static void json_line(json_t *item, const struct bench *bench, uint32_t number)
{
    const struct crew *crew = &bench->crew;
    const struct job *job = &crew->jobs[number];
    const struct result *result = &crew->results[number];
    peal_row_info row;
    json_action(item, &job->action);
    json_count(item, "ranks", crew->ranks);
    json_count(item, "bytes", job_bytes(job, crew->ranks));
    json_count(item, "count", job->count);
    json_text(item, "dtype", action_dtype_name(&job->action, job->dtype));
    json_text(item, "op", action_op_name(&job->action, job->op));
    json_flag(item, "inplace", job->in_place);
    json_text(item, "algorithm",
              find_row(crew->table, job, crew->ranks, &row) ? row.algorithm : "");
    json_number(item, "time_us", result->median_us);
    json_number(item, "time_best_us", result->best_us);
    json_number(item, "algbw_gbs", algbw(bench, number));
    json_number(item, "busbw_gbs", busbw(bench, number));
    json_count(item, "calls", result->calls);
    json_flag(item, "checked", job->check);
    json_count(item, "wrong", result->wrong);
}

static void json_all(const struct bench *bench)
{
    const struct crew *crew = &bench->crew;
    uint64_t wrong;
    uint32_t done = done_jobs(crew);
    json_t *root = json_begin("peal.bench/1");
    json_number(root, "busbw_gbs", average(bench, 0, done, &wrong));
    json_count(root, "wrong", wrong);
    json_team(root, bench->cli);
    json_text(root, "ranks_as", crew->procs ? "processes" : "threads");
    json_text(root, "buffers", crew_private(crew) ? "private" : "shared");
    json_engines(root, "engines", crew->info.engines);
    json_engines(root, "stand_ins", crew->info.stand_ins);
    json_t *rows = json_list(root, "rows");
    for (uint32_t i = 0; i < done; i++)
        json_line(json_item(rows), bench, i);
    json_end(root, &bench->output);
}

/* ---- */

static int measure(struct bench *bench)
{
    struct crew *crew = &bench->crew;
    int code = crew_run(crew);
    for (uint32_t i = 0; i < crew->njobs && code == EXIT_YES; i++)
        if (crew->results[i].wrong) {
            say_wrong(&crew->jobs[i], crew->ranks, &crew->results[i]);
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

/* The jobs [from, result) are of one action; request gets their sizes. */
static uint32_t end_of_action(const struct bench *bench, uint32_t from, peal_request *request)
{
    const struct crew *crew = &bench->crew;
    const struct action *action = &crew->jobs[from].action;
    uint32_t next = from;
    request->min_bytes = request->max_bytes = bench->low ? bench->low : 1;
    for (; next < crew->njobs && action_same(&crew->jobs[next].action, action); next++)
        if (job_bytes(&crew->jobs[next], crew->ranks) > request->max_bytes)
            request->max_bytes = job_bytes(&crew->jobs[next], crew->ranks);
    return next;
}

/* A table that serves each of the jobs; those of --collective all that cannot be served go. */
static int plan_jobs(struct bench *bench, const peal_fabric *fabric, struct job *jobs)
{
    struct crew *crew = &bench->crew;
    peal_request request = PEAL_REQUEST_INIT;
    uint32_t kept = 0;
    CLI_TRY(read_request(bench->cli, &request));
    request.ranks = crew->ranks;
    request.private_buffers |= crew_private(crew);
    for (uint32_t i = 0, next; i < crew->njobs; i = next) {
        struct action action = jobs[i].action;
        int skip = 0;
        next = end_of_action(bench, i, &request);
        CLI_TRY(make_table(bench->cli, fabric, &request, &action, bench->choice.all ? &skip : NULL,
                           1, &bench->table));
        for (uint32_t k = i; k < next && !skip; k++)
            jobs[kept++] = jobs[k];
    }
    crew->njobs = kept;
    return kept ? EXIT_YES : say_diag(PEAL_ERR_UNSUPPORTED, NULL);
}

/* In a job that rank 0 plans for: its table, and the jobs that it serves. */
static int take_jobs(struct bench *bench, struct job *jobs)
{
    struct crew *crew = &bench->crew;
    peal_row_info row;
    uint32_t kept = 0;
    CLI_TRY(launch_take(bench->cli, crew->timeout_ms, 0, &bench->table));
    for (uint32_t i = 0; i < bench->actions.count; i++)
        custom_of_table(&bench->cli->team, bench->table, &bench->actions.list[i]);
    CLI_TRY(make_jobs(bench, jobs));
    for (uint32_t i = 0; i < crew->njobs; i++)
        if (!bench->choice.all || find_row(bench->table, &jobs[i], crew->ranks, &row))
            jobs[kept++] = jobs[i];
    crew->njobs = kept;
    return EXIT_YES;
}

static int bench_jobs(struct bench *bench, const peal_fabric *fabric, struct job *jobs)
{
    struct crew *crew = &bench->crew;
    int shared = fabric && launch_shares(bench->cli);
    if (shared)
        CLI_TRY(launch_fits(crew->launch, crew->ranks));
    if (shared && launch_follows(bench->cli)) {
        CLI_TRY(take_jobs(bench, jobs));
    } else {
        int code = make_jobs(bench, jobs);
        if (code == EXIT_YES && fabric)
            code = plan_jobs(bench, fabric, jobs);
        CLI_TRY(shared ? launch_give(bench->cli, crew->timeout_ms, code, bench->table) : code);
    }
    crew->table = bench->table;
    CLI_TRY(check_sizes(bench->table, crew->jobs, crew->njobs, crew->ranks));
    CLI_TRY(note_wire(bench->table, jobs, crew->njobs, crew->ranks));
    return measure(bench);
}

static int bench_beside(const struct bench *bench, const peal_fabric *fabric)
{
    struct crew crew = bench->crew; /* a comm's thread is where its rank is: not on its only core */
    crew.procs = cli_given(bench->cli, OPT_PROCS);
    crew.pin = cli_given(bench->cli, OPT_PIN);
    const struct overlap_asked asked = {.cli = bench->cli,
                                        .fabric = fabric,
                                        .table = bench->table,
                                        .crew = &crew,
                                        .dtype = bench->dtype,
                                        .op = bench->op,
                                        .action = bench->actions.list[0],
                                        .count = bench->count,
                                        .points = bench->points};
    if (bench->actions.count != 1)
        return say_usage("--beside takes one collective");
    return bench_overlap(&asked);
}

static int bench_actions(struct bench *bench, const peal_fabric *fabric)
{
    struct crew *crew = &bench->crew;
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    CLI_TRY(read_crew(bench->cli, crew->ranks <= (uint32_t)(cores > 0 ? cores : 1), 1, crew));
    crew->what = "peal bench: lines";
    if (cli_given(bench->cli, OPT_ALL_PAIRS))
        return fabric ? bench_pairs(bench->cli, fabric, crew)
                      : say_usage("--all-pairs plans each pair, and needs a topology");
    if (cli_given(bench->cli, OPT_BESIDE))
        return bench_beside(bench, fabric);
    size_t room = 2 * (size_t)bench->points * bench->actions.count;
    struct job *jobs = need(calloc(room + 1, sizeof *jobs));
    crew->results = need(calloc(room + 1, sizeof *crew->results));
    crew->jobs = jobs;
    int code = bench_jobs(bench, fabric, jobs);
    free(crew->results);
    free(jobs);
    return code;
}

static int choose(struct bench *bench, const peal_fabric *fabric)
{
    struct cli *cli = bench->cli;
    peal_table_info info = {.size = sizeof info};
    if (fabric) {
        peal_request request = PEAL_REQUEST_INIT;
        CLI_TRY(read_request(cli, &request));
        CLI_TRY(count_ranks(cli, fabric, request.ranks, &bench->crew.ranks));
        request.ranks = bench->crew.ranks;
        CLI_TRY(choose_all(&bench->choice, bench->crew.ranks, 0, &bench->actions));
        return custom_choose(cli, fabric, &request, &bench->actions);
    }
    CLI_TRY(check_decided(cli, bench->table));
    CLI_TRY(say_diag(peal_table_get(bench->table, &info), NULL));
    bench->crew.ranks = info.ranks;
    return choose_of_table(&bench->choice, bench->table, &bench->actions);
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
        code = launch_read(cli, cli->launch);
    if (code == EXIT_YES)
        code = load_any(cli, cli->operand[0], &fabric, &bench->table);
    if (code == EXIT_YES)
        code = choose(bench, fabric);
    if (code == EXIT_YES)
        code = bench_actions(bench, fabric);
    peal_table_destroy(bench->table);
    peal_fabric_destroy(fabric);
    free(bench);
    return code;
}
