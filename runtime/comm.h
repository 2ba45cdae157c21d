/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's view of a world: the programs of its table, decoded once so that running them takes
 * no division, lookup or allocation, and the counters that outlive a call.
 */
#ifndef PEAL_RUNTIME_COMM_H
#define PEAL_RUNTIME_COMM_H

#include "kern.h"
#include "shm.h"

#include <pthread.h>

/* ---- semaphores, both ends. Cells hold a count and above it a call's digest. */

struct rt_sem_out {
    rt_word *cell;
    uint32_t sent;  /* issued; counts for ever, modulo 2^32 */
    rt_half raised; /* stored in the cell; behind `sent` while an engine has signals queued */
    uint32_t far;   /* 1: of a rank of another host (far.h) */
};

struct rt_sem_in {
    const rt_word *cell;
    uint32_t count; /* waits so far, over all calls */
    uint32_t call;  /* the call for which the next two hold */
    uint32_t base;  /* count at its start */
    uint32_t end;   /* and at its end: counts in (base, end] were raised by this call */
};

/* ---- programs */

enum rt_kind {
    RT_MOVE,   /* sm: one source, nothing folded */
    RT_FOLD,   /* sm */
    RT_PACKET, /* sm, with a packet among its operands */
    RT_AHEAD,  /* the same, of a plan that runs ahead */
    RT_WIRE,   /* sm: pack, unpack, or a fold with a wire slot among its sources */
    RT_ASYNC,  /* a transfer of another engine */
    RT_FAR,    /* the same, to a rank of another host */
    RT_SIGNAL,
    RT_WAIT,
    RT_AWAIT,
    RT_TELL, /* as RT_SIGNAL and RT_WAIT, with a count */
    RT_LEARN
};

/* Own output in chunks that peers reach, too, lies where they reach it. */
enum rt_place { RT_OWN_IN, RT_OWN_OUT, RT_SHARED_OUT, RT_PEER_IN, RT_PEER_OUT, RT_SLOT };

/* What peers reach of a chunk of this rank's buffers. */
#define RT_REACH_IN 1u
#define RT_REACH_OUT 2u
/* What this rank's own steps reach by another name than its own: by an NVLink switch, or a NIC that
 * the kernel posts to. Of devices. */
#define RT_NAMED_IN 4u
#define RT_NAMED_OUT 8u

struct rt_operand {
    uint8_t place; /* enum rt_place */
    uint8_t packet;
    uint8_t wire;    /* PLAN_WIRE_*: what the slot holds */
    uint32_t depth;  /* RT_SLOT: trip t is at (t mod depth) x trip_bytes */
    uint32_t writer; /* packet source: the rank that fills it */
    uint32_t rank;   /* whose memory it is */
    uint64_t shift;  /* in and out: bytes from the chunk's place in the message to the one in the
                        buffer, modulo 2^64; of the count that the row knows, */
    uint64_t shift_blocks; /* and for any, in blocks */
    uint64_t trip_bytes;
    uint64_t copy_bytes;  /* RT_SLOT: from one call's copy to the next one's */
    char *at;             /* RT_SLOT: the first slot of the first copy */
    struct rt_ring *ring; /* a packet's of a plan that runs ahead; else NULL */
    const rt_word *board; /* RT_PEER_*: where the rank says where its buffer is */
};

/* Where a packet slot of a plan that runs ahead is: by the size of the message its operand's `at`,
 * `copy_bytes` and `trip_bytes` lead to cells or to the ring. */
struct rt_ring {
    rt_word *heads; /* of the first call and trip; so many trips on, */
    uint64_t trip_words;
    uint64_t slot; /* of all of the plan */
    uint32_t width;
    char *at; /* in the ring; and there from trip to trip */
    uint64_t trip_bytes;
};

