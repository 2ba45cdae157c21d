/* SPDX-License-Identifier: Apache-2.0 */
/* Measured calls that decide nothing, or less than they seem to, and such as cannot be: what
 * reading the file has found of ranks and hosts is among its warnings. */
#include "lint.h"

#include <string.h>

#define AS_FAST 0.95 /* of the bound: what numbers in a file are rounded to is no contradiction */

static const char *buffers_word(const peal_fabric_call_info *call)
{
    return call->private_buffers ? "private" : "shared";
}

static void find(struct lint *lint, const peal_fabric_call_info *call, const char *text)
{
    lint_add(lint, LINT_MEASURED, LEVEL_WARNING, lint->cli->operand[0], call->line,
             "%.60s of %.60s, %s buffers: %s", call->algorithm, call->collective,
             buffers_word(call), text);
}

static int is_known(const char *algorithm)
{
    const char *name;
    for (uint32_t i = 0; (name = peal_algorithm_name(i)) != NULL; i++)
        if (strcmp(name, algorithm) == 0)
            return 1;
    return 0;
}

/* Of how many schedules of its collective, with such buffers, the file has times. */
static uint32_t rivals(const struct lint *lint, const peal_fabric_call_info *call)
{
    uint32_t count = 0;
    peal_fabric_call_info other = {.size = sizeof other};
    for (uint32_t i = 0; peal_fabric_call(lint->fabric, i, &other) == PEAL_OK; i++)
        count += other.private_buffers == call->private_buffers &&
                 strcmp(other.collective, call->collective) == 0;
    return count;
}

static void few(struct lint *lint, const peal_fabric_call_info *call)
{
    if (!is_known(call->algorithm))
        find(lint, call, "no algorithm is named so, and it decides nothing");
    else if (rivals(lint, call) == 1)
        find(
            lint, call,
            "the only schedule that is timed of these, so that it is compared with what rates tell "
            "of others, and decides nothing between measured ones");
    if (call->times == 1)
        find(lint, call, "timed at one size, which tells nothing of others");
}

struct bound {
    peal_collective collective;
    uint64_t bytes;
    double us;
};

/* Calls of one collective stand together, and so do their largest sizes. */
static int find_bound(struct lint *lint, peal_collective collective, uint64_t bytes,
                      struct bound *bound)
{
    struct action action = {.collective = collective};
    peal_request request = PEAL_REQUEST_INIT;
    peal_row_info row = {.size = sizeof row};
    peal_table *table = NULL;
    int skip = 0;
    if (bound->bytes == bytes && bound->collective == collective)
        return EXIT_YES;
    *bound = (struct bound){collective, bytes, 0};
    request.collective = collective;
    request.ranks = lint->info.ranks;
    request.min_bytes = request.max_bytes = bytes;
    CLI_TRY(plan_table(lint->cli, lint->fabric, &request, &action, &skip, 0, &table));
    if (table && peal_table_row(table, 0, &row) == PEAL_OK)
        bound->us = row.bound_us;
    peal_table_destroy(table);
    return EXIT_YES;
}

static int too_fast(struct lint *lint, const peal_fabric_call_info *call, struct bound *bound)
{
    char size[NUMBER_TEXT], us[NUMBER_TEXT], least[NUMBER_TEXT], text[160];
    peal_collective collective;
    if (peal_collective_parse(call->collective, &collective) != PEAL_OK)
        return EXIT_YES;
    CLI_TRY(find_bound(lint, collective, call->max_bytes, bound));
    if (call->max_us >= AS_FAST * bound->us)
        return EXIT_YES;
    (void)snprintf(text, sizeof text, "%s took %s us, and the bandwidth of <cost> allows %s",
                   size_text(call->max_bytes, size), real_text(call->max_us, us),
                   real_text(bound->us, least));
    find(lint, call, text);
    return EXIT_YES;
}

int lint_calls(struct lint *lint)
{
    struct bound bound = {.bytes = 0};
    peal_rank_info rank = {.size = sizeof rank};
    peal_fabric_call_info call = {.size = sizeof call};
    if (lint->info.hosts != 1 || lint->info.memory_ranks != lint->info.ranks ||
        peal_fabric_rank(lint->fabric, 0, &rank) != PEAL_OK || strcmp(rank.model, "host") != 0)
        return EXIT_YES;
    for (uint32_t i = 0; peal_fabric_call(lint->fabric, i, &call) == PEAL_OK; i++) {
        few(lint, &call);
        if (lint->info.ranks > 1)
            CLI_TRY(too_fast(lint, &call, &bound));
    }
    return EXIT_YES;
}
