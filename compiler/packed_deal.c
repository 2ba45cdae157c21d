/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which lane makes each hop of the trees, and which slots it uses. Every depth of seats has lanes
 * of its own, so that tiles follow each other. They are dealt in one of two ways:
 *
 * - by chunk: a channel is a share of each block's chunks, and has a lane for each depth. Where
 *   ranks share one port to a switch, lanes of a rank that begin with different ranks keep apart.
 * - by link: a lane serves one of the rank's neighbours, or a few. Where each neighbour has a link
 *   of its own, all of them are busy as long as there is anything to carry, which no order of
 *   fewer lanes over several links each gives.
 */
#include "packed.h"

#include <string.h>

static size_t block_chunks(const struct packed *packed)
{
    return (size_t)packed->trees * packed->pieces;
}

static size_t cells_of(const struct packed *packed)
{
    return packed->blocks * block_chunks(packed) * packed->n;
}

static uint32_t weight_of(const struct packed *packed, uint32_t chunk)
{
    return packed->weight[chunk / packed->pieces % packed->trees];
}

uint32_t peal_packed_events(const struct packed *packed, int way, int nets)
{
    return packed->by_link && nets && way == PACKED_DOWN ? BURST_EVENTS : BUILD_EVENTS;
}

/* ---- kinds of lanes -------------------------------------------------------------------------- */

static uint32_t up_kinds(const struct packed *packed)
{
    return packed->way[PACKED_UP].levels ? packed->way[PACKED_UP].levels + 1 : 0;
}

uint32_t peal_packed_lane_kinds(const struct packed *packed)
{
    return peal_packed_leaf_kind(packed) + 1;
}

uint32_t peal_packed_leaf_kind(const struct packed *packed)
{
    return up_kinds(packed) + packed->way[PACKED_DOWN].levels;
}

/* Of a channel, the root of a chunk that came up sends it down with the same step that folds it; by
 * link, lanes of its own do, when it is folded. */
int peal_packed_fused(const struct packed *packed)
{
    return !packed->by_link && packed->way[PACKED_UP].levels && packed->way[PACKED_DOWN].levels;
}

uint32_t peal_packed_kind(const struct packed *packed, int way, const struct seat *seat)
{
    if (way == PACKED_UP)
        return seat->depth;
    if (seat->depth == 0 && peal_packed_fused(packed))
        return 0;
    return seat->children ? up_kinds(packed) + seat->depth : peal_packed_leaf_kind(packed);
}

uint32_t peal_packed_group(const struct packed *packed, int way, uint32_t chunk, uint32_t rank)
{
    return packed->group[way][(size_t)chunk * packed->n + rank];
}

int peal_packed_first(const struct packed *packed, uint32_t chunk, const uint32_t *child,
                      uint32_t at)
{
    uint32_t group = peal_packed_group(packed, PACKED_DOWN, chunk, child[at]);
    for (uint32_t i = 0; i < at; i++)
        if (peal_packed_group(packed, PACKED_DOWN, chunk, child[i]) == group)
            return 0;
    return 1;
}

uint32_t peal_packed_leaf_group(const struct packed *packed, uint32_t chunk)
{
    return packed->by_link ? 0 : packed->group[PACKED_DOWN][(size_t)chunk * packed->n];
}

/* ---- by chunk ---------------------------------------------------------------------------------
 */

/* The heaviest that is left goes to the channel that has least. */
static void deal_channels(const struct packed *packed, uint8_t *channel, uint64_t *load)
{
    uint32_t chunks = (uint32_t)block_chunks(packed);
    memset(channel, 0xff, chunks);
    for (uint32_t i = 0; i < chunks; i++) {
        uint32_t heavy = NO_RANK, least = 0;
        for (uint32_t k = 0; k < chunks; k++)
            if (channel[k] == 0xff &&
                (heavy == NO_RANK || weight_of(packed, k) > weight_of(packed, heavy)))
                heavy = k;
        for (uint32_t c = 1; c < packed->channels; c++)
            if (load[c] < load[least])
                least = c;
        channel[heavy] = (uint8_t)least;
        load[least] += weight_of(packed, heavy);
    }
}

static void deal_chunks(struct packed *packed, uint64_t *load)
{
    uint32_t chunks = (uint32_t)block_chunks(packed);
    deal_channels(packed, packed->region, load);
    packed->regions = packed->channels;
    for (uint32_t c = 0; c < peal_packed_chunks(packed); c++)
        for (int w = 0; w < PACKED_WAYS; w++)
            if (packed->way[w].levels)
                memset(packed->group[w] + (size_t)c * packed->n, packed->region[c % chunks],
                       packed->n);
}

