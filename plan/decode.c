/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan from bytes that a stranger may have written. Every read is bounded, every count is
 * compared with the bytes that are left before memory is taken for it, and only the one
 * encoding of a plan is accepted.
 */
#include "wire.h"

#include <string.h>

struct reader {
    peal_ctx *ctx;
    const unsigned char *data;
    size_t at;
    size_t end;
    const char *name;
    peal_diag *diag;
};

uint64_t peal_plan_load64(const void *at)
{
    unsigned char bytes[8];
    memcpy(bytes, at, sizeof bytes);
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static peal_status broken(const struct reader *in, const char *what)
{
    return peal_fail_at(in->diag, PEAL_ERR_INPUT, in->name, 0, 0, "byte %zu of the plan: %s",
                        in->at, what);
}

static peal_status no_memory(const struct reader *in)
{
    return peal_fail_at(in->diag, PEAL_ERR_MEMORY, in->name, 0, 0, "out of memory");
}

static peal_status get_byte(struct reader *in, uint8_t *value)
{
    if (in->at == in->end)
        return broken(in, "the data ends within a plan");
    *value = in->data[in->at++];
    return PEAL_OK;
}

static peal_status get_u64(struct reader *in, uint64_t *value)
{
    if (in->end - in->at < 8)
        return broken(in, "the data ends within a plan");
    *value = peal_plan_load64(in->data + in->at);
    in->at += 8;
    return PEAL_OK;
}

/* Seven bits a byte, low ones first; the last byte is not zero unless it is the only one. */
static peal_status get_varint(struct reader *in, uint64_t *value)
{
    uint64_t sum = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = 0;
        PEAL_TRY(get_byte(in, &byte));
        uint64_t bits = byte & 0x7fu;
        if (shift == 63 && bits > 1)
            return broken(in, "a number is larger than 64 bits");
        sum |= bits << shift;
        if (byte & 0x80u)
            continue;
        if (byte == 0 && shift > 0)
            return broken(in, "a number is written longer than needed");
        *value = sum;
        return PEAL_OK;
    }
    return broken(in, "a number is larger than 64 bits");
}

static peal_status get_u32(struct reader *in, uint32_t *value)
{
    uint64_t wide = 0;
    PEAL_TRY(get_varint(in, &wide));
    if (wide > UINT32_MAX)
        return broken(in, "a number is larger than 32 bits");
    *value = (uint32_t)wide;
    return PEAL_OK;
}

static peal_status get_u16(struct reader *in, uint16_t *value)
{
    uint64_t wide = 0;
    PEAL_TRY(get_varint(in, &wide));
    if (wide > UINT16_MAX)
        return broken(in, "a number is larger than 16 bits");
    *value = (uint16_t)wide;
    return PEAL_OK;
}

static peal_status get_text(struct reader *in, char *text, size_t bytes)
{
    uint64_t length = 0;
    PEAL_TRY(get_varint(in, &length));
    if (length >= bytes || length > in->end - in->at)
        return broken(in, "a text is too long");
    if (memchr(in->data + in->at, '\0', (size_t)length))
        return broken(in, "a text holds a zero byte");
    memcpy(text, in->data + in->at, (size_t)length);
    text[length] = '\0';
    in->at += (size_t)length;
    return PEAL_OK;
}

/* A count of things that take at least `each` bytes. */
static peal_status get_count(struct reader *in, uint32_t limit, size_t each, uint32_t *count)
{
    PEAL_TRY(get_u32(in, count));
    if (*count > limit)
        return broken(in, "a count is beyond its limit");
    if (*count > (in->end - in->at) / each)
        return broken(in, "a count is beyond the data");
    return PEAL_OK;
}

/* ---- what all ranks share */

