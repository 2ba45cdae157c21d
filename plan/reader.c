/* SPDX-License-Identifier: Apache-2.0 */
/* A plan in memory as a source, which holds one program at a time. */
#include "source.h"

#include <string.h>

/* ---- programs ------------------------------------------------------------ */

static peal_status copy_array(peal_ctx *ctx, void **to, uint32_t *capacity, const void *from,
                              uint32_t count, size_t bytes)
{
    PEAL_TRY(peal_grow(ctx, to, capacity, count, bytes, 1u << 28));
    if (count)
        memcpy(*to, from, count * bytes);
    return PEAL_OK;
}

peal_status peal_plan_copy_program(peal_ctx *ctx, struct plan_rank *dst,
                                   const struct plan_rank *src)
{
    dst->host = src->host;
    dst->arch = src->arch;
    memcpy(dst->busid, src->busid, sizeof dst->busid);
    memcpy(dst->nic, src->nic, sizeof dst->nic);
    dst->nlanes = src->nlanes;
    dst->nsteps = src->nsteps;
    dst->noperands = src->noperands;
    PEAL_TRY(copy_array(ctx, (void **)&dst->lanes, &dst->lanes_capacity, src->lanes, src->nlanes,
                        sizeof *src->lanes));
    PEAL_TRY(copy_array(ctx, (void **)&dst->steps, &dst->steps_capacity, src->steps, src->nsteps,
                        sizeof *src->steps));
    return copy_array(ctx, (void **)&dst->operands, &dst->operands_capacity, src->operands,
                      src->noperands, sizeof *src->operands);
}

/* ---- a plan in memory as a source ------------------------------------------ */

static peal_status add_link(struct plan_reader *reader, uint32_t link)
{
    struct plan_slice *slice = &reader->slice;
    if (reader->place[link])
        return PEAL_OK;
    PEAL_TRY(peal_grow(reader->plan->ctx, (void **)&slice->links, &slice->links_capacity,
                       (size_t)slice->nlinks + 1, sizeof *slice->links, 1u << 26));
    slice->links[slice->nlinks++] = reader->plan->links[link];
    reader->place[link] = slice->nlinks;
    return PEAL_OK;
}

static peal_status add_links(struct plan_reader *reader, uint32_t rank)
{
    struct plan_rank *program = &reader->slice.program;
    reader->slice.nlinks = 0;
    for (uint32_t i = reader->first[rank]; i < reader->first[rank + 1]; i++)
        PEAL_TRY(add_link(reader, reader->order[i]));
    for (uint32_t i = 0; i < program->noperands; i++) {
        uint32_t link = program->operands[i].link;
        if (link == PLAN_NO_LINK)
            continue;
        PEAL_TRY(add_link(reader, link - 1));
        program->operands[i].link = reader->place[link - 1];
    }
    return PEAL_OK;
}

static void forget_links(struct plan_reader *reader, uint32_t rank)
{
    const struct plan_rank *program = &reader->plan->ranks[rank];
    for (uint32_t i = reader->first[rank]; i < reader->first[rank + 1]; i++)
        reader->place[reader->order[i]] = 0;
    for (uint32_t i = 0; i < program->noperands; i++)
        if (program->operands[i].link != PLAN_NO_LINK)
            reader->place[program->operands[i].link - 1] = 0;
}

static peal_status read_plan(void *user, uint32_t rank, const struct plan_slice **slice_out)
{
    struct plan_reader *reader = user;
    PEAL_TRY(peal_plan_copy_program(reader->plan->ctx, &reader->slice.program,
                                    &reader->plan->ranks[rank]));
    peal_status status = add_links(reader, rank);
    forget_links(reader, rank);
    if (status == PEAL_OK)
        *slice_out = &reader->slice;
    return status;
}

peal_status peal_plan_reader_init(struct plan_reader *reader, const struct peal_plan *plan,
                                  struct plan_source *source_out)
{
    *reader = (struct plan_reader){.plan = plan};
    reader->first = peal_calloc(plan->ctx, (size_t)plan->nranks + 1, sizeof(uint32_t));
    reader->order = peal_calloc(plan->ctx, (size_t)plan->nlinks + 1, sizeof(uint32_t));
    reader->place = peal_calloc(plan->ctx, (size_t)plan->nlinks + 1, sizeof(uint32_t));
    if (!reader->first || !reader->order || !reader->place)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < plan->nlinks; i++)
        reader->first[plan->links[i].from]++;
    for (uint32_t r = 0, sum = 0; r <= plan->nranks; r++)
        reader->first[r] = sum += reader->first[r];
    for (uint32_t i = plan->nlinks; i-- > 0;)
        reader->order[--reader->first[plan->links[i].from]] = i;
    *source_out = (struct plan_source){plan, read_plan, reader};
    return PEAL_OK;
}

void peal_plan_reader_free(struct plan_reader *reader)
{
    const struct peal_plan *plan = reader->plan;
    if (!plan)
        return;
    peal_plan_slice_free(plan->ctx, &reader->slice);
    peal_free(plan->ctx, reader->first, ((size_t)plan->nranks + 1) * sizeof(uint32_t));
    peal_free(plan->ctx, reader->order, ((size_t)plan->nlinks + 1) * sizeof(uint32_t));
    peal_free(plan->ctx, reader->place, ((size_t)plan->nlinks + 1) * sizeof(uint32_t));
}
