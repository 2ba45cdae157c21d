/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gather and scatter over all NICs of the root's unit: a block of another unit goes between its
 * rank and the *head* of its rail, the rank of the root's unit with the same shard, and through a
 * slot there between the head and the root. On the head a lane for the rail and one for the unit
 * hand the slots to each other.
 */
#include "level.h"

struct rail {
    struct level_run *run;
    struct build *b;
    const struct level_layout *layout;
    uint32_t home; /* unit of the root */
    uint32_t root;
    uint32_t others; /* units besides */
    uint32_t window; /* slots of the head */
    int credits;
};

static uint32_t inner_sem(const struct rail *r, uint32_t which)
{
    return peal_level_sem(r->run, 0, which);
}

static uint32_t outer_sem(const struct rail *r, uint32_t which)
{
    return peal_level_sem(r->run, 1, which);
}

/* The rank of a rail in the i-th unit behind the root's. */
static uint32_t rank_on(const struct rail *r, uint32_t shard, uint32_t i)
{
    uint32_t unit = (r->home + i) % r->layout->units;
    return r->layout->holder[unit * r->layout->shards + shard];
}

static uint32_t chunk_of(const struct rail *r, uint32_t rank)
{
    return rank * r->run->channels + r->run->channel;
}

static struct plan_operand slot_of(const struct rail *r, uint32_t head, uint32_t i)
{
    return peal_op_slot(head, PLAN_BUF_SCRATCH, peal_level_region(r->run, r->layout->inbox[1]),
                        (i - 1) % r->window);
}

static struct plan_operand user(const struct rail *r, uint32_t owner, uint8_t buffer, uint32_t rank)
{
    return peal_op_user(owner, buffer, chunk_of(r, rank));
}

static void self_signal(const struct rail *r, uint32_t sem)
{
    peal_build_signal(r->b, r->b->self, sem);
}

static void self_wait(const struct rail *r, uint32_t sem)
{
    peal_build_wait(r->b, r->b->self, sem, 0);
}

static void signal_heads(const struct rail *r, uint32_t sem)
{
    for (uint32_t s = 0; s < r->layout->shards; s++)
        if (rank_on(r, s, 0) != r->b->self)
            peal_build_signal(r->b, rank_on(r, s, 0), sem);
}

static void hear_heads(const struct rail *r, uint32_t sem)
{
    for (uint32_t s = 0; s < r->layout->shards; s++)
        if (rank_on(r, s, 0) != r->b->self)
            peal_build_wait(r->b, rank_on(r, s, 0), sem, 0);
}

/* Copies within the rank, or pushes and tells. */
static void move_to(const struct rail *r, uint32_t chunk, struct plan_operand src,
                    struct plan_operand dst, uint32_t sem)
{
    if (dst.rank == r->b->self)
        peal_build_move(r->b, chunk, 1, &src, 1, &dst, PEAL_ENGINE_SM, 0);
    else
        peal_build_push(r->b, chunk, src, dst, sem);
}

/* ---- gather: rank to head, head to root --------------------------------------------------- */

/* Which of its head's senders a rank is. Those that share a slot with an earlier one wait for it.
 */
static void gather_send(const struct rail *r, uint32_t i)
{
    uint32_t head = rank_on(r, r->run->shard, 0), self = r->b->self;
    peal_build_lane(r->b);
    peal_build_section(r->b, 1);
    if (r->credits && (i > r->window || r->b->plan->tile_bytes))
        peal_build_wait(r->b, head, outer_sem(r, LEVEL_SEM_CREDIT), i > r->window ? 0 : SLOT_DEPTH);
    peal_build_push(r->b, chunk_of(r, self), user(r, self, PLAN_BUF_IN, self), slot_of(r, head, i),
                    outer_sem(r, LEVEL_SEM_FOLD));
    peal_build_drain(r->b);
    peal_build_wait(r->b, head, outer_sem(r, LEVEL_SEM_LEAVE), 0);
}

