/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private buffers of other processes, read and written by the kernel (cross-memory attach): one
 * copy, and none of the heap. Each call of the kernel costs as much as a kilobyte or ten, so this
 * is for large messages; smaller ones are staged (stage.c).
 *
 * Whether the kernel lets them is found out when a comm is made: namespaces, seccomp and ptrace
 * rules decide, and ranks need one answer.
 */
#define _GNU_SOURCE
#include "clock.h"
#include "comm.h"

#include <string.h>
#if defined(__linux__)
#include <sys/uio.h>
#define HAVE_ATTACH 1
#endif

/* ---- the kernel */

/* Between local memory and that of a rank's process, where `there` is its address. */
static int transfer(const struct peal_comm *comm, uint32_t rank, int writes, char *here,
                    uintptr_t there, size_t bytes)
{
#if defined(HAVE_ATTACH)
    const struct rt_board *board = rt_board(comm->base, &comm->layout, rank);
    pid_t pid = (pid_t)atomic_load_explicit(&board->pid, memory_order_relaxed);
    for (size_t at = 0; at < bytes;) {
        struct iovec local = {here + at, bytes - at};
        struct iovec remote = {(void *)(there + at), bytes - at};
        ssize_t moved = writes ? process_vm_writev(pid, &local, 1, &remote, 1, 0)
                               : process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if (moved <= 0)
            return 0;
        at += (size_t)moved;
    }
    return 1;
#else
    (void)comm, (void)rank, (void)writes, (void)here, (void)there, (void)bytes;
    return 0;
#endif
}

/* ---- finding out */

void rt_attach_offer(struct peal_comm *comm)
{
    struct rt_board *board = comm->board;
    comm->lost = RT_NOBODY;
    comm->probe = 0x9e3779b97f4a7c15u * (comm->rank + 1ull);
    uint64_t at = comm->private_buffers && comm->attach_bytes != UINT64_MAX
                      ? (uint64_t)(uintptr_t)&comm->probe
                      : 0;
    atomic_store_explicit(&board->base, (uint64_t)(uintptr_t)comm->base, memory_order_relaxed);
    atomic_store_explicit(&board->probe, at, memory_order_relaxed);
}

static int reaches(const struct peal_comm *comm, uint32_t rank)
{
    struct rt_board *board = rt_board(comm->base, &comm->layout, rank);
    uint64_t there = atomic_load_explicit(&board->probe, memory_order_relaxed);
    uint64_t space = atomic_load_explicit(&board->pid_space, memory_order_relaxed);
    uint64_t read = 0;
    return there && space == comm->pid_space &&
           transfer(comm, rank, 0, (char *)&read, (uintptr_t)there, sizeof read) &&
           read == 0x9e3779b97f4a7c15u * (rank + 1ull);
}

static peal_status hear(struct peal_comm *comm, uint32_t rank, struct rt_vigil *vigil,
                        peal_diag *diag)
{
    struct rt_board *board = rt_board(comm->base, &comm->layout, rank);
    uint32_t answer;
    while (!(answer = atomic_load_explicit(&board->reaches, memory_order_acquire))) {
        PEAL_TRY(rt_vigil_look(comm, vigil, rank, diag));
        rt_sleep_us(20);
    }
    comm->attaches &= answer == 1;
    return PEAL_OK;
}

static size_t bounce_bytes(const struct peal_comm *comm)
{
    return ((size_t)comm->attach_sources + 1) * RT_ATTACH_PIECE;
}

peal_status rt_attach_buffer(struct peal_comm *comm, peal_diag *diag)
{
    comm->bounce = peal_alloc(comm->ctx, bounce_bytes(comm));
    return comm->bounce ? PEAL_OK : peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
}

peal_status rt_attach_agree(struct peal_comm *comm, struct rt_vigil *vigil, peal_diag *diag)
{
    uint32_t answer = 1;
    for (uint32_t r = 0; r < comm->nranks && answer == 1; r++)
        if (!reaches(comm, r))
            answer = 2;
    if (answer == 1 && rt_attach_buffer(comm, NULL) != PEAL_OK)
        answer = 2;
    atomic_store_explicit(&comm->board->reaches, answer, memory_order_release);
    comm->attaches = 1;
    for (uint32_t r = 0; r < comm->nranks; r++)
        PEAL_TRY(hear(comm, r, vigil, diag));
    return PEAL_OK;
}

void rt_attach_free(struct peal_comm *comm)
{
    if (comm->bounce)
        peal_free(comm->ctx, comm->bounce, bounce_bytes(comm));
}

/* ---- moving */

/* Whether an operand's memory is not mapped here. */
static int is_foreign(const struct peal_comm *comm, const struct rt_operand *operand)
{
    if (operand->place != RT_PEER_IN && operand->place != RT_PEER_OUT)
        return 0;
    const struct rt_board *board = rt_board(comm->base, &comm->layout, operand->rank);
    uint32_t reach = operand->place == RT_PEER_IN ? RT_REACH_IN : RT_REACH_OUT;
    return (atomic_load_explicit(&board->foreign, memory_order_relaxed) & reach) != 0;
}

