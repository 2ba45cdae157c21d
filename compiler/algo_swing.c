/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Swing allreduce (De Sensi, Bonato, Saam, Hoefler 2024): partners lie at ring distance 1, 1, 3, 5,
 * 11 ... instead of 1, 2, 4, 8, alternately to either side, so that on a ring or torus less is
 * carried through by others. Either halves as in `halving`: 2 log2 N start-ups, 2 (N - 1) / N S; or
 * whole messages as in `doubling`: log2 N start-ups, S in each, the far partners first, so that all
 * ranks add up in one order. The first round of halves goes to the neighbour.
 *
 * Along the order of the ring, of any even number, where channels take turns with two orders. Where
 * links between accelerators are few, powers of two also go along the ways of a torus, with ranks
 * numbered row by row: the cost tells whether there is one. Channels then begin with different
 * ways, and go opposite to each other, so that every link has its part. Whole messages are for
 * powers of two.
 */
#include "arrivals.h"

#include <stdio.h>

#define RING_SHAPES 2u
#define SHAPES_MAX (2 * TORUS_WAYS)
#define TORUS_RANKS_MAX 64u

enum variant { HALVES, WHOLE };

static struct butterfly_torus torus_of(uint32_t word)
{
    struct butterfly_torus torus = {.ways = 0};
    for (; word; word >>= 8)
        torus.size[torus.ways++] = word & 0xff;
    return torus;
}

/* How many shapes channels take turns with. */
static uint32_t shapes_of(uint32_t word)
{
    return word ? 2 * torus_of(word).ways : RING_SHAPES;
}

static peal_status make_shape(const struct ring_orders *orders, uint32_t word, uint32_t channel,
                              struct butterfly *shape)
{
    const struct group *group = orders->group;
    struct butterfly_torus torus = torus_of(word);
    uint32_t *order = peal_alloc(group->ctx, group->n * sizeof *order);
    if (!order)
        return PEAL_ERR_MEMORY;
    if (word) {
        torus.first = channel % torus.ways;
        torus.mirror = channel / torus.ways % 2;
        for (uint32_t r = 0; r < group->n; r++)
            order[r] = r;
    } else {
        torus = (struct butterfly_torus){.ways = 1, .size = {group->n}};
        peal_ring_order(orders, channel % RING_SHAPES, order);
    }
    peal_status status = peal_butterfly_swing(shape, group->ctx, &torus, order);
    peal_free(group->ctx, order, group->n * sizeof *order);
    return status;
}

/* ---- whole messages */

/* Of `channels` that take turns with `count` shapes. */
static void cost_step(struct planner *planner, const struct butterfly *shapes, uint32_t count,
                      uint32_t channels, uint32_t k, struct arrivals *arrivals, struct stage *stage)
{
    int async = 0;
    for (uint32_t s = 0; s < count; s++) {
        double share = peal_butterfly_shape_share(s, count, channels);
        for (uint32_t place = 0; place < shapes[s].n; place++) {
            struct butterfly_round round = peal_butterfly_round(&shapes[s], place, k);
            struct hop hop;
            peal_planner_hop(planner, shapes[s].member[place], shapes[s].member[round.to], &hop);
            peal_planner_load(planner, &hop, share, hop.scale);
            peal_stage_hop(stage, &hop);
            peal_arrivals_send(arrivals, s * shapes[s].n + hop.from, s * shapes[s].n + hop.to, &hop,
                               1);
            async |= peal_plan_engine_async(hop.engine);
        }
    }
    if (!async)
        stage->gap_us = 0; /* one message at a time */
    stage->alpha_us = peal_arrivals_round(arrivals);
}

/* The stages of so many channels, or of any multiple, that use `count` shapes. */
static peal_status cost_whole(struct planner *planner, const struct butterfly *shapes,
                              uint32_t count, uint32_t channels, uint32_t word,
                              struct candidate *candidate)
{
    struct arrivals arrivals;
    *candidate = (struct candidate){
        .algo = ALGO_SWING, .variant = WHOLE, .torus = word, .max_bytes = UINT64_MAX};
    PEAL_TRY(peal_arrivals_init(&arrivals, planner->ctx, count * shapes->n));
    for (uint32_t k = shapes->rounds; k-- > 0;) {
        struct stage stage = {.levels = 1, .chain = 1};
        cost_step(planner, shapes, count, channels, k, &arrivals, &stage);
        peal_candidate_stage(planner, candidate, &stage, 0);
    }
    peal_arrivals_free(&arrivals);
    peal_candidate_total(planner, candidate);
    return PEAL_OK;
}

