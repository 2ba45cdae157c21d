/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines that move while the lane goes on. One worker thread a comm serves all of them: as
 * itself for ce and tma on a host, as a stand-in for rdma, staged and tcp. The calling thread
 * hands it transfers and the signals behind them through a ring.
 *
 * With a chaos seed the worker is as unkind as the format lets an engine be: transfers of
 * different events overtake each other, are cut into pieces in any order and dawdle; a source is
 * free long before its destination is written; signals come late. Without one it works in order,
 * and short transfers are made by the lane itself: a synchronous access lies within the interval
 * in which the asynchronous one may happen.
 */
#include "clock.h"
#include "comm.h"

#include <sched.h>
#include <string.h>

#define RING_ITEMS 1024u   /* a power of two */
#define PENDING_ITEMS 256u /* taken from the ring, not yet done */
#define INLINE_BYTES 32768u
#define BOUNCE_BYTES 65536u
#define IDLE_POLLS 2000u /* before the worker sleeps */

struct item {
    struct rt_event *event;    /* of the transfer, or what the signal comes after; may be NULL */
    struct rt_sem_out *signal; /* NULL: a transfer */
    struct rt_piece *pieces;   /* still to be moved */
    uint32_t npieces;
    uint32_t number; /* signal: the count it makes; transfer: of the event */
    uint32_t after;  /* signal: the number of its transfer */
    uint32_t digest;
    int bounced; /* the first piece is read, and waits in the bounce buffer */
};

struct rt_worker {
    struct item ring[RING_ITEMS];
    rt_half head; /* taken by the worker */
    char apart[RT_LINE];
    rt_half tail; /* put by the calling thread */
    rt_half asleep;
    rt_half stop;
    pthread_mutex_t lock; /* only around falling asleep and waking */
    pthread_cond_t wake;
    pthread_t thread;
    uint64_t random; /* 0: work in order */
    uint32_t npending;
    struct item pending[PENDING_ITEMS];
    int bounce_used;
    char bounce[BOUNCE_BYTES];
};

/* ---- the calling thread's side */

static uint32_t ring_room(const struct rt_worker *worker)
{
    uint32_t head = atomic_load_explicit(&worker->head, memory_order_acquire);
    uint32_t tail = atomic_load_explicit(&worker->tail, memory_order_relaxed);
    return RING_ITEMS - (tail - head);
}

/* Sequentially consistent against fall_asleep: one of the two sees the other. */
static void ring_put(struct rt_worker *worker, const struct item *item)
{
    uint32_t tail = atomic_load_explicit(&worker->tail, memory_order_relaxed);
    worker->ring[tail % RING_ITEMS] = *item;
    atomic_store_explicit(&worker->tail, tail + 1, memory_order_seq_cst);
    if (!atomic_load_explicit(&worker->asleep, memory_order_seq_cst))
        return;
    (void)pthread_mutex_lock(&worker->lock);
    (void)pthread_cond_signal(&worker->wake);
    (void)pthread_mutex_unlock(&worker->lock);
}

/* The pieces of a step's present tile; *bytes of all. What lies where it goes to is left out. */
static uint32_t cut_pieces(struct peal_comm *comm, const struct rt_row *row,
                           const struct rt_lane *lane, const struct rt_step *step,
                           struct rt_piece *pieces, size_t *bytes)
{
    uint32_t count = 0;
    uint32_t nth = 0;
    size_t run;
    *bytes = 0;
    while ((run = rt_move_bytes(row, step, rt_next_run(comm, row, lane, step, &nth))) != 0)
        for (unsigned i = 0; i < step->ndst; i++) {
            if (comm->dst[i] == comm->src[0])
                continue;
            pieces[count++] = (struct rt_piece){comm->src[0], comm->dst[i], run, 0, run};
            *bytes += run;
        }
    return count;
}

static void move_in_line(const struct rt_piece *pieces, uint32_t count, struct rt_event *event)
{
    for (uint32_t i = 0; i < count; i++)
        memcpy(pieces[i].dst, pieces[i].src, pieces[i].bytes);
    event->issued++;
    event->far = 0;
    atomic_store_explicit(&event->freed, event->issued, memory_order_relaxed);
    atomic_store_explicit(&event->delivered, event->issued, memory_order_relaxed);
}

int rt_async_move(struct peal_comm *comm, const struct rt_row *row, struct rt_lane *lane,
                  const struct rt_step *step)
{
    struct rt_worker *worker = comm->worker;
    struct rt_event *event = &lane->events[step->event];
    if (atomic_load_explicit(&event->delivered, memory_order_acquire) != event->issued ||
        ring_room(worker) == 0)
        return 0;
    size_t bytes;
    struct rt_piece *pieces = row->pieces + step->pieces;
    uint32_t count = cut_pieces(comm, row, lane, step, pieces, &bytes);
    if (count == 0 || (!comm->chaos && (comm->crowded || bytes <= INLINE_BYTES))) {
        move_in_line(pieces, count, event);
        return 1;
    }
    event->issued++;
    event->far = 0;
    event->unread = event->unwritten = count;
    struct item item = {
        .event = event, .pieces = pieces, .npieces = count, .number = event->issued};
    ring_put(worker, &item);
    return 1;
}

