/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PCI devices. /sys/bus/pci/devices/BUSID is a link to where the device hangs,
 * .../pci0000:00/0000:00:01.0/0000:01:00.0: its ancestors are the parts of that path. The first
 * of them is a root port, then upstream and downstream ports of switches take turns; of these a
 * switch's upstream port stands for it, as in what NCCL writes.
 */
#include "detect.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIRECTORY "/sys/bus/pci/devices"
#define PATH_ROOM 512

static int text_of(const struct machine *m, const char *busid, const char *what, char *text,
                   size_t size)
{
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof path, DIRECTORY "/%.31s/%.31s", busid, what);
    return detect_text(m, path, text, size);
}

static int begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Display adapters (0x0300) of others than the makers of accelerators are for screens. */
static int accelerates(const char *class_code, const char *vendor)
{
    if (begins(class_code, "0x0302") || begins(class_code, "0x0380") || begins(class_code, "0x12"))
        return strcmp(vendor, "0x10de") == 0 || strcmp(vendor, "0x1002") == 0 ||
               begins(class_code, "0x12");
    return begins(class_code, "0x0300") &&
           (strcmp(vendor, "0x10de") == 0 || strcmp(vendor, "0x1002") == 0);
}

/* What it could do, not what it has saved power down to. */
static double link_of(const struct machine *m, const char *busid, char *speed, char *width)
{
    if (!text_of(m, busid, "max_link_speed", speed, 24))
        (void)text_of(m, busid, "current_link_speed", speed, 24);
    if (!text_of(m, busid, "max_link_width", width, 8))
        (void)text_of(m, busid, "current_link_width", width, 8);
    if (begins(speed, "Unknown"))
        speed[0] = '\0';
    if (strcmp(width, "255") == 0 || strcmp(width, "0") == 0) /* no link */
        width[0] = '\0';
    return strtod(speed, NULL) * strtod(width[0] ? width : "16", NULL);
}

/* Not more than the port it is plugged into. */
static void read_link(const struct machine *m, struct pci_device *device, const char *port)
{
    char speed[24], width[8];
    double own = link_of(m, device->busid, device->speed, device->width);
    if (!port || !(link_of(m, port, speed, width) > 0) || !speed[0])
        return;
    if (own > 0 && strtod(speed, NULL) * strtod(width[0] ? width : "16", NULL) >= own)
        return;
    memcpy(device->speed, speed, sizeof speed);
    memcpy(device->width, width, sizeof width);
}

/* The ancestors of a device that are PCI devices, the uppermost first. */
static uint32_t ancestors(const struct machine *m, const char *busid, char (*list)[BUSID],
                          uint32_t room)
{
    char path[PATH_ROOM], whole[4096], *save = NULL;
    uint32_t count = 0;
    (void)snprintf(path, sizeof path, "%.400s" DIRECTORY "/%.31s", m->root, busid);
    ssize_t got = readlink(path, whole, sizeof whole - 1);
    whole[got > 0 ? got : 0] = '\0';
    for (char *word = strtok_r(whole, "/", &save); word; word = strtok_r(NULL, "/", &save))
        if (strlen(word) < BUSID && strchr(word, '.') && strchr(word, ':') &&
            strcmp(word, busid) != 0 && count < room)
            (void)snprintf(list[count++], BUSID, "%s", word);
    return count;
}

static uint32_t add_device(struct machine *m, const char *busid, uint32_t parent, const char *port)
{
    uint32_t known = detect_device(m, busid);
    char numa[16];
    if (known != DETECT_NONE || m->devices == DEVICES_MAX)
        return known;
    struct pci_device *device = &m->device[m->devices];
    (void)snprintf(device->busid, sizeof device->busid, "%.15s", busid);
    (void)text_of(m, busid, "class", device->class_code, sizeof device->class_code);
    (void)text_of(m, busid, "vendor", device->vendor, sizeof device->vendor);
    (void)text_of(m, busid, "device", device->device, sizeof device->device);
    (void)text_of(m, busid, "subsystem_vendor", device->sub_vendor, sizeof device->sub_vendor);
    (void)text_of(m, busid, "subsystem_device", device->sub_device, sizeof device->sub_device);
    device->numa = text_of(m, busid, "numa_node", numa, sizeof numa) ? atoi(numa) : -1;
    device->accelerator = accelerates(device->class_code, device->vendor);
    device->parent = parent;
    device->index = DETECT_NONE;
    read_link(m, device, port);
    return m->devices++;
}

static void add_with_ancestors(struct machine *m, const char *busid)
{
    char above[32][BUSID];
    uint32_t count = ancestors(m, busid, above, COUNT_OF(above)), parent = DETECT_NONE;
    for (uint32_t i = 1; i < count; i += 2) /* upstream ports */
        parent = add_device(m, above[i], parent, above[i - 1]);
    (void)add_device(m, busid, parent, count ? above[count - 1] : NULL);
}

static void each_device(struct machine *m, const char *directory, const char *name)
{
    char class_code[12], vendor[8];
    (void)directory;
    if (!text_of(m, name, "class", class_code, sizeof class_code) || strlen(name) >= BUSID)
        return;
    (void)text_of(m, name, "vendor", vendor, sizeof vendor);
    if (begins(class_code, "0x02") || accelerates(class_code, vendor))
        add_with_ancestors(m, name);
}

void detect_pci(struct machine *m)
{
    detect_each(m, DIRECTORY, each_device);
}
