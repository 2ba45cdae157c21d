/* SPDX-License-Identifier: Apache-2.0 */
/* A context over a counting heap for each test, which must leave nothing alive. */
#ifndef PEAL_TESTS_FIXTURE_H
#define PEAL_TESTS_FIXTURE_H

#include "support.h"

#include <check.h>

static struct test_heap heap;
static peal_ctx *ctx;

static void set_up(void)
{
    ctx = test_ctx(&heap);
}

static void tear_down(void)
{
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
    ck_assert_int_eq(heap.bytes, 0);
}

#endif
