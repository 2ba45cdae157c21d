/* SPDX-License-Identifier: Apache-2.0 */
#include "run_options.h"

#include <string.h>

int read_crew(struct cli *cli, int alone, int timed, struct crew *crew)
{
    crew->cli = cli;
    crew->launch = cli->launch;
    CLI_TRY(launch_read(cli, cli->launch));
    crew->seed = 1;
    CLI_TRY(cli_u64(cli, OPT_SEED, &crew->seed));
    CLI_TRY(cli_u64(cli, OPT_CHAOS, &crew->chaos));
    CLI_TRY(cli_u32(cli, OPT_TIMEOUT, &crew->timeout_ms));
    if (cli_given(cli, OPT_PROCS) && cli_given(cli, OPT_THREADS))
        return say_usage("ranks are --procs or --threads, not both");
    crew->procs = cli_given(cli, OPT_PROCS) || (alone && !cli_given(cli, OPT_THREADS));
    crew->registered = cli_given(cli, OPT_REGISTERED);
    if (cli_given(cli, OPT_PIN) && cli_given(cli, OPT_NO_PIN))
        return say_usage("--pin and --no-pin do not go together");
    crew->pin = cli_given(cli, OPT_PIN) || (alone && !cli_given(cli, OPT_NO_PIN));
    if (timed && crew->launch->by == LAUNCH_NONE)
        crew->pin = !cli_given(cli, OPT_NO_PIN);
    crew->watch = cli_given(cli, OPT_WATCH);
    crew->procs |= crew->launch->by != LAUNCH_NONE;
    crew->random_delay = cli_given(cli, OPT_RANDOM_DELAY);
    crew->gpu = cli_given(cli, OPT_GPU);
    crew->zero_sm = cli_given(cli, OPT_ZERO_SM);
    return EXIT_YES;
}

int read_placement(const struct cli *cli, int *out, int *in)
{
    const char *word = cli->value[OPT_PLACEMENT];
    if (!word)
        return EXIT_YES;
    int both = strcmp(word, "both") == 0;
    if (!both && strcmp(word, "in") != 0 && strcmp(word, "out") != 0)
        return say_usage("--placement '%s' is not out, in or both", word);
    if (cli_given(cli, OPT_IN_PLACE) && strcmp(word, "in") != 0)
        return say_usage("--in-place and --placement %s do not go together", word);
    *in = both || word[0] == 'i';
    *out = both || word[0] == 'o';
    return EXIT_YES;
}

static int look_up(const peal_table *table, const struct job *job, uint32_t ranks, uint32_t *index)
{
    const struct action *action = &job->action;
    return peal_table_lookup(table, action->collective, action->root, action->peer,
                             job_bytes(job, ranks), index) == PEAL_OK;
}

int find_row(const peal_table *table, const struct job *job, uint32_t ranks, peal_row_info *row)
{
    uint32_t index;
    row->size = sizeof *row;
    return look_up(table, job, ranks, &index) && peal_table_row(table, index, row) == PEAL_OK;
}

void find_id(const peal_table *table, const struct job *job, uint32_t ranks, char id[33])
{
    uint32_t index;
    if (!look_up(table, job, ranks, &index) || peal_table_id(table, index, id) != PEAL_OK)
        id[0] = '\0';
}

int note_wire(peal_table *table, struct job *jobs, uint32_t count, uint32_t ranks)
{
    peal_row_info row;
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t i = 0; i < count; i++) {
        if (!find_row(table, &jobs[i], ranks, &row) || row.wire == PEAL_WIRE_NONE)
            continue;
        if (row.wire_roundings == 0)
            CLI_TRY(say_diag(peal_table_verify(table, NULL, NULL, NULL, &diag), &diag));
        (void)find_row(table, &jobs[i], ranks, &row);
        jobs[i].wire = row.wire;
        jobs[i].roundings = row.wire_roundings;
    }
    return EXIT_YES;
}

int check_sizes(const peal_table *table, const struct job *jobs, uint32_t count, uint32_t ranks)
{
    peal_row_info row;
    for (uint32_t i = 0; i < count; i++)
        if (!find_row(table, &jobs[i], ranks, &row))
            return say_usage("%llu bytes are more than the plan is for",
                             (unsigned long long)job_bytes(&jobs[i], ranks));
    return EXIT_YES;
}

const char *job_text(const struct job *job, uint32_t ranks, char *text)
{
    char action[ACTION_TEXT], size[NUMBER_TEXT];
    int reduces = action_reduces(&job->action);
    (void)action_text(&job->action, action);
    if (job->action.collective == PEAL_BARRIER)
        (void)snprintf(text, JOB_TEXT, "%s", action);
    else
        (void)snprintf(text, JOB_TEXT, "%s of %s: %llu %s%s%s, %s", action,
                       size_text(job_bytes(job, ranks), size), (unsigned long long)job->count,
                       peal_dtype_name(job->dtype), reduces ? ", " : "",
                       reduces ? peal_op_name(job->op) : "",
                       job->in_place ? "in place" : "out of place");
    return text;
}

void say_wrong(const struct job *job, uint32_t ranks, const struct result *result)
{
    const struct wrong *first = &result->first;
    char text[JOB_TEXT];
    say(SAY_ERROR, "wrong: %s: rank %lu, %s %llu is %s, not %s; %llu wrong in all",
        job_text(job, ranks, text), (unsigned long)first->rank, first->what,
        (unsigned long long)first->index, first->got, first->wanted,
        (unsigned long long)result->wrong);
}

void print_engines(const peal_comm_info *info, FILE *file)
{
    char all[64], here[64];
    fputs(engines_text(info->engines, all, sizeof all), file);
    if (info->stand_ins)
        fprintf(file, " as the plan names them; here movers in host memory stand in for %s",
                engines_text(info->stand_ins, here, sizeof here));
    fputc('\n', file);
}
