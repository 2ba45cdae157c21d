/* SPDX-License-Identifier: Apache-2.0 */
/* A library without Lua reads no algorithms written in it, and says so. */
#include "script.h"

#ifndef PEAL_HAVE_LUA
peal_status peal_script_load(peal_ctx *ctx, const peal_fabric *fabric, const peal_request *request,
                             const char *text, size_t bytes, const char *name, peal_diag *diag,
                             peal_script **script_out)
{
    (void)ctx, (void)fabric, (void)request, (void)text, (void)bytes, (void)script_out;
    return peal_fail_at(diag, PEAL_ERR_UNSUPPORTED, name, 0, 0,
                        "this library was built without Lua");
}
#endif
