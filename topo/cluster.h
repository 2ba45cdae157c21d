/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the cluster dialect share. */
#ifndef PEAL_TOPO_CLUSTER_H
#define PEAL_TOPO_CLUSTER_H

#include "fabric.h"
#include "xml.h"

struct cluster_reader {
    peal_fabric *fabric;
    const struct topo_doc *doc;
    peal_diag *diag;
    const char *base_dir; /* NULL: references are refused */
};

/* ERR_INPUT at the element: "<name>: what; expected expected". */
peal_status peal_topo_cluster_refuse(const struct cluster_reader *reader,
                                     const struct topo_elem *elem, const char *what,
                                     const char *expected);
/* ERR_INPUT for attributes beyond a NULL-terminated list, and for text. */
peal_status peal_topo_cluster_known(const struct cluster_reader *reader,
                                    const struct topo_elem *elem, const char *const *attributes,
                                    const char *expected);
/* ERR_INPUT when the element has children. */
peal_status peal_topo_cluster_leaf(const struct cluster_reader *reader,
                                   const struct topo_elem *elem);
/* A number within bounds; *out keeps its value when the attribute is absent. */
peal_status peal_topo_cluster_real(const struct cluster_reader *reader,
                                   const struct topo_elem *elem, const char *name, double least,
                                   double most, double *out);
peal_status peal_topo_cluster_count(const struct cluster_reader *reader,
                                    const struct topo_elem *elem, const char *name, uint32_t most,
                                    uint32_t *out);

/* ---- cluster_cost.c: <cost> and <reduce> */
peal_status peal_topo_cluster_cost(struct cluster_reader *reader, const struct topo_elem *elem);
peal_status peal_topo_cluster_memory(struct cluster_reader *reader, const struct topo_elem *elem);
/* ---- cluster_call.c: <call>s of a <memory> */
peal_status peal_topo_cluster_calls(struct cluster_reader *reader, const struct topo_elem *elem,
                                    struct topo_memory *memory);
peal_status peal_topo_cluster_reduce(struct cluster_reader *reader, const struct topo_elem *elem);
/* ---- cluster_host.c: <host> */
peal_status peal_topo_cluster_host(struct cluster_reader *reader, const struct topo_elem *elem);

#endif
