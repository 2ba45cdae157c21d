/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: each allocation a file in memory, so that other processes can map it. */
#define _GNU_SOURCE 1
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RANGES 4096u
#define FILE_NAME "fakecuda:"

enum range { FREE, PLAIN, HOST, RESERVED, MAPPED, OPENED, MULTICAST, REGISTERED, DEAD };
static const char *const range_names[] = {"free",      "device memory", "pinned memory",
                                          "reserved",  "mapped",        "opened",
                                          "multicast", "registered",    "freed memory"};

static struct {
    enum range kind;
    cu_ptr at;
    size_t bytes;
    int fd;
    int device;
    uint32_t access;            /* mapped: devices that may touch it, a bit each */
    struct fake_object *object; /* multicast, */
    cu_ptr views[FAKE_DEVICES]; /* and its members' memory, as far as it was asked for */
} ranges[RANGES];

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

static unsigned add(enum range kind, cu_ptr at, size_t bytes, int fd, int device)
{
    unsigned i = free_slot();
    memset(&ranges[i], 0, sizeof ranges[i]);
    ranges[i].kind = kind;
    ranges[i].at = at;
    ranges[i].bytes = bytes;
    ranges[i].fd = fd;
    ranges[i].device = device;
    fake_hold(FAKE_MEMORY, 1);
    return i;
}

int fake_is_pinned(cu_ptr at)
{
    int pinned = 0;
    (void)pthread_mutex_lock(&fake_lock);
    for (unsigned i = 0; i < RANGES; i++)
        pinned = pinned || (ranges[i].kind == HOST && at - ranges[i].at < ranges[i].bytes);
    (void)pthread_mutex_unlock(&fake_lock);
    return pinned;
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
        if (ranges[i].kind == DEAD || ranges[i].kind == MULTICAST || !inside ||
            (ranges[i].kind == MAPPED && !ranges[i].access))
            fake_misuse("%s of %zu bytes at %#llx: beyond, or not, %s of %zu bytes at %#llx", what,
                        bytes, at, range_names[ranges[i].kind], ranges[i].bytes, ranges[i].at);
    }
    (void)pthread_mutex_unlock(&fake_lock);
}

void fake_check_copied(const char *what, cu_ptr at, const struct fake_context *context)
{
    (void)pthread_mutex_lock(&fake_lock);
    for (unsigned i = 0; i < RANGES; i++)
        if (at >= ranges[i].at && at < ranges[i].at + ranges[i].bytes && ranges[i].kind == MAPPED &&
            !(ranges[i].access & 1u << context->device))
            fake_misuse("%s by device %d: %#llx is mapped for others", what, context->device, at);
    (void)pthread_mutex_unlock(&fake_lock);
}

void fake_check_reach(const char *what, cu_ptr at, const struct fake_context *context)
{
    (void)pthread_mutex_lock(&fake_lock);
    uint32_t own = 1u << context->device;
    for (unsigned i = 0; i < RANGES; i++) {
        if (at < ranges[i].at || at >= ranges[i].at + ranges[i].bytes)
            continue;
        if ((ranges[i].kind == MAPPED && !(ranges[i].access & own)) ||
            (ranges[i].kind == PLAIN && ranges[i].device != context->device &&
             !(context->peers & 1u << ranges[i].device)))
            fake_misuse("%s on device %d: %#llx is of device %d, which it may not touch", what,
                        context->device, at, ranges[i].device);
    }
    (void)pthread_mutex_unlock(&fake_lock);
}

cu_ptr fake_member(cu_ptr at, uint32_t nth)
{
    cu_ptr member = 0;
    int known = 0;
    (void)pthread_mutex_lock(&fake_lock);
    for (unsigned i = 0; i < RANGES && !known; i++) {
        known = ranges[i].kind == MULTICAST && at >= ranges[i].at &&
                at + 16 <= ranges[i].at + ranges[i].bytes;
        if (known && !ranges[i].access)
            fake_misuse("a multicast address that nobody may touch");
        if (known)
            member = fake_object_member(ranges[i].object, ranges[i].views, at - ranges[i].at, nth);
    }
    if (!known)
        fake_misuse("%#llx is no multicast address", at);
    (void)pthread_mutex_unlock(&fake_lock);
    return member;
}

