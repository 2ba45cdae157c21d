/* SPDX-License-Identifier: Apache-2.0 */
/* peal run: calls in host memory, each combination of what the options list. */
#include "cli_json.h"
#include "run_options.h"

#include <stdlib.h>
#include <string.h>

/* What the options list; the combinations are all of them with all. */
struct matrix {
    uint64_t ranks[LIST_MAX];
    uint32_t algorithm[LIST_MAX];
    uint32_t dtype[LIST_MAX];
    uint32_t op[LIST_MAX];
    uint64_t size[LIST_MAX]; /* bytes, or elements */
    uint32_t nranks, nalgorithms, ndtypes, nops, nsizes;
    int elements;      /* sizes count elements */
    int out, in;       /* placements */
    int any_algorithm; /* "all": what cannot serve is left out */
};

struct record {
    uint32_t ranks;
    char algorithm[64];
    char detail[128];
    struct job job;
    struct result result;
};

struct run {
    struct cli *cli;
    struct matrix matrix;
    struct crew crew; /* the options */
    struct record *record;
    size_t records;
    size_t room;
    uint32_t engines;
    uint32_t stand_ins;
    struct output output;
};

/* ---- options */

static int read_placement(const struct cli *cli, struct matrix *matrix)
{
    const char *word = cli->value[OPT_PLACEMENT];
    matrix->in = cli_given(cli, OPT_IN_PLACE);
    matrix->out = !matrix->in;
    if (!word)
        return EXIT_YES;
    int both = strcmp(word, "both") == 0;
    if (!both && strcmp(word, "in") != 0 && strcmp(word, "out") != 0)
        return say_usage("--placement '%s' is not out, in or both", word);
    if (cli_given(cli, OPT_IN_PLACE) && strcmp(word, "in") != 0)
        return say_usage("--in-place and --placement %s do not go together", word);
    matrix->in = both || word[0] == 'i';
    matrix->out = both || word[0] == 'o';
    return EXIT_YES;
}

static int read_sizes(const struct cli *cli, struct matrix *matrix)
{
    matrix->elements = cli_given(cli, OPT_ELEMENTS);
    if (matrix->elements && cli_given(cli, OPT_BYTES))
        return say_usage("--count and --bytes say the same; one of them is enough");
    matrix->size[0] = 1u << 20;
    matrix->nsizes = 1;
    CLI_TRY(cli_numbers(cli, OPT_BYTES, 1, matrix->size, &matrix->nsizes));
    CLI_TRY(cli_numbers(cli, OPT_ELEMENTS, 1, matrix->size, &matrix->nsizes));
    for (uint32_t i = 0; i < matrix->nsizes; i++)
        if (matrix->size[i] > 1ull << 40)
            return say_usage("sizes go up to 1T");
    return EXIT_YES;
}

static int read_matrix(const struct cli *cli, struct matrix *matrix)
{
    const char *algorithm = cli->value[OPT_ALGORITHM];
    memset(matrix, 0, sizeof *matrix);
    matrix->nranks = matrix->ndtypes = matrix->nops = 1; /* all ranks, float32, sum */
    matrix->nalgorithms = 1;
    matrix->algorithm[0] = ALGORITHMS; /* let the plan choose */
    CLI_TRY(cli_numbers(cli, OPT_RANKS, 0, matrix->ranks, &matrix->nranks));
    CLI_TRY(cli_names(cli, OPT_ALGORITHM, algorithm_word, ALGORITHMS, matrix->algorithm,
                      &matrix->nalgorithms));
    CLI_TRY(
        cli_names(cli, OPT_DTYPE, dtype_word, PEAL_DTYPE_COUNT, matrix->dtype, &matrix->ndtypes));
    CLI_TRY(cli_names(cli, OPT_OP, op_word, PEAL_OP_COUNT, matrix->op, &matrix->nops));
    CLI_TRY(read_sizes(cli, matrix));
    for (uint32_t i = 0; i < matrix->nranks && cli_given(cli, OPT_RANKS); i++)
        if (matrix->ranks[i] == 0 || matrix->ranks[i] > UINT32_MAX)
            return say_usage("--ranks: there is no collective of nobody, nor of so many");
    matrix->any_algorithm = algorithm && strcmp(algorithm, "all") == 0;
    return read_placement(cli, matrix);
}

