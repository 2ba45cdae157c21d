/* SPDX-License-Identifier: Apache-2.0 */
/* A bump allocator over a list of chunks, each at least TOPO_CHUNK bytes. */
#include "arena.h"

#include <stdalign.h>
#include <string.h>

enum { TOPO_CHUNK = 4096 };

struct topo_chunk {
    struct topo_chunk *next;
    size_t bytes; /* of data */
    size_t used;
    alignas(max_align_t) unsigned char data[];
};

void peal_topo_arena_init(struct topo_arena *arena, peal_ctx *ctx)
{
    arena->ctx = ctx;
    arena->head = NULL;
}

void peal_topo_arena_free(struct topo_arena *arena)
{
    struct topo_chunk *chunk = arena->head;

    while (chunk) {
        struct topo_chunk *next = chunk->next;

        peal_free(arena->ctx, chunk, sizeof *chunk + chunk->bytes);
        chunk = next;
    }
    arena->head = NULL;
}

void *peal_topo_arena_alloc(struct topo_arena *arena, size_t bytes)
{
    const size_t align = alignof(max_align_t);
    struct topo_chunk *chunk = arena->head;
    void *piece;

    if (bytes > SIZE_MAX - TOPO_CHUNK - sizeof *chunk)
        return NULL;
    bytes = (bytes + align - 1) / align * align;
    if (!chunk || chunk->bytes - chunk->used < bytes) {
        size_t room = bytes > TOPO_CHUNK ? bytes : TOPO_CHUNK;

        chunk = peal_alloc(arena->ctx, sizeof *chunk + room);
        if (!chunk)
            return NULL;
        chunk->bytes = room;
        chunk->used = 0;
        chunk->next = arena->head;
        arena->head = chunk;
    }
    piece = chunk->data + chunk->used;
    chunk->used += bytes;
    memset(piece, 0, bytes);
    return piece;
}

char *peal_topo_arena_text(struct topo_arena *arena, const char *text, size_t bytes)
{
    char *copy = bytes < SIZE_MAX ? peal_topo_arena_alloc(arena, bytes + 1) : NULL;

    if (copy && bytes)
        memcpy(copy, text, bytes);
    return copy;
}
