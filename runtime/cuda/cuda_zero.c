/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that hold no SM: the copies of a plan that does not reduce, in the order of streams, with
 * signals and waits as memory operations of streams. Nothing is launched.
 *
 * Memory operations carry their numbers, and a graph replays them as they are: so counts begin at
 * 0 in every call. Around a call stand two barriers of cells (`enter`, `leave`): between them
 * nobody is in another call, and a rank clears its cells while nobody can write them. Who enters
 * shows a digest of the call, and nobody goes on with who shows another one:
 *
 *   leave cells    when it enters: they are written by ranks that have seen it enter
 *   enter cells    when all have entered: they are written again by ranks that have seen it leave
 *   semaphores     before it leaves: it has awaited all their signals, also those that steps went
 *                  on without, and the next ones are by ranks that have seen it leave
 *
 * What goes to ranks of other hosts is rung for, and sent by the service thread (cuda_zero_far.c).
 */
#include "cuda_far.h"

#include <string.h>

/* ---- a call under way to its streams */

struct zero_call {
    struct peal_cuda_comm *comm;
    struct rt_row *row;
    const struct cuda_buffers *buffers;
    uint32_t digest;  /* of what ranks have in common; not 0 */
    cu_handle stream; /* the caller's */
    cu_handle now;    /* the one that what is gathered is for */
    uint32_t queues;
    uint32_t lane;                     /* whose turn it is, */
    uint32_t queue;                    /* and its stream's number */
    struct cuda_zero_program *program; /* NULL: all ranks are reached */
    uint32_t forked;                   /* queues that are behind the call's stream */
    peal_diag *diag;
};

/* ---- memory operations, gathered */

static peal_status flush(struct zero_call *call)
{
    struct peal_cuda_comm *comm = call->comm;
    uint32_t count = comm->nops;
    comm->nops = 0;
    if (count == 0)
        return PEAL_OK;
    return CUDA_DO(comm->cuda, call->diag, mem_ops, call->now, count, comm->ops, 0);
}

static peal_status add(struct zero_call *call, int operation, cu_ptr at, uint64_t value)
{
    struct peal_cuda_comm *comm = call->comm;
    uint32_t flags = operation == CU_OP_WAIT_32 && comm->far ? comm->wait_flags : CU_WAIT_GEQ;
    if (comm->nops == CU_OPS_MAX)
        PEAL_TRY(flush(call));
    comm->ops[comm->nops++] =
        (struct cu_mem_op){.operation = operation, .address = at, .value = value, .flags = flags};
    return PEAL_OK;
}

static peal_status await_equal(struct zero_call *call, cu_ptr at, uint32_t value)
{
    PEAL_TRY(add(call, CU_OP_WAIT_32, at, value));
    call->comm->ops[call->comm->nops - 1].flags |= CU_WAIT_EQ;
    return PEAL_OK;
}

static peal_status turn_to(struct zero_call *call, cu_handle stream)
{
    if (stream == call->now)
        return PEAL_OK;
    PEAL_TRY(flush(call));
    call->now = stream;
    return PEAL_OK;
}

static cu_ptr word_at(const struct peal_cuda_comm *comm, size_t offset)
{
    return comm->words_device + offset;
}

/* ---- other hosts */

#define WORD_OF(comm, member, queue)                                                               \
    (word_at(comm, offsetof(struct cuda_words, member)) + 4ull * (queue))

/* Of orders one behind the other the last is rung for. */
static peal_status give(struct zero_call *call, const struct cuda_zero_order *order)
{
    struct peal_cuda_comm *comm = call->comm;
    uint32_t count = cuda_zero_give(call->program, call->queue, order);
    cu_ptr bell = WORD_OF(comm, rung, call->queue);
    struct cu_mem_op *last = comm->nops ? &comm->ops[comm->nops - 1] : NULL;
    if (!last || last->address != bell)
        return add(call, CU_OP_WRITE_32, bell, count);
    last->value = count;
    return PEAL_OK;
}

/* What was given for an event so far is read, or in place. */
static peal_status await_far(struct zero_call *call, uint32_t event, int placed)
{
    struct peal_cuda_comm *comm = call->comm;
    uint32_t mark = call->program ? comm->far->zero.mark[call->lane][event] : 0;
    if (!mark)
        return PEAL_OK;
    return add(call, CU_OP_WAIT_32,
               placed ? WORD_OF(comm, placed, call->queue) : WORD_OF(comm, freed, call->queue),
               mark);
}

