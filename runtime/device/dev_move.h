/* SPDX-License-Identifier: Apache-2.0 */
/* What a block's threads move and fold together: plain memory and packets, of every type. */
#ifndef PEAL_RUNTIME_DEVICE_MOVE_H
#define PEAL_RUNTIME_DEVICE_MOVE_H

#include "dev_num.h"
#include "dev_place.h"
#include "dev_sync.h"

/* As peal_op. */
enum dev_op { DEV_OP_SUM, DEV_OP_PROD, DEV_OP_MIN, DEV_OP_MAX, DEV_OP_AVG };

/* A step on one chunk, whose operands' addresses the block shares. */
struct dev_fold {
    const struct dev_operand *operands;
    uint32_t nsrc;
    uint32_t ndst;
    uint32_t op;
    uint32_t divisor; /* 0: none */
};

/* [0, head) and [body, end) by elements, [head, body) by 16 bytes; of a tile's bytes. */
struct dev_cut {
    uint64_t head;
    uint64_t body;
    uint64_t end;
};

/* ---- a few bytes, aligned to themselves or to a divisor of them */

DEV_FN void dev_load_some(union dev_vec *vec, uint64_t at, uint32_t bytes)
{
    switch (bytes) {
    case 1:
        vec->u8[0] = *DEV_AT(const uint8_t, at);
        break;
    case 2:
        vec->u16[0] = *DEV_AT(const uint16_t, at);
        break;
    case 4:
        vec->u32[0] = *DEV_AT(const uint32_t, at);
        break;
    default:
        vec->u64[0] = *DEV_AT(const uint64_t, at);
    }
}

DEV_FN void dev_store_some(const union dev_vec *vec, uint64_t at, uint32_t bytes)
{
    switch (bytes) {
    case 1:
        *DEV_AT(uint8_t, at) = vec->u8[0];
        break;
    case 2:
        *DEV_AT(uint16_t, at) = vec->u16[0];
        break;
    case 4:
        *DEV_AT(uint32_t, at) = vec->u32[0];
        break;
    default:
        *DEV_AT(uint64_t, at) = vec->u64[0];
    }
}

/* Up to eight bytes at any address, low ones first. */
DEV_FN uint64_t dev_load_bytes(uint64_t at, uint32_t bytes)
{
    uint64_t value = 0;
    if (bytes == 8 && at % 8 == 0)
        return *DEV_AT(const uint64_t, at);
    if (bytes == 8 && at % 4 == 0)
        return *DEV_AT(const uint32_t, at) | (uint64_t)*DEV_AT(const uint32_t, at + 4) << 32;
    DEV_ROLLED
    for (uint32_t i = 0; i < bytes; i++)
        value |= (uint64_t)*DEV_AT(const uint8_t, at + i) << 8 * i;
    return value;
}

DEV_FN void dev_store_bytes(uint64_t at, uint32_t bytes, uint64_t value)
{
    if (bytes == 8 && at % 8 == 0) {
        *DEV_AT(uint64_t, at) = value;
        return;
    }
    DEV_ROLLED
    for (uint32_t i = 0; i < bytes; i++)
        *DEV_AT(uint8_t, at + i) = (uint8_t)(value >> 8 * i);
}

/* ---- packets: a header word, then each four bytes as a word with the call's stamp */

DEV_FN uint64_t dev_packet_word(struct dev_thread *t, const uint64_t *at)
{
    uint32_t polls = 0;
    uint64_t word = dev_packet_load(at);
    DEV_ROLLED
    while ((uint32_t)(word >> 32) != t->block->stamp && !DEV_BUG(11)) {
        if (dev_given_up(t, &polls)) {
            dev_report(t, DEV_REPORT_ABORTED, DEV_NOBODY);
            return 0;
        }
        word = dev_packet_load(at);
    }
    return word;
}

/* Up to eight bytes of source s. */
DEV_FN uint64_t dev_gather(struct dev_thread *t, const struct dev_fold *f, uint32_t s, uint64_t at,
                           uint32_t bytes)
{
    uint64_t slot = t->block->src[s];
    if (f->operands[s].place != DEV_PACKETS)
        return dev_load_bytes(slot + at, bytes);
    const uint64_t *words = DEV_AT(const uint64_t, slot) + 1 + at / 4;
    uint64_t low = dev_packet_word(t, words) & 0xffffffffu;
    return bytes > 4 ? low | dev_packet_word(t, words + 1) << 32 : low;
}

