/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives: from the caller's arguments to the run of a row. */
#include "clock.h"
#include "comm.h"
#include "far.h"

/* ---- the caller's buffers */

/* Of a buffer that this rank's part has no use for nothing is asked. *in_place: as the row knows
 * it; where nothing is moved, nothing is in place: NULL is as good as any buffer. */
static inline peal_status check_buffers(const struct rt_row *row, const char *in, const char *out,
                                        int *in_place, peal_diag *diag)
{
    uintptr_t a = (uintptr_t)in;
    uintptr_t b = (uintptr_t)out;
    if ((!in && row->in_bytes) || (!out && row->out_bytes))
        return peal_fail(diag, PEAL_ERR_ARG, "a buffer is NULL");
    if (((a & row->in_align) | (b & row->out_align)) != 0)
        return peal_fail(diag, PEAL_ERR_ARG, "a buffer is not aligned to its elements");
    *in_place = 0;
    if (!row->in_bytes || !row->out_bytes)
        return PEAL_OK;
    *in_place = row->knows_in_place && a - b == (uintptr_t)row->alias_bytes;
    if (!*in_place && (a - b < row->out_bytes || b - a < row->in_bytes))
        return peal_fail(diag, PEAL_ERR_ARG, "the buffers overlap in another way than in place");
    return PEAL_OK;
}

peal_status rt_check_buffers(const struct rt_row *row, const void *in, const void *out,
                             int *in_place, peal_diag *diag)
{
    return check_buffers(row, in, out, in_place, diag);
}

/* ---- entering */

/* Peers read these only behind a signal or packet of this call. */
static void post_buffers(struct peal_comm *comm)
{
    uint64_t in = (uint64_t)((uintptr_t)comm->shared_in - (uintptr_t)comm->base);
    uint64_t out = (uint64_t)((uintptr_t)comm->shared_out - (uintptr_t)comm->base);
    if (in != comm->posted_in)
        atomic_store_explicit(&comm->board->in, in, memory_order_relaxed);
    if (out != comm->posted_out)
        atomic_store_explicit(&comm->board->out, out, memory_order_relaxed);
    if (comm->foreign != comm->posted_foreign)
        atomic_store_explicit(&comm->board->foreign, comm->foreign, memory_order_relaxed);
    comm->posted_foreign = comm->foreign;
    comm->posted_in = in;
    comm->posted_out = out;
}

static void forget(char *memory, uint64_t bytes)
{
    rt_word *words = (rt_word *)(void *)memory;
    for (uint64_t i = 0; i < bytes / sizeof *words; i++)
        atomic_store_explicit(&words[i], 0, memory_order_relaxed);
}

/* Stamps are the lower half of a call's number, so one may return after 2^32 calls. Long before,
 * each rank forgets the old ones. When all lanes of a call have ended, the memory of its packets is
 * its owner's alone until others hear that he has returned: what was sent was read, and nobody
 * stores to it in a later call before. What it has written down of calls goes as it would be
 * written over: by the next one that has the same place. */
static void forget_old(const struct peal_comm *comm, const struct rt_row *row)
{
    const struct rt_layout *layout = &comm->layout;
    uint64_t even = 2ull * comm->rank;
    forget(comm->base + layout->packets + layout->packet_bytes * (even + comm->call % 2),
           layout->packet_bytes);
    for (uint64_t slot = 0; slot < layout->ring_slots; slot++)
        atomic_store_explicit(rt_heads(comm->base, layout, comm->rank, slot) +
                                  comm->call % RT_AHEAD_MOST,
                              0, memory_order_relaxed);
    if (!row->ahead)
        atomic_store_explicit(&comm->board->ahead[comm->stamp % (2 * RT_AHEAD_MOST)], 0,
                              memory_order_relaxed);
}

