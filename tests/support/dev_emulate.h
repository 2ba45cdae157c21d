/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device interpreter on the host: thread blocks are threads, and what is asynchronous is done
 * by an emulator that is as unkind as each engine's promise lets it be. Bulk copies through shared
 * memory are made in parts, late and in any order, with the mbarriers' counts of bytes kept; orders
 * to the host are served by a thread a rank, which lets transfers overtake each other, cuts them
 * into pieces, reads long before it writes, and raises flags late.
 *
 * Everything random follows from the world's seed and the operating system's schedule.
 * emu_bug plants an error of the list that test_device_bugs.c has; 0: none.
 */
#ifndef PEAL_TESTS_DEV_EMULATE_H
#define PEAL_TESTS_DEV_EMULATE_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEV_ORDERS 8u

static int emu_bug;
#define DEV_BUG(n) (emu_bug == (n))

#include "device/dev_run.h"
#include "device_image.h"

#define EMU_RANKS 8u
#define EMU_BULKS 64u
#define EMU_ORDERS 4096u
#define EMU_LIMIT_S 20

/* ---- what is emulated */

struct emu_barrier { /* an mbarrier of one arrival a phase */
    int64_t bytes;   /* expected, less those that came */
    int pending;     /* arrivals */
    uint32_t phase;
};

struct emu_bulk {
    int store;
    int read; /* stores: the stage is read, into what is to be written */
    uint64_t src;
    uint64_t dst;
    uint32_t bytes;
    uint32_t begin; /* of a load: done up to here */
    uint32_t stage;
    uint32_t op;
    uint32_t group;
    char *bounce;
};

struct emu_block {
    struct dev_block dev;
    struct emu_rank *rank;
    uint32_t threads;
    uint32_t arrived; /* at the block's barrier */
    uint32_t phase;
    uint32_t value[2];
    uint32_t result[2];
    struct emu_barrier barriers[DEV_STAGES];
    struct emu_bulk bulks[EMU_BULKS];
    uint32_t nbulks;
    uint32_t groups;
    char *stages;
};

struct emu_thread {
    struct dev_thread dev;
    struct emu_block *block;
    uint64_t random;
    pthread_t handle;
};

/* An order that the host has taken. */
struct emu_order {
    struct dev_order order;
    uint32_t lane;
    uint64_t serial; /* of the lane */
    uint32_t hold;   /* turns to be let pass */
    int read;
    uint64_t done; /* bytes */
    char *bounce;
};

struct emu_rank {
    struct emu_world *world;
    struct dev_rank rank;
    struct dev_peer peers[EMU_RANKS];
    const struct dev_call *calls; /* one after the other, as in a stream */
    uint32_t ncalls;
    struct dev_call call; /* the present one */
    pthread_t stream;
    char *arena;
    struct dev_state *state;
    struct dev_port *port;
    void *image;
    size_t image_bytes;
    uint32_t host;
    struct emu_block *blocks;
    struct emu_thread *threads;
    uint32_t nblocks;
    /* the host's thread */
    pthread_t service;
    int serves;
    uint64_t random;
    uint64_t stream_random;
    struct emu_order *orders;
    uint32_t norders;
    uint32_t head[DEV_LANES];
    uint32_t whole[DEV_LANES][DEV_EVENTS]; /* the last transfer all of whose pieces were taken */
};

struct emu_world {
    peal_ctx *ctx;
    const peal_table *table;
    struct dev_layout layout;
    uint32_t nranks;
    uint32_t width; /* threads of a block */
    uint64_t seed;
    uint32_t running;
    uint32_t stop;
    const char *complaint; /* an engine was used in a way that it does not allow */
    struct emu_rank ranks[EMU_RANKS];
};

static inline uint64_t emu_draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1du >> 20;
}

static inline void emu_sleep(uint32_t us)
{
    struct timespec pause = {0, (long)us * 1000};
    (void)nanosleep(&pause, NULL);
}

static inline void emu_complain(struct emu_world *world, const char *text)
{
    __atomic_store_n(&world->complaint, text, __ATOMIC_RELAXED);
}

static inline struct emu_thread *emu_of(struct dev_thread *t)
{
    return t->host;
}

/* ---- bulk copies: by the thread that issued them, as late and as oddly as may be */

