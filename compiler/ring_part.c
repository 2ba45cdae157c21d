/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring allreduce (reduce-scatter, then allgather) as part of a lane's body.
 *
 * Position p sends chunk p first; in step k of the reduce-scatter it passes on the partial sum
 * of chunk p - k, and after N - 1 steps holds chunk p + 1 complete, which goes round once more.
 * Partial sums travel through slots of the next rank's scratch; complete chunks go straight to
 * its output: chunk c has passed through a rank before anyone can hold it complete, so that the
 * rank has entered the call and its own input of the chunk is read, also in place.
 */
#include "compiler.h"

#define WIDTH_MAX 16u

uint32_t peal_ring_width(uint32_t n)
{
    return n - 1 < WIDTH_MAX ? n - 1 : WIDTH_MAX;
}

static uint32_t member(const struct ring_part *part, uint32_t position)
{
    return peal_member(part->members, part->of, position);
}

static uint32_t chunk_at(const struct ring_part *part, uint32_t steps_back)
{
    return part->chunk0 + (part->self + part->n - steps_back % part->n) % part->n;
}

static void claim_slot(struct build *b, const struct ring_part *part, uint32_t next)
{
    if (part->credits)
        peal_build_wait(b, next, part->sem0 + 2, part->width);
}

/* The first chunk leaves as it is: by the lane itself where stores reach, since the folded ones
 * that follow on the same semaphore go that way too. */
static void start(struct build *b, const struct ring_part *part, uint32_t next)
{
    uint32_t chunk = chunk_at(part, 0);
    struct plan_operand src = peal_op_user(b->self, part->in_buffer, chunk);
    struct plan_operand slot = peal_op_slot(next, PLAN_BUF_SCRATCH, part->region, 0);
    claim_slot(b, part, next);
    if (!peal_build_direct(b, next)) {
        peal_build_push(b, chunk, src, slot, part->sem0);
        return;
    }
    peal_build_move(b, chunk, 1, &src, 1, &slot, PEAL_ENGINE_SM, 0);
    peal_build_signal(b, next, part->sem0);
}

/* Folds what came for step k - 1 with the own input and passes it to the next rank. */
static void pass_on(struct build *b, const struct ring_part *part, uint32_t k)
{
    uint32_t next = member(part, (part->self + 1) % part->n);
    uint32_t chunk = chunk_at(part, k);
    uint32_t self = b->self;
    struct plan_operand src[2] = {
        peal_op_user(self, part->in_buffer, chunk),
        peal_op_slot(self, PLAN_BUF_SCRATCH, part->region, (k - 1) % part->width)};
    struct plan_operand slot = peal_op_slot(next, PLAN_BUF_SCRATCH, part->region, k % part->width);
    struct plan_operand out = peal_op_user(self, PLAN_BUF_OUT, chunk);
    claim_slot(b, part, next);
    if (peal_build_direct(b, next)) {
        peal_build_move(b, chunk, 2, src, 1, &slot, PEAL_ENGINE_SM, 0);
        peal_build_signal(b, next, part->sem0);
    } else {
        /* An engine that cannot reduce sends what the lane has folded into its own output. */
        peal_build_move(b, chunk, 2, src, 1, &out, PEAL_ENGINE_SM, 0);
        peal_build_push(b, chunk, out, slot, part->sem0);
    }
}

/* The last fold: chunk p + 1 is complete. */
static void complete(struct build *b, const struct ring_part *part)
{
    uint32_t next = member(part, (part->self + 1) % part->n);
    uint32_t chunk = chunk_at(part, part->n - 1);
    struct plan_operand src[2] = {
        peal_op_user(b->self, part->in_buffer, chunk),
        peal_op_slot(b->self, PLAN_BUF_SCRATCH, part->region, (part->n - 2) % part->width)};
    struct plan_operand dst[2] = {peal_op_user(b->self, PLAN_BUF_OUT, chunk),
                                  peal_op_user(next, PLAN_BUF_OUT, chunk)};
    if (peal_build_direct(b, next) && peal_build_engine(b, next) == PEAL_ENGINE_SM) {
        peal_build_move(b, chunk, 2, src, 2, dst, PEAL_ENGINE_SM, 1);
        peal_build_signal(b, next, part->sem0 + 1);
    } else {
        peal_build_move(b, chunk, 2, src, 1, dst, PEAL_ENGINE_SM, 1);
        peal_build_push(b, chunk, dst[0], dst[1], part->sem0 + 1);
    }
}

void peal_ring_body(struct build *b, const struct ring_part *part)
{
    uint32_t n = part->n;
    uint32_t next = member(part, (part->self + 1) % n);
    uint32_t previous = member(part, (part->self + n - 1) % n);
    start(b, part, next);
    for (uint32_t k = 1; k < n; k++) {
        peal_build_wait(b, previous, part->sem0, 0);
        if (k < n - 1)
            pass_on(b, part, k);
        else
            complete(b, part);
        if (part->credits)
            peal_build_signal(b, previous, part->sem0 + 2);
    }
    for (uint32_t k = 0; k < n - 1; k++) {
        uint32_t chunk = chunk_at(part, k);
        peal_build_wait(b, previous, part->sem0 + 1, 0);
        if (k < n - 2)
            peal_build_push(b, chunk, peal_op_user(b->self, PLAN_BUF_OUT, chunk),
                            peal_op_user(next, PLAN_BUF_OUT, chunk), part->sem0 + 1);
    }
}
