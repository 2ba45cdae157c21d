/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of other hosts: what a rank needs for them, how all agree on the way that each pair goes,
 * and the end of it. */
#include "cuda_far.h"
#include "clock.h"

#include <string.h>

#define GRACE_NS 300000000u /* for TCP to say why a queue pair has broken */

/* ---- an end */

void cuda_far_cut(struct cuda_far *far)
{
    if (!far || far->cut)
        return;
    far->cut = 1;
    far->tcp->cut(far->tcp);
    for (uint32_t i = 0; i < far->nlines; i++)
        if (far->lines[i].pair)
            far->nic->ops->fail(far->nic, far->lines[i].pair);
}

int cuda_far_lost(const struct cuda_far *far, uint32_t *rank, uint32_t *reason)
{
    for (uint32_t i = 0; far && i < far->nlines; i++) {
        const struct cuda_line *line = &far->lines[i];
        uint64_t heard;
        if (!line->broken || far->tcp->state(far->tcp, line->rank, &heard) != FAR_HERE)
            continue; /* who is gone is seen to be */
        *rank = line->rank;
        *reason = line->broken == RDMA_REFUSED ? RT_REFUSED : RT_BROKEN;
        if (line->broken == RDMA_REFUSED || rt_now_ns() > line->broken_ns + GRACE_NS)
            return 1;
    }
    return 0;
}

/* ---- making */

static uint64_t whole(uint64_t bytes)
{
    return (bytes + CUDA_ARENA_ALIGN - 1) / CUDA_ARENA_ALIGN * CUDA_ARENA_ALIGN;
}

/* The slots, the streams' words, the places, and each line's words: pages each. */
static peal_status make_pinned(struct cuda_far *far, peal_diag *diag)
{
    const struct peal_cuda_comm *comm = far->comm;
    uint64_t slots = (uint64_t)CUDA_SLOTS * CUDA_PART;
    uint64_t places = slots + CUDA_ARENA_ALIGN;
    uint64_t words = places + whole(comm->nranks * sizeof *far->places);
    uint64_t each = RDMA_SENDS * sizeof *far->lines->words;
    void *pinned = NULL;
    far->pinned_bytes = whole(words + far->nlines * each);
    CUDA_TRY(comm->cuda, diag, host_alloc, &pinned, (size_t)far->pinned_bytes,
             CU_HOST_PORTABLE | CU_HOST_MAPPED);
    far->pinned = pinned;
    memset(far->pinned + slots, 0, (size_t)(far->pinned_bytes - slots));
    CUDA_TRY(comm->cuda, diag, host_device, &far->tickets_device, pinned, 0);
    far->tickets_device += slots;
    far->tickets_done = (uint32_t *)(void *)(far->pinned + slots);
    far->places = (uint64_t *)(void *)(far->pinned + places);
    for (uint32_t i = 0; i < CUDA_SLOTS; i++)
        far->slots[i].at = far->pinned + (size_t)i * CUDA_PART;
    for (uint32_t i = 0; i < far->nlines; i++)
        far->lines[i].words = (uint64_t *)(void *)(far->pinned + words + i * each);
    return PEAL_OK;
}

/* Whether a plan of this rank writes to another's output. */
static int writes_to(const struct peal_cuda_comm *comm, uint32_t rank)
{
    for (uint32_t i = 0; i < comm->host->nrows; i++) {
        const struct rt_row *row = &comm->host->rows[i];
        for (uint32_t o = 0; o < row->noperands; o++)
            if (row->operands[o].place == RT_PEER_OUT && row->operands[o].rank == rank)
                return 1;
    }
    return 0;
}

static peal_status make_lines(struct cuda_far *far, peal_diag *diag)
{
    const struct peal_cuda_comm *comm = far->comm;
    far->line_of = peal_calloc(comm->ctx, comm->nranks, sizeof *far->line_of);
    if (!far->line_of)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (uint32_t r = 0; r < comm->nranks; r++)
        far->line_of[r] = comm->peers[r].reach == CUDA_UNREACHED ? far->nlines++ : CUDA_NOWHERE;
    far->lines = peal_calloc(comm->ctx, far->nlines ? far->nlines : 1, sizeof *far->lines);
    if (!far->lines)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (uint32_t r = 0; r < comm->nranks; r++) {
        struct cuda_line *line = cuda_line_of(far, r);
        if (!line)
            continue;
        line->rank = r;
        line->writes = (uint8_t)writes_to(comm, r);
    }
    return PEAL_OK;
}

