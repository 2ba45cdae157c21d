/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes a table's programs for one rank: addresses instead of names, once at creation. */
#include "far.h"

#include <string.h>

struct decode {
    struct peal_comm *comm;
    const struct peal_plan *plan;
    const struct plan_rank *rank;
    struct rt_row *row;
    uint32_t *writers;    /* rank that fills each packet slot of this rank, by first_slot + slot */
    uint32_t *first_slot; /* of each region */
    uint32_t noperands;
    uint32_t npieces;
};

/* ---- operands */

static uint64_t slot_bytes(const struct plan_region *region)
{
    return peal_plan_region_bytes(region) / ((uint64_t)region->width * region->depth);
}

/* The number of a packet slot among all of the plan's. */
static uint64_t number_of(const struct peal_plan *plan, const struct plan_operand *operand)
{
    uint64_t number = operand->slot;
    for (uint32_t i = 0; i < operand->index; i++)
        if (plan->regions[i].buffer == PLAN_BUF_PACKET)
            number += (uint64_t)plan->regions[i].width * plan->regions[i].depth;
    return number;
}

static void decode_ring(const struct decode *d, const struct plan_operand *from,
                        struct rt_operand *to)
{
    struct peal_comm *comm = d->comm;
    const struct plan_region *region = &d->plan->regions[from->index];
    struct rt_ring *ring = &d->row->rings[to - d->row->operands];
    ring->slot = number_of(d->plan, from);
    ring->width = region->width;
    ring->heads = rt_heads(comm->base, &comm->layout, from->rank, ring->slot);
    ring->trip_words = (uint64_t)region->width * RT_AHEAD_MOST;
    ring->at = comm->base + comm->layout.ring + PLAN_AHEAD * comm->layout.ring_bytes * from->rank +
               peal_plan_region_offset(d->plan, from->index) + slot_bytes(region) * from->slot;
    ring->trip_bytes = slot_bytes(region) * region->width;
    to->ring = ring;
}

static void decode_slot(const struct decode *d, const struct plan_operand *from,
                        struct rt_operand *to)
{
    const struct rt_layout *layout = &d->comm->layout;
    const struct plan_region *region = &d->plan->regions[from->index];
    int packet = from->buffer == PLAN_BUF_PACKET;
    uint64_t copy = packet ? layout->packet_bytes : layout->scratch_bytes;
    uint64_t part = packet ? layout->packets : layout->scratch;
    to->place = RT_SLOT;
    to->packet = (uint8_t)packet;
    to->wire = region->wire;
    to->depth = region->depth;
    to->writer = packet && from->rank == d->comm->rank
                     ? d->writers[d->first_slot[from->index] + from->slot]
                     : RT_NOBODY;
    if (packet && d->plan->ahead) {
        decode_ring(d, from, to);
        return;
    }
    to->trip_bytes = slot_bytes(region) * region->width;
    to->copy_bytes = copy;
    to->at = d->comm->base + part + 2 * copy * from->rank +
             peal_plan_region_offset(d->plan, from->index) + slot_bytes(region) * from->slot;
}

/* In blocks, from where the chunk is in the message to where it is in a rank's buffer. */
static uint64_t shift_of(const struct decode *d, const struct plan_operand *from)
{
    uint32_t block = from->index / (d->plan->nchunks / d->row->blocks);
    return (uint64_t)peal_plan_held_before(d->plan, from->rank, from->buffer, block) - block;
}

static void decode_operand(const struct decode *d, const struct plan_operand *from,
                           struct rt_operand *to)
{
    struct peal_comm *comm = d->comm;
    memset(to, 0, sizeof *to);
    to->rank = from->rank;
    int is_in = from->buffer == PLAN_BUF_IN;
    if (!is_in && from->buffer != PLAN_BUF_OUT) {
        decode_slot(d, from, to);
        return;
    }
    struct rt_board *board = rt_board(comm->base, &comm->layout, from->rank);
    to->shift_blocks = shift_of(d, from);
    to->board = is_in ? &board->in : &board->out;
    if (from->rank != comm->rank)
        to->place = is_in ? RT_PEER_IN : RT_PEER_OUT;
    else if (is_in)
        to->place = RT_OWN_IN;
    else
        to->place = d->row->reached[from->index] & RT_REACH_OUT ? RT_SHARED_OUT : RT_OWN_OUT;
}

/* ---- steps */

