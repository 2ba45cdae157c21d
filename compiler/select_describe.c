/* SPDX-License-Identifier: Apache-2.0 */
/* What a candidate is like at a size, as a row of a table says it. */
#include "select.h"

#include <string.h>

static void describe_binding(const struct candidate *candidate, const struct cost *cost, char *text,
                             size_t size)
{
    if (cost->alpha_us * 2 > cost->time_us)
        peal_copy_text(text, size, "latency");
    else if (cost->lane_bound)
        peal_copy_text(text, size, "copy rate of the lanes");
    else
        peal_copy_text(text, size, candidate->binding);
}

/* Of the longest way. The network's start-up is that of RDMA by the host, unless the kernel is to
 * post by itself: then what it saves on one way it saves on all. */
static double least_alpha(const struct planner *planner)
{
    double alpha = planner->group.bound_alpha;
    int posted = planner->request.move_engine[PEAL_LINK_NET] == PEAL_ENGINE_IBGDA + 1;
    for (uint32_t r = 1; posted && r < planner->group.n; r++) {
        struct topo_path path;
        struct topo_engine_cost cost;
        peal_group_path(&planner->group, 0, r, &path);
        if (path.link_class != PEAL_LINK_NET)
            continue;
        peal_topo_hop_cost(planner->fabric, &path, PEAL_ENGINE_IBGDA, &cost);
        double saved = path.alpha_us - cost.alpha_us;
        return saved < 0 ? alpha : alpha > saved ? alpha - saved : 0;
    }
    return alpha;
}

double peal_planner_bound(const struct planner *planner, uint64_t bytes)
{
    const struct group *group = &planner->group;
    double move = group->bound_beta[planner->request.collective] * (double)bytes *
                  peal_compressed_ratio(&planner->request);
    double alpha = least_alpha(planner);
    return move > alpha ? move : alpha;
}

void peal_select_describe(const struct planner *planner, uint32_t index, uint64_t min_bytes,
                          uint64_t max_bytes, peal_row_info *info)
{
    const struct candidate *candidate = &planner->candidates[index];
    const struct algo *algo = peal_algo_get(candidate->algo);
    struct cost low, high;
    double n = planner->group.n;
    memset(info, 0, sizeof *info);
    info->size = sizeof *info;
    info->collective = planner->request.collective;
    info->root = planner->request.root;
    info->peer = planner->request.peer;
    info->min_bytes = min_bytes;
    info->max_bytes = max_bytes;
    peal_candidate_cost(candidate, min_bytes, &low);
    peal_candidate_cost(candidate, max_bytes, &high);
    peal_copy_text(info->algorithm, sizeof info->algorithm,
                   peal_candidate_name(planner, candidate));
    algo->detail(candidate, info->detail, sizeof info->detail);
    info->channels = candidate->channels;
    info->hop_bytes = (uint64_t)(candidate->hop_share * (double)max_bytes);
    if (candidate->tile_bytes && candidate->tile_bytes < info->hop_bytes)
        info->hop_bytes = info->tile_bytes = candidate->tile_bytes;
    info->net_messages = candidate->net_messages;
    if (candidate->net_messages)
        info->net_message_bytes =
            (uint64_t)(candidate->net_share * (double)max_bytes / (double)candidate->net_messages);
    info->protocol = candidate->algo == ALGO_ONESHOT ? "packet" : "simple";
    memcpy(info->move_engines, candidate->engines, sizeof info->move_engines);
    info->scratch_bytes = peal_candidate_scratch(candidate, max_bytes);
    info->sms = peal_select_sms(planner, candidate);
    info->time_us = high.time_us;
    info->time_min_us = low.time_us;
    info->time_alone_us = peal_candidate_alone_us(candidate, max_bytes);
    info->alpha_us = high.alpha_us;
    info->algbw_gbs = high.time_us > 0 ? (double)max_bytes / (high.time_us * 1e3) : 0;
    info->busbw_gbs = info->algbw_gbs * peal_plan_bus_factor(planner->request.collective, n);
    info->bound_us = peal_planner_bound(planner, max_bytes);
    if (planner->request.collective == PEAL_BARRIER) /* nothing is moved */
        info->algbw_gbs = info->busbw_gbs = 0;
    if (planner->request.collective == PEAL_ALLGATHER)
        peal_copy_text(info->bound_cut, sizeof info->bound_cut, planner->group.cut);
    if (planner->request.collective == PEAL_REDUCE_SCATTER)
        peal_copy_text(info->bound_cut, sizeof info->bound_cut, planner->group.cut_in);
    info->wire = (peal_wire)candidate->wire;
    info->latency_bound = high.alpha_us * 2 > high.time_us;
    describe_binding(candidate, &high, info->binding, sizeof info->binding);
}
