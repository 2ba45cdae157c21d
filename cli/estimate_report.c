/* SPDX-License-Identifier: Apache-2.0 */
/* An estimate as peal.estimate/1. */
#include "cli_json.h"
#include "estimating.h"

static void json_model(json_t *root, const peal_model *model)
{
    json_t *object = json_child(root, "model");
    json_text(object, "name", model->name);
    json_count(object, "params", model->params);
    json_count(object, "layers", model->layers);
    json_count(object, "hidden", model->hidden);
    json_count(object, "sequence", model->sequence ? model->sequence : 4096);
    json_count(object, "batch", model->batch ? model->batch : 1);
    json_count(object, "micro_batches", model->micro_batches ? model->micro_batches : 1);
    json_count(object, "experts", model->experts);
    json_count(object, "top_k", model->top_k);
    json_count(object, "kv_hidden", model->kv_hidden ? model->kv_hidden : model->hidden);
}

static void json_split(json_t *root, const peal_estimate_params *params, uint32_t dp)
{
    json_t *object = json_child(root, "split");
    json_count(object, "tp", params->tp ? params->tp : 1);
    json_count(object, "dp", dp);
    json_count(object, "pp", params->pp ? params->pp : 1);
    json_count(object, "ep", params->ep ? params->ep : 1);
    json_count(object, "sp", params->sp ? params->sp : 1);
    json_text(object, "cp", params->context_ring ? "ring" : "gather");
    json_count(object, "zero", params->zero);
    json_text(object, "dp_gradient", params->full_gradient ? "full" : "sharded");
}

static void json_axes(json_t *root, const peal_estimate *estimate)
{
    json_t *list = json_list(root, "axes");
    peal_estimate_axis axis = {.size = sizeof axis};
    for (uint32_t i = 0; peal_estimate_axis_get(estimate, i, &axis) == PEAL_OK; i++) {
        json_t *item = json_item(list);
        json_text(item, "axis", axis.axis);
        json_text(item, "phase", axis.decode ? "decode" : "train");
        json_text(item, "collective", peal_collective_name(axis.collective));
        json_count(item, "ranks", axis.ranks);
        json_count(item, "groups", axis.groups);
        json_count(item, "calls", axis.calls);
        json_count(item, "bytes", axis.bytes);
        json_number(item, "call_us", axis.call_us);
        json_number(item, "alpha_us", axis.alpha_us);
        json_number(item, "alone_us", axis.alone_us);
        json_number(item, "total_us", axis.total_us);
        json_number(item, "exposed_us", axis.exposed_us);
        json_number(item, "beside_us", axis.beside_us);
        json_flag(item, "alternative", axis.alternative);
        json_number(item, "text_us", axis.text_us);
        json_number(item, "hop_alpha_us", axis.hop_alpha_us);
        json_number(item, "hop_beta_gbs", axis.hop_beta_gbs);
        json_text(item, "link_class", peal_link_class_name(axis.link_class));
        json_flag(item, "latency_bound", axis.latency_bound);
        json_text(item, "algorithm", axis.algorithm);
        json_text(item, "detail", axis.detail);
        json_text(item, "binding", axis.binding);
    }
}

static void json_sums(json_t *root, const peal_estimate_info *info)
{
    json_t *step = json_child(root, "step");
    json_number(step, "compute_us", info->compute_us);
    json_number(step, "bubble_us", info->bubble_us);
    json_number(step, "model_us", info->model_us);
    json_number(step, "dp_us", info->dp_us);
    json_number(step, "serial_us", info->serial_us);
    json_number(step, "overlap", info->overlap);
    json_number(step, "overlap_us", info->overlap_us);
    json_number(step, "backward_us", info->backward_us);
    json_number(step, "exposed_us", info->exposed_us);
    json_number(step, "bucketed_us", info->bucketed_us);
    json_number(step, "text_serial_us", info->text_serial_us);
    json_number(step, "text_overlap_us", info->text_overlap_us);
    json_t *token = json_child(root, "decode");
    json_number(token, "comm_us", info->decode_us);
    json_number(token, "alpha_us", info->decode_alpha_us);
}

static void json_buckets(json_t *root, const peal_estimate *estimate)
{
    json_t *list = json_list(root, "buckets");
    peal_estimate_bucket bucket = {.size = sizeof bucket};
    for (uint32_t i = 0; peal_estimate_bucket_get(estimate, i, &bucket) == PEAL_OK; i++) {
        json_t *item = json_item(list);
        json_count(item, "bytes", bucket.bytes);
        json_count(item, "count", bucket.count);
        json_number(item, "call_us", bucket.call_us);
        json_number(item, "alpha_us", bucket.alpha_us);
        json_number(item, "total_us", bucket.total_us);
        json_number(item, "first_share", bucket.first_share);
        json_number(item, "exposed_us", bucket.exposed_us);
        json_flag(item, "latency_bound", bucket.latency_bound);
        json_flag(item, "good", bucket.good);
        json_flag(item, "chosen", bucket.chosen);
    }
}

static void json_estimate(json_t *object, const peal_estimate *estimate)
{
    peal_estimate_info info = {.size = sizeof info};
    if (peal_estimate_get(estimate, &info) != PEAL_OK)
        return;
    json_axes(object, estimate);
    json_sums(object, &info);
    json_buckets(object, estimate);
}

static void json_scale(json_t *root, const struct estimating *of)
{
    json_t *list = json_list(root, "scale");
    for (uint32_t i = 0; i < of->scales; i++) {
        const struct scale_point *point = &of->point[i];
        json_t *item = json_item(list);
        double efficiency = of->point[0].step_us / point->step_us;
        json_count(item, "ranks", point->info.ranks);
        json_count(item, "dp", point->info.dp);
        json_number(item, "step_us", point->step_us);
        json_number(item, "throughput", efficiency * point->info.ranks / of->point[0].info.ranks);
        json_number(item, "efficiency", efficiency);
    }
}

void estimate_report(const struct cli *cli, const struct estimating *of,
                     const struct output *output)
{
    json_t *root = json_begin("peal.estimate/1");
    peal_estimate_info info = {.size = sizeof info};
    if (peal_estimate_get(of->as_is, &info) == PEAL_OK) {
        json_model(root, &of->model);
        json_count(root, "ranks", info.ranks);
        json_split(root, &of->params, info.dp);
    }
    json_estimate(root, of->as_is);
    if (of->swapped) {
        json_t *swapped = json_child(root, "swapped");
        json_text(swapped, "swap", cli->value[OPT_SWAP]);
        json_estimate(swapped, of->swapped);
    }
    if (of->scales)
        json_scale(root, of);
    json_end(root, output);
}
