/* SPDX-License-Identifier: Apache-2.0 */
/* Policies of the command line. */
#include "launch.h"

#include <stdlib.h>

void script_line(void *user, const char *line, size_t bytes)
{
    FILE *file = user;
    put_lines(file, line, bytes);
    (void)fputc('\n', file);
}

static int make(struct cli *cli, const peal_policy_text *scripts)
{
    peal_script_limits limits = PEAL_SCRIPT_LIMITS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    limits.print = script_line;
    limits.print_user = stderr;
    return say_diag(
        peal_policy_create(cli->ctx, scripts, cli->policies, &limits, &diag, &cli->made), &diag);
}

int read_policy(struct cli *cli, peal_request *request)
{
    peal_policy_text scripts[POLICIES_MAX];
    char *text[POLICIES_MAX] = {NULL};
    int code = EXIT_YES;
    if (cli_given(cli, OPT_POLICY_FALLBACK) && !cli->policies)
        return say_usage("--policy-fallback without --policy");
    if (launch_follows(cli))
        return EXIT_YES;
    request->policy_fallback = cli_given(cli, OPT_POLICY_FALLBACK);
    for (uint32_t i = 0; code == EXIT_YES && !cli->made && i < cli->policies; i++) {
        scripts[i].name = cli->policy[i];
        code = read_file(cli->policy[i], &text[i], &scripts[i].bytes);
        scripts[i].text = text[i];
    }
    if (code == EXIT_YES && cli->policies && !cli->made)
        code = make(cli, scripts);
    for (uint32_t i = 0; i < cli->policies; i++)
        free(text[i]);
    request->policy = cli->made;
    return code;
}

void say_fallback(const peal_diag *diag)
{
    if (diag->status == PEAL_OK)
        return;
    say(SAY_WARNING, "the policy is left out: %s:%lu: %s", diag->path, (unsigned long)diag->line,
        diag->text);
}
