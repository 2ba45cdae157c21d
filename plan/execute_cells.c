/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a value lies: a cell for each tile of a chunk in a buffer, and for each slot of a region.
 * Only those of the part that is executed are there.
 */
#include "execute.h"

int peal_execute_in_part(const struct machine *m, uint32_t part)
{
    return m->run->part == VERIFY_ALL_PARTS || m->run->part == part;
}

static peal_status number_chunks(struct machine *m)
{
    m->dense = peal_calloc(m->ctx, m->plan->nchunks, sizeof(uint32_t));
    m->chunk = peal_calloc(m->ctx, m->plan->nchunks, sizeof(uint32_t));
    if (!m->dense || !m->chunk)
        return PEAL_ERR_MEMORY;
    for (uint32_t c = 0; c < m->plan->nchunks; c++) {
        m->dense[c] = NOBODY;
        if (!peal_execute_in_part(m, m->run->parts->of_chunk[c]))
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
uint32_t peal_execute_held_block(const struct held_cells *to, uint32_t i)
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
        uint32_t block = peal_execute_held_block(to, i);
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

peal_status peal_execute_make_cells(struct machine *m)
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
        const struct plan_region *region = &plan->regions[i];
        uint32_t depth = region->depth < m->trips ? region->depth : m->trips; /* that are reached */
        m->region_slot[i] = m->slots;
        if (peal_execute_in_part(m, m->run->parts->of_region[i]))
            m->slots += (uint64_t)region->width * depth;
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

void peal_execute_free_cells(struct machine *m)
{
    size_t ranks = m->plan->nranks;
    for (uint64_t i = 0; m->cells && i < m->ncells; i++)
        peal_verify_clock_drop(&m->clocks, m->cells[i].message.clock);
    peal_free(m->ctx, m->cells, m->ncells * sizeof *m->cells);
    for (size_t i = 0; m->held && i < 2 * ranks; i++) {
        size_t bytes = ((size_t)m->held[i].held.blocks + 1) * sizeof(uint32_t);
        peal_free(m->ctx, m->held[i].before, bytes);
        peal_free(m->ctx, m->held[i].listed, bytes);
    }
    peal_free(m->ctx, m->held, ranks * 2 * sizeof *m->held);
    peal_free(m->ctx, m->slot_first, ranks * sizeof(uint64_t));
    peal_free(m->ctx, m->of_block, ((size_t)peal_plan_blocks(m->plan) + 1) * sizeof(uint32_t));
    peal_free(m->ctx, m->expected, (size_t)m->tiles * m->calls * sizeof(uint32_t));
    peal_free(m->ctx, m->region_slot, ((size_t)m->plan->nregions + 1) * sizeof(uint64_t));
    peal_free(m->ctx, m->dense, m->plan->nchunks * sizeof(uint32_t));
    peal_free(m->ctx, m->chunk, m->plan->nchunks * sizeof(uint32_t));
    if (m->values.ctx)
        peal_verify_values_free(&m->values);
}

/* Which of the listed blocks it is, one of which it is. */
static uint32_t listed_before(const struct held_cells *to, uint32_t block)
{
    uint32_t low = 0, high = to->held.blocks;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (to->listed[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct cell *peal_execute_user_cell(const struct machine *m, uint32_t rank, uint8_t buffer,
                                    uint32_t chunk, uint32_t trip)
{
    const struct held_cells *to = &m->held[m->held[2 * rank + (buffer == PLAN_BUF_OUT)].store];
    uint32_t block = chunk / m->per_block;
    uint32_t index =
        to->listed ? listed_before(to, block) : (block - to->held.first) / to->held.stride;
    uint64_t place = to->before[index] + (uint64_t)(m->dense[chunk] - m->of_block[block]);
    return &m->cells[to->first + place * m->trips + trip];
}

struct cell *peal_execute_cell_of(const struct machine *m, const struct lane_state *lane,
                                  const struct plan_operand *operand)
{
    if (operand->buffer == PLAN_BUF_IN || operand->buffer == PLAN_BUF_OUT)
        return peal_execute_user_cell(m, operand->rank, operand->buffer, operand->index,
                                      lane->trip);
    const struct plan_region *region = &m->plan->regions[operand->index];
    uint64_t slot = m->region_slot[operand->index] +
                    (uint64_t)(lane->trip % region->depth) * region->width + operand->slot;
    uint64_t copy = m->ranks[lane->rank].call % m->copies;
    return &m->cells[m->slot_first[operand->rank] + copy * m->slots + slot];
}
