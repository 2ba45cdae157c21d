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
    FAR_LEFT, /* it has said so */
    FAR_GONE  /* it ended, or the network was cut */
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
    void (*store)(struct far_transport *self, uint32_t rank, uint64_t at, uint64_t word);
    void (*signal)(struct far_transport *self, uint32_t rank, uint32_t sem, uint32_t count,
                   uint32_t digest);

    /* A call has failed: behind this, the caller's buffers are left alone. */
    void (*cut)(struct far_transport *self);

    /* Of any thread. */
    void (*tell)(struct far_transport *self, const struct rt_error *error); /* to all */
    void (*ask)(struct far_transport *self); /* all, where they stand: into their boards */
    enum far_state (*state)(struct far_transport *self, uint32_t rank, uint64_t *heard_ns);
};

struct rt_far {
    peal_ctx *ctx;
    struct rt_job *job;
    struct far_transport *transport; /* to all far ranks */
    uint8_t *is_far;                 /* by rank */
    struct peal_comm *comm;          /* NULL: none is running */
    /* The output of the call under way, which peers may write: by the calling thread, for the
     * transport's. 0 bytes between calls. */
    _Atomic uint64_t out;
    _Atomic uint64_t out_bytes;
};

/* ---- far.c */
/* That no plan reaches a rank of another host but by what a network does. */
peal_status rt_far_check(const struct rt_job *job, const peal_table *table, peal_diag *diag);
/* Links with the ranks of other hosts; job->far stays NULL when there are none. */
peal_status rt_far_make(struct rt_job *job, peal_diag *diag);
void rt_far_free(struct rt_far *far);
peal_status rt_far_start(struct peal_comm *comm, peal_diag *diag);
void rt_far_stop(struct peal_comm *comm);

/* Makes a step that reaches a far rank one of kind RT_FAR, a semaphore's end far. */
void rt_far_mark(const struct peal_comm *comm, struct rt_row *row, struct rt_step *step);
/* As their namesakes of engine_copy.c: 0: no room. */
int rt_far_move(struct peal_comm *comm, const struct rt_row *row, struct rt_lane *lane,
                const struct rt_step *step);
int rt_far_signal(struct peal_comm *comm, struct rt_lane *lane, const struct rt_step *step);

static inline int rt_is_far(const struct peal_comm *comm, uint32_t rank)
{
    return comm->far && comm->far->is_far[rank];
}

static inline void rt_far_enter(struct peal_comm *comm, const struct rt_row *row)
{
    if (!comm->far)
        return;
    atomic_store_explicit(&comm->far->out, (uint64_t)(uintptr_t)comm->shared_out,
                          memory_order_relaxed);
    atomic_store_explicit(&comm->far->out_bytes, row->out_bytes, memory_order_release);
}

static inline void rt_far_leave(struct peal_comm *comm)
{
    if (comm->far)
        atomic_store_explicit(&comm->far->out_bytes, 0, memory_order_release);
}

/* Behind a call that has failed. */
static inline void rt_far_cut(struct peal_comm *comm)
{
    if (comm->far)
        comm->far->transport->cut(comm->far->transport);
}

/* Tells all hosts what has ended the world here. */
void rt_far_fail(struct peal_comm *comm, const struct rt_error *error);
void rt_far_ask(struct peal_comm *comm);
enum far_state rt_far_state(const struct peal_comm *comm, uint32_t rank, uint64_t *heard_ns);

/* ---- net.c: the transport over TCP; links[rank][sockets] are taken over, -1 where the rank is
 * near */
peal_status rt_net_make(struct rt_far *far, int *links, peal_diag *diag,
                        struct far_transport **transport);

#endif
