/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a rate to trees: switches are split off, trees packed, and each edge of a tree is given
 * one of the ways that its link stands for. Where no single way has room for all trees of a
 * batch, the batch is cut.
 */
#include "pack.h"

#include <string.h>

struct mapping {
    const struct pack_net *net;
    struct pack_pieces *pieces;
    struct pack_forest *forest;
    uint32_t *words;  /* the arrays that follow */
    uint32_t *piece;  /* chosen for each edge of the tree at hand */
    uint32_t *offset; /* by path: 1 + where in forest->via it is, 0: not yet */
    uint32_t *stack;  /* of paths, to write one out */
};

void peal_pack_forest_free(struct pack_forest *forest)
{
    if (!forest || !forest->ctx)
        return;
    peal_free(forest->ctx, forest->trees, forest->trees_room * sizeof *forest->trees);
    peal_free(forest->ctx, forest->hops, forest->hops_room * sizeof *forest->hops);
    peal_free(forest->ctx, forest->via, forest->via_room * sizeof *forest->via);
    *forest = (struct pack_forest){0};
}

const struct pack_hop *peal_pack_hops(const struct pack_forest *forest, uint32_t tree)
{
    return forest->hops + (size_t)tree * (forest->compute - 1);
}

uint32_t peal_pack_depth(const struct pack_forest *forest)
{
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < forest->ntrees; i++)
        if (forest->trees[i].depth > deepest)
            deepest = forest->trees[i].depth;
    return deepest;
}

/* ---- ways -------------------------------------------------------------------------------------
 */

/* Writes a path's switches in order: left half, via, right half. The stack holds what is still to
 * be written; a via is told from a path by its top bit. It is never longer than the path is. */
static void write_path(const struct mapping *mapping, uint32_t path, uint32_t *via)
{
    uint32_t height = 0;
    uint32_t *stack = mapping->stack;
    stack[height++] = path;
    while (height) {
        uint32_t top = stack[--height];
        const struct pack_path *p = &mapping->pieces->paths[top & ~(1u << 31)];
        if (top >> 31) {
            *via++ = p->via;
        } else if (p->vias) {
            stack[height++] = p->right;
            stack[height++] = top | 1u << 31;
            stack[height++] = p->left;
        }
    }
}

static peal_status place_path(struct mapping *mapping, uint32_t path, struct pack_hop *hop)
{
    struct pack_forest *forest = mapping->forest;
    uint32_t vias = mapping->pieces->paths[path].vias;
    if (vias && !mapping->offset[path]) {
        PEAL_TRY(peal_grow(forest->ctx, (void **)&forest->via, &forest->via_room,
                           (size_t)forest->nvia + vias, sizeof *forest->via, PACK_LINKS_MAX));
        write_path(mapping, path, forest->via + forest->nvia);
        mapping->offset[path] = 1 + forest->nvia;
        forest->nvia += vias;
    }
    hop->via = vias ? mapping->offset[path] - 1 : 0;
    hop->vias = vias;
    return PEAL_OK;
}

/* Of two pieces, is a the better for `trees` trees: enough rather than not, then the shorter way,
 * then the tighter fit; else the larger. */
static int better(const struct pack_pieces *pieces, const struct pack_piece *a,
                  const struct pack_piece *b, uint64_t trees)
{
    if (a->units < trees || b->units < trees)
        return a->units > b->units;
    uint32_t va = pieces->paths[a->path].vias;
    uint32_t vb = pieces->paths[b->path].vias;
    return va != vb ? va < vb : a->units < b->units;
}

static uint32_t choose(const struct pack_pieces *pieces, uint32_t link, uint64_t trees)
{
    uint32_t best = PACK_NONE;
    for (uint32_t i = pieces->heads[link]; i != PACK_NONE; i = pieces->pieces[i].next)
        if (pieces->pieces[i].units &&
            (best == PACK_NONE || better(pieces, &pieces->pieces[i], &pieces->pieces[best], trees)))
            best = i;
    return best;
}

/* ---- trees --------------------------------------------------------------------------------------
 */

static peal_status add_tree(struct mapping *mapping, const struct pack_batch *batch, uint64_t trees)
{
    struct pack_forest *forest = mapping->forest;
    uint32_t n = forest->compute;
    size_t first = (size_t)forest->ntrees * (n - 1);
    PEAL_TRY(peal_grow(forest->ctx, (void **)&forest->trees, &forest->trees_room,
                       (size_t)forest->ntrees + 1, sizeof *forest->trees, PACK_TREES_MAX));
    PEAL_TRY(peal_grow(forest->ctx, (void **)&forest->hops, &forest->hops_room, first + n - 1,
                       sizeof *forest->hops, UINT32_MAX));
    struct pack_tree *tree = &forest->trees[forest->ntrees];
    *tree = (struct pack_tree){batch->root, 0, trees};
    for (uint32_t i = 1; i < n; i++) {
        struct pack_piece *piece = &mapping->pieces->pieces[mapping->piece[i]];
        struct pack_hop *hop = &forest->hops[first + i - 1];
        hop->from = batch->parent[i];
        hop->to = batch->order[i];
        PEAL_TRY(place_path(mapping, piece->path, hop));
        piece->units -= trees;
        if (batch->depth[hop->to] > tree->depth)
            tree->depth = batch->depth[hop->to];
    }
    forest->ntrees++;
    return PEAL_OK;
}

