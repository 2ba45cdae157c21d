/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the steps of a script to moves of lanes.
 *
 * The value that a rank has of a chunk is a list of terms: its own input, slots that came, memory
 * of others that it may load from. They are folded only when somebody needs the sum: so what a rank
 * adds up and passes on is one pass over memory, straight into the next rank's slot or output where
 * stores reach. A complete sum goes to the rank's own output in the same step. Where another engine
 * has to send, the sum is folded into the output first, or into a staging slot where the rank has
 * no output of the chunk.
 */
#include "script.h"

#include <string.h>

#define POOL_MAX (1u << 26)

struct term {
    struct script_operand operand;
    struct script_event event; /* behind which it may be read */
    uint32_t next;
};

struct value {
    uint32_t first; /* of its terms */
    uint32_t last;
    uint32_t count;
    uint16_t stage;  /* whose lane has them */
    uint16_t remote; /* terms that lie in other ranks' memory */
    uint8_t final;
    uint32_t touched; /* how often it has been made, or looked at */
};

struct read {
    struct script_event event;
    uint32_t next;
};

/* A rank's memory of a chunk. Input and output may be one, and count as one. */
struct cell {
    struct script_event written;
    uint32_t reads;
};

struct lowering {
    struct script_program *p;
    const peal_schedule *script;
    const struct peal_plan *head;
    struct script_sets sets;
    uint16_t *lives;
    struct value *values; /* [rank][chunk] */
    struct cell *cells;
    uint32_t nterms, terms_capacity;
    struct term *terms;
    uint32_t nreads, reads_capacity;
    struct read *reads;
    uint32_t nlater, later_capacity;
    struct later { /* to be handed on at the end of the wave */
        uint32_t rank, chunk;
        uint32_t touched; /* unless it has been again since */
        uint16_t stage, life;
    } * later;
    struct script_operand operand[SCRIPT_RANKS_MAX * 2 + 2];
};

static size_t cell_index(const struct lowering *l, uint32_t rank, uint32_t chunk)
{
    return (size_t)rank * l->head->nchunks + chunk;
}

static struct value *value_of(struct lowering *l, uint32_t rank, uint32_t chunk)
{
    return &l->values[cell_index(l, rank, chunk)];
}

static int has_out(const struct lowering *l, uint32_t rank, uint32_t chunk)
{
    return peal_plan_holds(l->head, rank, PLAN_BUF_OUT, chunk);
}

static uint32_t lane_of(const struct lowering *l, uint32_t rank, uint32_t stage)
{
    return rank * l->p->stages + stage;
}

static int is_memory(uint8_t place)
{
    return place == SCRIPT_IN || place == SCRIPT_OUT;
}

/* One term of the rank's own memory. */
static int is_plain(const struct lowering *l, const struct value *value)
{
    return value->count == 1 && !value->remote && is_memory(l->terms[value->first].operand.place);
}

static int is_out(const struct lowering *l, const struct value *value)
{
    return is_plain(l, value) && l->terms[value->first].operand.place == SCRIPT_OUT;
}

static int is_complete(const struct lowering *l, uint32_t rank, uint32_t chunk)
{
    return peal_script_complete(&l->sets, l->script, rank, chunk);
}

static int reduces(const struct lowering *l, uint32_t chunk)
{
    return peal_plan_adds(l->head, chunk);
}

static peal_status add_term(struct lowering *l, struct value *value,
                            const struct script_operand *operand, const struct script_event *event,
                            int remote)
{
    PEAL_TRY(peal_grow(l->p->ctx, (void **)&l->terms, &l->terms_capacity, (size_t)l->nterms + 1,
                       sizeof *l->terms, POOL_MAX));
    l->terms[l->nterms] = (struct term){*operand, *event, NO_INDEX};
    if (value->count)
        l->terms[value->last].next = l->nterms;
    else
        value->first = l->nterms;
    value->last = l->nterms++;
    value->count++;
    value->remote = (uint16_t)(value->remote + remote);
    return PEAL_OK;
}

static void forget(struct value *value)
{
    *value = (struct value){.stage = value->stage, .touched = value->touched};
}

/* ---- accesses --------------------------------------------------------------------------- */

