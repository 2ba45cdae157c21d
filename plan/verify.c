/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the proof of a plan: checks that need no execution first, then one symbolic execution
 * for each aliasing mode and trip count. */
#include "verify_classes.h"

#include <stdio.h>
#include <string.h>

/* The calls that are executed in a row do the same wrong: it is said once. */
static int said_before(const struct verify_out *out, const peal_finding *finding)
{
    const peal_finding *last = &out->last;
    return out->findings && last->rank == finding->rank && last->lane == finding->lane &&
           last->step == finding->step && strcmp(last->text, finding->text) == 0;
}

void peal_verify_find(struct verify_out *out, const char *kind, int64_t rank, int64_t lane,
                      int64_t step, const char *format, ...)
{
    if (out->findings >= (out->found ? VERIFY_FINDINGS_MAX : 1u)) {
        out->findings++;
        return;
    }
    peal_finding finding = {sizeof finding, kind, out->row, rank, lane, step, {0}};
    va_list args;
    va_start(args, format);
    vsnprintf(finding.text, sizeof finding.text, format, args);
    va_end(args);
    if (said_before(out, &finding))
        return;
    if (out->findings++ == 0)
        peal_copy_text(out->first, sizeof out->first, finding.text);
    out->last = finding;
    if (out->found)
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

/* What is executed, and what has been of earlier plans. */
struct proving {
    struct verify_run run;
    struct verify_past *past; /* NULL: nothing is looked up or kept */
    uint32_t *twin;           /* of each part: 1 + its number in the past, 0: it is not there */
};

/* The digest of what two sets of results have in common. */
static uint64_t common_shape(uint64_t a, uint64_t b)
{
    return !a ? b : !b || a == b ? a : VERIFY_SHAPES_DIFFER;
}

/* Beyond so many there are no more. */
static peal_status remember(struct proving *p)
{
    const struct verify_run *run = &p->run;
    uint32_t *twin = p->past ? &p->twin[run->part] : NULL, at;
    if (!twin || !run->parts->lanes_in[run->part])
        return PEAL_OK;
    peal_status status = *twin ? PEAL_OK : peal_verify_past_part(p->past, run->part, &at);
    if (status == PEAL_OK) {
        *twin = *twin ? *twin : at + 1;
        struct verify_past_run past = {*twin - 1,         run->trips, run->alias, run->unentered,
                                       run->unentered_by, run->shape, run->wires};
        status = peal_verify_past_add(p->past, &past);
    }
    return status == PEAL_ERR_LIMIT ? PEAL_OK : status;
}

static void recall(struct verify_run *run, const struct verify_past_run *past)
{
    run->unentered = past->unentered;
    run->unentered_by = past->unentered_by;
    run->shape = past->shape;
    run->wires = past->wires;
    run->steps = 0;
}

/* run->part, by itself. */
static peal_status prove_part(struct proving *p, struct verify_out *out)
{
    struct verify_run *run = &p->run;
    uint32_t twin = p->past ? p->twin[run->part] : 0, wires = run->wires;
    uint64_t shape = run->shape;
    const struct verify_past_run *past =
        twin ? peal_verify_past_run(p->past, twin - 1, run->trips, run->alias) : NULL;
    run->shape = run->wires = 0;
    run->steps = 0;
    if (past)
        recall(run, past);
    else
        PEAL_TRY(peal_verify_execute(run, out));
    if (!past && !out->findings)
        PEAL_TRY(remember(p));
    run->shape = common_shape(run->shape, shape);
    run->wires = run->wires > wires ? run->wires : wires;
    return PEAL_OK;
}

/* A part that holds every return back has a lane on each rank: of more than a rank has lanes, some
 * do not, and making room for each part by itself would take the square of their number. */
static int too_many(const struct verify_parts *parts)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < parts->count; i++)
        count += parts->lanes_in[i] != 0;
    return count > PLAN_LANES_MAX;
}

/* All parts by themselves, of equal ones the first; *whole is set when one that has lanes does not
 * hold every return back by itself, so that only all together can tell. */
