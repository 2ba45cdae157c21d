/* SPDX-License-Identifier: Apache-2.0 */
/* What was found, as NCCL topology XML, or, without accelerators, as peal cluster XML. */
#include "detect.h"

#include <string.h>

static void put(FILE *file, const char *name, const char *value)
{
    if (!value[0])
        return;
    fprintf(file, " %s=\"", name);
    for (; *value; value++) {
        if (*value == '&' || *value == '<' || *value == '"')
            fprintf(file, "&#%d;", *value);
        else if ((unsigned char)*value >= 0x20)
            fputc(*value, file);
    }
    fputc('"', file);
}

static void indent(FILE *file, int depth)
{
    fprintf(file, "%*s", 2 * depth, "");
}

/* ---- devices */

static void put_links(FILE *file, const struct pci_device *device, int depth)
{
    if (device->links == 0 && device->sm) { /* the library says that there are none */
        indent(file, depth);
        fputs("<nvlink count=\"0\"/>\n", file);
    }
    for (uint32_t i = 0; i < device->links; i++) {
        indent(file, depth);
        fprintf(file, "<%s target=\"%s\" count=\"%lu\"", device->link[i].xgmi ? "xgmi" : "nvlink",
                device->link[i].target, (unsigned long)device->link[i].count);
        put(file, "tclass", device->link[i].target_class);
        fputs("/>\n", file);
    }
}

static void put_accelerator(FILE *file, const struct pci_device *device, int depth)
{
    if (!device->known)
        return;
    indent(file, depth);
    fprintf(file, "<gpu dev=\"%lu\"", (unsigned long)device->index);
    if (device->sm)
        fprintf(file, " sm=\"%lu\"", (unsigned long)device->sm);
    put(file, "gcn", device->gcn);
    fputs(">\n", file);
    put_links(file, device, depth + 1);
    indent(file, depth);
    fputs("</gpu>\n", file);
}

static void put_ports(FILE *file, const struct machine *m, uint32_t device, int depth)
{
    int open = 0;
    for (uint32_t i = 0; i < m->nics; i++) {
        const struct nic_port *port = &m->nic[i];
        if (port->device != device)
            continue;
        if (!open++) {
            indent(file, depth);
            fputs("<nic>\n", file);
        }
        indent(file, depth + 1);
        fputs("<net", file);
        put(file, "name", port->name);
        fprintf(file, " dev=\"%lu\"", (unsigned long)i);
        if (port->gbits > 0)
            fprintf(file, " speed=\"%.0f\"", port->gbits * 1000);
        fprintf(file, " port=\"%lu\"", (unsigned long)port->port);
        put(file, "guid", port->guid);
        fputs("/>\n", file);
    }
    if (open) {
        indent(file, depth);
        fputs("</nic>\n", file);
    }
}

static void put_device(FILE *file, const struct machine *m, uint32_t index, int depth)
{
    const struct pci_device *device = &m->device[index];
    if (!device->shown)
        return;
    indent(file, depth);
    fprintf(file, "<pci busid=\"%s\"", device->busid);
    put(file, "class", device->class_code);
    put(file, "vendor", device->vendor);
    put(file, "device", device->device);
    put(file, "subsystem_vendor", device->sub_vendor);
    put(file, "subsystem_device", device->sub_device);
    put(file, "link_speed", device->speed);
    put(file, "link_width", device->width);
    fputs(">\n", file);
    if (device->accelerator)
        put_accelerator(file, device, depth + 1);
    put_ports(file, m, index, depth + 1);
    for (uint32_t i = 0; i < m->devices; i++)
        if (m->device[i].parent == index)
            put_device(file, m, i, depth + 1);
    indent(file, depth);
    fputs("</pci>\n", file);
}

/* ---- CPUs */

static int numa_of(const struct machine *m, uint32_t index)
{
    int numa = m->device[index].numa;
    for (uint32_t i = 0; i < m->nodes; i++)
        if (m->numa[i] == numa)
            return numa;
    return m->numa[0]; /* where it is not known, the first */
}

static void put_cpu(FILE *file, const struct machine *m, uint32_t node)
{
    fprintf(file, "  <cpu numaid=\"%d\"", m->numa[node]);
    put(file, "affinity", m->affinity[node]);
    put(file, "arch", m->arch);
    put(file, "vendor", m->cpu_vendor);
    if (m->cpu_family >= 0)
        fprintf(file, " familyid=\"%d\"", m->cpu_family);
    if (m->cpu_model >= 0)
        fprintf(file, " modelid=\"%d\"", m->cpu_model);
    fputs(">\n", file);
    for (uint32_t i = 0; i < m->devices; i++)
        if (m->device[i].parent == DETECT_NONE && numa_of(m, i) == m->numa[node])
            put_device(file, m, i, 2);
    if (node == 0)
        put_ports(file, m, DETECT_NONE, 2);
    fputs("  </cpu>\n", file);
}

/* ---- */

int detect_accelerates(const struct machine *m)
{
    for (uint32_t i = 0; i < m->devices; i++)
        if (m->device[i].accelerator)
            return 1;
    return 0;
}

static void put_host(const struct machine *m, uint32_t ranks, FILE *file)
{
    int any = 0;
    fprintf(file, "<peal version=\"1\">\n  <host ranks=\"%lu\"",
            (unsigned long)(ranks      ? ranks
                            : m->cores ? m->cores
                                       : 1));
    for (uint32_t i = 0; i < m->nics; i++) {
        const struct nic_port *port = &m->nic[i];
        if (!(port->gbits > 0)) /* a rate is needed to plan with it */
            continue;
        fputs(any++ ? "" : ">\n", file);
        fputs("    <nic", file);
        put(file, "name", port->name);
        fprintf(file, " speed-gbits=\"%.10g\" rdma=\"%s\"/>\n", port->gbits,
                port->guid[0] ? "yes" : "no");
    }
    fputs(any ? "  </host>\n</peal>\n" : "/>\n</peal>\n", file);
}

void detect_write(const struct machine *m, uint32_t ranks, FILE *file)
{
    fputs("<?xml version=\"1.0\"?>\n", file);
    if (!detect_accelerates(m)) {
        put_host(m, ranks, file);
        return;
    }
    fputs("<system version=\"1\">\n", file);
    for (uint32_t node = 0; node < m->nodes; node++)
        put_cpu(file, m, node);
    fputs("</system>\n", file);
}
