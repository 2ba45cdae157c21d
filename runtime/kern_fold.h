/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Template of the folds of one element type, included once for each. Expects:
 *   TYPE        name used in identifiers
 *   T           what lies in memory
 *   ACC         what it accumulates in
 *   LOAD, STORE conversions between them
 *   SUM, PROD, MIN, MAX (a, b) on ACC;  DIV(a, n) on ACC and uint32_t
 *   LOAD_BLOCK  optional: a function of its own for a block's conversion, and STORE_BLOCK
 * The accumulator of a piece is a local array: the compiler knows that nothing aliases it,
 * whatever the destinations are, and keeps most of it in registers.
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

static inline void NAME(divide)(ACC *acc, size_t count, uint32_t divisor)
{
    KERN_SIMD
    for (size_t i = 0; i < count; i++)
        acc[i] = DIV(acc[i], divisor);
}

/* A piece of the message: of `count` elements, which is a constant but for the last one. */
#define PIECE(op, OP)                                                                              \
    static inline void NAME(op##_piece)(T * result, const char *const *src, unsigned nsrc,         \
                                        size_t at, size_t count, uint32_t divisor)                 \
    {                                                                                              \
        ACC acc[KERN_PIECE / sizeof(T)];                                                           \
        ACC other[KERN_PIECE / sizeof(T)];                                                         \
        LOAD_BLOCK(acc, (const T *)(const void *)src[0] + at, count);                              \
        for (unsigned j = 1; j < nsrc; j++) {                                                      \
            LOAD_BLOCK(other, (const T *)(const void *)src[j] + at, count);                        \
            KERN_SIMD                                                                              \
            for (size_t i = 0; i < count; i++)                                                     \
                acc[i] = OP(acc[i], other[i]);                                                     \
        }                                                                                          \
        if (divisor)                                                                               \
            NAME(divide)(acc, count, divisor);                                                     \
        STORE_BLOCK(result, acc, count);                                                           \
    }
PIECE(sum, SUM)
PIECE(prod, PROD)
PIECE(min, MIN)
PIECE(max, MAX)
#undef PIECE

/* Reads and stores are interleaved closely: in bursts of more, each waits for the other. */
#define FOLD(op)                                                                                   \
    static void NAME(op##_any)(char *const *dst, unsigned ndst, const char *const *src,            \
                               unsigned nsrc, size_t count, uint32_t divisor, int streams)         \
    {                                                                                              \
        enum { STEP = KERN_PIECE / sizeof(T) };                                                    \
        alignas(64) T result[STEP];                                                                \
        size_t at = 0;                                                                             \
        for (; at + STEP <= count; at += STEP) {                                                   \
            NAME(op##_piece)(result, src, nsrc, at, STEP, divisor);                                \
            for (unsigned j = 0; j < ndst; j++)                                                    \
                put_piece(dst[j] + at * sizeof(T), result, streams);                               \
        }                                                                                          \
        if (streams)                                                                               \
            stream_end();                                                                          \
        if (at == count)                                                                           \
            return;                                                                                \
        NAME(op##_piece)(result, src, nsrc, at, count - at, divisor);                              \
        for (unsigned j = 0; j < ndst; j++)                                                        \
            memcpy(dst[j] + at * sizeof(T), result, (count - at) * sizeof(T));                     \
    }                                                                                              \
    static void NAME(op)(char *const *dst, unsigned ndst, const char *const *src, unsigned nsrc,   \
                         size_t count, uint32_t divisor)                                           \
    {                                                                                              \
        NAME(op##_any)(dst, ndst, src, nsrc, count, divisor, 0);                                   \
    }                                                                                              \
    static void NAME(op##_stream)(char *const *dst, unsigned ndst, const char *const *src,         \
                                  unsigned nsrc, size_t count, uint32_t divisor)                   \
    {                                                                                              \
        NAME(op##_any)(dst, ndst, src, nsrc, count, divisor, on_lines(dst, ndst));                 \
    }
FOLD(sum)
FOLD(prod)
FOLD(min)
FOLD(max)
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

/* The same line by line, around the caches. */
#define SHAPE(index, k, m)                                                                         \
    static void NAME(sum_##k##_##m##_stream)(char *const *dst, unsigned ndst,                      \
                                             const char *const *src, unsigned nsrc, size_t count,  \
                                             uint32_t divisor)                                     \
    {                                                                                              \
        enum { LINE = 64 / sizeof(T) };                                                            \
        char *rest[KERN_SHAPE_MAX];                                                                \
        const char *left[KERN_SHAPE_MAX];                                                          \
        size_t at = 0;                                                                             \
        EACH_##k(DECLARE_SRC)                                                                      \
            EACH_##m(DECLARE_DST) for (size_t end = on_lines(dst, ndst) ? count : 0;               \
                                       at + LINE <= end; at += LINE)                               \
        {                                                                                          \
            alignas(64) T line[LINE];                                                              \
            KERN_SIMD                                                                              \
            for (size_t i = at; i < at + LINE; i++)                                                \
                line[i - at] = SUM_##k;                                                            \
            EACH_##m(STREAM_DST)                                                                   \
        }                                                                                          \
        stream_end();                                                                              \
        for (unsigned j = 0; j < k; j++)                                                           \
            left[j] = src[j] + at * sizeof(T);                                                     \
        for (unsigned j = 0; j < m; j++)                                                           \
            rest[j] = dst[j] + at * sizeof(T);                                                     \
        NAME(sum_##k##_##m)(rest, ndst, left, nsrc, count - at, divisor);                          \
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
