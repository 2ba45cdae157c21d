/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every lane knows. Steps of a script are taken in the order they are written, and each lane
 * keeps a vector clock of what has happened on all others; a semaphore is added only where an
 * access has to be behind another and the clock does not say so already. A signal stands right
 * behind what it tells of, though it is asked for later. All that a step waits for was made by
 * steps before it, so the lanes together cannot be stuck.
 */
#include "script.h"

#include <string.h>

#define ITEMS_MAX (UINT16_MAX - 8u) /* of a lane: clocks hold 16 bits */
#define CLOCKS_MAX (1ull << 30)     /* bytes of all of them */

uint32_t peal_script_now(const struct script_program *p, uint32_t lane)
{
    return p->lanes[lane].nitems + SCRIPT_ENTERED;
}

static uint16_t *clock_behind(const struct script_program *p, uint32_t lane, uint32_t at)
{
    return p->lanes[lane].clocks + (size_t)(at - SCRIPT_ENTERED - 1) * p->nlanes;
}

static void join(const struct script_program *p, uint16_t *clock, const uint16_t *other)
{
    for (uint32_t i = 0; i < p->nlanes; i++)
        if (other[i] > clock[i])
            clock[i] = other[i];
}

static peal_status keep_clock(struct script_program *p, struct script_lane *lane)
{
    size_t bytes = p->nlanes * sizeof *lane->clock;
    if ((uint64_t)p->nitems * bytes > CLOCKS_MAX)
        return PEAL_ERR_LIMIT;
    PEAL_TRY(peal_grow(p->ctx, (void **)(void *)&lane->clocks, &lane->clocks_capacity,
                       lane->nitems, bytes, ITEMS_MAX + 1));
    memcpy(lane->clocks + (size_t)(lane->nitems - 1) * p->nlanes, lane->clock, bytes);
    return PEAL_OK;
}

peal_status peal_script_item(struct script_program *p, uint32_t index,
                             const struct script_item *item, uint32_t *at)
{
    struct script_lane *lane = &p->lanes[index];
    PEAL_TRY(peal_grow(p->ctx, (void **)&lane->items, &lane->items_capacity,
                       (size_t)lane->nitems + 1, sizeof *lane->items, ITEMS_MAX));
    PEAL_TRY(peal_grow(p->ctx, (void **)(void *)&p->order, &p->order_capacity,
                       (size_t)p->nitems + 1, sizeof *p->order, 1u << 28));
    p->order[p->nitems++] = index;
    lane->items[lane->nitems++] = *item;
    lane->clock[index] = (uint16_t)peal_script_now(p, index);
    if (at)
        *at = lane->clock[index];
    return keep_clock(p, lane);
}

peal_status peal_script_signal(struct script_program *p, uint32_t from, uint32_t after, uint32_t to,
                               enum script_sem sem, uint32_t push)
{
    uint32_t *newest = &p->pair_signal[(size_t)from * p->nlanes + to];
    PEAL_TRY(peal_grow(p->ctx, (void **)&p->signals, &p->signals_capacity,
                       (size_t)p->nsignals + 1, sizeof *p->signals, 1u << 28));
    p->signals[p->nsignals] = (struct script_signal){.from = from,
                                                     .to = to,
                                                     .after = after,
                                                     .next = *newest,
                                                     .chain = NO_INDEX,
                                                     .push = push,
                                                     .sem = (uint8_t)sem};
    *newest = p->nsignals++;
    return PEAL_OK;
}

/* Pushes of one semaphore arrive in order: who has heard of one, has of those before it. */
static void hear(struct script_program *p, uint32_t signal, uint32_t at)
{
    for (uint32_t i = signal; i != NO_INDEX; i = p->signals[i].next) {
        const struct script_signal *one = &p->signals[i];
        if (one->sem != SEM_PUSHED)
            continue;
        if (p->pushes[one->push].heard)
            return;
        p->pushes[one->push].heard = at;
    }
}

static peal_status wait_for(struct script_program *p, uint32_t lane, uint32_t signal)
{
    const struct script_signal *from = &p->signals[signal];
    uint32_t at;
    join(p, p->lanes[lane].clock, clock_behind(p, from->from, from->after));
    PEAL_TRY(peal_script_item(
        p, lane, &(struct script_item){.kind = SCRIPT_WAIT, .what = signal}, &at));
    if (from->sem == SEM_PUSHED)
        hear(p, signal, at);
    return PEAL_OK;
}

/* ---- events -------------------------------------------------------------------------------- */

static int knows_entry(const struct script_program *p, uint32_t lane, uint32_t rank)
{
    const uint16_t *clock = p->lanes[lane].clock + (size_t)rank * p->stages;
    if (peal_script_rank(p, lane) == rank)
        return 1;
    for (uint32_t s = 0; s < p->stages; s++)
        if (clock[s])
            return 1;
    return 0;
}

int peal_script_knows(const struct script_program *p, uint32_t lane,
                      const struct script_event *event)
{
    const uint16_t *clock = p->lanes[lane].clock;
    if (!event->at)
        return knows_entry(p, lane, event->rank);
    if (event->push == NO_INDEX)
        return clock[event->lane] >= event->at;
    const struct script_push *push = &p->pushes[event->push];
    return (push->heard && clock[push->to] >= push->heard) ||
           (push->over && clock[push->lane] >= push->over) ||
           (!event->arrives && push->freed && clock[push->lane] >= push->freed);
}

