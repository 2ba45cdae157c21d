/* SPDX-License-Identifier: Apache-2.0 */
/* fields.def as annotations of the Lua language server. */
#include "policy.h"

#include <stdio.h>
#include <string.h>

struct writer {
    peal_write_fn write;
    void *user;
    peal_status status;
};

static void put(struct writer *to, const char *format, ...) PEAL_PRINTF(2, 3);
static void put(struct writer *to, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (to->status == PEAL_OK)
        to->status =
            to->write(to->user, text, bytes < (int)sizeof text ? (size_t)bytes : sizeof text - 1);
}

#define TYPE_INTEGER "integer"
#define TYPE_NUMBER "number"
#define TYPE_BOOLEAN "boolean"
#define TYPE_STRING "string"

static const char *const element_names[OBJECTS] = {
#define OBJECT(id, name, text) "peal." name,
#define FIELD(owner, name, type, value, text)
#define LIST(owner, name, element, text)
#define METHOD(owner, name, function, parameters, result, text)
#include "fields.def"
#undef OBJECT
#undef FIELD
#undef LIST
#undef METHOD
};

static void put_objects(struct writer *to)
{
#define OBJECT(id, name, text) put(to, "\n---%s\n---@class peal.%s\n", text, name);
#define FIELD(owner, name, type, value, text)                                                      \
    put(to, "---@field %s %s # %s\n", #name, TYPE_##type, text);
#define LIST(owner, name, element, text)                                                           \
    put(to, "---@field %s %s[] # %s\n", #name, element_names[OBJECT_##element], text);
#define METHOD(owner, name, function, parameters, result, text)                                    \
    put(to, "---@field %s fun(self: %s%s%s): %s # %s\n", #name, element_names[OBJECT_##owner],     \
        sizeof parameters > 1 ? ", " : "", parameters, result, text);
#include "fields.def"
#undef OBJECT
#undef FIELD
#undef LIST
#undef METHOD
}

peal_status peal_policy_annotations(peal_write_fn write, void *user)
{
    static const char head[] =
        "-- SPDX-License-Identifier: Apache-2.0\n"
        "-- What a policy can reach, for editors; written by `peal policy meta`.\n"
        "---@meta\n";
    static const char tail[] =
        "\n---A schedule to be made.\n---@class peal.Ask\n"
        "---@field algorithm? string\n---@field channels? integer\n---@field gateways? integer\n"
        "---@field tile_bytes? integer\n---@field levels? string\n---@field inner? string\n"
        "---@field outer? string\n---@field incast? integer\n---@field depth? integer\n"
        "---@field engine? table<string, string> # by class of links: {nvlink = \"tma\"}\n"
        "---@field reduce_engine? string # sm: nothing else can\n"
        "---@field max_sms? integer\n---@field zero_sm? boolean\n"
        "---@field scratch_bytes? integer # at most; choose only\n"
        "---@field protocol? string # simple or packet; choose only\n"
        "---@field wire? string\n"
        "\n---@class peal.Candidates: peal.Candidate[]\n"
        "---@field default peal.Candidate # what is chosen so far\n"
        "\n---@class peal.Additions: peal.Ask[]\n"
        "---@field drop? string[]|fun(candidate: peal.Candidate): boolean\n"
        "---@field keep? string[]\n"
        "\n---What a policy returns.\n---@class peal.Policy\n---@field description? string\n"
        "---@field sizes? integer[]|fun(req: peal.Request, fabric: peal.Fabric): integer[]\n"
        "---@field candidates? fun(req: peal.Request, fabric: peal.Fabric): peal.Additions?\n"
        "---@field cost? fun(candidate: peal.Candidate, req: peal.Request, fabric: peal.Fabric, "
        "us: number): number?\n"
        "---@field choose? fun(candidates: peal.Candidates, req: peal.Request, fabric: "
        "peal.Fabric): peal.Candidate|peal.Ask|nil\n"
        "---@field check? fun(plan: peal.Candidate, req: peal.Request, fabric: peal.Fabric): "
        "boolean?, string?\n"
        "\n---@class peal\n---@field KiB integer\n---@field MiB integer\n---@field GiB integer\n"
        "---@field version string\n"
        "---@field size fun(text: string): integer # \"64K\" in bytes\n"
        "---@field size_text fun(bytes: integer): string # the reverse\n"
        "peal = {}\n"
        "\n---In a console: the topology it was given.\n---@type peal.Fabric\nfabric = nil\n";
    struct writer to = {write, user, PEAL_OK};
    to.status = write(user, head, sizeof head - 1);
    put_objects(&to);
    return to.status == PEAL_OK ? write(user, tail, sizeof tail - 1) : to.status;
}
