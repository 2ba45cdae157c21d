/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler's own nouns. A *group* is the ranks that take part; a *candidate*
 * is an algorithm with its parameters and the cost of what it does; an algorithm
 * (algo_*.c) enumerates its candidates, costs them, and emits one rank's program.
 */
#ifndef PEAL_COMPILER_COMPILER_H
#define PEAL_COMPILER_COMPILER_H

#include "base.h"
#include "plan.h"
#include "source.h"
#include "topo.h"

#define STAGES_MAX 64u
#define CHANNELS_MAX 32u
#define ROWS_MAX 256u
#define NO_RANK UINT32_MAX
/* A stage's lane that no other waits for between tiles: start-ups, and what is left at the end. */
#define LANE_APART (STAGES_MAX - 1)
#define SLOT_DEPTH 2u /* tiles in flight between two ranks */

/* ---- the ranks that take part, host by host ---------------------------- */
struct group {
    peal_ctx *ctx;
    const peal_fabric *fabric;
    uint32_t n;
    uint32_t *rank_of;  /* the fabric's number of each rank; NULL: the same */
    uint32_t *siblings; /* likewise of nsiblings groups, n each: those that may share links */
    uint32_t nsiblings;
    uint32_t sibling_room;
    /* A host is a run of ranks on one host: one whose ranks do not stand together counts as
     * several. */
    uint32_t nhosts;
    uint32_t capacity;
    uint32_t *host_first; /* nhosts + 1: ranks of host h are [host_first[h], host_first[h + 1]) */
    int scattered;        /* 1: some host counts as several */
    uint32_t local_min;   /* ranks on the smallest and the largest host */
    uint32_t local_max;
    int accelerators; /* 0: host processes, whose lanes share one core */
    int switch_folds; /* 1: a switch of some host multicasts and folds */
    int multicast;    /* 1: all ranks meet on one switch that multicasts and folds */
    int direct_hosts; /* every pair of one host reaches each other by load and store */
    /* No schedule takes less: us per byte, for each collective, and start-up. */
    double bound_beta[PEAL_COLLECTIVE_COUNT];
    double bound_alpha;
    char cut[160];    /* which ranks' links bound allgather; "" not searched */
    char cut_in[160]; /* and reduce-scatter */
    int symmetric;    /* the network carries as much from a to b as from b to a, everywhere */
};
/* Spanning trees of the group's network. */
struct forest_ask {
    uint32_t root;  /* whose trees; NO_RANK: trees from every rank */
    int up;         /* 1: of the reversed network, for trees that are walked from their leaves */
    int links;      /* 1: of links between accelerators and hosts alone, no detours over PCIe */
    uint32_t trees; /* from each root; 0: as many as the optimum takes */
};
struct pack_forest;
/* Packs the trees of `count` questions that differ in their number of trees alone, fewest first.
 * found[i]: 0 when there are none to be had (too many ranks, too many trees, as fast with fewer).
 * forests[i]: peal_pack_forest_free. */
peal_status peal_group_forests(struct group *group, const struct forest_ask *asks, uint32_t count,
                               struct pack_forest *forests, int *found);
/* 1: some ranks reach each other over links between accelerators, others over PCIe alone. */
int peal_group_mixed(const struct group *group);
/* The exact bounds of block collectives and broadcast, of groups small enough to search. */
peal_status peal_group_exact_bounds(struct group *group, uint32_t root);
peal_status peal_group_init(struct group *group, peal_ctx *ctx, const peal_fabric *fabric,
                            const peal_request *request, peal_diag *diag);
void peal_group_free(struct group *group);
uint32_t peal_group_host(const struct group *group, uint32_t rank);

/* Nothing but these takes a rank of the group to the fabric, which numbers its own. */
peal_status peal_group_choose(struct group *group, const peal_request *request, peal_diag *diag);
uint32_t peal_group_rank(const struct group *group, uint32_t rank);
void peal_group_path(const struct group *group, uint32_t from, uint32_t to, struct topo_path *path);
/* The route between the ranks of sibling s that do what `from` and `to` do. */
void peal_group_sibling_path(const struct group *group, uint32_t s, uint32_t from, uint32_t to,
                             struct topo_path *path);
int peal_group_same_host(const struct group *group, uint32_t a, uint32_t b); /* ranks */
/* 1: the ranks of two hosts, and those of all siblings there, are the same ones of equal
 * machines, so that what one host carries, the other does. */
int peal_group_hosts_alike(const struct group *group, uint32_t a, uint32_t b);

/* ---- what a set of simultaneous transfers loads ------------------------- */
struct load {
    peal_ctx *ctx;
    uint64_t resources;
    double *us;  /* per byte of the message, for each resource, by all who use it */
    double *own; /* by the group itself */
    uint64_t *touched;
    uint64_t ntouched;
    double worst; /* of what the group uses */
    uint64_t worst_resource;
    double worst_own; /* without siblings */
};
peal_status peal_load_init(struct load *load, peal_ctx *ctx, const peal_fabric *fabric);
void peal_load_free(struct load *load);
void peal_load_clear(struct load *load);
/* `share` of the message goes over path at `scale` of its bandwidth, in the group or in a
 * sibling. */
void peal_load_add(struct load *load, const struct topo_path *path, double share, double scale,
                   int own);
/* What the busiest resource of the path is busy with, per byte of the message; own: without
 * siblings. */
