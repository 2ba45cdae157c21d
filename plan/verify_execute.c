/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolic execution of all ranks. Lanes run until they block; semaphores have one producer and
 * one consumer, so the order in which lanes are picked decides nothing. Order is kept in vector
 * clocks: one component for each lane, two for each event of an asynchronous engine (its source
 * is free; it is delivered).
 */
#include "verify.h"

#include <stdio.h>
#include <string.h>

#define NOBODY UINT32_MAX
#define TIME_NEVER 0u
#define COUNTED_RANKS_MAX 4096u /* of an alltoallv */

/* What a signal or packet tells its reader: the sender's clock, the sender's own time, and, for
 * a signal behind a transfer, that this transfer is delivered. */
struct message {
    struct verify_clock *clock;
    uint32_t component;
    uint32_t time;
    uint32_t event;
    uint32_t event_time;
};

struct sem_state {
    struct message *queue; /* signals not yet consumed; queue[0] is number `popped` */
    uint32_t capacity;
    uint32_t head;
    uint32_t used;
    uint32_t signalled; /* over all calls */
    uint32_t waited;
    uint32_t sleeper; /* lane that waits for it, NOBODY */
};

struct event_state {
    uint32_t component; /* source free; delivered is component + 1; NOBODY: unused */
    uint32_t time;
    uint32_t step; /* of the lane, that defined it last */
    uint8_t engine;
    uint32_t target; /* the rank all its remote destinations belong to, NOBODY: several */
};

struct access {
    uint32_t component;
    uint32_t time;
    uint32_t next; /* reads: 1 + index in the pool; what is learned: 1 + number of the call */
};

struct cell {
    uint32_t value;
    struct access write;
    uint32_t reads;   /* 1 + index in the pool of accesses */
    uint32_t stamp;   /* packet: 1 + number of the call that wrote it */
    uint32_t taken;   /* packet: 1 + number of the call that read it */
    uint32_t sleeper; /* packet: lane that waits for it */
    struct message message;
};

/* A lane of the program, or, without code, the caller of a rank. */
struct lane_state {
    struct verify_clock *clock;
    const struct plan_lane *code;
    uint32_t rank;
    uint32_t lane;
    uint32_t component;
    uint32_t time;
    uint32_t pc; /* step of the lane */
    uint32_t trip;
    uint32_t queued;
    struct event_state event[PLAN_EVENTS_MAX];
};

struct rank_state {
    uint32_t caller; /* its lane; those of the program follow */
    uint32_t lanes;
    uint32_t running; /* lanes that have not ended the call */
    uint32_t call;
    uint32_t entry_time[VERIFY_CALLS_MAX]; /* of the caller's component, 0: not yet */
};

/* The cells of a rank's input or output: those of the blocks it holds, and of these the chunks of
 * the part. */
struct held_cells {
    struct plan_held held;
    uint32_t store;   /* index of the held_cells whose cells these are: in place, the larger */
    uint64_t first;   /* cell of its first tile */
    uint32_t *before; /* held.blocks + 1: chunks of the part before each of these blocks */
    uint32_t *listed; /* the blocks, where a list of pairs says which; else NULL */
};

struct machine {
    const struct peal_plan *plan;
    const struct verify_sems *sems;
    struct verify_run *run;
    struct verify_out *out;
    peal_ctx *ctx;
    int alias;
    int order;
    uint32_t trips;
    uint32_t calls;
    uint64_t steps;
    uint32_t folds; /* that switches made */
    struct verify_clocks clocks;
    struct verify_clock *entries; /* NULL: not needed yet */
    uint32_t entered;             /* ranks that have entered the first call */
    struct verify_values values;
    uint32_t nlanes;
    struct lane_state *lanes;
    struct rank_state *ranks;
    struct sem_state *sem;
    uint32_t *queue; /* runnable lanes */
    uint32_t queued;
    uint32_t chunks;         /* of the part */
    uint32_t *dense;         /* chunk -> its number in the part, NOBODY */
    uint32_t *chunk;         /* and back */
    uint32_t tiles;          /* chunks x trips */
    uint32_t per_block;      /* chunks of the plan in a block */
    uint32_t *of_block;      /* chunks of the part before each block; one more than blocks */
    uint64_t slots;          /* region slots of one rank and copy */
    uint32_t copies;         /* of them: the call's number tells which */
    struct held_cells *held; /* [rank][in, out] */
    uint64_t *slot_first;    /* cell of each rank's first slot */
    uint64_t ncells;
    uint64_t *region_slot; /* first slot of each region */
    struct cell *cells;
    struct access *pool;
    uint32_t pool_used;
    uint32_t pool_capacity;
    uint32_t pool_free;     /* 1 + index of a free access */
    struct access *learned; /* alltoallv: where the rank's learning of each other's count is */
    uint32_t *expected;     /* value of each tile on the first rank that returned, per call */
};

