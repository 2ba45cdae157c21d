/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast at best: the ratio that bounds an allgather, by Newton's method on cuts (Dinkelbach
 * 1967), and the flow that bounds a broadcast.
 */
#include "pack.h"

#include <string.h>

/* ---- cuts ----------------------------------------------------------------------- */

void peal_pack_cut_free(struct pack_cut *cut)
{
    if (cut && cut->ctx)
        peal_free(cut->ctx, cut->bits, ((size_t)cut->nodes + 63) / 64 * sizeof *cut->bits);
    if (cut)
        *cut = (struct pack_cut){0};
}

int peal_pack_cut_has(const struct pack_cut *cut, uint32_t node)
{
    return (int)(cut->bits[node / 64] >> node % 64 & 1);
}

static peal_status cut_init(struct pack_cut *cut, const struct pack_net *net)
{
    *cut = (struct pack_cut){.ctx = net->ctx, .nodes = net->nodes};
    cut->bits = peal_calloc(net->ctx, ((size_t)net->nodes + 63) / 64, sizeof *cut->bits);
    return cut->bits ? PEAL_OK : PEAL_ERR_MEMORY;
}

/* Counts what is inside, and what leaves it in units of the network's gcd. */
static void cut_measure(struct pack_cut *cut, const struct pack_net *net)
{
    cut->compute = 0;
    cut->capacity = 0;
    for (uint32_t v = 0; v < net->compute; v++)
        cut->compute += (uint32_t)peal_pack_cut_has(cut, v);
    for (uint32_t i = 0; i < net->nlinks; i++)
        if (peal_pack_cut_has(cut, net->links[i].from) && !peal_pack_cut_has(cut, net->links[i].to))
            cut->capacity += net->links[i].capacity / net->gcd;
}

/* Everything but the node that can receive the least: the first guess, and often the last. */
static peal_status cut_all_but_one(struct pack_cut *cut, const struct pack_net *net)
{
    uint64_t *ingress = peal_calloc(net->ctx, net->nodes, sizeof *ingress);
    uint32_t worst = 0;
    if (!ingress)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < net->nlinks; i++)
        ingress[net->links[i].to] += net->links[i].capacity / net->gcd;
    for (uint32_t v = 0; v < net->compute; v++)
        if (ingress[v] < ingress[worst])
            worst = v;
    peal_free(net->ctx, ingress, net->nodes * sizeof *ingress);
    for (uint32_t v = 0; v < net->nodes; v++)
        if (v != worst)
            cut->bits[v / 64] |= UINT64_C(1) << v % 64;
    return PEAL_OK;
}

/* What the source's side of the flow's minimal cut holds. */
static void cut_of_flow(struct pack_cut *cut, const struct pack_net *net)
{
    memset(cut->bits, 0, ((size_t)net->nodes + 63) / 64 * sizeof *cut->bits);
    for (uint32_t v = 0; v < net->nodes; v++)
        if (peal_pack_flow_inside(&net->flow, v))
            cut->bits[v / 64] |= UINT64_C(1) << v % 64;
}

/* ---- the ratio ------------------------------------------------------------------- */

/* r from the cut, and the network scaled so that it holds exactly when r is feasible: links
 * carry capacity x num, each node is fed den. */
static peal_status take_cut(struct pack_net *net, struct pack_optimum *optimum, peal_diag *diag)
{
    struct pack_cut *cut = &optimum->cut;
    cut_measure(cut, net);
    if (!cut->capacity)
        return peal_fail(diag, PEAL_ERR_INPUT,
                         "the network is not connected: nothing leaves a set of %u compute nodes",
                         cut->compute);
    uint64_t gcd = peal_pack_gcd(cut->compute, cut->capacity);
    optimum->num = cut->compute / gcd;
    optimum->den = cut->capacity / gcd;
    for (uint32_t i = 0; i < net->nlinks; i++)
        peal_pack_net_set(net, i, net->links[i].capacity / net->gcd * optimum->num);
    peal_pack_net_roots(net, PACK_EVERY_ROOT, optimum->den);
    return PEAL_OK;
}

/* A node that draws too little shows a cut S with num x capacity < den x compute nodes in S, so
 * one of a larger ratio, which is the next guess. Ratios only rise and cuts are finite; in
 * practice one to three guesses do. When all are fed, no cut has a larger ratio than the last. */
