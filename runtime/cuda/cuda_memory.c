/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that other ranks reach: by virtual memory management where the device has it,
 * whose handles travel as file descriptors or, between hosts of one NVLink domain, as fabric
 * handles; else by cuMemAlloc and CUDA IPC. The context of the block's device is current.
 */
#include "cuda_comm.h"

#include <string.h>

static struct cu_mem_prop prop_of(uint32_t device, peal_cuda_share share)
{
    struct cu_mem_prop prop = {.type = CU_MEM_PINNED,
                               .handle_types = share == PEAL_CUDA_SHARE_FABRIC ? CU_HANDLE_FABRIC
                                                                               : CU_HANDLE_FD,
                               .location = {CU_LOCATION_DEVICE, (int)device}};
    return prop;
}

/* ---- mapping handles */

peal_status cuda_block_allow(const struct peal_cuda *cuda, const struct cuda_block *block,
                             uint32_t device, peal_diag *diag)
{
    struct cu_access access = {{CU_LOCATION_DEVICE, (int)device}, CU_ACCESS_READ_WRITE};
    if (block->kind != CUDA_VMM)
        return PEAL_OK;
    return CUDA_DO(cuda, diag, set_access, block->at, block->bytes, &access, 1);
}

/* Of a handle of this process, which the block takes over; it is freed on errors. */
static peal_status map_handle(const struct peal_cuda *cuda, uint32_t device,
                              struct cuda_block *block, peal_diag *diag)
{
    cu_ptr at = 0;
    block->kind = CUDA_VMM;
    peal_status status = CUDA_DO(cuda, diag, reserve, &at, block->bytes, 0, 0, 0);
    if (status == PEAL_OK) {
        status = CUDA_DO(cuda, diag, map, at, block->bytes, 0, block->handle, 0);
        if (status == PEAL_OK)
            block->at = at;
        else
            (void)cuda->call.unreserve(at, block->bytes);
    }
    if (status == PEAL_OK)
        status = cuda_block_allow(cuda, block, device, diag);
    if (status != PEAL_OK)
        cuda_block_free(cuda, block);
    return status;
}

/* ---- making */

static peal_status make_vmm(const struct peal_cuda *cuda, uint32_t device, size_t bytes,
                            peal_cuda_share share, struct cuda_block *block, peal_diag *diag)
{
    size_t grain = 0;
    struct cu_mem_prop prop = prop_of(device, share);
    prop.gpu_direct_rdma = cuda_attribute(cuda, device, CU_ATTR_RDMA_VMM) != 0;
    CUDA_TRY(cuda, diag, granularity, &grain, &prop, CU_GRANULARITY_RECOMMENDED);
    if (grain == 0 || bytes > SIZE_MAX - grain)
        return peal_fail(diag, PEAL_ERR_MEMORY, "%zu bytes of device memory", bytes);
    block->bytes = (bytes + grain - 1) / grain * grain;
    CUDA_TRY(cuda, diag, create, &block->handle, block->bytes, &prop, 0);
    return map_handle(cuda, device, block, diag);
}

static peal_status make_plain(const struct peal_cuda *cuda, size_t bytes, struct cuda_block *block,
                              peal_diag *diag)
{
    CUDA_TRY(cuda, diag, mem_alloc, &block->at, bytes);
    block->kind = CUDA_PLAIN;
    block->bytes = bytes;
    return PEAL_OK;
}

/* Synchronous, by a stream of its own: nothing of the caller's waits for it. */
static peal_status zero(const struct peal_cuda *cuda, const struct cuda_block *block, size_t bytes,
                        peal_diag *diag)
{
    cu_handle stream;
    CUDA_TRY(cuda, diag, stream_create, &stream, CU_STREAM_NONBLOCKING);
    peal_status status = CUDA_DO(cuda, diag, set_bytes, block->at, 0, bytes, stream);
    if (status == PEAL_OK)
        status = CUDA_DO(cuda, diag, stream_synchronize, stream);
    (void)cuda->call.stream_destroy(stream);
    return status;
}

