/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of one step, that do not depend on each other: by one call of the driver where that takes
 * a batch (CUDA 12.8), else one by one. A batch is done in the stream's order, its copies in any;
 * the default stream and captures take none.
 */
#include "cuda_comm.h"

static peal_status give_one(const struct peal_cuda *cuda, const struct cuda_copies *copies,
                            uint32_t i, cu_handle stream, peal_diag *diag)
{
    return CUDA_DO(cuda, diag, copy, copies->to[i], copies->from[i], copies->bytes[i], stream);
}

static peal_status give_batch(const struct peal_cuda *cuda, struct cuda_copies *copies,
                              cu_handle stream, peal_diag *diag)
{
    struct cu_copy_attributes how = {.source_order = CU_SOURCE_IN_STREAM_ORDER};
    size_t first = 0, wrong = 0;
    if (cuda->call.copies)
        return CUDA_DO(cuda, diag, copies, copies->to, copies->from, copies->bytes, copies->count,
                       &how, &first, 1, stream);
    return CUDA_DO(cuda, diag, copies_first, copies->to, copies->from, copies->bytes, copies->count,
                   &how, &first, 1, &wrong, stream);
}

peal_status cuda_copies_flush(const struct peal_cuda *cuda, struct cuda_copies *copies,
                              cu_handle stream, peal_diag *diag)
{
    int batch = (cuda->call.copies || cuda->call.copies_first) && stream && !copies->single;
    uint32_t count = copies->count;
    peal_status status = PEAL_OK;
    if (count > 1 && batch)
        status = give_batch(cuda, copies, stream, diag);
    for (uint32_t i = 0; i < count && status == PEAL_OK && (count == 1 || !batch); i++)
        status = give_one(cuda, copies, i, stream, diag);
    copies->count = 0;
    return status;
}

peal_status cuda_copies_add(const struct peal_cuda *cuda, struct cuda_copies *copies, cu_ptr to,
                            cu_ptr from, size_t bytes, cu_handle stream, peal_diag *diag)
{
    if (bytes == 0 || to == from)
        return PEAL_OK;
    if (copies->count == CUDA_COPIES_MAX)
        PEAL_TRY(cuda_copies_flush(cuda, copies, stream, diag));
    copies->to[copies->count] = to;
    copies->from[copies->count] = from;
    copies->bytes[copies->count++] = bytes;
    return PEAL_OK;
}
