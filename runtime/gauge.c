/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether ranks share a cache. Lines that a core has just written lie in its own caches, and those
 * that another has read in that one's, too. Where both share a cache, storing 32 KiB and loading
 * them on the other side takes 1.8 us, and 3.6 around the caches, in memory. Where they share none
 * it is 15, and 3.5 (AMD EPYC). What the machine says of its caches is not believed, as virtual
 * ones do not know and are moved.
 *
 * So in some calls, the same on all ranks, everything is staged by plain stores, and each rank
 * times what it stores and loads. It tells the others; all write around their caches until the next
 * such call if any rank is slow. Of larger messages each rank tells, too, what staging took, by
 * which they find out whether the kernel copies faster (attach_when.c).
 */
#include "clock.h"
#include "comm.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define SLOW 125u /* ns a KiB, stored and loaded */
/* From here on a load tells what staging takes. Cores that were close staged 512 KiB in 50 ns a
 * KiB, such that were apart in 145, and 32 KiB in 105 (Intel Emerald Rapids, a virtual machine). */
#define DEAR_BYTES (16u << 10)

/* Where the machine does not say: what cores of most servers share, an eighth of a processor or all
 * of it. More is not counted on: others use it too, on a virtual machine unseen. Of 260 MiB that
 * one with two processors was shown, four ranks gathered blocks of 8 MiB in 4.3 ms around the
 * caches and in 7.7 through them. */
#define DEFAULT_CACHE (32ull << 20)

/* As the kernel says it. The C library may multiply the third level of an AMD processor by what it
 * takes for the number of its instances: ten times too much on the machine above. */
uint64_t rt_cache_bytes(void)
{
    char text[32] = "";
    int fd = open("/sys/devices/system/cpu/cpu0/cache/index3/size", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t got = read(fd, text, sizeof text - 1);
        text[got > 0 ? got : 0] = '\0';
        (void)close(fd);
    }
    char *end;
    unsigned long long size = strtoull(text, &end, 10);
    if (size == 0 || size > UINT32_MAX)
        return DEFAULT_CACHE;
    uint64_t bytes = *end == 'M' ? size << 20 : *end == 'K' ? size << 10 : size;
    return bytes < DEFAULT_CACHE ? bytes : DEFAULT_CACHE;
}

static int any_slow(const struct peal_comm *comm)
{
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (atomic_load_explicit(&rt_board(comm->base, &comm->layout, r)->slow,
                                 memory_order_relaxed))
            return 1;
    return 0;
}

/* What the slowest takes to store, and the slowest to load: of a broadcast these are two. */
static uint64_t most_dear(const struct peal_comm *comm)
{
    uint32_t most[2] = {0, 0};
    for (uint32_t r = 0; r < comm->nranks; r++)
        for (int what = 0; what < 2; what++) {
            rt_half *told = &rt_board(comm->base, &comm->layout, r)->dear[what];
            uint32_t ns = atomic_load_explicit(told, memory_order_relaxed);
            most[what] = ns > most[what] ? ns : most[what];
        }
    return (uint64_t)most[RT_GAUGE_STORE] + most[RT_GAUGE_LOAD];
}

void rt_gauge_begin(struct peal_comm *comm)
{
    uint64_t turn = comm->call % RT_GAUGE_EVERY;
    comm->gauges = turn == 0 && !comm->crowded;
    for (int what = 0; what < 2; what++)
        comm->gauged[what] = comm->gauged_bytes[what] = 0;
    /* When this one has returned from the call behind a timed one, all have from that. */
    if (turn != RT_GAUGE_TAKEN)
        return;
    comm->away = any_slow(comm);
    comm->dear = most_dear(comm);
}

void rt_gauge_end(struct peal_comm *comm)
{
    comm->gauges = 0;
    uint64_t ns = comm->gauged[RT_GAUGE_STORE] + comm->gauged[RT_GAUGE_LOAD];
    if (ns)
        atomic_store_explicit(&comm->board->slow, ns > SLOW, memory_order_relaxed);
    for (int what = 0; what < 2; what++) {
        uint64_t each = comm->gauged[what];
        if (comm->gauged_bytes[what] >= DEAR_BYTES)
            atomic_store_explicit(&comm->board->dear[what],
                                  each < UINT32_MAX ? (uint32_t)each : UINT32_MAX,
                                  memory_order_relaxed);
    }
}

void rt_gauge_note(struct peal_comm *comm, enum rt_gauge what, uint64_t bytes, uint64_t ns)
{
    uint64_t *best = &comm->gauged[what];
    if (bytes < RT_GAUGE_BYTES || ns == 0)
        return;
    uint64_t each = ns * 1024 / bytes + 1;
    *best = *best && *best < each ? *best : each;
    comm->gauged_bytes[what] = bytes;
}

/* Whether some of these of a step are of another rank's buffers. */
static int has_place(const struct rt_operand *operand, unsigned count, uint8_t place)
{
    unsigned i = 0;
    while (i < count && operand[i].place != place)
        i++;
    return i < count;
}

/* One chunk, in one piece, that another rank has staged, or fetches out of where it is stored: what
 * is larger than the caches tells nothing of them. */
static void note_move(struct peal_comm *comm, const struct rt_row *row, const struct rt_step *step,
                      uint64_t ns)
{
    const struct rt_operand *operand = row->operands + step->operands;
    uint64_t bytes = (row->ends[step->chunk] - row->bounds[step->chunk]) * row->elem_bytes;
    if (row->stream || row->tile || step->more)
        return;
    if (has_place(operand, step->nsrc, RT_PEER_IN))
        rt_gauge_note(comm, RT_GAUGE_LOAD, bytes, ns);
    else if (rt_gauge_stores(row) && has_place(operand + step->nsrc, step->ndst, RT_PEER_OUT))
        rt_gauge_note(comm, RT_GAUGE_STORE, bytes, ns);
}

void rt_gauge_move(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                   const struct rt_step *step)
{
    uint64_t start = rt_now_ns();
    rt_sm_move(comm, row, lane, step);
    note_move(comm, row, step, rt_now_ns() - start);
}
