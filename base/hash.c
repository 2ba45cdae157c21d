/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3 with seed 0, whose results are the same on every machine. */
#include "base.h"

/* Every function static in this file: no symbols, no library to link. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t peal_hash64(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

struct peal_hash128 peal_hash128(const void *data, size_t bytes)
{
    XXH128_hash_t hash = XXH3_128bits(data, bytes);
    return (struct peal_hash128){.low = hash.low64, .high = hash.high64};
}
