/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that peers do not see: what they reach of them is copied to registered memory when a
 * call begins, and back when it ends; or of large messages they are told to attach to them. Which
 * of the two follows from what all ranks know. */
#include "clock.h"
#include "comm.h"

/* Reached by all ranks as it is. */
static int is_registered(const struct peal_comm *comm, const char *memory, uint64_t bytes)
{
    uintptr_t offset = (uintptr_t)memory - (uintptr_t)comm->base;
    return offset < comm->layout.total && bytes <= comm->layout.total - offset;
}

/* Two areas of staged_bytes at the top of the heap; what they held is over with its call.
 *
 * Messages take turns with the places in an area: a line that was written a short while ago lies in
 * this processor's own cache, and one that was read in a peer's, from where it is slow to fetch.
 * What lies some megabytes back has gone to the cache that they share. */
#define TURN_BYTES 8192u /* a smaller message is as fast in one place, which need not be told */
#define PART_PLACES 2u

/* All areas of all ranks together are a quarter of the shared cache. */
static uint64_t area_bytes(const struct peal_comm *comm)
{
    return comm->cache_bytes / (8ull * comm->nranks) & ~(uint64_t)(RT_PAGE - 1);
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + RT_PAGE - 1) & ~(uint64_t)(RT_PAGE - 1);
}

/* Of each of the two areas. */
static uint64_t staging_room(const struct peal_comm *comm)
{
    return (comm->layout.heap_bytes - comm->heap_used) / 2;
}

static peal_status reserve_staging(struct peal_comm *comm, uint64_t bytes, peal_diag *diag)
{
    uint64_t need = whole_pages(bytes);
    uint64_t room = staging_room(comm);
    if (need <= comm->staged_bytes)
        return PEAL_OK;
    if (need > room)
        return peal_fail(diag, PEAL_ERR_RANGE,
                         "staging private buffers takes 2 x %llu bytes of heap, %llu are left; "
                         "use a larger heap, or buffers of peal_mem_alloc",
                         (unsigned long long)need, (unsigned long long)(2 * room));
    uint64_t area = area_bytes(comm);
    uint64_t take = need < area && area <= room ? area : need;
    uint64_t end = comm->layout.heap + comm->layout.heap_bytes * (comm->rank + 1ull);
    if (comm->world->job || comm->world->segment.counts || comm->attached)
        PEAL_TRY(rt_segment_reserve(&comm->world->segment, end - 2 * take, 2 * take, diag));
    comm->staged_bytes = take;
    return PEAL_OK;
}

/* Parts have a few places among which they turn. */
static void take_part(struct peal_comm *comm, const struct rt_row *row)
{
    uint64_t part = row->part_count * row->elem_bytes;
    uint64_t room = row->block_bytes < PART_PLACES * part ? row->block_bytes : PART_PLACES * part;
    comm->staged_turn = 0;
    comm->staged_at = comm->part ? comm->staged_at + part : 0;
    if (comm->staged_at + part > room)
        comm->staged_at = 0;
}

static void take_turn(struct peal_comm *comm, uint64_t bytes)
{
    uint64_t need = (bytes + RT_LINE - 1) & ~(uint64_t)(RT_LINE - 1);
    uint64_t area = area_bytes(comm), room = comm->staged_bytes;
    /* What a large message took is not gone through by small ones. */
    if (need <= area && area < room)
        room = area;
    comm->staged_at += bytes < TURN_BYTES ? 0 : comm->staged_turn;
    comm->staged_turn = need;
    if (comm->staged_at > room || need > room - comm->staged_at)
        comm->staged_at = 0;
}

static char *staged(const struct peal_comm *comm, unsigned which)
{
    return comm->base + comm->layout.heap + comm->layout.heap_bytes * (comm->rank + 1ull) -
           comm->staged_bytes * (2 - which) + comm->staged_at;
}

/* Where the message would begin, so that its part under way lies there. */
static char *staged_part(const struct peal_comm *comm, const struct rt_row *row, unsigned which)
{
    uint64_t skip = rt_part_at(comm, row) * row->part_count * row->elem_bytes;
    return (char *)((uintptr_t)staged(comm, which) - (uintptr_t)skip);
}

/* A line that another core's cache holds is slow to fetch where the two share none. */
static int goes_around(const struct peal_comm *comm, const struct rt_row *row, uint8_t reach,
                       uint64_t bytes)
{
    int away = comm->away && !comm->gauges;
    int stream = row->stream && (row->parts == 1 || reach == RT_REACH_OUT);
    return stream || (away && reach == RT_REACH_IN && bytes >= RT_GAUGE_BYTES);
}

/* Copies the chunks of a block that peers reach, neighbours together; how many bytes. */
static uint64_t copy_block(const struct peal_comm *comm, const struct rt_row *row, uint32_t block,
                           uint8_t reach, char *to, const char *from)
{
    uint32_t chunks = row->nchunks / row->blocks;
    uint32_t last = (block + 1) * chunks;
    uint64_t copied = 0;
    uint64_t start = block * row->count;
    uint64_t length = rt_block_length(comm, row, block) * row->elem_bytes;
    for (uint32_t i = block * chunks; i < last; i++) {
        if (!(row->reached[i] & reach))
            continue;
        uint64_t first = (row->bounds[i] - start) * row->elem_bytes;
        while (i + 1 < last && row->reached[i + 1] & reach)
            i++;
        uint64_t end = (row->ends[i] - start) * row->elem_bytes;
        end = end < length ? end : length;
        uint64_t bytes = end > first ? end - first : 0;
        if (bytes)
            rt_copy(comm, (char *)((uintptr_t)to + first), from + first, (size_t)bytes,
                    goes_around(comm, row, reach, bytes));
        copied += bytes;
    }
    return copied;
}

