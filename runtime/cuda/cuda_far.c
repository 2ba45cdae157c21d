/* SPDX-License-Identifier: Apache-2.0 */
/* Orders for ranks of other hosts: how ranks agree on the way they take, and the service thread's
 * part in them. */
#include "cuda_far.h"
#include "clock.h"

#include <string.h>

#define GRACE_NS 300000000u /* for TCP to say why a queue pair has broken */

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

static int is_full(const struct cuda_line *line)
{
    return line && CUDA_LINE - (line->tail - line->head) < 2;
}

int cuda_far_full(const struct cuda_far *far, const struct dev_order *order)
{
    return far && is_full(cuda_line_of(far, order->dst_rank));
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

void cuda_far_move(struct cuda_far *far, uint32_t lane, const struct dev_order *order)
{
    struct cuda_line *line = cuda_line_of(far, order->dst_rank);
    struct cuda_transfer *transfer = transfer_of(far, lane, order->event);
    if (order->bytes == 0)
        return;
    uint32_t parts = (uint32_t)((order->bytes + CUDA_PART - 1) / CUDA_PART);
    transfer->unread += parts;
    transfer->undone += parts;
    *push(line) = (struct cuda_item){.transfer = transfer,
                                     .src = order->src,
                                     .dst = order->dst,
                                     .bytes = order->bytes,
                                     .call = order->call,
                                     .to_out = order->dst_space == DEV_AT_OUT,
                                     .by_slots = !line->pair ||
                                                 !in_arena(far->comm, order->src, order->bytes)};
    rt_far_sent(far->comm->host->far, line->rank, order->bytes);
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
    struct cuda_item *item = push(line);
    *item = (struct cuda_item){.dst = order->dst, .word = order->src, .sem = CUDA_NO_SEM};
    if (order->kind != DEV_ORDER_SIGNAL)
        return;
    uint32_t *raised = (uint32_t *)(void *)(comm->port + 1) + order->sem;
    item->word = (uint64_t)order->digest << 32 | order->count;
    item->sem = order->sem % comm->layout.nsems;
    __atomic_store_n(raised, order->count, __ATOMIC_RELEASE);
    rt_far_sent(comm->host->far, line->rank, 0);
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
    *moved = cuda_rdma_poll(far) + poll_slots(far);
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

/* ---- an end */

void cuda_far_cut(struct cuda_far *far)
{
    if (!far || far->cut)
        return;
    far->cut = 1;
    far->tcp->cut(far->tcp);
    for (uint32_t i = 0; i < far->nlines; i++)
        if (far->lines[i].pair)
            far->nic->ops->fail(far->nic, far->lines[i].pair);
}

int cuda_far_lost(const struct cuda_far *far, uint32_t *rank, uint32_t *reason)
{
    for (uint32_t i = 0; far && i < far->nlines; i++) {
        const struct cuda_line *line = &far->lines[i];
        uint64_t heard;
        if (!line->broken || far->tcp->state(far->tcp, line->rank, &heard) != FAR_HERE)
            continue; /* who is gone is seen to be */
        *rank = line->rank;
        *reason = line->broken == RDMA_REFUSED ? RT_REFUSED : RT_BROKEN;
        if (line->broken == RDMA_REFUSED || rt_now_ns() > line->broken_ns + GRACE_NS)
            return 1;
    }
    return 0;
}

/* ---- making */

static uint64_t whole(uint64_t bytes)
{
    return (bytes + CUDA_ARENA_ALIGN - 1) / CUDA_ARENA_ALIGN * CUDA_ARENA_ALIGN;
}

/* The slots, the streams' words, the places, and each line's words: pages each. */
static peal_status make_pinned(struct cuda_far *far, peal_diag *diag)
{
    const struct peal_cuda_comm *comm = far->comm;
    uint64_t slots = (uint64_t)CUDA_SLOTS * CUDA_PART;
    uint64_t places = slots + CUDA_ARENA_ALIGN;
    uint64_t words = places + whole(comm->nranks * sizeof *far->places);
    uint64_t each = RDMA_SENDS * sizeof *far->lines->words;
    void *pinned = NULL;
    far->pinned_bytes = whole(words + far->nlines * each);
    CUDA_TRY(comm->cuda, diag, host_alloc, &pinned, (size_t)far->pinned_bytes,
             CU_HOST_PORTABLE | CU_HOST_MAPPED);
    far->pinned = pinned;
    memset(far->pinned + slots, 0, (size_t)(far->pinned_bytes - slots));
    CUDA_TRY(comm->cuda, diag, host_device, &far->tickets_device, pinned, 0);
    far->tickets_device += slots;
    far->tickets_done = (uint32_t *)(void *)(far->pinned + slots);
    far->places = (uint64_t *)(void *)(far->pinned + places);
    for (uint32_t i = 0; i < CUDA_SLOTS; i++)
        far->slots[i].at = far->pinned + (size_t)i * CUDA_PART;
    for (uint32_t i = 0; i < far->nlines; i++)
        far->lines[i].words = (uint64_t *)(void *)(far->pinned + words + i * each);
    return PEAL_OK;
}

/* Whether a plan of this rank writes to another's output. */
static int writes_to(const struct peal_cuda_comm *comm, uint32_t rank)
{
    for (uint32_t i = 0; i < comm->host->nrows; i++) {
        const struct rt_row *row = &comm->host->rows[i];
        for (uint32_t o = 0; o < row->noperands; o++)
            if (row->operands[o].place == RT_PEER_OUT && row->operands[o].rank == rank)
                return 1;
    }
    return 0;
}

static peal_status make_lines(struct cuda_far *far, peal_diag *diag)
{
    const struct peal_cuda_comm *comm = far->comm;
    far->line_of = peal_calloc(comm->ctx, comm->nranks, sizeof *far->line_of);
    if (!far->line_of)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (uint32_t r = 0; r < comm->nranks; r++)
        far->line_of[r] = comm->peers[r].reach == CUDA_UNREACHED ? far->nlines++ : CUDA_NOWHERE;
    far->lines = peal_calloc(comm->ctx, far->nlines ? far->nlines : 1, sizeof *far->lines);
    if (!far->lines)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (uint32_t r = 0; r < comm->nranks; r++) {
        struct cuda_line *line = cuda_line_of(far, r);
        if (!line)
            continue;
        line->rank = r;
        line->writes = (uint8_t)writes_to(comm, r);
    }
    return PEAL_OK;
}

static peal_status make(struct peal_cuda_comm *comm, const peal_table *table, peal_diag *diag)
{
    struct cuda_far *far = peal_calloc(comm->ctx, 1, sizeof *far);
    if (!far)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    comm->far = far;
    far->comm = comm;
    far->tcp = comm->host->far->tcp;
    PEAL_TRY(make_lines(far, diag));
    PEAL_TRY(make_pinned(far, diag));
    PEAL_TRY(cuda_land_make(far, diag));
    cuda_rdma_open(far, table);
    return PEAL_OK;
}

/* ---- how all are linked */

struct census {
    uint32_t rdma;
    uint32_t tcp;
    uint32_t stand_ins;
    char why[sizeof((struct cuda_far *)0)->why];
};

static int by_another(const struct cuda_far *far, uint8_t engine, uint32_t rank)
{
    const struct cuda_line *line = cuda_line_of(far, rank);
    return !line || (engine == PEAL_ENGINE_RDMA) != (line->pair != NULL);
}

/* Of engines of networks: those for which another one moves here. */
static uint32_t stand_ins(const struct cuda_far *far)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < far->comm->host->nrows; i++) {
        const struct rt_row *row = &far->comm->host->rows[i];
        for (uint32_t s = 0; s < row->nsteps; s++) {
            const struct rt_step *step = &row->steps[s];
            int moves = step->kind == RT_ASYNC || step->kind == RT_FAR;
            if (!moves || (step->engine != PEAL_ENGINE_RDMA && step->engine != PEAL_ENGINE_TCP))
                continue;
            for (uint32_t d = 0; d < step->ndst; d++) {
                uint32_t rank = row->operands[step->operands + step->nsrc + d].rank;
                found |= (uint32_t)by_another(far, step->engine, rank) << step->engine;
            }
        }
    }
    return found;
}

