/* SPDX-License-Identifier: Apache-2.0 */
/* peal cluster XML: the reader against its grammar, hosts and networks, the writer, diff. */
#include "base.h"
#include "network.h"
#include "test_topo_help.h"

#include <libxml/relaxng.h>
#include <time.h>
#include <unistd.h>

#define H100 "<host topology=\"dgx-h100.xml\" count=\"4\"/>"

/* References are read below the examples; nothing else may be. */
static peal_status parse_here(const char *text)
{
    static char base[1024];
    (void)snprintf(base, sizeof base, "%s", test_source_path("examples/topologies"));
    peal_fabric_destroy(fabric);
    fabric = NULL;
    return peal_fabric_parse(ctx, text, strlen(text), "c.xml", base, &diag, &fabric);
}

static void made(const char *text)
{
    ck_assert_msg(parse_here(text) == PEAL_OK, "%u:%u: %s", diag.line, diag.column, diag.text);
}

/* ---- the grammar */

#define RATES                                                                                      \
    "<rate use=\"load\" bytes=\"8\" gbs=\"1\"/><rate use=\"store\" bytes=\"8\" gbs=\"1\"/>"        \
    "<rate use=\"exchange\" bytes=\"8\" gbs=\"1\"/>"
#define CALL(attributes, inside)                                                                   \
    "<peal version=\"1\"><host ranks=\"8\"/><memory>" RATES "<call " attributes ">" inside         \
    "</call></memory></peal>"

static const char *const good[] = {
    "<peal version=\"1\"><host ranks=\"8\"/></peal>",
    "<peal version=\"1\" name=\"x\"><host name=\"a\" ranks=\"8\" count=\"1\"/></peal>",
    "<peal version=\"1\"><host topology=\"dgx-h100.xml\"/></peal>",
    "<peal version=\"1\">" H100 "<network kind=\"rails\"/></peal>",
    "<peal version=\"1\"><network kind=\"leaf-spine\" hosts-per-leaf=\"2\" "
    "oversubscription=\"1.5\" "
    "latency-us=\"0\"><switch buffer-mib=\"64\" pfc=\"on\" ecn=\"off\"/></network>" H100 "</peal>",
    "<peal version=\"1\"><cost link=\"nvlink\" engine=\"sm\" alpha-us=\"0.8\" beta-gbs=\"450\" "
    "gap-us=\"0.1\"/><cost link=\"pcie\" engine=\"ce\" share=\"0.9\"/><reduce gbs=\"1600\"/>" H100
    "</peal>",
    "<peal version=\"1\"><host ranks=\"4\" count=\"2\"><nic name=\"eth0\" speed-gbits=\"25\" "
    "rdma=\"no\"/><nic name=\"mlx5_0\" speed-gbits=\"100\"/></host></peal>",
    "<peal version=\"1\"><host><system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" "
    "class=\"0x030200\"/></cpu></system></host></peal>",
    "<peal version=\"1\"><host ranks=\"1\"/><reduce gbs=\"1\"/><reduce gbs=\"2\"/></peal>",
    "<peal version=\"1\"><host ranks=\"4\"/><memory entry-us=\"0.5\"><rate use=\"load\" "
    "bytes=\"1024\" gbs=\"4\"/><rate use=\"load\" bytes=\"4096\" gbs=\"8\"/><rate "
    "use=\"store\" bytes=\"8\" gbs=\"1\"/><rate use=\"exchange\" bytes=\"64\" gbs=\"1\"/></memory>"
    "</peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><memory>" RATES "<call collective=\"allreduce\" "
    "algorithm=\"ring\" detail=\"one\" tile=\"4096\" buffers=\"private\"><time bytes=\"8\" "
    "us=\"1\"/><time bytes=\"64\" us=\"2\"/></call><call collective=\"x\" algorithm=\"y\"><time "
    "bytes=\"8\" us=\"1\"/></call></memory></peal>",
};

