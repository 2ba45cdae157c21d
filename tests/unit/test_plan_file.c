/* SPDX-License-Identifier: Apache-2.0 */
/* The file form: round trips, damage, hostile files. */
#include "test_plan_sample.h"
#include "test_suite.h"

static peal_status load(const void *data, size_t bytes, peal_table **table)
{
    return peal_table_load(ctx, data, bytes, "t.peal", NULL, table);
}

/* A copy that ends where its memory ends, so that a read beyond it is seen. */
static char *exact(const struct peal_buf *buf, size_t bytes)
{
    char *copy = malloc(bytes ? bytes : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, buf->data, bytes);
    return copy;
}

static struct peal_buf sample_file(void)
{
    peal_table *table = assemble(SAMPLE);
    struct peal_buf file = saved(table);
    peal_table_destroy(table);
    return file;
}

static void put_checksum(char *file, size_t bytes)
{
    peal_plan_store64(file + bytes - 8, peal_hash64(file, bytes - 8));
}

START_TEST(saving_what_was_loaded_gives_the_same_bytes)
{
    peal_table *table = assemble(SAMPLE);
    struct peal_buf one = saved(table);
    peal_table *again = NULL;
    ck_assert_int_eq(load(one.data, one.used, &again), PEAL_OK);
    struct peal_buf two = saved(again);
    ck_assert_uint_eq(one.used, two.used);
    ck_assert_mem_eq(one.data, two.data, one.used);
    struct peal_buf text = printed(again);
    ck_assert_str_eq(text.data, SAMPLE);
    for (uint32_t row = 0; row < 2; row++) {
        char id[33];
        char other[33];
        ck_assert_int_eq(peal_table_id(table, row, id), PEAL_OK);
        ck_assert_int_eq(peal_table_id(again, row, other), PEAL_OK);
        ck_assert_str_eq(id, other);
        ck_assert_uint_eq(strlen(id), 32);
    }
    peal_buf_free(&one);
    peal_buf_free(&two);
    peal_buf_free(&text);
    peal_table_destroy(table);
    peal_table_destroy(again);
}
END_TEST

/* The format is frozen byte by byte: a change of it needs another version. */
START_TEST(the_encoding_is_what_the_document_says)
{
    static const unsigned char golden[] = {
        'P',  'E',  'A',  'L', 'P',  'L',  'A', 'N', /* magic */
        2,    0,    0,    0,                         /* version */
        0,    0,    0,    0,                         /* allreduce */
        1,    0,    0,    0,                         /* ranks */
        1,    0,    0,    0,                         /* rows */
        40,   0,    0,    0,   0,    0,    0,   0,
        87,   0,    0,    0,   0,    0,    0,   0, /* the plan: offset, length */
        5,    0,    0,    0,   0,    0,    0,   0,
        0,    0,    0,    0,   0,    0,    0,   0, /* time, bound */
        0x0d, 0,    0,    0,   0,    0,    0,   0,
        0x0a, 0,    0,    0,   0,    0,    0,   0, /* origin, low half first */
        0,                                         /* whole */
        0,    1,    0,    0,                       /* collective, ranks, root, peer */
        8,    0x80, 0x02,                          /* bytes 8..256 */
        4,    'r',  'i',  'n', 'g',  0,    1,   0, /* algorithm, detail, channels, tile */
        2,    1,    1,    3,                       /* chunks 2 weights 1 3 */
        1,                                         /* semaphores */
        1,    2,    3,    1,   0x80, 0x01,         /* region scratch width 3 depth 1 slot 128 */
        0,                                         /* links */
        0,    0,    0,    0,   0,    0,    0,   0,
        20,   0,    0,    0,   0,    0,    0,   0, /* rank 0: offset, length, hash */
    };
    peal_table *table = assemble(
        "peal-table 1 plan allreduce ranks 1 bytes 8..256 algorithm ring channels 1 "
        "predicted_ps 5 origin 000000000000000a000000000000000d chunks 2 weights 1 3 semaphores 1 "
        "region scratch width 3 depth 1 slot 128 rank 0 arch 90 lane "
        "body copy c1: in[1] -> s0[2] tma e4 signal r0.0 tma after e4 wait r0.0 lag 1 "
        "post await e4 free");
    static const unsigned char program[] = {
        0,    90, 0, 0, 1,    0,    3, 1, /* host, arch, busid, nic, lanes; pre, body, post */
        0x10, 4,  1, 1, 0x08, 0x02, 0, 2, /* copy tma: event, chunk, ndst, in own, s0[2] */
        0x96, 0,  0, 4, 0x07, 0,    0, 1, /* signal after e4; wait lag 1 */
        0x08, 4};                         /* await free */
    struct peal_buf file = saved(table);
    size_t index_hash = sizeof golden;
    ck_assert_uint_eq(file.used, index_hash + 8 + sizeof program + 8);
    unsigned char expected[sizeof golden];
    memcpy(expected, golden, sizeof golden);
    peal_plan_store64(expected + 32, file.used - 40 - 8);
    peal_plan_store64(expected + sizeof golden - 8, sizeof program);
    ck_assert_mem_eq(file.data, expected, sizeof expected);
    ck_assert_mem_eq(file.data + index_hash + 8, program, sizeof program);
    ck_assert_uint_eq(peal_plan_load64(file.data + index_hash),
                      peal_hash64(program, sizeof program));
    peal_buf_free(&file);
    peal_table_destroy(table);
}
END_TEST

