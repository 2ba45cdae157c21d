/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL chose: the rings and trees of a graph file (NCCL_GRAPH_DUMP_FILE), as orders of a
 * host's ranks. The file knows one host; all hosts of a fabric get the same orders.
 */
#include "fabric.h"
#include "topo_file.h"
#include "topo_text.h"
#include "xml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define GRAPH_CHANNELS_MAX 64u
#define GRAPH_RING 0
#define GRAPH_TREE 1

struct reader {
    peal_fabric *fabric;
    const struct topo_doc *doc;
    peal_diag *diag;
    uint32_t ranks; /* of a host */
};

static peal_status wrong(const struct reader *reader, const struct topo_elem *elem,
                         const char *format, ...) PEAL_PRINTF(3, 4);

static peal_status wrong(const struct reader *reader, const struct topo_elem *elem,
                         const char *format, ...)
{
    char text[200];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    va_end(args);
    return peal_fail_at(reader->diag, PEAL_ERR_INPUT, reader->doc->path, elem->line, elem->column,
                        "%s", text);
}

/* Which rank of a host has the device number; TOPO_NONE. */
static uint32_t rank_of_device(const struct topo_type *type, int64_t dev)
{
    if (!type->accels && dev < (int64_t)type->ranks)
        return (uint32_t)dev;
    for (uint32_t a = 0; a < type->accels; a++)
        if ((type->accel[a].dev >= 0 ? type->accel[a].dev : (int64_t)a) == dev)
            return a;
    return TOPO_NONE;
}

/* `rank`, where a file has it, names the rank itself; `dev` is hexadecimal, with or without 0x. */
static peal_status read_gpu(const struct reader *reader, const struct topo_elem *elem,
                            uint32_t *rank_out)
{
    const char *rank = peal_topo_attr(reader->doc, elem, "rank");
    const char *dev = peal_topo_attr(reader->doc, elem, "dev");
    int64_t number = -1;
    uint64_t device = 0;

    if (rank && (!peal_topo_read_int(rank, &number) || number < 0 || number >= reader->ranks))
        return wrong(reader, elem, "a rank that a host of %u ranks does not have", reader->ranks);
    *rank_out = (uint32_t)number;
    if (rank)
        return PEAL_OK;
    if (!dev || !peal_topo_read_hex(dev, &device) || device > INT32_MAX)
        return wrong(reader, elem, "<gpu> needs dev, a hexadecimal number, or rank");
    *rank_out = TOPO_NONE;
    for (uint32_t t = 0; t < reader->fabric->types; t++) {
        uint32_t found = rank_of_device(&reader->fabric->type[t], (int64_t)device);

        if (found == TOPO_NONE || (t && found != *rank_out))
            return wrong(reader, elem, "device %llu is not the same rank of every host",
                         (unsigned long long)device);
        *rank_out = found;
    }
    return PEAL_OK;
}

/* Each rank of the host once; NICs before and behind are what a cluster's network is for. */
static peal_status read_channel(const struct reader *reader, const struct topo_elem *channel,
                                uint32_t *order)
{
    uint32_t count = 0;

    for (const struct topo_elem *elem = peal_topo_first(reader->doc, channel); elem;
         elem = peal_topo_next(reader->doc, elem)) {
        uint32_t rank = 0;

        if (peal_streq(elem->name, "net"))
            continue;
        if (!peal_streq(elem->name, "gpu"))
            return wrong(reader, elem, "expected <gpu> or <net>");
        PEAL_TRY(read_gpu(reader, elem, &rank));
        for (uint32_t i = 0; i < count; i++)
            if (order[i] == rank)
                return wrong(reader, elem, "rank %u twice in one channel", rank);
        if (count == reader->ranks)
            return wrong(reader, elem, "more than the %u ranks of a host", reader->ranks);
        order[count++] = rank;
    }
    if (count != reader->ranks)
        return wrong(reader, channel, "a channel without all %u ranks of a host", reader->ranks);
    return PEAL_OK;
}

static peal_status read_graph(const struct reader *reader, const struct topo_elem *graph,
                              struct topo_orders *orders)
{
    uint32_t channels = 0;

    for (const struct topo_elem *elem = peal_topo_first(reader->doc, graph); elem;
         elem = peal_topo_next(reader->doc, elem)) {
        if (!peal_streq(elem->name, "channel"))
            return wrong(reader, elem, "expected <channel>");
        channels++;
    }
    if (channels > GRAPH_CHANNELS_MAX)
        return wrong(reader, graph, "%u channels; NCCL has at most %u", channels,
                     GRAPH_CHANNELS_MAX);
    if (orders->channels)
        return wrong(reader, graph, "a second graph of the same id");
    if (!channels)
        return PEAL_OK;
    size_t size = (size_t)channels * reader->ranks;
    orders->order = peal_alloc(reader->fabric->ctx, size * sizeof *orders->order);
    if (!orders->order)
        return PEAL_ERR_MEMORY;
    orders->channels = channels;
    orders->ranks = reader->ranks;
    uint32_t *to = orders->order;
    for (const struct topo_elem *elem = peal_topo_first(reader->doc, graph); elem;
         elem = peal_topo_next(reader->doc, elem), to += reader->ranks)
        PEAL_TRY(read_channel(reader, elem, to));
    return PEAL_OK;
}

