/* SPDX-License-Identifier: Apache-2.0 */
/* One set of kernels: included by the file of each instruction set, which names it. */
#include "kern.h"
#include "kern_half.h"

#include <stdalign.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(PEAL_OPENMP_SIMD)
#define KERN_SIMD _Pragma("omp simd")
#else
#define KERN_SIMD
#endif
#define KERN_PIECE ((size_t)128)

/* The thread sanitizer judges atomics; it takes vector accesses to packets for races. */
#if defined(__SANITIZE_THREAD__)
#define KERN_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KERN_TSAN 1
#endif
#endif

#define EACH_1(M) M(0)
#define EACH_2(M) EACH_1(M) M(1)
#define EACH_3(M) EACH_2(M) M(2)
#define EACH_4(M) EACH_3(M) M(3)
#define EACH_8(M) EACH_4(M) M(4) M(5) M(6) M(7)
#define DECLARE_SRC(j) const T *const s##j = (const T *)(const void *)src[j];
#define DECLARE_DST(j) T *const d##j = (T *)(void *)dst[j];
#define STORE_DST(j) d##j[i] = value;
#define STREAM_DST(j) stream_line((char *)(d##j + at), line);
#define SUM_2 (s0[i] + s1[i])
#define SUM_3 (SUM_2 + s2[i])
#define SUM_4 (SUM_3 + s3[i])
#define SUM_8 ((((SUM_4 + s4[i]) + s5[i]) + s6[i]) + s7[i])

/* ---- stores around the caches, ordered before what follows by stream_end */

static inline void stream_line(char *dst, const void *line)
{
#if defined(__AVX512F__)
    _mm512_stream_si512((void *)dst, _mm512_loadu_si512(line));
#elif defined(__AVX2__)
    const __m256i *from = line;
    _mm256_stream_si256((__m256i *)(void *)dst, _mm256_loadu_si256(from));
    _mm256_stream_si256((__m256i *)(void *)dst + 1, _mm256_loadu_si256(from + 1));
#elif defined(__SSE2__)
    const __m128i *from = line;
    for (int i = 0; i < 4; i++)
        _mm_stream_si128((__m128i *)(void *)dst + i, _mm_loadu_si128(from + i));
#else
    memcpy(dst, line, 64);
#endif
}

static inline void stream_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

static int on_lines(char *const *dst, unsigned ndst)
{
    uintptr_t bits = 0;
    for (unsigned i = 0; i < ndst; i++)
        bits |= (uintptr_t)dst[i];
    return bits % 64 == 0;
}

static inline void put_piece(char *dst, const void *piece, int streams)
{
    const char *from = piece;
    if (streams) {
        for (size_t i = 0; i < KERN_PIECE; i += 64)
            stream_line(dst + i, from + i);
    } else {
        memcpy(dst, from, KERN_PIECE);
    }
}

/* Processors read ahead by pages: several at once are what keeps them busy. Two that each copied
 * 8 MiB of the other's took 620 us line behind line and 470 so, through the caches 600; eight ranks
 * on them exchanged blocks of 8 MiB in 28 ms, and in 24 (Intel Emerald Rapids, a virtual machine).
 */
#define STREAM_PAGE 4096u
#define STREAM_PAGES 4u

static inline void stream_pages(char *dst, const char *src)
{
    for (size_t line = 0; line < STREAM_PAGE; line += 128)
        for (size_t at = line; at < STREAM_PAGES * STREAM_PAGE; at += STREAM_PAGE) {
            stream_line(dst + at, src + at);
            stream_line(dst + at + 64, src + at + 64);
        }
}

static void stream(char *dst, const char *src, size_t bytes)
{
    const size_t most = STREAM_PAGES * STREAM_PAGE;
    size_t head = (size_t)(-(uintptr_t)dst & 63u);
    if (bytes >= head + 64) {
        memcpy(dst, src, head);
        dst += head;
        src += head;
        bytes -= head;
        for (; bytes >= most; bytes -= most, dst += most, src += most)
            stream_pages(dst, src);
        for (; bytes >= 64; bytes -= 64, dst += 64, src += 64)
            stream_line(dst, src);
        stream_end();
    }
    memcpy(dst, src, bytes);
}

/* ---- floats: NaN if either is; -0 below +0, so that the order does not matter */

static inline float min_f32(float a, float b)
{
    float equal = kern_from_bits(kern_to_bits(a) | kern_to_bits(b));
    float ordered = a < b ? a : b < a ? b : equal;
    return a != a || b != b ? kern_from_bits(0x7fc00000u) : ordered;
}

