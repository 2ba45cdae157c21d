/* SPDX-License-Identifier: Apache-2.0 */
/* peal policy: what policies change, a first one, and annotations. */
#include "cli_json.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>

/* The same action planned twice. */
struct comparison {
    struct action action;
    uint32_t ranks;
    peal_table *table[2]; /* without the policy, with it */
};

/* Sizes in which neither table changes its row. */
struct range {
    uint64_t from;
    uint64_t to;
    uint32_t row[2];
    peal_row_info info[2]; /* predicted for `to` */
};

static int predict(const struct comparison *c, int side, struct range *range)
{
    range->info[side].size = sizeof range->info[side];
    return peal_table_predict(c->table[side], range->row[side], range->to, &range->info[side]) ==
           PEAL_OK;
}

/* From range->to + 1 on; 0: behind the last size of one of the two. */
static int next_range(const struct comparison *c, struct range *range)
{
    uint64_t end = UINT64_MAX;
    for (int side = 0; side < 2; side++) {
        peal_row_info info = {.size = sizeof info};
        for (;; range->row[side]++) {
            if (peal_table_row(c->table[side], range->row[side], &info) != PEAL_OK)
                return 0;
            if (info.max_bytes > range->to || range->from == UINT64_MAX)
                break;
        }
        if (range->from == UINT64_MAX)
            range->to = info.min_bytes;
        end = info.max_bytes < end ? info.max_bytes : end;
    }
    range->from = range->from == UINT64_MAX ? range->to : range->to + 1;
    range->to = end;
    return predict(c, 0, range) && predict(c, 1, range);
}

#define CHOICE_TEXT 320

static const char *choice_text(const peal_row_info *row, char *text, size_t size)
{
    (void)snprintf(text, size, "%s%s%s, ch %lu", row->algorithm, row->detail[0] ? ", " : "",
                   row->detail, (unsigned long)row->channels);
    for (uint32_t class = 0; class < PEAL_LINK_CLASS_COUNT; class ++) {
        char engines[64];
        size_t used = strlen(text);
        if (row->move_engines[class])
            (void)snprintf(text + used, size - used, ", %s=%s",
                           peal_link_class_name((peal_link_class) class),
                           engines_text(row->move_engines[class], engines, sizeof engines));
    }
    return text;
}

static int is_changed(const struct range *range)
{
    char left[CHOICE_TEXT], right[CHOICE_TEXT];
    return strcmp(choice_text(&range->info[0], left, sizeof left),
                  choice_text(&range->info[1], right, sizeof right)) != 0 ||
           range->info[0].tile_bytes != range->info[1].tile_bytes;
}

static double change_of(const struct range *range)
{
    double before = range->info[0].time_us;
    return before > 0 ? 100 * (range->info[1].time_us - before) / before : 0;
}

static void add_range(struct grid *grid, const struct range *range)
{
    char text[CHOICE_TEXT];
    grid_add(grid, "%s", size_text(range->from, text));
    grid_add(grid, "%s", size_text(range->to, text));
    for (int side = 0; side < 2; side++)
        grid_add(grid, "%s", choice_text(&range->info[side], text, sizeof text));
    for (int side = 0; side < 2; side++)
        grid_add(grid, "%s", real_text(range->info[side].time_us, text));
    grid_add(grid, "%+.1f %%", change_of(range));
    for (int side = 0; side < 2; side++)
        grid_add(grid, "%lu", (unsigned long)range->info[side].sms);
}

static void print_comparison(const struct comparison *c, const struct output *output)
{
    struct grid grid;
    struct range range = {.from = UINT64_MAX};
    char text[ACTION_TEXT];
    uint32_t ranges = 0, changed = 0;
    fprintf(output->file,
            "%s by %lu ranks; times are predictions at the end of each range, SMs of a rank\n\n",
            action_text(&c->action, text), (unsigned long)c->ranks);
    grid_begin(&grid, ">from|>to|default|policy|>default us|>policy us|>change|>SMs|>SMs then");
    for (; next_range(c, &range); ranges++) {
        if (!is_changed(&range))
            continue;
        changed++;
        add_range(&grid, &range);
    }
    if (changed)
        grid_print(&grid, output);
    else
        grid_free(&grid);
    fprintf(output->file, "%s%lu of %lu ranges of sizes are changed\n", changed ? "\n" : "",
            (unsigned long)changed, (unsigned long)ranges);
}

static void json_comparison(json_t *object, const struct comparison *c)
{
    struct range range = {.from = UINT64_MAX};
    json_action(object, &c->action);
    json_count(object, "ranks", c->ranks);
    json_t *list = json_list(object, "ranges");
    while (next_range(c, &range)) {
        json_t *item = json_item(list);
        json_count(item, "min_bytes", range.from);
        json_count(item, "max_bytes", range.to);
        json_row(json_child(item, "default"), &range.info[0]);
        json_row(json_child(item, "policy"), &range.info[1]);
    }
}

static int show(const struct cli *cli, const struct comparison *list, uint32_t count)
{
    struct output output;
    CLI_TRY(output_open(cli, &output));
    if (cli_given(cli, OPT_JSON)) {
        json_t *root = json_begin("peal.policy/1");
        json_t *items = json_list(root, "comparisons");
        for (uint32_t i = 0; i < count; i++)
            json_comparison(json_item(items), &list[i]);
        json_end(root, &output);
        return output_close(&output, EXIT_YES);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            fputc('\n', output.file);
        print_comparison(&list[i], &output);
    }
    return output_close(&output, EXIT_YES);
}

