/* SPDX-License-Identifier: Apache-2.0 */
/* One-shot: every rank stores what another needs of its input, as packets, into a slot of that
 * rank, which unpacks or folds what it received. One start-up: for the smallest messages among
 * ranks that reach each other by load and store. Of an allreduce (N - 1) S go in and out of every
 * rank, of reduce-scatter, allgather and alltoall (N - 1) / N S.
 *
 * A broadcast's root needs nothing of the others. On a host the plan runs ahead: the root returns
 * when it has stored its packets, up to PLAN_AHEAD calls before the others take them. Among
 * accelerators it waits, as everybody, until all others have entered, which they do as soon as they
 * have what came before: there it is one call ahead of them. */
#include "compiler.h"

#include <stdio.h>

#define ONESHOT_BYTES_MAX (256u << 10)
#define ONESHOT_RANKS_MAX 64u
#define PACKET_SCALE 0.5 /* half of each word is the stamp */
/* On a host each line also goes to another core twice as often, which is what takes time there:
 * 2 KiB in packets took 0.5 us, by flags around plain stores 0.35 (AMD EPYC). */
#define PACKET_SCALE_HOST 0.2
/* A message behind a flag is two lines that one core fetches from another, one after the other; a
 * packet is one: 8 bytes took 0.30 us, and 0.44 by doubling and by halving (the same). */
#define PACKET_ALPHA_HOST 0.7
/* Where nobody waits, lines are on their way while the next call is made. A ring of more than this
 * would take more than half of a core's second cache. */
#define PACKET_SCALE_AHEAD 0.5
#define AHEAD_BYTES_MAX (8u << 10)

/* The share of the message that goes from one rank to another. */
static double share_between(const struct planner *planner)
{
    peal_collective collective = planner->request.collective;
    return collective == PEAL_ALLREDUCE || collective == PEAL_BROADCAST ? 1
                                                                        : 1.0 / planner->group.n;
}

static uint32_t blocks_of(peal_collective collective, uint32_t n)
{
    uint32_t blocks = 1;
    for (uint32_t i = 0; i < peal_plan_collective(collective)->block_power; i++)
        blocks *= n;
    return blocks;
}

static int runs_ahead(const struct planner *planner)
{
    return planner->request.collective == PEAL_BROADCAST && !planner->group.accelerators;
}

/* Slots of a region: one for each rank that fills one. */
static uint32_t width_of(const struct planner *planner)
{
    return runs_ahead(planner) ? 1 : planner->group.n;
}

/* What a byte takes more than one that is stored as it is. To all that a root stores to it need not
 * come before the next call: what a rank waits for is its own packet. */
static double packet_scale(const struct planner *planner)
{
    if (runs_ahead(planner))
        return PACKET_SCALE_AHEAD * (planner->group.n - 1);
    return planner->group.accelerators ? PACKET_SCALE : PACKET_SCALE_HOST;
}

