/* SPDX-License-Identifier: Apache-2.0 */
/* peal compare: a measured table against peal's plans on a topology, and against the bound. */
#include "cli_json.h"
#include "compare.h"

#include <stdlib.h>
#include <string.h>

static const char *const cause_text[] = {"", "faster than predicted", "latency floor",
                                         "wrong algorithm for this size", "bandwidth"};
static const char *const cause_name[] = {"none", "faster", "latency", "algorithm", "bandwidth"};

/* ---- predictions */

static int read_algorithm(const struct cli *cli, peal_request *request)
{
    uint32_t list[LIST_MAX], count = 0;
    if (script_given(cli)) /* which plan_table looks at */
        return EXIT_YES;
    CLI_TRY(cli_names(cli, OPT_ALGORITHM, algorithm_word, algorithm_words(), list, &count));
    if (count > 1)
        return say_usage("'peal compare' takes one algorithm");
    request->algorithm = count ? algorithm_word(list[0]) : NULL;
    return EXIT_YES;
}

static void predict_others(const peal_table *table, struct size_row *size)
{
    peal_row_info row = {.size = sizeof row};
    const char *name;
    for (uint32_t i = 0; i < OTHERS && (name = peal_algorithm_name(i)) != NULL; i++)
        if (peal_table_best(table, name, size->point.bytes, &row) == PEAL_OK)
            size->other_us[i] = row.time_us;
}

static int predict_one(struct comparison *c, struct size_row *size)
{
    peal_request request = PEAL_REQUEST_INIT;
    struct action action = {.collective = c->info.collective};
    peal_table *table = NULL;
    CLI_TRY(read_policy(c->cli, &request));
    CLI_TRY(read_algorithm(c->cli, &request));
    request.private_buffers = c->private_buffers;
    request.ranks = c->ranks;
    request.min_bytes = request.max_bytes = size->point.bytes;
    CLI_TRY(plan_table(c->cli, c->fabric, &request, &action, NULL, 0, &table));
    size->row.size = sizeof size->row;
    peal_status status = peal_table_row(table, 0, &size->row);
    predict_others(table, size);
    peal_table_destroy(table);
    CLI_TRY(say_diag(status, NULL));
    size->ratio = size->row.time_us > 0 ? size->point.time_us / size->row.time_us : 0;
    return EXIT_YES;
}

static int by_size(const void *a, const void *b)
{
    const struct size_row *x = a, *y = b;
    return (x->point.bytes > y->point.bytes) - (x->point.bytes < y->point.bytes);
}

static int predict_all(struct comparison *c)
{
    c->sizes = c->info.points;
    c->size = need(calloc(c->sizes ? c->sizes : 1, sizeof *c->size));
    for (uint32_t i = 0; i < c->sizes; i++)
        c->size[i].point = c->point[i];
    qsort(c->size, c->sizes, sizeof *c->size, by_size);
    for (uint32_t i = 0; i < c->sizes; i++) {
        CLI_TRY(predict_one(c, &c->size[i]));
        say_progress("peal compare: sizes", i + 1, c->sizes);
    }
    return EXIT_YES;
}

/* The next run of sizes with that cause, from *at on. */
static int next_range(const struct comparison *c, enum cause cause, uint32_t *at, uint32_t *end)
{
    while (*at < c->sizes && c->size[*at].cause != cause)
        ++*at;
    *end = *at;
    while (*end < c->sizes && c->size[*end].cause == cause &&
           c->size[*end].as_if == c->size[*at].as_if)
        ++*end;
    return *at < *end;
}

/* ---- text */

static void print_sizes(const struct comparison *c, const struct output *output)
{
    struct grid grid;
    char text[NUMBER_TEXT];
    grid_begin(&grid,
               ">bytes|>measured us|>predicted us|>bound us|>x predicted|>x bound|planned|loss");
    for (uint32_t i = 0; i < c->sizes; i++) {
        const struct size_row *s = &c->size[i];
        grid_add(&grid, "%s", size_text(s->point.bytes, text));
        grid_add(&grid, "%s", real_text(s->point.time_us, text));
        grid_add(&grid, "%s", real_text(s->row.time_us, text));
        grid_add(&grid, "%s", real_text(s->row.bound_us, text));
        grid_add(&grid, "%.2f", s->ratio);
        if (s->row.bound_us > 0)
            grid_add(&grid, "%.2f", s->point.time_us / s->row.bound_us);
        else
            grid_add(&grid, "-");
        grid_add(&grid, "%s", s->row.algorithm);
        grid_add(&grid, "%s", cause_text[s->cause]);
    }
    grid_print(&grid, output);
}