/* ---- files: their names say of which device they are */

static int new_file(size_t bytes, int device)
{
    char name[32];
    (void)snprintf(name, sizeof name, FILE_NAME "%d", device);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static int device_of_file(int fd)
{
    char path[64], name[128];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t got = readlink(path, name, sizeof name - 1);
    name[got > 0 ? got : 0] = '\0';
    const char *at = strstr(name, FILE_NAME);
    return at ? atoi(at + strlen(FILE_NAME)) : -1;
}

int fake_open_file(uint32_t pid, int fd)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%u/fd/%d", pid, fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

static cu_ptr map_file(int fd, size_t bytes, cu_ptr at)
{
    void *where = mmap((void *)(uintptr_t)at, bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
    return where == MAP_FAILED ? 0 : (cu_ptr)(uintptr_t)where;
}

static cu_result allocate(enum range kind, cu_ptr *at, size_t bytes, int device)
{
    if (bytes == 0)
        return CU_INVALID_VALUE;
    int fd = new_file(whole(bytes), device);
    if (fd < 0 || !(*at = map_file(fd, whole(bytes), 0)))
        return CU_OUT_OF_MEMORY;
    (void)pthread_mutex_lock(&fake_lock);
    (void)add(kind, *at, bytes, fd, device);
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
    fake_hold(FAKE_MEMORY, -1);
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
    FAKE_CALL();
    int device = fake_current("cuMemAlloc")->device;
    fake_not_captured("cuMemAlloc");
    return allocate(PLAIN, at, bytes, device);
}

cu_result cuMemFree_v2(cu_ptr at)
{
    (void)fake_current("cuMemFree");
    fake_not_captured("cuMemFree");
    (void)pthread_mutex_lock(&fake_lock);
    unsigned i = find(at, 1u << PLAIN);
    if (i != RANGES && flock(ranges[i].fd, LOCK_EX | LOCK_NB))
        fake_misuse("cuMemFree of %#llx, which another process has open", at);
    (void)pthread_mutex_unlock(&fake_lock);
    release("cuMemFree", at, PLAIN);
    return CU_SUCCESS;
}

cu_result cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    FAKE_CALL();
    cu_ptr where = 0;
    (void)flags;
    int device = fake_current("cuMemHostAlloc")->device;
    fake_not_captured("cuMemHostAlloc");
    cu_result result = allocate(HOST, &where, bytes, device);
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
    FAKE_CALL();
    (void)flags;
    *to = (cu_ptr)(uintptr_t)at;
    return CU_SUCCESS;
}

/* Memory that the driver did not give: by whole pages here, none of them twice. */
cu_result cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
    FAKE_CALL();
    cu_ptr where = (cu_ptr)(uintptr_t)at;
    cu_result result = CU_SUCCESS;
    int device = fake_current("cuMemHostRegister")->device;
    fake_not_captured("cuMemHostRegister");
    if (where % 4096 || bytes % 4096 || bytes == 0 || flags & ~7u)
        return CU_INVALID_VALUE;
    (void)pthread_mutex_lock(&fake_lock);
    for (unsigned i = 0; i < RANGES; i++)
        if (ranges[i].kind == REGISTERED && where < ranges[i].at + ranges[i].bytes &&
            ranges[i].at < where + bytes)
            result = CU_ALREADY_REGISTERED;
    if (result == CU_SUCCESS)
        (void)add(REGISTERED, where, bytes, -1, device);
    (void)pthread_mutex_unlock(&fake_lock);
    return result;
}

cu_result cuMemHostUnregister(void *at)
{
    (void)fake_current("cuMemHostUnregister");
    (void)pthread_mutex_lock(&fake_lock);
    unsigned i = find((cu_ptr)(uintptr_t)at, 1u << REGISTERED);
    if (i == RANGES)
        fake_misuse("cuMemHostUnregister of what is not registered");
    ranges[i].kind = FREE;
    fake_hold(FAKE_MEMORY, -1);
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

/* ---- other processes: by the owner's descriptors */

struct ipc {
    uint32_t magic;
    int pid;
    int fd;
    size_t bytes;
    int device;
};
#define IPC_MAGIC 0x69706366u

cu_result cuIpcGetMemHandle(struct cu_ipc_handle *handle, cu_ptr at)
{
    FAKE_CALL();
    (void)fake_current("cuIpcGetMemHandle");
    (void)pthread_mutex_lock(&fake_lock);
    unsigned i = find(at, 1u << PLAIN);
    if (i == RANGES)
        fake_misuse("cuIpcGetMemHandle of what cuMemAlloc did not give");
    struct ipc ipc = {IPC_MAGIC, (int)getpid(), ranges[i].fd, ranges[i].bytes, ranges[i].device};
    (void)pthread_mutex_unlock(&fake_lock);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &ipc, sizeof ipc);
    return CU_SUCCESS;
}

