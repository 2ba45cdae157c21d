/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a device that this rank's does not reach: it is mapped for its own device alone, so
 * what streams of this rank's device write or read by themselves is not for it. That is done by a
 * stream of the other device, in the place of the stream that asks, which goes on behind it. Copies
 * from device to device the driver does, if it is told both contexts.
 */
#include "cuda_comm.h"

static peal_status make_one(const struct peal_cuda_comm *comm, struct cuda_peer *peer,
                            struct cuda_there *there, peal_diag *diag)
{
    const struct peal_cuda *cuda = comm->cuda;
    CUDA_TRY(cuda, diag, event_create, &there->behind, CU_EVENT_NO_TIMING);
    CUDA_TRY(cuda, diag, context_push, peer->context);
    peal_status status = CUDA_DO(cuda, diag, stream_create, &there->stream, CU_STREAM_NONBLOCKING);
    if (status == PEAL_OK)
        status = CUDA_DO(cuda, diag, event_create, &there->done, CU_EVENT_NO_TIMING);
    cuda_leave(comm);
    return status;
}

peal_status cuda_there_make(struct peal_cuda_comm *comm, uint32_t rank, uint32_t device,
                            peal_diag *diag)
{
    struct cuda_peer *peer = &comm->peers[rank];
    if (!peer->context) {
        CUDA_TRY(comm->cuda, diag, context_retain, &peer->context, (cu_device)device);
        peer->device = device;
    }
    for (unsigned i = 0; i < CUDA_ASKERS; i++)
        PEAL_TRY(make_one(comm, peer, &peer->there[i], diag));
    return PEAL_OK;
}

void cuda_there_free(struct peal_cuda_comm *comm, uint32_t rank)
{
    const struct cuda_calls *call = &comm->cuda->call;
    struct cuda_peer *peer = &comm->peers[rank];
    for (unsigned i = 0; i < CUDA_ASKERS; i++)
        if (peer->there[i].behind)
            (void)call->event_destroy(peer->there[i].behind);
    if (peer->context && cuda_enter_to_free(comm->cuda, peer->context)) {
        for (unsigned i = 0; i < CUDA_ASKERS; i++) {
            if (peer->there[i].stream) { /* what was not joined is over before the memory is gone */
                (void)call->stream_synchronize(peer->there[i].stream);
                (void)call->stream_destroy(peer->there[i].stream);
            }
            if (peer->there[i].done)
                (void)call->event_destroy(peer->there[i].done);
        }
        cuda_leave(comm);
    }
    if (peer->context && !peer->mine)
        (void)call->context_release((cu_device)peer->device);
}

peal_status cuda_there_begin(const struct peal_cuda_comm *comm, const struct cuda_ask *ask,
                             cu_handle *stream, peal_diag *diag)
{
    const struct peal_cuda *cuda = comm->cuda;
    const struct cuda_peer *peer = &comm->peers[ask->rank];
    const struct cuda_there *there = &peer->there[ask->asker];
    *stream = ask->stream;
    if (!there->stream)
        return PEAL_OK;
    CUDA_TRY(cuda, diag, event_record, there->behind, ask->stream);
    CUDA_TRY(cuda, diag, context_push, peer->context);
    *stream = there->stream;
    return CUDA_DO(cuda, diag, stream_wait_event, there->stream, there->behind, 0);
}

peal_status cuda_there_end(const struct peal_cuda_comm *comm, const struct cuda_ask *ask,
                           cu_handle stream, peal_status status, peal_diag *diag)
{
    const struct cuda_there *there = &comm->peers[ask->rank].there[ask->asker];
    if (stream == ask->stream)
        return status;
    peal_status joined = CUDA_DO(comm->cuda, diag, event_record, there->done, stream);
    cuda_leave(comm);
    if (joined == PEAL_OK)
        joined = CUDA_DO(comm->cuda, diag, stream_wait_event, ask->stream, there->done, 0);
    return status == PEAL_OK ? joined : status;
}

peal_status cuda_there_ops(const struct peal_cuda_comm *comm, const struct cuda_ask *ask,
                           struct cu_mem_op *ops, unsigned count, peal_diag *diag)
{
    cu_handle stream;
    peal_status status = cuda_there_begin(comm, ask, &stream, diag);
    if (status == PEAL_OK)
        status = CUDA_DO(comm->cuda, diag, mem_ops, stream, count, ops, 0);
    return cuda_there_end(comm, ask, stream, status, diag);
}

peal_status cuda_there_copy(const struct peal_cuda_comm *comm, const struct cuda_ask *ask,
                            cu_ptr to, cu_ptr from, size_t bytes, peal_diag *diag)
{
    cu_handle stream;
    peal_status status = cuda_there_begin(comm, ask, &stream, diag);
    if (status == PEAL_OK)
        status = CUDA_DO(comm->cuda, diag, copy, to, from, bytes, stream);
    return cuda_there_end(comm, ask, stream, status, diag);
}

int cuda_is_there(const struct peal_cuda_comm *comm, uint32_t rank)
{
    return comm->peers[rank].there[0].stream != NULL;
}

static cu_handle context_of(const struct peal_cuda_comm *comm, uint32_t rank)
{
    return cuda_is_there(comm, rank) ? comm->peers[rank].context : comm->context;
}

peal_status cuda_there_across(const struct peal_cuda_comm *comm, const struct cuda_across *across,
                              cu_handle stream, peal_diag *diag)
{
    if (across->bytes == 0)
        return PEAL_OK;
    return CUDA_DO(comm->cuda, diag, copy_across, across->to, context_of(comm, across->to_rank),
                   across->from, context_of(comm, across->from_rank), across->bytes, stream);
}
