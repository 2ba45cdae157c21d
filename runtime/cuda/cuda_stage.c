/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers that other ranks do not reach: what they read is copied into the heap in front of a call,
 * what they write out of it behind, in the order of the call's stream. Nobody touches a rank's
 * buffers before it has entered a call or after it has left it, so all calls use one place, at the
 * end of the heap: also those of a graph, and on all ranks, whatever each of them has copied
 * before.
 */
#include "cuda_comm.h"

int cuda_in_heap(const struct peal_cuda_comm *comm, uint64_t at, uint64_t bytes)
{
    uint64_t first = comm->arena.at + comm->heap;
    return at >= first && at - first <= comm->heap_used && bytes <= comm->heap_used - (at - first);
}

/* ---- the place */

static uint64_t whole(uint64_t bytes)
{
    return (bytes + CUDA_HEAP_ALIGN - 1) / CUDA_HEAP_ALIGN * CUDA_HEAP_ALIGN;
}

static uint64_t place_bytes(const struct peal_cuda_comm *comm, const struct rt_row *row)
{
    return comm->zero[row - comm->host->rows].most * row->block_bytes;
}

/* Of the caller's input, or output. */
static uint64_t place(const struct peal_cuda_comm *comm, uint64_t bytes, uint32_t which)
{
    return comm->arena.at + comm->heap_end - (2 - which) * whole(bytes);
}

peal_status cuda_stage_reserve(struct peal_cuda_comm *comm, const struct rt_row *row, uint32_t what,
                               peal_diag *diag)
{
    uint64_t bytes = place_bytes(comm, row);
    uint64_t room = comm->heap_end - comm->heap - comm->heap_used;
    if (!what || bytes <= comm->staged_bytes)
        return PEAL_OK;
    if (bytes > room / 2 || whole(bytes) > room / 2)
        return peal_fail(diag, PEAL_ERR_RANGE,
                         "private buffers of %llu bytes take twice that of the heap, of which "
                         "%llu are left: use a larger heap, or peal_cuda_mem_alloc",
                         (unsigned long long)bytes, (unsigned long long)room);
    comm->staged_bytes = whole(bytes);
    return PEAL_OK;
}

/* ---- copies */

/* The chunks of a block that others reach, neighbours together. */
static peal_status copy_block(const struct peal_cuda_comm *comm, const struct rt_row *row,
                              uint32_t block, uint32_t reach, uint64_t to, uint64_t from,
                              cu_handle stream, peal_diag *diag)
{
    uint32_t chunks = row->nchunks / row->blocks;
    uint32_t last = (block + 1) * chunks;
    uint64_t start = row->bounds[block * chunks];
    for (uint32_t i = block * chunks; i < last; i++) {
        if (!(row->reached[i] & reach))
            continue;
        uint64_t first = (row->bounds[i] - start) * row->elem_bytes;
        while (i + 1 < last && row->reached[i + 1] & reach)
            i++;
        uint64_t bytes = (row->bounds[i + 1] - start) * row->elem_bytes - first;
        if (bytes)
            CUDA_TRY(comm->cuda, diag, copy, to + first, from + first, (size_t)bytes, stream);
    }
    return PEAL_OK;
}

static peal_status copy_reached(const struct peal_cuda_comm *comm, const struct rt_row *row,
                                uint32_t reach, uint64_t to, uint64_t from, cu_handle stream,
                                peal_diag *diag)
{
    const struct plan_held *part = reach == RT_REACH_IN ? &row->in : &row->out;
    uint32_t any = reach == RT_REACH_IN ? CUDA_REACH_IN : CUDA_REACH_OUT;
    uint32_t before = reach == RT_REACH_IN ? 0 : row->in.blocks;
    for (uint32_t i = 0; i < part->blocks; i++) {
        uint32_t block = row->listed ? row->listed[before + i] : part->first + i * part->stride;
        uint64_t at = i * row->block_bytes;
        PEAL_TRY(copy_block(comm, row, block, any, to + at, from + at, stream, diag));
    }
    return PEAL_OK;
}

peal_status cuda_stage(struct peal_cuda_comm *comm, const struct rt_row *row, uint32_t what,
                       struct cuda_buffers *buffers, cu_handle stream, peal_diag *diag)
{
    uint64_t bytes = place_bytes(comm, row);
    buffers->shared_in = buffers->in;
    buffers->shared_out = buffers->out;
    if (!what || !row->block_bytes)
        return PEAL_OK;
    comm->staged_calls += (row->reach & (what & RT_REACH_IN ? CUDA_REACH_IN : 0)) ||
                          (row->reach & (what & RT_REACH_OUT ? CUDA_REACH_OUT : 0));
    if (what & RT_REACH_OUT)
        buffers->shared_out = place(comm, bytes, 1);
    /* Blocks that are filled up to a length that only the device knows come back whole: with what
     * was behind it. */
    if (what & RT_REACH_OUT && row->counted)
        PEAL_TRY(
            copy_reached(comm, row, RT_REACH_OUT, buffers->shared_out, buffers->out, stream, diag));
    if (!(what & RT_REACH_IN))
        return PEAL_OK;
    buffers->shared_in = place(comm, bytes, 0);
    return copy_reached(comm, row, RT_REACH_IN, buffers->shared_in, buffers->in, stream, diag);
}

peal_status cuda_unstage(const struct peal_cuda_comm *comm, const struct rt_row *row,
                         const struct cuda_buffers *buffers, cu_handle stream, peal_diag *diag)
{
    if (buffers->shared_out == buffers->out)
        return PEAL_OK;
    return copy_reached(comm, row, RT_REACH_OUT, buffers->out, buffers->shared_out, stream, diag);
}