static int is_delivered(struct rt_event *event, uint32_t number)
{
    uint32_t delivered = atomic_load_explicit(&event->delivered, memory_order_acquire);
    return (int32_t)(delivered - number) >= 0;
}

/* At once where nothing is in the way; behind its transfer, or behind the signals that the
 * engine still holds for the same semaphore, through the worker. */
int rt_async_signal(struct peal_comm *comm, struct rt_lane *lane, const struct rt_step *step)
{
    struct rt_worker *worker = comm->worker;
    struct rt_sem_out *sem = step->out;
    struct rt_event *event = step->after == PLAN_NO_EVENT ? NULL : &lane->events[step->after];
    /* The worker does not wait for other hosts, and holds other lanes' signals meanwhile. */
    if (event && event->far && !is_delivered(event, event->issued))
        return 0;
    int clear = atomic_load_explicit(&sem->raised, memory_order_acquire) == sem->sent;
    int carried = comm->chaos && step->engine != PEAL_ENGINE_SM;
    if (clear && !carried && (!event || is_delivered(event, event->issued))) {
        sem->sent++;
        rt_raise(sem->cell, sem->sent, comm->digest);
        atomic_store_explicit(&sem->raised, sem->sent, memory_order_relaxed);
        return 1;
    }
    if (ring_room(worker) == 0)
        return 0;
    struct item item = {
        .event = event, .signal = sem, .number = ++sem->sent, .digest = comm->digest};
    /* The transfer it follows, by the number it has now. */
    item.after = event ? event->issued : 0;
    ring_put(worker, &item);
    return 1;
}

/* ---- the worker's side: work in order */

static void read_part(struct rt_event *event, uint32_t number)
{
    if (--event->unread == 0)
        atomic_store_explicit(&event->freed, number, memory_order_release);
}

static void written_part(struct rt_event *event, uint32_t number)
{
    if (--event->unwritten == 0)
        atomic_store_explicit(&event->delivered, number, memory_order_release);
}

/* 0: not yet: its transfer is under way, or an earlier signal of the semaphore is. */
static int try_signal(const struct item *item)
{
    uint32_t raised = atomic_load_explicit(&item->signal->raised, memory_order_relaxed);
    if (raised + 1 != item->number)
        return 0;
    if (item->event && !is_delivered(item->event, item->after))
        return 0;
    rt_raise(item->signal->cell, item->number, item->digest);
    atomic_store_explicit(&item->signal->raised, item->number, memory_order_release);
    return 1;
}

static void work_plainly(const struct item *item)
{
    if (item->signal) {
        /* In order, all that it waits for is done. */
        (void)try_signal(item);
        return;
    }
    for (uint32_t i = 0; i < item->npieces; i++) {
        memcpy(item->pieces[i].dst, item->pieces[i].src, item->pieces[i].bytes);
        read_part(item->event, item->number);
    }
    for (uint32_t i = 0; i < item->npieces; i++)
        written_part(item->event, item->number);
}

/* ---- the worker's side: chaos */

static uint64_t draw(struct rt_worker *worker)
{
    uint64_t x = worker->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    worker->random = x;
    return x * 0x2545f4914f6cdd1du >> 16;
}

/* Moves the front or the back of what is left. 1: nothing is. */
static int move_part(struct rt_worker *worker, struct rt_piece *piece)
{
    size_t left = piece->end - piece->begin;
    size_t part = left > 1 ? 1 + (size_t)(draw(worker) % left) : left;
    if (draw(worker) & 1) {
        memcpy(piece->dst + piece->begin, piece->src + piece->begin, part);
        piece->begin += part;
    } else {
        piece->end -= part;
        memcpy(piece->dst + piece->end, piece->src + piece->end, part);
    }
    return piece->begin == piece->end;
}

/* The first piece is where it belongs. 1: it was the last. */
static int drop_piece(struct item *item)
{
    struct rt_event *event = item->event;
    uint32_t number = item->number;
    item->pieces[0] = item->pieces[--item->npieces];
    int last = item->npieces == 0;
    written_part(event, number);
    return last;
}

static int work_in_pieces(struct rt_worker *worker, struct item *item)
{
    struct rt_piece *piece = item->pieces;
    if (item->bounced) {
        memcpy(piece->dst, worker->bounce, piece->bytes);
        worker->bounce_used = item->bounced = 0;
        return drop_piece(item);
    }
    struct rt_piece *any = piece + draw(worker) % item->npieces;
    struct rt_piece first = *piece;
    *piece = *any;
    *any = first;
    int whole = piece->begin == 0 && piece->end == piece->bytes;
    if (whole && piece->bytes <= BOUNCE_BYTES && !worker->bounce_used && draw(worker) % 2) {
        memcpy(worker->bounce, piece->src, piece->bytes);
        worker->bounce_used = item->bounced = 1;
        read_part(item->event, item->number);
        return 0;
    }
    if (!move_part(worker, piece))
        return 0;
    read_part(item->event, item->number);
    return drop_piece(item);
}