/* A fresh packet memory is stamped 0, which is therefore no call's stamp. */
static void number_call(struct peal_comm *comm, const struct rt_row *row)
{
    if ((uint32_t)comm->call == 0)
        comm->call += RT_AHEAD_MOST;
    comm->stamp = (uint32_t)comm->call;
    comm->copy = comm->stamp & (row->copies - 1);
}

static void enter(struct peal_comm *comm, const struct rt_row *row, int in_place)
{
    number_call(comm, row);
    if (comm->crowded)
        rt_crowd_note(comm);
    uint64_t mixed = (row->key[in_place] + comm->call) * 0x9e3779b97f4a7c15u;
    comm->digest = (uint32_t)(mixed >> 32);
    comm->header = (uint64_t)comm->stamp << 32 | comm->digest;
    atomic_store_explicit(&comm->board->call, (uint64_t)comm->digest << 32 | comm->stamp,
                          memory_order_release);
    if (row->ahead)
        atomic_store_explicit(&comm->board->ahead[comm->stamp % (2 * RT_AHEAD_MOST)],
                              (uint64_t)comm->digest << 32 | comm->stamp, memory_order_release);
    if (row->shares)
        post_buffers(comm);
}

/* ---- the calls */

/* Where nobody reaches for another's buffers there is nothing to do but, now and then, for the
 * gauge. */
static inline peal_status stage(struct peal_comm *comm, const struct rt_row *row, peal_diag *diag)
{
    if (row->shares || comm->call % RT_GAUGE_EVERY <= RT_GAUGE_TAKEN)
        return rt_stage(comm, row, diag);
    comm->foreign = 0;
    comm->attached = 0;
    return PEAL_OK;
}

/* The whole call, mostly. */
static inline peal_status begin_part(struct peal_comm *comm, struct rt_row *row, int in_place,
                                     peal_diag *diag)
{
    comm->shared_in = comm->in;
    comm->shared_out = comm->out;
    if (comm->private_buffers)
        PEAL_TRY(stage(comm, row, diag));
    else if (comm->apart && row->shares)
        PEAL_TRY(rt_check_seen(comm, row, diag));
    if (comm->measures && comm->part == 0)
        comm->begun = rt_now_ns();
    PEAL_TRY(rt_far_enter(comm, row, diag));
    comm->in_place = in_place;
    enter(comm, row, in_place);
    rt_far_offer(comm);
    return PEAL_OK;
}

static inline peal_status begin(peal_comm *comm, const struct rt_call *call, struct rt_row **found,
                                peal_diag *diag)
{
    struct rt_row *row = comm->last;
    if (!row || !rt_row_serves(row, call->args)) {
        PEAL_TRY(rt_select(comm, call->args, &row, diag));
        comm->last = row;
    }
    int in_place;
    /* Plans do not write their input; in place, it is the output. */
    comm->in = (char *)(uintptr_t)call->in;
    comm->out = call->out;
    PEAL_TRY(check_buffers(row, comm->in, comm->out, &in_place, diag));
    if (comm->failed || rt_world_failed(comm))
        return rt_failure(comm, diag);
    if (call->send_counts)
        rt_counts_begin(comm, call->send_counts, call->args.count);
    comm->part = 0;
    rt_back_begin(comm, row, in_place);
    if (row->parts > 1)
        rt_part_cut(row, rt_part_at(comm, row));
    PEAL_TRY(begin_part(comm, row, in_place, diag));
    rt_back_turn(row);
    *found = row;
    return PEAL_OK;
}

static inline peal_status end_part(struct peal_comm *comm, const struct rt_row *row,
                                   peal_diag *diag)
{
    rt_far_leave(comm);
    if (comm->shared_out != comm->out || comm->gauges)
        rt_unstage(comm, row);
    peal_status status = rt_ahead_end(comm, row, diag);
    if (comm->call % 0x40000000u < 2 * RT_AHEAD_MOST && comm->call > 2 * RT_AHEAD_MOST)
        forget_old(comm, row);
    atomic_store_explicit(&comm->board->done, comm->stamp, memory_order_release);
    rt_rouse_any(comm);
    comm->call++;
    return status;
}

