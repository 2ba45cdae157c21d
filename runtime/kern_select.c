/* SPDX-License-Identifier: Apache-2.0 */
/* Which set of kernels this processor runs. */
#include "kern.h"

unsigned kern_shape(unsigned nsrc, unsigned ndst)
{
#define SHAPE(index, k, m)                                                                         \
    if (nsrc == (k) && ndst == (m))                                                                \
        return index;
    KERN_SHAPES(SHAPE)
#undef SHAPE
    return 0;
}

const struct kern_set *kern_select(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    const struct kern_set *avx512 = kern_set_avx512();
    if (avx512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return avx512;
    const struct kern_set *avx2 = kern_set_avx2();
    /* Every processor with AVX2 has F16C, and not every compiler can ask for that. */
    if (avx2 && __builtin_cpu_supports("avx2"))
        return avx2;
#endif
    return kern_set_base();
}
