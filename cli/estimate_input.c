/* SPDX-License-Identifier: Apache-2.0 */
/* --model, --swap, --scale and the sizes of the split. */
#include "estimating.h"

#include <stdlib.h>
#include <string.h>

/* ---- words of a comma list, each NAME or KEY=VALUE */

#define WORD_MAX 64u

typedef int (*word_fn)(struct estimating *to, char *word);

static int each(struct estimating *to, const char *text, word_fn take)
{
    for (;;) {
        char word[WORD_MAX];
        size_t length = strcspn(text, ",");
        if (length == 0 || length >= sizeof word)
            return say_usage("'%.40s': a word is missing, or longer than %u letters", text,
                             WORD_MAX - 1);
        memcpy(word, text, length);
        word[length] = '\0';
        CLI_TRY(take(to, word));
        to->words++;
        if (text[length] == '\0')
            return EXIT_YES;
        text += length + 1;
    }
}

/* ---- the model */

static int unknown_model(const char *word)
{
    char known[256] = "";
    peal_model preset = PEAL_MODEL_INIT;
    for (uint32_t i = 0; peal_model_preset(i, &preset) == PEAL_OK; i++) {
        size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", preset.name);
    }
    return say_usage("--model: unknown model '%s'; there are %s", word, known);
}

static int take_preset(struct estimating *to, const char *word)
{
    peal_model preset = PEAL_MODEL_INIT;
    if (to->words)
        return say_usage("--model: '%s' comes first, and alone", word);
    for (uint32_t i = 0; peal_model_preset(i, &preset) == PEAL_OK; i++)
        if (strcmp(preset.name, word) == 0) {
            to->model = preset;
            return EXIT_YES;
        }
    return unknown_model(word);
}

/* "70e9", "6.7B", "512M"; in powers of 1000. */
static int count_of(const char *text, double *out)
{
    static const char letters[] = "KMBT";
    char *end;
    *out = strtod(text, &end);
    const char *found = *end ? strchr(letters, *end) : NULL;
    if (end == text || text[0] < '0' || text[0] > '9')
        return 0;
    for (ptrdiff_t i = 0; found && i <= found - letters; i++)
        *out *= 1000;
    return (!*end || (found && !end[1])) && *out >= 0 && *out <= 1e15;
}

/* Bytes of an element; 0: no such type. */
static uint32_t element_bytes(const char *name)
{
    static const struct {
        const char *name;
        uint32_t bytes;
    } types[] = {{"fp8", 1}, {"bf16", 2}, {"fp16", 2}, {"fp32", 4}};
    peal_dtype dtype;
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].bytes;
    return peal_dtype_parse(name, &dtype) == PEAL_OK ? (uint32_t)peal_dtype_size(dtype) : 0;
}

static uint32_t *field_of(peal_model *model, const char *key)
{
    const struct {
        const char *key;
        uint32_t *field;
    } fields[] = {{"layers", &model->layers},
                  {"hidden", &model->hidden},
                  {"seq", &model->sequence},
                  {"batch", &model->batch},
                  {"micro", &model->micro_batches},
                  {"experts", &model->experts},
                  {"topk", &model->top_k},
                  {"moe-layers", &model->moe_layers},
                  {"expert-hidden", &model->expert_hidden},
                  {"kv-hidden", &model->kv_hidden}};
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (strcmp(fields[i].key, key) == 0)
            return fields[i].field;
    return NULL;
}

static int take_type(uint32_t *field, const char *key, const char *value)
{
    *field = element_bytes(value);
    return *field ? EXIT_YES
                  : say_usage("--model: %s=%s is no type; there are fp32, bf16, fp16, fp8", key,
                              value);
}