/* The earliest signal from one lane to another that tells of an item. */
static uint32_t find_signal(const struct script_program *p, uint32_t from, uint32_t at, uint32_t to)
{
    uint32_t best = NO_INDEX;
    for (uint32_t i = p->pair_signal[(size_t)from * p->nlanes + to]; i != NO_INDEX;
         i = p->signals[i].next) {
        const struct script_signal *one = &p->signals[i];
        if (one->sem == SEM_PLAIN && one->after >= at &&
            (best == NO_INDEX || one->after < p->signals[best].after))
            best = i;
    }
    return best;
}

static peal_status behind_item(struct script_program *p, uint32_t lane, uint32_t from, uint32_t at)
{
    uint32_t signal = find_signal(p, from, at, lane);
    if (signal == NO_INDEX) {
        PEAL_TRY(peal_script_signal(p, from, at, lane, SEM_PLAIN, NO_INDEX));
        signal = p->nsignals - 1;
    }
    return wait_for(p, lane, signal);
}

static peal_status behind_push(struct script_program *p, uint32_t lane,
                               const struct script_event *event)
{
    struct script_push *push = &p->pushes[event->push];
    uint32_t at;
    if (lane == push->lane && !event->arrives) {
        PEAL_TRY(peal_script_item(
            p, lane, &(struct script_item){.kind = SCRIPT_FREE, .what = event->push}, &at));
        push->freed = at;
        return PEAL_OK;
    }
    if (!push->heard)
        PEAL_TRY(wait_for(p, push->to, push->signal));
    return lane == push->to ? PEAL_OK : behind_item(p, lane, push->to, p->pushes[event->push].heard);
}

peal_status peal_script_behind(struct script_program *p, uint32_t lane,
                               const struct script_event *event)
{
    if (peal_script_knows(p, lane, event))
        return PEAL_OK;
    if (!event->at) {
        /* Told before the body begins. */
        p->enters[(size_t)event->rank * p->nlanes + lane] = 1;
        p->lanes[lane].clock[event->rank * p->stages + lane % p->stages] = SCRIPT_ENTERED;
        return PEAL_OK;
    }
    return event->push == NO_INDEX ? behind_item(p, lane, event->lane, event->at)
                                   : behind_push(p, lane, event);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Every signal is waited for, as semaphores have to be balanced; so let its lane know, too. */
static peal_status hear_rest(struct script_program *p, uint32_t from, uint32_t to)
{
    uint32_t plain = NO_INDEX, pushed = NO_INDEX;
    for (uint32_t i = p->pair_signal[(size_t)from * p->nlanes + to]; i != NO_INDEX;
         i = p->signals[i].next) {
        if (p->signals[i].sem == SEM_PUSHED && pushed == NO_INDEX)
            pushed = i;
        if (p->signals[i].sem == SEM_PLAIN &&
            (plain == NO_INDEX || p->signals[i].after > p->signals[plain].after))
            plain = i;
    }
    if (pushed != NO_INDEX && !p->pushes[p->signals[pushed].push].heard)
        PEAL_TRY(wait_for(p, to, pushed));
    if (plain != NO_INDEX && p->lanes[to].clock[from] < p->signals[plain].after)
        PEAL_TRY(wait_for(p, to, plain));
    return PEAL_OK;
}

/* What the lanes of a rank know together when the call returns. */
static void know_at_return(const struct script_program *p, uint32_t rank, uint16_t *clock)
{
    memset(clock, 0, p->nlanes * sizeof *clock);
    for (uint32_t s = 0; s < p->stages; s++)
        join(p, clock, p->lanes[rank * p->stages + s].clock);
}

/* Whoever has read a rank's memory says so before that rank returns, and all have entered. */
static void leave(struct script_program *p, uint32_t rank, uint16_t *clock)
{
    know_at_return(p, rank, clock);
    for (uint32_t lane = 0; lane < p->nlanes; lane++) {
        if (p->touched[(size_t)lane * p->n + rank] <= clock[lane])
            continue;
        p->leaves[(size_t)lane * p->n + rank] = 1;
        join(p, clock, p->lanes[lane].clock);
    }
    for (uint32_t other = 0; other < p->n; other++) {
        int entered = other == rank;
        for (uint32_t s = 0; s < p->stages; s++)
            entered |= clock[other * p->stages + s] != 0;
        p->barrier |= !entered;
    }
}

peal_status peal_script_finish(struct script_program *p)
{
    uint16_t *clock = peal_alloc(p->ctx, p->nlanes * sizeof *clock);
    if (!clock)
        return PEAL_ERR_MEMORY;
    peal_status status = PEAL_OK;
    for (uint32_t to = 0; status == PEAL_OK && to < p->nlanes; to++)
        for (uint32_t from = 0; status == PEAL_OK && from < p->nlanes; from++)
            status = hear_rest(p, from, to);
    for (uint32_t rank = 0; status == PEAL_OK && rank < p->n; rank++)
        leave(p, rank, clock);
    peal_free(p->ctx, clock, p->nlanes * sizeof *clock);
    return status;
}