static int folds(const struct plan_step *step)
{
    return peal_plan_op_folds(step->op);
}

/* 1: elements are converted, not only moved. */
static int converts(const struct plan_step *step, int wire_source)
{
    return peal_plan_op_converts(step->op) || (wire_source && folds(step));
}

/* The plan's form has been checked: peal_table_verify does. */
static uint8_t move_kind(const struct decode *d, const struct plan_step *from,
                         const struct plan_operand *operands)
{
    int wire_source = 0;
    if (from->engine != PEAL_ENGINE_SM)
        return RT_ASYNC;
    for (uint32_t i = 0; i < from->nsrc; i++)
        wire_source |= peal_plan_operand_wire(d->plan, &operands[i]);
    if (converts(from, wire_source))
        return RT_WIRE;
    for (uint32_t i = 0; i < (uint32_t)from->nsrc + from->ndst; i++)
        if (operands[i].buffer == PLAN_BUF_PACKET)
            return d->plan->ahead ? RT_AHEAD : RT_PACKET;
    return folds(from) ? RT_FOLD : RT_MOVE;
}

/* The destination "as it was" is the first source of a fold into it. */
static struct rt_operand *decode_chunk(struct decode *d, const struct plan_step *from, uint32_t nth,
                                       struct rt_operand *out)
{
    const struct plan_operand *operands = d->rank->operands + from->operands;
    uint32_t count = (uint32_t)from->nsrc + from->ndst;
    uint32_t folded = from->op == PLAN_PUT_REDUCE || from->op == PLAN_GET_REDUCE ? 1 : 0;
    for (uint32_t i = 0; i < count + folded; i++) {
        struct plan_operand operand =
            peal_plan_nth(from, operands[i < folded ? from->nsrc : i - folded], nth);
        decode_operand(d, &operand, out++);
    }
    return out;
}

static void decode_operands(struct decode *d, const struct plan_step *from, struct rt_step *to)
{
    struct rt_operand *out = d->row->operands + d->noperands;
    to->operands = d->noperands;
    to->nsrc = from->nsrc;
    to->ndst = from->ndst;
    uint32_t packets = 0;
    if (from->op == PLAN_PUT_REDUCE || from->op == PLAN_GET_REDUCE)
        to->nsrc++;
    for (uint32_t nth = 0; nth <= from->more; nth++)
        out = decode_chunk(d, from, nth, out);
    d->noperands = (uint32_t)(out - d->row->operands);
    to->to_out = to->to_peers = 1;
    for (uint32_t i = 0; i < (uint32_t)to->nsrc + to->ndst; i++) {
        const struct rt_operand *operand = &d->row->operands[to->operands + i];
        if (i < to->nsrc)
            packets += operand->packet || operand->wire;
        else if (operand->place == RT_SLOT)
            to->to_out = 0;
        if (i >= to->nsrc && operand->place != RT_PEER_OUT)
            to->to_peers = 0;
        if (i >= to->nsrc && operand->packet && d->plan->ahead)
            d->row->fills = 1;
    }
    if (packets > d->comm->packet_sources)
        d->comm->packet_sources = packets;
}

/* The proof has it that a rank moves only what it gives or gets. */
static void decode_limit(const struct decode *d, struct rt_step *to)
{
    const struct peal_comm *comm = d->comm;
    uint32_t giver = peal_plan_giver(d->plan, to->chunk);
    to->begin = to->chunk / (d->plan->nchunks / d->row->blocks);
    to->limit = giver == comm->rank ? &comm->send_counts[peal_plan_getter(d->plan, to->chunk)]
                                    : &comm->recv_counts[giver];
}

static void decode_move(struct decode *d, const struct plan_step *from, struct rt_step *to)
{
    to->kind = move_kind(d, from, d->rank->operands + from->operands);
    to->folds = (uint8_t)folds(from);
    to->final = (from->flags & PLAN_FLAG_FINAL) != 0;
    to->event = from->event;
    to->chunk = from->chunk;
    to->more = from->more;
    to->stride = from->stride;
    if (to->kind == RT_ASYNC) {
        to->pieces = d->npieces;
        d->npieces += (from->more + 1) * from->ndst;
    }
    if (d->row->counted)
        decode_limit(d, to);
    decode_operands(d, from, to);
    if (to->kind == RT_MOVE || to->kind == RT_ASYNC)
        to->wire = d->row->operands[to->operands].wire;
    to->simple = (to->kind == RT_MOVE || to->kind == RT_AHEAD) && !to->folds && !to->wire &&
                 to->nsrc == 1 && to->more == 0;
    to->shape = (uint8_t)kern_shape(to->nsrc, to->ndst);
    to->shape_one = (uint8_t)kern_shape(to->nsrc, 1);
}

