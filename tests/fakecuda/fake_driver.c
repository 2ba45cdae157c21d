/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, contexts and what a misuse comes to. */
#include "fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 16u /* contexts that a thread has pushed */

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_moved = PTHREAD_COND_INITIALIZER;

static struct fake_context contexts[FAKE_DEVICES];
static _Thread_local struct fake_context *stack[DEPTH];
static _Thread_local unsigned depth;
static _Thread_local int capture_mode; /* global, thread-local, relaxed */

void fake_misuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(stderr, "fakecuda: ");
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    abort();
}

uint64_t fake_setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

int peal_stand_in_driver(void)
{
    return 1;
}

static unsigned devices(void)
{
    unsigned count = (unsigned)fake_setting("FAKECUDA_DEVICES", 8);
    return count < FAKE_DEVICES ? count : FAKE_DEVICES;
}

cu_result cuInit(unsigned flags)
{
    FAKE_CALL();
    if (flags)
        return CU_INVALID_VALUE;
    return devices() ? CU_SUCCESS : CU_NO_DEVICE;
}

cu_result cuDriverGetVersion(int *version)
{
    FAKE_CALL();
    *version = 12080;
    return CU_SUCCESS;
}

cu_result cuGetErrorName(cu_result error, const char **name)
{
    *name = error == CU_OUT_OF_MEMORY    ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == CU_INVALID_VALUE  ? "CUDA_ERROR_INVALID_VALUE"
            : error == CU_NOT_SUPPORTED  ? "CUDA_ERROR_NOT_SUPPORTED"
            : error == CU_NOT_PERMITTED  ? "CUDA_ERROR_NOT_PERMITTED"
            : error == CU_NOT_FOUND      ? "CUDA_ERROR_NOT_FOUND"
            : error == CU_INVALID_HANDLE ? "CUDA_ERROR_INVALID_HANDLE"
                                         : "CUDA_ERROR_UNKNOWN";
    return CU_SUCCESS;
}

/* ---- devices */

cu_result cuDeviceGetCount(int *count)
{
    FAKE_CALL();
    *count = (int)devices();
    return CU_SUCCESS;
}

cu_result cuDeviceGetName(char *name, int bytes, cu_device device)
{
    FAKE_CALL();
    (void)snprintf(name, (size_t)bytes, "stand-in %d (no GPU: host memory and threads)", device);
    return CU_SUCCESS;
}

cu_result cuDeviceGetPCIBusId(char *text, int bytes, cu_device device)
{
    FAKE_CALL();
    (void)snprintf(text, (size_t)bytes, "0000:%02X:00.0", 0x10 + device);
    return CU_SUCCESS;
}

cu_result cuDeviceGetUuid_v2(struct cu_uuid *uuid, cu_device device)
{
    FAKE_CALL();
    memset(uuid, 0, sizeof *uuid);
    (void)snprintf(uuid->bytes, sizeof uuid->bytes, "fake%d", device);
    return CU_SUCCESS;
}

cu_result cuDeviceGetAttribute(int *value, int attribute, cu_device device)
{
    FAKE_CALL();
    int arch = (int)fake_setting("FAKECUDA_ARCH", 90);
    int vmm = (int)fake_setting("FAKECUDA_VMM", 1);
    (void)device;
    *value = attribute == CU_ATTR_SMS          ? (int)fake_setting("FAKECUDA_SMS", 132)
             : attribute == CU_ATTR_MAJOR      ? arch / 10
             : attribute == CU_ATTR_MINOR      ? arch % 10
             : attribute == CU_ATTR_MEM_OPS_64 ? 1
             : attribute == CU_ATTR_VMM        ? vmm
             : attribute == CU_ATTR_FD         ? vmm
             : attribute == CU_ATTR_FLUSH      ? fake_setting("FAKECUDA_FLUSH", 0) != 0
             : attribute == CU_ATTR_RDMA_ORDER ? (int)fake_setting("FAKECUDA_RDMA_ORDER", 100)
             : attribute == CU_ATTR_DMA_BUF    ? (int)fake_setting("FAKECUDA_DMA_BUF", 1)
             : attribute == CU_ATTR_FABRIC     ? fake_setting("FAKECUDA_FABRIC", 0) != 0
             : attribute == CU_ATTR_MULTICAST  ? fake_setting("FAKECUDA_MULTICAST", 0) != 0
                                               : 0;
    return CU_SUCCESS;
}

