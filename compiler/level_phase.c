/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of a rank, and the names that they share: chunks, semaphores, scratch. */
#include "level.h"

/* ---- which phases ---------------------------------------------------------------------- */

struct list {
    const struct level_layout *layout;
    struct level_phase *phase;
    uint32_t count;
    uint32_t unit;
    uint32_t tree;
};

static uint32_t peers_at(const struct list *list, uint32_t level)
{
    uint32_t unit = list->unit;
    return level ? list->layout->size[level]
                 : list->layout->first[unit + 1] - list->layout->first[unit];
}

static void add(struct list *list, enum level_kind kind, uint32_t level)
{
    struct level_phase *phase = &list->phase[list->count++];
    *phase = (struct level_phase){.kind = kind, .level = level, .root = NO_RANK};
    phase->way.part = list->layout->part[level];
    phase->way.n = peers_at(list, level);
    phase->way.tree = list->tree;
}

/* A phase with one root: `root` of the peers feeds or drains the others. */
static void add_rooted(struct list *list, enum level_kind kind, uint32_t level, uint32_t root)
{
    add(list, kind, level);
    struct level_phase *phase = &list->phase[list->count - 1];
    phase->way.single = 1;
    phase->way.fed = root != NO_RANK;
    phase->root = root == NO_RANK ? peal_level_tree_root(phase->way.n, list->tree) : root;
}

static int has_level(const struct list *list, uint32_t level, int holds)
{
    return list->layout->size[level] > 1 && (level == 0 || holds);
}

static void allreduce(struct list *list, int holds)
{
    const struct level_layout *layout = list->layout;
    uint32_t top = layout->levels;
    for (uint32_t k = 0; k < top; k++) {
        if (!has_level(list, k, holds))
            continue;
        if (layout->split[k]) {
            add(list, LEVEL_FOLD, k);
        } else if (layout->part[k] == PART_DOUBLING) {
            add(list, LEVEL_DOUBLE, k);
        } else {
            add_rooted(list, LEVEL_FOLD, k, NO_RANK);
            add_rooted(list, LEVEL_SPREAD, k, NO_RANK);
        }
    }
    for (uint32_t k = top; k-- > 0;)
        if (has_level(list, k, holds) && layout->split[k])
            add(list, LEVEL_SPREAD, k);
}

/* 1: what the root has reaches the rank's unit on this level or passes through it. */
static int on_the_way(const struct level_layout *layout, uint32_t level, uint32_t unit,
                      uint32_t root_unit)
{
    for (uint32_t j = 1; j < level; j++)
        if (peal_level_coordinate(layout, unit, j) != peal_level_coordinate(layout, root_unit, j))
            return 0;
    return 1;
}

static void rooted_levels(struct list *list, enum level_kind kind, uint32_t root)
{
    const struct level_layout *layout = list->layout;
    uint32_t home = layout->unit_of[root];
    for (uint32_t i = 1; i < layout->levels; i++) {
        uint32_t k = kind == LEVEL_FOLD ? i : layout->levels - i;
        if (has_level(list, k, 1) && on_the_way(layout, k, list->unit, home))
            add_rooted(list, kind, k, peal_level_coordinate(layout, home, k));
    }
}

static void broadcast(struct list *list, uint32_t root, uint32_t rank, int holds)
{
    const struct level_layout *layout = list->layout;
    int spread = layout->size[0] > 1;
    if (spread && layout->unit_of[root] == list->unit && (holds || rank == root))
        add(list, LEVEL_SCATTER, 0);
    if (holds)
        rooted_levels(list, LEVEL_SPREAD, root);
    if (spread)
        add(list, LEVEL_SPREAD, 0);
}

static void reduce(struct list *list, uint32_t root, uint32_t rank, int holds)
{
    const struct level_layout *layout = list->layout;
    int folds = layout->size[0] > 1;
    if (folds)
        add(list, LEVEL_FOLD, 0);
    if (holds)
        rooted_levels(list, LEVEL_FOLD, root);
    if (folds && layout->unit_of[root] == list->unit && (holds || rank == root))
        add(list, LEVEL_GATHER, 0);
}

