/* SPDX-License-Identifier: Apache-2.0 */
/* peal asm: the text form into a plan file. Checks its form; 'peal verify' proves it. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

int verb_asm(struct cli *cli)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    char *text;
    size_t bytes;
    CLI_TRY(cli_operands(cli, 1));
    if (!cli_given(cli, OPT_OUTPUT))
        return say_usage("-o says where the plan goes");
    const char *path = cli->operand[0];
    CLI_TRY(read_file(path, &text, &bytes));
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    peal_status status = peal_table_assemble(cli->ctx, text, bytes, name, &diag, &table);
    free(text);
    if (status != PEAL_OK)
        return say_diag(status, &diag);
    int code = save_table(cli, table);
    peal_table_destroy(table);
    return code;
}
