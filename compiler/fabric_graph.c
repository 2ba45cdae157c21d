/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The group's network as a graph of ranks, switches and links, and the exact bounds of allgather,
 * reduce-scatter and broadcast on it (pack.h). The graph is read off the routes: a resource is a
 * link, and where one route leaves a resource and enters another, the two ends are one node.
 */
#include "compiler.h"
#include "pack.h"

#include <stdio.h>
#include <string.h>

#define GRAPH_RANKS_MAX 64u
#define FOREST_TREES_MAX 16u /* from each root: chunks of a block */
#define GRAPH_UNIT 1e3       /* capacities in MB/s: bytes per microsecond */

struct reader {
    struct group *group;
    uint32_t resources;
    uint64_t *id;   /* of each resource, rising */
    uint64_t *rate; /* its capacity */
    uint32_t *node; /* union-find: ranks, then the two ends of each resource */
};

static uint32_t root_of(const struct reader *r, uint32_t x)
{
    while (r->node[x] != x) {
        r->node[x] = r->node[r->node[x]];
        x = r->node[x];
    }
    return x;
}

static void join(const struct reader *r, uint32_t a, uint32_t b)
{
    a = root_of(r, a);
    b = root_of(r, b);
    if (a < b)
        r->node[b] = a;
    else
        r->node[a] = b;
}

static uint32_t index_of(const struct reader *r, uint64_t resource)
{
    uint32_t low = 0, high = r->resources;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (r->id[middle] < resource)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t end_of(const struct reader *r, uint32_t resource, uint32_t which)
{
    return r->group->n + 2 * resource + which;
}

static void note_resource(struct reader *r, const struct topo_use *use)
{
    uint32_t at = index_of(r, use->resource);
    if (at < r->resources && r->id[at] == use->resource)
        return;
    memmove(&r->id[at + 1], &r->id[at], (r->resources - at) * sizeof *r->id);
    memmove(&r->rate[at + 1], &r->rate[at], (r->resources - at) * sizeof *r->rate);
    r->id[at] = use->resource;
    r->rate[at] = (uint64_t)(use->gbs * GRAPH_UNIT + 0.5);
    r->resources++;
}

static void join_route(const struct reader *r, uint32_t from, uint32_t to)
{
    struct topo_path path;
    peal_topo_path(r->group->fabric, from, to, &path);
    uint32_t at = from;
    for (uint32_t i = 0; i < path.uses; i++) {
        uint32_t resource = index_of(r, path.use[i].resource);
        join(r, at, end_of(r, resource, 0));
        at = end_of(r, resource, 1);
    }
    join(r, at, to);
}

static void read_resources(struct reader *r)
{
    for (uint32_t from = 0; from < r->group->n; from++)
        for (uint32_t to = 0; to < r->group->n; to++) {
            struct topo_path path;
            if (from == to)
                continue;
            peal_topo_path(r->group->fabric, from, to, &path);
            for (uint32_t i = 0; i < path.uses; i++)
                note_resource(r, &path.use[i]);
        }
}

static void join_routes(const struct reader *r)
{
    for (uint32_t from = 0; from < r->group->n; from++)
        for (uint32_t to = 0; to < r->group->n; to++)
            if (from != to)
                join_route(r, from, to);
}

static void start_nodes(const struct reader *r)
{
    for (uint32_t i = 0; i < r->group->n + 2 * r->resources; i++)
        r->node[i] = i;
}

/* Numbers the classes: ranks keep theirs, switches follow. 0: two ranks fell together. */
static int number_nodes(const struct reader *r, uint32_t *number, uint32_t *switches)
{
    uint32_t n = r->group->n;
    *switches = 0;
    for (uint32_t i = 0; i < n + 2 * r->resources; i++)
        number[i] = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        if (root_of(r, i) != i)
            return 0;
        number[i] = i;
    }
    for (uint32_t i = n; i < n + 2 * r->resources; i++) {
        uint32_t root = root_of(r, i);
        if (number[root] == UINT32_MAX)
            number[root] = n + (*switches)++;
        number[i] = number[root];
    }
    return 1;
}

static void describe_cut(struct group *group, const struct pack_cut *cut)
{
    char *text = group->cut;
    size_t room = sizeof group->cut, used = 0;
    int written =
        snprintf(text, room, "%u ranks can send the others no more than %g GB/s:", cut->compute,
                 (double)cut->capacity / GRAPH_UNIT);
    used = written > 0 ? (size_t)written : 0;
    for (uint32_t i = 0; i < group->n && used + 16 < room; i++) {
        uint32_t last = i;
        if (!peal_pack_cut_has(cut, i))
            continue;
        while (last + 1 < group->n && peal_pack_cut_has(cut, last + 1))
            last++;
        written = last > i ? snprintf(text + used, room - used, " %u-%u", i, last)
                           : snprintf(text + used, room - used, " %u", i);
        used += written > 0 ? (size_t)written : 0;
        i = last;
    }
}

