/* SPDX-License-Identifier: Apache-2.0 */
/* Orders for ranks of other hosts: into lines, through pinned memory where they have to, and on to
 * the transport over TCP or to a queue pair. The service thread's. */
#include "cuda_far.h"

/* ---- transfers */

static struct cuda_transfer *transfer_of(struct cuda_far *far, uint32_t lane, uint32_t event)
{
    return &far->transfer[lane][event];
}

static int is_ticket_done(const struct cuda_far *far, uint32_t stream, uint32_t ticket)
{
    uint32_t done = __atomic_load_n(&far->tickets_done[stream], __ATOMIC_ACQUIRE);
    return (int32_t)(done - ticket) >= 0;
}

void cuda_far_part(struct cuda_far *far, struct cuda_transfer *transfer, int read, int done)
{
    struct dev_port *port = far->comm->port;
    uint32_t lane = transfer->lane, event = transfer->event;
    transfer->unread -= (uint32_t)read;
    transfer->undone -= (uint32_t)done;
    if (transfer->zero)
        return;
    if (read && transfer->unread == 0)
        __atomic_store_n(&port->freed[lane][event], transfer->number, __ATOMIC_RELEASE);
    if (done && transfer->undone == 0)
        __atomic_store_n(&port->delivered[lane][event], transfer->number, __ATOMIC_RELEASE);
}

/* Behind all that the stream was given. */
static peal_status write_ticket(struct cuda_service *service, uint32_t stream, uint32_t *ticket,
                                peal_diag *diag)
{
    struct cuda_far *far = service->comm->far;
    *ticket = ++far->tickets[stream];
    struct cu_mem_op op = {.operation = CU_OP_WRITE_32,
                           .address = far->tickets_device + stream * sizeof *ticket,
                           .value = *ticket};
    return CUDA_DO(service->comm->cuda, diag, mem_ops, service->stream[stream], 1, &op, 0);
}

/* Those whose part within this host is through. */
static void poll_near(struct cuda_far *far)
{
    for (uint32_t i = 0; far->waiting && i < DEV_LANES * DEV_EVENTS; i++) {
        struct cuda_transfer *transfer = transfer_of(far, i / DEV_EVENTS, i % DEV_EVENTS);
        if (!transfer->listed || !is_ticket_done(far, transfer->stream, transfer->ticket))
            continue;
        transfer->listed = 0;
        far->waiting--;
        cuda_far_part(far, transfer, 1, 1);
    }
}

/* ---- taking orders */

int cuda_far_has_room(const struct cuda_line *line)
{
    return CUDA_LINE - (line->tail - line->head) >= 2;
}

int cuda_far_full(const struct cuda_far *far, const struct dev_order *order)
{
    const struct cuda_line *line = cuda_line_of(far, order->dst_rank);
    return line && !cuda_far_has_room(line);
}

int cuda_far_holds(const struct cuda_service *service, uint32_t lane, const struct dev_order *order)
{
    const struct cuda_far *far = service->comm->far;
    if (!far || order->kind != DEV_ORDER_SIGNAL || order->event == DEV_NO_EVENT)
        return 0;
    int to_far = cuda_line_of(far, order->dst_rank) != NULL;
    if (far->transfer[lane][order->event].far == to_far)
        return 0; /* what carries the one carries the other, in order */
    uint32_t done =
        __atomic_load_n(&service->comm->port->delivered[lane][order->event], __ATOMIC_ACQUIRE);
    return (int32_t)(done - order->number) < 0;
}

void cuda_far_begin(struct cuda_far *far, uint32_t lane, const struct dev_order *order)
{
    struct cuda_transfer *transfer = transfer_of(far, lane, order->event);
    if (!transfer->open)
        *transfer = (struct cuda_transfer){.number = order->number,
                                           .unread = 1,
                                           .undone = 1,
                                           .lane = (uint8_t)lane,
                                           .event = order->event,
                                           .open = 1};
    if (cuda_line_of(far, order->dst_rank))
        transfer->far = 1;
    else
        transfer->near = 1;
}

static struct cuda_item *push(struct cuda_line *line)
{
    return &line->items[line->tail++ % CUDA_LINE];
}

static int in_arena(const struct peal_cuda_comm *comm, cu_ptr at, uint64_t bytes)
{
    uint64_t skip = at - comm->arena.at;
    return skip <= comm->heap_end && bytes <= comm->heap_end - skip;
}

void cuda_far_put(struct cuda_far *far, struct cuda_line *line, struct cuda_item item)
{
    uint32_t parts = (uint32_t)((item.bytes + CUDA_PART - 1) / CUDA_PART);
    if (item.transfer) {
        item.transfer->unread += parts;
        item.transfer->undone += parts;
        item.by_slots = !line->pair || !in_arena(far->comm, item.src, item.bytes);
    }
    if (item.bytes || item.sem != CUDA_NO_SEM)
        rt_far_sent(far->comm->host->far, line->rank, item.bytes);
    *push(line) = item;
}

