/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes of an execution, and which component of a clock is whose. */
#include "execute.h"

/* The events that steps of a lane define or await, one bit each. */
static uint32_t lane_events(const struct plan_rank *rank, const struct plan_lane *lane)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < lane->pre + lane->body + lane->post; i++) {
        const struct plan_step *step = &rank->steps[lane->first + i];
        if (step->event != PLAN_NO_EVENT)
            used |= 1u << step->event;
    }
    return used;
}

static void add_lane(struct machine *m, uint32_t rank, uint32_t l, const struct plan_lane *code)
{
    struct lane_state *lane = &m->lanes[m->nlanes++];
    lane->code = code;
    lane->rank = rank;
    lane->lane = l;
    lane->time = 1;
}

/* ---- which component of a clock is whose. Any numbering proves the same; this one keeps joins
 * short: what is known of the ranks with one place on their hosts, a column, comes from that
 * column until the levels of a schedule meet, so that a column has pages of its own, and in it
 * the lanes that do the same. */

struct columns {
    uint32_t *rank;  /* by place on their host, then by number */
    uint32_t *first; /* of each place; count + 1 of them */
    uint32_t count;
};

static void columns_free(const struct machine *m, struct columns *columns)
{
    peal_free(m->ctx, columns->rank, m->plan->nranks * sizeof(uint32_t));
    peal_free(m->ctx, columns->first, ((size_t)m->plan->nranks + 2) * sizeof(uint32_t));
}

/* Counting sort by how many ranks of the same host come before. */
static void sort_columns(const struct machine *m, struct columns *columns, uint32_t *place,
                         uint32_t *seen)
{
    uint32_t n = m->plan->nranks;
    for (uint32_t r = 0; r < n; r++) {
        place[r] = seen[m->plan->ranks[r].host]++;
        columns->count = place[r] + 1 > columns->count ? place[r] + 1 : columns->count;
        columns->first[place[r] + 1]++;
    }
    for (uint32_t c = 0; c < columns->count; c++)
        columns->first[c + 1] += columns->first[c];
    for (uint32_t r = n; r-- > 0;)
        columns->rank[--columns->first[place[r] + 1]] = r;
    for (uint32_t c = 0; c < columns->count; c++)
        columns->first[c] = columns->first[c + 1];
    columns->first[columns->count] = n;
}

static peal_status make_columns(const struct machine *m, struct columns *columns)
{
    uint32_t n = m->plan->nranks, hosts = 1;
    for (uint32_t r = 0; r < n; r++)
        hosts = m->plan->ranks[r].host >= hosts ? m->plan->ranks[r].host + 1 : hosts;
    uint32_t *place = peal_calloc(m->ctx, n, sizeof(uint32_t));
    uint32_t *seen = peal_calloc(m->ctx, hosts, sizeof(uint32_t));
    columns->rank = peal_calloc(m->ctx, n, sizeof(uint32_t));
    columns->first = peal_calloc(m->ctx, (size_t)n + 2, sizeof(uint32_t));
    int made = place && seen && columns->rank && columns->first;
    if (made)
        sort_columns(m, columns, place, seen);
    peal_free(m->ctx, place, n * sizeof(uint32_t));
    peal_free(m->ctx, seen, hosts * sizeof(uint32_t));
    return made ? PEAL_OK : PEAL_ERR_MEMORY;
}

static void number_events(struct machine *m, struct lane_state *lane)
{
    uint32_t mask = lane->code ? lane_events(&m->plan->ranks[lane->rank], lane->code) : 0;
    for (uint32_t e = 0; e < PLAN_EVENTS_MAX; e++) {
        lane->event[e].component = mask >> e & 1 ? m->clocks.components : NOBODY;
        m->clocks.components += mask >> e & 1 ? 2 : 0;
    }
}

/* The l-th lanes of a column's ranks, the callers being 0, then their events. 0: none has one. */
static int number_lanes(struct machine *m, const struct columns *columns, uint32_t column,
                        uint32_t l)
{
    int any = 0;
    for (int events = 0; events < 2; events++)
        for (uint32_t i = columns->first[column]; i < columns->first[column + 1]; i++) {
            const struct rank_state *rank = &m->ranks[columns->rank[i]];
            if (l > rank->lanes)
                continue;
            any = 1;
            if (events)
                number_events(m, &m->lanes[rank->caller + l]);
            else
                m->lanes[rank->caller + l].component = m->clocks.components++;
        }
    return any;
}

static peal_status number_components(struct machine *m)
{
    struct columns columns = {NULL, NULL, 0};
    peal_status status = make_columns(m, &columns);
    for (uint32_t c = 0; status == PEAL_OK && c < columns.count; c++)
        for (uint32_t l = 0; number_lanes(m, &columns, c, l); l++)
            ;
    columns_free(m, &columns);
    return status;
}

peal_status peal_execute_make_lanes(struct machine *m)
{
    size_t most = (size_t)m->run->parts->lanes + m->plan->nranks;
    m->lanes = peal_calloc(m->ctx, most, sizeof *m->lanes);
    m->queue = peal_calloc(m->ctx, most, sizeof *m->queue);
    m->ranks = peal_calloc(m->ctx, m->plan->nranks, sizeof *m->ranks);
    if (!m->lanes || !m->queue || !m->ranks)
        return PEAL_ERR_MEMORY;
    uint32_t number = 0;
    for (uint32_t r = 0; r < m->plan->nranks; r++) {
        m->ranks[r].caller = m->nlanes;
        add_lane(m, r, 0, NULL);
        for (uint32_t l = 0; l < m->plan->ranks[r].nlanes; l++) {
            if (!peal_execute_in_part(m, m->run->parts->of_lane[number++]))
                continue;
            add_lane(m, r, l, &m->plan->ranks[r].lanes[l]);
            m->ranks[r].lanes++;
        }
    }
    PEAL_TRY(number_components(m));
    for (uint32_t i = 0; i < m->nlanes; i++)
        if (!(m->lanes[i].clock = peal_verify_clock_new(&m->clocks)))
            return PEAL_ERR_MEMORY;
    return PEAL_OK;
}

void peal_execute_free_lanes(struct machine *m)
{
    size_t lanes = (size_t)m->run->parts->lanes + m->plan->nranks;
    for (uint32_t i = 0; m->lanes && i < m->nlanes; i++)
        peal_verify_clock_drop(&m->clocks, m->lanes[i].clock);
    peal_free(m->ctx, m->lanes, lanes * sizeof *m->lanes);
    peal_free(m->ctx, m->queue, lanes * sizeof *m->queue);
    peal_free(m->ctx, m->ranks, m->plan->nranks * sizeof *m->ranks);
}
