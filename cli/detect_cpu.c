/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs: NUMA nodes with their cores, and what make they are. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "detect.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define NODES "/sys/devices/system/node"

static void each_node(struct machine *m, const char *directory, const char *name)
{
    char path[512], *end;
    if (strncmp(name, "node", 4) != 0 || m->nodes == NODES_MAX)
        return;
    long number = strtol(name + 4, &end, 10);
    if (end == name + 4 || *end || number < 0 || number > 65535)
        return;
    (void)snprintf(path, sizeof path, "%.200s/%.63s/cpumap", directory, name);
    (void)detect_text(m, path, m->affinity[m->nodes], sizeof m->affinity[0]);
    m->numa[m->nodes++] = (int)number;
}

/* "cpu family\t: 6" */
static const char *value_of(const char *line, const char *key)
{
    size_t length = strlen(key);
    if (strncmp(line, key, length) != 0 || !strchr(" \t:", line[length]))
        return NULL;
    const char *colon = strchr(line, ':');
    return colon ? colon + 1 + strspn(colon + 1, " \t") : NULL;
}

static void read_line(struct machine *m, const char *line, uint32_t *cores)
{
    const char *value;
    if (value_of(line, "processor"))
        ++*cores;
    else if ((value = value_of(line, "vendor_id")) && !m->cpu_vendor[0])
        (void)snprintf(m->cpu_vendor, sizeof m->cpu_vendor, "%.*s", (int)strcspn(value, "\n"),
                       value);
    else if ((value = value_of(line, "cpu family")) && m->cpu_family < 0)
        m->cpu_family = atoi(value);
    else if ((value = value_of(line, "model")) && m->cpu_model < 0)
        m->cpu_model = atoi(value);
    else if (value_of(line, "CPU implementer") && !m->cpu_vendor[0])
        (void)snprintf(m->cpu_vendor, sizeof m->cpu_vendor, "ARM");
}

static uint32_t read_cpuinfo(struct machine *m)
{
    char path[4096], line[512];
    uint32_t cores = 0;
    (void)snprintf(path, sizeof path, "%.4000s/proc/cpuinfo", m->root);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        read_line(m, line, &cores);
    (void)fclose(file);
    return cores;
}

static void read_arch(struct machine *m)
{
    struct utsname name;
    if (!detect_text(m, "/proc/sys/kernel/arch", m->arch, sizeof m->arch) && uname(&name) == 0)
        (void)snprintf(m->arch, sizeof m->arch, "%.15s", name.machine);
    if (strcmp(m->arch, "aarch64") == 0) /* as the vendor libraries call them */
        (void)snprintf(m->arch, sizeof m->arch, "arm64");
    else if (strcmp(m->arch, "ppc64le") == 0)
        (void)snprintf(m->arch, sizeof m->arch, "ppc64");
}

void detect_cpus(struct machine *m)
{
    cpu_set_t allowed;
    m->cpu_family = m->cpu_model = -1;
    detect_each(m, NODES, each_node);
    if (m->nodes == 0) /* a kernel without NUMA */
        m->numa[m->nodes++] = 0;
    m->cores = read_cpuinfo(m);
    read_arch(m);
    if (!m->root[0] && sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        m->cores = (uint32_t)CPU_COUNT(&allowed);
}
