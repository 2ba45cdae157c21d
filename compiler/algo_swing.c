/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Swing allreduce (De Sensi, Bonato, Saam, Hoefler 2024): partners lie at ring distance 1, 1, 3, 5,
 * 11 ... instead of 1, 2, 4, 8, alternately to either side, so that on a ring or torus less is
 * carried through by others. Either halves as in `halving`: 2 log2 N start-ups, 2 (N - 1) / N S; or
 * whole messages as in `doubling`: log2 N start-ups, S in each, the far partners first, so that all
 * ranks add up in one order. The first round of halves goes to the neighbour.
 *
 * For powers of two, along the order of the ring; channels take turns with two orders.
 */
#include "compiler.h"

#include <stdio.h>

#define SHAPES 2u

enum variant { HALVES, WHOLE };

static peal_status make_shape(const struct ring_orders *orders, uint32_t channel,
                              struct butterfly *shape)
{
    const struct group *group = orders->group;
    uint32_t *order = peal_alloc(group->ctx, group->n * sizeof *order);
    if (!order)
        return PEAL_ERR_MEMORY;
    peal_ring_order(orders, channel % SHAPES, order);
    peal_status status = peal_butterfly_make(shape, group->ctx, BUTTERFLY_SWING, group->n, order);
    peal_free(group->ctx, order, group->n * sizeof *order);
    return status;
}

/* ---- whole messages */

static void cost_step(struct planner *planner, const struct butterfly *shapes, uint32_t count,
                      uint32_t k, struct stage *stage)
{
    for (uint32_t s = 0; s < count; s++)
        for (uint32_t place = 0; place < shapes[s].n; place++) {
            struct butterfly_round round = peal_butterfly_round(&shapes[s], place, k);
            struct hop hop;
            peal_planner_hop(planner, shapes[s].member[place], shapes[s].member[round.to], &hop);
            peal_planner_load(planner, &hop, 1.0 / count, hop.scale);
            peal_stage_hop(stage, &hop);
        }
    stage->gap_us = 0; /* one message at a time */
}

/* The stages of any number of channels that use `count` shapes. */
static struct candidate cost_whole(struct planner *planner, const struct butterfly *shapes,
                                   uint32_t count)
{
    struct candidate candidate = {.algo = ALGO_SWING, .variant = WHOLE, .max_bytes = UINT64_MAX};
    for (uint32_t k = shapes->rounds; k-- > 0;) {
        struct stage stage = {.levels = 1, .chain = 1};
        cost_step(planner, shapes, count, k, &stage);
        peal_candidate_stage(planner, &candidate, &stage, 0);
    }
    peal_candidate_total(planner, &candidate);
    return candidate;
}

static peal_status add_whole(struct planner *planner, struct candidate candidate, uint32_t rounds,
                             uint32_t channels)
{
    double whole[BUTTERFLY_ROUNDS_MAX]; /* out to the slot, and then folded */
    candidate.channels = candidate.chunks = candidate.lanes = channels;
    candidate.slots = 2ull * (rounds + 1) * channels;
    candidate.hop_share = 1.0 / channels;
    for (uint32_t k = 0; k < rounds; k++)
        whole[k] = 1;
    peal_butterfly_lane_rate(planner, &candidate, whole, whole);
    return peal_planner_add(planner, &candidate);
}

static peal_status enumerate_whole(struct planner *planner, const struct butterfly *shapes)
{
    uint32_t asked = planner->request.channels;
    uint32_t most = planner->group.accelerators ? CHANNELS_MAX : 1;
    struct candidate candidate = {0};
    uint32_t costed = 0;
    for (uint32_t channels = asked ? asked : 1; channels <= (asked ? asked : most); channels *= 2) {
        uint32_t count = channels < SHAPES ? channels : SHAPES;
        if (count != costed)
            candidate = cost_whole(planner, shapes, count);
        costed = count;
        PEAL_TRY(add_whole(planner, candidate, shapes->rounds, channels));
    }
    return PEAL_OK;
}

static void emit_whole(struct build *b, const struct butterfly *shape, uint32_t channel)
{
    uint32_t partners[BUTTERFLY_ROUNDS_MAX];
    uint32_t self = shape->place[b->self];
    struct doubling_part part = {.n = shape->n,
                                 .self = self,
                                 .members = shape->member,
                                 .partners = partners,
                                 .chunk = channel,
                                 .in_buffer = PLAN_BUF_IN,
                                 .region = channel,
                                 .sem0 = 2 * channel};
    for (uint32_t k = 0; k < shape->rounds; k++)
        partners[shape->rounds - 1 - k] = shape->member[peal_butterfly_round(shape, self, k).to];
    peal_build_lane(b);
    peal_build_section(b, 1);
    peal_doubling_body(b, &part);
    peal_build_drain(b);
}

/* ---- both */

static peal_status enumerate(struct planner *planner)
{
    struct butterfly shapes[SHAPES] = {{0}, {0}};
    struct candidate halves = {.algo = ALGO_SWING, .variant = HALVES};
    if (!peal_butterfly_possible(BUTTERFLY_SWING, planner->group.n))
        return PEAL_OK;
    struct ring_orders orders;
    PEAL_TRY(peal_ring_orders_make(planner, ALGO_SWING, SHAPES, &orders));
    peal_status status = make_shape(&orders, 0, &shapes[0]);
    if (status == PEAL_OK)
        status = make_shape(&orders, 1, &shapes[1]);
    if (status == PEAL_OK)
        status = peal_butterfly_enumerate(planner, halves, shapes, SHAPES);
    if (status == PEAL_OK)
        status = enumerate_whole(planner, shapes);
    peal_butterfly_free(&shapes[0]);
    peal_butterfly_free(&shapes[1]);
    peal_ring_orders_free(&orders);
    return status;
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    if (candidate->variant == HALVES) {
        peal_butterfly_prepare(b, candidate);
        return;
    }
    b->plan->nsems = (uint16_t)(2 * candidate->channels);
    for (uint32_t c = 0; c < candidate->channels; c++)
        peal_build_region(b, PLAN_BUF_SCRATCH, peal_doubling_steps(b->plan->nranks) + 1, 1,
                          peal_build_slot_bytes(b));
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    (void)rank;
    for (uint32_t c = 0; c < candidate->channels && b->status == PEAL_OK; c++) {
        struct butterfly shape = {0};
        peal_status status = make_shape(b->rings, c, &shape);
        if (status != PEAL_OK)
            b->status = status;
        else if (candidate->variant == HALVES)
            peal_butterfly_lane(b, &shape, c, candidate->channels);
        else
            emit_whole(b, &shape, c);
        peal_butterfly_free(&shape);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "%s, %u channel%s",
             candidate->variant == HALVES ? "halves" : "whole messages", candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_swing = {"swing", 1u << PEAL_ALLREDUCE, enumerate, prepare, emit,
                                     detail};
