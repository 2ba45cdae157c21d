/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second reading of docs/plan-format.md, written without the verifier: plans run step by step
 * in an order that a random number decides, with every transfer as slow and every signal as late
 * as the format allows. A destination holds nothing of use from the step's begin to its end, a
 * source must stay what it was for as long. Ranks call one plan of several after the other.
 * What goes wrong in any order is a defect of the plan; a right plan goes right in all.
 */
#ifndef PEAL_TESTS_MODEL_H
#define PEAL_TESTS_MODEL_H

#include "plan.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_RANKS 16u
#define MODEL_CALLS 8u
#define MODEL_RING 3u /* in the place of PLAN_AHEAD: few calls are made */
#ifndef MODEL_SPAN
#define MODEL_SPAN 16u /* chunks of a step, at most */
#endif

struct model_value {
    uint64_t tree; /* which additions, and where rounded */
    uint32_t call, chunk, tile;
    uint32_t ranks; /* contributions, a bit each */
    int final;
    int good; /* 0: nothing of use */
};

struct model_cell {
    struct model_value value;
    const void *owner; /* the lane or event that is writing it */
    uint32_t stamp;    /* packets */
};

struct model_call {
    const struct peal_plan *plan;
    uint32_t number; /* of the plan: equal plans share their events */
    uint32_t trips;
    int in_place;
};

/* A transfer of an asynchronous engine; one at a time for each event. */
struct model_event {
    const struct plan_step *step;
    uint32_t rank, call, trip;
    uint32_t issued, freed, delivered;
    struct model_value value[MODEL_SPAN];
};

struct model_signal {
    const struct model_event *event;
    uint32_t number;
};

struct model_sem {
    uint32_t count, waited;    /* of all calls */
    uint32_t base, base_call;  /* waits of earlier calls */
    struct model_signal *held; /* by the engine, in order */
    uint32_t nheld, room;
};

struct model_lane {
    uint32_t rank, lane;
    uint32_t pc, trip;
    uint32_t begun; /* the step: 1 + stores made */
    struct model_value value[MODEL_SPAN];
    uint32_t order[PLAN_OPERANDS_MAX * MODEL_SPAN]; /* of its stores */
};

struct model_rank {
    uint32_t call; /* the present or next one */
    int inside;
    uint32_t running;
};

struct model {
    const struct model_call *calls;
    uint32_t ncalls, nranks, nsems, nplans;
    uint32_t nlanes, nevents; /* of a rank, of a lane: of the one that has most */
    uint64_t random;
    struct model_cell *user[MODEL_CALLS]; /* [rank][in, out][chunk][tile] */
    struct model_cell *slots[3];          /* scratch, packets: [rank][copy][slot]; of ahead */
    uint64_t nslots;
    struct model_sem *sems;     /* [producer][consumer][index] */
    struct model_event *events; /* [plan][rank][lane][event] */
    struct model_lane *lanes;   /* [rank][lane] */
    struct model_rank ranks[MODEL_RANKS];
    uint32_t learned[MODEL_RANKS][MODEL_RANKS]; /* by, of: 1 + the last call */
    uint64_t trees[MODEL_CALLS][2];             /* sums over the tiles of a rank's results; set */
    uint32_t *order;                            /* who goes first */
    uint32_t nactors;
    char problem[256];
};

static inline uint32_t model_below(struct model *m, uint32_t n)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return (uint32_t)(m->random * 0x2545f4914f6cdd1du >> 33) % n;
}

static inline uint64_t model_mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

static inline void model_wrong(struct model *m, uint32_t rank, uint32_t call, const char *what)
{
    if (!m->problem[0])
        snprintf(m->problem, sizeof m->problem, "rank %u, call %u: %s", rank, call, what);
}

/* ---- memory */

static inline struct model_cell *model_user(struct model *m, uint32_t call, uint32_t rank, int out,
                                            uint32_t chunk, uint32_t tile)
{
    const struct model_call *c = &m->calls[call];
    uint64_t at = (uint64_t)rank * 2 + (out && !c->in_place);
    return &m->user[call][(at * c->plan->nchunks + chunk) * c->trips + tile];
}