static size_t combinations(const struct matrix *m)
{
    return (size_t)m->nranks * m->nalgorithms * m->ndtypes * m->nops * m->nsizes *
           (size_t)(m->in + m->out);
}

static uint64_t count_of(const struct matrix *matrix, uint32_t size, uint32_t dtype)
{
    uint64_t bytes = peal_dtype_size((peal_dtype)matrix->dtype[dtype]);
    return matrix->elements ? matrix->size[size] : matrix->size[size] / bytes;
}

/* ---- jobs */

/* Small messages are called several times in a row, without a meeting between. */
static uint32_t calls_of(uint64_t bytes, int check)
{
    return !check || bytes > 1u << 18 ? 1 : 4;
}

static int make_jobs(const struct run *run, struct job *jobs)
{
    const struct matrix *m = &run->matrix;
    int many = combinations(m) > 1;
    struct job one = {.check = cli_given(run->cli, OPT_CHECK), .shake = many};
    uint32_t n = 0;
    one.rounds = many ? 1 : 5;
    one.warmup = many ? 0 : 1;
    CLI_TRY(cli_u32(run->cli, OPT_ITERS, &one.rounds));
    CLI_TRY(cli_u32(run->cli, OPT_WARMUP, &one.warmup));
    if (one.rounds == 0 || one.rounds > 1000000 || one.warmup > 1000000)
        return say_usage("--iters is 1 to 1000000, --warmup at most that");
    for (uint32_t s = 0; s < m->nsizes; s++)
        for (uint32_t d = 0; d < m->ndtypes; d++)
            for (uint32_t o = 0; o < m->nops; o++)
                for (int in_place = !m->out; in_place <= m->in; in_place++) {
                    one.dtype = (peal_dtype)m->dtype[d];
                    one.op = (peal_op)m->op[o];
                    one.count = count_of(m, s, d);
                    one.in_place = in_place;
                    one.calls = calls_of(one.count * peal_dtype_size(one.dtype), one.check);
                    jobs[n++] = one;
                }
    return EXIT_YES;
}

static void size_span(const struct matrix *matrix, uint64_t *low, uint64_t *high)
{
    *low = UINT64_MAX;
    *high = 0;
    for (uint32_t s = 0; s < matrix->nsizes; s++)
        for (uint32_t d = 0; d < matrix->ndtypes; d++) {
            uint64_t bytes = count_of(matrix, s, d) * peal_dtype_size((peal_dtype)matrix->dtype[d]);
            *low = bytes < *low ? bytes : *low;
            *high = bytes > *high ? bytes : *high;
        }
    *low = *low ? *low : 1;
    *high = *high > *low ? *high : *low;
}

/* ---- one table */

static const char *placement(const struct job *job)
{
    return job->in_place ? "in" : "out";
}

static void print_line(const struct record *record, FILE *file)
{
    const struct job *job = &record->job;
    char size[NUMBER_TEXT], text[NUMBER_TEXT];
    fprintf(file, "%3lu ranks  %-12s %-9s %-5s %-4s %9s %10llu elements %10s us  %s\n",
            (unsigned long)record->ranks, record->algorithm, peal_dtype_name(job->dtype),
            peal_op_name(job->op), placement(job),
            size_text(job->count * peal_dtype_size(job->dtype), size),
            (unsigned long long)job->count, real_text(record->result.median_us, text),
            record->result.wrong ? "WRONG"
            : job->check         ? "right"
                                 : "not checked");
}

static void keep(struct run *run, const struct crew *crew, uint32_t number)
{
    peal_row_info row = {.size = sizeof row};
    const struct job *job = &crew->jobs[number];
    uint32_t index = 0;
    if (run->records == run->room) {
        run->room = run->room ? 2 * run->room : 64;
        run->record = need(realloc(run->record, run->room * sizeof *run->record));
    }
    struct record *record = &run->record[run->records++];
    memset(record, 0, sizeof *record);
    record->ranks = crew->ranks;
    record->job = *job;
    record->result = crew->results[number];
    if (peal_table_lookup(crew->table, job->count * peal_dtype_size(job->dtype), &index) ==
            PEAL_OK &&
        peal_table_row(crew->table, index, &row) == PEAL_OK) {
        memcpy(record->algorithm, row.algorithm, sizeof record->algorithm);
        memcpy(record->detail, row.detail, sizeof record->detail);
    }
    if (cli_given(run->cli, OPT_VERBOSE) && !cli_given(run->cli, OPT_JSON))
        print_line(record, run->output.file);
}

