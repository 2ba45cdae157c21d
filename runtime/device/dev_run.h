/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter: a thread block runs a lane's steps. Every step begins with a barrier of the
 * block, behind which all that the lane did before is done, and behind which all threads know
 * whether one of them has failed. Waits and signals are the first thread's.
 */
#ifndef PEAL_RUNTIME_DEVICE_RUN_H
#define PEAL_RUNTIME_DEVICE_RUN_H

#include "dev_hand.h"
#include "dev_multi.h"
#include "dev_post.h"
#include "dev_wire.h"

/* ---- steps of data */

/* The block moves what is not aligned, and then the first thread the rest. 0: it cannot. */
DEV_FN int dev_bulk_piece(struct dev_thread *t, const struct dev_fold *f, uint64_t bytes)
{
    uint32_t own;
    uint32_t misaligned = dev_misaligned(t, f, &own);
    struct dev_cut cut = dev_cut(bytes, misaligned, own);
    if (!dev_can_bulk(t) || cut.body == cut.head)
        return 0;
    dev_move_units(t, f->ndst, 0, cut.head, 1);
    dev_move_units(t, f->ndst, cut.body, cut.end, 1);
    DEV_ROLLED
    for (uint32_t d = 0; t->tid == 0 && d < f->ndst; d++)
        if (t->block->dst[d] != t->block->src[0])
            dev_bulk_run(t, t->block->src[0] + cut.head, t->block->dst[d] + cut.head,
                         cut.body - cut.head, DEV_BULK_COPY);
    return 1;
}

/* A fold into one destination that is the first source, where memory computes the same bits:
 * float16 and bfloat16 it would round in another way, and of float32 it makes subnormals zero. Of
 * this rank's memory alone: in another device's only NVLink folds. 0: it cannot. */
DEV_FN int dev_bulk_fold(struct dev_thread *t, const struct dev_fold *f, uint64_t bytes)
{
    uint32_t own, op = dev_memory_op(t->block->call.dtype, f->op);
    if (!dev_can_bulk(t) || f->nsrc != 2 || f->ndst != 1 || f->divisor || op == DEV_BULK_COPY ||
        op == DEV_BULK_ADD_F32 || f->operands[f->nsrc].rank != t->block->rank.rank ||
        t->block->dst[0] != t->block->src[0])
        return 0;
    uint32_t misaligned = dev_misaligned(t, f, &own);
    if (own || misaligned || bytes % 16 || bytes < 2ull * t->block->rank.stage_bytes)
        return 0;
    if (t->tid == 0) {
        dev_bulk_run(t, t->block->src[1], t->block->dst[0], bytes, op);
        dev_bulk_finish(t);
    }
    return 1;
}

DEV_FN void dev_bulk_issue(struct dev_thread *t, uint32_t number)
{
    struct dev_event *event = dev_event(t, number);
    if (t->tid == 0 && dev_await(t, number, 1)) {
        event->handed = DEV_OWN;
        event->issued++;
    }
}

DEV_FN void dev_data_step(struct dev_thread *t, const struct dev_step *step)
{
    if (step->kind == DEV_BULK)
        dev_bulk_issue(t, step->event);
    DEV_ROLLED
    for (uint32_t nth = 0; nth <= step->more; nth++) {
        struct dev_fold f = dev_fold_of(t, step, nth);
        uint64_t count = dev_resolve(t, step, nth);
        uint64_t bytes = dev_move_bytes(t, step, count);
        int folds = step->kind == DEV_FOLD;
        if (dev_multi_step(t, step, &f, count) ||
            (step->kind == DEV_BULK && dev_bulk_piece(t, &f, bytes)) ||
            (folds && dev_bulk_fold(t, &f, bytes)))
            continue;
        if (folds)
            dev_fold_plain(t, &f, bytes);
        else
            dev_move_plain(t, &f, bytes);
    }
}

/* ---- steps of the first thread */

DEV_FN void dev_signal_step(struct dev_thread *t, const struct dev_step *step)
{
    if (step->after != DEV_NO_EVENT && !DEV_BUG(5) && !dev_await(t, step->after, 1))
        return;
    dev_raise(t, step);
}

