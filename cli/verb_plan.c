/* SPDX-License-Identifier: Apache-2.0 */
/* peal plan: a row for each range of sizes, predicted. */
#include "cli_json.h"
#include "report.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>

/* What is printed under one title. */
struct sheet {
    peal_table *table;
    struct action action;
    uint32_t ranks;
    int in_file; /* the table may hold other actions too */
    double floor_us;
};

static const char *classes_text(const peal_row_info *row, char *text, size_t size)
{
    text[0] = '\0';
    for (uint32_t c = 0; c < PEAL_LINK_CLASS_COUNT; c++) {
        char engines[64];
        size_t used = strlen(text);
        if (!row->move_engines[c])
            continue;
        (void)snprintf(text + used, size - used, "%s%s=%s", used ? " " : "",
                       peal_link_class_name((peal_link_class)c),
                       engines_text(row->move_engines[c], engines, sizeof engines));
    }
    return text;
}

static void add_times(struct grid *grid, const peal_row_info *row)
{
    char text[NUMBER_TEXT];
    grid_add(grid, "%s", real_text(row->time_us, text));
    grid_add(grid, "%s", real_text(row->algbw_gbs, text));
    grid_add(grid, "%s", real_text(row->busbw_gbs, text));
    grid_add(grid, "%s", real_text(row->bound_us, text));
    if (row->bound_us > 0)
        grid_add(grid, "%.2f", row->time_us / row->bound_us);
    else
        grid_add(grid, "-");
}

static void add_row(struct grid *grid, const peal_row_info *row)
{
    char low[NUMBER_TEXT], high[NUMBER_TEXT], text[128];
    grid_add(grid, "%s", size_text(row->min_bytes, low));
    grid_add(grid, "%s", size_text(row->max_bytes, high));
    grid_add(grid, "%s", row->algorithm);
    grid_add(grid, "%lu", (unsigned long)row->channels);
    grid_add(grid, "%s", row->tile_bytes ? size_text(row->tile_bytes, low) : "-");
    grid_add(grid, "%s", row->protocol);
    grid_add(grid, "%s", classes_text(row, text, sizeof text));
    add_times(grid, row);
    grid_add(grid, "%s, hop %s", row->latency_bound ? "latency" : "bandwidth",
             size_text(row->hop_bytes, low));
}

#define HEADING                                                                                    \
    ">from|>to|algorithm|>ch|>tile|protocol|engines|>time us|>algbw GB/s|>busbw GB/s|>bound us|"   \
    ">x bound|regime"

/* What a message of no size takes at least; 0: unknown. */
static double latency_floor(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
                            const struct action *action)
{
    peal_request least = *request;
    peal_row_info row = {.size = sizeof row};
    peal_table *table = NULL;
    least.collective = action->collective;
    least.root = action->root;
    least.peer = action->peer;
    least.pairs = action->pairs;
    least.npairs = action->npairs;
    least.min_bytes = least.max_bytes = 1;
    least.policy = NULL;
    if (peal_table_plan(cli->ctx, fabric, &least, NULL, &table) != PEAL_OK)
        return 0;
    if (peal_table_row(table, 0, &row) != PEAL_OK)
        row.bound_us = 0;
    peal_table_destroy(table);
    return row.bound_us;
}

static const char *bound_cause(const peal_row_info *row, double floor_us)
{
    if (floor_us <= 0)
        return "";
    return row->bound_us > floor_us * 1.001
               ? " (what the narrowest ranks or hosts have to send and receive at full rate)"
               : " (the latency of the longest way between two ranks)";
}

static void explain(const peal_row_info *row, double floor_us, uint32_t siblings, FILE *file)
{
    char low[NUMBER_TEXT], high[NUMBER_TEXT], text[NUMBER_TEXT];
    fprintf(file, "\n%s to %s: %s", size_text(row->min_bytes, low), size_text(row->max_bytes, high),
            row->algorithm);
    fprintf(file, "%s%s\n", row->detail[0] ? ", " : "", row->detail);
    fprintf(file, "  limited by   %s\n", row->binding[0] ? row->binding : "nothing");
    fputs("  time         ", file);
    if (row->min_bytes < row->max_bytes)
        fprintf(file, "%s us at %s, ", real_text(row->time_min_us, text), low);
    fprintf(file, "%s us at %s", real_text(row->time_us, text), high);
    fprintf(file, ", of which latency %s us\n", real_text(row->alpha_us, text));
    if (siblings)
        fprintf(file, "  alone        %s us at %s, without the %lu sibling%s\n",
                real_text(row->time_alone_us, text), high, (unsigned long)siblings,
                siblings == 1 ? "" : "s");
    fprintf(file, "  a hop        carries %s at %s, %s-bound\n", size_text(row->hop_bytes, text),
            high, row->latency_bound ? "latency" : "bandwidth");
    if (row->net_messages)
        fprintf(file, "  net messages %llu of %s at %s, of the rank that sends most\n",
                (unsigned long long)row->net_messages, size_text(row->net_message_bytes, text),
                high);
    fprintf(file, "  lower bound  %s us at %s%s", real_text(row->bound_us, text), high,
            bound_cause(row, floor_us));
    if (row->bound_us > 0)
        fprintf(file, "; this takes %.2f times that", row->time_us / row->bound_us);
    if (row->bound_cut[0])
        fprintf(file, "\n  bounded by   %s", row->bound_cut);
    fprintf(file, "\n  holds        %lu SMs, %s of scratch memory on a rank\n",
            (unsigned long)row->sms, size_text(row->scratch_bytes, text));
}

