/* SPDX-License-Identifier: Apache-2.0 */
/* Which tree each chunk takes, and where each rank sits in it. */
#include "packed.h"

#include <string.h>

/* ---- trees of a root as runs of equal ones ------------------------------------------------ */

struct run {
    uint32_t tree;
    uint32_t length; /* in shares of a block: there are `shares` of them */
};

struct cutter {
    struct packed *packed;
    const struct pack_forest *forest;
    uint32_t shares;
    uint32_t unit; /* shares of one tree */
    struct run *run;
    uint32_t runs;
    uint8_t *mark; /* [share]: a chunk of some block begins here */
};

static int same_tree(const struct pack_forest *forest, uint32_t a, uint32_t b)
{
    const struct pack_hop *x = peal_pack_hops(forest, a), *y = peal_pack_hops(forest, b);
    for (uint32_t i = 0; i + 1 < forest->compute; i++)
        if (x[i].from != y[i].from || x[i].to != y[i].to)
            return 0;
    return 1;
}

/* The root's trees, those of most shares first, so that blocks are cut at the same places. */
static void read_runs(struct cutter *c, uint32_t root)
{
    const struct pack_forest *forest = c->forest;
    c->runs = 0;
    for (uint32_t t = 0; t < forest->ntrees; t++) {
        uint32_t length = (uint32_t)forest->trees[t].multiplicity * c->unit;
        if (forest->trees[t].root != root)
            continue;
        if (c->runs && same_tree(forest, c->run[c->runs - 1].tree, t))
            c->run[c->runs - 1].length += length;
        else
            c->run[c->runs++] = (struct run){t, length};
    }
    for (uint32_t i = 1; i < c->runs; i++) {
        struct run run = c->run[i];
        uint32_t at = i;
        for (; at && c->run[at - 1].length < run.length; at--)
            c->run[at] = c->run[at - 1];
        c->run[at] = run;
    }
}

static uint32_t root_of(const struct packed *packed, uint32_t block)
{
    return packed->blocks == 1 ? packed->root : block;
}

static void mark_cuts(struct cutter *c)
{
    for (uint32_t block = 0; block < c->packed->blocks; block++) {
        uint32_t at = 0;
        read_runs(c, root_of(c->packed, block));
        for (uint32_t i = 0; i < c->runs; i++) {
            c->mark[at] = 1;
            at += c->run[i].length;
        }
    }
}

/* ---- seats ---------------------------------------------------------------------------------- */

static void take_seats(const struct packed *packed, struct packed_way *way,
                       const struct pack_hop *hops, uint32_t at, uint32_t root)
{
    uint32_t n = packed->n;
    struct seat *seat = way->seat + (size_t)at * n;
    uint32_t *child = way->child + (size_t)at * (n - 1), used = 0;
    for (uint32_t r = 0; r < n; r++)
        seat[r] = (struct seat){NO_RANK, 0, 0, 0, 0};
    for (uint32_t i = 0; i < n - 1; i++) { /* parents before children */
        seat[hops[i].to].parent = hops[i].from;
        seat[hops[i].to].depth = seat[hops[i].from].depth + 1;
        seat[hops[i].from].children++;
        way->levels = way->levels > seat[hops[i].to].depth ? way->levels : seat[hops[i].to].depth;
    }
    seat[root].parent = NO_RANK;
    for (uint32_t r = 0; r < n; r++) {
        seat[r].first_child = at * (n - 1) + used;
        for (uint32_t i = 0; i < n - 1; i++)
            if (hops[i].from == r)
                child[used++] = hops[i].to;
    }
}

static void fill_way(struct cutter *c, struct packed_way *way)
{
    const struct packed *packed = c->packed;
    for (uint32_t block = 0; block < packed->blocks; block++) {
        uint32_t root = root_of(packed, block), at = 0, run = 0, end;
        read_runs(c, root);
        end = c->run[0].length;
        for (uint32_t t = 0; t < packed->trees; t++) {
            while (at >= end)
                end += c->run[++run].length;
            take_seats(packed, way, peal_pack_hops(c->forest, c->run[run].tree),
                       block * packed->trees + t, root);
            at += packed->weight[t];
        }
    }
}

/* Chunks of one length, where that makes few enough: tiles are of one length, so that a longer
 * chunk would have the links to itself, and leave most of them idle, when the others are through.
 */
