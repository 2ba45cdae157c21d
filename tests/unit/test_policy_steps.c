/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: lua */
/* What a policy's check sees of a plan: the steps that the plan will have, while it is checked, and
 * within its budget. And how far NICs are. */
#include "test_lua.h"
#include "test_suite.h"

#include <stdlib.h>

static peal_fabric *load(const char *name)
{
    char path[256];
    peal_fabric *fabric;
    peal_diag diag = PEAL_DIAG_INIT;
    (void)snprintf(path, sizeof path, "examples/topologies/%s", name);
    ck_assert_msg(peal_fabric_load(ctx, test_source_path(path), &diag, &fabric) == PEAL_OK, "%s",
                  diag.text);
    return fabric;
}

static peal_status plan(const peal_fabric *fabric, const char *text, const char *algorithm,
                        uint32_t ranks, peal_diag *diag, peal_table **table)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_policy_text script = {"test.lua", text, strlen(text)};
    peal_script_limits limits = PEAL_SCRIPT_LIMITS_INIT;
    peal_policy *policy;
    limits.print = take_line;
    *diag = (peal_diag)PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_policy_create(ctx, &script, 1, &limits, diag, &policy), PEAL_OK);
    request.policy = policy;
    request.algorithm = algorithm;
    request.ranks = ranks;
    request.min_bytes = request.max_bytes = 1 << 20;
    peal_status status = peal_table_plan(ctx, fabric, &request, diag, table);
    peal_policy_destroy(policy);
    return status;
}

/* Rank, lane, place, section, operation and chunks of every step, as the compiled plan has them. */
static void expect_compiled(const peal_table *table, uint32_t ranks)
{
    char *wanted = calloc(1, sizeof printed);
    size_t used = 0;
    uint32_t moves = 0;
    ck_assert_ptr_nonnull(wanted);
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t lanes;
        ck_assert_int_eq(peal_table_lanes(table, 0, r, &lanes), PEAL_OK);
        for (uint32_t l = 0; l < lanes; l++) {
            peal_step_info step = {.size = sizeof step};
            for (uint32_t i = 0; peal_table_step(table, 0, r, l, i, &step) == PEAL_OK; i++) {
                moves += step.moves_data != 0;
                used +=
                    (size_t)snprintf(wanted + used, sizeof printed - used, "%u.%u.%u %s %s %u\n", r,
                                     l, i, step.section, step.op, step.chunks);
                ck_assert_uint_lt(used, sizeof printed);
            }
        }
    }
    ck_assert_uint_gt(moves, 4);
    ck_assert_str_eq(printed, wanted);
    free(wanted);
}

START_TEST(steps_are_the_plan)
{
    static const char text[] =
        "return {check = function(plan, req, f)\n"
        "  for r = 0, req.nranks - 1 do\n"
        "    for _, s in ipairs(plan:steps(r)) do\n"
        "      assert(s.rank == r and s.moves == (s.chunks > 0) and s.moves == (s.bytes > 0))\n"
        "      assert(s.moves or s.class == '')\n"
        "      print(('%d.%d.%d %s %s %d'):format(s.rank, s.lane, s.index, s.section, s.op, "
        "s.chunks))\n"
        "    end\n"
        "  end\n"
        "end}";
    peal_fabric *fabric = load("cluster-h100-2.xml");
    peal_diag diag;
    peal_table *table;
    ck_assert_msg(plan(fabric, text, "ring", 3, &diag, &table) == PEAL_OK, "%u: %s", diag.line,
                  diag.text);
    ck_assert_int_eq(peal_table_compile(table, fabric, &diag), PEAL_OK);
    expect_compiled(table, 3);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}
END_TEST

