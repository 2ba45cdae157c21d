/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run step by step: each transfer in the order in which they end, and what its rank, or the
 * rank it wrote to, then holds: of each chunk the ranks whose contributions are in it, and its
 * value when rank r gives r + 1.
 */
#include "emit.h"

#define RANKS_MAX 64u /* a bit each */
#define CELLS_MAX (1u << 24)
#define TWICE 1u

struct cell {
    uint64_t ranks;
    uint32_t wrong; /* a rank is in it twice */
};

struct states {
    const struct peal_sim *sim;
    struct emit *emit;
    struct cell *in; /* of (rank, chunk, tile) */
    struct cell *out;
    struct cell *slot; /* of (rank, slot) */
    uint64_t *region_first;
    uint64_t slots;
    uint64_t chunks; /* cells of `in` */
};

static struct cell *cell_of(const struct states *s, const struct plan_operand *operand,
                            uint32_t trip)
{
    const struct peal_plan *plan = s->sim->plan;
    if (operand->buffer == PLAN_BUF_IN || operand->buffer == PLAN_BUF_OUT) {
        uint64_t at = ((uint64_t)operand->rank * plan->nchunks + operand->index) * s->sim->trips;
        return &(operand->buffer == PLAN_BUF_IN ? s->in : s->out)[at + trip];
    }
    const struct plan_region *region = &plan->regions[operand->index];
    uint64_t at = s->region_first[operand->index] +
                  (uint64_t)(trip % region->depth) * region->width + operand->slot;
    return &s->slot[operand->rank * s->slots + at];
}

static struct cell *nth_cell(const struct states *s, const struct plan_step *step,
                             const struct plan_operand *operand, uint32_t nth, uint32_t trip)
{
    struct plan_operand own = peal_plan_nth(step, *operand, nth);
    return cell_of(s, &own, trip);
}

static void fold(struct cell *to, const struct cell *from)
{
    to->wrong |= from->wrong | (to->ranks & from->ranks ? TWICE : 0);
    to->ranks |= from->ranks;
}

static void apply(struct states *s, const struct plan_rank *program, const struct plan_step *step,
                  uint32_t nth, uint32_t trip)
{
    const struct plan_operand *operands = &program->operands[step->operands];
    struct cell value = {0, 0};
    for (uint32_t i = 0; i < step->nsrc; i++)
        fold(&value, nth_cell(s, step, &operands[i], nth, trip));
    for (uint32_t i = 0; i < step->ndst; i++) {
        struct cell *to = nth_cell(s, step, &operands[step->nsrc + i], nth, trip);
        if (step->op == PLAN_PUT_REDUCE || step->op == PLAN_GET_REDUCE)
            fold(to, &value);
        else
            *to = value;
    }
}

/* ---- printed */

static void put_cell(const struct states *s, const struct cell *cell)
{
    uint64_t sum = 0;
    int more = 0;
    peal_buf_str(&s->emit->buf, "{");
    for (uint32_t r = 0; r < s->sim->plan->nranks; r++)
        if (cell->ranks >> r & 1) {
            peal_buf_fmt(&s->emit->buf, "%s%u", more++ ? "," : "", r);
            sum += r + 1;
        }
    peal_buf_fmt(&s->emit->buf, "}=%llu%s", (unsigned long long)sum, cell->wrong ? " TWICE" : "");
}

/* What a rank holds of its output: chunks that it has none of are left out. */
static void put_rank(const struct states *s, uint32_t rank, uint32_t trip)
{
    const struct peal_plan *plan = s->sim->plan;
    peal_buf_fmt(&s->emit->buf, "    rank %u out:", rank);
    for (uint32_t c = 0; c < plan->nchunks; c++) {
        const struct cell *cell = &s->out[((uint64_t)rank * plan->nchunks + c) * s->sim->trips];
        if (!cell[trip].ranks)
            continue;
        peal_buf_fmt(&s->emit->buf, " c%u", c);
        put_cell(s, &cell[trip]);
    }
    peal_buf_str(&s->emit->buf, "\n");
}

static void put_slot(const struct states *s, const struct plan_step *step,
                     const struct plan_operand *operand, uint32_t nth, uint32_t trip)
{
    struct plan_operand to = peal_plan_nth(step, *operand, nth);
    peal_buf_fmt(&s->emit->buf, "    rank %u %c%u[%u]: c%u", to.rank,
                 to.buffer == PLAN_BUF_PACKET ? 'p' : 's', to.index, to.slot,
                 step->chunk + nth * step->stride);
    put_cell(s, cell_of(s, &to, trip));
    peal_buf_str(&s->emit->buf, "\n");
}

