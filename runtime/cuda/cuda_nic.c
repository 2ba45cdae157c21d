/* SPDX-License-Identifier: Apache-2.0 */
/* What plans of engine ibgda need: keys of all arenas, and a queue pair for each lane and peer. */
#include "cuda_nic.h"
#include "cuda_comm.h"

#include <dlfcn.h>
#include <string.h>

#define BLOCKS 256u /* places of a queue */

/* ---- which plans */

static int posts(const struct plan_step *step)
{
    return step->engine == PEAL_ENGINE_IBGDA &&
           (peal_plan_op_moves(step->op) || peal_plan_op_signals(step->op));
}

int cuda_nic_posts(const struct peal_plan *plan)
{
    for (uint32_t r = peal_plan_first(plan); r < peal_plan_end(plan); r++) {
        const struct plan_rank *program = peal_plan_program(plan, r);
        for (uint32_t i = 0; i < program->nsteps; i++)
            if (posts(&program->steps[i]))
                return 1;
    }
    return 0;
}

/* ---- before ranks meet: a NIC, and a key of this rank's memory */

static peal_status refuse(int error, peal_diag *diag)
{
    return peal_fail(diag, PEAL_ERR_IO, "the NIC that kernels post to: %s", strerror(error));
}

static peal_status find_maker(struct peal_cuda_comm *comm, peal_diag *diag)
{
    const struct cuda_nic_calls *calls = dlsym(comm->cuda->library, CUDA_NIC_STAND_IN);
    if (!calls)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "a plan posts to the NIC by the kernel (ibgda), and this build has no "
                         "queue pairs for that: plan with rdma");
    comm->nic_calls = calls;
    return PEAL_OK;
}

peal_status cuda_nic_make(struct peal_cuda_comm *comm, const peal_table *table, peal_diag *diag)
{
    int any = 0, sliced = 0;
    for (uint32_t i = 0; i < table->nrows; i++) {
        any |= cuda_nic_posts(table->rows[i].plan);
        sliced |= table->rows[i].plan->sliced;
    }
    if (!any || comm->params.zero_sm)
        return PEAL_OK;
    if (sliced)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "plans with ibgda have to be whole, and these are slices");
    PEAL_TRY(find_maker(comm, diag));
    int error = comm->nic_calls->open(&comm->nic);
    if (error == 0)
        error =
            comm->nic_calls->memory(comm->nic, comm->arena.at, comm->arena.bytes, &comm->nic_key);
    comm->stand_ins |= 1u << PEAL_ENGINE_IBGDA;
    return error ? refuse(error, diag) : PEAL_OK;
}

/* ---- when they have met: the others' memory, and the queues */

size_t cuda_nic_queues(const struct peal_cuda_comm *comm)
{
    return comm->nic ? (size_t)comm->most_lanes * comm->nranks : 0;
}

static int make_queue(struct peal_cuda_comm *comm, uint32_t lane, uint32_t peer)
{
    struct dev_mlx5_queue *queue = &comm->queues[(size_t)lane * comm->nranks + peer];
    return queue->entries ? 0 : comm->nic_calls->queue(comm->nic, BLOCKS, queue);
}

static int make_for_step(struct peal_cuda_comm *comm, const struct plan_rank *program,
                         uint32_t lane, const struct plan_step *step)
{
    if (!posts(step))
        return 0;
    if (peal_plan_op_signals(step->op))
        return make_queue(comm, lane, step->peer);
    return make_queue(comm, lane, program->operands[step->operands + step->nsrc].rank);
}

static int make_for_plan(struct peal_cuda_comm *comm, const struct peal_plan *plan)
{
    const struct plan_rank *program = peal_plan_program(plan, comm->rank);
    int error = 0;
    for (uint32_t l = 0; l < program->nlanes; l++) {
        const struct plan_lane *lane = &program->lanes[l];
        uint32_t steps = lane->pre + lane->body + lane->post;
        for (uint32_t i = 0; i < steps && error == 0; i++)
            error = make_for_step(comm, program, l, &program->steps[lane->first + i]);
    }
    return error;
}

peal_status cuda_nic_join(struct peal_cuda_comm *comm, const peal_table *table, peal_diag *diag)
{
    int error = 0;
    if (!comm->nic)
        return PEAL_OK;
    comm->queues = peal_calloc(comm->ctx, cuda_nic_queues(comm), sizeof *comm->queues);
    if (!comm->queues)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (uint32_t r = 0; r < comm->nranks && error == 0; r++) {
        const struct cuda_peer *peer = &comm->peers[r];
        if (peer->reach == CUDA_UNREACHED && r != comm->rank)
            return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                             "rank %u is on another host, where the stand-in for a NIC that "
                             "kernels post to (ibgda) does not go: plan with rdma",
                             r);
        if (r != comm->rank)
            error = comm->nic_calls->reach(comm->nic, peer->nic_key, peer->nic_arena,
                                           comm->arena.bytes, peer->arena);
    }
    for (uint32_t i = 0; i < table->nrows && error == 0; i++)
        error = make_for_plan(comm, table->rows[i].plan);
    return error ? refuse(error, diag) : PEAL_OK;
}

void cuda_nic_free(struct peal_cuda_comm *comm)
{
    if (comm->nic)
        comm->nic_calls->close(comm->nic);
    peal_free(comm->ctx, comm->queues, cuda_nic_queues(comm) * sizeof *comm->queues);
    comm->nic = NULL;
}
