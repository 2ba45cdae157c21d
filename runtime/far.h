/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of other hosts. Every host maps a segment of one layout, so the offset in the segment
 * names a semaphore, a count or a scratch slot of any rank, on all hosts. The parts of far ranks
 * are never touched here: an address in them is a name, which a transport sends. The output of a
 * far rank, of which only that rank knows where it is, has a range of its own: FAR_OUT bytes
 * behind the segment's address, and on from there.
 *
 * A transport carries three things to a rank, and keeps their order: bytes to such a name (put), a
 * word (store), and a semaphore's new count (signal), which is raised once all that was put
 * before is in place.
 */
#ifndef PEAL_RUNTIME_FAR_H
#define PEAL_RUNTIME_FAR_H

#include "comm.h"
#include "job.h"

#define FAR_OUT (1ull << 60)

enum far_state {
    FAR_HERE,
    FAR_LEFT,   /* it has said so */
    FAR_GONE,   /* it ended, or the network was cut */
    FAR_BROKEN, /* a queue pair with it has failed */
    FAR_REFUSED /* because it does not let this rank write to its memory */
};

struct far_transport {
    /* All but `free` while `start` has succeeded and `stop` has not been called. */
    peal_status (*start)(struct far_transport *self, struct peal_comm *comm, peal_diag *diag);
    /* Carries what is under way to its end, and says good-bye. */
    void (*stop)(struct far_transport *self);
    void (*free)(struct far_transport *self);

    /* Of the calling thread of the comm; `room` for so many, else nothing is put. */
    int (*room)(struct far_transport *self, uint32_t rank, uint32_t items);
    /* The pieces' destinations are names. The event has been issued: unread and unwritten have
     * been counted up by one, and come down when sources may be reused, and when all is in
     * place. */
    void (*put)(struct far_transport *self, uint32_t rank, struct rt_event *event,
                struct rt_piece *pieces, uint32_t count);
    /* NULL, or counts a transfer of an event whose last one is not yet delivered: `moving` pieces
     * are put behind this. */
    void (*issue)(struct far_transport *self, struct rt_event *event, uint32_t moving);
    void (*store)(struct far_transport *self, uint32_t rank, uint64_t at, uint64_t word);
    void (*signal)(struct far_transport *self, uint32_t rank, uint32_t sem, uint32_t count,
                   uint32_t digest);

    /* While far->holds, what is put may wait for this. NULL: nothing waits. */
    void (*flush)(struct far_transport *self);

    /* NULL, or the calling thread, which waits or asks, takes what has come itself. 1: something
     * has. nap: NULL, or nobody else does meanwhile, and the calling thread sleeps until something
     * comes, but no longer than this. rest: it goes to do something else. */
    int (*listen)(struct far_transport *self);
    void (*nap)(struct far_transport *self, uint64_t ns);
    void (*rest)(struct far_transport *self);
    /* NULL, or acknowledgements that nobody was in a hurry for go out. */
    void (*pay)(struct far_transport *self);

    /* Of a call: its output, which peers may write, before peers are told of the call; and behind
     * that, when comm->stamp is the call's. NULL: `out` and `out_bytes` are enough. */
    peal_status (*enter)(struct far_transport *self, char *out, uint64_t bytes, peal_diag *diag);
    void (*offer)(struct far_transport *self);

    /* A call has failed: behind this, the caller's buffers are left alone. */
    void (*cut)(struct far_transport *self);

    /* Of any thread. */
    void (*tell)(struct far_transport *self, const struct rt_error *error); /* to all */
    void (*ask)(struct far_transport *self); /* all, where they stand: into their boards */
    enum far_state (*state)(struct far_transport *self, uint32_t rank, uint64_t *heard_ns);
};

/* Memory of a rank that is not the segment's, where what TCP brings from other hosts belongs: a
 * GPU's. All of the transport's receiving thread; names have been checked against the segment's
 * layout. 0: this end cannot, which is for it to tell. */
struct far_landing {
    /* Where the bytes of a data frame wait until all are there; NULL: nowhere. */
    char *(*room)(struct far_landing *self, uint32_t rank, uint32_t stream, uint64_t at,
                  uint32_t bytes);
    /* They are: takes them to their place, and returns when they are in it. */
    int (*land)(struct far_landing *self, uint32_t rank, uint32_t stream, uint32_t bytes);
    int (*store)(struct far_landing *self, uint64_t at, uint64_t word);
    int (*raise)(struct far_landing *self, uint32_t rank, uint32_t sem, uint64_t word);
    uint32_t sems; /* of each peer: the segment's, and what it has besides them */
};

