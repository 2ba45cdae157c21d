/* SPDX-License-Identifier: Apache-2.0 */
/* A growable byte buffer with a hard limit. The first failure sticks: a writer puts
 * everything and looks at `status` once. */
#include "base.h"

#include <stdio.h>
#include <string.h>

void peal_buf_init(struct peal_buf *buf, peal_ctx *ctx, size_t limit)
{
    *buf = (struct peal_buf){.ctx = ctx, .limit = limit, .status = PEAL_OK};
}

void peal_buf_free(struct peal_buf *buf)
{
    peal_free(buf->ctx, buf->data, buf->capacity);
    peal_buf_init(buf, buf->ctx, buf->limit);
}

/* Room for `more` bytes behind what is used. 0: there is none, and status says why. */
static int buf_reserve(struct peal_buf *buf, size_t more)
{
    if (buf->status != PEAL_OK)
        return 0;
    if (more > buf->limit - buf->used) {
        buf->status = PEAL_ERR_LIMIT;
        return 0;
    }
    size_t need = buf->used + more;
    if (need <= buf->capacity)
        return 1;
    size_t next = buf->capacity > buf->limit / 2 ? buf->limit : 2 * buf->capacity;
    if (next < 256)
        next = 256 < buf->limit ? 256 : buf->limit;
    if (next < need)
        next = need;
    char *data = peal_realloc(buf->ctx, buf->data, buf->capacity, next);
    if (!data) {
        buf->status = PEAL_ERR_MEMORY;
        return 0;
    }
    buf->data = data;
    buf->capacity = next;
    return 1;
}

void peal_buf_put(struct peal_buf *buf, const void *data, size_t bytes)
{
    if (bytes == 0 || !buf_reserve(buf, bytes))
        return;
    memcpy(buf->data + buf->used, data, bytes);
    buf->used += bytes;
}

void peal_buf_str(struct peal_buf *buf, const char *text)
{
    peal_buf_put(buf, text, strlen(text));
}

/* Lines of text are short: one pass into a line on the stack, and only a longer one is
 * measured first. */
void peal_buf_fmt(struct peal_buf *buf, const char *format, ...)
{
    char line[256];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length < 0) {
        if (buf->status == PEAL_OK)
            buf->status = PEAL_ERR_INTERNAL;
        return;
    }
    size_t bytes = (size_t)length;
    if (bytes < sizeof line) {
        peal_buf_put(buf, line, bytes);
        return;
    }
    /* vsnprintf ends what it writes with a zero: hence one byte of room beyond. */
    char *whole = peal_alloc(buf->ctx, bytes + 1);
    if (!whole) {
        if (buf->status == PEAL_OK)
            buf->status = PEAL_ERR_MEMORY;
        return;
    }
    va_start(args, format);
    (void)vsnprintf(whole, bytes + 1, format, args);
    va_end(args);
    peal_buf_put(buf, whole, bytes);
    peal_free(buf->ctx, whole, bytes + 1);
}