static peal_status note_read(struct lowering *l, uint32_t rank, uint32_t chunk,
                             const struct script_event *event)
{
    struct cell *cell = &l->cells[cell_index(l, rank, chunk)];
    uint32_t lane_rank = peal_script_rank(l->p, event->lane);
    if (lane_rank != rank)
        l->p->touched[(size_t)event->lane * l->p->n + rank] = (uint16_t)event->at;
    for (uint32_t i = cell->reads; i != NO_INDEX; i = l->reads[i].next)
        if (l->reads[i].event.lane == event->lane && l->reads[i].event.push == NO_INDEX &&
            event->push == NO_INDEX) {
            l->reads[i].event.at = event->at;
            return PEAL_OK;
        }
    PEAL_TRY(peal_grow(l->p->ctx, (void **)&l->reads, &l->reads_capacity, (size_t)l->nreads + 1,
                       sizeof *l->reads, POOL_MAX));
    l->reads[l->nreads] = (struct read){*event, cell->reads};
    cell->reads = l->nreads++;
    return PEAL_OK;
}

/* The lane goes on behind all that has to be over before it writes the memory. */
static peal_status before_write(struct lowering *l, uint32_t lane, uint32_t rank, uint32_t chunk)
{
    struct cell *cell = &l->cells[cell_index(l, rank, chunk)];
    PEAL_TRY(peal_script_behind(l->p, lane, &cell->written));
    for (uint32_t i = cell->reads; i != NO_INDEX; i = l->reads[i].next)
        PEAL_TRY(peal_script_behind(l->p, lane, &l->reads[i].event));
    return PEAL_OK;
}

static void note_write(struct lowering *l, uint32_t rank, uint32_t chunk,
                       const struct script_event *event)
{
    l->cells[cell_index(l, rank, chunk)] = (struct cell){*event, NO_INDEX};
}

/* ---- slots -------------------------------------------------------------------------------- */

static peal_status pipe_between(struct lowering *l, uint32_t from, uint32_t to, uint32_t *pipe)
{
    struct script_program *p = l->p;
    uint32_t *known = &p->pair_pipe[(size_t)from * p->nlanes + to];
    if (*known == NO_INDEX) {
        PEAL_TRY(peal_grow(p->ctx, (void **)&p->pipes, &p->pipes_capacity, (size_t)p->npipes + 1,
                           sizeof *p->pipes, 1u << 24));
        p->pipes[p->npipes] =
            (struct script_pipe){.from = from, .to = to, .first = NO_INDEX, .last = NO_INDEX};
        *known = p->npipes++;
    }
    *pipe = *known;
    return PEAL_OK;
}

/* The next slot on the way to a lane. */
static peal_status claim(struct lowering *l, uint32_t from, uint32_t to,
                         struct script_operand *operand)
{
    struct script_program *p = l->p;
    uint32_t index;
    PEAL_TRY(pipe_between(l, from, to, &index));
    PEAL_TRY(peal_grow(p->ctx, (void **)&p->slots, &p->slots_capacity, (size_t)p->nslots + 1,
                       sizeof *p->slots, POOL_MAX));
    struct script_pipe *pipe = &p->pipes[index];
    struct script_item item = {.kind = SCRIPT_CLAIM, .what = index, .nth = p->nslots};
    *operand = (struct script_operand){SCRIPT_SLOT, peal_script_rank(p, to), index, p->nslots};
    p->slots[p->nslots] =
        (struct script_slot){.next = NO_INDEX, .number = pipe->pushes, .taken_at = p->nitems};
    if (pipe->pushes++)
        p->slots[pipe->last].next = p->nslots;
    else
        pipe->first = p->nslots;
    pipe->last = p->nslots++;
    return peal_script_item(p, from, &item, NULL);
}

/* A slot has been read for the last time, by the lane's last item. */
static void give_back(struct lowering *l, const struct script_operand *operand)
{
    struct script_program *p = l->p;
    if (operand->place != SCRIPT_SLOT)
        return;
    struct script_slot *slot = &p->slots[operand->slot];
    slot->free_at = p->nitems;
    slot->free_item = peal_script_now(p, p->pipes[operand->pipe].to);
}

/* The value is not looked at again; its lane has gone on behind all it did with it. */
static void drop(struct lowering *l, struct value *value)
{
    for (uint32_t i = value->first, k = 0; k < value->count; i = l->terms[i].next, k++)
        give_back(l, &l->terms[i].operand);
    forget(value);
}

