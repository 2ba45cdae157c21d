/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What peal uses of the CUDA driver's binary interface, declared here and not taken from cuda.h:
 * so one library serves machines with and without the toolkit and the driver, and what it was built
 * with makes no difference to what it does. tests/unit/test_cuda_abi.c compares it with
 * cuda.h, where there is one. Names are those of the driver's documentation in lower case.
 */
#ifndef PEAL_RUNTIME_CUDA_ABI_H
#define PEAL_RUNTIME_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int cu_result;             /* CUresult */
typedef int cu_device;             /* CUdevice */
typedef unsigned long long cu_ptr; /* CUdeviceptr, CUmemGenericAllocationHandle */
typedef void *cu_handle; /* CUcontext, CUstream, CUevent, CUmodule, CUfunction, CUgraph ... */

#define CU_SUCCESS 0
#define CU_INVALID_VALUE 1
#define CU_OUT_OF_MEMORY 2
#define CU_NO_DEVICE 100
#define CU_PEER_ACCESS_UNSUPPORTED 217
#define CU_PEER_ACCESS_ALREADY_ENABLED 704
#define CU_ALREADY_REGISTERED 712
#define CU_NOT_READY 600
#define CU_INVALID_IMAGE 200
#define CU_NO_BINARY 209 /* CUDA_ERROR_NO_BINARY_FOR_GPU */
#define CU_NOT_FOUND 500
#define CU_INVALID_HANDLE 400
#define CU_INVALID_CONTEXT 201
#define CU_NOT_PERMITTED 800
#define CU_NOT_SUPPORTED 801
#define CU_CAPTURE_UNSUPPORTED 900
#define CU_CAPTURE_INVALIDATED 901

/* CUdevice_attribute */
#define CU_ATTR_SMS 16
#define CU_ATTR_MAJOR 75
#define CU_ATTR_MINOR 76
#define CU_ATTR_VMM 102
#define CU_ATTR_FD 103
#define CU_ATTR_FLUSH 98     /* CU_WAIT_FLUSH is known */
#define CU_ATTR_RDMA_VMM 110 /* GPUDirect RDMA with CUDA VMM */
#define CU_ATTR_RDMA_ORDER 118
#define CU_ATTR_MEM_OPS_64 122
#define CU_ATTR_DMA_BUF 124
#define CU_ATTR_FABRIC 128
#define CU_ATTR_MULTICAST 132

#define CU_RDMA_ORDER_OWNER 100 /* writes of NICs need no flush for the device they are made to */

/* CUdevice_P2PAttribute */
#define CU_P2P_ACCESS 2
#define CU_P2P_ATOMICS 3 /* all of them, natively: NVLink and its like */

#define CU_STREAM_NONBLOCKING 1u
#define CU_EVENT_NO_TIMING 2u
#define CU_HOST_PORTABLE 1u
#define CU_HOST_MAPPED 2u
#define CU_REGISTER_PORTABLE 1u
#define CU_REGISTER_MAPPED 2u
#define CU_REGISTER_IO 4u
#define CU_IPC_LAZY_PEER 1u
#define CU_WAIT_GEQ 0u
#define CU_WAIT_EQ 1u
#define CU_WAIT_FLUSH (1u << 30) /* what was written before the word is seen behind the wait */
#define CU_CAPTURE_NONE 0
#define CU_CAPTURE_RELAXED 2
#define CU_FUNC_DYNAMIC_SHARED 8 /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */

/* CUmemAllocationProp and its parts */
#define CU_MEM_PINNED 1
#define CU_LOCATION_DEVICE 1
#define CU_HANDLE_FD 1
#define CU_HANDLE_FABRIC 8
#define CU_RANGE_DMA_BUF 1 /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
#define CU_GRANULARITY_RECOMMENDED 1
#define CU_MULTICAST_MINIMUM 0 /* CU_MULTICAST_GRANULARITY_MINIMUM */
#define CU_ACCESS_READ_WRITE 3
struct cu_location { /* CUmemLocation */
    int type;
    int id;
};
struct cu_mem_prop { /* CUmemAllocationProp */
    int type;
    int handle_types;
    struct cu_location location;
    void *win32;
    unsigned char compression;
    unsigned char gpu_direct_rdma;
    unsigned short usage;
    unsigned char reserved[4];
};
struct cu_access { /* CUmemAccessDesc */
    struct cu_location location;
    int flags;
};
struct cu_ipc_handle { /* CUipcMemHandle */
    char reserved[64];
};
struct cu_fabric_handle { /* CUmemFabricHandle */
    unsigned char data[64];
};
struct cu_multicast_prop { /* CUmulticastObjectProp */
    unsigned devices;
    size_t bytes;
    unsigned long long handle_types;
    unsigned long long flags;
};
struct cu_uuid { /* CUuuid */
    char bytes[16];
};

