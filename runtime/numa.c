/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's part of the segment lies on the memory node of the processor that it joins on: packets,
 * scratch, semaphores and heap are written by others, and would lie where the first of them runs.
 * A node is only preferred; where the kernel takes no such wishes, pages come as they come.
 */
#define _GNU_SOURCE
#include "comm.h"

#if defined(__linux__)
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(SYS_mbind) && defined(SYS_getcpu)
#define HAVE_MBIND 1
#endif
#endif

#define NODES_MAX 1024u
#define NODE_BITS (8u * (unsigned)sizeof(unsigned long))

/* The whole pages of [at, at + bytes) of the segment. */
static void prefer(const struct peal_comm *comm, unsigned node, uint64_t at, uint64_t bytes)
{
#if defined(HAVE_MBIND)
    unsigned long mask[NODES_MAX / NODE_BITS] = {0};
    uint64_t first = (at + RT_PAGE - 1) & ~(uint64_t)(RT_PAGE - 1);
    uint64_t end = (at + bytes) & ~(uint64_t)(RT_PAGE - 1);
    mask[node / NODE_BITS] = 1ul << node % NODE_BITS;
    if (end > first)
        (void)syscall(SYS_mbind, comm->base + first, end - first, MPOL_PREFERRED, mask,
                      (unsigned long)NODES_MAX, 0u);
#else
    (void)comm, (void)node, (void)at, (void)bytes;
#endif
}

static int own_node(unsigned *node)
{
#if defined(HAVE_MBIND)
    return syscall(SYS_getcpu, NULL, node, NULL) == 0 && *node < NODES_MAX - 1;
#else
    (void)node;
    return 0;
#endif
}

void rt_numa_settle(const struct peal_comm *comm)
{
    const struct rt_layout *layout = &comm->layout;
    uint64_t rank = comm->rank, sems = (uint64_t)layout->nranks * layout->nsems * RT_LINE;
    unsigned node = 0;
    if (!own_node(&node))
        return;
    prefer(comm, node, layout->sems + rank * sems, sems);
    prefer(comm, node, layout->packets + 2 * rank * layout->packet_bytes, 2 * layout->packet_bytes);
    uint64_t calls = RT_AHEAD_MOST * layout->ring_slots;
    prefer(comm, node, layout->heads + rank * calls * sizeof(rt_word), calls * sizeof(rt_word));
    for (uint32_t i = 0; i < RT_CELLS; i++)
        prefer(comm, node, layout->cells[i] + rank * calls * rt_cell_bytes(i),
               calls * rt_cell_bytes(i));
    prefer(comm, node, layout->ring + PLAN_AHEAD * rank * layout->ring_bytes,
           PLAN_AHEAD * layout->ring_bytes);
    prefer(comm, node, layout->scratch + 2 * rank * layout->scratch_bytes,
           2 * layout->scratch_bytes);
    prefer(comm, node, layout->heap + rank * layout->heap_bytes, layout->heap_bytes);
}
