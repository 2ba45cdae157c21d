/* SPDX-License-Identifier: Apache-2.0 */
/* The service thread: its loop, and the watch over deadlines and peers. */
#include "clock.h"
#include "cuda_far.h"

#include <sched.h>
#include <string.h>

#define LOOK_NS 2000000u  /* between looks at what waits */
#define LONG_LOOKS 8u     /* of which one goes into the device */
#define BUSY_POLLS 2000u  /* in vain, before the thread naps */
#define ORDERS_NAP_US 50u /* of one that serves engines, */
#define LAST_MS 5000u
#define WATCH_NAP_US 1000u /* and of one that only watches */
#define ENTRY_NAP_US 20u

/* ---- what goes on */

/* Words that change while anything moves. */
static void read_signs(struct cuda_service *service, uint32_t *signs)
{
    struct peal_cuda_comm *comm = service->comm;
    service->begun += atomic_exchange_explicit(&comm->words->fresh, 0, memory_order_acq_rel);
    signs[4] = service->begun;
    signs[0] = __atomic_load_n(&comm->port->begun, __ATOMIC_ACQUIRE);
    signs[1] = __atomic_load_n(&comm->port->done, __ATOMIC_ACQUIRE);
    signs[2] = atomic_load_explicit(&comm->words->busy, memory_order_acquire);
    signs[3] = atomic_load_explicit(&comm->words->step, memory_order_relaxed);
    for (uint32_t lane = 0; lane < comm->most_lanes; lane++)
        signs[3] += service->head[lane];
    if (comm->far)
        signs[3] += atomic_load_explicit(&comm->far->moves, memory_order_relaxed);
}

static int is_under_way(const uint32_t *signs)
{
    return signs[0] != signs[1] || signs[2] != 0;
}

/* ---- an end */

static void fail(const struct peal_cuda_comm *comm, peal_status status, uint32_t reason,
                 const struct rt_blocked *blocked)
{
    struct rt_error error = {.status = status,
                             .rank = comm->rank,
                             .culprit = blocked->culprit,
                             .lane = blocked->lane,
                             .step = blocked->step,
                             .reason = reason,
                             .call = __atomic_load_n(&comm->port->begun, __ATOMIC_ACQUIRE)};
    if (rt_world_failed(comm->host)) /* it has been told before */
        return;
    rt_fail(comm->host->base, &error);
    rt_far_fail(comm->host, &error);
}

void cuda_read_report(const struct peal_cuda_comm *comm)
{
    const struct dev_report *report = &comm->port->report;
    uint32_t status = __atomic_load_n(&report->status, __ATOMIC_ACQUIRE);
    if (status != DEV_REPORT_MISMATCH && status != DEV_REPORT_BROKEN)
        return; /* the rest is still being written, or never was */
    struct rt_blocked blocked = {
        .lane = report->lane, .step = report->step, .culprit = report->culprit};
    if (status == DEV_REPORT_MISMATCH)
        fail(comm, PEAL_ERR_MISMATCH, RT_FINE, &blocked);
    else
        fail(comm, PEAL_ERR_PEER, RT_BROKEN, &blocked);
}

/* What is under way to others' memory is over before this rank's kernel ends, behind which they may
 * take that memory away. */
static void drain(struct cuda_service *service)
{
    const struct cuda_calls *call = &service->comm->cuda->call;
    for (unsigned i = 0; i < CUDA_STREAMS && !service->drained; i++)
        if (service->stream[i])
            (void)call->stream_synchronize(service->stream[i]);
    service->drained = 1;
}

/* Both barriers of the call under way are complete. */
static void open_barriers(struct cuda_service *service)
{
    struct peal_cuda_comm *comm = service->comm;
    struct cu_mem_op op = {.operation = CU_OP_WRITE_32};
    op.value = atomic_load_explicit(&comm->words->digest, memory_order_acquire);
    for (uint32_t r = 0; r < comm->nranks; r++)
        for (uint32_t which = CUDA_CELL_ENTER; which <= CUDA_CELL_LEAVE; which++) {
            op.address = comm->arena.at + cuda_zero_cell(comm, r, which);
            (void)comm->cuda->call.mem_ops(service->stream[0], 1, &op, 0);
        }
}

/* Lets everything end: kernels by their flag; streams by cells that are beyond every count, and by
 * barriers that are complete, again and again, for the call clears some itself. */
static void release(struct cuda_service *service)
{
    struct peal_cuda_comm *comm = service->comm;
    uint64_t bytes = cuda_zero_bytes(comm->nranks, comm->layout.nsems);
    drain(service);
    __atomic_store_n(&comm->port->abort, 1, __ATOMIC_RELEASE);
    if (atomic_load_explicit(&comm->words->busy, memory_order_relaxed) == 0)
        return;
    cuda_zero_far_release(comm);
    (void)comm->cuda->call.set_bytes(comm->arena.at + comm->cells, 0x7f, (size_t)bytes,
                                     service->stream[0]);
    open_barriers(service);
    (void)comm->cuda->call.stream_query(service->stream[0]);
}

/* ---- watching */

