/* SPDX-License-Identifier: Apache-2.0 */
/* Eager: what a rank has for another goes into a slot of that rank's scratch at once, and a flag
 * behind it, without asking whether the other has entered; who gets it copies or folds it. One
 * start-up, where schedules that write into outputs take two: for small messages among ranks that
 * other engines than loads and stores join, as between hosts. (Between loads and stores oneshot has
 * data and flag in one word.)
 *
 * A rank for which another has nothing gets a bare signal, so whoever has heard all others knows
 * that they have entered, and nobody is more than one call ahead: that is what two sets of slots
 * are enough for. Everybody sends to everybody, which bounds it to few ranks. */
#include "compiler.h"

#include <stdio.h>

#define EAGER_BYTES_MAX (64u << 10)

enum { SEM_DATA, SEM_ENTER, SEM_COUNT };

/* ---- cost ------------------------------------------------------------------------ */

/* Whatever goes between two ranks is a message, with data or without. */
static void load_messages(struct planner *planner, struct traffic *traffic, struct stage *stage)
{
    double share = peal_peers_share(planner);
    for (uint32_t r = 0; r < planner->group.n; r++) {
        uint64_t peers = peal_peers(planner, r, 0);
        for (uint32_t to = 0; to < planner->group.n; to++) {
            struct hop hop;
            int data = peers >> to & 1;
            if (to == r)
                continue;
            peal_planner_hop(planner, r, to, &hop);
            peal_stage_hop(stage, &hop);
            peal_traffic_add(traffic, r, &hop, 1, data ? share : 0);
            if (data)
                peal_planner_load(planner, &hop, share, hop.scale);
        }
    }
}

static double most_got(const struct planner *planner)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < planner->group.n; r++) {
        uint32_t got = peal_peers_count(peal_peers(planner, r, 1));
        most = got > most ? got : most;
    }
    return most;
}

/* What the busiest lane copies or folds when it has come, of the message: reads and writes count
 * half each. */
