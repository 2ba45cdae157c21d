/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device kernel is given: the image of a rank's programs, the memory that ranks show each
 * other, the counters that outlive a call, and the arguments of one call. Read by nvcc and by C
 * compilers; made by runtime/device_image.c. See docs/device.md.
 *
 * Numbers are in the device's byte order, which is the host's; addresses are 64 bits and those of
 * the rank's own address space. An image holds no address: it may lie anywhere, aligned to 8.
 *
 * image: constant, of one rank and table: dev_image, dev_row[], lanes, steps, operands, prefixes.
 *
 * arena: of each rank, read and written by others: board, semaphores, counts, packets, scratch.
 *
 * state: of each rank alone, advanced by the kernel: call number, counts of semaphores, events.
 *
 * port: pinned host memory: abort flag, report, rings of orders to the host (dev_ring.h).
 */
#ifndef PEAL_RUNTIME_DEVICE_IMAGE_H
#define PEAL_RUNTIME_DEVICE_IMAGE_H

#include <stdint.h>

#define DEV_MAGIC 0x6c706564u /* "depl", little endian */
#define DEV_VERSION 1u
#define DEV_LINE 128u
#define DEV_LANES 64u
#define DEV_EVENTS 16u
#define DEV_NO_EVENT 0xffu
#define DEV_NOBODY 0xffffffffu
#define DEV_OPERANDS 256u /* of a step, sources and destinations each */

/* ---- the arena of one rank; all offsets are from its start and equal on all ranks */
struct dev_layout {
    uint32_t nranks;
    uint32_t nsems;        /* of an ordered pair of ranks */
    uint64_t count_bytes;  /* of one parity: a word from each rank, where counts are told */
    uint64_t packet_bytes; /* of one parity */
    uint64_t scratch_bytes;
    uint64_t sems;   /* [producer][index], a line each; the board is at 0 */
    uint64_t counts; /* [parity][producer], words */
    uint64_t packets;
    uint64_t scratch;
    uint64_t total;
};

/* Where this call's buffers are, less the address of the owner's window (dev_peer). */
struct dev_board {
    uint64_t in;
    uint64_t out;
};

/* ---- programs */

enum dev_kind {
    DEV_MOVE,   /* sm: one source, nothing folded */
    DEV_FOLD,   /* sm */
    DEV_PACKET, /* sm, with a packet among its operands */
    DEV_WIRE,   /* sm: pack, unpack, or a fold with a wire slot among its sources */
    DEV_BULK,   /* tma: by the kernel */
    DEV_HAND,   /* ce, rdma, staged, tcp: an order to the host */
    DEV_SIGNAL, /* by the kernel */
    DEV_HAND_SIGNAL,
    DEV_WAIT,
    DEV_AWAIT,
    DEV_TELL, /* as the two signals, and the wait, with a count */
    DEV_HAND_TELL,
    DEV_LEARN,
    DEV_POST, /* ibgda: the lane posts to a NIC, */
    DEV_POST_SIGNAL,
    DEV_POST_TELL
};

/* Own output in chunks that peers reach, too, lies where they reach it. */
enum dev_place {
    DEV_OWN_IN,
    DEV_OWN_OUT,
    DEV_SHARED_OUT,
    DEV_SHARED_IN, /* own input, of a step that reaches it as peers do */
    DEV_PEER_IN,
    DEV_PEER_OUT,
    DEV_SLOT,   /* of scratch */
    DEV_PACKETS /* a packet slot */
};

struct dev_operand {
    uint8_t place;  /* enum dev_place */
    uint8_t wire;   /* PLAN_WIRE_*: what the slot holds */
    uint16_t depth; /* of slots: trip t is at (t mod depth) x trip_bytes */
    uint32_t rank;  /* whose memory */
    /* Slots: of the even calls' copy in the arena. In and out: blocks from the chunk's place in the
     * message to the one in the buffer, modulo 2^64. */
    uint64_t at;
    uint64_t trip_bytes;
};

#define DEV_FOLDS 1u     /* the sources are folded */
#define DEV_FINAL 2u     /* avg divides here */
#define DEV_DELIVERED 4u /* await: delivered, not source free */
#define DEV_GROUP_STORE                                                                            \
    16u /* the destinations are one place of each rank of a group: the switch may store */
#define DEV_GROUP_LOAD 32u /* the sources are: it may fold */
#define DEV_FAR 8u         /* an operand is of a rank that is not reached directly */

/* alltoallv, whose chunk's block has a length: 0 none, else twice a rank, 1 for what this rank
 * sends to it, 2 for what it gets from it. */
