/* SPDX-License-Identifier: Apache-2.0 */
/* What phases take that have a single root: a stage for each depth of its trees or of its chain. */
#include "level_cost.h"

#include <string.h>

static uint32_t height(const struct level_costing *c)
{
    uint32_t most = 0,
             root = c->lone ? peal_level_root_of(c, c->layout->holder[0]) : c->phase->root;
    for (uint32_t i = 0; i < c->phase->way.n; i++) {
        uint32_t depth = peal_level_depth_of(c, root, i);
        most = depth > most ? depth : most;
    }
    return most;
}

/* Most kids of a peer at the depth. */
static uint32_t fan_at(const struct level_costing *c, uint32_t depth)
{
    uint32_t most = 0, root = peal_level_root_of(c, c->layout->holder[0]);
    for (uint32_t i = 0; i < c->phase->way.n; i++) {
        uint32_t kids = peal_level_place(&c->phase->way, root, i).kids;
        if (peal_level_depth_of(c, root, i) == depth && kids > most)
            most = kids;
    }
    return most;
}

/* The edges at one depth: of both trees, between which the channels are dealt out. */
static void cost_depth(struct level_costing *c, uint32_t depth, uint32_t lane)
{
    struct level_phase own = *c->phase, *use = &own;
    const struct level_phase *given = c->phase;
    uint32_t channels = c->candidate->channels;
    int folds = given->kind == LEVEL_FOLD;
    int trees = given->way.part == PART_TREE && !c->lone ? 2 : 1;
    peal_level_stage_begin(c, lane);
    for (int tree = 0; tree < trees && tree < (int)channels; tree++) {
        double dealt = trees == 1 ? channels : tree ? channels / 2 : channels - channels / 2;
        use->way.tree = (uint32_t)tree;
        if (!use->way.fed && !c->lone)
            use->root = peal_level_tree_root(use->way.n, use->way.tree);
        c->phase = use;
        peal_level_load_phase(c, c->share * dealt / channels, depth);
    }
    c->phase = given;
    uint32_t fan = trees == 2 ? 2 : given->way.part == PART_DIRECT ? given->way.n - 1 : 1;
    if (c->lone)
        fan = fan_at(c, folds ? depth : depth - 1);
    if (c->direct) { /* stored to all children at once, or told by one */
        c->told_us += folds || c->lone ? 0 : (fan - 1) * c->stage.gap_us;
        c->stage.gap_us = 0;
    } else {
        double one = folds && trees == 2 ? 1 : fan; /* messages of a channel */
        c->stage.gap_us *= c->lone ? (folds ? 1 : one) * (channels - 1.0) : one * channels - 1;
        if (!folds && given->way.part == PART_DIRECT)
            c->told_us += peal_level_again_us(c, fan, peal_level_events(c->layout));
    }
    double lanes = folds ? 1 + fan / 2.0 : c->direct ? (1 + fan) / 2.0 : 0;
    /* Results go to outputs, which take any number of tiles; partial sums to finite slots. Each
     * piece has an event for each peer it goes to; its transfer waits for no credit, but has ended
     * before that of the same piece of the next tile begins. */
    uint32_t runs = c->layout->runs, events = runs > 1 ? BURST_EVENTS : BUILD_EVENTS;
    uint32_t away = folds || events >= runs * fan ? runs : events / fan;
    uint32_t slots = c->lone ? SLOT_DEPTH : LEVEL_TREE_DEPTH * runs;
    c->stage.depth = !c->direct ? away : folds ? slots : LEVEL_WINDOW;
    if (trees == 2 && folds && c->direct)
        c->stage.depth = LEVEL_TREE_DEPTH * runs; /* slots; a transfer has its event until it has
                                                     been delivered, and is the only one */
    c->stage.depth = c->stage.depth ? c->stage.depth : 1;
    c->away |= (uint64_t)!c->direct << c->candidate->nstages;
    peal_level_stage_end(c, lanes * c->share);
}

/* The start-ups of all depths together are those of the longest way; between two tiles that of the
 * longest hop counts. */
