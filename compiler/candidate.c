/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of a candidate: its stages one after the other for the first tile, then, for each
 * further tile, what the busiest lane or resource needs. */
#include "script.h"

#include <string.h>

/* Of a collective with a root there are most: of each depth, tile, level and number of gateways. */
#define CANDIDATES_MAX 16384u

peal_status peal_planner_add(struct planner *planner, const struct candidate *candidate)
{
    PEAL_TRY(peal_grow(planner->ctx, (void **)&planner->candidates, &planner->capacity,
                       (size_t)planner->count + 1, sizeof *candidate, CANDIDATES_MAX));
    struct candidate *to = &planner->candidates[planner->count++];
    *to = *candidate;
    if (planner->memory.count[TOPO_USE_LOAD])
        to->memory = &planner->memory;
    to->corner = planner->corner;
    memcpy(to->move_engine, planner->request.move_engine, sizeof to->move_engine);
    return PEAL_OK;
}

#define STEP_BYTES 96u
#define PROGRAMS_MAX (256ull << 20)

int peal_planner_too_long(const struct planner *planner, uint32_t channels, uint64_t steps)
{
    return planner->group.n <= PEAL_WHOLE_RANKS && !planner->request.channels && channels > 1 &&
           steps * STEP_BYTES * channels * planner->group.n > PROGRAMS_MAX;
}

void peal_stage_lane(const struct planner *planner, struct stage *stage, double lane_share)
{
    double lane_us = lane_share / (peal_planner_lane_gbs(planner) * 1e3);
    stage->lane_bound = lane_us > stage->load_us;
    stage->us_per_byte = stage->lane_bound ? lane_us : stage->load_us;
    stage->alone_us_per_byte = lane_us > stage->alone_load_us ? lane_us : stage->alone_load_us;
}

void peal_stage_then(const struct planner *planner, struct stage *stage, double lane_share)
{
    double lane_us = lane_share / (peal_planner_lane_gbs(planner) * 1e3);
    stage->us_per_byte += lane_us;
    stage->alone_us_per_byte += lane_us;
}

void peal_stage_fold(const struct planner *planner, struct stage *stage, double lane_share,
                     double sources)
{
    double lane_us = lane_share / (peal_planner_lane_gbs(planner) * 1e3);
    double unit_us = peal_planner_fold_us(planner) * sources;
    double us = unit_us > lane_us ? unit_us : lane_us;
    stage->fold_us_per_byte = us;
    stage->us_per_byte += us;
    stage->alone_us_per_byte += us;
}

double peal_beside_us(double own, double beside, double apart)
{
    double d = own + beside, before = 0;
    for (int i = 0; d > 0 && d != before && i < 32; i++) {
        before = d;
        d = own + beside * d / (apart + d);
    }
    return d;
}

void peal_stage_fold_beside(const struct planner *planner, struct stage *stage, double channels,
                            double lane_share, double sources)
{
    double load = stage->us_per_byte, alone = stage->alone_us_per_byte;
    struct stage fold = {.us_per_byte = 0};
    peal_stage_fold(planner, &fold, lane_share, sources);
    double us = fold.us_per_byte;
    stage->fold_us_per_byte = us;
    stage->us_per_byte = us + peal_beside_us(load / channels, load - load / channels, us);
    stage->alone_us_per_byte = us + peal_beside_us(alone / channels, alone - alone / channels, us);
}

void peal_candidate_stage(struct planner *planner, struct candidate *candidate,
                          const struct stage *stage, double lane_share)
{
    struct load *load = &planner->load;
    struct stage *to = &candidate->stage[candidate->nstages];
    if (candidate->nstages == STAGES_MAX)
        return;
    candidate->nstages++;
    *to = *stage;
    to->load_us = load->worst;
    to->alone_load_us = load->worst_own;
    to->resource = load->worst_resource;
    peal_stage_lane(planner, to, lane_share);
    struct load *total = &planner->total;
    for (uint64_t i = 0; i < load->ntouched; i++) {
        uint64_t resource = load->touched[i];
        peal_load_use(total, resource, load->us[resource] * stage->levels,
                      load->own[resource] * stage->levels);
    }
    peal_load_clear(load);
}

void peal_candidate_total(struct planner *planner, struct candidate *candidate)
{
    candidate->total_us_per_byte = planner->total.worst;
    candidate->total_resource = planner->total.worst_resource;
    candidate->alone_total_us_per_byte = planner->total.worst_own;
    memcpy(candidate->engines, planner->engines, sizeof candidate->engines);
    memset(planner->engines, 0, sizeof planner->engines);
    peal_load_clear(&planner->total);
}

