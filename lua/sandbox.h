/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lua states in which a stranger's script can do no harm: what it may hold and how long it may
 * run is bounded, it reaches nothing but what it is handed, and the same script does the same on
 * every run (docs/policies.md, "What a script cannot do").
 *
 * Only the core of Lua is linked (lua.h), not its auxiliary and standard libraries: lauxlib.h's
 * functions are not to be had. Everything that may raise a Lua error happens inside
 * peal_sandbox_run; outside of it an error would end the process.
 */
#ifndef PEAL_LUA_SANDBOX_H
#define PEAL_LUA_SANDBOX_H

#include "base.h"
#include <lua.h>

#define SANDBOX_BYTES (24u << 20)   /* all that a state holds, unless a limit is given */
#define SANDBOX_UNITS 10000000u     /* about an instruction each */
#define SANDBOX_SOURCE (128u << 10) /* bytes of one chunk */
#define SANDBOX_STRING (256u << 10) /* of one string */
#define SANDBOX_VALUES 250          /* arguments or results of one call */

struct sandbox_limits {
    size_t bytes;   /* 0: SANDBOX_BYTES */
    uint64_t units; /* 0: SANDBOX_UNITS */
    int seeded;     /* 1: math.random is there, and starts from seed */
    uint64_t seed;
    /* Receives a line of `print` without its newline; NULL: print does nothing. */
    void (*print)(void *user, const char *line, size_t bytes);
    void *print_user;
};

/* A state with the libraries of a script: base, string, table, math, coroutine. Errors: MEMORY,
 * LIMIT (bytes or units too few for the libraries). */
struct sandbox;
peal_status peal_sandbox_create(peal_ctx *ctx, const struct sandbox_limits *limits, peal_diag *diag,
                                struct sandbox **box_out);
void peal_sandbox_destroy(struct sandbox *box);
peal_ctx *peal_sandbox_ctx(const struct sandbox *box);
struct sandbox *peal_sandbox_of(lua_State *L);
/* Gives a state that has spent its budget, or part of it, so many units anew. One that has run out
 * of memory stays unusable. */
void peal_sandbox_refill(struct sandbox *box, uint64_t units);
uint64_t peal_sandbox_left(const struct sandbox *box); /* units */
size_t peal_sandbox_peak(const struct sandbox *box);   /* bytes held at most so far */

/* Compiles a text chunk, which peal_sandbox_chunk then pushes; name is the file's, for errors.
 * Errors: INPUT (syntax, bytecode), LIMIT, MEMORY, with file and line. */
peal_status peal_sandbox_load(struct sandbox *box, const char *text, size_t bytes, const char *name,
                              peal_diag *diag);
void peal_sandbox_chunk(lua_State *L);

/* Calls fn in protected mode with arg, a light userdata, at index 1; what it returns is dropped.
 * An error becomes a diag with file and line, the message, and the calls that led there. Errors:
 * INPUT (the script's own), LIMIT (budget or memory spent), MEMORY (the host's allocator). */
peal_status peal_sandbox_run(struct sandbox *box, lua_CFunction fn, void *arg, peal_diag *diag);

/* In fn: errors that happen in no script are told of as at the beginning of the function on top. */
void peal_sandbox_blame(lua_State *L);

/* ---- for C functions that scripts call (inside peal_sandbox_run) ------------------ */

/* Takes units off the budget; raises an error, which no script can catch, when it is spent.
 * Every loop in C over something whose length a script decides charges for it. */
void peal_sandbox_charge(lua_State *L, uint64_t units);
/* For a walk by lua_next, which looks at every place of a table, also the empty ones. */
void peal_sandbox_charge_walk(lua_State *L);
/* For what a script is handed, which costs it less than what it makes: `units` of what was left
 * before instead of all that was charged since. */
void peal_sandbox_settle(lua_State *L, uint64_t left, uint64_t units);
/* Raises an error with the place of the calling script in front. Formats: those of
 * lua_pushvfstring (%s %d %I %f %c %%). */
_Noreturn void peal_lua_error(lua_State *L, const char *format, ...);
/* The same, about argument number arg of the running function. */
_Noreturn void peal_arg_error(lua_State *L, int arg, const char *text);
lua_Integer peal_arg_integer(lua_State *L, int arg);
lua_Integer peal_arg_integer_or(lua_State *L, int arg, lua_Integer absent);
lua_Number peal_arg_number(lua_State *L, int arg);
const char *peal_arg_string(lua_State *L, int arg, size_t *bytes_out);
void peal_arg_type(lua_State *L, int arg, int type);
void peal_arg_any(lua_State *L, int arg);

/* Pushes a table of functions; the last entry is {NULL, NULL}. */
struct sandbox_function {
    const char *name;
    lua_CFunction fn;
};
void peal_sandbox_table(lua_State *L, const struct sandbox_function *functions);
void peal_sandbox_add(lua_State *L, const struct sandbox_function *functions); /* to that on top */
/* Replaces the table on top by something that reads like it and cannot be written. `what` is
 * how errors call it; a string that outlives the state. */
void peal_sandbox_freeze(lua_State *L, const char *what);
/* Pushes a metatable shared under the address of key; 1: it is new and empty. pairs of an
 * object takes the one function that __pairs returns: it walks without looking at its arguments. */
int peal_sandbox_metatable(lua_State *L, const void *key);
/* Pushes what tostring gives: the same on every run, no addresses. */
const char *peal_sandbox_tostring(lua_State *L, int index, size_t *bytes_out);

#endif