static inline void emu_tx(struct emu_thread *t, uint32_t stage, int64_t bytes, int arrivals)
{
    struct emu_barrier *barrier = &t->block->barriers[stage];
    barrier->bytes -= bytes;
    barrier->pending -= arrivals;
    if (barrier->pending < 0)
        emu_complain(t->block->rank->world, "an mbarrier got more arrivals than it counts");
    if (barrier->bytes != 0 || barrier->pending > 0)
        return;
    barrier->phase++;
    barrier->pending = 1;
}

static inline void emu_fold_back(struct emu_bulk *bulk)
{
    char *to = DEV_AT(char, bulk->dst);
    for (uint32_t i = 0; i < bulk->bytes; i += 8) {
        union dev_vec a, b;
        memcpy(&a, to + i, 8);
        memcpy(&b, bulk->bounce + i, 8);
        switch (bulk->op) {
        case DEV_BULK_ADD_F64:
            a.f64[0] += b.f64[0];
            break;
        case DEV_BULK_ADD_U32:
            a.u32[0] += b.u32[0];
            a.u32[1] += b.u32[1];
            break;
        case DEV_BULK_ADD_U64:
            a.u64[0] += b.u64[0];
            break;
#define EMU_EACH(member, n, op)                                                                    \
    for (int e = 0; e < n; e++)                                                                    \
        a.member[e] = b.member[e] op a.member[e] ? b.member[e] : a.member[e];                      \
    break
        case DEV_BULK_MIN_U32:
            EMU_EACH(u32, 2, <);
        case DEV_BULK_MAX_U32:
            EMU_EACH(u32, 2, >);
        case DEV_BULK_MIN_S32:
            EMU_EACH(i32, 2, <);
        case DEV_BULK_MAX_S32:
            EMU_EACH(i32, 2, >);
        case DEV_BULK_MIN_U64:
            EMU_EACH(u64, 1, <);
        case DEV_BULK_MAX_U64:
            EMU_EACH(u64, 1, >);
        case DEV_BULK_MIN_S64:
            EMU_EACH(i64, 1, <);
        case DEV_BULK_MAX_S64:
            EMU_EACH(i64, 1, >);
        default:
            a = b;
        }
        memcpy(to + i, &a, 8);
    }
}

/* A part of one that is under way, any. */
static inline void emu_bulk_work(struct emu_thread *t)
{
    struct emu_block *b = t->block;
    if (!b->nbulks)
        return;
    uint32_t at = (uint32_t)(emu_draw(&t->random) % b->nbulks);
    struct emu_bulk *bulk = &b->bulks[at];
    if (bulk->store && !bulk->read) {
        memcpy(bulk->bounce, DEV_AT(const char, bulk->src), bulk->bytes);
        bulk->read = 1;
        return;
    }
    if (bulk->store) {
        emu_fold_back(bulk);
        free(bulk->bounce);
        *bulk = b->bulks[--b->nbulks];
        return;
    }
    uint32_t left = bulk->bytes - bulk->begin;
    uint32_t part = left > 16 && emu_draw(&t->random) % 2 ? left / 32 * 16 + 16 : left;
    memcpy(DEV_AT(char, bulk->dst + bulk->begin), DEV_AT(const char, bulk->src + bulk->begin),
           part);
    bulk->begin += part;
    uint32_t stage = bulk->stage;
    if (bulk->begin == bulk->bytes)
        *bulk = b->bulks[--b->nbulks];
    emu_tx(t, stage, part, 0);
}

static inline struct emu_bulk *emu_bulk_new(struct emu_thread *t)
{
    struct emu_block *b = t->block;
    while (b->nbulks == EMU_BULKS)
        emu_bulk_work(t);
    while (emu_draw(&t->random) % 4 == 0)
        emu_bulk_work(t);
    struct emu_bulk *bulk = &b->bulks[b->nbulks++];
    memset(bulk, 0, sizeof *bulk);
    return bulk;
}

static inline uint64_t emu_stage(const struct emu_thread *t, uint32_t stage)
{
    return (uint64_t)(uintptr_t)t->block->stages + (uint64_t)stage * t->block->dev.rank.stage_bytes;
}

static inline void emu_check_bulk(const struct emu_thread *t, uint64_t address, uint32_t bytes)
{
    if (address % 16 || bytes % 16 || bytes == 0)
        emu_complain(t->block->rank->world, "a bulk copy is not aligned to 16 bytes");
}

