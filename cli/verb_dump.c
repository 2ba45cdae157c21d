/* SPDX-License-Identifier: Apache-2.0 */
/* peal dump: programs as text or JSON, all of them or those of one row or rank; or one plan as
 * other programs read it. */
#include "cli_json.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define ANY UINT32_MAX

struct filter {
    struct output *output;
    const char *want_row; /* by row */
    uint32_t want_rank;
    uint32_t row; /* of the line under way; ANY before the first plan */
    uint32_t rank;
    char *line; /* begun, and not ended yet */
    size_t used;
    size_t room;
};

/* What a line is about shows in its first word. */
static void enter_line(struct filter *filter)
{
    const char *at = filter->line;
    at += strspn(at, " ");
    if (strncmp(at, "plan ", 5) == 0) {
        filter->row++;
        filter->rank = ANY;
    } else if (strncmp(at, "rank ", 5) == 0) {
        filter->rank++;
    }
}

static int is_wanted(const struct filter *filter)
{
    int row = filter->row == ANY || filter->want_row[filter->row];
    int rank = filter->rank == ANY || filter->want_rank == ANY || filter->rank == filter->want_rank;
    return row && rank;
}

static peal_status end_line(struct filter *filter)
{
    peal_status status = PEAL_OK;
    filter->line[filter->used] = '\0';
    enter_line(filter);
    if (is_wanted(filter))
        status = output_write(filter->output, filter->line, filter->used);
    filter->used = 0;
    return status;
}

static peal_status filter_write(void *user, const char *data, size_t bytes)
{
    struct filter *filter = user;
    for (size_t i = 0; i < bytes; i++) {
        if (filter->used + 2 > filter->room) {
            filter->room = filter->room ? 2 * filter->room : 4096;
            filter->line = need(realloc(filter->line, filter->room));
        }
        filter->line[filter->used++] = data[i];
        if (data[i] != '\n')
            continue;
        peal_status status = end_line(filter);
        if (status != PEAL_OK)
            return status;
    }
    return PEAL_OK;
}

static int dump_text(const peal_table *table, const char *rows, int all, uint32_t rank,
                     struct output *output)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct filter filter = {output, rows, rank, ANY, ANY, NULL, 0, 0};
    peal_status status;
    if (all && rank == ANY)
        status = peal_table_print(table, output_write, output, &diag);
    else
        status = peal_table_print(table, filter_write, &filter, &diag);
    free(filter.line);
    return status == PEAL_OK ? EXIT_YES : say_diag(status, &diag);
}

/* ---- JSON */

static void json_lane(json_t *object, const peal_table *table, uint32_t row, uint32_t rank,
                      uint32_t lane)
{
    json_t *steps = json_list(object, "steps");
    for (uint32_t i = 0;; i++) {
        peal_step_info step = {.size = sizeof step};
        if (peal_table_step(table, row, rank, lane, i, &step) != PEAL_OK)
            break;
        json_t *item = json_item(steps);
        json_text(item, "section", step.section);
        json_text(item, "op", step.op);
        if (step.moves_data) {
            json_text(item, "engine", peal_engine_name(step.engine));
            json_count(item, "chunks", step.chunks);
        }
        json_text(item, "text", step.text + strspn(step.text, " "));
    }
}

static void json_rank(json_t *programs, const peal_table *table, uint32_t row, uint32_t rank)
{
    uint32_t lanes = 0;
    json_t *item = json_item(programs);
    json_count(item, "rank", rank);
    json_t *list = json_list(item, "lanes");
    if (peal_table_lanes(table, row, rank, &lanes) != PEAL_OK)
        return;
    for (uint32_t i = 0; i < lanes; i++)
        json_lane(json_item(list), table, row, rank, i);
}

static void dump_json(const struct cli *cli, const peal_table *table, const peal_table_info *info,
                      const struct actions *actions, const char *want_row, uint32_t want_rank,
                      const struct output *output)
{
    json_t *root = json_begin("peal.plan/1");
    json_team(root, cli);
    json_actions(root, actions);
    json_count(root, "ranks", info->ranks);
    json_t *rows = json_list(root, "rows");
    for (uint32_t r = 0; r < info->rows; r++) {
        peal_row_info row = {.size = sizeof row};
        char id[33] = "";
        if (!want_row[r])
            continue;
        if (peal_table_row(table, r, &row) != PEAL_OK || peal_table_id(table, r, id) != PEAL_OK)
            break;
        json_t *item = json_item(rows);
        json_count(item, "row", actions->first_row + r);
        struct action action = row_action(&row);
        json_text(item, "id", id);
        json_action(item, &action);
        json_row(item, &row);
        json_t *programs = json_list(item, "programs");
        for (uint32_t k = 0; k < info->ranks; k++)
            if (want_rank == ANY || want_rank == k)
                json_rank(programs, table, r, k);
    }
    json_end(root, output);
}

/* ---- */

enum form { FORM_TEXT, FORM_JSON, FORM_DOT, FORM_GOAL, FORM_TRACE, FORMS };

static const char *form_word(uint32_t index)
{
    static const char *const words[] = {"text", "json", "dot", "goal", "trace"};
    return words[index];
}

