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