struct rt_step {
    uint8_t kind; /* enum rt_kind */
    uint8_t engine;
    uint8_t event;
    uint8_t what; /* await: 0 source free, 1 delivered */
    uint8_t after;
    uint8_t folds;
    uint8_t final;
    uint8_t to_out;   /* every destination is somebody's output, */
    uint8_t to_peers; /* of another rank */
    uint8_t shape;
    uint8_t shape_one; /* the same sources into one destination */
    uint8_t wire;      /* a move between wire slots: their format; else 0 */
    uint8_t simple;    /* of sm: copies one chunk of plain memory */
    uint16_t nsrc;     /* put_reduce and get_reduce have two here */
    uint16_t ndst;
    uint16_t lag;
    uint32_t chunk;
    uint32_t more;     /* chunks besides it, */
    uint32_t stride;   /* so far apart; */
    uint32_t operands; /* nsrc + ndst of them for each chunk */
    uint32_t pieces;   /* RT_ASYNC: of the row */
    uint32_t peer;
    uint32_t number;   /* in its lane, for people */
    uint32_t fixed;    /* wait: how many waits a call has on this semaphore, */
    uint32_t per_trip; /* and for each trip */
    struct rt_sem_out *out;
    struct rt_sem_in *in;
    rt_word *counts;       /* tell, learn: the count in the even calls' copy and the odd ones' */
    const uint64_t *limit; /* alltoallv: elements that the chunk's block has; NULL: all */
    uint64_t begin;        /* of the block in the message, in blocks */
};

/* What is left of a transfer that lies in one piece: [begin, end) of it. */
struct rt_piece {
    const char *src;
    char *dst;
    size_t bytes;
    size_t begin;
    size_t end;
};

/* The transfers of one event: at most one is under way. */
struct rt_event {
    uint32_t issued; /* the lane's own count; the others follow it */
    uint32_t unread; /* the worker's: pieces not yet read and written; set by the lane before it */
    uint32_t unwritten; /* hands the transfer over */
    uint32_t far;       /* 1: the last one went to another host */
    uint8_t eased;      /* nobody waits until one is delivered; that has its time if it is */
    uint8_t unhurried;  /* the last of a call */
    rt_half freed;
    rt_half delivered;
};

struct rt_lane {
    uint32_t first; /* steps of the row: pre, body, post */
    uint32_t body;
    uint32_t post;
    uint32_t last;
    uint32_t number; /* of the lane, for people */
    /* of the call under way */
    uint32_t pc;
    uint32_t trip;
    uint64_t moved; /* bytes that a packet step has behind it */
    uint64_t since; /* traced: when the present step was first tried; 0: not yet */
    struct rt_event *events;
};

struct rt_row {
    peal_collective collective;
    uint32_t root;
    uint32_t peer;
    uint64_t max_bytes;
    struct peal_hash128 id;
    uint32_t blocks;     /* of the message */
    struct plan_held in; /* what this rank's buffers hold of them */
    struct plan_held out;
    uint32_t *listed; /* which they are, in and then out; NULL: as `in` and `out` say */
    uint64_t alias;   /* blocks from the output's start to the input's in place; modulo 2^64 */
    uint8_t knows_in_place;
    uint8_t counted;      /* alltoallv: blocks have lengths of their own */
    uint8_t all_in_place; /* in place on every rank or none: each has both buffers */
    uint8_t wire;         /* 1: some slots are packed, which only float32 can be */
    uint32_t nchunks;
    uint32_t *prefix; /* running sums of the chunks' weights; NULL: equal */
    uint64_t tile_bytes;
    uint8_t ahead;   /* others may not have entered when this rank returns */
    uint8_t fills;   /* of a plan that runs ahead: this rank stores packets */
    uint32_t window; /* before it stores anything, all have returned from so many calls before */
    uint32_t copies; /* of its packets and scratch: a power of two */
    uint32_t nlanes;
    uint32_t nsteps;
    uint32_t noperands;
    uint8_t reach;      /* RT_REACH_* of any chunk */
    uint8_t *reached;   /* RT_REACH_* of each chunk */
    uint8_t out_reread; /* some output is read again within the call */
    uint8_t attachable; /* only moves and folds of sm reach the buffers of others, on any rank */
    uint8_t shares;     /* some rank reaches another's */
    struct rt_lane *lanes;
    struct rt_step *steps; /* in the order of the call under way: */
    struct rt_step *forth; /* as the plan has them, */
    struct rt_step *back;  /* and, where that is as good, backwards; else NULL */
    uint8_t backward;      /* the next call is to go backwards, */
    uint8_t backs;         /* if it is of a size for that */
    struct rt_operand *operands;
    struct rt_ring *rings;   /* one for each operand; NULL: the plan does not run ahead */
    struct rt_event *events; /* PLAN_EVENTS_MAX a lane; NULL: no asynchronous step */
    /* Of each asynchronous step, as many as it has chunks and destinations: the worker's while
     * the transfer is under way. */
    struct rt_piece *pieces;
    size_t npieces;