START_TEST(costs_do_not_change_the_id)
{
    peal_table *table = assemble(SAMPLE);
    struct peal_plan *plan = table->rows[1].plan;
    struct peal_hash128 id = plan->id;
    plan->time_ps++;
    plan->bound_ps = 0;
    ck_assert_int_eq(peal_plan_seal(plan, NULL), PEAL_OK);
    ck_assert(plan->id.low == id.low && plan->id.high == id.high);
    plan->ranks[1].host++;
    ck_assert_int_eq(peal_plan_seal(plan, NULL), PEAL_OK);
    ck_assert(plan->id.low != id.low && plan->id.high != id.high);
    peal_table_destroy(table);
}
END_TEST

START_TEST(every_changed_byte_is_refused)
{
    struct peal_buf file = sample_file();
    for (size_t at = 0; at < file.used; at++) {
        char *copy = exact(&file, file.used);
        for (unsigned change = 1; change < 256; change++) {
            peal_table *table = NULL;
            copy[at] = (char)((unsigned char)file.data[at] ^ change);
            ck_assert_int_ne(load(copy, file.used, &table), PEAL_OK);
            ck_assert_ptr_null(table);
        }
        free(copy);
    }
    peal_buf_free(&file);
}
END_TEST

START_TEST(every_cut_is_refused)
{
    struct peal_buf file = sample_file();
    for (size_t bytes = 0; bytes < file.used; bytes++) {
        for (int sealed = 0; sealed < 2; sealed++) {
            char *copy = exact(&file, bytes);
            if (sealed && bytes >= 8)
                put_checksum(copy, bytes);
            peal_table *table = NULL;
            ck_assert_int_ne(load(copy, bytes, &table), PEAL_OK);
            free(copy);
        }
    }
    peal_buf_free(&file);
}
END_TEST