static void mark_evenly(struct cutter *c)
{
    uint64_t length = c->shares;
    for (uint32_t s = 1, last = 0; s <= c->shares; s++)
        if (s == c->shares || c->mark[s]) {
            length = peal_pack_gcd(length, s - last);
            last = s;
        }
    if (c->shares / length * c->packed->blocks > EVEN_CHUNKS_MAX)
        return;
    for (uint64_t s = 0; s < c->shares; s += length)
        c->mark[s] = 1;
}

static uint32_t trees_in(const struct pack_forest *forest)
{
    return forest ? forest->ntrees : 0;
}

static peal_status weigh(struct packed *packed, const struct cutter *c)
{
    uint32_t start = 0, t = 0;
    for (uint32_t s = 0; s < c->shares; s++)
        packed->trees += c->mark[s];
    if ((uint64_t)packed->trees * packed->blocks > PACKED_CHUNKS_MAX)
        return PEAL_ERR_LIMIT;
    packed->weight = peal_calloc(packed->ctx, packed->trees, sizeof *packed->weight);
    if (!packed->weight)
        return PEAL_ERR_MEMORY;
    for (uint32_t s = 1; s <= c->shares; s++)
        if (s == c->shares || c->mark[s]) {
            packed->weight[t++] = s - start;
            start = s;
        }
    packed->weights = c->shares;
    for (uint32_t i = 1; i < packed->trees; i++)
        packed->weighted |= packed->weight[i] != packed->weight[0];
    return PEAL_OK;
}

static peal_status make_way(struct packed *packed, struct packed_way *way)
{
    size_t seats = (size_t)packed->blocks * packed->trees * packed->n;
    way->seat = peal_calloc(packed->ctx, seats, sizeof *way->seat);
    way->child = peal_calloc(packed->ctx, seats, sizeof *way->child);
    return way->seat && way->child ? PEAL_OK : PEAL_ERR_MEMORY;
}

static peal_status cut(struct cutter *c, const struct pack_forest *const forest[PACKED_WAYS])
{
    for (int pass = 0; pass < 2; pass++) {
        for (int w = 0; w < PACKED_WAYS; w++) {
            struct packed_way *way = &c->packed->way[w];
            c->forest = forest[w];
            if (!forest[w])
                continue;
            c->unit = c->shares / (uint32_t)forest[w]->rate.trees;
            if (pass == 0) {
                mark_cuts(c);
                continue;
            }
            PEAL_TRY(make_way(c->packed, way));
            fill_way(c, way);
            if (way->levels > PACKED_LEVELS_MAX)
                return PEAL_ERR_LIMIT;
        }
        if (pass == 0) {
            mark_evenly(c);
            PEAL_TRY(weigh(c->packed, c));
        }
    }
    return PEAL_OK;
}

static void find_link(const struct planner *planner, uint32_t from, uint32_t to,
                      struct packed_link *link)
{
    struct hop hop, back;
    peal_planner_hop(planner, from, to, &hop);
    peal_planner_hop(planner, to, from, &back);
    double ps = peal_load_alone(&hop.path, hop.scale) * 1e12;
    *link = (struct packed_link){.ps = ps < 1 ? 1 : (uint64_t)ps,
                                 .alpha_us = hop.alpha_us,
                                 .gap_us = hop.gap_us,
                                 .way_out = hop.path.uses ? hop.path.use[0].resource : 0,
                                 .back_us = back.alpha_us,
                                 .stores = hop.engine == PEAL_ENGINE_SM,
                                 .nets = peal_plan_engine_nets(hop.engine) != 0};
}

/* The hops of all trees; a pair of ranks is looked up once. */
static void find_links(struct packed *packed, const struct planner *planner, int way)
{
    for (uint32_t i = 0; i < packed->blocks * packed->trees * packed->n; i++) {
        struct seat *seat = &packed->way[way].seat[i];
        uint32_t rank = i % packed->n;
        if (seat->parent == NO_RANK)
            continue;
        struct packed_link *link = peal_packed_link(packed, way, rank, seat->parent);
        if (!link->ps)
            find_link(planner, way == PACKED_UP ? rank : seat->parent,
                      way == PACKED_UP ? seat->parent : rank, link);
        seat->pushed = way == PACKED_UP && !link->stores;
        packed->any_pushed |= (int)seat->pushed;
    }
}

