/* SPDX-License-Identifier: Apache-2.0 */
/* alltoallv: how much of each block there is. A rank knows what it sends, and learns from each
 * other rank what that one sends it, before it moves anything of it. */
#include "comm.h"

static int has_counts(const struct peal_comm *comm)
{
    return comm->layout.count_bytes != 0;
}

peal_status rt_counts_make(struct peal_comm *comm)
{
    if (!has_counts(comm))
        return PEAL_OK;
    comm->send_counts = peal_calloc(comm->ctx, comm->nranks, sizeof *comm->send_counts);
    comm->recv_counts = peal_calloc(comm->ctx, comm->nranks, sizeof *comm->recv_counts);
    return comm->send_counts && comm->recv_counts ? PEAL_OK : PEAL_ERR_MEMORY;
}

void rt_counts_free(struct peal_comm *comm)
{
    peal_free(comm->ctx, comm->send_counts, comm->nranks * sizeof *comm->send_counts);
    peal_free(comm->ctx, comm->recv_counts, comm->nranks * sizeof *comm->recv_counts);
}

void rt_counts_begin(struct peal_comm *comm, const size_t *send_counts, size_t count)
{
    comm->bad_counts = 0;
    for (uint32_t r = 0; r < comm->nranks; r++) {
        comm->send_counts[r] = send_counts[r];
        comm->bad_counts |= send_counts[r] > count;
    }
    comm->bad_sender = comm->bad_counts ? comm->rank : RT_NOBODY;
    for (uint32_t r = 0; r < comm->nranks && comm->bad_counts; r++)
        comm->send_counts[r] = 0;
    comm->recv_counts[comm->rank] = comm->send_counts[comm->rank];
}

/* The copy that the present call has. */
rt_word *rt_count_place(const struct peal_comm *comm, const struct rt_step *step)
{
    return step->counts + (comm->copy ? comm->layout.count_bytes / sizeof *step->counts : 0);
}

uint64_t rt_count_told(const struct peal_comm *comm, uint32_t peer)
{
    return comm->bad_counts ? RT_BAD_COUNT : comm->send_counts[peer];
}

/* Read behind the signal that follows. */
void rt_count_tell(const struct peal_comm *comm, const struct rt_step *step)
{
    atomic_store_explicit(rt_count_place(comm, step), rt_count_told(comm, step->peer),
                          memory_order_relaxed);
}

/* The lowest of several bad senders: all ranks name the same one. */
void rt_count_learn(struct peal_comm *comm, const struct rt_row *row, const struct rt_step *step)
{
    uint64_t count = atomic_load_explicit(rt_count_place(comm, step), memory_order_relaxed);
    if (count > row->count) {
        count = 0;
        if (step->peer < comm->bad_sender)
            comm->bad_sender = step->peer;
    }
    comm->recv_counts[step->peer] = count;
}

uint64_t rt_block_length(const struct peal_comm *comm, const struct rt_row *row, uint32_t block)
{
    uint32_t giver = block / comm->nranks;
    if (!row->counted)
        return row->count;
    return giver == comm->rank ? comm->send_counts[block % comm->nranks] : comm->recv_counts[giver];
}
