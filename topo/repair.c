/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor libraries' own parser is not an XML parser, and their files show it:
 * licence banners drawn with hyphens, ` =""` left behind by extra blanks, an
 * attribute given twice, an ampersand alone. Each is overwritten in place, so lines
 * and columns stay true, and a warning names the line.
 */
#include "xml.h"

#include <string.h>

struct scan {
    char *at;
    char *end;
    uint32_t line;
    struct topo_notes *notes;
};

static int blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void pass(struct scan *scan, const char *to)
{
    for (; scan->at < to; scan->at++)
        scan->line += *scan->at == '\n';
}

static char *find(char *at, const char *end, const char *what)
{
    size_t length = strlen(what);

    for (; (size_t)(end - at) >= length; at++) {
        if (memcmp(at, what, length) == 0)
            return at;
    }
    return NULL;
}

/* "--" may not stand inside a comment, nor "-" before its end. */
static peal_status comment(struct scan *scan)
{
    char *inside = scan->at + 4;
    char *close = find(inside, scan->end, "-->");
    uint32_t line = scan->line;
    int bad;

    if (!close) {
        scan->at = scan->end; /* unterminated: the parser will say so */
        return PEAL_OK;
    }
    bad = find(inside, close, "--") != NULL || (close > inside && close[-1] == '-');
    for (char *p = inside; bad && p < close; p++) {
        if (*p == '-')
            *p = ' ';
    }
    pass(scan, close + 3);
    if (bad)
        return peal_topo_warn(scan->notes, line,
                              "a comment holds a double hyphen, which XML forbids; read as the "
                              "vendor libraries read it");
    return PEAL_OK;
}

static int entity_follows(const char *at, const char *end)
{
    const char *p = at + 1;

    if (p < end && *p == '#')
        p++;
    for (; p < end && p - at < 12; p++) {
        if (*p == ';')
            return p > at + 1;
        if (!((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')))
            return 0;
    }
    return 0;
}

static peal_status value_ampersands(struct scan *scan, char *from, const char *to)
{
    for (char *p = from; p < to; p++) {
        if (*p != '&' || entity_follows(p, to))
            continue;
        *p = '_';
        PEAL_TRY(peal_topo_warn(scan->notes, scan->line,
                                "a bare '&' in an attribute is read as '_'; XML writes &amp;"));
    }
    return PEAL_OK;
}

static void wipe(char *from, const char *to)
{
    for (; from < to; from++) {
        if (!blank(*from))
            *from = ' ';
    }
}

struct names {
    const char *start[TOPO_XML_ATTRIBUTES];
    size_t length[TOPO_XML_ATTRIBUTES];
    uint32_t count;
};

static int seen(const struct names *names, const char *name, size_t length)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (names->length[i] == length && memcmp(names->start[i], name, length) == 0)
            return 1;
    }
    return 0;
}

/* One name="value"; moves past it. Leaves alone what does not look like one. */
static peal_status attribute(struct scan *scan, struct names *names)
{
    char *name = scan->at;
    char *p = name;
    char *equals;
    char *close;
    size_t length;

    while (p < scan->end && !blank(*p) && !strchr("=<>/\"'", *p))
        p++;
    length = (size_t)(p - name);
    while (p < scan->end && blank(*p))
        p++;
    equals = p;
    if (p >= scan->end || *p != '=') {
        pass(scan, p > name ? p : p + 1);
        return PEAL_OK;
    }
    for (p++; p < scan->end && blank(*p);)
        p++;
    if (p >= scan->end || (*p != '"' && *p != '\'')) {
        pass(scan, equals + 1);
        return PEAL_OK;
    }
    close = memchr(p + 1, *p, (size_t)(scan->end - p - 1));
    if (!close) {
        pass(scan, scan->end);
        return PEAL_OK;
    }
    if (length == 0) {
        wipe(name, close + 1);
        PEAL_TRY(peal_topo_warn(scan->notes, scan->line, "an attribute without a name is ignored"));
    } else if (seen(names, name, length)) {
        PEAL_TRY(peal_topo_warn(scan->notes, scan->line,
                                "attribute %.*s is given twice; the first counts",
                                (int)(length < 40 ? length : 40), name));
        wipe(name, close + 1);
    } else {
        PEAL_TRY(value_ampersands(scan, p + 1, close));
        if (names->count < TOPO_XML_ATTRIBUTES) {
            names->start[names->count] = name;
            names->length[names->count++] = length;
        }
    }
    pass(scan, close + 1);
    return PEAL_OK;
}

static peal_status tag(struct scan *scan)
{
    struct names names = {.count = 0};

    while (scan->at < scan->end && !blank(*scan->at) && *scan->at != '>')
        scan->at++;
    while (scan->at < scan->end && *scan->at != '>' && *scan->at != '<') {
        if (blank(*scan->at) || *scan->at == '/')
            pass(scan, scan->at + 1);
        else
            PEAL_TRY(attribute(scan, &names));
    }
    return PEAL_OK;
}

peal_status peal_topo_repair(char *text, size_t bytes, struct topo_notes *notes)
{
    struct scan scan = {text, text + bytes, 1, notes};

    while (scan.at < scan.end) {
        char *next = memchr(scan.at, '<', (size_t)(scan.end - scan.at));

        pass(&scan, next ? next : scan.end);
        if (!next)
            break;
        if (scan.end - next >= 4 && memcmp(next, "<!--", 4) == 0)
            PEAL_TRY(comment(&scan));
        else if (scan.end - next >= 2 && (next[1] == '!' || next[1] == '?' || next[1] == '/'))
            pass(&scan, next + 2);
        else
            PEAL_TRY(tag(&scan));
    }
    return PEAL_OK;
}
