/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's programs out of a planned table, in time and memory of its own steps. */
#include "compiler.h"

static peal_status slice_row(const peal_table *table, uint32_t row, const peal_fabric *fabric,
                             uint32_t rank, peal_diag *diag, struct table_row *to)
{
    struct emission *emission;
    struct peal_plan *plan;
    PEAL_TRY(peal_emission_of_row(table, row, fabric, diag, &emission));
    peal_status status = peal_emission_take(emission, rank, &plan);
    peal_emission_end(emission);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "the program of rank %u cannot be built: %s", rank,
                         peal_status_text(status));
    to->plan = plan; /* the table's, also when this fails */
    PEAL_TRY(peal_plan_seal(plan, diag));
    to->info = table->rows[row].info; /* predictions are of all ranks */
    to->info.scratch_bytes = peal_plan_scratch_bytes(plan);
    to->info.tile_bytes = plan->tile_bytes;
    return PEAL_OK;
}

peal_status peal_table_slice(const peal_table *table, const peal_fabric *fabric, uint32_t rank,
                             uint32_t row, peal_diag *diag, peal_table **slice_out)
{
    if (!table || !fabric || !slice_out || !table->planner)
        return peal_fail(diag, PEAL_ERR_ARG, "only a planned table can be sliced");
    if (rank >= table->nranks || (row != PEAL_EVERY_ROW && row >= table->nrows))
        return peal_fail(diag, PEAL_ERR_ARG, "rank %u or row %u is beyond the table's", rank, row);
    uint32_t first = row == PEAL_EVERY_ROW ? 0 : row;
    uint32_t count = row == PEAL_EVERY_ROW ? table->nrows : 1;
    peal_table *slice;
    if (peal_table_create(table->ctx, count, &slice) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    slice->nranks = table->nranks;
    peal_status status = PEAL_OK;
    for (uint32_t i = 0; status == PEAL_OK && i < count; i++)
        status = slice_row(table, first + i, fabric, rank, diag, &slice->rows[i]);
    if (status != PEAL_OK) {
        peal_table_destroy(slice);
        return status;
    }
    *slice_out = slice;
    return PEAL_OK;
}
