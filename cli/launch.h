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
    int placed; /* the launcher said which of its host's ranks this is: */
    uint32_t place;
    uint32_t worlds; /* joined so far */
    char *key;
    size_t key_bytes;
    char *name; /* of the file that is this rank's own; NULL: all have one */
    peal_id id;
};

/* From the environment, unless --local. Of all ranks but the first, what goes to standard output
 * goes nowhere. In the first operand's name %r becomes the rank. */
int launch_read(struct cli *cli, struct launch *launch);
/* This process's rank of a world of the table's ranks. */
int launch_join(struct cli *cli, struct launch *launch, const peal_table *table,
                peal_join_params *params, peal_world **world);
void launch_end(struct launch *launch);
/* This process's part of a meeting: with PMIx, of a new one. */
int launch_params(struct cli *cli, struct launch *launch, peal_join_params *params);
/* The launcher started as many processes as there are ranks. */
int launch_fits(const struct launch *launch, uint32_t ranks);
/* 1: --slice, and there are other ranks to make the rest. */
int launch_slices(const struct cli *cli);

/* ---- launch_address.c: where other hosts reach this one. NULL: it has no network. */
const char *launch_outward(char *text, size_t size);

/* ---- launch_share.c */
/* 1: rank 0 plans for all, since a policy or a script is asked. */
int launch_shares(const struct cli *cli);
int launch_follows(const struct cli *cli); /* 1: and this is another rank */
/* Rank 0's table to all others; code: what came of making it. Without one they are told so. Gives
 * that code, or what went wrong. */
int launch_give(struct cli *cli, uint32_t timeout_ms, int code, peal_table *table);
/* Rank 0's table; may_skip: none where what is asked for is not to be had. */
int launch_take(struct cli *cli, uint32_t timeout_ms, int may_skip, peal_table **table);

/* ---- launch_pmix.c */
int pmix_asks(void); /* a PMIx launcher started this process */
int pmix_begin(uint32_t *rank, uint32_t *ranks, int *one_host);
/* An id from rank 0 to all. */
int pmix_spread(uint32_t number, int is_root, peal_id *id);
void pmix_end(void);

#endif