static inline struct model_cell *model_cell(struct model *m, uint32_t rank, uint32_t call,
                                            uint32_t trip, const struct plan_operand *operand)
{
    if (operand->buffer == PLAN_BUF_IN || operand->buffer == PLAN_BUF_OUT) {
        if (m->ranks[operand->rank].call != call || !m->ranks[operand->rank].inside)
            model_wrong(m, rank, call, "touches a buffer of a rank that is not in the call");
        return model_user(m, call, operand->rank, operand->buffer == PLAN_BUF_OUT, operand->index,
                          trip);
    }
    const struct peal_plan *plan = m->calls[call].plan;
    const struct plan_region *region = &plan->regions[operand->index];
    uint64_t slot = (uint64_t)(trip % region->depth) * region->width + operand->slot;
    for (uint32_t i = 0; i < operand->index; i++)
        if (plan->regions[i].buffer == operand->buffer)
            slot += (uint64_t)plan->regions[i].width * plan->regions[i].depth;
    int packet = operand->buffer == PLAN_BUF_PACKET, ring = packet && plan->ahead;
    uint64_t copies = ring ? MODEL_RING : 2;
    return &m->slots[packet + ring][(operand->rank * copies + call % copies) * m->nslots + slot];
}

/* ---- values */

static inline struct model_value model_add(struct model *m, uint32_t rank, uint32_t call,
                                           struct model_value a, struct model_value b, int rounded)
{
    if (!a.good || !b.good || a.final || b.final || (a.ranks & b.ranks) || a.call != b.call ||
        a.chunk != b.chunk || a.tile != b.tile)
        model_wrong(m, rank, call, "adds what does not belong together");
    uint64_t low = a.tree < b.tree ? a.tree : b.tree, high = a.tree < b.tree ? b.tree : a.tree;
    a.tree = model_mix(model_mix(low, high), (uint64_t)rounded + 1);
    a.ranks |= b.ranks;
    return a;
}

/* What the step stores for the nth chunk, from what its sources hold now. */
static inline struct model_value model_fold_nth(struct model *m, uint32_t rank, uint32_t call,
                                                uint32_t trip, const struct plan_step *step,
                                                uint32_t nth, const void *self)
{
    const struct plan_operand *operand = &m->calls[call].plan->ranks[rank].operands[step->operands];
    uint32_t first = step->op == PLAN_PUT_REDUCE || step->op == PLAN_GET_REDUCE;
    uint32_t terms = step->nsrc + first;
    struct model_value value = {0};
    for (uint32_t i = 0; i < terms; i++) {
        struct plan_operand source = peal_plan_nth(step, operand[(i + first) % terms], nth);
        struct model_cell *cell = model_cell(m, rank, call, trip, &source);
        struct model_value term = cell->value;
        if (cell->owner && cell->owner != self)
            model_wrong(m, rank, call, "reads what is being written");
        int rounded = i + 1 == terms && !(step->flags & PLAN_FLAG_FINAL);
        value = i ? model_add(m, rank, call, value, term, rounded) : term;
        uint32_t chunk = step->chunk + nth * step->stride;
        if (!value.good || value.chunk != chunk || value.tile != trip || value.call != call)
            model_wrong(m, rank, call, "a source does not hold the step's tile");
    }
    if (step->flags & PLAN_FLAG_FINAL) {
        if (value.final || value.ranks != (1u << m->nranks) - 1)
            model_wrong(m, rank, call, "is not final");
        value.final = 1;
        value.tree = model_mix(value.tree, 77);
    }
    return value;
}

static inline void model_fold(struct model *m, uint32_t rank, uint32_t call, uint32_t trip,
                              const struct plan_step *step, const void *self,
                              struct model_value *value)
{
    if (step->more >= MODEL_SPAN) /* an assertion that holds costs a system call */
        ck_abort_msg("a step of %u chunks", step->more + 1);
    for (uint32_t nth = 0; nth <= step->more; nth++)
        value[nth] = model_fold_nth(m, rank, call, trip, step, nth, self);
}

static inline int model_same(const struct model_value *a, const struct model_value *b)
{
    return a->tree == b->tree && a->call == b->call && a->good && b->good && a->final == b->final;
}

