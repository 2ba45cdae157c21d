/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC that kernels post to (engine ibgda): a thread for each rank's. */
#include "fake.h"

#include "cuda_nic.h"
#include "device/image.h"
#include "mlx5_nic.h"

#include <errno.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#define POLLS 200u

struct fake_nic {
    struct nic nic;
    pthread_mutex_t lock;
    pthread_t thread;
    int stop;
};

static void *serve(void *argument)
{
    struct fake_nic *fake = argument;
    static const struct timespec nap = {0, 20000};
    for (unsigned idle = 0; !__atomic_load_n(&fake->stop, __ATOMIC_ACQUIRE);) {
        (void)pthread_mutex_lock(&fake->lock);
        int busy = nic_serve(&fake->nic);
        const char *complaint = fake->nic.complaint;
        (void)pthread_mutex_unlock(&fake->lock);
        if (complaint)
            fake_misuse("a NIC was posted %s", complaint);
        idle = busy ? 0 : idle + 1;
        if (idle < POLLS)
            (void)sched_yield();
        else
            (void)nanosleep(&nap, NULL);
    }
    return NULL;
}

static int open_nic(const struct peal_cuda_comm *comm, const struct peal_table *table, void **nic,
                    char *why, size_t room)
{
    (void)comm;
    (void)table;
    (void)why;
    (void)room;
    struct fake_nic *fake = calloc(1, sizeof *fake);
    if (!fake)
        return ENOMEM;
    (void)pthread_mutex_init(&fake->lock, NULL);
    fake->nic.random = (uint64_t)(uintptr_t)fake;
    if (pthread_create(&fake->thread, NULL, serve, fake) != 0) {
        free(fake);
        return EAGAIN;
    }
    *nic = fake;
    return 0;
}

static void close_nic(void *nic)
{
    struct fake_nic *fake = nic;
    __atomic_store_n(&fake->stop, 1, __ATOMIC_RELEASE);
    (void)pthread_join(fake->thread, NULL);
    nic_clear(&fake->nic);
    (void)pthread_mutex_destroy(&fake->lock);
    free(fake);
}

static int reach(void *nic, uint32_t key, uint64_t at, uint64_t bytes, uint64_t here)
{
    struct fake_nic *fake = nic;
    fake_check_range("memory of a NIC", here, bytes);
    (void)pthread_mutex_lock(&fake->lock);
    int there = nic_add_region(&fake->nic, key, at, bytes, (char *)(uintptr_t)here);
    (void)pthread_mutex_unlock(&fake->lock);
    return there ? 0 : ENOMEM;
}

/* Keys differ among the ranks of a host. */
static int memory(void *nic, uint64_t at, uint64_t bytes, uint32_t *key)
{
    static uint32_t keys;
    *key = (uint32_t)getpid() << 12 | (__atomic_add_fetch(&keys, 1, __ATOMIC_RELAXED) & 0xfff);
    return reach(nic, *key, at, bytes, at);
}

static int queue(void *nic, uint32_t blocks, struct dev_mlx5_queue *to, void **pair,
                 struct rdma_end *mine)
{
    (void)pair;
    (void)mine;
    struct fake_nic *fake = nic;
    (void)pthread_mutex_lock(&fake->lock);
    struct nic_queue *made = nic_add_queue(&fake->nic, blocks);
    (void)pthread_mutex_unlock(&fake->lock);
    if (!made)
        return ENOMEM;
    *to = (struct dev_mlx5_queue){.entries = (uintptr_t)made->entries,
                                  .record = (uintptr_t)&made->record,
                                  .doorbell = (uintptr_t)&made->doorbell,
                                  .done = (uintptr_t)made->done,
                                  .taken = (uintptr_t)&made->taken,
                                  .cqes = made->cqes,
                                  .number = made->number,
                                  .blocks = made->blocks};
    return 0;
}

FAKE_API extern const struct cuda_nic_calls peal_stand_in_nic;
const struct cuda_nic_calls peal_stand_in_nic = {
    .open = open_nic, .close = close_nic, .memory = memory, .reach = reach, .queue = queue};
