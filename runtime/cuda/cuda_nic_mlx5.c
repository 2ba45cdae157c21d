/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs of an mlx5 device for kernels to post to. They are made by libibverbs as any others,
 * with a completion queue each; libmlx5, opened at run time, tells where their queues, records and
 * doorbells are (mlx5dv_init_obj), and the driver maps these for the device: the queues lie in
 * memory of the host, which the GPU writes and the NIC reads over PCIe.
 *
 * Compiled, and its view of the queues compared with mlx5dv.h's; it has not met a NIC.
 */
#include "cuda_far.h"
#include "cuda_nic.h"

#include <errno.h>
#include <stdio.h>

#if !defined(PEAL_HAVE_VERBS) || !defined(PEAL_HAVE_MLX5DV)

static int open_mlx5(const struct peal_cuda_comm *comm, const struct peal_table *table, void **nic,
                     char *why, size_t room)
{
    (void)comm;
    (void)table;
    (void)nic;
    (void)snprintf(why, room, "this peal was built without rdma-core's mlx5dv.h");
    return ENOTSUP;
}

const struct cuda_nic_calls cuda_nic_mlx5 = {.open = open_mlx5};

#else

#include "cuda_mlx5.h"
#include "cuda_pages.h"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libmlx5.so.1"

struct mlx5_pair {
    struct rdma_alone alone;
    struct mlx5_pair *next;
};

struct mlx5 {
    const struct peal_cuda_comm *comm;
    void *library;
    bool (*is_supported)(struct ibv_device *device);
    int (*init_obj)(struct mlx5dv_obj *object, uint64_t types);
    struct rdma_nic *nic;
    struct rdma_region arena;
    struct mlx5_pair *pairs;
    struct cuda_pages pages;
};

/* ---- life */

static int find_symbol(void *library, const char *name, void *to, size_t bytes)
{
    void *at = dlsym(library, name);
    memcpy(to, &at, bytes);
    return at != NULL;
}

static int find_library(struct mlx5 *self, char *why, size_t room)
{
    self->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (self->library &&
        find_symbol(self->library, "mlx5dv_is_supported", &self->is_supported,
                    sizeof self->is_supported) &&
        find_symbol(self->library, "mlx5dv_init_obj", &self->init_obj, sizeof self->init_obj))
        return 1;
    (void)snprintf(why, room, "there is no " LIBRARY " here");
    return 0;
}

static int find_device(struct mlx5 *self, const struct peal_table *table, char *why, size_t room)
{
    const struct peal_cuda_comm *comm = self->comm;
    const struct rt_job *job = comm->host->world->job;
    if (!job || peal_streq(job->rdma, "off")) {
        (void)snprintf(why, room, job ? "it was told not to" : "the world was not joined");
        return 0;
    }
    const struct plan_rank *rank = peal_plan_program(table->rows[0].plan, comm->rank);
    struct rdma_ask ask = {.chosen = job->rdma,
                           .plan = rank ? rank->nic : "",
                           .busid = comm->about.busid,
                           .pairs = 1,
                           .entries = 1};
    for (uint32_t r = 0; r < comm->rank; r++)
        ask.turn += rt_job_near(job, r, comm->rank) != 0;
    self->nic = rdma_open(comm->ctx, &ask, why, room);
    return self->nic && self->nic->ops->alone;
}

static void close_mlx5(void *nic)
{
    struct mlx5 *self = nic;
    cuda_pages_free(&self->pages);
    while (self->pairs) {
        struct mlx5_pair *pair = self->pairs;
        self->pairs = pair->next;
        self->nic->ops->unalone(self->nic, &pair->alone);
        peal_free(self->comm->ctx, pair, sizeof *pair);
    }
    if (self->arena.bytes)
        self->nic->ops->unregion(self->nic, &self->arena);
    if (self->nic)
        self->nic->ops->close(self->nic);
    if (self->library)
        (void)dlclose(self->library);
    peal_free(self->comm->ctx, self, sizeof *self);
}

