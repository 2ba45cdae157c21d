/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Algorithms written in Lua (docs/lua-algorithms.md): a file returns peal.algorithm{...}, whose
 * schedule writes a script step by step. It runs once for a request, in a sandbox.
 */
#include "sandbox.h"

#include <stdio.h>
#include <string.h>

/* A schedule has some steps for each pair of ranks. */
#define ALGORITHM_UNITS 10000000u
#define PAIR_UNITS 5000u
#define ALGORITHM_BYTES (64u << 20)
#define STEP_UNITS 16u
#define NAMES_MAX 256u

struct loading {
    peal_ctx *ctx;
    const peal_fabric *fabric;
    const peal_request *request;
    const char *path;
    uint32_t ranks;
    peal_schedule *script;
    peal_diag diag; /* of what the library refused */
    peal_block *blocks;
    uint32_t nblocks, blocks_capacity;
    uint32_t *names; /* of the blocks */
    uint32_t nnames, names_capacity;
};

/* ---- reading ------------------------------------------------------------------------------ */

static uint32_t as_number(lua_State *L, int index, const char *what)
{
    int is = 0;
    lua_Integer value = lua_type(L, index) == LUA_TNUMBER ? lua_tointegerx(L, index, &is) : 0;
    if (!is || value < 0 || value > UINT32_MAX)
        peal_lua_error(L, "'%s' is not a whole number from 0 on", what);
    return (uint32_t)value;
}

/* A rank, or a list of ranks; returns how many, and whether it was a list. */
static uint32_t read_ranks(lua_State *L, int index, const char *what, uint32_t *ranks, int *list)
{
    *list = lua_type(L, index) == LUA_TTABLE;
    if (lua_type(L, index) == LUA_TNIL)
        peal_lua_error(L, "'%s' is missing", what);
    if (!*list) {
        ranks[0] = as_number(L, index, what);
        return 1;
    }
    lua_Unsigned count = lua_rawlen(L, index);
    if (count > NAMES_MAX)
        peal_lua_error(L, "'%s' names more than %d ranks", what, (int)NAMES_MAX);
    for (lua_Unsigned i = 0; i < count; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        ranks[i] = as_number(L, -1, what);
        lua_pop(L, 1);
    }
    return (uint32_t)count;
}

