/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: lua */
/* Policies through the public interface: what scripts see, what they decide, and what becomes of
 * those that fail. */
#include "test_lua.h"
#include "test_suite.h"

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

static peal_status make(const char *text, peal_diag *diag, peal_policy **policy)
{
    peal_policy_text script = {"test.lua", text, strlen(text)};
    peal_script_limits limits = PEAL_SCRIPT_LIMITS_INIT;
    limits.print = take_line;
    return peal_policy_create(ctx, &script, 1, &limits, diag, policy);
}

static peal_status plan_request(const peal_fabric *fabric, const char *text, peal_request *request,
                                peal_diag *diag, peal_table **table)
{
    peal_policy *policy;
    peal_status status = make(text, diag, &policy);
    if (status != PEAL_OK)
        return status;
    request->policy = policy;
    status = peal_table_plan(ctx, fabric, request, diag, table);
    peal_policy_destroy(policy); /* a planned table needs it no more */
    return status;
}

static peal_table *plan(const peal_fabric *fabric, const char *text, peal_collective collective)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    request.collective = collective;
    ck_assert_msg(plan_request(fabric, text, &request, &diag, &table) == PEAL_OK, "%s: %u: %s",
                  text, diag.line, diag.text);
    return table;
}

static void check_fails(const peal_fabric *fabric, const char *text, peal_status status,
                        const char *part)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    peal_status got = plan_request(fabric, text, &request, &diag, &table);
    ck_assert_msg(got == status, "%s: %s: %s", text, peal_status_name(got), diag.text);
    ck_assert_msg(strstr(diag.text, part) != NULL, "%s: %s", text, diag.text);
}

/* Every field of every object can be read, and is what its annotation says. */
START_TEST(test_fields)
{
#define FABRIC_AT "f"
#define RANK_AT "f.ranks[2]"
#define NIC_AT "f.nics[1]"
#define NODE_AT "f.nodes[1]"
#define LINK_AT "f.links[1]"
#define NOTE_AT "f.notes[1]"
#define PATH_AT "f:path(0, 9)"
#define REQUEST_AT "req"
#define CANDIDATE_AT "c[1]"
#define STEP_AT "c:steps(0)[1]" /* where c is the plan that is checked */
#define TYPE_INTEGER "math.type(%s) == 'integer'"
#define TYPE_NUMBER "type(%s) == 'number'"
#define TYPE_STRING "type(%s) == 'string'"
#define TYPE_BOOLEAN "type(%s) == 'boolean'"
    static const struct {
        const char *at;
        const char *name;
        const char *test;
    } fields[] = {
#define OBJECT(id, name, text)
#define LIST(owner, name, element, text)
#define METHOD(owner, name, function, parameters, result, text)
#define FIELD(owner, name, type, value, text) {owner##_AT, #name, TYPE_##type},
#include "../../lua/fields.def"
#undef OBJECT
#undef LIST
#undef METHOD
#undef FIELD
    };
    peal_fabric *fabric = load("cluster-h100-2.xml");
    peal_fabric_info info = {.size = sizeof info};
    ck_assert_int_eq(peal_fabric_get(fabric, &info), PEAL_OK);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char what[128], test[256], text[1024];
        if (!info.notes && strcmp(fields[i].at, NOTE_AT) == 0)
            continue;
        (void)snprintf(what, sizeof what, "%s.%s", fields[i].at, fields[i].name);
        char *mark = strstr(fields[i].test, "%s");
        (void)snprintf(test, sizeof test, "%.*s%s%s", (int)(mark - fields[i].test), fields[i].test,
                       what, mark + 2);
        (void)snprintf(text, sizeof text, "return {%s = function(c, req, f) assert(%s, '%s') end}",
                       strcmp(fields[i].at, STEP_AT) ? "choose" : "check", test, fields[i].name);
        peal_request request = PEAL_REQUEST_INIT;
        peal_diag diag = PEAL_DIAG_INIT;
        peal_table *table;
        request.algorithm = "ring";
        request.min_bytes = request.max_bytes = 1 << 20;
        ck_assert_msg(plan_request(fabric, text, &request, &diag, &table) == PEAL_OK, "%s: %s",
                      what, diag.text);
        peal_table_destroy(table);
    }
    peal_fabric_destroy(fabric);
}
END_TEST

