/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that keeps its word and no more, in the place of the one by libibverbs: works of a pair
 * are done in order, those of different pairs in any; sources are read and completions appear late;
 * a key that does not fit, a pair without a receive, a broken pair do what real ones do. Its memory
 * is this process's, all "hosts" are threads.
 */
#ifndef PEAL_TESTS_RDMA_FAKE_H
#define PEAL_TESTS_RDMA_FAKE_H

#include "clock.h"
#include "rdma.h"
#include "support.h"

#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define FAKE_PAIRS 256u
#define FAKE_REGIONS 256u
#define FAKE_QUEUE 65536u
#define FAKE_LARGE (64u << 20) /* bytes */

struct fake_nic {
    struct rdma_nic nic; /* first */
    struct rdma_done *done;
    uint32_t first, last;
    int armed;
};

struct fake_receive {
    uint64_t id;
    char *to;
    uint32_t bytes;
};

struct fake_pair {
    struct fake_nic *nic; /* NULL: free */
    uint32_t other;       /* number of the other end */
    int joined, failed;
    struct rdma_work work[RDMA_SENDS];
    char copy[RDMA_SENDS][128];
    uint32_t first, last, sends;
    struct fake_receive receive[RDMA_RECEIVES];
    uint32_t got, given;
};

/* All of it behind one lock. */
static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    _Atomic int stop;
    struct fake_pair *pair;
    struct {
        char *at;
        uint64_t bytes;
        int used;
    } region[FAKE_REGIONS];
    uint64_t random;
    uint32_t regions, works, flags; /* ever made, ever done */
    uint32_t frozen;                /* nothing goes by this pair */
    uint64_t thaws;                 /* until then */
    /* what goes wrong */
    uint32_t inline_bytes;
    uint32_t absent;            /* 1: the first second rank of a host that asks has no device */
    uint32_t regions_most;      /* none beyond so many, */
    uint32_t region_at;         /* and not this one */
    uint32_t large, large_most; /* of those of a device's memory: ever made, and none beyond */
    uint32_t asked;
    uint32_t break_at;  /* this work ends as BROKEN */
    uint32_t refuse_at; /* this work names a key that is none */
    uint32_t post_at;   /* this post is not taken as a whole */
    uint32_t posts;
    _Atomic uint32_t mute; /* completions are kept back */
    uint32_t wrong;        /* what a device would not forgive */
} fake;

static uint64_t fake_draw(void)
{
    fake.random ^= fake.random << 13;
    fake.random ^= fake.random >> 7;
    fake.random ^= fake.random << 17;
    return fake.random * 0x2545f4914f6cdd1du >> 24;
}

static void fake_lock(void)
{
    (void)pthread_mutex_lock(&fake.lock);
}

static void fake_unlock(void)
{
    (void)pthread_mutex_unlock(&fake.lock);
}

/* ---- memory: keys are 1 + the index, those of peers with a bit more */
#define PEER_KEY 0x10000u

static int fake_holds(uint32_t key, uint64_t at, uint64_t bytes)
{
    uint32_t i = (key & ~PEER_KEY) - 1;
    uint64_t base = i < FAKE_REGIONS ? (uint64_t)(uintptr_t)fake.region[i].at : 0;
    return i < FAKE_REGIONS && fake.region[i].used && at >= base &&
           at - base + bytes <= fake.region[i].bytes;
}

static int fake_region(struct rdma_nic *nic, char *at, uint64_t bytes, struct rdma_region *region)
{
    uint32_t i = 0;
    (void)nic;
    fake_lock();
    while (i < FAKE_REGIONS && fake.region[i].used)
        i++;
    int large = bytes >= FAKE_LARGE;
    int made = (!large || fake.large < fake.large_most) && i < FAKE_REGIONS &&
               fake.regions < fake.regions_most && ++fake.asked != fake.region_at;
    if (made) {
        fake.regions++;
        fake.large += (uint32_t)large;
        fake.region[i].at = at;
        fake.region[i].bytes = bytes;
        fake.region[i].used = 1;
        *region = (struct rdma_region){at, bytes, 1 + i, (1 + i) | PEER_KEY, NULL};
    }
    fake_unlock();
    return made;
}

