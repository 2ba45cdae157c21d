/* SPDX-License-Identifier: Apache-2.0 */
/* The module itself: its context, its errors, and what its functions share. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

static const char context_key;

/* ---- context and errors ---------------------------------------------------------------------- */

static int close_context(lua_State *L)
{
    peal_ctx **ctx = lua_touserdata(L, 1);
    peal_ctx_destroy(*ctx);
    *ctx = NULL;
    return 0;
}

peal_ctx *module_ctx(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &context_key);
    peal_ctx **ctx = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (!ctx || !*ctx)
        luaL_error(L, "the module is closed");
    return *ctx;
}

/* Once for a state, however often it is required: objects made before hold the first one. */
static void open_context(lua_State *L)
{
    int made = lua_rawgetp(L, LUA_REGISTRYINDEX, &context_key) != LUA_TNIL;
    lua_pop(L, 1);
    if (made)
        return;
    peal_ctx **ctx = lua_newuserdatauv(L, sizeof *ctx, 0);
    *ctx = NULL;
    lua_newtable(L);
    lua_pushcfunction(L, close_context);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    if (peal_ctx_create(NULL, ctx) != PEAL_OK)
        luaL_error(L, "out of memory");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &context_key);
}

void module_check(lua_State *L, peal_status status, const peal_diag *diag)
{
    if (status == PEAL_OK)
        return;
    const char *text = diag && diag->text[0] ? diag->text : peal_status_text(status);
    if (diag && diag->path[0] && diag->line)
        luaL_error(L, "%s:%d: %s", diag->path, (int)diag->line, text);
    if (diag && diag->path[0])
        luaL_error(L, "%s: %s", diag->path, text);
    luaL_error(L, "%s", text);
}

/* ---- handles -----------------------------------------------------------------------------------
 */

struct handle *push_handle(lua_State *L, const char *type)
{
    struct handle *handle = lua_newuserdatauv(L, sizeof *handle, 1);
    handle->pointer = NULL;
    luaL_setmetatable(L, type);
    return handle;
}

static void *check_handle(lua_State *L, int index, const char *type)
{
    struct handle *handle = luaL_checkudata(L, index, type);
    if (!handle->pointer)
        luaL_error(L, "this %s is closed", type);
    return handle->pointer;
}

peal_fabric *check_fabric(lua_State *L, int index)
{
    return check_handle(L, index, FABRIC);
}

peal_table *check_table(lua_State *L, int index)
{
    return check_handle(L, index, TABLE);
}

static int close_fabric(lua_State *L)
{
    struct handle *handle = luaL_checkudata(L, 1, FABRIC);
    peal_fabric_destroy(handle->pointer);
    handle->pointer = NULL;
    return 0;
}

static int close_table(lua_State *L)
{
    struct handle *handle = luaL_checkudata(L, 1, TABLE);
    peal_table_destroy(handle->pointer);
    handle->pointer = NULL;
    return 0;
}

static void make_type(lua_State *L, const char *type, const luaL_Reg *methods, lua_CFunction close)
{
    luaL_newmetatable(L, type);
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, close);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, close);
    lua_setfield(L, -2, "__close");
    lua_pop(L, 1);
}

/* ---- options
 * --------------------------------------------------------------------------------------- */

void check_options(lua_State *L, int index, const char *const *words)
{
    luaL_checktype(L, index, LUA_TTABLE);
    lua_pushnil(L);
    while (lua_next(L, index)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        int known = 0;
        for (const char *const *word = words; *word; word++)
            known |= strcmp(*word, key) == 0;
        if (!known)
            luaL_error(L, "there is no option '%s'", key);
        lua_pop(L, 1);
    }
}

/* Pushes what the table itself has, and not what a metatable would give; its type. */
static int push_option(lua_State *L, int index, const char *name)
{
    lua_pushstring(L, name);
    return lua_rawget(L, index);
}

void option_u32(lua_State *L, int index, const char *name, uint32_t *out)
{
    if (push_option(L, index, name) != LUA_TNIL) {
        lua_Integer value = luaL_checkinteger(L, -1);
        if (value < 0 || value > UINT32_MAX)
            luaL_error(L, "'%s' is out of range", name);
        *out = (uint32_t)value;
    }
    lua_pop(L, 1);
}

uint64_t as_size(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TSTRING) {
        lua_Integer value = luaL_checkinteger(L, index);
        if (value < 0)
            luaL_error(L, "a size is not below 0");
        return (uint64_t)value;
    }
    char *end;
    const char *text = lua_tostring(L, index);
    double value = strtod(text, &end);
    double scale = *end == 'K'   ? 1024.0
                   : *end == 'M' ? 1048576.0
                   : *end == 'G' ? 1073741824.0
                                 : 1.0;
    if (end == text || (*end && end[1]) || (*end && scale <= 1) ||
        !(value >= 0 && value * scale < 1e18))
        luaL_error(L, "'%s' is not a size such as 64K, 1M or 2G", text);
    return (uint64_t)(value * scale);
}

void option_u64(lua_State *L, int index, const char *name, uint64_t *out)
{
    if (push_option(L, index, name) != LUA_TNIL)
        *out = as_size(L, lua_gettop(L));
    lua_pop(L, 1);
}

void option_number(lua_State *L, int index, const char *name, double *out)
{
    if (push_option(L, index, name) != LUA_TNIL)
        *out = luaL_checknumber(L, -1);
    lua_pop(L, 1);
}

/* The text lives as long as the table of options has it: a number that is made text would be
 * nobody's. */
void option_text(lua_State *L, int index, const char *name, const char **out)
{
    int type = push_option(L, index, name);
    if (type != LUA_TNIL && type != LUA_TSTRING)
        luaL_error(L, "'%s' is not a text", name);
    if (type == LUA_TSTRING)
        *out = lua_tostring(L, -1);
    lua_pop(L, 1);
}

void option_flag(lua_State *L, int index, const char *name, int *out)
{
    if (push_option(L, index, name) != LUA_TNIL)
        *out = lua_toboolean(L, -1);
    lua_pop(L, 1);
}

/* ---- results
 * ------------------------------------------------------------------------------------------ */

peal_status write_buffer(void *user, const char *data, size_t bytes)
{
    luaL_addlstring(user, data, bytes);
    return PEAL_OK;
}

void set_text(lua_State *L, const char *name, const char *value)
{
    lua_pushstring(L, value ? value : "");
    lua_setfield(L, -2, name);
}

void set_number(lua_State *L, const char *name, double value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

void set_integer(lua_State *L, const char *name, uint64_t value)
{
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, name);
}

void set_flag(lua_State *L, const char *name, int value)
{
    lua_pushboolean(L, value);
    lua_setfield(L, -2, name);
}

PEAL_API int luaopen_peal(lua_State *L)
{
    open_context(L);
    make_type(L, FABRIC, module_fabric_methods, close_fabric);
    make_type(L, TABLE, module_table_methods, close_table);
    lua_newtable(L);
    luaL_setfuncs(L, module_fabric_functions, 0);
    luaL_setfuncs(L, module_table_functions, 0);
    luaL_setfuncs(L, module_model_functions, 0);
    set_text(L, "version", peal_version());
    set_text(L, "features", peal_features());
    return 1;
}