static inline float max_f32(float a, float b)
{
    float equal = kern_from_bits(kern_to_bits(a) & kern_to_bits(b));
    float ordered = a > b ? a : b > a ? b : equal;
    return a != a || b != b ? kern_from_bits(0x7fc00000u) : ordered;
}

static inline double min_f64(double a, double b)
{
    union kern_f64 x = {.value = a};
    union kern_f64 y = {.value = b};
    union kern_f64 equal = {.bits = x.bits | y.bits};
    union kern_f64 nan = {.bits = 0x7ff8000000000000u};
    double ordered = a < b ? a : b < a ? b : equal.value;
    return a != a || b != b ? nan.value : ordered;
}

static inline double max_f64(double a, double b)
{
    union kern_f64 x = {.value = a};
    union kern_f64 y = {.value = b};
    union kern_f64 equal = {.bits = x.bits & y.bits};
    union kern_f64 nan = {.bits = 0x7ff8000000000000u};
    double ordered = a > b ? a : b > a ? b : equal.value;
    return a != a || b != b ? nan.value : ordered;
}

#define SAME(a) (a)

#define TYPE f32
#define T float
#define ACC float
#define LOAD SAME
#define STORE SAME
#define SUM(a, b) ((a) + (b))
#define PROD(a, b) ((a) * (b))
#define MIN min_f32
#define MAX max_f32
#define DIV(a, n) ((a) / (float)(n))
#define KERN_TYPE_SHAPES
#include "kern_fold.h"

#define TYPE f64
#define T double
#define ACC double
#define LOAD SAME
#define STORE SAME
#define SUM(a, b) ((a) + (b))
#define PROD(a, b) ((a) * (b))
#define MIN min_f64
#define MAX max_f64
#define DIV(a, n) ((a) / (double)(n))
#define KERN_TYPE_SHAPES
#include "kern_fold.h"

#if defined(__F16C__)
static inline void f16_load(float *acc, const uint16_t *src, size_t count)
{
    size_t whole = count - count % 16;
    for (size_t i = 0; i < whole; i += 16) {
#if defined(__AVX512F__)
        _mm512_storeu_ps(acc + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(src + i))));
#else
        _mm256_storeu_ps(acc + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(src + i))));
        _mm256_storeu_ps(acc + i + 8,
                         _mm256_cvtph_ps(_mm_loadu_si128((const void *)(src + i + 8))));
#endif
    }
    for (size_t i = whole; i < count; i++)
        acc[i] = kern_from_f16(src[i]);
}

static inline void f16_store(uint16_t *dst, const float *acc, size_t count)
{
    size_t whole = count - count % 16;
    for (size_t i = 0; i < whole; i += 16) {
#if defined(__AVX512F__)
        _mm256_storeu_si256((void *)(dst + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(acc + i), _MM_FROUND_TO_NEAREST_INT));
#else
        for (size_t j = i; j < i + 16; j += 8)
            _mm_storeu_si128((void *)(dst + j),
                             _mm256_cvtps_ph(_mm256_loadu_ps(acc + j), _MM_FROUND_TO_NEAREST_INT));
#endif
    }
    for (size_t i = whole; i < count; i++)
        dst[i] = kern_to_f16(acc[i]);
}
#define LOAD_BLOCK f16_load
#define STORE_BLOCK f16_store
#endif
#define TYPE f16
#define T uint16_t
#define ACC float
#define LOAD kern_from_f16
#define STORE kern_to_f16
#define SUM(a, b) ((a) + (b))
#define PROD(a, b) ((a) * (b))
#define MIN min_f32
#define MAX max_f32
#define DIV(a, n) ((a) / (float)(n))
#include "kern_fold.h"

#define TYPE bf16
#define T uint16_t
#define ACC float
#define LOAD kern_from_bf16
#define STORE kern_to_bf16
#define SUM(a, b) ((a) + (b))
#define PROD(a, b) ((a) * (b))
#define MIN min_f32
#define MAX max_f32
#define DIV(a, n) ((a) / (float)(n))
#include "kern_fold.h"

/* ---- integers: sums and products in an unsigned type at least as wide as int, where they
 * wrap; divisions in a type that holds both the value and the divisor. */

#define LESSER(a, b) ((a) < (b) ? (a) : (b))
#define GREATER(a, b) ((a) > (b) ? (a) : (b))
#define MODULO(S, U, a, op, b) ((S)(U)((U)(a)op(U)(b)))

#define TYPE i8
#define T int8_t
#define ACC int8_t
#define LOAD SAME
#define STORE SAME
#define SUM(a, b) ((int8_t)(uint8_t)((unsigned)(uint8_t)(a) + (unsigned)(uint8_t)(b)))
#define PROD(a, b) ((int8_t)(uint8_t)((unsigned)(uint8_t)(a) * (unsigned)(uint8_t)(b)))
#define MIN LESSER
#define MAX GREATER
#define DIV(a, n) ((int8_t)((int32_t)(a) / (int32_t)(n)))
#include "kern_fold.h"

