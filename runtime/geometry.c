/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the arguments of a call: its row, the bounds of the chunks, the kernels.
 * Kept with the row, since the next call is most often like the last. */
#include "comm.h"

#include <string.h>

/* ---- the message; the rule is docs/plan-format.md, "Chunks, tiles, trips" */

/* Elements before each chunk of one block. */
static void cut_block(struct rt_row *row, uint32_t block, uint32_t chunks, uint64_t skip,
                      uint64_t count)
{
    uint32_t first = block * chunks;
    uint64_t unit = PLAN_ALIGN / row->elem_bytes;
    if (count < unit * chunks)
        unit = 1;
    uint64_t units = count / unit, start = block * row->count + skip;
    uint32_t before = row->prefix ? row->prefix[first] : 0;
    uint32_t total = row->prefix ? row->prefix[first + chunks] - before : chunks;
    for (uint32_t i = 0; i < chunks; i++) {
        uint32_t weight = row->prefix ? row->prefix[first + i] - before : i;
        row->bounds[first + i] = start + unit * peal_muldiv(units, weight, total);
        if (i)
            row->ends[first + i - 1] = row->bounds[first + i];
    }
    row->ends[first + chunks - 1] = start + count;
}

/* Blocks of equal weights are cut alike. */
void rt_cut(struct rt_row *row, uint64_t skip, uint64_t count)
{
    uint32_t chunks = row->nchunks / row->blocks;
    for (uint32_t b = 0; b < row->blocks; b++) {
        if (b == 0 || row->prefix) {
            cut_block(row, b, chunks, skip, count);
            continue;
        }
        for (uint32_t i = 0; i < chunks; i++) {
            row->bounds[b * chunks + i] = row->bounds[i] + b * row->count;
            row->ends[b * chunks + i] = row->ends[i] + b * row->count;
        }
    }
    row->bounds[row->nchunks] = row->blocks * row->count;
}

static uint32_t count_trips(const struct rt_row *row)
{
    if (row->tile == 0)
        return 1;
    uint64_t largest = 0;
    uint32_t chunks = row->prefix ? row->nchunks : row->nchunks / row->blocks;
    for (uint32_t i = 0; i < chunks; i++) {
        uint64_t length = row->ends[i] - row->bounds[i];
        if (length > largest)
            largest = length;
    }
    uint64_t trips = (largest + row->tile - 1) / row->tile;
    return trips ? (uint32_t)trips : 1;
}

/* ---- what a row keeps */

struct rt_key {
    struct peal_hash128 plan;
    uint64_t count;
    uint32_t collective;
    uint32_t root;
    uint32_t peer;
    uint32_t dtype;
    uint32_t op;
    uint32_t in_place;
};

static void make_keys(struct rt_row *row)
{
    for (uint32_t in_place = 0; in_place < 2; in_place++) {
        struct rt_key key = {.plan = row->id,
                             .count = row->count,
                             .collective = (uint32_t)row->collective,
                             .root = row->root,
                             .peer = row->peer,
                             .dtype = (uint32_t)row->dtype,
                             .op = (uint32_t)row->op,
                             .in_place = in_place && row->all_in_place};
        row->key[in_place] = peal_hash64(&key, sizeof key);
    }
}

static void learn_buffers(const struct peal_comm *comm, struct rt_row *row)
{
    uint64_t blocks = peal_plan_collective(row->collective)->block_power ? comm->nranks : 1;
    uintptr_t align = row->elem_bytes - 1;
    row->block_bytes = (uint64_t)row->count * row->elem_bytes;
    row->message_bytes = blocks * row->block_bytes;
    row->in_bytes = row->in.blocks * row->block_bytes;
    row->out_bytes = row->out.blocks * row->block_bytes;
    row->alias_bytes = row->alias * row->block_bytes;
    row->in_align = row->in.blocks ? align : 0;
    row->out_align = row->out.blocks ? align : 0;
}

