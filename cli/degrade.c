/* SPDX-License-Identifier: Apache-2.0 */
/* --degrade: links of a topology that carry less than they should. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static int degrade_one(peal_fabric *fabric, char *pair)
{
    peal_diag diag = PEAL_DIAG_INIT;
    char *equals = strrchr(pair, '='), *end = NULL;
    if (!equals || equals[1] < '0' || equals[1] > '9')
        return say_usage("--degrade '%s' is not LINK=FACTOR", pair);
    double factor = strtod(equals + 1, &end);
    if (*end || !(factor >= 0 && factor <= 1))
        return say_usage("--degrade '%s': the factor is from 0 to 1", pair);
    *equals = '\0';
    return say_diag(peal_fabric_degrade(fabric, pair, factor, &diag), &diag);
}

int degrade_fabric(const struct cli *cli, peal_fabric *fabric)
{
    const char *at = cli->value[OPT_DEGRADE];
    while (at && *at) {
        char pair[128];
        size_t length = strcspn(at, ",");
        (void)snprintf(pair, sizeof pair, "%.*s", length < 127 ? (int)length : 127, at);
        CLI_TRY(degrade_one(fabric, pair));
        at += length + (at[length] == ',');
    }
    return EXIT_YES;
}

/* ---- what is dead */

/* Whether the option leaves nothing of the link of that name. */
static int is_dead(const struct cli *cli, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = cli->value[OPT_DEGRADE]; at && *at;) {
        size_t pair = strcspn(at, ",");
        if (pair > length && strncmp(at, name, length) == 0 && at[length] == '=' &&
            strtod(at + length + 1, NULL) == 0)
            return 1;
        at += pair + (at[pair] == ',');
    }
    return 0;
}

int crosses_dead(const struct cli *cli, const peal_fabric *fabric, const peal_row_info *row)
{
    peal_link_info link = {.size = sizeof link};
    char between[160];
    if (!cli_given(cli, OPT_DEGRADE) || !row->binding[0])
        return 0;
    for (uint32_t i = 0; peal_fabric_link(fabric, i, &link) == PEAL_OK; i++) {
        (void)snprintf(between, sizeof between, "%s>%s", link.from, link.to);
        if (strcmp(link.resource, row->binding) == 0 && is_dead(cli, between))
            return 1;
    }
    return is_dead(cli, row->binding);
}
