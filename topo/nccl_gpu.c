/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an accelerator is. A full dump says so in <gpu>; a partial file has only a PCI
 * class, sometimes a device id, and then the kind is inferred from the id, else from
 * how many there are, how fast their PCIe is, and which CPU holds them. Each inference
 * is a note.
 */
#include "defaults.h"
#include "nccl.h"
#include "topo_text.h"

#include <string.h>

/* ---- is it one? */

/* Display adapters of management controllers are class 0x03 too. */
static int display_only(const char *vendor)
{
    static const char *const names[] = {"0x1a03", "0x102b", "0x1234", "0x1b36",
                                        "0x15ad", "0x1013", "0x80ee", NULL};

    return vendor && peal_topo_word_begins(vendor, names);
}

enum nccl_pci peal_topo_nccl_classify(const struct topo_doc *doc, const struct topo_elem *pci)
{
    const char *class_text = peal_topo_attr(doc, pci, "class");
    const char *vendor = peal_topo_attr(doc, pci, "vendor");
    int inside = peal_topo_child(doc, pci, "pci") != NULL;

    if (peal_topo_child(doc, pci, "gpu") || peal_topo_child(doc, pci, "apu"))
        return NCCL_PCI_ACCELERATOR;
    if (inside)
        return NCCL_PCI_SWITCH;
    if (peal_topo_child(doc, pci, "nic"))
        return NCCL_PCI_NIC;
    if (!class_text)
        return NCCL_PCI_OTHER;
    if (peal_topo_has_prefix(class_text, "0x03") || peal_topo_has_prefix(class_text, "0x12"))
        return display_only(vendor) ? NCCL_PCI_OTHER : NCCL_PCI_ACCELERATOR;
    if (peal_topo_has_prefix(class_text, "0x02"))
        return NCCL_PCI_NIC;
    return NCCL_PCI_OTHER;
}

/* ---- what the file says */

static peal_status read_gpu(struct nccl_reader *reader, const struct topo_elem *gpu,
                            struct topo_accel *accel)
{
    const char *gcn = peal_topo_attr(reader->doc, gpu, "gcn");
    int64_t dev;
    int64_t rank;
    int64_t sm;
    int64_t gdr;

    PEAL_TRY(peal_topo_nccl_int(reader, gpu, "dev", accel->dev, &dev));
    PEAL_TRY(peal_topo_nccl_int(reader, gpu, "rank", -1, &rank));
    PEAL_TRY(peal_topo_nccl_int(reader, gpu, "sm", 0, &sm));
    PEAL_TRY(peal_topo_nccl_int(reader, gpu, "gdr", -1, &gdr));
    if (dev < -1 || dev > 65535 || rank < -1 || rank > INT32_MAX || sm < 0 || sm > 100000)
        return peal_topo_nccl_refuse(reader, gpu, "<%s>: dev, rank or sm is out of range",
                                     gpu->name);
    accel->dev = (int32_t)dev;
    accel->rank = (int32_t)rank;
    accel->gdr = gdr < 0 ? -1 : gdr != 0;
    if (gcn) {
        if (peal_topo_has_prefix(gcn, "gfx"))
            gcn += 3;
        peal_copy_text(accel->gcn, sizeof accel->gcn, gcn);
        return PEAL_OK;
    }
    /* Without gcn it is NVIDIA's, unless the vendor says AMD: RCCL's sm counts units. */
    if (accel->vendor != 0x1002 && peal_streq(gpu->name, "gpu"))
        accel->arch = (uint32_t)sm;
    return PEAL_OK;
}

static const struct topo_elem *gpu_of(const struct topo_doc *doc, const struct topo_elem *pci)
{
    const struct topo_elem *gpu = peal_topo_child(doc, pci, "gpu");

    return gpu ? gpu : peal_topo_child(doc, pci, "apu");
}

static void note_what_is_missing(struct nccl_reader *reader, const struct topo_elem *pci,
                                 const struct topo_elem *gpu, const struct topo_accel *accel)
{
    if (!gpu)
        peal_topo_nccl_count(&reader->no_element, pci->line,
                             peal_topo_attr(reader->doc, pci, "busid"));
    else if (peal_streq(gpu->name, "apu"))
        peal_topo_nccl_count(&reader->apu, gpu->line, peal_topo_attr(reader->doc, pci, "busid"));
    else if (accel->rank < 0)
        peal_topo_nccl_count(&reader->no_rank, gpu->line,
                             peal_topo_attr(reader->doc, pci, "busid"));
}

