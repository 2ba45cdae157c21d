/* SPDX-License-Identifier: Apache-2.0 */
/* Making and ending the comm of a rank on a device. */
#include "cuda_far.h"
#include "device_image.h"

#include <string.h>

#define DEFAULT_HEAP (256ull << 20)

/* ---- contexts */

peal_status cuda_enter(const struct peal_cuda_comm *comm, peal_diag *diag)
{
    return CUDA_DO(comm->cuda, diag, context_push, comm->context);
}

int cuda_enter_to_free(const struct peal_cuda *cuda, cu_handle context)
{
    return cuda->call.context_push(context) == CU_SUCCESS ||
           cuda->call.context_push(context) == CU_SUCCESS;
}

void cuda_leave(const struct peal_cuda_comm *comm)
{
    cu_handle context;
    (void)comm->cuda->call.context_pop(&context);
}

/* ---- parameters */

static peal_status choose_share(struct peal_cuda_comm *comm, peal_diag *diag)
{
    peal_cuda_share *share = &comm->params.share;
    if (*share == PEAL_CUDA_SHARE_AUTO)
        *share = comm->about.vmm ? PEAL_CUDA_SHARE_FD : PEAL_CUDA_SHARE_IPC;
    if (*share == PEAL_CUDA_SHARE_FD && !comm->about.vmm)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "%s shares no memory by file descriptors",
                         comm->about.name);
    if (*share == PEAL_CUDA_SHARE_FABRIC && !comm->about.fabric)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "%s has no fabric handles", comm->about.name);
    return PEAL_OK;
}

static peal_status take_params(struct peal_cuda_comm *comm, const peal_cuda_params *given,
                               peal_diag *diag)
{
    peal_cuda_params *params = &comm->params;
    if (peal_import(params, sizeof *params, given) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "parameters of an unknown size");
    if (params->queues > CUDA_QUEUES_MAX || (unsigned)params->share > PEAL_CUDA_SHARE_FABRIC)
        return peal_fail(diag, PEAL_ERR_ARG, "%u queues, at most %u; or no way to share memory",
                         params->queues, CUDA_QUEUES_MAX);
    if (params->heap_bytes > RT_WORLD_MAX)
        return peal_fail(diag, PEAL_ERR_RANGE, "a heap of %llu bytes",
                         (unsigned long long)params->heap_bytes);
    params->heap_bytes = params->heap_bytes ? params->heap_bytes : DEFAULT_HEAP;
    params->queues = params->queues ? params->queues : 1;
    comm->device = params->device;
    return PEAL_OK;
}

/* Data, and behind it a word: seen in that order by the device that both are written to, else only
 * behind a flush, which waits of streams may do and loads of kernels do not. */
static void choose_flush(struct peal_cuda_comm *comm)
{
    comm->ordered =
        cuda_attribute(comm->cuda, comm->device, CU_ATTR_RDMA_ORDER) >= CU_RDMA_ORDER_OWNER;
    comm->wait_flags = CU_WAIT_GEQ;
    if (!comm->ordered && cuda_attribute(comm->cuda, comm->device, CU_ATTR_FLUSH))
        comm->wait_flags |= CU_WAIT_FLUSH;
}

/* What it finds the other ranks are told. */
static peal_status take_device(struct peal_cuda_comm *comm, peal_diag *diag)
{
    comm->about.size = sizeof comm->about;
    PEAL_TRY(peal_cuda_device(comm->cuda, comm->device, diag, &comm->about));
    PEAL_TRY(choose_share(comm, diag));
    choose_flush(comm);
    return CUDA_DO(comm->cuda, diag, context_retain, &comm->context, (cu_device)comm->device);
}

/* ---- what the rank has by itself */

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + CUDA_ARENA_ALIGN - 1) / CUDA_ARENA_ALIGN * CUDA_ARENA_ALIGN;
}

/* Where a rank of another host may be of this one's NVLink domain, fabric handles are tried, too.
 */
static int handle_types(const struct peal_cuda_comm *comm)
{
    int far = 0;
    if (comm->params.share == PEAL_CUDA_SHARE_IPC)
        return 0;
    if (comm->params.share == PEAL_CUDA_SHARE_FABRIC)
        return CU_HANDLE_FABRIC;
    for (uint32_t r = 0; r < comm->nranks; r++)
        far |= rt_is_far(comm->host, r);
    return far && comm->about.fabric ? CU_HANDLE_FD | CU_HANDLE_FABRIC : CU_HANDLE_FD;
}

