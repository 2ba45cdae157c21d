/* SPDX-License-Identifier: Apache-2.0 */
/* A sample of test_faults.c: every sixth plan. */
#include "test_faults.h"

START_TEST(a_sample_is_rejected)
{
    uint32_t served[64] = {0};
    plant_faults(2, 6, served);
    ck_assert_uint_ge(report.all.planted, 300);
}
END_TEST

int main(void)
{
    return run_faults(a_sample_is_rejected);
}
