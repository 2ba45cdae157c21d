/* SPDX-License-Identifier: Apache-2.0 */
/* What plans of engine ibgda need: keys of all arenas, and a queue pair for each lane and peer. */
#include "cuda_nic.h"
#include "cuda_far.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define BLOCKS 256u /* places of a queue, at least */

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

static peal_status refuse(int error, const char *why, peal_diag *diag)
{
    return peal_fail(diag, error == ENOMEM ? PEAL_ERR_MEMORY : PEAL_ERR_UNSUPPORTED,
                     "no queue pairs that kernels post to (ibgda), for which it takes an mlx5 "
                     "device that knows the GPU's memory: %s. Plan with rdma",
                     why && why[0] ? why : strerror(error));
}

static void find_maker(struct peal_cuda_comm *comm)
{
    const struct cuda_nic_calls *stand_in = dlsym(comm->cuda->library, CUDA_NIC_STAND_IN);
    comm->nic_calls = stand_in ? stand_in : &cuda_nic_mlx5;
    if (stand_in)
        comm->stand_ins |= 1u << PEAL_ENGINE_IBGDA;
}

peal_status cuda_nic_make(struct peal_cuda_comm *comm, const peal_table *table, peal_diag *diag)
{
    char why[128] = "";
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
    if (cuda_rdma_unordered(comm))
        return refuse(EOPNOTSUPP, cuda_rdma_unordered(comm), diag);
    find_maker(comm);
    int error = comm->nic_calls->open(comm, table, &comm->nic, why, sizeof why);
    if (error == 0)
        error =
            comm->nic_calls->memory(comm->nic, comm->arena.at, comm->arena.bytes, &comm->nic_key);
    return error ? refuse(error, why, diag) : PEAL_OK;
}

/* ---- which pairs: for each lane in which either rank posts to the other */

struct nic_pair {
    void *pair;
    struct rdma_end mine;
    uint8_t used;
    uint8_t posts; /* this rank does */
};

struct nic_pairs {
    struct peal_cuda_comm *comm;
    uint32_t lanes;        /* of any rank */
    struct nic_pair *pair; /* [lane][rank] */
};

size_t cuda_nic_queues(const struct peal_cuda_comm *comm)
{
    return comm->nic ? (size_t)comm->most_lanes * comm->nranks : 0;
}

static void note_step(struct nic_pairs *pairs, uint32_t rank, uint32_t lane,
                      const struct plan_rank *program, const struct plan_step *step)
{
    const struct peal_cuda_comm *comm = pairs->comm;
    if (!posts(step))
        return;
    uint32_t to = peal_plan_op_signals(step->op)
                      ? step->peer
                      : program->operands[step->operands + step->nsrc].rank;
    if (rank != comm->rank && to != comm->rank)
        return;
    struct nic_pair *pair =
        &pairs->pair[(size_t)lane * comm->nranks + (rank == comm->rank ? to : rank)];
    pair->used = 1;
    pair->posts |= rank == comm->rank;
}

static void note_plan(struct nic_pairs *pairs, const struct peal_plan *plan)
{
    for (uint32_t r = 0; r < plan->nranks; r++) {
        const struct plan_rank *program = peal_plan_program(plan, r);
        for (uint32_t l = 0; l < program->nlanes; l++) {
            const struct plan_lane *lane = &program->lanes[l];
            uint32_t steps = lane->pre + lane->body + lane->post;
            for (uint32_t i = 0; i < steps; i++)
                note_step(pairs, r, l, program, &program->steps[lane->first + i]);
        }
    }
}

static uint32_t most_lanes(const peal_table *table)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < table->nrows; i++)
        for (uint32_t r = 0; r < table->nranks; r++) {
            uint32_t lanes = peal_plan_program(table->rows[i].plan, r)->nlanes;
            most = lanes > most ? lanes : most;
        }
    return most;
}

/* What this rank's kernel posts to has a place in comm->queues; the others are ends to connect to.
 */
static int make_pair(struct nic_pairs *pairs, uint32_t lane, uint32_t rank)
{
    struct peal_cuda_comm *comm = pairs->comm;
    size_t at = (size_t)lane * comm->nranks + rank;
    struct nic_pair *pair = &pairs->pair[at];
    struct dev_mlx5_queue end;
    if (!pair->used || (!pair->posts && !comm->nic_calls->join))
        return 0;
    return comm->nic_calls->queue(comm->nic, BLOCKS, pair->posts ? &comm->queues[at] : &end,
                                  &pair->pair, &pair->mine);
}