/* CUstreamBatchMemOpParams: of the kinds used here, one layout. */
#define CU_OP_WAIT_32 1
#define CU_OP_WRITE_32 2
#define CU_OP_WRITE_64 5
#define CU_OPS_MAX 255u /* of one cuStreamBatchMemOp: fewer than 256, it says */
struct cu_mem_op {
    int operation;
    cu_ptr address;
    uint64_t value; /* 32 bits: the low half */
    unsigned flags;
    cu_ptr alias;
    uint64_t pad;
};

/* CUmemcpyAttributes, of copies in a batch */
#define CU_SOURCE_IN_STREAM_ORDER 1
struct cu_copy_attributes {
    int source_order;
    struct cu_location from;
    struct cu_location to;
    unsigned flags;
};

/* X(member, symbol, parameters): what has to be there, */
#define CUDA_FUNCTIONS(X)                                                                          \
    X(init, cuInit, (unsigned))                                                                    \
    X(driver_version, cuDriverGetVersion, (int *))                                                 \
    X(error_name, cuGetErrorName, (cu_result, const char **))                                      \
    X(device_count, cuDeviceGetCount, (int *))                                                     \
    X(device_name, cuDeviceGetName, (char *, int, cu_device))                                      \
    X(device_attribute, cuDeviceGetAttribute, (int *, int, cu_device))                             \
    X(device_busid, cuDeviceGetPCIBusId, (char *, int, cu_device))                                 \
    X(device_uuid, cuDeviceGetUuid_v2, (struct cu_uuid *, cu_device))                              \
    X(can_access_peer, cuDeviceCanAccessPeer, (int *, cu_device, cu_device))                       \
    X(peer_attribute, cuDeviceGetP2PAttribute, (int *, int, cu_device, cu_device))                 \
    X(context_retain, cuDevicePrimaryCtxRetain, (cu_handle *, cu_device))                          \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (cu_device))                                  \
    X(context_push, cuCtxPushCurrent_v2, (cu_handle))                                              \
    X(context_pop, cuCtxPopCurrent_v2, (cu_handle *))                                              \
    X(enable_peer, cuCtxEnablePeerAccess, (cu_handle, unsigned))                                   \
    X(mem_alloc, cuMemAlloc_v2, (cu_ptr *, size_t))                                                \
    X(mem_free, cuMemFree_v2, (cu_ptr))                                                            \
    X(host_alloc, cuMemHostAlloc, (void **, size_t, unsigned))                                     \
    X(host_free, cuMemFreeHost, (void *))                                                          \
    X(host_device, cuMemHostGetDevicePointer_v2, (cu_ptr *, void *, unsigned))                     \
    X(copy, cuMemcpyAsync, (cu_ptr, cu_ptr, size_t, cu_handle))                                    \
    X(copy_across, cuMemcpyPeerAsync, (cu_ptr, cu_handle, cu_ptr, cu_handle, size_t, cu_handle))   \
    X(set_bytes, cuMemsetD8Async, (cu_ptr, unsigned char, size_t, cu_handle))                      \
    X(ipc_get, cuIpcGetMemHandle, (struct cu_ipc_handle *, cu_ptr))                                \
    X(ipc_open, cuIpcOpenMemHandle_v2, (cu_ptr *, struct cu_ipc_handle, unsigned))                 \
    X(ipc_close, cuIpcCloseMemHandle, (cu_ptr))                                                    \
    X(stream_create, cuStreamCreate, (cu_handle *, unsigned))                                      \
    X(stream_destroy, cuStreamDestroy_v2, (cu_handle))                                             \
    X(stream_synchronize, cuStreamSynchronize, (cu_handle))                                        \
    X(stream_query, cuStreamQuery, (cu_handle))                                                    \
    X(stream_wait_event, cuStreamWaitEvent, (cu_handle, cu_handle, unsigned))                      \
    X(stream_capturing, cuStreamIsCapturing, (cu_handle, int *))                                   \
    X(capture_mode, cuThreadExchangeStreamCaptureMode, (int *))                                    \
    X(event_create, cuEventCreate, (cu_handle *, unsigned))                                        \
    X(event_destroy, cuEventDestroy_v2, (cu_handle))                                               \
    X(event_record, cuEventRecord, (cu_handle, cu_handle))                                         \
    X(module_load, cuModuleLoadData, (cu_handle *, const void *))                                  \
    X(module_unload, cuModuleUnload, (cu_handle))                                                  \
    X(module_function, cuModuleGetFunction, (cu_handle *, cu_handle, const char *))                \
    X(function_set, cuFuncSetAttribute, (cu_handle, int, int))                                     \
    X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, cu_handle, int, size_t))     \
    X(launch, cuLaunchKernel,                                                                      \
      (cu_handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cu_handle, \
       void **, void **))

