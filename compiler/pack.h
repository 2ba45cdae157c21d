/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Throughput-optimal spanning trees of a switched network (ForestColl, Zhao et al. 2024).
 *
 * A network is a directed graph of compute nodes, which hold data, and switches, which only
 * pass it on: one message in, one message out, no copies. An allgather in which node v's share
 * of the data flows down trees rooted at v takes at least r x (share of one node), where
 *     r = max over sets S that lack a compute node of |S's compute nodes| / capacity leaving S,
 * and trees that reach it exist wherever every switch can send no more than it receives. The
 * same trees reversed make a reduce-scatter of the reversed network.
 *
 * Everything is exact integer arithmetic, and the same input gives the same trees.
 */
#ifndef PEAL_COMPILER_PACK_H
#define PEAL_COMPILER_PACK_H

#include "base.h"

#define PACK_BOUND_NODES_MAX 16384u /* of a network whose bounds are asked */
#define PACK_TREE_NODES_MAX 1024u   /* of a network in which trees are packed */
#define PACK_LINKS_MAX (1u << 22)
#define PACK_TREES_MAX (1u << 16)
/* Capacities, counted in their greatest common divisor, times twice the compute nodes sum up to
 * no more, so that no flow overflows. */
#define PACK_UNITS_MAX (UINT64_C(1) << 61)
#define PACK_NONE UINT32_MAX
#define PACK_EVERY_ROOT UINT32_MAX

/* ---- what is asked -------------------------------------------------------- */

/* Capacities in any unit of bandwidth, whole numbers; 0 is no link. Links between the same two
 * nodes in one direction add up, links from a node to itself do nothing. */
struct pack_edge {
    uint32_t from;
    uint32_t to;
    uint64_t capacity;
};

/* Nodes [0, compute) hold data, [compute, compute + switches) are switches. */
struct pack_graph {
    uint32_t compute;
    uint32_t switches;
    uint32_t nedges;
    const struct pack_edge *edges;
};

/* ---- how fast ------------------------------------------------------------- */

/*
 * `trees` spanning trees from every root (or from one), when a link of capacity c carries
 * floor(c x num / den) of them. Data of M bytes in all, cut evenly over all trees, takes
 * M / (roots x trees) x num / den: the algorithmic bandwidth is roots x trees x den / num.
 */
struct pack_rate {
    uint32_t root; /* PACK_EVERY_ROOT, or the only one */
    uint64_t trees;
    uint64_t num;
    uint64_t den;
};

/* A set of nodes, bit i % 64 of word i / 64, and what leaves it. */
struct pack_cut {
    peal_ctx *ctx;
    uint32_t nodes;
    uint64_t *bits;
    uint32_t compute;  /* compute nodes inside */
    uint64_t capacity; /* of the links from inside to outside */
};
void peal_pack_cut_free(struct pack_cut *cut);
int peal_pack_cut_has(const struct pack_cut *cut, uint32_t node);

/* The optimum r = num / den, reduced: the time of an allgather in which every node gives one
 * unit of data. The cut proves it: r = cut.compute / cut.capacity. rate has the fewest trees
 * that reach it. */
struct pack_optimum {
    uint64_t num;
    uint64_t den;
    struct pack_rate rate;
    struct pack_cut cut; /* peal_pack_cut_free */
};
/* Errors: ARG (fewer than two compute nodes), INPUT (a link to nowhere, or a node that another
 * cannot reach), LIMIT, MEMORY. */
peal_status peal_pack_optimum(peal_ctx *ctx, const struct pack_graph *graph, peal_diag *diag,
                              struct pack_optimum *optimum_out);

/* The least of all maximal flows from root to another node: no broadcast is faster, and the
 * rate's trees reach it (Edmonds). The bound itself is rate.trees x rate.den / rate.num. */
peal_status peal_pack_broadcast_bound(peal_ctx *ctx, const struct pack_graph *graph, uint32_t root,
                                      peal_diag *diag, struct pack_rate *rate_out);

/* The most that can flow to each compute node from all others, added up. */
peal_status peal_pack_ingress(peal_ctx *ctx, const struct pack_graph *graph, double *sum_out);

