/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be said of slices, of which nobody sees all: that each step is within what its engine
 * and link can do, within its buffers and slots. Whoever runs it so touches no memory but that of
 * the plan. That all slices together are right is proven where they come from.
 */
#include "verify_classes.h"

#include <stdio.h>
#include <string.h>

static void keep_first(void *user, const peal_finding *finding)
{
    peal_finding *first = user;
    if (!first->text[0])
        *first = *finding;
}

static peal_status check_plan(const struct peal_plan *plan, uint32_t row, peal_diag *diag)
{
    const struct plan_slice slice = {
        .program = plan->ranks[0], .nlinks = plan->nlinks, .links = plan->links};
    peal_finding first = {.text = {0}};
    struct verify_out out = {.row = row, .found = keep_first, .user = &first};
    uint32_t *signals_to = peal_calloc(plan->ctx, plan->nranks, sizeof *signals_to);
    if (!signals_to)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    peal_verify_check_slice(plan, peal_plan_tile_bound(plan), plan->slice_rank, &slice, signals_to,
                            &out);
    peal_free(plan->ctx, signals_to, plan->nranks * sizeof *signals_to);
    if (!out.findings)
        return PEAL_OK;
    return peal_fail(diag, PEAL_ERR_UNPROVEN, "row %u, %s, rank %u: %s: %.200s", row,
                     plan->algorithm, plan->slice_rank, first.kind, first.text);
}

peal_status peal_table_check_slices(const peal_table *table, peal_diag *diag)
{
    for (uint32_t i = 0; i < table->nrows; i++)
        PEAL_TRY(check_plan(table->rows[i].plan, i, diag));
    return PEAL_OK;
}