/* A ring of the two hosts: one rank of each sends over the network, to the next one. */
START_TEST(links_and_peers)
{
    static const char text[] =
        "return {check = function(plan, req, f)\n"
        "  local far, near = {}, 0\n"
        "  for r = 0, req.nranks - 1 do\n"
        "    local net = 0\n"
        "    for _, s in ipairs(plan:steps(r)) do\n"
        "      if s.class == 'net' then net = net + 1\n"
        "        assert(s.engine == 'rdma' and s.op == 'put' and #s:peers() == 1)\n"
        "        far[r] = s:peers()[1]\n"
        "        assert(s.bytes <= req.bytes and s.bytes >= req.bytes // 64 // plan.channels)\n"
        "      elseif s.class == 'nvlink' then near = near + 1 end\n"
        "    end\n"
        "    assert(#plan:steps(r, 'net') == net)\n"
        "    for _, s in ipairs(plan:steps(r, 'net')) do assert(s.class == 'net') end\n"
        "  end\n"
        "  for from, to in pairs(far) do print(from, to, f:rank(from).host ~= f:rank(to).host) "
        "end\n"
        "  print(near > 0)\n"
        "end}";
    peal_fabric *fabric = load("cluster-h100-2.xml");
    peal_diag diag;
    peal_table *table;
    ck_assert_msg(plan(fabric, text, "ring", 0, &diag, &table) == PEAL_OK, "%u: %s", diag.line,
                  diag.text);
    ck_assert_ptr_nonnull(strstr(printed, "true\n"));
    ck_assert_ptr_null(strstr(printed, "false"));
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}
END_TEST

static void refused(const char *text, peal_status status, const char *part)
{
    peal_fabric *fabric = load("dgx-h100.xml");
    peal_diag diag;
    peal_table *table;
    peal_status got = plan(fabric, text, NULL, 0, &diag, &table);
    ck_assert_msg(got == status, "%s: %s: %s", text, peal_status_name(got), diag.text);
    ck_assert_msg(strstr(diag.text, part) != NULL, "%s: %s", text, diag.text);
    peal_fabric_destroy(fabric);
}

START_TEST(only_while_checked)
{
    refused("return {choose = function(c) return c[1]:steps(0)[1] end}", PEAL_ERR_INPUT,
            "of the plan that is checked");
    refused("local kept\n"
            "return {check = function(plan)\n"
            "  if kept then return kept.op end\n"
            "  kept = plan:steps(0)[1] return false, 'another'\n"
            "end}",
            PEAL_ERR_INPUT, "while it is checked, and no longer");
    refused("local kept\n"
            "return {check = function(plan)\n"
            "  if kept then return #kept end\n"
            "  kept = plan:steps(0) return false, 'another'\n"
            "end}",
            PEAL_ERR_INPUT, "while it is checked, and no longer");
    refused("return {check = function(plan) return plan:steps(8) end}", PEAL_ERR_INPUT,
            "there is no rank 8: ranks are 0 to 7");
    refused("return {check = function(plan) return plan:steps(-1) end}", PEAL_ERR_INPUT,
            "there is no rank -1");
    refused("return {check = function(plan) return plan:steps(0, 'nett') end}", PEAL_ERR_INPUT,
            "no such class of links");
    refused("return {check = function(plan) return plan.steps(0) end}", PEAL_ERR_INPUT,
            "with a colon");
    refused("return {check = function(plan) plan:steps(0)[1].op = 'no' end}", PEAL_ERR_INPUT,
            "cannot be changed");
    refused("return {check = function(plan) while true do\n"
            "for r = 0, 7 do local n = #plan:steps(r) end end end}",
            PEAL_ERR_LIMIT, "budget");
}
END_TEST

/* A veto by steps has the next best schedule taken. */
START_TEST(vetoed_by_steps)
{
    peal_fabric *fabric = load("dgx-h100.xml");
    peal_diag diag;
    peal_table *table;
    peal_row_info row = {.size = sizeof row};
    ck_assert_int_eq(plan(fabric, "return {}", NULL, 0, &diag, &table), PEAL_OK);
    ck_assert_int_eq(peal_table_row(table, 0, &row), PEAL_OK);
    ck_assert_uint_gt(row.channels, 2);
    peal_table_destroy(table);
    ck_assert_msg(plan(fabric,
                       "return {check = function(plan)\n"
                       "  local most = 0\n"
                       "  for _, s in ipairs(plan:steps(0)) do most = math.max(most, s.lane) end\n"
                       "  return most < 4, 'lanes'\n"
                       "end}",
                       NULL, 0, &diag, &table) == PEAL_OK,
                  "%s", diag.text);
    ck_assert_int_eq(peal_table_compile(table, fabric, &diag), PEAL_OK);
    uint32_t lanes;
    ck_assert_int_eq(peal_table_lanes(table, 0, 0, &lanes), PEAL_OK);
    ck_assert_uint_le(lanes, 4);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}
