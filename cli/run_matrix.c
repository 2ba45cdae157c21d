/* SPDX-License-Identifier: Apache-2.0 */
/* What the options of peal run list, and the jobs that they make. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* ---- options */

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

static int read_matrix(struct cli *cli, struct matrix *matrix)
{
    const char *algorithm = cli->value[OPT_ALGORITHM];
    memset(matrix, 0, sizeof *matrix);
    CLI_TRY(read_choice(cli, 1, &matrix->choice));
    matrix->nranks = matrix->ndtypes = matrix->nops = 1; /* all ranks, float32, sum */
    matrix->nalgorithms = 1;
    matrix->algorithm[0] = algorithm_words(); /* let the plan choose */
    CLI_TRY(cli_numbers(cli, OPT_RANKS, 0, matrix->ranks, &matrix->nranks));
    if (!script_given(cli))
        CLI_TRY(cli_names(cli, OPT_ALGORITHM, algorithm_word, algorithm_words(), matrix->algorithm,
                          &matrix->nalgorithms));
    CLI_TRY(
        cli_names(cli, OPT_DTYPE, dtype_word, PEAL_DTYPE_COUNT, matrix->dtype, &matrix->ndtypes));
    CLI_TRY(cli_names(cli, OPT_OP, op_word, PEAL_OP_COUNT, matrix->op, &matrix->nops));
    CLI_TRY(read_sizes(cli, matrix));
    for (uint32_t i = 0; i < matrix->nranks && cli_given(cli, OPT_RANKS); i++)
        if (matrix->ranks[i] == 0 || matrix->ranks[i] > UINT32_MAX)
            return say_usage("--ranks: there is no collective of nobody, nor of so many");
    matrix->any_algorithm = algorithm && strcmp(algorithm, "all") == 0;
    matrix->in = cli_given(cli, OPT_IN_PLACE);
    matrix->out = !matrix->in;
    return read_placement(cli, &matrix->out, &matrix->in);
}

/* At most: not every collective has a root, an operation, a place. */
static size_t combinations(const struct matrix *m)
{
    return (size_t)m->nranks * m->nalgorithms * m->ndtypes * m->nops * m->nsizes *
           (size_t)(m->in + m->out) * m->choice.collectives * m->choice.roots;
}

/* ---- jobs */

static void add_job(struct jobs *jobs, const struct job *job)
{
    if (jobs->count == jobs->room) {
        jobs->room = jobs->room ? 2 * jobs->room : 64;
        jobs->list = need(realloc(jobs->list, jobs->room * sizeof *jobs->list));
    }
    jobs->list[jobs->count++] = *job;
}

/* Small messages are called several times in a row, without a meeting between. */
static uint32_t calls_of(uint64_t bytes, int check)
{
    return !check || bytes > 1u << 18 ? 1 : 4;
}

/* What all jobs have in common. */
static int read_job(const struct run *run, struct job *job)
{
    int many = combinations(&run->matrix) > 1;
    *job = (struct job){.check = cli_given(run->cli, OPT_CHECK), .shake = many, .ragged = 1};
    job->rounds = many ? 1 : 5;
    job->warmup = many ? 0 : 1;
    CLI_TRY(cli_u32(run->cli, OPT_ITERS, &job->rounds));
    CLI_TRY(cli_u32(run->cli, OPT_WARMUP, &job->warmup));
    if (job->rounds == 0 || job->rounds > 1000000 || job->warmup > 1000000)
        return say_usage("--iters is 1 to 1000000, --warmup at most that");
    return EXIT_YES;
}

int run_read(struct cli *cli, struct run *run)
{
    CLI_TRY(read_matrix(cli, &run->matrix));
    CLI_TRY(read_crew(cli, 0, 0, &run->crew));
    CLI_TRY(read_job(run, &run->job));
    if (combinations(&run->matrix) > 1u << 20)
        return say_usage("these are more than a million combinations");
    return EXIT_YES;
}

static uint64_t count_of(const struct matrix *m, const struct job *job, uint32_t size,
                         uint32_t ranks)
{
    if (job->action.collective == PEAL_BARRIER)
        return 0;
    if (m->elements)
        return m->size[size];
    return action_count(&job->action, m->size[size], job->dtype, ranks);
}

/* Each placement that the collective has; a barrier has neither. */
static void add_places(const struct matrix *m, struct job *job, struct jobs *jobs)
{
    int out = m->out || job->action.collective == PEAL_BARRIER;
    int in = m->in && action_in_place(&job->action);
    for (int in_place = !out; in_place <= in; in_place++) {
        job->in_place = in_place;
        add_job(jobs, job);
    }
}

void run_add_jobs(const struct run *run, const struct action *action, uint32_t ranks,
                  struct jobs *jobs)
{
    const struct matrix *m = &run->matrix;
    struct job one = run->job;
    int moves = action->collective != PEAL_BARRIER;
    uint32_t ops = action_reduces(action) ? m->nops : 1;
    one.action = *action;
    for (uint32_t s = 0; s < (moves ? m->nsizes : 1); s++)
        for (uint32_t d = 0; d < (moves ? m->ndtypes : 1); d++)
            for (uint32_t o = 0; o < ops; o++) {
                one.dtype = (peal_dtype)m->dtype[d];
                one.op = (peal_op)m->op[o];
                if (action->custom && one.op == PEAL_AVG) /* which it has not */
                    continue;
                one.count = count_of(m, &one, s, ranks);
                one.calls = calls_of(job_bytes(&one, ranks), one.check);
                add_places(m, &one, jobs);
            }
}

void run_size_span(const struct jobs *jobs, uint32_t first, uint32_t ranks, peal_request *request)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (uint32_t i = first; i < jobs->count; i++) {
        uint64_t bytes = job_bytes(&jobs->list[i], ranks);
        low = bytes < low ? bytes : low;
        high = bytes > high ? bytes : high;
    }
    request->min_bytes = low && low != UINT64_MAX ? low : 1;
    request->max_bytes = high > request->min_bytes ? high : request->min_bytes;
}
