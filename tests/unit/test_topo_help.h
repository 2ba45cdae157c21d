/* SPDX-License-Identifier: Apache-2.0 */
/* What the topology tests share: fabrics from text, short questions to them. */
#ifndef PEAL_TESTS_TEST_TOPO_HELP_H
#define PEAL_TESTS_TEST_TOPO_HELP_H

#include "support.h"
#include "test_suite.h"
#include "topo.h"

#include <check.h>
#include <math.h>
#include <string.h>

static struct test_heap heap;
static peal_ctx *ctx;
static peal_diag diag;
static peal_fabric *fabric; /* freed by tear_down */

static inline void set_up(void)
{
    ctx = test_ctx(&heap);
    memset(&diag, 0, sizeof diag);
    diag.size = sizeof diag;
    fabric = NULL;
}

static inline void tear_down(void)
{
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
    ck_assert_int_eq(heap.bytes, 0);
}

static inline peal_status parse(const char *text)
{
    peal_fabric_destroy(fabric);
    fabric = NULL;
    return peal_fabric_parse(ctx, text, strlen(text), "t.xml", NULL, &diag, &fabric);
}

static inline void parsed(const char *text)
{
    ck_assert_msg(parse(text) == PEAL_OK, "%u:%u: %s", diag.line, diag.column, diag.text);
}

static inline void loaded(const char *path)
{
    peal_fabric_destroy(fabric);
    fabric = NULL;
    ck_assert_msg(peal_fabric_load(ctx, path, &diag, &fabric) == PEAL_OK, "%s:%u:%u: %s", path,
                  diag.line, diag.column, diag.text);
}

/* Expects a refusal at a place, with a word of its text. */
static inline void refused(const char *text, uint32_t line, uint32_t column, const char *word)
{
    ck_assert_int_eq(parse(text), PEAL_ERR_INPUT);
    ck_assert_ptr_null(fabric);
    ck_assert_msg(diag.line == line && diag.column == column && strstr(diag.text, word),
                  "%u:%u: %s; expected %u:%u: ...%s...", diag.line, diag.column, diag.text, line,
                  column, word);
}

static inline peal_fabric_info about(void)
{
    peal_fabric_info info = {.size = sizeof info};
    ck_assert_int_eq(peal_fabric_get(fabric, &info), PEAL_OK);
    return info;
}

static inline peal_rank_info rank_at(uint32_t index)
{
    peal_rank_info info = {.size = sizeof info};
    ck_assert_int_eq(peal_fabric_rank(fabric, index, &info), PEAL_OK);
    return info;
}

static inline peal_nic_info nic_at(uint32_t index)
{
    peal_nic_info info = {.size = sizeof info};
    ck_assert_int_eq(peal_fabric_nic(fabric, index, &info), PEAL_OK);
    return info;
}

static inline peal_path_info path_of(uint32_t from, uint32_t to)
{
    peal_path_info info = {.size = sizeof info};
    ck_assert_int_eq(peal_fabric_path(fabric, from, to, &info), PEAL_OK);
    return info;
}

/* Notes of one level that hold a word; the line of the first in *line (may be NULL). */
static inline uint32_t notes_with(int warning, const char *word, uint32_t *line)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < about().notes; n++) {
        peal_note_info note = {.size = sizeof note};
        ck_assert_int_eq(peal_fabric_note(fabric, n, &note), PEAL_OK);
        if (note.warning != warning || !strstr(note.text, word))
            continue;
        if (count++ == 0 && line)
            *line = note.line;
    }
    return count;
}

static inline uint32_t warnings(void)
{
    return notes_with(1, "", NULL);
}

static inline int near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)) + 1e-12;
}

#endif