static double taken_share(const struct planner *planner)
{
    double n = planner->group.n, share = peal_peers_share(planner);
    switch (planner->request.collective) {
    case PEAL_ALLREDUCE:
    case PEAL_REDUCE:
    case PEAL_REDUCE_SCATTER:
        return (n + 1) / 2 * share;
    case PEAL_BROADCAST:
    case PEAL_SCATTER:
        return share;
    case PEAL_SENDRECV:
        return share * most_got(planner);
    default:
        return n * share;
    }
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    if (group->n < 2 || group->n > PEERS_MAX || (group->nhosts == 1 && group->direct_hosts) ||
        planner->corner == CORNER_COPY || planner->request.channels > 1 ||
        !peal_peers_once(planner))
        return PEAL_OK;
    struct candidate candidate = {.algo = ALGO_EAGER,
                                  .order = ORDER_FOLD,
                                  .channels = 1,
                                  .max_bytes = EAGER_BYTES_MAX,
                                  .chunks = peal_peers_blocks(planner),
                                  .lanes = 1,
                                  .slots = 2ull * group->n,
                                  .hop_share = peal_peers_share(planner)};
    struct stage stage = {.levels = 1, .chain = 1};
    struct traffic traffic;
    PEAL_TRY(peal_traffic_init(&traffic, planner));
    load_messages(planner, &traffic, &stage);
    peal_traffic_stage(&traffic, 1, &stage);
    peal_traffic_net(&traffic, &candidate);
    peal_traffic_free(&traffic);
    peal_candidate_stage(planner, &candidate, &stage, 0);
    peal_stage_then(planner, &candidate.stage[0], taken_share(planner));
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

/* ---- programs -------------------------------------------------------------------- */

static void prepare(struct build *b, const struct candidate *candidate)
{
    b->plan->nsems = SEM_COUNT;
    b->plan->nchunks = candidate->chunks;
    peal_build_region(b, PLAN_BUF_SCRATCH, b->plan->nranks, 1, peal_build_slot_bytes(b));
}

struct eager {
    struct build *b;
    uint32_t n;
    uint32_t self;
};

/* The block of `from` for `to`; of a list the pair's. */
static uint32_t block_of(const struct eager *e, uint32_t from, uint32_t to)
{
    const struct planner *planner = e->b->planner;
    uint32_t a, b;
    switch (e->b->plan->collective) {
    case PEAL_REDUCE_SCATTER:
    case PEAL_SCATTER:
        return to;
    case PEAL_ALLGATHER:
    case PEAL_GATHER:
        return from;
    case PEAL_ALLTOALL:
        return from * e->n + to;
    case PEAL_SENDRECV:
        for (uint32_t i = 0; peal_planner_pair(planner, i, &a, &b); i++)
            if (a == from && b == to)
                return i;
        return 0;
    default:
        return 0;
    }
}

static struct plan_operand slot_of(uint32_t rank, uint32_t from)
{
    return peal_op_slot(rank, PLAN_BUF_SCRATCH, 0, from);
}

static void send(const struct eager *e)
{
    const struct group *group = &e->b->planner->group;
    uint64_t peers = peal_peers(e->b->planner, e->self, 0);
    for (uint32_t i = 1; i < e->n; i++) {
        uint32_t to = peal_pace_to(group, e->self, i), chunk = block_of(e, e->self, to);
        if (peers >> to & 1)
            peal_build_push(e->b, chunk, peal_op_user(e->self, PLAN_BUF_IN, chunk),
                            slot_of(to, e->self), SEM_DATA);
    }
}

static void tell(const struct eager *e)
{
    const struct group *group = &e->b->planner->group;
    uint64_t peers = peal_peers(e->b->planner, e->self, 0);
    for (uint32_t i = 1; i < e->n; i++) {
        uint32_t to = peal_pace_to(group, e->self, i);
        if (!(peers >> to & 1))
            peal_build_signal(e->b, to, SEM_ENTER);
    }
}

static void hear(const struct eager *e)
{
    uint64_t peers = peal_peers(e->b->planner, e->self, 1);
    for (uint32_t i = 1; i < e->n; i++) {
        uint32_t from = peal_pace_from(&e->b->planner->group, e->self, i);
        if (!(peers >> from & 1))
            peal_build_wait(e->b, from, SEM_ENTER, 0);
    }
}

/* What the rank has for itself, if anything. */
static int keeps(const struct eager *e)
{
    const struct planner *planner = e->b->planner;
    peal_collective collective = planner->request.collective;
    uint32_t from, to;
    if (peal_from_root(collective) || peal_to_root(collective))
        return e->self == planner->request.root;
    if (collective != PEAL_SENDRECV)
        return 1;
    for (uint32_t i = 0; peal_planner_pair(planner, i, &from, &to); i++)
        if (from == e->self && to == e->self)
            return 1;
    return 0;
}

static void copy(const struct eager *e, uint32_t chunk, struct plan_operand src)
{
    struct plan_operand out = peal_op_user(e->self, PLAN_BUF_OUT, chunk);
    peal_build_move(e->b, chunk, 1, &src, 1, &out, PEAL_ENGINE_SM, 0);
}

static void take(const struct eager *e)
{
    uint64_t peers = peal_peers(e->b->planner, e->self, 1);
    for (uint32_t i = 1; i < e->n; i++) {
        uint32_t from = peal_pace_from(&e->b->planner->group, e->self, i);
        if (!(peers >> from & 1))
            continue;
        peal_build_wait(e->b, from, SEM_DATA, 0);
        copy(e, block_of(e, from, e->self), slot_of(e->self, from));
    }
    peal_build_await_free(e->b); /* in place the copy writes what was sent */
    if (keeps(e)) {
        uint32_t own = block_of(e, e->self, e->self);
        copy(e, own, peal_op_user(e->self, PLAN_BUF_IN, own));
    }
}

/* In rank order everywhere: the same bits. */
static void fold(const struct eager *e)
{
    uint32_t chunk = block_of(e, e->self, e->self);
    struct plan_operand src[PEERS_MAX], out = peal_op_user(e->self, PLAN_BUF_OUT, chunk);
    if (keeps(e))
        for (uint32_t r = 0; r < e->n; r++) {
            if (r != e->self)
                peal_build_wait(e->b, r, SEM_DATA, 0);
            src[r] = r == e->self ? peal_op_user(r, PLAN_BUF_IN, chunk) : slot_of(e->self, r);
        }
    peal_build_await_free(e->b); /* in place the result is written over what was sent */
    if (keeps(e))
        peal_build_move(e->b, chunk, e->n, src, 1, &out, PEAL_ENGINE_SM, 1);
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    struct eager e = {b, b->plan->nranks, rank};
    (void)candidate;
    b->in_flight = BURST_EVENTS;
    peal_build_lane(b);
    peal_build_section(b, 1);
    send(&e);
    tell(&e);
    if (peal_plan_collective(b->plan->collective)->reduces)
        fold(&e);
    else
        take(&e);
    hear(&e);
    peal_build_drain(b);
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    (void)candidate;
    snprintf(text, size, "slots of every rank");
}

const struct algo peal_algo_eager = {
    "eager",
    1u << PEAL_ALLREDUCE | 1u << PEAL_REDUCE_SCATTER | 1u << PEAL_ALLGATHER | 1u << PEAL_BROADCAST |
        1u << PEAL_REDUCE | 1u << PEAL_SCATTER | 1u << PEAL_GATHER | 1u << PEAL_ALLTOALL |
        1u << PEAL_SENDRECV,
    enumerate,
    prepare,
    emit,
    detail};
