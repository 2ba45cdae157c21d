/* SPDX-License-Identifier: Apache-2.0 */
/* What the vendor libraries read must load, what is missing must be filled and told, what
 * is odd must be warned of. Each file here shows one thing. */
#include "test_topo_help.h"

#include <locale.h>

#define CPU                                                                                        \
    "<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">"
#define GPU(bus, dev)                                                                              \
    "<pci busid=\"" bus "\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">"   \
    "<gpu dev=\"" #dev "\" sm=\"90\" rank=\"" #dev "\" gdr=\"1\">"                                 \
    "<nvlink target=\"0000:05:00.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>"
#define TWO GPU("0000:01:00.0", 0) GPU("0000:02:00.0", 1)
#define SYSTEM(inside) "<system version=\"1\">" CPU inside "</cpu></system>"

/* ---- the text */

START_TEST(double_hyphens_in_comments)
{
    uint32_t line = 0;
    parsed("<!---- a\n -- b ---->\n" SYSTEM(TWO "<!-- fine - here --><!-- x -- y -->"));
    ck_assert_uint_eq(notes_with(1, "double hyphen", &line), 2);
    ck_assert_uint_eq(line, 1);
    ck_assert_uint_eq(about().ranks, 2);
}
END_TEST

START_TEST(attributes_without_a_name)
{
    uint32_t line = 0;
    parsed("<system version=\"1\">\n<cpu numaid=\"0\" =\"\"  =\"\">" TWO "</cpu></system>");
    ck_assert_uint_eq(notes_with(1, "without a name", &line), 2);
    ck_assert_uint_eq(line, 2);
}
END_TEST

START_TEST(attributes_given_twice)
{
    parsed("<system version=\"1\"><cpu numaid=\"3\" numaid=\"4\">" TWO "</cpu></system>");
    ck_assert_uint_eq(notes_with(1, "numaid is given twice", NULL), 1);
    ck_assert_int_eq(rank_at(0).numa, 3);
}
END_TEST

START_TEST(ampersands)
{
    parsed("<system version=\"1\" name=\"a & b &amp; &#99;\">" CPU TWO "</cpu></system>");
    ck_assert_str_eq(about().name, "a _ b & c");
    ck_assert_uint_eq(notes_with(1, "bare '&'", NULL), 1);
}
END_TEST

START_TEST(single_quotes_crlf_and_leading_blanks)
{
    parsed("\r\n  <system version='1'>\r\n" CPU TWO "</cpu></system>\r\n");
    ck_assert_uint_eq(about().notes, 0);
    ck_assert_uint_eq(about().ranks, 2);
}
END_TEST

START_TEST(byte_order_mark)
{
    parsed("\xef\xbb\xbf" SYSTEM(TWO));
    ck_assert_uint_eq(about().ranks, 2);
}
END_TEST

START_TEST(commented_out_tags_do_not_move_places)
{
    refused("<system version=\"1\">\n <!-- <cpu> \n <pci/> -->\n  <cpu numaid=\"x\"/></system>", 4,
            3, "expected an integer");
}
END_TEST

/* ---- PCIe */

static double pcie_of(const char *attributes)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "<system version=\"1\">" CPU
                   "<pci busid=\"0000:01:00.0\" class=\"0x030200\" %s><gpu dev=\"0\" rank=\"0\"/>"
                   "</pci></cpu></system>",
                   attributes);
    parsed(text);
    for (uint32_t l = 0; l < about().links; l++) {
        peal_link_info link = {.size = sizeof link};
        ck_assert_int_eq(peal_fabric_link(fabric, l, &link), PEAL_OK);
        if (!strcmp(link.from, "gpu0"))
            return link.beta_gbs;
    }
    return -1;
}

