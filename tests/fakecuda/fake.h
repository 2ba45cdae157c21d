/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for the CUDA driver, for tests on machines without a GPU: a libcuda.so.1 of which a
 * process finds what peal uses. Device memory is host memory, streams are threads that do what they
 * are given one after the other, the kernel is the host-compiled interpreter. What a driver would
 * leave undefined ends the process with a line on standard error that begins with "fakecuda:".
 *
 * The environment says what the machine has: FAKECUDA_DEVICES (8), FAKECUDA_SMS (132),
 * FAKECUDA_ARCH (90), FAKECUDA_VMM (1), FAKECUDA_PEER (1), FAKECUDA_MEM_OPS (1), FAKECUDA_DMA_BUF
 * (1), FAKECUDA_RDMA_ORDER (100: writes of NICs are seen in order by their device; 0: not),
 * FAKECUDA_FLUSH (0: memory operations cannot flush such writes), FAKECUDA_DELAY (0: streams dawdle
 * at random, from this seed), FAKECUDA_FABRIC (0; 1: fabric handles, 2: the device has them and
 * nobody is granted any, 3: they are granted and cannot be shown), FAKECUDA_MULTICAST (0),
 * FAKECUDA_STALL (0: none; this kernel of the process begins half a second late).
 */
#ifndef PEAL_TESTS_FAKE_H
#define PEAL_TESTS_FAKE_H

#include "cuda_abi.h"

#include <pthread.h>

#define FAKE_API __attribute__((visibility("default")))
#define X(member, symbol, parameters) FAKE_API cu_result symbol parameters;
CUDA_FUNCTIONS(X)
CUDA_OPTIONAL(X)
#undef X

/* A driver's function begins so: it may be the one that is to fail (fake_fail.c). */
#define FAKE_CALL()                                                                                \
    do {                                                                                           \
        cu_result fake_failure = fake_fails(__func__);                                             \
        if (fake_failure != CU_SUCCESS)                                                            \
            return fake_failure;                                                                   \
    } while (0)
cu_result fake_fails(const char *function);
/* What a program has of the driver and will have to give back; with any lock held. */
enum fake_held {
    FAKE_MEMORY,
    FAKE_HANDLES,
    FAKE_STREAMS,
    FAKE_EVENTS,
    FAKE_MODULES,
    FAKE_CONTEXTS
};
#define FAKE_HELD 6
void fake_hold(enum fake_held what, int more);

void fake_misuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
uint64_t fake_setting(const char *name, uint64_t otherwise);

/* One lock over all that is not the work of streams. */
extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_moved; /* a stream has done something */

/* ---- contexts (fake_driver.c) */
struct fake_context {
    int device;
    uint32_t users;
    uint32_t peers;             /* devices whose memory it may reach, a bit each */
    struct fake_stream *legacy; /* the NULL stream */
};
/* The thread's; ends the process without one. */
struct fake_context *fake_current(const char *function);
/* Not while streams are captured, by a thread that has not said that it knows what it does. */
void fake_not_captured(const char *function);
void fake_count_captures(int more); /* under way; with the lock held */

/* ---- memory (fake_memory.c, fake_multicast.c) */
#define FAKE_GRAIN (2ul << 20)
#define FAKE_SWITCH_GRAIN (2 * FAKE_GRAIN) /* of multicast objects: unlike that of memory */
#define FAKE_DEVICES 16u
struct fake_handle { /* of cuMemCreate or cuMulticastCreate */
    uint32_t magic;
    int fd;
    size_t bytes;
    int device;
    int types;                  /* that it can be exported as */
    struct fake_object *object; /* multicast: what all its processes share */
};
struct fake_handle *fake_handle_of(const char *function, cu_ptr at);
cu_result fake_handle_new(cu_ptr *to, const struct fake_handle *like);
/* Another process's file; -1: it is gone. */
int fake_open_file(uint32_t pid, int fd);
struct fake_object *fake_object_map(int fd);
void fake_object_unmap(struct fake_object *object);
/* Ends the process where the driver would wait for devices that were not added. */
void fake_object_complete(const char *function, const struct fake_object *object);
size_t fake_object_bytes(const struct fake_object *object);
/* Views of the members' memory, made as they are needed. With the lock held. */
cu_ptr fake_object_member(struct fake_object *object, cu_ptr *views, uint64_t offset, uint32_t nth);
/* That all bytes are of one live allocation of a device or of pinned memory, or of none (plain host
 * memory); else the process ends. */