cu_result cuIpcOpenMemHandle_v2(cu_ptr *at, struct cu_ipc_handle handle, unsigned flags)
{
    FAKE_CALL();
    struct ipc ipc;
    const struct fake_context *context = fake_current("cuIpcOpenMemHandle");
    memcpy(&ipc, &handle, sizeof ipc);
    if (ipc.magic != IPC_MAGIC || flags != CU_IPC_LAZY_PEER || ipc.pid == (int)getpid())
        fake_misuse("cuIpcOpenMemHandle of no handle, or one of this process");
    if (ipc.device != context->device && !fake_setting("FAKECUDA_PEER", 1))
        return CU_PEER_ACCESS_UNSUPPORTED;
    int fd = fake_open_file((uint32_t)ipc.pid, ipc.fd);
    *at = fd < 0 ? 0 : map_file(fd, whole(ipc.bytes), 0);
    if (!*at || flock(fd, LOCK_SH)) /* until it is closed, or this process ends */
        return CU_INVALID_HANDLE;
    (void)pthread_mutex_lock(&fake_lock);
    (void)add(OPENED, *at, ipc.bytes, fd, ipc.device);
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result cuIpcCloseMemHandle(cu_ptr at)
{
    (void)fake_current("cuIpcCloseMemHandle");
    (void)usleep((useconds_t)fake_setting("FAKECUDA_CLOSE_US", 0));
    release("cuIpcCloseMemHandle", at, OPENED);
    return CU_SUCCESS;
}

/* ---- virtual memory management */

cu_result cuMemGetAllocationGranularity(size_t *bytes, const struct cu_mem_prop *prop, int option)
{
    FAKE_CALL();
    (void)prop;
    (void)option;
    *bytes = FAKE_GRAIN;
    return CU_SUCCESS;
}

cu_result fake_handle_new(cu_ptr *to, const struct fake_handle *like)
{
    struct fake_handle *handle = malloc(sizeof *handle);
    if (!handle || like->fd < 0) {
        free(handle);
        return CU_OUT_OF_MEMORY;
    }
    *handle = *like;
    handle->magic = HANDLE_MAGIC;
    *to = (cu_ptr)(uintptr_t)handle;
    fake_hold(FAKE_HANDLES, 1);
    return CU_SUCCESS;
}

struct fake_handle *fake_handle_of(const char *function, cu_ptr at)
{
    struct fake_handle *handle = (struct fake_handle *)(uintptr_t)at;
    if (!handle || handle->magic != HANDLE_MAGIC)
        fake_misuse("%s of no handle", function);
    return handle;
}

cu_result cuMemCreate(cu_ptr *to, size_t bytes, const struct cu_mem_prop *prop,
                      unsigned long long flags)
{
    FAKE_CALL();
    uint64_t fabric = fake_setting("FAKECUDA_FABRIC", 0);
    if (bytes % FAKE_GRAIN || flags || prop->type != CU_MEM_PINNED ||
        prop->location.type != CU_LOCATION_DEVICE)
        fake_misuse("cuMemCreate of %zu bytes: not of the granularity, or not on a device", bytes);
    fake_not_captured("cuMemCreate");
    if (prop->handle_types & CU_HANDLE_FABRIC && fabric != 1 && fabric != 3)
        return fabric ? CU_NOT_PERMITTED : CU_NOT_SUPPORTED;
    struct fake_handle like = {.fd = new_file(bytes, prop->location.id),
                               .bytes = bytes,
                               .device = prop->location.id,
                               .types = prop->handle_types};
    return fake_handle_new(to, &like);
}

cu_result cuMemRelease(cu_ptr at)
{
    struct fake_handle *handle = fake_handle_of("cuMemRelease", at);
    if (handle->object)
        fake_object_unmap(handle->object);
    (void)close(handle->fd);
    handle->magic = 0;
    free(handle);
    fake_hold(FAKE_HANDLES, -1);
    return CU_SUCCESS;
}

/* Aligned to that, and to no more. */
static cu_ptr reserve(size_t bytes, size_t alignment)
{
    size_t room = bytes + 2 * alignment;
    void *where = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (where == MAP_FAILED)
        return 0;
    cu_ptr first = (cu_ptr)(uintptr_t)where, end = first + room;
    cu_ptr at = (first + alignment - 1) / alignment * alignment;
    if (at % (2 * alignment) == 0)
        at += alignment;
    (void)munmap(where, (size_t)(at - first));
    (void)munmap((void *)(uintptr_t)(at + bytes), (size_t)(end - at - bytes));
    return at;
}

cu_result cuMemAddressReserve(cu_ptr *at, size_t bytes, size_t alignment, cu_ptr hint,
                              unsigned long long flags)
{
    FAKE_CALL();
    (void)hint;
    (void)flags;
    if (bytes % FAKE_GRAIN || alignment & (alignment - 1))
        fake_misuse("cuMemAddressReserve of %zu bytes, aligned to %zu", bytes, alignment);
    *at = reserve(bytes, alignment ? alignment : FAKE_GRAIN);
    if (!*at)
        return CU_OUT_OF_MEMORY;
    (void)pthread_mutex_lock(&fake_lock);
    (void)add(RESERVED, *at, bytes, -1, -1);
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result cuMemAddressFree(cu_ptr at, size_t bytes)
{
    (void)pthread_mutex_lock(&fake_lock);
    if (find(at, 1u << MAPPED | 1u << MULTICAST) != RANGES)
        fake_misuse("cuMemAddressFree of what is mapped");
    (void)pthread_mutex_unlock(&fake_lock);
    (void)bytes;
    release("cuMemAddressFree", at, RESERVED);
    return CU_SUCCESS;
}

/* A multicast object's addresses stay out of bounds: only what the switch does reaches them. */
static cu_result map_object(cu_ptr at, size_t bytes, const struct fake_handle *handle)
{
    int fd = fcntl(handle->fd, F_DUPFD_CLOEXEC, 0);
    struct fake_object *object = fd < 0 ? NULL : fake_object_map(fd);
    if (!object)
        return CU_OUT_OF_MEMORY;
    unsigned i = add(MULTICAST, at, bytes, fd, -1);
    ranges[i].object = object;
    return CU_SUCCESS;
}

cu_result cuMemMap(cu_ptr at, size_t bytes, size_t offset, cu_ptr from, unsigned long long flags)
{
    FAKE_CALL();
    struct fake_handle *handle = fake_handle_of("cuMemMap", from);
    cu_result result = CU_SUCCESS;
    if (handle->object)
        fake_object_complete("cuMemMap", handle->object);
    (void)pthread_mutex_lock(&fake_lock);
    unsigned i = find(at, 1u << RESERVED);
    if (i == RANGES || bytes > ranges[i].bytes || bytes > handle->bytes || offset || flags)
        fake_misuse("cuMemMap where nothing is reserved, or of more than there is");
    if (at % (handle->object ? FAKE_SWITCH_GRAIN : FAKE_GRAIN))
        fake_misuse("cuMemMap at %#llx, which is not of the granularity", at);
    if (handle->object)
        result = map_object(at, bytes, handle);
    else if (map_file(handle->fd, bytes, at))
        (void)add(MAPPED, at, bytes, fcntl(handle->fd, F_DUPFD_CLOEXEC, 0), handle->device);
    else
        result = CU_OUT_OF_MEMORY;
    (void)pthread_mutex_unlock(&fake_lock);
    return result;
}

cu_result cuMemUnmap(cu_ptr at, size_t bytes)
{
    (void)pthread_mutex_lock(&fake_lock);
    unsigned i = find(at, 1u << MAPPED | 1u << MULTICAST);
    if (i == RANGES || ranges[i].bytes != bytes)
        fake_misuse("cuMemUnmap of what is not mapped");
    if (ranges[i].object)
        fake_object_unmap(ranges[i].object);
    for (unsigned v = 0; v < FAKE_DEVICES; v++)
        if (ranges[i].views[v])
            (void)munmap((void *)(uintptr_t)ranges[i].views[v], bytes);
    ranges[i].kind = FREE;
    if (ranges[i].fd >= 0)
        (void)close(ranges[i].fd);
    ranges[i].fd = -1;
    fake_hold(FAKE_MEMORY, -1);
    take_away(at, bytes);
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result cuMemSetAccess(cu_ptr at, size_t bytes, const struct cu_access *access, size_t count)
{
    FAKE_CALL();
    cu_result result = CU_SUCCESS;
    (void)pthread_mutex_lock(&fake_lock);
    unsigned i = find(at, 1u << MAPPED | 1u << MULTICAST);
    if (i == RANGES || ranges[i].bytes != bytes || count != 1 ||
        access->flags != CU_ACCESS_READ_WRITE)
        fake_misuse("cuMemSetAccess of what is not mapped");
    if (ranges[i].device >= 0 && ranges[i].device != access->location.id &&
        !fake_setting("FAKECUDA_PEER", 1))
        result = CU_PEER_ACCESS_UNSUPPORTED;
    else
        ranges[i].access |= 1u << access->location.id;
    (void)pthread_mutex_unlock(&fake_lock);
    return result;
}

/* ---- handles of other processes; a fabric handle says in which file of which process it lies */

struct fabric {
    uint32_t magic;
    uint32_t pid;
    int fd;
};
#define FABRIC_MAGIC 0x66616272u

cu_result cuMemExportToShareableHandle(void *to, cu_ptr from, int type, unsigned long long flags)
{
    FAKE_CALL();
    struct fake_handle *handle = fake_handle_of("cuMemExportToShareableHandle", from);
    if ((type != CU_HANDLE_FD && type != CU_HANDLE_FABRIC) || flags)
        return CU_NOT_SUPPORTED;
    if (!(handle->types & type))
        fake_misuse("cuMemExportToShareableHandle of a kind that it was not created for");
    if (type == CU_HANDLE_FABRIC && fake_setting("FAKECUDA_FABRIC", 0) == 3)
        return CU_NOT_SUPPORTED;
    if (type == CU_HANDLE_FABRIC) {
        struct fabric fabric = {FABRIC_MAGIC, (uint32_t)getpid(), handle->fd};
        memset(to, 0, sizeof(struct cu_fabric_handle));
        memcpy(to, &fabric, sizeof fabric);
        return CU_SUCCESS;
    }
    int fd = fcntl(handle->fd, F_DUPFD_CLOEXEC, 0);
    memcpy(to, &fd, sizeof fd);
    return fd < 0 ? CU_OUT_OF_MEMORY : CU_SUCCESS;
}

static int file_of(void *from, int type)
{
    struct fabric fabric;
    if (type == CU_HANDLE_FD)
        return fcntl((int)(intptr_t)from, F_DUPFD_CLOEXEC, 0);
    memcpy(&fabric, from, sizeof fabric);
    return fabric.magic == FABRIC_MAGIC ? fake_open_file(fabric.pid, fabric.fd) : -1;
}

cu_result cuMemImportFromShareableHandle(cu_ptr *to, void *from, int type)
{
    FAKE_CALL();
    struct stat about;
    uint64_t fabric = fake_setting("FAKECUDA_FABRIC", 0);
    if (type != CU_HANDLE_FD && (type != CU_HANDLE_FABRIC || fabric != 1))
        return CU_NOT_SUPPORTED;
    int fd = file_of(from, type);
    if (fd < 0 || fstat(fd, &about) != 0)
        return CU_INVALID_HANDLE;
    struct fake_handle like = {.fd = fd,
                               .bytes = (size_t)about.st_size,
                               .device = device_of_file(fd),
                               .types = type,
                               .object = fake_object_map(fd)};
    if (like.object)
        like.bytes = fake_object_bytes(like.object);
    cu_result result = fake_handle_new(to, &like);
    if (result != CU_SUCCESS) {
        if (like.object)
            fake_object_unmap(like.object);
        (void)close(fd);
    }
    return result;
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
