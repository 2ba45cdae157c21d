/* SPDX-License-Identifier: Apache-2.0 */
/* Instead of the rest of the room where Lua was not found. */
#include "base.h"

#define ABSENT "this peal was built without Lua"

peal_status peal_policy_create(peal_ctx *ctx, const peal_policy_text *scripts, uint32_t count,
                               const peal_script_limits *limits, peal_diag *diag,
                               peal_policy **policy_out)
{
    (void)ctx;
    (void)scripts;
    (void)count;
    (void)limits;
    (void)policy_out;
    return peal_fail(diag, PEAL_ERR_UNSUPPORTED, ABSENT);
}

void peal_policy_destroy(peal_policy *policy)
{
    (void)policy;
}

peal_status peal_policy_annotations(peal_write_fn write, void *user)
{
    (void)write;
    (void)user;
    return PEAL_ERR_UNSUPPORTED;
}

peal_status peal_console_create(peal_ctx *ctx, const peal_fabric *fabric,
                                const peal_script_limits *limits, peal_diag *diag,
                                peal_console **console_out)
{
    (void)ctx;
    (void)fabric;
    (void)limits;
    (void)console_out;
    return peal_fail(diag, PEAL_ERR_UNSUPPORTED, ABSENT);
}

void peal_console_destroy(peal_console *console)
{
    (void)console;
}

peal_status peal_console_run(peal_console *console, const char *text, size_t bytes, peal_diag *diag)
{
    (void)console;
    (void)text;
    (void)bytes;
    return peal_fail(diag, PEAL_ERR_UNSUPPORTED, ABSENT);
}

peal_status peal_schedule_load(peal_ctx *ctx, const peal_fabric *fabric,
                               const peal_request *request, const char *text, size_t bytes,
                               const char *name, peal_diag *diag, peal_schedule **schedule_out)
{
    (void)ctx;
    (void)fabric;
    (void)request;
    (void)text;
    (void)bytes;
    (void)schedule_out;
    return peal_fail_at(diag, PEAL_ERR_UNSUPPORTED, name, 0, 0, ABSENT);
}
