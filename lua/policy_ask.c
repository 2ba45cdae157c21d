/* SPDX-License-Identifier: Apache-2.0 */
/* A table such as {algorithm = "hierarchical", inner = "direct", engine = {nvlink = "ce"}} as a
 * request to the planner. */
#include "policy.h"

#include <string.h>

static void read_u32(lua_State *L, const char *key, uint32_t *to)
{
    int is;
    lua_Integer value = lua_tointegerx(L, -1, &is);
    if (!is || value < 1 || value > UINT32_MAX)
        peal_lua_error(L, "%s is a whole number from 1 up", key);
    *to = (uint32_t)value;
}

static void read_bytes(lua_State *L, const char *key, uint64_t *to)
{
    int is;
    lua_Integer value = lua_tointegerx(L, -1, &is);
    if (!is || value < 1)
        peal_lua_error(L, "%s is a number of bytes; peal.size(\"64K\") makes one", key);
    *to = (uint64_t)value;
}

static void read_text(lua_State *L, const char *key, const char **to)
{
    if (lua_type(L, -1) != LUA_TSTRING)
        peal_lua_error(L, "%s is a string", key);
    *to = lua_tostring(L, -1); /* lives in the table */
}

static peal_engine engine_at_top(lua_State *L)
{
    peal_engine engine;
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (peal_engine_parse(name, &engine) != PEAL_OK)
        peal_lua_error(L, "unknown engine '%s'; there are sm, tma, ce, rdma, staged and tcp", name);
    return engine;
}

static void read_engines(lua_State *L, peal_request *ask)
{
    if (lua_type(L, -1) != LUA_TTABLE)
        peal_lua_error(L, "engine is a table such as {nvlink = \"tma\"}");
    peal_sandbox_charge_walk(L);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        peal_link_class class;
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
        peal_sandbox_charge(L, 4);
        if (peal_link_class_parse(name, &class) != PEAL_OK)
            peal_lua_error(L, "unknown class of links '%s'", name);
        ask->move_engine[class] = (uint8_t)(engine_at_top(L) + 1);
        lua_pop(L, 1);
    }
}

/* Asked for only to be refused: what reduces is a matter of what can. */
static void read_reduce(lua_State *L)
{
    peal_engine engine = engine_at_top(L);
    if (engine != PEAL_ENGINE_SM)
        peal_lua_error(L, "%s cannot reduce: it moves bytes and has no arithmetic; sm reduces",
                       peal_engine_name(engine));
}

static void read_wire(lua_State *L, peal_request *ask)
{
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    for (int i = 0; i < PEAL_WIRE_COUNT; i++)
        if (strcmp(name, peal_wire_name((peal_wire)i)) == 0) {
            ask->wire = (peal_wire)i;
            return;
        }
    peal_lua_error(L, "wire is bf16 or fp8");
}

static void read_end(lua_State *L, const char *key, const struct session *session)
{
    const peal_request *request = session->view->request;
    uint32_t is = strcmp(key, "root") == 0 ? request->root : request->peer;
    lua_Integer rank = peal_arg_integer(L, -1);
    if (rank < 0 || rank >= (lua_Integer)session->view->ranks)
        peal_lua_error(L, "there is no rank %I: ranks are 0 to %d", (LUAI_UACINT)rank,
                       (int)session->view->ranks - 1);
    if (rank != is)
        peal_lua_error(L, "the %s is rank %d: a policy says how, not what", key, (int)is);
}

static int is_key(const char *key, const char *name)
{
    return strcmp(key, name) == 0;
}

static int read_number(lua_State *L, const char *key, struct ask *to)
{
    peal_request *ask = &to->request;
    if (is_key(key, "channels"))
        read_u32(L, key, &ask->channels);
    else if (is_key(key, "gateways"))
        read_u32(L, key, &ask->gateways);
    else if (is_key(key, "incast"))
        read_u32(L, key, &ask->incast);
    else if (is_key(key, "depth"))
        read_u32(L, key, &ask->depth);
    else if (is_key(key, "max_sms"))
        read_u32(L, key, &ask->max_sms);
    else if (is_key(key, "tile_bytes"))
        read_bytes(L, key, &ask->tile_bytes);
    else if (is_key(key, "scratch_bytes"))
        read_bytes(L, key, &to->scratch_bytes);
    else
        return 0;
    return 1;
}

