/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verifier's own parts: findings, expressions, clocks, cells. See
 * docs/plan-format.md, "What is proven".
 */
#ifndef PEAL_PLAN_VERIFY_H
#define PEAL_PLAN_VERIFY_H

#include "plan.h"

#define VERIFY_FINDINGS_MAX 32u
#define VERIFY_CALLS_MAX 3u
/* Three calls in a row are executed as one up to this many ranks; beyond it, that every entry
 * precedes every return carries the proof alone. */
#define VERIFY_CHAIN_RANKS 16u
/* One by one, trip counts of deep regions would take the square of their depth. */
#define VERIFY_EVERY_TRIPS 64u

/* Where findings go, and how many there were. */
struct verify_out {
    uint32_t row;
    peal_finding_fn found;
    void *user;
    uint32_t findings;
    char first[192]; /* finding, for who asks for no list */
    peal_finding last;
};
void peal_verify_find(struct verify_out *out, const char *kind, int64_t rank, int64_t lane,
                      int64_t step, const char *format, ...) PEAL_PRINTF(6, 7);

/* ---- semaphores: one state for each (producer, consumer, index) that a plan uses */
struct verify_sems {
    peal_ctx *ctx;
    uint32_t count;
    uint32_t capacity;
    struct verify_sem_key {
        uint32_t producer;
        uint32_t consumer;
        uint32_t index;
        /* the one lane on each side, and how often it runs in pre, body and post */
        uint32_t signal_lane;
        uint32_t wait_lane;
        uint32_t signals[3];
        uint32_t waits[3];
        /* The most signals that a wait of pre needs, and a wait of the first trip beyond those
         * that pre's waits took; and which steps these are. */
        uint32_t needs[2];
        uint32_t needs_at[2];
        uint8_t engine;
        uint32_t tells; /* of the signals, and learns of the waits */
        uint32_t learns;
    } * keys;
    uint32_t *buckets; /* open addressing, 1 + index */
    uint32_t bucket_count;
    uint32_t **of_step; /* [rank][step] -> index of its semaphore */
    uint32_t nranks;
    const struct peal_plan *plan;
};
peal_status peal_verify_sems_build(struct verify_sems *sems, const struct peal_plan *plan,
                                   struct verify_out *out);
void peal_verify_sems_free(struct verify_sems *sems);

/* Capability and bounds of every step; no execution. */
peal_status peal_verify_check(const struct peal_plan *plan, struct verify_out *out);
/* The most trips that have to be executed: so many prove any number. */
uint32_t peal_verify_trips(const struct peal_plan *plan);
/* verify_work.c: LIMIT, with the worst plan's place: a small file that takes long to be proven. */
peal_status peal_verify_affordable(const peal_table *table, peal_diag *diag);
/* 1: b is executed like a, step for step, so that a's proof is b's, but for what peal_verify_check
 * looks at. trips: peal_verify_trips of each. */
int peal_verify_covers(const struct peal_plan *a, const struct peal_plan *b, uint32_t trips_a,
                       uint32_t trips_b);
/* 1: both are asked for the same, whatever their chunks. */
int peal_verify_same_meaning(const struct peal_plan *a, const struct peal_plan *b);
struct verify_values;
/* A tree of additions: of term t, from 1, terms[t - 1]; VALUE_LEAF | rank; VALUE_NONE. */
struct verify_tree {
    uint32_t root; /* VALUE_NONE: none has been taken */
    uint32_t capacity;
    struct verify_term {
        uint32_t a; /* of an earlier term */
        uint32_t b;
        uint32_t rounded;
        uint64_t shape; /* when it was asked for last */
    } * terms;
};
/* Of a value before it was made final. */
peal_status peal_verify_tree_take(struct verify_tree *tree, const struct verify_values *values,
                                  uint32_t value);
void peal_verify_tree_free(peal_ctx *ctx, struct verify_tree *tree);
/* The digest of the tree of ranks counted from `first`. */
uint64_t peal_verify_tree_shape(struct verify_tree *tree, uint32_t first);

/* What the order of a system is made of, and makes. Both may be NULL. */
struct verify_orders {
    const uint64_t *leaf;     /* digests of what each rank contributes */
    struct verify_tree *tree; /* gets that of the first result */
};
struct verify_past;
/* Proves the steps of a plan by executing them, for up to `trips` trips. orders may be NULL; past,
 * too: then no part is looked up there, nor kept. */
peal_status peal_verify_schedule(const struct peal_plan *plan, uint32_t trips,
                                 const struct verify_orders *orders, struct verify_past *past,
                                 struct verify_out *out, struct plan_proof *proof);

/* ---- expressions: which contributions a value holds, in which tree, and where it is rounded */
#define VALUE_NONE 0u
#define VALUE_LEAF 0x80000000u /* | leaf index */

