/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `require "peal"` in a stock Lua 5.4 (docs/lua-module.md). Nothing but the public interface of
 * libpeal; errors of the library are errors of Lua, with file, line and text.
 */
#ifndef PEAL_BINDINGS_MODULE_H
#define PEAL_BINDINGS_MODULE_H

#include <lauxlib.h>
#include <lua.h>
#include <peal/peal.h>

#define FABRIC "peal.fabric"
#define TABLE "peal.table"

/* The context lives in the registry; handles keep it by the order of closing: a state's objects are
 * finalized in the reverse order of their making, and it is made first. */
peal_ctx *module_ctx(lua_State *L);
/* Raises the diag when status is not PEAL_OK. */
void module_check(lua_State *L, peal_status status, const peal_diag *diag);

peal_fabric *check_fabric(lua_State *L, int index);
peal_table *check_table(lua_State *L, int index);
/* Pushes a handle whose pointer is set once it is known. */
struct handle {
    void *pointer;
};
struct handle *push_handle(lua_State *L, const char *type);

/* Fields of a table of options; absent ones leave *out. Unknown words are an error. */
void check_options(lua_State *L, int index, const char *const *words);
void option_u32(lua_State *L, int index, const char *name, uint32_t *out);
void option_u64(lua_State *L, int index, const char *name, uint64_t *out); /* or "64K", "1G" */
void option_number(lua_State *L, int index, const char *name, double *out);
void option_text(lua_State *L, int index, const char *name, const char **out);
void option_flag(lua_State *L, int index, const char *name, int *out);
uint64_t as_size(lua_State *L, int index);
/* What a writer of the library's writes into, and lua_Buffer's other half. */
peal_status write_buffer(void *user, const char *data, size_t bytes);

void set_text(lua_State *L, const char *name, const char *value);
void set_number(lua_State *L, const char *name, double value);
void set_integer(lua_State *L, const char *name, uint64_t value);
void set_flag(lua_State *L, const char *name, int value);

/* Functions of the module, by what they are about. */
extern const luaL_Reg module_fabric_functions[], module_fabric_methods[];
extern const luaL_Reg module_table_functions[], module_table_methods[];
extern const luaL_Reg module_model_functions[];
int module_run(lua_State *L);   /* table:run{} */
int module_bench(lua_State *L); /* table:bench{} */

int luaopen_peal(lua_State *L);

#endif
