/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When each rank may go on, start-ups alone: a rank turns to a round when it has sent what the
 * round before has for it and heard what that has for it (max-plus; LogGP's alpha and gap). Where
 * routes differ, the ranks with the slow ones of a round are not those of the next, and the longest
 * chain is shorter than the sum of each round's longest start-up.
 */
#include "arrivals.h"

peal_status peal_arrivals_init(struct arrivals *arrivals, peal_ctx *ctx, uint32_t n)
{
    *arrivals = (struct arrivals){.ctx = ctx, .n = n};
    arrivals->now = peal_calloc(ctx, 4 * (size_t)n, sizeof(double));
    if (!arrivals->now)
        return PEAL_ERR_MEMORY;
    arrivals->heard = arrivals->now + n;
    arrivals->lane = arrivals->heard + n;
    arrivals->queue = arrivals->lane + n;
    return PEAL_OK;
}

void peal_arrivals_free(struct arrivals *arrivals)
{
    if (arrivals->now)
        peal_free(arrivals->ctx, arrivals->now, 4 * (size_t)arrivals->n * sizeof(double));
    *arrivals = (struct arrivals){0};
}

void peal_arrivals_send(struct arrivals *arrivals, uint32_t from, uint32_t to,
                        const struct hop *hop, uint32_t messages)
{
    double *lane = &arrivals->lane[from], *queue = &arrivals->queue[from], start = *lane;
    if (peal_plan_engine_async(hop->engine)) {
        start = *queue > start ? *queue : start;
        *queue = start + messages * hop->gap_us;
    } else {
        *lane += messages * hop->gap_us;
    }
    double there = arrivals->now[from] + start + (messages - 1.0) * hop->gap_us + hop->alpha_us;
    arrivals->heard[to] = there > arrivals->heard[to] ? there : arrivals->heard[to];
}

double peal_arrivals_round(struct arrivals *arrivals)
{
    double before = 0, after = 0;
    for (uint32_t r = 0; r < arrivals->n; r++) {
        double own = arrivals->now[r] + arrivals->lane[r];
        before = arrivals->now[r] > before ? arrivals->now[r] : before;
        arrivals->now[r] = own > arrivals->heard[r] ? own : arrivals->heard[r];
        after = arrivals->now[r] > after ? arrivals->now[r] : after;
        arrivals->heard[r] = arrivals->lane[r] = arrivals->queue[r] = 0;
    }
    return after - before;
}