peal_status peal_topo_nccl_accelerator(struct nccl_reader *reader, const struct topo_elem *pci,
                                       int32_t numa, uint32_t *node_out)
{
    const struct topo_elem *gpu = gpu_of(reader->doc, pci);
    const char *class_text = peal_topo_attr(reader->doc, pci, "class");
    struct topo_node node = {
        .kind = TOPO_ACCELERATOR, .name = "", .busid = "", .numa = numa, .line = pci->line};
    struct topo_accel accel = {
        .dev = -1, .rank = -1, .gdr = -1, .peer = 1, .numa = numa, .nic = -1};

    accel.line = pci->line;
    accel.elem = (uint32_t)((gpu ? gpu : pci) - reader->doc->elem);
    accel.has_class3d = class_text && peal_topo_has_prefix(class_text, "0x0302");
    PEAL_TRY(peal_topo_nccl_hex(reader, pci, "vendor", 0, &accel.vendor));
    PEAL_TRY(peal_topo_nccl_hex(reader, pci, "device", 0, &accel.device_id));
    *node_out = TOPO_NONE;
    if (gpu) {
        const char *dev = peal_topo_attr(reader->doc, gpu, "dev");

        PEAL_TRY(read_gpu(reader, gpu, &accel));
        accel.links_stated = peal_topo_child(reader->doc, gpu, "nvlink") ||
                             peal_topo_child(reader->doc, gpu, "xgmi");
        if (dev && accel.dev == -1)
            return peal_topo_note(&reader->fabric->notes, gpu->line,
                                  "<gpu dev=\"-1\"> is ignored, as the vendor libraries do");
    }
    note_what_is_missing(reader, pci, gpu, &accel);
    PEAL_TRY(peal_topo_add_node(reader->fabric->ctx, reader->type, &node, &accel.node));
    *node_out = accel.node;
    if (reader->type->accels >= TOPO_ACCELS_MAX)
        return peal_fail_at(reader->diag, PEAL_ERR_LIMIT, reader->doc->path, pci->line, pci->column,
                            "more than %u accelerators on one host", (unsigned)TOPO_ACCELS_MAX);
    return peal_topo_add_accel(reader->fabric->ctx, reader->type, &accel);
}

/* ---- what can be inferred */

/* Partial files of 4, 8 or 16 compute boards without ids are SXM machines: that is what
 * clouds ship such files for. The generation follows PCIe, but for CPUs that cannot do
 * what the file claims (a Skylake host that says 16 GT/s holds V100s). */
static uint32_t guess_arch(const struct nccl_reader *reader, const struct topo_accel *accel)
{
    const struct topo_doc *doc = reader->doc;
    const struct topo_elem *elem = &doc->elem[accel->elem];
    const char *speed;
    double gbs;

    if (peal_streq(elem->name, "gpu") || peal_streq(elem->name, "apu"))
        elem = &doc->elem[elem->parent];
    speed = peal_topo_attr(doc, elem, "link_speed");
    gbs = speed ? peal_topo_pcie_gbs(speed, 16) : 0;
    if (gbs >= 96)
        return 100;
    if (gbs >= 48)
        return 90;
    if (peal_streq(reader->cpu.vendor, "GenuineIntel") && reader->cpu.family == 6 &&
        reader->cpu.model <= 0x55)
        return 70;
    if (gbs >= 24)
        return 80;
    return gbs > 0 ? 70 : 0;
}

static peal_status from_device_id(struct nccl_reader *reader, struct topo_accel *accel)
{
    const struct topo_device *device = peal_topo_device(accel->vendor, accel->device_id);

    if (!device) {
        /* MI-series device ids are few; other AMD boards are simply accelerators. */
        accel->form = TOPO_FORM_UNKNOWN;
        return PEAL_OK;
    }
    accel->form = device->form;
    accel->links = device->links;
    accel->peer = device->form != TOPO_FORM_GEFORCE;
    if (!accel->peer)
        peal_topo_nccl_count(&reader->no_peer, accel->line, device->name);
    if (!accel->arch && !accel->gcn[0]) {
        accel->arch = device->arch;
        peal_copy_text(accel->gcn, sizeof accel->gcn, device->gcn);
        if (!peal_streq(reader->doc->elem[accel->elem].name, "gpu"))
            return PEAL_OK; /* told by the note on accelerators without <gpu> */
        return peal_topo_note(&reader->fabric->notes, accel->line,
                              "<gpu> without sm: %s by its PCI device id", device->name);
    }
    return PEAL_OK;
}

