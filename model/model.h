/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event-driven simulation of one call of a plan on a fabric, at the level of flows.
 *
 * Time is whole picoseconds. Every rank's lanes run their steps in order. A step that moves data
 * is one flow: it loads each resource on its operands' paths with a weight (bytes carried there
 * for each byte of the tile), and its rate is its max-min fair share of all of them, at most what
 * its lane or engine moves. What arrives elsewhere (a signal, the last packet, a delivery)
 * arrives the path's start-up later. The constants are those the compiler's costs are made of.
 */
#ifndef PEAL_MODEL_MODEL_H
#define PEAL_MODEL_MODEL_H

#include "base.h"
#include "plan.h"
#include "topo.h"

#define SIM_NONE UINT32_MAX
#define SIM_NEVER UINT64_MAX
#define SIM_FULL 0.999999999 /* of a capacity, for the rounding of sums */
#define SIM_NO_LEVEL 1e300
#define SIM_RECORDS_MAX (1u << 25)
#define SIM_STEPS_MAX (1u << 26)

/* ---- what steps are and take, worked out once (sim_needs.c) */

struct sim_use {
    uint32_t resource;
    double weight;
};

enum sim_does { SIM_MOVES, SIM_ISSUES, SIM_SIGNALS, SIM_WAITS, SIM_AWAITS };

struct sim_step { /* small: those of a large plan are far more than a cache holds */
    union {
        uint32_t need; /* moves, issues */
        uint32_t sem;  /* signals, waits */
    };
    union {
        uint16_t packets; /* moves, issues: some of its operands are */
        uint16_t lag;     /* waits */
        uint16_t what;    /* awaits */
    };
    uint8_t does; /* enum sim_does */
    union {
        uint8_t event; /* issues, awaits: which */
        uint8_t after; /* signals */
    };
};

struct sim_need {     /* of all steps that take the same */
    double cap;       /* bytes of the tile per ps: the lane's or the narrowest resource's */
    uint64_t latency; /* before the flow: loads go there and back, a host launches an engine */
    uint64_t alpha;   /* behind it: until what was moved or raised is there */
    uint64_t gap;     /* each message keeps its issuer busy so long */
    uint64_t message; /* the gap behind the last packet that a lane stores, if it stores any */
    uint64_t bytes;   /* that it moves in a trip of full tiles */
    uint32_t first_use;
    uint32_t uses;
    uint32_t queue; /* of an asynchronous engine; SIM_NONE */
};

/* ---- what is kept of each transfer, for the results */

enum sim_kind {
    SIM_MOVE,     /* by the lane itself */
    SIM_TRANSFER, /* by another engine: from its issue until delivered */
    SIM_SIGNAL,   /* from its issue until a wait passed because of it */
    SIM_WAIT      /* a lane stood still */
};

struct sim_record {
    uint64_t start;
    uint64_t end;
    uint64_t begin; /* transfers: when the engine took it up */
    uint64_t bytes; /* of the tile; of a signal: when it was passed, ps */
    uint32_t pred;  /* what its start or end is due to; SIM_NONE */
    uint32_t lane;  /* index over all ranks */
    uint32_t step;  /* index among the rank's steps */
    uint32_t trip;
    uint32_t peer; /* signal: the waiting lane */
    uint8_t kind;
    uint8_t event;
    uint8_t rides; /* a signal behind data for the same rank, which it costs nothing beside */
};

/* ---- the running state */

struct sim_load { /* a group on a resource */
    uint32_t group;
    double weight; /* of each of its flows */
};

/* The flows under way that take the same (a need's): all have one rate, so what each was served
 * since the first of them began is one number, and they end in the order of what it is then. */
