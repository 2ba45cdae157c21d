/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that other ranks reach: by virtual memory management where the device has it,
 * whose handles travel as file descriptors or, between hosts of one NVLink domain, as fabric
 * handles; else by cuMemAlloc and CUDA IPC. The context of the block's device is current.
 */
#include "cuda_comm.h"

#include <string.h>

#define CU_HANDLE_ANY (CU_HANDLE_FD | CU_HANDLE_FABRIC)
#define PLAIN_GRAIN                                                                                \
    (2u << 20) /* what a handle of CUDA IPC shows is whole pages: no others' data                  \
                */

/* ---- mapping handles */

peal_status cuda_block_allow(const struct peal_cuda *cuda, const struct cuda_block *block,
                             uint32_t device, peal_diag *diag)
{
    struct cu_access access = {{CU_LOCATION_DEVICE, (int)device}, CU_ACCESS_READ_WRITE};
    if (block->kind != CUDA_VMM)
        return PEAL_OK;
    return CUDA_DO(cuda, diag, set_access, block->at, block->bytes, &access, 1);
}

peal_status cuda_block_map(const struct peal_cuda *cuda, uint32_t device, struct cuda_block *block,
                           peal_diag *diag)
{
    cu_ptr at = 0;
    CUDA_TRY(cuda, diag, reserve, &at, block->bytes, block->align, 0, 0);
    peal_status status = CUDA_DO(cuda, diag, map, at, block->bytes, 0, block->handle, 0);
    if (status != PEAL_OK) {
        (void)cuda->call.unreserve(at, block->bytes);
        return status;
    }
    block->at = at;
    return cuda_block_allow(cuda, block, device, diag);
}

/* ---- making */

/* Of memory that may be bound to a multicast object, also that one's. */
static peal_status grain_of(const struct peal_cuda *cuda, const struct cu_mem_prop *prop,
                            size_t *grain, peal_diag *diag)
{
    size_t more = 0;
    struct cu_multicast_prop group = {.devices = 2,
                                      .handle_types = (unsigned long long)prop->handle_types};
    CUDA_TRY(cuda, diag, granularity, grain, prop, CU_GRANULARITY_RECOMMENDED);
    group.bytes = *grain;
    if (cuda->call.multicast_granularity &&
        cuda_attribute(cuda, (uint32_t)prop->location.id, CU_ATTR_MULTICAST))
        CUDA_TRY(cuda, diag, multicast_granularity, &more, &group, CU_MULTICAST_MINIMUM);
    *grain = more > *grain ? more : *grain; /* powers of two, both */
    return PEAL_OK;
}

/* Where fabric handles are asked for besides, and not granted, it is without. */
static peal_status create(const struct peal_cuda *cuda, struct cu_mem_prop *prop,
                          struct cuda_block *block, peal_diag *diag)
{
    cu_result result = cuda->call.create(&block->handle, block->bytes, prop, 0);
    if (prop->handle_types == CU_HANDLE_ANY &&
        (result == CU_NOT_PERMITTED || result == CU_NOT_SUPPORTED)) {
        prop->handle_types = CU_HANDLE_FD;
        result = cuda->call.create(&block->handle, block->bytes, prop, 0);
    }
    PEAL_TRY(cuda_check(cuda, result, "create", diag));
    block->kind = CUDA_VMM;
    block->types = prop->handle_types;
    return PEAL_OK;
}

static peal_status make_vmm(const struct peal_cuda *cuda, uint32_t device, size_t bytes, int types,
                            struct cuda_block *block, peal_diag *diag)
{
    size_t grain = 0;
    struct cu_mem_prop prop = {.type = CU_MEM_PINNED,
                               .handle_types = types,
                               .location = {CU_LOCATION_DEVICE, (int)device}};
    prop.gpu_direct_rdma = cuda_attribute(cuda, device, CU_ATTR_RDMA_VMM) != 0;
    PEAL_TRY(grain_of(cuda, &prop, &grain, diag));
    if (grain == 0 || bytes > SIZE_MAX - grain)
        return peal_fail(diag, PEAL_ERR_MEMORY, "%zu bytes of device memory", bytes);
    block->bytes = (bytes + grain - 1) / grain * grain;
    PEAL_TRY(create(cuda, &prop, block, diag));
    return cuda_block_map(cuda, device, block, diag);
}

