/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's inside. */
#ifndef PEAL_LUA_BOX_H
#define PEAL_LUA_BOX_H

#include "sandbox.h"
#include <locale.h>

#define ERROR_UNITS 300 /* what it costs to raise an error */

enum box_spent { SPENT_NOTHING, SPENT_UNITS, SPENT_BYTES, SPENT_STRING, SPENT_VALUES, SPENT_HOST };

struct sandbox {
    peal_ctx *ctx;
    lua_State *L;
    struct sandbox_limits limits;
    locale_t locale; /* C: order of strings, decimal points */
    size_t used;     /* bytes */
    size_t peak;
    int64_t left;         /* units */
    enum box_spent spent; /* sticky, so that no pcall hides it */
    size_t refused;       /* bytes of the block that was refused last, 0 since one was given */
    /* What one instruction may cost: a comparison or conversion goes through a whole string, a
     * look-up through all keys of a table that were made to collide. */
    uint32_t price;
    size_t longest;    /* string */
    size_t hash_bytes; /* the largest hash part of a table */
    size_t node_bytes; /* of such a part, for each key; 0: not known yet */
    size_t probe;      /* bytes of the last block of no kind */
    size_t biggest;    /* block */
    uint64_t random[2];
    char name[256]; /* of the last chunk */
    char short_name[LUA_IDSIZE];
    char text[400]; /* the error under way, with its place: no memory needed to tell of it */
    char path[256];
    uint32_t line;
    uint32_t blamed; /* line, where an error has none */
};

void *peal_box_realloc(void *user, void *ptr, size_t osize, size_t nsize);
void peal_box_hook(lua_State *L, lua_Debug *ar);
int peal_box_is_spent(struct sandbox *box);
/* Raises the error of a spent budget, if one is. Behind everything that catches errors. */
void peal_box_check(lua_State *L);
/* The handler of peal_sandbox_run. */
int peal_box_report(lua_State *L);
void peal_box_describe(struct sandbox *box, const char *message);

void peal_box_base(lua_State *L);
void peal_box_order(lua_State *L);
void peal_box_string(lua_State *L);
void peal_box_table(lua_State *L);
void peal_box_math(lua_State *L);
void peal_box_coroutine(lua_State *L);
int peal_box_pairs(lua_State *L);
int peal_box_sort(lua_State *L);
int peal_box_format(lua_State *L);
int peal_box_find(lua_State *L);
int peal_box_match(lua_State *L);
int peal_box_gmatch(lua_State *L);
int peal_box_gsub(lua_State *L);

/* A string under construction in the memory of the state: a userdata at a fixed index. */
struct box_text {
    lua_State *L;
    int index;
    char *data;
    size_t used;
    size_t room;
};
void peal_text_begin(struct box_text *text, lua_State *L);
void peal_text_put(struct box_text *text, const char *data, size_t bytes);
void peal_text_push(struct box_text *text); /* the string, on top */

#endif
