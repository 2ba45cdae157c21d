/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's objects as scripts see them: userdata that read, and are asked when a field is
 * looked at. Two designs were tried on paper: tables made beforehand would cost a plan of 128 hosts
 * thousands of them whether they are looked at or not, and could be written. */
#include "policy.h"

#include <string.h>

#define DISTANCE_UNITS 500 /* a walk through a host */

struct field {
    const char *name;
    void (*push)(lua_State *L, const struct object *o);
};

static void must(lua_State *L, peal_status status)
{
    if (status != PEAL_OK)
        peal_lua_error(L, "the object is gone: %s", peal_status_text(status));
}

static void push_INTEGER(lua_State *L, lua_Integer value)
{
    lua_pushinteger(L, value);
}

static void push_NUMBER(lua_State *L, double value)
{
    lua_pushnumber(L, value);
}

static void push_BOOLEAN(lua_State *L, int value)
{
    lua_pushboolean(L, value);
}

static void push_STRING(lua_State *L, const char *value)
{
    lua_pushstring(L, value ? value : "");
}

/* ---- the info behind each kind ------------------------------------------------------ */

#define FABRIC_INFO(kind, get)                                                                     \
    peal_##kind##_info info = {.size = sizeof info};                                               \
    const peal_##kind##_info *v = &info;                                                           \
    must(L, get)
#define INFO_FABRIC FABRIC_INFO(fabric, peal_fabric_get(o->session->fabric, &info))
#define INFO_RANK FABRIC_INFO(rank, peal_fabric_rank(o->session->fabric, o->index, &info))
#define INFO_NIC FABRIC_INFO(nic, peal_fabric_nic(o->session->fabric, o->index, &info))
#define INFO_NODE FABRIC_INFO(node, peal_fabric_node(o->session->fabric, o->index, &info))
#define INFO_LINK FABRIC_INFO(link, peal_fabric_link(o->session->fabric, o->index, &info))
#define INFO_NOTE FABRIC_INFO(note, peal_fabric_note(o->session->fabric, o->index, &info))
#define INFO_PATH FABRIC_INFO(path, peal_fabric_path(o->session->fabric, o->index, o->other, &info))
#define INFO_STEP const struct policy_step *v = peal_steps_step(L, o)
#define INFO_REQUEST const peal_request *v = o->session->view->request
#define INFO_CANDIDATE                                                                             \
    peal_object_current(L, o);                                                                     \
    const struct policy_facts *v = facts_of(o)

void peal_object_current(lua_State *L, const struct object *candidate)
{
    if (candidate->other != candidate->session->numbering)
        peal_lua_error(L, "this candidate was shown before some were dropped, and is gone");
}

static const struct policy_facts *facts_of(const struct object *o)
{
    struct session *session = o->session;
    uint64_t bytes = session->row ? session->row->max_bytes : session->bytes;
    if (session->facts_index != o->index || session->facts_bytes != bytes) {
        session->view->facts(session->view->planner, o->index, bytes, &session->facts);
        session->facts_index = o->index;
        session->facts_bytes = bytes;
    }
    if (session->row) {
        session->facts.row.min_bytes = session->row->min_bytes;
        session->facts.row.max_bytes = session->row->max_bytes;
    }
    return &session->facts;
}

const struct policy_facts *peal_object_facts(struct session *session, uint32_t index)
{
    const struct object o = {session, index, 0};
    return facts_of(&o);
}

static double beta_of(const struct policy_facts *facts)
{
    double beta = facts->row.time_us - facts->row.alpha_us - facts->gamma_us;
    return beta > 0 ? beta : 0;
}

static uint64_t size_of(const struct object *o, const peal_request *request)
{
    return o->session->bytes ? o->session->bytes : request->max_bytes;
}

static uint32_t ranks_of(const struct object *o, const peal_request *request)
{
    return o->session->view ? o->session->view->ranks : request->ranks;
}

static uint32_t length_of(lua_State *L, const struct object *o, uint32_t kind)
{
    if (kind == OBJECT_STEP)
        return peal_steps_count(L, o->session, o->index);
    INFO_FABRIC;
    switch (kind) {
    case OBJECT_RANK:
        return v->ranks;
    case OBJECT_NIC:
        return v->nics;
    case OBJECT_NODE:
        return peal_fabric_node_count(o->session->fabric);
    case OBJECT_LINK:
        return v->links;
    default:
        return v->notes;
    }
}

