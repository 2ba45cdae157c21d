/* SPDX-License-Identifier: Apache-2.0 */
/* Coroutines: they share the budget of their state, and inherit its hooks. */
#include "box.h"

#define MAKE_UNITS 200u  /* a coroutine */
#define SWITCH_UNITS 80u /* to it, and back */

static lua_State *thread_at(lua_State *L, int arg)
{
    peal_arg_type(L, arg, LUA_TTHREAD);
    return lua_tothread(L, arg);
}

/* Moves n values from L, resumes, and moves what comes back: how many, or -1 with an error. */
static int resume(lua_State *L, lua_State *co, int n)
{
    int results;
    peal_sandbox_charge(L, SWITCH_UNITS);
    if (!lua_checkstack(co, n))
        peal_lua_error(L, "too many arguments");
    if (lua_status(co) == LUA_OK && lua_gettop(co) == 0) {
        lua_pushstring(L, "a dead coroutine was resumed");
        return -1;
    }
    lua_xmove(L, co, n);
    int status = lua_resume(co, L, n, &results);
    if (status == LUA_OK || status == LUA_YIELD) {
        if (!lua_checkstack(L, results + 1))
            peal_lua_error(L, "too many results");
        lua_xmove(co, L, results);
        return results;
    }
    lua_xmove(co, L, 1);
    peal_sandbox_charge(L, ERROR_UNITS);
    return -1;
}

static int coroutine_create(lua_State *L)
{
    peal_arg_type(L, 1, LUA_TFUNCTION);
    peal_sandbox_charge(L, MAKE_UNITS);
    lua_State *co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    return 1;
}

static int coroutine_resume(lua_State *L)
{
    int n = resume(L, thread_at(L, 1), lua_gettop(L) - 1);
    lua_pushboolean(L, n >= 0);
    n = n < 0 ? 1 : n;
    lua_insert(L, -(n + 1));
    return n + 1;
}

static int wrapped(lua_State *L)
{
    int n = resume(L, lua_tothread(L, lua_upvalueindex(1)), lua_gettop(L));
    if (n < 0)
        return lua_error(L);
    return n;
}

static int coroutine_wrap(lua_State *L)
{
    (void)coroutine_create(L);
    lua_pushcclosure(L, wrapped, 1);
    return 1;
}

static int coroutine_yield(lua_State *L)
{
    if (!lua_isyieldable(L))
        peal_lua_error(L, "nothing to yield to");
    return lua_yield(L, lua_gettop(L));
}

static const char *status_name(lua_State *L, lua_State *co)
{
    lua_Debug ar;
    if (L == co)
        return "running";
    if (lua_status(co) == LUA_YIELD)
        return "suspended";
    if (lua_status(co) != LUA_OK)
        return "dead";
    if (lua_getstack(co, 0, &ar))
        return "normal";
    return lua_gettop(co) == 0 ? "dead" : "suspended";
}

static int coroutine_status(lua_State *L)
{
    lua_pushstring(L, status_name(L, thread_at(L, 1)));
    return 1;
}

static int coroutine_running(lua_State *L)
{
    lua_pushboolean(L, lua_pushthread(L));
    return 2;
}

static int coroutine_isyieldable(lua_State *L)
{
    lua_pushboolean(L, lua_isyieldable(L));
    return 1;
}

void peal_box_coroutine(lua_State *L)
{
    static const struct sandbox_function functions[] = {{"create", coroutine_create},
                                                        {"resume", coroutine_resume},
                                                        {"wrap", coroutine_wrap},
                                                        {"yield", coroutine_yield},
                                                        {"status", coroutine_status},
                                                        {"running", coroutine_running},
                                                        {"isyieldable", coroutine_isyieldable},
                                                        {NULL, NULL}};
    peal_sandbox_table(L, functions);
    lua_setglobal(L, "coroutine");
}
