/* SPDX-License-Identifier: Apache-2.0 */
/* Freezing a plan: its form is checked, its identity computed. */
#include "wire.h"

peal_status peal_plan_identify(struct peal_plan *plan, peal_diag *diag)
{
    struct peal_buf bytes;
    struct wire_part part;
    if (plan->sliced) { /* what the other ranks have is not known, but what it follows from */
        plan->id = plan->origin;
        return PEAL_OK;
    }
    peal_buf_init(&bytes, plan->ctx, WIRE_FILE_BYTES_MAX);
    peal_status status = peal_plan_encode_part(plan, &bytes, &part);
    if (status == PEAL_OK)
        plan->id = peal_hash128(bytes.data + part.first, part.bytes);
    peal_buf_free(&bytes);
    return status == PEAL_OK ? PEAL_OK
                             : peal_fail(diag, status, "the plan cannot be encoded: %s",
                                         peal_status_text(status));
}

peal_status peal_plan_seal(struct peal_plan *plan, peal_diag *diag)
{
    if (!plan)
        return peal_fail(diag, PEAL_ERR_ARG, "no plan");
    PEAL_TRY(peal_plan_check_form(plan, NULL, NULL, diag));
    return peal_plan_identify(plan, diag);
}
