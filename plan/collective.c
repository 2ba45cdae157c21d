/* SPDX-License-Identifier: Apache-2.0 */
/* What each collective is: which blocks of the message each rank's buffers hold. */
#include "plan.h"

const struct plan_collective *peal_plan_collective(peal_collective collective)
{
    static const struct plan_collective table[PEAL_COLLECTIVE_COUNT] = {
#define X(id, power, in, out, reduces, rooted, in_place)                                           \
    [id] = {power, in, out, reduces, rooted, in_place},
#include "collectives.def"
#undef X
    };
    return &table[collective];
}

uint32_t peal_plan_blocks(const struct peal_plan *plan)
{
    uint32_t blocks = 1;
    if (plan->npairs)
        return plan->npairs;
    if (plan->collective == PEAL_CUSTOM)
        return plan->nblocks ? plan->nblocks : 1;
    for (uint32_t i = 0; i < peal_plan_collective(plan->collective)->block_power; i++)
        blocks = blocks > UINT32_MAX / plan->nranks ? UINT32_MAX : blocks * plan->nranks;
    return blocks;
}

static uint32_t block_of(const struct peal_plan *plan, uint32_t chunk)
{
    return chunk / (plan->nchunks / peal_plan_blocks(plan));
}

static enum plan_shape shape_of(const struct peal_plan *plan, uint8_t buffer)
{
    const struct plan_collective *collective = peal_plan_collective(plan->collective);
    return buffer == PLAN_BUF_IN ? collective->in : collective->out;
}

/* The rank that has the block of a pair in its input or output. */
static uint32_t pair_end(const struct peal_plan *plan, uint8_t buffer, uint32_t pair)
{
    return plan->pairs[2 * (size_t)pair + (buffer == PLAN_BUF_IN ? 0 : 1)];
}

/* The list of a custom block's givers or takers has the rank. */
static int is_listed(const struct peal_plan *plan, uint8_t buffer, uint32_t block, uint32_t rank)
{
    uint32_t list = 2 * block + (buffer == PLAN_BUF_IN ? 0 : 1);
    uint32_t low = block < plan->nblocks ? plan->lists[list] : 0;
    uint32_t end = block < plan->nblocks ? plan->lists[list + 1] : 0, high = end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (plan->names[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && plan->names[low] == rank;
}

static uint32_t listed_before(const struct peal_plan *plan, uint32_t rank, uint8_t buffer,
                              uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < end; i++)
        count += is_listed(plan, buffer, i, rank) != 0;
    return count;
}

int peal_plan_scattered(const struct peal_plan *plan)
{
    return plan->npairs || plan->collective == PEAL_CUSTOM;
}

/* Pairs before `end` whose block the rank has. */
static uint32_t pairs_before(const struct peal_plan *plan, uint32_t rank, uint8_t buffer,
                             uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < end; i++)
        count += pair_end(plan, buffer, i) == rank;
    return count;
}

struct plan_held peal_plan_held(const struct peal_plan *plan, uint32_t rank, uint8_t buffer)
{
    uint32_t n = plan->nranks;
    if (plan->npairs)
        return (struct plan_held){pairs_before(plan, rank, buffer, plan->npairs), 0, 1};
    switch (shape_of(plan, buffer)) {
    case PLAN_WHOLE:
        return (struct plan_held){peal_plan_blocks(plan), 0, 1};
    case PLAN_OWN_BLOCK:
        return (struct plan_held){1, rank, 1};
    case PLAN_ROW:
        return (struct plan_held){n, rank * n, 1};
    case PLAN_COLUMN:
        return (struct plan_held){n, rank, n};
    case PLAN_LISTED:
        return (struct plan_held){listed_before(plan, rank, buffer, plan->nblocks), 0, 1};
    case PLAN_ROOT_WHOLE:
        return (struct plan_held){rank == plan->root ? peal_plan_blocks(plan) : 0, 0, 1};
    case PLAN_PEER_WHOLE:
        return (struct plan_held){rank == plan->peer ? peal_plan_blocks(plan) : 0, 0, 1};
    default:
        return (struct plan_held){0, 0, 1};
    }
}

uint32_t peal_plan_held_before(const struct peal_plan *plan, uint32_t rank, uint8_t buffer,
                               uint32_t block)
{
    if (plan->npairs)
        return pairs_before(plan, rank, buffer, block);
    if (plan->collective == PEAL_CUSTOM)
        return listed_before(plan, rank, buffer, block);
    struct plan_held part = peal_plan_held(plan, rank, buffer);
    return (block - part.first) / part.stride;
}

int peal_plan_holds(const struct peal_plan *plan, uint32_t rank, uint8_t buffer, uint32_t chunk)
{
    uint32_t block = block_of(plan, chunk);
    if (plan->npairs)
        return pair_end(plan, buffer, block) == rank;
    if (plan->collective == PEAL_CUSTOM)
        return is_listed(plan, buffer, block, rank);
    struct plan_held part = peal_plan_held(plan, rank, buffer);
    uint32_t far = block - part.first;
    return block >= part.first && far % part.stride == 0 && far / part.stride < part.blocks;
}

uint64_t peal_plan_place(const struct peal_plan *plan, uint32_t rank, uint8_t buffer,
                         uint32_t chunk, uint64_t count, size_t elem_bytes)
{
    uint64_t first, last;
    uint32_t block = block_of(plan, chunk);
    uint64_t block_count = count / peal_plan_blocks(plan);
    peal_plan_chunk(plan, count, elem_bytes, chunk, &first, &last);
    return first - block_count * block +
           block_count * peal_plan_held_before(plan, rank, buffer, block);
}

uint32_t peal_plan_origin(const struct peal_plan *plan, uint32_t chunk)
{
    if (plan->npairs)
        return pair_end(plan, PLAN_BUF_IN, block_of(plan, chunk));
    switch (shape_of(plan, PLAN_BUF_IN)) {
    case PLAN_LISTED:
        return plan->names[plan->lists[2 * (size_t)block_of(plan, chunk)]];
    case PLAN_OWN_BLOCK:
        return block_of(plan, chunk);
    case PLAN_ROW:
        return block_of(plan, chunk) / plan->nranks;
    default:
        return plan->root;
    }
}

uint32_t peal_plan_contributors(const struct peal_plan *plan, uint32_t chunk)
{
    if (plan->collective == PEAL_CUSTOM) {
        size_t list = 2 * (size_t)block_of(plan, chunk);
        return plan->lists[list + 1] - plan->lists[list];
    }
    return peal_plan_collective(plan->collective)->reduces ? plan->nranks : 1;
}

int peal_plan_adds(const struct peal_plan *plan, uint32_t chunk)
{
    if (plan->collective == PEAL_CUSTOM)
        return peal_plan_contributors(plan, chunk) > 1;
    return peal_plan_collective(plan->collective)->reduces;
}

uint32_t peal_plan_giver(const struct peal_plan *plan, uint32_t chunk)
{
    return block_of(plan, chunk) / plan->nranks;
}

uint32_t peal_plan_getter(const struct peal_plan *plan, uint32_t chunk)
{
    return block_of(plan, chunk) % plan->nranks;
}

double peal_plan_bus_factor(peal_collective collective, double ranks)
{
    switch (collective) {
    case PEAL_ALLREDUCE:
        return 2 * (ranks - 1) / ranks;
    case PEAL_BROADCAST:
    case PEAL_REDUCE:
    case PEAL_SENDRECV:
    case PEAL_BARRIER:
    case PEAL_CUSTOM: /* whatever it is */
        return 1;
    default:
        return (ranks - 1) / ranks;
    }
}
