/* SPDX-License-Identifier: Apache-2.0 */
/* What each split of a model has to bring together again, call by call, and what that comes to. */
#include "estimate.h"

/* ---- axes */

static struct estimate_group group_of(const peal_estimate *e, uint32_t size, uint32_t stride)
{
    return (struct estimate_group){.ranks = e->info.ranks, .size = size, .stride = stride};
}

struct estimate_group peal_estimate_dp(const peal_estimate *e)
{
    return group_of(e, peal_estimate_data(&e->params), e->params.tp);
}

struct estimate_group peal_estimate_edp(const peal_estimate *e)
{
    return group_of(e, peal_estimate_data(&e->params) / e->params.ep, e->params.tp * e->params.ep);
}

/* What reaches beyond compute that is there to hide it. */
static double beyond(double us, double beside_us)
{
    return us > beside_us ? us - beside_us : 0;
}

static peal_status add(peal_estimate *e, const peal_fabric *fabric, struct estimate_group group,
                       const peal_estimate_axis *call, peal_diag *diag)
{
    peal_estimate_axis *axis = &e->axis[e->info.axes];
    if (group.size < 2 || !call->calls || !call->bytes)
        return PEAL_OK;
    *axis = *call;
    PEAL_TRY(peal_estimate_plan(e, fabric, &group, axis, diag));
    axis->exposed_us = (double)axis->calls * beyond(axis->call_us, axis->beside_us);
    e->info.axes++;
    return PEAL_OK;
}

/* After attention and after the MLP, forward and backward. With sequence parallelism each of the
 * four is an allgather before and a reduce-scatter behind. */
static peal_status add_tensor(peal_estimate *e, const peal_fabric *fabric, peal_diag *diag)
{
    struct estimate_group group = group_of(e, e->params.tp, 1);
    peal_estimate_axis call = {.axis = "tp", .collective = PEAL_ALLREDUCE};
    call.calls = 4 * peal_estimate_layers(e->model.layers, e->params.pp) * e->model.micro_batches;
    call.bytes = peal_estimate_activation(&e->model) / peal_estimate_parts(&e->params);
    if (e->params.sp == 1)
        return add(e, fabric, group, &call, diag);
    call.axis = "sp";
    call.collective = PEAL_ALLGATHER;
    PEAL_TRY(add(e, fabric, group, &call, diag));
    call.collective = PEAL_REDUCE_SCATTER;
    return add(e, fabric, group, &call, diag);
}

/* Attention looks at a whole sequence: keys and values of all parts are gathered before it, and in
 * the backward pass their gradients are added up and scattered. */
static peal_status add_gathering(peal_estimate *e, const peal_fabric *fabric,
                                 struct estimate_group group, peal_estimate_axis call,
                                 peal_diag *diag)
{
    call.collective = PEAL_ALLGATHER;
    PEAL_TRY(add(e, fabric, group, &call, diag));
    call.collective = PEAL_REDUCE_SCATTER;
    return add(e, fabric, group, &call, diag);
}

/* Ring attention (Liu, Zaharia, Abbeel 2023): each part hands the block of keys and values on that
 * it attends to, and gets the next one meanwhile. In the backward pass, which computes twice as
 * much, a block's gradients go along; when they have been everywhere they are one hop from home. */
static peal_status add_ring(peal_estimate *e, const peal_fabric *fabric,
                            struct estimate_group group, peal_estimate_axis call, peal_diag *diag)
{
    uint64_t layers = call.calls, block = call.bytes / group.size;
    group.ring = 1;
    call.collective = PEAL_SENDRECV;
    call.calls = layers * (group.size - 1);
    call.bytes = block;
    call.beside_us = peal_estimate_attention_us(&e->model, &e->params);
    PEAL_TRY(add(e, fabric, group, &call, diag));
    call.bytes = 2 * block;
    call.beside_us *= 2;
    PEAL_TRY(add(e, fabric, group, &call, diag));
    call.calls = layers;
    call.bytes = block;
    call.beside_us = 0;
    return add(e, fabric, group, &call, diag);
}

/* The form that is asked for, and what the other one would take. */
static peal_status add_context(peal_estimate *e, const peal_fabric *fabric, peal_diag *diag)
{
    struct estimate_group group = group_of(e, peal_estimate_parts(&e->params), e->params.tp);
    peal_estimate_axis call = {.axis = "cp"};
    uint64_t tokens = (uint64_t)(e->model.batch / e->model.micro_batches) * e->model.sequence;
    int ring = e->params.context_ring != 0;
    call.calls = peal_estimate_layers(e->model.layers, e->params.pp) * e->model.micro_batches;
    call.bytes = 2 * tokens * e->model.kv_hidden * e->model.act_bytes / e->params.tp;
    for (int other = 0; other < 2; other++) {
        call.alternative = other;
        PEAL_TRY((ring != other ? add_ring : add_gathering)(e, fabric, group, call, diag));
    }
    return PEAL_OK;
}

