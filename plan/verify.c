/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the proof of a plan: checks that need no execution first, then one symbolic execution
 * for each aliasing mode and trip count. */
#include "verify_classes.h"

#include <stdio.h>

/* Three calls in a row are executed as one up to this many ranks; beyond it, that every entry
 * precedes every return carries the proof alone. */
#define VERIFY_CHAIN_RANKS 16u

void peal_verify_find(struct verify_out *out, const char *kind, int64_t rank, int64_t lane,
                      int64_t step, const char *format, ...)
{
    out->findings++;
    if (!out->found || out->findings > VERIFY_FINDINGS_MAX)
        return;
    peal_finding finding = {sizeof finding, kind, out->row, rank, lane, step, {0}};
    va_list args;
    va_start(args, format);
    vsnprintf(finding.text, sizeof finding.text, format, args);
    va_end(args);
    out->found(out->user, &finding);
}

static uint32_t deepest(const struct peal_plan *plan)
{
    uint32_t depth = 1;
    for (uint32_t i = 0; i < plan->nregions; i++)
        if (plan->regions[i].depth > depth)
            depth = plan->regions[i].depth;
    return depth;
}

/* So many trips prove any number: the last is the first to reuse the deepest region's slots, and
 * has one such trip before it. Fewer where no message takes as many. */
uint32_t peal_verify_trips(const struct peal_plan *plan)
{
    uint64_t bound = peal_plan_trip_bound(plan);
    uint32_t depth = deepest(plan);
    return bound < depth + 2 ? (uint32_t)bound : depth + 2;
}

static void report_unentered(const struct verify_run *run, struct verify_out *out)
{
    if (run->unentered != UINT32_MAX && !run->plan->ahead)
        peal_verify_find(out, "composition", run->unentered, -1, -1,
                         "may return before rank %u has entered the call", run->unentered_by);
}

/* All parts by themselves, of equal ones the first; *whole is set when one that has lanes does not
 * hold every return back by itself, so that only all together can tell. */
static peal_status prove_parts(struct verify_run *run, struct verify_out *out, int *whole,
                               struct plan_proof *proof)
{
    const struct verify_parts *parts = run->parts;
    int held = 0;
    *whole = parts->count < 2;
    for (run->part = 0; !*whole && run->part < parts->count; run->part++) {
        if (parts->like[run->part] != run->part)
            continue;
        run->steps = 0;
        PEAL_TRY(peal_verify_execute(run, out));
        proof->steps += run->steps;
        if (out->findings)
            return PEAL_OK;
        if (!parts->lanes_in[run->part])
            continue;
        *whole = run->unentered != UINT32_MAX;
        held = 1;
    }
    *whole |= !held;
    return PEAL_OK;
}

static peal_status prove_run(struct verify_run *run, struct verify_out *out,
                             struct plan_proof *proof)
{
    int whole;
    PEAL_TRY(prove_parts(run, out, &whole, proof));
    proof->proofs++;
    if (!whole || out->findings)
        return PEAL_OK;
    run->part = VERIFY_ALL_PARTS;
    run->steps = 0;
    PEAL_TRY(peal_verify_execute(run, out));
    proof->steps += run->steps;
    report_unentered(run, out);
    return PEAL_OK;
}

/* In place, input and output are one: whatever conflicts out of place conflicts there too, under
 * the same order. So races are looked for in place, and values in both ways. Small plans are
 * executed for every trip count, large ones for the least and the most. */
static peal_status prove_runs(const struct peal_plan *plan, uint32_t most,
                              const struct verify_sems *sems, const struct verify_parts *parts,
                              const struct verify_orders *orders, struct verify_out *out,
                              struct plan_proof *proof)
{
    struct verify_run run = {.plan = plan, .sems = sems, .parts = parts, .orders = orders};
    int small = plan->nranks <= VERIFY_CHAIN_RANKS;
    int in_place = peal_plan_collective(plan->collective)->in_place;
    run.calls = small ? VERIFY_CALLS_MAX : 1;
    for (run.alias = 0; run.alias < 1 + in_place; run.alias++)
        for (run.trips = 1; run.trips <= most; run.trips++) {
            run.order = run.alias || small || !in_place;
            if (!small && run.trips > 1 && run.trips < most)
                continue;
            PEAL_TRY(prove_run(&run, out, proof));
            proof->order = run.shape == VERIFY_SHAPES_DIFFER ? 0 : run.shape;
            proof->wire_roundings = run.wires;
            if (out->findings)
                return PEAL_OK; /* one broken run explains the plan; the rest would repeat it */
        }
    return PEAL_OK;
}

