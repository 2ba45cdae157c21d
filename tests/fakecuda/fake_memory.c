/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: each allocation a file in memory, so that other processes can map it. */
#define _GNU_SOURCE 1
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRAIN (2ul << 20)
#define RANGES 4096u

enum range { FREE, PLAIN, HOST, RESERVED, MAPPED, OPENED, DEAD };
static const char *const range_names[] = {"free",   "device memory", "pinned memory", "reserved",
                                          "mapped", "opened",        "freed memory"};

static struct {
    enum range kind;
    cu_ptr at;
    size_t bytes;
    int fd;
    int access; /* mapped: somebody may touch it */
} ranges[RANGES];

struct handle { /* of cuMemCreate */
    uint32_t magic;
    int fd;
    size_t bytes;
};
#define HANDLE_MAGIC 0x68616e64u

/* ---- ranges */

static size_t whole(size_t bytes)
{
    return (bytes + 4095) & ~(size_t)4095;
}

static void take_away(cu_ptr at, size_t bytes)
{
    (void)mmap((void *)(uintptr_t)at, whole(bytes), PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static unsigned find(cu_ptr at, unsigned kinds)
{
    for (unsigned i = 0; i < RANGES; i++)
        if (ranges[i].at == at && 1u << ranges[i].kind & kinds && ranges[i].kind != FREE)
            return i;
    return RANGES;
}

/* Freed addresses stay taken, so that whoever touches them is found out; some of them. */
static unsigned free_slot(void)
{
    for (unsigned i = 0; i < RANGES; i++)
        if (ranges[i].kind == FREE)
            return i;
    for (unsigned i = 0; i < RANGES; i++)
        if (ranges[i].kind == DEAD) {
            (void)munmap((void *)(uintptr_t)ranges[i].at, whole(ranges[i].bytes));
            return i;
        }
    fake_misuse("%u allocations", RANGES);
}

static void add(enum range kind, cu_ptr at, size_t bytes, int fd)
{
    unsigned i = free_slot();
    ranges[i].kind = kind;
    ranges[i].at = at;
    ranges[i].bytes = bytes;
    ranges[i].fd = fd;
    ranges[i].access = kind != MAPPED;
}

void fake_check_range(const char *what, cu_ptr at, size_t bytes)
{
    (void)pthread_mutex_lock(&fake_lock);
    for (unsigned i = 0; i < RANGES; i++) {
        if (ranges[i].kind == FREE || at + bytes <= ranges[i].at ||
            ranges[i].at + ranges[i].bytes <= at)
            continue;
        int inside = at >= ranges[i].at && at + bytes <= ranges[i].at + ranges[i].bytes;
        if (ranges[i].kind == RESERVED)
            continue; /* what is mapped there is a range of its own */
        if (ranges[i].kind == DEAD || !inside || !ranges[i].access)
            fake_misuse("%s of %zu bytes at %#llx: beyond, or not, %s of %zu bytes at %#llx", what,
                        bytes, at, range_names[ranges[i].kind], ranges[i].bytes, ranges[i].at);
    }
    (void)pthread_mutex_unlock(&fake_lock);
}

/* ---- files */

static int new_file(size_t bytes)
{
    int fd = memfd_create("fakecuda", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static cu_ptr map_file(int fd, size_t bytes, cu_ptr at)
{
    void *where = mmap((void *)(uintptr_t)at, bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
    return where == MAP_FAILED ? 0 : (cu_ptr)(uintptr_t)where;
}

static cu_result allocate(enum range kind, cu_ptr *at, size_t bytes)
{
    if (bytes == 0)
        return CU_INVALID_VALUE;
    int fd = new_file(whole(bytes));
    if (fd < 0 || !(*at = map_file(fd, whole(bytes), 0)))
        return CU_OUT_OF_MEMORY;
    (void)pthread_mutex_lock(&fake_lock);
    add(kind, *at, bytes, fd);
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

static void release(const char *function, cu_ptr at, enum range kind)
{
    (void)pthread_mutex_lock(&fake_lock);
    unsigned i = find(at, 1u << kind);
    if (i == RANGES)
        fake_misuse("%s of %#llx, which is no %s", function, at, range_names[kind]);
    take_away(at, ranges[i].bytes);
    if (ranges[i].fd >= 0)
        (void)close(ranges[i].fd);
    ranges[i].kind = DEAD;
    (void)pthread_mutex_unlock(&fake_lock);
}

/* Word by word, as memory operations of other streams may do at the same time. */
static void set_words(cu_ptr at, unsigned char value, size_t bytes)
{
    uint32_t *word = (uint32_t *)(uintptr_t)at;
    for (size_t i = 0; i < bytes / 4; i++)
        __atomic_store_n(&word[i], value * 0x01010101u, __ATOMIC_RELAXED);
}

void fake_set(cu_ptr at, unsigned char value, size_t bytes)
{
    cu_ptr first = (at + 4095) & ~4095ull, last = (at + bytes) & ~4095ull;
    void *pages = (void *)(uintptr_t)first;
    if (value == 0 && last > first + (1u << 20) &&
        madvise(pages, (size_t)(last - first), MADV_REMOVE) == 0) {
        memset((void *)(uintptr_t)at, 0, (size_t)(first - at));
        memset((void *)(uintptr_t)last, 0, (size_t)(at + bytes - last));
    } else if ((at | bytes) % 4 == 0) {
        set_words(at, value, bytes);
    } else {
        memset((void *)(uintptr_t)at, value, bytes);
    }
}

/* ---- plain */

cu_result cuMemAlloc_v2(cu_ptr *at, size_t bytes)
{
    (void)fake_current("cuMemAlloc");
    fake_not_captured("cuMemAlloc");
    return allocate(PLAIN, at, bytes);
}

cu_result cuMemFree_v2(cu_ptr at)
{
    (void)fake_current("cuMemFree");
    fake_not_captured("cuMemFree");
    release("cuMemFree", at, PLAIN);
    return CU_SUCCESS;
}

cu_result cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    cu_ptr where = 0;
    (void)flags;
    (void)fake_current("cuMemHostAlloc");
    fake_not_captured("cuMemHostAlloc");
    cu_result result = allocate(HOST, &where, bytes);
    *at = (void *)(uintptr_t)where;
    return result;
}

cu_result cuMemFreeHost(void *at)
{
    (void)fake_current("cuMemFreeHost");
    fake_not_captured("cuMemFreeHost");
    release("cuMemFreeHost", (cu_ptr)(uintptr_t)at, HOST);
    return CU_SUCCESS;
}

cu_result cuMemHostGetDevicePointer_v2(cu_ptr *to, void *at, unsigned flags)
{
    (void)flags;
    *to = (cu_ptr)(uintptr_t)at;
    return CU_SUCCESS;
}

/* ---- other processes: by the owner's descriptors */

struct ipc {
    uint32_t magic;
    int pid;
    int fd;
    size_t bytes;
};
#define IPC_MAGIC 0x69706366u

cu_result cuIpcGetMemHandle(struct cu_ipc_handle *handle, cu_ptr at)
{
    (void)fake_current("cuIpcGetMemHandle");
    (void)pthread_mutex_lock(&fake_lock);
    unsigned i = find(at, 1u << PLAIN);
    if (i == RANGES)
        fake_misuse("cuIpcGetMemHandle of what cuMemAlloc did not give");
    struct ipc ipc = {IPC_MAGIC, (int)getpid(), ranges[i].fd, ranges[i].bytes};
    (void)pthread_mutex_unlock(&fake_lock);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &ipc, sizeof ipc);
    return CU_SUCCESS;
}

cu_result cuIpcOpenMemHandle_v2(cu_ptr *at, struct cu_ipc_handle handle, unsigned flags)
{
    struct ipc ipc;
    char path[64];
    (void)fake_current("cuIpcOpenMemHandle");
    memcpy(&ipc, &handle, sizeof ipc);
    if (ipc.magic != IPC_MAGIC || flags != CU_IPC_LAZY_PEER || ipc.pid == (int)getpid())
        fake_misuse("cuIpcOpenMemHandle of no handle, or one of this process");
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", ipc.pid, ipc.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    *at = fd < 0 ? 0 : map_file(fd, whole(ipc.bytes), 0);
    if (!*at)
        return CU_INVALID_HANDLE;
    (void)pthread_mutex_lock(&fake_lock);
    add(OPENED, *at, ipc.bytes, fd);
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result cuIpcCloseMemHandle(cu_ptr at)
{
    (void)fake_current("cuIpcCloseMemHandle");
    release("cuIpcCloseMemHandle", at, OPENED);
    return CU_SUCCESS;
}

/* ---- virtual memory management */

cu_result cuMemGetAllocationGranularity(size_t *bytes, const struct cu_mem_prop *prop, int option)
{
    (void)prop;
    (void)option;
    *bytes = GRAIN;
    return CU_SUCCESS;
}

static cu_result new_handle(cu_ptr *to, int fd, size_t bytes)
{
    struct handle *handle = malloc(sizeof *handle);
    if (!handle || fd < 0)
        return CU_OUT_OF_MEMORY;
    *handle = (struct handle){HANDLE_MAGIC, fd, bytes};
    *to = (cu_ptr)(uintptr_t)handle;
    return CU_SUCCESS;
}

static struct handle *handle_of(const char *function, cu_ptr at)
{
    struct handle *handle = (struct handle *)(uintptr_t)at;
    if (!handle || handle->magic != HANDLE_MAGIC)
        fake_misuse("%s of no handle", function);
    return handle;
}

cu_result cuMemCreate(cu_ptr *to, size_t bytes, const struct cu_mem_prop *prop,
                      unsigned long long flags)
{
    if (bytes % GRAIN || flags || prop->type != CU_MEM_PINNED ||
        prop->location.type != CU_LOCATION_DEVICE)
        fake_misuse("cuMemCreate of %zu bytes: not of the granularity, or not on a device", bytes);
    fake_not_captured("cuMemCreate");
    return new_handle(to, new_file(bytes), bytes);
}

cu_result cuMemRelease(cu_ptr at)
{
    struct handle *handle = handle_of("cuMemRelease", at);
    (void)close(handle->fd);
    handle->magic = 0;
    free(handle);
    return CU_SUCCESS;
}

cu_result cuMemAddressReserve(cu_ptr *at, size_t bytes, size_t alignment, cu_ptr hint,
                              unsigned long long flags)
{
    (void)alignment;
    (void)hint;
    (void)flags;
    if (bytes % GRAIN)
        fake_misuse("cuMemAddressReserve of %zu bytes", bytes);
    void *where = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (where == MAP_FAILED)
        return CU_OUT_OF_MEMORY;
    *at = (cu_ptr)(uintptr_t)where;
    (void)pthread_mutex_lock(&fake_lock);
    add(RESERVED, *at, bytes, -1);
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result cuMemAddressFree(cu_ptr at, size_t bytes)
{
    (void)pthread_mutex_lock(&fake_lock);
    if (find(at, 1u << MAPPED) != RANGES)
        fake_misuse("cuMemAddressFree of what is mapped");
    (void)pthread_mutex_unlock(&fake_lock);
    (void)bytes;
    release("cuMemAddressFree", at, RESERVED);
    return CU_SUCCESS;
}

cu_result cuMemMap(cu_ptr at, size_t bytes, size_t offset, cu_ptr from, unsigned long long flags)
{
    struct handle *handle = handle_of("cuMemMap", from);
    (void)pthread_mutex_lock(&fake_lock);
    unsigned i = find(at, 1u << RESERVED);
    if (i == RANGES || bytes > ranges[i].bytes || bytes > handle->bytes || offset || flags)
        fake_misuse("cuMemMap where nothing is reserved, or of more than there is");
    int there = map_file(handle->fd, bytes, at) != 0;
    if (there)
        add(MAPPED, at, bytes, fcntl(handle->fd, F_DUPFD_CLOEXEC, 0));
    (void)pthread_mutex_unlock(&fake_lock);
    return there ? CU_SUCCESS : CU_OUT_OF_MEMORY;
}

cu_result cuMemUnmap(cu_ptr at, size_t bytes)
{
    (void)pthread_mutex_lock(&fake_lock);
    unsigned i = find(at, 1u << MAPPED);
    if (i == RANGES || ranges[i].bytes != bytes)
        fake_misuse("cuMemUnmap of what is not mapped");
    ranges[i].kind = FREE;
    (void)close(ranges[i].fd);
    take_away(at, bytes);
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result cuMemSetAccess(cu_ptr at, size_t bytes, const struct cu_access *access, size_t count)
{
    (void)pthread_mutex_lock(&fake_lock);
    unsigned i = find(at, 1u << MAPPED);
    if (i == RANGES || ranges[i].bytes != bytes || count != 1 ||
        access->flags != CU_ACCESS_READ_WRITE)
        fake_misuse("cuMemSetAccess of what is not mapped");
    ranges[i].access = 1;
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result cuMemExportToShareableHandle(void *to, cu_ptr from, int type, unsigned long long flags)
{
    struct handle *handle = handle_of("cuMemExportToShareableHandle", from);
    if (type != CU_HANDLE_FD || flags)
        return CU_NOT_SUPPORTED;
    int fd = fcntl(handle->fd, F_DUPFD_CLOEXEC, 0);
    memcpy(to, &fd, sizeof fd);
    return fd < 0 ? CU_OUT_OF_MEMORY : CU_SUCCESS;
}

cu_result cuMemImportFromShareableHandle(cu_ptr *to, void *from, int type)
{
    struct stat about;
    int fd = (int)(intptr_t)from;
    if (type != CU_HANDLE_FD)
        return CU_NOT_SUPPORTED;
    if (fstat(fd, &about) != 0)
        return CU_INVALID_HANDLE;
    return new_handle(to, fcntl(fd, F_DUPFD_CLOEXEC, 0), (size_t)about.st_size);
}

/* For NICs: a descriptor of the memory, which is no real dma-buf. */
cu_result cuMemGetHandleForAddressRange(void *to, cu_ptr at, size_t bytes, int type,
                                        unsigned long long flags)
{
    if (type != CU_RANGE_DMA_BUF || flags || at % 4096 || bytes % 4096)
        return CU_INVALID_VALUE;
    (void)pthread_mutex_lock(&fake_lock);
    unsigned i = find(at, 1u << MAPPED | 1u << PLAIN);
    int fd = i < RANGES && bytes <= ranges[i].bytes && fake_setting("FAKECUDA_DMA_BUF", 1)
                 ? fcntl(ranges[i].fd, F_DUPFD_CLOEXEC, 0)
                 : -1;
    (void)pthread_mutex_unlock(&fake_lock);
    memcpy(to, &fd, sizeof fd);
    return fd < 0 ? CU_NOT_SUPPORTED : CU_SUCCESS;
}