/* One of the pending items, and none at times. */
static void work_badly(struct rt_worker *worker)
{
    uint64_t mood = draw(worker) % 64;
    if (mood == 0)
        rt_sleep_us((uint32_t)(draw(worker) % 100));
    if (mood < 8) {
        (void)sched_yield();
        return;
    }
    uint32_t at = (uint32_t)(draw(worker) % worker->npending);
    struct item *item = &worker->pending[at];
    int done = item->signal ? try_signal(item) : work_in_pieces(worker, item);
    if (done)
        worker->pending[at] = worker->pending[--worker->npending];
}

/* ---- the worker thread */

/* Takes what is there, up to `limit` pending items. */
static void take(struct rt_worker *worker, uint32_t limit)
{
    uint32_t head = atomic_load_explicit(&worker->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&worker->tail, memory_order_acquire);
    while (head != tail && worker->npending < limit)
        worker->pending[worker->npending++] = worker->ring[head++ % RING_ITEMS];
    atomic_store_explicit(&worker->head, head, memory_order_release);
}

static void work(struct rt_worker *worker)
{
    if (worker->random) {
        work_badly(worker);
        return;
    }
    for (uint32_t i = 0; i < worker->npending; i++)
        work_plainly(&worker->pending[i]);
    worker->npending = 0;
}

static int ring_empty(struct rt_worker *worker)
{
    return atomic_load_explicit(&worker->tail, memory_order_seq_cst) ==
           atomic_load_explicit(&worker->head, memory_order_relaxed);
}

static void fall_asleep(struct rt_worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    atomic_store_explicit(&worker->asleep, 1, memory_order_seq_cst);
    while (ring_empty(worker) && !atomic_load_explicit(&worker->stop, memory_order_relaxed))
        (void)pthread_cond_wait(&worker->wake, &worker->lock);
    atomic_store_explicit(&worker->asleep, 0, memory_order_seq_cst);
    (void)pthread_mutex_unlock(&worker->lock);
}

static void *worker_main(void *argument)
{
    struct rt_worker *worker = argument;
    uint32_t idle = 0;
    for (;;) {
        take(worker, PENDING_ITEMS);
        if (worker->npending) {
            idle = 0;
            work(worker);
        } else if (atomic_load_explicit(&worker->stop, memory_order_acquire) &&
                   ring_empty(worker)) {
            return NULL;
        } else if (++idle < IDLE_POLLS) {
            (void)sched_yield();
        } else {
            fall_asleep(worker);
            idle = 0;
        }
    }
}

/* ---- starting and stopping */

static int needs_worker(const struct peal_comm *comm)
{
    for (uint32_t i = 0; i < comm->nrows; i++)
        if (comm->rows[i].events)
            return 1;
    return 0;
}

static peal_status make_locks(struct rt_worker *worker)
{
    if (pthread_mutex_init(&worker->lock, NULL) != 0)
        return PEAL_ERR_MEMORY;
    if (pthread_cond_init(&worker->wake, NULL) != 0) {
        (void)pthread_mutex_destroy(&worker->lock);
        return PEAL_ERR_MEMORY;
    }
    return PEAL_OK;
}

static void free_worker(struct peal_comm *comm, struct rt_worker *worker)
{
    (void)pthread_cond_destroy(&worker->wake);
    (void)pthread_mutex_destroy(&worker->lock);
    peal_free(comm->ctx, worker, sizeof *worker);
}

peal_status rt_worker_start(struct peal_comm *comm, peal_diag *diag)
{
    if (!needs_worker(comm))
        return PEAL_OK;
    struct rt_worker *worker = peal_calloc(comm->ctx, 1, sizeof *worker);
    if (!worker)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    worker->random = comm->chaos;
    if (make_locks(worker) != PEAL_OK) {
        peal_free(comm->ctx, worker, sizeof *worker);
        return peal_fail(diag, PEAL_ERR_MEMORY, "no mutex to be had");
    }
    if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
        free_worker(comm, worker);
        return peal_fail(diag, PEAL_ERR_MEMORY, "no thread for the copy engines");
    }
    comm->worker = worker;
    return PEAL_OK;
}

peal_status rt_worker_need(struct peal_comm *comm, struct peal_comm *next, peal_diag *diag)
{
    if (comm->worker || !needs_worker(next))
        return PEAL_OK;
    PEAL_TRY(rt_worker_start(next, diag));
    comm->worker = next->worker;
    return PEAL_OK;
}

void rt_worker_stop(struct peal_comm *comm)
{
    struct rt_worker *worker = comm->worker;
    if (!worker)
        return;
    (void)pthread_mutex_lock(&worker->lock);
    atomic_store_explicit(&worker->stop, 1, memory_order_release);
    (void)pthread_cond_signal(&worker->wake);
    (void)pthread_mutex_unlock(&worker->lock);
    (void)pthread_join(worker->thread, NULL);
    free_worker(comm, worker);
    comm->worker = NULL;
}
