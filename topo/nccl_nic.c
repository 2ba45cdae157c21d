/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NICs. A <net> is one port as the network library sees it; several may sit on one
 * card (they share its PCIe link) and several may name one physical port (they share
 * its bandwidth). A card without <net> gets one, its speed from the device id or from
 * the accelerators' generation.
 */
#include "defaults.h"
#include "nccl.h"
#include "topo_text.h"

#include <string.h>

/* ---- one port */

/* The speed that hosts of this generation have when nothing is said. */
static double usual_gbits(const struct topo_type *type)
{
    uint32_t arch = 0;

    for (uint32_t a = 0; a < type->accels; a++) {
        if (type->accel[a].arch > arch)
            arch = type->accel[a].arch;
    }
    return arch >= 90 ? 400 : arch >= 80 ? 200 : 100;
}

static peal_status net_speed(struct nccl_reader *reader, const struct topo_elem *net,
                             const struct topo_nic_device *device, struct topo_nic *nic)
{
    const double beyond = 3.2e6; /* Mb/s: no NIC is that fast */
    struct topo_notes *notes = &reader->fabric->notes;
    double mbits;

    PEAL_TRY(peal_topo_nccl_real(reader, net, "speed", 0, &mbits));
    if (mbits > beyond) {
        PEAL_TRY(peal_topo_warn(
            notes, net->line, "speed=\"%s\" Mb/s is beyond any NIC: read as kb/s, %s Gb/s",
            peal_topo_attr(reader->doc, net, "speed"), peal_topo_real(mbits / 1e6).text));
        mbits /= 1000;
        if (mbits > beyond)
            return peal_topo_nccl_refuse(reader, net, "<net speed>: expected Mb/s");
    }
    if (mbits > 0) {
        nic->gbits = mbits / 1000;
        return PEAL_OK;
    }
    nic->gbits = device ? device->gbits : peal_topo_constant(TOPO_NET_MBITS) / 1000;
    return peal_topo_note(notes, net->line, "<net> without speed: %s Gb/s %s",
                          peal_topo_real(nic->gbits).text,
                          device ? "by its PCI device id" : "assumed, as the vendor libraries do");
}

static peal_status read_net(struct nccl_reader *reader, const struct topo_elem *net,
                            const struct topo_nic_device *device, struct topo_nic *nic)
{
    const char *name = peal_topo_attr(reader->doc, net, "name");
    int64_t dev;
    int64_t gdr;
    int64_t port;
    int64_t rail;

    PEAL_TRY(peal_topo_nccl_int(reader, net, "dev", -1, &dev));
    PEAL_TRY(peal_topo_nccl_int(reader, net, "gdr", 0, &gdr));
    PEAL_TRY(peal_topo_nccl_int(reader, net, "port", 0, &port));
    PEAL_TRY(peal_topo_nccl_int(reader, net, "rail", -1, &rail));
    PEAL_TRY(peal_topo_nccl_hex(reader, net, "guid", 0, &nic->guid));
    PEAL_TRY(peal_topo_nccl_real(reader, net, "latency", 0, &nic->latency_us));
    if (dev < -1 || dev > 65535 || rail < -1 || rail > 4095 || port < 0 || port > 65535)
        return peal_topo_nccl_refuse(reader, net, "<net>: dev, port or rail is out of range");
    if (nic->latency_us < 0 || nic->latency_us > 1e6)
        return peal_topo_nccl_refuse(reader, net, "<net latency>: expected microseconds");
    nic->dev = (int32_t)dev;
    nic->port = (int32_t)port;
    nic->rail_stated = (int32_t)rail;
    nic->line = net->line;
    nic->name = name && name[0] ? name : "nic";
    nic->virtual_ = peal_topo_virtual_name(nic->name);
    nic->rdma = gdr > 0 || peal_topo_rdma_name(nic->name) || (device && device->rdma);
    if (dev < 0)
        peal_topo_nccl_count(&reader->net_dev, net->line, nic->name);
    return net_speed(reader, net, device, nic);
}