/* What the step would store now is what it has set out to store. */
static inline void model_still(struct model *m, uint32_t rank, uint32_t call, uint32_t trip,
                               const struct plan_step *step, const void *self,
                               const struct model_value *value)
{
    struct model_value now[MODEL_SPAN];
    model_fold(m, rank, call, trip, step, self, now);
    for (uint32_t nth = 0; nth <= step->more; nth++)
        if (!model_same(&now[nth], &value[nth]))
            model_wrong(m, rank, call, "a source changes under the step");
}

/* A step's stores, numbered destination by destination for each chunk. */
static inline uint32_t model_stores(const struct plan_step *step)
{
    return (step->more + 1) * step->ndst;
}

static inline struct plan_operand model_destination(const struct model *m, uint32_t rank,
                                                    uint32_t call, const struct plan_step *step,
                                                    uint32_t store)
{
    const struct plan_operand *operand = &m->calls[call].plan->ranks[rank].operands[step->operands];
    return peal_plan_nth(step, operand[step->nsrc + store % step->ndst], store / step->ndst);
}

static inline void model_begin(struct model *m, uint32_t rank, uint32_t call, uint32_t trip,
                               const struct plan_step *step, const void *self)
{
    for (uint32_t s = 0; s < model_stores(step); s++) {
        struct plan_operand to = model_destination(m, rank, call, step, s);
        struct model_cell *cell = model_cell(m, rank, call, trip, &to);
        if (cell->owner)
            model_wrong(m, rank, call, "writes what is being written");
        cell->owner = self;
    }
}

static inline void model_store(struct model *m, uint32_t rank, uint32_t call, uint32_t trip,
                               const struct plan_step *step, uint32_t s,
                               const struct model_value *value)
{
    struct plan_operand to = model_destination(m, rank, call, step, s);
    struct model_cell *cell = model_cell(m, rank, call, trip, &to);
    cell->value = value[s / step->ndst];
    cell->owner = NULL;
    if (to.buffer == PLAN_BUF_PACKET)
        cell->stamp = call + 1;
}

/* ---- steps */

static inline struct model_event *model_event_of(struct model *m, const struct model_lane *lane,
                                                 uint32_t call, uint32_t e)
{
    uint64_t at = m->calls[call].number;
    at = (at * m->nranks + lane->rank) * m->nlanes + lane->lane;
    return &m->events[at * m->nevents + e];
}

static inline struct model_sem *model_sem_of(struct model *m, uint32_t producer, uint32_t consumer,
                                             uint32_t index)
{
    return &m->sems[((uint64_t)producer * m->nranks + consumer) * m->nsems + index];
}

static inline int model_signal(struct model *m, struct model_lane *lane, uint32_t call,
                               const struct plan_step *step)
{
    struct model_sem *sem = model_sem_of(m, lane->rank, step->peer, step->sem);
    struct model_event *event =
        step->after == PLAN_NO_EVENT ? NULL : model_event_of(m, lane, call, step->after);
    if (step->engine == PEAL_ENGINE_SM && !sem->nheld) {
        sem->count++;
        return 1;
    }
    if (sem->nheld == sem->room) {
        sem->room = sem->room * 2 + 8;
        sem->held = realloc(sem->held, sem->room * sizeof *sem->held);
    }
    sem->held[sem->nheld++] = (struct model_signal){event, event ? event->issued : 0};
    return 1;
}

static inline int model_wait(struct model *m, const struct model_lane *lane, uint32_t call,
                             const struct plan_step *step)
{
    struct model_sem *sem = model_sem_of(m, step->peer, lane->rank, step->sem);
    if (sem->base_call != call + 1) {
        sem->base_call = call + 1;
        sem->base = sem->waited;
    }
    uint32_t nth = sem->waited - sem->base + 1;
    if (nth > step->lag && sem->count < sem->waited + 1 - step->lag)
        return 0;
    sem->waited++;
    if (step->op == PLAN_LEARN)
        m->learned[lane->rank][step->peer] = call + 1;
    return 1;
}