/* Memory makes float32's subnormals zero, and what is another device's need not fold. */
static inline void emu_check_reduction(struct dev_thread *t, uint64_t address, uint32_t op)
{
    const struct dev_block *b = t->block;
    struct emu_world *world = emu_of(t)->block->rank->world;
    if (op == DEV_BULK_ADD_F32)
        emu_complain(world, "a bulk sum of float32");
    for (uint32_t r = 0; op != DEV_BULK_COPY && r < b->rank.nranks; r++)
        if (r != b->rank.rank && address - b->peers[r].arena < b->layout->total)
            emu_complain(world, "a bulk reduction in another rank's memory");
}

void dev_barrier_init(struct dev_thread *t, uint32_t stage)
{
    emu_of(t)->block->barriers[stage] = (struct emu_barrier){.pending = 1};
}

void dev_bulk_load(struct dev_thread *t, uint32_t stage, uint64_t src, uint32_t bytes)
{
    struct emu_thread *self = emu_of(t);
    struct emu_bulk *bulk = emu_bulk_new(self);
    emu_check_bulk(self, src, bytes);
    bulk->src = src;
    bulk->dst = emu_stage(self, stage);
    bulk->bytes = bytes;
    bulk->stage = stage;
    emu_tx(self, stage, -(int64_t)bytes, 1);
}

int dev_bulk_loaded(struct dev_thread *t, uint32_t stage, uint32_t parity)
{
    struct emu_thread *self = emu_of(t);
    struct emu_barrier *barrier = &self->block->barriers[stage];
    if ((barrier->phase & 1) != parity)
        return 1;
    if (!self->block->nbulks)
        emu_complain(self->block->rank->world, "a load is awaited that was not issued");
    emu_bulk_work(self);
    return self->block->nbulks == 0;
}

void dev_bulk_store(struct dev_thread *t, uint32_t stage, uint64_t dst, uint32_t bytes, uint32_t op)
{
    struct emu_thread *self = emu_of(t);
    struct emu_bulk *bulk = emu_bulk_new(self);
    emu_check_bulk(self, dst, bytes);
    emu_check_reduction(t, dst, op);
    bulk->store = 1;
    bulk->src = emu_stage(self, stage);
    bulk->dst = dst;
    bulk->bytes = bytes;
    bulk->op = op;
    bulk->group = ++self->block->groups;
    bulk->bounce = malloc(bytes);
}

/* 1: a store up to `group` has not come as far. */
static inline int emu_stores(const struct emu_block *b, uint32_t group, int written)
{
    for (uint32_t i = 0; i < b->nbulks; i++)
        if (b->bulks[i].store && (int32_t)(b->bulks[i].group - group) <= 0 &&
            (written || !b->bulks[i].read))
            return 1;
    return 0;
}

void dev_bulk_wait_read(struct dev_thread *t)
{
    struct emu_thread *self = emu_of(t);
    while (emu_stores(self->block, self->block->groups - 1, 0))
        emu_bulk_work(self);
}

void dev_bulk_wait_all(struct dev_thread *t)
{
    struct emu_thread *self = emu_of(t);
    while (emu_stores(self->block, self->block->groups, 1))
        emu_bulk_work(self);
}

/* ---- threads of a block */

void dev_host_turn(struct dev_thread *t)
{
    struct emu_thread *self = emu_of(t);
    uint64_t mood = emu_draw(&self->random) % 64;
    if (t->tid == 0 && mood % 4 == 1)
        emu_bulk_work(self);
    if (mood < 8)
        emu_sleep((uint32_t)(emu_draw(&self->random) % 30));
    else
        (void)sched_yield();
}

int dev_host_sync_or(struct dev_thread *t, uint32_t value)
{
    struct emu_thread *self = emu_of(t);
    struct emu_block *b = self->block;
    if (emu_draw(&self->random) % 8 == 0)
        dev_host_turn(t);
    if (b->threads == 1)
        return value != 0;
    uint32_t phase = __atomic_load_n(&b->phase, __ATOMIC_ACQUIRE);
    if (value)
        (void)__atomic_fetch_or(&b->value[phase & 1], 1, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) == b->threads) {
        __atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
        b->result[phase & 1] = __atomic_exchange_n(&b->value[phase & 1], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&b->phase, phase + 1, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&b->phase, __ATOMIC_ACQUIRE) == phase) {
        /* Where a barrier was left out, threads may never meet again. */
        if (__atomic_load_n(&b->rank->port->abort, __ATOMIC_RELAXED) == 2)
            pthread_exit(NULL);
        (void)sched_yield();
    }
    return (int)b->result[phase & 1];
}

