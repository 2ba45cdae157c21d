/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost profile: the defaults of defaults.def, with what a cluster file's <cost> and
 * <reduce> put in their place. Bandwidths a profile states are those of one accelerator
 * (for the network: of its NIC), and scale every link of the class alike.
 */
#include "fabric.h"

#include "defaults.h"
#include "network.h"

#include <string.h>

void peal_topo_profile_init(struct topo_profile *profile)
{
    memset(profile, 0, sizeof *profile);
    profile->net_alpha_us = -1;
    for (int c = 0; c < PEAL_LINK_CLASS_COUNT; c++) {
        profile->alpha_us[c] = peal_topo_class_alpha((peal_link_class)c);
        profile->gap_us[c] = peal_topo_class_gap((peal_link_class)c);
        for (int e = 0; e < PEAL_ENGINE_COUNT; e++) {
            struct topo_engine_row row = peal_topo_engine_row((peal_engine)e);

            /* Relative start-ups are resolved last, when the class's own is known. */
            profile->engine[c][e].alpha_us = row.absolute;
            profile->engine[c][e].beta_scale = row.share;
            profile->engine[c][e].gap_us = row.gap;
        }
    }
}

static uint32_t first_of(const struct topo_type *type, peal_link_class link_class)
{
    if (link_class == PEAL_LINK_SMP) {
        for (uint32_t n = 0; n < type->nodes; n++) {
            if (type->node[n].kind == TOPO_NUMA)
                return n;
        }
    }
    return type->accels ? type->accel[0].node : TOPO_NONE;
}

double peal_topo_class_gbs(const struct topo_type *type, peal_link_class link_class)
{
    uint32_t source = first_of(type, link_class);
    double sum = 0;

    if (link_class == PEAL_LINK_SHM)
        return type->shared_memory ? type->resource[0].gbs : 0;
    if (link_class == PEAL_LINK_NET)
        return type->nics ? type->resource[type->nic[0].tx].gbs : 0;
    for (uint32_t l = 0; l < type->links; l++) {
        const struct topo_link *link = &type->link[l];

        if (link->from != source || link->link_class != link_class)
            continue;
        if (link_class == PEAL_LINK_SMP)
            return link->gbs;
        sum += link->gbs;
    }
    return sum;
}

/* The NIC that the first rank would have is not known before routing, so each port is set
 * by itself: a stated network bandwidth is that of any port in use. */
static void scale_ports(struct topo_type *type, double gbs)
{
    double best = 0;

    for (uint32_t n = 0; n < type->nics; n++) {
        if (type->nic[n].port_gbs > best)
            best = type->nic[n].port_gbs;
    }
    for (uint32_t n = 0; best > 0 && n < type->nics; n++) {
        struct topo_nic *nic = &type->nic[n];

        nic->port_gbs *= gbs / best;
        type->resource[nic->tx].gbs = type->resource[nic->rx].gbs = nic->port_gbs;
    }
    if (best > 0)
        type->net_gbs *= gbs / best;
}

static void scale_class(struct topo_type *type, peal_link_class link_class, double gbs)
{
    double now = peal_topo_class_gbs(type, link_class);

    if (link_class == PEAL_LINK_NET) {
        scale_ports(type, gbs);
        return;
    }
    if (now <= 0)
        return;
    for (uint32_t l = 0; l < type->links; l++) {
        if (type->link[l].link_class == link_class)
            type->link[l].gbs *= gbs / now;
    }
    for (uint32_t r = 0; r < type->resources; r++) {
        if (type->resource[r].link_class == link_class)
            type->resource[r].gbs *= gbs / now;
    }
    if (link_class == PEAL_LINK_SMP)
        type->smp_gbs = gbs;
}

void peal_topo_profile_swap(struct topo_profile *profile, const peal_swap *swaps, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        peal_link_class c = swaps[i].link_class;
        peal_engine own = c == PEAL_LINK_NET ? PEAL_ENGINE_RDMA : PEAL_ENGINE_SM;

        if (swaps[i].beta_gbs > 0)
            profile->beta_gbs[c] = swaps[i].beta_gbs;
        if (swaps[i].alpha_us < 0)
            continue;
        if (c == PEAL_LINK_NET)
            profile->net_alpha_us = swaps[i].alpha_us;
        profile->alpha_us[c] = swaps[i].alpha_us;
        profile->engine[c][own].alpha_us = -1;
    }
}

void peal_topo_profile_apply(const struct topo_profile *profile, struct topo_type *type)
{
    for (int c = 0; c < PEAL_LINK_CLASS_COUNT; c++) {
        if (profile->beta_gbs[c] > 0)
            scale_class(type, (peal_link_class)c, profile->beta_gbs[c]);
    }
}

