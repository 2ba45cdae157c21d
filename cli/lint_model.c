/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of a model's split: which axis crosses what, and what it sends there. */
#include "estimating.h"
#include "lint.h"

#include <stdlib.h>
#include <string.h>

#define SMALL_MESSAGE (64u << 10)
#define FREQUENT 100u     /* calls of a step, or of a token */
#define BUCKET_LEAST 25e6 /* bytes */
#define BUCKET_MOST (50u << 20)

static const char *axis_text(const peal_estimate_axis *axis, char *text, size_t size)
{
    char bytes[NUMBER_TEXT];
    (void)snprintf(text, size, "%s %lu%s, %s of %s", axis->axis, (unsigned long)axis->ranks,
                   axis->decode ? " in decoding" : "", peal_collective_name(axis->collective),
                   size_text(axis->bytes, bytes));
    return text;
}

static int is_axis(const peal_estimate_axis *axis, const char *name)
{
    return strcmp(axis->axis, name) == 0;
}

/* What accelerators of one NVLink domain do not need. */
static void crosses(struct lint *lint, const peal_estimate_axis *axis, const char *text)
{
    char total[NUMBER_TEXT], alpha[NUMBER_TEXT], beta[NUMBER_TEXT];
    int parts = is_axis(axis, "cp"); /* of sequences: once in a layer, not four times */
    if ((!is_axis(axis, "tp") && !is_axis(axis, "sp") && !parts) ||
        axis->link_class <= PEAL_LINK_XGMI)
        return;
    lint_add(lint, LINT_TP_CROSSES,
             axis->link_class == PEAL_LINK_NET && !parts ? LEVEL_ERROR : LEVEL_WARNING,
             parts ? "--sp" : "--tp", 0,
             "%s goes over %s (%s us, %s GB/s): %llu calls take %s ms %s", text,
             peal_link_class_name(axis->link_class), real_text(axis->hop_alpha_us, alpha),
             real_text(axis->hop_beta_gbs, beta), (unsigned long long)axis->calls,
             real_text(axis->exposed_us / 1e3, total), axis->decode ? "a token" : "a step");
}

/* An exchange of blocks has one message for each peer; others are cut by their algorithm. */
static void messages(struct lint *lint, const peal_estimate_axis *axis, const char *text)
{
    char size[NUMBER_TEXT];
    uint64_t block = axis->ranks ? axis->bytes / axis->ranks : 0;
    if (axis->link_class != PEAL_LINK_NET)
        return;
    if (axis->collective == PEAL_ALLTOALL && block < SMALL_MESSAGE)
        lint_add(lint, LINT_SMALL_MESSAGES, LEVEL_WARNING, "--ep", 0,
                 "%s: %s for each peer, over the network", text, size_text(block, size));
    if (axis->latency_bound && axis->calls >= FREQUENT)
        lint_add(lint, LINT_NIC_CONTROL, LEVEL_INFO, "--model", 0,
                 "%s: %llu calls %s, start-ups are %.0f %% of each", text,
                 (unsigned long long)axis->calls, axis->decode ? "a token" : "a step",
                 100 * axis->alpha_us / axis->call_us);
}

static void regime(struct lint *lint, const peal_estimate_axis *axis, const char *text)
{
    char time[NUMBER_TEXT], star[NUMBER_TEXT];
    lint_add(lint, LINT_REGIME, LEVEL_INFO, "--model", 0,
             "%s: %s-bound, start-ups are %.0f %% of %s us; S* of %s is %s", text,
             axis->latency_bound ? "latency" : "bandwidth", 100 * axis->alpha_us / axis->call_us,
             real_text(axis->call_us, time), peal_link_class_name(axis->link_class),
             lint_star(axis->hop_alpha_us, axis->hop_beta_gbs, star));
}

static void wire(struct lint *lint, const peal_model *model)
{
    if (model->grad_bytes > 2)
        lint_add(lint, LINT_WIRE_TYPE, LEVEL_WARNING, "--model grad=", 0,
                 "gradients travel as %lu bytes an element", (unsigned long)model->grad_bytes);
    if (model->act_bytes > 2)
        lint_add(lint, LINT_WIRE_TYPE, LEVEL_WARNING, "--model dtype=", 0,
                 "activations travel as %lu bytes an element", (unsigned long)model->act_bytes);
}

/* Only a size that somebody has chosen. */
static void bucket(struct lint *lint, const peal_estimate *estimate)
{
    peal_estimate_bucket b = {.size = sizeof b};
    char size[NUMBER_TEXT];
    if (!cli_given(lint->cli, OPT_BUCKET))
        return;
    for (uint32_t i = 0; peal_estimate_bucket_get(estimate, i, &b) == PEAL_OK; i++)
        if (b.chosen && ((double)b.bytes < BUCKET_LEAST || b.bytes > BUCKET_MOST))
            lint_add(lint, LINT_BUCKET_SIZE, LEVEL_WARNING, "--bucket", 0,
                     "%lu buckets of %s: the first leaves after %.0f %% of the backward pass, and "
                     "start-ups are %.0f %% of each",
                     (unsigned long)b.count, size_text(b.bytes, size), 100 * b.first_share,
                     100 * b.alpha_us / b.call_us);
}

static int look(struct lint *lint, struct estimating *of)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_estimate_axis axis = {.size = sizeof axis};
    char text[128];
    CLI_TRY(estimate_input(lint->cli, of));
    CLI_TRY(say_diag(peal_estimate_create(lint->cli->ctx, lint->fabric, &of->model, &of->params,
                                          &diag, &of->as_is),
                     &diag));
    for (uint32_t i = 0; peal_estimate_axis_get(of->as_is, i, &axis) == PEAL_OK; i++) {
        if (axis.alternative)
            continue;
        (void)axis_text(&axis, text, sizeof text);
        crosses(lint, &axis, text);
        messages(lint, &axis, text);
        regime(lint, &axis, text);
    }
    wire(lint, &of->model);
    bucket(lint, of->as_is);
    return EXIT_YES;
}

int lint_model(struct lint *lint)
{
    static const enum option_id asks[] = {OPT_MODEL, OPT_TP, OPT_DP,    OPT_PP,
                                          OPT_EP,    OPT_SP, OPT_BUCKET};
    int any = 0;
    for (size_t i = 0; i < COUNT_OF(asks); i++)
        any |= cli_given(lint->cli, asks[i]);
    if (!any)
        return EXIT_YES;
    struct estimating *of = need(calloc(1, sizeof *of));
    int code = look(lint, of);
    peal_estimate_destroy(of->as_is);
    free(of->script_text);
    free(of);
    return code;
}
