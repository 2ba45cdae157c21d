/* SPDX-License-Identifier: Apache-2.0 */
/* A policy's part in planning: what it drops and adds, what it makes of costs, and the rows that
 * follow from what it picks. It is asked at powers of two and at the sizes it names; between two
 * of them where it picks differently the border is found by bisection, otherwise nothing changes.
 * So a table takes some hundred questions, whatever range it is for. */
#include "select.h"

#include "sort.h"

#include <string.h>

#define ANCHORS_MAX 1024u

/* ---- the view ---------------------------------------------------------------------- */

static uint32_t view_rank(const void *planner, uint32_t rank)
{
    return peal_group_rank(&((const struct planner *)planner)->group, rank);
}

static uint32_t view_count(const void *planner)
{
    return ((const struct planner *)planner)->count;
}

static double view_time(const void *planner, uint32_t index, uint64_t bytes)
{
    struct cost cost;
    peal_candidate_cost(&((const struct planner *)planner)->candidates[index], bytes, &cost);
    return cost.time_us;
}

/* Without what lanes are slower than the links they feed. */
static double time_of_links(const struct candidate *candidate, uint64_t bytes)
{
    struct candidate links = *candidate;
    struct cost cost;
    for (uint32_t i = 0; i < links.nstages; i++)
        if (links.stage[i].load_us < links.stage[i].us_per_byte)
            links.stage[i].us_per_byte = links.stage[i].load_us;
    peal_candidate_cost(&links, bytes, &cost);
    return cost.time_us;
}

static const char *part_name(enum level_part part)
{
    static const char *const names[PART_COUNT] = {
#define LEVEL_PART(id, name, text) #name,
#include "levels.def"
#undef LEVEL_PART
    };
    return names[part];
}

static void name_levels(const struct candidate *candidate, char *text, size_t size)
{
    static const char *const names[LEVEL_WORDS] = {
#define LEVEL_WORD(id, name) #name,
#include "levels.def"
#undef LEVEL_WORD
    };
    text[0] = '\0';
    for (uint32_t i = 0; i < LEVEL_WORDS; i++) {
        size_t used = strlen(text);
        if (candidate->levels >> i & 1) {
            peal_copy_text(text + used, size - used, used ? "," : "");
            peal_copy_text(text + used + (used != 0), size - used - (used != 0), names[i]);
        }
    }
}

static void view_facts(const void *opaque, uint32_t index, uint64_t bytes,
                       struct policy_facts *facts)
{
    const struct planner *planner = opaque;
    const struct candidate *candidate = &planner->candidates[index];
    int levelled = candidate->algo == ALGO_HIERARCHICAL;
    memset(facts, 0, sizeof *facts);
    peal_select_describe(planner, index, bytes, bytes, &facts->row);
    double most = facts->row.time_us - facts->row.alpha_us;
    facts->gamma_us = facts->row.time_us - time_of_links(candidate, bytes);
    facts->gamma_us = facts->gamma_us > 0 ? facts->gamma_us : 0;
    facts->gamma_us = facts->gamma_us < most ? facts->gamma_us : most;
    facts->most_bytes = candidate->max_bytes;
    facts->radix = candidate->algo == ALGO_BRUCK ? candidate->radix : 0;
    facts->trees = candidate->algo == ALGO_PACKED ? candidate->trees : 0;
    facts->gateways = levelled ? candidate->gateways : 0;
    facts->inner = levelled ? part_name(candidate->inner) : "";
    facts->outer = levelled ? part_name(candidate->outer) : "";
    if (levelled)
        name_levels(candidate, facts->levels, sizeof facts->levels);
}

/* ---- room for new candidates ---------------------------------------------------------- */