struct verify_values {
    peal_ctx *ctx;
    uint32_t nranks;
    uint32_t cells; /* (chunk, tile) pairs; a leaf is (call, rank, cell) */
    uint32_t words; /* of a contribution set */
    uint32_t count;
    uint32_t capacity;
    struct verify_node {
        uint32_t a; /* a <= b; b == VALUE_NONE: a made final or packed */
        uint32_t b;
        uint32_t cell;
        uint32_t ranks;   /* contributions */
        uint32_t rounded; /* 0: on its way within a step, in the type it accumulates in;
                             1 + PLAN_WIRE_*: to that format; from 9 on: a fold of a switch */
        uint32_t wires;   /* most wire roundings that a contribution has passed */
        uint8_t final;
        uint8_t blocked; /* some rounding depends on more than the terms: on the elements beside,
                            or on the order that a switch took */
        uint64_t shape;  /* of the tree above ranks, whatever the cell and call */
    } * nodes;
    uint64_t *sets; /* words for each node */
    uint32_t sets_capacity;
    uint32_t *buckets;
    uint32_t bucket_count;
    const uint64_t *leaf_shape; /* of each rank, in the place of its own; NULL */
};
peal_status peal_verify_values_init(struct verify_values *values, peal_ctx *ctx, uint32_t nranks,
                                    uint32_t cells);
void peal_verify_values_free(struct verify_values *values);
uint32_t peal_verify_leaf(const struct verify_values *values, uint32_t call, uint32_t rank,
                          uint32_t cell);
uint32_t peal_verify_leaf_rank(const struct verify_values *values, uint32_t leaf);
uint32_t peal_verify_value_cell(const struct verify_values *values, uint32_t value);
uint32_t peal_verify_value_call(const struct verify_values *values, uint32_t value);
uint32_t peal_verify_value_ranks(const struct verify_values *values, uint32_t value);
/* A digest of the tree in which ranks are added up and of where it rounds, up to commutativity;
 * never 0. */
uint64_t peal_verify_value_shape(const struct verify_values *values, uint32_t value);
/* That of a rank's own contribution, and of a sum (b 0: of one term). */
uint64_t peal_verify_rank_shape(uint32_t rank);
uint64_t peal_verify_sum_shape(uint64_t a, uint64_t b, uint32_t rounded);
int peal_verify_value_final(const struct verify_values *values, uint32_t value);
int peal_verify_value_has(const struct verify_values *values, uint32_t value, uint32_t rank);
/* a + b, rounded to the element's type or not. *twice gets a rank that both hold, or nranks. */
peal_status peal_verify_value_add(struct verify_values *values, uint32_t a, uint32_t b, int rounded,
                                  uint32_t *sum, uint32_t *twice);
peal_status peal_verify_value_finish(struct verify_values *values, uint32_t a, uint32_t *final);
/* The sum a as one fold of a switch made it: in an order that no other fold has, so that it is
 * equal to no other sum of the same terms. serial: of the fold. */
peal_status peal_verify_value_unorder(struct verify_values *values, uint32_t a, uint32_t serial,
                                      uint32_t *sum);
/* a rounded to a wire format; final if a is. */
peal_status peal_verify_value_pack(struct verify_values *values, uint32_t a, uint8_t wire,
                                   uint32_t *packed);
/* The most wire roundings that a contribution to the value has passed. */
uint32_t peal_verify_value_wires(const struct verify_values *values, uint32_t value);
/* 1: a rounding depends on what lies beside the element, as those by blocks do, or on the order in
 * which a switch folded. */
int peal_verify_value_blocked(const struct verify_values *values, uint32_t value);
/* The value before all wire roundings behind its last sum. */
uint32_t peal_verify_value_unpacked(const struct verify_values *values, uint32_t value);

/* ---- clocks: immutable once shared */
#define VERIFY_NEWS 8u
struct verify_page;
struct verify_memo;
struct verify_news {
    uint32_t component;
    uint32_t time;
};
struct verify_clock {
    uint32_t refs;
    uint32_t flat;            /* so many times, without a tree; 0: a tree */
    struct verify_page *root; /* NULL: all zero */
    uint32_t count;
    struct verify_news news[VERIFY_NEWS]; /* by component; what the tree may not know yet */
    uint32_t time[];
};
struct verify_clocks {
    peal_ctx *ctx;
    uint32_t components; /* fixed before the first clock learns anything */
    uint32_t pages;      /* alive */
    uint32_t bucket_count;
    uint32_t memo_count;
    uint64_t serials;
    struct verify_page **buckets; /* by content */
    struct verify_memo *memo;     /* joins made before */
    struct verify_page *free_pages;
};
struct verify_clock *peal_verify_clock_new(struct verify_clocks *clocks);
void peal_verify_clock_drop(struct verify_clocks *clocks, struct verify_clock *clock);
/* Once all clocks are dropped. */
void peal_verify_clocks_free(struct verify_clocks *clocks);
uint32_t peal_verify_clock_time(const struct verify_clock *clock, uint32_t component);
/* `other` says the same afterwards; it may be held in another way. */
peal_status peal_verify_clock_join(struct verify_clocks *clocks, struct verify_clock **clock,
                                   struct verify_clock *other);
peal_status peal_verify_clock_set(struct verify_clocks *clocks, struct verify_clock **clock,
                                  uint32_t component, uint32_t time);
/* 1: the clock knows everything that the other knows. */
peal_status peal_verify_clock_covers(struct verify_clocks *clocks, struct verify_clock *clock,
                                     struct verify_clock *other, int *covers);

