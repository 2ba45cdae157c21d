/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port: pinned host memory through which the kernel of a rank and the host speak.
 *
 * The kernel hands steps of the engines ce, rdma, staged and tcp to the host as orders: a ring for
 * each lane, one producer (the lane's first thread), one consumer (a thread of the host). The
 * kernel fills an order and then stores its first eight bytes, `turn` among them (release, system
 * scope); the host finds order n of a lane in orders[lane][n % DEV_ORDERS], once its turn is n + 1
 * (acquire), takes a copy, and stores n + 1 to head[lane] (release), whereupon the place may be
 * filled again. It has to take orders at any time, also while earlier ones are under way: a lane
 * waits for room.
 *
 * DEV_ORDER_MOVE  moves bytes. The pieces of one transfer follow each other, all but the last
 *     marked DEV_ORDER_MORE; their order in time is the engine's. When all sources are read,
 *     the host stores `number` to freed[lane][event]; when all are delivered to the destinations'
 *     ranks, to delivered[lane][event] (both release, in this order). bytes may be 0 in a piece
 *     that stands alone: it is delivered at once.
 * DEV_ORDER_SIGNAL  raises a semaphore: the word (digest << 32 | count) at offset dst of rank
 *     dst_rank's arena, with release, behind the delivery to that rank of transfer `number` of
 *     `event` (DEV_NO_EVENT: behind nothing). Orders of one semaphore are raised in the order of
 *     the ring, also across calls; another lane's comes only when the last one is raised. Then
 *     `count` is stored to raised[sem] (release).
 *
 * DEV_ORDER_STORE  stores the 64-bit word `src` at offset dst of dst_rank's arena, before the next
 *     signal order of the same lane to the same rank is raised.
 *
 * What the kernel reaches itself is given as an address; what is of a rank that it does not, by
 * rank and offset: in its arena, or in the buffers of the call under way there, which that rank
 * resolves. Counts of transfers and semaphores go on from call to call.
 *
 * `abort` is the host's: not 0 lets all waits of the kernel end; the call's result is then not
 * valid, nor is the comm. The host sets it when what it was given is over and nothing more will be
 * taken; a kernel that has failed by itself reports that, and does not end before. `report.status`
 * is 0, or says what the kernel found (DEV_REPORT_*).
 */
#ifndef PEAL_RUNTIME_DEVICE_RING_H
#define PEAL_RUNTIME_DEVICE_RING_H

#include "image.h"

#ifndef DEV_ORDERS
#define DEV_ORDERS 64u /* of a lane; the tests have fewer */
#endif

enum dev_order_kind { DEV_ORDER_MOVE = 1, DEV_ORDER_SIGNAL = 2, DEV_ORDER_STORE = 3 };
#define DEV_ORDER_MORE 1u

enum dev_space {
    DEV_AT_ADDRESS, /* of this rank's address space */
    DEV_AT_ARENA,   /* offset in the arena of the rank */
    DEV_AT_IN,      /* offset in its buffers of the same call */
    DEV_AT_OUT
};

struct dev_order {
    uint32_t turn; /* stored last */
    uint8_t kind;
    uint8_t engine; /* peal_engine */
    uint8_t event;
    uint8_t flags; /* DEV_ORDER_MORE */
    uint8_t src_space;
    uint8_t dst_space;
    uint16_t zero;
    uint32_t number; /* move: of this transfer; signal: of the one it follows */
    uint32_t src_rank;
    uint32_t dst_rank;
    uint64_t src;
    uint64_t dst;
    uint64_t bytes;  /* move */
    uint32_t count;  /* signal: the count it makes, */
    uint32_t digest; /* and the half above it */
    uint32_t sem;    /* signal: index into raised[] */
    uint32_t call;   /* the call's stamp */
};

enum dev_report_status {
    DEV_REPORT_FINE,
    DEV_REPORT_MISMATCH, /* a peer makes another call */
    DEV_REPORT_ABORTED,  /* a wait ended by the abort flag */
    DEV_REPORT_BROKEN    /* the queue pair with a peer ended in an error */
};

struct dev_report {
    uint32_t status; /* stored last; the first report stays */
    uint32_t culprit;
    uint32_t lane;
    uint32_t step; /* counted from the lane's first */
    uint32_t call;
    uint32_t taken; /* a lane is writing */
};

/* Where the first thread of a lane waits, once it has for long: for people. */
struct dev_stuck {
    uint32_t call; /* stamp; 0: nowhere yet */
    uint32_t step;
};

/* The output of the call under way, in one word: how far into the rank's arena it begins, and above
 * that the lower bits of the call's stamp. Of no meaning where the output lies elsewhere. */
#define DEV_PLACE_BITS 48
#define DEV_PLACE(stamp, offset)                                                                   \
    ((uint64_t)((stamp)&0xffffu) << DEV_PLACE_BITS | ((offset) & ((1ull << DEV_PLACE_BITS) - 1)))

struct dev_port {
    uint32_t abort;      /* written by the host, read by the kernel */
    uint32_t bad_sender; /* alltoallv, written when a call ends: a rank, or DEV_NOBODY */
    uint32_t done;       /* stamp of the last call that has ended, stored by the kernel */
    uint32_t begun;      /* and of the last that has begun */
    uint64_t place;      /* DEV_PLACE, for ranks that do not read the board; by the kernel */
    struct dev_report report;
    struct dev_stuck stuck[DEV_LANES]; /* by the kernel */
    uint32_t head[DEV_LANES];          /* by the host */
    uint32_t freed[DEV_LANES][DEV_EVENTS];
    uint32_t delivered[DEV_LANES][DEV_EVENTS];
    struct dev_order orders[DEV_LANES][DEV_ORDERS];
    /* uint32_t raised[nranks x nsems] behind it, [consumer][index] */
};

static inline uint64_t dev_port_bytes(uint32_t nranks, uint32_t nsems)
{
    return sizeof(struct dev_port) + (uint64_t)nranks * nsems * 4;
}

#endif