/* A card of which the file says only that it is there. */
static peal_status assume_net(struct nccl_reader *reader, const struct topo_elem *pci,
                              const struct topo_nic_device *device, struct topo_nic *nic)
{
    const char *class_text = peal_topo_attr(reader->doc, pci, "class");
    uint64_t vendor;

    PEAL_TRY(peal_topo_nccl_hex(reader, pci, "vendor", 0, &vendor));
    nic->dev = -1;
    nic->rail_stated = -1;
    nic->line = pci->line;
    nic->name = "";
    nic->gbits = device ? device->gbits : 0; /* 0: filled once all accelerators are known */
    nic->rdma = device ? device->rdma
                       : (class_text && peal_topo_has_prefix(class_text, "0x0207")) ||
                             vendor == 0x15b3 || vendor == 0x17db || vendor == 0;
    peal_topo_nccl_count(&reader->no_net, pci->line, peal_topo_attr(reader->doc, pci, "busid"));
    return PEAL_OK;
}

/* ---- into the graph */

struct card {
    uint32_t parent;
    int32_t numa;
    const char *busid;
    uint64_t bus;
    double gbs;
    uint32_t up; /* its PCIe link, shared by its ports; TOPO_NONE before the first */
    uint32_t down;
    uint32_t line;
};

static peal_status join_port(struct nccl_reader *reader, struct card *card, uint32_t node)
{
    peal_ctx *ctx = reader->fabric->ctx;
    struct topo_link link = {.from = node,
                             .to = card->parent,
                             .link_class = PEAL_LINK_PCIE,
                             .resource = card->up,
                             .line = card->line,
                             .gbs = card->gbs};
    uint32_t index;

    PEAL_TRY(peal_topo_add_link(ctx, reader->type, &link, &index));
    card->up = reader->type->link[index].resource;
    link.from = card->parent;
    link.to = node;
    link.resource = card->down;
    PEAL_TRY(peal_topo_add_link(ctx, reader->type, &link, &index));
    card->down = reader->type->link[index].resource;
    return PEAL_OK;
}

static peal_status add_port(struct nccl_reader *reader, struct card *card, struct topo_nic *nic)
{
    struct topo_arena *arena = &reader->fabric->arena;
    struct topo_node node = {.kind = TOPO_NIC,
                             .name = "",
                             .busid = "",
                             .bus = card->bus,
                             .numa = card->numa,
                             .line = nic->line};

    if (reader->type->nics >= TOPO_NICS_MAX)
        return peal_fail_at(reader->diag, PEAL_ERR_LIMIT, reader->doc->path, nic->line, 1,
                            "more than %u NICs on one host", (unsigned)TOPO_NICS_MAX);
    nic->name = peal_topo_arena_text(arena, nic->name, strlen(nic->name));
    node.busid = peal_topo_arena_text(arena, card->busid, strlen(card->busid));
    if (!nic->name || !node.busid)
        return PEAL_ERR_MEMORY;
    nic->rail = -1;
    PEAL_TRY(peal_topo_add_node(reader->fabric->ctx, reader->type, &node, &nic->node));
    PEAL_TRY(join_port(reader, card, nic->node));
    return peal_topo_add_nic(reader->fabric->ctx, reader->type, nic);
}

static peal_status nets_of(struct nccl_reader *reader, const struct topo_elem *nic_elem,
                           const struct topo_nic_device *device, struct card *card)
{
    const struct topo_elem *net = peal_topo_first(reader->doc, nic_elem);

    for (; net; net = peal_topo_next(reader->doc, net)) {
        struct topo_nic nic = {.dev = -1};
        int64_t role;

        if (!peal_streq(net->name, "net")) {
            peal_topo_nccl_count(&reader->unknown, net->line, net->name);
            continue;
        }
        PEAL_TRY(peal_topo_nccl_int(reader, net, "net", 1, &role));
        if (role == 0) {
            PEAL_TRY(peal_topo_note(&reader->fabric->notes, net->line,
                                    "<net net=\"0\"> is not for network transfers: ignored"));
            continue;
        }
        PEAL_TRY(read_net(reader, net, device, &nic));
        PEAL_TRY(add_port(reader, card, &nic));
    }
    return PEAL_OK;
}

