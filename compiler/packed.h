/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives along packed spanning trees (pack.h), as chunks, seats and lanes.
 *
 * The message's blocks (one for each root) are cut into as many chunks as the root has trees, or
 * `pieces` times as many. A chunk that flows down starts at its root and is passed on along its
 * tree; one that flows up is folded on its way from the leaves to its root. Trees that are equal
 * count as one, with the sum of their multiplicities for a weight.
 */
#ifndef PEAL_COMPILER_PACKED_H
#define PEAL_COMPILER_PACKED_H

#include "compiler.h"
#include "pack.h"

enum { PACKED_DOWN, PACKED_UP, PACKED_WAYS };
#define PACKED_LEVELS_MAX 24u
#define PACKED_CHUNKS_MAX 4096u
#define PACKED_RANKS_MAX 64u

/* A rank's place in the tree of a chunk. */
struct seat {
    uint32_t parent;      /* NO_RANK: the root */
    uint32_t depth;       /* hops from the root */
    uint32_t first_child; /* into children */
    uint32_t children;
    uint32_t pushed; /* 1: another engine moves what goes to its parent, so that a fold leaves
                        through a stage */
};

/* What all pieces of one tree of each root have in common, in one direction. */
struct packed_way {
    uint32_t levels;   /* the deepest seat's depth; 0: the collective does not go this way */
    struct seat *seat; /* [(block x trees + tree) x ranks + rank] */
    uint32_t *child;
};

struct packed {
    peal_ctx *ctx;
    uint32_t n;
    uint32_t blocks;  /* roots */
    uint32_t root;    /* of the only block */
    uint32_t trees;   /* of a block, that differ from the next one either way */
    uint32_t *weight; /* [tree] */
    uint32_t weights; /* their sum */
    int weighted;     /* 1: they differ */
    int any_pushed;   /* 1: some seat's fold leaves through a stage */
    struct packed_way way[PACKED_WAYS];
    /* How chunks are dealt to channels: */
    uint32_t pieces;
    uint32_t channels;
    uint32_t *channel; /* of chunk [tree x pieces + piece] of each block */
    uint32_t *slot;    /* [chunk x ranks + rank]: the rank's first, of those of the channel */
    uint32_t width;    /* slots of a channel, of the rank that needs most */
    uint8_t *turn;   /* [(up depth - 1) x ranks x ranks + rank x ranks + parent]: how many parents a
                        rank has at the depth before this one, counted from the rank on */
    uint32_t *stage; /* [(channel x up levels + depth - 1) x ranks + rank]: a lane's first */
    uint32_t stages; /* stage slots of a channel, of the rank that needs most */
};

/* Trees and seats: forest[way] NULL: none. LIMIT: too many chunks, or too deep. */
peal_status peal_packed_seats(struct packed *packed, const struct planner *planner,
                              const struct pack_forest *const forest[PACKED_WAYS]);
/* Deals chunks to channels, and numbers slots. */
peal_status peal_packed_deal(struct packed *packed, uint32_t pieces, uint32_t channels);
void peal_packed_free(struct packed *packed);
uint32_t peal_packed_chunks(const struct packed *packed);
const struct seat *peal_packed_seat(const struct packed *packed, int way, uint32_t chunk,
                                    uint32_t rank);
const uint32_t *peal_packed_children(const struct packed *packed, int way, const struct seat *seat);
/* Which of its parent's slots the rank's contribution to a chunk goes to. */
uint32_t peal_packed_slot(const struct packed *packed, uint32_t chunk, uint32_t rank);
uint32_t peal_packed_channel(const struct packed *packed, uint32_t chunk);
/* The first stage slot of the rank's lane that folds at `depth`. */
uint32_t peal_packed_stage(const struct packed *packed, uint32_t channel, uint32_t depth,
                           uint32_t rank);
/* Sets the turns of what climbs. */
peal_status peal_packed_turns(struct packed *packed);
/* When the channel's lane turns to the parent of its rank's seat: 0 first. */
uint32_t peal_packed_turn(const struct packed *packed, uint32_t channel, uint32_t rank,
                          const struct seat *seat);
/* Of the message. */
double peal_packed_share(const struct packed *packed, uint32_t chunk);
/* A lane of a channel works off the seats of one depth: those that fold, those that pass on,
 * and, all depths together, those that only hear that a chunk has come. */
uint32_t peal_packed_lane_kinds(const struct packed *packed);
uint32_t peal_packed_lane(const struct packed *packed, int way, const struct seat *seat);
uint32_t peal_packed_leaf_lane(const struct packed *packed);
/* Of each channel, between two ranks. */
uint32_t peal_packed_semaphores(const struct packed *packed, peal_collective collective);
/* 1: it has children, so that a lane of its depth passes on. */
int peal_packed_inner(const struct packed *packed, uint32_t chunk, uint32_t rank);

/* Costs a forest with every number of channels that suits it. */
peal_status peal_packed_cost(struct planner *planner, const struct candidate *with,
                             struct packed *packed);

/* Seats and weights of a candidate's plan, before it is built. *packed: peal_packed_free. */
peal_status peal_packed_begin(struct build *b, const struct candidate *candidate,
                              struct packed *packed);
void peal_packed_prepare(struct build *b, const struct candidate *candidate);
void peal_packed_emit(struct build *b, const struct candidate *candidate, uint32_t rank);
void peal_packed_forget(struct planner *planner); /* its forests */

#endif
