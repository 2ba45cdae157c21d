/* SPDX-License-Identifier: Apache-2.0 */
/* What C functions take from scripts and hand to them. */
#include "box.h"

#include <string.h>

void peal_lua_error(lua_State *L, const char *format, ...)
{
    lua_Debug ar;
    va_list args;
    int placed = lua_getstack(L, 1, &ar) && lua_getinfo(L, "Sl", &ar) && ar.currentline > 0;
    lua_pushfstring(L, placed ? "%s:%d: " : "", ar.short_src, placed ? ar.currentline : 0);
    va_start(args, format);
    lua_pushvfstring(L, format, args);
    va_end(args);
    lua_concat(L, 2);
    (void)lua_error(L);
    for (;;) /* lua_error does not return, which its declaration does not say */
        ;
}

void peal_arg_error(lua_State *L, int arg, const char *text)
{
    lua_Debug ar;
    const char *name = "?", *method = "";
    if (lua_getstack(L, 0, &ar) && lua_getinfo(L, "n", &ar)) {
        name = ar.name ? ar.name : name;
        method = ar.namewhat;
    }
    if (!strcmp(method, "method") && --arg == 0)
        peal_lua_error(L, "calling '%s' on a wrong object (%s)", name, text);
    peal_lua_error(L, "argument %d of '%s': %s", arg, name, text);
}

static void wrong_type(lua_State *L, int arg, const char *wanted)
{
    const char *got = lua_type(L, arg) == LUA_TNONE ? "nothing" : lua_typename(L, lua_type(L, arg));
    peal_arg_error(L, arg, lua_pushfstring(L, "a %s was expected, not %s", wanted, got));
}

void peal_arg_any(lua_State *L, int arg)
{
    if (lua_type(L, arg) == LUA_TNONE)
        peal_arg_error(L, arg, "a value was expected");
}

void peal_arg_type(lua_State *L, int arg, int type)
{
    if (lua_type(L, arg) != type)
        wrong_type(L, arg, lua_typename(L, type));
}

lua_Integer peal_arg_integer(lua_State *L, int arg)
{
    int is = 0;
    lua_Integer value = lua_type(L, arg) == LUA_TNUMBER ? lua_tointegerx(L, arg, &is) : 0;
    if (!is && lua_type(L, arg) == LUA_TNUMBER)
        peal_arg_error(L, arg, "the number is no integer");
    if (!is)
        wrong_type(L, arg, "number");
    return value;
}

lua_Integer peal_arg_integer_or(lua_State *L, int arg, lua_Integer absent)
{
    return lua_isnoneornil(L, arg) ? absent : peal_arg_integer(L, arg);
}

lua_Number peal_arg_number(lua_State *L, int arg)
{
    if (lua_type(L, arg) != LUA_TNUMBER)
        wrong_type(L, arg, "number");
    return lua_tonumber(L, arg);
}

const char *peal_arg_string(lua_State *L, int arg, size_t *bytes_out)
{
    if (lua_type(L, arg) != LUA_TSTRING && lua_type(L, arg) != LUA_TNUMBER)
        wrong_type(L, arg, "string");
    return lua_tolstring(L, arg, bytes_out);
}

void peal_sandbox_add(lua_State *L, const struct sandbox_function *functions)
{
    for (; functions->name; functions++) {
        lua_pushcfunction(L, functions->fn);
        lua_setfield(L, -2, functions->name);
    }
}

void peal_sandbox_table(lua_State *L, const struct sandbox_function *functions)
{
    lua_createtable(L, 0, 8);
    peal_sandbox_add(L, functions);
}

int peal_sandbox_metatable(lua_State *L, const void *key)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) == LUA_TTABLE)
        return 0;
    lua_pop(L, 1);
    lua_createtable(L, 0, 8);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
    return 1;
}

/* ---- things that only read ------------------------------------------------------------- */

static const char frozen_key;

static int frozen_get(lua_State *L)
{
    lua_getiuservalue(L, 1, 1);
    lua_pushvalue(L, 2);
    lua_rawget(L, -2);
    return 1;
}

static int frozen_set(lua_State *L)
{
    lua_getiuservalue(L, 1, 2);
    const char *what = lua_touserdata(L, -1);
    peal_lua_error(L, "%s cannot be changed", what);
}

static int frozen_length(lua_State *L)
{
    lua_getiuservalue(L, 1, 1);
    lua_pushinteger(L, (lua_Integer)lua_rawlen(L, -1));
    return 1;
}

static int frozen_pairs(lua_State *L)
{
    lua_pushcfunction(L, peal_box_pairs);
    lua_getiuservalue(L, 1, 1);
    lua_call(L, 1, 1); /* the walk alone: the table stays out of reach */
    return 1;
}

void peal_sandbox_freeze(lua_State *L, const char *what)
{
    static const struct sandbox_function meta[] = {{"__index", frozen_get},
                                                   {"__newindex", frozen_set},
                                                   {"__len", frozen_length},
                                                   {"__pairs", frozen_pairs},
                                                   {NULL, NULL}};
    union {
        const char *text;
        void *pointer;
    } name = {what};
    (void)lua_newuserdatauv(L, 0, 2);
    lua_insert(L, -2);
    lua_setiuservalue(L, -2, 1);
    lua_pushlightuserdata(L, name.pointer);
    lua_setiuservalue(L, -2, 2);
    if (peal_sandbox_metatable(L, &frozen_key))
        peal_sandbox_add(L, meta);
    lua_setmetatable(L, -2);
}