/* ---- making and unmaking ---------------------------------------------- */

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

static int in_part(const struct machine *m, uint32_t part)
{
    return m->run->part == VERIFY_ALL_PARTS || m->run->part == part;
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

static peal_status make_lanes(struct machine *m)
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
            if (!in_part(m, m->run->parts->of_lane[number++]))
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

static peal_status number_chunks(struct machine *m)
{
    m->dense = peal_calloc(m->ctx, m->plan->nchunks, sizeof(uint32_t));
    m->chunk = peal_calloc(m->ctx, m->plan->nchunks, sizeof(uint32_t));
    if (!m->dense || !m->chunk)
        return PEAL_ERR_MEMORY;
    for (uint32_t c = 0; c < m->plan->nchunks; c++) {
        m->dense[c] = NOBODY;
        if (!in_part(m, m->run->parts->of_chunk[c]))
            continue;
        m->chunk[m->chunks] = c;
        m->dense[c] = m->chunks++;
    }
    return PEAL_OK;
}

/* Counts the chunks of the part block by block. */
static peal_status number_blocks(struct machine *m)
{
    uint32_t blocks = peal_plan_blocks(m->plan);
    m->per_block = m->plan->nchunks / blocks;
    m->of_block = peal_calloc(m->ctx, (size_t)blocks + 1, sizeof(uint32_t));
    if (!m->of_block)
        return PEAL_ERR_MEMORY;
    for (uint32_t c = 0; c < m->plan->nchunks; c++)
        m->of_block[c / m->per_block + 1] += m->dense[c] != NOBODY;
    for (uint32_t i = 0; i < blocks; i++)
        m->of_block[i + 1] += m->of_block[i];
    return PEAL_OK;
}

/* The i-th block that a buffer holds. */
static uint32_t held_block(const struct held_cells *to, uint32_t i)
{
    return to->listed ? to->listed[i] : to->held.first + i * to->held.stride;
}

static peal_status list_blocks(const struct machine *m, struct held_cells *to, uint32_t rank,
                               uint8_t buffer)
{
    uint32_t found = 0, blocks = peal_plan_blocks(m->plan), per_block = m->plan->nchunks / blocks;
    to->listed = peal_calloc(m->ctx, (size_t)to->held.blocks + 1, sizeof(uint32_t));
    if (!to->listed)
        return PEAL_ERR_MEMORY;
    for (uint32_t block = 0; block < blocks; block++)
        if (peal_plan_holds(m->plan, rank, buffer, block * per_block))
            to->listed[found++] = block;
    return PEAL_OK;
}

static peal_status hold(struct machine *m, struct held_cells *to, uint32_t rank, uint8_t buffer)
{
    to->held = peal_plan_held(m->plan, rank, buffer);
    to->before = peal_calloc(m->ctx, (size_t)to->held.blocks + 1, sizeof(uint32_t));
    if (!to->before)
        return PEAL_ERR_MEMORY;
    if (peal_plan_scattered(m->plan))
        PEAL_TRY(list_blocks(m, to, rank, buffer));
    for (uint32_t i = 0; i < to->held.blocks; i++) {
        uint32_t block = held_block(to, i);
        to->before[i + 1] = to->before[i] + m->of_block[block + 1] - m->of_block[block];
    }
    to->first = m->ncells;
    m->ncells += (uint64_t)to->before[to->held.blocks] * m->trips;
    return PEAL_OK;
}

/* In place, the buffer of fewer blocks lies within the other. */
static peal_status hold_rank(struct machine *m, uint32_t rank)
{
    struct held_cells *in = &m->held[2 * rank], *out = in + 1;
    in->store = 2 * rank;
    out->store = 2 * rank + 1;
    PEAL_TRY(hold(m, in, rank, PLAN_BUF_IN));
    PEAL_TRY(hold(m, out, rank, PLAN_BUF_OUT));
    if (m->alias && in->held.blocks < out->held.blocks)
        in->store = out->store;
    else if (m->alias)
        out->store = in->store;
    m->slot_first[rank] = m->ncells;
    m->ncells += m->copies * m->slots;
    return PEAL_OK;
}

static peal_status make_cells(struct machine *m)
{
    const struct peal_plan *plan = m->plan;
    PEAL_TRY(number_chunks(m));
    PEAL_TRY(number_blocks(m));
    uint64_t tiles = (uint64_t)m->chunks * m->trips;
    m->region_slot = peal_calloc(m->ctx, (size_t)plan->nregions + 1, sizeof(uint64_t));
    m->held = peal_calloc(m->ctx, (size_t)plan->nranks * 2, sizeof *m->held);
    m->slot_first = peal_calloc(m->ctx, plan->nranks, sizeof(uint64_t));
    if (!m->region_slot || !m->held || !m->slot_first)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < plan->nregions; i++) {
        m->region_slot[i] = m->slots;
        if (in_part(m, m->run->parts->of_region[i]))
            m->slots += (uint64_t)plan->regions[i].width * plan->regions[i].depth;
    }
    for (uint32_t r = 0; r < plan->nranks; r++)
        PEAL_TRY(hold_rank(m, r));
    if (m->ncells > 1u << 28 || m->calls * plan->nranks * tiles >= VALUE_LEAF)
        return PEAL_ERR_LIMIT;
    m->tiles = (uint32_t)tiles;
    m->cells = peal_calloc(m->ctx, (size_t)m->ncells, sizeof *m->cells);
    m->expected = peal_calloc(m->ctx, (size_t)m->tiles * m->calls, sizeof(uint32_t));
    if (!m->cells || !m->expected)
        return PEAL_ERR_MEMORY;
    for (uint64_t i = 0; i < m->ncells; i++)
        m->cells[i].sleeper = NOBODY;
    PEAL_TRY(peal_verify_values_init(&m->values, m->ctx, plan->nranks, m->tiles ? m->tiles : 1));
    m->values.leaf_shape = m->run->orders ? m->run->orders->leaf : NULL;
    return PEAL_OK;
}

