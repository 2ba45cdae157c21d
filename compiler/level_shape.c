/* SPDX-License-Identifier: Apache-2.0 */
/* The levels of a group: which ranks form a unit, how units nest, who holds a shard. Derived from
 * what the fabric says of each rank: its PCIe switch or NVLink domain, NUMA node, host, pod. */
#include "level.h"

#include <string.h>

static uint32_t host_ranks(const struct group *group, uint32_t host)
{
    return group->host_first[host + 1] - group->host_first[host];
}

/* ---- who holds a shard, where a unit is a host ----------------------------------- */

static uint32_t distinct_nics(const struct group *group, uint32_t host, uint32_t *first_of)
{
    uint32_t count = 0;
    int32_t seen[LEVEL_LOCAL_MAX];
    for (uint32_t i = 0; i < host_ranks(group, host) && i < LEVEL_LOCAL_MAX; i++) {
        int32_t nic =
            peal_topo_rank_nic(group->fabric, peal_group_rank(group, group->host_first[host] + i));
        uint32_t k = 0;
        while (k < count && seen[k] != nic)
            k++;
        if (k < count)
            continue;
        seen[count] = nic;
        first_of[count++] = i;
    }
    return count;
}

uint32_t peal_level_nics(const struct group *group, uint32_t host)
{
    uint32_t first_of[LEVEL_LOCAL_MAX];
    return distinct_nics(group, host, first_of);
}

/* With as many gateways as NICs each is a rank at a NIC of its own, else they are spread evenly. */
static uint32_t gateway(const struct group *group, uint32_t host, uint32_t gateways, uint32_t shard)
{
    uint32_t first_of[LEVEL_LOCAL_MAX];
    uint32_t ranks = host_ranks(group, host);
    uint32_t local = shard;
    if (gateways < ranks) {
        uint32_t nics = distinct_nics(group, host, first_of);
        local = nics == gateways ? first_of[shard] : shard * ranks / gateways;
    }
    return group->host_first[host] + local;
}

/* ---- units -------------------------------------------------------------------------- */

/* Which unit of a word the rank is in, the same for all ranks of that unit on its host. */
static uint32_t unit_key(const struct group *group, uint32_t rank, uint32_t word)
{
    switch (word) {
    case LEVEL_PAIR:
        return peal_topo_rank_unit(group->fabric, peal_group_rank(group, rank), TOPO_UNIT_PAIR);
    case LEVEL_NUMA:
        return peal_topo_rank_unit(group->fabric, peal_group_rank(group, rank), TOPO_UNIT_NUMA);
    case LEVEL_HOST:
        return peal_group_host(group, rank);
    default:
        return peal_topo_rank_unit(group->fabric, peal_group_rank(group, rank), TOPO_UNIT_POD);
    }
}

/* 1: two ranks are in different units of the word, or of one around it. */
static int apart(const struct group *group, uint32_t mask, uint32_t word, uint32_t a, uint32_t b)
{
    for (uint32_t w = word; w < LEVEL_WORDS; w++)
        if (mask >> w & 1 && unit_key(group, a, w) != unit_key(group, b, w))
            return 1;
    return 0;
}

static int comes_later(const struct group *group, uint32_t mask, uint32_t a, uint32_t b)
{
    for (uint32_t w = LEVEL_HOST; w-- > 0;)
        if (mask >> w & 1 && unit_key(group, a, w) != unit_key(group, b, w))
            return unit_key(group, a, w) > unit_key(group, b, w);
    return a > b;
}

/* The ranks of each host, sorted so that every unit is a run. */
static void sort_members(const struct group *group, uint32_t mask, struct level_layout *layout)
{
    for (uint32_t h = 0; h < group->nhosts; h++)
        for (uint32_t r = group->host_first[h]; r < group->host_first[h + 1]; r++) {
            uint32_t at = r;
            for (; at > group->host_first[h] && comes_later(group, mask, layout->member[at - 1], r);
                 at--)
                layout->member[at] = layout->member[at - 1];
            layout->member[at] = r;
        }
}

static void cut_units(const struct group *group, uint32_t mask, uint32_t finest,
                      struct level_layout *layout)
{
    layout->units = 0;
    for (uint32_t i = 0; i < group->n; i++) {
        if (!i || apart(group, mask, finest, layout->member[i - 1], layout->member[i]))
            layout->first[layout->units++] = i;
        uint32_t unit = layout->units - 1, rank = layout->member[i];
        layout->unit_of[rank] = unit;
        layout->index_of[rank] = i - layout->first[unit];
        layout->shard_of[rank] = NO_RANK;
        uint32_t ranks = i + 1 - layout->first[unit];
        layout->size[0] = ranks > layout->size[0] ? ranks : layout->size[0];
    }
    layout->first[layout->units] = group->n;
}