/* and what newer drivers have; a member is NULL where it is missing. */
#define CUDA_OPTIONAL(X)                                                                           \
    X(granularity, cuMemGetAllocationGranularity, (size_t *, const struct cu_mem_prop *, int))     \
    X(reserve, cuMemAddressReserve, (cu_ptr *, size_t, size_t, cu_ptr, unsigned long long))        \
    X(unreserve, cuMemAddressFree, (cu_ptr, size_t))                                               \
    X(create, cuMemCreate, (cu_ptr *, size_t, const struct cu_mem_prop *, unsigned long long))     \
    X(release, cuMemRelease, (cu_ptr))                                                             \
    X(map, cuMemMap, (cu_ptr, size_t, size_t, cu_ptr, unsigned long long))                         \
    X(unmap, cuMemUnmap, (cu_ptr, size_t))                                                         \
    X(set_access, cuMemSetAccess, (cu_ptr, size_t, const struct cu_access *, size_t))              \
    X(export_handle, cuMemExportToShareableHandle, (void *, cu_ptr, int, unsigned long long))      \
    X(import_handle, cuMemImportFromShareableHandle, (cu_ptr *, void *, int))                      \
    X(multicast_create, cuMulticastCreate, (cu_ptr *, const struct cu_multicast_prop *))           \
    X(multicast_add, cuMulticastAddDevice, (cu_ptr, cu_device))                                    \
    X(multicast_bind, cuMulticastBindMem,                                                          \
      (cu_ptr, size_t, cu_ptr, size_t, size_t, unsigned long long))                                \
    X(multicast_unbind, cuMulticastUnbind, (cu_ptr, cu_device, size_t, size_t))                    \
    X(multicast_granularity, cuMulticastGetGranularity,                                            \
      (size_t *, const struct cu_multicast_prop *, int))                                           \
    X(function_load, cuFuncLoad, (cu_handle))                                                      \
    X(mem_ops, cuStreamBatchMemOp_v2, (cu_handle, unsigned, struct cu_mem_op *, unsigned))         \
    X(copies, cuMemcpyBatchAsync_v2,                                                               \
      (cu_ptr *, cu_ptr *, size_t *, size_t, struct cu_copy_attributes *, size_t *, size_t,        \
       cu_handle))                                                                                 \
    X(copies_first, cuMemcpyBatchAsync, /* as 12.8 had it: it also tells which copy is wrong */    \
      (cu_ptr *, cu_ptr *, size_t *, size_t, struct cu_copy_attributes *, size_t *, size_t,        \
       size_t *, cu_handle))                                                                       \
    X(host_register, cuMemHostRegister_v2, (void *, size_t, unsigned))                             \
    X(host_unregister, cuMemHostUnregister, (void *))                                              \
    X(range_handle, cuMemGetHandleForAddressRange,                                                 \
      (void *, cu_ptr, size_t, int, unsigned long long))

struct cuda_calls {
#define X(member, symbol, parameters) cu_result(*member) parameters;
    CUDA_FUNCTIONS(X) CUDA_OPTIONAL(X)
#undef X
};

#endif