/* What the calling thread puts while its lanes have their turn may wait a little, to leave
 * together. */
enum far_hold {
    FAR_HOLD_NOTHING,
    FAR_HOLD_PUTS, /* small ones, for the signal behind them */
    FAR_HOLD_ALL   /* until no lane can go on: of a call so small that no step takes long */
};
#define FAR_HOLD_BYTES (64u << 10) /* such a call's, */
#define FAR_PUT_BYTES (32u << 10)  /* and of a small put */

/* What this rank has sent to another: by the calling thread, for any. */
struct rt_sent {
    rt_word puts;
    rt_word bytes;
    rt_word signals;
    rt_word writes; /* of the transport: how often some of these went out together; 0: not known */
};

struct rt_far {
    peal_ctx *ctx;
    struct rt_job *job;
    struct rt_sent *sent;        /* by rank, */
    struct peal_hash128 *offers; /* and for replace.c */
    uint8_t *by_rdma;            /* by rank; else by TCP */
    char device[64];             /* this rank's, where any is */
    char why[128];               /* a clause: why not all are, where the plan asks for it */
    uint32_t links_rdma; /* of all ranks, of this world: links by either, each from both ends */
    uint32_t links_tcp;
    struct far_transport *transport; /* to all far ranks */
    struct far_transport *tcp;       /* the one over TCP, in it or itself: what it brings, lands */
    _Atomic(struct far_landing *) landing; /* here; NULL: in the segment */
    uint8_t *is_far;                       /* by rank, */
    uint8_t *missed;                       /* and whether the caller was told that it is lost */
    struct peal_comm *comm;                /* NULL: none is running */
    pthread_mutex_t asking;                /* over the next two */
    int can_ask;                           /* it has been made */
    int answers;       /* the transport is there to be asked where ranks stand, */
    uint64_t asked_ns; /* and was last */
    /* The output of the call under way, which peers may write: by the calling thread, for the
     * transport's. 0 bytes between calls. */
    _Atomic uint64_t out;
    _Atomic uint64_t out_bytes;
    enum far_hold holds; /* the calling thread's, as is the next */
    uint32_t news_seen;
    _Atomic uint32_t news; /* counts what peers have made happen here */
    _Atomic uint32_t sleeps;
};

/* ---- far.c */
/* That no plan reaches a rank of another host but by what a network does. */
peal_status rt_far_check(const struct rt_job *job, const peal_table *table, peal_diag *diag);
/* Links with the ranks of other hosts; job->far stays NULL when there are none. */
peal_status rt_far_make(struct rt_job *job, const peal_table *table,
                        const struct rt_segment *segment, peal_diag *diag);
/* How all ranks' links are, the same on all ranks. */
peal_status rt_far_census(struct rt_job *job, peal_diag *diag);
void rt_far_free(struct rt_far *far);
peal_status rt_far_start(struct peal_comm *comm, peal_diag *diag);
void rt_far_stop(struct peal_comm *comm);
/* The caller has been told that a rank is lost. */
void rt_far_miss(struct peal_comm *comm, uint32_t rank);
/* Since `since` leave is taken: 1: one that is missed has not been heard of in a fair time. */
int rt_far_deserted(const struct rt_far *far, uint32_t rank, uint64_t since, uint64_t heard);
/* The comm did not come as far as rt_far_start, and others may have. */
void rt_far_give_up(const struct peal_comm *comm);

/* Makes a step that reaches a far rank one of kind RT_FAR, a semaphore's end far. */
void rt_far_mark(const struct peal_comm *comm, struct rt_row *row, struct rt_step *step);
/* far_ease.c: behind all steps of a lane. */
void rt_far_ease(const struct peal_comm *comm, const struct peal_plan *plan, struct rt_row *row,
                 const struct rt_lane *lane);
/* As their namesakes of engine_copy.c: 0: no room. */
int rt_far_move(struct peal_comm *comm, const struct rt_row *row, struct rt_lane *lane,
                const struct rt_step *step);
int rt_far_signal(struct peal_comm *comm, struct rt_lane *lane, const struct rt_step *step);

static inline int rt_is_far(const struct peal_comm *comm, uint32_t rank)
{
    return comm->far && comm->far->is_far[rank];
}

/* 1: what `engine` is to do between two ranks, it does itself here. */
int rt_far_does(const struct peal_comm *comm, uint32_t rank, uint32_t other, uint8_t engine);

