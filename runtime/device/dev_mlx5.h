/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU-driven control path of RDMA (IBGDA) for mlx5: a thread of the kernel writes the work
 * queue entry of an RDMA WRITE itself, and rings the NIC's doorbell; the host has no part in it.
 * The queues (send queue, doorbell record, completion queue: in memory that the GPU reaches; the
 * doorbell page: mapped for it) are the host's to make, with mlx5dv: a queue pair for each lane and
 * peer, so that one thread alone posts to it.
 *
 * The layout is that of struct mlx5_wqe_*_seg in rdma-core's mlx5dv.h: big-endian, an entry of one
 * basic block (64 bytes) here, of which DS says how many 16-byte parts are used. Compiled for all
 * targets, its bytes compared with what mlx5dv.h's own setters give; it has not met a NIC.
 */
#ifndef PEAL_RUNTIME_DEVICE_MLX5_H
#define PEAL_RUNTIME_DEVICE_MLX5_H

#include "dev_target.h"

#define DEV_MLX5_WRITE 0x08u     /* MLX5_OPCODE_RDMA_WRITE */
#define DEV_MLX5_WRITE_IMM 0x09u /* MLX5_OPCODE_RDMA_WRITE_IMM */
#define DEV_MLX5_BLOCK 64u       /* of the send queue */
#define DEV_MLX5_NOTIFY 0x08u    /* MLX5_WQE_CTRL_CQ_UPDATE */
#define DEV_MLX5_INLINE 0x80000000u
#define DEV_MLX5_CQE_ERROR 0xdu     /* of requests; 0xe of responses */
#define DEV_MLX5_MESSAGE (1u << 30) /* bytes of one entry, at most 2^31 */

/* ---- big-endian */

DEV_FN uint32_t dev_be32(uint32_t value)
{
    return value << 24 | (value & 0xff00u) << 8 | (value >> 8 & 0xff00u) | value >> 24;
}

DEV_FN uint64_t dev_be64(uint64_t value)
{
    return (uint64_t)dev_be32((uint32_t)value) << 32 | dev_be32((uint32_t)(value >> 32));
}

/* ---- an entry: 16 words */

DEV_FN void dev_mlx5_control(uint32_t *entry, uint32_t index, uint32_t opcode, uint32_t number,
                             uint32_t flags, uint32_t parts, uint32_t immediate)
{
    entry[0] = dev_be32((index & 0xffffu) << 8 | opcode);
    entry[1] = dev_be32(number << 8 | parts);
    entry[2] = dev_be32(flags); /* signature and stream channel before it: 0 */
    entry[3] = dev_be32(immediate);
}

DEV_FN void dev_mlx5_remote(uint32_t *entry, uint64_t address, uint32_t key)
{
    entry[4] = dev_be32((uint32_t)(address >> 32));
    entry[5] = dev_be32((uint32_t)address);
    entry[6] = dev_be32(key);
    entry[7] = 0;
}

DEV_FN void dev_mlx5_local(uint32_t *entry, uint64_t address, uint32_t key, uint32_t bytes)
{
    entry[8] = dev_be32(bytes);
    entry[9] = dev_be32(key);
    entry[10] = dev_be32((uint32_t)(address >> 32));
    entry[11] = dev_be32((uint32_t)address);
}

/* The word as it lies in memory, behind the inline header. */
DEV_FN void dev_mlx5_word(uint32_t *entry, uint64_t word)
{
    entry[8] = dev_be32(DEV_MLX5_INLINE | 8u);
    entry[9] = (uint32_t)word;
    entry[10] = (uint32_t)(word >> 32);
    entry[11] = 0;
}

/* ---- posting */

/* What is written, and where to. key and local_key are those of the memory regions. */
struct dev_mlx5_target {
    uint64_t address;
    uint32_t key;
    uint32_t local_key;
};

/* The next entry, which the caller fills; its place is free once so many less than the queue holds
 * are under way (dev_mlx5_finished). */
DEV_FN uint32_t *dev_mlx5_entry(const struct dev_mlx5_queue *queue)
{
    uint64_t block = queue->posted & (queue->blocks - 1u);
    return DEV_AT(uint32_t, queue->entries + block * DEV_MLX5_BLOCK);
}