static peal_status begin_far(struct zero_call *call)
{
    struct peal_cuda_comm *comm = call->comm;
    if (!call->program)
        return PEAL_OK;
    memset(comm->far->zero.mark, 0, sizeof comm->far->zero.mark);
    for (uint32_t q = 0; q < call->queues; q++)
        PEAL_TRY(add(call, CU_OP_WRITE_32, WORD_OF(comm, rung, q), 0));
    PEAL_TRY(add(call, CU_OP_WRITE_64, WORD_OF(comm, call, 0), (uintptr_t)call->program));
    return add(call, CU_OP_WAIT_32, WORD_OF(comm, open, 0), 1);
}

/* All that was sent is in place: before others are told that this rank leaves. */
static peal_status await_all_far(struct zero_call *call)
{
    for (uint32_t q = 0; call->program && q < call->queues; q++)
        PEAL_TRY(add(call, CU_OP_WAIT_32, WORD_OF(call->comm, placed, q), call->program->given[q]));
    return PEAL_OK;
}

static peal_status end_far(struct zero_call *call)
{
    if (!call->program)
        return PEAL_OK;
    PEAL_TRY(add(call, CU_OP_WRITE_64, WORD_OF(call->comm, call, 0), 0));
    return add(call, CU_OP_WAIT_32, WORD_OF(call->comm, closed, 0), 1);
}

/* ---- cells, of this rank and of others */

static cu_ptr own_cell(const struct peal_cuda_comm *comm, uint32_t producer, uint32_t number)
{
    return comm->arena.at + cuda_zero_cell(comm, producer, number);
}

static peal_status write_there(struct zero_call *call, uint32_t rank, cu_ptr at, uint32_t value)
{
    struct cuda_ask ask = {rank, CUDA_CALLER, call->now};
    struct cu_mem_op op = {.operation = CU_OP_WRITE_32, .address = at, .value = value};
    PEAL_TRY(flush(call));
    return cuda_there_ops(call->comm, &ask, &op, 1, call->diag);
}

static peal_status write_cell(struct zero_call *call, uint32_t rank, uint32_t number,
                              uint32_t value)
{
    const struct peal_cuda_comm *comm = call->comm;
    uint64_t offset = cuda_zero_cell(comm, comm->rank, number);
    struct cuda_line *line = cuda_line_of(comm->far, rank);
    if (!line && cuda_is_there(comm, rank))
        return write_there(call, rank, comm->peers[rank].arena + offset, value);
    if (!line)
        return add(call, CU_OP_WRITE_32, comm->peers[rank].arena + offset, value);
    return give(call, &(struct cuda_zero_order){
                          .line = line, .dst = offset, .cell = number, .value = value});
}

/* ---- barriers: by the first queue's bell, of which the call's stream is before and behind all */

static peal_status clear_barrier(struct zero_call *call, uint32_t which)
{
    struct peal_cuda_comm *comm = call->comm;
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (r != comm->rank)
            PEAL_TRY(add(call, CU_OP_WRITE_32, own_cell(comm, r, which), 0));
    return PEAL_OK;
}

static peal_status meet_all(struct zero_call *call, uint32_t which)
{
    struct peal_cuda_comm *comm = call->comm;
    call->queue = 0;
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (r != comm->rank)
            PEAL_TRY(write_cell(call, r, which, call->digest));
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (r != comm->rank)
            PEAL_TRY(await_equal(call, own_cell(comm, r, which), call->digest));
    return PEAL_OK;
}

static peal_status tell_phase(struct zero_call *call, uint32_t phase)
{
    return add(call, CU_OP_WRITE_32, WORD_OF(call->comm, busy, 0), phase);
}

static peal_status enter(struct zero_call *call)
{
    PEAL_TRY(add(call, CU_OP_WRITE_32, WORD_OF(call->comm, fresh, 0), 1));
    PEAL_TRY(add(call, CU_OP_WRITE_32, WORD_OF(call->comm, digest, 0), call->digest));
    PEAL_TRY(tell_phase(call, CUDA_ENTERS));
    PEAL_TRY(begin_far(call));
    PEAL_TRY(clear_barrier(call, CUDA_CELL_LEAVE));
    PEAL_TRY(meet_all(call, CUDA_CELL_ENTER));
    PEAL_TRY(tell_phase(call, CUDA_RUNS));
    PEAL_TRY(clear_barrier(call, CUDA_CELL_ENTER));
    return flush(call);
}

