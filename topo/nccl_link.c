/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links between accelerators: NVLink to peers or to switches (which become one node, as
 * the vendor library has it), xGMI meshes, C2C to the CPU. What a partial file leaves
 * out is filled for machines that have it by construction.
 */
#include "defaults.h"
#include "nccl.h"
#include "topo_text.h"

#include <string.h>

/* What one accelerator's elements add up to. */
struct ends {
    uint32_t to_switch; /* links */
    uint32_t line;
    uint32_t *peer;      /* links to each accelerator, by index */
    uint32_t *peer_line; /* where the last of them stands */
    peal_link_class link_class;
};

static double per_link(const struct topo_accel *accel, peal_link_class link_class)
{
    return link_class == PEAL_LINK_XGMI ? peal_topo_xgmi_gbs(accel->gcn)
                                        : peal_topo_nvlink_gbs(accel->arch);
}

static peal_status need_switch(struct nccl_reader *reader)
{
    struct topo_node node = {.kind = TOPO_NVSWITCH, .name = "nvs0", .busid = "", .numa = -1};

    if (reader->nvswitch != TOPO_NONE)
        return PEAL_OK;
    return peal_topo_add_node(reader->fabric->ctx, reader->type, &node, &reader->nvswitch);
}

static peal_status join(struct nccl_reader *reader, uint32_t from, uint32_t to,
                        peal_link_class link_class, double gbs, uint32_t line)
{
    struct topo_link link = {.from = from,
                             .to = to,
                             .link_class = link_class,
                             .resource = TOPO_NONE,
                             .line = line,
                             .gbs = gbs};

    return peal_topo_add_link(reader->fabric->ctx, reader->type, &link, NULL);
}

static peal_status join_switch(struct nccl_reader *reader, const struct topo_accel *accel,
                               uint32_t links, uint32_t line)
{
    double gbs = links * per_link(accel, PEAL_LINK_NVLINK);

    PEAL_TRY(need_switch(reader));
    PEAL_TRY(join(reader, accel->node, reader->nvswitch, PEAL_LINK_NVLINK, gbs, line));
    return join(reader, reader->nvswitch, accel->node, PEAL_LINK_NVLINK, gbs, line);
}

static uint32_t numa_of(const struct topo_type *type, int32_t numa)
{
    for (uint32_t n = 0; n < type->nodes; n++) {
        if (type->node[n].kind == TOPO_NUMA && type->node[n].numa == numa)
            return n;
    }
    return TOPO_NONE;
}

static uint32_t accel_of_bus(const struct topo_type *type, uint64_t bus)
{
    for (uint32_t a = 0; a < type->accels; a++) {
        if (type->node[type->accel[a].node].bus == bus)
            return a;
    }
    return TOPO_NONE;
}

/* ---- reading one element */

static peal_status c2c(struct nccl_reader *reader, const struct topo_accel *accel,
                       const struct topo_elem *elem)
{
    uint32_t numa = numa_of(reader->type, accel->numa);
    double bw;
    int64_t count;
    double gbs;

    PEAL_TRY(peal_topo_nccl_real(reader, elem, "bw", -1, &bw));
    PEAL_TRY(peal_topo_nccl_int(reader, elem, "count", -1, &count));
    if (bw <= 0 || bw > 1e7 || count <= 0 || count > 1024)
        return peal_topo_nccl_refuse(reader, elem,
                                     "<c2c>: expected bw= (MB/s per link) and count= (links)");
    gbs = bw * (double)count / 1000;
    if (numa == TOPO_NONE)
        return PEAL_OK;
    PEAL_TRY(join(reader, accel->node, numa, PEAL_LINK_C2C, gbs, elem->line));
    return join(reader, numa, accel->node, PEAL_LINK_C2C, gbs, elem->line);
}

static peal_status count_of(struct nccl_reader *reader, const struct topo_elem *elem,
                            uint32_t *links)
{
    int64_t count;

    PEAL_TRY(peal_topo_nccl_int(reader, elem, "count", -1, &count));
    if (count < 0 || count > 1024)
        return peal_topo_nccl_refuse(reader, elem, "<%s>: expected count=\"0\" to \"1024\" (links)",
                                     elem->name);
    *links = (uint32_t)count;
    return PEAL_OK;
}

/* A switch by its class, by a bus id that guests see for what is hidden, or by a target
 * that is not in the file and claims no class. */
static int to_switch(const struct nccl_reader *reader, const char *target, const char *tclass)
{
    (void)reader;
    if (!target || peal_topo_bus_hidden(target))
        return 1;
    return tclass && peal_topo_has_prefix(tclass, "0x0680") &&
           !peal_topo_has_prefix(tclass, "0x068001");
}

