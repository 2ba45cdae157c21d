/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partial sums on their way to the peer they are for. Where loads reach, a direct fold reads the
 * others' inputs; otherwise sums travel through slots of the next peer. What a peer finishes lies
 * in its output where that holds the message, else in cells of scratch, until the next level has
 * taken it.
 */
#include "level.h"

struct fold {
    struct level_run *run;
    struct build *b;
    const struct level_phase *phase;
    const struct level_phase *before;
    const struct level_phase *after;
    const struct level_peers *peers;
    uint32_t window;
    uint32_t inputs; /* taken from the phase before, so far in a trip */
    uint32_t outputs;
    uint32_t outputs_all;
    uint32_t owed; /* cells that a transfer may still be reading */
};

static uint32_t min_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- slots and cells ------------------------------------------------------------------ */

/* 1: inputs are read where they lie, where loads reach. */
static int may_pull(const struct fold *f)
{
    return !f->before && f->phase->kind == LEVEL_FOLD && f->phase->way.part == PART_DIRECT;
}

static int pulls(const struct fold *f, uint32_t peer)
{
    return may_pull(f) && peal_build_direct(f->b, f->peers->rank[peer]);
}

static int is_root(const struct fold *f, uint32_t peer)
{
    return f->phase->way.single ? peer == f->phase->root : f->peers->shard[peer] != NO_RANK;
}

/* Messages of a trip from one peer to another. */
static uint32_t messages(const struct fold *f, uint32_t from, uint32_t to)
{
    const struct level_way *way = &f->phase->way;
    uint32_t rounds = peal_level_rounds(f->run->layout, f->phase->level), count = 0;
    if (way->part == PART_DIRECT || way->single)
        return rounds;
    if (way->part == PART_RING)
        return rounds * (peal_level_roots(f->run->layout, f->phase->level, way) -
                         (is_root(f, from) ? 1 : 0));
    for (uint32_t root = 0; root < way->n; root++)
        count += is_root(f, root) && root != from && peal_level_place(way, root, from).parent == to;
    return rounds * count;
}

/* How many may be under way, of `count` in a trip; 0: all of them, without asking. */
static uint32_t lag_of(const struct fold *f, uint32_t count, uint32_t window, uint32_t depth)
{
    int tiled = f->b->plan->tile_bytes != 0;
    if (count > window)
        return window;
    return tiled ? depth * count : 0;
}

/* From one peer to another. */
static uint32_t slot_lag(const struct fold *f, uint32_t from, uint32_t to)
{
    uint32_t all = messages(f, from, to);
    uint32_t each = all / peal_level_rounds(f->run->layout, f->phase->level);
    int several = f->phase->way.single || f->phase->way.part == PART_RING;
    return lag_of(f, all, several ? f->window : each,
                  f->phase->way.single ? LEVEL_TREE_DEPTH : SLOT_DEPTH);
}

static struct plan_operand inbox(const struct fold *f, uint32_t owner, uint32_t slot, uint32_t turn)
{
    uint32_t region = peal_level_region(f->run, f->run->layout->inbox[f->phase->level]);
    return peal_op_slot(owner, PLAN_BUF_SCRATCH, region, slot * f->window + turn % f->window);
}

static uint32_t cells_of(const struct fold *f, const struct level_phase *phase)
{
    return peal_level_cells(f->run->layout, phase->level, &phase->way);
}

static struct plan_operand cell(const struct fold *f, const struct level_phase *phase,
                                uint32_t turn)
{
    uint32_t region = peal_level_region(f->run, f->run->layout->cell[phase->level]);
    return peal_op_slot(f->b->self, PLAN_BUF_SCRATCH, region,
                        turn % min_of(cells_of(f, phase), LEVEL_WINDOW));
}

static uint32_t cell_lag(const struct fold *f, const struct level_phase *phase)
{
    uint32_t count = cells_of(f, phase);
    return f->run->layout->whole ? 0 : lag_of(f, count, min_of(count, LEVEL_WINDOW), SLOT_DEPTH);
}

/* ---- from the phase before -------------------------------------------------------------- */

