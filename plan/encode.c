/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as bytes. Costs come first, outside of what the id covers; then what all ranks share,
 * the index of the ranks' programs with a hash of each, and the programs. The id is a hash of
 * the shared part and the index: a rank that knows these and its own program can check it.
 */
#include "wire.h"

#include <string.h>

static void put_byte(struct peal_buf *out, uint32_t value)
{
    peal_buf_byte(out, (unsigned char)value);
}

static void put_varint(struct peal_buf *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_byte(out, (uint32_t)(value & 0x7f) | 0x80u);
    put_byte(out, (uint32_t)value);
}

void peal_plan_store64(void *at, uint64_t value)
{
    unsigned char bytes[8];
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    memcpy(at, bytes, sizeof bytes);
}

static void put_u64(struct peal_buf *out, uint64_t value)
{
    unsigned char bytes[8];
    peal_plan_store64(bytes, value);
    peal_buf_put(out, bytes, sizeof bytes);
}

static void put_text(struct peal_buf *out, const char *text)
{
    size_t length = strlen(text);
    put_varint(out, length);
    peal_buf_put(out, text, length);
}

/* ---- what all ranks share */

static void put_region(struct peal_buf *out, const struct plan_region *region)
{
    put_byte(out, region->buffer | (uint32_t)region->wire << WIRE_REGION_SHIFT);
    put_varint(out, region->width);
    put_varint(out, region->depth);
    put_varint(out, region->slot_bytes);
}

static void put_link(struct peal_buf *out, const struct plan_link *link)
{
    put_varint(out, link->from);
    put_varint(out, link->to);
    put_byte(out, link->link_class);
    put_byte(out, link->direct | (uint32_t)link->multicast << 1);
    put_text(out, link->via);
}

static void put_chunks(struct peal_buf *out, const struct peal_plan *plan)
{
    put_varint(out, plan->nchunks);
    put_byte(out, (plan->weights ? WIRE_WEIGHTS : 0) | (plan->ahead ? WIRE_AHEAD : 0));
    for (uint32_t i = 0; plan->weights && i < plan->nchunks; i++)
        put_varint(out, plan->weights[i]);
}

static void put_pairs(struct peal_buf *out, const struct peal_plan *plan)
{
    if (plan->collective != PEAL_SENDRECV)
        return;
    put_varint(out, plan->npairs);
    for (size_t i = 0; i < 2 * (size_t)plan->npairs; i++)
        put_varint(out, plan->pairs[i]);
}

static void put_list(struct peal_buf *out, const uint32_t *ranks, uint32_t count)
{
    put_varint(out, count);
    for (uint32_t i = 0; i < count; i++)
        put_varint(out, ranks[i]);
}

static void put_blocks(struct peal_buf *out, const struct peal_plan *plan)
{
    if (plan->collective != PEAL_CUSTOM)
        return;
    put_varint(out, plan->nblocks);
    for (uint32_t i = 0; i < plan->nblocks; i++) {
        struct peal_block block = peal_plan_block(plan, i);
        put_list(out, block.from, block.nfrom);
        put_list(out, block.to, block.nto);
    }
}

static void put_shared(struct peal_buf *out, const struct peal_plan *plan)
{
    put_byte(out, (uint32_t)plan->collective);
    put_varint(out, plan->nranks);
    put_varint(out, plan->root);
    put_varint(out, plan->peer);
    put_pairs(out, plan);
    put_blocks(out, plan);
    put_varint(out, plan->min_bytes);
    put_varint(out, plan->max_bytes);
    put_text(out, plan->algorithm);
    put_text(out, plan->detail);
    put_varint(out, plan->channels);
    put_varint(out, plan->tile_bytes);
    put_chunks(out, plan);
    put_varint(out, plan->nsems);
    put_varint(out, plan->nregions);
    for (uint32_t i = 0; i < plan->nregions; i++)
        put_region(out, &plan->regions[i]);
    put_varint(out, plan->nlinks);
    for (uint32_t i = 0; i < plan->nlinks; i++)
        put_link(out, &plan->links[i]);
}

/* What the id does not cover. */
static void put_preface(struct peal_buf *out, const struct peal_plan *plan)
{
    put_u64(out, plan->time_ps);
    put_u64(out, plan->bound_ps);
    put_u64(out, plan->origin.low);
    put_u64(out, plan->origin.high);
    put_varint(out, plan->sliced ? (uint64_t)plan->slice_rank + 1 : 0);
}

/* ---- programs */

