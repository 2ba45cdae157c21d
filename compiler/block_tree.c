/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scatter and gather along the binomial tree of any root and any number of ranks: about log2 N
 * start-ups, and every edge carries the blocks of a whole subtree as one message. Counted from the
 * root, rank v has children v + 1, v + 2, v + 4 ... below its lowest bit, and the subtree of v is
 * the ranks from v on; what passes through a rank lies in slots, its own block first.
 */
#include "compiler.h"

enum { SEM_ENTER, SEM_DATA, SEM_LEAVE, SEM_COUNT };

struct tree_blocks {
    struct build *b;
    uint32_t n, root;
    uint32_t v;    /* this rank, counted from the root */
    uint32_t size; /* of its subtree */
    uint32_t channels, channel;
};

static uint32_t lowest_bit(uint32_t x)
{
    return x & (~x + 1);
}

static uint32_t subtree(uint32_t n, uint32_t v)
{
    uint32_t most = v ? lowest_bit(v) : n;
    return most < n - v ? most : n - v;
}

/* The largest power of two below n: the distance of the root's last child. */
static uint32_t top_of(uint32_t n)
{
    uint32_t top = 1;
    while (top * 2 < n)
        top *= 2;
    return top;
}

/* Slots of the rank, other than the root, that holds most; 1: leaves alone, which need none. */
static uint32_t widest(uint32_t n)
{
    uint32_t top = top_of(n), last = subtree(n, top);
    return top / 2 > last ? top / 2 : last;
}

static uint32_t rank_of(const struct tree_blocks *t, uint32_t v)
{
    return (v + t->root) % t->n;
}

static uint32_t parent_of(const struct tree_blocks *t)
{
    return rank_of(t, t->v - lowest_bit(t->v));
}

static uint32_t chunk_of(const struct tree_blocks *t, uint32_t v)
{
    return rank_of(t, v) * t->channels + t->channel;
}

static uint32_t sem(const struct tree_blocks *t, uint32_t which)
{
    return SEM_COUNT * t->channel + which;
}

/* Distance of the farthest child, 0: none. Children are those of its halves too. */
static uint32_t farthest(const struct tree_blocks *t)
{
    return t->size > 1 ? top_of(t->size) : 0;
}

/* Moves the blocks of v ... v + count - 1 to rank `to`; more than one message where they run over
 * the last rank. Slots: of v, NO_RANK where the blocks lie in the caller's buffer instead. */
static void send(const struct tree_blocks *t, uint32_t v, uint32_t count, uint32_t from_slot,
                 uint32_t to, uint32_t to_slot)
{
    for (uint32_t done = 0; done < count;) {
        uint32_t chunk = chunk_of(t, v + done), room = t->n - rank_of(t, v + done);
        uint32_t here = count - done < room ? count - done : room;
        peal_build_span(t->b, here, t->channels);
        peal_build_push(
            t->b, chunk,
            from_slot == NO_RANK
                ? peal_op_user(t->b->self, PLAN_BUF_IN, chunk)
                : peal_op_slot(t->b->self, PLAN_BUF_SCRATCH, t->channel, from_slot + done),
            to_slot == NO_RANK ? peal_op_user(to, PLAN_BUF_OUT, chunk)
                               : peal_op_slot(to, PLAN_BUF_SCRATCH, t->channel, to_slot + done),
            sem(t, SEM_DATA));
        done += here;
    }
}

static void hear(const struct tree_blocks *t, uint32_t v, uint32_t count, uint32_t from)
{
    peal_build_wait(t->b, from, sem(t, SEM_DATA), 0);
    if (rank_of(t, v) + count > t->n)
        peal_build_wait(t->b, from, sem(t, SEM_DATA), 0);
}

