/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed schedules: float32 elements cross links in a format of fewer bits. Every rank packs
 * its contribution to each other rank's block, into that rank's slot or, where no store reaches it,
 * into an own slot that an engine sends from; the owner of a block folds its own elements and the
 * unpacked slots in rank order, in float32, packs the sum and sends it to all. It unpacks its own
 * packed sum too, so that all ranks hold the same bits. A contribution is rounded twice, the
 * owner's own once. Reduce-scatter is the first half, allgather the second.
 *
 * Each channel is a lane with its share of every block; within it a trip ends before the next
 * begins. Nothing but slots is written by others, so nobody has to hear that the others have
 * entered before it begins.
 */
#include "compiler.h"

#include <stdio.h>

#define COMPRESSED_RANKS_MAX 64u
#define COMPRESSED_TILE (128u << 10) /* small and large, of those that bound the scratch */
#define COMPRESSED_TILE_MAX (1u << 20)
#define FLOAT_BYTES 4.0

enum { SEM_DATA, SEM_RESULT, SEM_FREE, SEM_COUNT };
/* Slots of a channel, a region each: contributions that came, and results that came, by their
 * ranks without the own one; what is sent from here, by the rank it is for, the result as the
 * own one's. */
enum region { REGION_IN, REGION_RESULT, REGION_OUT };

struct compressed {
    struct build *b;
    uint32_t n;
    uint32_t self;
    uint32_t channels;
    uint32_t channel;
    peal_collective collective;
    uint32_t regions;
};

/* ---- names ------------------------------------------------------------------------- */

static uint32_t chunk_of(const struct compressed *c, uint32_t block)
{
    return block * c->channels + c->channel;
}

static uint32_t sem(const struct compressed *c, uint32_t which)
{
    return SEM_COUNT * c->channel + which;
}

/* Of a channel: only allreduce has contributions and results; of contributions that lanes store,
 * none lies here before it is sent. */
static uint32_t regions_of(const struct candidate *candidate, peal_collective collective)
{
    if (collective == PEAL_ALLREDUCE)
        return 3;
    return collective == PEAL_REDUCE_SCATTER && peal_candidate_stores(candidate) ? 1 : 2;
}

static struct plan_operand slot(const struct compressed *c, uint32_t rank, enum region region,
                                uint32_t index)
{
    uint32_t place = c->collective == PEAL_ALLREDUCE ? region : region == REGION_OUT;
    return peal_op_slot(rank, PLAN_BUF_SCRATCH, c->regions * c->channel + place, index);
}

/* What came from `from` at `at`. */
static struct plan_operand came(const struct compressed *c, uint32_t at, enum region region,
                                uint32_t from)
{
    return slot(c, at, region, from - (from > at ? 1 : 0));
}

static uint32_t other(const struct compressed *c, uint32_t round)
{
    return peal_pace_to(&c->b->planner->group, c->self, round);
}

static uint32_t sender(const struct compressed *c, uint32_t round)
{
    return peal_pace_from(&c->b->planner->group, c->self, round);
}

/* 1: the lane itself stores there. */
static int stores(const struct compressed *c, uint32_t rank)
{
    return peal_build_engine(c->b, rank) == PEAL_ENGINE_SM;
}

/* ---- steps -------------------------------------------------------------------------- */

static void hear_all(const struct compressed *c, uint32_t which, uint32_t lag)
{
    for (uint32_t i = 1; i < c->n; i++)
        peal_build_wait(c->b, sender(c, i), sem(c, which), lag);
}

static void tell_all(const struct compressed *c, uint32_t which)
{
    for (uint32_t i = 1; i < c->n; i++)
        peal_build_signal(c->b, other(c, i), sem(c, which));
}

/* On one host channels begin with different ranks, so that all links of a mesh are at work. */
static uint32_t round_of(const struct compressed *c, uint32_t i)
{
    uint32_t turn = c->b->planner->group.nhosts > 1 ? 0 : c->channel;
    return 1 + (i - 1 + turn) % (c->n - 1);
}

