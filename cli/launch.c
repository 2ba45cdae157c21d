/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

#define KEY_MAX 4096u

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int number_of(const char *name, uint64_t most, uint32_t *out)
{
    uint64_t number;
    const char *text = variable(name);
    if (!text || !parse_u64(text, strlen(text), &number) || number > most)
        return say_usage("%s is '%s', not a number up to %llu", name, text ? text : "",
                         (unsigned long long)most);
    *out = (uint32_t)number;
    return EXIT_YES;
}

/* ---- the job's key */

static int key_of_file(struct launch *launch, const char *path)
{
    size_t bytes;
    CLI_TRY(read_file(path, &launch->key, &bytes));
    while (bytes > 0 && (launch->key[bytes - 1] == '\n' || launch->key[bytes - 1] == '\r'))
        bytes--;
    launch->key_bytes = bytes;
    if (bytes == 0 || bytes > KEY_MAX)
        return say_usage("%s holds no key of 1 to %u bytes", path, KEY_MAX);
    return EXIT_YES;
}

static int read_key(struct launch *launch)
{
    const char *key = variable("PEAL_JOB_KEY");
    const char *path = variable("PEAL_JOB_KEY_FILE");
    if (!key)
        return path ? key_of_file(launch, path) : EXIT_YES;
    launch->key_bytes = strlen(key);
    launch->key = need(malloc(launch->key_bytes + 1));
    memcpy(launch->key, key, launch->key_bytes + 1);
    return EXIT_YES;
}

/* ---- who we are */

/* torchrun's own store listens on the port that it names; then ours is the next one. */
static int read_port(struct launch *launch)
{
    const char *taken = variable("TORCHELASTIC_USE_AGENT_STORE");
    if (variable("PEAL_PORT"))
        return number_of("PEAL_PORT", 65535, &launch->port);
    CLI_TRY(number_of("MASTER_PORT", 65534, &launch->port));
    launch->port += taken && strcmp(taken, "True") == 0;
    return EXIT_YES;
}

static int by_variables(struct launch *launch)
{
    launch->by = LAUNCH_ENV;
    launch->address = variable("MASTER_ADDR");
    CLI_TRY(number_of("RANK", 65535, &launch->rank));
    CLI_TRY(number_of("WORLD_SIZE", 65536, &launch->ranks));
    if (launch->rank >= launch->ranks)
        return say_usage("RANK is %lu and WORLD_SIZE %lu: ranks count from 0",
                         (unsigned long)launch->rank, (unsigned long)launch->ranks);
    launch->placed = variable("LOCAL_RANK") != NULL;
    if (launch->placed)
        CLI_TRY(number_of("LOCAL_RANK", 65535, &launch->place));
    CLI_TRY(read_port(launch));
    return read_key(launch);
}

static char pmix_address[64];

static int by_pmix(struct launch *launch)
{
    int one_host = 0;
    CLI_TRY(pmix_begin(&launch->rank, &launch->ranks, &one_host));
    launch->by = LAUNCH_PMIX;
    launch->address = one_host ? "127.0.0.1" : launch_outward(pmix_address, sizeof pmix_address);
    return EXIT_YES;
}

/* ---- launchers that leave something out: a process that took itself for the only one would run
 * all ranks, and so would each of the others */

/* RANK and WORLD_SIZE say that there are others, as one of them does beside MASTER_ADDR. */
static int by_some_variables(void)
{
    static const char *const names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
    char missing[64] = "";
    size_t used = 0;
    int ranks = (variable("RANK") != NULL) + (variable("WORLD_SIZE") != NULL);
    if (ranks + (variable("MASTER_ADDR") != NULL) < 2 || !ranks)
        return EXIT_YES;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (!variable(names[i]))
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%s",
                                     used ? ", " : "", names[i]);
    return say_usage(
        "of RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, by which ranks meet, there is "
        "no %s; --local runs all ranks here",
        missing);
}

static int by_another(void)
{
    static const struct {
        const char *size;
        const char *rank;
        const char *text;
    } known[] = {
        {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun (without --mpi=pmix)"},
        {"PMI_SIZE", "PMI_RANK", "a launcher with PMI, as MPICH's mpiexec,"},
    };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        const char *text = variable(known[i].size);
        uint64_t size = 0;
        if (text && variable(known[i].rank) && parse_u64(text, strlen(text), &size) && size > 1)
            return say_usage("%s has started %llu processes and does not tell them how to meet: "
                             "that takes PMIx, or RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in "
                             "the environment of each; --local runs all ranks in each of them",
                             known[i].text, (unsigned long long)size);
    }
    return EXIT_YES;
}

static int find_launcher(struct launch *launch)
{
    int port = variable("MASTER_PORT") || variable("PEAL_PORT");
    if (variable("RANK") && variable("WORLD_SIZE") && variable("MASTER_ADDR") && port)
        return by_variables(launch);
    if (pmix_asks())
        return by_pmix(launch);
    CLI_TRY(by_some_variables());
    return by_another();
}

