/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks show each other their memory, and find out who reaches whose. */
#include "clock.h"
#include "cuda_comm.h"

#include <string.h>
#include <unistd.h>

#define SLOT 1024u

/* Of ranks in a world that was not joined: the first page of each one's heap, at a place that all
 * know. Nobody is more than one exchange ahead, so two slots do. */
struct corner {
    _Atomic uint32_t stage;
    uint32_t zero;
    char slot[2][SLOT];
};
_Static_assert(sizeof(struct corner) <= RT_PAGE, "a page");
_Static_assert(sizeof(struct cuda_card) <= SLOT, "a slot");

/* ---- exchanging */

static struct corner *corner_of(const struct peal_comm *host, uint32_t rank)
{
    return (struct corner *)(void *)(host->base + host->layout.heap +
                                     host->layout.heap_bytes * rank);
}

static peal_status await_stage(struct peal_comm *host, uint32_t rank, uint32_t stage,
                               uint64_t deadline, peal_diag *diag)
{
    struct corner *corner = corner_of(host, rank);
    while ((int32_t)(atomic_load_explicit(&corner->stage, memory_order_acquire) - stage) < 0) {
        if (rt_world_failed(host))
            return rt_failure_now(host, diag);
        if (rt_now_ns() > deadline)
            return peal_fail(diag, PEAL_ERR_TIMEOUT, "rank %u did not come within %u ms", rank,
                             host->timeout_ms);
        rt_sleep_us(100);
    }
    return PEAL_OK;
}

static peal_status exchange(struct peal_cuda_comm *comm, const void *mine, size_t bytes, void *all,
                            peal_diag *diag)
{
    struct peal_comm *host = comm->host;
    if (host->world->job)
        return rt_job_exchange(host->world->job, mine, bytes, all, diag);
    struct corner *own = corner_of(host, comm->rank);
    uint32_t stage = atomic_load_explicit(&own->stage, memory_order_relaxed) + 1;
    uint64_t deadline = rt_now_ns() + (uint64_t)host->timeout_ms * 1000000u;
    memcpy(own->slot[stage & 1], mine, bytes);
    atomic_store_explicit(&own->stage, stage, memory_order_release);
    for (uint32_t r = 0; r < comm->nranks; r++) {
        PEAL_TRY(await_stage(host, r, stage, deadline, diag));
        memcpy((char *)all + r * bytes, corner_of(host, r)->slot[stage & 1], bytes);
    }
    return PEAL_OK;
}

static peal_status agree(struct peal_cuda_comm *comm, struct cuda_card *mine,
                         struct cuda_card *cards, peal_status status, peal_diag *diag)
{
    mine->status = (int32_t)status;
    peal_copy_text(mine->text, sizeof mine->text, status == PEAL_OK || !diag ? "" : diag->text);
    PEAL_TRY(exchange(comm, mine, sizeof *mine, cards, diag));
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (cards[r].status != PEAL_OK)
            return peal_fail(diag, (peal_status)cards[r].status, "rank %u: %.*s", r,
                             (int)sizeof cards[r].text, cards[r].text);
    return PEAL_OK;
}

/* ---- who is who */

static int same_process(const struct cuda_card *a, const struct cuda_card *b)
{
    return a->pid == b->pid && a->pid_space == b->pid_space;
}

static int is_near(const struct peal_cuda_comm *comm, uint32_t rank)
{
    return !rt_is_far(comm->host, rank);
}

/* The driver's number of a card's device here: processes may see them in another order. */
static int find_device(const struct peal_cuda_comm *comm, const struct cu_uuid *uuid,
                       uint32_t *device)
{
    for (uint32_t i = 0; i < comm->cuda->devices; i++) {
        struct cu_uuid own;
        if (comm->cuda->call.device_uuid(&own, (cu_device)i) == CU_SUCCESS &&
            memcmp(&own, uuid, sizeof own) == 0) {
            *device = i;
            return 1;
        }
    }
    return 0;
}