static peal_status make(struct peal_cuda_comm *comm, const peal_table *table, peal_diag *diag)
{
    struct cuda_far *far = peal_calloc(comm->ctx, 1, sizeof *far);
    if (!far)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    comm->far = far;
    far->comm = comm;
    far->tcp = comm->host->far->tcp;
    PEAL_TRY(make_lines(far, diag));
    PEAL_TRY(make_pinned(far, diag));
    PEAL_TRY(cuda_land_make(far, diag));
    cuda_rdma_open(far, table);
    return PEAL_OK;
}

/* ---- how all are linked */

struct census {
    uint32_t rdma;
    uint32_t tcp;
    uint32_t stand_ins;
    char why[sizeof((struct cuda_far *)0)->why];
};

static int by_another(const struct cuda_far *far, uint8_t engine, uint32_t rank)
{
    const struct cuda_line *line = cuda_line_of(far, rank);
    return !line || (engine == PEAL_ENGINE_RDMA) != (line->pair != NULL);
}

/* Of engines of networks: those for which another one moves here. */
static uint32_t stand_ins(const struct cuda_far *far)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < far->comm->host->nrows; i++) {
        const struct rt_row *row = &far->comm->host->rows[i];
        for (uint32_t s = 0; s < row->nsteps; s++) {
            const struct rt_step *step = &row->steps[s];
            int moves = step->kind == RT_ASYNC || step->kind == RT_FAR;
            if (!moves || (step->engine != PEAL_ENGINE_RDMA && step->engine != PEAL_ENGINE_TCP))
                continue;
            for (uint32_t d = 0; d < step->ndst; d++) {
                uint32_t rank = row->operands[step->operands + step->nsrc + d].rank;
                found |= (uint32_t)by_another(far, step->engine, rank) << step->engine;
            }
        }
    }
    return found;
}

static peal_status take_census(struct cuda_far *far, peal_diag *diag)
{
    struct peal_cuda_comm *comm = far->comm;
    struct census mine = {.stand_ins = stand_ins(far)};
    for (uint32_t i = 0; i < far->nlines; i++)
        *(far->lines[i].pair ? &mine.rdma : &mine.tcp) += 1;
    if (mine.tcp)
        peal_copy_text(mine.why, sizeof mine.why, far->why);
    struct census *all = peal_calloc(comm->ctx, comm->nranks, sizeof *all);
    if (!all)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    peal_status status = rt_job_exchange(comm->host->world->job, &mine, sizeof mine, all, diag);
    far->why[0] = '\0';
    for (uint32_t r = 0; r < comm->nranks && status == PEAL_OK; r++) {
        far->links_rdma += all[r].rdma;
        far->links_tcp += all[r].tcp;
        comm->stand_ins |= all[r].stand_ins;
        all[r].why[sizeof all[r].why - 1] = '\0';
        if (!far->why[0])
            peal_copy_text(far->why, sizeof far->why, all[r].why);
    }
    peal_free(comm->ctx, all, comm->nranks * sizeof *all);
    return status;
}

peal_status cuda_far_make(struct peal_cuda_comm *comm, const peal_table *table, peal_status status,
                          peal_diag *diag)
{
    if (status == PEAL_OK)
        status = make(comm, table, diag);
    PEAL_TRY(cuda_agree(comm, status, diag));
    PEAL_TRY(cuda_rdma_join(comm->far, diag));
    return take_census(comm->far, diag);
}

void cuda_far_count(const struct peal_cuda_comm *comm, uint32_t *rdma, uint32_t *tcp,
                    const char **why)
{
    *rdma = comm->far ? comm->far->links_rdma : 0;
    *tcp = comm->far ? comm->far->links_tcp : 0;
    *why = comm->far ? comm->far->why : "";
}

void cuda_far_free(struct peal_cuda_comm *comm, int entered)
{
    struct cuda_far *far = comm->far;
    if (!far)
        return;
    rt_far_stop(comm->host); /* behind which nothing of it is read or lands */
    cuda_rdma_close(far);
    cuda_land_free(far, entered);
    cuda_zero_far_free(comm);
    if (entered && far->pinned)
        (void)comm->cuda->call.host_free(far->pinned);
    peal_free(comm->ctx, far->lines, (far->nlines ? far->nlines : 1) * sizeof *far->lines);
    peal_free(comm->ctx, far->line_of, comm->nranks * sizeof *far->line_of);
    peal_free(comm->ctx, far, sizeof *far);
    comm->far = NULL;
}