START_TEST(link_speeds_in_all_spellings)
{
    static const struct {
        const char *text;
        double gbs;
    } speeds[] = {
        {"link_speed=\"2.5 GT/s\" link_width=\"16\"", 3},
        {"link_speed=\"2.5 GT/s PCIe\" link_width=\"1\"", 0.1875},
        {"link_speed=\"5 GT/s\" link_width=\"16\"", 6},
        {"link_speed=\"5.0 GT/s PCIe\" link_width=\"8\"", 3},
        {"link_speed=\"8 GT/s\" link_width=\"16\"", 12},
        {"link_speed=\"8.0 GT/s PCIe\" link_width=\"16\"", 12},
        {"link_speed=\"16 GT/s\" link_width=\"16\"", 24},
        {"link_speed=\"16.0 GT/s\" link_width=\"16\"", 24},
        {"link_speed=\"16.0 GT/s PCIe\" link_width=\"\"", 24},
        {"link_speed=\"32 GT/s PCIe/s\" link_width=\"0\"", 48},
        {"link_speed=\"32.0 GT/s PCIe\"", 48},
        {"link_speed=\"64.0 GT/s PCIe\" link_width=\"16\"", 96},
        {"link_speed=\"\" link_width=\"16\"", 12},
        {"link_width=\"8\"", 6},
        {"link_speed=\"\" vendor=\"0x10de\" device=\"0x2330\"", 48},
    };
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++)
        ck_assert_msg(near(pcie_of(speeds[i].text), speeds[i].gbs), "%s: %g", speeds[i].text,
                      pcie_of(speeds[i].text));
    ck_assert(near(pcie_of("link_speed=\"Unknown\""), 12));
    ck_assert_uint_eq(notes_with(1, "not understood", NULL), 1);
}
END_TEST

START_TEST(a_bridge_without_speed_is_as_fast_as_what_is_below)
{
    parsed(SYSTEM("<pci busid=\"0000:09:00.0\" class=\"0x060400\">" TWO "</pci>"));
    ck_assert_uint_eq(notes_with(0, "without link_speed: 1", NULL), 1);
    for (uint32_t l = 0; l < about().links; l++) {
        peal_link_info link = {.size = sizeof link};
        ck_assert_int_eq(peal_fabric_link(fabric, l, &link), PEAL_OK);
        if (link.link_class == PEAL_LINK_PCIE)
            ck_assert(near(link.beta_gbs, 48));
    }
}
END_TEST

START_TEST(slow_bridges_are_suspicious)
{
    uint32_t line = 0;
    parsed("<system version=\"1\">" CPU "\n<pci busid=\"0000:09:00.0\" class=\"0x060400\" "
           "link_speed=\"2.5 GT/s PCIe\" link_width=\"1\">" TWO "</pci></cpu></system>");
    ck_assert_uint_eq(notes_with(1, "has 0.188 GB/s upward and 48 GB/s below", &line), 1);
    ck_assert_uint_eq(line, 2);
}
END_TEST

/* ---- links */

START_TEST(self_targets_are_ignored)
{
    parsed("<system version=\"1\">" CPU
           "<pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"80\" rank=\"0\">\n"
           "<nvlink target=\"0000:01:00.0\" count=\"12\" tclass=\"0x030200\"/></gpu></pci>"
           "<pci busid=\"0000:02:00.0\" class=\"0x030200\"><gpu dev=\"1\" sm=\"80\" rank=\"1\"/>"
           "</pci></cpu></system>");
    uint32_t line = 0;
    ck_assert_uint_eq(notes_with(1, "leads to itself", &line), 1);
    ck_assert_uint_eq(line, 2);
    ck_assert_int_eq(path_of(0, 1).link_class, PEAL_LINK_PCIE);
}
END_TEST

START_TEST(hidden_switches)
{
    static const char *const targets[] = {"fffffff:ffff:ff", "fffffff:ff:ff.0", "0000:c4:00.0"};
    for (size_t i = 0; i < 3; i++) {
        char text[2048];
        char one[512];
        (void)snprintf(one, sizeof one,
                       "<pci busid=\"0000:0%%d:00.0\" class=\"0x030200\"><gpu dev=\"%%d\" "
                       "sm=\"100\" rank=\"%%d\"><nvlink target=\"%s\" count=\"18\" "
                       "tclass=\"0x068000\"/></gpu></pci>",
                       targets[i]);
        int used = snprintf(text, sizeof text, "<system version=\"1\">" CPU);
        for (int g = 0; g < 3; g++) {
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#endif
            used += snprintf(text + used, sizeof text - (size_t)used, one, g + 1, g, g);
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
        }
        (void)snprintf(text + used, sizeof text - (size_t)used, "</cpu></system>");
        parsed(text);
        ck_assert_str_eq(path_of(0, 2).via, "gpu0 > nvs0 > gpu2");
        ck_assert(near(path_of(0, 2).beta_gbs, 900));
        ck_assert_uint_eq(notes_with(0, "does not show", NULL), i < 2);
    }
}
END_TEST

