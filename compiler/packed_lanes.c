/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's lanes along packed trees. A lane works off the hops that were dealt to it, of seats of
 * one depth, in the order of the chunks: what a lane sends first, the lane behind it expects first.
 * So tiles follow each other through the trees, and nobody waits for what comes later.
 *
 * Contributions climb through slots, a folding step for each inner seat. What goes down is stored
 * straight into outputs, once their owners have entered; in an allreduce they have, as their
 * contribution to the chunk has come up before, and been read.
 *
 * Semaphores of a rank with another: those of hops up, as many credits, those of hops down, as many
 * for entries, and one for what goes once along the first tree. With itself: one for each lane of a
 * root.
 */
#include "packed.h"

#include <string.h>

struct lane {
    struct build *b;
    const struct packed *packed;
    uint32_t group; /* which of its kind */
    uint32_t kind;
    int way;
    uint8_t *mark;   /* [rank x PLAN_SEMS_MAX + semaphore] */
    uint32_t *order; /* of the lane's chunks, and as much room again */
};

/* ---- semaphores -------------------------------------------------------------------------------
 */

static uint32_t credit_base(const struct lane *lane)
{
    return lane->packed->nsems[PACKED_UP];
}

static uint32_t down_base(const struct lane *lane)
{
    return 2 * lane->packed->nsems[PACKED_UP];
}

static uint32_t enter_base(const struct lane *lane)
{
    return down_base(lane) + lane->packed->nsems[PACKED_DOWN];
}

/* Of collectives with a root, whose ranks do not greet. */
static uint32_t once_sem(const struct lane *lane)
{
    return enter_base(lane);
}

static const struct seat *seat_of(const struct lane *lane, uint32_t chunk, uint32_t rank)
{
    return peal_packed_seat(lane->packed, lane->way, chunk, rank);
}

/* Does the lane make the hop down to the rank? */
static int serves(const struct lane *lane, uint32_t chunk, uint32_t rank)
{
    return peal_packed_group(lane->packed, PACKED_DOWN, chunk, rank) == lane->group;
}

/* Is the chunk the lane's? */
static int mine(const struct lane *lane, uint32_t chunk)
{
    const struct seat *seat = seat_of(lane, chunk, lane->b->self);
    const uint32_t *child = peal_packed_children(lane->packed, lane->way, seat);
    if (peal_packed_kind(lane->packed, lane->way, seat) != lane->kind)
        return 0;
    if (lane->way == PACKED_UP)
        return peal_packed_group(lane->packed, PACKED_UP, chunk, lane->b->self) == lane->group;
    if (!seat->children)
        return peal_packed_leaf_group(lane->packed, chunk) == lane->group;
    for (uint32_t i = 0; i < seat->children; i++)
        if (serves(lane, chunk, child[i]))
            return 1;
    return 0;
}

static int stored(const struct lane *lane, uint32_t rank)
{
    return peal_packed_link(lane->packed, PACKED_DOWN, rank, lane->b->self)->stores;
}

/* ---- down ------------------------------------------------------------------------------------ */

/* The lanes of a rank that pass a chunk on, or the one that hears of it. */
struct hearers {
    uint32_t count;
    uint8_t lane[PACKED_RANKS_MAX];
};

static void find_hearers(const struct packed *packed, uint32_t chunk, uint32_t rank,
                         struct hearers *to)
{
    const struct seat *seat = peal_packed_seat(packed, PACKED_DOWN, chunk, rank);
    const uint32_t *child = peal_packed_children(packed, PACKED_DOWN, seat);
    to->count = 0;
    if (!seat->children)
        to->lane[to->count++] = PACKED_LEAF;
    for (uint32_t i = 0; i < seat->children; i++) {
        uint8_t group = (uint8_t)peal_packed_group(packed, PACKED_DOWN, chunk, child[i]);
        uint32_t k = 0;
        while (k < to->count && to->lane[k] != group)
            k++;
        if (k == to->count)
            to->lane[to->count++] = group;
    }
}

/* Of a hop down to the rank, and the k-th of those that hear of it. */
static uint32_t down_sem(const struct lane *lane, uint32_t chunk, uint32_t rank, uint32_t hearer)
{
    return peal_packed_sem(lane->packed, PACKED_DOWN, chunk, rank, hearer);
}