START_TEST(test_values)
{
    peal_fabric *fabric = load("cluster-h100-2.xml");
    peal_request request = PEAL_REQUEST_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    static const char text[] =
        "local done\n"
        "return {choose = function(c, req, f)\n"
        "  for _, x in ipairs(c) do\n"
        "    local sum = x.alpha_us + x.beta_us + x.gamma_us\n"
        "    assert(math.abs(sum - x.time_us) < 1e-6 * x.time_us, x.detail)\n"
        "    assert(x:time(req.bytes) == x.time_us)\n"
        "  end\n"
        "  for i = 2, #c do assert(c[i - 1].time_us <= c[i].time_us + 1e-6) end\n"
        "  if done then return end\n"
        "  done = true\n"
        "  print(f.nranks, f.hosts, #f.ranks, #f.nics, req.nranks, req.collective, req.reduces)\n"
        "  print(f:rank(9).host, f.ranks[10].rank, f:path(0, 1).class, f:path(0, 9).class)\n"
        "  print(req:rank(9) == f:rank(9), req:rank(9) == f:rank(8), f.ranks[17], "
        "c[1]:engine('c2c'))\n"
        "  local n = 0 for i, r in pairs(f.ranks) do n = n + r.rank end print(n, tostring(f), "
        "req)\n"
        "  assert(f:rank(1) ~= f.nics[2] and f.ranks ~= f.nics and f:rank(0) ~= f.ranks)\n"
        "  print(peal.size('64K'), peal.size_text(65536), peal.size_text(1000), peal.MiB)\n"
        "end}";
    request.algorithm = "hierarchical";
    request.min_bytes = request.max_bytes = 1 << 20;
    ck_assert_msg(plan_request(fabric, text, &request, &diag, &table) == PEAL_OK, "%u: %s",
                  diag.line, diag.text);
    ck_assert_str_eq(printed, "16\t2\t16\t16\t16\tallreduce\ttrue\n"
                              "1\t9\tnvlink\tnet\n"
                              "true\tfalse\tnil\tnil\n"
                              "120\tpeal.Fabric\tpeal.Request\n"
                              "65536\t64K\t1000\t1048576\n");
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}
END_TEST

/* A group's ranks are the fabric's by their number in the group. */
START_TEST(test_group)
{
    peal_fabric *fabric = load("dgx-h100.xml");
    peal_request request = PEAL_REQUEST_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    const uint32_t group[] = {6, 2, 4};
    request.group = group;
    request.group_size = 3;
    ck_assert_msg(plan_request(fabric,
                               "return {candidates = function(req)\n"
                               "print(req.nranks, req:rank(0).rank, req:rank(1).rank, "
                               "req:rank(2).rank, pcall(req.rank, req, 3)) end}",
                               &request, &diag, &table) == PEAL_OK,
                  "%s", diag.text);
    ck_assert_str_eq(printed, "3\t6\t2\t4\tfalse\tthere is no rank 3: ranks are 0 to 2\n");
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}
END_TEST

static peal_row_info row_at(const peal_table *table, uint64_t bytes)
{
    peal_row_info row = {.size = sizeof row};
    peal_table_info info = {.size = sizeof info};
    uint32_t index;
    ck_assert_int_eq(peal_table_get(table, &info), PEAL_OK);
    ck_assert_int_eq(peal_table_lookup(table, info.collective, 0, 0, bytes, &index), PEAL_OK);
    ck_assert_int_eq(peal_table_row(table, index, &row), PEAL_OK);
    return row;
}

/* Borders that are no powers of two are found exactly, and single sizes when they are named. */
START_TEST(test_borders)
{
    peal_fabric *fabric = load("dgx-h100.xml");
    peal_table *table = plan(fabric,
                             "return {sizes = {5000000}, choose = function(c, req)\n"
                             "if req.bytes == 5000000 then return {algorithm = 'star'} end\n"
                             "if req.bytes >= 100001 and req.bytes <= 1234567 then\n"
                             "return {algorithm = 'tree', channels = 2} end end}",
                             PEAL_ALLREDUCE);
    ck_assert_str_ne(row_at(table, 100000).algorithm, "tree");
    peal_row_info row = row_at(table, 100001);
    ck_assert_str_eq(row.algorithm, "tree");
    ck_assert_uint_eq(row.channels, 2);
    ck_assert_uint_eq(row.min_bytes, 100001);
    ck_assert_str_eq(row_at(table, 1234567).algorithm, "tree");
    ck_assert_uint_eq(row_at(table, 1234567).max_bytes, 1234567);
    row = row_at(table, 5000000);
    ck_assert_str_eq(row.algorithm, "star");
    ck_assert_uint_eq(row.max_bytes, 5000000);
    ck_assert_str_ne(row_at(table, 4999999).algorithm, "star");
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}
END_TEST