static peal_status check_settings(const struct peal_cuda_comm *comm, const struct cuda_card *cards,
                                  peal_diag *diag)
{
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (cards[r].settings != cards[comm->rank].settings)
            return peal_fail(diag, PEAL_ERR_MISMATCH,
                             "rank %u has other parameters than rank %u (heap, zero-SM, sharing)",
                             r, comm->rank);
    return PEAL_OK;
}

/* ---- reaching */

/* Lets this rank's context reach plain memory of another device of this process. */
static peal_status enable_peer(const struct peal_cuda_comm *comm, uint32_t device, peal_diag *diag)
{
    cu_handle context;
    CUDA_TRY(comm->cuda, diag, context_retain, &context, (cu_device)device);
    cu_result result = comm->cuda->call.enable_peer(context, 0);
    (void)comm->cuda->call.context_release((cu_device)device);
    return result == CU_PEER_ACCESS_ALREADY_ENABLED
               ? PEAL_OK
               : cuda_check(comm->cuda, result, "enable_peer", diag);
}

static peal_status reach_here(struct peal_cuda_comm *comm, const struct cuda_card *card,
                              struct cuda_peer *peer, peal_diag *diag)
{
    struct cuda_block block = {.at = card->arena, .bytes = (size_t)card->memory.bytes};
    peer->mine = 1;
    peer->arena = card->arena;
    if (card->device == comm->device || peer->reach != CUDA_DIRECT)
        return PEAL_OK;
    if (card->memory.share == PEAL_CUDA_SHARE_IPC)
        return enable_peer(comm, card->device, diag);
    block.kind = CUDA_VMM;
    return cuda_block_allow(comm->cuda, &block, comm->device, diag);
}

/* Where loads and stores of this rank's device do not reach, it is mapped for its own device, whose
 * copies this process may ask for. */
static peal_status reach_there(struct peal_cuda_comm *comm, const struct cuda_card *card, int fd,
                               uint32_t device, struct cuda_peer *peer, peal_diag *diag)
{
    uint32_t user = peer->reach == CUDA_DIRECT ? comm->device : device;
    PEAL_TRY(cuda_block_import(comm->cuda, &card->memory, fd, user, &peer->block, diag));
    peer->arena = peer->block.at;
    return PEAL_OK;
}

static peal_status reach(struct peal_cuda_comm *comm, const struct cuda_card *cards, uint32_t rank,
                         int fd, peal_diag *diag)
{
    struct cuda_peer *peer = &comm->peers[rank];
    const struct cuda_card *card = &cards[rank];
    uint32_t device = 0;
    int can = 1;
    int fabric = card->memory.share == PEAL_CUDA_SHARE_FABRIC;
    if (!is_near(comm, rank) && !fabric)
        return PEAL_OK; /* by the network */
    if (find_device(comm, &card->uuid, &device) && device != comm->device)
        CUDA_TRY(comm->cuda, diag, can_access_peer, &can, (cu_device)comm->device,
                 (cu_device)device);
    peer->reach = can ? CUDA_DIRECT : CUDA_COPIES;
    if (same_process(card, &cards[comm->rank]))
        return reach_here(comm, card, peer, diag);
    return reach_there(comm, card, fd, device, peer, diag);
}

static peal_status reach_all(struct peal_cuda_comm *comm, const struct cuda_card *cards,
                             const int *fds, peal_diag *diag)
{
    for (uint32_t r = 0; r < comm->nranks; r++)
        PEAL_TRY(reach(comm, cards, r, fds[r], diag));
    return PEAL_OK;
}

/* Blocks of all ranks that share this one's device. */
static uint32_t lanes_here(const struct peal_cuda_comm *comm, const struct cuda_card *cards)
{
    uint32_t lanes = 0;
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (is_near(comm, r) &&
            memcmp(&cards[r].uuid, &cards[comm->rank].uuid, sizeof cards[r].uuid) == 0)
            lanes += cards[r].blocks;
    return lanes;
}

/* ---- the meeting */

struct meeting {
    struct cuda_card mine;
    struct cuda_card *cards;
    struct cuda_pass pass;
    int fd; /* of this rank's memory */
    int *fds;
    uint8_t *wants;
};