/* An RDMA WRITE of up to DEV_MLX5_MESSAGE bytes. */
DEV_FN void dev_mlx5_put(struct dev_mlx5_queue *queue, uint64_t from,
                         const struct dev_mlx5_target *to, uint32_t bytes)
{
    uint32_t *entry = dev_mlx5_entry(queue);
    dev_mlx5_control(entry, queue->posted, DEV_MLX5_WRITE, queue->number, DEV_MLX5_NOTIFY, 3, 0);
    dev_mlx5_remote(entry, to->address, to->key);
    dev_mlx5_local(entry, from, to->local_key, bytes);
    queue->posted++;
}

/* The same with a number for the peer's completion queue. */
DEV_FN void dev_mlx5_put_number(struct dev_mlx5_queue *queue, uint64_t from,
                                const struct dev_mlx5_target *to, uint32_t bytes,
                                uint32_t immediate)
{
    uint32_t *entry = dev_mlx5_entry(queue);
    dev_mlx5_control(entry, queue->posted, DEV_MLX5_WRITE_IMM, queue->number, DEV_MLX5_NOTIFY, 3,
                     immediate);
    dev_mlx5_remote(entry, to->address, to->key);
    dev_mlx5_local(entry, from, to->local_key, bytes);
    queue->posted++;
}

/* A semaphore's word, behind all that was put on this queue before: a reliable connection writes in
 * order. The word travels in the entry. */
DEV_FN void dev_mlx5_signal(struct dev_mlx5_queue *queue, const struct dev_mlx5_target *to,
                            uint64_t word)
{
    uint32_t *entry = dev_mlx5_entry(queue);
    dev_mlx5_control(entry, queue->posted, DEV_MLX5_WRITE, queue->number, DEV_MLX5_NOTIFY, 3, 0);
    dev_mlx5_remote(entry, to->address, to->key);
    dev_mlx5_word(entry, word);
    queue->posted++;
}

/* Lets the NIC have what was posted. The record is stored behind the entries, the doorbell behind
 * the record; it takes the first eight bytes of the last entry. */
DEV_FN void dev_mlx5_ring(struct dev_mlx5_queue *queue)
{
    uint64_t block = (queue->posted - 1u) & (queue->blocks - 1u);
    uint64_t entry = queue->entries + block * DEV_MLX5_BLOCK;
    dev_release32(DEV_AT(uint32_t, queue->record), dev_be32(queue->posted & 0xffffu));
    dev_release64(DEV_AT(uint64_t, queue->doorbell), *DEV_AT(const uint64_t, entry));
}

/* ---- completions: every entry has one, in order, so that of the nth lies at n modulo the queue's
 * size, or there is one for all (collapsed). It bears the entry's number: an older one in its place
 * is told by that, and no owner bit need be looked at. */

/* Entries done, modulo 2^16, as far as the completion of the entry before `number` knows; *failed:
 * that one ended in an error. */
DEV_FN uint32_t dev_mlx5_finished(const struct dev_mlx5_queue *queue, uint32_t number, int *failed)
{
    /* The last eight bytes: send queue and opcode in bits of no use here, the counter, and at the
     * end opcode and owner. */
    uint64_t at = queue->done + (uint64_t)((number - 1u) & (queue->cqes - 1u)) * 64u + 56u;
    uint64_t word = dev_be64(dev_acquire64(DEV_AT(const uint64_t, at)));
    *failed = (word >> 4 & 0xfu) >= DEV_MLX5_CQE_ERROR && (word >> 4 & 0xfu) != 0xfu;
    return (word >> 4 & 0xfu) == 0xfu ? 0 : ((uint32_t)(word >> 16) + 1u) & 0xffffu;
}

/* The same modulo 2^32: fewer than 2^16 are under way. */
DEV_FN uint32_t dev_mlx5_count(const struct dev_mlx5_queue *queue, uint32_t finished)
{
    return queue->posted - ((queue->posted - finished) & 0xffffu);
}

/* Completions may be written over: now and then, which is often enough for a queue that has twice
 * as many of them as entries. */
DEV_FN void dev_mlx5_take(struct dev_mlx5_queue *queue, uint32_t count)
{
    if (!queue->taken || (int32_t)(count - queue->told) < (int32_t)(queue->cqes / 4u))
        return;
    queue->told = count;
    dev_release32(DEV_AT(uint32_t, queue->taken), dev_be32(count & 0xffffffu));
}

#endif
