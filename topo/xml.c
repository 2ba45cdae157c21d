/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SAX side of libxml2 feeds the tree. Places of elements are found by walking
 * the text along with the parser, since SAX reports where a tag ends, not where it
 * starts. Limits are checked as the events come, so that nothing is built beyond
 * them.
 */
#include "xml.h"

#include "topo_file.h"

#include <libxml/parser.h>
#include <libxml/xmlerror.h>
#include <limits.h>
#include <string.h>

struct place {
    const char *at;
    const char *end;
    const char *line_start;
    uint32_t line;
};

struct reader {
    struct topo_doc *doc;
    peal_diag *diag;
    xmlParserCtxtPtr parser;
    struct place place;
    peal_status status;                /* the first error, which ends the parse */
    uint32_t open;                     /* innermost open element */
    uint32_t last[TOPO_XML_DEPTH + 1]; /* the last child at each depth */
    uint32_t depth;
};

/* ---- where tags start */

static void step_to(struct place *place, const char *to)
{
    for (; place->at < to; place->at++) {
        if (*place->at == '\n') {
            place->line++;
            place->line_start = place->at + 1;
        }
    }
}

static const char *find(const char *at, const char *end, const char *what)
{
    size_t length = strlen(what);

    for (; (size_t)(end - at) >= length; at++) {
        at = memchr(at, what[0], (size_t)(end - at));
        if (!at || (size_t)(end - at) < length)
            return end;
        if (memcmp(at, what, length) == 0)
            return at + length;
    }
    return end;
}

static int begins(const struct place *place, const char *what)
{
    size_t length = strlen(what);

    return (size_t)(place->end - place->at) >= length && memcmp(place->at, what, length) == 0;
}

static const char *tag_end(const char *at, const char *end)
{
    char quote = '\0';

    for (; at < end; at++) {
        if (quote) {
            if (*at == quote)
                quote = '\0';
        } else if (*at == '"' || *at == '\'') {
            quote = *at;
        } else if (*at == '>') {
            return at + 1;
        }
    }
    return end;
}

/* Moves to the next start tag, reports its place, and passes it. */
static void next_tag(struct place *place, uint32_t *line, uint32_t *column)
{
    for (;;) {
        const char *at = memchr(place->at, '<', (size_t)(place->end - place->at));

        step_to(place, at ? at : place->end);
        if (!at)
            break;
        if (begins(place, "<!--"))
            step_to(place, find(place->at + 4, place->end, "-->"));
        else if (begins(place, "<![CDATA["))
            step_to(place, find(place->at, place->end, "]]>"));
        else if (begins(place, "<?"))
            step_to(place, find(place->at, place->end, "?>"));
        else if (begins(place, "</") || begins(place, "<!"))
            step_to(place, tag_end(place->at, place->end));
        else
            break;
    }
    *line = place->line;
    *column = (uint32_t)(place->at - place->line_start) + 1;
    step_to(place, tag_end(place->at, place->end));
}

/* ---- errors */

static void stop(struct reader *reader, peal_status status)
{
    if (reader->status == PEAL_OK)
        reader->status = status;
    xmlStopParser(reader->parser);
}

static void refuse(struct reader *reader, peal_status status, const char *what)
{
    uint32_t line = reader->place.line;
    uint32_t column = (uint32_t)(reader->place.at - reader->place.line_start) + 1;

    if (reader->status == PEAL_OK)
        stop(reader,
             peal_fail_at(reader->diag, status, reader->doc->path, line, column, "%s", what));
}

static void out_of_memory(struct reader *reader)
{
    stop(reader, peal_fail(reader->diag, PEAL_ERR_MEMORY, "out of memory while reading %s",
                           reader->doc->path));
}