int peal_topo_sockets_stated(const struct topo_profile *profile)
{
    return profile->tcp_scaled || profile->beta_gbs[PEAL_LINK_NET] > 0;
}

/* One physical port may be listed several times. */
static void count_senders(struct topo_type *type)
{
    uint32_t ranks = type->shared_memory ? type->ranks : type->accels;

    for (uint32_t n = 0; n < type->nics; n++)
        type->nic[n].ranks = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        int32_t nic = peal_topo_type_rank_nic(type, r);

        for (uint32_t n = 0; nic >= 0 && n < type->nics; n++)
            type->nic[n].ranks += type->nic[n].tx == type->nic[nic].tx;
    }
}

void peal_topo_profile_finish(peal_fabric *fabric)
{
    struct topo_profile *profile = &fabric->profile;

    for (uint32_t t = 0; t < fabric->types; t++)
        count_senders(&fabric->type[t]);
    /* What was measured of a network that has no RDMA was measured by sockets. */
    if (profile->net_alpha_us >= 0 && !profile->tcp_stated)
        profile->engine[PEAL_LINK_NET][PEAL_ENGINE_TCP].alpha_us = profile->net_alpha_us;
    for (int c = 0; c < PEAL_LINK_CLASS_COUNT; c++) {
        double whole = 0;

        for (uint32_t t = 0; t < fabric->types && whole <= 0; t++)
            whole = peal_topo_class_gbs(&fabric->type[t], (peal_link_class)c);
        for (int e = 0; e < PEAL_ENGINE_COUNT; e++) {
            struct topo_engine_cost *cost = &profile->engine[c][e];
            double added = peal_topo_engine_row((peal_engine)e).added;

            if (cost->alpha_us < 0 && added > 0)
                cost->alpha_us = profile->alpha_us[c] + added;
            if (profile->engine_gbs[c][e] > 0 && whole > 0)
                cost->beta_scale = profile->engine_gbs[c][e] / whole;
        }
    }
}

double peal_topo_net_alpha(const peal_fabric *fabric, int rdma)
{
    const struct topo_profile *profile = &fabric->profile;
    double alpha =
        profile->engine[PEAL_LINK_NET][rdma ? PEAL_ENGINE_RDMA : PEAL_ENGINE_TCP].alpha_us;

    return alpha < 0 ? profile->alpha_us[PEAL_LINK_NET] : alpha;
}

void peal_topo_engine_cost(const peal_fabric *fabric, peal_link_class link_class,
                           peal_engine engine, struct topo_engine_cost *cost)
{
    *cost = fabric->profile.engine[link_class][engine];
}

void peal_topo_hop_cost(const peal_fabric *fabric, const struct topo_path *path, peal_engine engine,
                        struct topo_engine_cost *cost)
{
    peal_topo_engine_cost(fabric, path->link_class, engine, cost);
    if (cost->alpha_us < 0)
        cost->alpha_us = path->alpha_us;
    else if (engine == PEAL_ENGINE_IBGDA && path->link_class == PEAL_LINK_NET)
        cost->alpha_us += path->alpha_us - peal_topo_net_alpha(fabric, 1); /* NIC and switches */
    if (cost->gap_us < path->gap_us)
        cost->gap_us = path->gap_us;
    if (engine == PEAL_ENGINE_TCP && path->sockets_gbs > 0 &&
        path->beta_gbs * cost->beta_scale > path->sockets_gbs)
        cost->beta_scale = path->sockets_gbs / path->beta_gbs;
}

int peal_topo_rank_accelerates(const peal_fabric *fabric, uint32_t rank)
{
    return !peal_topo_at_rank(fabric, rank).type->shared_memory;
}

#define LANE_BYTES 1e6 /* the message that a lane's rate is told for */

double peal_topo_lane_gbs(const peal_fabric *fabric, uint32_t rank)
{
    const struct topo_memory *memory = peal_topo_memory(fabric);

    if (memory)
        return LANE_BYTES / (peal_topo_memory_us(memory, TOPO_USE_EXCHANGE, LANE_BYTES) * 1e3);
    return peal_topo_constant(peal_topo_rank_accelerates(fabric, rank) ? TOPO_LANE
                                                                       : TOPO_LANE_HOST);
}

uint32_t peal_topo_copy_engines(void)
{
    return (uint32_t)peal_topo_constant(TOPO_COPY_ENGINES);
}

double peal_topo_reduce_gbs(const peal_fabric *fabric, uint32_t rank)
{
    struct topo_at at = peal_topo_at_rank(fabric, rank);
    const struct topo_accel *accel;

    if (fabric->profile.reduce_gbs > 0)
        return fabric->profile.reduce_gbs;
    if (at.type->shared_memory)
        return peal_topo_constant(TOPO_REDUCE_HOST);
    accel = &at.type->accel[at.index];
    return peal_topo_reduce_default(accel->arch, accel->gcn);
}
