/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct schedules: every rank moves what another needs straight into that rank's output, all at
 * once, after they have told each other that they have entered. One hop for each byte and two or
 * three start-ups. Reductions fold straight out of the inputs that loads reach, and out of slots
 * that the others pushed into.
 *
 * Each channel is a lane with its share of every block.
 */
#include "compiler.h"

#include <stdio.h>

#define DIRECT_RANKS_MAX 64u

enum { SEM_ENTER, SEM_DATA, SEM_LEAVE, SEM_COUNT };

struct direct {
    struct build *b;
    uint32_t n;
    uint32_t self;
    uint32_t root;
    uint32_t channels;
    uint32_t channel;
    peal_collective collective;
};

/* ---- steps ------------------------------------------------------------------------ */

static uint32_t chunk_of(const struct direct *d, uint32_t block)
{
    return block * d->channels + d->channel;
}

static uint32_t sem(const struct direct *d, uint32_t which)
{
    return SEM_COUNT * d->channel + which;
}

/* The other ranks, each rank's neighbour first: nobody is everybody's first. */
static uint32_t other(const struct direct *d, uint32_t i)
{
    return (d->self + i) % d->n;
}

static void tell_all(const struct direct *d, uint32_t which)
{
    for (uint32_t i = 1; i < d->n; i++)
        peal_build_signal(d->b, other(d, i), sem(d, which));
}

static void hear_all(const struct direct *d, uint32_t which)
{
    for (uint32_t i = 1; i < d->n; i++)
        peal_build_wait(d->b, other(d, i), sem(d, which), 0);
}

/* All ranks tell the root that they have entered; the root waits for all of them. */
static void enter_root(const struct direct *d)
{
    if (d->self == d->root)
        hear_all(d, SEM_ENTER);
    else
        peal_build_signal(d->b, d->root, sem(d, SEM_ENTER));
}

/* Moves one chunk of the own input to several outputs, and tells their owners. Stores come first:
 * in place one of them writes the chunk onto itself, which no transfer may then be reading. */
static void spread(const struct direct *d, uint32_t chunk, uint32_t count, const uint32_t *ranks)
{
    struct plan_operand src = peal_op_user(d->self, PLAN_BUF_IN, chunk);
    struct plan_operand stored[DIRECT_RANKS_MAX], pushed[DIRECT_RANKS_MAX];
    uint32_t stores = 0, pushes = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct plan_operand dst = peal_op_user(ranks[i], PLAN_BUF_OUT, chunk);
        struct hop hop = {.engine = PEAL_ENGINE_SM};
        if (ranks[i] != d->self)
            peal_planner_hop(d->b->planner, d->self, ranks[i], &hop);
        if (hop.engine == PEAL_ENGINE_SM)
            stored[stores++] = dst;
        else
            pushed[pushes++] = dst;
    }
    if (stores)
        peal_build_move(d->b, chunk, 1, &src, stores, stored, PEAL_ENGINE_SM, 0);
    for (uint32_t i = 0; i < stores; i++)
        if (stored[i].rank != d->self)
            peal_build_signal(d->b, stored[i].rank, sem(d, SEM_DATA));
    for (uint32_t i = 0; i < pushes; i++)
        peal_build_push(d->b, chunk, src, pushed[i], sem(d, SEM_DATA));
}

static void spread_to(const struct direct *d, uint32_t chunk, uint32_t rank)
{
    spread(d, chunk, 1, &rank);
}

/* The slot of the folding rank in which `from` leaves its contribution. */
static uint32_t slot_of(uint32_t from, uint32_t folder)
{
    return from - (from > folder ? 1 : 0);
}

/* Pushes the own contribution to a rank that loads do not reach. */
static void contribute(const struct direct *d, uint32_t chunk, uint32_t folder)
{
    if (folder == d->self || peal_build_direct(d->b, folder))
        return;
    peal_build_push(d->b, chunk, peal_op_user(d->self, PLAN_BUF_IN, chunk),
                    peal_op_slot(folder, PLAN_BUF_SCRATCH, d->channel, slot_of(d->self, folder)),
                    sem(d, SEM_DATA));
}

/* Folds all contributions to a chunk into the own output. */
static void fold(const struct direct *d, uint32_t chunk)
{
    struct plan_operand src[DIRECT_RANKS_MAX];
    struct plan_operand out = peal_op_user(d->self, PLAN_BUF_OUT, chunk);
    for (uint32_t r = 0; r < d->n; r++) {
        int direct = peal_build_direct(d->b, r);
        if (!direct)
            peal_build_wait(d->b, r, sem(d, SEM_DATA), 0);
        src[r] = direct ? peal_op_user(r, PLAN_BUF_IN, chunk)
                        : peal_op_slot(d->self, PLAN_BUF_SCRATCH, d->channel, slot_of(r, d->self));
    }
    peal_build_move(d->b, chunk, d->n, src, 1, &out, PEAL_ENGINE_SM, 1);
}

