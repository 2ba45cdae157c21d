/* SPDX-License-Identifier: Apache-2.0 */
/* What files, scripts and other hosts say, as a terminal may have it: it takes control characters
 * for orders, so these are shown, not sent. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 4u /* \x1b */

/* Bytes of the UTF-8 character there; 0: none, or one that controls. */
static size_t character(const unsigned char *at, size_t left)
{
    size_t length = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (length == 1)
        return at[0] == '\t' || (at[0] >= 0x20 && at[0] != 0x7f);
    if (at[0] > 0xf4 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return at[0] == 0xc2 && at[1] < 0xa0 ? 0 : length;
}

char *plain(const char *text, size_t bytes)
{
    const unsigned char *from = (const unsigned char *)text;
    char *made = need(malloc(SHOWN * bytes + 1)), *to = made;
    for (size_t i = 0; i < bytes;) {
        size_t length = character(from + i, bytes - i);
        if (length)
            memcpy(to, from + i, length);
        else
            (void)snprintf(to, SHOWN + 1, "\\x%02x", (unsigned)from[i]);
        to += length ? length : SHOWN;
        i += length ? length : 1;
    }
    *to = '\0';
    return made;
}

static void put(FILE *file, const char *text, size_t bytes)
{
    char *shown = plain(text, bytes);
    fputs(shown, file);
    free(shown);
}

void put_lines(FILE *file, const char *text, size_t bytes)
{
    const char *end = text + bytes, *next;
    for (; (next = memchr(text, '\n', (size_t)(end - text))) != NULL; text = next + 1) {
        put(file, text, (size_t)(next - text));
        fputc('\n', file);
    }
    put(file, text, (size_t)(end - text));
}

void put_plain_list(FILE *file, const char *format, va_list args)
{
    char text[8192];
    int length = vsnprintf(text, sizeof text, format, args);
    size_t bytes = length < 0 ? 0 : (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    int line = bytes > 0 && text[bytes - 1] == '\n';
    put(file, text, bytes - (size_t)line);
    if (line)
        fputc('\n', file);
}

void put_plain(FILE *file, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_plain_list(file, format, args);
    va_end(args);
}
