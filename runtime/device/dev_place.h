/* SPDX-License-Identifier: Apache-2.0 */
/* Where things are: tiles in the message, operands in memory. The rules are those of
 * docs/plan-format.md, "Chunks, tiles, trips" and "Operands". */
#ifndef PEAL_RUNTIME_DEVICE_PLACE_H
#define PEAL_RUNTIME_DEVICE_PLACE_H

#include "dev_target.h"

#define DEV_ALIGN 128u

DEV_FN uint32_t dev_elem_bytes(uint32_t dtype)
{
    /* Logarithms, half a byte each, in the order of peal_dtype. */
    return 1u << (0x003322001132ull >> 4 * dtype & 15u);
}

/* floor(a x num / den) for num <= den < 2^32. */
DEV_FN uint64_t dev_muldiv(uint64_t a, uint32_t num, uint32_t den)
{
    uint64_t whole = a / den;
    return whole * num + (a - whole * den) * num / den;
}

/* First element of a chunk in the message; of the one behind a block's last: the block's end. */
DEV_FN uint64_t dev_bound(const struct dev_thread *t, uint32_t block, uint32_t nth, uint32_t chunks)
{
    uint64_t count = t->block->call.count;
    uint64_t start = block * count;
    if (nth == chunks)
        return start + count;
    if (nth == 0)
        return start;
    uint64_t unit = DEV_ALIGN / t->block->elem_bytes;
    if (count < unit * chunks)
        unit = 1;
    uint32_t weight = nth, total = chunks;
    if (t->block->prefix) {
        const uint32_t *prefix = t->block->prefix + block * chunks;
        weight = prefix[nth] - prefix[0];
        total = prefix[chunks] - prefix[0];
    }
    return start + unit * dev_muldiv(count / unit, weight, total);
}

/* alltoallv: elements that a chunk's block has. */
DEV_FN uint64_t dev_length(const struct dev_thread *t, uint32_t limit)
{
    uint32_t rank = (limit - 1) / 2;
    if (limit == DEV_LIMIT_SENDS(rank))
        return t->block->bad_counts ? 0 : DEV_AT(const uint64_t, t->block->call.send_counts)[rank];
    return dev_relaxed64((const uint64_t *)(const void *)((const char *)t->block->state +
                                                          t->block->state->recv_counts) +
                         rank);
}

/* Elements of the present tile of a step's nth chunk, and where it begins in the message. */
DEV_FN uint64_t dev_tile(const struct dev_thread *t, const struct dev_step *step, uint32_t nth,
                         uint64_t *first)
{
    uint32_t chunk = step->chunk + nth * step->stride;
    uint32_t chunks = t->block->row->nchunks / t->block->row->blocks;
    uint32_t block = chunk / chunks;
    uint32_t inside = chunk - block * chunks;
    uint64_t begin = dev_bound(t, block, inside, chunks);
    uint64_t count = dev_bound(t, block, inside + 1, chunks) - begin;
    if (t->block->tile) {
        uint64_t skip = t->trip * t->block->tile;
        begin += skip;
        count = count > skip ? count - skip : 0;
        if (count > t->block->tile)
            count = t->block->tile;
    }
    if (step->limit) {
        uint64_t length = dev_length(t, step->limit);
        uint64_t at = begin - step->block * t->block->call.count;
        uint64_t left = length > at ? length - at : 0;
        count = count < left ? count : left;
    }
    *first = begin;
    return count;
}

/* ---- operands */

/* Of a slot, in the arena. */
DEV_FN uint64_t dev_slot_offset(const struct dev_thread *t, const struct dev_operand *operand)
{
    uint64_t copy = operand->place == DEV_PACKETS ? t->block->layout->packet_bytes
                                                  : t->block->layout->scratch_bytes;
    uint64_t at = operand->at;
    if (t->block->parity && !DEV_BUG(13))
        at += copy;
    if (t->trip && !DEV_BUG(33))
        at += t->trip % operand->depth * operand->trip_bytes;
    return at;
}

/* Bytes from the start of a buffer; first: element of the message. */
DEV_FN uint64_t dev_buffer_offset(const struct dev_thread *t, const struct dev_operand *operand,
                                  uint64_t first)
{
    return (first + operand->at * t->block->call.count) * t->block->elem_bytes;
}

DEV_FN uint64_t dev_board_word(const struct dev_thread *t, uint32_t rank, int is_out)
{
    const struct dev_board *board = DEV_AT(const struct dev_board, t->block->peers[rank].arena);
    return dev_relaxed64(is_out ? &board->out : &board->in);
}

/* The address of an operand that this rank reaches. */
DEV_FN uint64_t dev_operand_at(const struct dev_thread *t, const struct dev_operand *operand,
                               uint64_t first)
{
    uint64_t offset;
    if (operand->place >= DEV_SLOT)
        return t->block->peers[operand->rank].arena + dev_slot_offset(t, operand);
    offset = dev_buffer_offset(t, operand, first);
    switch (operand->place) {
    case DEV_OWN_IN:
        return t->block->call.in + offset;
    case DEV_OWN_OUT:
        return t->block->call.out + offset;
    case DEV_SHARED_OUT:
        return t->block->call.shared_out + offset;
    case DEV_SHARED_IN:
        return t->block->call.shared_in + offset;
    default:
        return t->block->peers[operand->rank].window +
               dev_board_word(t, operand->rank, operand->place == DEV_PEER_OUT) + offset;
    }
}

DEV_FN const struct dev_operand *dev_operands(const struct dev_thread *t,
                                              const struct dev_step *step, uint32_t nth)
{
    return t->block->operands + step->operands + nth * ((uint32_t)step->nsrc + step->ndst);
}

/* Addresses of the nth chunk's operands, for the whole block; gives its elements. The barrier
 * before lets nobody still use those of the chunk before. */
DEV_FN uint64_t dev_resolve(struct dev_thread *t, const struct dev_step *step, uint32_t nth)
{
    uint64_t first;
    uint64_t count = dev_tile(t, step, nth, &first);
    const struct dev_operand *operand = dev_operands(t, step, nth);
    if (nth && !DEV_BUG(35))
        dev_sync(t);
    DEV_ROLLED
    for (uint32_t i = t->tid; i < (uint32_t)step->nsrc + step->ndst; i += t->threads) {
        uint64_t at = dev_operand_at(t, &operand[i], first);
        if (i < step->nsrc)
            t->block->src[i] = at;
        else
            t->block->dst[i - step->nsrc] = at;
    }
    if (!DEV_BUG(34))
        dev_sync(t);
    return count;
}

#endif