static peal_status map_batch(struct mapping *mapping, const struct pack_batch *batch)
{
    struct pack_pieces *pieces = mapping->pieces;
    for (uint64_t left = batch->mult; left;) {
        uint64_t trees = left;
        for (uint32_t i = 1; i < mapping->net->compute; i++) {
            mapping->piece[i] = choose(pieces, batch->link[i], trees);
            if (mapping->piece[i] == PACK_NONE)
                return PEAL_ERR_INTERNAL;
            if (pieces->pieces[mapping->piece[i]].units < trees)
                trees = pieces->pieces[mapping->piece[i]].units;
        }
        PEAL_TRY(add_tree(mapping, batch, trees));
        left -= trees;
    }
    return PEAL_OK;
}

/* By root, and by depth among those of a root. */
static peal_status map_batches(struct mapping *mapping, const struct pack_batches *batches)
{
    for (uint32_t root = 0; root < mapping->net->compute; root++)
        for (uint32_t i = 0; i < batches->count; i++)
            if (batches->batch[i].root == root)
                PEAL_TRY(map_batch(mapping, &batches->batch[i]));
    return PEAL_OK;
}

static peal_status map_all(const struct pack_net *net, struct pack_pieces *pieces,
                           const struct pack_batches *batches, struct pack_forest *forest)
{
    struct mapping mapping = {.net = net, .pieces = pieces, .forest = forest};
    size_t words = net->compute + (size_t)pieces->npaths + 3 * (size_t)net->nodes;
    mapping.words = peal_calloc(net->ctx, words, sizeof *mapping.words);
    if (!mapping.words)
        return PEAL_ERR_MEMORY;
    mapping.piece = mapping.words;
    mapping.offset = mapping.piece + net->compute;
    mapping.stack = mapping.offset + pieces->npaths;
    peal_status status = map_batches(&mapping, batches);
    peal_free(net->ctx, mapping.words, words * sizeof *mapping.words);
    return status;
}

/* ---- all of it
 * ------------------------------------------------------------------------------------ */

static peal_status prepare(struct pack_net *net, const struct pack_rate *rate, peal_diag *diag)
{
    uint32_t stuck;
    if (!rate->trees || !rate->den || (rate->root != PACK_EVERY_ROOT && rate->root >= net->compute))
        return peal_fail(diag, PEAL_ERR_ARG, "the rate is none of this graph");
    peal_status status = peal_pack_net_rate(net, rate);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "the rate has too many trees");
    if (!peal_pack_net_feeds(net))
        return peal_fail(diag, PEAL_ERR_ARG, "the rate is beyond the network: node %u gets less",
                         net->suspect);
    peal_pack_trim(net, &stuck);
    if (stuck != PACK_NONE)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "switch %u sends more than it receives: it would have to copy", stuck);
    return PEAL_OK;
}

static peal_status pack(struct pack_net *net, const struct pack_rate *rate, peal_diag *diag,
                        struct pack_forest *forest)
{
    struct pack_pieces pieces;
    struct pack_batches batches;
    PEAL_TRY(prepare(net, rate, diag));
    PEAL_TRY(peal_pack_split(net, rate->root == PACK_EVERY_ROOT ? rate->trees : 1, diag, &pieces));
    peal_status status = peal_pack_grow(net, rate, diag, &batches);
    if (status == PEAL_OK) {
        status = map_all(net, &pieces, &batches, forest);
        peal_pack_batches_free(&batches, net->ctx);
    }
    peal_pack_pieces_free(&pieces, net->ctx);
    return status;
}

peal_status peal_pack_trees(peal_ctx *ctx, const struct pack_graph *graph,
                            const struct pack_rate *rate, peal_diag *diag,
                            struct pack_forest *forest_out)
{
    struct pack_net net;
    PEAL_TRY(peal_pack_net_init(&net, ctx, graph, PACK_TREE_NODES_MAX, diag));
    struct pack_forest forest = {.ctx = ctx, .compute = net.compute, .rate = *rate};
    peal_status status = pack(&net, rate, diag, &forest);
    peal_pack_net_free(&net);
    if (status == PEAL_OK)
        *forest_out = forest;
    else
        peal_pack_forest_free(&forest);
    return status;
}