/* Who moves a chunk of an alltoallv has made its length, or learned it. */
static inline void model_length(struct model *m, uint32_t rank, uint32_t call,
                                const struct plan_step *step)
{
    const struct peal_plan *plan = m->calls[call].plan;
    for (uint32_t nth = 0; plan->collective == PEAL_ALLTOALLV && nth <= step->more; nth++) {
        uint32_t chunk = step->chunk + nth * step->stride, giver = peal_plan_giver(plan, chunk);
        if (giver != rank &&
            (peal_plan_getter(plan, chunk) != rank || m->learned[rank][giver] != call + 1))
            model_wrong(m, rank, call, "moves a block whose length it does not know");
    }
}

static inline int model_packets_there(struct model *m, const struct model_lane *lane, uint32_t call,
                                      const struct plan_step *step)
{
    const struct plan_operand *operand =
        &m->calls[call].plan->ranks[lane->rank].operands[step->operands];
    for (uint32_t i = 0; i < step->nsrc; i++)
        if (operand[i].buffer == PLAN_BUF_PACKET &&
            model_cell(m, lane->rank, call, lane->trip, &operand[i])->stamp != call + 1)
            return 0;
    return 1;
}

/* 0: blocked; 1: under way; 2: done. */
static inline int model_data(struct model *m, struct model_lane *lane, uint32_t call,
                             const struct plan_step *step)
{
    if (step->event != PLAN_NO_EVENT) {
        struct model_event *event = model_event_of(m, lane, call, step->event);
        if (event->delivered != event->issued)
            return 0;
        event->step = step;
        event->rank = lane->rank;
        event->call = call;
        event->trip = lane->trip;
        model_fold(m, lane->rank, call, lane->trip, step, event, event->value);
        event->issued++;
        model_begin(m, lane->rank, call, lane->trip, step, event);
        return 2;
    }
    if (!lane->begun) {
        if (!model_packets_there(m, lane, call, step))
            return 0;
        model_fold(m, lane->rank, call, lane->trip, step, lane, lane->value);
        model_begin(m, lane->rank, call, lane->trip, step, lane);
        for (uint32_t i = 0; i < model_stores(step); i++) {
            uint32_t j = model_below(m, i + 1);
            lane->order[i] = lane->order[j];
            lane->order[j] = i;
        }
        lane->begun = 1;
        return 1;
    }
    if (lane->begun == 1) /* no store was made yet, so that all sources are as they were */
        model_still(m, lane->rank, call, lane->trip, step, lane, lane->value);
    model_store(m, lane->rank, call, lane->trip, step, lane->order[lane->begun - 1], lane->value);
    if (lane->begun++ < model_stores(step))
        return 1;
    lane->begun = 0;
    return 2;
}

/* So many calls more than the rule says a rank may be ahead: what the rule is there for. */
static uint32_t model_loose;

/* All have returned from the call that was so many before. */
static inline int model_over(const struct model *m, uint32_t call, uint32_t before)
{
    before += model_loose;
    for (uint32_t r = 0; r < m->nranks; r++)
        if (m->ranks[r].call + before <= call)
            return 0;
    return 1;
}

/* The rule by which ranks keep near each other, where plans do not see to that. Behind a call that
 * all have to enter nobody looks. */
static inline int model_near(const struct model *m, const struct model_lane *lane, uint32_t call,
                             const struct plan_step *step)
{
    const struct peal_plan *plan = m->calls[call].plan;
    int stores = 0;
    if (!plan->ahead)
        return call == 0 || !m->calls[call - 1].plan->ahead || model_over(m, call, 2);
    const struct plan_operand *operand = plan->ranks[lane->rank].operands + step->operands;
    for (uint32_t i = step->nsrc; i < (uint32_t)step->nsrc + step->ndst; i++)
        stores |= operand[i].buffer == PLAN_BUF_PACKET;
    return !stores || model_over(m, call, MODEL_RING);
}