static peal_status add_whole(struct planner *planner, struct candidate candidate, uint32_t rounds,
                             uint32_t channels)
{
    double stored[BUTTERFLY_ROUNDS_MAX], folded[BUTTERFLY_ROUNDS_MAX];
    candidate.channels = candidate.chunks = candidate.lanes = channels;
    candidate.slots = 2ull * peal_doubling_slots(planner->group.n) * channels;
    candidate.hop_share = 1.0 / channels;
    for (uint32_t k = 0; k < rounds; k++) {
        stored[k] = candidate.stage[k].gap_us > 0 ? 0 : 1; /* or by another engine */
        folded[k] = 1;
        candidate.stage[k].gap_us *= channels - 1.0;
    }
    peal_butterfly_lane_rate(planner, &candidate, stored, folded);
    return peal_planner_add(planner, &candidate);
}

static peal_status enumerate_whole(struct planner *planner, const struct butterfly *shapes,
                                   uint32_t word)
{
    uint32_t asked = planner->request.channels;
    uint32_t most = planner->group.accelerators ? CHANNELS_MAX : 1;
    struct candidate candidate = {0};
    uint32_t costed = 0;
    for (uint32_t channels = asked ? asked : 1; channels <= (asked ? asked : most);
         channels = asked ? UINT32_MAX : peal_butterfly_channels(channels, shapes_of(word))) {
        uint32_t count = channels < shapes_of(word) ? channels : shapes_of(word);
        uint32_t alike = channels % count ? channels : count;
        if (alike != costed)
            PEAL_TRY(cost_whole(planner, shapes, count, alike, word, &candidate));
        costed = alike;
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

static peal_status add_shapes(struct planner *planner, const struct ring_orders *orders,
                              uint32_t word)
{
    struct butterfly shapes[SHAPES_MAX] = {{0}};
    struct candidate halves = {.algo = ALGO_SWING, .variant = HALVES, .torus = word};
    uint32_t count = shapes_of(word), n = planner->group.n;
    peal_status status = PEAL_OK;
    for (uint32_t s = 0; s < count && status == PEAL_OK; s++)
        status = make_shape(orders, word, s, &shapes[s]);
    if (status == PEAL_OK)
        status = peal_butterfly_enumerate(planner, halves, shapes, count);
    if (status == PEAL_OK && (n & (n - 1)) == 0)
        status = enumerate_whole(planner, shapes, word);
    for (uint32_t s = 0; s < count; s++)
        peal_butterfly_free(&shapes[s]);
    return status;
}

/* All tori of two and of three ways. */
static peal_status add_tori(struct planner *planner, const struct ring_orders *orders)
{
    uint32_t n = planner->group.n;
    for (uint32_t a = 2; a < n; a *= 2) {
        PEAL_TRY(add_shapes(planner, orders, a | n / a << 8));
        for (uint32_t b = 2; a * b < n; b *= 2)
            PEAL_TRY(add_shapes(planner, orders, a | b << 8 | n / a / b << 16));
    }
    return PEAL_OK;
}

static peal_status enumerate(struct planner *planner)
{
    uint32_t n = planner->group.n;
    struct ring_orders orders;
    if (!peal_butterfly_possible(BUTTERFLY_SWING, n))
        return PEAL_OK;
    PEAL_TRY(peal_ring_orders_make(planner, ALGO_SWING, RING_SHAPES, &orders));
    peal_status status = add_shapes(planner, &orders, 0);
    if (status == PEAL_OK && (n & (n - 1)) == 0 && n <= TORUS_RANKS_MAX &&
        planner->group.nhosts == 1 && peal_group_mixed(&planner->group))
        status = add_tori(planner, &orders);
    peal_ring_orders_free(&orders);
    return status;
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    if (candidate->variant == HALVES) {
        struct butterfly shape = {0};
        peal_status status = make_shape(b->rings, candidate->torus, 0, &shape);
        if (status == PEAL_OK)
            peal_butterfly_prepare(b, candidate, shape.reach[1]);
        else
            b->status = status;
        peal_butterfly_free(&shape);
        return;
    }
    b->plan->nsems = (uint16_t)(2 * candidate->channels);
    for (uint32_t c = 0; c < candidate->channels; c++)
        peal_build_region(b, PLAN_BUF_SCRATCH, peal_doubling_slots(b->plan->nranks), 1,
                          peal_build_slot_bytes(b));
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    (void)rank;
    for (uint32_t c = 0; c < candidate->channels && b->status == PEAL_OK; c++) {
        struct butterfly shape = {0};
        peal_status status = make_shape(b->rings, candidate->torus, c, &shape);
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
    struct butterfly_torus torus = torus_of(candidate->torus);
    const char *what = candidate->variant == HALVES ? "halves" : "whole messages";
    size_t used = (size_t)snprintf(text, size, "%s", what);
    for (uint32_t w = 0; w < torus.ways && used < size; w++)
        used += (size_t)snprintf(text + used, size - used, w ? " x %u" : " on a torus %u",
                                 torus.size[w]);
    if (used < size)
        (void)snprintf(text + used, size - used, ", %u channel%s", candidate->channels,
                       candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_swing = {"swing", 1u << PEAL_ALLREDUCE, enumerate, prepare, emit,
                                     detail};
