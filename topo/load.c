/* SPDX-License-Identifier: Apache-2.0 */
/* The entry points: bytes or a file to a fabric, by the name of the root element. */
#include "fabric.h"
#include "topo_file.h"
#include "xml.h"

#include <string.h>

/* ---- types and spans */

peal_status peal_topo_add_type(peal_fabric *fabric, const struct topo_type *type,
                               uint32_t *index_out)
{
    void *list = fabric->type;
    peal_status status = peal_grow(fabric->ctx, &list, &fabric->type_room,
                                   (size_t)fabric->types + 1, sizeof *type, TOPO_TYPES_MAX);

    fabric->type = list;
    PEAL_TRY(status);
    *index_out = fabric->types;
    fabric->type[fabric->types++] = *type;
    return PEAL_OK;
}

peal_status peal_topo_add_span(peal_fabric *fabric, uint32_t type, uint32_t count)
{
    struct topo_span span = {.type = type, .count = count};
    void *list = fabric->span;
    peal_status status = peal_grow(fabric->ctx, &list, &fabric->span_room,
                                   (size_t)fabric->spans + 1, sizeof span, TOPO_SPANS_MAX);

    fabric->span = list;
    PEAL_TRY(status);
    fabric->span[fabric->spans++] = span;
    return PEAL_OK;
}

/* ---- a fabric's life */

static peal_status make(peal_ctx *ctx, const char *name, peal_fabric **fabric_out)
{
    peal_fabric *fabric = peal_calloc(ctx, 1, sizeof *fabric);

    if (!fabric)
        return PEAL_ERR_MEMORY;
    fabric->ctx = ctx;
    peal_topo_arena_init(&fabric->arena, ctx);
    fabric->notes.arena = &fabric->arena;
    fabric->name = peal_topo_arena_text(&fabric->arena, name, strlen(name));
    fabric->file = fabric->notes.path = fabric->name;
    fabric->network.oversubscription = 1;
    fabric->network.buffer_mib = fabric->network.pfc = fabric->network.ecn = -1;
    peal_topo_profile_init(&fabric->profile);
    if (!fabric->name) {
        peal_fabric_destroy(fabric);
        return PEAL_ERR_MEMORY;
    }
    *fabric_out = fabric;
    return PEAL_OK;
}

void peal_fabric_destroy(peal_fabric *fabric)
{
    peal_ctx *ctx;
    size_t ups;

    if (!fabric)
        return;
    ctx = fabric->ctx;
    ups = (size_t)fabric->network.groups * fabric->network.rails;
    for (uint32_t t = 0; t < fabric->types; t++)
        peal_topo_type_free(ctx, &fabric->type[t]);
    peal_free(ctx, fabric->type, fabric->type_room * sizeof *fabric->type);
    peal_free(ctx, fabric->span, fabric->span_room * sizeof *fabric->span);
    peal_free(ctx, fabric->slow, fabric->slow_room * sizeof *fabric->slow);
    peal_free(ctx, fabric->listed, fabric->listed_room * sizeof *fabric->listed);
    peal_topo_orders_free(ctx, &fabric->ring);
    peal_topo_orders_free(ctx, &fabric->tree);
    peal_free(ctx, fabric->network.up_gbs, ups * sizeof *fabric->network.up_gbs);
    peal_topo_notes_free(&fabric->notes);
    peal_topo_arena_free(&fabric->arena);
    peal_free(ctx, fabric, sizeof *fabric);
}

/* What all fabrics need once their types and spans are there. */
static peal_status finish(peal_fabric *fabric, peal_diag *diag)
{
    peal_topo_profile_swap(&fabric->profile, fabric->swap, fabric->swaps);
    fabric->swap = NULL; /* the caller's */
    fabric->swaps = 0;
    for (uint32_t t = 0; t < fabric->types; t++) {
        peal_topo_profile_apply(&fabric->profile, &fabric->type[t]);
        fabric->notes.path = fabric->type[t].path ? fabric->type[t].path : fabric->file;
        PEAL_TRY(peal_topo_route_type(fabric, &fabric->type[t]));
    }
    fabric->notes.path = fabric->file;
    PEAL_TRY(peal_topo_number(fabric, diag));
    peal_topo_profile_finish(fabric);
    PEAL_TRY(peal_topo_list_links(fabric));
    PEAL_TRY(peal_topo_memory_check(fabric));
    peal_topo_notes_sort(&fabric->notes);
    return peal_topo_digest(fabric);
}

/* ---- reading */