static peal_status make_arena(struct peal_cuda_comm *comm, const peal_table *table, peal_diag *diag)
{
    PEAL_TRY(peal_dev_layout_make(table, &comm->layout, diag));
    comm->cells = aligned(comm->layout.total);
    comm->heap = comm->cells + aligned(cuda_zero_bytes(comm->nranks, comm->layout.nsems));
    comm->heap_end = comm->heap + aligned(comm->params.heap_bytes);
    return cuda_block_make(comm->cuda, comm->device, (size_t)comm->heap_end, (size_t)comm->heap,
                           handle_types(comm), &comm->arena, diag);
}

/* The port, behind it the words, and room for what the barriers' cells hold. */
static peal_status make_port(struct peal_cuda_comm *comm, peal_diag *diag)
{
    void *pinned = NULL;
    uint64_t words = aligned(dev_port_bytes(comm->nranks, comm->layout.nsems));
    comm->port_bytes = words + sizeof(struct cuda_words) + 2 * sizeof(uint32_t) * comm->nranks;
    CUDA_TRY(comm->cuda, diag, host_alloc, &pinned, (size_t)comm->port_bytes,
             CU_HOST_PORTABLE | CU_HOST_MAPPED);
    memset(pinned, 0, (size_t)comm->port_bytes);
    comm->port = pinned;
    comm->port->bad_sender = DEV_NOBODY;
    comm->words = (struct cuda_words *)(void *)((char *)pinned + words);
    comm->barriers = (uint32_t *)(void *)(comm->words + 1);
    CUDA_TRY(comm->cuda, diag, host_device, &comm->port_device, pinned, 0);
    comm->words_device = comm->port_device + words;
    return PEAL_OK;
}

/* Whether a program of the rank stores to all ranks of a group at once, or folds from them. */
static int uses_groups(const peal_table *table, uint32_t rank)
{
    for (uint32_t i = 0; i < table->nrows; i++) {
        const struct plan_rank *program = peal_plan_program(table->rows[i].plan, rank);
        for (uint32_t k = 0; program && k < program->nsteps; k++)
            if (peal_plan_op_groups(program->steps[k].op))
                return 1;
    }
    return 0;
}

static peal_status make_own(struct peal_cuda_comm *comm, const peal_table *table, peal_diag *diag)
{
    comm->peers = peal_calloc(comm->ctx, comm->nranks, sizeof *comm->peers);
    if (!comm->peers)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    comm->uses_groups = uses_groups(table, comm->rank);
    PEAL_TRY(cuda_corner_make(comm, diag));
    PEAL_TRY(make_arena(comm, table, diag));
    PEAL_TRY(make_port(comm, diag));
    PEAL_TRY(cuda_kernel_make(comm, diag));
    cuda_beside_enter(comm);
    PEAL_TRY(cuda_nic_make(comm, table, diag));
    return cuda_zero_make(comm, table, diag);
}

/* ---- what it has of the others */

static int needs_direct(const struct rt_row *row, const struct rt_step *step, uint32_t rank)
{
    int kernel = step->engine == PEAL_ENGINE_SM || step->engine == PEAL_ENGINE_TMA;
    if (step->kind == RT_SIGNAL || step->kind == RT_TELL)
        return kernel && step->peer == rank;
    if (step->kind > RT_ASYNC || !kernel)
        return 0;
    for (uint32_t i = 0; i < (step->more + 1) * ((uint32_t)step->nsrc + step->ndst); i++)
        if (row->operands[step->operands + i].rank == rank)
            return 1;
    return 0;
}

static int row_needs_direct(const struct rt_row *row, uint32_t rank)
{
    for (uint32_t i = 0; i < row->nsteps; i++)
        if (needs_direct(row, &row->steps[i], rank))
            return 1;
    return 0;
}

/* The plans are for a machine, and this is one. */
static peal_status check_reach(const struct peal_cuda_comm *comm, peal_diag *diag)
{
    for (uint32_t r = 0; r < comm->nranks; r++) {
        int direct = 0;
        for (uint32_t i = 0; i < comm->host->nrows; i++)
            direct |= row_needs_direct(&comm->host->rows[i], r);
        if (direct && comm->peers[r].reach != CUDA_DIRECT && !comm->params.zero_sm)
            return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                             "a plan loads and stores memory of rank %u, which this rank's device "
                             "does not reach: plan for a machine without peer access",
                             r);
    }
    return PEAL_OK;
}

static peal_status place_image(struct peal_cuda_comm *comm, const peal_table *table,
                               peal_diag *diag)
{
    void *image = NULL;
    size_t bytes = 0;
    PEAL_TRY(check_reach(comm, diag));
    if (comm->uses_groups && !comm->bound) /* lanes store and fold for the switch */
        comm->stand_ins |= 1u << PEAL_ENGINE_SM;
    if (comm->params.zero_sm)
        return PEAL_OK;
    PEAL_TRY(
        peal_dev_image_make(comm->ctx, table, comm->rank, &comm->layout, &image, &bytes, diag));
    peal_status status = cuda_kernel_place(comm, image, bytes, diag);
    peal_free(comm->ctx, image, bytes);
    return status;
}

