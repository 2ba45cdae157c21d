/* SPDX-License-Identifier: Apache-2.0 */
/* From a request to a table: candidates, their costs at each size, and the sizes at which another
 * candidate becomes better. */
#include "packed.h"
#include "select.h"

static void planner_free(peal_ctx *ctx, void *opaque)
{
    struct planner *planner = opaque;
    peal_load_free(&planner->load);
    peal_load_free(&planner->total);
    peal_group_free(&planner->group);
    peal_packed_forget(planner);
    peal_planner_forget_scripts(planner);
    peal_planner_forget_measured(planner);
    peal_policy_free(planner);
    peal_free(ctx, planner->pairs, 2 * (size_t)planner->npairs * sizeof *planner->pairs);
    peal_free(ctx, planner->candidates, planner->capacity * sizeof *planner->candidates);
    peal_free(ctx, planner, sizeof *planner);
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

static peal_status make_rows(struct planner *planner, peal_diag *diag, peal_table **table_out)
{
    uint64_t ends[ROWS_MAX];
    uint32_t count = 0;
    peal_table *table;
    if (planner->policy)
        PEAL_TRY(peal_policy_rows(planner, ends, &count, diag));
    else
        count = peal_select_rows(planner, ends);
    if (peal_table_create(planner->ctx, count, &table) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    table->nranks = planner->group.n;
    for (uint32_t i = 0; i < count; i++)
        peal_select_describe(planner, planner->chosen[i],
                             i ? ends[i - 1] + 1 : planner->request.min_bytes, ends[i],
                             &table->rows[i].info);
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
    PEAL_TRY(peal_select_request(planner, request, diag));
    PEAL_TRY(peal_select_check_ends(planner, diag));
    PEAL_TRY(
        peal_group_init(&planner->group, planner->ctx, planner->fabric, &planner->request, diag));
    PEAL_TRY(peal_planner_pairs(planner, diag));
    if (peal_planner_measured(planner, info.ranks) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    PEAL_TRY(peal_planner_script(planner, diag));
    /* The caller's; copied, or of no use to a table. */
    planner->request.policy = NULL;
    planner->request.group = planner->request.siblings = planner->request.pairs = NULL;
    PEAL_TRY(peal_select_check_engines(planner, diag));
    if ((planner->request.collective == PEAL_SENDRECV &&
         peal_planner_pairs_bound(planner) != PEAL_OK) ||
        peal_load_init(&planner->load, planner->ctx, planner->fabric) != PEAL_OK ||
        peal_load_init(&planner->total, planner->ctx, planner->fabric) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    PEAL_TRY(peal_select_enumerate(planner, diag));
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
