/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables that programs print: nccl-tests, rccl-tests and peal bench (a heading with size and time
 * behind a #), the OSU micro-benchmarks (Size and Latency or Bandwidth). Lines around them, which
 * logs are full of, are passed over; a line that begins with two numbers has to be a row.
 */
#include "fit.h"

#include <string.h>

/* ---- rows */

static peal_status bad(const struct fit_reader *r, const char *what, const char *word)
{
    return peal_fail_at(r->text.diag, PEAL_ERR_INPUT, r->text.path, r->text.line, 0, "%s '%.60s'",
                        what, word);
}

/* Cells may be empty (the operation of an allgather): then the columns count from the end. Where
 * one of both placements was not measured, the other stands in the place of the first. */
static uint32_t time_at(const struct fit_reader *r, char *const *word, uint32_t words)
{
    uint32_t both = r->again ? r->again - r->time : 0;
    uint32_t gone = words < r->words ? r->words - words : 0;
    if (gone == 1 && r->tail)
        gone = 0;
    if (both && gone >= both)
        gone -= both;
    uint32_t at = gone < r->time ? r->time - gone : 0;
    return both && at + both < words && peal_streq(word[at], "N/A") ? at + both : at;
}

static peal_status take_row(struct fit_reader *r, char *const *word, uint32_t words)
{
    peal_point point = {0};
    uint32_t at = time_at(r, word, words);
    if (!at || at >= words)
        return bad(r, "a row that is too short:", word[0]);
    if (!peal_fit_whole(word[0], &point.bytes))
        return bad(r, "no size in bytes:", word[0]);
    if (!peal_fit_real(word[at], &point.time_us))
        return bad(r, r->rate > 0 ? "no bandwidth in MB/s:" : "no time in microseconds:", word[at]);
    if (!point.bytes)
        return PEAL_OK; /* nccl-tests print a row of nothing where a size is too small */
    if (!(point.time_us > 0))
        return bad(r, "a time of nothing:", word[at]);
    if (r->rate > 0)
        point.time_us = (double)point.bytes / (r->rate * point.time_us);
    r->text.info.size = sizeof r->text.info;
    return peal_fit_add(r->text.set, &r->text.info, &point, r->text.line);
}

/* "8 processes started" is none. */
static int is_row(char *const *word, uint32_t words)
{
    if (!words || word[0][strspn(word[0], "0123456789")] != '\0')
        return 0;
    return words == 1 || strchr("+-.0123456789", *word[1]) || peal_streq(word[1], "nan") ||
           peal_streq(word[1], "inf");
}

static peal_status take_line(struct fit_reader *r, char *line)
{
    char *word[FIT_WORDS];
    if (!r->words && peal_fit_is_head(line))
        return peal_fit_columns(&r->text, line);
    line = peal_fit_content(line);
    if (line[0] == '#')
        return peal_fit_comment(r, word, peal_fit_words(line + 1, word));
    uint32_t words = peal_fit_words(line, word);
    if (!is_row(word, words)) {
        peal_fit_command(r, word, words);
        return PEAL_OK;
    }
    if (r->words)
        return take_row(r, word, words);
    if (!r->early)
        r->early = r->text.line;
    return PEAL_OK;
}

/* What Windows puts before a text. */
static void skip_mark(struct fit_text *text)
{
    if (text->bytes >= 3 && memcmp(text->data, "\xef\xbb\xbf", 3) == 0)
        text->at = 3;
}

static peal_status read_all(struct fit_reader *r)
{
    char line[FIT_LINE];
    int got = 1;
    skip_mark(&r->text);
    while (got) {
        PEAL_TRY(peal_fit_line(&r->text, line, &got));
        if (got == 1) /* no row is so long */
            PEAL_TRY(take_line(r, line));
    }
    if (!r->text.set->count && r->early)
        return peal_fail_at(r->text.diag, PEAL_ERR_INPUT, r->text.path, r->early, 0,
                            "a row before any heading");
    if (!r->text.set->count)
        return peal_fail_at(r->text.diag, PEAL_ERR_INPUT, r->text.path, 0, 0,
                            "no table of measured times (nccl-tests, OSU, peal bench, or columns "
                            "named bytes and time_us between tabs)");
    return PEAL_OK;
}

/* ---- */

/* All of from's series behind those of to. */
static peal_status append(struct peal_measured *to, struct peal_measured *from)
{
    PEAL_TRY(peal_grow(to->ctx, (void **)&to->series, &to->capacity,
                       (size_t)to->count + from->count, sizeof *to->series, FIT_SERIES_MAX));
    memcpy(to->series + to->count, from->series, from->count * sizeof *from->series);
    to->count += from->count;
    from->count = 0; /* the points have moved */
    return PEAL_OK;
}

static peal_status explain(const struct fit_reader *r, peal_status status)
{
    if (status == PEAL_ERR_MEMORY)
        return peal_fail(r->text.diag, status, "out of memory while reading measurements");
    if (status == PEAL_ERR_LIMIT)
        return peal_fail_at(r->text.diag, status, r->text.path, r->text.line, 0,
                            "more than %u series, or %u rows of one", FIT_SERIES_MAX,
                            FIT_POINTS_MAX);
    return status;
}

peal_status peal_measured_read(peal_measured *measured, const char *data, size_t bytes,
                               const char *path, peal_diag *diag)
{
    if (!measured || (!data && bytes))
        return peal_fail(diag, PEAL_ERR_ARG, "peal_measured_read: a required argument is missing");
    struct peal_measured fresh = {.ctx = measured->ctx};
    struct fit_reader *r = peal_calloc(measured->ctx, 1, sizeof *r);
    if (!r)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory while reading measurements");
    r->text = (struct fit_text){.data = data, .bytes = bytes, .diag = diag, .set = &fresh};
    r->text.path = path && *path ? path : "table";
    r->both = 1;
    peal_status status = read_all(r);
    if (status == PEAL_OK)
        status = append(measured, &fresh);
    status = explain(r, status);
    peal_fit_clear(&fresh);
    peal_free(measured->ctx, r, sizeof *r);
    return status;
}
