/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"
#include "sort.h"
#include "support.h"
#include "test_fixture.h"
#include "test_suite.h"

#include <check.h>
#include <limits.h>
#include <string.h>

/* ---- status */

static const peal_status every_status[] = {
#define X(name, text) name,
#include "status.def"
#undef X
};

START_TEST(statuses_have_names_and_sentences)
{
    for (size_t i = 0; i < sizeof every_status / sizeof *every_status; i++) {
        ck_assert_ptr_nonnull(strstr(peal_status_name(every_status[i]), "PEAL_"));
        ck_assert_str_ne(peal_status_name(every_status[i]), "PEAL_ERR_UNKNOWN");
        ck_assert_uint_gt(strlen(peal_status_text(every_status[i])), 5);
        for (size_t j = 0; j < i; j++)
            ck_assert_str_ne(peal_status_text(every_status[i]), peal_status_text(every_status[j]));
    }
    ck_assert_str_eq(peal_status_name(PEAL_OK), "PEAL_OK");
    ck_assert_str_eq(peal_status_name(PEAL_ERR_PEER), "PEAL_ERR_PEER");
}
END_TEST

START_TEST(unknown_statuses_are_named_so)
{
    ck_assert_str_eq(peal_status_name((peal_status)-1000), "PEAL_ERR_UNKNOWN");
    ck_assert_str_eq(peal_status_name((peal_status)1000), "PEAL_ERR_UNKNOWN");
    ck_assert_ptr_nonnull(peal_status_text((peal_status)-1000));
}
END_TEST

/* ---- diagnostics */

START_TEST(fail_records_and_returns)
{
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_fail(&diag, PEAL_ERR_ARG, "rank %d of %s", 7, "eight"), PEAL_ERR_ARG);
    ck_assert_int_eq(diag.status, PEAL_ERR_ARG);
    ck_assert_str_eq(diag.text, "rank 7 of eight");
    ck_assert_str_eq(diag.path, "");
    ck_assert_uint_eq(diag.line, 0);
    ck_assert_uint_eq(diag.size, sizeof diag);
}
END_TEST

START_TEST(fail_at_has_a_place)
{
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_fail_at(&diag, PEAL_ERR_INPUT, "a.xml", 12, 5, "what"), PEAL_ERR_INPUT);
    ck_assert_str_eq(diag.path, "a.xml");
    ck_assert_uint_eq(diag.line, 12);
    ck_assert_uint_eq(diag.column, 5);
    /* A later failure leaves nothing of an earlier one. */
    ck_assert_int_eq(peal_fail(&diag, PEAL_ERR_IO, "x"), PEAL_ERR_IO);
    ck_assert_str_eq(diag.path, "");
    ck_assert_uint_eq(diag.line, 0);
}
END_TEST

START_TEST(fail_without_a_diag)
{
    ck_assert_int_eq(peal_fail(NULL, PEAL_ERR_ARG, "%s", "nobody hears"), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_fail_at(NULL, PEAL_ERR_IO, NULL, 1, 1, "x"), PEAL_ERR_IO);
}
END_TEST

START_TEST(long_diagnostics_are_cut)
{
    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_fail_at(&diag, PEAL_ERR_IO, longer, 1, 1, "%s", longer), PEAL_ERR_IO);
    ck_assert_uint_eq(strlen(diag.path), sizeof diag.path - 1);
    ck_assert_uint_eq(strlen(diag.text), sizeof diag.text - 1);
}
END_TEST

/* Every size an older or a broken caller may state: nothing is written beyond it, and
 * what is a string there ends. */
START_TEST(diag_of_any_size)
{
    struct {
        peal_diag diag;
        char fence[64];
    } two;
    for (size_t size = 0; size <= sizeof two.diag + 8; size++) {
        memset(&two, 0x5a, sizeof two);
        two.diag.size = size;
        ck_assert_int_eq(peal_fail_at(&two.diag, PEAL_ERR_IO, "path", 3, 4, "text"), PEAL_ERR_IO);
        ck_assert_uint_eq(two.diag.size, size);
        const unsigned char *bytes = (const unsigned char *)&two;
        size_t first = size > sizeof size ? size : sizeof size;
        if (first > sizeof two.diag)
            first = sizeof two.diag;
        for (size_t i = first; i < sizeof two; i++)
            ck_assert_uint_eq(bytes[i], 0x5a);
        if (size > offsetof(peal_diag, path))
            ck_assert_ptr_nonnull(memchr(two.diag.path, 0, size - offsetof(peal_diag, path)));
    }
}
END_TEST