/* The children that the lane serves and stores reach. */
static uint32_t stores_to(const struct lane *lane, uint32_t chunk, struct plan_operand *dst)
{
    const struct seat *seat = peal_packed_seat(lane->packed, PACKED_DOWN, chunk, lane->b->self);
    const uint32_t *child = peal_packed_children(lane->packed, PACKED_DOWN, seat);
    uint32_t stores = 0;
    for (uint32_t i = 0; i < seat->children; i++)
        if (serves(lane, chunk, child[i]) && stored(lane, child[i]))
            dst[stores++] = peal_op_user(child[i], PLAN_BUF_OUT, chunk);
    return stores;
}

static void tell(const struct lane *lane, uint32_t chunk, uint32_t child)
{
    struct hearers hearers;
    find_hearers(lane->packed, chunk, child, &hearers);
    for (uint32_t k = 0; k < hearers.count; k++)
        peal_build_signal(lane->b, child,
                          down_base(lane) + down_sem(lane, chunk, child, hearers.lane[k]));
}

/* The own output, by another engine. */
static void push_down(const struct lane *lane, uint32_t chunk, uint32_t child)
{
    struct build *b = lane->b;
    uint32_t sems[PACKED_RANKS_MAX];
    struct hearers hearers;
    find_hearers(lane->packed, chunk, child, &hearers);
    for (uint32_t k = 0; k < hearers.count; k++)
        sems[k] = down_base(lane) + down_sem(lane, chunk, child, hearers.lane[k]);
    peal_build_push_to(b, chunk, peal_op_user(b->self, PLAN_BUF_OUT, chunk),
                       peal_op_user(child, PLAN_BUF_OUT, chunk), hearers.count, sems);
}

/* Tells the children that stores have reached, and pushes the own output to the others. */
static void hand_down(const struct lane *lane, uint32_t chunk)
{
    const struct seat *seat = peal_packed_seat(lane->packed, PACKED_DOWN, chunk, lane->b->self);
    const uint32_t *child = peal_packed_children(lane->packed, PACKED_DOWN, seat);
    for (int stores = 1; stores >= 0; stores--)
        for (uint32_t i = 0; i < seat->children; i++) {
            if (!serves(lane, chunk, child[i]) || stored(lane, child[i]) != stores)
                continue;
            if (stores)
                tell(lane, chunk, child[i]);
            else
                push_down(lane, chunk, child[i]);
        }
}

/* The own lanes that pass on a root's chunk, to its children from `first` on. */
static void tell_others(const struct lane *lane, uint32_t chunk, uint32_t first)
{
    const struct packed *packed = lane->packed;
    uint32_t self = lane->b->self;
    const struct seat *seat = peal_packed_seat(packed, PACKED_DOWN, chunk, self);
    const uint32_t *child = peal_packed_children(packed, PACKED_DOWN, seat);
    for (uint32_t i = first; i < seat->children; i++) {
        uint32_t other = peal_packed_group(packed, PACKED_DOWN, chunk, child[i]);
        if (peal_packed_first(packed, chunk, child, i))
            peal_build_signal(lane->b, self, peal_packed_own_sem(packed, self, lane->group, other));
    }
}

/* The root's chunk comes out of its input, and the lane of its first child writes the output;
 * stores first, as one of them may write the chunk onto itself. */
static void begin_tree(const struct lane *lane, uint32_t chunk)
{
    struct build *b = lane->b;
    struct plan_operand in = peal_op_user(b->self, PLAN_BUF_IN, chunk);
    struct plan_operand dst[PACKED_RANKS_MAX] = {peal_op_user(b->self, PLAN_BUF_OUT, chunk)};
    uint32_t stores = 1 + stores_to(lane, chunk, dst + 1);
    peal_build_move(b, chunk, 1, &in, stores, dst, PEAL_ENGINE_SM, 0);
    tell_others(lane, chunk, 1);
    hand_down(lane, chunk);
}

static void pass_on(const struct lane *lane, uint32_t chunk)
{
    struct build *b = lane->b;
    const struct seat *seat = seat_of(lane, chunk, b->self);
    const uint32_t *child = peal_packed_children(lane->packed, PACKED_DOWN, seat);
    struct plan_operand own = peal_op_user(b->self, PLAN_BUF_OUT, chunk);
    struct plan_operand dst[PACKED_RANKS_MAX];
    uint32_t hearer = seat->children ? lane->group : PACKED_LEAF;
    int folded = lane->packed->way[PACKED_UP].levels > 0;
    if (seat->parent == NO_RANK && !folded && serves(lane, chunk, child[0])) {
        begin_tree(lane, chunk);
        return;
    }
    if (seat->parent == NO_RANK)
        peal_build_wait(b, b->self,
                        peal_packed_own_sem(lane->packed, b->self,
                                            peal_packed_writer(lane->packed, chunk, b->self),
                                            lane->group),
                        0);
    else
        peal_build_wait(b, seat->parent, down_base(lane) + down_sem(lane, chunk, b->self, hearer),
                        0);
    if (!seat->children)
        return;
    uint32_t stores = stores_to(lane, chunk, dst);
    if (stores)
        peal_build_move(b, chunk, 1, &own, stores, dst, PEAL_ENGINE_SM, 0);
    hand_down(lane, chunk);
}

