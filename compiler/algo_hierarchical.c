/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hierarchical schedules: what an algorithm does among all ranks, done level by level. A
 * reduce-scatter goes up from the ranks of a unit to hosts and pods, each level cutting its shard
 * further; an allgather comes down; an allreduce is one after the other. A broadcast cuts the
 * message for the NICs of the root's host, goes over all rails at once, and is gathered in every
 * host; a reduce is its mirror. See level.h for the words.
 */
#include "level.h"

#include <stdio.h>
#include <string.h>

static const char *const level_words[] = {
#define LEVEL_WORD(id, name) #name,
#include "levels.def"
#undef LEVEL_WORD
};

static const char *const part_words[] = {
#define LEVEL_PART(id, name, text) #name,
#include "levels.def"
#undef LEVEL_PART
};

static const char *const part_texts[] = {
#define LEVEL_PART(id, name, text) text,
#include "levels.def"
#undef LEVEL_PART
};

/* ---- the request ---------------------------------------------------------------------- */

static peal_status unknown(peal_diag *diag, const char *what, const char *word,
                           const char *const *known, uint32_t count)
{
    char list[128] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", known[i]);
    return peal_fail(diag, PEAL_ERR_ARG, "unknown %s '%.40s'; known are %s", what, word, list);
}

static peal_status read_part(const char *word, const char *what, uint32_t count, uint32_t *out,
                             peal_diag *diag)
{
    *out = 0;
    for (uint32_t i = 0; word && i < count; i++)
        if (peal_streq(word, part_words[i]))
            *out = 1 + i;
    return word && !*out ? unknown(diag, what, word, part_words, count) : PEAL_OK;
}

static peal_status read_levels(const char *text, uint32_t *mask, peal_diag *diag)
{
    *mask = 0;
    for (const char *at = text; at && *at;) {
        size_t length = strcspn(at, ",");
        uint32_t word = 0;
        while (word < LEVEL_WORDS &&
               (strlen(level_words[word]) != length || memcmp(level_words[word], at, length) != 0))
            word++;
        if (word == LEVEL_WORDS)
            return unknown(diag, "level", at, level_words, LEVEL_WORDS);
        if (*mask >> word)
            return peal_fail(diag, PEAL_ERR_ARG, "levels '%.40s' are not in order from the inside",
                             text);
        *mask |= 1u << word;
        at += length + (at[length] == ',');
    }
    if (text && !*mask)
        return peal_fail(diag, PEAL_ERR_ARG, "no level is named");
    return PEAL_OK;
}

peal_status peal_level_request(struct planner *planner, peal_diag *diag)
{
    peal_request *request = &planner->request;
    PEAL_TRY(read_levels(request->levels, &planner->levels, diag));
    PEAL_TRY(read_part(request->inner, "inner algorithm", PART_DOUBLING, &planner->inner, diag));
    PEAL_TRY(read_part(request->outer, "outer algorithm", PART_COUNT, &planner->outer, diag));
    request->levels = request->inner = request->outer = NULL; /* of the caller */
    return PEAL_OK;
}

/* ---- candidates -------------------------------------------------------------------------- */

/* Pieces that go through the levels one behind the other, rather than each level's all at once. */
static uint32_t cells_of(const struct planner *planner, const struct level_layout *layout)
{
    if (layout->rails)
        return 1;
    if (layout->blocks)
        return layout->units;
    if (layout->runs > 1)
        return layout->pieces;
    if (planner->request.collective != PEAL_ALLREDUCE ||
        (layout->levels < 3 && layout->part[1] != PART_DIRECT))
        return 1;
    return layout->pieces;
}

/* Lanes of the busiest rank, in one channel. */
static uint32_t lanes_of(const struct planner *planner, const struct level_layout *layout)
{
    struct level_phase phase[LEVEL_PHASES];
    uint32_t most = 1, root = planner->request.root;
    if (planner->request.collective == PEAL_BARRIER)
        return layout->levels;
    if (layout->rails)
        return 2;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t rank = i ? root : layout->holder[layout->unit_of[root] * layout->shards];
        uint32_t count =
            peal_level_phases(layout, planner->request.collective, root, 0, rank, phase);
        most = count > most ? count : most;
    }
    return most;
}

