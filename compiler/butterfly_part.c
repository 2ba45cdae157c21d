/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduce-scatter and allgather along a butterfly, as a lane; also reduce, which then gathers what
 * is complete at the root, and broadcast, which first hands the blocks out by halves. What is
 * handed over in a round goes as one message where its chunks are evenly spaced (they are side by
 * side in an allreduce, whose chunks can be numbered as the places are), else as a few.
 *
 * Partial sums are folded into slots of the rank's own, ordered by the round in which they leave,
 * so that they leave side by side; those that come in lie in the order of their chunks. Complete
 * chunks go straight to the outputs: who is complete has heard of every rank, and each has read
 * its own input of the chunk.
 */
#include "compiler.h"

#define SEM_DATA 0u  /* of the reduce-scatter; without one: the rank has entered */
#define SEM_WHOLE 1u /* complete chunks */
#define SEM_SLOT 2u  /* slots are free again */
#define SEMS 3u

struct part {
    struct build *b;
    const struct butterfly *shape;
    uint32_t self; /* place */
    uint32_t channel;
    uint32_t channels;
    uint32_t in_region;   /* what comes in: slots by round */
    uint32_t held_region; /* what is held */
    uint32_t sem0;
    uint32_t root;  /* place */
    int has_out;    /* this rank has an output for its own block */
    int blocks;     /* chunks belong to blocks of ranks; else they are numbered by places */
    int credits;    /* slots are used again in the same call and nothing else says when */
    uint32_t *keys; /* a list: places, or of blocks the ranks, in rising order */
    uint32_t *held; /* slot of each key */
    uint8_t *mark;
};

static uint32_t chunk_of(const struct part *part, uint32_t key)
{
    return part->blocks ? key * part->channels + part->channel
                        : part->channel * part->shape->n + key;
}

static uint32_t key_of(const struct part *part, uint32_t place)
{
    return part->blocks ? part->shape->member[place] : place;
}

/* Lists the keys of `count` places from `first`, modulo n, in rising order. */
static void list_range(struct part *part, uint32_t first, uint32_t count)
{
    uint32_t n = part->shape->n, used = 0;
    for (uint32_t i = 0; i < count; i++)
        part->mark[key_of(part, (first + i) % n)] = 1;
    for (uint32_t key = 0; used < count; key++) {
        if (part->mark[key])
            part->keys[used++] = key;
        part->mark[key] = 0;
    }
}

/* Lists what `giver` hands over in round k: the `count` places from `first`, or no range. */
static void list_gift(struct part *part, uint32_t k, uint32_t giver, uint32_t first, uint32_t count)
{
    uint32_t n = part->shape->n, used = 0;
    if (!part->shape->leaves) {
        list_range(part, first, count);
        return;
    }
    for (uint32_t place = 0; place < n; place++)
        part->mark[key_of(part, place)] =
            (uint8_t)peal_butterfly_gives(part->shape, giver, k, place);
    for (uint32_t key = 0; key < n; key++) {
        if (part->mark[key])
            part->keys[used++] = key;
        part->mark[key] = 0;
    }
}

/* So many of the listed keys, from number i on, are evenly spaced. */
static uint32_t run_length(const struct part *part, uint32_t i, uint32_t count)
{
    uint32_t span = 1;
    while (i + span < count &&
           part->keys[i + span] - part->keys[i + span - 1] == part->keys[i + 1] - part->keys[i])
        span++;
    return span;
}

static uint32_t count_runs(const struct part *part, uint32_t count)
{
    uint32_t runs = 0;
    for (uint32_t i = 0; i < count; i += run_length(part, i, count))
        runs++;
    return runs;
}

/* The next move takes `span` of the listed keys, from number i on. */
static uint32_t begin_span(const struct part *part, uint32_t i, uint32_t span)
{
    uint32_t chunk = chunk_of(part, part->keys[i]);
    if (span > 1)
        peal_build_span(part->b, span, chunk_of(part, part->keys[i + 1]) - chunk);
    return chunk;
}

static struct plan_operand user(const struct part *part, uint32_t place, uint8_t buffer,
                                uint32_t chunk)
{
    return peal_op_user(part->shape->member[place], buffer, chunk);
}

static struct plan_operand slot(const struct part *part, uint32_t place, uint32_t region,
                                uint32_t k)
{
    return peal_op_slot(part->shape->member[place], PLAN_BUF_SCRATCH, region, k);
}

