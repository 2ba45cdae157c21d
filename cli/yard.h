/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that the ranks of a run share, besides their world. */
#ifndef PEAL_CLI_YARD_H
#define PEAL_CLI_YARD_H

#include "crew.h"

#include <semaphore.h>
#include <stdatomic.h>

struct yard {
    peal_world *world;
    uint32_t ranks;
    int far;       /* 1: this process has one rank, the others are elsewhere (yard_far.c) */
    uint32_t rank; /* then */
    int crowded;   /* more ranks than processors */
    atomic_uint arrived;
    atomic_uint generation;
    atomic_int stop;      /* somebody failed */
    atomic_uint left;     /* ranks that make no more calls */
    atomic_uint finished; /* jobs, for the progress line */
    atomic_uint failed;   /* 1 claims the next three */
    peal_status status;
    uint32_t failed_rank;
    peal_diag diag;
    atomic_uint iterations;  /* calls that come next, of a budget, decided by rank 0, */
    atomic_uint bursts;      /* and how often so many */
    atomic_uint first_wrong; /* 1 claims the result's `first` */
    atomic_ullong wrong;
    peal_comm_info info;
    sem_t ended; /* raised by each rank at its end */
    struct result *results;
    double *times;           /* [round][rank] of the job under way */
    atomic_uint *entered;    /* [rank] barriers that it has entered */
    uint64_t *digest;        /* [rank] of its output, where all ranks have to have one */
    peal_trace_event *trace; /* [rank][TRACE_EVENTS] */
    uint32_t *traced;        /* [rank]: how many */
    peal_counter *counters;  /* [row] */
    char *expected;          /* results of the job under way, one for each call of a round */
    size_t bytes;            /* of this mapping */
};

/* Where one call's buffers lie within a rank's own memory. */
#define YARD_GUARD 64u
#define YARD_SLOT_EXTRA 4096u
uint64_t yard_slot(uint64_t bytes); /* bytes that a buffer takes, with guards and alignment */

/* All arrive before any leaves; 0: somebody has failed. With `soon`, nobody waits long, and
 * nobody sleeps. */
int yard_meet(struct yard *yard, int soon);
void yard_fail(struct yard *yard, uint32_t rank, peal_status status, const peal_diag *diag);
/* A rank makes no more calls. After a failure it waits until that holds of all, whose calls may be
 * in its memory; not for long, as a rank may have died. */
void yard_leave(struct yard *yard);

/* ---- yard_far.c; nothing where ranks share the yard. 0: somebody has failed. */
int yard_meet_far(struct yard *yard);
/* Times and findings of a job. */
int yard_share(struct yard *yard, uint32_t job, uint32_t rounds);
int yard_share_iterations(struct yard *yard); /* and bursts: rank 0's */
int yard_share_digests(struct yard *yard);
/* What all have recorded, by rank 0's clock. */
int yard_share_traces(struct yard *yard);

struct yard *yard_make(const struct crew *crew);
void yard_unmake(struct yard *yard);

/* Makes core `index` modulo their number the only one of this thread. */
void yard_pin(uint32_t index);

#endif
