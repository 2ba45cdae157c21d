/* SPDX-License-Identifier: Apache-2.0 */
/* Trees with a given root: the binomial tree, in which the subtree of child k of a node holds 2^k
 * ranks, and the chain, which is a ring cut at its root. */
#include "compiler.h"

static uint32_t lowest_bit(uint32_t x)
{
    return x & (~x + 1);
}

struct rooted_place peal_rooted_place(uint32_t n, uint32_t root, uint32_t rank)
{
    struct rooted_place place = {.parent = NO_RANK};
    uint32_t v = (rank + n - root) % n;
    if (v) {
        uint32_t bit = lowest_bit(v), up = v - bit;
        place.parent = (up + root) % n;
        for (uint32_t k = 1; k < bit; k *= 2)
            place.slot++;
    }
    uint32_t limit = v ? lowest_bit(v) : n;
    for (uint32_t k = 1; k < limit && v + k < n; k *= 2)
        place.child[place.children++] = (v + k + root) % n;
    for (uint32_t x = v; x; x -= lowest_bit(x))
        place.depth++;
    return place;
}

struct rooted_place peal_chain_place(const struct ring_orders *orders, uint32_t channel,
                                     uint32_t root, uint32_t rank)
{
    struct rooted_place place = {.parent = NO_RANK};
    uint32_t n = orders->group->n;
    uint32_t self = peal_ring_position(orders, channel, rank);
    uint32_t start = peal_ring_position(orders, channel, root);
    place.depth = (self + n - start) % n;
    if (self != start)
        place.parent = peal_ring_rank_at(orders, channel, (self + n - 1) % n);
    if ((self + 1) % n != start)
        place.child[place.children++] = peal_ring_rank_at(orders, channel, (self + 1) % n);
    return place;
}