/* No descriptor that is a dma-buf is to be had here: the address is this process's. */
static int fake_region_dmabuf(struct rdma_nic *nic, int fd, char *at, uint64_t bytes,
                              struct rdma_region *region)
{
    fake_lock();
    fake.wrong += lseek(fd, 0, SEEK_END) < (off_t)bytes;
    fake_unlock();
    return fake_region(nic, at, bytes, region);
}

static void fake_unregion(struct rdma_nic *nic, struct rdma_region *region)
{
    (void)nic;
    fake_lock();
    fake.wrong += !fake.region[region->own_key - 1].used;
    fake.region[region->own_key - 1].used = 0;
    fake_unlock();
}

/* ---- completions */

static void fake_done(struct fake_nic *nic, struct rdma_done done)
{
    uint64_t one = 1;
    fake.wrong += nic->last - nic->first == FAKE_QUEUE;
    nic->done[nic->last++ % FAKE_QUEUE] = done;
    if (nic->armed)
        (void)!write(nic->nic.fd, &one, sizeof one);
    nic->armed = 0;
}

static int fake_poll(struct rdma_nic *nic, struct rdma_done *done, int room)
{
    struct fake_nic *self = (struct fake_nic *)(void *)nic;
    int count = 0;
    fake_lock();
    /* Not all that is there is seen at once. */
    room = fake_draw() % 4 ? room : 1 + (int)(fake_draw() % 3);
    while (count < room && self->first != self->last && !fake.mute)
        done[count++] = self->done[self->first++ % FAKE_QUEUE];
    fake_unlock();
    return count;
}

static int fake_arm(struct rdma_nic *nic)
{
    uint64_t events;
    fake_lock();
    (void)!read(nic->fd, &events, sizeof events);
    ((struct fake_nic *)(void *)nic)->armed = 1;
    fake_unlock();
    return 1;
}

/* ---- pairs */

static int fake_pair(struct rdma_nic *nic, uint32_t sends, uint32_t receives, void **pair,
                     struct rdma_end *mine)
{
    uint32_t i = 0;
    fake_lock();
    while (fake.pair[i].nic)
        i++;
    fake.wrong += sends != RDMA_SENDS || receives > RDMA_RECEIVES;
    memset(&fake.pair[i], 0, sizeof fake.pair[i]);
    fake.pair[i].nic = (struct fake_nic *)(void *)nic;
    fake_unlock();
    *pair = &fake.pair[i];
    *mine = (struct rdma_end){.number = i, .mtu = 5, .ethernet = 1};
    return 1;
}

static int fake_join(struct rdma_nic *nic, void *pair, const struct rdma_end *mine,
                     const struct rdma_end *theirs)
{
    struct fake_pair *self = pair;
    (void)nic;
    fake_lock();
    fake.wrong += mine->number != (uint32_t)(self - fake.pair) || theirs->number >= FAKE_PAIRS;
    self->other = theirs->number;
    self->joined = 1;
    fake_unlock();
    return 1;
}

static void fake_flush(struct fake_pair *self, enum rdma_how first)
{
    if (self->failed || !self->nic)
        return;
    self->failed = 1;
    for (; self->first != self->last; self->first++) {
        fake_done(self->nic, (struct rdma_done){.id = self->work[self->first % RDMA_SENDS].id,
                                                .how = (uint8_t)first});
        first = RDMA_FLUSHED;
    }
    for (; self->got != self->given; self->got++)
        fake_done(self->nic, (struct rdma_done){.id = self->receive[self->got % RDMA_RECEIVES].id,
                                                .how = RDMA_FLUSHED});
}

static void fake_fail(struct rdma_nic *nic, void *pair)
{
    (void)nic;
    fake_lock();
    fake_flush(pair, RDMA_FLUSHED);
    fake_unlock();
}

static void fake_unpair(struct rdma_nic *nic, void *pair)
{
    (void)nic;
    fake_lock();
    ((struct fake_pair *)pair)->nic = NULL;
    fake_unlock();
}

