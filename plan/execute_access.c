/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses and races: what a lane reads or writes has to be ordered after what others did there. */
#include "execute.h"

#include <stdio.h>

const char *peal_execute_buffer_name(uint8_t buffer)
{
    static const char *const names[] = {"in", "out", "scratch", "packet"};
    return names[buffer & 3];
}

static uint32_t lane_of_component(const struct machine *m, uint32_t component)
{
    for (uint32_t i = 0; i < m->nlanes; i++) {
        const struct lane_state *lane = &m->lanes[i];
        if (lane->component == component)
            return i;
        for (uint32_t e = 0; e < PLAN_EVENTS_MAX; e++)
            if (lane->event[e].component != NOBODY && (component == lane->event[e].component ||
                                                       component == lane->event[e].component + 1))
                return i;
    }
    return 0;
}

/* "rank 3 lane 0", or "rank 3's caller". */
static const char *name_lane(const struct lane_state *lane, char name[48])
{
    if (lane->code)
        snprintf(name, 48, "rank %u lane %u", lane->rank, lane->lane);
    else
        snprintf(name, 48, "rank %u's caller", lane->rank);
    return name;
}

static void race(struct machine *m, const struct lane_state *lane, uint32_t at, const char *verb,
                 const char *before, const struct plan_operand *operand, uint32_t component)
{
    const struct lane_state *other = &m->lanes[lane_of_component(m, component)];
    const char *what = component == other->component ? "" : " (a transfer still under way)";
    int64_t lane_at = lane->code ? (int64_t)lane->lane : -1, step = lane->code ? (int64_t)at : -1;
    char name[48];
    if (operand->buffer == PLAN_BUF_IN || operand->buffer == PLAN_BUF_OUT)
        peal_verify_find(m->out, "race", lane->rank, lane_at, step,
                         "%s%s r%u.%s[%u] tile %u is not ordered after the %s by %s%s%s",
                         lane->code ? "" : "the caller ", verb, operand->rank,
                         peal_execute_buffer_name(operand->buffer), operand->index, lane->trip,
                         before, name_lane(other, name), what, m->alias ? " (in place)" : "");
    else
        peal_verify_find(m->out, "race", lane->rank, lane_at, step,
                         "%s r%u.%s region %u slot %u is not ordered after the %s by %s%s", verb,
                         operand->rank, peal_execute_buffer_name(operand->buffer), operand->index,
                         operand->slot, before, name_lane(other, name), what);
}

static peal_status note_read(struct machine *m, struct cell *cell, uint32_t component,
                             uint32_t time)
{
    if (!m->order)
        return PEAL_OK;
    for (uint32_t i = cell->reads; i; i = m->pool[i - 1].next)
        if (m->pool[i - 1].component == component) {
            m->pool[i - 1].time = time;
            return PEAL_OK;
        }
    uint32_t at = m->pool_free;
    if (at) {
        m->pool_free = m->pool[at - 1].next;
    } else {
        PEAL_TRY(peal_grow(m->ctx, (void **)&m->pool, &m->pool_capacity, (size_t)m->pool_used + 1,
                           sizeof *m->pool, 1u << 28));
        at = ++m->pool_used;
    }
    m->pool[at - 1] = (struct access){component, time, cell->reads};
    cell->reads = at;
    return PEAL_OK;
}

peal_status peal_execute_read(struct machine *m, struct lane_state *lane, uint32_t at,
                              const struct plan_operand *operand, struct cell *cell,
                              uint32_t component, uint32_t time)
{
    /* Data and flag of a packet arrive together: no other order is needed to read it. */
    if (operand->buffer != PLAN_BUF_PACKET && !peal_execute_knows(m, lane, &cell->write))
        race(m, lane, at, "reading", "write", operand, cell->write.component);
    return note_read(m, cell, component, time);
}

void peal_execute_write(struct machine *m, struct lane_state *lane, uint32_t at,
                        const struct plan_operand *operand, struct cell *cell, uint32_t component,
                        uint32_t time, uint32_t value)
{
    if (!peal_execute_knows(m, lane, &cell->write))
        race(m, lane, at, "writing", "write", operand, cell->write.component);
    while (cell->reads) {
        uint32_t read = cell->reads;
        /* The step's own reads are of the same bytes, element by element. */
        int own = m->pool[read - 1].component == component ||
                  (m->pool[read - 1].component + 1 == component && component != lane->component &&
                   m->pool[read - 1].time == time);
        if (!own && !peal_execute_knows(m, lane, &m->pool[read - 1]))
            race(m, lane, at, "writing", "read", operand, m->pool[read - 1].component);
        cell->reads = m->pool[read - 1].next;
        m->pool[read - 1].next = m->pool_free;
        m->pool_free = read;
    }
    cell->write = (struct access){component, time, 0};
    cell->value = value;
}
