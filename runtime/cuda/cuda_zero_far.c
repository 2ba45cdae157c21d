/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zero-SM calls over hosts. Streams reach no network, so the service thread sends for them: what a
 * call sends is a program, written when it is enqueued and not changed by running it, so a graph
 * replays it. Stream and thread speak by words in pinned memory (struct cuda_words):
 *
 *   call            the stream: the program, when the call begins; 0 when it is over
 *   open, closed    the thread: has it, and has done with it; the stream awaits both
 *   rung[queue]     the stream: so many of the queue's orders may go, for what they send is there
 *   freed, placed   the thread: of the first so many the sources may be written again, and all is
 *                   in place at the other end. The stream awaits what a step names
 *
 * Nothing that is sent waits for a stream of the other end, so awaiting it holds up no rank for
 * ever. Cells go behind the data that was rung for before them, by the order of the line.
 */
#include "cuda_far.h"

#define ORDERS_MAX (1u << 22)
#define OPEN_FOR_ALL 0x7f7f7f7fu /* beyond every count */

/* ---- writing a program */

static uint32_t count_step(const struct cuda_far *far, const struct rt_row *row,
                           const struct rt_step *step)
{
    const struct rt_operand *operands = row->operands + step->operands;
    uint32_t each = (uint32_t)step->nsrc + step->ndst, found = 0;
    if (step->kind == RT_SIGNAL)
        return cuda_line_of(far, step->peer) != NULL;
    if (step->kind != RT_ASYNC && step->kind != RT_FAR)
        return 0;
    for (uint32_t i = 0; i < (step->more + 1) * each; i++)
        found += i % each >= step->nsrc && cuda_line_of(far, operands[i].rank);
    return found;
}

static uint64_t count_lane(const struct cuda_far *far, const struct rt_row *row,
                           const struct rt_lane *lane)
{
    uint64_t count = 0;
    for (uint32_t i = lane->first; i < lane->last; i++) {
        uint64_t trips = i >= lane->body && i < lane->post ? row->trips : 1;
        count += trips * count_step(far, row, &row->steps[i]);
    }
    return count;
}

/* At most: both barriers, and what the lanes send. */
static uint64_t lay_out(const struct peal_cuda_comm *comm, const struct rt_row *row,
                        struct cuda_zero_program *program)
{
    const struct cuda_far *far = comm->far;
    uint64_t count = 2ull * far->nlines;
    for (uint32_t q = 0; q < comm->params.queues; q++) {
        for (uint32_t l = q; l < row->nlanes; l += comm->params.queues)
            count += count_lane(far, row, &row->lanes[l]);
        program->first[q + 1] = (uint32_t)count;
        program->given[q] = 0;
    }
    return count;
}

static struct cuda_zero_program *find_free(struct peal_cuda_comm *comm)
{
    struct cuda_zero_far *zero = &comm->far->zero;
    struct cuda_zero_program *program = zero->programs;
    while (program && atomic_load_explicit(&program->busy, memory_order_acquire))
        program = program->next;
    if (program)
        return program;
    program = peal_calloc(comm->ctx, 1, sizeof *program);
    if (program) {
        program->next = zero->programs;
        zero->programs = program;
    }
    return program;
}

peal_status cuda_zero_program(struct peal_cuda_comm *comm, const struct rt_row *row, int kept,
                              struct cuda_zero_program **to, peal_diag *diag)
{
    struct cuda_zero_program *program = find_free(comm);
    if (!program)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    uint64_t count = lay_out(comm, row, program);
    void *orders = program->orders;
    peal_status status = peal_grow(comm->ctx, &orders, &program->capacity, count,
                                   sizeof *program->orders, ORDERS_MAX);
    program->orders = orders;
    if (status != PEAL_OK)
        return peal_fail(diag, status, "a zero-SM call that sends %llu pieces to other hosts",
                         (unsigned long long)count);
    program->kept = kept;
    atomic_store_explicit(&program->busy, 1, memory_order_relaxed);
    *to = program;
    return PEAL_OK;
}

uint32_t cuda_zero_give(struct cuda_zero_program *program, uint32_t queue,
                        const struct cuda_zero_order *order)
{
    program->orders[program->first[queue] + program->given[queue]] = *order;
    return ++program->given[queue];
}

