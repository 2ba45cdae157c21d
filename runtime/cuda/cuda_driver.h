/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver, opened at run time, and its devices. */
#ifndef PEAL_RUNTIME_CUDA_DRIVER_H
#define PEAL_RUNTIME_CUDA_DRIVER_H

#include "base.h"
#include "cuda_abi.h"

#include <peal/peal_cuda.h>
#include <pthread.h>

struct peal_cuda {
    peal_ctx *ctx;
    void *library;
    struct cuda_calls call;
    uint32_t devices;
    uint32_t version;
    int stand_in;
    pthread_mutex_t lock;         /* over the list of */
    struct peal_cuda_comm *comms; /* those that are whole (cuda_beside.c) */
};

/* OK, or the driver's error in words: `what` is the function that gave it. */
peal_status cuda_check(const struct peal_cuda *cuda, cu_result result, const char *what,
                       peal_diag *diag);

/* Calls a member by its name. */
#define CUDA_DO(cuda, diag, member, ...)                                                           \
    cuda_check((cuda), (cuda)->call.member(__VA_ARGS__), #member, (diag))
#define CUDA_TRY(cuda, diag, member, ...) PEAL_TRY(CUDA_DO(cuda, diag, member, __VA_ARGS__))

/* 0 where the driver does not know it. */
int cuda_attribute(const struct peal_cuda *cuda, uint32_t device, int attribute);

#endif
