/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a ring: inside a host along its widest links, between hosts rail to rail. Channels
 * share out the links of a mesh: as many disjoint rings as they allow. Or the order is that of a
 * graph file. */
#include "compiler.h"

#include <string.h>

#define SEARCH_MAX 20000u /* nodes visited before the best cycle so far is taken */

struct search {
    uint32_t n;
    int64_t cap[RING_LOCAL_MAX][RING_LOCAL_MAX]; /* MB/s, whole, so that ties are ties everywhere */
    uint32_t path[RING_LOCAL_MAX];
    uint32_t best[RING_LOCAL_MAX];
    int64_t best_cap;
    int64_t best_sum;
    uint8_t used[RING_LOCAL_MAX];
    uint32_t visited;
    int wider; /* 1: look for width only, 0: also among equals */
};

static void close_cycle(struct search *s, int64_t cap, int64_t sum)
{
    int64_t last = s->cap[s->path[s->n - 1]][s->path[0]];
    cap = last < cap ? last : cap;
    sum += last;
    if (cap > s->best_cap || (cap == s->best_cap && sum > s->best_sum)) {
        s->best_cap = cap;
        s->best_sum = sum;
        memcpy(s->best, s->path, sizeof s->best);
    }
}

/* The widest cycle, of equals the one that leaves narrow links alone. */
static void extend(struct search *s, uint32_t depth, int64_t cap, int64_t sum)
{
    if (cap < s->best_cap + s->wider || cap <= 0 || s->visited++ > SEARCH_MAX)
        return;
    uint32_t last = s->path[depth - 1];
    if (depth == s->n) {
        close_cycle(s, cap, sum);
        return;
    }
    for (uint32_t k = 1; k < s->n; k++) {
        uint32_t next = (last + k) % s->n;
        int64_t width = s->cap[last][next];
        if (s->used[next])
            continue;
        s->used[next] = 1;
        s->path[depth] = next;
        extend(s, depth + 1, width < cap ? width : cap, sum + width);
        s->used[next] = 0;
    }
}

static void fill_capacity(const struct planner *planner, uint32_t first, struct search *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t j = 0; j < s->n; j++) {
            struct topo_path path;
            s->cap[i][j] = 0;
            if (i == j)
                continue;
            peal_group_path(&planner->group, first + i, first + j, &path);
            /* A path that is not direct costs more than its bandwidth tells. */
            double gbs = path.direct ? path.beta_gbs : path.beta_gbs / 8;
            s->cap[i][j] = (int64_t)(gbs * 1e3 + 0.5);
        }
}

/* 1: the paths of two pairs share what limits them, as on a switch, where all orders are equal. */
static int shared(const struct planner *planner, uint32_t first)
{
    struct topo_path one, two;
    peal_group_path(&planner->group, first, first + 1, &one);
    peal_group_path(&planner->group, first, first + 2, &two);
    for (uint32_t i = 0; i < one.uses; i++)
        for (uint32_t j = 0; j < two.uses; j++)
            if (one.use[i].resource == two.use[j].resource && one.use[i].gbs <= one.beta_gbs)
                return 1;
    return 0;
}

static int uniform(const struct search *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t j = 0; j < s->n; j++)
            if (i != j && s->cap[i][j] != s->cap[0][1])
                return 0;
    return 1;
}

/* What one channel takes of the links: half the narrowest link worth a channel of its own, since
 * the links of four ranks, all to all, are filled by three cycles that share each two by two. */
static int64_t unit_of(const struct search *s)
{
    int64_t unit = s->best_cap;
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t j = 0; j < s->n; j++)
            if (s->cap[i][j] >= s->best_cap / 4 && s->cap[i][j] < unit)
                unit = s->cap[i][j];
    return unit > 1 ? unit / 2 : 1;
}

static int widest_cycle(struct search *s)
{
    s->best_cap = s->best_sum = 0;
    memset(s->used, 0, sizeof s->used);
    s->used[0] = 1;
    s->path[0] = 0;
    for (s->wider = 1; s->wider >= 0; s->wider--) {
        s->visited = 0;
        extend(s, 1, INT64_MAX, 0);
    }
    return s->best_cap > 0;
}

static void keep_order(const struct search *s, uint32_t channels, uint32_t channel, uint8_t *local)
{
    for (uint32_t i = 0; channel < channels && i < s->n; i++)
        local[channel * s->n + i] = (uint8_t)s->best[i];
}

/* Widest cycles one after the other, each on what the ones before have left; when no more than a
 * remainder is left, from the start again. On a switch all orders are equal and the natural one
 * wins. Returns how many rings there were before the start. */
static uint32_t local_orders(const struct planner *planner, uint32_t first, uint32_t n,
                             uint32_t channels, uint8_t *local)
{
    static const struct search none = {0};
    struct search s = none;
    uint32_t rings = 0;
    for (uint32_t c = 0; c < channels; c++)
        for (uint32_t i = 0; i < n; i++)
            local[c * n + i] = (uint8_t)i;
    s.n = n;
    if (n < 3)
        return 1;
    fill_capacity(planner, first, &s);
    if ((uniform(&s) && shared(planner, first)) || !widest_cycle(&s))
        return 1;
    int64_t unit = unit_of(&s);
    for (uint32_t c = 0; c < channels; c++) {
        if (c && (!widest_cycle(&s) || s.best_cap < unit)) {
            rings = rings ? rings : c;
            fill_capacity(planner, first, &s);
            (void)widest_cycle(&s);
        }
        for (uint32_t i = 0; i < n; i++)
            s.cap[s.best[i]][s.best[(i + 1) % n]] -= unit;
        keep_order(&s, channels, c, local);
    }
    return rings ? rings : channels;
}

