/* SPDX-License-Identifier: Apache-2.0 */
/* What the example wants of peal: one phase is one policy, one plan and one kind of call. */
#ifndef INFERENCE_TP_COMM_H
#define INFERENCE_TP_COMM_H

#include <peal/peal.h>
#include <peal/peal_cuda.h>

/* Of all ranks together. */
struct phase {
    const char *name; /* "prefill"; its policy is NAME.lua */
    uint64_t bytes;   /* of each allreduce */
    peal_table *table;
    peal_world *world;
    peal_row_info row; /* what was chosen */
    peal_cuda *cuda;   /* NULL: ranks sum in host memory */
};

struct phase_params {
    const char *policies; /* directory of the policies */
    uint32_t ranks;
    int deterministic;
    peal_cuda *cuda;
};

/* Plans the allreduce of a phase by its policy, proves it, and makes the ranks' memory. */
peal_status phase_open(struct phase *phase, peal_ctx *ctx, const peal_fabric *fabric,
                       const struct phase_params *params, peal_diag *diag);
void phase_close(struct phase *phase);

/* ---- tp_cuda.c: of a rank that sums on a GPU */
struct gpu {
    peal_cuda_comm *comm;
    void *stream;
    void *sum; /* symmetric memory */
    uint64_t bytes;
};
/* On an error too, what there is is closed by gpu_close. */
peal_status gpu_open(struct gpu *gpu, const struct phase *phase, uint32_t rank, peal_diag *diag);
void gpu_close(struct gpu *gpu);
peal_status gpu_sum(struct gpu *gpu, float *partial, peal_diag *diag);

/* Of one rank: everything that its calls will need. */
struct reducer {
    peal_comm *comm;       /* in host memory: */
    peal_pending *pending; /* the one call, made again and again */
    float *buffer;         /* registered: peers read and write it where it is */
    int on_gpu;            /* or on a GPU, and the buffer is any memory */
    struct gpu gpu;
    double us; /* spent in calls */
    uint64_t calls;
    peal_status status; /* of the first one that failed */
    peal_diag diag;
};

peal_status reducer_open(struct reducer *reducer, const struct phase *phase, uint32_t rank);
void reducer_close(struct reducer *reducer);
/* A sum_fn (tp_model.h) of the buffer: starts the call, waits for it. Allocates nothing. */
int reducer_sum(void *user);

double seconds(void); /* monotonic */

#endif
