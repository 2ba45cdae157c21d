/* SPDX-License-Identifier: Apache-2.0 */
/* Another table between two calls. All ranks make ready, tell each other which table they have, and
 * take it if it is one; counters of semaphores and calls go on. */
#include "clock.h"
#include "comm.h"

/* Offers of two generations: nobody is two ahead, since he waits for all in between. */
static rt_word *offer_of(struct rt_board *board, uint32_t generation)
{
    return board->offer[generation & 1];
}

static peal_status hear(struct peal_comm *comm, uint32_t rank, uint32_t generation,
                        uint64_t deadline, peal_diag *diag)
{
    struct rt_board *board = rt_board(comm->base, &comm->layout, rank);
    while ((int32_t)(atomic_load_explicit(&board->offers, memory_order_acquire) - generation) < 0) {
        if (rt_world_failed(comm))
            return rt_failure(comm, diag);
        if (rt_now_ns() > deadline) {
            struct rt_error error = {.status = PEAL_ERR_TIMEOUT,
                                     .rank = comm->rank,
                                     .culprit = rank,
                                     .call = (uint32_t)comm->call};
            rt_fail(comm->base, &error);
            return rt_failure(comm, diag);
        }
        rt_sleep_us(20);
    }
    return PEAL_OK;
}

/* The same verdict on all ranks, from what all have offered. */
static peal_status compare(struct peal_comm *comm, uint32_t generation, peal_diag *diag)
{
    uint64_t first[2] = {0, 0};
    for (uint32_t r = 0; r < comm->nranks; r++) {
        rt_word *offer = offer_of(rt_board(comm->base, &comm->layout, r), generation);
        uint64_t low = atomic_load_explicit(&offer[0], memory_order_relaxed);
        uint64_t high = atomic_load_explicit(&offer[1], memory_order_relaxed);
        if (r == 0)
            first[0] = low, first[1] = high;
        if (!low && !high)
            return peal_fail(diag, PEAL_ERR_MISMATCH, "rank %u cannot take its new table", r);
        if (low != first[0] || high != first[1])
            return peal_fail(diag, PEAL_ERR_MISMATCH, "rank %u has another new table than rank 0",
                             r);
    }
    return PEAL_OK;
}

static peal_status agree(struct peal_comm *comm, struct peal_hash128 digest, peal_diag *diag)
{
    uint32_t generation = ++comm->generation;
    rt_word *offer = offer_of(comm->board, generation);
    uint64_t deadline = rt_now_ns() + (uint64_t)comm->timeout_ms * 1000000u;
    atomic_store_explicit(&offer[0], digest.low, memory_order_relaxed);
    atomic_store_explicit(&offer[1], digest.high, memory_order_relaxed);
    atomic_store_explicit(&comm->board->offers, generation, memory_order_release);
    for (uint32_t r = 0; r < comm->nranks; r++)
        PEAL_TRY(hear(comm, r, generation, deadline, diag));
    return compare(comm, generation, diag);
}

/* All that can fail on this rank alone. */
static peal_status make_ready(struct peal_comm *comm, peal_table *table, struct peal_comm *next,
                              struct peal_hash128 *digest, peal_diag *diag)
{
    if (table->nranks != comm->nranks)
        return peal_fail(diag, PEAL_ERR_ARG, "a table of %u ranks for %u", table->nranks,
                         comm->nranks);
    PEAL_TRY(rt_table_check(comm->world, table, comm->rank, digest, diag));
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
    if (comm->far)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "ranks are on several hosts");
    if (comm->failed || rt_world_failed(comm))
        return rt_failure(comm, diag);
    struct peal_comm next = *comm;
    peal_diag other = PEAL_DIAG_INIT;
    peal_status own = make_ready(comm, table, &next, &digest, diag);
    if (own != PEAL_OK)
        digest = (struct peal_hash128){0, 0};
    peal_status all = agree(comm, digest, own == PEAL_OK ? diag : &other);
    if (own != PEAL_OK || all != PEAL_OK) {
        rt_rows_drop(&next, comm);
        return own != PEAL_OK ? own : all;
    }
    rt_trace_free(comm);
    rt_rows_take(comm, &next);
    return PEAL_OK;
}
