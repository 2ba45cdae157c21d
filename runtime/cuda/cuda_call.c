/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives: from the caller's arguments to what is enqueued. */
#include "cuda_comm.h"

struct asked {
    struct rt_args args;
    struct rt_row *row;
    int zero;
    int in_place;
    uint32_t stages; /* RT_REACH_*: what others reach of the buffers, and where they do not */
};

/* ---- what is asked for */

static peal_status check_sms(const struct peal_cuda_comm *comm, const struct rt_row *row,
                             uint32_t max_sms, peal_diag *diag)
{
    uint32_t most = max_sms ? max_sms : comm->params.max_sms;
    if (most && row->nlanes > most)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "%s of these sizes holds %u SMs, of %u allowed: plan with max_sms",
                         row->algorithm, row->nlanes, most);
    return PEAL_OK;
}

/* Addresses of one process hold on its other ranks. */
static int all_mine(const struct peal_cuda_comm *comm)
{
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (!comm->peers[r].mine)
            return 0;
    return 1;
}

/* Without an SM, and where a kernel posts to a NIC, nobody looks up where the others have their
 * buffers: all have them at one place of the heap, whether or not this rank's own are reached. */
static uint32_t must_stage(const struct peal_cuda_comm *comm, const struct rt_row *row,
                           const peal_cuda_call *call, int zero)
{
    uint32_t stages = 0;
    if (zero || comm->zero[row - comm->host->rows].posts)
        return call->symmetric ? 0 : RT_REACH_IN | RT_REACH_OUT;
    /* The switch reaches the arenas alone. */
    int named = comm->bound && row->reach & (RT_NAMED_IN | RT_NAMED_OUT);
    if (all_mine(comm) && !named)
        return 0;
    if (row->reach & CUDA_REACH_IN && !cuda_in_heap(comm, (uintptr_t)call->in, row->in_bytes))
        stages |= RT_REACH_IN;
    if (row->reach & CUDA_REACH_OUT && !cuda_in_heap(comm, (uintptr_t)call->out, row->out_bytes))
        stages |= RT_REACH_OUT;
    return stages;
}

/* Also of a buffer that this rank has no use for: it tells where the others have theirs. */
static peal_status check_symmetric(const struct peal_cuda_comm *comm, const struct rt_row *row,
                                   const peal_cuda_call *call, peal_diag *diag)
{
    int in = cuda_in_heap(comm, (uintptr_t)call->in, row->in_bytes);
    int out = cuda_in_heap(comm, (uintptr_t)call->out, row->out_bytes);
    if (call->symmetric && row->block_bytes && !(in && out))
        return peal_fail(diag, PEAL_ERR_ARG, "a buffer is not of peal_cuda_mem_alloc");
    return PEAL_OK;
}

static peal_status check(struct peal_cuda_comm *comm, const peal_cuda_call *call,
                         struct asked *asked, peal_diag *diag)
{
    asked->args = (struct rt_args){call->collective, call->root, call->peer,
                                   call->dtype,      call->op,   call->count};
    if ((unsigned)call->collective >= PEAL_COLLECTIVE_COUNT)
        return peal_fail(diag, PEAL_ERR_ARG, "collective %d is not one of peal's",
                         (int)call->collective);
    PEAL_TRY(rt_select(comm->host, asked->args, &asked->row, diag));
    PEAL_TRY(rt_check_buffers(asked->row, call->in, call->out, &asked->in_place, diag));
    asked->zero = comm->params.zero_sm || call->zero_sm;
    if (asked->row->counted && !call->send_counts)
        return peal_fail(diag, PEAL_ERR_ARG, "no counts");
    if (asked->zero)
        PEAL_TRY(cuda_zero_check(comm, asked->row, diag));
    else
        PEAL_TRY(check_sms(comm, asked->row, call->max_sms, diag));
    if (asked->zero || comm->zero[asked->row - comm->host->rows].posts)
        PEAL_TRY(check_symmetric(comm, asked->row, call, diag));
    asked->stages = must_stage(comm, asked->row, call, asked->zero);
    return cuda_stage_reserve(comm, asked->row, asked->stages, diag);
}

/* ---- enqueueing */

/* Of buffers that have to be at one place everywhere: part of what ranks have in common. */
static uint64_t place_of(const struct peal_cuda_comm *comm, const struct rt_row *row,
                         const struct cuda_buffers *buffers)
{
    uint64_t place[] = {buffers->shared_out - comm->arena.at};
    return comm->zero[row - comm->host->rows].posts && row->block_bytes
               ? peal_hash64(place, sizeof place)
               : 0;
}

