/* SPDX-License-Identifier: Apache-2.0 */
/* The math library: what gives the same bits everywhere, and exp and log, which nearly do. */
#include "box.h"

#include <math.h>

/* A float that is an integer becomes one. */
static void push_whole(lua_State *L, lua_Number value)
{
    lua_Integer whole;
    if (lua_numbertointeger(value, &whole))
        lua_pushinteger(L, whole);
    else
        lua_pushnumber(L, value);
}

static int math_floor(lua_State *L)
{
    if (lua_isinteger(L, 1))
        lua_settop(L, 1);
    else
        push_whole(L, floor(peal_arg_number(L, 1)));
    return 1;
}

static int math_ceil(lua_State *L)
{
    if (lua_isinteger(L, 1))
        lua_settop(L, 1);
    else
        push_whole(L, ceil(peal_arg_number(L, 1)));
    return 1;
}

static int math_abs(lua_State *L)
{
    if (lua_isinteger(L, 1)) {
        lua_Integer value = lua_tointeger(L, 1);
        lua_pushinteger(L, value < 0 ? (lua_Integer)(0 - (lua_Unsigned)value) : value);
    } else {
        lua_pushnumber(L, fabs(peal_arg_number(L, 1)));
    }
    return 1;
}

static int extreme(lua_State *L, int most)
{
    int best = 1, n = lua_gettop(L);
    (void)peal_arg_number(L, 1);
    for (int i = 2; i <= n; i++) {
        (void)peal_arg_number(L, i);
        if (most ? lua_compare(L, best, i, LUA_OPLT) : lua_compare(L, i, best, LUA_OPLT))
            best = i;
    }
    lua_pushvalue(L, best);
    return 1;
}

static int math_max(lua_State *L)
{
    return extreme(L, 1);
}

static int math_min(lua_State *L)
{
    return extreme(L, 0);
}

static int math_sqrt(lua_State *L)
{
    lua_pushnumber(L, sqrt(peal_arg_number(L, 1)));
    return 1;
}

static int math_exp(lua_State *L)
{
    lua_pushnumber(L, exp(peal_arg_number(L, 1)));
    return 1;
}

static int math_log(lua_State *L)
{
    lua_Number value = peal_arg_number(L, 1);
    if (lua_isnoneornil(L, 2))
        lua_pushnumber(L, log(value));
    else if (peal_arg_number(L, 2) == 2)
        lua_pushnumber(L, log2(value));
    else if (lua_tonumber(L, 2) == 10)
        lua_pushnumber(L, log10(value));
    else
        lua_pushnumber(L, log(value) / log(lua_tonumber(L, 2)));
    return 1;
}

static int math_fmod(lua_State *L)
{
    lua_pushnumber(L, fmod(peal_arg_number(L, 1), peal_arg_number(L, 2)));
    return 1;
}

static int math_modf(lua_State *L)
{
    lua_Number value = peal_arg_number(L, 1);
    lua_Number whole = value < 0 ? ceil(value) : floor(value);
    lua_pushnumber(L, whole);
    lua_pushnumber(L, isinf(value) ? 0 : value - whole);
    return 2;
}

static int math_tointeger(lua_State *L)
{
    int is;
    peal_arg_any(L, 1);
    lua_Integer value = lua_tointegerx(L, 1, &is);
    if (is && lua_type(L, 1) == LUA_TNUMBER)
        lua_pushinteger(L, value);
    else
        lua_pushnil(L);
    return 1;
}

static int math_type(lua_State *L)
{
    peal_arg_any(L, 1);
    if (lua_type(L, 1) == LUA_TNUMBER)
        lua_pushstring(L, lua_isinteger(L, 1) ? "integer" : "float");
    else
        lua_pushnil(L);
    return 1;
}

static int math_ult(lua_State *L)
{
    lua_pushboolean(L, (lua_Unsigned)peal_arg_integer(L, 1) < (lua_Unsigned)peal_arg_integer(L, 2));
    return 1;
}

/* xorshift128+ (Vigna 2017). */
static uint64_t next_random(struct sandbox *box)
{
    uint64_t a = box->random[0], b = box->random[1];
    box->random[0] = b;
    a ^= a << 23;
    box->random[1] = a ^ b ^ (a >> 18) ^ (b >> 5);
    return box->random[1] + b;
}

static int math_random(lua_State *L)
{
    uint64_t value = next_random(peal_sandbox_of(L));
    if (lua_gettop(L) == 0) {
        lua_pushnumber(L, (lua_Number)(value >> 11) / 9007199254740992.0);
        return 1;
    }
    lua_Integer low = lua_gettop(L) > 1 ? peal_arg_integer(L, 1) : 1;
    lua_Integer high = peal_arg_integer(L, lua_gettop(L) > 1 ? 2 : 1);
    if (low > high)
        peal_arg_error(L, 1, "an empty range");
    uint64_t range = (uint64_t)high - (uint64_t)low + 1;
    lua_pushinteger(L, (lua_Integer)((uint64_t)low + (range ? value % range : value)));
    return 1;
}

void peal_box_math(lua_State *L)
{
    static const struct sandbox_function functions[] = {{"floor", math_floor},
                                                        {"ceil", math_ceil},
                                                        {"abs", math_abs},
                                                        {"max", math_max},
                                                        {"min", math_min},
                                                        {"sqrt", math_sqrt},
                                                        {"exp", math_exp},
                                                        {"log", math_log},
                                                        {"fmod", math_fmod},
                                                        {"modf", math_modf},
                                                        {"tointeger", math_tointeger},
                                                        {"type", math_type},
                                                        {"ult", math_ult},
                                                        {NULL, NULL}};
    peal_sandbox_table(L, functions);
    if (peal_sandbox_of(L)->limits.seeded) {
        lua_pushcfunction(L, math_random);
        lua_setfield(L, -2, "random");
    }
    lua_pushnumber(L, (lua_Number)HUGE_VAL);
    lua_setfield(L, -2, "huge");
    lua_pushnumber(L, 3.141592653589793);
    lua_setfield(L, -2, "pi");
    lua_pushinteger(L, LUA_MAXINTEGER);
    lua_setfield(L, -2, "maxinteger");
    lua_pushinteger(L, LUA_MININTEGER);
    lua_setfield(L, -2, "mininteger");
    lua_setglobal(L, "math");
}
