/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of a planned table: made, and proven. */
#include "select.h"

#include <string.h>

#define FEW_RANKS 64u /* whose programs always fit */

/* What the programs hold and use, which the candidate could only foretell. */
static peal_status note_compiled(const struct planner *planner, struct table_row *row,
                                 peal_diag *diag)
{
    peal_row_info info;
    const peal_request *request = &planner->request;
    peal_plan_describe(row->plan, &info);
    if (planner->group.accelerators && (info.sms > (request->zero_sm   ? 0
                                                    : request->max_sms ? request->max_sms
                                                                       : UINT32_MAX)))
        return peal_fail(diag, PEAL_ERR_INTERNAL, "%s holds %u SMs, more than was asked for",
                         row->info.algorithm, info.sms);
    row->info.scratch_bytes = info.scratch_bytes;
    row->info.sms = row->info.sms ? info.sms : 0;
    row->info.tile_bytes = info.tile_bytes;
    row->info.net_messages = info.net_messages;
    row->info.net_message_bytes = info.net_message_bytes;
    memcpy(row->info.move_engines, info.move_engines, sizeof info.move_engines);
    return PEAL_OK;
}

/* Programs of all ranks are not made where they would not fit; some ranks are looked at first, for
 * most are alike. */
static peal_status check_whole(const peal_table *table, uint32_t row, const peal_fabric *fabric,
                               peal_diag *diag)
{
    uint32_t n = table->nranks;
    const uint32_t sample[] = {0, n / 2, n - 1};
    struct emission *emission;
    uint64_t most = 0;
    if (n <= FEW_RANKS)
        return PEAL_OK;
    PEAL_TRY(peal_emission_of_row(table, row, fabric, diag, &emission));
    const struct plan_source *source = peal_emission_source(emission);
    peal_status status = PEAL_OK;
    for (size_t i = 0; status == PEAL_OK && i < sizeof sample / sizeof sample[0]; i++) {
        const struct plan_slice *slice;
        status = source->read(source->user, sample[i], &slice);
        uint64_t bytes = status == PEAL_OK ? peal_plan_slice_bytes(slice) : 0;
        most = bytes > most ? bytes : most;
    }
    peal_emission_end(emission);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "row %u cannot be built: %s", row, peal_status_text(status));
    if (n <= PEAL_WHOLE_RANKS && most <= PEAL_WHOLE_BYTES / n)
        return PEAL_OK;
    return peal_fail(diag, PEAL_ERR_LIMIT,
                     "row %u: the programs of %u ranks, of up to %llu bytes each, are not made "
                     "all at once; one rank's are",
                     row, n, (unsigned long long)most);
}

static peal_status lower_rows(peal_table *table, const struct planner *planner, peal_diag *diag)
{
    for (uint32_t i = 0; i < table->nrows; i++) {
        struct table_row *row = &table->rows[i];
        if (row->plan)
            continue;
        PEAL_TRY(check_whole(table, i, planner->fabric, diag));
        PEAL_TRY(peal_lower(planner, &planner->candidates[planner->chosen[i]], row->info.min_bytes,
                            row->info.max_bytes, diag, &row->plan));
        PEAL_TRY(note_compiled(planner, row, diag));
    }
    return PEAL_OK;
}

static peal_status check_fabric(const struct planner *planner, const peal_fabric *fabric,
                                peal_diag *diag)
{
    peal_fabric_info info = {.size = sizeof info};
    PEAL_TRY(peal_fabric_get(fabric, &info));
    if (info.digest != planner->digest)
        return peal_fail(diag, PEAL_ERR_ARG, "the table was planned on another fabric");
    return PEAL_OK;
}

peal_status peal_emission_of_row(const peal_table *table, uint32_t row, const peal_fabric *fabric,
                                 peal_diag *diag, struct emission **emission_out)
{
    const struct planner *planner = table->planner;
    if (!planner || row >= table->nrows)
        return peal_fail(diag, PEAL_ERR_ARG, "only rows of a planned table can be compiled");
    PEAL_TRY(check_fabric(planner, fabric, diag));
    const peal_row_info *info = &table->rows[row].info;
    return peal_emission_begin(planner, fabric, &planner->candidates[planner->chosen[row]],
                               info->min_bytes, info->max_bytes, diag, emission_out);
}

peal_status peal_table_check_order(const peal_table *table, peal_diag *diag)
{
    const struct planner *planner = table->planner;
    if (!planner->request.deterministic)
        return PEAL_OK;
    for (uint32_t i = 0; i < table->nrows; i++) {
        const peal_row_info *info = &table->rows[i].info;
        if (!info->order && table->nranks > 1 && peal_plan_collective(info->collective)->reduces)
            return peal_fail(diag, PEAL_ERR_UNPROVEN,
                             "row %u does not reduce every element in one order", i);
        if (info->order != table->rows[0].info.order)
            return peal_fail(diag, PEAL_ERR_UNPROVEN,
                             "rows 0 and %u do not reduce in the same order", i);
    }
    return PEAL_OK;
}

peal_status peal_table_lower(peal_table *table, const peal_fabric *fabric, peal_diag *diag)
{
    if (!table || !fabric || !table->planner)
        return peal_fail(diag, PEAL_ERR_ARG, "only a planned table can be compiled");
    struct planner *planner = table->planner;
    PEAL_TRY(check_fabric(planner, fabric, diag));
    planner->fabric = fabric;
    planner->group.fabric = fabric;
    peal_status status = lower_rows(table, planner, diag);
    planner->fabric = NULL;
    planner->group.fabric = NULL;
    return status;
}

peal_status peal_table_compile(peal_table *table, const peal_fabric *fabric, peal_diag *diag)
{
    PEAL_TRY(peal_table_lower(table, fabric, diag));
    PEAL_TRY(peal_table_verify(table, NULL, NULL, NULL, diag));
    return peal_table_check_order(table, diag);
}