static uint64_t slots_of(const struct level_layout *layout)
{
    uint64_t slots = 0;
    for (uint32_t k = 0; k < layout->levels; k++)
        slots += layout->inbox_width[k] * layout->inbox_depth[k] / SLOT_DEPTH +
                 layout->cell_width[k] + layout->stage_width[k];
    return slots;
}

static peal_status add_tiles(struct planner *planner, struct candidate *candidate)
{
    static const uint64_t tiles[] = {0,          16u << 10,  32u << 10, 64u << 10,
                                     128u << 10, 512u << 10, 2u << 20};
    int barrier = planner->request.collective == PEAL_BARRIER;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        candidate->tile_bytes = tiles[i];
        if (planner->request.tile_bytes)
            candidate->tile_bytes = planner->request.tile_bytes;
        if (!candidate->tile_bytes ||
            candidate->tile_bytes * candidate->slots * SLOT_DEPTH <= planner->request.scratch_limit)
            PEAL_TRY(peal_planner_add(planner, candidate));
        if (planner->request.tile_bytes || barrier)
            break;
    }
    return PEAL_OK;
}

#define CHANNELS_PROVEN 8u /* of the largest groups, whose programs are long to read */

/* A peer is told, waited for, and sent to, both ways, in about so many steps. */
#define PEER_STEPS 12u

/* Steps of one channel of a rank, about; along rails only the root's host has many. */
static uint64_t steps_of(const struct level_layout *layout)
{
    uint64_t peers = 0;
    if (layout->rails)
        return 0;
    for (uint32_t k = 0; k < layout->levels; k++)
        peers +=
            layout->part[k] == PART_DIRECT || layout->part[k] == PART_RING ? layout->size[k] : 2;
    return peers * PEER_STEPS;
}

static peal_status add_channels(struct planner *planner, const struct level_layout *layout,
                                struct candidate *candidate)
{
    static const uint32_t options[] = {1, 2, 4, 8, 12, 16};
    uint32_t lanes = lanes_of(planner, layout), asked = planner->request.channels;
    struct candidate structure = *candidate;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        uint32_t channels = asked ? asked : options[i];
        if (channels * lanes > PLAN_LANES_MAX ||
            channels * layout->levels * LEVEL_SEMS > PLAN_SEMS_MAX ||
            peal_planner_too_long(planner, channels, steps_of(layout)) ||
            (!asked && planner->group.n > PEAL_WHOLE_RANKS && channels > CHANNELS_PROVEN) ||
            (channels > 1 &&
             (!planner->group.accelerators || planner->request.collective == PEAL_BARRIER)))
            break;
        *candidate = structure;
        candidate->channels = channels;
        candidate->chunks =
            (layout->blocks ? planner->group.n : layout->shards * layout->pieces) * channels;
        candidate->lanes = channels * lanes;
        candidate->hop_share =
            planner->request.collective == PEAL_BARRIER ? 0 : 1.0 / candidate->chunks;
        candidate->cells = cells_of(planner, layout);
        candidate->slots = 2 * channels * slots_of(layout);
        PEAL_TRY(peal_level_cost(planner, layout, candidate));
        PEAL_TRY(add_tiles(planner, candidate));
        if (asked)
            break;
    }
    return PEAL_OK;
}

/* 1: the parts are defined for the collective and these many peers. */
static int serves(const struct planner *planner, const struct level_layout *layout,
                  const struct candidate *candidate)
{
    if (candidate->outer == PART_DOUBLING && planner->request.collective != PEAL_ALLREDUCE)
        return 0;
    if (layout->rails && layout->units < 2)
        return 0;
    for (uint32_t k = 0; k < layout->levels; k++) {
        if (layout->rails && k && layout->inside[k] && layout->size[k] > 1)
            return 0; /* a rail leaves the host */
        if (!layout->rails && planner->request.collective != PEAL_BARRIER &&
            layout->part[k] == PART_DIRECT && layout->size[k] > LEVEL_DIRECT_MAX)
            return 0;
    }
    return 1;
}

