/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recursive doubling allreduce of one chunk: in step k ranks whose positions differ in bit k
 * exchange what they have and add it up. log2 n start-ups, the whole chunk in each. Positions
 * beyond the largest power of two hand their input to a partner first and get the result back.
 *
 * All ranks end with the same bits: the two that meet add the same two sums, in either order.
 */
#include "compiler.h"

#define SEM_DATA 0u
#define SEM_CREDIT 1u

uint32_t peal_doubling_steps(uint32_t n)
{
    uint32_t steps = 0;
    while (2u << steps <= n)
        steps++;
    return steps;
}

uint32_t peal_doubling_slots(uint32_t n)
{
    uint32_t steps = peal_doubling_steps(n);
    return steps + (n > 1u << steps || n < 2);
}

static uint32_t member(const struct doubling_part *part, uint32_t position)
{
    return peal_member(part->members, part->of, position);
}

static struct plan_operand slot_of(const struct doubling_part *part, uint32_t rank, uint32_t k)
{
    return peal_op_slot(rank, PLAN_BUF_SCRATCH, part->region, k);
}

/* Hands what this rank holds to another's slot. */
static void hand_over(struct build *b, const struct doubling_part *part, uint8_t buffer,
                      uint32_t to, uint32_t k)
{
    if (part->credits)
        peal_build_wait(b, to, part->sem0 + SEM_CREDIT, part->depth);
    peal_build_push(b, part->chunk, peal_op_user(b->self, buffer, part->chunk),
                    slot_of(part, to, k), part->sem0 + SEM_DATA);
}

/* Adds what another has handed over. The transfer of the own part must have read it before. */
static void take_over(struct build *b, const struct doubling_part *part, uint8_t buffer,
                      uint32_t from, uint32_t k, int sent, int final)
{
    struct plan_operand src[2] = {peal_op_user(b->self, buffer, part->chunk),
                                  slot_of(part, b->self, k)};
    struct plan_operand out = peal_op_user(b->self, PLAN_BUF_OUT, part->chunk);
    peal_build_wait(b, from, part->sem0 + SEM_DATA, 0);
    if (sent)
        peal_build_await_last(b);
    peal_build_move(b, part->chunk, 2, src, 1, &out, PEAL_ENGINE_SM, final);
    if (part->credits)
        peal_build_signal(b, from, part->sem0 + SEM_CREDIT);
}

void peal_doubling_body(struct build *b, const struct doubling_part *part)
{
    uint32_t steps = peal_doubling_steps(part->n), core = 1u << steps;
    uint32_t extras = part->n - core, self = part->self;
    uint8_t buffer = part->in_buffer;
    if (self >= core) {
        uint32_t partner = member(part, self - core);
        hand_over(b, part, buffer, partner, steps);
        peal_build_wait(b, partner, part->sem0 + SEM_DATA, 0);
        return;
    }
    uint32_t extra = self < extras ? member(part, core + self) : NO_RANK;
    if (extra != NO_RANK) {
        take_over(b, part, buffer, extra, steps, 0, steps == 0);
        buffer = PLAN_BUF_OUT;
    }
    for (uint32_t k = 0; k < steps; k++) {
        uint32_t partner = part->partners ? part->partners[k] : member(part, self ^ 1u << k);
        hand_over(b, part, buffer, partner, k);
        take_over(b, part, buffer, partner, k, 1, k + 1 == steps);
        buffer = PLAN_BUF_OUT;
    }
    if (extra != NO_RANK)
        peal_build_push(b, part->chunk, peal_op_user(b->self, PLAN_BUF_OUT, part->chunk),
                        peal_op_user(extra, PLAN_BUF_OUT, part->chunk), part->sem0 + SEM_DATA);
}