static peal_status get_chunks(struct reader *in, struct peal_plan *plan)
{
    uint8_t marks = 0;
    /* Equal chunks take no bytes, hence the limit of the format alone. */
    uint32_t count = 0;
    PEAL_TRY(get_u32(in, &count));
    if (count == 0 || count > PLAN_CHUNKS_MAX)
        return broken(in, "a count of chunks is beyond its limits");
    PEAL_TRY(get_byte(in, &marks));
    if (marks & ~(WIRE_WEIGHTS | WIRE_AHEAD))
        return broken(in, "weights are there or not, and a plan runs ahead or not");
    plan->nchunks = count;
    plan->ahead = (marks & WIRE_AHEAD) != 0;
    if (!(marks & WIRE_WEIGHTS))
        return PEAL_OK;
    if (count > in->end - in->at)
        return broken(in, "a count is beyond the data");
    plan->weights = peal_calloc(in->ctx, count, sizeof *plan->weights);
    if (!plan->weights)
        return no_memory(in);
    for (uint32_t i = 0; i < count; i++)
        PEAL_TRY(get_u32(in, &plan->weights[i]));
    return PEAL_OK;
}

static peal_status get_region(struct reader *in, struct plan_region *region)
{
    uint8_t kind = 0;
    PEAL_TRY(get_byte(in, &kind));
    region->buffer = kind & WIRE_BUFFER_MASK;
    region->wire = kind >> WIRE_REGION_SHIFT;
    PEAL_TRY(get_u16(in, &region->width));
    PEAL_TRY(get_u16(in, &region->depth));
    return get_varint(in, &region->slot_bytes);
}

static peal_status get_regions(struct reader *in, struct peal_plan *plan)
{
    uint32_t count = 0;
    PEAL_TRY(get_count(in, PLAN_REGIONS_MAX, 4, &count));
    plan->regions = peal_calloc(in->ctx, count, sizeof *plan->regions);
    if (!plan->regions)
        return no_memory(in);
    plan->nregions = plan->regions_capacity = count;
    for (uint32_t i = 0; i < count; i++)
        PEAL_TRY(get_region(in, &plan->regions[i]));
    return PEAL_OK;
}

static peal_status get_link(struct reader *in, struct plan_link *link)
{
    PEAL_TRY(get_u32(in, &link->from));
    PEAL_TRY(get_u32(in, &link->to));
    PEAL_TRY(get_byte(in, &link->link_class));
    PEAL_TRY(get_byte(in, &link->direct));
    link->multicast = link->direct >> 1;
    link->direct &= 1;
    return get_text(in, link->via, sizeof link->via);
}

static peal_status get_links(struct reader *in, struct peal_plan *plan)
{
    uint32_t count = 0;
    PEAL_TRY(get_count(in, UINT32_MAX - 1, 5, &count));
    plan->links = peal_calloc(in->ctx, count, sizeof *plan->links);
    if (!plan->links)
        return no_memory(in);
    plan->nlinks = plan->links_capacity = count;
    for (uint32_t i = 0; i < count; i++)
        PEAL_TRY(get_link(in, &plan->links[i]));
    return PEAL_OK;
}

static peal_status get_pairs(struct reader *in, struct peal_plan *plan)
{
    uint32_t count = 0;
    if (plan->collective != PEAL_SENDRECV)
        return PEAL_OK;
    PEAL_TRY(get_count(in, PLAN_PAIRS_MAX, 2, &count));
    if (count == 0)
        return PEAL_OK;
    plan->pairs = peal_calloc(in->ctx, count, 2 * sizeof *plan->pairs);
    if (!plan->pairs)
        return no_memory(in);
    plan->npairs = plan->pairs_capacity = count;
    for (size_t i = 0; i < 2 * (size_t)count; i++)
        PEAL_TRY(get_u32(in, &plan->pairs[i]));
    return PEAL_OK;
}

