/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pulls: once all have entered, every rank loads what it needs straight out of the others' buffers,
 * all at once, and nobody leaves before he has been read. Two hand-shakes, one hop for each byte,
 * no scratch: among ranks that reach each other by load and store. Loads leave the lines of a
 * buffer where they are, and a rank that has its buffers staged has them copied once for all its
 * readers.
 *
 * Of a broadcast between two ranks the root stores one half, so that both are at work.
 */
#include "compiler.h"

#include <stdio.h>

#define PULL_RANKS_MAX 64u

enum { SEM_ENTER, SEM_DATA, SEM_LEAVE, SEM_COUNT };

struct pull {
    struct build *b;
    uint32_t n;
    uint32_t self;
    uint32_t root;
};

/* ---- cost */

/* The share of the message that goes from one rank to another. */
static double share_between(const struct planner *planner)
{
    return planner->request.collective == PEAL_BROADCAST ? 1 : 1.0 / planner->group.n;
}

static int from_root(const struct planner *planner)
{
    return peal_plan_collective(planner->request.collective)->rooted;
}

/* What the busiest lane reads and writes, halved, as a share of the message: its part from the
 * others, and, of an allreduce, the fold before. */
static double lane_share(const struct planner *planner)
{
    double n = planner->group.n;
    switch (planner->request.collective) {
    case PEAL_ALLREDUCE:
        return (planner->group.accelerators ? 0 : (n + 1) / (2 * n)) + (n - 1) / n;
    case PEAL_SCATTER:
        return 1 / n;
    case PEAL_BROADCAST:
        return n == 2 ? 0.5 : 1;
    default:
        return (n - 1) / n;
    }
}

/* On a host what many read at once is in the cache that they share: it leaves the root's memory
 * once. */
static double load_share(const struct planner *planner)
{
    if (planner->request.collective == PEAL_ALLREDUCE && !planner->group.accelerators)
        return 2 * share_between(planner);
    if (planner->request.collective == PEAL_BROADCAST && !planner->group.accelerators)
        return share_between(planner) / (planner->group.n - 1);
    return share_between(planner);
}

static void load_pairs(struct planner *planner, struct stage *move, struct stage *shake)
{
    const struct group *group = &planner->group;
    for (uint32_t r = 0; r < group->n; r++)
        for (uint32_t to = 0; to < group->n; to++) {
            struct hop hop;
            if (to == r || (from_root(planner) && r != planner->request.root))
                continue;
            peal_planner_hop(planner, r, to, &hop);
            peal_planner_load(planner, &hop, load_share(planner), 1);
            move->alpha_us =
                hop.path.alpha_us > move->alpha_us ? hop.path.alpha_us : move->alpha_us;
            shake->gap_us = hop.gap_us > shake->gap_us ? hop.gap_us : shake->gap_us;
        }
    shake->alpha_us = move->alpha_us;
    shake->gap_us *= group->n - 2.0;
}

/* Of its own input a rank copies a block: before it loads others', or the root when all have read.
 */
static double copied_share(const struct planner *planner)
{
    switch (planner->request.collective) {
    case PEAL_ALLREDUCE:
    case PEAL_ALLTOALL:
        return 0;
    case PEAL_BROADCAST:
        return planner->group.n == 2 ? 0 : 1;
    default:
        return 1.0 / planner->group.n;
    }
}

/* What a rank waits for that loads from one after the other, a byte of each block. */
static double in_turn_us(const struct planner *planner)
{
    double most = 0, lane_us = 1 / (peal_planner_lane_gbs(planner) * 1e3);
    for (uint32_t to = 0; to < planner->group.n; to++) {
        double us = 0;
        for (uint32_t from = 0; from < planner->group.n; from++) {
            struct hop hop;
            if (from == to || (from_root(planner) && from != planner->request.root))
                continue;
            peal_planner_hop(planner, from, to, &hop);
            double link_us = peal_load_alone(&hop.path, 1);
            us += link_us > lane_us ? link_us : lane_us;
        }
        most = us > most ? us : most;
    }
    return most;
}

/* Loads over a link to another accelerator go there and back; each block is waited for. On a host
 * lines come one after the other, whatever block they are of. */