static int open_mlx5(const struct peal_cuda_comm *comm, const struct peal_table *table, void **nic,
                     char *why, size_t room)
{
    struct mlx5 *self = peal_calloc(comm->ctx, 1, sizeof *self);
    if (!self)
        return ENOMEM;
    self->comm = comm;
    self->pages.cuda = comm->cuda;
    if (!find_library(self, why, room) || !find_device(self, table, why, room)) {
        close_mlx5(self);
        return ENODEV;
    }
    *nic = self;
    return 0;
}

/* ---- memory */

static int know_memory(void *nic, uint64_t at, uint64_t bytes, uint32_t *key)
{
    struct mlx5 *self = nic;
    (void)at;
    (void)bytes; /* the arena is all that kernels post */
    if (!cuda_rdma_arena(self->comm, self->nic, &self->arena))
        return EOPNOTSUPP;
    /* Kernels name it by one key to their own NIC and to the others'. */
    *key = self->arena.peer_key;
    return self->arena.own_key == self->arena.peer_key ? 0 : EOPNOTSUPP;
}

/* ---- queue pairs */

/* The one of which this is a part of its memory: for the kernel. */
static peal_status map_queue(struct mlx5 *self, const struct mlx5dv_qp *qp,
                             const struct mlx5dv_cq *cq, struct dev_mlx5_queue *queue)
{
    struct cuda_pages *pages = &self->pages;
    struct mlx5_places places;
    cuda_mlx5_places(qp, cq, &places);
    PEAL_TRY(cuda_pages_map(pages, places.entries, places.entries_bytes, 0, &queue->entries, NULL));
    PEAL_TRY(cuda_pages_map(pages, places.record, 4, 0, &queue->record, NULL));
    PEAL_TRY(cuda_pages_map(pages, places.doorbell, 8, 1, &queue->doorbell, NULL));
    PEAL_TRY(cuda_pages_map(pages, places.done, places.done_bytes, 0, &queue->done, NULL));
    return cuda_pages_map(pages, places.taken, 4, 0, &queue->taken, NULL);
}

static int describe(struct mlx5 *self, const struct rdma_alone *alone, struct dev_mlx5_queue *queue)
{
    struct mlx5dv_qp qp = {.comp_mask = 0};
    struct mlx5dv_cq cq = {.comp_mask = 0};
    struct ibv_qp *pair = alone->pair;
    struct mlx5dv_obj object = {.qp = {.in = pair, .out = &qp},
                                .cq = {.in = alone->queue, .out = &cq}};
    if (!self->is_supported(pair->context->device) ||
        self->init_obj(&object, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ) != 0 || !cuda_mlx5_fits(&qp, &cq))
        return EOPNOTSUPP;
    *queue = (struct dev_mlx5_queue){
        .number = pair->qp_num, .blocks = qp.sq.wqe_cnt, .cqes = cq.cqe_cnt};
    return map_queue(self, &qp, &cq, queue) == PEAL_OK ? 0 : EIO;
}

/* An entry takes a block here, and the library counts with larger ones: so the queue has more, and
 * the completions are as many as that may come to. */
static int make_queue(void *nic, uint32_t blocks, struct dev_mlx5_queue *queue, void **pair,
                      struct rdma_end *mine)
{
    struct mlx5 *self = nic;
    struct mlx5_pair *made = peal_calloc(self->comm->ctx, 1, sizeof *made);
    if (!made)
        return ENOMEM;
    if (!self->nic->ops->alone(self->nic, blocks, blocks * CUDA_MLX5_CQES, &made->alone, mine)) {
        peal_free(self->comm->ctx, made, sizeof *made);
        return EIO;
    }
    made->next = self->pairs;
    self->pairs = made;
    *pair = made;
    return describe(self, &made->alone, queue);
}

static int join_queue(void *nic, void *pair, const struct rdma_end *mine,
                      const struct rdma_end *theirs)
{
    struct mlx5 *self = nic;
    struct mlx5_pair *made = pair;
    return self->nic->ops->join(self->nic, made->alone.pair, mine, theirs) ? 0 : EIO;
}

const struct cuda_nic_calls cuda_nic_mlx5 = {.open = open_mlx5,
                                             .close = close_mlx5,
                                             .memory = know_memory,
                                             .queue = make_queue,
                                             .join = join_queue};

#endif