/* ---- up ---------------------------------------------------------------------------------------
 */

static uint32_t up_sem(const struct lane *lane, uint32_t chunk, uint32_t rank)
{
    uint32_t parent = peal_packed_seat(lane->packed, PACKED_UP, chunk, rank)->parent;
    return peal_packed_sem(lane->packed, PACKED_UP, chunk, rank,
                           peal_packed_group(lane->packed, PACKED_UP, chunk, parent));
}

/* The lane's contributions to one lane of a parent in each trip: so many credits free a slot
 * again. */
static uint32_t sent_like(const struct lane *lane, uint32_t chunk)
{
    const struct packed *packed = lane->packed;
    uint32_t count = 0, parent = seat_of(lane, chunk, lane->b->self)->parent;
    uint32_t group = peal_packed_group(packed, PACKED_UP, chunk, parent);
    for (uint32_t c = 0; c < peal_packed_chunks(packed); c++)
        count += mine(lane, c) && seat_of(lane, c, lane->b->self)->parent == parent &&
                 peal_packed_group(packed, PACKED_UP, c, parent) == group;
    return count;
}

static uint32_t region_of(const struct lane *lane, uint32_t chunk)
{
    const struct packed *packed = lane->packed;
    return packed->region[chunk % (packed->trees * packed->pieces)];
}

static struct plan_operand slot_of(const struct lane *lane, uint32_t chunk, uint32_t child)
{
    const struct packed *packed = lane->packed;
    return peal_op_slot(peal_packed_seat(packed, PACKED_UP, chunk, child)->parent, PLAN_BUF_SCRATCH,
                        region_of(lane, chunk), packed->slot[(size_t)chunk * packed->n + child]);
}

/* Of the lane's, one that its next push may leave from. */
static struct plan_operand stage_of(const struct lane *lane, uint32_t chunk)
{
    const struct packed *packed = lane->packed;
    uint32_t at = (lane->kind - 1) * packed->lanes + lane->group, self = lane->b->self;
    uint32_t first = packed->stage[(size_t)at * packed->n + self];
    return peal_op_slot(self, PLAN_BUF_SCRATCH, packed->regions + region_of(lane, chunk),
                        first + peal_build_stage(lane->b));
}

static void climb(const struct lane *lane, uint32_t chunk, uint32_t nsrc,
                  const struct plan_operand *src)
{
    struct build *b = lane->b;
    const struct seat *seat = seat_of(lane, chunk, b->self);
    uint32_t up = up_sem(lane, chunk, b->self);
    struct plan_operand slot = slot_of(lane, chunk, b->self);
    if (b->plan->tile_bytes)
        peal_build_wait(b, seat->parent, credit_base(lane) + up,
                        lane->packed->depth * sent_like(lane, chunk));
    if (nsrc == 1) {
        peal_build_push(b, chunk, src[0], slot, up);
        return;
    }
    if (!seat->pushed) {
        peal_build_move(b, chunk, nsrc, src, 1, &slot, PEAL_ENGINE_SM, 0);
        peal_build_signal(b, seat->parent, up);
        return;
    }
    struct plan_operand stage = stage_of(lane, chunk);
    peal_build_move(b, chunk, nsrc, src, 1, &stage, PEAL_ENGINE_SM, 0);
    peal_build_push(b, chunk, stage, slot, up);
}

/* Folds the root's chunk into its output, and, on its way down again, into its children's, or tells
 * the lanes that store it there. */
static void arrive(const struct lane *lane, uint32_t chunk, uint32_t nsrc,
                   const struct plan_operand *src)
{
    struct build *b = lane->b;
    struct plan_operand dst[PACKED_RANKS_MAX] = {peal_op_user(b->self, PLAN_BUF_OUT, chunk)};
    int down = peal_packed_fused(lane->packed);
    uint32_t stores = 1;
    if (down)
        stores += stores_to(lane, chunk, dst + 1);
    peal_build_move(b, chunk, nsrc, src, stores, dst, PEAL_ENGINE_SM, 1);
    if (down)
        hand_down(lane, chunk);
    else if (lane->packed->way[PACKED_DOWN].levels)
        tell_others(lane, chunk, 0);
}

