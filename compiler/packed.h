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
#define PACKED_KINDS_MAX (2 * PACKED_LEVELS_MAX + 2)
#define PACKED_CHUNKS_MAX 4096u
#define PACKED_RANKS_MAX 64u
#define EVEN_CHUNKS_MAX 512u /* into which a message is cut so that all are alike */

/* A rank's place in the tree of a chunk. */
struct seat {
    uint32_t parent;      /* NO_RANK: the root */
    uint32_t depth;       /* hops from the root */
    uint32_t first_child; /* into children */
    uint32_t children;
    uint32_t pushed; /* 1: another engine moves what goes to its parent, so that a fold leaves
                        through a stage */
};

struct packed_link {
    uint64_t ps;      /* what 1e6 bytes take that have it to themselves */
    double alpha_us;  /* until what was moved or raised is there */
    double gap_us;    /* that each message costs */
    uint64_t way_out; /* the first resource on it */
    double back_us;   /* start-up of a signal the other way */
    uint8_t stores;   /* 1: the lane itself moves over it */
    uint8_t nets;     /* 1: a NIC does */
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
    double *seat_us[PACKED_WAYS]; /* while costs are looked at: what the step of each seat takes its
                                     lane, for a byte */
    struct packed_link *link;     /* [from x ranks + to], of the hops that trees have */
    uint32_t neighbours;          /* that a rank has hops to, of the rank with most */
    int ported;                   /* 1: each rank stores to all of them through one port */
    uint64_t lane_ps;             /* what a lane takes for 1e6 bytes */
    /* How hops are dealt to lanes: */
    uint32_t pieces;
    uint32_t channels; /* of which each has a share of the chunks; by link: lanes of a link */
    uint32_t lanes;    /* of a kind, at most */
    int by_link;       /* 1: each link has lanes of its own; 0: each chunk is a channel's */
    uint8_t *group[PACKED_WAYS]; /* [chunk x ranks + rank]: which lane of its kind makes the hop
                                    between the rank and its parent, or folds at the root */
    uint8_t *region;             /* [chunk of a block]: of its slots */
    uint32_t regions;
    uint16_t *slot;         /* [chunk x ranks + rank]: the rank's, at its parent */
    uint32_t depth;         /* tiles in flight between two lanes, if there are tiles */
    uint32_t width;         /* slots of a region, of the rank that needs most */
    uint16_t *stage;        /* [lane that climbs x ranks + rank]: a lane's first */
    uint32_t stages;        /* stage slots of a region, of the rank that needs most */
    struct packed_sem *sem; /* open addressing, by key; of by_link while costs are looked at */
    uint32_t sems_room;
    double greeting_us;              /* of an allgather by link: peal_packed_greeting */
    uint32_t nsems[PACKED_WAYS + 1]; /* of the two ranks that need most; of a rank's own lanes */
    uint8_t *turn; /* [(up depth - 1) x ranks x ranks + rank x ranks + parent]: how many parents a
                      rank has at the depth before this one, counted from the rank on */
};

/* Trees and seats: forest[way] NULL: none. LIMIT: too many chunks, or too deep. */
peal_status peal_packed_seats(struct packed *packed, const struct planner *planner,
                              const struct pack_forest *const forest[PACKED_WAYS]);
void peal_packed_free(struct packed *packed);
uint32_t peal_packed_chunks(const struct packed *packed);
const struct seat *peal_packed_seat(const struct packed *packed, int way, uint32_t chunk,
                                    uint32_t rank);
const uint32_t *peal_packed_children(const struct packed *packed, int way, const struct seat *seat);
/* Over which a rank's hop to or from its parent goes. */
struct packed_link *peal_packed_link(const struct packed *packed, int way, uint32_t rank,
                                     uint32_t parent);
/* Of the message. */
double peal_packed_share(const struct packed *packed, uint32_t chunk);

/* ---- packed_deal.c: lanes */

/* Deals hops to lanes: `channels` of each kind, at most. A lane of a rank works off hops from the
 * seats of one depth: those that fold, those that pass on, and, all depths together, those that
 * only hear that a chunk has come. Numbers slots. LIMIT: too many of them. */
peal_status peal_packed_deal(struct packed *packed, uint32_t pieces, uint32_t channels,
                             int by_link);
