/* SPDX-License-Identifier: Apache-2.0 */
/* Groups that are not the first ranks of a fabric, and groups under way at the same time. */
#include "machines.h"
#include "plan.h"
#include "support.h"
#include "test_fixture.h"
#include "test_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

#define LARGE (1ull << 34) /* far from any start-up */

/* `nodes` hosts like an example's, one leaf switch. */
static peal_fabric *cluster(const char *host, uint32_t nodes)
{
    return test_cluster(ctx, host, nodes, "leaf-spine");
}

static peal_row_info first_row(const peal_fabric *fabric, const peal_request *request)
{
    return test_planned_row(ctx, fabric, request);
}

static peal_request request_of(peal_collective collective, uint64_t bytes)
{
    peal_request request = PEAL_REQUEST_INIT;
    request.collective = collective;
    request.min_bytes = request.max_bytes = bytes;
    return request;
}

/* Rank i of the plan is made for the endpoint of rank group[i], and its links are routed there. */
START_TEST(endpoints_are_the_groups)
{
    static const uint32_t group[] = {13, 2, 8, 0, 7};
    peal_fabric *fabric = cluster("dgx-h100.xml", 2);
    peal_request request = request_of(PEAL_ALLGATHER, 1 << 20);
    request.group = group;
    request.group_size = 5;
    request.algorithm = "direct";
    peal_table *table = test_planned(ctx, fabric, &request);
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    const struct peal_plan *made = table->rows[0].plan;
    ck_assert_uint_eq(made->nranks, 5);
    for (uint32_t r = 0; r < 5; r++) {
        peal_rank_info info = {.size = sizeof info};
        peal_nic_info nic = {.size = sizeof nic};
        ck_assert_int_eq(peal_fabric_rank(fabric, group[r], &info), PEAL_OK);
        ck_assert_int_eq(peal_fabric_nic(fabric, (uint32_t)info.nic, &nic), PEAL_OK);
        ck_assert_uint_eq(made->ranks[r].host, info.host);
        ck_assert_str_eq(made->ranks[r].busid, info.busid);
        ck_assert_str_eq(made->ranks[r].nic, nic.name);
    }
    ck_assert_uint_eq(made->nlinks, 20);
    for (uint32_t i = 0; i < made->nlinks; i++) {
        const struct plan_link *link = &made->links[i];
        int near = group[link->from] / 8 == group[link->to] / 8;
        ck_assert_int_eq(link->direct, near);
        ck_assert_int_eq(link->link_class, near ? PEAL_LINK_NVLINK : PEAL_LINK_NET);
    }
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}
END_TEST

/* On a machine whose ranks are all alike, any group of four is planned as the first four are. */
START_TEST(alike_is_planned_alike)
{
    static const uint32_t group[] = {6, 1, 3, 4};
    peal_fabric *fabric = cluster("dgx-h100.xml", 1);
    for (unsigned c = 0; c < PEAL_SENDRECV; c++)
        for (uint64_t bytes = 1 << 10; bytes <= 1 << 30; bytes <<= 10) {
            peal_request request = request_of((peal_collective)c, bytes);
            request.ranks = 4;
            peal_row_info first = first_row(fabric, &request);
            request.group = group;
            request.group_size = 4;
            peal_row_info other = first_row(fabric, &request);
            ck_assert_str_eq(first.algorithm, other.algorithm);
            ck_assert_double_eq(first.time_us, other.time_us);
            ck_assert_double_eq(first.bound_us, other.bound_us);
            ck_assert_double_eq(first.time_us, first.time_alone_us);
        }
    peal_fabric_destroy(fabric);
}
END_TEST

/* The ranks of a cluster in order, as a list, are the cluster. */
START_TEST(a_list_of_all_is_all)
{
    uint32_t group[32];
    for (uint32_t r = 0; r < 32; r++)
        group[r] = r;
    peal_fabric *fabric = cluster("dgx1-v100.xml", 4);
    for (unsigned c = 0; c < PEAL_SENDRECV; c++) {
        peal_request request = request_of((peal_collective)c, 1 << 24);
        request.root = peal_plan_collective(request.collective)->rooted ? 9 : 0;
        peal_row_info first = first_row(fabric, &request);
        request.group = group;
        request.group_size = 32;
        peal_row_info other = first_row(fabric, &request);
        ck_assert_str_eq(first.detail, other.detail);
        ck_assert_double_eq(first.time_us, other.time_us);
        ck_assert_double_eq(first.bound_us, other.bound_us);
    }
    peal_fabric_destroy(fabric);
}
END_TEST

