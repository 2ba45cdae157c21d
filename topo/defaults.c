/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of defaults.def and the rules for reading them. */
#include "defaults.h"

#include "topo_text.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

double peal_topo_constant(enum topo_constant which)
{
    static const double value[] = {
#define TOPO_CONST(name, number) number,
#include "defaults.def"
#undef TOPO_CONST
    };

    return value[which];
}

struct class_row {
    double alpha;
    double gap;
};

static const struct class_row class_table[PEAL_LINK_CLASS_COUNT] = {
#define TOPO_CLASS(name, alpha, gap) [PEAL_LINK_##name] = {alpha, gap},
#include "defaults.def"
#undef TOPO_CLASS
};

double peal_topo_class_alpha(peal_link_class link_class)
{
    return class_table[link_class].alpha;
}

double peal_topo_class_gap(peal_link_class link_class)
{
    return class_table[link_class].gap;
}

struct topo_engine_row peal_topo_engine_row(peal_engine engine)
{
    static const struct topo_engine_row row[PEAL_ENGINE_COUNT] = {
#define TOPO_ENGINE(name, absolute, added, share, gap)                                             \
    [PEAL_ENGINE_##name] = {absolute, added, share, gap},
#include "defaults.def"
#undef TOPO_ENGINE
    };

    return row[engine];
}

struct nvlink_row {
    uint32_t arch;
    double gbs;
    uint32_t links;
};

static const struct nvlink_row nvlink_table[] = {
#define TOPO_NVLINK(arch, gbs, links) {arch, gbs, links},
#include "defaults.def"
#undef TOPO_NVLINK
};

static const struct nvlink_row *nvlink_row(uint32_t arch)
{
    const struct nvlink_row *found = NULL;

    for (size_t i = 0; i < COUNT(nvlink_table); i++) {
        if (nvlink_table[i].arch <= arch)
            found = &nvlink_table[i];
    }
    return found;
}

double peal_topo_nvlink_gbs(uint32_t arch)
{
    const struct nvlink_row *row = nvlink_row(arch);

    return row ? row->gbs : peal_topo_constant(TOPO_NVLINK_UNKNOWN);
}

uint32_t peal_topo_nvlink_count(uint32_t arch)
{
    const struct nvlink_row *row = nvlink_row(arch);

    return row ? row->links : 0;
}

struct prefix_row {
    const char *prefix;
    double gbs;
};

static double by_prefix(const struct prefix_row *row, const char *text)
{
    while (!peal_topo_has_prefix(text, row->prefix))
        row++; /* the last row's prefix is empty */
    return row->gbs;
}

double peal_topo_xgmi_gbs(const char *gcn)
{
    static const struct prefix_row row[] = {
#define TOPO_XGMI(prefix, gbs) {prefix, gbs},
#include "defaults.def"
#undef TOPO_XGMI
    };

    return by_prefix(row, gcn);
}

struct smp_row {
    const char *arch;
    const char *vendor;
    int64_t family_from;
    int64_t family_to;
    int64_t model_from;
    int64_t model_to;
    double gbs;
};

double peal_topo_smp_gbs(const char *arch, const char *vendor, int64_t family, int64_t model)
{
    static const struct smp_row row[] = {
#define TOPO_SMP(arch, vendor, f0, f1, m0, m1, gbs) {arch, vendor, f0, f1, m0, m1, gbs},
#include "defaults.def"
#undef TOPO_SMP
    };
    size_t i = 0;

    /* Not stated: below every row that asks for one. */
    family = family < 0 ? 0 : family;
    model = model < 0 ? 0 : model;
    for (; i + 1 < COUNT(row); i++) {
        if (peal_topo_has_prefix(arch, row[i].arch) &&
            peal_topo_has_prefix(vendor, row[i].vendor) && family >= row[i].family_from &&
            family <= row[i].family_to && model >= row[i].model_from && model <= row[i].model_to)
            break;
    }
    return row[i].gbs;
}

double peal_topo_pcie_gbs(const char *speed, uint32_t width)
{
    static const struct prefix_row row[] = {
#define TOPO_PCIE(prefix, value) {prefix, value},
#include "defaults.def"
#undef TOPO_PCIE
    };
    const char *p = speed + strspn(speed, " ");
    char number[8] = "";
    size_t length = strspn(p, "0123456789.");

    if (length >= sizeof number)
        return 0;
    memcpy(number, p, length);
    if (length > 2 && strcmp(number + length - 2, ".0") == 0)
        number[length - 2] = '\0';
    for (size_t i = 0; i < COUNT(row); i++) {
        if (strcmp(number, row[i].prefix) == 0)
            return width * row[i].gbs / 80;
    }
    return 0;
}

double peal_topo_reduce_default(uint32_t arch, const char *gcn)
{
    struct arch_row {
        uint32_t arch;
        double gbs;
    };
    static const struct arch_row by_arch[] = {
#define TOPO_REDUCE(arch, gbs) {arch, gbs},
#include "defaults.def"
#undef TOPO_REDUCE
    };
    static const struct prefix_row by_gcn[] = {
#define TOPO_REDUCE_GCN(prefix, gbs) {prefix, gbs},
#include "defaults.def"
#undef TOPO_REDUCE_GCN
    };
    double gbs = peal_topo_constant(TOPO_REDUCE_ACCELERATOR);

    if (gcn[0])
        return by_prefix(by_gcn, gcn);
    for (size_t i = 0; i < COUNT(by_arch); i++) {
        if (by_arch[i].arch <= arch)
            gbs = by_arch[i].gbs;
    }
    return gbs;
}

const struct topo_device *peal_topo_device(uint64_t vendor, uint64_t device)
{
    static const struct topo_device row[] = {
#define TOPO_DEVICE(vendor, device, name, arch, gcn, form, links)                                  \
    {vendor, device, name, arch, gcn, TOPO_FORM_##form, links},
#include "defaults.def"
#undef TOPO_DEVICE
    };

    for (size_t i = 0; i < COUNT(row); i++) {
        if (row[i].vendor == vendor && row[i].device == device)
            return &row[i];
    }
    return NULL;
}

const struct topo_nic_device *peal_topo_nic_device(uint64_t vendor, uint64_t device)
{
    static const struct topo_nic_device row[] = {
#define TOPO_NICDEV(vendor, device, name, gbits, rdma) {vendor, device, name, gbits, rdma},
#include "defaults.def"
#undef TOPO_NICDEV
    };

    for (size_t i = 0; i < COUNT(row); i++) {
        if (row[i].vendor == vendor && row[i].device == device)
            return &row[i];
    }
    return NULL;
}

int peal_topo_rdma_name(const char *name)
{
    static const char *const prefix[] = {
#define TOPO_RDMA_NAME(text) text,
#include "defaults.def"
#undef TOPO_RDMA_NAME
        NULL};

    return peal_topo_word_begins(name, prefix);
}

int peal_topo_virtual_name(const char *name)
{
    static const char *const prefix[] = {
#define TOPO_VIRTUAL_NAME(text) text,
#include "defaults.def"
#undef TOPO_VIRTUAL_NAME
        NULL};

    return peal_topo_word_begins(name, prefix);
}
