/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that goes to standard error. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int coloured(void)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return !(no && *no) && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

static void put_kind(enum say kind)
{
    static const char *const words[] = {"error", "warning", "note"};
    static const char *const colours[] = {"\033[1;31m", "\033[1;35m", "\033[1;36m"};
    if (coloured())
        fprintf(stderr, "%s%s:\033[0m ", colours[kind], words[kind]);
    else
        fprintf(stderr, "%s: ", words[kind]);
}

static void say_list(enum say kind, const char *format, va_list args) PEAL_PRINTF(2, 0);
static void say_list(enum say kind, const char *format, va_list args)
{
    (void)fflush(stdout);
    fputs("peal: ", stderr);
    put_kind(kind);
    put_plain_list(stderr, format, args);
    fputc('\n', stderr);
}

void say(enum say kind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_list(kind, format, args);
    va_end(args);
}

int say_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_list(SAY_ERROR, format, args);
    va_end(args);
    return EXIT_USAGE;
}

static int code_of(peal_status status)
{
    switch (status) {
    case PEAL_ERR_UNPROVEN:
        return EXIT_NO;
    case PEAL_ERR_ARG:
    case PEAL_ERR_RANGE:
        return EXIT_USAGE;
    case PEAL_ERR_UNSUPPORTED:
    case PEAL_ERR_INPUT:
    case PEAL_ERR_LIMIT:
    case PEAL_ERR_IO:
    case PEAL_ERR_PLAN:
        return EXIT_INPUT;
    default:
        return EXIT_RUNTIME;
    }
}

int say_diag(peal_status status, const peal_diag *diag)
{
    if (status == PEAL_OK)
        return EXIT_YES;
    const char *text = diag && diag->text[0] ? diag->text : peal_status_text(status);
    if (!diag || !diag->path[0]) {
        say(SAY_ERROR, "%s", text);
        return code_of(status);
    }
    (void)fflush(stdout);
    put_plain(stderr, "%s:", diag->path);
    if (diag->line)
        fprintf(stderr, "%lu:", (unsigned long)diag->line);
    if (diag->line && diag->column)
        fprintf(stderr, "%lu:", (unsigned long)diag->column);
    fputc(' ', stderr);
    put_kind(SAY_ERROR);
    put_plain(stderr, "%s\n", text);
    return code_of(status);
}

/* ---- the nearest word */

#define WORD_MAX 32u

/* Insertions, deletions, replacements, and swaps of neighbours, each counted once. */
static unsigned distance(const char *a, const char *b)
{
    unsigned rows[3][WORD_MAX + 1];
    size_t na = strlen(a), nb = strlen(b);
    if (na > WORD_MAX || nb > WORD_MAX)
        return WORD_MAX;
    for (unsigned j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= na; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (unsigned j = 1; j <= nb; j++) {
            unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            int swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            row[j] = swapped && before[j - 2] + 1 < best ? before[j - 2] + 1 : best;
        }
    }
    return rows[na % 3][nb];
}

const char *nearest(const char *word, name_fn name, uint32_t known)
{
    const char *best = NULL;
    unsigned least = 2 + (unsigned)strlen(word) / 4;
    for (uint32_t i = 0; i < known; i++) {
        const char *other = name(i);
        size_t length = strlen(word);
        unsigned far = length > 2 && strncmp(word, other, length) == 0 ? 1 : distance(word, other);
        if (far < least && far < strlen(other)) {
            least = far;
            best = other;
        }
    }
    return best;
}

/* ---- time */

uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void say_progress(const char *what, uint64_t done, uint64_t total)
{
    static uint64_t start;
    static int shown;
    if (!start)
        start = now_ns();
    if (done >= total) {
        if (shown)
            fputs("\r\033[K", stderr);
        (void)fflush(stderr);
        shown = 0;
        return;
    }
    if (now_ns() - start < 2000000000u || !isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r%s: %llu of %llu\033[K", what, (unsigned long long)done,
            (unsigned long long)total);
    (void)fflush(stderr);
    shown = 1;
}

void *need(void *memory)
{
    if (!memory) {
        say(SAY_ERROR, "out of memory");
        exit(EXIT_RUNTIME);
    }
    return memory;
}