static const char *distance_of(const struct object *o, int32_t nic)
{
    peal_nic_distance distance;
    if (peal_fabric_nic_distance(o->session->fabric, o->index, (uint32_t)nic, &distance) != PEAL_OK)
        return "";
    return peal_nic_distance_name(distance);
}

/* ---- methods --------------------------------------------------------------------------- */

static struct object *self(lua_State *L, enum object_kind kind)
{
    struct object *o = peal_object_at(L, 1, kind);
    if (!o)
        peal_arg_error(L, 1, "call it with a colon, object:method()");
    return o;
}

static uint32_t rank_argument(lua_State *L, int arg, uint32_t count)
{
    lua_Integer rank = peal_arg_integer(L, arg);
    if (rank < 0 || rank >= (lua_Integer)count)
        peal_lua_error(L, "there is no rank %I: ranks are 0 to %d", rank, (int)count - 1);
    return (uint32_t)rank;
}

static int fabric_rank(lua_State *L)
{
    const struct object *o = self(L, OBJECT_FABRIC);
    uint32_t rank = rank_argument(L, 2, length_of(L, o, OBJECT_RANK));
    peal_object_push(L, o->session, OBJECT_RANK, rank, 0);
    return 1;
}

static int fabric_path(lua_State *L)
{
    const struct object *o = self(L, OBJECT_FABRIC);
    uint32_t count = length_of(L, o, OBJECT_RANK);
    uint32_t from = rank_argument(L, 2, count), to = rank_argument(L, 3, count);
    peal_object_push(L, o->session, OBJECT_PATH, from, to);
    return 1;
}

static int fabric_nic_distance(lua_State *L)
{
    const struct object *o = self(L, OBJECT_FABRIC);
    uint32_t count = length_of(L, o, OBJECT_NIC);
    const struct object rank = {o->session, rank_argument(L, 2, length_of(L, o, OBJECT_RANK)), 0};
    lua_Integer nic = peal_arg_integer(L, 3);
    if (nic < 0 || nic >= (lua_Integer)count)
        peal_lua_error(L, "there is no NIC %I: there are %d, from 0", (LUAI_UACINT)nic, (int)count);
    peal_sandbox_charge(L, DISTANCE_UNITS);
    lua_pushstring(L, distance_of(&rank, (int32_t)nic));
    return 1;
}

static int request_rank(lua_State *L)
{
    const struct object *o = self(L, OBJECT_REQUEST);
    const struct policy_view *view = o->session->view;
    uint32_t rank = rank_argument(L, 2, view->ranks);
    peal_object_push(L, o->session, OBJECT_RANK, view->rank_of(view->planner, rank), 0);
    return 1;
}

static int candidate_engine(lua_State *L)
{
    const struct object *o = self(L, OBJECT_CANDIDATE);
    peal_link_class class;
    int found = 0;
    peal_object_current(L, o);
    if (peal_link_class_parse(peal_arg_string(L, 2, NULL), &class) != PEAL_OK)
        peal_arg_error(L, 2, "no such class of links");
    uint32_t engines = facts_of(o)->row.move_engines[class];
    for (int e = 0; e < PEAL_ENGINE_COUNT; e++)
        if (engines >> e & 1) {
            if (found++)
                lua_pushstring(L, "+");
            lua_pushstring(L, peal_engine_name((peal_engine)e));
        }
    if (!found)
        lua_pushnil(L);
    else
        lua_concat(L, 2 * found - 1);
    return 1;
}

static int candidate_time(lua_State *L)
{
    const struct object *o = self(L, OBJECT_CANDIDATE);
    lua_Integer bytes = peal_arg_integer(L, 2);
    peal_object_current(L, o);
    if (bytes < 0 || bytes > (lua_Integer)1 << 46)
        peal_arg_error(L, 2, "a size is below 64 TiB");
    peal_sandbox_charge(L, 16);
    const struct policy_view *view = o->session->view;
    lua_pushnumber(L, view->time_us(view->planner, o->index, (uint64_t)bytes));
    return 1;
}

/* ---- the tables of fields.def ----------------------------------------------------------- */

#define OBJECT(id, name, text)
#define LIST(owner, name, element, text)                                                           \
    static void get_##owner##_##name(lua_State *L, const struct object *o);
#define METHOD(owner, name, function, parameters, result, text)
#define FIELD(owner, name, type, value, text)                                                      \
    static void get_##owner##_##name(lua_State *L, const struct object *o)                         \
    {                                                                                              \
        INFO_##owner;                                                                              \
        push_##type(L, value);                                                                     \
    }
#include "fields.def"
#undef LIST
#undef FIELD
#undef OBJECT
#undef METHOD

