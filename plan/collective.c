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
    struct plan_held part = peal_plan_held(plan, rank, buffer);
    return (block - part.first) / part.stride;
}

int peal_plan_holds(const struct peal_plan *plan, uint32_t rank, uint8_t buffer, uint32_t chunk)
{
    uint32_t block = block_of(plan, chunk);
    if (plan->npairs)
        return pair_end(plan, buffer, block) == rank;
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
    case PLAN_OWN_BLOCK:
        return block_of(plan, chunk);
    case PLAN_ROW:
        return block_of(plan, chunk) / plan->nranks;
    default:
        return plan->root;
    }
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
        return 1;
    default:
        return (ranks - 1) / ranks;
    }
}