static struct plan_operand take(struct fold *f, uint32_t chunk)
{
    if (!f->before)
        return peal_op_user(f->b->self, PLAN_BUF_IN, chunk);
    if (f->run->fine || !f->inputs)
        peal_build_wait(f->b, f->b->self, peal_level_ready(f->run, f->phase), 0);
    f->inputs++;
    if (f->run->layout->whole)
        return peal_op_user(f->b->self, PLAN_BUF_OUT, chunk);
    return cell(f, f->before, f->inputs - 1);
}

static void give_back(struct fold *f)
{
    peal_build_signal(f->b, f->b->self, peal_level_sem(f->run, f->before->level, LEVEL_SELF_FREE));
}

static void settle(struct fold *f)
{
    if (f->owed)
        peal_build_await_free(f->b);
    for (; f->owed; f->owed--)
        give_back(f);
}

/* The cell taken last is read; or a transfer has begun to. */
static void done_with_input(struct fold *f, int transfer)
{
    if (!f->before || !cell_lag(f, f->before))
        return;
    if (!transfer) {
        settle(f);
        give_back(f);
        return;
    }
    /* An event used again has ended before. */
    if (f->owed == f->b->in_flight)
        give_back(f);
    else
        f->owed++;
}

/* ---- the root's shard, in its unit ----------------------------------------------------- */

/* The shard is the root's, and its deputy folds it into the root's cell. */
static int deputed(const struct fold *f, uint32_t root)
{
    return f->run->deputy != NO_RANK && f->phase->level == 0 &&
           f->peers->rank[root] == f->b->plan->root;
}

/* The root: its cell is free, then filled. */
static void let_fold(struct fold *f)
{
    struct build *b = f->b;
    uint32_t deputy = f->peers->rank[f->run->deputy];
    if (b->plan->tile_bytes) {
        peal_build_wait(b, b->self, peal_level_sem(f->run, 0, LEVEL_SELF_FREE),
                        SLOT_DEPTH * f->run->layout->runs);
        peal_build_signal(b, deputy, peal_level_sem(f->run, 0, LEVEL_SEM_CREDIT));
    }
    peal_build_wait(b, deputy, peal_level_sem(f->run, 0, LEVEL_SEM_FOLD), 0);
    peal_build_signal(b, b->self, peal_level_ready(f->run, f->after));
}

static void fold_for_root(struct fold *f, uint32_t q, uint32_t root)
{
    struct build *b = f->b;
    struct plan_operand src[LEVEL_LOCAL_MAX];
    uint32_t chunk = peal_level_chunk(f->run, f->phase, q, root);
    struct plan_operand to = cell(f, f->phase, q);
    to.rank = b->plan->root;
    for (uint32_t i = 0; i < f->peers->n; i++)
        src[i] = peal_op_user(f->peers->rank[i], PLAN_BUF_IN, chunk);
    if (b->plan->tile_bytes)
        peal_build_wait(b, to.rank, peal_level_sem(f->run, 0, LEVEL_SEM_CREDIT), 0);
    peal_build_move(b, chunk, f->peers->n, src, 1, &to, PEAL_ENGINE_SM, 0);
    peal_build_signal(b, to.rank, peal_level_sem(f->run, 0, LEVEL_SEM_FOLD));
}

/* ---- a visit: what a peer does for one root's piece ----------------------------------------- */

static void finish(struct fold *f, uint32_t chunk, uint32_t nsrc, const struct plan_operand *src)
{
    struct build *b = f->b;
    int last = !f->after || f->after->kind == LEVEL_SPREAD || f->after->kind == LEVEL_GATHER;
    int home = f->after && f->after->kind == LEVEL_GATHER && b->self == b->plan->root;
    struct plan_operand to = peal_op_user(b->self, PLAN_BUF_OUT, chunk);
    if (!f->run->layout->whole && f->after && !home) {
        uint32_t lag = cell_lag(f, f->phase);
        if (lag)
            peal_build_wait(b, b->self, peal_level_sem(f->run, f->phase->level, LEVEL_SELF_FREE),
                            lag);
        to = cell(f, f->phase, f->outputs);
    }
    peal_build_move(b, chunk, nsrc, src, 1, &to, PEAL_ENGINE_SM, last && nsrc > 1);
    f->outputs++;
    if (f->after && (f->run->fine || f->outputs == f->outputs_all))
        peal_build_signal(b, b->self, peal_level_ready(f->run, f->after));
    done_with_input(f, 0);
}