void dev_host_sync(struct dev_thread *t)
{
    (void)dev_host_sync_or(t, 0);
}

/* Here no memory is bound to a switch (tests/fakecuda has one). */
uint64_t dev_host_member(struct dev_thread *t, uint64_t at, uint32_t nth)
{
    (void)at;
    (void)nth;
    emu_complain(emu_of(t)->block->rank->world, "a multicast address where there is none");
    return 0;
}

/* ---- orders to the host */

static inline char *emu_address(const struct emu_rank *rank, uint8_t space, uint32_t of,
                                uint64_t at)
{
    const struct emu_rank *there = &rank->world->ranks[of];
    const struct dev_board *board = (const struct dev_board *)(const void *)there->arena;
    switch (space) {
    case DEV_AT_ADDRESS:
        return DEV_AT(char, at);
    case DEV_AT_ARENA:
        return there->arena + at;
    case DEV_AT_IN:
        return DEV_AT(char, dev_relaxed64(&board->in) + at);
    default:
        return DEV_AT(char, dev_relaxed64(&board->out) + at);
    }
}

/* At most one transfer of an event is under way. */
static inline void emu_check_event(const struct emu_rank *rank, const struct dev_order *order,
                                   uint32_t lane)
{
    for (uint32_t i = 0; order->kind == DEV_ORDER_MOVE && i < rank->norders; i++) {
        const struct emu_order *other = &rank->orders[i];
        if (other->order.kind == DEV_ORDER_MOVE && other->lane == lane &&
            other->order.event == order->event && other->order.number != order->number)
            emu_complain(rank->world, "two transfers of one event are under way");
    }
}

static inline void emu_take(struct emu_rank *rank)
{
    for (uint32_t lane = 0; lane < DEV_LANES && rank->norders < EMU_ORDERS; lane++) {
        struct dev_order *place = &rank->port->orders[lane][rank->head[lane] % DEV_ORDERS];
        if (dev_acquire32(&place->turn) != rank->head[lane] + 1)
            continue;
        if (emu_draw(&rank->random) % 4 == 0)
            continue;
        emu_check_event(rank, place, lane);
        struct emu_order *taken = &rank->orders[rank->norders++];
        *taken = (struct emu_order){.order = *place, .lane = lane, .serial = rank->head[lane]};
        /* Nothing is done for a while, at times a long one. */
        if (emu_draw(&rank->random) % 2)
            taken->hold =
                (uint32_t)(emu_draw(&rank->random) % (emu_draw(&rank->random) % 8 ? 8 : 4000));
        if (place->kind == DEV_ORDER_MOVE && !(place->flags & DEV_ORDER_MORE))
            rank->whole[lane][place->event] = place->number;
        dev_release32(&rank->port->head[lane], ++rank->head[lane]);
    }
}

/* 1: an earlier order of the lane that `later` has to stand behind. */
static inline int emu_before(const struct emu_order *other, const struct emu_order *later)
{
    const struct dev_order *a = &other->order, *b = &later->order;
    if (other->lane != later->lane || other->serial >= later->serial)
        return 0;
    if (a->kind == DEV_ORDER_SIGNAL)
        return a->sem == b->sem && !DEV_BUG(43);
    if (a->kind == DEV_ORDER_STORE)
        return a->dst_rank == b->dst_rank && !DEV_BUG(41);
    if (b->event == DEV_NO_EVENT || a->event != b->event || (int32_t)(a->number - b->number) > 0)
        return 0;
    /* Pieces that went by another queue pair: only those of the first are waited for. */
    return !DEV_BUG(36) || !(a->flags & DEV_ORDER_MORE);
}

static inline int emu_try_signal(struct emu_rank *rank, const struct emu_order *item)
{
    const struct dev_order *o = &item->order;
    for (uint32_t i = 0; i < rank->norders; i++)
        if (emu_before(&rank->orders[i], item))
            return 0;
    uint64_t *cell = (uint64_t *)(void *)emu_address(rank, o->dst_space, o->dst_rank, o->dst);
    if ((uint32_t)dev_relaxed64(cell) + 1 != o->count)
        emu_complain(rank->world, "signals of a semaphore came out of order");
    dev_release64(cell, (uint64_t)o->digest << 32 | o->count);
    uint32_t *raised = (uint32_t *)(void *)(rank->port + 1);
    dev_release32(&raised[o->sem], o->count);
    return 1;
}

