/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk: system > cpu > pci ... > gpu | nic > net. What NCCL skips is skipped
 * here, with a note; what it needs and peal can know is filled, with a note.
 */
#include "nccl.h"

#include "defaults.h"
#include "topo_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- attributes */

void peal_topo_nccl_count(struct nccl_tally *tally, uint32_t line, const char *what)
{
    if (tally->count++ == 0) {
        tally->line = line;
        tally->what = what;
    }
}

peal_status peal_topo_nccl_refuse(const struct nccl_reader *reader, const struct topo_elem *elem,
                                  const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    va_end(args);
    return peal_fail_at(reader->diag, PEAL_ERR_INPUT, reader->doc->path, elem->line, elem->column,
                        "%s", text);
}

static const char *given(const struct nccl_reader *reader, const struct topo_elem *elem,
                         const char *name)
{
    const char *text = peal_topo_attr(reader->doc, elem, name);

    return text && text[strspn(text, " ")] ? text : NULL;
}

peal_status peal_topo_nccl_int(const struct nccl_reader *reader, const struct topo_elem *elem,
                               const char *name, int64_t fallback, int64_t *out)
{
    const char *text = given(reader, elem, name);

    *out = fallback;
    if (text && !peal_topo_read_int(text, out))
        return peal_topo_nccl_refuse(reader, elem, "<%s %s=\"%.40s\">: expected an integer",
                                     elem->name, name, text);
    return PEAL_OK;
}

peal_status peal_topo_nccl_hex(const struct nccl_reader *reader, const struct topo_elem *elem,
                               const char *name, uint64_t fallback, uint64_t *out)
{
    const char *text = given(reader, elem, name);

    *out = fallback;
    if (text && !peal_topo_read_hex(text, out))
        return peal_topo_nccl_refuse(reader, elem,
                                     "<%s %s=\"%.40s\">: expected a hexadecimal number", elem->name,
                                     name, text);
    return PEAL_OK;
}

peal_status peal_topo_nccl_real(const struct nccl_reader *reader, const struct topo_elem *elem,
                                const char *name, double fallback, double *out)
{
    const char *text = given(reader, elem, name);

    *out = fallback;
    if (text && !peal_topo_read_double(text, out))
        return peal_topo_nccl_refuse(reader, elem, "<%s %s=\"%.40s\">: expected a number",
                                     elem->name, name, text);
    return PEAL_OK;
}

/* ---- elements */

static peal_status two_links(struct nccl_reader *reader, uint32_t node, uint32_t parent, double gbs,
                             uint32_t line)
{
    struct topo_link link = {.from = node,
                             .to = parent,
                             .link_class = PEAL_LINK_PCIE,
                             .resource = TOPO_NONE,
                             .line = line,
                             .gbs = gbs};

    PEAL_TRY(peal_topo_add_link(reader->fabric->ctx, reader->type, &link, NULL));
    link.from = parent;
    link.to = node;
    return peal_topo_add_link(reader->fabric->ctx, reader->type, &link, NULL);
}

static peal_status bus_of(struct nccl_reader *reader, const struct topo_elem *pci,
                          struct topo_node *node)
{
    const char *busid = peal_topo_attr(reader->doc, pci, "busid");

    if (!busid)
        return peal_topo_nccl_refuse(reader, pci,
                                     "<pci> without busid; expected busid=\"dddd:bb:dd.f\"");
    if (!peal_topo_read_bus(busid, &node->bus))
        return peal_topo_nccl_refuse(reader, pci,
                                     "busid \"%.60s\" is not a PCI bus id; expected dddd:bb:dd.f, "
                                     "such as 0000:07:00.0",
                                     busid);
    node->busid = peal_topo_arena_text(&reader->fabric->arena, busid, strlen(busid));
    return node->busid ? PEAL_OK : PEAL_ERR_MEMORY;
}

static peal_status read_pci(struct nccl_reader *reader, const struct topo_elem *pci,
                            uint32_t parent, int32_t numa);

static peal_status below(struct nccl_reader *reader, const struct topo_elem *elem, uint32_t node,
                         int32_t numa)
{
    const struct topo_elem *child = peal_topo_first(reader->doc, elem);

    for (; child; child = peal_topo_next(reader->doc, child)) {
        if (peal_streq(child->name, "pci"))
            PEAL_TRY(read_pci(reader, child, node, numa));
        else if (peal_streq(child->name, "nic"))
            PEAL_TRY(peal_topo_nccl_nics(reader, child, node, numa));
        else if (!peal_streq(child->name, "pcilink"))
            peal_topo_nccl_count(&reader->unknown, child->line, child->name);
    }
    return PEAL_OK;
}

