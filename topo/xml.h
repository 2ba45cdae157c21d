/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XML from strangers into a small tree with real lines and columns. libxml2 does
 * the parsing; no network, no entities, no document types, no inclusion.
 */
#ifndef PEAL_TOPO_XML_H
#define PEAL_TOPO_XML_H

#include "notes.h"

#define TOPO_XML_NONE UINT32_MAX
#define TOPO_XML_DEPTH 64u
#define TOPO_XML_ELEMENTS 1000000u
#define TOPO_XML_ATTRIBUTES 64u /* of one element */
#define TOPO_XML_VALUE 8192u    /* bytes of one value */

struct topo_attr {
    const char *name;
    const char *value;
};

struct topo_elem {
    const char *name;
    uint32_t line;
    uint32_t column;
    uint32_t parent; /* element indices, TOPO_XML_NONE where there is none */
    uint32_t child;
    uint32_t next;
    uint32_t attr; /* first of `attrs` in the document's list */
    uint32_t attrs;
    uint32_t text; /* line of the first text that is not blank, 0 none */
};

struct topo_doc {
    peal_ctx *ctx;
    const char *path;
    struct topo_arena arena;
    struct topo_elem *elem; /* in document order, the root first */
    uint32_t elems;
    uint32_t elem_room;
    struct topo_attr *attr;
    uint32_t attrs;
    uint32_t attr_room;
};

/* Parses `bytes` bytes. What the vendor libraries read but XML forbids is repaired with a
 * warning where that keeps every line and column. Errors: INPUT, LIMIT, MEMORY. On success
 * the caller frees the document; on an error it is empty. */
peal_status peal_topo_doc_parse(peal_ctx *ctx, const char *data, size_t bytes, const char *path,
                                struct topo_notes *notes, peal_diag *diag, struct topo_doc *doc);
void peal_topo_doc_free(struct topo_doc *doc);

/* The value of an attribute; NULL when it is absent. */
const char *peal_topo_attr(const struct topo_doc *doc, const struct topo_elem *elem,
                           const char *name);
/* The first child of that name; NULL when there is none. */
const struct topo_elem *peal_topo_child(const struct topo_doc *doc, const struct topo_elem *elem,
                                        const char *name);
/* Walks children: for (e = first(doc, elem); e; e = next(doc, e)). */
const struct topo_elem *peal_topo_first(const struct topo_doc *doc, const struct topo_elem *elem);
const struct topo_elem *peal_topo_next(const struct topo_doc *doc, const struct topo_elem *elem);

/* Rewrites text in place so that XML admits what the vendor libraries read: hyphens inside
 * comments, attributes without a name, attributes given twice, bare ampersands. Never
 * changes a length or a line. */
peal_status peal_topo_repair(char *text, size_t bytes, struct topo_notes *notes);

#endif
