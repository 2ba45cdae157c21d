/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is executed once and stands for others: channels that are one but for names, plans of one
 * table that have one schedule. A fault in any of them is found all the same.
 */
#include "compiler.h"
#include "support.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNELS 4u

static struct test_heap heap;
static peal_ctx *ctx;
static peal_fabric *fabric;

static void set_up(void)
{
    peal_diag diag = PEAL_DIAG_INIT;
    ctx = test_ctx(&heap);
    ck_assert_msg(peal_fabric_load(ctx, test_source_path("examples/topologies/dgx-h100.xml"), &diag,
                                   &fabric) == PEAL_OK,
                  "%s", diag.text);
}

static void tear_down(void)
{
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

static peal_table *compiled(const char *algorithm, peal_collective collective, uint32_t channels,
                            uint64_t tile)
{
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    request.algorithm = algorithm;
    request.collective = collective;
    request.channels = channels;
    request.tile_bytes = tile;
    request.ranks = 5;
    request.max_bytes = 1 << 20;
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    return table;
}

/* ---- channels */

static const struct {
    const char *algorithm;
    peal_collective collective;
} cases[] = {{"ring", PEAL_ALLREDUCE},
             {"ring", PEAL_REDUCE_SCATTER},
             {"ring", PEAL_ALLGATHER},
             {"tree", PEAL_BROADCAST},
             {"halving", PEAL_ALLREDUCE}};
#define CASES ((int)(sizeof cases / sizeof cases[0]))

static uint64_t steps_of(const struct peal_plan *plan)
{
    struct plan_proof proof;
    ck_assert_int_eq(peal_plan_verify(plan, 0, NULL, NULL, &proof, NULL), PEAL_OK);
    return proof.steps;
}

START_TEST(channels_are_executed_once)
{
    peal_table *one = compiled(cases[_i].algorithm, cases[_i].collective, 1, 4096);
    peal_table *all = compiled(cases[_i].algorithm, cases[_i].collective, CHANNELS, 4096);
    const struct peal_plan *a = one->rows[0].plan, *b = all->rows[0].plan;
    ck_assert_uint_eq(b->ranks[0].nlanes, CHANNELS * a->ranks[0].nlanes);
    ck_assert_uint_eq(steps_of(a), steps_of(b));
    peal_table_destroy(one);
    peal_table_destroy(all);
}
END_TEST

/* Without one of its signals a lane leaves a semaphore unbalanced; a wait that asks for one signal
 * less leaves a race, or an order that is not there. */
static int spoil(struct plan_rank *rank, uint32_t lane, uint32_t kind)
{
    struct plan_lane *code = &rank->lanes[lane];
    for (uint32_t i = code->pre; i < code->pre + code->body; i++) {
        struct plan_step *step = &rank->steps[code->first + i];
        if (kind == 0 && step->op == PLAN_WAIT) {
            step->lag++;
            return 1;
        }
        if (kind == 1 && peal_plan_op_moves(step->op) && step->chunk) {
            step->chunk--; /* of another block, or another channel's */
            for (uint32_t k = 0; k < (uint32_t)step->nsrc + step->ndst; k++)
                if (rank->operands[step->operands + k].buffer < PLAN_BUF_SCRATCH)
                    rank->operands[step->operands + k].index--;
            return 1;
        }
        if (kind == 2 && i + 1 < code->pre + code->body && step->op == PLAN_WAIT) {
            struct plan_step next = step[1];
            step[1] = step[0];
            step[0] = next;
            return 1;
        }
    }
    return 0;
}

START_TEST(a_fault_in_any_channel_is_found)
{
    uint32_t planted = 0, rejected[3] = {0}, tried[3] = {0};
    for (uint32_t lane = 0; lane < CHANNELS; lane++)
        for (uint32_t r = 0; r < 5; r++)
            for (uint32_t kind = 0; kind < 3; kind++) {
                struct plan_proof proof;
                peal_table *table =
                    compiled(cases[_i].algorithm, cases[_i].collective, CHANNELS, 4096);
                struct peal_plan *plan = table->rows[0].plan;
                uint32_t lanes = plan->ranks[r].nlanes;
                if (spoil(&plan->ranks[r], lane * lanes / CHANNELS, kind)) {
                    planted++;
                    tried[kind]++;
                    rejected[kind] +=
                        peal_plan_seal(plan, NULL) != PEAL_OK ||
                        peal_plan_verify(plan, 0, NULL, NULL, &proof, NULL) != PEAL_OK;
                }
                peal_table_destroy(table);
            }
    /* What is found of one channel is found of each; of trees there are two, which take turns. */
    ck_assert_uint_ge(planted, CHANNELS);
    for (uint32_t kind = 0; kind < 3; kind++)
        ck_assert_uint_eq(rejected[kind] % 2, 0);
    ck_assert_uint_eq(rejected[1], tried[1]);
    ck_assert_uint_gt(rejected[0] + rejected[1], 0);
}
END_TEST

/* ---- rows */

/* Two ranges of sizes of one schedule. */
static peal_table *two_rows(void)
{
    peal_table *table = compiled("ring", PEAL_ALLREDUCE, 1, 4096);
    peal_table *other = compiled("ring", PEAL_ALLREDUCE, 1, 4096), *both;
    ck_assert_int_eq(peal_table_create(ctx, 2, &both), PEAL_OK);
    both->nranks = table->nranks;
    for (uint32_t i = 0; i < 2; i++) {
        peal_table *from = i ? other : table;
        both->rows[i] = from->rows[0];
        from->rows[0].plan = NULL;
        peal_table_destroy(from);
    }
    both->rows[0].plan->max_bytes /= 2;
    ck_assert_int_eq(peal_plan_seal(both->rows[0].plan, NULL), PEAL_OK);
    return both;
}

struct found {
    uint32_t rows[2];
};

static void note(void *user, const peal_finding *finding)
{
    struct found *found = user;
    found->rows[finding->row & 1]++;
}

START_TEST(rows_of_one_schedule_are_executed_once)
{
    peal_verify_report report = {.size = sizeof report};
    struct plan_proof proof;
    peal_table *table = two_rows();
    ck_assert_int_eq(peal_plan_verify(table->rows[1].plan, 1, NULL, NULL, &proof, NULL), PEAL_OK);
    ck_assert_int_eq(peal_table_verify(table, NULL, NULL, &report, NULL), PEAL_OK);
    ck_assert_uint_eq(report.steps, proof.steps);
    ck_assert_uint_eq(report.proofs, proof.proofs);
    ck_assert_uint_eq(table->rows[0].info.order, proof.order);
    ck_assert_uint_eq(table->rows[1].info.order, proof.order);
    peal_table_destroy(table);
}
END_TEST

START_TEST(a_fault_in_either_row_is_found)
{
    for (uint32_t row = 0; row < 2; row++)
        for (int slots = 0; slots < 2; slots++) {
            struct found found = {{0, 0}};
            peal_table *table = two_rows();
            struct peal_plan *plan = table->rows[row].plan;
            if (slots)
                plan->regions[0].slot_bytes = PLAN_ALIGN;
            else
                ck_assert_int_eq(spoil(&plan->ranks[2], 0, 1), 1);
            ck_assert_int_eq(peal_plan_seal(plan, NULL), PEAL_OK);
            ck_assert_int_eq(peal_table_verify(table, note, &found, NULL, NULL), PEAL_ERR_UNPROVEN);
            ck_assert_uint_gt(found.rows[row], 0);
            ck_assert_uint_eq(found.rows[!row], 0);
            ck_assert_int_eq(table->verified, 0);
            peal_table_destroy(table);
        }
}
END_TEST

static peal_status sweep(peal_ctx *swept, void *user)
{
    struct peal_plan *plan = user;
    plan->ctx = swept;
    return peal_plan_verify(plan, 0, NULL, NULL, NULL, NULL);
}

START_TEST(every_allocation_may_fail)
{
    peal_table *table = compiled("ring", PEAL_REDUCE_SCATTER, 2, 0);
    ck_assert_int_eq(test_oom_sweep(sweep, table->rows[0].plan, 3000, NULL), 0);
    table->rows[0].plan->ctx = ctx;
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("alike");
    TCase *tests = tcase_create("alike");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, channels_are_executed_once, 0, CASES);
    tcase_add_loop_test(tests, a_fault_in_any_channel_is_found, 0, CASES);
    tcase_add_test(tests, rows_of_one_schedule_are_executed_once);
    tcase_add_test(tests, a_fault_in_either_row_is_found);
    tcase_add_test(tests, every_allocation_may_fail);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
