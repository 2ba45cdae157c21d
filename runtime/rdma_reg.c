/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory. What is taken of the segment is registered as a whole when the first part of
 * it is asked for, and forgotten when others need the place and nobody uses it. */
#include "rdma.h"

static int holds(const char *at, uint64_t bytes, const char *inner, uint64_t inner_bytes)
{
    uint64_t skip = (uint64_t)((uintptr_t)inner - (uintptr_t)at);
    return skip <= bytes && inner_bytes <= bytes - skip;
}

static struct rdma_entry *find(struct rdma_cache *cache, const char *at, uint64_t bytes)
{
    for (uint32_t i = 0; i < RDMA_REGIONS; i++) {
        const struct rdma_region *region = &cache->entries[i].region;
        if (region->bytes && holds(region->at, region->bytes, at, bytes))
            return &cache->entries[i];
    }
    return NULL;
}

static void drop(struct rdma_cache *cache, struct rdma_entry *entry)
{
    if (entry->region.bytes)
        cache->nic->ops->unregion(cache->nic, &entry->region);
    *entry = (struct rdma_entry){0};
}

/* An empty place, or the one that was used longest ago. */
static struct rdma_entry *make_place(struct rdma_cache *cache)
{
    struct rdma_entry *oldest = NULL;
    for (uint32_t i = 0; i < RDMA_REGIONS; i++) {
        struct rdma_entry *entry = &cache->entries[i];
        if (!entry->refs && (!oldest || entry->used < oldest->used))
            oldest = entry;
    }
    if (oldest)
        drop(cache, oldest);
    return oldest;
}

static struct rdma_entry *make(struct rdma_cache *cache, const char *at, uint64_t bytes)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct rdma_span *span = &cache->spans[i];
        if (!holds(span->at, span->bytes, at, bytes))
            continue;
        struct rdma_entry *entry = make_place(cache);
        if (entry && cache->nic->ops->region(cache->nic, span->at, span->bytes, &entry->region))
            return entry;
        if (entry)
            *entry = (struct rdma_entry){0};
        return NULL;
    }
    return NULL;
}

struct rdma_entry *rdma_use(struct rdma_cache *cache, const char *at, uint64_t bytes)
{
    struct rdma_entry *entry = find(cache, at, bytes);
    if (!entry)
        entry = make(cache, at, bytes);
    if (!entry)
        return NULL;
    entry->refs++;
    entry->used = ++cache->clock;
    return entry;
}

void rdma_unuse(struct rdma_entry *entry)
{
    entry->refs--;
}

void rdma_cache_clear(struct rdma_cache *cache)
{
    for (uint32_t i = 0; i < RDMA_REGIONS; i++)
        drop(cache, &cache->entries[i]);
}
