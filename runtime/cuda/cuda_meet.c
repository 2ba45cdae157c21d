/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks show each other their memory, and find out who reaches whose. */
#include "clock.h"
#include "cuda_comm.h"

#include <string.h>
#include <unistd.h>

/* ---- exchanging */

static peal_status await_stage(struct peal_comm *host, uint32_t rank, uint32_t stage,
                               struct rt_vigil *vigil, peal_diag *diag)
{
    struct cuda_corner *corner = cuda_corner(host, rank);
    while ((int32_t)(atomic_load_explicit(&corner->stage, memory_order_acquire) - stage) < 0) {
        PEAL_TRY(rt_vigil_look(host, vigil, rank, diag));
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
    struct cuda_corner *own = cuda_corner(host, comm->rank);
    uint32_t stage = atomic_load_explicit(&own->stage, memory_order_relaxed) + 1;
    struct rt_vigil vigil = rt_vigil_begin(host, 1);
    memcpy(own->slot[stage & 1], mine, bytes);
    atomic_store_explicit(&own->stage, stage, memory_order_release);
    for (uint32_t r = 0; r < comm->nranks; r++) {
        PEAL_TRY(await_stage(host, r, stage, &vigil, diag));
        memcpy((char *)all + r * bytes, cuda_corner(host, r)->slot[stage & 1], bytes);
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
    return status; /* who gave up an exchange may get in this one what was said in that */
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
static peal_status enable_peer(const struct peal_cuda_comm *comm, cu_handle context,
                               peal_diag *diag)
{
    cu_result result = comm->cuda->call.enable_peer(context, 0);
    return result == CU_PEER_ACCESS_ALREADY_ENABLED
               ? PEAL_OK
               : cuda_check(comm->cuda, result, "enable_peer", diag);
}

static peal_status reach_here(struct peal_cuda_comm *comm, const struct cuda_card *card,
                              uint32_t rank, peal_diag *diag)
{
    struct cuda_peer *peer = &comm->peers[rank];
    if (rank != comm->rank)
        PEAL_TRY(cuda_arena_take(comm, rank, card, diag));
    peer->mine = 1;
    peer->arena = card->arena;
    if (card->device == comm->device || peer->reach != CUDA_DIRECT)
        return PEAL_OK;
    /* Of plain memory: the arena, and in any case the caller's buffers. */
    PEAL_TRY(enable_peer(comm, peer->context, diag));
    return cuda_block_allow(comm->cuda, &peer->block, comm->device, diag);
}

/* Where loads and stores of this rank's device do not reach, it is mapped for its own device, whose
 * copies this process may ask for. */
static peal_status reach_there(struct peal_cuda_comm *comm, const struct cuda_card *card, int fd,
                               uint32_t device, struct cuda_peer *peer, peal_diag *diag)
{
    uint32_t user = peer->reach == CUDA_DIRECT ? comm->device : device;
    if (!card->memory.types && peer->reach != CUDA_DIRECT)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "memory of another process's device %u, which this rank's device %u does "
                         "not reach, cannot be shared by CUDA IPC",
                         device, comm->device);
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
    int can = 1, near = is_near(comm, rank);
    peer->nic_arena = card->arena;
    peer->nic_key = card->nic_key;
    if (!near && !(card->memory.types & CU_HANDLE_FABRIC))
        return PEAL_OK; /* by the network */
    if (find_device(comm, &card->uuid, &device) && device != comm->device)
        CUDA_TRY(comm->cuda, diag, can_access_peer, &can, (cu_device)comm->device,
                 (cu_device)device);
    peer->reach = can ? CUDA_DIRECT : CUDA_COPIES;
    int here = near && same_process(card, &cards[comm->rank]);
    peal_status status =
        here ? reach_here(comm, card, rank, diag) : reach_there(comm, card, fd, device, peer, diag);
    if (status == PEAL_OK && peer->reach == CUDA_COPIES)
        status = cuda_there_make(comm, rank, device, diag);
    if (status == PEAL_OK || near || comm->params.share == PEAL_CUDA_SHARE_FABRIC)
        return status;
    peer->reach = CUDA_UNREACHED; /* by the network, too: it is of another NVLink domain */
    return PEAL_OK;
}

/* From here on others may open this rank's memory, whether or not it gets to theirs. */
static void note_openers(struct peal_cuda_comm *comm, const struct cuda_card *cards)
{
    for (uint32_t r = 0; r < comm->nranks; r++)
        comm->peers[r].opens = is_near(comm, r) && !cards[r].memory.types &&
                               !same_process(&cards[r], &cards[comm->rank]);
}

static peal_status reach_all(struct peal_cuda_comm *comm, const struct cuda_card *cards,
                             const int *fds, peal_diag *diag)
{
    note_openers(comm, cards);
    for (uint32_t r = 0; r < comm->nranks; r++)
        PEAL_TRY(reach(comm, cards, r, fds[r], diag));
    return PEAL_OK;
}

/* Blocks on this rank's device: of the comm's ranks, and of the other comms of this process. */
static uint32_t lanes_here(const struct peal_cuda_comm *comm, const struct cuda_card *cards)
{
    uint32_t lanes = cuda_beside_lanes(comm);
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
    struct cuda_card *more; /* of the multicast object */
    struct cuda_pass pass;
    struct cuda_parcel parcel;
};

static peal_status make_card(struct peal_cuda_comm *comm, struct meeting *m, peal_diag *diag)
{
    struct cuda_card *card = &m->mine;
    uint64_t same[] = {comm->params.heap_bytes, (uint64_t)comm->params.zero_sm, comm->params.queues,
                       (uint64_t)comm->params.share, (uint64_t)comm->params.no_multicast};
    card->pid = (uint32_t)getpid();
    card->pid_space = comm->host->pid_space;
    card->arena = comm->arena.at;
    card->handle = comm->arena.handle;
    card->device = comm->device;
    card->blocks = comm->params.zero_sm ? 0 : comm->most_lanes;
    card->settings = peal_hash64(same, sizeof same);
    card->group = cuda_group_card(comm);
    card->nic_key = comm->nic_key;
    CUDA_TRY(comm->cuda, diag, device_uuid, &card->uuid, (cu_device)comm->device);
    cuda_arena_show(comm);
    PEAL_TRY(cuda_block_export(comm->cuda, &comm->arena, &card->memory, &m->parcel.fd, diag));
    if (m->parcel.fd < 0)
        return PEAL_OK;
    PEAL_TRY(cuda_pass_open(&m->pass, diag));
    memcpy(card->socket, m->pass.name, sizeof card->socket);
    return PEAL_OK;
}

static void forget_descriptors(const struct peal_cuda_comm *comm, struct cuda_parcel *parcel)
{
    for (uint32_t r = 0; r < comm->nranks; r++) {
        if (parcel->fds[r] >= 0)
            (void)close(parcel->fds[r]);
        parcel->fds[r] = -1;
    }
    if (parcel->fd >= 0)
        (void)close(parcel->fd);
    parcel->fd = -1;
}

static peal_status show_memory(struct peal_cuda_comm *comm, struct meeting *m, peal_diag *diag)
{
    struct cuda_parcel *parcel = &m->parcel;
    if (parcel->fd >= 0) {
        for (uint32_t r = 0; r < comm->nranks; r++)
            parcel->sends[r] = parcel->wants[r] =
                is_near(comm, r) && !same_process(&m->cards[r], &m->mine);
        PEAL_TRY(cuda_pass_all(comm, &m->pass, m->cards, parcel, diag));
    }
    return reach_all(comm, m->cards, parcel->fds, diag);
}

/* ---- the multicast object: the first rank's, shown to all others */

static peal_status take_object(struct peal_cuda_comm *comm, struct meeting *m, peal_diag *diag)
{
    struct cuda_parcel *parcel = &m->parcel;
    if (m->mine.memory.types & CU_HANDLE_FD) {
        for (uint32_t r = 0; r < comm->nranks; r++) {
            parcel->sends[r] = comm->rank == 0 && r != 0 && is_near(comm, r);
            parcel->wants[r] = comm->rank != 0 && r == 0 && is_near(comm, r);
        }
        PEAL_TRY(cuda_pass_all(comm, &m->pass, m->cards, parcel, diag));
    }
    return cuda_group_join(comm, &m->more[0].memory, parcel->fds[0], diag);
}

/* Its descriptor takes the way of the arenas'; by then all have got those. */
static peal_status join_group(struct peal_cuda_comm *comm, struct meeting *m, peal_status status,
                              peal_diag *diag)
{
    struct cuda_card mine = {.status = PEAL_OK};
    forget_descriptors(comm, &m->parcel);
    if (status == PEAL_OK && comm->rank == 0)
        status = cuda_group_create(comm, &mine.memory, &m->parcel.fd, diag);
    PEAL_TRY(agree(comm, &mine, m->more, status, diag));
    status = take_object(comm, m, diag);
    PEAL_TRY(agree(comm, &mine, m->more, status, diag));
    return cuda_group_bind(comm, diag);
}

static peal_status meet(struct peal_cuda_comm *comm, struct meeting *m, peal_status status,
                        peal_diag *diag)
{
    int joins = 0;
    if (status == PEAL_OK)
        status = make_card(comm, m, diag);
    PEAL_TRY(agree(comm, &m->mine, m->cards, status, diag));
    comm->met = 1;
    PEAL_TRY(check_settings(comm, m->cards, diag));
    PEAL_TRY(cuda_group_check(comm, m->cards, &joins, diag));
    status = show_memory(comm, m, diag);
    if (status == PEAL_OK)
        status = cuda_kernel_fits(comm, lanes_here(comm, m->cards), diag);
    return joins ? join_group(comm, m, status, diag) : status;
}

static int make_meeting(const struct peal_cuda_comm *comm, struct meeting *m)
{
    size_t n = comm->nranks;
    m->pass.socket = -1;
    m->parcel.fd = -1;
    m->cards = peal_calloc(comm->ctx, n, sizeof *m->cards);
    m->more = peal_calloc(comm->ctx, n, sizeof *m->more);
    m->parcel.fds = peal_calloc(comm->ctx, n, sizeof *m->parcel.fds);
    m->parcel.sends = peal_calloc(comm->ctx, n, 1);
    m->parcel.wants = peal_calloc(comm->ctx, n, 1);
    for (size_t r = 0; m->parcel.fds && r < n; r++)
        m->parcel.fds[r] = -1;
    return m->cards && m->more && m->parcel.fds && m->parcel.sends && m->parcel.wants;
}

peal_status cuda_meet(struct peal_cuda_comm *comm, peal_status status, peal_diag *diag)
{
    size_t n = comm->nranks;
    struct meeting m;
    memset(&m, 0, sizeof m);
    if (make_meeting(comm, &m))
        status = meet(comm, &m, status, diag);
    else
        status = peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    if (m.parcel.fds)
        forget_descriptors(comm, &m.parcel);
    cuda_pass_close(&m.pass);
    peal_free(comm->ctx, m.cards, n * sizeof *m.cards);
    peal_free(comm->ctx, m.more, n * sizeof *m.more);
    peal_free(comm->ctx, m.parcel.fds, n * sizeof *m.parcel.fds);
    peal_free(comm->ctx, m.parcel.sends, n);
    peal_free(comm->ctx, m.parcel.wants, n);
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

/* What is another process's first: it may wait for that before it gives its own back. */
void cuda_part(struct peal_cuda_comm *comm, int entered)
{
    uint32_t n = comm->peers ? comm->nranks : 0;
    int opened = 0;
    for (uint32_t r = 0; r < n; r++) {
        cuda_there_free(comm, r);
        if (!comm->peers[r].mine && entered)
            cuda_block_free(comm->cuda, &comm->peers[r].block);
        opened |= comm->peers[r].opens;
    }
    if (opened)
        atomic_store_explicit(&cuda_corner(comm->host, comm->rank)->closed, 1,
                              memory_order_release);
    for (uint32_t r = 0; r < n; r++)
        if (comm->peers[r].mine)
            cuda_arena_leave(comm, r);
}
