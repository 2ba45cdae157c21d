/* SPDX-License-Identifier: Apache-2.0 */
/* The string library: as Lua's, where each loop is charged for. */
#include "box.h"

#include <ctype.h>
#include <string.h>

static const char string_key;

/* A place counted from 1, or from the end when negative; before the first it is `low`. */
static size_t place(lua_Integer at, size_t bytes, size_t low)
{
    if (at > 0)
        return (uint64_t)at > bytes ? bytes + 1 : (size_t)at;
    if (at == 0 || at < -(lua_Integer)bytes)
        return low;
    return bytes + 1 - (size_t)-at;
}

static size_t end_place(lua_Integer at, size_t bytes)
{
    size_t end = place(at, bytes, 0);
    return end > bytes ? bytes : end;
}

static int string_len(lua_State *L)
{
    size_t bytes;
    (void)peal_arg_string(L, 1, &bytes);
    lua_pushinteger(L, (lua_Integer)bytes);
    return 1;
}

static int string_sub(lua_State *L)
{
    size_t bytes;
    const char *text = peal_arg_string(L, 1, &bytes);
    size_t from = place(peal_arg_integer(L, 2), bytes, 1);
    size_t to = end_place(peal_arg_integer_or(L, 3, -1), bytes);
    peal_sandbox_charge(L, to > from ? (to - from) / 16 : 0);
    lua_pushlstring(L, text + (from <= to ? from - 1 : 0), from <= to ? to - from + 1 : 0);
    return 1;
}

static int string_byte(lua_State *L)
{
    size_t bytes;
    const char *text = peal_arg_string(L, 1, &bytes);
    lua_Integer first = peal_arg_integer_or(L, 2, 1);
    size_t from = place(first, bytes, 1), to = end_place(peal_arg_integer_or(L, 3, first), bytes);
    if (from > to)
        return 0;
    if (to - from >= SANDBOX_VALUES)
        peal_lua_error(L, "more than %d results", SANDBOX_VALUES);
    if (!lua_checkstack(L, (int)(to - from) + 2))
        peal_lua_error(L, "too many results");
    for (size_t i = from; i <= to; i++)
        lua_pushinteger(L, (unsigned char)text[i - 1]);
    return (int)(to - from) + 1;
}

static int string_char(lua_State *L)
{
    int n = lua_gettop(L);
    struct box_text text;
    peal_text_begin(&text, L);
    for (int i = 1; i <= n; i++) {
        lua_Integer value = peal_arg_integer(L, i);
        char byte = (char)(unsigned char)value;
        if (value < 0 || value > 255)
            peal_arg_error(L, i, "a byte lies between 0 and 255");
        peal_text_put(&text, &byte, 1);
    }
    peal_text_push(&text);
    return 1;
}

static int string_rep(lua_State *L)
{
    size_t bytes, between = 0;
    const char *text = peal_arg_string(L, 1, &bytes), *separator = "";
    lua_Integer n = peal_arg_integer(L, 2);
    if (!lua_isnoneornil(L, 3))
        separator = peal_arg_string(L, 3, &between);
    struct box_text out;
    peal_text_begin(&out, L);
    if (n > 0 && bytes + between && (uint64_t)n > SANDBOX_STRING / (bytes + between))
        peal_lua_error(L, "a string of more than %d bytes", (int)SANDBOX_STRING);
    for (lua_Integer i = 0; bytes + between && i < n; i++) {
        peal_sandbox_charge(L, 1 + (bytes + between) / 16);
        peal_text_put(&out, separator, i ? between : 0);
        peal_text_put(&out, text, bytes);
    }
    peal_text_push(&out);
    return 1;
}

/* Each byte by way of `change`; reversed or not. */
static int each_byte(lua_State *L, int (*change)(int), int reversed)
{
    size_t bytes;
    const char *text = peal_arg_string(L, 1, &bytes);
    peal_sandbox_charge(L, bytes);
    char *out = lua_newuserdatauv(L, bytes + 1, 0);
    for (size_t i = 0; i < bytes; i++)
        out[i] = (char)change((unsigned char)text[reversed ? bytes - 1 - i : i]);
    lua_pushlstring(L, out, bytes);
    return 1;
}

static int same(int c)
{
    return c;
}

static int string_lower(lua_State *L)
{
    return each_byte(L, tolower, 0);
}

static int string_upper(lua_State *L)
{
    return each_byte(L, toupper, 0);
}

static int string_reverse(lua_State *L)
{
    return each_byte(L, same, 1);
}

/* Strings have methods: s:find(...). Numbers in strings are not calculated with. */
void peal_box_string(lua_State *L)
{
    static const struct sandbox_function functions[] = {
        {"len", string_len},         {"sub", string_sub},
        {"byte", string_byte},       {"char", string_char},
        {"rep", string_rep},         {"lower", string_lower},
        {"upper", string_upper},     {"reverse", string_reverse},
        {"format", peal_box_format}, {"find", peal_box_find},
        {"match", peal_box_match},   {"gmatch", peal_box_gmatch},
        {"gsub", peal_box_gsub},     {NULL, NULL}};
    peal_sandbox_table(L, functions);
    lua_pushstring(L, "");
    (void)peal_sandbox_metatable(L, &string_key);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
    lua_setglobal(L, "string");
}
