/* SPDX-License-Identifier: Apache-2.0 */
/* From a request to a table: candidates, their costs at each size, and the sizes at which another
 * candidate becomes better. */
#include "compiler.h"
#include "packed.h"
#include "policy_run.h"
#include "script.h"

#include <stdio.h>
#include <string.h>

#define MIN_BYTES_DEFAULT 8u
#define MAX_BYTES_DEFAULT (8ull << 30)
#define SCRATCH_DEFAULT (256ull << 20)
/* A choice stands until it is this much slower than the best: fewer, longer rows. */
#define KEEP_FACTOR 1.02
#define FEW_RANKS 64u /* whose programs always fit */
/* Of candidates this close to the best, the one with the fewest lanes is taken; where the best is
 * this close to the bound, of those that are so too. */
#define TIE_FACTOR 1.01
#define PRICE_MAX 1e18 /* below 2^63 picoseconds */

struct pick {
    uint32_t index;
    double price; /* time, with the price of its SMs */
};

static void planner_free(peal_ctx *ctx, void *opaque)
{
    struct planner *planner = opaque;
    peal_load_free(&planner->load);
    peal_load_free(&planner->total);
    peal_group_free(&planner->group);
    peal_packed_forget(planner);
    peal_planner_forget_scripts(planner);
    peal_policy_free(planner);
    peal_free(ctx, planner->pairs, 2 * (size_t)planner->npairs * sizeof *planner->pairs);
    peal_free(ctx, planner->candidates, planner->capacity * sizeof *planner->candidates);
    peal_free(ctx, planner, sizeof *planner);
}

/* ---- choosing ----------------------------------------------------------------- */

static int fits(const struct planner *planner, const struct candidate *candidate, uint64_t bytes)
{
    return !peal_policy_barred(planner, (uint32_t)(candidate - planner->candidates)) &&
           bytes <= candidate->max_bytes &&
           peal_candidate_scratch(candidate, bytes) <= planner->request.scratch_limit;
}

static uint32_t sms_of(const struct planner *planner, const struct candidate *candidate)
{
    int copied = candidate->corner == CORNER_COPY &&
                 !peal_plan_collective(planner->request.collective)->reduces;
    return planner->group.accelerators && !copied ? candidate->lanes : 0;
}

static double price_of(const struct planner *planner, uint32_t index, uint64_t bytes)
{
    const struct candidate *candidate = &planner->candidates[index];
    struct cost cost;
    peal_candidate_cost(candidate, bytes, &cost);
    uint32_t sms = sms_of(planner, candidate);
    /* Compared as whole picoseconds, so that no rounding mode or compiler decides. */
    double price = cost.time_us * (1 + planner->request.sm_price * sms) * 1e6;
    price *= peal_policy_factor(planner, index, bytes);
    price = price < PRICE_MAX ? price : PRICE_MAX;
    return (double)(uint64_t)(price + 0.5);
}

/* The one that needs least scratch, when the bound rules all out: shrink rather than fail. */
static uint32_t smallest(const struct planner *planner, uint64_t bytes)
{
    uint32_t best = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < planner->count; i++) {
        uint64_t scratch = peal_candidate_scratch(&planner->candidates[i], bytes);
        if (bytes <= planner->candidates[i].max_bytes && scratch < least &&
            !peal_policy_barred(planner, i)) {
            least = scratch;
            best = i;
        }
    }
    return best;
}

static struct pick pick_best(const struct planner *planner, uint64_t bytes)
{
    struct pick best = {UINT32_MAX, 0};
    for (uint32_t i = 0; i < planner->count; i++) {
        if (!fits(planner, &planner->candidates[i], bytes))
            continue;
        double price = price_of(planner, i, bytes);
        if (best.index == UINT32_MAX || price < best.price)
            best = (struct pick){i, price};
    }
    if (best.index == UINT32_MAX) {
        best.index = smallest(planner, bytes);
        best.price = price_of(planner, best.index, bytes);
    }
    return best;
}

/* What no choice may cost: some more than the best, but never more than a plain ring or tree. */
static double most_price(const struct planner *planner, double best, double factor, uint64_t bytes)
{
    double most = best * factor;
    for (uint32_t i = 0; i < planner->count; i++) {
        const struct candidate *candidate = &planner->candidates[i];
        if ((candidate->algo != ALGO_RING && candidate->algo != ALGO_TREE) ||
            !fits(planner, candidate, bytes))
            continue;
        double price = price_of(planner, i, bytes);
        most = price < most ? price : most;
    }
    return most;
}

/* What fewer lanes may cost: some time, but not the optimum where that is within reach. */
static double tie_price(const struct planner *planner, double best, uint64_t bytes)
{
    double most = most_price(planner, best, TIE_FACTOR, bytes);
    double close = peal_planner_bound(planner, bytes) * TIE_FACTOR * 1e6; /* picoseconds */
    return best <= close && close < most ? close : most;
}