START_TEST(test_candidates)
{
    peal_fabric *fabric = load("dgx-h100.xml");
    static const char *const kept[] = {
        "return {candidates = function() return {keep = {'ring'}} end}",
        "return {candidates = function() return {drop = function(c) return c.algorithm ~= 'ring' "
        "end} end}",
        "return {candidates = function() return {drop = function() return true end, {algorithm = "
        "'ring'}} end}",
        "return {cost = function(c) return c.algorithm == 'ring' and 1 or math.huge end}",
        "return {check = function(plan) return plan.algorithm == 'ring', 'no ring' end}"};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        peal_table *table = plan(fabric, kept[i], PEAL_ALLREDUCE);
        peal_table_info info = {.size = sizeof info};
        ck_assert_int_eq(peal_table_get(table, &info), PEAL_OK);
        for (uint32_t r = 0; r < info.rows; r++) {
            peal_row_info row = {.size = sizeof row};
            ck_assert_int_eq(peal_table_row(table, r, &row), PEAL_OK);
            ck_assert_msg(strcmp(row.algorithm, "ring") == 0, "%s: %s", kept[i], row.algorithm);
        }
        peal_table_destroy(table);
    }
    /* what was shown before some were dropped is not taken for what has its number now */
    check_fails(fabric,
                "local old return {candidates = function() return {drop = function(c) old = c "
                "return c.algorithm ~= 'ring' end} end, choose = function() return old end}",
                PEAL_ERR_INPUT, "is gone");
    check_fails(fabric,
                "local old return {candidates = function() return {drop = function(c) old = c "
                "end} end, cost = function() return old:time(8) end}",
                PEAL_ERR_INPUT, "is gone");
    check_fails(fabric, "return {candidates = function() return {keep = {'none'}} end}",
                PEAL_ERR_UNSUPPORTED, "leaves no schedule");
    check_fails(fabric, "return {cost = function() return -1 end}", PEAL_ERR_INPUT, "not negative");
    check_fails(fabric, "return {cost = function() return 0/0 end}", PEAL_ERR_INPUT,
                "not negative");
    check_fails(fabric, "return {cost = function() return 'fast' end}", PEAL_ERR_INPUT,
                "time in us");
    check_fails(fabric, "return {choose = function() return 5 end}", PEAL_ERR_INPUT, "nil");
    check_fails(fabric, "return {sizes = {'x'}}", PEAL_ERR_INPUT, "list of bytes");
    peal_fabric_destroy(fabric);
}
END_TEST

/* A table that is planned with a policy compiles, is proven, and is the same on every run. */
START_TEST(test_compiled)
{
    peal_fabric *fabric = load("dgx-h100.xml");
    char ids[2][33];
    for (int i = 0; i < 2; i++) {
        peal_diag diag = PEAL_DIAG_INIT;
        peal_table *table = plan(fabric,
                                 "local seen = {}\n"
                                 "return {choose = function(c, req)\n"
                                 "for i, x in ipairs(c) do seen[x.detail] = i end\n"
                                 "for detail in pairs(seen) do for i, x in ipairs(c) do\n"
                                 "if x.detail == detail then return x end end end end}",
                                 PEAL_ALLGATHER);
        ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
        ck_assert_int_eq(peal_table_id(table, 0, ids[i]), PEAL_OK);
        peal_table_destroy(table);
    }
    ck_assert_str_eq(ids[0], ids[1]);
    peal_fabric_destroy(fabric);
}
END_TEST

/* Rows with engines of their own are lowered with them. */
START_TEST(test_engines)
{
    peal_fabric *fabric = load("dgx-h100.xml");
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table =
        plan(fabric,
             "return {choose = function(c, req)\n"
             "local e = req.bytes < 1e6 and 'ce' or 'tma'\n"
             "return {algorithm = 'ring', channels = 2, engine = {nvlink = e}} end}",
             PEAL_ALLGATHER);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    ck_assert_uint_eq(row_at(table, 1000).move_engines[PEAL_LINK_NVLINK], 1u << PEAL_ENGINE_CE);
    ck_assert_uint_eq(row_at(table, 1 << 24).move_engines[PEAL_LINK_NVLINK], 1u << PEAL_ENGINE_TMA);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
}
END_TEST

