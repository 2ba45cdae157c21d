/* SPDX-License-Identifier: Apache-2.0 */
/* peal plan: a row for each range of sizes, predicted. */
#include "cli_json.h"

#include <string.h>

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
static double latency_floor(struct cli *cli, const peal_fabric *fabric, const peal_request *request)
{
    peal_request least = *request;
    peal_row_info row = {.size = sizeof row};
    peal_table *table = NULL;
    least.min_bytes = least.max_bytes = 1;
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

static void explain(const peal_row_info *row, double floor_us, FILE *file)
{
    char low[NUMBER_TEXT], high[NUMBER_TEXT], text[NUMBER_TEXT];
    fprintf(file, "\n%s to %s: %s", size_text(row->min_bytes, low), size_text(row->max_bytes, high),
            row->algorithm);
    fprintf(file, "%s%s\n", row->detail[0] ? ", " : "", row->detail);
    fprintf(file, "  limited by   %s\n", row->binding[0] ? row->binding : "nothing");
    fprintf(file, "  time         %s us at %s", real_text(row->time_min_us, text), low);
    fprintf(file, ", %s us at %s", real_text(row->time_us, text), high);
    fprintf(file, ", of which latency %s us\n", real_text(row->alpha_us, text));
    fprintf(file, "  a hop        carries %s at %s, %s-bound\n", size_text(row->hop_bytes, text),
            high, row->latency_bound ? "latency" : "bandwidth");
    fprintf(file, "  lower bound  %s us at %s%s", real_text(row->bound_us, text), high,
            bound_cause(row, floor_us));
    if (row->bound_us > 0)
        fprintf(file, "; this takes %.2f times that", row->time_us / row->bound_us);
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

static void print_table(const struct cli *cli, const peal_table *table, const peal_table_info *info,
                        double floor_us, const struct output *output)
{
    struct grid grid;
    fprintf(output->file,
            "%s by %lu ranks; times and bandwidths are predictions at the end of "
            "each range\n\n",
            peal_collective_name(info->collective), (unsigned long)info->ranks);
    grid_begin(&grid, HEADING);
    for (uint32_t i = 0; i < info->rows; i++) {
        peal_row_info row = {.size = sizeof row};
        if (peal_table_row(table, i, &row) == PEAL_OK)
            add_row(&grid, &row);
    }
    grid_print(&grid, output);
    for (uint32_t i = 0; i < info->rows; i++) {
        peal_row_info row = {.size = sizeof row};
        if (peal_table_row(table, i, &row) != PEAL_OK)
            break;
        if (cli_given(cli, OPT_EXPLAIN))
            explain(&row, floor_us, output->file);
        if (cli_given(cli, OPT_CANDIDATES))
            print_candidates(table, i, output);
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

static void json_table(const struct cli *cli, const peal_table *table, const peal_table_info *info,
                       const struct output *output)
{
    json_t *root = json_begin("peal.table/1");
    json_text(root, "collective", peal_collective_name(info->collective));
    json_count(root, "ranks", info->ranks);
    json_t *list = json_list(root, "rows");
    for (uint32_t i = 0; i < info->rows; i++) {
        peal_row_info row = {.size = sizeof row};
        if (peal_table_row(table, i, &row) != PEAL_OK)
            break;
        json_t *item = json_item(list);
        json_row(item, &row);
        if (cli_given(cli, OPT_CANDIDATES))
            json_candidates(item, table, i);
    }
    json_end(root, output);
}

static int show(const struct cli *cli, const peal_table *table, double floor_us)
{
    peal_table_info info = {.size = sizeof info};
    struct output output;
    CLI_TRY(say_diag(peal_table_get(table, &info), NULL));
    CLI_TRY(output_open(cli, &output));
    if (cli_given(cli, OPT_JSON))
        json_table(cli, table, &info, &output);
    else
        print_table(cli, table, &info, floor_us, &output);
    return output_close(&output, EXIT_YES);
}

int verb_plan(struct cli *cli)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_fabric *fabric;
    peal_table *table = NULL;
    CLI_TRY(cli_operands(cli, 1));
    CLI_TRY(read_request(cli, &request));
    CLI_TRY(load_any(cli, cli->operand[0], &fabric, &table));
    int code = EXIT_YES;
    if (fabric)
        code = plan_table(cli, fabric, &request, &table);
    else if (cli_given(cli, OPT_CANDIDATES))
        code = say_usage("a plan file has no candidates; give the topology");
    else
        code = check_decided(cli, table);
    double floor_us = 0;
    if (code == EXIT_YES && fabric && cli_given(cli, OPT_EXPLAIN))
        floor_us = latency_floor(cli, fabric, &request);
    if (code == EXIT_YES)
        code = show(cli, table, floor_us);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    return code;
}