static peal_status make_plain(const struct peal_cuda *cuda, size_t bytes, struct cuda_block *block,
                              peal_diag *diag)
{
    if (bytes > SIZE_MAX - PLAIN_GRAIN)
        return peal_fail(diag, PEAL_ERR_MEMORY, "%zu bytes of device memory", bytes);
    bytes = (bytes + PLAIN_GRAIN - 1) / PLAIN_GRAIN * PLAIN_GRAIN;
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
                            size_t clear, int types, struct cuda_block *block, peal_diag *diag)
{
    memset(block, 0, sizeof *block);
    peal_status status = types ? make_vmm(cuda, device, bytes, types, block, diag)
                               : make_plain(cuda, bytes, block, diag);
    if (status == PEAL_OK && clear)
        status = zero(cuda, block, clear, diag);
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

/* Where the NVLink domain's service is not at work there are handles that nobody can show: beside a
 * descriptor, it is without. */
static peal_status export_fabric(const struct peal_cuda *cuda, const struct cuda_block *block,
                                 struct cuda_export *to, peal_diag *diag)
{
    cu_result result = cuda->call.export_handle(to->handle, block->handle, CU_HANDLE_FABRIC, 0);
    if (result == CU_SUCCESS || block->types == CU_HANDLE_FABRIC)
        return cuda_check(cuda, result, "export_handle", diag);
    memset(to->handle, 0, sizeof to->handle);
    to->types &= ~(uint32_t)CU_HANDLE_FABRIC;
    return PEAL_OK;
}

peal_status cuda_block_export(const struct peal_cuda *cuda, const struct cuda_block *block,
                              struct cuda_export *to, int *fd, peal_diag *diag)
{
    struct cu_ipc_handle handle;
    memset(to, 0, sizeof *to);
    to->types = (uint32_t)block->types;
    to->bytes = block->bytes;
    *fd = -1;
    if (block->types & CU_HANDLE_FABRIC)
        PEAL_TRY(export_fabric(cuda, block, to, diag));
    if (block->types & CU_HANDLE_FD)
        CUDA_TRY(cuda, diag, export_handle, fd, block->handle, CU_HANDLE_FD, 0);
    if (block->types)
        return PEAL_OK;
    CUDA_TRY(cuda, diag, ipc_get, &handle, block->at);
    memcpy(to->handle, &handle, sizeof to->handle);
    return PEAL_OK;
}

peal_status cuda_handle_import(const struct peal_cuda *cuda, const struct cuda_export *from, int fd,
                               struct cuda_block *block, peal_diag *diag)
{
    struct cu_fabric_handle handle;
    memcpy(&handle, from->handle, sizeof handle);
    /* A descriptor is passed as if it were a pointer. */
    void *os = fd < 0 ? (void *)&handle : (void *)(intptr_t)fd;
    memset(block, 0, sizeof *block);
    CUDA_TRY(cuda, diag, import_handle, &block->handle, os,
             fd < 0 ? CU_HANDLE_FABRIC : CU_HANDLE_FD);
    block->kind = CUDA_VMM;
    block->bytes = (size_t)from->bytes;
    return PEAL_OK;
}

static peal_status open_ipc(const struct peal_cuda *cuda, const struct cuda_export *from,
                            struct cuda_block *block, peal_diag *diag)
{
    struct cu_ipc_handle handle;
    memcpy(&handle, from->handle, sizeof handle);
    memset(block, 0, sizeof *block);
    CUDA_TRY(cuda, diag, ipc_open, &block->at, handle, CU_IPC_LAZY_PEER);
    block->kind = CUDA_IPC;
    block->bytes = (size_t)from->bytes;
    return PEAL_OK;
}

peal_status cuda_block_import(const struct peal_cuda *cuda, const struct cuda_export *from, int fd,
                              uint32_t device, struct cuda_block *block, peal_diag *diag)
{
    if (!from->types)
        return open_ipc(cuda, from, block, diag);
    PEAL_TRY(cuda_handle_import(cuda, from, fd, block, diag));
    peal_status status = cuda_block_map(cuda, device, block, diag);
    if (status != PEAL_OK)
        cuda_block_free(cuda, block);
    return status;
}
