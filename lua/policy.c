/* SPDX-License-Identifier: Apache-2.0 */
/* A policy: scripts that each return a table of functions, asked one after the other. */
#include "policy.h"

#include <string.h>

#define POLICY_SCRIPTS 16u

struct script {
    char *name;
    char *text;
    size_t bytes;
};

/* Only texts: each plan gets states of its own, so that none sees what another one left. */
struct policy {
    struct peal_policy head;
    peal_ctx *ctx;
    peal_script_limits limits;
    uint32_t count;
    struct script script[POLICY_SCRIPTS];
};

static const char functions_key;
static const char fabric_key;
static const char request_key;

/* What goes into a protected call and comes back. */
struct call {
    struct session *session;
    struct script_run *run;
    const char *hook;
    uint8_t *dropped;
    uint32_t before; /* candidates there are */
    const uint32_t *order;
    uint32_t count;
    uint32_t index;
    int own;
    double time_us;
    int veto;
    char *reason;
};

static peal_status call_hook(struct call *call, lua_CFunction fn, peal_diag *diag)
{
    call->session->refused = PEAL_OK;
    peal_status status = peal_sandbox_run(call->run->box, fn, call, diag);
    peal_status refused = call->session->refused;
    if (status != PEAL_OK && refused != PEAL_OK && refused != PEAL_ERR_ARG) {
        status = refused; /* the planner said so: understood, but not to be had */
        if (diag)
            diag->status = status;
    }
    return status;
}

/* The script's function of this name, with req and fabric behind what is pushed later. */
static struct call *begin_call(lua_State *L)
{
    struct call *call = lua_touserdata(L, 1);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &functions_key);
    lua_getfield(L, -1, call->hook);
    peal_sandbox_blame(L);
    return call;
}

static void push_context(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &request_key);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &fabric_key);
}

static void push_candidate(lua_State *L, const struct call *call, uint32_t index)
{
    peal_object_push(L, call->session, OBJECT_CANDIDATE, index, call->session->numbering);
}

/* ---- loading ------------------------------------------------------------------------- */

static void check_keys(lua_State *L)
{
    static const char *const known[] = {"candidates", "cost",  "choose",
                                        "check",      "sizes", "description"};
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        size_t i = 0;
        peal_sandbox_charge(L, 8);
        while (i < sizeof known / sizeof known[0] && strcmp(key, known[i]) != 0)
            i++;
        if (i == sizeof known / sizeof known[0])
            peal_lua_error(L,
                           "a policy has no '%s'; there are candidates, cost, choose, check, sizes "
                           "and description",
                           key);
        if (i < 4 && lua_type(L, -1) != LUA_TFUNCTION)
            peal_lua_error(L, "a policy's '%s' is a function", key);
        lua_pop(L, 1);
    }
}

static int has_function(lua_State *L, const char *name)
{
    int is = lua_getfield(L, -1, name) == LUA_TFUNCTION;
    lua_pop(L, 1);
    return is;
}

static int run_file(lua_State *L)
{
    struct call *call = lua_touserdata(L, 1);
    struct session *session = call->session;
    struct script_run *run = call->run;
    peal_object_globals(L);
    peal_sandbox_chunk(L);
    lua_call(L, 0, 1);
    if (lua_type(L, -1) != LUA_TTABLE)
        peal_lua_error(L, "a policy returns a table of functions, not a %s",
                       lua_typename(L, lua_type(L, -1)));
    check_keys(L);
    run->has_candidates = has_function(L, "candidates");
    run->has_cost = has_function(L, "cost");
    run->has_choose = has_function(L, "choose");
    run->has_check = has_function(L, "check");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &functions_key);
    if (session->view) {
        peal_object_push(L, session, OBJECT_FABRIC, 0, 0);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &fabric_key);
        peal_object_push(L, session, OBJECT_REQUEST, 0, 0);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &request_key);
    }
    return 0;
}

