/* SPDX-License-Identifier: Apache-2.0 */
/* Where chunks, tiles and slots lie: the normative rounding rule. Every result is exact or
 * saturates, so that no size wraps around to a small one. */
#include "plan.h"

/* Sum of the weights of the chunks before this one; before nchunks: of all. */
static uint32_t weight_before(const struct peal_plan *plan, uint32_t chunk)
{
    if (!plan->weights)
        return chunk;
    if (plan->prefix)
        return plan->prefix[chunk];
    uint32_t sum = 0;
    for (uint32_t i = 0; i < chunk; i++)
        sum += plan->weights[i];
    return sum;
}

/* A block of the message: its chunks are cut as if it were alone. */
struct block {
    uint32_t chunks;
    uint32_t first_chunk;
    uint64_t first; /* element */
    uint64_t count;
    uint64_t unit;
};

/* Elements that stay together: 128 bytes of them if every chunk could get that much. */
static uint64_t unit_of(const struct block *block, size_t elem_bytes)
{
    uint64_t unit = elem_bytes ? PLAN_ALIGN / elem_bytes : 0;
    return unit > 0 && block->count >= unit * block->chunks ? unit : 1;
}

static struct block block_around(const struct peal_plan *plan, uint64_t count, size_t elem_bytes,
                                 uint32_t chunk)
{
    uint32_t blocks = peal_plan_blocks(plan);
    struct block block = {.chunks = plan->nchunks / blocks, .count = count / blocks};
    uint32_t index = chunk / block.chunks;
    block.first_chunk = index * block.chunks;
    block.first = index * block.count;
    block.unit = unit_of(&block, elem_bytes);
    return block;
}

static uint64_t boundary(const struct peal_plan *plan, const struct block *block, uint32_t chunk)
{
    if (chunk == block->first_chunk + block->chunks)
        return block->first + block->count;
    uint32_t before = weight_before(plan, block->first_chunk);
    uint32_t total = weight_before(plan, block->first_chunk + block->chunks) - before;
    return block->first + block->unit * peal_muldiv(block->count / block->unit,
                                                    weight_before(plan, chunk) - before, total);
}

void peal_plan_chunk(const struct peal_plan *plan, uint64_t count, size_t elem_bytes,
                     uint32_t chunk, uint64_t *first, uint64_t *last)
{
    struct block block = block_around(plan, count, elem_bytes, chunk);
    *first = boundary(plan, &block, chunk);
    *last = boundary(plan, &block, chunk + 1);
}

static uint64_t saturating_mul(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t saturating_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* With equal weights the last chunk of a block is a largest one: its length in units is rounded
 * up, and it has the tail besides. With others each has to be looked at. */
uint64_t peal_plan_chunk_bytes(const struct peal_plan *plan, uint64_t count, size_t elem_bytes)
{
    uint64_t largest = 0;
    uint32_t chunk = plan->weights ? 0 : plan->nchunks - 1;
    for (; chunk < plan->nchunks; chunk++) {
        uint64_t first, last;
        peal_plan_chunk(plan, count, elem_bytes, chunk, &first, &last);
        if (last - first > largest)
            largest = last - first;
    }
    return saturating_mul(largest, elem_bytes);
}

uint32_t peal_plan_trips(const struct peal_plan *plan, uint64_t count, size_t elem_bytes)
{
    if (plan->tile_bytes == 0)
        return 1;
    uint64_t bytes = peal_plan_chunk_bytes(plan, count, elem_bytes);
    uint64_t trips = bytes / plan->tile_bytes + (bytes % plan->tile_bytes != 0);
    if (trips == 0)
        return 1;
    return trips > UINT32_MAX ? UINT32_MAX : (uint32_t)trips;
}

/* bfloat16, or, for each block begun, a byte of scale before its elements' bytes. */
uint64_t peal_plan_wire_bytes(uint8_t wire, uint64_t count)
{
    if (wire == PLAN_WIRE_BF16)
        return saturating_mul(count, 2);
    return saturating_add(count, count / PLAN_WIRE_BLOCK + (count % PLAN_WIRE_BLOCK != 0));
}

static uint64_t align_up(uint64_t bytes)
{
    return saturating_add(bytes, PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

/* Words of eight bytes: the header, then one for each four bytes of payload. */
uint64_t peal_plan_packet_slot_bytes(uint64_t payload_bytes)
{
    uint64_t words = payload_bytes / 4 + (payload_bytes % 4 != 0);
    return align_up(saturating_mul(saturating_add(words, 1), 8));
}

uint64_t peal_plan_region_bytes(const struct plan_region *region)
{
    uint64_t slot = region->buffer == PLAN_BUF_PACKET
                        ? peal_plan_packet_slot_bytes(region->slot_bytes)
                        : align_up(region->slot_bytes);
    return saturating_mul(slot, (uint64_t)region->width * region->depth);
}

uint32_t peal_plan_copies(const struct peal_plan *plan, uint8_t buffer)
{
    return plan->ahead && buffer == PLAN_BUF_PACKET ? PLAN_AHEAD : 2;
}

/* Bytes of the regions of a buffer among the first `regions`. */
static uint64_t bytes_before(const struct peal_plan *plan, uint32_t regions, uint8_t buffer)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < regions; i++) {
        if (plan->regions[i].buffer == buffer)
            bytes = saturating_add(bytes, peal_plan_region_bytes(&plan->regions[i]));
    }
    return bytes;
}

uint64_t peal_plan_region_offset(const struct peal_plan *plan, uint32_t region)
{
    return bytes_before(plan, region, plan->regions[region].buffer);
}

uint64_t peal_plan_memory_bytes(const struct peal_plan *plan, uint8_t buffer)
{
    return bytes_before(plan, plan->nregions, buffer);
}
