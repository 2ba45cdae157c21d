/* SPDX-License-Identifier: Apache-2.0 */
/* What peal run says in the end. */
#include "cli_json.h"
#include "run.h"

static const char *placement(const struct job *job)
{
    if (job->action.collective == PEAL_BARRIER)
        return "-";
    return job->in_place ? "in" : "out";
}

void run_print_line(const struct record *record, FILE *file)
{
    const struct job *job = &record->job;
    char size[NUMBER_TEXT], text[NUMBER_TEXT], root[ACTION_TEXT];
    fprintf(file, "%3lu ranks  %-14s %4s  %-12s %-9s %-5s %-4s", (unsigned long)record->ranks,
            peal_collective_name(job->action.collective), action_root_text(&job->action, root),
            record->algorithm, action_dtype_name(&job->action, job->dtype),
            action_op_name(&job->action, job->op), placement(job));
    fprintf(file, " %9s %10llu elements %10s us  %s\n",
            size_text(job_bytes(job, record->ranks), size), (unsigned long long)job->count,
            real_text(record->result.median_us, text),
            record->result.wrong ? "WRONG"
            : job->check         ? "right"
                                 : "not checked");
}

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
        const struct record *record = &run->record[i];
        const struct job *job = &record->job;
        uint64_t blocks = 0;
        for (uint32_t r = 0; r < record->ranks; r++)
            blocks += action_output(&job->action, r, record->ranks);
        total += job->count * blocks * job->calls * (job->warmup + job->rounds);
    }
    return total;
}

/* 1: of all collectives that were run, all ranks get the whole result. */
static int all_get_all(const struct run *run)
{
    for (size_t i = 0; i < run->records; i++) {
        peal_collective collective = run->record[i].job.action.collective;
        if (collective != PEAL_ALLREDUCE && collective != PEAL_ALLGATHER &&
            collective != PEAL_BROADCAST)
            return 0;
    }
    return 1;
}

static int ran_barriers(const struct run *run)
{
    for (size_t i = 0; i < run->records; i++)
        if (run->record[i].job.action.collective == PEAL_BARRIER)
            return 1;
    return 0;
}

static double algbw(const struct record *record)
{
    uint64_t bytes = job_bytes(&record->job, record->ranks);
    double us = record->result.median_us;
    return us > 0 ? (double)bytes / (us * 1e3) : 0;
}

static void print_one(const struct run *run, const struct record *record, FILE *file)
{
    const struct job *job = &record->job;
    const struct result *result = &record->result;
    char text[NUMBER_TEXT], other[NUMBER_TEXT], what[JOB_TEXT];
    fprintf(file, "%s, by %lu %s\n", job_text(job, record->ranks, what),
            (unsigned long)record->ranks, run->crew.procs ? "processes" : "threads");
    fprintf(file, "algorithm  %s%s%s\n", record->algorithm, record->detail[0] ? ", " : "",
            record->detail);
    fprintf(file, "plan       %s\n", record->id);
    fprintf(file, "time       %s us median", real_text(result->median_us, text));
    fprintf(file, ", %s us best; algbw %s GB/s", real_text(result->best_us, text),
            real_text(algbw(record), other));
    fprintf(file, ", busbw %s GB/s\n",
            real_text(algbw(record) * action_bus_factor(&job->action, record->ranks), text));
}

static void print_check(const struct run *run, FILE *file)
{
    uint64_t wrong = wrong_total(run);
    if (!cli_given(run->cli, OPT_CHECK)) {
        fputs("check      none asked for (--check)\n", file);
        return;
    }
    if (wrong) {
        fprintf(file, "check      FAILED: %llu wrong\n", (unsigned long long)wrong);
        return;
    }
    if (elements_total(run) || !ran_barriers(run))
        fprintf(file, "check      %llu elements compared, all right%s\n",
                (unsigned long long)elements_total(run),
                all_get_all(run) ? "; all ranks hold the same bits" : "");
    if (ran_barriers(run) && run->crew.launch->by == LAUNCH_NONE) /* by one clock */
        fputs("check      no rank left a barrier before all had entered it\n", file);
}

