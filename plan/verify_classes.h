/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof by classes: what is inside a host and what is between hosts, proven apart. The theorem
 * is in docs/plan-format.md, "By classes"; the words used here are its words.
 */
#ifndef PEAL_PLAN_VERIFY_CLASSES_H
#define PEAL_PLAN_VERIFY_CLASSES_H

#include "source.h"
#include "verify.h"

#define CLASSES_NONE UINT32_MAX
#define CLASSES_INNER UINT32_MAX                /* of a lane: it stays inside the block */
#define CLASSES_ORDER_OPEN VERIFY_SHAPES_DIFFER /* no rail has been proven yet */
#define CLASSES_SEMS 65536u                     /* indices a step can name */

/* A chunk's tile passes behind so many others signals of the trip. */
struct split_turn {
    uint32_t chunk;
    uint32_t turn;
};

/* What one rank has of a rail: the lanes of one group, which share chunks and regions. */
struct split_group {
    uint32_t over;  /* the self semaphore that hands the tiles over to it */
    uint32_t back;  /* and the one by which it hands them back */
    uint32_t overs; /* signals of each, in a trip */
    uint32_t backs;
    uint32_t over_lane; /* who waits on them */
    uint32_t back_lane;
    uint32_t first;  /* in the split's lists */
    uint32_t chunks; /* that it names */
    uint32_t rail;   /* of the plan */
};

/* One rank's lanes: inner, or of which group. */
struct split {
    uint32_t lanes;
    uint32_t group[PLAN_LANES_MAX];
    uint32_t groups;
    struct split_group of[PLAN_LANES_MAX];
    /* The chunks, group by group, in the order in which they are handed over, and back. */
    uint32_t turns;
    uint32_t over_capacity;
    uint32_t back_capacity;
    struct split_turn *over;
    struct split_turn *back;
};

/* The programs of one block: consecutive ranks of one host. */
struct block {
    uint32_t first;
    uint32_t count;
    uint32_t capacity;
    uint32_t splits_capacity;
    struct plan_rank *program; /* count of them, and perhaps the first of the next block */
    struct split *split;
    uint32_t ahead; /* 1: program[count] has been read already */
};

/* The lanes between blocks that carry the same chunks: one rank of each block. */
struct rail {
    uint32_t chunks;
    uint8_t *region_used;  /* for each region */
    uint8_t *sem_used;     /* for each semaphore index */
    uint32_t *region_name; /* in the rail's own system, where used */
    uint32_t *sem_name;
    uint32_t regions;
    int proven;
    int differs; /* from the rail that is being proven */
};

/* A tile passes from inner lanes to a rail and back, at a rank of the block. */
struct gate {
    uint32_t rank; /* counted from the block's first */
    uint32_t rail;
    uint32_t over;
    uint32_t back;
    uint32_t overs;
    uint32_t backs;
    uint32_t first; /* in the lists of the class */
    uint32_t chunks;
};

/* A block that was proven, and what it looks like: others may be equal to it. */
struct block_class {
    struct peal_plan *plan; /* its inner lanes */
    struct gate *gates;
    uint32_t ngates;
    uint32_t gates_capacity;
    uint32_t turns;
    uint32_t over_capacity;
    uint32_t back_capacity;
    struct split_turn *over;
    struct split_turn *back;
    struct verify_tree tree; /* in which every element is added up before it is handed over */
};

struct classes {
    const struct plan_source *source;
    const struct peal_plan *head;
    peal_ctx *ctx;
    struct verify_out *out;
    peal_diag *diag;
    struct plan_proof proof;
    char reason[256]; /* why the plan does not fit */
    uint32_t trips;
    uint64_t tile_bytes;
    uint32_t *signals_to; /* work space of the check of a rank */
    uint64_t *digest;     /* of each rank's program, once it has been read */
    uint32_t *block_of;   /* for each rank */
    uint32_t nblocks;
    struct block block;
    uint32_t nrails;
    uint32_t rails_capacity;
    struct rail *rails;
    uint32_t *rail_of;    /* for each chunk; CLASSES_NONE */
    uint32_t *chunk_name; /* of each chunk in its rail's own system */
    uint32_t *member;     /* [block][rail] -> rank */
    uint32_t member_capacity;
    uint32_t *chunk_lane; /* work space of a split: for each chunk, 1 + the lane that named it */
    uint32_t *chunk_mark; /* and 1 if it was handed over, 2 if with the last */
    uint32_t *region_lane;
    uint32_t nclasses;
    uint32_t classes_capacity;
    struct block_class *classes;
    /* Digests of the orders of all blocks, and of the rails that are proven so far; 0: one of them
     * has no one order. */
    uint64_t *block_order;
    uint32_t block_orders_capacity;
    uint64_t order;
};