static const char *const bad[] = {
    "<peal><host ranks=\"8\"/></peal>",
    "<peal version=\"2\"><host ranks=\"8\"/></peal>",
    "<peal version=\"1\"/>",
    "<peal version=\"1\"><network kind=\"rails\"/></peal>",
    "<peal version=\"1\"><host/></peal>",
    "<peal version=\"1\"><host ranks=\"0\"/></peal>",
    "<peal version=\"1\"><host ranks=\"4097\"/></peal>",
    "<peal version=\"1\"><host ranks=\"x\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\" count=\"0\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\" count=\"65537\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\" topology=\"dgx-h100.xml\"/></peal>",
    "<peal version=\"1\"><host topology=\"\"/></peal>",
    "<peal version=\"1\"><host topology=\"dgx-h100.xml\"><nic name=\"a\" speed-gbits=\"1\"/></host>"
    "</peal>",
    "<peal version=\"1\"><host ranks=\"8\" color=\"red\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\">text</host></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><gizmo/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"><nic speed-gbits=\"1\"/></host></peal>",
    "<peal version=\"1\"><host ranks=\"8\"><nic name=\"a\"/></host></peal>",
    "<peal version=\"1\"><host ranks=\"8\"><nic name=\"a\" speed-gbits=\"-1\"/></host></peal>",
    "<peal version=\"1\"><host ranks=\"8\"><nic name=\"a\" speed-gbits=\"1\" "
    "rdma=\"maybe\"/></host>"
    "</peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><network/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><network kind=\"torus\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><network kind=\"rails\"/><network "
    "kind=\"rails\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><network kind=\"rails\" "
    "oversubscription=\"0.5\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><network kind=\"rails\" latency-us=\"-1\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><network kind=\"rails\"><hub/></network></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><network kind=\"rails\"><switch pfc=\"1\"/></network>"
    "</peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><cost/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><cost link=\"loopback\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><cost link=\"warp\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><cost link=\"shm\" engine=\"warp\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><cost link=\"shm\" alpha-us=\"-1\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><cost link=\"shm\" beta-gbs=\"0\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><cost link=\"shm\" share=\"2\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><cost link=\"shm\" share=\"1\" beta-gbs=\"1\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><reduce/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><reduce gbs=\"fast\"/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><reduce gbs=\"1\"><x/></reduce></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><memory/></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><memory entry-us=\"-1\">" RATES "</memory></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><memory>" RATES "<x/></memory></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><memory>" RATES "<rate use=\"push\" bytes=\"9\" "
    "gbs=\"1\"/></memory></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><memory>" RATES "<rate use=\"load\" bytes=\"9\"/>"
    "</memory></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><memory>" RATES "<rate use=\"load\" bytes=\"9\" "
    "gbs=\"0\"/></memory></peal>",
    "<peal version=\"1\"><host ranks=\"8\"/><memory>" RATES "</memory><memory>" RATES
    "</memory></peal>",
    CALL("collective=\"allreduce\"", "<time bytes=\"8\" us=\"1\"/>"),
    CALL("collective=\"allreduce\" algorithm=\"\"", "<time bytes=\"8\" us=\"1\"/>"),
    CALL("collective=\"allreduce\" algorithm=\"ring\"", ""),
    CALL("collective=\"allreduce\" algorithm=\"ring\"", "<time bytes=\"8\"/>"),
    CALL("collective=\"allreduce\" algorithm=\"ring\"", "<time bytes=\"8\" us=\"0\"/>"),
    CALL("collective=\"allreduce\" algorithm=\"ring\"", "<rate bytes=\"8\" us=\"1\"/>"),
    CALL("collective=\"allreduce\" algorithm=\"ring\" buffers=\"none\"",
         "<time bytes=\"8\" us=\"1\"/>"),
    CALL("collective=\"allreduce\" algorithm=\"ring\" tile=\"-1\"", "<time bytes=\"8\" us=\"1\"/>"),
};

static void silent(void *user, const char *format, ...)
{
    (void)user, (void)format;
}

static int grammar_takes(xmlRelaxNGPtr schema, const char *text)
{
    xmlDocPtr doc = xmlReadMemory(text, (int)strlen(text), "x", NULL, XML_PARSE_NONET);
    ck_assert_ptr_nonnull(doc);
    xmlRelaxNGValidCtxtPtr valid = xmlRelaxNGNewValidCtxt(schema);
    xmlRelaxNGSetValidErrors(valid, silent, silent, NULL);
    int result = xmlRelaxNGValidateDoc(valid, doc);
    xmlRelaxNGFreeValidCtxt(valid);
    xmlFreeDoc(doc);
    return result == 0;
}

START_TEST(reader_and_grammar_agree)
{
    xmlRelaxNGParserCtxtPtr parser =
        xmlRelaxNGNewParserCtxt(test_source_path("schema/peal-cluster.rng"));
    xmlRelaxNGPtr schema = xmlRelaxNGParse(parser);
    ck_assert_ptr_nonnull(schema);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        made(good[i]);
        ck_assert_msg(grammar_takes(schema, good[i]), "grammar refuses %s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(parse_here(bad[i]) == PEAL_ERR_INPUT, "reader takes %s", bad[i]);
        ck_assert_msg(diag.line == 1 && diag.column >= 1 && diag.text[0], "no place for %s",
                      bad[i]);
        ck_assert_msg(!grammar_takes(schema, bad[i]), "grammar takes %s", bad[i]);
    }
    xmlRelaxNGFree(schema);
    xmlRelaxNGFreeParserCtxt(parser);
    xmlCleanupParser();
}
END_TEST

