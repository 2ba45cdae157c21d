/* SPDX-License-Identifier: Apache-2.0 */
/* Weighted least squares by the normal equations, columns scaled to one first. */
#include "fit.h"

#include <math.h>
#include <string.h>

#define PIVOT_MIN 1e-14 /* of a scaled diagonal: below it a term is a sum of others */

struct normal {
    uint32_t terms;
    double scale[FIT_TERMS];
    double m[FIT_TERMS][FIT_TERMS];
    double right[FIT_TERMS];
};

static int scale_columns(const struct fit_rows *rows, struct normal *n)
{
    for (uint32_t j = 0; j < rows->terms; j++) {
        double sum = 0;
        for (uint32_t i = 0; i < rows->rows; i++)
            sum += rows->weight[i] * rows->a[i][j] * rows->a[i][j];
        if (!(sum > 0))
            return 0;
        n->scale[j] = 1 / sqrt(sum);
    }
    return 1;
}

static void add_up(const struct fit_rows *rows, struct normal *n)
{
    for (uint32_t i = 0; i < rows->rows; i++)
        for (uint32_t j = 0; j < rows->terms; j++) {
            double wa = rows->weight[i] * rows->a[i][j] * n->scale[j];
            n->right[j] += wa;
            for (uint32_t k = 0; k <= j; k++)
                n->m[j][k] += wa * rows->a[i][k] * n->scale[k];
        }
}

/* m = l l', in place. */
static int cholesky(struct normal *n)
{
    for (uint32_t j = 0; j < n->terms; j++) {
        double d = n->m[j][j];
        for (uint32_t k = 0; k < j; k++)
            d -= n->m[j][k] * n->m[j][k];
        if (!(d > PIVOT_MIN))
            return 0;
        n->m[j][j] = sqrt(d);
        for (uint32_t i = j + 1; i < n->terms; i++) {
            double sum = n->m[i][j];
            for (uint32_t k = 0; k < j; k++)
                sum -= n->m[i][k] * n->m[j][k];
            n->m[i][j] = sum / n->m[j][j];
        }
    }
    return 1;
}

static void substitute(const struct normal *n, const double *right, double *x)
{
    for (uint32_t i = 0; i < n->terms; i++) {
        x[i] = right[i];
        for (uint32_t k = 0; k < i; k++)
            x[i] -= n->m[i][k] * x[k];
        x[i] /= n->m[i][i];
    }
    for (uint32_t i = n->terms; i-- > 0;) {
        for (uint32_t k = i + 1; k < n->terms; k++)
            x[i] -= n->m[k][i] * x[k];
        x[i] /= n->m[i][i];
    }
}

int peal_fit_solve(const struct fit_rows *rows, double *x, double inverse[FIT_TERMS][FIT_TERMS])
{
    struct normal n;
    double unit[FIT_TERMS], column[FIT_TERMS];
    memset(&n, 0, sizeof n);
    n.terms = rows->terms < FIT_TERMS ? rows->terms : FIT_TERMS;
    if (!scale_columns(rows, &n))
        return 0;
    add_up(rows, &n);
    if (!cholesky(&n))
        return 0;
    substitute(&n, n.right, x);
    for (uint32_t j = 0; j < n.terms; j++) {
        memset(unit, 0, sizeof unit);
        unit[j] = 1;
        substitute(&n, unit, column);
        for (uint32_t i = 0; i < n.terms; i++)
            inverse[i][j] = column[i] * n.scale[i] * n.scale[j];
    }
    for (uint32_t j = 0; j < n.terms; j++)
        x[j] *= n.scale[j];
    return 1;
}
