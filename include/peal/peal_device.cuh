/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For kernels of one's own that talk to other ranks: a GEMM that adds up its tiles in its epilogue,
 * say. Over the symmetric memory of a comm (peal_cuda_mem_alloc), which peal_cuda_comm_window
 * describes; the window goes to the kernel by value. CUDA C++11 and later, sm_70 and later.
 *
 * An address of this rank's symmetric memory names the same place on every rank that allocated
 * alike. Functions of a block are called by all its threads. What a kernel waits for has to be
 * resident, as ever: blocks that wait for other ranks' blocks have to run at the same time.
 */
#ifndef PEAL_PEAL_DEVICE_CUH
#define PEAL_PEAL_DEVICE_CUH

#include <peal/peal_cuda.h>

/* peal's tests run all of it on a host, too, in words of their own for what is CUDA's. */
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ void peal_raise(uint64_t *at)
{
    asm volatile("red.release.sys.global.add.u64 [%0], 1;" ::"l"(at) : "memory");
}

__device__ __forceinline__ uint64_t peal_seen(const uint64_t *at)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}
#endif

/* Where `rank` has what lies at `mine` here; this rank reaches it by loads and stores. */
template <typename T>
__device__ __forceinline__ T *peal_at(const peal_cuda_window &window, T *mine, uint32_t rank)
{
    const uint64_t *arenas = reinterpret_cast<const uint64_t *>(window.peers);
    uint64_t offset = reinterpret_cast<uint64_t>(mine) - window.heap;
    return reinterpret_cast<T *>(arenas[2 * rank] + window.offset + offset);
}

/* A block copies `count` elements to where `rank` has `to`; done when it has returned from this on
 * all threads, and seen by whoever sees a later peal_signal. Vectors of 16 bytes where both ends and
 * the count allow. */
template <typename T>
__device__ inline void peal_put(const peal_cuda_window &window, T *to, const T *from, size_t count,
                                uint32_t rank)
{
    T *there = peal_at(window, to, rank);
    size_t bytes = count * sizeof(T), vectors = 0;
    if (((reinterpret_cast<uint64_t>(there) | reinterpret_cast<uint64_t>(from)) & 15) == 0)
        vectors = bytes / 16;
    for (size_t i = threadIdx.x; i < vectors; i += blockDim.x)
        reinterpret_cast<int4 *>(there)[i] = reinterpret_cast<const int4 *>(from)[i];
    for (size_t i = vectors * 16 / sizeof(T) + threadIdx.x; i < count; i += blockDim.x)
        there[i] = from[i];
}

/* A block adds one to `flag` on `rank`, behind all that its threads have put. Any number of blocks
 * and ranks may add to one flag. */
__device__ inline void peal_signal(const peal_cuda_window &window, uint64_t *flag, uint32_t rank)
{
    __syncthreads();
    if (threadIdx.x == 0)
        peal_raise(peal_at(window, flag, rank));
}

/* A block waits until this rank's `flag` has come to `count`; behind it all threads see what the
 * signals were behind. Flags count up for ever: a kernel that is replayed keeps its count in memory
 * of its own, not in its arguments. */
__device__ inline void peal_wait(const uint64_t *flag, uint64_t count)
{
    while (threadIdx.x == 0 && static_cast<int64_t>(peal_seen(flag) - count) < 0)
        continue;
    __syncthreads();
}

/* ---- reducing: in float32 for 16-bit types, in the order of ranks on every rank, rounded once */

template <typename T> struct peal_sum {
    typedef T type;
    static __device__ __forceinline__ T up(T value)
    {
        return value;
    }
    static __device__ __forceinline__ T down(T value)
    {
        return value;
    }
};

template <> struct peal_sum<__half> {
    typedef float type;
    static __device__ __forceinline__ float up(__half value)
    {
        return __half2float(value);
    }
    static __device__ __forceinline__ __half down(float value)
    {
        return __float2half_rn(value);
    }
};

template <> struct peal_sum<__nv_bfloat16> {
    typedef float type;
    static __device__ __forceinline__ float up(__nv_bfloat16 value)
    {
        return __bfloat162float(value);
    }
    static __device__ __forceinline__ __nv_bfloat16 down(float value)
    {
        return __float2bfloat16_rn(value);
    }
};

/* A block adds up `count` elements that all ranks have at `from`, into its own memory at `to`. */
template <typename T>
__device__ inline void peal_reduce(const peal_cuda_window &window, T *to, T *from, size_t count)
{
    for (size_t i = threadIdx.x; i < count; i += blockDim.x) {
        typename peal_sum<T>::type sum = peal_sum<T>::up(peal_at(window, from, 0)[i]);
        for (uint32_t r = 1; r < window.ranks; r++)
            sum = sum + peal_sum<T>::up(peal_at(window, from, r)[i]);
        to[i] = peal_sum<T>::down(sum);
    }
}

#endif