static inline int model_lane_step(struct model *m, struct model_lane *lane)
{
    struct model_rank *rank = &m->ranks[lane->rank];
    const struct plan_rank *program = &m->calls[rank->call].plan->ranks[lane->rank];
    const struct plan_lane *code = &program->lanes[lane->lane];
    const struct plan_step *step = &program->steps[code->first + lane->pc];
    int went;
    if (!model_near(m, lane, rank->call, step))
        return 0;
    if (peal_plan_op_signals(step->op))
        went = 2 * model_signal(m, lane, rank->call, step);
    else if (peal_plan_op_waits(step->op))
        went = 2 * model_wait(m, lane, rank->call, step);
    else if (step->op == PLAN_AWAIT) {
        struct model_event *event = model_event_of(m, lane, rank->call, step->event);
        went = 2 * ((step->what ? event->delivered : event->freed) == event->issued);
    } else {
        model_length(m, lane->rank, rank->call, step);
        went = model_data(m, lane, rank->call, step);
    }
    if (went != 2)
        return went;
    lane->pc++;
    if (lane->pc == code->pre + code->body && code->body &&
        lane->trip + 1 < m->calls[rank->call].trips) {
        lane->trip++;
        lane->pc = code->pre;
    }
    rank->running -= lane->pc == code->pre + code->body + code->post;
    return 1;
}

/* ---- who may go on: ranks (their callers), lanes, events, semaphores */

/* 1: the tile is what the collective promises. */
static inline int model_right(const struct model *m, uint32_t call, uint32_t chunk, uint32_t tile,
                              const struct model_value *v)
{
    const struct peal_plan *plan = m->calls[call].plan;
    if (!v->good || v->call != call || v->chunk != chunk || v->tile != tile)
        return 0;
    if (!peal_plan_collective(plan->collective)->reduces)
        return !v->final && v->ranks == 1u << peal_plan_origin(plan, chunk);
    return v->ranks == (1u << m->nranks) - 1 && (v->final || m->nranks == 1);
}

static inline void model_check(struct model *m, uint32_t rank, uint32_t call)
{
    const struct model_call *c = &m->calls[call];
    uint64_t trees = 0;
    for (uint32_t chunk = 0; chunk < c->plan->nchunks; chunk++)
        for (uint32_t tile = 0; tile < c->trips; tile++) {
            struct model_value *v = &model_user(m, call, rank, 1, chunk, tile)->value;
            if (!peal_plan_holds(c->plan, rank, PLAN_BUF_OUT, chunk))
                continue;
            if (!model_right(m, call, chunk, tile, v))
                model_wrong(m, rank, call, "a wrong result");
            trees = model_mix(trees, v->tree);
        }
    for (uint32_t other = 0; other < m->nranks; other++) {
        const struct model_rank *o = &m->ranks[other];
        if (!c->plan->ahead && (o->call < call || (o->call == call && !o->inside)))
            model_wrong(m, rank, call, "returns before another rank has entered");
        if (c->plan->collective == PEAL_ALLTOALLV && other != rank &&
            m->learned[rank][other] != call + 1)
            model_wrong(m, rank, call, "returns without a length");
    }
    if (c->plan->collective != PEAL_ALLREDUCE)
        return;
    if (m->trees[call][1] && m->trees[call][0] != trees)
        model_wrong(m, rank, call, "other bits than another rank");
    m->trees[call][0] = trees;
    m->trees[call][1] = 1;
}

static inline int model_caller(struct model *m, uint32_t r)
{
    struct model_rank *rank = &m->ranks[r];
    if (rank->call == m->ncalls || (rank->inside && rank->running))
        return 0;
    const struct model_call *call = &m->calls[rank->call];
    if (rank->inside) {
        model_check(m, r, rank->call);
        rank->inside = 0;
        rank->call++;
        return 1;
    }
    for (uint32_t chunk = 0; chunk < call->plan->nchunks; chunk++)
        for (uint32_t tile = 0;
             peal_plan_holds(call->plan, r, PLAN_BUF_IN, chunk) && tile < call->trips; tile++)
            model_user(m, rank->call, r, 0, chunk, tile)->value =
                (struct model_value){.tree = model_mix(model_mix(r, chunk), tile),
                                     .call = rank->call,
                                     .chunk = chunk,
                                     .tile = tile,
                                     .ranks = 1u << r,
                                     .good = 1};
    rank->inside = 1;
    const struct plan_rank *program = &call->plan->ranks[r];
    for (uint32_t l = 0; l < program->nlanes; l++) {
        struct model_lane *lane = &m->lanes[r * m->nlanes + l];
        lane->pc = lane->trip = lane->begun = 0;
        rank->running +=
            program->lanes[l].pre + program->lanes[l].body + program->lanes[l].post > 0;
    }
    return 1;
}

