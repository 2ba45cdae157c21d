/* SPDX-License-Identifier: Apache-2.0 */
/* Measured tables for peal fit and peal compare. */
#ifndef PEAL_CLI_FIT_INPUT_H
#define PEAL_CLI_FIT_INPUT_H

#include "cli.h"

/* Adds a file's series; a text, or the JSON of peal bench or nccl-tests. */
int read_measured(struct cli *cli, const char *path, peal_measured *measured);
/* A series, with what the command line says of tables that do not, and last the number of ranks
 * (0: not known). */
int get_series(const struct cli *cli, peal_measured *measured, uint32_t index, uint32_t ranks,
               peal_series_info *info, const peal_point **point);
/* This machine's paths, as series with a class of links, or none that crosses one (memory). */
int measure_paths(struct cli *cli, peal_measured *measured);
/* What a flag takes there and back between two threads, us; 0: it did not come back. */
int measure_flag(double *us);
/* What ranks do that share this machine's memory, as a topology to the file of -o, and as text. */
int measure_memory(struct cli *cli, FILE *shown);
const char *link_word(uint32_t index); /* classes of links */

#endif
