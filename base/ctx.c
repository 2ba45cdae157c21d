/* SPDX-License-Identifier: Apache-2.0 */
/* The context: what the library takes from its host. */
#include "ctx.h"

#define STRINGIFY(x) #x
#define VERSION_TEXT(a, b, c) STRINGIFY(a) "." STRINGIFY(b) "." STRINGIFY(c)

peal_status peal_ctx_create(const peal_host *host, peal_ctx **ctx_out)
{
    if (!ctx_out)
        return PEAL_ERR_ARG;
    peal_host given = {.size = sizeof given};
    if (host)
        PEAL_TRY(peal_import(&given, sizeof given, host));
    if (!given.realloc_fn)
        given.realloc_fn = peal_heap_realloc;
    peal_ctx *ctx = given.realloc_fn(given.user, NULL, 0, sizeof *ctx);
    if (!ctx)
        return PEAL_ERR_MEMORY;
    ctx->host = given;
    *ctx_out = ctx;
    return PEAL_OK;
}

void peal_ctx_destroy(peal_ctx *ctx)
{
    if (!ctx)
        return;
    peal_host host = ctx->host; /* the context itself goes with the call below */
    (void)host.realloc_fn(host.user, ctx, sizeof *ctx, 0);
}

const char *peal_version(void)
{
    return VERSION_TEXT(PEAL_VERSION_MAJOR, PEAL_VERSION_MINOR, PEAL_VERSION_PATCH);
}

/* One word for each backend that this build can run plans on, and each way to meet. */
const char *peal_features(void)
{
    return "host shm";
}
