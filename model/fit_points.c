/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many lines, and where they meet. All arrangements of up to three bends at measured sizes are
 * tried, and those of the best moved to halfway between sizes while that helps; Bayes' information
 * criterion for deviations with Laplace's distribution, 2 n ln(mean |deviation|) + p ln n, decides
 * how many are worth it.
 */
#include "fit.h"

#include "sort.h"

#include <math.h>
#include <string.h>

#define BENDS_TRIED 32u /* sizes among which bends are looked for */
#define NOISE_MIN 0.003 /* no measurement repeats better: what is below is not worth a line */

struct found {
    int any;
    double score;
    uint32_t at[PEAL_FIT_SEGMENTS - 1]; /* places of the bends */
    struct fit_model model;
};

struct search {
    peal_point *point;
    uint32_t count;
    uint32_t max_bends;
    struct fit_rows *rows;
    double place[2 * BENDS_TRIED]; /* rising: sizes, and between each and the next */
    uint32_t places;
    struct found found[PEAL_FIT_SEGMENTS]; /* by the number of bends */
    struct fit_model best;
};

/* ---- one time for each size */

static int smaller(const void *a, const void *b, const void *with)
{
    const peal_point *x = a, *y = b;
    (void)with;
    return x->bytes < y->bytes || (x->bytes == y->bytes && x->time_us < y->time_us);
}

static uint32_t take_medians(peal_point *point, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0, next; i < count; i = next) {
        for (next = i; next < count && point[next].bytes == point[i].bytes; next++)
            ;
        uint32_t low = i + (next - i - 1) / 2, high = i + (next - i) / 2;
        peal_point one = {point[i].bytes, (point[low].time_us + point[high].time_us) / 2};
        point[kept++] = one;
    }
    return kept;
}

/* ---- the search */

static void choose_places(struct search *s)
{
    uint32_t inner = s->count > 2 ? s->count - 2 : 0;
    s->places = inner < BENDS_TRIED ? inner : BENDS_TRIED;
    for (uint32_t i = 0; i < s->places; i++) {
        const peal_point *at = &s->point[1 + (uint64_t)i * inner / s->places];
        s->place[2 * i] = (double)at[0].bytes;
        s->place[2 * i + 1] = sqrt((double)at[0].bytes * (double)at[1].bytes);
    }
    s->places *= 2;
}

static uint32_t parameters(const struct fit_model *model)
{
    return model->terms + model->bends;
}

static double score(const struct search *s, const struct fit_model *model)
{
    double n = s->count, noise = model->error > NOISE_MIN ? model->error : NOISE_MIN;
    return 2 * n * log(noise) + parameters(model) * log(n);
}

/* Of equal scores the smaller error, then the first. Gives 1 when these are the best so far. */
static int try_bends(struct search *s, const uint32_t *at, uint32_t bends)
{
    struct found *best = &s->found[bends];
    for (int flat = 0; flat <= 1; flat++) {
        struct fit_model model = {.flat = flat, .bends = bends};
        if (bends && s->count <= 2 * bends + 2)
            return 0; /* as many parameters as sizes explain nothing */
        for (uint32_t i = 0; i < bends; i++)
            model.bend[i] = s->place[at[i]];
        if (!peal_fit_huber(s->rows, s->point, s->count, &model))
            continue; /* flat only where a slope is not possible */
        double now = score(s, &model);
        if (best->any && (now > best->score + 1e-9 ||
                          (now > best->score - 1e-9 && model.error > best->model.error * 0.999)))
            return 0;
        *best = (struct found){.any = 1, .score = now, .model = model};
        if (bends)
            memcpy(best->at, at, bends * sizeof *at);
        return 1;
    }
    return 0;
}

/* The start-up is of three sizes or more, where there are enough: one wild time is none. */
static uint32_t first_place(const struct search *s)
{
    return s->count >= 8 ? 2 : 0;
}