/* Semaphores that the call waited on: there are as many signals as waits. */
static peal_status clear_sems(struct zero_call *call)
{
    struct peal_cuda_comm *comm = call->comm;
    uint32_t nsems = comm->layout.nsems, cells = comm->nranks * nsems;
    const uint32_t *waited = comm->counted + cells, *without = waited + cells;
    for (uint32_t i = 0; i < cells; i++) {
        cu_ptr cell = own_cell(comm, i / nsems, CUDA_CELL_SEM + i % nsems);
        if (without[i])
            PEAL_TRY(add(call, CU_OP_WAIT_32, cell, waited[i]));
        if (waited[i])
            PEAL_TRY(add(call, CU_OP_WRITE_32, cell, 0));
    }
    return PEAL_OK;
}

static peal_status leave(struct zero_call *call)
{
    PEAL_TRY(await_all_far(call));
    PEAL_TRY(clear_sems(call));
    PEAL_TRY(tell_phase(call, CUDA_LEAVES));
    PEAL_TRY(meet_all(call, CUDA_CELL_LEAVE));
    PEAL_TRY(end_far(call));
    PEAL_TRY(tell_phase(call, CUDA_IDLE));
    return flush(call);
}

/* ---- moves */

/* Everybody is in the same call, so one copy of the scratch does. */
static uint64_t slot_offset(const struct peal_cuda_comm *comm, const struct rt_operand *operand,
                            uint32_t trip)
{
    const struct rt_layout *layout = &comm->host->layout;
    const char *first =
        comm->host->base + layout->scratch + 2 * layout->scratch_bytes * operand->rank;
    return comm->layout.scratch + (uint64_t)(operand->at - first) +
           trip % operand->depth * operand->trip_bytes;
}

/* In the arena of the operand's rank: of a slot, or of a buffer that has one place in all arenas.
 * offset: of the tile in the message. */
static uint64_t arena_offset(const struct zero_call *call, const struct rt_operand *operand,
                             uint32_t trip, uint64_t offset)
{
    const struct cuda_buffers *buffers = call->buffers;
    if (operand->place == RT_SLOT)
        return slot_offset(call->comm, operand, trip);
    return (operand->place == RT_PEER_IN ? buffers->shared_in : buffers->shared_out) -
           call->comm->arena.at + operand->shift + offset;
}

static cu_ptr operand_at(const struct zero_call *call, const struct rt_operand *operand,
                         uint32_t trip, uint64_t offset)
{
    const struct cuda_buffers *buffers = call->buffers;
    switch (operand->place) {
    case RT_OWN_IN:
        return buffers->in + operand->shift + offset;
    case RT_OWN_OUT:
        return buffers->out + operand->shift + offset;
    default:
        return call->comm->peers[operand->rank].arena + arena_offset(call, operand, trip, offset);
    }
}

/* Bytes of the tile of a step's nth chunk; *offset: where it is in the message. */
static uint64_t tile_of(const struct rt_row *row, const struct rt_step *step, uint32_t nth,
                        uint32_t trip, uint64_t *offset)
{
    uint32_t chunk = step->chunk + nth * step->stride;
    uint64_t first = row->bounds[chunk];
    uint64_t count = row->bounds[chunk + 1] - first;
    if (row->tile) {
        uint64_t skip = trip * row->tile;
        first += skip;
        count = count > skip ? count - skip : 0;
        count = count > row->tile ? row->tile : count;
    }
    *offset = first * row->elem_bytes;
    return rt_move_bytes(row, step, (size_t)count);
}

/* A tile of a step's chunk. */
struct piece {
    uint32_t trip;
    uint64_t offset; /* in the message */
    uint64_t bytes;
    cu_ptr from;
    uint32_t rank; /* whose that is */
};

static peal_status copy(struct zero_call *call, const struct rt_operand *to,
                        const struct piece *piece)
{
    cu_ptr at = operand_at(call, to, piece->trip, piece->offset);
    const struct cuda_across across = {at, piece->from, (size_t)piece->bytes, to->rank,
                                       piece->rank};
    if (call->comm->nops) /* in front of it */
        PEAL_TRY(flush(call));
    if (cuda_is_there(call->comm, to->rank) || cuda_is_there(call->comm, piece->rank))
        return cuda_there_across(call->comm, &across, call->now, call->diag);
    return cuda_copies_add(call->comm->cuda, &call->comm->copies, at, piece->from,
                           (size_t)piece->bytes, call->now, call->diag);
}

