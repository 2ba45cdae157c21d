/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast and load-reduce by an NVLink switch. What it does not do (a type, an operation, memory
 * that is not bound to it, what is not aligned), and all of it on targets without one, the block
 * does by loads and stores of its own: the operands are listed rank by rank.
 */
#ifndef PEAL_RUNTIME_DEVICE_MULTI_H
#define PEAL_RUNTIME_DEVICE_MULTI_H

#include "dev_move.h"

/* As they are numbered by dev_memory_op, and behind them the halves. */
enum dev_multi_op { DEV_MULTI_NONE = 0, DEV_MULTI_ADD_F16 = 32, DEV_MULTI_ADD_BF16 = 33 };

#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
#define DEV_MULTI 1

/* Multicast addresses are other names of memory. */
DEV_FN void dev_multi_behind(void)
{
    asm volatile("fence.proxy.alias;" ::: "memory");
}

DEV_FN void dev_multi_store_vec(struct dev_thread *t, uint64_t at, union dev_vec vec)
{
    (void)t;
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at),
                 "f"(vec.f32[0]), "f"(vec.f32[1]), "f"(vec.f32[2]), "f"(vec.f32[3])
                 : "memory");
}

#define DEV_MULTI_LOAD_V4(what, kind, vec, at)                                                     \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." what " {%0, %1, %2, %3}, [%4];"          \
                 : kind((vec).u32[0]), kind((vec).u32[1]), kind((vec).u32[2]), kind((vec).u32[3])  \
                 : "l"(at)                                                                         \
                 : "memory")
#define DEV_MULTI_LOAD_32(what, vec, e, at)                                                        \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." what " %0, [%1];"                        \
                 : "=r"((vec).u32[e])                                                              \
                 : "l"((at) + 4 * (e))                                                             \
                 : "memory")
#define DEV_MULTI_LOAD_64(what, vec, e, at)                                                        \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." what " %0, [%1];"                        \
                 : "=l"((vec).u64[e])                                                              \
                 : "l"((at) + 8 * (e))                                                             \
                 : "memory")
#define DEV_MULTI_EACH_32(what)                                                                    \
    DEV_MULTI_LOAD_32(what, vec, 0, at);                                                           \
    DEV_MULTI_LOAD_32(what, vec, 1, at);                                                           \
    DEV_MULTI_LOAD_32(what, vec, 2, at);                                                           \
    DEV_MULTI_LOAD_32(what, vec, 3, at);                                                           \
    break
#define DEV_MULTI_EACH_64(what)                                                                    \
    DEV_MULTI_LOAD_64(what, vec, 0, at);                                                           \
    DEV_MULTI_LOAD_64(what, vec, 1, at);                                                           \
    break

DEV_FN union dev_vec dev_multi_load_vec(struct dev_thread *t, uint64_t at, uint32_t op)
{
    (void)t;
    union dev_vec vec;
    switch (op) {
    case DEV_BULK_ADD_F32:
        asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(vec.f32[0]), "=f"(vec.f32[1]), "=f"(vec.f32[2]), "=f"(vec.f32[3])
                     : "l"(at)
                     : "memory");
        break;
    case DEV_MULTI_ADD_F16:
        DEV_MULTI_LOAD_V4("add.acc::f32.v4.f16x2", "=r", vec, at);
        break;
    case DEV_MULTI_ADD_BF16:
        DEV_MULTI_LOAD_V4("add.acc::f32.v4.bf16x2", "=r", vec, at);
        break;
    case DEV_BULK_ADD_F64:
        asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f64 %0, [%1];"
                     : "=d"(vec.f64[0])
                     : "l"(at)
                     : "memory");
        asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f64 %0, [%1];"
                     : "=d"(vec.f64[1])
                     : "l"(at + 8)
                     : "memory");
        break;
    case DEV_BULK_ADD_U32:
        DEV_MULTI_EACH_32("add.u32");
    case DEV_BULK_MIN_U32:
        DEV_MULTI_EACH_32("min.u32");
    case DEV_BULK_MAX_U32:
        DEV_MULTI_EACH_32("max.u32");
    case DEV_BULK_MIN_S32:
        DEV_MULTI_EACH_32("min.s32");
    case DEV_BULK_MAX_S32:
        DEV_MULTI_EACH_32("max.s32");
    case DEV_BULK_ADD_U64:
        DEV_MULTI_EACH_64("add.u64");
    case DEV_BULK_MIN_U64:
        DEV_MULTI_EACH_64("min.u64");
    case DEV_BULK_MAX_U64:
        DEV_MULTI_EACH_64("max.u64");
    case DEV_BULK_MIN_S64:
        DEV_MULTI_EACH_64("min.s64");
    default:
        DEV_MULTI_EACH_64("max.s64");
    }
    return vec;
}

#elif !defined(__CUDACC__)
#define DEV_MULTI 1