    char algorithm[64];
    uint32_t engines; /* bit 1 << engine, of all ranks */

    /* What it has done. */
    uint64_t calls;
    uint32_t lingers;     /* whether it helps to linger (crowd.c): 0, not */
    uint64_t moved_bytes; /* of messages */
    uint64_t staged;      /* calls */
    uint64_t attached;
    uint64_t time_ns; /* while the comm measures */
    struct rt_carried {
        uint64_t calls;
        uint64_t bytes;
        uint64_t time_ns;
    } carried[PEAL_TRANSPORT_COUNT];

    /* What depends on the arguments, kept from the last call of this row. */
    int known;
    size_t count;
    peal_dtype dtype;
    peal_op op;
    uint64_t block_bytes;
    uint64_t in_bytes;
    uint64_t out_bytes;
    uint64_t message_bytes; /* as sizes are counted */
    uint64_t alias_bytes;
    uintptr_t in_align; /* address bits that are zero in a buffer; none where it is of no use */
    uintptr_t out_align;
    uint32_t elem_bytes;
    uint32_t trips;
    uint64_t tile;       /* elements */
    uint32_t parts;      /* of the call, made one behind the other (part.c), */
    uint64_t part_count; /* and elements of a block in each but the last */
    /* Element indices in the message, modulo 2^64, of the part under way: where chunks begin, and
     * the message ends; and where each chunk ends, in the same memory. */
    uint64_t *bounds;
    uint64_t *ends;
    const kern_fold_fn *fold; /* by shape */
    const kern_fold_fn *fold_stream;
    uint32_t divisor;
    int stream;          /* the message is larger than the caches */
    uint64_t near_bytes; /* between this rank and others of its host; alltoallv: of full blocks */
    uint64_t key[2];     /* digest of the call but for its number; [1]: in place */
};

/* What is asked for, but for the buffers. */
struct rt_args {
    peal_collective collective;
    uint32_t root;
    uint32_t peer;
    peal_dtype dtype;
    peal_op op;
    size_t count; /* of a block */
};

static inline int rt_row_serves(const struct rt_row *row, struct rt_args args)
{
    return row->count == args.count && row->dtype == args.dtype && row->op == args.op &&
           row->collective == args.collective && row->root == args.root && row->peer == args.peer;
}

struct rt_worker;
struct rt_far;

/* One step of a lane, as it was. */
struct rt_mark {
    uint64_t start; /* ns; of a step that waits, when it was first tried */
    uint64_t end;
    uint64_t bytes;
    uint64_t call;
    uint32_t row;
    uint32_t lane;
    uint32_t step;
    uint32_t trip;
    uint8_t waits;
};

struct peal_comm {
    /* what a call touches first */
    char *base;
    struct rt_row *last;
    char *in; /* the caller's */
    char *out;
    char *shared_in; /* the same, or where they are staged for peers */
    char *shared_out;
    uint64_t call;     /* number of the call under way or, between calls, of the next */
    uint64_t over;     /* a call from which all have returned, as far as is known */
    uint64_t compared; /* a call up to which all have called the same; */
    uint32_t unheard;  /* and calls since in which this rank may have waited for nobody */
    uint64_t header;   /* of packets: stamp above, digest below */
    uint32_t stamp;
    uint32_t digest;
    uint32_t copy; /* of the row's packets and scratch: the call's number tells */
    uint32_t rank;
    uint32_t nranks;
    uint32_t polls;         /* in vain, since anything last moved; */
    int timed;              /* by the clock, too: from wait_start on */
    uint32_t behind;        /* the rank that the call may be too far ahead of; RT_NOBODY: none */
    uint32_t processor;     /* it runs on, plus one, of a crowd; 0: unknown */
    uint32_t lingered;      /* polls since anything moved, in vain, without giving way */
    int drowsy;             /* it has told that it sleeps, or may */
    uint32_t spin;          /* failed polls before the thread yields */
    struct rt_board *board; /* its own */
    uint64_t posted_in;
    uint64_t posted_out;
    const struct kern_set *kern;
    const char **src; /* operands of the step under way: 256 */
    char **dst;
    char *blocks; /* packets and wire slots unpacked, RT_BLOCK for each source and one for the
                     result */