static peal_status send(struct zero_call *call, const struct rt_step *step,
                        const struct rt_operand *to, const struct piece *piece)
{
    struct cuda_zero_far *zero = &call->comm->far->zero;
    struct cuda_zero_order order = {.line = cuda_line_of(call->comm->far, to->rank),
                                    .src = piece->from,
                                    .dst = arena_offset(call, to, piece->trip, piece->offset),
                                    .bytes = piece->bytes};
    if (piece->bytes == 0)
        return PEAL_OK;
    PEAL_TRY(give(call, &order));
    zero->mark[call->lane][step->event] = call->program->given[call->queue];
    return PEAL_OK;
}

/* What stays on this host, or what does not. */
static peal_status move_part(struct zero_call *call, const struct rt_step *step, uint32_t trip,
                             int far)
{
    const struct rt_operand *operand = call->row->operands + step->operands;
    for (uint32_t nth = 0; nth <= step->more; nth++, operand += step->nsrc + step->ndst) {
        struct piece piece = {.trip = trip, .rank = operand[0].rank};
        piece.bytes = tile_of(call->row, step, nth, trip, &piece.offset);
        piece.from = operand_at(call, &operand[0], trip, piece.offset);
        for (uint32_t i = 0; i < step->ndst; i++) {
            const struct rt_operand *to = &operand[step->nsrc + i];
            int goes = cuda_line_of(call->comm->far, to->rank) != NULL;
            if (goes == far)
                PEAL_TRY(far ? send(call, step, to, &piece) : copy(call, to, &piece));
        }
    }
    return PEAL_OK;
}

static peal_status move(struct zero_call *call, const struct rt_step *step, uint32_t trip)
{
    PEAL_TRY(move_part(call, step, trip, 0));
    PEAL_TRY(cuda_copies_flush(call->comm->cuda, &call->comm->copies, call->now, call->diag));
    return call->program ? move_part(call, step, trip, 1) : PEAL_OK;
}

/* ---- signals and waits: counted from the call's begin */

/* Behind the transfer that it follows: that went to the same rank, by the stream or by its line,
 * which keep order. */
static peal_status do_signal(struct zero_call *call, const struct rt_step *step)
{
    struct peal_cuda_comm *comm = call->comm;
    uint32_t nsems = comm->layout.nsems;
    size_t sem = (size_t)(step->out - comm->host->sem_out);
    return write_cell(call, step->peer, CUDA_CELL_SEM + (uint32_t)(sem % nsems),
                      ++comm->counted[sem]);
}

static peal_status do_wait(struct zero_call *call, const struct rt_step *step, uint32_t pc)
{
    struct peal_cuda_comm *comm = call->comm;
    uint32_t nsems = comm->layout.nsems, cells = comm->nranks * nsems;
    size_t sem = (size_t)(step->in - comm->host->sem_in);
    uint32_t *waited = &comm->counted[cells + sem];
    comm->counted[2 * cells + sem] = step->lag;
    int64_t need = (int64_t)++ * waited - step->lag;
    if (need <= 0)
        return PEAL_OK;
    PEAL_TRY(add(call, CU_OP_WAIT_32,
                 own_cell(comm, step->peer, CUDA_CELL_SEM + (uint32_t)(sem % nsems)),
                 (uint32_t)need));
    return add(call, CU_OP_WRITE_32, word_at(comm, offsetof(struct cuda_words, step)), pc + 1);
}

/* Of copies an await is the order of the stream. */
static peal_status do_step(struct zero_call *call, const struct rt_lane *lane)
{
    const struct rt_step *step = &call->row->steps[lane->pc];
    switch ((enum rt_kind)step->kind) {
    case RT_MOVE:
    case RT_ASYNC:
    case RT_FAR:
        return move(call, step, lane->trip);
    case RT_SIGNAL:
        return do_signal(call, step);
    case RT_WAIT:
        return do_wait(call, step, lane->pc);
    case RT_AWAIT:
        return await_far(call, step->event, step->what);
    default:
        return peal_fail(call->diag, PEAL_ERR_INTERNAL, "a zero-SM call of a plan that has none");
    }
}

/* ---- the whole */