static int compare(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
                   int *skip, struct comparison *c)
{
    peal_request plain = *request;
    plain.policy = NULL;
    CLI_TRY(plan_table(cli, fabric, &plain, &c->action, skip, 1, &c->table[0]));
    if (skip && *skip)
        return EXIT_YES;
    return plan_table(cli, fabric, request, &c->action, NULL, 1, &c->table[1]);
}

static int compare_all(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
                       const struct actions *actions, int may_skip)
{
    struct comparison *list = need(calloc(actions->count + 1, sizeof *list));
    uint32_t count = 0;
    int code = EXIT_YES;
    for (uint32_t i = 0; code == EXIT_YES && i < actions->count; i++) {
        int skip = 0;
        list[count] = (struct comparison){actions->list[i], request->ranks, {NULL, NULL}};
        code = compare(cli, fabric, request, may_skip ? &skip : NULL, &list[count]);
        count += !skip;
    }
    if (code == EXIT_YES)
        code = show(cli, list, count);
    for (uint32_t i = 0; i < count; i++)
        for (int side = 0; side < 2; side++)
            peal_table_destroy(list[i].table[side]);
    free(list);
    return code;
}

static int check(struct cli *cli)
{
    peal_request request = PEAL_REQUEST_INIT;
    struct choice choice;
    struct actions actions;
    peal_fabric *fabric;
    if (cli->operands < 3 || cli->operands > POLICIES_MAX + 2)
        return say_usage("usage: peal policy check FILE... TOPO");
    for (uint32_t i = 1; i + 1 < cli->operands; i++)
        cli->policy[cli->policies++] = cli->operand[i];
    CLI_TRY(read_request(cli, &request));
    CLI_TRY(read_choice(cli, 0, &choice));
    CLI_TRY(load_fabric(cli, cli->operand[cli->operands - 1], &fabric));
    int code = count_ranks(cli, fabric, request.ranks, &request.ranks);
    if (code == EXIT_YES)
        code = choose_all(&choice, request.ranks, 0, &actions);
    if (code == EXIT_YES)
        code = compare_all(cli, fabric, &request, &actions, choice.all);
    peal_fabric_destroy(fabric);
    return code;
}

/* ---- a first policy ------------------------------------------------------------------- */

static const char first_policy[] =
    "-- SPDX-License-Identifier: Apache-2.0\n"
    "-- %s: a policy for peal (docs/policies.md). Try it: peal policy check %s TOPO\n"
    "local policy = {description = \"what it is for\"}\n"
    "\n"
    "-- What is considered: drop or keep algorithms, and ask for more.\n"
    "-- function policy.candidates(req, fabric)\n"
    "--     return {drop = {\"star\"}, {algorithm = \"ring\", channels = 4}}\n"
    "-- end\n"
    "\n"
    "-- What counts in the place of the predicted time, in us; nil leaves it.\n"
    "-- function policy.cost(candidate, req, fabric, us)\n"
    "--     return us * (1 + 0.01 * candidate.sms)\n"
    "-- end\n"
    "\n"
    "-- Which one is taken for a message of req.bytes; nil leaves it to the planner.\n"
    "function policy.choose(candidates, req, fabric)\n"
    "    if req.bytes <= 32 * peal.KiB then\n"
    "        return candidates[1] -- the cheapest, however many lanes it takes\n"
    "    end\n"
    "end\n"
    "\n"
    "-- Whether a row of the table may be; false and a reason rule its schedule out.\n"
    "-- function policy.check(plan, req, fabric)\n"
    "--     return plan.scratch_bytes <= 64 * peal.MiB, \"too much scratch\"\n"
    "-- end\n"
    "\n"
    "return policy\n";

static int write_new(const struct cli *cli, const char *path)
{
    struct output output;
    struct cli to = *cli;
    if (!cli_given(cli, OPT_OUTPUT)) {
        FILE *there = fopen(path, "rb");
        if (there) {
            (void)fclose(there);
            return say_usage("%s is there already", path);
        }
        to.value[OPT_OUTPUT] = path;
    }
    CLI_TRY(output_open(&to, &output));
    fprintf(output.file, first_policy, path, path);
    return output_close(&output, EXIT_YES);
}

static int make_new(struct cli *cli)
{
    char path[1024];
    if (cli->operands != 2)
        return say_usage("usage: peal policy new NAME");
    const char *name = cli->operand[1];
    size_t bytes = strlen(name);
    int ends = bytes > 4 && strcmp(name + bytes - 4, ".lua") == 0;
    (void)snprintf(path, sizeof path, "%s%s", name, ends ? "" : ".lua");
    return write_new(cli, path);
}

static int write_meta(struct cli *cli)
{
    struct output output;
    CLI_TRY(output_open(cli, &output));
    return output_close(&output, say_diag(peal_policy_annotations(output_write, &output), NULL));
}

int verb_policy(struct cli *cli)
{
    const char *what = cli->operands ? cli->operand[0] : "";
    if (strcmp(what, "check") == 0)
        return check(cli);
    if (strcmp(what, "new") == 0)
        return make_new(cli);
    if (strcmp(what, "meta") == 0)
        return write_meta(cli);
    return say_usage("usage: peal policy %s", cli_verbs[VERB_POLICY].operands);
}