double peal_load_of(const struct load *load, const struct topo_path *path, int own);
/* Microseconds per byte of a transfer that has the path to itself. */
double peal_load_alone(const struct topo_path *path, double scale);
/* A resource is `us` per byte longer busy, `own` of it for the group. */
void peal_load_use(struct load *load, uint64_t resource, double us, double own);

/* ---- candidates ---------------------------------------------------------- */
enum algorithm {
#define ALGORITHM(id, name) ALGO_##id,
#include "algorithms.def"
#undef ALGORITHM
    ALGO_COUNT
};
#define ALGO_ANY ALGO_COUNT
/* The request's own; no word of the table. */
#define ALGO_SCRIPT ((enum algorithm)(ALGO_COUNT + 1))

enum twohop_order { TWOHOP_RAIL, TWOHOP_INSIDE_OUT, TWOHOP_INSIDE_SLOTS, TWOHOP_ORDERS };

/* Who moves what loads and stores would reach: the lanes themselves, or copy engines, which hold no
 * SM but take longer to start. */
enum corner { CORNER_LANES, CORNER_COPY, CORNER_COUNT };

/* In which order the elements of a message are reduced; the same for all of them, or it varies. */
enum reduction_order {
    ORDER_VARIES,
    ORDER_FOLD,       /* one step folds all ranks, from 0 up */
    ORDER_PAIRS,      /* recursive doubling: neighbours, then pairs of pairs */
    ORDER_HOSTS,      /* the ranks of each host are folded, then the hosts */
    ORDER_HOST_PAIRS, /* the ranks of each host are folded, then hosts by doubling */
    ORDER_HALVES,     /* recursive halving */
    ORDER_COUNT
};

/* Words of hierarchical schedules: between which units they go, and how (levels.def). */
enum level_word {
#define LEVEL_WORD(id, name) LEVEL_##id,
#include "levels.def"
#undef LEVEL_WORD
    LEVEL_WORDS
};
enum level_part {
#define LEVEL_PART(id, name, text) PART_##id,
#include "levels.def"
#undef LEVEL_PART
    PART_COUNT
};

/* `levels` dependent steps, each costing alpha + gap + us_per_byte x tile. In a chain, one lane
 * runs them all before it turns to its next tile; otherwise each level is a lane of its own. */
struct stage {
    uint32_t levels;
    int chain;
    uint32_t lane;  /* stages of one lane add up between tiles */
    uint32_t depth; /* pieces in flight between two lanes; 0: SLOT_DEPTH */
    double alpha_us;
    double gap_us;
    double us_per_byte;        /* of the tile (the whole message's worth of one trip) */
    double alone_us_per_byte;  /* the same, without siblings */
    double slack_us_per_byte;  /* of it, what the start-up covers: other hops of a ring are wider */
    double beside_us_per_byte; /* what others carry there, beside one channel of the stage */
    int back;                  /* 1: of the way back, which begins when all pieces are through */
    int in_step;               /* 1: all channels go over the resource at one time */
    double waits;              /* of pieces: start-ups of a trip, spread over its pieces; the first
                                  tile has the first of them. 0: each piece has its own */
    int steady;                /* 1: of lanes that meet those of other tiles */
    double load_us;            /* the part of it that the busiest resource sets */
    double fold_us_per_byte;   /* the part that a lane folds, when the transfer is over */
    double alone_load_us;
    uint64_t resource; /* which binds */
    int lane_bound;    /* 1: the lane's own rate binds, not a resource */
};

/* One of the ways through a plan of a single trip: start-ups and gaps, then bytes of the message.
 * What parts of a plan do beside each other are several, of which the longest is its time. */
struct course {
    double alpha_us;
    double us_per_byte;
    double alone_us_per_byte; /* without siblings */
};
#define COURSES_MAX 10u

struct candidate {
    enum algorithm algo;
    uint32_t channels;
    uint32_t gateways;
    uint32_t trees;     /* packed: from each root, that differ */
    uint32_t forest[2]; /* packed: of the planner's, down and up; NO_RANK: none */
    uint32_t pieces;    /* packed: each tree's share is cut into so many chunks; tree, hierarchical:
                           each lane's, of which so many are under way at once; 0: one; chain: of
                           tiles twice as many are under way */
    enum reduction_order order;
    enum corner corner;
    uint8_t move_engine[PEAL_LINK_CLASS_COUNT]; /* forced: as in a request */
    int variant;     /* halving: 1, places go across the hosts; swing: 1, whole messages;
                        packed: 1, links have lanes of their own */
    uint32_t levels; /* hierarchical: bit 1 << level_word */
    enum level_part inner;
    enum level_part outer;
    int drifts;          /* 1: a lane's stages go over links of their own, and lanes drift apart */
    uint32_t cells;      /* pieces of a tile that follow each other through the stages; 0: one */
    uint64_t tile_bytes; /* 0: whole chunks */
    uint64_t max_bytes;  /* cannot serve more; UINT64_MAX */
    uint32_t chunks;     /* of the message */
    double chunk_share;  /* the largest one's, where they are not equal; else 0 */
    uint32_t lanes;      /* of the busiest rank */
    uint64_t slots;      /* scratch slots of a rank, both parities; twice as many when tiled */
    double hop_share;    /* of the message, carried by one hop */
    uint32_t radix;      /* bruck */
    uint32_t torus;      /* swing: sizes of its ways, a byte each from the lowest; 0: a ring */
    uint8_t wire;        /* compressed: PLAN_WIRE_* */
    enum twohop_order twohop;
    uint32_t unit;         /* twohop: ranks of a unit, which follow each other */
    uint32_t window;       /* senders that a receiver lets send at once; 0: all */
    uint64_t net_messages; /* that cross hosts, of the rank with most; 0: none, or not counted */
    double net_share;      /* of the message, that they carry together */
    uint32_t nstages;
    struct stage stage[STAGES_MAX];
    uint32_t ncourses; /* 0: its time is that of its stages */
    struct course course[COURSES_MAX];
    uint32_t engines[PEAL_LINK_CLASS_COUNT]; /* bit 1 << engine */
    char binding[64];                        /* the resource that binds the largest message */
    double total_us_per_byte;                /* load of the busiest resource over all stages */
    uint64_t total_resource;
    double alone_total_us_per_byte;
    /* The planner's, where ranks of one memory were measured: bandwidths are then those of a rank
     * that copies 1e9 bytes a second. */
    const struct topo_memory *memory;
    const struct measured *measured;  /* the planner's, by which it goes; NULL: none */
    int like;                         /* 1: the very schedule that was measured */
    const struct script_times *times; /* script: instead of stages */
};

