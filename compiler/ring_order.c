/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a ring: inside a host along its widest links, between hosts rail to rail. Channels
 * share out the links of a mesh: as many disjoint rings as they allow. */
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
            peal_topo_path(planner->fabric, first + i, first + j, &path);
            /* A path that is not direct costs more than its bandwidth tells. */
            double gbs = path.direct ? path.beta_gbs : path.beta_gbs / 8;
            s->cap[i][j] = (int64_t)(gbs * 1e3 + 0.5);
        }
}

/* 1: the paths of two pairs share what limits them, as on a switch, where all orders are equal. */
static int shared(const struct planner *planner, uint32_t first)
{
    struct topo_path one, two;
    peal_topo_path(planner->fabric, first, first + 1, &one);
    peal_topo_path(planner->fabric, first, first + 2, &two);
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

/* Widest cycles one after the other, each on what the ones before have left; when no more than a
 * remainder is left, from the start again. */
static void find_orders(const struct planner *planner, uint32_t first, struct ring_host *host)
{
    static const struct search none = {0};
    struct search s = none;
    uint32_t n = host->n;
    for (uint32_t c = 0; c < CHANNELS_MAX; c++)
        for (uint32_t i = 0; i < n && n <= RING_LOCAL_MAX; i++)
            host->order[c][i] = i;
    if (n < 3 || n > RING_LOCAL_MAX)
        return;
    s.n = n;
    fill_capacity(planner, first, &s);
    if ((uniform(&s) && shared(planner, first)) || !widest_cycle(&s))
        return;
    int64_t unit = unit_of(&s);
    host->rings = CHANNELS_MAX + 1;
    for (uint32_t c = 0; c < CHANNELS_MAX; c++) {
        if (c && (!widest_cycle(&s) || s.best_cap < unit)) {
            host->rings = host->rings > CHANNELS_MAX ? c : host->rings;
            fill_capacity(planner, first, &s);
            (void)widest_cycle(&s);
        }
        memcpy(host->order[c], s.best, n * sizeof *s.best);
        for (uint32_t i = 0; i < n; i++)
            s.cap[s.best[i]][s.best[(i + 1) % n]] -= unit;
    }
}

static const struct ring_host *host_of(const struct planner *planner, uint32_t host)
{
    const struct group *group = &planner->group;
    uint32_t n = group->host_first[host + 1] - group->host_first[host];
    uint32_t type = peal_topo_host_type(planner->fabric, host);
    for (uint32_t i = 0; i < planner->nrings; i++)
        if (planner->rings[i].type == type && planner->rings[i].n == n)
            return &planner->rings[i];
    return NULL;
}

peal_status peal_ring_find(struct planner *planner)
{
    const struct group *group = &planner->group;
    for (uint32_t h = 0; h < group->nhosts; h++) {
        if (host_of(planner, h))
            continue;
        PEAL_TRY(peal_grow(planner->ctx, (void **)&planner->rings, &planner->rings_capacity,
                           (size_t)planner->nrings + 1, sizeof *planner->rings, PLAN_RANKS_MAX));
        struct ring_host *host = &planner->rings[planner->nrings];
        host->type = peal_topo_host_type(planner->fabric, h);
        host->n = group->host_first[h + 1] - group->host_first[h];
        host->rings = 1;
        find_orders(planner, group->host_first[h], host);
        planner->nrings++;
    }
    return PEAL_OK;
}

uint32_t peal_ring_count(const struct planner *planner)
{
    return host_of(planner, 0)->rings;
}

void peal_ring_order(const struct planner *planner, uint32_t channel, uint32_t *order)
{
    const struct group *group = &planner->group;
    for (uint32_t h = 0; h < group->nhosts; h++) {
        uint32_t first = group->host_first[h], n = group->host_first[h + 1] - first;
        if (n > RING_LOCAL_MAX) {
            for (uint32_t i = 0; i < n; i++)
                order[first + i] = first + i;
            continue;
        }
        const uint32_t *local = host_of(planner, h)->order[channel % CHANNELS_MAX];
        /* Each channel enters and leaves the host elsewhere, through other NICs; odd hosts run
         * backwards, so that a ring leaves one host and enters the next on the same rail. */
        uint32_t turn = group->nhosts > 1 ? channel % n : 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t at = (turn + i) % n;
            order[first + (h % 2 ? n - 1 - i : i)] = first + local[at];
        }
    }
}
