/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the semaphores of a plan and checks their rules: one signalling lane, one waiting lane,
 * one engine, as many waits as signals for any number of trips, and no wait for a signal that its
 * producer raises only in a later trip or section. */
#include "verify.h"

#include <string.h>

#define NO_LANE UINT32_MAX

enum section { PRE, BODY, POST };

static uint32_t sem_bucket(const struct verify_sems *sems, uint32_t producer, uint32_t consumer,
                           uint32_t index)
{
    uint64_t h = ((uint64_t)producer << 32 | consumer) * 0x9E3779B97F4A7C15ull;
    h = (h ^ index) * 0xD6E8FEB86659FD93ull;
    return (uint32_t)(h >> 34) & (sems->bucket_count - 1);
}

static uint32_t step_total(const struct peal_plan *plan)
{
    uint64_t total = 0;
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t s = 0; s < plan->ranks[r].nsteps; s++)
            total += peal_plan_op_signals(plan->ranks[r].steps[s].op) ||
                     peal_plan_op_waits(plan->ranks[r].steps[s].op);
    return total > 0x3fffffffu ? 0x3fffffffu : (uint32_t)total;
}

static peal_status sem_find(struct verify_sems *sems, uint32_t producer, uint32_t consumer,
                            uint32_t index, uint32_t *found)
{
    uint32_t slot = sem_bucket(sems, producer, consumer, index);
    for (; sems->buckets[slot]; slot = (slot + 1) & (sems->bucket_count - 1)) {
        const struct verify_sem_key *key = &sems->keys[sems->buckets[slot] - 1];
        if (key->producer == producer && key->consumer == consumer && key->index == index) {
            *found = sems->buckets[slot] - 1;
            return PEAL_OK;
        }
    }
    PEAL_TRY(peal_grow(sems->ctx, (void **)&sems->keys, &sems->capacity, (size_t)sems->count + 1,
                       sizeof *sems->keys, 0x40000000u));
    *found = sems->count++;
    sems->keys[*found] = (struct verify_sem_key){.producer = producer,
                                                 .consumer = consumer,
                                                 .index = index,
                                                 .signal_lane = NO_LANE,
                                                 .wait_lane = NO_LANE};
    sems->buckets[slot] = sems->count;
    return PEAL_OK;
}

static void note_signal(struct verify_sem_key *key, const struct plan_step *step, uint32_t rank,
                        uint32_t lane, uint32_t at, uint32_t section, struct verify_out *out)
{
    if (key->signal_lane == NO_LANE) {
        key->signal_lane = lane;
        key->engine = step->engine;
    } else if (key->signal_lane != lane) {
        peal_verify_find(
            out, "deadlock", rank, lane, at,
            "semaphore r%u.%u is signalled by lanes %u and %u; one producer is allowed",
            key->consumer, key->index, key->signal_lane, lane);
    } else if (key->engine != step->engine) {
        peal_verify_find(out, "race", rank, lane, at,
                         "semaphore r%u.%u is signalled by %s and by %s, which keep no order",
                         key->consumer, key->index, peal_engine_name((peal_engine)key->engine),
                         peal_engine_name((peal_engine)step->engine));
    }
    key->signals[section]++;
    key->tells += step->op == PLAN_TELL;
}

static void note_wait(struct verify_sem_key *key, const struct plan_step *step, uint32_t rank,
                      uint32_t lane, uint32_t at, uint32_t section, struct verify_out *out)
{
    if (key->wait_lane == NO_LANE)
        key->wait_lane = lane;
    else if (key->wait_lane != lane)
        peal_verify_find(out, "deadlock", rank, lane, at,
                         "semaphore r%u.%u is waited on by lanes %u and %u", key->producer,
                         key->index, key->wait_lane, lane);
    key->waits[section]++;
    key->learns += step->op == PLAN_LEARN;
    uint32_t nth = key->waits[0] + (section ? key->waits[section] : 0);
    if (section < POST && nth > step->lag && nth - step->lag > key->needs[section]) {
        key->needs[section] = nth - step->lag;
        key->needs_at[section] = at;
    }
}

static peal_status note_lane(struct verify_sems *sems, uint32_t rank, uint32_t lane,
                             struct verify_out *out)
{
    const struct plan_rank *program = &sems->plan->ranks[rank];
    const struct plan_lane *l = &program->lanes[lane];
    for (uint32_t i = 0; i < l->pre + l->body + l->post; i++) {
        const struct plan_step *step = &program->steps[l->first + i];
        uint32_t section = i < l->pre ? PRE : i < l->pre + l->body ? BODY : POST;
        uint32_t at;
        if (peal_plan_op_signals(step->op)) {
            PEAL_TRY(sem_find(sems, rank, step->peer, step->sem, &at));
            note_signal(&sems->keys[at], step, rank, lane, i, section, out);
        } else if (peal_plan_op_waits(step->op)) {
            PEAL_TRY(sem_find(sems, step->peer, rank, step->sem, &at));
            note_wait(&sems->keys[at], step, rank, lane, i, section, out);
        } else {
            continue;
        }
        sems->of_step[rank][l->first + i] = at;
    }
    return PEAL_OK;
}