/* Of other patterns (CollNet, NVLS) a file tells the heads only. */
static peal_status read_graphs(const struct reader *reader, struct topo_orders *ring,
                               struct topo_orders *tree)
{
    const struct topo_elem *root = reader->doc->elem;

    if (!peal_streq(root->name, "graphs"))
        return wrong(reader, root, "root element <%.60s>: expected <graphs>, a graph file of NCCL",
                     root->name);
    for (const struct topo_elem *elem = peal_topo_first(reader->doc, root); elem;
         elem = peal_topo_next(reader->doc, elem)) {
        const char *text = peal_topo_attr(reader->doc, elem, "id");
        int64_t id;

        if (!peal_streq(elem->name, "graph") || !text || !peal_topo_read_int(text, &id))
            return wrong(reader, elem, "expected <graph> with an id");
        if (id == GRAPH_RING)
            PEAL_TRY(read_graph(reader, elem, ring));
        if (id == GRAPH_TREE)
            PEAL_TRY(read_graph(reader, elem, tree));
    }
    if (!ring->channels && !tree->channels)
        return wrong(reader, root, "neither a ring nor a tree (graphs of id 0 and 1)");
    return PEAL_OK;
}

/* The ranks of a host, the same on each; 0: hosts differ. */
static uint32_t ranks_of_a_host(const peal_fabric *fabric)
{
    uint32_t ranks = fabric->types ? fabric->type[0].ranks : 0;

    for (uint32_t t = 1; t < fabric->types; t++)
        if (fabric->type[t].ranks != ranks)
            return 0;
    return ranks;
}

void peal_topo_orders_free(peal_ctx *ctx, struct topo_orders *orders)
{
    peal_free(ctx, orders->order, (size_t)orders->channels * orders->ranks * sizeof *orders->order);
    memset(orders, 0, sizeof *orders);
}

/* Replaces what was read before only when all is well. */
static peal_status read_doc(struct reader *reader)
{
    peal_fabric *fabric = reader->fabric;
    struct topo_orders ring = {0}, tree = {0};
    peal_status status = read_graphs(reader, &ring, &tree);

    if (status == PEAL_OK) {
        struct topo_orders old = fabric->ring;
        fabric->ring = ring;
        ring = old;
        old = fabric->tree;
        fabric->tree = tree;
        tree = old;
        status = peal_topo_digest(fabric);
    }
    peal_topo_orders_free(fabric->ctx, &ring);
    peal_topo_orders_free(fabric->ctx, &tree);
    return status;
}

peal_status peal_fabric_graph_parse(peal_fabric *fabric, const char *data, size_t bytes,
                                    const char *name, peal_diag *diag)
{
    struct topo_doc doc;
    struct topo_arena arena;
    struct topo_notes notes = {.arena = &arena}; /* of what was repaired: not kept */

    if (!fabric || (!data && bytes))
        return peal_fail(diag, PEAL_ERR_ARG, "peal_fabric_graph_parse: a required pointer is NULL");
    struct reader reader = {fabric, &doc, diag, ranks_of_a_host(fabric)};
    name = name && name[0] ? name : "graph";
    if (!reader.ranks)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "%s: a graph file is of one host, and the hosts have different numbers of "
                         "ranks",
                         name);
    peal_topo_arena_init(&arena, fabric->ctx);
    peal_status status =
        peal_topo_doc_parse(fabric->ctx, data ? data : "", bytes, name, &notes, diag, &doc);
    if (status == PEAL_OK) {
        status = read_doc(&reader);
        peal_topo_doc_free(&doc);
    }
    peal_topo_notes_free(&notes);
    peal_topo_arena_free(&arena);
    if (status == PEAL_ERR_MEMORY)
        return peal_fail(diag, status, "%s: out of memory", name);
    return status;
}

peal_status peal_fabric_graph_load(peal_fabric *fabric, const char *path, peal_diag *diag)
{
    struct peal_buf text;

    if (!fabric || !path)
        return peal_fail(diag, PEAL_ERR_ARG, "peal_fabric_graph_load: a required pointer is NULL");
    peal_buf_init(&text, fabric->ctx, TOPO_FILE_LIMIT);
    peal_status status = peal_topo_file_read(path, 0, &text, diag);
    if (status == PEAL_OK)
        status = peal_fabric_graph_parse(fabric, text.data, text.used, path, diag);
    peal_buf_free(&text);
    return status;
}

const struct topo_orders *peal_topo_rings(const peal_fabric *fabric)
{
    return fabric->ring.channels ? &fabric->ring : NULL;
}

const struct topo_orders *peal_topo_trees(const peal_fabric *fabric)
{
    return fabric->tree.channels ? &fabric->tree : NULL;
}
