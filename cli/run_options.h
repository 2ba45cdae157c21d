/* SPDX-License-Identifier: Apache-2.0 */
/* What run and bench ask in the same way. */
#ifndef PEAL_CLI_RUN_OPTIONS_H
#define PEAL_CLI_RUN_OPTIONS_H

#include "crew.h"

/* Seed, chaos, timeout, pinning, processes or threads. alone: each rank has a core, and so the
 * defaults are processes, pinned; else threads. */
int read_crew(struct cli *cli, int alone, struct crew *crew);
/* Plans and compiles for a request. skip: NULL, or set to 1 instead of an error when the
 * algorithm cannot serve the fabric. */
int make_table(struct cli *cli, const peal_fabric *fabric, const peal_request *request, int *skip,
               peal_table **table_out);
/* The table has a row for each job. */
int check_sizes(const peal_table *table, const struct job *jobs, uint32_t count);
/* "allreduce of ...: rank 3 element 17 is 4, not 5" on standard error. */
void say_wrong(const struct job *job, const struct result *result);
/* How the engines of a plan are served here, in a sentence or two. */
void print_engines(const peal_comm_info *info, FILE *file);
double bus_factor(uint32_t ranks); /* of allreduce: 2(n-1)/n */

#endif
