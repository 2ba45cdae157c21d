/* SPDX-License-Identifier: Apache-2.0 */
/* The network at work: a graph made regular, its flow, and changes that keep every node fed. */
#include "pack.h"

#include <string.h>

/* ---- from the graph --------------------------------------------------------- */

static peal_status check_graph(const struct pack_graph *graph, uint32_t nodes_max, peal_diag *diag)
{
    if (!graph || (graph->nedges && !graph->edges))
        return peal_fail(diag, PEAL_ERR_ARG, "no graph");
    if (graph->compute < 2)
        return peal_fail(diag, PEAL_ERR_ARG, "%u compute nodes: trees need two or more",
                         graph->compute);
    if (graph->compute > nodes_max || graph->switches > nodes_max - graph->compute)
        return peal_fail(diag, PEAL_ERR_LIMIT, "more than %u nodes", nodes_max);
    if (graph->nedges > PACK_LINKS_MAX)
        return peal_fail(diag, PEAL_ERR_LIMIT, "more than %u links", PACK_LINKS_MAX);
    uint32_t nodes = graph->compute + graph->switches;
    for (uint32_t i = 0; i < graph->nedges; i++)
        if (graph->edges[i].from >= nodes || graph->edges[i].to >= nodes)
            return peal_fail(diag, PEAL_ERR_INPUT, "edge %u joins nodes %u and %u of %u", i,
                             graph->edges[i].from, graph->edges[i].to, nodes);
    return PEAL_OK;
}

static uint32_t key_of(const struct pack_edge *edge, int by_from)
{
    return by_from ? edge->from : edge->to;
}

/* Stable counting sort of the indices in `in`; count has a word for each node and one more. */
static void sort_by(const struct pack_edge *edges, uint32_t n, uint32_t nodes, int by_from,
                    const uint32_t *in, uint32_t *out, uint32_t *count)
{
    memset(count, 0, ((size_t)nodes + 1) * sizeof *count);
    for (uint32_t i = 0; i < n; i++)
        count[key_of(&edges[i], by_from) + 1]++;
    for (uint32_t v = 0; v < nodes; v++)
        count[v + 1] += count[v];
    for (uint32_t i = 0; i < n; i++)
        out[count[key_of(&edges[in[i]], by_from)]++] = in[i];
}

static peal_status take_edge(struct pack_net *net, const struct pack_edge *edge)
{
    struct pack_link *last = net->nlinks ? &net->links[net->nlinks - 1] : NULL;
    if (edge->from == edge->to || !edge->capacity)
        return PEAL_OK;
    if (last && last->from == edge->from && last->to == edge->to) {
        if (edge->capacity > UINT64_MAX - last->capacity)
            return PEAL_ERR_LIMIT;
        last->capacity += edge->capacity;
        return PEAL_OK;
    }
    PEAL_TRY(peal_grow(net->ctx, (void **)&net->links, &net->links_room, net->nlinks + 1,
                       sizeof *net->links, PACK_LINKS_MAX));
    net->links[net->nlinks++] = (struct pack_link){edge->from, edge->to, edge->capacity, 0};
    return PEAL_OK;
}

static peal_status take_edges(struct pack_net *net, const struct pack_graph *graph)
{
    size_t words = 2 * (size_t)graph->nedges + net->nodes + 1;
    uint32_t *scratch = peal_alloc(net->ctx, words * sizeof *scratch);
    if (!scratch)
        return PEAL_ERR_MEMORY;
    uint32_t *order = scratch;
    uint32_t *other = scratch + graph->nedges;
    uint32_t *count = other + graph->nedges;
    for (uint32_t i = 0; i < graph->nedges; i++)
        order[i] = i;
    sort_by(graph->edges, graph->nedges, net->nodes, 0, order, other, count);
    sort_by(graph->edges, graph->nedges, net->nodes, 1, other, order, count);
    peal_status status = PEAL_OK;
    for (uint32_t i = 0; i < graph->nedges && status == PEAL_OK; i++)
        status = take_edge(net, &graph->edges[order[i]]);
    peal_free(net->ctx, scratch, words * sizeof *scratch);
    return status;
}

/* The greatest common divisor of all capacities, and their sum in it. */
static peal_status measure(struct pack_net *net, peal_diag *diag)
{
    for (uint32_t i = 0; i < net->nlinks; i++)
        net->gcd = peal_pack_gcd(net->links[i].capacity, net->gcd);
    uint64_t max = PACK_UNITS_MAX / 2 / net->compute;
    for (uint32_t i = 0; i < net->nlinks; i++) {
        uint64_t capacity = net->links[i].capacity / net->gcd;
        if (capacity > max - net->total)
            return peal_fail(diag, PEAL_ERR_LIMIT, "capacities add up to too much");
        net->total += capacity;
    }
    return PEAL_OK;
}

static peal_status make_flow(struct pack_net *net)
{
    PEAL_TRY(peal_pack_flow_nodes(&net->flow, net->nodes + 1));
    for (uint32_t v = 0; v < net->compute; v++)
        PEAL_TRY(peal_pack_flow_arc(&net->flow, net->nodes, v, 0));
    for (uint32_t i = 0; i < net->nlinks; i++)
        PEAL_TRY(peal_pack_flow_arc(&net->flow, net->links[i].from, net->links[i].to, 0));
    return PEAL_OK;
}

static peal_status fill(struct pack_net *net, const struct pack_graph *graph, peal_diag *diag)
{
    peal_status status = take_edges(net, graph);
    if (status == PEAL_ERR_LIMIT)
        return peal_fail(diag, status, "capacities add up to too much");
    PEAL_TRY(status);
    PEAL_TRY(measure(net, diag));
    return make_flow(net);
}