static peal_status nvlink(struct nccl_reader *reader, uint32_t a, const struct topo_elem *elem,
                          struct ends *ends)
{
    struct topo_type *type = reader->type;
    const struct topo_accel *accel = &type->accel[a];
    struct topo_notes *notes = &reader->fabric->notes;
    const char *target = peal_topo_attr(reader->doc, elem, "target");
    const char *tclass = peal_topo_attr(reader->doc, elem, "tclass");
    uint64_t bus = 0;
    uint32_t links = 0;
    uint32_t peer = TOPO_NONE;

    ends->link_class = peal_streq(elem->name, "xgmi") ? PEAL_LINK_XGMI : PEAL_LINK_NVLINK;
    PEAL_TRY(count_of(reader, elem, &links));
    if (!links)
        return PEAL_OK;
    if (target && !peal_topo_bus_hidden(target)) {
        if (!peal_topo_read_bus(target, &bus))
            return peal_topo_nccl_refuse(reader, elem, "<%s target=\"%.40s\">: not a PCI bus id",
                                         elem->name, target);
        peer = accel_of_bus(type, bus);
    }
    if (peer == a)
        return peal_topo_warn(notes, elem->line,
                              "<%s> of gpu%u leads to itself: which peer it is wired to cannot be "
                              "known, so these %u links are ignored; write the peer's bus id",
                              elem->name, (unsigned)a, (unsigned)links);
    if (peer != TOPO_NONE) {
        ends->peer[peer] += links;
        ends->peer_line[peer] = elem->line;
        return PEAL_OK;
    }
    if (tclass && peal_topo_has_prefix(tclass, "0x068001")) { /* NVLink to a POWER CPU */
        uint32_t numa = numa_of(type, accel->numa);
        double gbs = links * per_link(accel, PEAL_LINK_NVLINK);

        if (numa == TOPO_NONE)
            return PEAL_OK;
        PEAL_TRY(join(reader, accel->node, numa, PEAL_LINK_NVLINK, gbs, elem->line));
        return join(reader, numa, accel->node, PEAL_LINK_NVLINK, gbs, elem->line);
    }
    if (to_switch(reader, target, tclass) || !tclass) {
        if (!target || peal_topo_bus_hidden(target))
            peal_topo_nccl_count(&reader->hidden, elem->line, target ? target : "no target");
        ends->to_switch += links;
        ends->line = ends->line ? ends->line : elem->line;
        return PEAL_OK;
    }
    return peal_topo_note(notes, elem->line,
                          "<%s target=\"%.40s\">: no such accelerator in this file, link ignored",
                          elem->name, target);
}

/* ---- one accelerator */

/* Guests of some hypervisors list every peer with all the links at once: more than the
 * accelerator has, so they are one set of links to a switch. */
static int peers_are_a_switch(const struct nccl_reader *reader, const struct topo_accel *accel,
                              const struct ends *ends, uint32_t *most)
{
    uint32_t limit = accel->links ? accel->links : peal_topo_nvlink_count(accel->arch);
    uint32_t sum = 0;

    *most = 0;
    for (uint32_t p = 0; p < reader->type->accels; p++) {
        sum += ends->peer[p];
        if (ends->peer[p] > *most)
            *most = ends->peer[p];
    }
    return ends->link_class == PEAL_LINK_NVLINK && limit && sum > limit && *most <= limit &&
           *most * 2 > limit;
}

static peal_status links_of(struct nccl_reader *reader, uint32_t a, struct ends *ends,
                            uint32_t *matrix)
{
    const struct topo_doc *doc = reader->doc;
    struct topo_type *type = reader->type;
    const struct topo_accel *accel = &type->accel[a];
    const struct topo_elem *elem = peal_topo_first(doc, &doc->elem[accel->elem]);
    uint32_t most;

    for (; elem; elem = peal_topo_next(doc, elem)) {
        if (peal_streq(elem->name, "nvlink") || peal_streq(elem->name, "xgmi"))
            PEAL_TRY(nvlink(reader, a, elem, ends));
        else if (peal_streq(elem->name, "c2c"))
            PEAL_TRY(c2c(reader, accel, elem));
        else if (!peal_streq(elem->name, "pci") && !peal_streq(elem->name, "gpu"))
            peal_topo_nccl_count(&reader->unknown, elem->line, elem->name);
    }
    if (peers_are_a_switch(reader, accel, ends, &most)) {
        ends->to_switch += most;
        peal_topo_nccl_count(&reader->all_peers, accel->line, type->node[accel->node].name);
    } else {
        memcpy(&matrix[(size_t)a * type->accels], ends->peer, type->accels * sizeof *ends->peer);
    }
    if (ends->to_switch)
        PEAL_TRY(
            join_switch(reader, accel, ends->to_switch, ends->line ? ends->line : accel->line));
    return PEAL_OK;
}