/* Slots before those of round k: of what comes in, or of what leaves; the first round's gifts
 * leave from the input. */
static uint32_t slots_before(const struct butterfly *shape, uint32_t first, uint32_t k)
{
    return first < k ? shape->reach[first] - shape->reach[k] : 0;
}

/* ---- reduce-scatter */

/* Decides where each chunk is held until it leaves; the rank's own stays behind all others. */
static void place_held(struct part *part)
{
    const struct butterfly *shape = part->shape;
    for (uint32_t k = 1; k < shape->rounds; k++) {
        struct butterfly_round round = peal_butterfly_round(shape, part->self, k);
        list_gift(part, k, part->self, round.give, round.count);
        for (uint32_t i = 0; i < round.count; i++)
            part->held[part->keys[i]] = slots_before(shape, 1, k) + i;
    }
    part->held[key_of(part, part->self)] = slots_before(shape, 1, shape->rounds);
}

static void give(struct part *part, uint32_t k, const struct butterfly_round *round)
{
    uint32_t to = part->shape->member[round->to];
    uint32_t into = slots_before(part->shape, 0, k);
    if (part->credits)
        peal_build_wait(part->b, to, part->sem0 + SEM_SLOT, SLOT_DEPTH);
    list_gift(part, k, part->self, round->give, round->count);
    for (uint32_t i = 0, span; i < round->count; i += span) {
        span = run_length(part, i, round->count);
        uint32_t chunk = begin_span(part, i, span);
        struct plan_operand src =
            k == 0 ? user(part, part->self, PLAN_BUF_IN, chunk)
                   : slot(part, part->self, part->held_region, part->held[part->keys[i]]);
        peal_build_push(part->b, chunk, src, slot(part, round->to, part->in_region, into + i),
                        part->sem0 + SEM_DATA);
    }
}

/* As run_length, and held in slots side by side. */
static uint32_t fold_length(const struct part *part, uint32_t i, uint32_t count)
{
    uint32_t most = run_length(part, i, count), span = 1;
    while (span < most &&
           part->held[part->keys[i + span]] == part->held[part->keys[i + span - 1]] + 1)
        span++;
    return span;
}

/* Folds what has come in with what is held: in the first round the input, in the last one into
 * the output, where the rank has one. */
static void fold(struct part *part, uint32_t k, const struct butterfly_round *round)
{
    uint32_t from = slots_before(part->shape, 0, k);
    int last = k + 1 == part->shape->rounds;
    for (uint32_t i = 0, span; i < round->count; i += span) {
        span = fold_length(part, i, round->count);
        uint32_t chunk = begin_span(part, i, span);
        struct plan_operand held =
            slot(part, part->self, part->held_region, part->held[part->keys[i]]);
        struct plan_operand out = user(part, part->self, PLAN_BUF_OUT, chunk);
        struct plan_operand src[2] = {k == 0 ? user(part, part->self, PLAN_BUF_IN, chunk) : held,
                                      slot(part, part->self, part->in_region, from + i)};
        peal_build_move(part->b, chunk, 2, src, 1, last && part->has_out ? &out : &held,
                        PEAL_ENGINE_SM, last);
    }
}

static void hold(const struct part *part, uint32_t place)
{
    uint32_t key = key_of(part, place), chunk = chunk_of(part, key);
    struct plan_operand in = user(part, part->self, PLAN_BUF_IN, chunk);
    struct plan_operand held = slot(part, part->self, part->held_region, part->held[key]);
    peal_build_move(part->b, chunk, 1, &in, 1, &held, PEAL_ENGINE_SM, 0);
}

/* What nothing comes in for in the first round: with an odd n one chunk. */
static void hold_others(const struct part *part, const struct butterfly_round *round)
{
    const struct butterfly *shape = part->shape;
    if (round->count == shape->reach[1])
        return;
    if (!shape->leaves) {
        hold(part, (part->self + round->count) % shape->n);
        return;
    }
    for (uint32_t place = 0; place < shape->n; place++)
        if (!peal_butterfly_gives(shape, part->self, 0, place) &&
            !peal_butterfly_gives(shape, round->to, 0, place))
            hold(part, place);
}