/* ---- collectives --------------------------------------------------------------------- */

static void allgather(const struct direct *d)
{
    uint32_t ranks[DIRECT_RANKS_MAX];
    for (uint32_t i = 0; i < d->n; i++)
        ranks[i] = other(d, i);
    tell_all(d, SEM_ENTER);
    hear_all(d, SEM_ENTER);
    peal_build_section(d->b, 1);
    spread(d, chunk_of(d, d->self), d->n, ranks);
    hear_all(d, SEM_DATA);
}

/* Who says that it has entered says what it will send, too; once, on the first channel. */
static void enter_all(const struct direct *d)
{
    int counts = d->collective == PEAL_ALLTOALLV && d->channel == 0;
    for (uint32_t i = 1; i < d->n && counts; i++)
        peal_build_tell(d->b, other(d, i), sem(d, SEM_ENTER));
    for (uint32_t i = 1; i < d->n && counts; i++)
        peal_build_learn(d->b, other(d, i), sem(d, SEM_ENTER));
    if (counts)
        return;
    tell_all(d, SEM_ENTER);
    hear_all(d, SEM_ENTER);
}

static void alltoall(const struct direct *d)
{
    enter_all(d);
    peal_build_section(d->b, 1);
    for (uint32_t i = 0; i < d->n; i++)
        spread_to(d, chunk_of(d, d->self * d->n + other(d, i)), other(d, i));
    hear_all(d, SEM_DATA);
}

static void reduce_scatter(const struct direct *d)
{
    tell_all(d, SEM_ENTER);
    hear_all(d, SEM_ENTER);
    peal_build_section(d->b, 1);
    for (uint32_t i = 1; i < d->n; i++)
        contribute(d, chunk_of(d, other(d, i)), other(d, i));
    fold(d, chunk_of(d, d->self));
    peal_build_section(d->b, 2);
    tell_all(d, SEM_LEAVE);
    hear_all(d, SEM_LEAVE);
}

static void broadcast(const struct direct *d)
{
    uint32_t ranks[DIRECT_RANKS_MAX];
    for (uint32_t i = 0; i < d->n; i++)
        ranks[i] = other(d, i);
    enter_root(d);
    peal_build_section(d->b, 1);
    if (d->self == d->root)
        spread(d, chunk_of(d, 0), d->n, ranks);
    else
        peal_build_wait(d->b, d->root, sem(d, SEM_DATA), 0);
}

static void reduce(const struct direct *d)
{
    enter_root(d);
    peal_build_section(d->b, 1);
    if (d->self == d->root)
        fold(d, chunk_of(d, 0));
    else
        contribute(d, chunk_of(d, 0), d->root);
    peal_build_section(d->b, 2);
    /* The root has read the inputs, and has heard that all have entered. */
    if (d->self == d->root)
        tell_all(d, SEM_LEAVE);
    else
        peal_build_wait(d->b, d->root, sem(d, SEM_LEAVE), 0);
}

static void scatter(const struct direct *d)
{
    enter_root(d);
    peal_build_section(d->b, 1);
    for (uint32_t i = 0; d->self == d->root && i < d->n; i++)
        spread_to(d, chunk_of(d, other(d, i)), other(d, i));
    if (d->self != d->root)
        peal_build_wait(d->b, d->root, sem(d, SEM_DATA), 0);
}

static void gather(const struct direct *d)
{
    enter_root(d);
    if (d->self == d->root)
        tell_all(d, SEM_LEAVE);
    else
        peal_build_wait(d->b, d->root, sem(d, SEM_LEAVE), 0);
    peal_build_section(d->b, 1);
    spread_to(d, chunk_of(d, d->self), d->root);
    if (d->self == d->root)
        hear_all(d, SEM_DATA);
}

/* Dissemination (Hensgen, Finkel, Manber 1988): after round k a rank has heard of 2^(k+1). */
static void barrier(const struct direct *d)
{
    for (uint32_t far = 1; far < d->n; far *= 2) {
        peal_build_signal(d->b, (d->self + far) % d->n, sem(d, SEM_ENTER));
        peal_build_wait(d->b, (d->self + d->n - far) % d->n, sem(d, SEM_ENTER), 0);
    }
}

/* One block between two ranks: the receiver's entry comes first, the data behind it. */
static void send_one(const struct direct *d, uint32_t peer)
{
    if (d->self == peer)
        peal_build_signal(d->b, d->root, sem(d, SEM_ENTER));
    else
        peal_build_wait(d->b, peer, sem(d, SEM_ENTER), 0);
    peal_build_section(d->b, 1);
    if (d->self == d->root)
        spread_to(d, chunk_of(d, 0), peer);
    else
        peal_build_wait(d->b, d->root, sem(d, SEM_DATA), 0);
}

