/* SPDX-License-Identifier: Apache-2.0 */
/* peal verify: proves every row, and says what it found. */
#include "cli_json.h"

#include <string.h>

struct found {
    const struct output *output;
    json_t *list; /* NULL: in text */
};

static void print_place(FILE *file, const char *what, int64_t number)
{
    if (number >= 0)
        fprintf(file, " %s %lld", what, (long long)number);
}

static void on_finding(void *user, const peal_finding *finding)
{
    const struct found *found = user;
    if (!found->list) {
        FILE *file = found->output->file;
        fprintf(file, "row %lu", (unsigned long)finding->row);
        print_place(file, "rank", finding->rank);
        print_place(file, "lane", finding->lane);
        print_place(file, "step", finding->step);
        put_plain(file, ": %s: %s\n", finding->kind, finding->text);
        return;
    }
    json_t *item = json_item(found->list);
    json_text(item, "kind", finding->kind);
    json_count(item, "row", finding->row);
    json_signed(item, "rank", finding->rank);
    json_signed(item, "lane", finding->lane);
    json_signed(item, "step", finding->step);
    json_text(item, "text", finding->text);
}

static void print_summary(const peal_verify_report *report, const peal_table_info *info,
                          const struct actions *actions, int proven, double seconds, FILE *file)
{
    fprintf(file, "%s: ", proven ? "proven" : "NOT PROVEN");
    print_actions(actions, file);
    fprintf(file, " by %lu ranks, %lu plan%s; ", (unsigned long)info->ranks,
            (unsigned long)info->rows, info->rows == 1 ? "" : "s");
    if (!proven)
        fprintf(file, "%lu finding%s; ", (unsigned long)report->findings,
                report->findings == 1 ? "" : "s");
    fprintf(file, "%lu proof%s, %llu steps executed, %.2f s\n", (unsigned long)report->proofs,
            report->proofs == 1 ? "" : "s", (unsigned long long)report->steps, seconds);
    if (report->by_classes)
        fprintf(file,
                "%lu plan%s proven by classes: %lu hosts, %lu rails of %lu; %lu ranks executed\n",
                (unsigned long)report->by_classes, report->by_classes == 1 ? "" : "s",
                (unsigned long)report->hosts, (unsigned long)report->rails,
                (unsigned long)report->hosts, (unsigned long)report->executed);
}

/* Which plans reduce alike. */
static void print_orders(const peal_table *table, uint32_t rows, FILE *file)
{
    for (uint32_t i = 0; i < rows; i++) {
        peal_row_info row = {.size = sizeof row};
        if (peal_table_row(table, i, &row) != PEAL_OK || !row.order)
            continue;
        uint32_t like = 0, first = rows;
        for (uint32_t k = 0; k < rows; k++) {
            peal_row_info other = {.size = sizeof other};
            int same = peal_table_row(table, k, &other) == PEAL_OK && other.order == row.order;
            like += same ? 1 : 0;
            first = same && k < first ? k : first;
        }
        if (first == i)
            fprintf(file, "order %016llx: every element of %lu plan%s, from row %lu\n",
                    (unsigned long long)row.order, (unsigned long)like, like == 1 ? "" : "s",
                    (unsigned long)i);
    }
}

/* How often elements are rounded on their way, where they are. */
static void print_wires(const peal_table *table, uint32_t rows, FILE *file)
{
    for (uint32_t i = 0; i < rows; i++) {
        peal_row_info row = {.size = sizeof row};
        if (peal_table_row(table, i, &row) == PEAL_OK && row.wire != PEAL_WIRE_NONE)
            fprintf(file, "row %lu: %s on the wire, each contribution rounded at most %lu time%s\n",
                    (unsigned long)i, peal_wire_name(row.wire), (unsigned long)row.wire_roundings,
                    row.wire_roundings == 1 ? "" : "s");
    }
}

static void json_orders(json_t *root, const peal_table *table, uint32_t rows)
{
    json_t *list = json_list(root, "orders");
    for (uint32_t i = 0; i < rows; i++) {
        peal_row_info row = {.size = sizeof row};
        char text[24];
        if (peal_table_row(table, i, &row) != PEAL_OK)
            break;
        (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)row.order);
        json_t *item = json_item(list);
        json_count(item, "row", i);
        json_text(item, "order", row.order ? text : NULL);
        json_text(item, "wire", row.wire ? peal_wire_name(row.wire) : NULL);
        json_count(item, "wire_roundings", row.wire_roundings);
    }
}

static void end_json(json_t *root, const peal_verify_report *report, const peal_table_info *info,
                     const struct actions *actions, int proven, double seconds,
                     const struct output *output)
{
    json_flag(root, "ok", proven);
    json_actions(root, actions);
    json_count(root, "ranks", info->ranks);
    json_count(root, "rows", info->rows);
    json_count(root, "steps", report->steps);
    json_count(root, "proofs", report->proofs);
    json_count(root, "executed", report->executed);
    json_count(root, "by_classes", report->by_classes);
    if (report->by_classes) {
        json_count(root, "hosts", report->hosts);
        json_count(root, "rails", report->rails);
    }
    json_number(root, "seconds", seconds);
    json_end(root, output);
}

