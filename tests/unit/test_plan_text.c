/* SPDX-License-Identifier: Apache-2.0 */
/* The text form: round trips, and what it says of text that is wrong. */
#include "test_plan_sample.h"
#include "test_suite.h"

START_TEST(sample_prints_as_it_was_written)
{
    peal_table *table = assemble(SAMPLE);
    struct peal_buf text = printed(table);
    ck_assert_str_eq(text.data, SAMPLE);
    peal_buf_free(&text);
    peal_table_destroy(table);
}
END_TEST

START_TEST(blanks_comments_and_line_ends_do_not_matter)
{
    static const char loose[] =
        "# first\n peal-table\t1 plan allreduce\r\nranks 1 bytes 0 .. 8 # no matter: \"quotes\n"
        "chunks 2 # two\n weights 1\n 1 semaphores 1 algorithm a--b channels 007\n"
        "rank 0 nic \"x\" host 0\n lane body copy c1:in[1]->out [ 1 ]sm wait r0 . 0 lag 1\n"
        "signal r0.0 sm";
    peal_table *table = assemble(loose);
    struct peal_buf text = printed(table);
    ck_assert_str_eq(text.data, "peal-table 1\n"
                                "plan allreduce ranks 1 bytes 0..8\n"
                                "  algorithm a--b\n"
                                "  channels 7\n"
                                "  chunks 2 weights 1 1\n"
                                "  semaphores 1\n"
                                "  rank 0 host 0 nic \"x\"\n"
                                "    lane  # 0\n"
                                "      body\n"
                                "        copy c1: in[1] -> out[1] sm\n"
                                "        wait r0.0 lag 1\n"
                                "        signal r0.0 sm\n");
    peal_table *again = assemble(text.data);
    struct peal_buf one = saved(table);
    struct peal_buf two = saved(again);
    ck_assert_uint_eq(one.used, two.used);
    ck_assert_mem_eq(one.data, two.data, one.used);
    peal_buf_free(&one);
    peal_buf_free(&two);
    peal_buf_free(&text);
    peal_table_destroy(table);
    peal_table_destroy(again);
}
END_TEST