static peal_status make_room(struct planner *planner)
{
    struct policy_run *run = planner->policy;
    uint32_t room = planner->count + 64;
    if (planner->count <= run->room)
        return PEAL_OK;
    uint8_t *barred = peal_calloc(planner->ctx, room, 1);
    double *factor = NULL;
    if (run->factor)
        factor = peal_calloc(planner->ctx, (size_t)room * run->nanchors, sizeof *factor);
    if (!barred || (run->factor && !factor)) {
        peal_free(planner->ctx, barred, room);
        return PEAL_ERR_MEMORY;
    }
    if (run->room)
        memcpy(barred, run->barred, run->room);
    if (factor)
        memcpy(factor, run->factor, (size_t)run->room * run->nanchors * sizeof *factor);
    peal_free(planner->ctx, run->barred, run->room);
    if (run->factor)
        peal_free(planner->ctx, run->factor, (size_t)run->room * run->nanchors * sizeof *factor);
    run->barred = barred;
    run->factor = factor;
    run->room = room;
    return PEAL_OK;
}

/* The policy's word on the time of one candidate, size by size. */
static peal_status cost_candidate(struct planner *planner, uint32_t index, peal_diag *diag)
{
    struct policy_run *run = planner->policy;
    for (uint32_t a = 0; run->factor && a < run->nanchors; a++) {
        double time_us = view_time(planner, index, run->anchors[a]), own = time_us;
        if (run->anchors[a] <= planner->candidates[index].max_bytes)
            PEAL_TRY(run->hooks->cost(run->session, index, run->anchors[a], &own, diag));
        run->factor[(size_t)index * run->nanchors + a] = time_us > 0 ? own / time_us : 1;
    }
    return PEAL_OK;
}

