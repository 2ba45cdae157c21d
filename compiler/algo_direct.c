/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct schedules: every rank moves what another needs straight into that rank's output, all at
 * once, after they have told each other that they have entered. One hop for each byte and two or
 * three start-ups. Reductions fold straight out of the inputs that loads reach, and out of slots
 * that the others pushed into.
 *
 * Each channel is a lane with its share of every block. Ranks turn to each other in rounds in
 * which everybody hears from one (pace.c). Where many send to one, at most `window` ranks of other
 * hosts do so at once, when the root has told them to.
 */
#include "compiler.h"

#include <stdio.h>

enum { SEM_ENTER, SEM_DATA, SEM_LEAVE, SEM_GRANT, SEM_COUNT };

struct direct {
    struct build *b;
    uint32_t n;
    uint32_t self;
    uint32_t root;
    uint32_t channels;
    uint32_t channel;
    uint32_t window;
    peal_collective collective;
};

/* ---- steps ------------------------------------------------------------------------ */

static uint32_t chunk_of(const struct direct *d, uint32_t block)
{
    return block * d->channels + d->channel;
}

static uint32_t sem(const struct direct *d, uint32_t which)
{
    return SEM_COUNT * d->channel + which;
}

/* On one host the channels begin with different ranks: the links of a mesh are all at work. */
static uint32_t round_of(const struct direct *d, uint32_t i)
{
    if (i == 0 || d->b->planner->group.nhosts > 1)
        return i;
    return 1 + (i - 1 + d->channel) % (d->n - 1);
}

/* The round in which a lane does what comes i-th. On one host channels copy the rank's own block at
 * different times, so that others use the links meanwhile; between hosts last, when NICs have what
 * they are to move. */
static uint32_t nth_round(const struct direct *d, uint32_t i)
{
    uint32_t own = d->b->planner->group.nhosts > 1 ? d->n - 1 : d->channel % d->n;
    return i == own ? 0 : i < own ? i + 1 : i;
}

/* The rank to turn to in round i; itself in round 0. */
static uint32_t other(const struct direct *d, uint32_t i)
{
    return peal_pace_to(&d->b->planner->group, d->self, round_of(d, i));
}

/* The rank that turns to this one in round i. */
static uint32_t sender(const struct direct *d, uint32_t i)
{
    return peal_pace_from(&d->b->planner->group, d->self, round_of(d, i));
}

static int engine_to(const struct direct *d, uint32_t rank)
{
    struct hop hop = {.engine = PEAL_ENGINE_SM};
    if (rank != d->self)
        peal_planner_hop(d->b->planner, d->self, rank, &hop);
    return hop.engine;
}

/* 1: the rank sends to the root only when it is told to. */
static int windowed(const struct direct *d, uint32_t rank)
{
    const struct group *group = &d->b->planner->group;
    return d->window && peal_group_host(group, rank) != peal_group_host(group, d->root);
}

static void tell_all(const struct direct *d, uint32_t which)
{
    for (uint32_t i = 1; i < d->n; i++)
        peal_build_signal(d->b, other(d, i), sem(d, which));
}

static void hear_all(const struct direct *d, uint32_t which)
{
    for (uint32_t i = 1; i < d->n; i++)
        peal_build_wait(d->b, sender(d, i), sem(d, which), 0);
}

/* All ranks tell the root that they have entered; the root waits for all of them. */
static void enter_root(const struct direct *d)
{
    if (d->self == d->root)
        hear_all(d, SEM_ENTER);
    else
        peal_build_signal(d->b, d->root, sem(d, SEM_ENTER));
}

/* Stores one chunk of the own input, and tells the owners. */
static void store(const struct direct *d, uint32_t chunk, uint32_t count,
                  const struct plan_operand *dst)
{
    struct plan_operand src = peal_op_user(d->self, PLAN_BUF_IN, chunk);
    if (count)
        peal_build_move(d->b, chunk, 1, &src, count, dst, PEAL_ENGINE_SM, 0);
    for (uint32_t i = 0; i < count; i++)
        if (dst[i].rank != d->self)
            peal_build_signal(d->b, dst[i].rank, sem(d, SEM_DATA));
}

static void push(const struct direct *d, uint32_t chunk, uint32_t rank)
{
    peal_build_push(d->b, chunk, peal_op_user(d->self, PLAN_BUF_IN, chunk),
                    peal_op_user(rank, PLAN_BUF_OUT, chunk), sem(d, SEM_DATA));
}

