/* SPDX-License-Identifier: Apache-2.0 */
/* The same sums on GPUs, in the order of a stream. The model computes on the host all the same (it
 * has no kernels of its own), so its partial sums are carried there and back: what a program with
 * kernels does not do. */
#include "tp_comm.h"

peal_status gpu_open(struct gpu *gpu, const struct phase *phase, uint32_t rank, peal_diag *diag)
{
    peal_cuda_params params = PEAL_CUDA_PARAMS_INIT;
    peal_cuda_device_info info = {.size = sizeof info};
    peal_status status = peal_cuda_device(phase->cuda, 0, diag, &info);
    gpu->bytes = phase->bytes;
    params.device = status == PEAL_OK ? rank % info.devices : 0; /* several ranks may share one */
    params.heap_bytes = phase->bytes + (1u << 20);
    if (status == PEAL_OK)
        status = peal_cuda_comm_create(phase->cuda, phase->world, phase->table, rank, &params, diag,
                                       &gpu->comm);
    if (status == PEAL_OK)
        status = peal_cuda_stream_create(gpu->comm, diag, &gpu->stream);
    if (status == PEAL_OK)
        gpu->sum = peal_cuda_mem_alloc(gpu->comm, phase->bytes);
    return status != PEAL_OK || gpu->sum ? status : PEAL_ERR_MEMORY;
}

void gpu_close(struct gpu *gpu)
{
    if (gpu->stream)
        peal_cuda_stream_destroy(gpu->comm, gpu->stream);
    peal_cuda_comm_destroy(gpu->comm);
}

peal_status gpu_sum(struct gpu *gpu, float *partial, peal_diag *diag)
{
    size_t count = gpu->bytes / sizeof *partial;
    peal_status status =
        peal_cuda_copy(gpu->comm, gpu->sum, partial, gpu->bytes, gpu->stream, diag);
    if (status == PEAL_OK) /* enqueued, like the copies around it */
        status = peal_cuda_allreduce(gpu->comm, gpu->sum, gpu->sum, count, PEAL_FLOAT32, PEAL_SUM,
                                     gpu->stream, diag);
    if (status == PEAL_OK)
        status = peal_cuda_copy(gpu->comm, partial, gpu->sum, gpu->bytes, gpu->stream, diag);
    return status == PEAL_OK ? peal_cuda_stream_wait(gpu->comm, gpu->stream, diag) : status;
}