/* ---- the hosts that look different ------------------------------------------- */

static uint32_t host_ranks(const struct group *group, uint32_t host)
{
    return group->host_first[host + 1] - group->host_first[host];
}

static const struct ring_class *class_of(const struct ring_orders *orders, uint32_t host)
{
    for (uint32_t i = 0; i < orders->classes; i++)
        if (orders->class[i].host == host ||
            peal_group_hosts_alike(orders->group, orders->class[i].host, host))
            return &orders->class[i];
    return NULL;
}

static peal_status add_class(const struct planner *planner, uint32_t host,
                             struct ring_orders *orders)
{
    const struct group *group = orders->group;
    uint32_t ranks = host_ranks(group, host);
    PEAL_TRY(peal_grow(group->ctx, (void **)&orders->class, &orders->capacity,
                       (size_t)orders->classes + 1, sizeof *orders->class, UINT32_MAX));
    struct ring_class *class = &orders->class[orders->classes];
    *class = (struct ring_class){host, ranks, 1, NULL};
    class->local = peal_calloc(group->ctx, orders->channels, ranks);
    if (!class->local)
        return PEAL_ERR_MEMORY;
    orders->classes++;
    class->rings =
        local_orders(planner, group->host_first[host], ranks, orders->channels, class->local);
    return PEAL_OK;
}

peal_status peal_ring_orders_make(const struct planner *planner, enum algorithm algo,
                                  uint32_t channels, struct ring_orders *orders)
{
    const struct group *group = &planner->group;
    const struct topo_orders *given =
        algo == ALGO_NCCL_RING ? peal_topo_rings(planner->fabric) : NULL;
    peal_status status = PEAL_OK;
    *orders = (struct ring_orders){.group = group, .channels = channels, .given = given};
    for (uint32_t h = 0; !given && status == PEAL_OK && h < group->nhosts; h++)
        if (host_ranks(group, h) <= RING_LOCAL_MAX && !class_of(orders, h))
            status = add_class(planner, h, orders);
    if (status != PEAL_OK)
        peal_ring_orders_free(orders);
    return status;
}

void peal_ring_orders_free(struct ring_orders *orders)
{
    if (!orders->group)
        return;
    peal_ctx *ctx = orders->group->ctx;
    for (uint32_t i = 0; i < orders->classes; i++)
        peal_free(ctx, orders->class[i].local, (size_t)orders->channels * orders->class[i].ranks);
    peal_free(ctx, orders->class, orders->capacity * sizeof *orders->class);
    *orders = (struct ring_orders){.group = NULL};
}

uint32_t peal_ring_count(const struct ring_orders *orders)
{
    const struct ring_class *class = class_of(orders, 0);
    return class ? class->rings : 1;
}

/* ---- the whole ring ------------------------------------------------------------ */

/* Each channel enters and leaves the host elsewhere, through other NICs; odd hosts run
 * backwards, so that a ring leaves one host and enters the next on the same rail. */
static uint32_t turn_of(const struct ring_orders *orders, uint32_t channel, uint32_t n)
{
    return orders->group->nhosts > 1 ? channel % n : 0;
}

static uint32_t rank_in_host(const struct ring_orders *orders, const struct ring_class *class,
                             uint32_t host, uint32_t channel, uint32_t place)
{
    uint32_t n = host_ranks(orders->group, host), first = orders->group->host_first[host];
    if (orders->given)
        return first + orders->given->order[channel * n + place];
    if (!class)
        return first + place;
    uint32_t i = host % 2 ? n - 1 - place : place;
    return first + class->local[channel * n + (turn_of(orders, channel, n) + i) % n];
}

uint32_t peal_ring_rank_at(const struct ring_orders *orders, uint32_t channel, uint32_t position)
{
    uint32_t host = peal_group_host(orders->group, position);
    return rank_in_host(orders, class_of(orders, host), host, channel,
                        position - orders->group->host_first[host]);
}

uint32_t peal_ring_position(const struct ring_orders *orders, uint32_t channel, uint32_t rank)
{
    uint32_t host = peal_group_host(orders->group, rank);
    uint32_t first = orders->group->host_first[host];
    const struct ring_class *class = class_of(orders, host);
    uint32_t place = class || orders->given ? 0 : rank - first;
    while (rank_in_host(orders, class, host, channel, place) != rank)
        place++;
    return first + place;
}

void peal_ring_order(const struct ring_orders *orders, uint32_t channel, uint32_t *order)
{
    const struct group *group = orders->group;
    for (uint32_t h = 0; h < group->nhosts; h++) {
        const struct ring_class *class = class_of(orders, h);
        for (uint32_t i = 0; i < host_ranks(group, h); i++)
            order[group->host_first[h] + i] = rank_in_host(orders, class, h, channel, i);
    }
}

static uint32_t ring_member(const struct members *members, uint32_t position)
{
    return peal_ring_rank_at(members->b->rings, members->channel, position);
}

struct members peal_ring_members(const struct build *b, uint32_t channel)
{
    return (struct members){ring_member, b, channel, 0};
}

uint32_t peal_member(const uint32_t *list, const struct members *members, uint32_t position)
{
    if (list)
        return list[position];
    return members ? members->at(members, position) : position;
}
