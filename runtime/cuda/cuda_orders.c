/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's orders, as work of streams.
 *
 *   ce          a copy on one of the copy engines' streams, all pieces of a transfer together; the
 *               same stream writes what the kernel waits for, and the semaphores that follow
 *   staged      down to pinned memory on one stream, up from it on another, in two buffers by turns
 *   rdma, tcp   to a rank of another host: cuda_far.h; between ranks of one host, as in plans for
 *               several hosts that one runs: as staged
 *
 * Orders of one call may be taken in any order of their lanes, but those of an earlier call go
 * first: signals of one semaphore then come in order, from whichever lanes.
 */
#include "cuda_far.h"

#include <stddef.h>
#include <string.h>

/* ---- making */

/* The kernel, or a zero-SM call. */
static int hands_over(const struct peal_cuda_comm *comm)
{
    uint32_t host = 1u << PEAL_ENGINE_CE | 1u << PEAL_ENGINE_STAGED | 1u << PEAL_ENGINE_RDMA |
                    1u << PEAL_ENGINE_TCP;
    return comm->far || (!comm->params.zero_sm && (comm->host->engines & host) != 0);
}

static peal_status make_staging(struct cuda_service *service, peal_diag *diag)
{
    const struct peal_cuda *cuda = service->comm->cuda;
    void *bounce = NULL;
    CUDA_TRY(cuda, diag, host_alloc, &bounce, CUDA_BOUNCE_TOTAL, CU_HOST_PORTABLE);
    service->bounce = bounce;
    for (unsigned i = 0; i < 2; i++) {
        CUDA_TRY(cuda, diag, event_create, &service->down_done[i], CU_EVENT_NO_TIMING);
        CUDA_TRY(cuda, diag, event_create, &service->up_done[i], CU_EVENT_NO_TIMING);
    }
    return PEAL_OK;
}

peal_status cuda_orders_make(struct cuda_service *service, peal_diag *diag)
{
    struct peal_cuda_comm *comm = service->comm;
    size_t sems = (size_t)comm->nranks * comm->layout.nsems;
    service->orders = hands_over(comm);
    if (!comm->far) /* else all ranks have agreed on it */
        comm->stand_ins |= 1u << PEAL_ENGINE_RDMA | 1u << PEAL_ENGINE_TCP;
    if (!service->orders)
        return PEAL_OK;
    if (!comm->about.mem_ops || !cuda_attribute(comm->cuda, comm->device, CU_ATTR_MEM_OPS_64))
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "plans with engines of the host need memory operations of streams, which "
                         "this device lacks");
    service->raised_by = peal_calloc(comm->ctx, sems, sizeof *service->raised_by);
    service->raised_as = peal_calloc(comm->ctx, sems, sizeof *service->raised_as);
    service->copies = peal_calloc(comm->ctx, comm->most_lanes, sizeof *service->copies);
    if (!service->raised_by || !service->raised_as || !service->copies)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (size_t i = 0; i < sems; i++)
        service->raised_by[i] = CUDA_NOWHERE;
    for (unsigned i = 0; i < CUDA_STREAMS; i++)
        CUDA_TRY(comm->cuda, diag, stream_create, &service->stream[i], CU_STREAM_NONBLOCKING);
    return make_staging(service, diag);
}

/* Streams are empty, or their comm has failed and they are let end. */
static void free_streams(struct cuda_service *service)
{
    const struct cuda_calls *call = &service->comm->cuda->call;
    for (unsigned i = 0; i < CUDA_STREAMS; i++)
        if (service->stream[i]) {
            (void)call->stream_synchronize(service->stream[i]);
            (void)call->stream_destroy(service->stream[i]);
        }
    for (unsigned i = 0; i < 2; i++) {
        if (service->down_done[i])
            (void)call->event_destroy(service->down_done[i]);
        if (service->up_done[i])
            (void)call->event_destroy(service->up_done[i]);
    }
    if (service->bounce)
        (void)call->host_free(service->bounce);
}

