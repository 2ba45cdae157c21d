/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Things that load and are probably wrong: a bridge slower than what hangs below it, a
 * NIC faster than its PCIe link, one bus id twice.
 */
#include "defaults.h"
#include "nccl.h"
#include "topo_text.h"

/* The link from a node to the switch or CPU above it; NULL for roots. A switch is made
 * before what lies below it, so above is what has the smaller index. */
static const struct topo_link *uplink(const struct topo_type *type, uint32_t node)
{
    for (uint32_t l = 0; l < type->links; l++) {
        const struct topo_link *link = &type->link[l];

        if (link->from == node && link->link_class == PEAL_LINK_PCIE && link->to < node &&
            type->node[link->to].kind != TOPO_ACCELERATOR)
            return link;
    }
    return NULL;
}

/* A factor of four hides the usual generation step between a switch and its devices, and
 * shows the x1 2.5 GT/s that virtual bridges report. */
static peal_status slow_bridges(struct nccl_reader *reader)
{
    const struct topo_type *type = reader->type;
    const double factor = 4;

    for (uint32_t n = 0; n < type->nodes; n++) {
        const struct topo_link *up =
            type->node[n].kind == TOPO_PCIE_SWITCH ? uplink(type, n) : NULL;
        double fastest = 0;

        for (uint32_t l = 0; up && l < type->links; l++) {
            const struct topo_link *link = &type->link[l];

            if (link->to == n && link->from > n && link->link_class == PEAL_LINK_PCIE &&
                link->gbs > fastest && link->gbs < peal_topo_constant(TOPO_LOCAL))
                fastest = link->gbs;
        }
        if (up && up->gbs * factor < fastest)
            PEAL_TRY(peal_topo_trap(
                &reader->fabric->notes, "slow-bridge", type->node[n].line,
                "PCIe bridge %s has %s GB/s upward and %s GB/s below: such figures are often those "
                "of a virtual bridge, and limit every path through it",
                type->node[n].busid, peal_topo_real(up->gbs).text, peal_topo_real(fastest).text));
    }
    return PEAL_OK;
}

static peal_status starved_nics(struct nccl_reader *reader)
{
    const struct topo_type *type = reader->type;

    for (uint32_t n = 0; n < type->nics; n++) {
        const struct topo_nic *nic = &type->nic[n];
        const struct topo_link *up = uplink(type, nic->node);

        if (up && up->gbs * 8 < nic->gbits * 0.5)
            PEAL_TRY(peal_topo_trap(&reader->fabric->notes, "starved-nic", nic->line,
                                    "NIC %s has a line rate of %s Gb/s on a PCIe link of %s GB/s",
                                    type->node[nic->node].name, peal_topo_real(nic->gbits).text,
                                    peal_topo_real(up->gbs).text));
    }
    return PEAL_OK;
}

static int has_bus(const struct topo_node *node)
{
    return node->busid[0] != '\0';
}

/* Ports of one card have its bus id in common; that is not told again. */
static peal_status double_ids(struct nccl_reader *reader)
{
    const struct topo_type *type = reader->type;

    for (uint32_t n = 0; n < type->nodes; n++) {
        const struct topo_node *node = &type->node[n];

        for (uint32_t o = 0; o < n && has_bus(node); o++) {
            const struct topo_node *other = &type->node[o];

            if (!has_bus(other) || other->bus != node->bus ||
                (node->kind == TOPO_NIC && other->kind == TOPO_NIC))
                continue;
            PEAL_TRY(peal_topo_trap(&reader->fabric->notes, "double-id", node->line,
                                    "bus id %s is that of line %u too: kept as two devices",
                                    node->busid, (unsigned)other->line));
            break;
        }
    }
    return PEAL_OK;
}

peal_status peal_topo_nccl_check(struct nccl_reader *reader)
{
    PEAL_TRY(slow_bridges(reader));
    PEAL_TRY(starved_nics(reader));
    return double_ids(reader);
}
