/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a ring: inside a host along its widest links, between hosts rail to rail. */
#include "compiler.h"

#include <string.h>

#define LOCAL_MAX 64u     /* larger hosts keep their own order */
#define SEARCH_MAX 20000u /* nodes visited before the best cycle so far is taken */

struct search {
    uint32_t n;
    double cap[LOCAL_MAX][LOCAL_MAX];
    uint32_t path[LOCAL_MAX];
    uint32_t best[LOCAL_MAX];
    double best_cap;
    uint8_t used[LOCAL_MAX];
    uint32_t visited;
};

static void extend(struct search *s, uint32_t depth, double cap)
{
    if (cap <= s->best_cap || s->visited++ > SEARCH_MAX)
        return;
    uint32_t last = s->path[depth - 1];
    if (depth == s->n) {
        double close = s->cap[last][s->path[0]] < cap ? s->cap[last][s->path[0]] : cap;
        if (close > s->best_cap) {
            s->best_cap = close;
            memcpy(s->best, s->path, sizeof s->best);
        }
        return;
    }
    for (uint32_t k = 1; k < s->n; k++) {
        uint32_t next = (last + k) % s->n;
        double least = s->cap[last][next] < cap ? s->cap[last][next] : cap;
        if (s->used[next] || least <= s->best_cap)
            continue;
        s->used[next] = 1;
        s->path[depth] = next;
        extend(s, depth + 1, least);
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
            s->cap[i][j] = path.direct ? path.beta_gbs : path.beta_gbs / 8;
        }
}

/* Widest cycles one after the other, each on what the ones before have left. On a switch all
 * orders are equal and the natural one wins. */
static void local_order(const struct planner *planner, uint32_t first, uint32_t n, uint32_t channel,
                        uint32_t *order)
{
    static const struct search none = {0};
    struct search s = none;
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    if (n < 3 || n > LOCAL_MAX)
        return;
    s.n = n;
    fill_capacity(planner, first, &s);
    double uniform = s.cap[0][1];
    int equal = 1;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            equal = equal && (i == j || s.cap[i][j] == uniform);
    if (equal)
        return;
    double widest = 0;
    for (uint32_t c = 0; c <= channel; c++) {
        s.best_cap = 0;
        s.visited = 0;
        memset(s.used, 0, sizeof s.used);
        s.used[0] = 1;
        s.path[0] = 0;
        extend(&s, 1, 1e30);
        if (s.best_cap <= 0 || s.best_cap < widest / 4) { /* used up: start over */
            fill_capacity(planner, first, &s);
            widest = 0;
            if (c)
                c--;
            else
                return;
            continue;
        }
        widest = s.best_cap > widest ? s.best_cap : widest;
        for (uint32_t i = 0; i < n; i++)
            s.cap[s.best[i]][s.best[(i + 1) % n]] -= s.best_cap;
    }
    memcpy(order, s.best, n * sizeof *order);
}

void peal_ring_order(const struct planner *planner, uint32_t channel, uint32_t *order)
{
    const struct group *group = &planner->group;
    uint32_t local[LOCAL_MAX];
    for (uint32_t h = 0; h < group->nhosts; h++) {
        uint32_t first = group->host_first[h], n = group->host_first[h + 1] - first;
        if (n > LOCAL_MAX) {
            for (uint32_t i = 0; i < n; i++)
                order[first + i] = first + i;
            continue;
        }
        local_order(planner, first, n, channel, local);
        /* Each channel enters and leaves the host elsewhere, through other NICs; odd hosts run
         * backwards, so that a ring leaves one host and enters the next on the same rail. */
        uint32_t turn = group->nhosts > 1 ? channel % n : 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t at = (turn + i) % n;
            order[first + (h % 2 ? n - 1 - i : i)] = first + local[at];
        }
    }
}