START_TEST(refusals_name_the_place)
{
    refused("<peal version=\"1\">\n <host ranks=\"8\"/>\n <gizmo/>\n</peal>", 3, 2,
            "expected <host>, <network>, <cost>, <reduce> or <memory>");
    refused("<peal version=\"1\">\n <host ranks=\"8\" color=\"red\"/></peal>", 2, 2,
            "unknown attribute color; expected name, count, topology, ranks or multicast");
    refused("<peal version=\"1\">\n <host name=\"box\" ranks=\"8\" count=\"2\"/></peal>", 2, 1,
            "host type box has no NIC");
    refused("<peal version=\"1\">\n  <cost link=\"warp\"/><host ranks=\"1\"/></peal>", 2, 3,
            "unknown link class");
}
END_TEST

/* ---- references */

START_TEST(references_stay_below_the_directory)
{
    static const char *const out[] = {"../topologies/dgx-h100.xml", "/etc/passwd", "a/../../b.xml",
                                      ".."};
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "<peal version=\"1\"><host topology=\"%s\"/></peal>",
                       out[i]);
        ck_assert_int_eq(parse_here(text), PEAL_ERR_INPUT);
        ck_assert_ptr_nonnull(strstr(diag.text, "leads out of the directory"));
    }
    ck_assert_int_eq(parse("<peal version=\"1\"><host topology=\"dgx-h100.xml\"/></peal>"),
                     PEAL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(diag.text, "without a directory"));
    ck_assert_int_eq(parse_here("<peal version=\"1\">\n<host topology=\"none.xml\"/></peal>"),
                     PEAL_ERR_IO);
    ck_assert_msg(diag.line == 2 && strstr(diag.text, "none.xml"), "%u %s", diag.line, diag.text);
    ck_assert_int_eq(parse_here("<peal version=\"1\"><host topology=\".\"/></peal>"), PEAL_ERR_IO);
    ck_assert_int_eq(
        parse_here("<peal version=\"1\"><host topology=\"cluster-h100-2.xml\"/></peal>"),
        PEAL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(diag.text, "not that of one host"));
}
END_TEST

static char *temporary(const char *text)
{
    static char path[] = "/tmp/peal-topo-XXXXXX";
    (void)snprintf(path, sizeof path, "/tmp/peal-topo-XXXXXX");
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq((int)write(file, text, strlen(text)), (int)strlen(text));
    ck_assert_int_eq(close(file), 0);
    return path;
}

START_TEST(a_file_that_a_person_names_may_refer_anywhere)
{
    char text[1200];
    (void)snprintf(text, sizeof text, "<peal version=\"1\"><host topology=\"%s\"/></peal>",
                   test_source_path("examples/topologies/dgx-h100.xml"));
    char *path = temporary(text);
    peal_status status = peal_fabric_load(ctx, path, &diag, &fabric);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_msg(status == PEAL_OK, "%s", diag.text);
    ck_assert_uint_eq(about().ranks, 8);
}
END_TEST

START_TEST(files_that_cannot_be_read)
{
    ck_assert_int_eq(peal_fabric_load(ctx, "/nonexistent/x.xml", &diag, &fabric), PEAL_ERR_IO);
    ck_assert_ptr_nonnull(strstr(diag.text, "no such file"));
    ck_assert_str_eq(diag.path, "/nonexistent/x.xml");
    ck_assert_int_eq(peal_fabric_load(ctx, "/", &diag, &fabric), PEAL_ERR_IO);
    ck_assert_ptr_nonnull(strstr(diag.text, "directory"));
    ck_assert_int_eq(peal_fabric_load(ctx, NULL, &diag, &fabric), PEAL_ERR_ARG);
}
END_TEST

/* ---- hosts */

