/* SPDX-License-Identifier: Apache-2.0 */
/* What a butterfly costs: a stage for each round, over the paths it takes. */
#include "arrivals.h"

#define TILE_MAX (4ull << 20)
#define TILE_MIN (64ull << 10)

struct costs {
    struct planner *planner;
    const struct butterfly *shapes;
    uint32_t nshapes;
    uint32_t channels; /* that take turns with them, as far as the links' loads go */
    uint32_t messages[BUTTERFLY_ROUNDS_MAX];
    double last_us;               /* that gap */
    struct arrivals arrivals;     /* of shape s, rank r: s * n + r */
    struct candidate candidate;   /* of one channel whose lane takes no time */
    double stored[STAGES_MAX];    /* of the message, by lanes */
    double queued_us[STAGES_MAX]; /* gaps of one channel's messages of another engine, and one */
    double folded[STAGES_MAX];    /* and what has come, when it is there */
};

double peal_butterfly_shape_share(uint32_t shape, uint32_t nshapes, uint32_t channels)
{
    return (double)((channels - shape + nshapes - 1) / nshapes) / channels;
}

/* What the round adds to the longest chain of start-ups, gaps between its messages included. */
static void set_start_up(struct costs *costs, struct stage *stage)
{
    double us = peal_arrivals_round(&costs->arrivals);
    stage->gap_us = stage->gap_us < us ? stage->gap_us : us;
    stage->alpha_us = us - stage->gap_us;
}

/* Messages of a channel in the stage to come, which all channels have in one engine. */
static void note_queue(struct costs *costs, double gap_us, uint32_t messages)
{
    costs->queued_us[costs->candidate.nstages] = messages * gap_us;
    costs->last_us = gap_us > costs->last_us ? gap_us : costs->last_us;
}

/* Round k of the reduce-scatter, or, backwards, of the allgather. */
static void cost_round(struct costs *costs, uint32_t k, int gather)
{
    struct planner *planner = costs->planner;
    struct stage stage = {.levels = 1, .chain = 1};
    uint32_t n = costs->shapes->n;
    double share = (double)peal_butterfly_round(costs->shapes, 0, k).count / n;
    double queue_gap_us = 0;
    int lanes_move = 0;
    for (uint32_t s = 0; s < costs->nshapes; s++) {
        const struct butterfly *shape = &costs->shapes[s];
        double dealt = share * peal_butterfly_shape_share(s, costs->nshapes, costs->channels);
        for (uint32_t place = 0; place < n; place++) {
            struct butterfly_round round = peal_butterfly_round(shape, place, k);
            struct hop hop;
            peal_planner_hop(planner, shape->member[place],
                             shape->member[gather ? round.from : round.to], &hop);
            peal_stage_hop(&stage, &hop);
            peal_planner_load(planner, &hop, dealt, hop.scale);
            peal_arrivals_send(&costs->arrivals, s * n + hop.from, s * n + hop.to, &hop,
                               costs->messages[k]);
            lanes_move |= hop.engine == PEAL_ENGINE_SM;
            if (peal_plan_engine_async(hop.engine) && hop.gap_us > queue_gap_us)
                queue_gap_us = hop.gap_us;
        }
    }
    stage.gap_us *= costs->messages[k] - 1.0; /* nothing queues behind the last one */
    /* Whatever lanes of other ranks store meanwhile. */
    note_queue(costs, queue_gap_us, costs->messages[k]);
    costs->stored[costs->candidate.nstages] = lanes_move ? share : 0;
    costs->folded[costs->candidate.nstages] = gather ? 0 : share;
    set_start_up(costs, &stage);
    peal_candidate_stage(planner, &costs->candidate, &stage, 0);
}

/* Telling those who will write this rank's output that they may. */
static void cost_entry(struct costs *costs)
{
    struct stage stage = {.levels = 1, .chain = 1};
    const struct butterfly *shape = costs->shapes;
    for (uint32_t s = 0; s < costs->nshapes; s++)
        for (uint32_t k = shape->rounds; k-- > 0;)
            for (uint32_t place = 0; place < shape->n; place++) {
                struct hop hop;
                peal_planner_hop(costs->planner, shape->member[place],
                                 shape->member[peal_butterfly_round(shape, place, k).to], &hop);
                peal_stage_hop(&stage, &hop);
                peal_arrivals_send(&costs->arrivals, s * shape->n + hop.from, s * shape->n + hop.to,
                                   &hop, 1);
            }
    stage.gap_us *= shape->rounds - 1.0;
    set_start_up(costs, &stage);
    peal_candidate_stage(costs->planner, &costs->candidate, &stage, 0);
}

/* 1: no lane moves blocks of the root by itself. */
static int queues_all(const struct planner *planner, const struct butterfly *shape, uint32_t root)
{
    for (uint32_t place = 0; place < shape->n; place++) {
        struct butterfly_branch branch = peal_butterfly_branch(shape, root, place);
        struct hop hop;
        if (branch.from == NO_RANK)
            continue;
        peal_planner_hop(planner, shape->member[branch.from], shape->member[place], &hop);
        if (!peal_plan_engine_async(hop.engine))
            return 0;
    }
    return 1;
}

