/* SPDX-License-Identifier: Apache-2.0 */
/* The engine sm: the lane's own loads and stores. */
#include "comm.h"
#include "kern_wire.h"

#include <string.h>

/* Unsigned, as shifts are modulo 2^64, and as nothing may be moved from or to NULL. */
static inline char *shifted(char *base, uint64_t offset)
{
    return (char *)((uintptr_t)base + (uintptr_t)offset);
}

static inline char *slot_at(const struct peal_comm *comm, const struct rt_operand *operand,
                            uint32_t trip)
{
    return operand->at + comm->copy * operand->copy_bytes +
           (trip ? trip % operand->depth * operand->trip_bytes : 0);
}

/* offset: of the tile in the message. */
static inline char *operand_at(const struct peal_comm *comm, const struct rt_operand *operand,
                               uint32_t trip, uint64_t offset)
{
    offset += operand->shift;
    switch (operand->place) {
    case RT_OWN_IN:
        return shifted(comm->in, offset);
    case RT_OWN_OUT:
        return shifted(comm->out, offset);
    case RT_SHARED_OUT:
        return shifted(comm->shared_out, offset);
    case RT_SLOT:
        return slot_at(comm, operand, trip);
    default:
        /* In the peer's process or ours: unsigned arithmetic comes back to where it is. */
        return (char *)((uintptr_t)comm->base +
                        (uintptr_t)atomic_load_explicit(operand->board, memory_order_relaxed) +
                        (uintptr_t)offset);
    }
}

/* Of `count` elements from `first` on, those that lie before `length`. */
static inline uint64_t count_within(uint64_t first, uint64_t count, uint64_t length)
{
    uint64_t left = length > first ? length - first : 0;
    return count < left ? count : left;
}

/* Elements of the tile of a step's nth chunk; *offset: its bytes' in the message. */
static inline size_t tile_of(const struct rt_row *row, const struct rt_lane *lane,
                             const struct rt_step *step, uint32_t nth, uint64_t *offset)
{
    uint32_t chunk = step->chunk + nth * step->stride;
    uint64_t first = row->bounds[chunk];
    uint64_t count = row->ends[chunk] - first;
    if (row->tile) {
        uint64_t skip = lane->trip * row->tile;
        first += skip;
        count = count > skip ? count - skip : 0;
        if (count > row->tile)
            count = row->tile;
    }
    if (step->limit)
        count = count_within(first - step->begin * row->count, count, *step->limit);
    *offset = first * row->elem_bytes;
    return (size_t)count;
}

static inline const struct rt_operand *operands_of(const struct rt_row *row,
                                                   const struct rt_step *step, uint32_t nth)
{
    return row->operands + step->operands + (size_t)nth * ((size_t)step->nsrc + step->ndst);
}

/* Addresses of the nth chunk's operands into comm->src and dst; gives its elements. */
static size_t find_operands(struct peal_comm *comm, const struct rt_row *row,
                            const struct rt_lane *lane, const struct rt_step *step, uint32_t nth)
{
    uint64_t offset;
    size_t count = tile_of(row, lane, step, nth, &offset);
    const struct rt_operand *operand = operands_of(row, step, nth);
    for (unsigned i = 0; i < step->nsrc; i++)
        comm->src[i] = operand_at(comm, operand++, lane->trip, offset);
    for (unsigned i = 0; i < step->ndst; i++)
        comm->dst[i] = operand_at(comm, operand++, lane->trip, offset);
    return count;
}

/* Whether each operand of the nth chunk lies `bytes` behind what comm->src and dst hold. */
static int follows(const struct peal_comm *comm, const struct rt_row *row,
                   const struct rt_lane *lane, const struct rt_step *step, uint32_t nth,
                   size_t bytes)
{
    uint64_t offset;
    (void)tile_of(row, lane, step, nth, &offset);
    const struct rt_operand *operand = operands_of(row, step, nth);
    for (unsigned i = 0; i < step->nsrc; i++)
        if (operand_at(comm, operand++, lane->trip, offset) != comm->src[i] + bytes)
            return 0;
    for (unsigned i = 0; i < step->ndst; i++)
        if (operand_at(comm, operand++, lane->trip, offset) != comm->dst[i] + bytes)
            return 0;
    return 1;
}

size_t rt_next_run(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                   const struct rt_step *step, uint32_t *nth)
{
    size_t count = 0;
    while (count == 0 && *nth <= step->more)
        count = find_operands(comm, row, lane, step, (*nth)++);
    for (; *nth <= step->more; ++*nth) {
        uint64_t offset;
        size_t next = tile_of(row, lane, step, *nth, &offset);
        if (next && !follows(comm, row, lane, step, *nth, count * row->elem_bytes))
            break;
        count += next;
    }
    return count;
}

