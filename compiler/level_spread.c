/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finished pieces on their way to all peers of a level, straight into their outputs. In an
 * allreduce whoever gets a piece has given its own part of it before, so it has entered the call
 * and its input of the piece is read. In an allgather peers tell each other that they have
 * entered; in a broadcast the root hears of all ranks before it begins.
 */
#include "level.h"

struct spread {
    struct level_run *run;
    struct build *b;
    const struct level_phase *phase;
    const struct level_phase *before;
    const struct level_phase *after;
    const struct level_peers *peers;
    uint32_t inputs;
    uint32_t outputs;
    uint32_t outputs_all;
};

static int is_root(const struct spread *s, uint32_t peer)
{
    return s->phase->way.single ? peer == s->phase->root : s->peers->shard[peer] != NO_RANK;
}

static uint32_t sem(const struct spread *s, uint32_t which)
{
    return peal_level_sem(s->run, s->phase->level, which);
}

static int stores_reach(const struct spread *s, uint32_t peer)
{
    struct hop hop;
    peal_planner_hop(s->b->planner, s->b->self, s->peers->rank[peer], &hop);
    return hop.engine == PEAL_ENGINE_SM;
}

static void hand_on(struct spread *s)
{
    s->outputs++;
    if (s->after && (s->run->fine || s->outputs == s->outputs_all))
        peal_build_signal(s->b, s->b->self, peal_level_ready(s->run, s->after));
}

/* Waits for the piece: from the phase before at its root, from the parent elsewhere. The first
 * phase of all begins with the input. */
static struct plan_operand take(struct spread *s, uint32_t chunk, const struct level_place *place)
{
    struct plan_operand out = peal_op_user(s->b->self, PLAN_BUF_OUT, chunk);
    if (place->parent != NO_RANK) {
        peal_build_wait(s->b, s->peers->rank[place->parent], sem(s, LEVEL_SEM_SPREAD), 0);
        return out;
    }
    if (!s->before)
        return peal_op_user(s->b->self, PLAN_BUF_IN, chunk);
    if (s->run->fine || !s->inputs++)
        peal_build_wait(s->b, s->b->self, peal_level_ready(s->run, s->phase), 0);
    return out;
}

/* To the own output and to what stores reach, in one pass over the source. */
static void store(struct spread *s, uint32_t chunk, struct plan_operand src,
                  const struct level_place *place)
{
    struct plan_operand dst[LEVEL_DIRECT_MAX];
    uint32_t stores = 0;
    if (src.buffer == PLAN_BUF_IN)
        dst[stores++] = peal_op_user(s->b->self, PLAN_BUF_OUT, chunk);
    for (uint32_t i = 0; i < place->kids; i++) {
        uint32_t kid = peal_level_kid(place, &s->phase->way, s->peers->self, i);
        if (stores_reach(s, kid))
            dst[stores++] = peal_op_user(s->peers->rank[kid], PLAN_BUF_OUT, chunk);
    }
    if (stores)
        peal_build_move(s->b, chunk, 1, &src, stores, dst, PEAL_ENGINE_SM, 0);
    for (uint32_t i = 0; i < stores; i++)
        if (dst[i].rank != s->b->self)
            peal_build_signal(s->b, dst[i].rank, sem(s, LEVEL_SEM_SPREAD));
}

static void push(struct spread *s, uint32_t chunk, struct plan_operand src,
                 const struct level_place *place, uint32_t i)
{
    uint32_t kid = peal_level_kid(place, &s->phase->way, s->peers->self, i);
    if (!stores_reach(s, kid))
        peal_build_push(s->b, chunk, src, peal_op_user(s->peers->rank[kid], PLAN_BUF_OUT, chunk),
                        sem(s, LEVEL_SEM_SPREAD));
}

static void visit(struct spread *s, uint32_t q, uint32_t root)
{
    struct level_place place = peal_level_place(&s->phase->way, root, s->peers->self);
    uint32_t chunk = peal_level_chunk(s->run, s->phase, q, root);
    struct plan_operand src = take(s, chunk, &place);
    store(s, chunk, src, &place);
    for (uint32_t i = 0; i < place.kids; i++)
        push(s, chunk, src, &place, i);
    hand_on(s);
}