static peal_status make_card(struct peal_cuda_comm *comm, struct meeting *m, peal_diag *diag)
{
    struct cuda_card *card = &m->mine;
    uint64_t same[] = {comm->params.heap_bytes, (uint64_t)comm->params.zero_sm, comm->params.queues,
                       (uint64_t)comm->params.share};
    card->pid = (uint32_t)getpid();
    card->pid_space = comm->host->pid_space;
    card->arena = comm->arena.at;
    card->device = comm->device;
    card->blocks = comm->params.zero_sm ? 0 : comm->most_lanes;
    card->settings = peal_hash64(same, sizeof same);
    CUDA_TRY(comm->cuda, diag, device_uuid, &card->uuid, (cu_device)comm->device);
    PEAL_TRY(cuda_block_export(comm->cuda, &comm->arena, comm->params.share, &card->memory, &m->fd,
                               diag));
    if (comm->params.share != PEAL_CUDA_SHARE_FD)
        return PEAL_OK;
    PEAL_TRY(cuda_pass_open(&m->pass, diag));
    memcpy(card->socket, m->pass.name, sizeof card->socket);
    return PEAL_OK;
}

static peal_status show_memory(struct peal_cuda_comm *comm, struct meeting *m, peal_diag *diag)
{
    PEAL_TRY(check_settings(comm, m->cards, diag));
    if (comm->params.share == PEAL_CUDA_SHARE_FD) {
        for (uint32_t r = 0; r < comm->nranks; r++)
            m->wants[r] = is_near(comm, r) && !same_process(&m->cards[r], &m->mine);
        PEAL_TRY(cuda_pass_all(comm, &m->pass, m->fd, m->cards, m->wants, m->fds, diag));
    }
    PEAL_TRY(reach_all(comm, m->cards, m->fds, diag));
    return cuda_kernel_fits(comm, lanes_here(comm, m->cards), diag);
}

static peal_status meet(struct peal_cuda_comm *comm, struct meeting *m, peal_status status,
                        peal_diag *diag)
{
    if (status == PEAL_OK)
        status = make_card(comm, m, diag);
    PEAL_TRY(agree(comm, &m->mine, m->cards, status, diag));
    comm->met = 1;
    return show_memory(comm, m, diag);
}

peal_status cuda_meet(struct peal_cuda_comm *comm, peal_status status, peal_diag *diag)
{
    size_t n = comm->nranks;
    struct meeting m = {.pass = {.socket = -1}, .fd = -1};
    m.cards = peal_calloc(comm->ctx, n, sizeof *m.cards);
    m.fds = peal_calloc(comm->ctx, n, sizeof *m.fds);
    m.wants = peal_calloc(comm->ctx, n, sizeof *m.wants);
    int all = m.cards && m.fds && m.wants;
    for (size_t r = 0; all && r < n; r++)
        m.fds[r] = -1;
    status = all ? meet(comm, &m, status, diag) : peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (size_t r = 0; all && r < n; r++)
        if (m.fds[r] >= 0)
            (void)close(m.fds[r]);
    if (m.fd >= 0)
        (void)close(m.fd);
    cuda_pass_close(&m.pass);
    peal_free(comm->ctx, m.cards, n * sizeof *m.cards);
    peal_free(comm->ctx, m.fds, n * sizeof *m.fds);
    peal_free(comm->ctx, m.wants, n * sizeof *m.wants);
    return status;
}

peal_status cuda_agree(struct peal_cuda_comm *comm, peal_status status, peal_diag *diag)
{
    struct cuda_card mine = {.status = PEAL_OK};
    struct cuda_card *cards = peal_calloc(comm->ctx, comm->nranks, sizeof *cards);
    if (!cards)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    status = agree(comm, &mine, cards, status, diag);
    peal_free(comm->ctx, cards, comm->nranks * sizeof *cards);
    return status;
}

void cuda_part(struct peal_cuda_comm *comm)
{
    for (uint32_t r = 0; comm->peers && r < comm->nranks; r++)
        cuda_block_free(comm->cuda, &comm->peers[r].block);
}
