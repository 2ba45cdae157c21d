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
    uint64_t tiles;  /* of chunks that are sums, and of these those that are whole somewhere */
    uint64_t whole;
    uint8_t *seen;      /* of (chunk, tile): it is one of those */
    uint32_t last_fold; /* which of the records, as they are shown */
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

/* Whether a rank has all of what that chunk is a sum of. */
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

/* Of an allreduce: whether that tile is one more that is whole somewhere. */
static void look_for_whole(struct states *s, uint32_t rank, uint32_t chunk, uint32_t trip)
{
    uint64_t tile = (uint64_t)chunk * s->sim->trips + trip;
    const struct cell *cell =
        &s->out[((uint64_t)rank * s->sim->plan->nchunks + chunk) * s->sim->trips + trip];
    if (!s->tiles || s->seen[tile] || !is_right(s, chunk, cell))
        return;
    s->seen[tile] = 1;
    s->whole++;
}

/* Where its reduction ends: what follows only moves sums, or some ranks fold what others have. */
static void tell_whole(struct states *s, uint64_t before, uint32_t nth)
{
    if (s->whole == before || s->whole < s->tiles)
        return;
    peal_buf_str(&s->emit->buf, "-- every chunk is a whole sum at one rank at least");
    if (nth >= s->last_fold && nth + 1 < s->sim->done_order.count)
        peal_buf_str(&s->emit->buf, ": reduced (reduce-scatter); what follows hands sums on "
                                    "(allgather)");
    peal_buf_str(&s->emit->buf, "\n");
}

static const struct plan_step *step_of(const struct peal_sim *sim, const struct sim_record *record)
{
    return &sim->plan->ranks[sim->lane[record->lane].rank].steps[record->step];
}

static void put_record(struct states *s, const struct sim_record *record, uint32_t nth_record)
{
    const struct sim_lane *lane = &s->sim->lane[record->lane];
    const struct plan_rank *program = &s->sim->plan->ranks[lane->rank];
    const struct plan_step *step = step_of(s->sim, record);
    const struct plan_operand *operands = &program->operands[step->operands];
    struct peal_buf *buf = &s->emit->buf;
    uint64_t whole = s->whole;
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
            for (uint32_t nth = 0; nth <= step->more; nth++)
                look_for_whole(s, to->rank, step->chunk + nth * step->stride, record->trip);
            continue;
        }
        for (uint32_t nth = 0; nth <= step->more; nth++)
            put_slot(s, step, to, nth, record->trip);
    }
    tell_whole(s, whole, nth_record);
    peal_emit_pass(s->emit);
}

/* ---- the end: what every rank should hold */

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
    s->emit->wrong = wrong;
}

/* The tiles of an allreduce; of other collectives there is nothing to look for. */
static int open_whole(struct states *s)
{
    const struct peal_plan *plan = s->sim->plan;
    if (plan->collective != PEAL_ALLREDUCE)
        return 1;
    s->seen = peal_calloc(s->sim->ctx, (size_t)plan->nchunks * s->sim->trips, 1);
    for (uint32_t c = 0; c < plan->nchunks; c++)
        for (uint32_t t = 0; t < s->sim->trips; t++)
            s->tiles += peal_sim_tile(s->sim, c, t) > 0;
    return s->seen != NULL;
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
    if (s->in && s->out && s->slot && s->region_first && open_whole(s))
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

static void put_head(const struct states *s)
{
    const struct peal_plan *plan = s->sim->plan;
    peal_buf_fmt(
        &s->emit->buf,
        "%s of %llu bytes by %u ranks, %s: %u chunks, c0 to c%u; rank r gives r + 1\n"
        "c3{0,2}=4: of chunk 3 what ranks 0 and 2 gave, added up; s0[1] a slot, in and out "
        "the buffers\n",
        peal_collective_name(plan->collective), (unsigned long long)s->sim->bytes, plan->nranks,
        plan->algorithm, plan->nchunks, plan->nchunks - 1);
}

/* Those that end together by rank, but what takes no time behind what it follows. */
static int comes_before(const struct peal_sim *sim, uint32_t a, uint32_t b)
{
    const struct sim_record *x = &sim->record[a], *y = &sim->record[b];
    int x_takes = x->end > x->begin, y_takes = y->end > y->begin;
    if (x_takes != y_takes)
        return x_takes;
    return x_takes && sim->lane[x->lane].rank < sim->lane[y->lane].rank;
}

static void sort_together(const struct peal_sim *sim, uint32_t *at, uint32_t count)
{
    for (uint32_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && sim->record[at[to]].end == sim->record[at[from]].end;
             to++)
            for (uint32_t i = to; i > from && comes_before(sim, at[i], at[i - 1]); i--) {
                uint32_t other = at[i];
                at[i] = at[i - 1];
                at[i - 1] = other;
            }
    }
}

static int folds(const struct plan_step *step)
{
    return step->nsrc > 1 || step->op == PLAN_PUT_REDUCE || step->op == PLAN_GET_REDUCE ||
           step->op == PLAN_LOAD_REDUCE;
}

static void put_records(struct states *s)
{
    const struct sim_vector32 *done = &s->sim->done_order;
    uint32_t *at = peal_calloc(s->sim->ctx, (size_t)done->count + 1, sizeof *at);
    if (!at) {
        s->emit->status = PEAL_ERR_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < done->count; i++)
        at[i] = done->at[i];
    sort_together(s->sim, at, done->count);
    for (uint32_t i = 0; i < done->count; i++)
        if (folds(step_of(s->sim, &s->sim->record[at[i]])))
            s->last_fold = i;
    put_head(s);
    for (uint32_t i = 0; i < done->count && s->emit->status == PEAL_OK; i++)
        put_record(s, &s->sim->record[at[i]], i);
    put_end(s);
    peal_free(s->sim->ctx, at, ((size_t)done->count + 1) * sizeof *at);
}

void peal_states_emit(const struct peal_sim *sim, struct emit *emit)
{
    struct states s = {.sim = sim, .emit = emit};
    const struct peal_plan *plan = sim->plan;
    if (open_states(&s)) {
        give_inputs(&s);
        put_records(&s);
    }
    peal_free(sim->ctx, s.region_first, ((size_t)plan->nregions + 1) * sizeof(uint64_t));
    peal_free(sim->ctx, s.in, (size_t)s.chunks * sizeof *s.in);
    peal_free(sim->ctx, s.out, (size_t)s.chunks * sizeof *s.out);
    peal_free(sim->ctx, s.seen, (size_t)plan->nchunks * sim->trips);
    peal_free(sim->ctx, s.slot, (size_t)s.slots * plan->nranks * sizeof *s.slot);
}
