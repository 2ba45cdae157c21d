/* SPDX-License-Identifier: Apache-2.0 */
/* The path search inside one host. */
#ifndef PEAL_TOPO_ROUTE_H
#define PEAL_TOPO_ROUTE_H

#include "fabric.h"

/* The best way from the source to a node. */
struct topo_label {
    uint32_t link; /* its last link; TOPO_NONE: the source, or not reached */
    uint32_t hops;
    peal_link_class link_class; /* the farthest on the way */
    int host;                   /* 1: crosses, or ends at, a CPU */
    int settled;
    double gbs; /* the narrowest on the way */
};

struct topo_search;
peal_status peal_topo_search_init(struct topo_search **search_out, peal_ctx *ctx,
                                  const struct topo_type *type);
void peal_topo_search_free(struct topo_search *search);
/* Labels of all nodes, valid until the next search. Needs peal_topo_index_links. */
const struct topo_label *peal_topo_search_from(struct topo_search *search, uint32_t source);
/* Appends the links from the search's source to `node` to the type's hops. */
peal_status peal_topo_keep_route(peal_ctx *ctx, struct topo_type *type,
                                 const struct topo_label *label, uint32_t node, uint32_t *first,
                                 uint32_t *count);

#endif
