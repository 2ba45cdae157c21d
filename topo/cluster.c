/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal cluster XML (docs/topology-xml.md, schema/peal-cluster.rng): hosts, the network
 * between them, the costs. This dialect is peal's own, so what it does not know is an
 * error and not a note.
 */
#include "cluster.h"

#include "defaults.h"
#include "topo_file.h"
#include "topo_text.h"

#include <string.h>

/* ---- attributes */

peal_status peal_topo_cluster_refuse(const struct cluster_reader *reader,
                                     const struct topo_elem *elem, const char *what,
                                     const char *expected)
{
    return peal_fail_at(reader->diag, PEAL_ERR_INPUT, reader->doc->path, elem->line, elem->column,
                        "<%.60s>: %s; expected %s", elem->name, what, expected);
}

peal_status peal_topo_cluster_known(const struct cluster_reader *reader,
                                    const struct topo_elem *elem, const char *const *attributes,
                                    const char *expected)
{
    for (uint32_t a = 0; a < elem->attrs; a++) {
        const char *name = reader->doc->attr[elem->attr + a].name;
        const char *const *known = attributes;

        while (*known && !peal_streq(*known, name))
            known++;
        if (!*known)
            return peal_fail_at(reader->diag, PEAL_ERR_INPUT, reader->doc->path, elem->line,
                                elem->column, "<%.60s>: unknown attribute %.60s; expected %s",
                                elem->name, name, expected);
    }
    if (elem->text)
        return peal_fail_at(reader->diag, PEAL_ERR_INPUT, reader->doc->path, elem->text, 1,
                            "text inside <%.60s>; expected elements only", elem->name);
    return PEAL_OK;
}

peal_status peal_topo_cluster_leaf(const struct cluster_reader *reader,
                                   const struct topo_elem *elem)
{
    const struct topo_elem *child = peal_topo_first(reader->doc, elem);

    if (!child)
        return PEAL_OK;
    return peal_fail_at(reader->diag, PEAL_ERR_INPUT, reader->doc->path, child->line, child->column,
                        "<%.60s> inside <%.60s>, which holds nothing", child->name, elem->name);
}

peal_status peal_topo_cluster_real(const struct cluster_reader *reader,
                                   const struct topo_elem *elem, const char *name, double least,
                                   double most, double *out)
{
    const char *text = peal_topo_attr(reader->doc, elem, name);
    double value;

    if (!text)
        return PEAL_OK;
    if (!peal_topo_read_double(text, &value) || value < least || value > most)
        return peal_fail_at(reader->diag, PEAL_ERR_INPUT, reader->doc->path, elem->line,
                            elem->column, "<%.60s %s=\"%.40s\">: expected a number from %s to %s",
                            elem->name, name, text, peal_topo_real(least).text,
                            peal_topo_real(most).text);
    *out = value;
    return PEAL_OK;
}

peal_status peal_topo_cluster_count(const struct cluster_reader *reader,
                                    const struct topo_elem *elem, const char *name, uint32_t most,
                                    uint32_t *out)
{
    const char *text = peal_topo_attr(reader->doc, elem, name);
    int64_t value;

    if (!text)
        return PEAL_OK;
    if (!peal_topo_read_int(text, &value) || value < 1 || value > most)
        return peal_fail_at(reader->diag, PEAL_ERR_INPUT, reader->doc->path, elem->line,
                            elem->column,
                            "<%.60s %s=\"%.40s\">: expected a whole number from 1 "
                            "to %u",
                            elem->name, name, text, (unsigned)most);
    *out = (uint32_t)value;
    return PEAL_OK;
}

/* ---- <network> */

static peal_status on_off(const struct cluster_reader *reader, const struct topo_elem *elem,
                          const char *name, int *out)
{
    const char *text = peal_topo_attr(reader->doc, elem, name);

    if (!text)
        return PEAL_OK;
    if (!peal_streq(text, "on") && !peal_streq(text, "off"))
        return peal_topo_cluster_refuse(reader, elem, "a switch fact is neither on nor off",
                                        "\"on\" or \"off\"");
    *out = peal_streq(text, "on");
    return PEAL_OK;
}

static peal_status read_switch(struct cluster_reader *reader, const struct topo_elem *elem)
{
    static const char *const attributes[] = {"buffer-mib", "pfc", "ecn", NULL};
    struct topo_network *network = &reader->fabric->network;
    uint32_t buffer = 0;

    PEAL_TRY(peal_topo_cluster_known(reader, elem, attributes, "buffer-mib, pfc or ecn"));
    PEAL_TRY(peal_topo_cluster_leaf(reader, elem));
    network->line = elem->line;
    PEAL_TRY(peal_topo_cluster_count(reader, elem, "buffer-mib", 1000000, &buffer));
    if (buffer)
        network->buffer_mib = (int)buffer;
    PEAL_TRY(on_off(reader, elem, "pfc", &network->pfc));
    return on_off(reader, elem, "ecn", &network->ecn);
}