static uint32_t pick_simplest(const struct planner *planner, uint64_t bytes)
{
    struct pick best = pick_best(planner, bytes);
    double most = tie_price(planner, best.price, bytes);
    uint32_t chosen = best.index;
    for (uint32_t i = 0; i < planner->count; i++)
        if (fits(planner, &planner->candidates[i], bytes) &&
            planner->candidates[i].lanes < planner->candidates[chosen].lanes &&
            price_of(planner, i, bytes) <= most)
            chosen = i;
    return chosen;
}

static int still_good(const struct planner *planner, uint32_t index, uint64_t bytes)
{
    struct pick best = pick_best(planner, bytes);
    if (!fits(planner, &planner->candidates[index], bytes))
        return best.index == index;
    return price_of(planner, index, bytes) <= most_price(planner, best.price, KEEP_FACTOR, bytes);
}

/* The last size of [good, bad) at which the candidate is still good. */
static uint64_t bisect(const struct planner *planner, uint32_t index, uint64_t good, uint64_t bad)
{
    while (bad - good > 1) {
        uint64_t middle = good + (bad - good) / 2;
        if (still_good(planner, index, middle))
            good = middle;
        else
            bad = middle;
    }
    return good;
}

/* In steps of an eighth, but never past a power of two or a quarter of one: costs have teeth where
 * another tile is begun, and round sizes are those that people use. */
static uint64_t next_size(uint64_t bytes, uint64_t limit)
{
    uint64_t power = 4;
    while (power <= bytes / 2)
        power *= 2;
    uint64_t quarter = (bytes / (power / 4) + 1) * (power / 4);
    uint64_t step = bytes / 8 ? bytes / 8 : 1;
    uint64_t next = bytes > limit - step ? limit : bytes + step;
    return quarter < next ? quarter : next;
}

static uint64_t row_end(const struct planner *planner, uint32_t index, uint64_t from, uint64_t to)
{
    uint64_t good = from;
    while (good < to) {
        uint64_t probe = next_size(good, to);
        if (!still_good(planner, index, probe))
            return bisect(planner, index, good, probe);
        good = probe;
    }
    return to;
}

/* ---- describing --------------------------------------------------------------------- */

static void describe_binding(const struct candidate *candidate, const struct cost *cost, char *text,
                             size_t size)
{
    if (cost->alpha_us * 2 > cost->time_us)
        peal_copy_text(text, size, "latency");
    else if (cost->lane_bound)
        peal_copy_text(text, size, "copy rate of the lanes");
    else
        peal_copy_text(text, size, candidate->binding);
}

/* Of the longest way. The network's start-up is that of RDMA by the host, unless the kernel is to
 * post by itself: then what it saves on one way it saves on all. */
static double least_alpha(const struct planner *planner)
{
    double alpha = planner->group.bound_alpha;
    int posted = planner->request.move_engine[PEAL_LINK_NET] == PEAL_ENGINE_IBGDA + 1;
    for (uint32_t r = 1; posted && r < planner->group.n; r++) {
        struct topo_path path;
        struct topo_engine_cost cost;
        peal_group_path(&planner->group, 0, r, &path);
        if (path.link_class != PEAL_LINK_NET)
            continue;
        peal_topo_hop_cost(planner->fabric, &path, PEAL_ENGINE_IBGDA, &cost);
        double saved = path.alpha_us - cost.alpha_us;
        return saved < 0 ? alpha : alpha > saved ? alpha - saved : 0;
    }
    return alpha;
}

double peal_planner_bound(const struct planner *planner, uint64_t bytes)
{
    const struct group *group = &planner->group;
    double move = group->bound_beta[planner->request.collective] * (double)bytes *
                  peal_compressed_ratio(&planner->request);
    double alpha = least_alpha(planner);
    return move > alpha ? move : alpha;
}

static void describe(const struct planner *planner, uint32_t index, uint64_t min_bytes,
                     uint64_t max_bytes, peal_row_info *info)
{
    const struct candidate *candidate = &planner->candidates[index];
    const struct algo *algo = peal_algo_get(candidate->algo);
    struct cost low, high;
    double n = planner->group.n;
    memset(info, 0, sizeof *info);
    info->size = sizeof *info;
    info->collective = planner->request.collective;
    info->root = planner->request.root;
    info->peer = planner->request.peer;
    info->min_bytes = min_bytes;
    info->max_bytes = max_bytes;
    peal_candidate_cost(candidate, min_bytes, &low);
    peal_candidate_cost(candidate, max_bytes, &high);
    peal_copy_text(info->algorithm, sizeof info->algorithm,
                   peal_candidate_name(planner, candidate));
    algo->detail(candidate, info->detail, sizeof info->detail);
    info->channels = candidate->channels;
    info->hop_bytes = (uint64_t)(candidate->hop_share * (double)max_bytes);
    if (candidate->tile_bytes && candidate->tile_bytes < info->hop_bytes)
        info->hop_bytes = info->tile_bytes = candidate->tile_bytes;
    info->net_messages = candidate->net_messages;
    if (candidate->net_messages)
        info->net_message_bytes =
            (uint64_t)(candidate->net_share * (double)max_bytes / (double)candidate->net_messages);
    info->protocol = candidate->algo == ALGO_ONESHOT ? "packet" : "simple";
    memcpy(info->move_engines, candidate->engines, sizeof info->move_engines);
    info->scratch_bytes = peal_candidate_scratch(candidate, max_bytes);
    info->sms = sms_of(planner, candidate);
    info->time_us = high.time_us;
    info->time_min_us = low.time_us;
    info->time_alone_us = peal_candidate_alone_us(candidate, max_bytes);
    info->alpha_us = high.alpha_us;
    info->algbw_gbs = high.time_us > 0 ? (double)max_bytes / (high.time_us * 1e3) : 0;
    info->busbw_gbs = info->algbw_gbs * peal_plan_bus_factor(planner->request.collective, n);
    info->bound_us = peal_planner_bound(planner, max_bytes);
    if (planner->request.collective == PEAL_BARRIER) /* nothing is moved */
        info->algbw_gbs = info->busbw_gbs = 0;
    if (planner->request.collective == PEAL_ALLGATHER)
        peal_copy_text(info->bound_cut, sizeof info->bound_cut, planner->group.cut);
    if (planner->request.collective == PEAL_REDUCE_SCATTER)
        peal_copy_text(info->bound_cut, sizeof info->bound_cut, planner->group.cut_in);
    info->wire = (peal_wire)candidate->wire;
    info->latency_bound = high.alpha_us * 2 > high.time_us;
    describe_binding(candidate, &high, info->binding, sizeof info->binding);
}

