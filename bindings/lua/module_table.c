/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: peal.plan, peal.read, and what can be done with one. */
#include "module.h"

#include <stdio.h>
#include <string.h>

/* ---- planning ------------------------------------------------------------------------------ */

static const char *const plan_words[] = {
    "collective", "bytes", "ranks",   "root",          "peer",        "algorithm", "channels",
    "gateways",   "tile",  "scratch", "deterministic", "max_sms",     "zero_sm",   "sm_price",
    "levels",     "inner", "outer",   "script",        "script_name", NULL};

/* bytes = size, or {least, most} */
static void read_bytes(lua_State *L, int index, peal_request *request)
{
    int type = lua_getfield(L, index, "bytes");
    if (type == LUA_TTABLE) {
        int list = lua_gettop(L);
        lua_rawgeti(L, list, 1);
        request->min_bytes = as_size(L, lua_gettop(L));
        lua_rawgeti(L, list, 2);
        request->max_bytes = as_size(L, lua_gettop(L));
        lua_pop(L, 2);
    } else if (type != LUA_TNIL) {
        request->min_bytes = request->max_bytes = as_size(L, lua_gettop(L));
    }
    lua_pop(L, 1);
}

static void read_request(lua_State *L, int index, peal_request *request)
{
    const char *collective = NULL;
    check_options(L, index, plan_words);
    option_text(L, index, "collective", &collective);
    if (collective && peal_collective_parse(collective, &request->collective) != PEAL_OK)
        luaL_error(L, "unknown collective '%s'", collective);
    read_bytes(L, index, request);
    option_u32(L, index, "ranks", &request->ranks);
    option_u32(L, index, "root", &request->root);
    option_u32(L, index, "peer", &request->peer);
    option_text(L, index, "algorithm", &request->algorithm);
    option_u32(L, index, "channels", &request->channels);
    option_u32(L, index, "gateways", &request->gateways);
    option_u64(L, index, "tile", &request->tile_bytes);
    option_u64(L, index, "scratch", &request->scratch_limit);
    option_flag(L, index, "deterministic", &request->deterministic);
    option_u32(L, index, "max_sms", &request->max_sms);
    option_flag(L, index, "zero_sm", &request->zero_sm);
    option_number(L, index, "sm_price", &request->sm_price);
    option_text(L, index, "levels", &request->levels);
    option_text(L, index, "inner", &request->inner);
    option_text(L, index, "outer", &request->outer);
}

/* script = the text of an algorithm (docs/lua-algorithms.md), which is then the only candidate. */
static peal_status plan_request(lua_State *L, const peal_fabric *fabric, peal_request *request,
                                const char *text, const char *name, peal_diag *diag,
                                peal_table **table)
{
    peal_schedule *script = NULL;
    peal_status status = PEAL_OK;
    if (text)
        status = peal_schedule_load(module_ctx(L), fabric, request, text, strlen(text), name, diag,
                                    &script);
    if (status == PEAL_OK && script) {
        request->schedule = script;
        request->algorithm = peal_schedule_name(script);
    }
    if (status == PEAL_OK)
        status = peal_table_plan(module_ctx(L), fabric, request, diag, table);
    peal_schedule_destroy(script);
    return status;
}

/* peal.plan(fabric, {collective = "allreduce", bytes = {"8", "1G"}, ...}): planned, not compiled */
static int plan(lua_State *L)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    const peal_fabric *fabric = check_fabric(L, 1);
    const char *text = NULL, *name = "script";
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) {
        lua_newtable(L);
        lua_replace(L, 2);
    }
    read_request(L, 2, &request);
    option_text(L, 2, "script", &text);
    option_text(L, 2, "script_name", &name);
    struct handle *handle = push_handle(L, TABLE);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1); /* compile needs it */
    peal_table *table = NULL;
    module_check(L, plan_request(L, fabric, &request, text, name, &diag, &table), &diag);
    handle->pointer = table;
    return 1;
}