/* The fastest rate with `trees` trees a root, given the ideal one from either function above.
 * Fewer trees, larger pieces, less of the optimum. */
peal_status peal_pack_fixed(peal_ctx *ctx, const struct pack_graph *graph,
                            const struct pack_rate *ideal, uint64_t trees, peal_diag *diag,
                            struct pack_rate *rate_out);

/* ---- trees ---------------------------------------------------------------- */

/* From one compute node to another, through `vias` switches: forest->via[via], and on. */
struct pack_hop {
    uint32_t from;
    uint32_t to;
    uint32_t via;
    uint32_t vias;
};

/* Hops are forest->hops[tree x (compute - 1)] and on, parents before children. */
struct pack_tree {
    uint32_t root;
    uint32_t depth;        /* hops from the root to the farthest node */
    uint64_t multiplicity; /* how many of the root's trees look like this one */
};

struct pack_forest {
    peal_ctx *ctx;
    uint32_t compute;
    struct pack_rate rate;
    uint32_t ntrees;
    uint32_t trees_room;
    struct pack_tree *trees; /* by root */
    uint32_t hops_room;
    struct pack_hop *hops;
    uint32_t nvia;
    uint32_t via_room;
    uint32_t *via;
};

/* Packs the trees of a rate, shallow ones where there is a choice. A hundred nodes take tens of
 * milliseconds, five hundred some seconds. UNSUPPORTED: a switch sends more than it receives,
 * and the trees do need it to, so that only a switch that copies would reach the rate; a fixed
 * number of trees may still be had (peal_pack_fixed counts with switches that do not copy). */
peal_status peal_pack_trees(peal_ctx *ctx, const struct pack_graph *graph,
                            const struct pack_rate *rate, peal_diag *diag,
                            struct pack_forest *forest_out);
void peal_pack_forest_free(struct pack_forest *forest);
const struct pack_hop *peal_pack_hops(const struct pack_forest *forest, uint32_t tree);
uint32_t peal_pack_depth(const struct pack_forest *forest); /* of the deepest tree */

/* Proves a forest from nothing but the graph: every tree spans, hops run over links through
 * switches, each root has its number of trees, no link carries more than the rate lets it.
 * UNPROVEN: the diag says what does not hold. */
peal_status peal_pack_check(peal_ctx *ctx, const struct pack_graph *graph,
                            const struct pack_forest *forest, peal_diag *diag);

/* ==== inside the module ====================================================== */

/* ---- exact arithmetic (pack_num.c) ---- */
uint64_t peal_pack_gcd(uint64_t a, uint64_t b);
/* *quotient = floor(a * b / d), d > 0; nonzero when it does not fit, like peal_mul_overflows. */
int peal_pack_muldiv_overflows(uint64_t a, uint64_t b, uint64_t d, uint64_t *quotient);
/* a / b < c / d */
int peal_pack_less(uint64_t a, uint64_t b, uint64_t c, uint64_t d);

/* ---- maximal flow (pack_flow.c) ---- */
struct pack_arc {
    uint32_t to;
    uint32_t next; /* arc of the same tail */
    uint64_t cap;  /* what is left of it */
};

