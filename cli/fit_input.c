/* SPDX-License-Identifier: Apache-2.0 */
/* Measured tables from files; what peal bench --json wrote is read here. */
#include "fit_input.h"
#include "fit_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

const char *link_word(uint32_t index)
{
    return peal_link_class_name((peal_link_class)index);
}

static int refuse(const char *path, uint32_t row, const char *what)
{
    put_plain(stderr, "%s:1: error: row %lu: %s\n", path, (unsigned long)row, what);
    return EXIT_INPUT;
}

static int add_json_row(const json_t *row, const char *buffers, const char *path, uint32_t index,
                        peal_measured *measured)
{
    peal_series_info info = {.size = sizeof info, .nodes = 1, .has_link = 1};
    const char *collective = json_string_value(json_object_get(row, "collective"));
    json_int_t bytes = json_integer_value(json_object_get(row, "bytes"));
    json_int_t ranks = json_integer_value(json_object_get(row, "ranks"));
    double time = json_number_value(json_object_get(row, "time_us"));
    peal_point point = {(uint64_t)bytes, time};
    if (!collective || peal_collective_parse(collective, &info.collective) != PEAL_OK)
        return refuse(path, index, "no collective");
    if (json_is_true(json_object_get(row, "inplace")) || bytes == 0)
        return EXIT_YES;
    if (bytes < 0 || ranks < 1 || ranks > UINT32_MAX || !(time > 0))
        return refuse(path, index, "no bytes, ranks or time_us");
    info.has_collective = 1;
    info.ranks = (uint32_t)ranks;
    info.link = PEAL_LINK_SHM;
    info.has_buffers = buffers != NULL;
    info.private_buffers = buffers && strcmp(buffers, "private") == 0;
    (void)snprintf(info.name, sizeof info.name, "%.150s/%s", path, collective);
    peal_diag diag = PEAL_DIAG_INIT;
    return say_diag(peal_measured_add(measured, &info, &point, 1, &diag), &diag);
}

static int add_rows(const json_t *root, const char *path, peal_measured *measured)
{
    const json_t *rows = json_object_get(root, "rows");
    const char *buffers = json_string_value(json_object_get(root, "buffers"));
    for (size_t i = 0; i < json_array_size(rows); i++)
        CLI_TRY(add_json_row(json_array_get(rows, i), buffers, path, (uint32_t)i, measured));
    return EXIT_YES;
}

static int add_json(const char *path, const char *data, size_t bytes, peal_measured *measured)
{
    json_error_t error;
    json_t *root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        put_plain(stderr, "%s:%d:%d: error: %s\n", path, error.line, error.column, error.text);
        return EXIT_INPUT;
    }
    const json_t *rows = json_object_get(root, "rows"), *schema = json_object_get(root, "schema");
    int code = EXIT_INPUT;
    if (json_is_array(json_object_get(root, "results")))
        code = add_nccl_json(root, path, measured);
    else if (json_is_array(rows) && json_is_string(schema) &&
             strcmp(json_string_value(schema), "peal.bench/1") == 0)
        code = add_rows(root, path, measured);
    else
        put_plain(stderr, "%s:1: error: JSON that is neither peal.bench/1 nor of nccl-tests\n",
                  path);
    json_decref(root);
    return code;
}

int read_measured(struct cli *cli, const char *path, peal_measured *measured)
{
    char *data;
    size_t bytes, at = 0;
    peal_diag diag = PEAL_DIAG_INIT;
    (void)cli;
    CLI_TRY(read_file(path, &data, &bytes));
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    while (at < bytes && (data[at] == ' ' || data[at] == '\n' || data[at] == '\t'))
        at++;
    int code;
    if (at < bytes && data[at] == '{')
        code = add_json(name, data, bytes, measured);
    else
        code = say_diag(peal_measured_read(measured, data, bytes, name, &diag), &diag);
    free(data);
    return code;
}

static int read_link(const struct cli *cli, peal_series_info *info)
{
    uint32_t list[LIST_MAX], count = 0;
    if (info->has_link)
        return EXIT_YES;
    CLI_TRY(cli_names(cli, OPT_LINK, link_word, PEAL_LINK_CLASS_COUNT, list, &count));
    if (count > 1)
        return say_usage("one --link at a time");
    if (count) {
        info->has_link = 1;
        info->link = (peal_link_class)list[0];
    }
    return EXIT_YES;
}

/* Sizes as peal counts them, as soon as the number of ranks is known. */
static int make_whole(peal_measured *measured, uint32_t index, uint32_t ranks,
                      peal_series_info *info)
{
    peal_diag diag = PEAL_DIAG_INIT;
    if (!info->of_blocks)
        return EXIT_YES;
    if (!ranks) {
        say(SAY_NOTE, "%s: sizes are those of a block, times the ranks with --ranks", info->name);
        return EXIT_YES;
    }
    CLI_TRY(say_diag(peal_measured_whole(measured, index, ranks, &diag), &diag));
    info->of_blocks = 0;
    return EXIT_YES;
}

int get_series(const struct cli *cli, peal_measured *measured, uint32_t index, uint32_t ranks,
               peal_series_info *info, const peal_point **point)
{
    uint32_t list[LIST_MAX], count = 0;
    info->size = sizeof *info;
    CLI_TRY(say_diag(peal_measured_get(measured, index, info, point), NULL));
    CLI_TRY(cli_names(cli, OPT_COLLECTIVE, collective_word, PEAL_COLLECTIVE_COUNT, list, &count));
    if (count > 1)
        return say_usage("'peal %s' takes one collective", cli_verbs[cli->verb].name);
    if (count && !info->has_collective) {
        info->collective = (peal_collective)list[0];
        info->has_collective = 1;
    }
    if (!info->ranks)
        CLI_TRY(cli_u32(cli, OPT_RANKS, &info->ranks));
    if (!info->nodes)
        CLI_TRY(cli_u32(cli, OPT_NODES, &info->nodes));
    CLI_TRY(make_whole(measured, index, info->ranks ? info->ranks : ranks, info));
    return read_link(cli, info);
}
