/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of a schedule, as a person would plant them with dump, an editor and asm: each changes one
 * or two lines of a plan's text. */
#ifndef PEAL_TESTS_FAULT_KINDS_H
#define PEAL_TESTS_FAULT_KINDS_H

#include "test_edits.h"

#define FAULT_BYTES (LINE_MAX_BYTES * 8)

/* Lines that others take the place of. */
struct change {
    uint32_t lines;
    uint32_t at[2];
    char text[2][FAULT_BYTES];
};

struct fault {
    const char *name;
    int (*line)(const char *line, char *out); /* of a step; NULL: the other one */
    int (*plant)(const struct document *d, uint32_t at, struct change *change);
    int headings; /* 1: of any line, not only of steps */
    int grave;    /* 1: no plan is right with it */
};

/* ---- what else stands in a line */

static inline int is_move(const char *line)
{
    return is_step(line) && strchr(line, ':') != NULL;
}

static inline int is_heading(const char *line, const char *word)
{
    return word_is(line, word);
}

/* The rank whose program the line belongs to. */
static inline uint32_t rank_at(const struct document *d, uint32_t at)
{
    while (at > 0 && strncmp(d->line[at], "  rank ", 7) != 0)
        at--;
    return (uint32_t)strtoul(d->line[at] + 7, NULL, 10);
}

/* The nth hit of `mark` that a number follows, in [line, end); NULL: there is none. */
static inline const char *nth_mark(const char *line, const char *end, const char *mark, uint32_t n)
{
    for (const char *p = line; (p = strstr(p, mark)) && p < end; p++) {
        char next = p[strlen(mark)];
        if (next >= '0' && next <= '9' && n-- == 0)
            return p + strlen(mark);
    }
    return NULL;
}

static inline int put_number(const char *line, const char *digits, unsigned long value, char *out)
{
    char *rest;
    (void)strtoul(digits, &rest, 10);
    (void)snprintf(out, FAULT_BYTES, "%.*s%lu%s", (int)(digits - line), line, value, rest);
    return 1;
}

/* Before the colon of a move: its chunks. */
static inline int bump_head(const char *line, char *out, const char *mark)
{
    const char *colon = strchr(line, ':');
    const char *digits = colon ? nth_mark(line, colon, mark, 0) : NULL;
    return digits && put_number(line, digits, strtoul(digits, NULL, 10) + 1, out);
}

/* ---- moves */

static inline int shorter_span(const char *line, char *out)
{
    const char *colon = strchr(line, ':');
    const char *digits = colon ? nth_mark(line, colon, "*", 0) : NULL;
    unsigned long span = digits ? strtoul(digits, NULL, 10) : 0;
    return span > 2 && put_number(line, digits, span - 1, out);
}

static inline int longer_span(const char *line, char *out)
{
    return bump_head(line, out, "*");
}

static inline int other_stride(const char *line, char *out)
{
    return bump_head(line, out, "+");
}

static inline int other_jump(const char *line, char *out)
{
    return bump_head(line, out, "~");
}

static inline int other_link(const char *line, char *out)
{
    return is_move(line) && bump(line, out, "@");
}

static inline int other_event(const char *line, char *out)
{
    return bump(line, out, " e");
}

static inline int start_of_operands(const char *line, const char **first, const char **arrow)
{
    const char *colon = strchr(line, ':');
    *arrow = strstr(line, " -> ");
    *first = colon ? colon + 2 : NULL;
    return colon && *arrow && *first < *arrow;
}

/* Word `n` of the blank-separated ones in [from, end); 0: none. */
static inline size_t nth_word(const char *from, const char *end, uint32_t n, const char **word)
{
    while (from < end && n--) {
        from += strcspn(from, " ");
        from += strspn(from, " ");
    }
    *word = from;
    return from < end ? strcspn(from, " ") : 0;
}

static inline int sources_exchanged(const char *line, char *out)
{
    const char *first, *arrow, *second;
    if (!is_move(line) || !start_of_operands(line, &first, &arrow))
        return 0;
    size_t one = nth_word(first, arrow, 0, &first), two = nth_word(first, arrow, 1, &second);
    if (!two)
        return 0;
    (void)snprintf(out, FAULT_BYTES, "%.*s%.*s %.*s%s", (int)(first - line), line, (int)two, second,
                   (int)one, first, second + two);
    return 1;
}