static peal_status view_ask(void *opaque, const peal_request *ask, peal_diag *diag,
                            uint32_t *first_out, uint32_t *count_out)
{
    struct planner *planner = opaque;
    PEAL_TRY(peal_select_ask(planner, ask, diag, first_out, count_out));
    if (make_room(planner) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (uint32_t i = 0; i < *count_out; i++)
        PEAL_TRY(cost_candidate(planner, *first_out + i, diag));
    return PEAL_OK;
}

/* ---- before the rows ------------------------------------------------------------------- */

/* Nothing that a policy's own error has to be told from goes through here. */
static peal_status told(struct planner *planner, peal_status status)
{
    if (status != PEAL_OK)
        planner->policy->failed = 1;
    return status;
}

peal_status peal_policy_begin(struct planner *planner, const peal_policy *policy, peal_diag *diag)
{
    struct policy_run *run = peal_calloc(planner->ctx, 1, sizeof *run);
    if (!run)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    planner->policy = run;
    run->hooks = policy->hooks;
    run->view =
        (struct policy_view){planner,   planner->fabric,     &planner->request, planner->group.n,
                             view_rank, view_count,          view_time,         view_facts,
                             view_ask,  peal_policy_program, peal_policy_step};
    if (make_room(planner) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    return told(planner, run->hooks->begin(policy, &run->view, diag, &run->session));
}

static peal_status let_add(struct planner *planner, uint8_t *dropped, peal_diag *diag)
{
    uint32_t before = planner->count, kept = 0;
    PEAL_TRY(
        told(planner, planner->policy->hooks->candidates(planner->policy->session, dropped, diag)));
    for (uint32_t i = 0; i < planner->count; i++)
        if (i >= before || !dropped[i])
            planner->candidates[kept++] = planner->candidates[i];
    planner->count = kept;
    if (kept)
        return PEAL_OK;
    return told(planner,
                peal_fail(diag, PEAL_ERR_UNSUPPORTED, "the policy leaves no schedule to choose"));
}

peal_status peal_policy_candidates(struct planner *planner, peal_diag *diag)
{
    uint32_t count = planner->count;
    if (!planner->policy->hooks->candidates)
        return PEAL_OK;
    uint8_t *dropped = peal_calloc(planner->ctx, count, 1);
    if (!dropped)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    peal_status status = let_add(planner, dropped, diag);
    peal_free(planner->ctx, dropped, count);
    return status;
}

static int smaller(const void *a, const void *b, const void *with)
{
    (void)with;
    return *(const uint64_t *)a < *(const uint64_t *)b;
}

static void add_anchor(struct planner *planner, uint64_t bytes)
{
    struct policy_run *run = planner->policy;
    if (bytes >= planner->request.min_bytes && bytes <= planner->request.max_bytes)
        run->anchors[run->nanchors++] = bytes;
}

static peal_status make_anchors(struct planner *planner, peal_diag *diag)
{
    struct policy_run *run = planner->policy;
    uint32_t count = 0, kept = 0;
    const uint64_t *sizes = run->hooks->sizes ? run->hooks->sizes(run->session, &count) : NULL;
    run->anchors = peal_calloc(planner->ctx, ANCHORS_MAX, sizeof *run->anchors);
    if (!run->anchors)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    if (count > (ANCHORS_MAX - 96) / 2)
        return told(planner, peal_fail(diag, PEAL_ERR_LIMIT, "a policy names more than %u sizes",
                                       (ANCHORS_MAX - 96) / 2));
    add_anchor(planner, planner->request.min_bytes);
    add_anchor(planner, planner->request.max_bytes);
    for (uint32_t bit = 0; bit < 47; bit++)
        add_anchor(planner, (uint64_t)1 << bit);
    for (uint32_t i = 0; i < count; i++) {
        add_anchor(planner, sizes[i]);
        add_anchor(planner, sizes[i] < UINT64_MAX ? sizes[i] + 1 : sizes[i]);
    }
    peal_sort(run->anchors, run->nanchors, sizeof *run->anchors, smaller, NULL);
    for (uint32_t i = 0; i < run->nanchors; i++)
        if (!kept || run->anchors[kept - 1] != run->anchors[i])
            run->anchors[kept++] = run->anchors[i];
    run->nanchors = kept;
    return PEAL_OK;
}

peal_status peal_policy_costs(struct planner *planner, peal_diag *diag)
{
    struct policy_run *run = planner->policy;
    PEAL_TRY(make_anchors(planner, diag));
    if (make_room(planner) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    if (!run->hooks->has_cost(run->session))
        return PEAL_OK;
    run->factor = peal_calloc(planner->ctx, (size_t)run->room * run->nanchors, sizeof *run->factor);
    if (!run->factor)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (uint32_t i = 0; i < planner->count; i++)
        PEAL_TRY(told(planner, cost_candidate(planner, i, diag)));
    return PEAL_OK;
}

void peal_policy_end(struct planner *planner)
{
    struct policy_run *run = planner->policy;
    if (run && run->session)
        run->hooks->end(run->session);
    if (run)
        run->session = NULL;
}

void peal_policy_free(struct planner *planner)
{
    struct policy_run *run = planner->policy;
    if (!run)
        return;
    peal_policy_end(planner);
    peal_policy_steps_end(run);
    if (run->factor)
        peal_free(planner->ctx, run->factor,
                  (size_t)run->room * run->nanchors * sizeof *run->factor);
    peal_free(planner->ctx, run->anchors, ANCHORS_MAX * sizeof *run->anchors);
    peal_free(planner->ctx, run->barred, run->room);
    peal_free(planner->ctx, run, sizeof *run);
    planner->policy = NULL;
}

/* ---- while choosing ---------------------------------------------------------------------- */

int peal_policy_barred(const struct planner *planner, uint32_t index)
{
    const struct policy_run *run = planner->policy;
    return run && index < run->room && run->barred[index];
}

/* What was said of the nearest size at or below. */
double peal_policy_factor(const struct planner *planner, uint32_t index, uint64_t bytes)
{
    const struct policy_run *run = planner->policy;
    if (!run || !run->factor || index >= run->room)
        return 1;
    uint32_t low = 0, high = run->nanchors;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (run->anchors[middle] <= bytes)
            low = middle;
        else
            high = middle;
    }
    return run->factor[(size_t)index * run->nanchors + low];
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define PLANNERS UINT32_MAX /* the pick is left to the planner */

struct ranking {
    double price;
    uint32_t index;
};

static int cheaper(const void *a, const void *b, const void *with)
{
    const struct ranking *left = a, *right = b;
    (void)with;
    return left->price < right->price ||
           (left->price == right->price && left->index < right->index);
}

/* Those that serve the size, best first; order has room for all. */
static uint32_t rank_all(const struct planner *planner, uint64_t bytes, struct ranking *ranking,
                         uint32_t *order)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < planner->count; i++)
        if (peal_select_fits(planner, i, bytes))
            ranking[count++] = (struct ranking){peal_select_price(planner, i, bytes), i};
    peal_sort(ranking, count, sizeof *ranking, cheaper, NULL);
    for (uint32_t i = 0; i < count; i++)
        order[i] = ranking[i].index;
    return count;
}

static peal_status check_pick(struct planner *planner, uint32_t index, uint64_t bytes,
                              peal_diag *diag)
{
    const struct candidate *candidate = &planner->candidates[index];
    const char *name = peal_algo_get(candidate->algo)->name;
    if (peal_select_fits(planner, index, bytes))
        return PEAL_OK;
    if (peal_policy_barred(planner, index))
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "the policy chooses %s, which it vetoes: %s",
                         name, planner->policy->reason);
    if (bytes > candidate->max_bytes)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "the policy chooses %s for %llu bytes, which serves at most %llu", name,
                         (unsigned long long)bytes, (unsigned long long)candidate->max_bytes);
    return peal_fail(
        diag, PEAL_ERR_UNSUPPORTED,
        "the policy chooses %s for %llu bytes, which needs %llu bytes of scratch, more "
        "than the bound of %llu",
        name, (unsigned long long)bytes,
        (unsigned long long)peal_candidate_scratch(candidate, bytes),
        (unsigned long long)planner->request.scratch_limit);
}

