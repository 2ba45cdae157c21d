/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of measured series. */
#include "fit.h"

#include <string.h>

peal_status peal_measured_create(peal_ctx *ctx, peal_measured **measured_out)
{
    if (!ctx || !measured_out)
        return PEAL_ERR_ARG;
    struct peal_measured *set = peal_calloc(ctx, 1, sizeof *set);
    if (!set)
        return PEAL_ERR_MEMORY;
    set->ctx = ctx;
    *measured_out = set;
    return PEAL_OK;
}

void peal_fit_clear(struct peal_measured *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        peal_free(set->ctx, set->series[i].point,
                  set->series[i].capacity * sizeof *set->series[i].point);
    peal_free(set->ctx, set->series, set->capacity * sizeof *set->series);
    set->series = NULL;
    set->count = set->capacity = 0;
}

void peal_measured_destroy(peal_measured *measured)
{
    if (!measured)
        return;
    peal_fit_clear(measured);
    peal_free(measured->ctx, measured, sizeof *measured);
}

/* The last ones first: lines of one series stand together. */
static struct fit_series *find(const struct peal_measured *set, const char *name)
{
    for (uint32_t i = set->count; i > 0; i--)
        if (peal_streq(set->series[i - 1].info.name, name))
            return &set->series[i - 1];
    return NULL;
}

static peal_status make(struct peal_measured *set, const peal_series_info *info, uint32_t line,
                        struct fit_series **out)
{
    PEAL_TRY(peal_grow(set->ctx, (void **)&set->series, &set->capacity, (size_t)set->count + 1,
                       sizeof *set->series, FIT_SERIES_MAX));
    struct fit_series *series = &set->series[set->count++];
    memset(series, 0, sizeof *series);
    series->info = *info;
    series->info.size = sizeof series->info;
    series->info.points = 0;
    series->info.line = line;
    *out = series;
    return PEAL_OK;
}

static peal_status put(struct peal_measured *set, struct fit_series *series,
                       const peal_point *point)
{
    PEAL_TRY(peal_grow(set->ctx, (void **)&series->point, &series->capacity,
                       (size_t)series->info.points + 1, sizeof *series->point, FIT_POINTS_MAX));
    series->point[series->info.points++] = *point;
    return PEAL_OK;
}

peal_status peal_fit_add(struct peal_measured *set, const peal_series_info *info,
                         const peal_point *point, uint32_t line)
{
    struct fit_series *series = find(set, info->name);
    if (!series)
        PEAL_TRY(make(set, info, line, &series));
    return put(set, series, point);
}

static int point_right(const peal_point *point)
{
    return point->bytes > 0 && point->time_us > 0 && point->time_us < 1e15;
}

peal_status peal_measured_add(peal_measured *measured, const peal_series_info *info,
                              const peal_point *points, uint32_t count, peal_diag *diag)
{
    peal_series_info full;
    struct fit_series *series;
    if (!measured || !info || (count && !points) ||
        peal_import(&full, sizeof full, info) != PEAL_OK || !full.name[0])
        return peal_fail(diag, PEAL_ERR_ARG, "peal_measured_add: a required argument is missing");
    full.name[sizeof full.name - 1] = '\0';
    for (uint32_t i = 0; i < count; i++)
        if (!point_right(&points[i]))
            return peal_fail(diag, PEAL_ERR_ARG,
                             "peal_measured_add: point %lu has no size or no time",
                             (unsigned long)i);
    peal_status status = PEAL_OK;
    series = find(measured, full.name);
    if (!series)
        status = make(measured, &full, 0, &series);
    uint32_t before = status == PEAL_OK ? series->info.points : 0;
    for (uint32_t i = 0; i < count && status == PEAL_OK; i++)
        status = put(measured, series, &points[i]);
    if (status == PEAL_OK)
        return PEAL_OK;
    if (series)
        series->info.points = before;
    return peal_fail(diag, status, "too many measurements, or out of memory");
}

uint32_t peal_measured_count(const peal_measured *measured)
{
    return measured ? measured->count : 0;
}

peal_status peal_measured_get(const peal_measured *measured, uint32_t index, peal_series_info *info,
                              const peal_point **points_out)
{
    if (!measured || index >= measured->count || !info)
        return PEAL_ERR_ARG;
    if (points_out)
        *points_out = measured->series[index].point;
    return peal_export(info, &measured->series[index].info, sizeof *info);
}

peal_status peal_measured_whole(peal_measured *measured, uint32_t index, uint32_t ranks,
                                peal_diag *diag)
{
    if (!measured || index >= measured->count || !ranks)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "peal_measured_whole: an argument is missing or wrong");
    struct fit_series *series = &measured->series[index];
    if (!series->info.of_blocks)
        return PEAL_OK;
    for (uint32_t i = 0; i < series->info.points; i++)
        if (series->point[i].bytes > UINT64_MAX / ranks)
            return peal_fail(diag, PEAL_ERR_LIMIT, "%s: blocks that are too large for %lu ranks",
                             series->info.name, (unsigned long)ranks);
    for (uint32_t i = 0; i < series->info.points; i++)
        series->point[i].bytes *= ranks;
    series->info.of_blocks = 0;
    series->info.ranks = ranks;
    return PEAL_OK;
}
