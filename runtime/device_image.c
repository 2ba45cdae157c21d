/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's programs as the kernel reads them (device/image.h): one block of memory, without
 * addresses. */
#include "device_image.h"

#include <string.h>

struct maker {
    const struct peal_plan *plan;
    const struct plan_rank *program;
    const struct dev_layout *layout;
    struct dev_row *row;
    char *image;
    uint8_t *shared; /* of each chunk: others reach this rank's output in it */
    uint32_t rank;
    uint32_t blocks;
    uint32_t noperands;
};

/* ---- the arena */

static int add_part(uint64_t *total, uint64_t count, uint64_t bytes)
{
    uint64_t limit = 1ull << 48;
    if (bytes > limit || (bytes && count > limit / bytes) || *total > limit)
        return 0;
    *total = (*total + count * bytes + DEV_LINE - 1) / DEV_LINE * DEV_LINE;
    return *total <= limit;
}

static void measure(const peal_table *table, struct dev_layout *layout)
{
    for (uint32_t i = 0; i < table->nrows; i++) {
        const struct peal_plan *plan = table->rows[i].plan;
        uint64_t packets = peal_plan_memory_bytes(plan, PLAN_BUF_PACKET);
        uint64_t scratch = peal_plan_memory_bytes(plan, PLAN_BUF_SCRATCH);
        if (packets > layout->packet_bytes)
            layout->packet_bytes = packets;
        if (scratch > layout->scratch_bytes)
            layout->scratch_bytes = scratch;
        if (plan->nsems > layout->nsems)
            layout->nsems = plan->nsems;
        if (plan->collective == PEAL_ALLTOALLV)
            layout->count_bytes =
                ((uint64_t)layout->nranks * 8 + DEV_LINE - 1) / DEV_LINE * DEV_LINE;
    }
}

peal_status peal_dev_layout_make(const peal_table *table, struct dev_layout *layout,
                                 peal_diag *diag)
{
    struct dev_layout made = {.nranks = table->nranks};
    uint64_t total = 0;
    for (uint32_t i = 0; i < table->nrows; i++)
        if (table->rows[i].plan->ahead)
            return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                             "row %u: on a device, calls do not run ahead", i);
    measure(table, &made);
    int fits = add_part(&total, 1, sizeof(struct dev_board));
    made.sems = total;
    fits = fits && add_part(&total, (uint64_t)made.nranks * made.nsems, DEV_LINE);
    made.counts = total;
    fits = fits && add_part(&total, 2, made.count_bytes);
    made.packets = total;
    fits = fits && add_part(&total, 2, made.packet_bytes);
    made.scratch = total;
    fits = fits && add_part(&total, 2, made.scratch_bytes);
    made.total = total;
    if (!fits)
        return peal_fail(diag, PEAL_ERR_RANGE,
                         "%u ranks with %llu bytes of scratch each are more than memory holds",
                         made.nranks, (unsigned long long)made.scratch_bytes);
    *layout = made;
    return PEAL_OK;
}

/* ---- operands */

static void make_slot(const struct maker *m, const struct plan_operand *from,
                      struct dev_operand *to)
{
    const struct plan_region *region = &m->plan->regions[from->index];
    uint64_t slot = peal_plan_region_bytes(region) / ((uint64_t)region->width * region->depth);
    int packet = from->buffer == PLAN_BUF_PACKET;
    to->place = packet ? DEV_PACKETS : DEV_SLOT;
    to->wire = region->wire;
    to->depth = region->depth;
    to->trip_bytes = slot * region->width;
    to->at = (packet ? m->layout->packets : m->layout->scratch) +
             peal_plan_region_offset(m->plan, from->index) + slot * from->slot;
}

/* What the rank's own step reaches as peers do, by a name that they share. */
static int is_named(const struct plan_step *step)
{
    return peal_plan_op_groups(step->op) || step->engine == PEAL_ENGINE_IBGDA;
}

static void make_operand(const struct maker *m, const struct plan_step *step,
                         const struct plan_operand *from, struct dev_operand *to)
{
    int is_in = from->buffer == PLAN_BUF_IN;
    memset(to, 0, sizeof *to);
    to->rank = from->rank;
    if (!is_in && from->buffer != PLAN_BUF_OUT) {
        make_slot(m, from, to);
        return;
    }
    uint32_t block = from->index / (m->plan->nchunks / m->blocks);
    to->at = (uint64_t)peal_plan_held_before(m->plan, from->rank, from->buffer, block) - block;
    if (from->rank != m->rank)
        to->place = is_in ? DEV_PEER_IN : DEV_PEER_OUT;
    else if (is_in)
        to->place = is_named(step) ? DEV_SHARED_IN : DEV_OWN_IN;
    else
        to->place = m->shared[from->index] ? DEV_SHARED_OUT : DEV_OWN_OUT;
}