/* Nothing beats its bound, of groups however they lie. */
START_TEST(bounds_of_groups)
{
    static const struct {
        uint32_t size;
        uint32_t rank[9];
    } groups[] = {{4, {0, 8, 16, 24}},  {9, {0, 1, 2, 3, 4, 5, 6, 7, 31}},
                  {5, {9, 0, 1, 2, 3}}, {6, {0, 8, 1, 9, 2, 10}}, /* hosts by turns */
                  {3, {30, 12, 3}},     {2, {5, 4}}};
    static const char *const hosts[] = {"pcie-8gpu.xml", "dgx1-v100.xml", "dgx-a100.xml"};
    for (size_t h = 0; h < sizeof hosts / sizeof hosts[0]; h++) {
        peal_fabric *fabric = cluster(hosts[h], 4);
        for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
            for (unsigned c = 0; c < PEAL_CUSTOM; c++)
                for (uint64_t bytes = 1 << 10; bytes <= LARGE; bytes <<= 12) {
                    peal_request request = request_of((peal_collective)c, bytes);
                    request.group = groups[g].rank;
                    request.group_size = groups[g].size;
                    request.root = peal_plan_collective(request.collective)->rooted ? 1 : 0;
                    if (c == PEAL_SENDRECV && groups[g].size > 2)
                        continue;
                    peal_row_info row = first_row(fabric, &request);
                    ck_assert_msg(row.time_us >= row.bound_us * (1 - 1e-9),
                                  "%s group %zu %s %llu: %g < %g", hosts[h], g,
                                  peal_collective_name((peal_collective)c),
                                  (unsigned long long)bytes, row.time_us, row.bound_us);
                }
        peal_fabric_destroy(fabric);
    }
}
END_TEST

/* Four accelerators of a box share a NIC. Alone, each of the eight groups along the boxes has one
 * to itself; together they load it four times, and only what shares is loaded more. */
START_TEST(siblings_add_up)
{
    uint32_t group[4], siblings[7 * 4];
    for (uint32_t i = 0; i < 4; i++) {
        group[i] = 8 * i;
        for (uint32_t s = 0; s < 7; s++)
            siblings[4 * s + i] = 8 * i + s + 1;
    }
    peal_fabric *fabric = cluster("pcie-8gpu.xml", 4);
    peal_request request = request_of(PEAL_ALLREDUCE, LARGE);
    request.group = group;
    request.group_size = 4;
    request.algorithm = "ring";
    request.channels = 1;
    peal_row_info alone = first_row(fabric, &request);
    request.siblings = siblings;
    request.nsiblings = 7;
    peal_row_info all = first_row(fabric, &request);
    ck_assert_double_eq(all.bound_us, alone.bound_us);
    double moving = all.time_us - all.alpha_us;
    ck_assert_double_le(fabs(moving / (alone.time_us - alone.alpha_us) - 4), 1e-9);
    ck_assert_double_eq(all.time_alone_us, alone.time_us);
    ck_assert_ptr_nonnull(strstr(all.binding, "mlx5_0"));
    request.nsiblings = 3; /* those on the same NIC */
    ck_assert_double_eq(first_row(fabric, &request).time_us, all.time_us);
    request.siblings = siblings + 4 * 4; /* those on the other one */
    peal_row_info others = first_row(fabric, &request);
    ck_assert_double_eq(others.time_us, others.time_alone_us);
    peal_fabric_destroy(fabric);
}
END_TEST

/* They change what is chosen. */
START_TEST(siblings_decide)
{
    uint32_t group[4], siblings[7 * 4];
    for (uint32_t i = 0; i < 4; i++) {
        group[i] = 8 * i;
        for (uint32_t s = 0; s < 7; s++)
            siblings[4 * s + i] = 8 * i + s + 1;
    }
    peal_fabric *fabric = cluster("pcie-8gpu.xml", 4);
    peal_request request = request_of(PEAL_ALLREDUCE, 1 << 10);
    request.group = group;
    request.group_size = 4;
    int differ = 0;
    for (uint64_t bytes = 1 << 10; bytes <= LARGE && !differ; bytes += bytes / 2) {
        request.max_bytes = request.min_bytes = bytes;
        request.siblings = NULL;
        request.nsiblings = 0;
        peal_row_info alone = first_row(fabric, &request);
        request.siblings = siblings;
        request.nsiblings = 7;
        peal_row_info all = first_row(fabric, &request);
        differ = strcmp(alone.algorithm, all.algorithm) != 0 || alone.channels != all.channels ||
                 alone.tile_bytes != all.tile_bytes;
    }
    ck_assert_msg(differ, "the same at all sizes");
    peal_table *table = test_planned(ctx, fabric, &request);
    peal_diag diag = PEAL_DIAG_INIT;
    memset(siblings, 0xff, sizeof siblings); /* its own copy */
    memset(group, 0xff, sizeof group);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}