static peal_status bound_graph(struct group *group, const struct pack_graph *graph, void *user)
{
    uint32_t root = *(const uint32_t *)user;
    struct pack_optimum optimum;
    struct pack_rate rate;
    PEAL_TRY(peal_pack_optimum(group->ctx, graph, NULL, &optimum));
    double gather = (double)optimum.num / (double)optimum.den / group->n;
    group->bound_beta[PEAL_ALLGATHER] = gather;
    group->bound_beta[PEAL_REDUCE_SCATTER] = gather;
    describe_cut(group, &optimum.cut);
    peal_pack_cut_free(&optimum.cut);
    PEAL_TRY(peal_pack_broadcast_bound(group->ctx, graph, root, NULL, &rate));
    group->bound_beta[PEAL_BROADCAST] = (double)rate.num / (double)rate.den / (double)rate.trees;
    return PEAL_OK;
}

/* ---- reading the graph and asking it ------------------------------------------------- */

typedef peal_status (*graph_fn)(struct group *group, const struct pack_graph *graph, void *user);

static peal_status ask_graph(const struct reader *r, uint32_t *number, struct pack_edge *edges,
                             graph_fn ask, void *user)
{
    struct pack_graph graph = {.compute = r->group->n, .nedges = r->resources, .edges = edges};
    if (!number_nodes(r, number, &graph.switches))
        return PEAL_ERR_UNSUPPORTED;
    for (uint32_t i = 0; i < r->resources; i++)
        edges[i] = (struct pack_edge){number[end_of(r, i, 0)], number[end_of(r, i, 1)], r->rate[i]};
    return ask(r->group, &graph, user);
}

/* UNSUPPORTED and the like: the exact search does not take this group. */
static peal_status with_graph(struct group *group, graph_fn ask, void *user)
{
    if (group->n < 2 || group->n > GRAPH_RANKS_MAX)
        return PEAL_ERR_UNSUPPORTED;
    size_t most = (size_t)group->n * (group->n - 1) * TOPO_PATH_MAX;
    uint64_t all = peal_topo_resources(group->fabric);
    most = (all < most ? (size_t)all : most) + 1;
    size_t ends = group->n + 2 * most;
    struct reader r = {.group = group};
    r.id = peal_calloc(group->ctx, most, sizeof *r.id);
    r.rate = peal_calloc(group->ctx, most, sizeof *r.rate);
    r.node = peal_calloc(group->ctx, ends, sizeof *r.node);
    uint32_t *number = peal_calloc(group->ctx, ends, sizeof *number);
    struct pack_edge *edges = peal_calloc(group->ctx, most, sizeof *edges);
    peal_status status = r.id && r.rate && r.node && number && edges ? PEAL_OK : PEAL_ERR_MEMORY;
    if (status == PEAL_OK) {
        read_resources(&r);
        start_nodes(&r);
        join_routes(&r);
        status = ask_graph(&r, number, edges, ask, user);
    }
    peal_free(group->ctx, r.id, most * sizeof *r.id);
    peal_free(group->ctx, r.rate, most * sizeof *r.rate);
    peal_free(group->ctx, r.node, ends * sizeof *r.node);
    peal_free(group->ctx, number, ends * sizeof *number);
    peal_free(group->ctx, edges, most * sizeof *edges);
    return status;
}

peal_status peal_group_exact_bounds(struct group *group, uint32_t root)
{
    peal_status status = with_graph(group, bound_graph, &root);
    /* A graph the exact search does not take leaves the simple bounds. */
    return status == PEAL_ERR_MEMORY ? status : PEAL_OK;
}

struct forest_question {
    uint32_t trees;
    struct pack_forest *forest;
};

static peal_status pack_graph(struct group *group, const struct pack_graph *graph, void *user)
{
    struct forest_question *question = user;
    struct pack_optimum optimum;
    struct pack_rate rate;
    PEAL_TRY(peal_pack_optimum(group->ctx, graph, NULL, &optimum));
    peal_pack_cut_free(&optimum.cut);
    rate = optimum.rate;
    if (question->trees)
        PEAL_TRY(peal_pack_fixed(group->ctx, graph, &optimum.rate, question->trees, NULL, &rate));
    if (rate.trees > FOREST_TREES_MAX)
        return PEAL_ERR_UNSUPPORTED;
    return peal_pack_trees(group->ctx, graph, &rate, NULL, question->forest);
}

peal_status peal_group_forest(struct group *group, uint32_t trees, struct pack_forest *forest_out,
                              int *found)
{
    struct forest_question question = {trees, forest_out};
    peal_status status = with_graph(group, pack_graph, &question);
    *found = status == PEAL_OK;
    return status == PEAL_ERR_MEMORY ? status : PEAL_OK;
}
