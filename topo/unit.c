/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks are near each other: below one PCIe switch or in one NVLink domain, on one NUMA
 * node, below one leaf switch. */
#include "fabric.h"

/* The PCIe switch an accelerator hangs from, as a node of its type; `nodes` where there is none. */
static uint32_t pcie_switch(const struct topo_type *type, uint32_t accel)
{
    const struct topo_node *node = &type->node[type->accel[accel].node];

    for (uint32_t i = 0; i < node->degree; i++) {
        uint32_t to = type->link[type->out[node->first + i]].to;

        if (type->node[to].kind == TOPO_PCIE_SWITCH)
            return to;
    }
    return type->nodes;
}

static uint32_t pair_of(const struct topo_type *type, uint32_t accel)
{
    if (type->domains > 1 && type->domains < type->accels)
        return type->accel[accel].domain;
    return pcie_switch(type, accel);
}

uint32_t peal_topo_rank_unit(const peal_fabric *fabric, uint32_t rank, enum topo_unit unit)
{
    struct topo_at at = peal_topo_at_rank(fabric, rank);

    if (unit == TOPO_UNIT_POD)
        return fabric->network.kind == TOPO_NETWORK_NONE ? 0
                                                         : at.host / fabric->network.hosts_per_leaf;
    if (at.type->shared_memory)
        return 0;
    if (unit == TOPO_UNIT_NUMA)
        return (uint32_t)(at.type->accel[at.index].numa + 1);
    return pair_of(at.type, at.index);
}