/* The first lane that has waited long in this call. */
static struct rt_blocked blocked_at(const struct peal_cuda_comm *comm, uint32_t call)
{
    struct rt_blocked blocked = {.culprit = RT_NOBODY};
    for (uint32_t lane = 0; lane < comm->most_lanes; lane++) {
        const struct dev_stuck *stuck = &comm->port->stuck[lane];
        if (__atomic_load_n(&stuck->call, __ATOMIC_ACQUIRE) != call)
            continue;
        blocked.lane = lane;
        blocked.step = __atomic_load_n(&stuck->step, __ATOMIC_RELAXED);
        break;
    }
    return blocked;
}

/* ---- zero-SM calls: nobody has returned from one before this rank leaves it */

static int read_barriers(struct cuda_service *service)
{
    struct peal_cuda_comm *comm = service->comm;
    const struct cuda_calls *call = &comm->cuda->call;
    return call->copy((cu_ptr)(uintptr_t)comm->barriers, comm->arena.at + comm->cells,
                      2 * sizeof *comm->barriers * comm->nranks,
                      service->stream[0]) == CU_SUCCESS &&
           call->stream_synchronize(service->stream[0]) == CU_SUCCESS;
}

/* Of the barrier that the call is in: the first rank that is not, and the first that is in another
 * call; else RT_NOBODY. */
struct absent {
    uint32_t missing;
    uint32_t other;
};

static struct absent look_at_barrier(struct cuda_service *service, uint32_t phase)
{
    struct peal_cuda_comm *comm = service->comm;
    struct absent absent = {RT_NOBODY, RT_NOBODY};
    uint32_t digest = atomic_load_explicit(&comm->words->digest, memory_order_acquire);
    const uint32_t *cells = comm->barriers + (phase == CUDA_LEAVES ? comm->nranks : 0);
    if ((phase != CUDA_ENTERS && phase != CUDA_LEAVES) || !read_barriers(service) ||
        phase != atomic_load_explicit(&comm->words->busy, memory_order_acquire) ||
        digest != atomic_load_explicit(&comm->words->digest, memory_order_acquire) ||
        atomic_load_explicit(&comm->words->fresh, memory_order_acquire)) /* these are the next's */
        return absent;
    for (uint32_t r = 0; r < comm->nranks; r++) {
        if (r == comm->rank || cells[r] == digest)
            continue;
        uint32_t *which = cells[r] ? &absent.other : &absent.missing;
        if (*which == RT_NOBODY)
            *which = r;
    }
    return absent;
}

/* The first rank that the call needs, and that has come to an end. */
static uint32_t find_lost(const struct peal_cuda_comm *comm, uint32_t phase, uint32_t missing,
                          enum rt_reason *fate)
{
    for (uint32_t r = 0; r < comm->nranks; r++) {
        if (r == comm->rank || (phase == CUDA_LEAVES && r != missing))
            continue;
        *fate = rt_fate(comm->host, r);
        if (*fate != RT_FINE)
            return r;
    }
    return RT_NOBODY;
}

static int is_late(const struct peal_comm *host)
{
    return host->timed && rt_now_ns() - host->wait_start >= (uint64_t)host->timeout_ms * 1000000u;
}

/* Now and then, as it is read from the device. 1: the call was ended; else the rank that it waits
 * for is noted, if that is known. */
static int ended_zero(struct cuda_service *service, uint32_t phase, struct rt_blocked *blocked)
{
    struct peal_cuda_comm *comm = service->comm;
    enum rt_reason fate = RT_FINE;
    if (phase == CUDA_IDLE ||
        (!is_late(&service->host) && service->host.polls % LONG_LOOKS != LONG_LOOKS - 1))
        return 0;
    struct absent absent = look_at_barrier(service, phase);
    uint32_t lost = find_lost(comm, phase, absent.missing, &fate);
    int ended = absent.other != RT_NOBODY || lost != RT_NOBODY;
    blocked->culprit = absent.other != RT_NOBODY ? absent.other
                       : lost != RT_NOBODY       ? lost
                                                 : absent.missing;
    if (ended)
        fail(comm, absent.other != RT_NOBODY ? PEAL_ERR_MISMATCH : PEAL_ERR_PEER, fate, blocked);
    return ended;
}

/* ---- looking */

/* Peers are looked at, and the deadline kept, as for calls of hosts; nothing having moved is what
 * they count as a poll in vain. */
