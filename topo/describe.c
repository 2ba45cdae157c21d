/* SPDX-License-Identifier: Apache-2.0 */
/* The public getters. */
#include "fabric.h"
#include "network.h"

#include <string.h>

peal_status peal_fabric_get(const peal_fabric *fabric, peal_fabric_info *info)
{
    peal_fabric_info full = {.size = sizeof full};

    if (!fabric || !info)
        return PEAL_ERR_ARG;
    full.name = fabric->name;
    full.dialect = fabric->dialect;
    full.ranks = fabric->ranks;
    full.hosts = fabric->hosts;
    full.numa_nodes = fabric->numas;
    full.nics = fabric->nics;
    full.links = fabric->listeds;
    full.notes = fabric->notes.count;
    full.digest = fabric->digest;
    struct topo_switch_facts facts = peal_topo_switch_facts(fabric);
    full.pfc = facts.pfc;
    full.ecn = facts.ecn;
    full.network_line = facts.line;
    const struct topo_memory *memory = &fabric->profile.memory;
    full.calls = memory->calls;
    if (memory->count[TOPO_USE_LOAD])
        full.memory_ranks = memory->ranks ? memory->ranks : fabric->ranks;
    return peal_export(info, &full, sizeof full);
}

static const char *path_of(const peal_fabric *fabric, const struct topo_type *type)
{
    return type->path ? type->path : fabric->file ? fabric->file : "";
}

/* The index of a NIC of a host in the fabric. */
static int32_t nic_index(const struct topo_at *at, int32_t own)
{
    if (own < 0)
        return -1;
    return (int32_t)(at->span->nic + (at->host - at->span->first) * at->type->nics) + own;
}

peal_status peal_fabric_rank(const peal_fabric *fabric, uint32_t index, peal_rank_info *info)
{
    peal_rank_info full = {.size = sizeof full};
    struct topo_at at;

    if (!fabric || !info || index >= fabric->ranks)
        return PEAL_ERR_ARG;
    at = peal_topo_at_rank(fabric, index);
    full.rank = index;
    full.host = at.host;
    full.local = at.index;
    full.nvlink_domain = peal_topo_rank_domain(fabric, index);
    full.nic = nic_index(&at, peal_topo_type_rank_nic(at.type, at.index));
    if (at.type->shared_memory) {
        full.device = -1;
        full.busid = full.path = "";
        full.numa = 0;
        full.model = "host";
    } else {
        const struct topo_accel *accel = &at.type->accel[at.index];

        full.device = accel->dev;
        full.busid = at.type->node[accel->node].busid;
        full.numa = accel->numa;
        full.arch = accel->arch;
        full.model = accel->model;
        full.path = path_of(fabric, at.type);
        full.line = accel->line;
    }
    return peal_export(info, &full, sizeof full);
}

peal_status peal_fabric_nic(const peal_fabric *fabric, uint32_t index, peal_nic_info *info)
{
    peal_nic_info full = {.size = sizeof full};
    const struct topo_nic *nic;
    struct topo_at at;

    if (!fabric || !info || index >= fabric->nics)
        return PEAL_ERR_ARG;
    at = peal_topo_at_nic(fabric, index);
    nic = &at.type->nic[at.index];
    full.host = at.host;
    full.name = nic->name;
    full.busid = at.type->node[nic->node].busid;
    full.numa = at.type->node[nic->node].numa;
    full.speed_gbits = nic->gbits;
    full.rail = nic->rail;
    full.rdma = nic->rdma;
    full.path = path_of(fabric, at.type);
    full.line = nic->line;
    return peal_export(info, &full, sizeof full);
}

uint32_t peal_fabric_node_count(const peal_fabric *fabric)
{
    return fabric ? fabric->nodes + fabric->switches : 0;
}

