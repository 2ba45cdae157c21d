/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's lanes along packed trees. A lane works off the chunks of its channel in which the
 * rank sits at one depth, in the order of the chunks: what a lane sends first, the lane behind it
 * expects first. So tiles follow each other through the trees, and nobody waits for what comes
 * later.
 *
 * Contributions climb through slots, a folding step for each inner seat. What goes down is stored
 * straight into outputs, once their owners have entered; in an allreduce they have, as their
 * contribution to the chunk has come up before, and been read.
 *
 * Semaphores of a channel: some for each depth that a hop's lower end may have, and one for what
 * goes once along the channel's first tree.
 */
#include "packed.h"

enum {
    SEM_UP,     /* child to parent: a contribution has come */
    SEM_CREDIT, /* parent to child: its slot is free */
    UP_SEMS,
    SEM_DOWN = 0,
    SEM_LEAF,  /* the same, to a lane that only hears of it */
    SEM_ENTER, /* allgather, child to parent, from the lane that will hear of SEM_DOWN */
    SEM_ENTER_LEAF,
    DOWN_SEMS
};

struct lane {
    struct build *b;
    const struct packed *packed;
    uint32_t channel;
    uint32_t kind;
    int way;
    uint8_t *mark;   /* [depth x ranks + rank] */
    uint32_t *order; /* of the lane's chunks, and as much room again */
};

static uint32_t down_sems(const struct packed *packed, peal_collective collective)
{
    return packed->way[PACKED_DOWN].levels * (collective == PEAL_ALLGATHER ? DOWN_SEMS : SEM_ENTER);
}

uint32_t peal_packed_semaphores(const struct packed *packed, peal_collective collective)
{
    return packed->way[PACKED_UP].levels * UP_SEMS + down_sems(packed, collective) +
           (packed->blocks == 1);
}

static uint32_t first_sem(const struct lane *lane)
{
    return lane->channel * peal_packed_semaphores(lane->packed, lane->b->plan->collective);
}

static uint32_t up_sem(const struct lane *lane, uint32_t which, uint32_t depth)
{
    return first_sem(lane) + UP_SEMS * (depth - 1) + which;
}

/* The one behind those of all depths. */
static uint32_t once_sem(const struct lane *lane)
{
    return first_sem(lane) + peal_packed_semaphores(lane->packed, lane->b->plan->collective) - 1;
}

static uint32_t down_sem_at(const struct lane *lane, uint32_t which, uint32_t depth)
{
    uint32_t kinds = lane->b->plan->collective == PEAL_ALLGATHER ? DOWN_SEMS : SEM_ENTER;
    return first_sem(lane) + lane->packed->way[PACKED_UP].levels * UP_SEMS + kinds * (depth - 1) +
           which;
}

static const struct seat *seat_of(const struct lane *lane, uint32_t chunk, uint32_t rank)
{
    return peal_packed_seat(lane->packed, lane->way, chunk, rank);
}

/* Is the chunk the lane's? */
static int mine(const struct lane *lane, uint32_t chunk)
{
    const struct seat *seat = seat_of(lane, chunk, lane->b->self);
    if (lane->way == PACKED_DOWN && seat->depth == 0 && lane->packed->way[PACKED_UP].levels)
        return 0;
    return peal_packed_channel(lane->packed, chunk) == lane->channel &&
           peal_packed_lane(lane->packed, lane->way, seat) == lane->kind;
}

static int stored(const struct lane *lane, uint32_t rank)
{
    struct hop hop;
    peal_planner_hop(lane->b->planner, lane->b->self, rank, &hop);
    return hop.engine == PEAL_ENGINE_SM;
}

/* ---- down ------------------------------------------------------------------------------------ */

static uint32_t down_sem(const struct lane *lane, uint32_t chunk, uint32_t rank)
{
    uint32_t depth = peal_packed_seat(lane->packed, PACKED_DOWN, chunk, rank)->depth;
    return down_sem_at(lane, peal_packed_inner(lane->packed, chunk, rank) ? SEM_DOWN : SEM_LEAF,
                       depth);
}

