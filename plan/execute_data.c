/* SPDX-License-Identifier: Apache-2.0 */
/* Data steps: values are read, folded in order and stored; packets come with what they tell. */
#include "execute.h"

static int packets_present(struct machine *m, uint32_t self, const struct plan_step *step,
                           const struct plan_operand *operand)
{
    struct lane_state *lane = &m->lanes[self];
    for (uint32_t i = 0; i < step->nsrc; i++) {
        if (operand[i].buffer != PLAN_BUF_PACKET)
            continue;
        struct cell *cell = peal_execute_cell_of(m, lane, &operand[i]);
        if (cell->stamp != m->ranks[lane->rank].call + 1) {
            cell->sleeper = self;
            return 0;
        }
    }
    return 1;
}

static void check_source(struct machine *m, const struct lane_state *lane, uint32_t at,
                         uint32_t chunk, const struct plan_operand *operand, uint32_t value)
{
    uint32_t cell = m->dense[chunk] * m->trips + lane->trip;
    if (value == VALUE_NONE)
        peal_verify_find(m->out, "result", lane->rank, lane->lane, at,
                         "r%u.%s[%u] is read before anything is there", operand->rank,
                         peal_execute_buffer_name(operand->buffer), operand->index);
    else if (peal_verify_value_cell(&m->values, value) != cell)
        peal_verify_find(m->out, "result", lane->rank, lane->lane, at,
                         "moves chunk %u tile %u, but the source holds chunk %u tile %u", chunk,
                         lane->trip, m->chunk[peal_verify_value_cell(&m->values, value) / m->trips],
                         peal_verify_value_cell(&m->values, value) % m->trips);
}

static peal_status add_value(struct machine *m, const struct lane_state *lane, uint32_t at,
                             uint32_t value, int rounded, uint32_t *sum)
{
    if (*sum == VALUE_NONE || value == VALUE_NONE) {
        *sum = value;
        return PEAL_OK;
    }
    if (peal_verify_value_final(&m->values, *sum) || peal_verify_value_final(&m->values, value)) {
        peal_verify_find(m->out, "result", lane->rank, lane->lane, at,
                         "reduces a value that is already final");
        return PEAL_OK;
    }
    uint32_t twice, added;
    PEAL_TRY(peal_verify_value_add(&m->values, *sum, value, rounded, &added, &twice));
    if (twice < m->plan->nranks)
        peal_verify_find(m->out, "result", lane->rank, lane->lane, at,
                         "the contribution of rank %u enters twice", twice);
    *sum = added;
    return PEAL_OK;
}

/* The lowest rank whose input the chunk's result needs and the value lacks. */
static uint32_t missing_rank(const struct machine *m, uint32_t chunk, uint32_t value)
{
    for (uint32_t r = 0; r < m->plan->nranks; r++)
        if (peal_plan_holds(m->plan, r, PLAN_BUF_IN, chunk) &&
            !peal_verify_value_has(&m->values, value, r))
            return r;
    return m->plan->nranks;
}

static peal_status finish_value(struct machine *m, const struct lane_state *lane, uint32_t at,
                                const struct plan_step *step, uint32_t *value)
{
    if (!(step->flags & PLAN_FLAG_FINAL) || *value == VALUE_NONE)
        return PEAL_OK;
    uint32_t ranks = peal_verify_value_ranks(&m->values, *value);
    uint32_t chunk = m->chunk[peal_verify_value_cell(&m->values, *value) / m->trips];
    uint32_t wanted = peal_plan_contributors(m->plan, chunk);
    if (peal_verify_value_final(&m->values, *value) || ranks != wanted) {
        peal_verify_find(m->out, "result", lane->rank, lane->lane, at,
                         "marked final with %u of %u contributions; rank %u is missing", ranks,
                         wanted, missing_rank(m, chunk, *value));
        return PEAL_OK;
    }
    return peal_verify_value_finish(&m->values, *value, value);
}