/* peal.decode(bytes [, name]): a plan file, or the text form */
static int decode(lua_State *L)
{
    peal_diag diag = PEAL_DIAG_INIT;
    size_t bytes;
    const char *data = luaL_checklstring(L, 1, &bytes), *name = luaL_optstring(L, 2, "plan");
    struct handle *handle = push_handle(L, TABLE);
    peal_table *table = NULL;
    int binary = bytes > 8 && memcmp(data, "PEALPLAN", 8) == 0;
    module_check(L,
                 binary ? peal_table_load(module_ctx(L), data, bytes, name, &diag, &table)
                        : peal_table_assemble(module_ctx(L), data, bytes, name, &diag, &table),
                 &diag);
    handle->pointer = table;
    return 1;
}

/* table:compile() */
static int compile(lua_State *L)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = check_table(L, 1);
    lua_getiuservalue(L, 1, 1);
    if (lua_isnil(L, -1))
        return luaL_error(L, "only a planned table is compiled");
    module_check(L, peal_table_compile(table, check_fabric(L, lua_gettop(L)), &diag), &diag);
    lua_settop(L, 1);
    return 1;
}

/* ---- what it tells -------------------------------------------------------------------------- */

static void push_row(lua_State *L, const peal_row_info *row)
{
    lua_newtable(L);
    set_text(L, "collective", peal_collective_name(row->collective));
    set_text(L, "algorithm", row->algorithm);
    set_text(L, "detail", row->detail);
    set_integer(L, "min_bytes", row->min_bytes);
    set_integer(L, "max_bytes", row->max_bytes);
    set_integer(L, "channels", row->channels);
    set_integer(L, "tile_bytes", row->tile_bytes);
    set_integer(L, "scratch_bytes", row->scratch_bytes);
    set_integer(L, "sms", row->sms);
    set_number(L, "time_us", row->time_us);
    set_number(L, "alpha_us", row->alpha_us);
    set_number(L, "algbw_gbs", row->algbw_gbs);
    set_number(L, "busbw_gbs", row->busbw_gbs);
    set_number(L, "bound_us", row->bound_us);
    set_flag(L, "latency_bound", row->latency_bound);
    set_text(L, "binding", row->binding);
}

static uint32_t rows_of(lua_State *L, const peal_table *table)
{
    peal_table_info info = {.size = sizeof info};
    module_check(L, peal_table_get(table, &info), NULL);
    return info.rows;
}