/* The same of one that is about to be replaced unread: what came has to have come. */
static peal_status drop_unread(struct lowering *l, uint32_t rank, struct value *value)
{
    uint32_t lane = lane_of(l, rank, value->stage);
    for (uint32_t i = value->first, k = 0; k < value->count; i = l->terms[i].next, k++)
        if (l->terms[i].operand.place == SCRIPT_SLOT)
            PEAL_TRY(peal_script_behind(l->p, lane, &l->terms[i].event));
    drop(l, value);
    return PEAL_OK;
}

/* ---- moves ---------------------------------------------------------------------------------- */

static peal_status add_operands(struct lowering *l, uint32_t count, uint32_t *first)
{
    struct script_program *p = l->p;
    PEAL_TRY(peal_grow(p->ctx, (void **)&p->operands, &p->operands_capacity,
                       (size_t)p->noperands + count, sizeof *p->operands, POOL_MAX));
    memcpy(p->operands + p->noperands, l->operand, count * sizeof *l->operand);
    *first = p->noperands;
    p->noperands += count;
    return PEAL_OK;
}

/* The terms of a value as sources, each behind what has made it. */
static peal_status take_terms(struct lowering *l, uint32_t lane, uint32_t chunk,
                              const struct value *value)
{
    for (uint32_t i = value->first, k = 0; k < value->count; i = l->terms[i].next, k++) {
        struct script_event event = l->terms[i].event;
        l->operand[k] = l->terms[i].operand;
        if (is_memory(l->operand[k].place))
            event = l->cells[cell_index(l, l->operand[k].rank, chunk)].written;
        PEAL_TRY(peal_script_behind(l->p, lane, &event));
    }
    return PEAL_OK;
}

static peal_status note_reads(struct lowering *l, uint32_t chunk, uint32_t count,
                              const struct script_event *event)
{
    for (uint32_t k = 0; k < count; k++)
        if (is_memory(l->operand[k].place))
            PEAL_TRY(note_read(l, l->operand[k].rank, chunk, event));
    return PEAL_OK;
}

/* Folds a value into l->operand[value->count ...], of which there are ndst. */
static peal_status fold(struct lowering *l, uint32_t lane, uint32_t chunk, struct value *value,
                        uint32_t ndst, int final, struct script_event *event)
{
    struct script_operand *dst = l->operand + value->count;
    if (value->count > PLAN_OPERANDS_MAX || ndst > PLAN_OPERANDS_MAX)
        return PEAL_ERR_LIMIT;
    PEAL_TRY(take_terms(l, lane, chunk, value));
    for (uint32_t k = 0; k < ndst; k++)
        if (is_memory(dst[k].place))
            PEAL_TRY(before_write(l, lane, dst[k].rank, chunk));
    struct script_item item = {.kind = SCRIPT_MOVE,
                               .final = final != 0,
                               .nsrc = (uint16_t)value->count,
                               .ndst = (uint16_t)ndst,
                               .chunk = chunk};
    *event = (struct script_event){.lane = lane, .push = NO_INDEX};
    PEAL_TRY(add_operands(l, value->count + ndst, &item.operand));
    PEAL_TRY(peal_script_item(l->p, lane, &item, &event->at));
    PEAL_TRY(note_reads(l, chunk, value->count, event));
    for (uint32_t k = 0; k < ndst; k++)
        if (is_memory(dst[k].place))
            note_write(l, dst[k].rank, chunk, event);
    return PEAL_OK;
}

/* From l->operand[0] to l->operand[1] by another engine. */
static peal_status push(struct lowering *l, uint32_t lane, uint32_t to, uint32_t chunk,
                        struct script_event *event)
{
    struct script_program *p = l->p;
    struct script_item item = {
        .kind = SCRIPT_PUSH, .nsrc = 1, .ndst = 1, .chunk = chunk, .what = p->npushes};
    PEAL_TRY(peal_grow(p->ctx, (void **)&p->pushes, &p->pushes_capacity, (size_t)p->npushes + 1,
                       sizeof *p->pushes, POOL_MAX));
    if (is_memory(l->operand[1].place))
        PEAL_TRY(before_write(l, lane, l->operand[1].rank, chunk));
    PEAL_TRY(add_operands(l, 2, &item.operand));
    *event = (struct script_event){.lane = lane, .push = p->npushes};
    p->pushes[p->npushes++] = (struct script_push){.lane = lane, .to = to, .signal = p->nsignals};
    PEAL_TRY(peal_script_item(p, lane, &item, &event->at));
    p->pushes[event->push].at = event->at;
    struct script_lane *own = &p->lanes[lane];
    p->pushes[event->push].event = own->pushes % p->in_flight;
    uint32_t *recent = &own->recent[own->pushes++ % p->in_flight];
    if (own->pushes > p->in_flight) /* the event's last transfer is over now */
        p->pushes[*recent].over = event->at;
    *recent = event->push;
    PEAL_TRY(note_reads(l, chunk, 1, event));
    event->arrives = 1;
    if (is_memory(l->operand[1].place))
        note_write(l, l->operand[1].rank, chunk, event);
    return peal_script_signal(p, lane, event->at, to, SEM_PUSHED, event->push);
}