/* A link that only one end lists is wired all the same; a peer outside the file is not. */
START_TEST(one_sided_and_absent_peers)
{
    parsed(
        SYSTEM("<pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"70\" rank=\"0\">"
               "<nvlink target=\"0000:02:00.0\" count=\"2\" tclass=\"0x030200\"/>"
               "<nvlink target=\"0000:07:00.0\" count=\"2\" tclass=\"0x030200\"/></gpu></pci>"
               "<pci busid=\"0000:02:00.0\" class=\"0x030200\"><gpu dev=\"1\" sm=\"70\" "
               "rank=\"1\"/></pci>"));
    ck_assert(near(path_of(0, 1).beta_gbs, 50));
    ck_assert(near(path_of(1, 0).beta_gbs, 50));
    ck_assert_uint_eq(notes_with(1, "taken as wired both ways", NULL), 1);
    ck_assert_uint_eq(notes_with(0, "no such accelerator", NULL), 1);
}
END_TEST

START_TEST(parallel_entries_add_up)
{
    parsed(SYSTEM(
        "<pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"70\" rank=\"0\">"
        "<nvlink target=\"0000:02:00.0\" count=\"1\"/><nvlink target=\"0000:02:00.0\" count=\"1\"/>"
        "</gpu></pci>"
        "<pci busid=\"0000:02:00.0\" class=\"0x030200\"><gpu dev=\"1\" sm=\"70\" rank=\"1\">"
        "<nvlink target=\"0000:01:00.0\" count=\"2\"/></gpu></pci>"));
    ck_assert(near(path_of(0, 1).beta_gbs, 50));
    ck_assert_uint_eq(warnings(), 0);
}
END_TEST

START_TEST(c2c_by_its_own_figures)
{
    parsed("<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\">"
           "<pci busid=\"0009:01:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\">"
           "<gpu dev=\"0\" sm=\"90\" rank=\"0\"><c2c bw=\"45000\" count=\"10\"/></gpu></pci>"
           "</cpu></system>");
    int found = 0;
    for (uint32_t l = 0; l < about().links; l++) {
        peal_link_info link = {.size = sizeof link};
        ck_assert_int_eq(peal_fabric_link(fabric, l, &link), PEAL_OK);
        found += link.link_class == PEAL_LINK_C2C && near(link.beta_gbs, 450);
    }
    ck_assert_int_eq(found, 2);
}
END_TEST

START_TEST(no_links_may_be_said)
{
    parsed(
        SYSTEM("<pci busid=\"0000:01:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\">"
               "<gpu dev=\"0\" sm=\"90\" rank=\"0\"><nvlink count=\"0\"/></gpu></pci>"
               "<pci busid=\"0000:02:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\">"
               "<gpu dev=\"1\" sm=\"90\" rank=\"1\"><nvlink count=\"0\"/></gpu></pci>"));
    ck_assert_int_eq(path_of(0, 1).link_class, PEAL_LINK_PCIE);
    ck_assert_uint_eq(notes_with(0, "lists its NVLinks", NULL), 0);
}
END_TEST

/* ---- devices */

#define BARE(bus, more) "<pci busid=\"" bus "\" class=\"0x030200\" " more "/>"

START_TEST(bare_pci_devices_become_ranks)
{
    parsed(SYSTEM(BARE("0000:01:00.0", "vendor=\"0x10de\" device=\"0x20b0\" link_speed=\"16 GT/s\"")
                      BARE("0000:02:00.0", "vendor=\"0x10de\" device=\"0x20b0\" "
                                           "link_speed=\"16 GT/s\"")));
    ck_assert_uint_eq(about().ranks, 2);
    ck_assert_uint_eq(rank_at(1).arch, 80);
    ck_assert_int_eq(rank_at(1).device, -1);
    ck_assert(near(path_of(0, 1).beta_gbs, 300));
    ck_assert_uint_eq(notes_with(0, "known only by their PCI class: 2", NULL), 1);
    ck_assert_uint_eq(notes_with(0, "all to one NVSwitch", NULL), 1);
}
END_TEST

