/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel of one's own over peal_device.cuh: a small GEMM, split over ranks along its inner
 * dimension, that adds up in its epilogue: each rank puts the rows of its partial product where
 * their owner has room for it, signals, and adds up the rows that it owns. */
#include <peal/peal_device.cuh>

/* partial: [ranks][rows][columns] of symmetric memory, one part for each sender; counts: what the
 * flag has come to in this rank's calls so far, so that a replayed graph goes on. */
template <typename T>
__global__ void gemm_reduce(peal_cuda_window window, const T *a, const T *b, T *part, T *partial,
                            T *out, uint64_t *flag, uint64_t *counts, int rows, int columns,
                            int inner)
{
    int block = rows / static_cast<int>(window.ranks);
    for (int i = static_cast<int>(threadIdx.x); i < rows * columns; i += static_cast<int>(blockDim.x)) {
        float sum = 0;
        for (int k = 0; k < inner; k++)
            sum += static_cast<float>(a[i / columns * inner + k]) *
                   static_cast<float>(b[k * columns + i % columns]);
        part[i] = static_cast<T>(sum);
    }
    __syncthreads();
    size_t each = static_cast<size_t>(block) * columns;
    for (uint32_t r = 0; r < window.ranks; r++)
        peal_put(window, partial + window.rank * each, part + r * each, each, r);
    for (uint32_t r = 0; r < window.ranks; r++)
        peal_signal(window, flag, r);
    uint64_t count = *counts + window.ranks;
    peal_wait(flag, count);
    for (size_t i = threadIdx.x; i < each; i += blockDim.x) {
        typename peal_sum<T>::type sum = peal_sum<T>::up(partial[i]);
        for (uint32_t r = 1; r < window.ranks; r++)
            sum = sum + peal_sum<T>::up(partial[r * each + i]);
        out[i] = peal_sum<T>::down(sum);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        *counts = count;
}

/* The other way: nothing is put, the owners load. Behind a signal of each rank. */
template <typename T>
__global__ void reduce_rows(peal_cuda_window window, T *part, T *out, uint64_t *flag,
                            uint64_t *counts, size_t each)
{
    for (uint32_t r = 0; r < window.ranks; r++)
        peal_signal(window, flag, r);
    uint64_t count = *counts + window.ranks;
    peal_wait(flag, count);
    peal_reduce(window, out, part + window.rank * each, each);
    __syncthreads();
    if (threadIdx.x == 0)
        *counts = count;
}

#define INSTANCE(T)                                                                                \
    template __global__ void gemm_reduce<T>(peal_cuda_window, const T *, const T *, T *, T *, T *, \
                                            uint64_t *, uint64_t *, int, int, int);                \
    template __global__ void reduce_rows<T>(peal_cuda_window, T *, T *, uint64_t *, uint64_t *,    \
                                            size_t);
INSTANCE(float)
INSTANCE(__half)
INSTANCE(__nv_bfloat16)
