/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of every instruction set that this processor has: the same bits from all, and those
 * of an independent reference. */
#include "test_run.h"
#include "test_suite.h"

#include "kern.h"

#include <check.h>
#include <stdalign.h>

#define SOURCES_MAX 9u
#define COUNT_MAX 1100u

static uint64_t random_state = 88172645463325252u;

static uint64_t draw(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static const struct kern_set *const *all_sets(void)
{
    static const struct kern_set *sets[4];
    unsigned n = 0;
    sets[n++] = kern_set_base();
#if defined(__x86_64__)
    if (kern_set_avx2() && __builtin_cpu_supports("avx2"))
        sets[n++] = kern_set_avx2();
    if (kern_select() != sets[0] && kern_select() != kern_set_avx2())
        sets[n++] = kern_select();
#endif
    sets[n] = NULL;
    return sets;
}

struct bench {
    alignas(64) char src[SOURCES_MAX][COUNT_MAX * 8 + 64];
    alignas(64) char dst[SOURCES_MAX][COUNT_MAX * 8 + 64];
    const char *from[SOURCES_MAX];
    char *to[SOURCES_MAX];
};

/* Buffers `skew` elements off a line. */
static struct bench *bench_make(size_t skew)
{
    static struct bench bench;
    for (unsigned i = 0; i < SOURCES_MAX; i++) {
        memset(bench.dst[i], 0x5a, sizeof bench.dst[i]);
        bench.from[i] = bench.src[i] + skew;
        bench.to[i] = bench.dst[i] + skew;
    }
    return &bench;
}

static const unsigned shapes[][2] = {{1, 1}, {2, 1}, {2, 2}, {3, 1}, {3, 3}, {4, 1}, {4, 4},
                                     {5, 2}, {8, 1}, {8, 8}, {9, 1}, {2, 3}, {6, 6}};
static const size_t counts[] = {0, 1, 2, 7, 15, 16, 17, 63, 64, 100, 511, 512, 513, 1031};
#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

/* ---- against the reference */

static void check_exact(const struct kern_set *set, peal_dtype dtype, peal_op op, unsigned k,
                        unsigned m, size_t count, int streams)
{
    size_t elem = peal_dtype_size(dtype);
    struct bench *bench = bench_make(streams && count % 2 ? 0 : count % 3 * elem);
    for (unsigned r = 0; r < k; r++)
        fill_input((char *)(uintptr_t)bench->from[r], k, r, count, dtype, op, 3);
    unsigned shape = op == PEAL_AVG ? 0 : kern_shape(k, m);
    peal_op folded = op == PEAL_AVG ? PEAL_SUM : op;
    kern_fold_fn fold = (streams ? set->fold_stream : set->fold)[dtype][folded][shape];
    fold(bench->to, m, bench->from, k, count, op == PEAL_AVG ? k : 0);
    for (unsigned j = 0; j < m; j++) {
        size_t wrong = first_wrong(bench->to[j], k, count, dtype, op, 3);
        const unsigned char *behind = (const unsigned char *)bench->to[j] + count * elem;
        if (wrong == count && behind[0] == 0x5a && behind[15] == 0x5a)
            continue;
        ck_abort_msg("%s %s %s %s %u -> %u: element %zu of %zu, or behind the end", set->name,
                     streams ? "stream" : "", peal_dtype_name(dtype), peal_op_name(op), k, m, wrong,
                     count);
    }
}

START_TEST(folds_agree_with_the_reference)
{
    for (const struct kern_set *const *set = all_sets(); *set; set++)
        for (int o = 0; o < PEAL_OP_COUNT; o++)
            for (size_t s = 0; s < 2 * COUNT_OF(shapes); s++)
                for (size_t c = 0; c < COUNT_OF(counts); c++)
                    check_exact(*set, (peal_dtype)_i, (peal_op)o, shapes[s / 2][0],
                                shapes[s / 2][1], counts[c], s % 2);
}
END_TEST

/* A destination may be one of the sources. */
START_TEST(folds_into_a_source)
{
    for (const struct kern_set *const *set = all_sets(); *set; set++) {
        for (unsigned k = 1; k <= SOURCES_MAX; k++) {
            struct bench *bench = bench_make(0);
            for (unsigned r = 0; r < k; r++) {
                fill_input((char *)(uintptr_t)bench->from[r], k, r, 1031, PEAL_FLOAT32, PEAL_SUM,
                           1);
                bench->to[r] = bench->src[k - 1 - r];
            }
            (*set)->fold[PEAL_FLOAT32][PEAL_SUM][kern_shape(k, k)](bench->to, k, bench->from, k,
                                                                   1031, 0);
            for (unsigned r = 0; r < k; r++)
                ck_assert_uint_eq(first_wrong(bench->src[r], k, 1031, PEAL_FLOAT32, PEAL_SUM, 1),
                                  1031);
        }
    }
}
END_TEST

/* ---- any bits: all sets alike */

static int is_nan(peal_dtype dtype, const char *element)
{
    float f;
    double d;
    uint16_t h;
    switch (dtype) {
    case PEAL_FLOAT32:
        memcpy(&f, element, sizeof f);
        return f != f;
    case PEAL_FLOAT64:
        memcpy(&d, element, sizeof d);
        return d != d;
    default:
        memcpy(&h, element, sizeof h);
        return dtype == PEAL_FLOAT16 ? (h & 0x7fff) > 0x7c00 : (h & 0x7fff) > 0x7f80;
    }
}

/* Many infinities, zeros of both signs and NaNs among the random bits. */
static void fill_odd(char *buffer, peal_dtype dtype, size_t count)
{
    static const double odd[] = {0.0, -0.0, INFINITY, -INFINITY, 1, -1};
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = draw();
        size_t elem = peal_dtype_size(dtype);
        float f = (float)odd[bits % 6];
        uint16_t top[2];
        memcpy(top, &f, sizeof f);
        memcpy(buffer + i * elem, &bits, elem);
        if (bits >> 62)
            continue;
        if (dtype == PEAL_FLOAT32)
            memcpy(buffer + i * elem, &f, elem);
        if (dtype == PEAL_FLOAT64)
            memcpy(buffer + i * elem, &odd[bits % 6], elem);
        if (dtype == PEAL_BFLOAT16)
            memcpy(buffer + i * elem, &top[1], elem);
    }
}

