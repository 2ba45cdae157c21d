/* SPDX-License-Identifier: Apache-2.0 */
/* Proves a forest from its graph, without anything that made it. */
#include "pack.h"

#include <string.h>

struct check {
    struct pack_net net; /* only its links; units: what they still can carry */
    const struct pack_forest *forest;
    peal_diag *diag;
    uint32_t *depth;   /* of each node in the tree at hand, PACK_NONE: not reached */
    uint64_t *planted; /* trees of each root */
};

/* The link between two nodes, by bisection. */
static uint32_t find_link(const struct pack_net *net, uint32_t from, uint32_t to)
{
    uint32_t low = 0;
    uint32_t high = net->nlinks;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct pack_link *link = &net->links[middle];
        if (link->from < from || (link->from == from && link->to < to))
            low = middle + 1;
        else
            high = middle;
    }
    if (low < net->nlinks && net->links[low].from == from && net->links[low].to == to)
        return low;
    return PACK_NONE;
}

static peal_status load_link(struct check *check, uint32_t from, uint32_t to, uint64_t units)
{
    uint32_t i = find_link(&check->net, from, to);
    if (i == PACK_NONE)
        return peal_fail(check->diag, PEAL_ERR_UNPROVEN,
                         "a hop uses a link %u to %u: there is none", from, to);
    if (check->net.links[i].units < units)
        return peal_fail(check->diag, PEAL_ERR_UNPROVEN, "link %u to %u carries too many trees",
                         from, to);
    check->net.links[i].units -= units;
    return PEAL_OK;
}

static peal_status check_hop(struct check *check, const struct pack_hop *hop, uint64_t units)
{
    const struct pack_forest *forest = check->forest;
    uint32_t at = hop->from;
    if (hop->vias > forest->nvia || hop->via > forest->nvia - hop->vias)
        return peal_fail(check->diag, PEAL_ERR_UNPROVEN, "a hop's way lies outside the forest");
    for (uint32_t i = 0; i < hop->vias; i++) {
        uint32_t via = forest->via[hop->via + i];
        if (via < forest->compute)
            return peal_fail(check->diag, PEAL_ERR_UNPROVEN, "a hop passes compute node %u", via);
        PEAL_TRY(load_link(check, at, via, units));
        at = via;
    }
    return load_link(check, at, hop->to, units);
}

/* n - 1 hops, each from a node that has been reached to one that has not: all are reached. */
static peal_status check_tree(struct check *check, uint32_t index)
{
    const struct pack_tree *tree = &check->forest->trees[index];
    const struct pack_hop *hops = peal_pack_hops(check->forest, index);
    uint32_t n = check->forest->compute;
    uint32_t deepest = 0;
    if (tree->root >= n || !tree->multiplicity)
        return peal_fail(check->diag, PEAL_ERR_UNPROVEN, "tree %u has no root or no number", index);
    memset(check->depth, 0xff, n * sizeof *check->depth);
    check->depth[tree->root] = 0;
    for (uint32_t i = 0; i + 1 < n; i++) {
        if (hops[i].from >= n || hops[i].to >= n || check->depth[hops[i].from] == PACK_NONE ||
            check->depth[hops[i].to] != PACK_NONE)
            return peal_fail(check->diag, PEAL_ERR_UNPROVEN, "tree %u is not a tree at hop %u",
                             index, i);
        check->depth[hops[i].to] = check->depth[hops[i].from] + 1;
        if (check->depth[hops[i].to] > deepest)
            deepest = check->depth[hops[i].to];
        PEAL_TRY(check_hop(check, &hops[i], tree->multiplicity));
    }
    if (deepest != tree->depth)
        return peal_fail(check->diag, PEAL_ERR_UNPROVEN, "tree %u is %u deep, not %u", index,
                         deepest, tree->depth);
    if (tree->multiplicity > check->forest->rate.trees - check->planted[tree->root])
        return peal_fail(check->diag, PEAL_ERR_UNPROVEN, "root %u has too many trees", tree->root);
    check->planted[tree->root] += tree->multiplicity;
    return PEAL_OK;
}

static peal_status check_all(struct check *check)
{
    const struct pack_rate *rate = &check->forest->rate;
    uint32_t n = check->forest->compute;
    PEAL_TRY(peal_pack_net_rate(&check->net, rate));
    for (uint32_t i = 0; i < check->forest->ntrees; i++)
        PEAL_TRY(check_tree(check, i));
    for (uint32_t v = 0; v < n; v++) {
        uint64_t due = rate->root == PACK_EVERY_ROOT || rate->root == v ? rate->trees : 0;
        if (check->planted[v] != due)
            return peal_fail(check->diag, PEAL_ERR_UNPROVEN, "root %u has not its number of trees",
                             v);
    }
    return PEAL_OK;
}

peal_status peal_pack_check(peal_ctx *ctx, const struct pack_graph *graph,
                            const struct pack_forest *forest, peal_diag *diag)
{
    struct check check = {.forest = forest, .diag = diag};
    PEAL_TRY(peal_pack_net_init(&check.net, ctx, graph, PACK_TREE_NODES_MAX, diag));
    uint32_t n = graph->compute;
    peal_status status = PEAL_ERR_MEMORY;
    check.depth = peal_alloc(ctx, n * sizeof *check.depth);
    check.planted = peal_calloc(ctx, n, sizeof *check.planted);
    if (check.depth && check.planted)
        status = n == forest->compute
                     ? check_all(&check)
                     : peal_fail(diag, PEAL_ERR_UNPROVEN, "another graph's forest");
    peal_free(ctx, check.depth, n * sizeof *check.depth);
    peal_free(ctx, check.planted, n * sizeof *check.planted);
    peal_pack_net_free(&check.net);
    return status;
}