struct cost {
    double time_us;
    double alpha_us; /* the part that does not shrink with the message */
    uint64_t resource;
    int lane_bound;
};
void peal_candidate_cost(const struct candidate *candidate, uint64_t bytes, struct cost *cost);
/* The time without siblings. */
double peal_candidate_alone_us(const struct candidate *candidate, uint64_t bytes);
/* The time of a pipeline whose start-ups take half as long again: what it loses when transfers do
 * not meet as favourably as they are taken to. */
double peal_candidate_strained_us(const struct candidate *candidate, uint64_t bytes);
uint64_t peal_candidate_scratch(const struct candidate *candidate, uint64_t bytes);

struct policy_run; /* policy_run.h */
struct planner {
    peal_ctx *ctx;
    const peal_fabric *fabric; /* only while planning or compiling */
    struct group group;
    struct load load;
    struct load total;
    uint32_t engines[PEAL_LINK_CLASS_COUNT]; /* of the hops loaded since the last candidate */
    peal_request request;
    enum algorithm algorithm;  /* asked for, or ALGO_ANY */
    enum corner corner;        /* of the candidates being made, or of the one being lowered */
    uint64_t digest;           /* of the fabric */
    struct topo_memory memory; /* count 0: not measured */
    uint32_t nmeasured;        /* of the request's collective and buffers */
    struct measured *measured;
    uint32_t *pairs; /* the request's, from and to by turns; its own copy */
    uint32_t npairs;
    uint32_t levels; /* asked for, as bits; 0: choose */
    uint32_t inner;  /* 1 + what was asked for; 0: choose */
    uint32_t outer;
    uint32_t count;
    uint32_t capacity;
    struct candidate *candidates;
    uint32_t chosen[ROWS_MAX]; /* candidate of each row */
    uint32_t nforests;         /* packed: kept until plans are made of them */
    uint32_t forests_capacity;
    struct pack_forest *forests;
    struct policy_run *policy; /* NULL: none */
    peal_schedule *script;     /* the request's; its own copy, NULL: none */
    uint32_t nscript_times;
    uint32_t script_times_capacity;
    struct script_times **script_times; /* of its candidates */
};

/* Adds a copy; channels and tile already set, stages costed. */
peal_status peal_planner_add(struct planner *planner, const struct candidate *candidate);
/* Appends a stage from what planner->load holds, adds it to planner->total and clears it.
 * lane_share: what a lane reads and writes in the stage, halved, as a share of the message. */
void peal_candidate_stage(struct planner *planner, struct candidate *candidate,
                          const struct stage *stage, double lane_share);
/* The same loads shared by another number of lanes: sets what the lane's own rate makes of the
 * stage. Candidates that differ in channels alone need their hops walked once. */
void peal_stage_lane(const struct planner *planner, struct stage *stage, double lane_share);
/* Another way through the candidate's plan: at two ends of `us` lies what it takes with siblings
 * and without. */
void peal_candidate_course(struct candidate *candidate, double alpha_us, const double us[2]);
/* When the transfer is over, a lane moves so much. */
void peal_stage_then(const struct planner *planner, struct stage *stage, double lane_share);
/* When the transfer is over, a lane reads and writes lane_share (halved) to fold, while all lanes
 * of its rank together read `sources` of the message. */
void peal_stage_fold(const struct planner *planner, struct stage *stage, double lane_share,
                     double sources);
/* The same where other engines move: a channel's fold meets the transfers of the others. */
void peal_stage_fold_beside(const struct planner *planner, struct stage *stage, double channels,
                            double lane_share, double sources);
/* What a transfer takes that has a resource for `own` to itself, when others that carry `beside` go
 * over it in each turn, and the link rests for `apart` between two of each: it meets them for a
 * part of the time alone, d = own + beside * d / (apart + d). */
double peal_beside_us(double own, double beside, double apart);
/* Empties planner->total into the candidate. */
void peal_candidate_total(struct planner *planner, struct candidate *candidate);
/* 1: no other engine carries any of its hops. */
int peal_candidate_stores(const struct candidate *candidate);

/* Copies and checks the request's list of pairs, while the request still has the caller's. */
peal_status peal_planner_pairs(struct planner *planner, peal_diag *diag);
/* The i-th of them, or the only one, from root to peer; 0 behind the last. */
int peal_planner_pair(const struct planner *planner, uint32_t i, uint32_t *from, uint32_t *to);
peal_status peal_planner_pairs_bound(struct planner *planner);

