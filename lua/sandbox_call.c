/* SPDX-License-Identifier: Apache-2.0 */
/* Loading and calling, and what becomes of errors. */
#include "box.h"

#include <stdio.h>
#include <string.h>

#define CALLS_TOLD 6
#define LEVELS_SEEN 64

static const char chunk_key;

/* ---- an error and its place ---------------------------------------------------------- */

static void tell_spent(struct sandbox *box)
{
    size_t size = sizeof box->text;
    box->line = 0;
    if (box->spent == SPENT_UNITS)
        (void)snprintf(box->text, size, "the script used up its budget of %llu units",
                       (unsigned long long)box->limits.units);
    else if (box->spent == SPENT_BYTES)
        (void)snprintf(box->text, size, "the script needs more than its %llu bytes of memory",
                       (unsigned long long)box->limits.bytes);
    else if (box->spent == SPENT_STRING)
        (void)snprintf(box->text, size, "a string of more than %u bytes", SANDBOX_STRING);
    else if (box->spent == SPENT_VALUES)
        (void)snprintf(box->text, size, "a call with more than %d arguments or results",
                       SANDBOX_VALUES);
    else
        peal_copy_text(box->text, size, "out of memory");
}

/* A message begins with "chunk:line: ", which goes where a diag has its place. */
static const char *take_place(struct sandbox *box, const char *message)
{
    size_t name = strlen(box->short_name);
    const char *at = message;
    uint32_t line = 0;
    if (!name || strncmp(message, box->short_name, name) || message[name] != ':')
        return message;
    for (at += name + 1; *at >= '0' && *at <= '9' && line < UINT32_MAX / 16; at++)
        line = 10 * line + (uint32_t)(*at - '0');
    if (!line || *at != ':')
        return message;
    box->line = line;
    return at[1] == ' ' ? at + 2 : at + 1;
}

void peal_box_describe(struct sandbox *box, const char *message)
{
    box->line = 0;
    peal_copy_text(box->text, sizeof box->text, take_place(box, message));
}

static void describe_object(lua_State *L, struct sandbox *box)
{
    char text[96];
    if (lua_type(L, 1) == LUA_TSTRING) {
        peal_box_describe(box, lua_tostring(L, 1));
        return;
    }
    if (lua_isinteger(L, 1))
        (void)snprintf(text, sizeof text, "error object is the number %lld",
                       (long long)lua_tointeger(L, 1));
    else
        (void)snprintf(text, sizeof text, "error object is a %s", lua_typename(L, lua_type(L, 1)));
    peal_box_describe(box, text);
}

static void add_call(struct sandbox *box, const lua_Debug *ar, int *told)
{
    size_t used = strlen(box->text);
    const char *name = !strcmp(ar->what, "main") ? "the file" : ar->name ? ar->name : "a function";
    (void)snprintf(box->text + used, sizeof box->text - used, "%s%s:%d in %s",
                   (*told)++ ? ", " : "; at ", ar->short_src, ar->currentline, name);
}

/* The calls under way, from the inside. */
static void trace(lua_State *L, struct sandbox *box)
{
    lua_Debug ar;
    int told = 0;
    for (int level = 0; level < LEVELS_SEEN && told < CALLS_TOLD; level++) {
        if (!lua_getstack(L, level, &ar))
            break;
        if (!lua_getinfo(L, "Sln", &ar) || ar.currentline <= 0)
            continue;
        if (!box->line)
            box->line = (uint32_t)ar.currentline;
        add_call(box, &ar, &told);
    }
}

/* Into the box: an error may be that there is no memory. */
int peal_box_report(lua_State *L)
{
    struct sandbox *box = peal_sandbox_of(L);
    if (box->spent != SPENT_NOTHING)
        tell_spent(box);
    else
        describe_object(L, box);
    trace(L, box);
    return 1;
}

static peal_status status_of(const struct sandbox *box, int error)
{
    if (box->spent == SPENT_HOST)
        return PEAL_ERR_MEMORY;
    return box->spent != SPENT_NOTHING || error == LUA_ERRMEM ? PEAL_ERR_LIMIT : PEAL_ERR_INPUT;
}