peal_status peal_topo_nccl_nics(struct nccl_reader *reader, const struct topo_elem *elem,
                                uint32_t parent, int32_t numa)
{
    struct card card = {.parent = parent,
                        .numa = numa,
                        .busid = "",
                        .up = TOPO_NONE,
                        .down = TOPO_NONE,
                        .line = elem->line};
    const struct topo_nic_device *device = NULL;
    const struct topo_elem *child;
    uint32_t before = reader->type->nics;
    uint64_t vendor;
    uint64_t id;

    if (peal_streq(elem->name, "nic")) {
        card.gbs = peal_topo_constant(TOPO_LOCAL);
        return nets_of(reader, elem, NULL, &card);
    }
    card.busid = peal_topo_attr(reader->doc, elem, "busid");
    if (!peal_topo_read_bus(card.busid, &card.bus))
        return PEAL_ERR_INTERNAL; /* checked by the caller */
    PEAL_TRY(peal_topo_nccl_hex(reader, elem, "vendor", 0, &vendor));
    PEAL_TRY(peal_topo_nccl_hex(reader, elem, "device", 0, &id));
    device = peal_topo_nic_device(vendor, id);
    PEAL_TRY(peal_topo_nccl_pcie(reader, elem, &card.gbs));
    for (child = peal_topo_first(reader->doc, elem); child;
         child = peal_topo_next(reader->doc, child)) {
        if (peal_streq(child->name, "nic"))
            PEAL_TRY(nets_of(reader, child, device, &card));
        else
            peal_topo_nccl_count(&reader->unknown, child->line, child->name);
    }
    if (reader->type->nics == before && !peal_topo_child(reader->doc, elem, "nic")) {
        struct topo_nic nic = {.dev = -1};

        PEAL_TRY(assume_net(reader, elem, device, &nic));
        return add_port(reader, &card, &nic);
    }
    return PEAL_OK;
}

/* ---- all of them together */

static peal_status fill_speeds(struct nccl_reader *reader)
{
    struct topo_type *type = reader->type;
    double usual = usual_gbits(type);
    const struct nccl_tally *tally = &reader->no_net;
    double first = 0;

    for (uint32_t n = 0; n < type->nics; n++) {
        struct topo_nic *nic = &type->nic[n];

        if (nic->name[0])
            continue;
        if (nic->gbits <= 0)
            nic->gbits = usual;
        if (first <= 0)
            first = nic->gbits;
    }
    if (!tally->count)
        return PEAL_OK;
    return peal_topo_note(
        &reader->fabric->notes, tally->line,
        "NICs known only by their PCI class: %u (the first: %s); %s Gb/s assumed, "
        "from the device id or the accelerators' generation; <nic><net name= "
        "speed=/></nic> inside the <pci> says better",
        (unsigned)tally->count, tally->what ? tally->what : "?", peal_topo_real(first).text);
}

/* By dev where all state one and they differ; else as the document has them. */
static void order_by_dev(struct topo_type *type)
{
    for (uint32_t a = 0; a < type->nics; a++) {
        if (type->nic[a].dev < 0)
            return;
    }
    for (uint32_t i = 1; i < type->nics; i++) {
        struct topo_nic moving = type->nic[i];
        uint32_t at = i;

        for (; at > 0 && type->nic[at - 1].dev > moving.dev; at--)
            type->nic[at] = type->nic[at - 1];
        type->nic[at] = moving;
    }
}

/* The earlier NIC with the same physical port: a (guid, port) pair, the same name under
 * two CPUs, or one PCI function listed twice. */
static uint32_t same_port(const struct topo_type *type, uint32_t n)
{
    const struct topo_nic *nic = &type->nic[n];
    const struct topo_node *node = &type->node[nic->node];

    for (uint32_t o = 0; o < n; o++) {
        const struct topo_nic *other = &type->nic[o];
        const struct topo_node *there = &type->node[other->node];

        if (nic->guid && nic->guid == other->guid && nic->port == other->port &&
            peal_streq(nic->name, other->name))
            return o;
        if (nic->guid > 0xffff && nic->guid == other->guid && nic->port == other->port)
            return o;
        if (nic->name[0] && nic->dev == other->dev && peal_streq(nic->name, other->name))
            return o;
        if (!nic->name[0] && !other->name[0] && node->bus == there->bus)
            return o;
    }
    return TOPO_NONE;
}

