/* SPDX-License-Identifier: Apache-2.0 */
/* The table of algorithms. */
#include "compiler.h"

const struct algo *peal_algo_get(enum algorithm algo)
{
    static const struct algo *const table[ALGO_COUNT] = {
        [ALGO_ONESHOT] = &peal_algo_oneshot, [ALGO_TWOSHOT] = &peal_algo_twoshot,
        [ALGO_DIRECT] = &peal_algo_direct,   [ALGO_DOUBLING] = &peal_algo_doubling,
        [ALGO_TREE] = &peal_algo_tree,       [ALGO_CHAIN] = &peal_algo_chain,
        [ALGO_RING] = &peal_algo_ring,       [ALGO_HIERARCHICAL] = &peal_algo_hierarchical,
        [ALGO_PACKED] = &peal_algo_packed,
    };
    return table[algo];
}