START_TEST(hosts_and_their_numbers)
{
    made("<peal version=\"1\" name=\"mix\"><host topology=\"dgx-h100.xml\" count=\"2\"/>"
         "<host topology=\"slingshot-4gpu.xml\" count=\"3\"/><host topology=\"dgx-h100.xml\"/>"
         "<network kind=\"leaf-spine\"/></peal>");
    peal_fabric_info info = about();
    ck_assert_str_eq(info.name, "mix");
    ck_assert_str_eq(info.dialect, "cluster");
    ck_assert_uint_eq(info.hosts, 6);
    ck_assert_uint_eq(info.ranks, 36);
    ck_assert_uint_eq(info.nics, 36);
    ck_assert_uint_eq(info.numa_nodes, 18);
    ck_assert_uint_eq(peal_topo_host_type(fabric, 0), peal_topo_host_type(fabric, 5));
    ck_assert_uint_ne(peal_topo_host_type(fabric, 0), peal_topo_host_type(fabric, 2));
    uint32_t next = 0;
    for (uint32_t h = 0; h < 6; h++) {
        ck_assert_uint_eq(peal_topo_host_first(fabric, h), next);
        for (uint32_t r = next; r < next + peal_topo_host_ranks(fabric, h); r++) {
            peal_rank_info rank = rank_at(r);
            ck_assert_uint_eq(rank.host, h);
            ck_assert_uint_eq(rank.local, r - next);
            ck_assert_uint_eq(rank.nvlink_domain, h);
            ck_assert_uint_eq(nic_at((uint32_t)rank.nic).host, h);
            ck_assert_uint_eq(peal_topo_host_of(fabric, r), h);
        }
        next += peal_topo_host_ranks(fabric, h);
    }
    for (uint32_t n = 0; n < peal_fabric_node_count(fabric); n++) {
        peal_node_info node = {.size = sizeof node};
        ck_assert_int_eq(peal_fabric_node(fabric, n, &node), PEAL_OK);
        ck_assert_int_eq(!strcmp(node.kind, "net-switch"), node.host == UINT32_MAX);
    }
}
END_TEST

START_TEST(out_of_range_is_refused)
{
    made("<peal version=\"1\">" H100 "</peal>");
    peal_rank_info rank = {.size = sizeof rank};
    peal_nic_info nic = {.size = sizeof nic};
    peal_node_info node = {.size = sizeof node};
    peal_link_info link = {.size = sizeof link};
    peal_note_info note = {.size = sizeof note};
    peal_path_info path = {.size = sizeof path};
    ck_assert_int_eq(peal_fabric_rank(fabric, 32, &rank), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_fabric_nic(fabric, 32, &nic), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_fabric_node(fabric, peal_fabric_node_count(fabric), &node), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_fabric_link(fabric, about().links, &link), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_fabric_note(fabric, about().notes, &note), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_fabric_path(fabric, 0, 32, &path), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_fabric_get(NULL, NULL), PEAL_ERR_ARG);
    ck_assert_uint_eq(notes_with(0, "no <network>", NULL), 1);
}
END_TEST

START_TEST(thousands_of_hosts_cost_no_more_than_one)
{
    struct timespec before, after;
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &before), 0);
    made("<peal version=\"1\"><host topology=\"dgx-h100.xml\" count=\"65536\"/>"
         "<network kind=\"rails\" hosts-per-leaf=\"32\" oversubscription=\"2\"/></peal>");
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &after), 0);
    ck_assert_uint_eq(about().ranks, 524288);
    ck_assert_int_lt(heap.bytes, 8 << 20);
    /* Milliseconds; the bound leaves room for sanitizers and a busy machine. */
    ck_assert_int_lt(after.tv_sec - before.tv_sec, 3);
    ck_assert_uint_eq(peal_topo_host_of(fabric, 524287), 65535);
    struct topo_path path;
    peal_topo_path(fabric, 0, 524287, &path);
    ck_assert(near(path.beta_gbs, 45)); /* 32 NICs share an uplink of 32 x 45 / 2 */
    ck_assert_uint_eq(peal_topo_resources(fabric), 65536ull * 82 + 2048 * 8 * 2);
}
END_TEST

/* ---- the network */

static int uses(const struct topo_path *path, const char *name, double gbs)
{
    for (uint32_t u = 0; u < path->uses; u++) {
        char text[96];
        peal_topo_resource_name(fabric, path->use[u].resource, text, sizeof text);
        if (!strcmp(text, name))
            return near(path->use[u].gbs, gbs) &&
                   near(peal_topo_resource_gbs(fabric, path->use[u].resource), gbs);
    }
    return 0;
}

START_TEST(rails_join_equal_nics)
{
    struct topo_path path;
    made("<peal version=\"1\">" H100 "<network kind=\"rails\" latency-us=\"2\"/></peal>");
    peal_topo_path(fabric, 3, 11, &path);
    ck_assert(near(path.alpha_us, 10) && near(path.beta_gbs, 45) && !path.direct);
    ck_assert_int_eq(path.mover, PEAL_ENGINE_RDMA);
    ck_assert_int_eq(path.link_class, PEAL_LINK_NET);
    ck_assert(near(path.gap_us, 0.3));
    ck_assert(uses(&path, "h0/mlx5_3 tx", 45) && uses(&path, "h1/mlx5_3 rx", 45));
    ck_assert(!uses(&path, "rail3 up", 180));
    ck_assert_str_eq(path_of(3, 11).via, "h0/gpu3 > h0/pcie3 > h0/mlx5_3 > rail3 > h1/mlx5_3 > "
                                         "h1/pcie3 > h1/gpu3");
    peal_topo_path(fabric, 3, 12, &path);
    ck_assert(near(path.alpha_us, 12));
    ck_assert(uses(&path, "rail3 up", 180) && uses(&path, "rail4 down", 180));
}
END_TEST

