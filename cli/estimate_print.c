/* SPDX-License-Identifier: Apache-2.0 */
/* An estimate as tables. */
#include "estimating.h"

#include <string.h>

static const char *ms(double us, char *text)
{
    return real_text(us / 1e3, text);
}

/* ---- what each axis pays */

static void add_axis(struct grid *grid, const peal_estimate_axis *axis)
{
    char text[NUMBER_TEXT];
    grid_add(grid, axis->alternative ? "(%s)" : "%s", axis->axis);
    grid_add(grid, "%s", peal_collective_name(axis->collective));
    grid_add(grid, "%lu", (unsigned long)axis->ranks);
    grid_add(grid, "%lu", (unsigned long)axis->groups);
    grid_add(grid, "%llu", (unsigned long long)axis->calls);
    grid_add(grid, "%llu", (unsigned long long)axis->bytes);
    grid_add(grid, "%s", real_text(axis->call_us, text));
    grid_add(grid, "%.0f", 100 * axis->alpha_us / axis->call_us);
    grid_add(grid, "%s", ms(axis->total_us, text));
    grid_add(grid, "%s", ms(axis->exposed_us, text));
    grid_add(grid, "%s", real_text(axis->text_us, text));
    grid_add(grid, "%s", peal_link_class_name(axis->link_class));
    grid_add(grid, "%s", axis->latency_bound ? "latency" : "bandwidth");
    grid_add(grid, "%s", axis->algorithm);
    grid_add(grid, "%s", axis->binding);
}

static void print_axes(const peal_estimate *estimate, int decode, const struct output *output)
{
    struct grid grid;
    peal_estimate_axis axis = {.size = sizeof axis};
    grid_begin(&grid, "axis|collective|>ranks|>groups|>calls|>bytes|>call us|>alpha %|>total ms|"
                      ">exposed ms|>text us|link|regime|algorithm|limited by");
    for (uint32_t i = 0; peal_estimate_axis_get(estimate, i, &axis) == PEAL_OK; i++)
        if (axis.decode == decode)
            add_axis(&grid, &axis);
    grid_print(&grid, output);
}

/* Context parallelism in both forms, and what hides the ring's. */
static void print_context(const peal_estimate *estimate, const struct output *output)
{
    double exposed_us[2] = {0, 0}, text_us[2] = {0, 0}, beside_us = 0;
    char ours[NUMBER_TEXT], others[NUMBER_TEXT], text[NUMBER_TEXT], attention[NUMBER_TEXT];
    peal_estimate_axis axis = {.size = sizeof axis};
    for (uint32_t i = 0; peal_estimate_axis_get(estimate, i, &axis) == PEAL_OK; i++) {
        int ring = axis.collective == PEAL_SENDRECV;
        double more_us = axis.text_us - axis.beside_us;
        if (strcmp(axis.axis, "cp") != 0)
            continue;
        exposed_us[ring] += axis.exposed_us;
        text_us[ring] += more_us > 0 ? (double)axis.calls * more_us : 0;
        beside_us = axis.beside_us > 0 && beside_us <= 0 ? axis.beside_us : beside_us;
    }
    if (exposed_us[0] <= 0)
        return;
    fprintf(
        output->file,
        "cp by allgather: %s ms exposed (text %s); by a ring, beside %s us of attention a block:",
        ms(exposed_us[0], ours), ms(text_us[0], text), real_text(beside_us, attention));
    fprintf(output->file, " %s ms (text %s). In brackets: the form that is not counted\n",
            ms(exposed_us[1], others), ms(text_us[1], text));
}

static void print_subject(const struct estimating *of, const peal_estimate_info *info, FILE *file)
{
    const peal_model *m = &of->model;
    const peal_estimate_params *p = &of->params;
    fprintf(file, "%s: %llu parameters, %lu layers, hidden %lu", m->name,
            (unsigned long long)m->params, (unsigned long)m->layers, (unsigned long)m->hidden);
    fprintf(file, ", sequences of %lu, %lu a step and replica\n",
            (unsigned long)(m->sequence ? m->sequence : 4096),
            (unsigned long)(m->batch ? m->batch : 1));
    fprintf(file, "%lu ranks: tp %lu, dp %lu, pp %lu, ep %lu, sp %lu\n", (unsigned long)info->ranks,
            (unsigned long)(p->tp ? p->tp : 1), (unsigned long)info->dp,
            (unsigned long)(p->pp ? p->pp : 1), (unsigned long)(p->ep ? p->ep : 1),
            (unsigned long)(p->sp ? p->sp : 1));
}