DEV_FN void dev_scatter(struct dev_thread *t, const struct dev_fold *f, uint64_t at, uint32_t bytes,
                        uint64_t value)
{
    uint64_t stamp = (uint64_t)t->block->stamp << 32;
    DEV_ROLLED
    for (uint32_t d = 0; d < f->ndst; d++) {
        uint64_t slot = t->block->dst[d];
        if (f->operands[f->nsrc + d].place != DEV_PACKETS) {
            dev_store_bytes(slot + at, bytes, value);
            continue;
        }
        uint64_t *words = DEV_AT(uint64_t, slot) + 1 + at / 4;
        dev_packet_store(words, stamp | (value & 0xffffffffu));
        if (bytes > 4)
            dev_packet_store(words + 1, stamp | value >> 32);
    }
}

/* First thread: every source packet is there, and of this call. Who finds a header knows what the
 * lane did that stored it. */
DEV_FN void dev_await_headers(struct dev_thread *t, const struct dev_fold *f)
{
    uint64_t header = (uint64_t)t->block->stamp << 32 | t->block->digest;
    DEV_ROLLED
    for (uint32_t s = 0; s < f->nsrc && !t->failed; s++) {
        const uint64_t *at = DEV_AT(const uint64_t, t->block->src[s]);
        uint32_t polls = 0;
        if (f->operands[s].place != DEV_PACKETS)
            continue;
        uint64_t seen = DEV_BUG(10) ? dev_relaxed64(at) : dev_acquire64(at);
        DEV_ROLLED
        while ((uint32_t)(seen >> 32) != t->block->stamp && !t->failed) {
            if (dev_given_up(t, &polls))
                dev_report(t, DEV_REPORT_ABORTED, DEV_NOBODY);
            seen = DEV_BUG(10) ? dev_relaxed64(at) : dev_acquire64(at);
        }
        if (!t->failed && seen != header && !DEV_BUG(16))
            dev_report(t, DEV_REPORT_MISMATCH, DEV_NOBODY);
    }
}

/* First thread, before the payload: the block has passed its barrier. */
DEV_FN void dev_put_headers(struct dev_thread *t, const struct dev_fold *f)
{
    uint64_t header = (uint64_t)t->block->stamp << 32 | t->block->digest;
    DEV_ROLLED
    for (uint32_t d = 0; d < f->ndst; d++) {
        uint64_t *at = DEV_AT(uint64_t, t->block->dst[d]);
        if (f->operands[f->nsrc + d].place != DEV_PACKETS)
            continue;
        if (DEV_BUG(9))
            dev_set64(at, header);
        else
            dev_release64(at, header);
    }
}

/* ---- the types */

#define DEV_SAME(a) (a)
#define DEV_LESSER(a, b) ((a) < (b) ? (a) : (b))
#define DEV_GREATER(a, b) ((a) > (b) ? (a) : (b))
#define DEV_DIV_F32(a, n) dev_div_f32(a, (float)(n))
#define DEV_DIV_F64(a, n) dev_div_f64(a, (double)(n))
#define DEV_ADD_32(a, b) ((int32_t)((uint32_t)(a) + (uint32_t)(b)))
#define DEV_MUL_32(a, b) ((int32_t)((uint32_t)(a) * (uint32_t)(b)))
#define DEV_ADD_64(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define DEV_MUL_64(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define DEV_PLUS(a, b) ((a) + (b))
#define DEV_TIMES(a, b) ((a) * (b))
/* Modulo 2^8 before the division, and truncated toward zero. */
#define DEV_DIV_I8(a, n) ((int8_t)(a) / (int32_t)(n))
#define DEV_DIV_U8(a, n) ((uint8_t)(a) / (n))
#define DEV_DIV_I32(a, n) ((a) / (int32_t)(n))
#define DEV_DIV_I64(a, n) ((a) / (int64_t)(n))
#define DEV_DIV_U(a, n) ((a) / (n))
#define DEV_TO_I8(a) ((int8_t)(a))
#define DEV_TO_U8(a) ((uint8_t)(a))

