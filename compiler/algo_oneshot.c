/* SPDX-License-Identifier: Apache-2.0 */
/* One-shot: every rank stores what another needs of its input, as packets, into a slot of that
 * rank, which unpacks or folds what it received. One start-up: for the smallest messages among
 * ranks that reach each other by load and store. Of an allreduce (N - 1) S go in and out of every
 * rank, of reduce-scatter, allgather and alltoall (N - 1) / N S, of a root's as much as it gives or
 * gets.
 *
 * A packet tells that its sender has entered; where none goes from a rank to another, a signal
 * does. Both are on their way at once, and whoever has heard all others leaves: so nobody is more
 * than one call ahead of anybody. Only a broadcast's root needs nothing of the others: on a host
 * the plan runs ahead, and the root returns when it has stored its packets, up to PLAN_AHEAD calls
 * before the others take them. */
#include "oneshot.h"

#include <stdio.h>

#define ONESHOT_BYTES_MAX (256u << 10)
#define PACKET_SCALE 0.5 /* half of each word is the stamp */
/* On a host each line also goes to another core twice as often, which is what takes time there:
 * 2 KiB in packets took 0.5 us, by flags around plain stores 0.35 (AMD EPYC). */
#define PACKET_SCALE_HOST 0.2
/* A message behind a flag is two lines that one core fetches from another, one after the other; a
 * packet is one: 8 bytes took 0.30 us, and 0.44 by doubling and by halving (the same). */
#define PACKET_ALPHA_HOST 0.7
/* Where nobody waits, what is stored is stored as it is, stays in caches, and is on its way while
 * the next call is made: 16 KiB took 1.3 us by two ranks, and loads out of the root's buffer 2.4.
 * At 32 KiB, of which a ring is no more in a core's second cache, both took 2.7. What a lane takes
 * is between what two ranks took and eight, which shared two cores. */
#define PACKET_SCALE_AHEAD 2.0
#define LANE_SHARES_AHEAD 1.25
#define AHEAD_BYTES_MAX (16u << 10)

static int runs_ahead(const struct planner *planner)
{
    return planner->request.collective == PEAL_BROADCAST && !planner->group.accelerators;
}

/* Slots of a region: one for each rank that may fill one. */
static uint32_t width_of(const struct planner *planner)
{
    return peal_from_root(planner->request.collective) ? 1 : planner->group.n;
}

/* What a byte takes more than one that is stored as it is. To all that a root stores to it need not
 * come before the next call: what a rank waits for is its own packet. */
static double packet_scale(const struct planner *planner)
{
    if (runs_ahead(planner))
        return PACKET_SCALE_AHEAD * (planner->group.n - 1);
    return planner->group.accelerators ? PACKET_SCALE : PACKET_SCALE_HOST;
}

/* All packets at once, and a signal to whom none goes. Gives how many the busiest rank stores, and
 * how many the busiest gets. */
static void load_packets(struct planner *planner, struct stage *stage, struct oneshot_load *seen)
{
    uint32_t n = planner->group.n;
    *seen = (struct oneshot_load){.most_out = 0};
    for (uint32_t r = 0; r < n; r++) {
        uint64_t peers = peal_peers(planner, r, 0);
        uint32_t stored = peal_peers_count(peers),
                 got = peal_peers_count(peal_peers(planner, r, 1));
        seen->most_out = stored > seen->most_out ? stored : seen->most_out;
        seen->most_in = got > seen->most_in ? got : seen->most_in;
        for (uint32_t to = 0; to < n; to++) {
            struct hop hop;
            if (to == r || (runs_ahead(planner) && !(peers >> to & 1)))
                continue;
            peal_planner_hop(planner, r, to, &hop);
            /* what a packet carries needs no flag behind it */
            if (hop.path.alpha_us > stage->alpha_us)
                stage->alpha_us = hop.path.alpha_us;
            if (hop.path.gap_us > stage->gap_us)
                stage->gap_us = hop.path.gap_us;
            if (!(peers >> to & 1))
                continue;
            peal_planner_load(planner, &hop, peal_peers_share(planner), packet_scale(planner));
            double link_us =
                peal_peers_share(planner) * peal_load_alone(&hop.path, packet_scale(planner));
            seen->link_us = link_us > seen->link_us ? link_us : seen->link_us;
        }
    }
    seen->alpha_us = stage->alpha_us;
    seen->gap_us = stage->gap_us;
}