/* ---- context */

START_TEST(a_context_needs_a_place)
{
    ck_assert_int_eq(peal_ctx_create(NULL, NULL), PEAL_ERR_ARG);
}
END_TEST

START_TEST(a_default_context_uses_the_heap)
{
    peal_ctx *plain = NULL;
    ck_assert_int_eq(peal_ctx_create(NULL, &plain), PEAL_OK);
    char *block = peal_alloc(plain, 100);
    ck_assert_ptr_nonnull(block);
    block = peal_realloc(plain, block, 100, 100000);
    ck_assert_ptr_nonnull(block);
    block[99999] = 1;
    peal_free(plain, block, 100000);
    peal_ctx_destroy(plain);
    peal_ctx_destroy(NULL);
}
END_TEST

START_TEST(a_host_without_an_allocator_is_the_heap)
{
    peal_host host = {.size = sizeof host};
    peal_ctx *plain = NULL;
    ck_assert_int_eq(peal_ctx_create(&host, &plain), PEAL_OK);
    peal_ctx_destroy(plain);
    host.size = 0;
    plain = NULL;
    ck_assert_int_eq(peal_ctx_create(&host, &plain), PEAL_ERR_ARG);
    ck_assert_ptr_null(plain);
}
END_TEST

START_TEST(a_context_without_memory)
{
    struct test_heap none = {.fail_at = 1};
    peal_host host = {.size = sizeof host, .user = &none, .realloc_fn = test_heap_realloc};
    peal_ctx *made = NULL;
    ck_assert_int_eq(peal_ctx_create(&host, &made), PEAL_ERR_MEMORY);
    ck_assert_ptr_null(made);
}
END_TEST

START_TEST(version_and_features)
{
    char version[32];
    (void)snprintf(version, sizeof version, "%d.%d.%d", PEAL_VERSION_MAJOR, PEAL_VERSION_MINOR,
                   PEAL_VERSION_PATCH);
    ck_assert_str_eq(peal_version(), version);
    ck_assert_ptr_nonnull(strstr(peal_features(), "host"));
}
END_TEST

/* ---- memory */

START_TEST(zero_bytes_are_a_block)
{
    void *block = peal_alloc(ctx, 0);
    ck_assert_ptr_nonnull(block);
    block = peal_realloc(ctx, block, 0, 50);
    ck_assert_ptr_nonnull(block);
    block = peal_realloc(ctx, block, 50, 0);
    ck_assert_ptr_nonnull(block);
    peal_free(ctx, block, 0);
    peal_free(ctx, NULL, 10);
}
END_TEST

START_TEST(calloc_zeroes_and_checks)
{
    unsigned char *block = peal_calloc(ctx, 30, 7);
    ck_assert_ptr_nonnull(block);
    for (size_t i = 0; i < 210; i++)
        ck_assert_uint_eq(block[i], 0);
    peal_free(ctx, block, 210);
    ck_assert_ptr_null(peal_calloc(ctx, SIZE_MAX / 2, 3));
    ck_assert_ptr_null(peal_calloc(ctx, 3, SIZE_MAX / 2));
}
END_TEST

START_TEST(strdup_and_strfree)
{
    char *copy = peal_strdup(ctx, "h0/gpu3");
    ck_assert_str_eq(copy, "h0/gpu3");
    peal_strfree(ctx, copy);
    peal_strfree(ctx, NULL);
}
END_TEST

START_TEST(a_vector_grows_to_its_limit)
{
    uint64_t *vector = NULL;
    uint32_t capacity = 0;
    for (size_t n = 1; n <= 100; n++) {
        ck_assert_int_eq(peal_grow(ctx, (void **)&vector, &capacity, n, sizeof *vector, 100),
                         PEAL_OK);
        ck_assert_uint_ge(capacity, n);
        ck_assert_uint_le(capacity, 100);
        vector[n - 1] = n;
    }
    ck_assert_int_eq(peal_grow(ctx, (void **)&vector, &capacity, 101, sizeof *vector, 100),
                     PEAL_ERR_LIMIT);
    for (size_t n = 1; n <= 100; n++)
        ck_assert_uint_eq(vector[n - 1], n);
    ck_assert_uint_le(heap.calls, 8); /* doubles */
    peal_free(ctx, vector, capacity * sizeof *vector);
}
END_TEST