/* A misspelt word would otherwise be as if it were not there. */
static void check_words(lua_State *L, int index, const char *const *words)
{
    peal_sandbox_charge_walk(L);
    lua_pushnil(L);
    while (lua_next(L, index)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        int known = 0;
        for (const char *const *word = words; *word; word++)
            known |= strcmp(*word, key) == 0;
        if (!known)
            peal_lua_error(L, "there is no '%s' here", key);
        lua_pop(L, 1);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static uint32_t calling_line(lua_State *L)
{
    lua_Debug ar;
    if (!lua_getstack(L, 1, &ar) || !lua_getinfo(L, "l", &ar) || ar.currentline < 0)
        return 0;
    return (uint32_t)ar.currentline;
}

static struct loading *loading_of(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

static void refused(lua_State *L, const struct loading *l)
{
    peal_lua_error(L, "%s", l->diag.text);
}

/* s:copy{chunk=, from=, to=}, s:reduce{...} */
static int add_step(lua_State *L, int reduces)
{
    static const char *const words[] = {"chunk", "from", "to", NULL};
    struct loading *l = loading_of(L);
    uint32_t from[NAMES_MAX], to[NAMES_MAX];
    int from_list, to_list;
    if (lua_type(L, 2) != LUA_TTABLE)
        peal_lua_error(L, "a step is s:%s{chunk=..., from=..., to=...}",
                       reduces ? "reduce" : "copy");
    if (!l->script)
        peal_lua_error(L, "the schedule is over");
    check_words(L, 2, words);
    peal_schedule_step step = {.size = sizeof step, .reduces = reduces, .from = from, .to = to};
    lua_getfield(L, 2, "chunk");
    step.chunk = as_number(L, -1, "chunk");
    lua_getfield(L, 2, "from");
    step.nfrom = read_ranks(L, lua_gettop(L), "from", from, &from_list);
    lua_getfield(L, 2, "to");
    step.nto = read_ranks(L, lua_gettop(L), "to", to, &to_list);
    step.gathers = from_list;
    step.line = calling_line(L);
    peal_sandbox_charge(L, STEP_UNITS + step.nfrom + step.nto);
    if (!step.nfrom || !step.nto) /* nobody: nothing to do */
        return 0;
    if (peal_schedule_add(l->script, &step, &l->diag) != PEAL_OK)
        refused(L, l);
    return 0;
}

static int copy_step(lua_State *L)
{
    return add_step(L, 0);
}

static int reduce_step(lua_State *L)
{
    return add_step(L, 1);
}

static int begin_stage(lua_State *L)
{
    struct loading *l = loading_of(L);
    if (!l->script)
        peal_lua_error(L, "the schedule is over");
    if (peal_schedule_stage(l->script, &l->diag) != PEAL_OK)
        refused(L, l);
    return 0;
}

/* ---- what the schedule is told ----------------------------------------------------------------
 */

static uint32_t fabric_rank(const struct loading *l, uint32_t rank)
{
    return l->request->group ? l->request->group[rank] : rank;
}

static uint32_t host_of(lua_State *L, const struct loading *l, uint32_t rank)
{
    peal_rank_info info = {.size = sizeof info};
    if (peal_fabric_rank(l->fabric, fabric_rank(l, rank), &info) != PEAL_OK)
        peal_lua_error(L, "there is no rank %d on this machine", (int)rank);
    return info.host;
}

/* fabric.ranks, fabric.hosts[i]: the ranks of a host, in order; fabric.host[rank]: its i. */
static void push_fabric(lua_State *L, const struct loading *l)
{
    uint32_t last = 0;
    lua_Integer hosts = 0, local = 0;
    lua_createtable(L, 0, 3);
    lua_pushinteger(L, (lua_Integer)l->ranks);
    lua_setfield(L, -2, "ranks");
    lua_newtable(L); /* hosts */
    lua_newtable(L); /* host */
    for (uint32_t r = 0; r < l->ranks; r++) {
        uint32_t host = host_of(L, l, r);
        if (!hosts || host != last) {
            lua_newtable(L);
            lua_rawseti(L, -3, ++hosts);
            local = 0;
        }
        last = host;
        lua_rawgeti(L, -2, hosts);
        lua_pushinteger(L, (lua_Integer)r);
        lua_rawseti(L, -2, ++local);
        lua_pop(L, 1);
        lua_pushinteger(L, hosts);
        lua_rawseti(L, -2, (lua_Integer)r);
    }
    lua_setfield(L, -3, "host");
    lua_setfield(L, -2, "hosts");
}

static void push_schedule(lua_State *L, struct loading *l)
{
    static const struct sandbox_function functions[] = {
        {"copy", copy_step}, {"reduce", reduce_step}, {"stage", begin_stage}, {NULL, NULL}};
    lua_newtable(L);
    for (size_t i = 0; functions[i].name; i++) {
        lua_pushlightuserdata(L, l);
        lua_pushcclosure(L, functions[i].fn, 1);
        lua_setfield(L, -2, functions[i].name);
    }
    lua_pushinteger(L, (lua_Integer)l->request->root);
    lua_setfield(L, -2, "root");
    lua_pushinteger(L, (lua_Integer)l->request->peer);
    lua_setfield(L, -2, "peer");
    lua_pushstring(L, peal_collective_name(l->request->collective));
    lua_setfield(L, -2, "collective");
    peal_sandbox_freeze(L, "the schedule's table");
}

/* ---- the algorithm ------------------------------------------------------------------------------
 */

/* One of the names that `collective` is, or has in its list. */
static int serves(lua_State *L, int index, const char *wanted)
{
    if (lua_type(L, index) == LUA_TSTRING)
        return strcmp(lua_tostring(L, index), wanted) == 0;
    for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, index); i <= n; i++) {
        lua_rawgeti(L, index, i);
        int is = lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), wanted) == 0;
        lua_pop(L, 1);
        if (is)
            return 1;
    }
    return 0;
}

static void grow(lua_State *L, struct loading *l, void **list, uint32_t *capacity, size_t need,
                 size_t size)
{
    if (peal_grow(l->ctx, list, capacity, need, size, 1u << 22) != PEAL_OK)
        peal_lua_error(L, "a collective of so many blocks is too much");
}