static void print_ranges(const struct comparison *c, FILE *file)
{
    char from[NUMBER_TEXT], to[NUMBER_TEXT];
    for (uint32_t at = 0, end; next_range(c, ALGORITHM, &at, &end); at = end) {
        fprintf(file, "- %s to %s: ", size_text(c->size[at].point.bytes, from),
                size_text(c->size[end - 1].point.bytes, to));
        if (c->size[at].as_if)
            fprintf(file, "the wrong algorithm: the times are those of %s (peal plans %s)\n",
                    c->size[at].as_if, c->size[at].row.algorithm);
        else
            fprintf(file,
                    "slower than the sizes on both sides; the wrong algorithm or protocol is "
                    "chosen there (peal plans %s)\n",
                    c->size[at].row.algorithm);
    }
}

static void print_latency(const struct comparison *c, FILE *file)
{
    char a[NUMBER_TEXT], b[NUMBER_TEXT];
    if (c->latency_ratio < LOSS || c->alike > 0)
        return;
    fprintf(file, "- small sizes: a latency floor, %.2f times what is predicted", c->latency_ratio);
    if (c->has_fit)
        fprintf(file, " (start-up %s us, predicted %s us)", real_text(c->measured.alpha_us, a),
                real_text(c->predicted.alpha_us, b));
    fputc('\n', file);
}

static void print_bandwidth(const struct comparison *c, FILE *file)
{
    if (c->alike > 0)
        fprintf(file,
                "- all sizes alike: %.2f times the prediction, so rather the file's costs than a "
                "part of the machine; 'peal fit' has them as measured\n",
                c->alike);
    if (c->alike > 0 || c->bandwidth_ratio < 1.05 || (c->bandwidth_ratio < LOSS && !c->missing))
        return;
    if (c->missing)
        fprintf(file,
                "- large sizes: %.2f times the prediction, as if %lu of the %lu NICs of a "
                "host were missing\n",
                c->bandwidth_ratio, (unsigned long)c->missing, (unsigned long)c->nics);
    else
        fprintf(file, "- large sizes: %.2f times the prediction, which %s limits\n",
                c->bandwidth_ratio, c->size[c->sizes - 1].row.binding);
}

/* Where it makes a difference: ranks that share a host's memory. */
static void print_buffers(const struct comparison *c, FILE *file)
{
    peal_rank_info rank = {.size = sizeof rank};
    if (peal_fabric_rank(c->fabric, 0, &rank) != PEAL_OK || strcmp(rank.model, "host") != 0)
        return;
    if (c->info.has_buffers || cli_given(c->cli, OPT_PRIVATE))
        fprintf(file, "buffers: %s, as %s\n", c->private_buffers ? "private" : "shared",
                cli_given(c->cli, OPT_PRIVATE) ? "--private asks for" : "the text says");
    else
        fputs("buffers: the text does not say; taken for such as all ranks reach (--private: "
              "they are not)\n",
              file);
}

static void print_all(const struct comparison *c, const struct output *output)
{
    FILE *file = output->file;
    uint32_t well = 0;
    for (uint32_t i = 0; i < c->sizes; i++)
        well += c->size[i].cause == AS_PREDICTED || c->size[i].cause == FASTER;
    fprintf(file, "%s by %lu ranks: %s\n", peal_collective_name(c->info.collective),
            (unsigned long)c->ranks, c->info.name);
    print_buffers(c, file);
    print_sizes(c, output);
    fprintf(file, "\n%lu of %lu sizes take at most %.2f times the prediction\n",
            (unsigned long)well, (unsigned long)c->sizes, LOSS);
    print_latency(c, file);
    print_ranges(c, file);
    print_bandwidth(c, file);
}

/* ---- JSON */

static void json_sizes(json_t *root, const struct comparison *c)
{
    json_t *list = json_list(root, "sizes");
    for (uint32_t i = 0; i < c->sizes; i++) {
        const struct size_row *s = &c->size[i];
        json_t *item = json_item(list);
        json_count(item, "bytes", s->point.bytes);
        json_number(item, "measured_us", s->point.time_us);
        json_number(item, "predicted_us", s->row.time_us);
        json_number(item, "bound_us", s->row.bound_us);
        json_number(item, "ratio", s->ratio);
        json_text(item, "algorithm", s->row.algorithm);
        json_text(item, "regime", compare_latency_bound(c, s) ? "latency" : "bandwidth");
        json_text(item, "binding", s->row.binding);
        json_text(item, "loss", cause_name[s->cause]);
    }
}