/* ---- steps */

/* The destination "as it was" is the first source of a fold into it. */
static uint32_t folded_into(const struct plan_step *step)
{
    return step->op == PLAN_PUT_REDUCE || step->op == PLAN_GET_REDUCE ? 1 : 0;
}

static uint8_t kind_of(const struct maker *m, const struct plan_step *step)
{
    const struct plan_operand *operands = m->program->operands + step->operands;
    int wire = 0, packet = 0;
    if (step->engine == PEAL_ENGINE_TMA)
        return DEV_BULK;
    if (step->engine == PEAL_ENGINE_IBGDA)
        return DEV_POST;
    if (step->engine != PEAL_ENGINE_SM)
        return DEV_HAND;
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++) {
        wire |= i < step->nsrc && peal_plan_operand_wire(m->plan, &operands[i]);
        packet |= operands[i].buffer == PLAN_BUF_PACKET;
    }
    if (peal_plan_op_converts(step->op) || (wire && peal_plan_op_folds(step->op)))
        return DEV_WIRE;
    if (packet)
        return DEV_PACKET;
    return peal_plan_op_folds(step->op) ? DEV_FOLD : DEV_MOVE;
}

static void make_operands(struct maker *m, const struct plan_step *from, struct dev_step *to)
{
    const struct plan_operand *operands = m->program->operands + from->operands;
    struct dev_operand *all = (struct dev_operand *)(void *)(m->image + m->row->operands);
    uint32_t folded = folded_into(from), count = (uint32_t)from->nsrc + from->ndst + folded;
    to->operands = m->noperands;
    to->nsrc = (uint8_t)(from->nsrc + folded);
    to->ndst = from->ndst;
    for (uint32_t nth = 0; nth <= from->more; nth++)
        for (uint32_t i = 0; i < count; i++) {
            const struct plan_operand *named = &operands[i < folded ? from->nsrc : i - folded];
            struct plan_operand operand = peal_plan_nth(from, *named, nth);
            make_operand(m, from, &operand, &all[m->noperands++]);
            if (operand.link != PLAN_NO_LINK && !m->plan->links[operand.link - 1].direct)
                to->flags |= DEV_FAR;
        }
}

static void make_move(struct maker *m, const struct plan_step *from, struct dev_step *to)
{
    const struct plan_operand *operands = m->program->operands + from->operands;
    to->kind = kind_of(m, from);
    to->flags = (uint8_t)((peal_plan_op_folds(from->op) ? DEV_FOLDS : 0) |
                          (from->flags & PLAN_FLAG_FINAL ? DEV_FINAL : 0) |
                          (from->op == PLAN_LOAD_REDUCE ? DEV_GROUP_LOAD : 0) |
                          (peal_plan_multicasts(m->program, from) ? DEV_GROUP_STORE : 0));
    to->event = from->event;
    to->chunk = from->chunk;
    to->more = from->more;
    to->stride = from->stride;
    if (to->kind != DEV_WIRE)
        to->wire = peal_plan_operand_wire(m->plan, &operands[0]);
    if (m->row->counted) {
        uint32_t giver = peal_plan_giver(m->plan, from->chunk);
        to->block = from->chunk / (m->plan->nchunks / m->blocks);
        to->limit = giver == m->rank ? DEV_LIMIT_SENDS(peal_plan_getter(m->plan, from->chunk))
                                     : DEV_LIMIT_GETS(giver);
    }
    make_operands(m, from, to);
}

static uint8_t signal_kind(uint8_t engine, uint8_t own, uint8_t host, uint8_t nic)
{
    if (engine == PEAL_ENGINE_IBGDA)
        return nic;
    return engine == PEAL_ENGINE_SM || engine == PEAL_ENGINE_TMA ? own : host;
}

static void make_step(struct maker *m, const struct plan_step *from, struct dev_step *to)
{
    memset(to, 0, sizeof *to);
    to->engine = from->engine;
    to->event = to->after = DEV_NO_EVENT;
    to->peer = from->peer;
    to->sem = from->peer * m->layout->nsems + from->sem;
    switch (from->op) {
    case PLAN_SIGNAL:
        to->kind = signal_kind(from->engine, DEV_SIGNAL, DEV_HAND_SIGNAL, DEV_POST_SIGNAL);
        to->after = from->after;
        return;
    case PLAN_TELL:
        to->kind = signal_kind(from->engine, DEV_TELL, DEV_HAND_TELL, DEV_POST_TELL);
        return;
    case PLAN_LEARN:
        to->kind = DEV_LEARN;
        return;
    case PLAN_WAIT:
        to->kind = DEV_WAIT;
        to->lag = from->lag;
        return;
    case PLAN_AWAIT:
        to->kind = DEV_AWAIT;
        to->event = from->event;
        to->flags = from->what ? DEV_DELIVERED : 0;
        return;
    default:
        to->sem = 0;
        make_move(m, from, to);
    }
}

