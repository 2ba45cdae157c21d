/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a topology file, and as a graph file of one: a fabric or an error, never a crash,
 * never a leak. */
#include "fuzz.h"
#include "support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    peal_fabric *fabric = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    if (peal_fabric_parse(ctx, (const char *)data, bytes, "fuzz.xml", NULL, &diag, &fabric) ==
        PEAL_OK)
        peal_fabric_destroy(fabric);
    if (peal_fabric_host(ctx, 4, &diag, &fabric) == PEAL_OK) {
        if (peal_fabric_graph_parse(fabric, (const char *)data, bytes, "fuzz.xml", &diag) !=
            PEAL_OK)
            diag.text[0] = '\0';
        peal_fabric_destroy(fabric);
    }
    peal_ctx_destroy(ctx);
    if (heap.blocks != 0)
        abort();
    return 0;
}
