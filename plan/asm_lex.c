/* SPDX-License-Identifier: Apache-2.0 */
/* Words, numbers and complaints of the text form. Each character is looked at a bounded number
 * of times; lines are only counted when there is something to report. */
#include "asm.h"

#include <string.h>

#define SHOWN_MAX 40u /* characters of the text that a complaint repeats */
#define NEAR_MAX 24u  /* words longer than this are not compared */

/* ---- complaints */

static void place_of(const struct asm_source *in, size_t at, uint32_t *line, uint32_t *column)
{
    *line = 1;
    size_t start = 0;
    for (size_t i = 0; i < at; i++) {
        if (in->text[i] == '\n') {
            ++*line;
            start = i + 1;
        }
    }
    *column = (uint32_t)(at - start + 1);
}

peal_status peal_asm_fail(const struct asm_source *in, peal_status status, size_t at,
                          const char *text)
{
    uint32_t line;
    uint32_t column;
    place_of(in, at, &line, &column);
    return peal_fail_at(in->diag, status, in->name, line, column, "%s", text);
}

static int is_printable(char c)
{
    return c > 0x20 && c < 0x7f;
}

/* Copies what stands here, up to a blank, for people to see; `end` is what they see at the
 * end of the text. */
static const char *found_here(struct asm_source *in, char shown[SHOWN_MAX + 3])
{
    size_t at = peal_asm_skip(in);
    if (at == in->bytes)
        return "the end of the text";
    struct asm_word word = peal_asm_peek(in);
    size_t length = word.length ? word.length : 1;
    if (!is_printable(in->text[at]))
        return "a byte that is not printable";
    if (length > SHOWN_MAX)
        length = SHOWN_MAX;
    shown[0] = '\'';
    memcpy(shown + 1, in->text + at, length);
    shown[length + 1] = '\'';
    shown[length + 2] = '\0';
    return shown;
}

static peal_status complain(struct asm_source *in, const char *expected, const char *nearest)
{
    char shown[SHOWN_MAX + 3];
    const char *found = found_here(in, shown);
    uint32_t line;
    uint32_t column;
    place_of(in, in->at, &line, &column);
    if (nearest)
        return peal_fail_at(in->diag, PEAL_ERR_INPUT, in->name, line, column,
                            "expected %s, found %s; did you mean '%s'?", expected, found, nearest);
    return peal_fail_at(in->diag, PEAL_ERR_INPUT, in->name, line, column, "expected %s, found %s",
                        expected, found);
}

peal_status peal_asm_expected(struct asm_source *in, const char *expected)
{
    return complain(in, expected, NULL);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein distance of a word and a known one, both of at most NEAR_MAX characters. */
static size_t distance(struct asm_word word, const char *known, size_t known_length)
{
    size_t row[NEAR_MAX + 1];
    for (size_t k = 0; k <= known_length; k++)
        row[k] = k;
    for (size_t i = 0; i < word.length; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < known_length; k++) {
            size_t above = row[k + 1];
            size_t changed = diagonal + (word.text[i] != known[k]);
            row[k + 1] = least(changed, 1 + least(above, row[k]));
            diagonal = above;
        }
    }
    return row[known_length];
}

static const char *nearest_of(struct asm_word word, const struct asm_choice *choice)
{
    const char *nearest = NULL;
    size_t best = word.length / 3 + 2; /* beyond this it is another word altogether */
    for (size_t i = 0; i < choice->count; i++) {
        size_t length = strlen(choice->words[i]);
        if (length > NEAR_MAX || word.length > NEAR_MAX || word.length == 0)
            continue;
        size_t apart = distance(word, choice->words[i], length);
        if (apart < best) {
            best = apart;
            nearest = choice->words[i];
        }
    }
    return nearest;
}

peal_status peal_asm_unknown(struct asm_source *in, const struct asm_choice *choice)
{
    return complain(in, choice->expected, nearest_of(peal_asm_peek(in), choice));
}

/* ---- what there is */

