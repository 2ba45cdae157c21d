/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers and fractions, exactly, where products take up to 128 bits. */
#include "pack.h"

uint64_t peal_pack_gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

struct wide {
    uint64_t high;
    uint64_t low;
};

/* Long multiplication with digits of 32 bits. */
static struct wide product(uint64_t a, uint64_t b)
{
    uint64_t mask = UINT32_MAX;
    uint64_t low = (a & mask) * (b & mask);
    uint64_t cross = (a >> 32) * (b & mask) + (low >> 32);
    uint64_t other = (a & mask) * (b >> 32) + (cross & mask);
    struct wide result = {(a >> 32) * (b >> 32) + (cross >> 32) + (other >> 32),
                          other << 32 | (low & mask)};
    return result;
}

/* Long division bit by bit; high < d, so that the quotient fits. */
static uint64_t quotient_of(struct wide n, uint64_t d)
{
    uint64_t quotient = 0;
    uint64_t rest = n.high;
    for (int bit = 63; bit >= 0; bit--) {
        int carry = (int)(rest >> 63);
        rest = rest << 1 | (n.low >> bit & 1);
        if (carry || rest >= d) {
            rest -= d;
            quotient |= UINT64_C(1) << bit;
        }
    }
    return quotient;
}

int peal_pack_muldiv_overflows(uint64_t a, uint64_t b, uint64_t d, uint64_t *quotient)
{
    struct wide n = product(a, b);
    if (n.high >= d)
        return 1;
    *quotient = n.high ? quotient_of(n, d) : n.low / d;
    return 0;
}

int peal_pack_less(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    struct wide left = product(a, d);
    struct wide right = product(c, b);
    return left.high != right.high ? left.high < right.high : left.low < right.low;
}
