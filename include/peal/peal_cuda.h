/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal on GPUs: the plans of peal.h in device memory, in the order of a CUDA stream.
 *
 * Needs none of CUDA's headers, and no driver to load the library: the driver is opened when it is
 * asked for (peal_cuda_open). A CUstream and a cudaStream_t are one pointer, passed as void *
 * (NULL: the legacy default stream); device addresses are plain pointers.
 *
 * Conventions are those of peal.h. Besides:
 *  - Every rank has a device and its primary context, which the runtime interface (cudaMalloc ...)
 *    uses, too. Functions make it current for their own duration and leave the thread's as it was.
 *  - Ranks are threads of one process, processes of one host or of several; several may share a
 *    device.
 *  - A collective is enqueued and returns; nothing is synchronised behind the caller's back. Every
 *    rank enqueues the same collectives in the same order. What fails later, on the device or on
 *    another rank, is told by peal_cuda_comm_error and by the next call.
 *  - Between the creation of a comm and its destruction its calls may be captured in CUDA graphs,
 *    and replayed, by all ranks alike, between other calls or not.
 * docs/cuda.md has the whole of it, and says what has run where.
 */
#ifndef PEAL_PEAL_CUDA_H
#define PEAL_PEAL_CUDA_H

#include <peal/peal.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the driver and its devices ----------------------------------------- */

typedef struct peal_cuda peal_cuda;

/* Opens the CUDA driver. library: its file; NULL: libcuda.so.1. The handle may be used by any
 * number of threads once made; it outlives all that is made with it. Not to be taken over a fork:
 * the driver does not survive one. Errors: UNSUPPORTED (there is no driver, it lacks a function, or
 * it finds no device: the text says which), MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_cuda_open(peal_ctx *ctx, const char *library, peal_diag *diag,
                                               peal_cuda **cuda_out);
PEAL_API void peal_cuda_close(peal_cuda *cuda);

typedef struct peal_cuda_device_info {
    size_t size;
    uint32_t devices; /* of the driver */
    uint32_t driver;  /* version: 12040 is 12.4 */
    char name[96];
    char busid[24]; /* "0000:1b:00.0" */
    uint32_t arch;  /* compute capability x 10: 90 */
    uint32_t sms;
    int vmm;       /* memory can be shared by file descriptors, */
    int fabric;    /* by fabric handles (multi-node NVLink), */
    int multicast; /* and be bound to multicast objects (NVLink SHARP) */
    int dma_buf;   /* and be registered with NICs by dma-buf */
    int mem_ops;   /* streams can wait for values and write them */
    int stand_in;  /* 1: no GPU: the driver is peal's stand-in for tests */
} peal_cuda_device_info;

/* Of device `index`, counted as the driver does. Errors: ARG, IO. */
PEAL_API PEAL_CHECK peal_status peal_cuda_device(const peal_cuda *cuda, uint32_t index,
                                                 peal_diag *diag, peal_cuda_device_info *info);

typedef struct peal_cuda_peer_info {
    size_t size;
    int access;  /* kernels of one device may load and store memory of the other */
    int atomics; /* and all atomics are native there: NVLink, not PCIe */
} peal_cuda_peer_info;

/* What device `from` can do to memory of device `to`, another one. Errors: ARG, IO. */
PEAL_API PEAL_CHECK peal_status peal_cuda_peer(const peal_cuda *cuda, uint32_t from, uint32_t to,
                                               peal_diag *diag, peal_cuda_peer_info *info);

/* ---- a rank -------------------------------------------------------------- */

typedef struct peal_cuda_comm peal_cuda_comm;

/* How memory is shared with other processes. */
typedef enum peal_cuda_share {
    /* File descriptors where the device has them, else IPC; to ranks of other hosts fabric handles
     * where the device has those and is granted them. */
    PEAL_CUDA_SHARE_AUTO = 0,
    PEAL_CUDA_SHARE_FD = 1,
    PEAL_CUDA_SHARE_IPC = 2,   /* cudaIpc */
    PEAL_CUDA_SHARE_FABRIC = 3 /* also between hosts of one NVLink domain */
} peal_cuda_share;

typedef struct peal_cuda_params {
    size_t size;
    uint32_t device;       /* as the driver counts */
    uint64_t heap_bytes;   /* symmetric memory of a rank, the same on all; 0 means 256 MiB */
    uint32_t max_sms;      /* thread blocks that a call may hold; 0: as many as its plan has */
    int zero_sm;           /* 1: no call of this comm runs on an SM */
    uint32_t queues;       /* zero-SM: streams of a rank that copy at once, at most 8; 0 means 1 */
    peal_cuda_share share; /* the same on all ranks */
    /* 1: what plans leave to an NVLink switch (multicast, load_reduce) the lanes do by loads and
     * stores of their own. Else a comm whose plans have that is refused where a rank's device has
     * no multicast memory, or two ranks share one. The same on all ranks. */
    int no_multicast;
} peal_cuda_params;
/* clang-format off */
#define PEAL_CUDA_PARAMS_INIT {sizeof(peal_cuda_params), 0, 0, 0, 0, 0, PEAL_CUDA_SHARE_AUTO, 0}
/* clang-format on */

