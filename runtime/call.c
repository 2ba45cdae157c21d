/* SPDX-License-Identifier: Apache-2.0 */
/* peal_allreduce: from the caller's arguments to the run of a row. */
#include "comm.h"

#include <string.h>

/* ---- the caller's buffers */

static peal_status check_buffers(const struct rt_row *row, const char *in, const char *out,
                                 peal_diag *diag)
{
    uintptr_t a = (uintptr_t)in;
    uintptr_t b = (uintptr_t)out;
    if ((!in || !out) && row->bytes)
        return peal_fail(diag, PEAL_ERR_ARG, "a buffer is NULL");
    if (((a | b) & (row->elem_bytes - 1)) != 0)
        return peal_fail(diag, PEAL_ERR_ARG, "a buffer is not aligned to its elements");
    if (a != b && (a - b < row->bytes || b - a < row->bytes))
        return peal_fail(diag, PEAL_ERR_ARG, "the buffers overlap without being the same");
    return PEAL_OK;
}

/* Reached by all ranks as it is. */
static int is_registered(const struct peal_comm *comm, const char *memory, uint64_t bytes)
{
    uintptr_t offset = (uintptr_t)memory - (uintptr_t)comm->base;
    return offset < comm->layout.total && bytes <= comm->layout.total - offset;
}

/* Two buffers of staged_bytes at the top of the heap; what they held is over with its call. */
static peal_status reserve_staging(struct peal_comm *comm, uint64_t bytes, peal_diag *diag)
{
    uint64_t need = (bytes + RT_PAGE - 1) & ~(uint64_t)(RT_PAGE - 1);
    if (need <= comm->staged_bytes)
        return PEAL_OK;
    if (need > (comm->layout.heap_bytes - comm->heap_used) / 2)
        return peal_fail(diag, PEAL_ERR_RANGE,
                         "staging private buffers takes 2 x %llu bytes of heap, %llu are left; "
                         "use a larger heap, or buffers of peal_mem_alloc",
                         (unsigned long long)need,
                         (unsigned long long)(comm->layout.heap_bytes - comm->heap_used));
    comm->staged_bytes = need;
    return PEAL_OK;
}

static char *staged(const struct peal_comm *comm, unsigned which)
{
    return comm->base + comm->layout.heap + comm->layout.heap_bytes * (comm->rank + 1ull) -
           comm->staged_bytes * (2 - which);
}

/* Copies the chunks that peers reach, neighbours together. */
static void copy_reached(const struct peal_comm *comm, const struct rt_row *row, uint8_t reach,
                         char *to, const char *from)
{
    for (uint32_t i = 0; i < row->nchunks; i++) {
        if (!(row->reached[i] & reach))
            continue;
        uint64_t first = row->bounds[i] * row->elem_bytes;
        while (i + 1 < row->nchunks && row->reached[i + 1] & reach)
            i++;
        uint64_t bytes = row->bounds[i + 1] * row->elem_bytes - first;
        if (row->stream)
            comm->kern->stream(to + first, from + first, (size_t)bytes);
        else if (bytes)
            memcpy(to + first, from + first, (size_t)bytes);
    }
}

/* Lets peers reach what they have to. In place the input that they read stays as it was, while
 * the output grows elsewhere: for the plan, which is proven for both, that is out of place. */
static peal_status stage(struct peal_comm *comm, const struct rt_row *row, peal_diag *diag)
{
    int stage_in = row->reach & RT_REACH_IN && !is_registered(comm, comm->in, row->bytes);
    int stage_out = row->reach & RT_REACH_OUT && !is_registered(comm, comm->out, row->bytes);
    if (!stage_in && !stage_out)
        return PEAL_OK;
    PEAL_TRY(reserve_staging(comm, row->bytes, diag));
    if (stage_in) {
        comm->shared_in = staged(comm, 0);
        copy_reached(comm, row, RT_REACH_IN, comm->shared_in, comm->in);
    }
    if (stage_out)
        comm->shared_out = staged(comm, 1);
    return PEAL_OK;
}

