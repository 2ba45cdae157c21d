/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a plan, or of two, that are one but for names: the k-th lane of each rank does the same
 * in both, to the k-th chunk of the part, of the same block, in the k-th region, of the same shape,
 * by semaphores that correspond. Channels mostly are. What is executed of one is then executed of
 * the other.
 */
#include "verify.h"

/* ---- lists --------------------------------------------------------------------- */

static void number(const uint32_t *of, uint32_t count, uint32_t *seen, uint32_t *nth)
{
    for (uint32_t i = 0; i < count; i++)
        nth[i] = seen[of[i]]++;
}

static void list_lanes(struct verify_parts *parts, const struct peal_plan *plan)
{
    uint32_t at = 0;
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t l = 0; l < plan->ranks[r].nlanes; l++, at++) {
            parts->rank_of[at] = r;
            parts->within[at] = l;
            parts->first[parts->of_lane[at] + 1]++;
        }
    for (uint32_t p = 0; p < parts->count; p++)
        parts->first[p + 1] += parts->first[p];
    for (uint32_t i = at; i-- > 0;)
        parts->lane[--parts->first[parts->of_lane[i] + 1]] = i;
    for (uint32_t p = 0; p < parts->count; p++)
        parts->first[p] = parts->first[p + 1];
    parts->first[parts->count] = at;
    for (uint32_t p = 0; p < parts->count; p++)
        parts->lanes_in[p] = parts->first[p + 1] - parts->first[p];
}

/* ---- comparing ------------------------------------------------------------------ */

static int same_sem(const struct verify_alike *a, uint32_t x, uint32_t y)
{
    uint64_t number = (uint64_t)a->number << 32;
    if (a->sem_there[x] < number && a->sem_here[y] < number) {
        a->sem_there[x] = number | y;
        a->sem_here[y] = number | x;
    }
    return a->sem_there[x] == (number | y) && a->sem_here[y] == (number | x);
}

/* Of which block, and which of the part's. */
static int same_chunk(const struct verify_alike *a, uint32_t x, uint32_t y)
{
    const struct peal_plan *p = a->one->plan, *q = a->two->plan;
    return a->one->parts.nth_chunk[x] == a->two->parts.nth_chunk[y] &&
           x / (p->nchunks / peal_plan_blocks(p)) == y / (q->nchunks / peal_plan_blocks(q));
}

static int same_region(const struct verify_alike *a, uint32_t x, uint32_t y)
{
    const struct plan_region *p = &a->one->plan->regions[x], *q = &a->two->plan->regions[y];
    return a->one->parts.nth_region[x] == a->two->parts.nth_region[y] && p->width == q->width &&
           p->depth == q->depth && p->wire == q->wire;
}

static int same_operand(const struct verify_alike *a, const struct plan_operand *x,
                        const struct plan_operand *y)
{
    if (x->rank != y->rank || x->buffer != y->buffer)
        return 0;
    if (x->buffer < PLAN_BUF_SCRATCH)
        return same_chunk(a, x->index, y->index);
    return x->slot == y->slot && same_region(a, x->index, y->index);
}

static int same_data(const struct verify_alike *a, uint32_t rank, const struct plan_step *x,
                     const struct plan_step *y)
{
    const struct plan_operand *p = &a->one->plan->ranks[rank].operands[x->operands];
    const struct plan_operand *q = &a->two->plan->ranks[rank].operands[y->operands];
    if (x->nsrc != y->nsrc || x->ndst != y->ndst || x->more != y->more || x->skip != y->skip)
        return 0;
    for (uint32_t i = 0; i <= x->more; i++)
        if (!same_chunk(a, x->chunk + i * x->stride, y->chunk + i * y->stride))
            return 0;
    for (uint32_t i = 0; i < (uint32_t)x->nsrc + x->ndst; i++)
        if (!same_operand(a, &p[i], &q[i]))
            return 0;
    return 1;
}

static int same_step(const struct verify_alike *a, uint32_t rank, uint32_t x, uint32_t y)
{
    const struct plan_step *s = &a->one->plan->ranks[rank].steps[x];
    const struct plan_step *t = &a->two->plan->ranks[rank].steps[y];
    if (s->op != t->op || s->engine != t->engine || s->event != t->event || s->flags != t->flags ||
        s->lag != t->lag || s->after != t->after || s->what != t->what)
        return 0;
    if (peal_plan_op_moves(s->op))
        return same_data(a, rank, s, t);
    if (s->op == PLAN_AWAIT)
        return 1;
    return s->peer == t->peer &&
           same_sem(a, a->one->sems.of_step[rank][x], a->two->sems.of_step[rank][y]);
}

static int same_lane(const struct verify_alike *a, uint32_t x, uint32_t y)
{
    uint32_t rank = a->one->parts.rank_of[x];
    if (rank != a->two->parts.rank_of[y])
        return 0;
    const struct plan_lane *p = &a->one->plan->ranks[rank].lanes[a->one->parts.within[x]];
    const struct plan_lane *q = &a->two->plan->ranks[rank].lanes[a->two->parts.within[y]];
    if (p->pre != q->pre || p->body != q->body || p->post != q->post)
        return 0;
    for (uint32_t i = 0; i < p->pre + p->body + p->post; i++)
        if (!same_step(a, rank, p->first + i, q->first + i))
            return 0;
    return 1;
}

