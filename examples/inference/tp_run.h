/* SPDX-License-Identifier: Apache-2.0 */
/* One generation by a number of ranks, each a thread of this process. */
#ifndef INFERENCE_TP_RUN_H
#define INFERENCE_TP_RUN_H

#include "tp_comm.h"
#include "tp_model.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PREFILL, DECODE, PHASES };

struct rank {
    struct run *run;
    uint32_t rank;
    struct model model;
    struct reducer reducer[PHASES];
    uint32_t *token; /* what goes into the next pass */
    uint64_t digest; /* of all logits, bit by bit */
};

struct run {
    struct shape shape;
    uint32_t ranks;
    const char *policies;
    int deterministic;
    const char *driver; /* of CUDA: a file, "" the system's; NULL: sums are made in host memory */
    /* out */
    struct phase phase[PHASES];
    double seconds[PHASES];
    double reduce_us[PHASES]; /* a call, of rank 0 */
    uint64_t allocations;     /* by peal in the loop, on all ranks */
    float lead;               /* the smallest of a chosen token over the next best */
    uint32_t *token;          /* [tokens][batch] */
    float *logits;            /* [tokens][batch][vocab], of rank 0 */
    char device[96];          /* of rank 0; "": none */
    int same_bits;            /* 1: all ranks have had the same logits */
    peal_status status;
    peal_diag diag;
    /* the ranks meet here */
    struct rank *rank;
    peal_cuda *cuda;
    pthread_barrier_t barrier;
    atomic_int failed;
};

/* fabric: of at least as many ranks; NULL: of this host. 0: it failed, and status and diag say why.
 * run_free either way. */
int run_all(struct run *run, const char *topology);
void run_free(struct run *run);

#endif