static peal_status run_turn(struct zero_call *call, const struct cuda_turn *turn)
{
    struct rt_row *row = call->row;
    struct rt_lane *lane = &row->lanes[turn->lane];
    call->lane = turn->lane;
    call->queue = turn->lane % call->queues;
    PEAL_TRY(turn_to(call, call->queues > 1 ? call->comm->queue[call->queue] : call->stream));
    for (uint32_t i = 0; i < turn->steps; i++) {
        PEAL_TRY(do_step(call, lane));
        if (++lane->pc == lane->post && lane->body != lane->post && lane->trip + 1 < row->trips) {
            lane->trip++;
            lane->pc = lane->body;
        }
    }
    return PEAL_OK;
}

static peal_status fork_queues(struct zero_call *call)
{
    struct peal_cuda_comm *comm = call->comm;
    cu_handle event = comm->forked[call->queues];
    if (call->queues < 2)
        return PEAL_OK;
    CUDA_TRY(comm->cuda, call->diag, event_record, event, call->stream);
    for (; call->forked < call->queues; call->forked++)
        CUDA_TRY(comm->cuda, call->diag, stream_wait_event, comm->queue[call->forked], event, 0);
    return PEAL_OK;
}

static peal_status join_queues(struct zero_call *call)
{
    struct peal_cuda_comm *comm = call->comm;
    PEAL_TRY(flush(call));
    call->now = call->stream;
    for (uint32_t i = 0; i < call->forked; i++) {
        CUDA_TRY(comm->cuda, call->diag, event_record, comm->forked[i], comm->queue[i]);
        CUDA_TRY(comm->cuda, call->diag, stream_wait_event, call->stream, comm->forked[i], 0);
    }
    call->forked = 0;
    return PEAL_OK;
}

/* Its queues are part of the stream's capture. */
static peal_status look_for_capture(struct zero_call *call)
{
    int capturing = CU_CAPTURE_NONE;
    CUDA_TRY(call->comm->cuda, call->diag, stream_capturing, call->stream, &capturing);
    call->comm->copies.single = capturing != CU_CAPTURE_NONE;
    return PEAL_OK;
}

static peal_status give_all(struct zero_call *call, struct cuda_zero_row *zero)
{
    PEAL_TRY(enter(call));
    PEAL_TRY(fork_queues(call));
    for (uint32_t i = 0; i < zero->nturns; i++)
        PEAL_TRY(run_turn(call, &zero->turns[i]));
    PEAL_TRY(join_queues(call));
    return leave(call);
}

/* What is called, and where its buffers lie, which is one place in all arenas. */
static uint32_t digest_of(const struct zero_call *call, int in_place)
{
    uint64_t arena = call->comm->arena.at;
    uint64_t same[] = {call->row->key[in_place], call->buffers->shared_in - arena,
                       call->buffers->shared_out - arena};
    if (!call->row->block_bytes) /* where those are of nothing does not matter */
        same[1] = same[2] = 0;
    return (uint32_t)peal_hash64(same, sizeof same) | 1;
}

/* A call of which the driver took a part only: behind that, on all its streams, it is over, for
 * those who wait for it. */
static void give_up(struct zero_call *call)
{
    struct peal_cuda_comm *comm = call->comm;
    struct cu_mem_op op = {.operation = CU_OP_WRITE_32,
                           .address = word_at(comm, offsetof(struct cuda_words, busy))};
    comm->nops = 0;
    call->diag = NULL;
    (void)!join_queues(call);
    (void)comm->cuda->call.mem_ops(call->stream, 1, &op, 0);
}

peal_status cuda_zero_call(struct peal_cuda_comm *comm, struct rt_row *row, int in_place,
                           const struct cuda_buffers *buffers, cu_handle stream, peal_diag *diag)
{
    struct cuda_zero_row *zero = &comm->zero[row - comm->host->rows];
    struct zero_call call = {.comm = comm,
                             .row = row,
                             .buffers = buffers,
                             .stream = stream,
                             .now = stream,
                             .queues = comm->params.queues,
                             .diag = diag};
    call.digest = digest_of(&call, in_place);
    PEAL_TRY(cuda_order(comm, zero, row->trips, diag));
    memset(comm->counted, 0, 3 * (size_t)comm->nranks * comm->layout.nsems * sizeof *comm->counted);
    comm->nops = comm->copies.count = 0;
    PEAL_TRY(look_for_capture(&call));
    if (comm->far && comm->far->nlines)
        PEAL_TRY(cuda_zero_program(comm, row, comm->copies.single, &call.program, diag));
    rt_begin(comm->host, row);
    peal_status status = give_all(&call, zero);
    if (status != PEAL_OK)
        give_up(&call);
    else
        comm->zero_calls++;
    return status;
}
