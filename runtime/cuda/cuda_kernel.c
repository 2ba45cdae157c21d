/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel: its code, what it is given for as long as the comm lives, and its launch. */
#include "cuda_comm.h"
#include "device_code.h"
#include "device_image.h"

#include <string.h>

#define STAGES 4u /* of bulk copies through shared memory */
#define STAGE_BYTES 16384u
#define BULK_ARCH 90u

/* Offsets in the memory of the rank alone. */
struct own_layout {
    uint64_t rank;
    uint64_t peers;
    uint64_t fars;
    uint64_t queues;
    uint64_t state;
    uint64_t image;
    uint64_t total;
};

static uint64_t behind(uint64_t at, uint64_t bytes)
{
    return (at + bytes + DEV_LINE - 1) / DEV_LINE * DEV_LINE;
}

static struct own_layout lay_out(const struct peal_cuda_comm *comm, const struct dev_state *state,
                                 size_t image)
{
    struct own_layout own = {.rank = 0};
    own.peers = behind(0, sizeof(struct dev_rank));
    own.fars = behind(own.peers, comm->nranks * sizeof(struct dev_peer));
    own.queues = behind(own.fars, comm->nic ? comm->nranks * sizeof(struct dev_far) : 0);
    own.state = behind(own.queues, cuda_nic_queues(comm) * sizeof(struct dev_mlx5_queue));
    own.image = behind(own.state, state->total);
    own.total = behind(own.image, image);
    return own;
}

/* ---- code */

static peal_status load_module(struct peal_cuda_comm *comm, peal_diag *diag)
{
    size_t bytes = 0;
    const void *code = peal_dev_code(&bytes);
    /* The stand-in knows the kernel by its name. */
    if (!code && !comm->cuda->stand_in)
        return peal_fail(
            diag, PEAL_ERR_UNSUPPORTED,
            "peal was built without device kernels (no nvcc); zero-SM calls need none");
    cu_result result = comm->cuda->call.module_load(&comm->module, code ? code : "");
    if (result == CU_NO_BINARY || result == CU_INVALID_IMAGE)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "peal's kernels do not run on %s (compute capability %u.%u, driver "
                         "%u.%u): they take 8.0, and a driver as new as the nvcc that made them; "
                         "zero-SM calls need none",
                         comm->about.name, comm->about.arch / 10, comm->about.arch % 10,
                         comm->about.driver / 1000, comm->about.driver % 1000 / 10);
    return cuda_check(comm->cuda, result, "module_load", diag);
}

/* Now: what a driver loads when it is first launched may wait until the device is idle, and a
 * kernel that runs there may be waiting for that launch. */
static peal_status find_function(const struct peal_cuda_comm *comm, const char *name,
                                 cu_handle *function, peal_diag *diag)
{
    CUDA_TRY(comm->cuda, diag, module_function, function, comm->module, name);
    return comm->cuda->call.function_load ? CUDA_DO(comm->cuda, diag, function_load, *function)
                                          : PEAL_OK;
}

static peal_status load_code(struct peal_cuda_comm *comm, peal_diag *diag)
{
    PEAL_TRY(load_module(comm, diag));
    PEAL_TRY(find_function(comm, "peal_dev_kernel", &comm->kernel, diag));
    PEAL_TRY(find_function(comm, "peal_dev_work", &comm->work, diag));
    comm->shared_bytes = comm->about.arch >= BULK_ARCH || comm->cuda->stand_in
                             ? (uint32_t)dev_shared_bytes(STAGES, STAGE_BYTES)
                             : 0;
    comm->threads = DEV_THREADS;
    return CUDA_DO(comm->cuda, diag, function_set, comm->kernel, CU_FUNC_DYNAMIC_SHARED,
                   (int)comm->shared_bytes);
}

peal_status cuda_kernel_fits(const struct peal_cuda_comm *comm, uint32_t lanes, peal_diag *diag)
{
    int each = 0;
    if (comm->params.zero_sm)
        return PEAL_OK;
    CUDA_TRY(comm->cuda, diag, occupancy, &each, comm->kernel, (int)comm->threads,
             comm->shared_bytes);
    uint64_t room = (uint64_t)(each < 0 ? 0 : each) * comm->about.sms;
    if (lanes > room)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "%u thread blocks of the ranks and comms on this device may wait for "
                         "each other, and %llu can be resident: plan with fewer channels, or with "
                         "max_sms",
                         lanes, (unsigned long long)room);
    return PEAL_OK;
}

/* ---- what the device is given */