static void decode_step(struct decode *d, const struct plan_step *from, struct rt_step *to)
{
    struct peal_comm *comm = d->comm;
    size_t sem = (size_t)from->peer * comm->layout.nsems + from->sem;
    memset(to, 0, sizeof *to);
    to->engine = from->engine;
    to->peer = from->peer;
    switch (from->op) {
    case PLAN_SIGNAL:
        to->kind = RT_SIGNAL;
        to->after = from->after;
        to->out = &comm->sem_out[sem];
        return;
    case PLAN_TELL:
        to->kind = RT_TELL;
        to->after = PLAN_NO_EVENT;
        to->out = &comm->sem_out[sem];
        to->counts = rt_count(comm->base, &comm->layout, from->peer, 0, comm->rank);
        return;
    case PLAN_LEARN:
        to->kind = RT_LEARN;
        to->in = &comm->sem_in[sem];
        to->counts = rt_count(comm->base, &comm->layout, comm->rank, 0, from->peer);
        return;
    case PLAN_WAIT:
        to->kind = RT_WAIT;
        to->lag = from->lag;
        to->in = &comm->sem_in[sem];
        return;
    case PLAN_AWAIT:
        to->kind = RT_AWAIT;
        to->event = from->event;
        to->what = from->what;
        return;
    default:
        decode_move(d, from, to);
    }
}

/* A wait knows how many waits of a call there are on its semaphore: one lane makes them all. */
static void count_waits(struct rt_row *row, const struct rt_lane *lane)
{
    for (uint32_t i = lane->first; i < lane->last; i++) {
        struct rt_step *step = &row->steps[i];
        for (uint32_t j = lane->first; step->in && j < lane->last; j++) {
            if (row->steps[j].in != step->in)
                continue;
            if (j >= lane->body && j < lane->post)
                step->per_trip++;
            else
                step->fixed++;
        }
    }
}

static void decode_lane(struct decode *d, uint32_t number, uint32_t *nsteps)
{
    const struct plan_lane *from = &d->rank->lanes[number];
    struct rt_lane *to = &d->row->lanes[number];
    to->number = number;
    to->first = *nsteps;
    to->body = to->first + from->pre;
    to->post = to->body + from->body;
    to->last = to->post + from->post;
    to->events = d->row->events ? d->row->events + (size_t)number * PLAN_EVENTS_MAX : NULL;
    for (uint32_t i = 0; i < from->pre + from->body + from->post; i++) {
        struct rt_step *step = &d->row->steps[(*nsteps)++];
        decode_step(d, &d->rank->steps[from->first + i], step);
        step->number = i;
        rt_far_mark(d->comm, d->row, step);
    }
    rt_far_ease(d->comm, d->plan, d->row, to);
    count_waits(d->row, to);
}

/* ---- what other ranks do to this one */

static void note_packet(struct decode *d, uint32_t writer, const struct plan_operand *operand)
{
    if (operand->buffer == PLAN_BUF_PACKET && operand->rank == d->comm->rank)
        d->writers[d->first_slot[operand->index] + operand->slot] = writer;
}

static void note_reach(struct rt_row *row, const struct plan_step *step, uint8_t reach)
{
    for (uint32_t nth = 0; nth <= step->more; nth++)
        row->reached[step->chunk + nth * step->stride] |= reach;
}

/* Others' buffers are attached to by moves and folds of sm alone. */
static void note_attach(struct decode *d, uint32_t rank, const struct plan_step *step)
{
    const struct plan_operand *operands =
        peal_plan_program(d->plan, rank)->operands + step->operands;
    uint8_t kind = move_kind(d, step, operands);
    int foreign = 0;
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++)
        foreign |= operands[i].rank != rank && operands[i].buffer <= PLAN_BUF_OUT;
    d->row->shares |= foreign != 0;
    if (foreign && kind != RT_MOVE && kind != RT_FOLD)
        d->row->attachable = 0;
    if (rank == d->comm->rank && step->nsrc + 1u > d->comm->attach_sources)
        d->comm->attach_sources = step->nsrc + 1u;
}