void cuda_zero_far_free(struct peal_cuda_comm *comm)
{
    struct cuda_zero_program *program = comm->far->zero.programs;
    while (program) {
        struct cuda_zero_program *next = program->next;
        peal_free(comm->ctx, program->orders, program->capacity * sizeof *program->orders);
        peal_free(comm->ctx, program, sizeof *program);
        program = next;
    }
}

/* ---- running it: the service thread */

static struct cuda_zero_order *order_of(const struct cuda_zero_far *zero, uint32_t queue,
                                        uint32_t nth)
{
    return &zero->open->orders[zero->open->first[queue] + nth];
}

static void store(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

static void begin(struct cuda_far *far, uint64_t call)
{
    struct cuda_zero_far *zero = &far->zero;
    struct cuda_words *words = far->comm->words;
    zero->open = (struct cuda_zero_program *)(uintptr_t)call;
    for (uint32_t q = 0; q < CUDA_QUEUES_MAX; q++) {
        zero->taken[q] = zero->freed[q] = zero->placed[q] = 0;
        store(&words->freed[q], 0);
        store(&words->placed[q], 0);
    }
    store(&words->closed, 0);
    store(&words->open, 1);
}

static void take(struct cuda_far *far, struct cuda_zero_order *order)
{
    struct cuda_item item = {.src = order->src, .dst = order->dst, .bytes = order->bytes};
    order->transfer = (struct cuda_transfer){.zero = 1};
    if (order->bytes) {
        item.transfer = &order->transfer;
    } else {
        item.half = 1;
        item.word = order->value;
        item.sem = far->comm->layout.nsems + order->cell;
    }
    cuda_far_put(far, order->line, item);
}

/* Those in front that are through: cells are when they are handed on. */
static uint32_t answer(struct cuda_far *far, uint32_t queue)
{
    struct cuda_zero_far *zero = &far->zero;
    struct cuda_words *words = far->comm->words;
    uint32_t freed = zero->freed[queue], placed = zero->placed[queue];
    while (freed != zero->taken[queue] && order_of(zero, queue, freed)->transfer.unread == 0)
        freed++;
    while (placed != zero->taken[queue] && order_of(zero, queue, placed)->transfer.undone == 0)
        placed++;
    uint32_t moved = freed - zero->freed[queue] + (placed - zero->placed[queue]);
    zero->freed[queue] = freed;
    zero->placed[queue] = placed;
    if (moved) {
        store(&words->freed[queue], freed);
        store(&words->placed[queue], placed);
    }
    return moved;
}

/* 1: all that was rung for has been taken. */
static int take_queue(struct cuda_far *far, uint32_t queue, uint32_t *moved)
{
    struct cuda_zero_far *zero = &far->zero;
    uint32_t rung = atomic_load_explicit(&far->comm->words->rung[queue], memory_order_acquire);
    while (zero->taken[queue] != rung) {
        struct cuda_zero_order *order = order_of(zero, queue, zero->taken[queue]);
        if (!cuda_far_has_room(order->line))
            break;
        take(far, order);
        zero->taken[queue]++;
        ++*moved;
    }
    *moved += answer(far, queue);
    return zero->taken[queue] == rung;
}

static void end(struct cuda_far *far)
{
    struct cuda_zero_program *program = far->zero.open;
    far->zero.open = NULL;
    store(&far->comm->words->open, 0);
    if (!program->kept)
        atomic_store_explicit(&program->busy, 0, memory_order_release);
    store(&far->comm->words->closed, 1);
}

uint32_t cuda_zero_far_poll(struct cuda_far *far)
{
    uint32_t moved = !far->zero.open;
    int all = 1;
    uint64_t call = atomic_load_explicit(&far->comm->words->call, memory_order_acquire);
    if (!far->zero.open && !call)
        return 0;
    if (!far->zero.open)
        begin(far, call);
    for (uint32_t q = 0; q < far->comm->params.queues; q++)
        all &= take_queue(far, q, &moved);
    if (!call && all)
        end(far);
    return moved;
}

void cuda_zero_far_release(const struct peal_cuda_comm *comm)
{
    struct cuda_words *words = comm->words;
    for (uint32_t q = 0; q < CUDA_QUEUES_MAX; q++) {
        store(&words->freed[q], OPEN_FOR_ALL);
        store(&words->placed[q], OPEN_FOR_ALL);
    }
    store(&words->open, OPEN_FOR_ALL);
    store(&words->closed, OPEN_FOR_ALL);
}