#define TYPE u8
#define T uint8_t
#define ACC uint8_t
#define LOAD SAME
#define STORE SAME
#define SUM(a, b) ((uint8_t)((unsigned)(a) + (unsigned)(b)))
#define PROD(a, b) ((uint8_t)((unsigned)(a) * (unsigned)(b)))
#define MIN LESSER
#define MAX GREATER
#define DIV(a, n) ((uint8_t)((uint32_t)(a) / (n)))
#include "kern_fold.h"

#define TYPE i32
#define T int32_t
#define ACC int32_t
#define LOAD SAME
#define STORE SAME
#define SUM(a, b) MODULO(int32_t, uint32_t, a, +, b)
#define PROD(a, b) MODULO(int32_t, uint32_t, a, *, b)
#define MIN LESSER
#define MAX GREATER
#define DIV(a, n) ((a) / (int32_t)(n))
#include "kern_fold.h"

#define TYPE u32
#define T uint32_t
#define ACC uint32_t
#define LOAD SAME
#define STORE SAME
#define SUM(a, b) ((a) + (b))
#define PROD(a, b) ((a) * (b))
#define MIN LESSER
#define MAX GREATER
#define DIV(a, n) ((a) / (n))
#include "kern_fold.h"

#define TYPE i64
#define T int64_t
#define ACC int64_t
#define LOAD SAME
#define STORE SAME
#define SUM(a, b) MODULO(int64_t, uint64_t, a, +, b)
#define PROD(a, b) MODULO(int64_t, uint64_t, a, *, b)
#define MIN LESSER
#define MAX GREATER
#define DIV(a, n) ((a) / (int64_t)(n))
#include "kern_fold.h"

#define TYPE u64
#define T uint64_t
#define ACC uint64_t
#define LOAD SAME
#define STORE SAME
#define SUM(a, b) ((a) + (b))
#define PROD(a, b) ((a) * (b))
#define MIN LESSER
#define MAX GREATER
#define DIV(a, n) ((a) / (uint64_t)(n))
#include "kern_fold.h"

/* ---- packets. Wider accesses are vectors of aligned words of eight bytes: that such a word
 * is read and written whole is all that is assumed of them. */

static size_t pack_wide(kern_word *words, const char *src, size_t bytes, uint32_t stamp)
{
    size_t at = 0;
#if defined(__AVX512F__) && !defined(KERN_TSAN)
    __m512i stamps = _mm512_set1_epi64((int64_t)((uint64_t)stamp << 32));
    for (; at + 32 <= bytes; at += 32) {
        __m512i data = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)(src + at)));
        _mm512_storeu_si512((void *)(words + at / 4), _mm512_or_si512(data, stamps));
    }
#elif defined(__AVX2__) && !defined(KERN_TSAN)
    __m256i stamps = _mm256_set1_epi64x((int64_t)((uint64_t)stamp << 32));
    for (; at + 16 <= bytes; at += 16) {
        __m256i data = _mm256_cvtepu32_epi64(_mm_loadu_si128((const void *)(src + at)));
        _mm256_storeu_si256((void *)(words + at / 4), _mm256_or_si256(data, stamps));
    }
#else
    (void)words;
    (void)src;
    (void)bytes;
    (void)stamp;
#endif
    return at;
}

static void pack(kern_word *words, const char *src, size_t bytes, uint32_t stamp)
{
    for (size_t at = pack_wide(words, src, bytes, stamp); at < bytes; at += 4) {
        uint32_t data = 0;
        if (bytes - at >= 4)
            memcpy(&data, src + at, 4);
        else
            memcpy(&data, src + at, bytes - at);
        atomic_store_explicit(words + at / 4, (uint64_t)stamp << 32 | data, memory_order_release);
    }
}

/* Bytes unpacked; SIZE_MAX: a word is missing. */
static size_t unpack_wide(char *dst, const kern_word *words, size_t bytes, uint32_t stamp)
{
    size_t at = 0;
#if defined(__AVX512F__) && !defined(KERN_TSAN)
    __m512i stamps = _mm512_set1_epi32((int32_t)stamp);
    for (; at + 32 <= bytes; at += 32) {
        __m512i word = _mm512_loadu_si512((const void *)(words + at / 4));
        if ((_mm512_cmpeq_epi32_mask(word, stamps) & 0xaaaau) != 0xaaaau)
            return SIZE_MAX;
        _mm256_storeu_si256((void *)(dst + at), _mm512_cvtepi64_epi32(word));
    }
    atomic_signal_fence(memory_order_acquire);
#elif defined(__AVX2__) && !defined(KERN_TSAN)
    __m256i stamps = _mm256_set1_epi32((int32_t)stamp);
    __m256i low = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    for (; at + 16 <= bytes; at += 16) {
        __m256i word = _mm256_loadu_si256((const void *)(words + at / 4));
        int equal = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(word, stamps)));
        if ((equal & 0xaa) != 0xaa)
            return SIZE_MAX;
        __m256i data = _mm256_permutevar8x32_epi32(word, low);
        _mm_storeu_si128((void *)(dst + at), _mm256_castsi256_si128(data));
    }
    atomic_signal_fence(memory_order_acquire);
