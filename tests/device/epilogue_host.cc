// SPDX-License-Identifier: Apache-2.0
// The kernels of epilogue.cu on the host: ranks of a block each, whose threads are threads here,
// several calls back to back by ranks that do not wait for each other, compared with what the sums
// are. Under the thread sanitizer it is also seen that nothing but flags keeps them apart.
#include "on_host.h"

#include "epilogue.cu"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace
{

const uint32_t ranks = 3;
const unsigned threads = 4;
const int calls = 6;
const uint64_t heap = 4096; // where symmetric memory begins in an arena

struct shape {
    int rows, columns, inner;
};

float input(uint32_t rank, int call, int matrix, int at)
{
    return static_cast<float>((at * 7 + call * 5 + matrix * 3 + static_cast<int>(rank)) % 11 - 5) /
           4;
}

// What a rank has. The arena's symmetric part: two flags, partial products by turns, and what is
// shown to those who load.
template <typename T> struct rank_memory {
    std::vector<uint64_t> arena;
    std::vector<T> a[calls], b[calls], part, out[calls], rows[calls];
    uint64_t counts[2] = {0, 0};
};

template <typename T> struct machine {
    shape size;
    std::vector<rank_memory<T>> of;
    std::vector<uint64_t> peers;

    explicit machine(shape s) : size(s), of(ranks), peers(2 * ranks)
    {
        size_t cells = static_cast<size_t>(s.rows) * static_cast<size_t>(s.columns);
        for (uint32_t r = 0; r < ranks; r++) {
            rank_memory<T> &m = of[r];
            m.arena.resize(heap / 8 + 2 + (3 * cells * sizeof(T) + 7) / 8);
            m.part.resize(cells);
            peers[2 * r] = reinterpret_cast<uint64_t>(m.arena.data());
            for (int c = 0; c < calls; c++) {
                m.out[c].resize(cells / ranks);
                m.rows[c].resize(cells / ranks);
                for (int i = 0; i < s.rows * s.inner; i++)
                    m.a[c].push_back(T(input(r, c, 0, i)));
                for (int i = 0; i < s.inner * s.columns; i++)
                    m.b[c].push_back(T(input(r, c, 1, i)));
            }
        }
    }
};

template <typename T>
void run_thread(machine<T> &all, uint32_t r, unsigned thread, pthread_barrier_t *block)
{
    rank_memory<T> &m = all.of[r];
    shape s = all.size;
    size_t cells = static_cast<size_t>(s.rows) * static_cast<size_t>(s.columns);
    uint64_t *flags = &m.arena[heap / 8];
    T *partial = reinterpret_cast<T *>(flags + 2), *shown = partial + 2 * cells;
    peal_cuda_window window = {r, ranks, reinterpret_cast<uint64_t>(flags), heap,
                               reinterpret_cast<uint64_t>(all.peers.data())};
    threadIdx.x = thread;
    blockDim.x = threads;
    on_host_block = block;
    for (int c = 0; c < calls; c++) {
        gemm_reduce(window, m.a[c].data(), m.b[c].data(), m.part.data(), partial, m.out[c].data(),
                    flags, &m.counts[0], s.rows, s.columns, s.inner);
        for (size_t i = thread; i < cells; i += threads)
            shown[i] = m.part[i];
        reduce_rows(window, shown, m.rows[c].data(), flags + 1, &m.counts[1], cells / ranks);
        __syncthreads();
    }
}

// An element of the sum, rounded as often as in the kernel.
template <typename T> T wanted(const machine<T> &all, int call, int at)
{
    shape s = all.size;
    float sum = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        float product = 0;
        for (int k = 0; k < s.inner; k++)
            product += static_cast<float>(
                           all.of[r].a[call][static_cast<size_t>(at / s.columns * s.inner + k)]) *
                       static_cast<float>(
                           all.of[r].b[call][static_cast<size_t>(k * s.columns + at % s.columns)]);
        float part = static_cast<float>(T(product));
        sum = r ? sum + part : part;
    }
    return T(sum);
}

template <typename T> int run(const char *name, shape s)
{
    machine<T> all(s);
    std::vector<std::thread> running;
    pthread_barrier_t blocks[ranks];
    int wrong = 0, each = s.rows / static_cast<int>(ranks) * s.columns;
    for (uint32_t r = 0; r < ranks; r++) {
        (void)pthread_barrier_init(&blocks[r], nullptr, threads);
        for (unsigned t = 0; t < threads; t++)
            running.emplace_back([&all, r, t, &blocks] { run_thread(all, r, t, &blocks[r]); });
    }
    for (std::thread &thread : running)
        thread.join();
    for (pthread_barrier_t &block : blocks)
        (void)pthread_barrier_destroy(&block);
    for (int c = 0; c < calls; c++)
        for (int i = 0; i < s.rows * s.columns; i++) {
            const rank_memory<T> &m = all.of[static_cast<size_t>(i / each)];
            T sum = wanted(all, c, i);
            size_t at = static_cast<size_t>(i % each);
            wrong += memcmp(&m.out[c][at], &sum, sizeof sum) != 0;
            wrong += memcmp(&m.rows[c][at], &sum, sizeof sum) != 0;
        }
    std::printf("%s, %d x %d x %d: %d calls of %u ranks, %d wrong\n", name, s.rows, s.columns,
                s.inner, 2 * calls, ranks, wrong);
    return wrong;
}

} // namespace

// The interpreter's, which nothing here comes to.
void dev_host_turn(dev_thread *)
{
    std::abort();
}

void dev_host_sync(dev_thread *)
{
    std::abort();
}

int dev_host_sync_or(dev_thread *, uint32_t)
{
    std::abort();
}

// In whole vectors of 16 bytes, and not.
int main()
{
    const shape whole = {6, 16, 5}, odd = {9, 7, 4};
    int wrong = run<float>("float32", whole) + run<float>("float32", odd);
    wrong += run<__half>("float16", whole) + run<__half>("float16", odd);
    wrong += run<__nv_bfloat16>("bfloat16", whole) + run<__nv_bfloat16>("bfloat16", odd);
    return wrong != 0;
}
