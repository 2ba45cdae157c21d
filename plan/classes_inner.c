/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner system of a block: an allreduce among its ranks, in which a rail is a step that marks
 * the block's sum final. It is executed twice: with rails that promise nothing beyond the own
 * hand-over, for order and values, and with rails as slow as they may be, for deadlocks.
 */
#include "verify_classes.h"

#include <stdio.h>
#include <string.h>

struct inner {
    struct classes *c;
    struct block_class made;
    uint32_t *region_name; /* in the inner system; CLASSES_NONE */
};

/* ---- the lanes inside --------------------------------------------------------- */

static void note_regions(struct inner *in, const struct plan_rank *program,
                         const struct plan_step *step)
{
    for (uint32_t k = 0; k < (uint32_t)step->nsrc + step->ndst; k++) {
        const struct plan_operand *operand = &program->operands[step->operands + k];
        if (operand->buffer >= PLAN_BUF_SCRATCH)
            in->region_name[operand->index] = 0;
    }
}

static peal_status copy_step(struct inner *in, uint32_t rank, const struct plan_rank *program,
                             const struct plan_step *step)
{
    const struct block *block = &in->c->block;
    struct plan_operand operands[2 * PLAN_OPERANDS_MAX];
    struct plan_step copy = *step;
    if (step->op == PLAN_SIGNAL || step->op == PLAN_WAIT)
        copy.peer -= block->first;
    for (uint32_t k = 0; k < (uint32_t)step->nsrc + step->ndst; k++) {
        operands[k] = program->operands[step->operands + k];
        operands[k].rank -= block->first;
        operands[k].link = PLAN_NO_LINK;
        if (operands[k].buffer >= PLAN_BUF_SCRATCH)
            operands[k].index = in->region_name[operands[k].index];
    }
    return peal_reduced_step(in->made.plan, rank, &copy, operands);
}

/* copy 0: only sees which regions the lanes use. */
static peal_status walk_lanes(struct inner *in, uint32_t i, int copy)
{
    const struct plan_rank *program = &in->c->block.program[i];
    const struct split *split = &in->c->block.split[i];
    for (uint32_t l = 0; l < split->lanes; l++) {
        const struct plan_lane *lane = &program->lanes[l];
        if (split->group[l] != CLASSES_INNER)
            continue;
        if (copy) {
            PEAL_TRY(peal_reduced_lane(in->made.plan, i));
            struct plan_lane *to =
                &in->made.plan->ranks[i].lanes[in->made.plan->ranks[i].nlanes - 1];
            *to = (struct plan_lane){to->first, lane->pre, lane->body, lane->post};
        }
        for (uint32_t s = 0; s < lane->pre + lane->body + lane->post; s++) {
            const struct plan_step *step = &program->steps[lane->first + s];
            if (copy)
                PEAL_TRY(copy_step(in, i, program, step));
            else
                note_regions(in, program, step);
        }
    }
    return PEAL_OK;
}

static peal_status make_regions(struct inner *in)
{
    const struct peal_plan *head = in->c->head;
    struct peal_plan *plan = in->made.plan;
    PEAL_TRY(peal_grow(in->c->ctx, (void **)&plan->regions, &plan->regions_capacity, head->nregions,
                       sizeof *plan->regions, PLAN_REGIONS_MAX));
    for (uint32_t i = 0; i < head->nregions; i++)
        if (in->region_name[i] != CLASSES_NONE) {
            in->region_name[i] = plan->nregions;
            plan->regions[plan->nregions++] = head->regions[i];
        }
    return PEAL_OK;
}