/* ---- the request -------------------------------------------------------------------- */

static peal_status read_algorithm(struct planner *planner, peal_diag *diag)
{
    const char *name = planner->request.algorithm;
    planner->algorithm = ALGO_ANY;
    planner->request.algorithm = NULL; /* the caller's string need not outlive the call */
    if (!name)
        return PEAL_OK;
    if (planner->request.schedule && peal_streq(name, planner->request.schedule->name)) {
        planner->algorithm = ALGO_SCRIPT;
        return PEAL_OK;
    }
    for (uint32_t i = 0; i < ALGO_COUNT; i++)
        if (peal_streq(name, peal_algo_get((enum algorithm)i)->name)) {
            planner->algorithm = (enum algorithm)i;
            return PEAL_OK;
        }
    char known[256] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < ALGO_COUNT && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 peal_algorithm_name(i));
    return peal_fail(diag, PEAL_ERR_ARG, "unknown algorithm %s; known are %s", name, known);
}

static peal_status check_engines(const struct planner *planner, peal_diag *diag)
{
    uint32_t arch = peal_topo_rank_arch(planner->fabric, peal_group_rank(&planner->group, 0));
    for (uint32_t c = 0; c < PEAL_LINK_CLASS_COUNT; c++) {
        uint32_t asked = planner->request.move_engine[c];
        uint32_t can =
            peal_plan_engines((uint8_t)c, 1, arch) | peal_plan_engines((uint8_t)c, 0, arch);
        if (asked > PEAL_ENGINE_COUNT)
            return peal_fail(diag, PEAL_ERR_ARG, "unknown engine number %u", asked - 1);
        if (asked == PEAL_ENGINE_TMA + 1 && arch && arch < 90)
            return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                             "engine tma needs compute capability 9.0; these are sm_%u", arch);
        if (asked && !(can & 1u << (asked - 1)))
            return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "engine %s cannot move over %s here",
                             peal_engine_name((peal_engine)(asked - 1)),
                             peal_link_class_name((peal_link_class)c));
    }
    return PEAL_OK;
}

static peal_status check_zero_sm(const peal_request *request, peal_diag *diag)
{
    if (!request->zero_sm)
        return PEAL_OK;
    if (peal_plan_collective(request->collective)->reduces)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "%s reduces, which copy engines and NICs cannot: it needs at least one SM",
                         peal_collective_name(request->collective));
    for (uint32_t c = 0; c < PEAL_LINK_CLASS_COUNT; c++)
        if (request->move_engine[c] == PEAL_ENGINE_SM + 1 ||
            request->move_engine[c] == PEAL_ENGINE_TMA + 1 ||
            request->move_engine[c] == PEAL_ENGINE_IBGDA + 1)
            return peal_fail(diag, PEAL_ERR_ARG, "engine %s over %s holds an SM",
                             peal_engine_name((peal_engine)(request->move_engine[c] - 1)),
                             peal_link_class_name((peal_link_class)c));
    return PEAL_OK;
}

