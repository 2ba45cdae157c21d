/* SPDX-License-Identifier: Apache-2.0 */
/* Policies in Lua: what the planner's objects look like to scripts, and scripts to the planner. */
#ifndef PEAL_LUA_POLICY_H
#define PEAL_LUA_POLICY_H

#include "policy_hook.h"
#include "sandbox.h"

#define POLICY_SIZES 256u

enum object_kind {
#define OBJECT(id, name, text) OBJECT_##id,
#define FIELD(owner, name, type, value, text)
#define LIST(owner, name, element, text)
#define METHOD(owner, name, function, parameters, result, text)
#include "fields.def"
#undef OBJECT
#undef FIELD
#undef LIST
#undef METHOD
    OBJECTS
};

/* One script at work on one plan. */
struct script_run {
    struct sandbox *box;
    const char *name;
    int has_candidates;
    int has_cost;
    int has_choose;
    int has_check;
};

/* A policy at work, or a console: then there is no view. */
struct session {
    peal_ctx *ctx;
    const peal_fabric *fabric;
    const struct policy_view *view;
    uint64_t bytes;           /* the size in question */
    const peal_row_info *row; /* in check; else NULL */
    /* The last candidate that was looked at. */
    struct policy_facts facts;
    uint32_t facts_index;
    uint64_t facts_bytes;
    uint32_t numbering; /* how often candidates have been numbered: what was shown before is gone */
    peal_status refused; /* what the planner said to the request under way */
    uint64_t sizes[POLICY_SIZES];
    uint32_t nsizes;
    uint32_t count;
    struct script_run *run;
    /* In check: which candidate, and the program and the step that were looked at last. Programs
     * are named by their rank, and above it by the check: nothing that a script keeps is taken for
     * that of a later one. */
    uint32_t checked;
    uint32_t checks;
    uint32_t program;
    uint32_t program_steps;
    uint32_t step_index;
    struct policy_step step;
};
#define NO_PROGRAM UINT32_MAX

struct object {
    struct session *session;
    uint32_t index;
    uint32_t other; /* of a path, its other end; of a list, the kind of its elements; of a step, its
                       program; of a candidate, the numbering it is of */
};

#define OBJECT_UNITS 8u /* what one costs who is handed it */
void peal_object_push(lua_State *L, struct session *session, enum object_kind kind, uint32_t index,
                      uint32_t other);
struct object *peal_object_at(lua_State *L, int index, enum object_kind kind); /* NULL: is none */
/* Raises an error where the candidate was shown before candidates were numbered anew. */
void peal_object_current(lua_State *L, const struct object *candidate);
/* Steps of the plan that is checked (object_steps.c). */
int peal_steps_list(lua_State *L); /* plan:steps(rank) */
int peal_steps_peers(lua_State *L);
uint32_t peal_steps_count(lua_State *L, struct session *session, uint32_t program);
const struct policy_step *peal_steps_step(lua_State *L, const struct object *o);
void peal_object_list(lua_State *L, struct session *session, uint32_t index,
                      enum object_kind element);
/* Sets the global peal. */
void peal_object_globals(lua_State *L);

/* A table such as {algorithm = "ring"}; its strings live as long as that does. */
struct ask {
    peal_request request;
    uint64_t scratch_bytes; /* at most; 0: any */
    const char *protocol;   /* NULL: any */
};
void peal_ask_read(lua_State *L, int index, const struct session *session, struct ask *ask);
/* Adds what it asks for; raises what the planner says against it. */
void peal_ask_candidates(lua_State *L, struct session *session, const struct ask *ask,
                         uint32_t *first_out, uint32_t *count_out);
/* Whether a candidate is as it says. */
int peal_ask_fits(const struct ask *ask, const struct policy_facts *facts);
const struct policy_facts *peal_object_facts(struct session *session, uint32_t index);

peal_status peal_sandbox_open(peal_ctx *ctx, const peal_script_limits *limits, peal_diag *diag,
                              struct sandbox **box_out);

#endif
