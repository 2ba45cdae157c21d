/* SPDX-License-Identifier: Apache-2.0 */
/* Columns with names between tabs: bytes and time_us, and what tells the series apart. */
#include "fit.h"

#include <string.h>

enum column {
    BYTES,
    TIME,
    SERIES,
    SYSTEM,
    COLLECTIVE,
    RANKS,
    NODES,
    LIBRARY,
    PROTOCOL,
    LINK,
    BUFFERS,
    COLUMNS
};

struct columns {
    uint32_t count;
    uint32_t at[COLUMNS]; /* UINT32_MAX: there is none */
};

static uint32_t cut(char *line, char **cell)
{
    uint32_t count = 0;
    while (count < FIT_WORDS) {
        cell[count++] = line;
        line += strcspn(line, "\t");
        if (*line == '\0')
            return count;
        *line++ = '\0';
    }
    return count;
}

static uint32_t column_of(const char *name)
{
    static const char *const names[COLUMNS] = {"bytes",      "time_us", "series", "system",
                                               "collective", "ranks",   "nodes",  "library",
                                               "protocol",   "link",    "buffers"};
    for (uint32_t c = 0; c < COLUMNS; c++)
        if (peal_streq(name, names[c]))
            return c;
    if (peal_streq(name, "size"))
        return BYTES;
    return peal_streq(name, "time") ? TIME : COLUMNS;
}

/* Columns of a size; logs have tabs too. */
int peal_fit_is_head(const char *line)
{
    static const char *const names[] = {"bytes", "size"};
    for (int i = 0; i < 2; i++) {
        size_t length = strlen(names[i]);
        for (const char *at = strstr(line, names[i]); at; at = strstr(at + 1, names[i]))
            if ((at == line || at[-1] == '\t') && strchr(line, '\t') &&
                (at[length] == '\0' || at[length] == '\t'))
                return 1;
    }
    return 0;
}

static peal_status wrong(const struct fit_text *text, const char *what, const char *cell)
{
    return peal_fail_at(text->diag, PEAL_ERR_INPUT, text->path, text->line, 0, "%s '%.60s'", what,
                        cell);
}

static peal_status read_head(struct fit_text *text, char *head, struct columns *columns)
{
    char *cell[FIT_WORDS];
    columns->count = cut(head, cell);
    for (uint32_t c = 0; c < COLUMNS; c++)
        columns->at[c] = UINT32_MAX;
    for (uint32_t i = 0; i < columns->count; i++) {
        uint32_t c = column_of(cell[i]);
        if (c == COLUMNS)
            continue;
        if (columns->at[c] != UINT32_MAX)
            return wrong(text, "two columns", cell[i]);
        columns->at[c] = i;
    }
    if (columns->at[BYTES] == UINT32_MAX || columns->at[TIME] == UINT32_MAX)
        return peal_fail_at(text->diag, PEAL_ERR_INPUT, text->path, text->line, 0,
                            "columns without 'bytes' and 'time_us'");
    return PEAL_OK;
}

static const char *cell_of(const struct columns *columns, char *const *cell, enum column c)
{
    return columns->at[c] == UINT32_MAX ? "" : cell[columns->at[c]];
}

static void name_series(const struct fit_text *text, const struct columns *columns,
                        char *const *cell, peal_series_info *info)
{
    peal_copy_text(info->name, sizeof info->name, cell_of(columns, cell, SERIES));
    for (uint32_t c = SYSTEM; c < COLUMNS && !*cell_of(columns, cell, SERIES); c++) {
        const char *part = cell_of(columns, cell, (enum column)c);
        size_t used = strlen(info->name);
        if (*part && used + 2 < sizeof info->name) {
            if (used)
                info->name[used++] = '/';
            peal_copy_text(info->name + used, sizeof info->name - used, part);
        }
    }
    if (!info->name[0])
        peal_copy_text(info->name, sizeof info->name, text->path);
}

static peal_status read_number(const struct fit_text *text, const char *cell, uint32_t *out)
{
    uint64_t value = 0;
    if (*cell && (!peal_fit_whole(cell, &value) || value > UINT32_MAX))
        return wrong(text, "no number of ranks or nodes:", cell);
    *out = (uint32_t)value;
    return PEAL_OK;
}

static peal_status read_about(const struct fit_text *text, const struct columns *columns,
                              char *const *cell, peal_series_info *info)
{
    const char *collective = cell_of(columns, cell, COLLECTIVE),
               *link = cell_of(columns, cell, LINK);
    const char *buffers = cell_of(columns, cell, BUFFERS);
    info->has_buffers = *buffers != '\0';
    info->private_buffers = peal_streq(buffers, "private");
    if (*buffers && !info->private_buffers && !peal_streq(buffers, "shared"))
        return wrong(text, "buffers that are not private or shared:", buffers);
    PEAL_TRY(read_number(text, cell_of(columns, cell, RANKS), &info->ranks));
    PEAL_TRY(read_number(text, cell_of(columns, cell, NODES), &info->nodes));
    if (*collective && peal_collective_parse(collective, &info->collective) != PEAL_OK)
        return wrong(text, "unknown collective", collective);
    if (*link && peal_link_class_parse(link, &info->link) != PEAL_OK)
        return wrong(text, "unknown class of links", link);
    peal_copy_text(info->system, sizeof info->system, cell_of(columns, cell, SYSTEM));
    info->has_collective = *collective != '\0';
    info->has_link = *link != '\0';
    name_series(text, columns, cell, info);
    return PEAL_OK;
}

static peal_status read_row(struct fit_text *text, const struct columns *columns, char *line)
{
    char *cell[FIT_WORDS];
    peal_point point;
    peal_series_info info = {.size = sizeof info};
    uint32_t count = cut(line, cell);
    if (count != columns->count)
        return peal_fail_at(text->diag, PEAL_ERR_INPUT, text->path, text->line, 0,
                            "%lu columns, where the first line names %lu", (unsigned long)count,
                            (unsigned long)columns->count);
    const char *bytes = cell_of(columns, cell, BYTES), *time = cell_of(columns, cell, TIME);
    if (!peal_fit_whole(bytes, &point.bytes) || !point.bytes)
        return wrong(text, "no size in bytes:", bytes);
    if (!peal_fit_real(time, &point.time_us) || !(point.time_us > 0))
        return wrong(text, "no time in microseconds:", time);
    PEAL_TRY(read_about(text, columns, cell, &info));
    return peal_fit_add(text->set, &info, &point, text->line);
}

peal_status peal_fit_columns(struct fit_text *text, char *head)
{
    struct columns columns;
    char line[FIT_LINE];
    int got;
    PEAL_TRY(read_head(text, head, &columns));
    for (;;) {
        PEAL_TRY(peal_fit_line(text, line, &got));
        if (!got)
            return PEAL_OK;
        if (got == FIT_LONG)
            return peal_fail_at(text->diag, PEAL_ERR_INPUT, text->path, text->line, 0,
                                "a line of more than %u bytes", FIT_LINE - 1);
        if (line[strspn(line, " \t")] && line[0] != '#')
            PEAL_TRY(read_row(text, &columns, line));
    }
}