/* The transfer's other pieces that are still to be read, or written. */
static inline int emu_last_piece(const struct emu_rank *rank, const struct emu_order *item,
                                 int reading)
{
    for (uint32_t i = 0; i < rank->norders; i++) {
        const struct emu_order *other = &rank->orders[i];
        if (other != item && other->order.kind == DEV_ORDER_MOVE && other->lane == item->lane &&
            other->order.event == item->order.event && other->order.number == item->order.number &&
            (!reading || !other->read))
            return 0;
    }
    return 1;
}

/* Pieces of a transfer come one by one: its last one has to have come. */
static inline int emu_complete(const struct emu_rank *rank, const struct emu_order *item)
{
    return (int32_t)(rank->whole[item->lane][item->order.event] - item->order.number) >= 0;
}

static inline void emu_tell(struct emu_rank *rank, const struct emu_order *item, int delivered)
{
    const struct dev_order *o = &item->order;
    dev_release32(delivered ? &rank->port->delivered[item->lane][o->event]
                            : &rank->port->freed[item->lane][o->event],
                  o->number);
}

/* Reads all, and later writes some. 1: done. */
static inline int emu_try_move(struct emu_rank *rank, struct emu_order *item)
{
    const struct dev_order *o = &item->order;
    if (!emu_complete(rank, item))
        return 0;
    char *dst = emu_address(rank, o->dst_space, o->dst_rank, o->dst);
    if (!item->read) {
        item->read = 1;
        if (DEV_BUG(38) && emu_last_piece(rank, item, 1))
            emu_tell(rank, item, 0);
        if (DEV_BUG(38))
            emu_sleep(50);
        item->bounce = malloc(o->bytes ? o->bytes : 1);
        if (o->bytes)
            memcpy(item->bounce, emu_address(rank, o->src_space, o->src_rank, o->src), o->bytes);
        if (!DEV_BUG(38) && emu_last_piece(rank, item, 1))
            emu_tell(rank, item, 0);
        if (DEV_BUG(37) && emu_last_piece(rank, item, 1))
            emu_tell(rank, item, 1);
        return 0;
    }
    uint64_t left = o->bytes - item->done;
    uint64_t part = left > 1 ? 1 + emu_draw(&rank->random) % left : left;
    if (part)
        memcpy(dst + item->done, item->bounce + item->done, part);
    item->done += part;
    if (item->done < o->bytes)
        return 0;
    free(item->bounce);
    if (emu_last_piece(rank, item, 0) && !DEV_BUG(37))
        emu_tell(rank, item, 1);
    return 1;
}

static inline int emu_try_store(struct emu_rank *rank, const struct emu_order *item)
{
    const struct dev_order *o = &item->order;
    uint64_t *cell = (uint64_t *)(void *)emu_address(rank, o->dst_space, o->dst_rank, o->dst);
    dev_set64(cell, o->src);
    return 1;
}

static inline void emu_serve(struct emu_rank *rank)
{
    if (!rank->norders)
        return;
    uint32_t at = (uint32_t)(emu_draw(&rank->random) % rank->norders);
    struct emu_order *item = &rank->orders[at];
    if (item->hold) {
        item->hold--;
        return;
    }
    int done = item->order.kind == DEV_ORDER_MOVE     ? emu_try_move(rank, item)
               : item->order.kind == DEV_ORDER_SIGNAL ? emu_try_signal(rank, item)
                                                      : emu_try_store(rank, item);
    if (done)
        rank->orders[at] = rank->orders[--rank->norders];
}

static void *emu_service(void *argument)
{
    struct emu_rank *rank = argument;
    while (!__atomic_load_n(&rank->world->stop, __ATOMIC_ACQUIRE) || rank->norders) {
        uint64_t mood = emu_draw(&rank->random) % 64;
        if (__atomic_load_n(&rank->port->abort, __ATOMIC_RELAXED))
            return NULL;
        emu_take(rank);
        for (uint32_t i = 0; i < 4; i++)
            emu_serve(rank);
        if (mood == 0 || !rank->norders)
            emu_sleep((uint32_t)(emu_draw(&rank->random) % 30));
    }
    return NULL;
}

/* ---- worlds */

static inline void *emu_zeroed(size_t bytes)
{
    size_t whole = (bytes + 127) / 128 * 128;
    void *memory = aligned_alloc(128, whole);
    return memory ? memset(memory, 0, whole) : NULL;
}