/* Joins the world as `rank` with a device; blocks until all have. World and table are as for
 * peal_comm_create, which this does; a world is for comms of hosts or of devices. Threads of one
 * process each create their own, with one peal_cuda or several.
 * Errors: those of peal_comm_create; UNSUPPORTED (plans use what the device lacks, ranks cannot
 * reach each other's memory, more lanes wait than can be resident); MEMORY; IO (the driver failed:
 * the text names the function and its error). */
PEAL_API PEAL_CHECK peal_status peal_cuda_comm_create(peal_cuda *cuda, peal_world *world,
                                                      peal_table *table, uint32_t rank,
                                                      const peal_cuda_params *params,
                                                      peal_diag *diag, peal_cuda_comm **comm_out);
/* All ranks' calls have to be over: synchronise the streams, and let the ranks meet. */
PEAL_API void peal_cuda_comm_destroy(peal_cuda_comm *comm);

typedef struct peal_cuda_comm_info {
    size_t size;
    uint32_t rank;
    uint32_t ranks;
    uint64_t calls;     /* enqueued or captured */
    uint64_t zero_sm;   /* of them, without an SM */
    uint64_t staged;    /* of them, with copies of the caller's buffers */
    uint32_t engines;   /* bit 1 << peal_engine: what the table's plans ask for, */
    uint32_t stand_ins; /* and for which of these another engine moves here */
    uint32_t blocks;    /* thread blocks of the largest plan */
    int driver_stand_in;
    /* Of all ranks, links with ranks of other hosts, from both ends: out of device memory by RDMA,
     * or through pinned host memory by TCP. */
    uint32_t links_rdma;
    uint32_t links_tcp;
    const char *why; /* a clause: why not all are by RDMA, where a plan asks for it; else "". As
                        long as the comm */
    int multicast;   /* 1: the NVLink switch stores and folds where plans ask it to */
} peal_cuda_comm_info;
PEAL_API PEAL_CHECK peal_status peal_cuda_comm_get(const peal_cuda_comm *comm,
                                                   peal_cuda_comm_info *info);

/* OK, or what ended the comm: a deadline (PEAL_ERR_TIMEOUT), a peer that died, aborted, or called
 * something else. From then on the results of calls that were not over are invalid, and every call
 * returns the error. Streams go on: nothing is left waiting. Any thread. */
PEAL_API PEAL_CHECK peal_status peal_cuda_comm_error(const peal_cuda_comm *comm, peal_diag *diag);
/* Ends what is under way, on all ranks, with PEAL_ERR_ABORTED. Any thread. */
PEAL_API void peal_cuda_comm_abort(peal_cuda_comm *comm);

/* Symmetric memory: on the rank's device, 512-byte aligned, reached by all ranks without a copy.
 * When all ranks make the same allocations in the same order, each has the same offset everywhere,
 * as peal_device.cuh and zero-SM calls need it. NULL when the heap is spent. Freed with the comm.
 * Of another rank's: where this rank reaches what `memory` (an own address) is there; NULL for an
 * address outside. */
PEAL_API void *peal_cuda_mem_alloc(peal_cuda_comm *comm, size_t bytes);
PEAL_API void *peal_cuda_mem_peer(const peal_cuda_comm *comm, const void *memory, uint32_t rank);

/* What peal_device.cuh works on, by value: symmetric memory as kernels of one's own see it.
 * Addresses are the device's. Errors: ARG; UNSUPPORTED for a comm without SMs, or where kernels do
 * not reach some rank. */
typedef struct peal_cuda_window {
    uint32_t rank;
    uint32_t ranks;
    uint64_t heap;   /* of this rank's symmetric memory, */
    uint64_t offset; /* and where it begins in every rank's arena; */
    uint64_t peers; /* a table of the arenas, 16 bytes each, of which the first 8 are the address */
} peal_cuda_window;
PEAL_API PEAL_CHECK peal_status peal_cuda_comm_window(const peal_cuda_comm *comm, peal_diag *diag,
                                                      peal_cuda_window *window);

/* ---- collectives ---------------------------------------------------------- */

/* One call. Which members matter follows from the collective, as in peal.h: reduce and rooted
 * collectives have op and root, sendrecv root and peer (from, to). */
