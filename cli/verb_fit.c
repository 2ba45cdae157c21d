/* SPDX-License-Identifier: Apache-2.0 */
/* peal fit: start-ups and bandwidths of measured tables, and what they predict. */
#include "cli_json.h"
#include "fit_input.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COSTS_MAX 64u

struct fitted {
    peal_series_info info;
    const peal_point *point;
    peal_fit fit;
    int predicts;       /* points of others were predicted */
    uint32_t predicted; /* how many */
    double off;         /* sum of |ln(predicted / measured)| */
    double worst;       /* the largest of them, and where */
    double worst_ratio;
    uint64_t worst_bytes;
};

struct fit_job {
    struct cli *cli;
    peal_measured *measured;
    uint32_t segments;
    uint32_t count;
    struct fitted *series;
};

/* ---- fitting */

static int fit_some(const struct fit_job *job, struct fitted *s, const peal_point *point,
                    uint32_t count)
{
    peal_diag diag = PEAL_DIAG_INIT;
    s->fit.size = sizeof s->fit;
    peal_status status =
        peal_fit_points(job->cli->ctx, point, count, job->segments, &diag, &s->fit);
    if (status == PEAL_OK || status == PEAL_ERR_MEMORY)
        return say_diag(status, &diag);
    put_plain(stderr, "%s:%lu: error: %s\n", s->info.name, (unsigned long)s->info.line, diag.text);
    return EXIT_INPUT;
}

static void predicted(struct fitted *s, const peal_point *point, double time)
{
    double off = fabs(log(time / point->time_us));
    s->predicted++;
    s->off += off;
    if (off > s->worst) {
        s->worst = off;
        s->worst_ratio = time / point->time_us;
        s->worst_bytes = point->bytes;
    }
}

/* Every second point is fitted; the others are never seen by the fit. */
static int fit_half(const struct fit_job *job, struct fitted *s)
{
    uint32_t half = (s->info.points + 1) / 2;
    peal_point *seen = need(calloc(half ? half : 1, sizeof *seen));
    for (uint32_t i = 0; i < half; i++)
        seen[i] = s->point[2 * i];
    int code = fit_some(job, s, seen, half);
    free(seen);
    s->predicts = 1;
    for (uint32_t i = 1; i < s->info.points && code == EXIT_YES; i += 2)
        predicted(s, &s->point[i], peal_fit_time(&s->fit, s->point[i].bytes));
    return code;
}

static int fit_all(struct fit_job *job)
{
    for (uint32_t i = 0; i < job->count; i++) {
        struct fitted *s = &job->series[i];
        CLI_TRY(get_series(job->cli, job->measured, i, 0, &s->info, &s->point));
        if (cli_given(job->cli, OPT_HOLD_OUT))
            CLI_TRY(fit_half(job, s));
        else
            CLI_TRY(fit_some(job, s, s->point, s->info.points));
    }
    return EXIT_YES;
}

static int shape_of(const peal_series_info *info, peal_fit_shape *shape)
{
    *shape = (peal_fit_shape){sizeof *shape, info->collective, info->ranks,
                              info->nodes ? info->nodes : 1};
    return info->has_collective && info->ranks >= 2;
}

/* The fit of the series --from names, told of each other series' points. */
static int predict_from(struct fit_job *job)
{
    const char *name = job->cli->value[OPT_FROM];
    struct fitted *from = NULL;
    peal_fit_shape shape, other;
    for (uint32_t i = 0; i < job->count && !from; i++)
        if (strcmp(job->series[i].info.name, name) == 0)
            from = &job->series[i];
    if (!from)
        return say_usage("--from '%s' is no series of these files", name);
    if (!shape_of(&from->info, &shape))
        return say_usage("--from needs to know the collective and the ranks of '%s'", name);
    for (uint32_t i = 0; i < job->count; i++) {
        struct fitted *s = &job->series[i];
        s->predicts = s != from && shape_of(&s->info, &other) &&
                      strcmp(s->info.system, from->info.system) == 0;
        for (uint32_t k = 0; k < s->info.points && s->predicts; k++) {
            double time = peal_fit_time_as(&from->fit, &shape, &other, s->point[k].bytes);
            if (time > 0)
                predicted(s, &s->point[k], time);
        }
    }
    return EXIT_YES;
}

/* ---- text */

static double error_of(const struct fitted *s)
{
    return s->predicted ? exp(s->off / s->predicted) - 1 : 0;
}