static peal_status make(struct machine *m)
{
    PEAL_TRY(make_lanes(m));
    PEAL_TRY(make_cells(m));
    if (m->plan->collective == PEAL_ALLTOALLV) {
        if (m->plan->nranks > COUNTED_RANKS_MAX)
            return PEAL_ERR_LIMIT;
        m->learned =
            peal_calloc(m->ctx, (size_t)m->plan->nranks * m->plan->nranks, sizeof *m->learned);
        if (!m->learned)
            return PEAL_ERR_MEMORY;
    }
    m->sem = peal_calloc(m->ctx, (size_t)m->sems->count + 1, sizeof *m->sem);
    if (!m->sem)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < m->sems->count; i++)
        m->sem[i].sleeper = NOBODY;
    return PEAL_OK;
}

static void unmake(struct machine *m)
{
    for (uint32_t i = 0; m->sem && i < m->sems->count; i++) {
        for (uint32_t k = 0; k < m->sem[i].used; k++)
            peal_verify_clock_drop(&m->clocks, m->sem[i].queue[m->sem[i].head + k].clock);
        peal_free(m->ctx, m->sem[i].queue, m->sem[i].capacity * sizeof(struct message));
    }
    for (uint64_t i = 0; m->cells && i < m->ncells; i++)
        peal_verify_clock_drop(&m->clocks, m->cells[i].message.clock);
    for (uint32_t i = 0; m->lanes && i < m->nlanes; i++)
        peal_verify_clock_drop(&m->clocks, m->lanes[i].clock);
    size_t lanes = (size_t)m->run->parts->lanes + m->plan->nranks;
    peal_verify_clock_drop(&m->clocks, m->entries);
    peal_verify_clocks_free(&m->clocks);
    if (m->values.ctx)
        peal_verify_values_free(&m->values);
    peal_free(m->ctx, m->sem, ((size_t)m->sems->count + 1) * sizeof *m->sem);
    peal_free(m->ctx, m->cells, m->ncells * sizeof *m->cells);
    for (uint32_t i = 0; m->held && i < 2 * m->plan->nranks; i++) {
        size_t bytes = ((size_t)m->held[i].held.blocks + 1) * sizeof(uint32_t);
        peal_free(m->ctx, m->held[i].before, bytes);
        peal_free(m->ctx, m->held[i].listed, bytes);
    }
    peal_free(m->ctx, m->held, (size_t)m->plan->nranks * 2 * sizeof *m->held);
    peal_free(m->ctx, m->slot_first, m->plan->nranks * sizeof(uint64_t));
    peal_free(m->ctx, m->of_block, ((size_t)peal_plan_blocks(m->plan) + 1) * sizeof(uint32_t));
    peal_free(m->ctx, m->expected, (size_t)m->tiles * m->calls * sizeof(uint32_t));
    if (m->learned)
        peal_free(m->ctx, m->learned,
                  (size_t)m->plan->nranks * m->plan->nranks * sizeof *m->learned);
    peal_free(m->ctx, m->region_slot, ((size_t)m->plan->nregions + 1) * sizeof(uint64_t));
    peal_free(m->ctx, m->pool, m->pool_capacity * sizeof *m->pool);
    peal_free(m->ctx, m->lanes, lanes * sizeof *m->lanes);
    peal_free(m->ctx, m->queue, lanes * sizeof *m->queue);
    peal_free(m->ctx, m->dense, m->plan->nchunks * sizeof(uint32_t));
    peal_free(m->ctx, m->chunk, m->plan->nchunks * sizeof(uint32_t));
    peal_free(m->ctx, m->ranks, m->plan->nranks * sizeof *m->ranks);
}

