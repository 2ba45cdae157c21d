/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates: arithmetic of a model's communication, and what was planned for it. */
#ifndef PEAL_MODEL_ESTIMATE_H
#define PEAL_MODEL_ESTIMATE_H

#include "base.h"

#define ESTIMATE_AXES 24u
#define ESTIMATE_BUCKETS 8u

struct peal_estimate {
    peal_ctx *ctx;
    peal_model model; /* zero fields filled in */
    peal_estimate_params params;
    peal_estimate_info info;
    peal_estimate_axis axis[ESTIMATE_AXES];
    peal_estimate_bucket bucket[ESTIMATE_BUCKETS];
};

/* ---- estimate_model.c: what a model and its splits come to. Bytes and counts of one rank. */
peal_status peal_estimate_fill(peal_model *model, peal_estimate_params *params, uint32_t ranks,
                               peal_diag *diag);
uint64_t peal_estimate_expert_params(const peal_model *model);
uint64_t peal_estimate_active_params(const peal_model *model);
uint64_t peal_estimate_activation(const peal_model *model); /* bytes, of one micro-batch */
/* Parts of a sequence beyond those of tensor parallelism; and the ranks that gradients are of. */
uint32_t peal_estimate_parts(const peal_estimate_params *params);
uint32_t peal_estimate_data(const peal_estimate_params *params);
uint64_t peal_estimate_layers(uint32_t layers, uint32_t stages);
/* Gradient bytes: of what all replicas have, and of the experts of which each has some. */
uint64_t peal_estimate_dense_bytes(const peal_model *model, const peal_estimate_params *params);
uint64_t peal_estimate_expert_bytes(const peal_model *model, const peal_estimate_params *params);
double peal_estimate_compute_us(const peal_model *model, const peal_estimate_params *params);
/* Of a layer and micro-batch, forward: the attention of one part of the sequences to one other. */
double peal_estimate_attention_us(const peal_model *model, const peal_estimate_params *params);

/* ---- estimate_text.c: the closed forms of rings, in us */
double peal_estimate_text_us(peal_collective collective, uint32_t ranks, double bytes,
                             double alpha_us, double beta_gbs);

/* ---- estimate_group.c */
/* The ranks r, r + stride, ..., `size` of them, where r / stride is a multiple of size: the group
 * of an axis that rank 0 is in, and its siblings. */
struct estimate_group {
    uint32_t ranks; /* of all groups */
    uint32_t size;
    uint32_t stride;
    int ring; /* of pairs: the last one has the first for its next */
};
uint32_t peal_estimate_member(const struct estimate_group *group, uint32_t number, uint32_t place);
/* Fills what a plan says of axis->collective and axis->bytes, and the textbook's figure. */
peal_status peal_estimate_plan(const peal_estimate *estimate, const peal_fabric *fabric,
                               const struct estimate_group *group, peal_estimate_axis *axis,
                               peal_diag *diag);

/* ---- estimate_bucket.c */
/* When bucket `index` is full (the last, which is smaller, at the end of the backward pass), begins
 * and ends; free_us is where the one before ended. */
struct estimate_slot {
    double ready_us;
    double start_us;
    double end_us;
};
struct estimate_slot peal_estimate_slot(const peal_estimate_bucket *bucket, uint64_t total_bytes,
                                        double backward_us, uint32_t index, double free_us);
/* exposed_us, total_us and first_share of a bucket whose bytes, count and call are set. */
void peal_estimate_drain(peal_estimate_bucket *bucket, uint64_t total_bytes, double backward_us);
/* Sizes in rising order. */
void peal_estimate_choose(peal_estimate_bucket *bucket, uint32_t count, double backward_us);
peal_status peal_estimate_buckets(peal_estimate *estimate, const peal_fabric *fabric,
                                  peal_diag *diag);
/* The groups of data parallelism, of the experts' gradients too. */
struct estimate_group peal_estimate_dp(const peal_estimate *estimate);
struct estimate_group peal_estimate_edp(const peal_estimate *estimate);
uint64_t peal_estimate_gradient(const peal_estimate *estimate); /* bytes of both */

#endif