#define TYPE f32
#define MEMBER f32
#define EACH 4
#define ACC float
#define LOAD DEV_SAME
#define STORE DEV_SAME
#define SUM dev_add_f32
#define PROD dev_mul_f32
#define MIN dev_min_f32
#define MAX dev_max_f32
#define DIV DEV_DIV_F32
#include "dev_fold.h"

#define TYPE f64
#define MEMBER f64
#define EACH 2
#define ACC double
#define LOAD DEV_SAME
#define STORE DEV_SAME
#define SUM dev_add_f64
#define PROD dev_mul_f64
#define MIN dev_min_f64
#define MAX dev_max_f64
#define DIV DEV_DIV_F64
#include "dev_fold.h"

#define TYPE f16
#define MEMBER u16
#define EACH 8
#define ACC float
#define LOAD dev_from_f16
#define STORE dev_to_f16
#define SUM dev_add_f32
#define PROD dev_mul_f32
#define MIN dev_min_f32
#define MAX dev_max_f32
#define DIV DEV_DIV_F32
#include "dev_fold.h"

#define TYPE bf16
#define MEMBER u16
#define EACH 8
#define ACC float
#define LOAD dev_from_bf16
#define STORE dev_to_bf16
#define SUM dev_add_f32
#define PROD dev_mul_f32
#define MIN dev_min_f32
#define MAX dev_max_f32
#define DIV DEV_DIV_F32
#include "dev_fold.h"

#define TYPE e4m3
#define MEMBER u8
#define EACH 16
#define ACC float
#define LOAD dev_from_e4m3
#define STORE dev_to_e4m3
#define SUM dev_add_f32
#define PROD dev_mul_f32
#define MIN dev_min_f32
#define MAX dev_max_f32
#define DIV DEV_DIV_F32
#include "dev_fold.h"

#define TYPE e5m2
#define MEMBER u8
#define EACH 16
#define ACC float
#define LOAD dev_from_e5m2
#define STORE dev_to_e5m2
#define SUM dev_add_f32
#define PROD dev_mul_f32
#define MIN dev_min_f32
#define MAX dev_max_f32
#define DIV DEV_DIV_F32
#include "dev_fold.h"

#define TYPE i8
#define MEMBER i8
#define EACH 16
#define ACC int32_t
#define LOAD DEV_SAME
#define STORE DEV_TO_I8
#define SUM DEV_ADD_32
#define PROD DEV_MUL_32
#define MIN DEV_LESSER
#define MAX DEV_GREATER
#define DIV DEV_DIV_I8
#include "dev_fold.h"

#define TYPE u8
#define MEMBER u8
#define EACH 16
#define ACC uint32_t
#define LOAD DEV_SAME
#define STORE DEV_TO_U8
#define SUM DEV_PLUS
#define PROD DEV_TIMES
#define MIN DEV_LESSER
#define MAX DEV_GREATER
#define DIV DEV_DIV_U8
#include "dev_fold.h"

#define TYPE i32
#define MEMBER i32
#define EACH 4
#define ACC int32_t
#define LOAD DEV_SAME
#define STORE DEV_SAME
#define SUM DEV_ADD_32
#define PROD DEV_MUL_32
#define MIN DEV_LESSER
#define MAX DEV_GREATER
#define DIV DEV_DIV_I32
#include "dev_fold.h"

#define TYPE u32
#define MEMBER u32
#define EACH 4
#define ACC uint32_t
#define LOAD DEV_SAME
#define STORE DEV_SAME
#define SUM DEV_PLUS
#define PROD DEV_TIMES
#define MIN DEV_LESSER
#define MAX DEV_GREATER
#define DIV DEV_DIV_U
#include "dev_fold.h"

#define TYPE i64
#define MEMBER i64
#define EACH 2
#define ACC int64_t
#define LOAD DEV_SAME
#define STORE DEV_SAME
#define SUM DEV_ADD_64
#define PROD DEV_MUL_64
#define MIN DEV_LESSER
#define MAX DEV_GREATER
#define DIV DEV_DIV_I64
#include "dev_fold.h"