/* To the experts and back, forward and backward: tokens x top-k x hidden. */
static peal_status add_experts(peal_estimate *e, const peal_fabric *fabric, peal_diag *diag)
{
    peal_estimate_axis call = {.axis = "ep", .collective = PEAL_ALLTOALL};
    call.calls =
        4 * peal_estimate_layers(e->model.moe_layers, e->params.pp) * e->model.micro_batches;
    call.bytes = peal_estimate_activation(&e->model) * e->model.top_k / e->params.sp;
    return add(e, fabric, group_of(e, e->params.ep, e->params.tp), &call, diag);
}

/* Forward and backward, every micro-batch; the last one has pp - 2 further stages to pass. */
static peal_status add_pipeline(peal_estimate *e, const peal_fabric *fabric, peal_diag *diag)
{
    peal_estimate_axis call = {.axis = "pp", .collective = PEAL_SENDRECV};
    call.calls = 2 * ((uint64_t)e->model.micro_batches + e->params.pp - 2);
    call.bytes = peal_estimate_activation(&e->model) / e->params.sp;
    return add(e, fabric, group_of(e, e->params.pp, e->params.tp * peal_estimate_data(&e->params)),
               &call, diag);
}

/* Gradients, and with ZeRO the parameters that the ranks have shares of. */
static peal_status add_gradient(peal_estimate *e, const peal_fabric *fabric,
                                struct estimate_group group, const char *name, uint64_t bytes,
                                peal_diag *diag)
{
    peal_estimate_axis call = {.axis = name, .calls = 1, .bytes = bytes};
    call.collective = e->params.zero ? PEAL_REDUCE_SCATTER : PEAL_ALLREDUCE;
    PEAL_TRY(add(e, fabric, group, &call, diag));
    if (!e->params.zero)
        return PEAL_OK;
    call.collective = PEAL_ALLGATHER;
    call.calls = e->params.zero == 3 ? 2 : 1; /* before the forward, and the backward pass */
    call.bytes = bytes / e->model.grad_bytes * e->model.act_bytes;
    return add(e, fabric, group, &call, diag);
}

static peal_status add_training(peal_estimate *e, const peal_fabric *fabric, peal_diag *diag)
{
    PEAL_TRY(add_tensor(e, fabric, diag));
    PEAL_TRY(add_context(e, fabric, diag));
    PEAL_TRY(add_experts(e, fabric, diag));
    PEAL_TRY(add_pipeline(e, fabric, diag));
    PEAL_TRY(add_gradient(e, fabric, peal_estimate_dp(e), "dp",
                          peal_estimate_dense_bytes(&e->model, &e->params), diag));
    return add_gradient(e, fabric, peal_estimate_edp(e), "edp",
                        peal_estimate_expert_bytes(&e->model, &e->params), diag);
}

/* One token of each sequence, through all layers and stages, one behind the other. */
static peal_status add_decoding(peal_estimate *e, const peal_fabric *fabric, peal_diag *diag)
{
    peal_estimate_axis call = {.axis = "tp", .decode = 1, .collective = PEAL_ALLREDUCE};
    uint64_t bytes = (uint64_t)e->params.decode_batch * e->model.hidden * e->model.act_bytes;
    call.calls = 2 * (uint64_t)e->model.layers;
    call.bytes = bytes;
    PEAL_TRY(add(e, fabric, group_of(e, e->params.tp, 1), &call, diag));
    call.axis = "ep";
    call.collective = PEAL_ALLTOALL;
    call.calls = 2 * (uint64_t)e->model.moe_layers;
    call.bytes = bytes * e->model.top_k;
    PEAL_TRY(add(e, fabric, group_of(e, e->params.ep, e->params.tp), &call, diag));
    call.axis = "pp";
    call.collective = PEAL_SENDRECV;
    call.calls = e->params.pp - 1;
    call.bytes = bytes;
    return add(e, fabric, group_of(e, e->params.pp, e->params.tp * peal_estimate_data(&e->params)),
               &call, diag);
}

/* ---- sums */

static int is_data(const peal_estimate_axis *axis)
{
    return peal_streq(axis->axis, "dp") || peal_streq(axis->axis, "edp");
}

