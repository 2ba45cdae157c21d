/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many trees of a batch may take a link (Bérczi and Frank 2010). A batch is a number of
 * equal, unfinished trees on nodes R. All of them can be finished if and only if every set X of
 * nodes receives at least the trees of the batches whose R lies outside X. Once m trees of batch i
 * have taken x-y, a set X with y but not x, that R meets, receives m less and is owed as many as
 * before; other sets are no worse off. So m may be the least, over all X with y but not x, of
 *     what X receives - trees of the other batches outside X,
 * and it is a flow from x to y less the trees of the other batches, where x also feeds a node per
 * other batch, by as much as there are trees of it, which has every node of its R.
 */
#include "pack.h"

/* Links by their head, and by their tail. Counted, then placed from the back of each node's part;
 * from the last link to the first, so that they are in order. */
static void index_links(struct pack_ask *ask)
{
    const struct pack_net *net = ask->net;
    for (uint32_t i = 0; i < net->nlinks; i++)
        if (net->links[i].units) {
            ask->first_into[net->links[i].to]++;
            ask->first[net->links[i].from]++;
        }
    for (uint32_t y = 0; y < net->compute; y++) {
        ask->first_into[y + 1] += ask->first_into[y];
        ask->first[y + 1] += ask->first[y];
    }
    for (uint32_t i = net->nlinks; i-- > 0;)
        if (net->links[i].units) {
            ask->into[--ask->first_into[net->links[i].to]] = i;
            ask->from[--ask->first[net->links[i].from]] = i;
        }
}

static size_t words_of(const struct pack_net *net)
{
    return 4 * (size_t)net->nlinks + 2 * ((size_t)net->compute + 1);
}

peal_status peal_pack_ask_init(struct pack_ask *ask, struct pack_net *net,
                               struct pack_batches *batches)
{
    *ask = (struct pack_ask){.net = net, .batches = batches};
    peal_pack_flow_init(&ask->flow, net->ctx);
    ask->arc = peal_calloc(net->ctx, words_of(net), sizeof *ask->arc);
    ask->left = peal_calloc(net->ctx, (size_t)net->compute + net->nlinks, sizeof *ask->left);
    if (!ask->arc || !ask->left)
        return PEAL_ERR_MEMORY;
    ask->into = ask->arc + net->nlinks;
    ask->from = ask->into + net->nlinks;
    ask->touched = ask->from + net->nlinks;
    ask->first_into = ask->touched + net->nlinks;
    ask->first = ask->first_into + net->compute + 1;
    ask->used = ask->left + net->compute;
    index_links(ask);
    return PEAL_OK;
}

void peal_pack_ask_free(struct pack_ask *ask)
{
    if (!ask->net)
        return;
    size_t lefts = (size_t)ask->net->compute + ask->net->nlinks;
    peal_free(ask->net->ctx, ask->arc, words_of(ask->net) * sizeof *ask->arc);
    peal_free(ask->net->ctx, ask->left, lefts * sizeof *ask->left);
    peal_pack_flow_free(&ask->flow);
    *ask = (struct pack_ask){0};
}

peal_status peal_pack_ask_add(struct pack_ask *ask, uint32_t batch)
{
    struct pack_batch *b = &ask->batches->batch[batch];
    b->node = ask->flow.nodes;
    b->arc = ask->flow.arcs / 2;
    PEAL_TRY(peal_pack_flow_nodes(&ask->flow, b->node + 1));
    PEAL_TRY(peal_pack_flow_arc(&ask->flow, ask->net->compute, b->node, b->mult));
    for (uint32_t i = 0; i < b->size; i++)
        PEAL_TRY(peal_pack_flow_arc(&ask->flow, b->node, b->order[i], PACK_UNITS_MAX));
    return PEAL_OK;
}

/* Arcs: from each node x to the hub, closed unless x asks; links; then batch by batch. What is
 * finished or used up is left out. */
peal_status peal_pack_ask_build(struct pack_ask *ask)
{
    uint32_t n = ask->net->compute;
    ask->stale = 0;
    peal_pack_flow_clear(&ask->flow);
    PEAL_TRY(peal_pack_flow_nodes(&ask->flow, n + 1));
    for (uint32_t x = 0; x < n; x++)
        PEAL_TRY(peal_pack_flow_arc(&ask->flow, x, n, 0));
    for (uint32_t i = 0; i < ask->net->nlinks; i++) {
        const struct pack_link *link = &ask->net->links[i];
        ask->arc[i] = ask->flow.arcs / 2;
        if (link->units)
            PEAL_TRY(peal_pack_flow_arc(&ask->flow, link->from, link->to, link->units));
    }
    for (uint32_t i = 0; i < ask->batches->count; i++)
        if (ask->batches->batch[i].size < n)
            PEAL_TRY(peal_pack_ask_add(ask, i));
    return PEAL_OK;
}