struct sim_group {
    double rate;        /* of each flow */
    double share;       /* while it is worked out; below 0: not yet */
    double cap;         /* the need's */
    uint32_t first_use; /* the need's */
    uint32_t uses;
    uint32_t flows;
    uint32_t mark;
    uint32_t bound; /* the resource that holds it back; SIM_NONE: its cap does */
    uint32_t fresh;
    double served;  /* bytes of each flow, at `since` */
    uint64_t since; /* the rate holds from then on */
    /* A line of the cache. */
    uint64_t finish;
    double bytes;     /* of all flows that are over */
    uint64_t idle;    /* the round in which the last of its flows ended */
    uint32_t head;    /* the flow that ends next */
    uint32_t heap_at; /* SIM_NONE: no flow has a rate */
    uint32_t spare[8];
};

struct sim_flow {
    double target;    /* it ends when its group has served so much */
    uint32_t need;    /* and its group */
    uint32_t record;  /* says its lane, event and bytes */
    uint32_t signals; /* raised when delivered: first of a list, SIM_NONE */
    uint32_t next;    /* in a group or a queue, or on the free list */
};

struct sim_resource {
    double capacity;     /* bytes per ps */
    double load;         /* weights times rates: below the capacity nobody is held back here */
    struct sim_load *on; /* as they began */
    uint32_t groups;
    uint32_t room;
    /* While shares are worked out: */
    uint32_t mark;
    uint32_t change_mark;
    double left;
    double weights;
    double level;
    /* A line of the cache. */
    double
        change; /* of the load, where no level is looked for; else the level at which it is full */
    uint64_t rerated; /* the round in which a group on it last got another rate */
    uint64_t busy_since;
    uint64_t busy;
    double bytes;
    uint32_t port; /* enum topo_port, once queues are looked at */
    uint32_t spare[5];
};

struct sim_arrival {  /* one signal of a semaphore */
    uint64_t arrival; /* SIM_NEVER: not raised yet */
    uint64_t order;   /* among what happens then */
    uint64_t issued;
    union {
        struct { /* its record, unless all is kept: made when a lane stood for it */
            uint32_t cause;
            uint32_t lane;
            uint32_t step;
            uint32_t trip;
        };
        struct { /* where all is kept */
            uint32_t record;
            uint32_t deps; /* of whom it lets pass */
        };
    };
};

#define SIM_SEM_OWN 2u

struct sim_sem {              /* small: a large plan has more than a cache holds */
    struct sim_arrival *ring; /* where there is no room for all in `own` */
    uint64_t last;            /* latest arrival: they come in order */
    uint32_t room;            /* a power of two */
    uint32_t waiter;
    uint32_t needed; /* signals that the waiter stands for */
    uint32_t first;  /* signals below are forgotten */
    uint32_t issued;
    uint32_t raised; /* up to here, in order, arrivals are under way or past */
    uint32_t waits;  /* that have passed */
    uint32_t need;   /* of its signals */
    struct sim_arrival own[SIM_SEM_OWN];
};

struct sim_sem_key { /* kept, as needs are, for who runs the plan elsewhere */
    uint64_t ends;   /* the ranks that it joins, and its index */
    uint32_t need;   /* SIM_NONE: no signal has been seen */
};

struct sim_slot {    /* of a packet region */
    uint32_t writer; /* record */
    uint32_t waiter; /* lane */
    uint8_t begun;
    uint8_t ended;
};

struct sim_queue {
    uint64_t next; /* its next message may start */
    uint32_t active;
    uint32_t head; /* flows that wait for an engine */
    uint32_t tail;
};

enum sim_phase { SIM_READY, SIM_PACKETS, SIM_LATENCY, SIM_FLOWS, SIM_GAPS, SIM_TAIL, SIM_OVER };

struct sim_event { /* of a lane */
    uint32_t flow;
    uint32_t record; /* SIM_NONE: never issued */
    uint8_t free;
    uint8_t delivered;
};

struct sim_lane { /* a line of the cache */
    uint32_t rank;
    uint16_t index;  /* among the rank's lanes */
    uint8_t section; /* 3: it is through */
    uint8_t phase;
    uint32_t at;  /* its present step, among those of all ranks */
    uint32_t end; /* of the section */
    uint32_t trip;
    uint32_t cause;   /* record that its present time is due to */
    uint32_t deps;    /* what its next step comes behind */
    uint32_t blocker; /* record that ended its standing still, SIM_NONE */
    uint32_t record;  /* the present move */
    uint8_t on_event; /* event it stands for, PLAN_NO_EVENT */
    uint8_t on_what;
    uint64_t next_issue;
    uint64_t blocked_at; /* SIM_NEVER: not */
    uint64_t not_before; /* the present move may not end earlier */
};

