/* SPDX-License-Identifier: Apache-2.0 */
/* One collective of one axis: all groups of the axis at once, planned as one request. */
#include "estimate.h"

#include <string.h>

uint32_t peal_estimate_member(const struct estimate_group *group, uint32_t number, uint32_t place)
{
    uint32_t inside = number % group->stride, block = number / group->stride;
    return inside + (block * group->size + place) * group->stride;
}

/* The group's ranks, and behind them its siblings'. */
static void list_ranks(const struct estimate_group *group, uint32_t *list)
{
    for (uint32_t g = 0; g < group->ranks / group->size; g++)
        for (uint32_t i = 0; i < group->size; i++)
            *list++ = peal_estimate_member(group, g, i);
}

/* Every stage to the next; a token of decoding is at one stage at a time. Around a ring the last
 * one has a next, too. */
static uint32_t list_pairs(const struct estimate_group *group, int decode, uint32_t *pairs)
{
    uint32_t count = decode ? 1 : group->ring ? group->size : group->size - 1;
    for (uint32_t i = 0; i < count; i++) {
        pairs[2 * i] = i;
        pairs[2 * i + 1] = (i + 1) % group->size;
    }
    return count;
}

/* ---- the plan */

static void take_row(const peal_row_info *row, peal_estimate_axis *axis)
{
    axis->call_us = row->time_us;
    /* Of plans whose start-ups overlap it is their sum. */
    axis->alpha_us = row->alpha_us < row->time_us ? row->alpha_us : row->time_us;
    axis->alone_us = row->time_alone_us;
    axis->latency_bound = row->latency_bound;
    peal_copy_text(axis->algorithm, sizeof axis->algorithm, row->algorithm);
    peal_copy_text(axis->detail, sizeof axis->detail, row->detail);
    peal_copy_text(axis->binding, sizeof axis->binding, row->binding);
}

/* With the caller's algorithm in Lua, if there is one for it. */
static peal_status plan_table(const peal_estimate *estimate, const peal_fabric *fabric,
                              peal_request *request, peal_diag *diag, peal_table **table_out)
{
    const peal_policy_text *text = estimate->params.script;
    peal_schedule *script = NULL;
    if (text && request->collective == PEAL_ALLREDUCE) {
        PEAL_TRY(peal_schedule_load(estimate->ctx, fabric, request, text->text, text->bytes,
                                    text->name, diag, &script));
        request->schedule = script;
        request->algorithm = peal_schedule_name(script);
    }
    peal_status status = peal_table_plan(estimate->ctx, fabric, request, diag, table_out);
    peal_schedule_destroy(script);
    return status;
}

static peal_status plan_one(const peal_estimate *estimate, const peal_fabric *fabric,
                            peal_request *request, peal_estimate_axis *axis, peal_diag *diag)
{
    peal_table *table;
    peal_row_info row = {.size = sizeof row};
    request->collective = axis->collective;
    request->min_bytes = request->max_bytes = axis->bytes;
    request->scratch_limit = estimate->params.scratch_limit;
    request->policy = estimate->params.policy;
    request->policy_fallback = estimate->params.policy_fallback;
    if (axis->collective == PEAL_ALLREDUCE) {
        request->algorithm = estimate->params.algorithm;
        request->channels = estimate->params.channels;
    }
    PEAL_TRY(plan_table(estimate, fabric, request, diag, &table));
    peal_status status = peal_table_row(table, 0, &row);
    peal_table_destroy(table);
    PEAL_TRY(status);
    take_row(&row, axis);
    return PEAL_OK;
}

static peal_status plan_group(const peal_estimate *estimate, const peal_fabric *fabric,
                              const struct estimate_group *group, peal_estimate_axis *axis,
                              peal_diag *diag)
{
    peal_request request = PEAL_REQUEST_INIT;
    size_t words = (size_t)group->ranks + 2 * (size_t)group->size;
    uint32_t *list = peal_calloc(estimate->ctx, words, sizeof *list);
    if (!list)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    list_ranks(group, list);
    request.group = list;
    request.ranks = request.group_size = group->size;
    request.nsiblings = group->ranks / group->size - 1;
    request.siblings = request.nsiblings ? list + group->size : NULL;
    if (axis->collective == PEAL_SENDRECV) {
        request.pairs = list + group->ranks;
        request.npairs = list_pairs(group, axis->decode, list + group->ranks);
    }
    peal_status status = plan_one(estimate, fabric, &request, axis, diag);
    peal_free(estimate->ctx, list, words * sizeof *list);
    return status;
}

/* ---- hops of the ring that a text book draws through the group */

static peal_status find_hop(const peal_fabric *fabric, const struct estimate_group *group,
                            peal_estimate_axis *axis)
{
    int line = axis->collective == PEAL_SENDRECV && !group->ring;
    uint32_t hops = line ? group->size - 1 : group->size;
    for (uint32_t i = 0; i < hops; i++) {
        peal_path_info path = {.size = sizeof path};
        PEAL_TRY(peal_fabric_path(fabric, peal_estimate_member(group, 0, i),
                                  peal_estimate_member(group, 0, (i + 1) % group->size), &path));
        if (i == 0 || path.alpha_us > axis->hop_alpha_us)
            axis->hop_alpha_us = path.alpha_us;
        if (i == 0 || path.beta_gbs < axis->hop_beta_gbs)
            axis->hop_beta_gbs = path.beta_gbs;
        if (i == 0 || path.link_class > axis->link_class)
            axis->link_class = path.link_class;
    }
    return PEAL_OK;
}

peal_status peal_estimate_plan(const peal_estimate *estimate, const peal_fabric *fabric,
                               const struct estimate_group *group, peal_estimate_axis *axis,
                               peal_diag *diag)
{
    axis->size = sizeof *axis;
    axis->ranks = group->size;
    axis->groups = group->ranks / group->size;
    axis->bytes = axis->bytes ? axis->bytes : 1;
    PEAL_TRY(plan_group(estimate, fabric, group, axis, diag));
    PEAL_TRY(find_hop(fabric, group, axis));
    axis->total_us = (double)axis->calls * axis->call_us;
    axis->text_us = peal_estimate_text_us(axis->collective, group->size, (double)axis->bytes,
                                          axis->hop_alpha_us, axis->hop_beta_gbs);
    return PEAL_OK;
}
