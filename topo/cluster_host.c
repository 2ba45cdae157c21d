/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <host>: a topology file by reference, a <system> inside, or ranks that share memory.
 * A file that several <host> elements name is read once.
 */
#include "cluster.h"

#include "defaults.h"
#include "topo_file.h"
#include "topo_text.h"

#include <string.h>

/* ---- references */

/* Only downward from base_dir, unless the caller named the cluster file itself: a text
 * from elsewhere must not choose which files are opened. */
static int reaches_out(const char *path)
{
    if (path[0] == '/')
        return 1;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || part[2] == '\0'))
            return 1;
    }
    return 0;
}

static peal_status full_path(const struct cluster_reader *reader, const char *reference,
                             const char **path_out)
{
    size_t base = reference[0] == '/' ? 0 : strlen(reader->base_dir);
    size_t bytes = base + 1 + strlen(reference);
    char *path = peal_topo_arena_alloc(&reader->fabric->arena, bytes + 1);
    struct topo_text text;

    if (!path)
        return PEAL_ERR_MEMORY;
    peal_topo_text_init(&text, path, bytes + 1);
    if (base && !peal_streq(reader->base_dir, ".")) {
        peal_topo_text_put(&text, reader->base_dir);
        peal_topo_text_put(&text, "/");
    }
    peal_topo_text_put(&text, reference);
    *path_out = path;
    return PEAL_OK;
}

static peal_status read_text(struct cluster_reader *reader, const struct topo_elem *elem,
                             const char *path, const char *data, size_t bytes,
                             struct topo_type *type)
{
    peal_fabric *fabric = reader->fabric;
    struct topo_doc doc;
    peal_status status;

    fabric->notes.path = path;
    status =
        peal_topo_doc_parse(fabric->ctx, data, bytes, path, &fabric->notes, reader->diag, &doc);
    if (status == PEAL_OK) {
        if (peal_streq(doc.elem->name, "system"))
            status = peal_topo_read_system(fabric, &doc, doc.elem, type, reader->diag);
        else
            status = peal_topo_cluster_refuse(reader, elem, "the topology is not that of one host",
                                              "a file whose root is <system>");
        peal_topo_doc_free(&doc);
    }
    fabric->notes.path = reader->doc->path;
    return status;
}

static peal_status read_reference(struct cluster_reader *reader, const struct topo_elem *elem,
                                  const char *path, struct topo_type *type)
{
    struct peal_buf text;
    peal_status status;

    peal_buf_init(&text, reader->fabric->ctx, TOPO_FILE_LIMIT);
    status = peal_topo_file_read(path, 1, &text, reader->diag);
    if (status == PEAL_ERR_IO) /* say where the name stands, not only which it is */
        status = peal_fail_at(reader->diag, PEAL_ERR_IO, reader->doc->path, elem->line,
                              elem->column, "cannot read the topology file %.300s", path);
    if (status == PEAL_OK)
        status = read_text(reader, elem, path, text.data ? text.data : "", text.used, type);
    peal_buf_free(&text);
    return status;
}

static uint32_t known_type(const peal_fabric *fabric, const char *path, int multicast)
{
    for (uint32_t t = 0; t < fabric->types; t++) {
        if (fabric->type[t].path && peal_streq(fabric->type[t].path, path) &&
            fabric->type[t].multicast == multicast)
            return t;
    }
    return TOPO_NONE;
}

/* ---- ranks without accelerators */

static peal_status shared_nic(struct cluster_reader *reader, const struct topo_elem *elem,
                              struct topo_type *type)
{
    static const char *const attributes[] = {"name", "speed-gbits", "rdma", NULL};
    peal_fabric *fabric = reader->fabric;
    const char *name = peal_topo_attr(reader->doc, elem, "name");
    const char *rdma = peal_topo_attr(reader->doc, elem, "rdma");
    struct topo_node node = {.kind = TOPO_NIC, .busid = "", .line = elem->line};
    struct topo_nic nic = {.dev = -1, .rail_stated = -1, .line = elem->line};
    struct topo_resource port = {.link_class = PEAL_LINK_NET};

    PEAL_TRY(peal_topo_cluster_known(reader, elem, attributes, "name, speed-gbits or rdma"));
    PEAL_TRY(peal_topo_cluster_leaf(reader, elem));
    if (!name || !name[0])
        return peal_topo_cluster_refuse(reader, elem, "no name", "name=\"eth0\"");
    if (!peal_topo_attr(reader->doc, elem, "speed-gbits"))
        return peal_topo_cluster_refuse(reader, elem, "no speed-gbits", "its line rate in Gb/s");
    if (rdma && !peal_streq(rdma, "yes") && !peal_streq(rdma, "no"))
        return peal_topo_cluster_refuse(reader, elem, "rdma is neither yes nor no", "one of them");
    PEAL_TRY(peal_topo_cluster_real(reader, elem, "speed-gbits", 0.001, 3200, &nic.gbits));
    nic.rdma = rdma ? peal_streq(rdma, "yes") : peal_topo_rdma_name(name);
    nic.rail = (int32_t)type->nics; /* all of them are used: ranks are dealt over them */
    type->rails = type->nics + 1;
    nic.name = node.name = peal_topo_arena_text(&fabric->arena, name, strlen(name));
    if (!nic.name)
        return PEAL_ERR_MEMORY;
    nic.port_gbs = port.gbs = nic.gbits / 8 * peal_topo_constant(TOPO_NET_SHARE);
    type->net_gbs += port.gbs;
    PEAL_TRY(peal_topo_add_node(fabric->ctx, type, &node, &nic.node));
    port.from = port.to = nic.node;
    port.kind = TOPO_RES_TX;
    PEAL_TRY(peal_topo_add_resource(fabric->ctx, type, &port, &nic.tx));
    port.kind = TOPO_RES_RX;
    PEAL_TRY(peal_topo_add_resource(fabric->ctx, type, &port, &nic.rx));
    return peal_topo_add_nic(fabric->ctx, type, &nic);
}