static void fold(const struct lane *lane, uint32_t chunk)
{
    struct build *b = lane->b;
    const struct seat *seat = seat_of(lane, chunk, b->self);
    const uint32_t *child = peal_packed_children(lane->packed, PACKED_UP, seat);
    struct plan_operand src[PACKED_RANKS_MAX] = {peal_op_user(b->self, PLAN_BUF_IN, chunk)};
    for (uint32_t i = 0; i < seat->children; i++) {
        peal_build_wait(b, child[i], up_sem(lane, chunk, child[i]), 0);
        src[1 + i] = slot_of(lane, chunk, child[i]);
    }
    if (seat->parent == NO_RANK)
        arrive(lane, chunk, 1 + seat->children, src);
    else
        climb(lane, chunk, 1 + seat->children, src);
    for (uint32_t i = 0; b->plan->tile_bytes && i < seat->children; i++)
        peal_build_signal(b, child[i], credit_base(lane) + up_sem(lane, chunk, child[i]));
}

/* ---- entering and leaving ----------------------------------------------------------------------
 */

/* 1: the first time for this semaphore. */
static int is_new(const struct lane *lane, uint32_t rank, uint32_t sem)
{
    uint8_t *mark = &lane->mark[rank * PLAN_SEMS_MAX + sem];
    int news = !*mark;
    *mark = 1;
    return news;
}

static void forget_marks(const struct lane *lane)
{
    memset(lane->mark, 0, (size_t)lane->packed->n * PLAN_SEMS_MAX);
}

/* Tells the lanes above that the rank has entered. */
static void greet_parents(const struct lane *lane)
{
    uint32_t self = lane->b->self;
    forget_marks(lane);
    for (uint32_t c = 0; c < peal_packed_chunks(lane->packed); c++) {
        const struct seat *seat = seat_of(lane, c, self);
        if (!mine(lane, c) || seat->parent == NO_RANK)
            continue;
        uint32_t sem = down_sem(lane, c, self, seat->children ? lane->group : PACKED_LEAF);
        if (is_new(lane, seat->parent, sem))
            peal_build_signal(lane->b, seat->parent, enter_base(lane) + sem);
    }
}

static void greet_child(const struct lane *lane, uint32_t chunk, uint32_t child)
{
    struct hearers hearers;
    find_hearers(lane->packed, chunk, child, &hearers);
    for (uint32_t k = 0; k < hearers.count; k++) {
        uint32_t sem = down_sem(lane, chunk, child, hearers.lane[k]);
        if (is_new(lane, child, sem))
            peal_build_wait(lane->b, child, enter_base(lane) + sem, 0);
    }
}

/* Waits until the ranks below have. */
static void await_children(const struct lane *lane)
{
    forget_marks(lane);
    for (uint32_t c = 0; c < peal_packed_chunks(lane->packed); c++) {
        const struct seat *seat = seat_of(lane, c, lane->b->self);
        const uint32_t *child = peal_packed_children(lane->packed, PACKED_DOWN, seat);
        for (uint32_t i = 0; mine(lane, c) && i < seat->children; i++)
            if (serves(lane, c, child[i]))
                greet_child(lane, c, child[i]);
    }
}

/* Along the first chunk's tree all ranks are heard of, each by one of its lanes. */
static int speaks(const struct lane *lane)
{
    const struct seat *seat = seat_of(lane, 0, lane->b->self);
    const uint32_t *child = peal_packed_children(lane->packed, lane->way, seat);
    return mine(lane, 0) &&
           (lane->way == PACKED_UP || !seat->children || serves(lane, 0, child[0]));
}

/* The lanes of the root besides the one that speaks: 1 for each that there is. */
static void root_lanes(const struct lane *lane, uint8_t there[CHANNELS_MAX])
{
    struct lane other = *lane;
    for (other.group = 0; other.group < lane->packed->lanes; other.group++) {
        there[other.group] = 0;
        for (uint32_t c = 0; c < peal_packed_chunks(lane->packed); c++)
            there[other.group] |= (uint8_t)mine(&other, c);
        there[other.group] = there[other.group] && !speaks(&other);
    }
}

