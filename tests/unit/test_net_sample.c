/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: quick */
/* Ranks of two hosts, and each thing that may go wrong, once. */
#include "test_net_faults.h"
#include "test_suite.h"

START_TEST(test_each_fault)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    run_one(ctx, 1, (enum fault)_i);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net faults");
    TCase *faults = tcase_create("each");
    tcase_set_timeout(faults, 100);
    tcase_add_loop_test(faults, test_each_fault, 0, F_KINDS);
    suite_add_tcase(suite, faults);
    return run_suite(suite, CK_FORK_GETENV);
}