/* ---- accesses and races ------------------------------------------------- */

static const char *buffer_name(uint8_t buffer)
{
    static const char *const names[] = {"in", "out", "scratch", "packet"};
    return names[buffer & 3];
}

static struct cell *user_cell(const struct machine *m, uint32_t rank, uint8_t buffer,
                              uint32_t chunk, uint32_t trip)
{
    const struct held_cells *to = &m->held[m->held[2 * rank + (buffer == PLAN_BUF_OUT)].store];
    uint32_t block = chunk / m->per_block;
    uint32_t index = to->listed ? peal_plan_held_before(m->plan, rank, buffer, block)
                                : (block - to->held.first) / to->held.stride;
    uint64_t place = to->before[index] + (uint64_t)(m->dense[chunk] - m->of_block[block]);
    return &m->cells[to->first + place * m->trips + trip];
}

static struct cell *cell_of(const struct machine *m, const struct lane_state *lane,
                            const struct plan_operand *operand)
{
    if (operand->buffer == PLAN_BUF_IN || operand->buffer == PLAN_BUF_OUT)
        return user_cell(m, operand->rank, operand->buffer, operand->index, lane->trip);
    const struct plan_region *region = &m->plan->regions[operand->index];
    uint64_t slot = m->region_slot[operand->index] +
                    (uint64_t)(lane->trip % region->depth) * region->width + operand->slot;
    uint64_t copy = m->ranks[lane->rank].call % m->copies;
    return &m->cells[m->slot_first[operand->rank] + copy * m->slots + slot];
}

static int known(const struct machine *m, const struct lane_state *lane,
                 const struct access *access)
{
    return !m->order || access->time == TIME_NEVER || access->component == lane->component ||
           peal_verify_clock_time(lane->clock, access->component) >= access->time;
}

/* The lane learns that the component has reached the time. */
static peal_status learn(struct machine *m, struct lane_state *lane, uint32_t component,
                         uint32_t time)
{
    return m->order ? peal_verify_clock_set(&m->clocks, &lane->clock, component, time) : PEAL_OK;
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
                         buffer_name(operand->buffer), operand->index, lane->trip, before,
                         name_lane(other, name), what, m->alias ? " (in place)" : "");
    else
        peal_verify_find(m->out, "race", lane->rank, lane_at, step,
                         "%s r%u.%s region %u slot %u is not ordered after the %s by %s%s", verb,
                         operand->rank, buffer_name(operand->buffer), operand->index, operand->slot,
                         before, name_lane(other, name), what);
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

static peal_status read_cell(struct machine *m, struct lane_state *lane, uint32_t at,
                             const struct plan_operand *operand, struct cell *cell,
                             uint32_t component, uint32_t time)
{
    /* Data and flag of a packet arrive together: no other order is needed to read it. */
    if (operand->buffer != PLAN_BUF_PACKET && !known(m, lane, &cell->write))
        race(m, lane, at, "reading", "write", operand, cell->write.component);
    return note_read(m, cell, component, time);
}

static void write_cell(struct machine *m, struct lane_state *lane, uint32_t at,
                       const struct plan_operand *operand, struct cell *cell, uint32_t component,
                       uint32_t time, uint32_t value)
{
    if (!known(m, lane, &cell->write))
        race(m, lane, at, "writing", "write", operand, cell->write.component);
    while (cell->reads) {
        uint32_t read = cell->reads;
        /* The step's own reads are of the same bytes, element by element. */
        int own = m->pool[read - 1].component == component ||
                  (m->pool[read - 1].component + 1 == component && component != lane->component &&
                   m->pool[read - 1].time == time);
        if (!own && !known(m, lane, &m->pool[read - 1]))
            race(m, lane, at, "writing", "read", operand, m->pool[read - 1].component);
        cell->reads = m->pool[read - 1].next;
        m->pool[read - 1].next = m->pool_free;
        m->pool_free = read;
    }
    cell->write = (struct access){component, time, 0};
    cell->value = value;
}