static void add_up(peal_estimate *e)
{
    peal_estimate_info *info = &e->info;
    double text_model = 0, text_dp = 0;
    for (uint32_t i = 0; i < info->axes; i++) {
        peal_estimate_axis *axis = &e->axis[i];
        double text = (double)axis->calls * beyond(axis->text_us, axis->beside_us);
        if (axis->alternative)
            continue;
        if (axis->decode) {
            info->decode_us += axis->total_us;
            info->decode_alpha_us += (double)axis->calls * axis->alpha_us;
        } else if (is_data(axis)) {
            info->dp_us += axis->total_us;
            axis->exposed_us = (1 - e->params.overlap) * axis->total_us;
            text_dp += text;
        } else {
            info->model_us += axis->exposed_us;
            text_model += text;
        }
    }
    double base = info->compute_us + info->bubble_us;
    info->overlap = e->params.overlap;
    info->serial_us = base + info->model_us + info->dp_us;
    info->overlap_us = base + info->model_us + (1 - info->overlap) * info->dp_us;
    info->text_serial_us = base + text_model + text_dp;
    info->text_overlap_us = base + text_model + (1 - info->overlap) * text_dp;
}

/* Two thirds of compute are the backward pass, and half of what tp, sp, cp and ep do. */
static double backward_us(const peal_estimate *e)
{
    double us = 2 * e->info.compute_us / 3;
    for (uint32_t i = 0; i < e->info.axes; i++)
        if (!e->axis[i].decode && !e->axis[i].alternative && !is_data(&e->axis[i]) &&
            !peal_streq(e->axis[i].axis, "pp"))
            us += e->axis[i].exposed_us / 2;
    return us / e->model.micro_batches;
}

static double gathers_us(const peal_estimate *e)
{
    double us = 0;
    for (uint32_t i = 0; i < e->info.axes; i++)
        if (is_data(&e->axis[i]) && e->axis[i].collective == PEAL_ALLGATHER)
            us += e->axis[i].exposed_us;
    return us;
}

static peal_status estimate(peal_estimate *e, const peal_fabric *fabric, peal_diag *diag)
{
    peal_estimate_info *info = &e->info;
    info->size = sizeof *info;
    info->dp = e->params.dp;
    info->ranks = e->params.tp * peal_estimate_data(&e->params) * e->params.pp;
    info->compute_us = peal_estimate_compute_us(&e->model, &e->params);
    info->bubble_us = info->compute_us * (e->params.pp - 1) / e->model.micro_batches;
    PEAL_TRY(add_training(e, fabric, diag));
    PEAL_TRY(add_decoding(e, fabric, diag));
    add_up(e);
    info->backward_us = backward_us(e);
    PEAL_TRY(peal_estimate_buckets(e, fabric, diag));
    info->bucketed_us =
        info->compute_us + info->bubble_us + info->model_us + info->exposed_us + gathers_us(e);
    return PEAL_OK;
}

/* ---- peal.h */

peal_status peal_estimate_create(peal_ctx *ctx, const peal_fabric *fabric, const peal_model *model,
                                 const peal_estimate_params *params, peal_diag *diag,
                                 peal_estimate **estimate_out)
{
    peal_fabric_info about = {.size = sizeof about};
    if (!ctx || !fabric || !model || !params || !estimate_out)
        return peal_fail(diag, PEAL_ERR_ARG, "an argument is missing");
    PEAL_TRY(peal_fabric_get(fabric, &about));
    peal_estimate *e = peal_calloc(ctx, 1, sizeof *e);
    if (!e)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    e->ctx = ctx;
    peal_status status = peal_import(&e->model, sizeof e->model, model);
    if (status == PEAL_OK)
        status = peal_import(&e->params, sizeof e->params, params);
    if (status != PEAL_OK)
        (void)peal_fail(diag, status, "a parameter is of a later version");
    if (status == PEAL_OK)
        status = peal_estimate_fill(&e->model, &e->params, about.ranks, diag);
    if (status == PEAL_OK)
        status = estimate(e, fabric, diag);
    e->params.algorithm = NULL; /* the caller's, as these */
    e->params.policy = NULL;
    e->params.script = NULL;
    if (status == PEAL_OK)
        *estimate_out = e;
    else
        peal_estimate_destroy(e);
    return status;
}

void peal_estimate_destroy(peal_estimate *e)
{
    if (e)
        peal_free(e->ctx, e, sizeof *e);
}

peal_status peal_estimate_get(const peal_estimate *e, peal_estimate_info *info)
{
    return e && info ? peal_export(info, &e->info, sizeof e->info) : PEAL_ERR_ARG;
}

peal_status peal_estimate_axis_get(const peal_estimate *e, uint32_t index, peal_estimate_axis *info)
{
    if (!e || !info || index >= e->info.axes)
        return PEAL_ERR_ARG;
    return peal_export(info, &e->axis[index], sizeof e->axis[index]);
}

peal_status peal_estimate_bucket_get(const peal_estimate *e, uint32_t index,
                                     peal_estimate_bucket *info)
{
    if (!e || !info || index >= e->info.buckets)
        return PEAL_ERR_ARG;
    return peal_export(info, &e->bucket[index], sizeof e->bucket[index]);
}