START_TEST(all_sets_give_the_same_bits)
{
    static char first[COUNT_MAX * 8];
    peal_dtype dtype = (peal_dtype)_i;
    size_t elem = peal_dtype_size(dtype);
    struct bench *bench = bench_make(0);
    for (int round = 0; round < 40; round++) {
        int o = round % KERN_OPS;
        unsigned k = 1 + (unsigned)(draw() % SOURCES_MAX);
        uint32_t divisor = draw() % 2 && o == PEAL_SUM ? 1 + (uint32_t)(draw() % 9) : 0;
        for (unsigned r = 0; r < k; r++)
            fill_odd(bench->src[r], dtype, 1031);
        for (const struct kern_set *const *set = all_sets(); *set; set++) {
            (*set)->fold[dtype][o][divisor ? 0 : kern_shape(k, 1)](bench->to, 1, bench->from, k,
                                                                   1031, divisor);
            if (*set == kern_set_base())
                memcpy(first, bench->to[0], 1031 * elem);
            for (size_t i = 0; i < 1031; i++) {
                const char *a = first + i * elem;
                const char *b = bench->to[0] + i * elem;
                int nans =
                    dtype <= PEAL_BFLOAT16 && o < PEAL_MIN && is_nan(dtype, a) && is_nan(dtype, b);
                if (!nans && memcmp(a, b, elem) != 0)
                    ck_abort_msg("%s %s op %d", (*set)->name, peal_dtype_name(dtype), o);
            }
        }
    }
}
END_TEST

