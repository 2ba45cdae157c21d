/* SPDX-License-Identifier: Apache-2.0 */
/* Which host an id belongs to: a binary search over spans, then a division. */
#include "fabric.h"

static uint64_t base_host(const struct topo_span *span)
{
    return span->first;
}
static uint64_t base_rank(const struct topo_span *span)
{
    return span->rank;
}
static uint64_t base_nic(const struct topo_span *span)
{
    return span->nic;
}
static uint64_t base_node(const struct topo_span *span)
{
    return span->node;
}
static uint64_t base_resource(const struct topo_span *span)
{
    return span->resource;
}

/* The last span whose base is not beyond id; spans that hold none of the kind have the base
 * of the next one and are passed over. */
static const struct topo_span *find(const peal_fabric *fabric, uint64_t id,
                                    uint64_t (*base)(const struct topo_span *))
{
    uint32_t low = 0;
    uint32_t high = fabric->spans;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (base(&fabric->span[middle]) <= id)
            low = middle;
        else
            high = middle;
    }
    return &fabric->span[low];
}

static struct topo_at place(const peal_fabric *fabric, uint64_t id, uint64_t stride,
                            const struct topo_span *span, uint64_t base)
{
    struct topo_at at = {.span = span, .type = &fabric->type[span->type]};

    at.host = span->first + (uint32_t)((id - base) / stride);
    at.index = (uint32_t)((id - base) % stride);
    return at;
}

struct topo_at peal_topo_at_host(const peal_fabric *fabric, uint32_t host)
{
    const struct topo_span *span = find(fabric, host, base_host);

    return place(fabric, host, 1, span, span->first);
}

struct topo_at peal_topo_at_rank(const peal_fabric *fabric, uint32_t rank)
{
    const struct topo_span *span = find(fabric, rank, base_rank);

    return place(fabric, rank, fabric->type[span->type].ranks, span, span->rank);
}

struct topo_at peal_topo_at_nic(const peal_fabric *fabric, uint32_t nic)
{
    const struct topo_span *span = find(fabric, nic, base_nic);

    return place(fabric, nic, fabric->type[span->type].nics, span, span->nic);
}

struct topo_at peal_topo_at_node(const peal_fabric *fabric, uint32_t node)
{
    const struct topo_span *span = find(fabric, node, base_node);

    return place(fabric, node, fabric->type[span->type].nodes, span, span->node);
}

struct topo_at peal_topo_at_resource(const peal_fabric *fabric, uint64_t resource)
{
    const struct topo_span *span = find(fabric, resource, base_resource);

    return place(fabric, resource, fabric->type[span->type].resources, span, span->resource);
}

uint64_t peal_topo_host_resource(const struct topo_at *at)
{
    return at->span->resource + (uint64_t)(at->host - at->span->first) * at->type->resources;
}

const char *peal_topo_kind_name(enum topo_kind kind)
{
    static const char *const name[] = {
        [TOPO_ACCELERATOR] = "accelerator",
        [TOPO_NUMA] = "numa",
        [TOPO_PCIE_SWITCH] = "pcie-switch",
        [TOPO_NVSWITCH] = "nvswitch",
        [TOPO_NIC] = "nic",
    };

    return name[kind];
}