peal_status peal_verify_schedule(const struct peal_plan *plan, uint32_t trips,
                                 const struct verify_orders *orders, struct verify_out *out,
                                 struct plan_proof *proof)
{
    struct verify_sems sems = {0};
    struct verify_parts parts = {0};
    peal_status status = peal_verify_sems_build(&sems, plan, out);
    if (status == PEAL_OK && !out->findings)
        status = peal_verify_parts_make(&parts, plan, &sems);
    if (status == PEAL_OK && !out->findings)
        status = peal_verify_parts_compare(&parts, plan, &sems);
    if (status == PEAL_OK && !out->findings)
        status = prove_runs(plan, trips, &sems, &parts, orders, out, proof);
    peal_verify_parts_free(&parts);
    peal_verify_sems_free(&sems);
    return status;
}

peal_status peal_plan_verify(const struct peal_plan *plan, uint32_t row, peal_finding_fn found,
                             void *user, struct plan_proof *proof, peal_diag *diag)
{
    struct verify_out out = {row, found, user, 0};
    struct plan_proof done = {.executed = plan->nranks};
    peal_status status = peal_verify_check(plan, &out);
    if (status == PEAL_OK)
        status = peal_verify_schedule(plan, peal_verify_trips(plan), NULL, &out, &done);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "verification stopped: %s", peal_status_text(status));
    done.findings = out.findings;
    if (proof)
        *proof = done;
    if (out.findings)
        return peal_fail(diag, PEAL_ERR_UNPROVEN, "plan %s for %u ranks: %u finding%s",
                         plan->algorithm, plan->nranks, out.findings, out.findings == 1 ? "" : "s");
    return PEAL_OK;
}

static peal_status prove_classes(const struct peal_plan *plan, uint32_t row, peal_finding_fn found,
                                 void *user, struct plan_proof *proof, peal_diag *diag)
{
    struct plan_reader reader;
    struct plan_source source;
    peal_status status = peal_plan_reader_init(&reader, plan, &source);
    if (status == PEAL_OK)
        status = peal_verify_by_classes(&source, row, found, user, proof, diag);
    peal_plan_reader_free(&reader);
    return status;
}

/* What does not fit the proof by classes is executed as a whole, unless that proof was asked for.
 */
static peal_status prove_plan(const struct peal_plan *plan, peal_proof how, uint32_t row,
                              peal_finding_fn found, void *user, struct plan_proof *proof,
                              peal_diag *diag)
{
    if (how == PEAL_PROOF_CLASSES)
        return prove_classes(plan, row, found, user, proof, diag);
    if (how == PEAL_PROOF_AUTO && plan->nranks > PLAN_ENUMERATE_RANKS) {
        peal_status status = prove_classes(plan, row, found, user, proof, diag);
        if (status != PEAL_ERR_UNSUPPORTED)
            return status;
    }
    return peal_plan_verify(plan, row, found, user, proof, diag);
}

/* The row whose proof is this row's too: of those with its schedule the first that is executed for
 * the most trips. It may be the row itself. */
static uint32_t stand_in(const peal_table *table, uint32_t row)
{
    uint32_t best = row;
    for (uint32_t i = 0; i < table->nrows; i++) {
        const struct peal_plan *a = table->rows[i].plan, *b = table->rows[best].plan;
        uint32_t trips = peal_verify_trips(a), most = peal_verify_trips(b);
        if (trips < most || (trips == most && i >= best) || !peal_verify_covers(a, b))
            continue;
        best = i;
    }
    return best;
}

