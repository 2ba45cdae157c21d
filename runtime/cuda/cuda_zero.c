/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that hold no SM: the copies of a plan that does not reduce, in the order of streams, with
 * signals and waits as memory operations of streams. Nothing is launched.
 *
 * Memory operations carry their numbers, and a graph replays them as they are: so counts begin at
 * 0 in every call. Around a call stand two barriers of cells that are 0 or 1 (`enter`, `leave`):
 * between them nobody is in another call, and a rank clears its cells while nobody can write them:
 *
 *   leave cells    when it enters: they are written by ranks that have seen it enter
 *   enter cells    when all have entered: they are written again by ranks that have seen it leave
 *   semaphores     before it leaves: it has awaited all their signals, and the next ones are by
 *                  ranks that have seen it leave
 */
#include "cuda_comm.h"

#include <stdio.h>
#include <string.h>

/* ---- which plans can */

static const char *why_not(const struct peal_plan *plan, uint32_t rank,
                           const struct plan_step *step)
{
    const struct plan_rank *program = peal_plan_program(plan, rank);
    if (step->op == PLAN_TELL || step->op == PLAN_LEARN)
        return "its blocks have lengths that only the device knows";
    if (!peal_plan_op_moves(step->op))
        return NULL;
    if (step->op != PLAN_COPY && step->op != PLAN_PUT && step->op != PLAN_GET)
        return "it reduces or converts";
    if (peal_plan_engine_nets(step->engine))
        return "it goes over the network";
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++)
        if (program->operands[step->operands + i].buffer == PLAN_BUF_PACKET)
            return "it moves packets, which only load and store";
    return NULL;
}

/* The same on all ranks: of all ranks' steps. */
static const char *row_why(const struct peal_plan *plan)
{
    if (plan->sliced)
        return "its order needs the programs of all ranks, and there are slices";
    for (uint32_t r = 0; r < plan->nranks; r++) {
        const struct plan_rank *program = peal_plan_program(plan, r);
        for (uint32_t i = 0; i < program->nsteps; i++) {
            const char *why = why_not(plan, r, &program->steps[i]);
            if (why)
                return why;
        }
    }
    return NULL;
}

peal_status cuda_zero_check(const struct peal_cuda_comm *comm, const struct rt_row *row,
                            peal_diag *diag)
{
    const struct cuda_zero_row *zero = &comm->zero[row - comm->host->rows];
    if (!comm->about.mem_ops)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "a zero-SM call: the driver has no memory operations of streams");
    if (zero->why[0])
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "no zero-SM call of %s: %s", row->algorithm,
                         zero->why);
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (comm->peers[r].reach == CUDA_UNREACHED)
            return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                             "a zero-SM call: rank %u is on another host", r);
    return PEAL_OK;
}

/* ---- what is kept of all ranks' programs */

static struct cuda_sync sync_of(const struct peal_cuda_comm *comm, uint32_t rank,
                                const struct plan_step *step)
{
    struct cuda_sync sync = {.sem = CUDA_NO_SEM, .lag = step->lag};
    uint32_t n = comm->nranks, nsems = comm->layout.nsems;
    if (step->op == PLAN_SIGNAL)
        sync.sem = (step->peer * n + rank) * nsems + step->sem;
    if (step->op == PLAN_WAIT)
        sync.sem = (rank * n + step->peer) * nsems + step->sem;
    sync.waits = step->op == PLAN_WAIT;
    return sync;
}

static void copy_rank(const struct peal_cuda_comm *comm, const struct peal_plan *plan,
                      uint32_t rank, struct cuda_zero_row *zero)
{
    const struct plan_rank *program = peal_plan_program(plan, rank);
    for (uint32_t l = 0; l < program->nlanes; l++) {
        struct plan_lane lane = program->lanes[l];
        uint32_t steps = lane.pre + lane.body + lane.post;
        uint32_t from = lane.first;
        lane.first = zero->nsteps;
        zero->lanes[zero->nlanes++] = lane;
        for (uint32_t i = 0; i < steps; i++)
            zero->syncs[zero->nsteps++] = sync_of(comm, rank, &program->steps[from + i]);
    }
    zero->first_lane[rank + 1] = zero->nlanes;
}

static uint32_t most_blocks(const struct peal_plan *plan)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint8_t buffer = PLAN_BUF_IN; buffer <= PLAN_BUF_OUT; buffer++) {
            uint32_t blocks = peal_plan_held(plan, r, buffer).blocks;
            most = blocks > most ? blocks : most;
        }
    return most;
}

