/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Template of the folds of one element type, included once for each. Expects:
 *   TYPE        name used in identifiers
 *   T           what lies in memory
 *   ACC         what it accumulates in
 *   LOAD, STORE conversions between them
 *   SUM, PROD, MIN, MAX (a, b) on ACC;  DIV(a, n) on ACC and uint32_t
 *   LOAD_BLOCK  optional: a function of its own for a block's conversion, and STORE_BLOCK
 * An accumulator of one block lies on the stack: the compiler knows that nothing aliases it,
 * whatever the destinations are, and it stays in the first cache.
 */
#define CAT_(a, b, c) a##b##c
#define CAT(a, b, c) CAT_(a, b, c)
#define NAME(what) CAT(TYPE, _, what)

#ifndef LOAD_BLOCK
static inline void NAME(load)(ACC *acc, const T *src, size_t count)
{
    KERN_SIMD
    for (size_t i = 0; i < count; i++)
        acc[i] = LOAD(src[i]);
}

static inline void NAME(store)(T *dst, const ACC *acc, size_t count)
{
    KERN_SIMD
    for (size_t i = 0; i < count; i++)
        dst[i] = STORE(acc[i]);
}
#define LOAD_BLOCK NAME(load)
#define STORE_BLOCK NAME(store)
#endif

static void NAME(divide)(ACC *acc, size_t count, uint32_t divisor)
{
    KERN_SIMD
    for (size_t i = 0; i < count; i++)
        acc[i] = DIV(acc[i], divisor);
}

/* acc op= src, through a block of converted elements where a conversion is a loop anyway. */
#define FOLD(op, OP)                                                                               \
    static inline void NAME(op##_into)(ACC * acc, const T *src, size_t count)                      \
    {                                                                                              \
        ACC other[KERN_BLOCK];                                                                     \
        LOAD_BLOCK(other, src, count);                                                             \
        KERN_SIMD                                                                                  \
        for (size_t i = 0; i < count; i++)                                                         \
            acc[i] = OP(acc[i], other[i]);                                                         \
    }                                                                                              \
    static void NAME(op)(char *const *dst, unsigned ndst, const char *const *src, unsigned nsrc,   \
                         size_t count, uint32_t divisor)                                           \
    {                                                                                              \
        ACC acc[KERN_BLOCK];                                                                       \
        for (size_t at = 0; at < count; at += KERN_BLOCK) {                                        \
            size_t n = count - at < KERN_BLOCK ? count - at : KERN_BLOCK;                          \
            LOAD_BLOCK(acc, (const T *)(const void *)src[0] + at, n);                              \
            for (unsigned j = 1; j < nsrc; j++)                                                    \
                NAME(op##_into)(acc, (const T *)(const void *)src[j] + at, n);                     \
            if (divisor)                                                                           \
                NAME(divide)(acc, n, divisor);                                                     \
            for (unsigned j = 0; j < ndst; j++)                                                    \
                STORE_BLOCK((T *)(void *)dst[j] + at, acc, n);                                     \
        }                                                                                          \
    }
FOLD(sum, SUM)
FOLD(prod, PROD)
FOLD(min, MIN)
FOLD(max, MAX)
#undef FOLD

#ifdef KERN_TYPE_SHAPES
/* One loop with everything in registers. */
#define SHAPE(index, k, m)                                                                         \
    static void NAME(sum_##k##_##m)(char *const *dst, unsigned ndst, const char *const *src,       \
                                    unsigned nsrc, size_t count, uint32_t divisor)                 \
    {                                                                                              \
        (void)ndst;                                                                                \
        (void)nsrc;                                                                                \
        (void)divisor;                                                                             \
        EACH_##k(DECLARE_SRC) EACH_##m(DECLARE_DST) KERN_SIMD for (size_t i = 0; i < count; i++)   \
        {                                                                                          \
            const T value = SUM_##k;                                                               \
            EACH_##m(STORE_DST)                                                                    \
        }                                                                                          \
    }
KERN_SHAPES(SHAPE)
#undef SHAPE
#undef KERN_TYPE_SHAPES
#endif

#undef LOAD_BLOCK
#undef STORE_BLOCK
#undef NAME
#undef CAT
#undef CAT_
#undef TYPE
#undef T
#undef ACC
#undef LOAD
#undef STORE
#undef SUM
#undef PROD
#undef MIN
#undef MAX
#undef DIV
