/* SPDX-License-Identifier: Apache-2.0 */
/* The largest tile a plan can meet. */
#include "plan.h"

uint64_t peal_plan_tile_bound(const struct peal_plan *plan)
{
    uint64_t most = 0;
    for (size_t elem = 1; elem <= 8; elem *= 2) {
        uint64_t bytes = peal_plan_chunk_bytes(plan, plan->max_bytes / elem, elem);
        most = bytes > most ? bytes : most;
    }
    /* A shorter message can have a chunk longer by one rounding unit, and the last chunk takes
     * the remainder below a unit. */
    most = most > UINT64_MAX - 2 * PLAN_ALIGN ? most : most + 2 * PLAN_ALIGN;
    return plan->tile_bytes && plan->tile_bytes < most ? plan->tile_bytes : most;
}
