/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the text form of a plan: a table, which is then put to the proof, or an
 * error. Text reaches schedules that no compiler writes. */
#include "base.h"
#include "fuzz.h"
#include "support.h"

#include <string.h>

static peal_status into_buf(void *user, const char *data, size_t bytes)
{
    struct peal_buf *buf = user;
    peal_buf_put(buf, data, bytes);
    return buf->status;
}

/* What is printed is assembled to the same bytes. */
static void check_round_trip(peal_ctx *ctx, const peal_table *table)
{
    struct peal_buf text;
    struct peal_buf again;
    peal_table *read = NULL;
    peal_buf_init(&text, ctx, SIZE_MAX);
    peal_buf_init(&again, ctx, SIZE_MAX);
    if (peal_table_print(table, into_buf, &text, NULL) != PEAL_OK ||
        peal_table_assemble(ctx, text.data, text.used, "fuzz.s", NULL, &read) != PEAL_OK ||
        peal_table_print(read, into_buf, &again, NULL) != PEAL_OK || again.used != text.used ||
        memcmp(again.data, text.data, text.used) != 0)
        abort();
    peal_table_destroy(read);
    peal_buf_free(&text);
    peal_buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    peal_table *table = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    if (peal_table_assemble(ctx, (const char *)data, bytes, "fuzz.s", &diag, &table) == PEAL_OK) {
        check_round_trip(ctx, table);
        peal_verify_report report = {.size = sizeof report};
        peal_status status = peal_table_verify(table, NULL, NULL, &report, NULL);
        (void)status;
        peal_table_destroy(table);
    }
    peal_ctx_destroy(ctx);
    if (heap.blocks != 0)
        abort();
    return 0;
}