static peal_status read_network(struct cluster_reader *reader, const struct topo_elem *elem)
{
    static const char *const attributes[] = {"kind", "hosts-per-leaf", "oversubscription",
                                             "latency-us", NULL};
    struct topo_network *network = &reader->fabric->network;
    const char *kind = peal_topo_attr(reader->doc, elem, "kind");
    const struct topo_elem *child;

    if (network->kind != TOPO_NETWORK_NONE)
        return peal_topo_cluster_refuse(reader, elem, "a second network", "one");
    PEAL_TRY(peal_topo_cluster_known(reader, elem, attributes,
                                     "kind, hosts-per-leaf, oversubscription or latency-us"));
    if (kind && peal_streq(kind, "rails"))
        network->kind = TOPO_NETWORK_RAILS;
    else if (kind && peal_streq(kind, "leaf-spine"))
        network->kind = TOPO_NETWORK_LEAVES;
    else
        return peal_topo_cluster_refuse(reader, elem, kind ? "unknown kind" : "no kind",
                                        "kind=\"rails\" or kind=\"leaf-spine\"");
    network->line = elem->line;
    network->latency_us = peal_topo_constant(TOPO_SPINE_LATENCY);
    PEAL_TRY(peal_topo_cluster_count(reader, elem, "hosts-per-leaf", TOPO_HOSTS_MAX,
                                     &network->hosts_per_leaf));
    PEAL_TRY(peal_topo_cluster_real(reader, elem, "oversubscription", 1, 1000,
                                    &network->oversubscription));
    PEAL_TRY(peal_topo_cluster_real(reader, elem, "latency-us", 0, 1e6, &network->latency_us));
    for (child = peal_topo_first(reader->doc, elem); child;
         child = peal_topo_next(reader->doc, child)) {
        if (!peal_streq(child->name, "switch"))
            return peal_topo_cluster_refuse(reader, child, "not an element of <network>",
                                            "<switch>");
        PEAL_TRY(read_switch(reader, child));
    }
    return PEAL_OK;
}

/* ---- <peal> */

/* Costs and the network first, since hosts are read once and kept as they are. */
static peal_status read_first(struct cluster_reader *reader, const struct topo_elem *root)
{
    const struct topo_elem *child = peal_topo_first(reader->doc, root);

    for (; child; child = peal_topo_next(reader->doc, child)) {
        if (peal_streq(child->name, "cost"))
            PEAL_TRY(peal_topo_cluster_cost(reader, child));
        else if (peal_streq(child->name, "reduce"))
            PEAL_TRY(peal_topo_cluster_reduce(reader, child));
        else if (peal_streq(child->name, "memory"))
            PEAL_TRY(peal_topo_cluster_memory(reader, child));
        else if (peal_streq(child->name, "network"))
            PEAL_TRY(read_network(reader, child));
        else if (!peal_streq(child->name, "host"))
            return peal_topo_cluster_refuse(reader, child, "not an element of <peal>",
                                            "<host>, <network>, <cost>, <reduce> or "
                                            "<memory>");
    }
    return PEAL_OK;
}

static peal_status check_hosts(struct cluster_reader *reader, const struct topo_elem *root)
{
    peal_fabric *fabric = reader->fabric;
    uint64_t hosts = 0;

    for (uint32_t s = 0; s < fabric->spans; s++)
        hosts += fabric->span[s].count;
    if (!hosts)
        return peal_topo_cluster_refuse(reader, root, "no hosts", "at least one <host>");
    if (hosts > TOPO_HOSTS_MAX)
        return peal_fail_at(reader->diag, PEAL_ERR_LIMIT, reader->doc->path, root->line,
                            root->column, "more than %u hosts", (unsigned)TOPO_HOSTS_MAX);
    for (uint32_t t = 0; hosts > 1 && t < fabric->types; t++) {
        const struct topo_type *type = &fabric->type[t];

        if (!type->nics)
            return peal_fail_at(reader->diag, PEAL_ERR_INPUT, reader->doc->path, type->line, 1,
                                "host type %.100s has no NIC, so nothing joins it to the others: "
                                "add <nic><net name= speed=/></nic> to its topology, or <nic "
                                "name= speed-gbits=/> to a <host ranks=>",
                                type->name);
    }
    if (hosts > 1 && fabric->network.kind == TOPO_NETWORK_NONE) {
        fabric->network.kind = TOPO_NETWORK_LEAVES;
        return peal_topo_note(&fabric->notes, root->line,
                              "no <network>: all NICs on one switch that blocks nothing");
    }
    return PEAL_OK;
}

peal_status peal_topo_read_cluster(peal_fabric *fabric, const struct topo_doc *doc,
                                   const char *base_dir, peal_diag *diag)
{
    static const char *const attributes[] = {"version", "name", NULL};
    struct cluster_reader reader = {
        .fabric = fabric, .doc = doc, .diag = diag, .base_dir = base_dir};
    const struct topo_elem *root = doc->elem;
    const char *version = peal_topo_attr(doc, root, "version");
    const char *name = peal_topo_attr(doc, root, "name");
    const struct topo_elem *child;

    PEAL_TRY(peal_topo_cluster_known(&reader, root, attributes, "version or name"));
    if (!version || !peal_streq(version, "1"))
        return peal_topo_cluster_refuse(&reader, root, version ? "unknown version" : "no version",
                                        "version=\"1\"");
    if (name && name[0]) {
        fabric->name = peal_topo_arena_text(&fabric->arena, name, strlen(name));
        if (!fabric->name)
            return PEAL_ERR_MEMORY;
    }
    PEAL_TRY(read_first(&reader, root));
    for (child = peal_topo_first(doc, root); child; child = peal_topo_next(doc, child)) {
        if (peal_streq(child->name, "host"))
            PEAL_TRY(peal_topo_cluster_host(&reader, child));
    }
    return check_hosts(&reader, root);
}