/* A wrong text, made of the sample by replacing the first `old`, and what is said of it. */
struct wrong_text {
    const char *old;
    const char *new;
    const char *golden;
};
static const struct wrong_text wrong_texts[] = {
    {"peal-table 1", "peal-table 2",
     "t.s:1:12: a version of the text form that this library does not read; it reads 1"},
    {"peal-table 1", "peel-table 1",
     "t.s:1:1: expected peal-table, found 'peel-table'; did you mean 'peal-table'?"},
    {"plan allreduce", "plan alreduce",
     "t.s:2:6: expected a collective, found 'alreduce'; did you mean 'allreduce'?"},
    {"ranks 2", "ranks 65537",
     "t.s:2:22: expected a number of ranks, at most 65536, found '65537'"},
    {"ranks 2", "ranks 65536", "t.s:2:22: each rank has to be written, and there is at least one"},
    {"ranks 2", "ranks 0", "t.s:2:22: each rank has to be written, and there is at least one"},
    {"r1 -> r0 nvlink", "r2 -> r0 nvlink", "t.s:8:3: a link's rank 2 is not below 2"},
    {"ranks 2", "ranks 3", "t.s:19:1: expected rank, found 'plan'"},
    {"8..1023", "8..1022",
     "t.s:19:1: plan 1 starts at 1024 bytes, not right behind the one before it: 1023"},
    {"plan allreduce ranks 2 bytes 8", "plan barrier ranks 2 bytes 8",
     "t.s:19:1: plan 1 stands before plan 0 by collective, root and peer"},
    {"8..1023", "2000..1023", "t.s:2:1: min bytes is larger than max bytes"},
    {"algorithm oneshot", "algorithm One", "t.s:3:3: algorithm is 1 to 63 of a-z, 0-9 and -"},
    {"  algorithm oneshot\n", "", "t.s:2:1: a plan needs algorithm and chunks before its ranks"},
    {"  channels 1\n", "  chanels 1\n",
     "t.s:4:3: expected a setting of the plan, or rank, found 'chanels'; did you mean "
     "'channels'?"},
    {"  channels 1\n", "  channels 1 channels 1\n", "t.s:4:14: this is given twice"},
    {"chunks 1", "chunks 0", "t.s:5:3: a plan has at least one chunk"},
    {"width 2", "width 0", "t.s:6:3: a region's width, depth and slot are at least 1"},
    {"slot 1024", "slot 4294967297", "t.s:6:3: slot bytes 4294967297 is not below 4294967297"},
    {"nvlink direct", "nvlnk direct",
     "t.s:7:17: expected a link class, found 'nvlnk'; did you mean 'nvlink'?"},
    {"r0 -> r1 nvlink", "r1 -> r1 nvlink", "t.s:7:3: a link runs from a rank to itself"},
    {"\"gpu0 > nvs0 > gpu1\"", "\"gpu0 > \n",
     "t.s:7:39: expected printable ASCII and a closing quote"},
    {"rank 0 host", "rank 1 host", "t.s:9:8: ranks are written in order, from 0"},
    {"arch 90 busid", "arch 90 busi",
     "t.s:9:25: expected host, arch, busid, nic, lane, rank or plan, found 'busi'; did you mean "
     "'busid'?"},
    {"\"mlx5_0\"", "\"mlx5_0123456789012345678\"", "t.s:9:51: this text is too long for its field"},
    {"      body\n", "", "t.s:11:9: expected pre, body or post before the first step, found 'put'"},
    {"      body\n", "      body pre\n",
     "t.s:11:12: expected sections in the order pre, body, post, found 'pre'"},
    {"reduce c0: in", "redcue c0: in",
     "t.s:13:9: expected a step, pre, body, post, lane, rank or plan, found 'redcue'; did you "
     "mean 'reduce'?"},
    {"put c0: in", "put 0: in", "t.s:12:13: expected a chunk, as in c3:, found '0'"},
    {"put c0: in[0]", "put c1: in[0]",
     "t.s:12:9: rank 0 lane 0 step 0 (put): chunk 1 is not below 1"},
    {"in[0] -> r1", "in[1] -> r1", "t.s:12:9: rank 0 lane 0 step 0 (put): chunk 1 is not below 1"},
    {"in[0] -> r1", "in[0] r1", "t.s:12:34: expected ->, found 'sm'"},
    {"in[0] -> r1", "in[x] -> r1", "t.s:12:20: expected an index, found 'x'"},
    {"r1.p0[0]@1", "q1.p0[0]@1", "t.s:12:26: expected in[], out[], sR[] or pR[], found 'q1'"},
    {"r1.p0[0]@1", "r1.p0[0]",
     "t.s:12:9: rank 0 lane 0 step 0 (put): a remote operand has no link"},
    {"r1.p0[0]@1", "r1.p0[0]@0", "t.s:12:34: links are counted from 1"},
    {"r1.p0[0]@1", "r1.p0[0]@3", "t.s:12:9: rank 0 lane 0 step 0 (put): link 3 is not below 3"},
    {"r1.p0[0]@1", "r1.p0[0]@2",
     "t.s:12:9: rank 0 lane 0 step 0 (put): a link does not run from this rank to the one "
     "written"},
    {"r1.p0[0]@1", "p0[0]@1",
     "t.s:12:9: rank 0 lane 0 step 0 (put): an operand of its own rank has a link"},
    {"r1.p0[0]@1", "p0[0]",
     "t.s:12:9: rank 0 lane 0 step 0 (put): put needs a local source and a remote destination"},
    {"r1.p0[0]@1", "r1.p0[2]@1", "t.s:12:9: rank 0 lane 0 step 0 (put): slot 2 is not below 2"},
    {"r1.p0[0]@1", "r1.p1[0]@1", "t.s:12:9: rank 0 lane 0 step 0 (put): region 1 is not below 1"},
    {"r1.p0[0]@1", "r1.s0[0]@1",
     "t.s:12:9: rank 0 lane 0 step 0 (put): a scratch operand names a packet region"},
    {"r1.p0[0]@1", "r1.in[0]@1",
     "t.s:12:9: rank 0 lane 0 step 0 (put): a destination lies in the caller's input"},
    {"@1 sm", "@1 ms", "t.s:12:37: expected an engine, found 'ms'"},
    {"@1 sm", "@1 sm final",
     "t.s:12:9: rank 0 lane 0 step 0 (put): only a reduction has a flag, final"},
    {"@1 sm", "@1 sm e0",
     "t.s:12:40: expected a step, pre, body, post, lane, rank or plan, found 'e0'"},
    {"@1 sm", "@1 ce", "t.s:13:9: expected an event, e0 to e15, found 'reduce'"},
    {"p0[1] -> out[0]", "r1.p0[1]@1 -> out[0]",
     "t.s:13:9: rank 0 lane 0 step 1 (reduce): a link does not run from the rank that is read to "
     "this one"},
    {"in[0] -> r1.p0[0]@1", "in[0]*2 -> r1.p0[0]@1", "t.s:12:22: expected ->, found '*'"},
    {"put c0: in", "put c0*1: in", "t.s:12:16: a span has at least 2 chunks"},
    {"put c0: in", "put c0*x: in", "t.s:12:16: expected a number of chunks, found 'x'"},
    {"put c0: in", "put c0*2+: in", "t.s:12:18: expected chunks from one to the next, found ':'"},
    {"put c0: in", "put c0*2~1: in", "t.s:12:17: slots lie from 2 to 65535 apart"},
    {"put c0: in", "put c0*2~65536: in", "t.s:12:17: slots lie from 2 to 65535 apart"},
    {"put c0: in", "put c0~2: in", "t.s:12:15: expected :, found '~'"},
    {"put c0: in", "put c0+2: in", "t.s:12:15: expected :, found '+'"},
    {"put c0: in", "put c0*2: in",
     "t.s:12:9: rank 0 lane 0 step 0 (put): the last chunk of a span 1 is not below 1"},
    {"c1: s0[0]", "c1*2+0: s0[0]",
     "t.s:39:9: rank 0 lane 0 step 4 (copy): a span of several chunks has a stride, and one chunk "
     "has none"},
    {"tile 262144", "tile 100", "t.s:24:3: tile is not a multiple of 128 bytes"},
    {"tile 262144", "tile 18446744073709551616",
     "t.s:24:8: expected bytes of a tile, found '18446744073709551616'"},
    {"weights 1 2 70000", "weights 1 2 4294967295",
     "t.s:25:3: the sum of the weights 4294967298 is not below 4294967296"},
    {"weights 1 2 70000", "weights 0 2 7", "t.s:25:3: a chunk's weight is at least 1"},
    {"weights 1 2 70000", "weights 1 2",
     "t.s:26:3: expected a weight for each chunk, found 'semaphores'"},
    {"semaphores 2", "semaphores 257", "t.s:26:3: the number of semaphores 257 is not below 257"},
    {"region scratch", "region scrtch",
     "t.s:27:10: expected scratch or packet, found 'scrtch'; did you mean 'scratch'?"},
    {"signal r1.1", "signal r1.2",
     "t.s:34:9: rank 0 lane 0 step 0 (signal): semaphore 2 is not below 2"},
    {"signal r1.1", "signal r2.1",
     "t.s:34:9: rank 0 lane 0 step 0 (signal): peer 2 is not below 2"},
    {"staged after e0", "sm after e0",
     "t.s:37:9: rank 0 lane 0 step 2 (signal): a signal of sm follows no event"},
    {"r1.in[2]@2 -> out[2]", "in[2] -> out[2]",
     "t.s:38:9: rank 0 lane 0 step 3 (get): get needs a remote source and local destinations"},
    {"tma e15", "tma e16", "t.s:38:42: expected an event, e0 to e15, found 'e16'"},
    {"copy c1: s0[0] ->", "copy c1: s0[0] s0[3] ->",
     "t.s:39:9: rank 0 lane 0 step 4 (copy): only reduce has several sources"},
    {"copy c1: s0[0] ->", "copy c1: s0[0] -> r1.s0[0]@1",
     "t.s:39:9: rank 0 lane 0 step 4 (copy): copy has no remote operand"},
    {"-> r1.out[0]@1 sm", "-> r1.out[0]@1 s0[0] sm",
     "t.s:40:9: rank 0 lane 0 step 5 (put_reduce): put_reduce and get_reduce have one "
     "destination"},
    {"lag 2", "lag 65536", "t.s:42:23: expected a lag of at most 65535, found '65536'"},
    {"e0 free", "e0 fre",
     "t.s:47:18: expected free or delivered, found 'fre'; did you mean "
     "'free'?"},
    {"host 3", "host 65536", "t.s:50:3: rank 1: host 65536 is not below 65536"},
};

