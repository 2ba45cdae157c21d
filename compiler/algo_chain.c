/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcast and reduce along a pipelined chain: N - 1 start-ups, each link carries the message
 * once. And the same programs along the binomial tree: log2 N start-ups (algo_tree.c). */
#include "compiler.h"

#include <stdio.h>
#include <string.h>

#define SLOT_PAIRS_MAX 2u /* more gain little, and take as much longer to prove */

/* The ring order from the root on. */
static void chain_from_root(const struct ring_orders *orders, uint32_t root, uint32_t channel,
                            uint32_t *order, uint32_t *chain)
{
    uint32_t n = orders->group->n, start = peal_ring_position(orders, channel, root);
    peal_ring_order(orders, channel, order);
    for (uint32_t i = 0; i < n; i++)
        chain[i] = order[(start + i) % n];
}

/* The chains of all channels, one after the other. */
static peal_status make_chains(const struct planner *planner, uint32_t channels, uint32_t *chains)
{
    uint32_t n = planner->group.n;
    struct ring_orders orders;
    PEAL_TRY(peal_ring_orders_make(planner, ALGO_CHAIN, channels, &orders));
    for (uint32_t c = 0; c < channels; c++)
        chain_from_root(&orders, planner->request.root, c, chains + (size_t)channels * n,
                        chains + (size_t)c * n);
    peal_ring_orders_free(&orders);
    return PEAL_OK;
}

/* ---- what a chain takes ---------------------------------------------------------- */

