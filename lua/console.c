/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts line by line. */
#include "policy.h"

#include <string.h>

#define CONSOLE_TEXT (64u << 10)

struct peal_console {
    peal_ctx *ctx;
    struct sandbox *box;
    uint64_t units;
    struct session session;
};

peal_status peal_script_open(peal_ctx *ctx, const peal_script_limits *limits, peal_diag *diag,
                             struct sandbox **box_out)
{
    struct sandbox_limits to = {.bytes = (size_t)limits->memory_bytes,
                                .units = limits->units,
                                .seeded = limits->seeded,
                                .seed = limits->seed,
                                .print = limits->print,
                                .print_user = limits->print_user};
    return peal_sandbox_create(ctx, &to, diag, box_out);
}

static int hand_in(lua_State *L)
{
    struct session *session = lua_touserdata(L, 1);
    peal_object_globals(L);
    peal_object_push(L, session, OBJECT_FABRIC, 0, 0);
    lua_setglobal(L, "fabric");
    return 0;
}

static peal_status open_console(struct peal_console *console, const peal_script_limits *limits,
                                peal_diag *diag)
{
    peal_script_limits own = PEAL_SCRIPT_LIMITS_INIT;
    if (limits && peal_import(&own, sizeof own, limits) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "limits of an unknown version");
    console->units = own.units ? own.units : SANDBOX_UNITS;
    PEAL_TRY(peal_script_open(console->ctx, &own, diag, &console->box));
    return peal_sandbox_run(console->box, hand_in, &console->session, diag);
}

peal_status peal_console_create(peal_ctx *ctx, const peal_fabric *fabric,
                                const peal_script_limits *limits, peal_diag *diag,
                                peal_console **console_out)
{
    if (!ctx || !fabric || !console_out)
        return peal_fail(diag, PEAL_ERR_ARG, "an argument is missing");
    struct peal_console *console = peal_calloc(ctx, 1, sizeof *console);
    if (!console)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    console->ctx = ctx;
    console->session.ctx = ctx;
    console->session.fabric = fabric;
    peal_status status = open_console(console, limits, diag);
    if (status != PEAL_OK) {
        peal_console_destroy(console);
        return status;
    }
    *console_out = console;
    return PEAL_OK;
}

void peal_console_destroy(peal_console *console)
{
    if (!console)
        return;
    peal_sandbox_destroy(console->box);
    peal_free(console->ctx, console, sizeof *console);
}

static int run_line(lua_State *L)
{
    peal_sandbox_chunk(L);
    lua_call(L, 0, LUA_MULTRET);
    int count = lua_gettop(L) - 1;
    if (!count)
        return 0;
    lua_getglobal(L, "print");
    lua_replace(L, 1);
    lua_call(L, count, 0);
    return 0;
}

/* A text that is an expression is worth printing: it is tried as one first. */
static peal_status load_line(struct peal_console *console, const char *text, size_t bytes,
                             peal_diag *diag)
{
    static const char prefix[] = "return ";
    char *expression = peal_alloc(console->ctx, bytes + sizeof prefix);
    if (!expression)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    memcpy(expression, prefix, sizeof prefix - 1);
    memcpy(expression + sizeof prefix - 1, text, bytes);
    peal_status status =
        peal_sandbox_load(console->box, expression, bytes + sizeof prefix - 1, "console", NULL);
    peal_free(console->ctx, expression, bytes + sizeof prefix);
    if (status == PEAL_ERR_INPUT)
        status = peal_sandbox_load(console->box, text, bytes, "console", diag);
    return status;
}

peal_status peal_console_run(peal_console *console, const char *text, size_t bytes, peal_diag *diag)
{
    peal_diag own = PEAL_DIAG_INIT;
    if (!console || !text)
        return peal_fail(diag, PEAL_ERR_ARG, "an argument is missing");
    if (bytes > CONSOLE_TEXT)
        return peal_fail(diag, PEAL_ERR_LIMIT, "a text of more than %u bytes", CONSOLE_TEXT);
    peal_sandbox_refill(console->box, console->units);
    peal_status status = load_line(console, text, bytes, &own);
    if (status == PEAL_ERR_INPUT && strstr(own.text, "near <eof>"))
        return PEAL_AGAIN;
    if (status != PEAL_OK)
        return peal_fail_at(diag, status, own.path, own.line, 0, "%s", own.text);
    return peal_sandbox_run(console->box, run_line, NULL, diag);
}