/* ---- parts of a plan that share nothing */
struct verify_parts {
    peal_ctx *ctx;
    uint32_t count;
    uint32_t lanes, chunks, regions;
    uint32_t *of_lane; /* lanes numbered rank by rank */
    uint32_t *of_chunk;
    uint32_t *of_region;
    /* Set by peal_verify_parts_compare. */
    uint32_t *like;       /* each part's first that is equal but for names, or itself */
    uint32_t *lanes_in;   /* of each part; 0: chunks or regions that nobody names */
    uint32_t *chunks_in;  /* of each part */
    uint32_t *first;      /* of each part's lanes; one more than parts */
    uint32_t *lane;       /* by part, then numbered rank by rank */
    uint32_t *rank_of;    /* of each lane */
    uint32_t *within;     /* and its number there */
    uint32_t *nth_chunk;  /* of its part */
    uint32_t *nth_region; /* of its part */
};
#define VERIFY_ALL_PARTS UINT32_MAX
#define VERIFY_KINDS_MAX 64u /* of parts that others are compared with */
peal_status peal_verify_parts_make(struct verify_parts *parts, const struct peal_plan *plan,
                                   const struct verify_sems *sems);
void peal_verify_parts_free(struct verify_parts *parts);

/* A plan taken apart. */
struct verify_plan {
    const struct peal_plan *plan;
    struct verify_sems sems;
    struct verify_parts parts;
};
/* Finds parts that are equal. */
peal_status peal_verify_parts_compare(struct verify_plan *taken);

/* Two plans, or one twice, whose parts are compared. */
struct verify_alike {
    const struct verify_plan *one;
    const struct verify_plan *two;
    /* Of each semaphore of one the other's, and back, below the number of the comparison that found
     * it: what earlier ones found is not wiped out each time. */
    uint64_t *sem_there;
    uint64_t *sem_here;
    uint32_t number;
};
peal_status peal_verify_alike_open(struct verify_alike *alike, const struct verify_plan *one,
                                   const struct verify_plan *two);
void peal_verify_alike_close(struct verify_alike *alike);
/* 1: part x of one is part y of the other but for names, so that what is executed of one is
 * executed of the other. */
int peal_verify_alike_parts(struct verify_alike *alike, uint32_t x, uint32_t y);

/* One symbolic execution: `calls` calls of `trips` trips each, in place when alias is 1, of one
 * part of the plan or of all. */
struct verify_run {
    const struct peal_plan *plan;
    const struct verify_sems *sems;
    const struct verify_parts *parts;
    uint32_t part;
    int alias;
    const struct verify_orders *orders;
    int order; /* 1: clocks are kept and races looked for; 0: values and deadlock only */
    uint32_t trips;
    uint32_t calls;
    /* Results. unentered: a rank that may return before rank unentered_by has entered the call;
     * UINT32_MAX: none, every entry precedes every return. */
    uint64_t steps;
    uint32_t unentered;
    uint32_t unentered_by;
    uint64_t shape; /* of all reduced values so far, VERIFY_SHAPES_DIFFER, or 0: none seen */
    uint32_t wires; /* most wire roundings of a result */
};
#define VERIFY_SHAPES_DIFFER 1u
peal_status peal_verify_execute(struct verify_run *run, struct verify_out *out);

/* ---- what has been executed of earlier plans of a table, part by part */
struct verify_past {
    peal_ctx *ctx;
    uint32_t nplans;
    uint32_t plans_room;
    struct verify_plan *plans; /* whose parts are named below */
    uint32_t nparts;
    uint32_t parts_room;
    struct verify_past_part {
        uint32_t plan;
        uint32_t part;
    } * parts;
    uint32_t nruns;
    uint32_t runs_room;
    struct verify_past_run {
        uint32_t part; /* of the list above */
        uint32_t trips;
        int alias;
        uint32_t unentered; /* results: as in verify_run, of this part alone */
        uint32_t unentered_by;
        uint64_t shape;
        uint32_t wires;
    } * runs;
};
/* twin[p]: 1 + the past part that part p of the plan is, of those that are like no other of its
 * plan; 0: none. Room for parts.count. */
peal_status peal_verify_past_find(const struct verify_past *past, const struct verify_plan *taken,
                                  uint32_t *twin);
/* The part's run, if it has been executed. */
const struct verify_past_run *peal_verify_past_run(const struct verify_past *past, uint32_t part,
                                                   uint32_t trips, int alias);
/* Adds a part of the plan that is kept next (*at: its number), and a run of a part. LIMIT: there
 * are enough. */
peal_status peal_verify_past_part(struct verify_past *past, uint32_t part, uint32_t *at);
peal_status peal_verify_past_add(struct verify_past *past, const struct verify_past_run *run);
/* Takes the plan over if there are parts of it, and *taken is empty then. taken->plan has to
 * outlive the past. */
void peal_verify_past_keep(struct verify_past *past, struct verify_plan *taken);
void peal_verify_past_free(struct verify_past *past);
void peal_verify_plan_free(struct verify_plan *taken);

#endif