#define TYPE u64
#define MEMBER u64
#define EACH 2
#define ACC uint64_t
#define LOAD DEV_SAME
#define STORE DEV_SAME
#define SUM DEV_PLUS
#define PROD DEV_TIMES
#define MIN DEV_LESSER
#define MAX DEV_GREATER
#define DIV DEV_DIV_U
#include "dev_fold.h"

/* In the order of peal_dtype. */
#define DEV_EACH_TYPE(X)                                                                           \
    X(0, f32)                                                                                      \
    X(1, f64)                                                                                      \
    X(2, f16)                                                                                      \
    X(3, bf16)                                                                                     \
    X(4, i8) X(5, u8) X(6, i32) X(7, u32) X(8, i64) X(9, u64) X(DEV_E4M3, e4m3) X(DEV_E5M2, e5m2)

/* ---- plain memory */

/* Bits of the addresses in which an operand differs from the first, and the first's own. */
DEV_FN uint32_t dev_misaligned(const struct dev_thread *t, const struct dev_fold *f, uint32_t *own)
{
    uint64_t first = t->block->src[0], bits = 0;
    DEV_ROLLED
    for (uint32_t i = 1; i < f->nsrc; i++)
        bits |= t->block->src[i] ^ first;
    DEV_ROLLED
    for (uint32_t i = 0; i < f->ndst; i++)
        bits |= t->block->dst[i] ^ first;
    *own = (uint32_t)first & 15u;
    return (uint32_t)bits & 15u;
}

DEV_FN struct dev_cut dev_cut(uint64_t bytes, uint32_t misaligned, uint32_t own)
{
    struct dev_cut cut;
    uint64_t head = (16 - own) & 15u;
    cut.end = bytes;
    cut.head = misaligned || head > bytes ? bytes : head;
    cut.body = cut.head + (bytes - cut.head) / 16 * 16;
    return cut;
}

DEV_FN void dev_fold_plain(struct dev_thread *t, const struct dev_fold *f, uint64_t bytes)
{
    uint32_t own;
    uint32_t misaligned = dev_misaligned(t, f, &own);
    struct dev_cut cut = dev_cut(bytes, misaligned, own);
    switch (t->block->call.dtype) {
#define X(dtype, type)                                                                             \
    case dtype:                                                                                    \
        dev_fold_##type(t, f, cut);                                                                \
        break;
        DEV_EACH_TYPE(X)
#undef X
    default:
        break;
    }
}

/* `unit` bytes, a power of two up to 8, which all addresses are multiples of. */
DEV_FN void dev_move_units(struct dev_thread *t, uint32_t ndst, uint64_t from, uint64_t to,
                           uint32_t unit)
{
    union dev_vec vec;
    DEV_ROLLED
    for (uint64_t at = from + (uint64_t)t->tid * unit; at < to; at += (uint64_t)t->threads * unit) {
        dev_load_some(&vec, t->block->src[0] + at, unit);
        DEV_ROLLED
        for (uint32_t d = 0; d < ndst; d++)
            dev_store_some(&vec, t->block->dst[d] + at, unit);
    }
}

/* Four vectors of a thread are under way at once. */
DEV_FN void dev_move_vecs(struct dev_thread *t, uint32_t ndst, uint64_t from, uint64_t to)
{
    uint64_t step = 16ull * t->threads;
    DEV_ROLLED
    for (uint64_t at = from + 16ull * t->tid; at < to; at += 4 * step) {
        union dev_vec vec[4];
        DEV_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            if (at + k * step < to)
                vec[k] = dev_load_vec(t->block->src[0] + at + k * step);
        DEV_ROLLED
        for (uint32_t d = 0; d < ndst; d++) {
            DEV_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                if (at + k * step < to)
                    dev_store_vec(t->block->dst[d] + at + k * step, vec[k]);
        }
    }
}