static const char *text_of(peal_fabric *fabric, const char *text)
{
    return text && text[0] ? peal_topo_arena_text(&fabric->arena, text, strlen(text)) : NULL;
}

static int is_rccl(const struct topo_doc *doc)
{
    const char *version = peal_topo_attr(doc, doc->elem, "version");

    if (version && peal_streq(version, "2"))
        return 1;
    for (uint32_t e = 0; e < doc->elems; e++) {
        if (peal_streq(doc->elem[e].name, "xgmi") || peal_topo_attr(doc, &doc->elem[e], "gcn"))
            return 1;
    }
    return 0;
}

static peal_status read_bare_system(peal_fabric *fabric, const struct topo_doc *doc,
                                    peal_diag *diag)
{
    struct topo_type type = {.path = fabric->file};
    const char *name = text_of(fabric, peal_topo_attr(doc, doc->elem, "name"));
    uint32_t index;
    peal_status status = peal_topo_read_system(fabric, doc, doc->elem, &type, diag);

    if (status == PEAL_OK)
        status = peal_topo_add_type(fabric, &type, &index);
    if (status != PEAL_OK) {
        peal_topo_type_free(fabric->ctx, &type);
        return status;
    }
    fabric->dialect = is_rccl(doc) ? "rccl" : "nccl";
    if (name)
        fabric->name = name;
    fabric->type[index].name = fabric->name;
    return peal_topo_add_span(fabric, index, 1);
}

static peal_status read_root(peal_fabric *fabric, const struct topo_doc *doc, const char *base_dir,
                             peal_diag *diag)
{
    const char *root = doc->elem->name;

    if (peal_streq(root, "system"))
        return read_bare_system(fabric, doc, diag);
    if (peal_streq(root, "peal")) {
        fabric->dialect = "cluster";
        return peal_topo_read_cluster(fabric, doc, base_dir, diag);
    }
    return peal_fail_at(
        diag, PEAL_ERR_INPUT, doc->path, doc->elem->line, doc->elem->column,
        "root element <%.60s>%s: expected <system> (NCCL topology) or <peal> (cluster)", root,
        peal_streq(root, "graphs") ? " is a graph file (NCCL_GRAPH_FILE), not a topology"
        : peal_streq(root, "algo") ? " is an MSCCL algorithm, not a topology"
                                   : "");
}

static peal_status parse(peal_fabric *fabric, const char *data, size_t bytes, const char *base_dir,
                         peal_diag *diag)
{
    struct topo_doc doc;
    peal_status status;

    PEAL_TRY(
        peal_topo_doc_parse(fabric->ctx, data, bytes, fabric->file, &fabric->notes, diag, &doc));
    status = read_root(fabric, &doc, base_dir, diag);
    peal_topo_doc_free(&doc);
    PEAL_TRY(status);
    return finish(fabric, diag);
}

/* Statuses that come from deep inside without a text get one here. */
static peal_status explain(peal_status status, const char *name, peal_diag *diag)
{
    if (!diag || status == PEAL_OK || (diag->status == status && diag->text[0]))
        return status;
    return peal_fail(diag, status, "%s: %s", name,
                     status == PEAL_ERR_MEMORY  ? "out of memory"
                     : status == PEAL_ERR_LIMIT ? "more nodes, links or ranks than the limits in "
                                                  "docs/topology-xml.md"
                                                : peal_status_text(status));
}

static peal_status deliver(peal_fabric *fabric, peal_status status, const char *name,
                           peal_diag *diag, peal_fabric **fabric_out)
{
    if (status != PEAL_OK) {
        peal_fabric_destroy(fabric);
        return explain(status, name, diag);
    }
    *fabric_out = fabric;
    return PEAL_OK;
}

static void clear(peal_diag *diag)
{
    if (diag && diag->size >= sizeof *diag) {
        diag->status = PEAL_OK;
        diag->text[0] = '\0';
    }
}

struct source {
    const char *name;
    const char *base_dir;
    int reach_out; /* the cluster's references may leave base_dir */
    const peal_swap *swap;
    uint32_t swaps;
};

static peal_status from_text(peal_ctx *ctx, const char *data, size_t bytes,
                             const struct source *source, peal_diag *diag, peal_fabric **fabric_out)
{
    peal_fabric *fabric = NULL;
    peal_status status = make(ctx, source->name, &fabric);

    if (status == PEAL_OK) {
        fabric->references_reach_out = source->reach_out;
        fabric->swap = source->swap;
        fabric->swaps = source->swaps;
        status = parse(fabric, data ? data : "", bytes, source->base_dir, diag);
    }
    return deliver(fabric, status, source->name, diag, fabric_out);
}

