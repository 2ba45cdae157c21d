/* SPDX-License-Identifier: Apache-2.0 */
/* How far a NIC is from an accelerator: PCIe is a tree below each NUMA node, so the way with the
 * fewest nodes is the only one there is, and its nodes tell the distance. */
#include "fabric.h"

#include <string.h>

const char *peal_nic_distance_name(peal_nic_distance distance)
{
    static const char *const names[PEAL_NIC_DISTANCE_COUNT] = {"switch", "bridge", "numa", "system",
                                                               "host"};
    return (unsigned)distance < PEAL_NIC_DISTANCE_COUNT ? names[distance] : NULL;
}

struct walk {
    uint32_t queued;
    uint16_t queue[TOPO_NODES_MAX];
    uint16_t before[TOPO_NODES_MAX]; /* 1 + the node from which it was reached; 0: not yet */
};

/* Breadth first, through PCIe switches and NUMA nodes only: not over links between accelerators. */
static int reach(const struct topo_type *type, uint32_t from, uint32_t to, struct walk *walk)
{
    memset(walk->before, 0, type->nodes * sizeof walk->before[0]);
    walk->queue[0] = (uint16_t)from;
    walk->before[from] = (uint16_t)(from + 1);
    walk->queued = 1;
    for (uint32_t i = 0; i < walk->queued && !walk->before[to]; i++) {
        const struct topo_node *node = &type->node[walk->queue[i]];
        for (uint32_t k = 0; k < node->degree; k++) {
            uint32_t next = type->link[type->out[node->first + k]].to;
            enum topo_kind kind = type->node[next].kind;
            int passes = kind == TOPO_PCIE_SWITCH || kind == TOPO_NUMA;
            if (walk->before[next] || (!passes && next != to))
                continue;
            walk->before[next] = (uint16_t)(walk->queue[i] + 1);
            walk->queue[walk->queued++] = (uint16_t)next;
        }
    }
    return walk->before[to] != 0;
}

static peal_nic_distance between(const struct topo_type *type, uint32_t accel, uint32_t nic)
{
    struct walk walk;
    uint32_t switches = 0, numas = 0;
    if (!reach(type, accel, nic, &walk))
        return PEAL_NIC_SYSTEM;
    for (uint32_t at = nic; at != accel; at = walk.before[at] - 1u) {
        switches += type->node[at].kind == TOPO_PCIE_SWITCH;
        numas += type->node[at].kind == TOPO_NUMA;
    }
    if (numas)
        return numas > 1 ? PEAL_NIC_SYSTEM : PEAL_NIC_NUMA;
    return switches > 1 ? PEAL_NIC_BRIDGE : PEAL_NIC_SWITCH;
}

peal_status peal_fabric_nic_distance(const peal_fabric *fabric, uint32_t rank, uint32_t nic,
                                     peal_nic_distance *out)
{
    if (!fabric || !out || rank >= fabric->ranks || nic >= fabric->nics)
        return PEAL_ERR_ARG;
    struct topo_at from = peal_topo_at_rank(fabric, rank), to = peal_topo_at_nic(fabric, nic);
    if (from.host != to.host)
        *out = PEAL_NIC_HOST;
    else if (from.type->shared_memory)
        *out = PEAL_NIC_NUMA;
    else
        *out = between(from.type, from.type->accel[from.index].node, to.type->nic[to.index].node);
    return PEAL_OK;
}