static int run_jobs(struct run *run, peal_table *table, const struct job *jobs, uint32_t count)
{
    peal_table_info info = {.size = sizeof info};
    CLI_TRY(say_diag(peal_table_get(table, &info), NULL));
    CLI_TRY(check_sizes(table, jobs, count));
    struct crew crew = run->crew;
    crew.table = table;
    crew.ranks = info.ranks;
    crew.jobs = jobs;
    crew.njobs = count;
    crew.what = "peal run: combinations";
    crew.results = need(calloc(count, sizeof *crew.results));
    int code = crew_run(&crew);
    run->engines |= crew.info.engines;
    run->stand_ins |= crew.info.stand_ins;
    for (uint32_t i = 0; i < count && crew.results[i].done; i++) {
        keep(run, &crew, i);
        if (crew.results[i].wrong && code == EXIT_YES) {
            say_wrong(&jobs[i], &crew.results[i]);
            code = EXIT_NO;
        }
    }
    free(crew.results);
    return code;
}

static int run_table(struct run *run, peal_table *table)
{
    const struct matrix *m = &run->matrix;
    uint32_t count = (uint32_t)(combinations(m) / (m->nranks * m->nalgorithms));
    struct job *jobs = need(calloc(count, sizeof *jobs));
    int code = make_jobs(run, jobs);
    if (code == EXIT_YES)
        code = run_jobs(run, table, jobs, count);
    free(jobs);
    return code;
}

/* ---- all tables */

static int run_one_request(struct run *run, const peal_fabric *fabric, peal_request *request)
{
    peal_table *table = NULL;
    int skip = 0;
    CLI_TRY(
        make_table(run->cli, fabric, request, run->matrix.any_algorithm ? &skip : NULL, &table));
    int code = skip ? EXIT_YES : run_table(run, table);
    peal_table_destroy(table);
    return code;
}

static int run_fabric(struct run *run, const peal_fabric *fabric)
{
    const struct matrix *m = &run->matrix;
    peal_request request = PEAL_REQUEST_INIT;
    CLI_TRY(read_request(run->cli, &request));
    size_span(m, &request.min_bytes, &request.max_bytes);
    for (uint32_t r = 0; r < m->nranks; r++)
        for (uint32_t a = 0; a < m->nalgorithms; a++) {
            request.ranks = (uint32_t)m->ranks[r];
            request.algorithm = algorithm_word(m->algorithm[a]);
            CLI_TRY(run_one_request(run, fabric, &request));
        }
    if (run->records == 0)
        return say_diag(PEAL_ERR_UNSUPPORTED, NULL);
    return EXIT_YES;
}

static int run_file(struct run *run, peal_table *table)
{
    CLI_TRY(check_decided(run->cli, table));
    return run_table(run, table);
}

/* ---- the answer */

static uint64_t wrong_total(const struct run *run)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < run->records; i++)
        wrong += run->record[i].result.wrong;
    return wrong;
}

static uint64_t elements_total(const struct run *run)
{
    uint64_t total = 0;
    for (size_t i = 0; i < run->records; i++) {
        const struct job *job = &run->record[i].job;
        total += job->count * run->record[i].ranks * job->calls * (job->warmup + job->rounds);
    }
    return total;
}

static void print_one(const struct run *run, const struct record *record, FILE *file)
{
    const struct job *job = &record->job;
    const struct result *result = &record->result;
    uint64_t bytes = job->count * peal_dtype_size(job->dtype);
    char text[NUMBER_TEXT], other[NUMBER_TEXT];
    double gbs = result->median_us > 0 ? (double)bytes / (result->median_us * 1e3) : 0;
    fprintf(file, "allreduce of %s: %llu %s, %s, %s, by %lu %s\n", size_text(bytes, text),
            (unsigned long long)job->count, peal_dtype_name(job->dtype), peal_op_name(job->op),
            job->in_place ? "in place" : "out of place", (unsigned long)record->ranks,
            run->crew.procs ? "processes" : "threads");
    fprintf(file, "algorithm  %s%s%s\n", record->algorithm, record->detail[0] ? ", " : "",
            record->detail);
    fprintf(file, "time       %s us median", real_text(result->median_us, text));
    fprintf(file, ", %s us best; algbw %s GB/s", real_text(result->best_us, text),
            real_text(gbs, other));
    fprintf(file, ", busbw %s GB/s\n", real_text(gbs * bus_factor(record->ranks), text));
}

