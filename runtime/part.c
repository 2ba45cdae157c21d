/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls in parts. A large message of private buffers is staged part by part: what a rank has just
 * copied in is still in its cache when it is copied out, and no more of the caches is taken than
 * one part. Each part is a call of the plan like any other, with a number, digest and deadlines of
 * its own, of as many elements of every block; so all that holds of calls that follow each other
 * holds of parts: when this rank returns from one, nobody touches its places any more, and the next
 * part may lie there.
 *
 * Parts follow from what all ranks know: the call's arguments, the plan, and what they have told
 * each other when they met.
 */
#include "comm.h"

/* What a rank stages of a part: small beside the second cache of a core, large beside the signals
 * that a part takes, and the kernel's calls where it is attached to. */
#define PART_BYTES (512u << 10)
/* Of a message that is too short for such parts, where ranks that share processors gather it: each
 * part is read by all of them. Eight on two processors gathered 512 KiB in 1.34 ms, 1.40 whole, in
 * parts of 64 KiB 1.37; but blocks of 8 MiB in 24 by such parts, and in 23 (the machine below). */
#define GATHERED_BYTES (128u << 10)
/* Fewer parts are not worth their signals, where the message may be attached to after all: two
 * ranks exchanged blocks of 512 KiB in 60 us in two parts, and in 47 whole (attached; Intel Emerald
 * Rapids). */
#define PARTS_MIN 2u
#define PARTS_MIN_ATTACHED 4u

/* What has to be the same everywhere for the ranks to cut alike; 0: this rank does not cut. */
static uint64_t terms(const struct peal_comm *comm)
{
    uint64_t words[] = {comm->attach_bytes, comm->attach_moves, comm->attach_folds,
                        comm->crowded != 0, comm->cache_bytes};
    return comm->private_buffers && !comm->far ? peal_hash64(words, sizeof words) | 1 : 0;
}

void rt_parts_offer(struct peal_comm *comm)
{
    atomic_store_explicit(&comm->board->terms, terms(comm), memory_order_relaxed);
}

/* All have joined. Attaching takes the place of it from a size on that is kept as it is now. Ranks
 * with a processor each do not cut what they fold: 8 MiB that two of them added up took 1.4 ms
 * whole, 1.4 to 1.7 in parts; a broadcast of them 1.1, and 0.85. Where four shared two processors,
 * 64 MiB took 46 to 90 ms whole, and 40. */
void rt_parts_agree(struct peal_comm *comm)
{
    uint64_t own = terms(comm);
    uint32_t same = own != 0;
    for (uint32_t r = 0; r < comm->nranks && same; r++)
        same = atomic_load_explicit(&rt_board(comm->base, &comm->layout, r)->terms,
                                    memory_order_relaxed) == own;
    comm->part_bytes = same ? PART_BYTES : 0;
    comm->part_moves = comm->attaches ? comm->attach_moves : UINT64_MAX;
    comm->part_folds = !comm->crowded ? 0 : comm->attaches ? comm->attach_folds : UINT64_MAX;
    /* Where one rank may be attached to, all have to look whether it is; and one of them alone may
     * be crowded, by the thread of its copy engines. */
    int chooses = same && comm->attaches && comm->attach_chooses;
    comm->attach_early = chooses && !comm->crowded;
    comm->attach_crowded = chooses && comm->crowded;
}

/* Blocks that a rank stages of a message of `blocks`: one of its own, or one for each rank. */
static uint64_t staged_blocks(const struct peal_comm *comm, const struct rt_row *row)
{
    return row->collective == PEAL_ALLGATHER || row->blocks == 1 ? 1 : comm->nranks;
}

static uint64_t part_target(const struct peal_comm *comm, const struct rt_row *row)
{
    int gathers = comm->crowded && row->collective == PEAL_ALLGATHER;
    return gathers && row->block_bytes < PARTS_MIN * comm->part_bytes &&
                   comm->part_bytes > GATHERED_BYTES
               ? GATHERED_BYTES
               : comm->part_bytes;
}

void rt_parts_learn(const struct peal_comm *comm, struct rt_row *row)
{
    int reduces = peal_plan_collective(row->collective)->reduces;
    uint64_t bytes = row->blocks * row->block_bytes;
    row->parts = 1;
    row->part_count = row->count;
    if (!comm->part_bytes || !row->shares || !row->attachable || row->tile_bytes || row->wire ||
        row->counted || row->collective == PEAL_CUSTOM || row->prefix ||
        rt_attach_crowded(comm, row) || bytes >= (reduces ? comm->part_folds : comm->part_moves))
        return;
    uint64_t unit = PLAN_ALIGN * (row->nchunks / row->blocks);
    uint64_t part = (part_target(comm, row) / staged_blocks(comm, row) + unit - 1) / unit * unit;
    if (row->block_bytes < (comm->attach_early ? PARTS_MIN_ATTACHED : PARTS_MIN) * part)
        return;
    row->part_count = part / row->elem_bytes;
    row->parts = (uint32_t)((row->count + row->part_count - 1) / row->part_count);
}

void rt_part_cut(struct rt_row *row, uint32_t part)
{
    uint64_t skip = part * row->part_count, left = row->count - skip;
    rt_cut(row, skip, left < row->part_count ? left : row->part_count);
}