static peal_status add_turns(struct inner *in, const struct split *split)
{
    struct block_class *made = &in->made;
    size_t need = (size_t)made->turns + split->turns;
    if (!split->turns)
        return PEAL_OK;
    PEAL_TRY(peal_grow(in->c->ctx, (void **)&made->over, &made->over_capacity, need,
                       sizeof *made->over, 1u << 28));
    PEAL_TRY(peal_grow(in->c->ctx, (void **)&made->back, &made->back_capacity, need,
                       sizeof *made->back, 1u << 28));
    memcpy(made->over + made->turns, split->over, split->turns * sizeof *split->over);
    memcpy(made->back + made->turns, split->back, split->turns * sizeof *split->back);
    made->turns += split->turns;
    return PEAL_OK;
}

static peal_status add_gates(struct inner *in, uint32_t i)
{
    const struct split *split = &in->c->block.split[i];
    for (uint32_t g = 0; g < split->groups; g++) {
        PEAL_TRY(peal_grow(in->c->ctx, (void **)&in->made.gates, &in->made.gates_capacity,
                           (size_t)in->made.ngates + 1, sizeof *in->made.gates, 1u << 22));
        const struct split_group *group = &split->of[g];
        in->made.gates[in->made.ngates++] = (struct gate){i,
                                                          group->rail,
                                                          group->over,
                                                          group->back,
                                                          group->overs,
                                                          group->backs,
                                                          in->made.turns + group->first,
                                                          group->chunks};
    }
    return add_turns(in, split);
}

static peal_status make_inner(struct inner *in)
{
    struct classes *c = in->c;
    PEAL_TRY(peal_plan_create(c->ctx, c->block.count, &in->made.plan));
    in->made.plan->nchunks = c->head->nchunks;
    for (uint32_t i = 0; i < c->block.count; i++)
        PEAL_TRY(walk_lanes(in, i, 0));
    PEAL_TRY(make_regions(in));
    for (uint32_t i = 0; i < c->block.count; i++) {
        PEAL_TRY(walk_lanes(in, i, 1));
        PEAL_TRY(add_gates(in, i));
    }
    return PEAL_OK;
}

/* ---- equal blocks -------------------------------------------------------------- */

static int equal_classes(const struct block_class *a, const struct block_class *b)
{
    if (a->plan->nranks != b->plan->nranks || a->ngates != b->ngates ||
        a->plan->nregions != b->plan->nregions || a->turns != b->turns ||
        memcmp(a->gates, b->gates, a->ngates * sizeof *a->gates) ||
        memcmp(a->over, b->over, a->turns * sizeof *a->over) ||
        memcmp(a->back, b->back, a->turns * sizeof *a->back))
        return 0;
    for (uint32_t i = 0; i < a->plan->nregions; i++) {
        const struct plan_region *x = &a->plan->regions[i], *y = &b->plan->regions[i];
        if (x->buffer != y->buffer || x->width != y->width || x->depth != y->depth)
            return 0;
    }
    for (uint32_t r = 0; r < a->plan->nranks; r++)
        if (!peal_reduced_equal(&a->plan->ranks[r], &b->plan->ranks[r]))
            return 0;
    return 1;
}

/* The class that the block is of; nclasses: none that was proven. */
static uint32_t class_of(const struct classes *c, const struct block_class *made)
{
    uint32_t i = 0;
    while (i < c->nclasses && !equal_classes(&c->classes[i], made))
        i++;
    return i;
}

/* ---- what stands for the rails --------------------------------------------------- */

/* What comes with each signal is marked final right behind it. */
static peal_status take_over(struct inner *in, uint32_t g)
{
    const struct gate *gate = &in->made.gates[g];
    const struct split_turn *turn = in->made.over + gate->first, *end = turn + gate->chunks;
    for (uint32_t t = 0; t < gate->overs; t++) {
        PEAL_TRY(peal_reduced_wait(in->made.plan, gate->rank, gate->rank, gate->over));
        for (; turn < end && turn->turn == t; turn++)
            PEAL_TRY(peal_reduced_finish(in->made.plan, gate->rank, turn->chunk));
    }
    return PEAL_OK;
}

