/* SPDX-License-Identifier: Apache-2.0 */
/* peal topo diff: in what two machines differ. */
#include "cli_json.h"
#include "verb_topo.h"

struct diff {
    struct grid grid;
    json_t *list;
};

static void on_difference(void *user, const char *what, const char *left, const char *right)
{
    struct diff *diff = user;
    if (diff->list) {
        json_t *item = json_item(diff->list);
        json_text(item, "what", what);
        json_text(item, "left", left[0] ? left : NULL);
        json_text(item, "right", right[0] ? right : NULL);
        return;
    }
    grid_add(&diff->grid, "%s", what);
    grid_add(&diff->grid, "%s", left[0] ? left : "-");
    grid_add(&diff->grid, "%s", right[0] ? right : "-");
}

static int compare(struct cli *cli, const peal_fabric *left, const peal_fabric *right,
                   const struct output *output)
{
    struct diff diff = {.list = NULL};
    uint32_t count = 0;
    json_t *root = cli_given(cli, OPT_JSON) ? json_begin("peal.diff/1") : NULL;
    if (root)
        diff.list = json_list(root, "differences");
    grid_begin(&diff.grid, "what|left|right");
    peal_status status = peal_fabric_diff(cli->ctx, left, right, on_difference, &diff, &count);
    if (root) {
        json_flag(root, "same", count == 0);
        json_text(root, "left", cli->operand[0]);
        json_text(root, "right", cli->operand[1]);
        json_end(root, output);
    } else if (count == 0 && status == PEAL_OK) {
        fputs("the same machine\n", output->file);
    } else {
        grid_print(&diff.grid, output);
    }
    grid_free(&diff.grid);
    if (status != PEAL_OK)
        return say_diag(status, NULL);
    return count ? EXIT_NO : EXIT_YES;
}

int topo_diff(struct cli *cli)
{
    peal_fabric *left, *right;
    struct output output;
    CLI_TRY(cli_operands(cli, 2));
    CLI_TRY(load_fabric(cli, cli->operand[0], &left));
    int code = load_fabric(cli, cli->operand[1], &right);
    if (code == EXIT_YES) {
        code = output_open(cli, &output);
        if (code == EXIT_YES)
            code = output_close(&output, compare(cli, left, right, &output));
        peal_fabric_destroy(right);
    }
    peal_fabric_destroy(left);
    return code;
}
