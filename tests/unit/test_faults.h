/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plants faults in schedules and expects the verifier to reject each one. What it accepts has to be
 * right: it is run in the model of test_model.h, which was written without the verifier, in many
 * orders, several calls on end.
 */
#ifndef PEAL_TESTS_FAULTS_H
#define PEAL_TESTS_FAULTS_H

#define MODEL_SPAN 64u

#include "test_fault_kinds.h"
#include "test_fault_plans.h"
#include "test_model.h"
#include "test_suite.h"

#define ORDERS 16u      /* of an accepted plan */
#define ORDERS_FIRST 4u /* of a plan as compiled */

struct tally {
    uint32_t planted, by_form, by_proof, harmless;
};

static struct {
    struct tally all, kind[FAULT_KINDS];
    uint32_t plans, runs;
    uint32_t looked_at, seen; /* refused by proof: tried in the model, and wrong there, too */
    uint32_t spans, jumps, tells, lists, levels, no_sm, tiled, packets, events;
} report;

/* ---- runs in the model */

static int model_fails(const struct peal_plan *plan, uint32_t orders, char problem[256])
{
    uint64_t most = peal_plan_trip_bound(plan);
    int in_place = peal_plan_collective(plan->collective)->in_place;
    for (uint32_t i = 0; i < orders; i++) {
        struct model_call calls[4];
        uint32_t ncalls = 1 + random_below(4);
        for (uint32_t c = 0; c < ncalls; c++)
            calls[c] = (struct model_call){plan, 0, 1 + random_below(most < 6 ? (uint32_t)most : 6),
                                           in_place && random_below(2)};
        report.runs++;
        if (model_run(calls, ncalls, rng, problem))
            return 1;
    }
    return 0;
}

/* ---- one fault */

static void count(struct tally *kind, uint32_t offset)
{
    (*(uint32_t *)((char *)kind + offset))++;
    (*(uint32_t *)((char *)&report.all + offset))++;
}
#define COUNT(kind, member) count(&report.kind[kind], offsetof(struct tally, member))

static void first_finding(void *user, const peal_finding *finding)
{
    (void)finding;
    ++*(uint32_t *)user;
}

static void say_where(const struct subject *s, uint32_t kind, const struct document *d,
                      const struct change *change)
{
    printf("  %s at rank %u of %s %s, %u ranks, %s:\n", fault_kinds[kind].name,
           rank_at(d, change->at[0]), s->algorithm, peal_collective_name(s->collective), s->ranks,
           machine_name[s->machine]);
    for (uint32_t c = 0; c < change->lines; c++)
        printf("    %s\n -> %s\n", d->line[change->at[c]], change->text[c]);
    (void)fflush(stdout);
}

/* Slots that a step names hold the largest tile of the largest messages. */
static int slots_suffice(const struct peal_plan *plan)
{
    uint64_t most = 0;
    for (size_t elem = 1; elem <= 8; elem *= 2)
        for (uint64_t count = plan->max_bytes / elem; count + 300 > plan->max_bytes / elem;
             count--) {
            uint64_t bytes = peal_plan_chunk_bytes(plan, count, elem);
            most = bytes > most ? bytes : most;
        }
    most = plan->tile_bytes && plan->tile_bytes < most ? plan->tile_bytes : most;
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t i = 0; i < plan->ranks[r].noperands; i++) {
            const struct plan_operand *operand = &plan->ranks[r].operands[i];
            if (operand->buffer >= PLAN_BUF_SCRATCH &&
                plan->regions[operand->index].slot_bytes < most)
                return 0;
        }
    return 1;
}

static void accepted(const struct subject *s, uint32_t kind, const struct document *d,
                     const struct change *change, const struct peal_plan *plan)
{
    char problem[256] = "";
    COUNT(kind, harmless);
    int wrong = model_fails(plan, ORDERS, problem);
    if (!slots_suffice(plan))
        wrong = snprintf(problem, sizeof problem, "slots are too small") > 0;
    if (wrong || fault_kinds[kind].grave)
        say_where(s, kind, d, change);
    ck_assert_msg(!wrong, "accepted, but wrong: %s", problem);
    ck_assert_msg(!fault_kinds[kind].grave, "%s was not noticed", fault_kinds[kind].name);
}

