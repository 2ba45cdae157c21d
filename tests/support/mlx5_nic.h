/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NIC in the place of an mlx5 one, as far as kernels speak to it: it reads the entries that were
 * posted when its doorbell rings, checks every field, copies what they name, and completes. What a
 * NIC may do it does: entries of a queue in order, those of different queues in any, some at a
 * time; data in parts.
 */
#ifndef PEAL_TESTS_MLX5_NIC_H
#define PEAL_TESTS_MLX5_NIC_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NIC_REGIONS 64u
#define NIC_BLOCK 64u

struct nic_region { /* key and address, and where that is here */
    uint32_t key;
    uint64_t at;
    uint64_t bytes;
    char *here;
};

struct nic_queue {
    unsigned char *entries;
    uint32_t blocks;
    uint32_t number;
    _Alignas(64) uint32_t record;
    _Alignas(64) uint64_t doorbell;
    _Alignas(64) uint32_t taken; /* record of the completion queue */
    unsigned char *done;
    uint32_t cqes;
    uint32_t next;  /* the next entry */
    uint32_t error; /* a queue that failed stands still */
    struct nic_queue *after;
};

struct nic {
    struct nic_region regions[NIC_REGIONS];
    uint32_t nregions;
    struct nic_queue *queues;
    uint32_t nqueues;
    uint64_t random;
    uint64_t entries; /* carried out */
    const char *complaint;
};

static inline uint32_t nic_draw(struct nic *nic)
{
    nic->random = nic->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(nic->random >> 33);
}

static inline uint32_t nic_be32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline uint64_t nic_be64(const unsigned char *at)
{
    return (uint64_t)nic_be32(at) << 32 | nic_be32(at + 4);
}

static inline int nic_add_region(struct nic *nic, uint32_t key, uint64_t at, uint64_t bytes,
                                 char *here)
{
    if (nic->nregions == NIC_REGIONS)
        return 0;
    nic->regions[nic->nregions++] = (struct nic_region){key, at, bytes, here};
    return 1;
}

static inline char *nic_find(const struct nic *nic, uint32_t key, uint64_t at, uint64_t bytes)
{
    for (uint32_t i = 0; i < nic->nregions; i++) {
        const struct nic_region *region = &nic->regions[i];
        if (region->key == key && at >= region->at && bytes <= region->bytes &&
            at - region->at <= region->bytes - bytes)
            return region->here + (at - region->at);
    }
    return NULL;
}

static inline struct nic_queue *nic_add_queue(struct nic *nic, uint32_t blocks)
{
    struct nic_queue *queue = aligned_alloc(64, (sizeof *queue + 63) / 64 * 64);
    if (!queue)
        return NULL;
    memset(queue, 0, sizeof *queue);
    queue->blocks = blocks;
    queue->cqes = 2 * blocks;
    queue->entries = aligned_alloc(64, (size_t)blocks * NIC_BLOCK);
    queue->done = aligned_alloc(64, (size_t)queue->cqes * 64);
    if (!queue->entries || !queue->done) {
        free(queue->entries);
        free(queue->done);
        free(queue);
        return NULL;
    }
    memset(queue->entries, 0, (size_t)blocks * NIC_BLOCK);
    memset(queue->done, 0xff, (size_t)queue->cqes * 64);
    queue->number = 0x00a000u + nic->nqueues++;
    queue->after = nic->queues;
    nic->queues = queue;
    return queue;
}

static inline void nic_clear(struct nic *nic)
{
    for (struct nic_queue *queue = nic->queues; queue;) {
        struct nic_queue *after = queue->after;
        free(queue->entries);
        free(queue->done);
        free(queue);
        queue = after;
    }
    memset(nic, 0, sizeof *nic);
}

/* ---- entries */

/* In parts: whoever looks before the flag sees some of it. */
static inline void nic_copy(struct nic *nic, char *to, const char *from, uint64_t bytes)
{
    uint64_t first = bytes ? nic_draw(nic) % bytes : 0;
    memcpy(to + first, from + first, (size_t)(bytes - first));
    memcpy(to, from, (size_t)first);
}