DEV_FN void dev_first_step(struct dev_thread *t, const struct dev_step *step)
{
    switch (step->kind) {
    case DEV_SIGNAL:
        dev_signal_step(t, step);
        break;
    case DEV_HAND_SIGNAL:
        dev_hand_signal(t, step);
        break;
    case DEV_WAIT:
        dev_wait(t, step);
        break;
    case DEV_TELL:
        dev_tell(t, step);
        break;
    case DEV_HAND_TELL:
        dev_hand_tell(t, step);
        break;
    case DEV_LEARN:
        dev_learn(t, step);
        break;
    case DEV_POST_SIGNAL:
        dev_post_signal(t, step);
        break;
    case DEV_POST_TELL:
        dev_post_tell(t, step);
        break;
    default:
        (void)dev_await(t, step->event, (step->flags & DEV_DELIVERED) != 0);
    }
}

DEV_FN void dev_step(struct dev_thread *t, const struct dev_step *step)
{
    DEV_FRESH(t);
    switch (step->kind) {
    case DEV_MOVE:
    case DEV_FOLD:
    case DEV_BULK:
        dev_data_step(t, step);
        break;
    case DEV_PACKET:
        dev_packet_step(t, step);
        break;
    case DEV_WIRE:
        dev_wire_step(t, step);
        break;
    case DEV_HAND:
        dev_hand_move(t, step);
        break;
    case DEV_POST:
        dev_post_move(t, step);
        break;
    default:
        if (t->tid == 0)
            dev_first_step(t, step);
    }
}

/* ---- lanes */

/* The barrier before a step. 1: a thread has failed. */
DEV_FN int dev_step_begin(struct dev_thread *t, const struct dev_step *step)
{
    int signals = step->kind == DEV_SIGNAL || step->kind == DEV_HAND_SIGNAL;
    if (DEV_BUG(3) && signals)
        return (int)t->failed;
    if (DEV_BUG(4) && t->step && (step - 1)->kind == DEV_WAIT)
        return (int)t->failed;
    return dev_sync_or(t, t->failed);
}

DEV_FN void dev_run_steps(struct dev_thread *t, const struct dev_lane *lane,
                          const struct dev_step *steps)
{
    uint32_t pc = lane->first;
    t->trip = 0;
    DEV_ROLLED
    while (pc != lane->last) {
        const struct dev_step *step = &steps[pc];
        t->step = pc - lane->first;
        if (dev_step_begin(t, step))
            break;
        dev_step(t, step);
        if (++pc == lane->post && lane->body != lane->post && t->trip + 1 < t->block->call.trips) {
            t->trip++;
            pc = lane->body;
        }
    }
    if (t->tid == 0) {
        dev_bulk_finish(t);
        dev_post_drain(t);
    }
}

/* ---- the call */

/* Peers read these only behind a signal or packet of this call. Every lane posts them, the same,
 * before it does anything else. */
DEV_FN void dev_post(const struct dev_thread *t)
{
    const struct dev_peer *own = &t->block->peers[t->block->rank.rank];
    struct dev_board *board = DEV_AT(struct dev_board, own->arena);
    dev_set64(&board->in, t->block->call.shared_in - own->window);
    dev_set64(&board->out, t->block->call.shared_out - own->window);
    dev_set64(&t->block->port->place,
              DEV_PLACE(t->block->stamp, t->block->call.shared_out - own->arena));
    dev_set32(&t->block->port->begun, t->block->stamp);
}

/* The whole block: whether the caller's counts are beyond the blocks. */
DEV_FN void dev_check_counts(struct dev_thread *t)
{
    const uint64_t *counts = DEV_AT(const uint64_t, t->block->call.send_counts);
    uint32_t bad = 0;
    DEV_ROLLED
    for (uint32_t r = t->tid; r < t->block->rank.nranks; r += t->threads)
        bad |= counts[r] > t->block->call.count;
    bad = dev_sync_or(t, bad) != 0;
    if (t->tid != 0)
        return;
    t->block->bad_counts = bad;
    /* Every lane says the same. */
    if (bad)
        dev_min32(&t->block->state->bad_sender, t->block->rank.rank);
    dev_set64(dev_recv_count(t, t->block->rank.rank), bad ? 0 : counts[t->block->rank.rank]);
}

/* No call's stamp is 0, which is what fresh packet memory holds. */
DEV_FN uint64_t dev_call_number(const struct dev_state *state)
{
    return (uint32_t)state->call == 0 ? state->call + 2 : state->call;
}

/* First thread. */
DEV_FN void dev_number_call(struct dev_block *b)
{
    uint64_t number = dev_call_number(b->state);
    uint64_t mixed = (b->call.key + number) * 0x9e3779b97f4a7c15ull;
    b->stamp = (uint32_t)number;
    b->parity = b->stamp & 1;
    b->digest = (uint32_t)(mixed >> 32);
}