START_TEST(cards_have_no_links_unless_stated)
{
    parsed(SYSTEM(BARE("0000:01:00.0", "vendor=\"0x10de\" device=\"0x26b9\"")
                      BARE("0000:02:00.0", "vendor=\"0x10de\" device=\"0x26b9\"")));
    ck_assert_uint_eq(rank_at(0).arch, 89);
    ck_assert_int_eq(path_of(0, 1).link_class, PEAL_LINK_PCIE);
}
END_TEST

START_TEST(display_adapters_are_not_accelerators)
{
    parsed(SYSTEM(TWO "<pci busid=\"0000:f0:00.0\" class=\"0x030000\" vendor=\"0x1a03\"/>"));
    ck_assert_uint_eq(about().ranks, 2);
}
END_TEST

START_TEST(unknown_elements_are_skipped)
{
    parsed(SYSTEM(TWO "<gizmo><pci busid=\"zz\"/></gizmo><gizmo/>"));
    ck_assert_uint_eq(notes_with(0, "elements unknown here: 2", NULL), 1);
}
END_TEST

START_TEST(ranks_follow_rank_then_device_then_document)
{
#define ONE(bus, attributes)                                                                       \
    "<pci busid=\"" bus "\" class=\"0x030200\"><gpu sm=\"80\" " attributes "/></pci>"
    parsed(SYSTEM(ONE("0000:01:00.0", "dev=\"0\" rank=\"1\"") ONE("0000:02:00.0", "dev=\"1\" "
                                                                                  "rank=\"0\"")));
    ck_assert_str_eq(rank_at(0).busid, "0000:02:00.0");
    parsed(SYSTEM(ONE("0000:01:00.0", "dev=\"1\"") ONE("0000:02:00.0", "dev=\"0\"")));
    ck_assert_str_eq(rank_at(0).busid, "0000:02:00.0");
    ck_assert_uint_eq(notes_with(0, "without rank: 2", NULL), 1);
    parsed(SYSTEM(ONE("0000:01:00.0", "") ONE("0000:02:00.0", "dev=\"0\"")));
    ck_assert_str_eq(rank_at(0).busid, "0000:01:00.0");
    parsed(SYSTEM(ONE("0000:01:00.0", "dev=\"1\" rank=\"4\"") ONE("0000:02:00.0", "dev=\"0\" "
                                                                                  "rank=\"4\"")));
    ck_assert_str_eq(rank_at(0).busid, "0000:02:00.0");
    ck_assert_uint_eq(notes_with(1, "rank attributes are not 0 to 1", NULL), 1);
    parsed(SYSTEM(ONE("0000:01:00.0", "dev=\"-1\"") ONE("0000:02:00.0", "dev=\"0\" rank=\"0\"")));
    ck_assert_uint_eq(about().ranks, 1);
    ck_assert_uint_eq(notes_with(0, "dev=\"-1\"", NULL), 1);
}
END_TEST

START_TEST(numa_may_be_unknown)
{
    parsed("<system version=\"1\"><cpu numaid=\"-1\" arch=\"x86_64\">" TWO "</cpu></system>");
    ck_assert_int_eq(rank_at(0).numa, -1);
    ck_assert_uint_eq(about().notes, 0);
    parsed("<system version=\"1\"><cpu>" TWO "</cpu></system>");
    ck_assert_int_eq(rank_at(0).numa, -1);
    ck_assert_uint_eq(notes_with(1, "without numaid", NULL), 1);
}
END_TEST

START_TEST(amd_counts_compute_units_as_sm)
{
    parsed("<system version=\"2\">" CPU
           "<pci busid=\"0000:01:00.0\" class=\"0x120000\"><gpu dev=\"0\" sm=\"304\" "
           "gcn=\"gfx942\" rank=\"0\"/></pci></cpu></system>");
    ck_assert_str_eq(about().dialect, "rccl");
    ck_assert_uint_eq(rank_at(0).arch, 0);
    ck_assert_str_eq(rank_at(0).model, "gfx942");
}
END_TEST

/* ---- NICs */

#define NET(more) "<net name=\"mlx5_0\" dev=\"0\" " more "/>"
#define CARD(inside)                                                                               \
    "<pci busid=\"0000:0a:00.0\" class=\"0x020700\" link_speed=\"32 GT/s\">" inside "</pci>"