/* ---- by link ----------------------------------------------------------------------------------
 */

/* What a rank's seats of one depth send to one neighbour. */
struct trunk {
    uint64_t load; /* time, in units that all have in common */
    uint32_t hops;
    uint32_t first;
    uint32_t lanes;
};

struct dealer {
    struct packed *packed;
    int way;
    uint32_t rank;       /* whose hops are dealt */
    struct trunk *trunk; /* [depth x ranks + neighbour]; its own: what roots fold */
    uint64_t *load;      /* [depth x lanes + lane] */
};

/* Calls for each hop that the rank makes in a chunk's tree. */
static void each_hop(const struct dealer *d, uint32_t chunk,
                     void (*call)(const struct dealer *d, uint32_t chunk, uint32_t rank,
                                  uint32_t neighbour, uint32_t depth))
{
    const struct packed *packed = d->packed;
    const struct seat *seat = peal_packed_seat(packed, d->way, chunk, d->rank);
    if (d->way == PACKED_UP) {
        call(d, chunk, d->rank, seat->parent == NO_RANK ? d->rank : seat->parent, seat->depth);
        return;
    }
    const uint32_t *child = peal_packed_children(packed, d->way, seat);
    for (uint32_t i = 0; i < seat->children; i++)
        call(d, chunk, child[i], child[i], seat->depth);
}

/* A lane that folds takes longer over a tile than its link may. */
static uint64_t time_of(const struct dealer *d, uint32_t chunk, uint32_t neighbour)
{
    const struct packed *packed = d->packed;
    const struct seat *seat = peal_packed_seat(packed, d->way, chunk, d->rank);
    uint64_t link = 0, lane = packed->lane_ps;
    if (neighbour != d->rank) {
        int up = d->way == PACKED_UP;
        const struct packed_link *over =
            peal_packed_link(packed, d->way, up ? d->rank : neighbour, up ? neighbour : d->rank);
        link = over->ps;
        lane = over->stores || (up && seat->children) ? lane : 0;
    }
    if (d->way == PACKED_UP)
        lane = lane * (2 + seat->children) / 2;
    return (link > lane ? link : lane) / 1000 * weight_of(packed, chunk) + 1;
}

static void count_hop(const struct dealer *d, uint32_t chunk, uint32_t rank, uint32_t neighbour,
                      uint32_t depth)
{
    struct trunk *trunk = &d->trunk[depth * d->packed->n + neighbour];
    (void)rank;
    trunk->load += time_of(d, chunk, neighbour);
    trunk->hops++;
}

static uint32_t count_lanes(const struct trunk *trunk, uint32_t n)
{
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < n; i++)
        lanes += trunk[i].lanes;
    return lanes;
}

/*
 * So many lanes more. Of one root, whose hops are few, until the lane with most of them has one
 * less: lanes of a link of which some have two hops and some have one would be through at different
 * times, and keep ranks below waiting for the last ones. 0: no more are of use.
 */
static uint32_t next_step(const struct dealer *d, const struct trunk *trunk)
{
    if (d->packed->blocks > 1)
        return 1;
    uint32_t most = (trunk->hops + trunk->lanes - 1) / trunk->lanes;
    return most == 1 ? 0 : (trunk->hops + most - 2) / (most - 1) - trunk->lanes;
}

/* Of those that may have more, the one whose lanes have most; NULL: none. */
static struct trunk *find_fullest(const struct dealer *d, uint32_t depths, uint32_t lanes)
{
    struct trunk *most = NULL;
    for (uint32_t i = 0; i < depths * d->packed->n; i++) {
        struct trunk *trunk = &d->trunk[i];
        uint32_t more = trunk->load ? next_step(d, trunk) : 0,
                 used = count_lanes(trunk - i % d->packed->n, d->packed->n);
        if (more && more <= lanes && used + more <= d->packed->lanes &&
            (!most || trunk->load * (most->lanes + 1) > most->load * (trunk->lanes + 1)))
            most = trunk;
    }
    return most;
}

/* One for each trunk, and then as many as help to the one whose lanes have most: lanes that share a
 * link get equal shares of it, so each should have as much to do. */
static void spread_lanes(const struct dealer *d, uint32_t depths, uint32_t lanes)
{
    uint32_t trunks = depths * d->packed->n;
    for (uint32_t i = 0; i < trunks; i++)
        d->trunk[i].lanes = d->trunk[i].load != 0;
    uint32_t used = count_lanes(d->trunk, trunks);
    while (used < lanes) {
        struct trunk *trunk = find_fullest(d, depths, lanes - used);
        if (!trunk)
            return;
        uint32_t more = next_step(d, trunk);
        trunk->lanes += more;
        used += more;
    }
}

