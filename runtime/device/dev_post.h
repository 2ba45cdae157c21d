/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of ibgda: the first thread posts RDMA WRITEs to the NIC by itself, the lane's queue pair
 * with the peer in hand. A reliable connection writes in order, so a signal is one more write
 * behind the data. What is read and written lies in the arenas, at the same offset on all ranks:
 * the caller's buffers there, or copies of them (image.h, shared_in and shared_out).
 *
 * Before a lane ends it waits until everything it posted is done: signals of one semaphore are then
 * in order from call to call, whichever lanes make them.
 */
#ifndef PEAL_RUNTIME_DEVICE_POST_H
#define PEAL_RUNTIME_DEVICE_POST_H

#include "dev_move.h"

DEV_FN const struct dev_far *dev_far_of(const struct dev_thread *t, uint32_t rank)
{
    return DEV_AT(const struct dev_far, t->block->rank.fars) + rank;
}

/* Where the peer has an operand, as the NIC names it. */
DEV_FN struct dev_mlx5_target dev_post_target(const struct dev_thread *t,
                                              const struct dev_operand *operand, uint64_t first)
{
    const struct dev_far *far = dev_far_of(t, operand->rank);
    uint64_t own = t->block->peers[t->block->rank.rank].arena;
    struct dev_mlx5_target to;
    to.key = far->key;
    to.local_key = dev_far_of(t, t->block->rank.rank)->key;
    if (operand->place >= DEV_SLOT)
        to.address = far->arena + dev_slot_offset(t, operand);
    else
        to.address =
            far->arena + (t->block->call.shared_out - own) + dev_buffer_offset(t, operand, first);
    return to;
}

/* A place for one more entry. 0: given up. */
DEV_FN int dev_post_room(struct dev_thread *t, uint32_t peer)
{
    const struct dev_mlx5_queue *queue = dev_queue(t, peer);
    return dev_await_queue(t, peer, queue->posted, queue->blocks - 1u);
}

DEV_FN int dev_post_chunk(struct dev_thread *t, const struct dev_step *step, uint32_t nth)
{
    uint64_t first;
    uint64_t bytes = dev_move_bytes(t, step, dev_tile(t, step, nth, &first));
    const struct dev_operand *operand = dev_operands(t, step, nth);
    uint64_t from = dev_operand_at(t, &operand[0], first);
    struct dev_mlx5_target to = dev_post_target(t, &operand[1], first);
    DEV_ROLLED
    while (bytes) {
        uint32_t piece = bytes < DEV_MLX5_MESSAGE ? (uint32_t)bytes : DEV_MLX5_MESSAGE;
        if (!dev_post_room(t, operand[1].rank))
            return 0;
        dev_mlx5_put(dev_queue(t, operand[1].rank), from, &to, piece);
        from += piece;
        to.address += piece;
        bytes -= piece;
        dev_mlx5_ring(dev_queue(t, operand[1].rank));
    }
    return 1;
}

DEV_FN void dev_post_move(struct dev_thread *t, const struct dev_step *step)
{
    struct dev_event *event = dev_event(t, step->event);
    uint32_t peer = dev_operands(t, step, 0)[1].rank;
    if (t->tid != 0 || !dev_await(t, step->event, 1))
        return;
    DEV_ROLLED
    for (uint32_t nth = 0; nth <= step->more; nth++)
        if (!dev_post_chunk(t, step, nth))
            return;
    event->handed = DEV_NIC;
    event->issued++;
    event->peer = peer;
    event->posted = dev_queue(t, peer)->posted;
}

/* An 8-byte word at an offset of the peer's arena, behind all that was posted to it before. */
DEV_FN int dev_post_word(struct dev_thread *t, uint32_t peer, uint64_t offset, uint64_t word)
{
    const struct dev_far *far = dev_far_of(t, peer);
    struct dev_mlx5_target to;
    to.address = far->arena + offset;
    to.key = far->key;
    to.local_key = 0; /* it travels in the entry */
    if (!dev_post_room(t, peer))
        return 0;
    dev_mlx5_signal(dev_queue(t, peer), &to, word);
    dev_mlx5_ring(dev_queue(t, peer));
    return 1;
}

/* A transfer to the peer of the signal is in the same queue; any other is waited for. */
DEV_FN void dev_post_signal(struct dev_thread *t, const struct dev_step *step)
{
    struct dev_sem_out *sem = dev_sem_out(t, step->sem);
    uint32_t index = step->sem - step->peer * t->block->layout->nsems;
    if (sem->handed && !dev_await_host(t, dev_raised(t, step->sem), sem->sent))
        return;
    if (step->after != DEV_NO_EVENT &&
        (dev_event(t, step->after)->handed != DEV_NIC ||
         dev_event(t, step->after)->peer != step->peer) &&
        !dev_await(t, step->after, 1))
        return;
    sem->handed = 0;
    (void)dev_post_word(t, step->peer, dev_sem_offset(t, t->block->rank.rank, index),
                        (uint64_t)t->block->digest << 32 | ++sem->sent);
}

DEV_FN void dev_post_tell(struct dev_thread *t, const struct dev_step *step)
{
    if (dev_post_word(t, step->peer, dev_count_offset(t, t->block->rank.rank),
                      dev_told_count(t, step->peer)))
        dev_post_signal(t, step);
}

DEV_FN void dev_post_drain(struct dev_thread *t)
{
    DEV_ROLLED
    for (uint32_t r = 0; t->block->rank.queues && !t->failed && r < t->block->rank.nranks; r++)
        if (dev_queue(t, r)->entries)
            (void)dev_await_queue(t, r, dev_queue(t, r)->posted, 0);
}

#endif