START_TEST(growing_past_anything)
{
    void *vector = NULL;
    uint32_t capacity = 0;
    ck_assert_int_eq(peal_grow(ctx, &vector, &capacity, SIZE_MAX, 1, SIZE_MAX), PEAL_ERR_LIMIT);
    ck_assert_int_eq(peal_grow(ctx, &vector, &capacity, UINT32_MAX, SIZE_MAX / 2, SIZE_MAX),
                     PEAL_ERR_LIMIT);
    ck_assert_int_eq(peal_grow(ctx, &vector, &capacity, 0, 8, 0), PEAL_OK);
    ck_assert_ptr_null(vector);
    heap.fail_at = heap.calls + 1;
    ck_assert_int_eq(peal_grow(ctx, &vector, &capacity, 1, 8, 10), PEAL_ERR_MEMORY);
    ck_assert_ptr_null(vector);
    ck_assert_uint_eq(capacity, 0);
}
END_TEST

/* ---- buffers */

START_TEST(a_buffer_collects)
{
    struct peal_buf buf;
    peal_buf_init(&buf, ctx, 100000);
    peal_buf_str(&buf, "rank ");
    peal_buf_fmt(&buf, "%u of %u", 3u, 8u);
    peal_buf_put(&buf, "", 1);
    ck_assert_str_eq(buf.data, "rank 3 of 8");
    ck_assert_uint_eq(buf.used, 12);
    for (int i = 0; i < 2000; i++)
        peal_buf_fmt(&buf, "%04d\n", i);
    ck_assert_int_eq(buf.status, PEAL_OK);
    ck_assert_uint_eq(buf.used, 12 + 5 * 2000);
    ck_assert_int_eq(memcmp(buf.data + buf.used - 5, "1999\n", 5), 0);
    peal_buf_free(&buf);
    ck_assert_uint_eq(buf.used, 0);
    peal_buf_free(&buf);
}
END_TEST

START_TEST(a_formatted_line_of_any_length)
{
    for (int length = 0; length < 1100; length++) {
        struct peal_buf buf;
        peal_buf_init(&buf, ctx, 4096);
        peal_buf_fmt(&buf, "<%*d>", length, 7);
        ck_assert_int_eq(buf.status, PEAL_OK);
        ck_assert_uint_eq(buf.used, (size_t)(length > 1 ? length : 1) + 2);
        ck_assert_int_eq(buf.data[buf.used - 1], '>');
        ck_assert_int_eq(buf.data[buf.used - 2], '7');
        peal_buf_free(&buf);
    }
}
END_TEST

START_TEST(the_limit_is_hard_and_sticks)
{
    struct peal_buf buf;
    peal_buf_init(&buf, ctx, 10);
    peal_buf_str(&buf, "0123456789");
    ck_assert_int_eq(buf.status, PEAL_OK);
    ck_assert_uint_le(buf.capacity, 10);
    peal_buf_put(&buf, "x", 1);
    ck_assert_int_eq(buf.status, PEAL_ERR_LIMIT);
    peal_buf_put(&buf, "", 0);
    peal_buf_fmt(&buf, "%s", "");
    ck_assert_int_eq(buf.status, PEAL_ERR_LIMIT);
    ck_assert_uint_eq(buf.used, 10);
    peal_buf_free(&buf);
    peal_buf_init(&buf, ctx, 10);
    peal_buf_str(&buf, "0123456789a"); /* all or nothing */
    ck_assert_int_eq(buf.status, PEAL_ERR_LIMIT);
    ck_assert_uint_eq(buf.used, 0);
    peal_buf_str(&buf, "a");
    ck_assert_uint_eq(buf.used, 0);
    peal_buf_free(&buf);
}
END_TEST

static peal_status write_much(peal_ctx *given, void *user)
{
    (void)user;
    struct peal_buf buf;
    peal_buf_init(&buf, given, 1 << 20);
    for (int i = 0; i < 50; i++)
        peal_buf_fmt(&buf, "%*d\n", 8 * i, i);
    peal_status status = buf.status;
    peal_buf_free(&buf);
    return status;
}

START_TEST(a_buffer_without_memory)
{
    uint64_t runs;
    ck_assert_int_eq(test_oom_sweep(write_much, NULL, 0, &runs), 0);
    ck_assert_uint_ge(runs, 10);
}
END_TEST