/* The sample with the first `old` replaced; freed with free. */
static char *replaced(const struct wrong_text *wrong)
{
    const char *at = strstr(SAMPLE, wrong->old);
    ck_assert_msg(at != NULL, "the sample does not hold '%s'", wrong->old);
    size_t before = (size_t)(at - SAMPLE);
    size_t bytes = strlen(SAMPLE) + strlen(wrong->new) + 1;
    char *text = malloc(bytes);
    ck_assert_ptr_nonnull(text);
    memcpy(text, SAMPLE, before);
    strcpy(text + before, wrong->new);
    strcat(text, at + strlen(wrong->old));
    return text;
}

START_TEST(wrong_text_is_named_with_its_place)
{
    const struct wrong_text *wrong = &wrong_texts[_i];
    char *text = replaced(wrong);
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    char said[1024];
    ck_assert_int_ne(peal_table_assemble(ctx, text, strlen(text), "t.s", &diag, &table), PEAL_OK);
    snprintf(said, sizeof said, "%s:%u:%u: %s", diag.path, diag.line, diag.column, diag.text);
    ck_assert_str_eq(said, wrong->golden);
    ck_assert_ptr_null(table);
    free(text);
}
END_TEST

/* Two ranks that copy a span of many chunks, so many times. */
static peal_status prove_copies(uint32_t chunks, uint32_t copies, peal_diag *diag)
{
    size_t room = 1000 + 100 * (size_t)copies;
    char *text = malloc(room);
    peal_table *table = NULL;
    ck_assert_ptr_nonnull(text);
    size_t used = (size_t)snprintf(
        text, room,
        "peal-table 1\nplan allreduce ranks 1 bytes 8..8 algorithm x chunks 1 rank 0\n"
        "plan broadcast ranks 1 bytes 8..4096 algorithm x chunks %u\n"
        "region scratch width %u depth 1 slot 4096\nrank 0 lane body\n",
        chunks, chunks);
    for (uint32_t i = 0; i < copies; i++)
        used +=
            (size_t)snprintf(text + used, room - used, "copy c0*%u: in[0] -> s0[0] sm\n", chunks);
    ck_assert_msg(peal_table_assemble(ctx, text, used, "t.s", diag, &table) == PEAL_OK, "%s",
                  diag->text);
    peal_status status = peal_table_verify(table, NULL, NULL, NULL, diag);
    peal_table_destroy(table);
    free(text);
    return status;
}

