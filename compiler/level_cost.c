/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the phases of a hierarchical schedule cost. Each phase is a stage, or one for each depth of
 * a tree: its start-ups, what it loads, and what its lane reads and writes.
 *
 * Where pieces are handed on one by one (candidate->cells of them in a tile), a stage is that of
 * one piece, and the start-ups of a ring's steps are spread over the pieces that take them.
 */
#include "level_cost.h"
#include "arrivals.h"

void peal_level_stage_begin(struct level_costing *c, uint32_t lane)
{
    c->stage = (struct stage){.levels = 1, .lane = lane};
    c->direct = 1;
    c->reach_us = c->reach_gap_us = 0;
}

void peal_level_stage_end(struct level_costing *c, double lane_share)
{
    peal_candidate_stage(c->planner, c->candidate, &c->stage, lane_share / c->candidate->channels);
}

void peal_level_stage_apart(struct level_costing *c, uint32_t levels, double alpha_us)
{
    struct stage stage = {.levels = levels, .chain = 1, .lane = LANE_APART, .alpha_us = alpha_us};
    if (levels && c->candidate->nstages < STAGES_MAX)
        peal_candidate_stage(c->planner, c->candidate, &stage, 0);
}

/* ---- phases -------------------------------------------------------------------------------- */

static void cost_double(struct level_costing *c, uint32_t lane)
{
    uint32_t n = c->phase->way.n, steps = peal_doubling_steps(n), core = 1u << steps;
    for (uint32_t k = 0; k < steps + (n > core ? 2 : 0); k++) {
        peal_level_stage_begin(c, lane);
        c->stage.chain = 1;
        peal_level_load_step(c, k, steps);
        c->stage.gap_us *= c->candidate->channels - 1.0;
        peal_level_stage_end(c, 0);
    }
}

/*
 * Before anything is moved, or after: entries that are told up, or leave that comes back. With one
 * root they go through all phases, one after the other (way_us); in an allgather each phase has its
 * own, at once (most_us). Partial sums wait for nobody, and inputs' owners are counted where these
 * are loaded; where nothing comes behind that, they are told that they may leave.
 */
static void cost_handshake(struct level_costing *c, uint32_t phases, double way_us, double most_us)
{
    switch (c->planner->request.collective) {
    case PEAL_ALLREDUCE:
        return;
    case PEAL_REDUCE_SCATTER:
        peal_level_stage_apart(c, phases == 1 && (c->direct || c->loaded_us > 0),
                               c->direct ? most_us : c->loaded_us);
        return;
    case PEAL_ALLGATHER:
        peal_level_stage_apart(c, 1, most_us);
        return;
    default:
        peal_level_stage_apart(c, 1, way_us);
    }
}

/* Where there are many roots, each hears of all its peers, or tells them one after the other, by
 * itself, whatever way their pieces take. Lanes and other engines each have gaps of their own. */
static double flat_us(struct level_costing *c)
{
    const struct level_layout *layout = c->layout;
    uint32_t unit = layout->unit_of[c->planner->request.root];
    int folds = c->phase->kind == LEVEL_FOLD;
    double most = 0;
    peal_level_peers(&c->peers, layout, c->phase->level, layout->holder[unit * layout->shards]);
    for (uint32_t root = 0; root < c->peers.n; root++) {
        double told_us[2] = {0, 0}; /* by its lane, by another engine */
        for (uint32_t i = 0; peal_level_is_root(c, root) && i < c->peers.n; i++) {
            struct hop hop;
            if (i == root)
                continue;
            peal_planner_hop(c->planner, c->peers.rank[folds ? root : i],
                             c->peers.rank[folds ? i : root], &hop);
            int async = peal_plan_engine_async(hop.engine) != 0;
            double us = hop.alpha_us + (folds ? told_us[async] : 0);
            us += async ? (c->candidate->channels - 1) * hop.gap_us : 0;
            most = us > most ? us : most;
            told_us[async] += hop.gap_us * (async ? c->candidate->channels : 1);
        }
    }
    return most;
}