static void spread_to(const struct direct *d, uint32_t chunk, uint32_t rank)
{
    struct plan_operand dst = peal_op_user(rank, PLAN_BUF_OUT, chunk);
    if (engine_to(d, rank) == PEAL_ENGINE_SM)
        store(d, chunk, 1, &dst);
    else
        push(d, chunk, rank);
}

/* Moves one chunk of the own input to all outputs. Stores come first: in place one of them writes
 * the chunk onto itself, which no transfer may then be reading. */
static void spread(const struct direct *d, uint32_t chunk)
{
    struct plan_operand dst[PLAN_OPERANDS_MAX];
    uint32_t stores = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        if (engine_to(d, other(d, i)) != PEAL_ENGINE_SM)
            continue;
        dst[stores++] = peal_op_user(other(d, i), PLAN_BUF_OUT, chunk);
        if (stores < PLAN_OPERANDS_MAX)
            continue;
        store(d, chunk, stores, dst);
        stores = 0;
    }
    store(d, chunk, stores, dst);
    for (uint32_t i = 1; i < d->n; i++)
        if (engine_to(d, other(d, i)) != PEAL_ENGINE_SM)
            push(d, chunk, other(d, i));
}

/* The slot of the folding rank in which `from` leaves its contribution. */
static uint32_t slot_of(uint32_t from, uint32_t folder)
{
    return from - (from > folder ? 1 : 0);
}

/* Pushes the own contribution to a rank that loads do not reach. */
static void contribute(const struct direct *d, uint32_t chunk, uint32_t folder)
{
    if (folder == d->self || peal_build_direct(d->b, folder))
        return;
    peal_build_push(d->b, chunk, peal_op_user(d->self, PLAN_BUF_IN, chunk),
                    peal_op_slot(folder, PLAN_BUF_SCRATCH, d->channel, slot_of(d->self, folder)),
                    sem(d, SEM_DATA));
}

static struct plan_operand contribution(const struct direct *d, uint32_t chunk, uint32_t rank)
{
    if (peal_build_direct(d->b, rank))
        return peal_op_user(rank, PLAN_BUF_IN, chunk);
    if (!windowed(d, rank)) /* those are heard of as they are told to send */
        peal_build_wait(d->b, rank, sem(d, SEM_DATA), 0);
    return peal_op_slot(d->self, PLAN_BUF_SCRATCH, d->channel, slot_of(rank, d->self));
}

/* Folds all contributions to a chunk into the own output: in rank order where one step holds
 * them; else from the own one on, as in place the first step overwrites it, each further step
 * adding to what the one before has left there. No other rank folds this chunk, so all see one
 * order and one rounding. */
static void fold(const struct direct *d, uint32_t chunk)
{
    struct plan_operand src[PLAN_OPERANDS_MAX];
    struct plan_operand out = peal_op_user(d->self, PLAN_BUF_OUT, chunk);
    uint32_t first = d->n > PLAN_OPERANDS_MAX ? d->self : 0;
    for (uint32_t i = 0; i < d->n;) {
        uint32_t count = 0;
        if (i)
            src[count++] = out;
        for (; i < d->n && count < PLAN_OPERANDS_MAX; i++)
            src[count++] = contribution(d, chunk, (first + i) % d->n);
        peal_build_move(d->b, chunk, count, src, 1, &out, PEAL_ENGINE_SM, i == d->n);
    }
}

/* Lets ranks of other hosts send, `window` at a time, until all have. */
static void grant_all(const struct direct *d, uint32_t which)
{
    uint32_t granted = 0, heard = 0, next = 1;
    for (uint32_t i = 1; i < d->n; i++) {
        if (!windowed(d, sender(d, i)))
            continue;
        for (; next < d->n && granted < heard + d->window; next++) {
            if (!windowed(d, sender(d, next)))
                continue;
            peal_build_signal(d->b, sender(d, next), sem(d, which));
            granted++;
        }
        peal_build_wait(d->b, sender(d, i), sem(d, SEM_DATA), 0);
        heard++;
    }
}

/* ---- collectives --------------------------------------------------------------------- */

static void allgather(const struct direct *d)
{
    tell_all(d, SEM_ENTER);
    hear_all(d, SEM_ENTER);
    peal_build_section(d->b, 1);
    spread(d, chunk_of(d, d->self));
    hear_all(d, SEM_DATA);
}