    struct rt_row *rows; /* in the table's order */
    uint32_t nrows;
    struct rt_sem_out *sem_out; /* [consumer][index] */
    struct rt_sem_in *sem_in;   /* [producer][index] */
    uint64_t *send_counts;      /* alltoallv: of each rank, in the call under way; NULL: no row */
    uint64_t *recv_counts;      /* has such blocks. What the others send */
    int bad_counts;             /* the caller's are beyond the blocks */
    uint32_t bad_sender;        /* whose are, as far as is known: the lowest; RT_NOBODY */
    struct rt_worker *worker;   /* NULL: everything is done in line */
    int crowded;                /* more threads than processors */
    struct rt_queue *queue;
    int lined; /* something is outstanding, or a thread sees to it: calls have to stand in line */

    struct peal_world *world;
    struct rt_far *far; /* NULL: no rank is on another host */
    peal_ctx *ctx;
    struct rt_layout layout;
    uint32_t timeout_ms;
    int private_buffers;
    int apart; /* some ranks of this host are other processes */
    uint64_t chaos;
    uint64_t cache_bytes;
    uint64_t heap_used;    /* from the bottom by peal_mem_alloc, from the top by staging */
    uint64_t staged_bytes; /* of one of the two areas for staged buffers */
    uint64_t staged_at;    /* in it: where this call's are, */
    uint64_t staged_turn;  /* and how far on those of the next */
    uint64_t part_bytes;   /* that a rank stages of a part; 0: calls are not cut */
    uint64_t part_moves;   /* of a message: from here on it is not, */
    uint64_t part_folds;   /* and of a reduction; as all ranks know it */
    uint32_t part;         /* of the call under way, in the order in which they are made */
    int backward;          /* it goes backwards (back.c) */
    int in_place;
    int gauges;               /* gauge.c: loads from the others are timed in the call under way; */
    uint64_t gauged[2];       /* ns a KiB, what it stages and the fastest of its loads; 0: none */
    uint64_t gauged_bytes[2]; /* of the last of these */
    int away;                 /* what is staged goes around this processor's caches */
    uint64_t dear;            /* ns a KiB that staging takes, of the slowest ranks; 0: unknown */
    uint32_t engines;
    uint32_t stand_ins;
    uint32_t packet_sources; /* most packets or wire slots one step reads */
    int failed;
    int claimed;   /* its board says which process it is, */
    int announced; /* and that it is there */
    uint64_t calls;
    uint64_t carried[PEAL_TRANSPORT_COUNT]; /* in the call under way, but by memory: bytes */
    int measures;
    uint64_t begun;      /* when the present call was, if so */
    uint32_t generation; /* of the table: how often it was to be replaced */

    struct rt_mark *trace; /* NULL: nothing is recorded */
    uint32_t trace_room;
    uint32_t trace_used;

    /* cross-memory attach */
    int attaches;            /* every rank reads every other's memory so */
    int attached;            /* in the call under way, those whose buffers say so are reached so */
    uint64_t attach_bytes;   /* of the message, from which on it is used where the heap is short, */
    uint64_t attach_moves;   /* in any case, */
    uint64_t attach_folds;   /* and for reductions; */
    int attach_chooses;      /* nobody has asked for these */
    int attach_early;        /* it is used for smaller ones, too, where staging is dear; */
    int attach_crowded;      /* or by what ranks that share processors do. As all ranks know it */
    uint32_t attach_sources; /* most sources of a step that may be elsewhere */
    uint32_t foreign;        /* RT_REACH_* of this call's own buffers that others attach to, */
    uint32_t posted_foreign; /* and of the last that was posted */
    uint32_t lost;           /* the rank whose memory could not be reached */
    char *bounce;            /* RT_ATTACH_PIECE for each source and one for the result */
    uint64_t probe;          /* what others read to find out whether they can */

    /* waiting long */
    uint64_t wait_start;
    uint64_t next_look;
    uint64_t last_ask;
    uint64_t pid_space;
};

#define RT_BLOCK 1024u /* payload bytes of a packet step handled at once */

struct rt_job;

struct peal_world {
    peal_ctx *ctx;
    struct rt_segment segment;
    struct rt_job *job; /* NULL: not joined */
    uint32_t timeout_ms;
    int private_buffers;
    uint64_t attach_bytes;
    uint64_t attach_moves;
    uint64_t attach_folds;
    uint64_t chaos;
    pthread_mutex_t lock; /* over the verification of a table that threads share, and users */
    uint32_t users;
};
/* One without a segment yet; released, not freed. */
peal_status rt_world_make(peal_ctx *ctx, struct peal_world **world, peal_diag *diag);
void rt_world_retain(struct peal_world *world);
void rt_world_release(struct peal_world *world);