/* First thread. */
DEV_FN void dev_read_call(struct dev_block *b, const struct dev_call *call)
{
    b->call = *call;
    b->rank = *DEV_AT(const struct dev_rank, call->rank);
    const char *image = DEV_AT(const char, b->rank.image);
    const struct dev_image *head = (const struct dev_image *)(const void *)image;
    const struct dev_row *row = (const struct dev_row *)(const void *)(head + 1) + call->row;
    b->layout = &head->layout;
    b->row = row;
    b->operands = (const struct dev_operand *)(const void *)(image + row->operands);
    b->prefix =
        row->prefix ? (const uint32_t *)(const void *)(image + row->prefix) : (const uint32_t *)0;
    b->peers = DEV_AT(const struct dev_peer, b->rank.peers);
    b->state = DEV_AT(struct dev_state, b->rank.state);
    b->port = DEV_AT(struct dev_port, b->rank.port);
    b->elem_bytes = dev_elem_bytes(call->dtype);
    b->tile = row->tile_bytes / b->elem_bytes;
    b->bad_counts = 0;
}

DEV_FN void dev_enter(struct dev_thread *t, const struct dev_call *call)
{
    t->trip = t->step = t->failed = 0;
    if (t->tid == 0) {
        dev_read_call(t->block, call);
        dev_number_call(t->block);
        if (!DEV_BUG(30))
            dev_post(t);
    }
    dev_sync(t);
    dev_bulk_begin(t);
}

/* Stamps are the lower half of a call's number, so one may return after 2^32 calls. Long before,
 * each rank forgets the old ones. Between two calls, the packet memory of the call before is its
 * owner's alone: what that call sent was read in it, and the next call of the same parity is
 * entered by nobody until all have entered the one between them. */
DEV_FN void dev_forget_packets(const struct dev_thread *t)
{
    uint64_t bytes = t->block->layout->packet_bytes;
    uint64_t at = t->block->peers[t->block->rank.rank].arena + t->block->layout->packets +
                  t->block->parity * bytes;
    DEV_ROLLED
    for (uint64_t i = 0; i < bytes / 8; i++)
        dev_set64(DEV_AT(uint64_t, at) + i, 0);
}

/* First thread of the lane that ended last. */
DEV_FN void dev_leave(struct dev_thread *t)
{
    uint64_t number = dev_call_number(t->block->state);
    if ((number & 0x3fffffffu) < 4 && number > 4 && !DEV_BUG(42))
        dev_forget_packets(t);
    if (t->block->row->counted) {
        uint64_t *to = DEV_AT(uint64_t, t->block->call.recv_counts);
        DEV_ROLLED
        for (uint32_t r = 0; to && r < t->block->rank.nranks; r++)
            to[r] = dev_relaxed64(dev_recv_count(t, r));
        dev_set32(&t->block->port->bad_sender, dev_relaxed32(&t->block->state->bad_sender));
        dev_set32(&t->block->state->bad_sender, DEV_NOBODY);
    }
    dev_set32(&t->block->state->arrived, 0);
    if (!DEV_BUG(12))
        t->block->state->call = number + 1;
    dev_release32(&t->block->port->done, (uint32_t)number);
}

/* Of a call that failed, transfers may be under way that the host was given: it lets the kernel end
 * when they are over, and then nobody's memory is touched any more. */
DEV_FN void dev_await_release(struct dev_thread *t)
{
    uint32_t polls = 0;
    while (dev_acquire32(&t->block->port->abort) == 0)
        dev_pause(t, ++polls);
}

/* One thread of a block. *t has tid, threads, lane and block, which has its stages; and host. */
DEV_FN void dev_run_lane(struct dev_thread *t, const struct dev_call *call)
{
    dev_enter(t, call);
    const struct dev_block *b = t->block;
    const char *image = DEV_AT(const char, b->rank.image);
    const struct dev_lane *lanes = (const struct dev_lane *)(const void *)(image + b->row->lanes);
    const struct dev_step *steps = (const struct dev_step *)(const void *)(image + b->row->steps);
    t->failed = dev_relaxed32(&b->state->failed); /* another lane may say so meanwhile */
    if (b->row->counted)
        dev_check_counts(t);
    dev_run_steps(t, &lanes[t->lane], steps);
    int failed = dev_sync_or(t, t->failed);
    if (t->tid != 0)
        return;
    if (failed) {
        dev_set32(&b->state->failed, 1);
        dev_await_release(t);
    }
    if (DEV_BUG(30))
        dev_post(t);
    uint32_t last = DEV_BUG(39) ? 0 : b->row->nlanes - 1;
    if (dev_arrive32(&b->state->arrived) == last && !failed)
        dev_leave(t);
}

#endif
