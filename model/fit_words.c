/* SPDX-License-Identifier: Apache-2.0 */
/* Lines, words and numbers of measured tables, the same in every locale. */
#include "fit.h"

#include "topo_text.h"

#include <string.h>

peal_status peal_fit_line(struct fit_text *text, char *line, int *got)
{
    *got = text->at < text->bytes;
    if (!*got)
        return PEAL_OK;
    const char *from = text->data + text->at;
    const char *end = memchr(from, '\n', text->bytes - text->at);
    size_t length = end ? (size_t)(end - from) : text->bytes - text->at;
    text->at += length + (end != NULL);
    text->line++;
    if (length > 0 && from[length - 1] == '\r')
        length--;
    if (length >= FIT_LINE) {
        length = FIT_LINE - 1;
        *got = FIT_LONG;
    }
    if (memchr(from, '\0', length))
        return peal_fail_at(text->diag, PEAL_ERR_INPUT, text->path, text->line, 0,
                            "a zero byte: no text, or not in UTF-8");
    memcpy(line, from, length);
    line[length] = '\0';
    return PEAL_OK;
}

uint32_t peal_fit_words(char *line, char **word)
{
    uint32_t count = 0;
    while (count < FIT_WORDS) {
        line += strspn(line, " \t");
        if (*line == '\0')
            return count;
        word[count++] = line;
        line += strcspn(line, " \t");
        if (*line)
            *line++ = '\0';
    }
    return count;
}

int peal_fit_whole(const char *word, uint64_t *out)
{
    uint64_t value = 0;
    if (!*word)
        return 0;
    for (; *word; word++) {
        if (*word < '0' || *word > '9' || value > (UINT64_MAX - 9) / 10)
            return 0;
        value = value * 10 + (uint64_t)(*word - '0');
    }
    *out = value;
    return 1;
}

int peal_fit_real(const char *word, double *out)
{
    return (*word == '.' || (*word >= '0' && *word <= '9')) && peal_topo_read_double(word, out) &&
           *out >= 0 && *out < 1e15;
}