static void judge(peal_ctx *context, const struct subject *s, uint32_t kind,
                  const struct document *d, const struct change *change)
{
    static struct text text;
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    uint32_t findings = 0;
    char problem[256];
    changed(d, change, &text);
    COUNT(kind, planted);
    if (peal_table_assemble(context, text.data, text.used, "edited", &diag, &table) != PEAL_OK) {
        COUNT(kind, by_form);
        return;
    }
    peal_status status = peal_table_verify(table, first_finding, &findings, NULL, &diag);
    if (status == PEAL_OK) {
        ck_assert_uint_eq(findings, 0);
        accepted(s, kind, d, change, table->rows[0].plan);
    } else {
        ck_assert_int_eq(status, PEAL_ERR_UNPROVEN);
        ck_assert_uint_gt(findings, 0);
        COUNT(kind, by_proof);
        if (report.all.by_proof % 16 == 0) {
            report.looked_at++;
            report.seen += (uint32_t)model_fails(table->rows[0].plan, 4, problem);
        }
    }
    peal_table_destroy(table);
}

/* ---- one plan */

static void note_features(const char *text)
{
    report.spans +=
        strstr(text, "*2") != NULL || strstr(text, "*3") != NULL || strstr(text, "*4") != NULL;
    report.jumps += strchr(text, '~') != NULL;
    report.tells += strstr(text, " tell ") != NULL;
    report.lists += strstr(text, "\n  pair ") != NULL;
    report.levels += strstr(text, "algorithm hierarchical") != NULL;
    report.no_sm += strstr(text, " sm\n") == NULL && strstr(text, " tma ") == NULL;
    report.tiled += strstr(text, "\n  tile ") != NULL;
    report.packets += strstr(text, "region packet") != NULL;
    report.events += strstr(text, " after e") != NULL;
}

/* A plan as compiled is right in the model, too: so the model can tell. */
static void check_model(peal_ctx *context, const struct subject *s)
{
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    char problem[256];
    ck_assert_int_eq(
        peal_table_assemble(context, s->text, strlen(s->text), "compiled", &diag, &table), PEAL_OK);
    ck_assert_msg(!model_fails(table->rows[0].plan, ORDERS_FIRST, problem),
                  "%s %s, %u ranks, %s, as compiled: %s", s->algorithm,
                  peal_collective_name(s->collective), s->ranks, machine_name[s->machine], problem);
    peal_table_destroy(table);
}

static void plant_in(peal_ctx *context, const struct subject *s)
{
    static struct document d;
    static struct change change;
    report.plans++;
    note_features(s->text);
    check_model(context, s);
    split(&d, s->text);
    for (uint32_t kind = 0; d.steps && kind < FAULT_KINDS; kind++)
        if (fault_plant(&fault_kinds[kind], &d, &change))
            judge(context, s, kind, &d, &change);
}

/* ---- all, or every `stride`th plan */

static void print_report(void)
{
    for (uint32_t k = 0; k < FAULT_KINDS; k++) {
        const struct tally *t = &report.kind[k];
        printf("%-34s %5u planted %5u refused as text %5u by proof %5u harmless\n",
               fault_kinds[k].name, t->planted, t->by_form, t->by_proof, t->harmless);
    }
    printf("in all: %u faults planted in %u plans, %u refused as text, %u refused by proof, %u "
           "harmless\n",
           report.all.planted, report.plans, report.all.by_form, report.all.by_proof,
           report.all.harmless);
    printf("the model: %u runs; of %u faults refused by proof it showed %u in 4 orders\n",
           report.runs, report.looked_at, report.seen);
    printf("plans with spans %u, jumps %u, lengths %u, lists %u, levels %u, no SM %u, tiles %u, "
           "packets %u, events %u\n",
           report.spans, report.jumps, report.tells, report.lists, report.levels, report.no_sm,
           report.tiled, report.packets, report.events);
}

/* served[]: plans of each algorithm. */
static void plant_faults(uint32_t first, uint32_t stride, uint32_t *served)
{
    struct test_heap heap;
    peal_ctx *context = test_ctx(&heap);
    uint32_t met = 0;
    memset(&report, 0, sizeof report);
    for (uint32_t i = 0; i < subjects(); i++) {
        struct subject s;
        if (!subject_of(context, i, &s))
            continue;
        if (met++ % stride == first) {
            plant_in(context, &s);
            served[i / MACHINES / PEAL_CUSTOM]++;
        }
        free(s.text);
    }
    print_report();
    ck_assert_uint_eq(report.all.planted,
                      report.all.by_form + report.all.by_proof + report.all.harmless);
    ck_assert_uint_ge(report.seen * 2, report.looked_at);
    peal_ctx_destroy(context);
    ck_assert_int_eq(heap.blocks, 0);
}

static int run_faults(const TTest *test)
{
    Suite *suite = suite_create("faults");
    TCase *tcase = tcase_create("faults");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}

#endif
