/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a run: threads or forked processes in one world, which all do the same jobs in the
 * same order.
 */
#ifndef PEAL_CLI_CREW_H
#define PEAL_CLI_CREW_H

#include "action.h"
#include "elem.h"
#include "launch.h"

/* Of a call beside which its rank computes: who makes it go on. */
enum progress {
    PROGRESS_NONE,   /* there is none such */
    PROGRESS_THREAD, /* a thread of the comm */
    PROGRESS_TEST,   /* the rank, which asks after each piece of its work */
    PROGRESS_STREAM  /* on a GPU, its stream: the work is on another one */
};

struct job {
    struct action action;
    uint64_t count; /* elements of a block, as in the library's calls */
    peal_dtype dtype;
    peal_op op;
    int in_place;
    int check;
    int ragged;           /* alltoallv: blocks are filled by chance; else wholly */
    int shake;            /* buffers begin anywhere an element may */
    uint32_t warmup;      /* rounds that are not measured */
    uint32_t rounds;      /* measured */
    uint32_t calls;       /* back to back in a round, each with buffers of its own if checked */
    uint64_t budget_us;   /* not 0: then as many calls on the same buffers as fit, rounds times */
    uint32_t burst;       /* not 0: so many instead */
    int bounded;          /* 1: the budget holds, whatever that leaves of warmup and rounds */
    enum progress beside; /* crew_overlap.c; rounds are OVERLAP_TIMES each */
    peal_wire wire;       /* of the row that serves it: elements are rounded on their way, */
    uint32_t roundings;   /* at most so often */
};

struct wrong {
    uint32_t rank;
    uint64_t index;
    char what[16]; /* "element", "guard", "input", "entry" */
    char got[ELEM_TEXT];
    char wanted[ELEM_TEXT];
};

/* What is timed of a call and of work beside it, one after the other in each round. */
enum overlap_time {
    TIME_WORK,   /* the work alone */
    TIME_CALL,   /* the call alone */
    TIME_SERIAL, /* the work, then the call */
    TIME_BOTH,   /* the call started, the work, the call waited for */
    TIME_BESIDE, /* of that, the work */
    OVERLAP_TIMES
};

struct result {
    int done;
    double median_us; /* a call, by the slowest rank */
    double best_us;
    double mean_us;
    uint64_t calls;                   /* measured */
    uint64_t wrong;                   /* elements, over all ranks */
    double overlap_us[OVERLAP_TIMES]; /* medians, by the slowest rank */
    uint64_t work;                    /* floating-point operations of a rank beside a call */
    struct wrong first;
};

struct crew {
    struct cli *cli;
    peal_table *table;
    uint32_t ranks;
    const struct job *jobs;
    uint32_t njobs;
    uint64_t seed;
    uint64_t chaos;
    uint32_t timeout_ms;
    int procs;
    int registered;
    int pin;
    int random_delay;
    int gpu;                /* ranks are on GPUs; then: */
    int zero_sm;            /* calls hold no SM */
    const char *what;       /* of the progress line */
    const uint32_t *places; /* the core of each rank, if pinned; NULL: its number */
    const char *trace;      /* file for the timeline; NULL: none is kept */
    int watch;              /* 1: ranks that do not move are told of */
    struct launch *launch;  /* who has started this process */
    /* Launched: the world of which the crew is a part, and the part's ranks; NULL: none is there
     * yet, and all belong to it. */
    peal_world *within;
    const uint32_t *part;
    /* out */
    peal_counter *counters; /* of rank 0, by row of the table; NULL: not wanted */
    struct result *results; /* by job */
    peal_comm_info info;
};

/* Bursts that a size is measured in: short ones, that other work on the machine misses now and
 * then, while a call is short itself. */
uint32_t job_bursts(uint64_t bytes);
/* Of the message, as sizes are counted. */
uint64_t job_bytes(const struct job *job, uint32_t ranks);
uint64_t job_room(const struct job *job, uint32_t ranks); /* of the largest buffer of a rank */
/* Runs until the first job with something wrong. EXIT_YES says that all could run, not that the
 * results are right. */
int crew_run(struct crew *crew);
uint32_t crew_rows(const struct crew *crew); /* of its table */
/* 1: callers' buffers are such as other ranks do not reach (peal_request). */
int crew_private(const struct crew *crew);

/* ---- crew_watch.c */
struct yard;
/* A tenth of a second has passed. *still: how many of them nothing moved in. */
void crew_watch(const struct yard *yard, uint64_t *seen, uint32_t *still);
/* The same by a thread, beside a rank; NULL: there is none to be had. */
struct watcher;
struct watcher *crew_watch_begin(struct yard *yard);
void crew_watch_end(struct watcher *watcher); /* NULL is fine */

/* ---- crew_trace.c */
#define TRACE_EVENTS 65536u /* of a rank */
/* Writes what all ranks have left in the yard. */
int crew_trace(const struct crew *crew, const struct yard *yard);

/* ---- crew_rank.c: what one rank does */
void crew_rank(const struct crew *crew, struct yard *yard, uint32_t rank);

#endif
