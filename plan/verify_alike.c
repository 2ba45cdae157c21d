/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a plan that are one but for names: the k-th lane of each rank does the same in both,
 * to the k-th chunk of the part, of the same block, in the k-th region, of the same shape, by
 * semaphores that correspond. Channels mostly are. What is executed of one is then executed of the
 * other.
 */
#include "verify.h"

#include <string.h>

#define NONE UINT32_MAX

struct alike {
    const struct peal_plan *plan;
    const struct verify_sems *sems;
    const struct verify_parts *parts;
    uint32_t per_block;
    uint32_t *first;      /* of each part's lanes; one more than parts */
    uint32_t *lane;       /* by part, then numbered rank by rank */
    uint32_t *rank_of;    /* of each lane */
    uint32_t *within;     /* and its number there */
    uint32_t *chunks_in;  /* of each part */
    uint32_t *nth_chunk;  /* of its part */
    uint32_t *nth_region; /* of its part */
    uint32_t *sem_there;  /* of each semaphore of one part: the other's; NONE */
    uint32_t *sem_here;   /* and back */
};

/* ---- lists --------------------------------------------------------------------- */

static void number(const uint32_t *of, uint32_t count, uint32_t *seen, uint32_t *nth)
{
    for (uint32_t i = 0; i < count; i++)
        nth[i] = seen[of[i]]++;
}

static void list_lanes(const struct alike *a)
{
    uint32_t at = 0, parts = a->parts->count;
    for (uint32_t r = 0; r < a->plan->nranks; r++)
        for (uint32_t l = 0; l < a->plan->ranks[r].nlanes; l++, at++) {
            a->rank_of[at] = r;
            a->within[at] = l;
            a->first[a->parts->of_lane[at] + 1]++;
        }
    for (uint32_t p = 0; p < parts; p++)
        a->first[p + 1] += a->first[p];
    for (uint32_t i = at; i-- > 0;)
        a->lane[--a->first[a->parts->of_lane[i] + 1]] = i;
    for (uint32_t p = 0; p < parts; p++)
        a->first[p] = a->first[p + 1];
    a->first[parts] = at;
    for (uint32_t p = 0; p < parts; p++)
        a->parts->lanes_in[p] = a->first[p + 1] - a->first[p];
}

/* ---- comparing ------------------------------------------------------------------ */

static int same_sem(const struct alike *a, uint32_t x, uint32_t y)
{
    if (a->sem_there[x] == NONE && a->sem_here[y] == NONE) {
        a->sem_there[x] = y;
        a->sem_here[y] = x;
    }
    return a->sem_there[x] == y && a->sem_here[y] == x;
}

static int same_chunk(const struct alike *a, uint32_t x, uint32_t y)
{
    return a->nth_chunk[x] == a->nth_chunk[y] && x / a->per_block == y / a->per_block;
}

static int same_region(const struct alike *a, uint32_t x, uint32_t y)
{
    const struct plan_region *p = &a->plan->regions[x], *q = &a->plan->regions[y];
    return a->nth_region[x] == a->nth_region[y] && p->width == q->width && p->depth == q->depth &&
           p->wire == q->wire;
}

static int same_operand(const struct alike *a, const struct plan_operand *x,
                        const struct plan_operand *y)
{
    if (x->rank != y->rank || x->buffer != y->buffer)
        return 0;
    if (x->buffer < PLAN_BUF_SCRATCH)
        return same_chunk(a, x->index, y->index);
    return x->slot == y->slot && same_region(a, x->index, y->index);
}

static int same_data(const struct alike *a, const struct plan_rank *program,
                     const struct plan_step *x, const struct plan_step *y)
{
    if (x->nsrc != y->nsrc || x->ndst != y->ndst || x->more != y->more || x->skip != y->skip)
        return 0;
    for (uint32_t i = 0; i <= x->more; i++)
        if (!same_chunk(a, x->chunk + i * x->stride, y->chunk + i * y->stride))
            return 0;
    for (uint32_t i = 0; i < (uint32_t)x->nsrc + x->ndst; i++)
        if (!same_operand(a, &program->operands[x->operands + i],
                          &program->operands[y->operands + i]))
            return 0;
    return 1;
}

static int same_step(const struct alike *a, uint32_t rank, uint32_t x, uint32_t y)
{
    const struct plan_rank *program = &a->plan->ranks[rank];
    const struct plan_step *s = &program->steps[x], *t = &program->steps[y];
    if (s->op != t->op || s->engine != t->engine || s->event != t->event || s->flags != t->flags ||
        s->lag != t->lag || s->after != t->after || s->what != t->what)
        return 0;
    if (peal_plan_op_moves(s->op))
        return same_data(a, program, s, t);
    if (s->op == PLAN_AWAIT)
        return 1;
    return s->peer == t->peer && same_sem(a, a->sems->of_step[rank][x], a->sems->of_step[rank][y]);
}

static int same_lane(const struct alike *a, uint32_t x, uint32_t y)
{
    uint32_t rank = a->rank_of[x];
    if (rank != a->rank_of[y])
        return 0;
    const struct plan_lane *p = &a->plan->ranks[rank].lanes[a->within[x]];
    const struct plan_lane *q = &a->plan->ranks[rank].lanes[a->within[y]];
    if (p->pre != q->pre || p->body != q->body || p->post != q->post)
        return 0;
    for (uint32_t i = 0; i < p->pre + p->body + p->post; i++)
        if (!same_step(a, rank, p->first + i, q->first + i))
            return 0;
    return 1;
}