static peal_status read_request(struct planner *planner, const peal_request *request,
                                peal_diag *diag)
{
    peal_request *to = &planner->request;
    if (peal_import(to, sizeof *to, request) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "request of an unknown version");
    to->min_bytes = to->min_bytes ? to->min_bytes : MIN_BYTES_DEFAULT;
    to->max_bytes = to->max_bytes ? to->max_bytes : MAX_BYTES_DEFAULT;
    to->scratch_limit = to->scratch_limit ? to->scratch_limit : SCRATCH_DEFAULT;
    if ((unsigned)to->collective >= PEAL_COLLECTIVE_COUNT)
        return peal_fail(diag, PEAL_ERR_ARG, "unknown collective number %d", (int)to->collective);
    if (to->min_bytes > to->max_bytes || to->max_bytes > 1ull << 46)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "sizes from %llu to %llu bytes are no range below 64 TiB",
                         (unsigned long long)to->min_bytes, (unsigned long long)to->max_bytes);
    if (to->channels > CHANNELS_MAX)
        return peal_fail(diag, PEAL_ERR_ARG, "%u channels; at most %u", to->channels, CHANNELS_MAX);
    if (to->depth > PEAL_DEPTH_MAX)
        return peal_fail(diag, PEAL_ERR_ARG, "a depth of %u; at most %u", to->depth,
                         PEAL_DEPTH_MAX);
    if (to->tile_bytes % PLAN_ALIGN)
        return peal_fail(diag, PEAL_ERR_ARG, "a tile is a multiple of %u bytes", PLAN_ALIGN);
    if (!(to->sm_price >= 0 && to->sm_price <= 1000))
        return peal_fail(diag, PEAL_ERR_ARG, "the price of an SM lies between 0 and 1000");
    if ((unsigned)to->wire >= PEAL_WIRE_COUNT)
        return peal_fail(diag, PEAL_ERR_ARG, "unknown wire format number %d", (int)to->wire);
    PEAL_TRY(check_zero_sm(to, diag));
    PEAL_TRY(peal_level_request(planner, diag));
    return read_algorithm(planner, diag);
}

static peal_status check_ends(const struct planner *planner, peal_diag *diag)
{
    const peal_request *request = &planner->request;
    const char *name = peal_collective_name(request->collective);
    int rooted = peal_plan_collective(request->collective)->rooted;
    int pair = request->collective == PEAL_SENDRECV;
    if ((request->root && !rooted) || (request->peer && !pair))
        return peal_fail(diag, PEAL_ERR_ARG, "%s has no %s", name,
                         request->root && !rooted ? "root" : "peer");
    if (request->npairs && !pair)
        return peal_fail(diag, PEAL_ERR_ARG, "%s has no pairs", name);
    if (request->npairs && request->root != request->peer)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "root and peer of a list of pairs are its number, and equal");
    if (pair && !request->npairs && request->root == request->peer)
        return peal_fail(diag, PEAL_ERR_ARG, "a rank sends to itself");
    return PEAL_OK;
}

/* ---- the table ----------------------------------------------------------------------- */

static peal_status enumerate_alone(struct planner *planner)
{
    struct candidate candidate = {.algo = planner->algorithm == ALGO_ANY ? ALGO_RING
                                                                         : planner->algorithm,
                                  .channels = 1,
                                  .max_bytes = UINT64_MAX,
                                  .chunks = 1,
                                  .lanes = 1,
                                  .nstages = 1,
                                  .hop_share = 1};
    candidate.stage[0].levels = 1;
    candidate.stage[0].us_per_byte =
        1 / (peal_topo_reduce_gbs(planner->fabric, peal_group_rank(&planner->group, 0)) * 1e3);
    candidate.stage[0].alone_us_per_byte = candidate.stage[0].us_per_byte;
    candidate.stage[0].lane_bound = 1;
    return peal_planner_add(planner, &candidate);
}

/* Written down now: a table outlives its fabric. */
static void name_binding(const struct planner *planner, struct candidate *candidate)
{
    struct cost cost;
    peal_candidate_cost(candidate, planner->request.max_bytes, &cost);
    if (planner->group.n > 1)
        peal_topo_resource_name(planner->fabric, cost.resource, candidate->binding,
                                sizeof candidate->binding);
}

/* Of more ranks than are made at once only what is proven by classes is worth a plan: hierarchical
 * allreduce between hosts of several ranks, where one serves all sizes that are asked for. */
static int provable_serves(const struct planner *planner, uint32_t first)
{
    const peal_request *request = &planner->request;
    for (uint32_t i = first; i < planner->count; i++)
        if (fits(planner, &planner->candidates[i], request->max_bytes) &&
            (!request->max_sms || sms_of(planner, &planner->candidates[i]) <= request->max_sms))
            return 1;
    return 0;
}

static int is_flat(enum algorithm algo)
{
    return algo != ALGO_HIERARCHICAL && algo != ALGO_NCCL_RING && algo != ALGO_NCCL_TREE;
}

/* Flat schedules are left out where provable ones serve. */
static peal_status enumerate_large(struct planner *planner)
{
    uint32_t first = planner->count;
    PEAL_TRY(peal_algo_hierarchical.enumerate(planner));
    int serves = provable_serves(planner, first);
    for (uint32_t i = 0; i < ALGO_COUNT; i++)
        if (i != ALGO_HIERARCHICAL && !(serves && is_flat((enum algorithm)i)) &&
            peal_algo_get((enum algorithm)i)->collectives >> PEAL_ALLREDUCE & 1)
            PEAL_TRY(peal_algo_get((enum algorithm)i)->enumerate(planner));
    return PEAL_OK;
}

static int is_large(const struct planner *planner)
{
    const peal_request *request = &planner->request;
    return planner->group.n > PEAL_WHOLE_RANKS && planner->algorithm == ALGO_ANY &&
           request->collective == PEAL_ALLREDUCE && !request->deterministic &&
           planner->group.local_min > 1;
}