/* The one chunk of a step that copies it. */
static inline void copy_one(struct peal_comm *comm, const struct rt_row *row,
                            const struct rt_lane *lane, const struct rt_step *step)
{
    uint64_t offset;
    const struct rt_operand *operand = row->operands + step->operands;
    size_t bytes = tile_of(row, lane, step, 0, &offset) * row->elem_bytes;
    const char *from = operand_at(comm, operand, lane->trip, offset);
    for (unsigned i = 1; bytes && i <= step->ndst; i++) {
        char *to = operand_at(comm, &operand[i], lane->trip, offset);
        if (to == from)
            continue;
        if (bytes == 8)
            memcpy(to, from, 8); /* a load and a store */
        else
            memcpy(to, from, bytes);
    }
}

/* ---- moves and folds of plain memory */

static void move_plain(struct peal_comm *comm, const struct rt_step *step, size_t bytes, int stream)
{
    for (unsigned i = 0; i < step->ndst; i++)
        if (comm->dst[i] != comm->src[0])
            rt_copy(comm, comm->dst[i], comm->src[0], bytes, stream);
}

static void fold_plain(struct peal_comm *comm, const struct rt_row *row, const struct rt_step *step,
                       size_t count, int stream)
{
    uint32_t divisor = step->final ? row->divisor : 0;
    kern_fold_fn fold = (stream ? row->fold_stream : row->fold)[divisor ? 0 : step->shape];
    fold(comm->dst, step->ndst, comm->src, step->nsrc, count, divisor);
}

static void move_run(struct peal_comm *comm, const struct rt_row *row, const struct rt_step *step,
                     size_t count)
{
    size_t bytes = rt_move_bytes(row, step, count);
    int away = comm->away && !comm->gauges && step->to_peers;
    int slots = row->parts > 1 && (step->to_peers || comm->shared_out != comm->out);
    int stream = ((row->stream && step->to_out && !slots) || away) && bytes >= 4 * RT_BLOCK;
    if (!step->folds)
        move_plain(comm, step, bytes, stream);
    else
        fold_plain(comm, row, step, count, stream);
}

void rt_sm_move(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                const struct rt_step *step)
{
    uint32_t nth = 0;
    size_t count;
    if (step->simple && !row->stream && !row->backs && !(comm->away && step->to_peers)) {
        copy_one(comm, row, lane, step);
        return;
    }
    while ((count = rt_next_run(comm, row, lane, step, &nth)) != 0)
        move_run(comm, row, step, count);
}

/* ---- packets, block by block. A block is taken once all of its packets are there, so that a
 * step which has to wait leaves nothing half done: lane->moved says how far it came. */

static inline kern_word *words_of(char *slot)
{
    return (kern_word *)(void *)slot;
}

/* Payload at `at`: its words lie behind the header word. */
static inline kern_word *words_at(char *slot, size_t at)
{
    return words_of(slot) + 1 + at / 4;
}

/* 1: the header is there and this call's; 0: not there; -1: another call's. */
static inline int check_header(const struct peal_comm *comm, const kern_word *head)
{
    uint64_t header = atomic_load_explicit(head, memory_order_acquire);
    if (header == comm->header)
        return 1;
    return header >> 32 == comm->stamp ? -1 : 0;
}

/* As check_header, of all packets that the step reads: what most looks in vain are for. */
static int check_headers(const struct peal_comm *comm, const struct rt_row *row,
                         const struct rt_lane *lane, const struct rt_step *step)
{
    const struct rt_operand *operand = row->operands + step->operands;
    int there = 1;
    for (unsigned i = 0; i < step->nsrc && there == 1; i++)
        if (operand[i].packet)
            there = check_header(comm, words_of(slot_at(comm, &operand[i], lane->trip)));
    return there;
}

/* Points `from` at each source of the block at `at`, packets unpacked. 0: some is not there. */
static int gather_block(struct peal_comm *comm, const struct rt_row *row,
                        const struct rt_step *step, size_t at, size_t bytes, const char **from)
{
    const struct rt_operand *operand = row->operands + step->operands;
    char *block = comm->blocks + RT_BLOCK;
    for (unsigned i = 0; i < step->nsrc; i++) {
        char *slot = (char *)(uintptr_t)comm->src[i];
        if (!operand[i].packet) {
            from[i] = shifted(slot, at);
            continue;
        }
        if (!comm->kern->unpack(block, words_at(slot, at), bytes, comm->stamp))
            return 0;
        from[i] = block;
        block += RT_BLOCK;
    }
    return 1;
}

static void scatter_block(struct peal_comm *comm, const struct rt_row *row,
                          const struct rt_step *step, size_t at, size_t bytes, const char *result)
{
    const struct rt_operand *operand = row->operands + step->operands + step->nsrc;
    for (unsigned i = 0; i < step->ndst; i++) {
        char *to = comm->dst[i];
        if (!operand[i].packet) {
            char *here = shifted(to, at);
            if (bytes && here != result)
                memcpy(here, result, bytes);
            continue;
        }
        if (at == 0)
            atomic_store_explicit((kern_word *)(void *)to, comm->header, memory_order_release);
        comm->kern->pack(words_at(to, at), result, bytes, comm->stamp);
    }
}

