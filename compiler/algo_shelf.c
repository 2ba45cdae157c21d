/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shelves: every rank lays what others need of its input into slots of its own, tells them all, and
 * takes what it needs out of theirs. One hand-shake, since nobody reaches for a caller's buffer and
 * slots are left alone until the call after next: for small messages on a host, where a hand-shake
 * of ranks that share processors costs as much as tens of kilobytes, and for buffers that others do
 * not see, which are copied once in any case.
 *
 * A broadcast's root lays its message out tile by tile, some tiles ahead of those who take them, so
 * that what they read is still in a cache. That is for buffers that the others do not see, of three
 * ranks and more: of two each moves one half (algo_pull.c).
 */
#include "compiler.h"

#include <stdio.h>

#define SHELF_RANKS_MAX 64u
#define SHELF_BYTES_MAX (64u << 10)
/* Four ranks on two processors took 8 MiB in 1.2 ms by tiles of 128 KiB, four of them laid out; in
 * 1.3 by tiles of half the size, and no less by larger ones (Intel Emerald Rapids). */
#define SHELF_TILE (128u << 10)
#define SHELF_TILES 4u

enum { SEM_LAID, SEM_TAKEN, SEM_ENTER, SEM_COUNT };

struct shelf {
    struct build *b;
    uint32_t n;
    uint32_t self;
};

/* ---- cost */

/* Of a rank's input what it lays out. */
static double laid_share(const struct planner *planner)
{
    double n = planner->group.n;
    switch (planner->request.collective) {
    case PEAL_ALLREDUCE:
        return 1;
    case PEAL_ALLGATHER:
        return 1 / n;
    default:
        return (n - 1) / n;
    }
}

/* What it takes from each other, and reads of its own. */
static double taken_share(const struct planner *planner)
{
    return planner->request.collective == PEAL_ALLREDUCE ? 1 : 1.0 / planner->group.n;
}

static uint32_t width_of(const struct planner *planner)
{
    peal_collective collective = planner->request.collective;
    return collective == PEAL_REDUCE_SCATTER || collective == PEAL_ALLTOALL ? planner->group.n : 1;
}

/* What a lane reads and writes counts half. Slots whose lines go to one reader come back from his
 * cache when they are laid out again; buffers that others read where they lie do not: eight ranks
 * took 18 us to reduce-scatter 32 KiB, and 11 by loads of the buffers (Intel Emerald Rapids). */
static double lane_share(const struct planner *planner)
{
    double n = planner->group.n, taken = taken_share(planner), laid = laid_share(planner);
    int folds = peal_plan_collective(planner->request.collective)->reduces;
    if (!planner->request.private_buffers && width_of(planner) > 1)
        laid *= 2;
    return laid + (folds ? (n + 1) / 2 : n) * taken;
}

static void load_pairs(struct planner *planner, struct stage *stage)
{
    for (uint32_t r = 0; r < planner->group.n; r++)
        for (uint32_t to = 0; to < planner->group.n; to++) {
            struct hop hop;
            if (to == r)
                continue;
            peal_planner_hop(planner, r, to, &hop);
            peal_planner_load(planner, &hop, taken_share(planner), 1);
            stage->alpha_us =
                hop.path.alpha_us > stage->alpha_us ? hop.path.alpha_us : stage->alpha_us;
            stage->gap_us = hop.path.gap_us > stage->gap_us ? hop.path.gap_us : stage->gap_us;
        }
    stage->gap_us *= planner->group.n - 2.0;
}

/* The others read at once what is in the cache that they share. */
static void load_readers(struct planner *planner, struct stage *stage)
{
    for (uint32_t r = 0; r < planner->group.n; r++) {
        struct hop hop;
        if (r == planner->request.root)
            continue;
        peal_planner_hop(planner, planner->request.root, r, &hop);
        peal_planner_load(planner, &hop, 1.0 / (planner->group.n - 1), 1);
        stage->alpha_us = hop.path.alpha_us > stage->alpha_us ? hop.path.alpha_us : stage->alpha_us;
        stage->gap_us = hop.path.gap_us > stage->gap_us ? hop.path.gap_us : stage->gap_us;
    }
    stage->gap_us *= planner->group.n - 2.0;
}