/* A part without lanes is a chunk or a region that nobody names: a region leaves nothing to prove.
 */
int peal_verify_alike_parts(struct verify_alike *a, uint32_t x, uint32_t y)
{
    const struct verify_parts *p = &a->one->parts, *q = &a->two->parts;
    uint32_t lanes = p->lanes_in[x];
    if (lanes != q->lanes_in[y] || p->chunks_in[x] != q->chunks_in[y])
        return 0;
    if (!lanes)
        return !p->chunks_in[x];
    a->number++;
    for (uint32_t i = 0; i < lanes; i++)
        if (!same_lane(a, p->lane[p->first[x] + i], q->lane[q->first[y] + i]))
            return 0;
    return 1;
}

peal_status peal_verify_alike_open(struct verify_alike *a, const struct verify_plan *one,
                                   const struct verify_plan *two)
{
    *a = (struct verify_alike){.one = one, .two = two};
    a->sem_there = peal_calloc(one->plan->ctx, (size_t)one->sems.count + 1, sizeof(uint64_t));
    a->sem_here = peal_calloc(one->plan->ctx, (size_t)two->sems.count + 1, sizeof(uint64_t));
    if (a->sem_there && a->sem_here)
        return PEAL_OK;
    peal_verify_alike_close(a);
    return PEAL_ERR_MEMORY;
}

void peal_verify_alike_close(struct verify_alike *a)
{
    peal_ctx *ctx = a->one->plan->ctx;
    peal_free(ctx, a->sem_there, ((size_t)a->one->sems.count + 1) * sizeof(uint64_t));
    peal_free(ctx, a->sem_here, ((size_t)a->two->sems.count + 1) * sizeof(uint64_t));
}

/* ---- all parts ------------------------------------------------------------------ */

static peal_status compare(struct verify_alike *a, const struct verify_parts *parts)
{
    uint32_t kinds = 0;
    uint32_t *kind = peal_calloc(parts->ctx, parts->count, sizeof(uint32_t));
    if (!kind)
        return PEAL_ERR_MEMORY;
    for (uint32_t p = 0; p < parts->count; p++) {
        parts->like[p] = p;
        for (uint32_t k = 0; k < kinds && parts->like[p] == p; k++)
            if (peal_verify_alike_parts(a, kind[k], p))
                parts->like[p] = kind[k];
        if (parts->like[p] == p && kinds < VERIFY_KINDS_MAX)
            kind[kinds++] = p;
    }
    peal_free(parts->ctx, kind, parts->count * sizeof(uint32_t));
    return PEAL_OK;
}

static peal_status list(struct verify_parts *parts, const struct peal_plan *plan)
{
    peal_ctx *ctx = parts->ctx;
    uint32_t *seen = peal_calloc(ctx, parts->count, sizeof(uint32_t));
    parts->like = peal_calloc(ctx, parts->count, sizeof(uint32_t));
    parts->lanes_in = peal_calloc(ctx, parts->count, sizeof(uint32_t));
    parts->chunks_in = peal_calloc(ctx, parts->count, sizeof(uint32_t));
    parts->first = peal_calloc(ctx, (size_t)parts->count + 1, sizeof(uint32_t));
    parts->lane = peal_calloc(ctx, (size_t)parts->lanes + 1, sizeof(uint32_t));
    parts->rank_of = peal_calloc(ctx, (size_t)parts->lanes + 1, sizeof(uint32_t));
    parts->within = peal_calloc(ctx, (size_t)parts->lanes + 1, sizeof(uint32_t));
    parts->nth_chunk = peal_calloc(ctx, (size_t)parts->chunks + 1, sizeof(uint32_t));
    parts->nth_region = peal_calloc(ctx, (size_t)parts->regions + 1, sizeof(uint32_t));
    int made = seen && parts->like && parts->lanes_in && parts->chunks_in && parts->first &&
               parts->lane && parts->rank_of && parts->within && parts->nth_chunk &&
               parts->nth_region;
    if (made) {
        number(parts->of_chunk, parts->chunks, parts->chunks_in, parts->nth_chunk);
        number(parts->of_region, parts->regions, seen, parts->nth_region);
        list_lanes(parts, plan);
    }
    peal_free(ctx, seen, parts->count * sizeof(uint32_t));
    return made ? PEAL_OK : PEAL_ERR_MEMORY;
}

peal_status peal_verify_parts_compare(struct verify_plan *taken)
{
    struct verify_alike alike;
    if (!taken->parts.count)
        return PEAL_OK;
    PEAL_TRY(list(&taken->parts, taken->plan));
    PEAL_TRY(peal_verify_alike_open(&alike, taken, taken));
    peal_status status = compare(&alike, &taken->parts);
    peal_verify_alike_close(&alike);
    return status;
}