static void wait_runs(struct part *part, uint32_t from, uint32_t sem, uint32_t count)
{
    for (uint32_t runs = count_runs(part, count); runs > 0; runs--)
        peal_build_wait(part->b, part->shape->member[from], part->sem0 + sem, 0);
}

static void reduce_scatter(struct part *part)
{
    place_held(part);
    for (uint32_t k = 0; k < part->shape->rounds; k++) {
        struct butterfly_round round = peal_butterfly_round(part->shape, part->self, k);
        give(part, k, &round);
        if (k == 0)
            hold_others(part, &round);
        list_gift(part, k, round.from, round.keep, round.count);
        wait_runs(part, round.from, SEM_DATA, round.count);
        fold(part, k, &round);
        if (part->credits)
            peal_build_signal(part->b, part->shape->member[round.from], part->sem0 + SEM_SLOT);
    }
}

/* ---- allgather: the rounds backwards, each hand-over the other way */

static void allgather(struct part *part)
{
    for (uint32_t k = part->shape->rounds; k-- > 0;) {
        struct butterfly_round round = peal_butterfly_round(part->shape, part->self, k);
        list_gift(part, k, round.from, round.keep, round.count);
        for (uint32_t i = 0, span; i < round.count; i += span) {
            span = run_length(part, i, round.count);
            uint32_t chunk = begin_span(part, i, span);
            peal_build_push(part->b, chunk, user(part, part->self, PLAN_BUF_OUT, chunk),
                            user(part, round.from, PLAN_BUF_OUT, chunk), part->sem0 + SEM_WHOLE);
        }
        list_gift(part, k, part->self, round.give, round.count);
        wait_runs(part, round.to, SEM_WHOLE, round.count);
    }
}

/* Before the body where no reduce-scatter tells: this rank's output may be written. */
static void enter(struct part *part)
{
    for (uint32_t k = part->shape->rounds; k-- > 0;) {
        struct butterfly_round round = peal_butterfly_round(part->shape, part->self, k);
        peal_build_signal(part->b, part->shape->member[round.to], part->sem0 + SEM_DATA);
    }
    for (uint32_t k = part->shape->rounds; k-- > 0;) {
        struct butterfly_round round = peal_butterfly_round(part->shape, part->self, k);
        peal_build_wait(part->b, part->shape->member[round.from], part->sem0 + SEM_DATA, 0);
    }
}

static void copy_own(struct part *part)
{
    uint32_t chunk = chunk_of(part, key_of(part, part->self));
    struct plan_operand in = user(part, part->self, PLAN_BUF_IN, chunk);
    struct plan_operand out = user(part, part->self, PLAN_BUF_OUT, chunk);
    peal_build_move(part->b, chunk, 1, &in, 1, &out, PEAL_ENGINE_SM, 0);
}

/* ---- with a root */

static void give_whole(struct part *part, const struct butterfly_round *round)
{
    uint8_t buffer = part->self == part->root ? PLAN_BUF_IN : PLAN_BUF_OUT;
    list_range(part, round->give, round->count);
    for (uint32_t i = 0, span; i < round->count; i += span) {
        span = run_length(part, i, round->count);
        uint32_t chunk = begin_span(part, i, span);
        peal_build_push(part->b, chunk, user(part, part->self, buffer, chunk),
                        user(part, round->to, PLAN_BUF_OUT, chunk), part->sem0 + SEM_WHOLE);
    }
}

static void scatter(struct part *part)
{
    const struct butterfly *shape = part->shape;
    struct butterfly_branch branch = peal_butterfly_branch(shape, part->root, part->self);
    struct butterfly_round round;
    if (branch.from != NO_RANK) {
        list_range(part, branch.first, branch.count);
        wait_runs(part, branch.from, SEM_WHOLE, branch.count);
    }
    for (uint32_t k = branch.next; k < shape->rounds; k++)
        if (peal_butterfly_hand_on(shape, part->root, part->self, k, &branch, &round))
            give_whole(part, &round);
}

/* Every rank's complete block straight to the root. */
static void gather(struct part *part)
{
    uint32_t key = key_of(part, part->self), chunk = chunk_of(part, key);
    uint32_t root = part->shape->member[part->root];
    if (part->self != part->root)
        peal_build_push(part->b, chunk, slot(part, part->self, part->held_region, part->held[key]),
                        peal_op_user(root, PLAN_BUF_OUT, chunk), part->sem0 + SEM_WHOLE);
    for (uint32_t i = 1; part->self == part->root && i < part->shape->n; i++)
        peal_build_wait(part->b, part->shape->member[(part->root + i) % part->shape->n],
                        part->sem0 + SEM_WHOLE, 0);
}

