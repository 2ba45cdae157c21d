/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the driver, and what it says of its devices. */
#include "cuda_driver.h"

#include <ctype.h>
#include <dlfcn.h>
#include <string.h>

/* A function that only the stand-in of tests has. */
#define STAND_IN "peal_stand_in_driver"

/* ---- errors */

/* What the members of struct cuda_calls are called in the driver. */
static const char *symbol_of(const char *member)
{
    static const struct {
        const char *member;
        const char *symbol;
    } table[] = {
#define X(member, symbol, parameters) {#member, #symbol},
        CUDA_FUNCTIONS(X) CUDA_OPTIONAL(X)
#undef X
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].member, member) == 0)
            return table[i].symbol;
    return member;
}

static peal_status status_of(cu_result result)
{
    switch (result) {
    case CU_OUT_OF_MEMORY:
        return PEAL_ERR_MEMORY;
    case CU_NOT_SUPPORTED:
        return PEAL_ERR_UNSUPPORTED;
    default:
        return PEAL_ERR_IO;
    }
}

peal_status cuda_check(const struct peal_cuda *cuda, cu_result result, const char *what,
                       peal_diag *diag)
{
    const char *name = NULL;
    if (result == CU_SUCCESS)
        return PEAL_OK;
    if (cuda->call.error_name(result, &name) != CU_SUCCESS || !name)
        name = "an unknown error";
    return peal_fail(diag, status_of(result), "the CUDA driver's %s: %s (%d)", symbol_of(what),
                     name, result);
}

/* ---- opening */

/* POSIX lets a pointer to a function come out of a pointer to an object; C does not say so. */
static int find(void *library, const char *symbol, void *to, size_t bytes)
{
    void *at = dlsym(library, symbol);
    memcpy(to, &at, bytes);
    return at != NULL;
}

static peal_status find_all(struct peal_cuda *cuda, peal_diag *diag)
{
#define X(member, symbol, parameters)                                                              \
    if (!find(cuda->library, #symbol, &cuda->call.member, sizeof cuda->call.member))               \
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "the CUDA driver has no %s: it is too old",   \
                         #symbol);
    CUDA_FUNCTIONS(X)
#undef X
#define X(member, symbol, parameters)                                                              \
    (void)find(cuda->library, #symbol, &cuda->call.member, sizeof cuda->call.member);
    CUDA_OPTIONAL(X)
#undef X
    cuda->stand_in = dlsym(cuda->library, STAND_IN) != NULL;
    return PEAL_OK;
}

static peal_status start(struct peal_cuda *cuda, peal_diag *diag)
{
    int count = 0, version = 0;
    cu_result result = cuda->call.init(0);
    if (result == CU_NO_DEVICE)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "the CUDA driver finds no GPU");
    PEAL_TRY(cuda_check(cuda, result, "init", diag));
    CUDA_TRY(cuda, diag, driver_version, &version);
    CUDA_TRY(cuda, diag, device_count, &count);
    if (count < 1)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "the CUDA driver finds no GPU");
    cuda->devices = (uint32_t)count;
    cuda->version = (uint32_t)version;
    return PEAL_OK;
}

static peal_status load(struct peal_cuda *cuda, const char *library, peal_diag *diag)
{
    const char *name = library ? library : "libcuda.so.1";
    /* Drivers leave threads behind: their code stays. */
    cuda->library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!cuda->library) {
        const char *why = dlerror();
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "no CUDA driver on this machine: %s",
                         why ? why : name);
    }
    PEAL_TRY(find_all(cuda, diag));
    return start(cuda, diag);
}

peal_status peal_cuda_open(peal_ctx *ctx, const char *library, peal_diag *diag,
                           peal_cuda **cuda_out)
{
    if (!ctx || !cuda_out)
        return peal_fail(diag, PEAL_ERR_ARG, "no context, or no place for the driver");
    struct peal_cuda *cuda = peal_calloc(ctx, 1, sizeof *cuda);
    if (!cuda)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    cuda->ctx = ctx;
    (void)pthread_mutex_init(&cuda->lock, NULL); /* which cannot fail without attributes */
    peal_status status = load(cuda, library, diag);
    if (status != PEAL_OK) {
        peal_cuda_close(cuda);
        return status;
    }
    *cuda_out = cuda;
    return PEAL_OK;
}

