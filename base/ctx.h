/* SPDX-License-Identifier: Apache-2.0 */
/* The context. Private to base: other rooms hold a pointer and pass it on. */
#ifndef PEAL_BASE_CTX_H
#define PEAL_BASE_CTX_H

#include "base.h"

/* What the host gave, every field filled in. Immutable after creation, so threads
 * share it without a lock. */
struct peal_ctx {
    peal_host host;
};

/* The C heap in the shape of peal_host.realloc_fn. */
void *peal_heap_realloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes);

#endif