/* What is accepted in spite of a mutation must be the one encoding of what it says. */
static void check_canonical(const peal_table *table, const char *file, size_t bytes)
{
    struct peal_buf again = saved(table);
    ck_assert_uint_eq(again.used, bytes);
    ck_assert_mem_eq(again.data, file, bytes);
    peal_buf_free(&again);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

START_TEST(mutations_with_a_repaired_checksum_never_crash)
{
    struct peal_buf file = sample_file();
    uint64_t state = (uint64_t)_i + 1;
    for (unsigned round = 0; round < 4000; round++) {
        char *copy = exact(&file, file.used);
        for (uint64_t k = next_random(&state) % 4 + 1; k > 0; k--)
            copy[next_random(&state) % (file.used - 8)] = (char)next_random(&state);
        put_checksum(copy, file.used);
        peal_table *table = NULL;
        if (load(copy, file.used, &table) == PEAL_OK) {
            check_canonical(table, copy, file.used);
            peal_table_destroy(table);
        }
        free(copy);
    }
    peal_buf_free(&file);
}
END_TEST

/* A plan section of one rank whose program is the given bytes, hash and all. */
static peal_status decode_program(const unsigned char *program, size_t bytes, peal_diag *diag)
{
    static const unsigned char head[] = {0, 0, 0,    0, 0,   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0, 0,
                                         0, 0, 0,    0, 0,   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  1, 0,
                                         0, 8, 0x40, 1, 'x', 0, 0, 0, 4, 0, 1, 1, 2, 3, 1, 64, 0};
    unsigned char index[WIRE_RANK_BYTES];
    peal_plan_store64(index, 0);
    peal_plan_store64(index + 8, bytes);
    peal_plan_store64(index + 16, peal_hash64(program, bytes));
    struct peal_buf buf;
    peal_buf_init(&buf, ctx, 1u << 20);
    peal_buf_put(&buf, head, sizeof head);
    peal_buf_put(&buf, index, sizeof index);
    peal_buf_put(&buf, program, bytes);
    char *copy = exact(&buf, buf.used);
    struct peal_plan *plan = NULL;
    peal_status status = peal_plan_decode(ctx, copy, buf.used, "t", diag, &plan);
    if (status == PEAL_OK) {
        struct peal_buf again;
        peal_buf_init(&again, ctx, 1u << 20);
        ck_assert_int_eq(peal_plan_encode(plan, &again), PEAL_OK);
        ck_assert_uint_eq(again.used, buf.used);
        ck_assert_mem_eq(again.data, copy, again.used);
        peal_buf_free(&again);
        struct peal_buf text;
        peal_buf_init(&text, ctx, 1u << 20);
        peal_plan_print(plan, &text);
        ck_assert_int_eq(text.status, PEAL_OK);
        peal_buf_free(&text);
        peal_plan_destroy(plan);
    }
    free(copy);
    peal_buf_free(&buf);
    return status;
}

START_TEST(programs_of_random_bytes_never_crash)
{
    uint64_t state = (uint64_t)_i + 77;
    unsigned accepted = 0;
    for (unsigned round = 0; round < 20000; round++) {
        unsigned char program[32] = {0, 0, 0, 0, 1, 0, 1, 0};
        size_t bytes = 8 + next_random(&state) % 24;
        program[6] = (unsigned char)(next_random(&state) % 3);
        for (size_t i = 8; i < bytes; i++)
            program[i] = (unsigned char)(next_random(&state) % (i % 2 ? 16 : 256));
        accepted += decode_program(program, bytes, NULL) == PEAL_OK;
    }
    ck_assert_uint_gt(accepted, 0);
}
END_TEST

/* Programs that are wrong in one way each, and what is said of them. */
struct wrong_program {
    unsigned char bytes[24];
    size_t count;
    const char *golden;
};
static const struct wrong_program wrong_programs[] = {
    {{0, 0, 0, 0, 0}, 5, ""},
    {{0x80, 0, 0, 0, 0, 0}, 6, "byte 79 of the plan: a number is written longer than needed"},
    {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0},
     11,
     "byte 87 of the plan: a number is larger than 64 bits"},
    {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0},
     11,
     "byte 87 of the plan: a number is larger than 32 bits"},
    {{0, 0, 24, 0, 0}, 5, "byte 80 of the plan: a text is too long"},
    {{0, 0, 2, 'x', 0, 0, 0}, 7, "byte 80 of the plan: a text holds a zero byte"},
    {{0, 0, 1, '"', 0, 0},
     6,
     "rank 0: busid and nic are printable ASCII without quotes, of at most 23 bytes"},
    {{0, 0, 0, 0, 65}, 5, "byte 82 of the plan: a count is beyond its limit"},
    {{0, 0, 0, 0, 1, 0, 0xff, 0xff, 3, 0}, 10, "byte 87 of the plan: a count is beyond the data"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 14, 0, 0}, 11, "byte 88 of the plan: the data ends within a plan"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 9, 0, 0},
     11,
     "rank 0 lane 0 step 0 (tell): only alltoallv has counts"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x08, 0, 0},
     11,
     "byte 87 of the plan: bytes behind a rank's last step"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x08, 16},
     10,
     "rank 0 lane 0 step 0 (await): event 16 is not below 16"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x18, 1},
     10,
     "rank 0 lane 0 step 0 (await): the step has no use for its field engine, which is set"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x87, 0, 0, 0}, 12, "byte 88 of the plan: a step has unknown bits"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x96, 0, 0, 0xff},
     12,
     "byte 89 of the plan: a signal after no event is marked"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x76, 0, 0},
     11,
     "rank 0 lane 0 step 0 (signal): engine 7 is not below 7"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x80, 0, 1, 8, 9},
     13,
     "byte 86 of the plan: a step has unknown bits"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x00, 0, 200, 8, 9},
     13,
     "byte 88 of the plan: a count is beyond the data"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x00, 0, 1, 0x18, 9},
     13,
     "byte 89 of the plan: an operand has unknown bits"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x00, 1, 1, 8, 0, 1},
     14,
     "byte 91 of the plan: an operand's chunk is written "
     "though it is the step's own"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x00, 0, 1, 8, 13, 0},
     14,
     "byte 91 of the plan: a link is beyond the plan's "
     "links"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x00, 0, 0, 8},
     12,
     "rank 0 lane 0 step 0 (copy): a data step needs a source and a destination"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x0f, 4, 1, 0x00, 0, 1, 8, 9}, 16, ""},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x0f, 2, 3, 0x00, 0, 1, 8, 2, 0, 1}, 18, ""},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x8f, 2, 3, 2, 0x00, 0, 1, 8, 2, 0, 0}, 19, ""},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x8f, 2, 3, 1, 0x00, 0, 1, 8, 2, 0, 0},
     19,
     "byte 89 of the plan: slots of a span lie from 2 to 65535 apart"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x8f, 2, 3, 2, 0x00, 0, 1, 8, 2, 0, 1},
     19,
     "rank 0 lane 0 step 0 (copy): slot 3 is not below 3"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x8f, 2, 3, 2, 0x00, 0, 1, 8, 9},
     17,
     "rank 0 lane 0 step 0 (copy): a span without slots skips none"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x0f, 1, 1, 0x00, 0, 1, 8, 9},
     16,
     "byte 88 of the plan: a span is written though it is one chunk"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x0f, 0, 1, 0x00, 0, 1, 8, 9},
     16,
     "byte 88 of the plan: a span is written though it is one chunk"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x0f, 2, 0, 0x00, 0, 1, 8, 9},
     16,
     "rank 0 lane 0 step 0 (copy): a span of several chunks has a stride, and one chunk has none"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x0f, 2, 1, 0x0f, 2, 1, 0, 0},
     16,
     "byte 89 of the plan: an unknown opcode"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x0f, 2, 4, 0x00, 0, 1, 8, 9},
     16,
     "rank 0 lane 0 step 0 (copy): the last chunk of a span 4 is not below 4"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x0f, 2, 2, 0x00, 1, 1, 0, 3, 9},
     17,
     "rank 0 lane 0 step 0 (copy): the last chunk of a span 5 is not below 4"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x0f, 3, 1, 0x00, 0, 1, 8, 2, 0, 1},
     18,
     "rank 0 lane 0 step 0 (copy): slot 3 is not below 3"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x0f, 2, 1, 0x08, 0},
     13,
     "rank 0 lane 0 step 0 (await): the step has no use for its field span, which is set"},
    {{0, 0, 0, 0, 1, 0, 1, 0, 0x0f, 0x80, 0x80, 0x80, 0x80, 0x10, 1, 0x00},
     16,
     "byte 91 of the plan: a number is larger than 32 bits"},
    {{0,    0,    0,    0,    1,    0,    1,    0, 0x0f, 0xff, 0xff, 0xff,
      0xff, 0x0f, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0,    1,    8,    9},
     24,
     "rank 0 lane 0 step 0 (copy): the last chunk of a span 18446744060824649730 is not below 4"},
};