/* ---- values ------------------------------------------------------------------------------------
 */

/* Folds what the value has into one place, for whoever goes on with it: the output, or else a slot
 * between two lanes of the rank. */
static peal_status settle(struct lowering *l, uint32_t rank, uint32_t chunk, uint32_t stage)
{
    struct value *value = value_of(l, rank, chunk);
    uint32_t lane = lane_of(l, rank, value->stage), next = lane_of(l, rank, stage);
    int final =
        reduces(l, chunk) && value->count > 1 && !value->final && is_complete(l, rank, chunk);
    struct script_operand to = {SCRIPT_OUT, rank, 0, 0};
    struct script_event event;
    if (!has_out(l, rank, chunk))
        PEAL_TRY(claim(l, lane, next, &to));
    l->operand[value->count] = to;
    PEAL_TRY(fold(l, lane, chunk, value, 1, final, &event));
    uint8_t was_final = value->final;
    drop(l, value);
    if (to.place == SCRIPT_SLOT)
        PEAL_TRY(peal_script_signal(l->p, lane, event.at, next, SEM_PLAIN, NO_INDEX));
    PEAL_TRY(add_term(l, value, &to, &event, 0));
    value->final = was_final || final;
    value->stage = (uint16_t)stage;
    return PEAL_OK;
}

/* Steps of this stage go on with the value. */
static peal_status take_over(struct lowering *l, uint32_t rank, uint32_t chunk, uint32_t stage)
{
    struct value *value = value_of(l, rank, chunk);
    if (value->count && value->stage != stage && !is_plain(l, value))
        return settle(l, rank, chunk, stage);
    value->stage = (uint16_t)stage;
    return PEAL_OK;
}

/* What others have yet to load from the memory is loaded before it is written. */
static peal_status load_now(struct lowering *l, uint32_t rank, uint32_t chunk, uint32_t writer)
{
    for (uint32_t r = 0; r < l->head->nranks; r++) {
        const struct value *value = value_of(l, r, chunk);
        if (r == writer || !value->remote)
            continue;
        int loads = 0;
        for (uint32_t i = value->first, k = 0; k < value->count; i = l->terms[i].next, k++)
            loads |= l->terms[i].operand.rank == rank;
        if (loads)
            PEAL_TRY(settle(l, r, chunk, value->stage));
    }
    return PEAL_OK;
}

/* A result goes to the output at once, and what another stage goes on with, to where its lane finds
 * it. */
static peal_status hand_on(struct lowering *l, uint32_t rank, uint32_t chunk, uint32_t stage,
                           uint16_t life)
{
    struct value *value = value_of(l, rank, chunk);
    if (!value->count)
        return PEAL_OK;
    if (life == SCRIPT_DEAD) {
        PEAL_TRY(drop_unread(l, rank, value));
        return PEAL_OK;
    }
    if (life == SCRIPT_RESULT && reduces(l, chunk) && !is_out(l, value))
        return settle(l, rank, chunk, stage);
    if (life != SCRIPT_RESULT && life != stage)
        return take_over(l, rank, chunk, life);
    return PEAL_OK;
}

/* Not before all steps of the wave are done: a lane sends first, and then waits. */
static peal_status hand_on_later(struct lowering *l, const struct script_step *step, uint32_t rank,
                                 uint16_t life)
{
    PEAL_TRY(peal_grow(l->p->ctx, (void **)&l->later, &l->later_capacity, (size_t)l->nlater + 1,
                       sizeof *l->later, POOL_MAX));
    l->later[l->nlater++] = (struct later){
        rank, step->chunk, ++value_of(l, rank, step->chunk)->touched, step->stage, life};
    return PEAL_OK;
}

