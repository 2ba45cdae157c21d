/* SPDX-License-Identifier: Apache-2.0 */
/* Joining and leaving a world. */
#include "comm.h"
#include "clock.h"
#include "far.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#define SPIN_POLLS 4096u
#define LISTEN_POLLS 32u /* where it listens in between */

/* ---- the table */

/* Threads may share a table; only one of them proves it. Slices are of a rank each, and their proof
 * is of where they come from: what can be said of one alone is checked. */
static peal_status prove(struct peal_world *world, peal_table *table, uint32_t rank,
                         peal_diag *diag)
{
    peal_status status = PEAL_OK;
    const struct peal_plan *first = table->nrows ? table->rows[0].plan : NULL;
    if (first && first->sliced && first->slice_rank != rank)
        return peal_fail(diag, PEAL_ERR_ARG, "rank %u with the slices of rank %u", rank,
                         first->slice_rank);
    if (first && first->sliced)
        return peal_table_check_slices(table, diag);
    (void)pthread_mutex_lock(&world->lock);
    if (!table->verified)
        status = peal_table_verify(table, NULL, NULL, NULL, diag);
    (void)pthread_mutex_unlock(&world->lock);
    return status;
}

struct peal_hash128 rt_table_digest(peal_ctx *ctx, const peal_table *table, peal_status *status)
{
    struct peal_buf buf;
    peal_buf_init(&buf, ctx, SIZE_MAX);
    for (uint32_t i = 0; i < table->nrows; i++) {
        const struct peal_plan *plan = table->rows[i].plan;
        peal_buf_put(&buf, &plan->id, sizeof plan->id);
        peal_buf_put(&buf, &plan->max_bytes, sizeof plan->max_bytes);
    }
    struct peal_hash128 digest = peal_hash128(buf.data, buf.used);
    *status = buf.status;
    peal_buf_free(&buf);
    return digest;
}

static peal_status check_room(const struct rt_layout *has, const peal_table *table,
                              peal_status failure, peal_diag *diag)
{
    struct rt_layout need;
    PEAL_TRY(rt_layout_make(table, has->nranks, has->heap_bytes, &need, diag));
    const struct {
        const char *what;
        uint64_t need;
        uint64_t has;
    } rooms[] = {
        {"bytes of scratch memory a rank", need.scratch_bytes, has->scratch_bytes},
        {"semaphores for each pair of ranks", need.nsems, has->nsems},
        {"bytes for packets a rank", need.packet_bytes, has->packet_bytes},
        {"bytes for calls ahead a rank", need.ring_bytes, has->ring_bytes},
        {"packets of calls ahead a rank", need.ring_slots, has->ring_slots},
        {"bytes for counts a rank", need.count_bytes, has->count_bytes},
    };
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        if (rooms[i].need > rooms[i].has)
            return peal_fail(diag, failure,
                             "the table needs %llu %s, and the world was made for a table "
                             "with %llu: another world has to be made for it",
                             (unsigned long long)rooms[i].need, rooms[i].what,
                             (unsigned long long)rooms[i].has);
    return PEAL_OK;
}

peal_status rt_table_check(struct peal_world *world, peal_table *table, uint32_t rank,
                           struct peal_hash128 *digest, peal_diag *diag)
{
    peal_status status;
    for (uint32_t i = 0; i < table->nrows; i++)
        if (!table->rows[i].plan)
            return peal_fail(diag, PEAL_ERR_ARG, "row %u is not compiled", i);
    PEAL_TRY(prove(world, table, rank, diag));
    PEAL_TRY(check_room(&world->segment.layout, table, PEAL_ERR_RANGE, diag));
    *digest = rt_table_digest(world->ctx, table, &status);
    return status == PEAL_OK ? PEAL_OK : peal_fail(diag, status, "out of memory");
}

/* ---- meeting */

/* Which process it is: from here on the others notice its end. */
static peal_status claim(struct peal_comm *comm, peal_diag *diag)
{
    struct rt_board *board = comm->board;
    uint32_t nobody = 0;
    if (!atomic_compare_exchange_strong_explicit(&board->joined, &nobody, 1, memory_order_acq_rel,
                                                 memory_order_acquire))
        return peal_fail(diag, PEAL_ERR_ARG, "rank %u has joined this world before", comm->rank);
    atomic_store_explicit(&board->pid_space, comm->pid_space, memory_order_relaxed);
    atomic_store_explicit(&board->pid, (uint32_t)getpid(), memory_order_release);
    comm->claimed = 1;
    return PEAL_OK;
}

