/* SPDX-License-Identifier: Apache-2.0 */
/* What a resource lies between, and where in the network it is. */
#include "fabric.h"

#include "network.h"
#include "topo_names.h"

static void put_switch(const peal_fabric *fabric, const struct topo_at *at, uint32_t node,
                       struct topo_text *text)
{
    const struct topo_type *type = at->type;

    for (uint32_t n = 0; fabric->network.kind != TOPO_NETWORK_NONE && n < type->nics; n++) {
        char name[32];

        if (type->nic[n].node != node)
            continue;
        peal_topo_switch_name(&fabric->network,
                              peal_topo_switch(&fabric->network, at->host, type->nic[n].rail), name,
                              sizeof name);
        peal_topo_text_put(text, name);
        return;
    }
    peal_topo_text_put(text, "network");
}

static void put_rank(const peal_fabric *fabric, const struct topo_at *at, uint32_t rank,
                     struct topo_text *text)
{
    peal_topo_put_host(fabric, at->host, text);
    peal_topo_text_put(text, "rank");
    peal_topo_text_u64(text, rank);
}

static void put_memory(const peal_fabric *fabric, const struct topo_at *at, struct topo_text *text)
{
    peal_topo_put_host(fabric, at->host, text);
    peal_topo_text_put(text, "memory");
}

static void own_ends(const peal_fabric *fabric, const struct topo_at *at, struct topo_text *from,
                     struct topo_text *to)
{
    const struct topo_resource *resource = &at->type->resource[at->index];

    switch (resource->kind) {
    case TOPO_RES_LINK:
        peal_topo_put_node(fabric, at, resource->from, from);
        peal_topo_put_node(fabric, at, resource->to, to);
        break;
    case TOPO_RES_TX:
    case TOPO_RES_BUNDLE_TX:
        peal_topo_put_node(fabric, at, resource->from, from);
        put_switch(fabric, at, resource->from, to);
        break;
    case TOPO_RES_RX:
    case TOPO_RES_BUNDLE_RX:
        put_switch(fabric, at, resource->from, from);
        peal_topo_put_node(fabric, at, resource->from, to);
        break;
    case TOPO_RES_MEMORY:
        put_memory(fabric, at, from);
        put_memory(fabric, at, to);
        break;
    case TOPO_RES_RANK_OUT:
        put_rank(fabric, at, resource->from, from);
        put_memory(fabric, at, to);
        break;
    case TOPO_RES_RANK_IN:
        put_memory(fabric, at, from);
        put_rank(fabric, at, resource->from, to);
        break;
    }
}

static int is_switch(const peal_fabric *fabric, uint64_t resource)
{
    return fabric->network.kind != TOPO_NETWORK_NONE && resource >= fabric->network.resource;
}

void peal_topo_resource_names(const peal_fabric *fabric, uint64_t resource, char *name, char *from,
                              char *to, size_t size)
{
    struct topo_text low, high;

    peal_topo_resource_name(fabric, resource, name, size);
    peal_topo_text_init(&low, from, size);
    peal_topo_text_init(&high, to, size);
    if (resource >= fabric->resources)
        return;
    if (is_switch(fabric, resource)) {
        uint32_t index = (uint32_t)(resource - fabric->network.resource);
        char leaf[32];

        peal_topo_switch_name(&fabric->network, index / 2, leaf, sizeof leaf);
        peal_topo_text_put(&low, index % 2 ? "spine" : leaf);
        peal_topo_text_put(&high, index % 2 ? leaf : "spine");
    } else {
        struct topo_at at = peal_topo_at_resource(fabric, resource);

        own_ends(fabric, &at, &low, &high);
    }
}

enum topo_port peal_topo_resource_port(const peal_fabric *fabric, uint64_t resource)
{
    if (resource >= fabric->resources)
        return TOPO_PORT_NONE;
    if (is_switch(fabric, resource))
        return TOPO_PORT_SWITCH;
    struct topo_at at = peal_topo_at_resource(fabric, resource);

    switch (at.type->resource[at.index].kind) {
    case TOPO_RES_TX:
    case TOPO_RES_BUNDLE_TX:
        return TOPO_PORT_LEAVES;
    case TOPO_RES_RX:
    case TOPO_RES_BUNDLE_RX:
        return TOPO_PORT_SWITCH;
    default:
        return TOPO_PORT_NONE;
    }
}