/* `at`: where the operand would be, were its owner's segment ours. */
static int reach(struct peal_comm *comm, const struct rt_operand *operand, int writes, char *here,
                 const char *at, size_t bytes)
{
    const struct rt_board *board = rt_board(comm->base, &comm->layout, operand->rank);
    uintptr_t base = (uintptr_t)atomic_load_explicit(&board->base, memory_order_relaxed);
    uintptr_t there = (uintptr_t)at - (uintptr_t)comm->base + base;
    if (transfer(comm, operand->rank, writes, here, there, bytes)) {
        comm->carried[PEAL_TRANSPORT_CMA] += bytes;
        return 1;
    }
    comm->lost = operand->rank;
    return 0;
}

/* Puts `from` to every destination but number `done`. */
static int spread(struct peal_comm *comm, const struct rt_operand *operand, unsigned ndst,
                  unsigned done, const char *from, size_t skip, size_t bytes)
{
    for (unsigned i = 0; i < ndst; i++) {
        char *to = (char *)((uintptr_t)comm->dst[i] + skip);
        if (i == done)
            continue;
        if (is_foreign(comm, &operand[i])) {
            if (!reach(comm, &operand[i], 1, (char *)(uintptr_t)from, to, bytes))
                return 0;
        } else if (to != from) {
            memcpy(to, from, bytes);
        }
    }
    return 1;
}

/* The first destination that is mapped here; ndst: none. */
static unsigned own_destination(const struct peal_comm *comm, const struct rt_operand *operand,
                                unsigned ndst)
{
    unsigned i = 0;
    while (i < ndst && is_foreign(comm, &operand[i]))
        i++;
    return i;
}

/* [skip, skip + bytes) of the run that comm->src and dst hold: at most RT_ATTACH_PIECE bytes, but
 * for a plain move between own memory and foreign. */
static int move_piece(struct peal_comm *comm, const struct rt_row *row, const struct rt_step *step,
                      const struct rt_operand *operand, size_t skip, size_t bytes)
{
    const struct rt_operand *dst = operand + step->nsrc;
    unsigned own = own_destination(comm, dst, step->ndst);
    char *result = own < step->ndst ? comm->dst[own] + skip : comm->bounce;
    const char *from[PLAN_OPERANDS_MAX + 1];
    char *block = comm->bounce + RT_ATTACH_PIECE;
    for (unsigned i = 0; i < step->nsrc; i++) {
        const char *at = (const char *)((uintptr_t)comm->src[i] + skip);
        from[i] = at;
        if (!is_foreign(comm, &operand[i]))
            continue;
        char *into = step->kind == RT_MOVE ? result : block;
        if (!reach(comm, &operand[i], 0, into, at, bytes))
            return 0;
        from[i] = into;
        block += RT_ATTACH_PIECE;
    }
    if (step->kind != RT_FOLD)
        return spread(comm, dst, step->ndst, from[0] == result ? own : step->ndst, from[0], skip,
                      bytes);
    uint32_t divisor = step->final ? row->divisor : 0;
    row->fold[divisor ? 0 : step->shape_one](&result, 1, from, step->nsrc, bytes / row->elem_bytes,
                                             divisor);
    return spread(comm, dst, step->ndst, own, result, skip, bytes);
}

/* A move with one end here is one call of the kernel however long it is; backwards, some. */
#define BACK_PIECE ((size_t)1 << 20)

static size_t piece_bytes(const struct peal_comm *comm, const struct rt_step *step,
                          const struct rt_operand *operand, size_t bytes)
{
    int plain = step->kind == RT_MOVE &&
                (!is_foreign(comm, operand) ||
                 own_destination(comm, operand + step->nsrc, step->ndst) < step->ndst);
    size_t most = !plain ? RT_ATTACH_PIECE : comm->backward ? BACK_PIECE : bytes;
    return bytes < most ? bytes : most;
}

static int reaches_foreign(const struct peal_comm *comm, const struct rt_row *row,
                           const struct rt_step *step)
{
    const struct rt_operand *operand = row->operands + step->operands;
    unsigned count = (unsigned)step->nsrc + step->ndst, i = 0;
    while (i < count && !is_foreign(comm, &operand[i]))
        i++;
    return i < count;
}

int rt_attach_move(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                   const struct rt_step *step)
{
    const struct rt_operand *operand = row->operands + step->operands;
    uint32_t nth = 0;
    size_t count;
    if (!reaches_foreign(comm, row, step)) {
        (comm->gauges ? rt_gauge_move : rt_sm_move)(comm, row, lane, step);
        return 1;
    }
    while ((count = rt_next_run(comm, row, lane, step, &nth)) != 0) {
        size_t bytes = rt_move_bytes(row, step, count);
        size_t piece = piece_bytes(comm, step, operand, bytes);
        size_t last = (bytes - 1) / piece * piece;
        for (size_t at = 0; at < bytes; at += piece) {
            size_t skip = comm->backward ? last - at : at;
            if (!move_piece(comm, row, step, operand, skip,
                            bytes - skip < piece ? bytes - skip : piece))
                return 0;
        }
    }
    return 1;
}