/* The route and engine of one hop. */
struct hop {
    uint32_t from;
    uint32_t to;
    struct topo_path path;
    uint8_t engine; /* of a plain move over it */
    double alpha_us;
    double gap_us;
    double scale;
};
void peal_planner_hop(const struct planner *planner, uint32_t from, uint32_t to, struct hop *hop);
/* Messages of simultaneous transfers, and the gaps they cost (microseconds) the ranks and NICs
 * at both ends. */
struct traffic {
    peal_ctx *ctx;
    uint32_t n;
    double *us;
    uint64_t *net; /* messages of each rank that cross hosts */
    uint32_t *nic; /* of each rank */
    uint64_t net_most;
    double net_share; /* of the message, that these carry together */
    double one_us;    /* the largest gap of one message */
};
peal_status peal_traffic_init(struct traffic *traffic, const struct planner *planner);
void peal_traffic_free(struct traffic *traffic);
/* `messages` of them, each with a share of the message. */
void peal_traffic_add(struct traffic *traffic, uint32_t from, const struct hop *hop,
                      uint32_t messages, double share);
/* What the busiest end waits besides one start-up, for `times` as many messages. */
double peal_traffic_gap(const struct traffic *traffic, uint32_t times);
/* The gap of a stage in which each of the channels sends these messages with its share of their
 * bytes, BURST_EVENTS of them under way at once. */
void peal_traffic_stage(const struct traffic *traffic, uint32_t channels, struct stage *stage);
/* What the lanes of one rank store, to one rank after the other, by the width of its link. */
#define TURN_WIDTHS 8u
struct turns {
    struct {
        double link_us; /* a byte over the link alone */
        uint32_t stores;
    } width[TURN_WIDTHS];
    uint32_t stores;
    double us; /* a byte to each, by one lane without bound */
};
/* Nothing where another engine moves. */
void peal_turns_add(struct turns *turns, const struct hop *hop);
void peal_turns_keep(struct turns *most, const struct turns *turns); /* the longer of both */
/* What it takes so many lanes, for a byte to each rank. */
double peal_turns_us(const struct planner *planner, const struct turns *turns, uint32_t channels);
/* A stage takes at least so long for each byte of the message. */
void peal_stage_turns(struct stage *stage, double us);
/* What of them crosses hosts. */
void peal_traffic_net(const struct traffic *traffic, struct candidate *candidate);
/* A stage takes at least the start-up and the gap of each of its hops. */
void peal_stage_hop(struct stage *stage, const struct hop *hop);
/* No schedule of the request is faster than this, in microseconds. */
double peal_planner_bound(const struct planner *planner, uint64_t bytes);
/* 1: of so many channels, each with so many steps a rank, all programs together would take longer
 * to make and prove than they are worth. One channel never does, nor what is asked for. */
int peal_planner_too_long(const struct planner *planner, uint32_t channels, uint64_t steps);
/* What was measured of the request's collective and buffers, by the schedules' names. */
peal_status peal_planner_measured(struct planner *planner, uint32_t ranks);
void peal_planner_forget_measured(struct planner *planner);
/* Lets the candidates from `first` on go by that. */
void peal_planner_go_by_measured(struct planner *planner, uint32_t first);
/* What a call takes by it, us. */
double peal_measured_us(const struct candidate *candidate, double bytes);
/* Adds to the candidates from `first` on what it costs that peers do not reach callers' buffers, if
 * so. */
void peal_planner_private(struct planner *planner, uint32_t first);
/* Keeps the candidates of one order of reduction. Errors: UNSUPPORTED. */
peal_status peal_planner_one_order(struct planner *planner, peal_diag *diag);
/* `share` of the message travels over the hop, at `scale` of its bandwidth. */
void peal_planner_load(struct planner *planner, const struct hop *hop, double share, double scale);
/* Bytes per second / 1e9 that one lane moves: an SM's share, or without bound on a host. */
double peal_planner_lane_gbs(const struct planner *planner);
/* Microseconds in which an accelerator's lanes together read a byte to reduce it; 0 on a host,
 * whose lanes are the cores that do it. */
double peal_planner_fold_us(const struct planner *planner);

/* ---- building programs ---------------------------------------------------- */
#define BURST_EVENTS                                                                               \
    PLAN_EVENTS_MAX     /* the same, of a lane that sends to many from what is there               \
                         */
#define BUILD_EVENTS 4u /* transfers of a lane in flight, and so stage slots they leave from */
#define BUILD_HOPS 32u
#define NO_RANK UINT32_MAX
/* A stage's lane that no other waits for between tiles: start-ups, and what is left at the end. */
#define LANE_APART (STAGES_MAX - 1)

/* Hops from one rank to others, by their number modulo BUILD_HOPS. */
struct build_hops {
    uint32_t from;
    uint32_t to[BUILD_HOPS];
    struct hop hop[BUILD_HOPS];
};