static int waits(const struct dev_step *step)
{
    return step->kind == DEV_WAIT || step->kind == DEV_LEARN;
}

/* A wait knows how many waits of a call there are on its semaphore: one lane makes them all. */
static void count_waits(struct dev_step *steps, const struct dev_lane *lane)
{
    for (uint32_t i = lane->first; i < lane->last; i++) {
        if (!waits(&steps[i]))
            continue;
        for (uint32_t j = lane->first; j < lane->last; j++) {
            if (!waits(&steps[j]) || steps[j].sem != steps[i].sem)
                continue;
            if (j >= lane->body && j < lane->post)
                steps[i].per_trip++;
            else
                steps[i].fixed++;
        }
    }
}

static void make_lanes(struct maker *m)
{
    struct dev_lane *lanes = (struct dev_lane *)(void *)(m->image + m->row->lanes);
    struct dev_step *steps = (struct dev_step *)(void *)(m->image + m->row->steps);
    uint32_t made = 0;
    for (uint32_t i = 0; i < m->program->nlanes; i++) {
        const struct plan_lane *from = &m->program->lanes[i];
        struct dev_lane *to = &lanes[i];
        to->first = made;
        to->body = to->first + from->pre;
        to->post = to->body + from->body;
        to->last = to->post + from->post;
        for (; made < to->last; made++)
            make_step(m, &m->program->steps[from->first + made - to->first], &steps[made]);
        count_waits(steps, to);
    }
}

/* ---- what others reach of this rank's output. Of a slice that is not known: all of it. */

static void note_step(struct maker *m, uint32_t rank, const struct plan_rank *program,
                      const struct plan_step *step)
{
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++) {
        const struct plan_operand *operand = &program->operands[step->operands + i];
        if (operand->buffer != PLAN_BUF_OUT || operand->rank != m->rank ||
            (rank == m->rank && !is_named(step)))
            continue;
        for (uint32_t nth = 0; nth <= step->more; nth++)
            m->shared[step->chunk + nth * step->stride] = 1;
    }
}

static void note_shared(struct maker *m)
{
    if (m->plan->sliced) {
        memset(m->shared, 1, m->plan->nchunks);
        return;
    }
    for (uint32_t r = 0; r < m->plan->nranks; r++) {
        const struct plan_rank *program = peal_plan_program(m->plan, r);
        for (uint32_t i = 0; i < program->nsteps; i++)
            if (peal_plan_op_moves(program->steps[i].op))
                note_step(m, r, program, &program->steps[i]);
    }
}

/* ---- rows */

static uint64_t count_operands(const struct plan_rank *program)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < program->nsteps; i++) {
        const struct plan_step *step = &program->steps[i];
        if (peal_plan_op_moves(step->op))
            count += ((uint64_t)step->nsrc + step->ndst + folded_into(step)) * (step->more + 1ull);
    }
    return count;
}

static uint64_t take(uint64_t *at, uint64_t bytes)
{
    uint64_t here = *at;
    *at = (here + bytes + 7) & ~7ull;
    return here;
}

/* Where a row's parts lie, and how much it is. */
static void place_row(const struct peal_plan *plan, uint32_t rank, struct dev_row *row,
                      uint64_t *at)
{
    const struct plan_rank *program = peal_plan_program(plan, rank);
    uint64_t operands = count_operands(program);
    row->nlanes = program->nlanes;
    row->nsteps = program->nsteps;
    row->noperands = (uint32_t)operands; /* PLAN_MOVES_MAX and a destination for each source */
    row->nchunks = plan->nchunks;
    row->lanes = take(at, row->nlanes * sizeof(struct dev_lane));
    row->steps = take(at, row->nsteps * sizeof(struct dev_step));
    row->operands = take(at, operands * sizeof(struct dev_operand));
    row->prefix = plan->weights ? take(at, (row->nchunks + 1ull) * 4) : 0;
}

static void make_prefix(const struct maker *m)
{
    uint32_t *prefix = (uint32_t *)(void *)(m->image + m->row->prefix);
    prefix[0] = 0;
    for (uint32_t i = 0; i < m->plan->nchunks; i++)
        prefix[i + 1] = prefix[i] + m->plan->weights[i];
}

