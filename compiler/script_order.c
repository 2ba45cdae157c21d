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
    return p->lanes[lane].clocks + (size_t)(at - SCRIPT_ENTERED - 1) * p->lanes[lane].known;
}

/* Where a lane stands in the clocks of its family. */
static uint32_t entry_of(const struct script_program *p, uint32_t lane)
{
    uint32_t stage = lane % p->stages;
    return peal_script_rank(p, lane) * p->stages_of[stage] + p->place[stage];
}

static int same_family(const struct script_program *p, uint32_t a, uint32_t b)
{
    return p->family[a % p->stages] == p->family[b % p->stages];
}

static void join(uint32_t known, uint16_t *clock, const uint16_t *other)
{
    for (uint32_t i = 0; i < known; i++)
        if (other[i] > clock[i])
            clock[i] = other[i];
}

static peal_status keep_clock(struct script_program *p, struct script_lane *lane)
{
    size_t bytes = lane->known * sizeof *lane->clock;
    p->clock_bytes += bytes;
    if (p->clock_bytes > CLOCKS_MAX)
        return PEAL_ERR_LIMIT;
    PEAL_TRY(peal_grow(p->ctx, (void **)(void *)&lane->clocks, &lane->clocks_capacity, lane->nitems,
                       bytes, ITEMS_MAX + 1));
    memcpy(lane->clocks + (size_t)(lane->nitems - 1) * lane->known, lane->clock, bytes);
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
    lane->clock[entry_of(p, index)] = (uint16_t)peal_script_now(p, index);
    if (at)
        *at = peal_script_now(p, index);
    return keep_clock(p, lane);
}

peal_status peal_script_signal(struct script_program *p, uint32_t from, uint32_t after, uint32_t to,
                               enum script_sem sem, uint32_t push)
{
    uint32_t *newest = &p->pair_signal[(size_t)from * p->nlanes + to];
    PEAL_TRY(peal_grow(p->ctx, (void **)&p->signals, &p->signals_capacity, (size_t)p->nsignals + 1,
                       sizeof *p->signals, 1u << 28));
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
    join(p->lanes[lane].known, p->lanes[lane].clock, clock_behind(p, from->from, from->after));
    PEAL_TRY(
        peal_script_item(p, lane, &(struct script_item){.kind = SCRIPT_WAIT, .what = signal}, &at));
    if (from->sem == SEM_PUSHED)
        hear(p, signal, at);
    return PEAL_OK;
}

/* ---- events -------------------------------------------------------------------------------- */

static int knows_entry(const struct script_program *p, uint32_t lane, uint32_t rank)
{
    uint32_t stages = p->stages_of[lane % p->stages];
    const uint16_t *clock = p->lanes[lane].clock + (size_t)rank * stages;
    if (peal_script_rank(p, lane) == rank)
        return 1;
    for (uint32_t s = 0; s < stages; s++)
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
        return clock[entry_of(p, event->lane)] >= event->at;
    const struct script_push *push = &p->pushes[event->push];
    uint16_t there = clock[entry_of(p, push->to)], here = clock[entry_of(p, push->lane)];
    return (push->heard && there >= push->heard) || (push->over && here >= push->over) ||
           (!event->arrives && push->freed && here >= push->freed);
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
    return lane == push->to ? PEAL_OK
                            : behind_item(p, lane, push->to, p->pushes[event->push].heard);
}

peal_status peal_script_behind(struct script_program *p, uint32_t lane,
                               const struct script_event *event)
{
    if (peal_script_knows(p, lane, event))
        return PEAL_OK;
    if (!event->at) {
        /* Told before the body begins. */
        p->enters[(size_t)event->rank * p->nlanes + lane] = 1;
        p->lanes[lane].clock[entry_of(p, event->rank * p->stages + lane % p->stages)] =
            SCRIPT_ENTERED;
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
    if (plain != NO_INDEX && p->lanes[to].clock[entry_of(p, from)] < p->signals[plain].after)
        PEAL_TRY(wait_for(p, to, plain));
    return PEAL_OK;
}

/* Does a lane of the rank know that the other has been so far? */
static int knows_at_return(const struct script_program *p, uint32_t rank, uint32_t other,
                           uint32_t at)
{
    for (uint32_t s = 0; s < p->stages; s++) {
        uint32_t lane = rank * p->stages + s;
        if (same_family(p, lane, other) && p->lanes[lane].clock[entry_of(p, other)] >= at)
            return 1;
    }
    return 0;
}

/* Whoever has read a rank's memory says so before that rank returns. */
static void leave(struct script_program *p, uint32_t rank)
{
    for (uint32_t lane = 0; lane < p->nlanes; lane++) {
        uint32_t at = p->touched[(size_t)lane * p->n + rank];
        p->leaves[(size_t)lane * p->n + rank] = at && !knows_at_return(p, rank, lane, at);
    }
}

static int has_entered(const struct script_program *p, uint32_t family, uint32_t rank,
                       uint32_t other)
{
    for (uint32_t s = 0; s < p->stages; s++)
        if (p->family[s] == family &&
            knows_at_return(p, rank, other * p->stages + s, SCRIPT_ENTERED))
            return 1;
    for (uint32_t lane = 0; lane < p->nlanes; lane++)
        if (p->family[lane % p->stages] == family && p->leaves[(size_t)lane * p->n + rank] &&
            knows_entry(p, lane, other))
            return 1;
    return 0;
}

/* Does what a rank hears of before it returns make sure that all have entered? By each family for
 * itself, as they are proven apart. */
static void look_around(struct script_program *p, uint32_t family, uint32_t rank)
{
    for (uint32_t other = 0; !p->barrier[family] && other < p->n; other++)
        p->barrier[family] = other != rank && !has_entered(p, family, rank, other);
}

peal_status peal_script_finish(struct script_program *p)
{
    for (uint32_t to = 0; to < p->nlanes; to++)
        for (uint32_t from = 0; from < p->nlanes; from++)
            PEAL_TRY(hear_rest(p, from, to));
    for (uint32_t rank = 0; rank < p->n; rank++)
        leave(p, rank);
    for (uint32_t s = 0; s < p->stages; s++)
        for (uint32_t rank = 0; p->family[s] == s && rank < p->n; rank++)
            look_around(p, s, rank);
    return PEAL_OK;
}