/* The emulator's switch: where it reaches the nth rank's 16 bytes of a multicast address, in an
 * order of its own; 0: there are no more. */
uint64_t dev_host_member(struct dev_thread *t, uint64_t at, uint32_t nth);

DEV_FN void dev_multi_behind(void)
{
}

DEV_FN void dev_multi_store_vec(struct dev_thread *t, uint64_t at, union dev_vec vec)
{
    uint64_t member;
    for (uint32_t nth = 0; (member = dev_host_member(t, at, nth)) != 0; nth++)
        dev_store_vec(member, vec);
}

#define DEV_MULTI_EACH(name, member, count, expression)                                            \
    DEV_FN void name(union dev_vec *a, const union dev_vec *b, uint32_t op)                        \
    {                                                                                              \
        for (uint32_t e = 0; e < (count); e++)                                                     \
            (a)->member[e] = expression(op, (a)->member[e], (b)->member[e]);                       \
    }
#define DEV_MULTI_ONE(op, a, b) ((op) == DEV_OP_MIN ? (a < b ? a : b) : (a > b ? a : b))
#define DEV_MULTI_SUM(op, a, b) ((void)(op), (a) + (b))
DEV_MULTI_EACH(dev_multi_sum_u32, u32, 4u, DEV_MULTI_SUM)
DEV_MULTI_EACH(dev_multi_sum_u64, u64, 2u, DEV_MULTI_SUM)
DEV_MULTI_EACH(dev_multi_sum_f32, f32, 4u, DEV_MULTI_SUM)
DEV_MULTI_EACH(dev_multi_sum_f64, f64, 2u, DEV_MULTI_SUM)
DEV_MULTI_EACH(dev_multi_most_u32, u32, 4u, DEV_MULTI_ONE)
DEV_MULTI_EACH(dev_multi_most_i32, i32, 4u, DEV_MULTI_ONE)
DEV_MULTI_EACH(dev_multi_most_u64, u64, 2u, DEV_MULTI_ONE)
DEV_MULTI_EACH(dev_multi_most_i64, i64, 2u, DEV_MULTI_ONE)

DEV_FN void dev_multi_fold_vec(union dev_vec *a, const union dev_vec *b, uint32_t op)
{
    switch (op) {
    case DEV_BULK_ADD_U32:
        dev_multi_sum_u32(a, b, op);
        break;
    case DEV_BULK_ADD_U64:
        dev_multi_sum_u64(a, b, op);
        break;
    case DEV_BULK_ADD_F32:
        dev_multi_sum_f32(a, b, op);
        break;
    case DEV_BULK_ADD_F64:
        dev_multi_sum_f64(a, b, op);
        break;
    case DEV_BULK_MIN_U32:
    case DEV_BULK_MAX_U32:
        dev_multi_most_u32(a, b, op == DEV_BULK_MIN_U32 ? DEV_OP_MIN : DEV_OP_MAX);
        break;
    case DEV_BULK_MIN_S32:
    case DEV_BULK_MAX_S32:
        dev_multi_most_i32(a, b, op == DEV_BULK_MIN_S32 ? DEV_OP_MIN : DEV_OP_MAX);
        break;
    case DEV_BULK_MIN_U64:
    case DEV_BULK_MAX_U64:
        dev_multi_most_u64(a, b, op == DEV_BULK_MIN_U64 ? DEV_OP_MIN : DEV_OP_MAX);
        break;
    default:
        dev_multi_most_i64(a, b, op == DEV_BULK_MIN_S64 ? DEV_OP_MIN : DEV_OP_MAX);
    }
}

/* Halves are added up in float, and rounded once. */
DEV_FN union dev_vec dev_multi_load_halves(struct dev_thread *t, uint64_t at, int brain)
{
    float sum[8] = {0};
    union dev_vec vec;
    uint64_t member;
    for (uint32_t nth = 0; (member = dev_host_member(t, at, nth)) != 0; nth++) {
        vec = dev_load_vec(member);
        for (uint32_t e = 0; e < 8; e++) {
            float term = brain ? dev_from_bf16(vec.u16[e]) : dev_from_f16(vec.u16[e]);
            sum[e] = nth ? sum[e] + term : term;
        }
    }
    for (uint32_t e = 0; e < 8; e++)
        vec.u16[e] = brain ? dev_to_bf16(sum[e]) : dev_to_f16(sum[e]);
    return vec;
}

DEV_FN union dev_vec dev_multi_load_vec(struct dev_thread *t, uint64_t at, uint32_t op)
{
    uint64_t member;
    if (op == DEV_MULTI_ADD_F16 || op == DEV_MULTI_ADD_BF16)
        return dev_multi_load_halves(t, at, op == DEV_MULTI_ADD_BF16);
    union dev_vec vec = dev_load_vec(dev_host_member(t, at, 0));
    for (uint32_t nth = 1; (member = dev_host_member(t, at, nth)) != 0; nth++) {
        union dev_vec more = dev_load_vec(member);
        dev_multi_fold_vec(&vec, &more, op);
    }
    return vec;
}