/* It has left; or has never come, and may try again. */
static void unclaim(struct peal_comm *comm)
{
    if (comm->announced)
        atomic_store_explicit(&comm->board->left, 1, memory_order_release);
    else if (comm->claimed)
        atomic_store_explicit(&comm->board->joined, 0, memory_order_release);
}

static void announce(struct peal_comm *comm, struct peal_hash128 digest)
{
    struct rt_board *board = comm->board;
    atomic_store_explicit(&board->table[0], digest.low, memory_order_relaxed);
    atomic_store_explicit(&board->table[1], digest.high, memory_order_relaxed);
    rt_attach_offer(comm);
    rt_parts_offer(comm);
    atomic_store_explicit(&board->joined, 2, memory_order_release);
    comm->announced = 1;
}

static peal_status meet_one(struct peal_comm *comm, uint32_t rank, struct peal_hash128 digest,
                            struct rt_vigil *vigil, peal_diag *diag)
{
    struct rt_board *board = rt_board(comm->base, &comm->layout, rank);
    while (atomic_load_explicit(&board->joined, memory_order_acquire) != 2) {
        PEAL_TRY(rt_vigil_look(comm, vigil, rank, diag));
        rt_sleep_us(100);
    }
    uint64_t pid = atomic_load_explicit(&board->pid, memory_order_relaxed);
    uint64_t space = atomic_load_explicit(&board->pid_space, memory_order_relaxed);
    comm->apart |= pid != (uint32_t)getpid() || space != comm->pid_space;
    uint64_t low = atomic_load_explicit(&board->table[0], memory_order_relaxed);
    uint64_t high = atomic_load_explicit(&board->table[1], memory_order_relaxed);
    if (low == digest.low && high == digest.high)
        return PEAL_OK;
    return peal_fail(diag, PEAL_ERR_MISMATCH, "rank %u has another table than rank %u", rank,
                     comm->rank);
}

static peal_status meet(struct peal_comm *comm, struct peal_hash128 digest, peal_diag *diag)
{
    struct rt_vigil vigil = rt_vigil_begin(comm, 1);
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (r != comm->rank && !rt_is_far(comm, r))
            PEAL_TRY(meet_one(comm, r, digest, &vigil, diag));
    /* Whose memory lies on another host, no one attaches to: then none does, by the same rule on
     * all ranks. */
    if (!comm->far)
        PEAL_TRY(rt_attach_agree(comm, &vigil, diag));
    rt_parts_agree(comm);
    return PEAL_OK;
}

/* ---- creation */

static void set_patience(struct peal_comm *comm)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int alone = rt_far_alone(comm);
    uint32_t each = 1u + (comm->worker != NULL) + (comm->far != NULL && !alone);
    uint32_t threads = 0; /* of this host */
    for (uint32_t r = 0; r < comm->nranks; r++)
        threads += rt_is_far(comm, r) ? 0 : each;
    comm->crowded = processors > 0 && threads > (unsigned long)processors;
    comm->spin = comm->crowded ? 1 : alone ? LISTEN_POLLS : SPIN_POLLS;
    /* Staged by parts, what a rank has copied in is read on the same processor: four ranks on two
     * gathered blocks of 8 MiB in 5.8 ms, attached in 9.2. */
    if (comm->crowded && comm->attach_chooses)
        comm->attach_moves = comm->attach_folds = UINT64_MAX;
}

static void fill(struct peal_comm *comm, struct peal_world *world, const peal_table *table,
                 uint32_t rank)
{
    comm->world = world;
    comm->far = world->job ? world->job->far : NULL;
    comm->ctx = world->ctx;
    comm->base = world->segment.base;
    comm->layout = world->segment.layout;
    comm->rank = rank;
    comm->nranks = table->nranks;
    comm->call = 1;
    comm->timeout_ms = world->timeout_ms;
    comm->private_buffers = world->private_buffers;
    comm->attach_bytes = world->attach_bytes;
    comm->attach_moves = world->attach_moves;
    comm->attach_folds = world->attach_folds;
    comm->attach_chooses = world->attach_bytes != world->attach_moves;
    /* Every rank draws its own sequence. */
    comm->chaos = world->chaos ? world->chaos * 0x9e3779b97f4a7c15u + rank + 1 : 0;
    if (world->chaos && !comm->chaos)
        comm->chaos = 1;
    comm->board = rt_board(comm->base, &comm->layout, rank);
    comm->kern = kern_select();
    comm->cache_bytes = rt_cache_bytes();
    comm->pid_space = rt_pid_space();
}

