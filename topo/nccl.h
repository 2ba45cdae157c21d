/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL topology XML and RCCL's dialect of it. One pass walks the tree and makes the
 * nodes (nccl.c), with what devices say of themselves (nccl_gpu.c, nccl_nic.c,
 * nccl_pcie.c); then links between accelerators (nccl_link.c), then a look at what
 * seems wrong (nccl_check.c).
 */
#ifndef PEAL_TOPO_NCCL_H
#define PEAL_TOPO_NCCL_H

#include "fabric.h"
#include "xml.h"

struct nccl_cpu {
    const char *arch;
    const char *vendor;
    int64_t family;
    int64_t model;
};

/* Things of which a file has many, told in one note: how many, and the first line. */
struct nccl_tally {
    uint32_t count;
    uint32_t line;
    const char *what; /* the first one's name */
};

struct nccl_reader {
    peal_fabric *fabric;
    struct topo_type *type;
    const struct topo_doc *doc;
    peal_diag *diag;
    struct nccl_cpu cpu;          /* of the first <cpu> */
    const char *host_hash;        /* of the first <cpu> that has one */
    int fused;                    /* 1: another has a different one, and that is told */
    uint32_t switches;            /* PCIe switches so far */
    uint32_t nvswitch;            /* its node, TOPO_NONE none yet */
    struct nccl_tally no_element; /* accelerators given only by their PCI class */
    struct nccl_tally no_rank;
    struct nccl_tally no_class;
    struct nccl_tally no_speed;  /* link_speed empty or absent */
    struct nccl_tally odd_speed; /* link_speed not understood */
    struct nccl_tally no_net;
    struct nccl_tally net_speed;
    struct nccl_tally net_dev;
    struct nccl_tally unknown;
    struct nccl_tally apu;
    struct nccl_tally all_peers;
    struct nccl_tally no_peer;
    struct nccl_tally again;  /* virtual interfaces listed under several CPUs */
    struct nccl_tally hidden; /* links to a switch that is not visible */
};

void peal_topo_nccl_count(struct nccl_tally *tally, uint32_t line, const char *what);
/* ERR_INPUT at the element's place. */
peal_status peal_topo_nccl_refuse(const struct nccl_reader *reader, const struct topo_elem *elem,
                                  const char *format, ...) PEAL_PRINTF(3, 4);
/* An attribute as a number. Absent or empty: fallback. Not a number: ERR_INPUT. */
peal_status peal_topo_nccl_int(const struct nccl_reader *reader, const struct topo_elem *elem,
                               const char *name, int64_t fallback, int64_t *out);
peal_status peal_topo_nccl_hex(const struct nccl_reader *reader, const struct topo_elem *elem,
                               const char *name, uint64_t fallback, uint64_t *out);
peal_status peal_topo_nccl_real(const struct nccl_reader *reader, const struct topo_elem *elem,
                                const char *name, double fallback, double *out);

/* ---- nccl_gpu.c */
enum nccl_pci { NCCL_PCI_OTHER, NCCL_PCI_ACCELERATOR, NCCL_PCI_NIC, NCCL_PCI_SWITCH };
enum nccl_pci peal_topo_nccl_classify(const struct topo_doc *doc, const struct topo_elem *pci);
/* Adds the accelerator of a <pci>; *node_out TOPO_NONE when it is to be ignored. */
peal_status peal_topo_nccl_accelerator(struct nccl_reader *reader, const struct topo_elem *pci,
                                       int32_t numa, uint32_t *node_out);
/* Fills capability, model and form of every accelerator, then puts them in rank order and
 * names their nodes. */
peal_status peal_topo_nccl_identify(struct nccl_reader *reader);

/* ---- nccl_nic.c */
/* Adds the NICs below elem (a <pci> or a <nic>), joined to `parent` over links of `gbs`. */
peal_status peal_topo_nccl_nics(struct nccl_reader *reader, const struct topo_elem *elem,
                                uint32_t parent, int32_t numa);
/* What needs all NICs and accelerators: assumed speeds, shared ports, names, order. */
peal_status peal_topo_nccl_finish_nics(struct nccl_reader *reader);

/* ---- nccl_pcie.c */
/* GB/s per direction of a <pci>'s link to what is above it. */
peal_status peal_topo_nccl_pcie(struct nccl_reader *reader, const struct topo_elem *pci,
                                double *gbs_out);

/* ---- nccl_link.c: NVLink, xGMI, C2C between what is known by now. */
peal_status peal_topo_nccl_links(struct nccl_reader *reader);

/* ---- nccl_check.c: warnings that need the whole host, before and after routing. */
peal_status peal_topo_nccl_check(struct nccl_reader *reader);

#endif
