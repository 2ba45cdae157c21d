/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores, events and reports: what the first thread of a block does for it. */
#ifndef PEAL_RUNTIME_DEVICE_SYNC_H
#define PEAL_RUNTIME_DEVICE_SYNC_H

#include "dev_bulk.h"
#include "dev_mlx5.h"
#include "dev_target.h"

/* ---- what is kept from call to call */

DEV_FN struct dev_sem_out *dev_sem_out(const struct dev_thread *t, uint32_t sem)
{
    return (struct dev_sem_out *)(void *)((char *)t->block->state + t->block->state->sem_out) + sem;
}

DEV_FN struct dev_sem_in *dev_sem_in(const struct dev_thread *t, uint32_t sem)
{
    return (struct dev_sem_in *)(void *)((char *)t->block->state + t->block->state->sem_in) + sem;
}

DEV_FN struct dev_event *dev_event(const struct dev_thread *t, uint32_t event)
{
    return (struct dev_event *)(void *)((char *)t->block->state + t->block->state->events) +
           t->lane * DEV_EVENTS + event;
}

DEV_FN uint64_t *dev_recv_count(const struct dev_thread *t, uint32_t rank)
{
    return (uint64_t *)(void *)((char *)t->block->state + t->block->state->recv_counts) + rank;
}

/* How far the host is with the signals it was given. */
DEV_FN const uint32_t *dev_raised(const struct dev_thread *t, uint32_t sem)
{
    return (const uint32_t *)(const void *)(t->block->port + 1) + sem;
}

/* In the arena, where `producer` raises semaphore `index` of its owner; where it tells a count. */
DEV_FN uint64_t dev_sem_offset(const struct dev_thread *t, uint32_t producer, uint32_t index)
{
    return t->block->layout->sems +
           ((uint64_t)producer * t->block->layout->nsems + index) * DEV_LINE;
}

DEV_FN uint64_t dev_count_offset(const struct dev_thread *t, uint32_t producer)
{
    uint32_t parity = DEV_BUG(40) ? 0 : t->block->parity;
    return t->block->layout->counts + parity * t->block->layout->count_bytes +
           (uint64_t)producer * 8;
}

/* ---- the end of a call before its time */

DEV_FN void dev_report(struct dev_thread *t, uint32_t status, uint32_t culprit)
{
    struct dev_report *report = &t->block->port->report;
    t->failed = 1;
    if (dev_claim32(&report->taken))
        return;
    dev_set32(&report->culprit, culprit);
    dev_set32(&report->lane, t->lane);
    dev_set32(&report->step, t->step);
    dev_set32(&report->call, t->block->stamp);
    dev_release32(&report->status, status);
}

/* Polls until *at is at least `want`, modulo 2^32, as the host says. 0: given up. */
DEV_FN int dev_await_host(struct dev_thread *t, const uint32_t *at, uint32_t want)
{
    uint32_t polls = 0;
    while ((int32_t)((DEV_BUG(27) ? dev_relaxed32(at) : dev_acquire32(at)) - want) < 0)
        if (dev_given_up(t, &polls)) {
            dev_report(t, DEV_REPORT_ABORTED, DEV_NOBODY);
            return 0;
        }
    return 1;
}

/* ---- waits */

/* Where in the producer's count the present call lies, found out at its first wait. */
DEV_FN void dev_enter_sem(const struct dev_thread *t, const struct dev_step *step,
                          struct dev_sem_in *sem)
{
    if (sem->call == t->block->stamp)
        return;
    sem->call = t->block->stamp;
    sem->base = sem->count;
    sem->end = sem->count + step->fixed + step->per_trip * t->block->call.trips;
}

DEV_FN void dev_wait(struct dev_thread *t, const struct dev_step *step)
{
    struct dev_sem_in *sem = dev_sem_in(t, step->sem);
    uint32_t index = step->sem - step->peer * t->block->layout->nsems;
    const uint64_t *cell = DEV_AT(const uint64_t, t->block->peers[t->block->rank.rank].arena +
                                                      dev_sem_offset(t, step->peer, index));
    uint32_t lag = DEV_BUG(14) ? step->lag + 1 : step->lag;
    uint32_t polls = 0;
    dev_enter_sem(t, step, sem);
    uint32_t want = sem->count + 1 - lag;
    uint64_t seen = DEV_BUG(2) ? dev_relaxed64(cell) : dev_acquire64(cell);
    while ((int32_t)((uint32_t)seen - want) < 0) {
        if (dev_given_up(t, &polls)) {
            dev_report(t, DEV_REPORT_ABORTED, step->peer);
            return;
        }
        seen = DEV_BUG(2) ? dev_relaxed64(cell) : dev_acquire64(cell);
    }
    /* A count of this call carries this call's digest. */
    uint32_t into = (uint32_t)seen - sem->base;
    if ((uint32_t)(seen >> 32) != t->block->digest && into - 1 < sem->end - sem->base &&
        !DEV_BUG(16))
        dev_report(t, DEV_REPORT_MISMATCH, step->peer);
    if (!DEV_BUG(15))
        sem->count++;
}