/* 1: a shard may be cut into pieces that follow each other through the trees between hosts, more of
 * them under way than a lane has tiles. Loads reach inside hosts, whose ranks else would turn to
 * the next piece when a slot is free again. Not in groups that are proven by classes, where nothing
 * comes back from between hosts before all has been handed over; and the more ranks, the fewer, for
 * programs grow with them. */
static int runs_through(const struct planner *planner, const struct level_layout *layout)
{
    if (planner->request.collective == PEAL_BROADCAST)
        return planner->group.nhosts > 1 && planner->group.n <= PLAN_ENUMERATE_RANKS;
    int reduces = planner->request.collective == PEAL_REDUCE ||
                  (planner->request.collective == PEAL_ALLREDUCE && layout->levels == 2 &&
                   layout->part[1] == PART_TREE);
    return reduces && layout->levels == 2 && planner->group.n <= PLAN_ENUMERATE_RANKS &&
           planner->group.nhosts > 1 &&
           (layout->size[0] == 1 ||
            (planner->group.direct_hosts && layout->part[0] == PART_DIRECT));
}

static peal_status add_pieces(struct planner *planner, const struct candidate *candidate,
                              uint32_t pieces, int *more)
{
    struct candidate cut = *candidate;
    struct level_layout *layout;
    cut.pieces = pieces;
    *more = 0;
    PEAL_TRY(peal_level_layout(planner, &cut, &layout));
    if (!layout)
        return PEAL_OK;
    peal_status status = PEAL_OK;
    if (serves(planner, layout, &cut)) {
        *more = runs_through(planner, layout);
        peal_level_scratch(layout, planner);
        if (pieces > 1 || !*more || planner->request.depth <= 1)
            status = add_channels(planner, layout, &cut);
    }
    peal_level_layout_free(layout);
    return status;
}

static peal_status add_structure(struct planner *planner, struct candidate *candidate)
{
    int more;
    PEAL_TRY(add_pieces(planner, candidate, 1, &more));
    if (planner->request.depth)
        return more && planner->request.depth > 1
                   ? add_pieces(planner, candidate, planner->request.depth, &more)
                   : PEAL_OK;
    for (uint32_t pieces = 2;
         more && pieces <= PEAL_DEPTH_MAX && pieces * planner->group.n <= 4 * PLAN_ENUMERATE_RANKS;
         pieces *= 2)
        PEAL_TRY(add_pieces(planner, candidate, pieces, &more));
    return PEAL_OK;
}

/* Where every pair of a host has links of its own to a switch, nothing beats direct; the tree is
 * for one gateway that all others send to. */
static int worth_a_try(const struct planner *planner, enum level_part inner, uint32_t gateways)
{
    const struct group *group = &planner->group;
    struct topo_path path;
    if (inner == PART_DIRECT || planner->inner)
        return 1;
    if (group->local_max < 3 || (inner == PART_TREE && gateways > 1))
        return 0;
    peal_group_path(group, 0, 1, &path);
    return path.link_class != PEAL_LINK_NVLINK || !group->direct_hosts;
}

/* Who folds all peers folds them in their order, whatever the shard. */
static enum reduction_order order_of(const struct planner *planner,
                                     const struct candidate *candidate)
{
    if (planner->request.collective == PEAL_REDUCE || candidate->levels != 1u << LEVEL_HOST ||
        candidate->inner != PART_DIRECT)
        return ORDER_VARIES;
    return candidate->outer == PART_DIRECT     ? ORDER_HOSTS
           : candidate->outer == PART_DOUBLING ? ORDER_HOST_PAIRS
                                               : ORDER_VARIES;
}

