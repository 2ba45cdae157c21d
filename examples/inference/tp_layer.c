/* SPDX-License-Identifier: Apache-2.0 */
/* The passes of one rank through its shard. Every loop adds in a fixed order, so that one rank's
 * partial sums are the same on every run. */
#include "tp_model.h"

#include <math.h>
#include <string.h>

/* to[rows][columns] = from[rows][inner] * matrix[inner][columns] */
static void multiply(float *to, const float *from, const float *matrix, size_t rows, size_t inner,
                     size_t columns)
{
    memset(to, 0, rows * columns * sizeof *to);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < inner; i++) {
            float *restrict line = to + r * columns;
            const float *restrict weights = matrix + i * columns;
            float factor = from[r * inner + i];
            for (size_t k = 0; k < columns; k++)
                line[k] += factor * weights[k];
        }
}

/* RMS norm of each row, without gains. */
static void norm(float *to, const float *from, size_t rows, size_t columns)
{
    for (size_t r = 0; r < rows; r++) {
        const float *line = from + r * columns;
        float squares = 0;
        for (size_t k = 0; k < columns; k++)
            squares += line[k] * line[k];
        float factor = 1.0f / sqrtf(squares / (float)columns + 1e-6f);
        for (size_t k = 0; k < columns; k++)
            to[r * columns + k] = line[k] * factor;
    }
}

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

static void softmax(float *score, uint32_t n)
{
    float most = score[0], sum = 0;
    for (uint32_t i = 1; i < n; i++)
        most = score[i] > most ? score[i] : most;
    for (uint32_t i = 0; i < n; i++)
        sum += score[i] = expf(score[i] - most);
    for (uint32_t i = 0; i < n; i++)
        score[i] /= sum;
}

/* One head of one sequence at one position over all up to it. Places are told apart as ALiBi does
 * it: a score falls with the distance, by each head in its own measure. */
static void attend(struct model *model, const struct layer *layer, uint32_t sequence, uint32_t head,
                   uint32_t position, const float *query, float *to)
{
    size_t own = (size_t)model->heads * HEAD;
    size_t first = (size_t)sequence * (model->shape.prompt + model->shape.tokens);
    const float *key = layer->key + first * own + (size_t)head * HEAD;
    const float *value = layer->value + first * own + (size_t)head * HEAD;
    float slope = exp2f(-8.0f * (float)(model->head + head + 1) / (float)model->shape.heads);
    for (uint32_t p = 0; p <= position; p++)
        model->score[p] =
            dot(query, key + p * own, HEAD) / sqrtf((float)HEAD) - slope * (float)(position - p);
    softmax(model->score, position + 1);
    memset(to, 0, HEAD * sizeof *to);
    for (uint32_t p = 0; p <= position; p++)
        for (uint32_t k = 0; k < HEAD; k++)
            to[k] += model->score[p] * value[p * own + k];
}

/* Of one row: its key and value go into the cache, then all own heads look at the cache. */
static void attend_row(struct model *model, const struct layer *layer, uint32_t row,
                       uint32_t sequence, uint32_t position)
{
    size_t own = (size_t)model->heads * HEAD;
    size_t place = (size_t)sequence * (model->shape.prompt + model->shape.tokens) + position;
    const float *qkv = model->inner + row * 3 * own;
    memcpy(layer->key + place * own, qkv + own, own * sizeof *qkv);
    memcpy(layer->value + place * own, qkv + 2 * own, own * sizeof *qkv);
    for (uint32_t h = 0; h < model->heads; h++)
        attend(model, layer, sequence, h, position, qkv + (size_t)h * HEAD,
               model->mixed + row * own + (size_t)h * HEAD);
}

/* What this rank's heads add to the activations. */
static void attention(struct model *model, const struct layer *layer, uint32_t n, uint32_t past,
                      float *partial)
{
    size_t rows = (size_t)model->shape.batch * n, hidden = model->shape.hidden;
    size_t own = (size_t)model->heads * HEAD;
    norm(model->normed, model->x, rows, hidden);
    multiply(model->inner, model->normed, layer->qkv, rows, hidden, 3 * own);
    for (uint32_t s = 0; s < model->shape.batch; s++)
        for (uint32_t i = 0; i < n; i++)
            attend_row(model, layer, s * n + i, s, past + i);
    multiply(partial, model->mixed, layer->out, rows, own, hidden);
}

/* What this rank's units add to them: SiLU between two matrices. */
static void mlp(struct model *model, const struct layer *layer, size_t rows, float *partial)
{
    size_t hidden = model->shape.hidden, units = model->units;
    norm(model->normed, model->x, rows, hidden);
    multiply(model->inner, model->normed, layer->up, rows, hidden, units);
    for (size_t i = 0; i < rows * units; i++)
        model->inner[i] /= 1.0f + expf(-model->inner[i]);
    multiply(partial, model->inner, layer->down, rows, units, hidden);
}

static void add(float *to, const float *what, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += what[i];
}

/* Logits of the last row of each sequence. */
static void look_up(struct model *model, uint32_t n)
{
    const struct shape *shape = &model->shape;
    for (uint32_t s = 0; s < shape->batch; s++) {
        norm(model->normed, model->x + (size_t)(s * n + n - 1) * shape->hidden, 1, shape->hidden);
        for (uint32_t v = 0; v < shape->vocab; v++)
            model->logits[(size_t)s * shape->vocab + v] =
                dot(model->normed, model->meaning + (size_t)v * shape->hidden, shape->hidden) /
                sqrtf((float)shape->hidden);
    }
}

int model_pass(struct model *model, const uint32_t *token, uint32_t n, uint32_t past,
               float *partial, sum_fn sum, void *user)
{
    uint32_t rows = model->shape.batch * n;
    size_t hidden = model->shape.hidden;
    for (uint32_t r = 0; r < rows; r++)
        memcpy(model->x + r * hidden, model->embed + token[r] * hidden, hidden * sizeof(float));
    for (uint32_t l = 0; l < model->shape.layers; l++) {
        attention(model, &model->layer[l], n, past, partial);
        if (!sum(user))
            return 0;
        add(model->x, partial, rows * hidden);
        mlp(model, &model->layer[l], rows, partial);
        if (!sum(user))
            return 0;
        add(model->x, partial, rows * hidden);
    }
    look_up(model, n);
    return 1;
}

uint32_t model_greedy(const struct model *model, uint32_t sequence, float *lead)
{
    const float *logit = model->logits + (size_t)sequence * model->shape.vocab;
    uint32_t best = 0;
    float second = -INFINITY;
    for (uint32_t v = 1; v < model->shape.vocab; v++) {
        if (logit[v] > logit[best]) {
            second = logit[best];
            best = v;
        } else if (logit[v] > second) {
            second = logit[v];
        }
    }
    *lead = logit[best] - second;
    return best;
}