static void fill(const struct peal_cuda_comm *comm, const struct own_layout *own, char *to,
                 const struct dev_state *state, const void *image, size_t image_bytes)
{
    int bulk = comm->about.arch >= BULK_ARCH || comm->cuda->stand_in;
    struct dev_rank rank = {.image = comm->own.at + own->image,
                            .state = comm->own.at + own->state,
                            .peers = comm->own.at + own->peers,
                            .port = comm->port_device,
                            .multicast = comm->multicast.at,
                            .multicast_window = comm->multicast.at,
                            .multicast_bytes = comm->multicast.at ? comm->multicast.bytes : 0,
                            .queues = comm->nic ? comm->own.at + own->queues : 0,
                            .fars = comm->nic ? comm->own.at + own->fars : 0,
                            .rank = comm->rank,
                            .nranks = comm->nranks,
                            .flags = bulk ? DEV_RANK_BULK : 0,
                            .stages = bulk ? STAGES : 0,
                            .stage_bytes = bulk ? STAGE_BYTES : 0};
    memset(to, 0, (size_t)own->total);
    memcpy(to + own->rank, &rank, sizeof rank);
    for (uint32_t r = 0; r < comm->nranks; r++) {
        const struct cuda_peer *from = &comm->peers[r];
        uint64_t at = from->reach == CUDA_DIRECT ? from->arena : 0;
        struct dev_peer peer = {.arena = at, .window = at};
        memcpy(to + own->peers + r * sizeof peer, &peer, sizeof peer);
        struct dev_far far = {.arena = from->nic_arena, .key = from->nic_key};
        if (comm->nic)
            memcpy(to + own->fars + r * sizeof far, &far, sizeof far);
    }
    if (comm->nic)
        memcpy(to + own->queues, comm->queues, cuda_nic_queues(comm) * sizeof *comm->queues);
    memcpy(to + own->state, state, sizeof *state);
    memcpy(to + own->image, image, image_bytes);
}

/* By pinned memory and a stream of its own, to its end: the comm is being made. */
static peal_status upload(const struct peal_cuda_comm *comm, const void *from, size_t bytes,
                          peal_diag *diag)
{
    cu_handle stream;
    CUDA_TRY(comm->cuda, diag, stream_create, &stream, CU_STREAM_NONBLOCKING);
    peal_status status =
        CUDA_DO(comm->cuda, diag, copy, comm->own.at, (cu_ptr)(uintptr_t)from, bytes, stream);
    if (status == PEAL_OK)
        status = CUDA_DO(comm->cuda, diag, stream_synchronize, stream);
    (void)comm->cuda->call.stream_destroy(stream);
    return status;
}

peal_status cuda_kernel_place(struct peal_cuda_comm *comm, const void *image, size_t bytes,
                              peal_diag *diag)
{
    struct dev_state state;
    void *pinned = NULL;
    memset(&state, 0, sizeof state);
    dev_state_layout(&state, comm->nranks, comm->layout.nsems);
    struct own_layout own = lay_out(comm, &state, bytes);
    PEAL_TRY(cuda_block_make(comm->cuda, comm->device, (size_t)own.total, 0, 0, &comm->own, diag));
    CUDA_TRY(comm->cuda, diag, host_alloc, &pinned, (size_t)own.total, CU_HOST_PORTABLE);
    fill(comm, &own, pinned, &state, image, bytes);
    peal_status status = upload(comm, pinned, (size_t)own.total, diag);
    (void)comm->cuda->call.host_free(pinned);
    comm->own_rank = comm->own.at + own.rank;
    comm->own_peers = comm->own.at + own.peers;
    return status;
}

/* ---- making */

/* Before ranks meet: whether this one can. */
peal_status cuda_kernel_make(struct peal_cuda_comm *comm, peal_diag *diag)
{
    for (uint32_t i = 0; i < comm->host->nrows; i++)
        if (comm->host->rows[i].nlanes > comm->most_lanes)
            comm->most_lanes = comm->host->rows[i].nlanes;
    return comm->params.zero_sm ? PEAL_OK : load_code(comm, diag);
}

void cuda_kernel_free(struct peal_cuda_comm *comm)
{
    if (comm->module)
        (void)comm->cuda->call.module_unload(comm->module);
    cuda_block_free(comm->cuda, &comm->own);
}

/* ---- a call */

peal_status cuda_kernel_call(struct peal_cuda_comm *comm, struct rt_row *row,
                             const struct dev_call *call, cu_handle stream, peal_diag *diag)
{
    struct dev_call argument = *call; /* copied by the launch */
    void *arguments[] = {&argument};
    unsigned blocks = row->nlanes ? row->nlanes : 1;
    return CUDA_DO(comm->cuda, diag, launch, comm->kernel, blocks, 1, 1, comm->threads, 1, 1,
                   comm->shared_bytes, stream, arguments, NULL);
}

/* ---- work for benches */

static peal_status find_work(struct peal_cuda_comm *comm, peal_diag *diag)
{
    if (comm->work)
        return PEAL_OK;
    if (!comm->module)
        PEAL_TRY(load_module(comm, diag));
    return find_function(comm, "peal_dev_work", &comm->work, diag);
}

peal_status peal_cuda_work(peal_cuda_comm *comm, uint64_t tiles, void *stream, peal_diag *diag)
{
    if (!comm)
        return peal_fail(diag, PEAL_ERR_ARG, "no comm");
    struct dev_work work = {.tiles = tiles, .sink = comm->arena.at};
    void *arguments[] = {&work};
    unsigned blocks = tiles < comm->about.sms ? (unsigned)tiles : comm->about.sms;
    blocks = blocks ? blocks : 1;
    PEAL_TRY(cuda_enter(comm, diag));
    peal_status status = find_work(comm, diag);
    if (status == PEAL_OK)
        status = CUDA_DO(comm->cuda, diag, launch, comm->work, blocks, 1, 1, DEV_THREADS, 1, 1, 0,
                         stream, arguments, NULL);
    cuda_leave(comm);
    return status;
}
