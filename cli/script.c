/* SPDX-License-Identifier: Apache-2.0 */
/* --algorithm FILE.lua: a schedule of the caller's, written down anew for each request. */
#include "action.h"

#include <stdlib.h>
#include <string.h>

int script_given(const struct cli *cli)
{
    const char *path = cli->value[OPT_ALGORITHM];
    size_t length = path ? strlen(path) : 0;
    return length > 4 && strcmp(path + length - 4, ".lua") == 0 && !strchr(path, ',');
}

int script_load(const struct cli *cli, const peal_fabric *fabric, const peal_request *request,
                peal_diag *diag, peal_status *status, peal_schedule **script_out)
{
    const char *path = cli->value[OPT_ALGORITHM];
    char *text;
    size_t bytes;
    CLI_TRY(read_file(path, &text, &bytes));
    *status = peal_schedule_load(cli->ctx, fabric, request, text, bytes, path, diag, script_out);
    free(text);
    return EXIT_YES;
}