static peal_status read_switch(struct nccl_reader *reader, const struct topo_elem *pci,
                               uint32_t parent, int32_t numa)
{
    struct topo_node node = {.kind = TOPO_PCIE_SWITCH, .numa = numa, .line = pci->line};
    char name[24];
    struct topo_text text;
    uint32_t index;
    double gbs;

    PEAL_TRY(bus_of(reader, pci, &node));
    peal_topo_text_init(&text, name, sizeof name);
    peal_topo_text_put(&text, "pcie");
    peal_topo_text_u64(&text, reader->switches++);
    node.name = peal_topo_arena_text(&reader->fabric->arena, name, strlen(name));
    if (!node.name)
        return PEAL_ERR_MEMORY;
    PEAL_TRY(peal_topo_add_node(reader->fabric->ctx, reader->type, &node, &index));
    PEAL_TRY(peal_topo_nccl_pcie(reader, pci, &gbs));
    PEAL_TRY(two_links(reader, index, parent, gbs, pci->line));
    return below(reader, pci, index, numa);
}

/* Depth is bounded by the document's. */
static peal_status read_pci(struct nccl_reader *reader, const struct topo_elem *pci,
                            uint32_t parent, int32_t numa)
{
    struct topo_node ignored;
    uint32_t node;
    double gbs;

    switch (peal_topo_nccl_classify(reader->doc, pci)) {
    case NCCL_PCI_SWITCH:
        return read_switch(reader, pci, parent, numa);
    case NCCL_PCI_NIC:
        PEAL_TRY(bus_of(reader, pci, &ignored));
        return peal_topo_nccl_nics(reader, pci, parent, numa);
    case NCCL_PCI_ACCELERATOR:
        PEAL_TRY(peal_topo_nccl_accelerator(reader, pci, numa, &node));
        if (node == TOPO_NONE)
            return PEAL_OK;
        PEAL_TRY(bus_of(reader, pci, &reader->type->node[node]));
        PEAL_TRY(peal_topo_nccl_pcie(reader, pci, &gbs));
        return two_links(reader, node, parent, gbs, pci->line);
    default:
        PEAL_TRY(bus_of(reader, pci, &ignored));
        if (!given(reader, pci, "class"))
            peal_topo_nccl_count(&reader->no_class, pci->line, ignored.busid);
        return PEAL_OK;
    }
}

static peal_status numa_name(struct nccl_reader *reader, struct topo_node *node)
{
    char name[32];
    struct topo_text text;

    peal_topo_text_init(&text, name, sizeof name);
    if (node->numa >= 0) {
        peal_topo_text_put(&text, "numa");
        peal_topo_text_u64(&text, (uint64_t)node->numa);
    } else {
        peal_topo_text_put(&text, "cpu");
    }
    for (uint32_t n = 0; n < reader->type->nodes; n++) {
        if (reader->type->node[n].kind == TOPO_NUMA &&
            peal_streq(reader->type->node[n].name, name)) {
            peal_topo_text_put(&text, "#");
            peal_topo_text_u64(&text, reader->type->numas);
            break;
        }
    }
    node->name = peal_topo_arena_text(&reader->fabric->arena, name, strlen(name));
    return node->name ? PEAL_OK : PEAL_ERR_MEMORY;
}

/* Dumps of machines whose NVLink spans hosts hold the CPUs of several. */
static peal_status check_hash(struct nccl_reader *reader, const struct topo_elem *cpu)
{
    const char *hash = given(reader, cpu, "host_hash");

    if (!hash || reader->fused)
        return PEAL_OK;
    if (!reader->host_hash)
        reader->host_hash = hash;
    if (peal_streq(reader->host_hash, hash))
        return PEAL_OK;
    reader->fused = 1;
    return peal_topo_warn(&reader->fabric->notes, cpu->line,
                          "the CPUs are of several hosts (host_hash differs): read as one host");
}