static void add_interval(struct grid *grid, double low, double high)
{
    char a[NUMBER_TEXT], b[NUMBER_TEXT];
    if (high > 0)
        grid_add(grid, "%s..%s", real_text(low > 0 ? low : 0, a), real_text(high, b));
    else
        grid_add(grid, "%s..", real_text(low, a));
}

static void add_segment(struct grid *grid, const peal_fit *fit, uint32_t index)
{
    const peal_fit_segment *line = &fit->segment[index];
    char text[NUMBER_TEXT], other[NUMBER_TEXT];
    grid_add(grid, "%s..%s", size_text(line->min_bytes, text), size_text(line->max_bytes, other));
    grid_add(grid, "%s%s", line->alpha_us < 0 ? "-" : "", real_text(fabs(line->alpha_us), text));
    if (index == 0)
        add_interval(grid, line->alpha_low_us, line->alpha_high_us);
    else
        grid_add(grid, "%s", "");
    if (line->beta_gbs > 0) {
        grid_add(grid, "%s", real_text(line->beta_gbs, text));
        add_interval(grid, line->beta_low_gbs, line->beta_high_gbs);
    } else {
        grid_add(grid, "flat");
        grid_add(grid, "%s", "");
    }
}

static void print_regime(const struct fitted *s, FILE *file)
{
    char text[NUMBER_TEXT];
    double star = s->fit.crossover_bytes;
    const peal_fit *fit = &s->fit;
    if (!(fit->beta_gbs > 0)) {
        fputs("  S* beyond what was measured: all sizes are latency-bound\n", file);
        return;
    }
    fprintf(file, "  alpha %s us, ", real_text(fit->alpha_us, text));
    fprintf(file, "beta %s GB/s, ", real_text(fit->beta_gbs, text));
    fprintf(file, "S* = alpha x beta = %s bytes: ", size_text((uint64_t)star, text));
    if (star <= (double)fit->segment[0].min_bytes)
        fputs("all sizes are bandwidth-bound\n", file);
    else if (star > (double)fit->segment[fit->segments - 1].max_bytes)
        fputs("all sizes are latency-bound\n", file);
    else
        fprintf(file, "below it latency-bound\n");
}

static void print_series(const struct fitted *s, const struct output *output)
{
    FILE *file = output->file;
    struct grid grid;
    char text[NUMBER_TEXT];
    fprintf(file, "%s: %lu sizes, %lu line%s, %lu parameters, off by %.1f %%, worst %+.1f %% at %s",
            s->info.name, (unsigned long)s->fit.sizes, (unsigned long)s->fit.segments,
            s->fit.segments > 1 ? "s" : "", (unsigned long)s->fit.parameters, 100 * s->fit.error,
            100 * s->fit.worst_error, size_text(s->fit.worst_bytes, text));
    if (s->fit.outliers)
        fprintf(file, ", %lu outliers", (unsigned long)s->fit.outliers);
    fputc('\n', file);
    print_regime(s, file);
    grid_begin(&grid, ">sizes|>alpha us|>95 %|>beta GB/s|>95 %");
    for (uint32_t i = 0; i < s->fit.segments; i++)
        add_segment(&grid, &s->fit, i);
    grid_print(&grid, output);
    fputc('\n', file);
}

static void print_predictions(const struct fit_job *job, const struct output *output)
{
    struct grid grid;
    char text[NUMBER_TEXT];
    grid_begin(&grid, "predicted series|>sizes|>off by %|>worst %|>at");
    for (uint32_t i = 0; i < job->count; i++) {
        const struct fitted *s = &job->series[i];
        if (!s->predicts)
            continue;
        grid_add(&grid, "%s", s->info.name);
        grid_add(&grid, "%lu", (unsigned long)s->predicted);
        if (s->predicted) {
            grid_add(&grid, "%.1f", 100 * error_of(s));
            grid_add(&grid, "%+.1f", 100 * (s->worst_ratio - 1));
            grid_add(&grid, "%s", size_text(s->worst_bytes, text));
        } else {
            grid_add(&grid, "-");
            grid_add(&grid, "-");
            grid_add(&grid, "-");
        }
    }
    grid_print(&grid, output);
}

/* ---- JSON */

static void json_segment(json_t *list, const peal_fit_segment *line)
{
    json_t *item = json_item(list);
    json_count(item, "min_bytes", line->min_bytes);
    json_count(item, "max_bytes", line->max_bytes);
    json_number(item, "alpha_us", line->alpha_us);
    json_number(item, "alpha_low_us", line->alpha_low_us);
    json_number(item, "alpha_high_us", line->alpha_high_us);
    json_number(item, "beta_gbs", line->beta_gbs);
    json_number(item, "beta_low_gbs", line->beta_low_gbs);
    json_number(item, "beta_high_gbs", line->beta_high_gbs);
    json_count(item, "points", line->points);
}

