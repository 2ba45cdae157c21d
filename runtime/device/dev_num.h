/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of 8 and 16 bits in integer and float32 arithmetic, the same bits on both targets.
 * min and max give NaN if either is, and order -0 before +0, as the host's kernels do. */
#ifndef PEAL_RUNTIME_DEVICE_NUM_H
#define PEAL_RUNTIME_DEVICE_NUM_H

#include "dev_target.h"

DEV_FN float dev_min_f32(float a, float b)
{
    float equal = dev_float_of(dev_bits_of(a) | dev_bits_of(b));
    float ordered = a < b ? a : b < a ? b : equal;
    return a != a || b != b ? dev_float_of(0x7fc00000u) : ordered;
}

DEV_FN float dev_max_f32(float a, float b)
{
    float equal = dev_float_of(dev_bits_of(a) & dev_bits_of(b));
    float ordered = a > b ? a : b > a ? b : equal;
    return a != a || b != b ? dev_float_of(0x7fc00000u) : ordered;
}

DEV_FN double dev_min_f64(double a, double b)
{
    double equal = dev_double_of(dev_bits_of64(a) | dev_bits_of64(b));
    double ordered = a < b ? a : b < a ? b : equal;
    return a != a || b != b ? dev_double_of(0x7ff8000000000000u) : ordered;
}

DEV_FN double dev_max_f64(double a, double b)
{
    double equal = dev_double_of(dev_bits_of64(a) & dev_bits_of64(b));
    double ordered = a > b ? a : b > a ? b : equal;
    return a != a || b != b ? dev_double_of(0x7ff8000000000000u) : ordered;
}

/* ---- 16 bits */

DEV_FN float dev_from_bf16(uint16_t half)
{
    return dev_float_of((uint32_t)half << 16);
}

DEV_FN uint16_t dev_to_bf16(float value)
{
    uint32_t bits = dev_bits_of(value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* The exponent is rebased by a multiplication, which is exact, subnormals included. */
DEV_FN float dev_from_f16(uint16_t half)
{
    uint32_t magnitude = (uint32_t)(half & 0x7fffu) << 13;
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t bits = dev_bits_of(dev_mul_f32(dev_float_of(magnitude), 0x1p112f));
    uint32_t special = magnitude | 0x7f800000u | (half & 0x3ffu ? 0x400000u : 0u);
    return dev_float_of(sign | ((half & 0x7c00u) == 0x7c00u ? special : bits));
}

/* Subnormal results are rounded by adding the float whose last place is theirs. */
DEV_FN uint16_t dev_to_f16(float value)
{
    uint32_t bits = dev_bits_of(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    uint32_t small = dev_bits_of(dev_add_f32(dev_float_of(magnitude), 0.5f)) - 0x3f000000u;
    uint32_t special = magnitude > 0x7f800000u ? 0x7e00u | (magnitude >> 13 & 0x3ffu) : 0x7c00u;
    uint32_t half = magnitude < 0x38800000u ? small : normal;
    return (uint16_t)(sign | (magnitude >= 0x477ff000u ? special : half));
}

/* ---- 8 bits, as OCP's formats have them */

/* e4m3: 1 sign, 4 exponent (bias 7), 3 mantissa; largest 448, no infinity, NaN 0x7f and 0xff. */
DEV_FN float dev_from_e4m3(uint8_t code)
{
    uint32_t magnitude = code & 0x7fu;
    uint32_t sign = (uint32_t)(code & 0x80u) << 24;
    uint32_t bits = dev_bits_of(dev_mul_f32(dev_float_of(magnitude << 20), 0x1p120f));
    return dev_float_of(sign | (magnitude == 0x7fu ? 0x7fc00000u : bits));
}

/* Beyond 448, rounded, there is only NaN, and infinity is NaN. */
DEV_FN uint8_t dev_to_e4m3(float value)
{
    uint32_t bits = dev_bits_of(value);
    uint32_t sign = bits >> 24 & 0x80u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - (120u << 23) + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20;
    uint32_t small =
        dev_bits_of(dev_add_f32(dev_float_of(magnitude), 0x1p14f)) - dev_bits_of(0x1p14f);
    uint32_t code = magnitude < 0x3c800000u ? small : normal;
    return (uint8_t)(sign | (magnitude > 0x43e80000u ? 0x7fu : code));
}

/* e5m2: 1 sign, 5 exponent (bias 15), 2 mantissa: the upper half of a float16. */
DEV_FN float dev_from_e5m2(uint8_t code)
{
    return dev_from_f16((uint16_t)(code << 8));
}

/* Rounded once, from float32. Beyond the largest, 57344, comes infinity. */
DEV_FN uint8_t dev_to_e5m2(float value)
{
    uint32_t bits = dev_bits_of(value);
    uint32_t sign = bits >> 24 & 0x80u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffffu + (magnitude >> 21 & 1u)) >> 21;
    uint32_t small =
        dev_bits_of(dev_add_f32(dev_float_of(magnitude), 0x1p7f)) - dev_bits_of(0x1p7f);
    uint32_t code = magnitude < 0x38800000u ? small : normal;
    uint32_t special = magnitude > 0x7f800000u ? 0x7eu : 0x7cu;
    return (uint8_t)(sign | (magnitude >= 0x47700000u ? special : code));
}

#endif
