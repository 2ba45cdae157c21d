/* SPDX-License-Identifier: Apache-2.0 */
/* What peal estimate is asked, and what it found. */
#ifndef PEAL_CLI_ESTIMATING_H
#define PEAL_CLI_ESTIMATING_H

#include "cli.h"

#define SWAPS_MAX 8u

struct scale_point {
    peal_estimate_info info;
    double step_us; /* overlap_us when --overlap is given, else bucketed_us */
};

struct estimating {
    peal_model model;
    peal_estimate_params params;
    uint32_t words; /* read so far, of --model and --swap */
    peal_swap swap[SWAPS_MAX];
    uint32_t swaps;
    uint64_t scale[LIST_MAX];
    uint32_t scales;
    struct scale_point point[LIST_MAX];
    peal_fabric *fabric;
    peal_fabric *other; /* with --swap */
    peal_estimate *as_is;
    peal_estimate *swapped;
    peal_policy_text script; /* --algorithm F.lua */
    char *script_text;
};

/* ---- estimate_input.c: options into model, params, swap and scale */
int estimate_input(struct cli *cli, struct estimating *to);
uint64_t estimate_replica(const peal_estimate_params *params); /* ranks of one */
double estimate_step(const struct cli *cli, const peal_estimate_info *info);

/* ---- estimate_print.c, estimate_report.c: as text, and as peal.estimate/1 */
void estimate_print(const struct cli *cli, const struct estimating *of,
                    const struct output *output);
void estimate_report(const struct cli *cli, const struct estimating *of,
                     const struct output *output);

#endif
