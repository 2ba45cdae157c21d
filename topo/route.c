/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes inside a host, from each accelerator to every other and to the NICs: the
 * nearest class wins, then the wider path, then fewer hops, then lower node numbers,
 * as the vendor libraries order paths. Neither accelerators nor NICs forward. A
 * relay over a third accelerator is a schedule, not a path, and is the compiler's.
 */
#include "route.h"

#include "fabric.h"

#include <string.h>

/* ---- a search from one node */

struct topo_search {
    peal_ctx *ctx;
    const struct topo_type *type;
    struct topo_label *label; /* of each node */
    uint32_t *heap;           /* node numbers, the best first */
    uint32_t *slot;           /* of each node in the heap, TOPO_NONE outside */
    uint32_t size;
};

/* Whether a is a strictly better way than b. */
static int better(const struct topo_label *a, const struct topo_label *b)
{
    if (a->link_class != b->link_class)
        return a->link_class < b->link_class;
    if (a->gbs > b->gbs || a->gbs < b->gbs)
        return a->gbs > b->gbs;
    return a->hops < b->hops;
}

static int before(const struct topo_search *search, uint32_t a, uint32_t b)
{
    if (better(&search->label[a], &search->label[b]))
        return 1;
    return !better(&search->label[b], &search->label[a]) && a < b;
}

static void put(struct topo_search *search, uint32_t at, uint32_t node)
{
    search->heap[at] = node;
    search->slot[node] = at;
}

