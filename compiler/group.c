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

/* Where the runs of ranks on one host begin; gives their number. */
static uint32_t find_runs(const struct group *group, uint32_t *first)
{
    uint32_t runs = 0;
    for (uint32_t r = 0; r < group->n; r++) {
        if (r && peal_group_same_host(group, r - 1, r))
            continue;
        if (first)
            first[runs] = r;
        runs++;
    }
    return runs;
}

static peal_status note_scattered(struct group *group)
{
    size_t hosts = peal_topo_hosts(group->fabric);
    uint8_t *seen = peal_calloc(group->ctx, hosts, 1);
    if (!seen)
        return PEAL_ERR_MEMORY;
    for (uint32_t h = 0; h < group->nhosts; h++) {
        uint32_t rank = peal_group_rank(group, group->host_first[h]);
        uint8_t *there = &seen[peal_topo_host_of(group->fabric, rank)];
        group->scattered |= *there;
        *there = 1;
    }
    peal_free(group->ctx, seen, hosts);
    return PEAL_OK;
}

static peal_status split_hosts(struct group *group)
{
    group->nhosts = find_runs(group, NULL);
    group->capacity = group->nhosts + 1;
    group->host_first = peal_calloc(group->ctx, group->capacity, sizeof(uint32_t));
    if (!group->host_first)
        return PEAL_ERR_MEMORY;
    (void)find_runs(group, group->host_first);
    group->host_first[group->nhosts] = group->n;
    group->local_min = UINT32_MAX;
    for (uint32_t h = 0; h < group->nhosts; h++) {
        uint32_t local = group->host_first[h + 1] - group->host_first[h];
        group->local_min = local < group->local_min ? local : group->local_min;
        group->local_max = local > group->local_max ? local : group->local_max;
    }
    return note_scattered(group);
}

/* Of hosts that look alike only the first is examined. */
static int seen_before(const struct group *group, uint32_t host)
{
    for (uint32_t h = 0; h < host && h < 64; h++)
        if (peal_group_hosts_alike(group, h, host))
            return 1;
    return 0;
}

static void note_alpha(struct group *group, const struct topo_path *path)
{
    if (path->alpha_us > group->bound_alpha)
        group->bound_alpha = path->alpha_us;
}

/* Two ranks of a host may reach each other over a third one: in no less than two of the host's
 * shortest start-ups. */
static double relay_us(const struct group *group, uint32_t host)
{
    double least = 1e30;
    uint32_t first = group->host_first[host], end = group->host_first[host + 1];
    if (end - first < 3)
        return least;
    for (uint32_t a = first; a < end; a++)
        for (uint32_t b = first; b < end; b++) {
            struct topo_path path;
            if (a == b)
                continue;
            peal_group_path(group, a, b, &path);
            least = path.alpha_us < least ? path.alpha_us : least;
        }
    return 2 * least;
}

/* Bandwidth out of one rank to the others of its host, or into it: the distinct first (last)
 * resources of its paths. No path counts for more start-up than relay_us. */
