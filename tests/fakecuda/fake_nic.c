/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC that kernels post to (engine ibgda): a thread for each rank's. */
#include "fake.h"

#include "cuda_nic.h"
#include "device/image.h"
#include "mlx5_nic.h"
#include "rdma_nic.h"

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

/* ---- over hosts, which are threads of one process: pairs are joined, and every key is known */

#define JOINED 4096u
#define FIRST_NUMBER 0x00a000u

static struct {
    struct nic_region regions[NIC_REGIONS];
    uint32_t nregions;
    uint32_t numbers;        /* queues so far */
    uint32_t joined[JOINED]; /* by number: the other end's; 0: none yet */
} net;

static int shown_memory(void *nic, uint64_t at, uint64_t bytes, uint32_t *key)
{
    int error = memory(nic, at, bytes, key);
    (void)pthread_mutex_lock(&fake_lock);
    if (net.nregions == NIC_REGIONS)
        fake_misuse("more than %u keys", NIC_REGIONS);
    net.regions[net.nregions++] = (struct nic_region){*key, at, bytes, (char *)(uintptr_t)at};
    (void)pthread_mutex_unlock(&fake_lock);
    return error;
}

/* Each end names the other. */
static int join(void *nic, void *pair, const struct rdma_end *mine, const struct rdma_end *theirs)
{
    struct fake_nic *fake = nic;
    const struct nic_queue *queue = pair;
    (void)pthread_mutex_lock(&fake_lock);
    if (mine->number != queue->number || theirs->number - FIRST_NUMBER >= JOINED)
        fake_misuse("a pair joins with %#x, which is none", theirs->number);
    uint32_t back = net.joined[theirs->number - FIRST_NUMBER];
    if (back && back != mine->number)
        fake_misuse("a pair joins with one that has joined with another");
    net.joined[mine->number - FIRST_NUMBER] = theirs->number;
    (void)pthread_mutex_lock(&fake->lock);
    for (uint32_t i = 0; i < net.nregions && fake->nic.nregions < net.nregions; i++)
        if (!nic_find(&fake->nic, net.regions[i].key, net.regions[i].at, 1))
            (void)nic_add_region(&fake->nic, net.regions[i].key, net.regions[i].at,
                                 net.regions[i].bytes, net.regions[i].here);
    (void)pthread_mutex_unlock(&fake->lock);
    (void)pthread_mutex_unlock(&fake_lock);
    return 0;
}

static uint32_t new_number(void)
{
    (void)pthread_mutex_lock(&fake_lock);
    uint32_t number = FIRST_NUMBER + net.numbers++ % JOINED;
    (void)pthread_mutex_unlock(&fake_lock);
    return number;
}

static int queue(void *nic, uint32_t blocks, struct dev_mlx5_queue *to, void **pair,
                 struct rdma_end *mine)
{
    struct fake_nic *fake = nic;
    uint32_t number = new_number();
    (void)pthread_mutex_lock(&fake->lock);
    struct nic_queue *made = nic_add_queue(&fake->nic, blocks);
    if (made)
        made->number = number;
    (void)pthread_mutex_unlock(&fake->lock);
    if (!made)
        return ENOMEM;
    *pair = made;
    *mine = (struct rdma_end){.number = number};
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

#define CALLS .open = open_nic, .close = close_nic, .queue = queue
FAKE_API extern struct cuda_nic_calls peal_stand_in_nic;
struct cuda_nic_calls peal_stand_in_nic = {CALLS, .memory = memory, .reach = reach};

void peal_stand_in_joins(int on)
{
    static const struct cuda_nic_calls here = {CALLS, .memory = memory, .reach = reach};
    static const struct cuda_nic_calls over = {CALLS, .memory = shown_memory, .join = join};
    memset(&net, 0, sizeof net);
    peal_stand_in_nic = on ? over : here;
}