#define OBJECT(id, name, text)
#define FIELD(owner, name, type, value, text)
#define METHOD(owner, name, function, parameters, result, text)
#define LIST(owner, name, element, text)                                                           \
    static void get_##owner##_##name(lua_State *L, const struct object *o)                         \
    {                                                                                              \
        peal_object_list(L, o->session, 0, OBJECT_##element);                                      \
    }
#include "fields.def"
#undef LIST
#undef FIELD
#undef OBJECT
#undef METHOD

static const struct kind_field {
    enum object_kind kind;
    struct field field;
    lua_CFunction method;
} fields[] = {
#define OBJECT(id, name, text)
#define FIELD(owner, name, type, value, text) {OBJECT_##owner, {#name, get_##owner##_##name}, NULL},
#define LIST(owner, name, element, text) {OBJECT_##owner, {#name, get_##owner##_##name}, NULL},
#define METHOD(owner, name, function, parameters, result, text)                                    \
    {OBJECT_##owner, {#name, NULL}, function},
#include "fields.def"
#undef LIST
#undef FIELD
#undef OBJECT
#undef METHOD
};
#define FIELDS (sizeof fields / sizeof fields[0])

static const char *const kind_names[OBJECTS] = {
#define OBJECT(id, name, text) "peal." name,
#define FIELD(owner, name, type, value, text)
#define LIST(owner, name, element, text)
#define METHOD(owner, name, function, parameters, result, text)
#include "fields.def"
#undef LIST
#undef FIELD
#undef OBJECT
#undef METHOD
};

/* ---- objects ------------------------------------------------------------------------------- */

static const char kind_keys[OBJECTS]; /* their addresses name the metatables */
static const char list_key;

/* Upvalues: names with the number of their field, or a method; the kind's name. */
static int object_get(lua_State *L)
{
    lua_pushvalue(L, 2);
    int type = lua_rawget(L, lua_upvalueindex(1));
    if (type == LUA_TFUNCTION)
        return 1;
    if (type != LUA_TNUMBER)
        peal_lua_error(L, "a %s has no '%s'", lua_tostring(L, lua_upvalueindex(2)),
                       peal_sandbox_tostring(L, 2, NULL));
    fields[lua_tointeger(L, -1)].field.push(L, lua_touserdata(L, 1));
    return 1;
}

static int object_set(lua_State *L)
{
    peal_lua_error(L, "a %s cannot be changed", lua_tostring(L, lua_upvalueindex(1)));
}

static int object_equal(lua_State *L)
{
    const struct object *a = lua_touserdata(L, 1), *b = lua_touserdata(L, 2);
    int alike = a && b && lua_getmetatable(L, 1) && lua_getmetatable(L, 2);
    alike = alike && lua_rawequal(L, -1, -2); /* of one kind */
    lua_pushboolean(L, alike && a->index == b->index && a->other == b->other);
    return 1;
}

static void fill_metatable(lua_State *L, enum object_kind kind)
{
    lua_createtable(L, 0, 32);
    for (size_t i = 0; i < FIELDS; i++) {
        if (fields[i].kind != kind)
            continue;
        if (fields[i].method)
            lua_pushcfunction(L, fields[i].method);
        else
            lua_pushinteger(L, (lua_Integer)i);
        lua_setfield(L, -2, fields[i].field.name);
    }
    lua_pushstring(L, kind_names[kind]);
    lua_pushcclosure(L, object_get, 2);
    lua_setfield(L, -2, "__index");
    lua_pushstring(L, kind_names[kind]);
    lua_pushcclosure(L, object_set, 1);
    lua_setfield(L, -2, "__newindex");
    lua_pushcfunction(L, object_equal);
    lua_setfield(L, -2, "__eq");
    lua_pushstring(L, kind_names[kind]);
    lua_setfield(L, -2, "__name");
}

static struct object *push_object(lua_State *L, struct session *session, uint32_t index,
                                  uint32_t other)
{
    uint64_t left = peal_sandbox_left(peal_sandbox_of(L));
    struct object *o = lua_newuserdatauv(L, sizeof *o, 0);
    *o = (struct object){session, index, other};
    peal_sandbox_settle(L, left, OBJECT_UNITS);
    return o;
}

void peal_object_push(lua_State *L, struct session *session, enum object_kind kind, uint32_t index,
                      uint32_t other)
{
    (void)push_object(L, session, index, other);
    if (peal_sandbox_metatable(L, &kind_keys[kind]))
        fill_metatable(L, kind);
    lua_setmetatable(L, -2);
}

struct object *peal_object_at(lua_State *L, int index, enum object_kind kind)
{
    if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index))
        return NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &kind_keys[kind]);
    int is = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return is ? lua_touserdata(L, index) : NULL;
}

