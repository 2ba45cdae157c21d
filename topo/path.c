/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths between ranks as the compiler asks for them: the resources each uses, its
 * narrowest, its start-up. Nothing is stored per pair of ranks of different hosts.
 */
#include "fabric.h"

#include "defaults.h"
#include "network.h"
#include "topo_text.h"

#include <stddef.h>
#include <string.h>

/* ---- collecting resources. A part of a path may name at most `limit`; beyond, what is
 * widest, and so limits least, is left out. */

struct part {
    struct topo_path *path;
    uint32_t first;
    uint32_t limit;
};

static void use(struct part *part, uint64_t resource, double gbs)
{
    struct topo_path *path = part->path;
    uint32_t widest = part->first;

    if (gbs < path->beta_gbs)
        path->beta_gbs = gbs;
    if (path->uses - part->first < part->limit) {
        path->use[path->uses++] = (struct topo_use){resource, gbs};
        return;
    }
    for (uint32_t u = part->first + 1; u < path->uses; u++) {
        if (path->use[u].gbs > path->use[widest].gbs)
            widest = u;
    }
    if (path->use[widest].gbs <= gbs)
        return;
    memmove(&path->use[widest], &path->use[widest + 1],
            (path->uses - widest - 1) * sizeof path->use[0]);
    path->use[path->uses - 1] = (struct topo_use){resource, gbs};
}

static void use_hops(struct part *part, const struct topo_at *at, uint32_t hop, uint32_t hops)
{
    uint64_t base = peal_topo_host_resource(at);

    for (uint32_t h = 0; h < hops; h++) {
        uint32_t resource = at->type->link[at->type->hop[hop + h]].resource;

        use(part, base + resource, at->type->resource[resource].gbs);
    }
}

static void use_own(struct part *part, const struct topo_at *at, uint32_t resource)
{
    use(part, peal_topo_host_resource(at) + resource, at->type->resource[resource].gbs);
}

/* ---- on one host */

static void shared_memory(const peal_fabric *fabric, const struct topo_at *from,
                          const struct topo_at *to, struct topo_path *path)
{
    struct part part = {path, 0, TOPO_PATH_MAX};

    path->link_class = PEAL_LINK_SHM;
    path->alpha_us = fabric->profile.alpha_us[PEAL_LINK_SHM];
    path->gap_us = fabric->profile.gap_us[PEAL_LINK_SHM];
    path->direct = 1;
    path->mover = PEAL_ENGINE_SM;
    use_own(&part, from, 2 * from->index);
    use_own(&part, from, 2 * from->type->ranks);
    use_own(&part, to, 2 * to->index + 1);
}

/* Up to an NVSwitch and down again. */
static int over_switch(const struct topo_type *type, const struct topo_route *route)
{
    return route->hops == 2 &&
           type->node[type->link[type->hop[route->hop]].to].kind == TOPO_NVSWITCH;
}

static void inside(const peal_fabric *fabric, const struct topo_at *from, const struct topo_at *to,
                   struct topo_path *path)
{
    const struct topo_route *route =
        &from->type->route[(size_t)from->index * from->type->accels + to->index];
    struct part part = {path, 0, TOPO_PATH_MAX};

    path->link_class = (peal_link_class)route->link_class;
    path->alpha_us = fabric->profile.alpha_us[route->link_class];
    path->gap_us = fabric->profile.gap_us[route->link_class];
    path->direct = route->direct;
    path->mover = (peal_engine)route->mover;
    path->multicast = from->type->multicast && route->direct && over_switch(from->type, route);
    use_hops(&part, from, route->hop, route->hops);
}

/* ---- between hosts */

static const struct topo_nic *nic_of(const struct topo_at *at, int32_t *index)
{
    *index = peal_topo_type_rank_nic(at->type, at->index);
    return *index < 0 ? NULL : &at->type->nic[*index];
}

static uint32_t port_of(const struct topo_at *at, const struct topo_nic *nic, int leaving)
{
    const struct topo_accel *accel;

    if (at->type->shared_memory)
        return leaving ? nic->tx : nic->rx;
    accel = &at->type->accel[at->index];
    return leaving ? accel->tx : accel->rx;
}

/* Each rank has a core of its own for that. What was measured knows better. */
static double sockets_gbs(const peal_fabric *fabric, const struct topo_nic *out,
                          const struct topo_nic *in)
{
    uint32_t ranks = out->ranks < in->ranks ? out->ranks : in->ranks;

    if (peal_topo_sockets_stated(&fabric->profile))
        return 0;
    return ranks * peal_topo_constant(TOPO_SOCKETS);
}

static void between(const peal_fabric *fabric, const struct topo_at *from, const struct topo_at *to,
                    struct topo_path *path)
{
    int32_t index;
    const struct topo_nic *out = nic_of(from, &index);
    const struct topo_nic *in = nic_of(to, &index);
    struct part part = {path, 0, TOPO_HALF_USES};
    struct topo_crossing crossing;