/* Who says that it has entered says what it will send, too; once, on the first channel. */
static void enter_all(const struct direct *d)
{
    int counts = d->collective == PEAL_ALLTOALLV && d->channel == 0;
    for (uint32_t i = 1; i < d->n && counts; i++)
        peal_build_tell(d->b, other(d, i), sem(d, SEM_ENTER));
    for (uint32_t i = 1; i < d->n && counts; i++)
        peal_build_learn(d->b, other(d, i), sem(d, SEM_ENTER));
    if (counts)
        return;
    tell_all(d, SEM_ENTER);
    hear_all(d, SEM_ENTER);
}

/* A block for each rank, the first of them being chunk `first`. On one host lanes store while what
 * other engines move is on its way; between hosts both take turns, since there may be more for NICs
 * than a lane has under way. */
static void spread_blocks(const struct direct *d, uint32_t first)
{
    int turns = d->b->planner->group.nhosts > 1 ? 1 : 2;
    for (int turn = 0; turn < turns; turn++)
        for (uint32_t i = 0; i < d->n; i++) {
            uint32_t to = other(d, nth_round(d, i));
            if (turns == 1 || (engine_to(d, to) == PEAL_ENGINE_SM) == turn)
                spread_to(d, chunk_of(d, first + to), to);
        }
}

static void alltoall(const struct direct *d)
{
    enter_all(d);
    peal_build_section(d->b, 1);
    spread_blocks(d, d->self * d->n);
    hear_all(d, SEM_DATA);
}

static void reduce_scatter(const struct direct *d)
{
    tell_all(d, SEM_ENTER);
    hear_all(d, SEM_ENTER);
    peal_build_section(d->b, 1);
    for (uint32_t i = 1; i < d->n; i++)
        contribute(d, chunk_of(d, other(d, i)), other(d, i));
    fold(d, chunk_of(d, d->self));
    peal_build_section(d->b, 2);
    tell_all(d, SEM_LEAVE);
    hear_all(d, SEM_LEAVE);
}

static void broadcast(const struct direct *d)
{
    enter_root(d);
    peal_build_section(d->b, 1);
    if (d->self == d->root)
        spread(d, chunk_of(d, 0));
    else
        peal_build_wait(d->b, d->root, sem(d, SEM_DATA), 0);
}

static void reduce(const struct direct *d)
{
    enter_root(d);
    peal_build_section(d->b, 1);
    if (d->self == d->root) {
        grant_all(d, SEM_GRANT);
        fold(d, chunk_of(d, 0));
    } else {
        if (windowed(d, d->self))
            peal_build_wait(d->b, d->root, sem(d, SEM_GRANT), 0);
        contribute(d, chunk_of(d, 0), d->root);
    }
    peal_build_section(d->b, 2);
    /* The root has read the inputs, and has heard that all have entered. */
    if (d->self == d->root)
        tell_all(d, SEM_LEAVE);
    else
        peal_build_wait(d->b, d->root, sem(d, SEM_LEAVE), 0);
}

static void scatter(const struct direct *d)
{
    enter_root(d);
    peal_build_section(d->b, 1);
    if (d->self == d->root)
        spread_blocks(d, 0);
    else
        peal_build_wait(d->b, d->root, sem(d, SEM_DATA), 0);
}

/* At the root, whom nobody has to wait for goes on at once. */
static void gather_here(const struct direct *d)
{
    for (uint32_t i = 1; i < d->n; i++)
        if (!windowed(d, sender(d, i)))
            peal_build_signal(d->b, sender(d, i), sem(d, SEM_LEAVE));
    peal_build_section(d->b, 1);
    spread_to(d, chunk_of(d, d->self), d->root);
    grant_all(d, SEM_LEAVE);
    for (uint32_t i = 1; i < d->n; i++)
        if (!windowed(d, sender(d, i)))
            peal_build_wait(d->b, sender(d, i), sem(d, SEM_DATA), 0);
}

static void gather(const struct direct *d)
{
    enter_root(d);
    if (d->self == d->root) {
        gather_here(d);
        return;
    }
    if (windowed(d, d->self)) /* granted in the body */
        peal_build_section(d->b, 1);
    peal_build_wait(d->b, d->root, sem(d, SEM_LEAVE), 0);
    peal_build_section(d->b, 1);
    spread_to(d, chunk_of(d, d->self), d->root);
}

static void barrier(const struct direct *d)
{
    const struct group *group = &d->b->planner->group;
    for (uint32_t k = 0; k < peal_pace_barrier(group); k++) {
        uint32_t round = peal_pace_barrier_round(group, k);
        peal_build_signal(d->b, peal_pace_to(group, d->self, round), sem(d, SEM_ENTER));
        peal_build_wait(d->b, peal_pace_from(group, d->self, round), sem(d, SEM_ENTER), 0);
    }
}

