/* SPDX-License-Identifier: Apache-2.0 */
/* The basic functions of a script. */
#include "box.h"

#include <ctype.h>
#include <string.h>

static int base_assert(lua_State *L)
{
    peal_arg_any(L, 1);
    if (lua_toboolean(L, 1))
        return lua_gettop(L);
    lua_remove(L, 1);
    lua_settop(L, 1);
    if (lua_isnil(L, 1))
        peal_lua_error(L, "assertion failed");
    return lua_error(L);
}

static int base_error(lua_State *L)
{
    lua_Integer level = peal_arg_integer_or(L, 2, 1);
    lua_Debug ar;
    lua_settop(L, 1);
    if (lua_type(L, 1) == LUA_TSTRING && level > 0 && level < 100 &&
        lua_getstack(L, (int)level, &ar) && lua_getinfo(L, "Sl", &ar) && ar.currentline > 0) {
        lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
        lua_pushvalue(L, 1);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int base_select(lua_State *L)
{
    int n = lua_gettop(L);
    if (lua_type(L, 1) == LUA_TSTRING && *lua_tostring(L, 1) == '#') {
        lua_pushinteger(L, n - 1);
        return 1;
    }
    lua_Integer i = peal_arg_integer(L, 1);
    i = i < 0 ? n + i : i > n ? n : i;
    if (i < 1)
        peal_arg_error(L, 1, "out of range");
    return n - (int)i;
}

/* ---- text of values ------------------------------------------------------------------ */

const char *peal_sandbox_tostring(lua_State *L, int index, size_t *bytes_out)
{
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
    case LUA_TSTRING:
        lua_pushvalue(L, index);
        break;
    case LUA_TBOOLEAN:
        lua_pushstring(L, lua_toboolean(L, index) ? "true" : "false");
        break;
    case LUA_TUSERDATA:
        if (lua_getmetatable(L, index)) {
            lua_pushstring(L, "__name");
            lua_rawget(L, -2);
            lua_remove(L, -2);
            if (lua_type(L, -1) == LUA_TSTRING)
                break;
            lua_pop(L, 1);
        }
        lua_pushstring(L, "object");
        break;
    default:
        lua_pushstring(L, lua_typename(L, lua_type(L, index)));
    }
    return lua_tolstring(L, -1, bytes_out);
}

static int base_tostring(lua_State *L)
{
    peal_arg_any(L, 1);
    (void)peal_sandbox_tostring(L, 1, NULL);
    return 1;
}

/* An integer in another base; 0: it is none. */
static int read_based(const char *text, size_t bytes, lua_Integer base, lua_Integer *value)
{
    const char *end = text + bytes;
    uint64_t found = 0;
    while (text < end && isspace((unsigned char)*text))
        text++;
    int negative = text < end && *text == '-';
    text += negative;
    if (text == end || !isalnum((unsigned char)*text))
        return 0;
    for (; text < end && isalnum((unsigned char)*text); text++) {
        int digit =
            isdigit((unsigned char)*text) ? *text - '0' : toupper((unsigned char)*text) - 'A' + 10;
        if (digit >= base)
            return 0;
        found = found * (uint64_t)base + (uint64_t)digit;
    }
    while (text < end && isspace((unsigned char)*text))
        text++;
    *value = (lua_Integer)(negative ? 0 - found : found);
    return text == end;
}

static int base_tonumber(lua_State *L)
{
    size_t bytes;
    if (lua_isnoneornil(L, 2)) {
        peal_arg_any(L, 1);
        if (lua_type(L, 1) == LUA_TNUMBER) {
            lua_settop(L, 1);
            return 1;
        }
        const char *text = lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &bytes) : NULL;
        if (text)
            peal_sandbox_charge(L, 4 + bytes / 4);
        if (!text || lua_stringtonumber(L, text) != bytes + 1)
            lua_pushnil(L);
        return 1;
    }
    lua_Integer value, base = peal_arg_integer(L, 2);
    peal_arg_type(L, 1, LUA_TSTRING);
    if (base < 2 || base > 36)
        peal_arg_error(L, 2, "a base lies between 2 and 36");
    const char *text = lua_tolstring(L, 1, &bytes);
    peal_sandbox_charge(L, bytes / 4);
    if (read_based(text, bytes, base, &value))
        lua_pushinteger(L, value);
    else
        lua_pushnil(L);
    return 1;
}

static int base_print(lua_State *L)
{
    struct sandbox *box = peal_sandbox_of(L);
    int n = lua_gettop(L);
    struct box_text line;
    if (!box->limits.print)
        return 0;
    peal_text_begin(&line, L);
    for (int i = 1; i <= n; i++) {
        size_t bytes;
        const char *text = peal_sandbox_tostring(L, i, &bytes);
        peal_text_put(&line, "\t", i > 1);
        peal_text_put(&line, text, bytes);
        lua_pop(L, 1);
    }
    peal_sandbox_charge(L, 256 + line.used); /* what receives it may be slow */
    box->limits.print(box->limits.print_user, line.data, line.used);
    return 0;
}

static int base_rawequal(lua_State *L)
{
    peal_arg_any(L, 1);
    peal_arg_any(L, 2);
    lua_pushboolean(L, lua_rawequal(L, 1, 2));
    return 1;
}

static int base_type(lua_State *L)
{
    peal_arg_any(L, 1);
    lua_pushstring(L, lua_typename(L, lua_type(L, 1)));
    return 1;
}

/* ---- catching errors ------------------------------------------------------------------ */

/* first: of the results. A spent budget is not caught. */
static int after_call(lua_State *L, int status, int first)
{
    if (status == LUA_OK || status == LUA_YIELD)
        return lua_gettop(L) - first + 1;
    peal_sandbox_charge(L, ERROR_UNITS);
    lua_pushboolean(L, 0);
    lua_pushvalue(L, -2);
    return 2;
}

static int go_on(lua_State *L, int status, lua_KContext first)
{
    return after_call(L, status, (int)first);
}

static int base_pcall(lua_State *L)
{
    peal_arg_any(L, 1);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    return go_on(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 1, go_on), 1);
}

/* Around a script's handler (upvalue 1), which no hook would watch when the error comes from one.
 */
static int handle(lua_State *L)
{
    struct sandbox *box = peal_sandbox_of(L);
    box->left -= ERROR_UNITS;
    if (peal_box_is_spent(box))
        return 1;
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

static int base_xpcall(lua_State *L)
{
    int n = lua_gettop(L);
    peal_arg_type(L, 2, LUA_TFUNCTION);
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, handle, 1);
    lua_replace(L, 2);
    lua_pushboolean(L, 1);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2); /* function, handler, true, function, arguments */
    return go_on(L, lua_pcallk(L, n - 2, LUA_MULTRET, 2, 3, go_on), 3);
}

void peal_box_base(lua_State *L)
{
    static const struct sandbox_function functions[] = {{"assert", base_assert},
                                                        {"error", base_error},
                                                        {"select", base_select},
                                                        {"tostring", base_tostring},
                                                        {"tonumber", base_tonumber},
                                                        {"print", base_print},
                                                        {"rawequal", base_rawequal},
                                                        {"type", base_type},
                                                        {"pcall", base_pcall},
                                                        {"xpcall", base_xpcall},
                                                        {NULL, NULL}};
    peal_sandbox_add(L, functions);
    lua_pushstring(L, LUA_VERSION);
    lua_setfield(L, -2, "_VERSION");
}
