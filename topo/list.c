/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links as the public interface lists them: of every host while there are few, of the
 * first host of each span beyond, and those of the network. Made once, so that names
 * can be handed out as pointers.
 */
#include "defaults.h"
#include "fabric.h"
#include "network.h"
#include "topo_names.h"

#include <string.h>

enum { NAME = 160 };

static const char *keep(peal_fabric *fabric, const struct topo_text *text)
{
    return peal_topo_arena_text(&fabric->arena, text->data, text->used);
}

static peal_status add(peal_fabric *fabric, const struct topo_listed *listed)
{
    void *list = fabric->listed;
    peal_status status;

    if (!listed->from || !listed->to || !listed->resource)
        return PEAL_ERR_MEMORY;
    status = peal_grow(fabric->ctx, &list, &fabric->listed_room, (size_t)fabric->listeds + 1,
                       sizeof *fabric->listed, UINT32_MAX / 2);
    fabric->listed = list;
    PEAL_TRY(status);
    fabric->listed[fabric->listeds++] = *listed;
    return PEAL_OK;
}

static const char *node_text(peal_fabric *fabric, const struct topo_at *at, uint32_t node)
{
    char data[NAME];
    struct topo_text text;

    peal_topo_text_init(&text, data, sizeof data);
    peal_topo_put_node(fabric, at, node, &text);
    return keep(fabric, &text);
}

static const char *resource_text(peal_fabric *fabric, uint64_t resource)
{
    char data[NAME];

    peal_topo_resource_name(fabric, resource, data, sizeof data);
    return peal_topo_arena_text(&fabric->arena, data, strlen(data));
}

/* ---- one host */

static peal_status list_host(peal_fabric *fabric, const struct topo_at *at, const char **names)
{
    const struct topo_type *type = at->type;
    uint64_t base = peal_topo_host_resource(at);

    for (uint32_t n = 0; n < type->nodes; n++) {
        names[n] = node_text(fabric, at, n);
        if (!names[n])
            return PEAL_ERR_MEMORY;
    }
    for (uint32_t l = 0; l < type->links; l++) {
        const struct topo_link *link = &type->link[l];
        struct topo_listed listed = {.from = names[link->from],
                                     .to = names[link->to],
                                     .resource = resource_text(fabric, base + link->resource),
                                     .link_class = link->link_class,
                                     .alpha_us = fabric->profile.alpha_us[link->link_class],
                                     .beta_gbs = type->resource[link->resource].gbs};

        PEAL_TRY(add(fabric, &listed));
    }
    return PEAL_OK;
}

/* Ranks in shared memory have no graph; each copies out into the memory and takes in. */
static peal_status list_shared(peal_fabric *fabric, const struct topo_at *at)
{
    const char *memory = node_text(fabric, at, 0);

    for (uint32_t r = 0; r < 2 * at->type->ranks; r++) {
        char data[NAME];
        struct topo_text text;
        const char *rank;
        struct topo_listed listed = {.link_class = PEAL_LINK_SHM};

        peal_topo_text_init(&text, data, sizeof data);
        peal_topo_put_host(fabric, at->host, &text);
        peal_topo_text_put(&text, "rank");
        peal_topo_text_u64(&text, r / 2);
        rank = keep(fabric, &text);
        listed.from = r % 2 ? memory : rank;
        listed.to = r % 2 ? rank : memory;
        listed.resource = resource_text(fabric, peal_topo_host_resource(at) + r);
        listed.alpha_us = fabric->profile.alpha_us[PEAL_LINK_SHM];
        listed.beta_gbs = at->type->resource[r].gbs;
        PEAL_TRY(add(fabric, &listed));
    }
    return PEAL_OK;
}

/* ---- the network */

static peal_status list_ports(peal_fabric *fabric, const struct topo_at *at)
{
    const struct topo_type *type = at->type;
    uint64_t base = peal_topo_host_resource(at);

    for (uint32_t n = 0; n < type->nics; n++) {
        const struct topo_nic *nic = &type->nic[n];
        struct topo_listed listed = {.link_class = PEAL_LINK_NET};

        if (nic->rail < 0)
            continue;
        listed.from = node_text(fabric, at, nic->node);
        listed.to = fabric->network.name[peal_topo_switch(&fabric->network, at->host, nic->rail)];
        listed.alpha_us = peal_topo_net_alpha(fabric, nic->rdma) + nic->latency_us;
        listed.resource = resource_text(fabric, base + nic->tx);
        listed.beta_gbs = type->resource[nic->tx].gbs;
        PEAL_TRY(add(fabric, &listed));
        const char *from = listed.from;

        listed.from = listed.to;
        listed.to = from;
        listed.resource = resource_text(fabric, base + nic->rx);
        listed.beta_gbs = type->resource[nic->rx].gbs;
        PEAL_TRY(add(fabric, &listed));
    }
    return PEAL_OK;
}

static peal_status list_uplinks(peal_fabric *fabric)
{
    const struct topo_network *network = &fabric->network;
    uint32_t leaves = network->groups * network->rails;

    for (uint32_t s = 0; leaves > 1 && s < leaves; s++) {
        struct topo_listed listed = {.from = network->name[s],
                                     .to = "spine",
                                     .resource = resource_text(fabric, network->resource + 2 * s),
                                     .link_class = PEAL_LINK_NET,
                                     .alpha_us = network->latency_us,
                                     .beta_gbs = network->up_gbs[s]};

        PEAL_TRY(add(fabric, &listed));
        listed.to = listed.from;
        listed.from = "spine";
        listed.resource = resource_text(fabric, network->resource + 2 * s + 1);
        PEAL_TRY(add(fabric, &listed));
    }
    return PEAL_OK;
}

/* ---- all */

static peal_status list_one(peal_fabric *fabric, uint32_t host)
{
    struct topo_at at = peal_topo_at_host(fabric, host);
    size_t bytes = at.type->nodes * sizeof(char *);
    const char **names;
    peal_status status;

    if (at.type->shared_memory) {
        PEAL_TRY(list_shared(fabric, &at));
    }
    names = peal_calloc(fabric->ctx, at.type->nodes, sizeof *names);
    if (!names)
        return PEAL_ERR_MEMORY;
    status = list_host(fabric, &at, names);
    peal_free(fabric->ctx, names, bytes);
    PEAL_TRY(status);
    return fabric->network.kind == TOPO_NETWORK_NONE ? PEAL_OK : list_ports(fabric, &at);
}

peal_status peal_topo_list_links(peal_fabric *fabric)
{
    for (uint32_t s = 0; s < fabric->spans; s++) {
        const struct topo_span *span = &fabric->span[s];
        uint32_t count = fabric->hosts <= TOPO_LISTED_HOSTS ? span->count : 1;

        for (uint32_t h = span->first; h < span->first + count; h++)
            PEAL_TRY(list_one(fabric, h));
    }
    if (fabric->hosts > TOPO_LISTED_HOSTS)
        PEAL_TRY(peal_topo_note(&fabric->notes, 0,
                                "links are listed for the first of equal hosts only"));
    return fabric->network.kind == TOPO_NETWORK_NONE ? PEAL_OK : list_uplinks(fabric);
}
