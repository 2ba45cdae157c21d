/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting outside of calls, for what the other ranks of a world do when a comm is made or its table
 * is replaced: until the deadline, or until one of them has come to an end. */
#include "clock.h"
#include "far.h"

#define LOOK_NS 2000000u /* between looks at the peers */

struct rt_vigil rt_vigil_begin(const struct peal_comm *comm, int joins)
{
    uint64_t now = rt_now_ns();
    return (struct rt_vigil){.deadline = now + (uint64_t)comm->timeout_ms * 1000000u,
                             .next_look = now + LOOK_NS,
                             .joins = joins,
                             .missed = RT_NOBODY};
}

static void look(const struct peal_comm *comm, struct rt_vigil *vigil, uint32_t rank)
{
    for (uint32_t r = 0; r < comm->nranks && vigil->missed == RT_NOBODY; r++) {
        if (r == comm->rank || (rank != RT_NOBODY && r != rank))
            continue;
        vigil->fate = rt_fate(comm, r);
        if (vigil->fate != RT_FINE)
            vigil->missed = r;
    }
}

static peal_status end(struct peal_comm *comm, const struct rt_vigil *vigil, peal_status status,
                       uint32_t culprit, peal_diag *diag)
{
    struct rt_error error = {.status = status,
                             .rank = comm->rank,
                             .culprit = culprit,
                             .lane = RT_NOBODY,
                             .step = vigil->joins ? RT_JOINING : RT_CHANGING,
                             .call = (uint32_t)comm->call,
                             .reason = status == PEAL_ERR_PEER ? vigil->fate : RT_FINE};
    rt_fail(comm->base, &error);
    rt_far_fail(comm, &error);
    return rt_failure(comm, diag);
}

/* Who has ended may have done before what is waited for: between the look at it and the end the
 * caller looks once more. */
peal_status rt_vigil_look(struct peal_comm *comm, struct rt_vigil *vigil, uint32_t rank,
                          peal_diag *diag)
{
    if (rt_world_failed(comm))
        return rt_failure(comm, diag);
    if (vigil->missed != RT_NOBODY && (rank == RT_NOBODY || rank == vigil->missed))
        return end(comm, vigil, PEAL_ERR_PEER, vigil->missed, diag);
    vigil->missed = RT_NOBODY;
    uint64_t now = rt_now_ns();
    if (now > vigil->deadline && vigil->joins)
        return peal_fail(diag, PEAL_ERR_TIMEOUT, "rank %u did not join within %u ms", rank,
                         comm->timeout_ms);
    if (now > vigil->deadline)
        return end(comm, vigil, PEAL_ERR_TIMEOUT, rank, diag);
    if (now < vigil->next_look)
        return PEAL_OK;
    vigil->next_look = now + LOOK_NS;
    look(comm, vigil, rank);
    return PEAL_OK;
}
