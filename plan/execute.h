/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A symbolic execution of all ranks: what it is made of. verify_execute.c drives it; each other
 * execute_*.c is one thing that happens in it.
 */
#ifndef PEAL_PLAN_EXECUTE_H
#define PEAL_PLAN_EXECUTE_H

#include "verify.h"

#define NOBODY UINT32_MAX
#define TIME_NEVER 0u

/* What a signal or packet tells its reader: the sender's clock, the sender's own time, and, for
 * a signal behind a transfer, that this transfer is delivered. */
struct message {
    struct verify_clock *clock;
    uint32_t component;
    uint32_t time;
    uint32_t event;
    uint32_t event_time;
};

struct sem_state {
    struct message *queue; /* signals not yet consumed; queue[0] is number `popped` */
    uint32_t capacity;
    uint32_t head;
    uint32_t used;
    uint32_t signalled; /* over all calls */
    uint32_t waited;
    uint32_t sleeper; /* lane that waits for it, NOBODY */
};

struct event_state {
    uint32_t component; /* source free; delivered is component + 1; NOBODY: unused */
    uint32_t time;
    uint32_t step; /* of the lane, that defined it last */
    uint8_t engine;
    uint32_t target; /* the rank all its remote destinations belong to, NOBODY: several */
};

struct access {
    uint32_t component;
    uint32_t time;
    uint32_t next; /* reads: 1 + index in the pool; what is learned: 1 + number of the call */
};

struct cell {
    uint32_t value;
    struct access write;
    uint32_t reads;   /* 1 + index in the pool of accesses */
    uint32_t stamp;   /* packet: 1 + number of the call that wrote it */
    uint32_t taken;   /* packet: 1 + number of the call that read it */
    uint32_t sleeper; /* packet: lane that waits for it */
    struct message message;
};

/* A lane of the program, or, without code, the caller of a rank. */
struct lane_state {
    struct verify_clock *clock;
    const struct plan_lane *code;
    uint32_t rank;
    uint32_t lane;
    uint32_t component;
    uint32_t time;
    uint32_t pc; /* step of the lane */
    uint32_t trip;
    uint32_t queued;
    struct event_state event[PLAN_EVENTS_MAX];
};

struct rank_state {
    uint32_t caller; /* its lane; those of the program follow */
    uint32_t lanes;
    uint32_t running; /* lanes that have not ended the call */
    uint32_t call;
    uint32_t entry_time[VERIFY_CALLS_MAX]; /* of the caller's component, 0: not yet */
};

/* The cells of a rank's input or output: those of the blocks it holds, and of these the chunks of
 * the part. */
struct held_cells {
    struct plan_held held;
    uint32_t store;   /* index of the held_cells whose cells these are: in place, the larger */
    uint64_t first;   /* cell of its first tile */
    uint32_t *before; /* held.blocks + 1: chunks of the part before each of these blocks */
    uint32_t *listed; /* the blocks, where a list of pairs says which; else NULL */
};

struct machine {
    const struct peal_plan *plan;
    const struct verify_sems *sems;
    struct verify_run *run;
    struct verify_out *out;
    peal_ctx *ctx;
    int alias;
    int order;
    uint32_t trips;
    uint32_t calls;
    uint64_t steps;
    uint32_t folds; /* that switches made */
    struct verify_clocks clocks;
    struct verify_clock *entries; /* NULL: not needed yet */
    uint32_t entered;             /* ranks that have entered the first call */
    struct verify_values values;
    uint32_t nlanes;
    struct lane_state *lanes;
    struct rank_state *ranks;
    struct sem_state *sem;
    uint32_t *queue; /* runnable lanes */
    uint32_t queued;
    uint32_t chunks;         /* of the part */
    uint32_t *dense;         /* chunk -> its number in the part, NOBODY */
    uint32_t *chunk;         /* and back */
    uint32_t tiles;          /* chunks x trips */
    uint32_t per_block;      /* chunks of the plan in a block */
    uint32_t *of_block;      /* chunks of the part before each block; one more than blocks */
    uint64_t slots;          /* region slots of one rank and copy */
    uint32_t copies;         /* of them: the call's number tells which */
    struct held_cells *held; /* [rank][in, out] */
    uint64_t *slot_first;    /* cell of each rank's first slot */
    uint64_t ncells;
    uint64_t *region_slot; /* first slot of each region */
    struct cell *cells;
    struct access *pool;
    uint32_t pool_used;
    uint32_t pool_capacity;
    uint32_t pool_free;     /* 1 + index of a free access */
    struct access *learned; /* alltoallv: where the rank's learning of each other's count is */
    uint32_t *expected;     /* value of each tile on the first rank that returned, per call */
};

