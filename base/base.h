/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ground floor: status, diagnostics, memory, bounded buffers, hashing and
 * exact arithmetic. Knows nothing of fabrics and plans.
 */
#ifndef PEAL_BASE_BASE_H
#define PEAL_BASE_BASE_H

#include <peal/peal.h>
#include <stdarg.h>

/* Returns its argument's status when it is not PEAL_OK. The one macro that may
 * hide control flow. */
#define PEAL_TRY(expr)                                                                             \
    do {                                                                                           \
        peal_status peal_try_status = (expr);                                                      \
        if (peal_try_status != PEAL_OK)                                                            \
            return peal_try_status;                                                                \
    } while (0)

/* ---- diagnostics: record and return, so that `return peal_fail(...)` reads well. diag may
 * be NULL. peal_fail has no place, peal_fail_at has file, line and column (0: none). */
peal_status peal_fail(peal_diag *diag, peal_status status, const char *format, ...)
    PEAL_PRINTF(3, 4);
peal_status peal_fail_at(peal_diag *diag, peal_status status, const char *path, uint32_t line,
                         uint32_t column, const char *format, ...) PEAL_PRINTF(6, 7);

/* ---- memory: all of it through the context's allocator */
void *peal_alloc(peal_ctx *ctx, size_t bytes);                /* NULL: out of memory */
void *peal_calloc(peal_ctx *ctx, size_t count, size_t bytes); /* zeroed; NULL on overflow too */
void *peal_realloc(peal_ctx *ctx, void *ptr, size_t old_bytes, size_t new_bytes);
void peal_free(peal_ctx *ctx, void *ptr, size_t bytes); /* NULL is fine */
char *peal_strdup(peal_ctx *ctx, const char *text);     /* free with peal_strfree */
void peal_strfree(peal_ctx *ctx, char *text);
/* Makes room in a vector for `need` elements; doubles. ERR_LIMIT beyond limit, ERR_MEMORY.
 * *ptr is a pointer to the first element, stored through void **. */
peal_status peal_grow(peal_ctx *ctx, void **ptr, uint32_t *capacity, size_t need, size_t elem_bytes,
                      size_t limit);

/* ---- a growable byte buffer with a hard limit; failure is sticky */
struct peal_buf {
    peal_ctx *ctx;
    char *data;
    size_t used;
    size_t capacity;
    size_t limit;
    peal_status status;
};
void peal_buf_init(struct peal_buf *buf, peal_ctx *ctx, size_t limit);
void peal_buf_free(struct peal_buf *buf);
void peal_buf_put(struct peal_buf *buf, const void *data, size_t bytes);
/* One byte, in line: plans are written byte by byte. */
static inline void peal_buf_byte(struct peal_buf *buf, unsigned char byte)
{
    if (buf->used < buf->capacity && buf->status == PEAL_OK)
        buf->data[buf->used++] = (char)byte;
    else
        peal_buf_put(buf, &byte, 1);
}
void peal_buf_str(struct peal_buf *buf, const char *text);
/* Never with %f, %e, %g or %a, whose decimal point is the locale's: text that is read back,
 * hashed or compared holds integers. */
void peal_buf_fmt(struct peal_buf *buf, const char *format, ...) PEAL_PRINTF(2, 3);

/* ---- copy of a parameter struct whose first member is size_t size: a shorter one is
 * zero-extended, a longer one accepted when its tail is zero. ERR_ARG otherwise. */
peal_status peal_import(void *dst, size_t dst_bytes, const void *src);
/* The reverse for info structs the library fills: copies the caller's info->size bytes. */
peal_status peal_export(void *dst, const void *src, size_t src_bytes);

/* ---- exact arithmetic */
int peal_mul_overflows(size_t a, size_t b, size_t *product);
/* floor(a * num / den) without overflow for num <= den < 2^32. */
uint64_t peal_muldiv(uint64_t a, uint32_t num, uint32_t den);

/* ---- hashing (XXH3): identity and checksums, not security */
struct peal_hash128 {
    uint64_t low;
    uint64_t high;
};
uint64_t peal_hash64(const void *data, size_t bytes);
struct peal_hash128 peal_hash128(const void *data, size_t bytes);

/* ---- text */
int peal_streq(const char *a, const char *b);
void peal_copy_text(char *dst, size_t dst_bytes, const char *src); /* truncates, terminates */

#endif
