/* SPDX-License-Identifier: Apache-2.0 */
/* The table library. */
#include "box.h"

#include <string.h>

static lua_Integer length_of(lua_State *L, int index)
{
    peal_arg_type(L, index, LUA_TTABLE);
    return (lua_Integer)lua_rawlen(L, index);
}

static int table_insert(lua_State *L)
{
    lua_Integer end = length_of(L, 1) + 1, at = end;
    int n = lua_gettop(L);
    if (n != 2 && n != 3)
        peal_lua_error(L, "insert takes a table, perhaps a place, and a value");
    if (n == 3) {
        at = peal_arg_integer(L, 2);
        if (at < 1 || at > end)
            peal_arg_error(L, 2, "the place is outside of the list");
    }
    peal_sandbox_charge(L, 2 * (uint64_t)(end - at));
    for (lua_Integer i = end; i > at; i--) {
        lua_rawgeti(L, 1, i - 1);
        lua_rawseti(L, 1, i);
    }
    lua_rawseti(L, 1, at);
    return 0;
}

static int table_remove(lua_State *L)
{
    lua_Integer end = length_of(L, 1), at = peal_arg_integer_or(L, 2, end);
    if (lua_gettop(L) > 1 && (at < 1 || at > end + 1) && !(end == 0 && at == 0))
        peal_arg_error(L, 2, "the place is outside of the list");
    lua_rawgeti(L, 1, at);
    peal_sandbox_charge(L, end > at ? 2 * (uint64_t)(end - at) : 0);
    for (; at < end; at++) {
        lua_rawgeti(L, 1, at + 1);
        lua_rawseti(L, 1, at);
    }
    if (at >= 1 && at <= end) {
        lua_pushnil(L);
        lua_rawseti(L, 1, at);
    }
    return 1;
}

static int table_concat(lua_State *L)
{
    size_t between = 0;
    const char *separator = lua_isnoneornil(L, 2) ? "" : peal_arg_string(L, 2, &between);
    lua_Integer i = peal_arg_integer_or(L, 3, 1);
    lua_Integer last = lua_isnoneornil(L, 4) ? length_of(L, 1) : peal_arg_integer(L, 4);
    struct box_text out;
    peal_arg_type(L, 1, LUA_TTABLE);
    peal_text_begin(&out, L);
    for (; i <= last; i++) {
        size_t bytes;
        lua_rawgeti(L, 1, i);
        if (!lua_isstring(L, -1))
            peal_lua_error(L, "value %I of the list is a %s, not text", i,
                           lua_typename(L, lua_type(L, -1)));
        const char *text = lua_tolstring(L, -1, &bytes);
        peal_sandbox_charge(L, 2 + (bytes + between) / 16);
        peal_text_put(&out, text, bytes);
        if (i < last)
            peal_text_put(&out, separator, between);
        lua_pop(L, 1);
        if (i == LUA_MAXINTEGER)
            break;
    }
    peal_text_push(&out);
    return 1;
}

static int table_pack(lua_State *L)
{
    int n = lua_gettop(L);
    lua_createtable(L, n, 1);
    lua_insert(L, 1);
    for (int i = n; i >= 1; i--)
        lua_rawseti(L, 1, i);
    lua_pushinteger(L, n);
    lua_setfield(L, 1, "n");
    return 1;
}

static int table_unpack(lua_State *L)
{
    lua_Integer first = peal_arg_integer_or(L, 2, 1);
    lua_Integer last = lua_isnoneornil(L, 3) ? length_of(L, 1) : peal_arg_integer(L, 3);
    peal_arg_type(L, 1, LUA_TTABLE);
    if (first > last)
        return 0;
    uint64_t n = (uint64_t)last - (uint64_t)first;
    if (n >= SANDBOX_VALUES)
        peal_lua_error(L, "more than %d results", SANDBOX_VALUES);
    if (!lua_checkstack(L, (int)n + 2))
        peal_lua_error(L, "too many results");
    for (uint64_t i = 0; i <= n; i++)
        lua_rawgeti(L, 1, first + (lua_Integer)i);
    return (int)n + 1;
}