static peal_status end_wave(struct lowering *l)
{
    for (uint32_t i = 0; i < l->nlater; i++) {
        const struct later *one = &l->later[i];
        if (one->touched == value_of(l, one->rank, one->chunk)->touched)
            PEAL_TRY(hand_on(l, one->rank, one->chunk, one->stage, one->life));
    }
    l->nlater = 0;
    return PEAL_OK;
}

/* ---- giving -------------------------------------------------------------------------------------
 */

struct giving {
    const struct script_step *step;
    uint32_t from;
    uint32_t chunk;
    uint32_t lane;
    uint16_t life; /* of the giver's value */
    uint32_t nto;
    const uint32_t *to;
    int adds;  /* 1: to what the rank has, 0: in its place */
    int final; /* the value is complete, now */
};

/* Stores of the lane go there, in the pass that folds. */
static int stores(struct lowering *l, const struct giving *g, uint32_t to)
{
    const struct hop *hop = peal_script_hop(l->p, g->from, to);
    return !peal_plan_engine_async(hop->engine) ||
           (hop->path.direct && value_of(l, g->from, g->chunk)->count > 1);
}

static peal_status place_for(struct lowering *l, const struct giving *g, uint32_t to,
                             struct script_operand *place)
{
    if (!g->adds && has_out(l, to, g->chunk)) {
        *place = (struct script_operand){SCRIPT_OUT, to, 0, 0};
        return load_now(l, to, g->chunk, g->from);
    }
    return claim(l, g->lane, lane_of(l, to, g->step->stage), place);
}

/* What has come is the rank's, or part of it. */
static peal_status arrive(struct lowering *l, const struct giving *g, uint32_t to,
                          const struct script_operand *place, const struct script_event *event)
{
    struct value *value = value_of(l, to, g->chunk);
    uint8_t final = value_of(l, g->from, g->chunk)->final || g->final;
    if (!g->adds && value->count)
        PEAL_TRY(drop_unread(l, to, value));
    value->stage = g->step->stage;
    PEAL_TRY(add_term(l, value, place, event, 0));
    value->final = !g->adds || value->count == 1 ? final : 0;
    return PEAL_OK;
}

/* To the own output, where that is wanted, and to all that stores reach; in one step. */
static peal_status give_by_lane(struct lowering *l, struct giving *g, int keep, uint32_t nstores,
                                uint32_t *kept)
{
    struct value *value = value_of(l, g->from, g->chunk);
    struct script_operand place[SCRIPT_RANKS_MAX + 1];
    struct script_event event;
    uint32_t ndst = 0, terms = value->count;
    if (keep) {
        PEAL_TRY(load_now(l, g->from, g->chunk, g->from));
        place[ndst++] = (struct script_operand){SCRIPT_OUT, g->from, 0, 0};
    }
    for (uint32_t k = 0; nstores && k < g->nto; k++)
        if (stores(l, g, g->to[k]))
            PEAL_TRY(place_for(l, g, g->to[k], &place[ndst++]));
    if (!ndst)
        return PEAL_OK;
    memcpy(l->operand + terms, place, ndst * sizeof *place);
    PEAL_TRY(fold(l, g->lane, g->chunk, value, ndst, g->final, &event));
    for (uint32_t k = keep ? 1 : 0; k < ndst; k++) {
        PEAL_TRY(arrive(l, g, place[k].rank, &place[k], &event));
        PEAL_TRY(peal_script_signal(l->p, g->lane, event.at,
                                    lane_of(l, place[k].rank, g->step->stage), SEM_PLAIN,
                                    NO_INDEX));
    }
    *kept = event.at;
    if (!keep)
        return PEAL_OK;
    uint8_t final = value->final || g->final;
    drop(l, value);
    PEAL_TRY(add_term(l, value, &place[0], &event, 0));
    value->final = final;
    return PEAL_OK;
}

