/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules written down as steps on chunks: what a script says, what it means (script_check.c),
 * and the lanes that it becomes (script_lower.c and the files after it).
 */
#ifndef PEAL_COMPILER_SCRIPT_H
#define PEAL_COMPILER_SCRIPT_H

#include "compiler.h"

#define SCRIPT_RANKS_MAX 256u
#define SCRIPT_STAGES_MAX PLAN_LANES_MAX
#define SCRIPT_STEPS_MAX (1u << 21)
#define SCRIPT_NAMES_MAX (1u << 23) /* ranks named by all steps together */
#define NO_INDEX UINT32_MAX

struct script_step {
    uint8_t reduces;
    uint8_t gathers;
    uint16_t stage;
    uint32_t chunk;
    uint32_t line;
    uint32_t wave;  /* set by peal_script_sort */
    uint32_t first; /* of its ranks: nfrom, then nto */
    uint16_t nfrom;
    uint16_t nto;
};

struct peal_schedule {
    peal_ctx *ctx;
    char name[64];
    char path[256];
    struct peal_plan *head; /* collective, ranks, chunks: who holds what */
    uint32_t stages;
    uint32_t nsteps, steps_capacity;
    uint32_t nranks, ranks_capacity;
    struct script_step *steps;
    uint32_t *ranks;
};
peal_status peal_script_copy(const peal_schedule *script, peal_schedule **copy_out);
/* Puts the steps into waves (script_waves.c). What they do stays the same. */
peal_status peal_script_sort(peal_schedule *script);
/* A digest of all that a schedule follows from. */
uint64_t peal_script_digest(const peal_schedule *script);

/* Is the rank's value of the chunk looked at again, once a step has been? By steps of which stage,
 * or as the result. */
#define SCRIPT_DEAD UINT16_MAX
#define SCRIPT_RESULT (UINT16_MAX - 1u)
/* For each name of a rank in the steps; free with nranks elements. */
peal_status peal_script_lives(const peal_schedule *script, uint16_t **lives_out);

/* Sets of ranks whose input a value holds, for each (rank, chunk). */
struct script_sets {
    peal_ctx *ctx;
    uint32_t ranks, chunks, words;
    uint64_t *bits;
};
peal_status peal_script_sets_init(struct script_sets *sets, const peal_schedule *script);
void peal_script_sets_free(struct script_sets *sets);
uint64_t *peal_script_set(const struct script_sets *sets, uint32_t rank, uint32_t chunk);
/* What the step makes of them. */
void peal_script_sets_step(struct script_sets *sets, const peal_schedule *script,
                           const struct script_step *step);
/* The value has all that the collective wants of the chunk. */
int peal_script_complete(const struct script_sets *sets, const peal_schedule *script, uint32_t rank,
                         uint32_t chunk);

/* ---- lanes --------------------------------------------------------------------------------- */

enum script_place { SCRIPT_IN, SCRIPT_OUT, SCRIPT_SLOT, SCRIPT_STAGING };

struct script_operand {
    uint8_t place;
    uint32_t rank;
    uint32_t pipe; /* slot: which way it came, and in which slot */
    uint32_t slot;
};

enum script_kind {
    SCRIPT_MOVE,  /* by the lane itself: done when it goes on */
    SCRIPT_PUSH,  /* by the hop's engine, and a signal behind it */
    SCRIPT_WAIT,  /* for a signal */
    SCRIPT_CLAIM, /* a slot of a pipe, for its nth push */
    SCRIPT_FREE,  /* a push has read its source */
    SCRIPT_SETTLE /* the staging slot of the next push may be written */
};

struct script_item {
    uint8_t kind;
    uint8_t final;
    uint16_t nsrc, ndst;
    uint32_t chunk;
    uint32_t operand; /* first of nsrc + ndst */
    uint32_t what;    /* wait: signal; push, free: push; claim: pipe */
    uint32_t nth;     /* claim: slot */
};