#if LIBXML_VERSION >= 21200
static void on_error(void *user, const xmlError *error)
#else
static void on_error(void *user, xmlError *error)
#endif
{
    struct reader *reader = user;
    char text[256];
    size_t length;

    if (reader->status != PEAL_OK || error->level < XML_ERR_ERROR ||
        error->domain == XML_FROM_NAMESPACE)
        return;
    if (error->code == XML_ERR_NO_MEMORY) {
        out_of_memory(reader);
        return;
    }
    peal_copy_text(text, sizeof text, error->message ? error->message : "unknown error");
    length = strlen(text);
    while (length && (text[length - 1] == '\n' || text[length - 1] == ' '))
        text[--length] = '\0';
    stop(reader, peal_fail_at(reader->diag, PEAL_ERR_INPUT, reader->doc->path,
                              error->line > 0 ? (uint32_t)error->line : 1,
                              error->int2 > 0 ? (uint32_t)error->int2 : 1,
                              "not well-formed XML: %s", text));
}

/* ---- events */

static const char *keep_name(struct topo_doc *doc, const xmlChar *prefix, const xmlChar *local)
{
    size_t head = prefix ? strlen((const char *)prefix) + 1 : 0;
    size_t tail = strlen((const char *)local);
    char *name = peal_topo_arena_alloc(&doc->arena, head + tail + 1);

    if (name && head) {
        memcpy(name, prefix, head - 1);
        name[head - 1] = ':';
    }
    if (name)
        memcpy(name + head, local, tail);
    return name;
}

/* Where entities are not replaced, libxml2 hands &amp; on as &#38;. */
static void decode_ampersands(char *value)
{
    char *to = value;

    for (const char *from = value; *from; to++) {
        int escaped = strncmp(from, "&#38;", 5) == 0;

        *to = *from;
        from += escaped ? 5 : 1;
    }
    *to = '\0';
}

static peal_status add_attributes(struct topo_doc *doc, struct topo_elem *elem, size_t count,
                                  const xmlChar **values)
{
    void *list = doc->attr;
    peal_status status = peal_grow(doc->ctx, &list, &doc->attr_room, (size_t)doc->attrs + count,
                                   sizeof *doc->attr, UINT32_MAX);

    doc->attr = list;
    PEAL_TRY(status);
    elem->attr = doc->attrs;
    elem->attrs = (uint32_t)count;
    for (size_t i = 0; i < count; i++, values += 5) {
        size_t bytes = (size_t)(values[4] - values[3]);
        struct topo_attr *attr = &doc->attr[doc->attrs];
        char *value = peal_topo_arena_text(&doc->arena, (const char *)values[3], bytes);

        attr->name = keep_name(doc, values[1], values[0]);
        if (!attr->name || !value)
            return PEAL_ERR_MEMORY;
        decode_ampersands(value);
        attr->value = value;
        doc->attrs++;
    }
    return PEAL_OK;
}

static int within_limits(struct reader *reader, int count, const xmlChar **values)
{
    if (reader->depth >= TOPO_XML_DEPTH)
        refuse(reader, PEAL_ERR_LIMIT, "elements nested deeper than 64");
    else if (reader->doc->elems >= TOPO_XML_ELEMENTS)
        refuse(reader, PEAL_ERR_LIMIT, "more than 1000000 elements");
    else if (count > (int)TOPO_XML_ATTRIBUTES)
        refuse(reader, PEAL_ERR_LIMIT, "more than 64 attributes on one element");
    for (int i = 0; i < count; i++) {
        if (values[5 * i + 4] - values[5 * i + 3] > (ptrdiff_t)TOPO_XML_VALUE)
            refuse(reader, PEAL_ERR_LIMIT, "an attribute value longer than 8192 bytes");
    }
    return reader->status == PEAL_OK;
}

