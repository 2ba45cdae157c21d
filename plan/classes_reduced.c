/* SPDX-License-Identifier: Apache-2.0 */
/* Reduced systems: plans that are made to be proven only, with lanes that stand for the rest. */
#include "verify_classes.h"

#include <stdio.h>
#include <string.h>

peal_status peal_reduced_lane(struct peal_plan *plan, uint32_t rank)
{
    struct plan_rank *program = &plan->ranks[rank];
    PEAL_TRY(peal_grow(plan->ctx, (void **)&program->lanes, &program->lanes_capacity,
                       (size_t)program->nlanes + 1, sizeof *program->lanes, 1u << 16));
    program->lanes[program->nlanes++] = (struct plan_lane){program->nsteps, 0, 0, 0};
    return PEAL_OK;
}

/* To the lane that was made last, which counts its sections itself. */
peal_status peal_reduced_step(struct peal_plan *plan, uint32_t rank, const struct plan_step *step,
                              const struct plan_operand *operands)
{
    struct plan_rank *program = &plan->ranks[rank];
    uint32_t count = (uint32_t)step->nsrc + step->ndst;
    PEAL_TRY(peal_grow(plan->ctx, (void **)&program->steps, &program->steps_capacity,
                       (size_t)program->nsteps + 1, sizeof *program->steps, 1u << 26));
    PEAL_TRY(peal_grow(plan->ctx, (void **)&program->operands, &program->operands_capacity,
                       (size_t)program->noperands + count, sizeof *program->operands, 1u << 28));
    struct plan_step *to = &program->steps[program->nsteps++];
    *to = *step;
    to->operands = count ? program->noperands : 0;
    if (count && operands)
        memcpy(&program->operands[program->noperands], operands, count * sizeof *operands);
    program->noperands += count;
    return PEAL_OK;
}

/* Stand-in lanes have a body only. */
static peal_status body_step(struct peal_plan *plan, uint32_t rank, const struct plan_step *step,
                             const struct plan_operand *operands)
{
    struct plan_rank *program = &plan->ranks[rank];
    program->lanes[program->nlanes - 1].body++;
    return peal_reduced_step(plan, rank, step, operands);
}

peal_status peal_reduced_wait(struct peal_plan *plan, uint32_t rank, uint32_t peer, uint32_t sem)
{
    struct plan_step step = {.op = PLAN_WAIT,
                             .event = PLAN_NO_EVENT,
                             .after = PLAN_NO_EVENT,
                             .peer = peer,
                             .sem = (uint16_t)sem};
    return body_step(plan, rank, &step, NULL);
}

peal_status peal_reduced_signal(struct peal_plan *plan, uint32_t rank, uint32_t peer, uint32_t sem)
{
    struct plan_step step = {.op = PLAN_SIGNAL,
                             .engine = PEAL_ENGINE_SM,
                             .event = PLAN_NO_EVENT,
                             .after = PLAN_NO_EVENT,
                             .peer = peer,
                             .sem = (uint16_t)sem};
    return body_step(plan, rank, &step, NULL);
}

static peal_status local_move(struct peal_plan *plan, uint32_t rank, uint32_t chunk, uint8_t op,
                              uint8_t source, const struct plan_operand *to)
{
    struct plan_operand operands[2] = {{.rank = to->rank, .index = chunk, .buffer = source}, *to};
    struct plan_step step = {.op = op,
                             .engine = PEAL_ENGINE_SM,
                             .event = PLAN_NO_EVENT,
                             .after = PLAN_NO_EVENT,
                             .flags = op == PLAN_REDUCE ? PLAN_FLAG_FINAL : 0,
                             .nsrc = 1,
                             .ndst = 1,
                             .chunk = chunk};
    return body_step(plan, rank, &step, operands);
}

peal_status peal_reduced_store(struct peal_plan *plan, uint32_t rank, uint32_t name, uint32_t chunk)
{
    struct plan_operand out = {.rank = name, .index = chunk, .buffer = PLAN_BUF_OUT};
    return local_move(plan, rank, chunk, PLAN_COPY, PLAN_BUF_IN, &out);
}

