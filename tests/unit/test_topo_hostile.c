/* SPDX-License-Identifier: Apache-2.0 */
/* Text from strangers: refused with a place, within limits, without a leak, also when memory
 * runs out at any point. */
#include "test_topo_help.h"
#include "topo_text.h"

#include <float.h>

/* Text that grows. */
struct text {
    char *data;
    size_t used;
    size_t room;
};

static void add(struct text *text, const char *what)
{
    size_t bytes = strlen(what);
    if (text->used + bytes + 1 > text->room) {
        text->room = 2 * (text->used + bytes + 1);
        text->data = realloc(text->data, text->room);
        ck_assert_ptr_nonnull(text->data);
    }
    memcpy(text->data + text->used, what, bytes + 1);
    text->used += bytes;
}

static void add_times(struct text *text, size_t times, const char *what)
{
    for (size_t i = 0; i < times; i++)
        add(text, what);
}

static peal_status parse_text(struct text *text)
{
    peal_status status = parse(text->data);
    free(text->data);
    memset(text, 0, sizeof *text);
    return status;
}

#define HEAD "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\">"
#define TAIL "</cpu></system>"

START_TEST(nothing_and_garbage)
{
    refused("", 1, 1, "empty");
    ck_assert_int_eq(parse(" \n "), PEAL_ERR_INPUT);
    ck_assert_uint_ge(diag.line, 1);
    ck_assert_int_eq(parse("hello"), PEAL_ERR_INPUT);
    ck_assert_int_eq(parse("<system"), PEAL_ERR_INPUT);
    ck_assert_int_eq(parse("\xff\xfe<\0s"), PEAL_ERR_INPUT);
    ck_assert_int_eq(peal_fabric_parse(ctx, "<a>\n\0</a>", 9, "n", NULL, &diag, &fabric),
                     PEAL_ERR_INPUT);
    ck_assert_msg(diag.line == 2 && diag.column == 1 && strstr(diag.text, "NUL"), "%u:%u %s",
                  diag.line, diag.column, diag.text);
    ck_assert_int_eq(parse(HEAD "\x80" TAIL), PEAL_ERR_INPUT);
    ck_assert_int_eq(peal_fabric_parse(ctx, NULL, 0, NULL, NULL, NULL, &fabric), PEAL_ERR_INPUT);
    ck_assert_int_eq(peal_fabric_parse(ctx, NULL, 1, NULL, NULL, NULL, &fabric), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_fabric_parse(ctx, "", 0, NULL, NULL, NULL, NULL), PEAL_ERR_ARG);
}
END_TEST

START_TEST(document_types_and_entities)
{
    ck_assert_int_eq(parse("<!DOCTYPE system [<!ENTITY a \"b\"><!ENTITY c \"&a;&a;&a;\">]>"
                           "<system version=\"1\" name=\"&c;\"/>"),
                     PEAL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(diag.text, "document type"));
    ck_assert_uint_eq(diag.line, 1);
    ck_assert_int_eq(parse("<!DOCTYPE system SYSTEM \"http://localhost/a.dtd\"><system/>"),
                     PEAL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(diag.text, "document type"));
    ck_assert_int_eq(parse("<system version=\"1\" name=\"&nope;\"/>"), PEAL_ERR_INPUT);
}
END_TEST

START_TEST(inclusions_are_just_unknown_elements)
{
    ck_assert_int_eq(parse("<system version=\"1\" xmlns:xi=\"http://www.w3.org/2001/XInclude\">"
                           "<xi:include href=\"/etc/passwd\"/></system>"),
                     PEAL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(diag.text, "no accelerators"));
}
END_TEST

START_TEST(deep_nesting)
{
    struct text text = {0};
    add(&text, HEAD);
    add_times(&text, 61, "<pci busid=\"0000:01:00.0\">");
    add(&text, "<pci busid=\"0000:02:00.0\" class=\"0x030200\"/>");
    add_times(&text, 61, "</pci>");
    add(&text, TAIL);
    ck_assert_int_eq(parse_text(&text), PEAL_OK);
    add(&text, HEAD);
    add_times(&text, 100000, "<pci busid=\"0000:01:00.0\">");
    ck_assert_int_eq(parse_text(&text), PEAL_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(diag.text, "deeper than 64"));
    ck_assert_uint_eq(diag.line, 1);
}
END_TEST

