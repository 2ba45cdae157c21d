/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a request, and what no schedule among them can beat. */
#include "compiler.h"

#include <string.h>

uint32_t peal_group_host(const struct group *group, uint32_t rank)
{
    uint32_t low = 0, high = group->nhosts;
    while (high - low > 1) {
        uint32_t mid = (low + high) / 2;
        if (group->host_first[mid] <= rank)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static peal_status split_hosts(struct group *group)
{
    uint32_t hosts = peal_topo_hosts(group->fabric);
    group->capacity = hosts + 1;
    group->host_first = peal_calloc(group->ctx, group->capacity, sizeof(uint32_t));
    if (!group->host_first)
        return PEAL_ERR_MEMORY;
    group->local_min = UINT32_MAX;
    for (uint32_t h = 0; h < hosts; h++) {
        uint32_t first = peal_topo_host_first(group->fabric, h);
        if (first >= group->n)
            break;
        uint32_t last = first + peal_topo_host_ranks(group->fabric, h);
        last = last < group->n ? last : group->n;
        group->nhosts++;
        group->host_first[h + 1] = last;
        uint32_t local = last - first;
        group->local_min = local < group->local_min ? local : group->local_min;
        group->local_max = local > group->local_max ? local : group->local_max;
    }
    return PEAL_OK;
}

/* Hosts of one type with equally many ranks look alike: only the first of each is examined. */
static int seen_before(const struct group *group, uint32_t host)
{
    uint32_t ranks = group->host_first[host + 1] - group->host_first[host];
    for (uint32_t h = 0; h < host && h < 64; h++)
        if (peal_topo_host_type(group->fabric, h) == peal_topo_host_type(group->fabric, host) &&
            group->host_first[h + 1] - group->host_first[h] == ranks)
            return 1;
    return 0;
}

static void note_alpha(struct group *group, const struct topo_path *path)
{
    if (path->alpha_us > group->bound_alpha)
        group->bound_alpha = path->alpha_us;
}

/* Bandwidth out of one rank to the others of its host, or into it: the distinct first (last)
 * resources of its paths. */
static double local_bandwidth(struct group *group, uint32_t rank, int into)
{
    uint32_t host = peal_group_host(group, rank);
    uint64_t seen[64];
    uint32_t count = 0;
    double sum = 0;
    for (uint32_t other = group->host_first[host]; other < group->host_first[host + 1]; other++) {
        struct topo_path path;
        if (other == rank)
            continue;
        peal_topo_path(group->fabric, into ? other : rank, into ? rank : other, &path);
        note_alpha(group, &path);
        if (!path.direct)
            group->direct_hosts = 0;
        const struct topo_use *use = &path.use[into && path.uses ? path.uses - 1 : 0];
        uint32_t i = 0;
        while (i < count && path.uses && seen[i] != use->resource)
            i++;
        if (!path.uses || i < count || count == 64)
            continue;
        seen[count++] = use->resource;
        sum += use->gbs;
    }
    return sum;
}

/* Bandwidth out of a host: the distinct narrowest resources of its ranks' paths to another. */
static double host_egress(struct group *group, uint32_t host)
{
    uint32_t other = host ? 0 : 1;
    uint64_t seen[64];
    uint32_t count = 0;
    double sum = 0;
    for (uint32_t r = group->host_first[host]; r < group->host_first[host + 1]; r++) {
        struct topo_path path;
        uint32_t span = group->host_first[other + 1] - group->host_first[other];
        uint32_t to = group->host_first[other] + (r - group->host_first[host]) % span;
        peal_topo_path(group->fabric, r, to, &path);
        note_alpha(group, &path);
        uint32_t narrow = 0;
        for (uint32_t i = 1; i < path.uses; i++)
            if (path.use[i].gbs < path.use[narrow].gbs)
                narrow = i;
        uint32_t i = 0;
        while (i < count && path.uses && seen[i] != path.use[narrow].resource)
            i++;
        if (!path.uses || i < count || count == 64)
            continue;
        seen[count++] = path.use[narrow].resource;
        sum += path.use[narrow].gbs;
    }
    return sum;
}

/* Ranks or hosts that can send only so much to the others: `parties` of them with `ranks`
 * each, `sum` together, `least` the weakest one's, `root` that of the party with the root. */
struct parties {
    double count;
    double ranks;
    double sum;
    double least;
    double root;
    double root_in;     /* what it can receive */
    double least_other; /* of the parties without the root */
};

static void raise(struct group *group, peal_collective collective, double beta)
{
    if (beta > group->bound_beta[collective])
        group->bound_beta[collective] = beta;
}

/* Without reduction in the network every byte of an allreduce leaves all parties but one on the
 * way together and arrives at all but one on the way back; each party must give its own input
 * away. What a block collective keeps inside a party need not cross. */
static void note_bound(struct group *group, const struct parties *p)
{
    if (p->count < 2 || p->least <= 0)
        return;
    double per_byte = 1e-3, away = 1 - p->ranks / group->n;
    double least = per_byte / p->least, root = per_byte / p->root;
    raise(group, PEAL_ALLREDUCE, 2 * (p->count - 1) * per_byte / p->sum);
    raise(group, PEAL_ALLREDUCE, least);
    raise(group, PEAL_REDUCE_SCATTER, away * least);
    raise(group, PEAL_ALLGATHER, away * least);
    raise(group, PEAL_BROADCAST, root);
    raise(group, PEAL_REDUCE, per_byte / p->least_other);
    raise(group, PEAL_REDUCE, per_byte / p->root_in);
    raise(group, PEAL_SCATTER, away * root);
    raise(group, PEAL_GATHER, away * per_byte / p->root_in);
    raise(group, PEAL_ALLTOALL, p->ranks * away * least);
    raise(group, PEAL_SENDRECV, root);
}

static void bound_ranks(struct group *group, uint32_t root)
{
    for (uint32_t h = 0; h < group->nhosts; h++) {
        if (seen_before(group, h) && peal_group_host(group, root) != h)
            continue;
        struct parties p = {group->host_first[h + 1] - group->host_first[h], 1, 0, 0, 0, 0, 1e30};
        for (uint32_t r = group->host_first[h]; r < group->host_first[h + 1]; r++) {
            double egress = local_bandwidth(group, r, 0);
            p.sum += egress;
            p.least = r == group->host_first[h] || egress < p.least ? egress : p.least;
            p.root = r == root || p.root <= 0 ? egress : p.root;
            p.least_other = r != root && egress < p.least_other ? egress : p.least_other;
        }
        p.root_in = local_bandwidth(group, root, 1);
        if (group->nhosts == 1)
            note_bound(group, &p);
        else if (p.sum > 0) /* one more party: the other hosts, over links as fast both ways */
            raise(group, PEAL_ALLREDUCE, 2 * p.count * 1e-3 / (p.sum + 2 * host_egress(group, h)));
    }
}

static int like_previous(const struct group *group, uint32_t host)
{
    return peal_topo_host_type(group->fabric, host - 1) ==
               peal_topo_host_type(group->fabric, host) &&
           group->host_first[host] - group->host_first[host - 1] ==
               group->host_first[host + 1] - group->host_first[host];
}

static void bound_hosts(struct group *group, uint32_t root)
{
    struct parties p = {group->nhosts, group->local_min, 0, 0, 0, 0, 1e30};
    double one = 0;
    for (uint32_t h = 0; h < group->nhosts; h++) {
        if (h < 2 || !like_previous(group, h))
            one = host_egress(group, h);
        p.sum += one;
        p.least = h == 0 || one < p.least ? one : p.least;
        if (h == peal_group_host(group, root))
            p.root = p.root_in = one; /* ports are as fast both ways */
        else if (one < p.least_other)
            p.least_other = one;
    }
    note_bound(group, &p);
}

peal_status peal_group_init(struct group *group, peal_ctx *ctx, const peal_fabric *fabric,
                            uint32_t ranks, uint32_t root, peal_diag *diag)
{
    memset(group, 0, sizeof *group);
    group->ctx = ctx;
    group->fabric = fabric;
    group->n = ranks ? ranks : peal_topo_ranks(fabric);
    if (group->n > peal_topo_ranks(fabric))
        return peal_fail(diag, PEAL_ERR_ARG, "%u ranks asked for, but the fabric has %u", ranks,
                         peal_topo_ranks(fabric));
    if (split_hosts(group) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    peal_rank_info info = {.size = sizeof info};
    PEAL_TRY(peal_fabric_rank(fabric, 0, &info));
    group->accelerators = !peal_streq(info.model, "host");
    group->direct_hosts = 1;
    bound_ranks(group, root);
    if (group->nhosts > 1)
        bound_hosts(group, root);
    if (peal_group_exact_bounds(group, root) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    return PEAL_OK;
}

void peal_group_free(struct group *group)
{
    if (group->ctx)
        peal_free(group->ctx, group->host_first, group->capacity * sizeof(uint32_t));
    group->host_first = NULL;
}

const struct topo_orders *
peal_group_orders(const struct planner *planner,
                  const struct topo_orders *(*orders)(const peal_fabric *))
{
    const struct group *group = &planner->group;
    const struct topo_orders *found = orders(planner->fabric);
    int whole = found && group->n > 1 && group->local_min == found->ranks &&
                group->local_max == found->ranks;
    return whole ? found : NULL;
}