/* The head's rail. With half the window under way, a slot that is free again goes to the next. */
static void gather_rail(const struct rail *r)
{
    uint32_t shard = r->run->shard, ahead = (r->window + 1) / 2;
    int tiled = r->b->plan->tile_bytes != 0;
    peal_build_lane(r->b);
    peal_build_section(r->b, 1);
    for (uint32_t i = 1; i <= r->others + ahead; i++) {
        if (i <= r->others) {
            peal_build_wait(r->b, rank_on(r, shard, i), outer_sem(r, LEVEL_SEM_FOLD), 0);
            self_signal(r, inner_sem(r, LEVEL_SELF_FOLD));
        }
        if (!r->credits || i <= ahead)
            continue;
        self_wait(r, inner_sem(r, LEVEL_SELF_FREE));
        if (i - ahead + r->window <= r->others)
            peal_build_signal(r->b, rank_on(r, shard, i - ahead + r->window),
                              outer_sem(r, LEVEL_SEM_CREDIT));
    }
    for (uint32_t i = 1; tiled && i <= r->others && i <= r->window; i++)
        peal_build_signal(r->b, rank_on(r, shard, i), outer_sem(r, LEVEL_SEM_CREDIT));
    peal_build_section(r->b, 2);
    self_wait(r, outer_sem(r, LEVEL_SELF_LEAVE));
    for (uint32_t i = 1; i <= r->others; i++)
        peal_build_signal(r->b, rank_on(r, shard, i), outer_sem(r, LEVEL_SEM_LEAVE));
}

static void gather_unit(const struct rail *r)
{
    struct build *b = r->b;
    uint32_t self = b->self, sem = inner_sem(r, LEVEL_SEM_SPREAD);
    peal_build_lane(b);
    if (self == r->root)
        signal_heads(r, inner_sem(r, LEVEL_SEM_ENTER));
    else
        peal_build_wait(b, r->root, inner_sem(r, LEVEL_SEM_ENTER), 0);
    peal_build_section(b, 1);
    move_to(r, chunk_of(r, self), user(r, self, PLAN_BUF_IN, self),
            user(r, r->root, PLAN_BUF_OUT, self), sem);
    for (uint32_t i = 1; i <= r->others; i++) {
        uint32_t rank = rank_on(r, r->run->shard, i);
        self_wait(r, inner_sem(r, LEVEL_SELF_FOLD));
        move_to(r, chunk_of(r, rank), slot_of(r, self, i), user(r, r->root, PLAN_BUF_OUT, rank),
                sem);
        if (r->credits) {
            peal_build_await_last(b);
            self_signal(r, inner_sem(r, LEVEL_SELF_FREE));
        }
    }
    for (uint32_t i = 0; self == r->root && i <= r->others; i++)
        hear_heads(r, sem);
    peal_build_drain(b);
    if (self == r->root)
        signal_heads(r, inner_sem(r, LEVEL_SEM_ROOT));
    else
        peal_build_wait(b, r->root, inner_sem(r, LEVEL_SEM_ROOT), 0);
    self_signal(r, outer_sem(r, LEVEL_SELF_LEAVE));
}

/* ---- scatter: root to head, head to rank ---------------------------------------------------- */

static void scatter_receive(const struct rail *r)
{
    uint32_t head = rank_on(r, r->run->shard, 0);
    peal_build_lane(r->b);
    peal_build_signal(r->b, head, outer_sem(r, LEVEL_SEM_ENTER));
    peal_build_section(r->b, 1);
    peal_build_wait(r->b, head, outer_sem(r, LEVEL_SEM_SPREAD), 0);
}

/* The root's own rail begins with its input. */
static void scatter_rail(const struct rail *r)
{
    struct build *b = r->b;
    uint32_t self = b->self, shard = r->run->shard;
    peal_build_lane(b);
    for (uint32_t i = 1; i <= r->others; i++)
        peal_build_wait(b, rank_on(r, shard, i), outer_sem(r, LEVEL_SEM_ENTER), 0);
    self_signal(r, inner_sem(r, LEVEL_SELF_ENTER));
    peal_build_section(b, 1);
    for (uint32_t i = 1; i <= r->others; i++) {
        uint32_t rank = rank_on(r, shard, i);
        self_wait(r, inner_sem(r, LEVEL_SELF_FOLD));
        peal_build_push(b, chunk_of(r, rank),
                        self == r->root ? user(r, self, PLAN_BUF_IN, rank) : slot_of(r, self, i),
                        user(r, rank, PLAN_BUF_OUT, rank), outer_sem(r, LEVEL_SEM_SPREAD));
        if (!r->credits || self == r->root)
            continue;
        /* Transfers end in order of their events: the one BUILD_EVENTS before has. */
        if (i > BUILD_EVENTS)
            self_signal(r, inner_sem(r, LEVEL_SELF_FREE));
    }
    if (r->credits && self != r->root) {
        peal_build_await_free(b);
        for (uint32_t i = 0; i < r->others && i < BUILD_EVENTS; i++)
            self_signal(r, inner_sem(r, LEVEL_SELF_FREE));
    }
    peal_build_drain(b);
}

