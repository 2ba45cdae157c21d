/* SPDX-License-Identifier: Apache-2.0 */
/* What holds of every path on every example, and the figures of the machines we describe. */
#include "defaults.h"
#include "test_topo_help.h"

static const char *const examples[] = {
    "dgx-a100",       "dgx-h100",       "hgx-b200",        "pcie-8gpu",        "dgx1-v100",
    "slingshot-4gpu", "cluster-h100-2", "cluster-h100-16", "cluster-h100-128",
};

static void load_example(const char *name)
{
    char relative[128];
    (void)snprintf(relative, sizeof relative, "examples/topologies/%s.xml", name);
    loaded(test_source_path(relative));
}

static void check_uses(const struct topo_path *path, uint32_t from, uint32_t to)
{
    double narrowest = 1e12;
    ck_assert_uint_ge(path->uses, 1);
    ck_assert_uint_le(path->uses, TOPO_PATH_MAX);
    for (uint32_t u = 0; u < path->uses; u++) {
        char name[96];
        ck_assert_uint_lt(path->use[u].resource, peal_topo_resources(fabric));
        ck_assert(near(path->use[u].gbs, peal_topo_resource_gbs(fabric, path->use[u].resource)));
        peal_topo_resource_name(fabric, path->use[u].resource, name, sizeof name);
        ck_assert_uint_gt(strlen(name), 2);
        if (path->use[u].gbs < narrowest)
            narrowest = path->use[u].gbs;
        for (uint32_t v = 0; v < u; v++)
            ck_assert_uint_ne(path->use[u].resource, path->use[v].resource);
    }
    ck_assert_msg(near(narrowest, path->beta_gbs), "%u > %u: %g and %g", from, to, narrowest,
                  path->beta_gbs);
}

static void check_kind(const struct topo_path *path, uint32_t from, uint32_t to)
{
    int same = peal_topo_host_of(fabric, from) == peal_topo_host_of(fabric, to);
    ck_assert_int_eq(same, path->link_class != PEAL_LINK_NET);
    if (path->link_class <= PEAL_LINK_XGMI) {
        ck_assert(path->direct);
        ck_assert_uint_eq(peal_topo_rank_domain(fabric, from), peal_topo_rank_domain(fabric, to));
    }
    if (path->link_class >= PEAL_LINK_SMP)
        ck_assert(!path->direct);
    if (!path->direct)
        ck_assert_int_ne(path->mover, PEAL_ENGINE_SM);
    if (path->link_class == PEAL_LINK_SMP)
        ck_assert_int_eq(path->mover, PEAL_ENGINE_STAGED);
    ck_assert(path->alpha_us > 0 && path->beta_gbs > 0 && path->gap_us > 0);
}

/* Every pair of small fabrics; of large ones those from and to a few ranks. */
START_TEST(paths_are_sound)
{
    load_example(examples[_i]);
    uint32_t ranks = peal_topo_ranks(fabric);
    uint32_t step = ranks > 16 ? 61 : 1;
    for (uint32_t a = 0; a < ranks; a += step) {
        for (uint32_t b = 0; b < ranks; b++) {
            struct topo_path there, back;
            char via[256];
            if (a == b)
                continue;
            peal_topo_path(fabric, a, b, &there);
            peal_topo_path(fabric, b, a, &back);
            check_uses(&there, a, b);
            check_kind(&there, a, b);
            /* Every example is the same in both directions. */
            ck_assert(near(there.beta_gbs, back.beta_gbs) && there.uses == back.uses &&
                      there.link_class == back.link_class && there.direct == back.direct);
            peal_topo_via(fabric, a, b, via, sizeof via);
            ck_assert_ptr_nonnull(strstr(via, " > "));
        }
    }
    ck_assert_uint_eq(about().notes, peal_topo_hosts(fabric) > 64);
}
END_TEST

