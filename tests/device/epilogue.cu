/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel of one's own over peal_device.cuh: a small GEMM, split over ranks along its inner
 * dimension, that adds up in its epilogue: each rank puts the rows of its partial product where
 * their owner has room for it, signals, and adds up the rows that it owns. epilogue_host.cc runs
 * it without a GPU. */
#include <peal/peal_device.cuh>

/* partial: [2][ranks][rows / ranks][columns] of symmetric memory, by turns: while a rank still adds
 * up, others may be in the next call, but in none behind that. counts: what the flag has come to in
 * this rank's calls so far, so that a replayed graph goes on. */
template <typename T>
__global__ void gemm_reduce(peal_cuda_window window, const T *a, const T *b, T *part, T *partial,
                            T *out, uint64_t *flag, uint64_t *counts, int rows, int columns,
                            int inner)
{
    int block = rows / static_cast<int>(window.ranks), cells = rows * columns;
    uint64_t count = *counts + window.ranks;
    partial += count / window.ranks % 2 * static_cast<size_t>(cells);
    for (int i = static_cast<int>(threadIdx.x); i < cells; i += static_cast<int>(blockDim.x)) {
        float sum = 0;
        for (int k = 0; k < inner; k++)
            sum += static_cast<float>(a[i / columns * inner + k]) *
                   static_cast<float>(b[k * columns + i % columns]);
        part[i] = static_cast<T>(sum);
    }
    __syncthreads();
    size_t each = static_cast<size_t>(block) * static_cast<size_t>(columns);
    for (uint32_t r = 0; r < window.ranks; r++)
        peal_put(window, partial + window.rank * each, part + r * each, each, r);
    for (uint32_t r = 0; r < window.ranks; r++)
        peal_signal(window, flag, r);
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

/* The other way: nothing is put, the owners load. Behind a signal of each rank, and in front of
 * another one, behind which `part` may be written again. */
template <typename T>
__global__ void reduce_rows(peal_cuda_window window, T *part, T *out, uint64_t *flag,
                            uint64_t *counts, size_t each)
{
    uint64_t count = *counts;
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t r = 0; r < window.ranks; r++)
            peal_signal(window, flag, r);
        count += window.ranks;
        peal_wait(flag, count);
        if (turn == 0)
            peal_reduce(window, out, part + window.rank * each, each);
    }
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