enum sim_what { EV_LANE, EV_SIGNAL, EV_START, EV_DELIVERED, EV_PACKET_BEGUN, EV_PACKET_ENDED };

struct sim_due {
    uint64_t time;
    uint64_t order;
    uint32_t what;
    uint32_t a;
};

#define SIM_ROWS 8u

/* Events that were noted in the order in which they happen: a ring. */
struct sim_row {
    struct sim_due *at;
    uint32_t first;
    uint32_t count;
    uint32_t room; /* a power of two */
    uint64_t last; /* time of the last one */
};

struct sim_attached { /* a signal behind a transfer */
    uint32_t sem;
    uint32_t number;
    uint32_t next;
};

struct sim_vector32 {
    uint32_t *at;
    uint32_t count;
    uint32_t capacity;
};

struct sim_name {
    char resource[64];
    char from[64];
    char to[64];
};

struct sim_port { /* of a switch */
    uint32_t name;
    uint32_t first_sender; /* in port_names: hosts' ports that filled it */
    uint32_t senders;
    uint32_t first_innocent; /* in port_names: ports that stopping them would have starved */
    uint32_t innocents;
    uint32_t victims; /* transfers to those */
    double depth;     /* bytes */
    uint64_t since;   /* it filled from then on */
    uint64_t when;    /* until it was deepest */
};

/* Memory that begins with a line of the cache: of what is looked at out of order, so that each
 * element takes no more lines than it has to. */
struct sim_lines {
    void *raw;
    size_t bytes;
};

struct peal_sim {
    peal_ctx *ctx;
    const peal_fabric *fabric; /* only while it runs */
    const struct peal_plan *plan;
    peal_status status; /* sticky: out of memory, too many records */
    int keep;           /* waits, signals and dependences too */
    uint64_t bytes;
    uint64_t buffer;
    uint64_t now;
    uint64_t time;
    uint32_t last; /* record that the end is due to */
    uint32_t trips;
    uint32_t full_trips;  /* in which every chunk has a full tile */
    uint64_t done;        /* lanes */
    uint64_t *chunk;      /* bytes of each */
    uint32_t *step_first; /* nranks + 1: steps of rank r */
    uint32_t *lane_first; /* nranks + 1 */
    struct sim_step *step;
    uint32_t steps;
    struct sim_need *need;
    uint32_t needs, need_capacity;
    struct sim_group *group; /* of each need */
    struct sim_lines group_lines, sem_lines, lane_lines, resource_lines;
    uint32_t *need_map; /* open addressing, while needs are worked out */
    uint32_t need_buckets;
    struct sim_use *use;
    uint32_t uses, use_capacity;
    struct topo_path *path; /* of each link of the plan, while needs are worked out */
    uint32_t *pair;         /* open addressing over (from, to) of links and over semaphores */
    uint32_t pairs;
    uint32_t *sem_map;
    uint32_t sem_buckets;
    struct sim_sem_key *sem_key;
    uint32_t sem_key_capacity;
    struct sim_sem *sem;
    uint32_t sems;
    struct sim_slot *slot;
    uint64_t slots; /* of one rank */
    uint64_t *region_first;
    uint32_t *nic_rank; /* the first rank that has the rank's NIC */
    struct sim_queue *queue;
    uint32_t queues;
    struct sim_lane *lane;
    struct sim_event *event; /* PLAN_EVENTS_MAX of each lane */
    uint32_t lanes;
    uint32_t resources;
    uint32_t fabric_resources;
    struct sim_resource *resource;
    struct sim_flow *flow;
    uint32_t flows, flow_capacity, flow_free;
    struct sim_attached *attached;
    uint32_t attacheds, attached_capacity, attached_free;
    struct sim_due *due; /* a heap: what is in no row */
    uint32_t dues, due_capacity;
    struct sim_row row[SIM_ROWS];
    struct sim_due next[SIM_ROWS + 1]; /* the first of each row, then of the heap */
    uint64_t order;                    /* of the last event */
    uint64_t present;                  /* of that which happens now; 0: flows end */
    struct sim_vector32 heap;          /* groups under way, by when their first flow ends */
    struct sim_vector32 fresh; /* groups in which flows began since shares were worked out */
    struct sim_vector32 dirty; /* resources that lost a flow and may have held others back */
    struct sim_vector32 part;  /* groups whose shares are worked out */
    struct sim_vector32 part_resource;
    struct sim_vector32 levels; /* a heap of resources */
    uint32_t mark;
    uint32_t change_mark;
    uint64_t round; /* how often shares have been worked out, and one more */
    struct sim_record *record;
    uint32_t records, record_capacity;
    struct sim_vector32 done_order; /* records as they ended, when kept */
    uint32_t *record_deps;          /* of each record, when kept */
    uint32_t record_deps_capacity;
    struct sim_vector32 pool;      /* sets of records: count, then rising ids */
    struct sim_vector32 path_back; /* the critical path, first step first */
    struct sim_name *name;         /* of used resources */
    uint32_t *used;                /* resources that carried anything, the busiest first */
    uint32_t nused;
    struct sim_port *port;
    uint32_t ports, port_capacity;
    struct sim_vector32 port_names; /* resources */
    uint32_t *by_start;             /* all records */
    uint32_t records_sorted;
};

