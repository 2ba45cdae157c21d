/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEAL_CLI_BENCH_PAIRS_H
#define PEAL_CLI_BENCH_PAIRS_H

#include "run_options.h"

/* Measures every pair of the model's ranks, as its ranks are run, and tells. */
int bench_pairs(struct cli *cli, const peal_fabric *fabric, const struct crew *model);

#endif
