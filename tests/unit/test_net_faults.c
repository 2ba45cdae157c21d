/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: slow */
/* Two hundred runs with something wrong in them, from seeds. */
#include "test_net_faults.h"
#include "test_suite.h"

#define RUNS 200

START_TEST(test_seed)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    run_one(ctx, 1000 + (uint64_t)_i, (enum fault)(_i % F_KINDS));
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net faults");
    TCase *faults = tcase_create("seeds");
    tcase_set_timeout(faults, 100);
    tcase_add_loop_test(faults, test_seed, 0, RUNS);
    suite_add_tcase(suite, faults);
    return run_suite(suite, CK_FORK_GETENV);
}
