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

struct plan_held peal_plan_held(const struct peal_plan *plan, uint32_t rank, uint8_t buffer)
{
    uint32_t n = plan->nranks;
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

int peal_plan_holds(const struct peal_plan *plan, uint32_t rank, uint8_t buffer, uint32_t chunk)
{
    struct plan_held part = peal_plan_held(plan, rank, buffer);
    uint32_t block = block_of(plan, chunk);
    uint32_t far = block - part.first;
    return block >= part.first && far % part.stride == 0 && far / part.stride < part.blocks;
}

uint64_t peal_plan_place(const struct peal_plan *plan, uint32_t rank, uint8_t buffer,
                         uint32_t chunk, uint64_t count, size_t elem_bytes)
{
    uint64_t first, last;
    struct plan_held part = peal_plan_held(plan, rank, buffer);
    uint32_t block = block_of(plan, chunk);
    uint64_t block_count = count / peal_plan_blocks(plan);
    peal_plan_chunk(plan, count, elem_bytes, chunk, &first, &last);
    return first - block_count * block + block_count * ((block - part.first) / part.stride);
}

uint32_t peal_plan_origin(const struct peal_plan *plan, uint32_t chunk)
{
    switch (shape_of(plan, PLAN_BUF_IN)) {
    case PLAN_OWN_BLOCK:
        return block_of(plan, chunk);
    case PLAN_ROW:
        return block_of(plan, chunk) / plan->nranks;
    default:
        return plan->root;
    }
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