/* All arrangements among the sizes themselves, which are every other place. */
static void search_sizes(struct search *s)
{
    uint32_t at[3];
    (void)try_bends(s, NULL, 0);
    for (at[0] = first_place(s); at[0] < s->places && s->max_bends >= 1; at[0] += 2) {
        (void)try_bends(s, at, 1);
        for (at[1] = at[0] + 2; at[1] < s->places && s->max_bends >= 2; at[1] += 2) {
            (void)try_bends(s, at, 2);
            for (at[2] = at[1] + 2; at[2] < s->places && s->max_bends >= 3; at[2] += 2)
                (void)try_bends(s, at, 3);
        }
    }
}

/* Moves the bend by one place where that is better. */
static int move_bend(struct search *s, uint32_t bends, uint32_t which, int up)
{
    uint32_t at[3];
    memcpy(at, s->found[bends].at, sizeof at);
    if (up ? at[which] + 1 >= s->places : at[which] == 0)
        return 0;
    at[which] += up ? 1 : UINT32_MAX;
    if (at[0] < first_place(s))
        return 0;
    for (uint32_t i = 1; i < bends; i++)
        if (at[i] <= at[i - 1])
            return 0;
    return try_bends(s, at, bends);
}

/* Each move makes the score smaller, so this ends; the bound is for rounding. */
static void refine(struct search *s, uint32_t bends)
{
    int moved = s->found[bends].any;
    for (uint32_t round = 0; moved && round < 4 * BENDS_TRIED; round++) {
        moved = 0;
        for (uint32_t i = 0; i < bends; i++)
            moved |= move_bend(s, bends, i, 0) || move_bend(s, bends, i, 1);
    }
}

static int search(struct search *s)
{
    const struct found *best = NULL;
    search_sizes(s);
    for (uint32_t k = 0; k <= s->max_bends; k++) {
        refine(s, k);
        if (s->found[k].any && (!best || s->found[k].score < best->score))
            best = &s->found[k];
    }
    if (best)
        s->best = best->model;
    return best != NULL;
}

/* ---- what was found */

/* Student's t, 97.5 %. */
static double student(uint32_t freedom)
{
    static const double table[] = {12.706, 4.303, 3.182, 2.776, 2.571,
                                   2.447,  2.365, 2.306, 2.262, 2.228};
    if (freedom == 0)
        return 0;
    if (freedom <= 10)
        return table[freedom - 1];
    return 1.96 + 2.4 / freedom + 2.8 / ((double)freedom * freedom);
}

/* Half the interval of a sum of the model's terms. */
static double spread(const struct search *s, const double *factor)
{
    const struct fit_model *m = &s->best;
    double sum = 0;
    for (uint32_t i = 0; i < m->terms; i++)
        for (uint32_t j = 0; j < m->terms; j++)
            sum += factor[i] * factor[j] * m->inverse[i][j];
    return sum > 0 ? student(s->count - m->terms) * sqrt(sum * m->variance) : 0;
}

static double gbs(double us_per_byte)
{
    return us_per_byte > 0 ? 1e-3 / us_per_byte : 0;
}

static void tell_segment(const struct search *s, uint32_t index, peal_fit_segment *out)
{
    const struct fit_model *m = &s->best;
    uint32_t first = m->flat ? 1 : 2;
    double alpha[FIT_TERMS] = {1}, slope[FIT_TERMS] = {0};
    double a = m->x[0], b = m->flat ? 0 : m->x[1];
    slope[1] = m->flat ? 0 : 1;
    for (uint32_t k = 0; k < index; k++) {
        a -= m->x[first + k] * m->bend[k];
        b += m->x[first + k];
        alpha[first + k] = -m->bend[k];
        slope[first + k] = 1;
    }
    double wide = spread(s, alpha), steep = b > 0 ? spread(s, slope) : 0;
    out->alpha_us = a;
    out->alpha_low_us = a - wide;
    out->alpha_high_us = a + wide;
    out->beta_gbs = gbs(b);
    out->beta_low_gbs = gbs(b + steep);
    out->beta_high_gbs = gbs(b - steep);
    out->min_bytes = index ? (uint64_t)m->bend[index - 1] : s->point[0].bytes;
    out->max_bytes = index < m->bends ? (uint64_t)m->bend[index] : s->point[s->count - 1].bytes;
    for (uint32_t i = 0; i < s->count; i++)
        out->points += s->point[i].bytes >= out->min_bytes && s->point[i].bytes <= out->max_bytes;
}

