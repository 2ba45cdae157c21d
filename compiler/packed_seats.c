/* SPDX-License-Identifier: Apache-2.0 */
/* Which tree each chunk takes, where each rank sits in it, and which channel works it off. */
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
        if (pass == 0)
            PEAL_TRY(weigh(c->packed, c));
    }
    return PEAL_OK;
}

static void mark_pushed(struct packed *packed, const struct planner *planner)
{
    for (uint32_t i = 0; i < packed->blocks * packed->trees * packed->n; i++) {
        struct seat *seat = &packed->way[PACKED_UP].seat[i];
        struct hop hop;
        if (seat->parent == NO_RANK)
            continue;
        peal_planner_hop(planner, i % packed->n, seat->parent, &hop);
        seat->pushed = hop.engine != PEAL_ENGINE_SM;
        packed->any_pushed |= hop.engine != PEAL_ENGINE_SM;
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
    if (status == PEAL_OK && forest[PACKED_UP])
        mark_pushed(packed, planner);
    peal_free(ctx, c.run, runs * sizeof *c.run);
    peal_free(ctx, c.mark, ((size_t)c.shares + 1) * sizeof *c.mark);
    return status;
}

/* ---- chunks and channels ----------------------------------------------------------------------
 */

static size_t block_chunks(const struct packed *packed)
{
    return (size_t)packed->trees * packed->pieces;
}

uint32_t peal_packed_chunks(const struct packed *packed)
{
    return (uint32_t)(packed->blocks * block_chunks(packed));
}

static size_t fold_lanes(const struct packed *packed)
{
    return (size_t)packed->channels * packed->way[PACKED_UP].levels * packed->n;
}

static void undeal(struct packed *packed)
{
    size_t chunks = block_chunks(packed);
    peal_free(packed->ctx, packed->stage, (fold_lanes(packed) + 1) * sizeof *packed->stage);
    peal_free(packed->ctx, packed->channel, chunks * sizeof *packed->channel);
    peal_free(packed->ctx, packed->slot,
              packed->blocks * chunks * packed->n * sizeof *packed->slot);
    packed->channel = packed->slot = packed->stage = NULL;
    packed->width = packed->stages = 0;
}

/* The heaviest that is left goes to the channel that has least. */
static void deal_channels(struct packed *packed, uint32_t *load)
{
    uint32_t chunks = (uint32_t)block_chunks(packed);
    for (uint32_t i = 0; i < chunks; i++)
        packed->channel[i] = NO_RANK;
    for (uint32_t i = 0; i < chunks; i++) {
        uint32_t heavy = NO_RANK, least = 0;
        for (uint32_t k = 0; k < chunks; k++)
            if (packed->channel[k] == NO_RANK &&
                (heavy == NO_RANK ||
                 packed->weight[k / packed->pieces] > packed->weight[heavy / packed->pieces]))
                heavy = k;
        for (uint32_t c = 1; c < packed->channels; c++)
            if (load[c] < load[least])
                least = c;
        packed->channel[heavy] = least;
        load[least] += packed->weight[heavy / packed->pieces];
    }
}

/* Slots are numbered in the order of chunks, and of children in each. */
static void number_slots(struct packed *packed, uint32_t *used)
{
    uint32_t chunks = peal_packed_chunks(packed);
    for (uint32_t c = 0; c < chunks; c++)
        for (uint32_t r = 0; r < packed->n; r++) {
            uint32_t *next = &used[peal_packed_channel(packed, c) * packed->n + r];
            packed->slot[(size_t)c * packed->n + r] = *next;
            *next += peal_packed_seat(packed, PACKED_UP, c, r)->children;
            packed->width = packed->width > *next ? packed->width : *next;
        }
}

/* As many as the lane may have transfers in flight, where a fold leaves through a stage. */
static uint32_t lane_stages(const struct packed *packed, uint32_t channel, uint32_t depth,
                            uint32_t rank)
{
    uint32_t transfers = 0, staged = 0;
    for (uint32_t c = 0; c < peal_packed_chunks(packed); c++) {
        const struct seat *seat = peal_packed_seat(packed, PACKED_UP, c, rank);
        if (seat->depth != depth || peal_packed_channel(packed, c) != channel)
            continue;
        transfers++;
        staged |= seat->pushed && seat->children;
    }
    return !staged ? 0 : transfers < BUILD_EVENTS ? transfers : BUILD_EVENTS;
}

static void number_stages(struct packed *packed)
{
    uint32_t levels = packed->way[PACKED_UP].levels, n = packed->n;
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t channel = 0; channel < packed->channels; channel++) {
            uint32_t next = 0;
            for (uint32_t depth = 1; depth <= levels; depth++) {
                packed->stage[(channel * levels + depth - 1) * n + r] = next;
                next += packed->any_pushed ? lane_stages(packed, channel, depth, r) : 0;
            }
            packed->stages = packed->stages > next ? packed->stages : next;
        }
}

