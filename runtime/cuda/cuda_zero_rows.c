/* SPDX-License-Identifier: Apache-2.0 */
/* Which plans can be run without an SM, and what a rank keeps of all ranks' programs for it. */
#include "cuda_comm.h"

/* ---- which plans can */

static const char *why_not(const struct peal_plan *plan, uint32_t rank,
                           const struct plan_step *step)
{
    const struct plan_rank *program = peal_plan_program(plan, rank);
    if (step->op == PLAN_TELL || step->op == PLAN_LEARN)
        return "its blocks have lengths that only the device knows";
    if (!peal_plan_op_moves(step->op))
        return NULL;
    if (step->op != PLAN_COPY && step->op != PLAN_PUT && step->op != PLAN_GET)
        return "it reduces or converts";
    if (step->engine == PEAL_ENGINE_IBGDA)
        return "its kernel posts to a NIC";
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++)
        if (program->operands[step->operands + i].buffer == PLAN_BUF_PACKET)
            return "it moves packets, which only load and store";
    return NULL;
}

/* The same on all ranks: of all ranks' steps. */
static const char *row_why(const struct peal_plan *plan)
{
    if (plan->sliced)
        return "its order needs the programs of all ranks, and there are slices";
    for (uint32_t r = 0; r < plan->nranks; r++) {
        const struct plan_rank *program = peal_plan_program(plan, r);
        for (uint32_t i = 0; i < program->nsteps; i++) {
            const char *why = why_not(plan, r, &program->steps[i]);
            if (why)
                return why;
        }
    }
    return NULL;
}

peal_status cuda_zero_check(const struct peal_cuda_comm *comm, const struct rt_row *row,
                            peal_diag *diag)
{
    const struct cuda_zero_row *zero = &comm->zero[row - comm->host->rows];
    if (!comm->about.mem_ops)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "a zero-SM call: the driver has no memory operations of streams");
    if (zero->why[0])
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "no zero-SM call of %s: %s", row->algorithm,
                         zero->why);
    return PEAL_OK;
}

/* ---- what is kept of all ranks' programs */

/* All semaphores of all ranks have numbers. */
_Static_assert((uint64_t)RT_RANKS_MAX *RT_RANKS_MAX *PLAN_SEMS_MAX < CUDA_NO_SEM,
               "no world is so large");

static struct cuda_sync sync_of(const struct peal_cuda_comm *comm, uint32_t rank,
                                const struct plan_step *step)
{
    struct cuda_sync sync = {.sem = CUDA_NO_SEM, .lag = step->lag};
    uint32_t n = comm->nranks, nsems = comm->layout.nsems;
    if (step->op == PLAN_SIGNAL)
        sync.sem = (step->peer * n + rank) * nsems + step->sem;
    if (step->op == PLAN_WAIT)
        sync.sem = (rank * n + step->peer) * nsems + step->sem;
    sync.waits = step->op == PLAN_WAIT;
    return sync;
}

static void copy_rank(const struct peal_cuda_comm *comm, const struct peal_plan *plan,
                      uint32_t rank, struct cuda_zero_row *zero)
{
    const struct plan_rank *program = peal_plan_program(plan, rank);
    for (uint32_t l = 0; l < program->nlanes; l++) {
        struct plan_lane lane = program->lanes[l];
        uint32_t steps = lane.pre + lane.body + lane.post;
        uint32_t from = lane.first;
        lane.first = zero->nsteps;
        zero->lanes[zero->nlanes++] = lane;
        for (uint32_t i = 0; i < steps; i++)
            zero->syncs[zero->nsteps++] = sync_of(comm, rank, &program->steps[from + i]);
    }
    zero->first_lane[rank + 1] = zero->nlanes;
}

static uint32_t most_blocks(const struct peal_plan *plan)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint8_t buffer = PLAN_BUF_IN; buffer <= PLAN_BUF_OUT; buffer++) {
            uint32_t blocks = peal_plan_held(plan, r, buffer).blocks;
            most = blocks > most ? blocks : most;
        }
    return most;
}

