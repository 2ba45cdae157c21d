/* SPDX-License-Identifier: Apache-2.0 */
/* What calls have moved, by transport: networks and the kernel count as they go; what goes through
 * memory follows from the programs, and costs the hot path nothing. */
#include "far.h"

const char *peal_transport_name(peal_transport transport)
{
    static const char *const names[] = {[PEAL_TRANSPORT_SHM] = "shm",
                                        [PEAL_TRANSPORT_CMA] = "cma",
                                        [PEAL_TRANSPORT_TCP] = "tcp",
                                        [PEAL_TRANSPORT_RDMA] = "rdma"};
    return (unsigned)transport < PEAL_TRANSPORT_COUNT ? names[transport] : NULL;
}

/* Elements of a step's nth chunk, in all trips. */
static uint64_t elements_of(const struct rt_row *row, const struct rt_step *step, uint32_t nth)
{
    uint32_t chunk = step->chunk + nth * step->stride;
    uint64_t first = row->bounds[chunk], count = row->ends[chunk] - first;
    if (!step->limit)
        return count;
    uint64_t before = first - step->begin * row->count;
    uint64_t left = *step->limit > before ? *step->limit - before : 0;
    return count < left ? count : left;
}

static uint64_t step_bytes(const struct peal_comm *comm, const struct rt_row *row,
                           const struct rt_step *step)
{
    uint64_t total = 0;
    size_t each = (size_t)step->nsrc + step->ndst;
    for (uint32_t nth = 0; nth <= step->more; nth++) {
        const struct rt_operand *operand = row->operands + step->operands + nth * each;
        uint64_t others = 0;
        for (size_t i = 0; i < each; i++)
            others += operand[i].rank != comm->rank && !rt_is_far(comm, operand[i].rank);
        if (others)
            total += others * rt_move_bytes(row, step, (size_t)elements_of(row, step, nth));
    }
    return total;
}

uint64_t rt_near_bytes(const struct peal_comm *comm, const struct rt_row *row)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < row->nsteps; i++)
        if (row->steps[i].kind < RT_SIGNAL)
            total += step_bytes(comm, row, &row->steps[i]);
    return total;
}

static void add(struct rt_carried *carried, uint64_t bytes, uint64_t ns)
{
    if (!bytes)
        return;
    carried->calls++;
    carried->bytes += bytes;
    carried->time_ns += ns;
}

/* What the kernel has copied is what else would have gone through memory. */
void rt_carried_end(struct peal_comm *comm, struct rt_row *row, uint64_t ns)
{
    uint64_t near = row->counted ? rt_near_bytes(comm, row) : row->near_bytes;
    uint64_t attached = comm->carried[PEAL_TRANSPORT_CMA];
    add(&row->carried[PEAL_TRANSPORT_SHM], near > attached ? near - attached : 0, ns);
    for (uint32_t t = PEAL_TRANSPORT_CMA; t < PEAL_TRANSPORT_COUNT; t++) {
        add(&row->carried[t], comm->carried[t], ns);
        comm->carried[t] = 0;
    }
}