void cuda_orders_free(struct cuda_service *service, int entered)
{
    struct peal_cuda_comm *comm = service->comm;
    size_t sems = (size_t)comm->nranks * comm->layout.nsems;
    if (entered)
        free_streams(service);
    peal_free(comm->ctx, service->raised_by, sems * sizeof *service->raised_by);
    peal_free(comm->ctx, service->raised_as, sems * sizeof *service->raised_as);
    peal_free(comm->ctx, service->copies, comm->most_lanes * sizeof *service->copies);
}

/* ---- places */

static struct cuda_ask ask_for(const struct cuda_service *service, uint32_t rank, uint32_t stream)
{
    return (struct cuda_ask){rank, CUDA_SERVICE, service->stream[stream]};
}

/* What the order names of another rank. Buffers of a call are where that rank's board says, which
 * is device memory of its own: copied here first. */
static peal_status read_board(struct cuda_service *service, uint32_t rank, struct dev_board *board,
                              peal_diag *diag)
{
    struct peal_cuda_comm *comm = service->comm;
    char *here = service->bounce + 2 * CUDA_BOUNCE_BYTES; /* behind the two buffers */
    struct cuda_ask ask = ask_for(service, rank, CUDA_UP);
    PEAL_TRY(cuda_there_copy(comm, &ask, (cu_ptr)(uintptr_t)here, comm->peers[rank].arena,
                             sizeof *board, diag));
    CUDA_TRY(comm->cuda, diag, stream_synchronize, service->stream[CUDA_UP]);
    memcpy(board, here, sizeof *board);
    return PEAL_OK;
}

static peal_status resolve(struct cuda_service *service, uint8_t space, uint32_t rank, uint64_t at,
                           cu_ptr *address, peal_diag *diag)
{
    const struct cuda_peer *peer = &service->comm->peers[rank];
    struct dev_board board;
    *address = space == DEV_AT_ADDRESS ? at : peer->arena + at;
    if (space == DEV_AT_ADDRESS || space == DEV_AT_ARENA)
        return PEAL_OK;
    PEAL_TRY(read_board(service, rank, &board, diag));
    *address += space == DEV_AT_IN ? board.in : board.out;
    return PEAL_OK;
}

/* ---- answers */

/* rank: in whose memory the words lie, or the own for the host's. */
static peal_status write_ops(struct cuda_service *service, uint32_t rank, uint32_t stream,
                             unsigned count, peal_diag *diag)
{
    struct cuda_ask ask = ask_for(service, rank, stream);
    return cuda_there_ops(service->comm, &ask, service->op, count, diag);
}

static struct cu_mem_op write_op(int operation, cu_ptr at, uint64_t value)
{
    return (struct cu_mem_op){.operation = operation, .address = at, .value = value};
}

static struct cu_mem_op answer(const struct cuda_service *service, const uint32_t *word,
                               uint32_t value)
{
    const struct peal_cuda_comm *comm = service->comm;
    size_t offset = (size_t)((const char *)word - (const char *)comm->port);
    return write_op(CU_OP_WRITE_32, comm->port_device + offset, value);
}

/* ---- moves */

static int is_staged(uint8_t engine)
{
    return engine != PEAL_ENGINE_CE;
}

/* The buffer of this turn is free once what was in it has gone up. */
static peal_status stage_piece(struct cuda_service *service, const struct cuda_across *piece,
                               peal_diag *diag)
{
    const struct peal_cuda *cuda = service->comm->cuda;
    struct cuda_ask ask_down = ask_for(service, piece->from_rank, CUDA_DOWN);
    struct cuda_ask ask_up = ask_for(service, piece->to_rank, CUDA_UP);
    unsigned turn = service->turn++ % 2;
    cu_ptr bounce = (cu_ptr)(uintptr_t)service->bounce + (cu_ptr)turn * CUDA_BOUNCE_BYTES;
    cu_handle down = service->stream[CUDA_DOWN], up = service->stream[CUDA_UP];
    CUDA_TRY(cuda, diag, stream_wait_event, down, service->up_done[turn], 0);
    PEAL_TRY(cuda_there_copy(service->comm, &ask_down, bounce, piece->from, piece->bytes, diag));
    CUDA_TRY(cuda, diag, event_record, service->down_done[turn], down);
    CUDA_TRY(cuda, diag, stream_wait_event, up, service->down_done[turn], 0);
    PEAL_TRY(cuda_there_copy(service->comm, &ask_up, piece->to, bounce, piece->bytes, diag));
    return CUDA_DO(cuda, diag, event_record, service->up_done[turn], up);
}