static peal_status take_census(struct cuda_far *far, peal_diag *diag)
{
    struct peal_cuda_comm *comm = far->comm;
    struct census mine = {.stand_ins = stand_ins(far)};
    for (uint32_t i = 0; i < far->nlines; i++)
        *(far->lines[i].pair ? &mine.rdma : &mine.tcp) += 1;
    if (mine.tcp)
        peal_copy_text(mine.why, sizeof mine.why, far->why);
    struct census *all = peal_calloc(comm->ctx, comm->nranks, sizeof *all);
    if (!all)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    peal_status status = rt_job_exchange(comm->host->world->job, &mine, sizeof mine, all, diag);
    far->why[0] = '\0';
    for (uint32_t r = 0; r < comm->nranks && status == PEAL_OK; r++) {
        far->links_rdma += all[r].rdma;
        far->links_tcp += all[r].tcp;
        comm->stand_ins |= all[r].stand_ins;
        all[r].why[sizeof all[r].why - 1] = '\0';
        if (!far->why[0])
            peal_copy_text(far->why, sizeof far->why, all[r].why);
    }
    peal_free(comm->ctx, all, comm->nranks * sizeof *all);
    return status;
}

peal_status cuda_far_make(struct peal_cuda_comm *comm, const peal_table *table, peal_status status,
                          peal_diag *diag)
{
    if (status == PEAL_OK)
        status = make(comm, table, diag);
    PEAL_TRY(cuda_agree(comm, status, diag));
    PEAL_TRY(cuda_rdma_join(comm->far, diag));
    return take_census(comm->far, diag);
}

void cuda_far_count(const struct peal_cuda_comm *comm, uint32_t *rdma, uint32_t *tcp,
                    const char **why)
{
    *rdma = comm->far ? comm->far->links_rdma : 0;
    *tcp = comm->far ? comm->far->links_tcp : 0;
    *why = comm->far ? comm->far->why : "";
}

void cuda_far_free(struct peal_cuda_comm *comm)
{
    struct cuda_far *far = comm->far;
    if (!far)
        return;
    rt_far_stop(comm->host); /* behind which nothing of it is read or lands */
    cuda_rdma_close(far);
    cuda_land_free(far);
    if (far->pinned)
        (void)comm->cuda->call.host_free(far->pinned);
    peal_free(comm->ctx, far->lines, (far->nlines ? far->nlines : 1) * sizeof *far->lines);
    peal_free(comm->ctx, far->line_of, comm->nranks * sizeof *far->line_of);
    peal_free(comm->ctx, far, sizeof *far);
    comm->far = NULL;
}