/* One rank's program after the other, each into the slice. */
struct build {
    const struct planner *planner;
    struct peal_plan *plan; /* its settings and regions; programs and links go to the slice */
    struct plan_slice *slice;
    struct plan_link_index links; /* of the slice */
    struct build_hops *hops;
    struct ring_orders *rings; /* of every host, for the channels of the candidate */
    uint32_t self;
    uint32_t section; /* 0 pre, 1 body, 2 post */
    uint32_t events;  /* of the present lane, bit e: used */
    uint32_t next_event;
    uint32_t in_flight; /* events that pushes of a lane take turns with */
    uint32_t more;      /* of the next move: chunks besides the first, */
    uint32_t stride;
    uint32_t jump;               /* and from one slot to the next, 0: 1 */
    struct level_layout *layout; /* hierarchical: made by prepare, freed with the emission */
    const struct packed *packed; /* packed: its trees and chunks */
    const struct script_program *script;
    peal_status status; /* sticky */
};
/* Begins the program of a rank: the slice is empty. */
void peal_build_rank(struct build *b, uint32_t rank);
/* Room for so many steps and operands: a long program does not move as it grows. */
void peal_build_reserve(struct build *b, uint64_t steps, uint64_t operands);
struct plan_operand peal_op_user(uint32_t rank, uint8_t buffer, uint32_t chunk);
struct plan_operand peal_op_slot(uint32_t rank, uint8_t buffer, uint32_t region, uint32_t slot);
uint32_t peal_build_region(struct build *b, uint8_t buffer, uint32_t width, uint32_t depth,
                           uint64_t slot_bytes);
/* Slots that hold packed elements; wire: PLAN_WIRE_*. */
uint32_t peal_build_wire_region(struct build *b, uint8_t wire, uint32_t width, uint32_t depth,
                                uint64_t slot_bytes);
void peal_build_lane(struct build *b);
void peal_build_section(struct build *b, uint32_t section);
/* The next move or push takes `span` chunks as one message: the one it names, and each so much
 * behind the one before. Slots follow one another, one for each chunk. */
void peal_build_span(struct build *b, uint32_t span, uint32_t stride);
/* Of that span, slots lie so far apart. */
void peal_build_jump(struct build *b, uint32_t jump);
/* reduce when nsrc > 1, else copy, put or get by where the operands lie. */
void peal_build_move(struct build *b, uint32_t chunk, uint32_t nsrc, const struct plan_operand *src,
                     uint32_t ndst, const struct plan_operand *dst, uint8_t engine, int final);
/* PLAN_PACK or PLAN_UNPACK, by the lane itself. */
/* A multicast or load_reduce. */
void peal_build_group(struct build *b, uint8_t op, uint32_t chunk, uint32_t nsrc,
                      const struct plan_operand *src, uint32_t ndst, const struct plan_operand *dst,
                      int final);
void peal_build_convert(struct build *b, uint8_t op, uint32_t chunk, const struct plan_operand *src,
                        uint32_t ndst, const struct plan_operand *dst);
/* A move to one remote destination by whatever engine the hop has, and the signal behind it. */
void peal_build_push(struct build *b, uint32_t chunk, struct plan_operand src,
                     struct plan_operand dst, uint32_t sem);
/* The same with several signals. */
void peal_build_push_to(struct build *b, uint32_t chunk, struct plan_operand src,
                        struct plan_operand dst, uint32_t nsems, const uint32_t *sems);
void peal_build_signal(struct build *b, uint32_t peer, uint32_t sem);
/* alltoallv: a signal with the count of the own block for the peer, and its wait. */
void peal_build_tell(struct build *b, uint32_t peer, uint32_t sem);
void peal_build_learn(struct build *b, uint32_t peer, uint32_t sem);
void peal_build_wait(struct build *b, uint32_t peer, uint32_t sem, uint32_t lag);
/* A stage slot that the next push may send from: the last transfer out of it has read it. */
uint32_t peal_build_stage(struct build *b);
/* Waits until the last push has read its source. */
void peal_build_await_last(struct build *b);
/* Waits until every transfer of the lane has read its source. */
void peal_build_await_free(struct build *b);
/* Awaits every event the lane has used; belongs in post. */
void peal_build_drain(struct build *b);
/* Waits until the transfer of an event has read its source. */
void peal_build_await_event(struct build *b, uint32_t event);
int peal_build_direct(const struct build *b, uint32_t peer);
/* The engine of a plain move to the peer. */
uint8_t peal_build_engine(const struct build *b, uint32_t peer);
/* Bytes a slot needs for the candidate's tile in this plan. */
uint64_t peal_build_slot_bytes(const struct build *b);

/* Emits the programs of one candidate's plan, one rank at a time, into the same memory. The
 * fabric and what the planner refers to have to outlive it. */
struct emission;
peal_status peal_emission_begin(const struct planner *planner, const peal_fabric *fabric,
                                const struct candidate *candidate, uint64_t min_bytes,
                                uint64_t max_bytes, peal_diag *diag,
                                struct emission **emission_out);
/* A table that was asked to reduce in one order, and has been proven, does. */
peal_status peal_table_check_order(const peal_table *table, peal_diag *diag);
/* Sets the head's origin: a hash of all that the programs follow from. */
peal_status peal_emission_origin(const struct planner *planner, const struct candidate *candidate,
                                 struct peal_plan *head);
/* The same for a row of a planned table, which stays as it is. */
peal_status peal_emission_of_row(const peal_table *table, uint32_t row, const peal_fabric *fabric,
                                 peal_diag *diag, struct emission **emission_out);
const struct plan_source *peal_emission_source(const struct emission *emission);
/* One rank's slice, as a plan that is not sealed. */
peal_status peal_emission_take(struct emission *emission, uint32_t rank,
                               struct peal_plan **plan_out);
void peal_emission_end(struct emission *emission);

/* Makes the plan of one row: every rank's program, sealed. */
peal_status peal_lower(const struct planner *planner, const struct candidate *candidate,
                       uint64_t min_bytes, uint64_t max_bytes, peal_diag *diag,
                       struct peal_plan **plan_out);