START_TEST(min_and_max_commute_and_keep_nan)
{
    peal_dtype dtype = (peal_dtype)_i;
    size_t elem = peal_dtype_size(dtype);
    struct bench *bench = bench_make(0);
    fill_odd(bench->src[0], dtype, 1031);
    fill_odd(bench->src[1], dtype, 1031);
    const char *swapped[] = {bench->src[1], bench->src[0]};
    for (const struct kern_set *const *set = all_sets(); *set; set++) {
        for (int o = PEAL_MIN; o <= PEAL_MAX; o++) {
            kern_fold_fn fold = (*set)->fold[dtype][o][0];
            fold(bench->to, 1, bench->from, 2, 1031, 0);
            fold(bench->to + 1, 1, swapped, 2, 1031, 0);
            ck_assert_mem_eq(bench->to[0], bench->to[1], 1031 * elem);
            size_t wrong = 0;
            for (size_t i = 0; i < 1031; i++)
                wrong += is_nan(dtype, bench->to[0] + i * elem) !=
                         (is_nan(dtype, bench->src[0] + i * elem) ||
                          is_nan(dtype, bench->src[1] + i * elem));
            ck_assert_uint_eq(wrong, 0);
        }
    }
}
END_TEST

/* ---- 16-bit floats */

/* To nearest, ties to even, from the definition of the format. */
static uint16_t round_half(double value, int mantissa, int bias, int largest)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    int exponent;
    if (magnitude == 0)
        return sign;
    (void)frexp(magnitude, &exponent);
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    double last_place = ldexp(1, exponent - mantissa);
    double rounded = nearbyint(magnitude / last_place) * last_place;
    if (rounded >= ldexp(1, largest + 1))
        return (uint16_t)(sign | (unsigned)(largest + bias + 1) << mantissa);
    (void)frexp(rounded, &exponent);
    exponent = rounded == 0 || exponent - 1 < 1 - bias ? -bias : exponent - 1;
    double fraction =
        exponent == -bias ? rounded * ldexp(1, bias - 1) : rounded * ldexp(1, -exponent) - 1;
    unsigned bits = (unsigned)(exponent + bias) << mantissa;
    return (uint16_t)(sign | (bits + (unsigned)ldexp(fraction, mantissa)));
}

START_TEST(half_sums_are_rounded_once_to_nearest_even)
{
    peal_dtype dtype = _i ? PEAL_BFLOAT16 : PEAL_FLOAT16;
    int mantissa = _i ? 7 : 10;
    int bias = _i ? 127 : 15;
    struct bench *bench = bench_make(0);
    uint16_t(*src)[COUNT_MAX] = calloc(3, sizeof *src);
    uint16_t got[COUNT_MAX];
    char *to = (char *)got;
    const char *from[] = {(char *)src[0], (char *)src[1], (char *)src[2]};
    (void)bench;
    for (int round = 0; round < 400; round++) {
        for (size_t i = 0; i < 1024; i++) {
            src[0][i] = (uint16_t)draw();
            /* Exponents near each other, so that sums are not mere copies. */
            src[1][i] = (uint16_t)(src[0][i] ^ (draw() & 0x83ff));
            src[2][i] = (uint16_t)(draw() % 3 ? src[1][i] ^ (draw() & 0x87ff) : draw());
            for (int j = 0; j < 3; j++)
                if (((src[j][i] >> mantissa) & (2 * bias + 1)) == 2 * bias + 1)
                    src[j][i] &= 0xbfff;
        }
        for (const struct kern_set *const *set = all_sets(); *set; set++) {
            (*set)->fold[dtype][PEAL_SUM][0](&to, 1, from, 3, 1024, 0);
            for (size_t i = 0; i < 1024; i++) {
                float sum = (float)half_value(src[0][i], mantissa, bias) +
                            (float)half_value(src[1][i], mantissa, bias);
                sum += (float)half_value(src[2][i], mantissa, bias);
                uint16_t wanted = round_half((double)sum, mantissa, bias, bias);
                if (got[i] != wanted &&
                    !(isinf(sum) && (got[i] & 0x7fff) == (2 * bias + 1) << mantissa))
                    ck_abort_msg("%s %s: %04x + %04x + %04x is %04x, not %04x", (*set)->name,
                                 peal_dtype_name(dtype), src[0][i], src[1][i], src[2][i], got[i],
                                 wanted);
            }
        }
    }
    free(src);
}
END_TEST