/* {from = {...}, to = {...}} */
static void read_block(lua_State *L, struct loading *l, int index)
{
    static const char *const words[] = {"from", "to", NULL};
    uint32_t ranks[NAMES_MAX], count[2];
    int list;
    if (lua_type(L, index) != LUA_TTABLE)
        peal_lua_error(L, "a block of a collective is {from = ranks, to = ranks}");
    check_words(L, index, words);
    for (int end = 0; end < 2; end++) {
        lua_getfield(L, index, words[end]);
        count[end] = read_ranks(L, lua_gettop(L), words[end], ranks, &list);
        lua_pop(L, 1);
        peal_sandbox_charge(L, STEP_UNITS + count[end]);
        grow(L, l, (void **)(void *)&l->names, &l->names_capacity, (size_t)l->nnames + count[end],
             sizeof *l->names);
        memcpy(l->names + l->nnames, ranks, count[end] * sizeof *ranks);
        l->nnames += count[end];
    }
    grow(L, l, (void **)&l->blocks, &l->blocks_capacity, (size_t)l->nblocks + 1, sizeof *l->blocks);
    l->blocks[l->nblocks++] = (peal_block){.nfrom = count[0], .nto = count[1]};
}

/* What the function that is `collective` returns: who gives and who gets each block. */
static void read_blocks(lua_State *L, struct loading *l, int index)
{
    if (l->request->collective != PEAL_CUSTOM) {
        l->diag.status = PEAL_ERR_UNSUPPORTED;
        peal_lua_error(L, "this algorithm has a collective of its own: custom, not %s",
                       peal_collective_name(l->request->collective));
    }
    lua_pushvalue(L, index);
    lua_pushinteger(L, (lua_Integer)l->ranks);
    lua_pushvalue(L, 2);
    lua_call(L, 2, 1);
    int list = lua_gettop(L);
    if (lua_type(L, list) != LUA_TTABLE)
        peal_lua_error(L, "'collective' has to return a list of blocks");
    for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, list); i <= n; i++) {
        lua_rawgeti(L, list, i);
        read_block(L, l, lua_gettop(L));
        lua_pop(L, 1);
    }
    const uint32_t *name = l->names;
    for (uint32_t i = 0; i < l->nblocks; i++) {
        l->blocks[i].from = name;
        l->blocks[i].to = name + l->blocks[i].nfrom;
        name += l->blocks[i].nfrom + l->blocks[i].nto;
    }
}

static void read_collective(lua_State *L, struct loading *l, int index)
{
    const char *wanted = peal_collective_name(l->request->collective);
    lua_getfield(L, index, "collective");
    int at = lua_gettop(L), type = lua_type(L, at);
    if (type == LUA_TFUNCTION) {
        read_blocks(L, l, at);
        return;
    }
    if (type != LUA_TSTRING && type != LUA_TTABLE)
        peal_lua_error(L, "'collective' is a name, a list of names, or a function");
    if (!wanted || !serves(L, at, wanted)) {
        l->diag.status = PEAL_ERR_UNSUPPORTED;
        peal_lua_error(L, "this algorithm does not serve %s", wanted ? wanted : "this");
    }
}

/* A number, or what a function of the number of ranks gives. */
static uint32_t read_chunks(lua_State *L, struct loading *l, int index)
{
    lua_getfield(L, index, "chunks");
    if (lua_type(L, -1) == LUA_TFUNCTION) {
        lua_pushinteger(L, (lua_Integer)l->ranks);
        lua_pushvalue(L, 2);
        lua_call(L, 2, 1);
    }
    return as_number(L, -1, "chunks");
}

static void make_script(lua_State *L, struct loading *l, int index)
{
    peal_schedule_params params = PEAL_SCHEDULE_PARAMS_INIT;
    read_collective(L, l, index);
    lua_getfield(L, index, "name");
    if (lua_type(L, -1) != LUA_TSTRING)
        peal_lua_error(L, "an algorithm has a 'name'");
    params.name = lua_tostring(L, -1);
    params.path = l->path;
    params.collective = l->request->collective;
    params.ranks = l->ranks;
    params.root = l->request->root;
    params.peer = l->request->peer;
    params.chunks = read_chunks(L, l, index);
    params.blocks = l->blocks;
    params.nblocks = l->nblocks;
    if (peal_schedule_create(l->ctx, &params, &l->diag, &l->script) != PEAL_OK)
        refused(L, l);
}

