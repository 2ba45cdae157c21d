/* SPDX-License-Identifier: Apache-2.0 */
/* What nccl-tests write as JSON, as the text that they print: one reader knows what both mean. */
#include "fit_json.h"

#include <stdlib.h>

static void put_ranks(const json_t *root, FILE *text)
{
    const json_t *devices = json_object_get(json_object_get(root, "config"), "devices");
    const json_t *args = json_object_get(root, "args");
    const char *program = json_string_value(json_array_get(args, 0));
    fprintf(text, "%s\n", program ? program : "");
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const json_t *device = json_array_get(devices, i);
        const char *host = json_string_value(json_object_get(device, "hostname"));
        fprintf(text, "# Rank %lld on %s\n",
                (long long)json_integer_value(json_object_get(device, "rank")), host ? host : "-");
    }
}

/* A processor's time has another name, and is no time of a call. */
static const json_t *time_of(const json_t *row)
{
    const json_t *time = json_object_get(json_object_get(row, "out_of_place"), "time");
    return time ? time : json_object_get(json_object_get(row, "in_place"), "time");
}

static int put_rows(const json_t *results, const char *path, FILE *text)
{
    fputs("# size time\n", text);
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *row = json_array_get(results, i), *size = json_object_get(row, "size");
        const json_t *time = time_of(row);
        if (!json_is_integer(size) || json_integer_value(size) < 0 || !json_is_number(time)) {
            put_plain(stderr, "%s:1: error: result %lu: no size, or no time\n", path,
                      (unsigned long)i);
            return EXIT_INPUT;
        }
        fprintf(text, "%lld %.6f\n", (long long)json_integer_value(size), json_number_value(time));
    }
    return EXIT_YES;
}

int add_nccl_json(const json_t *root, const char *path, peal_measured *measured)
{
    char *data = NULL;
    size_t bytes = 0;
    peal_diag diag = PEAL_DIAG_INIT;
    FILE *text = need(open_memstream(&data, &bytes));
    put_ranks(root, text);
    int code = put_rows(json_object_get(root, "results"), path, text);
    if (fclose(text) != 0)
        code = EXIT_RUNTIME;
    if (code == EXIT_YES)
        code = say_diag(peal_measured_read(measured, data, bytes, path, &diag), &diag);
    free(data);
    return code;
}