static peal_status read_cpu(struct nccl_reader *reader, const struct topo_elem *cpu)
{
    struct topo_node node = {.kind = TOPO_NUMA, .busid = "", .line = cpu->line};
    struct nccl_cpu about;
    const char *arch = given(reader, cpu, "arch");
    const char *vendor = given(reader, cpu, "vendor");
    int64_t numa;
    uint32_t index;

    PEAL_TRY(peal_topo_nccl_int(reader, cpu, "numaid", -1, &numa));
    if (numa < -1 || numa > 65535)
        return peal_topo_nccl_refuse(reader, cpu, "numaid is out of range; expected -1 to 65535");
    if (!given(reader, cpu, "numaid"))
        PEAL_TRY(peal_topo_warn(&reader->fabric->notes, cpu->line,
                                "<cpu> without numaid: its NUMA node is unknown"));
    about.arch = arch ? arch : "";
    about.vendor = vendor ? vendor : "";
    PEAL_TRY(peal_topo_nccl_int(reader, cpu, "familyid", -1, &about.family));
    PEAL_TRY(peal_topo_nccl_int(reader, cpu, "modelid", -1, &about.model));
    if (reader->type->numas == 0)
        reader->cpu = about;
    PEAL_TRY(check_hash(reader, cpu));
    node.numa = (int32_t)numa;
    PEAL_TRY(numa_name(reader, &node));
    PEAL_TRY(peal_topo_add_node(reader->fabric->ctx, reader->type, &node, &index));
    reader->type->numas++;
    return below(reader, cpu, index, node.numa);
}

/* Every pair of NUMA nodes of a host is one hop apart, as the vendor libraries have it. */
static peal_status join_cpus(struct nccl_reader *reader)
{
    struct topo_type *type = reader->type;
    double gbs = peal_topo_smp_gbs(reader->cpu.arch, reader->cpu.vendor, reader->cpu.family,
                                   reader->cpu.model);

    type->smp_gbs = gbs;
    for (uint32_t a = 0; a < type->nodes; a++) {
        for (uint32_t b = 0; b < type->nodes; b++) {
            struct topo_link link = {.from = a,
                                     .to = b,
                                     .link_class = PEAL_LINK_SMP,
                                     .resource = TOPO_NONE,
                                     .line = type->node[a].line,
                                     .gbs = gbs};

            if (a != b && type->node[a].kind == TOPO_NUMA && type->node[b].kind == TOPO_NUMA)
                PEAL_TRY(peal_topo_add_link(reader->fabric->ctx, type, &link, NULL));
        }
    }
    if (type->numas > 1 && !reader->cpu.arch[0])
        return peal_topo_note(&reader->fabric->notes, type->node[0].line,
                              "<cpu> states no arch: %s GB/s assumed between NUMA nodes; "
                              "arch, vendor, familyid and modelid say better",
                              peal_topo_real(gbs).text);
    return PEAL_OK;
}

/* <pcilink target=...> under a switch joins two switches of one package. */
static peal_status join_switches(struct nccl_reader *reader)
{
    const struct topo_doc *doc = reader->doc;

    for (uint32_t e = 0; e < doc->elems; e++) {
        const struct topo_elem *elem = &doc->elem[e];
        const char *target;
        const char *source;
        uint64_t to = 0;
        uint64_t from = 0;
        uint32_t ends[2] = {TOPO_NONE, TOPO_NONE};

        if (!peal_streq(elem->name, "pcilink") || elem->parent == TOPO_XML_NONE)
            continue;
        target = peal_topo_attr(doc, elem, "target");
        source = peal_topo_attr(doc, &doc->elem[elem->parent], "busid");
        if (!target || !source || !peal_topo_read_bus(target, &to) ||
            !peal_topo_read_bus(source, &from))
            return peal_topo_nccl_refuse(reader, elem,
                                         "<pcilink>: expected target=\"dddd:bb:dd.f\"");
        for (uint32_t n = 0; n < reader->type->nodes; n++) {
            const struct topo_node *node = &reader->type->node[n];

            if (node->kind == TOPO_PCIE_SWITCH && node->bus == from)
                ends[0] = n;
            if (node->kind == TOPO_PCIE_SWITCH && node->bus == to)
                ends[1] = n;
        }
        if (ends[0] != TOPO_NONE && ends[1] != TOPO_NONE && ends[0] < ends[1])
            PEAL_TRY(
                two_links(reader, ends[0], ends[1], peal_topo_constant(TOPO_LOCAL), elem->line));
    }
    return PEAL_OK;
}

/* ---- notes that stand for many */

static peal_status tell(struct nccl_reader *reader, const struct nccl_tally *tally, int warning,
                        const char *what, const char *how)
{
    struct topo_notes *notes = &reader->fabric->notes;
    const char *first = tally->what ? tally->what : "?";

    if (!tally->count)
        return PEAL_OK;
    return (warning ? peal_topo_warn : peal_topo_note)(notes, tally->line,
                                                       "%s: %u (the first: %.60s); %s", what,
                                                       (unsigned)tally->count, first, how);
}

