/* SPDX-License-Identifier: Apache-2.0 */
/* The end of every main of a unit test. */
#ifndef PEAL_TESTS_SUITE_H
#define PEAL_TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

/* Runs and frees a suite; the exit status. */
static inline int run_suite(Suite *suite, enum fork_status fork_status)
{
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, fork_status);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