static int take_model(struct estimating *to, char *word)
{
    char *equals = strchr(word, '=');
    double number;
    if (!equals)
        return take_preset(to, word);
    *equals = '\0';
    if (strcmp(word, "dtype") == 0)
        return take_type(&to->model.act_bytes, word, equals + 1);
    if (strcmp(word, "grad") == 0)
        return take_type(&to->model.grad_bytes, word, equals + 1);
    uint32_t *field = field_of(&to->model, word);
    if (!field && strcmp(word, "params") != 0)
        return say_usage("--model: a model has no '%s'", word);
    if (!count_of(equals + 1, &number) || (field && (number < 1 || number > UINT32_MAX)))
        return say_usage("--model: %s='%s' is no number of them", word, equals + 1);
    if (field)
        *field = (uint32_t)number;
    else
        to->model.params = (uint64_t)number;
    return EXIT_YES;
}

/* ---- links */

/* What a NIC's line rate in Gb/s leaves of itself: the part that topologies are read with. */
#define GBS_OF_GBITS (0.9 / 8)

static int take_swap(struct estimating *to, char *word)
{
    char *equals = strchr(word, '='), *end = equals;
    peal_swap *swap = &to->swap[to->swaps];
    *swap = (peal_swap){.size = sizeof *swap, .alpha_us = -1};
    if (to->swaps == SWAPS_MAX)
        return say_usage("--swap: at most %u of them", SWAPS_MAX);
    if (!equals)
        return say_usage("--swap '%s' is not CLASS=X, CLASS=X@US or CLASS=@US", word);
    *equals = '\0';
    if (peal_link_class_parse(word, &swap->link_class) != PEAL_OK)
        return say_usage("--swap: unknown link class '%s'", word);
    if (equals[1] != '@') {
        swap->beta_gbs = strtod(equals + 1, &end);
        if (end == equals + 1 || !(swap->beta_gbs > 0))
            return say_usage("--swap %s: '%s' is no bandwidth", word, equals + 1);
    } else {
        end = equals + 1;
    }
    if (swap->link_class == PEAL_LINK_NET)
        swap->beta_gbs *= GBS_OF_GBITS;
    if (*end == '@') {
        const char *from = end + 1;
        swap->alpha_us = strtod(from, &end);
        if (end == from || !(swap->alpha_us >= 0))
            return say_usage("--swap %s: '%s' is no start-up in us", word, from);
    }
    if (*end)
        return say_usage("--swap %s: '%s' is not X, X@US or @US", word, equals + 1);
    to->swaps++;
    return EXIT_YES;
}

/* ---- the rest */

static int read_split(const struct cli *cli, peal_estimate_params *params)
{
    struct {
        enum option_id option;
        uint32_t *field;
    } sizes[] = {{OPT_TP, &params->tp}, {OPT_DP, &params->dp},
                 {OPT_PP, &params->pp}, {OPT_EP, &params->ep},
                 {OPT_SP, &params->sp}, {OPT_DECODE_BATCH, &params->decode_batch}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        CLI_TRY(cli_u32(cli, sizes[i].option, sizes[i].field));
        if (cli_given(cli, sizes[i].option) && *sizes[i].field == 0)
            return say_usage("--%s 0: there is at least one", cli_options[sizes[i].option].name);
    }
    const char *cp = cli->value[OPT_CP];
    if (cp && strcmp(cp, "gather") != 0 && strcmp(cp, "ring") != 0)
        return say_usage("--cp '%s' is neither gather nor ring", cp);
    params->context_ring = cp && strcmp(cp, "ring") == 0;
    CLI_TRY(cli_u32(cli, OPT_ZERO, &params->zero));
    CLI_TRY(cli_u32(cli, OPT_CHANNELS, &params->channels));
    CLI_TRY(cli_size(cli, OPT_SCRATCH, &params->scratch_limit));
    if (cli_given(cli, OPT_SCRATCH) && !params->scratch_limit)
        params->scratch_limit = 1; /* which no scratch is as small as */
    CLI_TRY(cli_size(cli, OPT_BUCKET, &params->bucket_bytes));
    if (cli_given(cli, OPT_BUCKET) && !params->bucket_bytes)
        return say_usage("--bucket 0: a bucket holds something");
    return EXIT_YES;
}

