/* SPDX-License-Identifier: Apache-2.0 */
/* Slices: the links they name, and a whole plan out of them. */
#include "source.h"

#include <string.h>

#define LINK_SLOTS_MIN 64u

void peal_plan_slice_free(peal_ctx *ctx, struct plan_slice *slice)
{
    struct plan_rank *rank = &slice->program;
    peal_free(ctx, rank->lanes, rank->lanes_capacity * sizeof *rank->lanes);
    peal_free(ctx, rank->steps, rank->steps_capacity * sizeof *rank->steps);
    peal_free(ctx, rank->operands, rank->operands_capacity * sizeof *rank->operands);
    peal_free(ctx, slice->links, slice->links_capacity * sizeof *slice->links);
    memset(slice, 0, sizeof *slice);
}

uint64_t peal_plan_slice_bytes(const struct plan_slice *slice)
{
    const struct plan_rank *rank = &slice->program;
    return sizeof *rank + (uint64_t)rank->nlanes * sizeof *rank->lanes +
           (uint64_t)rank->nsteps * sizeof *rank->steps +
           (uint64_t)rank->noperands * sizeof *rank->operands +
           (uint64_t)slice->nlinks * sizeof *slice->links;
}

/* ---- links by their ends */

static uint32_t bucket(const struct plan_link_index *index, uint32_t from, uint32_t to)
{
    uint64_t h = ((uint64_t)from << 32 | to) * 0x9E3779B97F4A7C15ull;
    return (uint32_t)(h >> 34) & (index->slots - 1);
}

static peal_status grow_index(peal_ctx *ctx, struct plan_link_index *index,
                              const struct plan_link *links, uint32_t count)
{
    uint32_t slots = index->slots ? index->slots * 2 : LINK_SLOTS_MIN;
    uint32_t *slot = peal_calloc(ctx, slots, sizeof *slot);
    if (!slot)
        return PEAL_ERR_MEMORY;
    peal_plan_link_index_free(ctx, index);
    index->slot = slot;
    index->slots = slots;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = bucket(index, links[i].from, links[i].to);
        while (slot[at])
            at = (at + 1) & (slots - 1);
        slot[at] = i + 1;
    }
    return PEAL_OK;
}

peal_status peal_plan_link_find(peal_ctx *ctx, struct plan_link_index *index,
                                struct plan_link **links, uint32_t *count, uint32_t *capacity,
                                uint32_t from, uint32_t to, uint32_t *link_out, int *added)
{
    *added = 0;
    if (*count >= index->slots / 2)
        PEAL_TRY(grow_index(ctx, index, *links, *count));
    uint32_t at = bucket(index, from, to);
    for (; index->slot[at]; at = (at + 1) & (index->slots - 1)) {
        const struct plan_link *link = &(*links)[index->slot[at] - 1];
        if (link->from == from && link->to == to) {
            *link_out = index->slot[at];
            return PEAL_OK;
        }
    }
    PEAL_TRY(
        peal_grow(ctx, (void **)links, capacity, (size_t)*count + 1, sizeof **links, 1u << 26));
    (*links)[*count] = (struct plan_link){.from = from, .to = to};
    index->slot[at] = ++*count;
    *link_out = *count;
    *added = 1;
    return PEAL_OK;
}

void peal_plan_link_index_clear(struct plan_link_index *index)
{
    if (index->slots)
        memset(index->slot, 0, index->slots * sizeof *index->slot);
}

void peal_plan_link_index_free(peal_ctx *ctx, struct plan_link_index *index)
{
    peal_free(ctx, index->slot, index->slots * sizeof *index->slot);
    *index = (struct plan_link_index){NULL, 0};
}

/* ---- a whole plan */

struct gather {
    struct peal_plan *plan;
    struct plan_link_index index;
    uint32_t *number; /* of each link of the slice, in the plan */
    uint32_t capacity;
};

/* The plan's links are those of its ranks, each where the first rank names it that does. */
static peal_status number_links(struct gather *g, const struct plan_slice *slice)
{
    struct peal_plan *plan = g->plan;
    PEAL_TRY(peal_grow(plan->ctx, (void **)&g->number, &g->capacity, (size_t)slice->nlinks + 1,
                       sizeof *g->number, UINT32_MAX));
    for (uint32_t i = 0; i < slice->nlinks; i++) {
        int added;
        PEAL_TRY(peal_plan_link_find(plan->ctx, &g->index, &plan->links, &plan->nlinks,
                                     &plan->links_capacity, slice->links[i].from,
                                     slice->links[i].to, &g->number[i], &added));
        if (added)
            plan->links[g->number[i] - 1] = slice->links[i];
    }
    return PEAL_OK;
}

static void *copy_of(peal_ctx *ctx, const void *from, size_t count, size_t bytes)
{
    void *to = count ? peal_alloc(ctx, count * bytes) : NULL;
    if (to)
        memcpy(to, from, count * bytes);
    return to;
}