/* By an engine that sends what lies in one place. */
static peal_status give_by_engine(struct lowering *l, struct giving *g, uint32_t to)
{
    struct value *value = value_of(l, g->from, g->chunk);
    struct script_operand place, source;
    struct script_event event;
    if (value->count > 1 || value->remote) { /* no output to fold it into */
        PEAL_TRY(
            peal_script_item(l->p, g->lane, &(struct script_item){.kind = SCRIPT_SETTLE}, NULL));
        source = (struct script_operand){SCRIPT_STAGING, g->from, 0, 0};
        l->operand[value->count] = source;
        PEAL_TRY(fold(l, g->lane, g->chunk, value, 1, g->final, &event));
        l->p->staging = 1;
    } else {
        PEAL_TRY(take_terms(l, g->lane, g->chunk, value));
        source = l->operand[0];
    }
    PEAL_TRY(place_for(l, g, to, &place));
    l->operand[0] = source;
    l->operand[1] = place;
    PEAL_TRY(push(l, g->lane, lane_of(l, to, g->step->stage), g->chunk, &event));
    PEAL_TRY(arrive(l, g, to, &place, &event));
    if (source.place == SCRIPT_SLOT && g->life == SCRIPT_DEAD) {
        struct script_event read = event;
        read.arrives = 0;
        PEAL_TRY(peal_script_behind(l->p, g->lane, &read));
    }
    return PEAL_OK;
}

/* 1: the value is to lie in the rank's output from here on. */
static int keeps(const struct lowering *l, const struct giving *g, const struct value *value,
                 uint32_t nengines)
{
    if (!has_out(l, g->from, g->chunk) || is_out(l, value))
        return 0;
    int lives = g->life != SCRIPT_DEAD;
    return (lives && is_complete(l, g->from, g->chunk)) || (lives && value->count > 1) ||
           (nengines && (value->count > 1 || value->remote));
}

static peal_status give(struct lowering *l, struct giving *g)
{
    PEAL_TRY(take_over(l, g->from, g->chunk, g->step->stage));
    struct value *value = value_of(l, g->from, g->chunk);
    uint32_t nstores = 0, at = 0;
    uint64_t by_lane[SCRIPT_RANKS_MAX / 64] = {0};
    g->lane = lane_of(l, g->from, g->step->stage);
    g->final = reduces(l, g->chunk) && value->count > 1 && !value->final &&
               is_complete(l, g->from, g->chunk);
    for (uint32_t k = 0; k < g->nto; k++)
        if (stores(l, g, g->to[k])) {
            by_lane[k / 64] |= 1ull << k % 64;
            nstores++;
        }
    int keep = keeps(l, g, value, g->nto - nstores);
    PEAL_TRY(give_by_lane(l, g, keep, nstores, &at));
    if (keep)
        g->final = 0; /* no longer to be made */
    for (uint32_t k = 0; k < g->nto; k++)
        if (!(by_lane[k / 64] >> k % 64 & 1))
            PEAL_TRY(give_by_engine(l, g, g->to[k]));
    if (g->life == SCRIPT_DEAD)
        drop(l, value);
    return PEAL_OK;
}

/* ---- steps
 * --------------------------------------------------------------------------------------- */

/* A reduction reads what lies in the memory of a rank that loads reach. */
static peal_status gather(struct lowering *l, const struct script_step *step, uint32_t from,
                          uint32_t to, int *gathered)
{
    *gathered = 0;
    if (!step->gathers || !peal_script_hop(l->p, from, to)->path.direct)
        return PEAL_OK;
    PEAL_TRY(take_over(l, from, step->chunk, step->stage));
    struct value *given = value_of(l, from, step->chunk), *got = value_of(l, to, step->chunk);
    if (!is_plain(l, given)) {
        if (!has_out(l, from, step->chunk))
            return PEAL_OK;
        PEAL_TRY(settle(l, from, step->chunk, step->stage));
    }
    struct script_operand operand = l->terms[given->first].operand;
    struct script_event event = l->terms[given->first].event;
    got->stage = step->stage;
    got->final = !got->count && given->final;
    *gathered = 1;
    return add_term(l, got, &operand, &event, 1);
}