static int read_proof(const struct cli *cli, peal_proof *how)
{
    static const char *const names[] = {"auto", "enumerate", "classes"};
    *how = PEAL_PROOF_AUTO;
    if (!cli_given(cli, OPT_PROOF))
        return EXIT_YES;
    for (int i = 0; i < 3; i++)
        if (strcmp(cli->value[OPT_PROOF], names[i]) == 0) {
            *how = (peal_proof)i;
            return EXIT_YES;
        }
    return say_usage("--proof is auto, enumerate or classes, not '%s'", cli->value[OPT_PROOF]);
}

/* fabric: the table is planned on it; NULL: it holds its programs. */
static int prove(struct cli *cli, peal_table *table, const peal_fabric *fabric,
                 const struct actions *actions, const struct output *output)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_verify_report report = {.size = sizeof report};
    peal_table_info info = {.size = sizeof info};
    struct found found = {output, NULL};
    peal_proof how;
    CLI_TRY(read_proof(cli, &how));
    json_t *root = cli_given(cli, OPT_JSON) ? json_begin("peal.verify/1") : NULL;
    CLI_TRY(say_diag(peal_table_get(table, &info), NULL));
    if (root) {
        json_team(root, cli);
        found.list = json_list(root, "findings");
    }
    uint64_t start = now_ns();
    peal_status status =
        fabric ? peal_table_verify_planned(table, fabric, on_finding, &found, &report, &diag)
               : peal_table_prove(table, how, on_finding, &found, &report, &diag);
    double seconds = (double)(now_ns() - start) / 1e9;
    if (root)
        json_orders(root, table, info.rows);
    if (root)
        end_json(root, &report, &info, actions, status == PEAL_OK, seconds, output);
    else if (status == PEAL_OK || status == PEAL_ERR_UNPROVEN)
        print_summary(&report, &info, actions, status == PEAL_OK, seconds, output->file);
    if (!root && status == PEAL_OK)
        print_orders(table, info.rows, output->file);
    if (!root && status == PEAL_OK)
        print_wires(table, info.rows, output->file);
    if (status == PEAL_ERR_UNPROVEN)
        return EXIT_NO; /* the findings have been told */
    return status == PEAL_OK ? EXIT_YES : say_diag(status, &diag);
}

static int prove_all(struct cli *cli, peal_table *table, const peal_fabric *fabric)
{
    struct actions actions;
    struct output output;
    CLI_TRY(table_actions(table, &actions)); /* all is proven, also what options do not name */
    CLI_TRY(output_open(cli, &output));
    return output_close(&output, prove(cli, table, fabric, &actions, &output));
}

/* More ranks than programs are made for at once: they are made as the proof asks for them. */
static int prove_planned(struct cli *cli, const peal_fabric *fabric)
{
    peal_request request = PEAL_REQUEST_INIT;
    struct choice choice;
    struct actions actions;
    peal_table *table;
    if (cli_given(cli, OPT_PROOF) && strcmp(cli->value[OPT_PROOF], "enumerate") == 0)
        return say_usage("so many ranks are not executed as one");
    CLI_TRY(read_request(cli, &request));
    CLI_TRY(read_choice(cli, 0, &choice));
    CLI_TRY(count_ranks(cli, fabric, request.ranks, &request.ranks));
    CLI_TRY(choose_all(&choice, request.ranks, 0, &actions));
    if (actions.count != 1)
        return say_usage("so many ranks are proven for one collective and root at a time");
    CLI_TRY(plan_table(cli, fabric, &request, &actions.list[0], NULL, 1, &table));
    int code = prove_all(cli, table, fabric);
    peal_table_destroy(table);
    return code;
}

static int is_wide(const struct cli *cli, const peal_fabric *fabric, int *wide)
{
    uint32_t ranks = 0;
    CLI_TRY(cli_u32(cli, OPT_RANKS, &ranks));
    CLI_TRY(count_ranks(cli, fabric, ranks, &ranks));
    *wide = ranks > PEAL_WHOLE_RANKS;
    return EXIT_YES;
}

int verb_verify(struct cli *cli)
{
    peal_fabric *fabric;
    peal_table *table;
    struct actions actions;
    int wide = 0;
    CLI_TRY(cli_operands(cli, 1));
    CLI_TRY(load_any(cli, cli->operand[0], &fabric, &table));
    int code = fabric ? is_wide(cli, fabric, &wide) : EXIT_YES;
    if (code == EXIT_YES && wide) {
        code = prove_planned(cli, fabric);
    } else if (code == EXIT_YES) {
        code = finish_loaded(cli, fabric, &table, &actions);
        code = code == EXIT_YES ? prove_all(cli, table, NULL) : code;
    }
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    return code;
}