START_TEST(links_are_listed_both_ways)
{
    load_example(examples[_i]);
    uint32_t links = about().links;
    for (uint32_t l = 0; l < links; l++) {
        peal_link_info link = {.size = sizeof link};
        ck_assert_int_eq(peal_fabric_link(fabric, l, &link), PEAL_OK);
        ck_assert_uint_eq(link.sstar_bytes, (uint64_t)(link.alpha_us * link.beta_gbs * 1000 + 0.5));
        int found = links > 200; /* only the small ones are searched */
        for (uint32_t m = 0; !found && m < links; m++) {
            peal_link_info other = {.size = sizeof other};
            ck_assert_int_eq(peal_fabric_link(fabric, m, &other), PEAL_OK);
            found = !strcmp(link.from, other.to) && !strcmp(link.to, other.from) &&
                    link.link_class == other.link_class && strcmp(link.resource, other.resource);
        }
        ck_assert_msg(found, "%s > %s has no way back", link.from, link.to);
    }
}
END_TEST

START_TEST(resources_have_names_of_their_own)
{
    load_example("cluster-h100-2");
    for (uint64_t r = 0; r < peal_topo_resources(fabric); r++) {
        char name[96], other[96];
        peal_topo_resource_name(fabric, r, name, sizeof name);
        for (uint64_t s = 0; s < r; s++) {
            peal_topo_resource_name(fabric, s, other, sizeof other);
            ck_assert_str_ne(name, other);
        }
    }
    char none[8] = "x";
    peal_topo_resource_name(fabric, peal_topo_resources(fabric), none, sizeof none);
    ck_assert_str_eq(none, "");
}
END_TEST

/* ---- figures */

static void expect(const char *name, uint32_t from, uint32_t to, peal_link_class link_class,
                   double alpha, double beta, int direct)
{
    struct topo_path path;
    load_example(name);
    peal_topo_path(fabric, from, to, &path);
    ck_assert_msg(path.link_class == link_class && near(path.alpha_us, alpha) &&
                      near(path.beta_gbs, beta) && path.direct == direct,
                  "%s %u > %u: %s %g us %g GB/s direct %d", name, from, to,
                  peal_link_class_name(path.link_class), path.alpha_us, path.beta_gbs, path.direct);
}

START_TEST(figures_of_the_machines)
{
    expect("dgx-h100", 0, 7, PEAL_LINK_NVLINK, 0.8, 450, 1);
    expect("dgx-a100", 0, 7, PEAL_LINK_NVLINK, 0.8, 300, 1);
    expect("hgx-b200", 0, 7, PEAL_LINK_NVLINK, 0.8, 900, 1);
    expect("dgx1-v100", 0, 3, PEAL_LINK_NVLINK, 0.8, 50, 1);
    expect("dgx1-v100", 0, 7, PEAL_LINK_SMP, 2, 6, 0);
    expect("slingshot-4gpu", 0, 3, PEAL_LINK_NVLINK, 0.8, 100, 1);
    expect("pcie-8gpu", 0, 3, PEAL_LINK_PCIE, 1.5, 24, 1);
    expect("pcie-8gpu", 0, 4, PEAL_LINK_SMP, 2, 22, 0);
    expect("cluster-h100-2", 0, 8, PEAL_LINK_NET, 10, 45, 0);
    expect("cluster-h100-128", 5, 1021, PEAL_LINK_NET, 10, 45, 0);
}
END_TEST

START_TEST(each_accelerator_has_a_nic_beside_it)
{
    load_example("dgx-h100");
    for (uint32_t r = 0; r < 8; r++) {
        ck_assert_int_eq(rank_at(r).nic, (int32_t)r);
        ck_assert_int_eq(nic_at(r).rail, (int32_t)r);
        ck_assert_int_eq(nic_at(r).numa, rank_at(r).numa);
    }
    load_example("dgx1-v100"); /* two to a NIC */
    for (uint32_t r = 0; r < 8; r++)
        ck_assert_int_eq(rank_at(r).nic, (int32_t)(r / 2));
}
END_TEST