/* Units of `finer` runs in each unit of the word: equally many, or 0. *of: units of the word. */
static uint32_t equal_runs(const struct group *group, uint32_t mask, uint32_t word,
                           const struct level_layout *layout, uint32_t *of)
{
    uint32_t run = 0, each = 0;
    *of = 0;
    for (uint32_t u = 0; u <= layout->units; u++) {
        int cut = u == layout->units ||
                  (u && apart(group, mask, word, layout->member[layout->first[u - 1]],
                              layout->member[layout->first[u]]));
        if (cut) {
            if (each && run != each)
                return 0;
            each = run;
            run = 0;
            ++*of;
        }
        run++;
    }
    return each;
}

/* Sizes of the levels above the innermost units; 0 when they are not equal everywhere. */
static int nest(const struct group *group, uint32_t mask, uint32_t finest,
                struct level_layout *layout)
{
    uint32_t below = 1, last = finest;
    layout->levels = 1;
    for (uint32_t w = finest + 1; w < LEVEL_WORDS; w++) {
        uint32_t of, each;
        if (!(mask >> w & 1))
            continue;
        each = equal_runs(group, mask, w, layout, &of);
        if (!each)
            return 0;
        layout->stride[layout->levels] = below;
        layout->inside[layout->levels] = w <= LEVEL_HOST;
        layout->size[layout->levels++] = each / below;
        below = each;
        last = w;
    }
    layout->stride[layout->levels] = below;
    layout->inside[layout->levels] = last < LEVEL_HOST;
    layout->size[layout->levels++] = layout->units / below;
    return last >= LEVEL_HOST || group->nhosts == 1;
}

static int equal_units(const struct level_layout *layout)
{
    for (uint32_t u = 0; u < layout->units; u++)
        if (layout->first[u + 1] - layout->first[u] != layout->size[0])
            return 0;
    return 1;
}

/* ---- the whole ------------------------------------------------------------------------ */

static void hold_shards(const struct planner *planner, const struct candidate *candidate,
                        struct level_layout *layout)
{
    const struct group *group = &planner->group;
    int rooted =
        planner->request.collective == PEAL_BROADCAST || planner->request.collective == PEAL_REDUCE;
    uint32_t root_unit = layout->unit_of[planner->request.root];
    layout->shards = candidate->levels == 1u << LEVEL_HOST ? candidate->gateways : layout->size[0];
    for (uint32_t u = 0; u < layout->units; u++)
        for (uint32_t s = 0; s < layout->shards; s++) {
            uint32_t rank = candidate->levels == 1u << LEVEL_HOST
                                ? gateway(group, u, layout->shards, s)
                                : layout->member[layout->first[u] + s];
            if (rooted && layout->shards == 1 && u == root_unit)
                rank = planner->request.root;
            layout->holder[u * layout->shards + s] = rank;
            layout->shard_of[rank] = s;
        }
}

/* What each level does, and the pieces of a shard that follow from it. */
static void assign_parts(const struct planner *planner, const struct candidate *candidate,
                         struct level_layout *layout)
{
    peal_collective collective = planner->request.collective;
    layout->rails = collective == PEAL_GATHER || collective == PEAL_SCATTER;
    layout->blocks =
        collective == PEAL_REDUCE_SCATTER || collective == PEAL_ALLGATHER || layout->rails;
    layout->whole = collective != PEAL_REDUCE_SCATTER && collective != PEAL_REDUCE;
    layout->pieces = 1;
    for (uint32_t k = 0; k < layout->levels; k++) {
        int top = k + 1 == layout->levels;
        layout->part[k] = layout->inside[k] ? candidate->inner : candidate->outer;
        if (!top && layout->part[k] == PART_DOUBLING)
            layout->part[k] =
                PART_DIRECT; /* which leaves a piece of the shard for the next level */
        /* Above the top an allreduce may keep shards whole; trees and doubling do. */
        layout->split[k] =
            layout->blocks ||
            (collective == PEAL_ALLREDUCE &&
             !(top && (layout->part[k] == PART_TREE || layout->part[k] == PART_DOUBLING)));
        if (k && layout->split[k]) {
            layout->piece_stride[k] = layout->pieces;
            layout->pieces *= layout->size[k];
        }
    }
    layout->runs = candidate->pieces ? candidate->pieces : 1;
    layout->pieces *= layout->runs;
}

