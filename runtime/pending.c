/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that were started and not yet waited for. They stand in line: calls of a comm are numbered,
 * and the next begins when the one before has ended on this rank. Who asks for one of them, or the
 * comm's own thread, goes on with the first in line.
 *
 * With such a thread the comm is its, between taking and leaving the lock; callers only put into
 * the line and look at states. Without one there is nobody else, and nobody takes the lock.
 */
#include "clock.h"
#include "far.h"

#include <sched.h>
#include <string.h>

enum state { IDLE, STANDING, DONE };

struct peal_pending {
    peal_ctx *ctx;
    struct peal_comm *comm; /* NULL: it is gone */
    struct rt_call call;
    struct rt_row *row; /* NULL: not begun */
    struct peal_pending *next;
    struct peal_pending *sibling; /* in the comm's list of all */
    rt_half state;                /* enum state */
    peal_status status;           /* DONE: how it ended, */
    peal_diag diag;               /* and what there is to say */
};

struct rt_queue {
    struct peal_pending *head;
    struct peal_pending *tail;
    struct peal_pending *all;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something came into the line, or an end */
    rt_half asking;         /* callers who want the lock */
    int threaded;
    int stop;
    pthread_t thread;
};

/* ---- the line; the lock is held */

static void finish(struct peal_comm *comm, peal_status status)
{
    struct rt_queue *queue = comm->queue;
    struct peal_pending *first = queue->head;
    queue->head = first->next;
    first->status = status;
    atomic_store_explicit(&first->state, DONE, memory_order_release);
    if (!queue->threaded) /* else it stays, and callers may look at it */
        comm->lined = queue->head != NULL;
}

/* Who only asks now and then takes what has come from other hosts at once. */
static peal_status pass(struct peal_comm *comm, struct rt_row *row, int sleeps,
                        struct rt_progress *progress, peal_diag *diag)
{
    PEAL_TRY(rt_pass(comm, row, progress, diag));
    if (sleeps || progress->moved || !progress->running || !rt_far_listen(comm))
        return PEAL_OK;
    return rt_pass(comm, row, progress, diag);
}

/* One step of the first in line. *moved: there was something to do. */
static peal_status step(struct peal_comm *comm, struct peal_pending *first, int *moved, int sleeps)
{
    struct rt_progress progress;
    peal_diag *diag = &first->diag;
    if (!first->row) {
        struct rt_row *row = NULL;
        PEAL_TRY(rt_call_begin(comm, &first->call, &row, diag));
        rt_begin(comm, row);
        first->row = row;
    }
    PEAL_TRY(pass(comm, first->row, sleeps, &progress, diag));
    *moved |= progress.moved;
    if (progress.running) {
        if (!progress.moved)
            PEAL_TRY(rt_idle(comm, first->row, sleeps, diag));
        return PEAL_AGAIN;
    }
    int more;
    *moved = 1;
    PEAL_TRY(rt_call_next(comm, first->row, &more, diag));
    if (!more)
        return rt_call_end(comm, &first->call, first->row, diag);
    rt_begin(comm, first->row);
    return PEAL_AGAIN;
}

static peal_status try_step(struct peal_comm *comm, struct peal_pending *first, int *moved,
                            int sleeps)
{
    peal_status status = step(comm, first, moved, sleeps);
    if (status != PEAL_OK && status != PEAL_AGAIN && first->row)
        rt_call_cut(comm);
    return status;
}

/* Goes on as far as it can. sleeps: gives the processor away once when nothing moves. */
static int advance(struct peal_comm *comm, int sleeps)
{
    struct rt_queue *queue = comm->queue;
    int moved = 0;
    while (queue->head) {
        peal_status status = try_step(comm, queue->head, &moved, sleeps);
        if (status == PEAL_AGAIN)
            break;
        finish(comm, status);
        moved = 1;
    }
    return moved;
}

static void put(struct peal_comm *comm, struct peal_pending *pending)
{
    struct rt_queue *queue = comm->queue;
    pending->next = NULL;
    pending->row = NULL;
    pending->diag = (peal_diag)PEAL_DIAG_INIT;
    atomic_store_explicit(&pending->state, STANDING, memory_order_relaxed);
    if (queue->head)
        queue->tail->next = pending;
    else
        queue->head = pending;
    queue->tail = pending;
    comm->lined = 1;
}

static void take_lock(struct rt_queue *queue)
{
    atomic_fetch_add_explicit(&queue->asking, 1, memory_order_relaxed);
    (void)pthread_mutex_lock(&queue->lock);
    atomic_fetch_sub_explicit(&queue->asking, 1, memory_order_relaxed);
}

void rt_queue_hold(const struct peal_comm *comm)
{
    if (comm->queue->threaded)
        take_lock(comm->queue);
}

void rt_queue_leave(const struct peal_comm *comm)
{
    if (comm->queue->threaded)
        (void)pthread_mutex_unlock(&comm->queue->lock);
}