START_TEST(ranks_of_one_host)
{
    struct topo_path path;
    ck_assert_int_eq(peal_fabric_host(ctx, 8, &diag, &fabric), PEAL_OK);
    ck_assert_str_eq(about().dialect, "host");
    ck_assert_str_eq(rank_at(3).model, "host");
    ck_assert_str_eq(rank_at(3).busid, "");
    ck_assert_int_eq(rank_at(3).device, -1);
    ck_assert_int_eq(rank_at(3).nic, -1);
    ck_assert_uint_eq(about().links, 16);
    peal_topo_path(fabric, 2, 5, &path);
    ck_assert(path.direct && path.link_class == PEAL_LINK_SHM);
    ck_assert(near(path.alpha_us, 0.3) && near(path.beta_gbs, 8));
    check_uses(&path, 2, 5);
    ck_assert(near(peal_topo_reduce_gbs(fabric, 0), 10));
    ck_assert_str_eq(path_of(2, 5).via, "rank2 > numa0 > rank5");
    peal_topo_path(fabric, 2, 2, &path);
    ck_assert_int_eq(path.link_class, PEAL_LINK_LOOPBACK);
    uint64_t digest = about().digest;
    peal_fabric_destroy(fabric);
    ck_assert_int_eq(peal_fabric_host(ctx, 9, &diag, &fabric), PEAL_OK);
    ck_assert_uint_ne(digest, about().digest);
    peal_fabric *none = NULL;
    ck_assert_int_eq(peal_fabric_host(ctx, 0, &diag, &none), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_fabric_host(ctx, 4097, &diag, &none), PEAL_ERR_ARG);
}
END_TEST

/* ---- the table of constants */

START_TEST(constants)
{
    ck_assert(near(18 * peal_topo_nvlink_gbs(90), 450));
    ck_assert(near(peal_topo_nvlink_gbs(60), 20) && near(peal_topo_nvlink_gbs(70), 25));
    ck_assert(near(peal_topo_nvlink_gbs(80), 25) && near(peal_topo_nvlink_gbs(86), 14));
    ck_assert(near(peal_topo_nvlink_gbs(103), 50) && near(peal_topo_nvlink_gbs(0), 25));
    ck_assert(near(peal_topo_xgmi_gbs("906"), 24) && near(peal_topo_xgmi_gbs("90a"), 36));
    ck_assert(near(peal_topo_xgmi_gbs("942"), 48) && near(peal_topo_xgmi_gbs("950"), 48));
    ck_assert(near(peal_topo_smp_gbs("x86_64", "GenuineIntel", 6, 0x4f), 6));
    ck_assert(near(peal_topo_smp_gbs("x86_64", "GenuineIntel", 6, 85), 10));
    ck_assert(near(peal_topo_smp_gbs("x86_64", "GenuineIntel", 6, 143), 22));
    ck_assert(near(peal_topo_smp_gbs("x86_64", "GenuineIntel", 6, 0xad), 40));
    ck_assert(near(peal_topo_smp_gbs("x86_64", "GenuineIntel", 6, 207), 40));
    ck_assert(near(peal_topo_smp_gbs("x86_64", "AuthenticAMD", 143, 49), 16));
    ck_assert(near(peal_topo_smp_gbs("x86_64", "AuthenticAMD", 25, 17), 24));
    ck_assert(near(peal_topo_smp_gbs("x86_64", "AuthenticAMD", 175, 1), 24));
    ck_assert(near(peal_topo_smp_gbs("x86_64", "AuthenticAMD", 26, 2), 32));
    ck_assert(near(peal_topo_smp_gbs("ppc64", "", -1, -1), 32));
    ck_assert(near(peal_topo_smp_gbs("arm64", "", -1, -1), 6));
    ck_assert(near(peal_topo_smp_gbs("", "", -1, -1), 10));
    ck_assert(near(peal_topo_reduce_default(90, ""), 1600));
    ck_assert(near(peal_topo_reduce_default(0, "942"), 2400));
    ck_assert(peal_topo_rdma_name("mlx5_0") && peal_topo_rdma_name("rdmap79s0"));
    ck_assert(!peal_topo_rdma_name("eth0") && peal_topo_virtual_name("veth1"));
}
END_TEST

