/* SPDX-License-Identifier: Apache-2.0 */
/* Which candidate serves each size: the best one, or, of those about as good, the simplest; and how
 * far it does. */
#include "select.h"

/* A choice stands until it is this much slower than the best: fewer, longer rows. */
#define KEEP_FACTOR 1.02
/* Of candidates this close to the best, the one with the fewest lanes is taken; where the best is
 * this close to the bound, of those that are so too. */
#define TIE_FACTOR 1.01
/* What a pipeline that loses less to longer start-ups may cost more, and lose more than another. */
#define CALM_FACTOR 1.005
#define PRICE_MAX 1e18 /* below 2^63 picoseconds */

struct pick {
    uint32_t index;
    double price; /* time, with the price of its SMs */
};

int peal_select_fits(const struct planner *planner, uint32_t index, uint64_t bytes)
{
    const struct candidate *candidate = &planner->candidates[index];
    return !peal_policy_barred(planner, index) && bytes <= candidate->max_bytes &&
           peal_candidate_scratch(candidate, bytes) <= planner->request.scratch_limit;
}

uint32_t peal_select_sms(const struct planner *planner, const struct candidate *candidate)
{
    int copied = candidate->corner == CORNER_COPY &&
                 !peal_plan_collective(planner->request.collective)->reduces;
    return planner->group.accelerators && !copied ? candidate->lanes : 0;
}

/* What the candidate costs if it takes so long. */
static double price_of(const struct planner *planner, uint32_t index, uint64_t bytes, double us)
{
    uint32_t sms = peal_select_sms(planner, &planner->candidates[index]);
    /* Compared as whole picoseconds, so that no rounding mode or compiler decides. */
    double price = us * (1 + planner->request.sm_price * sms) * 1e6;
    price *= peal_policy_factor(planner, index, bytes);
    price = price < PRICE_MAX ? price : PRICE_MAX;
    return (double)(uint64_t)(price + 0.5);
}

double peal_select_price(const struct planner *planner, uint32_t index, uint64_t bytes)
{
    struct cost cost;
    peal_candidate_cost(&planner->candidates[index], bytes, &cost);
    return price_of(planner, index, bytes, cost.time_us);
}

/* The one that needs least scratch, when the bound rules all out: shrink rather than fail. */
static uint32_t smallest(const struct planner *planner, uint64_t bytes)
{
    uint32_t best = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < planner->count; i++) {
        uint64_t scratch = peal_candidate_scratch(&planner->candidates[i], bytes);
        if (bytes <= planner->candidates[i].max_bytes && scratch < least &&
            !peal_policy_barred(planner, i)) {
            least = scratch;
            best = i;
        }
    }
    return best;
}

static struct pick pick_best(const struct planner *planner, uint64_t bytes)
{
    struct pick best = {UINT32_MAX, 0};
    for (uint32_t i = 0; i < planner->count; i++) {
        if (!peal_select_fits(planner, i, bytes))
            continue;
        double price = peal_select_price(planner, i, bytes);
        if (best.index == UINT32_MAX || price < best.price)
            best = (struct pick){i, price};
    }
    if (best.index == UINT32_MAX) {
        best.index = smallest(planner, bytes);
        best.price = peal_select_price(planner, best.index, bytes);
    }
    return best;
}

/* What no choice may cost: some more than the best, but never more than a plain ring or tree. */
static double most_price(const struct planner *planner, double best, double factor, uint64_t bytes)
{
    double most = best * factor;
    for (uint32_t i = 0; i < planner->count; i++) {
        const struct candidate *candidate = &planner->candidates[i];
        if ((candidate->algo != ALGO_RING && candidate->algo != ALGO_TREE) ||
            !peal_select_fits(planner, i, bytes))
            continue;
        double price = peal_select_price(planner, i, bytes);
        most = price < most ? price : most;
    }
    return most;
}

/* What fewer lanes may cost: some time, but not the optimum where that is within reach. */
static double tie_price(const struct planner *planner, double best, uint64_t bytes)
{
    double most = most_price(planner, best, TIE_FACTOR, bytes);
    double close = peal_planner_bound(planner, bytes) * TIE_FACTOR * 1e6; /* picoseconds */
    return best <= close && close < most ? close : most;
}

static int is_tied(const struct planner *planner, uint32_t index, double most, uint64_t bytes)
{
    return peal_select_fits(planner, index, bytes) &&
           peal_select_price(planner, index, bytes) <= most;
}

