/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: what a signal or packet tells, and who sleeps until it comes. */
#include "execute.h"

#include <string.h>

#define COUNTED_RANKS_MAX 4096u /* of an alltoallv */

peal_status peal_execute_make_sems(struct machine *m)
{
    size_t ranks = m->plan->nranks;
    m->sem = peal_calloc(m->ctx, (size_t)m->sems->count + 1, sizeof *m->sem);
    if (!m->sem)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < m->sems->count; i++)
        m->sem[i].sleeper = NOBODY;
    if (m->plan->collective != PEAL_ALLTOALLV)
        return PEAL_OK;
    if (ranks > COUNTED_RANKS_MAX)
        return PEAL_ERR_LIMIT;
    m->learned = peal_calloc(m->ctx, ranks * ranks, sizeof *m->learned);
    return m->learned ? PEAL_OK : PEAL_ERR_MEMORY;
}

void peal_execute_free_sems(struct machine *m)
{
    size_t ranks = m->plan->nranks;
    for (uint32_t i = 0; m->sem && i < m->sems->count; i++) {
        for (uint32_t k = 0; k < m->sem[i].used; k++)
            peal_verify_clock_drop(&m->clocks, m->sem[i].queue[m->sem[i].head + k].clock);
        peal_free(m->ctx, m->sem[i].queue, m->sem[i].capacity * sizeof(struct message));
    }
    peal_free(m->ctx, m->sem, ((size_t)m->sems->count + 1) * sizeof *m->sem);
    if (m->learned)
        peal_free(m->ctx, m->learned, ranks * ranks * sizeof *m->learned);
}

struct message peal_execute_message(struct lane_state *lane)
{
    lane->clock->refs++;
    struct message message = {lane->clock, lane->component, lane->time, NOBODY, 0};
    lane->time++; /* what the lane does next is not told by this message */
    return message;
}

peal_status peal_execute_hear(struct machine *m, struct lane_state *lane,
                              const struct message *message)
{
    if (!m->order)
        return PEAL_OK;
    PEAL_TRY(peal_verify_clock_join(&m->clocks, &lane->clock, message->clock));
    PEAL_TRY(peal_execute_learn(m, lane, message->component, message->time));
    if (message->event == NOBODY)
        return PEAL_OK;
    PEAL_TRY(peal_execute_learn(m, lane, message->event, message->event_time));
    return peal_execute_learn(m, lane, message->event + 1, message->event_time);
}

void peal_execute_wake(struct machine *m, uint32_t *sleeper)
{
    if (*sleeper == NOBODY)
        return;
    if (!m->lanes[*sleeper].queued) {
        m->lanes[*sleeper].queued = 1;
        m->queue[m->queued++] = *sleeper;
    }
    *sleeper = NOBODY;
}

peal_status peal_execute_signal(struct machine *m, struct lane_state *lane, uint32_t at,
                                const struct plan_step *step, uint32_t sem_index)
{
    struct sem_state *sem = &m->sem[sem_index];
    if (sem->head && sem->head + sem->used == sem->capacity) {
        memmove(sem->queue, sem->queue + sem->head, sem->used * sizeof *sem->queue);
        sem->head = 0;
    }
    PEAL_TRY(peal_grow(m->ctx, (void **)&sem->queue, &sem->capacity,
                       (size_t)sem->head + sem->used + 1, sizeof *sem->queue, 1u << 28));
    struct message message = peal_execute_message(lane);
    if (step->after != PLAN_NO_EVENT) {
        const struct event_state *event = &lane->event[step->after];
        if (event->component == NOBODY || event->time == TIME_NEVER)
            peal_verify_find(m->out, "capability", lane->rank, lane->lane, at,
                             "signal after event e%u, which no transfer defines", step->after);
        else if (event->engine != step->engine)
            peal_verify_find(m->out, "capability", lane->rank, lane->lane, at,
                             "engine %s cannot signal behind a transfer of %s",
                             peal_engine_name((peal_engine)step->engine),
                             peal_engine_name((peal_engine)event->engine));
        else if (event->target != step->peer)
            peal_verify_find(m->out, "race", lane->rank, lane->lane, at,
                             "the transfer of e%u is not delivered to rank %u, which is told that "
                             "it is",
                             step->after, step->peer);
        else {
            message.event = event->component;
            message.event_time = event->time;
        }
    }
    sem->queue[sem->head + sem->used++] = message;
    sem->signalled++;
    peal_execute_wake(m, &sem->sleeper);
    return PEAL_OK;
}

struct access *peal_execute_learned(const struct machine *m, uint32_t rank, uint32_t producer)
{
    return &m->learned[(size_t)rank * m->plan->nranks + producer];
}

/* 1: passed, 0: blocked. */
peal_status peal_execute_wait(struct machine *m, uint32_t self, const struct plan_step *step,
                              uint32_t sem_index, int *passed)
{
    struct lane_state *lane = &m->lanes[self];
    struct sem_state *sem = &m->sem[sem_index];
    const struct verify_sem_key *key = &m->sems->keys[sem_index];
    uint32_t a_call = key->waits[0] + m->trips * key->waits[1] + key->waits[2];
    uint32_t before = m->ranks[lane->rank].call * a_call;
    uint32_t nth = sem->waited - before + 1; /* of this call */
    *passed = 1;
    if (nth > step->lag) {
        uint32_t need = sem->waited + 1 - step->lag; /* the need-th signal of all */
        if (sem->signalled < need) {
            sem->sleeper = self;
            *passed = 0;
            return PEAL_OK;
        }
        uint32_t oldest = sem->signalled - sem->used;
        /* Signals arrive in order, so that those before it are heard too. One that is gone was
         * heard by an earlier wait, which had the smaller lag. */
        for (; oldest < need; oldest++) {
            PEAL_TRY(peal_execute_hear(m, lane, &sem->queue[sem->head]));
            peal_verify_clock_drop(&m->clocks, sem->queue[sem->head].clock);
            sem->head++;
            sem->used--;
        }
    }
    sem->waited++;
    if (step->op == PLAN_LEARN)
        *peal_execute_learned(m, lane->rank, step->peer) =
            (struct access){lane->component, lane->time, m->ranks[lane->rank].call + 1};
    return PEAL_OK;
}
