/* SPDX-License-Identifier: Apache-2.0 */
/* In a job, what a policy or a script decides is decided once: rank 0 plans, and all others get its
 * table. */
#include "action.h"
#include "launch.h"

#include <string.h>

int launch_shares(const struct cli *cli)
{
    return cli->launch->by != LAUNCH_NONE && !cli_given(cli, OPT_ALL_PAIRS) &&
           (cli->policies || script_given(cli));
}

int launch_follows(const struct cli *cli)
{
    return launch_shares(cli) && cli->launch->rank != 0;
}

static int share(struct cli *cli, uint32_t timeout_ms, peal_diag *diag, peal_status *status,
                 peal_table **table)
{
    struct launch *launch = cli->launch;
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    peal_table *came = NULL;
    params.timeout_ms = timeout_ms;
    CLI_TRY(launch_params(cli, launch, &params));
    *status = peal_table_share(cli->ctx, &params, *table, diag, &came);
    peal_meeting_close(params.meeting);
    *table = came ? came : *table;
    return EXIT_YES;
}

int launch_give(struct cli *cli, uint32_t timeout_ms, int code, peal_table *table)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status;
    int whole = code == EXIT_YES && table;
    if (!whole) {
        diag.status = code == EXIT_YES ? PEAL_ERR_UNSUPPORTED : PEAL_ERR_PEER;
        (void)snprintf(diag.text, sizeof diag.text,
                       "there is no table, and what is wrong is said there");
        table = NULL;
    }
    CLI_TRY(share(cli, timeout_ms, &diag, &status, &table));
    return whole ? say_diag(status, &diag) : code;
}

int launch_take(struct cli *cli, uint32_t timeout_ms, int may_skip, peal_table **table)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status;
    CLI_TRY(share(cli, timeout_ms, &diag, &status, table));
    return status == PEAL_ERR_UNSUPPORTED && may_skip ? EXIT_YES : say_diag(status, &diag);
}