static void make_row(struct maker *m)
{
    const struct peal_plan *plan = m->plan;
    struct dev_row *row = m->row;
    m->blocks = peal_plan_blocks(plan);
    row->id[0] = plan->id.low;
    row->id[1] = plan->id.high;
    row->max_bytes = plan->max_bytes;
    row->tile_bytes = plan->tile_bytes;
    row->collective = (uint32_t)plan->collective;
    row->blocks = m->blocks;
    row->counted = plan->collective == PEAL_ALLTOALLV;
    for (uint32_t i = 0; i < m->program->nsteps; i++) {
        const struct plan_step *step = &m->program->steps[i];
        if (peal_plan_op_moves(step->op) || peal_plan_op_signals(step->op))
            row->engines |= 1u << step->engine;
    }
    if (row->prefix)
        make_prefix(m);
    note_shared(m);
    make_lanes(m);
}

static peal_status make_rows(peal_ctx *ctx, const peal_table *table, uint32_t rank,
                             const struct dev_layout *layout, char *image)
{
    struct dev_row *rows = (struct dev_row *)(void *)((struct dev_image *)(void *)image + 1);
    for (uint32_t i = 0; i < table->nrows; i++) {
        const struct peal_plan *plan = table->rows[i].plan;
        struct maker m = {.plan = plan,
                          .program = peal_plan_program(plan, rank),
                          .layout = layout,
                          .row = &rows[i],
                          .image = image,
                          .rank = rank};
        m.shared = peal_calloc(ctx, plan->nchunks, 1);
        if (!m.shared)
            return PEAL_ERR_MEMORY;
        make_row(&m);
        peal_free(ctx, m.shared, plan->nchunks);
    }
    return PEAL_OK;
}

static peal_status check_rows(const peal_table *table, uint32_t rank, peal_diag *diag)
{
    for (uint32_t i = 0; i < table->nrows; i++) {
        const struct plan_rank *program = peal_plan_program(table->rows[i].plan, rank);
        if (!program)
            return peal_fail(diag, PEAL_ERR_ARG, "the table has no program of rank %u", rank);
        if (count_operands(program) > UINT32_MAX)
            return peal_fail(diag, PEAL_ERR_LIMIT, "row %u has too many operands", i);
    }
    return PEAL_OK;
}

peal_status peal_dev_image_make(peal_ctx *ctx, const peal_table *table, uint32_t rank,
                                const struct dev_layout *layout, void **image, size_t *bytes,
                                peal_diag *diag)
{
    uint64_t total = 0;
    PEAL_TRY(check_rows(table, rank, diag));
    (void)take(&total, sizeof(struct dev_image) + table->nrows * sizeof(struct dev_row));
    for (uint32_t i = 0; i < table->nrows; i++) {
        struct dev_row sized = {0};
        place_row(table->rows[i].plan, rank, &sized, &total);
    }
    char *made = total <= SIZE_MAX ? peal_calloc(ctx, 1, (size_t)total) : NULL;
    if (!made)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    struct dev_image *head = (struct dev_image *)(void *)made;
    *head = (struct dev_image){.magic = DEV_MAGIC,
                               .version = DEV_VERSION,
                               .rank = rank,
                               .nranks = table->nranks,
                               .nrows = table->nrows,
                               .bytes = total,
                               .layout = *layout};
    uint64_t at = 0;
    (void)take(&at, sizeof(struct dev_image) + table->nrows * sizeof(struct dev_row));
    for (uint32_t i = 0; i < table->nrows; i++)
        place_row(table->rows[i].plan, rank, (struct dev_row *)(void *)(head + 1) + i, &at);
    peal_status status = make_rows(ctx, table, rank, layout, made);
    if (status != PEAL_OK) {
        peal_free(ctx, made, (size_t)total);
        return peal_fail(diag, status, "out of memory");
    }
    *image = made;
    *bytes = (size_t)total;
    return PEAL_OK;
}

/* ---- calls */

/* What all ranks of a call have in common, but for its number. */
static uint64_t key_of(const struct peal_plan *plan, const struct dev_call *call, int in_place)
{
    const struct plan_collective *what = peal_plan_collective(plan->collective);
    struct {
        struct peal_hash128 plan;
        uint64_t count;
        uint32_t numbers[6];
    } key = {.plan = plan->id,
             .count = call->count,
             .numbers = {(uint32_t)plan->collective, plan->root, plan->peer, call->dtype, call->op,
                         in_place && what->in_place && !what->rooted}};
    return peal_hash64(&key, sizeof key);
}

void peal_dev_call_fill(const struct peal_plan *plan, uint32_t row, uint64_t count,
                        peal_dtype dtype, peal_op op, int in_place, struct dev_call *call)
{
    size_t elem_bytes = peal_dtype_size(dtype);
    call->row = row;
    call->count = count;
    call->dtype = (uint32_t)dtype;
    call->op = (uint32_t)op;
    call->divisor = op == PEAL_AVG ? plan->nranks : 0;
    call->trips = peal_plan_trips(plan, count * peal_plan_blocks(plan), elem_bytes);
    call->key = key_of(plan, call, in_place);
}