/* Nothing is sent before all ranks have entered. */
static void gather_entries(const struct lane *lane)
{
    struct build *b = lane->b;
    const struct seat *seat = seat_of(lane, 0, b->self);
    const uint32_t *child = peal_packed_children(lane->packed, PACKED_DOWN, seat);
    uint8_t there[CHANNELS_MAX];
    if (!speaks(lane)) {
        if (seat->parent == NO_RANK)
            peal_build_wait(b, b->self, lane->packed->nsems[PACKED_WAYS] + lane->group, 0);
        return;
    }
    for (uint32_t i = 0; i < seat->children; i++)
        peal_build_wait(b, child[i], once_sem(lane), 0);
    if (seat->parent != NO_RANK) {
        peal_build_signal(b, seat->parent, once_sem(lane));
        return;
    }
    root_lanes(lane, there);
    for (uint32_t g = 0; g < lane->packed->lanes; g++)
        if (there[g])
            peal_build_signal(b, b->self, lane->packed->nsems[PACKED_WAYS] + g);
}

/* Nobody leaves before the root has all. */
static void spread_leave(const struct lane *lane)
{
    struct build *b = lane->b;
    const struct seat *seat = seat_of(lane, 0, b->self);
    const uint32_t *child = peal_packed_children(lane->packed, PACKED_UP, seat);
    uint8_t there[CHANNELS_MAX];
    if (!speaks(lane)) {
        if (seat->parent == NO_RANK)
            peal_build_signal(b, b->self, lane->packed->nsems[PACKED_WAYS] + lane->group);
        return;
    }
    if (seat->parent != NO_RANK) {
        peal_build_wait(b, seat->parent, once_sem(lane), 0);
    } else {
        root_lanes(lane, there);
        for (uint32_t g = 0; g < lane->packed->lanes; g++)
            if (there[g])
                peal_build_wait(b, b->self, lane->packed->nsems[PACKED_WAYS] + g, 0);
    }
    for (uint32_t i = 0; i < seat->children; i++)
        peal_build_signal(b, child[i], once_sem(lane));
}

/* ---- lanes
 * --------------------------------------------------------------------------------------- */

static void enter(const struct lane *lane)
{
    if (lane->b->plan->collective == PEAL_BROADCAST)
        gather_entries(lane);
    if (lane->b->plan->collective != PEAL_ALLGATHER)
        return;
    greet_parents(lane);
    await_children(lane);
}

/* The order of a channel's chunks begins with another block in each channel, so that not all lanes
 * move to or from the same rank at a time. Where trees are of one level, each rank goes round the
 * others, those behind it first, and its lanes keep to different ones: the order between two ranks
 * is then that of one block in any case. */
static uint32_t nth_chunk(const struct lane *lane, uint32_t nth)
{
    const struct packed *packed = lane->packed;
    uint32_t blocks = packed->blocks, each = peal_packed_chunks(packed) / blocks;
    uint32_t block = nth / each, others = blocks - 1;
    if (packed->by_link) /* lanes at both ends of a hop have nothing else in common */
        return nth;
    if (packed->way[PACKED_UP].levels > 1 || packed->way[PACKED_DOWN].levels > 1 || blocks == 1)
        block += lane->group * blocks / packed->channels;
    else if (block < others)
        block = lane->b->self + 1 + (block + lane->group * others / packed->channels) % others;
    else
        block = lane->b->self;
    /* And with another tree, since a root's trees begin with different links. */
    uint32_t chunk = (nth + lane->group * each / packed->channels) % each;
    return block % blocks * each + chunk;
}

/*
 * What climbs is sorted by parent: a rank goes round its parents, those behind it first, so that no
 * two ranks send to one at a time. To one parent it sends in the order in which that sends on, and
 * so forth up to the root: what a rank sends first is then expected first.
 */
static int climbs_later(const struct lane *lane, uint32_t a, uint32_t b)
{
    uint32_t rank = lane->b->self;
    for (;;) {
        const struct seat *seat_a = seat_of(lane, a, rank), *seat_b = seat_of(lane, b, rank);
        if (seat_a->parent == NO_RANK)
            return 0;
        if (seat_a->parent != seat_b->parent)
            return peal_packed_turn(lane->packed, lane->group, rank, seat_a) >
                   peal_packed_turn(lane->packed, lane->group, rank, seat_b);
        rank = seat_a->parent;
    }
}

