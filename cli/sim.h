/* SPDX-License-Identifier: Apache-2.0 */
/* What is simulated: a machine, a plan of it, and a size. */
#ifndef PEAL_CLI_SIM_H
#define PEAL_CLI_SIM_H

#include "action.h"

struct sim_case {
    peal_fabric *fabric;
    peal_table *table;
    struct action action;
    uint32_t index; /* of the row */
    uint32_t ranks;
    uint64_t bytes;
    peal_row_info row;
    peal_sim *sim;
    peal_sim_info info;
    double healthy_us; /* with --degrade: without it */
};

/* The machine of the first operand, and the plan of the second, or one made for the machine. */
int sim_open(struct cli *cli, struct sim_case *c);
int sim_run(struct cli *cli, const peal_fabric *fabric, const struct sim_case *c, int keep,
            peal_sim **sim_out);
#define SIM_BYTES "1M" /* when no size is given */
/* What the run has kept, in a form of peal_sim_write, to a file (NULL: standard output). */
int sim_write(const struct cli *cli, const peal_sim *sim, const char *form, const char *path);
void sim_close(struct sim_case *c);

#endif