/* Passes a sum to the parent's slot: by stores, or folded into memory of its own and pushed. */
static void pass_on(struct fold *f, const struct level_place *place, uint32_t chunk, uint32_t nsrc,
                    const struct plan_operand *src)
{
    struct build *b = f->b;
    uint32_t to = f->peers->rank[place->parent], level = f->phase->level;
    uint32_t lag = slot_lag(f, f->peers->self, place->parent);
    uint32_t sem = peal_level_sem(f->run, level, LEVEL_SEM_FOLD);
    struct plan_operand slot = inbox(f, to, place->slot, f->peers->sent[place->parent]++);
    if (lag)
        peal_build_wait(b, to, peal_level_sem(f->run, level, LEVEL_SEM_CREDIT), lag);
    if (peal_build_direct(b, to)) {
        peal_build_move(b, chunk, nsrc, src, 1, &slot, PEAL_ENGINE_SM, 0);
        peal_build_signal(b, to, sem);
        done_with_input(f, 0);
        return;
    }
    if (nsrc == 1) {
        peal_build_push(b, chunk, src[0], slot, sem);
        done_with_input(f, 1);
        return;
    }
    struct plan_operand stage = peal_op_user(b->self, PLAN_BUF_OUT, chunk);
    if (!f->run->layout->whole)
        stage = peal_op_slot(b->self, PLAN_BUF_SCRATCH,
                             peal_level_region(f->run, f->run->layout->stage[level]),
                             peal_build_stage(b));
    peal_build_move(b, chunk, nsrc, src, 1, &stage, PEAL_ENGINE_SM, 0);
    done_with_input(f, 0);
    peal_build_push(b, chunk, stage, slot, sem);
}

static void visit(struct fold *f, uint32_t q, uint32_t root)
{
    struct plan_operand src[LEVEL_DIRECT_MAX];
    const struct level_way *way = &f->phase->way;
    struct level_place place = peal_level_place(way, root, f->peers->self);
    uint32_t chunk = peal_level_chunk(f->run, f->phase, q, root), nsrc = 0;
    if (deputed(f, root)) {
        if (f->peers->self == root)
            let_fold(f);
        else if (f->peers->self == f->run->deputy)
            fold_for_root(f, q, root);
        return;
    }
    if (place.parent != NO_RANK && pulls(f, place.parent))
        return;
    /* Who folds all peers folds them in their order, the same for every shard. */
    int all = place.kids + 1 == f->peers->n;
    nsrc = 1 + place.kids;
    src[all ? f->peers->self : 0] = take(f, chunk);
    for (uint32_t i = 0; i < place.kids; i++) {
        uint32_t kid = peal_level_kid(&place, way, f->peers->self, i);
        uint32_t rank = f->peers->rank[kid], at = all ? kid : 1 + i;
        if (pulls(f, kid)) {
            src[at] = peal_op_user(rank, PLAN_BUF_IN, chunk);
            continue;
        }
        peal_build_wait(f->b, rank, peal_level_sem(f->run, f->phase->level, LEVEL_SEM_FOLD), 0);
        src[at] = inbox(f, f->b->self, peal_level_kid_slot(&place, i), f->peers->heard[kid]++);
    }
    if (place.parent == NO_RANK)
        finish(f, chunk, nsrc, src);
    else
        pass_on(f, &place, chunk, nsrc, src);
    for (uint32_t i = 0; i < place.kids; i++) {
        uint32_t kid = peal_level_kid(&place, way, f->peers->self, i);
        if (!pulls(f, kid) && slot_lag(f, kid, f->peers->self))
            peal_build_signal(f->b, f->peers->rank[kid],
                              peal_level_sem(f->run, f->phase->level, LEVEL_SEM_CREDIT));
    }
}

/* ---- entering and leaving ----------------------------------------------------------------------
 */

