/* SPDX-License-Identifier: Apache-2.0 */
/* peal run: calls in host memory, each combination of what the options list. */
#include "run.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>

/* ---- one table */

static void keep(struct run *run, const struct crew *crew, uint32_t number)
{
    peal_row_info row;
    const struct job *job = &crew->jobs[number];
    if (run->records == run->room) {
        run->room = run->room ? 2 * run->room : 64;
        run->record = need(realloc(run->record, run->room * sizeof *run->record));
    }
    struct record *record = &run->record[run->records++];
    memset(record, 0, sizeof *record);
    record->ranks = crew->ranks;
    record->job = *job;
    record->result = crew->results[number];
    if (find_row(crew->table, job, crew->ranks, &row)) {
        memcpy(record->algorithm, row.algorithm, sizeof record->algorithm);
        memcpy(record->detail, row.detail, sizeof record->detail);
    }
    find_id(crew->table, job, crew->ranks, record->id);
    if (cli_given(run->cli, OPT_VERBOSE) && !cli_given(run->cli, OPT_JSON))
        run_print_line(record, run->output.file);
}

/* Room for those of one more table. */
static peal_counter *more_counters(struct run *run, const struct crew *crew)
{
    size_t before = run->counters;
    run->counters += crew_rows(crew);
    run->counter = need(realloc(run->counter, (run->counters + 1) * sizeof *run->counter));
    memset(run->counter + before, 0, (run->counters - before) * sizeof *run->counter);
    return run->counter + before;
}

static int run_jobs(struct run *run, peal_table *table, const struct jobs *jobs, uint32_t ranks)
{
    CLI_TRY(check_sizes(table, jobs->list, jobs->count, ranks));
    CLI_TRY(note_wire(table, jobs->list, jobs->count, ranks));
    struct crew crew = run->crew;
    crew.table = table;
    crew.ranks = ranks;
    crew.jobs = jobs->list;
    crew.njobs = jobs->count;
    crew.what = "peal run: combinations";
    crew.results = need(calloc(jobs->count, sizeof *crew.results));
    if (cli_given(run->cli, OPT_JSON))
        crew.counters = more_counters(run, &crew);
    int code = crew_run(&crew);
    run->engines |= crew.info.engines;
    run->stand_ins |= crew.info.stand_ins;
    for (uint32_t i = 0; i < jobs->count && crew.results[i].done; i++) {
        keep(run, &crew, i);
        if (crew.results[i].wrong && code == EXIT_YES) {
            say_wrong(&jobs->list[i], ranks, &crew.results[i]);
            code = EXIT_NO;
        }
    }
    free(crew.results);
    return code;
}

/* ---- all tables */

/* With --algorithm all: what no row serves after all. */
static void drop_unserved(const peal_table *table, uint32_t ranks, struct jobs *jobs)
{
    uint32_t kept = 0;
    peal_row_info row;
    for (uint32_t i = 0; i < jobs->count; i++)
        if (find_row(table, &jobs->list[i], ranks, &row))
            jobs->list[kept++] = jobs->list[i];
    jobs->count = kept;
}

/* One table for all actions, so that their calls follow each other. */
static int make_all(struct run *run, const peal_fabric *fabric, peal_request *request,
                    struct actions *actions, struct jobs *jobs, peal_table **table)
{
    const struct matrix *m = &run->matrix;
    int may_skip = m->any_algorithm || m->choice.all;
    int loud = !m->any_algorithm || m->choice.collectives == 1 || cli_given(run->cli, OPT_VERBOSE);
    for (uint32_t i = 0; i < actions->count; i++) {
        const struct action *action = &actions->list[i];
        uint32_t first = jobs->count;
        int skip = 0;
        run_add_jobs(run, action, request->ranks, jobs);
        if (jobs->count == first)
            continue;
        run_size_span(jobs, first, request->ranks, request);
        CLI_TRY(
            make_table(run->cli, fabric, request, action, may_skip ? &skip : NULL, loud, table));
        if (skip)
            jobs->count = first;
    }
    if (m->any_algorithm && *table)
        drop_unserved(*table, request->ranks, jobs);
    return EXIT_YES;
}

/* In a job that rank 0 plans for: its table, and the jobs that follow from it. */
static int take_all(struct run *run, uint32_t ranks, struct actions *actions, struct jobs *jobs,
                    peal_table **table)
{
    const struct matrix *m = &run->matrix;
    int may_skip = m->any_algorithm || m->choice.all;
    CLI_TRY(launch_take(run->cli, run->crew.timeout_ms, may_skip, table));
    for (uint32_t i = 0; *table && i < actions->count; i++) {
        custom_of_table(&run->cli->team, *table, &actions->list[i]);
        run_add_jobs(run, &actions->list[i], ranks, jobs);
    }
    return EXIT_YES;
}

