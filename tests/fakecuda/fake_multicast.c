/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast objects: a file in memory that says whose memory is bound to them. Its addresses are
 * not to be touched; what the switch does with them the interpreter asks for, rank by rank.
 */
#define _GNU_SOURCE 1
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define OBJECT_MAGIC 0x6d756c74696f626aull
#define FILE_NAME "fakecuda-multicast"

struct member {
    uint32_t bound; /* 1: the next ones hold */
    uint32_t pid;
    int fd;
};

struct fake_object {
    uint64_t magic;
    uint64_t bytes;
    uint32_t wanted; /* devices */
    uint32_t added;  /* a bit each */
    struct member members[FAKE_DEVICES];
};

static uint32_t count(uint32_t bits)
{
    uint32_t some = 0;
    for (; bits; bits &= bits - 1)
        some++;
    return some;
}

static int is_object(int fd)
{
    char path[64], name[128];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t got = readlink(path, name, sizeof name - 1);
    name[got > 0 ? got : 0] = '\0';
    return strstr(name, FILE_NAME) != NULL;
}

struct fake_object *fake_object_map(int fd)
{
    if (!is_object(fd))
        return NULL;
    void *at = mmap(NULL, sizeof(struct fake_object), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

void fake_object_unmap(struct fake_object *object)
{
    (void)munmap(object, sizeof *object);
}

size_t fake_object_bytes(const struct fake_object *object)
{
    return (size_t)object->bytes;
}

void fake_object_complete(const char *function, const struct fake_object *object)
{
    uint32_t added = count(__atomic_load_n(&object->added, __ATOMIC_ACQUIRE));
    if (added != object->wanted)
        fake_misuse("%s would wait: %u of %u devices were added", function, added, object->wanted);
}

static cu_ptr map_member(const struct member *member, size_t bytes)
{
    int fd = fake_open_file(member->pid, member->fd);
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void)close(fd);
    if (at == MAP_FAILED)
        fake_misuse("memory that is bound to a multicast object is gone");
    return (cu_ptr)(uintptr_t)at;
}

/* From another device on for every 16 bytes: a switch promises no order. */
cu_ptr fake_object_member(struct fake_object *object, cu_ptr *views, uint64_t offset, uint32_t nth)
{
    uint32_t first = (uint32_t)(offset / 16 * 7) % FAKE_DEVICES, seen = 0;
    for (uint32_t i = 0; i < FAKE_DEVICES; i++) {
        uint32_t device = (first + i) % FAKE_DEVICES;
        const struct member *member = &object->members[device];
        if (!__atomic_load_n(&member->bound, __ATOMIC_ACQUIRE) || seen++ != nth)
            continue;
        if (!views[device])
            views[device] = map_member(member, (size_t)object->bytes);
        return views[device] + offset;
    }
    if (seen != object->wanted)
        fake_misuse("a multicast address, and %u of %u devices have bound memory", seen,
                    object->wanted);
    return 0;
}

/* ---- the driver's functions */

static int has_it(void)
{
    return fake_setting("FAKECUDA_MULTICAST", 0) != 0;
}

cu_result cuMulticastGetGranularity(size_t *bytes, const struct cu_multicast_prop *prop, int option)
{
    FAKE_CALL();
    if (!has_it())
        return CU_NOT_SUPPORTED;
    if (option != CU_MULTICAST_MINIMUM || prop->flags)
        return CU_INVALID_VALUE;
    *bytes = FAKE_SWITCH_GRAIN;
    return CU_SUCCESS;
}

cu_result cuMulticastCreate(cu_ptr *to, const struct cu_multicast_prop *prop)
{
    FAKE_CALL();
    if (!has_it())
        return CU_NOT_SUPPORTED;
    if (prop->devices == 0 || prop->devices > FAKE_DEVICES || prop->bytes % FAKE_SWITCH_GRAIN ||
        prop->bytes == 0 || prop->flags)
        fake_misuse("cuMulticastCreate of %zu bytes for %u devices", prop->bytes, prop->devices);
    int fd = memfd_create(FILE_NAME, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)sizeof(struct fake_object)) != 0)
        return CU_OUT_OF_MEMORY;
    struct fake_handle like = {.fd = fd,
                               .bytes = prop->bytes,
                               .device = -1,
                               .types = (int)prop->handle_types,
                               .object = fake_object_map(fd)};
    if (!like.object)
        return CU_OUT_OF_MEMORY;
    like.object->magic = OBJECT_MAGIC;
    like.object->bytes = prop->bytes;
    like.object->wanted = prop->devices;
    return fake_handle_new(to, &like);
}

static struct fake_object *object_of(const char *function, cu_ptr at)
{
    const struct fake_handle *handle = fake_handle_of(function, at);
    if (!handle->object || handle->object->magic != OBJECT_MAGIC)
        fake_misuse("%s of what is no multicast object", function);
    return handle->object;
}

cu_result cuMulticastAddDevice(cu_ptr at, cu_device device)
{
    FAKE_CALL();
    struct fake_object *object = object_of("cuMulticastAddDevice", at);
    uint32_t before = __atomic_fetch_or(&object->added, 1u << device, __ATOMIC_ACQ_REL);
    if (before & 1u << device || count(before) == object->wanted)
        fake_misuse("cuMulticastAddDevice of device %d once more, or of one too many", device);
    return CU_SUCCESS;
}

cu_result cuMulticastBindMem(cu_ptr at, size_t offset, cu_ptr memory, size_t from, size_t bytes,
                             unsigned long long flags)
{
    FAKE_CALL();
    struct fake_object *object = object_of("cuMulticastBindMem", at);
    const struct fake_handle *handle = fake_handle_of("cuMulticastBindMem", memory);
    fake_object_complete("cuMulticastBindMem", object);
    if (offset || from || flags || bytes % FAKE_SWITCH_GRAIN || bytes > object->bytes ||
        bytes > handle->bytes || handle->object || !(object->added & 1u << handle->device))
        fake_misuse("cuMulticastBindMem of %zu bytes of device %d", bytes, handle->device);
    struct member *member = &object->members[handle->device];
    if (member->bound)
        fake_misuse("cuMulticastBindMem of device %d twice", handle->device);
    member->pid = (uint32_t)getpid();
    member->fd = handle->fd;
    __atomic_store_n(&member->bound, 1, __ATOMIC_RELEASE);
    return CU_SUCCESS;
}

cu_result cuMulticastUnbind(cu_ptr at, cu_device device, size_t offset, size_t bytes)
{
    struct fake_object *object = object_of("cuMulticastUnbind", at);
    if (!object->members[device].bound || offset || bytes > object->bytes)
        fake_misuse("cuMulticastUnbind of device %d, which has bound nothing", device);
    __atomic_store_n(&object->members[device].bound, 0, __ATOMIC_RELEASE);
    return CU_SUCCESS;
}