static peal_status allocate(struct level_layout *layout, uint32_t n)
{
    uint32_t *room;
    layout->room = 7 * (size_t)n + 1; /* units and holders are no more than ranks */
    room = peal_calloc(layout->ctx, layout->room, sizeof *room);
    if (!room)
        return PEAL_ERR_MEMORY;
    layout->first = room;
    layout->member = room + n + 1;
    layout->holder = layout->member + n;
    layout->unit_of = layout->holder + n;
    layout->index_of = layout->unit_of + n;
    layout->shard_of = layout->index_of + n;
    return PEAL_OK;
}

static int fill(const struct planner *planner, const struct candidate *candidate,
                struct level_layout *layout)
{
    const struct group *group = &planner->group;
    uint32_t mask = candidate->levels, finest = 0;
    while (finest < LEVEL_WORDS && !(mask >> finest & 1))
        finest++;
    if (finest > LEVEL_HOST || group->local_max > LEVEL_LOCAL_MAX)
        return 0;
    layout->ranks = group->n;
    sort_members(group, mask, layout);
    cut_units(group, mask, finest, layout);
    layout->inside[0] = 1;
    if (!nest(group, mask, finest, layout))
        return 0;
    if (mask == 1u << LEVEL_HOST ? candidate->gateways > group->local_min : !equal_units(layout))
        return 0;
    assign_parts(planner, candidate, layout);
    hold_shards(planner, candidate, layout);
    /* A block belongs to a rank, so every rank holds one. */
    return !layout->blocks || (equal_units(layout) && layout->shards == layout->size[0]);
}

peal_status peal_level_layout(const struct planner *planner, const struct candidate *candidate,
                              struct level_layout **layout_out)
{
    struct level_layout *layout = peal_calloc(planner->ctx, 1, sizeof *layout);
    *layout_out = NULL;
    if (!layout)
        return PEAL_ERR_MEMORY;
    layout->ctx = planner->ctx;
    peal_status status = allocate(layout, planner->group.n);
    if (status == PEAL_OK && fill(planner, candidate, layout))
        *layout_out = layout;
    else
        peal_level_layout_free(layout);
    return status;
}

void peal_level_layout_free(struct level_layout *layout)
{
    if (!layout)
        return;
    for (uint32_t k = 0; k < LEVEL_MAX; k++)
        peal_level_peers_free(&layout->peers[k], layout);
    peal_free(layout->ctx, layout->first, layout->room * sizeof *layout->first);
    peal_free(layout->ctx, layout, sizeof *layout);
}

uint32_t peal_level_coordinate(const struct level_layout *layout, uint32_t unit, uint32_t level)
{
    return unit / layout->stride[level] % layout->size[level];
}

/* ---- what there is to choose from --------------------------------------------------------- */

/* 1: the first host's NUMA nodes reach each other over the link between sockets. */
static int slow_between_numas(const struct planner *planner)
{
    const struct group *group = &planner->group;
    for (uint32_t r = 1; group->accelerators && r < group->host_first[1]; r++) {
        struct topo_path path;
        if (unit_key(group, r, LEVEL_NUMA) == unit_key(group, 0, LEVEL_NUMA))
            continue;
        peal_group_path(group, 0, r, &path);
        return path.link_class == PEAL_LINK_SMP;
    }
    return 0;
}

uint32_t peal_level_choices(const struct planner *planner, uint32_t *masks)
{
    const struct group *group = &planner->group;
    uint32_t count = 0, host = 1u << LEVEL_HOST, numa = 1u << LEVEL_NUMA;
    if (planner->levels) {
        masks[0] = planner->levels;
        return 1;
    }
    /* On one host it is a two-shot in two steps: made only when it is asked for. */
    if (group->nhosts > 1 || planner->algorithm == ALGO_HIERARCHICAL)
        masks[count++] = host;
    if (slow_between_numas(planner))
        masks[count++] = group->nhosts > 1 ? numa | host : numa;
    if (unit_key(group, group->n - 1, LEVEL_POD) != unit_key(group, 0, LEVEL_POD))
        masks[count++] = host | 1u << LEVEL_POD;
    return count;
}