static int read_times(const struct cli *cli, peal_estimate_params *params)
{
    const char *gradient = cli->value[OPT_DP_GRADIENT];
    CLI_TRY(cli_real(cli, OPT_OVERLAP, &params->overlap));
    if (params->overlap > 1)
        return say_usage("--overlap is from 0 to 1");
    if (cli_given(cli, OPT_OVERLAP) && params->overlap == 0)
        params->overlap = -1;
    CLI_TRY(cli_real(cli, OPT_COMPUTE, &params->compute_us));
    params->compute_us *= 1e3;
    CLI_TRY(cli_real(cli, OPT_TFLOPS, &params->tflops));
    if ((cli_given(cli, OPT_COMPUTE) && params->compute_us <= 0) ||
        (cli_given(cli, OPT_TFLOPS) && params->tflops <= 0))
        return say_usage("--compute and --tflops are above 0");
    if (gradient && strcmp(gradient, "full") != 0 && strcmp(gradient, "sharded") != 0)
        return say_usage("--dp-gradient '%s' is neither full nor sharded", gradient);
    params->full_gradient = gradient && strcmp(gradient, "full") == 0;
    return EXIT_YES;
}

static int read_algorithm(struct cli *cli, struct estimating *to)
{
    uint32_t list[LIST_MAX], count = 0;
    peal_estimate_params *params = &to->params;
    if (script_given(cli)) {
        to->script.name = cli->value[OPT_ALGORITHM];
        CLI_TRY(read_file(to->script.name, &to->script_text, &to->script.bytes));
        to->script.text = to->script_text;
        params->script = &to->script;
        return EXIT_YES;
    }
    CLI_TRY(cli_names(cli, OPT_ALGORITHM, algorithm_word, algorithm_words(), list, &count));
    if (count > 1)
        return say_usage("'peal estimate' takes one algorithm");
    params->algorithm = count ? algorithm_word(list[0]) : NULL;
    return EXIT_YES;
}

static int read_policies(struct cli *cli, peal_estimate_params *params)
{
    peal_request request = PEAL_REQUEST_INIT;
    CLI_TRY(read_policy(cli, &request));
    params->policy = request.policy;
    params->policy_fallback = request.policy_fallback;
    return EXIT_YES;
}

uint64_t estimate_replica(const peal_estimate_params *params)
{
    uint64_t tp = params->tp ? params->tp : 1, pp = params->pp ? params->pp : 1;
    return (params->sp > tp ? params->sp : tp) * pp;
}

/* Replicas of so many ranks. */
static int check_scale(const struct estimating *to)
{
    uint64_t replica = estimate_replica(&to->params);
    for (uint32_t i = 0; i < to->scales; i++)
        if (!to->scale[i] || to->scale[i] > UINT32_MAX || to->scale[i] % replica)
            return say_usage("--scale: %llu ranks are not replicas of %llu",
                             (unsigned long long)to->scale[i], (unsigned long long)replica);
    return EXIT_YES;
}

static void largest_scale(struct estimating *to)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < to->scales; i++)
        most = to->scale[i] > most ? to->scale[i] : most;
    most /= estimate_replica(&to->params);
    if (!to->params.dp)
        to->params.dp = (uint32_t)most;
}

int estimate_input(struct cli *cli, struct estimating *to)
{
    const char *model = cli->value[OPT_MODEL];
    memset(to, 0, sizeof *to);
    to->model.size = sizeof to->model;
    to->params.size = sizeof to->params;
    CLI_TRY(each(to, model ? model : "70b", take_model));
    if (!to->model.name[0])
        (void)snprintf(to->model.name, sizeof to->model.name, "model");
    CLI_TRY(read_split(cli, &to->params));
    CLI_TRY(read_times(cli, &to->params));
    CLI_TRY(read_algorithm(cli, to));
    CLI_TRY(read_policies(cli, &to->params));
    if (cli_given(cli, OPT_SWAP))
        CLI_TRY(each(to, cli->value[OPT_SWAP], take_swap));
    CLI_TRY(cli_numbers(cli, OPT_SCALE, 0, to->scale, &to->scales));
    CLI_TRY(check_scale(to));
    largest_scale(to);
    return EXIT_YES;
}

double estimate_step(const struct cli *cli, const peal_estimate_info *info)
{
    return cli_given(cli, OPT_OVERLAP) ? info->overlap_us : info->bucketed_us;
}