static int is_named(const struct decode *d, uint32_t rank, const struct plan_step *step,
                    const struct plan_operand *operand)
{
    return rank == d->comm->rank && operand->rank == rank && operand->buffer <= PLAN_BUF_OUT &&
           (peal_plan_op_groups(step->op) || step->engine == PEAL_ENGINE_IBGDA);
}

static void note_step(struct decode *d, uint32_t rank, const struct plan_step *step)
{
    const struct plan_operand *operands =
        peal_plan_program(d->plan, rank)->operands + step->operands;
    note_attach(d, rank, step);
    int reads_dst = step->op == PLAN_PUT_REDUCE || step->op == PLAN_GET_REDUCE;
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++) {
        const struct plan_operand *operand = &operands[i];
        int foreign = rank != d->comm->rank && operand->rank == d->comm->rank;
        if (operand->buffer == PLAN_BUF_IN && foreign)
            note_reach(d->row, step, RT_REACH_IN);
        if (operand->buffer == PLAN_BUF_OUT && foreign)
            note_reach(d->row, step, RT_REACH_OUT);
        if (is_named(d, rank, step, operand))
            note_reach(d->row, step, operand->buffer == PLAN_BUF_IN ? RT_NAMED_IN : RT_NAMED_OUT);
        if (operand->buffer == PLAN_BUF_OUT && (i < step->nsrc || reads_dst))
            d->row->out_reread = 1;
        if (i >= step->nsrc)
            note_packet(d, rank, operand);
    }
}

/* 1: a network does what the plan asks of one. */
static int is_itself(const struct peal_comm *comm, uint32_t rank, const struct plan_rank *program,
                     const struct plan_step *step)
{
    if (!peal_plan_engine_nets(step->engine))
        return 0;
    if (peal_plan_op_signals(step->op))
        return rt_far_does(comm, rank, step->peer, step->engine);
    const struct plan_operand *dst = program->operands + step->operands + step->nsrc;
    for (uint32_t i = 0; i < step->ndst; i++)
        if (!rt_far_does(comm, rank, dst[i].rank, step->engine))
            return 0;
    return 1;
}

static void note_engine(struct peal_comm *comm, struct rt_row *row, uint32_t number,
                        const struct plan_rank *rank, const struct plan_step *step)
{
    if (!peal_plan_op_moves(step->op) && !peal_plan_op_signals(step->op))
        return;
    comm->engines |= 1u << step->engine;
    row->engines |= 1u << step->engine;
    /* A host rank's own loads and stores are what its plan asks for, and so is a network's engine
     * that does it; all else stands in, among it a lane that stores and folds for a switch. */
    if ((step->engine != PEAL_ENGINE_SM || rank->busid[0] != '\0' ||
         peal_plan_op_groups(step->op)) &&
        !is_itself(comm, number, rank, step))
        comm->stand_ins |= 1u << step->engine;
}

/* Whoever has a slice does not know what others reach of its buffers: it may be all of them. Nor
 * does it attach to theirs, which all ranks have to agree on. */
static void note_unknown(struct decode *d)
{
    struct rt_row *row = d->row;
    for (uint32_t i = 0; i < row->nchunks; i++) {
        if (peal_plan_holds(d->plan, d->comm->rank, PLAN_BUF_IN, i))
            row->reached[i] |= RT_REACH_IN;
        if (peal_plan_holds(d->plan, d->comm->rank, PLAN_BUF_OUT, i))
            row->reached[i] |= RT_REACH_OUT;
    }
    row->out_reread = row->shares = 1;
}

static void note_ranks(struct decode *d)
{
    if (d->plan->sliced)
        note_unknown(d);
    else
        d->row->attachable = !d->plan->sliced; /* what the others do is not known */
    for (uint32_t r = peal_plan_first(d->plan); r < peal_plan_end(d->plan); r++) {
        const struct plan_rank *rank = peal_plan_program(d->plan, r);
        for (uint32_t i = 0; i < rank->nsteps; i++) {
            const struct plan_step *step = &rank->steps[i];
            note_engine(d->comm, d->row, r, rank, step);
            if (peal_plan_op_moves(step->op))
                note_step(d, r, step);
        }
    }
}

/* ---- rows */

static int has_async(const struct plan_rank *rank)
{
    for (uint32_t i = 0; i < rank->nsteps; i++)
        if (rank->steps[i].event != PLAN_NO_EVENT || rank->steps[i].after != PLAN_NO_EVENT)
            return 1;
    return 0;
}