/* ---- structs across versions */

struct params_old {
    size_t size;
    uint32_t a;
    uint32_t b;
};
struct params_new {
    size_t size;
    uint32_t a;
    uint32_t b;
    uint64_t c;
};

START_TEST(import_extends_with_zeroes)
{
    struct params_old old = {sizeof old, 1, 2};
    struct params_new out = {1, 9, 9, 9};
    ck_assert_int_eq(peal_import(&out, sizeof out, &old), PEAL_OK);
    ck_assert_uint_eq(out.size, sizeof out);
    ck_assert_uint_eq(out.a, 1);
    ck_assert_uint_eq(out.b, 2);
    ck_assert_uint_eq(out.c, 0);
}
END_TEST

START_TEST(import_takes_a_longer_one_when_zero)
{
    struct params_new newer = {sizeof newer, 1, 2, 0};
    struct params_old out = {0, 9, 9};
    ck_assert_int_eq(peal_import(&out, sizeof out, &newer), PEAL_OK);
    ck_assert_uint_eq(out.size, sizeof out);
    ck_assert_uint_eq(out.b, 2);
    newer.c = 1;
    struct params_old kept = {7, 8, 9};
    ck_assert_int_eq(peal_import(&kept, sizeof kept, &newer), PEAL_ERR_ARG);
    ck_assert_uint_eq(kept.size, 7);
    ck_assert_uint_eq(kept.a, 8);
}
END_TEST

START_TEST(import_refuses_what_has_no_size)
{
    struct params_old out = {7, 8, 9};
    for (size_t size = 0; size < sizeof(size_t); size++) {
        struct params_old bad = {size, 1, 2};
        ck_assert_int_eq(peal_import(&out, sizeof out, &bad), PEAL_ERR_ARG);
    }
    ck_assert_int_eq(peal_import(&out, sizeof out, NULL), PEAL_ERR_ARG);
    ck_assert_uint_eq(out.a, 8);
}
END_TEST

START_TEST(export_keeps_to_the_callers_size)
{
    struct params_new full = {sizeof full, 1, 2, 3};
    struct params_new out = {sizeof(struct params_old), 9, 9, 9};
    ck_assert_int_eq(peal_export(&out, &full, sizeof full), PEAL_OK);
    ck_assert_uint_eq(out.size, sizeof(struct params_old));
    ck_assert_uint_eq(out.a, 1);
    ck_assert_uint_eq(out.b, 2);
    ck_assert_uint_eq(out.c, 9);
    /* What the library does not know of a newer caller's struct is zero. */
    struct params_old known = {sizeof known, 5, 6};
    out = (struct params_new){sizeof out, 9, 9, 9};
    ck_assert_int_eq(peal_export(&out, &known, sizeof known), PEAL_OK);
    ck_assert_uint_eq(out.size, sizeof out);
    ck_assert_uint_eq(out.a, 5);
    ck_assert_uint_eq(out.c, 0);
    out.size = 3;
    ck_assert_int_eq(peal_export(&out, &full, sizeof full), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_export(NULL, &full, sizeof full), PEAL_ERR_ARG);
}
END_TEST

/* ---- numbers */

START_TEST(products)
{
    size_t product = 7;
    ck_assert_int_eq(peal_mul_overflows(0, SIZE_MAX, &product), 0);
    ck_assert_uint_eq(product, 0);
    ck_assert_int_eq(peal_mul_overflows(SIZE_MAX, 1, &product), 0);
    ck_assert_uint_eq(product, SIZE_MAX);
    ck_assert_int_eq(peal_mul_overflows(SIZE_MAX, 0, &product), 0);
    product = 7;
    ck_assert_int_eq(peal_mul_overflows(SIZE_MAX / 2 + 1, 2, &product), 1);
    ck_assert_uint_eq(product, 7);
}
END_TEST

