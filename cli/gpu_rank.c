/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of a run on a GPU: its calls, and copies between what is filled and compared in host
 * memory and where they are made. */
#include "self.h"

#include <peal/peal_cuda.h>

#include <stdlib.h>
#include <string.h>

struct gpu {
    peal_cuda *cuda;
    peal_cuda_comm *comm;
    void *stream;
    void *other;  /* of work beside the calls; NULL: none yet */
    char *mirror; /* of the rank's memory */
    uint64_t bytes;
    int plain;        /* 1: it is no symmetric memory, and to be freed */
    uint64_t *counts; /* alltoallv: of the calls' counts, likewise */
    size_t ncounts;
};

/* ---- beginning and end */

/* Symmetric memory for all buffers, if asked for, and for copies of private ones. */
static uint64_t heap_of(const struct crew *crew, uint64_t *buffers)
{
    uint64_t most = 0;
    *buffers = 0;
    for (uint32_t i = 0; i < crew->njobs; i++) {
        const struct job *job = &crew->jobs[i];
        uint64_t room = job_room(job, crew->ranks);
        uint64_t all = yard_slot(room) * 2 * job->calls;
        most = room > most ? room : most;
        *buffers = all > *buffers ? all : *buffers;
    }
    return (crew->registered ? *buffers : 0) + 16 * (most + 4096) + (1u << 20);
}

/* This rank's number among those of its host. */
static uint32_t place_of(const struct self *self)
{
    const peal_world *world = self->yard->world;
    const char *home = peal_world_host(world, self->rank);
    uint32_t place = 0;
    if (self->crew->launch->placed)
        return self->crew->launch->place;
    for (uint32_t r = 0; r < self->rank; r++) {
        const char *host = peal_world_host(world, r);
        place += !home || !host || strcmp(home, host) == 0;
    }
    return place;
}

/* "device memory goes between hosts by RDMA", before anything moves. */
static void note_links(const struct gpu *gpu)
{
    peal_cuda_comm_info info = {.size = sizeof info};
    if (peal_cuda_comm_get(gpu->comm, &info) != PEAL_OK || !(info.links_rdma || info.links_tcp))
        return;
    say(SAY_NOTE, "device memory goes between hosts%s%s%s%s%s", info.links_rdma ? " by RDMA" : "",
        info.links_rdma && info.links_tcp ? " and" : "",
        info.links_tcp ? " through pinned host memory by TCP" : "",
        info.links_tcp && info.why[0] ? "; not by RDMA: " : "", info.links_tcp ? info.why : "");
}

static peal_status open_comm(struct self *self, struct gpu *gpu, peal_diag *diag)
{
    const struct crew *crew = self->crew;
    peal_cuda_params params = PEAL_CUDA_PARAMS_INIT;
    peal_cuda_device_info about = {.size = sizeof about};
    peal_status status = peal_cuda_device(gpu->cuda, 0, diag, &about);
    if (status != PEAL_OK)
        return status;
    params.device = place_of(self) % about.devices;
    params.heap_bytes = heap_of(crew, &gpu->bytes);
    params.zero_sm = crew->zero_sm;
    if (self->rank == 0)
        say(SAY_NOTE, "%lu x %s, driver %lu.%lu%s", (unsigned long)about.devices, about.name,
            (unsigned long)about.driver / 1000, (unsigned long)about.driver % 1000 / 10,
            about.stand_in ? ": a stand-in, times mean nothing" : "");
    status = peal_cuda_comm_create(gpu->cuda, self->yard->world, crew->table, self->rank, &params,
                                   diag, &gpu->comm);
    if (status == PEAL_OK && self->rank == 0)
        note_links(gpu);
    return status == PEAL_OK ? peal_cuda_stream_create(gpu->comm, diag, &gpu->stream) : status;
}

peal_status gpu_open(struct self *self, peal_diag *diag)
{
    struct gpu *gpu = need(calloc(1, sizeof *gpu));
    peal_status status = peal_cuda_open(self->crew->cli->ctx, NULL, diag, &gpu->cuda);
    self->gpu = gpu;
    if (status == PEAL_OK)
        status = open_comm(self, gpu, diag);
    if (status != PEAL_OK)
        gpu_close(self);
    return status;
}

void gpu_end(const struct self *self)
{
    const struct gpu *gpu = self->gpu;
    peal_diag diag = PEAL_DIAG_INIT;
    if (!atomic_load(&self->yard->stop))
        return;
    peal_cuda_comm_abort(gpu->comm);
    if (gpu->stream)
        (void)!peal_cuda_stream_wait(gpu->comm, gpu->stream, &diag);
    if (gpu->other)
        (void)!peal_cuda_stream_wait(gpu->comm, gpu->other, &diag);
}

void gpu_close(struct self *self)
{
    struct gpu *gpu = self->gpu;
    if (!gpu)
        return;
    if (gpu->plain)
        peal_cuda_free(gpu->comm, gpu->mirror);
    peal_cuda_free(gpu->comm, gpu->counts);
    peal_cuda_stream_destroy(gpu->comm, gpu->stream);
    peal_cuda_stream_destroy(gpu->comm, gpu->other);
    peal_cuda_comm_destroy(gpu->comm);
    peal_cuda_close(gpu->cuda);
    free(gpu);
    self->gpu = NULL;
}

static int failed(const struct self *self, peal_status status, const peal_diag *diag)
{
    if (status != PEAL_OK)
        yard_fail(self->yard, self->rank, status, diag);
    return status != PEAL_OK;
}