peal_status peal_reduced_finish(struct peal_plan *plan, uint32_t rank, uint32_t chunk)
{
    struct plan_operand out = {.rank = rank, .index = chunk, .buffer = PLAN_BUF_OUT};
    return local_move(plan, rank, chunk, PLAN_REDUCE, PLAN_BUF_OUT, &out);
}

peal_status peal_reduced_touch(struct peal_plan *plan, uint32_t rank, uint32_t chunk)
{
    struct plan_operand out = {.rank = rank, .index = chunk, .buffer = PLAN_BUF_OUT};
    return local_move(plan, rank, chunk, PLAN_COPY, PLAN_BUF_OUT, &out);
}

/* Where lanes that only read put what they have read: a region for each, so that they share
 * nothing. */
peal_status peal_reduced_add_sinks(struct peal_plan *plan, uint32_t sinks)
{
    PEAL_TRY(peal_grow(plan->ctx, (void **)&plan->regions, &plan->regions_capacity,
                       (size_t)plan->nregions + sinks, sizeof *plan->regions, 1u << 20));
    while (sinks--)
        plan->regions[plan->nregions++] =
            (struct plan_region){PLAN_BUF_SCRATCH, 1, 1, PLAN_ALIGN, 0};
    return PEAL_OK;
}

peal_status peal_reduced_look(struct peal_plan *plan, uint32_t rank, uint32_t name, uint32_t chunk,
                              uint32_t region)
{
    struct plan_operand to = {.rank = name, .index = region, .buffer = PLAN_BUF_SCRATCH};
    return local_move(plan, rank, chunk, PLAN_COPY, PLAN_BUF_OUT, &to);
}

/* ---- looking at them ---------------------------------------------------------- */

static int names_region(const struct plan_rank *program, uint32_t rank, uint32_t region)
{
    for (uint32_t i = 0; i < program->noperands; i++)
        if (program->operands[i].rank == rank && program->operands[i].buffer >= PLAN_BUF_SCRATCH &&
            program->operands[i].index == region)
            return 1;
    return 0;
}

int peal_reduced_owned(const struct peal_plan *plan, uint32_t *rank_out)
{
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t i = 0; i < plan->ranks[r].noperands; i++) {
            const struct plan_operand *operand = &plan->ranks[r].operands[i];
            *rank_out = operand->rank;
            if (operand->rank != r && operand->buffer >= PLAN_BUF_SCRATCH &&
                !names_region(&plan->ranks[operand->rank], operand->rank, operand->index))
                return 0;
        }
    return 1;
}

int peal_reduced_equal(const struct plan_rank *a, const struct plan_rank *b)
{
    if (a->nlanes != b->nlanes || a->nsteps != b->nsteps || a->noperands != b->noperands)
        return 0;
    return (!a->nlanes || !memcmp(a->lanes, b->lanes, a->nlanes * sizeof *a->lanes)) &&
           (!a->nsteps || !memcmp(a->steps, b->steps, a->nsteps * sizeof *a->steps)) &&
           (!a->noperands || !memcmp(a->operands, b->operands, a->noperands * sizeof *a->operands));
}

/* ---- proving them ------------------------------------------------------------- */

struct teller {
    struct verify_out *out;
    const char *prefix;
    const uint32_t *members;
    uint32_t stride;
};

/* Lanes of a reduced system are not those of the program: the text names the rank's. */
static void tell(void *user, const peal_finding *finding)
{
    const struct teller *teller = user;
    int64_t rank = finding->rank;
    if (rank >= 0)
        rank = teller->members[(size_t)rank * teller->stride];
    peal_verify_find(teller->out, finding->kind, rank, -1, -1, "%s: %.300s", teller->prefix,
                     finding->text);
}

peal_status peal_reduced_prove(struct classes *c, const struct peal_plan *plan, const char *prefix,
                               const uint32_t *members, uint32_t stride,
                               const struct verify_orders *orders)
{
    struct teller teller = {c->out, prefix, members, stride};
    struct verify_out out = {.row = c->out->row, .found = tell, .user = &teller};
    return peal_verify_schedule(plan, c->trips, orders, NULL, &out, &c->proof);
}