/* Calls are numbered, and one that somebody could leave before everybody is in it would let him
 * into the call after next, whose scratch a rank may still be using: those who neither send nor
 * receive take part in the barrier. */
static void sendrecv(const struct direct *d)
{
    const struct planner *planner = d->b->planner;
    uint32_t from, to;
    if (d->n == 2 && !planner->npairs) {
        send_one(d, 1 - d->root);
        return;
    }
    barrier(d);
    peal_build_section(d->b, 1);
    for (uint32_t i = 0; peal_planner_pair(planner, i, &from, &to); i++)
        if (from == d->self)
            spread_to(d, chunk_of(d, i), to);
    for (uint32_t i = 0; peal_planner_pair(planner, i, &from, &to); i++)
        if (to == d->self && from != to)
            peal_build_wait(d->b, from, sem(d, SEM_DATA), 0);
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    static void (*const program[PEAL_COLLECTIVE_COUNT])(const struct direct *) = {
        [PEAL_REDUCE_SCATTER] = reduce_scatter,
        [PEAL_ALLGATHER] = allgather,
        [PEAL_BROADCAST] = broadcast,
        [PEAL_REDUCE] = reduce,
        [PEAL_SCATTER] = scatter,
        [PEAL_GATHER] = gather,
        [PEAL_ALLTOALL] = alltoall,
        [PEAL_SENDRECV] = sendrecv,
        [PEAL_BARRIER] = barrier,
        [PEAL_ALLTOALLV] = alltoall,
    };
    struct direct d = {.b = b,
                       .n = b->plan->nranks,
                       .self = rank,
                       .root = b->plan->root,
                       .channels = candidate->channels,
                       .collective = b->plan->collective};
    for (; d.channel < d.channels; d.channel++) {
        peal_build_lane(b);
        program[d.collective](&d);
        peal_build_drain(b);
    }
}

static int folds(peal_collective collective)
{
    return collective == PEAL_REDUCE_SCATTER || collective == PEAL_REDUCE;
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    b->plan->nsems = (uint16_t)(SEM_COUNT * candidate->channels);
    for (uint32_t c = 0; candidate->slots && c < candidate->channels; c++)
        peal_build_region(b, PLAN_BUF_SCRATCH, b->plan->nranks - 1, 1, peal_build_slot_bytes(b));
}

/* ---- cost -------------------------------------------------------------------------------- */

/* The share of the message that goes from one rank to another. */
static double share_between(const struct planner *planner, uint32_t from, uint32_t to)
{
    double n = planner->group.n;
    uint32_t root = planner->request.root;
    switch (planner->request.collective) {
    case PEAL_BROADCAST:
        return from == root ? 1 : 0;
    case PEAL_SENDRECV:
        return 1; /* of what one pair exchanges */
    case PEAL_REDUCE:
        return to == root ? 1 : 0;
    case PEAL_SCATTER:
        return from == root ? 1 / n : 0;
    case PEAL_GATHER:
        return to == root ? 1 / n : 0;
    case PEAL_ALLTOALL:
    case PEAL_ALLTOALLV: /* of full blocks */
        return 1 / n;    /* the message is one rank's N blocks */
    case PEAL_BARRIER:
        return 0;
    default:
        return 1 / n;
    }
}

/* A barrier's rounds, of which the farthest hop counts. */
static void note_rounds(const struct planner *planner, struct stage *stage)
{
    for (uint32_t far = 1; far < planner->group.n; far *= 2)
        for (uint32_t r = 0; r < planner->group.n; r++) {
            struct hop hop;
            peal_planner_hop(planner, r, (r + far) % planner->group.n, &hop);
            peal_stage_hop(stage, &hop);
        }
}

static void load_pairs(struct planner *planner, struct stage *data, double *lane_share)
{
    uint32_t n = planner->group.n;
    *lane_share = 0;
    for (uint32_t r = 0; r < n; r++) {
        double sum = 0;
        for (uint32_t to = 0; to < n; to++) {
            struct hop hop;
            if (to == r)
                continue;
            double share = share_between(planner, r, to);
            sum += share;
            peal_planner_hop(planner, r, to, &hop);
            peal_stage_hop(data, &hop);
            if (share > 0)
                peal_planner_load(planner, &hop, share, hop.scale);
        }
        *lane_share = sum > *lane_share ? sum : *lane_share;
    }
}