/* Steps may share operands, and folds into a destination name it twice. */
static uint32_t count_operands(const struct plan_rank *rank)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rank->nsteps; i++)
        count +=
            ((uint32_t)rank->steps[i].nsrc + rank->steps[i].ndst + 1) * (rank->steps[i].more + 1);
    return count;
}

static size_t count_pieces(const struct plan_rank *rank)
{
    size_t count = 0;
    for (uint32_t i = 0; i < rank->nsteps; i++)
        if (rank->steps[i].event != PLAN_NO_EVENT)
            count += ((size_t)rank->steps[i].more + 1) * rank->steps[i].ndst;
    return count;
}

static peal_status copy_weights(struct decode *d)
{
    const struct peal_plan *plan = d->plan;
    if (!plan->weights)
        return PEAL_OK;
    uint32_t *prefix = peal_calloc(d->comm->ctx, (size_t)plan->nchunks + 1, sizeof *prefix);
    if (!prefix)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < plan->nchunks; i++)
        prefix[i + 1] = prefix[i] + plan->weights[i];
    d->row->prefix = prefix;
    return PEAL_OK;
}

/* Of blocks that lie anywhere: which ones, of the input and then the output. */
static peal_status list_blocks(struct decode *d)
{
    struct rt_row *row = d->row;
    uint32_t blocks = peal_plan_blocks(d->plan), each = d->plan->nchunks / blocks;
    if (!peal_plan_scattered(d->plan))
        return PEAL_OK;
    row->listed = peal_calloc(d->comm->ctx, (size_t)row->in.blocks + row->out.blocks + 1,
                              sizeof *row->listed);
    if (!row->listed)
        return PEAL_ERR_MEMORY;
    uint32_t in = 0, out = row->in.blocks;
    for (uint32_t i = 0; i < blocks; i++) {
        if (peal_plan_holds(d->plan, d->comm->rank, PLAN_BUF_IN, i * each))
            row->listed[in++] = i;
        if (peal_plan_holds(d->plan, d->comm->rank, PLAN_BUF_OUT, i * each))
            row->listed[out++] = i;
    }
    return PEAL_OK;
}

static peal_status row_memory(struct decode *d)
{
    peal_ctx *ctx = d->comm->ctx;
    struct rt_row *row = d->row;
    row->nchunks = d->plan->nchunks;
    row->nlanes = d->rank->nlanes;
    row->nsteps = d->rank->nsteps;
    row->noperands = count_operands(d->rank);
    row->bounds = peal_calloc(ctx, 2 * (size_t)row->nchunks + 1, sizeof *row->bounds);
    row->reached = peal_calloc(ctx, row->nchunks, sizeof *row->reached);
    row->lanes = peal_calloc(ctx, row->nlanes, sizeof *row->lanes);
    row->steps = peal_calloc(ctx, row->nsteps, sizeof *row->steps);
    row->operands = peal_calloc(ctx, row->noperands, sizeof *row->operands);
    if (d->plan->ahead)
        row->rings = peal_calloc(ctx, row->noperands, sizeof *row->rings);
    if (d->plan->ahead && !row->rings)
        return PEAL_ERR_MEMORY;
    if (!row->bounds || !row->reached || !row->lanes || !row->steps || !row->operands)
        return PEAL_ERR_MEMORY;
    row->ends = row->bounds + row->nchunks + 1;
    if (has_async(d->rank)) {
        row->events = peal_calloc(ctx, (size_t)row->nlanes * PLAN_EVENTS_MAX, sizeof *row->events);
        row->npieces = count_pieces(d->rank);
        row->pieces = peal_calloc(ctx, row->npieces, sizeof *row->pieces);
        if (!row->events || !row->pieces)
            return PEAL_ERR_MEMORY;
    }
    PEAL_TRY(list_blocks(d));
    return copy_weights(d);
}

/* What the collective is to this rank. In place, an own block lies where it does in the whole. */
static void decode_shape(struct decode *d)
{
    const struct peal_plan *plan = d->plan;
    const struct plan_collective *what = peal_plan_collective(plan->collective);
    struct rt_row *row = d->row;
    row->collective = plan->collective;
    row->root = plan->root;
    row->peer = plan->peer;
    row->blocks = peal_plan_blocks(plan);
    row->in = peal_plan_held(plan, d->comm->rank, PLAN_BUF_IN);
    row->out = peal_plan_held(plan, d->comm->rank, PLAN_BUF_OUT);
    row->alias = (uint64_t)row->in.first - row->out.first;
    row->counted = plan->collective == PEAL_ALLTOALLV;
    row->wire = peal_plan_wire(plan) != PLAN_WIRE_NONE;
    row->knows_in_place = (uint8_t)(what->in_place != 0);
    row->all_in_place = (uint8_t)(what->in_place && !what->rooted);
}

