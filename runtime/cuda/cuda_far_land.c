/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What TCP brings for this rank's arena: frames are received side by side, each taken to pinned
 * memory when it is whole, copied up, and acknowledged when it is there; the words of semaphores
 * and counts are written by the same stream, so behind it. In the transport's receiving thread,
 * which has no context of its own and may run beside captures.
 */
#include "cuda_far.h"

#include <string.h>

/* Where a stream's frame is received; taken when the first one comes. Plain memory: a driver may
 * pin none while kernels wait. */
struct land_room {
    char *at;
    cu_ptr to;
};

struct cuda_landing {
    struct far_landing landing; /* first */
    struct peal_cuda_comm *comm;
    cu_handle stream;
    char *pinned;     /* CUDA_PART bytes, on their way up */
    uint32_t streams; /* of a rank */
    struct land_room *rooms;
};

static struct cuda_landing *landing_of(struct far_landing *self)
{
    return (struct cuda_landing *)(void *)self;
}

/* ---- the thread's context */

static int enter(const struct peal_cuda_comm *comm, int *mode)
{
    *mode = CU_CAPTURE_RELAXED;
    return cuda_enter(comm, NULL) == PEAL_OK && comm->cuda->call.capture_mode(mode) == CU_SUCCESS;
}

/* What the device does not take ends the comm. */
static int leave(struct peal_cuda_comm *comm, int mode, int fine)
{
    (void)comm->cuda->call.capture_mode(&mode);
    cuda_leave(comm);
    if (!fine)
        peal_cuda_comm_abort(comm);
    return fine;
}

/* ---- names */

/* Where a name of the segment, or of the output, is in the arena. 0: nowhere. */
static int arena_of(const struct peal_cuda_comm *comm, uint64_t at, uint32_t bytes, cu_ptr *to)
{
    const struct rt_layout *host = &comm->host->layout;
    if (at >= FAR_OUT + CUDA_NAME_ARENA) { /* in a zero-SM call of this rank, and in its heap */
        uint64_t offset = at - FAR_OUT - CUDA_NAME_ARENA;
        *to = comm->arena.at + offset;
        return atomic_load_explicit(&comm->words->busy, memory_order_acquire) &&
               offset >= comm->heap && offset <= comm->heap_end && bytes <= comm->heap_end - offset;
    }
    if (at >= FAR_OUT) {
        uint64_t place =
            __atomic_load_n(&comm->port->place, __ATOMIC_ACQUIRE) & ((1ull << DEV_PLACE_BITS) - 1);
        uint64_t skip = at - FAR_OUT;
        *to = comm->arena.at + place + skip;
        return place >= comm->heap && place <= comm->heap_end && skip <= comm->heap_end - place &&
               bytes <= comm->heap_end - place - skip;
    }
    uint64_t skip = at - (host->scratch + 2 * host->scratch_bytes * comm->rank);
    uint64_t parity = skip / host->scratch_bytes, rest = skip % host->scratch_bytes;
    *to = comm->arena.at + comm->layout.scratch + parity * comm->layout.scratch_bytes + rest;
    return rest + bytes <= comm->layout.scratch_bytes;
}

/* ---- the transport's calls */

static char *land_room(struct far_landing *landing, uint32_t rank, uint32_t stream, uint64_t at,
                       uint32_t bytes)
{
    struct cuda_landing *self = landing_of(landing);
    struct land_room *room = &self->rooms[rank * self->streams + stream];
    if (bytes > CUDA_PART || !arena_of(self->comm, at, bytes, &room->to))
        return NULL;
    if (!room->at)
        room->at = peal_alloc(self->comm->ctx, CUDA_PART);
    return room->at;
}

static int land(struct far_landing *landing, uint32_t rank, uint32_t stream, uint32_t bytes)
{
    struct cuda_landing *self = landing_of(landing);
    const struct land_room *room = &self->rooms[rank * self->streams + stream];
    const struct cuda_calls *call = &self->comm->cuda->call;
    int mode;
    memcpy(self->pinned, room->at, bytes);
    int fine =
        enter(self->comm, &mode) &&
        call->copy(room->to, (cu_ptr)(uintptr_t)self->pinned, bytes, self->stream) == CU_SUCCESS &&
        call->stream_synchronize(self->stream) == CU_SUCCESS;
    (void)atomic_fetch_add_explicit(&self->comm->far->moves, 1, memory_order_relaxed);
    return leave(self->comm, mode, fine);
}

