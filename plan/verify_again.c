/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans whose schedules are one. Ranges of sizes often share programs and differ in slots, bounds
 * and predictions alone; what is executed of them is the same, step for step.
 */
#include "verify.h"

#include <string.h>

static int same_program(const struct plan_rank *a, const struct plan_rank *b)
{
    if (a->nlanes != b->nlanes || a->nsteps != b->nsteps || a->noperands != b->noperands)
        return 0;
    return (!a->nlanes || !memcmp(a->lanes, b->lanes, a->nlanes * sizeof *a->lanes)) &&
           (!a->nsteps || !memcmp(a->steps, b->steps, a->nsteps * sizeof *a->steps)) &&
           (!a->noperands || !memcmp(a->operands, b->operands, a->noperands * sizeof *a->operands));
}

static int same_regions(const struct peal_plan *a, const struct peal_plan *b)
{
    if (a->nregions != b->nregions)
        return 0;
    for (uint32_t i = 0; i < a->nregions; i++) {
        const struct plan_region *x = &a->regions[i], *y = &b->regions[i];
        if (x->buffer != y->buffer || x->width != y->width || x->depth != y->depth ||
            x->wire != y->wire)
            return 0;
    }
    return 1;
}

/* Those of a are b's, or prove any number. */
static int enough_trips(const struct peal_plan *a, uint32_t trips_a, uint32_t trips_b)
{
    uint32_t depth = 1;
    for (uint32_t i = 0; i < a->nregions; i++)
        if (a->regions[i].depth > depth)
            depth = a->regions[i].depth;
    return trips_a == trips_b || trips_a == depth + 2;
}

static int same_numbers(const uint32_t *a, const uint32_t *b, size_t count)
{
    return count == 0 || memcmp(a, b, count * sizeof *a) == 0;
}

int peal_verify_same_meaning(const struct peal_plan *a, const struct peal_plan *b)
{
    return a->collective == b->collective && a->nranks == b->nranks && a->root == b->root &&
           a->peer == b->peer && a->ahead == b->ahead &&
           peal_plan_blocks(a) == peal_plan_blocks(b) && a->npairs == b->npairs &&
           same_numbers(a->pairs, b->pairs, 2 * (size_t)a->npairs) && a->nblocks == b->nblocks &&
           a->nnames == b->nnames &&
           same_numbers(a->lists, b->lists, a->nblocks ? 2 * (size_t)a->nblocks + 1 : 0) &&
           same_numbers(a->names, b->names, a->nnames);
}

/* Links have no part in an execution, but hosts have in the proof by classes. */
int peal_verify_covers(const struct peal_plan *a, const struct peal_plan *b, uint32_t trips_a,
                       uint32_t trips_b)
{
    if (a == b)
        return 1;
    if (!peal_verify_same_meaning(a, b) || a->nchunks != b->nchunks)
        return 0;
    if (!same_regions(a, b) || !enough_trips(a, trips_a, trips_b))
        return 0;
    for (uint32_t r = 0; r < a->nranks; r++)
        if (a->ranks[r].host != b->ranks[r].host || !same_program(&a->ranks[r], &b->ranks[r]))
            return 0;
    return 1;
}