static peal_status tell_devices(struct nccl_reader *reader)
{
    PEAL_TRY(tell(reader, &reader->no_element, 0, "accelerators known only by their PCI class",
                  "taken as ranks; a <gpu dev= sm= rank= gdr=> inside says what is assumed"));
    PEAL_TRY(tell(reader, &reader->apu, 0, "<apu> elements", "taken as accelerators"));
    PEAL_TRY(tell(reader, &reader->no_rank, 0, "<gpu> elements without rank",
                  "each is a rank all the same"));
    PEAL_TRY(tell(reader, &reader->no_class, 0, "<pci> elements without class and content",
                  "ignored; class=\"0x030200\" makes one an accelerator, \"0x020000\" a NIC"));
    PEAL_TRY(tell(reader, &reader->no_peer, 0, "GeForce boards",
                  "their driver refuses peer access over PCIe, so what crosses PCIe is staged"));
    PEAL_TRY(tell(reader, &reader->net_dev, 0, "<net> elements without dev",
                  "kept, numbered in document order"));
    return tell(reader, &reader->again, 0, "virtual interfaces listed under more than one CPU",
                "each is one NIC all the same");
}

static peal_status tell_links(struct nccl_reader *reader)
{
    PEAL_TRY(tell(reader, &reader->no_speed, 0, "PCIe links without link_speed",
                  "taken as fast as the device needs, or as what lies below, else 8 GT/s"));
    PEAL_TRY(tell(reader, &reader->odd_speed, 1, "PCIe links with a link_speed not understood",
                  "8 GT/s assumed, as the vendor libraries do"));
    PEAL_TRY(tell(reader, &reader->hidden, 0, "links to a switch that the file does not show",
                  "one NVSwitch joins them all"));
    PEAL_TRY(tell(reader, &reader->all_peers, 0,
                  "accelerators that list all their NVLinks once for each peer",
                  "more than they have, so they are taken to lead to one NVSwitch"));
    return tell(reader, &reader->unknown, 0, "elements unknown here",
                "ignored with what they hold");
}

/* ---- the whole */

static peal_status check_version(struct nccl_reader *reader, const struct topo_elem *system)
{
    int64_t version;

    PEAL_TRY(peal_topo_nccl_int(reader, system, "version", 0, &version));
    if (!given(reader, system, "version"))
        return peal_topo_warn(&reader->fabric->notes, system->line,
                              "<system> without version: read as version 1");
    if (version != 1 && version != 2)
        return peal_topo_nccl_refuse(reader, system,
                                     "<system version=\"%.20s\">: expected 1 (NCCL) or 2 (RCCL)",
                                     given(reader, system, "version"));
    return PEAL_OK;
}

static peal_status need_accelerators(struct nccl_reader *reader, const struct topo_elem *system)
{
    if (reader->type->accels)
        return PEAL_OK;
    return peal_topo_nccl_refuse(
        reader, system,
        "no accelerators: no <pci> has class 0x03.... or a <gpu>%s. Add class=\"0x030200\" to each "
        "accelerator's <pci>, or better a <gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"/> inside "
        "it",
        reader->no_class.count ? " (the file's devices state no class)" : "");
}

peal_status peal_topo_read_system(peal_fabric *fabric, const struct topo_doc *doc,
                                  const struct topo_elem *elem, struct topo_type *type,
                                  peal_diag *diag)
{
    struct nccl_reader reader = {.fabric = fabric,
                                 .type = type,
                                 .doc = doc,
                                 .diag = diag,
                                 .cpu = {"", "", -1, -1},
                                 .nvswitch = TOPO_NONE};
    const struct topo_elem *child;

    PEAL_TRY(check_version(&reader, elem));
    for (child = peal_topo_first(doc, elem); child; child = peal_topo_next(doc, child)) {
        if (peal_streq(child->name, "cpu"))
            PEAL_TRY(read_cpu(&reader, child));
        else
            peal_topo_nccl_count(&reader.unknown, child->line, child->name);
    }
    PEAL_TRY(need_accelerators(&reader, elem));
    PEAL_TRY(join_cpus(&reader));
    PEAL_TRY(join_switches(&reader));
    PEAL_TRY(peal_topo_nccl_identify(&reader));
    PEAL_TRY(peal_topo_nccl_links(&reader));
    PEAL_TRY(peal_topo_nccl_finish_nics(&reader));
    PEAL_TRY(peal_topo_nccl_check(&reader));
    PEAL_TRY(tell_devices(&reader));
    PEAL_TRY(tell_links(&reader));
    type->ranks = type->accels;
    return PEAL_OK;
}
