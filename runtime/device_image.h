/* SPDX-License-Identifier: Apache-2.0 */
/* Makes what device/image.h describes, from plans. */
#ifndef PEAL_RUNTIME_DEVICE_IMAGE_MAKE_H
#define PEAL_RUNTIME_DEVICE_IMAGE_MAKE_H

#include "device/image.h"
#include "plan.h"

/* The arena that a table's plans need on each rank; ERR_RANGE beyond what memory holds. The same
 * table gives all ranks the same one. */
peal_status peal_dev_layout_make(const peal_table *table, struct dev_layout *layout,
                                 peal_diag *diag);

/* A rank's image; of a slice, its rank's. Freed by peal_free(ctx, *image, *bytes). The table has
 * been proven, or its slices checked. ERR_UNSUPPORTED: a plan that the kernel cannot run. */
peal_status peal_dev_image_make(peal_ctx *ctx, const peal_table *table, uint32_t rank,
                                const struct dev_layout *layout, void **image, size_t *bytes,
                                peal_diag *diag);

/* Where rows are in an image. */
static inline const struct dev_row *peal_dev_rows(const void *image)
{
    return (const struct dev_row *)((const struct dev_image *)image + 1);
}

/* What a call's arguments say of dev_call: count (of a block), key, type, operation, divisor, trips
 * and row; the rest is left alone. `row` is that of the table whose plan it is. */
void peal_dev_call_fill(const struct peal_plan *plan, uint32_t row, uint64_t count,
                        peal_dtype dtype, peal_op op, int in_place, struct dev_call *call);

#endif