static void cost_accelerators(struct planner *planner, struct candidate *candidate)
{
    struct stage move = {.levels = 1, .chain = 1}, shake = {.levels = 1, .chain = 1};
    double n = planner->group.n, in_turn = share_between(planner) * in_turn_us(planner);
    int folds = planner->request.collective == PEAL_ALLREDUCE;
    if (folds) { /* all inputs at once */
        load_pairs(planner, &move, &shake);
        peal_candidate_stage(planner, candidate, &move, (n + 1) / (2 * n));
    }
    move = shake = (struct stage){.levels = 1, .chain = 1};
    load_pairs(planner, &move, &shake);
    move.alpha_us *= from_root(planner) ? 1 : n - 1;
    shake.levels = folds ? 3 : 2;
    if (from_root(planner))
        shake.gap_us /= 2; /* nobody waits for more than one when he leaves */
    peal_candidate_stage(planner, candidate, &move, in_turn > 0 ? lane_share(planner) : 0);
    struct stage *to = &candidate->stage[candidate->nstages - 1];
    if (in_turn > to->us_per_byte)
        to->us_per_byte = to->alone_us_per_byte = in_turn;
    peal_stage_then(planner, to, copied_share(planner));
    if (planner->request.collective == PEAL_ALLTOALL) { /* the own block meanwhile */
        struct stage enter = {.levels = 1, .chain = 1, .gap_us = shake.alpha_us + shake.gap_us};
        peal_candidate_stage(planner, candidate, &enter, share_between(planner));
        shake.levels--;
    }
    peal_candidate_stage(planner, candidate, &shake, 0);
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    peal_collective collective = planner->request.collective;
    int asked = planner->algorithm == ALGO_PULL;
    int halves = collective == PEAL_BROADCAST && group->n == 2;
    struct candidate candidate = {.algo = ALGO_PULL,
                                  .order = ORDER_FOLD,
                                  .channels = 1,
                                  .max_bytes = UINT64_MAX,
                                  .lanes = 1,
                                  .hop_share = share_between(planner)};
    struct stage move = {.levels = 1, .chain = 1}, shake = {.levels = 1, .chain = 1};
    if (group->n < 2 || group->n > PULL_RANKS_MAX || group->nhosts > 1 || !group->direct_hosts ||
        (group->accelerators && !asked) || planner->corner == CORNER_COPY ||
        planner->request.channels > 1)
        return PEAL_OK;
    candidate.chunks = halves ? 2 : 1;
    for (uint32_t i = 0; i < peal_plan_collective(collective)->block_power; i++)
        candidate.chunks *= group->n;
    if (collective == PEAL_ALLREDUCE)
        candidate.chunks = group->n;
    if (group->accelerators) {
        cost_accelerators(planner, &candidate);
    } else {
        load_pairs(planner, &move, &shake);
        shake.levels = collective == PEAL_ALLREDUCE ? 2 : 1;
        peal_candidate_stage(planner, &candidate, &move, lane_share(planner));
        peal_candidate_stage(planner, &candidate, &shake, 0);
    }
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

/* ---- steps */

static void tell_all(const struct pull *p, uint32_t sem)
{
    for (uint32_t i = 1; i < p->n; i++)
        peal_build_signal(p->b, (p->self + i) % p->n, sem);
}

static void hear_all(const struct pull *p, uint32_t sem)
{
    for (uint32_t i = 1; i < p->n; i++)
        peal_build_wait(p->b, (p->self + i) % p->n, sem, 0);
}

/* Into the own output. */
static void load(const struct pull *p, uint32_t chunk, uint32_t from, uint8_t buffer)
{
    struct plan_operand src = peal_op_user(from, buffer, chunk);
    struct plan_operand dst = peal_op_user(p->self, PLAN_BUF_OUT, chunk);
    peal_build_move(p->b, chunk, 1, &src, 1, &dst, PEAL_ENGINE_SM, 0);
}

static void enter(const struct pull *p)
{
    tell_all(p, SEM_ENTER);
    hear_all(p, SEM_ENTER);
    peal_build_section(p->b, 1);
}

static void leave(const struct pull *p)
{
    peal_build_section(p->b, 2);
    tell_all(p, SEM_LEAVE);
    hear_all(p, SEM_LEAVE);
}

/* ---- collectives */

/* In place the own block is what the others read: it is written before they may. */
static void allgather(const struct pull *p)
{
    peal_build_section(p->b, 1);
    load(p, p->self, p->self, PLAN_BUF_IN);
    tell_all(p, SEM_ENTER);
    hear_all(p, SEM_ENTER);
    for (uint32_t i = 1; i < p->n; i++)
        load(p, (p->self + i) % p->n, (p->self + i) % p->n, PLAN_BUF_IN);
    leave(p);
}

static void alltoall(const struct pull *p)
{
    peal_build_section(p->b, 1);
    tell_all(p, SEM_ENTER);
    load(p, p->self * p->n + p->self, p->self, PLAN_BUF_IN);
    hear_all(p, SEM_ENTER);
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t from = (p->self + i) % p->n;
        load(p, from * p->n + p->self, from, PLAN_BUF_IN);
    }
    leave(p);
}