/* ---- algorithms -------------------------------------------------------------- */
struct algo {
    const char *name;
    uint32_t collectives; /* bit 1 << collective: which it serves */
    peal_status (*enumerate)(struct planner *planner);
    /* What is common to all ranks (chunks, regions, semaphores), then one rank's program. */
    void (*prepare)(struct build *b, const struct candidate *candidate);
    void (*emit)(struct build *b, const struct candidate *candidate, uint32_t rank);
    void (*detail)(const struct candidate *candidate, char *text, size_t size);
};
#define ALGORITHM(id, name) extern const struct algo peal_algo_##name;
#include "algorithms.def"
#undef ALGORITHM
extern const struct algo peal_algo_script;
const struct algo *peal_algo_get(enum algorithm algo);
/* For people, and what a request asks for: a script's is its own. */
const char *peal_candidate_name(const struct planner *planner, const struct candidate *candidate);
/* Takes the request's script, which has to fit it. */
peal_status peal_planner_script(struct planner *planner, peal_diag *diag);
void peal_planner_forget_scripts(struct planner *planner);
/* Reads the request's words for hierarchical schedules into the planner. */
peal_status peal_level_request(struct planner *planner, peal_diag *diag);
void peal_level_layout_free(struct level_layout *layout);

peal_status peal_direct_enumerate(struct planner *planner);
/* Packed bytes for a byte of float32; 1 where nothing can be packed. */
double peal_compressed_ratio(const peal_request *request);

/* ---- shapes --------------------------------------------------------------- */

/* The orders in which the channels of a ring visit the ranks of a host, for each host that looks
 * different: with them a place on a ring of any size is arithmetic. */
#define RING_LOCAL_MAX 64u /* larger hosts keep their own order */
struct ring_orders {
    const struct group *group;
    const struct topo_orders *given; /* of a graph file, for all hosts; NULL */
    uint32_t channels;
    uint32_t classes;
    uint32_t capacity;
    struct ring_class {
        uint32_t host; /* the first of them */
        uint32_t ranks;
        uint32_t rings; /* which together fill the links of the host */
        uint8_t *local; /* ranks of them for each channel */
    } * class;
};
/* algo: ALGO_NCCL_RING for those of the graph file. */
peal_status peal_ring_orders_make(const struct planner *planner, enum algorithm algo,
                                  uint32_t channels, struct ring_orders *orders);
void peal_ring_orders_free(struct ring_orders *orders);
/* Channels whose rings together fill the links of the first host, as far as was asked. */
uint32_t peal_ring_count(const struct ring_orders *orders);
/* The rank that channel `channel` of a ring visits at a position, and the other way round. */
uint32_t peal_ring_rank_at(const struct ring_orders *orders, uint32_t channel, uint32_t position);
uint32_t peal_ring_position(const struct ring_orders *orders, uint32_t channel, uint32_t rank);
/* All positions of one channel. */
void peal_ring_order(const struct ring_orders *orders, uint32_t channel, uint32_t *order);

/* Who takes part in a ring, tree or doubling, by position: a list, or, where that would be as
 * long as the group, a way to tell each. */
struct members {
    uint32_t (*at)(const struct members *members, uint32_t position);
    const struct build *b;
    uint32_t channel; /* of a ring; of gateways, the shard */
    uint32_t gateways;
};
/* Both NULL: position i is rank i. */
uint32_t peal_member(const uint32_t *list, const struct members *members, uint32_t position);
/* The ring order of one channel as members. */
struct members peal_ring_members(const struct build *b, uint32_t channel);

/* Orders of the graph file, when it is of whole hosts as the group has them; NULL. */
const struct topo_orders *
peal_group_orders(const struct planner *planner,
                  const struct topo_orders *(*orders)(const peal_fabric *));

#define TREE_CHILDREN 3u /* one of them in a chain of the same host */
struct tree_place {
    uint32_t parent;
    uint32_t child[TREE_CHILDREN];
    uint32_t depth;
};
/* Ranks of both trees by depth, in rising order: those of depth d in tree t are
 * rank[t][first[t][d]] to before rank[t][first[t][d + 1]]. */
#define TREE_DEPTH_MAX 34u
struct tree_levels {
    peal_ctx *ctx;
    uint32_t n;
    uint32_t height; /* the larger depth */
    uint32_t *rank[2];
    uint32_t first[2][TREE_DEPTH_MAX + 1];
};
peal_status peal_tree_levels_make(struct tree_levels *levels, peal_ctx *ctx, uint32_t n);
void peal_tree_levels_free(struct tree_levels *levels);
/* Place of `rank` among n in tree 0 or 1 of a double binary tree. */
struct tree_place peal_tree_place(uint32_t n, uint32_t tree, uint32_t rank);
/* The same among n / chain heads, below each of which hangs a chain: positions head * chain + i. */
struct tree_place peal_chained_place(uint32_t n, uint32_t chain, uint32_t tree, uint32_t rank);
uint32_t peal_tree_parent(uint32_t n, uint32_t tree, uint32_t rank);

/* Whom a rank sends to in round 1 ... n - 1, and whom it then hears from: everybody from one. */
/* Rounds of a barrier, and the k-th of them. */
uint32_t peal_pace_barrier(const struct group *group);
uint32_t peal_pace_barrier_round(const struct group *group, uint32_t k);
uint32_t peal_pace_to(const struct group *group, uint32_t self, uint32_t round);
uint32_t peal_pace_from(const struct group *group, uint32_t self, uint32_t round);

