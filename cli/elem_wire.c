/* SPDX-License-Identifier: Apache-2.0 */
/* How far a result may lie from the exact one when elements are rounded on the wire
 * (docs/algorithms.md, "Compressed"). */
#include "elem.h"

#define FLOAT_UNIT 0x1p-24
/* Unit roundoff of the format, and, of fp8, of what is small beside the largest element of its
 * block, as a share of that one. */
#define BF16_UNIT 0x1p-8
#define FP8_UNIT 0x1p-4
#define FP8_BLOCK 0x1p-17
#define TINY 0x1p-133 /* where values are subnormal */

static double grown(double unit, uint32_t times)
{
    double product = 1;
    while (times--)
        product *= 1 + unit;
    return product;
}

double elem_wire_bound(const struct elem_job *job, peal_wire wire, uint32_t roundings,
                       double magnitude, double largest)
{
    double unit = wire == PEAL_WIRE_FP8 ? FP8_UNIT : BF16_UNIT;
    double block = wire == PEAL_WIRE_FP8 ? FP8_BLOCK : 0;
    uint32_t sums = job->moved ? 0 : job->ranks + 1; /* of float32; one more divides */
    double wires = grown(unit, roundings), floats = grown(FLOAT_UNIT, sums);
    double bound = magnitude * (wires * floats - 1) + largest * block * roundings * wires * floats;
    return bound + TINY * roundings * (job->ranks + 1.0);
}
