/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a table of measured times: series or an error, never a crash, never a leak; what is
 * read can be fitted or is refused. */
#include "fuzz.h"
#include "support.h"

static void fit_all(peal_ctx *ctx, const peal_measured *measured)
{
    for (uint32_t i = 0; i < peal_measured_count(measured) && i < 4; i++) {
        peal_series_info info = {.size = sizeof info};
        const peal_point *point;
        peal_fit fit = {.size = sizeof fit};
        if (peal_measured_get(measured, i, &info, &point) != PEAL_OK || !info.points)
            abort();
        uint32_t count = info.points < 12 ? info.points : 12;
        if (peal_fit_points(ctx, point, count, 3, NULL, &fit) == PEAL_OK &&
            !(peal_fit_time(&fit, point[0].bytes) > -1e18))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    peal_measured *measured = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    if (peal_measured_create(ctx, &measured) == PEAL_OK) {
        if (peal_measured_read(measured, (const char *)data, bytes, "fuzz", &diag) == PEAL_OK)
            fit_all(ctx, measured);
        else if (peal_measured_count(measured) != 0 || !diag.text[0])
            abort();
        peal_measured_destroy(measured);
    }
    peal_ctx_destroy(ctx);
    if (heap.blocks != 0)
        abort();
    return 0;
}
