/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several NICs for one accelerator: four 100 Gb/s devices, two ports of a card. Where
 * ranks with the same choice have at least twice as many equally good NICs, each gets
 * its share of them to itself, and they count as one port of their summed bandwidth
 * (the vendor library spreads its channels over them).
 */
#include "nearest.h"
#include "topo_text.h"

#include <string.h>

static const uint8_t *row(const struct topo_type *type, const struct topo_nearest *work, uint32_t a)
{
    return &work->mark[(size_t)a * type->nics];
}

/* How many accelerators have exactly the choice of a; 0 when one has part of it. */
static uint32_t sharers(const struct topo_type *type, const struct topo_nearest *work, uint32_t a)
{
    uint32_t count = 0;

    for (uint32_t b = 0; b < type->accels; b++) {
        if (memcmp(row(type, work, a), row(type, work, b), type->nics) == 0) {
            count++;
            continue;
        }
        for (uint32_t n = 0; n < type->nics; n++) {
            if (row(type, work, a)[n] && row(type, work, b)[n])
                return 0;
        }
    }
    return count;
}

static const struct topo_link *up_of(const struct topo_type *type, const struct topo_nic *nic)
{
    const struct topo_node *node = &type->node[nic->node];

    return node->degree ? &type->link[type->out[node->first]] : NULL;
}

static int can_join(const struct topo_type *type, const struct topo_nearest *work, uint32_t a,
                    uint32_t n)
{
    const struct topo_nic *first = &type->nic[type->accel[a].nic];
    const struct topo_nic *nic = &type->nic[n];
    const struct topo_link *up = up_of(type, nic);
    const struct topo_link *first_up = up_of(type, first);

    if (!row(type, work, a)[n] || work->load[n] || work->owner[n] != TOPO_NONE || !up ||
        !first_up || up->to != first_up->to)
        return 0;
    for (uint32_t o = 0; o < n; o++) { /* one physical port is not two */
        if (type->nic[o].tx == nic->tx)
            return 0;
    }
    return 1;
}

/* What the NICs of a pass together: ports of one card share its PCIe link. */
static double together(const struct topo_type *type, const struct topo_nearest *work, uint32_t a)
{
    double sum = 0;

    for (uint32_t n = 0; n < type->nics; n++) {
        const struct topo_link *up = up_of(type, &type->nic[n]);
        double card = 0;
        int first = 1;

        if (work->owner[n] != a || !up)
            continue;
        for (uint32_t o = 0; o < type->nics; o++) {
            const struct topo_link *other = up_of(type, &type->nic[o]);

            if (work->owner[o] != a || !other || other->resource != up->resource)
                continue;
            first = first && o >= n;
            card += type->resource[type->nic[o].tx].gbs;
        }
        if (first)
            sum +=
                card < type->resource[up->resource].gbs ? card : type->resource[up->resource].gbs;
    }
    return sum;
}

static peal_status join_ports(peal_fabric *fabric, struct topo_type *type,
                              const struct topo_nearest *work, uint32_t a, uint32_t members)
{
    struct topo_accel *accel = &type->accel[a];
    uint32_t node = type->nic[accel->nic].node;
    struct topo_resource port = {.link_class = PEAL_LINK_NET, .from = node, .to = members - 1};

    port.gbs = together(type, work, a);
    port.kind = TOPO_RES_BUNDLE_TX;
    PEAL_TRY(peal_topo_add_resource(fabric->ctx, type, &port, &accel->tx));
    port.kind = TOPO_RES_BUNDLE_RX;
    PEAL_TRY(peal_topo_add_resource(fabric->ctx, type, &port, &accel->rx));
    accel->bundle = members;
    return PEAL_OK;
}

peal_status peal_topo_bundle_nics(peal_fabric *fabric, struct topo_type *type,
                                  struct topo_nearest *work)
{
    uint32_t bundled = 0;
    uint32_t most = 0;

    for (uint32_t a = 0; a < type->accels; a++) {
        uint32_t same;
        uint32_t members = 1;

        if (type->accel[a].nic < 0 || !type->nic[type->accel[a].nic].rdma)
            continue;
        same = sharers(type, work, a);
        if (!same || work->choices[a] < 2 * same)
            continue;
        work->owner[type->accel[a].nic] = a;
        for (uint32_t n = 0; n < type->nics && members < work->choices[a] / same; n++) {
            if (can_join(type, work, a, n)) {
                work->owner[n] = a;
                members++;
            }
        }
        if (members < 2)
            continue;
        PEAL_TRY(join_ports(fabric, type, work, a, members));
        bundled++;
        most = members > most ? members : most;
    }
    if (!bundled)
        return PEAL_OK;
    return peal_topo_note(&fabric->notes, type->accel[0].line,
                          "%u accelerators have up to %u equally near NICs each to themselves: "
                          "they count as one port of the summed bandwidth",
                          (unsigned)bundled, (unsigned)most);
}
