/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what was measured to other collectives, ranks and nodes, and to one class of links. What
 * moves the same bytes over the same links takes the same time; a start-up grows with the stages.
 */
#include "fit.h"

#include <math.h>

/* One message through the Simple protocol over NVLink, us: NCCL's constant for a ring's step. */
#define MESSAGE_US 3.4

/* Bytes that a rank sends, of a message of 1, where ranks send round a ring or to each other. */
static double volume(peal_collective collective, double ranks)
{
    switch (collective) {
    case PEAL_ALLREDUCE:
        return 2 * (ranks - 1) / ranks;
    case PEAL_ALLGATHER:
    case PEAL_REDUCE_SCATTER:
    case PEAL_ALLTOALL:
    case PEAL_SCATTER:
    case PEAL_GATHER:
        return (ranks - 1) / ranks;
    default:
        return 1;
    }
}

/* Between nodes, of what a node sends in all: what leaves it, of an all-to-all; else a ring of
 * nodes'. */
static double crossing(const peal_fit_shape *shape)
{
    double nodes = shape->nodes, ranks = shape->ranks;
    if (shape->collective == PEAL_ALLTOALL)
        return ranks / nodes * (nodes - 1) / nodes;
    return volume(shape->collective, nodes);
}

static int known(const peal_fit_shape *shape)
{
    return shape->ranks >= 2 && shape->nodes >= 1 && shape->nodes <= shape->ranks &&
           (unsigned)shape->collective < PEAL_COLLECTIVE_COUNT;
}

/* One inside a node, and the levels of a tree between nodes; on one node a tree between ranks. */
static double stages(const peal_fit_shape *shape)
{
    return shape->nodes > 1 ? 1 + log2(shape->nodes) : log2(shape->ranks);
}

/* The issue of a message to and from each peer, which overlaps with what is on its way. */
static double issue(const peal_fit_shape *shape)
{
    return shape->collective == PEAL_ALLTOALL ? 2 * (shape->ranks - 1.0) * MESSAGE_US : 0;
}

double peal_fit_time_as(const peal_fit *fit, const peal_fit_shape *fitted,
                        const peal_fit_shape *wanted, uint64_t bytes)
{
    peal_fit_shape from, to;
    if (!fit || !fitted || !wanted || peal_import(&from, sizeof from, fitted) != PEAL_OK ||
        peal_import(&to, sizeof to, wanted) != PEAL_OK || !known(&from) || !known(&to) ||
        (from.nodes > 1) != (to.nodes > 1))
        return 0;
    double share = from.nodes > 1
                       ? crossing(&to) / crossing(&from)
                       : volume(to.collective, to.ranks) / volume(from.collective, from.ranks);
    double moving = peal_fit_time(fit, (uint64_t)((double)bytes * share + 0.5)) - fit->alpha_us;
    double start = fit->alpha_us * stages(&to) / stages(&from);
    double messages = from.collective == PEAL_ALLTOALL ? 0 : issue(&to);
    double time = start + moving, least = start + messages;
    return time > least ? time : least;
}

/* A transfer for each level of a tree, there and back where it reduces for all. */
static double hops(const peal_series_info *info)
{
    double levels = ceil(log2(info->ranks));
    return info->collective == PEAL_ALLREDUCE ? 2 * levels : levels;
}

static int class_of(const peal_series_info *info, peal_link_class *out)
{
    if (!info->has_link && info->nodes < 2)
        return 0;
    *out = info->has_link ? info->link : PEAL_LINK_NET;
    return 1;
}

peal_status peal_fit_cost(const peal_fit *fit, const peal_series_info *info, uint32_t nics,
                          peal_diag *diag, peal_profile_cost *cost)
{
    peal_series_info about;
    peal_profile_cost out = {.size = sizeof out};
    if (!fit || !info || !cost || peal_import(&about, sizeof about, info) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "peal_fit_cost: a required argument is missing");
    if (!class_of(&about, &out.link))
        return peal_fail(diag, PEAL_ERR_ARG, "%s: the class of its links is not known", about.name);
    out.alpha_us = fit->alpha_us;
    out.beta_gbs = fit->beta_gbs;
    if (about.has_collective && about.collective != PEAL_SENDRECV) {
        peal_fit_shape shape = {sizeof shape, about.collective, about.ranks, about.nodes};
        if (about.ranks < 2 || (about.nodes > 1 && !known(&shape)))
            return peal_fail(diag, PEAL_ERR_ARG, "%s: the number of its ranks is not known",
                             about.name);
        out.alpha_us /= hops(&about);
        out.beta_gbs *= out.link == PEAL_LINK_NET && about.nodes > 1
                            ? crossing(&shape) / (nics ? nics : 1)
                            : volume(about.collective, about.ranks);
    }
    return peal_export(cost, &out, sizeof out);
}