START_TEST(leaves_share_uplinks)
{
    struct topo_path path;
    made("<peal version=\"1\">" H100
         "<network kind=\"leaf-spine\" hosts-per-leaf=\"2\" oversubscription=\"4\"/></peal>");
    peal_topo_path(fabric, 0, 15, &path);
    ck_assert(near(path.alpha_us, 10));
    ck_assert(!uses(&path, "leaf0 up", 180));
    peal_topo_path(fabric, 0, 16, &path);
    ck_assert(near(path.alpha_us, 10.6));
    /* two hosts of 8 x 45 GB/s, a quarter of it upward */
    ck_assert(uses(&path, "leaf0 up", 180) && uses(&path, "leaf1 down", 180));
    ck_assert(near(path.beta_gbs, 45));
    made("<peal version=\"1\">" H100
         "<network kind=\"leaf-spine\" hosts-per-leaf=\"1\" oversubscription=\"16\"/></peal>");
    peal_topo_path(fabric, 0, 8, &path);
    ck_assert(near(path.beta_gbs, 22.5));
}
END_TEST

START_TEST(sockets_are_tcp)
{
    struct topo_path path;
    struct topo_engine_cost cost;
    made("<peal version=\"1\"><host ranks=\"2\" count=\"2\"><nic name=\"eth0\" "
         "speed-gbits=\"100\"/></host></peal>");
    peal_topo_path(fabric, 1, 2, &path);
    ck_assert_int_eq(path.mover, PEAL_ENGINE_TCP);
    ck_assert(near(path.alpha_us, 30) && near(path.beta_gbs, 11.25));
    peal_topo_engine_cost(fabric, PEAL_LINK_NET, PEAL_ENGINE_TCP, &cost);
    ck_assert(near(cost.alpha_us, 30) && near(cost.beta_scale, 1));
    peal_topo_path(fabric, 0, 1, &path);
    ck_assert_int_eq(path.link_class, PEAL_LINK_SHM);
    ck_assert(near(path.beta_gbs, 8) && path.direct);
}
END_TEST

static struct topo_engine_cost socket_hop(const char *costs, const char *gbits)
{
    struct topo_path path;
    struct topo_engine_cost cost;
    char text[512];
    (void)snprintf(text, sizeof text,
                   "<peal version=\"1\">%s<host ranks=\"4\" count=\"2\"><nic name=\"e\" "
                   "speed-gbits=\"%s\"/><nic name=\"f\" speed-gbits=\"%s\"/></host></peal>",
                   costs, gbits, gbits);
    made(text);
    peal_topo_path(fabric, 1, 4, &path);
    peal_topo_hop_cost(fabric, &path, PEAL_ENGINE_TCP, &cost);
    return cost;
}

/* Sockets have what the NIC has, up to what the cores of its ranks carry; where the network was
 * measured, that is what they have. */
START_TEST(sockets_are_bounded_by_cores)
{
    static const char rdma[] = "<cost link=\"net\" engine=\"rdma\" alpha-us=\"12\"/>";
    static const char net[] = "<cost link=\"net\" alpha-us=\"12\" beta-gbs=\"9\"/>";
    static const char tcp[] = "<cost link=\"net\" engine=\"tcp\" alpha-us=\"21\" share=\"1\"/>";
    ck_assert(near(socket_hop("", "10").beta_scale, 1));
    uint64_t digest = about().digest;
    (void)socket_hop("<cost link=\"net\" engine=\"tcp\" share=\"1\"/>", "10");
    ck_assert_uint_ne(digest, about().digest);
    ck_assert(near(socket_hop("", "100").beta_scale, 4 / 11.25)); /* two ranks a NIC */
    ck_assert(near(socket_hop(rdma, "100").alpha_us, 30));
    ck_assert(near(socket_hop(net, "100").alpha_us, 12));
    ck_assert(near(socket_hop(net, "100").beta_scale, 1));
    ck_assert(near(socket_hop(tcp, "100").alpha_us, 21));
    ck_assert(near(socket_hop(tcp, "100").beta_scale, 1));
}
END_TEST

START_TEST(switch_facts_are_kept)
{
    made("<peal version=\"1\">" H100 "<network kind=\"rails\"><switch buffer-mib=\"64\" "
         "pfc=\"on\"/></network></peal>");
    struct topo_switch_facts facts = peal_topo_switch_facts(fabric);
    ck_assert_int_eq(facts.buffer_mib, 64);
    ck_assert_int_eq(facts.pfc, 1);
    ck_assert_int_eq(facts.ecn, -1);
}
END_TEST

/* ---- costs */

