/* SPDX-License-Identifier: Apache-2.0 */
/* Another table between two calls. All ranks make ready, tell each other which table they have, and
 * take it if it is one; counters of semaphores and calls go on. */
#include "clock.h"
#include "far.h"

/* Offers of two generations: nobody is two ahead, since he waits for all in between. */
static rt_word *offer_of(struct rt_board *board, uint32_t generation)
{
    return board->offer[generation & 1];
}

static peal_status hear(struct peal_comm *comm, uint32_t rank, uint32_t generation,
                        struct rt_vigil *vigil, peal_diag *diag)
{
    struct rt_board *board = rt_board(comm->base, &comm->layout, rank);
    while ((int32_t)(atomic_load_explicit(&board->offers, memory_order_acquire) - generation) < 0) {
        PEAL_TRY(rt_vigil_look(comm, vigil, rank, diag));
        rt_sleep_us(20);
    }
    return PEAL_OK;
}

/* The same verdict on all ranks, from what all have offered. */
static peal_status compare(struct peal_hash128 offer, uint32_t rank, struct peal_hash128 *first,
                           peal_diag *diag)
{
    if (rank == 0)
        *first = offer;
    if (!offer.low && !offer.high)
        return peal_fail(diag, PEAL_ERR_MISMATCH, "rank %u cannot take its new table", rank);
    if (offer.low != first->low || offer.high != first->high)
        return peal_fail(diag, PEAL_ERR_MISMATCH, "rank %u has another new table than rank 0",
                         rank);
    return PEAL_OK;
}

/* All share memory. */
static peal_status agree_near(struct peal_comm *comm, struct peal_hash128 digest, peal_diag *diag)
{
    uint32_t generation = ++comm->generation;
    rt_word *offer = offer_of(comm->board, generation);
    struct rt_vigil vigil = rt_vigil_begin(comm, 0);
    struct peal_hash128 first;
    atomic_store_explicit(&offer[0], digest.low, memory_order_relaxed);
    atomic_store_explicit(&offer[1], digest.high, memory_order_relaxed);
    atomic_store_explicit(&comm->board->offers, generation, memory_order_release);
    for (uint32_t r = 0; r < comm->nranks; r++)
        PEAL_TRY(hear(comm, r, generation, &vigil, diag));
    for (uint32_t r = 0; r < comm->nranks; r++) {
        struct peal_hash128 other;
        offer = offer_of(rt_board(comm->base, &comm->layout, r), generation);
        other.low = atomic_load_explicit(&offer[0], memory_order_relaxed);
        other.high = atomic_load_explicit(&offer[1], memory_order_relaxed);
        PEAL_TRY(compare(other, r, &first, diag));
    }
    return PEAL_OK;
}

/* Through the star in which the job met; a rank that is lost on the way ends the comm, and so does
 * one whose comm has ended, which tells the others. */
static peal_status agree_far(struct peal_comm *comm, struct peal_hash128 digest, peal_diag *diag)
{
    struct rt_job *job = comm->far->job;
    struct peal_hash128 *offers = comm->far->offers, first;
    peal_status status = rt_job_agree(job, rt_failure_now(comm, diag), diag);
    if (status == PEAL_OK)
        status = rt_job_exchange(job, &digest, sizeof digest, offers, diag);
    if (status != PEAL_OK) {
        peal_comm_abort(comm);
        comm->failed = 1;
        return status;
    }
    for (uint32_t r = 0; r < comm->nranks; r++)
        PEAL_TRY(compare(offers[r], r, &first, diag));
    return PEAL_OK;
}

static peal_status agree(struct peal_comm *comm, struct peal_hash128 digest, peal_diag *diag)
{
    if (comm->far)
        return agree_far(comm, digest, diag);
    /* Of one that has ended, those who share its memory see that. */
    return comm->failed ? PEAL_ERR_ABORTED : agree_near(comm, digest, diag);
}

/* Transfers that the calls have left behind: they refer to the old programs until they have been
 * acknowledged. All ranks wait for that now. */
static peal_status settle(struct peal_comm *comm, peal_diag *diag)
{
    struct rt_vigil vigil = rt_vigil_begin(comm, 0);
    if (comm->far && comm->far->transport->pay)
        comm->far->transport->pay(comm->far->transport);
    for (uint32_t i = 0; i < comm->nrows; i++) {
        struct rt_row *row = &comm->rows[i];
        for (uint32_t e = 0; row->events && e < row->nlanes * PLAN_EVENTS_MAX; e++) {
            rt_half *delivered = &row->events[e].delivered;
            while (atomic_load_explicit(delivered, memory_order_acquire) != row->events[e].issued) {
                PEAL_TRY(rt_vigil_look(comm, &vigil, RT_NOBODY, diag));
                if (!rt_far_listen(comm))
                    rt_sleep_us(20);
            }
        }
    }
    return PEAL_OK;
}

/* All that can fail on this rank alone. */
static peal_status make_ready(struct peal_comm *comm, peal_table *table, struct peal_comm *next,
                              struct peal_hash128 *digest, peal_diag *diag)
{
    if (table->nranks != comm->nranks)
        return peal_fail(diag, PEAL_ERR_ARG, "a table of %u ranks for %u", table->nranks,
                         comm->nranks);
    PEAL_TRY(rt_table_check(comm->world, table, comm->rank, digest, diag));
    if (comm->far)
        PEAL_TRY(rt_far_check(comm->far->job, table, diag));
    PEAL_TRY(settle(comm, diag));
    PEAL_TRY(rt_rows_make(next, table, diag));
    if (comm->attaches)
        PEAL_TRY(rt_attach_buffer(next, diag));
    return rt_worker_need(comm, next, diag);
}

peal_status peal_comm_replace(peal_comm *comm, peal_table *table, peal_diag *diag)
{
    struct peal_hash128 digest = {0, 0};
    if (!comm || !table)
        return peal_fail(diag, PEAL_ERR_ARG, "a comm and a table are needed");
    if (comm->lined)
        return peal_fail(diag, PEAL_ERR_ARG, "calls are outstanding, or a thread sees to them");
    if (comm->failed || rt_world_failed(comm))
        return rt_failure(comm, diag);
    struct peal_comm next = *comm;
    peal_diag other = PEAL_DIAG_INIT;
    peal_status own = make_ready(comm, table, &next, &digest, diag);
    int ended = comm->failed; /* and own is why */
    if (own != PEAL_OK)
        digest = (struct peal_hash128){0, 0};
    peal_status all = agree(comm, digest, own == PEAL_OK ? diag : &other);
    if (own != PEAL_OK && comm->failed && !ended && diag)
        *diag = other;
    if (own == PEAL_OK || (comm->failed && !ended))
        own = all;
    if (own != PEAL_OK) {
        rt_rows_drop(&next, comm);
        return own;
    }
    rt_trace_free(comm);
    rt_rows_take(comm, &next);
    return PEAL_OK;
}
