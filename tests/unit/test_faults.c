/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: slow */
/* Faults in the plans of every algorithm, with every collective, on every kind of machine. The
 * model rounds nothing on the way: faults in compressed plans are planted in test_wire. */
#include "test_faults.h"

START_TEST(planted_faults_are_rejected)
{
    uint32_t served[64] = {0};
    plant_faults(0, 1, served);
    for (uint32_t a = 0; peal_algorithm_name(a); a++)
        ck_assert_msg(served[a] > 0 || strcmp(peal_algorithm_name(a), "compressed") == 0,
                      "no plan of %s", peal_algorithm_name(a));
    for (uint32_t k = 0; k < FAULT_KINDS; k++)
        ck_assert_msg(report.kind[k].planted > 0, "nowhere: %s", fault_kinds[k].name);
    ck_assert_uint_ge(report.all.planted, 2000);
    ck_assert_uint_gt(report.spans, 0);
    ck_assert_uint_gt(report.jumps, 0);
    ck_assert_uint_gt(report.tells, 0);
    ck_assert_uint_gt(report.lists, 0);
    ck_assert_uint_gt(report.levels, 0);
    ck_assert_uint_gt(report.no_sm, 0);
    ck_assert_uint_gt(report.packets, 0);
    ck_assert_uint_gt(report.events, 0);
}
END_TEST

int main(void)
{
    return run_faults(planted_faults_are_rejected);
}
