/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter and info structs across versions of the header: each starts with the size
 * its user compiled in. */
#include "base.h"

#include <string.h>

static size_t struct_size(const void *object)
{
    size_t size;
    memcpy(&size, object, sizeof size);
    return size;
}

static int all_zero(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i])
            return 0;
    }
    return 1;
}

peal_status peal_import(void *dst, size_t dst_bytes, const void *src)
{
    if (!src)
        return PEAL_ERR_ARG;
    size_t src_bytes = struct_size(src);
    if (src_bytes < sizeof src_bytes)
        return PEAL_ERR_ARG;
    const unsigned char *from = src;
    if (src_bytes > dst_bytes && !all_zero(from + dst_bytes, src_bytes - dst_bytes))
        return PEAL_ERR_ARG; /* asks for something this library does not know */
    size_t shared = src_bytes < dst_bytes ? src_bytes : dst_bytes;
    memcpy(dst, src, shared);
    memset((unsigned char *)dst + shared, 0, dst_bytes - shared);
    memcpy(dst, &dst_bytes, sizeof dst_bytes);
    return PEAL_OK;
}

peal_status peal_export(void *dst, const void *src, size_t src_bytes)
{
    if (!dst)
        return PEAL_ERR_ARG;
    size_t dst_bytes = struct_size(dst);
    if (dst_bytes < sizeof dst_bytes)
        return PEAL_ERR_ARG;
    size_t shared = src_bytes < dst_bytes ? src_bytes : dst_bytes;
    memcpy(dst, src, shared);
    memset((unsigned char *)dst + shared, 0, dst_bytes - shared);
    memcpy(dst, &dst_bytes, sizeof dst_bytes);
    return PEAL_OK;
}