/* A ring allreduce among members, from in_buffer to out, as part of a rank's lane. */
struct ring_part {
    uint32_t n;
    uint32_t self;           /* position */
    const uint32_t *members; /* by position; NULL: as `of` tells */
    const struct members *of;
    uint32_t chunk0; /* position i starts with chunk0 + i */
    uint8_t in_buffer;
    uint32_t region;
    uint32_t width;
    uint32_t sem0; /* three of them */
    int credits;
    /* Of blocks: chunk chunk0 of each block, of `channels`. */
    uint32_t channels;
    uint32_t stage_region;
};
void peal_ring_reduce_scatter(struct build *b, const struct ring_part *part);
void peal_ring_enter(struct build *b, const struct ring_part *part);
void peal_ring_allgather(struct build *b, const struct ring_part *part);
void peal_ring_body(struct build *b, const struct ring_part *part);
uint32_t peal_ring_width(uint32_t n);

/* Recursive doubling of one chunk, as part of a lane. */
struct doubling_part {
    uint32_t n;
    uint32_t self;
    const uint32_t *members; /* by position; NULL: as `of` tells */
    const struct members *of;
    const uint32_t *partners; /* met in each step; NULL: whose positions differ in a bit */
    uint32_t chunk;
    uint8_t in_buffer;
    uint32_t region; /* width peal_doubling_slots */
    uint32_t depth;
    uint32_t sem0; /* two of them */
    int credits;
};
uint32_t peal_doubling_steps(uint32_t n);
/* Slots of a rank: one for each step, and one for what a rank beyond a power of two hands over. */
uint32_t peal_doubling_slots(uint32_t n);
void peal_doubling_body(struct build *b, const struct doubling_part *part);

/* Exchanges of halves (butterfly_shape.c). */
#define BUTTERFLY_ROUNDS_MAX 16u /* of 65 536 ranks */
enum butterfly_kind { BUTTERFLY_HALVING, BUTTERFLY_CIRCULANT, BUTTERFLY_SWING };
#define TORUS_WAYS 3u
/* A torus of ways, the last of which its indices count through first. One way: a ring. Of a torus,
 * each size is a power of two. Rounds go along the ways by turns, from `first` on; mirror: where
 * they else go up, they go down. */
struct butterfly_torus {
    uint32_t ways;
    uint32_t size[TORUS_WAYS];
    uint32_t first;
    int mirror;
};
struct butterfly {
    peal_ctx *ctx;
    enum butterfly_kind kind;
    uint32_t n;
    uint32_t rounds;
    uint32_t reach[BUTTERFLY_ROUNDS_MAX + 1]; /* blocks a place has to do with before round k */
    uint32_t *member;                         /* rank by place */
    uint32_t *place;                          /* and back */
    uint32_t *ring;                           /* swing: index in the ring or torus by place */
    uint32_t *at_ring;                        /* and back */
    struct butterfly_torus torus;             /* swing */
    uint32_t way[BUTTERFLY_ROUNDS_MAX];       /* swing: the dimension that a round goes along, */
    uint32_t step[BUTTERFLY_ROUNDS_MAX];      /* and how many went along it before */
    /* Swing of no power of two, whose gifts are no ranges: the round in which the index that lies
     * so far behind index 0 hands over 0's block; `rounds`: 0 itself. NULL. */
    uint32_t *leaves;
};
/* What place p does in round k of a reduce-scatter: hands the blocks of the `count` places from
 * `give` (modulo n) to the place `to`, and gets as many, those from `keep`, from the place `from`.
 * An allgather goes the rounds backwards, and each hand-over the other way. */
struct butterfly_round {
    uint32_t to;
    uint32_t from;
    uint32_t give;
    uint32_t keep;
    uint32_t count;
};
/* order: the n ranks, along the ring for swing. Free in any case. */
peal_status peal_butterfly_make(struct butterfly *shape, peal_ctx *ctx, enum butterfly_kind kind,
                                uint32_t n, const uint32_t *order);
/* Swing on a torus; order: ranks by index. */
peal_status peal_butterfly_swing(struct butterfly *shape, peal_ctx *ctx,
                                 const struct butterfly_torus *torus, const uint32_t *order);
void peal_butterfly_free(struct butterfly *shape);
int peal_butterfly_possible(enum butterfly_kind kind, uint32_t n);
/* 1: the place hands the block of `other` over in round k, where gifts are no ranges. */
int peal_butterfly_gives(const struct butterfly *shape, uint32_t place, uint32_t k, uint32_t other);
struct butterfly_round peal_butterfly_round(const struct butterfly *shape, uint32_t place,
                                            uint32_t k);
/* How a root's blocks get to their places by halves: place p gets those of the `count` places
 * from `first` (modulo n) from the place `from` (NO_RANK: it is the root, and has all), and hands
 * parts of them on in the rounds from `next` on. Not for swing. */
struct butterfly_branch {
    uint32_t from;
    uint32_t first;
    uint32_t count;
    uint32_t next;
};
struct butterfly_branch peal_butterfly_branch(const struct butterfly *shape, uint32_t root,
                                              uint32_t place);
/* 1: in round k the place hands on to round->to what round->give and count say, and keeps
 * branch->count. */
int peal_butterfly_hand_on(const struct butterfly *shape, uint32_t root, uint32_t place, uint32_t k,
                           struct butterfly_branch *branch, struct butterfly_round *round);

/* A butterfly's reduce-scatter and allgather as one channel's lane, and their cost. */
/* Regions and semaphores of all channels; held: blocks that a rank holds between rounds. */
void peal_butterfly_prepare(struct build *b, const struct candidate *candidate, uint32_t held);
/* One channel's lane of the plan's collective. */
void peal_butterfly_lane(struct build *b, const struct butterfly *shape, uint32_t channel,
                         uint32_t channels);