static void add_step(struct grid *grid, const char *name, double us, double compute_us,
                     double text_us)
{
    char text[NUMBER_TEXT];
    grid_add(grid, "%s", name);
    grid_add(grid, "%s", ms(us, text));
    grid_add(grid, "%.1f", 100 * (1 - compute_us / us));
    grid_add(grid, "%s", text_us > 0 ? ms(text_us, text) : "-");
}

static void print_step(const struct cli *cli, const peal_estimate_info *info,
                       const struct output *output)
{
    struct grid grid;
    char text[NUMBER_TEXT], name[64];
    int given = cli_given(cli, OPT_COMPUTE);
    fprintf(output->file, "\ncompute %s ms (%s)", ms(info->compute_us, text),
            given ? "as stated" : "6 x active parameters x tokens, at --tflops");
    fprintf(output->file, ", bubble of the pipeline %s ms\n", ms(info->bubble_us, text));
    grid_begin(&grid, "a step|>ms|>not compute %|>by the text ms");
    add_step(&grid, "nothing hidden", info->serial_us, info->compute_us, info->text_serial_us);
    (void)snprintf(name, sizeof name, "%.0f %% of dp hidden", 100 * info->overlap);
    add_step(&grid, name, info->overlap_us, info->compute_us, info->text_overlap_us);
    add_step(&grid, "gradients in buckets", info->bucketed_us, info->compute_us, 0);
    grid_print(&grid, output);
}

/* ---- buckets */

static void print_buckets(const peal_estimate *estimate, const peal_estimate_info *info,
                          const struct output *output)
{
    struct grid grid;
    char text[NUMBER_TEXT];
    peal_estimate_bucket bucket = {.size = sizeof bucket};
    if (!info->buckets)
        return;
    fprintf(output->file, "\nbuckets of gradients, against a backward pass of %s ms\n",
            ms(info->backward_us, text));
    grid_begin(&grid, "|>size|>buckets|>call us|>alpha %|regime|>first leaves at %|>all ms|"
                      ">exposed ms");
    for (uint32_t i = 0; peal_estimate_bucket_get(estimate, i, &bucket) == PEAL_OK; i++) {
        grid_add(&grid, "%s", bucket.chosen ? ">" : "");
        grid_add(&grid, "%s", size_text(bucket.bytes, text));
        grid_add(&grid, "%lu", (unsigned long)bucket.count);
        grid_add(&grid, "%s", real_text(bucket.call_us, text));
        grid_add(&grid, "%.0f", 100 * bucket.alpha_us / bucket.call_us);
        grid_add(&grid, "%s", bucket.latency_bound ? "latency" : "bandwidth");
        grid_add(&grid, "%.1f", 100 * bucket.first_share);
        grid_add(&grid, "%s", ms(bucket.total_us, text));
        grid_add(&grid, "%s", ms(bucket.exposed_us, text));
    }
    grid_print(&grid, output);
}

static void print_timeline(const struct cli *cli, const peal_estimate *estimate,
                           struct output *output)
{
    if (!cli_given(cli, OPT_TIMELINE))
        return;
    fputc('\n', output->file);
    if (peal_estimate_write(estimate, "text", output_write, output, NULL) != PEAL_OK)
        fputs("no buckets: there are no replicas\n", output->file);
}

/* ---- decoding */

static void print_decoding(const peal_estimate *estimate, const peal_estimate_info *info,
                           const struct output *output)
{
    char text[NUMBER_TEXT];
    if (info->decode_us <= 0)
        return;
    fprintf(output->file, "\ncommunication of one token of decoding: %s us, of which start-ups",
            real_text(info->decode_us, text));
    fprintf(output->file, " %.0f %%\n", 100 * info->decode_alpha_us / info->decode_us);
    print_axes(estimate, 1, output);
}

/* ---- other links */

static void add_change(struct grid *grid, const char *what, const char *why, double before_us,
                       double after_us)
{
    char text[NUMBER_TEXT];
    if (before_us <= 0)
        return;
    grid_add(grid, "%s", what);
    grid_add(grid, "%s", real_text(before_us, text));
    grid_add(grid, "%s", real_text(after_us, text));
    grid_add(grid, "%.3f", before_us / after_us);
    grid_add(grid, "%s", why);
}

