/* SPDX-License-Identifier: Apache-2.0 */
/* The candidates of a request, and those that a policy asks for besides. */
#include "select.h"

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
        if (peal_select_fits(planner, i, request->max_bytes) &&
            (!request->max_sms ||
             peal_select_sms(planner, &planner->candidates[i]) <= request->max_sms))
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
        uint32_t sms = peal_select_sms(planner, &planner->candidates[i]);
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

peal_status peal_select_enumerate(struct planner *planner, peal_diag *diag)
{
    uint32_t first = planner->count;
    peal_status status = enumerate_corners(planner);
    peal_planner_private(planner, first);
    peal_planner_go_by_measured(planner, first);
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

/* ---- what a policy asks for -------------------------------------------------------------------
 */

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
    PEAL_TRY(peal_select_request(planner, &merged, diag));
    if (!ask->algorithm)
        planner->algorithm = algorithm;
    planner->levels = ask->levels ? planner->levels : levels;
    planner->inner = ask->inner ? planner->inner : inner;
    planner->outer = ask->outer ? planner->outer : outer;
    PEAL_TRY(peal_select_check_engines(planner, diag));
    return peal_select_enumerate(planner, diag);
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
