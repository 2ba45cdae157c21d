/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of scripts begin and end with: a context whose memory is counted, and the lines that
 * scripts print. */
#ifndef PEAL_TEST_LUA_H
#define PEAL_TEST_LUA_H

#include "support.h"

#include <check.h>
#include <string.h>

static struct test_heap heap;
static peal_ctx *ctx;
static char printed[32768];

static void begin(void)
{
    ctx = test_ctx(&heap);
    printed[0] = 0;
}

static void end(void)
{
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

static void take_line(void *user, const char *line, size_t bytes)
{
    size_t used = strlen(printed);
    (void)user;
    (void)snprintf(printed + used, sizeof printed - used, "%.*s\n", (int)bytes, line);
}

#endif