START_TEST(wrong_programs_are_named)
{
    const struct wrong_program *wrong = &wrong_programs[_i];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = decode_program(wrong->bytes, wrong->count, &diag);
    if (wrong->golden[0] == '\0')
        ck_assert_int_eq(status, PEAL_OK);
    else
        ck_assert_int_ne(status, PEAL_OK);
    ck_assert_str_eq(diag.text, wrong->golden);
}
END_TEST

/* Passes on to the counting heap and keeps the largest block asked for. */
static void *watched_realloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    size_t *largest = user;
    if (new_bytes > *largest)
        *largest = new_bytes;
    return test_heap_realloc(&heap, ptr, old_bytes, new_bytes);
}

/* A few bytes that claim to be many: what is asked for stays in proportion. */
START_TEST(small_files_ask_for_little_memory)
{
    struct peal_buf file = sample_file();
    size_t largest = 0;
    peal_host host = {sizeof host, &largest, watched_realloc};
    peal_ctx *watched;
    ck_assert_int_eq(peal_ctx_create(&host, &watched), PEAL_OK);
    for (size_t at = 8; at + 4 < file.used - 8; at++) {
        char *copy = exact(&file, file.used);
        memset(copy + at, 0xff, 4);
        copy[at + 4] = 3;
        put_checksum(copy, file.used);
        peal_table *table = NULL;
        if (peal_table_load(watched, copy, file.used, "t", NULL, &table) == PEAL_OK)
            peal_table_destroy(table);
        ck_assert_uint_lt(largest, 100 * file.used);
        free(copy);
    }
    peal_ctx_destroy(watched);
    peal_buf_free(&file);
}
END_TEST