static int read_word(lua_State *L, const char *key, struct ask *to)
{
    peal_request *ask = &to->request;
    if (is_key(key, "algorithm"))
        read_text(L, key, &ask->algorithm);
    else if (is_key(key, "levels"))
        read_text(L, key, &ask->levels);
    else if (is_key(key, "inner"))
        read_text(L, key, &ask->inner);
    else if (is_key(key, "outer"))
        read_text(L, key, &ask->outer);
    else if (is_key(key, "protocol"))
        read_text(L, key, &to->protocol);
    else if (is_key(key, "wire"))
        read_wire(L, ask);
    else if (is_key(key, "engine"))
        read_engines(L, ask);
    else if (is_key(key, "reduce_engine"))
        read_reduce(L);
    else if (is_key(key, "zero_sm"))
        ask->zero_sm = lua_toboolean(L, -1);
    else
        return 0;
    return 1;
}

void peal_ask_read(lua_State *L, int index, const struct session *session, struct ask *ask)
{
    *ask = (struct ask){PEAL_REQUEST_INIT, 0, NULL};
    index = lua_absindex(L, index);
    peal_sandbox_charge_walk(L);
    lua_pushnil(L);
    while (lua_next(L, index)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
        peal_sandbox_charge(L, 4);
        if (!key)
            peal_lua_error(L, "a schedule is asked for by names, {algorithm = \"ring\"}");
        if (is_key(key, "root") || is_key(key, "peer"))
            read_end(L, key, session);
        else if (!read_number(L, key, ask) && !read_word(L, key, ask))
            peal_lua_error(
                L,
                "'%s' cannot be asked for; there are algorithm, channels, gateways, "
                "tile_bytes, levels, inner, outer, incast, depth, engine, max_sms, zero_sm, "
                "scratch_bytes, protocol and wire",
                key);
        lua_pop(L, 1);
    }
}

#define ASK_UNITS 20000 /* what the planner does to make and cost all that fits */

void peal_ask_candidates(lua_State *L, struct session *session, const struct ask *ask,
                         uint32_t *first_out, uint32_t *count_out)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_sandbox_charge(L, ASK_UNITS);
    session->refused =
        session->view->ask(session->view->planner, &ask->request, &diag, first_out, count_out);
    if (session->refused != PEAL_OK)
        peal_lua_error(L, "%s", diag.text);
}

static int same_number(uint64_t wanted, uint64_t is)
{
    return !wanted || wanted == is;
}

static int same_text(const char *wanted, const char *is)
{
    return !wanted || strcmp(wanted, is) == 0;
}

static int same_engines(const peal_request *ask, const peal_row_info *row)
{
    for (int c = 0; c < PEAL_LINK_CLASS_COUNT; c++)
        if (ask->move_engine[c] && row->move_engines[c] &&
            row->move_engines[c] != 1u << (ask->move_engine[c] - 1))
            return 0;
    return 1;
}

int peal_ask_fits(const struct ask *ask, const struct policy_facts *facts)
{
    const peal_request *request = &ask->request;
    const peal_row_info *row = &facts->row;
    return same_text(request->algorithm, row->algorithm) &&
           same_number(request->channels, row->channels) &&
           same_number(request->gateways, facts->gateways) &&
           same_number(request->tile_bytes, row->tile_bytes) &&
           same_text(request->levels, facts->levels) && same_text(request->inner, facts->inner) &&
           same_text(request->outer, facts->outer) && same_text(ask->protocol, row->protocol) &&
           same_engines(request, row) && same_number(request->wire, row->wire) &&
           (!request->max_sms || row->sms <= request->max_sms) &&
           (!request->zero_sm || row->sms == 0) &&
           (!ask->scratch_bytes || row->scratch_bytes <= ask->scratch_bytes);
}
