/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups in defaults.def. All pure. */
#ifndef PEAL_TOPO_DEFAULTS_H
#define PEAL_TOPO_DEFAULTS_H

#include <peal/peal.h>

enum topo_form { TOPO_FORM_UNKNOWN, TOPO_FORM_SXM, TOPO_FORM_CARD, TOPO_FORM_GEFORCE };

struct topo_device {
    uint32_t vendor;
    uint32_t device;
    const char *name;
    uint32_t arch;
    const char *gcn;
    enum topo_form form;
    uint32_t links;
};

struct topo_nic_device {
    uint32_t vendor;
    uint32_t device;
    const char *name;
    double gbits;
    int rdma;
};

enum topo_constant {
#define TOPO_CONST(name, value) TOPO_##name,
#include "defaults.def"
#undef TOPO_CONST
    TOPO_CONSTANTS
};

double peal_topo_constant(enum topo_constant which);
double peal_topo_class_alpha(peal_link_class link_class);
double peal_topo_class_gap(peal_link_class link_class);
struct topo_engine_row {
    double absolute; /* -1: the class's own start-up counts */
    double added;
    double share;
    double gap;
};
struct topo_engine_row peal_topo_engine_row(peal_engine engine);

double peal_topo_nvlink_gbs(uint32_t arch);     /* per link */
uint32_t peal_topo_nvlink_count(uint32_t arch); /* of a whole GPU; 0 unknown */
double peal_topo_xgmi_gbs(const char *gcn);     /* per link */
double peal_topo_smp_gbs(const char *arch, const char *vendor, int64_t family, int64_t model);
/* GB/s of a link_speed attribute; 0 when the text is not known. */
double peal_topo_pcie_gbs(const char *speed, uint32_t width);
double peal_topo_reduce_default(uint32_t arch, const char *gcn);

/* NULL when the table does not have it. */
const struct topo_device *peal_topo_device(uint64_t vendor, uint64_t device);
const struct topo_nic_device *peal_topo_nic_device(uint64_t vendor, uint64_t device);
int peal_topo_rdma_name(const char *name);
int peal_topo_virtual_name(const char *name);

#endif