static void json_points(json_t *object, const struct fitted *s)
{
    json_t *list = json_list(object, "points");
    for (uint32_t i = 0; i < s->info.points; i++) {
        json_t *item = json_item(list);
        double time = peal_fit_time(&s->fit, s->point[i].bytes);
        json_count(item, "bytes", s->point[i].bytes);
        json_number(item, "time_us", s->point[i].time_us);
        json_number(item, "fitted_us", time);
        json_number(item, "residual", time / s->point[i].time_us - 1);
        json_flag(item, "latency_bound",
                  (double)s->point[i].bytes < s->fit.crossover_bytes || !(s->fit.beta_gbs > 0));
    }
}

static void json_series(json_t *list, const struct fitted *s)
{
    json_t *item = json_item(list);
    const peal_fit *fit = &s->fit;
    json_text(item, "series", s->info.name);
    json_text(item, "system", s->info.system);
    json_text(item, "collective",
              s->info.has_collective ? peal_collective_name(s->info.collective) : NULL);
    json_count(item, "ranks", s->info.ranks);
    json_count(item, "nodes", s->info.nodes);
    json_text(item, "link", s->info.has_link ? peal_link_class_name(s->info.link) : NULL);
    json_number(item, "alpha_us", fit->alpha_us);
    json_number(item, "beta_gbs", fit->beta_gbs);
    json_number(item, "crossover_bytes", fit->crossover_bytes);
    json_count(item, "sizes", fit->sizes);
    json_count(item, "parameters", fit->parameters);
    json_count(item, "outliers", fit->outliers);
    json_number(item, "error", fit->error);
    json_number(item, "worst_error", fit->worst_error);
    json_count(item, "worst_bytes", fit->worst_bytes);
    json_t *lines = json_list(item, "segments");
    for (uint32_t i = 0; i < fit->segments; i++)
        json_segment(lines, &fit->segment[i]);
    json_points(item, s);
    if (s->predicts) {
        json_t *other = json_child(item, "predicted");
        json_count(other, "points", s->predicted);
        json_number(other, "error", error_of(s));
        json_number(other, "worst_error", s->predicted ? s->worst_ratio - 1 : 0);
        json_count(other, "worst_bytes", s->worst_bytes);
    }
}

/* ---- output: what is shown goes to standard output, and a profile to the file of -o */

static int show(const struct fit_job *job)
{
    struct output output;
    struct cli to = *job->cli;
    int predicts = cli_given(&to, OPT_HOLD_OUT) || cli_given(&to, OPT_FROM);
    to.value[OPT_OUTPUT] = NULL;
    CLI_TRY(output_open(&to, &output));
    if (cli_given(&to, OPT_JSON)) {
        json_t *root = json_begin("peal.fit/1");
        json_t *list = json_list(root, "series");
        for (uint32_t i = 0; i < job->count; i++)
            json_series(list, &job->series[i]);
        json_end(root, &output);
        return output_close(&output, EXIT_YES);
    }
    for (uint32_t i = 0; i < job->count; i++)
        print_series(&job->series[i], &output);
    if (predicts)
        print_predictions(job, &output);
    if (cli_given(&to, OPT_MEASURE))
        fputs("cuda: absent; rdma: absent (no library for either is used)\n", output.file);
    return output_close(&output, EXIT_YES);
}

/* Of each class the first series that tells it; those that tell none are named. */
static int gather_costs(const struct fit_job *job, uint32_t nics, peal_profile_cost *cost,
                        uint32_t *count)
{
    for (uint32_t i = 0; i < job->count && *count < COSTS_MAX; i++) {
        peal_diag diag = PEAL_DIAG_INIT;
        peal_profile_cost one = {.size = sizeof one};
        const struct fitted *s = &job->series[i];
        uint32_t k = 0;
        if (peal_fit_cost(&s->fit, &s->info, nics, &diag, &one) != PEAL_OK) {
            say(SAY_NOTE, "not in the profile: %s", diag.text);
            continue;
        }
        while (k < *count && cost[k].link != one.link)
            k++;
        if (k < *count)
            say(SAY_NOTE, "not in the profile: %s: an earlier series is of %s too", s->info.name,
                peal_link_class_name(one.link));
        else
            cost[(*count)++] = one;
    }
    if (*count)
        return EXIT_YES;
    say(SAY_ERROR, "no series says what class of links it is of; --link CLASS does");
    return EXIT_INPUT;
}