#else
    (void)dst;
    (void)words;
    (void)bytes;
    (void)stamp;
#endif
    return at;
}

static int unpack(char *dst, const kern_word *words, size_t bytes, uint32_t stamp)
{
    size_t at = unpack_wide(dst, words, bytes, stamp);
    if (at == SIZE_MAX)
        return 0;
    for (; at < bytes; at += 4) {
        uint64_t word = atomic_load_explicit(words + at / 4, memory_order_acquire);
        if (word >> 32 != stamp)
            return 0;
        uint32_t data = (uint32_t)word;
        if (bytes - at >= 4)
            memcpy(dst + at, &data, 4);
        else
            memcpy(dst + at, &data, bytes - at);
    }
    return 1;
}

/* ---- the table */

#define ANY_SHAPE(f)                                                                               \
    {                                                                                              \
        f, f, f, f, f, f, f, f, f                                                                  \
    }
#define PLAIN(type)                                                                                \
    {                                                                                              \
        ANY_SHAPE(type##_sum), ANY_SHAPE(type##_prod), ANY_SHAPE(type##_min),                      \
            ANY_SHAPE(type##_max)                                                                  \
    }
#define SHAPED(type)                                                                               \
    {                                                                                              \
        {type##_sum,     type##_sum_2_1, type##_sum_2_2, type##_sum_3_1, type##_sum_3_3,           \
         type##_sum_4_1, type##_sum_4_4, type##_sum_8_1, type##_sum_8_8},                          \
            ANY_SHAPE(type##_prod), ANY_SHAPE(type##_min), ANY_SHAPE(type##_max)                   \
    }

#define STREAMED(type)                                                                             \
    {                                                                                              \
        ANY_SHAPE(type##_sum_stream), ANY_SHAPE(type##_prod_stream), ANY_SHAPE(type##_min_stream), \
            ANY_SHAPE(type##_max_stream)                                                           \
    }
#define SHAPED_STREAMED(type)                                                                      \
    {                                                                                              \
        {type##_sum_stream,     type##_sum_2_1_stream, type##_sum_2_2_stream,                      \
         type##_sum_3_1_stream, type##_sum_3_3_stream, type##_sum_4_1_stream,                      \
         type##_sum_4_4_stream, type##_sum_8_1_stream, type##_sum_8_8_stream},                     \
            ANY_SHAPE(type##_prod_stream), ANY_SHAPE(type##_min_stream),                           \
            ANY_SHAPE(type##_max_stream)                                                           \
    }

static const struct kern_set set = {
    .name = KERN_NAME,
    .fold =
        {
            [PEAL_FLOAT32] = SHAPED(f32),
            [PEAL_FLOAT64] = SHAPED(f64),
            [PEAL_FLOAT16] = PLAIN(f16),
            [PEAL_BFLOAT16] = PLAIN(bf16),
            [PEAL_INT8] = PLAIN(i8),
            [PEAL_UINT8] = PLAIN(u8),
            [PEAL_INT32] = PLAIN(i32),
            [PEAL_UINT32] = PLAIN(u32),
            [PEAL_INT64] = PLAIN(i64),
            [PEAL_UINT64] = PLAIN(u64),
        },
    .fold_stream =
        {
            [PEAL_FLOAT32] = SHAPED_STREAMED(f32),
            [PEAL_FLOAT64] = SHAPED_STREAMED(f64),
            [PEAL_FLOAT16] = STREAMED(f16),
            [PEAL_BFLOAT16] = STREAMED(bf16),
            [PEAL_INT8] = STREAMED(i8),
            [PEAL_UINT8] = STREAMED(u8),
            [PEAL_INT32] = STREAMED(i32),
            [PEAL_UINT32] = STREAMED(u32),
            [PEAL_INT64] = STREAMED(i64),
            [PEAL_UINT64] = STREAMED(u64),
        },
    .stream = stream,
    .pack = pack,
    .unpack = unpack,
};

const struct kern_set *KERN_SET(void)
{
    return &set;
}