/* A list of ranks, behind those that came before; the caller has told which block's. */
static peal_status get_list(struct reader *in, struct peal_plan *plan, uint32_t *end)
{
    uint32_t count = 0;
    PEAL_TRY(get_count(in, PLAN_NAMES_MAX, 1, &count));
    if (peal_grow(in->ctx, (void **)(void *)&plan->names, &plan->names_capacity,
                  (size_t)plan->nnames + count, sizeof *plan->names, PLAN_NAMES_MAX) != PEAL_OK)
        return no_memory(in);
    for (uint32_t i = 0; i < count; i++)
        PEAL_TRY(get_u32(in, &plan->names[plan->nnames + i]));
    plan->nnames += count;
    *end = plan->nnames;
    return PEAL_OK;
}

static peal_status get_blocks(struct reader *in, struct peal_plan *plan)
{
    uint32_t count = 0;
    if (plan->collective != PEAL_CUSTOM)
        return PEAL_OK;
    PEAL_TRY(get_count(in, PLAN_PAIRS_MAX, 2, &count));
    plan->lists = peal_calloc(in->ctx, 2 * (size_t)count + 1, sizeof *plan->lists);
    if (!plan->lists)
        return no_memory(in);
    plan->lists_capacity = 2 * count + 1;
    plan->nblocks = count;
    for (uint32_t i = 0; i < 2 * count; i++)
        PEAL_TRY(get_list(in, plan, &plan->lists[i + 1]));
    return PEAL_OK;
}

static peal_status get_shared(struct reader *in, struct peal_plan *plan)
{
    PEAL_TRY(get_u32(in, &plan->root));
    PEAL_TRY(get_u32(in, &plan->peer));
    PEAL_TRY(get_pairs(in, plan));
    PEAL_TRY(get_blocks(in, plan));
    PEAL_TRY(get_varint(in, &plan->min_bytes));
    PEAL_TRY(get_varint(in, &plan->max_bytes));
    PEAL_TRY(get_text(in, plan->algorithm, sizeof plan->algorithm));
    PEAL_TRY(get_text(in, plan->detail, sizeof plan->detail));
    PEAL_TRY(get_u32(in, &plan->channels));
    PEAL_TRY(get_varint(in, &plan->tile_bytes));
    PEAL_TRY(get_chunks(in, plan));
    PEAL_TRY(get_u16(in, &plan->nsems));
    PEAL_TRY(get_regions(in, plan));
    return get_links(in, plan);
}

/* ---- programs */

/* The rank at the other end of an operand's link follows from the link. */
static peal_status get_remote(struct reader *in, const struct peal_plan *plan,
                              struct plan_operand *operand, int is_source)
{
    uint32_t link = 0;
    PEAL_TRY(get_u32(in, &link));
    if (link >= plan->nlinks)
        return broken(in, "a link is beyond the plan's links");
    operand->link = link + 1;
    operand->rank = is_source ? plan->links[link].from : plan->links[link].to;
    return PEAL_OK;
}

static peal_status get_operand(struct reader *in, const struct peal_plan *plan, uint32_t rank,
                               uint32_t chunk, int is_source, struct plan_operand *operand)
{
    uint8_t first = 0;
    PEAL_TRY(get_byte(in, &first));
    *operand = (struct plan_operand){.rank = rank, .buffer = first & WIRE_BUFFER_MASK};
    int is_slot = operand->buffer >= PLAN_BUF_SCRATCH;
    if (first & ~(WIRE_BUFFER_MASK | WIRE_REMOTE | WIRE_OWN) || (is_slot && (first & WIRE_OWN)))
        return broken(in, "an operand has unknown bits");
    operand->index = chunk;
    if (!(first & WIRE_OWN)) {
        PEAL_TRY(get_u32(in, &operand->index));
        if (!is_slot && operand->index == chunk)
            return broken(in, "an operand's chunk is written though it is the step's own");
    }
    if (is_slot)
        PEAL_TRY(get_u16(in, &operand->slot));
    return first & WIRE_REMOTE ? get_remote(in, plan, operand, is_source) : PEAL_OK;
}