#define EMU_STAGES 3u
#define EMU_STAGE_BYTES 256u

static inline void emu_make_rank(struct emu_world *world, uint32_t r)
{
    struct emu_rank *rank = &world->ranks[r];
    const struct dev_layout *layout = &world->layout;
    struct dev_state first;
    dev_state_layout(&first, world->nranks, layout->nsems);
    rank->world = world;
    rank->arena = emu_zeroed(layout->total);
    rank->state = emu_zeroed(first.total);
    *rank->state = first;
    rank->port = emu_zeroed(dev_port_bytes(world->nranks, layout->nsems));
    rank->orders = calloc(EMU_ORDERS, sizeof *rank->orders);
    if (peal_dev_image_make(world->ctx, world->table, r, layout, &rank->image, &rank->image_bytes,
                            NULL) != PEAL_OK)
        exit(1);
    rank->host = peal_plan_program(world->table->rows[0].plan, r)->host;
    rank->random = (world->seed + r + 77) * 0x9e3779b97f4a7c15u | 1;
    rank->rank = (struct dev_rank){.image = (uint64_t)(uintptr_t)rank->image,
                                   .state = (uint64_t)(uintptr_t)rank->state,
                                   .peers = (uint64_t)(uintptr_t)rank->peers,
                                   .port = (uint64_t)(uintptr_t)rank->port,
                                   .rank = r,
                                   .nranks = world->nranks,
                                   .flags = DEV_RANK_BULK,
                                   .stages = EMU_STAGES,
                                   .stage_bytes = EMU_STAGE_BYTES};
}

/* Ranks whose programs are of different hosts do not reach each other. */
static inline struct emu_world *emu_create(peal_ctx *ctx, const peal_table *table, uint32_t width,
                                           uint64_t seed)
{
    struct emu_world *world = calloc(1, sizeof *world);
    world->ctx = ctx;
    world->table = table;
    world->nranks = table->nranks;
    world->width = width;
    world->seed = seed;
    if (world->nranks > EMU_RANKS || peal_dev_layout_make(table, &world->layout, NULL) != PEAL_OK)
        exit(1);
    for (uint32_t r = 0; r < world->nranks; r++)
        emu_make_rank(world, r);
    for (uint32_t r = 0; r < world->nranks; r++)
        for (uint32_t p = 0; p < world->nranks; p++)
            if (world->ranks[r].host == world->ranks[p].host)
                world->ranks[r].peers[p].arena = (uint64_t)(uintptr_t)world->ranks[p].arena;
    return world;
}

static inline void emu_destroy(struct emu_world *world)
{
    for (uint32_t r = 0; r < world->nranks; r++) {
        struct emu_rank *rank = &world->ranks[r];
        peal_free(world->ctx, rank->image, rank->image_bytes);
        for (uint32_t i = 0; i < rank->norders; i++)
            if (rank->orders[i].read)
                free(rank->orders[i].bounce);
        free(rank->orders);
        free(rank->arena);
        free(rank->state);
        free(rank->port);
    }
    free(world);
}

/* ---- calls */

static void *emu_thread_main(void *argument)
{
    struct emu_thread *self = argument;
    struct emu_world *world = self->block->rank->world;
    dev_run_lane(&self->dev, &self->block->rank->call);
    if (self->dev.tid == 0 && self->block->nbulks && !self->dev.failed)
        emu_complain(world, "a block ended with bulk copies under way");
    return NULL;
}

static inline void emu_launch(struct emu_rank *rank)
{
    struct emu_world *world = rank->world;
    const struct dev_row *row = peal_dev_rows(rank->image) + rank->call.row;
    rank->nblocks = row->nlanes;
    rank->blocks = emu_zeroed(rank->nblocks * sizeof *rank->blocks);
    rank->threads = calloc((size_t)rank->nblocks * world->width, sizeof *rank->threads);
    for (uint32_t i = 0; i < rank->nblocks * world->width; i++) {
        struct emu_thread *t = &rank->threads[i];
        struct emu_block *b = &rank->blocks[i / world->width];
        if (i % world->width == 0) {
            b->rank = rank;
            b->threads = world->width;
            b->stages = emu_zeroed((size_t)EMU_STAGES * EMU_STAGE_BYTES);
            b->dev.stages = b->stages;
        }
        t->block = b;
        t->random = (world->seed * 31 + rank->rank.rank * 1009 + i) * 0x9e3779b97f4a7c15u | 1;
        t->dev = (struct dev_thread){.block = &b->dev,
                                     .tid = i % world->width,
                                     .threads = world->width,
                                     .lane = i / world->width,
                                     .host = t};
        if (pthread_create(&t->handle, NULL, emu_thread_main, t) != 0)
            exit(1);
    }
}