static void look(struct cuda_service *service)
{
    struct peal_comm *host = &service->host;
    peal_diag diag = PEAL_DIAG_INIT;
    uint32_t signs[CUDA_SIGNS], reason;
    read_signs(service, signs);
    int still = memcmp(signs, service->seen, sizeof signs) == 0;
    memcpy(service->seen, signs, sizeof signs);
    host->stamp = signs[0];
    host->digest = 0;
    atomic_store_explicit(&host->board->call, signs[0], memory_order_release);
    atomic_store_explicit(&host->board->done, signs[1], memory_order_release);
    cuda_read_report(service->comm);
    int under_way = is_under_way(signs);
    atomic_store_explicit(&host->board->held_up, !under_way && cuda_beside_busy(service->comm),
                          memory_order_relaxed);
    if (!under_way)
        return;
    host->polls = still ? host->polls + 1 : 1;
    host->polls = host->polls ? host->polls : 1;
    host->timed &= still;
    struct rt_blocked blocked = blocked_at(service->comm, signs[0]);
    if (cuda_far_lost(service->comm->far, &blocked.culprit, &reason)) {
        fail(service->comm, PEAL_ERR_PEER, reason, &blocked);
        return;
    }
    blocked.culprit = RT_NOBODY;
    if (!ended_zero(service, signs[2], &blocked))
        (void)!rt_glance(host, &blocked, &diag);
}

static void watch(struct cuda_service *service)
{
    uint64_t now = rt_now_ns();
    if (now < service->next_look)
        return;
    service->next_look = now + LOOK_NS;
    if (!rt_world_failed(service->comm->host))
        look(service);
    if (!rt_world_failed(service->comm->host))
        return;
    cuda_far_cut(service->comm->far);
    release(service);
}

/* ---- the thread */

static void nap(const struct cuda_service *service, uint32_t idle)
{
    if (!service->orders)
        rt_sleep_us(WATCH_NAP_US);
    else if (idle < BUSY_POLLS)
        (void)sched_yield();
    else
        rt_sleep_us(ORDERS_NAP_US);
}

static peal_status go_on(struct cuda_service *service, uint32_t *moved, peal_diag *diag)
{
    uint32_t far = 0;
    PEAL_TRY(cuda_orders_poll(service, moved, diag));
    PEAL_TRY(cuda_far_poll(service, &far, diag));
    *moved += far;
    return PEAL_OK;
}

static void serve(struct cuda_service *service)
{
    peal_diag diag = PEAL_DIAG_INIT;
    uint32_t idle = 0;
    while (!atomic_load_explicit(&service->stop, memory_order_acquire)) {
        uint32_t taken = 0;
        if (service->orders && !rt_world_failed(service->comm->host) &&
            go_on(service, &taken, &diag) != PEAL_OK)
            peal_cuda_comm_abort(service->comm);
        watch(service);
        idle = taken ? 0 : idle + 1;
        if (!taken)
            nap(service, idle);
    }
    /* What has failed does not stay behind in a stream. */
    for (unsigned i = 0; i < LAST_MS && rt_world_failed(service->comm->host) &&
                         atomic_load_explicit(&service->comm->words->busy, memory_order_acquire);
         i++) {
        release(service);
        rt_sleep_us(1000);
    }
}

static void *run(void *argument)
{
    struct cuda_service *service = argument;
    struct peal_cuda_comm *comm = service->comm;
    int mode = CU_CAPTURE_RELAXED; /* what others capture is no concern of this thread */
    int entered = cuda_enter(comm, NULL) == PEAL_OK;
    atomic_store_explicit(&service->entered, entered ? 1 : -1, memory_order_release);
    if (!entered)
        return NULL;
    (void)comm->cuda->call.capture_mode(&mode);
    serve(service);
    cuda_leave(comm);
    return NULL;
}

/* Without it nothing would end what waits. */
static peal_status await_entry(struct cuda_service *service, peal_diag *diag)
{
    int entered;
    while (!(entered = atomic_load_explicit(&service->entered, memory_order_acquire)))
        rt_sleep_us(ENTRY_NAP_US);
    return entered > 0 ? PEAL_OK
                       : peal_fail(diag, PEAL_ERR_IO, "the service thread got no context");
}

/* ---- beginning and end */

peal_status cuda_service_start(struct peal_cuda_comm *comm, peal_diag *diag)
{
    struct cuda_service *service = peal_calloc(comm->ctx, 1, sizeof *service);
    if (!service)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    service->comm = comm;
    service->host = *comm->host;
    comm->service = service;
    PEAL_TRY(cuda_orders_make(service, diag));
    if (!service->stream[0])
        CUDA_TRY(comm->cuda, diag, stream_create, &service->stream[0], CU_STREAM_NONBLOCKING);
    if (pthread_create(&service->thread, NULL, run, service) != 0)
        return peal_fail(diag, PEAL_ERR_MEMORY, "no thread to be had");
    service->started = 1;
    return await_entry(service, diag);
}

void cuda_service_stop(struct peal_cuda_comm *comm)
{
    struct cuda_service *service = comm->service;
    if (!service)
        return;
    atomic_store_explicit(&service->stop, 1, memory_order_release);
    if (service->started)
        (void)pthread_join(service->thread, NULL);
    /* Whoever leaves is missed by nobody in a call that is over. */
    atomic_store_explicit(&comm->host->board->done,
                          __atomic_load_n(&comm->port->done, __ATOMIC_ACQUIRE),
                          memory_order_release);
    int entered = cuda_enter_to_free(comm->cuda, comm->context);
    cuda_orders_free(service, entered);
    if (entered)
        cuda_leave(comm);
    peal_free(comm->ctx, service, sizeof *service);
    comm->service = NULL;
}