/* ---- queues of NICs */

DEV_FN struct dev_mlx5_queue *dev_queue(const struct dev_thread *t, uint32_t peer)
{
    return DEV_AT(struct dev_mlx5_queue, t->block->rank.queues) +
           (uint64_t)t->lane * t->block->rank.nranks + peer;
}

/* Until all but `under_way` of the first `number` entries are done. 0: given up, or failed. */
DEV_FN int dev_await_queue(struct dev_thread *t, uint32_t peer, uint32_t number, uint32_t under_way)
{
    struct dev_mlx5_queue *queue = dev_queue(t, peer);
    uint32_t polls = 0, want = number - under_way, count;
    int failed = 0;
    while ((count = dev_mlx5_count(queue, dev_mlx5_finished(queue, want, &failed)),
            (int32_t)(count - want) < 0 || failed)) {
        if (failed)
            dev_report(t, DEV_REPORT_BROKEN, peer);
        else if (dev_given_up(t, &polls))
            dev_report(t, DEV_REPORT_ABORTED, peer);
        if (t->failed)
            return 0;
    }
    dev_mlx5_take(queue, count);
    return 1;
}

/* ---- events */

/* Until the last transfer of the event has freed its source, or is delivered. */
DEV_FN int dev_await(struct dev_thread *t, uint32_t number, int delivered)
{
    const struct dev_event *event = dev_event(t, number);
    if (event->handed == DEV_NIC) /* what the peer has, this rank's memory is free of */
        return dev_await_queue(t, event->peer, event->posted, 0);
    if (event->handed == DEV_OWN) {
        /* The kernel's own: their sources are free when they are issued. */
        if (delivered && !DEV_BUG(20))
            dev_bulk_finish(t);
        return 1;
    }
    int which = DEV_BUG(26) ? 0 : delivered;
    return dev_await_host(t,
                          which ? &t->block->port->delivered[t->lane][number]
                                : &t->block->port->freed[t->lane][number],
                          event->issued);
}

/* ---- signals by the kernel itself */

DEV_FN void dev_raise(struct dev_thread *t, const struct dev_step *step)
{
    struct dev_sem_out *sem = dev_sem_out(t, step->sem);
    uint32_t index = step->sem - step->peer * t->block->layout->nsems;
    uint64_t *cell = DEV_AT(uint64_t, t->block->peers[step->peer].arena +
                                          dev_sem_offset(t, t->block->rank.rank, index));
    /* Behind those that the host was given. */
    if (sem->handed && !DEV_BUG(29) && !dev_await_host(t, dev_raised(t, step->sem), sem->sent))
        return;
    sem->handed = 0;
    uint64_t word = (uint64_t)t->block->digest << 32 | ++sem->sent;
    if (DEV_BUG(1))
        dev_set64(cell, word);
    else
        dev_release64(cell, word);
}

/* ---- counts */

DEV_FN uint64_t dev_told_count(const struct dev_thread *t, uint32_t peer)
{
    return t->block->bad_counts ? ~0ull : DEV_AT(const uint64_t, t->block->call.send_counts)[peer];
}

DEV_FN void dev_tell(struct dev_thread *t, const struct dev_step *step)
{
    uint64_t *cell = DEV_AT(uint64_t, t->block->peers[step->peer].arena +
                                          dev_count_offset(t, t->block->rank.rank));
    if (DEV_BUG(31)) {
        dev_raise(t, step);
        dev_pause(t, 0);
    }
    dev_set64(cell, dev_told_count(t, step->peer));
    if (!DEV_BUG(31))
        dev_raise(t, step);
}

/* The lowest of several bad senders: all ranks name the same one. */
DEV_FN void dev_learn(struct dev_thread *t, const struct dev_step *step)
{
    const uint64_t *cell = DEV_AT(const uint64_t, t->block->peers[t->block->rank.rank].arena +
                                                      dev_count_offset(t, step->peer));
    uint64_t early = DEV_BUG(32) ? dev_relaxed64(cell) : 0;
    dev_wait(t, step);
    uint64_t count = DEV_BUG(32) ? early : dev_relaxed64(cell);
    if (t->failed)
        return;
    if (count > t->block->call.count) {
        count = 0;
        dev_min32(&t->block->state->bad_sender, step->peer);
    }
    dev_set64(dev_recv_count(t, step->peer), count);
}

#endif
