/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who hands what to whom among the peers of a level.
 *
 * When every peer is the root of a piece (reduce-scatter, allgather) the ways to all roots are one
 * way turned round: a chain through all peers that ends at the root (a ring), a binomial tree, or
 * straight (direct). With a single root (reduce, broadcast) they are a chain, straight, or one of
 * the two trees of a double binary tree.
 */
#include "level.h"

#include <string.h>

/* ---- peers ---------------------------------------------------------------------------- */

uint32_t peal_level_most_peers(const struct level_layout *layout)
{
    uint32_t most = 0;
    for (uint32_t k = 0; k < layout->levels; k++)
        most = layout->size[k] > most ? layout->size[k] : most;
    return most;
}

peal_status peal_level_peers_init(struct level_peers *peers, const struct level_layout *layout,
                                  uint32_t room)
{
    peers->room = room;
    peers->rank = peal_calloc(layout->ctx, 4 * (size_t)peers->room, sizeof(uint32_t));
    if (!peers->rank)
        return PEAL_ERR_MEMORY;
    peers->shard = peers->rank + peers->room;
    peers->sent = peers->shard + peers->room;
    peers->heard = peers->sent + peers->room;
    return PEAL_OK;
}

void peal_level_peers_free(struct level_peers *peers, const struct level_layout *layout)
{
    peal_free(layout->ctx, peers->rank, 4 * (size_t)peers->room * sizeof(uint32_t));
}

static void forget_all(struct level_peers *peers)
{
    memset(peers->sent, 0, peers->n * sizeof *peers->sent);
    memset(peers->heard, 0, peers->n * sizeof *peers->heard);
}

void peal_level_peers(struct level_peers *peers, const struct level_layout *layout, uint32_t level,
                      uint32_t rank)
{
    uint32_t unit = layout->unit_of[rank];
    if (level == 0) {
        uint32_t first = layout->first[unit];
        peers->n = layout->first[unit + 1] - first;
        peers->self = layout->index_of[rank];
        for (uint32_t i = 0; i < peers->n; i++) {
            peers->rank[i] = layout->member[first + i];
            peers->shard[i] = layout->shard_of[peers->rank[i]];
        }
        forget_all(peers);
        return;
    }
    uint32_t shard = layout->shard_of[rank];
    peers->n = layout->size[level];
    peers->self = peal_level_coordinate(layout, unit, level);
    uint32_t zero = unit - peers->self * layout->stride[level];
    for (uint32_t i = 0; i < peers->n; i++) {
        uint32_t other = zero + i * layout->stride[level];
        peers->rank[i] = layout->holder[other * layout->shards + shard];
        peers->shard[i] = i;
    }
    forget_all(peers);
}

/* ---- ways to each root, all alike ------------------------------------------------------- */

static struct level_place flat_place(uint32_t n, uint32_t root, uint32_t self)
{
    struct level_place place = {.parent = root, .slot = (self + n - root) % n - 1, .depth = 1};
    if (self == root)
        place = (struct level_place){.parent = NO_RANK, .kids = n - 1, .flat = 1};
    return place;
}

/* Distance from the root counts against the chain: peer root + n - 1 is next to it. */
static struct level_place chain_place(uint32_t n, uint32_t root, uint32_t self)
{
    uint32_t depth = (self + n - root) % n;
    struct level_place place = {.parent = NO_RANK, .depth = depth};
    if (depth)
        place.parent = (self + n - 1) % n;
    if (depth + 1 < n)
        place.kid[place.kids++] = (self + 1) % n;
    return place;
}

/* The parent of peer root + v is that without v's highest bit, so that in the order of v, in which
 * every peer takes the roots, what one waits for came earlier at another: log2 n start-ups for all
 * roots together (Bruck 1997). */
static struct level_place binomial_place(uint32_t n, uint32_t root, uint32_t self)
{
    uint32_t v = (self + n - root) % n, bit = 1;
    struct level_place place = {.parent = NO_RANK};
    while (bit <= v / 2)
        bit *= 2;
    if (v) {
        place.parent = (self + n - bit) % n;
        place.slot = v - 1;
        bit *= 2;
    }
    for (; v + bit < n; bit *= 2) {
        place.kid_slot[place.kids] = v + bit - 1;
        place.kid[place.kids++] = (self + bit) % n;
    }
    return place;
}