static void print_candidates(const peal_table *table, uint32_t index, const struct output *output)
{
    struct grid grid;
    char text[128];
    peal_row_info row = {.size = sizeof row};
    grid_begin(&grid, "  |algorithm|detail|>ch|>tile|engines|>time us|>algbw GB/s|>busbw GB/s|"
                      ">bound us|>x bound");
    for (uint32_t i = 0; peal_table_candidate(table, index, i, &row) == PEAL_OK; i++) {
        grid_add(&grid, "%s", "");
        grid_add(&grid, "%s", row.algorithm);
        grid_add(&grid, "%s", row.detail);
        grid_add(&grid, "%lu", (unsigned long)row.channels);
        grid_add(&grid, "%s", row.tile_bytes ? size_text(row.tile_bytes, text) : "-");
        grid_add(&grid, "%s", classes_text(&row, text, sizeof text));
        add_times(&grid, &row);
        row.size = sizeof row;
    }
    if (peal_table_row(table, index, &row) == PEAL_OK)
        fprintf(output->file, "\ncandidates at %s:\n", size_text(row.max_bytes, text));
    grid_print(&grid, output);
}

/* The table's next row of the sheet, from *index on. */
static int next_row(const struct sheet *sheet, uint32_t *index, peal_row_info *row)
{
    for (;; ++*index) {
        row->size = sizeof *row;
        if (peal_table_row(sheet->table, *index, row) != PEAL_OK)
            return 0;
        struct action action = row_action(row);
        if (!sheet->in_file || action_same(&action, &sheet->action))
            return 1;
    }
}

static void print_sheet(const struct cli *cli, const struct sheet *sheet,
                        const struct output *output)
{
    struct grid grid;
    peal_row_info row;
    char text[ACTION_TEXT];
    fprintf(output->file,
            "%s by %lu ranks; times and bandwidths are predictions at the end of "
            "each range\n\n",
            action_text(&sheet->action, text), (unsigned long)sheet->ranks);
    grid_begin(&grid, HEADING);
    for (uint32_t i = 0; next_row(sheet, &i, &row); i++)
        add_row(&grid, &row);
    grid_print(&grid, output);
    for (uint32_t i = 0; next_row(sheet, &i, &row); i++) {
        if (cli_given(cli, OPT_EXPLAIN))
            explain(&row, sheet->floor_us, team_siblings(&cli->team), output->file);
        if (cli_given(cli, OPT_CANDIDATES))
            print_candidates(sheet->table, i, output);
    }
}

static void json_candidates(json_t *object, const peal_table *table, uint32_t index)
{
    json_t *list = json_list(object, "candidates");
    peal_row_info row = {.size = sizeof row};
    for (uint32_t i = 0; peal_table_candidate(table, index, i, &row) == PEAL_OK; i++) {
        json_row(json_item(list), &row);
        row.size = sizeof row;
    }
}

static void json_sheet(json_t *object, const struct cli *cli, const struct sheet *sheet)
{
    peal_row_info row;
    json_action(object, &sheet->action);
    json_count(object, "ranks", sheet->ranks);
    json_team(object, cli);
    json_t *list = json_list(object, "rows");
    for (uint32_t i = 0; next_row(sheet, &i, &row); i++) {
        json_t *item = json_item(list);
        json_row(item, &row);
        if (cli_given(cli, OPT_CANDIDATES))
            json_candidates(item, sheet->table, i);
    }
}

static void json_sheets(const struct cli *cli, const struct sheet *sheets, uint32_t count,
                        const struct output *output)
{
    json_t *root = json_begin("peal.table/1");
    if (count == 1) {
        json_sheet(root, cli, &sheets[0]);
    } else {
        json_t *list = json_list(root, "tables");
        for (uint32_t i = 0; i < count; i++)
            json_sheet(json_item(list), cli, &sheets[i]);
    }
    json_end(root, output);
}

static int show(const struct cli *cli, const struct sheet *sheets, uint32_t count)
{
    struct output output;
    CLI_TRY(output_open(cli, &output));
    if (cli_given(cli, OPT_JSON)) {
        json_sheets(cli, sheets, count, &output);
        return output_close(&output, EXIT_YES);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            fputc('\n', output.file);
        print_sheet(cli, &sheets[i], &output);
    }
    return output_close(&output, EXIT_YES);
}

/* ---- */