static void json_all(const struct comparison *c, const struct output *output)
{
    json_t *root = json_begin("peal.compare/1");
    json_text(root, "series", c->info.name);
    json_text(root, "collective", peal_collective_name(c->info.collective));
    json_count(root, "ranks", c->ranks);
    json_text(root, "buffers", c->private_buffers ? "private" : "shared");
    json_text(root, "buffers_from", c->buffers_from);
    json_sizes(root, c);
    json_number(root, "latency_ratio", c->latency_ratio);
    json_number(root, "bandwidth_ratio", c->bandwidth_ratio);
    json_number(root, "alike_ratio", c->alike);
    json_count(root, "missing_nics", c->missing);
    json_t *ranges = json_list(root, "wrong_algorithm");
    for (uint32_t at = 0, end; next_range(c, ALGORITHM, &at, &end); at = end) {
        json_t *item = json_item(ranges);
        json_count(item, "min_bytes", c->size[at].point.bytes);
        json_count(item, "max_bytes", c->size[end - 1].point.bytes);
        json_text(item, "as_if", c->size[at].as_if);
    }
    if (c->has_fit) {
        json_number(root, "measured_alpha_us", c->measured.alpha_us);
        json_number(root, "measured_beta_gbs", c->measured.beta_gbs);
        json_number(root, "predicted_alpha_us", c->predicted.alpha_us);
        json_number(root, "predicted_beta_gbs", c->predicted.beta_gbs);
    }
    json_end(root, output);
}

/* ---- */

static int choose_series(struct comparison *c, peal_measured *measured)
{
    const char *name = c->cli->value[OPT_SERIES];
    uint32_t count = peal_measured_count(measured), at = 0;
    peal_fabric_info about = {.size = sizeof about};
    CLI_TRY(say_diag(peal_fabric_get(c->fabric, &about), NULL));
    for (; at < count; at++) {
        CLI_TRY(get_series(c->cli, measured, at, about.ranks, &c->info, &c->point));
        if (!name || strcmp(name, c->info.name) == 0)
            break;
    }
    if (at == count)
        return say_usage("--series '%s' is not in this file", name ? name : "");
    if (!c->info.has_collective)
        return say_usage("%s does not say which collective it is of; --collective does",
                         c->info.name);
    return EXIT_YES;
}

static int look_at_fabric(struct comparison *c)
{
    peal_fabric_info about = {.size = sizeof about};
    peal_rank_info last = {.size = sizeof last};
    CLI_TRY(say_diag(peal_fabric_get(c->fabric, &about), NULL));
    c->ranks = c->info.ranks ? c->info.ranks : about.ranks;
    if (c->ranks > about.ranks) {
        say(SAY_ERROR, "%s is of %lu ranks, the topology has %lu", c->info.name,
            (unsigned long)c->ranks, (unsigned long)about.ranks);
        return EXIT_INPUT;
    }
    CLI_TRY(say_diag(peal_fabric_rank(c->fabric, c->ranks - 1, &last), NULL));
    c->hosts = last.host + 1;
    c->nics = about.hosts ? about.nics / about.hosts : 0;
    return EXIT_YES;
}

/* Those that were measured; --private goes before what the text says. */
static void choose_buffers(struct comparison *c)
{
    c->private_buffers = c->info.private_buffers;
    c->buffers_from = c->info.has_buffers ? "text" : "assumed";
    if (!cli_given(c->cli, OPT_PRIVATE))
        return;
    c->private_buffers = 1;
    c->buffers_from = "option";
}

static int compare(struct comparison *c, peal_measured *measured)
{
    struct output output;
    CLI_TRY(read_measured(c->cli, c->cli->operand[1], measured));
    CLI_TRY(load_fabric(c->cli, c->cli->operand[0], &c->fabric));
    CLI_TRY(choose_series(c, measured));
    CLI_TRY(look_at_fabric(c));
    choose_buffers(c);
    CLI_TRY(predict_all(c));
    compare_judge(c);
    CLI_TRY(output_open(c->cli, &output));
    if (cli_given(c->cli, OPT_JSON))
        json_all(c, &output);
    else
        print_all(c, &output);
    return output_close(&output, EXIT_YES);
}

int verb_compare(struct cli *cli)
{
    struct comparison c = {.cli = cli};
    peal_measured *measured = NULL;
    CLI_TRY(cli_operands(cli, 2));
    CLI_TRY(say_diag(peal_measured_create(cli->ctx, &measured), NULL));
    int code = compare(&c, measured);
    free(c.size);
    peal_fabric_destroy(c.fabric);
    peal_measured_destroy(measured);
    return code;
}
