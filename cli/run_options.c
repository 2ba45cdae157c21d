/* SPDX-License-Identifier: Apache-2.0 */
#include "run_options.h"

int read_crew(struct cli *cli, int alone, struct crew *crew)
{
    crew->cli = cli;
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
    crew->random_delay = cli_given(cli, OPT_RANDOM_DELAY);
    return EXIT_YES;
}

int make_table(struct cli *cli, const peal_fabric *fabric, const peal_request *request, int *skip,
               peal_table **table_out)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    peal_status status = peal_table_plan(cli->ctx, fabric, request, &diag, &table);
    if (status == PEAL_ERR_UNSUPPORTED && skip) {
        say(SAY_NOTE, "%s is left out: %s", request->algorithm, diag.text);
        *skip = 1;
        return EXIT_YES;
    }
    if (status != PEAL_OK)
        return say_diag(status, &diag);
    int code = compile_table(fabric, table);
    if (code == EXIT_YES)
        *table_out = table;
    else
        peal_table_destroy(table);
    return code;
}

int check_sizes(const peal_table *table, const struct job *jobs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = jobs[i].count * peal_dtype_size(jobs[i].dtype);
        uint32_t row;
        if (peal_table_lookup(table, bytes, &row) != PEAL_OK)
            return say_usage("%llu bytes are more than the plan is for", (unsigned long long)bytes);
    }
    return EXIT_YES;
}

void say_wrong(const struct job *job, const struct result *result)
{
    const struct wrong *first = &result->first;
    say(SAY_ERROR, "wrong: %llu %s, %s, %s: rank %lu, %s %llu is %s, not %s; %llu wrong in all",
        (unsigned long long)job->count, peal_dtype_name(job->dtype), peal_op_name(job->op),
        job->in_place ? "in place" : "out of place", (unsigned long)first->rank, first->what,
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

double bus_factor(uint32_t ranks)
{
    return ranks ? 2.0 * (ranks - 1.0) / ranks : 0;
}