/* When the ranks have met, and of all of them. */
static peal_status make_shared(struct peal_cuda_comm *comm, const peal_table *table,
                               peal_status status, peal_diag *diag)
{
    status = cuda_nic_join(comm, table, status, diag);
    if (status == PEAL_OK)
        status = place_image(comm, table, diag);
    if (comm->host->far)
        status = cuda_far_make(comm, table, status, diag);
    return status == PEAL_OK ? cuda_service_start(comm, diag) : status;
}

/* All ranks get one answer, twice: before they look at each other's memory, and when all is made.
 */
static peal_status make(struct peal_cuda_comm *comm, const peal_table *table, peal_diag *diag)
{
    peal_status status = take_device(comm, diag);
    int entered = status == PEAL_OK && cuda_enter(comm, diag) == PEAL_OK;
    if (status == PEAL_OK && !entered)
        status = PEAL_ERR_IO;
    if (entered)
        status = make_own(comm, table, diag);
    status = cuda_meet(comm, status, diag);
    if (comm->met) /* else all have heard why not */
        status = cuda_agree(comm, make_shared(comm, table, status, diag), diag);
    if (entered)
        cuda_leave(comm);
    return status;
}

/* ---- the interface */

peal_status peal_cuda_comm_create(peal_cuda *cuda, peal_world *world, peal_table *table,
                                  uint32_t rank, const peal_cuda_params *params, peal_diag *diag,
                                  peal_cuda_comm **comm_out)
{
    if (!cuda || !world || !table || !params || !comm_out)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "a comm needs a driver, a world, a table and parameters");
    struct peal_cuda_comm *comm = peal_calloc(cuda->ctx, 1, sizeof *comm);
    if (!comm)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    comm->cuda = cuda;
    comm->ctx = cuda->ctx;
    comm->rank = rank;
    comm->nranks = table->nranks;
    peal_status status = take_params(comm, params, diag);
    if (status == PEAL_OK)
        status = peal_comm_create(world, table, rank, diag, &comm->host);
    if (status == PEAL_OK)
        status = make(comm, table, diag);
    if (status != PEAL_OK) {
        peal_cuda_comm_destroy(comm);
        return status;
    }
    *comm_out = comm;
    return PEAL_OK;
}

static void free_device(struct peal_cuda_comm *comm)
{
    cuda_group_leave(comm);
    cuda_kernel_free(comm);
    if (comm->port)
        (void)comm->cuda->call.host_free(comm->port);
}

void peal_cuda_comm_destroy(peal_cuda_comm *comm)
{
    if (!comm)
        return;
    cuda_service_stop(comm);
    cuda_beside_leave(comm);
    int entered = comm->context && cuda_enter_to_free(comm->cuda, comm->context);
    cuda_nic_free(comm);
    cuda_zero_free(comm, entered);
    cuda_far_free(comm, entered);
    cuda_part(comm, entered);
    cuda_arena_free(comm);
    if (entered) {
        free_device(comm);
        cuda_leave(comm);
    }
    if (comm->context)
        (void)comm->cuda->call.context_release((cu_device)comm->device);
    peal_free(comm->ctx, comm->peers, comm->nranks * sizeof *comm->peers);
    peal_comm_destroy(comm->host);
    peal_free(comm->ctx, comm, sizeof *comm);
}

peal_status peal_cuda_comm_get(const peal_cuda_comm *comm, peal_cuda_comm_info *info)
{
    if (!comm || !info)
        return PEAL_ERR_ARG;
    peal_cuda_comm_info full = {.size = sizeof full,
                                .rank = comm->rank,
                                .ranks = comm->nranks,
                                .calls = comm->calls,
                                .zero_sm = comm->zero_calls,
                                .staged = comm->staged_calls,
                                .engines = comm->host->engines,
                                .stand_ins = comm->host->engines & comm->stand_ins,
                                .blocks = comm->most_lanes,
                                .driver_stand_in = comm->cuda->stand_in,
                                .multicast = comm->bound};
    cuda_far_count(comm, &full.links_rdma, &full.links_tcp, &full.why);
    return peal_export(info, &full, sizeof full);
}

peal_status peal_cuda_comm_error(const peal_cuda_comm *comm, peal_diag *diag)
{
    if (!comm)
        return peal_fail(diag, PEAL_ERR_ARG, "no comm");
    cuda_read_report(comm);
    return rt_failure_now(comm->host, diag);
}

void peal_cuda_comm_abort(peal_cuda_comm *comm)
{
    if (comm)
        peal_comm_abort(comm->host);
}

/* ---- memory */

