/* SPDX-License-Identifier: Apache-2.0 */
/* The closed forms of text books: rings of N ranks, S bytes, hops of alpha and beta. */
#include "estimate.h"

double peal_estimate_text_us(peal_collective collective, uint32_t ranks, double bytes,
                             double alpha_us, double beta_gbs)
{
    double n = ranks, whole = bytes / (beta_gbs * 1e3);
    switch (collective) {
    case PEAL_ALLREDUCE: /* 2(N-1) alpha + 2(N-1)/N S/beta */
        return 2 * (n - 1) * alpha_us + 2 * (n - 1) / n * whole;
    case PEAL_REDUCE_SCATTER:
    case PEAL_ALLGATHER: /* half of that */
        return (n - 1) * alpha_us + (n - 1) / n * whole;
    case PEAL_ALLTOALL: /* N-1 messages of S/N in series */
        return (n - 1) * (alpha_us + whole / n);
    default: /* alpha + S/beta */
        return alpha_us + whole;
    }
}