/* What has been executed in another row is not executed again. */
static peal_status prove_row(const peal_table *table, peal_proof how, uint32_t row,
                             peal_finding_fn found, void *user, struct plan_proof *proofs,
                             peal_diag *diag)
{
    const struct peal_plan *plan = table->rows[row].plan;
    uint32_t other = stand_in(table, row);
    struct verify_out out = {row, NULL, NULL, 0};
    if (other == row || proofs[other].findings)
        return prove_plan(plan, how, row, found, user, &proofs[row], diag);
    peal_status status = peal_verify_check(plan, &out);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "verification stopped: %s", peal_status_text(status));
    if (out.findings)
        return prove_plan(plan, how, row, found, user, &proofs[row], diag);
    proofs[row] = proofs[other];
    proofs[row].steps = proofs[row].proofs = proofs[row].executed = 0;
    return PEAL_OK;
}

void peal_plan_add_proof(peal_verify_report *sum, const struct plan_proof *proof)
{
    sum->findings += proof->findings;
    sum->steps += proof->steps;
    sum->proofs += proof->proofs;
    sum->executed += proof->executed;
    sum->by_classes += proof->classes != 0;
    sum->hosts = proof->blocks > sum->hosts ? proof->blocks : sum->hosts;
    sum->rails = proof->rails > sum->rails ? proof->rails : sum->rails;
}

static peal_status check_whole(const peal_table *table, peal_diag *diag)
{
    for (uint32_t i = 0; i < table->nrows; i++) {
        const struct peal_plan *plan = table->rows[i].plan;
        if (!plan)
            return peal_fail(diag, PEAL_ERR_ARG, "row %u holds no program; compile the table", i);
        if (plan->sliced)
            return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                             "row %u holds the program of rank %u alone, and a proof is of all "
                             "ranks together",
                             i, plan->slice_rank);
    }
    return PEAL_OK;
}

/* Rows that stand for themselves first, then those that others stand for. */
static peal_status prove_rows(peal_table *table, peal_proof how, peal_finding_fn found, void *user,
                              struct plan_proof *proofs, peal_verify_report *sum, peal_diag *diag)
{
    peal_status result = PEAL_OK;
    for (uint32_t k = 0; k < 2 * table->nrows; k++) {
        uint32_t i = k % table->nrows;
        if ((stand_in(table, i) == i) != (k < table->nrows))
            continue;
        peal_status status =
            prove_row(table, how, i, found, user, proofs, result == PEAL_OK ? diag : NULL);
        if (status != PEAL_OK && status != PEAL_ERR_UNPROVEN)
            return status;
        if (status != PEAL_OK)
            result = status;
        table->rows[i].info.order = proofs[i].order;
        table->rows[i].info.wire_roundings = proofs[i].wire_roundings;
        peal_plan_add_proof(sum, &proofs[i]);
    }
    table->verified = result == PEAL_OK;
    return result;
}

peal_status peal_table_prove(peal_table *table, peal_proof how, peal_finding_fn found, void *user,
                             peal_verify_report *report, peal_diag *diag)
{
    if (!table)
        return peal_fail(diag, PEAL_ERR_ARG, "no table");
    if (how < PEAL_PROOF_AUTO || how > PEAL_PROOF_CLASSES)
        return peal_fail(diag, PEAL_ERR_ARG, "no such proof");
    peal_verify_report sum = {.size = sizeof sum, .ranks = table->nranks};
    PEAL_TRY(check_whole(table, diag));
    struct plan_proof *proofs = peal_calloc(table->ctx, table->nrows, sizeof *proofs);
    if (!proofs)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    peal_status result = prove_rows(table, how, found, user, proofs, &sum, diag);
    peal_free(table->ctx, proofs, table->nrows * sizeof *proofs);
    if (report && (result == PEAL_OK || result == PEAL_ERR_UNPROVEN))
        PEAL_TRY(peal_export(report, &sum, sizeof sum));
    return result;
}

peal_status peal_table_verify(peal_table *table, peal_finding_fn found, void *user,
                              peal_verify_report *report, peal_diag *diag)
{
    return peal_table_prove(table, PEAL_PROOF_AUTO, found, user, report, diag);
}