static inline peal_status end(peal_comm *comm, struct rt_row *row, peal_diag *diag)
{
    peal_status status = end_part(comm, row, diag);
    if (row->parts > 1)
        rt_cut(row, 0, row->count);
    row->staged += comm->shared_in != comm->in || comm->shared_out != comm->out;
    row->attached += comm->attached && comm->foreign;
    row->calls++;
    row->moved_bytes += row->message_bytes;
    uint64_t ns = comm->measures ? rt_now_ns() - comm->begun : 0;
    row->time_ns += ns;
    rt_carried_end(comm, row, ns);
    comm->calls++;
    return status;
}

static peal_status next_part(struct peal_comm *comm, struct rt_row *row, int *more, peal_diag *diag)
{
    *more = comm->part + 1 < row->parts;
    if (!*more)
        return PEAL_OK;
    PEAL_TRY(end_part(comm, row, diag));
    if (rt_world_failed(comm))
        return rt_failure(comm, diag);
    comm->part++;
    rt_part_cut(row, rt_part_at(comm, row));
    return begin_part(comm, row, comm->in_place, diag);
}

peal_status rt_call_next(struct peal_comm *comm, struct rt_row *row, int *more, peal_diag *diag)
{
    return next_part(comm, row, more, diag);
}

static inline peal_status run(peal_comm *comm, struct rt_row *row, peal_diag *diag)
{
    peal_status status;
    int more;
    do {
        status = rt_run(comm, row, diag);
        if (status == PEAL_OK)
            status = next_part(comm, row, &more, diag);
    } while (status == PEAL_OK && more);
    if (status != PEAL_OK)
        rt_far_cut(comm);
    return status;
}

peal_status rt_call_begin(struct peal_comm *comm, const struct rt_call *call, struct rt_row **row,
                          peal_diag *diag)
{
    return begin(comm, call, row, diag);
}

void rt_call_cut(struct peal_comm *comm)
{
    rt_far_cut(comm);
}

/* What is wrong with a rank's counts is told to all, so that they hear of it in the same call. */
static peal_status give_counts(const struct peal_comm *comm, const struct rt_call *call,
                               peal_diag *diag)
{
    if (comm->bad_sender != RT_NOBODY)
        return peal_fail(diag, PEAL_ERR_ARG, "rank %u sends more than the %zu elements of a block",
                         comm->bad_sender, call->args.count);
    for (uint32_t r = 0; call->recv_counts && r < comm->nranks; r++)
        call->recv_counts[r] = (size_t)comm->recv_counts[r];
    return PEAL_OK;
}

peal_status rt_call_end(struct peal_comm *comm, const struct rt_call *call, struct rt_row *row,
                        peal_diag *diag)
{
    PEAL_TRY(end(comm, row, diag));
    return call->send_counts ? give_counts(comm, call, diag) : PEAL_OK;
}

static inline peal_status call(peal_comm *comm, const void *in, void *out, struct rt_args args,
                               peal_diag *diag)
{
    if (!comm)
        return peal_fail(diag, PEAL_ERR_ARG, "no comm");
    struct rt_call asked = {args, in, out, NULL, NULL};
    struct rt_row *row = NULL;
    if (comm->lined)
        return rt_queue_call(comm, &asked, diag);
    PEAL_TRY(begin(comm, &asked, &row, diag));
    PEAL_TRY(run(comm, row, diag));
    return end(comm, row, diag);
}

peal_status peal_allreduce(peal_comm *comm, const void *in, void *out, size_t count,
                           peal_dtype dtype, peal_op op, peal_diag *diag)
{
    struct rt_args args = {PEAL_ALLREDUCE, 0, 0, dtype, op, count};
    return call(comm, in, out, args, diag);
}

