/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast and reduction by the switch (NVLink SHARP): what goes to all ranks leaves its rank
 * once, and what is folded from all arrives once. Of an allreduce S + S / N go in and out of every
 * rank, in the place of 2 (N - 1) / N S; rank r loads the sum of chunk r and stores it to all. In
 * which order a switch folds is its own: all ranks get the result of one fold, but the next call
 * may add up in another.
 */
#include "compiler.h"

#include <stdio.h>

#define NVLS_RANKS_MAX 128u /* 72 of a rack; sources and destinations are listed */

/* ---- cost ------------------------------------------------------------------------------------ */

/* Between a rank and its switch, up (0) or down (1), in the group or in a sibling. */
static void load_link(struct planner *planner, uint32_t rank, int down, double share)
{
    struct group *group = &planner->group;
    uint32_t other = rank ? 0 : 1;
    struct topo_path path;
    peal_group_path(group, down ? other : rank, down ? rank : other, &path);
    double us = share / (path.use[down].gbs * 1e3);
    planner->engines[path.link_class] |= 1u << PEAL_ENGINE_SM;
    peal_load_use(&planner->load, path.use[down].resource, us, us);
    for (uint32_t s = 0; s < group->nsiblings; s++) {
        peal_group_sibling_path(group, s, down ? other : rank, down ? rank : other, &path);
        peal_load_use(&planner->load, path.use[down].resource, share / (path.use[down].gbs * 1e3),
                      0);
    }
}

static int folds(const struct planner *planner)
{
    return peal_plan_collective(planner->request.collective)->reduces;
}

static int stores_to_all(peal_collective collective)
{
    return collective == PEAL_ALLREDUCE || collective == PEAL_ALLGATHER ||
           collective == PEAL_BROADCAST;
}

/* 1: the rank moves a part of the message, and the others of the group are members. */
static int moves(const struct planner *planner, uint32_t rank)
{
    return !peal_plan_collective(planner->request.collective)->rooted ||
           rank == planner->request.root;
}

/* Each rank that moves, for its share: what all send up and it gets, then the other way round. */
static void load_all(struct planner *planner, double share)
{
    for (uint32_t r = 0; r < planner->group.n; r++)
        for (uint32_t i = 0; moves(planner, r) && i < planner->group.n; i++) {
            if (folds(planner))
                load_link(planner, i, 0, share);
            if (stores_to_all(planner->request.collective))
                load_link(planner, i, 1, share);
            if (i != r)
                continue;
            if (folds(planner))
                load_link(planner, r, 1, share);
            if (stores_to_all(planner->request.collective))
                load_link(planner, r, 0, share);
        }
}

static peal_status enumerate_channels(struct planner *planner, uint32_t channels)
{
    const struct group *group = &planner->group;
    int rooted = peal_plan_collective(planner->request.collective)->rooted;
    double share = rooted ? 1 : 1.0 / group->n;
    struct candidate candidate = {.algo = ALGO_NVLS,
                                  .channels = channels,
                                  .max_bytes = UINT64_MAX,
                                  .chunks = rooted ? channels : group->n * channels,
                                  .lanes = channels,
                                  .hop_share = share};
    struct stage move = {.levels = 1, .chain = 1}, shake = {.levels = 2, .chain = 1};
    for (uint32_t r = 1; r < group->n; r++) {
        struct hop hop;
        peal_planner_hop(planner, 0, r, &hop);
        peal_stage_hop(&shake, &hop);
    }
    shake.gap_us *= (group->n - 2.0) / (rooted ? 2 : 1); /* to a root each rank tells one */
    move.alpha_us = folds(planner) ? shake.alpha_us : 0; /* loads go there and back */
    load_all(planner, share);
    peal_candidate_stage(planner, &candidate, &move, share / channels);
    peal_candidate_stage(planner, &candidate, &shake, 0);
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    uint32_t asked = planner->request.channels;
    if (!group->multicast || group->n < 2 || group->n > NVLS_RANKS_MAX ||
        planner->corner == CORNER_COPY ||
        (folds(planner) && (planner->request.deterministic || planner->request.repeatable)))
        return PEAL_OK;
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX;
         channels = asked ? UINT32_MAX : channels * 2)
        PEAL_TRY(enumerate_channels(planner, channels));
    return PEAL_OK;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void prepare(struct build *b, const struct candidate *candidate)
{
    b->plan->nchunks = candidate->chunks;
    b->plan->nsems = (uint16_t)(2 * candidate->channels);
}

/* Everybody tells everybody, or the root hears of all before it tells all. */
static void enter(struct build *b, uint32_t rank, uint32_t sem)
{
    uint32_t n = b->plan->nranks, root = b->plan->root;
    int rooted = peal_plan_collective(b->plan->collective)->rooted;
    for (uint32_t i = 1; i < n; i++)
        if (!rooted || (rank + i) % n == root)
            peal_build_signal(b, (rank + i) % n, sem);
    for (uint32_t i = 1; i < n; i++)
        if (!rooted || rank == root)
            peal_build_wait(b, (rank + i) % n, sem, 0);
}

static void leave(struct build *b, uint32_t rank, uint32_t sem)
{
    uint32_t n = b->plan->nranks, root = b->plan->root;
    int rooted = peal_plan_collective(b->plan->collective)->rooted;
    for (uint32_t i = 1; i < n; i++)
        if (!rooted || rank == root)
            peal_build_signal(b, (rank + i) % n, sem);
    for (uint32_t i = 1; i < n; i++)
        if (!rooted || (rank + i) % n == root)
            peal_build_wait(b, (rank + i) % n, sem, 0);
}

static void move_chunk(struct build *b, uint32_t rank, uint32_t chunk)
{
    struct plan_operand src[NVLS_RANKS_MAX], dst[NVLS_RANKS_MAX];
    uint32_t n = b->plan->nranks;
    int reduces = peal_plan_collective(b->plan->collective)->reduces;
    int all = stores_to_all(b->plan->collective);
    for (uint32_t i = 0; i < n; i++) {
        src[i] = peal_op_user(i, PLAN_BUF_IN, chunk);
        dst[i] = peal_op_user(i, PLAN_BUF_OUT, chunk);
    }
    peal_build_group(b, reduces ? PLAN_LOAD_REDUCE : PLAN_MULTICAST, chunk, reduces ? n : 1,
                     reduces ? src : &src[rank], all ? n : 1, all ? dst : &dst[rank], reduces);
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    peal_collective collective = b->plan->collective;
    for (uint32_t c = 0; c < candidate->channels; c++) {
        uint32_t own = peal_plan_collective(collective)->rooted ? c
                       : collective == PEAL_ALLREDUCE           ? c * b->plan->nranks + rank
                                                                : rank * candidate->channels + c;
        peal_build_lane(b);
        enter(b, rank, 2 * c);
        peal_build_section(b, 1);
        if (moves(b->planner, rank))
            move_chunk(b, rank, own);
        peal_build_section(b, 2);
        leave(b, rank, 2 * c + 1);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "multicast and folds by the switch, %u lane%s", candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_nvls = {"nvls",
                                    1u << PEAL_ALLREDUCE | 1u << PEAL_REDUCE_SCATTER |
                                        1u << PEAL_ALLGATHER | 1u << PEAL_BROADCAST |
                                        1u << PEAL_REDUCE,
                                    enumerate,
                                    prepare,
                                    emit,
                                    detail};
