/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled at configuration: is the archive Lua 5.4, and fit for a shared library? */
#include <lua.h>
#include <stddef.h>

#if LUA_VERSION_NUM != 504
#error "not Lua 5.4"
#endif

static void *no_memory(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user;
    (void)ptr;
    (void)old_bytes;
    (void)new_bytes;
    return NULL;
}

int probe(void);
int probe(void)
{
    lua_State *L = lua_newstate(no_memory, NULL);
    return L && lua_load(L, NULL, NULL, "probe", "t") == LUA_OK &&
           lua_pcallk(L, 0, 0, 0, 0, NULL) == LUA_OK;
}
