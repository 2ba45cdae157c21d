/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the proof by classes: hosts as they are read, then each rail that is unlike those before.
 */
#include "verify_classes.h"

#include <stdio.h>
#include <string.h>

peal_status peal_classes_refuse(struct classes *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->reason, sizeof c->reason, format, args);
    va_end(args);
    return PEAL_ERR_UNSUPPORTED;
}

static peal_status make(struct classes *c)
{
    size_t ranks = c->head->nranks, chunks = c->head->nchunks;
    c->signals_to = peal_calloc(c->ctx, ranks, sizeof(uint32_t));
    c->digest = peal_calloc(c->ctx, ranks, sizeof(uint64_t));
    c->block_of = peal_calloc(c->ctx, ranks, sizeof(uint32_t));
    c->rail_of = peal_calloc(c->ctx, chunks, sizeof(uint32_t));
    c->chunk_name = peal_calloc(c->ctx, chunks, sizeof(uint32_t));
    c->chunk_lane = peal_calloc(c->ctx, chunks, sizeof(uint32_t));
    c->chunk_mark = peal_calloc(c->ctx, chunks, sizeof(uint32_t));
    c->region_lane = peal_calloc(c->ctx, (size_t)c->head->nregions + 1, sizeof(uint32_t));
    if (!c->signals_to || !c->digest || !c->block_of || !c->rail_of || !c->chunk_name ||
        !c->chunk_lane || !c->chunk_mark || !c->region_lane)
        return PEAL_ERR_MEMORY;
    memset(c->rail_of, 0xff, chunks * sizeof(uint32_t));
    c->order = CLASSES_ORDER_OPEN;
    c->trips = peal_verify_trips(c->head);
    c->tile_bytes = peal_plan_tile_bound(c->head);
    return PEAL_OK;
}

static void free_rail(const struct classes *c, struct rail *rail)
{
    size_t regions = (size_t)c->head->nregions + 1;
    peal_free(c->ctx, rail->region_used, regions);
    peal_free(c->ctx, rail->region_name, regions * sizeof(uint32_t));
    peal_free(c->ctx, rail->sem_used, PLAN_SEMS_MAX);
    peal_free(c->ctx, rail->sem_name, PLAN_SEMS_MAX * sizeof(uint32_t));
}

static void unmake(struct classes *c)
{
    size_t ranks = c->head->nranks, chunks = c->head->nchunks;
    for (uint32_t p = 0; p < c->nrails; p++)
        free_rail(c, &c->rails[p]);
    for (uint32_t i = 0; i < c->nclasses; i++)
        peal_classes_free_class(c->ctx, &c->classes[i]);
    peal_classes_free_block(c);
    peal_free(c->ctx, c->rails, c->rails_capacity * sizeof *c->rails);
    peal_free(c->ctx, c->classes, c->classes_capacity * sizeof *c->classes);
    peal_free(c->ctx, c->member, c->member_capacity * sizeof *c->member);
    peal_free(c->ctx, c->block_order, c->block_orders_capacity * sizeof *c->block_order);
    peal_free(c->ctx, c->signals_to, ranks * sizeof(uint32_t));
    peal_free(c->ctx, c->digest, ranks * sizeof(uint64_t));
    peal_free(c->ctx, c->block_of, ranks * sizeof(uint32_t));
    peal_free(c->ctx, c->rail_of, chunks * sizeof(uint32_t));
    peal_free(c->ctx, c->chunk_name, chunks * sizeof(uint32_t));
    peal_free(c->ctx, c->chunk_lane, chunks * sizeof(uint32_t));
    peal_free(c->ctx, c->chunk_mark, chunks * sizeof(uint32_t));
    peal_free(c->ctx, c->region_lane, ((size_t)c->head->nregions + 1) * sizeof(uint32_t));
}

/* All hosts, each proven unless it is equal to an earlier one. */
static peal_status prove_blocks(struct classes *c)
{
    for (uint32_t first = 0; first < c->head->nranks; first += c->block.count) {
        PEAL_TRY(peal_classes_read_block(c, first));
        if (c->out->findings)
            return PEAL_OK;
        PEAL_TRY(peal_classes_find_rails(c));
        PEAL_TRY(peal_classes_prove_block(c));
        if (c->out->findings)
            return PEAL_OK;
        for (uint32_t i = 0; i < c->block.count; i++)
            c->block_of[first + i] = c->nblocks;
        c->nblocks++;
    }
    return PEAL_OK;
}

static peal_status prove(struct classes *c)
{
    if (c->head->collective != PEAL_ALLREDUCE)
        return peal_classes_refuse(c, "only allreduce is proven by classes");
    if (peal_plan_wire(c->head)) /* what a host is given back is packed, not only folded */
        return peal_classes_refuse(c, "plans with wire slots are not proven by classes");
    PEAL_TRY(prove_blocks(c));
    if (c->out->findings)
        return PEAL_OK;
    PEAL_TRY(peal_classes_name_rails(c));
    for (uint32_t p = 0; p < c->nrails && !c->out->findings; p++)
        if (!c->rails[p].proven)
            PEAL_TRY(peal_classes_prove_rail(c, p));
    c->proof.blocks = c->nblocks;
    c->proof.rails = c->nrails;
    return PEAL_OK;
}

static peal_status conclude(const struct classes *c, struct plan_proof *proof, peal_diag *diag)
{
    if (proof) {
        *proof = c->proof;
        proof->findings = c->out->findings;
        proof->order = c->order == CLASSES_ORDER_OPEN ? 0 : c->order;
        proof->classes = c->proof.classes ? c->proof.classes : 1;
    }
    if (c->out->findings)
        return peal_fail(diag, PEAL_ERR_UNPROVEN,
                         "plan %s for %u ranks: %u finding%s, the first: %s", c->head->algorithm,
                         c->head->nranks, c->out->findings, c->out->findings == 1 ? "" : "s",
                         c->out->first);
    return PEAL_OK;
}

peal_status peal_verify_by_classes(const struct plan_source *source, uint32_t row,
                                   peal_finding_fn found, void *user, struct plan_proof *proof,
                                   peal_diag *diag)
{
    struct verify_out out = {.row = row, .found = found, .user = user};
    struct classes c = {.source = source,
                        .head = source->head,
                        .ctx = source->head->ctx,
                        .out = &out,
                        .diag = diag};
    PEAL_TRY(peal_plan_check_head(source->head, diag));
    peal_status status = make(&c);
    if (status == PEAL_OK)
        status = prove(&c);
    unmake(&c);
    if (status == PEAL_OK)
        return conclude(&c, proof, diag);
    if (status == PEAL_ERR_UNSUPPORTED)
        return peal_fail(diag, status, "plan %s for %u ranks cannot be proven by classes: %s",
                         c.head->algorithm, c.head->nranks, c.reason);
    return status == PEAL_ERR_PLAN
               ? status
               : peal_fail(diag, status, "verification stopped: %s", peal_status_text(status));
}

peal_status peal_plan_verify_classes(const struct plan_source *source, uint32_t row,
                                     peal_finding_fn found, void *user, struct plan_proof *proof,
                                     peal_diag *diag)
{
    struct peal_plan *plan;
    peal_status status = peal_verify_by_classes(source, row, found, user, proof, diag);
    if (status != PEAL_ERR_UNSUPPORTED || source->head->nranks > PLAN_ENUMERATE_RANKS)
        return status;
    if (peal_plan_gather(source, &plan) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    status = peal_plan_seal(plan, diag);
    if (status == PEAL_OK)
        status = peal_plan_verify(plan, row, found, user, proof, diag);
    peal_plan_destroy(plan);
    return status;
}