/* ---- the thread */

/* Gives the lock to whoever wants it behind each pass: in one it may nap. */
static void *progress_main(void *argument)
{
    struct peal_comm *comm = argument;
    struct rt_queue *queue = comm->queue;
    (void)pthread_mutex_lock(&queue->lock);
    while (!queue->stop || queue->head) {
        const struct peal_pending *before = queue->head;
        if (!before) {
            (void)pthread_cond_wait(&queue->changed, &queue->lock);
            continue;
        }
        do
            (void)advance(comm, 1);
        while (queue->head == before &&
               !atomic_load_explicit(&queue->asking, memory_order_relaxed));
        if (queue->head != before)
            (void)pthread_cond_broadcast(&queue->changed);
        if (!atomic_load_explicit(&queue->asking, memory_order_relaxed))
            continue;
        (void)pthread_mutex_unlock(&queue->lock);
        (void)sched_yield();
        (void)pthread_mutex_lock(&queue->lock);
    }
    (void)pthread_mutex_unlock(&queue->lock);
    return NULL;
}

static void end_thread(struct peal_comm *comm)
{
    struct rt_queue *queue = comm->queue;
    take_lock(queue);
    queue->stop = 1;
    (void)pthread_cond_broadcast(&queue->changed);
    (void)pthread_mutex_unlock(&queue->lock);
    (void)pthread_join(queue->thread, NULL);
    queue->threaded = queue->stop = 0;
    comm->lined = queue->head != NULL;
}

peal_status peal_comm_thread(peal_comm *comm, int on, peal_diag *diag)
{
    if (!comm)
        return peal_fail(diag, PEAL_ERR_ARG, "no comm");
    struct rt_queue *queue = comm->queue;
    if (!!on == queue->threaded)
        return PEAL_OK;
    if (!on) {
        end_thread(comm);
        return PEAL_OK;
    }
    queue->threaded = comm->lined = 1;
    if (pthread_create(&queue->thread, NULL, progress_main, comm) == 0)
        return PEAL_OK;
    queue->threaded = 0;
    comm->lined = queue->head != NULL;
    return peal_fail(diag, PEAL_ERR_MEMORY, "no thread for the comm's progress");
}

/* ---- a comm's line */

peal_status rt_queue_make(struct peal_comm *comm, peal_diag *diag)
{
    struct rt_queue *queue = peal_calloc(comm->ctx, 1, sizeof *queue);
    if (!queue)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    if (pthread_mutex_init(&queue->lock, NULL) != 0) {
        peal_free(comm->ctx, queue, sizeof *queue);
        return peal_fail(diag, PEAL_ERR_MEMORY, "no mutex to be had");
    }
    if (pthread_cond_init(&queue->changed, NULL) != 0) {
        (void)pthread_mutex_destroy(&queue->lock);
        peal_free(comm->ctx, queue, sizeof *queue);
        return peal_fail(diag, PEAL_ERR_MEMORY, "no condition variable to be had");
    }
    comm->queue = queue;
    return PEAL_OK;
}

/* What has not begun never does; what has is left as it is. */
static void drop_all(struct peal_comm *comm)
{
    while (comm->queue->head) {
        (void)peal_fail(&comm->queue->head->diag, PEAL_ERR_ABORTED,
                        "the comm ended before the call did");
        finish(comm, PEAL_ERR_ABORTED);
    }
}

void rt_queue_free(struct peal_comm *comm)
{
    struct rt_queue *queue = comm->queue;
    if (!queue)
        return;
    if (queue->threaded) {
        take_lock(queue);
        drop_all(comm);
        (void)pthread_mutex_unlock(&queue->lock);
        end_thread(comm);
    }
    drop_all(comm);
    for (struct peal_pending *p = queue->all; p; p = p->sibling)
        p->comm = NULL;
    (void)pthread_cond_destroy(&queue->changed);
    (void)pthread_mutex_destroy(&queue->lock);
    peal_free(comm->ctx, queue, sizeof *queue);
    comm->queue = NULL;
}

static void start(struct peal_comm *comm, struct peal_pending *pending)
{
    struct rt_queue *queue = comm->queue;
    rt_queue_hold(comm);
    put(comm, pending);
    if (queue->threaded)
        (void)pthread_cond_broadcast(&queue->changed);
    else
        (void)advance(comm, 0);
    rt_queue_leave(comm);
}

static int is_done(struct peal_pending *pending)
{
    return atomic_load_explicit(&pending->state, memory_order_acquire) == DONE;
}

static void await(struct peal_comm *comm, struct peal_pending *pending)
{
    struct rt_queue *queue = comm->queue;
    rt_queue_hold(comm);
    while (!is_done(pending))
        if (queue->threaded)
            (void)pthread_cond_wait(&queue->changed, &queue->lock);
        else
            (void)advance(comm, 1);
    rt_queue_leave(comm);
}

