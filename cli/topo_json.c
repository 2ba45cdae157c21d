/* SPDX-License-Identifier: Apache-2.0 */
/* peal topo --json. */
#include "cli_json.h"
#include "verb_topo.h"

static void maybe_json(json_t *object, const char *key, int32_t number)
{
    if (number < 0)
        json_text(object, key, NULL);
    else
        json_count(object, key, (uint64_t)number);
}

static void json_ranks(json_t *root, const peal_fabric *fabric, uint32_t count)
{
    json_t *list = json_list(root, "ranks");
    for (uint32_t i = 0; i < count; i++) {
        peal_rank_info rank = {.size = sizeof rank};
        if (peal_fabric_rank(fabric, i, &rank) != PEAL_OK)
            break;
        json_t *item = json_item(list);
        json_count(item, "rank", rank.rank);
        maybe_json(item, "device", rank.device);
        json_text(item, "busid", rank.busid);
        json_count(item, "node", rank.host);
        maybe_json(item, "numa", rank.numa);
        json_count(item, "nvlink_domain", rank.nvlink_domain);
        maybe_json(item, "nic", rank.nic);
        json_text(item, "nic_name", rank.nic < 0 ? NULL : nic_name(fabric, rank.nic));
        json_text(item, "model", rank.model);
        json_count(item, "arch", rank.arch);
    }
}

static void json_nics(json_t *root, const peal_fabric *fabric, uint32_t count)
{
    json_t *list = json_list(root, "nics");
    for (uint32_t i = 0; i < count; i++) {
        peal_nic_info nic = {.size = sizeof nic};
        if (peal_fabric_nic(fabric, i, &nic) != PEAL_OK)
            break;
        json_t *item = json_item(list);
        json_text(item, "name", nic.name);
        json_count(item, "node", nic.host);
        json_text(item, "busid", nic.busid);
        maybe_json(item, "numa", nic.numa);
        json_number(item, "speed_gbits", nic.speed_gbits);
        maybe_json(item, "rail", nic.rail);
        json_flag(item, "rdma", nic.rdma);
    }
}

static void json_nodes(json_t *root, const peal_fabric *fabric)
{
    json_t *list = json_list(root, "nodes");
    for (uint32_t i = 0; i < peal_fabric_node_count(fabric); i++) {
        peal_node_info node = {.size = sizeof node};
        if (peal_fabric_node(fabric, i, &node) != PEAL_OK)
            break;
        json_t *item = json_item(list);
        json_count(item, "node", node.host);
        json_text(item, "kind", node.kind);
        json_text(item, "name", node.name);
        json_text(item, "busid", node.busid);
    }
}

static void json_links(json_t *root, const peal_fabric *fabric, uint32_t count)
{
    json_t *list = json_list(root, "links");
    for (uint32_t i = 0; i < count; i++) {
        peal_link_info link = {.size = sizeof link};
        if (peal_fabric_link(fabric, i, &link) != PEAL_OK)
            break;
        json_t *item = json_item(list);
        json_text(item, "from", link.from);
        json_text(item, "to", link.to);
        json_text(item, "class", peal_link_class_name(link.link_class));
        json_number(item, "alpha_us", link.alpha_us);
        json_number(item, "beta_gbs", link.beta_gbs);
        json_count(item, "sstar_bytes", link.sstar_bytes);
        json_text(item, "resource", link.resource);
    }
}

static void json_notes(json_t *root, const peal_fabric *fabric, uint32_t count)
{
    json_t *notes = json_list(root, "notes");
    json_t *warnings = json_list(root, "warnings");
    for (uint32_t i = 0; i < count; i++) {
        peal_note_info note = {.size = sizeof note};
        if (peal_fabric_note(fabric, i, &note) != PEAL_OK)
            break;
        json_t *item = json_item(note.warning ? warnings : notes);
        json_count(item, "line", note.line);
        json_text(item, "text", note.text);
        json_text(item, "path", note.path);
    }
}

void topo_json(const peal_fabric *fabric, const peal_fabric_info *info, const struct output *output)
{
    char digest[17];
    json_t *root = json_begin("peal.topo/1");
    (void)snprintf(digest, sizeof digest, "%016llx", (unsigned long long)info->digest);
    json_text(root, "name", info->name);
    json_text(root, "dialect", info->dialect);
    json_text(root, "digest", digest);
    json_count(root, "hosts", info->hosts);
    json_count(root, "numa_nodes", info->numa_nodes);
    json_ranks(root, fabric, info->ranks);
    json_nics(root, fabric, info->nics);
    json_nodes(root, fabric);
    json_links(root, fabric, info->links);
    json_measured(root, fabric, info);
    json_notes(root, fabric, info->notes);
    json_end(root, output);
}