END_TEST

START_TEST(nic_distances)
{
    peal_fabric *fabric = load("pcie-8gpu.xml"), *two = load("cluster-h100-2.xml");
    peal_nic_distance distance;
    ck_assert_int_eq(peal_fabric_nic_distance(fabric, 0, 0, &distance), PEAL_OK);
    ck_assert_int_eq(distance, PEAL_NIC_SWITCH);
    ck_assert_int_eq(peal_fabric_nic_distance(fabric, 0, 1, &distance), PEAL_OK);
    ck_assert_int_eq(distance, PEAL_NIC_SYSTEM);
    ck_assert_int_eq(peal_fabric_nic_distance(two, 0, 15, &distance), PEAL_OK);
    ck_assert_int_eq(distance, PEAL_NIC_HOST);
    ck_assert_int_eq(peal_fabric_nic_distance(two, 0, 16, &distance), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_fabric_nic_distance(two, 16, 0, &distance), PEAL_ERR_ARG);
    ck_assert_str_eq(peal_nic_distance_name(PEAL_NIC_BRIDGE), "bridge");
    ck_assert_ptr_null(peal_nic_distance_name(PEAL_NIC_DISTANCE_COUNT));
    peal_fabric_destroy(two);
    peal_diag diag;
    peal_table *table;
    ck_assert_msg(plan(fabric,
                       "return {choose = function(c, req, f)\n"
                       "print(f:nic_distance(0, 0), f:nic_distance(0, 1), f.ranks[8].nic_distance,"
                       " pcall(f.nic_distance, f, 0, 2)) end}",
                       NULL, 0, &diag, &table) == PEAL_OK,
                  "%s", diag.text);
    ck_assert_str_eq(printed,
                     "switch\tsystem\tswitch\tfalse\tthere is no NIC 2: there are 2, from 0\n");
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}
END_TEST

/* Below one NUMA node: a switch under another, and a NIC beside both. */
START_TEST(nic_distances_below)
{
#define BRIDGE "class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\""
#define PORT " link_speed=\"16.0 GT/s PCIe\" link_width=\"16\""
#define NIC(bus, name)                                                                             \
    "<pci busid=\"" bus "\" class=\"0x020700\"" PORT "><nic><net name=\"" name                     \
    "\" speed=\"200000\" gdr=\"1\"/></nic></pci>"
    static const char text[] =
        "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\">"
        "<pci busid=\"0000:10:00.0\" " BRIDGE ">"
        "<pci busid=\"0000:11:00.0\" " BRIDGE ">"
        "<pci busid=\"0000:12:00.0\" class=\"0x030200\"" PORT ">"
        "<gpu dev=\"0\" sm=\"80\" rank=\"0\" gdr=\"1\"/></pci>" NIC(
            "0000:13:00.0", "near") "</pci>"
                                    "<pci busid=\"0000:14:00.0\" " BRIDGE
                                    ">" NIC("0000:15:00.0", "beside") "</pci></pci>" NIC(
                                        "0000:20:00.0", "over") "</cpu></system>";
    static const peal_nic_distance wanted[] = {PEAL_NIC_SWITCH, PEAL_NIC_BRIDGE, PEAL_NIC_NUMA};
    peal_fabric *fabric;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_fabric_parse(ctx, text, sizeof text - 1, "tree", NULL, &diag, &fabric) ==
                      PEAL_OK,
                  "%s", diag.text);
    for (uint32_t i = 0; i < 3; i++) {
        peal_nic_distance distance;
        ck_assert_int_eq(peal_fabric_nic_distance(fabric, 0, i, &distance), PEAL_OK);
        ck_assert_int_eq(distance, wanted[i]);
    }
    peal_fabric_destroy(fabric);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy steps");
    TCase *tcase = tcase_create("steps");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, steps_are_the_plan);
    tcase_add_test(tcase, links_and_peers);
    tcase_add_test(tcase, only_while_checked);
    tcase_add_test(tcase, vetoed_by_steps);
    tcase_add_test(tcase, nic_distances);
    tcase_add_test(tcase, nic_distances_below);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK_GETENV);
}
