/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the host that others have allocated, made known to the driver so that kernels reach it:
 * a NIC's queues, doorbell records and doorbell pages. Several of them may share a page, and no
 * page may be registered twice.
 */
#ifndef PEAL_RUNTIME_CUDA_PAGES_H
#define PEAL_RUNTIME_CUDA_PAGES_H

#include "cuda_driver.h"

struct cuda_pages {
    const struct peal_cuda *cuda;
    struct cuda_page_run {
        char *at;
        size_t bytes;
        cu_ptr device;
        struct cuda_page_run *next;
    } * runs;
};

/* The device's address of [at, at + bytes). io: a device's registers. The context is current. */
peal_status cuda_pages_map(struct cuda_pages *pages, const void *at, size_t bytes, int io,
                           uint64_t *to, peal_diag *diag);
void cuda_pages_free(struct cuda_pages *pages);

#endif
