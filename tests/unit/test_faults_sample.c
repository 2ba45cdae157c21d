/* SPDX-License-Identifier: Apache-2.0 */
/* A sample of test_faults.c: every sixth plan; of those every tenth under sanitizers. */
#include "test_faults.h"

#ifdef PEAL_SANITIZED
#define STRIDE 60
#else
#define STRIDE 6
#endif

START_TEST(a_sample_is_rejected)
{
    uint32_t served[64] = {0};
    plant_faults(2, STRIDE, served);
    ck_assert_uint_ge(report.all.planted, 2000 / STRIDE);
}
END_TEST

int main(void)
{
    return run_faults(a_sample_is_rejected);
}
