/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that the host's engines do: the first thread writes orders (dev_ring.h). */
#ifndef PEAL_RUNTIME_DEVICE_HAND_H
#define PEAL_RUNTIME_DEVICE_HAND_H

#include "dev_move.h"

/* Stores an order once there is room. 0: given up. */
DEV_FN int dev_hand_over(struct dev_thread *t, struct dev_order order)
{
    uint32_t tail = t->block->state->tail[t->lane];
    struct dev_order *place = &t->block->port->orders[t->lane][tail % DEV_ORDERS];
    if (!DEV_BUG(23) && !dev_await_host(t, &t->block->port->head[t->lane], tail + 1 - DEV_ORDERS))
        return 0;
    order.call = t->block->stamp;
    order.turn = tail + 1;
    /* The word with the turn last: the host polls it. */
    uint64_t first;
    memcpy(&first, &order, sizeof first);
    memcpy((char *)place + sizeof first, (const char *)&order + sizeof first,
           sizeof order - sizeof first);
    t->block->state->tail[t->lane] = tail + 1;
    if (DEV_BUG(22))
        dev_set64((uint64_t *)(void *)place, first);
    else
        dev_release64((uint64_t *)(void *)place, first);
    return 1;
}

/* Where an operand is, for the host: an address, or a name where this rank does not reach it. */
DEV_FN uint64_t dev_name(const struct dev_thread *t, const struct dev_operand *operand,
                         uint64_t first, uint8_t *space)
{
    *space = DEV_AT_ADDRESS;
    if (t->block->peers[operand->rank].arena)
        return dev_operand_at(t, operand, first);
    if (operand->place >= DEV_SLOT) {
        *space = DEV_AT_ARENA;
        return dev_slot_offset(t, operand);
    }
    *space = operand->place == DEV_PEER_IN ? DEV_AT_IN : DEV_AT_OUT;
    return dev_buffer_offset(t, operand, first);
}

DEV_FN int dev_hand_chunk(struct dev_thread *t, const struct dev_step *step, uint32_t nth,
                          uint32_t number)
{
    uint64_t first;
    uint64_t bytes = dev_move_bytes(t, step, dev_tile(t, step, nth, &first));
    const struct dev_operand *operand = dev_operands(t, step, nth);
    struct dev_order order;
    memset(&order, 0, sizeof order);
    order.kind = DEV_ORDER_MOVE;
    order.engine = step->engine;
    order.event = step->event;
    order.number = number;
    order.src_rank = operand[0].rank;
    order.src = dev_name(t, &operand[0], first, &order.src_space);
    order.bytes = bytes;
    DEV_ROLLED
    for (uint32_t d = 0; d < step->ndst; d++) {
        const struct dev_operand *to = &operand[step->nsrc + d];
        order.flags = nth < step->more || d + 1u < step->ndst ? DEV_ORDER_MORE : 0;
        order.dst_rank = to->rank;
        order.dst = dev_name(t, to, first, &order.dst_space);
        if (!dev_hand_over(t, order))
            return 0;
    }
    return 1;
}

DEV_FN void dev_hand_move(struct dev_thread *t, const struct dev_step *step)
{
    struct dev_event *event = dev_event(t, step->event);
    if (t->tid != 0)
        return;
    if (!DEV_BUG(28) && !dev_await(t, step->event, 1))
        return;
    event->handed = DEV_HOST;
    event->issued++;
    DEV_ROLLED
    for (uint32_t nth = 0; nth <= step->more; nth++)
        if (!dev_hand_chunk(t, step, nth, event->issued))
            return;
}

/* The transfer that a signal follows, if the host has it; what the kernel moved is waited for. */
DEV_FN int dev_follow(struct dev_thread *t, uint32_t after, struct dev_order *order)
{
    order->event = DEV_NO_EVENT;
    if (after == DEV_NO_EVENT)
        return 1;
    const struct dev_event *event = dev_event(t, after);
    if (event->handed != DEV_HOST)
        return dev_await(t, after, 1);
    if (DEV_BUG(24))
        return 1;
    order->event = (uint8_t)after;
    order->number = DEV_BUG(25) ? event->issued - 1 : event->issued;
    return 1;
}

DEV_FN void dev_hand_signal(struct dev_thread *t, const struct dev_step *step)
{
    struct dev_sem_out *sem = dev_sem_out(t, step->sem);
    struct dev_order order;
    memset(&order, 0, sizeof order);
    /* The ring keeps order among signals of this lane; of a call before, another may have been. */
    if (sem->handed && sem->handed != 1 + t->lane && !DEV_BUG(8) &&
        !dev_await_host(t, dev_raised(t, step->sem), sem->sent))
        return;
    if (!dev_follow(t, step->after, &order))
        return;
    order.kind = DEV_ORDER_SIGNAL;
    order.engine = step->engine;
    order.dst_space = DEV_AT_ARENA;
    order.dst_rank = step->peer;
    order.dst =
        dev_sem_offset(t, t->block->rank.rank, step->sem - step->peer * t->block->layout->nsems);
    order.count = ++sem->sent;
    order.digest = t->block->digest;
    order.sem = step->sem;
    sem->handed = 1 + t->lane;
    (void)dev_hand_over(t, order);
}

DEV_FN void dev_hand_tell(struct dev_thread *t, const struct dev_step *step)
{
    struct dev_order order;
    memset(&order, 0, sizeof order);
    order.kind = DEV_ORDER_STORE;
    order.engine = step->engine;
    order.event = DEV_NO_EVENT;
    order.dst_space = DEV_AT_ARENA;
    order.dst_rank = step->peer;
    order.dst = dev_count_offset(t, t->block->rank.rank);
    order.src = dev_told_count(t, step->peer);
    if (dev_hand_over(t, order))
        dev_hand_signal(t, step);
}

#endif