/* One block between two ranks: the receiver's entry comes first, the data behind it. */
static void send_one(const struct direct *d, uint32_t peer)
{
    if (d->self == peer)
        peal_build_signal(d->b, d->root, sem(d, SEM_ENTER));
    else
        peal_build_wait(d->b, peer, sem(d, SEM_ENTER), 0);
    peal_build_section(d->b, 1);
    if (d->self == d->root)
        spread_to(d, chunk_of(d, 0), peer);
    else
        peal_build_wait(d->b, d->root, sem(d, SEM_DATA), 0);
}

/* The own blocks that stores move, from the first-th to the one before the end-th, or those that
 * other engines do; returns how many stores there are. */
static uint32_t send_listed(const struct direct *d, int stores, uint32_t first, uint32_t end)
{
    uint32_t from, to, count = 0;
    for (uint32_t i = 0; peal_planner_pair(d->b->planner, i, &from, &to); i++) {
        int own = from == d->self && (engine_to(d, to) == PEAL_ENGINE_SM) == stores;
        if (own && count >= first && count < end)
            spread_to(d, chunk_of(d, i), to);
        count += own ? 1 : 0;
    }
    return count;
}

/* What other engines move is on its way while lanes store, each of them to another rank first, so
 * that all links are at work. */
static void send_all_listed(const struct direct *d)
{
    uint32_t stores = send_listed(d, 1, 0, 0), first = stores ? d->channel % stores : 0;
    (void)send_listed(d, 0, 0, UINT32_MAX);
    (void)send_listed(d, 1, first, UINT32_MAX);
    (void)send_listed(d, 1, 0, first);
}

/* Calls are numbered, and one that somebody could leave before everybody is in it would let him
 * into the call after next, whose scratch a rank may still be using: those who neither send nor
 * receive take part in the barrier. */
static void sendrecv(const struct direct *d)
{
    const struct planner *planner = d->b->planner;
    uint32_t from, to;
    if (d->n == 2 && !planner->npairs) {
        send_one(d, 1 - d->root);
        return;
    }
    barrier(d);
    peal_build_section(d->b, 1);
    send_all_listed(d);
    for (uint32_t i = 0; peal_planner_pair(planner, i, &from, &to); i++)
        if (to == d->self && from != to)
            peal_build_wait(d->b, from, sem(d, SEM_DATA), 0);
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    static void (*const program[PEAL_COLLECTIVE_COUNT])(const struct direct *) = {
        [PEAL_REDUCE_SCATTER] = reduce_scatter,
        [PEAL_ALLGATHER] = allgather,
        [PEAL_BROADCAST] = broadcast,
        [PEAL_REDUCE] = reduce,
        [PEAL_SCATTER] = scatter,
        [PEAL_GATHER] = gather,
        [PEAL_ALLTOALL] = alltoall,
        [PEAL_SENDRECV] = sendrecv,
        [PEAL_BARRIER] = barrier,
        [PEAL_ALLTOALLV] = alltoall,
    };
    struct direct d = {.b = b,
                       .n = b->plan->nranks,
                       .self = rank,
                       .root = b->plan->root,
                       .channels = candidate->channels,
                       .window = candidate->window,
                       .collective = b->plan->collective};
    b->in_flight = BURST_EVENTS;
    for (; d.channel < d.channels; d.channel++) {
        peal_build_lane(b);
        program[d.collective](&d);
        peal_build_drain(b);
    }
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    b->plan->nsems = (uint16_t)(SEM_COUNT * candidate->channels);
    for (uint32_t c = 0; candidate->slots && c < candidate->channels; c++)
        peal_build_region(b, PLAN_BUF_SCRATCH, b->plan->nranks - 1, 1, peal_build_slot_bytes(b));
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    char window[48] = "";
    if (candidate->window)
        snprintf(window, sizeof window, ", %u of other hosts at once", candidate->window);
    snprintf(text, size, "every rank to every rank that needs it, %u lane%s%s", candidate->channels,
             candidate->channels == 1 ? "" : "s", window);
}

const struct algo peal_algo_direct = {
    "direct",
    1u << PEAL_REDUCE_SCATTER | 1u << PEAL_ALLGATHER | 1u << PEAL_BROADCAST | 1u << PEAL_REDUCE |
        1u << PEAL_SCATTER | 1u << PEAL_GATHER | 1u << PEAL_ALLTOALL | 1u << PEAL_SENDRECV |
        1u << PEAL_BARRIER | 1u << PEAL_ALLTOALLV,
    peal_direct_enumerate,
    prepare,
    emit,
    detail};
