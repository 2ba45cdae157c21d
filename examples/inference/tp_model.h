/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small transformer, cut for tensor parallelism as Megatron-LM cuts one: every rank has some of
 * the attention heads and some of the units of the MLP, and everything else whole. So each layer
 * has two places where the ranks' partial sums have to be added up.
 *
 * Weights are functions of a seed and of their place in the uncut matrix: ranks make their shards
 * without talking, and any number of ranks has one model.
 */
#ifndef INFERENCE_TP_MODEL_H
#define INFERENCE_TP_MODEL_H

#include <stddef.h>
#include <stdint.h>

struct shape {
    uint32_t layers;
    uint32_t hidden; /* width of an activation: heads * HEAD */
    uint32_t heads;
    uint32_t units; /* of the MLP */
    uint32_t vocab;
    uint32_t batch;  /* sequences that are decoded at once */
    uint32_t prompt; /* tokens that each begins with */
    uint32_t tokens; /* that are made of each */
    uint64_t seed;
};
#define HEAD 16u /* values of an attention head */

/* A rank's part of a layer. Matrices are [input][output], so that what is added to one output
 * comes in one order, whatever the compiler does with the loop over outputs. */
struct layer {
    float *qkv;   /* [hidden][3][own heads * HEAD] */
    float *out;   /* [own heads * HEAD][hidden] */
    float *up;    /* [hidden][own units] */
    float *down;  /* [own units][hidden] */
    float *key;   /* cache: [batch][prompt + tokens][own heads * HEAD] */
    float *value; /* likewise */
};

/* Adds up the partial sums of all ranks, in place; 0: it failed. */
typedef int (*sum_fn)(void *user);

struct model {
    struct shape shape;
    uint32_t rank, ranks;
    uint32_t head, heads; /* the first one and how many of the rank */
    uint32_t unit, units;
    struct layer *layer;
    float *embed;   /* [vocab][hidden]: what a token begins as, */
    float *meaning; /* likewise: and what it is recognised by */
    float *x;       /* [rows][hidden], rows: as many as a prefill has */
    float *normed;  /* likewise */
    float *inner;   /* [rows][the larger of 3 * own heads * HEAD and own units] */
    float *mixed;   /* [rows][own heads * HEAD] */
    float *score;   /* [prompt + tokens] */
    float *logits;  /* [batch][vocab], of the last position of each sequence */
};

/* Rows of activations of a prefill, the most that a pass has. */
uint32_t shape_rows(const struct shape *shape);
/* 0: no memory. */
int model_make(struct model *model, const struct shape *shape, uint32_t rank, uint32_t ranks);
void model_free(struct model *model);
/* The prompt's token at a place: as good as any. */
uint32_t model_prompt(const struct shape *shape, uint32_t sequence, uint32_t place);

/* ---- tp_layer.c */
/* Takes n tokens of each sequence, token[sequence * n + i], at positions from `past` on, through
 * all layers; model->logits are of the last one. `partial` has room for batch * n rows, and is
 * what sum adds up. 0: sum failed. */
int model_pass(struct model *model, const uint32_t *token, uint32_t n, uint32_t past,
               float *partial, sum_fn sum, void *user);
/* The token with the largest logit; *lead: by how much. */
uint32_t model_greedy(const struct model *model, uint32_t sequence, float *lead);

#endif
