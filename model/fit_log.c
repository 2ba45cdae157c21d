/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What launchers and logs put before a line of a table: [1,0]<stdout>: (mpirun), 0: (srun -l), the
 * name of a host (pdsh), [0] (hydra), a time (kubectl, journals), name | (compose), > (a
 * quotation).
 */
#include "fit.h"

#include <string.h>

#define DIGITS "0123456789"
#define BLANKS " \t"

/* A word of a date or of a time of day: no size is written so. */
static size_t clock_word(const char *line)
{
    size_t length = strspn(line, DIGITS "-:.,/TZ+");
    if (strspn(line, DIGITS) == 0 || strspn(line, DIGITS) == length)
        return 0;
    if (!memchr(line, ':', length) && !memchr(line, '-', length) && !memchr(line, '/', length))
        return 0;
    return line[length] == '\0' || strchr(BLANKS, line[length]) ? length : 0;
}

/* "0: ", "host-3: ", "worker  | ": only before what may be a line of a table. */
static size_t name_word(const char *line)
{
    size_t length = strcspn(line, BLANKS);
    size_t next = length + strspn(line + length, BLANKS);
    if (line[next] == '|')
        next++;
    else if (length < 2 || line[length - 1] != ':')
        return 0;
    const char *rest = line + next + strspn(line + next, BLANKS);
    return *line != '#' && *rest && strchr("#[" DIGITS, *rest) ? next : 0;
}

static size_t before(const char *line)
{
    static const char *const streams[] = {"<stdout>:", "<stderr>:"};
    if (*line == '>')
        return 1;
    for (int i = 0; i < 2; i++) {
        const char *stream = strstr(line, streams[i]);
        if (stream)
            return (size_t)(stream - line) + strlen(streams[i]);
    }
    const char *close = *line == '[' ? strchr(line, ']') : NULL;
    if (close)
        return (size_t)(close - line) + 1 + (close[1] == ':');
    size_t length = clock_word(line);
    return length ? length : name_word(line);
}

char *peal_fit_content(char *line)
{
    for (;;) {
        line += strspn(line, BLANKS);
        size_t length = before(line);
        if (length == 0)
            return line;
        line += length;
    }
}
