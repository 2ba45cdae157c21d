/* SPDX-License-Identifier: Apache-2.0 */
/* What tests that edit plans share: compiled plans as text, lines of it, and edits of a line as a
 * person would make them with dump, an editor and asm. */
#ifndef PEAL_TESTS_EDITS_H
#define PEAL_TESTS_EDITS_H

#include "support.h"

#include <check.h>
#include <string.h>

#define LINES_MAX 20000
#define LINE_MAX_BYTES 512

struct text {
    char *data;
    size_t used, room;
};

static inline peal_status append(void *user, const char *data, size_t bytes)
{
    struct text *text = user;
    if (text->used + bytes + 1 > text->room) {
        text->room = (text->used + bytes + 1) * 2;
        text->data = realloc(text->data, text->room);
    }
    memcpy(text->data + text->used, data, bytes);
    text->used += bytes;
    text->data[text->used] = 0;
    return PEAL_OK;
}

struct document {
    char *line[LINES_MAX];
    uint32_t count;
    uint32_t step[LINES_MAX]; /* lines that hold a step */
    uint32_t steps;
};

static inline int is_step(const char *line)
{
    static const char *const words[] = {"copy ",       "put ",        "get ",    "reduce ",
                                        "put_reduce ", "get_reduce ", "signal ", "wait ",
                                        "await ",      "tell ",       "learn "};
    line += strspn(line, " ");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strncmp(line, words[i], strlen(words[i])))
            return 1;
    return 0;
}

static inline void split(struct document *d, char *text)
{
    d->count = d->steps = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        ck_assert_uint_lt(d->count, LINES_MAX);
        if (is_step(line))
            d->step[d->steps++] = d->count;
        d->line[d->count++] = line;
    }
}

static uint64_t rng;
static inline uint32_t random_below(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 33) % n;
}

/* ---- edits: each rewrites a line into out (may be several lines, or none); 0: does not apply to
 * this line */

static inline int word_is(const char *line, const char *word)
{
    line += strspn(line, " ");
    return !strncmp(line, word, strlen(word));
}

static inline int drop_wait(const char *line, char *out)
{
    *out = 0;
    return word_is(line, "wait ");
}

static inline int drop_signal(const char *line, char *out)
{
    *out = 0;
    return word_is(line, "signal ");
}

static inline int drop_await(const char *line, char *out)
{
    *out = 0;
    return word_is(line, "await ");
}

static inline int drop_data(const char *line, char *out)
{
    *out = 0;
    return strchr(line, ':') != NULL;
}

static inline int double_data(const char *line, char *out)
{
    sprintf(out, "%s\n%s", line, line);
    return strchr(line, ':') != NULL;
}

/* Adds one to the number that follows `mark`, at its random occurrence. */
static inline int bump(const char *line, char *out, const char *mark)
{
    uint32_t found = 0, pick;
    for (const char *p = line; (p = strstr(p, mark)); p++)
        found += p[strlen(mark)] >= '0' && p[strlen(mark)] <= '9';
    if (!found)
        return 0;
    pick = random_below(found);
    for (const char *p = line; (p = strstr(p, mark)); p++) {
        char *end;
        if (p[strlen(mark)] < '0' || p[strlen(mark)] > '9' || pick--)
            continue;
        unsigned long value = strtoul(p + strlen(mark), &end, 10);
        sprintf(out, "%.*s%lu%s", (int)(p + strlen(mark) - line), line,
                value ? (random_below(2) ? value + 1 : value - 1) : value + 1, end);
        return 1;
    }
    return 0;
}

/* Another chunk, consistently in the whole step. */
static inline int other_chunk(const char *line, char *out)
{
    const char *c = strstr(line, " c");
    if (!c || !strchr(line, ':'))
        return 0;
    unsigned long chunk = strtoul(c + 2, NULL, 10), other = chunk ? chunk - 1 : 1;
    char from[3][32], to[3][32];
    char work[LINE_MAX_BYTES * 4];
    strcpy(work, line);
    for (int f = 0; f < 3; f++) {
        static const char *const before[] = {" c", "in[", "out["}, *const behind[] = {":", "]",
                                                                                      "]"};
        snprintf(from[f], sizeof from[f], "%s%lu%s", before[f], chunk, behind[f]);
        snprintf(to[f], sizeof to[f], "%s%lu%s", before[f], other, behind[f]);
        *out = 0;
        char *rest = work, *hit;
        while ((hit = strstr(rest, from[f]))) {
            strncat(out, rest, (size_t)(hit - rest));
            strcat(out, to[f]);
            rest = hit + strlen(from[f]);
        }
        strcat(out, rest);
        strcpy(work, out);
    }
    return 1;
}

static inline int one_operand(const char *line, char *out)
{
    return strchr(line, ':') &&
           (random_below(2) ? bump(line, out, "in[") : bump(line, out, "out["));
}