/* A part without lanes is a chunk or a region that nobody names: a region leaves nothing to prove.
 */
static int same_part(const struct alike *a, uint32_t x, uint32_t y)
{
    uint32_t lanes = a->parts->lanes_in[x];
    if (lanes != a->parts->lanes_in[y] || a->chunks_in[x] != a->chunks_in[y])
        return 0;
    if (!lanes)
        return !a->chunks_in[x];
    memset(a->sem_there, 0xff, a->sems->count * sizeof(uint32_t));
    memset(a->sem_here, 0xff, a->sems->count * sizeof(uint32_t));
    for (uint32_t i = 0; i < lanes; i++)
        if (!same_lane(a, a->lane[a->first[x] + i], a->lane[a->first[y] + i]))
            return 0;
    return 1;
}

/* ---- all parts ------------------------------------------------------------------ */

static peal_status compare(struct alike *a, uint32_t *like)
{
    const struct verify_parts *parts = a->parts;
    uint32_t kinds = 0;
    uint32_t *kind = peal_calloc(parts->ctx, parts->count, sizeof(uint32_t));
    if (!kind)
        return PEAL_ERR_MEMORY;
    for (uint32_t p = 0; p < parts->count; p++) {
        like[p] = p;
        for (uint32_t k = 0; k < kinds && like[p] == p; k++)
            if (same_part(a, kind[k], p))
                like[p] = kind[k];
        if (like[p] == p && kinds < VERIFY_KINDS_MAX)
            kind[kinds++] = p;
    }
    peal_free(parts->ctx, kind, parts->count * sizeof(uint32_t));
    return PEAL_OK;
}

static peal_status make(struct alike *a)
{
    const struct verify_parts *parts = a->parts;
    peal_ctx *ctx = parts->ctx;
    uint32_t *seen = peal_calloc(ctx, parts->count, sizeof(uint32_t));
    a->chunks_in = peal_calloc(ctx, parts->count, sizeof(uint32_t));
    a->first = peal_calloc(ctx, (size_t)parts->count + 1, sizeof(uint32_t));
    a->lane = peal_calloc(ctx, (size_t)parts->lanes + 1, sizeof(uint32_t));
    a->rank_of = peal_calloc(ctx, (size_t)parts->lanes + 1, sizeof(uint32_t));
    a->within = peal_calloc(ctx, (size_t)parts->lanes + 1, sizeof(uint32_t));
    a->nth_chunk = peal_calloc(ctx, (size_t)parts->chunks + 1, sizeof(uint32_t));
    a->nth_region = peal_calloc(ctx, (size_t)parts->regions + 1, sizeof(uint32_t));
    a->sem_there = peal_calloc(ctx, (size_t)a->sems->count + 1, sizeof(uint32_t));
    a->sem_here = peal_calloc(ctx, (size_t)a->sems->count + 1, sizeof(uint32_t));
    int made = seen && a->chunks_in && a->first && a->lane && a->rank_of && a->within &&
               a->nth_chunk && a->nth_region && a->sem_there && a->sem_here;
    if (made) {
        number(parts->of_chunk, parts->chunks, a->chunks_in, a->nth_chunk);
        number(parts->of_region, parts->regions, seen, a->nth_region);
        list_lanes(a);
    }
    peal_free(ctx, seen, parts->count * sizeof(uint32_t));
    return made ? PEAL_OK : PEAL_ERR_MEMORY;
}

static void unmake(const struct alike *a)
{
    const struct verify_parts *parts = a->parts;
    peal_ctx *ctx = parts->ctx;
    peal_free(ctx, a->chunks_in, parts->count * sizeof(uint32_t));
    peal_free(ctx, a->first, ((size_t)parts->count + 1) * sizeof(uint32_t));
    peal_free(ctx, a->lane, ((size_t)parts->lanes + 1) * sizeof(uint32_t));
    peal_free(ctx, a->rank_of, ((size_t)parts->lanes + 1) * sizeof(uint32_t));
    peal_free(ctx, a->within, ((size_t)parts->lanes + 1) * sizeof(uint32_t));
    peal_free(ctx, a->nth_chunk, ((size_t)parts->chunks + 1) * sizeof(uint32_t));
    peal_free(ctx, a->nth_region, ((size_t)parts->regions + 1) * sizeof(uint32_t));
    peal_free(ctx, a->sem_there, ((size_t)a->sems->count + 1) * sizeof(uint32_t));
    peal_free(ctx, a->sem_here, ((size_t)a->sems->count + 1) * sizeof(uint32_t));
}

peal_status peal_verify_parts_compare(struct verify_parts *parts, const struct peal_plan *plan,
                                      const struct verify_sems *sems)
{
    struct alike a = {.plan = plan, .sems = sems, .parts = parts};
    if (!parts->count)
        return PEAL_OK;
    a.per_block = plan->nchunks / peal_plan_blocks(plan);
    parts->like = peal_calloc(parts->ctx, parts->count, sizeof(uint32_t));
    parts->lanes_in = peal_calloc(parts->ctx, parts->count, sizeof(uint32_t));
    if (!parts->like || !parts->lanes_in)
        return PEAL_ERR_MEMORY;
    peal_status status = make(&a);
    if (status == PEAL_OK)
        status = compare(&a, parts->like);
    unmake(&a);
    return status;
}
