/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring reduce-scatter and ring allgather of blocks, as the body of a lane.
 *
 * Reduce-scatter: position p sends the block of position p - 1 first, then passes on the partial
 * sum of p - 1 - k in step k; the last that arrives is its own. Partial sums travel through slots.
 * Allgather: every block goes once round, straight into the outputs, once the next rank has told
 * that it has entered.
 */
#include "compiler.h"

static uint32_t member(const struct ring_part *part, uint32_t position)
{
    return peal_member(part->members, part->of, position);
}

static uint32_t at(const struct ring_part *part, uint32_t steps_back)
{
    uint32_t n = part->n;
    return member(part, (part->self + n - steps_back % n) % n);
}

static uint32_t chunk_of(const struct ring_part *part, uint32_t rank)
{
    return rank * part->channels + part->chunk0;
}

/* Folds what came for step k - 1 with the own input of a block into a slot of the next rank. */
static void pass_on(struct build *b, const struct ring_part *part, uint32_t k)
{
    uint32_t next = member(part, (part->self + 1) % part->n);
    uint32_t chunk = chunk_of(part, at(part, k + 1));
    struct plan_operand src[2] = {
        peal_op_user(b->self, PLAN_BUF_IN, chunk),
        peal_op_slot(b->self, PLAN_BUF_SCRATCH, part->region, (k - 1) % part->width)};
    struct plan_operand slot = peal_op_slot(next, PLAN_BUF_SCRATCH, part->region, k % part->width);
    if (part->credits)
        peal_build_wait(b, next, part->sem0 + 2, part->width);
    if (peal_build_direct(b, next)) {
        peal_build_move(b, chunk, 2, src, 1, &slot, PEAL_ENGINE_SM, 0);
        peal_build_signal(b, next, part->sem0);
        return;
    }
    uint32_t stage_slot = peal_build_stage(b);
    struct plan_operand stage =
        peal_op_slot(b->self, PLAN_BUF_SCRATCH, part->stage_region, stage_slot);
    peal_build_move(b, chunk, 2, src, 1, &stage, PEAL_ENGINE_SM, 0);
    peal_build_push(b, chunk, stage, slot, part->sem0);
}

static void start(struct build *b, const struct ring_part *part)
{
    uint32_t next = member(part, (part->self + 1) % part->n);
    uint32_t chunk = chunk_of(part, at(part, 1));
    struct plan_operand src = peal_op_user(b->self, PLAN_BUF_IN, chunk);
    struct plan_operand slot = peal_op_slot(next, PLAN_BUF_SCRATCH, part->region, 0);
    if (part->credits)
        peal_build_wait(b, next, part->sem0 + 2, part->width);
    if (!peal_build_direct(b, next)) {
        peal_build_push(b, chunk, src, slot, part->sem0);
        return;
    }
    peal_build_move(b, chunk, 1, &src, 1, &slot, PEAL_ENGINE_SM, 0);
    peal_build_signal(b, next, part->sem0);
}

void peal_ring_reduce_scatter(struct build *b, const struct ring_part *part)
{
    uint32_t n = part->n, previous = member(part, (part->self + n - 1) % n);
    uint32_t own = chunk_of(part, b->self);
    start(b, part);
    for (uint32_t k = 1; k < n; k++) {
        struct plan_operand src[2] = {
            peal_op_user(b->self, PLAN_BUF_IN, own),
            peal_op_slot(b->self, PLAN_BUF_SCRATCH, part->region, (n - 2) % part->width)};
        struct plan_operand out = peal_op_user(b->self, PLAN_BUF_OUT, own);
        peal_build_wait(b, previous, part->sem0, 0);
        if (k < n - 1)
            pass_on(b, part, k);
        else
            peal_build_move(b, own, 2, src, 1, &out, PEAL_ENGINE_SM, 1);
        if (part->credits)
            peal_build_signal(b, previous, part->sem0 + 2);
    }
}

/* Before the body: the rank before may write this one's output. */
void peal_ring_enter(struct build *b, const struct ring_part *part)
{
    uint32_t n = part->n;
    peal_build_signal(b, member(part, (part->self + n - 1) % n), part->sem0);
    peal_build_wait(b, member(part, (part->self + 1) % n), part->sem0, 0);
}

void peal_ring_allgather(struct build *b, const struct ring_part *part)
{
    uint32_t n = part->n;
    uint32_t next = member(part, (part->self + 1) % n);
    uint32_t previous = member(part, (part->self + n - 1) % n);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t chunk = chunk_of(part, at(part, k));
        struct plan_operand out = peal_op_user(b->self, PLAN_BUF_OUT, chunk);
        struct plan_operand in = peal_op_user(b->self, PLAN_BUF_IN, chunk);
        if (k == 0)
            peal_build_move(b, chunk, 1, &in, 1, &out, PEAL_ENGINE_SM, 0);
        else
            peal_build_wait(b, previous, part->sem0 + 1, 0);
        if (k < n - 1)
            peal_build_push(b, chunk, out, peal_op_user(next, PLAN_BUF_OUT, chunk), part->sem0 + 1);
    }
}
