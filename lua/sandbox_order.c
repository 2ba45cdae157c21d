/* SPDX-License-Identifier: Apache-2.0 */
/* Walking tables in one order on every run: numbers in rising order, then strings by their bytes,
 * then false and true. Lua's own order follows addresses and a seed of the moment. */
#include "box.h"

#include <string.h>

/* A key with no order of its own ends the walk. */
static int rank_of(lua_State *L, int index)
{
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
        return 0;
    case LUA_TSTRING:
        return 1;
    case LUA_TBOOLEAN:
        return 2;
    default:
        peal_lua_error(L, "keys that are a %s have no fixed order",
                       lua_typename(L, lua_type(L, index)));
    }
}

static int is_before(lua_State *L, int a, int b)
{
    int left = rank_of(L, a), right = rank_of(L, b);
    if (left != right)
        return left < right;
    if (left == 2)
        return lua_toboolean(L, a) < lua_toboolean(L, b);
    if (left == 0)
        return lua_compare(L, a, b, LUA_OPLT);
    size_t bytes_a, bytes_b;
    const char *text_a = lua_tolstring(L, a, &bytes_a), *text_b = lua_tolstring(L, b, &bytes_b);
    size_t common = bytes_a < bytes_b ? bytes_a : bytes_b;
    int order = memcmp(text_a, text_b, common);
    peal_sandbox_charge(L, 2 + common / 64);
    return order ? order < 0 : bytes_a < bytes_b;
}

/* next(t, key): of the keys behind `key` the first. */
static int order_next(lua_State *L)
{
    peal_arg_type(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    peal_sandbox_charge_walk(L);
    lua_pushnil(L); /* 3: the best so far */
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        lua_pop(L, 1);
        peal_sandbox_charge(L, 4);
        int behind = lua_isnil(L, 2) ? (rank_of(L, 4), 1) : is_before(L, 2, 4);
        if (behind && (lua_isnil(L, 3) || is_before(L, 4, 3)))
            lua_copy(L, 4, 3);
    }
    lua_settop(L, 3);
    if (lua_isnil(L, 3))
        return 1;
    lua_pushvalue(L, 3);
    lua_rawget(L, 1);
    return 2;
}

/* Upvalues: the table, its keys, which comes next. Those that are nil by now are passed over. */
static int walk(lua_State *L)
{
    lua_Integer i = lua_tointeger(L, lua_upvalueindex(3));
    for (;;) {
        peal_sandbox_charge(L, 1);
        if (lua_rawgeti(L, lua_upvalueindex(2), i++) == LUA_TNIL)
            return 1;
        lua_pushvalue(L, -1);
        if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
            break;
        lua_pop(L, 2);
    }
    lua_pushinteger(L, i);
    lua_replace(L, lua_upvalueindex(3));
    return 2;
}

static int by_order(lua_State *L)
{
    lua_pushboolean(L, is_before(L, 1, 2));
    return 1;
}

/* Leaves the sorted keys of the table at index 1 on top. Tables that are lists, whose keys come in
 * order by themselves, are not sorted. */
static void push_keys(lua_State *L)
{
    lua_Integer n = 0;
    int sorted = 1;
    lua_createtable(L, (int)(lua_rawlen(L, 1) & 0xffff), 0);
    int keys = lua_gettop(L);
    lua_pushnil(L);
    lua_pushnil(L); /* the key before, and the key */
    while (lua_next(L, 1)) {
        lua_pop(L, 1);
        peal_sandbox_charge(L, 4);
        sorted = sorted && (n == 0 ? (rank_of(L, -1), 1) : is_before(L, keys + 1, keys + 2));
        lua_copy(L, keys + 2, keys + 1);
        lua_pushvalue(L, -1);
        lua_rawseti(L, keys, ++n);
    }
    lua_settop(L, keys);
    if (sorted)
        return;
    lua_pushcfunction(L, peal_box_sort);
    lua_pushvalue(L, keys);
    lua_pushcfunction(L, by_order);
    lua_call(L, 2, 0);
}

int peal_box_pairs(lua_State *L)
{
    peal_arg_any(L, 1);
    if (lua_type(L, 1) == LUA_TUSERDATA && lua_getmetatable(L, 1)) {
        lua_pushstring(L, "__pairs");
        if (lua_rawget(L, -2) == LUA_TFUNCTION) {
            lua_pushvalue(L, 1);
            lua_call(L, 1, 1);
            return 1;
        }
    }
    peal_arg_type(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    peal_sandbox_charge_walk(L);
    lua_pushvalue(L, 1);
    push_keys(L);
    lua_pushinteger(L, 1);
    lua_pushcclosure(L, walk, 3);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

static int next_index(lua_State *L)
{
    lua_Integer i = lua_tointeger(L, 2);
    i = i == LUA_MAXINTEGER ? i : i + 1;
    lua_pushinteger(L, i);
    return lua_geti(L, 1, i) == LUA_TNIL ? 1 : 2;
}

static int order_ipairs(lua_State *L)
{
    peal_arg_any(L, 1);
    lua_pushcfunction(L, next_index);
    lua_pushvalue(L, 1);
    lua_pushinteger(L, 0);
    return 3;
}

void peal_box_order(lua_State *L)
{
    static const struct sandbox_function functions[] = {
        {"next", order_next}, {"pairs", peal_box_pairs}, {"ipairs", order_ipairs}, {NULL, NULL}};
    peal_sandbox_add(L, functions);
}