typedef struct peal_cuda_call {
    size_t size;
    peal_collective collective;
    peal_dtype dtype;
    peal_op op;
    uint32_t root;
    uint32_t peer;
    size_t count; /* elements of a block */
    const void *in;
    void *out;
    uint32_t max_sms; /* of this call; 0: the comm's */
    int zero_sm;      /* 1: this call runs on no SM; on all ranks */
    /* 1: `in` lies at one offset of symmetric memory on all ranks, and so does `out`, also where a
     * rank has no use for it: then nothing is copied besides. Of zero-SM calls; kernels find that
     * out by themselves. */
    int symmetric;
    /* alltoallv: how many elements of each block are sent, and were received; 64-bit numbers, one
     * for each rank, in memory that the device reaches, read and written in the order of the
     * stream. recv_counts may be NULL. */
    const uint64_t *send_counts;
    uint64_t *recv_counts;
} peal_cuda_call;
/* clang-format off */
#define PEAL_CUDA_CALL_INIT {sizeof(peal_cuda_call), PEAL_ALLREDUCE, PEAL_FLOAT32, PEAL_SUM, 0, 0, 0, NULL, NULL, 0, 0, 0, NULL, NULL}
/* clang-format on */

/* Enqueues it on the stream. Everything is checked before anything is enqueued. Errors: ARG, RANGE
 * and UNSUPPORTED as in peal.h; UNSUPPORTED too where the plan needs more SMs than it may have, or
 * an SM where it may have none; IO; what ended the comm. */
PEAL_API PEAL_CHECK peal_status peal_cuda_enqueue(peal_cuda_comm *comm, const peal_cuda_call *call,
                                                  void *stream, peal_diag *diag);

/* The same, in peal.h's words. */
PEAL_API PEAL_CHECK peal_status peal_cuda_allreduce(peal_cuda_comm *comm, const void *in, void *out,
                                                    size_t count, peal_dtype dtype, peal_op op,
                                                    void *stream, peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_cuda_reduce_scatter(peal_cuda_comm *comm, const void *in,
                                                         void *out, size_t count, peal_dtype dtype,
                                                         peal_op op, void *stream, peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_cuda_allgather(peal_cuda_comm *comm, const void *in, void *out,
                                                    size_t count, peal_dtype dtype, void *stream,
                                                    peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_cuda_alltoall(peal_cuda_comm *comm, const void *in, void *out,
                                                   size_t count, peal_dtype dtype, void *stream,
                                                   peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_cuda_broadcast(peal_cuda_comm *comm, const void *in, void *out,
                                                    size_t count, peal_dtype dtype, uint32_t root,
                                                    void *stream, peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_cuda_reduce(peal_cuda_comm *comm, const void *in, void *out,
                                                 size_t count, peal_dtype dtype, peal_op op,
                                                 uint32_t root, void *stream, peal_diag *diag);

/* ---- for programs without CUDA of their own, as peal(1) ------------------- */

/* Memory on the comm's device that is not symmetric, as cudaMalloc gives it. free accepts NULL.
 * Errors: ARG, MEMORY, IO. */
PEAL_API PEAL_CHECK peal_status peal_cuda_malloc(peal_cuda_comm *comm, size_t bytes,
                                                 peal_diag *diag, void **memory_out);
PEAL_API void peal_cuda_free(peal_cuda_comm *comm, void *memory);
/* A stream on the comm's device; waiting until it is empty (the comm's error, if that has ended);
 * a copy in its order between host and device, or on the device. Errors: ARG, IO, MEMORY. */
PEAL_API PEAL_CHECK peal_status peal_cuda_stream_create(peal_cuda_comm *comm, peal_diag *diag,
                                                        void **stream_out);
PEAL_API void peal_cuda_stream_destroy(peal_cuda_comm *comm, void *stream);
PEAL_API PEAL_CHECK peal_status peal_cuda_stream_wait(peal_cuda_comm *comm, void *stream,
                                                      peal_diag *diag);
PEAL_API PEAL_CHECK peal_status peal_cuda_copy(peal_cuda_comm *comm, void *to, const void *from,
                                               size_t bytes, void *stream, peal_diag *diag);
/* Work to hide a call behind, for benches: a kernel on every SM of the comm's device that
 * multiplies so many pairs of tiles of PEAL_CUDA_TILE x PEAL_CUDA_TILE floats, and keeps nothing.
 * Errors: ARG, UNSUPPORTED (built without device code), IO. */
#define PEAL_CUDA_TILE 32
PEAL_API PEAL_CHECK peal_status peal_cuda_work(peal_cuda_comm *comm, uint64_t tiles, void *stream,
                                               peal_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
