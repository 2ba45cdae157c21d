/* SPDX-License-Identifier: Apache-2.0 */
/* Machines: peal.load, peal.host, peal.parse, and what a fabric tells. */
#include "module.h"

/* peal.load(path [, {net = 400, nvlink = 900}]): other line rates (net: Gb/s) or bandwidths */
static int load(lua_State *L)
{
    peal_diag diag = PEAL_DIAG_INIT;
    const char *path = luaL_checkstring(L, 1);
    peal_swap swaps[PEAL_LINK_CLASS_COUNT];
    uint32_t count = 0;
    if (!lua_isnoneornil(L, 2)) {
        luaL_checktype(L, 2, LUA_TTABLE);
        lua_pushnil(L);
        while (lua_next(L, 2)) {
            peal_link_class link;
            if (lua_type(L, -2) != LUA_TSTRING || count == PEAL_LINK_CLASS_COUNT ||
                peal_link_class_parse(lua_tostring(L, -2), &link) != PEAL_OK)
                return luaL_error(L, "other links are {class = bandwidth}");
            swaps[count++] = (peal_swap){sizeof(peal_swap), link, luaL_checknumber(L, -1), -1};
            lua_pop(L, 1);
        }
    }
    struct handle *handle = push_handle(L, FABRIC);
    peal_fabric *fabric = NULL;
    module_check(L,
                 count ? peal_fabric_load_swapped(module_ctx(L), path, swaps, count, &diag, &fabric)
                       : peal_fabric_load(module_ctx(L), path, &diag, &fabric),
                 &diag);
    handle->pointer = fabric;
    return 1;
}

/* peal.parse(xml [, base_dir [, name]]) */
static int parse(lua_State *L)
{
    peal_diag diag = PEAL_DIAG_INIT;
    size_t bytes;
    const char *text = luaL_checklstring(L, 1, &bytes), *base = luaL_optstring(L, 2, NULL);
    struct handle *handle = push_handle(L, FABRIC);
    peal_fabric *fabric = NULL;
    module_check(L,
                 peal_fabric_parse(module_ctx(L), text, bytes, luaL_optstring(L, 3, "text"), base,
                                   &diag, &fabric),
                 &diag);
    handle->pointer = fabric;
    return 1;
}

/* peal.host(ranks) */
static int host(lua_State *L)
{
    peal_diag diag = PEAL_DIAG_INIT;
    lua_Integer ranks = luaL_checkinteger(L, 1);
    luaL_argcheck(L, ranks > 0 && ranks <= 65536, 1, "1 to 65536 ranks");
    struct handle *handle = push_handle(L, FABRIC);
    peal_fabric *fabric = NULL;
    module_check(L, peal_fabric_host(module_ctx(L), (uint32_t)ranks, &diag, &fabric), &diag);
    handle->pointer = fabric;
    return 1;
}

static int info(lua_State *L)
{
    peal_fabric_info about = {.size = sizeof about};
    module_check(L, peal_fabric_get(check_fabric(L, 1), &about), NULL);
    lua_newtable(L);
    set_text(L, "name", about.name);
    set_text(L, "dialect", about.dialect);
    set_integer(L, "ranks", about.ranks);
    set_integer(L, "hosts", about.hosts);
    set_integer(L, "numa_nodes", about.numa_nodes);
    set_integer(L, "nics", about.nics);
    set_integer(L, "links", about.links);
    return 1;
}

static int rank(lua_State *L)
{
    peal_rank_info about = {.size = sizeof about};
    lua_Integer index = luaL_checkinteger(L, 2);
    luaL_argcheck(L, index >= 0 && index <= UINT32_MAX, 2, "no rank");
    module_check(L, peal_fabric_rank(check_fabric(L, 1), (uint32_t)index, &about), NULL);
    lua_newtable(L);
    set_integer(L, "host", about.host);
    set_integer(L, "place", about.local);
    set_text(L, "busid", about.busid);
    set_text(L, "model", about.model);
    set_integer(L, "nvlink_domain", about.nvlink_domain);
    lua_pushinteger(L, about.numa);
    lua_setfield(L, -2, "numa");
    lua_pushinteger(L, about.nic);
    lua_setfield(L, -2, "nic");
    return 1;
}

static int path(lua_State *L)
{
    peal_path_info about = {.size = sizeof about};
    lua_Integer from = luaL_checkinteger(L, 2), to = luaL_checkinteger(L, 3);
    luaL_argcheck(L, from >= 0 && from <= UINT32_MAX, 2, "no rank");
    luaL_argcheck(L, to >= 0 && to <= UINT32_MAX, 3, "no rank");
    module_check(L, peal_fabric_path(check_fabric(L, 1), (uint32_t)from, (uint32_t)to, &about),
                 NULL);
    lua_newtable(L);
    set_text(L, "class", peal_link_class_name(about.link_class));
    set_number(L, "alpha_us", about.alpha_us);
    set_number(L, "beta_gbs", about.beta_gbs);
    set_flag(L, "direct", about.direct);
    set_text(L, "via", about.via);
    return 1;
}

static int links(lua_State *L)
{
    const peal_fabric *fabric = check_fabric(L, 1);
    peal_fabric_info about = {.size = sizeof about};
    module_check(L, peal_fabric_get(fabric, &about), NULL);
    lua_newtable(L);
    for (uint32_t i = 0; i < about.links; i++) {
        peal_link_info link = {.size = sizeof link};
        module_check(L, peal_fabric_link(fabric, i, &link), NULL);
        lua_newtable(L);
        set_text(L, "from", link.from);
        set_text(L, "to", link.to);
        set_text(L, "class", peal_link_class_name(link.link_class));
        set_number(L, "alpha_us", link.alpha_us);
        set_number(L, "beta_gbs", link.beta_gbs);
        set_text(L, "resource", link.resource);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* fabric:degrade(link, factor) */
static int degrade(lua_State *L)
{
    peal_diag diag = PEAL_DIAG_INIT;
    module_check(L,
                 peal_fabric_degrade(check_fabric(L, 1), luaL_checkstring(L, 2),
                                     luaL_checknumber(L, 3), &diag),
                 &diag);
    lua_settop(L, 1);
    return 1;
}

const luaL_Reg module_fabric_functions[] = {
    {"load", load}, {"parse", parse}, {"host", host}, {NULL, NULL}};
const luaL_Reg module_fabric_methods[] = {{"info", info},   {"rank", rank},       {"path", path},
                                          {"links", links}, {"degrade", degrade}, {NULL, NULL}};
