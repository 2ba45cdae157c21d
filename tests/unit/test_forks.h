/* SPDX-License-Identifier: Apache-2.0 */
/* Many runs in processes of their own, several at a time: of those that wait, or plan, a processor
 * is not full. */
#ifndef PEAL_TESTS_FORKS_H
#define PEAL_TESTS_FORKS_H

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* body(0) to body(runs - 1): how many did not give 0. */
static inline unsigned run_forked(int (*body)(int run), int runs, int at_a_time)
{
    int begun = 0, over = 0;
    unsigned failed = 0;
    (void)fflush(NULL);
    while (over < runs) {
        int how;
        if (begun < runs && begun - over < at_a_time) {
            pid_t pid = fork();
            if (pid == 0) {
                int code = body(begun);
                (void)fflush(NULL);
                _exit(code != 0);
            }
            begun++;
            over += pid < 0;
            failed += pid < 0;
        } else if (wait(&how) > 0) {
            over++;
            failed += !WIFEXITED(how) || WEXITSTATUS(how) != 0;
        }
    }
    return failed;
}

#endif