static peal_status newton(struct pack_net *net, struct pack_optimum *optimum, peal_diag *diag)
{
    uint32_t fed = 0;
    for (uint32_t v = 0; fed < net->compute; v = (v + 1) % net->compute) {
        if (peal_pack_net_draw(net, v) == net->need) {
            fed++;
            continue;
        }
        fed = 1;
        while (peal_pack_net_draw(net, v) < net->need) {
            cut_of_flow(&optimum->cut, net);
            PEAL_TRY(take_cut(net, optimum, diag));
        }
    }
    return PEAL_OK;
}

/* The fewest trees are k = den / g for g = gcd(den, all capacities): k = U x den / num is whole
 * for the least U = num / g that makes every capacity x U whole. */
static peal_status finish(const struct pack_net *net, struct pack_optimum *optimum, peal_diag *diag)
{
    uint64_t whole = optimum->cut.capacity;
    if (whole > UINT64_MAX / net->gcd)
        return peal_fail(diag, PEAL_ERR_LIMIT, "capacities add up to too much");
    optimum->cut.capacity = whole * net->gcd;
    uint64_t gcd = peal_pack_gcd(optimum->cut.compute, optimum->cut.capacity);
    optimum->num = optimum->cut.compute / gcd;
    optimum->den = optimum->cut.capacity / gcd;
    uint64_t group = peal_pack_gcd(optimum->den, net->gcd);
    optimum->rate = (struct pack_rate){PACK_EVERY_ROOT, optimum->den / group, optimum->num, group};
    return PEAL_OK;
}

static peal_status search(struct pack_net *net, struct pack_optimum *optimum, peal_diag *diag)
{
    PEAL_TRY(cut_init(&optimum->cut, net));
    PEAL_TRY(cut_all_but_one(&optimum->cut, net));
    PEAL_TRY(take_cut(net, optimum, diag));
    PEAL_TRY(newton(net, optimum, diag));
    return finish(net, optimum, diag);
}

peal_status peal_pack_optimum(peal_ctx *ctx, const struct pack_graph *graph, peal_diag *diag,
                              struct pack_optimum *optimum_out)
{
    struct pack_net net;
    struct pack_optimum optimum = {0};
    PEAL_TRY(peal_pack_net_init(&net, ctx, graph, PACK_BOUND_NODES_MAX, diag));
    peal_status status = search(&net, &optimum, diag);
    peal_pack_net_free(&net);
    if (status == PEAL_OK)
        *optimum_out = optimum;
    else
        peal_pack_cut_free(&optimum.cut);
    return status;
}

/* ---- what all take in ----------------------------------------------------------------- */

/* In gcds: the most that can flow to each node from all others together, added up. */
static uint64_t all_ingress(struct pack_net *net)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < net->nlinks; i++)
        peal_pack_net_set(net, i, net->links[i].capacity / net->gcd);
    for (uint32_t v = 0; v < net->compute; v++) {
        for (uint32_t from = 0; from < net->compute; from++)
            peal_pack_flow_set(&net->flow, from, from == v ? 0 : net->total);
        sum += peal_pack_flow_run(&net->flow, net->nodes, v, net->total);
    }
    return sum;
}

peal_status peal_pack_ingress(peal_ctx *ctx, const struct pack_graph *graph, double *sum_out)
{
    struct pack_net net;
    PEAL_TRY(peal_pack_net_init(&net, ctx, graph, PACK_BOUND_NODES_MAX, NULL));
    *sum_out = (double)all_ingress(&net) * (double)net.gcd;
    peal_pack_net_free(&net);
    return PEAL_OK;
}

/* ---- broadcast --------------------------------------------------------------------- */

/* In gcds; every node is asked for no more than the least so far. */
static uint64_t least_flow(struct pack_net *net, uint32_t root)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < net->nlinks; i++)
        peal_pack_net_set(net, i, net->links[i].capacity / net->gcd);
    for (uint32_t v = 0; v < net->compute; v++)
        if (v != root)
            least = peal_pack_flow_run(&net->flow, root, v, least);
    return least;
}

peal_status peal_pack_broadcast_bound(peal_ctx *ctx, const struct pack_graph *graph, uint32_t root,
                                      peal_diag *diag, struct pack_rate *rate_out)
{
    struct pack_net net;
    PEAL_TRY(peal_pack_net_init(&net, ctx, graph, PACK_BOUND_NODES_MAX, diag));
    if (root >= net.compute) {
        peal_pack_net_free(&net);
        return peal_fail(diag, PEAL_ERR_ARG, "root %u of %u", root, graph->compute);
    }
    uint64_t least = least_flow(&net, root);
    struct pack_rate rate = {root, least, 1, net.gcd};
    peal_pack_net_free(&net);
    if (!least)
        return peal_fail(diag, PEAL_ERR_INPUT, "node %u does not reach every other", root);
    *rate_out = rate;
    return PEAL_OK;
}