/* What the busiest lane stores before anything has come, and moves behind it, of the message:
 * packets have double size out and in, but where calls run ahead; of an allreduce the own input
 * counts twice, the output once.
 * A lane turns to what has come when its own packets are out; who has none to send, while packets
 * come in. */
static void lane_shares(const struct planner *planner, uint32_t most_out, uint32_t most_in,
                        double *before, double *behind)
{
    double n = planner->group.n, share = peal_peers_share(planner);
    switch (planner->request.collective) {
    case PEAL_ALLREDUCE:
        *behind = n;
        *before = 2 * (n - 1) + 1.5 - *behind;
        break;
    case PEAL_REDUCE:
        *behind = n;
        *before = 2;
        break;
    case PEAL_BROADCAST:
    case PEAL_SCATTER:
        *behind = 0;
        *before = (runs_ahead(planner) ? LANE_SHARES_AHEAD : 2.0 * most_out + 1) * share;
        break;
    case PEAL_GATHER:
        *behind = (1.5 * n - 0.5) * share;
        *before = 2 * share;
        break;
    case PEAL_SENDRECV:
        *behind = 1.5 * most_in;
        *before = 2.0 * most_out;
        break;
    case PEAL_BARRIER:
        *behind = *before = 0;
        break;
    default:
        *behind = (1.5 * n - 0.5) * share;
        *before = 2 * (n - 1) * share + 1 - *behind;
        break;
    }
}

static peal_status cost_channels(struct planner *planner, uint32_t channels)
{
    const struct group *group = &planner->group;
    int barrier = planner->request.collective == PEAL_BARRIER;
    struct candidate candidate = {.algo = ALGO_ONESHOT,
                                  .order = ORDER_FOLD,
                                  .channels = channels,
                                  .max_bytes = barrier               ? UINT64_MAX
                                               : runs_ahead(planner) ? AHEAD_BYTES_MAX
                                                                     : ONESHOT_BYTES_MAX,
                                  .chunks = channels * peal_peers_blocks(planner),
                                  .lanes = channels,
                                  /* half are stamps */
                                  .slots = barrier ? 0
                                                   : 2ull * (runs_ahead(planner) ? PLAN_AHEAD : 2) *
                                                         width_of(planner) * channels,
                                  .hop_share = peal_peers_share(planner) / channels};
    struct stage stage = {.levels = 1, .chain = 1};
    struct oneshot_load seen;
    double before, behind;
    load_packets(planner, &stage, &seen);
    stage.gap_us *= planner->group.n - 2.0;
    stage.alpha_us *= group->accelerators ? 1 : PACKET_ALPHA_HOST;
    lane_shares(planner, seen.most_out, seen.most_in, &before, &behind);
    peal_candidate_stage(planner, &candidate, &stage, before / channels);
    peal_stage_then(planner, &candidate.stage[0], behind / channels);
    if (group->accelerators)
        peal_oneshot_courses(planner, &candidate, &seen);
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    uint32_t asked = planner->request.channels;
    int copied = planner->corner == CORNER_COPY; /* copy engines make no packets */
    if (group->n < 2 || group->n > PEERS_MAX || group->nhosts > 1 || !group->direct_hosts ||
        (copied && !peal_plan_collective(planner->request.collective)->reduces) ||
        !peal_peers_once(planner))
        return PEAL_OK;
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 && (!group->accelerators || planner->request.collective == PEAL_BARRIER))
            break;
        PEAL_TRY(cost_channels(planner, channels));
    }
    return PEAL_OK;
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    peal_collective collective = b->plan->collective;
    int signals = peal_from_root(collective) || peal_to_root(collective) ||
                  collective == PEAL_SENDRECV || collective == PEAL_BARRIER;
    b->plan->ahead = runs_ahead(b->planner);
    b->plan->nsems = (uint16_t)(signals && !b->plan->ahead ? candidate->channels : 0);
    b->plan->nchunks = candidate->chunks;
    for (uint32_t c = 0; candidate->slots && c < candidate->channels; c++)
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
    return peal_op_slot(rank, PLAN_BUF_PACKET, o->channel,
                        peal_from_root(o->b->plan->collective) ? 0 : from);
}