static void unstage(const struct peal_comm *comm, const struct rt_row *row)
{
    if (comm->shared_out != comm->out)
        copy_reached(comm, row, RT_REACH_OUT, comm->out, comm->shared_out);
}

/* ---- entering */

/* Peers read these only behind a signal or packet of this call. */
static void post_buffers(struct peal_comm *comm)
{
    uint64_t in = (uint64_t)((uintptr_t)comm->shared_in - (uintptr_t)comm->base);
    uint64_t out = (uint64_t)((uintptr_t)comm->shared_out - (uintptr_t)comm->base);
    if (in != comm->posted_in)
        atomic_store_explicit(&comm->board->in, in, memory_order_relaxed);
    if (out != comm->posted_out)
        atomic_store_explicit(&comm->board->out, out, memory_order_relaxed);
    comm->posted_in = in;
    comm->posted_out = out;
}

/* Stamps are the lower half of a call's number, so one may return after 2^32 calls. Long before,
 * each rank forgets the old ones. Between two calls, the packet memory of the call before is
 * its owner's alone: what that call sent was read in it, and the next call of the same parity
 * is entered by nobody until all have entered this one. */
static void forget_packets(const struct peal_comm *comm)
{
    uint64_t copy = comm->layout.packet_bytes;
    uint64_t parity = (comm->call + 1) & 1;
    char *at = comm->base + comm->layout.packets + copy * (2ull * comm->rank + parity);
    rt_word *words = (rt_word *)(void *)at;
    for (uint64_t i = 0; i < copy / sizeof *words; i++)
        atomic_store_explicit(&words[i], 0, memory_order_relaxed);
}

/* A fresh packet memory is stamped 0, which is therefore no call's stamp. */
static void number_call(struct peal_comm *comm)
{
    if ((uint32_t)comm->call == 0)
        comm->call += 2;
    if ((comm->call & 0x3fffffffu) < 4 && comm->call > 4)
        forget_packets(comm);
    comm->stamp = (uint32_t)comm->call;
    comm->parity = comm->stamp & 1;
}

static void enter(struct peal_comm *comm, const struct rt_row *row, int in_place)
{
    number_call(comm);
    uint64_t mixed = (row->key[in_place] + comm->call) * 0x9e3779b97f4a7c15u;
    comm->digest = (uint32_t)(mixed >> 32);
    comm->header = (uint64_t)comm->stamp << 32 | comm->digest;
    atomic_store_explicit(&comm->board->call, (uint64_t)comm->digest << 32 | comm->stamp,
                          memory_order_release);
    post_buffers(comm);
}

peal_status peal_allreduce(peal_comm *comm, const void *in, void *out, size_t count,
                           peal_dtype dtype, peal_op op, peal_diag *diag)
{
    if (!comm)
        return peal_fail(diag, PEAL_ERR_ARG, "no comm");
    struct rt_row *row = comm->last;
    if (!row || row->count != count || row->dtype != dtype || row->op != op) {
        PEAL_TRY(rt_select(comm, count, dtype, op, &row, diag));
        comm->last = row;
    }
    /* Plans do not write their input; in place, it is the output. */
    comm->in = comm->shared_in = (char *)(uintptr_t)in;
    comm->out = comm->shared_out = out;
    PEAL_TRY(check_buffers(row, comm->in, comm->out, diag));
    if (comm->failed || rt_world_failed(comm))
        return rt_failure(comm, diag);
    if (comm->private_buffers)
        PEAL_TRY(stage(comm, row, diag));
    /* Where nothing is moved, nothing is in place: NULL is as good as any buffer. */
    enter(comm, row, in == out && row->bytes);
    PEAL_TRY(rt_run(comm, row, diag));
    if (comm->private_buffers)
        unstage(comm, row);
    atomic_store_explicit(&comm->board->done, comm->stamp, memory_order_release);
    comm->call++;
    comm->calls++;
    return PEAL_OK;
}