void cuda_far_move(struct cuda_far *far, uint32_t lane, const struct dev_order *order)
{
    struct cuda_line *line = cuda_line_of(far, order->dst_rank);
    if (order->bytes == 0)
        return;
    cuda_far_put(far, line,
                 (struct cuda_item){.transfer = transfer_of(far, lane, order->event),
                                    .src = order->src,
                                    .dst = order->dst,
                                    .bytes = order->bytes,
                                    .call = order->call,
                                    .to_out = order->dst_space == DEV_AT_OUT});
}

int cuda_far_end(struct cuda_service *service, uint32_t lane, const struct dev_order *order,
                 uint32_t by, peal_status *status, peal_diag *diag)
{
    struct cuda_far *far = service->comm->far;
    struct cuda_transfer *transfer = transfer_of(far, lane, order->event);
    transfer->open = 0;
    *status = PEAL_OK;
    if (!transfer->far)
        return 0;
    if (transfer->near) {
        transfer->stream = by;
        transfer->listed = 1;
        far->waiting++;
        service->carrier[lane][order->event] = by;
        *status = write_ticket(service, by, &transfer->ticket, diag);
    } else {
        cuda_far_part(far, transfer, 1, 1);
    }
    return 1;
}

/* The line keeps the order: it counts as raised. */
void cuda_far_word(struct cuda_far *far, const struct dev_order *order)
{
    const struct peal_cuda_comm *comm = far->comm;
    struct cuda_line *line = cuda_line_of(far, order->dst_rank);
    struct cuda_item item = {.dst = order->dst, .word = order->src, .sem = CUDA_NO_SEM};
    if (order->kind == DEV_ORDER_SIGNAL) {
        uint32_t *raised = (uint32_t *)(void *)(comm->port + 1) + order->sem;
        item.word = (uint64_t)order->digest << 32 | order->count;
        item.sem = order->sem % comm->layout.nsems;
        __atomic_store_n(raised, order->count, __ATOMIC_RELEASE);
    }
    cuda_far_put(far, line, item);
}

/* ---- through pinned memory */

static uint32_t free_slot(const struct cuda_far *far)
{
    uint32_t i = 0;
    while (i < CUDA_SLOTS && far->slots[i].transfer)
        i++;
    return i;
}

static peal_status copy_part(struct cuda_service *service, struct cuda_line *line,
                             struct cuda_item *item, uint32_t index, peal_diag *diag)
{
    struct cuda_slot *slot = &service->comm->far->slots[index];
    uint64_t left = item->bytes - item->copied;
    slot->bytes = left < CUDA_PART ? (uint32_t)left : CUDA_PART;
    slot->transfer = item->transfer;
    slot->sent = 0;
    CUDA_TRY(service->comm->cuda, diag, copy, (cu_ptr)(uintptr_t)slot->at, item->src + item->copied,
             slot->bytes, service->stream[CUDA_DOWN]);
    item->copied += slot->bytes;
    line->slots[line->last++ % CUDA_SLOTS] = index;
    return write_ticket(service, CUDA_DOWN, &slot->ticket, diag);
}

/* As far ahead as there are slots. A line that cannot go on takes none: another may be what it
 * waits for. */
static peal_status copy_ahead(struct cuda_service *service, struct cuda_line *line, uint32_t *moved,
                              peal_diag *diag)
{
    struct cuda_far *far = service->comm->far;
    if ((int32_t)(line->ahead - line->head) < 0)
        line->ahead = line->head;
    while (line->ahead != line->tail) {
        struct cuda_item *item = &line->items[line->ahead % CUDA_LINE];
        if (!item->by_slots || item->copied == item->bytes) {
            line->ahead++;
            continue;
        }
        uint32_t index = free_slot(far);
        if (index == CUDA_SLOTS || (line->pair && !cuda_rdma_knows(far, line, item)))
            return PEAL_OK;
        PEAL_TRY(copy_part(service, line, item, index, diag));
        ++*moved;
    }
    return PEAL_OK;
}

/* ---- by TCP: places by the names of the segment (far.h) */

static uint64_t name_of(const struct cuda_far *far, const struct cuda_line *line,
                        const struct cuda_item *item)
{
    const struct peal_cuda_comm *comm = far->comm;
    const struct rt_layout *host = &comm->host->layout;
    if (item->to_out)
        return FAR_OUT + item->dst;
    if (item->transfer && item->dst >= comm->heap)
        return FAR_OUT + CUDA_NAME_ARENA + item->dst;
    int count = item->transfer == NULL;
    uint64_t copy = count ? comm->layout.count_bytes : comm->layout.scratch_bytes;
    uint64_t skip = item->dst - (count ? comm->layout.counts : comm->layout.scratch);
    uint64_t first = count ? host->counts + 2 * host->count_bytes * line->rank
                           : host->scratch + 2 * host->scratch_bytes * line->rank;
    return first + skip / copy * (count ? host->count_bytes : host->scratch_bytes) + skip % copy;
}