peal_status peal_asm_check(struct asm_source *in)
{
    if ((uint64_t)in->bytes > TEXT_BYTES_MAX)
        return peal_asm_fail(in, PEAL_ERR_LIMIT, 0, "the text is larger than 1 GiB");
    size_t start = 0;
    while (start < in->bytes) {
        const char *end = memchr(in->text + start, '\n', in->bytes - start);
        size_t length = end ? (size_t)(end - in->text) - start : in->bytes - start;
        if (length > TEXT_LINE_MAX)
            return peal_asm_fail(in, PEAL_ERR_LIMIT, start, "a line is longer than 65536 bytes");
        start += length + 1;
    }
    return PEAL_OK;
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

size_t peal_asm_skip(struct asm_source *in)
{
    while (in->at < in->bytes) {
        char c = in->text[in->at];
        if (c == '#') {
            const char *end = memchr(in->text + in->at, '\n', in->bytes - in->at);
            in->at = end ? (size_t)(end - in->text) : in->bytes;
        } else if (is_blank(c)) {
            in->at++;
        } else {
            break;
        }
    }
    return in->at;
}

int peal_asm_ended(struct asm_source *in)
{
    return peal_asm_skip(in) == in->bytes;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

/* A hyphen belongs to a word if the word goes on behind it: "peal-table", but "r0->r1". */
struct asm_word peal_asm_peek(struct asm_source *in)
{
    size_t start = peal_asm_skip(in);
    size_t end = start;
    while (end < in->bytes) {
        char c = in->text[end];
        int hyphen = c == '-' && end > start && end + 1 < in->bytes && is_word(in->text[end + 1]);
        if (!is_word(c) && !hyphen)
            break;
        end++;
    }
    return (struct asm_word){in->text + start, end - start};
}

int peal_asm_word_is(struct asm_word word, const char *text)
{
    return word.length == strlen(text) && memcmp(word.text, text, word.length) == 0;
}

int peal_asm_accept(struct asm_source *in, const char *word)
{
    struct asm_word next = peal_asm_peek(in);
    if (!peal_asm_word_is(next, word))
        return 0;
    in->at += next.length;
    return 1;
}

int peal_asm_accept_mark(struct asm_source *in, const char *mark)
{
    size_t at = peal_asm_skip(in);
    size_t length = strlen(mark);
    if (in->bytes - at < length || memcmp(in->text + at, mark, length) != 0)
        return 0;
    in->at += length;
    return 1;
}

peal_status peal_asm_word(struct asm_source *in, const char *word)
{
    if (peal_asm_accept(in, word))
        return PEAL_OK;
    const struct asm_choice only = {word, &word, 1};
    return peal_asm_unknown(in, &only);
}

peal_status peal_asm_mark(struct asm_source *in, const char *mark)
{
    return peal_asm_accept_mark(in, mark) ? PEAL_OK : peal_asm_expected(in, mark);
}

/* ---- numbers */

/* Digits to the value; 0 if there are none, others among them, or more than `most`. */
static int digits_value(struct asm_word digits, uint64_t most, uint64_t *value)
{
    uint64_t sum = 0;
    if (digits.length == 0)
        return 0;
    for (size_t i = 0; i < digits.length; i++) {
        uint64_t digit = (uint64_t)(digits.text[i] - '0');
        if (!is_digit(digits.text[i]) || digit > most || sum > (most - digit) / 10)
            return 0;
        sum = 10 * sum + digit;
    }
    *value = sum;
    return 1;
}

static struct asm_word peek_digits(struct asm_source *in)
{
    size_t start = peal_asm_skip(in);
    size_t end = start;
    while (end < in->bytes && is_word(in->text[end]))
        end++;
    return (struct asm_word){in->text + start, end - start};
}

peal_status peal_asm_number(struct asm_source *in, const char *expected, uint64_t most,
                            uint64_t *value)
{
    struct asm_word word = peek_digits(in);
    if (!digits_value(word, most, value))
        return peal_asm_expected(in, expected);
    in->at += word.length;
    return PEAL_OK;
}

peal_status peal_asm_u32(struct asm_source *in, const char *expected, uint32_t *value)
{
    uint64_t wide = 0;
    PEAL_TRY(peal_asm_number(in, expected, UINT32_MAX, &wide));
    *value = (uint32_t)wide;
    return PEAL_OK;
}

int peal_asm_is_tagged(struct asm_word word, char letter)
{
    return word.length > 1 && word.text[0] == letter && is_digit(word.text[1]);
}

peal_status peal_asm_tagged(struct asm_source *in, char letter, const char *expected, uint64_t most,
                            uint32_t *value)
{
    struct asm_word word = peek_digits(in);
    uint64_t wide = 0;
    if (!peal_asm_is_tagged(word, letter) ||
        !digits_value((struct asm_word){word.text + 1, word.length - 1},
                      most < UINT32_MAX ? most : UINT32_MAX, &wide))
        return peal_asm_expected(in, expected);
    in->at += word.length;
    *value = (uint32_t)wide;
    return PEAL_OK;
}

/* ---- text */

peal_status peal_asm_quoted(struct asm_source *in, char *text, size_t bytes)
{
    if (!peal_asm_accept_mark(in, "\""))
        return peal_asm_expected(in, "a text in quotes");
    size_t start = in->at;
    size_t end = start;
    while (end < in->bytes && in->text[end] >= 0x20 && in->text[end] < 0x7f && in->text[end] != '"')
        end++;
    if (end == in->bytes || in->text[end] != '"')
        return peal_asm_fail(in, PEAL_ERR_INPUT, end,
                             "expected printable ASCII and a closing quote");
    if (end - start >= bytes)
        return peal_asm_fail(in, PEAL_ERR_INPUT, start, "this text is too long for its field");
    memcpy(text, in->text + start, end - start);
    text[end - start] = '\0';
    in->at = end + 1;
    return PEAL_OK;
}

peal_status peal_asm_name(struct asm_source *in, char *text, size_t bytes)
{
    size_t start = peal_asm_skip(in);
    size_t end = start;
    while (end < in->bytes && (is_word(in->text[end]) || in->text[end] == '-'))
        end++;
    if (end == start || end - start >= bytes)
        return peal_asm_expected(in, "a name of 1 to 63 of a-z, 0-9 and -");
    memcpy(text, in->text + start, end - start);
    text[end - start] = '\0';
    in->at = end;
    return PEAL_OK;
}

peal_status peal_asm_choose(struct asm_source *in, const struct asm_choice *choice, uint32_t *index)
{
    struct asm_word word = peal_asm_peek(in);
    for (uint32_t i = 0; i < choice->count; i++) {
        if (peal_asm_word_is(word, choice->words[i])) {
            in->at += word.length;
            *index = i;
            return PEAL_OK;
        }
    }
    return peal_asm_unknown(in, choice);
}