static inline int shifted_slot(const char *line, char *out)
{
    for (const char *p = line; *p; p++) {
        char mark[16];
        if (p[0] != 's' && p[0] != 'p')
            continue;
        size_t digits = strspn(p + 1, "0123456789");
        if (!digits || p[1 + digits] != '[')
            continue;
        snprintf(mark, sizeof mark, "%.*s[", (int)digits + 1, p);
        return bump(line, out, mark);
    }
    return 0;
}

static inline int wrong_peer(const char *line, char *out)
{
    return (word_is(line, "signal ") || word_is(line, "wait ")) && bump(line, out, " r");
}

static inline int wrong_semaphore(const char *line, char *out)
{
    return (word_is(line, "signal ") || word_is(line, "wait ")) && bump(line, out, ".");
}

/* Replaces one text by another. */
static inline int exchange(const char *line, char *out, const char *from, const char *to)
{
    const char *p = strstr(line, from);
    if (!p)
        return 0;
    sprintf(out, "%.*s%s%s", (int)(p - line), line, to, p + strlen(from));
    return 1;
}

static inline int ce_reduces(const char *line, char *out)
{
    return word_is(line, "reduce ") && exchange(line, out, " sm", " ce e7");
}

static inline int no_order(const char *line, char *out)
{
    const char *p = strstr(line, " after ");
    if (!p)
        return 0;
    sprintf(out, "%.*s", (int)(p - line), line);
    return 1;
}

static inline int not_final(const char *line, char *out)
{
    return exchange(line, out, " final", "");
}

static inline int too_early_final(const char *line, char *out)
{
    if (!word_is(line, "reduce ") || strstr(line, "final"))
        return 0;
    sprintf(out, "%s final", line);
    return 1;
}

static inline int wrong_buffer(const char *line, char *out)
{
    if (!strchr(line, ':'))
        return 0;
    return random_below(2) ? exchange(line, out, "in[", "out[")
                           : exchange(line, out, "out[", "in[");
}

static inline int no_lag(const char *line, char *out)
{
    const char *p = strstr(line, " lag ");
    if (!p)
        return 0;
    sprintf(out, "%.*s", (int)(p - line), line);
    return 1;
}

static inline int more_lag(const char *line, char *out)
{
    return bump(line, out, " lag ");
}

static inline int free_only(const char *line, char *out)
{
    return exchange(line, out, " delivered", " free");
}

/* Exchanges the step with the one behind it; handled by the caller, which knows the next line. */
static inline int exchange_next(const char *line, char *out)
{
    strcpy(out, line);
    return 1;
}

static inline void rebuild(const struct document *d, uint32_t at, const char *instead, int swap,
                           struct text *out)
{
    out->used = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        if (i == at && swap && i + 1 < d->count) {
            append(out, d->line[i + 1], strlen(d->line[i + 1]));
            append(out, "\n", 1);
            append(out, d->line[i], strlen(d->line[i]));
            i++;
        } else if (i == at) {
            append(out, instead, strlen(instead));
        } else {
            append(out, d->line[i], strlen(d->line[i]));
        }
        append(out, "\n", 1);
    }
}

static const char two_hosts[] =
    "<peal version=\"1\" name=\"two\">"
    "<host name=\"h\" count=\"2\"><system version=\"1\">"
    "<cpu numaid=\"0\" affinity=\"ffff\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" "
    "modelid=\"1\">"
#define GPU(n)                                                                                     \
    "<pci busid=\"0000:0" #n ":00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" "           \
    "link_width=\"16\"><gpu dev=\"" #n "\" sm=\"90\" rank=\"" #n "\" gdr=\"1\">"                   \
    "<nvlink target=\"0000:c7:00.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>"
    GPU(0) GPU(1) GPU(2)
        GPU(3) "<pci busid=\"0000:09:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" "
               "link_width=\"16\"><nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\" "
               "guid=\"0x1\" gdr=\"1\"/></nic></pci>"
               "</cpu></system></host><network kind=\"rails\"/></peal>";

/* The text of a plan for 65536 bytes. */
static inline char *compiled(peal_ctx *context, const char *algorithm, uint32_t ranks,
                             peal_engine engine, uint64_t tile)
{
    peal_fabric *fabric;
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    struct text text = {0};
    peal_request request = PEAL_REQUEST_INIT;
    request.algorithm = algorithm;
    request.min_bytes = request.max_bytes = 1 << 16;
    request.channels = 1;
    request.tile_bytes = tile;
    request.ranks = ranks;
    request.move_engine[PEAL_LINK_NVLINK] = (uint8_t)(engine + 1);
    ck_assert_msg(peal_fabric_parse(context, two_hosts, strlen(two_hosts), "two", NULL, &diag,
                                    &fabric) == PEAL_OK,
                  "%s", diag.text);
    ck_assert_msg(peal_table_plan(context, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    ck_assert_int_eq(peal_table_print(table, append, &text, &diag), PEAL_OK);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    return text.data;
}

#endif
