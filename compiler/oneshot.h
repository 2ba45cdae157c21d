/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of one-shot share. */
#ifndef PEAL_COMPILER_ONESHOT_H
#define PEAL_COMPILER_ONESHOT_H

#include "compiler.h"

/* What has been seen of its packets and signals. */
struct oneshot_load {
    double alpha_us;   /* the longest start-up */
    double gap_us;     /* the largest, of one message */
    double link_us;    /* per byte of the message, of one packet alone on the narrowest link */
    uint32_t most_out; /* packets of the rank that stores most, and of the one that gets most */
    uint32_t most_in;
};

/* oneshot_cost.c: the ways through the candidate's plan among accelerators; its first stage holds
 * what links carry. */
void peal_oneshot_courses(const struct planner *planner, struct candidate *candidate,
                          const struct oneshot_load *load);

#endif