void peal_candidate_course(struct candidate *candidate, double alpha_us, const double us[2])
{
    if (candidate->ncourses < COURSES_MAX)
        candidate->course[candidate->ncourses++] = (struct course){alpha_us, us[0], us[1]};
}

int peal_candidate_stores(const struct candidate *candidate)
{
    for (uint32_t c = 0; c < PEAL_LINK_CLASS_COUNT; c++)
        if (candidate->engines[c] & ~(1u << PEAL_ENGINE_SM))
            return 0;
    return 1;
}

/* Of the largest chunk. */
static double chunk_bytes(const struct candidate *candidate, double bytes)
{
    return candidate->chunk_share > 0 ? bytes * candidate->chunk_share : bytes / candidate->chunks;
}

static double trips_of(const struct candidate *candidate, double bytes)
{
    if (!candidate->tile_bytes)
        return 1;
    double chunk = chunk_bytes(candidate, bytes);
    double trips = chunk / (double)candidate->tile_bytes;
    uint64_t whole = (uint64_t)trips;
    if ((double)whole < trips)
        whole++;
    return whole ? (double)whole : 1;
}

/* What a stage keeps its issuer or its resource busy with: messages follow each other at the
 * larger of their gap and their transfer (LogGP). *fixed: the part that is not transfer. */
static double busy_us(const struct stage *stage, double tile, double *fixed)
{
    double move = stage->us_per_byte * tile;
    *fixed = stage->gap_us > move ? stage->gap_us : 0;
    return stage->gap_us > move ? stage->gap_us : move;
}

/* Where a ring's other hops are wider than the one that sets its pace, a message is through them
 * sooner: so much less is left of the start-ups. */
static double start_us(const struct stage *stage, double alpha_us, double tile)
{
    double left = alpha_us - stage->slack_us_per_byte * tile;
    return left > 0 ? left : 0;
}

/* A channel's transfer, which has a start-up of alpha_us behind it. */
static double beside_us(const struct candidate *candidate, const struct stage *stage, double tile,
                        double alpha_us, double busy)
{
    double beside = stage->beside_us_per_byte * tile;
    double own = stage->in_step ? busy : busy / candidate->channels;
    return beside > 0 ? peal_beside_us(own, beside, alpha_us) : busy;
}

/* Time between two tiles of a lane. */
struct interval {
    double us;
    double alpha_us;
    int back;
};

/* Start-ups between two pieces of the first trip. */
static double first_alpha_us(const struct candidate *candidate, const struct stage *stage)
{
    double cells = candidate->cells;
    if (stage->waits <= 0 || cells < 2)
        return stage->alpha_us;
    return stage->alpha_us * (stage->waits - 1) / stage->waits * cells / (cells - 1);
}

/* What a stage adds to that of its lane. */
static void add_interval(const struct candidate *candidate, const struct stage *stage, double tile,
                         int first, struct interval *lane)
{
    double fixed, busy = busy_us(stage, tile, &fixed);
    double alpha_us = first ? first_alpha_us(candidate, stage) : stage->alpha_us;
    lane->back |= stage->back;
    if (stage->chain) {
        double start = start_us(stage, alpha_us, tile);
        busy = beside_us(candidate, stage, tile, alpha_us, busy);
        lane->us += stage->levels * (start + busy);
        lane->alpha_us += stage->levels * (start + fixed);
    } else {
        busy = beside_us(candidate, stage, tile, 2 * alpha_us, busy);
        /* Finite slots: no more than `depth` tiles in the round trip of a credit. */
        double turn = (2 * alpha_us + busy) / (stage->depth ? stage->depth : SLOT_DEPTH);
        lane->us += busy > turn ? busy : turn;
        lane->alpha_us += busy > turn ? fixed : alpha_us;
    }
}

/* Of the lanes that are waited for between tiles; returns how many there are. first: between the
 * pieces of the first trip. alone: of a single one, whose pieces meet less on links than those of
 * many do. */