static peal_status cost_channels(struct planner *planner, uint32_t channels)
{
    const struct group *group = &planner->group;
    double share = share_between(planner);
    int folds = planner->request.collective == PEAL_ALLREDUCE;
    int rooted = planner->request.collective == PEAL_BROADCAST;
    struct candidate candidate = {
        .algo = ALGO_ONESHOT,
        .order = ORDER_FOLD,
        .channels = channels,
        .max_bytes = runs_ahead(planner) ? AHEAD_BYTES_MAX : ONESHOT_BYTES_MAX,
        .chunks = channels * blocks_of(planner->request.collective, group->n),
        .lanes = channels,
        /* half are stamps */
        .slots = 2ull * (runs_ahead(planner) ? PLAN_AHEAD : 2) * width_of(planner) * channels,
        .hop_share = share / channels};
    struct stage stage = {.levels = 1, .chain = 1};
    for (uint32_t r = 0; r < group->n; r++)
        for (uint32_t to = 0; to < group->n; to++) {
            struct hop hop;
            if (to == r || (rooted && r != planner->request.root))
                continue;
            peal_planner_hop(planner, r, to, &hop);
            peal_planner_load(planner, &hop, share, packet_scale(planner));
            stage.alpha_us =
                hop.path.alpha_us > stage.alpha_us ? hop.path.alpha_us : stage.alpha_us;
            stage.gap_us = hop.path.gap_us > stage.gap_us ? hop.path.gap_us : stage.gap_us;
        }
    stage.gap_us *= group->n - 2.0;
    stage.alpha_us *= group->accelerators ? 1 : PACKET_ALPHA_HOST;
    /* Packets of double size out and in, of an allreduce the own input twice, the output once. A
     * lane turns to what has come when its own packets are out; who has none to send, while packets
     * come in. */
    uint32_t others = runs_ahead(planner) ? 1 : group->n - 1;
    double all = 2.0 * others * share + (folds ? 1.5 : 1);
    double taken = rooted ? 0 : folds ? group->n : (1.5 * group->n - 0.5) * share;
    peal_candidate_stage(planner, &candidate, &stage, (all - taken) / channels);
    peal_stage_then(planner, &candidate.stage[0], taken / channels);
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    uint32_t asked = planner->request.channels;
    int copied = planner->corner == CORNER_COPY; /* copy engines make no packets */
    if (group->n < 2 || group->n > ONESHOT_RANKS_MAX || group->nhosts > 1 || !group->direct_hosts ||
        (copied && !peal_plan_collective(planner->request.collective)->reduces))
        return PEAL_OK;
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 && !group->accelerators)
            break;
        PEAL_TRY(cost_channels(planner, channels));
    }
    return PEAL_OK;
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    int waits = b->plan->collective == PEAL_BROADCAST && !runs_ahead(b->planner);
    b->plan->ahead = runs_ahead(b->planner);
    b->plan->nsems = (uint16_t)(waits ? candidate->channels : 0);
    b->plan->nchunks = candidate->chunks;
    for (uint32_t c = 0; c < candidate->channels; c++)
        peal_build_region(b, PLAN_BUF_PACKET, width_of(b->planner), 1, peal_build_slot_bytes(b));
}

struct oneshot {
    struct build *b;
    uint32_t n;
    uint32_t self;
    uint32_t channels;
    uint32_t channel;
};

static uint32_t chunk_of(const struct oneshot *o, uint32_t block)
{
    return block * o->channels + o->channel;
}

static struct plan_operand slot_of(const struct oneshot *o, uint32_t rank, uint32_t from)
{
    return peal_op_slot(rank, PLAN_BUF_PACKET, o->channel, o->b->plan->ahead ? 0 : from);
}

static void move(const struct oneshot *o, uint32_t chunk, struct plan_operand src,
                 struct plan_operand dst)
{
    peal_build_move(o->b, chunk, 1, &src, 1, &dst, PEAL_ENGINE_SM, 0);
}

static void send_to_all(const struct oneshot *o, uint32_t chunk)
{
    struct plan_operand dst[ONESHOT_RANKS_MAX], in = peal_op_user(o->self, PLAN_BUF_IN, chunk);
    for (uint32_t i = 1; i < o->n; i++)
        dst[i - 1] = slot_of(o, (o->self + i) % o->n, o->self);
    peal_build_move(o->b, chunk, 1, &in, o->n - 1, dst, PEAL_ENGINE_SM, 0);
}

/* All ranks fold in rank order: the same bits everywhere. */
static void fold(const struct oneshot *o, uint32_t chunk)
{
    struct plan_operand src[ONESHOT_RANKS_MAX], out = peal_op_user(o->self, PLAN_BUF_OUT, chunk);
    for (uint32_t i = 0; i < o->n; i++)
        src[i] = i == o->self ? peal_op_user(o->self, PLAN_BUF_IN, chunk) : slot_of(o, o->self, i);
    peal_build_move(o->b, chunk, o->n, src, 1, &out, PEAL_ENGINE_SM, 1);
}