static inline void emu_join(struct emu_rank *rank)
{
    for (uint32_t i = 0; i < rank->nblocks * rank->world->width; i++)
        (void)pthread_join(rank->threads[i].handle, NULL);
    for (uint32_t i = 0; i < rank->nblocks; i++) {
        for (uint32_t k = 0; k < rank->blocks[i].nbulks; k++)
            free(rank->blocks[i].bulks[k].bounce);
        free(rank->blocks[i].stages);
    }
    free(rank->blocks);
    free(rank->threads);
}

static inline int emu_reported(const struct emu_world *world)
{
    for (uint32_t r = 0; r < world->nranks; r++)
        if (dev_acquire32(&world->ranks[r].port->report.status) == DEV_REPORT_MISMATCH)
            return 1;
    return 0;
}

/* 1: they did not come to an end, and were made to; so are the others when one reports. */
static inline int emu_watch(struct emu_world *world, int limit_ms)
{
    for (int i = 0; i < limit_ms * 10; i++) {
        if (__atomic_load_n(&world->running, __ATOMIC_ACQUIRE) == 0)
            return 0;
        emu_sleep(i < 20 ? 20 : 100);
        if (emu_reported(world))
            break;
    }
    for (uint32_t how = 1; how <= 2; how++) {
        for (uint32_t r = 0; r < world->nranks; r++)
            __atomic_store_n(&world->ranks[r].port->abort, how, __ATOMIC_RELEASE);
        for (int i = 0; i < 200 && __atomic_load_n(&world->running, __ATOMIC_ACQUIRE); i++)
            emu_sleep(1000);
    }
    return 1;
}

/* A rank's calls, with no regard for how far others are. */
static void *emu_stream(void *argument)
{
    struct emu_rank *rank = argument;
    for (uint32_t i = 0; i < rank->ncalls; i++) {
        rank->call = rank->calls[i];
        if (emu_draw(&rank->stream_random) % 2)
            emu_sleep((uint32_t)(emu_draw(&rank->stream_random) % 200));
        emu_launch(rank);
        emu_join(rank);
    }
    (void)__atomic_sub_fetch(&rank->world->running, 1, __ATOMIC_ACQ_REL);
    return NULL;
}

static inline int emu_needs_service(const struct emu_rank *rank)
{
    uint32_t engines = 0;
    for (uint32_t i = 0; i < rank->ncalls; i++)
        engines |= peal_dev_rows(rank->image)[rank->calls[i].row].engines;
    return (engines >> PEAL_ENGINE_CE) != 0;
}

static inline const char *emu_verdict(const struct emu_world *world, int late)
{
    if (emu_reported(world))
        return "a rank reports that another makes another call";
    return late ? "the calls do not come to an end"
                : __atomic_load_n(&world->complaint, __ATOMIC_RELAXED);
}

/* Calls of all ranks, who have `calls` and `ncalls`. NULL: all have returned. */
static inline const char *emu_run(struct emu_world *world, int limit_ms)
{
    __atomic_store_n(&world->stop, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&world->running, world->nranks, __ATOMIC_RELEASE);
    for (uint32_t r = 0; r < world->nranks; r++) {
        struct emu_rank *rank = &world->ranks[r];
        rank->serves = emu_needs_service(rank);
        rank->stream_random = (world->seed * 7 + r) * 0x9e3779b97f4a7c15u | 1;
        if ((rank->serves && pthread_create(&rank->service, NULL, emu_service, rank) != 0) ||
            pthread_create(&rank->stream, NULL, emu_stream, rank) != 0)
            exit(1);
    }
    int late = emu_watch(world, limit_ms);
    for (uint32_t r = 0; r < world->nranks; r++)
        (void)pthread_join(world->ranks[r].stream, NULL);
    __atomic_store_n(&world->stop, 1, __ATOMIC_RELEASE);
    for (uint32_t r = 0; r < world->nranks; r++)
        if (world->ranks[r].serves)
            (void)pthread_join(world->ranks[r].service, NULL);
    return emu_verdict(world, late);
}

#endif