/* ---- all to all ----------------------------------------------------------------------- */

/* The root's shard, in its unit: the deputy sends it to all but the two of them. */
static void stand_in(struct spread *s, uint32_t q, uint32_t root)
{
    uint32_t chunk = peal_level_chunk(s->run, s->phase, q, root);
    struct plan_operand src = peal_op_user(s->b->self, PLAN_BUF_OUT, chunk);
    struct plan_operand dst[LEVEL_LOCAL_MAX];
    uint32_t stores = 0, which = sem(s, LEVEL_SEM_SPREAD);
    peal_build_wait(s->b, s->b->self, sem(s, LEVEL_SELF_DEPUTY), 0);
    for (uint32_t i = 1; i < s->peers->n; i++) {
        uint32_t peer = (s->peers->self + i) % s->peers->n;
        if (peer != root && stores_reach(s, peer))
            dst[stores++] = peal_op_user(s->peers->rank[peer], PLAN_BUF_OUT, chunk);
    }
    if (stores)
        peal_build_move(s->b, chunk, 1, &src, stores, dst, PEAL_ENGINE_SM, 0);
    for (uint32_t i = 0; i < stores; i++)
        peal_build_signal(s->b, dst[i].rank, which);
    for (uint32_t i = 1; i < s->peers->n; i++) {
        uint32_t peer = (s->peers->self + i) % s->peers->n;
        if (peer != root && !stores_reach(s, peer))
            peal_build_push(s->b, chunk, src,
                            peal_op_user(s->peers->rank[peer], PLAN_BUF_OUT, chunk), which);
    }
}

/* 1: the peer's own shard is the root's, which another sends. */
static int deputed(const struct spread *s, uint32_t peer)
{
    return s->run->deputy != NO_RANK && s->phase->level == 0 &&
           s->peers->rank[peer] == s->b->plan->root;
}

/* The i-th peer before this one: whose piece arrives when this one's reaches the i-th behind. */
static void arrive(struct spread *s, uint32_t q, uint32_t i)
{
    uint32_t root = (s->peers->self + s->peers->n - i) % s->peers->n;
    if (deputed(s, root) && s->peers->self != s->run->deputy)
        peal_build_wait(s->b, s->peers->rank[s->run->deputy], sem(s, LEVEL_SEM_SPREAD), 0);
    else if (is_root(s, root) && !deputed(s, root))
        visit(s, q, root);
}

/* The own piece goes out while those of the others come in: what has come is handed on before
 * the last has gone. Nothing waits behind the last phase, which turns to arrivals at the end. */
static void exchange(struct spread *s, uint32_t q)
{
    uint32_t n = s->peers->n, self = s->peers->self, behind = 1;
    if (is_root(s, self)) {
        struct level_place place = peal_level_place(&s->phase->way, self, self);
        uint32_t chunk = peal_level_chunk(s->run, s->phase, q, self);
        struct plan_operand src = take(s, chunk, &place);
        if (deputed(s, self))
            place.kids = 0;
        store(s, chunk, src, &place);
        hand_on(s);
        for (uint32_t i = 0; i < place.kids; i++) {
            push(s, chunk, src, &place, i);
            if (s->after && i >= s->b->in_flight)
                arrive(s, q, behind++);
        }
    }
    while (s->after && behind < n)
        arrive(s, q, behind++);
}

static void exchange_all(struct spread *s, uint32_t rounds)
{
    for (uint32_t q = 0; q < rounds; q++)
        exchange(s, q);
    for (uint32_t i = 0; s->run->deputy == s->peers->self && i < s->peers->n; i++)
        for (uint32_t q = 0; deputed(s, i) && q < rounds; q++)
            stand_in(s, q, i);
    for (uint32_t q = 0; !s->after && q < rounds; q++)
        for (uint32_t i = 1; i < s->peers->n; i++)
            arrive(s, q, i);
}