/* slice.%r.peal: each rank has a file of its own. */
static void name_by_rank(struct cli *cli, struct launch *launch)
{
    const char *given = cli->operands ? cli->operand[0] : "";
    const char *mark = strstr(given, "%r");
    if (!mark)
        return;
    size_t room = strlen(given) + 16;
    launch->name = need(malloc(room));
    (void)snprintf(launch->name, room, "%.*s%lu%s", (int)(mark - given), given,
                   (unsigned long)launch->rank, mark + 2);
    cli->operand[0] = launch->name;
}

static int check_slice(const struct cli *cli)
{
    if (!cli_given(cli, OPT_SLICE))
        return EXIT_YES;
    if (!launch_slices(cli))
        return say_usage("--slice is for ranks that a launcher started, one process each");
    return launch_shares(cli) ? say_usage("--slice: what a policy or a script decides, rank 0 "
                                          "hands out whole")
                              : EXIT_YES;
}

int launch_read(struct cli *cli, struct launch *launch)
{
    if (cli_given(cli, OPT_LOCAL) || launch->by != LAUNCH_NONE)
        return EXIT_YES;
    int code = find_launcher(launch);
    if (code == EXIT_YES && launch->by != LAUNCH_NONE && launch->rank != 0)
        cli->value[OPT_OUTPUT] = "/dev/null";
    if (code == EXIT_YES && launch->by != LAUNCH_NONE)
        name_by_rank(cli, launch);
    return code == EXIT_YES ? check_slice(cli) : code;
}

/* ---- joining */

static const char *chosen(const struct cli *cli, enum option_id option, const char *name)
{
    return cli_given(cli, option) ? cli->value[option] : variable(name);
}

static int meet_by_pmix(struct cli *cli, struct launch *launch, peal_join_params *params)
{
    peal_diag diag = PEAL_DIAG_INIT;
    const char *at = params->interface ? params->interface : launch->address;
    if (!at)
        return say_usage("this host has no address by which others reach it; --interface says one");
    if (launch->rank == 0)
        CLI_TRY(say_diag(peal_meeting_open(cli->ctx, at, 0, &diag, &params->meeting, &launch->id),
                         &diag));
    params->id = &launch->id;
    return pmix_spread(launch->worlds++, launch->rank == 0, &launch->id);
}

int launch_fits(const struct launch *launch, uint32_t ranks)
{
    if (ranks == launch->ranks)
        return EXIT_YES;
    return say_usage("%lu processes were started for a plan of %lu ranks; --ranks says how many "
                     "are planned for, --local runs them all here",
                     (unsigned long)launch->ranks, (unsigned long)ranks);
}

int launch_slices(const struct cli *cli)
{
    return cli_given(cli, OPT_SLICE) && cli->launch->by != LAUNCH_NONE;
}

int launch_params(struct cli *cli, struct launch *launch, peal_join_params *params)
{
    params->rank = launch->rank;
    params->ranks = launch->ranks;
    params->interface = chosen(cli, OPT_INTERFACE, "PEAL_INTERFACE");
    params->host = chosen(cli, OPT_HOST_ID, "PEAL_HOST_ID");
    params->rdma = chosen(cli, OPT_RDMA, "PEAL_RDMA");
    params->insecure = cli_given(cli, OPT_INSECURE);
    CLI_TRY(cli_u32(cli, OPT_SOCKETS, &params->sockets));
    if (launch->by == LAUNCH_PMIX)
        return meet_by_pmix(cli, launch, params);
    params->address = launch->address;
    params->port = launch->port;
    params->key = launch->key;
    params->key_bytes = launch->key_bytes;
    return EXIT_YES;
}

/* Each second, who has not come yet. */
static peal_status join_watched(const struct cli *cli, const peal_join_params *params,
                                const peal_table *table, peal_diag *diag, peal_world **world)
{
    peal_join *join;
    peal_status status = peal_join_start(cli->ctx, params, table, diag, &join);
    if (status != PEAL_OK)
        return status;
    while ((status = peal_join_test(join, 1000, diag, world)) == PEAL_AGAIN)
        if (params->rank == 0)
            say(SAY_NOTE, "%s", diag->text);
    peal_join_end(join);
    return status;
}

int launch_join(struct cli *cli, struct launch *launch, const peal_table *table,
                peal_join_params *params, peal_world **world)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table_info info = {.size = sizeof info};
    CLI_TRY(say_diag(peal_table_get(table, &info), NULL));
    CLI_TRY(launch_fits(launch, info.ranks));
    CLI_TRY(launch_params(cli, launch, params));
    if (cli_given(cli, OPT_WATCH))
        return say_diag(join_watched(cli, params, table, &diag, world), &diag);
    return say_diag(peal_world_join(cli->ctx, params, table, &diag, world), &diag);
}

void launch_end(struct launch *launch)
{
    if (launch->by == LAUNCH_PMIX)
        pmix_end();
    free(launch->key);
    free(launch->name);
    launch->key = launch->name = NULL;
}