static peal_status get_operands(struct reader *in, const struct peal_plan *plan, uint32_t rank,
                                struct plan_step *step)
{
    struct plan_rank *self = peal_plan_program(plan, rank);
    uint32_t count = (uint32_t)step->nsrc + step->ndst;
    /* Doubling keeps what is taken in proportion to what was read. */
    peal_status status =
        count > in->end - in->at
            ? broken(in, "a count is beyond the data")
            : peal_grow(in->ctx, (void **)(void *)&self->operands, &self->operands_capacity,
                        (size_t)self->noperands + count, sizeof *self->operands, UINT32_MAX);
    if (status == PEAL_ERR_INPUT)
        return status;
    if (status != PEAL_OK)
        return peal_fail_at(in->diag, status, in->name, 0, 0, "%s", peal_status_text(status));
    step->operands = self->noperands;
    for (uint32_t i = 0; i < count; i++) {
        PEAL_TRY(get_operand(in, plan, rank, step->chunk, i < step->nsrc,
                             &self->operands[self->noperands]));
        self->noperands++;
    }
    return PEAL_OK;
}

static peal_status get_data(struct reader *in, const struct peal_plan *plan, uint32_t rank,
                            struct plan_step *step, uint32_t mark)
{
    if (mark && !peal_plan_op_folds(step->op))
        return broken(in, "a step has unknown bits");
    step->flags = mark ? PLAN_FLAG_FINAL : 0;
    if (peal_plan_engine_async(step->engine))
        PEAL_TRY(get_byte(in, &step->event));
    PEAL_TRY(get_u32(in, &step->chunk));
    step->nsrc = 1;
    step->ndst = 1;
    if (step->op == PLAN_REDUCE || step->op == PLAN_LOAD_REDUCE)
        PEAL_TRY(get_byte(in, &step->nsrc));
    if (step->op != PLAN_PUT_REDUCE && step->op != PLAN_GET_REDUCE)
        PEAL_TRY(get_byte(in, &step->ndst));
    return get_operands(in, plan, rank, step);
}

static peal_status get_after(struct reader *in, struct plan_step *step)
{
    PEAL_TRY(get_byte(in, &step->after));
    return step->after == PLAN_NO_EVENT ? broken(in, "a signal after no event is marked") : PEAL_OK;
}

static peal_status get_control(struct reader *in, struct plan_step *step, uint32_t mark)
{
    if (step->op == PLAN_AWAIT) {
        step->what = mark != 0;
        return get_byte(in, &step->event);
    }
    PEAL_TRY(get_u32(in, &step->peer));
    PEAL_TRY(get_u16(in, &step->sem));
    if (step->op == PLAN_SIGNAL)
        return mark ? get_after(in, step) : PEAL_OK;
    if (mark)
        return broken(in, "a step has unknown bits");
    return step->op == PLAN_WAIT ? get_u16(in, &step->lag) : PEAL_OK;
}

/* What stands before a data step of several chunks; *first is the step's own first byte then. */
static peal_status get_span(struct reader *in, struct plan_step *step, uint8_t *first)
{
    uint32_t span = 0, jump = 1;
    if ((*first & ~WIRE_MARK) != WIRE_SPAN)
        return PEAL_OK;
    PEAL_TRY(get_u32(in, &span));
    PEAL_TRY(get_u32(in, &step->stride));
    if (*first & WIRE_MARK) {
        PEAL_TRY(get_u32(in, &jump));
        if (jump < 2 || jump > UINT16_MAX)
            return broken(in, "slots of a span lie from 2 to 65535 apart");
    }
    step->skip = (uint16_t)(jump - 1);
    if (span < 2)
        return broken(in, "a span is written though it is one chunk");
    step->more = span - 1;
    return get_byte(in, first);
}

static peal_status get_step(struct reader *in, const struct peal_plan *plan, uint32_t rank,
                            struct plan_step *step)
{
    uint8_t first = 0;
    PEAL_TRY(get_byte(in, &first));
    *step = (struct plan_step){.event = PLAN_NO_EVENT, .after = PLAN_NO_EVENT};
    PEAL_TRY(get_span(in, step, &first));
    step->op = first & WIRE_OP_MASK;
    step->engine = first >> WIRE_ENGINE_SHIFT & WIRE_ENGINE_MASK;
    if (step->op >= PLAN_OPCODE_COUNT)
        return broken(in, "an unknown opcode");
    if (peal_plan_op_moves(step->op))
        return get_data(in, plan, rank, step, first & WIRE_MARK);
    return get_control(in, step, first & WIRE_MARK);
}