static void print_answer(const struct run *run)
{
    FILE *file = run->output.file;
    uint64_t wrong = wrong_total(run);
    peal_comm_info info = {.size = sizeof info};
    if (run->records == 1)
        print_one(run, &run->record[0], file);
    else
        fprintf(file, "%llu combinations\n", (unsigned long long)run->records);
    info.engines = run->engines;
    info.stand_ins = run->stand_ins;
    fputs("engines    ", file);
    print_engines(&info, file);
    if (!cli_given(run->cli, OPT_CHECK))
        fputs("check      none asked for (--check)\n", file);
    else if (wrong)
        fprintf(file, "check      FAILED: %llu wrong\n", (unsigned long long)wrong);
    else
        fprintf(file,
                "check      %llu elements compared, all right; all ranks hold the same bits\n",
                (unsigned long long)elements_total(run));
}

static void json_record(json_t *object, const struct record *record)
{
    const struct job *job = &record->job;
    uint64_t bytes = job->count * peal_dtype_size(job->dtype);
    double us = record->result.median_us;
    double gbs = us > 0 ? (double)bytes / (us * 1e3) : 0;
    json_text(object, "collective", "allreduce");
    json_count(object, "ranks", record->ranks);
    json_count(object, "bytes", bytes);
    json_count(object, "count", job->count);
    json_text(object, "dtype", peal_dtype_name(job->dtype));
    json_text(object, "op", peal_op_name(job->op));
    json_flag(object, "inplace", job->in_place);
    json_text(object, "algorithm", record->algorithm);
    json_text(object, "detail", record->detail);
    json_number(object, "time_us", us);
    json_number(object, "time_best_us", record->result.best_us);
    json_number(object, "algbw_gbs", gbs);
    json_number(object, "busbw_gbs", gbs * bus_factor(record->ranks));
    json_flag(object, "checked", job->check);
    json_count(object, "wrong", record->result.wrong);
    if (!record->result.wrong)
        return;
    const struct wrong *first = &record->result.first;
    json_t *child = json_child(object, "first_wrong");
    json_count(child, "rank", first->rank);
    json_text(child, "what", first->what);
    json_count(child, "index", first->index);
    json_text(child, "got", first->got);
    json_text(child, "expected", first->wanted);
}

static void json_answer(const struct run *run)
{
    json_t *root = json_begin("peal.run/1");
    if (run->records == 1)
        json_record(root, &run->record[0]);
    json_count(root, "combinations", run->records);
    json_count(root, "wrong", wrong_total(run));
    json_text(root, "ranks_as", run->crew.procs ? "processes" : "threads");
    json_engines(root, "engines", run->engines);
    json_engines(root, "stand_ins", run->stand_ins);
    json_t *list = json_list(root, "runs");
    for (size_t i = 0; i < run->records; i++)
        json_record(json_item(list), &run->record[i]);
    json_end(root, &run->output);
}

static int answer(struct run *run, int code)
{
    if (run->records && (code == EXIT_YES || code == EXIT_NO)) {
        if (cli_given(run->cli, OPT_JSON))
            json_answer(run);
        else
            print_answer(run);
    }
    return code;
}

static int run_any(struct run *run)
{
    peal_fabric *fabric;
    peal_table *table;
    CLI_TRY(load_any(run->cli, run->cli->operand[0], &fabric, &table));
    int code = output_open(run->cli, &run->output);
    if (code == EXIT_YES) {
        code = fabric ? run_fabric(run, fabric) : run_file(run, table);
        code = output_close(&run->output, answer(run, code));
    }
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    return code;
}

int verb_run(struct cli *cli)
{
    struct run run = {.cli = cli};
    CLI_TRY(cli_operands(cli, 1));
    CLI_TRY(read_matrix(cli, &run.matrix));
    CLI_TRY(read_crew(cli, 0, &run.crew));
    if (combinations(&run.matrix) > 1u << 20)
        return say_usage("these are more than a million combinations");
    int code = run_any(&run);
    free(run.record);
    return code;
}
