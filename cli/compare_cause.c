/* SPDX-License-Identifier: Apache-2.0 */
/* Where the loss is: a latency floor, missing bandwidth, another algorithm, or all of the machine.
 */
#include "compare.h"

#include <math.h>
#include <stdlib.h>

#define BUMP 1.4      /* over the sizes on both sides: another algorithm would do better */
#define LARGEST 4u    /* sizes that tell the bandwidth */
#define NIC_NEAR 0.04 /* of the ratio that missing NICs would make */
#define ALIKE 0.04    /* of each other: small and large sizes are slower by as much */
#define AS_IF 0.12    /* ln: so near are the times of sizes to those of an algorithm */
#define SIMPLER 0.6   /* of what a factor or a start-up leaves unexplained */
#define RUN 3u        /* sizes in a row */

static int up(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* By the measured start-up and bandwidth, where there are such. */
int compare_latency_bound(const struct comparison *c, const struct size_row *size)
{
    if (c->has_fit && c->measured.beta_gbs > 0)
        return (double)size->point.bytes < c->measured.crossover_bytes;
    return size->row.latency_bound;
}

static double median_of(double *value, uint32_t count)
{
    qsort(value, count, sizeof *value, up);
    return count ? (value[(count - 1) / 2] + value[count / 2]) / 2 : 0;
}

/* Of the sizes on that side, of those that are bound by bandwidth the largest few; but not of those
 * that are known to be of another algorithm. */
static double median_ratio(const struct comparison *c, int latency)
{
    double *all = need(calloc(c->sizes ? c->sizes : 1, sizeof *all));
    uint32_t count = 0;
    for (uint32_t i = c->sizes; i-- > 0;)
        if (compare_latency_bound(c, &c->size[i]) == latency && !c->size[i].as_if &&
            (latency || count < LARGEST))
            all[count++] = c->size[i].ratio;
    double median = median_of(all, count);
    free(all);
    return median;
}

/* The larger of the least ratios on either side: what a size without a bump of its own would be. */
static double reference(const struct comparison *c, uint32_t at)
{
    double before = c->size[at].ratio, after = before;
    for (uint32_t i = 0; i < at; i++)
        before = fmin(before, c->size[i].ratio);
    for (uint32_t i = at + 1; i < c->sizes; i++)
        after = fmin(after, c->size[i].ratio);
    return fmax(before, after);
}

static enum cause cause_of(const struct comparison *c, uint32_t at)
{
    const struct size_row *size = &c->size[at];
    if (size->ratio < 1 / LOSS)
        return FASTER;
    if (size->ratio < LOSS)
        return AS_PREDICTED;
    if (size->as_if || size->ratio > BUMP * reference(c, at))
        return ALGORITHM;
    return compare_latency_bound(c, size) ? LATENCY : BANDWIDTH;
}

/* How many of a host's NICs, half at most, would have to be missing for that ratio; 0: no number
 * fits. */
static uint32_t missing_nics(const struct comparison *c)
{
    for (uint32_t gone = 1; c->hosts > 1 && 2 * gone <= c->nics; gone++)
        if (fabs(c->bandwidth_ratio * (c->nics - gone) / c->nics - 1) < NIC_NEAR)
            return gone;
    return 0;
}

/* ---- whose times they are */

enum { BY_FACTOR = -2, BY_START_UP = -1 }; /* from 0: by an algorithm */

/* How far sizes from..to-1 are off what explains them: a factor, a start-up more in each, or
 * another algorithm, which has to serve all of them. */
static double explained(const struct comparison *c, uint32_t from, uint32_t to, int by)
{
    double *value = need(calloc(to - from, sizeof *value)), more = 0;
    uint32_t count = 0;
    for (uint32_t i = from; i < to && by < 0; i++) {
        const struct size_row *s = &c->size[i];
        value[count++] = by == BY_FACTOR ? s->ratio : s->point.time_us - s->row.time_us;
    }
    more = median_of(value, count);
    count = 0;
    for (uint32_t i = from; i < to; i++) {
        const struct size_row *s = &c->size[i];
        double time = by == BY_FACTOR     ? more * s->row.time_us
                      : by == BY_START_UP ? more + s->row.time_us
                                          : s->other_us[by];
        value[count++] = time > 0 ? fabs(log(s->point.time_us / time)) : INFINITY;
    }
    double off = 0;
    for (uint32_t i = 0; i < count; i++)
        off += value[i] / count;
    free(value);
    return off;
}

/* The times of an algorithm that is not planned, where nothing simpler is as near: what makes
 * start-ups longer does so in the smallest sizes too. */
static void name_algorithm(struct comparison *c, uint32_t from, uint32_t to)
{
    double factor = explained(c, from, to, BY_FACTOR);
    double start_up = from == 0 ? explained(c, from, to, BY_START_UP) : INFINITY;
    double least = fmin(AS_IF, SIMPLER * fmin(factor, start_up));
    for (uint32_t a = 0; to - from >= RUN && a < OTHERS && peal_algorithm_name(a); a++) {
        double off = explained(c, from, to, (int)a);
        if (off >= least)
            continue;
        least = off;
        for (uint32_t i = from; i < to; i++)
            c->size[i].as_if = peal_algorithm_name(a);
    }
}

/* Single sizes that lose, to an algorithm that has been named already. */
static void name_others(struct comparison *c, uint32_t algorithm)
{
    const char *name = peal_algorithm_name(algorithm);
    uint32_t named = 0;
    for (uint32_t i = 0; i < c->sizes; i++)
        named += c->size[i].as_if == name;
    for (uint32_t i = 0; named && i < c->sizes; i++) {
        struct size_row *s = &c->size[i];
        if (s->ratio >= LOSS && !s->as_if && s->other_us[algorithm] > 0 &&
            fabs(log(s->point.time_us / s->other_us[algorithm])) < AS_IF)
            s->as_if = name;
    }
}

/* In each run of sizes that lose. */
static void name_algorithms(struct comparison *c)
{
    for (uint32_t from = 0, to; from < c->sizes; from = to + 1) {
        for (to = from; to < c->sizes && c->size[to].ratio >= LOSS;)
            to++;
        if (to > from)
            name_algorithm(c, from, to);
    }
    for (uint32_t a = 0; a < OTHERS && peal_algorithm_name(a); a++)
        name_others(c, a);
}

static void fit_both(struct comparison *c)
{
    peal_point *other = need(calloc(c->sizes ? c->sizes : 1, sizeof *other));
    for (uint32_t i = 0; i < c->sizes; i++)
        other[i] = (peal_point){c->size[i].point.bytes, c->size[i].row.time_us};
    c->measured.size = c->predicted.size = sizeof c->measured;
    c->has_fit =
        peal_fit_points(c->cli->ctx, c->point, c->sizes, 0, NULL, &c->measured) == PEAL_OK &&
        peal_fit_points(c->cli->ctx, other, c->sizes, 0, NULL, &c->predicted) == PEAL_OK;
    free(other);
}

void compare_judge(struct comparison *c)
{
    int other = 0;
    fit_both(c);
    name_algorithms(c);
    c->latency_ratio = median_ratio(c, 1);
    c->bandwidth_ratio = median_ratio(c, 0);
    for (uint32_t i = 0; i < c->sizes; i++) {
        c->size[i].cause = cause_of(c, i);
        other |= c->size[i].cause == ALGORITHM;
    }
    if (!other && c->latency_ratio > 1 + ALIKE &&
        fabs(c->latency_ratio / c->bandwidth_ratio - 1) < ALIKE)
        c->alike = (c->latency_ratio + c->bandwidth_ratio) / 2;
    else
        c->missing = missing_nics(c);
}
