/* SPDX-License-Identifier: Apache-2.0 */
/* One hop: its route, the engine of a plain move over it, and what that costs. */
#include "compiler.h"

/* Where copy engines move everything, no lane's rate is in the way. */
double peal_planner_lane_gbs(const struct planner *planner)
{
    if (planner->corner == CORNER_COPY &&
        !peal_plan_collective(planner->request.collective)->reduces)
        return 1e9;
    if (planner->memory.count[TOPO_USE_LOAD])
        return 1;
    return peal_topo_lane_gbs(planner->fabric, 0);
}

double peal_planner_fold_us(const struct planner *planner)
{
    uint32_t rank = peal_group_rank(&planner->group, 0);
    return planner->group.accelerators ? 1 / (peal_topo_reduce_gbs(planner->fabric, rank) * 1e3)
                                       : 0;
}

static uint8_t choose_engine(const struct planner *planner, const struct hop *hop, uint32_t from)
{
    uint8_t forced = planner->request.move_engine[hop->path.link_class];
    uint32_t arch = peal_topo_rank_arch(planner->fabric, peal_group_rank(&planner->group, from));
    uint32_t allowed =
        peal_plan_engines((uint8_t)hop->path.link_class, (uint8_t)hop->path.direct, arch);
    if (forced && allowed & 1u << (forced - 1))
        return (uint8_t)(forced - 1);
    if (planner->corner == CORNER_COPY && allowed & 1u << PEAL_ENGINE_CE)
        return PEAL_ENGINE_CE;
    return hop->path.direct ? PEAL_ENGINE_SM : (uint8_t)hop->path.mover;
}

void peal_planner_hop(const struct planner *planner, uint32_t from, uint32_t to, struct hop *hop)
{
    struct topo_engine_cost cost;
    hop->from = from;
    hop->to = to;
    peal_group_path(&planner->group, from, to, &hop->path);
    hop->engine = choose_engine(planner, hop, from);
    peal_topo_hop_cost(planner->fabric, &hop->path, (peal_engine)hop->engine, &cost);
    hop->alpha_us = cost.alpha_us;
    hop->gap_us = cost.gap_us;
    hop->scale = cost.beta_scale;
}

void peal_planner_load(struct planner *planner, const struct hop *hop, double share, double scale)
{
    planner->engines[hop->path.link_class] |= 1u << hop->engine;
    peal_load_add(&planner->load, &hop->path, share, scale, 1);
    for (uint32_t s = 0; s < planner->group.nsiblings; s++) {
        struct topo_path path;
        peal_group_sibling_path(&planner->group, s, hop->from, hop->to, &path);
        peal_load_add(&planner->load, &path, share, scale, 0);
    }
}

void peal_stage_hop(struct stage *stage, const struct hop *hop)
{
    stage->alpha_us = hop->alpha_us > stage->alpha_us ? hop->alpha_us : stage->alpha_us;
    stage->gap_us = hop->gap_us > stage->gap_us ? hop->gap_us : stage->gap_us;
}