static int fake_receive(struct rdma_nic *nic, void *pair, uint64_t id, char *to, uint32_t bytes,
                        uint32_t own_key)
{
    struct fake_pair *self = pair;
    (void)nic;
    fake_lock();
    fake.wrong += self->given - self->got == RDMA_RECEIVES || !self->joined ||
                  !fake_holds(own_key, (uint64_t)(uintptr_t)to, bytes);
    if (self->failed)
        fake_done(self->nic, (struct rdma_done){.id = id, .how = RDMA_FLUSHED});
    else
        self->receive[self->given++ % RDMA_RECEIVES] = (struct fake_receive){id, to, bytes};
    fake_unlock();
    return 1;
}

static uint32_t fake_post(struct rdma_nic *nic, void *pair, const struct rdma_work *work,
                          uint32_t count)
{
    struct fake_pair *self = pair;
    fake_lock();
    if (++fake.posts == fake.post_at)
        count--;
    fake.wrong += !self->joined || count > RDMA_POST_MAX;
    for (uint32_t i = 0; i < count; i++) {
        struct rdma_work one = work[i];
        fake.wrong += self->last - self->first == RDMA_SENDS;
        fake.wrong +=
            one.copied
                ? one.bytes > nic->inline_bytes
                : one.bytes && !fake_holds(one.own_key, (uint64_t)(uintptr_t)one.from, one.bytes);
        if (one.copied && one.bytes <= 128)
            one.from = memcpy(self->copy[self->last % RDMA_SENDS], one.from, one.bytes);
        if (self->failed)
            fake_done(self->nic, (struct rdma_done){.id = one.id, .how = RDMA_FLUSHED});
        else
            self->work[self->last++ % RDMA_SENDS] = one;
    }
    fake_unlock();
    return count;
}

/* ---- the wire */

/* Both ends of a pair that has gone wrong are of no use. */
static void fake_break(struct fake_pair *self, struct fake_pair *other, enum rdma_how how)
{
    fake_flush(self, how);
    if (other->other == (uint32_t)(self - fake.pair))
        fake_flush(other, RDMA_FLUSHED);
}

/* A word is written as one, behind all that was written before. */
static void fake_write(const struct rdma_work *work)
{
    uint64_t word;
    uint32_t half;
    if (work->bytes == sizeof half && work->to % sizeof half == 0) {
        memcpy(&half, work->from, sizeof half);
        __atomic_store_n((uint32_t *)(uintptr_t)work->to, half, __ATOMIC_RELEASE);
        return;
    }
    if (work->bytes != sizeof word || work->to % sizeof word) {
        memcpy((char *)(uintptr_t)work->to, work->from, work->bytes);
        return;
    }
    memcpy(&word, work->from, sizeof word);
    __atomic_store_n((uint64_t *)(uintptr_t)work->to, word, __ATOMIC_RELEASE);
}

static void fake_carry(struct fake_pair *self)
{
    struct fake_pair *other = &fake.pair[self->other];
    const struct rdma_work *work = &self->work[self->first % RDMA_SENDS];
    struct fake_receive *receive = &other->receive[other->got % RDMA_RECEIVES];
    int takes = work->op != RDMA_WRITE;
    if (self->first == self->last)
        return;
    if (!other->nic || other->failed) {
        fake_flush(self, RDMA_BROKEN);
        return;
    }
    if (!other->joined || (takes && other->got == other->given))
        return; /* it is sent again, as often as it takes */
    fake.works++;
    int refused = fake.works == fake.refuse_at ||
                  (work->op == RDMA_WRITE && !(work->peer_key & PEER_KEY)) ||
                  (work->op == RDMA_WRITE && !fake_holds(work->peer_key, work->to, work->bytes));
    if (refused || fake.works == fake.break_at) {
        fake_break(self, other, refused ? RDMA_REFUSED : RDMA_BROKEN);
        return;
    }
    if (work->op == RDMA_WRITE)
        fake_write(work);
    if (work->op == RDMA_SEND)
        memcpy(receive->to, work->from,
               work->bytes < receive->bytes ? work->bytes : receive->bytes);
    fake.flags += work->op == RDMA_FLAG;
    if (takes) {
        other->got++;
        fake_done(other->nic, (struct rdma_done){.id = receive->id,
                                                 .bytes = work->bytes,
                                                 .received = 1,
                                                 .flag = work->op == RDMA_FLAG});
    }
    if (work->told)
        fake_done(self->nic, (struct rdma_done){.id = work->id});
    self->first++;
}