static void count_neighbours(struct packed *packed)
{
    packed->ported = 1;
    for (uint32_t from = 0; from < packed->n; from++) {
        const struct packed_link *link = &packed->link[(size_t)from * packed->n], *first = NULL;
        uint32_t count = 0;
        for (uint32_t to = 0; to < packed->n; to++) {
            if (!link[to].ps)
                continue;
            first = first ? first : &link[to];
            packed->ported &= link[to].stores && link[to].way_out == first->way_out;
            count++;
        }
        packed->neighbours = packed->neighbours > count ? packed->neighbours : count;
    }
}

peal_status peal_packed_seats(struct packed *packed, const struct planner *planner,
                              const struct pack_forest *const forest[PACKED_WAYS])
{
    const struct pack_forest *any = forest[PACKED_DOWN] ? forest[PACKED_DOWN] : forest[PACKED_UP];
    uint64_t down = forest[PACKED_DOWN] ? forest[PACKED_DOWN]->rate.trees : any->rate.trees;
    uint64_t up = forest[PACKED_UP] ? forest[PACKED_UP]->rate.trees : any->rate.trees;
    uint32_t runs = trees_in(forest[PACKED_DOWN]) + trees_in(forest[PACKED_UP]);
    struct cutter c = {.packed = packed};
    peal_ctx *ctx = planner->ctx;
    memset(packed, 0, sizeof *packed);
    packed->ctx = ctx;
    packed->n = any->compute;
    packed->root = any->rate.root;
    packed->blocks = any->rate.root == PACK_EVERY_ROOT ? any->compute : 1;
    c.shares = (uint32_t)(down / peal_pack_gcd(down, up) * up);
    c.run = peal_calloc(ctx, runs, sizeof *c.run);
    c.mark = peal_calloc(ctx, (size_t)c.shares + 1, sizeof *c.mark);
    peal_status status = c.run && c.mark ? cut(&c, forest) : PEAL_ERR_MEMORY;
    packed->link = peal_calloc(ctx, (size_t)packed->n * packed->n, sizeof *packed->link);
    if (status == PEAL_OK && !packed->link)
        status = PEAL_ERR_MEMORY;
    for (int w = 0; status == PEAL_OK && w < PACKED_WAYS; w++)
        if (packed->way[w].levels)
            find_links(packed, planner, w);
    if (status == PEAL_OK)
        count_neighbours(packed);
    packed->lane_ps = (uint64_t)(1e9 / peal_planner_lane_gbs(planner));
    peal_free(ctx, c.run, runs * sizeof *c.run);
    peal_free(ctx, c.mark, ((size_t)c.shares + 1) * sizeof *c.mark);
    return status;
}

/* ---- asked for ------------------------------------------------------------------------------ */

static size_t seats_of(const struct packed *packed)
{
    return (size_t)packed->blocks * packed->trees * packed->n;
}

struct packed_link *peal_packed_link(const struct packed *packed, int way, uint32_t rank,
                                     uint32_t parent)
{
    uint32_t from = way == PACKED_UP ? rank : parent, to = way == PACKED_UP ? parent : rank;
    return &packed->link[(size_t)from * packed->n + to];
}

void peal_packed_free(struct packed *packed)
{
    if (!packed->ctx)
        return;
    peal_packed_undeal(packed);
    peal_free(packed->ctx, packed->turn, peal_packed_turn_cells(packed));
    packed->turn = NULL;
    for (int w = 0; w < PACKED_WAYS; w++) {
        peal_free(packed->ctx, packed->way[w].seat, seats_of(packed) * sizeof(struct seat));
        peal_free(packed->ctx, packed->way[w].child, seats_of(packed) * sizeof(uint32_t));
    }
    peal_free(packed->ctx, packed->weight, packed->trees * sizeof *packed->weight);
    peal_free(packed->ctx, packed->link, (size_t)packed->n * packed->n * sizeof *packed->link);
    packed->ctx = NULL;
}

const struct seat *peal_packed_seat(const struct packed *packed, int way, uint32_t chunk,
                                    uint32_t rank)
{
    return &packed->way[way].seat[(size_t)(chunk / packed->pieces) * packed->n + rank];
}

const uint32_t *peal_packed_children(const struct packed *packed, int way, const struct seat *seat)
{
    return packed->way[way].child + seat->first_child;
}

uint32_t peal_packed_chunks(const struct packed *packed)
{
    return packed->blocks * packed->trees * packed->pieces;
}

double peal_packed_share(const struct packed *packed, uint32_t chunk)
{
    uint32_t weight = packed->weight[chunk / packed->pieces % packed->trees];
    return (double)weight / ((double)packed->weights * packed->pieces * packed->blocks);
}
