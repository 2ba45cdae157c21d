/* SPDX-License-Identifier: Apache-2.0 */
/* What the samples of the documents take for granted (tests/scripts/samples.sh): a program's
 * variables under the names that all samples give them. */
#ifndef PEAL_TEST_SAMPLE_H
#define PEAL_TEST_SAMPLE_H

#include <peal/peal.h>
#include <peal/peal_cuda.h>

#include <stdio.h>

static peal_ctx *ctx;
static peal_diag diag;
static peal_fabric *fabric;
static peal_request request;
static peal_table *table, *other, *smaller;
static peal_world_params params;
static peal_world *world, *next;
static peal_comm *comm;
static peal_pending *pending;

static uint32_t rank, ranks, left, local_rank, survivors[8];
static unsigned char lost[8];
static void *in, *out;
static size_t count, n, bytes;
static peal_dtype dtype;
static void *stream;
int cudaStreamSynchronize(void *of);
#endif