/* ---- messages ------------------------------------------------------------ */

static struct message message_from(struct lane_state *lane)
{
    lane->clock->refs++;
    struct message message = {lane->clock, lane->component, lane->time, NOBODY, 0};
    lane->time++; /* what the lane does next is not told by this message */
    return message;
}

static peal_status hear(struct machine *m, struct lane_state *lane, const struct message *message)
{
    if (!m->order)
        return PEAL_OK;
    PEAL_TRY(peal_verify_clock_join(&m->clocks, &lane->clock, message->clock));
    PEAL_TRY(learn(m, lane, message->component, message->time));
    if (message->event == NOBODY)
        return PEAL_OK;
    PEAL_TRY(learn(m, lane, message->event, message->event_time));
    return learn(m, lane, message->event + 1, message->event_time);
}

static void wake(struct machine *m, uint32_t *sleeper)
{
    if (*sleeper == NOBODY)
        return;
    if (!m->lanes[*sleeper].queued) {
        m->lanes[*sleeper].queued = 1;
        m->queue[m->queued++] = *sleeper;
    }
    *sleeper = NOBODY;
}

static peal_status do_signal(struct machine *m, struct lane_state *lane, uint32_t at,
                             const struct plan_step *step, uint32_t sem_index)
{
    struct sem_state *sem = &m->sem[sem_index];
    if (sem->head && sem->head + sem->used == sem->capacity) {
        memmove(sem->queue, sem->queue + sem->head, sem->used * sizeof *sem->queue);
        sem->head = 0;
    }
    PEAL_TRY(peal_grow(m->ctx, (void **)&sem->queue, &sem->capacity,
                       (size_t)sem->head + sem->used + 1, sizeof *sem->queue, 1u << 28));
    struct message message = message_from(lane);
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
    wake(m, &sem->sleeper);
    return PEAL_OK;
}

static struct access *learned_at(const struct machine *m, uint32_t rank, uint32_t producer)
{
    return &m->learned[(size_t)rank * m->plan->nranks + producer];
}

/* 1: passed, 0: blocked. */
static peal_status do_wait(struct machine *m, uint32_t self, const struct plan_step *step,
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
            PEAL_TRY(hear(m, lane, &sem->queue[sem->head]));
            peal_verify_clock_drop(&m->clocks, sem->queue[sem->head].clock);
            sem->head++;
            sem->used--;
        }
    }
    sem->waited++;
    if (step->op == PLAN_LEARN)
        *learned_at(m, lane->rank, step->peer) =
            (struct access){lane->component, lane->time, m->ranks[lane->rank].call + 1};
    return PEAL_OK;
}

/* ---- data ---------------------------------------------------------------- */

static int packets_present(struct machine *m, uint32_t self, const struct plan_step *step,
                           const struct plan_operand *operand)
{
    struct lane_state *lane = &m->lanes[self];
    for (uint32_t i = 0; i < step->nsrc; i++) {
        if (operand[i].buffer != PLAN_BUF_PACKET)
            continue;
        struct cell *cell = cell_of(m, lane, &operand[i]);
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
                         buffer_name(operand->buffer), operand->index);
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
    PEAL_TRY(learn(m, lane, event->component, event->time));
    PEAL_TRY(learn(m, lane, event->component + 1, event->time));
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
    struct cell *cell = cell_of(m, lane, operand);
    write_cell(m, lane, at, operand, cell, writes->component, writes->time, value);
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
    wake(m, &cell->sleeper);
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
        struct cell *cell = cell_of(m, lane, &operand[i]);
        if (cell->taken == stamp)
            peal_verify_find(m->out, "race", lane->rank, lane->lane, at,
                             "packet slot %u of region %u of rank %u is read twice in a call",
                             operand[i].slot, operand[i].index, operand[i].rank);
        cell->taken = stamp;
        PEAL_TRY(hear(m, lane, &cell->message));
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
        struct cell *cell = cell_of(m, lane, &term);
        int rounded =
            i + 1 == terms && !(step->flags & PLAN_FLAG_FINAL) && step->op != PLAN_LOAD_REDUCE;
        PEAL_TRY(read_cell(m, lane, at, &term, cell, reads->component, reads->time));
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
    const struct access *learned = learned_at(m, lane->rank, giver);
    if (lane->rank != getter)
        peal_verify_find(m->out, "result", lane->rank, lane->lane, at,
                         "moves chunk %u, whose length only ranks %u and %u know", step->chunk,
                         giver, getter);
    else if (learned->next != m->ranks[lane->rank].call + 1 || !known(m, lane, learned))
        peal_verify_find(m->out, "result", lane->rank, lane->lane, at,
                         "moves chunk %u before it has learned its length from rank %u",
                         step->chunk, giver);
}