/* The hops on each channel's chain, one after the other, and between two tiles. */
struct chain_sum {
    double alpha_us[CHANNELS_MAX];
    double us_per_byte[CHANNELS_MAX];
    double alone_us_per_byte[CHANNELS_MAX];
    double enter_us[CHANNELS_MAX];
    struct stage turn; /* of a lane, or of an engine's transfer, from one tile to the next */
    struct stage flight;
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* The root's tile is its own output, too, which another engine's transfer leaves from. What a
 * reduction passes on it folds, but for the first one's. */
static double lane_chunks(const struct planner *planner, uint32_t depth, int async)
{
    uint32_t last = planner->group.n - 1;
    if (planner->request.collective == PEAL_BROADCAST)
        return async ? depth == 1 : depth == 1 ? 1.5 : 1;
    return depth == last ? !async : 1.5;
}

/* A round trip for two slots, in which both ends move the tile: a start-up and a move for each; of
 * more slots so many times as much fits into it. Or one transfer after the other. */
static void add_turn(struct stage *turn, double alpha_us, double us, double alone_us)
{
    turn->alpha_us = larger(turn->alpha_us, alpha_us / 2); /* twice, of depth 1 */
    turn->us_per_byte = larger(turn->us_per_byte, us);
    turn->alone_us_per_byte = larger(turn->alone_us_per_byte, alone_us);
}

/* One hop of one channel; others: messages of other channels from the same rank before it. */
static void sum_hop(const struct planner *planner, const struct candidate *candidate,
                    uint32_t depth, const struct hop *hop, uint32_t channel, uint32_t others,
                    struct chain_sum *sum)
{
    int async = peal_plan_engine_async(hop->engine);
    double lane_us = lane_chunks(planner, depth, async) * candidate->hop_share /
                     (peal_planner_lane_gbs(planner) * 1e3);
    double load = peal_load_of(&planner->load, &hop->path, 0);
    double alone = peal_load_of(&planner->load, &hop->path, 1);
    sum->alpha_us[channel] += hop->alpha_us;
    if (async) { /* one transfer of a lane at a time: the event of all tiles is one */
        sum->alpha_us[channel] += others * hop->gap_us;
        sum->us_per_byte[channel] += load + lane_us;
        sum->alone_us_per_byte[channel] += alone + lane_us;
        add_turn(&sum->flight, hop->alpha_us, load, alone);
        return;
    }
    sum->us_per_byte[channel] += larger(load, lane_us);
    sum->alone_us_per_byte[channel] += larger(alone, lane_us);
    /* Partial sums wait for a slot, results for nothing. */
    add_turn(&sum->turn, planner->request.collective == PEAL_REDUCE ? hop->alpha_us : 0,
             larger(load, lane_us), larger(alone, lane_us));
}

/* The hops at one depth, of all channels. */
static void sum_depth(struct planner *planner, struct candidate *candidate, const uint32_t *chains,
                      uint32_t depth, struct chain_sum *sum)
{
    const struct stage once = {.levels = 1};
    uint32_t n = planner->group.n;
    int away = planner->request.collective == PEAL_BROADCAST;
    struct hop hop;
    for (uint32_t c = 0; c < candidate->channels; c++) {
        const uint32_t *link = chains + (size_t)c * n + depth - 1;
        peal_planner_hop(planner, link[!away], link[away], &hop);
        peal_planner_load(planner, &hop, candidate->hop_share, hop.scale);
    }
    for (uint32_t c = 0; c < candidate->channels; c++) {
        const uint32_t *link = chains + (size_t)c * n + depth - 1;
        uint32_t others = 0;
        for (uint32_t i = 0; i < c; i++)
            others += chains[(size_t)i * n + depth - (away ? 1 : 0)] == link[!away];
        peal_planner_hop(planner, link[!away], link[away], &hop);
        sum_hop(planner, candidate, depth, &hop, c, others, sum);
        /* The entries before, or the leave after. */
        peal_planner_hop(planner, link[1], link[0], &hop);
        if (!away)
            peal_planner_hop(planner, link[0], link[1], &hop);
        sum->enter_us[c] +=
            hop.alpha_us + (peal_plan_engine_async(hop.engine) ? others * hop.gap_us : 0);
    }
    peal_candidate_stage(planner, candidate, &once, 0); /* into the total */
    candidate->nstages = 0;
}

static void cost_chain(struct planner *planner, struct candidate *candidate, const uint32_t *chains)
{
    uint32_t n = planner->group.n;
    struct chain_sum sum = {.turn = {.lane = 1, .depth = candidate->pieces},
                            .flight = {.lane = 2, .depth = 1}};
    struct stage way = {.levels = n - 1, .depth = UINT32_MAX};
    struct stage enter = {.levels = 1, .depth = UINT32_MAX, .lane = 3};
    for (uint32_t depth = 1; depth < n; depth++)
        sum_depth(planner, candidate, chains, depth, &sum);
    for (uint32_t c = 0; c < candidate->channels; c++) {
        way.alpha_us = larger(way.alpha_us, sum.alpha_us[c] / (n - 1));
        way.us_per_byte = larger(way.us_per_byte, sum.us_per_byte[c] / (n - 1));
        way.alone_us_per_byte = larger(way.alone_us_per_byte, sum.alone_us_per_byte[c] / (n - 1));
        enter.alpha_us = larger(enter.alpha_us, sum.enter_us[c]);
    }
    if (planner->request.collective == PEAL_REDUCE) /* the root's fold */
        enter.us_per_byte = enter.alone_us_per_byte =
            1.5 * candidate->hop_share / (peal_planner_lane_gbs(planner) * 1e3);
    way.resource = planner->total.worst_resource;
    candidate->stage[candidate->nstages++] = way;
    candidate->stage[candidate->nstages++] = sum.turn;
    candidate->stage[candidate->nstages++] = sum.flight;
    candidate->stage[candidate->nstages++] = enter;
    peal_candidate_total(planner, candidate);
}

/* ---- what the binomial tree takes --------------------------------------------------- */

/* Children of the rank's parent that this sends to before, by the same means. */
static double earlier(const struct planner *planner, const struct rooted_place *place,
                      uint32_t rank, int async)
{
    struct rooted_place above =
        peal_rooted_place(planner->group.n, planner->request.root, place->parent);
    double count = 0;
    for (uint32_t i = 0; i < above.children && above.child[i] != rank; i++) {
        struct hop hop;
        peal_planner_hop(planner, place->parent, above.child[i], &hop);
        count += (peal_plan_engine_async(hop.engine) != 0) == async;
    }
    return count;
}

/* Start-ups on the longest way from or to the root. An engine has the messages of all channels to
 * send, and those to the children before; a lane has its own. at: room for each rank. */
static double longest_us(struct planner *planner, uint32_t channels, int down, double *at)
{
    uint32_t n = planner->group.n, root = planner->request.root;
    double most = 0;
    memset(at, 0, n * sizeof *at);
    for (uint32_t i = 1; i < n; i++) {
        uint32_t v = down ? i : n - i, rank = (v + root) % n; /* parents first, or last */
        struct rooted_place place = peal_rooted_place(n, root, rank);
        struct hop hop;
        peal_planner_hop(planner, down ? place.parent : rank, down ? rank : place.parent, &hop);
        int async = peal_plan_engine_async(hop.engine) != 0;
        double before = down ? earlier(planner, &place, rank, async) : 0;
        if (async)
            before = (before + 1) * channels - 1;
        double own = hop.alpha_us + before * hop.gap_us;
        uint32_t up = (v & (v - 1)), to = down ? v : up;
        at[to] = larger(at[to], at[down ? up : v] + own);
        most = larger(most, at[to]);
    }
    return most;
}

/* Down, all children of a depth are sent to at once. Up, a rank sends when its last child has, so
 * those with equally many children do so together, and a parent takes one in at a time. */
static int is_of_level(const struct planner *planner, uint32_t rank, uint32_t depth, uint32_t fan)
{
    uint32_t n = planner->group.n, v = (rank + n - planner->request.root) % n, kids = 0;
    if (planner->request.collective == PEAL_BROADCAST)
        return peal_rooted_place(n, planner->request.root, rank).depth == depth;
    while (v && !(v >> kids & 1))
        kids++;
    return v && kids + depth == fan;
}

/* One level's hops; the channels share each link. Gives how many there are. */
static uint32_t load_level(struct planner *planner, uint32_t depth, uint32_t fan,
                           struct stage *turn, int *async)
{
    uint32_t n = planner->group.n, hops = 0;
    int away = planner->request.collective == PEAL_BROADCAST;
    for (uint32_t r = 0; r < n; r++) {
        struct rooted_place place = peal_rooted_place(n, planner->request.root, r);
        struct hop hop;
        if (!is_of_level(planner, r, depth, fan))
            continue;
        peal_planner_hop(planner, away ? place.parent : r, away ? r : place.parent, &hop);
        peal_planner_load(planner, &hop, 1.0, hop.scale);
        hops++;
        if (peal_plan_engine_async(hop.engine)) { /* one transfer at a time, as on a chain */
            *async = 1;
            turn->alpha_us = larger(turn->alpha_us, hop.alpha_us / 2);
        } else if (!away) {
            turn->alpha_us = larger(turn->alpha_us, hop.alpha_us / 2);
        }
    }
    return hops;
}

/* What the lanes of a level move: the tile to all children, at the root to its own output, too;
 * or what those sent, folded with the own input. A node at depth d has no more than log2 n - d. */
static double level_chunks(const struct planner *planner, uint32_t depth, uint32_t fan)
{
    if (planner->request.collective == PEAL_BROADCAST)
        return (2 + fan - depth + (depth == 1)) / 2.0;
    return depth == fan ? 1 : (fan - depth + 2) / 2.0;
}

/* With tiles on every hop, all children of a depth send at once: what their hops then take. */
static void meet_children(struct planner *planner, uint32_t depth, struct stage *level)
{
    for (uint32_t r = 0; r < planner->group.n; r++) {
        struct rooted_place place = peal_rooted_place(planner->group.n, planner->request.root, r);
        struct hop hop;
        if (place.depth != depth)
            continue;
        peal_planner_hop(planner, r, place.parent, &hop);
        peal_planner_load(planner, &hop, 1.0, hop.scale);
    }
    level->us_per_byte = larger(level->us_per_byte, planner->load.worst);
    level->alone_us_per_byte = larger(level->alone_us_per_byte, planner->load.worst_own);
    peal_load_clear(&planner->load);
}

static void add_level(struct planner *planner, struct candidate *candidate, uint32_t depth,
                      uint32_t fan, struct stage *turn)
{
    struct stage stage = {.levels = 1, .lane = depth};
    double chunks = level_chunks(planner, depth, fan) * candidate->hop_share;
    int async = 0, away = planner->request.collective == PEAL_BROADCAST;
    if (!load_level(planner, depth, fan, turn, &async))
        return;
    peal_candidate_stage(planner, candidate, &stage, async ? 0 : chunks);
    struct stage *to = &candidate->stage[candidate->nstages - 1];
    if (async && (!away || depth == 1)) /* folded, or copied, before it leaves */
        peal_stage_then(planner, to, away ? candidate->hop_share : depth == fan ? 0 : chunks);
}

/* Both ends of a slot move the tile in the round trip of a credit. first: stage of depth 1. */
static void set_turn(struct planner *planner, const struct candidate *candidate, uint32_t first,
                     struct stage *turn)
{
    struct stage out = candidate->stage[0];
    for (uint32_t i = first; i < candidate->nstages; i++) {
        struct stage in = candidate->stage[i];
        if (planner->request.collective == PEAL_REDUCE)
            meet_children(planner, in.lane, &in);
        if (!i)
            out = in;
        turn->us_per_byte = larger(turn->us_per_byte, (in.us_per_byte + out.us_per_byte) / 2);
        turn->alone_us_per_byte =
            larger(turn->alone_us_per_byte, (in.alone_us_per_byte + out.alone_us_per_byte) / 2);
        out = in;
    }
}

static peal_status cost_tree(struct planner *planner, struct candidate *candidate, uint32_t fan)
{
    struct stage turn = {.lane = fan + 1, .depth = 1}, enter = {.levels = 1, .lane = fan + 2};
    uint32_t n = planner->group.n;
    int away = planner->request.collective == PEAL_BROADCAST;
    double *at = peal_alloc(planner->ctx, n * sizeof *at);
    if (!at)
        return PEAL_ERR_MEMORY;
    double way_us = longest_us(planner, candidate->channels, away, at);
    enter.alpha_us = longest_us(planner, candidate->channels, !away, at);
    peal_free(planner->ctx, at, n * sizeof *at);
    if (!away) { /* the root's fold */
        struct stage fold = {.levels = 1};
        peal_candidate_stage(planner, candidate, &fold, (fan + 2) / 2.0 * candidate->hop_share);
    }
    for (uint32_t depth = 1; depth <= fan; depth++)
        add_level(planner, candidate, depth, fan, &turn);
    set_turn(planner, candidate, away ? 0 : 1, &turn);
    for (uint32_t i = 0; i < candidate->nstages; i++)
        candidate->stage[i].alpha_us = way_us / candidate->nstages;
    enter.depth = UINT32_MAX;
    peal_candidate_stage(planner, candidate, &enter, 0);
    candidate->stage[candidate->nstages++] = turn;
    peal_candidate_total(planner, candidate);
    return PEAL_OK;
}

/* ---- candidates ------------------------------------------------------------------- */

/* More slots than two are of use to several tiles. */
static peal_status add_tiles(struct planner *planner, struct candidate *candidate)
{
    static const uint64_t tiles[] = {0, 16u << 10, 64u << 10, 256u << 10, 1u << 20};
    for (size_t i = candidate->pieces > 1; i < sizeof tiles / sizeof tiles[0]; i++) {
        candidate->tile_bytes =
            planner->request.tile_bytes ? planner->request.tile_bytes : tiles[i];
        PEAL_TRY(peal_planner_add(planner, candidate));
        if (planner->request.tile_bytes)
            break;
    }
    return PEAL_OK;
}

/* Of a channel, from which another engine sends what its lane has folded. */
static uint32_t stage_slots(const struct candidate *candidate)
{
    return peal_candidate_stores(candidate) ? 0 : BUILD_EVENTS;
}

/* slots: pairs of them, for what a child sends. */
static peal_status add_slots(struct planner *planner, enum algorithm algo, uint32_t channels,
                             uint32_t slots)
{
    uint32_t n = planner->group.n;
    uint32_t fan = algo == ALGO_CHAIN ? 1 : ROOTED_CHILDREN;
    struct candidate candidate = {.algo = algo,
                                  .channels = channels,
                                  .pieces = algo == ALGO_CHAIN ? slots : 0,
                                  .max_bytes = UINT64_MAX,
                                  .chunks = channels,
                                  .lanes = channels,
                                  .hop_share = 1.0 / channels};
    peal_status status = PEAL_OK;
    uint32_t *chains = NULL;
    size_t bytes = (size_t)n * (channels + 1) * sizeof *chains;
    if (algo == ALGO_CHAIN) {
        chains = peal_alloc(planner->ctx, bytes); /* the last one is room for an order */
        if (!chains)
            return PEAL_ERR_MEMORY;
        status = make_chains(planner, channels, chains);
    } else {
        for (fan = 0; 1u << fan < n; fan++)
            ;
    }
    if (status == PEAL_OK && chains)
        cost_chain(planner, &candidate, chains);
    else if (status == PEAL_OK)
        status = cost_tree(planner, &candidate, fan);
    if (planner->request.collective == PEAL_REDUCE)
        candidate.slots = 2ull * channels * (fan * slots + stage_slots(&candidate));
    peal_free(planner->ctx, chains, bytes);
    return status == PEAL_OK ? add_tiles(planner, &candidate) : status;
}

/* Partial sums wait for slots, so that a chain of small tiles is slow with two. */
peal_status peal_rooted_enumerate(struct planner *planner, enum algorithm algo, uint32_t channels)
{
    uint32_t asked = planner->request.depth;
    if (algo != ALGO_CHAIN || planner->request.collective != PEAL_REDUCE)
        return add_slots(planner, algo, channels, 1);
    if (asked)
        return add_slots(planner, algo, channels, asked);
    for (uint32_t slots = 1; slots <= SLOT_PAIRS_MAX; slots *= 2)
        PEAL_TRY(add_slots(planner, algo, channels, slots));
    return PEAL_OK;
}

static peal_status enumerate(struct planner *planner)
{
    uint32_t asked = planner->request.channels;
    if (planner->group.n < 2)
        return PEAL_OK;
    for (uint32_t channels = asked ? asked : 1; channels <= CHANNELS_MAX;
         channels = asked ? UINT32_MAX : channels * 2) {
        if (channels > 1 && !planner->group.accelerators)
            break;
        PEAL_TRY(peal_rooted_enumerate(planner, ALGO_CHAIN, channels));
    }
    return PEAL_OK;
}

static uint32_t slots_of(const struct candidate *candidate)
{
    return SLOT_DEPTH * (candidate->pieces ? candidate->pieces : 1);
}

void peal_rooted_prepare(struct build *b, const struct candidate *candidate)
{
    uint32_t depth = b->plan->tile_bytes ? slots_of(candidate) : 1;
    uint64_t bytes = peal_build_slot_bytes(b);
    b->plan->nsems = (uint16_t)(4 * candidate->channels);
    for (uint32_t c = 0; b->plan->collective == PEAL_REDUCE && c < candidate->channels; c++) {
        peal_build_region(b, PLAN_BUF_SCRATCH, ROOTED_CHILDREN, depth, bytes);
        if (stage_slots(candidate))
            peal_build_region(b, PLAN_BUF_SCRATCH, stage_slots(candidate), 1, bytes);
    }
}

void peal_rooted_emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    uint32_t regions = stage_slots(candidate) ? 2 : 1; /* of a channel */
    for (uint32_t c = 0; c < candidate->channels; c++) {
        struct rooted_part part = {.chunk = c,
                                   .region = regions * c,
                                   .stage_region = regions * c + 1,
                                   .depth = slots_of(candidate),
                                   .sem0 = 4 * c,
                                   .credits = b->plan->tile_bytes != 0};
        part.place = candidate->algo == ALGO_CHAIN
                         ? peal_chain_place(b->rings, c, b->plan->root, rank)
                         : peal_rooted_place(b->plan->nranks, b->plan->root, rank);
        if (b->plan->collective == PEAL_BROADCAST)
            peal_rooted_broadcast(b, &part);
        else
            peal_rooted_reduce(b, &part);
    }
}

static void detail(const struct candidate *candidate, char *text, size_t size)
{
    int used = snprintf(text, size, "pipelined chain, %u channel%s", candidate->channels,
                        candidate->channels == 1 ? "" : "s");
    if (candidate->pieces > 1 && used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, ", %u slots", slots_of(candidate));
}

const struct algo peal_algo_chain = {"chain",          1u << PEAL_BROADCAST | 1u << PEAL_REDUCE,
                                     enumerate,        peal_rooted_prepare,
                                     peal_rooted_emit, detail};