static void decode_row(struct decode *d)
{
    struct rt_row *row = d->row;
    row->id = d->plan->id;
    row->max_bytes = d->plan->max_bytes;
    peal_copy_text(row->algorithm, sizeof row->algorithm, d->plan->algorithm);
    row->tile_bytes = d->plan->tile_bytes;
    row->ahead = (uint8_t)d->plan->ahead;
    row->window = row->copies = 2; /* of calls that run ahead: ahead.c */
    note_ranks(d);
    for (uint32_t i = 0; i < row->nchunks; i++)
        row->reach |= row->reached[i];
    uint32_t nsteps = 0;
    for (uint32_t i = 0; i < row->nlanes; i++)
        decode_lane(d, i, &nsteps);
}

/* Where in `writers` the slots of each region begin. 0: more slots than fit. */
static int number_slots(const struct peal_plan *plan, uint32_t *first_slot, uint32_t *slots)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < plan->nregions; i++) {
        first_slot[i] = (uint32_t)total;
        total += plan->regions[i].width;
        if (total > UINT32_MAX)
            return 0;
    }
    *slots = (uint32_t)total;
    return 1;
}

static peal_status make_row(struct decode *d)
{
    peal_ctx *ctx = d->comm->ctx;
    uint32_t first_slot[PLAN_REGIONS_MAX] = {0};
    uint32_t slots = 0;
    if (d->plan->nregions > PLAN_REGIONS_MAX || !number_slots(d->plan, first_slot, &slots))
        return PEAL_ERR_LIMIT;
    d->first_slot = first_slot;
    d->writers = peal_alloc(ctx, (size_t)slots * sizeof *d->writers);
    if (!d->writers)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < slots; i++)
        d->writers[i] = RT_NOBODY;
    decode_shape(d);
    peal_status status = row_memory(d);
    if (status == PEAL_OK)
        decode_row(d);
    peal_free(ctx, d->writers, (size_t)slots * sizeof *d->writers);
    return status == PEAL_OK ? rt_back_make(d->comm, d->row) : status;
}

/* ---- the whole */

static peal_status make_sems(struct peal_comm *comm)
{
    size_t nsems = comm->layout.nsems;
    size_t cells = comm->nranks * nsems;
    comm->sem_out = peal_calloc(comm->ctx, cells, sizeof *comm->sem_out);
    comm->sem_in = peal_calloc(comm->ctx, cells, sizeof *comm->sem_in);
    if (!comm->sem_out || !comm->sem_in)
        return PEAL_ERR_MEMORY;
    for (uint32_t peer = 0; peer < comm->nranks; peer++) {
        for (uint32_t i = 0; i < nsems; i++) {
            size_t at = peer * nsems + i;
            comm->sem_out[at].cell = rt_sem(comm->base, &comm->layout, peer, comm->rank, i);
            comm->sem_in[at].cell = rt_sem(comm->base, &comm->layout, comm->rank, peer, i);
        }
    }
    return PEAL_OK;
}

static size_t blocks_bytes(const struct peal_comm *comm)
{
    return ((size_t)comm->packet_sources + 1) * RT_BLOCK;
}

static peal_status make_buffers(struct peal_comm *comm)
{
    comm->src = peal_calloc(comm->ctx, PLAN_OPERANDS_MAX + 1, sizeof *comm->src);
    comm->dst = peal_calloc(comm->ctx, PLAN_OPERANDS_MAX + 1, sizeof *comm->dst);
    comm->blocks = peal_alloc(comm->ctx, blocks_bytes(comm));
    return comm->src && comm->dst && comm->blocks ? PEAL_OK : PEAL_ERR_MEMORY;
}

