/* SPDX-License-Identifier: Apache-2.0 */
/* Models by their numbers, and what a split leaves of them to one rank. */
#include "estimate.h"

/* Parameters, layers and widths as their makers publish them; sequences are those of training,
 * where stated. "70b" is the round model of the text-book figures. DeepSeek-V3's keys and values
 * are one latent of 576. */
#define MODEL(name, params, layers, hidden, sequence, kv) /* dense */                              \
    {                                                                                              \
        sizeof(peal_model), name, params, layers, hidden, sequence, 1, 1, 2, 2, 0, 0, 0, 0, kv     \
    }
static const peal_model presets[] = {
    MODEL("70b", 70000000000, 80, 8192, 4096, 0),
    MODEL("llama-2-7b", 6738415616, 32, 4096, 4096, 0),
    MODEL("llama-2-13b", 13016279168, 40, 5120, 4096, 0),
    MODEL("llama-3-8b", 8030261248, 32, 4096, 8192, 1024),
    MODEL("llama-3-70b", 70562938880, 80, 8192, 8192, 1024),
    MODEL("llama-3-405b", 405000000000, 126, 16384, 8192, 1024),
    {sizeof(peal_model), "mixtral-8x7b", 46700000000, 32, 4096, 32768, 1, 1, 2, 2, 8, 2, 32, 14336,
     1024},
    {sizeof(peal_model), "deepseek-v3", 671000000000, 61, 7168, 4096, 1, 1, 2, 2, 256, 8, 58, 2048,
     288},
};

peal_status peal_model_preset(uint32_t index, peal_model *model)
{
    if (!model || index >= sizeof presets / sizeof presets[0])
        return PEAL_ERR_ARG;
    return peal_export(model, &presets[index], sizeof presets[index]);
}

/* ---- what is meant by what is not said, and whether it fits */

static void set_default(uint32_t *field, uint32_t value)
{
    if (!*field)
        *field = value;
}

static void fill_model(peal_model *model)
{
    set_default(&model->sequence, 4096);
    set_default(&model->batch, 1);
    set_default(&model->micro_batches, 1);
    set_default(&model->act_bytes, 2);
    set_default(&model->grad_bytes, 2);
    set_default(&model->kv_hidden, model->hidden);
    if (!model->experts)
        return;
    set_default(&model->top_k, 2);
    set_default(&model->moe_layers, model->layers);
}

static peal_status check_model(const peal_model *model, peal_diag *diag)
{
    if (!model->params || !model->layers || !model->hidden)
        return peal_fail(diag, PEAL_ERR_ARG, "a model needs params, layers and hidden");
    if (model->params > 1000000000000000u || model->layers > 100000 || model->hidden > 1u << 24 ||
        model->sequence > 1u << 28 || model->batch > 1u << 20 || model->act_bytes > 8 ||
        model->grad_bytes > 8 || model->experts > 1u << 16 || model->expert_hidden > 1u << 24 ||
        model->kv_hidden > 1u << 24)
        return peal_fail(diag, PEAL_ERR_ARG, "a number of the model is beyond what models have");
    if ((double)model->batch * model->sequence * model->hidden * model->act_bytes *
            (model->experts ? model->top_k : 1) >
        1e15)
        return peal_fail(diag, PEAL_ERR_ARG, "an activation of more than 1e15 bytes");
    if (2.0 * model->batch * model->sequence * model->kv_hidden * model->act_bytes > 1e15)
        return peal_fail(diag, PEAL_ERR_ARG, "keys and values of more than 1e15 bytes");
    if (model->batch % model->micro_batches)
        return peal_fail(diag, PEAL_ERR_ARG, "%u sequences are not %u equal micro-batches",
                         model->batch, model->micro_batches);
    if (model->experts && (model->top_k > model->experts || model->moe_layers > model->layers))
        return peal_fail(diag, PEAL_ERR_ARG,
                         "more experts to a token than there are, or more layers with experts");
    if (peal_estimate_expert_params(model) > model->params)
        return peal_fail(diag, PEAL_ERR_ARG, "the experts have more parameters than the model");
    return PEAL_OK;
}

uint32_t peal_estimate_parts(const peal_estimate_params *params)
{
    return params->sp > params->tp ? params->sp / params->tp : 1;
}

uint32_t peal_estimate_data(const peal_estimate_params *params)
{
    return params->dp * peal_estimate_parts(params);
}

static peal_status fill_replicas(peal_estimate_params *params, uint32_t ranks, peal_diag *diag)
{
    uint64_t stage = (uint64_t)params->tp * params->pp;
    if (params->sp != 1 && params->sp % params->tp)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "sp %u: sequences are cut over the %u ranks of tp, over a multiple of "
                         "them, or not at all",
                         params->sp, params->tp);
    if (stage <= ranks)
        stage *= peal_estimate_parts(params);
    if (!params->dp)
        params->dp = stage <= ranks ? (uint32_t)(ranks / stage) : 1;
    if (stage > ranks || params->dp > ranks / stage)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "tp %u x dp %u x pp %u, and sequences in %u parts, are more than the %u "
                         "ranks",
                         params->tp, params->dp, params->pp, peal_estimate_parts(params), ranks);
    return PEAL_OK;
}