/* Says that it will be looked at soon. */
static inline void peal_sim_soon(const void *at)
{
#if defined(__GNUC__)
    __builtin_prefetch(at);
#else
    (void)at;
#endif
}

/* Both lines of the semaphore, if the step has one. */
static inline void peal_sim_soon_sem(const struct peal_sim *sim, const struct sim_step *step)
{
    if (step->does == SIM_SIGNALS || step->does == SIM_WAITS) {
        peal_sim_soon(&sim->sem[step->sem]);
        peal_sim_soon(&sim->sem[step->sem].own[SIM_SEM_OWN - 1]);
    }
}

/* ---- sim_needs.c */
peal_status peal_sim_prepare(struct peal_sim *sim, peal_diag *diag);
/* Of a link of the plan; once the run is over, nothing of any other. */
void peal_sim_path(const struct peal_sim *sim, uint32_t from, uint32_t to, struct topo_path *path);
/* Bytes of each chunk (nchunks + 1 of them, of the plan's context), and the trips. */
peal_status peal_sim_cut(const struct peal_plan *plan, uint64_t bytes, uint64_t **chunk_out,
                         uint32_t *trips_out);
/* Bytes of the tile that a step moves: of packed ones where it reads or writes wire slots of
 * others, or moves between wire slots. */
uint64_t peal_sim_step_bytes(const struct peal_sim *sim, const struct sim_lane *lane);
uint64_t peal_sim_tile(const struct peal_sim *sim, uint32_t chunk, uint32_t trip);
/* Bytes that a data step moves in a trip: a tile of each chunk of its span. */
uint64_t peal_sim_moved(const struct peal_plan *plan, const uint64_t *chunk,
                        const struct plan_step *step, uint32_t trip);
/* The same as an operand holds it: packed, where that is a wire slot. */
uint64_t peal_sim_held(const struct peal_plan *plan, const uint64_t *chunk,
                       const struct plan_step *step, const struct plan_operand *operand,
                       uint32_t trip);

/* ---- sim_flow.c: shares */
uint32_t peal_sim_flow_new(struct peal_sim *sim); /* SIM_NONE: out of memory */
void peal_sim_flow_free(struct peal_sim *sim, uint32_t flow);
void peal_sim_flow_begin(struct peal_sim *sim, uint32_t flow);
/* Takes the flow that ends next off its group; the caller frees it. */
uint32_t peal_sim_flow_end(struct peal_sim *sim, uint32_t group);
/* What each of its flows gets from now on; when the next of them ends follows from that. */
void peal_sim_group_rate(struct peal_sim *sim, uint32_t group, double rate);
/* What each resource has carried, once all flows are over. */
void peal_sim_flow_totals(struct peal_sim *sim);
/* ---- sim_share.c */
void peal_sim_share(struct peal_sim *sim);