static peal_status stage(struct cuda_service *service, const struct cuda_across *all,
                         peal_diag *diag)
{
    for (size_t at = 0; at < all->bytes; at += CUDA_BOUNCE_BYTES) {
        struct cuda_across piece = *all;
        size_t left = all->bytes - at;
        piece.to += at;
        piece.from += at;
        piece.bytes = left < CUDA_BOUNCE_BYTES ? left : CUDA_BOUNCE_BYTES;
        PEAL_TRY(stage_piece(service, &piece, diag));
    }
    return PEAL_OK;
}

/* staged: both are told when the upper half is through, which is behind the lower one. */
static peal_status end_transfer(struct cuda_service *service, uint32_t lane,
                                const struct dev_order *order, uint32_t stream, peal_diag *diag)
{
    struct dev_port *port = service->comm->port;
    service->carrier[lane][order->event] = stream;
    service->op[0] = answer(service, &port->freed[lane][order->event], order->number);
    service->op[1] = answer(service, &port->delivered[lane][order->event], order->number);
    return write_ops(service, service->comm->rank, stream, 2, diag);
}

/* Within this host. */
static peal_status move_near(struct cuda_service *service, uint32_t lane, uint32_t stream,
                             const struct dev_order *order, peal_diag *diag)
{
    const struct peal_cuda_comm *comm = service->comm;
    struct cuda_across all = {
        .bytes = (size_t)order->bytes, .to_rank = order->dst_rank, .from_rank = order->src_rank};
    PEAL_TRY(resolve(service, order->src_space, order->src_rank, order->src, &all.from, diag));
    PEAL_TRY(resolve(service, order->dst_space, order->dst_rank, order->dst, &all.to, diag));
    if (is_staged(order->engine))
        return all.to == all.from ? PEAL_OK : stage(service, &all, diag);
    if (cuda_is_there(comm, all.to_rank) || cuda_is_there(comm, all.from_rank))
        return cuda_there_across(comm, &all, service->stream[stream], diag);
    return cuda_copies_add(comm->cuda, &service->copies[lane], all.to, all.from, all.bytes,
                           service->stream[stream], diag);
}

static peal_status do_move(struct cuda_service *service, uint32_t lane,
                           const struct dev_order *order, peal_diag *diag)
{
    struct cuda_far *far = service->comm->far;
    uint32_t stream = is_staged(order->engine) ? (uint32_t)CUDA_UP : lane % CUDA_ENGINE_STREAMS;
    peal_status status;
    if (far)
        cuda_far_begin(far, lane, order);
    if (cuda_line_of(far, order->dst_rank))
        cuda_far_move(far, lane, order);
    else
        PEAL_TRY(move_near(service, lane, stream, order, diag));
    if (order->flags & DEV_ORDER_MORE)
        return PEAL_OK;
    PEAL_TRY(cuda_copies_flush(service->comm->cuda, &service->copies[lane], service->stream[stream],
                               diag));
    if (far && cuda_far_end(service, lane, order, stream, &status, diag))
        return status;
    return end_transfer(service, lane, order, stream, diag);
}

/* ---- signals */

static uint32_t stream_of_signal(const struct cuda_service *service, uint32_t lane,
                                 const struct dev_order *order)
{
    if (order->event != DEV_NO_EVENT)
        return service->carrier[lane][order->event];
    return is_staged(order->engine) ? (uint32_t)CUDA_UP : lane % CUDA_ENGINE_STREAMS;
}

static const uint32_t *raised_word(const struct peal_cuda_comm *comm, uint32_t sem)
{
    return (const uint32_t *)(const void *)(comm->port + 1) + sem;
}