START_TEST(stated_costs_take_the_place_of_defaults)
{
    struct topo_path path;
    struct topo_engine_cost cost;
    made("<peal version=\"1\"><cost link=\"nvlink\" alpha-us=\"0.6\" beta-gbs=\"370\" "
         "gap-us=\"0.2\"/><cost link=\"nvlink\" engine=\"ce\" alpha-us=\"4\" beta-gbs=\"407\"/>"
         "<cost link=\"net\" engine=\"rdma\" alpha-us=\"12\" beta-gbs=\"40\"/>"
         "<cost link=\"net\" engine=\"tcp\" share=\"0.5\"/><reduce gbs=\"1234\"/>" H100
         "<network kind=\"rails\"/></peal>");
    peal_topo_path(fabric, 0, 1, &path);
    ck_assert(near(path.alpha_us, 0.6) && near(path.beta_gbs, 370) && near(path.gap_us, 0.2));
    peal_topo_path(fabric, 0, 8, &path);
    ck_assert(near(path.alpha_us, 12) && near(path.beta_gbs, 40));
    peal_topo_engine_cost(fabric, PEAL_LINK_NVLINK, PEAL_ENGINE_CE, &cost);
    ck_assert(near(cost.alpha_us, 4) && near(cost.beta_scale, 1.1));
    peal_topo_engine_cost(fabric, PEAL_LINK_NVLINK, PEAL_ENGINE_TMA, &cost);
    ck_assert(near(cost.alpha_us, 0.8) && near(cost.beta_scale, 1));
    peal_topo_engine_cost(fabric, PEAL_LINK_NET, PEAL_ENGINE_TCP, &cost);
    ck_assert(near(cost.beta_scale, 0.5));
    ck_assert(near(peal_topo_reduce_gbs(fabric, 5), 1234));
}
END_TEST

/* Between measured sizes their times are joined by a line; the schema alone takes these. */
START_TEST(rates_of_one_memory)
{
    static const char head[] = "<peal version=\"1\"><host ranks=\"4\"/><memory entry-us=\"0.5\">";
    char text[1024];
    (void)snprintf(text, sizeof text, "%s%s", head,
                   "<rate use=\"load\" bytes=\"1000\" gbs=\"2\"/><rate use=\"load\" bytes=\"3000\" "
                   "gbs=\"1\"/><rate use=\"exchange\" bytes=\"64\" gbs=\"4\"/><rate use=\"store\" "
                   "bytes=\"64\" gbs=\"8\"/></memory></peal>");
    made(text);
    const struct topo_memory *memory = peal_topo_memory(fabric);
    ck_assert_ptr_nonnull(memory);
    ck_assert(near(memory->entry_us, 0.5));
    ck_assert(near(peal_topo_memory_us(memory, TOPO_USE_LOAD, 500), 0.25));
    ck_assert(near(peal_topo_memory_us(memory, TOPO_USE_LOAD, 1000), 0.5));
    ck_assert(near(peal_topo_memory_us(memory, TOPO_USE_LOAD, 2000), 1.75));
    ck_assert(near(peal_topo_memory_us(memory, TOPO_USE_LOAD, 6000), 6));
    ck_assert(near(peal_topo_memory_us(memory, TOPO_USE_EXCHANGE, 6000), 1.5));
    ck_assert(near(peal_topo_memory_us(memory, TOPO_USE_STORE, 6000), 0.75));
    uint64_t digest = about().digest;
    made("<peal version=\"1\"><host ranks=\"4\"/></peal>");
    ck_assert_ptr_null(peal_topo_memory(fabric));
    ck_assert_uint_ne(digest, about().digest);
    (void)snprintf(text, sizeof text, "%s%s", head,
                   "<rate use=\"load\" bytes=\"9\" gbs=\"2\"/><rate use=\"load\" bytes=\"9\" "
                   "gbs=\"1\"/></memory></peal>");
    refused(text, 1, 95, "rising sizes");
    (void)snprintf(text, sizeof text, "%s%s", head,
                   "<rate use=\"load\" bytes=\"9\" gbs=\"2\"/></memory></peal>");
    refused(text, 1, 36, "a <rate> of load, of store and of exchange");
    refused(CALL("collective=\"a\" algorithm=\"b\"",
                 "<time bytes=\"9\" us=\"2\"/><time bytes=\"9\" us=\"3\"/>"),
            1, 216, "rising sizes");
}
END_TEST