peal_status peal_fabric_parse(peal_ctx *ctx, const char *data, size_t bytes, const char *name,
                              const char *base_dir, peal_diag *diag, peal_fabric **fabric_out)
{
    clear(diag);
    if (!ctx || (!data && bytes) || !fabric_out)
        return peal_fail(diag, PEAL_ERR_ARG, "peal_fabric_parse: a required pointer is NULL");
    if (!name || !name[0])
        name = "topology";
    return from_text(ctx, data, bytes, &(struct source){name, base_dir, 0, NULL, 0}, diag,
                     fabric_out);
}

/* The directory part of a path, "." where there is none. */
static peal_status directory(const char *path, struct peal_buf *buf)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        peal_buf_str(buf, ".");
    else
        peal_buf_put(buf, path, slash == path ? 1 : (size_t)(slash - path));
    peal_buf_put(buf, "", 1);
    return buf->status;
}

static peal_status from_file(peal_ctx *ctx, const char *path, const peal_swap *swap, uint32_t swaps,
                             peal_diag *diag, peal_fabric **fabric_out)
{
    struct peal_buf text;
    struct peal_buf base;
    peal_status status;

    peal_buf_init(&text, ctx, TOPO_FILE_LIMIT);
    peal_buf_init(&base, ctx, 4096);
    status = peal_topo_file_read(path, 0, &text, diag);
    if (status == PEAL_OK)
        status = directory(path, &base);
    if (status == PEAL_OK)
        status = from_text(ctx, text.data, text.used,
                           &(struct source){path, base.data, 1, swap, swaps}, diag, fabric_out);
    else
        status = explain(status, path, diag);
    peal_buf_free(&text);
    peal_buf_free(&base);
    return status;
}

peal_status peal_fabric_load(peal_ctx *ctx, const char *path, peal_diag *diag,
                             peal_fabric **fabric_out)
{
    clear(diag);
    if (!ctx || !path || !fabric_out)
        return peal_fail(diag, PEAL_ERR_ARG, "peal_fabric_load: a required pointer is NULL");
    return from_file(ctx, path, NULL, 0, diag, fabric_out);
}

static int swaps_links(const peal_swap *swap)
{
    return swap->size == sizeof *swap && swap->link_class > PEAL_LINK_LOOPBACK &&
           swap->link_class <= PEAL_LINK_NET && swap->beta_gbs >= 0 && swap->beta_gbs <= 1e6 &&
           swap->alpha_us <= 1e6;
}

peal_status peal_fabric_load_swapped(peal_ctx *ctx, const char *path, const peal_swap *swaps,
                                     uint32_t nswaps, peal_diag *diag, peal_fabric **fabric_out)
{
    clear(diag);
    if (!ctx || !path || !fabric_out || (nswaps && !swaps))
        return peal_fail(diag, PEAL_ERR_ARG,
                         "peal_fabric_load_swapped: a required pointer is NULL");
    for (uint32_t i = 0; i < nswaps; i++)
        if (!swaps_links(&swaps[i]))
            return peal_fail(diag, PEAL_ERR_ARG,
                             "a swap needs a class of links, and at most 1e6 GB/s and us");
    return from_file(ctx, path, swaps, nswaps, diag, fabric_out);
}

peal_status peal_fabric_host(peal_ctx *ctx, uint32_t ranks, peal_diag *diag,
                             peal_fabric **fabric_out)
{
    struct topo_type type = {.name = "host"};
    peal_fabric *fabric = NULL;
    uint32_t index;
    peal_status status;

    clear(diag);
    if (!ctx || !fabric_out || !ranks || ranks > TOPO_RANKS_MAX)
        return peal_fail(diag, PEAL_ERR_ARG, "peal_fabric_host: expected 1 to %u ranks",
                         (unsigned)TOPO_RANKS_MAX);
    PEAL_TRY(explain(make(ctx, "host", &fabric), "host", diag));
    fabric->dialect = "host";
    status = peal_topo_shared_memory(fabric, &type, ranks);
    if (status == PEAL_OK)
        status = peal_topo_add_type(fabric, &type, &index);
    if (status != PEAL_OK)
        peal_topo_type_free(ctx, &type);
    if (status == PEAL_OK)
        status = peal_topo_add_span(fabric, index, 1);
    if (status == PEAL_OK)
        status = finish(fabric, diag);
    return deliver(fabric, status, "host", diag, fabric_out);
}
