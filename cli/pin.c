/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_setaffinity */
#include "yard.h"

#include <sched.h>

void yard_pin(uint32_t index)
{
#ifdef __linux__
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) == 0)
        return;
    uint32_t left = index % (uint32_t)CPU_COUNT(&allowed);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || left-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof one, &one); /* a wish */
        return;
    }
#else
    (void)index;
#endif
}
