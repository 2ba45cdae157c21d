/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's driver, where its management library is missing: which accelerator is which, what it can
 * compute, and which of them are joined by NVLink. It does not count links: peers on which all
 * atomics are native are over NVLink, and a generation's links are shared out among them.
 */
#include "detect.h"

#include <peal/peal_cuda.h>

#include <stdlib.h>
#include <string.h>

#define UNSEEN "fffffff:ffff:ff" /* as guests' dumps have their switches */
#define NVSWITCH "0x068000"      /* class of a bridge, as NVIDIA's switches have it */
#define ACCELERATOR "0x030200"
#define MESH_MAX 4u /* so many were ever joined each to each without a switch */

/* Links of an accelerator by its compute capability, as in topo/defaults.def. */
static uint32_t links_of(uint32_t arch)
{
    return arch >= 90 ? 18 : arch >= 80 ? 12 : arch >= 70 ? 6 : 4;
}

/* What a container does not see of the bus, the driver may. */
static uint32_t find_or_add(struct machine *m, const char *busid)
{
    uint32_t at = detect_device(m, busid);
    if (at != DETECT_NONE || m->devices == DEVICES_MAX)
        return at;
    struct pci_device *device = &m->device[m->devices];
    (void)snprintf(device->busid, sizeof device->busid, "%.15s", busid);
    (void)snprintf(device->class_code, sizeof device->class_code, "%s", ACCELERATOR);
    (void)snprintf(device->vendor, sizeof device->vendor, "0x10de");
    device->numa = -1;
    device->accelerator = 1;
    device->parent = DETECT_NONE;
    return m->devices++;
}

/* target: BUSID bytes. */
static void add_link(struct pci_device *device, const char *target, const char *class_code,
                     uint32_t count)
{
    if (device->links == LINKS_MAX)
        return;
    memcpy(device->link[device->links].target, target, BUSID);
    memcpy(device->link[device->links].target_class, class_code, sizeof NVSWITCH);
    device->link[device->links++].count = count;
}

struct seen {
    uint32_t count;
    uint32_t at[DEVICES_MAX]; /* by the driver's number: which of the machine's; DETECT_NONE */
    uint32_t joined[DEVICES_MAX];
};

static int is_joined(const peal_cuda *cuda, uint32_t from, uint32_t to)
{
    peal_cuda_peer_info peer = {.size = sizeof peer};
    return from != to && peal_cuda_peer(cuda, from, to, NULL, &peer) == PEAL_OK && peer.access &&
           peer.atomics;
}

static void read_device(struct machine *m, const peal_cuda *cuda, struct seen *seen, uint32_t index)
{
    peal_cuda_device_info about = {.size = sizeof about};
    seen->at[index] = DETECT_NONE;
    if (peal_cuda_device(cuda, index, NULL, &about) != PEAL_OK)
        return;
    uint32_t at = find_or_add(m, about.busid);
    if (at == DETECT_NONE || m->device[at].known) /* its library has told more */
        return;
    m->device[at].known = 1;
    m->device[at].index = index;
    m->device[at].sm = about.arch;
    seen->at[index] = at;
    for (uint32_t to = 0; to < seen->count; to++)
        seen->joined[index] += (uint32_t)is_joined(cuda, index, to);
}

static void join(struct machine *m, const peal_cuda *cuda, const struct seen *seen, uint32_t index)
{
    struct pci_device *device = &m->device[seen->at[index]];
    uint32_t links = links_of(device->sm), joined = seen->joined[index];
    if (joined + 1 > MESH_MAX && joined + 1 == seen->count) {
        add_link(device, UNSEEN, NVSWITCH, links);
        return;
    }
    for (uint32_t to = 0; to < seen->count; to++)
        if (seen->at[to] != DETECT_NONE && is_joined(cuda, index, to))
            add_link(device, m->device[seen->at[to]].busid, ACCELERATOR,
                     links > joined ? links / joined : 1);
}

static void ask_driver(struct machine *m, peal_ctx *ctx)
{
    struct seen *seen = need(calloc(1, sizeof *seen));
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda *cuda = NULL;
    peal_cuda_device_info about = {.size = sizeof about};
    if (peal_cuda_open(ctx, NULL, &diag, &cuda) != PEAL_OK ||
        peal_cuda_device(cuda, 0, &diag, &about) != PEAL_OK) {
        say(SAY_NOTE, "%s", diag.text);
        peal_cuda_close(cuda);
        free(seen);
        return;
    }
    seen->count = about.devices < DEVICES_MAX ? about.devices : DEVICES_MAX;
    if (about.stand_in)
        say(SAY_NOTE, "the CUDA driver is a stand-in: these are no GPUs");
    for (uint32_t i = 0; i < seen->count; i++)
        read_device(m, cuda, seen, i);
    for (uint32_t i = 0; i < seen->count; i++)
        if (seen->at[i] != DETECT_NONE && seen->joined[i])
            join(m, cuda, seen, i);
    peal_cuda_close(cuda);
    free(seen);
}

void detect_cuda(struct machine *m, peal_ctx *ctx)
{
    if (!m->root[0]) /* it knows this machine only */
        ask_driver(m, ctx);
}
