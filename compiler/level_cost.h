/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that cost hierarchical schedules share: the phase that is being costed, the stage
 * that it becomes, and what has been seen of its hops. */
#ifndef PEAL_COMPILER_LEVEL_COST_H
#define PEAL_COMPILER_LEVEL_COST_H

#include "level.h"

struct level_costing {
    struct planner *planner;
    const struct level_layout *layout;
    struct candidate *candidate;
    const struct level_phase *phase;
    int first; /* the phase that reads the input */
    int dealt; /* 1: what the root spreads of its own shard has been counted where it deals */
    int lone;  /* 1: a unit has one holder, the only root of its peers' tree or chain */
    int fine;
    int alike; /* one host's load between hosts is that of all */
    struct level_peers peers;
    struct stage stage;
    uint64_t away;   /* stages of the present phase, bit 1 << stage: another engine carries a hop */
    int direct;      /* all hops of the stage are loads and stores */
    double reach_us; /* the longest start-up, and the largest gap, of those that are */
    double reach_gap_us;
    double share;  /* of the message: one root's piece, in a trip */
    double way_us; /* the longest way to or from any of many roots of a host, start-ups alone */
    double hop_us; /* the longest start-up of the phase's hops, and the largest gap */
    double hop_gap_us;
    double link_us;   /* a byte over the narrowest of them, alone */
    uint64_t pushed;  /* bit i: other engines move what stage i does */
    uint32_t queued;  /* of them, that a rank has for another engine, in a direct exchange */
    double loaded_us; /* owners of inputs that are loaded, beside others that are sent, enter, or
                         are told that they may leave */
    double told_us;   /* of a single root's phase: the gaps in which children are told */
    double *at;       /* for each rank: start-ups on the way to it, along a tree with one root */
    uint32_t placed;  /* a peer, which has this place in the present tree; NO_RANK */
    struct level_place place;
};

/* A stage begins: of one step, and nothing loaded. It ends as one of the candidate's; lane_share:
 * what a channel's lane moves, as a share of the message, times their number. */
void peal_level_stage_begin(struct level_costing *c, uint32_t lane);
void peal_level_stage_end(struct level_costing *c, double lane_share);
/* So many start-ups that no other lane waits for. */
void peal_level_stage_apart(struct level_costing *c, uint32_t levels, double alpha_us);

/* ---- level_cost_load.c */

/* Hosts that look like the first carry the same load, as long as no uplink counts them. */
int peal_level_like_first(const struct level_costing *c, uint32_t rank);
/* All hosts are like the first, and nothing counts them together: what one sends between hosts, and
 * takes in as much, is what all do. */
int peal_level_all_alike(const struct group *group);
void peal_level_load_hop(struct level_costing *c, uint32_t self, uint32_t peer, double share);
/* share: of one root's piece. depth: of a single root's edges. */
void peal_level_load_phase(struct level_costing *c, double share, uint32_t depth);
/* Step k of a doubling; behind `steps` of them those that are no power of two follow. */
void peal_level_load_step(struct level_costing *c, uint32_t k, uint32_t steps);
int peal_level_is_root(const struct level_costing *c, uint32_t peer);
/* The root of the tree that has the rank, and the depth of a peer in that of the typical unit. */
uint32_t peal_level_root_of(const struct level_costing *c, uint32_t rank);
uint32_t peal_level_depth_of(const struct level_costing *c, uint32_t root, uint32_t peer);

/* ---- level_cost_many.c */

/* With more peers to send to than transfers may be under way, the next ones wait for the first to
 * be there: start-ups besides one. */
double peal_level_again_us(const struct level_costing *c, uint32_t peers, uint32_t events);
void peal_level_cost_direct(struct level_costing *c, uint32_t *lane_at);
void peal_level_cost_ring(struct level_costing *c, uint32_t lane);
void peal_level_cost_trees(struct level_costing *c, uint32_t *lane_at);

/* ---- level_cost_single.c */
void peal_level_cost_rooted(struct level_costing *c, uint32_t *lane);
/* Of all peers one has a shard: tiles follow each other along its tree or chain, each rank's lane
 * one step behind that of its parent. */
void peal_level_cost_lone(struct level_costing *c, uint32_t *lane);

/* ---- level_cost_root.c: between the root and the holders of its unit */
void peal_level_cost_root(struct level_costing *c, uint32_t lane);

/* ---- level_cost_rails.c */
peal_status peal_level_cost_rails(struct level_costing *c);

#endif