/* The own contribution to each other rank's block. */
static void contribute(const struct compressed *c)
{
    for (uint32_t i = 1; i < c->n; i++) {
        uint32_t to = other(c, round_of(c, i)), chunk = chunk_of(c, to);
        struct plan_operand in = peal_op_user(c->self, PLAN_BUF_IN, chunk);
        struct plan_operand there = came(c, to, REGION_IN, c->self);
        struct plan_operand here = slot(c, c->self, REGION_OUT, to);
        if (stores(c, to)) {
            peal_build_convert(c->b, PLAN_PACK, chunk, &in, 1, &there);
            peal_build_signal(c->b, to, sem(c, SEM_DATA));
        } else {
            peal_build_convert(c->b, PLAN_PACK, chunk, &in, 1, &here);
            peal_build_push(c->b, chunk, here, there, sem(c, SEM_DATA));
        }
    }
}

static void fold(const struct compressed *c)
{
    struct plan_operand src[COMPRESSED_RANKS_MAX];
    uint32_t chunk = chunk_of(c, c->self);
    struct plan_operand out = peal_op_user(c->self, PLAN_BUF_OUT, chunk);
    for (uint32_t r = 0; r < c->n; r++)
        src[r] = r == c->self ? peal_op_user(c->self, PLAN_BUF_IN, chunk)
                              : came(c, c->self, REGION_IN, r);
    peal_build_move(c->b, chunk, c->n, src, 1, &out, PEAL_ENGINE_SM, 1);
}

/* Sends the own block, packed once, to all, and takes it for the own result as they do. */
static void spread(const struct compressed *c, uint8_t from)
{
    struct plan_operand dst[COMPRESSED_RANKS_MAX];
    uint32_t count = 0, chunk = chunk_of(c, c->self);
    struct plan_operand src = peal_op_user(c->self, from, chunk);
    struct plan_operand out = peal_op_user(c->self, PLAN_BUF_OUT, chunk);
    struct plan_operand here = slot(c, c->self, REGION_OUT, c->self);
    dst[count++] = here;
    for (uint32_t i = 1; i < c->n; i++)
        if (stores(c, other(c, i)))
            dst[count++] = came(c, other(c, i), REGION_RESULT, c->self);
    peal_build_convert(c->b, PLAN_PACK, chunk, &src, count, dst);
    for (uint32_t i = 1; i < c->n; i++) {
        uint32_t to = other(c, i);
        if (stores(c, to))
            peal_build_signal(c->b, to, sem(c, SEM_RESULT));
        else
            peal_build_push(c->b, chunk, here, came(c, to, REGION_RESULT, c->self),
                            sem(c, SEM_RESULT));
    }
    peal_build_convert(c->b, PLAN_UNPACK, chunk, &here, 1, &out);
}

static void collect(const struct compressed *c)
{
    for (uint32_t i = 1; i < c->n; i++) {
        uint32_t from = sender(c, i), chunk = chunk_of(c, from);
        struct plan_operand here = came(c, c->self, REGION_RESULT, from);
        struct plan_operand out = peal_op_user(c->self, PLAN_BUF_OUT, chunk);
        peal_build_wait(c->b, from, sem(c, SEM_RESULT), 0);
        peal_build_convert(c->b, PLAN_UNPACK, chunk, &here, 1, &out);
    }
}

/* ---- programs ----------------------------------------------------------------------- */

/* Of allreduce, who has a rank's result knows that this rank has read its slots, and the other way
 * round; elsewhere slots are given back. */
