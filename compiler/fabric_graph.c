/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The group's network as a graph of ranks, switches and links, and the exact bounds of allgather,
 * reduce-scatter and broadcast on it (pack.h). The graph is read off the routes: a resource is a
 * link, and where one route leaves a resource and enters another, the two ends are one node.
 */
#include "packed.h"

#include <stdio.h>
#include <string.h>

#define GRAPH_RANKS_MAX PACKED_RANKS_MAX
#define FOREST_TREES_MAX 64u   /* from each root */
#define FOREST_HOPS_MAX 65536u /* of all trees */
#define GRAPH_UNIT 1e3         /* capacities in MB/s: bytes per microsecond */
#define WORTHWHILE 1.001       /* how much faster more trees have to be */
#define HOSTS_READ 64u         /* hosts that are looked at one by one */

struct reader {
    struct group *group;
    int links; /* 1: routes over PCIe alone are left out */
    uint32_t resources;
    uint64_t *id;     /* of each resource, rising */
    uint64_t *rate;   /* its capacity */
    uint32_t *node;   /* union-find: ranks, then the two ends of each resource */
    uint32_t *mirror; /* of each resource, 1 + the one that routes back use in its place */
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

/* The share of a link's bandwidth that the best engine reaches over a route. */
static double best_scale(const struct reader *r, uint32_t from, const struct topo_path *path)
{
    uint32_t arch = peal_topo_rank_arch(r->group->fabric, peal_group_rank(r->group, from));
    uint32_t engines = peal_plan_engines((uint8_t)path->link_class, (uint8_t)path->direct, arch);
    double best = 0;
    for (uint32_t e = 0; e < PEAL_ENGINE_COUNT; e++) {
        struct topo_engine_cost cost;
        if (!(engines >> e & 1))
            continue;
        peal_topo_engine_cost(r->group->fabric, path->link_class, (peal_engine)e, &cost);
        best = cost.beta_scale > best ? cost.beta_scale : best;
    }
    return best;
}

/* A resource is worth what the best of the routes over it makes of it. */
static void note_resource(struct reader *r, const struct topo_use *use, double scale)
{
    uint32_t at = index_of(r, use->resource);
    uint64_t rate = (uint64_t)(use->gbs * scale * GRAPH_UNIT + 0.5);
    if (at < r->resources && r->id[at] == use->resource) {
        r->rate[at] = r->rate[at] > rate ? r->rate[at] : rate;
        return;
    }
    memmove(&r->id[at + 1], &r->id[at], (r->resources - at) * sizeof *r->id);
    memmove(&r->rate[at + 1], &r->rate[at], (r->resources - at) * sizeof *r->rate);
    r->id[at] = use->resource;
    r->rate[at] = rate;
    r->resources++;
}

/* Over links between accelerators, or to another host. */
static int is_link(const struct topo_path *path)
{
    return path->link_class != PEAL_LINK_PCIE && path->link_class != PEAL_LINK_SMP;
}

/* Does the route belong to the graph? */
static int reads(const struct reader *r, uint32_t from, uint32_t to, struct topo_path *path)
{
    if (from == to)
        return 0;
    peal_group_path(r->group, from, to, path);
    return !r->links || is_link(path);
}

int peal_group_mixed(const struct group *group)
{
    int links = 0, others = 0;
    for (uint32_t h = 0; h < group->nhosts && h < HOSTS_READ && !(links && others); h++)
        for (uint32_t from = group->host_first[h]; from < group->host_first[h + 1]; from++)
            for (uint32_t to = group->host_first[h]; to < group->host_first[h + 1]; to++) {
                struct topo_path path;
                if (from == to)
                    continue;
                peal_group_path(group, from, to, &path);
                *(is_link(&path) ? &links : &others) = 1;
            }
    return links && others;
}

static void join_route(const struct reader *r, uint32_t from, uint32_t to,
                       const struct topo_path *path)
{
    uint32_t at = from;
    for (uint32_t i = 0; i < path->uses; i++) {
        uint32_t resource = index_of(r, path->use[i].resource);
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
            if (!reads(r, from, to, &path))
                continue;
            double scale = best_scale(r, from, &path);
            for (uint32_t i = 0; i < path.uses; i++)
                note_resource(r, &path.use[i], scale);
        }
}

static void join_routes(const struct reader *r)
{
    for (uint32_t from = 0; from < r->group->n; from++)
        for (uint32_t to = 0; to < r->group->n; to++) {
            struct topo_path path;
            if (reads(r, from, to, &path))
                join_route(r, from, to, &path);
        }
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

static void describe_cut(const struct group *group, const struct pack_cut *cut, int in, char *text,
                         size_t room)
{
    size_t used = 0;
    int written =
        snprintf(text, room, "%u ranks can %s the others no more than %g GB/s:", cut->compute,
                 in ? "get from" : "send", (double)cut->capacity / GRAPH_UNIT);
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

/* ---- the network the other way round ---------------------------------------------------- */

/* Do the routes back use as fast resources, shared alike, in the opposite order? Then the reversed
 * network is this one. */
static int is_mirrored(const struct reader *r, const struct topo_path *there,
                       const struct topo_path *back)
{
    if (there->uses != back->uses)
        return 0;
    for (uint32_t i = 0; i < there->uses; i++) {
        uint32_t a = index_of(r, there->use[i].resource);
        uint32_t b = index_of(r, back->use[back->uses - 1 - i].resource);
        if (r->rate[a] != r->rate[b] || (r->mirror[a] && r->mirror[a] != b + 1))
            return 0;
        r->mirror[a] = b + 1;
    }
    return 1;
}

static int is_symmetric(const struct reader *r)
{
    for (uint32_t from = 0; from < r->group->n; from++)
        for (uint32_t to = 0; to < r->group->n; to++) {
            struct topo_path there, back;
            if (!reads(r, from, to, &there))
                continue;
            if (!reads(r, to, from, &back) || !is_mirrored(r, &there, &back))
                return 0;
        }
    return 1;
}

static void turn_round(struct pack_edge *edges, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        edges[i] = (struct pack_edge){edges[i].to, edges[i].from, edges[i].capacity};
}

/* ---- bounds -------------------------------------------------------------------------------- */

static void raise_to(struct group *group, peal_collective collective, double beta)
{
    if (beta > group->bound_beta[collective])
        group->bound_beta[collective] = beta;
}

/* Without reduction in the network, each element of an allreduce arrives at all ranks but one on
 * the way together, and at all but one on the way back: 2 (n - 1) hops over what enters all ranks,
 * or, of the reversed network, leaves them. */
static peal_status bound_allreduce(struct group *group, const struct pack_graph *graph)
{
    double entering;
    if (group->switch_folds)
        return PEAL_OK;
    PEAL_TRY(peal_pack_ingress(group->ctx, graph, &entering));
    raise_to(group, PEAL_ALLREDUCE, 2.0 * (group->n - 1) / entering);
    return PEAL_OK;
}

/* The bounds of what flows from the roots, or, of the reversed network, to them. */
static peal_status bound_direction(struct group *group, const struct pack_graph *graph,
                                   uint32_t root, int up)
{
    struct pack_optimum optimum;
    struct pack_rate rate;
    PEAL_TRY(peal_pack_optimum(group->ctx, graph, NULL, &optimum));
    group->bound_beta[up ? PEAL_REDUCE_SCATTER : PEAL_ALLGATHER] =
        (double)optimum.num / (double)optimum.den / group->n;
    describe_cut(group, &optimum.cut, up, up ? group->cut_in : group->cut, sizeof group->cut);
    peal_pack_cut_free(&optimum.cut);
    PEAL_TRY(peal_pack_broadcast_bound(group->ctx, graph, root, NULL, &rate));
    double rooted = (double)rate.num / (double)rate.den / (double)rate.trees;
    group->bound_beta[up ? PEAL_REDUCE : PEAL_BROADCAST] = rooted;
    /* An allreduce sends each element, or its sum, over every cut, both ways. */
    raise_to(group, PEAL_ALLREDUCE, rooted);
    return bound_allreduce(group, graph);
}

static peal_status bound_graph(struct group *group, const struct pack_graph *graph,
                               struct pack_edge *edges, void *user)
{
    uint32_t root = *(const uint32_t *)user;
    PEAL_TRY(bound_direction(group, graph, root, 0));
    if (!group->symmetric)
        turn_round(edges, graph->nedges);
    return bound_direction(group, graph, root, 1);
}

/* ---- reading the graph and asking it ------------------------------------------------- */

/* edges: the graph's, which may be turned round. */
typedef peal_status (*graph_fn)(struct group *group, const struct pack_graph *graph,
                                struct pack_edge *edges, void *user);

static peal_status ask_graph(const struct reader *r, uint32_t *number, struct pack_edge *edges,
                             graph_fn ask, void *user)
{
    struct pack_graph graph = {.compute = r->group->n, .nedges = r->resources, .edges = edges};
    if (!number_nodes(r, number, &graph.switches))
        return PEAL_ERR_UNSUPPORTED;
    for (uint32_t i = 0; i < r->resources; i++)
        edges[i] = (struct pack_edge){number[end_of(r, i, 0)], number[end_of(r, i, 1)], r->rate[i]};
    return ask(r->group, &graph, edges, user);
}

/* UNSUPPORTED and the like: the exact search does not take this group. */
static peal_status with_graph(struct group *group, int links, graph_fn ask, void *user)
{
    if (group->n < 2 || group->n > GRAPH_RANKS_MAX)
        return PEAL_ERR_UNSUPPORTED;
    size_t most = (size_t)group->n * (group->n - 1) * TOPO_PATH_MAX;
    uint64_t all = peal_topo_resources(group->fabric);
    most = (all < most ? (size_t)all : most) + 1;
    size_t ends = group->n + 2 * most;
    struct reader r = {.group = group, .links = links};
    r.id = peal_calloc(group->ctx, most, sizeof *r.id);
    r.rate = peal_calloc(group->ctx, most, sizeof *r.rate);
    r.node = peal_calloc(group->ctx, ends, sizeof *r.node);
    r.mirror = peal_calloc(group->ctx, most, sizeof *r.mirror);
    uint32_t *number = peal_calloc(group->ctx, ends, sizeof *number);
    struct pack_edge *edges = peal_calloc(group->ctx, most, sizeof *edges);
    peal_status status =
        r.id && r.rate && r.node && r.mirror && number && edges ? PEAL_OK : PEAL_ERR_MEMORY;
    if (status == PEAL_OK) {
        read_resources(&r);
        start_nodes(&r);
        join_routes(&r);
        if (!links)
            group->symmetric = is_symmetric(&r);
        status = ask_graph(&r, number, edges, ask, user);
    }
    peal_free(group->ctx, r.id, most * sizeof *r.id);
    peal_free(group->ctx, r.rate, most * sizeof *r.rate);
    peal_free(group->ctx, r.node, ends * sizeof *r.node);
    peal_free(group->ctx, r.mirror, most * sizeof *r.mirror);
    peal_free(group->ctx, number, ends * sizeof *number);
    peal_free(group->ctx, edges, most * sizeof *edges);
    return status;
}

peal_status peal_group_exact_bounds(struct group *group, uint32_t root)
{
    peal_status status = with_graph(group, 0, bound_graph, &root);
    /* A graph the exact search does not take leaves the simple bounds. */
    return status == PEAL_ERR_MEMORY ? status : PEAL_OK;
}

/* ---- trees ------------------------------------------------------------------------------- */

struct forest_question {
    const struct forest_ask *asks;
    uint32_t count;
    struct pack_forest *forests;
    int *found;
};

static peal_status ideal_rate(struct group *group, const struct pack_graph *graph, uint32_t root,
                              struct pack_rate *rate)
{
    struct pack_optimum optimum;
    if (root != NO_RANK)
        return peal_pack_broadcast_bound(group->ctx, graph, root, NULL, rate);
    PEAL_TRY(peal_pack_optimum(group->ctx, graph, NULL, &optimum));
    peal_pack_cut_free(&optimum.cut);
    *rate = optimum.rate;
    return PEAL_OK;
}

/* Trees of a rate that fewer trees reach as well are not worth their number. */
static int is_better(const struct pack_rate *rate, const struct pack_rate *best)
{
    double time = (double)rate->num / (double)rate->den / (double)rate->trees;
    return !best->trees ||
           time * WORTHWHILE < (double)best->num / (double)best->den / (double)best->trees;
}

/* best: of those that have been packed. */
static peal_status pack_one(struct group *group, const struct pack_graph *graph,
                            const struct pack_rate *ideal, uint32_t trees, struct pack_rate *best,
                            struct pack_forest *forest)
{
    struct pack_rate rate = *ideal;
    uint64_t roots = ideal->root == PACK_EVERY_ROOT ? group->n : 1;
    if (trees >= ideal->trees || !is_better(ideal, best))
        return PEAL_ERR_UNSUPPORTED;
    if (trees)
        PEAL_TRY(peal_pack_fixed(group->ctx, graph, ideal, trees, NULL, &rate));
    if (rate.trees > FOREST_TREES_MAX || rate.trees * roots * (group->n - 1) > FOREST_HOPS_MAX ||
        !is_better(&rate, best))
        return PEAL_ERR_UNSUPPORTED;
    PEAL_TRY(peal_pack_trees(group->ctx, graph, &rate, NULL, forest));
    *best = rate;
    return PEAL_OK;
}

static peal_status pack_graph(struct group *group, const struct pack_graph *graph,
                              struct pack_edge *edges, void *user)
{
    const struct forest_question *question = user;
    struct pack_rate ideal, best = {0};
    if (question->asks[0].up)
        turn_round(edges, graph->nedges);
    PEAL_TRY(ideal_rate(group, graph, question->asks[0].root, &ideal));
    for (uint32_t i = 0; i < question->count; i++) {
        peal_status status =
            pack_one(group, graph, &ideal, question->asks[i].trees, &best, &question->forests[i]);
        question->found[i] = status == PEAL_OK;
        if (status == PEAL_ERR_MEMORY)
            return status;
    }
    return PEAL_OK;
}

peal_status peal_group_forests(struct group *group, const struct forest_ask *asks, uint32_t count,
                               struct pack_forest *forests, int *found)
{
    struct forest_question question = {asks, count, forests, found};
    for (uint32_t i = 0; i < count; i++)
        found[i] = 0;
    peal_status status = with_graph(group, asks[0].links, pack_graph, &question);
    return status == PEAL_ERR_MEMORY ? status : PEAL_OK;
}
