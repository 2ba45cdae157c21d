/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the example that is about peal. */
#include "tp_comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define POLICY_MAX 65536u

double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- of all ranks: policy, plan, proof, memory */

static peal_status read_policy(peal_ctx *ctx, const char *path, peal_diag *diag,
                               peal_policy **policy)
{
    char *text = malloc(POLICY_MAX);
    FILE *file = fopen(path, "rb");
    size_t bytes = text && file ? fread(text, 1, POLICY_MAX, file) : 0;
    if (file)
        (void)fclose(file);
    peal_status status = PEAL_ERR_IO;
    (void)snprintf(diag->text, sizeof diag->text, "cannot read %.400s", path);
    if (bytes) {
        const peal_policy_text script = {path, text, bytes};
        status = peal_policy_create(ctx, &script, 1, NULL, diag, policy);
    }
    free(text);
    return status;
}

static peal_status plan_phase(struct phase *phase, peal_ctx *ctx, const peal_fabric *fabric,
                              const struct phase_params *params, const peal_policy *policy,
                              peal_diag *diag)
{
    peal_request request = PEAL_REQUEST_INIT;
    uint32_t row = 0;
    request.collective = PEAL_ALLREDUCE;
    request.ranks = params->ranks;
    request.min_bytes = request.max_bytes = phase->bytes;
    request.deterministic = params->deterministic;
    request.policy = policy;
    peal_status status = peal_table_plan(ctx, fabric, &request, diag, &phase->table);
    if (status == PEAL_OK)
        status = peal_table_compile(phase->table, fabric, diag); /* lowers and proves */
    if (status == PEAL_OK)
        status = peal_table_lookup(phase->table, PEAL_ALLREDUCE, 0, 0, phase->bytes, &row);
    phase->row.size = sizeof phase->row;
    return status == PEAL_OK ? peal_table_row(phase->table, row, &phase->row) : status;
}

peal_status phase_open(struct phase *phase, peal_ctx *ctx, const peal_fabric *fabric,
                       const struct phase_params *params, peal_diag *diag)
{
    char path[4096];
    peal_policy *policy = NULL;
    peal_world_params world = PEAL_WORLD_PARAMS_INIT;
    (void)snprintf(path, sizeof path, "%s/%s.lua", params->policies, phase->name);
    peal_status status = read_policy(ctx, path, diag, &policy);
    if (status == PEAL_OK)
        status = plan_phase(phase, ctx, fabric, params, policy, diag);
    peal_policy_destroy(policy);
    phase->cuda = params->cuda;
    world.ranks = params->ranks;
    world.heap_bytes = phase->bytes + 4096;
    return status == PEAL_OK ? peal_world_create(ctx, &world, phase->table, diag, &phase->world)
                             : status;
}

void phase_close(struct phase *phase)
{
    peal_world_destroy(phase->world);
    peal_table_destroy(phase->table);
}

/* ---- of one rank */

static peal_status open_host(struct reducer *reducer, const struct phase *phase, uint32_t rank)
{
    peal_call call = PEAL_CALL_INIT;
    peal_status status =
        peal_comm_create(phase->world, phase->table, rank, &reducer->diag, &reducer->comm);
    if (status != PEAL_OK)
        return status;
    reducer->buffer = peal_mem_alloc(reducer->comm, phase->bytes);
    if (!reducer->buffer)
        return PEAL_ERR_MEMORY;
    call.collective = PEAL_ALLREDUCE;
    call.in = call.out = reducer->buffer;
    call.count = phase->bytes / sizeof(float);
    call.dtype = PEAL_FLOAT32;
    call.op = PEAL_SUM;
    return peal_pending_create(reducer->comm, &call, &reducer->diag, &reducer->pending);
}

static peal_status open_gpu(struct reducer *reducer, const struct phase *phase, uint32_t rank)
{
    peal_status status = gpu_open(&reducer->gpu, phase, rank, &reducer->diag);
    reducer->buffer = calloc(1, phase->bytes);
    return status != PEAL_OK || reducer->buffer ? status : PEAL_ERR_MEMORY;
}

peal_status reducer_open(struct reducer *reducer, const struct phase *phase, uint32_t rank)
{
    *reducer = (struct reducer){.diag = PEAL_DIAG_INIT, .on_gpu = phase->cuda != NULL};
    return reducer->status =
               reducer->on_gpu ? open_gpu(reducer, phase, rank) : open_host(reducer, phase, rank);
}

void reducer_close(struct reducer *reducer)
{
    if (reducer->on_gpu) {
        gpu_close(&reducer->gpu);
        free(reducer->buffer);
    }
    peal_pending_destroy(reducer->pending);
    peal_comm_destroy(reducer->comm);
}

static peal_status sum_here(struct reducer *reducer)
{
    peal_status status = peal_start(reducer->pending, &reducer->diag);
    return status == PEAL_OK ? peal_wait(reducer->pending, &reducer->diag) : status;
}

int reducer_sum(void *user)
{
    struct reducer *reducer = user;
    double start = seconds();
    reducer->status = reducer->on_gpu ? gpu_sum(&reducer->gpu, reducer->buffer, &reducer->diag)
                                      : sum_here(reducer);
    reducer->us += (seconds() - start) * 1e6;
    reducer->calls++;
    return reducer->status == PEAL_OK;
}