/* NULL, or what is wrong with it. */
static inline const char *nic_write(struct nic *nic, const unsigned char *entry)
{
    uint32_t head = nic_be32(entry + 32);
    int is_inline = (head & 0x80000000u) != 0;
    uint64_t bytes = head & 0x7fffffffu;
    char *to = nic_find(nic, nic_be32(entry + 24), nic_be64(entry + 16), bytes);
    if (!to || nic_be32(entry + 28) != 0)
        return "a remote address that the key does not cover";
    if (is_inline) {
        uint64_t word;
        if (bytes != 8 || (uintptr_t)to % 8)
            return "inline data that is no aligned word";
        memcpy(&word, entry + 36, sizeof word);
        __atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
        return NULL;
    }
    const char *from = nic_find(nic, nic_be32(entry + 36), nic_be64(entry + 40), bytes);
    if (!from)
        return "a local address that the key does not cover";
    nic_copy(nic, to, from, bytes);
    return NULL;
}

static inline const char *nic_execute(struct nic *nic, struct nic_queue *queue)
{
    const unsigned char *entry = queue->entries + (size_t)(queue->next % queue->blocks) * NIC_BLOCK;
    uint32_t control = nic_be32(entry), which = nic_be32(entry + 4);
    if ((control >> 8 & 0xffff) != (queue->next & 0xffff) || control >> 24)
        return "an entry with another number";
    if ((control & 0xff) != 0x08)
        return "an opcode that is not RDMA WRITE";
    if (which >> 8 != queue->number || (which & 0xff) != 3)
        return "an entry of another queue, or of another size";
    if (nic_be32(entry + 8) != 0x08)
        return "an entry that asks for no completion";
    return nic_write(nic, entry);
}

/* Of the last entry, into its place. op: 0, or 0xd for an error. */
static inline const char *nic_complete(struct nic_queue *queue, uint32_t op)
{
    unsigned char word[8] = {0}, record[4];
    uint32_t last = queue->next - 1, at = last % queue->cqes;
    uint32_t taken = __atomic_load_n(&queue->taken, __ATOMIC_ACQUIRE);
    uint64_t value;
    memcpy(record, &taken, sizeof record);
    if (((queue->next - nic_be32(record)) & 0xffffff) > queue->cqes)
        return "more than its completion queue holds";
    word[4] = (unsigned char)(last >> 8);
    word[5] = (unsigned char)last;
    word[7] = (unsigned char)(op << 4 | (last / queue->cqes & 1));
    memcpy(&value, word, sizeof value);
    __atomic_store_n((uint64_t *)(void *)(queue->done + (size_t)at * 64 + 56), value,
                     __ATOMIC_RELEASE);
    return NULL;
}

/* Some of what is posted; 1: something was done. */
static inline int nic_serve_queue(struct nic *nic, struct nic_queue *queue)
{
    uint64_t rung = __atomic_load_n(&queue->doorbell, __ATOMIC_ACQUIRE);
    unsigned char record[4];
    uint32_t value = __atomic_load_n(&queue->record, __ATOMIC_ACQUIRE);
    memcpy(record, &value, sizeof record);
    uint32_t left = (nic_be32(record) - queue->next) & 0xffff;
    if (rung == 0 || left == 0 || queue->error || nic_draw(nic) % 4 == 0)
        return 0;
    uint32_t some = 1 + nic_draw(nic) % left;
    const char *wrong = left > queue->blocks ? "more entries than there are places" : NULL;
    for (uint32_t i = 0; i < some && !wrong; i++) {
        wrong = nic_execute(nic, queue);
        queue->next++;
        nic->entries++;
        const char *full = nic_complete(queue, wrong ? 0xd : 0);
        wrong = wrong ? wrong : full;
    }
    if (wrong)
        nic->complaint = wrong;
    queue->error = wrong != NULL;
    return 1;
}

static inline int nic_serve(struct nic *nic)
{
    int busy = 0;
    for (struct nic_queue *queue = nic->queues; queue; queue = queue->after)
        busy |= nic_serve_queue(nic, queue);
    return busy;
}

#endif