#define DEV_LIMIT_SENDS(rank) (2u * (rank) + 1u)
#define DEV_LIMIT_GETS(rank) (2u * (rank) + 2u)

struct dev_step {
    uint8_t kind; /* enum dev_kind */
    uint8_t engine;
    uint8_t event; /* data steps of asynchronous engines, await */
    uint8_t flags;
    uint8_t nsrc; /* put_reduce and get_reduce have two here: the destination comes first */
    uint8_t ndst;
    uint8_t after; /* signal: the event it follows, or DEV_NO_EVENT */
    uint8_t wire;  /* a move between wire slots: their format */
    uint32_t lag;
    uint32_t chunk;
    uint32_t more;     /* chunks moved besides, */
    uint32_t stride;   /* so far apart; */
    uint32_t operands; /* nsrc + ndst of them for each chunk: index in the row's */
    uint32_t peer;
    uint32_t sem;      /* peer x nsems + index */
    uint32_t fixed;    /* wait: how many waits a call has on this semaphore, */
    uint32_t per_trip; /* and for each trip */
    uint32_t limit;    /* DEV_LIMIT_* */
    uint32_t block;    /* of the chunk: where that begins, in blocks */
};

struct dev_lane {
    uint32_t first; /* steps of the row: pre, body, post */
    uint32_t body;
    uint32_t post;
    uint32_t last;
};

/* Offsets are from the image's start, in bytes. */
struct dev_row {
    uint64_t id[2]; /* the plan's */
    uint64_t max_bytes;
    uint64_t tile_bytes;
    uint64_t lanes;
    uint64_t steps;
    uint64_t operands;
    uint64_t prefix; /* nchunks + 1 running sums of weights, 32 bits each; 0: equal weights */
    uint32_t collective;
    uint32_t blocks; /* of the message */
    uint32_t nchunks;
    uint32_t nlanes; /* thread blocks of the launch */
    uint32_t nsteps;
    uint32_t noperands;
    uint32_t counted; /* alltoallv */
    uint32_t engines; /* 1 << engine that this rank's steps name */
};

struct dev_image {
    uint32_t magic;
    uint32_t version;
    uint32_t rank;
    uint32_t nranks;
    uint32_t nrows; /* dev_row[] behind this header */
    uint32_t zero;
    uint64_t bytes;
    struct dev_layout layout;
};

/* ---- state: zeroed once, then the kernel's alone */

struct dev_sem_out {
    uint32_t sent;   /* issued; counts for ever, modulo 2^32 */
    uint32_t handed; /* 1 + lane: it gave the last one to the host, which says when it is raised */
};

struct dev_sem_in {
    uint32_t count; /* waits so far, over all calls */
    uint32_t call;  /* stamp of the call for which the next two hold */
    uint32_t base;  /* count at its start */
    uint32_t end;   /* and at its end: counts in (base, end] were raised by this call */
};

/* The transfers of an event, over all calls: at most one is under way. */
struct dev_event {
    uint32_t issued;
    uint32_t handed; /* who has the last one: DEV_OWN, DEV_HOST, DEV_NIC */
    uint32_t peer;   /* DEV_NIC: of which the queue is, */
    uint32_t posted; /* and its entries then */
};
enum dev_mover { DEV_OWN, DEV_HOST, DEV_NIC };

struct dev_state {
    uint64_t call;       /* number of the call under way or, between calls, of the next */
    uint32_t arrived;    /* lanes that have ended */
    uint32_t bad_sender; /* the lowest rank whose counts are beyond the blocks, or DEV_NOBODY */
    uint32_t failed;     /* nothing runs any more */
    uint32_t zero;
    uint32_t tail[DEV_LANES]; /* orders to the host so far, of each lane */
    uint64_t events;      /* offsets from the state's start: dev_event[DEV_LANES][DEV_EVENTS], */
    uint64_t sem_out;     /* [consumer][index], */
    uint64_t sem_in;      /* [producer][index], */
    uint64_t recv_counts; /* 64 bits each */
    uint64_t total;
};

/* Fills in a state's header; everything else of its `total` bytes is zero. */
static inline void dev_state_layout(struct dev_state *state, uint32_t nranks, uint32_t nsems)
{
    uint64_t cells = (uint64_t)nranks * nsems;
    state->call = 1;
    state->arrived = state->failed = state->zero = 0;
    state->bad_sender = DEV_NOBODY;
    for (uint32_t i = 0; i < DEV_LANES; i++)
        state->tail[i] = 0;
    state->events = (sizeof *state + DEV_LINE - 1) / DEV_LINE * DEV_LINE;
    state->sem_out = state->events + DEV_LANES * DEV_EVENTS * sizeof(struct dev_event);
    state->sem_in = state->sem_out + cells * sizeof(struct dev_sem_out);
    state->recv_counts = state->sem_in + cells * sizeof(struct dev_sem_in);
    state->total = state->recv_counts + (uint64_t)nranks * 8;
}