/* ---- clocks: what lanes know */

/* 1: the access is ordered before what the lane does now. */
static inline int peal_execute_knows(const struct machine *m, const struct lane_state *lane,
                                     const struct access *access)
{
    return !m->order || access->time == TIME_NEVER || access->component == lane->component ||
           peal_verify_clock_time(lane->clock, access->component) >= access->time;
}

/* The lane learns that the component has reached the time. */
static inline peal_status peal_execute_learn(struct machine *m, struct lane_state *lane,
                                             uint32_t component, uint32_t time)
{
    return m->order ? peal_verify_clock_set(&m->clocks, &lane->clock, component, time) : PEAL_OK;
}

/* ---- lanes (execute_lanes.c). A failed make is freed all the same, here and below. */
peal_status peal_execute_make_lanes(struct machine *m);
void peal_execute_free_lanes(struct machine *m);

/* ---- cells (execute_cells.c) */
peal_status peal_execute_make_cells(struct machine *m);
void peal_execute_free_cells(struct machine *m);
/* 1: the part is executed. */
int peal_execute_in_part(const struct machine *m, uint32_t part);
/* The i-th block that a buffer holds. */
uint32_t peal_execute_held_block(const struct held_cells *to, uint32_t i);
struct cell *peal_execute_user_cell(const struct machine *m, uint32_t rank, uint8_t buffer,
                                    uint32_t chunk, uint32_t trip);
/* In the lane's call and trip. */
struct cell *peal_execute_cell_of(const struct machine *m, const struct lane_state *lane,
                                  const struct plan_operand *operand);

/* ---- accesses (execute_access.c). `at`: the lane's step, for the finding of a race. */
const char *peal_execute_buffer_name(uint8_t buffer);
peal_status peal_execute_read(struct machine *m, struct lane_state *lane, uint32_t at,
                              const struct plan_operand *operand, struct cell *cell,
                              uint32_t component, uint32_t time);
void peal_execute_write(struct machine *m, struct lane_state *lane, uint32_t at,
                        const struct plan_operand *operand, struct cell *cell, uint32_t component,
                        uint32_t time, uint32_t value);

/* ---- messages (execute_signal.c) */
peal_status peal_execute_make_sems(struct machine *m);
void peal_execute_free_sems(struct machine *m);
/* All that the lane knows and has done; its clock is held by the message. */
struct message peal_execute_message(struct lane_state *lane);
peal_status peal_execute_hear(struct machine *m, struct lane_state *lane,
                              const struct message *message);
void peal_execute_wake(struct machine *m, uint32_t *sleeper);
peal_status peal_execute_signal(struct machine *m, struct lane_state *lane, uint32_t at,
                                const struct plan_step *step, uint32_t sem_index);
/* *passed: 1, or 0 when the lane sleeps until the signal comes. */
peal_status peal_execute_wait(struct machine *m, uint32_t self, const struct plan_step *step,
                              uint32_t sem_index, int *passed);
/* Where the rank has learned the producer's count. */
struct access *peal_execute_learned(const struct machine *m, uint32_t rank, uint32_t producer);

/* ---- data (execute_data.c) */
peal_status peal_execute_data(struct machine *m, uint32_t self, uint32_t at,
                              const struct plan_step *step, int *passed);
peal_status peal_execute_await(struct machine *m, struct lane_state *lane,
                               const struct plan_step *step);

/* ---- results (execute_result.c) and calls (execute_call.c) */
peal_status peal_execute_check_result(struct machine *m, uint32_t rank);
peal_status peal_execute_enter(struct machine *m, uint32_t rank);
peal_status peal_execute_leave(struct machine *m, uint32_t rank);

#endif