static void move(const struct oneshot *o, uint32_t chunk, struct plan_operand src,
                 struct plan_operand dst)
{
    peal_build_move(o->b, chunk, 1, &src, 1, &dst, PEAL_ENGINE_SM, 0);
}

static void send_to_all(const struct oneshot *o, uint32_t chunk)
{
    struct plan_operand dst[PEERS_MAX], in = peal_op_user(o->self, PLAN_BUF_IN, chunk);
    for (uint32_t i = 1; i < o->n; i++)
        dst[i - 1] = slot_of(o, (o->self + i) % o->n, o->self);
    peal_build_move(o->b, chunk, 1, &in, o->n - 1, dst, PEAL_ENGINE_SM, 0);
}

/* In each channel, which is proven by itself; behind the packets, which are waited for first. */
static void tell_others(const struct oneshot *o)
{
    if (!o->b->plan->nsems)
        return;
    uint64_t peers = peal_peers(o->b->planner, o->self, 0);
    for (uint32_t i = 1; i < o->n; i++) {
        uint32_t to = (o->self + i) % o->n;
        if (!(peers >> to & 1))
            peal_build_signal(o->b, to, o->channel);
    }
}

/* All ranks fold in rank order: the same bits everywhere. */
static void fold(const struct oneshot *o, uint32_t chunk)
{
    struct plan_operand src[PEERS_MAX], out = peal_op_user(o->self, PLAN_BUF_OUT, chunk);
    for (uint32_t i = 0; i < o->n; i++)
        src[i] = i == o->self ? peal_op_user(o->self, PLAN_BUF_IN, chunk) : slot_of(o, o->self, i);
    peal_build_move(o->b, chunk, o->n, src, 1, &out, PEAL_ENGINE_SM, 1);
}

static void allreduce(const struct oneshot *o)
{
    send_to_all(o, chunk_of(o, 0));
    fold(o, chunk_of(o, 0));
}

/* Channels begin with different ranks, so that all links of a mesh are at work. */
static uint32_t round_of(const struct oneshot *o, uint32_t i)
{
    return i ? 1 + (i - 1 + o->channel) % (o->n - 1) : 0;
}

/* Block `first` + j goes to rank j. */
static void send_blocks(const struct oneshot *o, uint32_t first)
{
    for (uint32_t i = 1; i < o->n; i++) {
        uint32_t to = (o->self + round_of(o, i)) % o->n, chunk = chunk_of(o, first + to);
        move(o, chunk, peal_op_user(o->self, PLAN_BUF_IN, chunk), slot_of(o, to, o->self));
    }
}

static void reduce_scatter(const struct oneshot *o)
{
    send_blocks(o, 0);
    fold(o, chunk_of(o, o->self));
}

/* From rank i comes block i * stride + offset; in the order in which those come that are sent one
 * after the other. */