/* ---- a rank, in device memory: the same for all its calls */

/* Where this rank reaches another's memory; 0: it does not, orders to the host name it. */
struct dev_peer {
    uint64_t arena;
    uint64_t window; /* what its board's addresses are relative to: in one process 0 may do */
};

/* ---- a NIC that the kernel posts to (dev_mlx5.h) */

/* A queue pair of a lane and a peer: of one thread. */
struct dev_mlx5_queue {
    uint64_t entries;  /* address of the send queue */
    uint64_t record;   /* of the doorbell record's send half: 32 bits, big-endian */
    uint64_t doorbell; /* of the doorbell register: 64 bits */
    uint64_t done;     /* of the completion queue: entries of 64 bytes */
    uint64_t taken;    /* of its doorbell record: 32 bits, big-endian. 0: nobody asks */
    uint32_t number;   /* of the queue pair, 24 bits */
    uint32_t blocks;   /* of the send queue, a power of two */
    uint32_t cqes;     /* of the completion queue: at least twice that, or 1: collapsed */
    uint32_t posted;   /* entries so far, modulo 2^32, */
    uint32_t told;     /* and those whose completions the NIC was told to be taken */
    uint32_t zero;
};

/* What a NIC calls another's arena. */
struct dev_far {
    uint64_t arena;
    uint32_t key;
    uint32_t zero;
};

/* Of peal_dev_work: products of tiles of DEV_TILE x DEV_TILE floats. */
#define DEV_TILE 32u
struct dev_work {
    uint64_t tiles;
    uint64_t sink; /* where to what nobody reads would go */
};

#define DEV_RANK_BULK 1u /* the kernel may use bulk copies: sm_90 and later */

struct dev_rank {
    uint64_t image; /* addresses */
    uint64_t state;
    uint64_t peers;            /* dev_peer[nranks], its own among them */
    uint64_t port;             /* struct dev_port, pinned */
    uint64_t multicast;        /* the arenas of all ranks as one, by the switch; 0: none */
    uint64_t multicast_window; /* their windows likewise */
    uint64_t multicast_bytes;  /* bound to it, from the arenas' begin on */
    uint64_t queues;           /* ibgda: dev_mlx5_queue[lanes][nranks]; 0: none */
    uint64_t fars;             /* dev_far[nranks], its own among them: the key of its memory */
    uint32_t rank;
    uint32_t nranks;
    uint32_t flags;       /* DEV_RANK_* */
    uint32_t stages;      /* of the pipeline through shared memory; 0: none */
    uint32_t stage_bytes; /* a multiple of 128 */
    uint32_t zero;
};

/* ---- a call: the kernel's one argument, by value. A graph that was captured replays it: nothing
 * in it changes from one call to the next. */
struct dev_call {
    uint64_t rank; /* address of the struct dev_rank */
    uint64_t in;
    uint64_t out;
    uint64_t shared_in; /* the same, or where they are staged for peers; what the board tells */
    uint64_t shared_out;
    uint64_t count;       /* elements of a block */
    uint64_t key;         /* peal_dev_key: digest of the call but for its number */
    uint64_t send_counts; /* alltoallv: 64-bit numbers that the kernel reads, */
    uint64_t recv_counts; /* and writes; 0: none */
    uint32_t row;
    uint32_t dtype;   /* peal_dtype, or DEV_E4M3, DEV_E5M2 */
    uint32_t op;      /* peal_op */
    uint32_t divisor; /* avg: contributions; else 0 */
    uint32_t trips;   /* of the bodies, which follow from row, count and type */
    uint32_t zero;
};

/* Types that the kernel folds besides those of peal_dtype. */
#define DEV_E4M3 10u
#define DEV_E5M2 11u
#define DEV_DTYPES 12u

/* The launch: `nlanes` blocks of the row, all resident at once, of a multiple of 32 threads, at
 * most DEV_THREADS; dynamic shared memory of dev_shared_bytes. */
#define DEV_THREADS 256u
static inline uint64_t dev_shared_bytes(uint32_t stages, uint32_t stage_bytes)
{
    return stages ? 128u + (uint64_t)stages * stage_bytes : 0;
}

#endif