static void print_answer(const struct run *run)
{
    FILE *file = run->output.file;
    peal_comm_info info = {.size = sizeof info};
    if (run->records == 1)
        print_one(run, &run->record[0], file);
    else
        fprintf(file, "%llu combinations\n", (unsigned long long)run->records);
    info.engines = run->engines;
    info.stand_ins = run->stand_ins;
    fputs("engines    ", file);
    print_engines(&info, file);
    print_check(run, file);
}

static void json_record(json_t *object, const struct record *record)
{
    const struct job *job = &record->job;
    json_action(object, &job->action);
    json_count(object, "ranks", record->ranks);
    json_count(object, "bytes", job_bytes(job, record->ranks));
    json_count(object, "count", job->count);
    json_text(object, "dtype", action_dtype_name(&job->action, job->dtype));
    json_text(object, "op", action_op_name(&job->action, job->op));
    json_flag(object, "inplace", job->in_place);
    json_text(object, "algorithm", record->algorithm);
    json_text(object, "detail", record->detail);
    json_text(object, "id", record->id);
    json_number(object, "time_us", record->result.median_us);
    json_number(object, "time_best_us", record->result.best_us);
    json_number(object, "algbw_gbs", algbw(record));
    json_number(object, "busbw_gbs",
                algbw(record) * action_bus_factor(&job->action, record->ranks));
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

/* Those that carried anything. */
static void json_carried(json_t *list, const peal_counter *counter)
{
    for (uint32_t t = 0; t < PEAL_TRANSPORT_COUNT; t++) {
        const peal_carried *carried = &counter->carried[t];
        if (!carried->calls)
            continue;
        json_t *item = json_item(list);
        json_text(item, "transport", peal_transport_name((peal_transport)t));
        json_count(item, "calls", carried->calls);
        json_count(item, "bytes", carried->bytes);
        json_number(item, "time_us", carried->time_us);
    }
}

/* Of rank 0; rows that were not called are left out. */
static void json_counters(json_t *list, const struct run *run)
{
    for (size_t i = 0; i < run->counters; i++) {
        const peal_counter *counter = &run->counter[i];
        if (!counter->calls)
            continue;
        json_t *item = json_item(list);
        json_text(item, "collective", peal_collective_name(counter->collective));
        json_count(item, "root", counter->root);
        json_count(item, "peer", counter->peer);
        json_count(item, "max_bytes", counter->max_bytes);
        json_text(item, "algorithm", counter->algorithm);
        json_engines(item, "engines", counter->engines);
        json_count(item, "calls", counter->calls);
        json_count(item, "bytes", counter->bytes);
        json_count(item, "staged", counter->staged);
        json_count(item, "attached", counter->attached);
        json_number(item, "time_us", counter->time_us);
        json_carried(json_list(item, "transports"), counter);
    }
}

static void json_answer(const struct run *run)
{
    json_t *root = json_begin("peal.run/1");
    if (run->records == 1)
        json_record(root, &run->record[0]);
    json_team(root, run->cli);
    json_count(root, "combinations", run->records);
    json_count(root, "wrong", wrong_total(run));
    json_text(root, "ranks_as", run->crew.procs ? "processes" : "threads");
    json_engines(root, "engines", run->engines);
    json_engines(root, "stand_ins", run->stand_ins);
    json_t *list = json_list(root, "runs");
    for (size_t i = 0; i < run->records; i++)
        json_record(json_item(list), &run->record[i]);
    json_counters(json_list(root, "counters"), run);
    json_end(root, &run->output);
}

int run_answer(const struct run *run, int code)
{
    if (run->records && (code == EXIT_YES || code == EXIT_NO)) {
        if (cli_given(run->cli, OPT_JSON))
            json_answer(run);
        else
            print_answer(run);
    }
    return code;
}
