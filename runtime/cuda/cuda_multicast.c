/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVLink SHARP: a multicast object to which every rank binds its arena. A store to its address is
 * made to all of them, a load folds all of them; the kernel does both where a plan stores to a
 * group of all ranks or folds from it (device/dev_multi.h).
 *
 * The driver lets nobody bind or map before all devices were added, but waits: so ranks agree in
 * between, and a rank that failed leaves nobody in the driver.
 */
#include "cuda_comm.h"

#include <string.h>

uint32_t cuda_group_card(const struct peal_cuda_comm *comm)
{
    uint32_t wants = comm->uses_groups && !comm->params.zero_sm && !comm->params.no_multicast;
    uint32_t can = comm->about.multicast && comm->arena.types;
    return (wants ? CUDA_GROUP_WANTS : 0) | (can ? CUDA_GROUP_CAN : 0);
}

static peal_status check_pair(const struct cuda_card *cards, uint32_t rank, uint32_t other,
                              peal_diag *diag)
{
    if (memcmp(&cards[rank].uuid, &cards[other].uuid, sizeof cards[rank].uuid) == 0)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "plans multicast by the NVLink switch: ranks %u and %u need devices of "
                         "their own for that; plan without, or set no_multicast",
                         other, rank);
    if (cards[rank].memory.bytes != cards[other].memory.bytes)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "memory of ranks %u and %u is of two sizes: their devices differ", other,
                         rank);
    return PEAL_OK;
}

peal_status cuda_group_check(const struct peal_cuda_comm *comm, const struct cuda_card *cards,
                             int *joins, peal_diag *diag)
{
    uint32_t wants = 0;
    *joins = 0;
    for (uint32_t r = 0; r < comm->nranks; r++)
        wants |= cards[r].group & CUDA_GROUP_WANTS;
    if (!wants)
        return PEAL_OK;
    for (uint32_t r = 0; r < comm->nranks; r++) {
        if (!(cards[r].group & CUDA_GROUP_CAN))
            return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                             "plans multicast by the NVLink switch: the device of rank %u has no "
                             "multicast memory; plan without, or set no_multicast",
                             r);
        if (comm->host->far && !(cards[r].memory.types & CU_HANDLE_FABRIC))
            return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                             "plans multicast by the NVLink switch: over hosts that takes fabric "
                             "handles, which rank %u is not granted; plan without, or set "
                             "no_multicast",
                             r);
        for (uint32_t other = 0; other < r; other++)
            PEAL_TRY(check_pair(cards, r, other, diag));
    }
    *joins = 1;
    return PEAL_OK;
}

static struct cu_multicast_prop prop_of(const struct peal_cuda_comm *comm)
{
    return (struct cu_multicast_prop){.devices = comm->nranks,
                                      .bytes = comm->arena.bytes,
                                      .handle_types = (unsigned long long)comm->arena.types};
}

peal_status cuda_group_create(struct peal_cuda_comm *comm, struct cuda_export *to, int *fd,
                              peal_diag *diag)
{
    struct cuda_block *block = &comm->multicast;
    struct cu_multicast_prop prop = prop_of(comm);
    CUDA_TRY(comm->cuda, diag, multicast_create, &block->handle, &prop);
    block->kind = CUDA_VMM;
    block->types = comm->arena.types;
    block->bytes = comm->arena.bytes;
    return cuda_block_export(comm->cuda, block, to, fd, diag);
}

peal_status cuda_group_join(struct peal_cuda_comm *comm, const struct cuda_export *from, int fd,
                            peal_diag *diag)
{
    if (comm->rank != 0)
        PEAL_TRY(cuda_handle_import(comm->cuda, from, fd, &comm->multicast, diag));
    return CUDA_DO(comm->cuda, diag, multicast_add, comm->multicast.handle,
                   (cu_device)comm->device);
}

peal_status cuda_group_bind(struct peal_cuda_comm *comm, peal_diag *diag)
{
    struct cuda_block *block = &comm->multicast;
    struct cu_multicast_prop prop = prop_of(comm);
    CUDA_TRY(comm->cuda, diag, multicast_bind, block->handle, 0, comm->arena.handle, 0,
             comm->arena.bytes, 0);
    comm->bound = 1;
    atomic_store_explicit(&cuda_corner(comm->host, comm->rank)->bound, 1, memory_order_release);
    CUDA_TRY(comm->cuda, diag, multicast_granularity, &block->align, &prop, CU_MULTICAST_MINIMUM);
    return cuda_block_map(comm->cuda, comm->device, block, diag);
}

/* Whoever uses an arena that was bound has the object, too. */
void cuda_group_unbind(const struct peal_cuda_comm *comm, uint32_t device, size_t bytes)
{
    if (comm->multicast.kind != CUDA_NOTHING)
        (void)comm->cuda->call.multicast_unbind(comm->multicast.handle, (cu_device)device, 0,
                                                bytes);
}

void cuda_group_leave(struct peal_cuda_comm *comm)
{
    comm->bound = 0;
    cuda_block_free(comm->cuda, &comm->multicast);
}