static uint64_t copy_reached(const struct peal_comm *comm, const struct rt_row *row, uint8_t reach,
                             char *to, const char *from)
{
    const struct plan_held *part = reach == RT_REACH_IN ? &row->in : &row->out;
    uint32_t before = reach == RT_REACH_IN ? 0 : row->in.blocks;
    uint64_t copied = 0;
    for (uint32_t i = 0; i < part->blocks; i++) {
        uint32_t block = row->listed ? row->listed[before + i] : part->first + i * part->stride;
        copied += copy_block(comm, row, block, reach, to + i * row->block_bytes,
                             from + i * row->block_bytes);
    }
    return copied;
}

/* Whether a message that others would look for is staged all the same. Each rank may answer for
 * itself, since others look at the board for what they attach to. */
static int stages(const struct peal_comm *comm, const struct rt_row *row, uint64_t most)
{
    int reduces = peal_plan_collective(row->collective)->reduces;
    uint64_t room = staging_room(comm), bytes = row->blocks * row->block_bytes;
    if (rt_attach_crowded(comm, row) || (!comm->gauges && rt_attach_dear(comm, row)) ||
        bytes >= (reduces ? comm->attach_folds : comm->attach_moves))
        return 0;
    return bytes < comm->attach_bytes ||
           (whole_pages(most) <= comm->layout.heap_bytes / 4 && whole_pages(most) <= room);
}

/* Where there is no memory for them, large messages are attached to from now on. */
static int attaches(struct peal_comm *comm, const struct rt_row *row, uint64_t most)
{
    if (!comm->attached ||
        (stages(comm, row, most) && reserve_staging(comm, most, NULL) == PEAL_OK))
        return 0;
    if (stages(comm, row, most))
        comm->attach_moves = comm->attach_folds = comm->attach_bytes;
    return 1;
}

/* The same on all ranks: where one may be attached to, all look whether it is. */
static int may_attach(const struct peal_comm *comm, const struct rt_row *row)
{
    return comm->attaches && row->attachable &&
           (row->blocks * row->block_bytes >= comm->attach_bytes || rt_attach_early(comm, row) ||
            rt_attach_crowded(comm, row));
}

static void stage_input(struct peal_comm *comm, const struct rt_row *row)
{
    uint64_t start = comm->gauges ? rt_now_ns() : 0;
    comm->shared_in = staged_part(comm, row, 0);
    uint64_t bytes = copy_reached(comm, row, RT_REACH_IN, comm->shared_in, comm->in);
    if (comm->gauges && !row->stream)
        rt_gauge_note(comm, RT_GAUGE_STORE, bytes, rt_now_ns() - start);
}

/* Where nothing is staged, and peers are other processes: what stands at such an address there is
 * something else, which they would read and write. */
peal_status rt_check_seen(const struct peal_comm *comm, const struct rt_row *row, peal_diag *diag)
{
    int in = !(row->reach & RT_REACH_IN) || !row->in_bytes ||
             is_registered(comm, comm->in, row->in_bytes);
    int out = !(row->reach & RT_REACH_OUT) || !row->out_bytes ||
              is_registered(comm, comm->out, row->out_bytes);
    if (in && out)
        return PEAL_OK;
    return peal_fail(
        diag, PEAL_ERR_ARG,
        "the %s buffer of rank %u is no memory of peal_mem_alloc, and ranks that are "
        "other processes do not see it: with private_buffers of the world's parameters "
        "it is staged",
        in ? "output" : "input", comm->rank);
}

/* Lets peers reach what they have to. In place the input that they read stays as it was, while
 * the output grows elsewhere: for the plan, which is proven for both, that is out of place. */
peal_status rt_stage(struct peal_comm *comm, const struct rt_row *row, peal_diag *diag)
{
    int stage_in = row->reach & RT_REACH_IN && !is_registered(comm, comm->in, row->in_bytes);
    int stage_out = row->reach & RT_REACH_OUT && !is_registered(comm, comm->out, row->out_bytes);
    uint64_t in_bytes = stage_in ? row->in_bytes : 0, out_bytes = stage_out ? row->out_bytes : 0;
    uint64_t most = in_bytes > out_bytes ? in_bytes : out_bytes;
    comm->foreign = 0;
    comm->attached = may_attach(comm, row);
    rt_gauge_begin(comm);
    if (!stage_in && !stage_out)
        return PEAL_OK;
    if (attaches(comm, row, most)) {
        comm->foreign = (stage_in ? RT_REACH_IN : 0) | (stage_out ? RT_REACH_OUT : 0);
        return PEAL_OK;
    }
    PEAL_TRY(reserve_staging(comm, most, diag));
    if (row->parts > 1)
        take_part(comm, row);
    else
        take_turn(comm, most);
    if (stage_in)
        stage_input(comm, row);
    if (stage_out)
        comm->shared_out = staged_part(comm, row, 1);
    return PEAL_OK;
}

void rt_unstage(struct peal_comm *comm, const struct rt_row *row)
{
    uint64_t start = comm->gauges ? rt_now_ns() : 0, bytes = 0;
    if (comm->shared_out != comm->out)
        bytes = copy_reached(comm, row, RT_REACH_OUT, comm->out, comm->shared_out);
    if (!comm->gauges)
        return;
    if (rt_gauge_stores(row) && !row->stream)
        rt_gauge_note(comm, RT_GAUGE_LOAD, bytes, rt_now_ns() - start);
    rt_gauge_end(comm);
}