static peal_status build(struct peal_comm *comm, const peal_table *table, peal_diag *diag)
{
    peal_status status;
    struct peal_hash128 digest = rt_table_digest(comm->ctx, table, &status);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "out of memory");
    /* All that can fail here does so before the others are told that this rank is there. */
    status = rt_queue_make(comm, diag);
    if (status == PEAL_OK)
        status = claim(comm, diag);
    if (status == PEAL_OK)
        status = rt_image_make(comm, table, diag);
    if (status == PEAL_OK)
        status = rt_worker_start(comm, diag);
    if (status == PEAL_OK && comm->world->segment.counts)
        status = rt_segment_reserve_rank(&comm->world->segment, comm->rank, diag);
    if (comm->world->job)
        status = rt_job_agree(comm->world->job, status, diag);
    if (status != PEAL_OK)
        return status;
    set_patience(comm);
    rt_numa_settle(comm);
    announce(comm, digest);
    status = meet(comm, digest, diag);
    if (status == PEAL_OK)
        status = rt_far_start(comm, diag);
    if (status != PEAL_OK)
        rt_far_give_up(comm);
    return status;
}

peal_status peal_comm_create(peal_world *world, peal_table *table, uint32_t rank, peal_diag *diag,
                             peal_comm **comm_out)
{
    if (!world || !table || !comm_out)
        return peal_fail(diag, PEAL_ERR_ARG, "a comm needs a world and a table");
    if (table->nranks != world->segment.layout.nranks || rank >= table->nranks)
        return peal_fail(diag, PEAL_ERR_ARG, "rank %u of a world of %u with a table of %u", rank,
                         world->segment.layout.nranks, table->nranks);
    if (world->job && world->job->rank != rank)
        return peal_fail(diag, PEAL_ERR_ARG, "rank %u in a world joined as rank %u", rank,
                         world->job->rank);
    PEAL_TRY(prove(world, table, rank, diag));
    PEAL_TRY(check_room(&world->segment.layout, table, PEAL_ERR_MISMATCH, diag));
    struct peal_comm *comm = peal_calloc(world->ctx, 1, sizeof *comm);
    if (!comm)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    rt_world_retain(world);
    fill(comm, world, table, rank);
    peal_status status = build(comm, table, diag);
    if (status != PEAL_OK) {
        peal_comm_destroy(comm);
        return status;
    }
    /* All have joined: the name has served. */
    (void)pthread_mutex_lock(&world->lock);
    rt_segment_unlink(&world->segment);
    (void)pthread_mutex_unlock(&world->lock);
    *comm_out = comm;
    return PEAL_OK;
}

void peal_comm_destroy(peal_comm *comm)
{
    if (!comm)
        return;
    struct peal_world *world = comm->world;
    rt_queue_free(comm);
    rt_far_stop(comm);
    rt_worker_stop(comm);
    unclaim(comm);
    rt_attach_free(comm);
    rt_trace_free(comm);
    rt_image_free(comm);
    peal_free(comm->ctx, comm, sizeof *comm);
    rt_world_release(world);
}

/* ---- the rest */

static void *take(peal_comm *comm, size_t bytes)
{
    uint64_t room = comm->layout.heap_bytes - comm->heap_used - 2 * comm->staged_bytes;
    if (bytes > room)
        return NULL;
    uint64_t taken = ((uint64_t)bytes + RT_PAGE - 1) & ~(uint64_t)(RT_PAGE - 1);
    if (taken > room)
        return NULL;
    uint64_t at = comm->layout.heap + comm->layout.heap_bytes * comm->rank + comm->heap_used;
    const struct peal_world *world = comm->world;
    if ((world->job || world->segment.counts) &&
        rt_segment_reserve(&world->segment, at, taken, NULL) != PEAL_OK)
        return NULL;
    char *memory = comm->base + at;
    comm->heap_used += taken;
    return memory;
}

void *peal_mem_alloc(peal_comm *comm, size_t bytes)
{
    if (!comm || bytes == 0)
        return NULL;
    rt_queue_hold(comm);
    void *memory = take(comm, bytes);
    rt_queue_leave(comm);
    return memory;
}

void peal_comm_abort(peal_comm *comm)
{
    if (!comm)
        return;
    struct rt_error error = {.status = PEAL_ERR_ABORTED, .rank = comm->rank, .culprit = RT_NOBODY};
    rt_fail(comm->base, &error);
    rt_far_fail(comm, &error);
}

peal_status peal_comm_get(const peal_comm *comm, peal_comm_info *info)
{
    if (!comm || !info)
        return PEAL_ERR_ARG;
    rt_queue_hold(comm);
    peal_comm_info full = {.size = sizeof full,
                           .rank = comm->rank,
                           .ranks = comm->nranks,
                           .calls = comm->calls,
                           .engines = comm->engines,
                           .stand_ins = comm->stand_ins};
    rt_queue_leave(comm);
    return peal_export(info, &full, sizeof full);
}
