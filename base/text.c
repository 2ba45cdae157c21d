/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"

#include <string.h>

int peal_streq(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

void peal_copy_text(char *dst, size_t dst_bytes, const char *src)
{
    if (dst_bytes == 0)
        return;
    size_t length = strlen(src);
    if (length >= dst_bytes)
        length = dst_bytes - 1;
    memcpy(dst, src, length);
    dst[length] = '\0';
}