static int read_form(const struct cli *cli, enum form *form)
{
    const char *format = cli->value[OPT_FORMAT];
    const char *collapse = cli->value[OPT_COLLAPSE];
    *form = cli_given(cli, OPT_JSON) ? FORM_JSON : FORM_TEXT;
    for (uint32_t f = 0; format && f < FORMS; f++)
        if (strcmp(format, form_word(f)) == 0) {
            *form = (enum form)f;
            format = NULL;
        }
    if (format)
        return say_usage("--format '%s' is none of text, json, dot, goal, trace", format);
    if (collapse && strcmp(collapse, "host") != 0)
        return say_usage("--collapse '%s': only hosts can be", collapse);
    if (collapse && *form != FORM_DOT)
        return say_usage("--collapse is for --format dot");
    if (cli_given(cli, OPT_RANK) && *form > FORM_JSON)
        return say_usage("--rank is for text and json");
    return EXIT_YES;
}

/* One plan for another program. */
static int dump_form(const struct cli *cli, const peal_table *table, uint32_t count,
                     const char *rows, enum form form, struct output *output)
{
    peal_emit_params params = PEAL_EMIT_PARAMS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    uint32_t row = ANY;
    for (uint32_t r = 0; r < count; r++) {
        if (rows[r] && row != ANY)
            return say_usage("one plan at a time: choose with --bytes or --row");
        row = rows[r] ? r : row;
    }
    params.collapse_hosts = cli_given(cli, OPT_COLLAPSE);
    return say_diag(
        peal_table_emit(table, row, form_word(form), &params, output_write, output, &diag), &diag);
}

/* What needs the machine, too. */
static int dump_trace(struct cli *cli)
{
    struct sim_case c = {.bytes = 0};
    if (cli_given(cli, OPT_ROW))
        return say_usage("--row: a trace is of one size, --bytes");
    if (!cli_given(cli, OPT_BYTES))
        cli->value[OPT_BYTES] = SIM_BYTES;
    int code = sim_open(cli, &c);
    if (code == EXIT_YES)
        code = sim_run(cli, c.fabric, &c, 1, &c.sim);
    if (code == EXIT_YES)
        code = sim_write(cli, c.sim, "trace", cli->value[OPT_OUTPUT]);
    sim_close(&c);
    return code;
}

/* Which rows are wanted: the given one, of those that serve an action. */
static int read_rows(const struct cli *cli, const peal_table *table, uint32_t count,
                     const struct actions *actions, char *rows, int *all)
{
    uint32_t only = ANY;
    CLI_TRY(cli_u32(cli, OPT_ROW, &only));
    if (cli_given(cli, OPT_ROW) && only - actions->first_row >= count)
        return say_usage("--row %lu: the table has %lu rows", (unsigned long)only,
                         (unsigned long)count);
    *all = 1;
    for (uint32_t r = 0; r < count; r++) {
        peal_row_info row = {.size = sizeof row};
        CLI_TRY(say_diag(peal_table_row(table, r, &row), NULL));
        struct action action = row_action(&row);
        rows[r] = (only == ANY || only - actions->first_row == r) && has_action(actions, &action);
        *all &= rows[r];
    }
    return EXIT_YES;
}

static int read_rank(const struct cli *cli, const peal_table_info *info, uint32_t *rank)
{
    if (info->sliced)
        *rank = info->slice_rank;
    CLI_TRY(cli_u32(cli, OPT_RANK, rank));
    if (cli_given(cli, OPT_RANK) && *rank >= info->ranks)
        return say_usage("--rank %lu: the plans have %lu ranks", (unsigned long)*rank,
                         (unsigned long)info->ranks);
    if (info->sliced && *rank != info->slice_rank)
        return say_usage("--rank %lu: the plans are slices of rank %lu", (unsigned long)*rank,
                         (unsigned long)info->slice_rank);
    return EXIT_YES;
}

static int dump(const struct cli *cli, const peal_table *table, const struct actions *actions,
                enum form form)
{
    peal_table_info info = {.size = sizeof info};
    uint32_t rank = ANY;
    int all = 1;
    struct output output;
    CLI_TRY(say_diag(peal_table_get(table, &info), NULL));
    CLI_TRY(read_rank(cli, &info, &rank));
    char *rows = need(calloc(info.rows ? info.rows : 1, 1));
    int code = read_rows(cli, table, info.rows, actions, rows, &all);
    if (code == EXIT_YES)
        code = output_open(cli, &output);
    if (code == EXIT_YES) {
        if (form > FORM_JSON)
            code = dump_form(cli, table, info.rows, rows, form, &output);
        else if (form == FORM_JSON)
            dump_json(cli, table, &info, actions, rows, rank, &output);
        else
            code = dump_text(table, rows, all, info.sliced ? ANY : rank, &output);
        code = output_close(&output, code);
    }
    free(rows);
    return code;
}

int verb_dump(struct cli *cli)
{
    peal_table *table;
    struct actions actions;
    enum form form;
    CLI_TRY(cli_operands(cli, 1));
    CLI_TRY(read_form(cli, &form));
    if (form == FORM_TRACE)
        return dump_trace(cli);
    CLI_TRY(load_compiled(cli, cli->operand[0], &table, &actions));
    int code = dump(cli, table, &actions, form);
    peal_table_destroy(table);
    return code;
}