/* The children that stores reach. */
static uint32_t stores_to(const struct lane *lane, uint32_t chunk, struct plan_operand *dst)
{
    const struct seat *seat = peal_packed_seat(lane->packed, PACKED_DOWN, chunk, lane->b->self);
    const uint32_t *child = peal_packed_children(lane->packed, PACKED_DOWN, seat);
    uint32_t stores = 0;
    for (uint32_t i = 0; i < seat->children; i++)
        if (stored(lane, child[i]))
            dst[stores++] = peal_op_user(child[i], PLAN_BUF_OUT, chunk);
    return stores;
}

/* Tells the children that stores have reached, and pushes the own output to the others. */
static void hand_down(const struct lane *lane, uint32_t chunk)
{
    struct build *b = lane->b;
    const struct seat *seat = peal_packed_seat(lane->packed, PACKED_DOWN, chunk, b->self);
    const uint32_t *child = peal_packed_children(lane->packed, PACKED_DOWN, seat);
    struct plan_operand own = peal_op_user(b->self, PLAN_BUF_OUT, chunk);
    for (uint32_t i = 0; i < seat->children; i++)
        if (stored(lane, child[i]))
            peal_build_signal(b, child[i], down_sem(lane, chunk, child[i]));
    for (uint32_t i = 0; i < seat->children; i++)
        if (!stored(lane, child[i]))
            peal_build_push(b, chunk, own, peal_op_user(child[i], PLAN_BUF_OUT, chunk),
                            down_sem(lane, chunk, child[i]));
}

/* The root's chunk comes out of its input; stores first, as one of them may write the chunk onto
 * itself. */
static void pass_on(const struct lane *lane, uint32_t chunk)
{
    struct build *b = lane->b;
    const struct seat *seat = seat_of(lane, chunk, b->self);
    struct plan_operand own = peal_op_user(b->self, PLAN_BUF_OUT, chunk);
    struct plan_operand in = peal_op_user(b->self, PLAN_BUF_IN, chunk);
    struct plan_operand dst[PACKED_RANKS_MAX];
    uint32_t stores = 0;
    if (seat->parent == NO_RANK)
        dst[stores++] = own;
    else
        peal_build_wait(b, seat->parent, down_sem(lane, chunk, b->self), 0);
    if (!seat->children)
        return;
    stores += stores_to(lane, chunk, dst + stores);
    if (stores)
        peal_build_move(b, chunk, 1, seat->parent == NO_RANK ? &in : &own, stores, dst,
                        PEAL_ENGINE_SM, 0);
    hand_down(lane, chunk);
}

/* ---- up ---------------------------------------------------------------------------------------
 */

/* The lane's contributions to one parent in each trip: so many credits free a slot again. */
static uint32_t sent_to(const struct lane *lane, uint32_t parent)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < peal_packed_chunks(lane->packed); c++)
        count += mine(lane, c) && seat_of(lane, c, lane->b->self)->parent == parent;
    return count;
}

static uint32_t stage_region(const struct lane *lane)
{
    return lane->packed->channels + lane->channel;
}

static void climb(const struct lane *lane, uint32_t chunk, uint32_t nsrc,
                  const struct plan_operand *src)
{
    struct build *b = lane->b;
    const struct seat *seat = seat_of(lane, chunk, b->self);
    uint32_t up = up_sem(lane, SEM_UP, seat->depth);
    struct plan_operand slot = peal_op_slot(seat->parent, PLAN_BUF_SCRATCH, lane->channel,
                                            peal_packed_slot(lane->packed, chunk, b->self));
    if (b->plan->tile_bytes)
        peal_build_wait(b, seat->parent, up_sem(lane, SEM_CREDIT, seat->depth),
                        SLOT_DEPTH * sent_to(lane, seat->parent));
    if (nsrc == 1) {
        peal_build_push(b, chunk, src[0], slot, up);
        return;
    }
    if (!seat->pushed) {
        peal_build_move(b, chunk, nsrc, src, 1, &slot, PEAL_ENGINE_SM, 0);
        peal_build_signal(b, seat->parent, up);
        return;
    }
    struct plan_operand stage = peal_op_slot(
        b->self, PLAN_BUF_SCRATCH, stage_region(lane),
        peal_packed_stage(lane->packed, lane->channel, seat->depth, b->self) + peal_build_stage(b));
    peal_build_move(b, chunk, nsrc, src, 1, &stage, PEAL_ENGINE_SM, 0);
    peal_build_push(b, chunk, stage, slot, up);
}

