/* SPDX-License-Identifier: Apache-2.0 */
/* The growing lists of a host type. */
#include "fabric.h"

#include <string.h>

/* Appends one element of `bytes` to a list. */
static peal_status append(peal_ctx *ctx, void **list, uint32_t *count, uint32_t *room,
                          const void *elem, size_t bytes, size_t limit, uint32_t *index_out)
{
    PEAL_TRY(peal_grow(ctx, list, room, (size_t)*count + 1, bytes, limit));
    memcpy((char *)*list + bytes * *count, elem, bytes);
    if (index_out)
        *index_out = *count;
    (*count)++;
    return PEAL_OK;
}

peal_status peal_topo_add_node(peal_ctx *ctx, struct topo_type *type, const struct topo_node *node,
                               uint32_t *index_out)
{
    void *list = type->node;
    peal_status status = append(ctx, &list, &type->nodes, &type->node_room, node, sizeof *node,
                                TOPO_NODES_MAX, index_out);

    type->node = list;
    return status;
}

peal_status peal_topo_add_resource(peal_ctx *ctx, struct topo_type *type,
                                   const struct topo_resource *resource, uint32_t *index_out)
{
    void *list = type->resource;
    peal_status status = append(ctx, &list, &type->resources, &type->resource_room, resource,
                                sizeof *resource, TOPO_LINKS_MAX * 2, index_out);

    type->resource = list;
    return status;
}

peal_status peal_topo_add_link(peal_ctx *ctx, struct topo_type *type, const struct topo_link *link,
                               uint32_t *index_out)
{
    struct topo_link made = *link;
    void *list;
    peal_status status;

    if (made.resource == TOPO_NONE) {
        struct topo_resource resource = {.kind = TOPO_RES_LINK,
                                         .link_class = link->link_class,
                                         .from = link->from,
                                         .to = link->to,
                                         .gbs = link->gbs};

        PEAL_TRY(peal_topo_add_resource(ctx, type, &resource, &made.resource));
    }
    list = type->link;
    status = append(ctx, &list, &type->links, &type->link_room, &made, sizeof made, TOPO_LINKS_MAX,
                    index_out);
    type->link = list;
    return status;
}

peal_status peal_topo_add_accel(peal_ctx *ctx, struct topo_type *type,
                                const struct topo_accel *accel)
{
    void *list = type->accel;
    peal_status status = append(ctx, &list, &type->accels, &type->accel_room, accel, sizeof *accel,
                                TOPO_ACCELS_MAX, NULL);

    type->accel = list;
    return status;
}

peal_status peal_topo_add_nic(peal_ctx *ctx, struct topo_type *type, const struct topo_nic *nic)
{
    void *list = type->nic;
    peal_status status =
        append(ctx, &list, &type->nics, &type->nic_room, nic, sizeof *nic, TOPO_NICS_MAX, NULL);

    type->nic = list;
    return status;
}

/* A counting sort by source node; links keep their order within one. */
peal_status peal_topo_index_links(peal_ctx *ctx, struct topo_type *type)
{
    uint32_t at = 0;

    peal_free(ctx, type->out, type->outs * sizeof *type->out);
    type->out = NULL;
    type->outs = 0;
    if (!type->links)
        return PEAL_OK;
    type->out = peal_calloc(ctx, type->links, sizeof *type->out);
    if (!type->out)
        return PEAL_ERR_MEMORY;
    type->outs = type->links;
    for (uint32_t n = 0; n < type->nodes; n++)
        type->node[n].degree = 0;
    for (uint32_t l = 0; l < type->links; l++)
        type->node[type->link[l].from].degree++;
    for (uint32_t n = 0; n < type->nodes; n++) {
        type->node[n].first = at;
        at += type->node[n].degree;
        type->node[n].degree = 0;
    }
    for (uint32_t l = 0; l < type->links; l++) {
        struct topo_node *node = &type->node[type->link[l].from];

        type->out[node->first + node->degree++] = l;
    }
    return PEAL_OK;
}

void peal_topo_type_free(peal_ctx *ctx, struct topo_type *type)
{
    size_t pairs = (size_t)type->accels * type->accels;

    peal_free(ctx, type->route, pairs * sizeof *type->route);
    peal_free(ctx, type->hop, type->hop_room * sizeof *type->hop);
    peal_free(ctx, type->out, type->outs * sizeof *type->out);
    peal_free(ctx, type->node, type->node_room * sizeof *type->node);
    peal_free(ctx, type->link, type->link_room * sizeof *type->link);
    peal_free(ctx, type->resource, type->resource_room * sizeof *type->resource);
    peal_free(ctx, type->accel, type->accel_room * sizeof *type->accel);
    peal_free(ctx, type->nic, type->nic_room * sizeof *type->nic);
    memset(type, 0, sizeof *type);
}