static peal_status make_pairs(struct nic_pairs *pairs, const peal_table *table, peal_diag *diag)
{
    struct peal_cuda_comm *comm = pairs->comm;
    int error = 0;
    comm->queues = peal_calloc(comm->ctx, cuda_nic_queues(comm), sizeof *comm->queues);
    if (!comm->queues)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (uint32_t i = 0; i < table->nrows; i++)
        note_plan(pairs, table->rows[i].plan);
    for (uint32_t l = 0; l < pairs->lanes && error == 0; l++)
        for (uint32_t r = 0; r < comm->nranks && error == 0; r++)
            error = make_pair(pairs, l, r);
    return error ? refuse(error, NULL, diag) : PEAL_OK;
}

/* ---- when they have met: by addresses that hold here, or by joining */

static peal_status reach_all(struct peal_cuda_comm *comm, peal_diag *diag)
{
    int error = 0;
    for (uint32_t r = 0; r < comm->nranks && error == 0; r++) {
        const struct cuda_peer *peer = &comm->peers[r];
        if (r == comm->rank)
            continue;
        if (peer->reach == CUDA_UNREACHED)
            return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                             "rank %u is on another host, where the stand-in for a NIC that "
                             "kernels post to (ibgda) does not go: plan with rdma",
                             r);
        error = comm->nic_calls->reach(comm->nic, peer->nic_key, peer->nic_arena, comm->arena.bytes,
                                       peer->arena);
    }
    return error ? refuse(error, NULL, diag) : PEAL_OK;
}

/* ends: of all ranks, [rank][lane][its peer]. */
static peal_status join_all(const struct nic_pairs *pairs, const struct rdma_end *ends,
                            peal_diag *diag)
{
    const struct peal_cuda_comm *comm = pairs->comm;
    int error = 0;
    for (uint32_t l = 0; l < pairs->lanes && error == 0; l++)
        for (uint32_t r = 0; r < comm->nranks && error == 0; r++) {
            const struct nic_pair *pair = &pairs->pair[(size_t)l * comm->nranks + r];
            size_t there = ((size_t)r * pairs->lanes + l) * comm->nranks + comm->rank;
            if (pair->used)
                error = comm->nic_calls->join(comm->nic, pair->pair, &pair->mine, &ends[there]);
        }
    return error ? refuse(error, NULL, diag) : PEAL_OK;
}

static peal_status exchange_and_join(const struct nic_pairs *pairs, peal_diag *diag)
{
    const struct peal_cuda_comm *comm = pairs->comm;
    size_t count = (size_t)pairs->lanes * comm->nranks;
    struct rdma_end *mine = peal_calloc(comm->ctx, count, sizeof *mine);
    struct rdma_end *all = peal_calloc(comm->ctx, count * comm->nranks, sizeof *all);
    peal_status status = mine && all ? PEAL_OK : peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (size_t i = 0; mine && i < count; i++)
        mine[i] = pairs->pair[i].mine;
    if (status == PEAL_OK)
        status = rt_job_exchange(comm->host->world->job, mine, count * sizeof *mine, all, diag);
    if (status == PEAL_OK)
        status = join_all(pairs, all, diag);
    peal_free(comm->ctx, mine, count * sizeof *mine);
    peal_free(comm->ctx, all, count * comm->nranks * sizeof *all);
    return status;
}

peal_status cuda_nic_join(struct peal_cuda_comm *comm, const peal_table *table, peal_status status,
                          peal_diag *diag)
{
    if (!comm->nic)
        return status;
    struct nic_pairs pairs = {.comm = comm, .lanes = most_lanes(table)};
    size_t count = (size_t)pairs.lanes * comm->nranks;
    pairs.pair = peal_calloc(comm->ctx, count, sizeof *pairs.pair);
    if (status == PEAL_OK)
        status = pairs.pair ? make_pairs(&pairs, table, diag)
                            : peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    if (!comm->nic_calls->join) {
        if (status == PEAL_OK)
            status = reach_all(comm, diag);
    } else {
        status = cuda_agree(comm, status, diag);
        if (status == PEAL_OK)
            status = exchange_and_join(&pairs, diag);
    }
    peal_free(comm->ctx, pairs.pair, count * sizeof *pairs.pair);
    return status;
}

void cuda_nic_free(struct peal_cuda_comm *comm)
{
    if (comm->nic)
        comm->nic_calls->close(comm->nic);
    peal_free(comm->ctx, comm->queues, cuda_nic_queues(comm) * sizeof *comm->queues);
    comm->nic = NULL;
}