END_TEST

/* Inside a box, groups elsewhere share nothing with this one. */
START_TEST(far_siblings_do_not_matter)
{
    static const uint32_t group[] = {0, 1, 2, 3}, far[] = {8, 9, 10, 11}, near[] = {4, 5, 6, 7};
    peal_fabric *fabric = cluster("pcie-8gpu.xml", 2);
    peal_request request = request_of(PEAL_ALLREDUCE, 1 << 24);
    request.group = group;
    request.group_size = 4;
    double alone = first_row(fabric, &request).time_us;
    request.siblings = far;
    request.nsiblings = 1;
    ck_assert_double_eq(first_row(fabric, &request).time_us, alone);
    request.siblings = near;
    peal_row_info row = first_row(fabric, &request);
    ck_assert_double_ge(row.time_us, alone);
    ck_assert_double_ge(row.time_us, row.time_alone_us);
    peal_fabric_destroy(fabric);
}
END_TEST

static void refused(const peal_fabric *fabric, const peal_request *request, const char *why)
{
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_table_plan(ctx, fabric, request, &diag, &table), PEAL_ERR_ARG);
    ck_assert_msg(strstr(diag.text, why) != NULL, "'%s' does not say '%s'", diag.text, why);
}

START_TEST(bad_groups)
{
    static const uint32_t twice[] = {0, 3, 3}, far[] = {0, 8}, good[] = {1, 2}, more[] = {3, 2};
    peal_fabric *fabric = cluster("dgx-h100.xml", 1);
    peal_request request = request_of(PEAL_ALLREDUCE, 1 << 20);
    request.group = twice;
    refused(fabric, &request, "length");
    request.group_size = 3;
    refused(fabric, &request, "rank 3 stands twice");
    request.group = far;
    request.group_size = 2;
    refused(fabric, &request, "rank 8 of a group");
    request.group = good;
    request.ranks = 3;
    refused(fabric, &request, "of a group of 2");
    request.ranks = 2;
    request.group_size = 9;
    request.ranks = 0;
    refused(fabric, &request, "the fabric has 8");
    request.group_size = 2;
    request.siblings = more;
    refused(fabric, &request, "length");
    request.nsiblings = 1;
    refused(fabric, &request, "rank 2 stands twice");
    request.nsiblings = UINT32_MAX;
    refused(fabric, &request, "more than the fabric has");
    request.siblings = far;
    request.nsiblings = 1;
    refused(fabric, &request, "rank 8 of a group");
    request.siblings = NULL;
    request.nsiblings = 0;
    request.collective = PEAL_BROADCAST;
    request.root = 2; /* a rank of the fabric, but the group has two */
    refused(fabric, &request, "root");
    request.group = NULL;
    request.group_size = 0;
    request.siblings = good; /* of the first two: one of them again */
    request.root = 0;
    request.nsiblings = 1;
    request.ranks = 2;
    refused(fabric, &request, "rank 1 stands twice");
    peal_fabric_destroy(fabric);
}
END_TEST

static peal_status plan_once(peal_ctx *with, void *user)
{
    static const uint32_t group[] = {0, 2}, siblings[] = {1, 3};
    peal_fabric *fabric;
    peal_table *table;
    peal_request request = request_of(PEAL_ALLREDUCE, 1 << 10);
    (void)user;
    peal_status status =
        peal_fabric_load(with, test_source_path("examples/topologies/dgx-h100.xml"), NULL, &fabric);
    if (status != PEAL_OK)
        return status;
    request.group = group;
    request.group_size = 2;
    request.siblings = siblings;
    request.nsiblings = 1;
    status = peal_table_plan(with, fabric, &request, NULL, &table);
    if (status == PEAL_OK)
        peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    return status;
}

START_TEST(out_of_memory)
{
    ck_assert_int_eq(test_oom_sweep(plan_once, NULL, 0, NULL), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("group");
    TCase *tcase = tcase_create("group");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, endpoints_are_the_groups);
    tcase_add_test(tcase, alike_is_planned_alike);
    tcase_add_test(tcase, a_list_of_all_is_all);
    tcase_add_test(tcase, bounds_of_groups);
    tcase_add_test(tcase, siblings_add_up);
    tcase_add_test(tcase, siblings_decide);
    tcase_add_test(tcase, far_siblings_do_not_matter);
    tcase_add_test(tcase, bad_groups);
    tcase_add_test(tcase, out_of_memory);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
