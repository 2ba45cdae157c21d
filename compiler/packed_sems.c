/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Semaphores of packed trees, and the order in which a rank turns to its parents.
 *
 * A semaphore has one lane at each end, so two ranks have one for each two lanes of theirs between
 * which a hop lies. They are numbered by pairs of ranks, in the order of chunks. The numbers of a
 * hop serve both ways: what has come, and that there is room for more.
 */
#include "packed.h"

#define LANE_BITS 8
#define DEPTH_BITS 5

static uint64_t key_of(int way, uint32_t from, uint32_t to, uint32_t depth, uint32_t own,
                       uint32_t other)
{
    uint64_t key = (uint64_t)way << 1 | 1; /* never 0 */
    key = key << LANE_BITS | from;
    key = key << LANE_BITS | to;
    key = key << DEPTH_BITS | depth;
    key = key << LANE_BITS | own;
    return key << LANE_BITS | other;
}

static uint32_t find(const struct packed *packed, uint64_t key)
{
    uint32_t mask = packed->sems_room - 1;
    uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t at = (uint32_t)(hash >> 40) & mask;
    while (packed->sem[at].key && packed->sem[at].key != key)
        at = (at + 1) & mask;
    return at;
}

static uint64_t sem_key(const struct packed *packed, int way, uint32_t chunk, uint32_t rank,
                        uint32_t other)
{
    const struct seat *seat = peal_packed_seat(packed, way, chunk, rank);
    uint32_t from = way == PACKED_UP ? rank : seat->parent;
    uint32_t to = way == PACKED_UP ? seat->parent : rank;
    return key_of(way, from, to, seat->depth, peal_packed_group(packed, way, chunk, rank), other);
}

uint32_t peal_packed_sem(const struct packed *packed, int way, uint32_t chunk, uint32_t rank,
                         uint32_t other)
{
    return packed->sem[find(packed, sem_key(packed, way, chunk, rank, other))].number;
}

/* Of its kind, the lane that folds, or that serves the first child. */
uint32_t peal_packed_writer(const struct packed *packed, uint32_t chunk, uint32_t root)
{
    const struct seat *seat = peal_packed_seat(packed, PACKED_DOWN, chunk, root);
    const uint32_t *child = peal_packed_children(packed, PACKED_DOWN, seat);
    return packed->way[PACKED_UP].levels ? peal_packed_group(packed, PACKED_UP, chunk, root)
                                         : peal_packed_group(packed, PACKED_DOWN, chunk, child[0]);
}

uint32_t peal_packed_own_sem(const struct packed *packed, uint32_t root, uint32_t from, uint32_t to)
{
    return packed->sem[find(packed, key_of(PACKED_WAYS, root, root, 0, from, to))].number;
}

/* A lane that is told of chunks from above, or a rank's other engines together. */
struct greeter {
    double us;
    double one_us;
};

static void add_greeting(const struct packed *packed, uint64_t key, struct greeter *greeter,
                         double *most_us)
{
    uint32_t kinds = packed->way[PACKED_DOWN].levels + 1; /* depths, and those that only hear */
    uint32_t other = key & 0xff, depth = key >> (2 * LANE_BITS) & 0x1f;
    uint32_t to = key >> (2 * LANE_BITS + DEPTH_BITS) & 0xff;
    uint32_t from = key >> (3 * LANE_BITS + DEPTH_BITS) & 0xff;
    const struct packed_link *link = peal_packed_link(packed, PACKED_DOWN, to, from);
    uint32_t kind = other == PACKED_LEAF || !link->stores ? 0 : depth;
    uint32_t lane = kind ? other : !link->stores;
    struct greeter *at = &greeter[((size_t)to * kinds + kind) * packed->lanes + lane];
    at->us += link->gap_us;
    at->one_us = at->one_us > link->gap_us ? at->one_us : link->gap_us;
    if (at->us - at->one_us > *most_us)
        *most_us = at->us - at->one_us;
}

peal_status peal_packed_greeting(const struct packed *packed, double *us_out)
{
    size_t count = (size_t)packed->n * (packed->way[PACKED_DOWN].levels + 1) * packed->lanes;
    struct greeter *greeter = peal_calloc(packed->ctx, count, sizeof *greeter);
    if (!greeter)
        return PEAL_ERR_MEMORY;
    *us_out = 0;
    for (uint32_t i = 0; i < packed->sems_room; i++) {
        uint64_t key = packed->sem[i].key;
        if (key >> (4 * LANE_BITS + DEPTH_BITS) == (PACKED_DOWN << 1 | 1))
            add_greeting(packed, key, greeter, us_out);
    }
    peal_free(packed->ctx, greeter, count * sizeof *greeter);
    return PEAL_OK;
}

void peal_packed_forget_sems(struct packed *packed)
{
    peal_free(packed->ctx, packed->sem, packed->sems_room * sizeof *packed->sem);
    packed->sem = NULL;
    packed->sems_room = 0;
}

struct numbering {
    struct packed *packed;
    uint32_t *count; /* [from x ranks + to], of this way */
    uint32_t used;
    int way;
    peal_status status;
};

static void grow(struct numbering *to)
{
    struct packed *packed = to->packed;
    struct packed old = *packed;
    packed->sems_room = old.sems_room ? 2 * old.sems_room : 1024;
    packed->sem = peal_calloc(packed->ctx, packed->sems_room, sizeof *packed->sem);
    if (!packed->sem) {
        packed->sem = old.sem;
        packed->sems_room = old.sems_room;
        to->status = PEAL_ERR_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < old.sems_room; i++)
        if (old.sem[i].key)
            packed->sem[find(packed, old.sem[i].key)] = old.sem[i];
    peal_free(packed->ctx, old.sem, old.sems_room * sizeof *old.sem);
}