peal_status rt_queue_call(struct peal_comm *comm, const struct rt_call *call, peal_diag *diag)
{
    struct peal_pending pending = {.ctx = comm->ctx, .comm = comm, .call = *call};
    start(comm, &pending);
    await(comm, &pending);
    if (pending.status != PEAL_OK && diag)
        *diag = pending.diag;
    return pending.status;
}

/* ---- handles */

static peal_status read_call(const struct peal_comm *comm, const peal_call *given,
                             struct rt_call *call, peal_diag *diag)
{
    peal_call asked;
    if (peal_import(&asked, sizeof asked, given) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "a call of an unknown version");
    if ((unsigned)asked.collective >= PEAL_COLLECTIVE_COUNT)
        return peal_fail(diag, PEAL_ERR_ARG, "unknown collective number %d", (int)asked.collective);
    int counted = asked.collective == PEAL_ALLTOALLV;
    if (counted && !asked.send_counts)
        return peal_fail(diag, PEAL_ERR_ARG, "no counts");
    if (counted && !comm->send_counts)
        return peal_fail(diag, PEAL_ERR_RANGE, "the table has no alltoallv");
    int folds = peal_plan_collective(asked.collective)->reduces;
    int barrier = asked.collective == PEAL_BARRIER;
    *call = (struct rt_call){.args = {asked.collective, asked.root, asked.peer,
                                      barrier ? PEAL_UINT8 : asked.dtype,
                                      folds ? asked.op : PEAL_SUM, barrier ? 0 : asked.count},
                             .in = asked.in,
                             .out = asked.out,
                             .send_counts = counted ? asked.send_counts : NULL,
                             .recv_counts = counted ? asked.recv_counts : NULL};
    struct rt_row *row = NULL;
    return rt_find(comm, call->args, &row, diag);
}

peal_status peal_pending_create(peal_comm *comm, const peal_call *call, peal_diag *diag,
                                peal_pending **pending_out)
{
    if (!comm || !call || !pending_out)
        return peal_fail(diag, PEAL_ERR_ARG, "a pending call needs a comm and a call");
    struct rt_call read;
    PEAL_TRY(read_call(comm, call, &read, diag));
    struct peal_pending *pending = peal_calloc(comm->ctx, 1, sizeof *pending);
    if (!pending)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    pending->ctx = comm->ctx;
    pending->comm = comm;
    pending->call = read;
    pending->sibling = comm->queue->all;
    comm->queue->all = pending;
    *pending_out = pending;
    return PEAL_OK;
}

void peal_pending_destroy(peal_pending *pending)
{
    if (!pending)
        return;
    if (pending->comm) {
        struct peal_pending **link = &pending->comm->queue->all;
        if (atomic_load_explicit(&pending->state, memory_order_acquire) == STANDING)
            await(pending->comm, pending);
        while (*link != pending)
            link = &(*link)->sibling;
        *link = pending->sibling;
    }
    peal_free(pending->ctx, pending, sizeof *pending);
}

peal_status peal_start(peal_pending *pending, peal_diag *diag)
{
    if (!pending || !pending->comm)
        return peal_fail(diag, PEAL_ERR_ARG, pending ? "its comm is gone" : "nothing to start");
    if (atomic_load_explicit(&pending->state, memory_order_acquire) == STANDING)
        return peal_fail(diag, PEAL_ERR_ARG, "started before, and not over");
    start(pending->comm, pending);
    return PEAL_OK;
}

static peal_status how_it_ended(struct peal_pending *pending, peal_diag *diag)
{
    if (pending->status != PEAL_OK && diag)
        *diag = pending->diag;
    return pending->status;
}

peal_status peal_test(peal_pending *pending, int *done, peal_diag *diag)
{
    if (!pending || !done)
        return peal_fail(diag, PEAL_ERR_ARG, "nothing to test");
    uint32_t state = atomic_load_explicit(&pending->state, memory_order_acquire);
    *done = state == DONE;
    if (state == IDLE)
        return peal_fail(diag, PEAL_ERR_ARG, "not started");
    if (!*done && !pending->comm->queue->threaded) {
        (void)advance(pending->comm, 0);
        *done = is_done(pending);
    }
    return *done ? how_it_ended(pending, diag) : PEAL_OK;
}

peal_status peal_wait(peal_pending *pending, peal_diag *diag)
{
    if (!pending)
        return peal_fail(diag, PEAL_ERR_ARG, "nothing to wait for");
    uint32_t state = atomic_load_explicit(&pending->state, memory_order_acquire);
    if (state == IDLE)
        return peal_fail(diag, PEAL_ERR_ARG, "not started");
    if (state != DONE)
        await(pending->comm, pending);
    return how_it_ended(pending, diag);
}

void peal_comm_poll(peal_comm *comm)
{
    if (comm && comm->lined && !comm->queue->threaded)
        (void)advance(comm, 0);
}
