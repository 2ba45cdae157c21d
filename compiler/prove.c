/* SPDX-License-Identifier: Apache-2.0 */
/* Proves planned rows through their sources: no row's programs are all there at once, where the
 * proof does not need them to be. */
#include "compiler.h"

/* All programs together take no more memory than a compiled row may, going by the first. */
static int fits_whole(const struct plan_source *source)
{
    const struct plan_slice *slice;
    if (source->head->nranks <= PEAL_WHOLE_RANKS)
        return 1;
    return source->read(source->user, 0, &slice) == PEAL_OK &&
           peal_plan_slice_bytes(slice) <= PEAL_WHOLE_BYTES / source->head->nranks;
}

/* The proof of one source: by classes where it is large and fits, else all programs together, if
 * they are not too much. */
static peal_status prove_source(const struct plan_source *source, uint32_t row,
                                peal_finding_fn found, void *user, struct plan_proof *proof,
                                peal_diag *diag)
{
    struct peal_plan *plan;
    peal_status status = PEAL_ERR_UNSUPPORTED;
    if (source->head->nranks > PLAN_ENUMERATE_RANKS)
        status = peal_plan_verify_classes(source, row, found, user, proof, diag);
    if (status != PEAL_ERR_UNSUPPORTED || !fits_whole(source))
        return status;
    status = peal_plan_gather(source, &plan);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "row %u cannot be built: %s", row, peal_status_text(status));
    status = peal_plan_seal(plan, diag);
    if (status == PEAL_OK)
        status = peal_plan_verify(plan, row, found, user, proof, diag);
    peal_plan_destroy(plan);
    return status;
}

static peal_status prove_row(const peal_table *table, uint32_t row, const peal_fabric *fabric,
                             peal_finding_fn found, void *user, struct plan_proof *proof,
                             peal_diag *diag)
{
    struct emission *emission;
    PEAL_TRY(peal_emission_of_row(table, row, fabric, diag, &emission));
    peal_status status =
        prove_source(peal_emission_source(emission), row, found, user, proof, diag);
    peal_emission_end(emission);
    return status;
}

peal_status peal_table_verify_planned(peal_table *table, const peal_fabric *fabric,
                                      peal_finding_fn found, void *user, peal_verify_report *report,
                                      peal_diag *diag)
{
    if (!table || !fabric || !table->planner)
        return peal_fail(diag, PEAL_ERR_ARG, "a planned table and its fabric are needed");
    peal_verify_report sum = {.size = sizeof sum, .ranks = table->nranks};
    peal_status result = PEAL_OK;
    for (uint32_t i = 0; i < table->nrows; i++) {
        struct plan_proof proof = {.findings = 0};
        peal_status status =
            prove_row(table, i, fabric, found, user, &proof, result == PEAL_OK ? diag : NULL);
        if (status != PEAL_OK && status != PEAL_ERR_UNPROVEN)
            return status;
        if (status != PEAL_OK)
            result = status;
        table->rows[i].info.order = proof.order;
        table->rows[i].info.wire_roundings = proof.wire_roundings;
        peal_plan_add_proof(&sum, &proof);
    }
    table->verified = result == PEAL_OK;
    if (result == PEAL_OK)
        result = peal_table_check_order(table, diag);
    if (report)
        PEAL_TRY(peal_export(report, &sum, sizeof sum));
    return result;
}