/* A small file may ask for hours of proving: it is refused, and the plan named that does. */
START_TEST(what_takes_too_long_to_prove_is_refused)
{
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(prove_copies(100, 50, &diag), PEAL_ERR_UNPROVEN);
    ck_assert_int_eq(prove_copies(60000, 500, &diag), PEAL_ERR_LIMIT);
    ck_assert_str_eq(diag.path, "t.s");
    ck_assert_uint_eq(diag.line, 3);
    ck_assert_msg(strstr(diag.text, "for plan 1, which is too many for its 500 steps"), "%s",
                  diag.text);
}
END_TEST

START_TEST(cut_text_is_refused_unless_a_row_ends_there)
{
    static const char text[] = SAMPLE;
    size_t whole = 0;
    for (size_t bytes = 0; bytes < sizeof text - 1; bytes++) {
        char *copy = malloc(bytes ? bytes : 1); /* so that a read beyond the end is seen */
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, text, bytes);
        peal_table *table = NULL;
        if (peal_table_assemble(ctx, copy, bytes, "t.s", NULL, &table) == PEAL_OK) {
            whole++;
            peal_table_destroy(table);
        }
        free(copy);
    }
    ck_assert_uint_gt(whole, 0);
    ck_assert_uint_lt(whole, 400);
}
END_TEST

START_TEST(odd_bytes_are_refused_or_read)
{
    static const char text[] = SAMPLE;
    char copy[sizeof text];
    for (size_t at = 0; at < sizeof text - 1; at++) {
        for (int byte = 0; byte < 256; byte += 15) {
            memcpy(copy, text, sizeof text);
            copy[at] = (char)byte;
            peal_table *table = NULL;
            if (peal_table_assemble(ctx, copy, sizeof text - 1, "t.s", NULL, &table) == PEAL_OK)
                peal_table_destroy(table);
        }
    }
}
END_TEST

START_TEST(long_lines_are_refused)
{
    size_t bytes = TEXT_LINE_MAX + 20;
    char *text = malloc(bytes);
    ck_assert_ptr_nonnull(text);
    memset(text, ' ', bytes);
    text[3] = '\n';
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    ck_assert_int_eq(peal_table_assemble(ctx, text, bytes, "t.s", &diag, &table), PEAL_ERR_LIMIT);
    ck_assert_uint_eq(diag.line, 2);
    free(text);
}
END_TEST