static inline int model_lane(struct model *m, uint32_t at)
{
    struct model_lane *lane = &m->lanes[at];
    const struct model_rank *rank = &m->ranks[lane->rank];
    if (!rank->inside)
        return 0;
    const struct plan_rank *program = &m->calls[rank->call].plan->ranks[lane->rank];
    if (lane->lane >= program->nlanes)
        return 0;
    const struct plan_lane *code = &program->lanes[lane->lane];
    return lane->pc < code->pre + code->body + code->post && model_lane_step(m, lane);
}

static inline int model_transfer(struct model *m, struct model_event *event)
{
    if (event->delivered == event->issued)
        return 0;
    if (event->freed != event->issued) {
        model_still(m, event->rank, event->call, event->trip, event->step, event, event->value);
        event->freed++;
        return 1;
    }
    for (uint32_t s = 0; s < model_stores(event->step); s++)
        model_store(m, event->rank, event->call, event->trip, event->step, s, event->value);
    event->delivered++;
    return 1;
}

static inline int model_raise(struct model_sem *sem)
{
    if (!sem->nheld || (sem->held->event && sem->held->event->delivered < sem->held->number))
        return 0;
    sem->count++;
    memmove(sem->held, sem->held + 1, --sem->nheld * sizeof *sem->held);
    return 1;
}

static inline int model_go(struct model *m, uint32_t actor)
{
    uint32_t lanes = m->nranks * m->nlanes, sems = m->nranks * m->nranks * m->nsems;
    if (actor < m->nranks)
        return model_caller(m, actor);
    actor -= m->nranks;
    if (actor < lanes)
        return model_lane(m, actor);
    actor -= lanes;
    if (actor < sems)
        return model_raise(&m->sems[actor]);
    return model_transfer(m, &m->events[actor - sems]);
}

/* ---- a run */

static inline void *model_room(uint64_t count, size_t bytes)
{
    void *room = calloc(count ? (size_t)count : 1, bytes);
    ck_assert_ptr_nonnull(room);
    return room;
}

/* Actors that can never go on are left out; the others in a random order. */
static inline void model_actors(struct model *m)
{
    uint32_t lanes = m->nranks * m->nlanes, sems = m->nranks * m->nranks * m->nsems;
    uint32_t events = m->nplans * lanes * m->nevents;
    uint8_t *used = model_room((uint64_t)m->nranks + lanes + sems + events, 1);
    memset(used, 1, m->nranks);
    for (uint32_t c = 0; c < m->ncalls; c++)
        for (uint32_t r = 0; r < m->nranks; r++)
            for (uint32_t l = 0; l < m->calls[c].plan->ranks[r].nlanes; l++) {
                const struct plan_rank *program = &m->calls[c].plan->ranks[r];
                const struct plan_lane *code = &program->lanes[l];
                struct model_lane *lane = &m->lanes[r * m->nlanes + l];
                used[m->nranks + r * m->nlanes + l] = 1;
                for (uint32_t i = 0; i < code->pre + code->body + code->post; i++) {
                    const struct plan_step *step = &program->steps[code->first + i];
                    if (peal_plan_op_signals(step->op))
                        used[m->nranks + lanes +
                             (model_sem_of(m, r, step->peer, step->sem) - m->sems)] = 1;
                    if (step->event != PLAN_NO_EVENT)
                        used[m->nranks + lanes + sems +
                             (model_event_of(m, lane, c, step->event) - m->events)] = 1;
                }
            }
    m->order = model_room((uint64_t)m->nranks + lanes + sems + events, sizeof *m->order);
    for (uint32_t i = 0; i < m->nranks + lanes + sems + events; i++) {
        if (!used[i])
            continue;
        uint32_t j = model_below(m, m->nactors + 1);
        m->order[m->nactors++] = m->order[j];
        m->order[j] = i;
    }
    free(used);
}

static inline void model_count(struct model *m, const struct peal_plan *plan)
{
    for (uint32_t r = 0; r < plan->nranks; r++) {
        const struct plan_rank *program = &plan->ranks[r];
        m->nlanes = program->nlanes > m->nlanes ? program->nlanes : m->nlanes;
        for (uint32_t i = 0; i < program->nsteps; i++) {
            const struct plan_step *step = &program->steps[i];
            if (step->event != PLAN_NO_EVENT && step->event >= m->nevents)
                m->nevents = step->event + 1u;
            if (step->after != PLAN_NO_EVENT && step->after >= m->nevents)
                m->nevents = step->after + 1u;
        }
    }
}