START_TEST(calls_of_one_memory)
{
    made(CALL("collective=\"a\" algorithm=\"b\" tile=\"256\" buffers=\"private\"",
              "<time bytes=\"8\" us=\"1\"/><time bytes=\"24\" us=\"3\"/>"));
    uint64_t digest = about().digest;
    const struct topo_memory *memory = peal_topo_memory(fabric);
    ck_assert_uint_eq(memory->calls, 1);
    const struct topo_call *call = &memory->call[0];
    ck_assert(near(call->tile_bytes, 256) && call->private_buffers && !call->detail);
    ck_assert(near(peal_topo_times_us(call->time, call->times, 1), 1));
    ck_assert(near(peal_topo_times_us(call->time, call->times, 16), 2));
    ck_assert(near(peal_topo_times_us(call->time, call->times, 48), 6));
    made(CALL("collective=\"a\" algorithm=\"b\"", "<time bytes=\"8\" us=\"1\"/>"));
    ck_assert_uint_ne(digest, about().digest);
}
END_TEST

START_TEST(costs_are_part_of_the_identity)
{
    made("<peal version=\"1\">" H100 "<network kind=\"rails\"/></peal>");
    uint64_t digest = about().digest;
    made("<peal version=\"1\" name=\"other\"><!-- - -->" H100 "<network kind=\"rails\"/></peal>");
    ck_assert_uint_eq(digest, about().digest);
    made("<peal version=\"1\"><cost link=\"nvlink\" alpha-us=\"0.9\"/>" H100
         "<network kind=\"rails\"/></peal>");
    ck_assert_uint_ne(digest, about().digest);
    made("<peal version=\"1\">" H100 "<network kind=\"leaf-spine\"/></peal>");
    ck_assert_uint_ne(digest, about().digest);
    made("<peal version=\"1\">" H100 "<network kind=\"rails\" oversubscription=\"2\"/></peal>");
    ck_assert_uint_ne(digest, about().digest);
}
END_TEST

/* ---- the writer */

static peal_status collect(void *user, const char *data, size_t bytes)
{
    char *text = user;
    ck_assert_uint_lt(strlen(text) + bytes, 4096);
    strncat(text, data, bytes);
    return PEAL_OK;
}

static peal_status stop_writing(void *user, const char *data, size_t bytes)
{
    (void)user, (void)data, (void)bytes;
    return PEAL_ERR_IO;
}

START_TEST(what_is_written_is_read)
{
    char text[4096] = "";
    peal_cluster_params params = {.size = sizeof params, .host_path = "dgx-h100.xml", .nodes = 16};
    ck_assert_int_eq(peal_cluster_write(ctx, &params, collect, text, &diag), PEAL_OK);
    made(text);
    ck_assert_uint_eq(about().ranks, 128);
    text[0] = '\0';
    params.rails = 1;
    params.oversubscription = 2.5;
    params.latency_us = 1.25;
    ck_assert_int_eq(peal_cluster_write(ctx, &params, collect, text, &diag), PEAL_OK);
    made(text);
    ck_assert(near(path_of(0, 9).alpha_us, 11.25));
    text[0] = '\0';
    params.host_path = "a&b<\"c\".xml";
    ck_assert_int_eq(peal_cluster_write(ctx, &params, collect, text, &diag), PEAL_OK);
    ck_assert_int_eq(parse_here(text), PEAL_ERR_IO);
    ck_assert_ptr_nonnull(strstr(diag.text, "a&b<\"c\".xml"));
    ck_assert_int_eq(peal_cluster_write(ctx, &params, stop_writing, NULL, &diag), PEAL_ERR_IO);
}
END_TEST

START_TEST(parameters_out_of_range)
{
    char text[4096] = "";
    peal_cluster_params params = {.size = sizeof params, .host_path = "x", .nodes = 0};
    ck_assert_int_eq(peal_cluster_write(ctx, &params, collect, text, &diag), PEAL_ERR_ARG);
    params.nodes = 65537;
    ck_assert_int_eq(peal_cluster_write(ctx, &params, collect, text, &diag), PEAL_ERR_ARG);
    params.nodes = 2;
    params.oversubscription = 0.5;
    ck_assert_int_eq(peal_cluster_write(ctx, &params, collect, text, &diag), PEAL_ERR_ARG);
    params.oversubscription = (double)NAN;
    ck_assert_int_eq(peal_cluster_write(ctx, &params, collect, text, &diag), PEAL_ERR_ARG);
    params.oversubscription = 0;
    params.latency_us = -1;
    ck_assert_int_eq(peal_cluster_write(ctx, &params, collect, text, &diag), PEAL_ERR_ARG);
    params.latency_us = 0;
    params.host_path = "a\nb";
    ck_assert_int_eq(peal_cluster_write(ctx, &params, collect, text, &diag), PEAL_ERR_ARG);
    ck_assert_str_eq(text, "");
}
END_TEST

static peal_status write_one(peal_ctx *oom_ctx, void *user)
{
    peal_cluster_params params = {.size = sizeof params, .host_path = "x", .nodes = 2};
    char *text = user;
    text[0] = '\0';
    return peal_cluster_write(oom_ctx, &params, collect, text, NULL);
}