/* Memory of the host that the driver gave. */
int fake_is_pinned(cu_ptr at);
void fake_check_range(const char *what, cu_ptr at, size_t bytes);
/* That a kernel of the device reaches it, if it is memory of this process's driver. */
void fake_check_reach(const char *what, cu_ptr at, const struct fake_context *context);
/* That a copy by the device reaches it: of plain memory the driver knows the way to each. */
void fake_check_copied(const char *what, cu_ptr at, const struct fake_context *context);
/* Where the nth rank's part of a multicast address is; 0: there is none. */
cu_ptr fake_member(cu_ptr at, uint32_t nth);
/* Sets bytes; gives memory back where they are zero. */
void fake_set(cu_ptr at, unsigned char value, size_t bytes);

/* ---- streams (fake_stream.c) */
enum fake_kind {
    FAKE_COPY,
    FAKE_COPIES, /* a batch */
    FAKE_SET,
    FAKE_MEM_OPS,
    FAKE_LAUNCH,
    FAKE_RECORD,
    FAKE_WAIT,
    FAKE_GRAPH
};

struct fake_event;
struct fake_graph;

struct fake_op {
    enum fake_kind kind;
    cu_ptr to;
    cu_ptr from;
    size_t bytes;
    unsigned char value;
    unsigned count;                   /* memory operations */
    struct cu_mem_op ops[CU_OPS_MAX]; /* copies of a batch: address, alias and value */
    const struct fake_context *context;
    unsigned blocks;
    unsigned threads;
    unsigned shared;
    const void *function;
    char argument[256];
    struct fake_event *event;
    uint64_t generation;
    struct fake_graph *graph;
    struct fake_op *next;
};

struct fake_event {
    const struct fake_context *context;
    uint64_t recorded;
    uint64_t done;
    struct fake_graph *graph; /* last recorded in a capture: of which, */
    uint32_t node;            /* by which node */
    uint32_t magic;
};

struct fake_stream {
    uint32_t magic;
    struct fake_context *context;
    pthread_t thread;
    struct fake_op *first;
    struct fake_op *last;
    uint32_t pending;
    int stop;
    struct fake_graph *capture; /* NULL: none */
    uint32_t branch;            /* of it */
    uint64_t random;
};

struct fake_stream *fake_stream_new(struct fake_context *context);
/* Does one operation; `waits` for its events are done by the caller. */
void fake_do(struct fake_op *op);
cu_result fake_give(cu_handle stream, const struct fake_op *op);
void fake_launch_kernel(const struct fake_op *op); /* fake_kernel.c */
void fake_check_loaded(cu_handle function);

/* ---- graphs (fake_graph.c) */
/* Takes the operation where the stream is captured. With the lock held. */
int fake_captured(struct fake_stream *stream, const struct fake_op *op);
void fake_capture_record(struct fake_stream *stream, struct fake_event *event);
/* 1: the stream is of the event's capture, now. */
int fake_capture_wait(struct fake_stream *stream, struct fake_event *event);
void fake_graph_run(struct fake_graph *graph);

FAKE_API cu_result cuStreamBeginCapture_v2(cu_handle stream, int mode);
FAKE_API cu_result cuStreamEndCapture(cu_handle stream, cu_handle *graph);
FAKE_API cu_result cuGraphInstantiateWithFlags(cu_handle *exec, cu_handle graph,
                                               unsigned long long flags);
FAKE_API cu_result cuGraphLaunch(cu_handle exec, cu_handle stream);
FAKE_API cu_result cuGraphDestroy(cu_handle graph);
FAKE_API cu_result cuGraphExecDestroy(cu_handle exec);
FAKE_API int peal_stand_in_driver(void);

/* ---- for tests of this process */
/* The nth call from now on fails, of all threads; 0: none does. Calls that give something back do
 * not. */
FAKE_API void peal_stand_in_fail(uint32_t nth);
/* In front of it something is done, in the thread that makes it, and it does not fail. */
FAKE_API void peal_stand_in_at(uint32_t nth, void (*what)(void));
/* Which one it was; NULL: it was not reached. */
FAKE_API const char *peal_stand_in_failed(void);
/* Devices whose memory the given one may touch, a bit each. */
FAKE_API uint32_t peal_stand_in_peers(int device);
/* Pairs that kernels post to go between hosts, which are threads of this process. While no comm has
 * any. */
FAKE_API void peal_stand_in_joins(int on);
/* What is held: how many of each (enum fake_held). */
FAKE_API void peal_stand_in_held(uint32_t *counts);

#endif
