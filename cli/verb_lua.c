/* SPDX-License-Identifier: Apache-2.0 */
/* peal lua: a topology at hand, line by line, from a terminal or a pipe. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct lines {
    char *text; /* what is not complete yet */
    size_t bytes;
    size_t room;
    int prompt;
};

static int add_line(struct lines *lines)
{
    char line[4096];
    if (lines->prompt) {
        fputs(lines->bytes ? ">> " : "> ", stdout);
        (void)fflush(stdout);
    }
    do {
        if (!fgets(line, sizeof line, stdin))
            return 0;
        size_t bytes = strlen(line);
        if (lines->bytes + bytes + 1 > lines->room) {
            lines->room = 2 * (lines->room + bytes + 1);
            lines->text = need(realloc(lines->text, lines->room));
        }
        memcpy(lines->text + lines->bytes, line, bytes + 1);
        lines->bytes += bytes;
    } while (!strchr(line, '\n'));
    return 1;
}

/* Errors end nothing: the next line may be right. */
static int run_lines(peal_console *console, struct lines *lines)
{
    int code = EXIT_YES;
    while (add_line(lines)) {
        peal_diag diag = PEAL_DIAG_INIT;
        peal_status status = peal_console_run(console, lines->text, lines->bytes, &diag);
        (void)fflush(stdout);
        if (status == PEAL_AGAIN)
            continue;
        lines->bytes = 0;
        if (status != PEAL_OK)
            code = say_diag(status, &diag);
    }
    if (lines->bytes) {
        say(SAY_ERROR, "the input ends within a statement");
        code = EXIT_INPUT;
    }
    return lines->prompt ? EXIT_YES : code;
}

int verb_lua(struct cli *cli)
{
    peal_script_limits limits = PEAL_SCRIPT_LIMITS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    struct lines lines = {.prompt = isatty(STDIN_FILENO)};
    peal_fabric *fabric;
    peal_console *console = NULL;
    CLI_TRY(cli_operands(cli, 1));
    CLI_TRY(load_fabric(cli, cli->operand[0], &fabric));
    limits.print = script_line;
    limits.print_user = stdout;
    int code = say_diag(peal_console_create(cli->ctx, fabric, &limits, &diag, &console), &diag);
    if (code == EXIT_YES)
        code = run_lines(console, &lines);
    free(lines.text);
    peal_console_destroy(console);
    peal_fabric_destroy(fabric);
    return code;
}
