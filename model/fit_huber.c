/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines that meet at given bends, fitted to relative deviations: row i of size s and time t says
 * that (alpha + slope s + sum of bends) / t = 1. Huber's weights, found again from the deviations
 * until they settle, keep a few wild times from pulling the lines.
 */
#include "fit.h"

#include "sort.h"

#include <math.h>

#define ROUNDS 20u
#define HUBER 1.345    /* of the scale: 95 % efficient where there are no outliers */
#define MAD 1.4826     /* from the median deviation to a normal scale */
#define SCALE_MIN 1e-9 /* exact data */

double peal_fit_at(const struct fit_model *model, double bytes)
{
    uint32_t first = model->flat ? 1 : 2;
    double time = model->x[0];
    if (!model->flat)
        time += model->x[1] * bytes;
    for (uint32_t b = 0; b < model->bends; b++)
        if (bytes > model->bend[b])
            time += model->x[first + b] * (bytes - model->bend[b]);
    return time;
}

static void fill(struct fit_rows *rows, const peal_point *point, uint32_t count,
                 const struct fit_model *model)
{
    rows->rows = count;
    rows->terms = model->terms;
    for (uint32_t i = 0; i < count; i++) {
        double bytes = (double)point[i].bytes, inverse = 1 / point[i].time_us;
        uint32_t term = 0;
        rows->a[i][term++] = inverse;
        if (!model->flat)
            rows->a[i][term++] = bytes * inverse;
        for (uint32_t b = 0; b < model->bends; b++)
            rows->a[i][term++] = bytes > model->bend[b] ? (bytes - model->bend[b]) * inverse : 0;
        rows->weight[i] = 1;
    }
}

static int less(const void *a, const void *b, const void *with)
{
    (void)with;
    return *(const double *)a < *(const double *)b;
}

static double deviation(const struct fit_model *model, const peal_point *point)
{
    return fabs(peal_fit_at(model, (double)point->bytes) / point->time_us - 1);
}

static double scale_of(const struct fit_model *model, const peal_point *point, uint32_t count)
{
    double all[FIT_SIZES_MAX];
    for (uint32_t i = 0; i < count; i++)
        all[i] = deviation(model, &point[i]);
    peal_sort(all, count, sizeof *all, less, NULL);
    double scale = MAD * all[count / 2];
    return scale > SCALE_MIN ? scale : SCALE_MIN;
}

static void weigh(struct fit_rows *rows, struct fit_model *model, const peal_point *point,
                  uint32_t count)
{
    model->scale = scale_of(model, point, count);
    model->outliers = 0;
    for (uint32_t i = 0; i < count; i++) {
        double off = deviation(model, &point[i]);
        rows->weight[i] = off > HUBER * model->scale ? HUBER * model->scale / off : 1;
        if (off > 2 * HUBER * model->scale && off > 0.01)
            model->outliers++;
    }
}

/* No start-up and no bandwidth is below 0. */
static int possible(const struct fit_model *model)
{
    uint32_t first = model->flat ? 1 : 2;
    double slope = model->flat ? 0 : model->x[1];
    if (model->x[0] < 0 || slope < 0)
        return 0;
    for (uint32_t b = 0; b < model->bends; b++) {
        slope += model->x[first + b];
        if (!(slope > 0))
            return 0;
    }
    return 1;
}

static int judge(struct fit_model *model, const struct fit_rows *rows, const peal_point *point,
                 uint32_t count)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        double time = peal_fit_at(model, (double)point[i].bytes), off;
        if (!(time > 0))
            return 0;
        sum += fabs(log(time / point[i].time_us));
        off = time / point[i].time_us - 1;
        squares += rows->weight[i] * off * off;
    }
    model->error = sum / count;
    model->variance = count > model->terms ? squares / (count - model->terms) : 0;
    return 1;
}

int peal_fit_huber(struct fit_rows *rows, const peal_point *point, uint32_t count,
                   struct fit_model *model)
{
    model->terms = (model->flat ? 1 : 2) + model->bends;
    if (count < model->terms)
        return 0;
    fill(rows, point, count, model);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        double before = model->error;
        if (!peal_fit_solve(rows, model->x, model->inverse))
            return 0;
        if (!judge(model, rows, point, count))
            return 0;
        if (round && fabs(model->error - before) <= 1e-6 * before)
            break;
        weigh(rows, model, point, count);
    }
    return possible(model);
}
