/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of simultaneous transfers, counted where each costs a gap: at the lane that stores
 * it, at the engine of the rank that issues it for all of its lanes, and at the NIC, which ranks
 * may share. Start-ups of messages in flight overlap; gaps do not (LogGP's g).
 */
#include "compiler.h"

enum { LANE_OUT, RANK_OUT, NIC_OUT, GAPS, FLIGHT = GAPS, NET_SHARE, COUNTERS };

static double *counter(const struct traffic *traffic, uint32_t which)
{
    return traffic->us + (size_t)which * traffic->n;
}

peal_status peal_traffic_init(struct traffic *traffic, const struct planner *planner)
{
    const struct group *group = &planner->group;
    *traffic = (struct traffic){.ctx = planner->ctx, .n = group->n};
    traffic->us = peal_calloc(planner->ctx, (size_t)COUNTERS * group->n, sizeof(double));
    traffic->net = peal_calloc(planner->ctx, group->n, sizeof(uint64_t));
    traffic->nic = peal_calloc(planner->ctx, group->n, sizeof(uint32_t));
    if (!traffic->us || !traffic->net || !traffic->nic) {
        peal_traffic_free(traffic);
        return PEAL_ERR_MEMORY;
    }
    /* A NIC is named by the first rank that uses it. */
    for (uint32_t h = 0; h < group->nhosts; h++)
        for (uint32_t r = group->host_first[h]; r < group->host_first[h + 1]; r++) {
            uint32_t first = group->host_first[h];
            int32_t nic = peal_topo_rank_nic(planner->fabric, peal_group_rank(group, r));
            while (peal_topo_rank_nic(planner->fabric, peal_group_rank(group, first)) != nic)
                first++;
            traffic->nic[r] = first;
        }
    return PEAL_OK;
}

void peal_traffic_free(struct traffic *traffic)
{
    peal_free(traffic->ctx, traffic->us, (size_t)COUNTERS * traffic->n * sizeof(double));
    peal_free(traffic->ctx, traffic->net, traffic->n * sizeof(uint64_t));
    peal_free(traffic->ctx, traffic->nic, traffic->n * sizeof(uint32_t));
    *traffic = (struct traffic){0};
}

void peal_traffic_add(struct traffic *traffic, uint32_t from, const struct hop *hop,
                      uint32_t messages, double share)
{
    double us = hop->gap_us * messages;
    int async = peal_plan_engine_async(hop->engine);
    counter(traffic, async ? RANK_OUT : LANE_OUT)[from] += us;
    if (hop->gap_us > traffic->one_us)
        traffic->one_us = hop->gap_us;
    if (async)
        counter(traffic, FLIGHT)[from] += hop->alpha_us * messages;
    if (hop->path.link_class != PEAL_LINK_NET)
        return;
    counter(traffic, NIC_OUT)[traffic->nic[from]] += us;
    traffic->net[from] += messages;
    counter(traffic, NET_SHARE)[from] += share * messages;
    if (traffic->net[from] <= traffic->net_most)
        return;
    traffic->net_most = traffic->net[from];
    traffic->net_share = counter(traffic, NET_SHARE)[from];
}

double peal_traffic_gap(const struct traffic *traffic, uint32_t times)
{
    double worst = 0;
    for (size_t i = 0; i < (size_t)GAPS * traffic->n; i++) {
        double us = traffic->us[i] * (i < traffic->n ? 1 : times); /* a lane has only its own */
        worst = us > worst ? us : worst;
    }
    worst -= traffic->one_us;
    return worst > 0 ? worst : 0;
}

/* The least time in which one lane issues its transfers, of which so many are under way at once,
 * besides one start-up. */
static double flight(const struct traffic *traffic, double alpha_us)
{
    double worst = 0;
    for (uint32_t r = 0; r < traffic->n; r++)
        if (counter(traffic, FLIGHT)[r] > worst)
            worst = counter(traffic, FLIGHT)[r];
    return worst / BURST_EVENTS - alpha_us;
}

void peal_traffic_stage(const struct traffic *traffic, uint32_t channels, struct stage *stage)
{
    double gap = peal_traffic_gap(traffic, channels);
    double least = flight(traffic, stage->alpha_us);
    stage->gap_us = least > gap ? least : gap;
}

void peal_traffic_net(const struct traffic *traffic, struct candidate *candidate)
{
    candidate->net_messages = traffic->net_most * candidate->channels;
    candidate->net_share = traffic->net_share;
}
