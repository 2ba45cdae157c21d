/* SPDX-License-Identifier: Apache-2.0 */
/* The unit of the root: from where a broadcast's shards go to the holders of the unit, and where a
 * reduce's come back, so that every holder's NIC carries its part. */
#include "level.h"

static int sits_at_root(const struct level_run *run)
{
    return run->b->self == run->b->plan->root;
}

/* Every holder of the unit but this rank, the next one first: its peer's number, or NO_RANK. */
static uint32_t other_holder(const struct level_run *run, uint32_t i)
{
    uint32_t peer = (run->peers.self + i) % run->peers.n;
    return run->peers.shard[peer] == NO_RANK ? NO_RANK : peer;
}

static void signal_holders(const struct level_run *run, uint32_t which)
{
    for (uint32_t i = 1; i < run->peers.n; i++) {
        uint32_t peer = other_holder(run, i);
        if (peer != NO_RANK)
            peal_build_signal(run->b, run->peers.rank[peer], peal_level_sem(run, 0, which));
    }
}

static void hear_holders(const struct level_run *run, uint32_t which)
{
    for (uint32_t i = 1; i < run->peers.n; i++) {
        uint32_t peer = other_holder(run, i);
        if (peer != NO_RANK)
            peal_build_wait(run->b, run->peers.rank[peer], peal_level_sem(run, 0, which), 0);
    }
}

/* ---- broadcast ------------------------------------------------------------------------ */

/* Piece q of every shard. Channels begin with different holders, since their lanes have one link
 * after the other. */
static void deal(const struct level_run *run, const struct level_phase *phase, uint32_t q)
{
    struct build *b = run->b;
    uint32_t others = run->peers.n - 1;
    if (run->shard != NO_RANK) {
        uint32_t chunk = peal_level_chunk(run, phase, q, run->peers.self);
        struct plan_operand in = peal_op_user(b->self, PLAN_BUF_IN, chunk);
        struct plan_operand out = peal_op_user(b->self, PLAN_BUF_OUT, chunk);
        peal_build_move(b, chunk, 1, &in, 1, &out, PEAL_ENGINE_SM, 0);
    }
    for (uint32_t i = 0; i < others; i++) {
        uint32_t nth = (i + run->channel * others / run->channels) % others;
        uint32_t peer = other_holder(run, 1 + nth);
        if (peer == NO_RANK)
            continue;
        uint32_t chunk = peal_level_chunk(run, phase, q, peer);
        peal_build_push(b, chunk, peal_op_user(b->self, PLAN_BUF_IN, chunk),
                        peal_op_user(run->peers.rank[peer], PLAN_BUF_OUT, chunk),
                        peal_level_sem(run, 0, LEVEL_SEM_FOLD));
    }
    if (run->deputy == NO_RANK)
        return;
    uint32_t chunk = peal_level_chunk(run, phase, q, run->peers.self);
    peal_build_push(b, chunk, peal_op_user(b->self, PLAN_BUF_IN, chunk),
                    peal_op_user(run->peers.rank[run->deputy], PLAN_BUF_OUT, chunk),
                    peal_level_sem(run, 0, LEVEL_SEM_FOLD));
}

/* What the root has dealt: the own shard, and behind it the root's, if this rank is its deputy. */
static void receive(const struct level_run *run, const struct level_phase *after)
{
    struct build *b = run->b;
    uint32_t sem = peal_level_sem(run, 0, LEVEL_SEM_FOLD);
    peal_build_wait(b, b->plan->root, sem, 0);
    peal_build_signal(b, b->self, peal_level_ready(run, after));
    if (run->deputy != run->peers.self)
        return;
    peal_build_wait(b, b->plan->root, sem, 0);
    peal_build_signal(b, b->self, peal_level_sem(run, 0, LEVEL_SELF_DEPUTY));
}

void peal_level_scatter(struct level_run *run, const struct level_phase *phase)
{
    struct build *b = run->b;
    const struct level_phase *after = peal_level_after(run, phase);
    int root = sits_at_root(run);
    peal_build_lane(b);
    if (after)
        peal_build_wait(b, b->self, peal_level_sem(run, 0, LEVEL_SELF_ENTER), 0);
    if (root)
        hear_holders(run, LEVEL_SEM_ROOT);
    else
        peal_build_signal(b, b->plan->root, peal_level_sem(run, 0, LEVEL_SEM_ROOT));
    peal_build_section(b, 1);
    for (uint32_t q = 0; q < run->layout->runs; q++) {
        if (root)
            deal(run, phase, q);
        else
            receive(run, after);
        if (root && after)
            peal_build_signal(b, b->self, peal_level_ready(run, after));
    }
    peal_build_drain(b);
}

/* ---- reduce ----------------------------------------------------------------------------- */

/* What the phase before has finished lies in a cell for each piece. */
static void bring(const struct level_run *run, const struct level_phase *phase,
                  const struct level_phase *before, uint32_t q)
{
    struct build *b = run->b;
    uint32_t chunk = peal_level_chunk(run, phase, q, run->peers.self);
    uint32_t region = peal_level_region(run, run->layout->cell[before->level]);
    peal_build_push(b, chunk, peal_op_slot(b->self, PLAN_BUF_SCRATCH, region, q),
                    peal_op_user(b->plan->root, PLAN_BUF_OUT, chunk),
                    peal_level_sem(run, 0, LEVEL_SEM_SPREAD));
    if (!b->plan->tile_bytes)
        return;
    peal_build_await_free(b);
    peal_build_signal(b, b->self, peal_level_sem(run, before->level, LEVEL_SELF_FREE));
}

void peal_level_gather(struct level_run *run, const struct level_phase *phase)
{
    struct build *b = run->b;
    const struct level_phase *before = peal_level_before(run, phase);
    int root = sits_at_root(run);
    peal_build_lane(b);
    peal_build_section(b, 1);
    for (uint32_t q = 0; q < run->layout->runs; q++) {
        if (before)
            peal_build_wait(b, b->self, peal_level_ready(run, phase), 0);
        if (root)
            hear_holders(run, LEVEL_SEM_SPREAD);
        else
            bring(run, phase, before, q);
    }
    peal_build_drain(b);
    if (root)
        signal_holders(run, LEVEL_SEM_ROOT);
    else
        peal_build_wait(b, b->plan->root, peal_level_sem(run, 0, LEVEL_SEM_ROOT), 0);
    if (before)
        peal_build_signal(b, b->self, peal_level_sem(run, before->level, LEVEL_SELF_LEAVE));
}