START_TEST(net_speeds)
{
    parsed(SYSTEM(TWO CARD("<nic>" NET("speed=\"400000\"") "</nic>")));
    ck_assert(near(nic_at(0).speed_gbits, 400));
    ck_assert_int_eq(nic_at(0).rdma, 1);
    parsed(SYSTEM(TWO CARD("<nic>" NET("speed=\"0\"") "</nic>")));
    ck_assert(near(nic_at(0).speed_gbits, 10));
    ck_assert_uint_eq(notes_with(0, "without speed: 10 Gb/s", NULL), 1);
    parsed(SYSTEM(TWO CARD("<nic>" NET("speed=\"200000000\"") "</nic>")));
    ck_assert(near(nic_at(0).speed_gbits, 200));
    ck_assert_uint_eq(notes_with(1, "beyond any NIC", NULL), 1);
    parsed(SYSTEM(TWO CARD("")));
    ck_assert(near(nic_at(0).speed_gbits, 400));
    ck_assert_str_eq(nic_at(0).name, "nic0");
    parsed(SYSTEM(TWO CARD("<nic>" NET("net=\"0\"") "</nic>")));
    ck_assert_uint_eq(about().nics, 0);
}
END_TEST

START_TEST(nics_share_ports_and_cards)
{
    parsed(SYSTEM(TWO CARD("<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"200000\" port=\"1\" "
                           "guid=\"0x10\"/><net name=\"mlx5_1\" dev=\"1\" speed=\"200000\" "
                           "port=\"2\" guid=\"0x10\"/></nic>")));
    ck_assert_uint_eq(about().nics, 2);
    ck_assert_uint_eq(warnings(), 0);
    ck_assert_int_ne(rank_at(0).nic, rank_at(1).nic);
    parsed(SYSTEM(TWO "<nic><net name=\"eth0\" dev=\"0\" speed=\"10000\"/></nic>"
                      "<nic><net name=\"eth0\" dev=\"0\" speed=\"10000\"/></nic>"));
    ck_assert_uint_eq(about().nics, 2);
    ck_assert_uint_eq(notes_with(1, "they share its port", NULL), 1);
    ck_assert_int_eq(peal_topo_rank_nic(fabric, 0), peal_topo_rank_nic(fabric, 1));
}
END_TEST

START_TEST(device_numbers_given_twice)
{
    uint32_t line = 0;
    parsed(SYSTEM(TWO "<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"200000\"/>\n"
                      "<net name=\"mlx5_1\" dev=\"0\" speed=\"200000\"/></nic>"));
    ck_assert_uint_eq(about().nics, 2);
    ck_assert_uint_eq(notes_with(1, "<net dev=\"0\"> is that of line 1 too", &line), 1);
    ck_assert_uint_eq(line, 2);
}
END_TEST

START_TEST(hosts_fused_into_one_file)
{
    parsed("<system version=\"1\"><cpu numaid=\"0\" host_hash=\"0x1\" arch=\"arm64\">" TWO
           "</cpu><cpu numaid=\"1\" host_hash=\"0x2\" arch=\"arm64\"/></system>");
    ck_assert_uint_eq(notes_with(1, "several hosts", NULL), 1);
}
END_TEST

START_TEST(stated_rails_count)
{
    parsed(SYSTEM(TWO "<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" rail=\"3\"/>"
                      "<net name=\"mlx5_1\" dev=\"1\" speed=\"400000\" rail=\"1\"/></nic>"));
    ck_assert_int_eq(nic_at(0).rail, 3);
    ck_assert_int_eq(nic_at(1).rail, 1);
}
END_TEST

START_TEST(far_nics_are_suspicious)
{
    uint32_t line = 0;
    parsed("<system version=\"1\">" CPU "\n" TWO "</cpu><cpu numaid=\"1\" arch=\"x86_64\">"
           "<nic>" NET("speed=\"400000\"") "</nic></cpu></system>");
    ck_assert_uint_eq(notes_with(1, "far from its NIC", &line), 2);
    ck_assert_uint_eq(line, 2);
}
END_TEST

/* ---- refusals */