static peal_status keep_row(const struct peal_cuda_comm *comm, const struct peal_plan *plan,
                            struct cuda_zero_row *zero)
{
    size_t lanes = 0, steps = 0;
    const char *why = row_why(plan);
    zero->most = most_blocks(plan);
    zero->posts = cuda_nic_posts(plan) != 0;
    if (why) {
        peal_copy_text(zero->why, sizeof zero->why, why);
        return PEAL_OK;
    }
    for (uint32_t r = 0; r < plan->nranks; r++) {
        lanes += peal_plan_program(plan, r)->nlanes;
        steps += peal_plan_program(plan, r)->nsteps;
    }
    zero->lanes = peal_calloc(comm->ctx, lanes, sizeof *zero->lanes);
    zero->syncs = peal_calloc(comm->ctx, steps, sizeof *zero->syncs);
    zero->first_lane = peal_calloc(comm->ctx, plan->nranks + 1ull, sizeof *zero->first_lane);
    int all = zero->lanes && zero->syncs && zero->first_lane;
    for (uint32_t r = 0; all && r < plan->nranks; r++)
        copy_rank(comm, plan, r, zero);
    zero->nlanes = (uint32_t)lanes;
    zero->nsteps = (uint32_t)steps;
    return all ? PEAL_OK : PEAL_ERR_MEMORY;
}

uint64_t cuda_zero_bytes(uint32_t nranks, uint32_t nsems)
{
    return sizeof(uint32_t) * (2ull * nranks + (uint64_t)nranks * nsems);
}

static peal_status make_queues(struct peal_cuda_comm *comm, peal_diag *diag)
{
    uint32_t queues = comm->params.queues;
    for (uint32_t i = 0; queues > 1 && i < queues; i++)
        CUDA_TRY(comm->cuda, diag, stream_create, &comm->queue[i], CU_STREAM_NONBLOCKING);
    for (uint32_t i = 0; queues > 1 && i <= queues; i++)
        CUDA_TRY(comm->cuda, diag, event_create, &comm->forked[i], CU_EVENT_NO_TIMING);
    return PEAL_OK;
}

peal_status cuda_zero_make(struct peal_cuda_comm *comm, const peal_table *table, peal_diag *diag)
{
    peal_status status = PEAL_OK;
    size_t cells = 2 * (size_t)comm->nranks * comm->layout.nsems;
    comm->zero = peal_calloc(comm->ctx, table->nrows, sizeof *comm->zero);
    comm->counted = peal_calloc(comm->ctx, cells, sizeof *comm->counted);
    if (!comm->zero || !comm->counted)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (uint32_t i = 0; i < table->nrows && status == PEAL_OK; i++)
        status = keep_row(comm, table->rows[i].plan, &comm->zero[i]);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "out of memory");
    return make_queues(comm, diag);
}

static void free_row(const struct peal_cuda_comm *comm, struct cuda_zero_row *zero)
{
    peal_free(comm->ctx, zero->lanes, zero->nlanes * sizeof *zero->lanes);
    peal_free(comm->ctx, zero->syncs, zero->nsteps * sizeof *zero->syncs);
    peal_free(comm->ctx, zero->first_lane, (comm->nranks + 1ull) * sizeof *zero->first_lane);
    peal_free(comm->ctx, zero->turns, zero->turns_capacity * sizeof *zero->turns);
}

void cuda_zero_free(struct peal_cuda_comm *comm, int entered)
{
    uint32_t rows = comm->host ? comm->host->nrows : 0;
    for (uint32_t i = 0; comm->zero && i < rows; i++)
        free_row(comm, &comm->zero[i]);
    peal_free(comm->ctx, comm->zero, rows * sizeof *comm->zero);
    peal_free(comm->ctx, comm->counted,
              2 * (size_t)comm->nranks * comm->layout.nsems * sizeof *comm->counted);
    for (uint32_t i = 0; entered && i < CUDA_QUEUES_MAX; i++)
        if (comm->queue[i])
            (void)comm->cuda->call.stream_destroy(comm->queue[i]);
    for (uint32_t i = 0; entered && i <= CUDA_QUEUES_MAX; i++)
        if (comm->forked[i])
            (void)comm->cuda->call.event_destroy(comm->forked[i]);
}

/* ---- a call under way to its streams */