peal_status peal_packed_deal(struct packed *packed, uint32_t pieces, uint32_t channels)
{
    undeal(packed);
    packed->pieces = pieces;
    packed->channels = channels;
    size_t chunks = block_chunks(packed), cells = packed->blocks * chunks * packed->n;
    size_t words = (size_t)channels * (packed->n + 1);
    uint32_t *work = peal_calloc(packed->ctx, words, sizeof *work);
    packed->channel = peal_calloc(packed->ctx, chunks, sizeof *packed->channel);
    packed->slot = peal_calloc(packed->ctx, cells, sizeof *packed->slot);
    packed->stage = peal_calloc(packed->ctx, fold_lanes(packed) + 1, sizeof *packed->stage);
    peal_status status =
        work && packed->channel && packed->slot && packed->stage ? PEAL_OK : PEAL_ERR_MEMORY;
    if (status == PEAL_OK) {
        deal_channels(packed, work);
        if (packed->way[PACKED_UP].levels) {
            number_slots(packed, work + channels);
            number_stages(packed);
        }
    }
    peal_free(packed->ctx, work, words * sizeof *work);
    return status;
}

/* ---- turns ---------------------------------------------------------------------------------- */

static size_t turn_cells(const struct packed *packed)
{
    return (size_t)packed->way[PACKED_UP].levels * packed->n * packed->n;
}

/* By parent; at the rank itself, which is no parent of its own, how many there are. */
static uint8_t *turns_at(const struct packed *packed, uint32_t depth, uint32_t rank)
{
    return packed->turn + ((size_t)(depth - 1) * packed->n + rank) * packed->n;
}

peal_status peal_packed_turns(struct packed *packed)
{
    const struct packed_way *up = &packed->way[PACKED_UP];
    uint32_t n = packed->n;
    if (!up->levels)
        return PEAL_OK;
    packed->turn = peal_calloc(packed->ctx, turn_cells(packed), 1);
    if (!packed->turn)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < packed->blocks * packed->trees * n; i++)
        if (up->seat[i].parent != NO_RANK)
            turns_at(packed, up->seat[i].depth, i % n)[up->seat[i].parent] = 1;
    for (uint32_t depth = 1; depth <= up->levels; depth++)
        for (uint32_t r = 0; r < n; r++) {
            uint8_t *turn = turns_at(packed, depth, r), count = 0;
            for (uint32_t i = 1; i < n; i++) {
                uint8_t parent = turn[(r + i) % n];
                turn[(r + i) % n] = count;
                count = (uint8_t)(count + parent);
            }
            turn[r] = count;
        }
    return PEAL_OK;
}

uint32_t peal_packed_turn(const struct packed *packed, uint32_t channel, uint32_t rank,
                          const struct seat *seat)
{
    const uint8_t *turn = turns_at(packed, seat->depth, rank);
    uint32_t count = turn[rank];
    return (turn[seat->parent] + count - channel * count / packed->channels) % count;
}

void peal_packed_free(struct packed *packed)
{
    if (!packed->ctx)
        return;
    peal_free(packed->ctx, packed->turn, turn_cells(packed));
    packed->turn = NULL;
    size_t seats = (size_t)packed->blocks * packed->trees * packed->n;
    undeal(packed);
    for (int w = 0; w < PACKED_WAYS; w++) {
        peal_free(packed->ctx, packed->way[w].seat, seats * sizeof *packed->way[w].seat);
        peal_free(packed->ctx, packed->way[w].child, seats * sizeof *packed->way[w].child);
    }
    peal_free(packed->ctx, packed->weight, packed->trees * sizeof *packed->weight);
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

uint32_t peal_packed_slot(const struct packed *packed, uint32_t chunk, uint32_t rank)
{
    uint32_t parent = peal_packed_seat(packed, PACKED_UP, chunk, rank)->parent;
    const struct seat *above = peal_packed_seat(packed, PACKED_UP, chunk, parent);
    const uint32_t *child = peal_packed_children(packed, PACKED_UP, above);
    uint32_t which = 0;
    while (child[which] != rank)
        which++;
    return packed->slot[(size_t)chunk * packed->n + parent] + which;
}

uint32_t peal_packed_channel(const struct packed *packed, uint32_t chunk)
{
    return packed->channel[chunk % block_chunks(packed)];
}

uint32_t peal_packed_stage(const struct packed *packed, uint32_t channel, uint32_t depth,
                           uint32_t rank)
{
    uint32_t lane = channel * packed->way[PACKED_UP].levels + depth - 1;
    return packed->stage[lane * packed->n + rank];
}

double peal_packed_share(const struct packed *packed, uint32_t chunk)
{
    uint32_t weight = packed->weight[chunk / packed->pieces % packed->trees];
    return (double)weight / ((double)packed->weights * packed->pieces * packed->blocks);
}

/* ---- lanes --------------------------------------------------------------------------------------
 */

static uint32_t up_lanes(const struct packed *packed)
{
    return packed->way[PACKED_UP].levels ? packed->way[PACKED_UP].levels + 1 : 0;
}

uint32_t peal_packed_lane_kinds(const struct packed *packed)
{
    return peal_packed_leaf_lane(packed) + 1;
}

uint32_t peal_packed_leaf_lane(const struct packed *packed)
{
    return up_lanes(packed) + packed->way[PACKED_DOWN].levels;
}

/* The root of a chunk that came up sends it down with the same step that folds it. */
uint32_t peal_packed_lane(const struct packed *packed, int way, const struct seat *seat)
{
    if (way == PACKED_UP)
        return seat->depth;
    if (seat->depth == 0 && packed->way[PACKED_UP].levels)
        return 0;
    return seat->children ? up_lanes(packed) + seat->depth : peal_packed_leaf_lane(packed);
}

int peal_packed_inner(const struct packed *packed, uint32_t chunk, uint32_t rank)
{
    return peal_packed_seat(packed, PACKED_DOWN, chunk, rank)->children != 0;
}