static void raise(struct topo_search *search, uint32_t node)
{
    uint32_t at = search->slot[node];

    while (at > 0 && before(search, node, search->heap[(at - 1) / 2])) {
        put(search, at, search->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(search, at, node);
}

static uint32_t pop(struct topo_search *search)
{
    uint32_t top = search->heap[0];
    uint32_t moving = search->heap[--search->size];
    uint32_t at = 0;

    search->slot[top] = TOPO_NONE;
    while (2 * at + 1 < search->size) {
        uint32_t child = 2 * at + 1;

        if (child + 1 < search->size &&
            before(search, search->heap[child + 1], search->heap[child]))
            child++;
        if (!before(search, search->heap[child], moving))
            break;
        put(search, at, search->heap[child]);
        at = child;
    }
    if (search->size)
        put(search, at, moving);
    return top;
}

static int forwards(enum topo_kind kind)
{
    return kind != TOPO_ACCELERATOR && kind != TOPO_NIC;
}

static void relax(struct topo_search *search, uint32_t node, uint32_t link_index)
{
    const struct topo_link *link = &search->type->link[link_index];
    const struct topo_label *here = &search->label[node];
    struct topo_label *there = &search->label[link->to];
    struct topo_label next = {.link = link_index, .hops = here->hops + 1, .gbs = here->gbs};
    double gbs = search->type->resource[link->resource].gbs;

    if (there->settled)
        return;
    next.link_class = here->link_class > link->link_class ? here->link_class : link->link_class;
    next.host = here->host || search->type->node[link->to].kind == TOPO_NUMA;
    if (gbs < next.gbs)
        next.gbs = gbs;
    if (there->link != TOPO_NONE && !better(&next, there))
        return;
    *there = next;
    if (search->slot[link->to] == TOPO_NONE) {
        search->slot[link->to] = search->size;
        search->heap[search->size++] = link->to;
    }
    raise(search, link->to);
}

peal_status peal_topo_search_init(struct topo_search **search_out, peal_ctx *ctx,
                                  const struct topo_type *type)
{
    struct topo_search *search = peal_calloc(ctx, 1, sizeof *search);

    if (!search)
        return PEAL_ERR_MEMORY;
    search->ctx = ctx;
    search->type = type;
    search->label = peal_calloc(ctx, type->nodes, sizeof *search->label);
    search->heap = peal_calloc(ctx, type->nodes, sizeof *search->heap);
    search->slot = peal_calloc(ctx, type->nodes, sizeof *search->slot);
    if (!search->label || !search->heap || !search->slot) {
        peal_topo_search_free(search);
        return PEAL_ERR_MEMORY;
    }
    *search_out = search;
    return PEAL_OK;
}

void peal_topo_search_free(struct topo_search *search)
{
    uint32_t n;

    if (!search)
        return;
    n = search->type->nodes;
    peal_free(search->ctx, search->label, n * sizeof *search->label);
    peal_free(search->ctx, search->heap, n * sizeof *search->heap);
    peal_free(search->ctx, search->slot, n * sizeof *search->slot);
    peal_free(search->ctx, search, sizeof *search);
}

const struct topo_label *peal_topo_search_from(struct topo_search *search, uint32_t source)
{
    const struct topo_type *type = search->type;

    for (uint32_t n = 0; n < type->nodes; n++) {
        search->label[n] = (struct topo_label){.link = TOPO_NONE};
        search->slot[n] = TOPO_NONE;
    }
    search->label[source].gbs = 1e12;
    search->size = 0;
    search->slot[source] = search->size;
    search->heap[search->size++] = source;
    while (search->size) {
        uint32_t node = pop(search);

        search->label[node].settled = 1;
        if (node != source && !forwards(type->node[node].kind))
            continue;
        for (uint32_t o = 0; o < type->node[node].degree; o++)
            relax(search, node, type->out[type->node[node].first + o]);
    }
    return search->label;
}

/* ---- keeping a way */

/* Appends the links from the search's source to `node`, in order. */
peal_status peal_topo_keep_route(peal_ctx *ctx, struct topo_type *type,
                                 const struct topo_label *label, uint32_t node, uint32_t *first,
                                 uint32_t *count)
{
    uint32_t hops = label[node].hops;
    void *list = type->hop;
    peal_status status = peal_grow(ctx, &list, &type->hop_room, (size_t)type->hops + hops,
                                   sizeof *type->hop, UINT32_MAX / 2);

    type->hop = list;
    PEAL_TRY(status);
    *first = type->hops;
    *count = hops;
    for (uint32_t i = hops; i > 0; i--) {
        type->hop[type->hops + i - 1] = label[node].link;
        node = type->link[label[node].link].from;
    }
    type->hops += hops;
    return PEAL_OK;
}

/* ---- accelerator to accelerator */

/* Peer access: over accelerator links and coherent CPUs always; over PCIe while no host
 * bridge lies between (the vendor libraries' default) and the driver lets it. */
static int direct(const struct topo_accel *from, const struct topo_accel *to,
                  const struct topo_label *label)
{
    if (label->link_class <= PEAL_LINK_XGMI)
        return 1;
    return label->link_class == PEAL_LINK_PCIE && !label->host && from->peer && to->peer;
}

static peal_status routes_from(peal_ctx *ctx, struct topo_type *type, struct topo_search *search,
                               uint32_t a)
{
    const struct topo_label *label = peal_topo_search_from(search, type->accel[a].node);

    for (uint32_t b = 0; b < type->accels; b++) {
        struct topo_route *route = &type->route[(size_t)a * type->accels + b];
        const struct topo_label *end = &label[type->accel[b].node];
        uint32_t hops;

        if (a == b)
            continue;
        if (end->link == TOPO_NONE)
            return PEAL_ERR_INTERNAL; /* every device hangs below a CPU, and CPUs are joined */
        PEAL_TRY(peal_topo_keep_route(ctx, type, label, type->accel[b].node, &route->hop, &hops));
        route->hops = (uint16_t)hops;
        route->link_class = (uint8_t)end->link_class;
        route->direct = (uint8_t)direct(&type->accel[a], &type->accel[b], end);
        route->mover = (uint8_t)(route->direct ? PEAL_ENGINE_SM : PEAL_ENGINE_STAGED);
        route->gbs = end->gbs;
    }
    return PEAL_OK;
}

/* Ranks that reach each other over accelerator links, be it over others, numbered by
 * their lowest rank. */
static void find_domains(struct topo_type *type)
{
    uint32_t n = type->accels;

    type->domains = 0;
    for (uint32_t a = 0; a < n; a++)
        type->accel[a].domain = a;
    for (int changed = 1; changed;) {
        changed = 0;
        for (uint32_t a = 0; a < n; a++) {
            for (uint32_t b = 0; b < n; b++) {
                if (type->route[(size_t)a * n + b].link_class <= PEAL_LINK_XGMI && a != b &&
                    type->accel[a].domain < type->accel[b].domain) {
                    type->accel[b].domain = type->accel[a].domain;
                    changed = 1;
                }
            }
        }
    }
    for (uint32_t a = 0; a < n; a++) {
        uint32_t lowest = type->accel[a].domain;

        type->accel[a].domain = lowest == a ? type->domains++ : type->accel[lowest].domain;
    }
}

peal_status peal_topo_route_type(peal_fabric *fabric, struct topo_type *type)
{
    struct topo_search *search;
    peal_status status = PEAL_OK;

    PEAL_TRY(peal_topo_index_links(fabric->ctx, type));
    if (type->shared_memory)
        return PEAL_OK;
    type->route =
        peal_calloc(fabric->ctx, (size_t)type->accels * type->accels, sizeof *type->route);
    if (!type->route)
        return PEAL_ERR_MEMORY;
    PEAL_TRY(peal_topo_search_init(&search, fabric->ctx, type));
    for (uint32_t a = 0; status == PEAL_OK && a < type->accels; a++)
        status = routes_from(fabric->ctx, type, search, a);
    peal_topo_search_free(search);
    PEAL_TRY(status);
    find_domains(type);
    return peal_topo_nearest_nics(fabric, type);
}