START_TEST(long_and_many_attributes)
{
    struct text text = {0};
    add(&text, "<system version=\"1\" name=\"");
    add_times(&text, 8193, "x");
    add(&text, "\"/>");
    ck_assert_int_eq(parse_text(&text), PEAL_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(diag.text, "8192"));
    add(&text, "<system version=\"1\"");
    for (int i = 0; i < 70; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, " a%d=\"\"", i);
        add(&text, name);
    }
    add(&text, "/>");
    ck_assert_int_eq(parse_text(&text), PEAL_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(diag.text, "64 attributes"));
}
END_TEST

START_TEST(many_devices)
{
    struct text text = {0};
    add(&text, HEAD);
    for (int i = 0; i < 513; i++) {
        char pci[96];
        (void)snprintf(pci, sizeof pci, "<pci busid=\"%04x:00:00.0\" class=\"0x030200\"/>", i);
        add(&text, pci);
    }
    add(&text, TAIL);
    ck_assert_int_eq(parse_text(&text), PEAL_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(diag.text, "more than 512 accelerators"));
    add(&text, HEAD "<nic>");
    add_times(&text, 1025, "<net name=\"x\"/>");
    add(&text, "</nic>" TAIL);
    ck_assert_int_eq(parse_text(&text), PEAL_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(diag.text, "NICs"));
    add(&text, HEAD);
    add_times(&text, 5000, "<pci busid=\"0000:01:00.0\"><pci busid=\"0000:01:00.0\"/></pci>");
    add(&text, TAIL);
    ck_assert_int_eq(parse_text(&text), PEAL_ERR_LIMIT);
    add(&text, "<system version=\"1\">");
    add_times(&text, 600, "<cpu numaid=\"0\"/>");
    add(&text, "<cpu><pci busid=\"0000:01:00.0\" class=\"0x030200\"/></cpu></system>");
    ck_assert_int_eq(parse_text(&text), PEAL_ERR_LIMIT);
}
END_TEST

START_TEST(a_full_host_loads)
{
    struct text text = {0};
    add(&text, HEAD);
    for (int i = 0; i < 512; i++) {
        char pci[320];
        (void)snprintf(pci, sizeof pci,
                       "<pci busid=\"%04x:00:00.0\" class=\"0x030200\"><gpu dev=\"%d\" sm=\"100\" "
                       "rank=\"%d\"><nvlink target=\"fffffff:ff:ff.0\" count=\"18\" "
                       "tclass=\"0x068000\"/></gpu></pci>",
                       i, i, 511 - i);
        add(&text, pci);
    }
    add(&text, TAIL);
    ck_assert_int_eq(parse_text(&text), PEAL_OK);
    ck_assert_str_eq(path_of(0, 511).via, "gpu0 > nvs0 > gpu511");
    ck_assert_int_eq(rank_at(0).device, 511);
}
END_TEST

START_TEST(many_notes_are_cut)
{
    struct text text = {0};
    add(&text, HEAD "<pci busid=\"0000:01:00.0\" class=\"0x030200\"/>");
    add_times(&text, 6000, "<!-- a -- b -->");
    add(&text, TAIL);
    ck_assert_int_eq(parse_text(&text), PEAL_OK);
    ck_assert_uint_le(about().notes, 4096);
}
END_TEST

/* ---- cut off anywhere */

static void truncate_everywhere(const char *path)
{
    if (!path)
        return;
    size_t bytes;
    char *text = test_read_file(path, &bytes);
    size_t whole = bytes;
    while (whole && strchr(" \r\n\t", text[whole - 1]))
        whole--;
    for (size_t cut = 0; cut < whole; cut++) {
        peal_fabric *none = NULL;
        /* A copy of just that size, so that reading beyond it is seen. */
        char *piece = malloc(cut ? cut : 1);
        ck_assert_ptr_nonnull(piece);
        memcpy(piece, text, cut);
        ck_assert_int_eq(peal_fabric_parse(ctx, piece, cut, path, NULL, &diag, &none),
                         PEAL_ERR_INPUT);
        ck_assert_ptr_null(none);
        ck_assert_uint_gt(diag.line, 0);
        free(piece);
    }
    free(text);
    ck_assert_int_eq(heap.blocks, 1); /* the context itself */
}

