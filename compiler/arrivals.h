/* SPDX-License-Identifier: Apache-2.0 */
/* When each rank may go on, start-ups alone. One thread at a time uses one of these. */
#ifndef PEAL_COMPILER_ARRIVALS_H
#define PEAL_COMPILER_ARRIVALS_H

#include "compiler.h"

struct arrivals {
    peal_ctx *ctx;
    uint32_t n;
    double *now;   /* us: it turns to the present round */
    double *heard; /* what it waits for in it is there */
    double *lane;  /* its lane is free again, us behind now; and its other engine */
    double *queue;
};
peal_status peal_arrivals_init(struct arrivals *arrivals, peal_ctx *ctx, uint32_t n);
void peal_arrivals_free(struct arrivals *arrivals);
/* One lane's messages in their order. */
void peal_arrivals_send(struct arrivals *arrivals, uint32_t from, uint32_t to,
                        const struct hop *hop, uint32_t messages);
/* Ends the round: how much later the last rank goes on than the last went on before. */
double peal_arrivals_round(struct arrivals *arrivals);

#endif