/* ---- trees with a single root ------------------------------------------------------------ */

static void add_kid(struct level_place *place, uint32_t kid)
{
    if (kid == NO_RANK)
        return;
    place->kid_slot[place->kids] = place->kids;
    place->kid[place->kids++] = kid;
}

static struct level_place free_tree(uint32_t n, uint32_t tree, uint32_t self)
{
    struct tree_place own = peal_tree_place(n, tree, self);
    struct level_place place = {.parent = own.parent, .depth = own.depth};
    add_kid(&place, own.child[0]);
    add_kid(&place, own.child[1]);
    if (own.parent != NO_RANK) {
        struct tree_place above = peal_tree_place(n, tree, own.parent);
        place.slot = above.child[0] != NO_RANK && above.child[1] == self;
    }
    return place;
}

/* The tree of all others, whose root the feeding one is the parent of: so that each of two trees
 * takes half of what its one link out carries. */
static struct level_place fed_tree(uint32_t n, uint32_t tree, uint32_t root, uint32_t self)
{
    uint32_t v = (self + n - root) % n;
    struct level_place place = {.parent = NO_RANK};
    if (v == 0) {
        add_kid(&place, (root + 1 + peal_level_tree_root(n - 1, tree)) % n);
        return place;
    }
    place = free_tree(n - 1, tree, v - 1);
    place.depth++;
    place.parent = place.parent == NO_RANK ? root : (place.parent + 1 + root) % n;
    for (uint32_t i = 0; i < place.kids; i++)
        place.kid[i] = (place.kid[i] + 1 + root) % n;
    return place;
}

uint32_t peal_level_tree_root(uint32_t n, uint32_t tree)
{
    uint32_t at = 0, up = peal_tree_parent(n, tree, at);
    for (; up != NO_RANK; up = peal_tree_parent(n, tree, at))
        at = up;
    return at;
}

struct level_place peal_level_place(const struct level_way *way, uint32_t root, uint32_t self)
{
    if (way->part == PART_DIRECT)
        return flat_place(way->n, root, self);
    if (way->part == PART_RING)
        return chain_place(way->n, root, self);
    if (!way->single)
        return binomial_place(way->n, root, self);
    return way->fed ? fed_tree(way->n, way->tree, root, self) : free_tree(way->n, way->tree, self);
}

/* Each root's neighbour first, so that nobody is everybody's first. */
uint32_t peal_level_kid(const struct level_place *place, const struct level_way *way, uint32_t self,
                        uint32_t i)
{
    return place->flat ? (self + 1 + i) % way->n : place->kid[i];
}

uint32_t peal_level_kid_slot(const struct level_place *place, uint32_t i)
{
    return place->flat ? i : place->kid_slot[i];
}

/* To one root there is one place, and no other peers. */
void peal_level_unsent(struct level_peers *peers, const struct level_way *way, uint32_t root)
{
    if (!way->single) {
        forget_all(peers);
        return;
    }
    struct level_place place = peal_level_place(way, root, peers->self);
    if (place.parent != NO_RANK)
        peers->sent[place.parent] = 0;
    for (uint32_t i = 0; i < place.kids; i++)
        peers->heard[peal_level_kid(&place, way, peers->self, i)] = 0;
}

uint32_t peal_level_slots(const struct level_way *way)
{
    if (way->part == PART_RING)
        return 1;
    return way->single && way->part == PART_TREE ? 2 : way->n - 1;
}

/* ---- orders -------------------------------------------------------------------------------- */

/* Partial sums go first to the root that is farthest down the chain, the own piece comes last;
 * results the other way round. */
uint32_t peal_level_turn(int folding, uint32_t n, uint32_t self, uint32_t i)
{
    return folding ? (self + 1 + i) % n : (self + n - i) % n;
}