/* In the order of neighbours from the rank on. */
static void place_lanes(const struct dealer *d, struct trunk *trunk)
{
    uint32_t n = d->packed->n, used = 0;
    for (uint32_t k = 1; k <= n; k++) {
        trunk[(d->rank + k) % n].first = used;
        used += trunk[(d->rank + k) % n].lanes;
    }
}

static void deal_hop(const struct dealer *d, uint32_t chunk, uint32_t rank, uint32_t neighbour,
                     uint32_t depth)
{
    const struct packed *packed = d->packed;
    const struct trunk *trunk = &d->trunk[depth * packed->n + neighbour];
    uint64_t *load = d->load + (size_t)depth * packed->lanes;
    uint32_t least = trunk->first;
    for (uint32_t i = trunk->first + 1; i < trunk->first + trunk->lanes; i++)
        if (load[i] < load[least])
            least = i;
    load[least] += time_of(d, chunk, neighbour);
    packed->group[d->way][(size_t)chunk * packed->n + rank] = (uint8_t)least;
}

static peal_status deal_rank(const struct dealer *d)
{
    const struct packed *packed = d->packed;
    uint32_t depths = packed->way[d->way].levels + 1, n = packed->n;
    memset(d->trunk, 0, (size_t)depths * n * sizeof *d->trunk);
    memset(d->load, 0, (size_t)depths * packed->lanes * sizeof *d->load);
    for (uint32_t c = 0; c < peal_packed_chunks(packed); c++)
        each_hop(d, c, count_hop);
    spread_lanes(d, depths, packed->channels * (packed->neighbours + 1));
    for (uint32_t depth = 0; depth < depths; depth++) {
        if (count_lanes(&d->trunk[depth * n], n) > packed->lanes)
            return PEAL_ERR_LIMIT;
        place_lanes(d, &d->trunk[depth * n]);
    }
    for (uint32_t c = 0; c < peal_packed_chunks(packed); c++)
        each_hop(d, c, deal_hop);
    return PEAL_OK;
}

static peal_status deal_links(struct packed *packed, uint64_t *load)
{
    size_t bytes = (size_t)(PACKED_LEVELS_MAX + 1) * packed->n * sizeof(struct trunk);
    struct dealer d = {.packed = packed, .load = load, .trunk = peal_alloc(packed->ctx, bytes)};
    if (!d.trunk)
        return PEAL_ERR_MEMORY;
    packed->regions = 1;
    memset(packed->region, 0, block_chunks(packed));
    peal_status status = PEAL_OK;
    for (d.way = 0; d.way < PACKED_WAYS; d.way++)
        for (d.rank = 0; d.rank < packed->n && packed->way[d.way].levels; d.rank++)
            status = status == PEAL_OK ? deal_rank(&d) : status;
    peal_free(packed->ctx, d.trunk, bytes);
    return status;
}

/* ---- slots ------------------------------------------------------------------------------------
 */

static size_t up_lanes(const struct packed *packed)
{
    return (size_t)packed->lanes * packed->way[PACKED_UP].levels;
}

/* Slots are numbered in the order of chunks, and of children in each. */
static peal_status number_slots(struct packed *packed, uint32_t *used)
{
    uint32_t chunks = (uint32_t)block_chunks(packed), n = packed->n;
    for (uint32_t c = 0; c < peal_packed_chunks(packed); c++)
        for (uint32_t r = 0; r < n; r++) {
            uint32_t *next = &used[packed->region[c % chunks] * n + r];
            const struct seat *seat = peal_packed_seat(packed, PACKED_UP, c, r);
            const uint32_t *child = peal_packed_children(packed, PACKED_UP, seat);
            if (*next + seat->children > UINT16_MAX)
                return PEAL_ERR_LIMIT;
            for (uint32_t i = 0; i < seat->children; i++)
                packed->slot[(size_t)c * n + child[i]] = (uint16_t)(*next)++;
            packed->width = packed->width > *next ? packed->width : *next;
        }
    return PEAL_OK;
}

/* A lane that climbs, of each rank. */
struct climber {
    uint32_t transfers;
    uint8_t staged; /* 1: some fold leaves through a stage */
    uint8_t region;
};