static peal_status enumerate_corner(struct planner *planner, enum corner corner)
{
    planner->corner = corner;
    if (is_large(planner))
        return enumerate_large(planner);
    for (uint32_t i = 0; i < ALGO_COUNT; i++)
        if ((planner->algorithm == ALGO_ANY || planner->algorithm == (enum algorithm)i) &&
            peal_algo_get((enum algorithm)i)->collectives >> planner->request.collective & 1)
            PEAL_TRY(peal_algo_get((enum algorithm)i)->enumerate(planner));
    return planner->script ? peal_algo_script.enumerate(planner) : PEAL_OK;
}

/* Copy engines are tried where SMs are counted. */
static peal_status enumerate_corners(struct planner *planner)
{
    const peal_request *request = &planner->request;
    if (planner->group.n == 1)
        return enumerate_alone(planner);
    if (!planner->group.accelerators || !request->zero_sm)
        PEAL_TRY(enumerate_corner(planner, CORNER_LANES));
    if (planner->group.accelerators &&
        (request->zero_sm || request->max_sms || request->sm_price > 0))
        PEAL_TRY(enumerate_corner(planner, CORNER_COPY));
    return PEAL_OK;
}

/* What holds more SMs than there may be is no candidate, from `first` on. */
static peal_status keep_budget(struct planner *planner, uint32_t first, peal_diag *diag)
{
    uint32_t kept = first, least = UINT32_MAX, most = planner->request.max_sms;
    for (uint32_t i = first; i < planner->count; i++) {
        uint32_t sms = sms_of(planner, &planner->candidates[i]);
        least = sms < least ? sms : least;
        if (!most || sms <= most)
            planner->candidates[kept++] = planner->candidates[i];
    }
    planner->count = kept;
    if (kept == first)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "%u SMs are too few: what needs least here holds %u", most, least);
    return PEAL_OK;
}

static peal_status enumerate(struct planner *planner, peal_diag *diag)
{
    uint32_t first = planner->count;
    peal_status status = enumerate_corners(planner);
    peal_planner_private(planner, first);
    for (uint32_t i = first; i < planner->count; i++)
        name_binding(planner, &planner->candidates[i]);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "costing failed: %s", peal_status_text(status));
    if (planner->count == first && planner->algorithm == ALGO_COMPRESSED &&
        planner->request.wire == PEAL_WIRE_NONE)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "compressed rounds elements on the wire, which has to be asked for: "
                         "bf16 or fp8");
    if (planner->count == first)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "no algorithm serves %s by %u ranks on %u hosts with these parameters%s",
                         peal_collective_name(planner->request.collective), planner->group.n,
                         planner->group.nhosts,
                         planner->group.direct_hosts
                             ? ""
                             : "; oneshot and twoshot need loads and stores between all ranks");
    return keep_budget(planner, first, diag);
}

/* ---- what a policy asks for ---------------------------------------------------------- */

/* The fields that a policy may set; each of `ask` that is 0 leaves the request's. */
static void merge_ask(peal_request *to, const peal_request *ask)
{
    to->algorithm = ask->algorithm;
    to->channels = ask->channels ? ask->channels : to->channels;
    to->gateways = ask->gateways ? ask->gateways : to->gateways;
    to->tile_bytes = ask->tile_bytes ? ask->tile_bytes : to->tile_bytes;
    to->incast = ask->incast ? ask->incast : to->incast;
    to->depth = ask->depth ? ask->depth : to->depth;
    to->max_sms = ask->max_sms ? ask->max_sms : to->max_sms;
    to->zero_sm = ask->zero_sm ? ask->zero_sm : to->zero_sm;
    to->wire = ask->wire ? ask->wire : to->wire;
    to->levels = ask->levels;
    to->inner = ask->inner;
    to->outer = ask->outer;
    for (uint32_t c = 0; c < PEAL_LINK_CLASS_COUNT; c++)
        to->move_engine[c] = ask->move_engine[c] ? ask->move_engine[c] : to->move_engine[c];
}

static peal_status enumerate_asked(struct planner *planner, const peal_request *ask,
                                   peal_diag *diag)
{
    peal_request merged = planner->request;
    enum algorithm algorithm = planner->algorithm;
    uint32_t levels = planner->levels, inner = planner->inner, outer = planner->outer;
    merge_ask(&merged, ask);
    PEAL_TRY(read_request(planner, &merged, diag));
    if (!ask->algorithm)
        planner->algorithm = algorithm;
    planner->levels = ask->levels ? planner->levels : levels;
    planner->inner = ask->inner ? planner->inner : inner;
    planner->outer = ask->outer ? planner->outer : outer;
    PEAL_TRY(check_engines(planner, diag));
    return enumerate(planner, diag);
}

peal_status peal_select_ask(struct planner *planner, const peal_request *ask, peal_diag *diag,
                            uint32_t *first_out, uint32_t *count_out)
{
    peal_request request = planner->request;
    enum algorithm algorithm = planner->algorithm;
    uint32_t levels = planner->levels, inner = planner->inner, outer = planner->outer;
    *first_out = planner->count;
    peal_status status = enumerate_asked(planner, ask, diag);
    *count_out = planner->count - *first_out;
    planner->request = request;
    planner->algorithm = algorithm;
    planner->levels = levels;
    planner->inner = inner;
    planner->outer = outer;
    return status;
}

