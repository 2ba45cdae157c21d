/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that lives and dies together: names and texts of one fabric or one
 * document. Pieces are never freed alone.
 */
#ifndef PEAL_TOPO_ARENA_H
#define PEAL_TOPO_ARENA_H

#include "base.h"

struct topo_chunk;

struct topo_arena {
    peal_ctx *ctx;
    struct topo_chunk *head;
};

void peal_topo_arena_init(struct topo_arena *arena, peal_ctx *ctx);
void peal_topo_arena_free(struct topo_arena *arena);
/* Zeroed, aligned for any object. NULL: out of memory. */
void *peal_topo_arena_alloc(struct topo_arena *arena, size_t bytes);
/* Copies `bytes` bytes and terminates them. NULL: out of memory. */
char *peal_topo_arena_text(struct topo_arena *arena, const char *text, size_t bytes);

#endif
