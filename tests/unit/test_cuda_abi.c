/* SPDX-License-Identifier: Apache-2.0 */
/* What peal declares of the CUDA driver against the toolkit's cuda.h: sizes, places, numbers, and
 * which version of a function is meant. Skipped where there is no cuda.h. */
#if !defined(PEAL_HAVE_CUDA_H)
#include <stdio.h>

int main(void)
{
    puts("no cuda.h here: skipped");
    return 77;
}
#else
#include "cuda_abi.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>

_Static_assert(CU_SUCCESS == CUDA_SUCCESS && CU_INVALID_VALUE == CUDA_ERROR_INVALID_VALUE, "");
_Static_assert(CU_OUT_OF_MEMORY == CUDA_ERROR_OUT_OF_MEMORY, "");
_Static_assert(CU_NO_DEVICE == CUDA_ERROR_NO_DEVICE, "");
_Static_assert(CU_PEER_ACCESS_ALREADY_ENABLED == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "");
_Static_assert(CU_INVALID_IMAGE == CUDA_ERROR_INVALID_IMAGE, "");
_Static_assert(CU_NO_BINARY == CUDA_ERROR_NO_BINARY_FOR_GPU, "");
_Static_assert(CU_NOT_READY == CUDA_ERROR_NOT_READY && CU_NOT_FOUND == CUDA_ERROR_NOT_FOUND, "");
_Static_assert(CU_PEER_ACCESS_UNSUPPORTED == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "");
_Static_assert(CU_NOT_PERMITTED == CUDA_ERROR_NOT_PERMITTED, "");
_Static_assert(CU_P2P_ACCESS == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, "");
_Static_assert(CU_P2P_ATOMICS == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, "");
_Static_assert(CU_MULTICAST_MINIMUM == CU_MULTICAST_GRANULARITY_MINIMUM, "");
_Static_assert(CU_SOURCE_IN_STREAM_ORDER == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, "");
_Static_assert(CU_NOT_SUPPORTED == CUDA_ERROR_NOT_SUPPORTED, "");
_Static_assert(CU_INVALID_HANDLE == CUDA_ERROR_INVALID_HANDLE, "");
_Static_assert(CU_INVALID_CONTEXT == CUDA_ERROR_INVALID_CONTEXT, "");
_Static_assert(CU_ATTR_SMS == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "");
_Static_assert(CU_ATTR_MAJOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "");
_Static_assert(CU_ATTR_MINOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "");
_Static_assert(CU_ATTR_VMM == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "");
_Static_assert(CU_ATTR_FD == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, "");
_Static_assert(CU_ATTR_RDMA_VMM == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, "");
_Static_assert(CU_ATTR_MEM_OPS_64 == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, "");
_Static_assert(CU_ATTR_DMA_BUF == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, "");
_Static_assert(CU_ATTR_FABRIC == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, "");
_Static_assert(CU_ATTR_MULTICAST == CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, "");
_Static_assert(CU_ATTR_FLUSH == CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, "");
_Static_assert(CU_ATTR_RDMA_ORDER == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, "");
_Static_assert(CU_RDMA_ORDER_OWNER == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER, "");
_Static_assert(CU_STREAM_NONBLOCKING == CU_STREAM_NON_BLOCKING, "");
_Static_assert(CU_EVENT_NO_TIMING == CU_EVENT_DISABLE_TIMING, "");
_Static_assert(CU_HOST_PORTABLE == CU_MEMHOSTALLOC_PORTABLE, "");
_Static_assert(CU_HOST_MAPPED == CU_MEMHOSTALLOC_DEVICEMAP, "");
_Static_assert(CU_REGISTER_PORTABLE == CU_MEMHOSTREGISTER_PORTABLE, "");
_Static_assert(CU_REGISTER_MAPPED == CU_MEMHOSTREGISTER_DEVICEMAP, "");
_Static_assert(CU_REGISTER_IO == CU_MEMHOSTREGISTER_IOMEMORY, "");
_Static_assert(CU_ALREADY_REGISTERED == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "");
_Static_assert(CU_IPC_LAZY_PEER == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, "");
_Static_assert(CU_WAIT_GEQ == CU_STREAM_WAIT_VALUE_GEQ, "");
_Static_assert(CU_WAIT_EQ == CU_STREAM_WAIT_VALUE_EQ, "");
_Static_assert(CU_WAIT_FLUSH == CU_STREAM_WAIT_VALUE_FLUSH, "");
_Static_assert(CU_CAPTURE_NONE == CU_STREAM_CAPTURE_STATUS_NONE, "");
_Static_assert(CU_CAPTURE_RELAXED == CU_STREAM_CAPTURE_MODE_RELAXED, "");
_Static_assert(CU_FUNC_DYNAMIC_SHARED == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, "");
_Static_assert(CU_MEM_PINNED == CU_MEM_ALLOCATION_TYPE_PINNED, "");
_Static_assert(CU_LOCATION_DEVICE == CU_MEM_LOCATION_TYPE_DEVICE, "");
_Static_assert(CU_HANDLE_FD == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, "");
_Static_assert(CU_HANDLE_FABRIC == CU_MEM_HANDLE_TYPE_FABRIC, "");
_Static_assert(CU_GRANULARITY_RECOMMENDED == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, "");
_Static_assert(CU_ACCESS_READ_WRITE == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "");
_Static_assert(CU_OP_WAIT_32 == CU_STREAM_MEM_OP_WAIT_VALUE_32, "");
_Static_assert(CU_OP_WRITE_32 == CU_STREAM_MEM_OP_WRITE_VALUE_32, "");
_Static_assert(CU_OP_WRITE_64 == CU_STREAM_MEM_OP_WRITE_VALUE_64, "");

