/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of the host that serves a rank's kernel: it takes orders out of the port (dev_ring.h)
 * and gives them to streams, and watches over what waits: streams and kernels know no deadlines.
 * It waits for a stream only to read where a rank that is not reached has its buffers. What it
 * enqueues is in the order of streams, and these write the answers to the port themselves.
 */
#ifndef PEAL_RUNTIME_CUDA_SERVICE_H
#define PEAL_RUNTIME_CUDA_SERVICE_H

#include "cuda_comm.h"

#define CUDA_ENGINE_STREAMS 2u       /* of the copy engine: lanes take turns */
#define CUDA_BOUNCE_BYTES (1u << 20) /* of one of the two buffers of `staged` */
#define CUDA_BOUNCE_TOTAL (2 * (size_t)CUDA_BOUNCE_BYTES + sizeof(struct dev_board))
#define CUDA_NOWHERE UINT32_MAX
#define CUDA_SIGNS 5u

/* The streams by number: copy engines, then down to the host and up from it. */
enum { CUDA_DOWN = CUDA_ENGINE_STREAMS, CUDA_UP, CUDA_STREAMS };

struct cuda_service {
    struct peal_cuda_comm *comm;
    pthread_t thread;
    int started;
    _Atomic int entered; /* the thread has the context; -1: it did not get it */
    _Atomic int stop;
    int drained; /* the comm has failed, and its streams are empty */
    int orders;  /* some plan of this rank hands steps to the host */
    cu_handle stream[CUDA_STREAMS];
    uint32_t head[DEV_LANES];                /* orders taken */
    uint32_t carrier[DEV_LANES][DEV_EVENTS]; /* the stream of an event's last transfer */
    struct cuda_copies *copies; /* of lanes: pieces of a transfer, until its last one is there */
    uint32_t *raised_by;        /* by semaphore: the stream of the last signal, CUDA_NOWHERE; */
    uint32_t *raised_as;        /* and its count */
    /* staged: two buffers, filled and emptied by turns */
    char *bounce;
    cu_handle down_done[2];
    cu_handle up_done[2];
    uint32_t turn;
    struct cu_mem_op op[4];
    /* watching */
    struct peal_comm host;     /* the comm beneath, with a count of looks and a stamp of its own */
    uint32_t seen[CUDA_SIGNS]; /* what moved last */
    uint32_t begun;            /* zero-SM calls, as far as they were seen to */
    uint64_t next_look;
};

/* ---- cuda_orders.c */
peal_status cuda_orders_make(struct cuda_service *service, peal_diag *diag);
/* entered: with the context current; else what is the host's alone. */
void cuda_orders_free(struct cuda_service *service, int entered);
/* Takes what there is; gives how many orders. A driver's error ends it. */
peal_status cuda_orders_poll(struct cuda_service *service, uint32_t *taken, peal_diag *diag);

#endif
