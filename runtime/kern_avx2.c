/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX2 and F16C; kernels.cmake gives this file its flags. */
#include "kern.h"
#if defined(__AVX2__) && defined(__F16C__)
#define KERN_NAME "avx2"
#define KERN_SET kern_set_avx2
#include "kern_set.h"
#else
const struct kern_set *kern_set_avx2(void)
{
    return NULL;
}
#endif
