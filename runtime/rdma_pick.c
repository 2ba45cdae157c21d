/* SPDX-License-Identifier: Apache-2.0 */
/* Which device, port and GID: the parts that look at texts and numbers. */
#include "rdma_nic.h"

#include <string.h>

/* Digits up to `end`, below 256. */
static int read_number(const char *at, const char *end, uint32_t *number)
{
    *number = 0;
    if (at == end || end - at > 3)
        return 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return 0;
        *number = *number * 10 + (uint32_t)(*at - '0');
    }
    return *number < 256;
}

int rdma_choice_read(const char *text, struct rdma_choice *choice)
{
    const char *end = text + strlen(text);
    const char *colon = strchr(text, ':');
    const char *second = colon ? strchr(colon + 1, ':') : NULL;
    size_t name = (size_t)((colon ? colon : end) - text);
    uint32_t number;
    *choice = (struct rdma_choice){.gid = -1};
    if (name == 0 || name >= sizeof choice->device || memchr(text, '/', name))
        return 0;
    memcpy(choice->device, text, name);
    if (colon && (!read_number(colon + 1, second ? second : end, &choice->port) || !choice->port))
        return 0;
    if (!second)
        return 1;
    if (!read_number(second + 1, end, &number))
        return 0;
    choice->gid = (int32_t)number;
    return 1;
}

/* Routable before link-local, and of the routable ones those that stand for an IPv4 address. */
int rdma_gid_rank(const uint8_t gid[16], int v2)
{
    static const uint8_t none[16] = {0};
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (memcmp(gid, none, sizeof none) == 0)
        return 0;
    int rank = 2;
    if (memcmp(gid, mapped, sizeof mapped) == 0)
        rank = 3;
    else if (gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80)
        rank = 1;
    return v2 ? rank + 3 : rank;
}

uint32_t rdma_closeness(const char *a, const char *b)
{
    uint32_t steps = 0;
    for (; *a && *a == *b; a++, b++)
        steps += *a == '/';
    return steps + (*a == *b || (*a == '\0' && *b == '/') || (*a == '/' && *b == '\0'));
}