static uint32_t lane_intervals(const struct candidate *candidate, double tile, int first, int alone,
                               struct interval lanes[STAGES_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < candidate->nstages; i++)
        if (candidate->stage[i].lane < LANE_APART && candidate->stage[i].lane >= count)
            count = candidate->stage[i].lane + 1;
    for (uint32_t i = 0; i < count; i++)
        lanes[i] = (struct interval){0, 0, 0};
    for (uint32_t i = 0; i < candidate->nstages; i++)
        if (candidate->stage[i].lane < count && !(alone && candidate->stage[i].steady))
            add_interval(candidate, &candidate->stage[i], tile, first,
                         &lanes[candidate->stage[i].lane]);
    return count;
}

/* All stages, one after the other. */
static void cost_first_tile(const struct candidate *candidate, double tile, struct cost *cost)
{
    double worst = 0;
    for (uint32_t i = 0; i < candidate->nstages; i++) {
        const struct stage *stage = &candidate->stage[i];
        double fixed, busy = busy_us(stage, tile, &fixed);
        cost->alpha_us += stage->levels * (start_us(stage, stage->alpha_us, tile) + fixed);
        cost->time_us += stage->levels * (busy - fixed);
        if (stage->levels * (busy - fixed) > worst) {
            worst = stage->levels * (busy - fixed);
            cost->resource = stage->resource;
            cost->lane_bound = stage->lane_bound;
        }
    }
    cost->time_us += cost->alpha_us;
}

#define DRIFT_STEPS 12

/* What a lane has of a link while others may be on it. */
static double drifted_us(const struct candidate *candidate, uint32_t stage, const double *on,
                         double tile, double turn)
{
    const struct stage *at = &candidate->stage[stage];
    double load = at->load_us * tile, own = load / candidate->channels, there = 0;
    for (uint32_t i = 0; i < candidate->nstages; i++)
        if (candidate->stage[i].resource == at->resource)
            there += candidate->stage[i].levels * on[i];
    double us = own + (load - own) * (there < turn ? there / turn : 1);
    double lane = at->lane_bound ? (at->us_per_byte - at->fold_us_per_byte) * tile : 0;
    return us > lane ? us : lane;
}

/*
 * Between two tiles of lanes whose steps go over links of their own, by other engines, which take
 * them up one after the other: who is ahead has a link to itself for longer, and lanes drift apart
 * until each finds a link as busy as the others leave it on average, each of which is there for its
 * share of a turn (mean-value analysis of a closed network, after Bard and Schweitzer). In step,
 * all would find all others there. How far they get is no form's to say: the mean of both counts.
 */
static double drifting_us(const struct candidate *candidate, double tile)
{
    double on[STAGES_MAX], turn = 0, rest = 0;
    for (uint32_t i = 0; i < candidate->nstages; i++) {
        const struct stage *stage = &candidate->stage[i];
        double fixed;
        on[i] = stage->load_us * tile;
        (void)busy_us(stage, tile, &fixed);
        rest += stage->levels * (stage->alpha_us + fixed + stage->fold_us_per_byte * tile);
        turn += stage->levels * on[i];
    }
    turn += rest;
    for (int step = 0; step < DRIFT_STEPS; step++) {
        double next[STAGES_MAX], sum = rest;
        for (uint32_t i = 0; i < candidate->nstages; i++) {
            next[i] = drifted_us(candidate, i, on, tile, turn);
            sum += candidate->stage[i].levels * next[i];
        }
        for (uint32_t i = 0; i < candidate->nstages; i++)
            on[i] = next[i];
        turn = sum;
    }
    return turn;
}

/* The longest of lanes, there and back, and of all together with the busiest resource. */
struct intervals {
    struct interval way[2];
    struct interval most;
};

static void find_intervals(const struct candidate *candidate, double tile, int first, int alone,
                           struct intervals *out)
{
    struct interval lanes[STAGES_MAX];
    uint32_t count = lane_intervals(candidate, tile, first, alone, lanes);
    *out = (struct intervals){.most = {candidate->total_us_per_byte * tile, 0, 0}};
    if (candidate->drifts) {
        double us = drifting_us(candidate, tile);
        lanes[0].us = us < lanes[0].us ? (us + lanes[0].us) / 2 : lanes[0].us;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct interval *way = &out->way[lanes[i].back];
        *way = lanes[i].us > way->us ? lanes[i] : *way;
        out->most = lanes[i].us > out->most.us ? lanes[i] : out->most;
    }
}