START_TEST(writing_may_run_out_of_memory)
{
    char text[4096] = "";
    ck_assert_int_eq(test_oom_sweep(write_one, text, 0, NULL), 0);
}
END_TEST

/* ---- diff */

struct seen {
    uint32_t count;
    char first[256];
};

static void note_difference(void *user, const char *what, const char *left, const char *right)
{
    struct seen *seen = user;
    if (seen->count++ == 0)
        (void)snprintf(seen->first, sizeof seen->first, "%s: %s | %s", what, left, right);
}

static uint32_t differences(const char *left, const char *right, struct seen *seen)
{
    peal_fabric *a = NULL;
    peal_fabric *b = NULL;
    uint32_t count = 99;
    ck_assert_int_eq(parse_here(left), PEAL_OK);
    a = fabric;
    fabric = NULL;
    ck_assert_int_eq(parse_here(right), PEAL_OK);
    b = fabric;
    fabric = NULL;
    memset(seen, 0, sizeof *seen);
    ck_assert_int_eq(peal_fabric_diff(ctx, a, b, note_difference, seen, &count), PEAL_OK);
    ck_assert_uint_eq(count, seen->count);
    ck_assert_int_eq(peal_fabric_diff(ctx, a, b, NULL, NULL, NULL), PEAL_OK);
    peal_fabric_destroy(a);
    peal_fabric_destroy(b);
    return count;
}

#define ONE(topology, more) "<peal version=\"1\">" more "<host topology=\"" topology "\"/></peal>"

START_TEST(diff_names_what_differs)
{
    struct seen seen;
    ck_assert_uint_eq(differences(ONE("dgx-h100.xml", ""), ONE("dgx-h100.xml", ""), &seen), 0);
    ck_assert_uint_eq(differences(ONE("dgx-h100.xml", ""),
                                  ONE("dgx-h100.xml", "<cost link=\"nvlink\" beta-gbs=\"400\"/>"),
                                  &seen),
                      16);
    ck_assert_str_eq(seen.first, "gpu0 > nvs0 nvlink: 450 GB/s 0.8 us | 400 GB/s 0.8 us");
    ck_assert_uint_gt(differences(ONE("dgx-h100.xml", ""), ONE("slingshot-4gpu.xml", ""), &seen),
                      20);
    ck_assert_str_eq(seen.first, "ranks: 8 | 4");
    ck_assert_int_eq(peal_fabric_diff(ctx, NULL, NULL, NULL, NULL, NULL), PEAL_ERR_ARG);
}
END_TEST

static peal_status diff_one(peal_ctx *oom_ctx, void *user)
{
    char path[1024];
    peal_fabric *one = NULL;
    (void)user;
    (void)snprintf(path, sizeof path, "%s", test_source_path("examples/topologies/pcie-8gpu.xml"));
    peal_status status = peal_fabric_load(oom_ctx, path, NULL, &one);
    if (status == PEAL_OK)
        status = peal_fabric_diff(oom_ctx, one, one, NULL, NULL, NULL);
    peal_fabric_destroy(one);
    return status;
}

START_TEST(comparing_may_run_out_of_memory)
{
    ck_assert_int_eq(test_oom_sweep(diff_one, NULL, 0, NULL), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("topo cluster");
    TCase *tcase = tcase_create("cluster");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, reader_and_grammar_agree);
    tcase_add_test(tcase, refusals_name_the_place);
    tcase_add_test(tcase, references_stay_below_the_directory);
    tcase_add_test(tcase, a_file_that_a_person_names_may_refer_anywhere);
    tcase_add_test(tcase, files_that_cannot_be_read);
    tcase_add_test(tcase, hosts_and_their_numbers);
    tcase_add_test(tcase, out_of_range_is_refused);
    tcase_add_test(tcase, thousands_of_hosts_cost_no_more_than_one);
    tcase_add_test(tcase, rails_join_equal_nics);
    tcase_add_test(tcase, leaves_share_uplinks);
    tcase_add_test(tcase, sockets_are_tcp);
    tcase_add_test(tcase, sockets_are_bounded_by_cores);
    tcase_add_test(tcase, switch_facts_are_kept);
    tcase_add_test(tcase, stated_costs_take_the_place_of_defaults);
    tcase_add_test(tcase, rates_of_one_memory);
    tcase_add_test(tcase, calls_of_one_memory);
    tcase_add_test(tcase, costs_are_part_of_the_identity);
    tcase_add_test(tcase, what_is_written_is_read);
    tcase_add_test(tcase, parameters_out_of_range);
    tcase_add_test(tcase, writing_may_run_out_of_memory);
    tcase_add_test(tcase, diff_names_what_differs);
    tcase_add_test(tcase, comparing_may_run_out_of_memory);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK_GETENV);
}