/* The rows of a table that is read first to last must not hide later ones. */
START_TEST(device_table_has_no_doubles)
{
    static const struct {
        uint32_t vendor, device;
    } ids[] = {
#define TOPO_DEVICE(vendor, device, name, arch, gcn, form, links) {vendor, device},
#include "defaults.def"
#undef TOPO_DEVICE
#define TOPO_NICDEV(vendor, device, name, gbits, rdma) {vendor, device},
#include "defaults.def"
#undef TOPO_NICDEV
    };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        for (size_t j = 0; j < i; j++)
            ck_assert(ids[i].vendor != ids[j].vendor || ids[i].device != ids[j].device);
    }
}
END_TEST

START_TEST(engines)
{
    struct topo_engine_cost cost;
    load_example("dgx-h100");
    peal_topo_engine_cost(fabric, PEAL_LINK_NVLINK, PEAL_ENGINE_SM, &cost);
    ck_assert(cost.alpha_us < 0 && near(cost.beta_scale, 1));
    peal_topo_engine_cost(fabric, PEAL_LINK_NVLINK, PEAL_ENGINE_TMA, &cost);
    ck_assert(near(cost.alpha_us, 1.0) && near(cost.beta_scale, 1));
    peal_topo_engine_cost(fabric, PEAL_LINK_NVLINK, PEAL_ENGINE_CE, &cost);
    ck_assert(near(cost.alpha_us, 3.3) && near(cost.beta_scale, 1));
    peal_topo_engine_cost(fabric, PEAL_LINK_PCIE, PEAL_ENGINE_STAGED, &cost);
    ck_assert(near(cost.alpha_us, 5) && near(cost.beta_scale, 0.5));
    peal_topo_engine_cost(fabric, PEAL_LINK_NET, PEAL_ENGINE_RDMA, &cost);
    ck_assert(cost.alpha_us < 0 && near(cost.gap_us, 0.3));
    ck_assert(near(peal_topo_reduce_gbs(fabric, 0), 1600));
    ck_assert_uint_eq(peal_topo_rank_arch(fabric, 0), 90);
}
END_TEST

/* A path longer than a struct holds keeps what limits it. */
START_TEST(long_paths_keep_their_narrowest)
{
    char text[16384];
    struct topo_path path;
    int used =
        snprintf(text, sizeof text, "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\">");
    for (int side = 0; side < 2; side++) {
        for (int depth = 0; depth < 40; depth++)
            used += snprintf(text + used, sizeof text - (size_t)used,
                             "<pci busid=\"000%d:%02x:00.0\" class=\"0x060400\" link_speed=\"%s "
                             "GT/s\">",
                             side, depth, side && depth == 20 ? "2.5" : "32");
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "<pci busid=\"000%d:ff:00.0\" class=\"0x030200\" link_speed=\"32 GT/s\">"
                         "<gpu dev=\"%d\" sm=\"89\" rank=\"%d\"/></pci>",
                         side, side, side);
        for (int depth = 0; depth < 40; depth++)
            used += snprintf(text + used, sizeof text - (size_t)used, "</pci>");
    }
    (void)snprintf(text + used, sizeof text - (size_t)used, "</cpu></system>");
    parsed(text);
    peal_topo_path(fabric, 0, 1, &path);
    ck_assert_uint_eq(path.uses, TOPO_PATH_MAX);
    check_uses(&path, 0, 1);
    ck_assert(near(path.beta_gbs, 3));
    ck_assert_int_eq(path.mover, PEAL_ENGINE_STAGED);
    ck_assert_uint_eq(strlen(path_of(0, 1).via), sizeof path_of(0, 1).via - 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("topo paths");
    TCase *tcase = tcase_create("paths");
    int count = (int)(sizeof examples / sizeof *examples);
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, paths_are_sound, 0, count);
    tcase_add_loop_test(tcase, links_are_listed_both_ways, 0, count);
    tcase_add_test(tcase, resources_have_names_of_their_own);
    tcase_add_test(tcase, figures_of_the_machines);
    tcase_add_test(tcase, each_accelerator_has_a_nic_beside_it);
    tcase_add_test(tcase, ranks_of_one_host);
    tcase_add_test(tcase, constants);
    tcase_add_test(tcase, device_table_has_no_doubles);
    tcase_add_test(tcase, engines);
    tcase_add_test(tcase, long_paths_keep_their_narrowest);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK_GETENV);
}
