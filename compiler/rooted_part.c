/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcast and reduce along a tree or a chain, pipelined by tile. All ranks are heard of at the
 * root before it begins (broadcast) or before it lets them go (reduce), so that every entry
 * precedes every return.
 */
#include "compiler.h"

#define SEM_ENTER 0u /* child to parent */
#define SEM_DATA 1u
#define SEM_CREDIT 2u /* parent to child: a slot is free */
#define SEM_LEAVE 3u  /* parent to child: all have entered, inputs are read */

static void tell_children(struct build *b, const struct rooted_part *part, uint32_t sem)
{
    for (uint32_t i = 0; i < part->place.children; i++)
        peal_build_signal(b, part->place.child[i], part->sem0 + sem);
}

static void hear_children(struct build *b, const struct rooted_part *part, uint32_t sem)
{
    for (uint32_t i = 0; i < part->place.children; i++)
        peal_build_wait(b, part->place.child[i], part->sem0 + sem, 0);
}

/* Moves the tile to the own output, at the root, and to every child's. */
static void descend(struct build *b, const struct rooted_part *part)
{
    int root = part->place.parent == NO_RANK;
    struct plan_operand own = peal_op_user(b->self, PLAN_BUF_OUT, part->chunk);
    struct plan_operand in = peal_op_user(b->self, PLAN_BUF_IN, part->chunk);
    struct plan_operand dst[ROOTED_CHILDREN + 1];
    uint32_t stores = 0;
    if (root)
        dst[stores++] = own;
    for (uint32_t i = 0; i < part->place.children; i++) {
        struct hop hop;
        peal_planner_hop(b->planner, b->self, part->place.child[i], &hop);
        if (hop.engine == PEAL_ENGINE_SM)
            dst[stores++] = peal_op_user(part->place.child[i], PLAN_BUF_OUT, part->chunk);
    }
    if (stores)
        peal_build_move(b, part->chunk, 1, root ? &in : &own, stores, dst, PEAL_ENGINE_SM, 0);
    for (uint32_t i = 0; i < stores; i++)
        if (dst[i].rank != b->self)
            peal_build_signal(b, dst[i].rank, part->sem0 + SEM_DATA);
    for (uint32_t i = 0; i < part->place.children; i++) {
        struct hop hop;
        peal_planner_hop(b->planner, b->self, part->place.child[i], &hop);
        if (hop.engine != PEAL_ENGINE_SM)
            peal_build_push(b, part->chunk, own,
                            peal_op_user(part->place.child[i], PLAN_BUF_OUT, part->chunk),
                            part->sem0 + SEM_DATA);
    }
}

void peal_rooted_broadcast(struct build *b, const struct rooted_part *part)
{
    peal_build_lane(b);
    hear_children(b, part, SEM_ENTER);
    if (part->place.parent != NO_RANK)
        peal_build_signal(b, part->place.parent, part->sem0 + SEM_ENTER);
    peal_build_section(b, 1);
    if (part->place.parent != NO_RANK)
        peal_build_wait(b, part->place.parent, part->sem0 + SEM_DATA, 0);
    descend(b, part);
    peal_build_drain(b);
}

static void ascend(struct build *b, const struct rooted_part *part, uint32_t nsrc,
                   const struct plan_operand *src)
{
    uint32_t parent = part->place.parent;
    struct plan_operand slot =
        peal_op_slot(parent, PLAN_BUF_SCRATCH, part->region, part->place.slot);
    if (part->credits)
        peal_build_wait(b, parent, part->sem0 + SEM_CREDIT, part->depth);
    if (peal_build_direct(b, parent)) {
        peal_build_move(b, part->chunk, nsrc, src, 1, &slot, PEAL_ENGINE_SM, 0);
        peal_build_signal(b, parent, part->sem0 + SEM_DATA);
        return;
    }
    struct plan_operand stage = src[0];
    if (nsrc > 1) {
        stage = peal_op_slot(b->self, PLAN_BUF_SCRATCH, part->stage_region, peal_build_stage(b));
        peal_build_move(b, part->chunk, nsrc, src, 1, &stage, PEAL_ENGINE_SM, 0);
    }
    peal_build_push(b, part->chunk, stage, slot, part->sem0 + SEM_DATA);
}

void peal_rooted_reduce(struct build *b, const struct rooted_part *part)
{
    struct plan_operand src[ROOTED_CHILDREN + 1] = {
        peal_op_user(b->self, PLAN_BUF_IN, part->chunk)};
    struct plan_operand out = peal_op_user(b->self, PLAN_BUF_OUT, part->chunk);
    uint32_t children = part->place.children;
    peal_build_lane(b);
    peal_build_section(b, 1);
    for (uint32_t i = 0; i < children; i++) {
        peal_build_wait(b, part->place.child[i], part->sem0 + SEM_DATA, 0);
        src[1 + i] = peal_op_slot(b->self, PLAN_BUF_SCRATCH, part->region, i);
    }
    if (part->place.parent == NO_RANK)
        peal_build_move(b, part->chunk, 1 + children, src, 1, &out, PEAL_ENGINE_SM, 1);
    else
        ascend(b, part, 1 + children, src);
    if (part->credits)
        tell_children(b, part, SEM_CREDIT);
    peal_build_drain(b);
    if (part->place.parent != NO_RANK)
        peal_build_wait(b, part->place.parent, part->sem0 + SEM_LEAVE, 0);
    tell_children(b, part, SEM_LEAVE);
}