/* Each pair's block, all at once. Gives the most blocks that one rank sends. */
static uint32_t load_sends(struct planner *planner, uint32_t *sent, struct stage *data)
{
    uint32_t most = 0, from, to;
    for (uint32_t i = 0; peal_planner_pair(planner, i, &from, &to); i++) {
        struct hop hop;
        sent[from]++;
        most = sent[from] > most ? sent[from] : most;
        if (from == to)
            continue;
        peal_planner_hop(planner, from, to, &hop);
        peal_stage_hop(data, &hop);
        peal_planner_load(planner, &hop, 1, hop.scale);
    }
    return most;
}

static uint32_t barrier_rounds(uint32_t ranks)
{
    uint32_t rounds = 0;
    while (1u << rounds < ranks)
        rounds++;
    return rounds;
}

static peal_status cost_sends(struct planner *planner, uint32_t channels)
{
    uint32_t n = planner->group.n;
    struct candidate candidate = {.algo = ALGO_DIRECT,
                                  .channels = channels,
                                  .max_bytes = UINT64_MAX,
                                  .chunks = channels,
                                  .lanes = channels,
                                  .hop_share = 1.0 / channels};
    struct stage data = {.levels = 1, .chain = 1};
    struct stage shake = {.levels = barrier_rounds(n), .chain = 1};
    uint32_t *sent = peal_calloc(planner->ctx, n, sizeof *sent);
    if (!sent)
        return PEAL_ERR_MEMORY;
    uint32_t most = load_sends(planner, sent, &data);
    peal_free(planner->ctx, sent, n * sizeof *sent);
    note_rounds(planner, &shake);
    shake.gap_us = 0;
    data.gap_us *= most * channels - 1.0;
    if (planner->npairs)
        candidate.chunks *= planner->npairs;
    peal_candidate_stage(planner, &candidate, &data, (double)most / channels);
    peal_candidate_stage(planner, &candidate, &shake, 0);
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

/* Start-ups besides the one of the data. */
static uint32_t handshakes(const struct planner *planner)
{
    switch (planner->request.collective) {
    case PEAL_REDUCE_SCATTER:
    case PEAL_REDUCE:
    case PEAL_GATHER:
        return 2;
    case PEAL_BARRIER:
        return barrier_rounds(planner->group.n) - 1;
    default:
        return 1;
    }
}

static peal_status cost_channels(struct planner *planner, uint32_t channels)
{
    const struct group *group = &planner->group;
    peal_collective collective = planner->request.collective;
    uint32_t blocks = 1;
    if (collective == PEAL_SENDRECV)
        return cost_sends(planner, channels);
    for (uint32_t i = 0; i < peal_plan_collective(collective)->block_power; i++)
        blocks *= group->n;
    struct candidate candidate = {
        .algo = ALGO_DIRECT,
        .order = ORDER_FOLD,
        .channels = channels,
        .max_bytes = UINT64_MAX,
        .chunks = blocks * channels,
        .lanes = channels,
        .hop_share = share_between(planner, planner->request.root, planner->request.root ? 0 : 1) /
                     channels};
    if (folds(collective) && (!group->direct_hosts || group->nhosts > 1))
        candidate.slots = 2ull * (group->n - 1) * channels;
    struct stage data = {.levels = 1, .chain = 1};
    double lane_share = 0;
    if (collective == PEAL_BARRIER)
        note_rounds(planner, &data);
    else
        load_pairs(planner, &data, &lane_share);
    struct stage shake = {.levels = handshakes(planner), .chain = 1, .alpha_us = data.alpha_us};
    /* Messages to all follow each other; a round of a barrier has one. */
    if (collective == PEAL_BARRIER) {
        data.gap_us = 0;
    } else {
        shake.gap_us = data.gap_us * (group->n - 2.0);
        data.gap_us *= group->n * channels - 2.0;
    }
    peal_candidate_stage(planner, &candidate, &data, lane_share / channels);
    peal_candidate_stage(planner, &candidate, &shake, 0);
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    uint32_t asked = planner->request.channels;
    int any_size =
        planner->request.collective == PEAL_BARRIER || planner->request.collective == PEAL_SENDRECV;
    if (group->n < 2 || (group->n > DIRECT_RANKS_MAX && !any_size))
        return PEAL_OK;
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 && (!group->accelerators || planner->request.collective == PEAL_BARRIER))
            break;
        PEAL_TRY(cost_channels(planner, channels));
    }
    return PEAL_OK;
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "every rank to every rank that needs it, %u lane%s", candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_direct = {
    "direct",
    1u << PEAL_REDUCE_SCATTER | 1u << PEAL_ALLGATHER | 1u << PEAL_BROADCAST | 1u << PEAL_REDUCE |
        1u << PEAL_SCATTER | 1u << PEAL_GATHER | 1u << PEAL_ALLTOALL | 1u << PEAL_SENDRECV |
        1u << PEAL_BARRIER | 1u << PEAL_ALLTOALLV,
    enumerate,
    prepare,
    emit,
    detail};
