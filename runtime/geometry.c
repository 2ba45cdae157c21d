/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the arguments of a call: its row, the bounds of the chunks, the kernels.
 * Kept with the row, since the next call is most often like the last. */
#include "comm.h"

#include <string.h>

/* Elements before each chunk; the rule is docs/plan-format.md, "Chunks, tiles, trips". */
static void cut_chunks(struct rt_row *row)
{
    uint64_t unit = PLAN_ALIGN / row->elem_bytes;
    if (row->count < unit * row->nchunks)
        unit = 1;
    uint64_t units = row->count / unit;
    uint32_t total = row->prefix ? row->prefix[row->nchunks] : row->nchunks;
    for (uint32_t i = 0; i < row->nchunks; i++)
        row->bounds[i] = unit * peal_muldiv(units, row->prefix ? row->prefix[i] : i, total);
    row->bounds[row->nchunks] = row->count;
}

static uint32_t count_trips(const struct rt_row *row)
{
    if (row->tile == 0)
        return 1;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < row->nchunks; i++) {
        uint64_t length = row->bounds[i + 1] - row->bounds[i];
        if (length > largest)
            largest = length;
    }
    uint64_t trips = (largest + row->tile - 1) / row->tile;
    return trips ? (uint32_t)trips : 1;
}

struct rt_key {
    struct peal_hash128 plan;
    uint64_t count;
    uint32_t collective;
    uint32_t dtype;
    uint32_t op;
    uint32_t in_place;
};

static void make_keys(struct rt_row *row)
{
    for (uint32_t in_place = 0; in_place < 2; in_place++) {
        struct rt_key key = {.plan = row->id,
                             .count = row->count,
                             .collective = PEAL_ALLREDUCE,
                             .dtype = (uint32_t)row->dtype,
                             .op = (uint32_t)row->op,
                             .in_place = in_place};
        row->key[in_place] = peal_hash64(&key, sizeof key);
    }
}

static void learn(struct peal_comm *comm, struct rt_row *row, size_t count, peal_dtype dtype,
                  peal_op op)
{
    uint32_t elem_bytes = (uint32_t)peal_dtype_size(dtype);
    int same_cut = row->known && row->count == count && row->elem_bytes == elem_bytes;
    row->known = 1;
    row->count = count;
    row->dtype = dtype;
    row->op = op;
    row->elem_bytes = elem_bytes;
    row->bytes = (uint64_t)count * elem_bytes;
    row->tile = row->tile_bytes / elem_bytes;
    if (!same_cut) {
        cut_chunks(row);
        row->trips = count_trips(row);
    }
    peal_op folded = op == PEAL_AVG ? PEAL_SUM : op;
    row->fold = comm->kern->fold[dtype][folded];
    row->fold_stream = comm->kern->fold_stream[dtype][folded];
    row->divisor = op == PEAL_AVG ? comm->nranks : 0;
    /* What the ranks of one call read and write together, against the cache they share. */
    row->stream = !row->out_reread && row->bytes > comm->cache_bytes / (4 * (uint64_t)comm->nranks);
    make_keys(row);
}

static peal_status find_row(struct peal_comm *comm, uint64_t bytes, struct rt_row **row,
                            peal_diag *diag)
{
    for (uint32_t i = 0; i < comm->nrows; i++) {
        if (bytes <= comm->rows[i].max_bytes) {
            *row = &comm->rows[i];
            return PEAL_OK;
        }
    }
    return peal_fail(diag, PEAL_ERR_RANGE, "%llu bytes are more than the table's largest, %llu",
                     (unsigned long long)bytes,
                     (unsigned long long)comm->rows[comm->nrows - 1].max_bytes);
}

peal_status rt_select(struct peal_comm *comm, size_t count, peal_dtype dtype, peal_op op,
                      struct rt_row **row, peal_diag *diag)
{
    if ((unsigned)dtype >= PEAL_DTYPE_COUNT || (unsigned)op >= PEAL_OP_COUNT)
        return peal_fail(diag, PEAL_ERR_ARG, "dtype %d or op %d is not one of peal's", (int)dtype,
                         (int)op);
    size_t bytes;
    if (peal_mul_overflows(count, peal_dtype_size(dtype), &bytes))
        return peal_fail(diag, PEAL_ERR_RANGE, "%zu elements are more than memory holds", count);
    PEAL_TRY(find_row(comm, bytes, row, diag));
    struct rt_row *found = *row;
    if (!found->known || found->count != count || found->dtype != dtype || found->op != op)
        learn(comm, found, count, dtype, op);
    return PEAL_OK;
}