static void body(const struct compressed *c)
{
    int reduces = c->collective != PEAL_ALLGATHER;
    int gathers = c->collective != PEAL_REDUCE_SCATTER;
    int credits = !reduces || !gathers;
    if (credits)
        hear_all(c, SEM_FREE, 1);
    if (reduces) {
        contribute(c);
        hear_all(c, SEM_DATA, 0);
        fold(c);
    }
    if (gathers) {
        spread(c, reduces ? PLAN_BUF_OUT : PLAN_BUF_IN);
        collect(c);
    }
    if (credits)
        tell_all(c, SEM_FREE);
    peal_build_await_free(c->b); /* the slots that it sends from are packed again */
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    struct compressed c = {.b = b,
                           .n = b->plan->nranks,
                           .self = rank,
                           .channels = candidate->channels,
                           .collective = b->plan->collective,
                           .regions = regions_of(candidate, b->plan->collective)};
    b->in_flight = BURST_EVENTS;
    for (; c.channel < c.channels; c.channel++) {
        peal_build_lane(b);
        peal_build_section(b, 1);
        body(&c);
        peal_build_drain(b);
    }
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    uint32_t n = b->plan->nranks;
    uint64_t elements = peal_build_slot_bytes(b) / (uint64_t)FLOAT_BYTES;
    uint64_t bytes = peal_plan_wire_bytes(candidate->wire, elements);
    b->plan->nsems = (uint16_t)(SEM_COUNT * candidate->channels);
    uint32_t regions = regions_of(candidate, b->plan->collective);
    for (uint32_t c = 0; c < candidate->channels; c++)
        for (uint32_t region = 0; region < regions; region++) /* the last one sends, or is alone */
            peal_build_wire_region(b, candidate->wire,
                                   region > 0 && region + 1 == regions ? n : n - 1, 1, bytes);
}

/* ---- cost --------------------------------------------------------------------------- */

#define COLLECTIVES (1u << PEAL_ALLREDUCE | 1u << PEAL_REDUCE_SCATTER | 1u << PEAL_ALLGATHER)

double peal_compressed_ratio(const peal_request *request)
{
    if (request->wire == PEAL_WIRE_NONE || !(COLLECTIVES >> request->collective & 1))
        return 1;
    uint64_t block = peal_plan_wire_bytes((uint8_t)request->wire, PLAN_WIRE_BLOCK);
    return (double)block / (PLAN_WIRE_BLOCK * FLOAT_BYTES);
}

/* Every rank sends every other its share, packed: by stores to one after the other, each of which
 * has one link at a time, or to all at once. */
static peal_status cost_exchange(struct planner *planner, struct candidate *candidate,
                                 double lane_share, int in_turn)
{
    uint32_t n = planner->group.n;
    double share = peal_compressed_ratio(&planner->request) / n;
    struct traffic traffic;
    struct stage stage = {.levels = 1, .chain = 1};
    struct turns most = {.us = 0};
    PEAL_TRY(peal_traffic_init(&traffic, planner));
    for (uint32_t r = 0; r < n; r++) {
        struct turns turns = {.us = 0};
        for (uint32_t to = 0; to < n; to++) {
            struct hop hop;
            if (to == r)
                continue;
            peal_planner_hop(planner, r, to, &hop);
            peal_stage_hop(&stage, &hop);
            peal_planner_load(planner, &hop, share, hop.scale);
            peal_traffic_add(&traffic, r, &hop, 1, share);
            peal_turns_add(&turns, &hop);
        }
        peal_turns_keep(&most, &turns);
    }
    peal_traffic_stage(&traffic, candidate->channels, &stage);
    peal_traffic_net(&traffic, candidate);
    peal_traffic_free(&traffic);
    peal_candidate_stage(planner, candidate, &stage, lane_share / candidate->channels);
    if (in_turn)
        peal_stage_turns(&candidate->stage[candidate->nstages - 1],
                         share * peal_turns_us(planner, &most, candidate->channels));
    return PEAL_OK;
}