/* The result of a block: where the only plain destination is, or beside it. */
static void packet_block(struct peal_comm *comm, const struct rt_row *row,
                         const struct rt_step *step, size_t at, size_t bytes, const char **from)
{
    const struct rt_operand *first_dst = row->operands + step->operands + step->nsrc;
    const char *result = from[0];
    if (step->folds) {
        char *to = first_dst->packet ? comm->blocks : shifted(comm->dst[0], at);
        uint32_t divisor = step->final ? row->divisor : 0;
        row->fold[divisor ? 0 : step->shape_one](&to, 1, from, step->nsrc, bytes / row->elem_bytes,
                                                 divisor);
        result = to;
    }
    scatter_block(comm, row, step, at, bytes, result);
}

int rt_sm_packet(struct peal_comm *comm, const struct rt_row *row, struct rt_lane *lane,
                 const struct rt_step *step)
{
    size_t at = (size_t)lane->moved;
    int there = at ? 1 : check_headers(comm, row, lane, step);
    if (there != 1)
        return there;
    size_t bytes = find_operands(comm, row, lane, step, 0) * row->elem_bytes;
    do {
        const char *from[PLAN_OPERANDS_MAX + 1];
        size_t n = bytes - at < RT_BLOCK ? bytes - at : RT_BLOCK;
        if (!gather_block(comm, row, step, at, n, from)) {
            lane->moved = at;
            return 0;
        }
        packet_block(comm, row, step, at, n, from);
        at += n;
    } while (at < bytes);
    lane->moved = 0;
    return 1;
}

/* ---- packets of plans that run ahead. They are what they hold, as it is, and a head that is
 * stored behind it: nobody looks for one before it is all there, so a line needs no stamps, and
 * heads of calls that follow each other lie side by side, as do small messages. Where one of them
 * is looked for while the next is stored, the line goes to and fro; it carries what has been stored
 * by then. */

int rt_sm_ahead(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                const struct rt_step *step)
{
    const struct rt_operand *operand = row->operands + step->operands;
    int there = 1;
    for (unsigned i = 0; i < step->nsrc && there == 1; i++)
        if (operand[i].packet)
            there = check_header(comm, rt_ahead_head(comm, &operand[i], lane->trip));
    if (there != 1)
        return there;
    rt_sm_move(comm, row, lane, step);
    for (unsigned i = step->nsrc; i < (unsigned)step->nsrc + step->ndst; i++)
        if (operand[i].packet)
            atomic_store_explicit(rt_ahead_head(comm, &operand[i], lane->trip), comm->header,
                                  memory_order_release);
    return 1;
}

/* ---- wire slots, block by block */

#define WIRE_ELEMENTS (RT_BLOCK / sizeof(float))
_Static_assert(WIRE_ELEMENTS % PLAN_WIRE_BLOCK == 0, "blocks are not cut");

/* Points `from` at each source of the block that begins with element `at`, wire slots unpacked. */
static void gather_wire(const struct peal_comm *comm, const struct rt_row *row,
                        const struct rt_step *step, size_t at, size_t count, const char **from)
{
    const struct rt_operand *operand = row->operands + step->operands;
    char *block = comm->blocks + RT_BLOCK;
    for (unsigned i = 0; i < step->nsrc; i++) {
        uint8_t wire = operand[i].wire;
        if (!wire) {
            from[i] = comm->src[i] + at * sizeof(float);
            continue;
        }
        kern_wire_unpack(wire, (float *)(void *)block,
                         comm->src[i] + peal_plan_wire_bytes(wire, at), count);
        from[i] = block;
        block += RT_BLOCK;
    }
}

static void scatter_wire(const struct peal_comm *comm, const struct rt_row *row,
                         const struct rt_step *step, size_t at, size_t count, const char *result)
{
    const struct rt_operand *operand = row->operands + step->operands + step->nsrc;
    for (unsigned i = 0; i < step->ndst; i++) {
        uint8_t wire = operand[i].wire;
        char *to = comm->dst[i] + (wire ? peal_plan_wire_bytes(wire, at) : at * sizeof(float));
        if (wire)
            kern_wire_pack(wire, to, (const float *)(const void *)result, count);
        else if (to != result)
            memcpy(to, result, count * sizeof(float));
    }
}

/* Destinations of a fold are plain. */
void rt_sm_wire(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                const struct rt_step *step)
{
    size_t elements = find_operands(comm, row, lane, step, 0);
    uint32_t divisor = step->final ? row->divisor : 0;
    for (size_t at = 0; at < elements; at += WIRE_ELEMENTS) {
        const char *from[PLAN_OPERANDS_MAX + 1];
        size_t n = elements - at < WIRE_ELEMENTS ? elements - at : WIRE_ELEMENTS;
        gather_wire(comm, row, step, at, n, from);
        if (step->folds) {
            char *to = comm->dst[0] + at * sizeof(float);
            row->fold[divisor ? 0 : step->shape_one](&to, 1, from, step->nsrc, n, divisor);
            from[0] = to;
        }
        scatter_wire(comm, row, step, at, n, from[0]);
    }
}