#endif

#if defined(DEV_MULTI)

DEV_FN uint32_t dev_multi_op(uint32_t dtype, uint32_t op, uint32_t divisor)
{
    int sum = op == DEV_OP_SUM || op == DEV_OP_AVG;
    /* Halves are rounded when they are loaded: a division would round again. */
    if (dtype == 2)
        return sum && !divisor ? DEV_MULTI_ADD_F16 : DEV_MULTI_NONE;
    if (dtype == 3)
        return sum && !divisor ? DEV_MULTI_ADD_BF16 : DEV_MULTI_NONE;
    return dev_memory_op(dtype, sum ? DEV_OP_SUM : op);
}

DEV_FN union dev_vec dev_multi_divide(const struct dev_thread *t, union dev_vec vec,
                                      uint32_t divisor)
{
    switch (t->block->call.dtype) {
#define X(dtype, type, member, each)                                                               \
    case dtype:                                                                                    \
        DEV_UNROLL                                                                                 \
        for (uint32_t e = 0; e < each; e++)                                                        \
            vec.member[e] = type(vec.member[e], divisor);                                          \
        break;
        X(0, DEV_DIV_F32, f32, 4)
        X(1, DEV_DIV_F64, f64, 2)
        X(6, DEV_DIV_I32, i32, 4)
        X(7, DEV_DIV_U, u32, 4)
        X(8, DEV_DIV_I64, i64, 2)
        X(9, DEV_DIV_U, u64, 2)
#undef X
    default:
        break;
    }
    return vec;
}

/* The address by which the switch reaches the operands' one place on every rank; 0: there is none,
 * as some rank has it elsewhere, or not in the memory that is bound, or a rank is not one of the
 * group. */
DEV_FN uint64_t dev_multi_at(const struct dev_thread *t, const struct dev_operand *operands,
                             uint32_t count, uint64_t own, uint64_t bytes)
{
    const struct dev_operand *mine = &operands[t->block->rank.rank];
    uint64_t base =
        mine->place == DEV_SLOT ? t->block->rank.multicast : t->block->rank.multicast_window;
    uint64_t bound = mine->place == DEV_SLOT ? t->block->peers[t->block->rank.rank].arena
                                             : t->block->peers[t->block->rank.rank].window;
    uint64_t room = t->block->rank.multicast_bytes;
    if (count != t->block->rank.nranks || !base || bytes > room || own - bound > room - bytes)
        return 0;
    DEV_ROLLED
    for (uint32_t r = 0; mine->place != DEV_SLOT && r < count; r++) {
        int is_out = mine->place != DEV_SHARED_IN;
        if (dev_board_word(t, r, is_out) != dev_board_word(t, t->block->rank.rank, is_out))
            return 0;
    }
    return base + (own - bound);
}

/* 1: the switch has done the step; all of it, or none. */
DEV_FN int dev_multi_step(struct dev_thread *t, const struct dev_step *step,
                          const struct dev_fold *f, uint64_t count)
{
    int loads = (step->flags & DEV_GROUP_LOAD) != 0, stores = (step->flags & DEV_GROUP_STORE) != 0;
    uint64_t from = 0, to = 0, bytes = count * t->block->elem_bytes;
    uint32_t op = loads ? dev_multi_op(t->block->call.dtype, f->op, f->divisor) : DEV_MULTI_NONE;
    if ((!loads && !stores) || (loads && op == DEV_MULTI_NONE))
        return 0;
    if (loads)
        from = dev_multi_at(t, f->operands, f->nsrc, t->block->src[t->block->rank.rank], bytes);
    if (stores)
        to = dev_multi_at(t, f->operands + f->nsrc, f->ndst, t->block->dst[t->block->rank.rank],
                          bytes);
    if ((loads && !from) || (stores && !to) || ((from | to | bytes) & 15u) ||
        (!loads && t->block->src[0] % 16) || (!stores && (f->ndst != 1 || t->block->dst[0] % 16)))
        return 0;
    dev_multi_behind();
    DEV_ROLLED
    for (uint64_t at = 16ull * t->tid; at < bytes; at += 16ull * t->threads) {
        union dev_vec vec =
            loads ? dev_multi_load_vec(t, from + at, op) : dev_load_vec(t->block->src[0] + at);
        if (f->divisor)
            vec = dev_multi_divide(t, vec, f->divisor);
        if (stores)
            dev_multi_store_vec(t, to + at, vec);
        else
            dev_store_vec(t->block->dst[0] + at, vec);
    }
    dev_multi_behind();
    return 1;
}

#else

DEV_FN int dev_multi_step(struct dev_thread *t, const struct dev_step *step,
                          const struct dev_fold *f, uint64_t count)
{
    (void)t;
    (void)step;
    (void)f;
    (void)count;
    return 0;
}

#endif
#endif