/* What no schedule avoids is told once for each collective: its times stand for nothing. */
static void warn_of_dead(const struct cli *cli, const peal_fabric *fabric,
                         const struct sheet *sheet)
{
    char low[NUMBER_TEXT], high[NUMBER_TEXT], text[ACTION_TEXT];
    peal_row_info row = {.size = sizeof row}, first = row, last = row;
    for (uint32_t i = 0; peal_table_row(sheet->table, i, &row) == PEAL_OK; i++)
        if (crosses_dead(cli, fabric, &row)) {
            first = first.max_bytes ? first : row;
            last = row;
        }
    if (first.max_bytes)
        say(SAY_WARNING, "%s from %s to %s: no schedule avoids %s, which is dead: it never ends",
            action_text(&sheet->action, text), size_text(first.min_bytes, low),
            size_text(last.max_bytes, high), last.binding);
}

static int plan_sheet(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
                      int *skip, struct sheet *sheet)
{
    CLI_TRY(plan_table(cli, fabric, request, &sheet->action, skip, 1, &sheet->table));
    if (sheet->table && cli_given(cli, OPT_EXPLAIN))
        sheet->floor_us = latency_floor(cli, fabric, request, &sheet->action);
    if (sheet->table)
        warn_of_dead(cli, fabric, sheet);
    return EXIT_YES;
}

static struct sheet *make_sheets(const struct actions *actions, uint32_t ranks, peal_table *table)
{
    struct sheet *sheets = need(calloc(actions->count + 1, sizeof *sheets));
    for (uint32_t i = 0; i < actions->count; i++)
        sheets[i] = (struct sheet){table, actions->list[i], ranks, table != NULL, 0};
    return sheets;
}

/* Those that could be planned come first; gives their number. */
static int plan_sheets(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
                       int may_skip, struct sheet *sheets, uint32_t *count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count; i++) {
        int skip = 0;
        struct sheet sheet = sheets[i];
        CLI_TRY(plan_sheet(cli, fabric, request, may_skip ? &skip : NULL, &sheet));
        if (!skip)
            sheets[kept++] = sheet;
    }
    *count = kept;
    return kept ? EXIT_YES : say_diag(PEAL_ERR_UNSUPPORTED, NULL);
}

static int draw(struct cli *cli, peal_fabric *fabric, uint32_t ranks)
{
    struct report report = {
        .cli = cli, .fabric = fabric, .path = cli->operand[0], .ranks = ranks, .asked_only = 1};
    if (ranks < 2 && cli_given(cli, OPT_SVG))
        return say_usage("--svg: one rank has nothing to plan");
    return report_svg(&report, report_choices);
}

static int plan_fabric(struct cli *cli, peal_fabric *fabric, const struct choice *choice)
{
    peal_request request = PEAL_REQUEST_INIT;
    struct actions actions;
    CLI_TRY(read_request(cli, &request));
    CLI_TRY(degrade_fabric(cli, fabric));
    CLI_TRY(count_ranks(cli, fabric, request.ranks, &request.ranks));
    CLI_TRY(choose_all(choice, request.ranks, 0, &actions));
    CLI_TRY(draw(cli, fabric, request.ranks));
    struct sheet *sheets = make_sheets(&actions, request.ranks, NULL);
    uint32_t count = actions.count;
    int code = plan_sheets(cli, fabric, &request, choice->all, sheets, &count);
    if (code == EXIT_YES)
        code = show(cli, sheets, count);
    for (uint32_t i = 0; i < count; i++)
        peal_table_destroy(sheets[i].table);
    free(sheets);
    return code;
}

static int plan_file(struct cli *cli, peal_table *table, const struct choice *choice)
{
    peal_table_info info = {.size = sizeof info};
    struct actions actions;
    if (cli_given(cli, OPT_CANDIDATES))
        return say_usage("a plan file has no candidates; give the topology");
    if (cli_given(cli, OPT_DEGRADE))
        return say_usage("a plan file has no links to degrade; give the topology");
    if (cli_given(cli, OPT_SVG))
        return say_usage("--svg draws what was to choose from; give the topology");
    CLI_TRY(check_decided(cli, table));
    CLI_TRY(choose_of_table(choice, table, &actions));
    CLI_TRY(say_diag(peal_table_get(table, &info), NULL));
    struct sheet *sheets = make_sheets(&actions, info.ranks, table);
    int code = show(cli, sheets, actions.count);
    free(sheets);
    return code;
}

int verb_plan(struct cli *cli)
{
    peal_request request = PEAL_REQUEST_INIT;
    struct choice choice;
    peal_fabric *fabric;
    peal_table *table;
    CLI_TRY(cli_operands(cli, 1));
    CLI_TRY(read_request(cli, &request)); /* before a file is opened */
    CLI_TRY(read_choice(cli, 0, &choice));
    CLI_TRY(load_any(cli, cli->operand[0], &fabric, &table));
    int code = fabric ? plan_fabric(cli, fabric, &choice) : plan_file(cli, table, &choice);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    return code;
}
