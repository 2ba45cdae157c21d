/* SPDX-License-Identifier: Apache-2.0 */
/* One-shot allreduce: every rank stores its input, as packets, into a slot of each other rank and
 * folds what it received. One start-up, (N - 1) S in and out of every rank: for the smallest
 * messages among ranks that reach each other by load and store. */
#include "compiler.h"

#include <stdio.h>

#define ONESHOT_BYTES_MAX (256u << 10)
#define ONESHOT_RANKS_MAX 64u
#define PACKET_SCALE 0.5 /* half of each word is the stamp */

static peal_status cost_channels(struct planner *planner, uint32_t channels)
{
    const struct group *group = &planner->group;
    struct candidate candidate = {.algo = ALGO_ONESHOT,
                                  .order = ORDER_FOLD,
                                  .channels = channels,
                                  .max_bytes = ONESHOT_BYTES_MAX,
                                  .chunks = channels,
                                  .lanes = channels,
                                  .slots = 2ull * 2 * group->n * channels, /* half are stamps */
                                  .hop_share = 1.0 / channels};
    struct stage stage = {.levels = 1, .chain = 1};
    for (uint32_t r = 0; r < group->n; r++)
        for (uint32_t to = 0; to < group->n; to++) {
            struct hop hop;
            if (to == r)
                continue;
            peal_planner_hop(planner, r, to, &hop);
            peal_planner_load(planner, &hop, 1, PACKET_SCALE);
            stage.alpha_us =
                hop.path.alpha_us > stage.alpha_us ? hop.path.alpha_us : stage.alpha_us;
            stage.gap_us = hop.path.gap_us > stage.gap_us ? hop.path.gap_us : stage.gap_us;
        }
    stage.gap_us *= group->n - 2.0;
    /* Packets of double size out and in, the own input twice, the output once. */
    peal_candidate_stage(planner, &candidate, &stage, (2.0 * (group->n - 1) + 1.5) / channels);
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    uint32_t asked = planner->request.channels;
    if (group->n < 2 || group->n > ONESHOT_RANKS_MAX || group->nhosts > 1 || !group->direct_hosts)
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
    b->plan->nsems = 0;
    for (uint32_t c = 0; c < candidate->channels; c++)
        peal_build_region(b, PLAN_BUF_PACKET, b->plan->nranks, 1, peal_build_slot_bytes(b));
}

static void emit_channel(struct build *b, uint32_t rank, uint32_t c)
{
    uint32_t n = b->plan->nranks;
    struct plan_operand dst[ONESHOT_RANKS_MAX], src[ONESHOT_RANKS_MAX];
    struct plan_operand in = peal_op_user(rank, PLAN_BUF_IN, c);
    struct plan_operand out = peal_op_user(rank, PLAN_BUF_OUT, c);
    for (uint32_t i = 1; i < n; i++)
        dst[i - 1] = peal_op_slot((rank + i) % n, PLAN_BUF_PACKET, c, rank);
    /* All ranks fold in rank order: the same bits everywhere. */
    for (uint32_t i = 0; i < n; i++)
        src[i] = i == rank ? in : peal_op_slot(rank, PLAN_BUF_PACKET, c, i);
    peal_build_lane(b);
    peal_build_section(b, 1);
    peal_build_move(b, c, 1, &in, n - 1, dst, PEAL_ENGINE_SM, 0);
    peal_build_move(b, c, n, src, 1, &out, PEAL_ENGINE_SM, 1);
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    for (uint32_t c = 0; c < candidate->channels; c++)
        emit_channel(b, rank, c);
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "packets to every rank, %u lane%s", candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_oneshot = {"oneshot", 1u << PEAL_ALLREDUCE, enumerate, prepare, emit,
                                       detail};