static double strained_price(const struct planner *planner, uint32_t index, uint64_t bytes)
{
    return price_of(planner, index, bytes,
                    peal_candidate_strained_us(&planner->candidates[index], bytes));
}

/* Of those that cost no more than `most`, and no more than `strained` under strain, one with the
 * fewest lanes, but no more than `lanes`; else `index`. */
static uint32_t fewest_lanes(const struct planner *planner, uint32_t index, uint32_t lanes,
                             double most, double strained, uint64_t bytes)
{
    for (uint32_t i = 0; i < planner->count; i++) {
        if (planner->candidates[i].lanes >= lanes || !is_tied(planner, i, most, bytes) ||
            (strained < PRICE_MAX && strained_price(planner, i, bytes) > strained))
            continue;
        index = i;
        lanes = planner->candidates[i].lanes;
    }
    return index;
}

/* Between hosts a few lanes' transfers may keep in step with each other and leave NICs idle: what
 * would lose more than others under strain gives way to one that does not, and is as near the best.
 */
static uint32_t calm(const struct planner *planner, double most, uint32_t chosen, uint64_t bytes)
{
    double least = PRICE_MAX, own = strained_price(planner, chosen, bytes);
    if (own <= peal_select_price(planner, chosen, bytes) * CALM_FACTOR)
        return chosen;
    for (uint32_t i = 0; i < planner->count; i++) {
        if (!is_tied(planner, i, most, bytes))
            continue;
        double price = strained_price(planner, i, bytes);
        least = price < least ? price : least;
    }
    if (own <= least * CALM_FACTOR)
        return chosen;
    return fewest_lanes(planner, chosen, UINT32_MAX, most, least * CALM_FACTOR, bytes);
}

uint32_t peal_select_best(const struct planner *planner, uint64_t bytes)
{
    struct pick best = pick_best(planner, bytes);
    double most = tie_price(planner, best.price, bytes), near = best.price * CALM_FACTOR;
    uint32_t chosen = fewest_lanes(planner, best.index, planner->candidates[best.index].lanes, most,
                                   PRICE_MAX, bytes);
    if (planner->group.nhosts < 2)
        return chosen;
    return calm(planner, near < most ? near : most, chosen, bytes);
}

static int still_good(const struct planner *planner, uint32_t index, uint64_t bytes)
{
    struct pick best = pick_best(planner, bytes);
    if (!peal_select_fits(planner, index, bytes))
        return best.index == index;
    return peal_select_price(planner, index, bytes) <=
           most_price(planner, best.price, KEEP_FACTOR, bytes);
}

/* The last size of [good, bad) at which the candidate is still good. */
static uint64_t bisect(const struct planner *planner, uint32_t index, uint64_t good, uint64_t bad)
{
    while (bad - good > 1) {
        uint64_t middle = good + (bad - good) / 2;
        if (still_good(planner, index, middle))
            good = middle;
        else
            bad = middle;
    }
    return good;
}

/* In steps of an eighth, but never past a power of two or a quarter of one: costs have teeth where
 * another tile is begun, and round sizes are those that people use. */
static uint64_t next_size(uint64_t bytes, uint64_t limit)
{
    uint64_t power = 4;
    while (power <= bytes / 2)
        power *= 2;
    uint64_t quarter = (bytes / (power / 4) + 1) * (power / 4);
    uint64_t step = bytes / 8 ? bytes / 8 : 1;
    uint64_t next = bytes > limit - step ? limit : bytes + step;
    return quarter < next ? quarter : next;
}

uint64_t peal_select_end(const struct planner *planner, uint32_t index, uint64_t from, uint64_t to)
{
    uint64_t good = from;
    while (good < to) {
        uint64_t probe = next_size(good, to);
        if (!still_good(planner, index, probe))
            return bisect(planner, index, good, probe);
        good = probe;
    }
    return to;
}

uint32_t peal_select_rows(struct planner *planner, uint64_t *ends)
{
    uint32_t count = 0;
    uint64_t from = planner->request.min_bytes;
    for (;;) {
        uint32_t index = peal_select_best(planner, from);
        uint64_t to = count + 1 == ROWS_MAX
                          ? planner->request.max_bytes
                          : peal_select_end(planner, index, from, planner->request.max_bytes);
        planner->chosen[count] = index;
        ends[count++] = to;
        if (to >= planner->request.max_bytes)
            return count;
        from = to + 1;
    }
}