static inline int source_dropped(const char *line, char *out)
{
    const char *first, *arrow, *second;
    if (!is_move(line) || !start_of_operands(line, &first, &arrow) ||
        !nth_word(first, arrow, 1, &second))
        return 0;
    (void)snprintf(out, FAULT_BYTES, "%.*s%s", (int)(first - line), line, second);
    return 1;
}

static inline int source_doubled(const char *line, char *out)
{
    const char *first, *arrow;
    if (!word_is(line, "reduce ") || !start_of_operands(line, &first, &arrow))
        return 0;
    size_t one = nth_word(first, arrow, 0, &first);
    (void)snprintf(out, FAULT_BYTES, "%.*s%.*s %s", (int)(first - line), line, (int)one, first,
                   first);
    return 1;
}

/* The first of several destinations. */
static inline int destination_dropped(const char *line, char *out)
{
    const char *first, *arrow, *second;
    if (!is_move(line) || !start_of_operands(line, &first, &arrow))
        return 0;
    size_t two = nth_word(arrow + 4, line + strlen(line), 1, &second);
    if (!two || !memchr(second, '[', two))
        return 0;
    (void)snprintf(out, FAULT_BYTES, "%.*s%s", (int)(arrow + 4 - line), line, second);
    return 1;
}

/* An engine and its event, or neither. */
static inline int other_engine(const char *line, char *out)
{
    static const char *const engines[] = {"ce", "tma", "rdma", "tcp", "staged"};
    if (!is_move(line) || word_is(line, "reduce "))
        return 0;
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        char mark[16];
        (void)snprintf(mark, sizeof mark, " %s e", engines[i]);
        const char *p = strstr(line, mark);
        if (p)
            return snprintf(out, FAULT_BYTES, "%.*s sm", (int)(p - line), line) > 0;
    }
    return exchange(line, out, " sm", random_below(2) ? " ce e7" : " tma e7");
}

static inline int other_signal_engine(const char *line, char *out)
{
    if (!word_is(line, "signal ") || strstr(line, " after "))
        return 0;
    return exchange(line, out, " sm", " ce") || exchange(line, out, " rdma", " tcp") ||
           exchange(line, out, " ce", " sm") || exchange(line, out, " staged", " sm");
}

/* ---- lengths */

static inline int tell_as_signal(const char *line, char *out)
{
    return word_is(line, "tell ") && exchange(line, out, "tell ", "signal ");
}

static inline int learn_as_wait(const char *line, char *out)
{
    return word_is(line, "learn ") && exchange(line, out, "learn ", "wait ");
}

static inline int drop_tell(const char *line, char *out)
{
    *out = 0;
    return word_is(line, "tell ");
}

static inline int drop_learn(const char *line, char *out)
{
    *out = 0;
    return word_is(line, "learn ");
}

static inline int wrong_teller(const char *line, char *out)
{
    return (word_is(line, "tell ") || word_is(line, "learn ")) && bump(line, out, " r");
}

/* ---- settings, of the whole plan */

static inline int scaled(const char *line, char *out, const char *mark)
{
    const char *digits = nth_mark(line, line + strlen(line), mark, 0);
    unsigned long value = digits ? strtoul(digits, NULL, 10) : 0;
    return value && put_number(line, digits, random_below(2) ? value * 2 : value / 2, out);
}

static inline int other_tile(const char *line, char *out)
{
    return word_is(line, "tile ") && scaled(line, out, "tile ");
}

static inline int other_depth(const char *line, char *out)
{
    return word_is(line, "region ") && bump(line, out, " depth ");
}

static inline int other_width(const char *line, char *out)
{
    return word_is(line, "region ") && bump(line, out, " width ");
}

static inline int smaller_slots(const char *line, char *out)
{
    const char *digits = nth_mark(line, line + strlen(line), " slot ", 0);
    unsigned long value = digits ? strtoul(digits, NULL, 10) : 0;
    return word_is(line, "region ") && value > 128 && put_number(line, digits, value - 128, out);
}

static inline int other_memory(const char *line, char *out)
{
    return word_is(line, "region ") && (exchange(line, out, " scratch ", " packet ") ||
                                        exchange(line, out, " packet ", " scratch "));
}

static inline int other_root(const char *line, char *out)
{
    return word_is(line, "plan ") && bump(line, out, " root ");
}