/* way: PACKED_WAYS of a rank's own lanes. */
static void number_key(struct numbering *to, uint64_t key, int way, uint32_t *count)
{
    struct packed *packed = to->packed;
    if (2 * to->used >= packed->sems_room)
        grow(to);
    if (to->status != PEAL_OK)
        return;
    struct packed_sem *sem = &packed->sem[find(packed, key)];
    if (sem->key)
        return;
    *sem = (struct packed_sem){key, (uint16_t)(*count)++};
    to->used++;
    if (*count > packed->nsems[way])
        packed->nsems[way] = *count;
    if (*count > PLAN_SEMS_MAX)
        to->status = PEAL_ERR_LIMIT;
}

static void number_one(struct numbering *to, uint32_t chunk, uint32_t rank, uint32_t other)
{
    const struct packed *packed = to->packed;
    uint32_t parent = peal_packed_seat(packed, to->way, chunk, rank)->parent;
    number_key(to, sem_key(packed, to->way, chunk, rank, other), to->way,
               &to->count[rank * packed->n + parent]);
}

/* The lane that writes a root's output tells those that pass it on: in an allreduce, all of them.
 */
static void number_own(struct numbering *to, uint32_t chunk, uint32_t root)
{
    const struct packed *packed = to->packed;
    const struct seat *seat = peal_packed_seat(packed, PACKED_DOWN, chunk, root);
    const uint32_t *child = peal_packed_children(packed, PACKED_DOWN, seat);
    int folds = packed->way[PACKED_UP].levels > 0;
    uint32_t first = peal_packed_writer(packed, chunk, root);
    if (peal_packed_fused(packed))
        return;
    for (uint32_t i = folds ? 0 : 1; i < seat->children; i++) {
        uint32_t other = peal_packed_group(packed, PACKED_DOWN, chunk, child[i]);
        if (other != first || folds)
            number_key(to, key_of(PACKED_WAYS, root, root, 0, first, other), PACKED_WAYS,
                       &to->count[root * packed->n + root]);
    }
}

static void number_hop(struct numbering *to, uint32_t chunk, uint32_t rank)
{
    const struct packed *packed = to->packed;
    const struct seat *seat = peal_packed_seat(packed, to->way, chunk, rank);
    if (seat->parent == NO_RANK) {
        if (to->way == PACKED_DOWN)
            number_own(to, chunk, rank);
        return;
    }
    if (to->way == PACKED_UP) {
        number_one(to, chunk, rank, peal_packed_group(packed, PACKED_UP, chunk, seat->parent));
        return;
    }
    const uint32_t *child = peal_packed_children(packed, PACKED_DOWN, seat);
    for (uint32_t i = 0; i < seat->children; i++)
        number_one(to, chunk, rank, peal_packed_group(packed, PACKED_DOWN, chunk, child[i]));
    if (!seat->children)
        number_one(to, chunk, rank, PACKED_LEAF);
}

peal_status peal_packed_number_sems(struct packed *packed)
{
    size_t pairs = (size_t)packed->n * packed->n;
    struct numbering to = {.packed = packed};
    peal_packed_forget_sems(packed);
    packed->nsems[PACKED_WAYS] = 0;
    for (to.way = 0; to.way < PACKED_WAYS && to.status == PEAL_OK; to.way++) {
        packed->nsems[to.way] = 0;
        if (!packed->way[to.way].levels)
            continue;
        to.count = peal_calloc(packed->ctx, pairs, sizeof *to.count);
        if (!to.count)
            return PEAL_ERR_MEMORY;
        for (uint32_t c = 0; c < peal_packed_chunks(packed); c++)
            for (uint32_t r = 0; r < packed->n && to.status == PEAL_OK; r++)
                number_hop(&to, c, r);
        peal_free(packed->ctx, to.count, pairs * sizeof *to.count);
    }
    return to.status;
}

/* Those of hops, there and back, and what goes once along a tree; of a rank with itself, where a
 * root's lanes are told of its output, and once of entries, or tell that they are through. */
uint32_t peal_packed_semaphores(const struct packed *packed, peal_collective collective)
{
    uint32_t once = packed->blocks == 1;
    uint32_t up = 2 * packed->nsems[PACKED_UP];
    uint32_t down = packed->nsems[PACKED_DOWN] * (collective == PEAL_ALLGATHER ? 2 : 1);
    uint32_t own = packed->nsems[PACKED_WAYS] + once * packed->lanes;
    return up + down + once > own ? up + down + once : own;
}

/* ---- turns ---------------------------------------------------------------------------------- */

size_t peal_packed_turn_cells(const struct packed *packed)
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
    packed->turn = peal_calloc(packed->ctx, peal_packed_turn_cells(packed), 1);
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

/* Channels begin with different parents; lanes of links have different ones. */
uint32_t peal_packed_turn(const struct packed *packed, uint32_t group, uint32_t rank,
                          const struct seat *seat)
{
    const uint8_t *turn = turns_at(packed, seat->depth, rank);
    uint32_t count = turn[rank];
    uint32_t shift = packed->by_link ? 0 : group * count / packed->channels;
    return (turn[seat->parent] + count - shift) % count;
}