/* At index 1: the table that was returned; at 2, from here on, the fabric's. */
static void run_algorithm(lua_State *L, struct loading *l)
{
    static const char *const words[] = {"name", "collective", "chunks", "schedule", NULL};
    if (lua_type(L, 1) != LUA_TTABLE)
        peal_lua_error(L, "the file has to return peal.algorithm{...}");
    check_words(L, 1, words);
    push_fabric(L, l);
    make_script(L, l, 1);
    lua_settop(L, 2);
    lua_getfield(L, 1, "schedule");
    if (lua_type(L, -1) != LUA_TFUNCTION)
        peal_lua_error(L, "an algorithm has a 'schedule', a function of (s, ranks, fabric)");
    push_schedule(L, l);
    lua_pushinteger(L, (lua_Integer)l->ranks);
    lua_pushvalue(L, 2);
    lua_call(L, 3, 0);
}

/* peal.algorithm: a table as it is; the name tells a reader, and an editor, what it is. */
static int algorithm(lua_State *L)
{
    peal_arg_type(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    return 1;
}

static int load_algorithm(lua_State *L)
{
    static const struct sandbox_function functions[] = {{"algorithm", algorithm}, {NULL, NULL}};
    struct loading *l = lua_touserdata(L, 1);
    lua_pushglobaltable(L);
    peal_sandbox_table(L, functions);
    peal_sandbox_freeze(L, "peal");
    lua_setfield(L, -2, "peal");
    lua_settop(L, 0);
    peal_sandbox_chunk(L);
    lua_call(L, 0, 1);
    run_algorithm(L, l);
    return 0;
}

/* ---- from outside
 * -------------------------------------------------------------------------------- */

static peal_status count_ranks(struct loading *l, peal_diag *diag)
{
    peal_fabric_info info = {.size = sizeof info};
    PEAL_TRY(peal_fabric_get(l->fabric, &info));
    l->ranks = l->request->group   ? l->request->group_size
               : l->request->ranks ? l->request->ranks
                                   : info.ranks;
    for (uint32_t r = 0; r < l->ranks; r++)
        if (fabric_rank(l, r) >= info.ranks)
            return peal_fail(diag, PEAL_ERR_ARG, "rank %u of the machine's %u", fabric_rank(l, r),
                             info.ranks);
    return PEAL_OK;
}

static peal_status run(struct loading *l, const char *text, size_t bytes, peal_diag *diag)
{
    struct sandbox_limits limits = {.bytes = ALGORITHM_BYTES, .units = ALGORITHM_UNITS};
    if (l->ranks <= NAMES_MAX)
        limits.units += (uint64_t)PAIR_UNITS * l->ranks * l->ranks;
    struct sandbox *box;
    PEAL_TRY(peal_sandbox_create(l->ctx, &limits, diag, &box));
    peal_status status = peal_sandbox_load(box, text, bytes, l->path, diag);
    if (status == PEAL_OK)
        status = peal_sandbox_run(box, load_algorithm, l, diag);
    peal_sandbox_destroy(box);
    if (status == PEAL_OK || l->diag.status == PEAL_OK)
        return status;
    if (diag) /* what the library said, at the place that the sandbox found */
        diag->status = l->diag.status;
    return l->diag.status;
}

peal_status peal_schedule_load(peal_ctx *ctx, const peal_fabric *fabric,
                               const peal_request *request, const char *text, size_t bytes,
                               const char *name, peal_diag *diag, peal_schedule **script_out)
{
    peal_request own;
    if (!ctx || !fabric || !request || !text || !name || !script_out)
        return peal_fail(diag, PEAL_ERR_ARG, "an argument is missing");
    if (peal_import(&own, sizeof own, request) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "request of an unknown version");
    struct loading l = {
        .ctx = ctx, .fabric = fabric, .request = &own, .path = name, .diag = PEAL_DIAG_INIT};
    PEAL_TRY(count_ranks(&l, diag));
    peal_status status = run(&l, text, bytes, diag);
    peal_free(ctx, l.blocks, l.blocks_capacity * sizeof *l.blocks);
    peal_free(ctx, l.names, l.names_capacity * sizeof *l.names);
    if (status == PEAL_OK)
        status = peal_schedule_check(l.script, diag);
    if (status != PEAL_OK) {
        peal_schedule_destroy(l.script);
        return status;
    }
    *script_out = l.script;
    return PEAL_OK;
}
