/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a plan as scripts see them in check. They are made when asked for, rank by rank, and
 * paid for by what that takes. */
#include "policy.h"

#define PLAN_UNITS 4000u /* what all ranks share */
#define RANK_UNITS 20u   /* of that, for each */
#define PROGRAM_UNITS 500u
#define MADE_UNITS 8u /* a step of a program */
#define STEP_UNITS 8u /* a look at one */

static uint32_t named(const struct session *session, uint32_t rank)
{
    return session->checks << 16 | rank;
}

uint32_t peal_steps_count(lua_State *L, struct session *session, uint32_t program)
{
    const struct policy_view *view = session->view;
    uint32_t rank = program & UINT16_MAX;
    peal_diag diag = PEAL_DIAG_INIT;
    if (!session->row || program != named(session, rank))
        peal_lua_error(L, "a plan's steps are there while it is checked, and no longer");
    if (session->program == program)
        return session->program_steps;
    if (session->program == NO_PROGRAM)
        peal_sandbox_charge(L, PLAN_UNITS + RANK_UNITS * view->ranks);
    peal_sandbox_charge(L, PROGRAM_UNITS);
    session->program = NO_PROGRAM;
    session->refused = view->program(view->planner, session->checked, session->row, rank, &diag,
                                     &session->program_steps);
    if (session->refused != PEAL_OK)
        peal_lua_error(L, "%s", diag.text);
    session->program = program;
    session->step_index = UINT32_MAX;
    peal_sandbox_charge(L, MADE_UNITS * (uint64_t)session->program_steps);
    return session->program_steps;
}

const struct policy_step *peal_steps_step(lua_State *L, const struct object *o)
{
    struct session *session = o->session;
    (void)peal_steps_count(L, session, o->other);
    if (session->step_index != o->index) {
        peal_sandbox_charge(L, STEP_UNITS);
        session->view->step(session->view->planner, o->index, &session->step);
        session->step_index = o->index;
    }
    return &session->step;
}

/* A table of those that move data over a class of links. */
static void push_over(lua_State *L, struct session *session, uint32_t program, const char *name)
{
    peal_link_class class;
    struct policy_step step;
    lua_Integer count = 0;
    if (peal_link_class_parse(name, &class) != PEAL_OK)
        peal_arg_error(L, 3, "no such class of links");
    uint32_t steps = peal_steps_count(L, session, program);
    uint64_t left = peal_sandbox_left(peal_sandbox_of(L));
    lua_newtable(L);
    for (uint32_t i = 0; i < steps; i++) {
        session->view->step(session->view->planner, i, &step);
        if (step.link_class != (int)class)
            continue;
        peal_object_push(L, session, OBJECT_STEP, i, program);
        lua_rawseti(L, -2, ++count);
    }
    peal_sandbox_settle(L, left, steps + OBJECT_UNITS * (uint64_t)count);
}

int peal_steps_list(lua_State *L)
{
    const struct object *o = peal_object_at(L, 1, OBJECT_CANDIDATE);
    if (!o)
        peal_arg_error(L, 1, "call it with a colon, plan:steps(rank)");
    struct session *session = o->session;
    lua_Integer rank = peal_arg_integer(L, 2);
    if (!session->row || o->index != session->checked)
        peal_lua_error(L, "steps are those of the plan that is checked, and of no other");
    if (rank < 0 || rank >= (lua_Integer)session->view->ranks)
        peal_lua_error(L, "there is no rank %I: ranks are 0 to %d", (LUAI_UACINT)rank,
                       (int)session->view->ranks - 1);
    uint32_t program = named(session, (uint32_t)rank);
    if (lua_isnoneornil(L, 3))
        peal_object_list(L, session, program, OBJECT_STEP);
    else
        push_over(L, session, program, peal_arg_string(L, 3, NULL));
    return 1;
}

int peal_steps_peers(lua_State *L)
{
    const struct object *o = peal_object_at(L, 1, OBJECT_STEP);
    if (!o)
        peal_arg_error(L, 1, "call it with a colon, step:peers()");
    const struct policy_step *step = peal_steps_step(L, o);
    peal_sandbox_charge(L, step->npeers);
    lua_createtable(L, (int)step->npeers, 0);
    for (uint32_t i = 0; i < step->npeers; i++) {
        lua_pushinteger(L, step->peers[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}