/* ---- image.c: a table's programs for one rank */
peal_status rt_image_make(struct peal_comm *comm, const peal_table *table, peal_diag *diag);
void rt_image_free(struct peal_comm *comm);
/* The programs of another table beside those of `next`'s comm, whose copy it is; takes them in the
 * place of those, or drops them. */
peal_status rt_rows_make(struct peal_comm *next, const peal_table *table, peal_diag *diag);
void rt_rows_take(struct peal_comm *comm, const struct peal_comm *next);
void rt_rows_drop(struct peal_comm *next, const struct peal_comm *comm);

/* ---- observe.c */
void rt_trace_free(struct peal_comm *comm);
/* Records the lane's present step, which is over. */
void rt_trace_step(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                   uint64_t start);

/* ---- comm.c: proves a table, and finds out whether the world has room for it. */
peal_status rt_table_check(struct peal_world *world, peal_table *table, uint32_t rank,
                           struct peal_hash128 *digest, peal_diag *diag);

/* ---- geometry.c: what follows from a call's arguments */
peal_status rt_select(struct peal_comm *comm, struct rt_args args, struct rt_row **row,
                      peal_diag *diag);

/* Cuts the row's chunks out of elements [skip, skip + count) of every block. */
void rt_cut(struct rt_row *row, uint64_t skip, uint64_t count);

/* The row without what follows from the arguments. */
peal_status rt_find(const struct peal_comm *comm, struct rt_args args, struct rt_row **row,
                    peal_diag *diag);

/* ---- stage.c: private buffers; comm->in and out are the caller's */
peal_status rt_stage(struct peal_comm *comm, const struct rt_row *row, peal_diag *diag);
/* ARG where it would have to be and is not. */
peal_status rt_check_seen(const struct peal_comm *comm, const struct rt_row *row, peal_diag *diag);
void rt_unstage(struct peal_comm *comm, const struct rt_row *row);

/* ---- attach_when.c: which calls are attached to, but for those too large to be staged. May be, if
 * staging is dear; are, since it is; are, where ranks share processors. */
int rt_attach_early(const struct peal_comm *comm, const struct rt_row *row);
int rt_attach_dear(const struct peal_comm *comm, const struct rt_row *row);
int rt_attach_crowded(const struct peal_comm *comm, const struct rt_row *row);

/* ---- part.c: calls in parts */
/* Tells the others on which terms this rank cuts, before they are told that it is there; and, when
 * all have joined, finds out whether all cut alike, and attach early. */
void rt_parts_offer(struct peal_comm *comm);
void rt_parts_agree(struct peal_comm *comm);
/* Into how many parts a call of the row is cut. */
void rt_parts_learn(const struct peal_comm *comm, struct rt_row *row);
/* Lays the row out for a part. */
void rt_part_cut(struct rt_row *row, uint32_t part);

/* The one under way, as they lie. */
static inline uint32_t rt_part_at(const struct peal_comm *comm, const struct rt_row *row)
{
    return comm->backward ? row->parts - 1 - comm->part : comm->part;
}

/* ---- back.c: every second call goes backwards */
/* Both orders of a decoded row's steps. */
peal_status rt_back_make(const struct peal_comm *comm, struct rt_row *row);
void rt_back_free(peal_ctx *ctx, struct rt_row *row);
/* Whether calls of the row, as its arguments are, do so: the same on all ranks. */
void rt_back_learn(const struct peal_comm *comm, struct rt_row *row);
/* A call of the row begins, and has begun: the next one goes the other way. */
static inline void rt_back_begin(struct peal_comm *comm, struct rt_row *row, int in_place)
{
    comm->backward = row->backward & row->backs;
    row->steps = comm->backward && row->back && !in_place ? row->back : row->forth;
}
static inline void rt_back_turn(struct rt_row *row)
{
    row->backward ^= 1;
}
/* At least one byte. stream: around the caches. */
void rt_copy(const struct peal_comm *comm, char *to, const char *from, size_t bytes, int stream);