/* A table ends where the algorithm that was asked for does. */
static peal_status clip_range(struct planner *planner, peal_diag *diag)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < planner->count; i++)
        if (planner->candidates[i].max_bytes > most)
            most = planner->candidates[i].max_bytes;
    if (planner->request.min_bytes > most)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "%s serves at most %llu bytes",
                         peal_candidate_name(planner, &planner->candidates[0]),
                         (unsigned long long)most);
    if (planner->request.max_bytes > most)
        planner->request.max_bytes = most;
    return PEAL_OK;
}

static uint32_t choose_rows(struct planner *planner, uint64_t *ends)
{
    uint32_t count = 0;
    uint64_t from = planner->request.min_bytes;
    for (;;) {
        uint32_t index = pick_simplest(planner, from);
        uint64_t to = count + 1 == ROWS_MAX
                          ? planner->request.max_bytes
                          : row_end(planner, index, from, planner->request.max_bytes);
        planner->chosen[count] = index;
        ends[count++] = to;
        if (to >= planner->request.max_bytes)
            return count;
        from = to + 1;
    }
}

static peal_status make_rows(struct planner *planner, peal_diag *diag, peal_table **table_out)
{
    uint64_t ends[ROWS_MAX];
    uint32_t count = 0;
    peal_table *table;
    if (planner->policy)
        PEAL_TRY(peal_policy_rows(planner, ends, &count, diag));
    else
        count = choose_rows(planner, ends);
    if (peal_table_create(planner->ctx, count, &table) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    table->nranks = planner->group.n;
    for (uint32_t i = 0; i < count; i++)
        describe(planner, planner->chosen[i], i ? ends[i - 1] + 1 : planner->request.min_bytes,
                 ends[i], &table->rows[i].info);
    *table_out = table;
    return PEAL_OK;
}

static peal_status plan(struct planner *planner, const peal_request *request,
                        const peal_policy *policy, peal_diag *diag, peal_table **table_out)
{
    peal_fabric_info info = {.size = sizeof info};
    PEAL_TRY(peal_fabric_get(planner->fabric, &info));
    planner->digest = info.digest;
    const struct topo_memory *memory = peal_topo_memory(planner->fabric);
    if (memory)
        planner->memory = *memory;
    PEAL_TRY(read_request(planner, request, diag));
    PEAL_TRY(check_ends(planner, diag));
    PEAL_TRY(
        peal_group_init(&planner->group, planner->ctx, planner->fabric, &planner->request, diag));
    PEAL_TRY(peal_planner_pairs(planner, diag));
    PEAL_TRY(peal_planner_script(planner, diag));
    /* The caller's; copied, or of no use to a table. */
    planner->request.policy = NULL;
    planner->request.group = planner->request.siblings = planner->request.pairs = NULL;
    PEAL_TRY(check_engines(planner, diag));
    if ((planner->request.collective == PEAL_SENDRECV &&
         peal_planner_pairs_bound(planner) != PEAL_OK) ||
        peal_load_init(&planner->load, planner->ctx, planner->fabric) != PEAL_OK ||
        peal_load_init(&planner->total, planner->ctx, planner->fabric) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    PEAL_TRY(enumerate(planner, diag));
    if (policy) {
        PEAL_TRY(peal_policy_begin(planner, policy, diag));
        PEAL_TRY(peal_policy_candidates(planner, diag));
    }
    PEAL_TRY(clip_range(planner, diag));
    if (planner->request.deterministic && planner->group.n > 1 &&
        peal_plan_collective(planner->request.collective)->reduces)
        PEAL_TRY(peal_planner_one_order(planner, diag));
    if (policy)
        PEAL_TRY(peal_policy_costs(planner, diag));
    PEAL_TRY(make_rows(planner, diag, table_out));
    peal_policy_end(planner);
    return PEAL_OK;
}

/* *failed: it is the policy's fault. */
static peal_status plan_with(peal_ctx *ctx, const peal_fabric *fabric, const peal_request *request,
                             const peal_policy *policy, int *failed, peal_diag *diag,
                             peal_table **table_out)
{
    struct planner *planner = peal_calloc(ctx, 1, sizeof *planner);
    if (!planner)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    planner->ctx = ctx;
    planner->fabric = fabric;
    peal_table *table = NULL;
    peal_status status = plan(planner, request, policy, diag, &table);
    if (status != PEAL_OK) {
        *failed = planner->policy && planner->policy->failed;
        planner_free(ctx, planner);
        return status;
    }
    table->planner = planner;
    table->planner_free = planner_free;
    planner->fabric = NULL;
    *table_out = table;
    return PEAL_OK;
}

peal_status peal_table_plan(peal_ctx *ctx, const peal_fabric *fabric, const peal_request *request,
                            peal_diag *diag, peal_table **table_out)
{
    peal_request wanted;
    int failed = 0;
    if (!ctx || !fabric || !request || !table_out)
        return peal_fail(diag, PEAL_ERR_ARG, "an argument is missing");
    if (peal_import(&wanted, sizeof wanted, request) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "request of an unknown version");
    peal_status status = plan_with(ctx, fabric, request, wanted.policy, &failed, diag, table_out);
    if (status == PEAL_OK || !failed || !wanted.policy_fallback)
        return status;
    return plan_with(ctx, fabric, request, NULL, &failed, NULL, table_out);
}

/* ---- for policies ----------------------------------------------------------------------- */

int peal_select_fits(const struct planner *planner, uint32_t index, uint64_t bytes)
{
    return fits(planner, &planner->candidates[index], bytes);
}

uint32_t peal_select_best(const struct planner *planner, uint64_t bytes)
{
    return pick_simplest(planner, bytes);
}

double peal_select_price(const struct planner *planner, uint32_t index, uint64_t bytes)
{
    return price_of(planner, index, bytes);
}

uint64_t peal_select_end(const struct planner *planner, uint32_t index, uint64_t from, uint64_t to)
{
    return row_end(planner, index, from, to);
}

void peal_select_describe(const struct planner *planner, uint32_t index, uint64_t min_bytes,
                          uint64_t max_bytes, peal_row_info *info)
{
    describe(planner, index, min_bytes, max_bytes, info);
}

/* ---- what a planned table can still tell and do ---------------------------------------- */

peal_status peal_table_predict(const peal_table *table, uint32_t row, uint64_t bytes,
                               peal_row_info *info)
{
    peal_row_info found;
    if (!table || !info || row >= table->nrows || !table->planner)
        return PEAL_ERR_ARG;
    const struct planner *planner = table->planner;
    if (bytes > planner->candidates[planner->chosen[row]].max_bytes)
        return PEAL_ERR_RANGE;
    describe(planner, planner->chosen[row], bytes, bytes, &found);
    return peal_export(info, &found, sizeof found);
}

/* Of the prices, the place of the nth from below, the first of equal ones first. */
static uint32_t nth_price(const double *price, uint32_t count, uint32_t nth)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t better = 0;
        for (uint32_t k = 0; k < count && better <= nth; k++)
            better += price[k] < price[i] || (price[k] <= price[i] && k < i);
        if (better == nth)
            return i;
    }
    return count;
}