void peal_packed_undeal(struct packed *packed);
/* Transfers that a lane has under way at once; nets: by a NIC. Folds leave through as many stages;
 * what a link's lane hands down is there. */
uint32_t peal_packed_events(const struct packed *packed, int way, int nets);
uint32_t peal_packed_lane_kinds(const struct packed *packed);
uint32_t peal_packed_leaf_kind(const struct packed *packed);
/* Which lane of its kind hears of a chunk at a leaf. */
uint32_t peal_packed_leaf_group(const struct packed *packed, uint32_t chunk);
uint32_t peal_packed_group(const struct packed *packed, int way, uint32_t chunk, uint32_t rank);
/* 1: of the children of a seat downwards, none before child[at] has the same lane. */
int peal_packed_first(const struct packed *packed, uint32_t chunk, const uint32_t *child,
                      uint32_t at);
int peal_packed_fused(const struct packed *packed); /* 1: roots pass on what they fold at once */
uint32_t peal_packed_kind(const struct packed *packed, int way, const struct seat *seat);

/* ---- packed_sems.c: semaphores and turns */

/* Of a hop: between the lane that makes it and a lane of its other end. */
struct packed_sem {
    uint64_t key; /* 0: none */
    uint16_t number;
};
#define PACKED_LEAF 0xffu /* the other end's lane that only hears */
/* Numbers the semaphores of what was dealt; LIMIT: too many. */
peal_status peal_packed_number_sems(struct packed *packed);
/* In a direction, between the ends of a rank's hop in a chunk's tree. other: the lane of its kind
 * that, on the way up, the parent's seat has, on the way down the rank's own seat, or
 * PACKED_LEAF. */
uint32_t peal_packed_sem(const struct packed *packed, int way, uint32_t chunk, uint32_t rank,
                         uint32_t other);
/* Of a rank with itself: the lane that writes a root's output tells another. */
uint32_t peal_packed_writer(const struct packed *packed, uint32_t chunk, uint32_t root);
uint32_t peal_packed_own_sem(const struct packed *packed, uint32_t root, uint32_t from,
                             uint32_t to);
uint32_t peal_packed_semaphores(const struct packed *packed, peal_collective collective);
/* What the lane or engine of a rank that has most entries to tell of takes for them, besides one:
 * of semaphores that are numbered. */
peal_status peal_packed_greeting(const struct packed *packed, double *us_out);
void peal_packed_forget_sems(struct packed *packed);
size_t peal_packed_turn_cells(const struct packed *packed);
/* Sets the turns of what climbs. */
peal_status peal_packed_turns(struct packed *packed);
/* When a lane turns to the parent of its rank's seat: 0 first. */
uint32_t peal_packed_turn(const struct packed *packed, uint32_t group, uint32_t rank,
                          const struct seat *seat);

/* ---- packed_work.c: what lanes have to do */

/* What a rank's lanes of one kind take, as microseconds per byte of the message. */
struct packed_work {
    double us;       /* the busiest lane: what it reads and writes, or a link that it waits for */
    double fold_us;  /* the busiest rank's reducing unit, of all channels */
    uint32_t hops;   /* the busiest lane's, in a trip */
    double gap_us;   /* its messages besides one, and those of the rank's other engines */
    double told_us;  /* how much later than the first the last child of a seat is told */
    double waits_us; /* between the signals of each of its steps */
    /* Of the lane of a link that a NIC carries most hops for: */
    uint32_t sent_hops;
    double sent_us;   /* how long they keep the link busy, */
    double beside_us; /* and what it carries for others meanwhile */
    int folded;       /* 1: each is folded before it leaves */
    /* Of the first kind only: */
    double links_us;       /* the link that takes its lanes longest, */
    double links_waits_us; /* and how long one rests, where a lane stands still longest: those of
                              others go on, unless they stand still, too */
    double held_us;        /* the link whose lanes stand still together longest, */
    double held_waits_us;  /* and how long */
};

/* Sets seat_us. */
peal_status peal_packed_measure_seats(struct planner *planner, struct packed *packed);
void peal_packed_forget_seats(struct packed *packed);
/* work[kind of lane], and the most lanes of a rank; fold_us: the busiest rank's reducing unit. */
peal_status peal_packed_measure(const struct planner *planner, const struct packed *packed,
                                struct packed_work *work, uint32_t *lanes_out, double *fold_us);

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