/* The rail writes a tile until it gives it back, and may read it until the call returns. */
static peal_status answer(struct inner *in, uint32_t g)
{
    const struct gate *gate = &in->made.gates[g];
    const struct split_turn *turn = in->made.back + gate->first, *end = turn + gate->chunks;
    uint32_t sink = in->made.plan->nregions - 1 - g;
    for (uint32_t t = 0; t < gate->backs; t++) {
        for (; turn < end && turn->turn == t; turn++)
            PEAL_TRY(peal_reduced_touch(in->made.plan, gate->rank, turn->chunk));
        PEAL_TRY(peal_reduced_signal(in->made.plan, gate->rank, gate->rank, gate->back));
    }
    for (turn = end - gate->chunks; turn < end; turn++)
        PEAL_TRY(peal_reduced_look(in->made.plan, gate->rank, gate->rank, turn->chunk, sink));
    return PEAL_OK;
}

/* Each rail answers by itself: what it knows is what was handed to it. */
static peal_status add_rails(struct inner *in)
{
    for (uint32_t g = 0; g < in->made.ngates; g++) {
        const struct gate *gate = &in->made.gates[g];
        PEAL_TRY(peal_reduced_lane(in->made.plan, gate->rank));
        PEAL_TRY(take_over(in, g));
        PEAL_TRY(answer(in, g));
    }
    return PEAL_OK;
}

/* No rail answers in a trip before every gate of the block has handed over: each tells the first
 * gate's lane, which then tells each. */
static peal_status add_slow_rail(struct inner *in, uint32_t g)
{
    const struct gate *gates = in->made.gates, *gate = &gates[g];
    struct peal_plan *plan = in->made.plan;
    uint32_t hub = gates[0].rank, told = PLAN_SEMS_MAX, tells = told + in->made.ngates;
    PEAL_TRY(peal_reduced_lane(plan, gate->rank));
    PEAL_TRY(take_over(in, g));
    if (g) {
        PEAL_TRY(peal_reduced_signal(plan, gate->rank, hub, told + g));
        PEAL_TRY(peal_reduced_wait(plan, gate->rank, hub, tells + g));
    }
    for (uint32_t k = 1; !g && k < in->made.ngates; k++)
        PEAL_TRY(peal_reduced_wait(plan, hub, gates[k].rank, told + k));
    for (uint32_t k = 1; !g && k < in->made.ngates; k++)
        PEAL_TRY(peal_reduced_signal(plan, hub, gates[k].rank, tells + k));
    return answer(in, g);
}

struct mark {
    uint32_t lanes, steps, operands;
};

static void truncate_plan(struct peal_plan *plan, const struct mark *marks)
{
    for (uint32_t r = 0; r < plan->nranks; r++) {
        plan->ranks[r].nlanes = marks[r].lanes;
        plan->ranks[r].nsteps = marks[r].steps;
        plan->ranks[r].noperands = marks[r].operands;
    }
}

static peal_status prove_both(struct inner *in, const struct mark *marks, const uint32_t *ranks)
{
    char prefix[96];
    snprintf(prefix, sizeof prefix, "inside a host, ranks counted from %u", in->c->block.first);
    peal_status status = peal_reduced_add_sinks(in->made.plan, in->made.ngates);
    if (status == PEAL_OK)
        status = add_rails(in);
    struct verify_orders orders = {.tree = &in->made.tree};
    if (status == PEAL_OK)
        status = peal_reduced_prove(in->c, in->made.plan, prefix, ranks, 1, &orders);
    if (!in->c->proof.order)
        in->made.tree.root = VALUE_NONE;
    truncate_plan(in->made.plan, marks);
    if (status != PEAL_OK || in->c->out->findings)
        return status;
    for (uint32_t g = 0; status == PEAL_OK && g < in->made.ngates; g++)
        status = add_slow_rail(in, g);
    snprintf(prefix, sizeof prefix, "inside a host whose rails wait for all of it, from rank %u",
             in->c->block.first);
    if (status == PEAL_OK)
        status = peal_reduced_prove(in->c, in->made.plan, prefix, ranks, 1, NULL);
    truncate_plan(in->made.plan, marks);
    in->made.plan->nregions -= in->made.ngates;
    return status;
}

