/* SPDX-License-Identifier: Apache-2.0 */
/* A candidate's plan as a source: what all ranks share, then one rank's program at a time. */
#include "compiler.h"
#include "packed.h"
#include "script.h"

#include <string.h>

struct emission {
    peal_ctx *ctx;
    struct planner planner; /* a copy with its fabric: emissions of one table know no other */
    const struct candidate *candidate;
    struct peal_plan *head;
    struct plan_slice slice;
    struct plan_source source;
    struct build build;
    struct build_hops hops;
    struct ring_orders rings;
    struct packed packed;
    struct script_program *script;
};

/* ---- the head ------------------------------------------------------------------ */

#define PICOSECONDS_MAX 1e18 /* below 2^63: what takes longer is not told apart */

static uint64_t picoseconds(double us)
{
    double ps = us * 1e6 + 0.5;
    return (uint64_t)(ps < PICOSECONDS_MAX ? ps : PICOSECONDS_MAX);
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
    plan->time_ps = picoseconds(cost.time_us);
    plan->bound_ps = picoseconds(peal_planner_bound(planner, plan->max_bytes));
    peal_copy_text(plan->algorithm, sizeof plan->algorithm,
                   peal_candidate_name(planner, candidate));
    peal_algo_get(candidate->algo)->detail(candidate, plan->detail, sizeof plan->detail);
    plan->nchunks = candidate->chunks;
}

/* Once the chunks have their weights. */
static void set_tile(const struct candidate *candidate, struct peal_plan *plan)
{
    plan->tile_bytes = 0;
    if (candidate->tile_bytes && peal_plan_tile_bound(plan) > candidate->tile_bytes)
        plan->tile_bytes = candidate->tile_bytes;
}

static peal_status make_shapes(struct emission *e)
{
    enum algorithm algo = e->candidate->algo;
    if (algo == ALGO_RING || algo == ALGO_NCCL_RING || algo == ALGO_CHAIN || algo == ALGO_SWING)
        PEAL_TRY(peal_ring_orders_make(&e->planner, algo, e->candidate->channels, &e->rings));
    e->build.rings = &e->rings;
    if (algo == ALGO_SCRIPT)
        PEAL_TRY(peal_script_lower(&e->planner, &e->script));
    e->build.script = e->script;
    return algo == ALGO_PACKED ? peal_packed_begin(&e->build, e->candidate, &e->packed) : PEAL_OK;
}

static peal_status prepare(struct emission *e)
{
    if (e->head->nranks == 1) {
        e->head->nchunks = peal_plan_blocks(e->head);
        return PEAL_OK;
    }
    PEAL_TRY(make_shapes(e));
    set_tile(e->candidate, e->head);
    peal_algo_get(e->candidate->algo)->prepare(&e->build, e->candidate);
    return e->build.status;
}

/* ---- one rank ------------------------------------------------------------------- */

static void set_endpoint(const struct planner *planner, uint32_t rank, struct plan_rank *to)
{
    peal_rank_info info = {.size = sizeof info};
    peal_nic_info nic = {.size = sizeof nic};
    to->host = to->arch = 0;
    to->busid[0] = to->nic[0] = '\0';
    if (peal_fabric_rank(planner->fabric, peal_group_rank(&planner->group, rank), &info) != PEAL_OK)
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
    if (b->plan->collective == PEAL_BARRIER)
        return;
    peal_build_lane(b);
    peal_build_section(b, 1);
    for (uint32_t c = 0; c < b->plan->nchunks; c++) {
        struct plan_operand in = peal_op_user(0, PLAN_BUF_IN, c);
        struct plan_operand out = peal_op_user(0, PLAN_BUF_OUT, c);
        peal_build_move(b, c, 1, &in, 1, &out, PEAL_ENGINE_SM, 0);
    }
}

static peal_status read_rank(void *user, uint32_t rank, const struct plan_slice **slice_out)
{
    struct emission *e = user;
    struct build *b = &e->build;
    if (rank >= e->head->nranks)
        return PEAL_ERR_ARG;
    peal_build_rank(b, rank);
    set_endpoint(b->planner, rank, &e->slice.program);
    if (e->head->nranks == 1)
        emit_alone(b);
    else
        peal_algo_get(e->candidate->algo)->emit(b, e->candidate, rank);
    if (b->status == PEAL_OK)
        *slice_out = &e->slice;
    return b->status;
}

/* ---- all of it -------------------------------------------------------------------- */

static peal_status begin(struct emission *e, uint64_t min_bytes, uint64_t max_bytes)
{
    PEAL_TRY(peal_plan_create_head(e->ctx, e->planner.group.n, &e->head));
    e->head->min_bytes = min_bytes;
    e->head->max_bytes = max_bytes;
    for (uint32_t i = 0; i < e->planner.npairs; i++)
        PEAL_TRY(peal_plan_add_pair(e->head, e->planner.pairs[2 * (size_t)i],
                                    e->planner.pairs[2 * (size_t)i + 1]));
    for (uint32_t i = 0; e->planner.script && i < e->planner.script->head->nblocks; i++) {
        const struct peal_block block = peal_plan_block(e->planner.script->head, i);
        PEAL_TRY(peal_plan_add_block(e->head, &block));
    }
    set_header(&e->planner, e->candidate, e->head);
    e->hops.from = NO_RANK;
    e->build = (struct build){.planner = &e->planner,
                              .plan = e->head,
                              .slice = &e->slice,
                              .hops = &e->hops,
                              .in_flight = BUILD_EVENTS};
    e->source = (struct plan_source){e->head, read_rank, e};
    PEAL_TRY(prepare(e));
    return peal_emission_origin(&e->planner, e->candidate, e->head);
}

peal_status peal_emission_begin(const struct planner *planner, const peal_fabric *fabric,
                                const struct candidate *candidate, uint64_t min_bytes,
                                uint64_t max_bytes, peal_diag *diag, struct emission **emission_out)
{
    struct emission *e = peal_calloc(planner->ctx, 1, sizeof *e);
    if (!e)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    e->ctx = planner->ctx;
    e->candidate = candidate;
    e->planner = *planner;
    e->planner.fabric = e->planner.group.fabric = fabric;
    e->planner.corner = candidate->corner;
    memcpy(e->planner.request.move_engine, candidate->move_engine, sizeof candidate->move_engine);
    peal_status status = begin(e, min_bytes, max_bytes);
    if (status != PEAL_OK) {
        peal_emission_end(e);
        return peal_fail(diag, status, "a plan %s for %u ranks cannot be built: %s",
                         peal_candidate_name(planner, candidate), planner->group.n,
                         peal_status_text(status));
    }
    *emission_out = e;
    return PEAL_OK;
}

const struct plan_source *peal_emission_source(const struct emission *emission)
{
    return &emission->source;
}

peal_status peal_emission_take(struct emission *e, uint32_t rank, struct peal_plan **plan_out)
{
    const struct plan_slice *slice;
    PEAL_TRY(read_rank(e, rank, &slice));
    return peal_plan_of_slice(e->head, rank, &e->slice, plan_out);
}

void peal_emission_end(struct emission *e)
{
    if (!e)
        return;
    peal_plan_slice_free(e->ctx, &e->slice);
    peal_plan_link_index_free(e->ctx, &e->build.links);
    peal_ring_orders_free(&e->rings);
    peal_packed_free(&e->packed);
    peal_script_program_free(e->script);
    peal_level_layout_free(e->build.layout);
    peal_plan_destroy(e->head);
    peal_free(e->ctx, e, sizeof *e);
}
