/* SPDX-License-Identifier: Apache-2.0 */
/* What run and bench ask in the same way. */
#ifndef PEAL_CLI_RUN_OPTIONS_H
#define PEAL_CLI_RUN_OPTIONS_H

#include "crew.h"

/* Seed, chaos, timeout, pinning, processes or threads. alone: each rank has a core, and so the
 * defaults are processes, pinned; else threads. timed: these are pinned too, by turns: else the
 * system puts them together as it happens, and times of one run are 1.3 times those of the next. */
int read_crew(struct cli *cli, int alone, int timed, struct crew *crew);
/* Which of the two are asked for; they keep what they have where none is. */
int read_placement(const struct cli *cli, int *out, int *in);
/* What the rows that serve the jobs do to elements on their way; proves them, if need be. */
int note_wire(peal_table *table, struct job *jobs, uint32_t count, uint32_t ranks);
/* The row that serves a job; 0: none does. */
int find_row(const peal_table *table, const struct job *job, uint32_t ranks, peal_row_info *row);
/* The identity of its plan; "": none. */
void find_id(const peal_table *table, const struct job *job, uint32_t ranks, char id[33]);
/* The table has a row for each job. */
int check_sizes(const peal_table *table, const struct job *jobs, uint32_t count, uint32_t ranks);
/* "broadcast (root 2) of 400: 100 float32, in place" */
#define JOB_TEXT 192
const char *job_text(const struct job *job, uint32_t ranks, char *text);
/* "wrong: allreduce of ...: rank 3, element 17 is 4, not 5" on standard error. */
void say_wrong(const struct job *job, uint32_t ranks, const struct result *result);
/* How the engines of a plan are served here, in a sentence or two. */
void print_engines(const peal_comm_info *info, FILE *file);

#endif