/* ---- lists ------------------------------------------------------------------------------------
 */

static int list_get(lua_State *L)
{
    const struct object *o = lua_touserdata(L, 1);
    int is;
    lua_Integer at = lua_tointegerx(L, 2, &is);
    if (!is || lua_type(L, 2) != LUA_TNUMBER)
        peal_lua_error(L, "a list has numbers from 1, no '%s'", peal_sandbox_tostring(L, 2, NULL));
    if (at < 1 || at > (lua_Integer)length_of(L, o, o->other))
        lua_pushnil(L);
    else
        peal_object_push(L, o->session, (enum object_kind)o->other, (uint32_t)at - 1, o->index);
    return 1;
}

static int list_length(lua_State *L)
{
    const struct object *o = lua_touserdata(L, 1);
    lua_pushinteger(L, length_of(L, o, o->other));
    return 1;
}

/* Upvalues: the list, how far the walk is. */
static int list_walk(lua_State *L)
{
    const struct object *o = lua_touserdata(L, lua_upvalueindex(1));
    lua_Integer at = lua_tointeger(L, lua_upvalueindex(2)) + 1;
    if (at > (lua_Integer)length_of(L, o, o->other))
        return 0;
    lua_pushinteger(L, at);
    lua_copy(L, -1, lua_upvalueindex(2));
    peal_object_push(L, o->session, (enum object_kind)o->other, (uint32_t)at - 1, o->index);
    return 2;
}

static int list_pairs(lua_State *L)
{
    lua_settop(L, 1);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, list_walk, 2);
    return 1;
}

static int list_set(lua_State *L)
{
    peal_lua_error(L, "a list of the planner's cannot be changed");
}

void peal_object_list(lua_State *L, struct session *session, uint32_t index,
                      enum object_kind element)
{
    static const struct sandbox_function meta[] = {{"__index", list_get},
                                                   {"__len", list_length},
                                                   {"__pairs", list_pairs},
                                                   {"__newindex", list_set},
                                                   {NULL, NULL}};
    (void)push_object(L, session, index, (uint32_t)element);
    if (peal_sandbox_metatable(L, &list_key)) {
        peal_sandbox_add(L, meta);
        lua_pushstring(L, "list");
        lua_setfield(L, -2, "__name");
    }
    lua_setmetatable(L, -2);
}

/* ---- the global peal ----------------------------------------------------------------------------
 */

/* "64K" in bytes. */
static int size_of_text(lua_State *L)
{
    size_t bytes;
    const char *text = peal_arg_string(L, 1, &bytes), *at = text;
    static const char units[] = "KMGT";
    uint64_t value = 0;
    for (; *at >= '0' && *at <= '9' && value < (uint64_t)1 << 46; at++)
        value = 10 * value + (uint64_t)(*at - '0');
    const char *unit = *at ? strchr(units, *at) : NULL;
    if (unit)
        value <<= 10 * (unit - units + 1);
    at += unit != NULL;
    if (at == text || at != text + bytes || value > (uint64_t)1 << 46)
        peal_lua_error(L, "'%s' is no size such as 8, 64K, 1M or 1G", text);
    lua_pushinteger(L, (lua_Integer)value);
    return 1;
}

static int text_of_size(lua_State *L)
{
    static const char units[] = " KMGT";
    lua_Integer value = peal_arg_integer(L, 1);
    int unit = 0;
    for (; value && value % 1024 == 0 && unit < 4; unit++)
        value /= 1024;
    if (unit)
        lua_pushfstring(L, "%I%c", (LUAI_UACINT)value, units[unit]);
    else
        lua_pushfstring(L, "%I", (LUAI_UACINT)value);
    return 1;
}

void peal_object_globals(lua_State *L)
{
    static const struct sandbox_function functions[] = {
        {"size", size_of_text}, {"size_text", text_of_size}, {NULL, NULL}};
    peal_sandbox_table(L, functions);
    lua_pushinteger(L, 1 << 10);
    lua_setfield(L, -2, "KiB");
    lua_pushinteger(L, 1 << 20);
    lua_setfield(L, -2, "MiB");
    lua_pushinteger(L, 1 << 30);
    lua_setfield(L, -2, "GiB");
    lua_pushstring(L, peal_version());
    lua_setfield(L, -2, "version");
    peal_sandbox_freeze(L, "peal");
    lua_setglobal(L, "peal");
}
