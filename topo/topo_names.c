/* SPDX-License-Identifier: Apache-2.0 */
/* How a person reads nodes, resources and paths: "h3/gpu0", "gpu3>nvs0", "gpu0 > nvs0". */
#include "fabric.h"

#include "network.h"
#include "topo_names.h"

#include <string.h>

void peal_topo_put_node(const peal_fabric *fabric, const struct topo_at *at, uint32_t node,
                        struct topo_text *text)
{
    peal_topo_put_host(fabric, at->host, text);
    peal_topo_text_put(text, at->type->node[node].name);
}

void peal_topo_put_host(const peal_fabric *fabric, uint32_t host, struct topo_text *text)
{
    if (fabric->hosts < 2)
        return;
    peal_topo_text_put(text, "h");
    peal_topo_text_u64(text, host);
    peal_topo_text_put(text, "/");
}

/* ---- resources */

static void put_own(const peal_fabric *fabric, const struct topo_at *at, uint32_t index,
                    struct topo_text *text)
{
    const struct topo_resource *resource = &at->type->resource[index];
    const struct topo_node *node = at->type->node;

    peal_topo_put_host(fabric, at->host, text);
    switch (resource->kind) {
    case TOPO_RES_LINK:
        peal_topo_text_put(text, node[resource->from].name);
        peal_topo_text_put(text, ">");
        peal_topo_text_put(text, node[resource->to].name);
        break;
    case TOPO_RES_TX:
    case TOPO_RES_RX:
        peal_topo_text_put(text, node[resource->from].name);
        peal_topo_text_put(text, resource->kind == TOPO_RES_TX ? " tx" : " rx");
        break;
    case TOPO_RES_BUNDLE_TX:
    case TOPO_RES_BUNDLE_RX:
        peal_topo_text_put(text, node[resource->from].name);
        peal_topo_text_put(text, "+");
        peal_topo_text_u64(text, resource->to);
        peal_topo_text_put(text, resource->kind == TOPO_RES_BUNDLE_TX ? " tx" : " rx");
        break;
    case TOPO_RES_MEMORY:
        peal_topo_text_put(text, "memory");
        break;
    default:
        peal_topo_text_put(text, "rank");
        peal_topo_text_u64(text, resource->from);
        peal_topo_text_put(text, resource->kind == TOPO_RES_RANK_OUT ? " out" : " in");
    }
}

void peal_topo_resource_name(const peal_fabric *fabric, uint64_t resource, char *text, size_t size)
{
    const struct topo_network *network = &fabric->network;
    struct topo_text out;

    peal_topo_text_init(&out, text, size);
    if (resource >= fabric->resources)
        return;
    if (network->kind != TOPO_NETWORK_NONE && resource >= network->resource) {
        char name[32];

        peal_topo_switch_name(network, (uint32_t)((resource - network->resource) / 2), name,
                              sizeof name);
        peal_topo_text_put(&out, name);
        peal_topo_text_put(&out, (resource - network->resource) % 2 ? " down" : " up");
    } else {
        struct topo_at at = peal_topo_at_resource(fabric, resource);

        put_own(fabric, &at, at.index, &out);
    }
}

double peal_topo_resource_gbs(const peal_fabric *fabric, uint64_t resource)
{
    const struct topo_network *network = &fabric->network;

    if (resource >= fabric->resources)
        return 0;
    if (network->kind != TOPO_NETWORK_NONE && resource >= network->resource)
        return network->up_gbs[(resource - network->resource) / 2] *
               peal_topo_slowness(fabric, resource);
    struct topo_at at = peal_topo_at_resource(fabric, resource);

    return at.type->resource[at.index].gbs * peal_topo_slowness(fabric, resource);
}

/* ---- the way of a path */

static void put_rank(const peal_fabric *fabric, const struct topo_at *at, struct topo_text *text)
{
    if (at->type->shared_memory) {
        peal_topo_put_host(fabric, at->host, text);
        peal_topo_text_put(text, "rank");
        peal_topo_text_u64(text, at->index);
        return;
    }
    peal_topo_put_node(fabric, at, at->type->accel[at->index].node, text);
}

static void put_hops(const peal_fabric *fabric, const struct topo_at *at, uint32_t hop,
                     uint32_t hops, struct topo_text *text)
{
    for (uint32_t h = 0; h < hops; h++) {
        peal_topo_text_put(text, " > ");
        peal_topo_put_node(fabric, at, at->type->link[at->type->hop[hop + h]].to, text);
    }
}

static void put_switches(const peal_fabric *fabric, const struct topo_at *from,
                         const struct topo_nic *out, const struct topo_at *to,
                         const struct topo_nic *in, struct topo_text *text)
{
    const struct topo_network *network = &fabric->network;
    uint32_t first = peal_topo_switch(network, from->host, out->rail);
    uint32_t last = peal_topo_switch(network, to->host, in->rail);
    char name[32];

    peal_topo_switch_name(network, first, name, sizeof name);
    peal_topo_text_put(text, " > ");
    peal_topo_text_put(text, name);
    if (first == last)
        return;
    peal_topo_switch_name(network, last, name, sizeof name);
    peal_topo_text_put(text, " > spine > ");
    peal_topo_text_put(text, name);
}

static void put_nic(const peal_fabric *fabric, const struct topo_at *at, int32_t nic,
                    struct topo_text *text)
{
    peal_topo_text_put(text, " > ");
    peal_topo_put_node(fabric, at, at->type->nic[nic].node, text);
}

static void put_between(const peal_fabric *fabric, const struct topo_at *from,
                        const struct topo_at *to, struct topo_text *text)
{
    int32_t out = peal_topo_type_rank_nic(from->type, from->index);
    int32_t in = peal_topo_type_rank_nic(to->type, to->index);

    if (out < 0 || in < 0)
        return;
    if (from->type->shared_memory) {
        put_nic(fabric, from, out, text);
    } else {
        const struct topo_accel *accel = &from->type->accel[from->index];

        put_hops(fabric, from, accel->out, accel->outs, text);
        if (accel->bundle)
            put_nic(fabric, from, out, text);
    }
    put_switches(fabric, from, &from->type->nic[out], to, &to->type->nic[in], text);
    put_nic(fabric, to, in, text);
    if (to->type->shared_memory) {
        peal_topo_text_put(text, " > ");
        put_rank(fabric, to, text);
    } else {
        const struct topo_accel *accel = &to->type->accel[to->index];

        put_hops(fabric, to, accel->in, accel->ins, text);
    }
}

void peal_topo_via(const peal_fabric *fabric, uint32_t from, uint32_t to, char *text, size_t size)
{
    struct topo_at a = peal_topo_at_rank(fabric, from);
    struct topo_at b = peal_topo_at_rank(fabric, to);
    struct topo_text out;

    peal_topo_text_init(&out, text, size);
    put_rank(fabric, &a, &out);
    if (from == to)
        return;
    if (a.host != b.host) {
        put_between(fabric, &a, &b, &out);
    } else if (a.type->shared_memory) {
        peal_topo_text_put(&out, " > ");
        peal_topo_put_node(fabric, &a, 0, &out);
        peal_topo_text_put(&out, " > ");
        put_rank(fabric, &b, &out);
    } else {
        const struct topo_route *route = &a.type->route[(size_t)a.index * a.type->accels + b.index];

        put_hops(fabric, &a, route->hop, route->hops, &out);
    }
}
