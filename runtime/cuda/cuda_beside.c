/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comms beside each other on a device, as far as one handle of the driver knows them. Kernels of
 * different comms may wait for ranks that launched them in another order, so all of them have to be
 * resident at once; where they are in one stream that is no help, and who waits in vain is told
 * what holds the late rank up.
 */
#include "cuda_comm.h"

void cuda_beside_enter(struct peal_cuda_comm *comm)
{
    struct peal_cuda *cuda = comm->cuda;
    (void)pthread_mutex_lock(&cuda->lock);
    comm->next = cuda->comms;
    cuda->comms = comm;
    (void)pthread_mutex_unlock(&cuda->lock);
}

void cuda_beside_leave(struct peal_cuda_comm *comm)
{
    struct peal_cuda *cuda = comm->cuda;
    (void)pthread_mutex_lock(&cuda->lock);
    struct peal_cuda_comm **at = &cuda->comms;
    while (*at && *at != comm)
        at = &(*at)->next;
    if (*at)
        *at = comm->next;
    (void)pthread_mutex_unlock(&cuda->lock);
}

/* Ranks of one comm have one world's memory. */
static int is_other(const struct peal_cuda_comm *comm, const struct peal_cuda_comm *other)
{
    return other->host->base != comm->host->base && other->device == comm->device;
}

uint32_t cuda_beside_lanes(const struct peal_cuda_comm *comm)
{
    uint32_t lanes = 0;
    (void)pthread_mutex_lock(&comm->cuda->lock);
    for (const struct peal_cuda_comm *other = comm->cuda->comms; other; other = other->next)
        if (is_other(comm, other) && !other->params.zero_sm)
            lanes += other->most_lanes;
    (void)pthread_mutex_unlock(&comm->cuda->lock);
    return lanes;
}

static int is_under_way(const struct peal_cuda_comm *comm)
{
    return __atomic_load_n(&comm->port->begun, __ATOMIC_ACQUIRE) !=
               __atomic_load_n(&comm->port->done, __ATOMIC_ACQUIRE) ||
           atomic_load_explicit(&comm->words->busy, memory_order_acquire) != 0;
}

int cuda_beside_busy(const struct peal_cuda_comm *comm)
{
    int busy = 0;
    (void)pthread_mutex_lock(&comm->cuda->lock);
    for (const struct peal_cuda_comm *other = comm->cuda->comms; other && !busy;
         other = other->next)
        busy = is_other(comm, other) && is_under_way(other);
    (void)pthread_mutex_unlock(&comm->cuda->lock);
    return busy;
}