void *peal_cuda_mem_alloc(peal_cuda_comm *comm, size_t bytes)
{
    if (!comm || bytes == 0)
        return NULL;
    uint64_t room = comm->heap_end - comm->heap - comm->heap_used - 2 * comm->staged_bytes;
    if (bytes > room)
        return NULL;
    uint64_t taken = ((uint64_t)bytes + CUDA_HEAP_ALIGN - 1) / CUDA_HEAP_ALIGN * CUDA_HEAP_ALIGN;
    if (taken > room)
        return NULL;
    uint64_t at = comm->arena.at + comm->heap + comm->heap_used;
    comm->heap_used += taken;
    return (void *)(uintptr_t)at;
}

void *peal_cuda_mem_peer(const peal_cuda_comm *comm, const void *memory, uint32_t rank)
{
    if (!comm || rank >= comm->nranks || !cuda_in_heap(comm, (uintptr_t)memory, 0) ||
        comm->peers[rank].reach != CUDA_DIRECT)
        return NULL;
    return (void *)(uintptr_t)(comm->peers[rank].arena + ((uintptr_t)memory - comm->arena.at));
}

peal_status peal_cuda_comm_window(const peal_cuda_comm *comm, peal_diag *diag,
                                  peal_cuda_window *window)
{
    if (!comm || !window)
        return peal_fail(diag, PEAL_ERR_ARG, "no comm, or no place for the window");
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (comm->peers[r].reach != CUDA_DIRECT)
            return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "kernels do not reach rank %u", r);
    if (!comm->own_peers)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "a comm without SMs has no kernels");
    *window = (peal_cuda_window){.rank = comm->rank,
                                 .ranks = comm->nranks,
                                 .heap = comm->arena.at + comm->heap,
                                 .offset = comm->heap,
                                 .peers = comm->own_peers};
    return PEAL_OK;
}

peal_status peal_cuda_malloc(peal_cuda_comm *comm, size_t bytes, peal_diag *diag, void **memory_out)
{
    cu_ptr at = 0;
    if (!comm || !memory_out || bytes == 0)
        return peal_fail(diag, PEAL_ERR_ARG, "no comm, no bytes, or no place for the memory");
    PEAL_TRY(cuda_enter(comm, diag));
    peal_status status = CUDA_DO(comm->cuda, diag, mem_alloc, &at, bytes);
    cuda_leave(comm);
    if (status == PEAL_OK)
        *memory_out = (void *)(uintptr_t)at;
    return status;
}

void peal_cuda_free(peal_cuda_comm *comm, void *memory)
{
    if (!comm || !memory || !cuda_enter_to_free(comm->cuda, comm->context))
        return;
    (void)comm->cuda->call.mem_free((cu_ptr)(uintptr_t)memory);
    cuda_leave(comm);
}

/* ---- streams */

peal_status peal_cuda_stream_create(peal_cuda_comm *comm, peal_diag *diag, void **stream_out)
{
    if (!comm || !stream_out)
        return peal_fail(diag, PEAL_ERR_ARG, "no comm, or no place for the stream");
    PEAL_TRY(cuda_enter(comm, diag));
    peal_status status =
        CUDA_DO(comm->cuda, diag, stream_create, stream_out, CU_STREAM_NONBLOCKING);
    cuda_leave(comm);
    return status;
}

void peal_cuda_stream_destroy(peal_cuda_comm *comm, void *stream)
{
    if (!comm || !stream || !cuda_enter_to_free(comm->cuda, comm->context))
        return;
    (void)comm->cuda->call.stream_destroy(stream);
    cuda_leave(comm);
}

peal_status peal_cuda_stream_wait(peal_cuda_comm *comm, void *stream, peal_diag *diag)
{
    if (!comm)
        return peal_fail(diag, PEAL_ERR_ARG, "no comm");
    PEAL_TRY(cuda_enter(comm, diag));
    peal_status status = CUDA_DO(comm->cuda, diag, stream_synchronize, stream);
    cuda_leave(comm);
    return status == PEAL_OK ? peal_cuda_comm_error(comm, diag) : status;
}

peal_status peal_cuda_copy(peal_cuda_comm *comm, void *to, const void *from, size_t bytes,
                           void *stream, peal_diag *diag)
{
    if (!comm || ((!to || !from) && bytes))
        return peal_fail(diag, PEAL_ERR_ARG, "no comm, or a buffer is NULL");
    if (bytes == 0)
        return PEAL_OK;
    PEAL_TRY(cuda_enter(comm, diag));
    peal_status status = CUDA_DO(comm->cuda, diag, copy, (cu_ptr)(uintptr_t)to,
                                 (cu_ptr)(uintptr_t)from, bytes, stream);
    cuda_leave(comm);
    return status;
}