struct machine {      /* that the profile is of */
    const char *path; /* of its hosts; NULL: ranks without accelerators */
    uint32_t hosts;
    uint32_t ranks;
    uint32_t nics;
    char inside[4096]; /* path, as the file of -o has to name it */
};

static int look_at(struct cli *cli, const peal_fabric *fabric, struct machine *m)
{
    peal_fabric_info about = {.size = sizeof about};
    CLI_TRY(say_diag(peal_fabric_get(fabric, &about), NULL));
    if (strcmp(about.dialect, "cluster") == 0) {
        say(SAY_ERROR, "--topology is of one host; --nodes says how many there are");
        return EXIT_INPUT;
    }
    m->ranks = about.ranks;
    m->nics = about.nics;
    if (strcmp(about.dialect, "host") == 0)
        return EXIT_YES;
    CLI_TRY(path_from_output(cli, cli->value[OPT_TOPOLOGY], m->inside, sizeof m->inside));
    m->path = m->inside;
    return EXIT_YES;
}

static int profile_of(struct fit_job *job, struct machine *m)
{
    uint32_t count = 0;
    peal_profile_cost cost[COSTS_MAX];
    struct output output;
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t i = 0; i < job->count; i++) {
        const peal_series_info *info = &job->series[i].info;
        if (!m->ranks || (!cli_given(job->cli, OPT_TOPOLOGY) && info->ranks > m->ranks))
            m->ranks = info->ranks;
        if (m->path && info->nodes > m->hosts)
            m->hosts = info->nodes;
    }
    CLI_TRY(gather_costs(job, m->nics, cost, &count));
    CLI_TRY(output_open(job->cli, &output));
    peal_status status =
        peal_profile_write(job->cli->ctx, m->path, m->hosts, m->ranks ? m->ranks : 2, cost, count,
                           output_write, &output, &diag);
    return output_close(&output, say_diag(status, &diag));
}

static int write_profile(struct fit_job *job)
{
    struct machine m = {.hosts = 1};
    peal_fabric *fabric = NULL;
    if (!cli_given(job->cli, OPT_OUTPUT))
        return EXIT_YES;
    if (cli_given(job->cli, OPT_MEASURE) && !cli_given(job->cli, OPT_TOPOLOGY))
        return measure_memory(job->cli, cli_given(job->cli, OPT_JSON) ? NULL : stdout);
    if (cli_given(job->cli, OPT_TOPOLOGY)) {
        CLI_TRY(load_fabric(job->cli, job->cli->value[OPT_TOPOLOGY], &fabric));
        int code = look_at(job->cli, fabric, &m);
        peal_fabric_destroy(fabric);
        CLI_TRY(code);
    }
    return profile_of(job, &m);
}

/* ---- */

static int read_all(struct fit_job *job)
{
    struct cli *cli = job->cli;
    if (cli_given(cli, OPT_MEASURE))
        return cli->operands ? say_usage("--measure reads no files")
                             : measure_paths(cli, job->measured);
    if (!cli->operands)
        return cli_operands(cli, 1);
    for (uint32_t i = 0; i < cli->operands; i++)
        CLI_TRY(read_measured(cli, cli->operand[i], job->measured));
    return EXIT_YES;
}

static int run(struct fit_job *job)
{
    CLI_TRY(cli_u32(job->cli, OPT_SEGMENTS, &job->segments));
    if (cli_given(job->cli, OPT_SEGMENTS) &&
        (job->segments < 1 || job->segments > PEAL_FIT_SEGMENTS))
        return say_usage("--segments is 1 to %d", PEAL_FIT_SEGMENTS);
    if (cli_given(job->cli, OPT_HOLD_OUT) && cli_given(job->cli, OPT_FROM))
        return say_usage("--hold-out or --from");
    CLI_TRY(read_all(job));
    job->count = peal_measured_count(job->measured);
    job->series = need(calloc(job->count ? job->count : 1, sizeof *job->series));
    CLI_TRY(fit_all(job));
    if (cli_given(job->cli, OPT_FROM))
        CLI_TRY(predict_from(job));
    CLI_TRY(show(job));
    return write_profile(job);
}

int verb_fit(struct cli *cli)
{
    struct fit_job job = {.cli = cli};
    CLI_TRY(say_diag(peal_measured_create(cli->ctx, &job.measured), NULL));
    int code = run(&job);
    free(job.series);
    peal_measured_destroy(job.measured);
    return code;
}