START_TEST(every_half_goes_round)
{
    static uint16_t values[65536];
    static uint16_t back[65536];
    const char *from = (char *)values;
    char *to = (char *)back;
    for (unsigned i = 0; i < 65536; i++)
        values[i] = (uint16_t)i;
    for (const struct kern_set *const *set = all_sets(); *set; set++) {
        for (int d = PEAL_FLOAT16; d <= PEAL_BFLOAT16; d++) {
            unsigned infinity = d == PEAL_FLOAT16 ? 0x7c00 : 0x7f80;
            unsigned quiet = d == PEAL_FLOAT16 ? 0x200 : 0x40;
            (*set)->fold[d][PEAL_SUM][0](&to, 1, &from, 1, 65536, 0);
            unsigned wrong = 0;
            for (unsigned i = 0; i < 65536; i++)
                wrong += back[i] != ((i & 0x7fff) > infinity ? i | quiet : i);
            ck_assert_uint_eq(wrong, 0);
        }
    }
}
END_TEST

/* ---- packets and streams */

START_TEST(packets_go_round_and_wait_for_each_word)
{
    static kern_word words[COUNT_MAX];
    char data[512];
    char back[512];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)draw();
    for (const struct kern_set *const *set = all_sets(); *set; set++) {
        for (size_t bytes = 0; bytes < 300; bytes++) {
            size_t nwords = (bytes + 3) / 4;
            for (size_t i = 0; i <= nwords; i++)
                atomic_store_explicit(&words[i], 77, memory_order_relaxed);
            (*set)->pack(words, data, bytes, 0x80000001u);
            ck_assert_uint_eq(atomic_load(&words[nwords]), 77);
            memset(back, 0, sizeof back);
            ck_assert(bytes == 0 || !(*set)->unpack(back, words, bytes, 0x80000002u));
            ck_assert((*set)->unpack(back, words, bytes, 0x80000001u));
            ck_assert_mem_eq(back, data, bytes);
            ck_assert_int_eq(back[bytes], 0);
            for (size_t i = 0; i < nwords; i++) {
                uint64_t word = atomic_exchange(&words[i], 0);
                ck_assert(!(*set)->unpack(back, words, bytes, 0x80000001u));
                atomic_store(&words[i], word);
            }
        }
    }
}
END_TEST

START_TEST(streams_copy)
{
    struct bench *bench = bench_make(0);
    for (size_t i = 0; i < sizeof bench->src[0]; i++)
        bench->src[0][i] = (char)draw();
    for (const struct kern_set *const *set = all_sets(); *set; set++) {
        for (size_t bytes = 0; bytes < 700; bytes++) {
            size_t skew = bytes % 67;
            memset(bench->dst[0], 0, 1024);
            (*set)->stream(bench->dst[0] + skew, bench->src[0] + bytes % 5, bytes);
            ck_assert_mem_eq(bench->dst[0] + skew, bench->src[0] + bytes % 5, bytes);
            ck_assert_int_eq(bench->dst[0][skew + bytes], 0);
        }
    }
}
END_TEST

/* Long enough for several pages at once, and a rest. */
START_TEST(streams_copy_pages)
{
    enum { MOST = 36000 };
    static char from[MOST + 5], to[MOST + 128];
    static const size_t sizes[] = {16383, 16384, 16385, 16447, 16448, 20481, 32768, 33001, MOST};
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (char)draw();
    for (const struct kern_set *const *set = all_sets(); *set; set++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            size_t bytes = sizes[i], skew = i * 7;
            memset(to, 0, sizeof to);
            (*set)->stream(to + skew, from + i % 5, bytes);
            ck_assert_mem_eq(to + skew, from + i % 5, bytes);
            ck_assert_int_eq(skew ? to[skew - 1] : 0, 0);
            ck_assert_int_eq(to[skew + bytes], 0);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_kernels");
    TCase *tests = tcase_create("kernels");
    tcase_add_loop_test(tests, folds_agree_with_the_reference, 0, PEAL_DTYPE_COUNT);
    tcase_add_test(tests, folds_into_a_source);
    tcase_add_loop_test(tests, all_sets_give_the_same_bits, 0, PEAL_DTYPE_COUNT);
    tcase_add_loop_test(tests, min_and_max_commute_and_keep_nan, 0, PEAL_BFLOAT16 + 1);
    tcase_add_loop_test(tests, half_sums_are_rounded_once_to_nearest_even, 0, 2);
    tcase_add_test(tests, every_half_goes_round);
    tcase_add_test(tests, packets_go_round_and_wait_for_each_word);
    tcase_add_test(tests, streams_copy);
    tcase_add_test(tests, streams_copy_pages);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