/* The last signal of the semaphore went by another stream, and is still under way. */
static int must_hold(const struct cuda_service *service, uint32_t lane,
                     const struct dev_order *order)
{
    const struct peal_cuda_comm *comm = service->comm;
    uint32_t by = service->raised_by[order->sem];
    if (cuda_far_holds(service, lane, order))
        return 1;
    if (by == CUDA_NOWHERE || by == stream_of_signal(service, lane, order))
        return 0;
    return __atomic_load_n(raised_word(comm, order->sem), __ATOMIC_ACQUIRE) !=
           service->raised_as[order->sem];
}

static peal_status do_signal(struct cuda_service *service, uint32_t lane,
                             const struct dev_order *order, peal_diag *diag)
{
    const struct peal_cuda_comm *comm = service->comm;
    uint32_t stream = stream_of_signal(service, lane, order);
    uint64_t word = (uint64_t)order->digest << 32 | order->count;
    if (cuda_line_of(comm->far, order->dst_rank)) {
        cuda_far_word(comm->far, order);
        return PEAL_OK;
    }
    service->raised_by[order->sem] = stream;
    service->raised_as[order->sem] = order->count;
    service->op[0] =
        write_op(CU_OP_WRITE_64, comm->peers[order->dst_rank].arena + order->dst, word);
    service->op[1] = answer(service, raised_word(comm, order->sem), order->count);
    return write_ops(service, order->dst_rank, stream, 2, diag);
}

/* The signal behind it follows no event, and so takes the same stream. */
static peal_status do_store(struct cuda_service *service, uint32_t lane,
                            const struct dev_order *order, peal_diag *diag)
{
    const struct peal_cuda_comm *comm = service->comm;
    if (cuda_line_of(comm->far, order->dst_rank)) {
        cuda_far_word(comm->far, order);
        return PEAL_OK;
    }
    service->op[0] =
        write_op(CU_OP_WRITE_64, comm->peers[order->dst_rank].arena + order->dst, order->src);
    return write_ops(service, order->dst_rank, stream_of_signal(service, lane, order), 1, diag);
}

/* ---- taking */

static const struct dev_order *next_order(const struct cuda_service *service, uint32_t lane)
{
    uint32_t head = service->head[lane];
    const struct dev_order *order = &service->comm->port->orders[lane][head % DEV_ORDERS];
    return __atomic_load_n(&order->turn, __ATOMIC_ACQUIRE) == head + 1 ? order : NULL;
}

/* Whether another lane has an order of an earlier call. This lane's order has been seen: so has
 * everything that was ordered before its call. */
static int is_late(const struct cuda_service *service, uint32_t lanes, uint32_t call)
{
    for (uint32_t lane = 0; lane < lanes; lane++) {
        const struct dev_order *order = next_order(service, lane);
        if (order && (int32_t)(order->call - call) < 0)
            return 1;
    }
    return 0;
}

static peal_status take(struct cuda_service *service, uint32_t lane, peal_diag *diag)
{
    struct dev_order order = *next_order(service, lane);
    PEAL_TRY(order.kind == DEV_ORDER_MOVE     ? do_move(service, lane, &order, diag)
             : order.kind == DEV_ORDER_SIGNAL ? do_signal(service, lane, &order, diag)
                                              : do_store(service, lane, &order, diag));
    service->head[lane]++;
    __atomic_store_n(&service->comm->port->head[lane], service->head[lane], __ATOMIC_RELEASE);
    return PEAL_OK;
}

peal_status cuda_orders_poll(struct cuda_service *service, uint32_t *taken, peal_diag *diag)
{
    uint32_t lanes = service->comm->most_lanes;
    *taken = 0;
    for (uint32_t lane = 0; lane < lanes; lane++) {
        const struct dev_order *order = next_order(service, lane);
        if (!order || is_late(service, lanes, order->call) ||
            cuda_far_full(service->comm->far, order) ||
            (order->kind == DEV_ORDER_SIGNAL && must_hold(service, lane, order)))
            continue;
        PEAL_TRY(take(service, lane, diag));
        ++*taken;
    }
    return PEAL_OK;
}
