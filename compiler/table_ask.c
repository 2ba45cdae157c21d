/* SPDX-License-Identifier: Apache-2.0 */
/* What a planned table can still tell: of other sizes, and of candidates that were not chosen. */
#include "select.h"

peal_status peal_table_predict(const peal_table *table, uint32_t row, uint64_t bytes,
                               peal_row_info *info)
{
    peal_row_info found;
    if (!table || !info || row >= table->nrows || !table->planner)
        return PEAL_ERR_ARG;
    const struct planner *planner = table->planner;
    if (bytes > planner->candidates[planner->chosen[row]].max_bytes)
        return PEAL_ERR_RANGE;
    peal_select_describe(planner, planner->chosen[row], bytes, bytes, &found);
    return peal_export(info, &found, sizeof found);
}

/* Of the prices, the place of the nth from below, the first of equal ones first. */
static uint32_t nth_price(const double *price, uint32_t count, uint32_t nth)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t better = 0;
        for (uint32_t k = 0; k < count && better <= nth; k++)
            better += price[k] < price[i] || (price[k] <= price[i] && k < i);
        if (better == nth)
            return i;
    }
    return count;
}

peal_status peal_table_candidate(const peal_table *table, uint32_t row, uint32_t index,
                                 peal_row_info *info)
{
    if (!table || !info || row >= table->nrows || !table->planner)
        return PEAL_ERR_ARG;
    const struct planner *planner = table->planner;
    uint64_t bytes = table->rows[row].info.max_bytes;
    if (index >= planner->count)
        return PEAL_ERR_ARG;
    size_t room = planner->count * sizeof(double);
    double *price = peal_alloc(planner->ctx, room);
    if (!price)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < planner->count; i++)
        price[i] = peal_select_price(planner, i, bytes);
    uint32_t found_at = nth_price(price, planner->count, index);
    peal_free(planner->ctx, price, room);
    if (found_at == planner->count)
        return PEAL_ERR_INTERNAL;
    peal_row_info found;
    peal_select_describe(planner, found_at, bytes, bytes, &found);
    return peal_export(info, &found, sizeof found);
}

static uint32_t chosen_for(const peal_table *table, uint64_t bytes)
{
    const struct planner *planner = table->planner;
    for (uint32_t i = 0; i < table->nrows; i++)
        if (bytes >= table->rows[i].info.min_bytes && bytes <= table->rows[i].info.max_bytes)
            return planner->chosen[i];
    return UINT32_MAX;
}

static uint32_t best_of(const struct planner *planner, const char *algorithm, uint64_t bytes)
{
    uint32_t best = UINT32_MAX;
    double least = 0;
    for (uint32_t i = 0; i < planner->count; i++) {
        const struct candidate *candidate = &planner->candidates[i];
        if (!peal_streq(peal_algo_get(candidate->algo)->name, algorithm) ||
            !peal_select_fits(planner, i, bytes))
            continue;
        double price = peal_select_price(planner, i, bytes);
        if (best != UINT32_MAX && price >= least)
            continue;
        best = i;
        least = price;
    }
    return best;
}

peal_status peal_table_best(const peal_table *table, const char *algorithm, uint64_t bytes,
                            peal_row_info *info)
{
    peal_row_info found;
    if (!table || !info || !bytes || !table->planner)
        return PEAL_ERR_ARG;
    uint32_t index =
        algorithm ? best_of(table->planner, algorithm, bytes) : chosen_for(table, bytes);
    if (index == UINT32_MAX)
        return PEAL_ERR_RANGE;
    peal_select_describe(table->planner, index, bytes, bytes, &found);
    return peal_export(info, &found, sizeof found);
}
