/* SPDX-License-Identifier: Apache-2.0 */
/* What phases take that have many roots, one for each peer or for each shard: all to all, around a
 * ring, along trees. */
#include "level_cost.h"

/* Gaps that follow each other on one NIC or issuer: of all channels, or, in a piece, of its one
 * message. */
static double gaps(const struct level_costing *c, double messages)
{
    double channels = c->candidate->channels;
    if (c->fine)
        return channels;
    if (c->phase->level == 0 && c->queued)
        messages = c->queued;
    return c->phase->level || c->queued ? messages * channels - 1 : messages - 1;
}

/* What other engines send in one round lies where that of the next has to, which waits for a
 * credit: a start-up back, and all channels' credits and pieces are in one queue. */
static void wait_for_credits(const struct level_costing *c, struct stage *turn)
{
    turn->alpha_us *= 2;
    turn->gap_us = 2.0 * c->queued * c->candidate->channels * c->hop_gap_us;
}

/*
 * Where pieces are handed on one by one, a lane waits once a round for what its peers send,
 * whatever it has under way itself, or, loading inputs, in each piece: between two pieces counts
 * that share of a start-up, and what the lane sends and folds.
 */
static void add_turn(struct level_costing *c, uint32_t lane, double alpha_us, double fold_us,
                     int loads)
{
    struct candidate *candidate = c->candidate;
    struct stage turn = {.lane = lane, .depth = 1};
    const struct stage *stage = &candidate->stage[candidate->nstages - 1];
    double rounds = peal_level_rounds(c->layout, c->phase->level);
    if (!c->fine || candidate->nstages >= STAGES_MAX - 6)
        return;
    turn.waits = loads ? candidate->cells : rounds;
    turn.alpha_us = alpha_us / 2 * turn.waits / candidate->cells;
    turn.us_per_byte = stage->us_per_byte + fold_us;
    turn.alone_us_per_byte = stage->alone_us_per_byte + fold_us;
    turn.load_us = stage->load_us;
    turn.resource = stage->resource;
    if (c->phase->kind == LEVEL_FOLD && !loads && !c->direct && !c->phase->level && rounds > 1)
        wait_for_credits(c, &turn);
    candidate->stage[candidate->nstages++] = turn;
}

double peal_level_again_us(const struct level_costing *c, uint32_t peers, uint32_t events)
{
    return peers ? (peers - 1) / events * c->stage.alpha_us : 0;
}

