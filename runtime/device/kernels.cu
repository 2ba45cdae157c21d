/* SPDX-License-Identifier: Apache-2.0 */
/* The one kernel: a block for each lane of a rank's program (image.h, "the launch"). */
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