/* Each step takes at least two bytes; the sum of all is compared before memory is taken. */
static peal_status get_lanes(struct reader *in, struct plan_rank *self)
{
    uint8_t count = 0;
    PEAL_TRY(get_byte(in, &count));
    if (count > PLAN_LANES_MAX)
        return broken(in, "a count is beyond its limit");
    self->lanes = peal_calloc(in->ctx, count, sizeof *self->lanes);
    if (!self->lanes)
        return no_memory(in);
    self->nlanes = self->lanes_capacity = count;
    uint64_t steps = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct plan_lane *lane = &self->lanes[i];
        PEAL_TRY(get_u32(in, &lane->pre));
        PEAL_TRY(get_u32(in, &lane->body));
        PEAL_TRY(get_u32(in, &lane->post));
        lane->first = (uint32_t)steps;
        steps += (uint64_t)lane->pre + lane->body + lane->post;
        if (steps > (in->end - in->at) / 2 || steps > UINT32_MAX)
            return broken(in, "a count is beyond the data");
    }
    self->nsteps = (uint32_t)steps;
    return PEAL_OK;
}

static peal_status get_rank(struct reader *in, const struct peal_plan *plan, uint32_t rank)
{
    struct plan_rank *self = peal_plan_program(plan, rank);
    PEAL_TRY(get_u32(in, &self->host));
    PEAL_TRY(get_u32(in, &self->arch));
    PEAL_TRY(get_text(in, self->busid, sizeof self->busid));
    PEAL_TRY(get_text(in, self->nic, sizeof self->nic));
    PEAL_TRY(get_lanes(in, self));
    self->steps = peal_calloc(in->ctx, self->nsteps, sizeof *self->steps);
    if (!self->steps)
        return no_memory(in);
    self->steps_capacity = self->nsteps;
    for (uint32_t i = 0; i < self->nsteps; i++)
        PEAL_TRY(get_step(in, plan, rank, &self->steps[i]));
    return in->at == in->end ? PEAL_OK : broken(in, "bytes behind a rank's last step");
}

/* One entry of the index, and the program that it names: programs follow one another without
 * gaps, each with the hash that the id covers. */
static peal_status get_indexed_rank(struct reader *index, struct reader *programs,
                                    const struct peal_plan *plan, uint32_t rank, size_t start)
{
    uint64_t offset = 0;
    uint64_t length = 0;
    uint64_t hash = 0;
    PEAL_TRY(get_u64(index, &offset));
    PEAL_TRY(get_u64(index, &length));
    PEAL_TRY(get_u64(index, &hash));
    if (offset != programs->at - start)
        return broken(index, "a rank's offset is not the end of the rank before it");
    if (length > programs->end - programs->at)
        return broken(index, "a rank's length is beyond the data");
    if (hash != peal_hash64(programs->data + programs->at, (size_t)length))
        return broken(index, "a rank's program has another hash than its index entry");
    struct reader one = *programs;
    one.end = one.at + (size_t)length;
    PEAL_TRY(get_rank(&one, plan, rank));
    programs->at = one.end;
    return PEAL_OK;
}

static peal_status get_ranks(struct reader *in, struct peal_plan *plan)
{
    if (plan->nranks > (in->end - in->at) / WIRE_RANK_BYTES)
        return broken(in, "a count is beyond the data");
    struct reader programs = *in;
    programs.at += (size_t)plan->nranks * WIRE_RANK_BYTES;
    size_t start = programs.at;
    for (uint32_t r = 0; r < plan->nranks; r++)
        PEAL_TRY(get_indexed_rank(in, &programs, plan, r, start));
    return programs.at == programs.end ? PEAL_OK : broken(&programs, "bytes behind the last rank");
}