peal_status peal_table_candidate(const peal_table *table, uint32_t row, uint32_t index,
                                 peal_row_info *info)
{
    if (!table || !info || row >= table->nrows || !table->planner)
        return PEAL_ERR_ARG;
    const struct planner *planner = table->planner;
    uint64_t bytes = table->rows[row].info.max_bytes;
    if (index >= planner->count)
        return PEAL_ERR_ARG;
    size_t room = planner->count * sizeof(double);
    double *price = peal_alloc(planner->ctx, room);
    if (!price)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < planner->count; i++)
        price[i] = price_of(planner, i, bytes);
    uint32_t found_at = nth_price(price, planner->count, index);
    peal_free(planner->ctx, price, room);
    if (found_at == planner->count)
        return PEAL_ERR_INTERNAL;
    peal_row_info found;
    describe(planner, found_at, bytes, bytes, &found);
    return peal_export(info, &found, sizeof found);
}

static uint32_t chosen_for(const peal_table *table, uint64_t bytes)
{
    const struct planner *planner = table->planner;
    for (uint32_t i = 0; i < table->nrows; i++)
        if (bytes >= table->rows[i].info.min_bytes && bytes <= table->rows[i].info.max_bytes)
            return planner->chosen[i];
    return UINT32_MAX;
}

static uint32_t best_of(const struct planner *planner, const char *algorithm, uint64_t bytes)
{
    struct pick best = {UINT32_MAX, 0};
    for (uint32_t i = 0; i < planner->count; i++) {
        const struct candidate *candidate = &planner->candidates[i];
        if (!peal_streq(peal_algo_get(candidate->algo)->name, algorithm) ||
            !fits(planner, candidate, bytes))
            continue;
        double price = price_of(planner, i, bytes);
        if (best.index == UINT32_MAX || price < best.price)
            best = (struct pick){i, price};
    }
    return best.index;
}

peal_status peal_table_best(const peal_table *table, const char *algorithm, uint64_t bytes,
                            peal_row_info *info)
{
    peal_row_info found;
    if (!table || !info || !bytes || !table->planner)
        return PEAL_ERR_ARG;
    uint32_t index =
        algorithm ? best_of(table->planner, algorithm, bytes) : chosen_for(table, bytes);
    if (index == UINT32_MAX)
        return PEAL_ERR_RANGE;
    describe(table->planner, index, bytes, bytes, &found);
    return peal_export(info, &found, sizeof found);
}

/* What the programs hold and use, which the candidate could only foretell. */
static peal_status note_compiled(const struct planner *planner, struct table_row *row,
                                 peal_diag *diag)
{
    peal_row_info info;
    const peal_request *request = &planner->request;
    peal_plan_describe(row->plan, &info);
    if (planner->group.accelerators && (info.sms > (request->zero_sm   ? 0
                                                    : request->max_sms ? request->max_sms
                                                                       : UINT32_MAX)))
        return peal_fail(diag, PEAL_ERR_INTERNAL, "%s holds %u SMs, more than was asked for",
                         row->info.algorithm, info.sms);
    row->info.scratch_bytes = info.scratch_bytes;
    row->info.sms = row->info.sms ? info.sms : 0;
    row->info.tile_bytes = info.tile_bytes;
    row->info.net_messages = info.net_messages;
    row->info.net_message_bytes = info.net_message_bytes;
    memcpy(row->info.move_engines, info.move_engines, sizeof info.move_engines);
    return PEAL_OK;
}