static int plan_for_all(struct run *run, const peal_fabric *fabric, peal_request *request,
                        struct actions *actions, struct jobs *jobs, peal_table **table)
{
    int code;
    CLI_TRY(launch_fits(run->crew.launch, request->ranks));
    if (launch_follows(run->cli)) {
        code = take_all(run, request->ranks, actions, jobs, table);
    } else {
        code = make_all(run, fabric, request, actions, jobs, table);
        code = launch_give(run->cli, run->crew.timeout_ms, code, *table);
    }
    if (code == EXIT_YES && *table && (run->matrix.any_algorithm || run->matrix.choice.all))
        drop_unserved(*table, request->ranks, jobs);
    return code;
}

static int run_one_request(struct run *run, const peal_fabric *fabric, peal_request *request,
                           struct actions *actions)
{
    struct jobs jobs = {NULL, 0, 0};
    peal_table *table = NULL;
    int shared = launch_shares(run->cli);
    int code = (shared ? plan_for_all : make_all)(run, fabric, request, actions, &jobs, &table);
    if (code == EXIT_YES && jobs.count)
        code = run_jobs(run, table, &jobs, request->ranks);
    peal_table_destroy(table);
    free(jobs.list);
    return code;
}

/* That nothing has been run, if so. */
static int say_nothing(const struct run *run)
{
    const struct matrix *m = &run->matrix;
    if (run->records)
        return EXIT_YES;
    if (m->nops == 1 && m->op[0] == PEAL_AVG && m->choice.collective[0] == PEAL_CUSTOM)
        return say_usage("custom has as many contributions as its blocks say, and no average");
    if (!m->out)
        return say_usage("nothing is left to run: what is asked for has no form in place");
    return say_diag(PEAL_ERR_UNSUPPORTED, NULL);
}

static int run_fabric(struct run *run, const peal_fabric *fabric)
{
    const struct matrix *m = &run->matrix;
    struct actions *actions = &run->actions;
    peal_request request = PEAL_REQUEST_INIT;
    int lenient = m->nranks > 1 || m->choice.roots > 1;
    CLI_TRY(read_request(run->cli, &request));
    request.private_buffers |= crew_private(&run->crew);
    for (uint32_t r = 0; r < m->nranks; r++) {
        CLI_TRY(count_ranks(run->cli, fabric, (uint32_t)m->ranks[r], &request.ranks));
        CLI_TRY(choose_all(&m->choice, request.ranks, lenient, actions));
        CLI_TRY(custom_choose(run->cli, fabric, &request, actions));
        for (uint32_t a = 0; a < m->nalgorithms; a++) {
            request.algorithm = algorithm_word(m->algorithm[a]);
            CLI_TRY(run_one_request(run, fabric, &request, actions));
        }
    }
    return say_nothing(run);
}

static int run_file(struct run *run, peal_table *table)
{
    peal_table_info info = {.size = sizeof info};
    struct jobs jobs = {NULL, 0, 0};
    CLI_TRY(check_decided(run->cli, table));
    CLI_TRY(choose_of_table(&run->matrix.choice, table, &run->actions));
    CLI_TRY(say_diag(peal_table_get(table, &info), NULL));
    for (uint32_t i = 0; i < run->actions.count; i++)
        run_add_jobs(run, &run->actions.list[i], info.ranks, &jobs);
    int code = jobs.count ? run_jobs(run, table, &jobs, info.ranks) : say_nothing(run);
    free(jobs.list);
    return code;
}

/* ---- */

static int run_any(struct run *run)
{
    peal_fabric *fabric;
    peal_table *table;
    CLI_TRY(load_any(run->cli, run->cli->operand[0], &fabric, &table));
    int code = output_open(run->cli, &run->output);
    if (code == EXIT_YES) {
        code = fabric ? run_fabric(run, fabric) : run_file(run, table);
        code = output_close(&run->output, run_answer(run, code));
    }
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    return code;
}

int verb_run(struct cli *cli)
{
    struct run run = {.cli = cli};
    CLI_TRY(cli_operands(cli, 1));
    CLI_TRY(run_read(cli, &run));
    run.crew.trace = cli->value[OPT_TRACE];
    if (run.crew.trace && (run.matrix.nranks > 1 || run.matrix.nalgorithms > 1))
        return say_usage("--trace is of one number of ranks and one algorithm");
    int code = run_any(&run);
    free(run.record);
    free(run.counter);
    return code;
}
