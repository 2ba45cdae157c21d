/* SPDX-License-Identifier: Apache-2.0 */
/* See kern_wire.h. fp8 is e4m3 of the OCP formats (1 sign, 4 exponent, 3 mantissa bits; largest
 * 448, no infinity, NaN 0x7f) in blocks of 32 with a scale of 2^(s - 127), as MXFP8 has them; the
 * scale is the least that keeps the block's largest element within 448. */
#include "kern_wire.h"

#include "kern_half.h"
#include "plan.h"

#include <string.h>

#define F32_INFINITY 0x7f800000u
#define F32_MAGNITUDE 0x7fffffffu
#define E4M3_NAN 0x7fu
#define E4M3_TOP 8u              /* exponent of the largest binade, of 256 to 448 */
#define E4M3_BELOW 0x1fffffu     /* carries into the exponent what is more than 1.75 of a binade */
#define E4M3_NORMAL 0x3c800000u  /* 2^-6, below which values lie 2^-9 apart */
#define E4M3_REBIAS (120u << 23) /* from exponents of bias 127 to those of bias 7 */

/* ---- bfloat16 */

static void pack_bf16(char *dst, const float *src, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half = kern_to_bf16(src[i]);
        memcpy(dst + 2 * i, &half, sizeof half);
    }
}

static void unpack_bf16(float *dst, const char *src, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, src + 2 * i, sizeof half);
        dst[i] = kern_from_bf16(half);
    }
}

/* ---- fp8 */

/* The scale's byte: the exponent of the largest finite magnitude, rounded up beyond 1.75, less that
 * of 448. At least 1, so that scale and inverse are normal numbers; at most 247. */
static uint32_t block_scale(const float *src, size_t count)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = kern_to_bits(src[i]) & F32_MAGNITUDE;
        magnitude = magnitude < F32_INFINITY ? magnitude : 0;
        most = magnitude > most ? magnitude : most;
    }
    uint32_t exponent = (most + E4M3_BELOW) >> 23;
    return exponent > E4M3_TOP ? exponent - E4M3_TOP : 1;
}

/* value is at most 448, or no number. What lies below 2^-6 is rounded by adding the float whose
 * last place is 2^-9. */
static uint8_t to_e4m3(float value)
{
    uint32_t bits = kern_to_bits(value);
    uint32_t sign = bits >> 24 & 0x80u;
    uint32_t magnitude = bits & F32_MAGNITUDE;
    uint32_t normal = (magnitude - E4M3_REBIAS + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20;
    uint32_t small = kern_to_bits(kern_from_bits(magnitude) + 0x1p14f) - kern_to_bits(0x1p14f);
    uint32_t code = magnitude < E4M3_NORMAL ? small : normal;
    return (uint8_t)(sign | (magnitude >= F32_INFINITY ? E4M3_NAN : code));
}

static float from_e4m3(uint8_t code)
{
    uint32_t magnitude = code & 0x7fu;
    uint32_t sign = (uint32_t)(code & 0x80u) << 24;
    /* The exponent is rebased by a multiplication, which is exact, subnormals included. */
    uint32_t bits = kern_to_bits(kern_from_bits(magnitude << 20) * 0x1p120f);
    return kern_from_bits(sign | (magnitude == E4M3_NAN ? 0x7fc00000u : bits));
}

static void pack_block(char *dst, const float *src, size_t count)
{
    uint32_t scale = block_scale(src, count);
    float inverse = kern_from_bits((254u - scale) << 23);
    unsigned char *to = (unsigned char *)dst;
    to[0] = (unsigned char)scale;
    for (size_t i = 0; i < count; i++)
        to[1 + i] = to_e4m3(src[i] * inverse);
}

static void unpack_block(float *dst, const char *src, size_t count)
{
    const unsigned char *from = (const unsigned char *)src;
    float scale = kern_from_bits((uint32_t)from[0] << 23);
    for (size_t i = 0; i < count; i++)
        dst[i] = from_e4m3(from[1 + i]) * scale;
}

/* ---- either */

void kern_wire_pack(uint8_t wire, char *dst, const float *src, size_t count)
{
    if (wire == PLAN_WIRE_BF16) {
        pack_bf16(dst, src, count);
        return;
    }
    for (; count > PLAN_WIRE_BLOCK; count -= PLAN_WIRE_BLOCK) {
        pack_block(dst, src, PLAN_WIRE_BLOCK);
        dst += PLAN_WIRE_BLOCK + 1;
        src += PLAN_WIRE_BLOCK;
    }
    if (count)
        pack_block(dst, src, count);
}

void kern_wire_unpack(uint8_t wire, float *dst, const char *src, size_t count)
{
    if (wire == PLAN_WIRE_BF16) {
        unpack_bf16(dst, src, count);
        return;
    }
    for (; count > PLAN_WIRE_BLOCK; count -= PLAN_WIRE_BLOCK) {
        unpack_block(dst, src, PLAN_WIRE_BLOCK);
        dst += PLAN_WIRE_BLOCK;
        src += PLAN_WIRE_BLOCK + 1;
    }
    if (count)
        unpack_block(dst, src, count);
}
