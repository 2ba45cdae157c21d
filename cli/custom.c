/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of one's own: who gives and who gets each block, as a script or a plan says. */
#include "launch.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>

typedef peal_status (*block_fn)(const void *from, uint32_t row, uint32_t index, peal_block *block);

static peal_status of_script(const void *from, uint32_t row, uint32_t index, peal_block *block)
{
    (void)row;
    return peal_schedule_block(from, index, block);
}

static peal_status of_table(const void *from, uint32_t row, uint32_t index, peal_block *block)
{
    return peal_table_block(from, row, index, block);
}

/* Of each rank the blocks in whose lists it is, in rising order. */
static void turn_around(struct team *team, struct custom_lists *lists, uint32_t blocks,
                        uint32_t ranks)
{
    const uint32_t *at = lists->at, *name = lists->rank;
    uint32_t *first = team_keep(team, ranks + 1), *block = team_keep(team, at[blocks] + 1);
    uint32_t *next = need(calloc(ranks + 1, sizeof *next));
    for (uint32_t i = 0; i < at[blocks]; i++)
        next[name[i] + 1]++;
    for (uint32_t r = 0; r < ranks; r++)
        next[r + 1] += next[r];
    memcpy(first, next, (ranks + 1) * sizeof *first);
    for (uint32_t b = 0; b < blocks; b++)
        for (uint32_t i = at[b]; i < at[b + 1]; i++)
            block[next[name[i]]++] = b;
    free(next);
    lists->held_at = first;
    lists->held = block;
}

static struct custom *copy(struct team *team, const void *from, uint32_t row, block_fn get,
                           uint32_t ranks)
{
    peal_block block;
    uint32_t count[2] = {0, 0}, blocks = 0;
    while (get(from, row, blocks, &block) == PEAL_OK) {
        count[0] += block.nfrom;
        count[1] += block.nto;
        blocks++;
    }
    struct custom *custom = need(calloc(1, sizeof *custom));
    custom->next = team->customs;
    team->customs = custom;
    custom->blocks = blocks;
    for (int end = 0; end < 2; end++) {
        uint32_t *at = team_keep(team, blocks + 1), *rank = team_keep(team, count[end] + 1);
        at[0] = 0;
        for (uint32_t b = 0; b < blocks && get(from, row, b, &block) == PEAL_OK; b++) {
            uint32_t n = end ? block.nto : block.nfrom;
            memcpy(rank + at[b], end ? block.to : block.from, n * sizeof *rank);
            at[b + 1] = at[b] + n;
        }
        custom->end[end].at = at;
        custom->end[end].rank = rank;
        turn_around(team, &custom->end[end], blocks, ranks);
    }
    return custom;
}

/* ---- */

void custom_of_table(struct team *team, const peal_table *table, struct action *action)
{
    peal_table_info info = {.size = sizeof info};
    peal_row_info row = {.size = sizeof row};
    uint32_t i = 0;
    if (action->collective != PEAL_CUSTOM || peal_table_get(table, &info) != PEAL_OK)
        return;
    while (peal_table_row(table, i, &row) == PEAL_OK && row.collective != PEAL_CUSTOM)
        i++;
    action->custom = copy(team, table, i, of_table, info.ranks);
}

static int of_file(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
                   int *served, struct action *action)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request custom = *request;
    peal_schedule *script = NULL;
    peal_status status;
    custom.collective = PEAL_CUSTOM;
    CLI_TRY(script_load(cli, fabric, &custom, &diag, &status, &script));
    *served = status != PEAL_ERR_UNSUPPORTED;
    if (status == PEAL_OK)
        action->custom = copy(&cli->team, script, 0, of_script, request->ranks);
    peal_schedule_destroy(script);
    return *served ? say_diag(status, &diag) : EXIT_YES;
}

int custom_choose(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
                  struct actions *actions)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < actions->count && !launch_follows(cli); i++) {
        struct action *action = &actions->list[i];
        int served = script_given(cli), custom = action->collective == PEAL_CUSTOM;
        if (custom && served)
            CLI_TRY(of_file(cli, fabric, request, &served, action));
        if (custom && !served && actions->count == 1)
            return say_usage("custom is a script's own: --algorithm F.lua, whose collective is a "
                             "function (docs/lua-algorithms.md)");
        if (!custom || served) /* of "all", what there is */
            actions->list[kept++] = *action;
    }
    if (!launch_follows(cli)) /* which learns of them from rank 0's table */
        actions->count = kept;
    return EXIT_YES;
}

uint32_t custom_held(const struct custom *custom, uint32_t rank, int end)
{
    const struct custom_lists *lists = &custom->end[end];
    return lists->held_at[rank + 1] - lists->held_at[rank];
}

uint32_t custom_block(const struct custom *custom, uint32_t rank, int end, uint64_t nth)
{
    const struct custom_lists *lists = &custom->end[end];
    return lists->held[lists->held_at[rank] + nth];
}

const uint32_t *custom_givers(const struct custom *custom, uint32_t block, uint32_t *count)
{
    const struct custom_lists *from = &custom->end[0];
    *count = from->at[block + 1] - from->at[block];
    return from->rank + from->at[block];
}
