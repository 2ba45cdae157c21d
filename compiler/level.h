/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hierarchical schedules. The ranks of a group are nested: innermost *units* (a host, a NUMA node,
 * a pair), and above them levels, each of which joins equally many units into a larger one. In
 * each innermost unit some ranks are *holders*, one for each shard of the message; the holders of
 * one shard in the units that a level joins are that level's *peers*. At level 0 the peers are
 * all ranks of the unit.
 *
 * A schedule is a sequence of *phases*, each at one level and among its peers:
 *   fold     partial sums go to the peer they are for (reduce-scatter), or to one peer (reduce);
 *   spread   what a peer has goes to the others (allgather), or from one peer (broadcast);
 *   double   recursive doubling of what each peer has;
 *   scatter  the root hands the shards of its message to the holders of its unit;
 *   gather   they hand them back.
 * A phase is a lane of its own, so that a lane's remote peers are of one level, and hands what it
 * has finished to the next one through a semaphore of the rank with itself.
 */
#ifndef PEAL_COMPILER_LEVEL_H
#define PEAL_COMPILER_LEVEL_H

#include "compiler.h"

#define LEVEL_MAX 5u          /* the ranks of a unit, and a level for each word */
#define LEVEL_LOCAL_MAX 64u   /* ranks of an innermost unit */
#define LEVEL_DIRECT_MAX 255u /* peers of a level that exchange directly: sources of one fold */
#define LEVEL_TREE_DEPTH 4u   /* tiles in flight on an edge of a tree with one root */
#define LEVEL_WINDOW 16u      /* cells and slots of a ring in flight */

struct level_peers {
    uint32_t n;
    uint32_t self;
    uint32_t *rank;  /* n */
    uint32_t *shard; /* n: which piece or shard is the peer's; NO_RANK none */
    uint32_t *sent;  /* n: pieces to it, and from it, so far in a trip */
    uint32_t *heard;
    uint32_t room;
};

struct level_layout {
    peal_ctx *ctx;
    uint32_t levels;
    uint32_t size[LEVEL_MAX];   /* [0]: most ranks of a unit; [k]: peers of level k */
    uint32_t stride[LEVEL_MAX]; /* [k]: units between two peers of level k */
    int inside[LEVEL_MAX];      /* 1: the peers are on one host */
    enum level_part part[LEVEL_MAX];
    /* A shard is cut into a piece for each peer of the levels with split set, `pieces` in all,
     * piece_stride between those of two peers. */
    int split[LEVEL_MAX];
    uint32_t pieces;
    uint32_t runs; /* of pieces: what all levels leave of a shard is cut into so many, which follow
                      each other, the last to turn */
    uint32_t piece_stride[LEVEL_MAX];
    int rails;  /* 1: blocks go by rail between their ranks and the root's unit */
    int blocks; /* 1: a piece is the block of the rank that holds it in the end */
    int whole;  /* 1: every rank's output is the message, and takes partial sums */
    uint32_t units;
    uint32_t shards;
    uint32_t ranks;
    uint32_t *first;                         /* units + 1: a unit's ranks in `member` */
    uint32_t *member;                        /* ranks, unit by unit */
    uint32_t *holder;                        /* units x shards */
    uint32_t *unit_of, *index_of, *shard_of; /* by rank; NO_RANK: holds no shard */
    size_t room;
    /* Scratch regions of a channel, counted from its first, and their widths; 0: none. */
    uint32_t regions;
    uint32_t inbox[LEVEL_MAX], inbox_width[LEVEL_MAX], inbox_depth[LEVEL_MAX];
    uint32_t cell[LEVEL_MAX], cell_width[LEVEL_MAX];
    uint32_t stage[LEVEL_MAX], stage_width[LEVEL_MAX];
    struct level_peers peers[LEVEL_MAX]; /* of the rank whose program is being made */
};

/* The layout of a candidate; *layout_out is NULL when the group does not have its levels in equal
 * parts. peal_level_layout_free. */
peal_status peal_level_layout(const struct planner *planner, const struct candidate *candidate,
                              struct level_layout **layout_out);
uint32_t peal_level_coordinate(const struct level_layout *layout, uint32_t unit, uint32_t level);
/* Distinct NICs of a host's ranks. */
uint32_t peal_level_nics(const struct group *group, uint32_t host);
/* The words that a candidate may go by when none are asked for: sets of bits; returns how many. */
uint32_t peal_level_choices(const struct planner *planner, uint32_t *masks);

/* ---- peers, places, orders (level_place.c) */

/* Room for so many peers. */
peal_status peal_level_peers_init(struct level_peers *peers, const struct level_layout *layout,
                                  uint32_t room);
uint32_t peal_level_most_peers(const struct level_layout *layout); /* of any level */
void peal_level_peers_free(struct level_peers *peers, const struct level_layout *layout);
/* The peers of a rank at a level, of which it must be a holder above level 0. */
void peal_level_peers(struct level_peers *peers, const struct level_layout *layout, uint32_t level,
                      uint32_t rank);

/* Where a peer is on the way to, or from, the peer `root`. */
struct level_place {
    uint32_t parent; /* peers; NO_RANK */
    uint32_t slot;   /* which of its parent's slots it fills */
    uint32_t kids;
    uint32_t kid[ROOTED_CHILDREN];
    uint32_t kid_slot[ROOTED_CHILDREN];
    uint32_t depth;
    int flat; /* 1: kids are all others, in the order of peal_level_kid */
};
/* single: one peer is everybody's root; tree: which of two trees it then is. */
struct level_way {
    enum level_part part;
    int single;
    int fed; /* single tree: the root feeds, or drains, both trees of the others */
    uint32_t tree;
    uint32_t n;
};
struct level_place peal_level_place(const struct level_way *way, uint32_t root, uint32_t self);
uint32_t peal_level_kid(const struct level_place *place, const struct level_way *way, uint32_t self,
                        uint32_t i);