START_TEST(muldiv_is_exact)
{
    ck_assert_uint_eq(peal_muldiv(100, 1, 3), 33);
    ck_assert_uint_eq(peal_muldiv(100, 3, 3), 100);
    ck_assert_uint_eq(peal_muldiv(100, 0, 3), 0);
    ck_assert_uint_eq(peal_muldiv(UINT64_MAX, UINT32_MAX, UINT32_MAX), UINT64_MAX);
    ck_assert_uint_eq(peal_muldiv(UINT64_MAX, 1, 2), UINT64_MAX / 2);
    /* Against the definition, where it fits. */
    for (uint64_t a = 0; a < 300; a++) {
        for (uint32_t den = 1; den < 40; den++) {
            for (uint32_t num = 0; num <= den; num++)
                ck_assert_uint_eq(peal_muldiv(a, num, den), a * num / den);
        }
    }
    /* Intervals that share a bound leave no byte out: rising in num, ending at a. */
    uint64_t a = UINT64_MAX - 12345;
    uint64_t before = 0;
    for (uint32_t num = 1; num <= 1000; num++) {
        uint64_t bound = peal_muldiv(a, num, 1000);
        ck_assert_uint_ge(bound - before, a / 1000);
        ck_assert_uint_le(bound - before, a / 1000 + 1);
        before = bound;
    }
    ck_assert_uint_eq(before, a);
}
END_TEST

/* ---- hashing: the published test values of XXH3, which every machine must give */

START_TEST(hashes_are_xxh3)
{
    ck_assert_uint_eq(peal_hash64("", 0), 0x2D06800538D394C2u);
    struct peal_hash128 empty = peal_hash128("", 0);
    ck_assert_uint_eq(empty.high, 0x99AA06D3014798D8u);
    ck_assert_uint_eq(empty.low, 0x6001C324468D497Fu);
}
END_TEST

START_TEST(hashes_depend_on_every_byte)
{
    unsigned char data[1024];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 31);
    uint64_t whole = peal_hash64(data, sizeof data);
    struct peal_hash128 wide = peal_hash128(data, sizeof data);
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] ^= 1;
        ck_assert_uint_ne(peal_hash64(data, sizeof data), whole);
        struct peal_hash128 other = peal_hash128(data, sizeof data);
        ck_assert(other.low != wide.low && other.high != wide.high);
        data[i] ^= 1;
    }
    ck_assert_uint_eq(peal_hash64(data, sizeof data), whole);
}
END_TEST

/* ---- text and vocabularies */

START_TEST(text_is_cut_and_ends)
{
    char text[4];
    peal_copy_text(text, sizeof text, "abc");
    ck_assert_str_eq(text, "abc");
    peal_copy_text(text, sizeof text, "abcdef");
    ck_assert_str_eq(text, "abc");
    peal_copy_text(text, sizeof text, "");
    ck_assert_str_eq(text, "");
    peal_copy_text(text, 1, "abc");
    ck_assert_str_eq(text, "");
    text[0] = 'z';
    peal_copy_text(text, 0, "abc");
    ck_assert_int_eq(text[0], 'z');
    ck_assert(peal_streq("a", "a"));
    ck_assert(!peal_streq("a", "ab"));
}
END_TEST