static peal_status shared_host(struct cluster_reader *reader, const struct topo_elem *elem,
                               struct topo_type *type)
{
    const struct topo_elem *child = peal_topo_first(reader->doc, elem);
    uint32_t ranks = 1;

    PEAL_TRY(peal_topo_cluster_count(reader, elem, "ranks", TOPO_RANKS_MAX, &ranks));
    PEAL_TRY(peal_topo_shared_memory(reader->fabric, type, ranks));
    for (; child; child = peal_topo_next(reader->doc, child)) {
        if (!peal_streq(child->name, "nic"))
            return peal_topo_cluster_refuse(reader, child, "not an element of <host ranks=>",
                                            "<nic>");
        PEAL_TRY(shared_nic(reader, child, type));
    }
    return PEAL_OK;
}

/* ---- <host> */

static peal_status inline_host(struct cluster_reader *reader, const struct topo_elem *elem,
                               struct topo_type *type)
{
    const struct topo_elem *system = peal_topo_first(reader->doc, elem);

    if (!system || !peal_streq(system->name, "system") || peal_topo_next(reader->doc, system))
        return peal_topo_cluster_refuse(
            reader, elem, "neither topology= nor ranks=", "one of them, or one <system> inside");
    return peal_topo_read_system(reader->fabric, reader->doc, system, type, reader->diag);
}

/* Reads the one of three forms into *type. */
static peal_status read_form(struct cluster_reader *reader, const struct topo_elem *elem,
                             const char *path, struct topo_type *type)
{
    if (path) {
        PEAL_TRY(peal_topo_cluster_leaf(reader, elem));
        return read_reference(reader, elem, path, type);
    }
    if (peal_topo_attr(reader->doc, elem, "ranks"))
        return shared_host(reader, elem, type);
    return inline_host(reader, elem, type);
}

static peal_status new_type(struct cluster_reader *reader, const struct topo_elem *elem,
                            const char *path, int multicast, uint32_t *index)
{
    peal_fabric *fabric = reader->fabric;
    const char *name = peal_topo_attr(reader->doc, elem, "name");
    struct topo_type type = {.path = path, .line = elem->line, .multicast = multicast};
    peal_status status;

    if (fabric->types == TOPO_TYPES_MAX)
        return peal_fail_at(reader->diag, PEAL_ERR_LIMIT, reader->doc->path, elem->line,
                            elem->column, "more than %u host types", (unsigned)TOPO_TYPES_MAX);
    if (!name || !name[0])
        name = path ? path : "host";
    type.name = peal_topo_arena_text(&fabric->arena, name, strlen(name));
    if (!type.name)
        return PEAL_ERR_MEMORY;
    status = read_form(reader, elem, path, &type);
    if (status == PEAL_OK)
        status = peal_topo_add_type(fabric, &type, index);
    if (status != PEAL_OK)
        peal_topo_type_free(fabric->ctx, &type);
    return status;
}

/* Whether the host's NVSwitches multicast: no file of a vendor says so. */
static peal_status read_multicast(const struct cluster_reader *reader, const struct topo_elem *elem,
                                  int *multicast)
{
    const char *text = peal_topo_attr(reader->doc, elem, "multicast");

    *multicast = text && peal_streq(text, "yes");
    if (text && !*multicast && !peal_streq(text, "no"))
        return peal_topo_cluster_refuse(reader, elem, "multicast is neither yes nor no",
                                        "one of them");
    if (*multicast && peal_topo_attr(reader->doc, elem, "ranks"))
        return peal_topo_cluster_refuse(reader, elem, "both multicast and ranks",
                                        "accelerators that meet on a switch");
    return PEAL_OK;
}

peal_status peal_topo_cluster_host(struct cluster_reader *reader, const struct topo_elem *elem)
{
    static const char *const attributes[] = {"name",  "count",     "topology",
                                             "ranks", "multicast", NULL};
    const char *reference = peal_topo_attr(reader->doc, elem, "topology");
    const char *path = NULL;
    uint32_t count = 1;
    uint32_t type = TOPO_NONE;
    int multicast = 0;

    PEAL_TRY(peal_topo_cluster_known(reader, elem, attributes,
                                     "name, count, topology, ranks or multicast"));
    PEAL_TRY(read_multicast(reader, elem, &multicast));
    PEAL_TRY(peal_topo_cluster_count(reader, elem, "count", TOPO_HOSTS_MAX, &count));
    if (reference && peal_topo_attr(reader->doc, elem, "ranks"))
        return peal_topo_cluster_refuse(reader, elem, "both topology and ranks", "one of them");
    if (reference) {
        if (!reader->base_dir)
            return peal_topo_cluster_refuse(reader, elem,
                                            "a reference to a file, which text without a "
                                            "directory cannot have",
                                            "a <system> inside");
        if (!reference[0] || (!reader->fabric->references_reach_out && reaches_out(reference)))
            return peal_topo_cluster_refuse(reader, elem, "the topology leads out of the directory",
                                            "a relative path without \"..\"");
        PEAL_TRY(full_path(reader, reference, &path));
        type = known_type(reader->fabric, path, multicast);
    }
    if (type == TOPO_NONE)
        PEAL_TRY(new_type(reader, elem, path, multicast, &type));
    return peal_topo_add_span(reader->fabric, type, count);
}