/* Where slots are given back, the lane tells whose stores reach it so, one by one. */
static void cost_credits(struct planner *planner, struct candidate *candidate)
{
    struct stage stage = {.levels = 1, .chain = 1};
    for (uint32_t r = 0; r < planner->group.n; r++) {
        double us = 0, one = 0;
        for (uint32_t to = 0; to < planner->group.n; to++) {
            struct hop hop;
            if (to == r)
                continue;
            peal_planner_hop(planner, r, to, &hop);
            if (peal_plan_engine_async(hop.engine))
                continue;
            us += hop.gap_us;
            one = hop.gap_us > one ? hop.gap_us : one;
        }
        stage.gap_us = us - one > stage.gap_us ? us - one : stage.gap_us;
    }
    peal_candidate_stage(planner, candidate, &stage, 0);
}

/* What a lane does between exchanges, while its links are idle. */
static void cost_local(struct planner *planner, struct candidate *candidate, double lane_share)
{
    struct stage stage = {.levels = 1, .chain = 1};
    peal_candidate_stage(planner, candidate, &stage, lane_share / candidate->channels);
}

static peal_status cost(struct planner *planner, uint32_t channels, uint64_t tile_bytes)
{
    double n = planner->group.n, ratio = peal_compressed_ratio(&planner->request),
           others = (n - 1) / n;
    struct candidate candidate = {.algo = ALGO_COMPRESSED,
                                  .channels = channels,
                                  .tile_bytes = tile_bytes,
                                  .max_bytes = UINT64_MAX,
                                  .chunks = planner->group.n * channels,
                                  .lanes = channels,
                                  .hop_share = ratio / (n * channels),
                                  .wire = (uint8_t)planner->request.wire};
    int reduces = planner->request.collective != PEAL_ALLGATHER;
    int gathers = planner->request.collective != PEAL_REDUCE_SCATTER;
    /* Packed out of the input, then unpacked and folded. */
    if (reduces) {
        PEAL_TRY(cost_exchange(planner, &candidate, others * (1 + ratio) / 2, 1));
        cost_local(planner, &candidate, 0);
        peal_stage_fold(planner, &candidate.stage[candidate.nstages - 1],
                        (others * ratio + 2 / n) / 2 / channels, others * ratio + 1 / n);
    }
    /* Packed into every slot, and unpacked from each. */
    if (gathers) {
        PEAL_TRY(cost_exchange(planner, &candidate, (1 + n * ratio) / n / 2, 0));
        cost_local(planner, &candidate, (ratio + 1) / 2);
    }
    if (!reduces || !gathers)
        cost_credits(planner, &candidate);
    peal_candidate_total(planner, &candidate);
    uint32_t regions = regions_of(&candidate, planner->request.collective);
    candidate.slots = (uint64_t)(2 * (regions * (n - 1) + (regions > 1)) * channels * ratio + 1);
    return peal_planner_add(planner, &candidate);
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    const peal_request *request = &planner->request;
    uint32_t asked = request->channels;
    uint64_t tile = request->tile_bytes;
    if (request->wire == PEAL_WIRE_NONE || group->n < 2 || group->n > COMPRESSED_RANKS_MAX)
        return PEAL_OK;
    if (planner->corner == CORNER_COPY && request->collective == PEAL_ALLGATHER)
        return PEAL_OK; /* copy engines do not convert */
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 && !asked && !group->accelerators)
            break;
        if (tile) {
            PEAL_TRY(cost(planner, channels, tile));
            continue;
        }
        PEAL_TRY(cost(planner, channels, 0));
        PEAL_TRY(cost(planner, channels, COMPRESSED_TILE));
        PEAL_TRY(cost(planner, channels, COMPRESSED_TILE_MAX));
    }
    return PEAL_OK;
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "float32 as %s on the wire, %u lane%s",
             peal_wire_name((peal_wire)candidate->wire), candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_compressed = {"compressed", COLLECTIVES, enumerate,
                                          prepare,      emit,        detail};