static peal_status launch(struct peal_cuda_comm *comm, const peal_cuda_call *call,
                          const struct asked *asked, const struct cuda_buffers *buffers,
                          cu_handle stream, peal_diag *diag)
{
    struct rt_row *row = asked->row;
    struct dev_call what = {.rank = comm->own_rank,
                            .in = buffers->in,
                            .out = buffers->out,
                            .shared_in = buffers->shared_in,
                            .shared_out = buffers->shared_out,
                            .count = call->count,
                            .key = row->key[asked->in_place] ^ place_of(comm, row, buffers),
                            .send_counts = (uintptr_t)call->send_counts,
                            .recv_counts = (uintptr_t)call->recv_counts,
                            .row = (uint32_t)(row - comm->host->rows),
                            .dtype = (uint32_t)call->dtype,
                            .op = (uint32_t)call->op,
                            .divisor = row->divisor,
                            .trips = row->trips};
    return cuda_kernel_call(comm, row, &what, stream, diag);
}

static peal_status enqueue(struct peal_cuda_comm *comm, const peal_cuda_call *call,
                           const struct asked *asked, cu_handle stream, peal_diag *diag)
{
    struct cuda_buffers buffers = {.in = (uintptr_t)call->in, .out = (uintptr_t)call->out};
    PEAL_TRY(cuda_stage(comm, asked->row, asked->stages, &buffers, stream, diag));
    if (asked->zero)
        PEAL_TRY(cuda_zero_call(comm, asked->row, asked->in_place, &buffers, stream, diag));
    else
        PEAL_TRY(launch(comm, call, asked, &buffers, stream, diag));
    return cuda_unstage(comm, asked->row, &buffers, stream, diag);
}

/* With the context current. */
static peal_status check_and_enqueue(struct peal_cuda_comm *comm, const peal_cuda_call *call,
                                     cu_handle stream, peal_diag *diag)
{
    struct asked asked = {.row = NULL};
    PEAL_TRY(check(comm, call, &asked, diag));
    peal_status status = enqueue(comm, call, &asked, stream, diag);
    if (status == PEAL_OK)
        comm->calls++;
    else
        peal_cuda_comm_abort(comm); /* a part of it may be enqueued: the others would wait */
    return status;
}

peal_status peal_cuda_enqueue(peal_cuda_comm *comm, const peal_cuda_call *given, void *stream,
                              peal_diag *diag)
{
    peal_cuda_call call;
    if (!comm || !given)
        return peal_fail(diag, PEAL_ERR_ARG, "no comm, or no call");
    if (peal_import(&call, sizeof call, given) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "a call of an unknown size");
    PEAL_TRY(peal_cuda_comm_error(comm, diag));
    PEAL_TRY(cuda_enter(comm, diag));
    peal_status status = check_and_enqueue(comm, &call, stream, diag);
    cuda_leave(comm);
    return status;
}

/* ---- by name */

static peal_status call_of(peal_cuda_comm *comm, peal_collective collective, const void *in,
                           void *out, size_t count, peal_dtype dtype, peal_op op, uint32_t root,
                           void *stream, peal_diag *diag)
{
    peal_cuda_call call = PEAL_CUDA_CALL_INIT;
    call.collective = collective;
    call.in = in;
    call.out = out;
    call.count = count;
    call.dtype = dtype;
    call.op = op;
    call.root = root;
    return peal_cuda_enqueue(comm, &call, stream, diag);
}

peal_status peal_cuda_allreduce(peal_cuda_comm *comm, const void *in, void *out, size_t count,
                                peal_dtype dtype, peal_op op, void *stream, peal_diag *diag)
{
    return call_of(comm, PEAL_ALLREDUCE, in, out, count, dtype, op, 0, stream, diag);
}

peal_status peal_cuda_reduce_scatter(peal_cuda_comm *comm, const void *in, void *out, size_t count,
                                     peal_dtype dtype, peal_op op, void *stream, peal_diag *diag)
{
    return call_of(comm, PEAL_REDUCE_SCATTER, in, out, count, dtype, op, 0, stream, diag);
}

peal_status peal_cuda_allgather(peal_cuda_comm *comm, const void *in, void *out, size_t count,
                                peal_dtype dtype, void *stream, peal_diag *diag)
{
    return call_of(comm, PEAL_ALLGATHER, in, out, count, dtype, PEAL_SUM, 0, stream, diag);
}

peal_status peal_cuda_alltoall(peal_cuda_comm *comm, const void *in, void *out, size_t count,
                               peal_dtype dtype, void *stream, peal_diag *diag)
{
    return call_of(comm, PEAL_ALLTOALL, in, out, count, dtype, PEAL_SUM, 0, stream, diag);
}

peal_status peal_cuda_broadcast(peal_cuda_comm *comm, const void *in, void *out, size_t count,
                                peal_dtype dtype, uint32_t root, void *stream, peal_diag *diag)
{
    return call_of(comm, PEAL_BROADCAST, in, out, count, dtype, PEAL_SUM, root, stream, diag);
}

peal_status peal_cuda_reduce(peal_cuda_comm *comm, const void *in, void *out, size_t count,
                             peal_dtype dtype, peal_op op, uint32_t root, void *stream,
                             peal_diag *diag)
{
    return call_of(comm, PEAL_REDUCE, in, out, count, dtype, op, root, stream, diag);
}