static double local_bandwidth(struct group *group, uint32_t rank, int into, double relay)
{
    uint32_t host = peal_group_host(group, rank);
    uint64_t seen[64];
    uint32_t count = 0;
    double sum = 0;
    for (uint32_t other = group->host_first[host]; other < group->host_first[host + 1]; other++) {
        struct topo_path path;
        if (other == rank)
            continue;
        peal_group_path(group, into ? other : rank, into ? rank : other, &path);
        path.alpha_us = path.alpha_us < relay ? path.alpha_us : relay;
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
        peal_group_path(group, r, to, &path);
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

/* Ranks or hosts that can send only so much to the others: `sum` together, `least` the weakest
 * one's, `root` that of the party with the root. */
struct parties {
    double count;
    double sum;
    double least;
    double root;
    double root_in;     /* what it can receive */
    double least_other; /* of the parties without the root */
    double root_ranks;
    double away;  /* what a party's ranks hold for others, of N blocks, per bandwidth: the most */
    double cross; /* the same of what all of them hold, N blocks each */
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
    double per_byte = 1e-3, root_away = 1 - p->root_ranks / group->n;
    double least = per_byte / p->least, root = per_byte / p->root;
    if (!group->switch_folds || p->count == group->nhosts)
        raise(group, PEAL_ALLREDUCE, 2 * (p->count - 1) * per_byte / p->sum);
    raise(group, PEAL_ALLREDUCE, least);
    raise(group, PEAL_REDUCE_SCATTER, p->away * per_byte);
    raise(group, PEAL_ALLGATHER, p->away * per_byte);
    raise(group, PEAL_BROADCAST, root);
    raise(group, PEAL_REDUCE, per_byte / p->least_other);
    raise(group, PEAL_REDUCE, per_byte / p->root_in);
    raise(group, PEAL_SCATTER, root_away * root);
    raise(group, PEAL_GATHER, root_away * per_byte / p->root_in);
    raise(group, PEAL_ALLTOALL, p->cross * per_byte);
    raise(group, PEAL_ALLTOALLV, p->cross * per_byte); /* of full blocks */
}

/* A party of so many ranks and such a bandwidth. */
static void note_party(const struct group *group, struct parties *p, double ranks, double gbs)
{
    double away = gbs > 0 ? (1 - ranks / group->n) / gbs : 0;
    p->count++;
    p->sum += gbs;
    p->least = p->count < 2 || gbs < p->least ? gbs : p->least;
    p->away = away > p->away ? away : p->away;
    p->cross = ranks * away > p->cross ? ranks * away : p->cross;
}

static void bound_ranks(struct group *group, uint32_t root)
{
    for (uint32_t h = 0; h < group->nhosts; h++) {
        if (seen_before(group, h) && peal_group_host(group, root) != h)
            continue;
        struct parties p = {.least_other = 1e30, .root_ranks = 1};
        double relay = relay_us(group, h);
        for (uint32_t r = group->host_first[h]; r < group->host_first[h + 1]; r++) {
            double egress = local_bandwidth(group, r, 0, relay);
            note_party(group, &p, 1, egress);
            p.root = r == root || p.root <= 0 ? egress : p.root;
            p.least_other = r != root && egress < p.least_other ? egress : p.least_other;
        }
        p.root_in = local_bandwidth(group, root, 1, relay);
        if (group->nhosts == 1)
            note_bound(group, &p);
        else if (p.sum > 0 && !group->switch_folds) /* one more party: the other hosts, over links
                                                       as fast both ways */
            raise(group, PEAL_ALLREDUCE, 2 * p.count * 1e-3 / (p.sum + 2 * host_egress(group, h)));
    }
}

static void bound_hosts(struct group *group, uint32_t root)
{
    struct parties p = {.least_other = 1e30};
    double one = 0;
    for (uint32_t h = 0; h < group->nhosts; h++) {
        if (h < 2 || !peal_group_hosts_alike(group, h - 1, h))
            one = host_egress(group, h);
        double ranks = group->host_first[h + 1] - group->host_first[h];
        note_party(group, &p, ranks, one);
        if (h == peal_group_host(group, root)) {
            p.root = p.root_in = one; /* ports are as fast both ways */
            p.root_ranks = ranks;
        } else if (one < p.least_other)
            p.least_other = one;
    }
    note_bound(group, &p);
}

/* Every rank meets rank 0, and so every other one, on a switch that folds. */
static int meets_on_switch(const struct group *group)
{
    for (uint32_t r = 1; r < group->n; r++) {
        struct topo_path there, back;
        peal_group_path(group, 0, r, &there);
        peal_group_path(group, r, 0, &back);
        if (!there.multicast || !back.multicast)
            return 0;
    }
    return group->n > 1;
}

/* 1: in some host a switch folds, so that what leaves its ranks is not all that is added up. */
static int folds_in_switches(const struct group *group)
{
    for (uint32_t h = 0; h < group->nhosts; h++) {
        struct topo_path path;
        if (group->host_first[h + 1] - group->host_first[h] < 2 ||
            (h && peal_group_hosts_alike(group, h - 1, h)))
            continue;
        peal_group_path(group, group->host_first[h], group->host_first[h] + 1, &path);
        if (path.multicast)
            return 1;
    }
    return 0;
}

static int run_is_direct(const struct group *group, uint32_t host)
{
    for (uint32_t a = group->host_first[host]; a < group->host_first[host + 1]; a++)
        for (uint32_t b = group->host_first[host]; b < group->host_first[host + 1]; b++) {
            struct topo_path path;
            if (a == b)
                continue;
            peal_group_path(group, a, b, &path);
            if (!path.direct)
                return 0;
        }
    return 1;
}

/* Of ranks that do not stand host by host only the way to the farthest is known. */
static void bound_scattered(struct group *group)
{
    for (uint32_t r = 1; r < group->n; r++) {
        struct topo_path path;
        peal_group_path(group, 0, r, &path);
        note_alpha(group, &path);
    }
    for (uint32_t h = 0; h < group->nhosts && group->direct_hosts; h++)
        group->direct_hosts = run_is_direct(group, h);
}

static peal_status bound(struct group *group, uint32_t root)
{
    group->direct_hosts = 1;
    group->multicast = meets_on_switch(group);
    group->switch_folds = folds_in_switches(group);
    if (group->scattered) {
        bound_scattered(group);
    } else {
        bound_ranks(group, root);
        if (group->nhosts > 1)
            bound_hosts(group, root);
    }
    return peal_group_exact_bounds(group, root);
}

peal_status peal_group_init(struct group *group, peal_ctx *ctx, const peal_fabric *fabric,
                            const peal_request *request, peal_diag *diag)
{
    memset(group, 0, sizeof *group);
    group->ctx = ctx;
    group->fabric = fabric;
    PEAL_TRY(peal_group_choose(group, request, diag));
    if (request->root >= group->n || request->peer >= group->n)
        return peal_fail(diag, PEAL_ERR_ARG, "root or peer is not one of %u ranks", group->n);
    if (split_hosts(group) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    peal_rank_info info = {.size = sizeof info};
    PEAL_TRY(peal_fabric_rank(fabric, peal_group_rank(group, 0), &info));
    group->accelerators = !peal_streq(info.model, "host");
    if (bound(group, request->root) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    return PEAL_OK;
}

void peal_group_free(struct group *group)
{
    if (!group->ctx)
        return;
    size_t sibling_bytes = (size_t)group->sibling_room * group->n * sizeof(uint32_t);
    peal_free(group->ctx, group->host_first, group->capacity * sizeof(uint32_t));
    peal_free(group->ctx, group->siblings, sibling_bytes);
    peal_free(group->ctx, group->rank_of, group->n * sizeof(uint32_t));
    group->host_first = group->siblings = group->rank_of = NULL;
}

const struct topo_orders *
peal_group_orders(const struct planner *planner,
                  const struct topo_orders *(*orders)(const peal_fabric *))
{
    const struct group *group = &planner->group;
    const struct topo_orders *found = orders(planner->fabric);
    int whole = found && !group->rank_of && group->n > 1 && group->local_min == found->ranks &&
                group->local_max == found->ranks;
    return whole ? found : NULL;
}