START_TEST(refusals_say_where_and_what)
{
    refused("<system version=\"3\">" CPU TWO "</cpu></system>", 1, 1, "1 (NCCL) or 2 (RCCL)");
    refused("<zoo/>", 1, 1, "expected <system> (NCCL topology) or <peal>");
    refused("<algo/>", 1, 1, "MSCCL");
    refused(SYSTEM(""), 1, 1, "no accelerators");
    refused("<system version=\"1\">\n" CPU "\n  <pci class=\"0x030200\"/></cpu></system>", 3, 3,
            "without busid");
    refused("<system version=\"1\">\n" CPU "\n <pci busid=\"0000:01:0g.0\" class=\"0x030200\"/>"
            "</cpu></system>",
            3, 2, "busid \"0000:01:0g.0\"");
    refused(SYSTEM("\n<pci busid=\"0000:01:00.0\" class=\"0x030200\">\n<gpu dev=\"zero\"/></pci>"),
            3, 1, "expected an integer");
    refused(SYSTEM("<pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu>\n<nvlink/></gpu></pci>"),
            2, 1, "count=");
    refused(SYSTEM("<pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu>\n"
                   "<c2c bw=\"1\"/></gpu></pci>"),
            2, 1, "<c2c>");
    refused(SYSTEM(TWO "\n<nic>\n <net speed=\"fast\"/></nic>"), 3, 2, "expected a number");
}
END_TEST

/* ---- the same everywhere */

START_TEST(numbers_do_not_follow_the_locale)
{
    static const char text[] =
        SYSTEM(TWO "<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"2500.5\" latency=\"1.25\"/></nic>");
    parsed(text);
    uint64_t digest = about().digest;
    ck_assert(near(nic_at(0).speed_gbits, 2.5005));
    if (setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "fr_FR.UTF-8")) {
        parsed(text);
        ck_assert_uint_eq(digest, about().digest);
        setlocale(LC_ALL, "C");
    }
}
END_TEST

START_TEST(digests_follow_the_machine_only)
{
    parsed("<system version=\"1\" name=\"a\">" CPU TWO "</cpu></system>");
    uint64_t digest = about().digest;
    parsed("<!-- b -->\n<system version=\"1\">\n" CPU "\n" TWO "</cpu></system>");
    ck_assert_uint_eq(digest, about().digest);
    parsed("<system version=\"1\">" CPU GPU("0000:01:00.0", 0)
               GPU("0000:03:00.0", 1) "</cpu></system>");
    ck_assert_uint_ne(digest, about().digest);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("topo quirks");
    TCase *tcase = tcase_create("quirks");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, double_hyphens_in_comments);
    tcase_add_test(tcase, attributes_without_a_name);
    tcase_add_test(tcase, attributes_given_twice);
    tcase_add_test(tcase, ampersands);
    tcase_add_test(tcase, single_quotes_crlf_and_leading_blanks);
    tcase_add_test(tcase, byte_order_mark);
    tcase_add_test(tcase, commented_out_tags_do_not_move_places);
    tcase_add_test(tcase, link_speeds_in_all_spellings);
    tcase_add_test(tcase, a_bridge_without_speed_is_as_fast_as_what_is_below);
    tcase_add_test(tcase, slow_bridges_are_suspicious);
    tcase_add_test(tcase, self_targets_are_ignored);
    tcase_add_test(tcase, hidden_switches);
    tcase_add_test(tcase, one_sided_and_absent_peers);
    tcase_add_test(tcase, parallel_entries_add_up);
    tcase_add_test(tcase, c2c_by_its_own_figures);
    tcase_add_test(tcase, no_links_may_be_said);
    tcase_add_test(tcase, bare_pci_devices_become_ranks);
    tcase_add_test(tcase, cards_have_no_links_unless_stated);
    tcase_add_test(tcase, display_adapters_are_not_accelerators);
    tcase_add_test(tcase, unknown_elements_are_skipped);
    tcase_add_test(tcase, ranks_follow_rank_then_device_then_document);
    tcase_add_test(tcase, numa_may_be_unknown);
    tcase_add_test(tcase, amd_counts_compute_units_as_sm);
    tcase_add_test(tcase, net_speeds);
    tcase_add_test(tcase, nics_share_ports_and_cards);
    tcase_add_test(tcase, device_numbers_given_twice);
    tcase_add_test(tcase, hosts_fused_into_one_file);
    tcase_add_test(tcase, stated_rails_count);
    tcase_add_test(tcase, far_nics_are_suspicious);
    tcase_add_test(tcase, refusals_say_where_and_what);
    tcase_add_test(tcase, numbers_do_not_follow_the_locale);
    tcase_add_test(tcase, digests_follow_the_machine_only);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK_GETENV);
}