/* The own block: from `in`, or slot 0, to `out`, or slot 0. */
static void keep(const struct tree_blocks *t, int from_slot, int to_slot)
{
    uint32_t chunk = chunk_of(t, t->v);
    struct plan_operand slot = peal_op_slot(t->b->self, PLAN_BUF_SCRATCH, t->channel, 0);
    struct plan_operand src = from_slot ? slot : peal_op_user(t->b->self, PLAN_BUF_IN, chunk);
    struct plan_operand dst = to_slot ? slot : peal_op_user(t->b->self, PLAN_BUF_OUT, chunk);
    peal_build_move(t->b, chunk, 1, &src, 1, &dst, PEAL_ENGINE_SM, 0);
}

/* The root begins when it has heard of all; a leaf's block goes straight into its output. */
static void scatter(const struct tree_blocks *t)
{
    uint32_t far = farthest(t);
    for (uint32_t k = 1; k <= far; k *= 2)
        peal_build_wait(t->b, rank_of(t, t->v + k), sem(t, SEM_ENTER), 0);
    if (t->v)
        peal_build_signal(t->b, parent_of(t), sem(t, SEM_ENTER));
    peal_build_section(t->b, 1);
    if (t->v)
        hear(t, t->v, t->size, parent_of(t));
    for (uint32_t k = far; k; k /= 2) {
        uint32_t size = subtree(t->n, t->v + k);
        send(t, t->v + k, size, t->v ? k : NO_RANK, rank_of(t, t->v + k), size > 1 ? 0 : NO_RANK);
    }
    if (t->size > 1)
        keep(t, t->v != 0, 0);
}

/* The root's children write into its output once it has entered; it lets all go when it has heard
 * of all. */
static void gather(const struct tree_blocks *t)
{
    uint32_t far = farthest(t), up = t->v ? t->v - lowest_bit(t->v) : 0;
    for (uint32_t k = 1; !t->v && k <= far; k *= 2)
        peal_build_signal(t->b, rank_of(t, k), sem(t, SEM_ENTER));
    if (t->v && !up)
        peal_build_wait(t->b, parent_of(t), sem(t, SEM_ENTER), 0);
    peal_build_section(t->b, 1);
    if (t->size > 1)
        keep(t, 0, t->v != 0);
    for (uint32_t k = 1; k <= far; k *= 2)
        hear(t, t->v + k, subtree(t->n, t->v + k), rank_of(t, t->v + k));
    if (t->v)
        send(t, t->v, t->size, t->size > 1 ? 0 : NO_RANK, parent_of(t), up ? t->v - up : NO_RANK);
    peal_build_section(t->b, 2);
    if (t->v)
        peal_build_wait(t->b, parent_of(t), sem(t, SEM_LEAVE), 0);
    for (uint32_t k = far; k; k /= 2)
        peal_build_signal(t->b, rank_of(t, t->v + k), sem(t, SEM_LEAVE));
}

void peal_block_tree_emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    uint32_t n = b->plan->nranks;
    struct tree_blocks t = {.b = b,
                            .n = n,
                            .root = b->plan->root,
                            .v = (rank + n - b->plan->root) % n,
                            .channels = candidate->channels};
    t.size = subtree(n, t.v);
    for (; t.channel < t.channels; t.channel++) {
        peal_build_lane(b);
        if (b->plan->collective == PEAL_SCATTER)
            scatter(&t);
        else
            gather(&t);
        peal_build_drain(b);
    }
}

void peal_block_tree_prepare(struct build *b, const struct candidate *candidate)
{
    uint32_t width = widest(b->plan->nranks);
    b->plan->nsems = (uint16_t)(SEM_COUNT * candidate->channels);
    for (uint32_t c = 0; width > 1 && c < candidate->channels; c++)
        peal_build_region(b, PLAN_BUF_SCRATCH, width, 1, peal_build_slot_bytes(b));
}

/* ---- cost ------------------------------------------------------------------------- */

static uint32_t depth_of(uint32_t v)
{
    uint32_t depth = 0;
    for (; v; v -= lowest_bit(v))
        depth++;
    return depth;
}

