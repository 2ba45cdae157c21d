/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: lua */
/* What scripts can do and what they cannot: tests/hostile holds those that try. */
#include "sandbox.h"
#include "test_lua.h"
#include "test_suite.h"

#include <dirent.h>

static struct sandbox *make(void)
{
    struct sandbox_limits limits = {.print = take_line};
    struct sandbox *box;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_sandbox_create(ctx, &limits, &diag, &box) == PEAL_OK, "%s", diag.text);
    return box;
}

static int call_chunk(lua_State *L)
{
    peal_sandbox_chunk(L);
    lua_call(L, 0, 0);
    return 0;
}

static peal_status run_bytes(struct sandbox *box, const char *text, size_t bytes, peal_diag *diag)
{
    peal_status status = peal_sandbox_load(box, text, bytes, "script.lua", diag);
    return status == PEAL_OK ? peal_sandbox_run(box, call_chunk, NULL, diag) : status;
}

static peal_status run(struct sandbox *box, const char *text, peal_diag *diag)
{
    return run_bytes(box, text, strlen(text), diag);
}

/* Runs a script that must work, and compares what it printed. */
static void check_prints(const char *text, const char *wanted)
{
    struct sandbox *box = make();
    peal_diag diag = PEAL_DIAG_INIT;
    printed[0] = 0;
    ck_assert_msg(run(box, text, &diag) == PEAL_OK, "%s: line %u: %s", text, diag.line, diag.text);
    ck_assert_str_eq(printed, wanted);
    peal_sandbox_destroy(box);
}

static void check_fails(const char *text, peal_status status, uint32_t line, const char *part)
{
    struct sandbox *box = make();
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(run(box, text, &diag), status);
    ck_assert_str_eq(diag.path, "script.lua");
    ck_assert_msg(diag.line == line, "%s: line %u: %s", text, diag.line, diag.text);
    ck_assert_msg(strstr(diag.text, part) != NULL, "%s: %s", text, diag.text);
    peal_sandbox_destroy(box);
}

/* ---- the hostile ones ----------------------------------------------------------------- */

/* The reasons of the line "-- fails: one|another". */
static int is_wanted(const char *script, const char *text)
{
    const char *at = strstr(script, "-- fails: ") + 10;
    while (*at != '\n') {
        char part[64];
        size_t bytes = strcspn(at, "|\n");
        (void)snprintf(part, sizeof part, "%.*s", (int)bytes, at);
        if (strstr(text, part))
            return 1;
        at += bytes + (at[bytes] == '|');
    }
    return 0;
}

static void check_hostile(const char *name)
{
    char path[4096];
    size_t bytes;
    (void)snprintf(path, sizeof path, "tests/hostile/%s", name);
    char *script = test_read_file(test_source_path(path), &bytes);
    struct sandbox *box = make();
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = run_bytes(box, script, bytes, &diag);
    ck_assert_msg(status == PEAL_ERR_INPUT || status == PEAL_ERR_LIMIT, "%s: %s", name,
                  peal_status_name(status));
    ck_assert_msg(is_wanted(script, diag.text), "%s: line %u: %s", name, diag.line, diag.text);
    ck_assert_msg(heap.bytes <= 64 << 20, "%s: %lld bytes", name, (long long)heap.bytes);
    ck_assert_msg(peal_sandbox_peak(box) <= SANDBOX_BYTES, "%s: %zu bytes", name,
                  peal_sandbox_peak(box));
    peal_sandbox_destroy(box);
    ck_assert_int_eq(heap.bytes, heap.blocks ? heap.bytes : 0);
    free(script);
    check_prints("print(1 + 1, ('x'):rep(3))", "2\txxx\n");
}

START_TEST(test_hostile)
{
    DIR *dir = opendir(test_source_path("tests/hostile"));
    ck_assert_ptr_nonnull(dir);
    uint32_t count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (!strstr(entry->d_name, ".lua"))
            continue;
        check_hostile(entry->d_name);
        count++;
    }
    (void)closedir(dir);
    ck_assert_uint_ge(count, 40);
}
END_TEST