static peal_status make_rows(struct peal_comm *comm, const peal_table *table)
{
    comm->rows = peal_calloc(comm->ctx, table->nrows, sizeof *comm->rows);
    if (!comm->rows)
        return PEAL_ERR_MEMORY;
    comm->nrows = table->nrows;
    for (uint32_t i = 0; i < table->nrows; i++) {
        const struct peal_plan *plan = table->rows[i].plan;
        struct decode d = {.comm = comm,
                           .plan = plan,
                           .rank = peal_plan_program(plan, comm->rank),
                           .row = &comm->rows[i]};
        PEAL_TRY(make_row(&d));
    }
    return PEAL_OK;
}

peal_status rt_image_make(struct peal_comm *comm, const peal_table *table, peal_diag *diag)
{
    peal_status status = make_sems(comm);
    if (status == PEAL_OK)
        status = rt_counts_make(comm);
    if (status == PEAL_OK)
        status = make_rows(comm, table);
    if (status == PEAL_OK)
        status = make_buffers(comm);
    return status == PEAL_OK ? PEAL_OK : peal_fail(diag, status, "decoding the table's programs");
}

/* Semaphores stay: the world's layout, not the table, says where they are. */
peal_status rt_rows_make(struct peal_comm *next, const peal_table *table, peal_diag *diag)
{
    next->rows = NULL;
    next->last = NULL;
    next->nrows = next->engines = next->stand_ins = next->packet_sources = 0;
    next->src = NULL;
    next->dst = NULL;
    next->blocks = next->bounce = NULL;
    peal_status status = make_rows(next, table);
    if (status == PEAL_OK)
        status = make_buffers(next);
    return status == PEAL_OK ? PEAL_OK : peal_fail(diag, status, "decoding the table's programs");
}

static void free_row(peal_ctx *ctx, struct rt_row *row)
{
    rt_back_free(ctx, row);
    peal_free(ctx, row->bounds, (2 * (size_t)row->nchunks + 1) * sizeof *row->bounds);
    peal_free(ctx, row->reached, row->nchunks * sizeof *row->reached);
    if (row->listed)
        peal_free(ctx, row->listed,
                  ((size_t)row->in.blocks + row->out.blocks + 1) * sizeof *row->listed);
    peal_free(ctx, row->prefix, ((size_t)row->nchunks + 1) * sizeof *row->prefix);
    peal_free(ctx, row->lanes, row->nlanes * sizeof *row->lanes);
    peal_free(ctx, row->steps, row->nsteps * sizeof *row->steps);
    peal_free(ctx, row->operands, row->noperands * sizeof *row->operands);
    if (row->rings)
        peal_free(ctx, row->rings, row->noperands * sizeof *row->rings);
    peal_free(ctx, row->events, (size_t)row->nlanes * PLAN_EVENTS_MAX * sizeof *row->events);
    peal_free(ctx, row->pieces, row->npieces * sizeof *row->pieces);
}

static void free_rows(struct peal_comm *comm)
{
    peal_ctx *ctx = comm->ctx;
    for (uint32_t i = 0; i < comm->nrows; i++)
        free_row(ctx, &comm->rows[i]);
    peal_free(ctx, comm->rows, comm->nrows * sizeof *comm->rows);
    peal_free(ctx, comm->src, (PLAN_OPERANDS_MAX + 1) * sizeof *comm->src);
    peal_free(ctx, comm->dst, (PLAN_OPERANDS_MAX + 1) * sizeof *comm->dst);
    peal_free(ctx, comm->blocks, blocks_bytes(comm));
}

void rt_rows_drop(struct peal_comm *next, const struct peal_comm *comm)
{
    if (next->rows == comm->rows)
        return;
    free_rows(next);
    rt_attach_free(next);
}

void rt_rows_take(struct peal_comm *comm, const struct peal_comm *next)
{
    free_rows(comm);
    rt_attach_free(comm);
    comm->rows = next->rows;
    comm->nrows = next->nrows;
    comm->last = NULL;
    comm->engines = next->engines;
    comm->stand_ins = next->stand_ins;
    comm->packet_sources = next->packet_sources;
    comm->attach_sources = next->attach_sources;
    comm->src = next->src;
    comm->dst = next->dst;
    comm->blocks = next->blocks;
    comm->bounce = next->bounce;
}

void rt_image_free(struct peal_comm *comm)
{
    peal_ctx *ctx = comm->ctx;
    size_t cells = (size_t)comm->nranks * comm->layout.nsems;
    rt_counts_free(comm);
    peal_free(ctx, comm->sem_out, cells * sizeof *comm->sem_out);
    peal_free(ctx, comm->sem_in, cells * sizeof *comm->sem_in);
    free_rows(comm);
}