void peal_level_cost_direct(struct level_costing *c, uint32_t *lane_at)
{
    uint32_t lane = *lane_at;
    uint32_t n = c->phase->way.n;
    int folds = c->phase->kind == LEVEL_FOLD;
    peal_level_stage_begin(c, lane);
    c->stage.chain = !c->fine;
    peal_level_load_phase(c, c->share, 0);
    int loads = folds && c->first && c->direct && !c->phase->level;
    /* One store to all, or the entry that all wait for, is told of one by one. */
    uint32_t tells = !folds || peal_level_roots(c->layout, c->phase->level, &c->phase->way) == n
                         ? n - 1
                         : peal_level_roots(c->layout, c->phase->level, &c->phase->way);
    double told_us = c->direct && (!folds || loads) ? (tells - 1) * c->stage.gap_us : 0;
    c->stage.gap_us *= told_us > 0 || loads ? 0 : gaps(c, n - 1.0);
    c->stage.depth = c->direct ? LEVEL_WINDOW : BURST_EVENTS;
    if (!c->direct &&
        c->phase->level) /* what has come from the phase before leaves by few events */
        told_us = peal_level_again_us(
            c, n - 1, folds && !c->layout->whole && !c->first ? BUILD_EVENTS : BURST_EVENTS);
    /* A fold of inputs waits for their owners to enter, once, then for its loads to return. */
    double enter_us = loads ? c->stage.alpha_us + told_us : 0;
    c->stage.alpha_us += loads ? 0 : told_us;
    if (c->fine)
        c->stage.alpha_us += enter_us;
    double moved = c->direct || !c->phase->level ? (n - 1) * c->share : 0;
    double alpha_us = c->hop_us;
    /* One pass over all inputs; one over the result, which is stored to all, and from the input to
     * the own output too. */
    if (loads)
        moved = (n + 1) / 2.0 * c->share;
    else if (c->direct && !folds)
        moved = (n + (c->first ? 1 : 0)) / 2.0 * c->share;
    if (loads && c->layout->runs > 1 && peal_level_deputed(c->layout, c->planner)) {
        moved *= 2; /* a deputy folds the root's pieces, too */
        alpha_us *= 2;
    }
    peal_level_stage_end(c, moved);
    /* Slots of all others, and the own part, into one, when the last has come. */
    if (loads && !c->fine)
        peal_level_stage_apart(c, 1, enter_us);
    if (folds && c->first && !c->phase->level && !c->direct && c->reach_us > 0 && !c->fine) {
        /* Some inputs are loaded: their owners enter before anything is sent, and what has been
         * sent is folded with loads, there and back. */
        uint32_t loaded = n - 1 > c->queued ? n - 1 - c->queued : 1;
        c->loaded_us = c->reach_us + (loaded - 1) * c->reach_gap_us;
        peal_level_stage_apart(c, 1, c->loaded_us + c->reach_us);
    }
    double lane_us = (n + 1) / 2.0 * c->share / c->candidate->channels /
                     (peal_planner_lane_gbs(c->planner) * 1e3);
    add_turn(c, ++*lane_at, alpha_us, folds && !loads ? lane_us : 0, loads);
    if (!folds || (c->first && c->direct))
        return;
    struct stage fold = {.levels = 1, .chain = 1, .lane = c->fine ? LANE_APART : lane};
    if (c->candidate->nstages == STAGES_MAX)
        return;
    peal_candidate_stage(c->planner, c->candidate, &fold, 0);
    struct stage *added = &c->candidate->stage[c->candidate->nstages - 1];
    added->us_per_byte = lane_us * (c->fine ? c->candidate->cells : 1);
    added->lane_bound = 1;
}

/* However few roots there are, a piece takes each step by itself. */
static void one_piece(struct level_costing *c)
{
    struct stage *stage = &c->candidate->stage[c->candidate->nstages - 1];
    double us = c->fine ? 0 : c->share * c->link_us;
    stage->us_per_byte = us > stage->us_per_byte ? us : stage->us_per_byte;
    stage->alone_us_per_byte = us > stage->alone_us_per_byte ? us : stage->alone_us_per_byte;
}

/* As on a ring of all ranks: steps over hops that differ even out, as long as the narrowest is idle
 * at times. A step takes the mean start-up and transfer, or what the narrowest needs. Results,
 * which are handed on without a fold, follow each other into the narrowest, and it sets their pace.
 */
static void even_out(struct level_costing *c, uint32_t rank)
{
    double alpha_us = 0, load_us = 0;
    peal_level_peers(&c->peers, c->layout, 0, rank);
    uint32_t n = c->peers.n;
    int folds = c->phase->kind == LEVEL_FOLD;
    for (uint32_t i = 0; i < n; i++) {
        struct hop hop;
        peal_planner_hop(c->planner, c->peers.rank[i], c->peers.rank[(i + (folds ? n - 1 : 1)) % n],
                         &hop);
        alpha_us += hop.alpha_us / n;
        load_us += peal_load_of(&c->planner->load, &hop.path, 0) / n;
    }
    c->stage.alpha_us = alpha_us < c->stage.alpha_us ? alpha_us : c->stage.alpha_us;
    if (load_us < c->planner->load.worst)
        c->stage.slack_us_per_byte = c->planner->load.worst - load_us;
}