static void on_start(void *user, const xmlChar *local, const xmlChar *prefix, const xmlChar *uri,
                     int namespaces, const xmlChar **spaces, int count, int defaulted,
                     const xmlChar **values)
{
    struct reader *reader = user;
    struct topo_doc *doc = reader->doc;
    struct place before = reader->place;
    struct topo_elem *elem;
    void *list = doc->elem;
    peal_status status;
    uint32_t index = doc->elems;
    uint32_t line;
    uint32_t column;

    (void)uri, (void)namespaces, (void)spaces, (void)defaulted;
    if (reader->status != PEAL_OK)
        return;
    next_tag(&reader->place, &line, &column);
    if (reader->depth >= TOPO_XML_DEPTH || count > (int)TOPO_XML_ATTRIBUTES)
        reader->place = before; /* report the parent's end, the nearest place */
    if (!within_limits(reader, count, values))
        return;
    status = peal_grow(doc->ctx, &list, &doc->elem_room, (size_t)index + 1, sizeof *doc->elem,
                       TOPO_XML_ELEMENTS);
    doc->elem = list;
    if (status != PEAL_OK) {
        out_of_memory(reader);
        return;
    }
    elem = &doc->elem[index];
    memset(elem, 0, sizeof *elem);
    elem->line = line;
    elem->column = column;
    elem->parent = reader->open;
    elem->child = elem->next = TOPO_XML_NONE;
    elem->name = keep_name(doc, prefix, local);
    if (!elem->name || add_attributes(doc, elem, (size_t)count, values) != PEAL_OK) {
        out_of_memory(reader);
        return;
    }
    if (reader->last[reader->depth] != TOPO_XML_NONE)
        doc->elem[reader->last[reader->depth]].next = index;
    else if (reader->open != TOPO_XML_NONE)
        doc->elem[reader->open].child = index;
    reader->last[reader->depth] = index;
    reader->depth++;
    reader->last[reader->depth] = TOPO_XML_NONE;
    reader->open = index;
    doc->elems++;
}

static void on_end(void *user, const xmlChar *local, const xmlChar *prefix, const xmlChar *uri)
{
    struct reader *reader = user;

    (void)local, (void)prefix, (void)uri;
    if (reader->status != PEAL_OK || reader->open == TOPO_XML_NONE)
        return;
    reader->open = reader->doc->elem[reader->open].parent;
    reader->depth--;
}

static void on_text(void *user, const xmlChar *text, int bytes)
{
    struct reader *reader = user;

    if (reader->status != PEAL_OK || reader->open == TOPO_XML_NONE)
        return;
    for (int i = 0; i < bytes; i++) {
        if (!strchr(" \t\r\n", text[i]) && !reader->doc->elem[reader->open].text)
            reader->doc->elem[reader->open].text = reader->place.line;
    }
}

static void on_doctype(void *user, const xmlChar *name, const xmlChar *external,
                       const xmlChar *system)
{
    (void)name, (void)external, (void)system;
    refuse(user, PEAL_ERR_INPUT,
           "a document type declaration, which topology files do not have; remove it");
}

/* ---- the parse */

static peal_status check_bytes(const char *data, size_t bytes, const char *path, peal_diag *diag)
{
    uint32_t line = 1;
    const char *start = data;

    if (bytes > TOPO_FILE_LIMIT || bytes > INT_MAX)
        return peal_fail_at(diag, PEAL_ERR_LIMIT, path, 0, 0,
                            "larger than 64 MiB, the limit of a topology file");
    for (const char *p = data; p < data + bytes; p++) {
        if (*p == '\0')
            return peal_fail_at(diag, PEAL_ERR_INPUT, path, line, (uint32_t)(p - start) + 1,
                                "a NUL byte; expected XML text in UTF-8");
        if (*p == '\n') {
            line++;
            start = p + 1;
        }
    }
    return PEAL_OK;
}

