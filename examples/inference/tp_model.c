/* SPDX-License-Identifier: Apache-2.0 */
/* Weights and memory of one rank. */
#include "tp_model.h"

#include <math.h>
#include <stdlib.h>

/* ---- numbers by their place */

/* splitmix64's finaliser. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Which matrix a weight is of. */
enum part {
    PART_EMBED,
    PART_MEANING,
    PART_QUERY,
    PART_KEY,
    PART_VALUE,
    PART_OUT,
    PART_UP,
    PART_DOWN,
    PARTS
};

/* Uniform in [-scale, scale). */
static float weight(const struct shape *shape, uint32_t layer, enum part part, uint32_t row,
                    uint32_t column, float scale)
{
    uint64_t matrix = mix(shape->seed * PARTS * 4096u + layer * PARTS + (uint64_t)part + 1);
    uint64_t bits = mix(matrix + ((uint64_t)row << 32 | column));
    return scale * ((float)(bits >> 40) / 8388608.0f - 1.0f);
}

uint32_t model_prompt(const struct shape *shape, uint32_t sequence, uint32_t place)
{
    return (uint32_t)(mix(shape->seed + ((uint64_t)sequence << 32 | place) + 77) % shape->vocab);
}

/* A block [rows][columns] of a matrix, from (row, column) on, into one of `stride` columns. */
static void fill(float *to, const struct shape *shape, uint32_t layer, enum part part,
                 const uint32_t row[2], const uint32_t column[2], uint32_t stride, float scale)
{
    for (uint32_t i = 0; i < row[1]; i++)
        for (uint32_t k = 0; k < column[1]; k++)
            to[(size_t)i * stride + k] =
                weight(shape, layer, part, row[0] + i, column[0] + k, scale);
}

/* Scales keep activations near 1: a sum of n uniform values of scale s has deviation s * sqrt(n/3).
 */
static void fill_layer(const struct model *model, uint32_t number)
{
    const struct shape *shape = &model->shape;
    const struct layer *layer = &model->layer[number];
    uint32_t own = model->heads * HEAD;
    const uint32_t all[2] = {0, shape->hidden}, head[2] = {model->head * HEAD, own};
    const uint32_t unit[2] = {model->unit, model->units};
    float wide = sqrtf(3.0f / (float)shape->hidden), deep = sqrtf(3.0f / (float)shape->units);
    for (uint32_t part = 0; part < 3; part++)
        fill(layer->qkv + (size_t)part * own, shape, number, PART_QUERY + part, all, head, 3 * own,
             wide);
    fill(layer->out, shape, number, PART_OUT, head, all, shape->hidden, wide);
    fill(layer->up, shape, number, PART_UP, all, unit, model->units, wide);
    fill(layer->down, shape, number, PART_DOWN, unit, all, shape->hidden, 2 * deep);
}

/* ---- memory */

uint32_t shape_rows(const struct shape *shape)
{
    return shape->batch * shape->prompt;
}

static float *floats(size_t rows, size_t columns)
{
    return calloc(rows * columns + 1, sizeof(float));
}

static int make_layer(const struct model *model, struct layer *layer)
{
    const struct shape *shape = &model->shape;
    size_t own = (size_t)model->heads * HEAD, hidden = shape->hidden;
    size_t places = (size_t)shape->batch * (shape->prompt + shape->tokens);
    layer->qkv = floats(hidden, 3 * own);
    layer->out = floats(own, hidden);
    layer->up = floats(hidden, model->units);
    layer->down = floats(model->units, hidden);
    layer->key = floats(places, own);
    layer->value = floats(places, own);
    return layer->qkv && layer->out && layer->up && layer->down && layer->key && layer->value;
}

static int make_buffers(struct model *model)
{
    const struct shape *shape = &model->shape;
    size_t rows = shape_rows(shape), own = (size_t)model->heads * HEAD, hidden = shape->hidden;
    model->embed = floats(shape->vocab, hidden);
    model->meaning = floats(shape->vocab, hidden);
    model->x = floats(rows, hidden);
    model->normed = floats(rows, hidden);
    model->inner = floats(rows, 3 * own > model->units ? 3 * own : model->units);
    model->mixed = floats(rows, own);
    model->score = floats(1, shape->prompt + shape->tokens);
    model->logits = floats(shape->batch, shape->vocab);
    return model->embed && model->meaning && model->x && model->normed && model->inner &&
           model->mixed && model->score && model->logits;
}

/* Rank r of n has [r * all / n, (r + 1) * all / n): also where n does not divide. */
static void cut(uint32_t all, uint32_t rank, uint32_t ranks, uint32_t *first, uint32_t *count)
{
    *first = (uint32_t)((uint64_t)all * rank / ranks);
    *count = (uint32_t)((uint64_t)all * (rank + 1) / ranks) - *first;
}

int model_make(struct model *model, const struct shape *shape, uint32_t rank, uint32_t ranks)
{
    *model = (struct model){.shape = *shape, .rank = rank, .ranks = ranks};
    cut(shape->heads, rank, ranks, &model->head, &model->heads);
    cut(shape->units, rank, ranks, &model->unit, &model->units);
    model->layer = calloc(shape->layers, sizeof *model->layer);
    int made = model->layer && make_buffers(model);
    for (uint32_t i = 0; i < shape->layers && made; i++) {
        made = make_layer(model, &model->layer[i]);
        if (made)
            fill_layer(model, i);
    }
    const uint32_t vocab[2] = {0, shape->vocab}, all[2] = {0, shape->hidden};
    if (made) {
        fill(model->embed, shape, 0, PART_EMBED, vocab, all, shape->hidden, 1.7f);
        fill(model->meaning, shape, 0, PART_MEANING, vocab, all, shape->hidden, 1.7f);
    }
    return made;
}

void model_free(struct model *model)
{
    for (uint32_t i = 0; model->layer && i < model->shape.layers; i++) {
        float *const all[] = {model->layer[i].qkv,  model->layer[i].out, model->layer[i].up,
                              model->layer[i].down, model->layer[i].key, model->layer[i].value};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            free(all[k]);
    }
    float *const all[] = {model->embed, model->meaning, model->x,     model->normed,
                          model->inner, model->mixed,   model->score, model->logits};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        free(all[k]);
    free(model->layer);
}
