/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: slow */
/*
 * Plants faults in schedules, as a person would with dump, an editor and asm, and expects the
 * verifier to reject each one. A fault that leaves the schedule right (two steps exchanged that
 * have nothing to do with each other, an await more than is needed) is listed and must be of a
 * kind that can.
 */
#include "plan.h"
#include "test_edits.h"

struct fault {
    const char *name;
    int (*plant)(const char *line, char *out);
    int may_be_harmless;
};

static const struct fault faults[] = {
    {"a dropped wait", drop_wait, 0},
    {"a dropped signal", drop_signal, 0},
    {"a dropped await", drop_await, 1},
    {"a dropped move", drop_data, 0},
    {"a doubled move or reduce", double_data, 1},
    {"another chunk", other_chunk, 0},
    {"one operand's chunk changed", one_operand, 0},
    {"a shifted slot", shifted_slot, 1},
    {"a wrong peer", wrong_peer, 0},
    {"a wrong semaphore", wrong_semaphore, 0},
    {"a copy engine asked to reduce", ce_reduces, 0},
    {"a signal not behind its transfer", no_order, 0},
    {"final left out", not_final, 0},
    {"final too early", too_early_final, 0},
    {"the wrong buffer", wrong_buffer, 1},
    {"a wait without its lag", no_lag, 1},
    {"another lag", more_lag, 1},
    {"await of the source only", free_only, 1},
    {"two steps exchanged", exchange_next, 1},
};
#define FAULTS (sizeof faults / sizeof faults[0])

struct tally {
    uint32_t planted;
    uint32_t by_form;
    uint32_t by_proof;
    uint32_t harmless;
};

static void first_finding(void *user, const peal_finding *finding)
{
    char *text = user;
    if (!*text)
        snprintf(text, 480, "%s: %s", finding->kind, finding->text);
}

/* Assembles and verifies the edited text. */
static void judge(peal_ctx *ctx, const struct text *text, const struct fault *fault,
                  const char *line, struct tally *tally)
{
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    char finding[480] = "";
    tally->planted++;
    if (peal_table_assemble(ctx, text->data, text->used, "edited", &diag, &table) != PEAL_OK) {
        tally->by_form++;
        return;
    }
    peal_status status = peal_table_verify(table, first_finding, finding, NULL, &diag);
    if (status == PEAL_OK) {
        tally->harmless++;
        printf("  harmless: %s, at `%s`\n", fault->name, line + strspn(line, " "));
        ck_assert_msg(fault->may_be_harmless, "%s at `%s` was not noticed", fault->name, line);
    } else {
        ck_assert_int_eq(status, PEAL_ERR_UNPROVEN);
        tally->by_proof++;
    }
    peal_table_destroy(table);
}

static void plant_in(peal_ctx *ctx, const char *name, const char *source, uint32_t per_kind,
                     struct tally *tally)
{
    static struct document d;
    struct text out = {0};
    char *copy = malloc(strlen(source) + 1);
    strcpy(copy, source);
    split(&d, copy);
    struct tally mine = {0};
    for (size_t f = 0; f < FAULTS; f++)
        for (uint32_t done = 0, tries = 0; done < per_kind && tries < 400; tries++) {
            uint32_t at = d.step[random_below(d.steps)];
            char instead[LINE_MAX_BYTES * 4];
            int swap = faults[f].plant == exchange_next;
            if (swap && (at + 1 == d.count || !is_step(d.line[at + 1]) ||
                         !strcmp(d.line[at], d.line[at + 1])))
                continue;
            if (!faults[f].plant(d.line[at], instead) || !strcmp(instead, d.line[at]))
                continue;
            rebuild(&d, at, instead, swap, &out);
            judge(ctx, &out, &faults[f], d.line[at], &mine);
            done++;
        }
    printf("%s: %u faults planted, %u refused as text, %u refused by proof, %u harmless\n", name,
           mine.planted, mine.by_form, mine.by_proof, mine.harmless);
    tally->planted += mine.planted;
    tally->by_form += mine.by_form;
    tally->by_proof += mine.by_proof;
    tally->harmless += mine.harmless;
    free(copy);
    free(out.data);
}

START_TEST(planted_faults_are_rejected)
{
    static const struct {
        const char *name;
        const char *algorithm;
        uint32_t ranks;
        peal_engine engine;
        uint64_t tile;
    } plans[] = {
        {"ring", "ring", 8, PEAL_ENGINE_SM, 0},
        {"ring, tiled, copy engine", "ring", 8, PEAL_ENGINE_CE, 2048},
        {"tree", "tree", 8, PEAL_ENGINE_SM, 0},
        {"tree, tiled, tma", "tree", 8, PEAL_ENGINE_TMA, 4096},
        {"hierarchical", "hierarchical", 8, PEAL_ENGINE_SM, 0},
        {"hierarchical, tiled, copy engine", "hierarchical", 8, PEAL_ENGINE_CE, 4096},
        {"oneshot", "oneshot", 4, PEAL_ENGINE_SM, 0},
        {"twoshot", "twoshot", 4, PEAL_ENGINE_SM, 0},
    };
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    struct tally all = {0};
    rng = 0x2545F4914F6CDD1Dull;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        char *text =
            compiled(ctx, plans[i].algorithm, plans[i].ranks, plans[i].engine, plans[i].tile);
        plant_in(ctx, plans[i].name, text, 6, &all);
        free(text);
    }
    printf("in all: %u faults planted, %u refused as text, %u refused by proof, %u harmless\n",
           all.planted, all.by_form, all.by_proof, all.harmless);
    ck_assert_uint_ge(all.planted - all.harmless, 300);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("faults");
    TCase *tcase = tcase_create("faults");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, planted_faults_are_rejected);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
