/* SPDX-License-Identifier: Apache-2.0 */
/* peal compile: a topology into a plan file. */
#include "cli_json.h"

#include <string.h>

static void print_rows(const peal_table *table, const peal_table_info *info,
                       const struct output *output)
{
    struct grid grid;
    grid_begin(&grid, ">row|collective|>root|>from|>to|algorithm|detail|id");
    for (uint32_t i = 0; i < info->rows; i++) {
        peal_row_info row = {.size = sizeof row};
        char text[NUMBER_TEXT], ends[ACTION_TEXT], id[33] = "";
        if (peal_table_row(table, i, &row) != PEAL_OK || peal_table_id(table, i, id) != PEAL_OK)
            break;
        struct action action = row_action(&row);
        grid_add(&grid, "%lu", (unsigned long)i);
        grid_add(&grid, "%s", peal_collective_name(action.collective));
        grid_add(&grid, "%s", action_root_text(&action, ends));
        grid_add(&grid, "%s", size_text(row.min_bytes, text));
        grid_add(&grid, "%s", size_text(row.max_bytes, text));
        grid_add(&grid, "%s", row.algorithm);
        grid_add(&grid, "%s", row.detail);
        grid_add(&grid, "%s", id);
    }
    grid_print(&grid, output);
}

static void json_rows(const struct cli *cli, const peal_table *table, const peal_table_info *info,
                      const struct actions *actions, const struct output *output)
{
    json_t *root = json_begin("peal.compile/1");
    json_actions(root, actions);
    json_count(root, "ranks", info->ranks);
    json_team(root, cli);
    json_flag(root, "verified", info->verified);
    if (info->sliced)
        json_count(root, "rank", info->slice_rank);
    json_text(root, "output", cli->value[OPT_OUTPUT]);
    json_t *list = json_list(root, "rows");
    for (uint32_t i = 0; i < info->rows; i++) {
        peal_row_info row = {.size = sizeof row};
        char id[33] = "";
        if (peal_table_row(table, i, &row) != PEAL_OK || peal_table_id(table, i, id) != PEAL_OK)
            break;
        json_t *item = json_item(list);
        struct action action = row_action(&row);
        json_text(item, "id", id);
        json_action(item, &action);
        json_row(item, &row);
    }
    json_end(root, output);
}

static int report(const struct cli *cli, const peal_table *table, const struct actions *actions)
{
    struct output output = {.file = stdout, .in_place = 1};
    peal_table_info info = {.size = sizeof info};
    CLI_TRY(say_diag(peal_table_get(table, &info), NULL));
    if (cli_given(cli, OPT_JSON)) {
        json_rows(cli, table, &info, actions, &output);
        return EXIT_YES;
    }
    print_rows(table, &info, &output);
    printf("%s: ", cli->value[OPT_OUTPUT]);
    print_actions(actions, stdout);
    if (info.sliced)
        printf(", rank %lu of", (unsigned long)info.slice_rank);
    else
        printf(",");
    printf(" %lu ranks, %lu plan%s, %s\n", (unsigned long)info.ranks, (unsigned long)info.rows,
           info.rows == 1 ? "" : "s", info.verified ? "each proven" : "not proven");
    return EXIT_YES;
}

int verb_compile(struct cli *cli)
{
    peal_fabric *fabric;
    peal_table *table = NULL;
    struct actions actions;
    CLI_TRY(cli_operands(cli, 1));
    const char *path = cli->value[OPT_OUTPUT];
    if (!path)
        return say_usage("-o says where the plan goes");
    CLI_TRY(load_fabric(cli, cli->operand[0], &fabric));
    int code = compile_all(cli, fabric, &table, &actions);
    if (code == EXIT_YES)
        code = save_table(cli, table);
    if (code == EXIT_YES && strcmp(path, "-") != 0) /* else the plan itself is the output */
        code = report(cli, table, &actions);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    return code;
}
