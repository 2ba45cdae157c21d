/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: plain */
/*
 * What is executed once and stands for others: channels that are one but for names, plans of one
 * table that have one schedule, or channels in common. A fault in any of them is found all the
 * same.
 */
#include "compiler.h"
#include "machines.h"
#include "support.h"
#include "test_suite.h"

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
    ctx = test_ctx(&heap);
    fabric = test_example(ctx, "dgx-h100.xml");
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
static peal_table *rows_of(peal_table *table, peal_table *other)
{
    peal_table *both;
    ck_assert_int_eq(peal_table_create(ctx, 2, &both), PEAL_OK);
    both->nranks = table->nranks;
    for (uint32_t i = 0; i < 2; i++) {
        peal_table *from = i ? other : table;
        both->rows[i] = from->rows[0];
        from->rows[0].plan = NULL;
        peal_table_destroy(from);
    }
    return both;
}

static peal_table *two_rows(void)
{
    peal_table *both = rows_of(compiled("ring", PEAL_ALLREDUCE, 1, 4096),
                               compiled("ring", PEAL_ALLREDUCE, 1, 4096));
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

/* ---- channels of several rows */

/* One channel and several, either first. */
static peal_table *few_and_many(int i, int many_first)
{
    uint32_t first = many_first ? CHANNELS : 1, second = CHANNELS + 1 - first;
    return rows_of(compiled(cases[i].algorithm, cases[i].collective, first, 4096),
                   compiled(cases[i].algorithm, cases[i].collective, second, 4096));
}

START_TEST(channels_of_earlier_rows_are_executed_once)
{
    for (int many_first = 0; many_first < 2; many_first++) {
        peal_verify_report report = {.size = sizeof report};
        peal_table *table = few_and_many(_i, many_first);
        struct plan_proof proof[2];
        for (uint32_t row = 0; row < 2; row++)
            ck_assert_int_eq(
                peal_plan_verify(table->rows[row].plan, row, NULL, NULL, &proof[row], NULL),
                PEAL_OK);
        ck_assert_int_eq(peal_table_verify(table, NULL, NULL, &report, NULL), PEAL_OK);
        ck_assert_uint_eq(report.steps, proof[0].steps);
        ck_assert_uint_eq(report.proofs, proof[0].proofs + proof[1].proofs);
        ck_assert_uint_eq(report.executed, proof[0].executed + proof[1].executed);
        for (uint32_t row = 0; row < 2; row++) {
            ck_assert_uint_eq(table->rows[row].info.order, proof[row].order);
            ck_assert_uint_eq(table->rows[row].info.wire_roundings, proof[row].wire_roundings);
        }
        peal_table_destroy(table);
    }
}
END_TEST

/* Found in the row that has it, where the plan alone is refused, and in no other. */
START_TEST(a_fault_in_a_channel_of_either_row_is_found)
{
    uint32_t rejected = 0;
    for (uint32_t i = 0; i < 2 * CHANNELS * 3; i++) {
        struct found found = {{0, 0}};
        uint32_t row = i & 1, lane = i / 2 % CHANNELS, kind = i / 2 / CHANNELS;
        peal_table *table = few_and_many(_i, 0);
        struct peal_plan *plan = table->rows[row].plan;
        uint32_t lanes = plan->ranks[2].nlanes;
        int planted = spoil(&plan->ranks[2], row ? lane * lanes / CHANNELS : 0, kind);
        if (planted && peal_plan_seal(plan, NULL) == PEAL_OK) {
            peal_status alone = peal_plan_verify(plan, row, NULL, NULL, NULL, NULL);
            ck_assert_int_eq(peal_table_verify(table, note, &found, NULL, NULL), alone);
            ck_assert_uint_eq(found.rows[row] > 0, alone != PEAL_OK);
            ck_assert_uint_eq(found.rows[!row], 0);
            rejected += alone != PEAL_OK;
        }
        peal_table_destroy(table);
    }
    ck_assert_uint_gt(rejected, 0);
}
END_TEST

/* ---- rows that ask for something else */

/* Block 0 goes from 0 to 1, block 1 from 1 to 2. */
static peal_table *custom(void)
{
    static const uint32_t rank[] = {0, 1, 2};
    static const peal_block blocks[] = {{1, 1, &rank[0], &rank[1]}, {1, 1, &rank[1], &rank[2]}};
    peal_schedule_params params = PEAL_SCHEDULE_PARAMS_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_schedule *script;
    peal_table *table;
    params.name = "own";
    params.collective = PEAL_CUSTOM;
    params.ranks = 3;
    params.chunks = params.nblocks = 2;
    params.blocks = blocks;
    ck_assert_int_eq(peal_schedule_create(ctx, &params, &diag, &script), PEAL_OK);
    for (uint32_t c = 0; c < 2; c++) {
        peal_schedule_step step = {.size = sizeof step,
                                   .chunk = c,
                                   .nfrom = 1,
                                   .nto = 1,
                                   .from = &rank[c],
                                   .to = &rank[c + 1]};
        ck_assert_int_eq(peal_schedule_add(script, &step, &diag), PEAL_OK);
    }
    request.collective = PEAL_CUSTOM;
    request.schedule = script;
    request.ranks = 3;
    request.max_bytes = 1 << 20;
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    peal_schedule_destroy(script);
    return table;
}

/* The same steps, of which one row wants more: that rank 0 gets block 1, too. */
START_TEST(the_same_steps_for_another_end)
{
    struct found found = {{0, 0}};
    peal_table *table = rows_of(custom(), custom());
    struct peal_plan *plan = table->rows[1].plan;
    ck_assert_int_eq(peal_table_verify(table, note, &found, NULL, NULL), PEAL_OK);
    ck_assert_int_eq(peal_grow(ctx, (void **)&plan->names, &plan->names_capacity,
                               (size_t)plan->nnames + 1, sizeof *plan->names, 64),
                     PEAL_OK);
    plan->names[plan->nnames - 1] = 0;
    plan->names[plan->nnames++] = 2;
    plan->lists[2 * plan->nblocks] = plan->nnames;
    ck_assert_int_eq(peal_plan_seal(plan, NULL), PEAL_OK);
    ck_assert_int_eq(peal_table_verify(table, note, &found, NULL, NULL), PEAL_ERR_UNPROVEN);
    ck_assert_uint_eq(found.rows[0], 0);
    ck_assert_uint_gt(found.rows[1], 0);
    peal_table_destroy(table);
}
END_TEST

/* ---- programs that nobody has proven */

START_TEST(lowered_is_not_proven)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_table_info info = {.size = sizeof info};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = test_planned(ctx, fabric, &request);
    ck_assert_msg(peal_table_lower(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    ck_assert_int_eq(peal_table_get(table, &info), PEAL_OK);
    ck_assert(info.compiled && !info.verified);
    ck_assert_int_eq(peal_table_verify(table, NULL, NULL, NULL, NULL), PEAL_OK);
    ck_assert_int_eq(peal_table_get(table, &info), PEAL_OK);
    ck_assert(info.verified);
    peal_table_destroy(table);
}
END_TEST

/* ---- lack of memory */

static peal_status sweep(peal_ctx *swept, void *user)
{
    struct peal_plan *plan = user;
    plan->ctx = swept;
    return peal_plan_verify(plan, 0, NULL, NULL, NULL, NULL);
}

static peal_status sweep_rows(peal_ctx *swept, void *user)
{
    peal_table *table = user;
    table->ctx = table->rows[0].plan->ctx = table->rows[1].plan->ctx = swept;
    return peal_table_verify(table, NULL, NULL, NULL, NULL);
}

START_TEST(every_allocation_of_rows_may_fail)
{
    peal_table *table = rows_of(compiled("ring", PEAL_REDUCE_SCATTER, 1, 0),
                                compiled("ring", PEAL_REDUCE_SCATTER, 2, 0));
    ck_assert_int_eq(test_oom_sweep(sweep_rows, table, 3000, NULL), 0);
    table->ctx = table->rows[0].plan->ctx = table->rows[1].plan->ctx = ctx;
    peal_table_destroy(table);
}
END_TEST

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
    tcase_add_loop_test(tests, channels_of_earlier_rows_are_executed_once, 0, CASES);
    tcase_add_loop_test(tests, a_fault_in_a_channel_of_either_row_is_found, 0, CASES);
    tcase_add_test(tests, the_same_steps_for_another_end);
    tcase_add_test(tests, lowered_is_not_proven);
    tcase_add_test(tests, every_allocation_may_fail);
    tcase_add_test(tests, every_allocation_of_rows_may_fail);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