static void scatter_head(const struct rail *r)
{
    struct build *b = r->b;
    uint32_t sem = inner_sem(r, LEVEL_SEM_FOLD);
    peal_build_lane(b);
    self_wait(r, inner_sem(r, LEVEL_SELF_ENTER));
    peal_build_signal(b, r->root, inner_sem(r, LEVEL_SEM_ROOT));
    peal_build_section(b, 1);
    peal_build_wait(b, r->root, sem, 0); /* the own block */
    for (uint32_t i = 1; i <= r->others + r->window; i++) {
        if (r->credits && i > r->window) {
            self_wait(r, inner_sem(r, LEVEL_SELF_FREE));
            peal_build_signal(b, r->root, inner_sem(r, LEVEL_SEM_CREDIT));
        }
        if (i > r->others)
            continue;
        peal_build_wait(b, r->root, sem, 0);
        self_signal(r, inner_sem(r, LEVEL_SELF_FOLD));
    }
}

/* What goes to one unit: to every head, or for the root's own unit, to every rank of it. */
static void scatter_deal(const struct rail *r, uint32_t i)
{
    struct build *b = r->b;
    uint32_t lag = r->others <= r->window ? SLOT_DEPTH * r->others : r->window;
    for (uint32_t k = 0; k < r->layout->shards; k++) {
        uint32_t shard = (r->run->shard + k) % r->layout->shards;
        uint32_t head = rank_on(r, shard, 0), rank = rank_on(r, shard, i);
        struct plan_operand src = user(r, b->self, PLAN_BUF_IN, rank);
        if (i == 0) {
            move_to(r, chunk_of(r, rank), src, user(r, rank, PLAN_BUF_OUT, rank),
                    inner_sem(r, LEVEL_SEM_FOLD));
            continue;
        }
        if (head == b->self) {
            self_signal(r, inner_sem(r, LEVEL_SELF_FOLD));
            continue;
        }
        if (r->credits)
            peal_build_wait(b, head, inner_sem(r, LEVEL_SEM_CREDIT), lag);
        peal_build_push(b, chunk_of(r, rank), src, slot_of(r, head, i),
                        inner_sem(r, LEVEL_SEM_FOLD));
    }
}

static void scatter_root(const struct rail *r)
{
    peal_build_lane(r->b);
    self_wait(r, inner_sem(r, LEVEL_SELF_ENTER));
    hear_heads(r, inner_sem(r, LEVEL_SEM_ROOT));
    peal_build_section(r->b, 1);
    for (uint32_t i = 0; i <= r->others; i++)
        scatter_deal(r, i);
    peal_build_drain(r->b);
}

void peal_level_rail(struct level_run *run)
{
    struct rail r = {.run = run,
                     .b = run->b,
                     .layout = run->layout,
                     .root = run->b->plan->root,
                     .others = run->layout->units - 1,
                     .window = run->layout->inbox_width[1]};
    int gathers = run->collective == PEAL_GATHER;
    r.home = r.layout->unit_of[r.root];
    r.credits = r.b->plan->tile_bytes != 0 || r.others > r.window;
    if (run->unit != r.home) {
        if (gathers)
            gather_send(&r, (run->unit + r.layout->units - r.home) % r.layout->units);
        else
            scatter_receive(&r);
        return;
    }
    if (gathers) {
        gather_rail(&r);
        gather_unit(&r);
        return;
    }
    scatter_rail(&r);
    if (r.b->self == r.root)
        scatter_root(&r);
    else
        scatter_head(&r);
}