static int rows(lua_State *L)
{
    const peal_table *table = check_table(L, 1);
    lua_newtable(L);
    for (uint32_t i = 0, n = rows_of(L, table); i < n; i++) {
        peal_row_info row = {.size = sizeof row};
        module_check(L, peal_table_row(table, i, &row), NULL);
        push_row(L, &row);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* Rows count from 1, as lists do. */
static uint32_t row_at(lua_State *L, int index)
{
    lua_Integer row = luaL_optinteger(L, index, 1);
    luaL_argcheck(L, row >= 1 && row <= UINT32_MAX, index, "rows count from 1");
    return (uint32_t)(row - 1);
}

/* table:candidates([row]): best first */
static int candidates(lua_State *L)
{
    const peal_table *table = check_table(L, 1);
    uint32_t at = row_at(L, 2);
    lua_newtable(L);
    for (uint32_t i = 0;; i++) {
        peal_row_info row = {.size = sizeof row};
        if (peal_table_candidate(table, at, i, &row) != PEAL_OK)
            return 1;
        push_row(L, &row);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static int written(lua_State *L,
                   peal_status (*write)(const peal_table *, peal_write_fn, void *, peal_diag *))
{
    peal_diag diag = PEAL_DIAG_INIT;
    luaL_Buffer buffer;
    const peal_table *table = check_table(L, 1);
    luaL_buffinit(L, &buffer);
    module_check(L, write(table, write_buffer, &buffer, &diag), &diag);
    luaL_pushresult(&buffer);
    return 1;
}

static int dump(lua_State *L)
{
    return written(L, peal_table_print);
}

static int encode(lua_State *L)
{
    return written(L, peal_table_save);
}

static int id(lua_State *L)
{
    char text[33];
    module_check(L, peal_table_id(check_table(L, 1), row_at(L, 2), text), NULL);
    lua_pushstring(L, text);
    return 1;
}

/* ---- proof ------------------------------------------------------------------------------------
 */

/* Findings are collected before Lua sees any: an error must not jump out of the library. */
struct findings {
    peal_finding list[32];
    uint32_t count;
};

static void found(void *user, const peal_finding *finding)
{
    struct findings *all = user;
    if (all->count < sizeof all->list / sizeof all->list[0])
        all->list[all->count++] = *finding;
}

/* table:verify(): {ok =, ranks =, steps =, findings = {{kind =, rank =, text =}, ...}} */
static int verify(lua_State *L)
{
    struct findings all = {.count = 0};
    peal_verify_report report = {.size = sizeof report};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_table_verify(check_table(L, 1), found, &all, &report, &diag);
    if (status != PEAL_ERR_UNPROVEN)
        module_check(L, status, &diag);
    lua_newtable(L);
    set_flag(L, "ok", status == PEAL_OK);
    set_integer(L, "ranks", report.ranks);
    set_integer(L, "steps", report.steps);
    lua_newtable(L);
    for (uint32_t i = 0; i < all.count; i++) {
        lua_newtable(L);
        set_text(L, "kind", all.list[i].kind);
        set_number(L, "rank", (double)all.list[i].rank);
        set_number(L, "lane", (double)all.list[i].lane);
        set_number(L, "step", (double)all.list[i].step);
        set_text(L, "text", all.list[i].text);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "findings");
    return 1;
}

/* ---- simulation -------------------------------------------------------------------------------
 */

static void push_sim(lua_State *L, const peal_sim *sim, const peal_sim_info *info)
{
    lua_newtable(L);
    set_integer(L, "bytes", info->bytes);
    set_number(L, "time_us", info->time_us);
    set_number(L, "model_us", info->model_us);
    lua_newtable(L);
    for (uint32_t i = 0; i < info->links; i++) {
        peal_sim_link link = {.size = sizeof link};
        if (peal_sim_link_get(sim, i, &link) != PEAL_OK)
            break;
        lua_newtable(L);
        set_text(L, "resource", link.resource);
        set_number(L, "beta_gbs", link.beta_gbs);
        set_number(L, "busy_us", link.busy_us);
        set_number(L, "bytes", link.bytes);
        set_number(L, "share", link.share);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "links");
}

static int free_sim(lua_State *L)
{
    struct handle *handle = lua_touserdata(L, 1);
    peal_sim_destroy(handle->pointer);
    handle->pointer = NULL;
    return 0;
}

/* table:simulate{fabric =, row = 1, bytes =} */
static int simulate(lua_State *L)
{
    static const char *const words[] = {"fabric", "row", "bytes", NULL};
    peal_sim_params params = PEAL_SIM_PARAMS_INIT;
    peal_sim_info info = {.size = sizeof info};
    peal_diag diag = PEAL_DIAG_INIT;
    const peal_table *table = check_table(L, 1);
    uint32_t row = 1;
    lua_settop(L, 2);
    if (!lua_isnil(L, 2)) {
        check_options(L, 2, words);
        option_u32(L, 2, "row", &row);
        option_u64(L, 2, "bytes", &params.bytes);
        lua_getfield(L, 2, "fabric");
    } else {
        lua_pushnil(L);
    }
    if (lua_isnil(L, 3)) {
        lua_getiuservalue(L, 1, 1);
        lua_replace(L, 3);
    }
    const peal_fabric *fabric = check_fabric(L, 3);
    struct handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
    handle->pointer = NULL;
    lua_newtable(L);
    lua_pushcfunction(L, free_sim);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    peal_sim *sim = NULL;
    module_check(L, peal_simulate(module_ctx(L), fabric, table, row - 1, &params, &diag, &sim),
                 &diag);
    handle->pointer = sim;
    module_check(L, peal_sim_get(sim, &info), NULL);
    push_sim(L, sim, &info);
    return 1;
}

const luaL_Reg module_table_functions[] = {{"plan", plan}, {"decode", decode}, {NULL, NULL}};
const luaL_Reg module_table_methods[] = {{"compile", compile},
                                         {"rows", rows},
                                         {"candidates", candidates},
                                         {"dump", dump},
                                         {"encode", encode},
                                         {"id", id},
                                         {"verify", verify},
                                         {"simulate", simulate},
                                         {"run", module_run},
                                         {"bench", module_bench},
                                         {NULL, NULL}};
