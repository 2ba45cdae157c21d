/* SPDX-License-Identifier: Apache-2.0 */
/* Exact arithmetic. */
#include "base.h"

int peal_mul_overflows(size_t a, size_t b, size_t *product)
{
    if (b != 0 && a > SIZE_MAX / b)
        return 1;
    *product = a * b;
    return 0;
}

/* With a = q*den + r: a*num/den = q*num + r*num/den. r < den and num < 2^32, so r*num fits
 * 64 bits; q*num <= a because num <= den. */
uint64_t peal_muldiv(uint64_t a, uint32_t num, uint32_t den)
{
    uint64_t whole = a / den;
    uint64_t rest = a % den;
    return whole * num + rest * num / den;
}