/* ---- carried.c: what a call has moved, by transport */
/* Bytes that a call of this row moves between this rank and others of its host. */
uint64_t rt_near_bytes(const struct peal_comm *comm, const struct rt_row *row);
/* Behind a call, which took so long; 0: not known. */
void rt_carried_end(struct peal_comm *comm, struct rt_row *row, uint64_t ns);

/* ---- gauge.c: whether ranks share a cache, and how large it is */
uint64_t rt_cache_bytes(void);
#define RT_GAUGE_BYTES 2048u
#define RT_GAUGE_EVERY 128u /* calls; what has been found out is taken in RT_GAUGE_TAKEN later */
#define RT_GAUGE_TAKEN 2u
/* A call with staged buffers begins: sees to `gauges` and `away`. */
void rt_gauge_begin(struct peal_comm *comm);
void rt_gauge_end(struct peal_comm *comm);
/* A load, or, of all that a call stages, the stores. Where nobody reads inputs: a store into
 * another's output, or, of all that was stored into this rank's, the loads. */
enum rt_gauge { RT_GAUGE_STORE, RT_GAUGE_LOAD };
static inline int rt_gauge_stores(const struct rt_row *row)
{
    return !(row->reach & RT_REACH_IN);
}
void rt_gauge_note(struct peal_comm *comm, enum rt_gauge what, uint64_t bytes, uint64_t ns);
/* rt_sm_move, timed. */
void rt_gauge_move(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                   const struct rt_step *step);

/* ---- vigil.c: waiting outside of calls */
struct rt_vigil {
    uint64_t deadline;
    uint64_t next_look;
    int joins;           /* the comm is being made; else its table is replaced */
    uint32_t missed;     /* a rank that has come to an end, RT_NOBODY */
    enum rt_reason fate; /* its */
};
struct rt_vigil rt_vigil_begin(const struct peal_comm *comm, int joins);
/* After a look in vain for what `rank` is to do; RT_NOBODY: all of them. OK: look again. Where one
 * of them has come to an end the world does, and at the deadline, unless the comm is being made. */
peal_status rt_vigil_look(struct peal_comm *comm, struct rt_vigil *vigil, uint32_t rank,
                          peal_diag *diag);

/* ---- attach.c: buffers that stay private and are read and written by the kernel */
#define RT_ATTACH_PIECE 32768u
/* Tells the others where to look, before they are told that this rank is there. */
void rt_attach_offer(struct peal_comm *comm);
/* When all have joined: finds out whether all reach all, the same answer on every rank. */
peal_status rt_attach_agree(struct peal_comm *comm, struct rt_vigil *vigil, peal_diag *diag);
peal_status rt_attach_buffer(struct peal_comm *comm, peal_diag *diag);
void rt_attach_free(struct peal_comm *comm);
/* A move or fold of sm some of whose operands may be in memory that is not mapped here. 0: a peer
 * could not be reached, comm->lost. */
int rt_attach_move(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                   const struct rt_step *step);

/* ---- ahead.c: how far a rank may be ahead of others */
#define RT_NO_WINDOW UINT32_MAX
/* By the size of the messages, how far, and where its packets are. */
void rt_ahead_learn(const struct peal_comm *comm, struct rt_row *row);
/* The head of a packet in the call under way. */
static inline rt_word *rt_ahead_head(const struct peal_comm *comm, const struct rt_operand *operand,
                                     uint32_t trip)
{
    const struct rt_ring *ring = operand->ring;
    return ring->heads + comm->stamp % RT_AHEAD_MOST +
           (trip ? trip % operand->depth * ring->trip_words : 0);
}
/* A call of the row begins: finds out whether others may be too far behind. */
void rt_ahead_begin(struct peal_comm *comm, const struct rt_row *row);
/* Looks again whether they still are; 0: comm->behind is. */
int rt_ahead_passed(struct peal_comm *comm, const struct rt_row *row);
/* Behind a call that all have entered: what they called before it, where nobody waited for anybody,
 * was the same. */
peal_status rt_ahead_compare(struct peal_comm *comm, peal_diag *diag);
/* Has the call ended, what follows is known of the others. */
static inline peal_status rt_ahead_end(struct peal_comm *comm, const struct rt_row *row,
                                       peal_diag *diag)
{
    if (row->ahead) {
        comm->unheard++;
        return PEAL_OK;
    }
    comm->over = comm->call - 1;
    return comm->unheard ? rt_ahead_compare(comm, diag) : PEAL_OK;
}