START_TEST(test_bytecode)
{
    struct sandbox *box = make();
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(run(box, "\x1bLuaT", &diag), PEAL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(diag.text, "binary chunk"));
    peal_sandbox_destroy(box);
}
END_TEST

static int try_frozen(lua_State *L)
{
    lua_createtable(L, 0, 1);
    lua_pushinteger(L, 7);
    lua_setfield(L, -2, "seven");
    peal_sandbox_freeze(L, "peal");
    lua_setglobal(L, "peal");
    return 0;
}

/* Whatever a script does with what it is handed, it stays as it was. */
START_TEST(test_frozen)
{
    static const char *const attempts[] = {
        "peal.seven = 8",
        "peal.more = 1",
        "pairs = function(t) t.seven = 8 return next, t end for k in pairs(peal) do end",
        "local f, t = pairs(peal) t.seven = 8",
        "next(peal)",
        "table.insert(peal, 1)",
        "table.move({1, 2}, 1, 2, 1, peal)",
        "table.sort(peal)",
        "peal()",
        "for k, v in pairs(peal) do peal[k] = nil end",
    };
    struct sandbox *box = make();
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_sandbox_run(box, try_frozen, NULL, &diag), PEAL_OK);
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        ck_assert_msg(run(box, attempts[i], &diag) == PEAL_ERR_INPUT, "%s", attempts[i]);
        printed[0] = 0;
        ck_assert_int_eq(run(box, "print(peal.seven, peal.more)", &diag), PEAL_OK);
        ck_assert_str_eq(printed, "7\tnil\n");
    }
    ck_assert_int_eq(run(box, "peal.seven = 8", &diag), PEAL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(diag.text, "peal cannot be changed"));
    peal_sandbox_destroy(box);
}
END_TEST

/* ---- errors ----------------------------------------------------------------------------- */

START_TEST(test_places)
{
    check_fails("local x\nlocal y = x.z", PEAL_ERR_INPUT, 2, "index a nil value (local 'x')");
    check_fails("\n\nx = = 1", PEAL_ERR_INPUT, 3, "unexpected symbol");
    check_fails(
        "local function inner() error('no') end\nlocal function outer()\ninner()\nend\nouter()",
        PEAL_ERR_INPUT, 1,
        "no; at script.lua:1 in inner, script.lua:3 in outer, "
        "script.lua:5 in the file");
    check_fails("\nlocal function f()\nwhile true do end\nend\nf()", PEAL_ERR_LIMIT, 3,
                "used up its budget of 10000000 units; at script.lua:3 in f");
    check_fails("string.rep()", PEAL_ERR_INPUT, 1, "argument 1 of 'rep': a string was expected");
}
END_TEST

START_TEST(test_refill)
{
    struct sandbox *box = make();
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(run(box, "while true do end", &diag), PEAL_ERR_LIMIT);
    ck_assert_int_eq(run(box, "print(1)", &diag), PEAL_ERR_LIMIT);
    peal_sandbox_refill(box, 1000000);
    ck_assert_int_eq(run(box, "print(1)", &diag), PEAL_OK);
    ck_assert_uint_lt(peal_sandbox_left(box), 1000000);
    peal_sandbox_destroy(box);
}
END_TEST

/* ---- what works ---------------------------------------------------------------------------- */

START_TEST(test_order)
{
    check_prints(
        "local t = {z = 1, a = 2, [3] = 0, [1] = 0, [2.5] = 0, [true] = 0, m = 1}\n"
        "local s = {}\nfor k, v in pairs(t) do s[#s + 1] = tostring(k) end\n"
        "print(table.concat(s, ' '))\n"
        "local k, n = nil, {}\nrepeat k = next(t, k) n[#n + 1] = tostring(k) until k == nil\n"
        "print(table.concat(n, ' '))\n"
        "for k in pairs(t) do t[k] = nil end print(next(t))",
        "1 2.5 3 a m z true\n1 2.5 3 a m z true nil\nnil\n");
    check_prints("print({}, print, coroutine.create(print))", "table\tfunction\tthread\n");
}
END_TEST

