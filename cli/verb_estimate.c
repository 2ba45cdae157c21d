/* SPDX-License-Identifier: Apache-2.0 */
/* peal estimate: what a model's communication takes on a machine. */
#include "estimating.h"

#include <stdlib.h>
#include <string.h>

static int create(struct cli *cli, const peal_fabric *fabric, const struct estimating *of,
                  const peal_estimate_params *params, peal_estimate **estimate_out)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status =
        peal_estimate_create(cli->ctx, fabric, &of->model, params, &diag, estimate_out);
    if (status == PEAL_OK)
        say_fallback(&diag);
    return say_diag(status, &diag);
}

static int get_info(const peal_estimate *estimate, peal_estimate_info *info)
{
    info->size = sizeof *info;
    return say_diag(peal_estimate_get(estimate, info), NULL);
}

/* The buckets that were chosen. */
static int keep_buckets(const struct estimating *of, peal_estimate_params *params)
{
    peal_estimate_info info;
    CLI_TRY(get_info(of->as_is, &info));
    *params = of->params;
    params->bucket_bytes = info.bucket_bytes;
    params->dp = info.dp;
    return EXIT_YES;
}

/* The same machine from the same file, with other links. */
static int estimate_swapped(struct cli *cli, struct estimating *of)
{
    const char *path = cli->operand[0];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_estimate_params params;
    if (!of->swaps)
        return EXIT_YES;
    if (strcmp(path, "-") == 0 || strncmp(path, "host:", 5) == 0)
        return say_usage("--swap needs a topology file");
    CLI_TRY(say_diag(
        peal_fabric_load_swapped(cli->ctx, path, of->swap, of->swaps, &diag, &of->other), &diag));
    CLI_TRY(keep_buckets(of, &params));
    return create(cli, of->other, of, &params, &of->swapped);
}

/* The step on other numbers of ranks. */
static int estimate_scales(struct cli *cli, struct estimating *of)
{
    peal_estimate_params params;
    CLI_TRY(keep_buckets(of, &params));
    for (uint32_t i = 0; i < of->scales; i++) {
        peal_estimate *estimate;
        struct scale_point *point = &of->point[i];
        params.dp = (uint32_t)(of->scale[i] / estimate_replica(&of->params));
        CLI_TRY(create(cli, of->fabric, of, &params, &estimate));
        int code = get_info(estimate, &point->info);
        peal_estimate_destroy(estimate);
        CLI_TRY(code);
        point->step_us = estimate_step(cli, &point->info);
    }
    return EXIT_YES;
}

static int draw(const struct cli *cli, const struct estimating *of)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct output output;
    struct cli to = *cli;
    if (!cli_given(cli, OPT_SVG))
        return EXIT_YES;
    to.value[OPT_OUTPUT] = cli->value[OPT_SVG];
    CLI_TRY(output_open(&to, &output));
    peal_status status = peal_estimate_write(of->as_is, "svg", output_write, &output, &diag);
    return output_close(&output, say_diag(status, &diag));
}

static int show(const struct cli *cli, const struct estimating *of)
{
    struct output output;
    CLI_TRY(output_open(cli, &output));
    if (cli_given(cli, OPT_JSON))
        estimate_report(cli, of, &output);
    else
        estimate_print(cli, of, &output);
    return output_close(&output, EXIT_YES);
}

static int run(struct cli *cli, struct estimating *of)
{
    CLI_TRY(load_fabric(cli, cli->operand[0], &of->fabric));
    CLI_TRY(create(cli, of->fabric, of, &of->params, &of->as_is));
    CLI_TRY(estimate_swapped(cli, of));
    CLI_TRY(estimate_scales(cli, of));
    CLI_TRY(draw(cli, of));
    return show(cli, of);
}

int verb_estimate(struct cli *cli)
{
    CLI_TRY(cli_operands(cli, 1));
    struct estimating *of = need(calloc(1, sizeof *of));
    int code = estimate_input(cli, of);
    if (code == EXIT_YES)
        code = run(cli, of);
    peal_estimate_destroy(of->swapped);
    peal_estimate_destroy(of->as_is);
    peal_fabric_destroy(of->other);
    peal_fabric_destroy(of->fabric);
    free(of->script_text);
    free(of);
    return code;
}
