/* SPDX-License-Identifier: Apache-2.0 */
/* peal run in three parts: what is asked for, the running, and the answer. */
#ifndef PEAL_CLI_RUN_H
#define PEAL_CLI_RUN_H

#include "run_options.h"

/* What the options list; the combinations are all of them with all. */
struct matrix {
    struct choice choice;
    uint64_t ranks[LIST_MAX];
    uint32_t algorithm[LIST_MAX];
    uint32_t dtype[LIST_MAX];
    uint32_t op[LIST_MAX];
    uint64_t size[LIST_MAX]; /* bytes, or elements */
    uint32_t nranks, nalgorithms, ndtypes, nops, nsizes;
    int elements;      /* sizes count elements */
    int out, in;       /* placements */
    int any_algorithm; /* "all": what cannot serve is left out */
};

struct record {
    uint32_t ranks;
    char algorithm[64];
    char detail[128];
    char id[33]; /* of the plan */
    struct job job;
    struct result result;
};

struct run {
    struct cli *cli;
    struct matrix matrix;
    struct crew crew; /* the options */
    struct job job;
    struct actions actions; /* of the ranks, or the table, under way */
    struct record *record;
    size_t records;
    size_t room;
    peal_counter *counter; /* of all tables, one behind the other */
    size_t counters;
    uint32_t engines;
    uint32_t stand_ins;
    struct output output;
};

struct jobs {
    struct job *list;
    uint32_t count;
    uint32_t room;
};

/* ---- run_matrix.c */
int run_read(struct cli *cli, struct run *run);
/* Every job of an action: sizes, types, operations, placements. */
void run_add_jobs(const struct run *run, const struct action *action, uint32_t ranks,
                  struct jobs *jobs);
/* The sizes of jobs from `first` on. */
void run_size_span(const struct jobs *jobs, uint32_t first, uint32_t ranks, peal_request *request);

/* ---- run_answer.c */
void run_print_line(const struct record *record, FILE *file);
/* In text or JSON, when there is one; gives code. */
int run_answer(const struct run *run, int code);

#endif