/* Programs of all ranks are not made where they would not fit; some ranks are looked at first, for
 * most are alike. */
static peal_status check_whole(const peal_table *table, uint32_t row, const peal_fabric *fabric,
                               peal_diag *diag)
{
    uint32_t n = table->nranks;
    const uint32_t sample[] = {0, n / 2, n - 1};
    struct emission *emission;
    uint64_t most = 0;
    if (n <= FEW_RANKS)
        return PEAL_OK;
    PEAL_TRY(peal_emission_of_row(table, row, fabric, diag, &emission));
    const struct plan_source *source = peal_emission_source(emission);
    peal_status status = PEAL_OK;
    for (size_t i = 0; status == PEAL_OK && i < sizeof sample / sizeof sample[0]; i++) {
        const struct plan_slice *slice;
        status = source->read(source->user, sample[i], &slice);
        uint64_t bytes = status == PEAL_OK ? peal_plan_slice_bytes(slice) : 0;
        most = bytes > most ? bytes : most;
    }
    peal_emission_end(emission);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "row %u cannot be built: %s", row, peal_status_text(status));
    if (n <= PEAL_WHOLE_RANKS && most <= PEAL_WHOLE_BYTES / n)
        return PEAL_OK;
    return peal_fail(diag, PEAL_ERR_LIMIT,
                     "row %u: the programs of %u ranks, of up to %llu bytes each, are not made "
                     "all at once; one rank's are",
                     row, n, (unsigned long long)most);
}

static peal_status lower_rows(peal_table *table, const struct planner *planner, peal_diag *diag)
{
    for (uint32_t i = 0; i < table->nrows; i++) {
        struct table_row *row = &table->rows[i];
        if (row->plan)
            continue;
        PEAL_TRY(check_whole(table, i, planner->fabric, diag));
        PEAL_TRY(peal_lower(planner, &planner->candidates[planner->chosen[i]], row->info.min_bytes,
                            row->info.max_bytes, diag, &row->plan));
        PEAL_TRY(note_compiled(planner, row, diag));
    }
    return PEAL_OK;
}

static peal_status check_fabric(const struct planner *planner, const peal_fabric *fabric,
                                peal_diag *diag)
{
    peal_fabric_info info = {.size = sizeof info};
    PEAL_TRY(peal_fabric_get(fabric, &info));
    if (info.digest != planner->digest)
        return peal_fail(diag, PEAL_ERR_ARG, "the table was planned on another fabric");
    return PEAL_OK;
}

peal_status peal_emission_of_row(const peal_table *table, uint32_t row, const peal_fabric *fabric,
                                 peal_diag *diag, struct emission **emission_out)
{
    const struct planner *planner = table->planner;
    if (!planner || row >= table->nrows)
        return peal_fail(diag, PEAL_ERR_ARG, "only rows of a planned table can be compiled");
    PEAL_TRY(check_fabric(planner, fabric, diag));
    const peal_row_info *info = &table->rows[row].info;
    return peal_emission_begin(planner, fabric, &planner->candidates[planner->chosen[row]],
                               info->min_bytes, info->max_bytes, diag, emission_out);
}

peal_status peal_table_check_order(const peal_table *table, peal_diag *diag)
{
    const struct planner *planner = table->planner;
    if (!planner->request.deterministic)
        return PEAL_OK;
    for (uint32_t i = 0; i < table->nrows; i++) {
        const peal_row_info *info = &table->rows[i].info;
        if (!info->order && table->nranks > 1 && peal_plan_collective(info->collective)->reduces)
            return peal_fail(diag, PEAL_ERR_UNPROVEN,
                             "row %u does not reduce every element in one order", i);
        if (info->order != table->rows[0].info.order)
            return peal_fail(diag, PEAL_ERR_UNPROVEN,
                             "rows 0 and %u do not reduce in the same order", i);
    }
    return PEAL_OK;
}

peal_status peal_table_lower(peal_table *table, const peal_fabric *fabric, peal_diag *diag)
{
    if (!table || !fabric || !table->planner)
        return peal_fail(diag, PEAL_ERR_ARG, "only a planned table can be compiled");
    struct planner *planner = table->planner;
    PEAL_TRY(check_fabric(planner, fabric, diag));
    planner->fabric = fabric;
    planner->group.fabric = fabric;
    peal_status status = lower_rows(table, planner, diag);
    planner->fabric = NULL;
    planner->group.fabric = NULL;
    return status;
}

peal_status peal_table_compile(peal_table *table, const peal_fabric *fabric, peal_diag *diag)
{
    PEAL_TRY(peal_table_lower(table, fabric, diag));
    PEAL_TRY(peal_table_verify(table, NULL, NULL, NULL, diag));
    return peal_table_check_order(table, diag);
}