/* sizes = {65536, 100000}, or a function that gives such a list. */
static int read_sizes(lua_State *L)
{
    struct call *call = begin_call(L);
    struct session *session = call->session;
    if (lua_type(L, -1) == LUA_TFUNCTION) {
        push_context(L);
        lua_call(L, 2, 1);
    }
    if (lua_isnil(L, -1))
        return 0;
    if (lua_type(L, -1) != LUA_TTABLE)
        peal_lua_error(L, "a policy's sizes are a list of bytes");
    for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
        int is;
        lua_Integer bytes = lua_tointegerx(L, -1, &is);
        if (!is || bytes < 0)
            peal_lua_error(L, "a policy's sizes are a list of bytes");
        if (session->nsizes == POLICY_SIZES)
            peal_lua_error(L, "a policy has at most %d sizes", (int)POLICY_SIZES);
        session->sizes[session->nsizes++] = (uint64_t)bytes;
        lua_pop(L, 1);
    }
    return 0;
}

static peal_status open_script(const struct policy *policy, struct session *session, uint32_t i,
                               peal_diag *diag)
{
    const struct script *script = &policy->script[i];
    struct script_run *run = &session->run[i];
    struct call call = {.session = session, .run = run, .hook = "sizes"};
    run->name = script->name;
    PEAL_TRY(peal_sandbox_open(policy->ctx, &policy->limits, diag, &run->box));
    PEAL_TRY(peal_sandbox_load(run->box, script->text, script->bytes, script->name, diag));
    PEAL_TRY(call_hook(&call, run_file, diag));
    return session->view ? call_hook(&call, read_sizes, diag) : PEAL_OK;
}

static void end_session(void *opaque)
{
    struct session *session = opaque;
    for (uint32_t i = 0; i < session->count; i++)
        peal_sandbox_destroy(session->run[i].box);
    peal_free(session->ctx, session->run, session->count * sizeof *session->run);
    peal_free(session->ctx, session, sizeof *session);
}

static peal_status begin_session(const peal_policy *opaque, const struct policy_view *view,
                                 peal_diag *diag, void **session_out)
{
    const struct policy *policy = (const struct policy *)opaque;
    struct session *session = peal_calloc(policy->ctx, 1, sizeof *session);
    if (!session)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    session->ctx = policy->ctx;
    session->view = view;
    session->fabric = view ? view->fabric : NULL;
    session->bytes = view ? view->request->max_bytes : 0;
    session->facts_index = UINT32_MAX;
    session->program = NO_PROGRAM;
    session->run = peal_calloc(policy->ctx, policy->count, sizeof *session->run);
    session->count = session->run ? policy->count : 0;
    peal_status status = PEAL_OK;
    if (!session->run)
        status = peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (uint32_t i = 0; status == PEAL_OK && i < session->count; i++)
        status = open_script(policy, session, i, diag);
    if (status != PEAL_OK) {
        end_session(session);
        return status;
    }
    *session_out = session;
    return PEAL_OK;
}

/* ---- candidates -------------------------------------------------------------------------- */

/* A list of algorithms as the value of `key`: sets those of the candidates that have one of them,
 * or that have none. */
static void drop_by_names(lua_State *L, const struct call *call, const char *key, int when_named)
{
    if (lua_getfield(L, -1, key) == LUA_TNIL) {
        lua_pop(L, 1);
        return;
    }
    if (lua_type(L, -1) != LUA_TTABLE)
        peal_lua_error(L, "%s is a list of algorithms", key);
    for (uint32_t i = 0; i < call->before; i++) {
        const char *algorithm = peal_object_facts(call->session, i)->row.algorithm;
        int named = 0;
        for (lua_Integer k = 1; lua_rawgeti(L, -1, k) != LUA_TNIL; k++) {
            peal_sandbox_charge(L, 8);
            named |= lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), algorithm) == 0;
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
        call->dropped[i] |= named == when_named;
    }
    lua_pop(L, 1);
}