/* What a phase adds to it: its longest way, and, where one peer tells all others, their gaps. */
static double entered_us(struct level_costing *c)
{
    peal_collective collective = c->planner->request.collective;
    int flat = !c->phase->way.single &&
               ((collective == PEAL_BROADCAST && c->phase->kind == LEVEL_SPREAD) ||
                (collective == PEAL_REDUCE && c->phase->kind == LEVEL_FOLD));
    int tells =
        c->phase->way.part == PART_DIRECT && c->phase->way.n > 2 && collective != PEAL_BROADCAST;
    double gap_us = tells && c->direct ? (c->phase->way.n - 2) * c->hop_gap_us : 0;
    if (tells && !c->direct && c->queued) /* by one engine, for all channels */
        gap_us = (c->queued * (double)c->candidate->channels - 1) * c->hop_gap_us;
    if (flat)
        return flat_us(c);
    return (c->phase->way.single ? c->way_us : c->hop_us) + gap_us;
}

static void cost_phase(struct level_costing *c, const struct level_phase *phase, uint32_t *lane)
{
    const struct level_layout *layout = c->layout;
    uint32_t first = c->candidate->nstages;
    c->phase = phase;
    c->hop_us = c->hop_gap_us = c->link_us = 0;
    c->queued = 0;
    c->share =
        (double)peal_level_rounds(layout, phase->level) / ((double)layout->shards * layout->pieces);
    ++*lane;
    if (phase->kind == LEVEL_DOUBLE)
        cost_double(c, *lane);
    else if (phase->kind == LEVEL_SCATTER || phase->kind == LEVEL_GATHER)
        peal_level_cost_root(c, *lane);
    else if (phase->way.single)
        peal_level_cost_rooted(c, lane);
    else if (phase->way.part == PART_DIRECT)
        peal_level_cost_direct(c, lane);
    else if (!c->fine && !phase->level &&
             peal_level_roots(c->layout, c->phase->level, &c->phase->way) == 1)
        peal_level_cost_lone(c, lane);
    else if (phase->way.part == PART_RING)
        peal_level_cost_ring(c, *lane);
    else
        peal_level_cost_trees(c, lane);
    for (uint32_t i = first; i < c->candidate->nstages; i++) {
        /* Pieces that each go all the way by themselves come back while others are on their way. */
        c->candidate->stage[i].back = phase->kind == LEVEL_SPREAD && layout->runs == 1;
        if (!c->direct)
            c->pushed |= 1ull << i;
    }
}

/* 1: the resource that carries most carries as much of each stage as the stage's own busiest, one
 * of which its name is, where several are loaded alike. */
static int all_meet(const struct candidate *candidate)
{
    double sum = 0;
    for (uint32_t i = 0; i < candidate->nstages; i++)
        sum += candidate->stage[i].levels * candidate->stage[i].load_us;
    return sum <= candidate->total_us_per_byte * (1 + 1e-9);
}

/* Transfers of a phase meet those of other channels and phases on what they all use. */
static void set_beside(const struct level_costing *c)
{
    struct candidate *candidate = c->candidate;
    int meet = all_meet(candidate);
    int all = c->planner->request.collective == PEAL_ALLREDUCE && candidate->channels > 1;
    for (uint32_t i = 0; i < candidate->nstages; i++) {
        struct stage *stage = &candidate->stage[i];
        double own = stage->load_us / candidate->channels;
        double beside = candidate->total_us_per_byte - own;
        int same = meet || stage->resource == candidate->total_resource;
        if (c->pushed >> i & 1 && stage->load_us > 0 && beside > 0 && same)
            stage->beside_us_per_byte = beside;
        /* Stores to all, which wait for those of all others between two tiles: channels do so at
         * one time, and meet what is loaded meanwhile. */
        if (all && !(c->pushed >> i & 1) && stage->back && stage->chain && stage->load_us > 0 &&
            same) {
            stage->beside_us_per_byte = candidate->total_us_per_byte - stage->load_us;
            stage->in_step = 1;
        }
    }
}

/* ---- barrier ------------------------------------------------------------------------------- */