static peal_status keep_row(const struct peal_cuda_comm *comm, const struct peal_plan *plan,
                            struct cuda_zero_row *zero)
{
    size_t lanes = 0, steps = 0;
    const char *why = row_why(plan);
    zero->most = most_blocks(plan);
    zero->posts = cuda_nic_posts(plan) != 0;
    if (why) {
        peal_copy_text(zero->why, sizeof zero->why, why);
        return PEAL_OK;
    }
    for (uint32_t r = 0; r < plan->nranks; r++) {
        lanes += peal_plan_program(plan, r)->nlanes;
        steps += peal_plan_program(plan, r)->nsteps;
    }
    zero->lanes = peal_calloc(comm->ctx, lanes, sizeof *zero->lanes);
    zero->syncs = peal_calloc(comm->ctx, steps, sizeof *zero->syncs);
    zero->first_lane = peal_calloc(comm->ctx, plan->nranks + 1ull, sizeof *zero->first_lane);
    int all = zero->lanes && zero->syncs && zero->first_lane;
    for (uint32_t r = 0; all && r < plan->nranks; r++)
        copy_rank(comm, plan, r, zero);
    zero->nlanes = (uint32_t)lanes;
    zero->nsteps = (uint32_t)steps;
    return all ? PEAL_OK : PEAL_ERR_MEMORY;
}

uint64_t cuda_zero_bytes(uint32_t nranks, uint32_t nsems)
{
    return sizeof(uint32_t) * (2ull * nranks + (uint64_t)nranks * nsems);
}

static peal_status make_queues(struct peal_cuda_comm *comm, peal_diag *diag)
{
    uint32_t queues = comm->params.queues;
    for (uint32_t i = 0; queues > 1 && i < queues; i++)
        CUDA_TRY(comm->cuda, diag, stream_create, &comm->queue[i], CU_STREAM_NONBLOCKING);
    for (uint32_t i = 0; queues > 1 && i <= queues; i++)
        CUDA_TRY(comm->cuda, diag, event_create, &comm->forked[i], CU_EVENT_NO_TIMING);
    return PEAL_OK;
}

peal_status cuda_zero_make(struct peal_cuda_comm *comm, const peal_table *table, peal_diag *diag)
{
    peal_status status = PEAL_OK;
    size_t cells = 3 * (size_t)comm->nranks * comm->layout.nsems;
    comm->zero = peal_calloc(comm->ctx, table->nrows, sizeof *comm->zero);
    comm->counted = peal_calloc(comm->ctx, cells, sizeof *comm->counted);
    if (!comm->zero || !comm->counted)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (uint32_t i = 0; i < table->nrows && status == PEAL_OK; i++)
        status = keep_row(comm, table->rows[i].plan, &comm->zero[i]);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "out of memory");
    return make_queues(comm, diag);
}

static void free_row(const struct peal_cuda_comm *comm, struct cuda_zero_row *zero)
{
    peal_free(comm->ctx, zero->lanes, zero->nlanes * sizeof *zero->lanes);
    peal_free(comm->ctx, zero->syncs, zero->nsteps * sizeof *zero->syncs);
    peal_free(comm->ctx, zero->first_lane, (comm->nranks + 1ull) * sizeof *zero->first_lane);
    peal_free(comm->ctx, zero->turns, zero->turns_capacity * sizeof *zero->turns);
}

void cuda_zero_free(struct peal_cuda_comm *comm, int entered)
{
    uint32_t rows = comm->host ? comm->host->nrows : 0;
    for (uint32_t i = 0; comm->zero && i < rows; i++)
        free_row(comm, &comm->zero[i]);
    peal_free(comm->ctx, comm->zero, rows * sizeof *comm->zero);
    peal_free(comm->ctx, comm->counted,
              3 * (size_t)comm->nranks * comm->layout.nsems * sizeof *comm->counted);
    for (uint32_t i = 0; entered && i < CUDA_QUEUES_MAX; i++)
        if (comm->queue[i])
            (void)comm->cuda->call.stream_destroy(comm->queue[i]);
    for (uint32_t i = 0; entered && i <= CUDA_QUEUES_MAX; i++)
        if (comm->forked[i])
            (void)comm->cuda->call.event_destroy(comm->forked[i]);
}