/* Laid out and taken: one hand-shake, and what is laid out is copied meanwhile. */
static peal_status add_broadcast(struct planner *planner)
{
    uint64_t tile = planner->request.tile_bytes;
    int asked = planner->algorithm == ALGO_SHELF;
    struct candidate candidate = {.algo = ALGO_SHELF,
                                  .order = ORDER_FOLD,
                                  .channels = 1,
                                  .max_bytes = UINT64_MAX,
                                  .tile_bytes = tile ? tile : SHELF_TILE,
                                  .chunks = 1,
                                  .lanes = 1,
                                  .slots = 2ull * SHELF_TILES / SLOT_DEPTH,
                                  .hop_share = 1};
    struct stage stage = {.levels = 2, .depth = SHELF_TILES};
    if (!asked && (planner->group.n == 2 || !planner->request.private_buffers))
        return PEAL_OK;
    load_readers(planner, &stage);
    stage.alpha_us /= 2;
    stage.gap_us /= 2;
    peal_candidate_stage(planner, &candidate, &stage, 1);
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    struct candidate candidate = {.algo = ALGO_SHELF,
                                  .order = ORDER_FOLD,
                                  .channels = 1,
                                  .max_bytes = SHELF_BYTES_MAX,
                                  .chunks = 1,
                                  .lanes = 1,
                                  .slots = 2ull * width_of(planner),
                                  .hop_share = taken_share(planner)};
    struct stage stage = {.levels = 1, .chain = 1};
    if (group->n < 2 || group->n > SHELF_RANKS_MAX || group->nhosts > 1 || !group->direct_hosts ||
        group->accelerators || planner->request.channels > 1)
        return PEAL_OK;
    if (planner->request.collective == PEAL_BROADCAST)
        return add_broadcast(planner);
    for (uint32_t i = 0; i < peal_plan_collective(planner->request.collective)->block_power; i++)
        candidate.chunks *= group->n;
    load_pairs(planner, &stage);
    /* What is laid out is fetched behind the flag, line by line, from the processor that has just
     * stored it. So are private buffers that are staged; others lie where they have lain. */
    stage.alpha_us *= planner->request.private_buffers ? 1 : 2;
    peal_candidate_stage(planner, &candidate, &stage, lane_share(planner));
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

/* ---- steps */

static struct plan_operand place(uint32_t rank, uint32_t slot)
{
    return peal_op_slot(rank, PLAN_BUF_SCRATCH, 0, slot);
}

static void lay(const struct shelf *s, uint32_t chunk, uint32_t slot)
{
    struct plan_operand src = peal_op_user(s->self, PLAN_BUF_IN, chunk);
    struct plan_operand dst = place(s->self, slot);
    peal_build_move(s->b, chunk, 1, &src, 1, &dst, PEAL_ENGINE_SM, 0);
}

static void meet(const struct shelf *s)
{
    for (uint32_t i = 1; i < s->n; i++)
        peal_build_signal(s->b, (s->self + i) % s->n, 0);
    for (uint32_t i = 1; i < s->n; i++)
        peal_build_wait(s->b, (s->self + i) % s->n, 0, 0);
}

/* All in rank order: the same bits on every rank that folds. */
static void fold(const struct shelf *s, uint32_t chunk, uint32_t slot)
{
    struct plan_operand src[SHELF_RANKS_MAX], out = peal_op_user(s->self, PLAN_BUF_OUT, chunk);
    for (uint32_t i = 0; i < s->n; i++)
        src[i] = i == s->self ? peal_op_user(i, PLAN_BUF_IN, chunk) : place(i, slot);
    peal_build_move(s->b, chunk, s->n, src, 1, &out, PEAL_ENGINE_SM, 1);
}

/* Chunk i * stride + offset of every rank i. */
static void take_all(const struct shelf *s, uint32_t stride, uint32_t offset, uint32_t slot)
{
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t from = (s->self + i) % s->n, chunk = from * stride + offset;
        struct plan_operand out = peal_op_user(s->self, PLAN_BUF_OUT, chunk);
        struct plan_operand src = i ? place(from, slot) : peal_op_user(s->self, PLAN_BUF_IN, chunk);
        peal_build_move(s->b, chunk, 1, &src, 1, &out, PEAL_ENGINE_SM, 0);
    }
}

