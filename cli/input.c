/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies, plan files and plan texts: what a file is shows in its first bytes. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "PEALPLAN"
#define WORD "peal-table"

static int cannot_read(const char *path)
{
    put_plain(stderr, "%s: error: cannot be read: %s\n", path, strerror(errno));
    return EXIT_INPUT;
}

/* ---- whole files */

static int read_stream(FILE *file, const char *path, char **data_out, size_t *bytes_out)
{
    size_t room = 1u << 16, used = 0;
    char *data = need(malloc(room));
    errno = 0;
    for (size_t got = 1; got > 0; used += got) {
        if (used == room) {
            room *= 2;
            data = need(realloc(data, room));
        }
        got = fread(data + used, 1, room - used, file);
    }
    if (ferror(file)) {
        free(data);
        return cannot_read(path);
    }
    *data_out = data;
    *bytes_out = used;
    return EXIT_YES;
}

int read_file(const char *path, char **data_out, size_t *bytes_out)
{
    if (strcmp(path, "-") == 0)
        return read_stream(stdin, "standard input", data_out, bytes_out);
    FILE *file = fopen(path, "rb");
    if (!file)
        return cannot_read(path);
    int code = read_stream(file, path, data_out, bytes_out);
    (void)fclose(file);
    return code;
}

/* ---- topologies */

static int is_host(const char *path)
{
    return strncmp(path, "host:", 5) == 0;
}

static int make_host(struct cli *cli, const char *path, peal_fabric **fabric_out)
{
    uint64_t ranks = 0;
    peal_diag diag = PEAL_DIAG_INIT;
    if (!parse_u64(path + 5, strlen(path + 5), &ranks) || ranks == 0 || ranks > UINT32_MAX)
        return say_usage("'%s' is not host:N with a number of ranks", path);
    peal_status status = peal_fabric_host(cli->ctx, (uint32_t)ranks, &diag, fabric_out);
    return status == PEAL_OK ? EXIT_YES : say_diag(status, &diag);
}

/* What is suspicious is said, but where the verb's own output says it. */
static void say_warnings(const struct cli *cli, const peal_fabric *fabric)
{
    peal_fabric_info info = {.size = sizeof info};
    if (cli->verb == VERB_TOPO || cli->verb == VERB_LINT ||
        peal_fabric_get(fabric, &info) != PEAL_OK)
        return;
    for (uint32_t i = 0; i < info.notes; i++) {
        peal_note_info note = {.size = sizeof note};
        if (peal_fabric_note(fabric, i, &note) == PEAL_OK && note.warning)
            put_plain(stderr, "%s:%lu: warning: %s\n", note.path ? note.path : info.name,
                      (unsigned long)note.line, note.text);
    }
}

static int finish_fabric(const struct cli *cli, peal_status status, const peal_diag *diag,
                         const peal_fabric *fabric)
{
    if (status != PEAL_OK)
        return say_diag(status, diag);
    say_warnings(cli, fabric);
    return EXIT_YES;
}

/* ---- either */

static int is_text(const char *data, size_t bytes)
{
    size_t at = 0;
    while (at < bytes && strchr(" \t\r\n#", data[at]) && data[at]) {
        if (data[at] == '#')
            while (at < bytes && data[at] != '\n')
                at++;
        else
            at++;
    }
    return bytes - at >= strlen(WORD) && memcmp(data + at, WORD, strlen(WORD)) == 0;
}

static int is_plan(const char *data, size_t bytes)
{
    return bytes >= strlen(MAGIC) && memcmp(data, MAGIC, strlen(MAGIC)) == 0;
}

static int parse_any(struct cli *cli, const char *path, const char *data, size_t bytes,
                     peal_fabric **fabric_out, peal_table **table_out)
{
    peal_diag diag = PEAL_DIAG_INIT;
    int piped = strcmp(path, "-") == 0;
    const char *name = piped ? "standard input" : path;
    if (is_plan(data, bytes) || is_text(data, bytes)) {
        if (!table_out) {
            put_plain(stderr, "%s: error: a plan, where a topology is needed\n", name);
            return EXIT_INPUT;
        }
        peal_status status =
            is_plan(data, bytes)
                ? peal_table_load(cli->ctx, data, bytes, name, &diag, table_out)
                : peal_table_assemble(cli->ctx, data, bytes, name, &diag, table_out);
        return status == PEAL_OK ? EXIT_YES : say_diag(status, &diag);
    }
    peal_status status =
        piped ? peal_fabric_parse(cli->ctx, data, bytes, name, ".", &diag, fabric_out)
              : peal_fabric_load(cli->ctx, path, &diag, fabric_out);
    return finish_fabric(cli, status, &diag, *fabric_out);
}

static int load(struct cli *cli, const char *path, peal_fabric **fabric_out, peal_table **table_out)
{
    *fabric_out = NULL;
    if (is_host(path))
        return make_host(cli, path, fabric_out);
    char *data;
    size_t bytes;
    CLI_TRY(read_file(path, &data, &bytes));
    int code = parse_any(cli, path, data, bytes, fabric_out, table_out);
    free(data);
    return code;
}

/* What NCCL chose for the machine, where a file of that is given. */
static int add_graph(const struct cli *cli, peal_fabric **fabric)
{
    peal_diag diag = PEAL_DIAG_INIT;
    const char *path = cli->value[OPT_NCCL_GRAPH];
    if (!path || !*fabric)
        return EXIT_YES;
    int code = say_diag(peal_fabric_graph_load(*fabric, path, &diag), &diag);
    if (code != EXIT_YES) {
        peal_fabric_destroy(*fabric);
        *fabric = NULL;
    }
    return code;
}

int load_fabric(struct cli *cli, const char *path, peal_fabric **fabric_out)
{
    CLI_TRY(load(cli, path, fabric_out, NULL));
    return add_graph(cli, fabric_out);
}

int load_any(struct cli *cli, const char *path, peal_fabric **fabric_out, peal_table **table_out)
{
    *table_out = NULL;
    CLI_TRY(load(cli, path, fabric_out, table_out));
    int code = add_graph(cli, fabric_out);
    if (code != EXIT_YES) {
        peal_table_destroy(*table_out);
        *table_out = NULL;
    }
    return code;
}