static void put_operand(struct peal_buf *out, const struct plan_operand *operand, uint32_t chunk)
{
    int is_slot = operand->buffer >= PLAN_BUF_SCRATCH;
    int own = !is_slot && operand->index == chunk;
    put_byte(out, operand->buffer | (operand->link ? WIRE_REMOTE : 0u) | (own ? WIRE_OWN : 0u));
    if (!own)
        put_varint(out, operand->index);
    if (is_slot)
        put_varint(out, operand->slot);
    if (operand->link)
        put_varint(out, operand->link - 1);
}

static void put_data(struct peal_buf *out, const struct plan_rank *rank,
                     const struct plan_step *step)
{
    if (peal_plan_engine_async(step->engine))
        put_byte(out, step->event);
    put_varint(out, step->chunk);
    if (step->op == PLAN_REDUCE || step->op == PLAN_LOAD_REDUCE)
        put_byte(out, step->nsrc);
    if (step->op != PLAN_PUT_REDUCE && step->op != PLAN_GET_REDUCE)
        put_byte(out, step->ndst);
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++)
        put_operand(out, &rank->operands[step->operands + i], step->chunk);
}

static int step_mark(const struct plan_step *step)
{
    if (step->op == PLAN_SIGNAL)
        return step->after != PLAN_NO_EVENT;
    if (step->op == PLAN_AWAIT)
        return step->what;
    return step->flags & PLAN_FLAG_FINAL;
}

/* Of one chunk there is nothing to say. */
static void put_span(struct peal_buf *out, const struct plan_step *step)
{
    if (step->more == 0)
        return;
    put_byte(out, step->skip ? WIRE_SPAN | WIRE_MARK : WIRE_SPAN);
    put_varint(out, (uint64_t)step->more + 1);
    put_varint(out, step->stride);
    if (step->skip)
        put_varint(out, step->skip + 1u);
}

static void put_step(struct peal_buf *out, const struct plan_rank *rank,
                     const struct plan_step *step)
{
    put_span(out, step);
    put_byte(out, (uint32_t)step->op | (uint32_t)step->engine << WIRE_ENGINE_SHIFT |
                      (step_mark(step) ? WIRE_MARK : 0u));
    if (peal_plan_op_moves(step->op)) {
        put_data(out, rank, step);
        return;
    }
    if (step->op == PLAN_AWAIT) {
        put_byte(out, step->event);
        return;
    }
    put_varint(out, step->peer);
    put_varint(out, step->sem);
    if (step->op == PLAN_WAIT)
        put_varint(out, step->lag);
    else if (step->op == PLAN_SIGNAL && step->after != PLAN_NO_EVENT)
        put_byte(out, step->after);
}

static void put_rank(struct peal_buf *out, const struct plan_rank *rank)
{
    put_varint(out, rank->host);
    put_varint(out, rank->arch);
    put_text(out, rank->busid);
    put_text(out, rank->nic);
    put_byte(out, rank->nlanes);
    for (uint32_t i = 0; i < rank->nlanes; i++) {
        put_varint(out, rank->lanes[i].pre);
        put_varint(out, rank->lanes[i].body);
        put_varint(out, rank->lanes[i].post);
    }
    for (uint32_t i = 0; i < rank->nlanes; i++) {
        const struct plan_lane *lane = &rank->lanes[i];
        for (uint32_t k = 0; k < lane->pre + lane->body + lane->post; k++)
            put_step(out, rank, &rank->steps[lane->first + k]);
    }
}

static peal_status put_programs(struct peal_buf *out, const struct peal_plan *plan)
{
    size_t index = out->used;
    static const unsigned char blank[WIRE_RANK_BYTES];
    for (uint32_t r = 0; r < plan->nranks; r++)
        peal_buf_put(out, blank, sizeof blank);
    size_t programs = out->used;
    for (uint32_t r = 0; r < plan->nranks; r++) {
        size_t first = out->used;
        put_rank(out, &plan->ranks[r]);
        PEAL_TRY(out->status);
        char *entry = out->data + index + (size_t)r * WIRE_RANK_BYTES;
        peal_plan_store64(entry, first - programs);
        peal_plan_store64(entry + 8, out->used - first);
        peal_plan_store64(entry + 16, peal_hash64(out->data + first, out->used - first));
    }
    return out->status;
}

/* Of a whole plan, the part of its bytes that the id covers. */
peal_status peal_plan_encode_part(const struct peal_plan *plan, struct peal_buf *out,
                                  struct wire_part *part)
{
    put_preface(out, plan);
    part->first = out->used;
    put_shared(out, plan);
    part->bytes = out->used - part->first + (size_t)plan->nranks * WIRE_RANK_BYTES;
    if (!plan->sliced)
        return put_programs(out, plan);
    put_rank(out, &plan->ranks[0]);
    return out->status;
}

peal_status peal_plan_encode(const struct peal_plan *plan, struct peal_buf *out)
{
    struct wire_part part;
    return peal_plan_encode_part(plan, out, &part);
}
