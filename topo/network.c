/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers over the whole fabric, and the switches between hosts. A group of
 * hosts_per_leaf hosts shares a leaf switch (leaf and spine) or one switch per rail
 * (rails). What stays on its switch uses NIC ports only; what leaves it uses the
 * switch's uplink and the other one's downlink, of which oversubscription says how much
 * narrower they are than the hosts below.
 */
#include "network.h"

#include "topo_text.h"

#include <string.h>

static peal_status add_up(uint32_t *total, uint64_t count, uint64_t each)
{
    uint64_t sum = *total + count * each;

    if (sum > INT32_MAX)
        return PEAL_ERR_LIMIT;
    *total = (uint32_t)sum;
    return PEAL_OK;
}

static peal_status number_spans(peal_fabric *fabric)
{
    for (uint32_t s = 0; s < fabric->spans; s++) {
        struct topo_span *span = &fabric->span[s];
        const struct topo_type *type = &fabric->type[span->type];

        span->first = fabric->hosts;
        span->rank = fabric->ranks;
        span->nic = fabric->nics;
        span->numa = fabric->numas;
        span->node = fabric->nodes;
        span->domain =
            s ? fabric->span[s - 1].domain +
                    fabric->span[s - 1].count * fabric->type[fabric->span[s - 1].type].domains
              : 0;
        span->resource = fabric->resources;
        PEAL_TRY(add_up(&fabric->hosts, span->count, 1));
        PEAL_TRY(add_up(&fabric->ranks, span->count, type->ranks));
        PEAL_TRY(add_up(&fabric->nics, span->count, type->nics));
        PEAL_TRY(add_up(&fabric->numas, span->count, type->numas));
        PEAL_TRY(add_up(&fabric->nodes, span->count, type->nodes));
        fabric->resources += (uint64_t)span->count * type->resources;
    }
    return fabric->hosts > TOPO_HOSTS_MAX ? PEAL_ERR_LIMIT : PEAL_OK;
}

/* What the hosts of each group send at most, by rail where there are rails. */
static void sum_uplinks(peal_fabric *fabric)
{
    struct topo_network *network = &fabric->network;

    for (uint32_t s = 0; s < fabric->spans; s++) {
        const struct topo_span *span = &fabric->span[s];
        const struct topo_type *type = &fabric->type[span->type];

        for (uint32_t h = span->first; h < span->first + span->count; h++) {
            double *up = &network->up_gbs[(size_t)(h / network->hosts_per_leaf) * network->rails];

            if (network->kind == TOPO_NETWORK_LEAVES) {
                up[0] += type->net_gbs;
                continue;
            }
            for (uint32_t n = 0; n < type->nics; n++) {
                if (type->nic[n].rail >= 0)
                    up[type->nic[n].rail] += type->resource[type->nic[n].tx].gbs;
            }
        }
    }
    for (size_t u = 0; u < (size_t)network->groups * network->rails; u++)
        network->up_gbs[u] /= network->oversubscription;
}

static peal_status name_switches(peal_fabric *fabric)
{
    struct topo_network *network = &fabric->network;
    uint32_t ups = network->groups * network->rails;

    network->name = peal_topo_arena_alloc(&fabric->arena, (ups + 1) * sizeof *network->name);
    if (!network->name)
        return PEAL_ERR_MEMORY;
    for (uint32_t s = 0; s < ups; s++) {
        char name[32];

        peal_topo_switch_name(network, s, name, sizeof name);
        network->name[s] = peal_topo_arena_text(&fabric->arena, name, strlen(name));
        if (!network->name[s])
            return PEAL_ERR_MEMORY;
    }
    network->name[ups] = "spine";
    return PEAL_OK;
}

static peal_status number_switches(peal_fabric *fabric)
{
    struct topo_network *network = &fabric->network;
    size_t ups;

    network->resource = fabric->resources;
    if (network->kind == TOPO_NETWORK_NONE)
        return PEAL_OK;
    if (!network->hosts_per_leaf || network->hosts_per_leaf > fabric->hosts)
        network->hosts_per_leaf = fabric->hosts;
    network->groups = (fabric->hosts - 1) / network->hosts_per_leaf + 1;
    network->rails = 1;
    for (uint32_t t = 0; t < fabric->types && network->kind == TOPO_NETWORK_RAILS; t++) {
        if (fabric->type[t].rails > network->rails)
            network->rails = fabric->type[t].rails;
    }
    ups = (size_t)network->groups * network->rails;
    if (ups > TOPO_HOSTS_MAX * 16u)
        return PEAL_ERR_LIMIT;
    network->up_gbs = peal_calloc(fabric->ctx, ups, sizeof *network->up_gbs);
    if (!network->up_gbs)
        return PEAL_ERR_MEMORY;
    sum_uplinks(fabric);
    fabric->resources += 2 * (uint64_t)ups;
    /* One switch a group and rail, and the spine where there is something to join. */
    fabric->switches = (uint32_t)ups + (ups > 1);
    return name_switches(fabric);
}

peal_status peal_topo_number(peal_fabric *fabric, peal_diag *diag)
{
    peal_status status = number_spans(fabric);

    if (status == PEAL_OK)
        status = number_switches(fabric);
    if (status == PEAL_ERR_LIMIT)
        return peal_fail(diag, status, "%s: more than %u hosts, or too many ranks or switches",
                         fabric->name, (unsigned)TOPO_HOSTS_MAX);
    return status;
}

/* ---- asking */

uint32_t peal_topo_switch(const struct topo_network *network, uint32_t host, int32_t rail)
{
    uint32_t r = network->kind == TOPO_NETWORK_RAILS && rail > 0 ? (uint32_t)rail : 0;

    return host / network->hosts_per_leaf * network->rails + r;
}

int peal_topo_crosses(const peal_fabric *fabric, uint32_t from_host, int32_t from_rail,
                      uint32_t to_host, int32_t to_rail, struct topo_crossing *crossing)
{
    const struct topo_network *network = &fabric->network;
    uint32_t from;
    uint32_t to;

    if (network->kind == TOPO_NETWORK_NONE)
        return 0;
    from = peal_topo_switch(network, from_host, from_rail);
    to = peal_topo_switch(network, to_host, to_rail);
    if (from == to)
        return 0;
    crossing->up = network->resource + 2 * (uint64_t)from;
    crossing->down = network->resource + 2 * (uint64_t)to + 1;
    crossing->up_gbs = network->up_gbs[from];
    crossing->down_gbs = network->up_gbs[to];
    return 1;
}

void peal_topo_switch_name(const struct topo_network *network, uint32_t index, char *text,
                           size_t size)
{
    struct topo_text out;
    uint32_t group = index / network->rails;

    peal_topo_text_init(&out, text, size);
    if (network->kind == TOPO_NETWORK_LEAVES) {
        peal_topo_text_put(&out, "leaf");
        peal_topo_text_u64(&out, group);
        return;
    }
    peal_topo_text_put(&out, "rail");
    peal_topo_text_u64(&out, index % network->rails);
    if (network->groups > 1) {
        peal_topo_text_put(&out, ".");
        peal_topo_text_u64(&out, group);
    }
}

struct topo_switch_facts peal_topo_switch_facts(const peal_fabric *fabric)
{
    const struct topo_network *network = &fabric->network;

    return (struct topo_switch_facts){network->buffer_mib, network->pfc, network->ecn,
                                      network->line};
}

int peal_topo_switch_buffer(const peal_fabric *fabric)
{
    return fabric->network.buffer_mib;
}