START_TEST(files_cut_off_anywhere)
{
    truncate_everywhere(test_source_path("examples/topologies/slingshot-4gpu.xml"));
    truncate_everywhere(test_source_path("examples/topologies/cluster-h100-2.xml"));
    truncate_everywhere(test_corpus_path("nccl-topo/old_topo_4p1h_bc8570.xml"));
}
END_TEST

/* Each byte turned into each of a few others: an answer, never a crash or a leak. */
START_TEST(files_with_one_wrong_byte)
{
    static const char wrong[] = {'<', '>', '"', '&', '-', '9', '\n', (char)0xc3};
    size_t bytes;
    char *text = test_read_file(test_source_path("examples/topologies/slingshot-4gpu.xml"), &bytes);
    for (size_t at = 0; at < bytes; at++) {
        char kept = text[at];
        peal_fabric *made = NULL;
        text[at] = wrong[at % sizeof wrong];
        peal_status status = peal_fabric_parse(ctx, text, bytes, "x", NULL, &diag, &made);
        ck_assert(status == PEAL_OK || status == PEAL_ERR_INPUT || status == PEAL_ERR_LIMIT);
        peal_fabric_destroy(made);
        text[at] = kept;
    }
    free(text);
}
END_TEST

/* ---- no memory */

static peal_status load_one(peal_ctx *oom_ctx, void *path)
{
    peal_fabric *made = NULL;
    peal_status status = peal_fabric_load(oom_ctx, path, NULL, &made);
    peal_fabric_destroy(made);
    return status;
}

static void sweep(const char *path)
{
    char copy[1024];
    if (!path)
        return;
    (void)snprintf(copy, sizeof copy, "%s", path);
    ck_assert_int_eq(test_oom_sweep(load_one, copy, 0, NULL), 0);
}

START_TEST(memory_may_run_out_anywhere)
{
    sweep(test_source_path("examples/topologies/slingshot-4gpu.xml"));
    sweep(test_source_path("examples/topologies/cluster-h100-2.xml"));
    sweep(test_source_path("examples/topologies/cluster-h100-128.xml"));
    sweep(test_corpus_path("nccl-topo/aws_p5.48xl_full.xml"));
    sweep(test_corpus_path("nccl-topo/mlperf_dell_xe8545_4xa100.xml"));
    sweep(test_corpus_path("nccl-topo/old_topo_4p1h_bc8570.xml"));
}
END_TEST

static peal_status host_one(peal_ctx *oom_ctx, void *user)
{
    peal_fabric *made = NULL;
    peal_status status = peal_fabric_host(oom_ctx, 16, NULL, &made);
    (void)user;
    peal_fabric_destroy(made);
    return status;
}

START_TEST(hosts_may_run_out_of_memory)
{
    ck_assert_int_eq(test_oom_sweep(host_one, NULL, 0, NULL), 0);
}
END_TEST

/* ---- numbers */