/* drop = function(candidate): true leaves it out. */
static int drop_by_function(lua_State *L, const struct call *call)
{
    if (lua_getfield(L, -1, "drop") != LUA_TFUNCTION) {
        lua_pop(L, 1);
        return 0;
    }
    for (uint32_t i = 0; i < call->before; i++) {
        lua_pushvalue(L, -1);
        push_candidate(L, call, i);
        lua_call(L, 1, 1);
        call->dropped[i] |= (uint8_t)lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return 1;
}

static void check_list_keys(lua_State *L)
{
    peal_sandbox_charge_walk(L);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
        peal_sandbox_charge(L, 4);
        if (key && strcmp(key, "drop") != 0 && strcmp(key, "keep") != 0)
            peal_lua_error(L, "candidates returns a list of schedules, drop and keep, no '%s'",
                           key);
        lua_pop(L, 1);
    }
}

static int run_candidates(lua_State *L)
{
    struct call *call = begin_call(L);
    struct ask ask;
    uint32_t first, count;
    push_context(L);
    lua_call(L, 2, 1);
    if (lua_isnil(L, -1))
        return 0;
    if (lua_type(L, -1) != LUA_TTABLE)
        peal_lua_error(L, "candidates returns a table, or nil");
    check_list_keys(L);
    if (!drop_by_function(L, call))
        drop_by_names(L, call, "drop", 1);
    drop_by_names(L, call, "keep", 0);
    for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
        if (lua_type(L, -1) != LUA_TTABLE)
            peal_lua_error(L, "a schedule is asked for by a table, {algorithm = \"ring\"}");
        peal_ask_read(L, -1, call->session, &ask);
        if (ask.scratch_bytes || ask.protocol)
            peal_lua_error(L, "scratch_bytes and protocol are for choose");
        peal_ask_candidates(L, call->session, &ask, &first, &count);
        lua_pop(L, 1);
    }
    return 0;
}

static peal_status hook_candidates(void *opaque, uint8_t *dropped, peal_diag *diag)
{
    struct session *session = opaque;
    uint32_t before = session->view->count(session->view->planner);
    for (uint32_t i = 0; i < session->count; i++) {
        struct call call = {.session = session,
                            .run = &session->run[i],
                            .hook = "candidates",
                            .dropped = dropped,
                            .before = before};
        if (call.run->has_candidates)
            PEAL_TRY(call_hook(&call, run_candidates, diag));
    }
    session->facts_index = UINT32_MAX; /* they are numbered anew */
    session->numbering++;
    return PEAL_OK;
}

static const uint64_t *hook_sizes(void *opaque, uint32_t *count_out)
{
    struct session *session = opaque;
    *count_out = session->nsizes;
    return session->sizes;
}

/* ---- cost ----------------------------------------------------------------------------------- */

#define COST_MAX 1e12 /* us: never chosen while there is anything else */

static int hook_has_cost(void *opaque)
{
    const struct session *session = opaque;
    for (uint32_t i = 0; i < session->count; i++)
        if (session->run[i].has_cost)
            return 1;
    return 0;
}

static int run_cost(lua_State *L)
{
    struct call *call = begin_call(L);
    push_candidate(L, call, call->index);
    push_context(L);
    lua_pushnumber(L, call->time_us);
    lua_call(L, 4, 1);
    if (lua_isnil(L, -1))
        return 0;
    double time_us = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
    if (!(time_us >= 0))
        peal_lua_error(L, "cost returns a time in us that is not negative, or nil");
    call->time_us = time_us < COST_MAX ? time_us : COST_MAX;
    return 0;
}

static peal_status hook_cost(void *opaque, uint32_t index, uint64_t bytes, double *time_us,
                             peal_diag *diag)
{
    struct session *session = opaque;
    session->bytes = bytes;
    for (uint32_t i = 0; i < session->count; i++) {
        struct call call = {.session = session,
                            .run = &session->run[i],
                            .hook = "cost",
                            .index = index,
                            .time_us = *time_us};
        if (!call.run->has_cost)
            continue;
        PEAL_TRY(call_hook(&call, run_cost, diag));
        *time_us = call.time_us;
    }
    return PEAL_OK;
}

