/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of a collective on a machine: what the planner, or a forced algorithm, makes of it. */
#include "lint.h"

#include <stdlib.h>
#include <string.h>

#define SMALL_MESSAGE (64u << 10) /* bytes between hosts, below which to aggregate first */
#define SMS_BESIDE_GEMMS 16u      /* an eighth of an H100's 132 */
#define FLAT_LOSS 1.1             /* of a forced algorithm, against the planner's choice */

/* What is asked for, as it stands on the command line. */
static const char *asked(const struct cli *cli, const struct action *action, char *text,
                         size_t size)
{
    char name[ACTION_TEXT];
    (void)snprintf(text, size, "%s%s%s", action_text(action, name),
                   cli_given(cli, OPT_ALGORITHM) ? " --algorithm " : "",
                   cli_given(cli, OPT_ALGORITHM) ? cli->value[OPT_ALGORITHM] : "");
    return text;
}

static const char *range_text(const peal_row_info *row, char *text, size_t size)
{
    char low[NUMBER_TEXT], high[NUMBER_TEXT];
    (void)size_text(row->min_bytes, low);
    (void)size_text(row->max_bytes, high);
    (void)snprintf(text, size, row->min_bytes == row->max_bytes ? "%s" : "%s to %s", low, high);
    return text;
}

static void regime(struct lint *lint, const char *where, const char *range,
                   const peal_row_info *row, const peal_path_info *path)
{
    char time[NUMBER_TEXT], hop[NUMBER_TEXT], star[NUMBER_TEXT];
    lint_add(lint, LINT_REGIME, LEVEL_INFO, where, 0,
             "%s: %s-bound, start-ups are %.0f %% of %s us; hops of %s, S* of %s is %s", range,
             row->latency_bound ? "latency" : "bandwidth", 100 * row->alpha_us / row->time_us,
             real_text(row->time_us, time), size_text(row->hop_bytes, hop),
             peal_link_class_name(path->link_class),
             lint_star(path->alpha_us, path->beta_gbs, star));
}

/* Small calls are small messages; large ones need not be. */
static void messages(struct lint *lint, const char *where, const char *range,
                     const peal_row_info *row)
{
    char size[NUMBER_TEXT];
    if (row->net_messages < 2 || row->net_message_bytes >= SMALL_MESSAGE)
        return;
    lint_add(lint, LINT_SMALL_MESSAGES,
             row->max_bytes >= SMALL_MESSAGE ? LEVEL_WARNING : LEVEL_INFO, where, 0,
             "%s: %s sends %llu messages of %s from a rank to other hosts", range, row->algorithm,
             (unsigned long long)row->net_messages, size_text(row->net_message_bytes, size));
}

static int flat(struct lint *lint, const char *where, const char *range, const peal_row_info *row,
                const peal_table *choice)
{
    char own[NUMBER_TEXT], best[NUMBER_TEXT];
    peal_row_info free_row = {.size = sizeof free_row};
    if (!choice || peal_table_best(choice, NULL, row->max_bytes, &free_row) != PEAL_OK ||
        row->time_us < FLAT_LOSS * free_row.time_us ||
        strcmp(row->algorithm, free_row.algorithm) == 0)
        return EXIT_YES;
    lint_add(lint, LINT_FLAT, LEVEL_WARNING, where, 0,
             "%s: %s over %lu hosts takes %s us, %s %s us", range, row->algorithm,
             (unsigned long)lint->info.hosts, real_text(row->time_us, own), free_row.algorithm,
             real_text(free_row.time_us, best));
    return EXIT_YES;
}

