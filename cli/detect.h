/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine is, as its kernel (and, where there is one, NVIDIA's library) tells. */
#ifndef PEAL_CLI_DETECT_H
#define PEAL_CLI_DETECT_H

#include "cli.h"

#define BUSID 16u /* "0000:07:00.0" */
#define DEVICES_MAX 1024u
#define PORTS_MAX 1024u /* of NICs */
#define NODES_MAX 64u   /* NUMA */
#define LINKS_MAX 64u   /* of an accelerator to others */
#define DETECT_NONE UINT32_MAX

struct pci_device {
    char busid[BUSID];
    char class_code[12]; /* "0x030200", as the other texts as sysfs has them */
    char vendor[8], device[8], sub_vendor[8], sub_device[8];
    char speed[24], width[8]; /* of its own link, not above its port's; "" unknown */
    int numa;                 /* -1 unknown */
    uint32_t parent;          /* the switch it is behind, DETECT_NONE: right below a CPU */
    int accelerator;
    int shown; /* it, or what is behind it, is an accelerator or a NIC */
    /* of accelerators, where a driver says so */
    int known;
    uint32_t index; /* its driver's number */
    uint32_t sm;    /* compute capability x 10; 0 */
    char gcn[12];   /* "gfx942"; "" */
    uint32_t links;
    struct {
        char target[BUSID];
        char target_class[12];
        uint32_t count;
        int xgmi;
    } link[LINKS_MAX];
};

struct nic_port {
    char name[32];
    uint32_t device; /* DETECT_NONE: no PCI device */
    double gbits;    /* 0 unknown */
    uint32_t port;
    char guid[24]; /* "" none */
};

struct machine {
    const char *root; /* where sys and proc are; "" is this machine */
    struct pci_device device[DEVICES_MAX];
    uint32_t devices;
    struct nic_port nic[PORTS_MAX];
    uint32_t nics;
    int numa[NODES_MAX];
    char affinity[NODES_MAX][640]; /* a bit for each CPU, in words of 32 */
    uint32_t nodes;
    uint32_t cores; /* that may be used */
    char arch[16], cpu_vendor[24];
    int cpu_family, cpu_model; /* -1 unknown */
};

/* ---- detect_read.c: one-line files below the root */
/* Without the newline; 0: there is none, and text is "". */
int detect_text(const struct machine *m, const char *path, char *text, size_t size);
int detect_number(const struct machine *m, const char *path, long *number);
/* Calls each for the names in a directory, in the order of their text. */
typedef void (*detect_name_fn)(struct machine *m, const char *directory, const char *name);
void detect_each(struct machine *m, const char *directory, detect_name_fn each);
/* The last part of what a link leads to; 0: there is none. */
int detect_target(const struct machine *m, const char *path, char *text, size_t size);
uint32_t detect_device(const struct machine *m, const char *busid);

void detect_pci(struct machine *m);  /* detect_pci.c: accelerators, NICs, the switches above */
void detect_nics(struct machine *m); /* detect_nic.c */
void detect_cpus(struct machine *m); /* detect_cpu.c */
void detect_kfd(struct machine *m);  /* detect_kfd.c: AMD's accelerators and what joins them */
void detect_nvml(struct machine *m); /* detect_nvml.c: NVIDIA's */
/* detect_cuda.c: what the driver tells of those that the library did not; a note without one. */
void detect_cuda(struct machine *m, peal_ctx *ctx);
/* detect_write.c: NCCL topology XML; of a machine without accelerators cluster XML with so many
 * ranks. */
void detect_write(const struct machine *m, uint32_t ranks, FILE *file);
int detect_accelerates(const struct machine *m);

#endif