/* Merges runs of `run` chunks by two; equal ones stay in their order. */
static void merge_runs(const struct lane *lane, const uint32_t *from, uint32_t *to, uint32_t count,
                       uint32_t run)
{
    for (uint32_t first = 0; first < count; first += 2 * run) {
        uint32_t a = first, mid = first + run < count ? first + run : count, b = mid;
        uint32_t end = mid + run < count ? mid + run : count;
        for (uint32_t i = first; i < end; i++)
            to[i] = a < mid && (b == end || !climbs_later(lane, from[a], from[b])) ? from[a++]
                                                                                   : from[b++];
    }
}

/* The lane's chunks in the order in which it works them off. */
static const uint32_t *in_order(const struct lane *lane, uint32_t *count)
{
    uint32_t chunks = peal_packed_chunks(lane->packed), *from = lane->order, *to = from + chunks;
    *count = 0;
    for (uint32_t nth = 0; nth < chunks; nth++) {
        uint32_t c = nth_chunk(lane, nth);
        if (mine(lane, c))
            from[(*count)++] = c;
    }
    for (uint32_t run = 1; lane->way == PACKED_UP && run < *count; run *= 2) {
        merge_runs(lane, from, to, *count, run);
        uint32_t *merged = to;
        to = from;
        from = merged;
    }
    return from;
}

/* The lane of a link does so in all of its chunks, or in none. */
static int sends_by_nic(const struct lane *lane, uint32_t chunk)
{
    const struct seat *seat = seat_of(lane, chunk, lane->b->self);
    const uint32_t *child = peal_packed_children(lane->packed, lane->way, seat);
    for (uint32_t i = 0; lane->way == PACKED_DOWN && i < seat->children; i++)
        if (serves(lane, chunk, child[i]))
            return peal_packed_link(lane->packed, PACKED_DOWN, child[i], lane->b->self)->nets;
    return 0;
}

static void emit_lane(const struct lane *lane)
{
    struct build *b = lane->b;
    uint32_t count;
    const uint32_t *chunk = in_order(lane, &count);
    if (!count)
        return;
    b->in_flight = peal_packed_events(lane->packed, lane->way, sends_by_nic(lane, chunk[0]));
    peal_build_lane(b);
    enter(lane);
    peal_build_section(b, 1);
    for (uint32_t i = 0; i < count; i++) {
        if (lane->way == PACKED_UP)
            fold(lane, chunk[i]);
        else
            pass_on(lane, chunk[i]);
    }
    peal_build_drain(b);
    if (b->plan->collective == PEAL_REDUCE)
        spread_leave(lane);
}

void peal_packed_emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    const struct packed *packed = b->packed;
    uint32_t kinds = peal_packed_lane_kinds(packed);
    size_t marks = (size_t)packed->n * PLAN_SEMS_MAX;
    size_t room = 2 * (size_t)peal_packed_chunks(packed);
    struct lane lane = {.b = b, .packed = packed, .mark = peal_calloc(packed->ctx, marks, 1)};
    (void)rank;
    (void)candidate;
    lane.order = peal_calloc(packed->ctx, room, sizeof *lane.order);
    if (!lane.mark || !lane.order) {
        peal_free(packed->ctx, lane.order, room * sizeof *lane.order);
        peal_free(packed->ctx, lane.mark, marks);
        b->status = PEAL_ERR_MEMORY;
        return;
    }
    for (lane.group = 0; lane.group < packed->lanes; lane.group++)
        for (lane.kind = 0; lane.kind < kinds; lane.kind++) {
            lane.way = packed->way[PACKED_UP].levels && lane.kind <= packed->way[PACKED_UP].levels
                           ? PACKED_UP
                           : PACKED_DOWN;
            if (packed->way[lane.way].levels)
                emit_lane(&lane);
        }
    peal_free(packed->ctx, lane.order, room * sizeof *lane.order);
    peal_free(packed->ctx, lane.mark, marks);
}

void peal_packed_prepare(struct build *b, const struct candidate *candidate)
{
    const struct packed *packed = b->packed;
    uint32_t depth = b->plan->tile_bytes ? packed->depth : 1;
    uint64_t bytes = peal_build_slot_bytes(b);
    (void)candidate;
    b->plan->nsems = (uint16_t)peal_packed_semaphores(packed, b->plan->collective);
    if (!packed->way[PACKED_UP].levels)
        return;
    for (uint32_t c = 0; c < packed->regions; c++)
        peal_build_region(b, PLAN_BUF_SCRATCH, packed->width, depth, bytes);
    for (uint32_t c = 0; packed->stages && c < packed->regions; c++)
        peal_build_region(b, PLAN_BUF_SCRATCH, packed->stages, 1, bytes);
}