static void tell(const struct search *s, peal_fit *fit)
{
    double worst = 0;
    fit->segments = s->best.bends + 1;
    for (uint32_t i = 0; i < fit->segments; i++)
        tell_segment(s, i, &fit->segment[i]);
    fit->alpha_us = fit->segment[0].alpha_us;
    fit->beta_gbs = fit->segment[fit->segments - 1].beta_gbs;
    fit->crossover_bytes = fit->alpha_us * fit->beta_gbs * 1e3;
    fit->sizes = s->count;
    fit->parameters = parameters(&s->best);
    fit->outliers = s->best.outliers;
    fit->error = exp(s->best.error) - 1;
    for (uint32_t i = 0; i < s->count; i++) {
        double off = peal_fit_at(&s->best, (double)s->point[i].bytes) / s->point[i].time_us;
        if (fabs(log(off)) > worst) {
            worst = fabs(log(off));
            fit->worst_error = off - 1;
            fit->worst_bytes = s->point[i].bytes;
        }
    }
}

/* ---- */

static peal_status prepare(struct search *s, const peal_point *points, uint32_t count,
                           peal_diag *diag)
{
    for (uint32_t i = 0; i < count; i++)
        if (!points[i].bytes || !(points[i].time_us > 0) || !(points[i].time_us < 1e15))
            return peal_fail(diag, PEAL_ERR_ARG, "point %lu has no size or no time",
                             (unsigned long)i);
    memcpy(s->point, points, count * sizeof *points);
    peal_sort(s->point, count, sizeof *s->point, smaller, NULL);
    s->count = take_medians(s->point, count);
    if (s->count < 2)
        return peal_fail(diag, PEAL_ERR_ARG, "a line needs 2 sizes or more");
    if (s->count > FIT_SIZES_MAX)
        return peal_fail(diag, PEAL_ERR_LIMIT, "more than %u sizes", FIT_SIZES_MAX);
    choose_places(s);
    return PEAL_OK;
}

static peal_status run(struct search *s, const peal_point *points, uint32_t count, peal_diag *diag,
                       peal_fit *out)
{
    PEAL_TRY(prepare(s, points, count, diag));
    if (!search(s))
        return peal_fail(diag, PEAL_ERR_ARG,
                         "no line with a start-up and a bandwidth fits: larger messages take less "
                         "time");
    peal_fit fit = {.size = sizeof fit};
    tell(s, &fit);
    return peal_export(out, &fit, sizeof fit);
}

peal_status peal_fit_points(peal_ctx *ctx, const peal_point *points, uint32_t count,
                            uint32_t max_segments, peal_diag *diag, peal_fit *fit)
{
    if (!ctx || !points || !fit || max_segments > PEAL_FIT_SEGMENTS || count > FIT_POINTS_MAX)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "peal_fit_points: an argument is missing or too large");
    struct search *s = peal_calloc(ctx, 1, sizeof *s);
    struct fit_rows *rows = peal_calloc(ctx, 1, sizeof *rows);
    peal_point *copy = peal_calloc(ctx, count, sizeof *copy);
    peal_status status = PEAL_ERR_MEMORY;
    if (s && rows && copy) {
        s->rows = rows;
        s->point = copy;
        s->max_bends = (max_segments ? max_segments : PEAL_FIT_SEGMENTS) - 1;
        status = run(s, points, count, diag, fit);
    } else {
        status = peal_fail(diag, status, "out of memory while fitting");
    }
    peal_free(ctx, copy, count * sizeof *copy);
    peal_free(ctx, rows, sizeof *rows);
    peal_free(ctx, s, sizeof *s);
    return status;
}

double peal_fit_time(const peal_fit *fit, uint64_t bytes)
{
    uint32_t i = 0;
    while (i + 1 < fit->segments && bytes > fit->segment[i].max_bytes)
        i++;
    const peal_fit_segment *line = &fit->segment[i];
    return line->alpha_us + (line->beta_gbs > 0 ? (double)bytes / (line->beta_gbs * 1e3) : 0);
}