cu_result cuDeviceCanAccessPeer(int *can, cu_device from, cu_device to)
{
    FAKE_CALL();
    if (from == to)
        return CU_INVALID_VALUE;
    *can = (int)fake_setting("FAKECUDA_PEER", 1);
    return CU_SUCCESS;
}

/* Like NVLink: atomics, too. */
cu_result cuDeviceGetP2PAttribute(int *value, int attribute, cu_device from, cu_device to)
{
    FAKE_CALL();
    if (from == to || (attribute != CU_P2P_ACCESS && attribute != CU_P2P_ATOMICS))
        return CU_INVALID_VALUE;
    *value = (int)fake_setting("FAKECUDA_PEER", 1);
    return CU_SUCCESS;
}

/* ---- contexts */

cu_result cuDevicePrimaryCtxRetain(cu_handle *context, cu_device device)
{
    FAKE_CALL();
    if (device < 0 || (unsigned)device >= devices())
        return CU_INVALID_VALUE;
    (void)pthread_mutex_lock(&fake_lock);
    struct fake_context *own = &contexts[device];
    if (__atomic_load_n(&own->users, __ATOMIC_RELAXED) == 0)
        own->device = device;
    (void)__atomic_fetch_add(&own->users, 1, __ATOMIC_RELEASE);
    fake_hold(FAKE_CONTEXTS, 1);
    *context = own;
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result cuDevicePrimaryCtxRelease_v2(cu_device device)
{
    (void)pthread_mutex_lock(&fake_lock);
    if (__atomic_fetch_sub(&contexts[device].users, 1, __ATOMIC_RELEASE) == 0)
        fake_misuse("context of device %d released more often than retained", device);
    fake_hold(FAKE_CONTEXTS, -1);
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result cuCtxPushCurrent_v2(cu_handle context)
{
    FAKE_CALL();
    if (depth == DEPTH)
        fake_misuse("contexts are pushed and not popped");
    stack[depth++] = context;
    return CU_SUCCESS;
}

cu_result cuCtxPopCurrent_v2(cu_handle *context)
{
    if (depth == 0)
        return CU_INVALID_CONTEXT;
    *context = stack[--depth];
    return CU_SUCCESS;
}

cu_result cuCtxEnablePeerAccess(cu_handle context, unsigned flags)
{
    FAKE_CALL();
    struct fake_context *own = fake_current("cuCtxEnablePeerAccess");
    fake_not_captured("cuCtxEnablePeerAccess");
    if (context == own || flags)
        fake_misuse("peer access of device %d to itself", own->device);
    if (!fake_setting("FAKECUDA_PEER", 1))
        return CU_PEER_ACCESS_UNSUPPORTED;
    uint32_t bit = 1u << ((struct fake_context *)context)->device;
    return __atomic_fetch_or(&own->peers, bit, __ATOMIC_RELAXED) & bit
               ? CU_PEER_ACCESS_ALREADY_ENABLED
               : CU_SUCCESS;
}

uint32_t peal_stand_in_peers(int device)
{
    return __atomic_load_n(&contexts[device].peers, __ATOMIC_RELAXED);
}

struct fake_context *fake_current(const char *function)
{
    if (depth == 0 || __atomic_load_n(&stack[depth - 1]->users, __ATOMIC_ACQUIRE) == 0)
        fake_misuse("%s without a context", function);
    return stack[depth - 1];
}

/* ---- capturing */

static unsigned captures; /* under way */

void fake_count_captures(int more)
{
    captures += (unsigned)more;
}

cu_result cuThreadExchangeStreamCaptureMode(int *mode)
{
    int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return CU_SUCCESS;
}

void fake_not_captured(const char *function)
{
    (void)pthread_mutex_lock(&fake_lock);
    if (captures && capture_mode != CU_CAPTURE_RELAXED)
        fake_misuse("%s while a stream is captured", function);
    (void)pthread_mutex_unlock(&fake_lock);
}
