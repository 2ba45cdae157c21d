/* SPDX-License-Identifier: Apache-2.0 */
/* Two-shot allreduce: rank r folds chunk r straight out of every input and stores the result into
 * every output, between two hand-shakes. Three start-ups, 2 (N - 1) / N S in and out of every
 * rank, no scratch: among ranks that reach each other by load and store. */
#include "compiler.h"

#include <stdio.h>

#define TWOSHOT_RANKS_MAX 64u

static peal_status enumerate_channels(struct planner *planner, uint32_t channels)
{
    const struct group *group = &planner->group;
    double n = group->n;
    struct candidate candidate = {.algo = ALGO_TWOSHOT,
                                  .order = ORDER_FOLD,
                                  .channels = channels,
                                  .max_bytes = UINT64_MAX,
                                  .chunks = group->n * channels,
                                  .lanes = channels,
                                  .hop_share = 1 / n};
    /* Entering, the data, and leaving behind the data: what leaves last is the flag of the data.
     * Loads over a link to another accelerator go there and back first. */
    struct stage move = {.levels = 1, .chain = 1};
    struct stage shake = {.levels = group->accelerators ? 2 : 1, .chain = 1};
    for (uint32_t r = 0; r < group->n; r++)
        for (uint32_t to = 0; to < group->n; to++) {
            struct hop hop;
            if (to == r)
                continue;
            peal_planner_hop(planner, r, to, &hop);
            /* Read by `to` on the way in, written by r on the way out. */
            peal_planner_load(planner, &hop, 2 / n, 1);
            move.alpha_us = hop.path.alpha_us > move.alpha_us ? hop.path.alpha_us : move.alpha_us;
            shake.gap_us = hop.gap_us > shake.gap_us ? hop.gap_us : shake.gap_us;
        }
    shake.alpha_us = move.alpha_us;
    /* Each rank tells all others one by one, on the way in and on the way out. */
    shake.gap_us *= (n - 2) * 2 / shake.levels;
    /* A chunk of every input in, one of every output out. */
    peal_candidate_stage(planner, &candidate, &move, 1.0 / channels);
    peal_candidate_stage(planner, &candidate, &shake, 0);
    peal_candidate_total(planner, &candidate);
    return peal_planner_add(planner, &candidate);
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    if (group->n < 2 || group->n > TWOSHOT_RANKS_MAX || group->nhosts > 1 || !group->direct_hosts)
        return PEAL_OK;
    uint32_t asked = planner->request.channels;
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 && !group->accelerators)
            break;
        PEAL_TRY(enumerate_channels(planner, channels));
    }
    return PEAL_OK;
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    b->plan->nchunks = candidate->chunks;
    b->plan->nsems = (uint16_t)(2 * candidate->channels);
}

/* Tells every other rank, then hears from every other rank. */
static void shake_hands(struct build *b, uint32_t rank, uint32_t sem)
{
    uint32_t n = b->plan->nranks;
    for (uint32_t i = 1; i < n; i++)
        peal_build_signal(b, (rank + i) % n, sem);
    for (uint32_t i = 1; i < n; i++)
        peal_build_wait(b, (rank + i) % n, sem, 0);
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    uint32_t n = b->plan->nranks;
    struct plan_operand src[TWOSHOT_RANKS_MAX], dst[TWOSHOT_RANKS_MAX];
    for (uint32_t c = 0; c < candidate->channels; c++) {
        uint32_t chunk = c * n + rank;
        for (uint32_t i = 0; i < n; i++) {
            src[i] = peal_op_user(i, PLAN_BUF_IN, chunk);
            dst[i] = peal_op_user((rank + i) % n, PLAN_BUF_OUT, chunk);
        }
        peal_build_lane(b);
        shake_hands(b, rank, 2 * c);
        peal_build_section(b, 1);
        peal_build_move(b, chunk, n, src, n, dst, PEAL_ENGINE_SM, 1);
        peal_build_section(b, 2);
        shake_hands(b, rank, 2 * c + 1);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "direct loads and stores, %u lane%s", candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_twoshot = {"twoshot", 1u << PEAL_ALLREDUCE, enumerate, prepare, emit,
                                       detail};