uint32_t peal_level_phases(const struct level_layout *layout, peal_collective collective,
                           uint32_t root, uint32_t tree, uint32_t rank, struct level_phase *phase)
{
    struct list list = {layout, phase, 0, layout->unit_of[rank], tree};
    int holds = layout->shard_of[rank] != NO_RANK;
    switch (collective) {
    case PEAL_BROADCAST:
        broadcast(&list, root, rank, holds);
        break;
    case PEAL_REDUCE:
        reduce(&list, root, rank, holds);
        break;
    case PEAL_REDUCE_SCATTER:
        for (uint32_t k = 0; k < layout->levels; k++)
            if (has_level(&list, k, holds))
                add(&list, LEVEL_FOLD, k);
        break;
    case PEAL_ALLGATHER:
        for (uint32_t k = layout->levels; k-- > 0;)
            if (has_level(&list, k, holds))
                add(&list, LEVEL_SPREAD, k);
        break;
    default:
        allreduce(&list, holds);
    }
    return list.count;
}

/* What a rank without a shard does, no other phase of it waits for. */
const struct level_phase *peal_level_before(const struct level_run *run,
                                            const struct level_phase *phase)
{
    return phase > run->phase && run->shard != NO_RANK ? phase - 1 : NULL;
}

const struct level_phase *peal_level_after(const struct level_run *run,
                                           const struct level_phase *phase)
{
    return phase + 1 < run->phase + run->phases && run->shard != NO_RANK ? phase + 1 : NULL;
}

/* ---- the root's deputy ------------------------------------------------------------------------
 */

int peal_level_deputed(const struct level_layout *layout, const struct planner *planner)
{
    int reduces = planner->request.collective == PEAL_REDUCE;
    return (reduces || planner->request.collective == PEAL_BROADCAST) && layout->units > 1 &&
           layout->shards > 1 && layout->part[0] == PART_DIRECT &&
           layout->shard_of[planner->request.root] != NO_RANK &&
           (!reduces || planner->group.direct_hosts);
}

uint32_t peal_level_deputy(const struct level_layout *layout, const struct planner *planner,
                           uint32_t unit, uint32_t channel)
{
    uint32_t root = planner->request.root, shards = layout->shards;
    if (unit != layout->unit_of[root] || !peal_level_deputed(layout, planner))
        return NO_RANK;
    uint32_t shard = (layout->shard_of[root] + 1 + channel % (shards - 1)) % shards;
    return layout->index_of[layout->holder[unit * shards + shard]];
}

/* ---- names --------------------------------------------------------------------------------- */

uint32_t peal_level_sem(const struct level_run *run, uint32_t level, uint32_t which)
{
    return (run->channel * run->layout->levels + level) * LEVEL_SEMS + which;
}

uint32_t peal_level_ready(const struct level_run *run, const struct level_phase *phase)
{
    int spreads = phase->kind == LEVEL_SPREAD || phase->kind == LEVEL_GATHER;
    return peal_level_sem(run, phase->level, spreads ? LEVEL_SELF_SPREAD : LEVEL_SELF_FOLD);
}

uint32_t peal_level_region(const struct level_run *run, uint32_t offset)
{
    return run->channel * run->layout->regions + offset;
}

uint32_t peal_level_rounds(const struct level_layout *layout, uint32_t level)
{
    uint32_t rounds = layout->runs;
    for (uint32_t k = level + 1; k < layout->levels; k++)
        rounds *= layout->split[k] ? layout->size[k] : 1;
    return rounds;
}

/* The highest level turns slowest, so that it gets all it needs for one piece early. */
static uint32_t piece_of(const struct level_run *run, const struct level_phase *phase, uint32_t q,
                         uint32_t peer)
{
    const struct level_layout *layout = run->layout;
    uint32_t piece = 0;
    for (uint32_t k = 1; k < layout->levels; k++) {
        uint32_t own = peal_level_coordinate(layout, run->unit, k), at = own;
        if (!layout->split[k])
            continue;
        if (k == phase->level)
            at = peer;
        if (k > phase->level) {
            at = peal_level_turn(phase->kind == LEVEL_FOLD, layout->size[k], own,
                                 q % layout->size[k]);
            q /= layout->size[k];
        }
        piece += at * layout->piece_stride[k];
    }
    return piece + q * (layout->pieces / layout->runs);
}

uint32_t peal_level_chunk(const struct level_run *run, const struct level_phase *phase, uint32_t q,
                          uint32_t peer)
{
    const struct level_layout *layout = run->layout;
    uint32_t piece = piece_of(run, phase, q, peer);
    uint32_t shard = phase->level ? run->shard : run->peers.shard[peer];
    uint32_t index = layout->blocks ? layout->holder[piece * layout->shards + shard]
                                    : shard * layout->pieces + piece;
    return index * run->channels + run->channel;
}
