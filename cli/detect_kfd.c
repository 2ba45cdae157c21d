/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AMD's accelerators, by the kernel's compute driver: /sys/class/kfd/kfd/topology/nodes/N has
 * properties (a name and a number a line) with the PCI function and the architecture, and in
 * io_links a directory for each way to another node.
 */
#include "detect.h"

#include <stdlib.h>
#include <string.h>

#define NODES "/sys/class/kfd/kfd/topology/nodes"
#define TYPE_XGMI 11
#define KFD_NODES 256u

struct kfd {
    uint32_t device[KFD_NODES]; /* of each node; DETECT_NONE: a CPU, or not there */
    uint32_t accelerators;
};

/* The number behind a name, 0 when there is none. */
static unsigned long property(const struct machine *m, const char *path, const char *name)
{
    char whole[4096], key[64];
    unsigned long value, found = 0;
    (void)snprintf(whole, sizeof whole, "%.2000s%.1000s/properties", m->root, path);
    FILE *file = fopen(whole, "r");
    while (file && fscanf(file, "%63s %lu", key, &value) == 2)
        if (strcmp(key, name) == 0)
            found = value;
    if (file)
        (void)fclose(file);
    return found;
}

/* 90402 is gfx942, 90010 gfx90a: the last two are hexadecimal digits. */
static void read_node(struct machine *m, struct kfd *kfd, uint32_t node)
{
    char path[256], busid[BUSID];
    (void)snprintf(path, sizeof path, NODES "/%lu", (unsigned long)node);
    unsigned long version = property(m, path, "gfx_target_version");
    unsigned long place = property(m, path, "location_id"), domain = property(m, path, "domain");
    kfd->device[node] = DETECT_NONE;
    if (!version)
        return;
    (void)snprintf(busid, sizeof busid, "%04lx:%02lx:%02lx.%lx", domain & 0xffff, place >> 8 & 0xff,
                   place >> 3 & 0x1f, place & 7);
    uint32_t device = detect_device(m, busid);
    if (device == DETECT_NONE)
        return;
    kfd->device[node] = device;
    struct pci_device *to = &m->device[device];
    to->known = 1;
    to->index = kfd->accelerators++;
    (void)snprintf(to->gcn, sizeof to->gcn, "gfx%lu%lx%lx", version / 10000 % 100,
                   version / 100 % 100 & 0xf, version % 100 & 0xf);
}

static void read_links(struct machine *m, const struct kfd *kfd, uint32_t node)
{
    struct pci_device *from = &m->device[kfd->device[node]];
    for (uint32_t i = 0; i < KFD_NODES && from->links < LINKS_MAX; i++) {
        char path[256];
        (void)snprintf(path, sizeof path, NODES "/%lu/io_links/%lu", (unsigned long)node,
                       (unsigned long)i);
        unsigned long type = property(m, path, "type"), to = property(m, path, "node_to");
        if (type == 0)
            return;
        if (type != TYPE_XGMI || to >= KFD_NODES || kfd->device[to] == DETECT_NONE)
            continue;
        const struct pci_device *target = &m->device[kfd->device[to]];
        memcpy(from->link[from->links].target, target->busid, BUSID);
        memcpy(from->link[from->links].target_class, target->class_code, sizeof target->class_code);
        from->link[from->links].xgmi = 1;
        from->link[from->links++].count = 1;
    }
}

void detect_kfd(struct machine *m)
{
    struct kfd kfd = {.accelerators = 0};
    char path[256], text[32];
    uint32_t nodes = 0;
    for (; nodes < KFD_NODES; nodes++) {
        (void)snprintf(path, sizeof path, NODES "/%lu/gpu_id", (unsigned long)nodes);
        if (!detect_text(m, path, text, sizeof text))
            break;
        read_node(m, &kfd, nodes);
    }
    for (uint32_t i = nodes; i < KFD_NODES; i++)
        kfd.device[i] = DETECT_NONE;
    for (uint32_t i = 0; i < nodes; i++)
        if (kfd.device[i] != DETECT_NONE)
            read_links(m, &kfd, i);
}