START_TEST(the_largest_number_goes_round)
{
    peal_table *table = assemble("peal-table 1 plan allreduce ranks 1 bytes 0..8 algorithm x "
                                 "predicted_ps 18446744073709551615 chunks 1 rank 0");
    ck_assert_uint_eq(table->rows[0].plan->time_ps, UINT64_MAX);
    peal_table_destroy(table);
}
END_TEST

START_TEST(many_weights_go_round)
{
    struct peal_buf text;
    peal_buf_init(&text, ctx, 1u << 20);
    peal_buf_str(&text, "peal-table 1 plan allreduce ranks 1 bytes 0..8 algorithm x chunks 1000 "
                        "weights");
    for (unsigned i = 1; i <= 1000; i++)
        peal_buf_fmt(&text, " %u", i * 1000);
    peal_buf_str(&text, " rank 0");
    peal_buf_put(&text, "", 1);
    peal_table *table = assemble(text.data);
    struct peal_buf once = printed(table);
    peal_table *again = assemble(once.data);
    struct peal_buf twice = printed(again);
    ck_assert_str_eq(once.data, twice.data);
    peal_buf_free(&text);
    peal_buf_free(&once);
    peal_buf_free(&twice);
    peal_table_destroy(table);
    peal_table_destroy(again);
}
END_TEST

/* What is printed is never in lines that are refused. */
START_TEST(blocks_of_many_ranks_go_round)
{
    struct peal_buf text;
    peal_buf_init(&text, ctx, 1u << 20);
    peal_buf_str(&text,
                 "peal-table 1 plan custom ranks 12000 bytes 0..8 algorithm x chunks 1 block");
    for (unsigned i = 0; i < 12000; i++)
        peal_buf_fmt(&text, " r%u%c", i, i % 100 ? ' ' : '\n');
    peal_buf_str(&text, "-> r0 r1");
    for (unsigned i = 0; i < 12000; i++)
        peal_buf_fmt(&text, " rank %u%c", i, i % 100 ? ' ' : '\n');
    peal_buf_put(&text, "", 1);
    peal_table *table = assemble(text.data);
    struct peal_buf once = printed(table);
    peal_table *again = assemble(once.data);
    struct peal_buf one = saved(table), two = saved(again);
    ck_assert_uint_eq(one.used, two.used);
    ck_assert_mem_eq(one.data, two.data, one.used);
    peal_buf_free(&one);
    peal_buf_free(&two);
    peal_buf_free(&text);
    peal_buf_free(&once);
    peal_table_destroy(table);
    peal_table_destroy(again);
}
END_TEST

static peal_status assemble_body(peal_ctx *with, void *user)
{
    const char *text = user;
    peal_table *table;
    peal_status status = peal_table_assemble(with, text, strlen(text), "t.s", NULL, &table);
    if (status == PEAL_OK)
        peal_table_destroy(table);
    return status;
}

START_TEST(assembling_survives_every_failed_allocation)
{
    static char text[] = SAMPLE;
    ck_assert_int_eq(test_oom_sweep(assemble_body, text, 0, NULL), 0);
}
END_TEST

static peal_status drop(void *user, const char *data, size_t bytes)
{
    (void)user;
    (void)data;
    return bytes ? PEAL_ERR_IO : PEAL_OK;
}

START_TEST(a_writers_refusal_comes_back)
{
    peal_table *table = assemble(SAMPLE);
    ck_assert_int_eq(peal_table_print(table, drop, NULL, NULL), PEAL_ERR_IO);
    ck_assert_int_eq(peal_table_save(table, drop, NULL, NULL), PEAL_ERR_IO);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan_text");
    TCase *tests = tcase_create("text");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, sample_prints_as_it_was_written);
    tcase_add_test(tests, blanks_comments_and_line_ends_do_not_matter);
    tcase_add_loop_test(tests, wrong_text_is_named_with_its_place, 0,
                        (int)(sizeof wrong_texts / sizeof *wrong_texts));
    tcase_add_test(tests, cut_text_is_refused_unless_a_row_ends_there);
    tcase_add_test(tests, odd_bytes_are_refused_or_read);
    tcase_add_test(tests, long_lines_are_refused);
    tcase_add_test(tests, what_takes_too_long_to_prove_is_refused);
    tcase_add_test(tests, the_largest_number_goes_round);
    tcase_add_test(tests, many_weights_go_round);
    tcase_add_test(tests, blocks_of_many_ranks_go_round);
    tcase_add_test(tests, assembling_survives_every_failed_allocation);
    tcase_add_test(tests, a_writers_refusal_comes_back);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
