/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter: a block for each lane of a rank's program (image.h, "the launch"). */
#include "dev_run.h"

extern "C" __global__ void __launch_bounds__(DEV_THREADS, 1)
    peal_dev_kernel(const __grid_constant__ struct dev_call call)
{
    __shared__ struct dev_block block;
    extern __shared__ __align__(128) char stages[];
    struct dev_thread thread;
    thread.block = &block;
    thread.tid = threadIdx.x;
    thread.threads = blockDim.x;
    thread.lane = blockIdx.x;
    if (thread.tid == 0)
        block.stages = stages;
    dev_run_lane(&thread, &call);
}

/* Something like a matrix product's inner kernel, to hide calls behind: tiles are multiplied out of
 * shared memory, each thread a column's four elements. */
extern "C" __global__ void __launch_bounds__(DEV_THREADS, 1)
    peal_dev_work(const __grid_constant__ struct dev_work work)
{
    __shared__ float a[DEV_TILE][DEV_TILE];
    __shared__ float b[DEV_TILE][DEV_TILE];
    constexpr unsigned EACH = DEV_TILE * DEV_TILE / DEV_THREADS;
    unsigned column = threadIdx.x % DEV_TILE, first = threadIdx.x / DEV_TILE * EACH;
    float c[EACH] = {};
    for (unsigned i = 0; i < EACH; i++) {
        a[first + i][column] = 1e-3f * static_cast<float>(first + i + 1);
        b[first + i][column] = 1e-3f * static_cast<float>(column + 1);
    }
    __syncthreads();
    for (unsigned long long tile = blockIdx.x; tile < work.tiles; tile += gridDim.x)
        for (unsigned k = 0; k < DEV_TILE; k++)
            for (unsigned i = 0; i < EACH; i++)
                c[i] += a[first + i][k] * b[k][column];
    float sum = 0;
    for (unsigned i = 0; i < EACH; i++)
        sum += c[i];
    if (sum < 0) /* never */
        *reinterpret_cast<float *>(work.sink) = sum;
}