/* What a call is due to with the other links: why these may leave it as it is. */
static void add_call(struct grid *grid, const peal_estimate_axis *a, const peal_estimate_axis *b)
{
    char what[64], why[192];
    (void)snprintf(what, sizeof what, "%s%s %s, a call", a->decode ? "token: " : "", a->axis,
                   peal_collective_name(a->collective));
    if (2 * b->alpha_us >= b->call_us)
        (void)snprintf(why, sizeof why, "%.0f %% of it is start-ups",
                       100 * b->alpha_us / b->call_us);
    else
        (void)snprintf(why, sizeof why, "limited by %s", b->binding[0] ? b->binding : "nothing");
    add_change(grid, what, why, a->call_us, b->call_us);
}

static void print_swap(const struct cli *cli, const struct estimating *of,
                       const peal_estimate_info *before, const struct output *output)
{
    struct grid grid;
    peal_estimate_info after = {.size = sizeof after};
    peal_estimate_axis a = {.size = sizeof a}, b = {.size = sizeof b};
    if (!of->swapped || peal_estimate_get(of->swapped, &after) != PEAL_OK)
        return;
    fprintf(output->file, "\nwith --swap %s\n", cli->value[OPT_SWAP]);
    grid_begin(&grid, "|>before us|>after us|>x faster|now");
    for (uint32_t i = 0; peal_estimate_axis_get(of->as_is, i, &a) == PEAL_OK &&
                         peal_estimate_axis_get(of->swapped, i, &b) == PEAL_OK;
         i++)
        if (!a.alternative)
            add_call(&grid, &a, &b);
    add_change(&grid, "a step, nothing hidden", "", before->serial_us, after.serial_us);
    add_change(&grid, "a step, dp hidden as stated", "", before->overlap_us, after.overlap_us);
    add_change(&grid, "a step, gradients in buckets", "", before->bucketed_us, after.bucketed_us);
    add_change(&grid, "a token of decoding", "", before->decode_us, after.decode_us);
    grid_print(&grid, output);
}

/* ---- scaling */

static void print_scale(const struct cli *cli, const struct estimating *of,
                        const struct output *output)
{
    struct grid grid;
    char text[NUMBER_TEXT];
    if (!of->scales)
        return;
    fprintf(output->file, "\nscaling, the work of a replica as it is; a step with %s\n",
            cli_given(cli, OPT_OVERLAP) ? "dp hidden as stated" : "gradients in buckets");
    grid_begin(&grid, ">ranks|>dp|>step ms|>not compute %|>throughput x|>ranks x|>efficiency %");
    for (uint32_t i = 0; i < of->scales; i++) {
        const struct scale_point *point = &of->point[i], *first = &of->point[0];
        double ranks = (double)point->info.ranks / first->info.ranks;
        double efficiency = first->step_us / point->step_us;
        grid_add(&grid, "%lu", (unsigned long)point->info.ranks);
        grid_add(&grid, "%lu", (unsigned long)point->info.dp);
        grid_add(&grid, "%s", ms(point->step_us, text));
        grid_add(&grid, "%.1f", 100 * (1 - point->info.compute_us / point->step_us));
        grid_add(&grid, "%.2f", ranks * efficiency);
        grid_add(&grid, "%.2f", ranks);
        grid_add(&grid, "%.1f", 100 * efficiency);
    }
    grid_print(&grid, output);
}

void estimate_print(const struct cli *cli, const struct estimating *of, const struct output *output)
{
    peal_estimate_info info = {.size = sizeof info};
    struct output to = *output;
    if (peal_estimate_get(of->as_is, &info) != PEAL_OK)
        return;
    print_subject(of, &info, output->file);
    fputs("\na step of training; text us: by the formula of a ring over the same links\n",
          output->file);
    print_axes(of->as_is, 0, output);
    print_context(of->as_is, output);
    print_step(cli, &info, output);
    print_buckets(of->as_is, &info, output);
    print_timeline(cli, of->as_is, &to);
    print_decoding(of->as_is, &info, output);
    print_swap(cli, of, &info, output);
    print_scale(cli, of, output);
}