static void take_blocks(const struct oneshot *o, uint32_t stride, uint32_t offset)
{
    for (uint32_t i = 0; i < o->n; i++) {
        uint32_t from = (o->self + o->n - round_of(o, i)) % o->n,
                 chunk = chunk_of(o, from * stride + offset);
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

static void broadcast(const struct oneshot *o)
{
    uint32_t root = o->b->plan->root, chunk = chunk_of(o, 0);
    struct plan_operand out = peal_op_user(o->self, PLAN_BUF_OUT, chunk);
    if (o->self == root)
        send_to_all(o, chunk);
    tell_others(o);
    move(o, chunk,
         o->self == root ? peal_op_user(root, PLAN_BUF_IN, chunk) : slot_of(o, o->self, root), out);
}

static void reduce(const struct oneshot *o)
{
    uint32_t root = o->b->plan->root, chunk = chunk_of(o, 0);
    if (o->self != root)
        move(o, chunk, peal_op_user(o->self, PLAN_BUF_IN, chunk), slot_of(o, root, o->self));
    tell_others(o);
    if (o->self == root)
        fold(o, chunk);
}

static void scatter(const struct oneshot *o)
{
    uint32_t root = o->b->plan->root, own = chunk_of(o, o->self);
    if (o->self == root)
        send_blocks(o, 0);
    tell_others(o);
    move(o, own, o->self == root ? peal_op_user(root, PLAN_BUF_IN, own) : slot_of(o, o->self, root),
         peal_op_user(o->self, PLAN_BUF_OUT, own));
}

static void gather(const struct oneshot *o)
{
    uint32_t root = o->b->plan->root, own = chunk_of(o, o->self);
    if (o->self != root)
        move(o, own, peal_op_user(o->self, PLAN_BUF_IN, own), slot_of(o, root, o->self));
    tell_others(o);
    if (o->self == root)
        take_blocks(o, 1, 0);
}

/* The own blocks from the first-th to the one before the end-th; returns how many there are. */
static uint32_t send_listed(const struct oneshot *o, uint32_t first, uint32_t end)
{
    uint32_t from, to, count = 0;
    for (uint32_t i = 0; peal_planner_pair(o->b->planner, i, &from, &to); i++) {
        uint32_t chunk = chunk_of(o, i);
        if (from != o->self)
            continue;
        if (count >= first && count < end)
            move(o, chunk, peal_op_user(from, PLAN_BUF_IN, chunk),
                 from == to ? peal_op_user(to, PLAN_BUF_OUT, chunk) : slot_of(o, to, from));
        count++;
    }
    return count;
}

static void sendrecv(const struct oneshot *o)
{
    const struct planner *planner = o->b->planner;
    uint32_t from, to, own = send_listed(o, 0, 0), first = own ? o->channel % own : 0;
    (void)send_listed(o, first, UINT32_MAX);
    (void)send_listed(o, 0, first);
    tell_others(o);
    for (uint32_t i = 0; peal_planner_pair(planner, i, &from, &to); i++)
        if (to == o->self && from != to) {
            uint32_t chunk = chunk_of(o, i);
            move(o, chunk, slot_of(o, to, from), peal_op_user(to, PLAN_BUF_OUT, chunk));
        }
}

static void hear_others(const struct oneshot *o)
{
    uint64_t peers = peal_peers(o->b->planner, o->self, 1);
    for (uint32_t i = 1; i < o->n; i++) {
        uint32_t from = (o->self + i) % o->n;
        if (!(peers >> from & 1))
            peal_build_wait(o->b, from, o->channel, 0);
    }
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    static void (*const program[PEAL_COLLECTIVE_COUNT])(const struct oneshot *) = {
        [PEAL_ALLREDUCE] = allreduce, [PEAL_REDUCE_SCATTER] = reduce_scatter,
        [PEAL_ALLGATHER] = allgather, [PEAL_ALLTOALL] = alltoall,
        [PEAL_BROADCAST] = broadcast, [PEAL_REDUCE] = reduce,
        [PEAL_SCATTER] = scatter,     [PEAL_GATHER] = gather,
        [PEAL_SENDRECV] = sendrecv,   [PEAL_BARRIER] = tell_others,
    };
    struct oneshot o = {b, b->plan->nranks, rank, candidate->channels, 0};
    for (; o.channel < o.channels; o.channel++) {
        peal_build_lane(b);
        peal_build_section(b, 1);
        program[b->plan->collective](&o);
        if (b->plan->nsems)
            hear_others(&o);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    if (candidate->slots)
        snprintf(text, size, "packets to every rank, %u lane%s", candidate->channels,
                 candidate->channels == 1 ? "" : "s");
    else
        snprintf(text, size, "a signal to every rank");
}

const struct algo peal_algo_oneshot = {
    "oneshot",
    1u << PEAL_ALLREDUCE | 1u << PEAL_REDUCE_SCATTER | 1u << PEAL_ALLGATHER | 1u << PEAL_BROADCAST |
        1u << PEAL_REDUCE | 1u << PEAL_SCATTER | 1u << PEAL_GATHER | 1u << PEAL_ALLTOALL |
        1u << PEAL_SENDRECV | 1u << PEAL_BARRIER,
    enumerate,
    prepare,
    emit,
    detail};
