/* SPDX-License-Identifier: Apache-2.0 */
/* The largest chunk and tile a plan can meet, and the most trips. */
#include "plan.h"

/* Elements of the message whose size is counted as `bytes`: of all its blocks, while alltoall
 * counts one rank's, and a list of pairs one pair's. */
static uint64_t elements_of(const struct peal_plan *plan, uint64_t bytes, size_t elem_bytes)
{
    uint64_t count = bytes / elem_bytes;
    uint32_t times = plan->npairs                                              ? plan->npairs
                     : peal_plan_collective(plan->collective)->block_power < 2 ? 1
                                                                               : plan->nranks;
    return count > UINT64_MAX / times ? UINT64_MAX : count * times;
}

static uint64_t chunk_bound(const struct peal_plan *plan)
{
    uint64_t most = 0;
    for (size_t elem = 1; elem <= 8; elem *= 2) {
        uint64_t bytes =
            peal_plan_chunk_bytes(plan, elements_of(plan, plan->max_bytes, elem), elem);
        most = bytes > most ? bytes : most;
    }
    /* A shorter message can have a chunk longer by one rounding unit, and the last chunk takes
     * the remainder below a unit. */
    return most > UINT64_MAX - 2 * PLAN_ALIGN ? most : most + 2 * PLAN_ALIGN;
}

uint64_t peal_plan_tile_bound(const struct peal_plan *plan)
{
    uint64_t most = chunk_bound(plan);
    return plan->tile_bytes && plan->tile_bytes < most ? plan->tile_bytes : most;
}

uint64_t peal_plan_trip_bound(const struct peal_plan *plan)
{
    uint64_t most = chunk_bound(plan);
    if (!plan->tile_bytes)
        return 1;
    return most / plan->tile_bytes + (most % plan->tile_bytes != 0);
}