/* Each name reads back to its value, is unlike the others and is as people spell it. */
#define ROUND_TRIP(word, count, first_name)                                                        \
    do {                                                                                           \
        peal_##word out = (peal_##word)0;                                                          \
        for (int i = 0; i < (count); i++) {                                                        \
            const char *name = peal_##word##_name((peal_##word)i);                                 \
            ck_assert_ptr_nonnull(name);                                                           \
            ck_assert_int_eq(peal_##word##_parse(name, &out), PEAL_OK);                            \
            ck_assert_int_eq((int)out, i);                                                         \
        }                                                                                          \
        ck_assert_str_eq(peal_##word##_name((peal_##word)0), first_name);                          \
        ck_assert_ptr_null(peal_##word##_name((peal_##word)(count)));                              \
        ck_assert_ptr_null(peal_##word##_name((peal_##word) - 1));                                 \
        out = (peal_##word)0;                                                                      \
        ck_assert_int_eq(peal_##word##_parse("", &out), PEAL_ERR_ARG);                             \
        ck_assert_int_eq(peal_##word##_parse(NULL, &out), PEAL_ERR_ARG);                           \
        ck_assert_int_eq(peal_##word##_parse("no such name", &out), PEAL_ERR_ARG);                 \
        ck_assert_int_eq((int)out, 0);                                                             \
    } while (0)

START_TEST(names_read_back)
{
    ROUND_TRIP(dtype, PEAL_DTYPE_COUNT, "float32");
    ROUND_TRIP(op, PEAL_OP_COUNT, "sum");
    ROUND_TRIP(collective, PEAL_COLLECTIVE_COUNT, "allreduce");
    ROUND_TRIP(link_class, PEAL_LINK_CLASS_COUNT, "loopback");
    ROUND_TRIP(engine, PEAL_ENGINE_COUNT, "sm");
}
END_TEST

START_TEST(dtype_sizes)
{
    ck_assert_uint_eq(peal_dtype_size(PEAL_FLOAT32), sizeof(float));
    ck_assert_uint_eq(peal_dtype_size(PEAL_FLOAT64), sizeof(double));
    ck_assert_uint_eq(peal_dtype_size(PEAL_BFLOAT16), 2);
    ck_assert_uint_eq(peal_dtype_size(PEAL_UINT8), 1);
    ck_assert_uint_eq(peal_dtype_size(PEAL_INT64), 8);
    ck_assert_uint_eq(peal_dtype_size((peal_dtype)PEAL_DTYPE_COUNT), 0);
    ck_assert_uint_eq(peal_dtype_size((peal_dtype)-1), 0);
}
END_TEST

/* ---- sorting */

#define SORTED_MAX 70u
#define ELEM_MAX 150u

static int first_byte_before(const void *a, const void *b, const void *with)
{
    const int *backwards = with;
    int x = *(const unsigned char *)a, y = *(const unsigned char *)b;
    return *backwards ? x > y : x < y;
}

/* Elements out of order, or torn: all bytes of one but the first say which it is. */
static unsigned wrong_when_sorted(size_t count, size_t bytes, int backwards)
{
    static unsigned char at[SORTED_MAX * ELEM_MAX], key[SORTED_MAX];
    unsigned wrong = 0, seen[SORTED_MAX] = {0};
    for (size_t i = 0; i < count; i++) {
        memset(at + i * bytes, (int)i, bytes);
        key[i] = at[i * bytes] = (unsigned char)(i * 37 % 23);
    }
    peal_sort(at, count, bytes, first_byte_before, &backwards);
    for (size_t i = 0; i < count; i++) {
        const unsigned char *elem = at + i * bytes;
        if (i)
            wrong += (unsigned)first_byte_before(elem, elem - bytes, &backwards);
        if (bytes < 2)
            continue;
        wrong += elem[1] >= count || elem[0] != key[elem[1]] || seen[elem[1]]++;
        for (size_t b = 2; b < bytes; b++)
            wrong += elem[b] != elem[1];
    }
    return wrong;
}

START_TEST(elements_of_any_size_are_sorted)
{
    static const size_t sizes[] = {1, 2, 4, 8, 12, 64, 65, ELEM_MAX};
    unsigned wrong = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t count = 0; count <= SORTED_MAX; count++)
            for (int backwards = 0; backwards < 2; backwards++)
                wrong += wrong_when_sorted(count, sizes[s], backwards);
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

static void add(Suite *suite, const char *name, const TTest *const *tests)
{
    TCase *group = tcase_create(name);
    tcase_add_checked_fixture(group, set_up, tear_down);
    for (; *tests; tests++)
        tcase_add_test(group, *tests);
    suite_add_tcase(suite, group);
}
#define GROUP(name, ...) add(suite, name, (const TTest *const[]){__VA_ARGS__, NULL})

int main(void)
{
    Suite *suite = suite_create("base");
    GROUP("status", statuses_have_names_and_sentences, unknown_statuses_are_named_so);
    GROUP("diag", fail_records_and_returns, fail_at_has_a_place, fail_without_a_diag,
          long_diagnostics_are_cut, diag_of_any_size);
    GROUP("ctx", a_context_needs_a_place, a_default_context_uses_the_heap,
          a_host_without_an_allocator_is_the_heap, a_context_without_memory, version_and_features);
    GROUP("memory", zero_bytes_are_a_block, calloc_zeroes_and_checks, strdup_and_strfree,
          a_vector_grows_to_its_limit, growing_past_anything);
    GROUP("buf", a_buffer_collects, a_formatted_line_of_any_length, the_limit_is_hard_and_sticks,
          a_buffer_without_memory);
    GROUP("import", import_extends_with_zeroes, import_takes_a_longer_one_when_zero,
          import_refuses_what_has_no_size, export_keeps_to_the_callers_size);
    GROUP("num", products, muldiv_is_exact);
    GROUP("hash", hashes_are_xxh3, hashes_depend_on_every_byte);
    GROUP("sort", elements_of_any_size_are_sorted);
    GROUP("text", text_is_cut_and_ends, names_read_back, dtype_sizes);
    return run_suite(suite, CK_FORK_GETENV);
}