/* Arc 2i is the i-th one added, 2i + 1 its reverse. */
struct pack_flow {
    peal_ctx *ctx;
    uint32_t nodes;
    uint32_t nodes_room;
    uint32_t *node; /* five arrays in one block: see pack_flow.c */
    uint32_t *head;
    uint32_t *level;
    uint32_t *cursor;
    uint32_t *queue;
    uint32_t *trail;
    uint32_t arcs;
    uint32_t arcs_room;
    struct pack_arc *arc;
    uint32_t base_room;
    uint64_t *base; /* capacities before any flow, of arc 2i */
    uint32_t touched_room;
    uint32_t ntouched;
    uint32_t *touched; /* pairs whose capacities differ from base, and marks of them */
    uint32_t mark_room;
    uint8_t *mark;
};
void peal_pack_flow_init(struct pack_flow *flow, peal_ctx *ctx);
void peal_pack_flow_free(struct pack_flow *flow);
void peal_pack_flow_clear(struct pack_flow *flow);                        /* no nodes, no arcs */
peal_status peal_pack_flow_nodes(struct pack_flow *flow, uint32_t nodes); /* at least so many */
peal_status peal_pack_flow_arc(struct pack_flow *flow, uint32_t from, uint32_t to, uint64_t cap);
/* Sets the capacity of the i-th arc, when no flow is on it. */
void peal_pack_flow_set(struct pack_flow *flow, uint32_t i, uint64_t cap);
/* The maximal flow from s to t, or limit if that is less. Starts from none. */
uint64_t peal_pack_flow_run(struct pack_flow *flow, uint32_t s, uint32_t t, uint64_t limit);
/* The same from the same s to u, where the last run, or move, found its limit, `value`, to t, and
 * that is all that leaves s: t's flow is sent on to u, which is soon done where they are near. */
uint64_t peal_pack_flow_move(struct pack_flow *flow, uint32_t t, uint32_t u, uint64_t value);
/* After a run below its limit: is the node on the source's side of a minimal cut? */
int peal_pack_flow_inside(const struct pack_flow *flow, uint32_t node);

/* ---- the network at work (pack_net.c) ---- */
struct pack_link {
    uint32_t from;
    uint32_t to;
    uint64_t capacity; /* 0 for links that splitting made */
    uint64_t units;    /* of tree, at the rate being looked at */
};

/*
 * The graph with parallel links added up, and a source that feeds each root the number of its
 * trees. `need` trees reach everyone if and only if every compute node can draw a flow of
 * `need` from the source (Edmonds; Bang-Jensen, Frank and Jackson 1995 with switches).
 */
struct pack_net {
    peal_ctx *ctx;
    uint32_t compute;
    uint32_t nodes; /* the source is node `nodes` of the flow */
    uint64_t gcd;   /* of all capacities */
    uint64_t total; /* of all capacities, in gcds */
    uint64_t need;
    uint32_t nlinks;
    uint32_t links_room;
    struct pack_link *links; /* by from, then to, as far as they are the graph's */
    struct pack_flow flow;   /* arcs [0, compute) from the source, then links in order */
    uint32_t suspect;        /* node that failed last, and so is tried first */
};
peal_status peal_pack_net_init(struct pack_net *net, peal_ctx *ctx, const struct pack_graph *graph,
                               uint32_t nodes_max, peal_diag *diag);
void peal_pack_net_free(struct pack_net *net);
void peal_pack_net_set(struct pack_net *net, uint32_t link, uint64_t units);
void peal_pack_net_roots(struct pack_net *net, uint32_t root, uint64_t trees);
/* Units of every link, and roots, at a rate. LIMIT. */
peal_status peal_pack_net_rate(struct pack_net *net, const struct pack_rate *rate);
peal_status peal_pack_net_add(struct pack_net *net, uint32_t from, uint32_t to);
uint64_t peal_pack_net_draw(struct pack_net *net, uint32_t node); /* flow, at most need */
int peal_pack_net_feeds(struct pack_net *net); /* whether every node draws `need` */

/* A change of `amount` units: fewer on `less` (either may be PACK_NONE), more on `more`. */
struct pack_change {
    uint32_t less[2];
    uint32_t more;
};
void peal_pack_net_apply(struct pack_net *net, const struct pack_change *change, uint64_t amount);
void peal_pack_net_undo(struct pack_net *net, const struct pack_change *change, uint64_t amount);
/* Makes the largest change of at most `amount` units that leaves every node fed. */
uint64_t peal_pack_net_admit(struct pack_net *net, const struct pack_change *change,
                             uint64_t amount);

/* ---- switches that send more than they receive (pack_trim.c) ---- */
/* Takes from their outgoing links what is not needed. *switch_out: one that stays so, or
 * PACK_NONE. */
void peal_pack_trim(struct pack_net *net, uint32_t *switch_out);

