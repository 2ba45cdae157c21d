/* SPDX-License-Identifier: Apache-2.0 */
/* Measured sizes beside what is predicted for them, and what their loss is put down to. */
#ifndef PEAL_CLI_COMPARE_H
#define PEAL_CLI_COMPARE_H

#include "fit_input.h"

#define LOSS 1.25  /* measured over predicted: below it a size is as it should be */
#define OTHERS 32u /* algorithms that are looked at */

enum cause { AS_PREDICTED, FASTER, LATENCY, ALGORITHM, BANDWIDTH };

struct size_row {
    peal_point point;
    peal_row_info row;
    double ratio; /* measured over predicted */
    enum cause cause;
    double other_us[OTHERS]; /* what each algorithm would take; 0: it cannot serve the size */
    const char *as_if;       /* the algorithm whose times these are; NULL: none is like them */
};

struct comparison {
    struct cli *cli;
    peal_fabric *fabric;
    peal_series_info info;
    const peal_point *point;
    uint32_t ranks;
    uint32_t hosts; /* that the ranks are on */
    uint32_t nics;  /* of a host */
    int private_buffers;
    const char *buffers_from; /* who says so: "option", "text" or, if nobody, "assumed" */
    struct size_row *size;
    uint32_t sizes;
    int has_fit;
    peal_fit measured, predicted;
    double latency_ratio;   /* median of the latency-bound sizes; 0: there are none */
    double bandwidth_ratio; /* of the others */
    double alike;           /* ratio of all sizes, where they are slower by as much; 0: else */
    uint32_t missing;       /* NICs of a host, by the ratio */
};

/* Fits both, and fills what follows from measured and predicted times. */
void compare_judge(struct comparison *c);
/* Of the sizes that are bound by latency or not, as measured where that could be fitted. */
int compare_latency_bound(const struct comparison *c, const struct size_row *size);

#endif
