/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of actions: of options, and of tables. */
#include "team.h"

#include <string.h>

/* ---- options */

static int read_collectives(const struct cli *cli, struct choice *choice)
{
    uint32_t list[LIST_MAX] = {PEAL_ALLREDUCE}, count = 1, seen = 0;
    CLI_TRY(cli_names(cli, OPT_COLLECTIVE, collective_word, PEAL_COLLECTIVE_COUNT, list, &count));
    for (uint32_t i = 0; i < count; i++) {
        if (!(seen >> list[i] & 1))
            choice->collective[choice->collectives++] = list[i];
        seen |= 1u << list[i];
    }
    return EXIT_YES;
}

static int read_roots(const struct cli *cli, int many, struct choice *choice)
{
    uint64_t list[LIST_MAX] = {0};
    uint32_t count = 1;
    CLI_TRY(cli_numbers(cli, OPT_ROOT, 0, list, &count));
    if (count > 1 && !many)
        return say_usage("'peal %s' takes one root", cli_verbs[cli->verb].name);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = 0;
        if (list[i] > UINT32_MAX)
            return say_usage("--root %llu is no rank", (unsigned long long)list[i]);
        while (k < choice->roots && choice->root[k] != list[i])
            k++;
        if (k == choice->roots)
            choice->root[choice->roots++] = (uint32_t)list[i];
    }
    return EXIT_YES;
}

/* A root is for collectives that have one. */
static int check_ends(const struct choice *choice)
{
    int rooted = 0;
    int list = choice->npairs || choice->nshifts;
    int pair = !choice->has_peer && !list;
    for (uint32_t i = 0; i < choice->collectives; i++) {
        struct action action = {.collective = (peal_collective)choice->collective[i]};
        rooted |= action_rooted(&action);
        pair |= action.collective == PEAL_SENDRECV;
    }
    if (choice->has_root && !rooted)
        return say_usage("--root: %s has no root", collective_word(choice->collective[0]));
    if (!pair)
        return say_usage("--%s is for sendrecv", choice->has_peer ? "peer"
                                                 : choice->npairs ? "pairs"
                                                                  : "shift");
    return EXIT_YES;
}

int read_choice(struct cli *cli, int many, struct choice *choice)
{
    memset(choice, 0, sizeof *choice);
    choice->has_collective = cli_given(cli, OPT_COLLECTIVE);
    choice->has_root = cli_given(cli, OPT_ROOT);
    choice->all = choice->has_collective && strcmp(cli->value[OPT_COLLECTIVE], "all") == 0;
    choice->has_peer = cli_given(cli, OPT_PEER);
    CLI_TRY(read_collectives(cli, choice));
    CLI_TRY(read_roots(cli, many, choice));
    CLI_TRY(cli_u32(cli, OPT_PEER, &choice->peer));
    return pairs_read(cli, choice);
}

/* ---- all of them */

static int is_possible(const struct action *action, uint32_t ranks)
{
    if (action->npairs)
        return action->root < ranks && pairs_among(action, ranks);
    if (action->collective == PEAL_SENDRECV)
        return action->root < ranks && action->peer < ranks && action->peer != action->root;
    return action->root < ranks;
}

static void say_left_out(const struct action *action, uint32_t ranks)
{
    char text[ACTION_TEXT];
    say(SAY_NOTE, "%s is left out: not among %lu ranks", action_text(action, text),
        (unsigned long)ranks);
}

int choose_all(const struct choice *choice, uint32_t ranks, int lenient, struct actions *actions)
{
    CLI_TRY(check_ends(choice));
    actions->count = actions->first_row = 0;
    for (uint32_t c = 0; c < choice->collectives; c++)
        for (uint32_t r = 0; r < choice->roots; r++) {
            struct action action = {.collective = (peal_collective)choice->collective[c]};
            if (!action_rooted(&action) && r > 0)
                break;
            if (action_rooted(&action))
                action.root = choice->root[r];
            if (action.collective == PEAL_SENDRECV)
                pairs_choose(choice, ranks, &action);
            int alone = ranks == 1 && choice->all && action.collective == PEAL_SENDRECV;
            if (!is_possible(&action, ranks) && (lenient || alone))
                say_left_out(&action, ranks);
            else
                actions->list[actions->count++] = action;
        }
    return EXIT_YES;
}