static peal_status prove_parts(struct proving *p, struct verify_out *out, int *whole,
                               struct plan_proof *proof)
{
    struct verify_run *run = &p->run;
    const struct verify_parts *parts = run->parts;
    int held = 0;
    *whole = parts->count < (p->past ? 1 : 2) || too_many(parts);
    for (run->part = 0; !*whole && run->part < parts->count; run->part++) {
        if (parts->like[run->part] != run->part)
            continue;
        PEAL_TRY(prove_part(p, out));
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

static peal_status prove_run(struct proving *p, struct verify_out *out, struct plan_proof *proof)
{
    struct verify_run *run = &p->run;
    int whole;
    PEAL_TRY(prove_parts(p, out, &whole, proof));
    proof->proofs++;
    if (!whole || out->findings)
        return PEAL_OK;
    if (!p->past || run->parts->count != 1) { /* the only part is all, and has been executed */
        run->part = VERIFY_ALL_PARTS;
        run->steps = 0;
        PEAL_TRY(peal_verify_execute(run, out));
        proof->steps += run->steps;
    }
    report_unentered(run, out);
    return PEAL_OK;
}

/* In place, input and output are one: whatever conflicts out of place conflicts there too, under
 * the same order. So races are looked for in place, and values in both ways. Small plans are
 * executed for every trip count up to some, large ones for the least and the most. */
static peal_status prove_runs(struct proving *p, uint32_t most, struct verify_out *out,
                              struct plan_proof *proof)
{
    struct verify_run *run = &p->run;
    int small = run->plan->nranks <= VERIFY_CHAIN_RANKS;
    int in_place = peal_plan_collective(run->plan->collective)->in_place;
    run->calls = small ? VERIFY_CALLS_MAX : 1;
    for (run->alias = 0; run->alias < 1 + in_place; run->alias++)
        for (run->trips = 1; run->trips <= most; run->trips++) {
            run->order = run->alias || small || !in_place;
            if ((!small || run->trips > VERIFY_EVERY_TRIPS) && run->trips > 1 && run->trips < most)
                continue;
            PEAL_TRY(prove_run(p, out, proof));
            proof->order = run->shape == VERIFY_SHAPES_DIFFER ? 0 : run->shape;
            proof->wire_roundings = run->wires;
            if (out->findings)
                return PEAL_OK; /* one broken run explains the plan; the rest would repeat it */
        }
    return PEAL_OK;
}

static peal_status prove_taken(const struct verify_plan *taken, uint32_t trips,
                               const struct verify_orders *orders, struct verify_past *past,
                               struct verify_out *out, struct plan_proof *proof)
{
    struct proving proving = {
        {.plan = taken->plan, .sems = &taken->sems, .parts = &taken->parts, .orders = orders},
        past,
        NULL};
    size_t bytes = taken->parts.count * sizeof *proving.twin;
    peal_status status = PEAL_OK;
    if (past) {
        proving.twin = peal_calloc(taken->plan->ctx, 1, bytes);
        status = proving.twin ? peal_verify_past_find(past, taken, proving.twin) : PEAL_ERR_MEMORY;
    }
    if (status == PEAL_OK)
        status = prove_runs(&proving, trips, out, proof);
    peal_free(taken->plan->ctx, proving.twin, bytes);
    return status;
}

peal_status peal_verify_schedule(const struct peal_plan *plan, uint32_t trips,
                                 const struct verify_orders *orders, struct verify_past *past,
                                 struct verify_out *out, struct plan_proof *proof)
{
    struct verify_plan taken = {.plan = plan};
    peal_status status = peal_verify_sems_build(&taken.sems, plan, out);
    if (status == PEAL_OK && !out->findings)
        status = peal_verify_parts_make(&taken.parts, plan, &taken.sems);
    if (status == PEAL_OK && !out->findings)
        status = peal_verify_parts_compare(&taken);
    if (status == PEAL_OK && !out->findings)
        status = prove_taken(&taken, trips, orders, past, out, proof);
    if (past)
        peal_verify_past_keep(past, &taken);
    peal_verify_plan_free(&taken);
    return status;
}

/* past: of plans before, or NULL. */
static peal_status prove_whole(const struct peal_plan *plan, uint32_t row, peal_finding_fn found,
                               void *user, struct verify_past *past, struct plan_proof *proof,
                               peal_diag *diag)
{
    struct verify_out out = {.row = row, .found = found, .user = user};
    struct plan_proof done = {.executed = plan->nranks};
    peal_status status = peal_verify_check(plan, &out);
    if (status == PEAL_OK)
        status = peal_verify_schedule(plan, peal_verify_trips(plan), NULL, past, &out, &done);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "verification stopped: %s", peal_status_text(status));
    done.findings = out.findings;
    if (proof)
        *proof = done;
    if (out.findings)
        return peal_fail(diag, PEAL_ERR_UNPROVEN,
                         "plan %s for %u ranks: %u finding%s, the first: %s", plan->algorithm,
                         plan->nranks, out.findings, out.findings == 1 ? "" : "s", out.first);
    return PEAL_OK;
}

peal_status peal_plan_verify(const struct peal_plan *plan, uint32_t row, peal_finding_fn found,
                             void *user, struct plan_proof *proof, peal_diag *diag)
{
    return prove_whole(plan, row, found, user, NULL, proof, diag);
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
                              peal_finding_fn found, void *user, struct verify_past *past,
                              struct plan_proof *proof, peal_diag *diag)
{
    if (how == PEAL_PROOF_CLASSES)
        return prove_classes(plan, row, found, user, proof, diag);
    if (how == PEAL_PROOF_AUTO && plan->nranks > PLAN_ENUMERATE_RANKS) {
        peal_status status = prove_classes(plan, row, found, user, proof, diag);
        if (status != PEAL_ERR_UNSUPPORTED)
            return status;
    }
    return prove_whole(plan, row, found, user, past, proof, diag);
}

/* A table being proven. */
struct rows {
    peal_table *table;
    peal_proof how;
    peal_finding_fn found;
    void *user;
    struct verify_past past;
    struct row {
        struct plan_proof proof;
        uint32_t trips;
        uint32_t stand_in; /* the row whose proof is this one's too; perhaps the row itself */
    } * row;
};

/* Of the rows with this row's schedule the first that is executed for the most trips. */
static uint32_t stand_in(const struct rows *rows, uint32_t row)
{
    const peal_table *table = rows->table;
    uint32_t best = row;
    for (uint32_t i = 0; i < table->nrows; i++) {
        uint32_t trips = rows->row[i].trips, most = rows->row[best].trips;
        if (trips < most || (trips == most && i >= best) ||
            !peal_verify_covers(table->rows[i].plan, table->rows[best].plan, trips, most))
            continue;
        best = i;
    }
    return best;
}

/* What has been executed in another row is not executed again. */
static peal_status prove_row(struct rows *rows, uint32_t row, peal_diag *diag)
{
    const struct peal_plan *plan = rows->table->rows[row].plan;
    struct plan_proof *proof = &rows->row[row].proof;
    uint32_t other = rows->row[row].stand_in;
    struct verify_out out = {.row = row, .found = NULL, .user = NULL};
    if (other != row && !rows->row[other].proof.findings) {
        peal_status status = peal_verify_check(plan, &out);
        if (status != PEAL_OK)
            return peal_fail(diag, status, "verification stopped: %s", peal_status_text(status));
        if (!out.findings) {
            *proof = rows->row[other].proof;
            proof->steps = proof->proofs = proof->executed = 0;
            return PEAL_OK;
        }
    }
    return prove_plan(plan, rows->how, row, rows->found, rows->user, &rows->past, proof, diag);
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
static peal_status prove_rows(struct rows *rows, peal_verify_report *sum, peal_diag *diag)
{
    peal_table *table = rows->table;
    peal_status result = PEAL_OK;
    for (uint32_t i = 0; i < table->nrows; i++)
        rows->row[i].trips = peal_verify_trips(table->rows[i].plan);
    for (uint32_t i = 0; i < table->nrows; i++)
        rows->row[i].stand_in = stand_in(rows, i);
    for (uint32_t k = 0; k < 2 * table->nrows; k++) {
        uint32_t i = k % table->nrows;
        if ((rows->row[i].stand_in == i) != (k < table->nrows))
            continue;
        peal_status status = prove_row(rows, i, result == PEAL_OK ? diag : NULL);
        if (status != PEAL_OK && status != PEAL_ERR_UNPROVEN)
            return status;
        if (status != PEAL_OK)
            result = status;
        table->rows[i].info.order = rows->row[i].proof.order;
        table->rows[i].info.wire_roundings = rows->row[i].proof.wire_roundings;
        peal_plan_add_proof(sum, &rows->row[i].proof);
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
    if (how != PEAL_PROOF_CLASSES)
        PEAL_TRY(peal_verify_affordable(table, diag));
    struct rows rows = {table, how, found, user, {.ctx = table->ctx}, NULL};
    rows.row = peal_calloc(table->ctx, table->nrows, sizeof *rows.row);
    if (!rows.row)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    peal_status result = prove_rows(&rows, &sum, diag);
    peal_verify_past_free(&rows.past);
    peal_free(table->ctx, rows.row, table->nrows * sizeof *rows.row);
    if (report && (result == PEAL_OK || result == PEAL_ERR_UNPROVEN))
        PEAL_TRY(peal_export(report, &sum, sizeof sum));
    return result;
}

peal_status peal_table_verify(peal_table *table, peal_finding_fn found, void *user,
                              peal_verify_report *report, peal_diag *diag)
{
    return peal_table_prove(table, PEAL_PROOF_AUTO, found, user, report, diag);
}
