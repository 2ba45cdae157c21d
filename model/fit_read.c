/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables that programs print: nccl-tests, rccl-tests and peal bench (a heading with size and time
 * behind a #), the OSU micro-benchmarks (Size and Latency or Bandwidth). Lines around them, which
 * logs are full of, are passed over; a line that begins with a size has to be a row.
 */
#include "fit.h"

#include <string.h>

struct reader {
    struct fit_text text;
    uint32_t words; /* of the heading; 0: there has been none */
    uint32_t time;  /* the column */
    int tail;       /* the heading's last column may be empty */
    int rate;       /* the column is MB/s */
    uint32_t ranks; /* lines "# Rank" since the last heading */
    uint32_t nodes;
    char host[64][64];
    uint32_t tables;
};

/* ---- what lines behind a # say */

static void start_table(struct reader *r)
{
    peal_series_info *info = &r->text.info;
    peal_copy_text(info->name, sizeof info->name, r->text.path);
    size_t used = strlen(info->name);
    if (r->tables++ && used + 12 < sizeof info->name) {
        uint32_t line = r->text.line;
        char digits[12], *at = digits + sizeof digits - 1;
        *at = '\0';
        for (; line; line /= 10)
            *--at = (char)('0' + line % 10);
        info->name[used] = ':';
        peal_copy_text(info->name + used + 1, sizeof info->name - used - 1, at);
    }
    if (r->ranks) {
        info->ranks = r->ranks;
        info->nodes = r->nodes;
    }
}

/* "# Rank 0 Group 0 Pid 12 on host device 0 ..." */
static void take_rank(struct reader *r, char *const *word, uint32_t words)
{
    r->ranks++;
    for (uint32_t i = 2; i + 1 < words; i++) {
        if (!peal_streq(word[i], "on"))
            continue;
        uint32_t n = 0;
        while (n < r->nodes && n < 64 && strncmp(r->host[n], word[i + 1], 63) != 0)
            n++;
        if (n == r->nodes && n < 64)
            peal_copy_text(r->host[r->nodes++], sizeof r->host[0], word[i + 1]);
        return;
    }
}

/* all_reduce_perf, Allreduce, alltoall: the same but for the letters in between. */
static int names(const char *word, const char *collective)
{
    for (; *word && *collective; word++) {
        char c = *word >= 'A' && *word <= 'Z' ? (char)(*word + 32) : *word;
        if (c == '_' || c == '-')
            continue;
        while (*collective == '-' || *collective == '_')
            collective++;
        if (c != *collective++)
            return 0;
    }
    return !*collective && (!*word || strncmp(word, "_perf", 5) == 0 || *word == ',');
}

static void take_collective(struct reader *r, const char *word)
{
    for (int c = 0; c < PEAL_COLLECTIVE_COUNT; c++)
        if (names(word, peal_collective_name((peal_collective)c))) {
            r->text.info.collective = (peal_collective)c;
            r->text.info.has_collective = 1;
        }
}

static int has(char *const *word, uint32_t words, const char *what, uint32_t *at)
{
    for (uint32_t i = 0; i < words; i++)
        if (strncmp(word[i], what, strlen(what)) == 0) {
            *at = i;
            return 1;
        }
    return 0;
}

/* "peal 0.1.0, allreduce by 8 threads, ..." */
static void take_peal(struct reader *r, char *const *word, uint32_t words)
{
    uint64_t ranks = 0;
    uint32_t by;
    memset(&r->text.info, 0, sizeof r->text.info);
    take_collective(r, word[2]);
    if (has(word, words, "by", &by) && by + 1 < words && peal_fit_whole(word[by + 1], &ranks) &&
        ranks <= UINT32_MAX)
        r->text.info.ranks = (uint32_t)ranks;
    r->text.info.nodes = 1;
    r->text.info.link = PEAL_LINK_SHM;
    r->text.info.has_link = 1;
}

/* The words behind the #. */
static void take_comment(struct reader *r, char *const *word, uint32_t words)
{
    uint32_t at;
    if (!words)
        return;
    if (peal_streq(word[0], "size") && has(word, words, "time", &r->time)) {
        r->words = words;
        r->rate = 0;
        r->tail = peal_streq(word[words - 1], "algorithm");
        start_table(r);
    } else if (peal_streq(word[0], "Size") && words > 1) {
        r->words = 2;
        r->time = 1;
        r->tail = 1; /* --full has more columns */
        r->rate = has(word, words, "Bandwidth", &at);
        start_table(r);
    } else if (peal_streq(word[0], "Rank") && words > 2) {
        take_rank(r, word, words);
    } else if (peal_streq(word[0], "OSU") && words > 2) {
        memset(&r->text.info, 0, sizeof r->text.info);
        r->ranks = r->nodes = 0;
        take_collective(r, word[2]);
    } else if (peal_streq(word[0], "peal") && words > 3) {
        take_peal(r, word, words);
    } else if (has(word, words, "starting:", &at) && at + 1 < words) {
        take_collective(r, word[at + 1]);
    }
}

/* ---- rows */

static peal_status bad(const struct reader *r, const char *what, const char *word)
{
    return peal_fail_at(r->text.diag, PEAL_ERR_INPUT, r->text.path, r->text.line, 0, "%s '%.60s'",
                        what, word);
}

/* Cells may be empty (the operation of an allgather): then the columns count from the end. */
static peal_status take_row(struct reader *r, char *const *word, uint32_t words)
{
    peal_point point = {0};
    uint32_t at = r->time;
    if (words < r->words && !(r->tail && words + 1 >= r->words))
        at = r->words - words <= r->time ? r->time - (r->words - words) : 0;
    if (!at || at >= words)
        return bad(r, "a row that is too short:", word[0]);
    if (!peal_fit_whole(word[0], &point.bytes))
        return bad(r, "no size in bytes:", word[0]);
    if (!peal_fit_real(word[at], &point.time_us))
        return bad(r, r->rate ? "no bandwidth in MB/s:" : "no time in microseconds:", word[at]);
    if (!point.bytes)
        return PEAL_OK; /* nccl-tests print a row of nothing where a size is too small */
    if (!(point.time_us > 0))
        return bad(r, "a time of nothing:", word[at]);
    if (r->rate)
        point.time_us = (double)point.bytes / point.time_us;
    r->text.info.size = sizeof r->text.info;
    return peal_fit_add(r->text.set, &r->text.info, &point, r->text.line);
}

static int all_digits(const char *word)
{
    return *word && word[strspn(word, "0123456789")] == '\0';
}

static peal_status take_line(struct reader *r, char *line)
{
    char *word[FIT_WORDS];
    uint32_t words;
    if (!r->words && line[0] != '#' && strchr(line, '\t') &&
        (strstr(line, "bytes") || strstr(line, "size")))
        return peal_fit_columns(&r->text, line);
    if (line[0] == '#') {
        words = peal_fit_words(line + 1, word);
        take_comment(r, word, words);
        return PEAL_OK;
    }
    words = peal_fit_words(line, word);
    if (!words || !all_digits(word[0]))
        return PEAL_OK;
    if (!r->words)
        return bad(r, "a row before any heading:", word[0]);
    return take_row(r, word, words);
}

static peal_status read_all(struct reader *r)
{
    char line[FIT_LINE];
    int got = 1;
    while (got) {
        PEAL_TRY(peal_fit_line(&r->text, line, &got));
        if (got)
            PEAL_TRY(take_line(r, line));
    }
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

static peal_status explain(const struct reader *r, peal_status status)
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
    struct reader *r = peal_calloc(measured->ctx, 1, sizeof *r);
    if (!r)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory while reading measurements");
    r->text = (struct fit_text){.data = data, .bytes = bytes, .diag = diag, .set = &fresh};
    r->text.path = path && *path ? path : "table";
    peal_status status = read_all(r);
    if (status == PEAL_OK)
        status = append(measured, &fresh);
    status = explain(r, status);
    peal_fit_clear(&fresh);
    peal_free(measured->ctx, r, sizeof *r);
    return status;
}
