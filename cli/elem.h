/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs and results of a checked collective, made here from nothing of the library's own code.
 * Inputs are such that every order of reduction gives the same bits: sums, products and all
 * partial ones are exact in the type; averages divide once.
 */
#ifndef PEAL_CLI_ELEM_H
#define PEAL_CLI_ELEM_H

#include <peal/peal.h>

struct elem_job {
    peal_dtype dtype;
    peal_op op;
    uint32_t ranks;
    uint64_t seed;
    int plain; /* 1: any bits; no result is asked for */
    int moved; /* 1: one rank's numbers, not reduced */
    /* Whose elements a result is of; NULL: all ranks'. */
    const uint32_t *givers;
    uint32_t ngivers;
};

/* Elements [first, first + count) of a rank's input; of the result of all ranks, or givers. */
void elem_input(const struct elem_job *job, uint32_t rank, uint64_t first, uint64_t count,
                void *to);
void elem_result(const struct elem_job *job, uint64_t first, uint64_t count, void *to);
/* The sum of all ranks' magnitudes of an element, or of one rank's where nothing is reduced, and
 * more than that of any element. */
double elem_magnitude(const struct elem_job *job, uint32_t rank, uint64_t index);
double elem_largest(const struct elem_job *job);
/* How far a result may be off, of contributions of that magnitude rounded so often; `largest`
 * bounds the elements beside it. */
double elem_wire_bound(const struct elem_job *job, peal_wire wire, uint32_t roundings,
                       double magnitude, double largest);
/* An element in words. */
#define ELEM_TEXT 40
const char *elem_text(peal_dtype dtype, const void *element, char *text);
/* A well-mixed number of two. */
uint64_t elem_mix(uint64_t a, uint64_t b);

#endif