static peal_status ask_choice(struct planner *planner, uint64_t bytes, struct ranking *ranking,
                              uint32_t *order, uint32_t *pick, peal_diag *diag)
{
    struct policy_run *run = planner->policy;
    uint32_t count = rank_all(planner, bytes, ranking, order);
    uint32_t index = peal_select_best(planner, bytes);
    int own = 0;
    PEAL_TRY(run->hooks->choose(run->session, bytes, order, count, &index, &own, diag));
    if (own)
        PEAL_TRY(check_pick(planner, index, bytes, diag));
    *pick = own ? index : PLANNERS;
    return PEAL_OK;
}

static peal_status decide(struct planner *planner, uint64_t bytes, uint32_t *pick, peal_diag *diag)
{
    size_t count = planner->count;
    *pick = PLANNERS;
    if (!planner->policy->hooks->has_choose(planner->policy->session))
        return PEAL_OK;
    struct ranking *ranking = peal_calloc(planner->ctx, count, sizeof *ranking);
    uint32_t *order = peal_calloc(planner->ctx, count, sizeof *order);
    peal_status status = PEAL_ERR_MEMORY;
    if (ranking && order)
        status = told(planner, ask_choice(planner, bytes, ranking, order, pick, diag));
    else
        status = peal_fail(diag, status, "out of memory");
    peal_free(planner->ctx, ranking, count * sizeof *ranking);
    peal_free(planner->ctx, order, count * sizeof *order);
    return status;
}

/* The last size of [good, bad) with the same pick. */
static peal_status border(struct planner *planner, uint32_t pick, uint64_t *good, uint64_t bad,
                          peal_diag *diag)
{
    while (bad - *good > 1) {
        uint64_t middle = *good + (bad - *good) / 2;
        uint32_t found;
        PEAL_TRY(decide(planner, middle, &found, diag));
        if (found == pick)
            *good = middle;
        else
            bad = middle;
    }
    return PEAL_OK;
}

/* How far the pick made at `from` holds. */
static peal_status stretch(struct planner *planner, uint64_t from, uint32_t pick, uint64_t *to,
                           peal_diag *diag)
{
    const struct policy_run *run = planner->policy;
    *to = from;
    for (uint32_t a = 0; a < run->nanchors; a++) {
        uint32_t found;
        if (run->anchors[a] <= from)
            continue;
        PEAL_TRY(decide(planner, run->anchors[a], &found, diag));
        if (found != pick)
            return border(planner, pick, to, run->anchors[a], diag);
        *to = run->anchors[a];
    }
    return PEAL_OK;
}

struct rows {
    uint64_t *ends;
    uint32_t count;
};

