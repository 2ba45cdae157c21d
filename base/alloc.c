/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, all of it through the host's realloc_fn. */
#include "ctx.h"

#include <stdlib.h>
#include <string.h>

void *peal_heap_realloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user;
    (void)old_bytes;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_bytes);
}

/* For realloc_fn, 0 new bytes means free: so that the NULL of an empty block is not
 * taken for a lack of memory, an empty block is one byte. Frees say the same size. */
static size_t block_bytes(size_t bytes)
{
    return bytes ? bytes : 1;
}

void *peal_alloc(peal_ctx *ctx, size_t bytes)
{
    return ctx->host.realloc_fn(ctx->host.user, NULL, 0, block_bytes(bytes));
}

void *peal_calloc(peal_ctx *ctx, size_t count, size_t bytes)
{
    size_t total;
    if (peal_mul_overflows(count, bytes, &total))
        return NULL;
    void *block = peal_alloc(ctx, total);
    if (block)
        memset(block, 0, total);
    return block;
}

void *peal_realloc(peal_ctx *ctx, void *ptr, size_t old_bytes, size_t new_bytes)
{
    size_t held = ptr ? block_bytes(old_bytes) : 0;
    return ctx->host.realloc_fn(ctx->host.user, ptr, held, block_bytes(new_bytes));
}

void peal_free(peal_ctx *ctx, void *ptr, size_t bytes)
{
    if (ptr)
        (void)ctx->host.realloc_fn(ctx->host.user, ptr, block_bytes(bytes), 0);
}

char *peal_strdup(peal_ctx *ctx, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = peal_alloc(ctx, bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

void peal_strfree(peal_ctx *ctx, char *text)
{
    if (text)
        peal_free(ctx, text, strlen(text) + 1);
}

/* The next capacity: double, at least 8, at least need, at most limit. need <= limit. */
static size_t grown_capacity(size_t capacity, size_t need, size_t limit)
{
    size_t next = capacity > limit / 2 ? limit : 2 * capacity;
    if (next < 8)
        next = 8;
    if (next < need)
        next = need;
    return next < limit ? next : limit;
}

/* Vectors are T *, handed over as void **: read and written as bytes, so that the
 * compiler's rule about pointers to different types holds. */
peal_status peal_grow(peal_ctx *ctx, void **ptr, uint32_t *capacity, size_t need, size_t elem_bytes,
                      size_t limit)
{
    if (limit > UINT32_MAX)
        limit = UINT32_MAX;
    if (need > limit)
        return PEAL_ERR_LIMIT;
    if (need <= *capacity)
        return PEAL_OK;
    size_t next = grown_capacity(*capacity, need, limit);
    size_t bytes;
    if (peal_mul_overflows(next, elem_bytes, &bytes))
        return PEAL_ERR_LIMIT;
    void *block;
    memcpy(&block, ptr, sizeof block);
    block = peal_realloc(ctx, block, *capacity * elem_bytes, bytes);
    if (!block)
        return PEAL_ERR_MEMORY;
    memcpy(ptr, &block, sizeof block);
    *capacity = (uint32_t)next;
    return PEAL_OK;
}