/* ---- the lane */

/* Whether a rank's complete chunks come back to it, which tells that slots have been read. */
static int is_answered(peal_collective collective)
{
    return collective != PEAL_REDUCE_SCATTER && collective != PEAL_REDUCE;
}

static int reduces(peal_collective collective)
{
    return collective != PEAL_ALLGATHER && collective != PEAL_BROADCAST;
}

void peal_butterfly_prepare(struct build *b, const struct candidate *candidate, uint32_t held)
{
    uint32_t n = b->plan->nranks;
    uint32_t depth = b->plan->tile_bytes ? SLOT_DEPTH : 1;
    b->plan->nchunks = candidate->chunks;
    b->plan->nsems = (uint16_t)(SEMS * candidate->channels);
    if (!reduces(b->plan->collective))
        return;
    for (uint32_t c = 0; c < candidate->channels; c++) {
        peal_build_region(b, PLAN_BUF_SCRATCH, n - 1, depth, peal_build_slot_bytes(b));
        peal_build_region(b, PLAN_BUF_SCRATCH, held, depth, peal_build_slot_bytes(b));
    }
}

static void emit_sections(struct part *part)
{
    peal_collective collective = part->b->plan->collective;
    if (!reduces(collective))
        enter(part);
    peal_build_section(part->b, 1);
    if (reduces(collective))
        reduce_scatter(part);
    if (collective == PEAL_BROADCAST)
        scatter(part);
    if (collective == PEAL_ALLGATHER || (collective == PEAL_BROADCAST && part->self == part->root))
        copy_own(part);
    if (is_answered(collective))
        allgather(part);
    if (collective == PEAL_REDUCE)
        gather(part);
    peal_build_drain(part->b);
}

void peal_butterfly_lane(struct build *b, const struct butterfly *shape, uint32_t channel,
                         uint32_t channels)
{
    peal_ctx *ctx = b->plan->ctx;
    struct part part = {.b = b,
                        .shape = shape,
                        .self = shape->place[b->self],
                        .channel = channel,
                        .channels = channels,
                        .in_region = 2 * channel,
                        .held_region = 2 * channel + 1,
                        .sem0 = SEMS * channel,
                        .root = shape->place[b->plan->root],
                        .blocks = peal_plan_blocks(b->plan) > 1};
    part.has_out = b->plan->collective != PEAL_REDUCE || part.self == part.root;
    part.credits = b->plan->tile_bytes && !is_answered(b->plan->collective);
    part.keys = peal_calloc(ctx, 2 * (size_t)shape->n, sizeof *part.keys);
    part.mark = peal_calloc(ctx, shape->n, sizeof *part.mark);
    part.held = part.keys ? part.keys + shape->n : NULL;
    peal_build_lane(b);
    if (part.keys && part.mark)
        emit_sections(&part);
    else
        b->status = PEAL_ERR_MEMORY;
    peal_free(ctx, part.keys, 2 * (size_t)shape->n * sizeof *part.keys);
    peal_free(ctx, part.mark, shape->n * sizeof *part.mark);
}

/* ---- for its cost */

peal_status peal_butterfly_messages(const struct butterfly *shape, int blocks,
                                    uint32_t messages[BUTTERFLY_ROUNDS_MAX])
{
    struct part part = {.shape = shape, .channels = 1, .blocks = blocks};
    part.keys = peal_calloc(shape->ctx, shape->n, sizeof *part.keys);
    part.mark = peal_calloc(shape->ctx, shape->n, sizeof *part.mark);
    peal_status status = part.keys && part.mark ? PEAL_OK : PEAL_ERR_MEMORY;
    for (uint32_t k = 0; status == PEAL_OK && k < shape->rounds; k++) {
        struct butterfly_round round = peal_butterfly_round(shape, shape->n - 1, k);
        list_gift(&part, k, round.from, round.keep, round.count);
        messages[k] = count_runs(&part, round.count);
    }
    peal_free(shape->ctx, part.keys, shape->n * sizeof *part.keys);
    peal_free(shape->ctx, part.mark, shape->n * sizeof *part.mark);
    return status;
}
