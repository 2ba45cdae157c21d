/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers a candidate to a whole plan: every rank's program, gathered and sealed. */
#include "compiler.h"

peal_status peal_lower(const struct planner *planner, const struct candidate *candidate,
                       uint64_t min_bytes, uint64_t max_bytes, peal_diag *diag,
                       struct peal_plan **plan_out)
{
    struct emission *emission;
    struct peal_plan *plan = NULL;
    PEAL_TRY(peal_emission_begin(planner, planner->fabric, candidate, min_bytes, max_bytes, diag,
                                 &emission));
    peal_status status = peal_plan_gather(peal_emission_source(emission), &plan);
    peal_emission_end(emission);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "a plan %s for %u ranks cannot be built: %s",
                         peal_candidate_name(planner, candidate), planner->group.n,
                         peal_status_text(status));
    status = peal_plan_seal(plan, diag);
    if (status != PEAL_OK) {
        peal_plan_destroy(plan);
        return status;
    }
    *plan_out = plan;
    return PEAL_OK;
}