/* Semaphores between two ranks are told apart by this and by the stages of both lanes. */
enum script_sem { SEM_PLAIN, SEM_PUSHED, SEM_CREDIT, SEM_ENTER, SEM_LEAVE, SEM_KINDS };
#define SEM_STREAMS 3u /* of them are counted within the body */

struct script_signal {
    uint32_t from, to; /* lanes */
    uint32_t after;    /* the item of `from` behind which it is raised */
    uint32_t index;    /* among those of its semaphore, once all are known */
    uint32_t next;     /* older, of the same two lanes */
    uint32_t chain;    /* behind the same item */
    uint32_t push;     /* that it is raised by, or NO_INDEX */
    uint8_t sem;
};

struct script_push {
    uint32_t lane, at; /* the item */
    uint32_t to;       /* the lane that hears of it */
    uint32_t signal;
    uint32_t heard; /* item of `to` behind which it is known to have arrived; 0 */
    uint32_t over;  /* item of `lane` likewise, since its event is taken again */
    uint32_t freed; /* item behind which its source is free; 0 */
    uint32_t event; /* of its lane */
};

/* Slots in which one lane's pushes to another lie, in order. */
struct script_pipe {
    uint32_t from, to; /* lanes */
    uint32_t pushes;
    uint32_t width;
    int credits;    /* 1: slots are taken again within a trip */
    uint32_t base;  /* its first slot, of the rank it leads to */
    uint32_t first; /* of its places in the list of all slots; the rest by next */
    uint32_t last;
};

struct script_slot { /* one push into a pipe */
    uint32_t next;
    uint32_t number;   /* among those of the pipe */
    uint32_t blocker;  /* whose memory it takes: an earlier one of the trip, or */
    uint32_t trips;    /* of so many trips before; where there are tiles */
    uint32_t credit;   /* the signal that it is free again */
    uint32_t taken_at; /* when it was claimed, in the order of all items */
    uint32_t free_at;  /* when it was read for the last time; 0: never */
    uint32_t free_item;
};
#define SCRIPT_WINDOW 16u /* pushes of a pipe under way, where nothing asks for more */

struct script_lane {
    uint32_t nitems, items_capacity;
    struct script_item *items;
    uint32_t *behind; /* first signal behind each item, once all are known; the rest by chain */
    uint16_t *clocks; /* what the lane knows behind each item: lanes' items */
    uint32_t clocks_capacity;
    uint32_t known;  /* lanes that its clock has */
    uint16_t *clock; /* now */
    uint32_t pushes; /* asynchronous ones */
    uint32_t recent[PLAN_EVENTS_MAX];
};

#define SCRIPT_ENTERED 1u /* a lane's item numbers begin behind this */

struct script_program {
    const struct planner *planner;
    peal_ctx *ctx;
    const peal_schedule *script;
    uint32_t n, stages, nlanes; /* lane = rank * stages + stage */
    /* Stages that have chunks in common know of each other; a lane's clock has the lanes of these,
     * for each rank. */
    uint32_t family[SCRIPT_STAGES_MAX];    /* the first of them */
    uint32_t place[SCRIPT_STAGES_MAX];     /* of a stage among them */
    uint32_t stages_of[SCRIPT_STAGES_MAX]; /* how many they are */
    struct script_lane *lanes;
    uint32_t in_flight;
    uint32_t nitems; /* of all lanes */
    uint64_t clock_bytes;
    uint32_t nsignals, signals_capacity;
    struct script_signal *signals;
    uint32_t npushes, pushes_capacity;
    struct script_push *pushes;
    uint32_t npipes, pipes_capacity;
    struct script_pipe *pipes;
    uint32_t nslots, slots_capacity;
    struct script_slot *slots;
    uint32_t noperands, operands_capacity;
    struct script_operand *operands;
    uint32_t *order; /* lane of each item, as they were made: a rising order of all */
    uint32_t order_capacity;
    uint32_t *pair_signal; /* [from][to]: the newest signal */
    uint32_t *pair_pipe;   /* [from][to] */
    uint8_t *enters;       /* [rank][lane]: told at the beginning */
    uint16_t *touched;     /* [lane][rank]: the last item that read memory of another rank */
    uint8_t *leaves;       /* [lane][rank]: told at the end */
    uint32_t *totals;      /* [from][to][SEM_STREAMS]: signals, once all are known */
    uint8_t barrier[SCRIPT_STAGES_MAX]; /* of a family: all meet at the end */
    int staging;                        /* 1: partial results leave from slots of their own */
    uint32_t width;                     /* slots of the rank with most */
    struct hop *hops;                   /* [from][to], as far as asked for */
    uint8_t *hop_known;
};
peal_status peal_script_lower(const struct planner *planner, struct script_program **program_out);
void peal_script_program_free(struct script_program *program);
const struct hop *peal_script_hop(struct script_program *p, uint32_t from, uint32_t to);

