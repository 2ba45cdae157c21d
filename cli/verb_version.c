/* SPDX-License-Identifier: Apache-2.0 */
/* peal version. */
#include "cli_json.h"

#include <string.h>

static void json_features(json_t *root)
{
    json_t *list = json_list(root, "features");
    const char *at = peal_features();
    while (*at) {
        char word[64];
        size_t length = strcspn(at, " ");
        (void)snprintf(word, sizeof word, "%.*s", length < 63 ? (int)length : 63, at);
        if (length)
            (void)json_array_append_new(list, json_string(word));
        at += length + (at[length] == ' ');
    }
}

int verb_version(struct cli *cli)
{
    struct output output;
    CLI_TRY(cli_operands(cli, 0));
    CLI_TRY(output_open(cli, &output));
    if (cli_given(cli, OPT_JSON)) {
        json_t *root = json_begin("peal.version/1");
        json_text(root, "version", peal_version());
        json_features(root);
        json_end(root, &output);
    } else {
        fprintf(output.file, "peal %s (%s)\n", peal_version(), peal_features());
    }
    return output_close(&output, EXIT_YES);
}