static void note_round(struct level_costing *c, uint32_t level, uint32_t far,
                       struct arrivals *arrivals)
{
    const struct level_layout *layout = c->layout;
    for (uint32_t i = 0; i < (level ? layout->units * layout->shards : layout->ranks); i++) {
        uint32_t rank = level ? layout->holder[i] : layout->member[i];
        struct hop hop;
        if ((layout->inside[level] || c->alike) && peal_level_like_first(c, rank))
            continue;
        peal_level_peers(&c->peers, layout, level, rank);
        uint32_t to = (c->peers.self + far) % c->peers.n;
        if (to == c->peers.self)
            continue;
        peal_planner_hop(c->planner, rank, c->peers.rank[to], &hop);
        peal_stage_hop(&c->stage, &hop);
        peal_arrivals_send(arrivals, rank, c->peers.rank[to], &hop, 1);
    }
}

/* Who has heard of a round goes on with the next. Between hosts, of which not all are looked at, a
 * round takes its longest start-up. */
static peal_status cost_barrier(struct level_costing *c)
{
    struct arrivals arrivals;
    PEAL_TRY(peal_arrivals_init(&arrivals, c->planner->ctx, c->planner->group.n));
    for (uint32_t k = 0; k < c->layout->levels; k++) {
        double us = 0;
        for (uint32_t far = 1; far < c->layout->size[k]; far *= 2) {
            peal_level_stage_begin(c, 0);
            note_round(c, k, far, &arrivals);
            double heard_us = peal_arrivals_round(&arrivals);
            us += c->planner->group.nhosts > 1 ? c->stage.alpha_us : heard_us;
        }
        peal_level_stage_begin(c, 0);
        peal_level_stage_apart(c, us > 0, us);
    }
    peal_arrivals_free(&arrivals);
    return PEAL_OK;
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* Whose phases stand for all: a holder in the root's unit, or in one with more ranks, whose part
 * takes longer. */
static uint32_t typical_rank(const struct level_layout *layout, uint32_t root)
{
    uint32_t unit = layout->unit_of[root];
    for (uint32_t u = 0; u < layout->units; u++)
        if (layout->first[u + 1] - layout->first[u] > layout->first[unit + 1] - layout->first[unit])
            unit = u;
    return layout->holder[unit * layout->shards];
}

peal_status peal_level_cost(struct planner *planner, const struct level_layout *layout,
                            struct candidate *candidate)
{
    struct level_costing c = {.planner = planner,
                              .layout = layout,
                              .candidate = candidate,
                              .fine = candidate->cells > 1,
                              .alike = peal_level_all_alike(&planner->group)};
    struct level_phase phase[LEVEL_PHASES];
    peal_status status = PEAL_OK;
    uint32_t root = planner->request.root, lane = 0;
    uint32_t rank = typical_rank(layout, root);
    PEAL_TRY(peal_level_peers_init(&c.peers, layout, peal_level_most_peers(layout)));
    c.at = peal_alloc(planner->ctx, planner->group.n * sizeof *c.at);
    if (!c.at) {
        peal_level_peers_free(&c.peers, layout);
        return PEAL_ERR_MEMORY;
    }
    if (planner->request.collective == PEAL_BARRIER) {
        status = cost_barrier(&c);
    } else if (layout->rails) {
        status = peal_level_cost_rails(&c);
    } else {
        uint32_t count =
            peal_level_phases(layout, planner->request.collective, root, 0, rank, phase);
        double way_us = 0, most_us = 0;
        for (uint32_t i = 0; i < count; i++) {
            c.first = i == 0;
            cost_phase(&c, &phase[i], &lane);
            double own_us = entered_us(&c);
            way_us += own_us;
            most_us = own_us > most_us ? own_us : most_us;
        }
        cost_handshake(&c, count, way_us, most_us);
    }
    peal_candidate_total(planner, candidate);
    set_beside(&c);
    peal_free(planner->ctx, c.at, planner->group.n * sizeof *c.at);
    peal_level_peers_free(&c.peers, layout);
    return status;
}
