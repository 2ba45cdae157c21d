/* SPDX-License-Identifier: Apache-2.0 */
/*
 * float32 to the formats of wire slots and back (docs/plan-format.md, "Wire slots"). Rounding is to
 * nearest, ties to even. One code for all processors: all compute the same bits.
 */
#ifndef PEAL_RUNTIME_KERN_WIRE_H
#define PEAL_RUNTIME_KERN_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* wire: PLAN_WIRE_*. count elements; a packed piece that is not a tile's last one holds whole
 * blocks. Packed bytes need no alignment; src and dst do not overlap. */
void kern_wire_pack(uint8_t wire, char *dst, const float *src, size_t count);
void kern_wire_unpack(uint8_t wire, float *dst, const char *src, size_t count);

#endif