/* Switches come after the nodes of hosts; the last is the spine, where there is one. */
static void describe_switch(const peal_fabric *fabric, uint32_t index, peal_node_info *info)
{
    info->host = UINT32_MAX;
    info->kind = "net-switch";
    info->name = fabric->network.name[index];
    info->busid = "";
}

peal_status peal_fabric_node(const peal_fabric *fabric, uint32_t index, peal_node_info *info)
{
    peal_node_info full = {.size = sizeof full};

    if (!fabric || !info || index >= peal_fabric_node_count(fabric))
        return PEAL_ERR_ARG;
    if (index >= fabric->nodes) {
        describe_switch(fabric, index - fabric->nodes, &full);
    } else {
        struct topo_at at = peal_topo_at_node(fabric, index);
        const struct topo_node *node = &at.type->node[at.index];

        full.host = at.host;
        full.kind = peal_topo_kind_name(node->kind);
        full.name = node->name;
        full.busid = node->busid;
    }
    return peal_export(info, &full, sizeof full);
}

peal_status peal_fabric_link(const peal_fabric *fabric, uint32_t index, peal_link_info *info)
{
    peal_link_info full = {.size = sizeof full};
    const struct topo_listed *listed;

    if (!fabric || !info || index >= fabric->listeds)
        return PEAL_ERR_ARG;
    listed = &fabric->listed[index];
    full.from = listed->from;
    full.to = listed->to;
    full.link_class = listed->link_class;
    full.alpha_us = listed->alpha_us;
    full.beta_gbs = listed->beta_gbs;
    /* us x 1e9 B/s = 1e3 B */
    full.sstar_bytes = (uint64_t)(listed->alpha_us * listed->beta_gbs * 1e3 + 0.5);
    full.resource = listed->resource;
    return peal_export(info, &full, sizeof full);
}

peal_status peal_fabric_call(const peal_fabric *fabric, uint32_t index, peal_fabric_call_info *info)
{
    peal_fabric_call_info full = {.size = sizeof full};
    const struct topo_call *call;

    if (!fabric || !info || index >= fabric->profile.memory.calls)
        return PEAL_ERR_ARG;
    call = &fabric->profile.memory.call[index];
    full.collective = call->collective;
    full.algorithm = call->algorithm;
    full.detail = call->detail ? call->detail : "";
    full.tile_bytes = (uint64_t)call->tile_bytes;
    full.private_buffers = call->private_buffers;
    full.times = call->times;
    full.min_bytes = (uint64_t)call->time[0].bytes;
    full.max_bytes = (uint64_t)call->time[call->times - 1].bytes;
    full.max_us = call->time[call->times - 1].us;
    full.line = call->line;
    return peal_export(info, &full, sizeof full);
}

peal_status peal_fabric_note(const peal_fabric *fabric, uint32_t index, peal_note_info *info)
{
    peal_note_info full = {.size = sizeof full};
    const struct topo_note *note;

    if (!fabric || !info || index >= fabric->notes.count)
        return PEAL_ERR_ARG;
    note = &fabric->notes.note[index];
    full.warning = note->warning;
    full.line = note->line;
    full.path = note->path;
    full.text = note->text;
    full.rule = note->rule;
    return peal_export(info, &full, sizeof full);
}

peal_status peal_fabric_path(const peal_fabric *fabric, uint32_t from_rank, uint32_t to_rank,
                             peal_path_info *info)
{
    peal_path_info full = {.size = sizeof full};
    struct topo_path path;

    if (!fabric || !info || from_rank >= fabric->ranks || to_rank >= fabric->ranks)
        return PEAL_ERR_ARG;
    peal_topo_path(fabric, from_rank, to_rank, &path);
    full.link_class = path.link_class;
    full.alpha_us = path.alpha_us;
    full.beta_gbs = path.beta_gbs;
    full.direct = path.direct;
    peal_topo_via(fabric, from_rank, to_rank, full.via, sizeof full.via);
    return peal_export(info, &full, sizeof full);
}