static peal_status run(struct reader *reader, const char *text, size_t bytes)
{
    xmlSAXHandler sax;
    int ok;

    memset(&sax, 0, sizeof sax);
    sax.initialized = XML_SAX2_MAGIC;
    sax.startElementNs = on_start;
    sax.endElementNs = on_end;
    sax.characters = on_text;
    sax.cdataBlock = on_text;
    sax.internalSubset = on_doctype;
    sax.serror = on_error;
    reader->parser = xmlCreatePushParserCtxt(&sax, reader, NULL, 0, NULL);
    if (!reader->parser)
        return peal_fail(reader->diag, PEAL_ERR_MEMORY, "out of memory while reading %s",
                         reader->doc->path);
    (void)xmlCtxtUseOptions(reader->parser, XML_PARSE_NONET | XML_PARSE_IGNORE_ENC);
    ok = xmlParseChunk(reader->parser, text, (int)bytes, 1) == 0 && reader->parser->wellFormed;
    xmlFreeParserCtxt(reader->parser);
    if (reader->status == PEAL_OK && (!ok || reader->doc->elems == 0)) {
        step_to(&reader->place, reader->place.end);
        reader->status =
            peal_fail_at(reader->diag, PEAL_ERR_INPUT, reader->doc->path, reader->place.line,
                         (uint32_t)(reader->place.at - reader->place.line_start) + 1,
                         "not well-formed XML: the document ends before its root element does");
    }
    return reader->status;
}

peal_status peal_topo_doc_parse(peal_ctx *ctx, const char *data, size_t bytes, const char *path,
                                struct topo_notes *notes, peal_diag *diag, struct topo_doc *doc)
{
    struct reader reader;
    char *text;
    peal_status status;

    memset(doc, 0, sizeof *doc);
    doc->ctx = ctx;
    doc->path = path;
    peal_topo_arena_init(&doc->arena, ctx);
    PEAL_TRY(check_bytes(data, bytes, path, diag));
    if (bytes == 0)
        return peal_fail_at(diag, PEAL_ERR_INPUT, path, 1, 1, "the file is empty");
    text = peal_alloc(ctx, bytes);
    if (!text)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory while reading %s", path);
    memcpy(text, data, bytes);
    status = peal_topo_repair(text, bytes, notes);
    if (status == PEAL_OK) {
        memset(&reader, 0, sizeof reader);
        reader.doc = doc;
        reader.diag = diag;
        reader.open = TOPO_XML_NONE;
        reader.last[0] = TOPO_XML_NONE;
        reader.place.at = reader.place.line_start = text;
        reader.place.end = text + bytes;
        reader.place.line = 1;
        status = run(&reader, text, bytes);
    } else {
        status = peal_fail(diag, status, "out of memory while reading %s", path);
    }
    peal_free(ctx, text, bytes);
    if (status != PEAL_OK)
        peal_topo_doc_free(doc);
    return status;
}

void peal_topo_doc_free(struct topo_doc *doc)
{
    peal_free(doc->ctx, doc->elem, doc->elem_room * sizeof *doc->elem);
    peal_free(doc->ctx, doc->attr, doc->attr_room * sizeof *doc->attr);
    peal_topo_arena_free(&doc->arena);
    doc->elem = NULL;
    doc->attr = NULL;
    doc->elems = doc->elem_room = doc->attrs = doc->attr_room = 0;
}

/* ---- looking */

const char *peal_topo_attr(const struct topo_doc *doc, const struct topo_elem *elem,
                           const char *name)
{
    for (uint32_t i = 0; i < elem->attrs; i++) {
        if (strcmp(doc->attr[elem->attr + i].name, name) == 0)
            return doc->attr[elem->attr + i].value;
    }
    return NULL;
}

const struct topo_elem *peal_topo_first(const struct topo_doc *doc, const struct topo_elem *elem)
{
    return elem->child == TOPO_XML_NONE ? NULL : &doc->elem[elem->child];
}

const struct topo_elem *peal_topo_next(const struct topo_doc *doc, const struct topo_elem *elem)
{
    return elem->next == TOPO_XML_NONE ? NULL : &doc->elem[elem->next];
}

const struct topo_elem *peal_topo_child(const struct topo_doc *doc, const struct topo_elem *elem,
                                        const char *name)
{
    const struct topo_elem *child = peal_topo_first(doc, elem);

    while (child && strcmp(child->name, name) != 0)
        child = peal_topo_next(doc, child);
    return child;
}