/* The pieces of the first tile, there and back; of further tiles, both at the same time. */
static void cost_pieces(const struct candidate *candidate, double tile, int alone, double more,
                        struct cost *cost)
{
    struct intervals between;
    find_intervals(candidate, tile, 1, alone, &between);
    double there = between.way[0].us, back = between.way[1].us, most = between.most.us;
    double pieces = more * (back > 0 ? there + back : most), started = cost->alpha_us / 2;
    if (pieces < more * most)
        pieces = more * most;
    /* Of one tile alone: what the busiest resource carries for other pieces, it carries while the
     * first one's start-ups pass on the way there. */
    if (alone)
        pieces = pieces - started > more * there ? pieces - started : more * there;
    cost->time_us += pieces;
    cost->alpha_us += more * (back > 0 ? between.way[0].alpha_us + between.way[1].alpha_us
                                       : between.most.alpha_us);
}

/* What each further one adds. */
static void cost_further_tiles(const struct candidate *candidate, double tile, double trips,
                               double cells, struct cost *cost)
{
    int alone = trips < 2 && candidate->algo == ALGO_TREE;
    struct intervals between;
    if (cells > 1)
        cost_pieces(candidate, tile, alone, cells - 1, cost);
    if (trips < 2)
        return;
    find_intervals(candidate, tile, 0, 0, &between);
    cost->time_us += cells * (trips - 1) * between.most.us;
    cost->alpha_us += cells * (trips - 1) * between.most.alpha_us;
}

/* A script's times have been found by going through it; scale: of its copies. */
static void cost_script(const struct candidate *candidate, const struct script_curve *curve,
                        double total_us_per_byte, double bytes, double scale, struct cost *cost)
{
    double trips = trips_of(candidate, bytes), tile = bytes / trips * scale;
    double interval = peal_script_curve_at(curve->interval, tile), least = total_us_per_byte * tile;
    *cost = (struct cost){.resource = candidate->total_resource};
    cost->time_us = peal_script_curve_at(curve->first, tile) +
                    (trips - 1) * (interval > least ? interval : least);
    cost->alpha_us = curve->first[0] + (trips - 1) * curve->interval[0];
    if (cost->time_us < total_us_per_byte * bytes * scale)
        cost->time_us = total_us_per_byte * bytes * scale;
    cost->alpha_us = cost->alpha_us < cost->time_us ? cost->alpha_us : cost->time_us;
}

static enum topo_rate_use use_of(const struct candidate *candidate)
{
    switch (candidate->algo) {
    case ALGO_PULL:
    case ALGO_SHELF:
    case ALGO_ONESHOT:
        return TOPO_USE_LOAD;
    case ALGO_TWOSHOT:
    case ALGO_DIRECT:
        return TOPO_USE_STORE;
    case ALGO_DOUBLING:
        return TOPO_USE_DOUBLING;
    case ALGO_HALVING:
        return TOPO_USE_HALVING;
    case ALGO_RING:
        return TOPO_USE_RING;
    case ALGO_SWING:
        return TOPO_USE_SWING;
    case ALGO_STAR:
        return TOPO_USE_STAR;
    case ALGO_TREE:
        return TOPO_USE_TREE;
    default:
        return TOPO_USE_EXCHANGE;
    }
}

/* In one memory a rank's copies take, by the size of the message, so many times what they take at
 * 1e9 bytes a second. */
static double memory_scale(const struct candidate *candidate, uint64_t bytes)
{
    if (!candidate->memory || !bytes)
        return 1;
    double us = peal_topo_memory_us(candidate->memory, use_of(candidate), (double)bytes);
    return us * 1e3 / (double)bytes;
}

static void cost_stages(const struct candidate *candidate, uint64_t bytes, struct cost *cost);

static void cost_in_memory(const struct candidate *candidate, uint64_t bytes, struct cost *cost)
{
    struct candidate scaled = *candidate;
    double scale = memory_scale(candidate, bytes);
    scaled.total_us_per_byte *= scale;
    for (uint32_t i = 0; i < scaled.nstages; i++) {
        scaled.stage[i].us_per_byte *= scale;
        scaled.stage[i].slack_us_per_byte *= scale;
    }
    cost_stages(&scaled, bytes, cost);
}

/* What the least message took does not shrink with the message. */
static void cost_as_measured(const struct candidate *candidate, uint64_t bytes, struct cost *cost)
{
    double least = peal_measured_us(candidate, 0);
    cost->time_us = peal_measured_us(candidate, (double)bytes);
    cost->alpha_us = least < cost->time_us ? least : cost->time_us;
}