/* What the bound costs is the planner's to say. */
static int budget(struct lint *lint, const char *where, const char *range, const peal_row_info *row,
                  const peal_request *request, const struct action *action)
{
    char own[NUMBER_TEXT], with[NUMBER_TEXT];
    peal_request bounded = *request;
    peal_table *table;
    int skip = 0;
    if (!action_reduces(action) || row->sms <= SMS_BESIDE_GEMMS)
        return EXIT_YES;
    bounded.max_sms = SMS_BESIDE_GEMMS;
    bounded.min_bytes = bounded.max_bytes = row->max_bytes;
    CLI_TRY(plan_table(lint->cli, lint->fabric, &bounded, action, &skip, 0, &table));
    peal_row_info less = {.size = sizeof less};
    if (table && peal_table_row(table, 0, &less) == PEAL_OK)
        lint_add(lint, LINT_SM_BUDGET, LEVEL_INFO, where, 0,
                 "%s: %lu SMs are held for %s us; with %u it takes %s us", range,
                 (unsigned long)row->sms, real_text(row->time_us, own), SMS_BESIDE_GEMMS,
                 real_text(less.time_us, with));
    peal_table_destroy(table);
    return EXIT_YES;
}

static int look_at(struct lint *lint, const peal_table *table, const peal_table *choice,
                   const peal_request *request, const struct action *action)
{
    char where[ACTION_TEXT + 80], range[2 * NUMBER_TEXT + 8];
    peal_row_info row = {.size = sizeof row};
    peal_path_info path = {.size = sizeof path};
    uint32_t last = request->ranks - 1;
    (void)asked(lint->cli, action, where, sizeof where);
    CLI_TRY(say_diag(peal_fabric_path(lint->fabric, 0, last, &path), NULL));
    for (uint32_t i = 0; peal_table_row(table, i, &row) == PEAL_OK; i++) {
        (void)range_text(&row, range, sizeof range);
        regime(lint, where, range, &row, &path);
        messages(lint, where, range, &row);
        CLI_TRY(flat(lint, where, range, &row, choice));
        CLI_TRY(budget(lint, where, range, &row, request, action));
    }
    return EXIT_YES;
}

/* The planner's own choice, where an algorithm is forced between hosts. */
static int plan_free(struct lint *lint, const peal_request *request, const struct action *action,
                     peal_table **choice)
{
    peal_request free_request = *request;
    struct cli free_cli = *lint->cli;
    int skip = 0;
    if (!cli_given(lint->cli, OPT_ALGORITHM) || lint->info.hosts < 2)
        return EXIT_YES;
    free_cli.value[OPT_ALGORITHM] = NULL;
    free_request.algorithm = NULL;
    free_request.channels = 0;
    return plan_table(&free_cli, lint->fabric, &free_request, action, &skip, 0, choice);
}

static int look_for(struct lint *lint, const peal_request *request, const struct action *action)
{
    peal_table *table, *choice = NULL;
    CLI_TRY(plan_table(lint->cli, lint->fabric, request, action, NULL, 1, &table));
    int code = plan_free(lint, request, action, &choice);
    if (code == EXIT_YES)
        code = look_at(lint, table, choice, request, action);
    peal_table_destroy(choice);
    peal_table_destroy(table);
    return code;
}

static int look_for_all(struct lint *lint, struct actions *actions)
{
    struct choice choice;
    peal_request request = PEAL_REQUEST_INIT;
    CLI_TRY(read_choice(lint->cli, 0, &choice));
    CLI_TRY(read_request(lint->cli, &request));
    CLI_TRY(count_ranks(lint->cli, lint->fabric, request.ranks, &request.ranks));
    CLI_TRY(choose_all(&choice, request.ranks, 0, actions));
    for (uint32_t i = 0; i < actions->count; i++)
        if (request.ranks > 1)
            CLI_TRY(look_for(lint, &request, &actions->list[i]));
    return EXIT_YES;
}

int lint_request(struct lint *lint)
{
    static const enum option_id asks[] = {OPT_COLLECTIVE, OPT_BYTES, OPT_ALGORITHM};
    int any = 0;
    for (size_t i = 0; i < COUNT_OF(asks); i++)
        any |= cli_given(lint->cli, asks[i]);
    if (!any)
        return EXIT_YES;
    struct actions *actions = need(calloc(1, sizeof *actions));
    int code = look_for_all(lint, actions);
    free(actions);
    return code;
}