static inline int other_collective(const char *line, char *out)
{
    return exchange(line, out, "plan allgather ", "plan reduce-scatter ") ||
           exchange(line, out, "plan reduce-scatter ", "plan allgather ") ||
           exchange(line, out, "plan broadcast ", "plan allreduce ") ||
           exchange(line, out, "plan reduce ", "plan broadcast ") ||
           exchange(line, out, "plan alltoall ", "plan alltoallv ") ||
           exchange(line, out, "plan alltoallv ", "plan alltoall ") ||
           exchange(line, out, "plan scatter ", "plan gather ") ||
           exchange(line, out, "plan gather ", "plan scatter ") ||
           exchange(line, out, "plan allreduce ", "plan broadcast ");
}

static inline int fewer_chunks(const char *line, char *out)
{
    const char *digits = nth_mark(line, line + strlen(line), "chunks ", 0);
    unsigned long value = digits ? strtoul(digits, NULL, 10) : 0;
    return word_is(line, "chunks ") && value > 1 && put_number(line, digits, value / 2, out);
}

static inline int other_pair(const char *line, char *out)
{
    return word_is(line, "pair ") && bump(line, out, random_below(2) ? "pair r" : "-> r");
}

/* ---- faults of two lines, or with a look at others */

static inline int two_lines(struct change *change, const struct document *d, uint32_t a, uint32_t b,
                            const char *at_a, const char *at_b)
{
    if (strcmp(d->line[a], at_a) == 0 && strcmp(d->line[b], at_b) == 0)
        return 0;
    change->lines = 2;
    change->at[0] = a;
    change->at[1] = b;
    (void)snprintf(change->text[0], FAULT_BYTES, "%s", at_a);
    (void)snprintf(change->text[1], FAULT_BYTES, "%s", at_b);
    return 1;
}

static inline int steps_exchanged(const struct document *d, uint32_t at, struct change *change)
{
    if (at + 1 == d->count || !is_step(d->line[at + 1]))
        return 0;
    return two_lines(change, d, at, at + 1, d->line[at + 1], d->line[at]);
}

/* With one further on in the same section. */
static inline int far_steps_exchanged(const struct document *d, uint32_t at, struct change *change)
{
    uint32_t last = at;
    while (last + 1 < d->count && last < at + 8 && is_step(d->line[last + 1]))
        last++;
    if (last < at + 2)
        return 0;
    uint32_t to = at + 2 + random_below(last - at - 1);
    return two_lines(change, d, at, to, d->line[to], d->line[at]);
}

/* With a step of any other place of the rank, so perhaps of another lane or section. */
static inline int lanes_exchanged(const struct document *d, uint32_t at, struct change *change)
{
    uint32_t to = d->step[random_below(d->steps)];
    if (to == at || rank_at(d, to) != rank_at(d, at))
        return 0;
    return two_lines(change, d, at, to, d->line[to], d->line[at]);
}

/* Chunks are exchanged between two moves: each moves the other's. */
static inline int chunks_exchanged(const struct document *d, uint32_t at, struct change *change)
{
    uint32_t to = d->step[random_below(d->steps)];
    char one[FAULT_BYTES], two[FAULT_BYTES];
    if (to == at || !is_move(d->line[at]) || !is_move(d->line[to]) ||
        strlen(d->line[to]) >= LINE_MAX_BYTES || rank_at(d, to) != rank_at(d, at))
        return 0;
    const char *a = nth_mark(d->line[at], strchr(d->line[at], ':'), " c", 0);
    const char *b = nth_mark(d->line[to], strchr(d->line[to], ':'), " c", 0);
    (void)put_number(d->line[at], a, strtoul(b, NULL, 10), one);
    (void)put_number(d->line[to], b, strtoul(a, NULL, 10), two);
    return two_lines(change, d, at, to, one, two);
}

static inline int final_moved(const struct document *d, uint32_t at, struct change *change)
{
    uint32_t to = d->step[random_below(d->steps)];
    char one[FAULT_BYTES], two[FAULT_BYTES];
    if (!exchange(d->line[at], one, " final", "") || strlen(d->line[to]) >= LINE_MAX_BYTES ||
        !too_early_final(d->line[to], two) || rank_at(d, to) != rank_at(d, at))
        return 0;
    return two_lines(change, d, at, to, one, two);
}

