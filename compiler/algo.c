/* SPDX-License-Identifier: Apache-2.0 */
/* The table of algorithms. */
#include "compiler.h"

const struct algo *peal_algo_get(enum algorithm algo)
{
    static const struct algo *const table[ALGO_COUNT] = {
#define ALGORITHM(id, name) [ALGO_##id] = &peal_algo_##name,
#include "algorithms.def"
#undef ALGORITHM
    };
    return algo == ALGO_SCRIPT ? &peal_algo_script : table[algo];
}

const char *peal_algorithm_name(uint32_t index)
{
    return index < ALGO_COUNT ? peal_algo_get((enum algorithm)index)->name : NULL;
}