/* ---- numa.c: asks for memory of this processor's node, for what is this rank's of the segment */
void rt_numa_settle(const struct peal_comm *comm);

/* ---- doze.c: ranks that wait long */
/* Said once: others are told. Said again, nothing having moved: sleeps for a while. */
void rt_doze(struct peal_comm *comm);
/* Something has moved, for one that dozed. */
void rt_awake(struct peal_comm *comm);
/* Wakes the others that sleep. */
void rt_rouse(const struct peal_comm *comm);

/* ---- crowd.c: ranks that share processors */
/* Tells the others where this one runs. */
void rt_crowd_note(struct peal_comm *comm);
/* Whether who waits does not give way yet; and something has moved after it lingered. */
int rt_crowd_lingers(struct peal_comm *comm, struct rt_row *row);
void rt_crowd_moved(struct peal_comm *comm, struct rt_row *row);

/* ---- counts.c: alltoallv */
#define RT_BAD_COUNT UINT64_MAX /* told instead of a count that is too large */
peal_status rt_counts_make(struct peal_comm *comm);
void rt_counts_free(struct peal_comm *comm);
/* Takes the caller's counts, none beyond a block's `count`. */
void rt_counts_begin(struct peal_comm *comm, const size_t *send_counts, size_t count);
rt_word *rt_count_place(const struct peal_comm *comm, const struct rt_step *step);
uint64_t rt_count_told(const struct peal_comm *comm, uint32_t peer);
void rt_count_tell(const struct peal_comm *comm, const struct rt_step *step);
void rt_count_learn(struct peal_comm *comm, const struct rt_row *row, const struct rt_step *step);
/* Elements that a block of this rank's input or output has, of `count`. */
uint64_t rt_block_length(const struct peal_comm *comm, const struct rt_row *row, uint32_t block);

/* ---- exec.c: one call of a row; comm->in, out, call and digest are set */
peal_status rt_run(struct peal_comm *comm, struct rt_row *row, peal_diag *diag);
/* The same in parts: begins; goes as far as it can now; is told that nothing moved. */
struct rt_progress {
    int moved;
    uint32_t running; /* lanes that have not ended */
};
void rt_begin(struct peal_comm *comm, struct rt_row *row);
peal_status rt_pass(struct peal_comm *comm, struct rt_row *row, struct rt_progress *progress,
                    peal_diag *diag);
/* sleeps: gives the processor away. */
peal_status rt_idle(struct peal_comm *comm, const struct rt_row *row, int sleeps, peal_diag *diag);

/* ---- call.c: one call, as it begins and when all its lanes have ended */
struct rt_call {
    struct rt_args args;
    const void *in;
    void *out;
    const size_t *send_counts; /* alltoallv; else NULL */
    size_t *recv_counts;
};
peal_status rt_call_begin(struct peal_comm *comm, const struct rt_call *call, struct rt_row **row,
                          peal_diag *diag);
/* The caller's buffers against what the row does with them; *in_place as it knows it. */
peal_status rt_check_buffers(const struct rt_row *row, const void *in, const void *out,
                             int *in_place, peal_diag *diag);
/* The lanes have ended: has the call another part, that begins. */
peal_status rt_call_next(struct peal_comm *comm, struct rt_row *row, int *more, peal_diag *diag);
/* It has failed: behind this, the caller's buffers are left alone. */
void rt_call_cut(struct peal_comm *comm);
peal_status rt_call_end(struct peal_comm *comm, const struct rt_call *call, struct rt_row *row,
                        peal_diag *diag);

/* ---- pending.c: calls that were started */
struct rt_queue;
peal_status rt_queue_make(struct peal_comm *comm, peal_diag *diag);
/* What is outstanding ends with ABORTED. */
void rt_queue_free(struct peal_comm *comm);
/* Around what a caller looks at or changes beside calls: a thread of the comm's may be at it. */
void rt_queue_hold(const struct peal_comm *comm);
void rt_queue_leave(const struct peal_comm *comm);
/* Starts a call behind all others and waits for its end. */
peal_status rt_queue_call(struct peal_comm *comm, const struct rt_call *call, peal_diag *diag);

/* 1: a rank is known to be, or to have been, in another call of this one's number. */
int rt_calls_other(const struct peal_comm *comm, uint32_t rank);