/* A chunk lies in a buffer as many blocks before or behind its place in the message. */
static void place_operands(struct rt_row *row)
{
    for (uint32_t i = 0; i < row->noperands; i++)
        row->operands[i].shift = row->operands[i].shift_blocks * row->block_bytes;
}

/* What the ranks of one call read and write together, which the cache that they share holds or not:
 * buffers, and where these are staged. Mostly a broadcast's root has one buffer. */
static uint64_t touched_bytes(const struct peal_comm *comm, const struct rt_row *row)
{
    uint64_t in = row->in_bytes, out = row->out_bytes, most = in > out ? in : out;
    uint64_t own = row->collective == PEAL_BROADCAST ? most : in + out;
    return comm->nranks * (own + (comm->private_buffers ? most : 0));
}

static void learn_kernels(const struct peal_comm *comm, struct rt_row *row)
{
    peal_op folded = row->op == PEAL_AVG ? PEAL_SUM : row->op;
    row->fold = comm->kern->fold[row->dtype][folded];
    row->fold_stream = comm->kern->fold_stream[row->dtype][folded];
    row->divisor = row->op == PEAL_AVG ? comm->nranks : 0;
    row->stream = !row->out_reread && touched_bytes(comm, row) > comm->cache_bytes / 4 * 3;
}

static void learn(const struct peal_comm *comm, struct rt_row *row, const struct rt_args *args)
{
    uint32_t elem_bytes = (uint32_t)peal_dtype_size(args->dtype);
    int same_cut = row->known && row->count == args->count && row->elem_bytes == elem_bytes;
    row->known = 1;
    row->count = args->count;
    row->dtype = args->dtype;
    row->op = args->op;
    row->elem_bytes = elem_bytes;
    row->tile = row->tile_bytes / elem_bytes;
    learn_buffers(comm, row);
    if (!same_cut) {
        rt_cut(row, 0, row->count);
        row->trips = count_trips(row);
        if (row->blocks > 1)
            place_operands(row);
        if (row->ahead)
            rt_ahead_learn(comm, row);
        row->near_bytes = rt_near_bytes(comm, row);
    }
    rt_parts_learn(comm, row);
    rt_back_learn(comm, row);
    learn_kernels(comm, row);
    make_keys(row);
}

/* ---- choosing a row */

/* As peal_table_lookup orders them. */
static int precedes(const struct rt_row *row, const struct rt_args *args, uint64_t bytes)
{
    if (row->collective != args->collective)
        return row->collective < args->collective;
    if (row->root != args->root)
        return row->root < args->root;
    if (row->peer != args->peer)
        return row->peer < args->peer;
    return row->max_bytes < bytes;
}

static int is_of(const struct peal_comm *comm, uint32_t row, const struct rt_args *args)
{
    return row < comm->nrows && comm->rows[row].collective == args->collective &&
           comm->rows[row].root == args->root && comm->rows[row].peer == args->peer;
}

/* at: the first row behind all that are too small. */
static peal_status no_row(const struct peal_comm *comm, uint32_t at, const struct rt_args *args,
                          uint64_t bytes, peal_diag *diag)
{
    const char *name = peal_collective_name(args->collective);
    if (at > 0 && is_of(comm, at - 1, args))
        return peal_fail(
            diag, PEAL_ERR_RANGE, "%s: %llu bytes are more than the table's largest, %llu", name,
            (unsigned long long)bytes, (unsigned long long)comm->rows[at - 1].max_bytes);
    if (args->collective == PEAL_SENDRECV && args->root == args->peer)
        return peal_fail(diag, PEAL_ERR_RANGE, "the table has no %s by list %u of pairs", name,
                         args->root);
    if (args->collective == PEAL_SENDRECV)
        return peal_fail(diag, PEAL_ERR_RANGE, "the table has no %s from rank %u to rank %u", name,
                         args->root, args->peer);
    if (peal_plan_collective(args->collective)->rooted)
        return peal_fail(diag, PEAL_ERR_RANGE, "the table has no %s of root %u", name, args->root);
    return peal_fail(diag, PEAL_ERR_RANGE, "the table has no %s", name);
}