/* Within a program (script_order.c): */
static inline uint32_t peal_script_rank(const struct script_program *p, uint32_t lane)
{
    return lane / p->stages;
}
peal_status peal_script_item(struct script_program *p, uint32_t lane,
                             const struct script_item *item, uint32_t *at);
/* push: that raises it, or NO_INDEX. */
peal_status peal_script_signal(struct script_program *p, uint32_t from, uint32_t after, uint32_t to,
                               enum script_sem sem, uint32_t push);
uint32_t peal_script_now(const struct script_program *p, uint32_t lane); /* its last item */
/* What an access was: by a lane's item, or by a push of it; or the beginning of the call. */
struct script_event {
    uint32_t lane, at, push; /* push: NO_INDEX */
    uint32_t rank;           /* at == 0: that this rank has entered */
    int arrives; /* of a push: its end at the other side, else that its source is read */
};
/* Whatever it takes for the lane to go on behind the event. */
peal_status peal_script_behind(struct script_program *p, uint32_t lane,
                               const struct script_event *event);
int peal_script_knows(const struct script_program *p, uint32_t lane,
                      const struct script_event *event);
/* Waits for what nobody has waited for, and for everyone at the end. */
peal_status peal_script_finish(struct script_program *p);
/* The moves of all lanes (script_lower.c). */
peal_status peal_script_moves(struct script_program *p, const peal_schedule *script);
/* Slots of every pipe (script_slots.c). */
peal_status peal_script_place_slots(struct script_program *p);
void peal_script_prepare(struct build *b, const struct candidate *candidate);
void peal_script_emit(struct build *b, const struct candidate *candidate, uint32_t rank);
/* Semaphores that a channel takes; index of one of them. */
struct script_sems {
    uint32_t count;
    uint32_t rounds[SCRIPT_STAGES_MAX]; /* the first of those by which all meet at the end */
    uint16_t of[SEM_KINDS][SCRIPT_STAGES_MAX][SCRIPT_STAGES_MAX];
};
void peal_script_sems(const struct script_program *p, struct script_sems *sems);

/* ---- time -------------------------------------------------------------------------------------
 */
#define SCRIPT_POINTS 97u
/* Of the bytes of the message in one trip: us until the first tile is through, and between two. */
struct script_curve {
    double first[SCRIPT_POINTS];
    double interval[SCRIPT_POINTS];
};
struct script_times { /* with siblings, and without */
    struct script_curve curve[2];
};
double peal_script_curve_at(const double *points, double bytes);

/* What every item takes, by its hops alone; whatever the channels. */
struct script_clockwork;
peal_status peal_script_clockwork(struct planner *planner, struct script_program *program,
                                  struct script_clockwork **clockwork_out);
void peal_script_clockwork_free(struct script_clockwork *clockwork);
peal_status peal_script_time(const struct script_clockwork *clockwork, uint32_t channels,
                             struct script_times *times);

#endif