static int table_move(lua_State *L)
{
    lua_Integer first = peal_arg_integer(L, 2), last = peal_arg_integer(L, 3);
    lua_Integer to = peal_arg_integer(L, 4);
    int target = lua_isnoneornil(L, 5) ? 1 : 5;
    peal_arg_type(L, 1, LUA_TTABLE);
    peal_arg_type(L, target, LUA_TTABLE);
    lua_settop(L, 5);
    if (last >= first) {
        if (!(first > 0 || last < LUA_MAXINTEGER + first) || to > LUA_MAXINTEGER - (last - first))
            peal_lua_error(L, "too many values to move");
        lua_Integer n = last - first + 1;
        int forward = to > last || to <= first || target == 5;
        peal_sandbox_charge(L, 2 * (uint64_t)n);
        for (lua_Integer k = 0; k < n; k++) {
            lua_Integer i = forward ? k : n - 1 - k;
            lua_rawgeti(L, 1, first + i);
            lua_rawseti(L, target, to + i);
        }
    }
    lua_pushvalue(L, target);
    return 1;
}

/* ---- sort: a merge sort, stable, and safe with orders that are none ---------------------- */

/* Of the values at index 3 (the table that is read) whether i is not behind j. */
static int in_order(lua_State *L, int from, lua_Integer i, lua_Integer j)
{
    int behind;
    peal_sandbox_charge(L, 4);
    if (lua_isnil(L, 2)) {
        lua_rawgeti(L, from, j);
        lua_rawgeti(L, from, i);
        if (lua_type(L, -1) == LUA_TSTRING && lua_type(L, -2) == LUA_TSTRING)
            peal_sandbox_charge(L, lua_rawlen(L, -1) / 16);
        behind = lua_compare(L, -2, -1, LUA_OPLT);
        lua_pop(L, 2);
    } else {
        lua_pushvalue(L, 2);
        lua_rawgeti(L, from, j);
        lua_rawgeti(L, from, i);
        lua_call(L, 2, 1);
        behind = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    return !behind;
}

static void merge(lua_State *L, int from, int to, lua_Integer low, lua_Integer middle,
                  lua_Integer high)
{
    lua_Integer i = low, j = middle;
    for (lua_Integer k = low; k < high; k++) {
        int left = i < middle && (j >= high || in_order(L, from, i, j));
        peal_sandbox_charge(L, 2);
        lua_rawgeti(L, from, left ? i++ : j++);
        lua_rawseti(L, to, k);
    }
}

int peal_box_sort(lua_State *L)
{
    lua_Integer n = length_of(L, 1);
    if (!lua_isnoneornil(L, 2))
        peal_arg_type(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    lua_createtable(L, n < 65536 ? (int)n : 65536, 0);
    int from = 1, to = 3;
    for (lua_Integer width = 1; width < n; width *= 2) {
        for (lua_Integer low = 1; low <= n; low += 2 * width) {
            lua_Integer middle = low + width > n + 1 ? n + 1 : low + width;
            lua_Integer high = low + 2 * width > n + 1 ? n + 1 : low + 2 * width;
            merge(L, from, to, low, middle, high);
        }
        from = 4 - from;
        to = 4 - to;
    }
    peal_sandbox_charge(L, (uint64_t)n);
    for (lua_Integer i = 1; from != 1 && i <= n; i++) {
        lua_rawgeti(L, from, i);
        lua_rawseti(L, 1, i);
    }
    return 0;
}

void peal_box_table(lua_State *L)
{
    static const struct sandbox_function functions[] = {
        {"insert", table_insert}, {"remove", table_remove},
        {"concat", table_concat}, {"pack", table_pack},
        {"unpack", table_unpack}, {"move", table_move},
        {"sort", peal_box_sort},  {NULL, NULL}};
    peal_sandbox_table(L, functions);
    lua_setglobal(L, "table");
}