/* A wait and one of its signals. */
static inline int pair_dropped(const struct document *d, uint32_t at, struct change *change)
{
    char wanted[64];
    uint32_t found = 0, partner = 0;
    if (!word_is(d->line[at], "wait "))
        return 0;
    const char *name = strstr(d->line[at], "wait r") + 6;
    uint32_t peer = (uint32_t)strtoul(name, NULL, 10);
    (void)snprintf(wanted, sizeof wanted, "signal r%u.%lu ", rank_at(d, at),
                   strtoul(strchr(name, '.') + 1, NULL, 10));
    for (uint32_t i = 0; i < d->steps; i++)
        if (word_is(d->line[d->step[i]], wanted) && rank_at(d, d->step[i]) == peer &&
            random_below(++found) == 0)
            partner = d->step[i];
    return found && two_lines(change, d, at, partner, "", "");
}

/* An operand's memory at another rank, over a link that leads there. */
static inline int other_remote(const struct document *d, uint32_t at, struct change *change)
{
    const char *line = d->line[at], *mark = NULL, *arrow = strstr(line, " -> ");
    uint32_t found = 0, links = 0, number = 0, self = rank_at(d, at), rank = 0;
    for (const char *p = line; is_move(line) && (p = strchr(p, '@')); p++)
        if (random_below(++found) == 0)
            mark = p;
    if (!mark)
        return 0;
    const char *word = mark;
    while (word[-1] != ' ')
        word--;
    unsigned long from, to, now = strtoul(mark + 1, NULL, 10);
    found = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        if (sscanf(d->line[i], "  link r%lu -> r%lu", &from, &to) != 2)
            continue;
        links++;
        if ((mark > arrow ? from : to) != self || links == now || random_below(++found))
            continue;
        number = links;
        rank = (uint32_t)(mark > arrow ? to : from);
    }
    if (!found)
        return 0;
    change->lines = 1;
    change->at[0] = at;
    (void)snprintf(change->text[0], FAULT_BYTES, "%.*sr%u%.*s@%u%s", (int)(word - line), line, rank,
                   (int)(mark - strchr(word, '.')), strchr(word, '.'), number,
                   mark + 1 + strspn(mark + 1, "0123456789"));
    return 1;
}

/* A slot of another region of the same kind. */
static inline int other_region(const struct document *d, uint32_t at, struct change *change)
{
    uint32_t regions = 0;
    for (uint32_t i = 0; i < d->count; i++)
        regions += (uint32_t)is_heading(d->line[i], "region ");
    for (const char *p = d->line[at]; regions > 1 && is_move(d->line[at]) && *p; p++) {
        size_t digits = (*p == 's' || *p == 'p') ? strspn(p + 1, "0123456789") : 0;
        if (!digits || p[1 + digits] != '[')
            continue;
        unsigned long now = strtoul(p + 1, NULL, 10);
        change->lines = 1;
        change->at[0] = at;
        return put_number(d->line[at], p + 1, (now + 1 + random_below(regions - 1)) % regions,
                          change->text[0]);
    }
    return 0;
}

/* What follows runs as a lane of its own. */
static inline int lane_cut(const struct document *d, uint32_t at, struct change *change)
{
    uint32_t section = at;
    while (section > 0 && is_step(d->line[section]))
        section--;
    if (section + 1 == at || !is_heading(d->line[section], "body"))
        return 0;
    change->lines = 1;
    change->at[0] = at;
    (void)snprintf(change->text[0], FAULT_BYTES, "lane body\n%s", d->line[at]);
    return 1;
}

/* ---- all of them */

#define LINE_FAULT(name, line, grave)                                                              \
    {                                                                                              \
        name, line, NULL, 0, grave                                                                 \
    }
#define PLAN_FAULT(name, line, grave)                                                              \
    {                                                                                              \
        name, line, NULL, 1, grave                                                                 \
    }
#define PLACE_FAULT(name, plant, grave)                                                            \
    {                                                                                              \
        name, NULL, plant, 0, grave                                                                \
    }