static void set_way(struct level_costing *c, uint32_t first, uint32_t levels, uint32_t *lane)
{
    struct candidate *candidate = c->candidate;
    double way_us = 0;
    for (uint32_t r = 0; r < c->planner->group.n; r++)
        way_us = c->at[r] > way_us ? c->at[r] : way_us;
    c->way_us = way_us; /* of the entries before, or the leave after */
    if (c->phase->kind == LEVEL_FOLD && c->phase->way.part == PART_DIRECT && c->first && c->direct)
        way_us += c->hop_us; /* loads there and back */
    way_us += c->told_us;
    uint32_t last = candidate->nstages;
    for (uint32_t i = first; i < last; i++) {
        struct stage turn = candidate->stage[i];
        candidate->stage[i].alpha_us = way_us / levels;
        turn.levels = 0;
        int away = c->away >> i & 1;
        if (away) { /* of another engine, there and no way back */
            turn.alpha_us /= 2;
            turn.gap_us = 0; /* those of other channels pass meanwhile */
            candidate->stage[i].depth = LEVEL_WINDOW;
        }
        turn.lane = ++*lane;
        if ((away || turn.alpha_us > way_us / levels) && candidate->nstages < STAGES_MAX - 6)
            candidate->stage[candidate->nstages++] = turn;
    }
}

void peal_level_cost_rooted(struct level_costing *c, uint32_t *lane)
{
    uint32_t most = height(c), first = c->candidate->nstages;
    int folds = c->phase->kind == LEVEL_FOLD;
    memset(c->at, 0, c->planner->group.n * sizeof *c->at);
    c->told_us = 0;
    c->away = 0;
    for (uint32_t i = 0; i < most; i++) {
        uint32_t depth = folds ? most - i : i + 1;
        if (c->candidate->nstages < STAGES_MAX - 6) {
            cost_depth(c, depth, ++*lane);
            continue;
        }
        /* Depths of a long chain are alike; those that find no room share the last stage. */
        c->candidate->stage[c->candidate->nstages - 1].levels++;
    }
    if (most && c->candidate->nstages == first + most)
        set_way(c, first, most, lane);
}

/* The sums of the root's kids and its own input, into its output. */
static void fold_at_root(struct level_costing *c, uint32_t lane)
{
    struct stage fold = {.levels = 1, .lane = lane, .depth = LEVEL_WINDOW};
    double kids = fan_at(c, 0);
    if (c->candidate->nstages >= STAGES_MAX - 6)
        return;
    peal_candidate_stage(c->planner, c->candidate, &fold, 0);
    peal_stage_fold(c->planner, &c->candidate->stage[c->candidate->nstages - 1],
                    (kids + 2) / 2 * c->share / c->candidate->channels, (kids + 1) * c->share);
}

/* A slot is free again when its sum has gone on to the next: of SLOT_DEPTH tiles one takes both
 * hops, and a start-up there and back. */
static void turn_lone(struct level_costing *c, uint32_t first, uint32_t levels, uint32_t lane)
{
    struct candidate *candidate = c->candidate;
    struct stage turn = {.lane = lane, .depth = 1, .alpha_us = c->hop_us / SLOT_DEPTH};
    for (uint32_t i = first; i + 1 < first + levels; i++) {
        const struct stage *low = &candidate->stage[i], *high = low + 1;
        double us = (low->us_per_byte + high->us_per_byte) / SLOT_DEPTH;
        if (us < turn.us_per_byte)
            continue;
        turn.us_per_byte = us;
        turn.alone_us_per_byte = (low->alone_us_per_byte + high->alone_us_per_byte) / SLOT_DEPTH;
        turn.load_us = (low->load_us + high->load_us) / SLOT_DEPTH;
        turn.resource = low->resource;
    }
    if (turn.us_per_byte > 0 && candidate->nstages < STAGES_MAX - 6)
        candidate->stage[candidate->nstages++] = turn;
}

void peal_level_cost_lone(struct level_costing *c, uint32_t *lane)
{
    uint32_t first = c->candidate->nstages;
    c->lone = 1;
    peal_level_cost_rooted(c, lane);
    if (c->phase->kind == LEVEL_FOLD) {
        turn_lone(c, first, height(c), ++*lane);
        fold_at_root(c, ++*lane);
    }
    c->lone = 0;
}