uint32_t peal_level_kid_slot(const struct level_place *place, uint32_t i);
/* Nothing is sent or heard yet along the way, whose root, if it has but one, is `root`. */
void peal_level_unsent(struct level_peers *peers, const struct level_way *way, uint32_t root);
/* Slots of one rank that its kids fill, each of a window. */
uint32_t peal_level_slots(const struct level_way *way);
/* The root of a single tree that nothing else decides. */
uint32_t peal_level_tree_root(uint32_t n, uint32_t tree);
/* The i-th peer, of n, whose piece a peer turns to. Partial sums: its own last; results: first. */
uint32_t peal_level_turn(int folding, uint32_t n, uint32_t self, uint32_t i);

/* ---- programs (level_fold.c, level_spread.c, level_double.c, level_root.c, level_barrier.c,
 * level_rail.c) */

enum level_kind { LEVEL_FOLD, LEVEL_SPREAD, LEVEL_DOUBLE, LEVEL_SCATTER, LEVEL_GATHER };
struct level_phase {
    enum level_kind kind;
    uint32_t level;
    struct level_way way;
    uint32_t root; /* way.single: its peer */
};
#define LEVEL_PHASES (2 * LEVEL_MAX + 1)

/* Semaphores of a level and channel: between ranks, and of a rank with itself. */
enum {
    LEVEL_SEM_FOLD,
    LEVEL_SEM_CREDIT,
    LEVEL_SEM_SPREAD,
    LEVEL_SEM_ENTER,
    LEVEL_SEM_LEAVE,
    LEVEL_SEM_ROOT,
    LEVEL_SEMS
};
enum {
    LEVEL_SELF_FOLD,
    LEVEL_SELF_FREE,
    LEVEL_SELF_SPREAD,
    LEVEL_SELF_ENTER,
    LEVEL_SELF_LEAVE,
    LEVEL_SELF_DEPUTY
};

struct level_run {
    struct build *b;
    const struct level_layout *layout;
    peal_collective collective;
    uint32_t channels;
    uint32_t channel;
    int fine; /* 1: pieces are handed on one by one; 0: all of a trip at once */
    uint32_t unit;
    uint32_t shard;
    struct level_peers peers; /* of the present phase */
    uint32_t known;  /* bit by level: the layout has the peers, the same for all channels */
    uint32_t deputy; /* in the root's unit: who does there for the root's shard what holders do */
    uint32_t phases;
    struct level_phase phase[LEVEL_PHASES];
};
/* The phases of a rank, in order; the layout's `split` is as the candidate's. */
uint32_t peal_level_phases(const struct level_layout *layout, peal_collective collective,
                           uint32_t root, uint32_t tree, uint32_t rank, struct level_phase *phase);
/* In a broadcast or reduce the root's own links would carry the message twice: once between it and
 * the holders of its unit, and once for its own shard. So another holder, one after the other by
 * channel, does the latter. The peer, or NO_RANK. */
int peal_level_deputed(const struct level_layout *layout, const struct planner *planner);
uint32_t peal_level_deputy(const struct level_layout *layout, const struct planner *planner,
                           uint32_t unit, uint32_t channel);
uint32_t peal_level_sem(const struct level_run *run, uint32_t level, uint32_t which);
uint32_t peal_level_region(const struct level_run *run, uint32_t offset);
/* How many pieces of a shard there are for each piece of a phase's level. */
uint32_t peal_level_rounds(const struct level_layout *layout, uint32_t level);
/* The chunk of round q for the peer's piece. */
uint32_t peal_level_chunk(const struct level_run *run, const struct level_phase *phase, uint32_t q,
                          uint32_t peer);
/* The semaphore behind which the phase finds what the one before it has finished. */
uint32_t peal_level_ready(const struct level_run *run, const struct level_phase *phase);
const struct level_phase *peal_level_before(const struct level_run *run,
                                            const struct level_phase *phase);
const struct level_phase *peal_level_after(const struct level_run *run,
                                           const struct level_phase *phase);
void peal_level_fold(struct level_run *run, const struct level_phase *phase);
void peal_level_spread(struct level_run *run, const struct level_phase *phase);
void peal_level_double(struct level_run *run, const struct level_phase *phase);
void peal_level_scatter(struct level_run *run, const struct level_phase *phase);
void peal_level_gather(struct level_run *run, const struct level_phase *phase);
void peal_level_barrier(struct level_run *run, uint32_t rank);
void peal_level_rail(struct level_run *run);

/* ---- scratch (level_scratch.c) */

/* Roots of a phase; pieces that one of them finishes in a trip; slots between two peers. */
uint32_t peal_level_roots(const struct level_layout *layout, uint32_t level,
                          const struct level_way *way);
uint32_t peal_level_cells(const struct level_layout *layout, uint32_t level,
                          const struct level_way *way);
uint32_t peal_level_window(const struct level_layout *layout, uint32_t level,
                           const struct level_way *way);
/* Transfers of a lane under way: a piece to each of two peers, and several pieces, have each one.
 */
uint32_t peal_level_events(const struct level_layout *layout);
/* Sets the layout's regions. */
void peal_level_scratch(struct level_layout *layout, const struct planner *planner);

/* ---- cost (level_cost.c): adds the stages of all phases to the candidate */
peal_status peal_level_cost(struct planner *planner, const struct level_layout *layout,
                            struct candidate *candidate);

#endif