/* A whole plan's programs; its id covers what lies in [first, where they start). */
static peal_status get_whole(struct reader *in, struct peal_plan *plan, size_t first)
{
    PEAL_TRY(get_ranks(in, plan));
    PEAL_TRY(peal_plan_check_form(plan, in->name, NULL, in->diag));
    plan->id = peal_hash128(in->data + first, in->at - first); /* get_ranks left it there */
    return PEAL_OK;
}

static peal_status get_plan(struct reader *in, struct peal_plan *plan, size_t first)
{
    PEAL_TRY(get_shared(in, plan));
    if (!plan->sliced)
        return get_whole(in, plan, first);
    PEAL_TRY(get_rank(in, plan, plan->slice_rank));
    PEAL_TRY(peal_plan_check_form(plan, in->name, NULL, in->diag));
    return peal_plan_identify(plan, in->diag);
}

/* What is needed before there is a plan to fill. */
struct preface {
    uint64_t time_ps;
    uint64_t bound_ps;
    struct peal_hash128 origin;
    uint64_t slice; /* 1 + rank; 0: the plan is whole */
    size_t first;   /* byte behind it */
    uint8_t collective;
    uint32_t nranks;
};

static peal_status get_preface(struct reader *in, struct preface *preface)
{
    PEAL_TRY(get_u64(in, &preface->time_ps));
    PEAL_TRY(get_u64(in, &preface->bound_ps));
    PEAL_TRY(get_u64(in, &preface->origin.low));
    PEAL_TRY(get_u64(in, &preface->origin.high));
    PEAL_TRY(get_varint(in, &preface->slice));
    preface->first = in->at;
    PEAL_TRY(get_byte(in, &preface->collective));
    if (preface->collective >= PEAL_COLLECTIVE_COUNT)
        return broken(in, "an unknown collective");
    if (preface->slice == 0)
        PEAL_TRY(get_count(in, PLAN_RANKS_MAX, WIRE_RANK_BYTES, &preface->nranks));
    else
        PEAL_TRY(get_u32(in, &preface->nranks));
    if (preface->nranks == 0 || preface->nranks > PLAN_RANKS_MAX)
        return broken(in, "a plan has 1 to 65536 ranks");
    return preface->slice > preface->nranks ? broken(in, "a slice of a rank beyond the plan's")
                                            : PEAL_OK;
}

static peal_status begin_plan(struct reader *in, struct preface *preface,
                              struct peal_plan **plan_out)
{
    struct peal_plan *plan;
    PEAL_TRY(get_preface(in, preface));
    peal_status status =
        preface->slice
            ? peal_plan_create_slice(in->ctx, preface->nranks, (uint32_t)preface->slice - 1, &plan)
            : peal_plan_create(in->ctx, preface->nranks, &plan);
    if (status != PEAL_OK)
        return no_memory(in);
    plan->collective = (peal_collective)preface->collective;
    plan->time_ps = preface->time_ps;
    plan->bound_ps = preface->bound_ps;
    plan->origin = preface->origin;
    *plan_out = plan;
    return PEAL_OK;
}

peal_status peal_plan_decode(peal_ctx *ctx, const void *data, size_t bytes, const char *name,
                             peal_diag *diag, struct peal_plan **plan_out)
{
    if (!ctx || !data || !plan_out)
        return peal_fail(diag, PEAL_ERR_ARG, "a context, data and a place for the plan are needed");
    struct reader in = {.ctx = ctx, .data = data, .end = bytes, .name = name, .diag = diag};
    struct preface preface = {0};
    struct peal_plan *plan = NULL;
    PEAL_TRY(begin_plan(&in, &preface, &plan));
    peal_status status = get_plan(&in, plan, preface.first);
    if (status != PEAL_OK) {
        peal_plan_destroy(plan);
        return status;
    }
    *plan_out = plan;
    return PEAL_OK;
}