static peal_status do_data(struct machine *m, uint32_t self, uint32_t at,
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
    struct message told = message_from(lane);
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
static peal_status do_await(struct machine *m, struct lane_state *lane,
                            const struct plan_step *step)
{
    const struct event_state *event = &lane->event[step->event];
    PEAL_TRY(learn(m, lane, event->component, event->time));
    if (!step->what)
        return PEAL_OK;
    return learn(m, lane, event->component + 1, event->time);
}

/* ---- calls --------------------------------------------------------------- */

static void caller_writes_cell(struct machine *m, struct lane_state *lane, uint8_t buffer,
                               uint32_t chunk, uint32_t value)
{
    struct plan_operand operand = {lane->rank, chunk, 0, 0, buffer, 0};
    write_cell(m, lane, 0, &operand, cell_of(m, lane, &operand), lane->component, lane->time,
               value);
}

/* The caller writes one of its buffers. In place, an output that is the input too is written as
 * the input. */
static void caller_writes_buffer(struct machine *m, uint32_t rank, uint8_t buffer, int input)
{
    struct lane_state *lane = &m->lanes[m->ranks[rank].caller];
    const struct held_cells *held = &m->held[2 * rank + (buffer == PLAN_BUF_OUT)];
    for (uint32_t i = 0; i < held->held.blocks; i++) {
        uint32_t block = held_block(held, i);
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

static peal_status leave(struct machine *m, uint32_t rank);

static peal_status enter(struct machine *m, uint32_t rank)
{
    struct rank_state *state = &m->ranks[rank];
    struct lane_state *caller = &m->lanes[state->caller];
    caller_writes(m, rank, 1);
    state->entry_time[state->call] = caller->time;
    m->entered += state->call == 0;
    state->running = state->lanes;
    struct message start = message_from(caller);
    peal_status status = PEAL_OK;
    for (uint32_t l = 1; status == PEAL_OK && l <= state->lanes; l++) {
        struct lane_state *lane = caller + l;
        lane->pc = 0;
        lane->trip = 0;
        status = hear(m, lane, &start);
        if (!lane->queued) {
            lane->queued = 1;
            m->queue[m->queued++] = state->caller + l;
        }
    }
    peal_verify_clock_drop(&m->clocks, start.clock);
    if (status == PEAL_OK && !state->running)
        status = leave(m, rank);
    return status;
}

/* Whether all elements are added up in one order. */
static peal_status note_shape(struct machine *m, uint32_t value)
{
    struct verify_tree *tree = m->run->orders ? m->run->orders->tree : NULL;
    uint64_t shape = peal_verify_value_blocked(&m->values, value)
                         ? VERIFY_SHAPES_DIFFER
                         : peal_verify_value_shape(&m->values, value);
    if (!m->run->shape)
        m->run->shape = shape;
    else if (m->run->shape != shape)
        m->run->shape = VERIFY_SHAPES_DIFFER;
    return tree && tree->root == VALUE_NONE ? peal_verify_tree_take(tree, &m->values, value)
                                            : PEAL_OK;
}

static void note_wires(struct machine *m, uint32_t value)
{
    uint32_t wires = peal_verify_value_wires(&m->values, value);
    if (wires > m->run->wires)
        m->run->wires = wires;
}

static peal_status check_reduced(struct machine *m, uint32_t rank, uint32_t t, uint32_t value)
{
    uint32_t call = m->ranks[rank].call;
    uint32_t *expected = &m->expected[(size_t)call * m->tiles + t];
    uint32_t chunk = m->chunk[t / m->trips], tile = t % m->trips;
    int final =
        value != VALUE_NONE && (m->plan->nranks == 1 || peal_verify_value_final(&m->values, value));
    if (!final)
        peal_verify_find(m->out, "result", rank, -1, -1, "out[%u] tile %u %s", chunk, tile,
                         value == VALUE_NONE ? "is never written"
                                             : "holds a value that was never made final");
    else if (peal_verify_value_cell(&m->values, value) != t ||
             peal_verify_value_call(&m->values, value) != call)
        peal_verify_find(m->out, "result", rank, -1, -1,
                         "out[%u] tile %u holds another tile, or one of an earlier call", chunk,
                         tile);
    else if (*expected != VALUE_NONE && *expected != value)
        peal_verify_find(m->out, "numbers", rank, -1, -1,
                         "out[%u] tile %u is added up in another order than on another rank", chunk,
                         tile);
    if (!final || *expected != VALUE_NONE)
        return PEAL_OK;
    *expected = value;
    note_wires(m, value);
    return note_shape(m, value);
}

/* One rank's input, unchanged, or rounded alike on all ranks that get it. */
static void check_moved(struct machine *m, uint32_t rank, uint32_t t, uint32_t value)
{
    uint32_t call = m->ranks[rank].call;
    uint32_t chunk = m->chunk[t / m->trips];
    uint32_t origin = peal_plan_origin(m->plan, chunk);
    uint32_t *expected = &m->expected[(size_t)call * m->tiles + t];
    int whole = value != VALUE_NONE && peal_verify_value_unpacked(&m->values, value) ==
                                           peal_verify_leaf(&m->values, call, origin, t);
    if (whole && *expected != VALUE_NONE && *expected != value)
        peal_verify_find(m->out, "numbers", rank, -1, -1,
                         "out[%u] tile %u is rounded otherwise than on another rank", chunk,
                         t % m->trips);
    if (whole) {
        *expected = value;
        note_wires(m, value);
    } else
        peal_verify_find(m->out, "result", rank, -1, -1,
                         "out[%u] tile %u %s, not the input of rank %u", chunk, t % m->trips,
                         value == VALUE_NONE ? "is never written" : "holds something else", origin);
}

static peal_status check_result(struct machine *m, uint32_t rank)
{
    const struct held_cells *held = &m->held[2 * rank + 1];
    for (uint32_t i = 0; i < held->held.blocks; i++) {
        uint32_t block = held_block(held, i);
        for (uint32_t t = m->of_block[block] * m->trips; t < m->of_block[block + 1] * m->trips;
             t++) {
            uint32_t value =
                user_cell(m, rank, PLAN_BUF_OUT, m->chunk[t / m->trips], t % m->trips)->value;
            if (peal_plan_adds(m->plan, m->chunk[t / m->trips]))
                PEAL_TRY(check_reduced(m, rank, t, value));
            else
                check_moved(m, rank, t, value);
        }
    }
    return PEAL_OK;
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
    PEAL_TRY(learn(m, lane, lane->component, m->ranks[rank].entry_time[0]));
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

static peal_status leave(struct machine *m, uint32_t rank)
{
    struct rank_state *state = &m->ranks[rank];
    struct lane_state *caller = &m->lanes[state->caller];
    for (uint32_t l = 1; l <= state->lanes; l++) {
        struct message end = message_from(caller + l);
        peal_status status = hear(m, caller, &end);
        peal_verify_clock_drop(&m->clocks, end.clock);
        PEAL_TRY(status);
    }
    PEAL_TRY(check_result(m, rank));
    int knows;
    PEAL_TRY(knows_entries(m, rank, &knows));
    if (!knows)
        check_entries(m, rank);
    if (state->call + 1 == m->calls) {
        caller_writes(m, rank, 0);
        return PEAL_OK;
    }
    state->call++;
    return enter(m, rank);
}

/* ---- the loop ------------------------------------------------------------ */

/* Moves the lane to its next step; 1 when it has ended the call. */
static int advance(const struct machine *m, struct lane_state *lane, const struct plan_lane *code)
{
    lane->pc++;
    if (lane->pc == code->pre + code->body && code->body && lane->trip + 1 < m->trips) {
        lane->trip++;
        lane->pc = code->pre;
    }
    return lane->pc == code->pre + code->body + code->post;
}

static peal_status run_lane(struct machine *m, uint32_t self)
{
    struct lane_state *lane = &m->lanes[self];
    const struct plan_rank *program = &m->plan->ranks[lane->rank];
    const struct plan_lane *code = lane->code;
    uint32_t length = code->pre + code->body + code->post;
    int ended = lane->pc == length;
    while (!ended && m->out->findings < VERIFY_FINDINGS_MAX) {
        const struct plan_step *step = &program->steps[code->first + lane->pc];
        uint32_t sem = m->sems->of_step[lane->rank][code->first + lane->pc];
        int passed = 1;
        if (peal_plan_op_signals(step->op))
            PEAL_TRY(do_signal(m, lane, lane->pc, step, sem));
        else if (peal_plan_op_waits(step->op))
            PEAL_TRY(do_wait(m, self, step, sem, &passed));
        else if (step->op == PLAN_AWAIT)
            PEAL_TRY(do_await(m, lane, step));
        else
            PEAL_TRY(do_data(m, self, lane->pc, step, &passed));
        if (!passed)
            return PEAL_OK;
        m->steps++;
        ended = advance(m, lane, code);
    }
    if (ended && --m->ranks[lane->rank].running == 0)
        return leave(m, lane->rank);
    return PEAL_OK;
}

static void report_stuck(struct machine *m)
{
    for (uint32_t i = 0; i < m->nlanes; i++) {
        const struct lane_state *lane = &m->lanes[i];
        const struct plan_rank *program = &m->plan->ranks[lane->rank];
        const struct plan_lane *code = lane->code;
        if (!code || lane->pc == code->pre + code->body + code->post)
            continue;
        const struct plan_step *step = &program->steps[code->first + lane->pc];
        if (peal_plan_op_waits(step->op))
            peal_verify_find(m->out, "deadlock", lane->rank, lane->lane, lane->pc,
                             "call %u trip %u: waits for ever for rank %u, semaphore %u",
                             m->ranks[lane->rank].call, lane->trip, step->peer, step->sem);
        else
            peal_verify_find(m->out, "deadlock", lane->rank, lane->lane, lane->pc,
                             "call %u trip %u: waits for ever for a packet",
                             m->ranks[lane->rank].call, lane->trip);
    }
}

/* Mostly it is the rank that has issued the transfer who waits for it. */
static int somebody_knows(const struct machine *m, uint32_t issuer, const struct event_state *event)
{
    for (uint32_t i = 0; i <= m->plan->nranks; i++) {
        uint32_t rank = i ? i - 1 : issuer;
        if (peal_verify_clock_time(m->lanes[m->ranks[rank].caller].clock, event->component + 1) >=
            event->time)
            return 1;
    }
    return 0;
}

/* Every transfer of the last call is over when all ranks have returned: somebody waited for it.
 * Otherwise it could still be under way in the call after next, in memory of that call. */
static void check_transfers(struct machine *m)
{
    for (uint32_t i = 0; i < m->nlanes && m->order; i++)
        for (uint32_t e = 0; m->lanes[i].code && e < PLAN_EVENTS_MAX; e++) {
            const struct event_state *event = &m->lanes[i].event[e];
            if (event->component == NOBODY || event->time == TIME_NEVER)
                continue;
            if (!somebody_knows(m, m->lanes[i].rank, event))
                peal_verify_find(m->out, "composition", m->lanes[i].rank, m->lanes[i].lane,
                                 event->step,
                                 "nobody waits until the transfer of e%u is delivered; it may "
                                 "still be under way in later calls",
                                 e);
        }
}

static peal_status run(struct machine *m)
{
    for (uint32_t r = 0; r < m->plan->nranks; r++)
        PEAL_TRY(enter(m, r));
    while (m->queued && m->out->findings < VERIFY_FINDINGS_MAX) {
        uint32_t self = m->queue[--m->queued];
        m->lanes[self].queued = 0;
        PEAL_TRY(run_lane(m, self));
    }
    if (m->out->findings < VERIFY_FINDINGS_MAX)
        report_stuck(m);
    if (!m->out->findings)
        check_transfers(m);
    return PEAL_OK;
}

peal_status peal_verify_execute(struct verify_run *what, struct verify_out *out)
{
    struct machine m = {0};
    what->unentered = what->unentered_by = UINT32_MAX;
    m.plan = what->plan;
    m.sems = what->sems;
    m.run = what;
    m.out = out;
    m.ctx = what->plan->ctx;
    m.alias = what->alias;
    m.order = what->order;
    m.trips = what->trips;
    m.calls = what->calls;
    /* A plan that runs ahead names no scratch, and has more copies of packets than are executed. */
    m.copies = what->plan->ahead ? VERIFY_CALLS_MAX : 2;
    m.clocks.ctx = m.ctx;
    peal_status status = make(&m);
    if (status == PEAL_OK)
        status = run(&m);
    what->steps = m.steps;
    unmake(&m);
    return status;
}