static void allreduce(const struct oneshot *o)
{
    send_to_all(o, chunk_of(o, 0));
    fold(o, chunk_of(o, 0));
}

/* Block `first` + j goes to rank j. */
static void send_blocks(const struct oneshot *o, uint32_t first)
{
    for (uint32_t i = 1; i < o->n; i++) {
        uint32_t to = (o->self + i) % o->n, chunk = chunk_of(o, first + to);
        move(o, chunk, peal_op_user(o->self, PLAN_BUF_IN, chunk), slot_of(o, to, o->self));
    }
}

static void reduce_scatter(const struct oneshot *o)
{
    send_blocks(o, 0);
    fold(o, chunk_of(o, o->self));
}

/* From rank i comes block i * stride + offset. */
static void take_blocks(const struct oneshot *o, uint32_t stride, uint32_t offset)
{
    for (uint32_t i = 0; i < o->n; i++) {
        uint32_t from = (o->self + i) % o->n, chunk = chunk_of(o, from * stride + offset);
        move(o, chunk, i ? slot_of(o, o->self, from) : peal_op_user(o->self, PLAN_BUF_IN, chunk),
             peal_op_user(o->self, PLAN_BUF_OUT, chunk));
    }
}

static void allgather(const struct oneshot *o)
{
    send_to_all(o, chunk_of(o, o->self));
    take_blocks(o, 1, 0);
}

static void alltoall(const struct oneshot *o)
{
    send_blocks(o, o->self * o->n);
    take_blocks(o, o->n, o->self);
}

static void tell_others(const struct oneshot *o)
{
    for (uint32_t i = 1; i < o->n; i++)
        peal_build_signal(o->b, (o->self + i) % o->n, o->channel);
}

static void hear_others(const struct oneshot *o, uint32_t but)
{
    peal_build_section(o->b, 2);
    for (uint32_t i = 1; i < o->n; i++)
        if ((o->self + i) % o->n != but)
            peal_build_wait(o->b, (o->self + i) % o->n, o->channel, 0);
}

/* That the root has entered its packet tells, that others have their signals; in each channel,
 * which is proven by itself. */
static void broadcast(const struct oneshot *o)
{
    uint32_t root = o->b->plan->root, chunk = chunk_of(o, 0);
    int waits = !o->b->plan->ahead;
    struct plan_operand out = peal_op_user(o->self, PLAN_BUF_OUT, chunk);
    if (waits && o->self != root)
        tell_others(o);
    peal_build_section(o->b, 1);
    if (o->self == root) {
        send_to_all(o, chunk);
        move(o, chunk, peal_op_user(root, PLAN_BUF_IN, chunk), out);
    } else {
        move(o, chunk, slot_of(o, o->self, root), out);
    }
    if (waits)
        hear_others(o, o->self == root ? o->self : root);
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    static void (*const program[PEAL_COLLECTIVE_COUNT])(const struct oneshot *) = {
        [PEAL_ALLREDUCE] = allreduce, [PEAL_REDUCE_SCATTER] = reduce_scatter,
        [PEAL_ALLGATHER] = allgather, [PEAL_ALLTOALL] = alltoall,
        [PEAL_BROADCAST] = broadcast,
    };
    struct oneshot o = {b, b->plan->nranks, rank, candidate->channels, 0};
    for (; o.channel < o.channels; o.channel++) {
        peal_build_lane(b);
        if (b->plan->collective != PEAL_BROADCAST)
            peal_build_section(b, 1);
        program[b->plan->collective](&o);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "packets to every rank, %u lane%s", candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_oneshot = {"oneshot",
                                       1u << PEAL_ALLREDUCE | 1u << PEAL_REDUCE_SCATTER |
                                           1u << PEAL_ALLGATHER | 1u << PEAL_ALLTOALL |
                                           1u << PEAL_BROADCAST,
                                       enumerate,
                                       prepare,
                                       emit,
                                       detail};
