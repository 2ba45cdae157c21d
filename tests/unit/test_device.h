/* SPDX-License-Identifier: Apache-2.0 */
/* Checked calls of the device interpreter on the host. */
#ifndef PEAL_TESTS_DEVICE_H
#define PEAL_TESTS_DEVICE_H

#include "dev_emulate.h"
#include "test_run_moves.h"

/* The wait for a call that hangs. */
#ifndef DEVICE_LIMIT_MS
#define DEVICE_LIMIT_MS 20000
#endif

#define DEVICE_CALLS 6u

/* Of each rank and call, two halves; counts of an alltoallv. */
struct device_memory {
    size_t half;
    size_t shift; /* bytes by which buffers are off their alignment to 16 */
    int damage;   /* the last rank makes another call first */
    struct {
        char *halves;
        uint64_t send[EMU_RANKS];
        uint64_t got[EMU_RANKS];
    } of[EMU_RANKS][DEVICE_CALLS];
    struct dev_call call[EMU_RANKS][DEVICE_CALLS];
};

static inline struct device_memory *device_memory_make(size_t half)
{
    struct device_memory *memory = calloc(1, sizeof *memory);
    memory->half = half;
    for (uint32_t r = 0; r < EMU_RANKS; r++)
        for (uint32_t i = 0; i < DEVICE_CALLS; i++)
            memory->of[r][i].halves = emu_zeroed(2 * half + 256);
    return memory;
}

static inline void device_memory_free(struct device_memory *memory)
{
    for (uint32_t r = 0; r < EMU_RANKS; r++)
        for (uint32_t i = 0; i < DEVICE_CALLS; i++)
            free(memory->of[r][i].halves);
    free(memory);
}

/* Rank r's part of call i. */
static inline void device_fill(struct emu_world *world, const struct coll_call *c, uint32_t r,
                               uint32_t i, struct device_memory *memory)
{
    uint32_t row;
    struct coll_buffers b = coll_lay(c, r, memory->of[r][i].halves + memory->shift, memory->half);
    if (peal_table_lookup(world->table, c->collective, c->root, c->peer, coll_bytes(c), &row) !=
        PEAL_OK)
        exit(1);
    if (b.out)
        memset(b.out - (c->in_place ? 0 : GUARD), 0xee,
               b.out_bytes + (c->in_place ? 0 : 2 * GUARD));
    coll_fill(c, r, &b);
    for (uint32_t p = 0; p < world->nranks; p++)
        memory->of[r][i].send[p] = coll_length(c, r, p);
    memory->call[r][i] =
        (struct dev_call){.rank = (uint64_t)(uintptr_t)&world->ranks[r].rank,
                          .in = (uint64_t)(uintptr_t)b.in,
                          .out = (uint64_t)(uintptr_t)b.out,
                          .shared_in = (uint64_t)(uintptr_t)b.in,
                          .shared_out = (uint64_t)(uintptr_t)b.out,
                          .send_counts = (uint64_t)(uintptr_t)memory->of[r][i].send,
                          .recv_counts = (uint64_t)(uintptr_t)memory->of[r][i].got};
    peal_dev_call_fill(world->table->rows[row].plan, row, c->count, c->dtype, c->op, c->in_place,
                       &memory->call[r][i]);
}

static inline int device_check(const struct coll_call *c, uint32_t r, uint32_t i,
                               const struct device_memory *memory, char problem[1024])
{
    struct coll_buffers b = coll_lay(c, r, memory->of[r][i].halves + memory->shift, memory->half);
    if (coll_check(c, r, &b, problem))
        return 1;
    for (uint32_t p = 0; c->collective == PEAL_ALLTOALLV && p < c->ranks; p++)
        if (memory->of[r][i].got[p] != coll_length(c, p, r))
            return coll_say(c, r, problem, "count", p, 0, 0);
    return 0;
}

/* Calls back to back, on ranks that do not wait for each other. 0: all right. */
static inline int device_calls(struct emu_world *world, const struct coll_call *calls,
                               uint32_t ncalls, struct device_memory *memory, char problem[1024])
{
    for (uint32_t r = 0; r < world->nranks; r++) {
        for (uint32_t i = 0; i < ncalls; i++)
            device_fill(world, &calls[i], r, i, memory);
        if (memory->damage && r + 1 == world->nranks)
            memory->call[r][0].key ^= 1;
        world->ranks[r].calls = memory->call[r];
        world->ranks[r].ncalls = ncalls;
    }
    const char *what = emu_run(world, DEVICE_LIMIT_MS);
    if (what)
        return coll_say(&calls[0], 0, problem, what, 0, 0, 0);
    for (uint32_t r = 0; r < world->nranks; r++)
        for (uint32_t i = 0; i < ncalls; i++)
            if (device_check(&calls[i], r, i, memory, problem))
                return 1;
    return 0;
}

#endif