/* Folds the root's chunk into its output, and, on its way down again, into its children's. */
static void arrive(const struct lane *lane, uint32_t chunk, uint32_t nsrc,
                   const struct plan_operand *src)
{
    struct build *b = lane->b;
    struct plan_operand dst[PACKED_RANKS_MAX] = {peal_op_user(b->self, PLAN_BUF_OUT, chunk)};
    int down = lane->packed->way[PACKED_DOWN].levels > 0;
    uint32_t stores = 1;
    if (down)
        stores += stores_to(lane, chunk, dst + 1);
    peal_build_move(b, chunk, nsrc, src, stores, dst, PEAL_ENGINE_SM, 1);
    if (down)
        hand_down(lane, chunk);
}

static void fold(const struct lane *lane, uint32_t chunk)
{
    struct build *b = lane->b;
    const struct seat *seat = seat_of(lane, chunk, b->self);
    const uint32_t *child = peal_packed_children(lane->packed, PACKED_UP, seat);
    struct plan_operand src[PACKED_RANKS_MAX] = {peal_op_user(b->self, PLAN_BUF_IN, chunk)};
    for (uint32_t i = 0; i < seat->children; i++) {
        peal_build_wait(b, child[i], up_sem(lane, SEM_UP, seat->depth + 1), 0);
        src[1 + i] = peal_op_slot(b->self, PLAN_BUF_SCRATCH, lane->channel,
                                  peal_packed_slot(lane->packed, chunk, child[i]));
    }
    if (seat->parent == NO_RANK)
        arrive(lane, chunk, 1 + seat->children, src);
    else
        climb(lane, chunk, 1 + seat->children, src);
    for (uint32_t i = 0; b->plan->tile_bytes && i < seat->children; i++)
        peal_build_signal(b, child[i], up_sem(lane, SEM_CREDIT, seat->depth + 1));
}

/* ---- entering and leaving ----------------------------------------------------------------------
 */

/* Once for each rank and semaphore, in their order. what 0: signals to parents, 1: waits for
 * children. */
static void greet(const struct lane *lane, int what)
{
    struct build *b = lane->b;
    uint32_t n = lane->packed->n, cells = n * (lane->packed->way[PACKED_DOWN].levels + 1);
    for (uint32_t i = 0; i < cells; i++)
        lane->mark[i] = 0;
    for (uint32_t c = 0; c < peal_packed_chunks(lane->packed); c++) {
        const struct seat *seat = seat_of(lane, c, b->self);
        const uint32_t *child = peal_packed_children(lane->packed, PACKED_DOWN, seat);
        if (!mine(lane, c))
            continue;
        if (!what && seat->parent != NO_RANK)
            lane->mark[seat->depth * n + seat->parent] |= 1u;
        for (uint32_t i = 0; what && i < seat->children; i++)
            lane->mark[(seat->depth + 1) * n + child[i]] |=
                peal_packed_inner(lane->packed, c, child[i]) ? 1u : 2u;
    }
    int leaf = lane->kind == peal_packed_leaf_lane(lane->packed);
    for (uint32_t i = n; i < cells; i++) {
        uint32_t enter = down_sem_at(lane, SEM_ENTER, i / n);
        if (!what && lane->mark[i])
            peal_build_signal(b, i % n, enter + (leaf ? SEM_ENTER_LEAF - SEM_ENTER : 0));
        if (what && lane->mark[i] & 1)
            peal_build_wait(b, i % n, enter, 0);
        if (what && lane->mark[i] & 2)
            peal_build_wait(b, i % n, enter + SEM_ENTER_LEAF - SEM_ENTER, 0);
    }
}