static peal_status prove_new(struct inner *in)
{
    struct classes *c = in->c;
    uint32_t rank, n = in->made.plan->nranks;
    if (2 * in->made.ngates + PLAN_SEMS_MAX > CLASSES_SEMS)
        return peal_classes_refuse(c, "a host has %u gates", in->made.ngates);
    if (!peal_reduced_owned(in->made.plan, &rank))
        return peal_classes_refuse(c, "rank %u does not name a region that others write",
                                   c->block.first + rank);
    struct mark *marks = peal_calloc(c->ctx, n, sizeof *marks);
    uint32_t *ranks = peal_calloc(c->ctx, n, sizeof *ranks);
    peal_status status = marks && ranks ? PEAL_OK : PEAL_ERR_MEMORY;
    for (uint32_t r = 0; status == PEAL_OK && r < n; r++) {
        const struct plan_rank *program = &in->made.plan->ranks[r];
        marks[r] = (struct mark){program->nlanes, program->nsteps, program->noperands};
        ranks[r] = c->block.first + r;
    }
    if (status == PEAL_OK)
        status = prove_both(in, marks, ranks);
    peal_free(c->ctx, marks, n * sizeof *marks);
    peal_free(c->ctx, ranks, n * sizeof *ranks);
    return status;
}

static peal_status keep(struct inner *in)
{
    struct classes *c = in->c;
    c->proof.executed += in->made.plan->nranks;
    c->proof.classes++;
    PEAL_TRY(peal_grow(c->ctx, (void **)&c->classes, &c->classes_capacity, (size_t)c->nclasses + 1,
                       sizeof *c->classes, PLAN_RANKS_MAX));
    c->classes[c->nclasses++] = in->made;
    in->made = (struct block_class){0};
    return PEAL_OK;
}

void peal_classes_free_class(peal_ctx *ctx, struct block_class *made)
{
    peal_plan_destroy(made->plan);
    peal_free(ctx, made->gates, made->gates_capacity * sizeof *made->gates);
    peal_free(ctx, made->over, made->over_capacity * sizeof *made->over);
    peal_free(ctx, made->back, made->back_capacity * sizeof *made->back);
    peal_verify_tree_free(ctx, &made->tree);
}

/* The order in which the block adds up what it hands over. */
static peal_status note_order(struct classes *c, struct block_class *made)
{
    PEAL_TRY(peal_grow(c->ctx, (void **)&c->block_order, &c->block_orders_capacity,
                       (size_t)c->nblocks + 1, sizeof *c->block_order, PLAN_RANKS_MAX));
    c->block_order[c->nblocks] = peal_verify_tree_shape(&made->tree, c->block.first);
    if (!c->block_order[c->nblocks])
        c->order = 0;
    return PEAL_OK;
}

peal_status peal_classes_prove_block(struct classes *c)
{
    struct inner in = {.c = c};
    size_t regions = (size_t)c->head->nregions + 1;
    in.region_name = peal_calloc(c->ctx, regions, sizeof(uint32_t));
    peal_status status = in.region_name ? PEAL_OK : PEAL_ERR_MEMORY;
    if (status == PEAL_OK) {
        memset(in.region_name, 0xff, regions * sizeof(uint32_t));
        status = make_inner(&in);
    }
    uint32_t class = c->nclasses;
    if (status == PEAL_OK)
        class = class_of(c, &in.made);
    if (status == PEAL_OK && class == c->nclasses) {
        status = prove_new(&in);
        if (status == PEAL_OK)
            status = keep(&in);
    }
    if (status == PEAL_OK)
        status = note_order(c, &c->classes[class]);
    peal_classes_free_class(c->ctx, &in.made);
    peal_free(c->ctx, in.region_name, regions * sizeof(uint32_t));
    return status;
}
