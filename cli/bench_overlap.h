/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEAL_CLI_BENCH_OVERLAP_H
#define PEAL_CLI_BENCH_OVERLAP_H

#include "run_options.h"

struct overlap_asked {
    struct cli *cli;
    const peal_fabric *fabric; /* NULL: the table is a file's */
    peal_table *table;
    const struct crew *crew; /* how ranks are run */
    peal_dtype dtype;
    peal_op op;
    struct action action;
    const uint64_t *count; /* elements of the message of each size */
    uint32_t points;
};

/* Of each engine that can carry the collective's moves: a call, a matrix product as long as it, one
 * after the other and one beside the other. Measures and tells. */
int bench_overlap(const struct overlap_asked *asked);

#endif