/* ---- sim_heap.c */
void peal_sim_push(struct peal_sim *sim, uint64_t time, enum sim_what what, uint32_t a);
/* One that got its number before. */
void peal_sim_push_at(struct peal_sim *sim, const struct sim_due *due);
/* What happens next, among `next`; its time is SIM_NEVER if nothing does. */
uint32_t peal_sim_first(const struct peal_sim *sim);
struct sim_due peal_sim_pop(struct peal_sim *sim, uint32_t first);
void peal_sim_dues_open(struct peal_sim *sim);
void peal_sim_dues_free(struct peal_sim *sim);
void peal_sim_heap_put(struct peal_sim *sim,
                       uint32_t group); /* or moves it, if its finish changed */
void peal_sim_heap_remove(struct peal_sim *sim, uint32_t group);
void peal_sim_append_more(struct peal_sim *sim, struct sim_vector32 *vector, uint32_t value);
static inline void peal_sim_append(struct peal_sim *sim, struct sim_vector32 *vector,
                                   uint32_t value)
{
    if (vector->count < vector->capacity)
        vector->at[vector->count++] = value;
    else
        peal_sim_append_more(sim, vector, value);
}

/* ---- sim_record.c: what is kept */
uint32_t peal_sim_record(struct peal_sim *sim, const struct sim_record *record, uint32_t deps);
uint32_t peal_sim_deps_one(struct peal_sim *sim, uint32_t record);
uint32_t peal_sim_deps_join(struct peal_sim *sim, uint32_t a, uint32_t b);
void peal_sim_ended(struct peal_sim *sim, uint32_t record);

/* ---- sim_lane.c: runs a lane until it stands still */
void peal_sim_lane_run(struct peal_sim *sim, uint32_t lane);
void peal_sim_block(struct peal_sim *sim, struct sim_lane *lane);
/* Its present step, among those of its rank. */
uint32_t peal_sim_lane_step(const struct peal_sim *sim, const struct sim_lane *lane);
const struct plan_step *peal_sim_step(const struct peal_sim *sim, const struct sim_lane *lane);
struct sim_event *peal_sim_event_of(const struct peal_sim *sim, uint32_t lane, uint8_t event);
/* ---- sim_move.c: data steps of the lane itself; 1: done, 0: the lane will be woken */
int peal_sim_move(struct peal_sim *sim, uint32_t lane);
void peal_sim_packet(struct peal_sim *sim, uint32_t slot, int ended);
/* ---- sim_transfer.c: asynchronous engines and semaphores */
int peal_sim_issue(struct peal_sim *sim, uint32_t lane);
int peal_sim_await(struct peal_sim *sim, uint32_t lane, uint8_t event, uint8_t what);
void peal_sim_start(struct peal_sim *sim, uint32_t flow);
void peal_sim_transfer_ended(struct peal_sim *sim, uint32_t flow);
void peal_sim_delivered(struct peal_sim *sim, uint32_t flow);
/* ---- sim_signal.c: semaphores; 1: done, 0: the lane will be woken */
int peal_sim_signal(struct peal_sim *sim, uint32_t lane);
int peal_sim_wait(struct peal_sim *sim, uint32_t lane);
void peal_sim_raise(struct peal_sim *sim, uint32_t sem, uint32_t number, uint64_t time);
/* What the lane stands for. */
void peal_sim_arrived(struct peal_sim *sim, uint32_t lane);

/* ---- sim_result.c */
peal_status peal_sim_results(struct peal_sim *sim);
/* ---- ports.c: queues at switches, when a buffer is given */
peal_status peal_sim_ports(struct peal_sim *sim);
/* Of a resource that carried something; NULL of others. */
const char *peal_sim_name_of(const struct peal_sim *sim, uint32_t resource);

#endif