/* Starts the event of an asynchronous step; the components of its reads and writes. */
static peal_status start_event(struct machine *m, struct lane_state *lane, uint32_t at,
                               const struct plan_step *step, const struct plan_operand *operand,
                               struct access *reads, struct access *writes)
{
    *reads = *writes = (struct access){lane->component, lane->time, 0};
    if (step->event == PLAN_NO_EVENT)
        return PEAL_OK;
    struct event_state *event = &lane->event[step->event];
    PEAL_TRY(peal_execute_learn(m, lane, event->component, event->time));
    PEAL_TRY(peal_execute_learn(m, lane, event->component + 1, event->time));
    event->time++;
    event->step = at;
    event->engine = step->engine;
    event->target = operand[step->nsrc].rank;
    for (uint32_t i = 0; i < step->ndst; i++)
        if (operand[step->nsrc + i].rank != event->target)
            event->target = NOBODY;
    *reads = (struct access){event->component, event->time, 0};
    *writes = (struct access){event->component + 1, event->time, 0};
    return PEAL_OK;
}

/* `told` is what a packet tells its reader. */
static peal_status store(struct machine *m, struct lane_state *lane, uint32_t at,
                         const struct plan_operand *operand, const struct access *writes,
                         uint32_t value, const struct message *told)
{
    struct cell *cell = peal_execute_cell_of(m, lane, operand);
    peal_execute_write(m, lane, at, operand, cell, writes->component, writes->time, value);
    if (operand->buffer != PLAN_BUF_PACKET)
        return PEAL_OK;
    uint32_t stamp = m->ranks[lane->rank].call + 1;
    if (cell->stamp == stamp)
        peal_verify_find(m->out, "race", lane->rank, lane->lane, at,
                         "packet slot %u of region %u of rank %u is written twice in a call",
                         operand->slot, operand->index, operand->rank);
    peal_verify_clock_drop(&m->clocks, cell->message.clock);
    cell->stamp = stamp;
    cell->message = *told;
    told->clock->refs++;
    peal_execute_wake(m, &cell->sleeper);
    return PEAL_OK;
}

/* Packets that are there: what they tell, once each. */
static peal_status take_packets(struct machine *m, struct lane_state *lane, uint32_t at,
                                const struct plan_step *step, const struct plan_operand *operand)
{
    uint32_t stamp = m->ranks[lane->rank].call + 1;
    for (uint32_t i = 0; i < step->nsrc; i++) {
        if (operand[i].buffer != PLAN_BUF_PACKET)
            continue;
        struct cell *cell = peal_execute_cell_of(m, lane, &operand[i]);
        if (cell->taken == stamp)
            peal_verify_find(m->out, "race", lane->rank, lane->lane, at,
                             "packet slot %u of region %u of rank %u is read twice in a call",
                             operand[i].slot, operand[i].index, operand[i].rank);
        cell->taken = stamp;
        PEAL_TRY(peal_execute_hear(m, lane, &cell->message));
    }
    return PEAL_OK;
}

/* The value of the sources of one chunk, folded in order; of a step that folds its destination,
 * with that as the first term. A sum is rounded when it is stored, and divided before that. */