peal_status cuda_block_make(const struct peal_cuda *cuda, uint32_t device, size_t bytes,
                            size_t clear, peal_cuda_share share, struct cuda_block *block,
                            peal_diag *diag)
{
    memset(block, 0, sizeof *block);
    if (share == PEAL_CUDA_SHARE_FD || share == PEAL_CUDA_SHARE_FABRIC)
        PEAL_TRY(make_vmm(cuda, device, bytes, share, block, diag));
    else
        PEAL_TRY(make_plain(cuda, bytes, block, diag));
    peal_status status = zero(cuda, block, clear, diag);
    if (status != PEAL_OK)
        cuda_block_free(cuda, block);
    return status;
}

void cuda_block_free(const struct peal_cuda *cuda, struct cuda_block *block)
{
    if (block->kind == CUDA_PLAIN)
        (void)cuda->call.mem_free(block->at);
    if (block->kind == CUDA_IPC)
        (void)cuda->call.ipc_close(block->at);
    if (block->kind == CUDA_VMM) {
        if (block->at) {
            (void)cuda->call.unmap(block->at, block->bytes);
            (void)cuda->call.unreserve(block->at, block->bytes);
        }
        (void)cuda->call.release(block->handle);
    }
    memset(block, 0, sizeof *block);
}

/* ---- to and from other processes */

peal_status cuda_block_export(const struct peal_cuda *cuda, const struct cuda_block *block,
                              peal_cuda_share share, struct cuda_export *to, int *fd,
                              peal_diag *diag)
{
    memset(to, 0, sizeof *to);
    to->share = (uint32_t)share;
    to->bytes = block->bytes;
    *fd = -1;
    if (share == PEAL_CUDA_SHARE_FD)
        return CUDA_DO(cuda, diag, export_handle, fd, block->handle, CU_HANDLE_FD, 0);
    if (share == PEAL_CUDA_SHARE_FABRIC)
        return CUDA_DO(cuda, diag, export_handle, to->handle, block->handle, CU_HANDLE_FABRIC, 0);
    struct cu_ipc_handle handle;
    CUDA_TRY(cuda, diag, ipc_get, &handle, block->at);
    memcpy(to->handle, &handle, sizeof to->handle);
    return PEAL_OK;
}

static peal_status import_vmm(const struct peal_cuda *cuda, const struct cuda_export *from, int fd,
                              uint32_t device, struct cuda_block *block, peal_diag *diag)
{
    int fabric = from->share == PEAL_CUDA_SHARE_FABRIC;
    struct cu_fabric_handle handle;
    memcpy(&handle, from->handle, sizeof handle);
    /* A descriptor is passed as if it were a pointer. */
    void *os = fabric ? (void *)&handle : (void *)(intptr_t)fd;
    block->bytes = (size_t)from->bytes;
    CUDA_TRY(cuda, diag, import_handle, &block->handle, os,
             fabric ? CU_HANDLE_FABRIC : CU_HANDLE_FD);
    return map_handle(cuda, device, block, diag);
}

peal_status cuda_block_import(const struct peal_cuda *cuda, const struct cuda_export *from, int fd,
                              uint32_t device, struct cuda_block *block, peal_diag *diag)
{
    memset(block, 0, sizeof *block);
    if (from->share != PEAL_CUDA_SHARE_IPC)
        return import_vmm(cuda, from, fd, device, block, diag);
    struct cu_ipc_handle handle;
    memcpy(&handle, from->handle, sizeof handle);
    CUDA_TRY(cuda, diag, ipc_open, &block->at, handle, CU_IPC_LAZY_PEER);
    block->kind = CUDA_IPC;
    block->bytes = (size_t)from->bytes;
    return PEAL_OK;
}
