/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_pages.h"

#include <unistd.h>

static struct cuda_page_run *find(const struct cuda_pages *pages, const char *at, size_t bytes)
{
    struct cuda_page_run *run = pages->runs;
    while (run && !(at >= run->at && at + bytes <= run->at + run->bytes))
        run = run->next;
    return run;
}

static peal_status add(struct cuda_pages *pages, char *at, size_t bytes, int io, peal_diag *diag)
{
    const struct peal_cuda *cuda = pages->cuda;
    unsigned flags = CU_REGISTER_PORTABLE | CU_REGISTER_MAPPED | (io ? CU_REGISTER_IO : 0);
    if (!cuda->call.host_register || !cuda->call.host_unregister)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "the CUDA driver maps no memory of others for kernels");
    struct cuda_page_run *run = peal_calloc(cuda->ctx, 1, sizeof *run);
    if (!run)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    run->at = at;
    run->bytes = bytes;
    peal_status status = CUDA_DO(cuda, diag, host_register, at, bytes, flags);
    if (status != PEAL_OK) {
        peal_free(cuda->ctx, run, sizeof *run);
        return status;
    }
    run->next = pages->runs;
    pages->runs = run;
    return CUDA_DO(cuda, diag, host_device, &run->device, at, 0);
}

peal_status cuda_pages_map(struct cuda_pages *pages, const void *at, size_t bytes, int io,
                           uint64_t *to, peal_diag *diag)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t where = (uintptr_t)at;
    uintptr_t first = where / page * page, end = (where + bytes + page - 1) / page * page;
    if (!find(pages, at, bytes))
        PEAL_TRY(add(pages, (char *)first, end - first, io, diag));
    const struct cuda_page_run *run = find(pages, at, bytes);
    *to = run->device + (where - (uintptr_t)run->at);
    return PEAL_OK;
}

void cuda_pages_free(struct cuda_pages *pages)
{
    while (pages->runs) {
        struct cuda_page_run *run = pages->runs;
        pages->runs = run->next;
        (void)pages->cuda->call.host_unregister(run->at);
        peal_free(pages->cuda->ctx, run, sizeof *run);
    }
}