DEV_FN void dev_move_plain(struct dev_thread *t, const struct dev_fold *f, uint64_t bytes)
{
    uint32_t own;
    uint32_t misaligned = dev_misaligned(t, f, &own);
    struct dev_cut cut = dev_cut(bytes, misaligned, own);
    /* What lies in an own buffer already is left alone. */
    if (f->ndst == 1 && t->block->dst[0] == t->block->src[0])
        return;
    uint32_t unit = misaligned ? (misaligned | own) & (0u - (misaligned | own)) : 1;
    uint64_t whole = misaligned ? bytes / unit * unit : 0;
    if (misaligned) {
        dev_move_units(t, f->ndst, 0, whole, unit);
        dev_move_units(t, f->ndst, whole, bytes, 1);
        return;
    }
    dev_move_units(t, f->ndst, 0, cut.head, 1);
    dev_move_vecs(t, f->ndst, cut.head, cut.body);
    dev_move_units(t, f->ndst, cut.body, cut.end, 1);
}

/* ---- steps */

DEV_FN struct dev_fold dev_fold_of(const struct dev_thread *t, const struct dev_step *step,
                                   uint32_t nth)
{
    struct dev_fold f;
    f.operands = dev_operands(t, step, nth);
    f.nsrc = step->nsrc;
    f.ndst = step->ndst;
    f.op = t->block->call.op;
    f.divisor = step->flags & DEV_FINAL ? t->block->call.divisor : 0;
    return f;
}

DEV_FN uint64_t dev_wire_bytes(uint32_t wire, uint64_t count)
{
    return wire == 1 ? 2 * count : count + (count + 31) / 32;
}

DEV_FN uint64_t dev_move_bytes(const struct dev_thread *t, const struct dev_step *step,
                               uint64_t count)
{
    return step->wire ? dev_wire_bytes(step->wire, count) : count * t->block->elem_bytes;
}

/* A packet's payload that is not folded goes as it is: as numbers of 64 bits. */
DEV_FN void dev_packet_payload(struct dev_thread *t, const struct dev_fold *f, uint64_t bytes,
                               int folds)
{
    switch (folds ? t->block->call.dtype : 9u) {
#define X(dtype, type)                                                                             \
    case dtype:                                                                                    \
        dev_packets_##type(t, f, bytes);                                                           \
        break;
        DEV_EACH_TYPE(X)
#undef X
    default:
        break;
    }
}

DEV_FN void dev_packet_step(struct dev_thread *t, const struct dev_step *step)
{
    struct dev_fold f = dev_fold_of(t, step, 0);
    uint64_t count = dev_resolve(t, step, 0);
    if (t->tid == 0) {
        dev_await_headers(t, &f);
        dev_put_headers(t, &f);
    }
    if (dev_sync_or(t, t->failed)) {
        t->failed = 1;
        return;
    }
    dev_packet_payload(t, &f, count * t->block->elem_bytes, step->flags & DEV_FOLDS);
}

/* ---- what memory folds by itself */

/* By type, in the order of peal_dtype: adds, minima, maxima; DEV_BULK_COPY: none. */
DEV_FN uint32_t dev_memory_op(uint32_t dtype, uint32_t op)
{
    int sum = op == DEV_OP_SUM, low = op == DEV_OP_MIN, high = op == DEV_OP_MAX;
    switch (dtype) {
    case 0:
        return sum ? DEV_BULK_ADD_F32 : DEV_BULK_COPY;
    case 1:
        return sum ? DEV_BULK_ADD_F64 : DEV_BULK_COPY;
    case 6:
        return sum    ? DEV_BULK_ADD_U32
               : low  ? DEV_BULK_MIN_S32
               : high ? DEV_BULK_MAX_S32
                      : DEV_BULK_COPY;
    case 7:
        return sum    ? DEV_BULK_ADD_U32
               : low  ? DEV_BULK_MIN_U32
               : high ? DEV_BULK_MAX_U32
                      : DEV_BULK_COPY;
    case 8:
        return sum    ? DEV_BULK_ADD_U64
               : low  ? DEV_BULK_MIN_S64
               : high ? DEV_BULK_MAX_S64
                      : DEV_BULK_COPY;
    case 9:
        return sum    ? DEV_BULK_ADD_U64
               : low  ? DEV_BULK_MIN_U64
               : high ? DEV_BULK_MAX_U64
                      : DEV_BULK_COPY;
    default:
        return DEV_BULK_COPY;
    }
}

#endif