static void check_balance(const struct verify_sem_key *key, struct verify_out *out)
{
    uint32_t signals_once = key->signals[PRE] + key->signals[POST];
    uint32_t waits_once = key->waits[PRE] + key->waits[POST];
    if (signals_once != waits_once || key->signals[BODY] != key->waits[BODY])
        peal_verify_find(out, "composition", key->consumer, -1, -1,
                         "semaphore %u from rank %u to rank %u: %u + %u a trip signals, "
                         "%u + %u a trip waits; the next call would start askew",
                         key->index, key->producer, key->consumer, signals_once, key->signals[BODY],
                         waits_once, key->waits[BODY]);
}

/* A count that is told is learned, and nothing else is taken for one. */
static void check_counts(const struct verify_sem_key *key, struct verify_out *out)
{
    uint32_t signals = key->signals[PRE] + key->signals[BODY] + key->signals[POST];
    uint32_t waits = key->waits[PRE] + key->waits[BODY] + key->waits[POST];
    if ((key->tells || key->learns) && (key->tells != signals || key->learns != waits))
        peal_verify_find(out, "result", key->consumer, -1, -1,
                         "semaphore %u from rank %u carries a count in some steps and none in "
                         "others: %u of %u signals tell, %u of %u waits learn",
                         key->index, key->producer, key->tells, signals, key->learns, waits);
}

/* What a wait needs lies in its own trip and section or before: then every order between two
 * steps goes through the trips from the one to the other only, and a few trips prove any number.
 * Otherwise what holds a plan up, or together, can be the end of the trips. */
static void check_ahead(const struct verify_sem_key *key, struct verify_out *out)
{
    uint32_t there[2] = {key->signals[PRE], key->signals[PRE] + key->signals[BODY]};
    for (uint32_t section = PRE; section < POST; section++)
        if (key->needs[section] > there[section])
            peal_verify_find(out, "deadlock", key->consumer, key->wait_lane, key->needs_at[section],
                             "waits for signals that rank %u raises only in a later trip or "
                             "section (semaphore %u)",
                             key->producer, key->index);
}

peal_status peal_verify_sems_build(struct verify_sems *sems, const struct peal_plan *plan,
                                   struct verify_out *out)
{
    memset(sems, 0, sizeof *sems);
    sems->ctx = plan->ctx;
    sems->plan = plan;
    sems->bucket_count = 64;
    while (sems->bucket_count < 2 * step_total(plan))
        sems->bucket_count *= 2;
    sems->buckets = peal_calloc(plan->ctx, sems->bucket_count, sizeof(uint32_t));
    sems->of_step = peal_calloc(plan->ctx, plan->nranks, sizeof *sems->of_step);
    if (!sems->buckets || !sems->of_step)
        return PEAL_ERR_MEMORY;
    sems->nranks = plan->nranks;
    for (uint32_t r = 0; r < plan->nranks; r++) {
        if (!plan->ranks[r].nsteps)
            continue;
        sems->of_step[r] = peal_calloc(plan->ctx, plan->ranks[r].nsteps, sizeof(uint32_t));
        if (!sems->of_step[r])
            return PEAL_ERR_MEMORY;
        for (uint32_t l = 0; l < plan->ranks[r].nlanes; l++)
            PEAL_TRY(note_lane(sems, r, l, out));
    }
    for (uint32_t i = 0; i < sems->count; i++) {
        check_balance(&sems->keys[i], out);
        check_ahead(&sems->keys[i], out);
        check_counts(&sems->keys[i], out);
    }
    return PEAL_OK;
}

void peal_verify_sems_free(struct verify_sems *sems)
{
    if (!sems->ctx)
        return;
    if (sems->of_step)
        for (uint32_t r = 0; r < sems->plan->nranks; r++)
            peal_free(sems->ctx, sems->of_step[r], sems->plan->ranks[r].nsteps * sizeof(uint32_t));
    peal_free(sems->ctx, sems->of_step, sems->plan->nranks * sizeof *sems->of_step);
    peal_free(sems->ctx, sems->buckets, sems->bucket_count * sizeof(uint32_t));
    peal_free(sems->ctx, sems->keys, sems->capacity * sizeof *sems->keys);
}
