/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers a candidate to a plan: the endpoints, then every rank's program. */
#include "compiler.h"
#include "pack.h"

static void set_endpoint(const struct planner *planner, struct peal_plan *plan, uint32_t rank)
{
    peal_rank_info info = {.size = sizeof info};
    peal_nic_info nic = {.size = sizeof nic};
    struct plan_rank *to = &plan->ranks[rank];
    if (peal_fabric_rank(planner->fabric, rank, &info) != PEAL_OK)
        return;
    to->host = info.host;
    to->arch = info.arch;
    peal_copy_text(to->busid, sizeof to->busid, info.busid);
    if (info.nic >= 0 && peal_fabric_nic(planner->fabric, (uint32_t)info.nic, &nic) == PEAL_OK)
        peal_copy_text(to->nic, sizeof to->nic, nic.name);
}

/* One rank has all blocks: each collective copies its input, and a barrier has nothing to do. */
static void emit_alone(struct build *b)
{
    struct plan_operand in = peal_op_user(0, PLAN_BUF_IN, 0);
    struct plan_operand out = peal_op_user(0, PLAN_BUF_OUT, 0);
    b->plan->nchunks = 1;
    if (b->plan->collective == PEAL_BARRIER)
        return;
    peal_build_lane(b);
    peal_build_section(b, 1);
    peal_build_move(b, 0, 1, &in, 1, &out, PEAL_ENGINE_SM, 0);
}

static void emit_all(struct build *b, const struct candidate *candidate)
{
    const struct algo *algo = peal_algo_get(candidate->algo);
    if (b->plan->nranks == 1) {
        emit_alone(b);
        return;
    }
    algo->prepare(b, candidate);
    for (uint32_t r = 0; b->status == PEAL_OK && r < b->plan->nranks; r++) {
        b->self = r;
        algo->emit(b, candidate, r);
    }
}

/* Trees are packed again rather than kept with each candidate: the same ones come out. */
static void emit_with_trees(struct build *b, const struct candidate *candidate)
{
    struct pack_forest forest;
    struct group group = b->planner->group;
    int found = 0;
    if (candidate->algo != ALGO_PACKED || b->plan->nranks == 1) {
        emit_all(b, candidate);
        return;
    }
    b->status = peal_group_forest(&group, candidate->trees, &forest, &found);
    if (b->status != PEAL_OK || !found) {
        b->status = b->status == PEAL_OK ? PEAL_ERR_INTERNAL : b->status;
        return;
    }
    b->forest = &forest;
    emit_all(b, candidate);
    b->forest = NULL;
    peal_pack_forest_free(&forest);
}

static void set_header(const struct planner *planner, const struct candidate *candidate,
                       struct peal_plan *plan)
{
    struct cost cost;
    peal_candidate_cost(candidate, plan->max_bytes, &cost);
    plan->collective = planner->request.collective;
    plan->root = planner->request.root;
    plan->peer = planner->request.peer;
    plan->channels = candidate->channels;
    plan->time_ps = (uint64_t)(cost.time_us * 1e6 + 0.5);
    plan->bound_ps = (uint64_t)(peal_planner_bound(planner, plan->max_bytes) * 1e6 + 0.5);
    peal_copy_text(plan->algorithm, sizeof plan->algorithm, peal_algo_get(candidate->algo)->name);
    peal_algo_get(candidate->algo)->detail(candidate, plan->detail, sizeof plan->detail);
    plan->nchunks = candidate->chunks;
    plan->tile_bytes = 0;
    if (candidate->tile_bytes && peal_plan_tile_bound(plan) > candidate->tile_bytes)
        plan->tile_bytes = candidate->tile_bytes;
}

peal_status peal_lower(const struct planner *planner, const struct candidate *candidate,
                       uint64_t min_bytes, uint64_t max_bytes, peal_diag *diag,
                       struct peal_plan **plan_out)
{
    struct peal_plan *plan;
    if (peal_plan_create(planner->ctx, planner->group.n, &plan) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    plan->min_bytes = min_bytes;
    plan->max_bytes = max_bytes;
    set_header(planner, candidate, plan);
    for (uint32_t r = 0; r < plan->nranks; r++)
        set_endpoint(planner, plan, r);
    struct build b = {.planner = planner, .plan = plan};
    emit_with_trees(&b, candidate);
    peal_free(planner->ctx, b.links, b.link_buckets * sizeof(uint32_t));
    peal_status status = b.status;
    if (status != PEAL_OK)
        peal_fail(diag, status, "plan %s for %u ranks cannot be built: %s", plan->algorithm,
                  plan->nranks, peal_status_text(status));
    else
        status = peal_plan_seal(plan, diag);
    if (status != PEAL_OK) {
        peal_plan_destroy(plan);
        return status;
    }
    *plan_out = plan;
    return PEAL_OK;
}