/* In which round's time a branch is on its way: other engines have all rounds of a rank at once, as
 * soon as that has its blocks, so that they share its port; a lane takes one after the other. */
static uint32_t sent_in(const struct butterfly *shape, uint32_t root, int queues,
                        const struct butterfly_branch *branch)
{
    if (!queues)
        return branch->next - 1;
    struct butterfly_branch before = peal_butterfly_branch(shape, root, branch->from);
    return before.from == NO_RANK ? 0 : before.next;
}

/* The root's blocks to their places, round k; the root hands on most, and in every round. */
static void cost_scatter(struct costs *costs, int queues, uint32_t k)
{
    struct planner *planner = costs->planner;
    const struct butterfly *shape = costs->shapes;
    struct stage stage = {.levels = 1, .chain = 1};
    uint32_t root = shape->place[planner->request.root];
    for (uint32_t place = 0; place < shape->n; place++) {
        struct butterfly_branch branch = peal_butterfly_branch(shape, root, place);
        struct hop hop;
        if (branch.from == NO_RANK || sent_in(shape, root, queues, &branch) != k)
            continue;
        peal_planner_hop(planner, shape->member[branch.from], shape->member[place], &hop);
        peal_stage_hop(&stage, &hop);
        peal_planner_load(planner, &hop, (double)branch.count / shape->n, hop.scale);
    }
    stage.gap_us *= costs->messages[k] - 1.0;
    costs->stored[costs->candidate.nstages] =
        (double)(shape->reach[k] - shape->reach[k + 1]) / shape->n;
    peal_candidate_stage(planner, &costs->candidate, &stage, 0);
}

/* A rank's own block, or the root's, into its output. */
static void cost_copy(struct costs *costs)
{
    struct stage stage = {.levels = 1, .chain = 1};
    costs->stored[costs->candidate.nstages] = 1.0 / costs->shapes->n;
    peal_candidate_stage(costs->planner, &costs->candidate, &stage, 0);
}

/* Every rank's block to the root, one message of each rank: they queue where ranks share a NIC. */
static void cost_gather(struct costs *costs)
{
    struct planner *planner = costs->planner;
    uint32_t root = planner->request.root;
    double n = costs->shapes->n;
    struct stage stage = {.levels = 1, .chain = 1};
    uint32_t shared = 0;
    double queue_gap_us = 0;
    for (uint32_t r = 0; r < costs->shapes->n; r++) {
        struct hop hop;
        if (r == root)
            continue;
        peal_planner_hop(planner, r, root, &hop);
        peal_stage_hop(&stage, &hop);
        peal_planner_load(planner, &hop, 1 / n, hop.scale);
        shared += hop.path.link_class == PEAL_LINK_NET;
        if (peal_plan_engine_async(hop.engine) && hop.gap_us > queue_gap_us)
            queue_gap_us = hop.gap_us;
    }
    stage.gap_us *= shared ? n - 2 : 0;
    note_queue(costs, queue_gap_us, 1);
    costs->stored[costs->candidate.nstages] = 1 / n;
    peal_candidate_stage(planner, &costs->candidate, &stage, 0);
}

static void cost_collective(struct costs *costs)
{
    peal_collective collective = costs->planner->request.collective;
    uint32_t rounds = costs->shapes->rounds;
    int moves = collective == PEAL_ALLGATHER || collective == PEAL_BROADCAST;
    if (moves)
        cost_entry(costs);
    for (uint32_t k = 0; k < rounds && !moves; k++)
        cost_round(costs, k, 0);
    int queues = collective == PEAL_BROADCAST &&
                 queues_all(costs->planner, costs->shapes,
                            costs->shapes->place[costs->planner->request.root]);
    for (uint32_t k = 0; k < rounds && collective == PEAL_BROADCAST; k++)
        cost_scatter(costs, queues, k);
    if (moves)
        cost_copy(costs);
    for (uint32_t k = rounds; k-- > 0 && (moves || collective == PEAL_ALLREDUCE);)
        cost_round(costs, k, 1);
    if (collective == PEAL_REDUCE)
        cost_gather(costs);
    peal_candidate_total(costs->planner, &costs->candidate);
}

/* The largest tile whose slots fit the bound. */
static uint64_t tile_of(const struct planner *planner, uint64_t slots)
{
    uint64_t tile = TILE_MAX;
    if (planner->request.tile_bytes)
        return planner->request.tile_bytes;
    while (tile > TILE_MIN && tile * slots * SLOT_DEPTH > planner->request.scratch_limit)
        tile /= 2;
    return tile;
}

void peal_butterfly_lane_rate(const struct planner *planner, struct candidate *candidate,
                              const double *stored, const double *folded)
{
    double channels = candidate->channels;
    for (uint32_t i = 0; i < candidate->nstages; i++) {
        peal_stage_lane(planner, &candidate->stage[i], stored[i] / channels);
        /* Two in and one out. */
        if (stored[i] > 0)
            peal_stage_fold(planner, &candidate->stage[i], 1.5 * folded[i] / channels,
                            2 * folded[i]);
        else
            peal_stage_fold_beside(planner, &candidate->stage[i], channels,
                                   1.5 * folded[i] / channels, 2 * folded[i]);
    }
}