static peal_status copy_program(peal_ctx *ctx, struct plan_rank *to, const struct plan_rank *from)
{
    *to = *from;
    to->lanes = copy_of(ctx, from->lanes, from->nlanes, sizeof *from->lanes);
    to->steps = copy_of(ctx, from->steps, from->nsteps, sizeof *from->steps);
    to->operands = copy_of(ctx, from->operands, from->noperands, sizeof *from->operands);
    to->lanes_capacity = to->lanes ? from->nlanes : 0;
    to->steps_capacity = to->steps ? from->nsteps : 0;
    to->operands_capacity = to->operands ? from->noperands : 0;
    if (to->lanes_capacity < from->nlanes || to->steps_capacity < from->nsteps ||
        to->operands_capacity < from->noperands)
        return PEAL_ERR_MEMORY;
    return PEAL_OK;
}

static peal_status take_program(struct gather *g, uint32_t rank, const struct plan_slice *slice)
{
    struct plan_rank *to = &g->plan->ranks[rank];
    PEAL_TRY(copy_program(g->plan->ctx, to, &slice->program));
    for (uint32_t i = 0; i < to->noperands; i++)
        if (to->operands[i].link != PLAN_NO_LINK)
            to->operands[i].link = g->number[to->operands[i].link - 1];
    return PEAL_OK;
}

/* Settings are values but for these. */
static peal_status copy_arrays(struct peal_plan *to, const struct peal_plan *from)
{
    to->weights =
        copy_of(to->ctx, from->weights, from->weights ? from->nchunks : 0, sizeof *from->weights);
    to->pairs = copy_of(to->ctx, from->pairs, from->npairs, 2 * sizeof *from->pairs);
    to->npairs = to->pairs_capacity = to->pairs ? from->npairs : 0;
    to->lists = copy_of(to->ctx, from->lists, from->nblocks ? 2 * (size_t)from->nblocks + 1 : 0,
                        sizeof *from->lists);
    to->names = copy_of(to->ctx, from->names, from->nnames, sizeof *from->names);
    to->nblocks = to->lists ? from->nblocks : 0;
    to->lists_capacity = to->nblocks ? 2 * to->nblocks + 1 : 0;
    to->nnames = to->names_capacity = to->names ? from->nnames : 0;
    to->regions = copy_of(to->ctx, from->regions, from->nregions, sizeof *from->regions);
    to->nregions = to->regions_capacity = to->regions ? from->nregions : 0;
    return (from->weights && !to->weights) || to->npairs < from->npairs ||
                   to->nblocks < from->nblocks || to->nnames < from->nnames ||
                   to->nregions < from->nregions
               ? PEAL_ERR_MEMORY
               : PEAL_OK;
}

peal_status peal_plan_copy_head(const struct peal_plan *plan, struct peal_plan **head_out)
{
    struct peal_plan *head;
    PEAL_TRY(peal_plan_create_head(plan->ctx, plan->nranks, &head));
    *head = *plan;
    head->ranks = NULL;
    head->links = NULL;
    head->prefix = NULL;
    head->nlinks = head->links_capacity = 0;
    peal_status status = copy_arrays(head, plan);
    if (status != PEAL_OK) {
        peal_plan_destroy(head);
        return status;
    }
    *head_out = head;
    return PEAL_OK;
}

static peal_status gather_ranks(struct peal_plan *plan, const struct plan_source *source)
{
    struct gather g = {.plan = plan};
    peal_status status = PEAL_OK;
    for (uint32_t r = 0; status == PEAL_OK && r < plan->nranks; r++) {
        const struct plan_slice *slice;
        status = source->read(source->user, r, &slice);
        if (status == PEAL_OK)
            status = number_links(&g, slice);
        if (status == PEAL_OK)
            status = take_program(&g, r, slice);
    }
    peal_free(plan->ctx, g.number, g.capacity * sizeof *g.number);
    peal_plan_link_index_free(plan->ctx, &g.index);
    return status;
}

peal_status peal_plan_gather(const struct plan_source *source, struct peal_plan **plan_out)
{
    struct peal_plan *plan;
    PEAL_TRY(peal_plan_copy_head(source->head, &plan));
    plan->ranks = peal_calloc(plan->ctx, plan->nranks, sizeof *plan->ranks);
    peal_status status = plan->ranks ? gather_ranks(plan, source) : PEAL_ERR_MEMORY;
    if (status != PEAL_OK) {
        peal_plan_destroy(plan);
        return status;
    }
    *plan_out = plan;
    return PEAL_OK;
}

/* ---- one rank's slice --------------------------------------------------------- */

peal_status peal_plan_of_slice(const struct peal_plan *head, uint32_t rank,
                               struct plan_slice *slice, struct peal_plan **plan_out)
{
    struct peal_plan *plan;
    PEAL_TRY(peal_plan_copy_head(head, &plan));
    plan->sliced = 1;
    plan->slice_rank = rank;
    plan->ranks = peal_calloc(plan->ctx, 1, sizeof *plan->ranks);
    if (!plan->ranks) {
        peal_plan_destroy(plan);
        return PEAL_ERR_MEMORY;
    }
    *plan->ranks = slice->program;
    plan->links = slice->links;
    plan->nlinks = slice->nlinks;
    plan->links_capacity = slice->links_capacity;
    memset(slice, 0, sizeof *slice);
    *plan_out = plan;
    return PEAL_OK;
}
