/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: slow */
/* Two hundred runs with something wrong in them, from seeds. */
#include "test_net_faults.h"
#include "test_suite.h"

#define RUNS 200
#define AT_A_TIME 6

static int seed(int run)
{
    return !run_one(1000 + (uint64_t)run, (enum fault)(run % F_KINDS));
}

START_TEST(test_seeds)
{
    ck_assert_uint_eq(run_forked(seed, RUNS, AT_A_TIME), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net faults");
    TCase *faults = tcase_create("seeds");
    tcase_set_timeout(faults, 280);
    tcase_add_unchecked_fixture(faults, make_tables, drop_tables);
    tcase_add_test(faults, test_seeds);
    suite_add_tcase(suite, faults);
    return run_suite(suite, CK_FORK_GETENV);
}
