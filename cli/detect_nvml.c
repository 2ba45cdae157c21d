/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's management library, opened when it is there: which accelerator is which, what it can
 * compute, and its NVLinks. The declarations are those of the library's documentation.
 */
#include "detect.h"

#include <dlfcn.h>
#include <string.h>

#define NVLINKS 18u /* of an accelerator, at most */

struct pci_info { /* nvmlPciInfo_t */
    char legacy[16];
    unsigned domain, bus, device, pci_device, pci_subsystem;
    char busid[32];
};

typedef void *handle; /* nvmlDevice_t */
struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, handle *device);
    int (*pci)(handle device, struct pci_info *info);
    int (*capability)(handle device, int *major, int *minor);
    int (*link_state)(handle device, unsigned link, unsigned *active);
    int (*link_remote)(handle device, unsigned link, struct pci_info *info);
};

/* POSIX lets a pointer to a function come out of a pointer to an object; C does not say so. */
static int find(const struct nvml *nvml, const char *name, void *to)
{
    void *symbol = dlsym(nvml->library, name);
    memcpy(to, &symbol, sizeof symbol);
    return symbol != NULL;
}

static int open_library(struct nvml *nvml)
{
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library)
        return 0;
    int found = find(nvml, "nvmlInit_v2", &nvml->init) &&
                find(nvml, "nvmlShutdown", &nvml->shutdown) &&
                find(nvml, "nvmlDeviceGetCount_v2", &nvml->count) &&
                find(nvml, "nvmlDeviceGetHandleByIndex_v2", &nvml->by_index) &&
                find(nvml, "nvmlDeviceGetPciInfo_v3", &nvml->pci) &&
                find(nvml, "nvmlDeviceGetCudaComputeCapability", &nvml->capability) &&
                find(nvml, "nvmlDeviceGetNvLinkState", &nvml->link_state) &&
                find(nvml, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &nvml->link_remote);
    if (found && nvml->init() == 0)
        return 1;
    (void)dlclose(nvml->library);
    return 0;
}

/* "00000000:1B:00.0" as sysfs writes it. */
static void sysfs_busid(const struct pci_info *info, char *busid)
{
    (void)snprintf(busid, BUSID, "%04x:%02x:%02x.0", info->domain & 0xffff, info->bus & 0xff,
                   info->device & 0x1f);
}

static void add_link(struct machine *m, struct pci_device *device, const struct pci_info *remote)
{
    char target[BUSID], path[128];
    sysfs_busid(remote, target);
    for (uint32_t i = 0; i < device->links; i++)
        if (strcmp(device->link[i].target, target) == 0) {
            device->link[i].count++;
            return;
        }
    if (device->links == LINKS_MAX)
        return;
    memcpy(device->link[device->links].target, target, BUSID);
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", target);
    /* What a guest cannot see is a switch. */
    if (!detect_text(m, path, device->link[device->links].target_class, 12))
        memcpy(device->link[device->links].target_class, "0x068000", 9);
    device->link[device->links++].count = 1;
}

static void read_device(struct machine *m, const struct nvml *nvml, unsigned index)
{
    handle which;
    struct pci_info info = {.domain = 0}, remote = {.domain = 0};
    char busid[BUSID];
    int major = 0, minor = 0;
    if (nvml->by_index(index, &which) != 0 || nvml->pci(which, &info) != 0)
        return;
    sysfs_busid(&info, busid);
    uint32_t at = detect_device(m, busid);
    if (at == DETECT_NONE)
        return;
    struct pci_device *device = &m->device[at];
    device->known = 1;
    device->index = index;
    if (nvml->capability(which, &major, &minor) == 0)
        device->sm = (uint32_t)(10 * major + minor);
    for (unsigned link = 0; link < NVLINKS; link++) {
        unsigned active = 0;
        if (nvml->link_state(which, link, &active) == 0 && active &&
            nvml->link_remote(which, link, &remote) == 0)
            add_link(m, device, &remote);
    }
}

void detect_nvml(struct machine *m)
{
    struct nvml nvml;
    unsigned count = 0;
    if (m->root[0] || !open_library(&nvml)) /* it knows this machine only */
        return;
    if (nvml.count(&count) == 0)
        for (unsigned i = 0; i < count && i < DEVICES_MAX; i++)
            read_device(m, &nvml, i);
    (void)nvml.shutdown();
    (void)dlclose(nvml.library);
}