static peal_status add_parts(struct planner *planner, uint32_t levels, uint32_t gateways)
{
    peal_collective collective = planner->request.collective;
    /* These have one way of their own. */
    int alone =
        collective == PEAL_BARRIER || collective == PEAL_GATHER || collective == PEAL_SCATTER;
    int outside = planner->group.nhosts > 1;
    for (uint32_t inner = PART_DIRECT; inner < PART_DOUBLING; inner++) {
        if ((planner->inner && planner->inner != 1 + inner) ||
            !worth_a_try(planner, (enum level_part)inner, gateways))
            continue;
        for (uint32_t outer = PART_DIRECT; outer < PART_COUNT; outer++) {
            if (planner->outer && planner->outer != 1 + outer)
                continue;
            struct candidate candidate = {.algo = ALGO_HIERARCHICAL,
                                          .gateways = gateways,
                                          .levels = levels,
                                          .inner = (enum level_part)inner,
                                          .outer = outside ? (enum level_part)outer : PART_COUNT,
                                          .max_bytes = UINT64_MAX};
            candidate.order = order_of(planner, &candidate);
            PEAL_TRY(add_structure(planner, &candidate));
            if (!outside || alone)
                break;
        }
        if (alone)
            break;
    }
    return PEAL_OK;
}

/* Gateways of a host: one, as many as NICs, or every rank. */
static peal_status add_gateways(struct planner *planner, uint32_t levels)
{
    const struct group *group = &planner->group;
    uint32_t options[3] = {group->local_min, 1, peal_level_nics(group, 0)};
    int every = peal_plan_collective(planner->request.collective)->block_power > 0 ||
                planner->request.collective == PEAL_BARRIER || levels != 1u << LEVEL_HOST;
    for (uint32_t i = 0; i < (every ? 1 : 3); i++) {
        uint32_t gateways = planner->request.gateways ? planner->request.gateways : options[i];
        int repeated = (i > 0 && gateways == options[0]) || (i > 1 && gateways == options[1]);
        if (gateways > group->local_min || repeated)
            continue;
        PEAL_TRY(add_parts(planner, levels, gateways));
        if (planner->request.gateways)
            break;
    }
    return PEAL_OK;
}

static peal_status enumerate(struct planner *planner)
{
    uint32_t masks[4];
    if (planner->group.n < 2 || planner->group.local_max > LEVEL_LOCAL_MAX)
        return PEAL_OK;
    uint32_t count = peal_level_choices(planner, masks);
    for (uint32_t i = 0; i < count; i++)
        PEAL_TRY(add_gateways(planner, masks[i]));
    return PEAL_OK;
}

/* ---- programs ------------------------------------------------------------------------------ */

static void add_regions(struct build *b, uint32_t channels)
{
    const struct level_layout *layout = b->layout;
    uint32_t depth = b->plan->tile_bytes ? SLOT_DEPTH : 1;
    uint64_t bytes = peal_build_slot_bytes(b);
    for (uint32_t c = 0; c < channels; c++)
        for (uint32_t k = 0; k < layout->levels; k++) {
            if (layout->inbox_width[k])
                peal_build_region(b, PLAN_BUF_SCRATCH, layout->inbox_width[k],
                                  depth > 1 ? layout->inbox_depth[k] : 1, bytes);
            if (layout->cell_width[k])
                peal_build_region(b, PLAN_BUF_SCRATCH, layout->cell_width[k], depth, bytes);
            if (layout->stage_width[k])
                peal_build_region(b, PLAN_BUF_SCRATCH, layout->stage_width[k], 1, bytes);
        }
}

static void prepare(struct build *b, const struct candidate *candidate)
{
    peal_status status = peal_level_layout(b->planner, candidate, &b->layout);
    if (status != PEAL_OK || !b->layout) {
        b->status = status != PEAL_OK ? status : PEAL_ERR_INTERNAL;
        return;
    }
    peal_level_scratch(b->layout, b->planner);
    b->in_flight = peal_level_events(b->layout);
    b->plan->nchunks = candidate->chunks;
    b->plan->nsems = (uint16_t)(LEVEL_SEMS * b->layout->levels * candidate->channels);
    add_regions(b, candidate->channels);
}