/* Errors that no handler hears of leave their reason in the box. */
static peal_status fail(struct sandbox *box, int error, peal_diag *diag)
{
    peal_status status = status_of(box, error);
    if (box->spent != SPENT_NOTHING && (!box->text[0] || error == LUA_OK))
        tell_spent(box);
    else if (!box->text[0])
        peal_copy_text(box->text, sizeof box->text,
                       error == LUA_ERRMEM ? "out of memory" : "an error in an error handler");
    return peal_fail_at(diag, status, box->name, box->line ? box->line : box->blamed, 0, "%s",
                        box->text);
}

void peal_sandbox_blame(lua_State *L)
{
    lua_Debug ar;
    if (lua_type(L, -1) != LUA_TFUNCTION)
        return;
    lua_pushvalue(L, -1);
    if (lua_getinfo(L, ">S", &ar) && ar.linedefined > 0)
        peal_sandbox_of(L)->blamed = (uint32_t)ar.linedefined;
}

static locale_t enter(struct sandbox *box)
{
    box->text[0] = 0;
    box->line = box->blamed = 0;
    return uselocale(box->locale);
}

peal_status peal_sandbox_run(struct sandbox *box, lua_CFunction fn, void *arg, peal_diag *diag)
{
    lua_State *L = box->L;
    if (box->spent != SPENT_NOTHING) {
        tell_spent(box);
        return fail(box, LUA_ERRMEM, diag);
    }
    locale_t before = enter(box);
    int top = lua_gettop(L);
    lua_pushcfunction(L, peal_box_report);
    lua_pushcfunction(L, fn);
    lua_pushlightuserdata(L, arg);
    int error = lua_pcallk(L, 1, 0, top + 1, 0, NULL);
    peal_status status = PEAL_OK;
    if (error != LUA_OK || peal_box_is_spent(box)) /* also where nothing noticed before the end */
        status = fail(box, error, diag);
    lua_settop(L, top);
    (void)uselocale(before);
    return status;
}

/* ---- chunks ---------------------------------------------------------------------------- */

struct source {
    const char *text;
    size_t bytes;
    const char *name;
};

static const char *read_source(lua_State *L, void *user, size_t *bytes)
{
    struct source *source = user;
    const char *text = source->text;
    (void)L;
    *bytes = source->bytes;
    source->bytes = 0;
    return *bytes ? text : NULL;
}

static int is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* No hook sees the parser, which looks every name up among all variables in scope: it is charged
 * beforehand for as many look-ups as the text can have. A variable needs a comma, or one of the
 * words local, function and for, before it. */
static uint64_t parse_units(const struct source *source)
{
    const char *at = source->text, *end = at + source->bytes;
    uint64_t names = 0, variables = 0;
    for (int inside = 0; at < end; at++) {
        int name = is_name(*at) || (inside && *at >= '0' && *at <= '9');
        if (name && !inside) {
            names++;
            variables += (size_t)(end - at) > 3 &&
                         (!memcmp(at, "loc", 3) || !memcmp(at, "fun", 3) || !memcmp(at, "for", 3));
        }
        variables += *at == ',';
        inside = name;
    }
    return source->bytes + names * variables / 16;
}

/* The part of a name that Lua shows in messages. */
static void set_name(struct sandbox *box, const char *name)
{
    size_t bytes = strlen(name), most = sizeof box->short_name - 1;
    peal_copy_text(box->name, sizeof box->name, name);
    peal_copy_text(box->short_name, sizeof box->short_name,
                   bytes > most ? name + bytes - most : name);
}

static int load_chunk(lua_State *L)
{
    struct source *source = lua_touserdata(L, 1);
    struct sandbox *box = peal_sandbox_of(L);
    peal_sandbox_charge(L, parse_units(source));
    lua_pushfstring(L, "@%s", box->short_name);
    if (lua_load(L, read_source, source, lua_tostring(L, -1), "t") != LUA_OK)
        return lua_error(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &chunk_key);
    return 0;
}

peal_status peal_sandbox_load(struct sandbox *box, const char *text, size_t bytes, const char *name,
                              peal_diag *diag)
{
    struct source source = {text, bytes, name};
    set_name(box, name);
    if (bytes > SANDBOX_SOURCE)
        return peal_fail_at(diag, PEAL_ERR_LIMIT, name, 0, 0, "a script of more than %u bytes",
                            SANDBOX_SOURCE);
    return peal_sandbox_run(box, load_chunk, &source, diag);
}

void peal_sandbox_chunk(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &chunk_key);
}
