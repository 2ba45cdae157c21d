/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who started this process: when a launcher did, it is one rank of several, and runs its own part
 * only. torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) and PMIx (mpirun, srun)
 * say which.
 */
#ifndef PEAL_CLI_LAUNCH_H
#define PEAL_CLI_LAUNCH_H

#include "cli.h"

enum launcher { LAUNCH_NONE, LAUNCH_ENV, LAUNCH_PMIX };

struct launch {
    enum launcher by;
    uint32_t rank;
    uint32_t ranks;
    const char *address;
    uint32_t port;
    uint32_t worlds; /* joined so far */
    char *key;
    size_t key_bytes;
    peal_id id;
};

/* From the environment, unless --local. Of all ranks but the first, what goes to standard output
 * goes nowhere. */
int launch_read(struct cli *cli, struct launch *launch);
/* This process's rank of a world of the table's ranks. */
int launch_join(struct cli *cli, struct launch *launch, const peal_table *table,
                peal_join_params *params, peal_world **world);
void launch_end(struct launch *launch);

/* ---- launch_pmix.c */
int pmix_asks(void); /* a PMIx launcher started this process */
int pmix_begin(uint32_t *rank, uint32_t *ranks, int *one_host);
/* An id from rank 0 to all. */
int pmix_spread(uint32_t number, int is_root, peal_id *id);
void pmix_end(void);

#endif