/* ---- choose ---------------------------------------------------------------------------------- */

static int hook_has_choose(void *opaque)
{
    const struct session *session = opaque;
    for (uint32_t i = 0; i < session->count; i++)
        if (session->run[i].has_choose)
            return 1;
    return 0;
}

static void push_candidates(lua_State *L, const struct call *call)
{
    uint64_t left = peal_sandbox_left(peal_sandbox_of(L));
    lua_createtable(L, (int)call->count, 1);
    for (uint32_t i = 0; i < call->count; i++) {
        push_candidate(L, call, call->order[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    push_candidate(L, call, call->index);
    lua_setfield(L, -2, "default");
    peal_sandbox_settle(L, left, OBJECT_UNITS * (call->count + 1u));
}

/* Of candidates first to first + count the fastest that fits and serves the size. */
static int best_of(struct call *call, const struct ask *ask, uint32_t first, uint32_t count)
{
    int found = 0;
    double best = 0;
    for (uint32_t i = first; i < first + count; i++) {
        const struct policy_facts *facts = peal_object_facts(call->session, i);
        if (!peal_ask_fits(ask, facts) || facts->most_bytes < call->session->bytes)
            continue;
        if (!found || facts->row.time_us < best)
            call->index = i;
        best = found && best < facts->row.time_us ? best : facts->row.time_us;
        found = 1;
    }
    return found;
}

/* The best of what there is; else of what the planner makes for it. */
static void take_asked(lua_State *L, struct call *call)
{
    struct ask ask;
    uint32_t first, count;
    peal_ask_read(L, -1, call->session, &ask);
    peal_sandbox_charge(L, 8 * (uint64_t)call->count);
    for (uint32_t i = 0; i < call->count; i++)
        if (peal_ask_fits(&ask, peal_object_facts(call->session, call->order[i]))) {
            call->index = call->order[i];
            return;
        }
    peal_ask_candidates(L, call->session, &ask, &first, &count);
    if (best_of(call, &ask, first, count))
        return;
    call->session->refused = PEAL_ERR_UNSUPPORTED;
    peal_lua_error(L, "nothing that is asked for serves a message of %I bytes",
                   (LUAI_UACINT)call->session->bytes);
}

static int run_choose(lua_State *L)
{
    struct call *call = begin_call(L);
    push_candidates(L, call);
    push_context(L);
    lua_call(L, 3, 1);
    if (lua_isnil(L, -1))
        return 0;
    const struct object *candidate = peal_object_at(L, -1, OBJECT_CANDIDATE);
    if (candidate)
        peal_object_current(L, candidate);
    if (candidate)
        call->index = candidate->index;
    else if (lua_type(L, -1) == LUA_TTABLE)
        take_asked(L, call);
    else
        peal_lua_error(L, "choose returns a candidate, a table that asks for one, or nil");
    call->own = 1;
    return 0;
}

static peal_status hook_choose(void *opaque, uint64_t bytes, const uint32_t *order, uint32_t count,
                               uint32_t *index, int *own, peal_diag *diag)
{
    struct session *session = opaque;
    session->bytes = bytes;
    for (uint32_t i = 0; i < session->count; i++) {
        struct call call = {.session = session,
                            .run = &session->run[i],
                            .hook = "choose",
                            .order = order,
                            .count = count,
                            .index = *index};
        if (!call.run->has_choose)
            continue;
        PEAL_TRY(call_hook(&call, run_choose, diag));
        *index = call.index;
        *own |= call.own;
    }
    return PEAL_OK;
}

/* ---- check --------------------------------------------------------------------------------------
 */

static int run_check(lua_State *L)
{
    struct call *call = begin_call(L);
    push_candidate(L, call, call->index);
    push_context(L);
    lua_call(L, 3, 2);
    if (lua_isnil(L, -2) || lua_toboolean(L, -2))
        return 0;
    call->veto = 1;
    peal_copy_text(call->reason, POLICY_REASON,
                   lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "no reason given");
    return 0;
}

static peal_status hook_check(void *opaque, uint32_t index, const peal_row_info *row, int *veto,
                              char reason[POLICY_REASON], peal_diag *diag)
{
    struct session *session = opaque;
    session->row = row;
    session->bytes = row->max_bytes;
    session->checked = index;
    session->checks = (session->checks + 1) & UINT16_MAX;
    session->program = NO_PROGRAM;
    peal_status status = PEAL_OK;
    for (uint32_t i = 0; status == PEAL_OK && !*veto && i < session->count; i++) {
        struct call call = {.session = session,
                            .run = &session->run[i],
                            .hook = "check",
                            .index = index,
                            .reason = reason};
        if (!call.run->has_check)
            continue;
        status = call_hook(&call, run_check, diag);
        *veto = call.veto;
    }
    session->row = NULL;
    session->facts_index = UINT32_MAX;
    return status;
}

/* ---- the handle -------------------------------------------------------------------------------
 */

static const struct policy_hooks hooks = {begin_session,   end_session,   hook_candidates,
                                          hook_sizes,      hook_has_cost, hook_cost,
                                          hook_has_choose, hook_choose,   hook_check};

static peal_status copy_script(struct policy *policy, const peal_policy_text *script,
                               peal_diag *diag)
{
    struct script *to = &policy->script[policy->count];
    if (!script->text && script->bytes)
        return peal_fail(diag, PEAL_ERR_ARG, "a script has no text");
    to->name = peal_strdup(policy->ctx, script->name ? script->name : "policy");
    to->text = peal_alloc(policy->ctx, script->bytes + 1);
    to->bytes = script->bytes;
    policy->count++;
    if (!to->name || !to->text)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    if (script->bytes)
        memcpy(to->text, script->text, script->bytes);
    to->text[script->bytes] = '\0';
    return PEAL_OK;
}

static peal_status fill_policy(struct policy *policy, const peal_policy_text *scripts,
                               uint32_t count, const peal_script_limits *limits, peal_diag *diag)
{
    void *session;
    policy->limits.size = sizeof policy->limits;
    if (limits && peal_import(&policy->limits, sizeof policy->limits, limits) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "limits of an unknown version");
    for (uint32_t i = 0; i < count; i++)
        PEAL_TRY(copy_script(policy, &scripts[i], diag));
    PEAL_TRY(begin_session(&policy->head, NULL, diag, &session));
    end_session(session);
    return PEAL_OK;
}

peal_status peal_policy_create(peal_ctx *ctx, const peal_policy_text *scripts, uint32_t count,
                               const peal_script_limits *limits, peal_diag *diag,
                               peal_policy **policy_out)
{
    if (!ctx || !scripts || !count || count > POLICY_SCRIPTS || !policy_out)
        return peal_fail(diag, PEAL_ERR_ARG, "a policy has 1 to %u scripts", POLICY_SCRIPTS);
    struct policy *policy = peal_calloc(ctx, 1, sizeof *policy);
    if (!policy)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    policy->head.hooks = &hooks;
    policy->ctx = ctx;
    peal_status status = fill_policy(policy, scripts, count, limits, diag);
    if (status != PEAL_OK) {
        peal_policy_destroy(&policy->head);
        return status;
    }
    *policy_out = &policy->head;
    return PEAL_OK;
}

void peal_policy_destroy(peal_policy *opaque)
{
    struct policy *policy = (struct policy *)opaque;
    if (!policy)
        return;
    for (uint32_t i = 0; i < policy->count; i++) {
        peal_strfree(policy->ctx, policy->script[i].name);
        peal_free(policy->ctx, policy->script[i].text, policy->script[i].bytes + 1);
    }
    peal_free(policy->ctx, policy, sizeof *policy);
}