#define SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(theirs), #ours)
#define PLACE(ours, member, theirs, their_member)                                                  \
    _Static_assert(offsetof(struct ours, member) == offsetof(theirs, their_member), #member)
_Static_assert(sizeof(cu_ptr) == sizeof(CUdeviceptr), "");
_Static_assert(sizeof(cu_ptr) == sizeof(CUmemGenericAllocationHandle), "");
SIZE(cu_location, CUmemLocation);
SIZE(cu_mem_prop, CUmemAllocationProp);
PLACE(cu_mem_prop, handle_types, CUmemAllocationProp, requestedHandleTypes);
PLACE(cu_mem_prop, location, CUmemAllocationProp, location);
PLACE(cu_mem_prop, win32, CUmemAllocationProp, win32HandleMetaData);
PLACE(cu_mem_prop, gpu_direct_rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
PLACE(cu_mem_prop, usage, CUmemAllocationProp, allocFlags.usage);
SIZE(cu_access, CUmemAccessDesc);
PLACE(cu_access, flags, CUmemAccessDesc, flags);
SIZE(cu_ipc_handle, CUipcMemHandle);
SIZE(cu_fabric_handle, CUmemFabricHandle);
SIZE(cu_multicast_prop, CUmulticastObjectProp);
PLACE(cu_multicast_prop, bytes, CUmulticastObjectProp, size);
PLACE(cu_multicast_prop, handle_types, CUmulticastObjectProp, handleTypes);
PLACE(cu_multicast_prop, flags, CUmulticastObjectProp, flags);
SIZE(cu_copy_attributes, CUmemcpyAttributes);
PLACE(cu_copy_attributes, from, CUmemcpyAttributes, srcLocHint);
PLACE(cu_copy_attributes, to, CUmemcpyAttributes, dstLocHint);
PLACE(cu_copy_attributes, flags, CUmemcpyAttributes, flags);
SIZE(cu_uuid, CUuuid);
SIZE(cu_mem_op, CUstreamBatchMemOpParams);
PLACE(cu_mem_op, address, CUstreamBatchMemOpParams, writeValue.address);
PLACE(cu_mem_op, value, CUstreamBatchMemOpParams, waitValue.value64);
PLACE(cu_mem_op, flags, CUstreamBatchMemOpParams, waitValue.flags);

/* Which version of a function cuda.h means by its plain name. */
#define TEXT(name) #name
#define NAME(name) TEXT(name)

static const char *const ours[] = {
#define X(member, symbol, parameters) TEXT(symbol),
    CUDA_FUNCTIONS(X) CUDA_OPTIONAL(X)
#undef X
};

static const char *const theirs[] = {
    NAME(cuDeviceGetUuid),    NAME(cuCtxPushCurrent),   NAME(cuCtxPopCurrent),
    NAME(cuMemAlloc),         NAME(cuMemFree),          NAME(cuIpcOpenMemHandle),
    NAME(cuStreamDestroy),    NAME(cuEventDestroy),     NAME(cuMemHostGetDevicePointer),
    NAME(cuStreamBatchMemOp), NAME(cuMemcpyAsync),      NAME(cuDevicePrimaryCtxRelease),
    NAME(cuLaunchKernel),     NAME(cuIpcGetMemHandle),  NAME(cuMemsetD8Async),
    NAME(cuModuleLoadData),   NAME(cuStreamWaitEvent),  NAME(cuMulticastCreate),
    NAME(cuMulticastBindMem), NAME(cuMemcpyBatchAsync), NAME(cuMemHostRegister)};

int main(void)
{
    int wrong = 0;
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
        size_t j = 0;
        while (j < sizeof ours / sizeof *ours && strcmp(ours[j], theirs[i]) != 0)
            j++;
        if (j == sizeof ours / sizeof *ours) {
            printf("cuda.h means %s\n", theirs[i]);
            wrong = 1;
        }
    }
    return wrong;
}
#endif
