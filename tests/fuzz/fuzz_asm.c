/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the text form of a plan: a table, which is then put to the proof, or an
 * error. Text reaches schedules that no compiler writes. */
#include "fuzz.h"
#include "support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    peal_table *table = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    if (peal_table_assemble(ctx, (const char *)data, bytes, "fuzz.s", &diag, &table) == PEAL_OK) {
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