/* Inputs that are read by others: their owner has entered. */
static void enter(const struct fold *f)
{
    uint32_t sem = peal_level_sem(f->run, f->phase->level, LEVEL_SEM_ENTER), self = f->peers->self;
    if (!may_pull(f))
        return;
    for (uint32_t i = 0; i < f->peers->n; i++)
        if (i != self && is_root(f, i) && pulls(f, i))
            peal_build_signal(f->b, f->peers->rank[i], sem);
    for (uint32_t i = 0; is_root(f, self) && i < f->peers->n; i++)
        if (i != self && pulls(f, i))
            peal_build_wait(f->b, f->peers->rank[i], sem, 0);
}

/* A reduce-scatter gives nothing back to those whose input a peer reads: they are told. */
static void leave_pulled(const struct fold *f)
{
    uint32_t sem = peal_level_sem(f->run, f->phase->level, LEVEL_SEM_LEAVE), self = f->peers->self;
    if (!may_pull(f))
        return;
    for (uint32_t i = 0; is_root(f, self) && i < f->peers->n; i++)
        if (i != self && pulls(f, i))
            peal_build_signal(f->b, f->peers->rank[i], sem);
    for (uint32_t i = 0; i < f->peers->n; i++)
        if (i != self && is_root(f, i) && pulls(f, i))
            peal_build_wait(f->b, f->peers->rank[i], sem, 0);
}

/* In a reduce only the root hears of all: from it the word goes back the way that sums came. */
static void leave_rooted(const struct fold *f)
{
    const struct level_way *way = &f->phase->way;
    uint32_t sem = peal_level_sem(f->run, f->phase->level, LEVEL_SEM_LEAVE), self = f->peers->self;
    struct level_place place = {.parent = NO_RANK, .flat = 1};
    if (way->single)
        place = peal_level_place(way, f->phase->root, self);
    else if (is_root(f, self))
        place.kids = f->peers->n - 1;
    if (place.parent != NO_RANK)
        peal_build_wait(f->b, f->peers->rank[place.parent], sem, 0);
    else if (f->after)
        peal_build_wait(f->b, f->b->self, peal_level_sem(f->run, f->phase->level, LEVEL_SELF_LEAVE),
                        0);
    for (uint32_t i = 0; i < place.kids; i++)
        peal_build_signal(f->b, f->peers->rank[peal_level_kid(&place, way, self, i)], sem);
    if (f->before)
        peal_build_signal(f->b, f->b->self,
                          peal_level_sem(f->run, f->before->level, LEVEL_SELF_LEAVE));
    for (uint32_t i = 0; !way->single && i < f->peers->n; i++)
        if (i != self && is_root(f, i))
            peal_build_wait(f->b, f->peers->rank[i], sem, 0);
}

void peal_level_fold(struct level_run *run, const struct level_phase *phase)
{
    struct fold f = {.run = run,
                     .b = run->b,
                     .phase = phase,
                     .before = peal_level_before(run, phase),
                     .after = peal_level_after(run, phase),
                     .peers = &run->peers,
                     .window = peal_level_window(run->layout, phase->level, &phase->way)};
    uint32_t rounds = peal_level_rounds(run->layout, phase->level);
    f.outputs_all = rounds;
    peal_build_lane(f.b);
    /* All others' pieces leave from what is there, and wait for nothing but their slots. */
    if (phase->way.part == PART_DIRECT && !phase->way.single && (!f.before || run->layout->whole))
        f.b->in_flight = BURST_EVENTS;
    enter(&f);
    peal_build_section(f.b, 1);
    for (uint32_t q = 0; q < rounds; q++) {
        if (phase->way.single)
            visit(&f, q, phase->root);
        for (uint32_t i = 0; !phase->way.single && i < phase->way.n; i++) {
            uint32_t root = peal_level_turn(1, phase->way.n, run->peers.self, i);
            if (is_root(&f, root))
                visit(&f, q, root);
        }
    }
    settle(&f);
    peal_build_drain(f.b);
    f.b->in_flight = peal_level_events(run->layout);
    if (run->collective == PEAL_REDUCE_SCATTER)
        leave_pulled(&f);
    if (run->collective == PEAL_REDUCE)
        leave_rooted(&f);
}