/* ---- what is wired directly */

/* A link is one cable: what only one end lists is there both ways. Counts that differ are
 * kept as stated, each for its direction. */
static peal_status join_peers(struct nccl_reader *reader, const uint32_t *matrix,
                              const uint8_t *classes)
{
    struct topo_type *type = reader->type;
    uint32_t n = type->accels;

    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = 0; b < n; b++) {
            uint32_t there = matrix[(size_t)a * n + b];
            uint32_t back = matrix[(size_t)b * n + a];
            const struct topo_accel *from = &type->accel[a];
            peal_link_class link_class = (peal_link_class)(there ? classes[a] : classes[b]);

            if (there < back)
                PEAL_TRY(peal_topo_trap(&reader->fabric->notes, "one-way", from->line,
                                        "gpu%u lists %u links to gpu%u, which lists %u back: %s",
                                        (unsigned)a, (unsigned)there, (unsigned)b, (unsigned)back,
                                        there ? "each direction is taken as stated"
                                              : "taken as wired both ways"));
            if (!there)
                there = back;
            if (there)
                PEAL_TRY(join(reader, from->node, type->accel[b].node, link_class,
                              there * per_link(from, link_class), from->line));
        }
    }
    return PEAL_OK;
}

/* ---- what is filled in */

static int board(const struct topo_accel *accel, uint32_t accels)
{
    if (accel->form == TOPO_FORM_SXM)
        return 1;
    if (accel->form != TOPO_FORM_UNKNOWN || !accel->has_class3d || accel->vendor == 0x1002)
        return 0;
    if (accels != 4 && accels != 8 && accels != 16)
        return 0;
    return accel->arch == 60 || accel->arch == 70 || accel->arch == 80 || accel->arch == 90 ||
           accel->arch == 100 || accel->arch == 103;
}

/* Boards of four up to Hopper are a full mesh without a switch; all others have one. */
static peal_status assume_links(struct nccl_reader *reader)
{
    struct topo_type *type = reader->type;
    const struct topo_accel *first = &type->accel[0];
    uint32_t links = first->links ? first->links : peal_topo_nvlink_count(first->arch);
    int mesh = type->accels == 4 && first->arch <= 90;

    if (type->accels < 2 || first->gcn[0] || !links)
        return PEAL_OK;
    for (uint32_t a = 0; a < type->accels; a++) {
        if (type->accel[a].links_stated || !board(&type->accel[a], type->accels))
            return PEAL_OK;
    }
    for (uint32_t a = 0; a < type->accels; a++) {
        const struct topo_accel *accel = &type->accel[a];

        if (!mesh)
            PEAL_TRY(join_switch(reader, accel, links, accel->line));
        for (uint32_t b = 0; mesh && b < type->accels; b++) {
            if (a != b)
                PEAL_TRY(join(reader, accel->node, type->accel[b].node, PEAL_LINK_NVLINK,
                              links / 3 * per_link(accel, PEAL_LINK_NVLINK), accel->line));
        }
    }
    return peal_topo_note(&reader->fabric->notes, first->line,
                          "no accelerator lists its NVLinks: %u sm_%u boards are taken to have %u "
                          "each, %s; <nvlink target= count= tclass=> inside <gpu> states them, "
                          "count=\"0\" that there are none",
                          (unsigned)type->accels, (unsigned)first->arch, (unsigned)links,
                          mesh ? "a third to each peer" : "all to one NVSwitch");
}

/* ---- all */

static peal_status read_links(struct nccl_reader *reader, uint32_t *space, uint8_t *classes)
{
    struct topo_type *type = reader->type;
    size_t n = type->accels;
    uint32_t *matrix = space + 2 * n;

    for (uint32_t a = 0; a < n; a++) {
        struct ends ends = {.peer = space, .peer_line = space + n, .link_class = PEAL_LINK_NVLINK};

        memset(space, 0, 2 * n * sizeof *space);
        PEAL_TRY(links_of(reader, a, &ends, matrix));
        classes[a] = (uint8_t)ends.link_class;
    }
    PEAL_TRY(join_peers(reader, matrix, classes));
    return assume_links(reader);
}

peal_status peal_topo_nccl_links(struct nccl_reader *reader)
{
    peal_ctx *ctx = reader->fabric->ctx;
    size_t n = reader->type->accels;
    uint32_t *space = peal_calloc(ctx, n * (n + 2), sizeof *space);
    uint8_t *classes = peal_calloc(ctx, n, 1);
    peal_status status = space && classes ? read_links(reader, space, classes) : PEAL_ERR_MEMORY;

    peal_free(ctx, space, n * (n + 2) * sizeof *space);
    peal_free(ctx, classes, n);
    return status;
}
