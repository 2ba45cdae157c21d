/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a table share parts even where their plans differ: four channels and eight are the same
 * channel, four times and eight. What has been executed of a part in an earlier row is not executed
 * again.
 */
#include "verify.h"

#include <string.h>

#define RUNS_MAX 4096u

void peal_verify_plan_free(struct verify_plan *taken)
{
    peal_verify_parts_free(&taken->parts);
    peal_verify_sems_free(&taken->sems);
    *taken = (struct verify_plan){NULL, {0}, {0}};
}

void peal_verify_past_free(struct verify_past *past)
{
    for (uint32_t i = 0; i < past->nplans; i++)
        peal_verify_plan_free(&past->plans[i]);
    peal_free(past->ctx, past->plans, past->plans_room * sizeof *past->plans);
    peal_free(past->ctx, past->parts, past->parts_room * sizeof *past->parts);
    peal_free(past->ctx, past->runs, past->runs_room * sizeof *past->runs);
}

/* ---- looking up ------------------------------------------------------------------ */

/* Parts of a plan that are past parts of `plan`. */
static void find_twins(const struct verify_past *past, uint32_t plan, struct verify_alike *alike,
                       uint32_t *twin)
{
    const struct verify_parts *parts = &alike->two->parts;
    for (uint32_t p = 0; p < parts->count; p++)
        for (uint32_t k = 0; k < past->nparts && !twin[p]; k++)
            if (parts->like[p] == p && parts->lanes_in[p] && past->parts[k].plan == plan &&
                peal_verify_alike_parts(alike, past->parts[k].part, p))
                twin[p] = k + 1;
}

peal_status peal_verify_past_find(const struct verify_past *past, const struct verify_plan *taken,
                                  uint32_t *twin)
{
    for (uint32_t i = 0; i < past->nplans; i++) {
        struct verify_alike alike;
        if (!peal_verify_same_meaning(past->plans[i].plan, taken->plan))
            continue;
        PEAL_TRY(peal_verify_alike_open(&alike, &past->plans[i], taken));
        find_twins(past, i, &alike, twin);
        peal_verify_alike_close(&alike);
    }
    return PEAL_OK;
}

const struct verify_past_run *peal_verify_past_run(const struct verify_past *past, uint32_t part,
                                                   uint32_t trips, int alias)
{
    for (uint32_t i = 0; i < past->nruns; i++) {
        const struct verify_past_run *run = &past->runs[i];
        if (run->part == part && run->trips == trips && run->alias == alias)
            return run;
    }
    return NULL;
}

/* ---- keeping ---------------------------------------------------------------------- */

/* There is room for the plan before there is a part of it, so that keeping it cannot fail. */
peal_status peal_verify_past_part(struct verify_past *past, uint32_t part, uint32_t *at)
{
    PEAL_TRY(peal_grow(past->ctx, (void **)&past->plans, &past->plans_room,
                       (size_t)past->nplans + 1, sizeof *past->plans, VERIFY_KINDS_MAX));
    PEAL_TRY(peal_grow(past->ctx, (void **)&past->parts, &past->parts_room,
                       (size_t)past->nparts + 1, sizeof *past->parts, VERIFY_KINDS_MAX));
    past->parts[past->nparts] = (struct verify_past_part){past->nplans, part};
    *at = past->nparts++;
    return PEAL_OK;
}

peal_status peal_verify_past_add(struct verify_past *past, const struct verify_past_run *run)
{
    PEAL_TRY(peal_grow(past->ctx, (void **)&past->runs, &past->runs_room, (size_t)past->nruns + 1,
                       sizeof *past->runs, RUNS_MAX));
    past->runs[past->nruns++] = *run;
    return PEAL_OK;
}

void peal_verify_past_keep(struct verify_past *past, struct verify_plan *taken)
{
    if (!past->nparts || past->parts[past->nparts - 1].plan != past->nplans)
        return;
    past->plans[past->nplans++] = *taken;
    *taken = (struct verify_plan){NULL, {0}, {0}};
}