/* ---- entering ---------------------------------------------------------------------------- */

/* Notes in peers->sent and ->heard who is a parent, and who a kid, for any root. */
static void find_neighbours(const struct spread *s)
{
    const struct level_way *way = &s->phase->way;
    for (uint32_t root = 0; root < way->n; root++) {
        if (!is_root(s, root))
            continue;
        struct level_place place = peal_level_place(way, root, s->peers->self);
        if (place.parent != NO_RANK)
            s->peers->sent[place.parent] = 1;
        for (uint32_t i = 0; i < place.kids; i++)
            s->peers->heard[peal_level_kid(&place, way, s->peers->self, i)] = 1;
    }
}

static void enter_gather(const struct spread *s)
{
    find_neighbours(s);
    for (uint32_t i = 0; i < s->peers->n; i++)
        if (s->peers->sent[i])
            peal_build_signal(s->b, s->peers->rank[i], sem(s, LEVEL_SEM_ENTER));
    for (uint32_t i = 0; i < s->peers->n; i++)
        if (s->peers->heard[i])
            peal_build_wait(s->b, s->peers->rank[i], sem(s, LEVEL_SEM_ENTER), 0);
}

/* Entries climb the way that the message comes down. */
static void enter_rooted(const struct spread *s)
{
    const struct level_way *way = &s->phase->way;
    uint32_t self = s->peers->self;
    struct level_place place = {.parent = NO_RANK, .flat = 1};
    if (way->single)
        place = peal_level_place(way, s->phase->root, self);
    else if (is_root(s, self))
        place.kids = s->peers->n - 1;
    for (uint32_t i = 0; !way->single && i < s->peers->n; i++)
        if (i != self && is_root(s, i))
            peal_build_signal(s->b, s->peers->rank[i], sem(s, LEVEL_SEM_ENTER));
    if (s->after)
        peal_build_wait(s->b, s->b->self, sem(s, LEVEL_SELF_ENTER), 0);
    for (uint32_t i = 0; i < place.kids; i++)
        peal_build_wait(s->b, s->peers->rank[peal_level_kid(&place, way, self, i)],
                        sem(s, LEVEL_SEM_ENTER), 0);
    if (place.parent != NO_RANK)
        peal_build_signal(s->b, s->peers->rank[place.parent], sem(s, LEVEL_SEM_ENTER));
    else if (s->before)
        peal_build_signal(s->b, s->b->self,
                          peal_level_sem(s->run, s->before->level, LEVEL_SELF_ENTER));
}

void peal_level_spread(struct level_run *run, const struct level_phase *phase)
{
    struct spread s = {.run = run,
                       .b = run->b,
                       .phase = phase,
                       .before = peal_level_before(run, phase),
                       .after = peal_level_after(run, phase),
                       .peers = &run->peers};
    const struct level_way *way = &phase->way;
    uint32_t rounds = peal_level_rounds(run->layout, phase->level);
    s.outputs_all = rounds * peal_level_roots(run->layout, phase->level, way);
    peal_build_lane(s.b);
    if (way->part == PART_DIRECT && !way->single)
        s.b->in_flight = BURST_EVENTS;
    if (run->collective == PEAL_ALLGATHER)
        enter_gather(&s);
    if (run->collective == PEAL_BROADCAST)
        enter_rooted(&s);
    peal_build_section(s.b, 1);
    for (uint32_t q = 0; way->single && q < rounds; q++)
        visit(&s, q, phase->root);
    if (!way->single && way->part == PART_DIRECT)
        exchange_all(&s, rounds);
    for (uint32_t q = 0; !way->single && way->part != PART_DIRECT && q < rounds; q++)
        for (uint32_t i = 0; i < way->n; i++) {
            uint32_t root = peal_level_turn(0, way->n, run->peers.self, i);
            if (is_root(&s, root))
                visit(&s, q, root);
        }
    peal_build_drain(s.b);
    s.b->in_flight = peal_level_events(run->layout);
}