int gpu_memory(struct self *self, uint64_t bytes)
{
    struct gpu *gpu = self->gpu;
    peal_diag diag = PEAL_DIAG_INIT;
    void *memory = NULL;
    peal_status status = PEAL_OK;
    if (!gpu)
        return 1;
    gpu->bytes = bytes;
    gpu->plain = !self->crew->registered;
    if (gpu->plain) {
        status = peal_cuda_malloc(gpu->comm, (size_t)bytes, &diag, &memory);
    } else {
        memory = peal_cuda_mem_alloc(gpu->comm, (size_t)bytes);
        status = memory ? PEAL_OK : PEAL_ERR_MEMORY;
    }
    if (failed(self, status, &diag))
        return 0;
    gpu->mirror = memory;
    for (uint32_t i = 0; i < self->crew->njobs; i++)
        if (self->crew->jobs[i].calls > gpu->ncounts)
            gpu->ncounts = self->crew->jobs[i].calls;
    gpu->ncounts *= 2 * (size_t)self->crew->ranks;
    status = peal_cuda_malloc(gpu->comm, gpu->ncounts * sizeof *gpu->counts, &diag, &memory);
    if (failed(self, status, &diag))
        return 0;
    gpu->counts = memory;
    return 1;
}

/* ---- copies */

int gpu_finish(struct self *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    if (!self->gpu)
        return 1;
    return !failed(self, peal_cuda_stream_wait(self->gpu->comm, self->gpu->stream, &diag), &diag);
}

/* Of the job under way. */
static uint64_t used(const struct self *self)
{
    return yard_slot(self->bytes) * 2 * self->job->calls;
}

int gpu_upload(struct self *self)
{
    struct gpu *gpu = self->gpu;
    peal_diag diag = PEAL_DIAG_INIT;
    if (!gpu)
        return 1;
    peal_status status = peal_cuda_copy(gpu->comm, gpu->mirror, self->memory, (size_t)used(self),
                                        gpu->stream, &diag);
    return !failed(self, status, &diag) && gpu_finish(self);
}

static peal_status download_counts(struct self *self, peal_diag *diag)
{
    struct gpu *gpu = self->gpu;
    size_t ranks = self->crew->ranks;
    if (self->job->action.collective != PEAL_ALLTOALLV)
        return PEAL_OK;
    return peal_cuda_copy(gpu->comm, self->counts, gpu->counts,
                          2 * ranks * self->job->calls * sizeof *gpu->counts, gpu->stream, diag);
}

int gpu_download(struct self *self)
{
    struct gpu *gpu = self->gpu;
    peal_diag diag = PEAL_DIAG_INIT;
    if (!gpu)
        return 1;
    peal_status status = peal_cuda_copy(gpu->comm, self->memory, gpu->mirror, (size_t)used(self),
                                        gpu->stream, &diag);
    if (status == PEAL_OK)
        status = download_counts(self, &diag);
    return !failed(self, status, &diag) && gpu_finish(self);
}

/* ---- calls */

static char *there(const struct self *self, char *here)
{
    return here ? self->gpu->mirror + (here - self->memory) : NULL;
}

static peal_status upload_counts(struct self *self, uint32_t call, peal_cuda_call *what,
                                 peal_diag *diag)
{
    struct gpu *gpu = self->gpu;
    size_t ranks = self->crew->ranks, at = 2 * (size_t)call * ranks;
    for (uint32_t r = 0; r < ranks; r++)
        self->counts[at + r] = (size_t)self_length(self, call, self->rank, r);
    what->send_counts = gpu->counts + at;
    what->recv_counts = gpu->counts + at + ranks;
    return peal_cuda_copy(gpu->comm, gpu->counts + at, self->counts + at,
                          ranks * sizeof *gpu->counts, gpu->stream, diag);
}

peal_status gpu_call(struct self *self, uint32_t call, const struct view *view, peal_diag *diag)
{
    const struct job *job = self->job;
    struct gpu *gpu = self->gpu;
    peal_cuda_call what = PEAL_CUDA_CALL_INIT;
    peal_status status = PEAL_OK;
    what.collective = job->action.collective;
    what.dtype = job->dtype;
    what.op = job->op;
    what.root = job->action.root;
    what.peer = job->action.peer;
    what.count = (size_t)job->count;
    what.in = there(self, view->in);
    what.out = there(self, view->out);
    /* Then no buffer is left out, and none begins at a rank's own block. */
    what.symmetric = self->crew->registered && !job->shake && !job->in_place && call % 2 == 0;
    if (what.collective == PEAL_ALLTOALLV)
        status = upload_counts(self, call, &what, diag);
    if (status == PEAL_OK)
        status = peal_cuda_enqueue(gpu->comm, &what, gpu->stream, diag);
    /* A barrier that is checked is over when it returns. */
    if (status == PEAL_OK && what.collective == PEAL_BARRIER && job->check)
        status = peal_cuda_stream_wait(gpu->comm, gpu->stream, diag);
    return status;
}

int gpu_work(struct self *self, uint64_t tiles)
{
    struct gpu *gpu = self->gpu;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = PEAL_OK;
    if (!gpu->other)
        status = peal_cuda_stream_create(gpu->comm, &diag, &gpu->other);
    if (status == PEAL_OK)
        status = peal_cuda_work(gpu->comm, tiles, gpu->other, &diag);
    return !failed(self, status, &diag);
}

int gpu_worked(struct self *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    return !failed(self, peal_cuda_stream_wait(self->gpu->comm, self->gpu->other, &diag), &diag);
}

void gpu_info(const struct self *self, peal_comm_info *info)
{
    peal_cuda_comm_info gpu = {.size = sizeof gpu};
    if (peal_cuda_comm_get(self->gpu->comm, &gpu) != PEAL_OK)
        return;
    info->rank = gpu.rank;
    info->ranks = gpu.ranks;
    info->calls = gpu.calls;
    info->engines = gpu.engines;
    info->stand_ins = gpu.stand_ins;
}