void peal_cuda_close(peal_cuda *cuda)
{
    if (!cuda)
        return;
    if (cuda->library)
        (void)dlclose(cuda->library);
    (void)pthread_mutex_destroy(&cuda->lock);
    peal_free(cuda->ctx, cuda, sizeof *cuda);
}

/* ---- devices */

int cuda_attribute(const struct peal_cuda *cuda, uint32_t device, int attribute)
{
    int value = 0;
    return cuda->call.device_attribute(&value, attribute, (cu_device)device) == CU_SUCCESS ? value
                                                                                           : 0;
}

static int has_vmm(const struct peal_cuda *cuda, uint32_t device)
{
    const struct cuda_calls *call = &cuda->call;
    int all = call->granularity && call->reserve && call->unreserve && call->create &&
              call->release && call->map && call->unmap && call->set_access &&
              call->export_handle && call->import_handle;
    return all && cuda_attribute(cuda, device, CU_ATTR_VMM) &&
           cuda_attribute(cuda, device, CU_ATTR_FD);
}

/* As the kernel's sysfs spells it: the driver writes capitals. */
static void lower(char *text)
{
    for (; *text; text++)
        *text = (char)tolower((unsigned char)*text);
}

static int has_multicast(const struct peal_cuda *cuda, uint32_t device)
{
    const struct cuda_calls *call = &cuda->call;
    return call->multicast_create && call->multicast_add && call->multicast_bind &&
           call->multicast_unbind && call->multicast_granularity &&
           cuda_attribute(cuda, device, CU_ATTR_MULTICAST);
}

static void describe(const struct peal_cuda *cuda, uint32_t device, peal_cuda_device_info *info)
{
    int major = cuda_attribute(cuda, device, CU_ATTR_MAJOR);
    int minor = cuda_attribute(cuda, device, CU_ATTR_MINOR);
    info->devices = cuda->devices;
    info->driver = cuda->version;
    info->arch = (uint32_t)(10 * major + minor);
    info->sms = (uint32_t)cuda_attribute(cuda, device, CU_ATTR_SMS);
    info->vmm = has_vmm(cuda, device);
    info->fabric = info->vmm && cuda_attribute(cuda, device, CU_ATTR_FABRIC);
    info->multicast = info->vmm && has_multicast(cuda, device);
    info->dma_buf = cuda_attribute(cuda, device, CU_ATTR_DMA_BUF) != 0;
    info->mem_ops = cuda->call.mem_ops != NULL;
    info->stand_in = cuda->stand_in;
}

peal_status peal_cuda_device(const peal_cuda *cuda, uint32_t index, peal_diag *diag,
                             peal_cuda_device_info *info)
{
    peal_cuda_device_info full = {.size = sizeof full};
    if (!cuda || !info)
        return peal_fail(diag, PEAL_ERR_ARG, "no driver, or no place for what it says");
    if (index >= cuda->devices)
        return peal_fail(diag, PEAL_ERR_ARG, "device %u of %u", index, cuda->devices);
    CUDA_TRY(cuda, diag, device_name, full.name, (int)sizeof full.name, (cu_device)index);
    CUDA_TRY(cuda, diag, device_busid, full.busid, (int)sizeof full.busid, (cu_device)index);
    lower(full.busid);
    describe(cuda, index, &full);
    return peal_export(info, &full, sizeof full);
}

peal_status peal_cuda_peer(const peal_cuda *cuda, uint32_t from, uint32_t to, peal_diag *diag,
                           peal_cuda_peer_info *info)
{
    peal_cuda_peer_info full = {.size = sizeof full};
    if (!cuda || !info || from == to || from >= cuda->devices || to >= cuda->devices)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "no driver, no place for what it says, or no two of "
                         "its devices");
    CUDA_TRY(cuda, diag, can_access_peer, &full.access, (cu_device)from, (cu_device)to);
    CUDA_TRY(cuda, diag, peer_attribute, &full.atomics, CU_P2P_ATOMICS, (cu_device)from,
             (cu_device)to);
    return peal_export(info, &full, sizeof full);
}
