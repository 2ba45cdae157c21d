/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: quick */
/* Ranks of two hosts, and each thing that may go wrong, once. */
#include "test_net_faults.h"
#include "test_suite.h"

static int once(int run)
{
    return !run_one(1 + (uint64_t)run, (enum fault)run);
}

START_TEST(test_each_fault)
{
    ck_assert_uint_eq(run_forked(once, F_KINDS, 4), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net faults");
    TCase *faults = tcase_create("each");
    tcase_set_timeout(faults, 100);
    tcase_add_unchecked_fixture(faults, make_tables, drop_tables);
    tcase_add_test(faults, test_each_fault);
    suite_add_tcase(suite, faults);
    return run_suite(suite, CK_FORK_GETENV);
}