static peal_status guess_all(struct nccl_reader *reader)
{
    struct topo_type *type = reader->type;
    uint32_t guessed = 0;
    uint32_t first = 0;

    for (uint32_t a = 0; a < type->accels; a++) {
        struct topo_accel *accel = &type->accel[a];
        uint32_t arch;

        PEAL_TRY(from_device_id(reader, accel));
        if (accel->arch || accel->gcn[0] || accel->vendor == 0x1002 ||
            peal_streq(reader->doc->elem[accel->elem].name, "apu"))
            continue;
        arch = guess_arch(reader, accel);
        if (!arch)
            continue;
        accel->arch = arch;
        if (!guessed++)
            first = a;
    }
    if (guessed)
        return peal_topo_note(
            &reader->fabric->notes, type->accel[first].line,
            "no device id on %u accelerators: taken as sm_%u, from the PCIe "
            "generation and the CPU; device= in <pci> or sm= in <gpu> says better",
            (unsigned)guessed, (unsigned)type->accel[first].arch);
    return PEAL_OK;
}

static peal_status name_models(struct nccl_reader *reader)
{
    for (uint32_t a = 0; a < reader->type->accels; a++) {
        struct topo_accel *accel = &reader->type->accel[a];
        char name[32];
        struct topo_text text;

        peal_topo_text_init(&text, name, sizeof name);
        if (accel->gcn[0]) {
            peal_topo_text_put(&text, "gfx");
            peal_topo_text_put(&text, accel->gcn);
        } else if (accel->arch) {
            peal_topo_text_put(&text, "sm_");
            peal_topo_text_u64(&text, accel->arch);
        } else {
            peal_topo_text_put(&text, "unknown");
        }
        accel->model = peal_topo_arena_text(&reader->fabric->arena, name, strlen(name));
        if (!accel->model)
            return PEAL_ERR_MEMORY;
    }
    return PEAL_OK;
}

/* ---- rank order */

enum order { ORDER_RANK, ORDER_DEV, ORDER_DOCUMENT };

static int64_t key_of(const struct topo_accel *accel, enum order order)
{
    return order == ORDER_RANK ? accel->rank : order == ORDER_DEV ? accel->dev : 0;
}

/* Whether the keys are stated by all and differ; ranks must be 0..n-1 too. */
static int usable(const struct topo_type *type, enum order order)
{
    for (uint32_t a = 0; a < type->accels; a++) {
        int64_t key = key_of(&type->accel[a], order);

        if (key < 0 || (order == ORDER_RANK && key >= type->accels))
            return 0;
        for (uint32_t b = 0; b < a; b++) {
            if (key_of(&type->accel[b], order) == key)
                return 0;
        }
    }
    return 1;
}

static peal_status put_in_order(struct nccl_reader *reader)
{
    struct topo_type *type = reader->type;
    enum order order = usable(type, ORDER_RANK)  ? ORDER_RANK
                       : usable(type, ORDER_DEV) ? ORDER_DEV
                                                 : ORDER_DOCUMENT;
    int stated = 0;

    for (uint32_t i = 1; i < type->accels; i++) {
        struct topo_accel moving = type->accel[i];
        uint32_t at = i;

        for (; at > 0 && key_of(&type->accel[at - 1], order) > key_of(&moving, order); at--)
            type->accel[at] = type->accel[at - 1];
        type->accel[at] = moving;
    }
    for (uint32_t a = 0; a < type->accels; a++)
        stated |= type->accel[a].rank >= 0;
    if (stated && order != ORDER_RANK)
        return peal_topo_warn(&reader->fabric->notes, type->accel[0].line,
                              "the rank attributes are not 0 to %u, each once: ranks follow %s",
                              (unsigned)(type->accels - 1),
                              order == ORDER_DEV ? "the device numbers" : "the document's order");
    return PEAL_OK;
}

static peal_status name_nodes(struct nccl_reader *reader)
{
    struct topo_type *type = reader->type;

    for (uint32_t a = 0; a < type->accels; a++) {
        char name[24];
        struct topo_text text;
        struct topo_node *node = &type->node[type->accel[a].node];

        peal_topo_text_init(&text, name, sizeof name);
        peal_topo_text_put(&text, "gpu");
        peal_topo_text_u64(&text, a);
        node->name = peal_topo_arena_text(&reader->fabric->arena, name, strlen(name));
        if (!node->name)
            return PEAL_ERR_MEMORY;
    }
    return PEAL_OK;
}

peal_status peal_topo_nccl_identify(struct nccl_reader *reader)
{
    PEAL_TRY(guess_all(reader));
    PEAL_TRY(put_in_order(reader));
    PEAL_TRY(name_models(reader));
    return name_nodes(reader);
}