/* ---- switch removal (pack_deal.c, pack_split.c) ---- */
struct pack_offer {
    uint32_t from;
    uint32_t to;
    uint64_t amount;
};
/* In what portions a switch's incoming links had best be joined to its outgoing ones. */
struct pack_deal {
    uint32_t noffers;
    uint32_t room;
    struct pack_offer *offers;
};
peal_status peal_pack_deal(const struct pack_net *net, uint32_t node, uint64_t portion,
                           struct pack_deal *deal);

/* A physical way between two compute nodes, as halves around a switch. Path 0 is a link. */
struct pack_path {
    uint32_t left;
    uint32_t right;
    uint32_t via;
    uint32_t vias; /* in all */
};
/* Units of a link that take one path. */
struct pack_piece {
    uint64_t units;
    uint32_t path;
    uint32_t next; /* of the same link, or PACK_NONE */
};
struct pack_pieces {
    uint32_t npaths;
    uint32_t paths_room;
    struct pack_path *paths;
    uint32_t count;
    uint32_t room;
    struct pack_piece *pieces;
    uint32_t heads_room;
    uint32_t *heads; /* by link, or PACK_NONE */
};
void peal_pack_pieces_free(struct pack_pieces *pieces, peal_ctx *ctx);
/* Leaves a network whose links join compute nodes only. portion: units that had best stay
 * together. */
peal_status peal_pack_split(struct pack_net *net, uint64_t portion, peal_diag *diag,
                            struct pack_pieces *pieces_out);

/* ---- arborescences (pack_grow.c, pack_ask.c), and their way over switches (pack_trees.c) ---- */
/* `mult` equal trees: node order[i], i > 0, hangs under parent[i], which comes before. */
struct pack_batch {
    uint32_t root;
    uint64_t mult;
    uint32_t size;
    uint32_t *order; /* the block that holds the next four too: three by position */
    uint32_t *parent;
    uint32_t *link;  /* from the parent */
    uint32_t *depth; /* by node; PACK_NONE: not in the tree yet */
    uint32_t *dead;  /* bit by link: cannot be added any more */
    uint64_t owed;   /* while a question is being answered */
    uint32_t node;   /* of the flow */
    uint32_t arc;    /* of the flow, to the node: how many trees there are */
};
struct pack_batches {
    uint32_t count;
    uint32_t room;
    size_t words; /* of a batch's block */
    struct pack_batch *batch;
};
void peal_pack_batches_free(struct pack_batches *batches, peal_ctx *ctx);
/* Trees of the rate in a network whose links join compute nodes only. */
peal_status peal_pack_grow(struct pack_net *net, const struct pack_rate *rate, peal_diag *diag,
                           struct pack_batches *batches_out);

/* How many trees of a batch may take a link. */
struct pack_ask {
    struct pack_net *net;
    struct pack_batches *batches;
    struct pack_flow flow; /* compute nodes, a hub, and a node for each unfinished batch */
    int stale;             /* much of the flow is of no use any more */
    uint32_t *arc;         /* of the flow, by link; the block of the next five too */
    uint32_t *into;        /* links to y: into[first_into[y]..first_into[y + 1]) */
    uint32_t *from;        /* links from x: from[first[x]..first[x + 1]) */
    uint32_t *touched;     /* links whose `used` is not 0 */
    uint32_t *first_into;
    uint32_t *first;
    uint32_t ntouched;
    uint64_t *left; /* by node: of its link to the node asked about; the block of the next too */
    uint64_t *used; /* by link */
};
peal_status peal_pack_ask_init(struct pack_ask *ask, struct pack_net *net,
                               struct pack_batches *batches);
void peal_pack_ask_free(struct pack_ask *ask);
peal_status peal_pack_ask_build(struct pack_ask *ask); /* of the batches and links as they are */
peal_status peal_pack_ask(struct pack_ask *ask, uint32_t batch, uint32_t link, uint64_t *trees);
/* A batch is new, or has taken a link. */
peal_status peal_pack_ask_add(struct pack_ask *ask, uint32_t batch);
peal_status peal_pack_ask_took(struct pack_ask *ask, uint32_t batch, uint32_t link);

#endif