void peal_candidate_cost(const struct candidate *candidate, uint64_t bytes, struct cost *cost)
{
    if (candidate->times)
        cost_script(candidate, &candidate->times->curve[0], candidate->total_us_per_byte,
                    (double)bytes, memory_scale(candidate, bytes), cost);
    else if (candidate->memory)
        cost_in_memory(candidate, bytes, cost);
    else
        cost_stages(candidate, bytes, cost);
    if (!candidate->memory)
        return;
    cost->alpha_us += candidate->memory->entry_us;
    cost->time_us += candidate->memory->entry_us;
    if (candidate->measured)
        cost_as_measured(candidate, bytes, cost);
}

/* The longest way; where none of bytes is, what binds is the stage's that they take. */
static void cost_courses(const struct candidate *candidate, double bytes, struct cost *cost)
{
    *cost = (struct cost){.resource = candidate->stage[0].resource,
                          .lane_bound = candidate->stage[0].lane_bound};
    for (uint32_t i = 0; i < candidate->ncourses; i++) {
        const struct course *course = &candidate->course[i];
        double us = course->alpha_us + course->us_per_byte * bytes;
        cost->time_us = us > cost->time_us ? us : cost->time_us;
        cost->alpha_us = course->alpha_us > cost->alpha_us ? course->alpha_us : cost->alpha_us;
    }
}

static void cost_stages(const struct candidate *candidate, uint64_t bytes, struct cost *cost)
{
    double trips = trips_of(candidate, (double)bytes), cells = candidate->cells;
    cells = cells > 1 ? cells : 1;
    double tile = (double)bytes / (trips * cells),
           least = candidate->total_us_per_byte * (double)bytes;
    *cost = (struct cost){0, 0, candidate->total_resource, 0};
    if (candidate->ncourses)
        cost_courses(candidate, (double)bytes, cost);
    else
        cost_first_tile(candidate, tile, cost);
    if (trips * cells >= 2)
        cost_further_tiles(candidate, tile, trips, cells, cost);
    /* Channels that go separate ways still share what the busiest resource carries. */
    if (cost->time_us < least)
        *cost = (struct cost){least, cost->alpha_us, candidate->total_resource, 0};
    cost->alpha_us = cost->alpha_us < cost->time_us ? cost->alpha_us : cost->time_us;
}

double peal_candidate_alone_us(const struct candidate *candidate, uint64_t bytes)
{
    struct candidate alone = *candidate;
    struct cost cost;
    if (candidate->times) {
        cost_script(candidate, &candidate->times->curve[1], candidate->alone_total_us_per_byte,
                    (double)bytes, memory_scale(candidate, bytes), &cost);
        return cost.time_us + (candidate->memory ? candidate->memory->entry_us : 0);
    }
    for (uint32_t i = 0; i < alone.nstages; i++)
        alone.stage[i].us_per_byte = alone.stage[i].alone_us_per_byte;
    for (uint32_t i = 0; i < alone.ncourses; i++)
        alone.course[i].us_per_byte = alone.course[i].alone_us_per_byte;
    alone.total_us_per_byte = alone.alone_total_us_per_byte;
    peal_candidate_cost(&alone, bytes, &cost);
    return cost.time_us;
}

#define STRAIN 1.5

double peal_candidate_strained_us(const struct candidate *candidate, uint64_t bytes)
{
    struct candidate strained = *candidate;
    struct cost cost;
    if (trips_of(candidate, (double)bytes) >= 2 && !candidate->times)
        for (uint32_t i = 0; i < strained.nstages; i++)
            strained.stage[i].alpha_us *= STRAIN;
    peal_candidate_cost(&strained, bytes, &cost);
    return cost.time_us;
}

uint64_t peal_candidate_scratch(const struct candidate *candidate, uint64_t bytes)
{
    uint64_t chunk = (uint64_t)chunk_bytes(candidate, (double)bytes) + 2 * PLAN_ALIGN;
    uint64_t slots = candidate->slots;
    if (candidate->tile_bytes && candidate->tile_bytes < chunk) {
        chunk = candidate->tile_bytes;
        slots *= SLOT_DEPTH;
    }
    /* The plan's largest chunk is up to two units more than its even share, and slots are whole
     * units (peal_plan_tile_bound). */
    if (slots && chunk + 3 * PLAN_ALIGN > PLAN_SLOT_BYTES_MAX)
        return UINT64_MAX;
    return chunk > UINT64_MAX / (slots + 1) ? UINT64_MAX : chunk * slots;
}