static peal_status add_row(struct planner *planner, struct rows *rows, uint32_t index, uint64_t end,
                           peal_diag *diag)
{
    if (rows->count && planner->chosen[rows->count - 1] == index) {
        rows->ends[rows->count - 1] = end;
        return PEAL_OK;
    }
    if (rows->count == ROWS_MAX)
        return told(planner,
                    peal_fail(diag, PEAL_ERR_LIMIT,
                              "the policy changes its choice more than %u times", ROWS_MAX));
    planner->chosen[rows->count] = index;
    rows->ends[rows->count++] = end;
    return PEAL_OK;
}

/* Where the planner chooses, rows begin and end where it says. */
static peal_status add_planners(struct planner *planner, struct rows *rows, uint64_t from,
                                uint64_t to, peal_diag *diag)
{
    for (;;) {
        uint32_t index = peal_select_best(planner, from);
        if (peal_policy_barred(planner, index))
            return told(planner, peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                                           "the policy vetoes every schedule for %llu bytes: %s",
                                           (unsigned long long)from, planner->policy->reason));
        uint64_t end = peal_select_end(planner, index, from, to);
        PEAL_TRY(add_row(planner, rows, index, end, diag));
        if (end >= to)
            return PEAL_OK;
        from = end + 1;
    }
}

static peal_status make_all(struct planner *planner, struct rows *rows, peal_diag *diag)
{
    uint64_t from = planner->request.min_bytes, to, last = planner->request.max_bytes;
    rows->count = 0;
    for (;;) {
        uint32_t pick;
        PEAL_TRY(decide(planner, from, &pick, diag));
        PEAL_TRY(stretch(planner, from, pick, &to, diag));
        if (pick == PLANNERS)
            PEAL_TRY(add_planners(planner, rows, from, to, diag));
        else
            PEAL_TRY(add_row(planner, rows, pick, to, diag));
        if (to >= last)
            return PEAL_OK;
        from = to + 1;
    }
}

/* Rows that a veto has left as they were need not be looked at again. */
static int has_passed(const struct policy_run *run, uint32_t index, const peal_row_info *row)
{
    for (uint32_t i = 0; i < run->npassed && i < ROWS_MAX; i++)
        if (run->passed[i].index == index && run->passed[i].min_bytes == row->min_bytes &&
            run->passed[i].max_bytes == row->max_bytes)
            return 1;
    return 0;
}

static peal_status check_row(struct planner *planner, uint32_t index, const peal_row_info *row,
                             int *again, peal_diag *diag)
{
    struct policy_run *run = planner->policy;
    int veto = 0;
    if (has_passed(run, index, row))
        return PEAL_OK;
    peal_status status = run->hooks->check(run->session, index, row, &veto, run->reason, diag);
    peal_policy_steps_end(run);
    PEAL_TRY(told(planner, status));
    if (veto)
        run->barred[index] = 1;
    else
        run->passed[run->npassed++ % ROWS_MAX] =
            (struct policy_passed){index, row->min_bytes, row->max_bytes};
    *again |= veto;
    return PEAL_OK;
}

/* *again: something was vetoed, which is now barred. */
static peal_status check_rows(struct planner *planner, const struct rows *rows, int *again,
                              peal_diag *diag)
{
    struct policy_run *run = planner->policy;
    *again = 0;
    for (uint32_t i = 0; run->hooks->check && i < rows->count; i++) {
        peal_row_info row;
        if (peal_policy_barred(planner, planner->chosen[i]))
            continue;
        peal_select_describe(planner, planner->chosen[i],
                             i ? rows->ends[i - 1] + 1 : planner->request.min_bytes, rows->ends[i],
                             &row);
        PEAL_TRY(check_row(planner, planner->chosen[i], &row, again, diag));
    }
    return PEAL_OK;
}

peal_status peal_policy_rows(struct planner *planner, uint64_t *ends, uint32_t *count_out,
                             peal_diag *diag)
{
    struct rows rows = {ends, 0};
    for (int again = 1; again;) {
        PEAL_TRY(make_all(planner, &rows, diag));
        PEAL_TRY(check_rows(planner, &rows, &again, diag));
    }
    *count_out = rows.count;
    return PEAL_OK;
}