struct zero_call {
    struct peal_cuda_comm *comm;
    struct rt_row *row;
    const struct cuda_buffers *buffers;
    cu_handle stream; /* the caller's */
    cu_handle now;    /* the one that what is gathered is for */
    uint32_t queues;
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

static peal_status add(struct zero_call *call, int operation, cu_ptr at, uint32_t value)
{
    struct peal_cuda_comm *comm = call->comm;
    if (comm->nops == CU_OPS_MAX)
        PEAL_TRY(flush(call));
    comm->ops[comm->nops++] = (struct cu_mem_op){
        .operation = operation, .address = at, .value = value, .flags = CU_WAIT_GEQ};
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

/* ---- barriers */

enum barrier { ENTER, LEAVE };

static cu_ptr barrier_cell(const struct peal_cuda_comm *comm, uint32_t consumer, enum barrier which,
                           uint32_t producer)
{
    return comm->peers[consumer].arena + comm->cells +
           4 * ((uint64_t)which * comm->nranks + producer);
}

static cu_ptr sem_cell(const struct peal_cuda_comm *comm, uint32_t consumer, uint32_t producer,
                       uint64_t index)
{
    uint64_t at = 2ull * comm->nranks + (uint64_t)producer * comm->layout.nsems + index;
    return comm->peers[consumer].arena + comm->cells + 4 * at;
}

static peal_status clear_barrier(struct zero_call *call, enum barrier which)
{
    struct peal_cuda_comm *comm = call->comm;
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (r != comm->rank)
            PEAL_TRY(add(call, CU_OP_WRITE_32, barrier_cell(comm, comm->rank, which, r), 0));
    return PEAL_OK;
}

static peal_status meet_all(struct zero_call *call, enum barrier which)
{
    struct peal_cuda_comm *comm = call->comm;
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (r != comm->rank)
            PEAL_TRY(add(call, CU_OP_WRITE_32, barrier_cell(comm, r, which, comm->rank), 1));
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (r != comm->rank)
            PEAL_TRY(add(call, CU_OP_WAIT_32, barrier_cell(comm, comm->rank, which, r), 1));
    return PEAL_OK;
}

static cu_ptr word_at(const struct peal_cuda_comm *comm, size_t offset)
{
    return comm->words_device + offset;
}

static peal_status enter(struct zero_call *call)
{
    struct peal_cuda_comm *comm = call->comm;
    PEAL_TRY(add(call, CU_OP_WRITE_32, word_at(comm, offsetof(struct cuda_words, busy)), 1));
    PEAL_TRY(clear_barrier(call, LEAVE));
    PEAL_TRY(meet_all(call, ENTER));
    PEAL_TRY(clear_barrier(call, ENTER));
    return flush(call);
}

/* Semaphores that the call waited on. */
static peal_status clear_sems(struct zero_call *call)
{
    struct peal_cuda_comm *comm = call->comm;
    uint32_t cells = comm->nranks * comm->layout.nsems;
    const uint32_t *waited = comm->counted + cells;
    for (uint32_t i = 0; i < cells; i++)
        if (waited[i])
            PEAL_TRY(add(call, CU_OP_WRITE_32,
                         sem_cell(comm, comm->rank, i / comm->layout.nsems, i % comm->layout.nsems),
                         0));
    return PEAL_OK;
}

static peal_status leave(struct zero_call *call)
{
    struct peal_cuda_comm *comm = call->comm;
    PEAL_TRY(clear_sems(call));
    PEAL_TRY(meet_all(call, LEAVE));
    PEAL_TRY(add(call, CU_OP_WRITE_32, word_at(comm, offsetof(struct cuda_words, busy)), 0));
    return flush(call);
}

/* ---- moves */

static cu_ptr slot_at(const struct peal_cuda_comm *comm, const struct rt_operand *operand,
                      uint32_t trip)
{
    const struct rt_layout *layout = &comm->host->layout;
    const char *first =
        comm->host->base + layout->scratch + 2 * layout->scratch_bytes * operand->rank;
    uint64_t offset = (uint64_t)(operand->at - first) + trip % operand->depth * operand->trip_bytes;
    return comm->peers[operand->rank].arena + comm->layout.scratch + offset;
}

/* offset: of the tile in the message. Everybody is in the same call, so one copy of the scratch
 * does. */
static cu_ptr operand_at(const struct zero_call *call, const struct rt_operand *operand,
                         uint32_t trip, uint64_t offset)
{
    const struct peal_cuda_comm *comm = call->comm;
    const struct cuda_buffers *buffers = call->buffers;
    uint64_t arena = comm->peers[operand->rank].arena - comm->arena.at;
    offset += operand->shift;
    switch (operand->place) {
    case RT_OWN_IN:
        return buffers->in + offset;
    case RT_OWN_OUT:
        return buffers->out + offset;
    case RT_SHARED_OUT:
        return buffers->shared_out + offset;
    case RT_PEER_IN:
        return buffers->shared_in + arena + offset;
    case RT_PEER_OUT:
        return buffers->shared_out + arena + offset;
    default:
        return slot_at(comm, operand, trip);
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

static peal_status move(struct zero_call *call, const struct rt_step *step, uint32_t trip)
{
    const struct peal_cuda *cuda = call->comm->cuda;
    struct cuda_copies *copies = &call->comm->copies;
    const struct rt_operand *operand = call->row->operands + step->operands;
    PEAL_TRY(flush(call));
    for (uint32_t nth = 0; nth <= step->more; nth++, operand += step->nsrc + step->ndst) {
        uint64_t offset;
        uint64_t bytes = tile_of(call->row, step, nth, trip, &offset);
        cu_ptr from = operand_at(call, &operand[0], trip, offset);
        for (uint32_t i = 0; i < step->ndst; i++) {
            cu_ptr to = operand_at(call, &operand[step->nsrc + i], trip, offset);
            PEAL_TRY(cuda_copies_add(cuda, copies, to, from, (size_t)bytes, call->now, call->diag));
        }
    }
    return cuda_copies_flush(cuda, copies, call->now, call->diag);
}

/* ---- signals and waits: counted from the call's begin */

static peal_status do_signal(struct zero_call *call, const struct rt_step *step)
{
    struct peal_cuda_comm *comm = call->comm;
    uint32_t nsems = comm->layout.nsems;
    size_t sem = (size_t)(step->out - comm->host->sem_out);
    return add(call, CU_OP_WRITE_32, sem_cell(comm, step->peer, comm->rank, sem % nsems),
               ++comm->counted[sem]);
}

static peal_status do_wait(struct zero_call *call, const struct rt_step *step, uint32_t pc)
{
    struct peal_cuda_comm *comm = call->comm;
    uint32_t nsems = comm->layout.nsems;
    size_t sem = (size_t)(step->in - comm->host->sem_in);
    uint32_t *waited = &comm->counted[comm->nranks * nsems + sem];
    int64_t need = (int64_t)++ * waited - step->lag;
    if (need <= 0)
        return PEAL_OK;
    PEAL_TRY(add(call, CU_OP_WAIT_32, sem_cell(comm, comm->rank, step->peer, sem % nsems),
                 (uint32_t)need));
    return add(call, CU_OP_WRITE_32, word_at(comm, offsetof(struct cuda_words, step)), pc + 1);
}

/* An await is the order of the stream. */
static peal_status do_step(struct zero_call *call, const struct rt_lane *lane)
{
    const struct rt_step *step = &call->row->steps[lane->pc];
    switch ((enum rt_kind)step->kind) {
    case RT_MOVE:
    case RT_ASYNC:
        return move(call, step, lane->trip);
    case RT_SIGNAL:
        return do_signal(call, step);
    case RT_WAIT:
        return do_wait(call, step, lane->pc);
    case RT_AWAIT:
        return PEAL_OK;
    default:
        return peal_fail(call->diag, PEAL_ERR_INTERNAL, "a zero-SM call of a plan that has none");
    }
}

/* ---- the whole */

static peal_status run_turn(struct zero_call *call, const struct cuda_turn *turn)
{
    struct rt_row *row = call->row;
    struct rt_lane *lane = &row->lanes[turn->lane];
    cu_handle queue =
        call->queues > 1 ? call->comm->queue[turn->lane % call->queues] : call->stream;
    PEAL_TRY(turn_to(call, queue));
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
    for (uint32_t i = 0; i < call->queues; i++)
        CUDA_TRY(comm->cuda, call->diag, stream_wait_event, comm->queue[i], event, 0);
    return PEAL_OK;
}

static peal_status join_queues(struct zero_call *call)
{
    struct peal_cuda_comm *comm = call->comm;
    PEAL_TRY(flush(call));
    call->now = call->stream;
    for (uint32_t i = 0; call->queues > 1 && i < call->queues; i++) {
        CUDA_TRY(comm->cuda, call->diag, event_record, comm->forked[i], comm->queue[i]);
        CUDA_TRY(comm->cuda, call->diag, stream_wait_event, call->stream, comm->forked[i], 0);
    }
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

/* A call of which the driver took a part only: behind that it is over, for those who wait for it.
 */
static void give_up(struct zero_call *call)
{
    struct peal_cuda_comm *comm = call->comm;
    struct cu_mem_op op = {.operation = CU_OP_WRITE_32,
                           .address = word_at(comm, offsetof(struct cuda_words, busy))};
    comm->nops = 0;
    (void)comm->cuda->call.mem_ops(call->stream, 1, &op, 0);
}

peal_status cuda_zero_call(struct peal_cuda_comm *comm, struct rt_row *row,
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
    PEAL_TRY(cuda_order(comm, zero, row->trips, diag));
    memset(comm->counted, 0, 2 * (size_t)comm->nranks * comm->layout.nsems * sizeof *comm->counted);
    comm->nops = comm->copies.count = 0;
    PEAL_TRY(look_for_capture(&call));
    rt_begin(comm->host, row);
    peal_status status = give_all(&call, zero);
    if (status != PEAL_OK)
        give_up(&call);
    else
        comm->zero_calls++;
    return status;
}
