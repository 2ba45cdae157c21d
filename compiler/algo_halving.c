/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rabenseifner's allreduce: reduce-scatter by recursive halving, allgather by recursive doubling.
 * 2 log2 N start-ups, 2 (N - 1) / N S in and out of every rank. Of a number of ranks that is no
 * power of two the circulant butterfly takes its place (butterfly_shape.c): as many start-ups,
 * rounded up, and no byte more, where folding the extra ranks in and out takes two start-ups and
 * up to 2 S more, and 3-2 elimination still sends some ranks' data twice.
 *
 * The first round moves half of the message, the last one 1 / N of it. Ranks are numbered host by
 * host, so that the first round crosses between hosts, or across the hosts, so that the hosts'
 * own links carry the large rounds and 1 / (ranks of a host) of the message leaves a host.
 */
#include "compiler.h"

#include <stdio.h>

static enum butterfly_kind kind_for(uint32_t n)
{
    return peal_butterfly_possible(BUTTERFLY_HALVING, n) ? BUTTERFLY_HALVING : BUTTERFLY_CIRCULANT;
}

/* Places are dealt out host by host, or one rank of each host after the other. */
static void set_order(const struct group *group, int across, uint32_t *order)
{
    uint32_t used = 0;
    for (uint32_t local = 0; across && local < group->local_max; local++)
        for (uint32_t h = 0; h < group->nhosts; h++)
            if (local < group->host_first[h + 1] - group->host_first[h])
                order[used++] = group->host_first[h] + local;
    for (uint32_t r = 0; !across && r < group->n; r++)
        order[r] = r;
}

static peal_status make_shape(const struct planner *planner, int across, struct butterfly *shape)
{
    const struct group *group = &planner->group;
    uint32_t *order = peal_alloc(planner->ctx, group->n * sizeof *order);
    if (!order)
        return PEAL_ERR_MEMORY;
    set_order(group, across, order);
    peal_status status =
        peal_butterfly_make(shape, planner->ctx, kind_for(group->n), group->n, order);
    peal_free(planner->ctx, order, group->n * sizeof *order);
    return status;
}

static peal_status enumerate(struct planner *planner)
{
    const struct group *group = &planner->group;
    int orders = group->nhosts > 1 && group->local_max > 1 ? 2 : 1;
    peal_status status = PEAL_OK;
    for (int across = 0; group->n > 1 && status == PEAL_OK && across < orders; across++) {
        struct candidate candidate = {.algo = ALGO_HALVING, .variant = across};
        if (kind_for(group->n) == BUTTERFLY_HALVING && !across)
            candidate.order = ORDER_HALVES;
        struct butterfly shape = {0};
        status = make_shape(planner, across, &shape);
        if (status == PEAL_OK)
            status = peal_butterfly_enumerate(planner, candidate, &shape, 1);
        peal_butterfly_free(&shape);
    }
    return status;
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    struct butterfly shape = {0};
    (void)rank;
    peal_status status = make_shape(b->planner, candidate->variant, &shape);
    for (uint32_t c = 0; status == PEAL_OK && c < candidate->channels; c++)
        peal_butterfly_lane(b, &shape, c, candidate->channels);
    if (status != PEAL_OK)
        b->status = status;
    peal_butterfly_free(&shape);
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    peal_butterfly_prepare(b, candidate, (b->plan->nranks + 1) / 2);
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    snprintf(text, size, "halves%s, %u channel%s",
             candidate->variant ? ", the large ones within hosts" : "", candidate->channels,
             candidate->channels == 1 ? "" : "s");
}

const struct algo peal_algo_halving = {"halving",
                                       1u << PEAL_ALLREDUCE | 1u << PEAL_REDUCE_SCATTER |
                                           1u << PEAL_ALLGATHER | 1u << PEAL_BROADCAST |
                                           1u << PEAL_REDUCE,
                                       enumerate,
                                       prepare,
                                       emit,
                                       detail};
