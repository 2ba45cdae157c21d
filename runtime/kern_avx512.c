/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX-512 F, BW, DQ and VL; kernels.cmake gives this file its flags. */
#include "kern.h"
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define KERN_NAME "avx512"
#define KERN_SET kern_set_avx512
#include "kern_set.h"
#else
const struct kern_set *kern_set_avx512(void)
{
    return NULL;
}
#endif
