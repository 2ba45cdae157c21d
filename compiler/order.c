/* SPDX-License-Identifier: Apache-2.0 */
/* One order of reduction for all sizes: the one whose candidates lose least to the best ones. */
#include "compiler.h"

#define LOSS_SCALE 1e6

static double best_time(const struct planner *planner, uint64_t bytes, enum reduction_order order,
                        int any)
{
    double best = 0;
    for (uint32_t i = 0; i < planner->count; i++) {
        const struct candidate *candidate = &planner->candidates[i];
        struct cost cost;
        if ((!any && candidate->order != order) || bytes > candidate->max_bytes)
            continue;
        peal_candidate_cost(candidate, bytes, &cost);
        if (best == 0 || cost.time_us < best)
            best = cost.time_us;
    }
    return best;
}

/* How many times as long as the best, summed over powers of two, in millionths; UINT64_MAX when
 * there is a size that no candidate of the order serves. */
static uint64_t loss_of(const struct planner *planner, enum reduction_order order)
{
    uint64_t sum = 0, most = planner->request.max_bytes;
    for (uint64_t bytes = planner->request.min_bytes; bytes; bytes = bytes == most ? 0
                                                                     : bytes > most / 2
                                                                         ? most
                                                                         : bytes * 2) {
        double best = best_time(planner, bytes, order, 1);
        double own = best_time(planner, bytes, order, 0);
        if (own <= 0 || best <= 0)
            return UINT64_MAX;
        sum += (uint64_t)(own / best * LOSS_SCALE + 0.5);
    }
    return sum;
}

peal_status peal_planner_one_order(struct planner *planner, peal_diag *diag)
{
    enum reduction_order best = ORDER_VARIES;
    uint64_t least = UINT64_MAX;
    for (uint32_t order = ORDER_VARIES + 1; order < ORDER_COUNT; order++) {
        uint64_t loss = loss_of(planner, (enum reduction_order)order);
        if (loss < least) {
            least = loss;
            best = (enum reduction_order)order;
        }
    }
    if (best == ORDER_VARIES)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "no algorithm here reduces in one order at every size up to %llu bytes",
                         (unsigned long long)planner->request.max_bytes);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < planner->count; i++)
        if (planner->candidates[i].order == best)
            planner->candidates[kept++] = planner->candidates[i];
    planner->count = kept;
    return PEAL_OK;
}