/* The channel's first chunk, along whose tree all ranks are heard of. */
static uint32_t first_chunk(const struct lane *lane)
{
    uint32_t chunk = 0;
    while (peal_packed_channel(lane->packed, chunk) != lane->channel)
        chunk++;
    return chunk;
}

/* Nothing is sent before all ranks have entered. */
static void gather_entries(const struct lane *lane)
{
    struct build *b = lane->b;
    uint32_t chunk = first_chunk(lane);
    const struct seat *seat = seat_of(lane, chunk, b->self);
    const uint32_t *child = peal_packed_children(lane->packed, PACKED_DOWN, seat);
    if (!mine(lane, chunk))
        return;
    for (uint32_t i = 0; i < seat->children; i++)
        peal_build_wait(b, child[i], once_sem(lane), 0);
    if (seat->parent != NO_RANK)
        peal_build_signal(b, seat->parent, once_sem(lane));
}

static void spread_leave(const struct lane *lane)
{
    struct build *b = lane->b;
    uint32_t chunk = first_chunk(lane);
    const struct seat *seat = seat_of(lane, chunk, b->self);
    const uint32_t *child = peal_packed_children(lane->packed, PACKED_UP, seat);
    if (!mine(lane, chunk))
        return;
    if (seat->parent != NO_RANK)
        peal_build_wait(b, seat->parent, once_sem(lane), 0);
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
    greet(lane, 0);
    greet(lane, 1);
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
    if (packed->way[PACKED_UP].levels > 1 || packed->way[PACKED_DOWN].levels > 1 || blocks == 1)
        block += lane->channel * blocks / packed->channels;
    else if (block < others)
        block = lane->b->self + 1 + (block + lane->channel * others / packed->channels) % others;
    else
        block = lane->b->self;
    /* And with another tree, since a root's trees begin with different links. */
    uint32_t chunk = (nth + lane->channel * each / packed->channels) % each;
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
            return peal_packed_turn(lane->packed, lane->channel, rank, seat_a) >
                   peal_packed_turn(lane->packed, lane->channel, rank, seat_b);
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

static void emit_lane(const struct lane *lane)
{
    struct build *b = lane->b;
    uint32_t count;
    const uint32_t *chunk = in_order(lane, &count);
    if (!count)
        return;
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
    size_t marks = (size_t)packed->n * (packed->way[PACKED_DOWN].levels + 1);
    size_t room = 2 * (size_t)peal_packed_chunks(packed);
    struct lane lane = {.b = b, .packed = packed, .mark = peal_calloc(packed->ctx, marks, 1)};
    (void)rank;
    lane.order = peal_calloc(packed->ctx, room, sizeof *lane.order);
    if (!lane.mark || !lane.order) {
        peal_free(packed->ctx, lane.order, room * sizeof *lane.order);
        peal_free(packed->ctx, lane.mark, marks);
        b->status = PEAL_ERR_MEMORY;
        return;
    }
    for (lane.channel = 0; lane.channel < candidate->channels; lane.channel++)
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
    uint32_t depth = b->plan->tile_bytes ? SLOT_DEPTH : 1;
    uint64_t bytes = peal_build_slot_bytes(b);
    b->plan->nsems =
        (uint16_t)(candidate->channels * peal_packed_semaphores(packed, b->plan->collective));
    if (!packed->way[PACKED_UP].levels)
        return;
    for (uint32_t c = 0; c < candidate->channels; c++)
        peal_build_region(b, PLAN_BUF_SCRATCH, packed->width, depth, bytes);
    for (uint32_t c = 0; packed->stages && c < candidate->channels; c++)
        peal_build_region(b, PLAN_BUF_SCRATCH, packed->stages, 1, bytes);
}