START_TEST(numbers_are_whole_or_nothing)
{
    int64_t i;
    uint64_t u;
    double d;
    ck_assert(peal_topo_read_int(" 12 ", &i) && i == 12);
    ck_assert(peal_topo_read_int("-1", &i) && i == -1);
    ck_assert(peal_topo_read_int("0x8f", &i) && i == 143);
    ck_assert(peal_topo_read_int("017", &i) && i == 15);
    ck_assert(peal_topo_read_int("0", &i) && i == 0);
    ck_assert(!peal_topo_read_int("", &i) && !peal_topo_read_int("12x", &i));
    ck_assert(!peal_topo_read_int("08", &i) && !peal_topo_read_int("0x", &i));
    ck_assert(!peal_topo_read_int("99999999999999999999", &i));
    ck_assert(peal_topo_read_hex("0xFf", &u) && u == 255);
    ck_assert(peal_topo_read_hex("ffffffffffffffff", &u) && u == UINT64_MAX);
    ck_assert(!peal_topo_read_hex("10000000000000000", &u) && !peal_topo_read_hex("g", &u));
    ck_assert(peal_topo_read_double("0.000000", &d) && d <= 0 && d >= 0);
    ck_assert(peal_topo_read_double("1.25e2", &d) && near(d, 125));
    ck_assert(peal_topo_read_double("-.5", &d) && near(d, -0.5));
    ck_assert(peal_topo_read_double("1e-30", &d) && d > 0 && d < 1e-29);
    ck_assert(peal_topo_read_double("123456789012345678901234567890", &d) && d > 1.2e29);
    ck_assert(!peal_topo_read_double("1,5", &d) && !peal_topo_read_double(".", &d));
    ck_assert(!peal_topo_read_double("1e", &d) && !peal_topo_read_double("nan", &d));
    ck_assert(!peal_topo_read_double("1e999", &d) && !peal_topo_read_double("inf", &d));
}
END_TEST

START_TEST(bus_ids)
{
    uint64_t bus;
    ck_assert(peal_topo_read_bus("0000:07:00.0", &bus) && bus == 0x07000);
    ck_assert(peal_topo_read_bus("07:00.0", &bus) && bus == 0x07000);
    ck_assert(peal_topo_read_bus("FFFF:ff:01.0", &bus) && bus == 0xffffff010);
    ck_assert(!peal_topo_read_bus("", &bus) && peal_topo_read_bus("0000", &bus));
    ck_assert(!peal_topo_read_bus("07 00", &bus) && !peal_topo_read_bus("${a}", &bus));
    ck_assert(!peal_topo_read_bus("00000000000000000:00", &bus));
    ck_assert(peal_topo_bus_hidden("fffffff:ffff:ff") && peal_topo_bus_hidden("fffffff:ff:ff.0"));
    ck_assert(!peal_topo_bus_hidden("ffff:ff:01.0") && !peal_topo_bus_hidden(""));
}
END_TEST

START_TEST(numbers_as_text)
{
    ck_assert_str_eq(peal_topo_real(450).text, "450");
    ck_assert_str_eq(peal_topo_real(22.5).text, "22.5");
    ck_assert_str_eq(peal_topo_real(0.1875).text, "0.188");
    ck_assert_str_eq(peal_topo_real(0).text, "0");
    ck_assert_str_eq(peal_topo_real(-1.5).text, "-1.5");
    ck_assert_str_eq(peal_topo_real(DBL_MAX).text, "inf");
    char small[4];
    struct topo_text text;
    peal_topo_text_init(&text, small, sizeof small);
    peal_topo_text_put(&text, "abcdef");
    peal_topo_text_u64(&text, 7);
    ck_assert_str_eq(small, "abc");
    peal_topo_text_init(&text, small, 0);
    peal_topo_text_put(&text, "x");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("topo hostile");
    TCase *tcase = tcase_create("hostile");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, nothing_and_garbage);
    tcase_add_test(tcase, document_types_and_entities);
    tcase_add_test(tcase, inclusions_are_just_unknown_elements);
    tcase_add_test(tcase, deep_nesting);
    tcase_add_test(tcase, long_and_many_attributes);
    tcase_add_test(tcase, many_devices);
    tcase_add_test(tcase, a_full_host_loads);
    tcase_add_test(tcase, many_notes_are_cut);
    tcase_add_test(tcase, files_cut_off_anywhere);
    tcase_add_test(tcase, files_with_one_wrong_byte);
    tcase_add_test(tcase, memory_may_run_out_anywhere);
    tcase_add_test(tcase, hosts_may_run_out_of_memory);
    tcase_add_test(tcase, numbers_are_whole_or_nothing);
    tcase_add_test(tcase, bus_ids);
    tcase_add_test(tcase, numbers_as_text);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK_GETENV);
}
