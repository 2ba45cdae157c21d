/* SPDX-License-Identifier: Apache-2.0 */
/* Double binary trees (Sanders, Speck, Traeff 2009): two trees in which every rank but one or two
 * is interior in at most one, so that two half messages use every link both ways. */
#include "compiler.h"

/* Place in the first tree. With b the lowest set bit of the rank, its parent is the rank with b
 * cleared and the next bit set, or, past the end, with b cleared; children lie b / 2 to each
 * side, shrunk until they exist. Rank 0 is the root, above the highest power of two. */
static struct tree_place in_order(uint32_t n, uint32_t rank)
{
    struct tree_place place = {NO_RANK, {NO_RANK, NO_RANK, NO_RANK}, 0};
    uint32_t bit = 1;
    if (rank == 0) {
        while (bit * 2 < n)
            bit *= 2;
        place.child[0] = n > 1 ? bit : NO_RANK;
        return place;
    }
    while (!(rank & bit))
        bit *= 2;
    uint32_t up = (rank ^ bit) | bit << 1;
    place.parent = up < n ? up : rank ^ bit;
    uint32_t half = bit / 2;
    if (half)
        place.child[0] = rank - half;
    while (half && rank + half >= n)
        half /= 2;
    place.child[1] = half ? rank + half : NO_RANK;
    return place;
}

static uint32_t depth_of(uint32_t n, uint32_t rank)
{
    uint32_t depth = 0;
    while (rank != 0 && depth < 64) {
        rank = in_order(n, rank).parent;
        depth++;
    }
    return depth;
}

static uint32_t mirrored(uint32_t n, uint32_t rank)
{
    return n - 1 - rank;
}

static uint32_t back(uint32_t n, uint32_t tree, uint32_t rank)
{
    if (rank == NO_RANK || tree == 0)
        return rank;
    return n % 2 ? (rank + 1) % n : mirrored(n, rank);
}

/* The second tree is the first one mirrored when n is even, shifted by one when it is odd. */
static uint32_t forth(uint32_t n, uint32_t rank)
{
    return n % 2 ? (rank + n - 1) % n : mirrored(n, rank);
}

struct tree_place peal_tree_place(uint32_t n, uint32_t tree, uint32_t rank)
{
    uint32_t virtual = tree ? forth(n, rank) : rank;
    struct tree_place place = in_order(n, virtual);
    place.depth = depth_of(n, virtual);
    place.parent = back(n, tree, place.parent);
    place.child[0] = back(n, tree, place.child[0]);
    place.child[1] = back(n, tree, place.child[1]);
    return place;
}

struct tree_place peal_chained_place(uint32_t n, uint32_t chain, uint32_t tree, uint32_t rank)
{
    uint32_t head = rank / chain, link = rank % chain;
    struct tree_place place = peal_tree_place(n / chain, tree, head);
    place.depth += link;
    if (link) {
        place.parent = rank - 1;
        place.child[0] = place.child[1] = NO_RANK;
    } else {
        place.parent = place.parent == NO_RANK ? NO_RANK : place.parent * chain;
        for (uint32_t i = 0; i < 2; i++)
            place.child[i] = place.child[i] == NO_RANK ? NO_RANK : place.child[i] * chain;
    }
    if (link + 1 < chain)
        place.child[2] = rank + 1;
    return place;
}

uint32_t peal_tree_parent(uint32_t n, uint32_t tree, uint32_t rank)
{
    uint32_t virtual = tree ? forth(n, rank) : rank;
    return back(n, tree, in_order(n, virtual).parent);
}

/* ---- by depth ---------------------------------------------------------------- */

void peal_tree_levels_free(struct tree_levels *levels)
{
    for (uint32_t t = 0; levels->ctx && t < 2; t++)
        peal_free(levels->ctx, levels->rank[t], levels->n * sizeof(uint32_t));
    *levels = (struct tree_levels){.ctx = NULL};
}

/* Counting sort; the depth of a rank in the second tree is that of its place in the first. */
static void sort_by_depth(struct tree_levels *levels, uint32_t tree, uint8_t *depth)
{
    uint32_t *first = levels->first[tree];
    for (uint32_t r = 0; r < levels->n; r++) {
        depth[r] = (uint8_t)peal_tree_place(levels->n, tree, r).depth;
        levels->height = depth[r] > levels->height ? depth[r] : levels->height;
        first[depth[r] + 1]++;
    }
    for (uint32_t d = 0; d < TREE_DEPTH_MAX; d++)
        first[d + 1] += first[d];
    for (uint32_t r = levels->n; r-- > 0;)
        levels->rank[tree][--first[depth[r] + 1]] = r;
    for (uint32_t d = 0; d < TREE_DEPTH_MAX; d++)
        first[d] = first[d + 1];
    first[TREE_DEPTH_MAX] = levels->n;
}

peal_status peal_tree_levels_make(struct tree_levels *levels, peal_ctx *ctx, uint32_t n)
{
    *levels = (struct tree_levels){.ctx = ctx, .n = n};
    uint8_t *depth = peal_alloc(ctx, n);
    for (uint32_t t = 0; t < 2; t++) {
        levels->rank[t] = peal_alloc(ctx, n * sizeof(uint32_t));
        if (depth && levels->rank[t])
            sort_by_depth(levels, t, depth);
    }
    int made = depth && levels->rank[0] && levels->rank[1];
    peal_free(ctx, depth, n);
    if (made)
        return PEAL_OK;
    peal_tree_levels_free(levels);
    return PEAL_ERR_MEMORY;
}
