/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients in buckets. The backward pass fills them evenly; they are sent one after the other.
 * Small ones are many start-ups, large ones leave late: what reaches beyond the backward pass is
 * what a step pays.
 */
#include "estimate.h"

#define MIB (1ull << 20)
#define EARLY 0.15     /* of the backward pass: the first bucket has left */
#define START_UPS 0.05 /* of a call, at most: it is bandwidth-bound, whatever starts it */
#define BALANCE 0.5    /* of a call: below it start-ups are the smaller part */
#define AS_GOOD 1.01   /* times the shortest backward pass with what is exposed behind it */
#define COUNT_MAX 1000000u

static const uint64_t sizes[] = {1, 5, 25, 50, 100, 250, 500}; /* MiB; 25 is PyTorch's default */

struct estimate_slot peal_estimate_slot(const peal_estimate_bucket *bucket, uint64_t total_bytes,
                                        double backward_us, uint32_t index, double free_us)
{
    double full = (double)bucket->bytes * (index + 1.0) / (double)total_bytes;
    double part = 1;
    struct estimate_slot slot;
    if (index + 1 == bucket->count) {
        part = ((double)total_bytes - (double)bucket->bytes * index) / (double)bucket->bytes;
        full = 1;
    }
    slot.ready_us = backward_us * full;
    slot.start_us = slot.ready_us > free_us ? slot.ready_us : free_us;
    slot.end_us = slot.start_us + bucket->alpha_us + (bucket->call_us - bucket->alpha_us) * part;
    return slot;
}

void peal_estimate_drain(peal_estimate_bucket *bucket, uint64_t total_bytes, double backward_us)
{
    double end = 0;
    bucket->total_us = 0;
    for (uint32_t i = 0; i < bucket->count; i++) {
        struct estimate_slot slot = peal_estimate_slot(bucket, total_bytes, backward_us, i, end);
        bucket->total_us += slot.end_us - slot.start_us;
        end = slot.end_us;
    }
    bucket->exposed_us = end > backward_us ? end - backward_us : 0;
    bucket->first_share = bucket->count > 1 ? (double)bucket->bytes / (double)total_bytes : 1;
    bucket->good = bucket->first_share <= EARLY && !bucket->latency_bound &&
                   bucket->alpha_us <= START_UPS * bucket->call_us;
}

static uint64_t picoseconds(double us)
{
    return (uint64_t)(us * 1e6 + 0.5);
}

/* 2: as a bucket should be; 1: early, and with more bytes than start-ups in it; 0: neither. */
static int merit(const peal_estimate_bucket *bucket)
{
    if (bucket->good)
        return 2;
    return bucket->first_share <= EARLY && !bucket->latency_bound &&
           bucket->alpha_us <= BALANCE * bucket->call_us;
}

void peal_estimate_choose(peal_estimate_bucket *bucket, uint32_t count, double backward_us)
{
    uint64_t least = UINT64_MAX;
    int best = 0;
    for (uint32_t i = 0; i < count; i++)
        best = merit(&bucket[i]) > best ? merit(&bucket[i]) : best;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t here = picoseconds(backward_us + bucket[i].exposed_us);
        if (merit(&bucket[i]) == best && here < least)
            least = here;
    }
    for (uint32_t i = 0; i < count; i++) {
        double us = backward_us + bucket[i].exposed_us;
        if (merit(&bucket[i]) != best || picoseconds(us / AS_GOOD) > least)
            continue;
        bucket[i].chosen = 1;
        return;
    }
}

/* ---- */

uint64_t peal_estimate_gradient(const peal_estimate *estimate)
{
    uint64_t bytes = peal_estimate_dense_bytes(&estimate->model, &estimate->params);
    if (peal_estimate_data(&estimate->params) > estimate->params.ep)
        bytes += peal_estimate_expert_bytes(&estimate->model, &estimate->params);
    return bytes;
}

static peal_status add_part(peal_estimate *estimate, const peal_fabric *fabric,
                            struct estimate_group group, uint64_t bytes,
                            peal_estimate_bucket *bucket, peal_diag *diag)
{
    peal_estimate_axis call = {
        .collective = estimate->params.zero ? PEAL_REDUCE_SCATTER : PEAL_ALLREDUCE, .bytes = bytes};
    if (!bytes || group.size < 2)
        return PEAL_OK;
    PEAL_TRY(peal_estimate_plan(estimate, fabric, &group, &call, diag));
    bucket->call_us += call.call_us;
    bucket->latency_bound |= call.latency_bound;
    bucket->alpha_us += call.alpha_us;
    return PEAL_OK;
}

/* A bucket holds of experts' gradients the part that all gradients do. */
static peal_status add_bucket(peal_estimate *estimate, const peal_fabric *fabric, uint64_t bytes,
                              peal_diag *diag)
{
    uint64_t total = peal_estimate_gradient(estimate);
    peal_estimate_bucket *bucket = &estimate->bucket[estimate->info.buckets];
    double dense = (double)peal_estimate_dense_bytes(&estimate->model, &estimate->params);
    uint64_t share = (uint64_t)((double)bytes * (dense / (double)total));
    uint64_t count = total / bytes + (total % bytes != 0);
    if (count > COUNT_MAX)
        return peal_fail(diag, PEAL_ERR_ARG, "buckets of %llu bytes: more than a million of them",
                         (unsigned long long)bytes);
    *bucket = (peal_estimate_bucket){.size = sizeof *bucket, .bytes = bytes};
    bucket->count = (uint32_t)count;
    share = share < bytes ? share : bytes;
    PEAL_TRY(add_part(estimate, fabric, peal_estimate_dp(estimate), share, bucket, diag));
    PEAL_TRY(add_part(estimate, fabric, peal_estimate_edp(estimate), bytes - share, bucket, diag));
    peal_estimate_drain(bucket, total, estimate->info.backward_us);
    estimate->info.buckets++;
    return PEAL_OK;
}

static peal_status add_buckets(peal_estimate *estimate, const peal_fabric *fabric, uint64_t total,
                               peal_diag *diag)
{
    uint64_t given = estimate->params.bucket_bytes;
    if (given)
        return add_bucket(estimate, fabric, given < total ? given : total, diag);
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t bytes = sizes[i] * MIB;
        if (total / bytes > COUNT_MAX)
            continue;
        PEAL_TRY(add_bucket(estimate, fabric, bytes < total ? bytes : total, diag));
        if (bytes >= total)
            break;
    }
    return PEAL_OK;
}

peal_status peal_estimate_buckets(peal_estimate *estimate, const peal_fabric *fabric,
                                  peal_diag *diag)
{
    uint64_t total = peal_estimate_gradient(estimate);
    if (peal_estimate_data(&estimate->params) < 2 || !total)
        return PEAL_OK;
    PEAL_TRY(add_buckets(estimate, fabric, total, diag));
    peal_estimate_choose(estimate->bucket, estimate->info.buckets, estimate->info.backward_us);
    for (uint32_t i = 0; i < estimate->info.buckets; i++)
        if (estimate->bucket[i].chosen) {
            estimate->info.bucket_bytes = estimate->bucket[i].bytes;
            estimate->info.exposed_us = estimate->bucket[i].exposed_us;
        }
    return PEAL_OK;
}