/* ---- of a table */

struct action row_action(const peal_row_info *row)
{
    return (struct action){.collective = row->collective, .root = row->root, .peer = row->peer};
}

int has_action(const struct actions *actions, const struct action *action)
{
    for (uint32_t i = 0; i < actions->count; i++)
        if (action_same(&actions->list[i], action))
            return 1;
    return 0;
}

int table_actions(const peal_table *table, struct actions *actions)
{
    peal_table_info info = {.size = sizeof info};
    actions->count = actions->first_row = 0;
    CLI_TRY(say_diag(peal_table_get(table, &info), NULL));
    for (uint32_t i = 0; i < info.rows && actions->count < ACTIONS_MAX; i++) {
        peal_row_info row = {.size = sizeof row};
        CLI_TRY(say_diag(peal_table_row(table, i, &row), NULL));
        struct action action = row_action(&row);
        action.pairs = peal_table_pairs(table, i, &action.npairs);
        if (!has_action(actions, &action))
            actions->list[actions->count++] = action;
    }
    return EXIT_YES;
}

static int is_chosen(const struct choice *choice, const struct action *action)
{
    int root = !choice->has_root || !action_rooted(action);
    int peer =
        !choice->has_peer || action->collective != PEAL_SENDRECV || choice->peer == action->peer;
    int collective = !choice->has_collective;
    for (uint32_t i = 0; i < choice->roots; i++)
        root |= choice->root[i] == action->root;
    for (uint32_t i = 0; i < choice->collectives; i++)
        collective |= choice->collective[i] == (uint32_t)action->collective;
    return root && peer && collective;
}

/* Each collective and each root that was asked for is there. */
static int check_chosen(const struct choice *choice, const struct actions *actions)
{
    for (uint32_t c = 0; choice->has_collective && c < choice->collectives; c++) {
        uint32_t i = 0;
        while (i < actions->count && (uint32_t)actions->list[i].collective != choice->collective[c])
            i++;
        if (i == actions->count)
            return say_usage("the plan has no %s%s", collective_word(choice->collective[c]),
                             choice->has_root || choice->has_peer ? " of these ends" : "");
    }
    for (uint32_t r = 0; choice->has_root && r < choice->roots; r++) {
        uint32_t i = 0;
        while (i < actions->count &&
               (!action_rooted(&actions->list[i]) || actions->list[i].root != choice->root[r]))
            i++;
        if (i == actions->count)
            return say_usage("the plan has nothing with root %lu", (unsigned long)choice->root[r]);
    }
    return EXIT_YES;
}

int choose_of_table(const struct choice *choice, const peal_table *table, struct actions *actions)
{
    uint32_t kept = 0;
    if (choice->has_collective)
        CLI_TRY(check_ends(choice));
    CLI_TRY(table_actions(table, actions));
    for (uint32_t i = 0; i < actions->count; i++)
        if (is_chosen(choice, &actions->list[i])) {
            actions->list[kept] = actions->list[i];
            custom_of_table(choice->team, table, &actions->list[kept++]);
        }
    actions->count = kept;
    CLI_TRY(check_chosen(choice, actions));
    return kept ? EXIT_YES : say_usage("the plan has nothing of these ends");
}

void print_actions(const struct actions *actions, FILE *file)
{
    char text[ACTION_TEXT];
    for (uint32_t i = 0; i < actions->count; i++)
        fprintf(file, "%s%s", i ? ", " : "", action_text(&actions->list[i], text));
}
