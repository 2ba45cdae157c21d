/* SPDX-License-Identifier: Apache-2.0 */
/* NICs: RDMA devices port by port, and the interfaces of PCI devices that have none. */
#include "detect.h"

#include <stdlib.h>
#include <string.h>

#define PATH_ROOM 512
#define RDMA "/sys/class/infiniband"
#define SOCKETS "/sys/class/net"

static uint32_t device_of(const struct machine *m, const char *directory, const char *name)
{
    char path[PATH_ROOM], busid[64];
    (void)snprintf(path, sizeof path, "%.200s/%.63s/device", directory, name);
    return detect_target(m, path, busid, sizeof busid) ? detect_device(m, busid) : DETECT_NONE;
}

static struct nic_port *add_port(struct machine *m, const char *name, uint32_t device)
{
    if (m->nics == PORTS_MAX)
        return NULL;
    struct nic_port *port = &m->nic[m->nics++];
    (void)snprintf(port->name, sizeof port->name, "%.31s", name);
    port->device = device;
    port->port = 1;
    return port;
}

/* "0200:0000:0000:0100" as a number; "" for none. */
static void read_guid(const struct machine *m, const char *name, struct nic_port *port)
{
    char path[PATH_ROOM], text[64];
    size_t used = 2;
    int zero = 1;
    (void)snprintf(path, sizeof path, RDMA "/%.63s/sys_image_guid", name);
    if (!detect_text(m, path, text, sizeof text)) {
        (void)snprintf(path, sizeof path, RDMA "/%.63s/node_guid", name);
        if (!detect_text(m, path, text, sizeof text))
            return;
    }
    memcpy(port->guid, "0x", 3);
    for (const char *at = text; *at && used + 1 < sizeof port->guid; at++)
        if (strchr("0123456789abcdefABCDEF", *at)) {
            port->guid[used++] = *at;
            zero &= *at == '0';
        }
    port->guid[zero ? 0 : used] = '\0';
}

static void each_rdma(struct machine *m, const char *directory, const char *name)
{
    uint32_t device = device_of(m, directory, name);
    for (uint32_t number = 1; number <= 8; number++) {
        char path[PATH_ROOM], rate[64], state[32];
        (void)snprintf(path, sizeof path, "%.200s/%.63s/ports/%lu/rate", directory, name,
                       (unsigned long)number);
        if (!detect_text(m, path, rate, sizeof rate))
            continue;
        (void)snprintf(path, sizeof path, "%.200s/%.63s/ports/%lu/state", directory, name,
                       (unsigned long)number);
        if (detect_text(m, path, state, sizeof state) && strstr(state, "DOWN"))
            continue;
        struct nic_port *port = add_port(m, name, device);
        if (!port)
            return;
        port->gbits = strtod(rate, NULL); /* "400 Gb/sec (4X NDR)" */
        port->port = number;
        read_guid(m, name, port);
    }
}

static void each_socket(struct machine *m, const char *directory, const char *name)
{
    char path[PATH_ROOM], target[64];
    long mbits = 0;
    uint32_t device = device_of(m, directory, name);
    (void)snprintf(path, sizeof path, "%.200s/%.63s/device", directory, name);
    if (!detect_target(m, path, target, sizeof target)) /* no hardware */
        return;
    for (uint32_t i = 0; i < m->nics && device != DETECT_NONE; i++)
        if (m->nic[i].device == device)
            return;
    struct nic_port *port = add_port(m, name, device);
    (void)snprintf(path, sizeof path, "%.200s/%.63s/speed", directory, name);
    if (port && detect_number(m, path, &mbits) && mbits > 0)
        port->gbits = (double)mbits / 1000;
}

void detect_nics(struct machine *m)
{
    detect_each(m, RDMA, each_rdma);
    detect_each(m, SOCKETS, each_socket);
}