/* As peal_plan_verify_classes, but a plan that does not fit is ERR_UNSUPPORTED of any size. */
peal_status peal_verify_by_classes(const struct plan_source *source, uint32_t row,
                                   peal_finding_fn found, void *user, struct plan_proof *proof,
                                   peal_diag *diag);

/* The plan does not fit this proof. Returns ERR_UNSUPPORTED. */
peal_status peal_classes_refuse(struct classes *c, const char *format, ...) PEAL_PRINTF(2, 3);

/* Splits the lanes of a rank of the block [first, first + count). */
peal_status peal_classes_split(struct classes *c, uint32_t rank, uint32_t first, uint32_t count,
                               const struct plan_rank *program, struct split *split);
/* Reads the block that begins at c->block.first; each program is checked by itself when it is
 * read for the first time. Finds splits. */
peal_status peal_classes_read_block(struct classes *c, uint32_t first);
void peal_classes_free_block(struct classes *c);
/* Marks the first `count` chunks that groups name: finds rails, and each block's member of each. */
peal_status peal_classes_find_rails(struct classes *c);
peal_status peal_classes_name_rails(struct classes *c);
/* Proves the block's inner lanes, unless an equal block was proven. */
peal_status peal_classes_prove_block(struct classes *c);
void peal_classes_free_class(peal_ctx *ctx, struct block_class *made);
/* Proves one rail, and marks the others that are equal to it. */
peal_status peal_classes_prove_rail(struct classes *c, uint32_t rail);

/* ---- making programs */
peal_status peal_reduced_lane(struct peal_plan *plan, uint32_t rank);
peal_status peal_reduced_step(struct peal_plan *plan, uint32_t rank, const struct plan_step *step,
                              const struct plan_operand *operands);
peal_status peal_reduced_wait(struct peal_plan *plan, uint32_t rank, uint32_t peer, uint32_t sem);
peal_status peal_reduced_signal(struct peal_plan *plan, uint32_t rank, uint32_t peer, uint32_t sem);
/* Steps on a rank's own tile: its input becomes its output; its output is marked final; its output
 * is written anew with what it holds; it is read, into a sink: a region that was added for it.
 * name: what the rank's steps call it. */
peal_status peal_reduced_store(struct peal_plan *plan, uint32_t rank, uint32_t name,
                               uint32_t chunk);
peal_status peal_reduced_finish(struct peal_plan *plan, uint32_t rank, uint32_t chunk);
peal_status peal_reduced_touch(struct peal_plan *plan, uint32_t rank, uint32_t chunk);
peal_status peal_reduced_add_sinks(struct peal_plan *plan, uint32_t sinks);
peal_status peal_reduced_look(struct peal_plan *plan, uint32_t rank, uint32_t name, uint32_t chunk,
                              uint32_t region);
/* Every slot that another rank reaches is named by its owner too, so that who uses a region of a
 * rank is told by that rank's own steps. */
int peal_reduced_owned(const struct peal_plan *plan, uint32_t *rank_out);
int peal_reduced_equal(const struct plan_rank *a, const struct plan_rank *b);
/* Executes; findings are told with `prefix` in front of them, and of no lane. members[r * stride]
 * is the rank that is meant by r. c->proof.order becomes the system's. */
peal_status peal_reduced_prove(struct classes *c, const struct peal_plan *plan, const char *prefix,
                               const uint32_t *members, uint32_t stride,
                               const struct verify_orders *orders);

/* Capability and bounds of one rank's steps. signals_to: nranks zeroes, and again afterwards. */
void peal_verify_check_slice(const struct peal_plan *head, uint64_t tile_bytes, uint32_t rank,
                             const struct plan_slice *slice, uint32_t *signals_to,
                             struct verify_out *out);

#endif