/* As how many messages the chunks of each round travel: of blocks, or numbered by the places. Those
 * of the last place, whose ranges wrap around. */
peal_status peal_butterfly_messages(const struct butterfly *shape, int blocks,
                                    uint32_t messages[BUTTERFLY_ROUNDS_MAX]);
/* Holds stages to what the candidate's lanes, one a channel, do: of each stage, the shares that all
 * of them store elsewhere, and then fold. */
void peal_butterfly_lane_rate(const struct planner *planner, struct candidate *candidate,
                              const double *stored, const double *folded);
/* Of the channels that take turns with nshapes, the share that has this one. */
double peal_butterfly_shape_share(uint32_t shape, uint32_t nshapes, uint32_t channels);
/* The next number of channels that is worth a try: 1, 2, 4 ..., and multiples of nshapes, which
 * load the links alike (of six: 1, 2, 4, 6, 8, 12, 16 ...). */
uint32_t peal_butterfly_channels(uint32_t channels, uint32_t nshapes);
/* Adds candidates of so many channels like `candidate`, whose channels take turns with the shapes.
 */
peal_status peal_butterfly_enumerate(struct planner *planner, struct candidate candidate,
                                     const struct butterfly *shapes, uint32_t nshapes);
/* One channel of Bruck's allgather or all-to-all. */
struct bruck_part {
    uint32_t n;
    uint32_t self;
    uint32_t radix; /* at least 2 */
    uint32_t channels, channel;
    uint32_t region; /* alltoall: the first of one for each round but the last, n wide */
    uint32_t sem0;   /* two of them */
};
void peal_bruck_allgather(struct build *b, const struct bruck_part *part);
void peal_bruck_alltoall(struct build *b, const struct bruck_part *part);
/* Blocks of the message of a digit in the round of `far`; allgather, alltoall. */
uint32_t peal_bruck_range(uint32_t n, uint32_t far, uint32_t digit);
uint32_t peal_bruck_blocks(uint32_t n, uint32_t radix, uint32_t far, uint32_t digit);
/* Into how many messages alltoall cuts it. */
uint32_t peal_bruck_messages(const struct bruck_part *part, uint32_t far, uint32_t digit);

/* Broadcast and reduce along a tree with a root, or a chain. */
#define ROOTED_CHILDREN 17u /* of the binomial tree of 65 536 ranks */
struct rooted_place {
    uint32_t parent; /* ranks; NO_RANK */
    uint32_t child[ROOTED_CHILDREN];
    uint32_t children;
    uint32_t slot; /* which of its parent's children it is */
    uint32_t depth;
};
/* In the binomial tree, and in the chain along one channel of a ring. */
struct rooted_place peal_rooted_place(uint32_t n, uint32_t root, uint32_t rank);
struct rooted_place peal_chain_place(const struct ring_orders *orders, uint32_t channel,
                                     uint32_t root, uint32_t rank);
struct rooted_part {
    struct rooted_place place;
    uint32_t chunk;
    uint32_t region;
    uint32_t stage_region;
    uint32_t depth;
    uint32_t sem0; /* four of them */
    int credits;
};
void peal_rooted_broadcast(struct build *b, const struct rooted_part *part);
void peal_rooted_reduce(struct build *b, const struct rooted_part *part);
peal_status peal_rooted_enumerate(struct planner *planner, enum algorithm algo, uint32_t channels);
void peal_rooted_prepare(struct build *b, const struct candidate *candidate);
void peal_rooted_emit(struct build *b, const struct candidate *candidate, uint32_t rank);

/* Scatter and gather along the binomial tree. */
peal_status peal_block_tree_enumerate(struct planner *planner, uint32_t channels);
void peal_block_tree_prepare(struct build *b, const struct candidate *candidate);
void peal_block_tree_emit(struct build *b, const struct candidate *candidate, uint32_t rank);

/* A tree allreduce among members, of chunks that follow each other: an up lane and a down lane. */
struct tree_part {
    uint32_t n;
    uint32_t self;
    const uint32_t *members; /* by position; NULL: as `of` tells */
    const struct members *of;
    uint32_t tree;
    uint32_t chain;  /* 1: none */
    uint32_t chunk;  /* the first */
    uint32_t pieces; /* how many; 0: one */
    uint8_t in_buffer;
    uint32_t region; /* `width` slots for each piece */
    uint32_t width;  /* 2, or 3 with chains */
    uint32_t depth;
    uint32_t sem0; /* three of them */
    int credits;
    uint32_t before; /* self semaphore to wait on each trip, NO_RANK none */
    uint32_t after;  /* self semaphore to signal once out holds the result, NO_RANK none */
};
void peal_tree_lanes(struct build *b, const struct tree_part *part);

/* ---- peers.c: who has something for whom, of at most PEERS_MAX ranks */

#define PEERS_MAX 64u

int peal_from_root(peal_collective collective);
int peal_to_root(peal_collective collective);
/* The share of the message that goes from one rank to another. */
double peal_peers_share(const struct planner *planner);
/* Of the message, all pairs of a list included. */
uint32_t peal_peers_blocks(const struct planner *planner);
/* The other ranks for which a rank has something (into: that have something for it), a bit each. */
uint64_t peal_peers(const struct planner *planner, uint32_t rank, int into);
uint32_t peal_peers_count(uint64_t peers);
/* 0: a pair is listed twice. */
int peal_peers_once(const struct planner *planner);

#endif