static peal_status lower_reduce(struct lowering *l, const struct script_step *step)
{
    const uint32_t *from = l->script->ranks + step->first, *to = from + step->nfrom;
    uint16_t life = l->lives[step->first + step->nfrom];
    PEAL_TRY(take_over(l, to[0], step->chunk, step->stage));
    for (uint32_t i = 0; i < step->nfrom; i++) {
        int gathered;
        PEAL_TRY(gather(l, step, from[i], to[0], &gathered));
        struct giving g = {.step = step,
                           .from = from[i],
                           .chunk = step->chunk,
                           .life = l->lives[step->first + i],
                           .nto = 1,
                           .to = to,
                           .adds = 1};
        if (!gathered)
            PEAL_TRY(give(l, &g));
    }
    peal_script_sets_step(&l->sets, l->script, step);
    for (uint32_t i = 0; i < step->nfrom; i++)
        PEAL_TRY(hand_on_later(l, step, from[i], l->lives[step->first + i]));
    return hand_on_later(l, step, to[0], life);
}

static peal_status lower_copy(struct lowering *l, const struct script_step *step)
{
    const uint32_t *from = l->script->ranks + step->first, *to = from + step->nfrom;
    struct giving g = {.step = step,
                       .from = from[0],
                       .chunk = step->chunk,
                       .life = l->lives[step->first],
                       .nto = step->nto,
                       .to = to};
    PEAL_TRY(give(l, &g));
    peal_script_sets_step(&l->sets, l->script, step);
    PEAL_TRY(hand_on_later(l, step, from[0], g.life));
    for (uint32_t k = 0; k < step->nto; k++)
        PEAL_TRY(hand_on_later(l, step, to[k], l->lives[step->first + step->nfrom + k]));
    return PEAL_OK;
}

/* Results that never left the rank are its input still. */
static peal_status settle_results(struct lowering *l)
{
    for (uint32_t r = 0; r < l->head->nranks; r++)
        for (uint32_t c = 0; c < l->head->nchunks; c++)
            if (has_out(l, r, c) && value_of(l, r, c)->count && !is_out(l, value_of(l, r, c)))
                PEAL_TRY(settle(l, r, c, value_of(l, r, c)->stage));
    return PEAL_OK;
}

static peal_status lower_all(struct lowering *l)
{
    const struct peal_plan *head = l->head;
    for (uint32_t r = 0; r < head->nranks; r++)
        for (uint32_t c = 0; c < head->nchunks; c++) {
            struct script_event entered = {.push = NO_INDEX, .rank = r};
            struct script_operand in = {SCRIPT_IN, r, 0, 0};
            note_write(l, r, c, &entered);
            if (peal_plan_holds(head, r, PLAN_BUF_IN, c))
                PEAL_TRY(add_term(l, value_of(l, r, c), &in, &entered, 0));
        }
    for (uint32_t i = 0; i < l->script->nsteps; i++) {
        const struct script_step *step = &l->script->steps[i];
        PEAL_TRY(step->reduces ? lower_reduce(l, step) : lower_copy(l, step));
        if (i + 1 == l->script->nsteps || step[1].wave != step->wave)
            PEAL_TRY(end_wave(l));
    }
    PEAL_TRY(settle_results(l));
    PEAL_TRY(peal_script_finish(l->p));
    return peal_script_place_slots(l->p);
}

peal_status peal_script_moves(struct script_program *p, const peal_schedule *script)
{
    size_t cells = (size_t)script->head->nranks * script->head->nchunks;
    struct lowering *l = peal_calloc(p->ctx, 1, sizeof *l);
    if (!l)
        return PEAL_ERR_MEMORY;
    l->p = p;
    l->script = script;
    l->head = script->head;
    l->values = peal_calloc(p->ctx, cells, sizeof *l->values);
    l->cells = peal_calloc(p->ctx, cells, sizeof *l->cells);
    peal_status status =
        l->values && l->cells ? peal_script_sets_init(&l->sets, script) : PEAL_ERR_MEMORY;
    if (status == PEAL_OK)
        status = peal_script_lives(script, &l->lives);
    if (status == PEAL_OK)
        status = lower_all(l);
    peal_free(p->ctx, l->values, cells * sizeof *l->values);
    peal_free(p->ctx, l->cells, cells * sizeof *l->cells);
    peal_free(p->ctx, l->lives, l->lives ? ((size_t)script->nranks + 1) * sizeof *l->lives : 0);
    peal_free(p->ctx, l->terms, l->terms_capacity * sizeof *l->terms);
    peal_free(p->ctx, l->reads, l->reads_capacity * sizeof *l->reads);
    peal_free(p->ctx, l->later, l->later_capacity * sizeof *l->later);
    peal_script_sets_free(&l->sets);
    peal_free(p->ctx, l, sizeof *l);
    return status;
}