static void count_climbers(const struct packed *packed, uint32_t rank, struct climber *lane)
{
    uint32_t chunks = (uint32_t)block_chunks(packed);
    memset(lane, 0, up_lanes(packed) * sizeof *lane);
    for (uint32_t c = 0; c < peal_packed_chunks(packed); c++) {
        const struct seat *seat = peal_packed_seat(packed, PACKED_UP, c, rank);
        if (seat->depth == 0)
            continue;
        struct climber *to = &lane[(seat->depth - 1) * packed->lanes +
                                   peal_packed_group(packed, PACKED_UP, c, rank)];
        to->transfers++;
        to->staged |= seat->pushed && seat->children;
        to->region = packed->region[c % chunks];
    }
}

/* As many as the lane may have transfers in flight, where a fold leaves through a stage. */
static peal_status number_stages(struct packed *packed, uint32_t *used)
{
    size_t bytes = up_lanes(packed) * sizeof(struct climber);
    struct climber *lane = packed->any_pushed ? peal_alloc(packed->ctx, bytes) : NULL;
    if (!packed->any_pushed)
        return PEAL_OK;
    if (!lane)
        return PEAL_ERR_MEMORY;
    memset(used, 0, (size_t)packed->channels * packed->n * sizeof *used);
    for (uint32_t r = 0; r < packed->n; r++) {
        count_climbers(packed, r, lane);
        for (uint32_t i = 0; i < up_lanes(packed); i++) {
            uint32_t *next = &used[lane[i].region * packed->n + r];
            packed->stage[(size_t)i * packed->n + r] = (uint16_t)*next;
            if (lane[i].staged)
                *next += lane[i].transfers < BUILD_EVENTS ? lane[i].transfers : BUILD_EVENTS;
            packed->stages = packed->stages > *next ? packed->stages : *next;
        }
    }
    peal_free(packed->ctx, lane, bytes);
    return PEAL_OK;
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

void peal_packed_undeal(struct packed *packed)
{
    peal_packed_forget_sems(packed);
    for (int w = 0; w < PACKED_WAYS; w++) {
        peal_free(packed->ctx, packed->group[w], cells_of(packed));
        packed->group[w] = NULL;
    }
    peal_free(packed->ctx, packed->region, block_chunks(packed));
    peal_free(packed->ctx, packed->slot, cells_of(packed) * sizeof *packed->slot);
    peal_free(packed->ctx, packed->stage,
              (up_lanes(packed) * packed->n + 1) * sizeof *packed->stage);
    packed->region = NULL;
    packed->slot = packed->stage = NULL;
    packed->width = packed->stages = 0;
}

static int have_room(struct packed *packed)
{
    int up = packed->way[PACKED_UP].levels > 0, room = 1;
    for (int w = 0; w < PACKED_WAYS; w++) {
        if (!packed->way[w].levels)
            continue;
        packed->group[w] = peal_calloc(packed->ctx, cells_of(packed), 1);
        room = room && packed->group[w];
    }
    packed->region = peal_calloc(packed->ctx, block_chunks(packed), 1);
    if (up)
        packed->slot = peal_calloc(packed->ctx, cells_of(packed), sizeof *packed->slot);
    if (up)
        packed->stage =
            peal_calloc(packed->ctx, up_lanes(packed) * packed->n + 1, sizeof *packed->stage);
    return room && packed->region && (!up || (packed->slot && packed->stage));
}

peal_status peal_packed_deal(struct packed *packed, uint32_t pieces, uint32_t channels, int by_link)
{
    peal_packed_undeal(packed);
    packed->pieces = pieces;
    packed->channels = channels;
    packed->by_link = by_link;
    packed->depth =
        by_link && (packed->blocks == 1 || packed->any_pushed) ? 2 * SLOT_DEPTH : SLOT_DEPTH;
    packed->lanes = by_link ? CHANNELS_MAX : channels;
    size_t loads = (size_t)(PACKED_LEVELS_MAX + 1) * packed->lanes * sizeof(uint64_t);
    size_t slots = (size_t)channels * packed->n * sizeof(uint32_t);
    uint64_t *load = peal_calloc(packed->ctx, 1, loads);
    uint32_t *used = peal_calloc(packed->ctx, 1, slots);
    peal_status status = load && used && have_room(packed) ? PEAL_OK : PEAL_ERR_MEMORY;
    if (status == PEAL_OK && by_link)
        status = deal_links(packed, load);
    else if (status == PEAL_OK)
        deal_chunks(packed, load);
    if (status == PEAL_OK && packed->way[PACKED_UP].levels)
        status = number_slots(packed, used);
    if (status == PEAL_OK && packed->way[PACKED_UP].levels)
        status = number_stages(packed, used);
    peal_free(packed->ctx, load, loads);
    peal_free(packed->ctx, used, slots);
    return status;
}