/* Two devices with one number: which of them a tool means by it cannot be known. */
static peal_status warn_same_dev(struct nccl_reader *reader, uint32_t n)
{
    const struct topo_type *type = reader->type;

    for (uint32_t o = 0; o < n; o++) {
        if (type->nic[o].dev < 0 || type->nic[o].dev != type->nic[n].dev)
            continue;
        return peal_topo_warn(&reader->fabric->notes, type->nic[n].line,
                              "<net dev=\"%d\"> is that of line %u too: kept as two NICs",
                              (int)type->nic[n].dev, (unsigned)type->nic[o].line);
    }
    return PEAL_OK;
}

static peal_status give_ports(struct nccl_reader *reader)
{
    struct topo_type *type = reader->type;

    for (uint32_t n = 0; n < type->nics; n++) {
        struct topo_nic *nic = &type->nic[n];
        uint32_t other = same_port(type, n);
        struct topo_resource port = {
            .link_class = PEAL_LINK_NET, .from = nic->node, .to = nic->node};

        nic->port_gbs = nic->gbits / 8 * peal_topo_constant(TOPO_NET_SHARE);
        if (other != TOPO_NONE) {
            nic->tx = type->nic[other].tx;
            nic->rx = type->nic[other].rx;
            nic->port_gbs = type->nic[other].port_gbs;
            if (nic->virtual_) {
                peal_topo_nccl_count(&reader->again, nic->line, nic->name);
                continue;
            }
            PEAL_TRY(peal_topo_warn(&reader->fabric->notes, nic->line,
                                    "NIC %s is the one of line %u again: they share its port",
                                    nic->name[0] ? nic->name : type->node[nic->node].busid,
                                    (unsigned)type->nic[other].line));
            continue;
        }
        PEAL_TRY(warn_same_dev(reader, n));
        port.gbs = nic->port_gbs;
        port.kind = TOPO_RES_TX;
        PEAL_TRY(peal_topo_add_resource(reader->fabric->ctx, type, &port, &nic->tx));
        port.kind = TOPO_RES_RX;
        PEAL_TRY(peal_topo_add_resource(reader->fabric->ctx, type, &port, &nic->rx));
    }
    return PEAL_OK;
}

static int name_taken(const struct topo_type *type, uint32_t before, const char *name)
{
    for (uint32_t n = 0; n < before; n++) {
        if (peal_streq(type->node[type->nic[n].node].name, name))
            return 1;
    }
    return 0;
}

/* Nodes want names of their own: "mlx5_0", "nic3", "tunl0#2". */
static peal_status name_nics(struct nccl_reader *reader)
{
    struct topo_type *type = reader->type;

    for (uint32_t n = 0; n < type->nics; n++) {
        struct topo_nic *nic = &type->nic[n];
        char name[96];
        struct topo_text text;
        uint64_t again = 1;

        do {
            peal_topo_text_init(&text, name, sizeof name - 24);
            peal_topo_text_put(&text, nic->name[0] ? nic->name : "nic");
            text.size = sizeof name;
            if (!nic->name[0])
                peal_topo_text_u64(&text, n);
            if (again > 1) {
                peal_topo_text_put(&text, "#");
                peal_topo_text_u64(&text, again);
            }
            again++;
        } while (name_taken(type, n, name));
        type->node[nic->node].name =
            peal_topo_arena_text(&reader->fabric->arena, name, strlen(name));
        if (!type->node[nic->node].name)
            return PEAL_ERR_MEMORY;
        if (!nic->name[0])
            nic->name = type->node[nic->node].name;
    }
    return PEAL_OK;
}

peal_status peal_topo_nccl_finish_nics(struct nccl_reader *reader)
{
    PEAL_TRY(fill_speeds(reader));
    order_by_dev(reader->type);
    PEAL_TRY(give_ports(reader));
    return name_nics(reader);
}
