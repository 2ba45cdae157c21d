/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: the caller of each rank writes its buffers, enters, and leaves when all lanes have ended.
 */
#include "execute.h"

static void caller_writes_cell(struct machine *m, struct lane_state *lane, uint8_t buffer,
                               uint32_t chunk, uint32_t value)
{
    struct plan_operand operand = {lane->rank, chunk, 0, 0, buffer, 0};
    peal_execute_write(m, lane, 0, &operand, peal_execute_cell_of(m, lane, &operand),
                       lane->component, lane->time, value);
}

/* The caller writes one of its buffers. In place, an output that is the input too is written as
 * the input. */
static void caller_writes_buffer(struct machine *m, uint32_t rank, uint8_t buffer, int input)
{
    struct lane_state *lane = &m->lanes[m->ranks[rank].caller];
    const struct held_cells *held = &m->held[2 * rank + (buffer == PLAN_BUF_OUT)];
    for (uint32_t i = 0; i < held->held.blocks; i++) {
        uint32_t block = peal_execute_held_block(held, i);
        for (uint32_t d = m->of_block[block]; d < m->of_block[block + 1]; d++) {
            uint32_t chunk = m->chunk[d];
            if (buffer == PLAN_BUF_OUT && m->alias &&
                peal_plan_holds(m->plan, rank, PLAN_BUF_IN, chunk))
                continue;
            for (lane->trip = 0; lane->trip < m->trips; lane->trip++)
                caller_writes_cell(m, lane, buffer, chunk,
                                   input ? peal_verify_leaf(&m->values, m->ranks[rank].call, rank,
                                                            d * m->trips + lane->trip)
                                         : VALUE_NONE);
        }
    }
}

/* The caller writes its buffers: they may hold anything, but for the input of a new call. */
static void caller_writes(struct machine *m, uint32_t rank, int entering)
{
    caller_writes_buffer(m, rank, PLAN_BUF_IN, entering);
    caller_writes_buffer(m, rank, PLAN_BUF_OUT, 0);
}

peal_status peal_execute_enter(struct machine *m, uint32_t rank)
{
    struct rank_state *state = &m->ranks[rank];
    struct lane_state *caller = &m->lanes[state->caller];
    caller_writes(m, rank, 1);
    state->entry_time[state->call] = caller->time;
    m->entered += state->call == 0;
    state->running = state->lanes;
    struct message start = peal_execute_message(caller);
    peal_status status = PEAL_OK;
    for (uint32_t l = 1; status == PEAL_OK && l <= state->lanes; l++) {
        struct lane_state *lane = caller + l;
        lane->pc = 0;
        lane->trip = 0;
        status = peal_execute_hear(m, lane, &start);
        if (!lane->queued) {
            lane->queued = 1;
            m->queue[m->queued++] = state->caller + l;
        }
    }
    peal_verify_clock_drop(&m->clocks, start.clock);
    if (status == PEAL_OK && !state->running)
        status = peal_execute_leave(m, rank);
    return status;
}

/* What is known once all ranks have entered the first call; made when the first rank leaves. */
static peal_status make_entries(struct machine *m)
{
    m->entries = peal_verify_clock_new(&m->clocks);
    if (!m->entries)
        return PEAL_ERR_MEMORY;
    for (uint32_t r = 0; r < m->plan->nranks; r++)
        PEAL_TRY(peal_verify_clock_set(&m->clocks, &m->entries,
                                       m->lanes[m->ranks[r].caller].component,
                                       m->ranks[r].entry_time[0]));
    return PEAL_OK;
}

/* All entries of the only call at once: most ranks know them, and share how they do. */
static peal_status knows_entries(struct machine *m, uint32_t rank, int *knows)
{
    struct lane_state *lane = &m->lanes[m->ranks[rank].caller];
    *knows = 0;
    if (!m->order || m->calls > 1 || m->entered < m->plan->nranks)
        return PEAL_OK;
    if (!m->entries)
        PEAL_TRY(make_entries(m));
    PEAL_TRY(peal_execute_learn(m, lane, lane->component, m->ranks[rank].entry_time[0]));
    return peal_verify_clock_covers(&m->clocks, lane->clock, m->entries, knows);
}

/* Every rank has entered this call, as far as this rank knows. */
static void check_entries(struct machine *m, uint32_t rank)
{
    const struct lane_state *lane = &m->lanes[m->ranks[rank].caller];
    uint32_t call = m->ranks[rank].call;
    for (uint32_t r = 0; r < m->plan->nranks; r++) {
        uint32_t entry = m->ranks[r].entry_time[call];
        uint32_t component = m->lanes[m->ranks[r].caller].component;
        if (r == rank || !m->order ||
            (entry && peal_verify_clock_time(lane->clock, component) >= entry))
            continue;
        m->run->unentered = rank;
        m->run->unentered_by = r;
    }
}

peal_status peal_execute_leave(struct machine *m, uint32_t rank)
{
    struct rank_state *state = &m->ranks[rank];
    struct lane_state *caller = &m->lanes[state->caller];
    for (uint32_t l = 1; l <= state->lanes; l++) {
        struct message end = peal_execute_message(caller + l);
        peal_status status = peal_execute_hear(m, caller, &end);
        peal_verify_clock_drop(&m->clocks, end.clock);
        PEAL_TRY(status);
    }
    PEAL_TRY(peal_execute_check_result(m, rank));
    int knows;
    PEAL_TRY(knows_entries(m, rank, &knows));
    if (!knows)
        check_entries(m, rank);
    if (state->call + 1 == m->calls) {
        caller_writes(m, rank, 0);
        return PEAL_OK;
    }
    state->call++;
    return peal_execute_enter(m, rank);
}