peal_status peal_pack_ask_took(struct pack_ask *ask, uint32_t batch, uint32_t link)
{
    const struct pack_batch *b = &ask->batches->batch[batch];
    peal_pack_flow_set(&ask->flow, ask->arc[link], ask->net->links[link].units);
    if (b->size == ask->net->compute) {
        peal_pack_flow_set(&ask->flow, b->arc, 0);
        ask->stale = 1;
        return PEAL_OK;
    }
    return peal_pack_flow_arc(&ask->flow, b->node, ask->net->links[link].to, PACK_UNITS_MAX);
}

/* What batch b is owed at most by a set with y but not x. */
static uint64_t owed_to(const struct pack_batch *b, int asking, uint32_t y)
{
    return asking || b->depth[y] != PACK_NONE ? 0 : b->mult;
}

/* As much as can be straight from the batch's nodes to y; `left` is what y's links still carry. */
static void give_straight(struct pack_ask *ask, struct pack_batch *b)
{
    for (uint32_t i = 0; i < b->size && b->owed; i++) {
        uint64_t *left = &ask->left[b->order[i]];
        uint64_t amount = b->owed < *left ? b->owed : *left;
        *left -= amount;
        b->owed -= amount;
    }
}

/* The same with one node between. Links are marked with what they carry for earlier batches. */
static void give_over(struct pack_ask *ask, struct pack_batch *b, uint32_t y)
{
    const struct pack_link *links = ask->net->links;
    for (uint32_t i = 0; i < b->size && b->owed; i++) {
        uint32_t v = b->order[i];
        for (uint32_t k = ask->first[v]; k < ask->first[v + 1] && b->owed; k++) {
            uint32_t e = ask->from[k];
            uint64_t *left = &ask->left[links[e].to];
            uint64_t amount = b->owed < *left ? b->owed : *left;
            if (amount > links[e].units - ask->used[e])
                amount = links[e].units - ask->used[e];
            if (!amount || links[e].to == y)
                continue;
            if (!ask->used[e])
                ask->touched[ask->ntouched++] = e;
            ask->used[e] += amount;
            *left -= amount;
            b->owed -= amount;
        }
    }
}

/* Can y get all that the batch wants and all that the others are owed in one step or two? Then
 * that is the flow. Where trees are shallow it nearly always is, and much sooner found. */
static int is_easy(struct pack_ask *ask, uint32_t asking, uint32_t link, uint64_t want)
{
    const struct pack_link *links = ask->net->links;
    uint32_t y = links[link].to;
    int easy = 1;
    for (uint32_t v = 0; v < ask->net->compute; v++)
        ask->left[v] = 0;
    for (uint32_t k = ask->first_into[y]; k < ask->first_into[y + 1]; k++)
        ask->left[links[ask->into[k]].from] = links[ask->into[k]].units;
    ask->left[links[link].from] -= want;
    for (uint32_t i = 0; i < ask->batches->count; i++) {
        struct pack_batch *b = &ask->batches->batch[i];
        b->owed = owed_to(b, i == asking, y);
        give_straight(ask, b);
    }
    for (uint32_t i = 0; i < ask->batches->count && easy; i++) {
        give_over(ask, &ask->batches->batch[i], y);
        easy = !ask->batches->batch[i].owed;
    }
    while (ask->ntouched)
        ask->used[ask->touched[--ask->ntouched]] = 0;
    return easy;
}

/* Opens the ways to batches that can be owed something by a set with y: those without y, but for
 * the one that asks. Returns how many trees they are. */
static uint64_t open_others(struct pack_ask *ask, uint32_t asking, uint32_t y)
{
    uint64_t others = 0;
    for (uint32_t i = 0; i < ask->batches->count; i++) {
        const struct pack_batch *b = &ask->batches->batch[i];
        if (b->size == ask->net->compute)
            continue;
        uint64_t trees = owed_to(b, i == asking, y);
        peal_pack_flow_set(&ask->flow, b->arc, trees);
        others += trees;
    }
    return others;
}

static peal_status ask_flow(struct pack_ask *ask, uint32_t batch, uint32_t link, uint64_t want,
                            uint64_t *trees)
{
    const struct pack_link *l = &ask->net->links[link];
    if (ask->stale)
        PEAL_TRY(peal_pack_ask_build(ask));
    uint64_t others = open_others(ask, batch, l->to);
    peal_pack_flow_set(&ask->flow, l->from, PACK_UNITS_MAX);
    uint64_t flow = peal_pack_flow_run(&ask->flow, l->from, l->to, others + want);
    peal_pack_flow_set(&ask->flow, l->from, 0);
    if (flow < others)
        return PEAL_ERR_INTERNAL;
    *trees = flow - others;
    return PEAL_OK;
}

peal_status peal_pack_ask(struct pack_ask *ask, uint32_t batch, uint32_t link, uint64_t *trees)
{
    uint64_t want = ask->batches->batch[batch].mult;
    if (want > ask->net->links[link].units)
        want = ask->net->links[link].units;
    if (!is_easy(ask, batch, link, want))
        return ask_flow(ask, batch, link, want, trees);
    *trees = want;
    return PEAL_OK;
}