/* 1: whoever has its blocks hands all children theirs at once, since other engines send. */
static int at_once(const struct planner *planner)
{
    uint32_t n = planner->group.n, root = planner->request.root;
    if (planner->request.collective != PEAL_SCATTER)
        return 0;
    for (uint32_t v = 1; v < n; v++) {
        struct hop hop;
        peal_planner_hop(planner, (v - lowest_bit(v) + root) % n, (v + root) % n, &hop);
        if (!peal_plan_engine_async(hop.engine))
            return 0;
    }
    return 1;
}

/* The edges of one stage: to children at distance k, or, at once, to those at a depth. */
static peal_status cost_level(struct planner *planner, struct candidate *candidate,
                              struct traffic *all, uint32_t at, int depths)
{
    uint32_t n = planner->group.n, root = planner->request.root;
    int down = planner->request.collective == PEAL_SCATTER;
    struct stage stage = {.levels = 1, .chain = 1};
    struct traffic traffic;
    double most = 0;
    PEAL_TRY(peal_traffic_init(&traffic, planner));
    for (uint32_t v = 1; v < n; v++) {
        if ((depths ? depth_of(v) : lowest_bit(v)) != at)
            continue;
        uint32_t parent = (v - lowest_bit(v) + root) % n, child = (v + root) % n;
        uint32_t size = subtree(n, v), messages = child + size > n ? 2 : 1;
        uint32_t from = down ? parent : child, to = down ? child : parent;
        double share = (double)size / n;
        struct hop hop;
        peal_planner_hop(planner, from, to, &hop);
        peal_stage_hop(&stage, &hop);
        peal_planner_load(planner, &hop, share, hop.scale);
        peal_traffic_add(&traffic, from, &hop, messages, share / messages);
        peal_traffic_add(all, from, &hop, messages, share / messages);
        most = share > most ? share : most;
    }
    peal_traffic_stage(&traffic, candidate->channels, &stage);
    if (depths) /* the largest message leaves first, and goes deepest */
        stage.gap_us = 0;
    peal_candidate_stage(planner, candidate, &stage, most / candidate->channels);
    peal_traffic_free(&traffic);
    return PEAL_OK;
}

static peal_status cost_levels(struct planner *planner, struct candidate *candidate)
{
    struct traffic all;
    peal_status status = peal_traffic_init(&all, planner);
    int depths = at_once(planner);
    for (uint32_t k = 1; status == PEAL_OK && k < planner->group.n; k *= 2)
        status = cost_level(planner, candidate, &all, depths ? candidate->nstages + 1 : k, depths);
    peal_traffic_net(&all, candidate);
    peal_traffic_free(&all);
    return status;
}

/* All are heard of before, or let go behind. In a gather the root's children also wait for its
 * entry, unless what they collect takes longer. */
static double shake_us(const struct planner *planner, const struct candidate *candidate)
{
    double way = 0, latest = 0;
    for (uint32_t i = 0; i < candidate->nstages; i++) {
        double alpha = candidate->stage[i].alpha_us;
        double there = (alpha > way ? alpha : way) + alpha;
        latest = there > latest ? there : latest;
        way += alpha;
    }
    int waits = planner->request.collective == PEAL_GATHER && latest > way;
    return waits ? latest : way;
}

peal_status peal_block_tree_enumerate(struct planner *planner, uint32_t channels)
{
    uint32_t n = planner->group.n;
    struct candidate candidate = {.algo = ALGO_TREE,
                                  .channels = channels,
                                  .chunks = n * channels,
                                  .lanes = channels,
                                  .max_bytes = UINT64_MAX,
                                  .hop_share = (double)top_of(n) / 2 / n / channels};
    if ((uint64_t)n * channels > PLAN_CHUNKS_MAX)
        return PEAL_OK;
    if (widest(n) > 1)
        candidate.slots = 2ull * widest(n) * channels;
    struct stage shake = {.levels = 1, .chain = 1};
    PEAL_TRY(cost_levels(planner, &candidate));
    shake.alpha_us = shake_us(planner, &candidate);
    /* Who hands blocks on itself copies its own when that is done. */
    int keeps = planner->request.collective == PEAL_SCATTER && !at_once(planner);
    peal_candidate_stage(planner, &candidate, &shake, keeps ? 1.0 / n / channels : 0);
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}