/* Gaps of all channels in one engine count once, in the last round that it has a part in: from the
 * first one on channels are that far apart, and find it free, but where it has more to do in a
 * round than its start-up lasts. */
static void set_queues(const struct costs *costs, struct candidate *candidate)
{
    int last = 1;
    for (uint32_t i = candidate->nstages; i-- > 0;) {
        struct stage *stage = &candidate->stage[i];
        double queued = costs->queued_us[i] * candidate->channels;
        double us = queued - (last ? costs->last_us : stage->alpha_us);
        if (queued > 0 && us > stage->gap_us)
            stage->gap_us = us;
        last = last && !(queued > 0);
    }
}

/* Channels that go different ways come back one behind the other, but where lanes keep step: while
 * one waits for a start-up, the link is another's. */
static void come_back_apart(const struct costs *costs, struct candidate *candidate)
{
    if (costs->nshapes < 2 || costs->planner->request.collective != PEAL_ALLREDUCE)
        return;
    for (uint32_t i = costs->shapes->rounds; i < candidate->nstages; i++) {
        struct stage *stage = &candidate->stage[i];
        if (!(costs->stored[i] > 0))
            stage->slack_us_per_byte = stage->load_us * (1 - 1.0 / candidate->channels);
    }
}

static peal_status add(const struct costs *costs, uint32_t channels)
{
    struct planner *planner = costs->planner;
    struct candidate candidate = costs->candidate;
    uint32_t n = costs->shapes->n;
    if (peal_planner_too_long(planner, channels, 2ull * n)) /* chunks of spans, each way */
        return PEAL_OK;
    candidate.channels = candidate.lanes = channels;
    candidate.chunks = n * channels;
    candidate.max_bytes = UINT64_MAX;
    candidate.hop_share = (double)(n / 2) / n / channels;
    set_queues(costs, &candidate);
    peal_butterfly_lane_rate(planner, &candidate, costs->stored, costs->folded);
    if (planner->request.collective == PEAL_ALLGATHER ||
        planner->request.collective == PEAL_BROADCAST) /* no slots, nothing to tile for */
        return peal_planner_add(planner, &candidate);
    candidate.slots = 2ull * (n - 1 + costs->shapes->reach[1]) * channels;
    if (!planner->request.tile_bytes) { /* half the slots, as long as whole chunks fit the bound */
        struct candidate whole = candidate;
        come_back_apart(costs, &whole);
        PEAL_TRY(peal_planner_add(planner, &whole));
    }
    candidate.tile_bytes = tile_of(planner, candidate.slots);
    candidate.drifts = channels > 1 && !peal_candidate_stores(&candidate);
    return peal_planner_add(planner, &candidate);
}

/* Channels that take turns with all shapes alike load the links alike, however many they are. */
static peal_status recost(struct costs *costs, const struct candidate *structure, uint32_t nshapes,
                          uint32_t channels)
{
    int blocks = peal_plan_collective(costs->planner->request.collective)->block_power > 0;
    uint32_t shapes = channels < nshapes ? channels : nshapes;
    uint32_t alike = channels % shapes ? channels : shapes;
    if (costs->nshapes == shapes && costs->channels == alike)
        return PEAL_OK;
    costs->nshapes = shapes;
    costs->channels = alike;
    costs->candidate = *structure;
    PEAL_TRY(peal_butterfly_messages(costs->shapes, blocks, costs->messages));
    PEAL_TRY(peal_arrivals_init(&costs->arrivals, costs->planner->ctx, shapes * costs->shapes->n));
    cost_collective(costs);
    peal_arrivals_free(&costs->arrivals);
    return PEAL_OK;
}

uint32_t peal_butterfly_channels(uint32_t channels, uint32_t nshapes)
{
    if (nshapes & (nshapes - 1) && channels >= nshapes / 2)
        return channels % nshapes ? channels / 2 * 3 : channels / 3 * 4;
    return channels * 2;
}

peal_status peal_butterfly_enumerate(struct planner *planner, struct candidate candidate,
                                     const struct butterfly *shapes, uint32_t nshapes)
{
    uint32_t asked = planner->request.channels;
    uint32_t most = planner->group.accelerators ? CHANNELS_MAX : 1;
    struct costs costs = {.planner = planner, .shapes = shapes, .candidate = candidate};
    for (uint32_t channels = asked ? asked : 1; channels <= (asked ? asked : most);
         channels = asked ? UINT32_MAX : peal_butterfly_channels(channels, nshapes)) {
        PEAL_TRY(recost(&costs, &candidate, nshapes, channels));
        if ((uint64_t)shapes->n * channels > PLAN_CHUNKS_MAX)
            break;
        PEAL_TRY(add(&costs, channels));
    }
    return PEAL_OK;
}