START_TEST(other_files_are_told_apart)
{
    struct peal_buf file = sample_file();
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_table_load(ctx, "<xml>", 5, "a", &diag, &table), PEAL_ERR_INPUT);
    ck_assert_str_eq(diag.text, "not a peal plan: it does not start with PEALPLAN");
    ck_assert_str_eq(diag.path, "a");
    file.data[8] = 1;
    ck_assert_int_eq(peal_table_load(ctx, file.data, file.used, "a", &diag, &table),
                     PEAL_ERR_UNSUPPORTED);
    ck_assert_str_eq(diag.text, "format version 1, and this library reads version 2");
    file.data[8] = 2;
    file.data[file.used / 2]++;
    ck_assert_int_eq(peal_table_load(ctx, file.data, file.used, "a", &diag, &table),
                     PEAL_ERR_INPUT);
    ck_assert_str_eq(diag.text, "the checksum is wrong: the file is damaged or cut short");
    ck_assert_int_eq(peal_table_load(ctx, NULL, 0, "a", &diag, &table), PEAL_ERR_INPUT);
    peal_buf_free(&file);
}
END_TEST

START_TEST(the_header_names_the_first_collective)
{
    struct peal_buf file = sample_file();
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    file.data[12] = PEAL_BARRIER;
    put_checksum(file.data, file.used);
    ck_assert_int_eq(peal_table_load(ctx, file.data, file.used, "a", &diag, &table),
                     PEAL_ERR_INPUT);
    ck_assert_str_eq(diag.text, "the header names another collective than the first plan");
    peal_buf_free(&file);
}
END_TEST

static peal_status load_body(peal_ctx *with, void *user)
{
    const struct peal_buf *file = user;
    peal_table *table;
    peal_status status = peal_table_load(with, file->data, file->used, "t", NULL, &table);
    if (status != PEAL_OK)
        return status;
    struct peal_buf out;
    peal_buf_init(&out, with, SIZE_MAX);
    status = peal_table_save(table, into_buf, &out, NULL);
    if (status == PEAL_OK)
        status = peal_table_print(table, into_buf, &out, NULL);
    peal_buf_free(&out);
    peal_table_destroy(table);
    return status;
}

START_TEST(loading_survives_every_failed_allocation)
{
    struct peal_buf file = sample_file();
    ck_assert_int_eq(test_oom_sweep(load_body, &file, 0, NULL), 0);
    peal_buf_free(&file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan_file");
    TCase *tests = tcase_create("file");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, saving_what_was_loaded_gives_the_same_bytes);
    tcase_add_test(tests, the_encoding_is_what_the_document_says);
    tcase_add_test(tests, costs_do_not_change_the_id);
    tcase_add_test(tests, every_changed_byte_is_refused);
    tcase_add_test(tests, every_cut_is_refused);
    tcase_add_loop_test(tests, mutations_with_a_repaired_checksum_never_crash, 0, 4);
    tcase_add_loop_test(tests, programs_of_random_bytes_never_crash, 0, 4);
    tcase_add_loop_test(tests, wrong_programs_are_named, 0,
                        (int)(sizeof wrong_programs / sizeof *wrong_programs));
    tcase_add_test(tests, small_files_ask_for_little_memory);
    tcase_add_test(tests, other_files_are_told_apart);
    tcase_add_test(tests, the_header_names_the_first_collective);
    tcase_add_test(tests, loading_survives_every_failed_allocation);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
