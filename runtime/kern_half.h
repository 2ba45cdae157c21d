/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit floats in plain integer and float32 arithmetic, without branches so that loops of
 * them vectorise. */
#ifndef PEAL_RUNTIME_KERN_HALF_H
#define PEAL_RUNTIME_KERN_HALF_H

#include <stdint.h>

union kern_f32 {
    float value;
    uint32_t bits;
};

union kern_f64 {
    double value;
    uint64_t bits;
};

static inline float kern_from_bits(uint32_t bits)
{
    union kern_f32 pun = {.bits = bits};
    return pun.value;
}

static inline uint32_t kern_to_bits(float value)
{
    union kern_f32 pun = {.value = value};
    return pun.bits;
}

static inline float kern_from_bf16(uint16_t half)
{
    return kern_from_bits((uint32_t)half << 16);
}

static inline uint16_t kern_to_bf16(float value)
{
    uint32_t bits = kern_to_bits(value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* The exponent is rebased by a multiplication, which is exact, subnormals included. */
static inline float kern_from_f16(uint16_t half)
{
    uint32_t magnitude = (uint32_t)(half & 0x7fffu) << 13;
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    float scaled = kern_from_bits(magnitude) * 0x1p112f;
    uint32_t bits = kern_to_bits(scaled);
    uint32_t special = magnitude | 0x7f800000u;
    /* A signalling NaN becomes quiet, as the processor's own conversion does. */
    special |= (half & 0x3ffu) ? 0x400000u : 0u;
    return kern_from_bits(sign | ((half & 0x7c00u) == 0x7c00u ? special : bits));
}

/* Subnormal results are rounded by adding the float whose last place is theirs. */
static inline uint16_t kern_to_f16(float value)
{
    uint32_t bits = kern_to_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    uint32_t small = kern_to_bits(kern_from_bits(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t special = magnitude > 0x7f800000u ? 0x7e00u | (magnitude >> 13 & 0x3ffu) : 0x7c00u;
    uint32_t half = magnitude < 0x38800000u ? small : normal;
    return (uint16_t)(sign | (magnitude >= 0x477ff000u ? special : half));
}

#endif