static int tcp_part(struct cuda_far *far, const struct cuda_line *line,
                    const struct cuda_item *item, struct cuda_slot *slot)
{
    uint64_t at = name_of(far, line, item) + item->put;
    if (!far->tcp->room(far->tcp, line->rank, 1))
        return 0;
    char *name = (char *)((uintptr_t)far->comm->host->base + (uintptr_t)at);
    slot->piece = (struct rt_piece){slot->at, name, slot->bytes, 0, slot->bytes};
    slot->event.issued++;
    slot->event.unread = slot->event.unwritten = 1;
    slot->sent = 1;
    far->tcp->put(far->tcp, line->rank, &slot->event, &slot->piece, 1);
    return 1;
}

static int tcp_word(struct cuda_far *far, const struct cuda_line *line,
                    const struct cuda_item *item)
{
    if (!far->tcp->room(far->tcp, line->rank, 1))
        return 0;
    if (item->sem == CUDA_NO_SEM)
        far->tcp->store(far->tcp, line->rank, name_of(far, line, item), item->word);
    else
        far->tcp->signal(far->tcp, line->rank, item->sem, (uint32_t)item->word,
                         (uint32_t)(item->word >> 32));
    return 1;
}

/* Slots whose bytes are in place at the other end. */
static uint32_t poll_slots(struct cuda_far *far)
{
    uint32_t freed = 0;
    for (uint32_t i = 0; i < CUDA_SLOTS; i++) {
        struct cuda_slot *slot = &far->slots[i];
        if (!slot->transfer || !slot->sent ||
            atomic_load_explicit(&slot->event.delivered, memory_order_acquire) !=
                slot->event.issued ||
            atomic_load_explicit(&slot->event.freed, memory_order_acquire) != slot->event.issued)
            continue;
        cuda_far_part(far, slot->transfer, 0, 1);
        slot->transfer = NULL;
        freed++;
    }
    return freed;
}

/* ---- lines */

static int put_by_slot(struct cuda_far *far, struct cuda_line *line, struct cuda_item *item)
{
    if (line->first == line->last)
        return 0;
    uint32_t index = line->slots[line->first % CUDA_SLOTS];
    struct cuda_slot *slot = &far->slots[index];
    uint32_t bytes = slot->bytes;
    if (!is_ticket_done(far, CUDA_DOWN, slot->ticket) ||
        !(line->pair ? cuda_rdma_part(far, line, index, bytes) : tcp_part(far, line, item, slot)))
        return 0;
    line->first++;
    item->put += bytes;
    cuda_far_part(far, item->transfer, 1, 0);
    return 1;
}

static int put_direct(struct cuda_far *far, struct cuda_line *line, struct cuda_item *item)
{
    uint64_t left = item->bytes - item->put;
    uint32_t bytes = left < CUDA_PART ? (uint32_t)left : CUDA_PART;
    if (!cuda_rdma_part(far, line, CUDA_SLOTS, bytes))
        return 0;
    item->put += bytes;
    return 1;
}

static int put_item(struct cuda_far *far, struct cuda_line *line)
{
    struct cuda_item *item = &line->items[line->head % CUDA_LINE];
    if (!item->transfer) {
        int went = line->pair ? cuda_rdma_word(far, line) : tcp_word(far, line, item);
        line->head += (uint32_t)went;
        return went;
    }
    if (!(item->by_slots ? put_by_slot(far, line, item) : put_direct(far, line, item)))
        return 0;
    line->head += item->put == item->bytes;
    return 1;
}

peal_status cuda_far_poll(struct cuda_service *service, uint32_t *moved, peal_diag *diag)
{
    struct cuda_far *far = service->comm->far;
    *moved = 0;
    if (!far)
        return PEAL_OK;
    *moved = cuda_rdma_poll(far) + poll_slots(far) + cuda_zero_far_poll(far);
    poll_near(far);
    for (uint32_t i = 0; i < far->nlines; i++) {
        struct cuda_line *line = &far->lines[i];
        if (line->head != line->tail) {
            PEAL_TRY(copy_ahead(service, line, moved, diag));
            while (line->head != line->tail && put_item(far, line))
                ++*moved;
        }
        if (line->pair)
            cuda_rdma_flush(far, line);
    }
    if (*moved)
        (void)atomic_fetch_add_explicit(&far->moves, 1, memory_order_relaxed);
    return PEAL_OK;
}