START_TEST(test_strings)
{
    check_prints("print(('hello world'):find('o w'), ('hello'):find('l+'), ('x'):find('y'))",
                 "5\t3\tnil\n");
    check_prints("print(('key = value'):match('^(%w+)%s*=%s*(%w+)$'))", "key\tvalue\n");
    check_prints("print(('a,b,,c'):gsub(',', ';'))", "a;b;;c\t3\n");
    check_prints("print(('hello'):gsub('l', {l = 'L'}), ('abc'):gsub('%w', '%0%0'))",
                 "heLLo\taabbcc\t3\n");
    check_prints("print(('abc'):gsub('', '-'))", "-a-b-c-\t4\n");
    check_prints("for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do print(k, v) end",
                 "a\t1\nb\t2\n");
    check_prints("print(('THE (quick) fox'):find('%((%a+)%)'), ('f(a(b)c)d'):match('%b()'))",
                 "5\t(a(b)c)\n");
    check_prints("print(('THE quick'):gsub('%f[%a]%a+', string.lower))", "the quick\t2\n");
    check_prints("print(('x'):rep(3, '-'), ('abc'):sub(-2), ('abc'):reverse())",
                 "x-x-x\tbc\tcba\n");
    check_prints(
        "print(('[a]'):find('[]]'), ('a-z'):gsub('[a%-]', '.'), ('\"a\"'):match('([\"]).-%1'))",
        "3\t..z\t\"\n");
    check_prints("print(#('a'):rep(300), ('ab'):len(), string.char(104, 105))", "300\t2\thi\n");
    check_prints("print(('  x '):match('^%s*(.-)%s*$') .. '|', ('()ab'):find('()', 1, true))",
                 "x|\t1\t2\n");
    check_prints("print(('abc'):find('b', -1), ('abc'):match('()c()'))", "nil\t3\t4\n");
}
END_TEST

START_TEST(test_format)
{
    check_prints("print(string.format('%d %5d|%-5d|%05d %x %X %#x', 1, 2, 3, 4, 255, 255, 255))",
                 "1     2|3    |00004 ff FF 0xff\n");
    check_prints("print(string.format('%.3f %8.2f %e %g %+d', 1.5, 2.25, 1000, 0.1, 7))",
                 "1.500     2.25 1.000000e+03 0.1 +7\n");
    check_prints(
        "print(string.format('%s %10s|%-6s|%.2s %q %c %%', 'a', 'b', 'c', 'defg', 'h\"i', 65))",
        "a          b|c     |de \"h\\\"i\" A %\n");
    check_prints("print(string.format('%d %s %s', -9223372036854775807 - 1, nil, {}))",
                 "-9223372036854775808 nil table\n");
}
END_TEST

START_TEST(test_tables)
{
    check_prints("local t = {3, 1, 2} table.sort(t) print(table.concat(t, ','))\n"
                 "table.sort(t, function(a, b) return a > b end) print(table.unpack(t))",
                 "1,2,3\n3\t2\t1\n");
    check_prints("local t = {} for i = 1, 100 do t[i] = {i % 10, i} end\n"
                 "table.sort(t, function(a, b) return a[1] < b[1] end)\n"
                 "local ok = true for i = 2, 100 do ok = ok and (t[i - 1][1] < t[i][1] or\n"
                 "(t[i - 1][1] == t[i][1] and t[i - 1][2] < t[i][2])) end print(ok)",
                 "true\n");
    check_prints("local t = {1, 2} table.insert(t, 3) table.insert(t, 1, 0)\n"
                 "print(table.concat(t, ' '), table.remove(t), table.remove(t, 1), #t)",
                 "0 1 2 3\t3\t0\t2\n");
    check_prints("print(table.concat(table.move({1, 2, 3}, 1, 3, 2), ' '), table.pack(1, nil).n)",
                 "1 1 2 3\t2\n");
}
END_TEST