static const struct fault fault_kinds[] = {
    LINE_FAULT("a dropped wait", drop_wait, 1),
    LINE_FAULT("a dropped signal", drop_signal, 1),
    LINE_FAULT("a dropped await", drop_await, 0),
    LINE_FAULT("a dropped move", drop_data, 0),
    LINE_FAULT("a doubled move", double_data, 0),
    LINE_FAULT("another chunk", other_chunk, 0),
    LINE_FAULT("one operand's chunk changed", one_operand, 1),
    LINE_FAULT("a shifted slot", shifted_slot, 0),
    LINE_FAULT("a wrong peer", wrong_peer, 0),
    LINE_FAULT("a wrong semaphore", wrong_semaphore, 0),
    LINE_FAULT("a copy engine asked to reduce", ce_reduces, 1),
    LINE_FAULT("a signal not behind its transfer", no_order, 0),
    LINE_FAULT("final left out", not_final, 1),
    LINE_FAULT("final too early", too_early_final, 1),
    LINE_FAULT("the wrong buffer", wrong_buffer, 0),
    LINE_FAULT("a wait without its lag", no_lag, 0),
    LINE_FAULT("another lag", more_lag, 0),
    LINE_FAULT("await of the source only", free_only, 0),
    LINE_FAULT("a shorter span", shorter_span, 0),
    LINE_FAULT("a longer span", longer_span, 0),
    LINE_FAULT("another stride", other_stride, 0),
    LINE_FAULT("another jump", other_jump, 0),
    LINE_FAULT("another link", other_link, 1),
    LINE_FAULT("another event", other_event, 0),
    LINE_FAULT("sources exchanged", sources_exchanged, 0),
    LINE_FAULT("a source dropped", source_dropped, 0),
    LINE_FAULT("a source doubled", source_doubled, 0),
    LINE_FAULT("a destination dropped", destination_dropped, 0),
    LINE_FAULT("another engine", other_engine, 0),
    LINE_FAULT("a signal by another engine", other_signal_engine, 0),
    LINE_FAULT("a tell that only signals", tell_as_signal, 1),
    LINE_FAULT("a learn that only waits", learn_as_wait, 1),
    LINE_FAULT("a dropped tell", drop_tell, 1),
    LINE_FAULT("a dropped learn", drop_learn, 1),
    LINE_FAULT("lengths of another rank", wrong_teller, 1),
    PLAN_FAULT("another tile", other_tile, 0),
    PLAN_FAULT("another depth", other_depth, 0),
    PLAN_FAULT("another width", other_width, 0),
    PLAN_FAULT("slots too small", smaller_slots, 0),
    PLAN_FAULT("the other memory", other_memory, 0),
    PLAN_FAULT("another root", other_root, 1),
    PLAN_FAULT("another collective", other_collective, 1),
    PLAN_FAULT("fewer chunks", fewer_chunks, 0),
    PLAN_FAULT("another pair", other_pair, 1),
    PLACE_FAULT("two steps exchanged", steps_exchanged, 0),
    PLACE_FAULT("two far steps exchanged", far_steps_exchanged, 0),
    PLACE_FAULT("steps of two lanes exchanged", lanes_exchanged, 0),
    PLACE_FAULT("chunks of two moves exchanged", chunks_exchanged, 0),
    PLACE_FAULT("final moved", final_moved, 1),
    PLACE_FAULT("a wait and its signal dropped", pair_dropped, 0),
    PLACE_FAULT("another rank's memory", other_remote, 0),
    PLACE_FAULT("a slot of another region", other_region, 0),
    PLACE_FAULT("a lane cut in two", lane_cut, 0),
};
#define FAULT_KINDS (sizeof fault_kinds / sizeof fault_kinds[0])

/* 1: planted, at a random place where it can be. */
static inline int fault_plant(const struct fault *fault, const struct document *d,
                              struct change *change)
{
    for (uint32_t tries = 0; tries < 200; tries++) {
        uint32_t at = fault->headings ? random_below(d->count) : d->step[random_below(d->steps)];
        if (strlen(d->line[at]) >= LINE_MAX_BYTES || !is_step(d->line[at]) == !fault->headings)
            continue;
        if (fault->plant) {
            if (fault->plant(d, at, change))
                return 1;
            continue;
        }
        change->lines = 1;
        change->at[0] = at;
        if (fault->line(d->line[at], change->text[0]) && strcmp(change->text[0], d->line[at]) != 0)
            return 1;
    }
    return 0;
}

static inline void changed(const struct document *d, const struct change *change, struct text *out)
{
    out->used = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        const char *line = d->line[i];
        for (uint32_t c = 0; c < change->lines; c++)
            line = change->at[c] == i ? change->text[c] : line;
        (void)append(out, line, strlen(line));
        (void)append(out, "\n", 1);
    }
}

#endif