static void lay_for_others(const struct shelf *s, uint32_t first)
{
    for (uint32_t i = 1; i < s->n; i++)
        lay(s, first + (s->self + i) % s->n, (s->self + i) % s->n);
}

static void give(const struct shelf *s)
{
    struct plan_operand in = peal_op_user(s->self, PLAN_BUF_IN, 0), shelf = place(s->self, 0);
    struct plan_operand out = peal_op_user(s->self, PLAN_BUF_OUT, 0);
    for (uint32_t i = 1; i < s->n; i++)
        peal_build_wait(s->b, (s->self + i) % s->n, SEM_TAKEN, SHELF_TILES);
    peal_build_move(s->b, 0, 1, &in, 1, &shelf, PEAL_ENGINE_SM, 0);
    for (uint32_t i = 1; i < s->n; i++)
        peal_build_signal(s->b, (s->self + i) % s->n, SEM_LAID);
    peal_build_move(s->b, 0, 1, &in, 1, &out, PEAL_ENGINE_SM, 0);
}

static void take(const struct shelf *s, uint32_t root)
{
    struct plan_operand shelf = place(root, 0), out = peal_op_user(s->self, PLAN_BUF_OUT, 0);
    peal_build_wait(s->b, root, SEM_LAID, 0);
    peal_build_move(s->b, 0, 1, &shelf, 1, &out, PEAL_ENGINE_SM, 0);
    peal_build_signal(s->b, root, SEM_TAKEN);
}

/* Whoever returns has heard that all others have entered; the root tells by what it lays out. */
static void broadcast(const struct shelf *s)
{
    uint32_t root = s->b->plan->root;
    for (uint32_t i = 1; i < s->n && s->self != root; i++)
        peal_build_signal(s->b, (s->self + i) % s->n, SEM_ENTER);
    peal_build_section(s->b, 1);
    if (s->self == root)
        give(s);
    else
        take(s, root);
    peal_build_section(s->b, 2);
    for (uint32_t i = 1; i < s->n; i++)
        if ((s->self + i) % s->n != root)
            peal_build_wait(s->b, (s->self + i) % s->n, SEM_ENTER, 0);
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    struct shelf s = {b, b->plan->nranks, rank};
    (void)candidate;
    peal_build_lane(b);
    if (b->plan->collective == PEAL_BROADCAST) {
        broadcast(&s);
        return;
    }
    peal_build_section(b, 1);
    switch (b->plan->collective) {
    case PEAL_ALLREDUCE:
        lay(&s, 0, 0);
        meet(&s);
        fold(&s, 0, 0);
        break;
    case PEAL_REDUCE_SCATTER:
        lay_for_others(&s, 0);
        meet(&s);
        fold(&s, rank, rank);
        break;
    case PEAL_ALLGATHER:
        lay(&s, rank, 0);
        meet(&s);
        take_all(&s, 1, 0, 0);
        break;
    default:
        lay_for_others(&s, rank * s.n);
        meet(&s);
        take_all(&s, s.n, rank, rank);
        break;
    }
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    int tiles = b->plan->collective == PEAL_BROADCAST;
    b->plan->nchunks = candidate->chunks;
    b->plan->nsems = tiles ? SEM_COUNT : 1;
    peal_build_region(b, PLAN_BUF_SCRATCH, width_of(b->planner), tiles ? SHELF_TILES : 1,
                      peal_build_slot_bytes(b));
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    (void)candidate;
    snprintf(text, size, "loads out of the others' slots");
}

const struct algo peal_algo_shelf = {"shelf",
                                     1u << PEAL_ALLREDUCE | 1u << PEAL_REDUCE_SCATTER |
                                         1u << PEAL_ALLGATHER | 1u << PEAL_ALLTOALL |
                                         1u << PEAL_BROADCAST,
                                     enumerate,
                                     prepare,
                                     emit,
                                     detail};
