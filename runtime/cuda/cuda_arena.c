/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arenas of ranks of one process, which all of them use at one address. A rank that gives up while
 * ranks join does not know who has come as far as using its memory, and can wait for nobody: so the
 * last of those who use an arena gives it back, be it the rank's own or not. They are counted where
 * ranks meet, for they need not share a peal_cuda. What other processes have open by CUDA IPC they
 * close first.
 */
#include "clock.h"
#include "cuda_comm.h"

#include <string.h>

#define CLOSED_MS 1000u /* the most that one rank's end waits for the others' */

peal_status cuda_corner_make(struct peal_cuda_comm *comm, peal_diag *diag)
{
    struct peal_comm *host = comm->host;
    if (host->heap_used == 0 && peal_mem_alloc(host, sizeof(struct cuda_corner)))
        return PEAL_OK;
    return peal_fail(diag, PEAL_ERR_MEMORY, "the world's heap has no page for ranks to meet in");
}

struct cuda_corner *cuda_corner(const struct peal_comm *host, uint32_t rank)
{
    return (struct cuda_corner *)(void *)(host->base + host->layout.heap +
                                          host->layout.heap_bytes * rank);
}

void cuda_arena_show(const struct peal_cuda_comm *comm)
{
    atomic_store_explicit(&cuda_corner(comm->host, comm->rank)->users, 1, memory_order_release);
}

/* 0: all that used it have left it. */
static int join_users(_Atomic uint32_t *users)
{
    uint32_t count = atomic_load_explicit(users, memory_order_acquire);
    while (count && !atomic_compare_exchange_weak_explicit(
                        users, &count, count + 1, memory_order_acq_rel, memory_order_acquire))
        continue;
    return count != 0;
}

peal_status cuda_arena_take(struct peal_cuda_comm *comm, uint32_t rank,
                            const struct cuda_card *card, peal_diag *diag)
{
    struct cuda_peer *peer = &comm->peers[rank];
    cu_handle context;
    CUDA_TRY(comm->cuda, diag, context_retain, &context, (cu_device)card->device);
    if (!join_users(&cuda_corner(comm->host, rank)->users)) {
        (void)comm->cuda->call.context_release((cu_device)card->device);
        return peal_fail(diag, PEAL_ERR_PEER, "rank %u gave up while ranks joined", rank);
    }
    peer->context = context;
    peer->device = card->device;
    peer->block = (struct cuda_block){.kind = card->memory.types ? CUDA_VMM : CUDA_PLAIN,
                                      .at = card->arena,
                                      .bytes = (size_t)card->memory.bytes,
                                      .handle = card->handle,
                                      .types = (int)card->memory.types};
    return PEAL_OK;
}

/* CUDA IPC: memory is freed when no other process has it open. They have closed it once they part
 * from the comm; or they are dead, or keep it without end, which is theirs to answer for. */
static void await_closed(const struct peal_cuda_comm *comm)
{
    uint32_t ms = comm->host->timeout_ms < CLOSED_MS ? comm->host->timeout_ms : CLOSED_MS;
    uint64_t deadline = rt_now_ns() + (uint64_t)ms * 1000000u;
    for (uint32_t r = 0; r < comm->nranks; r++)
        while (comm->peers[r].opens && rt_now_ns() < deadline &&
               !atomic_load_explicit(&cuda_corner(comm->host, r)->closed, memory_order_acquire) &&
               rt_fate(comm->host, r) == RT_FINE)
            rt_sleep_us(100);
}

static void give_back(struct peal_cuda_comm *comm, uint32_t rank, uint32_t device,
                      cu_handle context, struct cuda_block *block)
{
    cu_handle before;
    if (!cuda_enter_to_free(comm->cuda, context))
        return;
    if (atomic_load_explicit(&cuda_corner(comm->host, rank)->bound, memory_order_acquire))
        cuda_group_unbind(comm, device, block->bytes);
    if (block->kind == CUDA_PLAIN)
        await_closed(comm);
    cuda_block_free(comm->cuda, block);
    (void)comm->cuda->call.context_pop(&before);
}

/* Nobody has used one that was not shown. */
static void leave(struct peal_cuda_comm *comm, uint32_t rank, uint32_t device, cu_handle context,
                  struct cuda_block *block)
{
    _Atomic uint32_t *users = &cuda_corner(comm->host, rank)->users;
    if (atomic_load_explicit(users, memory_order_acquire) == 0 ||
        atomic_fetch_sub_explicit(users, 1, memory_order_acq_rel) == 1)
        give_back(comm, rank, device, context, block);
    memset(block, 0, sizeof *block);
}

void cuda_arena_leave(struct peal_cuda_comm *comm, uint32_t rank)
{
    struct cuda_peer *peer = &comm->peers[rank];
    if (peer->block.kind == CUDA_NOTHING)
        return;
    leave(comm, rank, peer->device, peer->context, &peer->block);
    (void)comm->cuda->call.context_release((cu_device)peer->device);
}

void cuda_arena_free(struct peal_cuda_comm *comm)
{
    if (comm->arena.kind != CUDA_NOTHING)
        leave(comm, comm->rank, comm->device, comm->context, &comm->arena);
}