START_TEST(test_rest)
{
    check_prints("print(pcall(error, 'x'), select(2, pcall(error, {})))", "false\ttable\n");
    check_prints("print(xpcall(function(a) return a end, print, 5))", "true\t5\n");
    check_prints(
        "local co = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b end)\n"
        "print(co(1), co(5))",
        "2\t5\n");
    check_prints("local co = coroutine.create(function() error('x', 0) end)\n"
                 "print(coroutine.resume(co)) print(coroutine.status(co), coroutine.resume(co))",
                 "false\tx\ndead\tfalse\tcannot resume dead coroutine\n");
    check_prints(
        "print(math.floor(2.5), math.ceil(2.5), math.max(1, 3, 2), math.abs(-3), 7 // 2, 2^10)",
        "2\t3\t3\t3\t3\t1024.0\n");
    check_prints("print(tonumber('0x10'), tonumber('z', 36), tonumber(' 1e3 '), tonumber('x'))",
                 "16\t35\t1000.0\tnil\n");
    check_prints("print(select('#', 1, 2), select(-1, 1, 2), math.type(1), math.type(1.0))",
                 "2\t2\tinteger\tfloat\n");
    check_prints("for i, v in ipairs({1, 2, nil, 4}) do print(i, v) end", "1\t1\n2\t2\n");
}
END_TEST

START_TEST(test_seeded)
{
    char first[sizeof printed];
    for (int i = 0; i < 2; i++) {
        struct sandbox_limits limits = {.print = take_line, .seeded = 1, .seed = 42};
        struct sandbox *box;
        peal_diag diag = PEAL_DIAG_INIT;
        printed[0] = 0;
        ck_assert_int_eq(peal_sandbox_create(ctx, &limits, &diag, &box), PEAL_OK);
        ck_assert_int_eq(
            run(box, "for i = 1, 5 do print(math.random(100), math.random()) end", &diag), PEAL_OK);
        peal_sandbox_destroy(box);
        if (i)
            ck_assert_str_eq(printed, first);
        (void)snprintf(first, sizeof first, "%s", printed);
    }
}
END_TEST

/* Every allocation of the host fails in turn: an error each time, and nothing is left. */
START_TEST(test_memory)
{
    const char *text = "local t = {} for i = 1, 50 do t[i] = {('x'):rep(i * 10)} end "
                       "pcall(function() for i = 1, 50 do t[i] = nil end end)";
    peal_status status = PEAL_ERR_MEMORY;
    uint64_t failed = 0;
    for (uint64_t at = 1; status != PEAL_OK; at++) {
        struct sandbox *box = NULL;
        peal_diag diag = PEAL_DIAG_INIT;
        heap.calls = 0;
        heap.fail_at = at;
        status = peal_sandbox_create(ctx, NULL, &diag, &box);
        if (status == PEAL_OK)
            status = run(box, text, &diag);
        heap.fail_at = 0;
        ck_assert_msg(status == PEAL_OK || status == PEAL_ERR_MEMORY, "%llu: %s",
                      (unsigned long long)at, diag.text);
        peal_sandbox_destroy(box);
        failed += status != PEAL_OK;
        ck_assert_uint_lt(at, 100000);
    }
    ck_assert_uint_gt(failed, 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sandbox");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_hostile);
    tcase_add_test(tcase, test_bytecode);
    tcase_add_test(tcase, test_frozen);
    tcase_add_test(tcase, test_places);
    tcase_add_test(tcase, test_refill);
    tcase_add_test(tcase, test_order);
    tcase_add_test(tcase, test_strings);
    tcase_add_test(tcase, test_format);
    tcase_add_test(tcase, test_tables);
    tcase_add_test(tcase, test_rest);
    tcase_add_test(tcase, test_seeded);
    tcase_add_test(tcase, test_memory);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK_GETENV);
}
