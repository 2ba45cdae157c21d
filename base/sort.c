/* SPDX-License-Identifier: Apache-2.0 */
#include "sort.h"

#include <stdint.h>
#include <string.h>

#define PIECE 64u

static void swap_pieces(unsigned char *a, unsigned char *b, size_t bytes)
{
    unsigned char piece[PIECE];
    for (size_t part; bytes; bytes -= part, a += part, b += part) {
        part = bytes < PIECE ? bytes : PIECE;
        memcpy(piece, a, part);
        memcpy(a, b, part);
        memcpy(b, piece, part);
    }
}

/* Numbers and pointers, which most are, in registers. */
static void swap(unsigned char *a, unsigned char *b, size_t bytes)
{
    uint32_t four[2];
    uint64_t eight[2];
    if (bytes == sizeof *four) {
        memcpy(&four[0], a, sizeof *four);
        memcpy(&four[1], b, sizeof *four);
        memcpy(a, &four[1], sizeof *four);
        memcpy(b, &four[0], sizeof *four);
    } else if (bytes == sizeof *eight) {
        memcpy(&eight[0], a, sizeof *eight);
        memcpy(&eight[1], b, sizeof *eight);
        memcpy(a, &eight[1], sizeof *eight);
        memcpy(b, &eight[0], sizeof *eight);
    } else {
        swap_pieces(a, b, bytes);
    }
}

struct sorting {
    unsigned char *at;
    size_t bytes;
    peal_before_fn before;
    const void *with;
};

static int is_before(const struct sorting *s, size_t a, size_t b)
{
    return s->before(s->at + a * s->bytes, s->at + b * s->bytes, s->with);
}

/* Moves the element at `root` down among `count`, until none below comes behind it. */
static void sift(const struct sorting *s, size_t root, size_t count)
{
    while (root < count / 2) {
        size_t child = 2 * root + 1;
        if (child + 1 < count && is_before(s, child, child + 1))
            child++;
        if (!is_before(s, root, child))
            return;
        swap(s->at + root * s->bytes, s->at + child * s->bytes, s->bytes);
        root = child;
    }
}

void peal_sort(void *at, size_t count, size_t bytes, peal_before_fn before, const void *with)
{
    struct sorting s = {at, bytes, before, with};
    for (size_t i = count / 2; i-- > 0;)
        sift(&s, i, count);
    for (size_t last = count; last-- > 1;) {
        swap(s.at, s.at + last * bytes, bytes);
        sift(&s, 0, last);
    }
}