peal_status peal_pack_net_init(struct pack_net *net, peal_ctx *ctx, const struct pack_graph *graph,
                               uint32_t nodes_max, peal_diag *diag)
{
    *net = (struct pack_net){.ctx = ctx};
    PEAL_TRY(check_graph(graph, nodes_max, diag));
    net->compute = graph->compute;
    net->nodes = graph->compute + graph->switches;
    peal_pack_flow_init(&net->flow, ctx);
    peal_status status = fill(net, graph, diag);
    if (status != PEAL_OK)
        peal_pack_net_free(net);
    return status;
}

void peal_pack_net_free(struct pack_net *net)
{
    if (!net->ctx)
        return;
    peal_free(net->ctx, net->links, net->links_room * sizeof *net->links);
    peal_pack_flow_free(&net->flow);
    *net = (struct pack_net){0};
}

/* ---- units and roots ----------------------------------------------------------- */

void peal_pack_net_set(struct pack_net *net, uint32_t link, uint64_t units)
{
    net->links[link].units = units;
    peal_pack_flow_set(&net->flow, net->compute + link, units);
}

void peal_pack_net_roots(struct pack_net *net, uint32_t root, uint64_t trees)
{
    for (uint32_t v = 0; v < net->compute; v++)
        peal_pack_flow_set(&net->flow, v, root == PACK_EVERY_ROOT || root == v ? trees : 0);
    net->need = root == PACK_EVERY_ROOT ? trees * net->compute : trees;
}

peal_status peal_pack_net_rate(struct pack_net *net, const struct pack_rate *rate)
{
    uint64_t total = 0;
    if (rate->trees > PACK_UNITS_MAX / 2 / net->compute)
        return PEAL_ERR_LIMIT;
    for (uint32_t i = 0; i < net->nlinks; i++) {
        uint64_t units;
        if (peal_pack_muldiv_overflows(net->links[i].capacity, rate->num, rate->den, &units) ||
            units > PACK_UNITS_MAX / 2 - total)
            return PEAL_ERR_LIMIT;
        total += units;
        peal_pack_net_set(net, i, units);
    }
    peal_pack_net_roots(net, rate->root, rate->trees);
    return PEAL_OK;
}

peal_status peal_pack_net_add(struct pack_net *net, uint32_t from, uint32_t to)
{
    PEAL_TRY(peal_grow(net->ctx, (void **)&net->links, &net->links_room, net->nlinks + 1,
                       sizeof *net->links, PACK_LINKS_MAX));
    PEAL_TRY(peal_pack_flow_arc(&net->flow, from, to, 0));
    net->links[net->nlinks++] = (struct pack_link){from, to, 0, 0};
    return PEAL_OK;
}

/* ---- who is fed ------------------------------------------------------------------ */

uint64_t peal_pack_net_draw(struct pack_net *net, uint32_t node)
{
    return peal_pack_flow_run(&net->flow, net->nodes, node, net->need);
}

/* The same, once `fed` has drawn all that is needed and nothing has changed; PACK_NONE: nobody has.
 * One node after the other is asked so, since what all draw comes mostly the same way. */
static uint64_t draw_after(struct pack_net *net, uint32_t fed, uint32_t node)
{
    return fed == PACK_NONE ? peal_pack_net_draw(net, node)
                            : peal_pack_flow_move(&net->flow, fed, node, net->need);
}

int peal_pack_net_feeds(struct pack_net *net)
{
    uint32_t fed = PACK_NONE;
    for (uint32_t i = 0; i < net->compute; i++) {
        uint32_t v = (net->suspect + i) % net->compute;
        if (draw_after(net, fed, v) < net->need) {
            net->suspect = v;
            return 0;
        }
        fed = v;
    }
    return 1;
}

/* ---- changes ---------------------------------------------------------------------- */

void peal_pack_net_apply(struct pack_net *net, const struct pack_change *change, uint64_t amount)
{
    for (int i = 0; i < 2; i++)
        if (change->less[i] != PACK_NONE)
            peal_pack_net_set(net, change->less[i], net->links[change->less[i]].units - amount);
    if (change->more != PACK_NONE)
        peal_pack_net_set(net, change->more, net->links[change->more].units + amount);
}

void peal_pack_net_undo(struct pack_net *net, const struct pack_change *change, uint64_t amount)
{
    for (int i = 0; i < 2; i++)
        if (change->less[i] != PACK_NONE)
            peal_pack_net_set(net, change->less[i], net->links[change->less[i]].units + amount);
    if (change->more != PACK_NONE)
        peal_pack_net_set(net, change->more, net->links[change->more].units - amount);
}

/* A cut loses the whole amount or nothing (splitting off u-w-t: a cut with u and t on one side
 * and w on the other loses it, any other has as much as before). So a node that falls short by d
 * is fed by an amount smaller by d, and by no larger one. */
uint64_t peal_pack_net_admit(struct pack_net *net, const struct pack_change *change,
                             uint64_t amount)
{
    uint32_t first = net->suspect, fed = PACK_NONE;
    peal_pack_net_apply(net, change, amount);
    for (uint32_t i = 0; i < net->compute && amount; i++) {
        uint32_t v = (first + i) % net->compute;
        uint64_t drawn = draw_after(net, fed, v);
        fed = drawn == net->need ? v : PACK_NONE;
        if (fed != PACK_NONE)
            continue;
        peal_pack_net_undo(net, change, amount);
        amount -= net->need - drawn;
        peal_pack_net_apply(net, change, amount);
        net->suspect = v;
    }
    return amount;
}