static void put_record(struct states *s, const struct sim_record *record)
{
    const struct sim_lane *lane = &s->sim->lane[record->lane];
    const struct plan_rank *program = &s->sim->plan->ranks[lane->rank];
    const struct plan_step *step = &program->steps[record->step];
    const struct plan_operand *operands = &program->operands[step->operands];
    struct peal_buf *buf = &s->emit->buf;
    for (uint32_t nth = 0; nth <= step->more; nth++)
        apply(s, program, step, nth, record->trip);
    peal_buf_fmt(buf, "%llu.%03llu us  rank %u lane %u",
                 (unsigned long long)(record->end / 1000000),
                 (unsigned long long)(record->end / 1000 % 1000), lane->rank, lane->index);
    if (s->sim->trips > 1)
        peal_buf_fmt(buf, " tile %u", record->trip);
    peal_buf_fmt(buf, "  %llu bytes  ", (unsigned long long)record->bytes);
    peal_plan_print_step(s->sim->plan, lane->rank, step, buf);
    peal_buf_str(buf, "\n");
    for (uint32_t i = step->nsrc; i < (uint32_t)step->nsrc + step->ndst; i++) {
        const struct plan_operand *to = &operands[i];
        if (to->buffer == PLAN_BUF_OUT) {
            put_rank(s, to->rank, record->trip);
            continue;
        }
        for (uint32_t nth = 0; nth <= step->more; nth++)
            put_slot(s, step, to, nth, record->trip);
    }
    peal_emit_pass(s->emit);
}

/* ---- the end: what every rank should hold */

static int is_right(const struct states *s, uint32_t chunk, const struct cell *cell)
{
    const struct peal_plan *plan = s->sim->plan;
    uint64_t wanted = 0;
    for (uint32_t r = 0; r < plan->nranks; r++)
        if (peal_plan_adds(plan, chunk) ? peal_plan_holds(plan, r, PLAN_BUF_IN, chunk)
                                        : r == peal_plan_origin(plan, chunk))
            wanted |= 1ull << r;
    return cell->ranks == wanted && !cell->wrong;
}

static void put_end(const struct states *s)
{
    const struct peal_plan *plan = s->sim->plan;
    uint64_t right = 0, wrong = 0;
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t c = 0; c < plan->nchunks; c++)
            for (uint32_t t = 0; t < s->sim->trips; t++) {
                if (!peal_plan_holds(plan, r, PLAN_BUF_OUT, c) || !peal_sim_tile(s->sim, c, t))
                    continue;
                uint64_t at = ((uint64_t)r * plan->nchunks + c) * s->sim->trips + t;
                if (is_right(s, c, &s->out[at]))
                    right++;
                else
                    wrong++;
            }
    peal_buf_fmt(&s->emit->buf, "at the end: %llu tiles right, %llu wrong\n",
                 (unsigned long long)right, (unsigned long long)wrong);
}

static int open_states(struct states *s)
{
    const struct peal_plan *plan = s->sim->plan;
    s->chunks = (uint64_t)plan->nranks * plan->nchunks * s->sim->trips;
    s->region_first = peal_calloc(s->sim->ctx, (size_t)plan->nregions + 1, sizeof(uint64_t));
    for (uint32_t i = 0; s->region_first && i < plan->nregions; i++) {
        s->region_first[i] = s->slots;
        s->slots += (uint64_t)plan->regions[i].width * plan->regions[i].depth;
    }
    if (plan->nranks > RANKS_MAX || s->chunks > CELLS_MAX || s->slots * plan->nranks > CELLS_MAX) {
        s->emit->status = PEAL_ERR_LIMIT;
        return 0;
    }
    s->in = peal_calloc(s->sim->ctx, (size_t)s->chunks, sizeof *s->in);
    s->out = peal_calloc(s->sim->ctx, (size_t)s->chunks, sizeof *s->out);
    s->slot = peal_calloc(s->sim->ctx, (size_t)s->slots * plan->nranks, sizeof *s->slot);
    if (s->in && s->out && s->slot && s->region_first)
        return 1;
    s->emit->status = PEAL_ERR_MEMORY;
    return 0;
}

static void give_inputs(const struct states *s)
{
    const struct peal_plan *plan = s->sim->plan;
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t c = 0; c < plan->nchunks; c++)
            for (uint32_t t = 0; t < s->sim->trips; t++)
                s->in[((uint64_t)r * plan->nchunks + c) * s->sim->trips + t].ranks = 1ull << r;
}

void peal_states_emit(const struct peal_sim *sim, struct emit *emit)
{
    struct states s = {.sim = sim, .emit = emit};
    const struct peal_plan *plan = sim->plan;
    if (open_states(&s)) {
        give_inputs(&s);
        for (uint32_t i = 0; i < sim->done_order.count && emit->status == PEAL_OK; i++)
            put_record(&s, &sim->record[sim->done_order.at[i]]);
        put_end(&s);
    }
    peal_free(sim->ctx, s.region_first, ((size_t)plan->nregions + 1) * sizeof(uint64_t));
    peal_free(sim->ctx, s.in, (size_t)s.chunks * sizeof *s.in);
    peal_free(sim->ctx, s.out, (size_t)s.chunks * sizeof *s.out);
    peal_free(sim->ctx, s.slot, (size_t)s.slots * plan->nranks * sizeof *s.slot);
}