static inline void model_make(struct model *m)
{
    m->nlanes = m->nevents = 1;
    for (uint32_t c = 0; c < m->ncalls; c++)
        model_count(m, m->calls[c].plan);
    for (uint32_t c = 0; c < m->ncalls; c++) {
        const struct peal_plan *plan = m->calls[c].plan;
        uint64_t slots = 0;
        for (uint32_t i = 0; i < plan->nregions; i++)
            slots += (uint64_t)plan->regions[i].width * plan->regions[i].depth;
        m->nslots = slots > m->nslots ? slots : m->nslots;
        m->nsems = plan->nsems > m->nsems ? plan->nsems : m->nsems;
        m->nplans = m->calls[c].number >= m->nplans ? m->calls[c].number + 1 : m->nplans;
        m->user[c] = model_room((uint64_t)m->nranks * 2 * plan->nchunks * m->calls[c].trips,
                                sizeof(struct model_cell));
    }
    for (uint32_t i = 0; i < 3; i++)
        m->slots[i] = model_room(m->nranks * MODEL_RING * m->nslots, sizeof(struct model_cell));
    m->sems = model_room((uint64_t)m->nranks * m->nranks * m->nsems, sizeof *m->sems);
    m->lanes = model_room((uint64_t)m->nranks * m->nlanes, sizeof *m->lanes);
    m->events =
        model_room((uint64_t)m->nplans * m->nranks * m->nlanes * m->nevents, sizeof *m->events);
    for (uint32_t i = 0; i < m->nranks * m->nlanes; i++) {
        m->lanes[i].rank = i / m->nlanes;
        m->lanes[i].lane = i % m->nlanes;
    }
    model_actors(m);
}

static inline void model_unmake(struct model *m)
{
    for (uint32_t i = 0; i < m->nranks * m->nranks * m->nsems; i++)
        free(m->sems[i].held);
    for (uint32_t c = 0; c < m->ncalls; c++)
        free(m->user[c]);
    free(m->slots[0]);
    free(m->slots[1]);
    free(m->slots[2]);
    free(m->sems);
    free(m->lanes);
    free(m->events);
    free(m->order);
}

static inline void model_swap(struct model *m, uint32_t i, uint32_t j)
{
    uint32_t actor = m->order[i];
    m->order[i] = m->order[j];
    m->order[j] = actor;
}

/* The first in `order` that can goes on; the order changes now and then. So some stay behind for
 * long, which shows more than a fair choice would. */
static inline void model_loop(struct model *m)
{
    uint32_t shuffle = 2u << model_below(m, 7);
    while (!m->problem[0]) {
        uint32_t i = 0;
        while (i < m->nactors && !model_go(m, m->order[i]))
            i++;
        if (i == m->nactors)
            break;
        if (model_below(m, shuffle) == 0)
            model_swap(m, i, model_below(m, m->nactors));
        if (model_below(m, shuffle) == 0)
            model_swap(m, model_below(m, m->nactors), model_below(m, m->nactors));
    }
    for (uint32_t r = 0; r < m->nranks && !m->problem[0]; r++)
        if (m->ranks[r].call != m->ncalls)
            model_wrong(m, r, m->ranks[r].call, "waits for ever");
}

/* 0: all went well; else `problem` says what did not. */
static inline int model_run(const struct model_call *calls, uint32_t ncalls, uint64_t seed,
                            char problem[256])
{
    struct model m = {.calls = calls, .ncalls = ncalls, .random = seed * 2 + 1};
    m.nranks = calls[0].plan->nranks;
    ck_assert_uint_le(m.nranks, MODEL_RANKS);
    ck_assert_uint_le(ncalls, MODEL_CALLS);
    for (uint32_t i = 0; i < 8; i++)
        (void)model_below(&m, 2);
    model_make(&m);
    model_loop(&m);
    model_unmake(&m);
    memcpy(problem, m.problem, sizeof m.problem);
    return problem[0] != 0;
}

#endif