/* The peers of a level, looked up for a rank's first channel. */
static void find_peers(struct level_run *run, uint32_t level, uint32_t rank)
{
    struct level_peers *own = &run->b->layout->peers[level];
    /* A barrier goes through the levels in one memory. */
    uint32_t room = run->collective == PEAL_BARRIER ? peal_level_most_peers(run->layout)
                                                    : run->layout->size[level];
    if (!own->rank && peal_level_peers_init(own, run->layout, room) != PEAL_OK)
        run->b->status = PEAL_ERR_MEMORY;
    else if (!(run->known >> level & 1))
        peal_level_peers(own, run->layout, level, rank);
    run->known |= 1u << level;
    run->peers = *own;
}

/* Folds count messages, and an allgather notes its neighbours. */
static int counts(const struct level_run *run, enum level_kind kind)
{
    return kind == LEVEL_FOLD || (kind == LEVEL_SPREAD && run->collective == PEAL_ALLGATHER);
}

static void emit_channel(struct level_run *run, uint32_t rank)
{
    static void (*const program[])(struct level_run *, const struct level_phase *) = {
        [LEVEL_FOLD] = peal_level_fold,     [LEVEL_SPREAD] = peal_level_spread,
        [LEVEL_DOUBLE] = peal_level_double, [LEVEL_SCATTER] = peal_level_scatter,
        [LEVEL_GATHER] = peal_level_gather,
    };
    if (run->collective == PEAL_BARRIER) {
        find_peers(run, 0, rank);
        if (run->b->status == PEAL_OK)
            peal_level_barrier(run, rank);
        return;
    }
    if (run->layout->rails) {
        peal_level_rail(run);
        return;
    }
    run->phases = peal_level_phases(run->layout, run->collective, run->b->plan->root,
                                    run->channel % 2, rank, run->phase);
    run->deputy = peal_level_deputy(run->layout, run->b->planner, run->unit, run->channel);
    for (uint32_t i = 0; i < run->phases; i++) {
        const struct level_phase *phase = &run->phase[i];
        find_peers(run, phase->level, rank);
        if (run->b->status != PEAL_OK)
            return;
        if (counts(run, phase->kind))
            peal_level_unsent(&run->peers, &phase->way, phase->root);
        program[phase->kind](run, phase);
    }
}

static void emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    struct level_run run = {.b = b,
                            .layout = b->layout,
                            .collective = b->plan->collective,
                            .channels = candidate->channels,
                            .fine = candidate->cells > 1,
                            .unit = b->layout->unit_of[rank],
                            .shard = b->layout->shard_of[rank]};
    for (; run.channel < candidate->channels && b->status == PEAL_OK; run.channel++)
        emit_channel(&run, rank);
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    size_t used = 0;
    if (candidate->levels == 1u << LEVEL_HOST) {
        used = (size_t)snprintf(text, size, "%u gateway%s a host", candidate->gateways,
                                candidate->gateways == 1 ? "" : "s");
    } else {
        used = (size_t)snprintf(text, size, "levels");
        for (uint32_t w = 0; w < LEVEL_WORDS; w++)
            if (candidate->levels >> w & 1 && used < size)
                used += (size_t)snprintf(text + used, size - used, " %s", level_words[w]);
    }
    if (used < size)
        used += (size_t)snprintf(text + used, size - used, ", inner %s%s%s",
                                 part_texts[candidate->inner],
                                 candidate->outer < PART_COUNT ? ", outer " : "",
                                 candidate->outer < PART_COUNT ? part_texts[candidate->outer] : "");
    if (used < size)
        used += (size_t)snprintf(text + used, size - used, ", %u channel%s", candidate->channels,
                                 candidate->channels == 1 ? "" : "s");
    if (candidate->pieces > 1 && used < size)
        (void)snprintf(text + used, size - used, ", %u pieces under way", candidate->pieces);
}

const struct algo peal_algo_hierarchical = {
    "hierarchical",
    1u << PEAL_ALLREDUCE | 1u << PEAL_REDUCE_SCATTER | 1u << PEAL_ALLGATHER | 1u << PEAL_BROADCAST |
        1u << PEAL_REDUCE | 1u << PEAL_SCATTER | 1u << PEAL_GATHER | 1u << PEAL_BARRIER,
    enumerate,
    prepare,
    emit,
    detail};