static void allreduce(const struct pull *p)
{
    struct plan_operand src[PULL_RANKS_MAX];
    struct plan_operand out = peal_op_user(p->self, PLAN_BUF_OUT, p->self);
    for (uint32_t i = 0; i < p->n; i++)
        src[i] = peal_op_user(i, PLAN_BUF_IN, p->self);
    enter(p);
    peal_build_move(p->b, p->self, p->n, src, 1, &out, PEAL_ENGINE_SM, 1);
    tell_all(p, SEM_DATA);
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t from = (p->self + i) % p->n;
        peal_build_wait(p->b, from, SEM_DATA, 0);
        load(p, from, from, PLAN_BUF_OUT);
    }
    leave(p);
}

/* The root's own output comes last: in place it is what the others read. */
static void give(const struct pull *p)
{
    int scatters = p->b->plan->collective == PEAL_SCATTER;
    tell_all(p, SEM_ENTER);
    peal_build_section(p->b, 1);
    hear_all(p, SEM_LEAVE);
    load(p, scatters ? p->self : 0, p->self, PLAN_BUF_IN);
}

/* Readers tell each other that they have entered, which nobody waits for before he leaves. */
static void take(const struct pull *p)
{
    int scatters = p->b->plan->collective == PEAL_SCATTER;
    for (uint32_t i = 1; i < p->n; i++)
        if ((p->self + i) % p->n != p->root)
            peal_build_signal(p->b, (p->self + i) % p->n, SEM_ENTER);
    peal_build_wait(p->b, p->root, SEM_ENTER, 0);
    peal_build_section(p->b, 1);
    load(p, scatters ? p->self : 0, p->root, PLAN_BUF_IN);
    peal_build_signal(p->b, p->root, SEM_LEAVE);
    peal_build_section(p->b, 2);
    for (uint32_t i = 1; i < p->n; i++)
        if ((p->self + i) % p->n != p->root)
            peal_build_wait(p->b, (p->self + i) % p->n, SEM_ENTER, 0);
}

/* Two ranks: the root stores the first half, and copies the second once it is read. */
static void give_half(const struct pull *p)
{
    struct plan_operand src = peal_op_user(p->self, PLAN_BUF_IN, 0);
    struct plan_operand dst[2] = {peal_op_user(p->self, PLAN_BUF_OUT, 0),
                                  peal_op_user(1 - p->self, PLAN_BUF_OUT, 0)};
    enter(p);
    peal_build_move(p->b, 0, 1, &src, 2, dst, PEAL_ENGINE_SM, 0);
    peal_build_signal(p->b, 1 - p->self, SEM_DATA);
    peal_build_wait(p->b, 1 - p->self, SEM_DATA, 0);
    load(p, 1, p->self, PLAN_BUF_IN);
}

static void take_half(const struct pull *p)
{
    enter(p);
    load(p, 1, p->root, PLAN_BUF_IN);
    peal_build_signal(p->b, p->root, SEM_DATA);
    peal_build_wait(p->b, p->root, SEM_DATA, 0);
}

/* ---- */

static void prepare(struct build *b, const struct candidate *candidate)
{
    b->plan->nchunks = candidate->chunks;
    b->plan->nsems = SEM_COUNT;
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    struct pull p = {.b = b, .n = b->plan->nranks, .self = rank, .root = b->plan->root};
    int halves = b->plan->collective == PEAL_BROADCAST && candidate->chunks == 2;
    peal_build_lane(b);
    if (b->plan->collective == PEAL_ALLREDUCE)
        allreduce(&p);
    else if (b->plan->collective == PEAL_ALLGATHER)
        allgather(&p);
    else if (b->plan->collective == PEAL_ALLTOALL)
        alltoall(&p);
    else if (rank == p.root)
        (halves ? give_half : give)(&p);
    else
        (halves ? take_half : take)(&p);
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    (void)candidate;
    snprintf(text, size, "loads out of the others' buffers");
}

const struct algo peal_algo_pull = {"pull",
                                    1u << PEAL_ALLREDUCE | 1u << PEAL_ALLGATHER |
                                        1u << PEAL_ALLTOALL | 1u << PEAL_BROADCAST |
                                        1u << PEAL_SCATTER,
                                    enumerate,
                                    prepare,
                                    emit,
                                    detail};