static int write_word(struct cuda_landing *self, int operation, uint64_t offset, uint64_t word)
{
    struct peal_cuda_comm *comm = self->comm;
    struct cu_mem_op op = {
        .operation = operation, .address = comm->arena.at + offset, .value = word};
    int mode;
    int fine =
        enter(comm, &mode) && comm->cuda->call.mem_ops(self->stream, 1, &op, 0) == CU_SUCCESS;
    return leave(comm, mode, fine);
}

static int land_store(struct far_landing *landing, uint64_t at, uint64_t word)
{
    struct cuda_landing *self = landing_of(landing);
    const struct peal_cuda_comm *comm = self->comm;
    const struct rt_layout *host = &comm->host->layout;
    uint64_t skip = at - (host->counts + 2 * host->count_bytes * comm->rank);
    uint64_t parity = skip / host->count_bytes, rest = skip % host->count_bytes;
    return write_word(self, CU_OP_WRITE_64,
                      comm->layout.counts + parity * comm->layout.count_bytes + rest, word);
}

static int land_raise(struct far_landing *landing, uint32_t rank, uint32_t sem, uint64_t word)
{
    struct cuda_landing *self = landing_of(landing);
    const struct dev_layout *layout = &self->comm->layout;
    if (sem >= layout->nsems)
        return write_word(self, CU_OP_WRITE_32,
                          cuda_zero_cell(self->comm, rank, sem - layout->nsems), (uint32_t)word);
    return write_word(self, CU_OP_WRITE_64,
                      layout->sems + ((uint64_t)rank * layout->nsems + sem) * DEV_LINE, word);
}

/* ---- life */

peal_status cuda_land_make(struct cuda_far *far, peal_diag *diag)
{
    struct peal_cuda_comm *comm = far->comm;
    struct cuda_landing *self = peal_calloc(comm->ctx, 1, sizeof *self);
    if (!self)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    far->landing = self;
    self->comm = comm;
    self->landing = (struct far_landing){land_room, land, land_store, land_raise,
                                         2 * comm->layout.nsems + CUDA_CELL_SEM};
    self->streams = comm->host->world->job->sockets;
    self->rooms = peal_calloc(comm->ctx, (size_t)comm->nranks * self->streams, sizeof *self->rooms);
    if (!self->rooms)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    void *pinned = NULL;
    CUDA_TRY(comm->cuda, diag, host_alloc, &pinned, CUDA_PART, CU_HOST_PORTABLE);
    self->pinned = pinned;
    CUDA_TRY(comm->cuda, diag, stream_create, &self->stream, CU_STREAM_NONBLOCKING);
    atomic_store_explicit(&comm->host->far->landing, &self->landing, memory_order_release);
    return PEAL_OK;
}

/* The transport's thread has ended. */
void cuda_land_free(struct cuda_far *far, int entered)
{
    struct peal_cuda_comm *comm = far->comm;
    struct cuda_landing *self = far->landing;
    if (!self)
        return;
    atomic_store_explicit(&comm->host->far->landing, NULL, memory_order_relaxed);
    size_t count = (size_t)comm->nranks * self->streams;
    if (entered && self->stream) {
        (void)comm->cuda->call.stream_synchronize(self->stream);
        (void)comm->cuda->call.stream_destroy(self->stream);
    }
    if (entered && self->pinned)
        (void)comm->cuda->call.host_free(self->pinned);
    for (size_t i = 0; self->rooms && i < count; i++)
        peal_free(comm->ctx, self->rooms[i].at, CUDA_PART);
    peal_free(comm->ctx, self->rooms, count * sizeof *self->rooms);
    peal_free(comm->ctx, self, sizeof *self);
    far->landing = NULL;
}