static peal_status find_row(const struct peal_comm *comm, const struct rt_args *args,
                            uint64_t bytes, struct rt_row **row, peal_diag *diag)
{
    uint32_t low = 0;
    uint32_t high = comm->nrows;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (precedes(&comm->rows[middle], args, bytes))
            low = middle + 1;
        else
            high = middle;
    }
    if (!is_of(comm, low, args))
        return no_row(comm, low, args, bytes, diag);
    *row = &comm->rows[low];
    return PEAL_OK;
}

/* All ranks make the same call, and all of them are told before anything moves. */
static peal_status check_wire(const struct rt_row *row, const struct rt_args *args, peal_diag *diag)
{
    int reduces = peal_plan_collective(row->collective)->reduces;
    if (!row->wire)
        return PEAL_OK;
    if (args->dtype != PEAL_FLOAT32)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "a plan that packs elements on the wire takes float32, not %s",
                         peal_dtype_name(args->dtype));
    if (reduces && args->op != PEAL_SUM && args->op != PEAL_AVG)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "a plan that packs elements on the wire adds or averages, but does not "
                         "take %s",
                         peal_op_name(args->op));
    return PEAL_OK;
}

static peal_status check_args(const struct peal_comm *comm, const struct rt_args *args,
                              peal_diag *diag)
{
    if ((unsigned)args->dtype >= PEAL_DTYPE_COUNT || (unsigned)args->op >= PEAL_OP_COUNT)
        return peal_fail(diag, PEAL_ERR_ARG, "dtype %d or op %d is not one of peal's",
                         (int)args->dtype, (int)args->op);
    if (args->collective == PEAL_CUSTOM && args->op == PEAL_AVG)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "custom has as many contributions as its blocks say, and no average");
    if (args->root >= comm->nranks || args->peer >= comm->nranks)
        return peal_fail(diag, PEAL_ERR_ARG, "rank %u is not one of %u",
                         args->root >= comm->nranks ? args->root : args->peer, comm->nranks);
    return PEAL_OK;
}

/* Blocks that are counted: a table has one custom collective. */
static size_t counted_blocks(const struct peal_comm *comm, peal_collective collective)
{
    for (uint32_t i = 0; collective == PEAL_CUSTOM && i < comm->nrows; i++)
        if (comm->rows[i].collective == PEAL_CUSTOM)
            return comm->rows[i].blocks;
    return peal_plan_collective(collective)->block_power ? comm->nranks : 1;
}

/* The size of the message, counted as peal.h says: of its N blocks, if it has more than one. */
peal_status rt_find(const struct peal_comm *comm, struct rt_args args, struct rt_row **row,
                    peal_diag *diag)
{
    PEAL_TRY(check_args(comm, &args, diag));
    size_t blocks = counted_blocks(comm, args.collective);
    size_t bytes;
    if (peal_mul_overflows(args.count, peal_dtype_size(args.dtype), &bytes) ||
        peal_mul_overflows(bytes, blocks, &bytes))
        return peal_fail(diag, PEAL_ERR_RANGE, "%zu elements are more than memory holds",
                         args.count);
    PEAL_TRY(find_row(comm, &args, bytes, row, diag));
    return check_wire(*row, &args, diag);
}

peal_status rt_select(struct peal_comm *comm, struct rt_args args, struct rt_row **row,
                      peal_diag *diag)
{
    PEAL_TRY(rt_find(comm, args, row, diag));
    struct rt_row *found = *row;
    if (!found->known || !rt_row_serves(found, args))
        learn(comm, found, &args);
    if (!rt_world_failed(comm)) /* else others may yet look at what the call that failed was */
        rt_tell_call(comm, &args);
    return PEAL_OK;
}
