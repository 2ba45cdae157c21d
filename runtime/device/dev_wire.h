/* SPDX-License-Identifier: Apache-2.0 */
/* Wire slots: float32 elements packed as bfloat16, or as fp8 in blocks of 32 with a scale. The
 * forms are those of docs/plan-format.md, "Wire slots". A thread takes a block of 32 elements. */
#ifndef PEAL_RUNTIME_DEVICE_WIRE_H
#define PEAL_RUNTIME_DEVICE_WIRE_H

#include "dev_move.h"

#define DEV_WIRE_PLAIN 0u
#define DEV_WIRE_BF16 1u
#define DEV_WIRE_BLOCK 32u

/* Element `e` of the block at `at` of a slot or of plain memory. */
DEV_FN float dev_wire_value(uint32_t wire, uint64_t at, uint32_t e)
{
    if (wire == DEV_WIRE_PLAIN)
        return *DEV_AT(const float, at + 4 * e);
    if (wire == DEV_WIRE_BF16) /* slots are aligned, blocks of bfloat16 too */
        return dev_from_bf16(*DEV_AT(const uint16_t, at + 2 * e));
    float scale = dev_float_of((uint32_t)*DEV_AT(const uint8_t, at) << 23);
    return dev_mul_f32(dev_from_e4m3(*DEV_AT(const uint8_t, at + 1 + e)), scale);
}

DEV_FN uint64_t dev_wire_offset(uint32_t wire, uint64_t block)
{
    return wire == DEV_WIRE_PLAIN  ? block * 4 * DEV_WIRE_BLOCK
           : wire == DEV_WIRE_BF16 ? block * 2 * DEV_WIRE_BLOCK
                                   : block * (DEV_WIRE_BLOCK + 1);
}

/* The scale's byte: the least exponent at which no finite element is beyond 448. */
DEV_FN uint32_t dev_wire_scale(uint32_t wire, uint64_t at, uint32_t count)
{
    uint32_t most = 0;
    DEV_ROLLED
    for (uint32_t e = 0; e < count; e++) {
        uint32_t magnitude = dev_bits_of(dev_wire_value(wire, at, e)) & 0x7fffffffu;
        magnitude = magnitude < 0x7f800000u ? magnitude : 0;
        most = magnitude > most ? magnitude : most;
    }
    uint32_t exponent = (most + 0x1fffffu) >> 23;
    return exponent > 8 ? exponent - 8 : 1;
}

DEV_FN float dev_wire_fold(struct dev_thread *t, const struct dev_fold *f, uint64_t block,
                           uint32_t e)
{
    float acc = 0;
    DEV_ROLLED
    for (uint32_t s = 0; s < f->nsrc; s++) {
        uint32_t wire = f->operands[s].wire;
        float value = dev_wire_value(wire, t->block->src[s] + dev_wire_offset(wire, block), e);
        acc = s == 0 ? value : dev_add_f32(acc, value);
    }
    return f->divisor ? dev_div_f32(acc, (float)f->divisor) : acc;
}

/* Sums and averages only: calls of other operations are refused. */
DEV_FN void dev_wire_elements(struct dev_thread *t, const struct dev_fold *f, uint64_t block,
                              uint32_t count)
{
    DEV_ROLLED
    for (uint32_t e = 0; e < count; e++) {
        float value = dev_wire_fold(t, f, block, e);
        DEV_ROLLED
        for (uint32_t d = 0; d < f->ndst; d++) {
            uint32_t wire = f->operands[f->nsrc + d].wire;
            uint64_t at = t->block->dst[d] + dev_wire_offset(wire, block);
            if (wire == DEV_WIRE_PLAIN)
                *DEV_AT(float, at + 4 * e) = value;
            else if (wire == DEV_WIRE_BF16)
                *DEV_AT(uint16_t, at + 2 * e) = dev_to_bf16(value);
        }
    }
}

/* The one source into the fp8 slots among the destinations. */
DEV_FN void dev_wire_pack(struct dev_thread *t, const struct dev_fold *f, uint64_t block,
                          uint32_t count)
{
    uint32_t wire = f->operands[0].wire;
    uint64_t from = t->block->src[0] + dev_wire_offset(wire, block);
    uint32_t scale = dev_wire_scale(wire, from, count);
    float inverse = dev_float_of((254u - scale) << 23);
    DEV_ROLLED
    for (uint32_t d = 0; d < f->ndst; d++) {
        uint32_t to_wire = f->operands[f->nsrc + d].wire;
        uint64_t to = t->block->dst[d] + dev_wire_offset(to_wire, block);
        if (to_wire <= DEV_WIRE_BF16)
            continue;
        *DEV_AT(uint8_t, to) = (uint8_t)scale;
        DEV_ROLLED
        for (uint32_t e = 0; e < count; e++)
            *DEV_AT(uint8_t, to + 1 + e) =
                dev_to_e4m3(dev_mul_f32(dev_wire_value(wire, from, e), inverse));
    }
}

DEV_FN void dev_wire_step(struct dev_thread *t, const struct dev_step *step)
{
    struct dev_fold f = dev_fold_of(t, step, 0);
    uint64_t count = dev_resolve(t, step, 0);
    DEV_ROLLED
    for (uint64_t block = t->tid; block * DEV_WIRE_BLOCK < count; block += t->threads) {
        uint64_t left = count - block * DEV_WIRE_BLOCK;
        uint32_t some = left < DEV_WIRE_BLOCK ? (uint32_t)left : DEV_WIRE_BLOCK;
        dev_wire_elements(t, &f, block, some);
        if (!(step->flags & DEV_FOLDS))
            dev_wire_pack(t, &f, block, some);
    }
}

#endif