peal_status peal_reduce_scatter(peal_comm *comm, const void *in, void *out, size_t count,
                                peal_dtype dtype, peal_op op, peal_diag *diag)
{
    struct rt_args args = {PEAL_REDUCE_SCATTER, 0, 0, dtype, op, count};
    return call(comm, in, out, args, diag);
}

peal_status peal_allgather(peal_comm *comm, const void *in, void *out, size_t count,
                           peal_dtype dtype, peal_diag *diag)
{
    struct rt_args args = {PEAL_ALLGATHER, 0, 0, dtype, PEAL_SUM, count};
    return call(comm, in, out, args, diag);
}

peal_status peal_broadcast(peal_comm *comm, const void *in, void *out, size_t count,
                           peal_dtype dtype, uint32_t root, peal_diag *diag)
{
    struct rt_args args = {PEAL_BROADCAST, root, 0, dtype, PEAL_SUM, count};
    return call(comm, in, out, args, diag);
}

peal_status peal_reduce(peal_comm *comm, const void *in, void *out, size_t count, peal_dtype dtype,
                        peal_op op, uint32_t root, peal_diag *diag)
{
    struct rt_args args = {PEAL_REDUCE, root, 0, dtype, op, count};
    return call(comm, in, out, args, diag);
}

peal_status peal_scatter(peal_comm *comm, const void *in, void *out, size_t count, peal_dtype dtype,
                         uint32_t root, peal_diag *diag)
{
    struct rt_args args = {PEAL_SCATTER, root, 0, dtype, PEAL_SUM, count};
    return call(comm, in, out, args, diag);
}

peal_status peal_gather(peal_comm *comm, const void *in, void *out, size_t count, peal_dtype dtype,
                        uint32_t root, peal_diag *diag)
{
    struct rt_args args = {PEAL_GATHER, root, 0, dtype, PEAL_SUM, count};
    return call(comm, in, out, args, diag);
}

peal_status peal_alltoall(peal_comm *comm, const void *in, void *out, size_t count,
                          peal_dtype dtype, peal_diag *diag)
{
    struct rt_args args = {PEAL_ALLTOALL, 0, 0, dtype, PEAL_SUM, count};
    return call(comm, in, out, args, diag);
}

peal_status peal_alltoallv(peal_comm *comm, const void *in, const size_t *send_counts, void *out,
                           size_t *recv_counts, size_t count, peal_dtype dtype, peal_diag *diag)
{
    struct rt_args args = {PEAL_ALLTOALLV, 0, 0, dtype, PEAL_SUM, count};
    struct rt_call asked = {args, in, out, send_counts, recv_counts};
    struct rt_row *row = NULL;
    if (!comm || !send_counts)
        return peal_fail(diag, PEAL_ERR_ARG, comm ? "no counts" : "no comm");
    if (!comm->send_counts)
        return peal_fail(diag, PEAL_ERR_RANGE, "the table has no alltoallv");
    if (comm->lined)
        return rt_queue_call(comm, &asked, diag);
    PEAL_TRY(begin(comm, &asked, &row, diag));
    PEAL_TRY(run(comm, row, diag));
    return rt_call_end(comm, &asked, row, diag);
}

peal_status peal_sendrecv(peal_comm *comm, const void *in, void *out, size_t count,
                          peal_dtype dtype, uint32_t from, uint32_t to, peal_diag *diag)
{
    struct rt_args args = {PEAL_SENDRECV, from, to, dtype, PEAL_SUM, count};
    return call(comm, in, out, args, diag);
}

peal_status peal_custom(peal_comm *comm, const void *in, void *out, size_t count, peal_dtype dtype,
                        peal_op op, peal_diag *diag)
{
    struct rt_args args = {PEAL_CUSTOM, 0, 0, dtype, op, count};
    return call(comm, in, out, args, diag);
}

peal_status peal_barrier(peal_comm *comm, peal_diag *diag)
{
    struct rt_args args = {PEAL_BARRIER, 0, 0, PEAL_UINT8, PEAL_SUM, 0};
    return call(comm, NULL, NULL, args, diag);
}