static peal_status check_split(const peal_model *model, const peal_estimate_params *params,
                               peal_diag *diag)
{
    if (params->pp > model->layers)
        return peal_fail(diag, PEAL_ERR_ARG, "pp %u: there are only %u layers", params->pp,
                         model->layers);
    if (peal_estimate_parts(params) > model->sequence)
        return peal_fail(diag, PEAL_ERR_ARG, "sp %u: a sequence has only %u tokens", params->sp,
                         model->sequence);
    if (params->ep > 1 && !model->experts)
        return peal_fail(diag, PEAL_ERR_ARG, "ep %u: the model has no experts", params->ep);
    if (peal_estimate_data(params) % params->ep || (params->ep > 1 && model->experts % params->ep))
        return peal_fail(diag, PEAL_ERR_ARG,
                         "ep %u: it has to divide dp %u and the model's %u experts", params->ep,
                         peal_estimate_data(params), model->experts);
    if (params->zero > 3 || (params->zero && params->full_gradient))
        return peal_fail(diag, PEAL_ERR_ARG, "zero is 0 to 3, and 0 with the full gradient");
    if (!(params->overlap >= 0 && params->overlap <= 1) || !(params->compute_us >= 0) ||
        !(params->compute_us <= 1e15) || !(params->tflops > 0 && params->tflops <= 1e9))
        return peal_fail(diag, PEAL_ERR_ARG, "overlap, compute or tflops is out of its range");
    return PEAL_OK;
}

peal_status peal_estimate_fill(peal_model *model, peal_estimate_params *params, uint32_t ranks,
                               peal_diag *diag)
{
    fill_model(model);
    PEAL_TRY(check_model(model, diag));
    set_default(&params->tp, 1);
    set_default(&params->pp, 1);
    set_default(&params->ep, 1);
    set_default(&params->sp, 1);
    set_default(&params->decode_batch, 4);
    if (params->overlap == 0)
        params->overlap = 0.9;
    if (params->overlap < 0)
        params->overlap = 0;
    if (params->tflops == 0)
        params->tflops = 400;
    PEAL_TRY(fill_replicas(params, ranks, diag));
    return check_split(model, params, diag);
}

/* ---- amounts */

uint64_t peal_estimate_expert_params(const peal_model *model)
{
    if (!model->experts)
        return 0;
    double count =
        (double)model->moe_layers * model->experts * 3.0 * model->hidden * model->expert_hidden;
    return count < 1e18 ? (uint64_t)count : UINT64_MAX;
}

uint64_t peal_estimate_active_params(const peal_model *model)
{
    if (!model->experts)
        return model->params;
    uint64_t expert = peal_estimate_expert_params(model);
    return model->params - expert + peal_muldiv(expert, model->top_k, model->experts);
}

uint64_t peal_estimate_activation(const peal_model *model)
{
    return (uint64_t)(model->batch / model->micro_batches) * model->sequence * model->hidden *
           model->act_bytes;
}

uint64_t peal_estimate_layers(uint32_t layers, uint32_t stages)
{
    return layers / stages + (layers % stages != 0);
}

uint64_t peal_estimate_dense_bytes(const peal_model *model, const peal_estimate_params *params)
{
    if (params->full_gradient)
        return model->params * model->grad_bytes;
    uint64_t count = model->params;
    if (params->ep > 1)
        count -= peal_estimate_expert_params(model);
    return count / params->tp / params->pp * model->grad_bytes;
}

uint64_t peal_estimate_expert_bytes(const peal_model *model, const peal_estimate_params *params)
{
    if (params->full_gradient || params->ep <= 1)
        return 0;
    return peal_estimate_expert_params(model) / params->tp / params->pp / params->ep *
           model->grad_bytes;
}

/* 2 operations of each parameter and token forward, 4 backward. */
double peal_estimate_compute_us(const peal_model *model, const peal_estimate_params *params)
{
    if (params->compute_us > 0)
        return params->compute_us;
    double tokens = (double)model->batch * model->sequence;
    return 6.0 * (double)peal_estimate_active_params(model) * tokens / params->tp / params->pp /
           peal_estimate_parts(params) / (params->tflops * 1e6);
}

/* Scores and weighted values, 2 operations of each width of a pair of tokens and each of both; of a
 * causal mask half of the pairs are there, which parts share evenly when each has tokens from both
 * ends of a sequence. */
double peal_estimate_attention_us(const peal_model *model, const peal_estimate_params *params)
{
    double sequences = (double)model->batch / model->micro_batches;
    double tokens = (double)model->sequence / peal_estimate_parts(params);
    return 2.0 * sequences * tokens * tokens * model->hidden / params->tp / (params->tflops * 1e6);
}