void peal_level_cost_ring(struct level_costing *c, uint32_t lane)
{
    uint32_t steps = c->phase->way.n - 1;
    int folds = c->phase->kind == LEVEL_FOLD;
    peal_level_stage_begin(c, lane);
    c->stage.chain = 1;
    c->stage.levels = c->fine ? 1 : steps;
    double share = c->share / (c->fine ? 1 : steps);
    peal_level_load_phase(c, share, 0);
    c->stage.gap_us *= c->candidate->channels - 1.0;
    if (folds && !c->fine && !c->phase->level)
        even_out(c, c->layout->holder[0]);
    if (c->fine) /* the steps of all rounds, spread over the pieces that take them */
        c->stage.alpha_us *=
            (double)steps * peal_level_rounds(c->layout, c->phase->level) / c->candidate->cells;
    /* Two sources and a destination in a fold, of which loads and stores also send; else one. */
    int behind = folds && !c->direct && c->phase->level == 0; /* as in rings: gamma */
    double lanes = folds ? (c->direct ? 1.5 : behind ? 0 : 0.75) : (c->direct ? 1 : 0);
    double pieces = c->fine ? steps : 1;
    peal_level_stage_end(c, lanes * c->share * pieces);
    one_piece(c);
    if (behind)
        peal_stage_fold_beside(c->planner, &c->candidate->stage[c->candidate->nstages - 1],
                               c->candidate->channels,
                               1.5 * c->share * pieces / c->candidate->channels, 2 * c->share);
}

/* In a trip a lane sends a piece for each root, by BUILD_EVENTS transfers at a time, and has no
 * more than `bits` start-ups to wait for; the first tile has had those. */
static void turn_trees(struct level_costing *c, uint32_t lane, uint32_t bits, double alpha_us)
{
    struct candidate *candidate = c->candidate;
    struct stage turn = candidate->stage[candidate->nstages - 1];
    double rounds = peal_level_rounds(c->layout, c->phase->level);
    double starts = rounds * ((c->phase->way.n - 1 + BUILD_EVENTS - 1) / BUILD_EVENTS);
    if (candidate->nstages >= STAGES_MAX - 6)
        return;
    turn.levels = 0;
    turn.lane = lane;
    turn.depth = 1;
    turn.gap_us = 0;
    starts = starts > bits ? starts : bits;
    turn.waits = starts / bits;
    turn.alpha_us = alpha_us / 2 * starts / candidate->cells;
    candidate->stage[candidate->nstages++] = turn;
}

void peal_level_cost_trees(struct level_costing *c, uint32_t *lane_at)
{
    uint32_t lane = *lane_at;
    uint32_t bits = 0, n = c->phase->way.n;
    int folds = c->phase->kind == LEVEL_FOLD;
    while (1u << bits < n)
        bits++;
    peal_level_stage_begin(c, lane);
    c->stage.chain = !c->fine;
    c->stage.levels = c->fine ? 1 : bits;
    double share = c->share / (c->fine ? 1 : bits);
    c->way_us = 0;
    peal_level_load_phase(c, share, 0);
    if (c->way_us > 0)
        c->stage.alpha_us = c->way_us / bits;
    c->stage.gap_us *= c->candidate->channels - 1.0;
    if (c->fine)
        c->stage.alpha_us *= bits;
    c->stage.depth = (c->direct ? LEVEL_WINDOW : 2 * BUILD_EVENTS) * (c->fine ? bits : 1);
    double lanes = folds ? (c->direct ? 1.5 : 1) : (c->direct ? 1 : 0), hop_us = c->hop_us;
    int direct = c->direct;
    if (c->fine && !direct)
        c->stage.depth = UINT32_MAX; /* transfers: below */
    peal_level_stage_end(c, lanes * share * (n - 1));
    one_piece(c);
    if (c->fine && !direct)
        turn_trees(c, ++*lane_at, bits, hop_us);
}