    path->link_class = PEAL_LINK_NET;
    path->gap_us = fabric->profile.gap_us[PEAL_LINK_NET];
    if (!out || !in)
        return; /* refused when the cluster was read */
    path->mover = out->rdma && in->rdma ? PEAL_ENGINE_RDMA : PEAL_ENGINE_TCP;
    path->alpha_us = peal_topo_net_alpha(fabric, out->rdma && in->rdma) + out->latency_us;
    path->sockets_gbs = sockets_gbs(fabric, out, in);
    if (!from->type->shared_memory)
        use_hops(&part, from, from->type->accel[from->index].out,
                 from->type->accel[from->index].outs);
    use_own(&part, from, port_of(from, out, 1));
    if (peal_topo_crosses(fabric, from->host, out->rail, to->host, in->rail, &crossing)) {
        path->alpha_us += fabric->network.latency_us;
        part.first = path->uses;
        part.limit = 2;
        use(&part, crossing.up, crossing.up_gbs);
        use(&part, crossing.down, crossing.down_gbs);
    }
    part.first = path->uses;
    part.limit = TOPO_HALF_USES;
    use_own(&part, to, port_of(to, in, 0));
    if (!to->type->shared_memory)
        use_hops(&part, to, to->type->accel[to->index].in, to->type->accel[to->index].ins);
}

/* What is left of slow links. */
static void slow_down(const peal_fabric *fabric, struct topo_path *path)
{
    for (uint32_t u = 0; u < path->uses; u++) {
        path->use[u].gbs *= peal_topo_slowness(fabric, path->use[u].resource);
        if (path->use[u].gbs < path->beta_gbs)
            path->beta_gbs = path->use[u].gbs;
    }
}

/* ---- topo.h */

void peal_topo_path(const peal_fabric *fabric, uint32_t from, uint32_t to, struct topo_path *path)
{
    struct topo_at a = peal_topo_at_rank(fabric, from);
    struct topo_at b = peal_topo_at_rank(fabric, to);

    memset(path, 0, offsetof(struct topo_path, use)); /* uses count: the rest is written then */
    path->beta_gbs = peal_topo_constant(TOPO_LOCAL);
    if (from == to) {
        path->link_class = PEAL_LINK_LOOPBACK;
        path->alpha_us = fabric->profile.alpha_us[PEAL_LINK_LOOPBACK];
        path->direct = 1;
    } else if (a.host != b.host) {
        between(fabric, &a, &b, path);
    } else if (a.type->shared_memory) {
        shared_memory(fabric, &a, &b, path);
    } else {
        inside(fabric, &a, &b, path);
    }
    if (fabric->slows)
        slow_down(fabric, path);
}

uint32_t peal_topo_ranks(const peal_fabric *fabric)
{
    return fabric->ranks;
}

uint32_t peal_topo_hosts(const peal_fabric *fabric)
{
    return fabric->hosts;
}

uint32_t peal_topo_host_of(const peal_fabric *fabric, uint32_t rank)
{
    return peal_topo_at_rank(fabric, rank).host;
}

uint32_t peal_topo_host_first(const peal_fabric *fabric, uint32_t host)
{
    struct topo_at at = peal_topo_at_host(fabric, host);

    return at.span->rank + (host - at.span->first) * at.type->ranks;
}

uint32_t peal_topo_host_ranks(const peal_fabric *fabric, uint32_t host)
{
    return peal_topo_at_host(fabric, host).type->ranks;
}

uint32_t peal_topo_host_type(const peal_fabric *fabric, uint32_t host)
{
    return peal_topo_at_host(fabric, host).span->type;
}

uint64_t peal_topo_resources(const peal_fabric *fabric)
{
    return fabric->resources;
}

int32_t peal_topo_type_rank_nic(const struct topo_type *type, uint32_t local)
{
    if (!type->shared_memory)
        return type->accel[local].nic;
    if (!type->nics)
        return -1;
    return (int32_t)((uint64_t)local * type->nics / type->ranks);
}

int32_t peal_topo_rank_nic(const peal_fabric *fabric, uint32_t rank)
{
    struct topo_at at = peal_topo_at_rank(fabric, rank);
    int32_t nic = peal_topo_type_rank_nic(at.type, at.index);

    /* One physical port may be listed under several CPUs: the first entry stands for it. */
    for (int32_t n = 0; n < nic; n++) {
        if (at.type->nic[n].tx == at.type->nic[nic].tx)
            return n;
    }
    return nic;
}

uint32_t peal_topo_rank_arch(const peal_fabric *fabric, uint32_t rank)
{
    struct topo_at at = peal_topo_at_rank(fabric, rank);

    return at.type->shared_memory ? 0 : at.type->accel[at.index].arch;
}

uint32_t peal_topo_rank_domain(const peal_fabric *fabric, uint32_t rank)
{
    struct topo_at at = peal_topo_at_rank(fabric, rank);
    uint32_t own = at.type->shared_memory ? 0 : at.type->accel[at.index].domain;

    return at.span->domain + (at.host - at.span->first) * at.type->domains + own;
}