/* One pair, another one by and by, is let wait while all others go on. */
static void fake_freeze(void)
{
    uint64_t now = rt_now_ns();
    if (now < fake.thaws)
        return;
    fake.thaws = now + fake_draw() % 2000000;
    for (unsigned tries = 0; tries < 16; tries++) {
        fake.frozen = (uint32_t)(fake_draw() % 64);
        if (fake.pair[fake.frozen].joined)
            return;
    }
}

static void *fake_wire(void *user)
{
    (void)user;
    while (!atomic_load(&fake.stop)) {
        uint32_t busy[FAKE_PAIRS], count = 0;
        fake_lock();
        fake_freeze();
        for (uint32_t i = 0; i < FAKE_PAIRS; i++)
            if (fake.pair[i].nic && fake.pair[i].first != fake.pair[i].last && i != fake.frozen)
                busy[count++] = i;
        uint32_t first = count ? (uint32_t)(fake_draw() % count) : 0;
        for (uint32_t k = 0; k < count && k < 1 + fake_draw() % 4; k++)
            fake_carry(&fake.pair[busy[(first + k * (fake_draw() % 2)) % count]]);
        int naps = count == 0 || fake_draw() % 64 == 0;
        fake_unlock();
        if (naps)
            rt_sleep_us(20);
        else
            (void)sched_yield();
    }
    return NULL;
}

/* ---- life */

static void fake_close(struct rdma_nic *nic)
{
    struct fake_nic *self = (struct fake_nic *)(void *)nic;
    (void)close(nic->fd);
    free(self->done);
    free(self);
}

static const struct rdma_nic_ops fake_ops = {
    .region = fake_region,
    .region_dmabuf = fake_region_dmabuf,
    .unregion = fake_unregion,
    .pair = fake_pair,
    .join = fake_join,
    .fail = fake_fail,
    .unpair = fake_unpair,
    .post = fake_post,
    .receive = fake_receive,
    .poll = fake_poll,
    .arm = fake_arm,
    .close = fake_close,
};

/* In the place of the one that looks for real devices. */
struct rdma_nic *rdma_open(peal_ctx *ctx, const struct rdma_ask *ask, char *why, size_t room)
{
    struct fake_nic *self = calloc(1, sizeof *self);
    fake_lock();
    int absent = fake.absent && ask->turn == 1;
    if (absent)
        fake.absent = 0;
    fake_unlock();
    if (absent) {
        free(self);
        (void)snprintf(why, room, "no RDMA device");
        return NULL;
    }
    self->done = calloc(FAKE_QUEUE, sizeof *self->done);
    self->nic = (struct rdma_nic){.ops = &fake_ops,
                                  .ctx = ctx,
                                  .name = "fake0:1",
                                  .inline_bytes = fake.inline_bytes,
                                  .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    return &self->nic;
}

static void fake_begin(uint64_t seed)
{
    memset(&fake, 0, sizeof fake);
    (void)pthread_mutex_init(&fake.lock, NULL);
    fake.pair = calloc(FAKE_PAIRS, sizeof *fake.pair);
    fake.random = (seed + 1) * 0x9e3779b97f4a7c15u;
    fake.inline_bytes = 128;
    fake.regions_most = fake.large_most = UINT32_MAX;
    ck_assert_int_eq(pthread_create(&fake.thread, NULL, fake_wire, NULL), 0);
}

static void fake_end(void)
{
    atomic_store(&fake.stop, 1);
    (void)pthread_join(fake.thread, NULL);
    for (uint32_t i = 0; i < FAKE_REGIONS; i++)
        ck_assert_int_eq(fake.region[i].used, 0);
    for (uint32_t i = 0; i < FAKE_PAIRS; i++)
        ck_assert_ptr_null(fake.pair[i].nic);
    free(fake.pair);
    (void)pthread_mutex_destroy(&fake.lock);
}

#endif