START_TEST(test_fallback)
{
    peal_fabric *fabric = load("dgx-h100.xml");
    peal_request request = PEAL_REQUEST_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    request.policy_fallback = 1;
    ck_assert_int_eq(plan_request(fabric,
                                  "return {choose = function(c)\n"
                                  "return c[1].nothing\nend}",
                                  &request, &diag, &table),
                     PEAL_OK);
    ck_assert_int_eq(diag.status, PEAL_ERR_INPUT);
    ck_assert_uint_eq(diag.line, 2);
    ck_assert_str_eq(diag.path, "test.lua");
    peal_table_destroy(table);
    /* What is wrong with the request itself is no matter of the policy. */
    request.channels = 99;
    ck_assert_int_eq(plan_request(fabric, "return {}", &request, &diag, &table), PEAL_ERR_ARG);
    peal_fabric_destroy(fabric);
}
END_TEST

/* Nothing that a policy remembers goes from one plan to the next. */
START_TEST(test_forgets)
{
    peal_fabric *fabric = load("dgx-h100.xml");
    peal_policy *policy;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(
        make("n = 0 return {candidates = function() n = n + 1 print(n) end}", &diag, &policy),
        PEAL_OK);
    for (int i = 0; i < 3; i++) {
        peal_request request = PEAL_REQUEST_INIT;
        peal_table *table;
        request.policy = policy;
        ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, &diag, &table), PEAL_OK);
        peal_table_destroy(table);
    }
    ck_assert_str_eq(printed, "1\n1\n1\n");
    peal_policy_destroy(policy);
    peal_fabric_destroy(fabric);
}
END_TEST

START_TEST(test_limits)
{
    peal_fabric *fabric = load("dgx-h100.xml");
    check_fails(fabric, "return {cost = function() while true do end end}", PEAL_ERR_LIMIT,
                "budget");
    check_fails(fabric,
                "local s = {} for i = 1, 200 do s[i] = 1000 * i end return {sizes = s, "
                "choose = function(c, r) return c[r.bytes % 1000 == 0 and 1 or 2] end}",
                PEAL_ERR_LIMIT, "more than 256 times");
    check_fails(fabric, "while true do end", PEAL_ERR_LIMIT, "budget");
    check_fails(fabric, "x x", PEAL_ERR_INPUT, "syntax error");
    peal_fabric_destroy(fabric);
}
END_TEST

/* Every allocation fails in turn. */
START_TEST(test_memory)
{
    peal_fabric *fabric = load("dgx-h100.xml");
    peal_status status = PEAL_ERR_MEMORY;
    for (uint64_t at = 1; status != PEAL_OK; at += 1 + at / 16) {
        peal_request request = PEAL_REQUEST_INIT;
        peal_diag diag = PEAL_DIAG_INIT;
        peal_table *table = NULL;
        request.algorithm = "ring";
        request.max_bytes = 1 << 16;
        heap.calls = 0;
        heap.fail_at = at;
        status = plan_request(fabric,
                              "return {cost = function(c, r, f, us) return us + 1 end,\n"
                              "choose = function(c) return c[2] or c[1] end}",
                              &request, &diag, &table);
        heap.fail_at = 0;
        ck_assert_msg(status == PEAL_OK || status == PEAL_ERR_MEMORY, "%llu: %s: %s",
                      (unsigned long long)at, peal_status_name(status), diag.text);
        peal_table_destroy(table);
    }
    peal_fabric_destroy(fabric);
}
END_TEST

START_TEST(test_arguments)
{
    peal_policy *policy;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_policy_text script = {"x", "return {}", 9};
    ck_assert_int_eq(peal_policy_create(ctx, &script, 0, NULL, &diag, &policy), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_policy_create(NULL, &script, 1, NULL, &diag, &policy), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_policy_create(ctx, &script, 1, NULL, &diag, &policy), PEAL_OK);
    peal_policy_destroy(policy);
    peal_policy_destroy(NULL);
    peal_console_destroy(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_fields);
    tcase_add_test(tcase, test_values);
    tcase_add_test(tcase, test_group);
    tcase_add_test(tcase, test_borders);
    tcase_add_test(tcase, test_candidates);
    tcase_add_test(tcase, test_compiled);
    tcase_add_test(tcase, test_engines);
    tcase_add_test(tcase, test_fallback);
    tcase_add_test(tcase, test_forgets);
    tcase_add_test(tcase, test_limits);
    tcase_add_test(tcase, test_memory);
    tcase_add_test(tcase, test_arguments);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK_GETENV);
}