/* ---- differ.c: what a call is, for others; and what the culprit's is, not the seer's ("allreduce
 * of 5 float32, max, not allreduce of 5 float32, sum"). 0: that is not known. */
void rt_tell_call(const struct peal_comm *comm, const struct rt_args *args);
#define RT_CALL_TEXT 96
/* An error is a mismatch: asks ranks of other hosts, and waits a little for their answers. */
void rt_calls_learn(struct peal_comm *comm, const struct rt_error *error);
int rt_calls_differ(const struct peal_comm *comm, const struct rt_error *error, char *text,
                    size_t size);

/* ---- engine_sm.c. 0: a packet has not arrived. -1: it carries another call's digest. */
void rt_sm_move(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                const struct rt_step *step);
int rt_sm_ahead(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                const struct rt_step *step);
int rt_sm_packet(struct peal_comm *comm, const struct rt_row *row, struct rt_lane *lane,
                 const struct rt_step *step);
/* pack, unpack, and folds of wire slots. */
void rt_sm_wire(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                const struct rt_step *step);
/* Bytes of `count` elements where a move finds them. */
static inline size_t rt_move_bytes(const struct rt_row *row, const struct rt_step *step,
                                   size_t count)
{
    return step->wire ? (size_t)peal_plan_wire_bytes(step->wire, count) : count * row->elem_bytes;
}
/* The next run of a step's chunks that lie side by side in every operand: their addresses into
 * comm->src and dst; gives the elements, 0 when no chunk is left. *nth counts the chunks. */
size_t rt_next_run(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                   const struct rt_step *step, uint32_t *nth);

/* ---- engine_copy.c: the engines that move while the lane goes on */
peal_status rt_worker_start(struct peal_comm *comm, peal_diag *diag);
/* Starts it for `comm` where the programs of `next` need one. */
peal_status rt_worker_need(struct peal_comm *comm, struct peal_comm *next, peal_diag *diag);
/* Finishes what is queued, then ends the thread. */
void rt_worker_stop(struct peal_comm *comm);
/* 0: no room, or the event's last transfer is under way: ask again. */
int rt_async_move(struct peal_comm *comm, const struct rt_row *row, struct rt_lane *lane,
                  const struct rt_step *step);
int rt_async_signal(struct peal_comm *comm, struct rt_lane *lane, const struct rt_step *step);

/* ---- wait.c: what happens when nothing happens */
struct rt_blocked {
    uint32_t lane;
    uint32_t step;
    uint32_t culprit; /* the rank waited for, RT_NOBODY */
    int ahead;        /* it is not waited for in this call, but too far behind */
};
/* Records the world's first error; a later one is dropped. */
void rt_fail(char *base, const struct rt_error *error);
/* Tells ranks of other hosts what has ended the world, whoever has recorded it. */
void rt_failure_pass(struct peal_comm *comm);
/* Has the world failed? Then the status of the first error, and its text in *diag. */
peal_status rt_failure(struct peal_comm *comm, peal_diag *diag);
/* The same for anybody, and PEAL_OK where it has not. */
peal_status rt_failure_now(const struct peal_comm *comm, peal_diag *diag);
/* After a poll in vain. An error when the wait is over in vain, too. */
peal_status rt_wait_more(struct peal_comm *comm, const struct rt_blocked *blocked, peal_diag *diag);
/* The same for a caller who has other things to do. */
peal_status rt_glance(struct peal_comm *comm, const struct rt_blocked *blocked, peal_diag *diag);
uint64_t rt_pid_space(void);
/* What has become of another rank, but for one that is stopped or silent; RT_FINE. */
enum rt_reason rt_fate(const struct peal_comm *comm, uint32_t rank);

/* ---- */
static inline int rt_world_failed(const struct peal_comm *comm)
{
    return atomic_load_explicit(&rt_head(comm->base)->state, memory_order_relaxed) != RT_ALIVE;
}

/* Behind what others may wait for. */
static inline void rt_rouse_any(const struct peal_comm *comm)
{
    if (atomic_load_explicit(&rt_head(comm->base)->sleepers, memory_order_relaxed))
        rt_rouse(comm);
}

static inline void rt_raise(rt_word *cell, uint32_t count, uint32_t digest)
{
    atomic_store_explicit(cell, (uint64_t)digest << 32 | count, memory_order_release);
}

#endif