static peal_status fold_sources(struct machine *m, struct lane_state *lane, uint32_t at,
                                const struct plan_step *step, const struct plan_operand *operand,
                                uint32_t nth, const struct access *reads, uint32_t *value)
{
    uint32_t first = step->op == PLAN_PUT_REDUCE || step->op == PLAN_GET_REDUCE ? 1 : 0;
    uint32_t terms = step->nsrc + first;
    *value = VALUE_NONE;
    for (uint32_t i = 0; i < terms; i++) {
        struct plan_operand term = peal_plan_nth(step, operand[(i + first) % terms], nth);
        struct cell *cell = peal_execute_cell_of(m, lane, &term);
        int rounded =
            i + 1 == terms && !(step->flags & PLAN_FLAG_FINAL) && step->op != PLAN_LOAD_REDUCE;
        PEAL_TRY(peal_execute_read(m, lane, at, &term, cell, reads->component, reads->time));
        check_source(m, lane, at, step->chunk + nth * step->stride, &term, cell->value);
        PEAL_TRY(add_value(m, lane, at, cell->value, rounded, value));
    }
    if (step->op == PLAN_LOAD_REDUCE && *value != VALUE_NONE)
        PEAL_TRY(peal_verify_value_unorder(&m->values, *value, m->folds++, value));
    if (step->op == PLAN_PACK && *value != VALUE_NONE)
        return peal_verify_value_pack(&m->values, *value,
                                      peal_plan_operand_wire(m->plan, &operand[step->nsrc]), value);
    return finish_value(m, lane, at, step, value);
}

/* A step moves as much as its block has: whoever makes it has to know how much that is. */
static void check_length(struct machine *m, const struct lane_state *lane, uint32_t at,
                         const struct plan_step *step)
{
    uint32_t giver = peal_plan_giver(m->plan, step->chunk);
    uint32_t getter = peal_plan_getter(m->plan, step->chunk);
    if (lane->rank == giver)
        return;
    const struct access *learned = peal_execute_learned(m, lane->rank, giver);
    if (lane->rank != getter)
        peal_verify_find(m->out, "result", lane->rank, lane->lane, at,
                         "moves chunk %u, whose length only ranks %u and %u know", step->chunk,
                         giver, getter);
    else if (learned->next != m->ranks[lane->rank].call + 1 ||
             !peal_execute_knows(m, lane, learned))
        peal_verify_find(m->out, "result", lane->rank, lane->lane, at,
                         "moves chunk %u before it has learned its length from rank %u",
                         step->chunk, giver);
}

peal_status peal_execute_data(struct machine *m, uint32_t self, uint32_t at,
                              const struct plan_step *step, int *passed)
{
    struct lane_state *lane = &m->lanes[self];
    const struct plan_operand *operand = &m->plan->ranks[lane->rank].operands[step->operands];
    *passed = packets_present(m, self, step, operand);
    if (!*passed)
        return PEAL_OK;
    PEAL_TRY(take_packets(m, lane, at, step, operand));
    if (m->learned)
        check_length(m, lane, at, step);
    struct access reads, writes;
    uint32_t value;
    PEAL_TRY(start_event(m, lane, at, step, operand, &reads, &writes));
    PEAL_TRY(fold_sources(m, lane, at, step, operand, 0, &reads, &value));
    /* Who has a whole packet knows that its sources were read, but not what else the step has
     * stored: packets are stored as the step goes. */
    struct message told = peal_execute_message(lane);
    if (step->event == PLAN_NO_EVENT)
        writes.time = lane->time;
    peal_status status = PEAL_OK;
    for (uint32_t nth = 0; status == PEAL_OK && nth <= step->more; nth++) {
        if (nth > 0)
            status = fold_sources(m, lane, at, step, operand, nth, &reads, &value);
        for (uint32_t i = 0; status == PEAL_OK && i < step->ndst; i++) {
            struct plan_operand to = peal_plan_nth(step, operand[step->nsrc + i], nth);
            status = store(m, lane, at, &to, &writes, value, &told);
        }
    }
    peal_verify_clock_drop(&m->clocks, told.clock);
    return status;
}

/* A transfer that was never issued is not under way. */
peal_status peal_execute_await(struct machine *m, struct lane_state *lane,
                               const struct plan_step *step)
{
    const struct event_state *event = &lane->event[step->event];
    PEAL_TRY(peal_execute_learn(m, lane, event->component, event->time));
    if (!step->what)
        return PEAL_OK;
    return peal_execute_learn(m, lane, event->component + 1, event->time);
}
