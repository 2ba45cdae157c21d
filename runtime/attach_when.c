/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When buffers that others do not see are attached to, rather than staged. The kernel's copy is one
 * where staging takes two, and leaves lines where they are; but every call of it costs as much as
 * some kilobytes, and what it stores goes by way of the caches.
 *
 * Ranks with a processor each know what staging takes, as they time it (gauge.c). Such that share
 * processors do not; whether it pays for them follows from the call, and what was measured of such
 * calls (Intel Emerald Rapids, a virtual machine of two processors):
 *
 *   microseconds      4 ranks, staged  attached      8 ranks, staged  attached
 *   alltoall   8 KiB              7.4      10.8                   25        42
 *             32 KiB               21        19                  136        97
 *            512 KiB              509       376                 2300      1560
 *              8 MiB            10200     12600
 *   allgather 32 KiB               16        19                   61        82
 *            128 KiB               63        53
 *            512 KiB              336       308                 1210      1410
 *              8 MiB             6050      7970
 *
 * What all read is staged once, which is why of the second less is gained. A broadcast of 512 KiB
 * took four 74 staged and 97 attached. Of reductions those of ranks that share processors gain
 * nothing; two with one each took 43 us staged and 28 attached to reduce-scatter 512 KiB, 62 and 45
 * to allreduce them. But what they fold around the caches is better staged: 13 and 21 ms to
 * allreduce 64 MiB.
 */
#include "comm.h"

/* ns of a call of the kernel, and of each KiB it copies: two ranks told each other 4, 16, 32 and
 * 512 KiB in 0.9, 1.4, 2.2 and 31 us (the same machine). The slope leaves something for what it
 * does to the caches. */
#define KERNEL_START 800u
#define KERNEL_EACH 70u
#define PIECE_MIN 8192u

#define CROWDED_MOVED (24u << 10)     /* of each piece, where everyone reads what is for him, */
#define CROWDED_GATHERED (128u << 10) /* and where all read the same, */
#define CROWDED_READERS 3u            /* if so few do */
/* All buffers of all ranks; beyond, stores around the caches are what helps. */
#define CROWDED_TOTAL (128ull << 20)

/* What one transfer copies. */
static uint64_t piece_bytes(const struct rt_row *row)
{
    uint64_t chunk = row->block_bytes * row->blocks / row->nchunks;
    return row->tile_bytes && row->tile_bytes < chunk ? row->tile_bytes : chunk;
}

/* The same on all ranks. */
int rt_attach_crowded(const struct peal_comm *comm, const struct rt_row *row)
{
    uint64_t piece = piece_bytes(row);
    if (!comm->attach_crowded || !row->attachable ||
        comm->nranks * (row->in_bytes + row->out_bytes) > CROWDED_TOTAL)
        return 0;
    if (row->collective == PEAL_ALLTOALL || row->collective == PEAL_ALLTOALLV)
        return piece >= CROWDED_MOVED;
    return row->collective == PEAL_ALLGATHER && comm->nranks - 1 <= CROWDED_READERS &&
           piece >= CROWDED_GATHERED;
}

/* Whether some rank may find staging dear: the same on all ranks. */
int rt_attach_early(const struct peal_comm *comm, const struct rt_row *row)
{
    return comm->attach_early && row->attachable && piece_bytes(row) >= PIECE_MIN;
}

int rt_attach_dear(const struct peal_comm *comm, const struct rt_row *row)
{
    uint64_t kib = piece_bytes(row) / 1024;
    int folds_around = peal_plan_collective(row->collective)->reduces && row->stream;
    return rt_attach_early(comm, row) && !folds_around &&
           comm->dear * kib > KERNEL_START + KERNEL_EACH * kib;
}