static inline peal_status rt_far_enter(struct peal_comm *comm, const struct rt_row *row,
                                       peal_diag *diag)
{
    if (!comm->far)
        return PEAL_OK;
    atomic_store_explicit(&comm->far->out, (uint64_t)(uintptr_t)comm->shared_out,
                          memory_order_relaxed);
    atomic_store_explicit(&comm->far->out_bytes, row->out_bytes, memory_order_release);
    struct far_transport *via = comm->far->transport;
    return via->enter ? via->enter(via, comm->shared_out, row->out_bytes, diag) : PEAL_OK;
}

/* The call has its number. */
static inline void rt_far_offer(struct peal_comm *comm)
{
    if (comm->far && comm->far->transport->offer)
        comm->far->transport->offer(comm->far->transport);
}

/* The lanes have their turn, and have had it. */
static inline void rt_far_hold(struct peal_comm *comm, const struct rt_row *row)
{
    if (comm->far)
        comm->far->holds = row->message_bytes <= FAR_HOLD_BYTES ? FAR_HOLD_ALL : FAR_HOLD_PUTS;
}

static inline void rt_far_flush(struct peal_comm *comm)
{
    if (!comm->far)
        return;
    comm->far->holds = FAR_HOLD_NOTHING;
    if (comm->far->transport->flush)
        comm->far->transport->flush(comm->far->transport);
}

static inline void rt_far_leave(struct peal_comm *comm)
{
    if (!comm->far)
        return;
    atomic_store_explicit(&comm->far->out_bytes, 0, memory_order_release);
    if (comm->far->transport->rest)
        comm->far->transport->rest(comm->far->transport);
}

/* The calling thread has waited in vain: whether something has come that it has now taken. */
static inline int rt_far_listen(const struct peal_comm *comm)
{
    return comm->far && comm->far->transport->listen &&
           comm->far->transport->listen(comm->far->transport);
}
/* 1: while it waits, it does so alone. */
static inline int rt_far_alone(const struct peal_comm *comm)
{
    return comm->far && comm->far->transport->nap;
}

/* Behind a call that has failed. */
static inline void rt_far_cut(struct peal_comm *comm)
{
    if (comm->far)
        comm->far->transport->cut(comm->far->transport);
}

/* ---- far_nap.c: the calling thread's sleep while other hosts take their time */
/* The transport's threads: something came that the calling thread may wait for. */
void rt_far_news(struct rt_far *far);
/* The calling thread, between two polls in vain: sleeps until there is news since the last time,
 * but not longer than a part of what it has waited. */
void rt_far_nap(struct rt_far *far, uint64_t waited_ns);

/* ---- far.c */
/* Tells all hosts what has ended the world here. comm: the one that is running, or a copy. */
void rt_far_fail(struct peal_comm *comm, const struct rt_error *error);
void rt_far_ask(struct peal_comm *comm);
/* The same of anybody who may look at the boards: not too often, nor when none is running. */
void rt_far_wonder(struct rt_far *far);
enum far_state rt_far_state(const struct peal_comm *comm, uint32_t rank, uint64_t *heard_ns);

/* Counts a transfer or, with `bytes` 0, a signal to a rank. */
void rt_far_sent(struct rt_far *far, uint32_t rank, uint64_t bytes);

/* ---- net.c: the transport over TCP; links[rank][sockets] are taken over, -1 where the rank is
 * near */
peal_status rt_net_make(struct rt_far *far, int *links, peal_diag *diag,
                        struct far_transport **transport);
/* Of one that will not be started: peers see that this rank is gone. */
void rt_net_hang_up(struct far_transport *self);
/* Of one that is not all that the calling thread listens to. */
void rt_net_beside(struct far_transport *self);

/* ---- rdma_join.c: links over RDMA, agreed on over those of TCP, which are as they were behind
 * it; for rt_rdma_around. *made stays NULL where no peer is reached so. */
struct rdma;
struct rt_rdma_ask {
    const peal_table *table;
    const struct rt_segment *segment;
    int *links; /* as of rt_net_make */
};
peal_status rt_rdma_link(struct rt_far *far, const struct rt_rdma_ask *ask, struct rdma **made,
                         peal_diag *diag);
/* ---- rdma.c: the transport around the one over TCP, which it takes over */
struct far_transport *rt_rdma_around(struct rdma *rdma, struct far_transport *tcp);
void rt_rdma_drop(struct rdma *rdma); /* NULL is fine */

#endif
